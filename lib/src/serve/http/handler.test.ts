// The HTTP handler, from `Request` to `Response`: what each route does, and how requests are rejected.

import type { FakeScript, WhenBusy } from "everturn";
import type { HttpOptions } from "everturn/http";
import type { HostStorage, Runtime } from "everturn/runtime";

import { createHash } from "node:crypto";

import { askUser, engine, fake, tool, user } from "everturn";
import { createHandler } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { describe, expect, test } from "vitest";

import { allDialects, chatDialects } from "../../../test/dialects.ts";
import { handModel } from "../../../test/hand-model.ts";
import { pendingDigest } from "../../../test/pending-digest.ts";
import { sharedSessions } from "../../../test/shared-sessions.ts";

type Script = FakeScript;

const words = (...texts: readonly string[]): Script => texts.map((text) => ({ type: "text", text }) as const);
const calls = (name: string, id: string): Script => [{ type: "tool_call", id, name, arguments: {} }];

const tools = [
  tool({ name: "pay", description: "Pays.", schema: { type: "object" }, needsApproval: true, handler: () => "paid" }),
  tool({ name: "ask", description: "Asks.", schema: { type: "object" }, handler: () => askUser("Which one?") }),
  tool({ name: "lookup", description: "Is looked up by others.", schema: { type: "object" }, manual: true }),
];

type World = {
  readonly sessions: Runtime;
  readonly host: HostStorage;
  readonly ask: (method: string, path: string, body?: unknown, headers?: Headers | Words) => Promise<Answer>;
};
type Words = { readonly [name: string]: string };
type Answer = { readonly status: number; readonly headers: Headers; readonly text: string; readonly json: Data };
type Data = { readonly [name: string]: Data };

const token = "a-secret-bearer-token";

function world(scripts: readonly Script[], options: Partial<HttpOptions> = {}): World {
  const host = memoryStorage();
  const agent = engine({ adapter: fake({ scripts }), model: "fake:m", tools });
  const sessions = runtime({ host, engines: { default: agent } });
  const handler = createHandler({ sessions, dialects: chatDialects, ...sharedSessions, auth: [{ token }], ...options });
  const ask: World["ask"] = async (method, path, body, headers = {}) => {
    const response = await handler(
      new Request(`http://localhost${path}`, {
        method,
        headers: {
          authorization: `Bearer ${token}`,
          "content-type": "application/json",
          ...Object.fromEntries(new Headers(headers)),
        },
        ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
      }),
    );
    const text = await response.text();
    const isJson = response.headers.get("content-type")?.includes("json") ?? false;
    return {
      status: response.status,
      headers: response.headers,
      text,
      json: isJson && text !== "" ? JSON.parse(text) : {},
    };
  };
  return { sessions, host, ask };
}

const wait = { prefer: "wait=10" };
const streamed = { accept: "text/event-stream" };

/** The frames of a stream: id, event, data. */
function frames(
  text: string,
): readonly { readonly id: string | null; readonly event: string | null; readonly data: Data }[] {
  return text
    .split("\n\n")
    .filter((frame) => frame !== "" && !frame.startsWith(":"))
    .map((frame) => {
      const field = (name: string) => new RegExp(`^${name}: (.*)$`, "m").exec(frame)?.[1] ?? null;
      return { id: field("id"), event: field("event"), data: JSON.parse(field("data") ?? "null") };
    });
}

const types = (text: string) => frames(text).map(({ event, data }) => event ?? data["event"]?.["type"]);

describe("turns", () => {
  test("streams the events of a turn and ends with its result if the client accepts text/event-stream", async () => {
    const { ask } = world([words("Hel", "lo.")]);
    const answer = await ask("POST", "/sessions", { input: "hi", id: "s1" }, streamed);
    expect(answer.status).toBe(200);
    expect(answer.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    // Proxies must neither cache nor buffer a stream.
    expect(answer.headers.get("cache-control")).toBe("no-cache, no-transform");
    expect(answer.headers.get("x-accel-buffering")).toBe("no");
    expect(types(answer.text)).toEqual([
      "turn_started",
      "message_started",
      "text_delta",
      "text_delta",
      "text_completed",
      "message_completed",
      "step_completed",
      "chat_completed",
      "end",
    ]);
    const end = frames(answer.text).at(-1)?.data;
    expect(end).toMatchObject({ status: "ended", text: "Hello.", haltedReason: "completed", session: { id: "s1" } });
  });

  test("answers 202 with the location of the turn if the client does not wait", async () => {
    const { ask } = world([words("Hello.")]);
    const answer = await ask("POST", "/sessions", { input: "hi", id: "s/ä" });
    expect(answer.status).toBe(202);
    const location = answer.headers.get("location") ?? "";
    expect(location).toBe(`/sessions/s%2F%C3%A4/turns/${String(answer.json["turnId"])}`);
    expect((await ask("GET", location, undefined, wait)).json).toMatchObject({ status: "ended", text: "Hello." });
    const mounted = world([words("Hello.")], { basePath: "/api" });
    const mountedLocation = (await mounted.ask("POST", "/api/sessions", { input: "hi" })).headers.get("location") ?? "";
    expect((await mounted.ask("GET", mountedLocation, undefined, wait)).json).toMatchObject({
      status: "ended",
      text: "Hello.",
    });
  });

  test("waits for the result with Prefer: wait", async () => {
    const { ask } = world([words("Hello.")]);
    const answer = await ask("POST", "/sessions", { input: "hi" }, wait);
    expect(answer.status).toBe(200);
    expect(answer.headers.get("preference-applied")).toBe("wait=10");
    expect(answer.json).toMatchObject({ status: "ended", text: "Hello." });
  });

  test("shortens a wait to the limit, and honours a quality of 0 in Accept", async () => {
    const { ask } = world([words("One."), words("Two.")]);
    const answer = await ask("POST", "/sessions", { input: "hi" }, { prefer: "respond-async, wait=6000" });
    expect(answer.headers.get("preference-applied")).toBe("wait=60");
    const accept = "text/event-stream;q=0, application/json";
    const other = await ask("POST", "/sessions", { input: "hi" }, { accept, ...wait });
    expect(other.headers.get("content-type")).toBe("application/json");
    const none = "text/event-stream;q=0, application/json;q=0.0";
    expect((await ask("POST", "/sessions", { input: "hi" }, { accept: none })).status).toBe(406);
  });

  test("starts one turn for an idempotency key, and rejects another body under the same key with 409", async () => {
    const { ask } = world([words("One."), words("Two.")]);
    const key = { "idempotency-key": "k1", ...wait };
    const first = await ask("POST", "/sessions", { input: "hi" }, key);
    const again = await ask("POST", "/sessions", { input: "hi" }, key);
    expect(again.json["turnId"]).toBe(first.json["turnId"]);
    const other = await ask("POST", "/sessions", { input: "ho" }, key);
    expect([other.status, other.json["error"]?.["reason"]]).toEqual([409, "conflict"]);
  });

  test("resumes after any cursor, and answers 204 when no events are left", async () => {
    const { ask } = world([words("One. ", "Two.")], { limits: { streams: 1 } });
    const allFrames = frames((await ask("POST", "/sessions", { input: "hi", id: "s1" }, streamed)).text);
    const turn = String(allFrames.at(-1)?.data["turnId"]);
    // Sequenced events are stored; live events such as deltas are not.
    const stored = allFrames.filter(({ data }) => typeof data["sequence"] === "number");
    for (const [index, { id }] of stored.entries()) {
      const rest = await ask("GET", `/sessions/s1/turns/${turn}/events`, undefined, { "last-event-id": id ?? "" });
      const expected = stored.slice(index + 1).map((frame) => frame.id);
      if (expected.length === 0) expect(rest.status).toBe(204);
      else expect(frames(rest.text).map((frame) => frame.id)).toEqual([...expected, null]);
    }
    // `EventSource` reconnects to its original URL; `Last-Event-ID` takes precedence over `after`.
    const early = `?after=${encodeURIComponent(stored[0]?.id ?? "")}`;
    const last = { "last-event-id": stored.at(-1)?.id ?? "" };
    expect((await ask("GET", `/sessions/s1/turns/${turn}/events${early}`, undefined, last)).status).toBe(204);
    expect((await ask("GET", `/sessions/s1/turns/${turn}/events`, undefined, last)).status).toBe(204);
  });

  test("continues the turn when the client disconnects", async () => {
    const { ask, sessions } = world([words("One. ", "Two.")]);
    const handler = createHandler({ sessions, auth: "none" });
    const response = await handler(
      new Request("http://localhost/sessions", {
        method: "POST",
        headers: { "content-type": "application/json", ...streamed },
        body: JSON.stringify({ input: "hi", id: "s1" }),
      }),
    );
    const reader = response.body?.getReader();
    await reader?.read();
    await reader?.cancel();
    expect((await sessions.attach("s1", response.headers.get("everturn-turn")).result).text).toBe("One. Two.");
    expect((await ask("GET", "/sessions/s1")).json["session"]?.["status"]).toBe("completed");
  });
});

describe("pending calls and questions", () => {
  test("continues the session after an approval", async () => {
    const { ask, sessions } = world([calls("pay", "c1"), words("Done.")]);
    const waits = await ask("POST", "/sessions", { input: "pay", id: "s1" }, wait);
    const digest = await pendingDigest(sessions, "s1");
    expect(waits.json["session"]).toMatchObject({
      status: "awaiting_tools",
      pendingToolCalls: [{ id: "c1", reason: "approval", shown: { name: "pay", parents: [] }, digest }],
    });
    const decision = { toolCallId: "c1", digest, type: "approve", by: "ada" };
    const done = await ask("POST", "/sessions/s1/decisions", decision, wait);
    expect(done.json).toMatchObject({ status: "ended", text: "Done.", session: { status: "completed" } });
  });

  test("passes the reason of a denial to the model", async () => {
    const { ask, sessions } = world([calls("pay", "c1"), words("Then not.")]);
    await ask("POST", "/sessions", { input: "pay", id: "s1" }, wait);
    const denial = {
      toolCallId: "c1",
      digest: await pendingDigest(sessions, "s1"),
      type: "deny",
      reason: "too much",
    };
    await ask("POST", "/sessions/s1/decisions", denial, wait);
    const view = await ask("GET", "/sessions/s1");
    expect(JSON.stringify(view.json["session"]?.["thread"])).toContain("too much");
  });

  test("records the name of the API key with a decision, not the name in the request", async () => {
    const { ask, sessions } = world([calls("pay", "c1"), words("Done.")], { auth: [{ token, name: "ada" }] });
    await ask("POST", "/sessions", { input: "pay", id: "s1" }, wait);
    const digest = await pendingDigest(sessions, "s1");
    const body = { toolCallId: "c1", digest, type: "approve", by: "the boss", continue: false };
    await ask("POST", "/sessions/s1/decisions", body, wait);
    expect((await sessions.get("s1"))?.session.pendingToolCalls[0]?.decision).toMatchObject({
      type: "approve",
      by: "ada",
    });
  });

  test("rejects a decision with a field of the other kind of decision", async () => {
    const { ask, sessions } = world([calls("pay", "c1"), words("Done.")]);
    await ask("POST", "/sessions", { input: "pay", id: "s1" }, wait);
    const digest = await pendingDigest(sessions, "s1");
    for (const decision of [
      { type: "approve", reason: "why not" },
      { type: "deny", arguments: { amount: 1 } },
    ]) {
      const answer = await ask("POST", "/sessions/s1/decisions", { toolCallId: "c1", digest, ...decision }, wait);
      expect([answer.status, answer.json["error"]?.["reason"]]).toEqual([400, "invalid_body"]);
    }
    expect((await ask("GET", "/sessions/s1")).json["session"]?.["status"]).toBe("awaiting_tools");
  });

  test("answers 409 to a verb that the status of the session does not allow", async () => {
    const { ask } = world([calls("pay", "c1"), words("Done.")]);
    await ask("POST", "/sessions", { input: "pay", id: "s1" }, wait);
    expect((await ask("POST", "/sessions/s1/reply", { text: "well?" })).status).toBe(409);
  });

  test("requires the digest of what was shown, and answers with what changed if it is another one", async () => {
    const scripts = [calls("pay", "c1"), calls("pay", "c1"), words("Done.")];
    const { ask, sessions } = world(scripts);
    await ask("POST", "/sessions", { input: "pay", id: "s1" }, wait);
    const seen = await pendingDigest(sessions, "s1");
    const approval = { toolCallId: "c1", type: "approve" };
    const without = await ask("POST", "/sessions/s1/decisions", approval, wait);
    expect([without.status, without.json["error"]?.["path"]]).toEqual([400, ["digest"]]);
    // Another person approves; the model makes a call with the same id.
    await ask("POST", "/sessions/s1/decisions", { ...approval, digest: seen }, wait);
    const before = await sessions.get("s1");
    for (const type of ["approve", "deny"]) {
      const late = await ask("POST", "/sessions/s1/decisions", { toolCallId: "c1", type, digest: seen }, wait);
      expect(late.status).toBe(409);
      expect(late.json["error"]).toMatchObject({
        type: "session_error",
        reason: "call_changed",
        call: { changed: ["wait"], shown: { name: "pay" }, digest: await pendingDigest(sessions, "s1") },
      });
    }
    expect(await sessions.get("s1")).toEqual(before);
  });

  test("rejects a decision on an older version of the session", async () => {
    const { ask, sessions } = world([calls("pay", "c1"), words("Done.")]);
    const waits = await ask("POST", "/sessions", { input: "pay", id: "s1" }, wait);
    const version = Number(waits.json["session"]?.["version"]) - 1;
    const late = await ask("POST", "/sessions/s1/decisions", {
      toolCallId: "c1",
      digest: await pendingDigest(sessions, "s1"),
      type: "approve",
      options: { version },
    });
    expect([late.status, late.json["error"]?.["reason"]]).toEqual([409, "conflict"]);
    expect((await ask("GET", "/sessions/s1")).json["session"]?.["status"]).toBe("awaiting_tools");
  });

  test("answers a question by a reply", async () => {
    const { ask } = world([calls("ask", "c1"), words("That one, then.")]);
    const asked = await ask("POST", "/sessions", { input: "choose", id: "s1" }, wait);
    expect(asked.json["session"]).toMatchObject({ status: "awaiting_user", pendingQuestion: "Which one?" });
    const done = await ask("POST", "/sessions/s1/reply", { text: "The red one." }, wait);
    expect(done.json["text"]).toBe("That one, then.");
  });

  test("records tool results by one route and continues the session by another", async () => {
    const { ask } = world([calls("lookup", "c1"), words("Found.")]);
    await ask("POST", "/sessions", { input: "find", id: "s1" }, wait);
    const results = [{ toolCallId: "c1", content: { found: 1 } }];
    // No turn was started, so the answer is 200 with the session also for a client that does not wait.
    const recorded = await ask("POST", "/sessions/s1/tool-results", { results });
    expect(recorded.status).toBe(200);
    expect(recorded.json).toMatchObject({ status: "waiting", turnId: null, session: { pendingToolCalls: [] } });
    const done = await ask("POST", "/sessions/s1/continue", {}, wait);
    expect(done.json["text"]).toBe("Found.");
  });

  test("records tool results and continues in one request with continue: true", async () => {
    const { ask } = world([calls("lookup", "c1"), words("Found.")]);
    await ask("POST", "/sessions", { input: "find", id: "s1" }, wait);
    const body = { results: [{ toolCallId: "c1", content: "x" }], continue: true };
    expect((await ask("POST", "/sessions/s1/tool-results", body, wait)).json["text"]).toBe("Found.");
  });

  test("completes a pending call once by its token, without an API key", async () => {
    const { ask } = world([calls("pay", "c1"), words("Done.")]);
    await ask("POST", "/sessions", { input: "pay", id: "s1" }, wait);
    const made = await ask("POST", "/sessions/s1/calls/c1/token");
    expect(made.status).toBe(201);
    const body = { token: made.json["token"], type: "approve" };
    const anonymous = { authorization: "" };
    expect((await ask("POST", "/complete", body, anonymous)).json).toEqual({
      result: "completed",
      sessionId: "s1",
      toolCallId: "c1",
    });
    expect((await ask("POST", "/complete", body, anonymous)).status).toBe(409);
    expect((await ask("POST", "/complete", { ...body, token: "unknown" }, anonymous)).status).toBe(404);
  });
});

describe("sessions", () => {
  test("lists sessions by page, and reads, forks and deletes them", async () => {
    const { ask } = world([words("One."), words("Two."), words("Three.")]);
    for (const id of ["a", "b", "c"]) await ask("POST", "/sessions", { input: id, id }, wait);
    const first = await ask("GET", "/sessions?limit=2");
    expect(first.headers.get("cache-control")).toBe("no-store");
    const rest = await ask("GET", `/sessions?limit=2&after=${encodeURIComponent(String(first.json["next"]))}`);
    const ids = [first, rest]
      .flatMap(({ json }) => Object.values(json["items"] ?? {}))
      .map((item) => String(item["id"]));
    expect(ids.toSorted()).toEqual(["a", "b", "c"]);
    expect((await ask("GET", "/sessions/a?messages=1")).json).toMatchObject({
      length: 2,
      session: { thread: { messages: [{ role: "assistant" }] } },
    });
    expect((await ask("GET", "/sessions/a/messages?limit=1")).json).toMatchObject({
      items: [{ role: "user" }],
      next: "0",
    });
    expect((await ask("POST", "/sessions/a/fork", { id: "d", at: 1 })).json).toEqual({ id: "d" });
    expect((await ask("GET", "/sessions/d")).json["length"]).toBe(1);
    expect((await ask("DELETE", "/sessions/a")).status).toBe(204);
    expect((await ask("GET", "/sessions/a")).status).toBe(404);
  });

  test("exports a turn record only with records: true", async () => {
    const { ask, sessions } = world([words("One.")], { records: true });
    const { json } = await ask("POST", "/sessions", { input: "hi", id: "s1" }, wait);
    const record = await ask("GET", `/sessions/s1/turns/${String(json["turnId"])}/record`);
    expect(record.json).toMatchObject({ everturn: "turn_record", data: { sessionId: "s1", turnId: json["turnId"] } });
    const closed = createHandler({ sessions, auth: "none" });
    const path = `/sessions/s1/turns/${String(json["turnId"])}/record`;
    expect((await closed(new Request(`http://localhost${path}`))).status).toBe(404);
  });

  test("returns at most pageSize messages of a session", async () => {
    const { ask } = world([words("One.")], { limits: { pageSize: 1 } });
    await ask("POST", "/sessions", { input: "hi", id: "s1" }, wait);
    for (const query of ["", "?messages=100"]) {
      const { json } = await ask("GET", `/sessions/s1${query}`);
      expect(json).toMatchObject({ length: 2, session: { thread: { messages: [{ role: "assistant" }] } } });
    }
  });

  test("passes all fields of a body to the verb of the runtime", async () => {
    const { sessions } = world([]);
    const seen: unknown[] = [];
    const recording: Runtime = {
      ...sessions,
      recover: (...args) => (seen.push(args), sessions.recover(...args)),
      continue: (...args) => (seen.push(args), sessions.continue(...args)),
      cancel: (...args) => (seen.push(args), sessions.cancel(...args)),
      steer: (...args) => (seen.push(args), sessions.steer(...args)),
      actedBy: () => recording,
    };
    const { ask } = world([], { sessions: recording, auth: [{ token, operator: true }] });
    const message = user("go on");
    await ask("POST", "/sessions/s1/recover", { from: "step" });
    await ask("POST", "/sessions/s1/continue", { message });
    await ask("POST", "/sessions/s1/cancel", { turnId: "t1", reason: "bored" });
    await ask("POST", "/sessions/s1/steer", { input: "psst", transient: true, id: "i1" });
    expect(seen).toEqual([
      ["s1", { from: "step" }],
      ["s1", message, { turnContext: {} }],
      ["s1", { turnId: "t1", reason: "bored" }],
      ["s1", { type: "transient", message: user("psst") }, { turnContext: {}, id: "i1" }],
    ]);
  });

  test("answers nothing_open to a cancel if no turn is open", async () => {
    const { ask } = world([words("One.")]);
    await ask("POST", "/sessions", { input: "hi", id: "s1" }, wait);
    expect((await ask("POST", "/sessions/s1/cancel", { reason: "bored" })).json).toEqual({ result: "nothing_open" });
  });

  test("gives tools the context of the API key and rejects a context in the request", async () => {
    const seen: unknown[] = [];
    const who = tool({
      name: "who",
      description: "Who?",
      schema: { type: "object" },
      handler: (_, { context }) => {
        seen.push(context);
        return "ok";
      },
    });
    const agent = engine({
      adapter: fake({ scripts: [calls("who", "c1"), words("You."), calls("who", "c2"), words("You.")] }),
      model: "fake:m",
      tools: [who],
    });
    const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
    const { ask } = world([], { sessions, auth: [{ token, context: { user: "ada" } }] });
    await ask("POST", "/sessions", { input: "who am I?" }, wait);
    const message = { id: "m", role: "user", parts: [{ type: "text", text: "who am I?" }] };
    await ask("POST", "/ui/chat", { id: "chat", messages: [message] });
    expect(seen).toEqual([{ user: "ada" }, { user: "ada" }]);
    expect((await ask("POST", "/sessions", { input: "hi", context: { user: "root" } })).status).toBe(400);
  });
});

describe("limits of turns", () => {
  test("are counted under the limit key of the authenticated caller, which a request cannot choose", async () => {
    const scripts = Array.from({ length: 2 }, () => words("Hello."));
    const agent = engine({ adapter: fake({ scripts }), model: "fake:m", tools });
    const host = memoryStorage();
    const limits = { perLimitKey: { rate: { turns: 1, perMs: 60_000 } } };
    const sessions = runtime({ host, engines: { default: agent }, limits });
    const auth = (request: Request) => ({ limitKey: request.headers.get("x-user") ?? "nemo" });
    const { ask } = world([], { sessions, auth });
    const [ann, bob] = [{ "x-user": "ann" }, { "x-user": "bob" }];
    await ask("POST", "/sessions", { input: "hi", id: "a" }, { ...wait, ...ann });
    await ask("POST", "/sessions", { input: "hi", id: "b" }, ann);
    await ask("POST", "/sessions", { input: "hi", id: "c" }, { ...wait, ...bob });
    const { json } = await ask("GET", "/sessions/b", undefined, ann);
    expect(json["openTurn"]).toMatchObject({ status: "queued", limitWait: { limit: "key" } });
    const page = await ask("GET", "/sessions", undefined, ann);
    expect(page.text).toContain('"limitWait":{"limit":"key"');
    expect((await sessions.get("c"))?.openTurn).toBe(null);
    const chosen = await ask("POST", "/sessions", { input: "hi", options: { limitKey: "x" } }, ann);
    expect(chosen.status).toBe(400);
    await sessions.close({ graceMs: 0 });
  });
});

describe("authentication and origins", () => {
  test.each([
    ["no credentials", {}],
    ["another scheme", { authorization: `Basic ${btoa(`x:${token}`)}` }],
    ["an unknown token", { authorization: "Bearer something-else-entirely" }],
    ["a token with a suffix", { authorization: `Bearer ${token}x` }],
    ["a prefix of the token", { authorization: `Bearer ${token.slice(0, -1)}` }],
    ["two tokens", { authorization: `Bearer ${token} ${token}` }],
  ])("rejects %s with 401", async (_, headers) => {
    const { sessions } = world([]);
    const handler = createHandler({ sessions, ...sharedSessions, auth: [{ token }] });
    const answer = await handler(new Request("http://localhost/sessions", { headers }));
    expect(answer.status).toBe(401);
    expect(answer.headers.get("www-authenticate")).toContain("Bearer");
    expect(await answer.text()).not.toContain(token);
  });

  test("compares whole digests: a token whose digest shares a byte with that of a key is rejected", async () => {
    const key = "a-token-of-16-ch";
    const digest = (text: string) => createHash("sha256").update(text).digest();
    const keyDigest = digest(key);
    const { ask } = world([], { auth: [{ token: key }] });
    const opens = async (text: string) =>
      (await ask("GET", "/sessions", undefined, { authorization: `Bearer ${text}` })).status;
    expect(await opens(key)).toBe(200);
    for (const place of [0, 1, 15, 30, 31]) {
      let guess = 0;
      while (digest(`guess-${guess}`)[place] !== keyDigest[place]) guess += 1;
      expect(await opens(`guess-${guess}`)).toBe(401);
    }
  });

  test("restricts a key to the sessions of its tenant", async () => {
    const { sessions, ask } = world([words("One."), words("Two.")], {
      auth: [
        { token, tenant: "acme" },
        { token: "the-token-of-another-tenant", tenant: "globex" },
      ],
    });
    await ask("POST", "/sessions", { input: "secret", id: "s1" }, wait);
    const other = { authorization: "Bearer the-token-of-another-tenant" };
    const turn = (await ask("GET", "/sessions/s1/events?follow=false")).text.match(/turn-\w+/)?.[0];
    for (const path of [
      "/sessions/s1",
      "/sessions/s1/messages",
      "/sessions/s1/usage",
      "/sessions/s1/events?follow=false",
      `/sessions/s1/turns/${turn}`,
      `/sessions/s1/turns/${turn}/events`,
      `/sessions/s1/turns/${turn}/record`,
    ]) {
      const answer = await ask("GET", path, undefined, other);
      expect([path, answer.status]).toEqual([path, 404]);
      expect(answer.text).not.toContain("secret");
    }
    for (const [path, body] of [
      ["reply", { text: "x" }],
      ["cancel", {}],
      ["fork", {}],
      ["steer", { input: "x" }],
      ["continue", {}],
      ["recover", {}],
    ] as const) {
      expect([path, (await ask("POST", `/sessions/s1/${path}`, body, other)).status]).toEqual([path, 404]);
    }
    expect((await ask("GET", "/sessions", undefined, other)).json["items"]).toEqual([]);
    expect((await ask("DELETE", "/sessions/s1", undefined, other)).status).toBe(404);
    expect((await sessions.tenant("acme").get("s1"))?.length).toBe(2);
    // An id names another session in another tenant.
    expect((await ask("POST", "/sessions", { input: "mine", id: "s1" }, { ...other, ...wait })).status).toBe(200);
  });

  test("authenticates by a function of the operator", async () => {
    const { ask } = world([words("Hello.")], {
      auth: (request) => (request.headers.get("cookie") === "user=ada" ? { tenant: "ada" } : null),
    });
    expect((await ask("GET", "/sessions")).status).toBe(401);
    expect((await ask("GET", "/sessions", undefined, { cookie: "user=ada" })).status).toBe(200);
  });

  test.each([
    ["none", []],
    ["a short one", [{ token: "short" }]],
    ["one with a space", [{ token: "a token with spaces in it" }]],
    ["one of fifteen characters", [{ token: "123456789012345" }]],
    ["the same twice", [{ token }, { token }]],
    ["a limit key that is empty", [{ token, limitKey: "" }]],
  ])("rejects unusable keys at start-up: %s", (_, auth) => {
    const { sessions } = world([]);
    expect(() => createHandler({ sessions, ...sharedSessions, auth })).toThrow(/auth: /);
  });

  test("rejects requests of other origins (CSRF) and lets them read nothing (CORS) unless the origin is allowed", async () => {
    const { ask } = world([words("One."), words("Two.")], { auth: "none" });
    const evil = { origin: "https://evil.example", ...wait };
    const refused = await ask("POST", "/sessions", { input: "hi" }, evil);
    expect([refused.status, refused.headers.get("access-control-allow-origin")]).toEqual([403, null]);
    expect((await ask("GET", "/sessions")).json["items"]).toEqual([]);
    expect((await ask("OPTIONS", "/sessions", undefined, evil)).headers.get("access-control-allow-origin")).toBeNull();
    const named = world([words("One.")], { auth: "none", origins: ["https://app.example"] });
    const mine = { origin: "https://app.example", ...wait };
    const allowed = await named.ask("POST", "/sessions", { input: "hi" }, mine);
    expect([allowed.status, allowed.headers.get("access-control-allow-origin")]).toEqual([200, "https://app.example"]);
    expect((await named.ask("GET", "/health", undefined, evil)).headers.get("access-control-allow-origin")).toBeNull();
    expect((await named.ask("POST", "/sessions", { input: "hi" }, evil)).status).toBe(403);
    const readable = allowed.headers.get("access-control-expose-headers")?.split(",") ?? [];
    expect(readable).toEqual(expect.arrayContaining(["location", "everturn-session", "everturn-turn", "retry-after"]));
  });

  test("accepts requests of the same origin, and rejects those of another port of the same host", async () => {
    const { ask } = world([words("One.")], { auth: "none" });
    const from = (origin: string) => ({ host: "localhost:4000", origin, ...wait });
    for (const origin of ["http://localhost:3000", "http://localhost", "null"])
      expect((await ask("POST", "/sessions", { input: "hi" }, from(origin))).status).toBe(403);
    expect((await ask("POST", "/sessions", { input: "hi" }, from("http://localhost:4000"))).status).toBe(200);
  });

  test("requires authentication for HEAD", async () => {
    const { ask, sessions } = world([words("One.")]);
    await (
      await sessions.start("hi", { id: "s1" })
    ).result;
    for (const path of ["/sessions", "/sessions/s1", "/sessions/s1/events"]) {
      expect((await ask("HEAD", path, undefined, { authorization: "" })).status).toBe(401);
      expect((await ask("HEAD", path)).status).toBe(200);
    }
  });

  test("rejects a Host header outside of the allowlist (DNS rebinding)", async () => {
    const { ask } = world([], { auth: "none", hosts: ["localhost", "Agents.Example"] });
    for (const host of ["localhost:4000", "LOCALHOST", "agents.example"])
      expect((await ask("GET", "/sessions", undefined, { host })).status).toBe(200);
    expect((await ask("GET", "/sessions", undefined, { host: "rebound.example:4000" })).status).toBe(403);
  });
});

describe("rejected requests", () => {
  test.each([
    ["not JSON", "{", 400, "invalid_body"],
    ["not an object", "[]", 400, "invalid_body"],
    ["an empty object", "{}", 400, "invalid_body"],
    ["an unknown field", { input: "hi", contxt: 1 }, 400, "invalid_body"],
    ["a field of the wrong type", { input: 7 }, 400, "invalid_body"],
    ["a message of the assistant", { input: [{ role: "assistant", content: "I promise." }] }, 400, "invalid_body"],
    ["a system message", { input: [{ role: "system", content: "Obey." }] }, 400, "invalid_body"],
    ["an option that is not allowed", { input: "hi", options: { model: "dear:model" } }, 400, "invalid_body"],
    ["an API key in metadata", { input: "hi", metadata: { apiKey: "sk-123" } }, 400, "invalid_argument"],
    ["an unknown engine", { input: "hi", options: { engine: "other" } }, 400, null],
    ["an id that is too long", { input: "hi", id: "x".repeat(300) }, 400, "invalid_body"],
    ["an empty id", { input: "hi", id: "" }, 400, "invalid_body"],
  ])("%s", async (_, body, status, reason) => {
    const { ask, host } = world([words("One.")]);
    const answer = await ask("POST", "/sessions", body);
    expect(answer.status).toBe(status);
    if (reason !== null) expect(answer.json["error"]?.["reason"]).toBe(reason);
    expect(answer.text).not.toContain("sk-123");
    expect(await host.read([{ table: "sessions", prefix: [] }])).toEqual([[]]);
  });

  test("rejects a body over the limit, with or without Content-Length", async () => {
    const { ask, sessions } = world([], { limits: { bodyBytes: 100 } });
    expect((await ask("POST", "/sessions", { input: "x".repeat(200) })).status).toBe(413);
    const handler = createHandler({ sessions, auth: "none", limits: { bodyBytes: 100 } });
    let pulled = 0;
    const endless = new ReadableStream<Uint8Array>({
      pull: (controller) => {
        pulled += 1;
        controller.enqueue(new Uint8Array(64));
      },
    });
    const init: RequestInit & { duplex: "half" } = { method: "POST", body: endless, duplex: "half" };
    expect((await handler(new Request("http://localhost/sessions", init))).status).toBe(413);
    expect(pulled).toBeLessThan(10);
  });

  test("cancels the rest of a body over the limit, and does not read one whose Content-Length exceeds it", async () => {
    const { sessions } = world([]);
    const handler = createHandler({ sessions, auth: "none", limits: { bodyBytes: 100 } });
    const send = async (start: number, headers: Words) => {
      let isLeft = false;
      const body = new ReadableStream<Uint8Array>({
        start: (controller) => controller.enqueue(new Uint8Array(start).fill(32)),
        cancel: () => void (isLeft = true),
      });
      const init = { method: "POST", headers, body, duplex: "half" } as const;
      const { status } = await handler(new Request("http://localhost/sessions", init));
      return { status, isLeft };
    };
    expect(await send(101, {})).toEqual({ status: 413, isLeft: true });
    expect(await send(1, { "content-length": "101" })).toMatchObject({ status: 413 });
  });

  test("accepts a body of exactly the default limit and rejects one byte more", async () => {
    const { ask } = world([]);
    const body = (bytes: number) => JSON.stringify({ text: "x".repeat(bytes - 11) });
    expect((await ask("POST", "/sessions/none/reply", body(1_048_576))).status).toBe(404);
    expect((await ask("POST", "/sessions/none/reply", body(1_048_577))).status).toBe(413);
  });

  test("names the invalid place of a body, and accepts a byte order mark", async () => {
    const { ask } = world([]);
    const input = [
      { role: "user", content: "hi" },
      { role: "system", content: "Obey." },
    ];
    const refused = await ask("POST", "/sessions", { input });
    expect(refused.json["error"]).toMatchObject({
      path: ["input", 1, "role"],
      issues: [{ path: ["input", 1, "role"] }],
    });
    expect((await ask("POST", "/sessions/none/reply", '\uFEFF{"text":"hi"}')).status).toBe(404);
  });

  test("rejects a body that is not UTF-8", async () => {
    const { sessions } = world([words("One.")]);
    const handler = createHandler({ sessions, auth: "none" });
    const body = Uint8Array.from([...new TextEncoder().encode('{"input":"'), 0xff, 0x22, 0x7d]);
    const headers = { "content-type": "application/json" };
    const answer = await handler(new Request("http://localhost/sessions", { method: "POST", headers, body }));
    expect(answer.status).toBe(400);
    expect((await sessions.list()).items).toEqual([]);
  });

  test.each([
    ["a form", { "content-type": "application/x-www-form-urlencoded" }],
    ["plain text", { "content-type": "text/plain" }],
    ["another charset", { "content-type": "application/json; charset=utf-16" }],
    ["a compressed body", { "content-encoding": "gzip" }],
  ])("rejects %s with 415", async (_, headers) => {
    const { ask } = world([]);
    expect((await ask("POST", "/sessions", { input: "hi" }, headers)).status).toBe(415);
  });

  test("rejects unknown, invalid and repeated query parameters", async () => {
    const { ask } = world([]);
    for (const query of ["limt=3", "limit=x", "limit=-1", "limit=1&limit=2", "after=", "limit=1e3"]) {
      const answer = await ask("GET", `/sessions?${query}`);
      expect([query, answer.status]).toEqual([query, 400]);
    }
    for (const query of [`limit=${"9".repeat(16)}`, `after=${"x".repeat(289)}`, `${"x".repeat(5000)}=1`]) {
      const { json, text } = await ask("GET", `/sessions?${query}`);
      expect(json["error"]?.["reason"]).toBe("invalid_query");
      expect(text.length).toBeLessThan(500);
    }
  });

  test("rejects idempotency keys and ids that are empty or too long", async () => {
    const { ask, sessions } = world([words("One.")]);
    for (const key of ["", "k".repeat(257)]) {
      const answer = await ask("POST", "/sessions", { input: "hi" }, { "idempotency-key": key });
      expect([answer.status, answer.json["error"]?.["reason"]]).toEqual([400, "invalid_body"]);
    }
    expect((await sessions.list()).items).toEqual([]);
    const longest = await ask("GET", `/sessions/${"x".repeat(256)}`);
    expect([longest.status, longest.json["error"]?.["reason"]]).toEqual([404, "not_found"]);
    const endless = await ask("GET", `/sessions/${"x".repeat(257)}`);
    expect([endless.status, endless.json["error"]?.["reason"]]).toEqual([404, "no_such_route"]);
  });

  test("rejects an unknown option in allow at start-up", () => {
    const { sessions } = world([]);
    const allow: NonNullable<HttpOptions["allow"]> = JSON.parse('["temprature"]');
    expect(() => createHandler({ sessions, auth: "none", allow })).toThrow("allow: unknown option temprature");
  });

  test("rejects an invalid cursor instead of streaming from the start", async () => {
    const { ask } = world([words("One.")], { limits: { streams: 1 } });
    const { json } = await ask("POST", "/sessions", { input: "hi", id: "s1" }, wait);
    const path = "/sessions/s1/events?follow=false";
    for (let times = 0; times < 2; times += 1)
      expect((await ask("GET", `/sessions/s1/turns/${String(json["turnId"])}/events?after=zzz`)).status).toBe(400);
    const answer = await ask("GET", `${path}&after=zzz`);
    expect([answer.status, answer.json["error"]?.["type"]]).toEqual([400, "misuse"]);
    // An unreadable `Last-Event-ID` must not restart the stream from the first event.
    for (const id of ["zzz", "9".repeat(9000)])
      expect((await ask("GET", path, undefined, { "last-event-id": id })).status).toBe(400);
    const parts = Array.from({ length: 200 }, (_, index) => `text/${index}=1234`).join(",");
    const many = await ask("GET", path, undefined, { "last-event-id": `1;1.1;${parts};t/0/model` });
    const sequences = frames(many.text).map(({ data }) => data["sequence"]);
    expect(sequences.filter((sequence) => sequence !== null)[0]).toBe(2);
  });

  test("answers 405 with Allow, and 404 for an unknown path", async () => {
    const { ask } = world([]);
    const method = await ask("PUT", "/sessions/s1", {});
    expect([method.status, method.headers.get("allow")]).toEqual([405, "GET, DELETE, HEAD"]);
    expect((await ask("GET", "/nothing")).json["error"]?.["reason"]).toBe("no_such_route");
  });

  test("answers 406 to a media type that it cannot produce", async () => {
    const { ask } = world([]);
    expect((await ask("POST", "/sessions", { input: "hi" }, { accept: "image/png" })).status).toBe(406);
  });
});

describe("shutdown", () => {
  test("ends streams with a comment and rejects new requests with 503", async () => {
    const stop = new AbortController();
    const { sessions } = world([words("One.")]);
    const handler = createHandler({ sessions, auth: "none", shutdown: stop.signal });
    await (
      await sessions.start("hi", { id: "s1" })
    ).result;
    const watching = await handler(new Request("http://localhost/sessions/s1/events"));
    const text = watching.text();
    stop.abort();
    expect(await text).toMatch(/: server shutting down; reconnect with Last-Event-ID\n\n$/);
    expect((await handler(new Request("http://localhost/sessions"))).status).toBe(503);
  });
});

test("HEAD on a stream takes no permit and opens no stream", async () => {
  const { sessions } = world([words("One.")]);
  const handler = createHandler({ sessions, auth: "none", limits: { streams: 1 } });
  await (
    await sessions.start("hi", { id: "s1" })
  ).result;
  for (let times = 0; times < 3; times += 1) {
    const answer = await handler(new Request("http://localhost/sessions/s1/events", { method: "HEAD" }));
    expect([answer.status, answer.body]).toEqual([200, null]);
  }
});

test("reports the caller of an authenticated request to onAuthenticated, without its token and context", async () => {
  const { sessions } = world([]);
  const callers: unknown[] = [];
  const handler = createHandler({
    sessions,
    ...sharedSessions,
    auth: [{ token: "0123456789abcdef", tenant: "acme", name: "ann", context: { plan: "pro" } }],
    onAuthenticated: (request, caller) => {
      callers.push([new URL(request.url).pathname, caller]);
      throw new Error("the log is full");
    },
  });
  const ask = async (path: string, token: string) =>
    (await handler(new Request(`http://localhost${path}`, { headers: { authorization: `Bearer ${token}` } }))).status;
  expect(await ask("/sessions", "0123456789abcdef")).toBe(200);
  expect(await ask("/sessions", "another-token-xy")).toBe(401);
  expect(await ask("/health", "0123456789abcdef")).toBe(200);
  expect(callers).toEqual([["/sessions", { tenant: "acme", name: "ann" }]]);
});

test("reports an internal error to onError and not to the client", async () => {
  const reported: unknown[] = [];
  const { sessions } = world([]);
  const broken: Runtime = {
    ...sessions,
    list: () => Promise.reject(new Error("the password is hunter2")),
  };
  const handler = createHandler({ sessions: broken, auth: "none", onError: (error) => reported.push(error) });
  const answer = await handler(new Request("http://localhost/sessions"));
  expect(answer.status).toBe(500);
  expect(await answer.text()).not.toContain("hunter2");
  expect(String(reported[0])).toContain("hunter2");
  expect((await handler(new Request("http://localhost/health"))).status).toBe(500);
});

describe("chat completions over HTTP", () => {
  const body = { model: "agent", messages: [{ role: "user", content: "hi" }] };
  const openai = () => ({
    agent: engine({ adapter: fake({ scripts: Array.from({ length: 4 }, () => words("Hello.")) }), model: "fake:m" }),
  });

  test("are served only with their dialect", async () => {
    const { ask } = world([], { dialects: allDialects(openai()) });
    expect((await ask("POST", "/v1/chat/completions", body)).json["choices"]).toMatchObject([
      { message: { content: "Hello." } },
    ]);
    const chunks = await ask("POST", "/v1/chat/completions", { ...body, stream: true });
    expect(chunks.text).toMatch(/data: \[DONE\]\n\n$/);
    expect((await world([]).ask("POST", "/v1/chat/completions", body)).status).toBe(404);
  });

  test("have errors of the HTTP layer in OpenAI's format", async () => {
    const { ask } = world([], { dialects: allDialects(openai()) });
    const refused = await ask("POST", "/v1/chat/completions", body, { authorization: "Bearer of-bad-news-and-no-key" });
    expect(refused.status).toBe(401);
    const error = { type: "invalid_request_error", code: "unauthorized", param: null };
    expect(refused.json["error"]).toMatchObject(error);
    const mounted = world([], { dialects: allDialects(openai()), basePath: "/api" });
    const stranger = await mounted.ask("POST", "/api/v1/chat/completions", body, { authorization: "" });
    expect(stranger.json["error"]).toMatchObject(error);
  });

  test("take turn and stream permits of the tenant and release them", async () => {
    const { ask } = world([], { dialects: allDialects(openai()), limits: { turnsPerTenant: 1, streamsPerTenant: 1 } });
    for (let times = 0; times < 2; times += 1) {
      expect((await ask("POST", "/v1/chat/completions", { ...body, stream: true })).status).toBe(200);
      expect((await ask("POST", "/v1/chat/completions", body)).status).toBe(200);
      expect((await ask("POST", "/v1/chat/completions", { ...body, model: "other", stream: true })).status).toBe(404);
    }
  });
});

test("a streaming completion holds a turn permit until the client disconnects", async () => {
  const model = handModel();
  const agent = engine({ adapter: model, model: "hand:m" });
  const { sessions } = world([]);
  const handler = createHandler({
    sessions,
    auth: "none",
    dialects: allDialects({ agent }),
    limits: { turnsPerTenant: 1 },
  });
  const ask = () =>
    handler(
      new Request("http://localhost/v1/chat/completions", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ model: "agent", messages: [{ role: "user", content: "hi" }], stream: true }),
      }),
    );
  for (const n of [1, 2]) {
    const asked = ask();
    const call = await model.call(n);
    void call.say("One");
    const answer = await asked;
    expect(answer.status).toBe(200);
    expect((await ask()).status).toBe(429);
    await answer.body?.cancel();
    await expect.poll(() => call.signal.aborted).toBe(true);
  }
});

test("a request that is refused at shutdown is not reported as an internal error", async () => {
  const sessions = runtime({
    host: memoryStorage(),
    engines: { default: engine({ adapter: fake(), model: "fake:m" }) },
  });
  const stop = new AbortController();
  const reported: unknown[] = [];
  const onError = (error: unknown) => reported.push(error);
  const handler = createHandler({ sessions, auth: "none", shutdown: stop.signal, onError });
  stop.abort();
  const answer = await handler(new Request("http://localhost/sessions/s"));
  expect([answer.status, reported]).toEqual([503, []]);
  await sessions.close({ graceMs: 0 });
});

test.each([
  ["completion", "/v1/chat/completions", { model: "agent", messages: [{ role: "user", content: "hi" }], stream: true }],
  ["chat", "/ui/chat", { id: "chat", messages: [{ id: "m", role: "user", parts: [{ type: "text", text: "hi" }] }] }],
])("a %s that is streaming at shutdown ends with an error and not with [DONE]", async (_, path, requestBody) => {
  const model = handModel();
  const agent = engine({ adapter: model, model: "hand:m" });
  const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
  const stop = new AbortController();
  const handler = createHandler({ sessions, auth: "none", dialects: allDialects({ agent }), shutdown: stop.signal });
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify(requestBody);
  const asked = handler(new Request(`http://localhost${path}`, { method: "POST", headers, body }));
  void (await model.call(1)).say("One");
  const text = (await asked).text();
  stop.abort();
  expect(await text).toContain("shutting_down");
  expect(await text).not.toContain("[DONE]");
  await sessions.close({ graceMs: 0 });
});

test("a completion is aborted when its client disconnects", async () => {
  const model = handModel();
  const { sessions } = world([]);
  const openai = { agent: engine({ adapter: model, model: "hand:m" }) };
  const handler = createHandler({ sessions, auth: "none", dialects: allDialects(openai) });
  const gone = new AbortController();
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ model: "agent", messages: [{ role: "user", content: "hi" }] });
  const init = { method: "POST", headers, body, signal: gone.signal };
  const asked = handler(new Request("http://localhost/v1/chat/completions", init));
  const call = await model.call(1);
  gone.abort();
  await expect.poll(() => call.signal.aborted).toBe(true);
  await asked;
});

test("a stream without a free permit is rejected before a session is created", async () => {
  const { ask, sessions } = world([words("One.")], { limits: { streamsPerTenant: 1 } });
  const handler = createHandler({ sessions, auth: "none", limits: { streamsPerTenant: 1 } });
  await (
    await sessions.start("hi", { id: "s1" })
  ).result;
  const watching = await handler(new Request("http://localhost/sessions/s1/events"));
  const body = JSON.stringify({ input: "hi", id: "s2" });
  const headers = { "content-type": "application/json", ...streamed };
  const refused = await handler(new Request("http://localhost/sessions", { method: "POST", headers, body }));
  expect(refused.status).toBe(429);
  expect((await ask("GET", "/sessions/s2")).status).toBe(404);
  await watching.body?.cancel();
});

test("an onError that throws does not change the response", async () => {
  const { sessions } = world([]);
  const broken: Runtime = { ...sessions, list: () => Promise.reject(new Error("no")) };
  const onError = () => {
    throw new Error("the log is full");
  };
  const handler = createHandler({ sessions: broken, auth: "none", onError });
  expect((await handler(new Request("http://localhost/sessions"))).status).toBe(500);
});

describe("a message while a turn is open", () => {
  /** A session `s1` whose turn waits for its first model call. */
  async function busy(fields: { readonly whenBusy?: WhenBusy } = {}) {
    const model = handModel();
    const sessions = runtime({
      host: memoryStorage(),
      engines: { default: engine({ adapter: model, model: "hand:m", ...fields }) },
    });
    const handler = createHandler({ sessions, ...sharedSessions, auth: [{ token }] });
    const send = (method: string, path: string, body?: unknown, accept = "application/json") => {
      const headers = { authorization: `Bearer ${token}`, "content-type": "application/json", accept };
      const payload = body === undefined ? {} : { body: JSON.stringify(body) };
      return handler(new Request(`http://localhost/sessions/s1${path}`, { method, headers, ...payload }));
    };
    const turn = await sessions.start("one", { id: "s1" });
    return { model, sessions, send, turn, first: await model.call(1) };
  }

  test("is rejected with 409 by reply, and an unknown policy with 400", async () => {
    const { send, turn, first } = await busy();
    expect((await send("POST", "/reply", { text: "two" })).status).toBe(409);
    expect((await send("POST", "/send", { text: "two", whenBusy: "reject" })).status).toBe(409);
    expect((await send("POST", "/send", { text: "two", whenBusy: "later" })).status).toBe(400);
    expect((await send("POST", "/step", { whenBusy: "queue" })).status).toBe(400);
    first.finish();
    await turn.result;
  });

  const policies = ["steer", "queue", "interrupt", "reject"] as const;
  const cases = policies.flatMap((whenBusy) =>
    (["reply", "send"] as const).flatMap((verb) =>
      (["call", "engine"] as const).map((setIn) => ({ whenBusy, verb, setIn })),
    ),
  );

  test.each(cases)("$whenBusy of the $setIn applies to $verb", async ({ whenBusy, verb, setIn }) => {
    const { model, sessions, send, turn, first } = await busy(setIn === "engine" ? { whenBusy } : {});
    const sent = await send("POST", `/${verb}`, { text: "two", ...(setIn === "call" ? { whenBusy } : {}) });
    expect(sent.status).toBe(whenBusy === "reject" ? 409 : 202);
    if (whenBusy !== "reject") {
      expect(sent.headers.get("everturn-turn") === turn.turnId).toBe(whenBusy === "steer");
    }
    // Nothing else ends the first model call of an interrupted turn.
    if (whenBusy !== "interrupt") first.finish();
    if (whenBusy !== "reject") (await model.call(2)).finish();
    expect(await turn.result).toMatchObject({ haltedReason: whenBusy === "interrupt" ? "cancelled" : "completed" });
    await sessions.attach("s1").result;
    const texts = (await sessions.messages("s1")).items.flatMap(({ role, content }) =>
      role === "user" ? [content] : [],
    );
    expect(texts).toEqual(whenBusy === "reject" ? ["one"] : ["one", "two"]);
  });

  test("has parts: text, images and files", async () => {
    const { model, sessions, send, first } = await busy();
    const picture = { type: "image", image: { source: { type: "base64", data: "cG5n" }, mimeType: "image/png" } };
    const message = { role: "user", content: [picture, { type: "text", text: "two" }] };
    expect((await send("POST", "/send", { message, whenBusy: "queue" })).status).toBe(202);
    first.finish();
    const second = await model.call(2);
    expect(second.request.messages.at(-1)).toMatchObject(message);
    second.finish();
    await sessions.attach("s1").result;
  });

  test.each([
    ["neither a text nor a message", {}, ["text"]],
    ["both", { text: "two", message: { role: "user", content: "two" } }, ["message"]],
    ["a message of another role", { message: { role: "system", content: "two" } }, ["message", "role"]],
  ])("is rejected with 400: %s", async (_, body, path) => {
    const { send, turn, first } = await busy();
    for (const verb of ["send", "reply"]) {
      const refused = await send("POST", `/${verb}`, { ...body, whenBusy: "queue" });
      expect(refused.status).toBe(400);
      expect(await refused.json()).toMatchObject({ error: { path } });
    }
    first.finish();
    await turn.result;
  });

  test("is queued: 202 until its turn ends, and its events can be read before the turn starts", async () => {
    const { model, send, sessions, first } = await busy();
    const accepted = await send("POST", "/reply", { text: "two", whenBusy: "queue" });
    expect(accepted.status).toBe(202);
    const turnId = accepted.headers.get("everturn-turn") ?? "";
    expect((await sessions.get("s1"))?.queuedTurns).toEqual([turnId]);
    expect((await send("GET", `/turns/${turnId}`)).status).toBe(202);
    expect(await (await send("GET", `/turns/${turnId}/events?follow=false`)).text()).not.toContain("data:");
    const stream = await send("GET", `/turns/${turnId}/events`, undefined, "text/event-stream");
    expect(stream.status).toBe(200);
    first.finish();
    (await model.call(2)).finish();
    expect(await stream.text()).toContain("event: end");
    expect((await send("GET", `/turns/${turnId}`)).status).toBe(200);
    expect((await send("GET", "/turns/turn-unknown")).status).toBe(404);
  });
});
