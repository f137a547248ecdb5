// Who may do what over HTTP (law A2): a session belongs to the caller that started it, and the caller that started a
// turn does not decide in it.

import type { JsonObject } from "everturn";
import type { Auth, HttpOptions } from "everturn/http";

import { engine, fake, tool } from "everturn";
import { createHandler } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { describe, expect, test } from "vitest";

import { chatDialects } from "../../../test/dialects.ts";

const ada = "the-token-of-ada-000";
const bob = "the-token-of-bob-000";
const carl = "the-token-of-carl-00";
const ops = "the-token-of-ops-000";
const auth: Auth = [
  { token: ada, name: "ada" },
  { token: bob, name: "bob" },
  { token: carl, name: "carl" },
  { token: ops, name: "ops", operator: true },
];

type ShopOptions = Partial<HttpOptions> & {
  /** `true`: both calls of a turn have the same id, and the second one is a refund of 9,999. */
  readonly sameIds?: boolean;
  /** `true`: a call of a manual tool waits beside the first one. */
  readonly withManual?: boolean;
  /** Receives the context of each refund. */
  readonly onContext?: (context: unknown) => void;
};

/** A shop whose model asks to refund 50, twice in each turn. */
function shop({ sameIds = false, withManual = false, onContext, ...options }: ShopOptions = {}) {
  const refunds: unknown[] = [];
  const schema = { type: "object", properties: { amount: { type: "number" } } } as const;
  const refund = tool({
    name: "refund",
    description: "Refunds an order.",
    schema,
    needsApproval: true,
    handler: (args, { context }) => {
      onContext?.(context);
      refunds.push(args["amount"]);
      return "refunded";
    },
  });
  const lookUp = tool({ name: "look_up", description: "Runs at the caller.", schema, manual: true });
  const call = { type: "tool_call", name: "refund", arguments: { amount: 50 } } as const;
  const scripts = Array.from({ length: 9 }, (_, index) => [
    [
      ...(withManual ? [{ type: "tool_call", name: "look_up", id: `m${index}`, arguments: {} } as const] : []),
      { ...call, id: `a${index}` },
    ],
    [sameIds ? { ...call, id: `a${index}`, arguments: { amount: 9999 } } : { ...call, id: `b${index}` }],
    [{ type: "text", text: "Refunded." } as const],
  ]).flat();
  const agent = engine({ adapter: fake({ scripts }), model: "fake:m", tools: [refund, lookUp] });
  const sessions = options.sessions ?? runtime({ host: memoryStorage(), engines: { default: agent } });
  const handler = () => createHandler({ dialects: chatDialects, auth, inspect: true, ...options, sessions });
  /** The digest of what is shown of a pending call: of the one that a decision names. */
  const digestOf = async (id: string, { toolCallId }: { readonly toolCallId?: string }) =>
    (await sessions.tenant("").get(id))?.session.pendingToolCalls.find((call) => call.id === toolCallId)?.digest ??
    "gone";
  const ask = async (token: string, method: string, path: string, given?: object, headers: object = {}) => {
    const [, id = ""] = /^\/sessions\/([^/]+)\/decisions$/.exec(path) ?? [];
    const body = id === "" || given === undefined ? given : { digest: await digestOf(id, given), ...given };
    const response = await handler()(
      new Request(`http://localhost${path}`, {
        method,
        headers: {
          authorization: `Bearer ${token}`,
          "content-type": "application/json",
          prefer: "wait=10",
          ...headers,
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }),
    );
    const text = await response.text();
    const json: JsonObject = text.startsWith("{") ? JSON.parse(text) : {};
    return { status: response.status, text, json };
  };
  return { sessions, handler, ask, refunds };
}

const approve = (toolCallId: string, more: object = {}) => ({ toolCallId, type: "approve", ...more });

describe("the attack", () => {
  test("a customer does not approve the refund that they asked for, raised to 10,000, and another customer does not read it", async () => {
    const { ask, sessions, refunds } = shop();
    expect((await ask(ada, "POST", "/sessions", { id: "s", input: "refund 50" })).status).toBe(200);
    const before = await sessions.get("s");
    const raised = approve("a0", { arguments: { amount: 10_000 } });
    const refused = await ask(ada, "POST", "/sessions/s/decisions", raised);
    expect(refused.status).toBe(403);
    expect(refused.text).toContain("`decide`");
    expect(await sessions.get("s")).toEqual(before);
    expect((await ask(bob, "GET", "/sessions/s")).status).toBe(404);
    expect((await ask(bob, "POST", "/sessions/s/decisions", approve("a0"))).status).toBe(404);
    expect((await ask(ops, "POST", "/sessions/s/decisions", approve("a0"))).status).toBe(200);
    expect(refunds).toEqual([50]);
  });
});

describe("by default", () => {
  test("the turn that continues after a decision is still that of the customer", async () => {
    const { ask, refunds } = shop();
    await ask(ada, "POST", "/sessions", { id: "s", input: "refund 50" });
    await ask(ops, "POST", "/sessions/s/decisions", approve("a0"));
    expect((await ask(ada, "POST", "/sessions/s/decisions", approve("b0"))).status).toBe(403);
    expect(refunds).toEqual([50]);
  });

  test("a fork does not make the customer a decider", async () => {
    const { ask, refunds } = shop();
    await ask(ada, "POST", "/sessions", { id: "s", input: "refund 50" });
    expect((await ask(ada, "POST", "/sessions/s/fork", { id: "copy" })).status).toBe(201);
    expect((await ask(ada, "POST", "/sessions/copy/decisions", approve("a0"))).status).toBe(403);
    expect(refunds).toEqual([]);
  });

  test("a turn that an operator starts in the session of a customer is not for the customer to decide", async () => {
    const { ask } = shop();
    await ask(ada, "POST", "/sessions", { id: "s", input: "refund 50" });
    for (const id of ["a0", "b0"]) await ask(ops, "POST", "/sessions/s/decisions", approve(id));
    await ask(ops, "POST", "/sessions/s/reply", { text: "refund it again" });
    expect((await ask(ada, "POST", "/sessions/s/decisions", approve("a1"))).status).toBe(403);
  });

  test("a session that a program started belongs to operators", async () => {
    const { ask, sessions } = shop();
    await (
      await sessions.start("refund 50", { id: "s" })
    ).result;
    expect((await ask(ada, "GET", "/sessions/s")).status).toBe(404);
    expect((await ask(ops, "GET", "/sessions/s")).status).toBe(200);
    await (
      await sessions.calledBy("ada").start("refund 50", { id: "of-ada" })
    ).result;
    expect((await ask(ada, "GET", "/sessions/of-ada")).status).toBe(200);
  });

  test("a token for a call that waits for a decision is refused to the customer", async () => {
    const { ask } = shop();
    await ask(ada, "POST", "/sessions", { id: "s", input: "refund 50" });
    expect((await ask(ada, "POST", "/sessions/s/calls/a0/token")).status).toBe(403);
    const { json } = await ask(ops, "POST", "/sessions/s/calls/a0/token");
    expect((await ask(ada, "POST", "/complete", { token: json["token"], type: "approve" })).status).toBe(200);
  });

  test("an operator steers the turn of a customer, which stays that of the customer", async () => {
    const { ask, sessions } = shop();
    await ask(ada, "POST", "/sessions", { id: "s", input: "refund 50" });
    await ask(ops, "POST", "/sessions/s/decisions", approve("a0", { continue: false }));
    await ask(ops, "POST", "/sessions/s/continue", {});
    expect((await sessions.get("s"))?.startedBy).toEqual(["ada"]);
  });
});

describe("callers without a name", () => {
  const first = "the-first-token-0000";
  const second = "the-second-token-000";

  test("two keys are two callers, and each keeps its sessions over a restart", async () => {
    const keys: Auth = [{ token: first }, { token: second }];
    const { ask, sessions } = shop({ auth: keys });
    await ask(first, "POST", "/sessions", { id: "s", input: "refund 50" });
    // Each request of this test builds a handler of its own.
    expect((await ask(first, "GET", "/sessions/s")).status).toBe(200);
    expect((await ask(second, "GET", "/sessions/s")).status).toBe(404);
    expect((await ask(first, "POST", "/sessions/s/decisions", approve("a0"))).status).toBe(403);
    const { owner } = (await sessions.get("s")) ?? {};
    expect(owner).toMatch(/^key:[0-9a-f]{16}$/);
  });

  test("an idempotency key of one caller does not find the session of another", async () => {
    const { ask } = shop({ auth: [{ token: first }, { token: second }] });
    const start = (token: string) =>
      ask(token, "POST", "/sessions", { input: "refund 50" }, { "idempotency-key": "1" });
    const [one, other] = [await start(first), await start(second)];
    expect([one.status, other.status]).toEqual([200, 200]);
    expect(one.json["turnId"]).not.toEqual(other.json["turnId"]);
    expect((await start(first)).json["turnId"]).toEqual(one.json["turnId"]);
  });

  test("callers of a function are one caller of their tenant", async () => {
    const byTenant: Auth = (request) => ({ tenant: request.headers.get("x-tenant") ?? "" });
    const { ask } = shop({ auth: byTenant });
    await ask("", "POST", "/sessions", { id: "s", input: "refund 50" }, { "x-tenant": "acme" });
    expect((await ask("", "GET", "/sessions/s", undefined, { "x-tenant": "acme" })).status).toBe(200);
    expect((await ask("", "GET", "/sessions/s", undefined, { "x-tenant": "other" })).status).toBe(404);
    const decision = await ask("", "POST", "/sessions/s/decisions", approve("a0"), { "x-tenant": "acme" });
    expect(decision.status).toBe(403);
  });

  test("a name cannot be the identity of a key, and two keys of one name are one caller", async () => {
    for (const name of ["key:0123456789abcdef", "x".repeat(257)]) {
      expect(() => shop({ auth: [{ token: first, name }] }).handler()).toThrow("name of key 0");
    }
    const { ask } = shop({
      auth: [
        { token: first, name: "ada" },
        { token: second, name: "ada" },
      ],
    });
    await ask(first, "POST", "/sessions", { id: "s", input: "refund 50" });
    expect((await ask(second, "GET", "/sessions/s")).status).toBe(200);
  });
});

describe("the rules of the application", () => {
  test('decide: "own" lets the customer decide, and no other caller', async () => {
    const { ask, refunds } = shop({ decide: "own" });
    await ask(ada, "POST", "/sessions", { id: "s", input: "refund 50" });
    expect((await ask(bob, "POST", "/sessions/s/decisions", approve("a0"))).status).toBe(404);
    expect((await ask(ada, "POST", "/sessions/s/decisions", approve("a0"))).status).toBe(200);
    expect(refunds).toEqual([50]);
  });

  test("owns shares sessions in a team, whose members decide in the turns of each other", async () => {
    const { ask } = shop({ owns: ({ owner }) => owner === "ada" || owner === "bob" });
    await ask(ada, "POST", "/sessions", { id: "s", input: "refund 50" });
    expect((await ask(bob, "GET", "/sessions/s")).status).toBe(200);
    expect((await ask(ada, "POST", "/sessions/s/decisions", approve("a0"))).status).toBe(403);
    expect((await ask(bob, "POST", "/sessions/s/decisions", approve("a0"))).status).toBe(200);
    expect((await ask(bob, "POST", "/sessions/s/decisions", approve("b0"))).status).toBe(200);
    // The next turn is that of bob.
    await ask(bob, "POST", "/sessions/s/reply", { text: "refund mine" });
    expect((await ask(bob, "POST", "/sessions/s/decisions", approve("a1"))).status).toBe(403);
    expect((await ask(ada, "POST", "/sessions/s/decisions", approve("a1"))).status).toBe(200);
  });

  test("a function decides by the call: it gets the session, the caller without its token, and the arguments", async () => {
    const seen: unknown[] = [];
    const { ask } = shop({
      decide: ({ id, name, arguments: args, session }, caller) => {
        seen.push([id, name, args, session, caller]);
        return caller.name === "bob";
      },
    });
    await ask(ada, "POST", "/sessions", { id: "s", input: "refund 50", metadata: { order: 7 } });
    expect((await ask(bob, "GET", "/sessions/s")).status).toBe(200);
    expect(seen[0]).toEqual([
      "a0",
      "refund",
      { amount: 50 },
      { id: "s", owner: "ada", startedBy: ["ada"], metadata: { order: 7 } },
      { name: "bob" },
    ]);
    expect((await ask(bob, "POST", "/sessions/s/reply", { text: "hi" })).status).toBe(403);
    expect((await ask(bob, "DELETE", "/sessions/s")).status).toBe(403);
    expect((await ask(bob, "POST", "/sessions/s/decisions", approve("a0"))).status).toBe(200);
    expect((await ask(bob, "POST", "/sessions/s/decisions", approve("b0"))).status).toBe(200);
    // Nothing waits for a decision any more.
    expect((await ask(bob, "GET", "/sessions/s")).status).toBe(404);
  });

  test("a function that limits the amount limits the arguments of the approver too", async () => {
    const { ask, sessions, refunds } = shop({
      decide: ({ shown }, { name }) => name === "bob" && Number(shown.arguments?.["amount"]) <= 100,
    });
    await ask(ada, "POST", "/sessions", { id: "s", input: "refund 50" });
    const before = await sessions.get("s");
    const raised = await ask(bob, "POST", "/sessions/s/decisions", approve("a0", { arguments: { amount: 9999 } }));
    expect([raised.status, raised.text]).toEqual([403, expect.stringContaining("with these arguments")]);
    expect(await sessions.get("s")).toEqual(before);
    const lowered = await ask(bob, "POST", "/sessions/s/decisions", approve("a0", { arguments: { amount: 20 } }));
    expect([lowered.status, refunds]).toEqual([200, [20]]);
  });

  test("the same limit holds for arguments that an approver edits in useChat", async () => {
    const { ask, refunds } = shop({
      decide: ({ arguments: args }, { name }) => name === "bob" && Number(args?.["amount"]) <= 100,
    });
    const text = { id: "m", role: "user", parts: [{ type: "text", text: "refund 50" }] };
    await ask(ada, "POST", "/ui/chat", { id: "s", messages: [text] });
    const shown = (await ask(bob, "GET", "/ui/chat/s")).text;
    const [approvalId = ""] = /turn-[^"]*:[0-9a-f]{84}:a0/.exec(shown) ?? [];
    const approval = { id: approvalId, approved: true };
    const answered = (amount: number) => ({
      id: "s",
      messages: [
        text,
        {
          id: "reply",
          role: "assistant",
          parts: [{ type: "tool-refund", toolCallId: "a0", state: "approval-responded", input: { amount }, approval }],
        },
      ],
    });
    expect((await ask(bob, "POST", "/ui/chat", answered(9999))).status).toBe(403);
    expect(refunds).toEqual([]);
    expect((await ask(bob, "POST", "/ui/chat", answered(50))).status).toBe(200);
    expect(refunds).toEqual([50]);
  });

  test("a turn that another member continues is still that of the member who asked", async () => {
    const { ask, sessions, refunds } = shop({ owns: ({ owner }) => owner === "ada" || owner === "bob" });
    await ask(ada, "POST", "/sessions", { id: "s", input: "refund 50" });
    await ask(bob, "POST", "/sessions/s/decisions", approve("a0", { continue: false }));
    const steered = await ask(bob, "POST", "/sessions/s/steer", { input: "go on" });
    await sessions.attach("s", String(steered.json["turnId"])).result;
    expect((await sessions.get("s"))?.startedBy).toEqual(["ada", "bob"]);
    expect((await ask(ada, "POST", "/sessions/s/decisions", approve("b0"))).status).toBe(403);
    expect(refunds).toEqual([50]);
  });

  test.each(["continue", "step"])(
    "a turn without input (%s) is also that of the member whose input it acts on",
    async (verb) => {
      const { ask, sessions } = shop({ owns: ({ owner }) => owner === "ada" || owner === "bob" });
      await ask(ada, "POST", "/sessions", { id: "s", input: "refund 50" });
      await ask(ops, "POST", "/sessions/s/decisions", approve("a0"));
      await ask(ops, "POST", "/sessions/s/decisions", approve("b0"));
      await ask(bob, "POST", `/sessions/s/${verb}`, {});
      expect((await sessions.get("s"))?.startedBy).toEqual(["ada", "bob"]);
      expect((await ask(ada, "POST", "/sessions/s/decisions", approve("a1"))).status).toBe(403);
    },
  );

  test("a decision that is sent again under its key finds its turn, for the caller that sent it", async () => {
    const { ask, sessions, refunds } = shop({ decide: (_, { name }) => name === "bob" || name === "carl" });
    await ask(ada, "POST", "/sessions", { id: "s", input: "refund 50" });
    await ask(bob, "POST", "/sessions/s/decisions", approve("a0"));
    const key = { "idempotency-key": "decision-1" };
    const body = approve("b0", { digest: (await sessions.get("s"))?.session.pendingToolCalls[0]?.digest });
    const once = await ask(bob, "POST", "/sessions/s/decisions", body, key);
    const again = await ask(bob, "POST", "/sessions/s/decisions", body, key);
    expect([once.status, again.status]).toEqual([200, 200]);
    expect(again.json["turnId"]).toEqual(once.json["turnId"]);
    expect((await ask(carl, "POST", "/sessions/s/decisions", body, key)).status).toBe(404);
    expect(refunds).toEqual([50, 50]);
  });

  test.each([
    ["a truthy value", () => JSON.parse("1")],
    ["a rejected promise", () => Promise.reject(new Error("no database"))],
  ] as const)("%s does not grant, and nothing changes", async (_, rule) => {
    const { ask, sessions } = shop({ owns: rule, decide: rule });
    await ask(ada, "POST", "/sessions", { id: "s", input: "refund 50" });
    const before = await sessions.get("s");
    expect((await ask(bob, "GET", "/sessions/s")).status).toBeGreaterThanOrEqual(404);
    expect((await ask(bob, "POST", "/sessions/s/decisions", approve("a0"))).status).toBeGreaterThanOrEqual(404);
    expect((await ask(ada, "POST", "/sessions/s/decisions", approve("a0"))).status).toBeGreaterThanOrEqual(403);
    expect(await sessions.get("s")).toEqual(before);
  });

  test("a rule that is not understood is misuse", () => {
    const wrong: HttpOptions = JSON.parse('{"decide":"everybody"}');
    expect(() => shop(wrong).handler()).toThrow('decide: must be "own"');
    const alsoWrong: HttpOptions = JSON.parse('{"owns":true}');
    expect(() => shop(alsoWrong).handler()).toThrow("owns: must be a function");
  });

  test("a decision holds for the version that the rule was evaluated for", async () => {
    // While the rule is evaluated, the operator decides, and the next call waits under the same id.
    let during: (() => Promise<unknown>) | null = null;
    const limit = 100;
    const world = shop({
      sameIds: true,
      decide: async ({ arguments: args }, { name }) => {
        const isSmall = Number(args?.["amount"]) <= limit;
        const run = during;
        during = null;
        await run?.();
        return name === "bob" && isSmall;
      },
    });
    await world.ask(ada, "POST", "/sessions", { id: "s", input: "refund 50" });
    // The first evaluation is that of the right to the session.
    during = () => world.ask(ops, "POST", "/sessions/s/decisions", approve("a0"));
    const { status } = await world.ask(bob, "POST", "/sessions/s/decisions", approve("a0"));
    expect(status).toBeGreaterThanOrEqual(400);
    expect(world.refunds).toEqual([50]);
  });
});

test("a post with several answers is refused as a whole", async () => {
  const { ask, sessions } = shop({ withManual: true });
  await ask(ada, "POST", "/sessions", { id: "s", input: "refund 50" });
  const before = await sessions.get("s");
  const chat = await ask(ops, "GET", "/ui/chat/s");
  const approvalId = /"approval":\{"id":"([^"]+)"/.exec(chat.text)?.[1] ?? "";
  const turnId = before?.session.lastRun?.turnId ?? "";
  expect(before?.session.pendingToolCalls.map(({ reason }) => reason).toSorted()).toEqual(["approval", "manual"]);
  const parts = [
    {
      type: "tool-look_up",
      toolCallId: "m0",
      toolMetadata: { turnId },
      state: "output-available",
      input: {},
      output: "found",
    },
    {
      type: "tool-refund",
      toolCallId: "a0",
      state: "approval-responded",
      input: { amount: 50 },
      approval: { id: approvalId, approved: true },
    },
  ];
  const body = (answers: readonly object[]) => ({
    id: "s",
    messages: [{ id: "m2", role: "assistant", parts: answers }],
  });
  expect((await ask(ada, "POST", "/ui/chat", body(parts))).status).toBe(403);
  expect(await sessions.get("s")).toEqual(before);
  // The result alone is an answer of the owner.
  expect((await ask(ada, "POST", "/ui/chat", body(parts.slice(0, 1)))).status).toBe(200);
  expect((await sessions.get("s"))?.session.pendingToolCalls).toHaveLength(1);
});

test.each(["native", "ui", "ag-ui"])(
  "a decision (%s) does not run the turn with the context of the caller that decides",
  async (way) => {
    const contexts: unknown[] = [];
    const keys: Auth = [
      { token: ada, name: "ada", context: { user: "ada" } },
      { token: ops, name: "ops", operator: true, context: { user: "ops", isManager: true } },
    ];
    const { ask } = shop({ auth: keys, onContext: (context) => contexts.push(context) });
    await ask(ada, "POST", "/sessions", { id: "s", input: "refund 50" });
    const approvalId = /"approval":\{"id":"([^"]+)"/.exec((await ask(ops, "GET", "/ui/chat/s")).text)?.[1] ?? "";
    const approval = { id: approvalId, approved: true };
    const part = {
      type: "tool-refund",
      toolCallId: "a0",
      state: "approval-responded",
      input: { amount: 50 },
      approval,
    };
    const resume = [{ interruptId: approvalId, status: "resolved", payload: { approved: true } }];
    const requests: { readonly [way: string]: readonly [path: string, body: object] } = {
      native: ["/sessions/s/decisions", approve("a0")],
      ui: ["/ui/chat", { id: "s", messages: [{ id: "m2", role: "assistant", parts: [part] }] }],
      "ag-ui": ["/ag-ui", { threadId: "s", runId: "r1", messages: [], tools: [], context: [], resume }],
    };
    const [path, body] = requests[way] ?? ["", {}];
    expect((await ask(ops, "POST", path, body)).status).toBe(200);
    expect(contexts).toEqual([{ user: "ada" }]);
  },
);

test("the answer about a call with an unknown outcome is a decision", async () => {
  let started = () => {};
  const hasStarted = new Promise<void>((resolve) => {
    started = resolve;
  });
  let runs = 0;
  const transfer = tool({
    name: "transfer",
    description: "Transfers.",
    schema: { type: "object" },
    replay: "ask",
    handler: () => {
      runs += 1;
      started();
      return runs === 1 ? new Promise<string>(() => undefined) : "transferred";
    },
  });
  const host = memoryStorage();
  const scripts = [
    [{ type: "tool_call", id: "c1", name: "transfer", arguments: {} } as const],
    [{ type: "text", text: "Done." } as const],
  ];
  const engines = { default: engine({ adapter: fake({ scripts }), model: "fake:m", tools: [transfer] }) };
  const first = runtime({ host, engines });
  const { turnId } = await first.calledBy("ada").start("go", { id: "s" });
  await hasStarted;
  await first.close({ graceMs: 0 });
  const sessions = runtime({ host, engines });
  await sessions.recover();
  await sessions.attach("s", turnId).result;
  const { ask } = shop({ sessions });
  expect((await sessions.get("s"))?.session.pendingToolCalls).toMatchObject([{ reason: "outcome_unknown" }]);
  const result = { results: [{ toolCallId: "c1", content: "transferred" }], continue: true };
  expect((await ask(ada, "POST", "/sessions/s/tool-results", result)).status).toBe(403);
  expect((await ask(ada, "POST", "/sessions/s/decisions", approve("c1"))).status).toBe(403);
  expect((await ask(ada, "POST", "/sessions/s/calls/c1/token")).status).toBe(403);
  expect((await ask(ops, "POST", "/sessions/s/tool-results", result)).status).toBe(200);
  expect(runs).toBe(1);
});

test("another caller cannot put a branch into a chat", async () => {
  const { ask } = shop({ owns: ({ owner }) => owner === "ada" });
  await ask(ada, "POST", "/sessions", { id: "chat", input: "refund 50" });
  const metadata = { forkedFrom: { sessionId: "chat", at: 1 } };
  await ask(bob, "POST", "/sessions", { id: "chat~branch-1", input: "a false message", metadata });
  for (const token of [ada, ops]) expect((await ask(token, "GET", "/ui/chat/chat")).text).not.toContain("false");
});
