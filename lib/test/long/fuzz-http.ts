// Fuzzes the HTTP handler: random methods, paths, headers and bodies, mutated from valid requests, with valid, foreign
// and missing tokens.
//
//   tsx --conditions=source lib/test/long/fuzz-http.ts [requests] [seed]
//
// Fails if a response has a status of 5xx, if a refused request wrote a row, if a response contains the secret of the
// other tenant or of the engine, or if the handler rejects. Prints the counts by status and the peak memory.

import type { Adapter, FakeScript } from "everturn";

import { engine, fake, tool } from "everturn";
import { createHandler } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";

import { chatDialects } from "../dialects.ts";
import { sharedSessions } from "../shared-sessions.ts";

const count = Number(process.argv[2] ?? 12_000);
const seed = Number(process.argv[3] ?? 1);
const secrets = ["secret-of-the-other-tenant", "secret-instructions-of-the-engine", "ECONNREFUSED"];
const tokens = { own: "token-of-ada-0123456789", other: "token-of-bob-0123456789", unknown: "token-of-eve-0123456789" };

/** A pseudo-random generator (mulberry32), so that a seed repeats a run. */
let state = seed;
function random(): number {
  state = (state + 0x6d2b79f5) | 0;
  let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
}
const below = (limit: number) => Math.floor(random() * limit);
function pick<T>(list: readonly [T, ...T[]]): T {
  return list[below(list.length)] ?? list[0];
}

const broken = tool({
  name: "broken",
  description: "Fails.",
  schema: { type: "object" },
  handler: () => Promise.reject(new Error("connect ECONNREFUSED 10.0.0.5")),
});
const pay = tool({
  name: "pay",
  description: "Pays.",
  schema: { type: "object" },
  handler: () => 1,
  needsApproval: true,
});
const adapter: Adapter = {
  provider: "fake",
  stream: (request, call) => fake({ script: scriptFor(request.messages.at(-1)?.role ?? "user") }).stream(request, call),
};

function scriptFor(lastRole: string): FakeScript {
  const name = lastRole === "tool" ? "" : pick(["broken", "pay", ""]);
  if (name === "") return [{ type: "text", text: "Hello." }];
  return [{ type: "tool_call", id: `c${below(1e6)}`, name, arguments: {} }];
}

const agent = engine({
  adapter,
  model: "fake:m",
  tools: [broken, pay],
  instructions: "secret-instructions-of-the-engine",
});
let writes = 0;
const memory = memoryStorage();
const host = {
  ...memory,
  write: async (...given: Parameters<typeof memory.write>) => {
    writes += 1;
    return memory.write(...given);
  },
};
const sessions = runtime({ host, engines: { default: agent } });
const handler = createHandler({
  sessions,
  dialects: chatDialects,
  ...sharedSessions,
  auth: [
    { token: tokens.own, tenant: "ada" },
    { token: tokens.other, tenant: "bob" },
  ],
  hosts: ["localhost"],
  allow: ["output", "budgets", "maxTurns", "temperature", "responseFormat", "repair"],
});
await (
  await sessions.tenant("bob").start("secret-of-the-other-tenant", { id: "bobs" })
).result;

const ids = [
  "s1",
  "s1",
  "s1",
  "chat1",
  "chat1",
  "s2",
  "bobs",
  "missing",
  "../bobs",
  "%00",
  "s%2F1",
  "__proto__",
  "a".repeat(300),
] as const;
const paths: readonly [string, ...string[]] = [
  "/sessions",
  "/sessions/{id}",
  "/sessions/{id}/messages",
  "/sessions/{id}/usage",
  "/usage",
  "/sessions/{id}/fork",
  "/sessions/{id}/recover",
  "/sessions/{id}/reply",
  "/sessions/{id}/send",
  "/sessions/{id}/continue",
  "/sessions/{id}/step",
  "/sessions/{id}/tool-results",
  "/sessions/{id}/decisions",
  "/sessions/{id}/cancel",
  "/sessions/{id}/steer",
  "/sessions/{id}/inputs/x",
  "/sessions/{id}/events?follow=false",
  "/sessions/{id}/turns/x",
  "/sessions/{id}/turns/x/events?follow=false",
  "/sessions/{id}/calls/c1/token",
  "/complete",
  "/ui/chat",
  "/ui/chat/{id}",
  "/ui/chat/{id}/stream",
  "/ui/chat/{id}/stop",
  "/v1/chat/completions",
  "/v1/models",
  "/v1/models/default",
  "/health",
  "/openapi.json",
];
const values: readonly [unknown, ...unknown[]] = [
  null,
  true,
  0,
  -1,
  1e308,
  2 ** 53,
  "",
  "text",
  "\u0000\u202E\u009B",
  "\uD800",
  "x".repeat(5000),
  [],
  {},
  [[[[[]]]]],
  { __proto__: null, constructor: { prototype: {} } },
  { type: "object", properties: { a: { $ref: "#" } } },
  { type: "array", minItems: 200_000_000 },
  { type: "string", pattern: "(a+)+$" },
];
const bodies: readonly [object, ...object[]] = [
  { id: "s1", input: "hi" },
  { input: "hi" },
  { input: [{ type: "text", text: "hi" }] },
  { input: "hi", options: { output: { type: "object" }, maxTurns: 3 } },
  { input: "hi", options: { responseFormat: { type: "json_schema", name: "x", schema: {}, strict: true } } },
  { decisions: [{ toolCallId: "c1", type: "approve" }] },
  { results: [{ toolCallId: "c1", value: 1 }] },
  { token: "x".repeat(43), answer: { type: "approve" } },
  {
    id: "chat1",
    messages: [{ id: "m1", role: "user", parts: [{ type: "text", text: "hi" }] }],
    trigger: "submit-message",
  },
  { model: "default", messages: [{ role: "user", content: "hi" }], stream: false },
  { model: "default", messages: [{ role: "user", content: "hi" }], stream: true, tools: [] },
  { at: 1 },
  { reason: "stop" },
];

/** A copy with some random changes, at any depth. */
function mutated(value: unknown, depth = 0): unknown {
  if (random() < 0.08 || depth > 6) return pick(values);
  if (Array.isArray(value)) {
    const items = value.map((item) => mutated(item, depth + 1));
    return random() < 0.05 ? [...items, ...items, pick(values)] : items;
  }
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).flatMap(([key, part]) =>
    random() < 0.05
      ? []
      : [[random() < 0.03 ? pick(["__proto__", "constructor", "x", ""]) : key, mutated(part, depth + 1)]],
  );
  return Object.fromEntries(
    random() < 0.05 ? [...entries, [pick(["extra", "engine", "by", "context"]), pick(values)]] : entries,
  );
}

function randomBody(): string {
  const text = JSON.stringify(mutated(pick(bodies))) ?? "";
  const at = below(text.length + 1);
  switch (below(12)) {
    case 0:
      return text.slice(0, at);
    case 1:
      return `${text.slice(0, at)}${String.fromCharCode(below(0x3000))}${text.slice(at + 1)}`;
    case 2:
      return "[".repeat(10_000);
    default:
      return text;
  }
}

function randomRequest(): { readonly request: Request; readonly token: string | null } {
  const path = pick(paths).replace("{id}", pick(ids));
  const reads = /\/(?:messages|usage|events.*|turns\/x|stream|models.*|health|openapi\.json)$/.test(path);
  const usual = reads ? "GET" : pick(["POST", "POST", "POST", "GET"]);
  const method = random() < 0.9 ? usual : pick(["GET", "DELETE", "PUT", "PATCH", "OPTIONS", "HEAD"]);
  const token = random() < 0.7 ? tokens.own : pick([tokens.own, tokens.other, tokens.unknown, "", null]);
  const headers = new Headers();
  if (token !== null)
    headers.set("authorization", random() < 0.9 ? `Bearer ${token}` : pick([`Basic ${token}`, token]));
  if (random() < 0.95)
    headers.set(
      "content-type",
      random() < 0.9 ? "application/json" : pick(["text/plain", "application/json; charset=utf-16"]),
    );
  if (random() < 0.3) headers.set("idempotency-key", pick(["k1", "k2", "x".repeat(400), "\u00FF"]));
  if (random() < 0.3) headers.set("prefer", pick(["wait=1", "wait=-1", "wait=1e9", "respond-async"]));
  if (random() < 0.1) headers.set("origin", pick(["https://evil.test", "null", "http://localhost"]));
  if (random() < 0.1) headers.set("last-event-id", pick(["1", "x", "9".repeat(50)]));
  if (random() < 0.05) headers.set("sec-fetch-site", "cross-site");
  const query =
    random() < 0.2
      ? `${path.includes("?") ? "&" : "?"}${pick(["limit", "after", "messages", "follow"])}=${pick(["-1", "1e9", "x", "%ff", ""])}`
      : "";
  const hasBody = method !== "GET" && method !== "HEAD";
  const host = random() < 0.97 ? "localhost" : "evil.test";
  const request = new Request(`http://${host}${path}${query}`, {
    method,
    headers,
    ...(hasBody ? { body: randomBody() } : {}),
  });
  return { request, token };
}

/** Reads a response; a stream is read for a short time, because some have no end. */
async function responseText(response: Response): Promise<string> {
  const reader = response.body?.getReader();
  if (reader === undefined) return "";
  let text = "";
  const decoder = new TextDecoder();
  const until = Date.now() + 300;
  while (Date.now() < until && text.length < 200_000) {
    const late = new Promise<null>((resolve) => setTimeout(resolve, until - Date.now(), null));
    const next = await Promise.race([reader.read(), late]);
    if (next === null || next.done) break;
    text += decoder.decode(next.value, { stream: true });
  }
  reader.cancel().catch(() => undefined);
  return text;
}

const statuses = new Map<number, number>();
const problems: string[] = [];
let peak = 0;
const began = Date.now();
for (let n = 0; n < count; n += 1) {
  const { request, token } = randomRequest();
  const what = `request ${n}: ${request.method} ${request.url.slice(0, 120)}`;
  const isRefused = token !== tokens.own && token !== tokens.other;
  try {
    const response = await handler(request);
    statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1);
    const text = await responseText(response);
    if (response.status >= 500) problems.push(`${what}: ${response.status} ${text.slice(0, 300)}`);
    const shown = token === tokens.other ? secrets.slice(1) : secrets;
    for (const secret of shown) if (text.includes(secret)) problems.push(`${what}: discloses ${secret}`);
    if (isRefused && response.status < 300 && !/\/(?:health|openapi\.json)/.test(request.url)) {
      problems.push(`${what}: ${response.status} without a valid token`);
    }
  } catch (error) {
    problems.push(`${what}: rejected with ${String(error)}`);
  }
  if (n % 100 === 0) peak = Math.max(peak, process.memoryUsage().rss);
}

// Refused requests write nothing. Turns of the requests above have a second to end.
await new Promise((resolve) => setTimeout(resolve, 1000));
const writesBefore = writes;
for (let n = 0; n < 1000; n += 1) {
  const { request } = randomRequest();
  const headers = new Headers(request.headers);
  headers.set("authorization", `Bearer ${tokens.unknown}`);
  await responseText(await handler(new Request(request, { headers })));
}
if (writes !== writesBefore) problems.push(`refused requests caused ${writes - writesBefore} writes`);

const list = [...statuses].toSorted(([left], [right]) => left - right).map(([status, times]) => `${status}: ${times}`);
const server = [...statuses].filter(([status]) => status >= 500).reduce((sum, [, times]) => sum + times, 0);
console.log(
  [
    `${count + 1000} requests (seed ${seed}) in ${((Date.now() - began) / 1000).toFixed(1)} s; ${server} × 5xx; peak memory ${Math.round(peak / 1e6)} MB`,
    list.join(", "),
    ...problems.slice(0, 30),
  ].join("\n"),
);
process.exit(problems.length === 0 ? 0 : 1);
