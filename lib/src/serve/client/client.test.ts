// The verbs of the client against the HTTP handler in the same process.

import type { Adapter, Clock } from "../../core/engine/internal.ts";
import type { RuntimeEvent, TurnEnd } from "../../core/model/internal.ts";
import type { HttpLimits } from "../index.ts";
import type { ClientOptions } from "./index.ts";

import { inspection } from "everturn/http";
import { expect, test } from "vitest";

import { handModel } from "../../../test/hand-model.ts";
import { sharedSessions } from "../../../test/shared-sessions.ts";
import { fake } from "../../core/adapters/internal.ts";
import { askUser, engine, systemClock, tool } from "../../core/engine/internal.ts";
import { isEverturnError, MisuseError, RuntimeError, SessionError, user } from "../../core/model/internal.ts";
import { memoryStorage } from "../../durable/host/memory/memory.ts";
import { runtime } from "../../durable/internal.ts";
import { handClock } from "../../testing/index.ts";
import { createHandler } from "../index.ts";
import { ClientError, createClient } from "./index.ts";

const token = "a-secret-bearer-token";
const schema = { type: "object" };

type Scripts = NonNullable<NonNullable<Parameters<typeof fake>[0]>["scripts"]>;

const ask = tool({ name: "ask", description: "Asks.", schema, handler: () => askUser("Really?") });
const pay = tool({ name: "pay", description: "Pays.", schema, needsApproval: true, handler: () => "paid" });
const lookup = tool({ name: "lookup", description: "Looks up.", schema, manual: true });

/** A client of a handler in this process. */
function world(
  adapter: Adapter = fake(),
  {
    limits = {},
    basePath = "",
    serverClock = systemClock,
    ...options
  }: Partial<ClientOptions> & { limits?: Partial<HttpLimits>; basePath?: string; serverClock?: Clock } = {},
) {
  const agent = engine({ adapter, model: "fake:m", tools: [ask, pay, lookup] });
  const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
  const http = { limits, basePath, clock: serverClock, records: true };
  const handler = createHandler({ sessions, ...sharedSessions, auth: [{ token, tenant: "ada" }], ...http });
  const requests: Request[] = [];
  const client = createClient({
    url: `http://localhost${basePath}`,
    token,
    fetch: async (url, init) => {
      requests.push(new Request(url, init));
      return handler(new Request(url, init));
    },
    retry: { baseMs: 1, maxMs: 5 },
    ...options,
  });
  return { client, sessions: sessions.tenant("ada"), handler, requests };
}

function says(...scripts: Scripts) {
  return fake({ scripts });
}

const hello = [{ type: "text", text: "Hello!" }] as const;

async function all<T>(items: AsyncIterable<T>): Promise<readonly T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

function typesOf(events: readonly RuntimeEvent[]): readonly string[] {
  return events.map(({ event }) => event.type);
}

function textIn(events: readonly RuntimeEvent[]): string {
  return events.map(({ event }) => (event.type === "text_delta" ? event.delta : "")).join("");
}

test("starts a turn and reads its events and result in one request", async () => {
  const { client, sessions, requests } = world(says(hello));
  const turn = await client.start("hi", { id: "s1", metadata: { of: "test" } });
  expect(turn.sessionId).toBe("s1");
  const events = await all(turn.events);
  expect(textIn(events)).toBe("Hello!");
  expect(events.at(-1)?.event.type).toBe("chat_completed");
  const end = await turn.result;
  expect(end).toMatchObject({ turnId: turn.turnId, status: "ended", text: "Hello!" });
  expect(requests).toHaveLength(1);
  expect(end).toEqual(asClientsRead(await sessions.attach("s1", turn.turnId).result));
});

test("reads the events that the runtime emits", async () => {
  const { client, sessions } = world(says(hello));
  const turn = await client.start("hi", { id: "s1" });
  await turn.result;
  const emitted = await all(sessions.events("s1", { follow: false }));
  expect(await all(client.events("s1", { follow: false }))).toEqual(asClientsRead(emitted));
});

/** What the runtime returns as JSON, without the ids of requests to the provider, which only operators read. */
function asClientsRead(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value, (key, part: unknown) => (key === "requestId" ? null : part)));
}

test("returns the result in the same request if the events are not read", async () => {
  const { client, requests } = world(says(hello));
  const turn = await client.start("hi");
  expect((await turn.result).text).toBe("Hello!");
  expect(requests).toHaveLength(1);
  expect(turn.result).toBe(turn.result);
});

test("returns the result while the events are read and after the reader left", async () => {
  const model = handModel();
  const { client } = world(model);
  const turn = await client.start("hi");
  const reader = turn.events[Symbol.asyncIterator]();
  await reader.next();
  const result = turn.result;
  const call = await model.call(1);
  await call.say("Hello!");
  call.finish();
  expect((await result).text).toBe("Hello!");
  await reader.return?.();
  expect((await turn.result).status).toBe("ended");
});

test("gives the stream to the events if the result was requested first", async () => {
  const { client, requests } = world(says(hello));
  const turn = await client.start("hi");
  const result = turn.result;
  expect(textIn(await all(turn.events))).toBe("Hello!");
  await result;
  expect(requests.filter(({ url }) => url.endsWith("/events"))).toEqual([]);
});

test("leaving the iteration does not affect the turn, which can be read again from its start", async () => {
  const model = handModel();
  const { client } = world(model);
  const turn = await client.start("hi", { id: "s1" });
  const call = await model.call(1);
  await call.say("One. ");
  for await (const { event } of turn.events) if (event.type === "text_delta") break;
  await call.say("Two.");
  call.finish();
  const again = await all(turn.events);
  expect(again[0]?.event.type).toBe("turn_started");
  expect((await turn.result).text).toBe("One. Two.");
});

test("two concurrent readers receive the same events", async () => {
  const model = handModel();
  const { client } = world(model);
  const turn = await client.start("hi");
  const both = [all(turn.events), all(turn.events)] as const;
  const call = await model.call(1);
  await call.say("One. ");
  await call.say("Two.");
  call.finish();
  const [one, other] = await Promise.all(both);
  expect(textIn(one)).toBe("One. Two.");
  const entries = (events: readonly RuntimeEvent[]) => events.filter(({ sequence }) => sequence !== null);
  expect(entries(other)).toEqual(entries(one));
  expect(["", "One. Two."]).toContain(textIn(other));
});

test("a slow reader is disconnected by the server and resumes when it reads again", async () => {
  const model = handModel();
  const clock = handClock();
  const { client, handler, requests } = world(model, { limits: { bufferBytes: 1, streams: 1 }, serverClock: clock });
  const turn = await client.start("hi", { id: "s1" });
  const reader = turn.events[Symbol.asyncIterator]();
  const first = await reader.next();
  const call = await model.call(1);
  const words = [..."It is a long story. "];
  for (const word of words) await call.say(word);
  // The limit is one stream: another request gets a slot only after the slow reader was disconnected.
  const headers = { authorization: `Bearer ${token}` };
  const watch = async () => {
    const answer = await handler(new Request("http://localhost/sessions/s1/events", { headers }));
    await answer.body?.cancel();
    return answer.status;
  };
  expect(await watch()).toBe(429);
  await clock.advance(45_000);
  expect(await watch()).toBe(200);
  const rest: RuntimeEvent[] = [];
  for await (const event of { [Symbol.asyncIterator]: () => reader }) {
    rest.push(event);
    if (event.event.type === "text_delta" && textIn(rest) === words.join("")) call.finish();
  }
  expect(first.done).toBe(false);
  expect(textIn(rest)).toBe(words.join(""));
  expect(typesOf(rest).at(-1)).toBe("chat_completed");
  expect(requests.map(({ headers }) => headers.has("last-event-id"))).toContain(true);
});

test("heartbeats keep an idle stream open; without them the client reconnects", async () => {
  for (const { heartbeatMs, connections } of [
    { heartbeatMs: 15_000, connections: 1 },
    { heartbeatMs: 1_000_000, connections: 2 },
  ]) {
    const model = handModel();
    const clock = handClock();
    const options = { limits: { heartbeatMs, slowReaderMs: 1_000_000 }, silenceMs: 60_000, clock, serverClock: clock };
    const { client, requests } = world(model, options);
    const reading = all((await client.start("hi")).events);
    const call = await model.call(1);
    await call.say("Well");
    await clock.advance(61_000);
    expect(requests).toHaveLength(connections);
    call.finish();
    expect(textIn(await reading)).toBe("Well");
    expect(clock.sleepers).toBe(0);
  }
});

test("attaches to a turn that another client started", async () => {
  const { client, requests } = world(says(hello));
  const { turnId } = await client.start("hi", { id: "s1" });
  const there = client.attach("s1", turnId ?? "");
  const before = requests.length;
  expect((await there.result).text).toBe("Hello!");
  expect(requests.slice(before).map(({ headers }) => headers.get("prefer"))).toEqual(["wait=25"]);
  expect(typesOf(await all(there.events)).at(-1)).toBe("chat_completed");
  await expect(client.attach("s1", "no-such-turn").result).rejects.toBeInstanceOf(RuntimeError);
});

test("resumes after a cursor", async () => {
  const { client } = world(says(hello));
  const turn = await client.start("hi", { id: "s1" });
  const whole = await all(turn.events);
  const entries = whole.filter(({ sequence }) => sequence !== null);
  for (const [index, { cursor }] of entries.entries()) {
    const rest = await all(client.events("s1", { turnId: turn.turnId ?? "", after: cursor }));
    expect(rest).toEqual(entries.slice(index + 1));
  }
});

test("answers a question by the next reply", async () => {
  const { client } = world(says([{ type: "tool_call", id: "c1", name: "ask" }], hello));
  const asked = await (await client.start("Remove it.", { id: "s1" })).result;
  expect(asked.session).toMatchObject({ status: "awaiting_user", pendingQuestion: "Really?" });
  expect((await (await client.reply("s1", "Yes.")).result).text).toBe("Hello!");
});

test("continues the session after an approval", async () => {
  const { client } = world(says([{ type: "tool_call", id: "c1", name: "pay" }], hello));
  const waits = await (await client.start("Pay.", { id: "s1" })).result;
  expect(waits.session.pendingToolCalls.map(({ id, reason }) => [id, reason])).toEqual([["c1", "approval"]]);
  const digest = waits.session.pendingToolCalls[0]?.digest ?? "";
  const stale = { type: "approve", digest: "0".repeat(84) } as const;
  await expect(client.decide("s1", "c1", stale)).rejects.toMatchObject({
    name: "SessionError",
    reason: "call_changed",
    failure: { metadata: { changed: expect.arrayContaining(["arguments"]), shown: { name: "pay" }, digest } },
  });
  const turn = await client.decide("s1", "c1", { type: "approve", digest }, { version: waits.session.version });
  expect((await turn.result).text).toBe("Hello!");
  expect((await client.messages("s1")).items.map(({ role }) => role)).toEqual([
    "user",
    "assistant",
    "tool",
    "assistant",
  ]);
});

test("a verb that starts no turn has no turn id and no events, and its result is the state of the session", async () => {
  const calls = ["c1", "c2"].map((id) => ({ type: "tool_call", id, name: "pay" }) as const);
  const { client } = world(says(calls, hello));
  const { session } = await (await client.start("Pay twice.", { id: "s1" })).result;
  const [one = "", two = ""] = session.pendingToolCalls.map(({ digest }) => digest);
  const first = await client.decide("s1", "c1", { type: "deny", reason: "no", digest: one });
  expect(first.turnId).toBeNull();
  expect(await all(first.events)).toEqual([]);
  expect(await first.result).toMatchObject({ turnId: null, status: "waiting", session: { status: "awaiting_tools" } });
  const alone = await client.decide("s1", "c2", { type: "approve", digest: two }, { continue: false });
  expect((await alone.result).status).toBe("waiting");
  expect((await (await client.continue("s1")).result).text).toBe("Hello!");
});

test("submits tool results with and without continuing", async () => {
  const call = [{ type: "tool_call", id: "c1", name: "lookup" }] as const;
  const { client } = world(says(call, hello, call, hello));
  await (
    await client.start("Look.", { id: "s1" })
  ).result;
  expect((await (await client.submitToolResults("s1", [["c1", { found: 1 }]])).result).text).toBe("Hello!");
  await (
    await client.reply("s1", "Again.")
  ).result;
  const recorded = await client.submitToolResults("s1", [["c1", "two"]], { continue: false });
  expect(await recorded.result).toMatchObject({ turnId: null, session: { pendingToolCalls: [] } });
  expect((await (await client.step("s1")).result).text).toBe("Hello!");
});

test("completes a call once by its token and reports later attempts", async () => {
  const { client, handler } = world(says([{ type: "tool_call", id: "c1", name: "pay" }], hello));
  await (
    await client.start("Pay.", { id: "s1" })
  ).result;
  const pass = await client.token("s1", "c1");
  // The token is the only authentication.
  const outside = createClient({ url: "http://localhost", fetch: (url, init) => handler(new Request(url, init)) });
  expect(await outside.complete(pass, { type: "approve" })).toBe("completed");
  expect(await outside.complete(pass, { type: "deny" })).toBe("already_completed");
  expect(await outside.complete("made-up", { type: "deny" })).toBe("unknown");
  await expect(client.token("s1", "c9")).rejects.toMatchObject({ reason: "not_found" });
});

test("steers, sends to and cancels an open turn", async () => {
  const model = handModel();
  const { client } = world(model);
  const turn = await client.start("hi", { id: "s1" });
  const call = await model.call(1);
  const steered = await client.steer("s1", "Be brief.");
  expect(steered.turnId).toBe(turn.turnId);
  expect(await client.withdraw("s1", steered.inputId)).toBe("cancelled");
  expect(await client.withdraw("s1", steered.inputId)).toBe("already_cancelled");
  expect(await client.withdraw("s1", "made-up")).toBe("not_found");
  await expect(client.withdraw("s1", "i".repeat(300))).rejects.toMatchObject({ reason: "no_such_route", status: 404 });
  await client.steer("s1", user("Quietly."), { transient: true, id: "i1" });
  expect((await client.send("s1", "And now?")).turnId).toBe(turn.turnId);
  await call.say("Well");
  expect(await client.cancel("s1", { reason: "enough" })).toBe("cancelled");
  expect((await turn.result).haltedReason).toBe("cancelled");
});

test("reads, lists, forks and deletes sessions", async () => {
  const { client } = world(fake({ scripts: [hello, hello, hello], usage: { inputTokens: 3 } }));
  for (const id of ["s1", "s2", "a/b ü?"]) await (await client.start("hi", { id })).result;
  const first = await client.list({ limit: 2 });
  expect(first.items).toHaveLength(2);
  expect((await client.list({ limit: 2, after: first.next ?? "" })).items).toHaveLength(1);
  expect((await client.get("a/b ü?"))?.session.status).toBe("completed");
  expect((await client.get("s1", { messages: 1 }))?.session.thread.messages).toHaveLength(1);
  expect((await client.messages("s1", { after: 0 })).items.map(({ role }) => role)).toEqual(["assistant"]);
  expect((await client.usage("s1")).total.inputTokens).toBe(3);
  expect(await client.fork("s1", { id: "s3", at: 1 })).toBe("s3");
  expect((await client.get("s3"))?.length).toBe(1);
  expect(await client.recover("s1")).toMatchObject({ pickedUp: 0 });
  await client.delete("s1");
  expect(await client.get("s1")).toBeNull();
  await expect(client.delete("s1")).rejects.toBeInstanceOf(RuntimeError);
  expect(await client.health()).toEqual({ status: "ok" });
});

test("exports a turn record", async () => {
  const { client, sessions } = world(says(hello));
  const { turnId, result } = await client.start("hi", { id: "s1" });
  await result;
  const record = await client.export("s1", turnId ?? "");
  expect(record).toEqual(JSON.parse(JSON.stringify(await inspection(sessions.source).export("s1"))));
});

test("uses the mount path of the URL", async () => {
  const { client, requests } = world(says(hello), { basePath: "/api/everturn", url: "http://localhost/api/everturn/" });
  expect((await (await client.start("hi")).result).text).toBe("Hello!");
  expect(new URL(requests[0]?.url ?? "").pathname).toBe("/api/everturn/sessions");
});

test("starts one turn for a key of the caller, and rejects another request under that key", async () => {
  const { client } = world(says(hello));
  const [one, other] = [await client.start("hi", { key: "k1" }), await client.start("hi", { key: "k1" })];
  expect([other.sessionId, other.turnId]).toEqual([one.sessionId, one.turnId]);
  await expect(client.start("ho", { key: "k1" })).rejects.toMatchObject({ name: "RuntimeError", reason: "conflict" });
});

test("throws failures of the library as their own error classes", async () => {
  const { client } = world(says([{ type: "tool_call", id: "c1", name: "pay" }]));
  await (
    await client.start("Pay.", { id: "s1" })
  ).result;
  await expect(client.usage("none")).rejects.toBeInstanceOf(RuntimeError);
  const wrong = await client.decide("s1", "c9", { type: "approve", digest: "" }).catch((error: unknown) => error);
  expect(isEverturnError(wrong)).toBe(true);
  expect(wrong).toBeInstanceOf(SessionError);
  await expect(client.reply("s1", "What?")).rejects.toMatchObject({ name: "MisuseError", reason: "invalid_status" });
  const bad = await client.list({ limit: 0 }).catch((error: unknown) => error);
  expect(bad).toBeInstanceOf(MisuseError);
  const unknown = await client.start("hi", { temperature: 1 }).catch((error: unknown) => error);
  expect(unknown).toBeInstanceOf(ClientError);
  expect(unknown).toMatchObject({ status: 400, reason: "invalid_body", path: ["options", "temperature"] });
  await expect(all(client.events("none"))).rejects.toMatchObject({ reason: "not_found" });
  await expect(all(client.events("s1", { after: "what?" }))).rejects.toMatchObject({ reason: "invalid_argument" });
});

test("a signal ends requests and readers and not the turn", async () => {
  const model = handModel();
  const { client } = world(model);
  const stop = new AbortController();
  const turn = await client.start("hi", { id: "s1", signal: stop.signal });
  const read = all(turn.events);
  const result = turn.result;
  const call = await model.call(1);
  await call.say("Hello!");
  stop.abort(new Error("enough"));
  await read;
  await expect(result).rejects.toThrow("enough");
  await expect(client.get("s1", { signal: stop.signal })).rejects.toThrow("enough");
  call.finish();
  const end: TurnEnd = await client.attach("s1", turn.turnId ?? "").result;
  expect(end.text).toBe("Hello!");
});

test("rejects invalid options at creation without quoting secrets", () => {
  const refused = (options: ClientOptions) => {
    try {
      createClient(options);
    } catch (error) {
      expect(error).toBeInstanceOf(MisuseError);
      return String(error);
    }
    return "";
  };
  expect(refused({ url: "example.com" })).toContain("url: must be a URL");
  expect(refused({ url: "ftp://example.com" })).toContain("http or https");
  expect(refused({ url: "https://example.com/?a=b" })).toContain("must not have a query");
  expect(refused({ url: "https://ada:secret@example.com" })).not.toContain("secret");
  expect(refused({ url: "/api", token: "secret with spaces" })).not.toContain("secret");
  expect(refused({ url: "/api", retry: { requests: -1 } })).toContain("retry: requests");
  expect(refused({ url: "/api" })).toBe("");
});

test("rejects ids that cannot be a path segment before sending a request", async () => {
  const { client, requests } = world();
  for (const id of ["", ".", "..", "\uD800"]) {
    await expect(client.get(id)).rejects.toBeInstanceOf(MisuseError);
    await expect(client.usage(id)).rejects.toBeInstanceOf(MisuseError);
  }
  expect(requests).toEqual([]);
});

test("names an invalid header without quoting its value", async () => {
  const { client } = world(fake(), { headers: { "x-key": "se\ncret" } });
  const error = await client.health().catch((thrown: unknown) => thrown);
  expect(String(error)).toContain("x-key");
  expect(String(error)).not.toContain('cret"');
});

test("whenBusy: a queued message starts the next turn, which can be attached to before it starts", async () => {
  const model = handModel();
  const { client } = world(model);
  const turn = await client.start("one", { id: "s1" });
  const first = await model.call(1);
  await expect(client.reply("s1", "two")).rejects.toMatchObject({ reason: "conflict" });
  const queued = await client.reply("s1", "two", { whenBusy: "queue", key: "k2" });
  expect((await client.get("s1"))?.queuedTurns).toEqual([queued.turnId]);
  const attached = client.attach("s1", queued.turnId ?? "");
  const attachedText = attached.result.then(({ text }) => text);
  const withdrawn = await client.send("s1", "three", { whenBusy: "queue", key: "k3" });
  expect(await client.withdraw("s1", "k3")).toBe("cancelled");
  await expect(withdrawn.result).rejects.toMatchObject({ reason: "not_found" });
  first.finish();
  expect((await turn.result).status).toBe("ended");
  const second = await model.call(2);
  await second.say("again");
  second.finish();
  expect((await queued.result).text).toBe("again");
  expect(await attachedText).toBe("again");
  expect((await client.reply("s1", "two", { key: "k2" })).turnId).toBe(queued.turnId);
});

const sentPolicies = (["reply", "send"] as const).flatMap((verb) =>
  (["steer", "queue", "interrupt", "reject"] as const).map((whenBusy) => ({ verb, whenBusy })),
);

test.each(sentPolicies)("whenBusy: $verb sends the policy $whenBusy", async ({ verb, whenBusy }) => {
  const { client, requests } = world(fake({ script: hello }));
  await (
    await client.start("one", { id: "s1" })
  ).result;
  requests.length = 0;
  await client[verb]("s1", "two", { whenBusy }).then(({ turnId }) => turnId);
  expect(await requests[0]?.json()).toEqual({ text: "two", whenBusy });
});

test("a message with files is queued with all of its parts", async () => {
  const model = handModel();
  const { client } = world(model);
  const turn = await client.start("one", { id: "s1" });
  const first = await model.call(1);
  const picture = {
    type: "image",
    image: { source: { type: "base64", data: "cG5n" }, mimeType: "image/png" },
  } as const;
  const message = { role: "user", content: [picture, { type: "text", text: "two" }] } as const;
  const next = await client.send("s1", message, { whenBusy: "queue" });
  first.finish();
  await turn.result;
  const second = await model.call(2);
  expect(second.request.messages.at(-1)).toMatchObject(message);
  second.finish();
  expect((await next.result).turnId).toBe(next.turnId);
});

test("whenBusy: an interrupting message cancels the open turn and starts the next one", async () => {
  const model = handModel();
  const { client } = world(model);
  const turn = await client.start("one", { id: "s1" });
  await model.call(1);
  const urgent = await client.send("s1", "two", { whenBusy: "interrupt" });
  expect((await turn.result).haltedReason).toBe("cancelled");
  (await model.call(2)).finish();
  expect((await urgent.result).turnId).toBe(urgent.turnId);
});
