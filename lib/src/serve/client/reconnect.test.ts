// Reconnecting over real sockets: a proxy that cuts connections after a number of bytes, and servers that stop and
// restart.

import type { RunningServer } from "../../../../apps/server/src/serve.ts";
import type { Adapter } from "../../core/engine/internal.ts";
import type { RuntimeEvent, TurnEvent } from "../../core/model/internal.ts";
import type { HostStorage, Runtime } from "../../durable/internal.ts";
import type { HttpLimits } from "../index.ts";
import type { ClientOptions } from "./index.ts";
import type { Server, Socket } from "node:net";

import { once } from "node:events";
import { connect, createServer } from "node:net";

import { afterEach, expect, test } from "vitest";

import { startServer } from "../../../../apps/server/src/serve.ts";
import { handModel } from "../../../test/hand-model.ts";
import { fake } from "../../core/adapters/internal.ts";
import { engine, tool } from "../../core/engine/internal.ts";
import { messageText } from "../../core/model/internal.ts";
import { memoryStorage } from "../../durable/host/memory/memory.ts";
import { runtime } from "../../durable/internal.ts";
import { createClient } from "./index.ts";

const token = "a-secret-bearer-token";
const closing: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

/** Starts a server that is closed after the test. */
async function serve(
  adapter: Adapter,
  more: {
    drive?: boolean;
    host?: HostStorage;
    port?: number;
    limits?: Partial<HttpLimits>;
    tools?: readonly ReturnType<typeof tool>[];
  } = {},
): Promise<RunningServer & { readonly sessions: Runtime }> {
  const { host = memoryStorage(), port = 0, limits = {}, tools = [], drive = true } = more;
  const agent = engine({ adapter, model: "fake:m", tools });
  const sessions = runtime({ host, engines: { default: agent }, drive });
  const server = await startServer({ sessions, auth: [{ token }], port, limits });
  closing.push(() => server.close({ graceMs: 0 }));
  return { ...server, sessions };
}

type CutProxy = {
  readonly url: string;
  /** Bytes received from the server, by connection. */
  readonly bytes: readonly number[];
  readonly connections: number;
  /** Cuts the open connections. */
  readonly cut: () => void;
  readonly close: () => Promise<void>;
};

/**
 * A TCP proxy. `cutAfter` returns the number of bytes from the server after which a connection, by its number, is cut.
 */
async function proxyTo(
  port: number | ((connection: number) => number),
  cutAfter: (connection: number) => number = () => Infinity,
): Promise<CutProxy> {
  const bytes: number[] = [];
  const open = new Set<Socket>();
  const server: Server = createServer((near) => {
    const index = bytes.push(0) - 1;
    const most = cutAfter(index);
    const far = connect(typeof port === "number" ? port : port(index), "127.0.0.1");
    const end = () => {
      near.destroy();
      far.destroy();
      open.delete(near);
    };
    open.add(near);
    near.on("error", end).on("close", end);
    // The server may close before the client has read everything.
    far.on("error", end).on("close", () => near.destroySoon());
    near.pipe(far);
    far.on("data", (chunk: Buffer) => {
      const left = most - (bytes[index] ?? 0);
      bytes[index] = (bytes[index] ?? 0) + chunk.length;
      if (chunk.length < left) near.write(chunk);
      // The callback runs after the bytes were written, so they arrive before the end.
      else near.write(chunk.subarray(0, left), () => near.destroySoon());
      if (chunk.length >= left) far.destroy();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const cut = () => {
    for (const socket of open) socket.destroy();
  };
  const close = async () => {
    cut();
    if (server.listening) await new Promise((resolve) => server.close(resolve));
  };
  closing.push(close);
  return {
    cut,
    close,
    url: `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}`,
    bytes,
    get connections() {
      return bytes.length;
    },
  };
}

function clientOf(url: string, more: Partial<ClientOptions> = {}) {
  return createClient({ url, token, retry: { baseMs: 1, maxMs: 10 }, ...more });
}

/** Lets model and tools wait until the reader has received each event, so that every cut falls at a known place. */
class Pace {
  readonly #emitted = new Map<string, number>();
  readonly #seen = new Map<string, number>();
  #wake: (() => void)[] = [];

  see(event: TurnEvent): void {
    const what = wordsOf(event);
    this.#seen.set(what, (this.#seen.get(what) ?? 0) + 1);
    for (const wake of this.#wake.splice(0)) wake();
  }

  async until(event: TurnEvent): Promise<void> {
    const what = wordsOf(event);
    const times = (this.#emitted.get(what) ?? 0) + 1;
    this.#emitted.set(what, times);
    while ((this.#seen.get(what) ?? 0) < times) await new Promise<void>((resolve) => this.#wake.push(resolve));
  }
}

function wordsOf(event: TurnEvent): string {
  const more = event.type === "text_delta" ? event.delta : event.type === "tool_progress" ? event.progress : null;
  return JSON.stringify([event.type, more]);
}

/**
 * A scripted model that waits after each event until the reader has received it. `message_completed` is delivered
 * later, when it is stored.
 */
function paced(adapter: Adapter, pace: () => Pace): Adapter {
  return {
    ...adapter,
    stream: (request, call) => ({
      async *[Symbol.asyncIterator]() {
        for await (const events of adapter.stream(request, call)) {
          for (const event of events) {
            yield [event];
            if (event.type !== "message_completed") await pace().until(event);
          }
        }
      },
    }),
  };
}

const script = [
  [
    { type: "text", text: "I shall " },
    { type: "text", text: "look – ünd see. " },
    { type: "tool_call", id: "c1", name: "look", arguments: { at: "tea" } },
  ],
  [
    { type: "text", text: "It is " },
    { type: "text", text: "tea." },
  ],
] as const;

test("delivers the same events and result wherever the connection is cut", { timeout: 900_000 }, async () => {
  let pace = new Pace();
  const look = tool({
    name: "look",
    description: "Looks.",
    schema: { type: "object" },
    handler: async (_, { progress }) => {
      for (const part of ["half", "most", "half", "all"]) {
        progress(part);
        await pace.until({ type: "tool_progress", id: "", name: "", progress: part, effectId: null, attempt: null });
      }
      return "tea";
    },
  });
  const endless = {
    ...fake(),
    stream: (...given: Parameters<Adapter["stream"]>) => fakeFor(given[0]).stream(...given),
  };
  const server = await serve(
    paced(endless, () => pace),
    { tools: [look] },
  );

  const run = async (id: string, cutAfter: number) => {
    pace = new Pace();
    const proxy = await proxyTo(server.port, (connection) => (connection === 0 ? cutAfter : Infinity));
    const turn = await clientOf(proxy.url).start("Tea?", { id });
    const events: RuntimeEvent[] = [];
    for await (const received of turn.events) {
      events.push(received);
      pace.see(received.event);
    }
    const end = await turn.result;
    const plain = (value: unknown): unknown =>
      JSON.parse(
        JSON.stringify(value)
          .replaceAll(turn.turnId ?? "", "TURN")
          .replaceAll(id, "SESSION")
          .replaceAll(/"(durationMs|createdAt|changedAt)":[\d.]+/g, '"$1":0'),
      );
    await proxy.close();
    return { events: events.map(plain), end: plain(end), bytes: proxy.bytes[0] ?? 0, connections: proxy.connections };
  };

  const whole = await run("s00000", Infinity);
  expect(whole.connections).toBe(1);
  expect(whole.events.filter((event) => JSON.stringify(event).includes("tool_progress"))).toHaveLength(4);
  // `EVERTURN_CUTS=Infinity` tries every byte.
  const stride = Math.max(1, Math.floor(whole.bytes / Number(process.env["EVERTURN_CUTS"] ?? 50)));
  let cuts = 0;
  for (let after = 1; after < whole.bytes; after += stride) {
    const { events, end, connections } = await run(`s${`${after}`.padStart(5, "0")}`, after);
    expect(events, `cut after ${after} bytes`).toEqual(whole.events);
    expect(end, `cut after ${after} bytes`).toEqual(whole.end);
    if (connections > 1) cuts += 1;
  }
  expect(cuts).toBeGreaterThan(40);
});

/** The script for a request: the second one once the history has a tool result. */
function fakeFor({ messages }: Parameters<Adapter["stream"]>[0]): Adapter {
  return fake({ script: script[messages.some(({ role }) => role === "tool") ? 1 : 0] });
}

async function all<T>(items: AsyncIterable<T>): Promise<readonly T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

/** The text that a reader displays. When a message is complete, all or none of its deltas must have been shown. */
function shown(events: readonly RuntimeEvent[]): string {
  let text = "";
  for (const { event } of events) {
    if (event.type === "text_delta") text += event.delta;
    if (event.type === "step_reset") text = "";
    if (event.type !== "message_completed") continue;
    expect(["", messageText(event.message)]).toContain(text);
    text = messageText(event.message);
  }
  return text;
}

function entriesOf(events: readonly RuntimeEvent[]): readonly (number | null)[] {
  return events.map(({ sequence }) => sequence).filter((sequence) => sequence !== null);
}

/** Polls a condition. */
async function until(isThere: () => boolean): Promise<void> {
  while (!isThere()) await new Promise((resolve) => setTimeout(resolve, 1));
}

test("delivers each remaining stored event once if the turn ended before the reconnect", async () => {
  const words = ["One. ", "Two. ", "Three."];
  for (const after of [600, 900, 1100, 1300, 1700]) {
    const model = handModel();
    const server = await serve(model);
    const proxy = await proxyTo(server.port, (connection) => (connection === 0 ? after : Infinity));
    const turn = await clientOf(proxy.url, { retry: { baseMs: 50, maxMs: 50 } }).start("hi", { id: "s1" });
    const events = all(turn.events);
    const call = await model.call(1);
    for (const word of words) await call.say(word);
    call.finish();
    await server.sessions.attach("s1", turn.turnId).result;
    expect(shown(await events)).toBe(words.join(""));
    const stored = await all(server.sessions.events("s1", { follow: false }));
    expect(entriesOf(await events)).toEqual(entriesOf(stored));
    expect((await turn.result).text).toBe(words.join(""));
  }
});

test("reads a turn to its end although every connection is cut", async () => {
  const server = await serve(
    fake({ script: [...`${"tea ".repeat(40)}`].map((text) => ({ type: "text", text }) as const) }),
  );
  const proxy = await proxyTo(server.port, () => 4000);
  const turn = await clientOf(proxy.url).start("hi", { id: "s1" });
  const events = await all(turn.events);
  expect(proxy.connections).toBeGreaterThan(1);
  expect(shown(events)).toBe("tea ".repeat(40));
  expect(entriesOf(events)).toEqual(entriesOf(await all(server.sessions.events("s1", { follow: false }))));
  expect((await turn.result).text).toBe("tea ".repeat(40));
});

test("repeats a verb whose response was lost, and the turn starts once", async () => {
  const model = handModel();
  const server = await serve(model);
  const proxy = await proxyTo(server.port, (connection) => (connection < 2 ? 1 : Infinity));
  const client = clientOf(proxy.url);
  const turn = await client.start("hi");
  expect(proxy.connections).toBe(3);
  const call = await model.call(1);
  await call.say("Hello!");
  call.finish();
  expect((await turn.result).text).toBe("Hello!");
  expect((await client.list()).items.map(({ id }) => id)).toEqual([turn.sessionId]);
  const replyEnd = await client.reply(turn.sessionId, "And?").then(async ({ result }) => {
    const next = await model.call(2);
    next.finish();
    return result;
  });
  expect(replyEnd.session.length).toBe(4);
  expect(model.calls).toBe(2);
});

test("does not repeat a request that is not idempotent", async () => {
  const server = await serve(fake({ script: [{ type: "text", text: "Hello!" }] }));
  await (
    await clientOf(server.url).start("hi", { id: "s1" })
  ).result;
  const proxy = await proxyTo(server.port, () => 1);
  const client = clientOf(proxy.url, { token });
  for (const act of [
    () => client.fork("s1"),
    () => client.cancel("s1"),
    () => client.complete("t", { type: "deny" }),
  ]) {
    const before = proxy.connections;
    await expect(act()).rejects.toMatchObject({ name: "ClientError", reason: "unreachable", status: null });
    expect(proxy.connections).toBe(before + 1);
  }
});

test("reports success if the response to a delete was lost and the retry finds no session", async () => {
  const server = await serve(fake({ script: [{ type: "text", text: "Hello!" }] }));
  const proxy = await proxyTo(server.port, (connection) => (connection === 0 ? 1 : Infinity));
  await (
    await clientOf(server.url).start("hi", { id: "s1" })
  ).result;
  await clientOf(proxy.url).delete("s1");
  expect(await clientOf(server.url).get("s1")).toBeNull();
});

test("continues with a server that restarted on the same port and storage", async () => {
  const host = memoryStorage();
  const [before, after] = [handModel(), handModel()];
  const first = await serve(before, { host });
  const client = clientOf(first.url, { retry: { streams: 1000, baseMs: 1, maxMs: 5 } });
  const turn = await client.start("hi", { id: "s1" });
  const seen: RuntimeEvent[] = [];
  const reading = (async () => {
    for await (const event of turn.events) seen.push(event);
  })();
  const session = (async () => {
    for await (const { event } of client.events("s1")) if (event.type === "chat_completed") return event.type;
    return null;
  })();
  const result = turn.result;
  await (await before.call(1)).say("One. ");
  await until(() => shown(seen) === "One. ");
  await first.close({ graceMs: 0 });

  const second = await serve(after, { host, port: first.port });
  await second.sessions.recover();
  const call = await after.call(1);
  await call.say("Two.");
  call.finish();
  expect((await result).text).toBe("Two.");
  await reading;
  expect(shown(seen)).toBe("Two.");
  expect(seen.filter(({ event }) => event.type === "step_reset")).toHaveLength(1);
  expect(entriesOf(seen)).toEqual(entriesOf(await all(second.sessions.events("s1", { follow: false }))));
  expect(await session).toBe("chat_completed");
});

test("reconnects to a process that does not drive the turn, and shows no event twice", async () => {
  const host = memoryStorage();
  const seen: RuntimeEvent[] = [];
  const parts = () => seen.flatMap(({ event }) => (event.type === "tool_progress" ? [event.progress] : []));
  const look = tool({
    name: "look",
    description: "Looks.",
    schema: { type: "object" },
    handler: async (_, { progress }) => {
      progress({ a: "half", z: 1 });
      await until(() => parts().length === 1);
      proxy.cut();
      await until(() => proxy.connections > 1);
      progress({ a: "all", z: 2 });
      await until(() => parts().length > 1);
      return "tea";
    },
  });
  const driving = await serve(
    { ...fake(), stream: (request, call) => fakeFor(request).stream(request, call) },
    { host, tools: [look] },
  );
  const other = await serve(fake(), { host, drive: false });
  const proxy = await proxyTo((connection) => (connection === 0 ? driving.port : other.port));
  const turn = await clientOf(proxy.url).start("Tea?", { id: "s1" });
  for await (const event of turn.events) seen.push(event);
  expect(parts()).toEqual([
    { a: "half", z: 1 },
    { a: "all", z: 2 },
  ]);
  expect(seen.filter(({ event }) => event.type === "tool_execution_started")).toHaveLength(1);
  expect(entriesOf(seen)).toEqual(entriesOf(await all(driving.sessions.events("s1", { follow: false }))));
  expect((await turn.result).text).toBe("It is tea.");
});

test("gives up on a server that stays unreachable", async () => {
  const model = handModel();
  const server = await serve(model);
  const client = clientOf(server.url, { retry: { streams: 3, requests: 2, baseMs: 1, maxMs: 2 } });
  const turn = await client.start("hi", { id: "s1" });
  const attached = client.attach("s1", turn.turnId ?? "").result;
  const reading = all(turn.events);
  await model.call(1);
  await server.close({ graceMs: 0 });
  await expect(reading).rejects.toMatchObject({ name: "ClientError", status: null });
  await expect(attached).rejects.toMatchObject({ name: "ClientError", reason: "unreachable" });
  await expect(client.health()).rejects.toMatchObject({ reason: "unreachable" });
});

test("reconnects when a stream is silent for silenceMs", async () => {
  const model = handModel();
  const server = await serve(model);
  const proxy = await proxyTo(server.port);
  const turn = await clientOf(proxy.url, { silenceMs: 100 }).start("hi");
  const reading = all(turn.events);
  const call = await model.call(1);
  await call.say("Well");
  await until(() => proxy.connections > 2);
  call.finish();
  expect(shown(await reading)).toBe("Well");
});

test("closes the connection when the reader leaves, also during a read", async () => {
  const model = handModel();
  const server = await serve(model, { limits: { streams: 1 } });
  const client = clientOf(server.url, { retry: { streams: 1000, baseMs: 1, maxMs: 5 } });
  const turn = await client.start("hi", { id: "s1" });
  const call = await model.call(1);
  await call.say("One. ");
  for await (const { event } of turn.events) if (event.type === "text_delta") break;
  // The limit is one stream: the second reader gets its slot only after the first connection was closed.
  const reader = client.attach("s1", turn.turnId ?? "").events[Symbol.asyncIterator]();
  for (let next = await reader.next(); ; next = await reader.next()) {
    if (next.done === true || next.value.event.type === "text_delta") break;
  }
  const waiting = reader.next();
  await reader.return?.();
  expect((await waiting).done).toBe(true);
  call.finish();
  expect(shown(await all(turn.events))).toBe("One. ");
});
