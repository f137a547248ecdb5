// Middleware of durable turns: what it did is recorded, so neither a replay nor a process that takes over runs it
// again.

import type { Write } from "./world.ts";
import type { Middleware, ModelReplied, ToolReturned } from "everturn/advanced";

import { tool, messageText } from "everturn";
import { inspection } from "everturn/http";
import {
  defaultSettings,
  guardrails,
  logging,
  rateLimit,
  readReply,
  redactPii,
  replyEvents,
  responseCache,
} from "everturn/middleware";
import { memoryStorage, replayTurn } from "everturn/runtime";
import { beforeEach, describe, expect, test } from "vitest";

import { call, says, talk, thinker, World, worker, writes } from "./world.ts";

let world = new World();
let log: string[] = [];

beforeEach(() => {
  world = new World();
  log = [];
});

const noop = () => undefined;

/** Logs every run of the middleware. */
const logged: Middleware = {
  name: "logged",
  model: ({ request, effectId }, next) => {
    log.push(`model ${effectId.split("/").slice(1).join("/")}`);
    return next(request);
  },
  tool: ({ arguments: args, tool: { name } }, next) => {
    log.push(`tool ${name}`);
    return next(args);
  },
};

const pay = tool({
  name: "pay",
  description: "Pays.",
  schema: { type: "object" },
  replay: "safe",
  handler: () => "paid",
});

/** A write that records a response of this type. */
const records = (type: string) => (write: Write) =>
  write.batch.puts.some(({ table, value }) => table === "journal" && value.includes(type));

/** A write that records a value of `once`. */
const recordsValue = ({ batch }: Write) =>
  batch.puts.some(
    ({ table, key }) => table === "records" && key.some((part) => String(part).startsWith("middleware/")),
  );

/** The responses in the journal of the turn of session `s1`, by effect. */
async function responses(): Promise<readonly (ModelReplied | ToolReturned)[]> {
  const rows = await world.journal((await world.rows("journal"))[0]?.key[2]?.toString() ?? null);
  return rows.flatMap(({ row: { item } }) =>
    item.type === "response" && (item.response.type === "model_replied" || item.response.type === "tool_returned")
      ? [item.response]
      : [],
  );
}

describe("middleware of a durable turn", () => {
  test("a response cache shares replies within a tenant, and between tenants only if it is told to", async () => {
    for (const [scope, calls] of [
      [undefined, 2],
      [() => "one user", 2],
      ["all", 1],
    ] as const) {
      let asked = 0;
      const model = thinker(() => [{ type: "text", text: `reply ${(asked += 1)}` }]);
      const middleware = [responseCache({ storage: memoryStorage(), ...(scope === undefined ? {} : { scope }) })];
      const sessions = new World().process(world.engine(model, { middleware }));
      for (const tenant of ["a", "b", "a"]) await (await sessions.tenant(tenant).start("hi")).result;
      expect(asked).toBe(calls);
    }
  });

  test("does not run again for calls that are recorded when another process takes over", async () => {
    const model = worker("pay");
    const agent = () => world.engine(model, { tools: [pay], middleware: [logged] });
    // Killed after the result of the tool is recorded.
    const first = world.process(agent(), { diesAfter: records("tool_returned") });
    await first.start("hi", { id: "s1" });
    await first.died;
    expect(log).toEqual(["model 0/model", "tool pay"]);
    await world.leaseRunsOut();
    const second = world.process(agent());
    await second.recover();
    expect((await second.attach("s1").result).haltedReason).toBe("completed");
    expect(log).toEqual(["model 0/model", "tool pay", "model 1/model"]);
  });

  test("does not run in a replay of the turn, and the replay has its changes", async () => {
    const model = thinker(() => says("hello"));
    const shouting: Middleware = {
      name: "shouting",
      async *model({ request }, next) {
        log.push("ran");
        const { outputText } = await readReply(next(request));
        yield replyEvents((outputText ?? "").toUpperCase());
      },
    };
    const process = world.process(world.engine(model, { middleware: [shouting] }));
    await (
      await process.start("hi", { id: "s1" })
    ).result;
    const record = await inspection(process.source).export("s1");
    const replayed = await replayTurn(record, { engine: world.engine(model, { middleware: [shouting] }) });
    expect(replayed.result.finalResponse?.outputText).toBe("HELLO");
    expect(await talk(process)).toEqual(["user hi", "assistant HELLO"]);
    expect(log).toEqual(["ran"]);
  });

  test("records what it did with the response of the call", async () => {
    const changing: Middleware = {
      name: "changing",
      model: (modelCall, next) => {
        modelCall.note("looked", { at: "the request" });
        return next({ ...modelCall.request, temperature: 0 });
      },
      tool: (_call, next) => next({ amount: 5 }),
    };
    const model = worker("pay");
    const process = world.process(world.engine(model, { tools: [pay], middleware: [changing] }));
    await (
      await process.start("hi", { id: "s1" })
    ).result;
    const [replied, returned] = await responses();
    expect(replied?.middleware).toEqual([
      { name: "changing", attempt: 1, action: "looked", details: { at: "the request" } },
      { name: "changing", attempt: 1, action: "changed_request", details: { fields: ["temperature"] } },
    ]);
    expect(returned?.middleware).toEqual([
      { name: "changing", attempt: 1, action: "changed_arguments", details: { fields: ["n", "amount"] } },
    ]);
  });

  test("bounds what it records", async () => {
    const noting: Middleware = {
      name: "noting",
      model: ({ note, request }, next) => {
        for (let n = 0; n < 1000; n += 1) note("noted", { text: "x".repeat(n * 10) });
        return next(request);
      },
    };
    const process = world.process(
      world.engine(
        thinker(() => says("Hi.")),
        { middleware: [noting] },
      ),
    );
    await (
      await process.start("hi", { id: "s1" })
    ).result;
    const [replied] = await responses();
    expect(replied?.middleware).toHaveLength(100);
    expect(JSON.stringify(replied?.middleware).length).toBeLessThan(100 * 1200);
  });

  test("once: a process that takes over in the middle of a call gets the recorded value", async () => {
    const decided = (who: string): Middleware => ({
      name: "decided",
      async *model(modelCall, next) {
        const value = await modelCall.once("choice", () => {
          log.push(`${who} decides`);
          return { temperature: who === "first" ? 1 : 2 };
        });
        log.push(`${who} has ${JSON.stringify(value)}`);
        yield* next(modelCall.request);
      },
    });
    const model = thinker(() => says("Hi."));
    const first = world.process(world.engine(model, { middleware: [decided("first")] }), {
      diesAfter: recordsValue,
    });
    await first.start("hi", { id: "s1" });
    await first.died;
    await world.leaseRunsOut();
    const second = world.process(world.engine(model, { middleware: [decided("second")] }));
    await second.recover();
    expect((await second.attach("s1").result).haltedReason).toBe("completed");
    expect(log).toEqual(["first decides", 'second has {"temperature":1}']);
  });

  test("a guardrail is not asked again by the process that takes over", async () => {
    const guarded = guardrails({
      before: [
        () => {
          log.push("asked");
          return null;
        },
      ],
    });
    const model = thinker(() => says("Hi."));
    const first = world.process(world.engine(model, { middleware: [guarded] }), {
      diesAfter: recordsValue,
    });
    await first.start("hi", { id: "s1" });
    await first.died;
    await world.leaseRunsOut();
    const second = world.process(world.engine(model, { middleware: [guarded] }));
    await second.recover();
    expect((await second.attach("s1").result).text).toBe("Hi.");
    expect(log).toEqual(["asked"]);
  });

  test("a value of once that cannot be recorded stops the process, and the call is not answered by it", async () => {
    const model = thinker(() => says("Hi."));
    const once: Middleware = {
      name: "once",
      async *model(modelCall, next) {
        await modelCall.once("choice", () => 1);
        yield* next(modelCall.request);
      },
    };
    const refuses = ({ batch }: Write) =>
      batch.puts.some(({ table }) => table === "records") ? new Error("disk") : null;
    const first = world.process(world.engine(model, { middleware: [once] }), { refuses });
    await first.start("hi", { id: "s1" }).catch(() => undefined);
    await world.clock.advance(1);
    expect(model.asked).toHaveLength(0);
    first.kill();
    await world.leaseRunsOut();
    const second = world.process(world.engine(model, { middleware: [once] }));
    await second.recover();
    expect((await second.attach("s1").result).text).toBe("Hi.");
  });

  test("a reply from a cache is recorded like any other: a later replay does not need the cache", async () => {
    const storage = memoryStorage({ clock: world.clock });
    const model = thinker(() => says("Rome"), { inputTokens: 10, outputTokens: 1 });
    const process = world.process(world.engine(model, { middleware: [responseCache({ storage })] }));
    await (
      await process.start("Capital of Italy?", { id: "s1" })
    ).result;
    const turn = await process.start("Capital of Italy?", { id: "s2" });
    expect((await turn.result).text).toBe("Rome");
    expect(model.asked).toHaveLength(1);
    expect(await process.usage("s2")).toMatchObject({ total: { inputTokens: null }, lines: [] });
    const { result } = await replayTurn(await inspection(process.source).export("s2"));
    expect(result.finalResponse?.metadata).toEqual({ responseCache: "hit" });
  });

  test("expired replies of sessions are removed from the cache", async () => {
    const storage = memoryStorage({ clock: world.clock });
    const model = thinker(({ messages }) => says(`reply to ${String(messages.at(-1)?.content)}`));
    const process = world.process(world.engine(model, { middleware: [responseCache({ storage, ttlMs: 1000 })] }));
    const replies = async () => {
      const rows = await storage.read([{ table: "large", prefix: [] }]);
      return rows.flat().map(({ value }) => /reply to \w+/.exec(value)?.[0]);
    };
    await (
      await process.start("one", { id: "s1" })
    ).result;
    expect(await replies()).toEqual(["reply to one"]);
    await world.clock.advance(5000);
    await (
      await process.start("one", { id: "s1b" })
    ).result;
    await (
      await process.start("two", { id: "s2" })
    ).result;
    expect(await replies()).toEqual(["reply to one", "reply to two"]);
    expect(model.asked).toHaveLength(3);
  });

  test("a takeover that finds the reply of its predecessor in the cache makes no call, and is charged for it", async () => {
    const storage = memoryStorage({ clock: world.clock });
    const model = thinker(() => says("Rome"), { inputTokens: 10, outputTokens: 1 });
    const agent = () => world.engine(model, { middleware: [responseCache({ storage })] });
    const first = world.process(agent(), { diesBefore: records("model_replied") });
    await first.start("Capital of Italy?", { id: "s1" });
    await first.died;
    await world.leaseRunsOut();
    const second = world.process(agent());
    await second.recover();
    expect(await second.attach("s1").result).toMatchObject({ text: "Rome", usage: { inputTokens: 10 } });
    expect(model.asked).toHaveLength(1);
    expect(await second.usage("s1")).toMatchObject({ total: { inputTokens: 10 } });
  });

  test("a tool with the policy never: a crash inside its middleware leaves the outcome unknown", async () => {
    const careful = tool({ name: "careful", description: "Acts.", schema: { type: "object" }, handler: () => "done" });
    const hanging: Middleware = { name: "hanging", tool: () => new Promise(() => undefined) };
    const model = worker("careful");
    const first = world.process(world.engine(model, { tools: [careful], middleware: [hanging] }), {
      diesAfter: writes("records", "started"),
    });
    await first.start("hi", { id: "s1" });
    await first.died;
    await world.leaseRunsOut();
    const second = world.process(world.engine(model, { tools: [careful] }));
    await second.recover();
    await second.attach("s1").result;
    expect((await responses()).at(1)).toMatchObject({ outcome: { failure: { reason: "outcome_unknown" } } });
  });

  test("parallel tools: each call has its own middleware run and notes", async () => {
    const both = thinker(({ messages }) =>
      messages.some(({ role }) => role === "tool") ? says("Done.") : [call("pay"), call("pay", {}, "c1")],
    );
    const process = world.process(world.engine(both, { tools: [pay], middleware: [logged] }));
    await (
      await process.start("hi", { id: "s1" })
    ).result;
    expect(log.filter((line) => line.startsWith("tool"))).toEqual(["tool pay", "tool pay"]);
  });
});

describe("each middleware of everturn/middleware, in a turn that another process continues and that is replayed", () => {
  const entries = new Map<string, string>();
  const noted = (what: string) => {
    log.push(what);
    return null;
  };
  const logger = { debug: noop, info: (_fields: object, message: string) => noted(message), warn: noop };
  const store = {
    get: async (key: string) => noted("looked up") ?? entries.get(key) ?? null,
    set: async (key: string, value: string) => void entries.set(key, value),
  };
  /** Each with what it does in one model call and in one tool call. */
  const shipped: readonly (readonly [string, () => Middleware, model: readonly string[], tool: readonly string[]])[] = [
    ["responseCache", () => responseCache({ storage: store }), ["looked up"], []],
    ["rateLimit", () => rateLimit({ requestsPerMinute: 9, key: () => String(noted("limited")) }), ["limited"], []],
    ["logging", () => logging({ logger }), ["model call completed"], ["tool call completed"]],
    [
      "guardrails",
      () =>
        guardrails({
          before: [() => noted("before")],
          after: [() => noted("after")],
          beforeTool: [() => noted("before tool")],
          afterTool: [() => noted("after tool")],
        }),
      ["before", "after"],
      ["before tool", "after tool"],
    ],
    ["redactPii", () => redactPii(), [], []],
    ["defaultSettings", () => defaultSettings({ "*": { seed: 7 } }), [], []],
  ];

  test.each(shipped)("%s", async (_, build, inModel, inTool) => {
    entries.clear();
    const model = worker("pay");
    const agent = () => world.engine(model, { tools: [pay], middleware: [build()] });
    const first = world.process(agent(), { diesAfter: records("tool_returned") });
    await first.start("I am ada@example.com.", { id: "s1" });
    await first.died;
    await world.leaseRunsOut();
    const second = world.process(agent());
    await second.recover();
    await second.attach("s1").result;
    // The first model call and the tool in one process, the second model call in the other.
    expect(log).toEqual([...inModel, ...inTool, ...inModel]);
    expect(model.asked).toHaveLength(2);
    const before = await talk(second);
    const { result } = await replayTurn(await inspection(second.source).export("s1"), { engine: agent() });
    expect(result.thread.messages.map((message) => `${message.role} ${messageText(message)}`)).toEqual(before);
    expect(log).toHaveLength(2 * inModel.length + inTool.length);
    expect(model.asked).toHaveLength(2);
  });
});
