// Every place of the library where a person or a program decides about a call, as a table: what is shown there, and
// what happens to a decision about the call of a child agent, about arguments that the schema does not name, about a
// call that has changed since it was shown, by the caller who started the turn, about a call whose tool was renamed,
// and with arguments that the tool refuses.
//
// The terminal has its tests in apps/cli/test, the pages in apps/studio/test/browser.

import type { Tool, JsonObject } from "everturn";
import type { HostStorage, Runtime } from "everturn/runtime";

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { agentTool, engine, fake, tool, approvalText, isEverturnError, MisuseError, session as memory } from "everturn";
import { createClient } from "everturn/client";
import { createHandler } from "everturn/http";
import { mcpHandler } from "everturn/mcp";
import { memoryStorage, runtime } from "everturn/runtime";
import { afterEach, describe, expect, test } from "vitest";

import { chatDialects } from "./dialects.ts";

const customer = "token-of-the-customer";
const operator = "token-of-the-operator";
const auth = [
  { token: customer, name: "Carl" },
  { token: operator, name: "Olga", operator: true },
];

type Role = "starter" | "decider";
const tokenOf = (role: Role): string => (role === "starter" ? customer : operator);

/** What is asked of a place. */
type Answer = { readonly role: Role; readonly arguments?: JsonObject };

/**
 * A request for a decision that a place has shown. `decide` approves what was shown, and returns `accepted` or the
 * reason of the refusal.
 */
type Asked = { readonly shown: string; readonly decide: (answer: Answer) => Promise<string> };

/** A place where calls are decided. `ask` starts the session `s` as the customer and returns what the place shows. */
type Place = (world: World) => Promise<Asked>;

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

/** A host, the code that runs on it, and what its payments ran with. The code can be replaced by another release. */
class World {
  readonly host: HostStorage = memoryStorage();
  readonly ran: JsonObject[] = [];
  readonly #scripts: readonly Script[];
  readonly #isNested: boolean;
  #sessions: Runtime;
  #toolName = "pay";

  constructor(scripts: readonly Script[], isNested = false) {
    this.#scripts = scripts;
    this.#isNested = isNested;
    this.#sessions = this.#deployed(scripts);
  }

  get sessions(): Runtime {
    return this.#sessions;
  }

  get agent() {
    return this.#engine(this.#scripts);
  }

  readonly handle = (request: Request): Promise<Response> =>
    createHandler({ sessions: this.#sessions, dialects: chatDialects, auth })(request);

  async post(path: string, body: object, role: Role, method = "POST"): Promise<{ status: number; text: string }> {
    const headers = {
      authorization: `Bearer ${tokenOf(role)}`,
      "content-type": "application/json",
      prefer: "wait=10",
    };
    const init = method === "GET" ? { method, headers } : { method, headers, body: JSON.stringify(body) };
    const response = await this.handle(new Request(`http://localhost${path}`, init));
    return { status: response.status, text: await response.text() };
  }

  /** Another person approves the call that waits; the model makes a call of the same id with other arguments. */
  async changeCall(): Promise<void> {
    const [call] = (await this.#sessions.get("s"))?.session.pendingToolCalls ?? [];
    const turn = await this.#sessions.decide("s", call?.id ?? "", { type: "approve", by: "another person" });
    await turn.result;
    this.ran.length = 0;
  }

  /** Deploys a release whose tool has another name. */
  async renameTool(): Promise<void> {
    await this.#sessions.close();
    this.#toolName = "pay_out";
    this.#sessions = this.#deployed([]);
  }

  #deployed(scripts: readonly Script[]): Runtime {
    const sessions = runtime({ host: this.host, engines: { default: this.#engine(scripts) } });
    closing.push(() => sessions.close());
    return sessions;
  }

  #engine(scripts: readonly Script[]) {
    const pay: Tool = tool({
      name: this.#toolName,
      description: "Pays.",
      schema: {
        type: "object",
        properties: { order: { type: "object", properties: { id: { type: "string" } } } },
        required: ["order"],
      },
      needsApproval: true,
      replay: "ask",
      handler: (args: JsonObject) => {
        this.ran.push(args);
        return "paid";
      },
    });
    if (!this.#isNested) return engine({ adapter: fake({ scripts }), model: "fake:m", tools: [pay] });
    const inner = engine({ adapter: fake({ scripts }), model: "fake:m", tools: [pay] });
    const mail = agentTool({ name: "summarize_mail", description: "Summarizes.", engine: inner });
    const calls: Script = [{ type: "tool_call", id: "c1", name: "summarize_mail", arguments: { task: "my mail" } }];
    return engine({ adapter: fake({ scripts: [calls, says("ok")] }), model: "fake:m", tools: [mail] });
  }
}

type Script = readonly (
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "tool_call"; readonly id: string; readonly name: string; readonly arguments: JsonObject }
)[];
const says = (text: string): Script => [{ type: "text", text }];
const pays = (args: JsonObject): Script => [{ type: "tool_call", id: "c1", name: "pay", arguments: args }];

/** The reason of an error, or `accepted` with the turn awaited. */
async function outcome(work: () => Promise<{ readonly result: Promise<unknown> }>): Promise<string> {
  try {
    await (
      await work()
    ).result;
    return "accepted";
  } catch (error) {
    if (isEverturnError(error) || error instanceof MisuseError) return error.reason;
    if (error instanceof Error && "reason" in error) return String(error.reason);
    throw error;
  }
}

/** The reason in the body of an error response, or `accepted`. */
function outcomeOf({ status, text }: { readonly status: number; readonly text: string }): string {
  if (status < 300) return "accepted";
  return String(JSON.parse(text).error.reason);
}

const firstCall = async (sessions: Runtime) => {
  const [call] = (await sessions.get("s"))?.session.pendingToolCalls ?? [];
  if (call === undefined) throw new Error("no call waits");
  return call;
};

const places: { readonly [name: string]: Place } = {
  "decide of a session in memory": async (world) => {
    const { agent } = world;
    const { session } = await memory.start(agent, "Pay it.");
    const [call] = session.pendingToolCalls;
    if (call === undefined) throw new Error("no call waits");
    return {
      shown: approvalText(call),
      decide: async ({ arguments: args }) => {
        const edit = args === undefined ? {} : { arguments: args };
        const decision = { type: "approve", digest: call.digest, ...edit } as const;
        return outcome(async () => {
          const decided = await memory.decide(agent, session, call.id, decision);
          return { result: memory.continue(agent, decided) };
        });
      },
    };
  },

  "decide of the runtime": async (world) => {
    await (
      await world.sessions.start("Pay it.", { id: "s" })
    ).result;
    const call = await firstCall(world.sessions);
    return {
      shown: JSON.stringify(call.shown),
      decide: ({ arguments: args }) =>
        outcome(() =>
          world.sessions.decide("s", call.id, {
            type: "approve",
            digest: call.digest,
            ...(args === undefined ? {} : { arguments: args }),
          }),
        ),
    };
  },

  "a token": async (world) => {
    await world.post("/sessions", { id: "s", input: "Pay it." }, "starter");
    const call = await firstCall(world.sessions);
    const token = await world.sessions.token("s", call.id);
    return {
      shown: approvalText(call),
      decide: async ({ role, arguments: args }) => {
        if (role === "starter") return outcomeOf(await world.post(`/sessions/s/calls/${call.id}/token`, {}, role));
        const answer = { type: "approve", ...(args === undefined ? {} : { arguments: args }) } as const;
        const work = () => world.sessions.complete(token, answer);
        let type = "";
        const refused = await outcome(async () => {
          const completion = await work();
          ({ type } = completion);
          return { result: completion.type === "completed" ? completion.turn.result : Promise.resolve() };
        });
        return refused === "accepted" && type !== "completed" ? type : refused;
      },
    };
  },

  "POST /sessions/{id}/decisions": async (world) => {
    const { text } = await world.post("/sessions", { id: "s", input: "Pay it." }, "starter");
    const [call] = JSON.parse(text).session.pendingToolCalls;
    return {
      shown: JSON.stringify(call.shown),
      decide: async ({ role, arguments: args }) => {
        const body = { toolCallId: call.id, digest: call.digest, type: "approve", arguments: args };
        return outcomeOf(await world.post("/sessions/s/decisions", body, role));
      },
    };
  },

  "decide of the client": async (world) => {
    const clientOf = (role: Role) =>
      createClient({
        url: "http://localhost",
        token: tokenOf(role),
        fetch: (input, init) => world.handle(new Request(input, init)),
      });
    const { session } = await (await clientOf("starter").start("Pay it.", { id: "s" })).result;
    const [call] = session.pendingToolCalls;
    if (call === undefined) throw new Error("no call waits");
    return {
      shown: JSON.stringify(call.shown),
      decide: ({ role, arguments: args }) => {
        const edit = args === undefined ? {} : { arguments: args };
        return outcome(() => clientOf(role).decide("s", call.id, { type: "approve", digest: call.digest, ...edit }));
      },
    };
  },

  "useChat (POST /ui/chat)": async (world) => {
    const message = { id: "m1", role: "user", parts: [{ type: "text", text: "Pay it." }] };
    await world.post("/ui/chat", { id: "s", messages: [message] }, "starter");
    const { text } = await world.post("/ui/chat/s", {}, "starter", "GET");
    const { messages } = JSON.parse(text);
    const last = messages.at(-1);
    const part = last.parts.find((candidate: { approval?: object }) => candidate.approval !== undefined);
    return {
      shown: JSON.stringify(part.approval.descriptor.shown),
      decide: async ({ role, arguments: args }) => {
        const approval = { id: part.approval.id, approved: true };
        const answered = { ...part, state: "approval-responded", approval, input: args ?? part.input };
        const parts = last.parts.map((candidate: object) => (candidate === part ? answered : candidate));
        const body = { id: "s", messages: [...messages.slice(0, -1), { ...last, parts }] };
        return outcomeOf(await world.post("/ui/chat", body, role));
      },
    };
  },

  "AG-UI (POST /ag-ui)": async (world) => {
    const base = { threadId: "s", tools: [], context: [], state: {}, forwardedProps: {} };
    const messages = [{ id: "m1", role: "user", content: "Pay it." }];
    const { text } = await world.post("/ag-ui", { ...base, runId: "r1", messages }, "starter");
    const events: { readonly type: string; readonly outcome?: { readonly interrupts: readonly JsonObject[] } }[] = text
      .split("\n")
      .filter((line) => line.startsWith("data: "))
      .map((line) => JSON.parse(line.slice("data: ".length)));
    const [interrupt] = events.find(({ type }) => type === "RUN_FINISHED")?.outcome?.interrupts ?? [];
    return {
      shown: JSON.stringify(interrupt),
      decide: async ({ role, arguments: args }) => {
        const payload = { approved: true, ...(args === undefined ? {} : { arguments: args }) };
        const resume = [{ interruptId: interrupt?.["id"], status: "resolved", payload }];
        return outcomeOf(await world.post("/ag-ui", { ...base, runId: "r2", messages, resume }, role));
      },
    };
  },

  "decide_tool_call of MCP": async (world) => {
    await (
      await world.sessions.start("Pay it.", { id: "s" })
    ).result;
    const client = await mcpClient({ sessions: ofWorld(world), decisionTool: true }, null);
    const view = await client.callTool({ name: "get_session", arguments: { session_id: "s" } });
    const [call] = Object(view.structuredContent)["approvals"];
    return {
      shown: JSON.stringify(call),
      decide: async ({ arguments: args }) => {
        if (args !== undefined) return "cannot edit";
        const decided = { session_id: "s", tool_call_id: call.id, digest: call.digest, approve: true };
        return mcpOutcome(client.callTool({ name: "decide_tool_call", arguments: decided }));
      },
    };
  },

  "elicitation of MCP": async (world) => {
    const shown = deferred<string>();
    const decided = deferred<null>();
    const client = await mcpClient({ sessions: ofWorld(world) }, async ({ message }) => {
      shown.resolve(message);
      await decided.promise;
      return { action: "accept", content: { approve: true } };
    });
    const calling = mcpOutcome(client.callTool({ name: "send_message", arguments: { message: "Pay it." } }));
    return {
      shown: await shown.promise,
      decide: async ({ arguments: args }) => {
        decided.resolve(null);
        const result = await calling;
        return args === undefined ? result : "cannot edit";
      },
    };
  },
};

function deferred<T>() {
  let resolve: (value: T) => void = () => undefined;
  const promise = new Promise<T>((settle) => {
    resolve = settle;
  });
  return { promise, resolve: (value: T) => resolve(value) };
}

/** The sessions of the code that is deployed now. A session that a client starts is `s`. */
function ofWorld(world: World): Pick<Runtime, "start" | "reply" | "decide" | "cancel" | "get" | "list"> {
  return {
    start: (input, options) => world.sessions.start(input, { ...options, id: "s" }),
    reply: (...args) => world.sessions.reply(...args),
    decide: (...args) => world.sessions.decide(...args),
    cancel: (...args) => world.sessions.cancel(...args),
    get: (...args) => world.sessions.get(...args),
    list: (...args) => world.sessions.list(...args),
  };
}

type Elicited = { readonly action: "accept" | "cancel"; readonly content?: { readonly approve: boolean } };

async function mcpClient(
  options: Parameters<typeof mcpHandler>[0],
  answer: ((asked: { readonly message: string }) => Promise<Elicited>) | null,
): Promise<Client> {
  const handler = await mcpHandler(options);
  const capabilities = answer === null ? {} : { elicitation: { form: {} } };
  const client = new Client({ name: "test", version: "1" }, { capabilities, versionNegotiation: { mode: "auto" } });
  if (answer !== null)
    client.setRequestHandler("elicitation/create", async ({ params }) => ({ ...(await answer(params)) }));
  const fetch = (url: string | URL, init?: RequestInit) => handler.fetch(new Request(url, init));
  await client.connect(new StreamableHTTPClientTransport(new URL("http://localhost/mcp"), { fetch }));
  closing.push(() => client.close(), handler.close);
  return client;
}

/** `accepted`, or the text of the error: a result of MCP has no reason. */
async function mcpOutcome(
  calling: Promise<{ readonly isError?: unknown; readonly content?: unknown }>,
): Promise<string> {
  const result = await calling.catch((error: unknown) => ({ isError: true, content: String(error) }));
  return result.isError === true ? JSON.stringify(result.content) : "accepted";
}

/**
 * What happens in a place that differs from the others. Every place refuses what another place refuses, unless it
 * cannot ask for it.
 */
const exceptions: { readonly [place: string]: { readonly [row: string]: string | RegExp } } = {
  // A program has no caller: it decides who may call `decide`.
  "decide of a session in memory": { "the caller who started the turn": "accepted" },
  "decide of the runtime": { "the caller who started the turn": "accepted" },
  // A token is bound to the wait, and cannot change arguments.
  "a token": { "a call that has changed": "revoked" },
  // MCP has no reasons, and no form for arguments. Its callers are those that the program lets in.
  "decide_tool_call of MCP": {
    "a call that has changed": /arguments, wait changed/,
    "the caller who started the turn": "accepted",
    "a tool that was renamed": /there is no tool/,
    "arguments that the tool refuses": "cannot edit",
  },
  "elicitation of MCP": {
    "a call that has changed": /arguments, wait changed/,
    "the caller who started the turn": "accepted",
    "a tool that was renamed": /there is no tool/,
    "arguments that the tool refuses": "cannot edit",
  },
};

describe.each(Object.keys(places))("%s", (name) => {
  const place = places[name] ?? (() => Promise.reject(new Error("no such place")));
  const isInMemory = name === "decide of a session in memory";
  const expected = (row: string, usual: string): string | RegExp => exceptions[name]?.[row] ?? usual;
  const matches = (actual: string, wanted: string | RegExp): void =>
    void (typeof wanted === "string" ? expect(actual).toBe(wanted) : expect(actual).toMatch(wanted));

  const order = { id: "1042", payTo: "ATTACKER", amountOverride: 99_999_900 };

  test("shows all arguments, also those that the schema does not name, and these run", async () => {
    const world = new World([pays({ order, note: "now" }), says("Done.")]);
    const { shown, decide } = await place(world);
    for (const text of ["pay", "1042", "payTo", "ATTACKER", "amountOverride", "99999900", "note"])
      expect(shown).toContain(text);
    expect(await decide({ role: "decider" })).toBe("accepted");
    expect(world.ran).toEqual([{ order, note: "now" }]);
  });

  // Nested turns, calls that change meanwhile and deploys need the durable runtime.
  const durableTest = isInMemory ? () => undefined : test;

  durableTest("shows the call of a child agent, and it runs", async () => {
    const world = new World([pays({ order }), says("Sent.")], true);
    const { shown, decide } = await place(world);
    for (const text of ["summarize_mail", "pay", "ATTACKER", "amountOverride", "99999900"])
      expect(shown).toContain(text);
    expect(shown).toMatch(/"replay":"ask"|you are asked whether it runs again/);
    expect(await decide({ role: "decider" })).toBe("accepted");
    expect(world.ran).toEqual([{ order }]);
  });

  durableTest("refuses a call that has changed since it was shown", async () => {
    const world = new World([pays({ order: { id: "rent" } }), pays({ order }), says("Done.")]);
    const { shown, decide } = await place(world);
    expect(shown).toContain("rent");
    await world.changeCall();
    const before = await world.sessions.get("s");
    matches(await decide({ role: "decider" }), expected("a call that has changed", "call_changed"));
    expect(world.ran).toEqual([]);
    expect(await world.sessions.get("s")).toEqual(before);
  });

  test("lets the caller who started the turn decide only if the place has no callers", async () => {
    const world = new World([pays({ order }), says("Done.")]);
    const { decide } = await place(world);
    const result = await decide({ role: "starter" });
    matches(result, expected("the caller who started the turn", "forbidden"));
    expect(world.ran).toHaveLength(result === "accepted" ? 1 : 0);
  });

  durableTest("refuses a call whose tool was renamed, and changes nothing", async () => {
    const world = new World([pays({ order }), says("Done.")]);
    const { decide } = await place(world);
    const before = (await world.sessions.get("s"))?.session;
    await world.renameTool();
    matches(await decide({ role: "decider" }), expected("a tool that was renamed", "unknown_tool"));
    expect(world.ran).toEqual([]);
    expect((await world.sessions.get("s"))?.session).toEqual(before);
  });

  test("refuses arguments that the tool does not accept, and the call stays pending", async () => {
    const world = new World([pays({ order }), says("Done.")]);
    const { decide } = await place(world);
    const result = await decide({ role: "decider", arguments: { order: "all of them" } });
    matches(result, expected("arguments that the tool refuses", "invalid_argument"));
    if (result === "cannot edit") return;
    expect(world.ran).toEqual([]);
    if (!isInMemory) expect((await firstCall(world.sessions)).decision).toBeNull();
  });
});
