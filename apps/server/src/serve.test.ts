// The process around the handler, on a real socket: who reaches it, and how it stops.

import { once } from "node:events";
import { request } from "node:http";
import { connect } from "node:net";
import { networkInterfaces } from "node:os";

import { isLoopback, startServer } from "@everturn/server";
import { engine, fake } from "everturn";
import { memoryStorage } from "everturn/host/memory";
import { runtime } from "everturn/runtime";
import { afterEach, describe, expect, test } from "vitest";

import { handModel } from "../../../lib/test/hand-model.ts";

const hasIpv6 = Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === "::1"));
const thisMachine = [
  "127.0.0.1",
  "localhost",
  ...(process.platform === "linux" ? ["127.8.9.1"] : []),
  ...(hasIpv6 ? ["::1", "[::1]"] : []),
];
const globals = [Request, Response];

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

/** What is answered to somebody new; `null`: there was no room. */
async function statusOf({ url }: { readonly url: string }): Promise<number | null> {
  return fetch(`${url}/health`).then(
    ({ status }) => status,
    () => null,
  );
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

  test.each(thisMachine)("on %s, under the name it gives", async (host) => {
    const { server } = await serve({ host });
    expect((await fetch(`${server.url}/sessions`)).status).toBe(200);
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
  expect(heard).toMatch(/: server shutting down; reconnect with Last-Event-ID\n\n$/);
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

test("closing waits for nobody who never finishes, and closing twice is closing once", async () => {
  const { server } = await serve();
  const socket = connect(server.port, "127.0.0.1");
  socket.on("error", () => undefined);
  // Not `once`, which rejects when the server resets the connection: that is an end too.
  const left = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  socket.write("POST /sessions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n");
  socket.write("content-length: 9\r\nexpect: 100-continue\r\n\r\n");
  // By the time it is told to go on, it is being answered.
  await once(socket, "data");
  socket.write("{");
  const closed = server.close({ graceMs: 20 });
  expect(server.close()).toBe(closed);
  await closed;
  await left;
});

test("whoever takes nothing of a long answer is let go, and makes room for others", async () => {
  const { server, sessions } = await serve({ limits: { slowReaderMs: 20, requests: 1, streams: 1 } });
  // More than sockets hold.
  await (
    await sessions.start("x".repeat(32 * 1_048_576), { id: "long" })
  ).result;
  for (let count = 0; count < 2; count += 1) {
    const asked = request(`${server.url}/sessions/long/messages`, { agent: false }).on("error", () => undefined);
    running.unshift(async () => void asked.destroy());
    asked.end();
    await once(asked, "response");
  }
  await expect.poll(() => statusOf(server), { timeout: 10_000 }).toBe(200);
});

test("a server takes as many connections as it has places, and the next one when there is room again", async () => {
  const { server } = await serve({ limits: { requests: 1, streams: 1 } });
  const sockets = Array.from({ length: 3 }, () => connect(server.port, "127.0.0.1").on("error", () => undefined));
  running.unshift(async () => sockets.forEach((socket) => socket.destroy()));
  await Promise.race(sockets.map((socket) => once(socket, "close")));
  expect(sockets.filter((socket) => !socket.destroyed)).toHaveLength(2);
  for (const socket of sockets) socket.destroy();
  await expect.poll(() => statusOf(server)).toBe(200);
});

test("what a process has for requests and answers is left as it is", async () => {
  const { server } = await serve();
  await fetch(`${server.url}/health`);
  expect([Request, Response]).toEqual(globals);
});

test("an answer that is being read when the process stops is read to its end", async () => {
  const { server, sessions } = await serve({ limits: { bodyBytes: 20_000_000, pageLength: 50_000_000 } });
  for (let index = 0; index < 12; index += 1) {
    await (
      await sessions.start("hi", { id: `s${index}`, metadata: { much: "x".repeat(1_000_000) } })
    ).result;
  }
  const socket = connect(server.port, "127.0.0.1");
  socket.write("GET /sessions?limit=12 HTTP/1.1\r\nhost: localhost\r\n\r\n");
  await once(socket, "readable");
  // The rest is too much for what lies between the two, so it is still here when the stop begins.
  const closed = server.close({ graceMs: 20_000 });
  let size = 0;
  let head = "";
  socket.on("data", (bytes) => {
    if (head === "") head = bytes.toString("latin1").split("\r\n\r\n")[0] ?? "";
    size += bytes.length;
  });
  await closed;
  if (!socket.closed) await once(socket, "close");
  expect(size).toBe(Number(/content-length: (\d+)/i.exec(head)?.[1]) + head.length + 4);
});
