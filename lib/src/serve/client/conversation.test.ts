// The conversation store against a handler: what it shows, its verbs, and connections that are cut.

import type { Runtime } from "../../durable/internal.ts";
import type { Conversation, ConversationSnapshot } from "./conversation.ts";
import type { ToolContext } from "everturn";

import { afterEach, expect, test } from "vitest";

import { handModel } from "../../../test/hand-model.ts";
import { says } from "../../../test/runs.ts";
import { counting, worker, World } from "../../../test/runtime/world.ts";
import { fake } from "../../core/adapters/internal.ts";
import { askAndResume, askUser, engine, tool } from "../../core/engine/internal.ts";
import { messageText } from "../../core/model/internal.ts";
import { memoryStorage } from "../../durable/host/memory/memory.ts";
import { runtime } from "../../durable/internal.ts";
import { handClock } from "../../testing/index.ts";
import { createHandler } from "../index.ts";
import { conversation, createClient } from "./index.ts";

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

const pay = tool({
  name: "pay",
  description: "Pays.",
  schema: { type: "object" },
  needsApproval: true,
  handler: () => "paid",
});

function world(agent: ReturnType<typeof engine>) {
  const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
  closing.push(() => sessions.close());
  return { sessions, ...clientOf(sessions) };
}

/**
 * A client of a handler in this process. `cut` ends all its connections. `paths`: of the requests, in order;
 * `statuses`: of the responses.
 */
function clientOf(sessions: Runtime) {
  const handler = createHandler({ sessions, auth: "none" });
  const open = new Set<AbortController>();
  const paths: string[] = [];
  const statuses: number[] = [];
  const fetch = async (url: string, init: RequestInit): Promise<Response> => {
    paths.push(url.replace("http://localhost", ""));
    const connection = new AbortController();
    open.add(connection);
    const response = await handler(new Request(url, init));
    statuses.push(response.status);
    const { body } = response;
    if (body === null) return response;
    const cuttable = body.pipeThrough(new TransformStream(), { signal: connection.signal });
    return new Response(cuttable, response);
  };
  const cut = (): void => {
    for (const connection of open) connection.abort(new Error("cut"));
    open.clear();
  };
  const client = createClient({ url: "http://localhost", fetch, retry: { baseMs: 1, maxMs: 5 } });
  return { client, fetch, cut, paths, statuses };
}

/** Lets a store that requests something again and again do so. */
async function manyRequests(sessions: Runtime): Promise<void> {
  const { client } = clientOf(sessions);
  for (let count = 0; count < 20; count += 1) await client.health();
}

async function until(store: Conversation, isReached: (snapshot: ConversationSnapshot) => boolean): Promise<void> {
  await new Promise<void>((resolve) => {
    const check = (): void => {
      if (!isReached(store.snapshot())) return;
      stop();
      resolve();
    };
    const stop = store.subscribe(check);
    queueMicrotask(check);
  });
}

const texts = ({ messages }: ConversationSnapshot) => messages.map(messageText);

test("shows the session, the reply while it arrives, and later turns, over connections that are cut", async () => {
  const model = handModel();
  const { client, cut } = world(engine({ adapter: model, model: "fake:m" }));
  await client.start("hi", { id: "s" });
  const store = conversation(client, "s");
  const stop = store.subscribe(() => undefined);
  const call = await model.call(1);
  await call.say("Hel");
  await until(store, ({ turn }) => turn?.blocks[0]?.text === "Hel");
  expect(texts(store.snapshot())).toEqual(["hi"]);
  cut();
  await call.say("lo");
  await until(store, ({ turn }) => turn?.blocks[0]?.text === "Hello");
  cut();
  call.finish();
  await until(store, ({ turn, messages }) => turn === null && messages.length === 2);
  expect(texts(store.snapshot())).toEqual(["hi", "Hello"]);
  expect(store.snapshot()).toBe(store.snapshot());
  stop();
});

test("sends, shows a waiting call, and decides it with the digest that was shown", async () => {
  const scripts = [
    [{ type: "text", text: "Hello." }],
    [{ type: "tool_call", id: "a", name: "pay", arguments: { euros: 5 } }],
    [{ type: "text", text: "Done." }],
  ] as const;
  const { client } = world(engine({ adapter: fake({ scripts }), model: "fake:m", tools: [pay] }));
  await (
    await client.start("hi", { id: "s" })
  ).result;
  const store = conversation(client, "s");
  const stop = store.subscribe(() => undefined);
  await until(store, ({ messages }) => messages.length === 2);
  await store.send("pay 5 euros");
  await until(store, ({ pending }) => pending.length === 1);
  const call = store.snapshot().pending[0];
  if (call === undefined) throw new Error("no call waits");
  await expect(store.decide({ ...call, digest: "0".repeat(64) }, { type: "approve" })).rejects.toMatchObject({
    reason: "call_changed",
  });
  await store.decide(call, { type: "approve" });
  await until(store, (snapshot) => texts(snapshot).at(-1) === "Done.");
  expect(texts(store.snapshot())).toEqual(["hi", "Hello.", "pay 5 euros", "", "paid", "Done."]);
  stop();
});

test.each([
  ["askUser", () => askUser("Which city?")],
  ["an answer that is the result", () => askUser("Which city?", { answerAs: "tool_result" })],
  [
    "askAndResume",
    (_: unknown, { answer }: ToolContext) => (answer === null ? askAndResume("Which city?") : `to ${answer.text}`),
  ],
])("answers the question of a tool, and shows question and answer also in another page (%s)", async (_, handler) => {
  const ask = tool({ name: "ask", description: "Asks.", schema: { type: "object" }, handler });
  const scripts = [[{ type: "tool_call", id: "c1", name: "ask" }], [{ type: "text", text: "Done." }]] as const;
  const { client } = world(engine({ adapter: fake({ scripts }), model: "fake:m", tools: [ask] }));
  const store = conversation(client, "s");
  const stop = store.subscribe(() => undefined);
  await store.send("go");
  await until(store, ({ question }) => question === "Which city?");
  const [call] = store.snapshot().pending;
  await store.answer("Rome", call);
  await until(store, (snapshot) => texts(snapshot).at(-1) === "Done.");
  const shown = texts(store.snapshot());
  expect(shown.slice(shown.indexOf("Which city?"))).toContain("Rome");
  const other = conversation(client, "s");
  const stopOther = other.subscribe(() => undefined);
  await until(other, ({ messages }) => messages.length > 0);
  expect(texts(other.snapshot())).toEqual(shown);
  stop();
  stopOther();
});

test("answers questions one after the other, and gives the result of a manual call", async () => {
  const schema = { type: "object" };
  const asking = (name: string) =>
    tool({ name, description: "Asks.", schema, handler: (_, { answer }) => answer?.text ?? askAndResume(`${name}?`) });
  const scan = tool({ name: "scan", description: "Scans.", schema, manual: true });
  const names = ["city", "day", "scan"];
  const calls = names.map((name) => ({ type: "tool_call", id: name, name }) as const);
  const adapter = fake({ scripts: [calls, [{ type: "text", text: "Done." }]] });
  const { client } = world(engine({ adapter, model: "fake:m", tools: [asking("city"), asking("day"), scan] }));
  const store = conversation(client, "s");
  const stop = store.subscribe(() => undefined);
  await store.send("go");
  await until(store, ({ pending }) => pending.length === 3);
  const [city, day, manual] = names.map((name) => store.snapshot().pending.find(({ id }) => id === name));
  await expect(store.answer("Monday", day)).rejects.toMatchObject({ reason: "invalid_argument" });
  await store.answer("Rome", city);
  await until(store, ({ question }) => question === "day?");
  await store.answer("Monday");
  await until(store, ({ pending }) => pending.length === 1);
  await store.answer({ badge: 7 }, manual);
  await until(store, (snapshot) => texts(snapshot).at(-1) === "Done.");
  const results = store.snapshot().messages.filter(({ role }) => role === "tool");
  expect(results.map(messageText).toSorted()).toEqual(["Monday", "Rome", '{"badge":7}']);
  stop();
});

test("shows each message once to a page that is opened in the middle of a turn", async () => {
  const model = handModel();
  const look = tool({ name: "look", description: "Looks.", schema: { type: "object" }, handler: () => "seen" });
  const { client } = world(engine({ adapter: model, model: "fake:m", tools: [look] }));
  await client.start("hi", { id: "s" });
  (await model.call(1)).callTool("look");
  const call = await model.call(2);
  await call.say("Hel");
  for (const messages of [undefined, 1]) {
    const store = conversation(client, "s", messages === undefined ? {} : { messages });
    await until(store, ({ turn }) => turn?.blocks[0]?.text === "Hel");
    expect(texts(store.snapshot())).toEqual(messages === undefined ? ["hi", "", "seen"] : ["", "seen"]);
  }
  const store = conversation(client, "s");
  const shown: string[] = [];
  const stop = store.subscribe(() => shown.push(texts(store.snapshot()).join("|")));
  await until(store, ({ turn }) => turn !== null);
  await store.steer("and more");
  await call.say("lo");
  call.finish();
  const last = await model.call(3);
  last.finish();
  await until(store, ({ turn, messages }) => turn === null && messages.length > 4);
  expect(texts(store.snapshot())).toEqual(["hi", "", "seen", "Hello", "and more", ""]);
  // A message that was shown stays.
  expect(shown.every((text, index) => index === 0 || text.startsWith(shown[index - 1] ?? ""))).toBe(true);
  stop();
});

test("keeps what was received of a turn that is stopped", async () => {
  const model = handModel();
  const { client } = world(engine({ adapter: model, model: "fake:m" }));
  await client.start("hi", { id: "s" });
  const store = conversation(client, "s");
  const shown: string[] = [];
  const stop = store.subscribe(() => {
    const { messages, turn } = store.snapshot();
    shown.push([...messages.map(messageText), ...(turn?.blocks.map(({ text }) => text) ?? [])].join("|"));
  });
  await (await model.call(1)).say("Hel");
  await until(store, ({ turn }) => turn?.blocks.length === 1);
  await store.stop();
  await until(store, ({ turn }) => turn === null);
  expect(texts(store.snapshot())).toEqual(["hi", "Hel"]);
  expect(shown.slice(shown.indexOf("hi|Hel")).every((text) => text === "hi|Hel")).toBe(true);
  stop();
});

test("keeps what it shows of the open turn when it connects again", async () => {
  const model = handModel();
  const { client } = world(engine({ adapter: model, model: "fake:m" }));
  await client.start("hi", { id: "s" });
  const call = await model.call(1);
  await call.say("Hel");
  const store = conversation(client, "s");
  const shown: string[] = [];
  const stop = store.subscribe(() => shown.push(store.snapshot().turn?.blocks[0]?.text ?? ""));
  await until(store, () => shown.includes("Hel"));
  store.reconnect();
  const count = shown.length;
  await until(store, () => shown.length > count);
  await call.say("lo");
  await until(store, () => shown.includes("Hello"));
  expect(shown.slice(count).every((text) => text === "Hel" || text === "Hello")).toBe(true);
  call.finish();
  stop();
});

test("follows a fork that has no turn of its own", async () => {
  const scripts = [[{ type: "text", text: "Hello." }], [{ type: "text", text: "Again." }]] as const;
  const { client } = world(engine({ adapter: fake({ scripts }), model: "fake:m" }));
  await (
    await client.start("hi", { id: "s" })
  ).result;
  await client.fork("s", { id: "f" });
  const store = conversation(client, "f");
  const connections = new Set<string>();
  const stop = store.subscribe(() => connections.add(store.snapshot().connection));
  await until(store, ({ messages }) => messages.length === 2);
  await client.send("f", "more");
  await until(store, ({ turn, messages }) => turn === null && messages.length === 4);
  expect(texts(store.snapshot())).toEqual(["hi", "Hello.", "more", "Again."]);
  expect([...connections]).toEqual(["live"]);
  stop();
});

test("follows a fork whose own turn has added no message", async () => {
  const model = handModel();
  const { client, sessions, paths } = world(engine({ adapter: model, model: "fake:m" }));
  const { result } = await client.start("hi", { id: "s" });
  (await model.call(1)).finish();
  await result;
  await client.fork("s", { id: "f", at: 1 });
  const turn = await client.continue("f");
  await model.call(2);
  await client.cancel("f");
  await turn.result;
  const before = paths.length;
  const store = conversation(client, "f");
  const stop = store.subscribe(() => undefined);
  await until(store, ({ connection }) => connection === "live");
  await manyRequests(sessions);
  expect(paths.slice(before).filter((path) => path === "/sessions/f").length).toBeLessThan(3);
  await client.send("f", "more");
  (await model.call(3)).finish();
  await until(store, ({ turn: open, messages }) => open === null && messages.length === 3);
  stop();
});

test("requests nothing while a turn is parked, and shows its end", async () => {
  const durable = new World();
  const look = counting("look", { replay: "safe" });
  const agent = durable.engine(worker("look"), { tools: [look.tool] });
  const first = durable.process(agent, { diesAfter: (_, count) => count === 4 });
  await first.start("hi", { id: "s" });
  await first.died;
  await durable.leaseRunsOut();
  const sessions = durable.process(agent, { maxTakeovers: 1 });
  await sessions.recover();
  const { client, paths } = clientOf(sessions);
  const store = conversation(client, "s", { retryMs: 1 });
  const stop = store.subscribe(() => undefined);
  await until(store, ({ session, turn }) => session?.openTurn?.status === "parked" && turn !== null);
  await manyRequests(sessions);
  expect(paths.filter((path) => path.startsWith("/sessions/s?"))).toHaveLength(1);
  expect(paths.at(-1)).toBe("/sessions/s/events");
  await sessions.recover("s");
  await until(store, ({ turn }) => turn === null);
  stop();
});

test("sends a message after a turn that has failed since the session was read", async () => {
  const scripts = [
    [{ type: "text", text: "Hello." }],
    [{ type: "error", reason: "invalid_request", message: "no", retryable: false }],
    [{ type: "text", text: "Here I am." }],
  ] as const;
  const { client, paths } = world(engine({ adapter: fake({ scripts }), model: "fake:m" }));
  await (
    await client.start("hi", { id: "s" })
  ).result;
  const store = conversation(client, "s");
  const stop = store.subscribe(() => undefined);
  await until(store, ({ session }) => session !== null);
  stop();
  // Another page sends the message whose turn fails.
  await (
    await client.send("s", "more")
  ).result;
  const { session } = await (await store.send("are you there?")).result;
  expect(session.status).toBe("completed");
  // A session that is usable is not recovered.
  expect(paths.filter((path) => path.endsWith("/recover"))).toHaveLength(1);
});

test("starts the session with the first message", async () => {
  const { client } = world(engine({ adapter: fake({ script: [{ type: "text", text: "Hello." }] }), model: "fake:m" }));
  const store = conversation(client, "new");
  const stop = store.subscribe(() => undefined);
  await until(store, ({ connection }) => connection === "live");
  expect(store.snapshot()).toMatchObject({ session: null, messages: [], turn: null, pending: [], question: null });
  await store.send("hi");
  await until(store, ({ turn, messages }) => turn === null && messages.length === 2);
  expect(texts(store.snapshot())).toEqual(["hi", "Hello."]);
  stop();
});

test("ends a parked turn when the next message is sent", async () => {
  const durable = new World();
  const look = counting("look", { replay: "safe" });
  const agent = durable.engine(worker("look"), { tools: [look.tool] });
  const first = durable.process(agent, { diesAfter: (_, count) => count === 4 });
  await first.start("hi", { id: "s" });
  await first.died;
  await durable.leaseRunsOut();
  const sessions = durable.process(agent, { maxTakeovers: 1 });
  await sessions.recover();
  const { client } = clientOf(sessions);
  const store = conversation(client, "s", { retryMs: 1 });
  const stop = store.subscribe(() => undefined);
  await until(store, ({ session, turn }) => session?.openTurn?.status === "parked" && turn !== null);
  await (
    await store.send("are you there?")
  ).result;
  await until(
    store,
    ({ turn, messages }) => turn === null && texts(store.snapshot()).includes("are you there?") && messages.length > 2,
  );
  stop();
});

test("calls every subscriber also if one of them throws, and reports the error where the program does", async () => {
  const { client } = world(engine({ adapter: fake({ script: [] }), model: "fake:m" }));
  const store = conversation(client, "none");
  const reporting = process.listeners("uncaughtException");
  process.removeAllListeners("uncaughtException");
  const reported = new Promise((resolve) => process.once("uncaughtException", resolve));
  const stopFirst = store.subscribe(() => {
    throw new Error("a subscriber failed");
  });
  await until(store, ({ connection }) => connection === "live");
  await expect(reported).resolves.toMatchObject({ message: "a subscriber failed" });
  for (const listener of reporting) process.on("uncaughtException", listener);
  expect(store.snapshot().error).toBe(null);
  stopFirst();
});

test("calls a subscriber once that subscribes again when it is called", async () => {
  const { client } = world(engine({ adapter: fake({ script: [] }), model: "fake:m" }));
  const store = conversation(client, "none");
  let calls = 0;
  let stop: () => void;
  const again = (): void => {
    calls += 1;
    if (calls > 10) return;
    stop();
    stop = store.subscribe(again);
  };
  const stopOther = store.subscribe(() => undefined);
  stop = store.subscribe(again);
  await until(store, ({ connection }) => connection === "live");
  expect(calls).toBe(1);
  stop();
  stopOther();
});

test("shows that it loads, and no error without a subscriber", async () => {
  const fetch = async (): Promise<Response> => new Response("", { status: 500 });
  const store = conversation(createClient({ url: "http://localhost", fetch }), "s");
  const changed = (): void => undefined;
  expect(store.snapshot().connection).toBe("idle");
  const stops = [store.subscribe(changed), store.subscribe(changed)];
  expect(store.snapshot().connection).toBe("loading");
  await until(store, ({ connection }) => connection === "reconnecting");
  stops[0]?.();
  expect(store.snapshot().connection).toBe("reconnecting");
  stops[1]?.();
  expect(store.snapshot()).toMatchObject({ connection: "idle", error: null });
});

test("makes a failed session usable before it sends, also if the session was not read yet", async () => {
  const model = handModel();
  const { client } = world(engine({ adapter: model, model: "fake:m", retry: false }));
  const { result } = await client.start("hi", { id: "s" });
  (await model.call(1)).fail();
  await result;
  const sent = conversation(client, "s").send("again");
  (await model.call(2)).finish();
  await (
    await sent
  ).result;
  expect((await client.get("s"))?.session.status).toBe("completed");
});

test("reads the session again after a decision that was refused", async () => {
  const calls = ["a", "b"].map((id) => ({ type: "tool_call", id, name: "pay", arguments: {} }) as const);
  const { client, sessions } = world(engine({ adapter: fake({ script: calls }), model: "fake:m", tools: [pay] }));
  await (
    await client.start("pay", { id: "s" })
  ).result;
  const store = conversation(client, "s");
  const stop = store.subscribe(() => undefined);
  await until(store, ({ pending }) => pending.length === 2);
  const [shown] = store.snapshot().pending;
  if (shown === undefined) throw new Error("no call waits");
  // A decision about one of several calls has no event.
  await sessions.decide("s", "a", { type: "approve" });
  await expect(store.decide(shown, { type: "deny" })).rejects.toMatchObject({ name: "SessionError" });
  await until(store, ({ pending }) => pending.length === 1);
  stop();
});

test("stops the open turn, and requests nothing without a subscriber", async () => {
  const model = handModel();
  const { client, sessions } = world(engine({ adapter: model, model: "fake:m" }));
  await client.start("hi", { id: "s" });
  const store = conversation(client, "s");
  expect(store.snapshot().connection).toBe("idle");
  const stop = store.subscribe(() => undefined);
  const call = await model.call(1);
  await call.say("Hel");
  await until(store, ({ turn }) => turn?.blocks.length === 1);
  expect(await store.stop()).toBe("cancelled");
  await until(store, ({ turn }) => turn === null);
  expect((await sessions.get("s"))?.openTurn).toBe(null);
  stop();
  expect(store.snapshot().connection).toBe("idle");
});

test("shows a session that does not exist as an empty conversation, without an error in the console", async () => {
  const { client, statuses } = world(
    engine({ adapter: fake({ scripts: [says("Hello."), says("Again.")] }), model: "fake:m" }),
  );
  const store = conversation(client, "none");
  const stop = store.subscribe(() => undefined);
  await until(store, ({ connection }) => connection === "live");
  expect(store.snapshot()).toMatchObject({ session: null, messages: [], error: null });
  expect(statuses).toEqual([204]);
  // Another page starts the session, and deletes it.
  await (
    await client.start("hi", { id: "none" })
  ).result;
  store.reconnect();
  await until(store, ({ messages }) => messages.length === 2);
  await client.delete("none");
  store.reconnect();
  await until(store, ({ connection }) => connection === "gone");
  store.reconnect();
  await expect.poll(() => statuses.filter((status) => status === 204).length).toBe(3);
  expect(store.snapshot()).toMatchObject({ connection: "gone", session: null, messages: [] });
  stop();
});

test.each(["closes its connections", "falls silent"] as const)(
  "is not shown as live when the server %s, and is live again without reading the session",
  async (how) => {
    const sessions = runtime({
      host: memoryStorage(),
      engines: { default: engine({ adapter: fake({ scripts: [says("Hi.")] }), model: "fake:m" }) },
    });
    closing.push(() => sessions.close());
    await (
      await sessions.start("Hello", { id: "s" })
    ).result;
    const clock = handClock();
    const { fetch, cut, paths } = clientOf(sessions);
    let isUp = true;
    const down = async (): Promise<Response> => {
      throw new TypeError("fetch failed");
    };
    const client = createClient({
      url: "http://localhost",
      fetch: (url, init) => (isUp ? fetch(url, init) : down()),
      clock,
    });
    const store = conversation(client, "s", { clock });
    const leave = store.subscribe(() => undefined);
    await until(store, ({ connection }) => connection === "live");
    await expect.poll(() => paths.filter((path) => path.endsWith("/events")).length).toBe(1);
    const requests = paths.length;
    isUp = false;
    if (how === "closes its connections") cut();
    // A silent connection counts as cut after 20 seconds without a heartbeat.
    let passedMs = 0;
    await expect
      .poll(async () => {
        await clock.advance(500);
        passedMs += 500;
        return store.snapshot().connection;
      })
      .toBe("reconnecting");
    expect(store.snapshot().error?.message).toMatch(how === "falls silent" ? /no data was received/ : /cut/);
    expect(passedMs).toBeLessThan(how === "falls silent" ? 25_000 : 5000);
    isUp = true;
    await expect
      .poll(async () => {
        await clock.advance(500);
        return store.snapshot();
      })
      .toMatchObject({ connection: "live", error: null });
    expect(paths.slice(requests).every((path) => path.endsWith("/events"))).toBe(true);
    leave();
  },
);

test("shows a session that another client starts later", async () => {
  const { sessions, client } = world(engine({ adapter: fake({ scripts: [says("Hi.")] }), model: "fake:m" }));
  const clock = handClock();
  const store = conversation(client, "s", { clock });
  const stop = store.subscribe(() => undefined);
  await until(store, ({ connection }) => connection === "live");
  await (
    await sessions.start("Hello", { id: "s" })
  ).result;
  await expect
    .poll(async () => {
      await clock.advance(1000);
      return texts(store.snapshot());
    })
    .toEqual(["Hello", "Hi."]);
  stop();
});
