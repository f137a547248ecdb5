// Every route and dialect of the API for every kind of caller (law A2). The rows below say what each kind gets; a route
// of the OpenAPI document without a row fails.

import type { AccessWorld, Answer, Kind } from "../../../test/access-world.ts";

import { describe, expect, test } from "vitest";

import { accessWorld, deciderRules, kinds } from "../../../test/access-world.ts";

/**
 * What a caller gets. `done`: 2xx. `forbidden`: 403. `absent`: exactly the answer of a server on which the session does
 * not exist. `taken`: 409, the id of a new session is in use. `created`: 2xx, with a session of the caller.
 * `unauthorized`: 401.
 */
type Outcome = "done" | "forbidden" | "absent" | "taken" | "created" | "unauthorized";

/** What a route needs. */
type Need = "read" | "own" | "decide" | "create" | "caller" | "operator" | "open";

const outcomes: { readonly [N in Need]: { readonly [K in Kind]: Outcome } } = {
  read: {
    owner: "done",
    other: "absent",
    decider: "done",
    operator: "done",
    stranger: "absent",
    anonymous: "unauthorized",
  },
  own: {
    owner: "done",
    other: "absent",
    decider: "forbidden",
    operator: "done",
    stranger: "absent",
    anonymous: "unauthorized",
  },
  decide: {
    owner: "forbidden",
    other: "absent",
    decider: "done",
    operator: "done",
    stranger: "absent",
    anonymous: "unauthorized",
  },
  // A message to a chat starts it if it does not exist, so the id of another caller's chat is taken.
  create: {
    owner: "done",
    other: "taken",
    decider: "forbidden",
    operator: "done",
    stranger: "created",
    anonymous: "unauthorized",
  },
  caller: {
    owner: "done",
    other: "done",
    decider: "done",
    operator: "done",
    stranger: "done",
    anonymous: "unauthorized",
  },
  operator: {
    owner: "forbidden",
    other: "forbidden",
    decider: "forbidden",
    operator: "done",
    stranger: "forbidden",
    anonymous: "unauthorized",
  },
  open: { owner: "done", other: "done", decider: "done", operator: "done", stranger: "done", anonymous: "done" },
};

type Values = {
  readonly turnId: string;
  readonly call: { readonly [name: string]: unknown };
  readonly approvalId: string;
};

type Row = {
  readonly route: string;
  readonly need: Need;
  /**
   * The session of callers other than the decider, who sees only the one that waits for an approval. Default:
   * `pending`.
   */
  readonly on?: "pending" | "manual" | "done";
  readonly body?: (id: string, values: Values) => unknown;
  readonly query?: string;
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

const rows: readonly Row[] = [
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
    body: () => ({ model: "default", messages: [{ role: "user", content: "hi" }] }),
  },
  { route: "GET /v1/models", need: "caller" },
  { route: "GET /v1/models/{model}", need: "caller" },
  { route: "GET /usage", need: "operator" },
  { route: "GET /overview", need: "operator" },
  { route: "GET /workers", need: "operator" },
  { route: "POST /scenarios/{name}", need: "operator", body: () => ({}), also: [404] },
  { route: "GET /search", need: "caller", query: "?q=secret" },
  { route: "GET /server", need: "caller" },
  { route: "GET /engines", need: "caller" },
  { route: "GET /health", need: "open" },
];

async function ask(world: AccessWorld, kind: Kind, row: Row, id: string, values: Values): Promise<Answer> {
  const [method = "", path = ""] = row.route.split(" ");
  const filled: { readonly [name: string]: string } = {
    id,
    turnId: values.turnId,
    toolCallId: "c1",
    ordinal: "1",
    inputId: "an-input",
    name: "hello",
    model: "default",
  };
  const target = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => filled[name] ?? "") + (row.query ?? "");
  return world.send(kind, method, target, row.body?.(id, values));
}

/** Whether an answer is the one that a caller has to get. */
function isOutcome(expected: Outcome, answer: Answer, absent: Answer, { route, also = [] }: Row): boolean {
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

const sameForAll = new Set(["GET /ui/chat/{id}/stream", "DELETE /sessions/{id}/inputs/{inputId}"]);

describe("every route, for every kind of caller", () => {
  test("has a row for each route of the OpenAPI document", async () => {
    const { send } = await accessWorld({ hasData: false });
    const { paths }: { readonly paths: { readonly [path: string]: object } } = JSON.parse(
      (await send("anonymous", "GET", "/openapi.json")).raw,
    );
    const routes = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    expect([...new Set(rows.map(({ route }) => route))].toSorted()).toEqual(routes.toSorted());
  });

  test.each(rows.map((row, index) => [row.route, row.need, index] as const))(
    "%s (%s, row %i)",
    async (_, need, index) => {
      const row = rows[index];
      if (row === undefined) throw new Error("no such row");
      for (const kind of kinds) {
        const [world, empty] = [await accessWorld(), await accessWorld({ hasData: false })];
        const id = kind === "decider" && row.on !== "manual" ? "pending" : (row.on ?? "pending");
        const values = {
          turnId: await world.turnOf(id),
          call: await world.callOf(id),
          approvalId: await world.approvalOf(id),
        };
        const before = await world.rows();
        const answer = await ask(world, kind, row, id, values);
        const absent = await ask(empty, kind, row, id, values);
        const expected = kind === "decider" && row.on === "manual" ? "absent" : outcomes[need][kind];
        const place = `${kind}: ${row.route}`;
        const isExpected = isOutcome(expected, answer, absent, row);
        expect(isExpected, `${place} is ${expected}: ${answer.status} ${answer.text}`).toBe(true);
        const isRefused = expected !== "done" && expected !== "created";
        if (isRefused || row.route.startsWith("GET")) expect(await world.rows(), place).toBe(before);
        if (isRefused) expect(world.paid, place).toEqual([]);
      }
    },
  );
});

/** The ids of the sessions in a list or in the hits of a search. */
async function listed(world: AccessWorld, kind: Kind, path: string): Promise<readonly string[]> {
  const { items }: { readonly items: readonly { readonly id?: string; readonly sessionId?: string }[] } = JSON.parse(
    (await world.send(kind, "GET", path)).raw,
  );
  return [...new Set(items.map(({ id, sessionId }) => id ?? sessionId ?? ""))].toSorted();
}

describe("lists and the search", () => {
  const all = ["asking", "done", "manual", "pending"];

  test.each(["/sessions", "/search?q=secret"])("%s has the sessions that the caller may read", async (path) => {
    const world = await accessWorld();
    expect(await listed(world, "owner", path)).toEqual(all);
    expect(await listed(world, "other", path)).toEqual([]);
    expect(await listed(world, "decider", path)).toEqual(["pending"]);
    expect(await listed(world, "operator", path)).toEqual(all);
    expect(await listed(world, "stranger", path)).toEqual([]);
    const standard = await accessWorld({ rules: {} });
    expect(await listed(standard, "owner", path)).toEqual(all);
    for (const kind of ["other", "decider", "stranger"] as const)
      expect(await listed(standard, kind, path)).toEqual([]);
    const shared = await accessWorld({ rules: { owns: ({ id }, { name }) => name === "other" && id === "done" } });
    expect(await listed(shared, "other", path)).toEqual(["done"]);
    expect(await listed(shared, "decider", path)).toEqual([]);
  });

  test("a list with a status has the sessions that the caller may read", async () => {
    for (const rules of [{}, deciderRules]) {
      const world = await accessWorld({ rules });
      expect(await listed(world, "owner", "/sessions?status=waiting")).toEqual(["asking", "manual", "pending"]);
      expect(await listed(world, "owner", "/sessions?status=waiting&engine=pending")).toEqual(["pending"]);
      expect(await listed(world, "other", "/sessions?status=waiting")).toEqual([]);
    }
  });

  test("pages of a list have every session of the caller once", async () => {
    const world = await accessWorld({ rules: {} });
    await world.send("other", "POST", "/sessions", { id: "of-another", input: "hi" });
    const found: string[] = [];
    for (let after = ""; ;) {
      const page = JSON.parse((await world.send("owner", "GET", `/sessions?limit=1${after}`)).raw);
      for (const { id } of page.items) found.push(id);
      if (page.next === null) break;
      after = `&after=${encodeURIComponent(page.next)}`;
    }
    expect(found.toSorted()).toEqual(all);
  });
});
