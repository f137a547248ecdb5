// sendStream on a real socket: complete delivery, backpressure, and release of body and connection when either side
// ends early.

import type { IncomingMessage, Server } from "node:http";

import { once } from "node:events";
import { createServer, get } from "node:http";
import { text } from "node:stream/consumers";

import { afterEach, expect, test } from "vitest";

import { sendStream } from "./send-stream.ts";

const servers: Server[] = [];

afterEach(() => {
  for (const server of servers.splice(0)) server.close().closeAllConnections();
});

/**
 * Serves one stream and requests it. The response is not read automatically. `closed` resolves when the server has
 * closed the connection, `sent` when `sendStream` has returned.
 */
async function request(body: ReadableStream<Uint8Array>) {
  const response = new Response(body, { status: 203, headers: { "content-type": "text/event-stream" } });
  let sent: Promise<void> = Promise.resolve();
  let close: () => void = () => undefined;
  const closed = new Promise<void>((resolve) => {
    close = resolve;
  });
  const server = createServer((_, outgoing) => {
    outgoing.once("close", close);
    sent = sendStream(response, body, outgoing);
  });
  servers.push(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const clientRequest = get({ host: "127.0.0.1", port: typeof address === "object" ? address?.port : 0 });
  const [incoming]: readonly IncomingMessage[] = await once(clientRequest, "response");
  if (incoming === undefined) throw new Error("no response arrived");
  return { incoming, closed, sent };
}

const bytes = (size: number) => new Uint8Array(size).fill(46);

test("sends a stream completely, with status and headers", async () => {
  const { incoming } = await request(
    new ReadableStream({
      start: (controller) => {
        for (let count = 0; count < 40; count += 1) controller.enqueue(bytes(65_536));
        controller.close();
      },
    }),
  );
  expect([incoming.statusCode, incoming.headers["content-type"]]).toEqual([203, "text/event-stream"]);
  expect(await text(incoming)).toHaveLength(40 * 65_536);
});

test("sends the headers before the first chunk", async () => {
  expect((await request(new ReadableStream())).incoming.statusCode).toBe(203);
});

test("applies backpressure, and returns when a client that does not read disconnects", async () => {
  let pulledChunks = 0;
  const { incoming, sent } = await request(
    new ReadableStream({
      pull: (controller) => {
        pulledChunks += 1;
        controller.enqueue(bytes(65_536));
        if (pulledChunks === 1500) controller.close();
      },
    }),
  );
  await expect.poll(() => pulledChunks).toBeGreaterThan(1);
  for (let before = -1; before !== pulledChunks;) {
    before = pulledChunks;
    for (let turn = 0; turn < 50; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  }
  expect(pulledChunks).toBeLessThan(1500);
  incoming.destroy();
  await sent;
});

test("cancels the body when the client disconnects", async () => {
  let cancelled: () => void = () => undefined;
  const isCancelled = new Promise<void>((resolve) => {
    cancelled = resolve;
  });
  const { incoming } = await request(
    new ReadableStream({ start: (controller) => controller.enqueue(bytes(1)), cancel: () => cancelled() }),
  );
  await once(incoming, "data");
  incoming.destroy();
  await isCancelled;
});

test("closes the connection when the body fails while the client does not read", async () => {
  let fail: () => void = () => undefined;
  const { closed } = await request(
    new ReadableStream({
      start: (controller) => {
        // More than the socket buffers: `sendStream` waits for `drain` when the body fails.
        controller.enqueue(bytes(64 * 1_048_576));
        fail = () => controller.error(new Error("the body failed"));
      },
    }),
  );
  fail();
  await closed;
});

test("cancels the body when the client has disconnected before the response starts", async () => {
  let cancelled: () => void = () => undefined;
  const isCancelled = new Promise<void>((resolve) => {
    cancelled = resolve;
  });
  const body = new ReadableStream<Uint8Array>({ cancel: () => cancelled() });
  const server = createServer((_, outgoing) => {
    outgoing.once("close", () => void sendStream(new Response(null), body, outgoing));
    outgoing.destroy();
  });
  servers.push(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  get({ host: "127.0.0.1", port: typeof address === "object" ? address?.port : 0 }).on("error", () => undefined);
  await isCancelled;
});
