// The request log of a server on a real socket.

import type { RequestEntry } from "@everturn/server";

import { once } from "node:events";
import { request } from "node:http";

import { startServer } from "@everturn/server";
import { engine, fake } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { afterEach, expect, test } from "vitest";

const token = "0123456789abcdef";
const running: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of running.splice(0)) await close();
});

async function serve() {
  const agent = engine({ adapter: fake({ script: [{ type: "text", text: "Hello." }] }), model: "fake:m" });
  const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
  const entries: RequestEntry[] = [];
  const waiting = new Set<() => void>();
  const server = await startServer({
    sessions,
    auth: [{ token, tenant: "acme", name: "ann" }],
    onRequest: (entry) => {
      entries.push(entry);
      for (const look of waiting) look();
    },
  });
  running.push(() => server.close({ graceMs: 100 }));
  /** Resolves when the log has that many entries. */
  const logged = (count: number) =>
    new Promise<readonly RequestEntry[]>((resolve) => {
      const look = () => entries.length >= count && resolve(entries);
      waiting.add(look);
      look();
    });
  return { server, logged };
}

test("has method, path, status, duration and caller of every request, and no query and no token", async () => {
  const { server, logged } = await serve();
  const authorization = `Bearer ${token}`;
  await (await fetch(`${server.url}/health?key=secret-in-the-query`)).text();
  await (await fetch(`${server.url}/sessions?limit=5`, { headers: { authorization } })).text();
  await (await fetch(`${server.url}/sessions`, { headers: { authorization: "Bearer wrong-wrong-wrong" } })).text();
  await (await fetch(`${server.url}/nowhere`, { method: "DELETE" })).text();
  const entries = await logged(4);
  const common = { isComplete: true, durationMs: expect.any(Number), address: "127.0.0.1" };
  expect(entries).toEqual([
    { ...common, method: "GET", path: "/health", status: 200, caller: null },
    { ...common, method: "GET", path: "/sessions", status: 200, caller: { tenant: "acme", name: "ann" } },
    { ...common, method: "GET", path: "/sessions", status: 401, caller: null },
    { ...common, method: "DELETE", path: "/nowhere", status: 404, caller: null },
  ]);
  expect(entries.every(({ durationMs }) => durationMs > 0)).toBe(true);
  expect(JSON.stringify(entries)).not.toMatch(/secret|0123456789abcdef|wrong|limit/);
});

test("has no user information of an absolute URL", async () => {
  const { server, logged } = await serve();
  const sent = request({ port: server.port, path: "http://user:password@127.0.0.1/health?x=1" });
  sent.end();
  const [response] = await once(sent, "response");
  response.resume();
  const [entry] = await logged(1);
  expect(entry?.path).toBe("/health");
  expect(JSON.stringify(entry)).not.toContain("password");
});

test("has an event stream when it ends, and says that the client disconnected", async () => {
  const { server, logged } = await serve();
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const created = await fetch(`${server.url}/sessions`, { method: "POST", headers, body: '{"input":"hi","id":"s1"}' });
  await created.text();
  const stop = new AbortController();
  const stream = await fetch(`${server.url}/sessions/s1/events`, { headers, signal: stop.signal });
  await stream.body?.getReader().read();
  expect(await logged(1)).toHaveLength(1);
  stop.abort();
  expect((await logged(2))[1]).toMatchObject({ path: "/sessions/s1/events", status: 200, isComplete: false });
});
