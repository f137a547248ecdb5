// Regression tests on a real socket: clients that disconnect before the response, clients that never finish their
// request, and requests that are in progress when the server stops.

import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as timeout } from "node:timers/promises";

import { startServer } from "@everturn/server";
import { engine, fake } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { afterEach, expect, test } from "vitest";

import { networkOf } from "./serve.ts";

const token = "a-secret-bearer-token";
const key = { authorization: `Bearer ${token}`, "content-type": "application/json" };

const running: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of running.splice(0)) await close();
});

async function serve(options: Partial<Parameters<typeof startServer>[0]> = {}, host = memoryStorage()) {
  const scripts = Array.from({ length: 20 }, () => [{ type: "text", text: "Hello." } as const]);
  const sessions = runtime({ host, engines: { default: engine({ adapter: fake({ scripts }), model: "fake:m" }) } });
  const server = await startServer({ sessions, auth: [{ token, operator: true }], ...options });
  running.push(() => server.close({ graceMs: 100 }));
  return { server, sessions };
}

test("frees the stream slots of readers that disconnect before the response", async () => {
  const { server, sessions } = await serve({ limits: { streamsPerTenant: 5 } });
  await (
    await sessions.start("hi", { id: "s" })
  ).result;
  const head = `GET /sessions/s/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\n\r\n`;
  for (let count = 0; count < 40; count += 1) {
    const socket = connect(server.port, "127.0.0.1");
    socket.on("error", () => undefined);
    await once(socket, "connect");
    socket.write(head, () => socket.resetAndDestroy());
    await once(socket, "close");
  }
  const watch = async () => {
    const disconnect = new AbortController();
    const { status } = await fetch(`${server.url}/sessions/s/events`, { headers: key, signal: disconnect.signal });
    disconnect.abort();
    return status;
  };
  await expect.poll(watch).toBe(200);
});

test("answers authenticated requests while unauthenticated clients hold unfinished ones", async () => {
  const { server } = await serve({ limits: { requests: 4 } });
  const head = "POST /complete HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{";
  const sockets = Array.from({ length: 6 }, () => connect(server.port, "127.0.0.1"));
  running.unshift(async () => sockets.forEach((socket) => socket.destroy()));
  for (const socket of sockets) {
    socket.on("error", () => undefined);
    socket.write(head);
  }
  // The requests over the limit are rejected; by then the others hold all slots.
  await Promise.race(sockets.map((socket) => once(socket, "data")));
  expect((await fetch(`${server.url}/sessions`, { headers: key })).status).toBe(200);
  expect((await fetch(`${server.url}/health`)).status).toBe(200);
});

test("ends an unfinished request when its time is over, with 408 and within a second", async () => {
  const { server } = await serve({ limits: { bodyMs: 300 } });
  const socket = connect(server.port, "127.0.0.1");
  running.unshift(async () => void socket.destroy());
  socket.on("error", () => undefined);
  const since = performance.now();
  socket.write(
    `POST /sessions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{`,
  );
  const [data] = await once(socket, "data");
  expect(String(data)).toMatch(/^HTTP\/1\.1 408 /);
  expect(performance.now() - since).toBeGreaterThanOrEqual(299);
  expect(performance.now() - since).toBeLessThan(1300);
  await once(socket, "close");
});

// The times follow from `bodyMs: 100`: a head has 100 ms, and a body that no route reads another 100 ms. A body with
// another method than GET and HEAD is discarded earlier, after the response (@hono/node-server). Clients that continue
// to send are not idle, so that no other timeout ends their connections.
test.each([
  ["that sends nothing", 100, "", ""],
  ["whose head arrives slowly", 100, "GET /sessions HTTP/1.1\r\nhost: x\r\n", "x-a: 1\r\n"],
  ["whose unread body arrives slowly", 200, "GET /health HTTP/1.1\r\nhost: x\r\ncontent-length: 900\r\n\r\n", "a"],
  [
    "whose unread chunks arrive slowly",
    200,
    "GET /health HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n",
    "1\r\na\r\n",
  ],
  ["whose rejected body arrives slowly", 0, "POST /none HTTP/1.1\r\nhost: x\r\ncontent-length: 900\r\n\r\n", "a"],
])("closes a connection %s within a second after %d ms", { retry: 2 }, async (_, limitMs, head, part) => {
  const { server } = await serve({ limits: { bodyMs: 100 } });
  const socket = connect(server.port, "127.0.0.1");
  running.unshift(async () => void socket.destroy());
  socket.on("error", () => undefined);
  const closed = once(socket, "close");
  const since = performance.now();
  socket.resume();
  socket.write(head);
  const sending = setInterval(() => socket.write(part), 50);
  const isClosed = await Promise.race([closed.then(() => true), timeout(4000, false, { ref: false })]);
  clearInterval(sending);
  const elapsedMs = performance.now() - since;
  expect(isClosed).toBe(true);
  expect(elapsedMs).toBeGreaterThanOrEqual(limitMs - 1);
  expect(elapsedMs).toBeLessThan(limitMs + 1000);
});

test.each([
  ["large headers", (count: number) => `x-${count}: ${"a".repeat(1000)}\r\n`, ""],
  ["a chunk extension without an end", () => ";a=b".repeat(250), "transfer-encoding: chunked\r\n\r\n1"],
  [
    "a chunked body without an end",
    () => `3e8\r\n${"a".repeat(1000)}\r\n`,
    "content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
  ],
])("closes a connection with %s", async (_, part, head) => {
  const { server } = await serve({ limits: { bodyBytes: 16_384 } });
  const socket = connect(server.port, "127.0.0.1");
  running.unshift(async () => void socket.destroy());
  socket.on("error", () => undefined);
  socket.resume();
  const closed = new Promise<"closed">((resolve) => socket.once("close", () => resolve("closed")));
  socket.write(`POST /sessions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\n${head}`);
  for (let count = 0; !socket.destroyed; count += 1) {
    const drained = new Promise<"sent">((resolve) => socket.write(part(count), () => resolve("sent")));
    if ((await Promise.race([closed, drained])) === "closed") break;
  }
  await closed;
  expect((await fetch(`${server.url}/health`)).status).toBe(200);
});

test("disconnects a client that requests many small responses and reads none", async () => {
  const { server, sessions } = await serve({ connectionsPerAddress: 1, limits: { slowReaderMs: 300 } });
  await (
    await sessions.start("x".repeat(50_000), { id: "s" })
  ).result;
  const socket = connect(server.port, "127.0.0.1");
  running.unshift(async () => void socket.destroy());
  socket.on("error", () => undefined);
  socket.pause();
  socket.write(`GET /sessions/s HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\n\r\n`.repeat(400));
  const status = () =>
    fetch(`${server.url}/health`).then(
      (response) => response.status,
      () => 0,
    );
  expect(await status()).toBe(0);
  await expect.poll(status, { timeout: 10_000, interval: 200 }).toBe(200);
});

test("one address gets at most its share of the connections", async () => {
  const { server } = await serve({ connectionsPerAddress: 2 });
  const open = async () => {
    const socket = connect(server.port, "127.0.0.1");
    socket.on("error", () => undefined);
    running.unshift(async () => void socket.destroy());
    await once(socket, "connect");
    return socket;
  };
  const first = await open();
  await open();
  await once(await open(), "close");
  first.destroy();
  await expect
    .poll(() =>
      fetch(`${server.url}/health`).then(
        ({ status }) => status,
        () => 0,
      ),
    )
    .toBe(200);
});

test.each([
  ["127.0.0.1", "127.0.0.1"],
  ["::ffff:192.0.2.7", "192.0.2.7"],
  ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
  ["2001:db8::6", "2001:db8:0:0::/64"],
  ["fe80::1%eth0", "fe80:0:0:0::/64"],
])("the address %s counts as %s", (address, network) => {
  expect(networkOf(address)).toBe(network);
});

test("answers a request that is being accepted when the server stops", async () => {
  const storage = memoryStorage();
  let reading = () => {};
  const started = new Promise<void>((resolve) => (reading = resolve));
  let release = () => {};
  const held = new Promise<void>((resolve) => (release = resolve));
  const host = {
    ...storage,
    read: async (queries: Parameters<typeof storage.read>[0]) => {
      if (queries.some(({ prefix }) => prefix[1] === "late")) {
        reading();
        await held;
      }
      return storage.read(queries);
    },
  };
  const { server, sessions } = await serve({ work: false }, host);
  const body = JSON.stringify({ input: "x", id: "late" });
  const pendingResponse = fetch(`${server.url}/sessions`, { method: "POST", headers: key, body });
  await started;
  const closing = server.close({ graceMs: 5000 });
  // Everything that stops immediately has stopped after this.
  await sessions.close();
  await new Promise((resolve) => setImmediate(resolve));
  release();
  expect((await pendingResponse).status).toBe(202);
  await closing;
});
