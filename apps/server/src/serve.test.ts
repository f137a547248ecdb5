// The process around the handler, on a real socket: who reaches it, and how it stops.

import { once } from "node:events";
import { request } from "node:http";
import { connect } from "node:net";

import { isLoopback, startServer } from "@everturn/server";
import { engine, fake } from "everturn";
import { memoryStorage } from "everturn/host/memory";
import { runtime } from "everturn/runtime";
import { afterEach, describe, expect, test } from "vitest";

import { handModel } from "../../../lib/test/hand-model.ts";

const running: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of running.splice(0)) await close();
});

async function serve(options: Partial<Parameters<typeof startServer>[0]> = {}) {
  const agent = engine({ adapter: fake({ script: [{ type: "text", text: "Hello." }] }), model: "fake:m" });
  const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
  const server = await startServer({ sessions, auth: "none", ...options });
  running.push(() => server.close({ graceMs: 100 }));
  return { server, sessions };
}

describe("where it listens", () => {
  test.each(["0.0.0.0", "::", "192.0.2.1", "example.com"])("not on %s without a key", async (host) => {
    const { sessions } = await serve();
    await expect(startServer({ sessions, auth: "none", host })).rejects.toThrow(/give the server a token/);
  });

  test.each([
    ["127.0.0.1", true],
    ["127.8.9.1", true],
    ["localhost", true],
    ["::1", true],
    ["[::1]", true],
    ["0.0.0.0", false],
    ["::", false],
    ["127.0.0.1.example.com", false],
    ["localhost.example.com", false],
    ["1270.0.0.1", false],
  ])("%s is this machine: %s", (host, here) => {
    expect(isLoopback(host)).toBe(here);
  });

  test("a port that is taken is said so", async () => {
    const { server, sessions } = await serve();
    await expect(startServer({ sessions, auth: "none", port: server.port })).rejects.toThrow(/EADDRINUSE/);
  });
});

test("a page that had its own name resolve to this machine is turned away", async () => {
  const { server } = await serve();
  const status = async (host: string) => {
    const asked = request(`${server.url}/sessions`, { headers: { host } }).end();
    const [answer] = await once(asked, "response");
    answer.resume();
    return answer.statusCode;
  };
  expect(await status(`127.0.0.1:${server.port}`)).toBe(200);
  expect(await status(`localhost:${server.port}`)).toBe(200);
  expect(await status(`rebound.example:${server.port}`)).toBe(403);
});

test.each([
  ["no request at all", "hello\r\n\r\n", /^HTTP\/1.1 400/],
  ["a path that is no path", "GET http:// HTTP/1.1\r\nhost: localhost\r\n\r\n", /^HTTP\/1.1 4\d\d/],
  [
    "two lengths",
    "POST /sessions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
    /^HTTP\/1.1 400/,
  ],
  [
    "a length and chunks",
    "POST /sessions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    /^HTTP\/1.1 400/,
  ],
  ["no host", "GET /sessions HTTP/1.1\r\n\r\n", /^HTTP\/1.1 400/],
  [
    "endless headers",
    `GET /sessions HTTP/1.1\r\nhost: localhost\r\nx: ${"y".repeat(40_000)}\r\n\r\n`,
    /^HTTP\/1.1 431/,
  ],
])("%s is answered, and the next one is served", async (_, bytes, expected) => {
  const { server } = await serve();
  const socket = connect(server.port, "127.0.0.1");
  socket.end(bytes);
  let answer = "";
  socket.setEncoding("utf8").on("data", (text) => (answer += text));
  await once(socket, "close");
  expect(answer).toMatch(expected);
  expect((await fetch(`${server.url}/health`)).status).toBe(200);
});

test("closing ends streams with a word and hands the turn over; the next process finishes it, and the reader comes back by its cursor", async () => {
  const host = memoryStorage();
  const model = handModel();
  const engines = { default: engine({ adapter: model, model: "hand:m" }) };
  const first = await startServer({ sessions: runtime({ host, engines }), auth: "none" });
  running.push(() => first.close({ graceMs: 10 }));
  const started = await fetch(`${first.url}/sessions`, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "text/event-stream" },
    body: JSON.stringify({ input: "hi", id: "s1" }),
  });
  const turn = started.headers.get("everturn-turn");
  await (await model.call(1)).say("One. ");
  const reader = started.body?.pipeThrough(new TextDecoderStream()).getReader();
  const read = async () => (await reader?.read())?.value ?? null;
  let heard = "";
  while (!heard.includes('"delta":"One. "')) heard += (await read()) ?? "";
  const closed = first.close({ graceMs: 10 });
  for (let more = await read(); more !== null; more = await read()) heard += more;
  await closed;
  expect(heard).toMatch(/: this process stops; come back with the last id\n\n$/);
  const cursor =
    heard
      .match(/^id: (.*)$/gm)
      ?.at(-1)
      ?.slice(4) ?? "";

  const next = runtime({ host, engines });
  const second = await startServer({ sessions: next, auth: "none" });
  running.push(() => second.close({ graceMs: 10 }));
  await next.recover();
  const rest = fetch(`${second.url}/sessions/s1/turns/${turn}/events`, { headers: { "last-event-id": cursor } });
  const call = await model.call(2);
  await call.say("Once more.");
  call.finish();
  const told = await (await rest).text();
  expect(told).toContain('"type":"step_reset"');
  expect(told).toContain('"text":"Once more."');
  expect(told).toMatch(/event: end\n/);
});
