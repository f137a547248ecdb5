import type { Http2Stream } from "node:http2";
import type { Socket } from "node:net";

import { once } from "node:events";
import { connect, constants, createServer } from "node:http2";

import { afterEach, expect, test } from "vitest";

import { startHttp2Proxy } from "./http2-proxy.ts";

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

/** A process behind the proxy, and a client of the proxy. */
async function proxied(respond: (stream: Http2Stream) => void) {
  const sockets = new Set<Socket>();
  const service = createServer();
  service.on("connection", (socket: Socket) => sockets.add(socket));
  service.on("session", (session) => session.on("error", () => undefined));
  service.on("stream", (stream) => {
    stream.on("error", () => undefined);
    stream.respond({ ":status": 200 });
    respond(stream);
  });
  service.listen(0, "127.0.0.1");
  await once(service, "listening");
  const address = service.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const proxy = await startHttp2Proxy([port], "node");
  const client = connect(proxy.url);
  const kill = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  closing.push(
    () => service.close(),
    kill,
    proxy.close,
    () => client.destroy(),
  );
  return { client, kill };
}

/** What a caller got of a response, and the code with which it ended. */
async function read(stream: Http2Stream): Promise<{ readonly text: string; readonly code: number | undefined }> {
  let text = "";
  stream.on("data", (chunk: Buffer) => (text += chunk.toString()));
  stream.on("error", () => undefined);
  await new Promise<void>((resolve) => stream.once("close", () => resolve()));
  return { text, code: stream.rstCode };
}

test("passes a request and its whole response on", async () => {
  const { client } = await proxied((stream) => stream.pipe(stream));
  const request = client.request({ ":method": "POST", ":path": "/" });
  const sent = "x".repeat(300_000);
  request.end(sent);
  expect(await read(request)).toEqual({ text: sent, code: constants.NGHTTP2_NO_ERROR });
});

test("resets a response that the end of the process cuts off", async () => {
  const { client, kill } = await proxied((stream) => stream.write("a part"));
  const request = client.request({ ":method": "GET", ":path": "/" });
  request.once("data", kill);
  expect(await read(request)).toEqual({ text: "a part", code: constants.NGHTTP2_INTERNAL_ERROR });
});

test("resets the request to the process if the caller resets its own", async () => {
  const codes: (number | undefined)[] = [];
  const { client } = await proxied((stream) => {
    stream.resume();
    stream.write("a part");
    stream.once("close", () => codes.push(stream.rstCode));
  });
  const request = client.request({ ":method": "POST", ":path": "/" });
  request.write("a part");
  request.once("data", () => request.close(constants.NGHTTP2_CANCEL));
  await read(request);
  await expect.poll(() => codes).toEqual([constants.NGHTTP2_INTERNAL_ERROR]);
});
