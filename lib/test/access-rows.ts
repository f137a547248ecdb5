// Every route and dialect of the API with a request that is accepted, for tests of who may do what.

import type { AccessWorld, Answer, Kind } from "./access-world.ts";
import type { ApiKey } from "everturn/http";

/**
 * What a caller gets. `done`: 2xx. `forbidden`: 403. `absent`: exactly the answer of a server on which the session does
 * not exist. `taken`: 409, the id of a new session is in use. `created`: 2xx, with a session of the caller.
 * `unauthorized`: 401.
 */
export type Outcome = "done" | "forbidden" | "absent" | "taken" | "created" | "unauthorized";

/** What a route needs. */
export type Need = "read" | "own" | "decide" | "create" | "caller" | "operator" | "admin" | "open";

export type Values = {
  readonly turnId: string;
  readonly call: { readonly [name: string]: unknown };
  readonly approvalId: string;
};

export type Row = {
  readonly route: string;
  readonly need: Need;
  /**
   * The session of callers other than the decider, who sees only the one that waits for an approval. Default:
   * `pending`.
   */
  readonly on?: "pending" | "manual" | "done";
  readonly body?: (id: string, values: Values) => unknown;
  readonly query?: string;
  /** The route names the engine `default`, as a model, and is 404 for a key that may not use it. */
  readonly model?: true;
  /** Statuses of success other than 200 to 299. */
  readonly also?: readonly number[];
};

const message = { id: "m1", role: "user" };
const uiAnswer = (id: string, { call, approvalId }: Values) => ({
  id,
  messages: [
    {
      id: "m2",
      role: "assistant",
      parts: [
        {
          type: "tool-pay",
          toolCallId: call["id"],
          state: "approval-responded",
          input: call["arguments"],
          approval: { id: approvalId, approved: true },
        },
      ],
    },
  ],
});
const run = (id: string, more: object) => ({
  threadId: id,
  runId: "r1",
  messages: [],
  tools: [],
  context: [],
  ...more,
});

export const rows: readonly Row[] = [
  { route: "GET /sessions", need: "caller" },
  { route: "POST /sessions", need: "caller", body: () => ({ input: "hi" }) },
  { route: "GET /sessions/{id}", need: "read" },
  { route: "DELETE /sessions/{id}", need: "own", on: "done" },
  { route: "GET /sessions/{id}/messages", need: "read" },
  { route: "GET /sessions/{id}/usage", need: "read" },
  { route: "GET /sessions/{id}/events", need: "read" },
  { route: "GET /sessions/{id}/turns", need: "read" },
  { route: "GET /sessions/{id}/turns/{turnId}", need: "read" },
  { route: "GET /sessions/{id}/turns/{turnId}/events", need: "read" },
  { route: "GET /sessions/{id}/turns/{turnId}/record", need: "read" },
  { route: "GET /sessions/{id}/turns/{turnId}/effects/{ordinal}/request", need: "read" },
  { route: "GET /sessions/{id}/turns/{turnId}/timeline", need: "read" },
  { route: "GET /sessions/{id}/turns/{turnId}/effects/{ordinal}", need: "read" },
  { route: "POST /sessions/{id}/reply", need: "own", on: "done", body: () => ({ text: "hi" }) },
  { route: "POST /sessions/{id}/send", need: "own", on: "done", body: () => ({ text: "hi" }) },
  {
    route: "POST /sessions/{id}/continue",
    need: "own",
    on: "done",
    body: () => ({ message: { role: "user", content: "hi" } }),
  },
  { route: "POST /sessions/{id}/step", need: "own", on: "done", body: () => ({}) },
  { route: "POST /sessions/{id}/steer", need: "own", on: "done", body: () => ({ input: "hi" }) },
  { route: "POST /sessions/{id}/cancel", need: "own", on: "done", body: () => ({}) },
  { route: "POST /sessions/{id}/fork", need: "own", on: "done", body: () => ({}) },
  { route: "POST /sessions/{id}/recover", need: "own", on: "done", body: () => ({}) },
  { route: "POST /sessions/{id}/compact", need: "own", on: "done", body: () => ({}) },
  // There is nothing to undo.
  { route: "POST /sessions/{id}/undo-compaction", need: "own", on: "done", body: () => ({}), also: [409] },
  { route: "GET /sessions/{id}/frames", need: "read" },
  // There is no such input.
  { route: "DELETE /sessions/{id}/inputs/{inputId}", need: "own", on: "done", also: [404] },
  {
    route: "POST /sessions/{id}/tool-results",
    need: "own",
    on: "manual",
    body: () => ({ results: [{ toolCallId: "c1", content: "found" }] }),
  },
  {
    route: "POST /sessions/{id}/decisions",
    need: "decide",
    body: (_, { call }) => ({ toolCallId: call["id"], digest: call["digest"], type: "approve" }),
  },
  {
    route: "POST /sessions/{id}/decisions",
    need: "decide",
    body: (_, { call }) => ({ toolCallId: call["id"], digest: call["digest"], type: "deny" }),
  },
  {
    route: "POST /sessions/{id}/decisions",
    need: "decide",
    body: (_, { call }) => ({
      toolCallId: call["id"],
      digest: call["digest"],
      type: "approve",
      arguments: { amount: 10_000 },
      continue: false,
    }),
  },
  { route: "POST /sessions/{id}/calls/{toolCallId}/token", need: "decide" },
  { route: "POST /sessions/{id}/calls/{toolCallId}/token", need: "own", on: "manual" },
  { route: "POST /complete", need: "open", body: () => ({ token: "no-such-token", type: "approve" }), also: [404] },
  {
    route: "POST /ui/chat",
    need: "create",
    on: "done",
    body: (id) => ({ id, messages: [{ ...message, parts: [{ type: "text", text: "hi" }] }] }),
  },
  { route: "POST /ui/chat", need: "decide", body: uiAnswer },
  { route: "GET /ui/chat/{id}", need: "read" },
  { route: "GET /ui/chat/{id}/stream", need: "read" },
  { route: "POST /ui/chat/{id}/stop", need: "own", on: "done", body: () => ({}) },
  {
    route: "POST /ag-ui",
    need: "create",
    on: "done",
    body: (id) => run(id, { messages: [{ ...message, content: "hi" }] }),
  },
  {
    route: "POST /ag-ui",
    need: "decide",
    body: (id, { approvalId }) =>
      run(id, { resume: [{ interruptId: approvalId, status: "resolved", payload: { approved: true } }] }),
  },
  {
    route: "POST /v1/chat/completions",
    need: "caller",
    model: true,
    body: () => ({ model: "default", messages: [{ role: "user", content: "hi" }] }),
  },
  { route: "GET /v1/models", need: "caller" },
  { route: "GET /v1/models/{model}", need: "caller", model: true },
  { route: "GET /usage", need: "operator" },
  { route: "GET /overview", need: "operator" },
  { route: "GET /workers", need: "operator" },
  { route: "POST /scenarios/{name}", need: "operator", body: () => ({}), also: [404] },
  { route: "GET /keys", need: "admin" },
  { route: "POST /keys", need: "admin", body: () => ({ name: "new" }) },
  // There is no such key.
  { route: "POST /keys/{keyId}/rotate", need: "admin", body: () => ({}), also: [404] },
  { route: "POST /keys/{keyId}/revoke", need: "admin", also: [404] },
  { route: "GET /audit", need: "admin" },
  { route: "GET /tenants", need: "admin" },
  { route: "DELETE /sessions", need: "admin", query: "?owner=zoe" },
  { route: "GET /search", need: "caller", query: "?q=secret" },
  { route: "GET /server", need: "caller" },
  { route: "GET /engines", need: "caller" },
  { route: "GET /health", need: "open" },
];

export async function ask(
  world: AccessWorld,
  from: Kind | Pick<ApiKey, "token">,
  row: Row,
  id: string,
  values: Values,
  headers: object = {},
): Promise<Answer> {
  const [method = "", path = ""] = row.route.split(" ");
  const filled: { readonly [name: string]: string } = {
    id,
    turnId: values.turnId,
    toolCallId: "c1",
    ordinal: "1",
    inputId: "an-input",
    keyId: "a-key",
    name: "hello",
    model: "default",
  };
  const target = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => filled[name] ?? "") + (row.query ?? "");
  return world.send(from, method, target, row.body?.(id, values), headers);
}

/** Whether an answer is the one that a caller has to get. */
export function isOutcome(expected: Outcome, answer: Answer, absent: Answer, { route, also = [] }: Row): boolean {
  const { status, headers, text } = answer;
  const isAbsent = status === absent.status && text === absent.text && headers === absent.headers;
  switch (expected) {
    case "unauthorized":
      return status === 401;
    case "forbidden":
      return status === 403;
    case "absent":
      return isAbsent;
    case "taken":
      return status === 409 && text.includes("exists");
    case "created":
      return status < 300 && isAbsent;
    case "done":
      // Where nothing is open and nothing can be withdrawn, the answer for a session is that for no session.
      return (status < 300 || also.includes(status)) && (!isAbsent || !route.includes("{id}") || sameForAll.has(route));
  }
}

/** Whether a route only reads. An export is recorded in the audit log. */
export function onlyReads({ route }: Row): boolean {
  return route.startsWith("GET") && !route.endsWith("/record");
}

const sameForAll = new Set(["GET /ui/chat/{id}/stream", "DELETE /sessions/{id}/inputs/{inputId}"]);

/** The row's values in a world: ids and the pending call of a session. */
export async function valuesOf(world: AccessWorld, id: string): Promise<Values> {
  return { turnId: await world.turnOf(id), call: await world.callOf(id), approvalId: await world.approvalOf(id) };
}
