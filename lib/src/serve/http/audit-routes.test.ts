// What each route and dialect leaves in the audit log, and whom the rows name. The table has every route that changes
// something or exports; a new one without an entry fails.

import type { Adapter, FakeScript } from "everturn";
import type { AuditAction } from "everturn/advanced";

import { engine, fake, tool } from "everturn";
import { createHandler } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { expect, test } from "vitest";

import { allDialects } from "../../../test/dialects.ts";

const root = "the-token-of-the-operator-1";
const ada = "the-token-of-the-customer-1";

/**
 * The actions that a route may record, by route. Empty: it neither decides, cancels, deletes, exports nor changes keys.
 */
const recorded: { readonly [route: string]: readonly AuditAction[] } = {
  "POST /sessions": [],
  "DELETE /sessions": ["delete"],
  "DELETE /sessions/{id}": ["delete"],
  "GET /sessions/{id}/turns/{turnId}/record": ["export"],
  "POST /sessions/{id}/reply": ["cancel"],
  "POST /sessions/{id}/send": ["cancel"],
  "POST /sessions/{id}/continue": [],
  "POST /sessions/{id}/step": [],
  "POST /sessions/{id}/steer": [],
  "POST /sessions/{id}/cancel": ["cancel"],
  "POST /sessions/{id}/fork": [],
  // A parked turn: see audit.test.ts of the runtime.
  "POST /sessions/{id}/recover": ["recover"],
  "POST /sessions/{id}/compact": ["compact"],
  "POST /sessions/{id}/undo-compaction": ["undo_compaction"],
  "DELETE /sessions/{id}/inputs/{inputId}": [],
  "POST /sessions/{id}/tool-results": ["submit_results"],
  "POST /sessions/{id}/decisions": ["approve", "deny"],
  "POST /sessions/{id}/calls/{toolCallId}/token": [],
  "POST /complete": ["approve", "deny", "submit_results"],
  "POST /ui/chat": ["approve", "deny"],
  "POST /ui/chat/{id}/stop": ["cancel"],
  "POST /ag-ui": ["approve", "deny"],
  "POST /v1/chat/completions": [],
  "POST /scenarios/{name}": [],
  "POST /keys": ["key_create"],
  "POST /keys/{keyId}/rotate": ["key_rotate"],
  "POST /keys/{keyId}/revoke": ["key_revoke"],
};

/** Answers a message with a call of `pay`, and everything else with text. The engine `slow` does not answer `hi`. */
function adapterOf(isSlow: boolean): Adapter {
  const replying: FakeScript = [{ type: "text", text: "Done." }];
  const calling: FakeScript = [{ type: "tool_call", id: "c1", name: "pay" }];
  return {
    provider: "fake",
    stream: async function* stream(request, call) {
      const newest = request.messages.at(-1);
      if (isSlow && newest?.content === "hi")
        await new Promise((_, fail) => call.signal.addEventListener("abort", fail));
      const script = newest?.role === "user" ? calling : replying;
      yield* fake({ script }).stream(request, call);
    },
  };
}

function world() {
  const pay = tool({
    name: "pay",
    description: "Pays.",
    schema: { type: "object" },
    needsApproval: true,
    handler: () => "paid",
  });
  const engineOf = (isSlow: boolean) =>
    engine({ adapter: adapterOf(isSlow), model: "fake:m", tools: [pay], contextPolicy: { window: 100_000 } });
  const host = memoryStorage();
  const engines = { default: engineOf(false), slow: engineOf(true) };
  const sessions = runtime({ host, engines });
  const handler = createHandler({
    sessions,
    admin: true,
    records: true,
    inspect: { scenarios: [] },
    auth: [
      // As that of `everturn serve`: it has no name.
      { token: root, operator: true },
      { token: ada, name: "ada", tenant: "shop" },
    ],
    decide: "own",
    dialects: allDialects(engines),
    onRefused: () => undefined,
  });
  const ask = async (token: string, route: string, body?: object, headers: object = {}) => {
    const [method = "", path = ""] = route.split(" ");
    const init = {
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
      prefer: "wait=1",
      ...headers,
    };
    const response = await handler(
      new Request(`http://localhost${path}`, {
        method,
        headers: init,
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }),
    );
    const text = await response.text();
    expect(response.status, `${route}: ${text}`).toBeLessThan(300);
    return text;
  };
  return { sessions, ask };
}

type World = ReturnType<typeof world>;

/** One act of a caller in a session of Ada, which waits for an approval or has an open turn. */
type Act = {
  readonly route: string;
  readonly action: AuditAction;
  /** `compacting`: waits for an approval, and a compaction is requested. */
  readonly on: "waiting" | "compacting" | "open" | "none";
  /** `key`: a key that was created before. `approval`: the id of the approval in a chat. */
  readonly send: (values: {
    readonly id: string;
    readonly turnId: string;
    readonly approval: string;
    readonly digest: string;
    readonly token: string;
    readonly key: string;
  }) => readonly [path: string, body?: object];
  /** Only administrators may do it. */
  readonly isAdmin?: true;
  /** The actor, if it is not the caller. */
  readonly actor?: string;
};

const uiAnswer = (id: string, approval: string, approved: boolean) => ({
  id,
  messages: [
    {
      id: "m2",
      role: "assistant",
      parts: [
        {
          type: "tool-pay",
          toolCallId: "c1",
          state: "approval-responded",
          input: {},
          approval: { id: approval, approved },
        },
      ],
    },
  ],
});
const agUiAnswer = (threadId: string, interruptId: string, approved: boolean) => ({
  threadId,
  runId: "r2",
  messages: [],
  tools: [],
  context: [],
  resume: [{ interruptId, status: "resolved", payload: { approved } }],
});
const decide = (type: "approve" | "deny"): readonly Act[] => [
  {
    route: "POST /sessions/{id}/decisions",
    action: type,
    on: "waiting",
    send: ({ id, digest }) => [`/sessions/${id}/decisions`, { toolCallId: "c1", type, digest }],
  },
  {
    route: "POST /ui/chat",
    action: type,
    on: "waiting",
    send: ({ id, approval }) => ["/ui/chat", uiAnswer(id, approval, type === "approve")],
  },
  {
    route: "POST /ag-ui",
    action: type,
    on: "waiting",
    send: ({ id, approval }) => ["/ag-ui", agUiAnswer(id, approval, type === "approve")],
  },
  {
    route: "POST /complete",
    action: type,
    on: "waiting",
    send: ({ token }) => ["/complete", { token, type }],
    actor: "token",
  },
];
const acts: readonly Act[] = [
  ...decide("approve"),
  ...decide("deny"),
  {
    route: "POST /sessions/{id}/cancel",
    action: "cancel",
    on: "open",
    send: ({ id }) => [`/sessions/${id}/cancel`, {}],
  },
  { route: "POST /ui/chat/{id}/stop", action: "cancel", on: "open", send: ({ id }) => [`/ui/chat/${id}/stop`, {}] },
  ...["reply", "send"].map((verb): Act => ({
    route: `POST /sessions/{id}/${verb}`,
    action: "cancel",
    on: "open",
    send: ({ id }) => [`/sessions/${id}/${verb}`, { text: "stop, do this", whenBusy: "interrupt" }],
  })),
  { route: "DELETE /sessions/{id}", action: "delete", on: "waiting", send: ({ id }) => [`/sessions/${id}`] },
  { route: "DELETE /sessions/{id}", action: "delete", on: "open", send: ({ id }) => [`/sessions/${id}`] },
  {
    route: "GET /sessions/{id}/turns/{turnId}/record",
    action: "export",
    on: "waiting",
    send: ({ id, turnId }) => [`/sessions/${id}/turns/${turnId}/record`],
  },
  {
    route: "POST /sessions/{id}/compact",
    action: "compact",
    on: "waiting",
    send: ({ id }) => [`/sessions/${id}/compact`, {}],
  },
  {
    route: "POST /sessions/{id}/undo-compaction",
    action: "undo_compaction",
    on: "compacting",
    send: ({ id }) => [`/sessions/${id}/undo-compaction`, {}],
  },
  {
    route: "DELETE /sessions",
    action: "delete",
    on: "waiting",
    send: () => ["/sessions?owner=ada"],
    isAdmin: true,
  },
  { route: "POST /keys", action: "key_create", on: "none", send: () => ["/keys", { name: "new" }], isAdmin: true },
  ...(["rotate", "revoke"] as const).map((verb): Act => ({
    route: `POST /keys/{keyId}/${verb}`,
    action: `key_${verb}`,
    on: "none",
    send: ({ key }) => [`/keys/${key}/${verb}`, {}],
    isAdmin: true,
  })),
];

async function prepare({ ask, sessions }: World, { on, isAdmin }: Act) {
  const [id, shop] = ["s1", sessions.tenant("shop")];
  const none = { id, turnId: "", approval: "", digest: "", token: "" };
  if (on === "open") await shop.calledBy("ada").start("hi", { id, engine: "slow" });
  else if (on !== "none") await (await shop.calledBy("ada").start("hi", { id })).result;
  if (on === "compacting") await shop.compact(id);
  const turnId = (await shop.get(id))?.session.lastRun?.turnId ?? "";
  const key = isAdmin === true ? JSON.parse(await ask(root, "POST /keys", { name: "a key" })).key.id : "";
  if (on === "none" || on === "open") return { ...none, turnId, key };
  const digest = (await shop.get(id))?.session.pendingToolCalls[0]?.digest ?? "";
  const approval = /"approval":\{"id":"([^"]+)"/.exec(await ask(ada, `GET /ui/chat/${id}`))?.[1] ?? "";
  return { id, turnId, approval, digest, token: await shop.token(id, "c1"), key };
}

const callers = [
  ["a customer", ada, "ada"],
  ["the operator without a name", root, expect.stringMatching(/^key:[0-9a-f]{16}$/)],
] as const;

test("every action of a route is tried below, except for calls and turns whose process was killed", () => {
  const tried = new Set(acts.map(({ route, action }) => `${route} ${action}`));
  const pairs = Object.entries(recorded).flatMap(([route, actions]) => actions.map((action) => `${route} ${action}`));
  expect(pairs.filter((pair) => !tried.has(pair))).toEqual([
    "POST /sessions/{id}/recover recover",
    "POST /sessions/{id}/tool-results submit_results",
    "POST /complete submit_results",
  ]);
});

test.each(
  acts.flatMap((act) =>
    callers
      .filter(([, token]) => token === root || act.isAdmin !== true)
      .map(([who, token, actor]) => [act.route, act.action, who, act, token, actor] as const),
  ),
)("%s records %s by %s", async (route, action, _who, act, token, actor) => {
  const served = world();
  const values = await prepare(served, act);
  const before = (await served.sessions.audit()).items.length;
  const [path, body] = act.send(values);
  const headers = token === root && act.isAdmin === undefined ? { "everturn-tenant": "shop" } : {};
  const inShop = path.startsWith("/sessions?") ? { "everturn-tenant": "shop" } : headers;
  await served.ask(token, `${route.split(" ")[0]} ${path}`, body, inShop);
  const { items } = await served.sessions.audit();
  expect(items.slice(0, items.length - before)).toMatchObject([{ action, actor: act.actor ?? actor }]);
  expect(recorded[route]).toContain(action);
  await served.sessions.close({ graceMs: 0 });
});

test("every route that changes something or exports is in the table", async () => {
  const { ask } = world();
  const { paths } = JSON.parse(await ask(ada, "GET /openapi.json"));
  const routes = Object.entries<object>(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  const changing = routes.filter((route) => !route.startsWith("GET ") || route.endsWith("/record"));
  expect(Object.keys(recorded).toSorted()).toEqual(changing.toSorted());
});
