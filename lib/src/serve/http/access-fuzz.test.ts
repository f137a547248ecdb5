// Random requests of every kind of caller. A model of the rules says which requests must be refused; the test counts
// violations, and shows that it finds them if the rules allow everything or nothing.

import type { WorldSettings } from "../../../test/access-world.ts";
import type { ApiKey } from "everturn/http";

import * as fc from "fast-check";
import { expect, test } from "vitest";

import { accessWorld, allowAll, deciderRules, sessionIds } from "../../../test/access-world.ts";

/** Callers with a token. */
const callers = ["owner", "other", "decider", "operator", "stranger", "admin", "intruder"] as const;
type Sender = (typeof callers)[number];

const scopeSets = ["all", "read", "write", "decide"] as const;
type ScopeSet = (typeof scopeSets)[number];

/** Whether a key lists the engine of every session, or another one. */
type Engines = "every" | "another";

/** A key for each caller, scope and list of engines. */
const keys: readonly ApiKey[] = callers.flatMap((name) =>
  scopeSets.flatMap((scopes) =>
    (["every", "another"] as const).map((engines) => ({
      token: tokenOf({ kind: name, scopes, engines }),
      // A stranger has the name of the owner in another tenant, as have administrators.
      name: ["stranger", "admin", "intruder"].includes(name) ? "owner" : name,
      // Administrators name the tenant with each request, and intruders try to.
      ...(name === "admin" ? {} : { tenant: ["stranger", "intruder"].includes(name) ? "elsewhere" : "shop" }),
      ...(["operator", "admin", "intruder"].includes(name) ? { operator: true } : {}),
      ...(scopes === "all" ? {} : { scopes: name === "admin" ? [scopes, "admin" as const] : [scopes] }),
      ...(engines === "every" ? {} : { engines: ["spare"] }),
    })),
  ),
);

function tokenOf({ kind, scopes, engines }: Pick<Sent, "kind" | "scopes" | "engines">): string {
  return `the-token-of-${kind}-${scopes}-${engines}`;
}

const reads = ["", "/messages", "/usage", "/turns", "/events?follow=false"] as const;

/** A request to a session. `need`: the right that it needs. */
type Sent = {
  readonly kind: Sender;
  readonly scopes: ScopeSet;
  readonly engines: Engines;
  readonly session: (typeof sessionIds)[number];
  readonly action: Action;
};

type Action =
  | { readonly need: "read"; readonly path: (typeof reads)[number] }
  | { readonly need: "read"; readonly chat: true }
  | { readonly need: "own"; readonly verb: "reply" | "send" | "steer" | "cancel" | "fork" | "tool-results" | "delete" }
  | { readonly need: "decide"; readonly type: "approve" | "deny"; readonly amount: number | null; readonly way: Way };

type Way = "native" | "ui" | "ag-ui" | "token";

const action: fc.Arbitrary<Action> = fc.oneof(
  fc.record({ need: fc.constant("read" as const), path: fc.constantFrom(...reads) }),
  fc.record({ need: fc.constant("read" as const), chat: fc.constant(true as const) }),
  fc.record({
    need: fc.constant("own" as const),
    verb: fc.constantFrom("reply" as const, "send", "steer", "cancel", "fork", "tool-results", "delete"),
  }),
  fc.record({
    need: fc.constant("decide" as const),
    type: fc.constantFrom("approve" as const, "deny"),
    amount: fc.option(fc.integer({ min: 1, max: 10_000 })),
    way: fc.constantFrom("native" as const, "ui", "ag-ui", "token"),
  }),
);

const sent: fc.Arbitrary<Sent> = fc.record({
  // Callers with rights are more frequent, so that many requests are accepted.
  kind: fc.constantFrom(
    ...(["owner", "owner", "owner", "operator", "operator", "admin", "admin", "admin"] as const),
    ...(["decider", "other", "stranger", "intruder"] as const),
  ),
  scopes: fc.constantFrom("all" as const, "all", "all", "all", "all", "all", "all", "all", "read", "write", "decide"),
  engines: fc.constantFrom("every" as const, "every", "every", "every", "every", "every", "every", "every", "another"),
  session: fc.constantFrom(...sessionIds, "pending", "pending"),
  action,
});

/** What the session waits for at this moment. */
type Waits = { readonly forDecision: boolean; readonly forResult: boolean };

/** The scopes of which a request needs one. */
function scopesFor(asked: Action, { forDecision, forResult }: Waits): readonly Exclude<ScopeSet, "all">[] {
  if (asked.need === "read") return ["read"];
  if (asked.need === "own" && asked.verb !== "tool-results") return ["write"];
  if (forDecision || (asked.need === "decide" && asked.way === "native")) return ["decide"];
  return forResult ? ["write"] : ["write", "decide"];
}

/** Whether the rules allow the request, from what is true of the session at this moment. */
function isAllowed({ kind, scopes, engines, action: asked }: Sent, waits: Waits): boolean {
  const { forDecision: waitsForDecision } = waits;
  // The result of a call that waits for a decision is a decision.
  const isDecision = asked.need === "own" && asked.verb === "tool-results" && waitsForDecision;
  const need = isDecision ? "decide" : asked.need;
  if (engines === "another") return false;
  const needed = scopesFor(asked, waits);
  if (scopes !== "all" && !needed.includes(scopes)) return false;
  switch (kind) {
    case "operator":
    case "admin":
      return true;
    case "owner":
      return need !== "decide" || !waitsForDecision;
    case "decider":
      return waitsForDecision && need !== "own";
    case "other":
    case "stranger":
    case "intruder":
      return false;
  }
}

type Counts = { sent: number; accepted: number; readonly violations: string[] };

/**
 * Sends the requests to one server, and counts the violations: a refusal that changed a row, an answer to a caller
 * without a right, a refusal of one who has it.
 */
async function play(requests: readonly Sent[], settings: WorldSettings): Promise<Counts> {
  const world = await accessWorld({ ...settings, keys });
  const counts: Counts = { sent: 0, accepted: 0, violations: [] };
  for (const request of requests) {
    const { kind, session } = request;
    const view = await world.sessions.get(session);
    const reasons = view?.session.pendingToolCalls.map(({ reason }) => reason) ?? [];
    const waitsForDecision = reasons.includes("approval");
    const forResult = reasons.includes("manual") || reasons.includes("question");
    const before = await world.rows();
    const answer = await send(world, request);
    // Turns end before the next request, so that the rows do not change by themselves.
    const after = await settled(world);
    counts.sent += 1;
    if (answer.status < 300) counts.accepted += 1;
    const text = `${JSON.stringify(request)}: ${answer.status} ${answer.raw.slice(0, 200)}`;
    const isRefused = answer.status >= 400;
    if (isRefused && before !== after) counts.violations.push(`refused and changed: ${text}`);
    if (view === null) continue;
    const isAccepted = answer.status < 300 && !isEmptyAnswer(request, answer);
    // A chat cannot answer a call that does not wait for an approval, so no scope is the right one.
    const isMisplaced = request.action.need === "decide" && !waitsForDecision && request.scopes !== "all";
    if (isMisplaced) continue;
    if (!isAllowed(request, { forDecision: waitsForDecision, forResult })) {
      if (isAccepted) counts.violations.push(`accepted: ${text}`);
      const mustHide =
        kind !== "owner" && kind !== "operator" && kind !== "admin" && !(kind === "decider" && waitsForDecision);
      if (mustHide && answer.raw.includes("secret")) counts.violations.push(`disclosed: ${text}`);
    } else if (answer.status === 403 || (request.action.need === "read" && hidesSession(request, answer))) {
      counts.violations.push(`refused: ${text}`);
    }
  }
  return counts;
}

type Answer = Awaited<ReturnType<Awaited<ReturnType<typeof accessWorld>>["send"]>>;

/**
 * The stream of a chat without an open turn is 204 for every caller, and a chat that a caller may not read is a new
 * one.
 */
function isEmptyAnswer(request: Sent, answer: Answer): boolean {
  return request.action.need === "read" && (answer.status === 204 || hidesSession(request, answer));
}

/** Whether a read was answered as if there were no such session. */
function hidesSession({ action }: Sent, { status, raw }: Answer): boolean {
  return status === 404 || ("chat" in action && status === 200 && raw.includes('"messages":[],"previous":null'));
}

async function settled(world: Awaited<ReturnType<typeof accessWorld>>): Promise<string> {
  for (;;) {
    const { items } = await world.sessions.list({ limit: 200 });
    const open = items.filter(({ turnId }) => turnId !== null);
    if (open.length === 0) return world.rows();
    for (const { id, turnId } of open) await world.sessions.attach(id, turnId).result;
  }
}

async function send(access: Awaited<ReturnType<typeof accessWorld>>, request: Sent) {
  const { kind, session, action: asked } = request;
  const key = { token: tokenOf(request) };
  const tenant = kind === "admin" || kind === "intruder" ? { "everturn-tenant": "shop" } : {};
  const world = {
    ...access,
    send: (from: typeof key, method: string, path: string, body?: unknown) =>
      access.send(from, method, path, body, tenant),
  };
  const path = `/sessions/${session}`;
  switch (asked.need) {
    case "read":
      return world.send(key, "GET", "chat" in asked ? `/ui/chat/${session}` : `${path}${asked.path}`);
    case "own": {
      const bodies = {
        reply: { text: "hi" },
        send: { text: "hi" },
        steer: { input: "hi" },
        cancel: {},
        fork: {},
        "tool-results": { results: [{ toolCallId: "c1", content: "x" }] },
        delete: undefined,
      };
      if (asked.verb === "delete") return world.send(key, "DELETE", path);
      return world.send(key, "POST", `${path}/${asked.verb}`, bodies[asked.verb]);
    }
    case "decide": {
      const approved = asked.type === "approve";
      const call = await world.callOf(session);
      const edit = approved && asked.amount !== null ? { arguments: { amount: asked.amount } } : {};
      switch (asked.way) {
        case "native":
          return world.send(key, "POST", `${path}/decisions`, {
            toolCallId: "c1",
            digest: call["digest"],
            type: asked.type,
            ...edit,
          });
        case "token":
          return world.send(key, "POST", `${path}/calls/c1/token`);
        case "ui": {
          const approval = { id: await world.approvalOf(session), approved };
          const input = { ...Object(call["arguments"]), ...edit.arguments };
          const part = { type: "tool-pay", toolCallId: "c1", state: "approval-responded", input, approval };
          return world.send(key, "POST", "/ui/chat", {
            id: session,
            messages: [{ id: "m2", role: "assistant", parts: [part] }],
          });
        }
        case "ag-ui": {
          const interruptId = await world.approvalOf(session);
          const resume = [{ interruptId, status: "resolved", payload: { approved, ...edit } }];
          return world.send(key, "POST", "/ag-ui", {
            threadId: session,
            runId: "r1",
            messages: [],
            tools: [],
            context: [],
            resume,
          });
        }
      }
    }
  }
}

const seed = 20_261;
const requestsOf = fc.array(sent, { minLength: 30, maxLength: 40 });

/** How many runs a test has. The part `access` of `npm run test:long` has more. */
const runs = process.env["EVERTURN_ACCESS"] === "all" ? 24 : 4;

/** Plays runs until all of these violations were found, or to the end. */
async function playAll(world: WorldSettings, sought: readonly string[] = []): Promise<Counts> {
  const total: Counts = { sent: 0, accepted: 0, violations: [] };
  for (const requests of fc.sample(requestsOf, { seed, numRuns: runs })) {
    if (sought.length > 0 && sought.every((prefix) => hasViolation(total, prefix))) break;
    const counts = await play(requests, world);
    total.sent += counts.sent;
    total.accepted += counts.accepted;
    total.violations.push(...counts.violations);
  }
  return total;
}

function hasViolation({ violations }: Counts, prefix: string): boolean {
  return violations.some((violation) => violation.startsWith(prefix));
}

test("requests are refused exactly where the rules say so, and a refused one changes no row", async () => {
  const { sent: all, accepted, violations } = await playAll({ rules: deciderRules });
  expect(violations).toEqual([]);
  expect(accepted / all).toBeGreaterThanOrEqual(0.3);
}, 120_000);

test.each([
  ["rules that allow everything", { rules: allowAll }],
  ["access that lets every caller pass", { rules: deciderRules, mutation: "allow_all" }],
  ["access that ignores the scopes of keys", { rules: deciderRules, mutation: "all_scopes" }],
  ["access that ignores the engines of keys", { rules: deciderRules, mutation: "all_engines" }],
] as const)(
  "finds %s",
  async (_, world) => {
    const discloses = !("mutation" in world) || world.mutation === "allow_all";
    const sought = discloses ? ["accepted", "disclosed"] : ["accepted"];
    const found = await playAll(world, sought);
    for (const prefix of sought) expect(hasViolation(found, prefix), prefix).toBe(true);
  },
  120_000,
);

test.each([
  ["rules that allow nothing", { rules: { owns: () => false, decide: () => false } }],
  ["access that lets no caller pass", { rules: {}, mutation: "deny_all" }],
  ["access without any scope that changes something", { rules: deciderRules, mutation: "no_scopes" }],
] as const)(
  "finds %s",
  async (_, world) => {
    expect(hasViolation(await playAll(world, ["refused:"]), "refused:")).toBe(true);
  },
  120_000,
);
