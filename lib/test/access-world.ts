// A server with sessions of one caller, for tests of who may do what over HTTP: requests of each kind of caller, and
// the rows that they leave.

import type { Adapter, FakeScript, Json, Message } from "everturn";
import type { ApiKey, Caller, CallToDecide, HttpOptions, OwnedSession } from "everturn/http";

import { askUser, engine, fake, tool } from "everturn";
import { storageTables } from "everturn/advanced";
import { createHandler } from "everturn/http";
import { runtime } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";
import Database from "libsql";
import { onTestFinished } from "vitest";

import { firstPart, withoutIds } from "./answer-text.ts";
import { allDialects } from "./dialects.ts";

/**
 * The kinds of callers. `owner` started all sessions of the tenant `shop`; `admin` is an operator that names no tenant;
 * `anonymous` sends no token.
 */
export const kinds = ["owner", "other", "decider", "operator", "stranger", "admin", "anonymous"] as const;
export type Kind = (typeof kinds)[number];

const tokens: { readonly [K in Exclude<Kind, "anonymous">]: string } = {
  owner: "the-token-of-the-owner",
  other: "the-token-of-another-customer",
  decider: "the-token-of-the-decider",
  operator: "the-token-of-the-operator",
  stranger: "the-token-of-another-tenant",
  admin: "the-token-of-the-administrator",
};

/**
 * `pending`: waits for an approval of call `c1`. `manual`: waits for a result. `asking`: waits for an answer. `done`:
 * has an answer.
 */
export const sessionIds = ["pending", "manual", "asking", "done"] as const;

/** The rule of the application: one caller decides, and nothing else is widened. */
export const deciderRules: Pick<HttpOptions, "owns" | "decide"> = { decide: (_, { name }) => name === "decider" };

/** Rules under which every caller of the tenant may do everything. */
export const allowAll: Pick<HttpOptions, "owns" | "decide"> = {
  owns: (_session: OwnedSession) => true,
  decide: (_call: CallToDecide) => true,
};

export type Answer = { readonly status: number; readonly headers: string; readonly text: string; readonly raw: string };

export type WorldSettings = {
  readonly rules?: Pick<HttpOptions, "owns" | "decide">;
  /** `false`: the server has no sessions. Default: true. */
  readonly hasData?: boolean;
  /**
   * A defect of access itself. `allow_all`: no caller is limited. `deny_all`: no caller is recognised as the one that
   * started a session. `all_scopes`, `all_engines`: these fields of keys are not checked. `no_scopes`: no key has a
   * scope that changes something. Default: none.
   */
  readonly mutation?: keyof typeof mutations;
  /** Calls a function when the world is not used any more. Default: at the end of the test. */
  readonly closes?: (close: () => void) => void;
  /** Keys beside those of the kinds. */
  readonly keys?: readonly ApiKey[];
};

const engines = ["default", "done", "spare", "pending", "manual", "asking"];

const mutations = {
  allow_all: (caller: Caller): Caller => ({ ...caller, scopes: ["read", "write", "decide"], engines, operator: true }),
  deny_all: (caller: Caller, count: number): Caller => ({ ...caller, name: `${caller.name} ${count}` }),
  all_scopes: (caller: Caller): Caller => ({ ...caller, scopes: ["read", "write", "decide"] }),
  all_engines: (caller: Caller): Caller => ({ ...caller, engines }),
  no_scopes: (caller: Caller): Caller => ({ ...caller, scopes: ["read"] }),
} as const;

export async function accessWorld(settings: WorldSettings = {}) {
  const { rules = deciderRules, hasData = true, mutation, keys: otherKeys = [], closes = onTestFinished } = settings;
  const database = new Database(":memory:");
  closes(() => void database.close());
  const paid: unknown[] = [];
  const schema = { type: "object" } as const;
  const pay = tool({
    name: "pay",
    description: "Pays.",
    schema,
    needsApproval: true,
    handler: (args) => {
      paid.push(args);
      return "paid";
    },
  });
  const lookUp = tool({ name: "look_up", description: "Runs at the caller.", schema, manual: true });
  const ask = tool({
    name: "ask",
    description: "Asks.",
    schema,
    handler: () => askUser("Which color?"),
  });
  const text = { type: "text", text: "The secret parcel." } as const;
  /** Answers a message with a call of the tool, and its result with text. */
  const calling = (name: string) =>
    engine({
      adapter: answering(({ role }) =>
        role === "user" ? [text, { type: "tool_call", id: "c1", name, arguments: { amount: 50 } } as const] : [text],
      ),
      model: "fake:m",
      tools: [pay, lookUp, ask],
    });
  const done = engine({ adapter: answering(() => [text]), model: "fake:m", contextPolicy: { window: 100_000 } });
  // No session has the engine `spare`.
  const engineValues = {
    default: done,
    done,
    spare: done,
    pending: calling("pay"),
    manual: calling("look_up"),
    asking: calling("ask"),
  };
  const host = sqliteStorage(database, { search: true });
  const sessions = runtime({ host, engines: engineValues });
  const keys: readonly ApiKey[] = [
    ...otherKeys,
    { token: tokens.owner, tenant: "shop", name: "owner" },
    { token: tokens.other, tenant: "shop", name: "other" },
    { token: tokens.decider, tenant: "shop", name: "decider" },
    { token: tokens.operator, tenant: "shop", name: "operator", operator: true },
    { token: tokens.stranger, tenant: "elsewhere", name: "owner" },
    { token: tokens.admin, name: "owner", operator: true },
  ];
  let requests = 0;
  // The sessions are started without the defect.
  let isSetUp = false;
  const mutated = (request: Request): Caller | null => {
    requests += 1;
    const key = keys.find(({ token }) => request.headers.get("authorization") === `Bearer ${token}`);
    if (key === undefined) return null;
    const { token: _, ...caller } = key;
    return mutation === undefined || !isSetUp ? caller : mutations[mutation](caller, requests);
  };
  const handler = createHandler({
    sessions,
    auth: mutation === undefined ? keys : mutated,
    admin: true,
    inspect: { scenarios: [] },
    records: true,
    dialects: allDialects({ default: done }),
    ...rules,
  });
  const send = async (
    from: Kind | Pick<ApiKey, "token">,
    method: string,
    path: string,
    body?: unknown,
    headers: object = {},
  ): Promise<Answer> => {
    const response = await handler(
      new Request(`http://localhost${path}`, {
        method,
        headers: {
          ...(from === "anonymous" ? {} : { authorization: `Bearer ${tokenOf(from)}` }),
          "content-type": "application/json",
          prefer: "wait=20",
          ...headers,
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }),
    );
    // The stream of a session does not end.
    const isEndless = /\/sessions\/[^/]+\/events$/.test(path) && response.status === 200;
    const raw = isEndless ? await firstPart(response) : await response.text();
    return {
      status: response.status,
      headers: withoutIds(JSON.stringify([...response.headers])),
      text: withoutIds(raw),
      raw,
    };
  };
  const tenant = sessions.tenant("shop");
  /** Starts a session of the owner that waits as its kind says. Default of `id`: the kind. */
  const start = async (kind: (typeof sessionIds)[number], id: string = kind): Promise<void> => {
    await send("owner", "POST", "/sessions", { id, input: `the secret of ${id}`, options: { engine: kind } });
  };
  if (hasData) for (const kind of sessionIds) await start(kind);
  isSetUp = true;
  const countChanges = database.prepare("SELECT total_changes() AS changes");
  let known = { changes: "", text: "" };
  /**
   * All rows of the storage, of all tenants, without the sums over ended turns: `GET /overview` folds them when there
   * are many, which changes none of them. Read again if the connection, which is the only one, has written.
   */
  const rows = async (): Promise<string> => {
    const changes = JSON.stringify(countChanges.get());
    if (known.changes !== changes) known = { changes, text: await readRows() };
    return known.text;
  };
  const readRows = async (): Promise<string> => {
    const names = Object.keys(storageTables)
      .filter(isTable)
      .filter((table) => table !== "rollups" && table !== "rollup_lines");
    const found = await host.read(names.map((table) => ({ table, prefix: [] })));
    return JSON.stringify(
      found.map((table, index) => [names[index], table.map(({ key, tag, value }) => [key, tag, value])]),
    );
  };
  const turnOf = async (id: string) => (await tenant.get(id))?.session.lastRun?.turnId ?? "no-turn";
  /** The pending call of a session, as the native API shows it. */
  const callOf = async (id: string): Promise<{ readonly [name: string]: Json }> => {
    const view = JSON.parse((await send("operator", "GET", `/sessions/${id}`)).raw);
    return view.session?.pendingToolCalls?.[0] ?? {};
  };
  /** The id of the approval, as a chat of the AI SDK shows it. */
  const approvalOf = async (id: string): Promise<string> =>
    /"approval":\{"id":"([^"]+)"/.exec((await send("operator", "GET", `/ui/chat/${id}`)).raw)?.[1] ?? "no-approval";
  return { handler, send, start, sessions: tenant, rows, turnOf, callOf, approvalOf, paid };
}

/** A model without state: its reply follows from the newest message. */
function answering(script: (newest: Message) => FakeScript): Adapter {
  return {
    provider: "fake",
    stream: (request, call) => {
      const newest = request.messages.at(-1);
      return fake({ script: newest === undefined ? [] : script(newest) }).stream(request, call);
    },
  };
}

function tokenOf(from: Exclude<Kind, "anonymous"> | Pick<ApiKey, "token">): string {
  return typeof from === "string" ? tokens[from] : from.token;
}

export type AccessWorld = Awaited<ReturnType<typeof accessWorld>>;

function isTable(name: string): name is keyof typeof storageTables {
  return Object.hasOwn(storageTables, name);
}
