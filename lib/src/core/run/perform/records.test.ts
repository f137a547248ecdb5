// The records that performers write inside an effect, and how another process continues from them.

import type { PlanDetails } from "../plan/plan.ts";
import type { JournalItem, LiveOrigin, Scope } from "../ports/ports.ts";
import type {
  ChatOptions,
  Engine,
  FakeScript,
  Tool,
  ToolContext,
  Json,
  JsonObject,
  ToolCall,
  TurnEvent,
} from "everturn";
import type { MessageInput, ToolDefinition } from "everturn/advanced";

import { chat, engine, fail, fake, MisuseError, stream, tool, ToolError, assistant, messageText, user } from "everturn";
import { toolCall } from "everturn/advanced";
import { handClock } from "everturn/testing";
import { describe, expect, test } from "vitest";
import { z } from "zod";

import { ReplayJournal } from "../../../../test/replay-journal.ts";
import { plain, playing, says } from "../../../../test/runs.ts";
import { line } from "../../../testing/transcript.ts";
import { callDecision } from "../../kernel/internal.ts";
import { planRun } from "../plan/plan.ts";
import { MemoryJournal } from "../ports/memory-journal.ts";
import { startRun } from "../run.ts";
import { childResult } from "../verbs.ts";
import { startMark } from "./start-mark.ts";

/** The storage that outlives a process: records by effect and name, and the journal items. */
type TestStorage = { readonly rows: Map<string, Json>; items: readonly JournalItem[] };

const newStorage = (rows: { readonly [place: string]: Json } = {}): TestStorage => ({
  rows: new Map(Object.entries(rows)),
  items: [],
});

type ProcessOptions = {
  /** The lease epoch; 0 in memory. */
  readonly epoch?: number;
  /** The process stops after this record is written. */
  readonly stopsAfter?: string;
  readonly options?: ChatOptions;
  readonly details?: Omit<PlanDetails, "verb">;
  readonly thread?: readonly MessageInput[];
};

/** One process that drives the turn from the storage. */
function startProcess(
  of: Engine,
  storage: TestStorage,
  { epoch = 1, stopsAfter, options, details, thread }: ProcessOptions = {},
) {
  const before = new Map(storage.rows);
  const journal = new ReplayJournal(storage.items);
  const written: string[] = [];
  const liveEvents: { readonly event: TurnEvent; readonly of: LiveOrigin }[] = [];
  const stop = new AbortController();
  const stopped = new Promise<void>((resolve) => stop.signal.addEventListener("abort", () => resolve()));
  const scope: Scope = {
    tenant: null,
    epoch,
    ensure: () => undefined,
    find: (effectId, name) => before.get(`${effectId} ${name}`) ?? null,
    record: async (effectId, name, value) => {
      const stored: Json = JSON.parse(JSON.stringify(value));
      storage.rows.set(`${effectId} ${name}`, stored);
      storage.items = [...journal.items];
      written.push(`${effectId} ${name}`);
      if (name === stopsAfter) stop.abort();
      if (stop.signal.aborted) await new Promise(() => undefined);
    },
    begin: () => undefined,
  };
  const plan = planRun(of, thread ?? "hi", { requestId: "t", ...options }, { verb: "chat", ...details });
  const noInput = { messages: [], transientMessages: [], turnCauses: [], inputs: [] };
  const started = startRun(
    plan,
    () => ({
      journal,
      scope,
      accepted: epoch > 0,
      inbox: { claim: () => Promise.resolve(noInput) },
      sink: {
        live: (events, from) => void liveEvents.push(...events.map((event) => ({ event, of: from }))),
        commit: () => "fresh",
      },
    }),
    (_, __, signal, addUsage) =>
      async (inner, input, rest = {}) => {
        const result = await chat(inner, input, { ...rest, signal });
        addUsage(result.usage);
        return childResult(result, rest.output);
      },
  );
  return {
    cancel: started.cancel,
    result: started.result.then((finished) => finished.chat),
    written,
    stopped,
    /** The process loses the turn; nothing it does afterwards is stored. */
    kill: () => {
      storage.items = [...journal.items];
      stop.abort();
    },
    lines: (...types: readonly TurnEvent["type"][]) =>
      liveEvents.flatMap(({ event, of: { attempt } }) =>
        types.includes(event.type) ? [`${attempt.epoch}.${attempt.n} ${line(event)}`] : [],
      ),
    liveEvents,
  };
}

const failing = (inputTokens: number, reason: "timeout" | "content_filter" = "timeout"): FakeScript => [
  { type: "usage", usage: { inputTokens } },
  { type: "error", reason },
];
const answering = (text: string, inputTokens: number): FakeScript => [
  { type: "text", text },
  { type: "usage", usage: { inputTokens } },
];
const modelsCalled = ({ adapter }: ReturnType<typeof playing>) => adapter.calls.map(({ request }) => request.model);

describe("a model call", () => {
  test("leaves no record when its first attempt is the answer, or the last", async () => {
    const well = newStorage();
    await startProcess(playing([says("Hello.")]).engine, well).result;
    expect([...well.rows]).toEqual([]);
    const badly = newStorage();
    const result = await startProcess(playing([failing(1, "content_filter")]).engine, badly).result;
    expect([result.haltedReason, [...badly.rows]]).toEqual(["error", []]);
  });

  test("Q2: records a failed attempt with its usage before it makes another one", async () => {
    const storage = newStorage();
    const first = startProcess(playing([failing(100)]).engine, storage, { stopsAfter: "attempt/1" });
    await first.stopped;
    expect(Object.fromEntries(storage.rows)).toEqual({
      "t/0/model attempt/1": {
        failure: expect.objectContaining({ type: "adapter_error", reason: "timeout" }),
        usage: expect.objectContaining({ inputTokens: 100 }),
        shown: false,
        heard: true,
        reply: null,
        resumed: false,
      },
    });
    expect(first.lines("retry_scheduled")).toEqual([]);
  });

  test("[lash 77] Q2: does not repeat recorded attempts, counts their usage, and continues their numbers", async () => {
    const storage = newStorage();
    await startProcess(playing([failing(100)]).engine, storage, { stopsAfter: "attempt/1" }).stopped;
    const again = playing([answering("Hello.", 10)]);
    const second = startProcess(again.engine, storage, { epoch: 2 });
    await again.clock.advance(500);
    const result = await second.result;
    expect(again.adapter.calls).toHaveLength(1);
    expect(result.finalResponse).toMatchObject({ outputText: "Hello.", usage: { inputTokens: 10 } });
    expect(result.usage.inputTokens).toBe(110);
    expect(second.lines("retry_scheduled", "step_reset", "text_delta")).toEqual([
      "2.1 retry_scheduled 500 ms",
      "2.2 step_reset retry",
      '2.2 text_delta "Hello."',
    ]);
  });

  test("[lash 77] fails with the recorded failure if it may no longer be retried", async () => {
    const storage = newStorage();
    await startProcess(playing([failing(100)]).engine, storage, { stopsAfter: "attempt/1" }).stopped;
    const again = playing([], [], { retry: false });
    const result = await startProcess(again.engine, storage, { epoch: 2 }).result;
    expect(result).toMatchObject({ metadata: { error: { reason: "timeout" } }, usage: { inputTokens: 100 } });
    expect(again.adapter.calls).toEqual([]);
  });

  test("Q7: live events name their attempt, over retries and fallbacks, also in memory", async () => {
    const of = playing([failing(1), failing(1, "content_filter"), answering("Hello.", 1)], [], {
      fallback: ["second"],
    });
    const run = startProcess(of.engine, newStorage(), { epoch: 0 });
    await of.clock.advance(500);
    await run.result;
    expect(run.lines("message_started", "retry_scheduled", "step_reset", "text_delta")).toEqual([
      "0.1 message_started",
      "0.1 retry_scheduled 500 ms",
      "0.2 step_reset retry",
      "0.2 message_started",
      "0.3 step_reset fallback",
      "0.3 message_started",
      '0.3 text_delta "Hello."',
    ]);
    expect(run.liveEvents.every(({ of: { effectId } }) => effectId === "t/0/model")).toBe(true);
    const named = run.liveEvents.flatMap(({ event, of: from }) =>
      "attempt" in event ? [[event.attempt, from.attempt]] : [],
    );
    expect(named).toHaveLength(3);
    for (const [inside, outside] of named) expect(inside).toEqual(outside);
  });

  test("does not ask a model again whose failure is recorded, but the fallback; its output is withdrawn", async () => {
    const storage = newStorage();
    const shows: FakeScript = [{ type: "text", text: "Hel" }, ...failing(100, "content_filter")];
    await startProcess(playing([shows], [], { fallback: ["second"] }).engine, storage, { stopsAfter: "attempt/1" })
      .stopped;
    expect(storage.rows.get("t/0/model attempt/1")).toMatchObject({ shown: true, heard: true });
    const again = playing([answering("Hello.", 10)], [], { fallback: ["second"] });
    const second = startProcess(again.engine, storage, { epoch: 2 });
    expect((await second.result).usage.inputTokens).toBe(110);
    expect(modelsCalled(again)).toEqual(["second"]);
    expect(second.lines("step_reset")).toEqual(["2.2 step_reset fallback"]);
  });

  describe("output that does not match the schema", () => {
    const options = { output: z.object({ sky: z.enum(["clear", "cloudy"]) }), repair: 1 };
    const dead = async () => {
      const storage = newStorage();
      await startProcess(playing([answering('{"sky":"green"}', 100)]).engine, storage, {
        stopsAfter: "attempt/1",
        options,
      }).stopped;
      return storage;
    };

    test("is recorded, and repaired without asking for it again", async () => {
      const storage = await dead();
      expect(storage.rows.get("t/0/model attempt/1")).toMatchObject({
        failure: { type: "validation_error", reason: "invalid_output", issues: [{ path: ["sky"] }] },
        reply: { outputText: '{"sky":"green"}' },
      });
      const again = playing([answering('{"sky":"clear"}', 10)]);
      const result = await startProcess(again.engine, storage, { epoch: 2, options }).result;
      expect(result.finalResponse?.output).toEqual({ value: { sky: "clear" } });
      expect(result.usage.inputTokens).toBe(110);
      const said = again.adapter.calls.map(({ request }) => request.messages.map(messageText));
      expect(said).toEqual([
        ["hi", '{"sky":"green"}', expect.stringMatching(/^The answer does not match the schema: sky: /)],
      ]);
    });

    test("stays invalid: a schema that accepts it now changes nothing", async () => {
      const again = playing([says('{"sky":"clear"}')]);
      const lenient = { ...options, output: z.object({ sky: z.string() }) };
      const { finalResponse } = await startProcess(again.engine, await dead(), { epoch: 2, options: lenient }).result;
      expect(finalResponse?.output).toEqual({ value: { sky: "clear" } });
    });

    test("fails the run if no repair is left", async () => {
      const again = playing([]);
      const result = await startProcess(again.engine, await dead(), { epoch: 2, options: { ...options, repair: 0 } })
        .result;
      expect(result).toMatchObject({
        metadata: { error: { reason: "invalid_output" } },
        usage: { inputTokens: 100 },
        finalResponse: { outputText: '{"sky":"green"}', finishReason: "error" },
      });
      expect(again.adapter.calls).toEqual([]);
    });

    test("is not emitted again when its repair fails", async () => {
      const of = playing([says('{"sky":"green"}'), failing(1, "content_filter")]);
      const run = startProcess(of.engine, newStorage(), { epoch: 0, options });
      const { finalResponse } = await run.result;
      expect(finalResponse).toMatchObject({ outputText: "", error: { reason: "content_filter" } });
      expect(run.lines("message_completed")).toEqual([]);
    });
  });

  test.each<[string, Json]>([
    ["nothing of ours", "attempt"],
    ["without a failure", { usage: {}, shown: false, heard: true, reply: null }],
    ["of an unknown kind of failure", { failure: { type: "mood" }, usage: {}, shown: false, heard: true, reply: null }],
  ])("a record that cannot be read, %s, is ignored: the attempt is made", async (_, record) => {
    const of = playing([answering("Hello.", 10)]);
    const result = await startProcess(of.engine, newStorage({ "t/0/model attempt/1": record }), { epoch: 2 }).result;
    expect([result.usage.inputTokens, of.adapter.calls.length]).toEqual([10, 1]);
  });

  test("the usage of recorded attempts is counted also when the turn is cancelled before anything else happens", async () => {
    const storage = newStorage();
    await startProcess(playing([failing(100)]).engine, storage, { stopsAfter: "delay/1" }).stopped;
    const again = playing([]);
    const second = startProcess(again.engine, storage, { epoch: 2 });
    await again.clock.advance(1);
    second.cancel({ origin: "test", reason: "enough" });
    expect(await second.result).toMatchObject({ haltedReason: "cancelled", usage: { inputTokens: 100 } });
  });
});

describe("the delay before another attempt", () => {
  /** A turn whose process stopped at the start of a delay of 500 ms, at this time. */
  async function waiting(at: number) {
    const storage = newStorage();
    const clock = handClock();
    await clock.advance(at);
    await startProcess(playing([failing(1)], [], { clock }).engine, storage, { stopsAfter: "delay/1" }).stopped;
    return { storage, clock };
  }

  test("is recorded with its end", async () => {
    const { storage } = await waiting(1000);
    expect(storage.rows.get("t/0/model delay/1")).toEqual({ delayMs: 500, dueAt: 1500 });
  });

  test("[lash 77] ends when it was to end originally, and is not announced again", async () => {
    const { storage, clock } = await waiting(1000);
    await clock.advance(300);
    const again = playing([says("Hello.")], [], { clock });
    const second = startProcess(again.engine, storage, { epoch: 2 });
    await clock.advance(199);
    expect(again.adapter.calls).toHaveLength(0);
    await clock.advance(1);
    expect((await second.result).haltedReason).toBe("completed");
    expect(second.lines("retry_scheduled")).toEqual([]);
    expect(second.written).toEqual([]);
  });

  test("that should have ended is over", async () => {
    const { storage, clock } = await waiting(1000);
    await clock.advance(86_400_000);
    expect(
      (await startProcess(playing([says("Hello.")], [], { clock }).engine, storage, { epoch: 2 }).result).haltedReason,
    ).toBe("completed");
  });

  test("is never longer than recorded, whatever the clock says now", async () => {
    const { storage } = await waiting(1_000_000);
    const again = playing([says("Hello.")]);
    const second = startProcess(again.engine, storage, { epoch: 2 });
    await again.clock.advance(499);
    expect(again.adapter.calls).toHaveLength(0);
    await again.clock.advance(1);
    expect((await second.result).haltedReason).toBe("completed");
  });

  test("is over if the next attempt is recorded", async () => {
    const { storage } = await waiting(1_000_000);
    const record = storage.rows.get("t/0/model attempt/1") ?? null;
    storage.rows.set("t/0/model attempt/2", record);
    const again = playing([], [], { retry: { maxAttempts: 2 } });
    const result = await startProcess(again.engine, storage, { epoch: 2 }).result;
    expect([result.haltedReason, result.usage.inputTokens]).toEqual(["error", 2]);
  });
});

/** A tool that records its arguments and its context. */
function pay(definition: Partial<ToolDefinition<JsonObject>> = {}) {
  const ran: JsonObject[] = [];
  const keys: string[] = [];
  const made = tool({
    name: "pay",
    description: "Pays.",
    schema: { type: "object" },
    ...definition,
    handler: (args: JsonObject, context: ToolContext) => {
      ran.push(args);
      keys.push(context.idempotencyKey);
      return definition.handler === undefined ? "paid" : definition.handler(args, context);
    },
  });
  return { tool: made, ran, keys };
}

const paying = (args: JsonObject = { eur: 5 }): FakeScript => [
  { type: "tool_call", id: "c0", name: "pay", arguments: args },
];
const never = () => new Promise(() => undefined);
const effect = "t/0/tool/0";
const call = toolCall({ id: "c0", name: "pay", arguments: { eur: 5 } });

/**
 * A turn whose process stopped while the tool ran, or after this record was written; `adopt` continues it in another
 * process.
 */
async function interruptedTurn(first: Tool, { stopsAfter, ...rest }: ProcessOptions = {}) {
  const storage = newStorage();
  const of = playing([paying()], [first]);
  const before = startProcess(of.engine, storage, { ...rest, ...(stopsAfter === undefined ? {} : { stopsAfter }) });
  if (stopsAfter === undefined) {
    await of.clock.advance(0);
    before.kill();
  } else await before.stopped;
  return {
    storage,
    before,
    /** Lets a process with this tool take the turn over. */
    takeOver: (second: Tool, more: ProcessOptions = {}) => {
      const again = playing([says("ok")], [second]);
      return { ...again, ...startProcess(again.engine, storage, { epoch: 2, ...more }) };
    },
  };
}

describe("the preparation of a tool call", () => {
  test("is not recorded without a hook or a gate", async () => {
    const storage = newStorage();
    await startProcess(playing([paying(), says("ok")], [pay({ replay: "safe" }).tool]).engine, storage).result;
    expect([...storage.rows.keys()]).toEqual([]);
  });

  test.each([
    [false, { type: "ready", arguments: { eur: 5 } }, "completed", 1],
    [true, { type: "waits", arguments: { eur: 5 } }, "approval", 0],
  ])("Q3: a gate that returned %s is not asked again", async (says, record, halted, times) => {
    let gate = 0;
    const gated = pay({
      replay: "safe",
      needsApproval: () => {
        gate += 1;
        return says;
      },
    });
    const { storage, takeOver } = await interruptedTurn(gated.tool, { stopsAfter: "prepared" });
    expect(storage.rows.get(`${effect} prepared`)).toEqual(record);
    expect((await takeOver(gated.tool).result).haltedReason).toBe(halted);
    expect([gate, gated.ran.length]).toEqual([1, times]);
  });

  test("Q3: a hook is not asked again: changed arguments, a value, a denial, an exception", async () => {
    const runWithHook = async (hook: NonNullable<NonNullable<ChatOptions["hooks"]>["beforeTool"]>) => {
      let hooked = 0;
      const beforeTool: typeof hook = (call, context) => {
        hooked += 1;
        return hook(call, context);
      };
      const options = { hooks: { beforeTool } };
      const payer = pay({ replay: "safe" });
      const { storage, takeOver } = await interruptedTurn(payer.tool, { stopsAfter: "prepared", options });
      const { thread } = await takeOver(payer.tool, { options }).result;
      return { hooked, ran: payer.ran, record: storage.rows.get(`${effect} prepared`), answer: thread.messages[2] };
    };
    expect(await runWithHook(() => ({ type: "replace_arguments", arguments: { eur: 3 } }))).toMatchObject({
      hooked: 1,
      ran: [{ eur: 3 }],
      record: { type: "ready", arguments: { eur: 3 } },
      answer: { content: "paid", ranArguments: { eur: 3 } },
    });
    expect(await runWithHook(() => null)).toMatchObject({
      hooked: 1,
      ran: [{ eur: 5 }],
      answer: { ranArguments: null },
    });
    expect(await runWithHook(() => ({ type: "skip", value: "free" }))).toMatchObject({
      hooked: 1,
      ran: [],
      record: { type: "outcome", outcome: { type: "success", value: "free" }, content: "free" },
      answer: { content: "free" },
    });
    expect(await runWithHook(() => ({ type: "deny", reason: "no" }))).toMatchObject({
      hooked: 1,
      ran: [],
      record: { type: "failed", failure: { reason: "denied" } },
      answer: { code: "denied" },
    });
    const thrown = await runWithHook(() => {
      throw new Error("hook");
    });
    expect(thrown).toMatchObject({ hooked: 1, ran: [], answer: { code: "handler_raised" } });
  });

  test("validates recorded arguments again, with the current schema", async () => {
    const gate = { replay: "safe", needsApproval: () => false } as const;
    const { takeOver } = await interruptedTurn(pay(gate).tool, { stopsAfter: "prepared" });
    const strict = tool({
      ...gate,
      name: "pay",
      description: "Pays.",
      schema: z.object({ usd: z.number() }),
      handler: () => 1,
    });
    expect((await takeOver(strict).result).thread.messages[2]).toMatchObject({ code: "invalid_arguments" });
  });

  test("a record that cannot be read is ignored: the gate is asked", async () => {
    const gated = pay({ replay: "safe", needsApproval: () => true });
    for (const record of [{ type: "ready" }, { type: "failed", failure: { type: "session_error", reason: "x" } }]) {
      const storage = newStorage({ [`${effect} prepared`]: record });
      expect((await startProcess(playing([paying()], [gated.tool]).engine, storage).result).haltedReason).toBe(
        "approval",
      );
    }
  });
});

describe("H4: a tool that was running when its process stopped", () => {
  test.each(["never", "ask"] as const)("Q3: %s: records a start mark before it starts", async (replay) => {
    const payer = pay({ replay });
    const { storage } = await interruptedTurn(payer.tool, { stopsAfter: "started" });
    expect(payer.ran).toEqual([]);
    expect(storage.rows.get(`${effect} started`)).toEqual({
      epoch: 1,
      policy: replay,
      name: "pay",
      arguments: { eur: 5 },
    });
  });

  test("has no start mark with replay policy safe, and none in memory", async () => {
    const safe = await interruptedTurn(pay({ replay: "safe", handler: never }).tool);
    const memory = await interruptedTurn(pay({ handler: never }).tool, { epoch: 0 });
    expect([safe.before.written, memory.before.written]).toEqual([[], []]);
  });

  test("safe: runs again with the same idempotency key", async () => {
    const { takeOver } = await interruptedTurn(pay({ replay: "safe", handler: never }).tool);
    const payer = pay({ replay: "safe" });
    const second = takeOver(payer.tool);
    expect((await second.result).haltedReason).toBe("completed");
    expect(payer.keys).toEqual([effect]);
    expect(second.lines("tool_execution_started")).toEqual(["2.1 tool_execution_started c0 pay"]);
  });

  test("never: is answered outcome_unknown, and no hook and no onToolError is asked", async () => {
    const { takeOver } = await interruptedTurn(pay({ handler: never }).tool);
    const payer = pay();
    const seen: string[] = [];
    const hooks = {
      beforeTool: () => {
        seen.push("before");
        return null;
      },
      afterTool: () => {
        seen.push("after");
        return null;
      },
    };
    const second = takeOver(payer.tool, {
      options: {
        hooks,
        onToolError: "halt",
        toolResultEncoder: (of) => (of.type === "error" ? `! ${of.failure.message}` : ""),
      },
    });
    const result = await second.result;
    expect(result.haltedReason).toBe("completed");
    expect(result.thread.messages[2]).toMatchObject({
      code: "outcome_unknown",
      status: "failure",
      ranArguments: null,
      content: expect.stringMatching(
        /^! the process that ran pay stopped before the outcome was recorded, so the tool may or may not have run/,
      ),
    });
    expect(result.steps[0]?.toolResults).toHaveLength(1);
    expect([payer.ran, seen]).toEqual([[], []]);
    expect(second.lines("tool_execution_started")).toEqual([]);
  });

  test("ask: waits for a person to decide", async () => {
    const { takeOver } = await interruptedTurn(pay({ replay: "ask", handler: never }).tool);
    const payer = pay({ replay: "ask" });
    expect(await takeOver(payer.tool).result).toMatchObject({
      haltedReason: "outcome_unknown",
      pendingToolCalls: [{ id: "c0", reason: "outcome_unknown", idempotencyKey: effect }],
    });
    expect(payer.ran).toEqual([]);
  });

  test("is answered by the replay policy it started with, whatever was deployed since; also when its tool is gone", async () => {
    const begunAs = async (replay: "never" | "ask", now: Tool) => {
      const { takeOver } = await interruptedTurn(pay({ replay, handler: never }).tool);
      const { haltedReason, thread } = await takeOver(now).result;
      return [haltedReason, thread.messages[2]?.role === "tool" ? thread.messages[2].code : null];
    };
    expect(await begunAs("never", pay({ replay: "safe" }).tool)).toEqual(["completed", "outcome_unknown"]);
    expect(await begunAs("ask", pay({ replay: "never" }).tool)).toEqual(["outcome_unknown", null]);
    expect(await begunAs("never", plain("pay"))).toEqual(["completed", "outcome_unknown"]);
  });

  const mark = { epoch: 1, policy: "never", name: "pay", arguments: { eur: 5 } };
  test.each<[string, Json, number]>([
    ["of other arguments does not count", { ...mark, arguments: { eur: 6 } }, 1],
    ["of another tool does not count", { ...mark, name: "refund" }, 1],
    ["of the same in another order does", { ...mark, arguments: { at: "noon", eur: 5 } }, 0],
    ["that cannot be read counts as a start", { policy: "whim" }, 0],
  ])("a start mark %s", async (_, started, times) => {
    const payer = pay();
    const args = times === 1 ? { eur: 5 } : { eur: 5, at: "noon" };
    const of = playing([paying(args), says("ok")], [payer.tool]);
    await startProcess(of.engine, newStorage({ [`${effect} started`]: started }), { epoch: 2 }).result;
    expect(payer.ran).toHaveLength(times);
  });

  test("a start mark holds the arguments that a hook changed", async () => {
    const options = {
      hooks: { beforeTool: () => ({ type: "replace_arguments", arguments: { eur: 3 } }) as const },
    };
    const { storage, takeOver } = await interruptedTurn(pay({ handler: never }).tool, { options });
    expect(storage.rows.get(`${effect} started`)).toMatchObject({ arguments: { eur: 3 } });
    const payer = pay();
    const result = await takeOver(payer.tool, { options }).result;
    expect(result.thread.messages[2]).toMatchObject({ code: "outcome_unknown", ranArguments: { eur: 3 } });
    // A mark that was written before the hook ran has the arguments of the call.
    storage.rows.set(`${effect} started`, { ...mark });
    await takeOver(payer.tool, { options }).result;
    expect(payer.ran).toEqual([{ eur: 3 }]);
  });

  test("a start mark holds the arguments that an approval edited", async () => {
    const approval = { type: "approve", arguments: { eur: 4 }, by: null } as const;
    const thread = [user("hi"), assistant("", { toolCalls: [call] })];
    const details = { answers: [callDecision(call, approval)] };
    const gated = pay({ needsApproval: true });
    const decided = (storage: TestStorage) =>
      startProcess(playing([says("ok")], [gated.tool]).engine, storage, { epoch: 2, thread, details });
    const storage = newStorage();
    await decided(storage).result;
    // The call is approved, so the gate is not asked.
    expect(Object.fromEntries(storage.rows)).toEqual({
      [`${effect} started`]: { ...mark, epoch: 2, arguments: { eur: 4 } },
    });
    const result = await decided(storage).result;
    expect(result.thread.messages.find(({ role }) => role === "tool")).toMatchObject({ code: "outcome_unknown" });
    await decided(newStorage({ [`${effect} started`]: mark })).result;
    expect(gated.ran).toEqual([{ eur: 4 }, { eur: 4 }]);
  });

  test("Q3: a start mark is recorded with a permit: queued calls have none", async () => {
    const untilStopped = (_: JsonObject, { signal }: ToolContext) =>
      new Promise((resolve) => signal.addEventListener("abort", resolve));
    const storage = newStorage();
    const of = playing(
      [[...paying(), { type: "tool_call", id: "c1", name: "pay", arguments: { eur: 6 } }]],
      [pay({ handler: untilStopped }).tool],
    );
    const run = startProcess(of.engine, storage, { options: { maxConcurrency: 1 } });
    await of.clock.advance(0);
    expect(run.written).toEqual([`${effect} started`]);
    run.cancel({ origin: "test", reason: "enough" });
    expect((await run.result).haltedReason).toBe("cancelled");
    await of.clock.advance(0);
    expect(run.written).toEqual([`${effect} started`]);
  });

  test("Q3: a start mark that was committed with the order of the call counts the same", async () => {
    const payer = pay();
    const begun = startMark({ call, decision: null }, payer.tool, 1);
    const storage = newStorage({ [`${effect} started`]: begun });
    const result = await startProcess(playing([paying(), says("ok")], [payer.tool]).engine, storage, { epoch: 2 })
      .result;
    expect(result.thread.messages[2]).toMatchObject({ code: "outcome_unknown" });
    expect(payer.ran).toEqual([]);
    const alone = newStorage();
    await startProcess(playing([paying(), says("ok")], [payer.tool]).engine, alone).result;
    expect(alone.rows.get(`${effect} started`)).toEqual(begun);
  });

  test("no early start mark is returned for a call that may wait or needs none", () => {
    const { tool: payer } = pay({ replay: "ask" });
    const ordered = { call, decision: null };
    const approved = { call, decision: { type: "approve", arguments: { eur: 4 }, by: null } } as const;
    expect(startMark(ordered, payer, 3)).toEqual({ epoch: 3, policy: "ask", name: "pay", arguments: { eur: 5 } });
    expect(startMark(approved, { ...payer, needsApproval: true }, 3)).toMatchObject({ arguments: { eur: 4 } });
    for (const other of [{ replay: "safe" }, { needsApproval: true }, { manual: true }] as const) {
      expect(startMark(ordered, { ...payer, ...other }, 3)).toBeNull();
    }
    const unreadable = { call: { ...call, arguments: null }, decision: null };
    expect([startMark(unreadable, payer, 3), startMark(ordered, payer, 0)]).toEqual([null, null]);
  });

  test("does not start if its start mark cannot be recorded, and the run rejects", async () => {
    const broken = new Error("the disk is full");
    const noInput = { messages: [], transientMessages: [], turnCauses: [], inputs: [] };
    const run = (of: Engine) =>
      startRun(
        planRun(of, "hi", { requestId: "t" }, { verb: "chat" }),
        () => ({
          journal: new MemoryJournal(),
          scope: {
            tenant: null,
            epoch: 1,
            ensure: () => undefined,
            find: () => null,
            record: () => Promise.reject(broken),
            begin: () => undefined,
          },
          accepted: true,
          inbox: { claim: () => Promise.resolve(noInput) },
          sink: { live: () => undefined, commit: () => "fresh" },
        }),
        () => () => Promise.reject(broken),
      ).result;
    const payer = pay();
    const gated = pay({ replay: "safe", needsApproval: () => false });
    await expect(run(playing([paying()], [payer.tool]).engine)).rejects.toBe(broken);
    await expect(run(playing([paying()], [gated.tool]).engine)).rejects.toBe(broken);
    await expect(run(playing([failing(1)]).engine)).rejects.toBe(broken);
    expect([...payer.ran, ...gated.ran]).toEqual([]);
  });
});

describe("[lash 72] a tool with a retry policy", () => {
  const retry = { type: "safe", maxAttempts: 3, baseDelayMs: 100, maxDelayMs: 1000 } as const;
  const busy = (afterMs: number | null = null) => fail("busy", { retry: { type: "safe", afterMs } });
  /** Fails the given number of times, then succeeds. */
  const flaky = (failures: number, definition: Partial<ToolDefinition<JsonObject>> = {}) => {
    let tries = 0;
    return pay({
      replay: "safe",
      retry,
      ...definition,
      handler: () => {
        tries += 1;
        return tries > failures ? "paid" : busy();
      },
    });
  };
  const answerOf = ({ thread }: { readonly thread: { readonly messages: readonly unknown[] } }) => thread.messages[2];

  test("records and announces each attempt and each delay, with the same idempotency key", async () => {
    const payer = flaky(2);
    const storage = newStorage();
    const of = playing([paying(), says("ok")], [payer.tool]);
    const run = startProcess(of.engine, storage);
    await of.clock.advance(99);
    expect(payer.ran).toHaveLength(1);
    await of.clock.advance(201);
    expect(answerOf(await run.result)).toMatchObject({ content: "paid", status: "success" });
    expect(payer.keys).toEqual([effect, effect, effect]);
    expect(run.lines("tool_execution_started", "retry_scheduled")).toEqual([
      "1.1 tool_execution_started c0 pay",
      "1.1 retry_scheduled 100 ms",
      "1.2 tool_execution_started c0 pay",
      "1.2 retry_scheduled 200 ms",
      "1.3 tool_execution_started c0 pay",
    ]);
    expect(run.written.map((place) => place.split(" ")[1])).toEqual(["attempt/1", "delay/1", "attempt/2", "delay/2"]);
    expect(storage.rows.get(`${effect} attempt/1`)).toMatchObject({ failure: { message: "busy" }, usage: {} });
    expect(storage.rows.get(`${effect} delay/2`)).toEqual({ delayMs: 200, dueAt: 300 });
  });

  test("behaves the same through the verbs", async () => {
    const of = playing([paying(), says("ok")], [flaky(1).tool]);
    const lines: string[] = [];
    const reading = (async () => {
      for await (const event of stream(of.engine, "hi")) lines.push(line(event));
    })();
    await of.clock.advance(100);
    await reading;
    expect(lines).toContain("retry_scheduled 100 ms");
    expect(lines).toContain("tool_result_encoded c0 paid");
  });

  test("waits as long as the failure asks, up to maxDelayMs, returned or thrown", async () => {
    const waits = async (handler: () => unknown) => {
      const of = playing([paying(), says("ok")], [pay({ retry: { ...retry, maxAttempts: 2 }, handler }).tool]);
      const run = startProcess(of.engine, newStorage());
      await of.clock.advance(5000);
      await run.result;
      return run.lines("retry_scheduled");
    };
    expect(await waits(() => busy(700))).toEqual(["1.1 retry_scheduled 700 ms"]);
    expect(await waits(() => busy(60_000))).toEqual(["1.1 retry_scheduled 1000 ms"]);
    const thrown = new ToolError("handler_failed", { retry: { type: "safe", afterMs: null } });
    expect(await waits(() => Promise.reject(thrown))).toEqual(["1.1 retry_scheduled 100 ms"]);
  });

  test("makes maxAttempts attempts, and then the failure says so", async () => {
    const payer = flaky(9);
    const of = playing([paying(), says("ok")], [payer.tool]);
    const seen: Json[] = [];
    const onToolError = (_: ToolCall, { retry: last }: { readonly retry: Json }) => {
      seen.push(last);
      return "halt" as const;
    };
    const run = startProcess(of.engine, newStorage(), { options: { onToolError } });
    await of.clock.advance(300);
    expect((await run.result).haltedReason).toBe("tool_error");
    expect(payer.ran).toHaveLength(3);
    expect(seen).toEqual([{ type: "exhausted", attempts: 3 }]);
  });

  test("is not retried unless both the tool and its failure allow it, and not after a timeout", async () => {
    const once = async (definition: Partial<ToolDefinition<JsonObject>>) => {
      const payer = pay(definition);
      const of = playing([paying(), says("ok")], [payer.tool]);
      const run = startProcess(of.engine, newStorage(), { epoch: 0 });
      await of.clock.advance(60_000);
      await run.result;
      expect(run.written).toEqual([]);
      return payer.ran.length;
    };
    expect(await once({ handler: () => busy() })).toBe(1);
    expect(await once({ retry: { type: "never" }, handler: () => busy() })).toBe(1);
    expect(await once({ retry, handler: () => fail("broken") })).toBe(1);
    expect(await once({ retry, handler: () => Promise.reject(new Error("broken")) })).toBe(1);
    expect(await once({ retry, handler: never })).toBe(1);
  });

  test("has the time limit for each attempt, and drops progress of earlier attempts", async () => {
    let tries = 0;
    let late: (value: Json) => void = () => undefined;
    const slow = tool({
      name: "pay",
      description: "Pays.",
      schema: { type: "object" },
      retry,
      timeoutMs: 80,
      handler: async (_, { progress, signal }: ToolContext) => {
        tries += 1;
        const mine = tries;
        late(`${mine} from before`);
        late = progress;
        progress(mine);
        await of.clock.sleep(60, signal);
        return mine < 3 ? busy() : "paid";
      },
    });
    const of = playing([paying(), says("ok")], [slow]);
    const run = startProcess(of.engine, newStorage());
    await of.clock.advance(1000);
    expect(answerOf(await run.result)).toMatchObject({ content: "paid" });
    expect(run.lines("tool_progress")).toEqual([
      "1.1 tool_progress c0 1",
      "1.2 tool_progress c0 2",
      "1.3 tool_progress c0 3",
    ]);
  });

  test("releases its permit while it waits", async () => {
    const order: string[] = [];
    const other = plain("other", () => void order.push("other"));
    const payer = flaky(1, { name: "pay" });
    const of = playing(
      [[...paying(), { type: "tool_call", id: "c1", name: "other", arguments: {} }], says("ok")],
      [payer.tool, other],
    );
    const run = startProcess(of.engine, newStorage(), { options: { maxConcurrency: 1 } });
    await of.clock.advance(99);
    expect([payer.ran.length, order]).toEqual([1, ["other"]]);
    await of.clock.advance(1);
    expect((await run.result).haltedReason).toBe("completed");
  });

  test("continues after recorded attempts: not repeated, not announced again, waiting only for the rest of a delay", async () => {
    const child = engine({ adapter: fake({ script: says("inner"), usage: { inputTokens: 7 } }) });
    const first = pay({
      replay: "safe",
      retry,
      handler: async (_, { runChild }) => {
        await runChild(child, "do it");
        return busy();
      },
    });
    const { storage, takeOver } = await interruptedTurn(first.tool, { stopsAfter: "delay/1" });
    expect(storage.rows.get(`${effect} attempt/1`)).toMatchObject({ usage: { inputTokens: 7 } });
    const payer = flaky(0);
    const second = takeOver(payer.tool);
    await second.clock.advance(99);
    expect(payer.ran).toHaveLength(0);
    await second.clock.advance(1);
    const result = await second.result;
    expect(answerOf(result)).toMatchObject({ content: "paid" });
    expect(result.usage.inputTokens).toBe(7);
    expect(payer.keys).toEqual([effect]);
    expect(second.lines("retry_scheduled", "tool_execution_started")).toEqual(["2.2 tool_execution_started c0 pay"]);
    expect(second.written).toEqual([]);
  });

  test("counts recorded attempts, and fails with the recorded failure if no attempt is left", async () => {
    const { takeOver } = await interruptedTurn(flaky(1).tool, { stopsAfter: "attempt/1" });
    const payer = flaky(9, { retry: { ...retry, type: "idempotent", maxAttempts: 2 } });
    const seen: Json[] = [];
    const onToolError = (_: ToolCall, { retry: last }: { readonly retry: Json }) => {
      seen.push(last);
      return { continue: null };
    };
    const second = takeOver(payer.tool, { options: { onToolError } });
    await second.clock.advance(100);
    await second.result;
    expect(payer.ran).toHaveLength(1);
    expect(seen).toEqual([{ type: "exhausted", attempts: 2 }]);
    const stubborn = flaky(0, { retry: { type: "never" } });
    expect(answerOf(await takeOver(stubborn.tool).result)).toMatchObject({ code: "handler_failed" });
    expect(stubborn.ran).toEqual([]);
  });

  test("H4: has one start mark for all attempts: a crash during a later one leaves the outcome unknown", async () => {
    let tries = 0;
    const handler = () => {
      tries += 1;
      return tries === 1 ? busy() : never();
    };
    const { before, storage, takeOver } = await interruptedTurn(
      pay({ retry: { ...retry, baseDelayMs: 0 }, handler }).tool,
    );
    expect(tries).toBe(2);
    expect(before.written).toEqual([`${effect} started`, `${effect} attempt/1`, `${effect} delay/1`]);
    const payer = flaky(0);
    expect(answerOf(await takeOver(payer.tool).result)).toMatchObject({ code: "outcome_unknown" });
    expect(payer.ran).toEqual([]);
    storage.rows.delete(`${effect} started`);
    expect(answerOf(await takeOver(payer.tool).result)).toMatchObject({ content: "paid" });
  });

  test("and a cancel ends the delay", async () => {
    const payer = flaky(1);
    const of = playing([paying()], [payer.tool]);
    const run = startProcess(of.engine, newStorage());
    await of.clock.advance(1);
    run.cancel({ origin: "test", reason: "enough" });
    expect((await run.result).haltedReason).toBe("cancelled");
    await of.clock.advance(1000);
    expect([payer.ran.length, of.clock.sleepers]).toEqual([1, 0]);
  });

  test.each<[string, string]>([
    ["retry", '"always"'],
    ["retry", '{"type":"often"}'],
    ["retry.maxAttempts", '{"type":"safe","maxAttempts":0,"baseDelayMs":1,"maxDelayMs":1}'],
    ["retry.maxAttempts", '{"type":"safe","maxAttempts":1.5,"baseDelayMs":1,"maxDelayMs":1}'],
    ["retry.baseDelayMs", '{"type":"safe","maxAttempts":2,"baseDelayMs":-1,"maxDelayMs":1}'],
    ["retry.maxDelayMs", '{"type":"idempotent","maxAttempts":2,"baseDelayMs":1,"maxDelayMs":null}'],
    ["retry.maxDelayMs", '{"type":"idempotent","maxAttempts":2,"baseDelayMs":1}'],
  ])("rejects an invalid policy when the tool is created: %s", (path, given) => {
    const odd: NonNullable<ToolDefinition["retry"]> = JSON.parse(given);
    try {
      pay({ retry: odd });
      expect.unreachable();
    } catch (error) {
      expect(error).toBeInstanceOf(MisuseError);
      expect(error).toMatchObject({ path: path.split(".") });
    }
  });
});
