// Untrusted requests: malformed and malicious ones, without a key, with a key of another tenant, and with a valid key.
// Invariants: no request gets a 500, nothing is written without a 2xx, and no tenant sees data of another.

import type { StorageBatch as Batch } from "everturn/advanced";
import type { HostStorage } from "everturn/runtime";

import { askUser, engine, fake, tool } from "everturn";
import { createHandler } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import {
  assert,
  asyncProperty,
  constant,
  constantFrom,
  dictionary,
  jsonValue,
  oneof,
  record,
  string,
} from "fast-check";
import { describe, expect, test } from "vitest";

import { allDialects } from "../../../test/dialects.ts";
import { sharedSessions } from "../../../test/shared-sessions.ts";

const mine = "the-token-of-the-owner-0";
const theirs = "the-token-of-another-one";
const secret = "the launch code is 0000";
const providerKey = "sk-live-0123456789abcdef";

/** A storage that counts its writes. */
function watched(storage: HostStorage): { readonly host: HostStorage; readonly writes: () => number } {
  let writes = 0;
  const write = (batch: Batch) => {
    writes += 1;
    return storage.write(batch);
  };
  return {
    host: { ...storage, read: storage.read.bind(storage), watch: storage.watch.bind(storage), write },
    writes: () => writes,
  };
}

async function world() {
  const { host, writes } = watched(memoryStorage());
  const schema = { type: "object" };
  const tools = [
    tool({ name: "pay", description: "Pays.", schema, needsApproval: true, handler: () => "paid" }),
    tool({ name: "ask", description: "Asks.", schema, handler: () => askUser("Which?") }),
  ];
  const calls = (name: string) => [{ type: "tool_call", id: "c1", name, arguments: {} } as const];
  const scripts = [
    calls("pay"),
    calls("ask"),
    ...Array.from({ length: 500 }, () => [{ type: "text", text: "Fine." } as const]),
  ];
  const agent = engine({ adapter: fake({ scripts }), model: "fake:m", tools, options: { maxTurns: 4 } });
  const all = runtime({ host, engines: { default: agent } });
  const sessions = all.tenant("acme");
  await (
    await sessions.start(secret, { id: "waits", context: { note: secret } })
  ).result;
  await (
    await sessions.start(secret, { id: "asks" })
  ).result;
  const { turnId } = await sessions.start(secret, { id: "done" });
  await sessions.attach("done", turnId).result;
  const failures: unknown[] = [];
  const handler = createHandler({
    sessions: all,
    ...sharedSessions,
    auth: [
      { token: mine, tenant: "acme" },
      { token: theirs, tenant: "globex" },
    ],
    dialects: allDialects({ agent }),
    records: true,
    inspect: true,
    limits: { bodyBytes: 100_000, waitSeconds: 1 },
    onError: (error) => failures.push(error),
  });
  const ask = async (method: string, path: string, { headers = {}, body }: Sent = {}) => {
    const init = {
      method,
      headers: { ...headers },
      ...(body === undefined || method === "GET" || method === "HEAD" ? {} : { body }),
    };
    const response = await handler(new Request(`http://localhost${path}`, init));
    // The stream of an open session does not end, so only its first chunk is read.
    const reader = response.body?.getReader();
    const first = await Promise.race([
      reader?.read(),
      new Promise<undefined>((resolve) => setTimeout(resolve, 20, undefined)),
    ]);
    await reader?.cancel();
    const text = first?.value === undefined ? "" : new TextDecoder().decode(first.value);
    return { status: response.status, text, headers: JSON.stringify([...response.headers]) };
  };
  /** Waits until no turn is running: an accepted turn writes while it runs. */
  const settled = async () => {
    const { items } = await sessions.list({ limit: 1000 });
    for (const { id, turnId: running } of items) if (running !== null) await sessions.attach(id, running).result;
  };
  return { ask, writes, failures, turnId: turnId ?? "", sessions, settled };
}

type Sent = {
  readonly headers?: { readonly [name: string]: string };
  readonly body?: string | Uint8Array<ArrayBuffer>;
};

const json = { "content-type": "application/json" };
const owner = { ...json, authorization: `Bearer ${mine}` };
const other = { ...json, authorization: `Bearer ${theirs}` };

/** Every route with a valid body. */
const routes = (turn: string): readonly (readonly [method: string, path: string, body: object | null])[] => [
  ["GET", "/sessions", null],
  ["POST", "/sessions", { input: "hi" }],
  ["GET", "/sessions/waits", null],
  ["DELETE", "/sessions/waits", null],
  ["GET", "/sessions/done/messages", null],
  ["GET", "/sessions/done/usage", null],
  ["POST", "/sessions/done/fork", {}],
  ["POST", "/sessions/done/recover", {}],
  ["POST", "/sessions/asks/reply", { text: "that" }],
  ["POST", "/sessions/done/send", { text: "that" }],
  ["POST", "/sessions/waits/continue", {}],
  ["POST", "/sessions/done/step", {}],
  ["POST", "/sessions/waits/tool-results", { results: [{ toolCallId: "c1", content: "x" }] }],
  ["POST", "/sessions/waits/decisions", { toolCallId: "c1", digest: "x", type: "approve" }],
  ["POST", "/sessions/done/cancel", {}],
  ["POST", "/sessions/done/steer", { input: "x" }],
  ["DELETE", "/sessions/done/inputs/i1", null],
  ["GET", "/sessions/done/events?follow=false", null],
  ["GET", `/sessions/done/turns/${turn}`, null],
  ["GET", `/sessions/done/turns/${turn}/events`, null],
  ["GET", `/sessions/done/turns/${turn}/record`, null],
  ["GET", "/server", null],
  ["GET", "/overview", null],
  ["GET", "/search", null],
  ["GET", "/engines", null],
  ["GET", "/sessions/done/turns", null],
  ["GET", `/sessions/done/turns/${turn}/timeline`, null],
  ["GET", `/sessions/done/turns/${turn}/effects/1`, null],
  ["GET", "/workers", null],
  ["POST", "/scenarios/hello", {}],
  ["POST", "/sessions/waits/calls/c1/token", null],
  ["POST", "/complete", { token: "x", type: "approve" }],
  ["POST", "/ui/chat", { id: "done", messages: [{ id: "m", role: "user", parts: [{ type: "text", text: "x" }] }] }],
  ["GET", "/ui/chat/done", null],
  ["GET", "/ui/chat/done/stream", null],
  ["POST", "/ui/chat/done/stop", {}],
  ["POST", "/v1/chat/completions", { model: "agent", messages: [{ role: "user", content: "hi" }] }],
  ["GET", "/v1/models", null],
  ["GET", "/health", null],
  ["GET", "/openapi.json", null],
];

const open = new Set(["/complete", "/health", "/openapi.json"]);

function expectNoDisclosure(
  answer: { readonly status: number; readonly text: string; readonly headers: string },
  label: string,
) {
  expect([label, answer.status]).not.toEqual([label, 500]);
  for (const word of [secret, mine, theirs, providerKey]) expect(answer.text + answer.headers).not.toContain(word);
}

describe("requests without a valid token", () => {
  test.each([
    ["none", {}],
    ["a wrong token", { authorization: "Bearer not-a-token-of-anybody" }],
    ["an empty token", { authorization: "Bearer " }],
    ["a token in another scheme", { authorization: `Token ${mine}` }],
    ["a token in the URL", {}],
    ["a token of 10,000 characters", { authorization: `Bearer ${"x".repeat(10_000)}` }],
    ["several tokens in one header", { authorization: `Bearer x, Bearer ${mine}` }],
  ])("get 401 from every route: %s", async (kind, headers) => {
    const { ask, writes, turnId } = await world();
    const before = writes();
    for (const [method, path, body] of routes(turnId)) {
      if (open.has(path)) continue;
      const address =
        kind === "a token in the URL" ? `${path}${path.includes("?") ? "&" : "?"}access_token=${mine}` : path;
      const answer = await ask(method, address, {
        headers: { ...json, ...headers },
        ...(body === null ? {} : { body: JSON.stringify(body) }),
      });
      expect([method, path, answer.status]).toEqual([method, path, 401]);
      expectNoDisclosure(answer, path);
    }
    expect(writes()).toBe(before);
  });

  test("a token of another tenant reaches no session of this one", async () => {
    const { ask, turnId, sessions } = await world();
    const before = JSON.stringify(await Promise.all(["waits", "asks", "done"].map((id) => sessions.get(id))));
    for (const [method, path, body] of routes(turnId)) {
      const answer = await ask(method, path, {
        headers: other,
        ...(body === null ? {} : { body: JSON.stringify(body) }),
      });
      expectNoDisclosure(answer, `${method} ${path}`);
      if (path.startsWith("/sessions/")) expect([method, path, answer.status]).toEqual([method, path, 404]);
    }
    expect(JSON.stringify(await Promise.all(["waits", "asks", "done"].map((id) => sessions.get(id))))).toBe(before);
  });
});

describe("malformed paths and queries", () => {
  test.each([
    "/sessions/..%2f..%2fetc%2fpasswd",
    "/sessions/%00",
    "/sessions/%",
    "/sessions/%ff%fe",
    "/sessions/%E0%A4%A",
    "/sessions/../health",
    "//sessions",
    "/sessions//events",
    "/sessions/done/",
    "/SESSIONS",
    `/sessions/${"x".repeat(5000)}`,
    `/${"a/".repeat(2000)}`,
    "/sessions/__proto__",
    "/sessions/constructor",
    "/v1/models/__proto__",
    "/v1/models/constructor",
    "/ui/chat/__proto__",
    "/sessions/done/turns/__proto__",
    "/sessions/done/turns/%2e%2e",
    "/sessions/'; drop table sessions; --",
    "/sessions/%F0%9F%92%A9",
    "/sessions/done/events?after=1;1.1;text/0=99999999999999999999;x",
    "/sessions/done/events?after=99999999999999999999",
    "/sessions/done/events?after=-1",
    "/sessions/done/events?follow=maybe",
    "/sessions/done/messages?after=1e9",
    "/sessions?after=%00",
    "/sessions?after=1:2:3",
    "/sessions?limit=0",
    "/sessions?limit=999999999999999",
    "/sessions?__proto__=1",
  ])("%s gets no 5xx and writes nothing", async (path) => {
    const { ask, writes } = await world();
    const before = writes();
    for (const method of ["GET", "HEAD", "DELETE", "POST", "PUT", "PATCH", "OPTIONS"]) {
      const answer = await ask(method, path, { headers: owner, body: "{}" });
      expect([method, path, answer.status >= 500]).toEqual([method, path, false]);
    }
    expect(writes()).toBe(before);
  });
});

describe("malformed bodies", () => {
  const deep = (depth: number) => `${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`;
  const wide = JSON.stringify({ input: Array.from({ length: 5000 }, () => 0) });
  test.each<readonly [what: string, body: string | Uint8Array<ArrayBuffer>]>([
    ["truncated JSON", '{"input":"h'],
    ["two JSON values", '{"input":"hi"}{"input":"hi"}'],
    ["a number", "1"],
    ["null", "null"],
    ["invalid UTF-8", new Uint8Array([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x7d])],
    ["a lone surrogate", '{"inputt":"\\ud800"}'],
    ["a NUL character", '{"inputt":"\\u0000"}'],
    ["a byte order mark", '\uFEFF{"inputt":1}'],
    ["deep nesting", deep(10_000)],
    ["deep nesting in a valid field", `{"input":"x","metadata":${deep(5000)}}`],
    ["a long array", wide],
    ["prototype pollution", '{"__proto__":{"input":"hi"},"constructor":1}'],
    ["prototype pollution in metadata", '{"input":1,"metadata":{"__proto__":{"polluted":true}}}'],
    ["a duplicate field", '{"input":1,"input":2}'],
    ["a number out of range", '{"input":1e999}'],
    ["a body over the limit", JSON.stringify({ input: "x".repeat(200_000) })],
    ["a provider key in metadata", JSON.stringify({ input: "hi", metadata: { openai_api_key: providerKey } })],
    ["an unknown role", '{"input":[{"role":"root","content":"x"}]}'],
    ["an unknown part type", '{"input":[{"role":"user","content":[{"type":"magic"}]}]}'],
    [
      "a file of the server",
      '{"input":[{"role":"user","content":[{"type":"image","source":{"type":"path","path":"/etc/passwd"}}]}]}',
    ],
  ])("%s gets 4xx from every route and writes nothing", async (_, body) => {
    const { ask, writes, turnId } = await world();
    for (const [method, path] of routes(turnId)) {
      if (method !== "POST" || path === "/sessions/waits/calls/c1/token") continue;
      const before = writes();
      const answer = await ask(method, path, { headers: owner, body });
      expect([path, answer.status]).toEqual([path, expect.toSatisfy((status) => status >= 400 && status < 500)]);
      expect([path, writes()]).toEqual([path, before]);
      expect(answer.text).not.toContain(providerKey);
    }
    expect(Object.hasOwn(Object.prototype, "polluted")).toBe(false);
  });
});

describe("generated requests", () => {
  const word = oneof(constantFrom("waits", "asks", "done", "c1", "__proto__", "x"), string({ maxLength: 20 }));
  const value = jsonValue({ maxDepth: 4 });
  const names = [
    "input",
    "text",
    "id",
    "options",
    "toolCallId",
    "type",
    "results",
    "continue",
    "token",
    "messages",
    "model",
    "message",
    "metadata",
    "at",
    "from",
    "stream",
    "tools",
    "trigger",
  ];
  const body = oneof(
    value,
    dictionary(constantFrom(...names), value, { maxKeys: 6 }),
    record({
      options: dictionary(constantFrom("engine", "version", "waits", "model", "output", "budgets"), value, {
        maxKeys: 4,
      }),
      input: constant("hi"),
      text: constant("hi"),
    }),
  );
  const header = dictionary(
    constantFrom("accept", "prefer", "idempotency-key", "last-event-id", "content-type", "content-encoding", "origin"),
    oneof(
      constantFrom("text/event-stream", "wait=1", "*/*", "application/json", "gzip", "0", "http://localhost", ";;;"),
      string({ maxLength: 30, unit: "grapheme-ascii" }),
    ),
    { maxKeys: 3 },
  );

  test("get no 500, and write nothing when they are rejected", async () => {
    const { ask, writes, failures, turnId, settled } = await world();
    const templates = routes(turnId).filter(([method, path]) => method !== "DELETE" && path !== "/health");
    await assert(
      asyncProperty(constantFrom(...templates), word, body, header, async ([method, path], name, sent, headers) => {
        const address = path.replace(/\/(?:waits|asks|done)/, `/${encodeURIComponent(name) || "x"}`);
        const clean = Object.fromEntries(
          Object.entries(headers).map(([key, text]) => [key, text.replaceAll(/[^\x20-\x7e]/g, "").trim()]),
        );
        const before = writes();
        const answer = await ask(method, address, { headers: { ...owner, ...clean }, body: JSON.stringify(sent) });
        expect([method, address, answer.status, failures]).not.toEqual([method, address, 500, expect.anything()]);
        if (answer.status >= 400) expect(writes()).toBe(before);
        else await settled();
      }),
      { numRuns: 400 },
    );
  });
});
