// The cancel grace (`cancelGraceMs`): what running tools may still do after a cancel, in runs in memory.

import type { ChatOptions, ChatResult, Tool, ToolContext, TurnEvent } from "everturn";

import {
  agentTool,
  askUser,
  chat,
  engine,
  fail,
  fake,
  halt,
  MisuseError,
  step,
  stream,
  tool,
  validateThread,
} from "everturn";
import { describe, expect, test } from "vitest";

import { calls, plain, playing, says } from "../../../test/runs.ts";
import { nextTask } from "../clock/clock.ts";

/** A promise and the function that resolves it. */
function deferred<Value>() {
  let resolve: (value: Value) => void = () => undefined;
  const promise = new Promise<Value>((settle) => (resolve = settle));
  return { promise, resolve };
}

/**
 * A run with one reply that calls these tools. `abort` cancels the run once a tool has started; `events` are the events
 * of the run.
 */
function running(
  tools: readonly Tool[],
  options: Omit<ChatOptions, "signal"> = {},
  names = tools.map(({ name }) => name),
) {
  const { engine: of, clock, adapter } = playing([calls(...names), says("never")], tools);
  const controller = new AbortController();
  const events: TurnEvent[] = [];
  const streamed = stream(of, "hi", { signal: controller.signal, ...options });
  const result = (async (): Promise<ChatResult> => {
    for await (const event of streamed) events.push(event);
    return streamed.result;
  })();
  const abort = async (): Promise<void> => {
    while (!events.some(({ type }) => type === "tool_execution_started")) await nextTask();
    controller.abort("enough");
  };
  return { clock, adapter, result, events, abort };
}

/** The answers of the tools in the thread: their status and text. */
const answersOf = ({ thread }: ChatResult) =>
  thread.messages.flatMap((message) => (message.role === "tool" ? [[message.status, message.content]] : []));

/** The ids of the calls in the events of a type. */
const idsOf = (events: readonly TurnEvent[], type: "tool_execution_started" | "tool_execution_completed") =>
  events.flatMap((event) => (event.type === type ? [event.id] : []));

const cancelledAnswer = ["cancelled", "[Tool execution cancelled]\nenough"];

/** A tool that never returns. */
const stuck = plain("stuck", () => new Promise(() => undefined));

describe("[lash 71] after a cancel", () => {
  test("a running tool finishes within 50 ms: its real result is in the thread, and the run is cancelled", async () => {
    const work = deferred<string>();
    const { clock, result, events, abort, adapter } = running([plain("save", () => work.promise)]);
    await abort();
    await clock.advance(49);
    work.resolve("saved");
    const ended = await result;
    expect(answersOf(ended)).toEqual([["success", "saved"]]);
    expect(ended).toMatchObject({ haltedReason: "cancelled", metadata: { cancellation: { reason: "enough" } } });
    expect(ended.steps).toMatchObject([{ toolResults: [{ content: "saved" }] }]);
    expect(validateThread(ended.thread).ok).toBe(true);
    expect([idsOf(events, "tool_execution_started"), idsOf(events, "tool_execution_completed")]).toEqual([
      ["c0"],
      ["c0"],
    ]);
    expect(adapter.calls).toHaveLength(1);
    expect(clock.sleepers).toBe(0);
  });

  test("a tool that has not returned after 50 ms is recorded as cancelled, with one completion event", async () => {
    const { clock, result, events, abort } = running([stuck, plain("fast", () => "done")]);
    await abort();
    let isOver = false;
    void result.then(() => (isOver = true));
    await clock.advance(49);
    expect(isOver).toBe(false);
    await clock.advance(1);
    const ended = await result;
    expect(answersOf(ended)).toEqual([cancelledAnswer, ["success", "done"]]);
    expect(ended.haltedReason).toBe("cancelled");
    expect(idsOf(events, "tool_execution_started").toSorted()).toEqual(["c0", "c1"]);
    expect(idsOf(events, "tool_execution_completed").toSorted()).toEqual(["c0", "c1"]);
    expect(events).toContainEqual({
      type: "tool_execution_completed",
      id: "c0",
      name: "stuck",
      result: { type: "cancelled", message: "enough", raw: null },
      durationMs: null,
    });
    expect(ended.steps[0]?.toolResults).toMatchObject([{ status: "cancelled" }, { status: "success" }]);
  });

  test("the signal of the tool is aborted at once, and a tool that throws the abort ends the grace", async () => {
    const { clock, result, abort } = running(
      [
        tool({
          name: "obeys",
          description: "Stops when its signal is aborted.",
          schema: { type: "object" },
          handler: (_, { signal }: ToolContext) =>
            new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
        }),
      ],
      { onToolError: "halt" },
    );
    await abort();
    const ended = await result;
    expect(clock.now()).toBe(0);
    expect(answersOf(ended)).toEqual([cancelledAnswer]);
    expect(ended.haltedReason).toBe("cancelled");
  });

  test("a tool that fails has its failure in the thread, which does not halt the run", async () => {
    const work = deferred<string>();
    const { result, abort } = running(
      [
        plain("save", async () => {
          throw new Error(await work.promise);
        }),
      ],
      { onToolError: "halt" },
    );
    await abort();
    work.resolve("the disk is full");
    const ended = await result;
    expect(answersOf(ended)).toEqual([["failure", expect.stringContaining("the disk is full")]]);
    expect(ended.haltedReason).toBe("cancelled");
  });

  test("the grace ends with the last running tool, and results are in call order", async () => {
    const [first, second] = [deferred<string>(), deferred<string>()];
    const { clock, result, abort } = running([
      plain("first", () => first.promise),
      plain("second", () => second.promise),
    ]);
    await abort();
    second.resolve("2");
    await clock.advance(10);
    first.resolve("1");
    expect(answersOf(await result)).toEqual([
      ["success", "1"],
      ["success", "2"],
    ]);
    expect(clock.now()).toBe(10);
  });

  test("with cancelGraceMs 0 no result after the abort counts; a longer grace waits longer", async () => {
    const none = deferred<string>();
    const { result, abort, events } = running([plain("save", () => none.promise)], { cancelGraceMs: 0 });
    await abort();
    none.resolve("saved");
    expect(answersOf(await result)).toEqual([cancelledAnswer]);
    expect(idsOf(events, "tool_execution_completed")).toEqual(["c0"]);
    const late = deferred<string>();
    const long = running([plain("save", () => late.promise)], { cancelGraceMs: 5000 });
    await long.abort();
    await long.clock.advance(4999);
    late.resolve("saved");
    expect(answersOf(await long.result)).toEqual([["success", "saved"]]);
  });

  test.each([-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY])("cancelGraceMs %s is rejected", async (cancelGraceMs) => {
    const { engine: of, adapter } = playing([says("ok")]);
    await expect(chat(of, "hi", { cancelGraceMs })).rejects.toThrow(MisuseError);
    await expect(step(of, "hi", { cancelGraceMs })).rejects.toThrow(/cancelGraceMs/);
    expect(adapter.calls).toEqual([]);
  });

  test("a call that waits for its turn does not start", async () => {
    let work = deferred<string>();
    let runs = 0;
    const handler = () => {
      runs += 1;
      return work.promise;
    };
    const serial = { ...plain("serial", handler), concurrency: "serial" } as const;
    for (const [only, options] of [
      [serial, {}],
      [plain("save", handler), { maxConcurrency: 1 }],
    ] as const) {
      runs = 0;
      work = deferred();
      const { result, abort, events } = running([only], options, [only.name, only.name, only.name]);
      await abort();
      work.resolve("saved");
      expect(answersOf(await result)).toEqual([["success", "saved"], cancelledAnswer, cancelledAnswer]);
      await nextTask();
      expect(runs).toBe(1);
      expect(idsOf(events, "tool_execution_started")).toEqual(["c0"]);
      expect(idsOf(events, "tool_execution_completed").toSorted()).toEqual(["c0", "c1", "c2"]);
    }
  });

  test("a call whose approval gate is asked does not start, and asks for nothing", async () => {
    let [work, gate] = [deferred<string>(), deferred<boolean>()];
    let paid = 0;
    const pay = tool({
      name: "pay",
      description: "Pays.",
      schema: { type: "object" },
      needsApproval: () => gate.promise,
      handler: () => (paid += 1),
    });
    for (const needsApproval of [true, false]) {
      [work, gate] = [deferred(), deferred()];
      const { result, abort, events } = running([plain("save", () => work.promise), pay]);
      await abort();
      gate.resolve(needsApproval);
      await nextTask();
      work.resolve("saved");
      const ended = await result;
      expect(answersOf(ended)).toEqual([["success", "saved"], cancelledAnswer]);
      expect(ended.pendingToolCalls).toEqual([]);
      expect(events.some(({ type }) => type === "approval_requested")).toBe(false);
    }
    expect(paid).toBe(0);
  });

  test("a failed tool is not retried, and a retry that waits is not made", async () => {
    let runs = 0;
    const flaky = tool({
      name: "flaky",
      description: "Fails.",
      schema: { type: "object" },
      retry: { type: "safe", maxAttempts: 3, baseDelayMs: 1000, maxDelayMs: 1000 },
      handler: () => {
        runs += 1;
        return fail("busy", { retry: { type: "safe", afterMs: null } });
      },
    });
    const { result, abort, clock, events } = running([flaky, stuck]);
    await abort();
    await clock.advance(50);
    expect((await result).haltedReason).toBe("cancelled");
    await clock.advance(5000);
    expect(runs).toBe(1);
    expect(idsOf(events, "tool_execution_completed").toSorted()).toEqual(["c0", "c1"]);
  });

  test("a question of a tool is not asked, and a tool that halts the run ends it", async () => {
    const work = deferred<unknown>();
    const asking = running([plain("ask", () => work.promise)]);
    await asking.abort();
    work.resolve(askUser("Which one?"));
    const asked = await asking.result;
    expect(asked).toMatchObject({ haltedReason: "cancelled", pendingQuestion: null });
    expect(answersOf(asked)).toEqual([cancelledAnswer]);
    const stop = deferred<unknown>();
    const halting = running([plain("stop", () => stop.promise)]);
    await halting.abort();
    stop.resolve(halt("found", { at: 7 }));
    expect(await halting.result).toMatchObject({ haltedReason: "found", metadata: { haltResult: { at: 7 } } });
  });

  test("a generator finishes within the grace, and one that does not is stopped", async () => {
    const counted: number[] = [];
    const generator = (name: string, count: number) =>
      tool({
        name,
        description: "Counts.",
        schema: { type: "object" },
        async *handler() {
          for (let n = 0; n < count; n += 1) {
            await nextTask();
            yield n;
            if (name === "long") counted.push(n);
          }
          return "counted";
        },
      });
    const short = running([generator("short", 5)]);
    await short.abort();
    expect(answersOf(await short.result)).toEqual([["success", "counted"]]);
    const long = running([generator("long", Number.POSITIVE_INFINITY)]);
    await long.abort();
    await long.clock.advance(50);
    expect(answersOf(await long.result)).toEqual([cancelledAnswer]);
    await nextTask();
    const { length } = counted;
    for (let task = 0; task < 10; task += 1) await nextTask();
    expect(counted.length).toBeLessThanOrEqual(length + 1);
  });

  test("a generator that never waits does not block the end of the grace", async () => {
    const endless = tool({
      name: "endless",
      description: "Counts forever.",
      schema: { type: "object" },
      *handler() {
        for (let n = 0; ; n += 1) yield n;
      },
    });
    const controller = new AbortController();
    const of = engine({ adapter: fake({ scripts: [calls("endless")] }), model: "fake:m", tools: [endless] });
    const streamed = stream(of, "hi", { signal: controller.signal, cancelGraceMs: 5 });
    for await (const { type } of streamed) if (type === "tool_progress") controller.abort("enough");
    expect((await streamed.result).haltedReason).toBe("cancelled");
  });

  test("a second cancel changes nothing, and a cancel while the model streams has no grace", async () => {
    const work = deferred<string>();
    const { engine: of, clock } = playing([calls("save")], [plain("save", () => work.promise)]);
    const controller = new AbortController();
    const streamed = stream(of, "hi", { signal: controller.signal });
    const events = streamed[Symbol.asyncIterator]();
    for (;;) {
      const { value } = await events.next();
      if (value?.type === "tool_execution_started") break;
    }
    controller.abort("first");
    const left = events.return?.();
    work.resolve("saved");
    await left;
    const ended = await streamed.result;
    expect(ended.metadata.cancellation).toMatchObject({ origin: "signal", reason: "first" });
    expect(answersOf(ended)).toEqual([["success", "saved"]]);
    const talking = playing([says("half")]);
    const silent = stream(talking.engine, "hi");
    for await (const { type } of silent) if (type === "text_delta") break;
    expect((await silent.result).haltedReason).toBe("cancelled");
    expect([clock.now(), talking.clock.sleepers]).toEqual([0, 0]);
  });

  test("an agent inside a call is cancelled with its call, and its usage is counted once", async () => {
    const [started, work] = [deferred<void>(), deferred<string>()];
    const save = plain("save", () => {
      started.resolve();
      return work.promise;
    });
    const usage = { inputTokens: 10, outputTokens: 1 };
    const { clock, engine: inner } = playing([], [save]);
    const adapter = fake({ scripts: [calls("save"), says("never")], usage, clock });
    const agent = agentTool({ name: "agent", description: "Works.", engine: { ...inner, adapter } });
    const of = playing([[{ type: "tool_call", id: "c0", name: "agent", arguments: { task: "Save." } }]], [agent]);
    const controller = new AbortController();
    const result = chat(of.engine, "hi", { signal: controller.signal });
    await started.promise;
    controller.abort("enough");
    work.resolve("saved");
    const ended = await result;
    expect(answersOf(ended)).toEqual([cancelledAnswer]);
    expect(ended.usage.inputTokens).toBe(10);
  });

  test("an afterStep hook that rejects after the abort does not reject anything else", async () => {
    const work = deferred<string>();
    const { result, abort } = running([plain("save", () => work.promise)], {
      hooks: { afterStep: () => Promise.reject(new Error("late")) },
    });
    await abort();
    work.resolve("saved");
    expect(answersOf(await result)).toEqual([["success", "saved"]]);
  });
});
