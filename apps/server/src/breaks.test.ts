// What broke the server once, on a real socket: clients that are gone before they are answered, those that never finish, and what a stop does to answers.

import { once } from "node:events";
import { connect } from "node:net";

import { startServer } from "@everturn/server";
import { engine, fake } from "everturn";
import { memoryStorage } from "everturn/host/memory";
import { runtime } from "everturn/runtime";
import { afterEach, expect, test } from "vitest";

const token = "a-token-nobody-guesses";
const key = { authorization: `Bearer ${token}`, "content-type": "application/json" };

const running: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of running.splice(0)) await close();
});

async function serve(options: Partial<Parameters<typeof startServer>[0]> = {}, host = memoryStorage()) {
  const scripts = Array.from({ length: 20 }, () => [{ type: "text", text: "Hello." } as const]);
  const sessions = runtime({ host, engines: { default: engine({ adapter: fake({ scripts }), model: "fake:m" }) } });
  const server = await startServer({ sessions, auth: [{ token }], ...options });
  running.push(() => server.close({ graceMs: 100 }));
  return { server, sessions };
}

test("readers that are gone before they are answered give their places back", async () => {
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
    const left = new AbortController();
    const { status } = await fetch(`${server.url}/sessions/s/events`, { headers: key, signal: left.signal });
    left.abort();
    return status;
  };
  await expect.poll(watch).toBe(200);
});

test("strangers that never finish what they say keep nobody from being answered", async () => {
  const { server } = await serve({ limits: { requests: 4 } });
  const head = "POST /complete HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{";
  const sockets = Array.from({ length: 6 }, () => connect(server.port, "127.0.0.1"));
  running.unshift(async () => sockets.forEach((socket) => socket.destroy()));
  for (const socket of sockets) {
    socket.on("error", () => undefined);
    socket.write(head);
  }
  // The ones that are one too many are told so: by then the others have their places.
  await Promise.race(sockets.map((socket) => once(socket, "data")));
  expect((await fetch(`${server.url}/sessions`, { headers: key })).status).toBe(200);
  expect((await fetch(`${server.url}/health`)).status).toBe(200);
});

test("what is being accepted when the server stops is answered", async () => {
  const storage = memoryStorage();
  let reading = () => {};
  const begun = new Promise<void>((resolve) => (reading = resolve));
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
  const asked = fetch(`${server.url}/sessions`, { method: "POST", headers: key, body });
  await begun;
  const closing = server.close({ graceMs: 5000 });
  // What stops at once has stopped by then.
  await sessions.close();
  await new Promise((resolve) => setImmediate(resolve));
  release();
  expect((await asked).status).toBe(202);
  await closing;
});
