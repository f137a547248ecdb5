// Streams on their way to a socket: all of it, in order; and when somebody leaves, or the stream fails, nothing is left open and nothing is printed.

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

/** Serves one stream, and asks for it. What comes is not read by itself; `closed` resolves when the server has closed the connection, `sent` when it is done with the stream. */
async function ask(body: ReadableStream<Uint8Array>) {
  const answer = new Response(body, { status: 203, headers: { "content-type": "text/event-stream" } });
  let sent: Promise<void> = Promise.resolve();
  let close: () => void = () => undefined;
  const closed = new Promise<void>((resolve) => {
    close = resolve;
  });
  const server = createServer((_, to) => {
    to.once("close", close);
    sent = sendStream(answer, body, to);
  });
  servers.push(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const request = get({ host: "127.0.0.1", port: typeof address === "object" ? address?.port : 0 });
  const [incoming]: readonly IncomingMessage[] = await once(request, "response");
  if (incoming === undefined) throw new Error("there was no answer");
  return { incoming, closed, sent };
}

const bytes = (size: number) => new Uint8Array(size).fill(46);

test("a stream comes as a whole, with its headers", async () => {
  const { incoming } = await ask(
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

test("that it has begun is told before there is anything to say", async () => {
  expect((await ask(new ReadableStream())).incoming.statusCode).toBe(203);
});

test("no more is taken from a stream than somebody reads, and whoever leaves then is not waited for", async () => {
  let taken = 0;
  const { incoming, sent } = await ask(
    new ReadableStream({
      pull: (controller) => {
        taken += 1;
        controller.enqueue(bytes(65_536));
        if (taken === 1500) controller.close();
      },
    }),
  );
  await expect.poll(() => taken).toBeGreaterThan(1);
  for (let before = -1; before !== taken;) {
    before = taken;
    for (let turn = 0; turn < 50; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  }
  expect(taken).toBeLessThan(1500);
  incoming.destroy();
  await sent;
});

test("whoever leaves ends the stream", async () => {
  let cancelled: () => void = () => undefined;
  const isCancelled = new Promise<void>((resolve) => {
    cancelled = resolve;
  });
  const { incoming } = await ask(
    new ReadableStream({ start: (controller) => controller.enqueue(bytes(1)), cancel: () => cancelled() }),
  );
  await once(incoming, "data");
  incoming.destroy();
  await isCancelled;
});

test("a stream that fails while nobody takes anything closes the connection", async () => {
  let fail: () => void = () => undefined;
  const { closed } = await ask(
    new ReadableStream({
      start: (controller) => {
        // More than sockets hold: when it fails, it is being waited for room.
        controller.enqueue(bytes(64 * 1_048_576));
        fail = () => controller.error(new Error("it takes nothing"));
      },
    }),
  );
  fail();
  await closed;
});

test("whoever left before there was anything to say is not waited for", async () => {
  let cancelled: () => void = () => undefined;
  const isCancelled = new Promise<void>((resolve) => {
    cancelled = resolve;
  });
  const body = new ReadableStream<Uint8Array>({ cancel: () => cancelled() });
  const server = createServer((_, to) => {
    to.once("close", () => void sendStream(new Response(null), body, to));
    to.destroy();
  });
  servers.push(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  get({ host: "127.0.0.1", port: typeof address === "object" ? address?.port : 0 }).on("error", () => undefined);
  await isCancelled;
});
