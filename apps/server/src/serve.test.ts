// The server on a real socket: listening addresses, DNS rebinding, malformed requests, connection limits and graceful
// shutdown.

import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { request } from "node:http";
import { connect } from "node:net";
import { networkInterfaces, tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { isLoopback, startServer } from "@everturn/server";
import { engine, fake, tool } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";
import Libsql from "libsql";
import { afterEach, describe, expect, test, vi } from "vitest";

import { handModel } from "../../../lib/test/hand-model.ts";

const hasIpv6 = Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === "::1"));
const loopbackHosts = [
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

/** The status of a request on a new connection; `null`: the connection was refused. */
async function statusOf({ url }: { readonly url: string }): Promise<number | null> {
  return fetch(`${url}/health`).then(
    ({ status }) => status,
    () => null,
  );
}

describe("the listening address", () => {
  test.each(["0.0.0.0", "::", "192.0.2.1", "example.com"])("%s is refused without a token", async (host) => {
    const { sessions } = await serve();
    await expect(startServer({ sessions, auth: "none", host })).rejects.toThrow(/set a token, or listen on 127/);
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
  ])("%s is loopback: %s", (host, expected) => {
    expect(isLoopback(host)).toBe(expected);
  });

  test.each(loopbackHosts)("%s is served at the URL that the server reports", async (host) => {
    const { server } = await serve({ host });
    expect((await fetch(`${server.url}/sessions`)).status).toBe(200);
  });

  test("localhost is reported as the address that is bound: another process may listen at its other address", async () => {
    const { server } = await serve({ host: "localhost" });
    expect(new URL(server.url).hostname).toMatch(/^(?:127\.0\.0\.1|\[::1\])$/);
  });

  test("rejects a port that is in use", async () => {
    const { server, sessions } = await serve();
    await expect(startServer({ sessions, auth: "none", port: server.port })).rejects.toThrow(/EADDRINUSE/);
  });
});

test("rejects a Host header that is not on the loopback allowlist (DNS rebinding)", async () => {
  const { server } = await serve();
  const status = async (host: string) => {
    const sent = request(`${server.url}/sessions`, { headers: { host } }).end();
    const [response] = await once(sent, "response");
    response.resume();
    return response.statusCode;
  };
  expect(await status(`127.0.0.1:${server.port}`)).toBe(200);
  expect(await status(`localhost:${server.port}`)).toBe(200);
  expect(await status(`rebound.example:${server.port}`)).toBe(403);
});

test.each([
  ["text that is not HTTP", "hello\r\n\r\n", /^HTTP\/1.1 400/],
  ["an invalid request target", "GET http:// HTTP/1.1\r\nhost: localhost\r\n\r\n", /^HTTP\/1.1 4\d\d/],
  [
    "two Content-Length headers (request smuggling)",
    "POST /sessions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
    /^HTTP\/1.1 400/,
  ],
  [
    "Content-Length with Transfer-Encoding (request smuggling)",
    "POST /sessions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    /^HTTP\/1.1 400/,
  ],
  ["a missing Host header", "GET /sessions HTTP/1.1\r\n\r\n", /^HTTP\/1.1 400/],
  [
    "headers over the size limit",
    `GET /sessions HTTP/1.1\r\nhost: localhost\r\nx: ${"y".repeat(40_000)}\r\n\r\n`,
    /^HTTP\/1.1 431/,
  ],
])("rejects %s and serves the next request", async (_, bytes, expected) => {
  const { server } = await serve();
  const socket = connect(server.port, "127.0.0.1");
  socket.end(bytes);
  let answer = "";
  socket.setEncoding("utf8").on("data", (text) => (answer += text));
  await once(socket, "close");
  expect(answer).toMatch(expected);
  expect((await fetch(`${server.url}/health`)).status).toBe(200);
});

test("shutdown ends streams and releases the turn; the next process completes it, and the reader resumes from its cursor", async () => {
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
  let received = "";
  while (!received.includes('"delta":"One. "')) received += (await read()) ?? "";
  const closed = first.close({ graceMs: 10 });
  for (let more = await read(); more !== null; more = await read()) received += more;
  await closed;
  expect(received).toMatch(/: server shutting down; reconnect with Last-Event-ID\n\n$/);
  const cursor =
    received
      .match(/^id: (.*)$/gm)
      ?.at(-1)
      ?.slice(4) ?? "";

  const next = runtime({ host, engines });
  const second = await startServer({ sessions: next, auth: "none" });
  running.push(() => second.close({ graceMs: 10 }));
  await next.recover();
  const resumed = fetch(`${second.url}/sessions/s1/turns/${turn}/events`, { headers: { "last-event-id": cursor } });
  const call = await model.call(2);
  await call.say("Once more.");
  call.finish();
  const resumedText = await (await resumed).text();
  expect(resumedText).toContain('"type":"step_reset"');
  expect(resumedText).toContain('"text":"Once more."');
  expect(resumedText).toMatch(/event: end\n/);
});

test("shutdown lets a reader receive the reply that is finished before the turn is handed over", async () => {
  const model = handModel();
  const engines = { default: engine({ adapter: model, model: "hand:m" }) };
  const server = await startServer({ sessions: runtime({ host: memoryStorage(), engines }), auth: "none" });
  running.push(() => server.close({ graceMs: 10 }));
  const started = await fetch(`${server.url}/sessions`, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "text/event-stream" },
    body: JSON.stringify({ input: "hi", id: "s1" }),
  });
  const call = await model.call(1);
  await call.say("One ");
  const closed = server.close({ graceMs: 20_000 });
  const refused = await fetch(`${server.url}/sessions/s1`);
  expect([refused.status, refused.headers.get("connection")]).toEqual([503, "close"]);
  await call.say("two.");
  call.finish();
  const received = await started.text();
  expect(received).toContain('"delta":"two."');
  // The turn is handed over at the commit of the reply.
  expect(received).toMatch(/: server shutting down; reconnect with Last-Event-ID\n\n$/);
  await closed;
});

test("shutdown does not wait for an unfinished request, and a second close returns the first promise", async () => {
  const { server } = await serve();
  const socket = connect(server.port, "127.0.0.1");
  socket.on("error", () => undefined);
  // Not `once`, which rejects when the server resets the connection: a reset also ends it.
  const disconnected = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  socket.write("POST /sessions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n");
  socket.write("content-length: 9\r\nexpect: 100-continue\r\n\r\n");
  // The `100 Continue` response shows that the handler is running.
  await once(socket, "data");
  socket.write("{");
  const closed = server.close({ graceMs: 20 });
  expect(server.close()).toBe(closed);
  await closed;
  await disconnected;
});

test("disconnects a client that does not read a long response, which frees its connection", async () => {
  const { server, sessions } = await serve({ limits: { slowReaderMs: 20, requests: 1, streams: 1 } });
  // More than the socket buffers.
  await (
    await sessions.start("x".repeat(32 * 1_048_576), { id: "long" })
  ).result;
  for (let count = 0; count < 2; count += 1) {
    const sent = request(`${server.url}/sessions/long/messages`, { agent: false }).on("error", () => undefined);
    running.unshift(async () => void sent.destroy());
    sent.end();
    await once(sent, "response");
  }
  await expect.poll(() => statusOf(server), { timeout: 10_000 }).toBe(200);
});

test("accepts connections up to its limit, and accepts again when one closes", async () => {
  const { server } = await serve({ limits: { requests: 1, streams: 1 } });
  const sockets = Array.from({ length: 3 }, () => connect(server.port, "127.0.0.1").on("error", () => undefined));
  running.unshift(async () => sockets.forEach((socket) => socket.destroy()));
  await Promise.race(sockets.map((socket) => once(socket, "close")));
  expect(sockets.filter((socket) => !socket.destroyed)).toHaveLength(2);
  for (const socket of sockets) socket.destroy();
  await expect.poll(() => statusOf(server)).toBe(200);
});

test("does not replace the global Request and Response", async () => {
  const { server } = await serve();
  await fetch(`${server.url}/health`);
  expect([Request, Response]).toEqual(globals);
});

test("shutdown drains a response that a client is still reading", async () => {
  const { server, sessions } = await serve({ limits: { bodyBytes: 20_000_000, pageLength: 50_000_000 } });
  for (let index = 0; index < 12; index += 1) {
    await (
      await sessions.start("hi", { id: `s${index}`, metadata: { much: "x".repeat(1_000_000) } })
    ).result;
  }
  const socket = connect(server.port, "127.0.0.1");
  socket.write("GET /sessions?limit=12 HTTP/1.1\r\nhost: localhost\r\n\r\n");
  await once(socket, "readable");
  // The response is larger than the socket buffers, so part of it is still in this process when the shutdown begins.
  const closed = server.close({ graceMs: 20_000 });
  let received = "";
  socket.on("data", (bytes) => (received += bytes.toString("latin1")));
  await closed;
  if (!socket.closed) await once(socket, "close");
  // The last chunk of the chunked transfer coding (RFC 9112, section 7.1).
  expect(received.slice(-7)).toBe("\r\n0\r\n\r\n");
  expect(received.length).toBeGreaterThan(12_000_000);
});

test("reports every exception of a tool to onError, also if onError throws, and none after the server is closed", async () => {
  const query = tool({
    name: "query",
    description: "Queries.",
    schema: { type: "object" },
    handler: () => Promise.reject(new Error("connect ECONNREFUSED db.internal")),
  });
  const calls = ["call-1", "call-2", "call-3"].map(
    (id) => ({ type: "tool_call", id, name: "query", arguments: {} }) as const,
  );
  const scripts = calls.flatMap((call) => [[call], [{ type: "text", text: "Sorry." } as const]]);
  const sessions = runtime({
    host: memoryStorage(),
    engines: { default: engine({ adapter: fake({ scripts }), model: "fake:m", tools: [query] }) },
  });
  const errors: string[] = [];
  const { server } = await serve({
    sessions,
    onError: (error) => {
      errors.push(String(error));
      throw new Error("the log is full");
    },
  });
  const start = async () => {
    const headers = { "content-type": "application/json", prefer: "wait=10" };
    const response = await fetch(`${server.url}/sessions`, {
      method: "POST",
      headers,
      body: JSON.stringify({ input: "hi" }),
    });
    expect([response.status, await response.text()]).toEqual([200, expect.not.stringContaining("ECONNREFUSED")]);
  };
  await start();
  await start();
  const text = (id: string) => `Error: the tool query failed (error of call ${id}): connect ECONNREFUSED db.internal`;
  expect(errors).toEqual([text("call-1"), text("call-2")]);
  await server.close({ graceMs: 100 });
  const other = runtime({
    host: memoryStorage(),
    engines: { default: engine({ adapter: fake({ scripts }), model: "fake:m", tools: [query] }) },
  });
  await (
    await other.start("hi")
  ).result;
  expect(errors).toHaveLength(2);
});

test("reports the errors of its worker to onError, with their number, and goes on", async () => {
  const file = join(mkdtempSync(join(tmpdir(), "everturn-server-")), "test.db");
  const database = new Libsql(file);
  const host = sqliteStorage(database);
  const agent = engine({ adapter: fake({ script: [{ type: "text", text: "Hello." }] }), model: "fake:m" });
  const errors: string[] = [];
  const { server } = await serve({
    sessions: runtime({ host, engines: { default: agent } }),
    onError: (error) => void errors.push(String(error)),
  });
  database.exec("ALTER TABLE everturn_work RENAME TO moved");
  const pattern =
    /^Error: the worker could not do all of its work, and tries again \(error \d+\): the storage .* failed/;
  await vi.waitFor(() => expect(errors).toContainEqual(expect.stringMatching(pattern)), { timeout: 20_000 });
  database.exec("ALTER TABLE moved RENAME TO everturn_work");
  await runtime({ host, engines: { default: agent }, drive: false }).start("hi", { id: "s" });
  const statusOf = async () => (await fetch(`${server.url}/sessions/s`)).text();
  await vi.waitFor(async () => expect(await statusOf()).toContain('"completed"'), { timeout: 20_000 });
  running.push(async () => {
    database.close();
    rmSync(dirname(file), { recursive: true });
  });
});

describe("a reverse proxy in front of a server without authentication", () => {
  const forwarded = [
    ["Forwarded", "for=192.0.2.7"],
    ["X-Forwarded-For", "192.0.2.7"],
    ["X-Forwarded-Host", "agents.example.com"],
    ["X-Forwarded-Proto", "https"],
    ["X-Real-IP", "192.0.2.7"],
    ["Via", "1.1 proxy"],
  ] as const;

  test.each(forwarded)("a request with %s is refused", async (name, value) => {
    const { server } = await serve();
    const answer = await fetch(`${server.url}/sessions`, { headers: { [name]: value } });
    expect(answer.status).toBe(403);
    expect(await answer.json()).toMatchObject({
      error: { type: "http_error", reason: "forbidden", message: expect.stringContaining(name.toLowerCase()) },
    });
  });

  test("a request with the header is accepted if the server authenticates", async () => {
    const token = "0123456789abcdef";
    const { server } = await serve({ auth: [{ token }] });
    const headers = { authorization: `Bearer ${token}`, "x-forwarded-for": "192.0.2.7" };
    expect((await fetch(`${server.url}/sessions`, { headers })).status).toBe(200);
  });
});
