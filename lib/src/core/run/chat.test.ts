// Options of a run: limits, budgets, retries, fallback models, structured output, input between steps, code cells,
// telemetry.

import type { CellResult } from "../engine/internal.ts";
import type { FakeScript, ChatOptions } from "everturn";
import type { CodeExecutor, TelemetryEvent } from "everturn/advanced";

import {
  chat,
  engine,
  fake,
  generate,
  step,
  stream,
  streamGenerate,
  subscribe,
  tool,
  configure,
  messageText,
  modelRef,
  user,
} from "everturn";
import { quickjs } from "everturn/quickjs";
import { transcript } from "everturn/testing";
import { describe, expect, test } from "vitest";
import { z } from "zod";

import { calls, plain, playing, says } from "../../../test/runs.ts";

const ok = plain("ok", () => "fine");
const loops = (n: number) => Array.from({ length: n }, () => calls("ok"));

describe("[allm 40] [allm 63] maxTurns", () => {
  test("is set by the call, the engine or configure, and is 8 by default", async () => {
    const taken = async (options: ChatOptions, params: { maxTurns?: number } = {}) =>
      (await chat(playing(loops(12), [ok], { params }).engine, "hi", options)).steps.length;
    expect(await taken({})).toBe(8);
    expect(await taken({}, { maxTurns: 3 })).toBe(3);
    expect(await taken({ maxTurns: 2 }, { maxTurns: 3 })).toBe(2);
    const before = configure({ maxTurns: 5 });
    expect(await taken({})).toBe(5);
    configure(before);
  });

  test.each([0, -1, 1.5, Number.NaN])("rejects %d", async (maxTurns) => {
    await expect(chat(playing([]).engine, "hi", { maxTurns })).rejects.toThrow(
      /maxTurns must be a whole number of 1 or more/,
    );
  });

  test("keeps the work done, and the result names the limit", async () => {
    const result = await chat(playing(loops(3), [ok]).engine, "hi", { maxTurns: 1 });
    expect(result).toMatchObject({ haltedReason: "max_turns", metadata: { maxTurns: 1 } });
    expect(result.thread.messages.at(-1)).toMatchObject({ role: "tool", content: "fine" });
  });
});

describe("[allm 62] [allm 64] haltWhen", () => {
  test("ends the run after the step for which it returns true, if nothing else ended it", async () => {
    const { engine: of } = playing(loops(5), [ok]);
    const result = await chat(of, "hi", { haltWhen: ({ thread }) => thread.messages.length > 4 });
    expect(result).toMatchObject({ haltedReason: "halt_when", metadata: { haltWhenStepIndex: 1 } });
    let haltWhenCalls = 0;
    await chat(playing([says("Done.")]).engine, "hi", { haltWhen: () => ((haltWhenCalls += 1), true) });
    expect(haltWhenCalls).toBe(0);
  });

  test("that throws rejects the run, awaited and streamed", async () => {
    const haltWhen = () => {
      throw new RangeError("mine");
    };
    await expect(chat(playing(loops(2), [ok]).engine, "hi", { haltWhen })).rejects.toThrow(new RangeError("mine"));
    await expect(transcript(stream(playing(loops(2), [ok]).engine, "hi", { haltWhen }))).rejects.toThrow("mine");
  });
});

describe("[lash 45] budgets", () => {
  const priced = modelRef({ id: "m", pricing: { input: 10, output: 10, cacheRead: null, cacheWrite: null } });
  const spending = () => {
    const adapter = fake({ scripts: loops(9), usage: { inputTokens: 60_000, outputTokens: 40_000 } });
    return engine({ adapter, tools: [ok], model: priced });
  };

  test.each([
    ["steps", { steps: 2 }, 2],
    ["tokens", { tokens: 300_000 }, 3],
    ["cost", { cost: 1.5 }, 2],
  ] as const)("of %s end a run that would continue", async (budget, budgets, steps) => {
    const result = await chat(spending(), "hi", { budgets });
    expect(result).toMatchObject({ haltedReason: "budget", metadata: { budget } });
    expect(result.steps).toHaveLength(steps);
  });

  test("of time count the duration of effects", async () => {
    const { engine: of, clock } = playing(loops(9), [plain("ok", () => clock.sleep(1000).then(() => "fine"))]);
    const result = chat(of, "hi", { budgets: { timeMs: 2500 } });
    await clock.advance(10_000);
    expect((await result).metadata).toEqual({ budget: "time" });
    expect((await result).steps).toHaveLength(3);
  });

  test("of progress count model calls since the last successful tool", async () => {
    const { engine: of } = playing(
      Array.from({ length: 9 }, () => calls("bad")),
      [plain("bad", () => Promise.reject(new Error("no")))],
    );
    expect((await chat(of, "hi", { budgets: { noProgress: 3 } })).steps).toHaveLength(3);
  });

  test.each([
    ["tokens", { tokens: 1e9 }, {}],
    ["tokens", { tokens: 1e9 }, { inputTokens: 10 }],
    ["tokens", { tokens: 1e9 }, { inputTokens: 0, outputTokens: 0 }],
    ["cost", { cost: 1e9 }, {}],
    ["cost", { cost: 1e9 }, { totalCost: -1e9 }],
  ] as const)(
    "of %s end a run after a reply whose usage is unknown or negative: %j, %j",
    async (budget, budgets, usage) => {
      const adapter = fake({ scripts: loops(9).map((script) => [...script, { type: "usage", usage }]) });
      const result = await chat(engine({ adapter, tools: [ok], model: priced }), "hi", { budgets });
      expect(result).toMatchObject({ haltedReason: "budget", metadata: { budget } });
      expect(result.steps).toHaveLength(1);
    },
  );

  test("of cost count no negative cost that a provider reports: the price of the tokens applies", async () => {
    const usage = { inputTokens: 60_000, outputTokens: 40_000, inputCost: -9, outputCost: -9, totalCost: -18 };
    const adapter = fake({ scripts: loops(9), usage });
    const result = await chat(engine({ adapter, tools: [ok], model: priced }), "hi", { budgets: { cost: 1.5 } });
    expect(result.steps).toHaveLength(2);
    expect(result.usage.totalCost).toBe(2);
  });

  test("do not discard an answer, whatever it cost", async () => {
    const adapter = fake({ script: says("Done."), usage: { inputTokens: 9, outputTokens: 9 } });
    expect((await chat(engine({ adapter }), "hi", { budgets: { tokens: 1 } })).haltedReason).toBe("completed");
  });

  test("leave input for the next run if no step may follow the answer", async () => {
    const adapter = fake({ script: says("Done."), usage: { inputTokens: 9, outputTokens: 9 } });
    const checkpoints: string[] = [];
    const result = await chat(engine({ adapter }), "hi", {
      budgets: { tokens: 1 },
      onCheckpoint: ({ checkpoint }) => {
        checkpoints.push(checkpoint);
        return { messages: [user("and?")] };
      },
    });
    expect(result.thread.messages.map(messageText)).toEqual(["hi", "Done."]);
    expect(checkpoints).toEqual([]);
  });

  test("Q12: a cost budget with an unknown price throws at the start", async () => {
    await expect(chat(playing([]).engine, "hi", { budgets: { cost: 1 } })).rejects.toMatchObject({
      reason: "unknown_price",
    });
    const mixed = engine({ adapter: fake(), model: priced, fallback: ["unpriced"] });
    await expect(chat(mixed, "hi", { budgets: { cost: 1 } })).rejects.toThrow(/unpriced/);
  });
});

describe("[allm 121] G2: a failed model call is retried until output was published", () => {
  const flaky = (before: number, rest: object = {}) => {
    const playingIt = playing([]);
    const adapter = fake({ scripts: [says("Hello.")], retryUntilCall: before + 1, clock: playingIt.clock });
    return { ...playingIt, adapter, engine: engine({ adapter, clock: playingIt.clock, ...rest }) };
  };

  test("with a delay before each retry, which is announced", async () => {
    const { engine: of, clock, adapter } = flaky(2);
    const lines = transcript(streamGenerate(of, "hi"));
    await clock.advance(499);
    expect(adapter.calls).toHaveLength(1);
    await clock.advance(1);
    expect(adapter.calls).toHaveLength(2);
    await clock.advance(1000);
    expect(await lines).toEqual([
      "message_started",
      "retry_scheduled 500 ms",
      "step_reset retry",
      "message_started",
      "retry_scheduled 1000 ms",
      "step_reset retry",
      "message_started",
      'text_delta "Hello."',
      'text_completed "Hello."',
      "message_completed stop",
    ]);
  });

  test("[lash 90] waits at most maxDelayMs, however long the provider asks to wait", async () => {
    // Ten thousand million seconds: 317 years.
    const limited = { type: "error", reason: "rate_limited", retryAfterMs: 1e13 } as const;
    const { engine: of, clock } = playing([[limited], says("Hello.")]);
    const lines = transcript(streamGenerate(of, "hi"));
    await clock.advance(30_000);
    expect(await lines).toContain("retry_scheduled 30000 ms");
    const strict = playing([[limited], says("Hello.")], [], { retry: { maxDelayMs: 100 } });
    const reply = generate(strict.engine, "hi");
    await strict.clock.advance(100);
    expect((await reply).outputText).toBe("Hello.");
  });

  test("waits at most for what is left of the time budget, and does not retry after it", async () => {
    const limited = { type: "error", reason: "rate_limited", retryAfterMs: 1e13 } as const;
    const { engine: of, clock, adapter } = playing([[limited], [limited], says("Hello.")]);
    const result = chat(of, "hi", { budgets: { timeMs: 1000 } });
    await clock.advance(1000);
    expect(await result).toMatchObject({ haltedReason: "error", outcome: { failure: { reason: "rate_limited" } } });
    expect(adapter.calls).toHaveLength(2);
  });

  test("up to maxAttempts, and then fails", async () => {
    const { engine: of, clock } = flaky(3);
    const reply = generate(of, "hi");
    await clock.advance(60_000);
    expect(await reply).toMatchObject({ finishReason: "error", error: { reason: "timeout" } });
    const once = flaky(1, { retry: false });
    expect((await generate(once.engine, "hi")).error).toMatchObject({ reason: "timeout" });
  });

  test("[lash 90] not after output was published, unless afterOutput is set; then the output is withdrawn", async () => {
    const scripts = () => [
      [
        { type: "text", text: "Hel" },
        { type: "error", reason: "provider_unavailable" },
      ] as const,
      says("Hello."),
    ];
    expect((await generate(playing(scripts()).engine, "hi")).error).toMatchObject({ reason: "provider_unavailable" });
    const again = playing(scripts(), [], { retry: { afterOutput: true } });
    const lines = transcript(streamGenerate(again.engine, "hi"));
    await again.clock.advance(500);
    expect(await lines).toContain("step_reset retry");
    const folded = playing(scripts(), [], { retry: { afterOutput: true } });
    const reply = generate(folded.engine, "hi");
    await folded.clock.advance(500);
    expect(await reply).toMatchObject({ outputText: "Hello.", error: null });
  });

  test("counts the usage of earlier attempts", async () => {
    const scripts = [
      [
        { type: "usage", usage: { inputTokens: 100 } },
        { type: "error", reason: "timeout" },
      ] as const,
      [
        { type: "text", text: "Hello." },
        { type: "usage", usage: { inputTokens: 10 } },
      ] as const,
    ];
    const { engine: of, clock } = playing(scripts);
    const result = chat(of, "hi");
    await clock.advance(500);
    expect((await result).usage.inputTokens).toBe(110);
    expect((await result).finalResponse?.usage.inputTokens).toBe(10);
    expect((await result).steps[0]?.usage.inputTokens).toBe(110);
  });

  test("and a cancel ends the delay", async () => {
    const { engine: of, clock } = flaky(2);
    const controller = new AbortController();
    const result = chat(of, "hi", { signal: controller.signal });
    await clock.advance(1);
    controller.abort();
    expect((await result).haltedReason).toBe("cancelled");
  });
});

describe("fallback models", () => {
  test("are asked when the model before fails; its output is withdrawn; the model that answered stays", async () => {
    const scripts = [
      [
        { type: "text", text: "Hel" },
        { type: "error", reason: "content_filter" },
      ] as const,
      calls("ok"),
      says("Done."),
    ];
    const { engine: of, adapter } = playing(scripts, [ok], { fallback: ["second", "third"] });
    const lines = await transcript(stream(of, "hi"));
    expect(lines).toContain("step_reset fallback");
    expect(lines.at(-1)).toBe("chat_completed completed");
    expect(adapter.calls.map(({ request }) => request.model)).toEqual(["fake:m", "second", "second"]);
  });

  test("may belong to another provider, and when none answers the last failure is reported", async () => {
    const other = fake({
      provider: "other",
      script: [{ type: "error", reason: "invalid_request", message: "other too" }],
    });
    const { engine: of } = playing([[{ type: "error", reason: "invalid_request" }]], [], {
      fallback: [{ adapter: other, model: "o1" }],
    });
    expect((await chat(of, "hi")).metadata.error).toMatchObject({ message: "other too" });
    expect(other.calls[0]?.request.model).toBe("o1");
  });

  const refuses = [{ type: "error", reason: "invalid_request" }] as const;
  const modelsCalled = ({ calls: modelCalls }: ReturnType<typeof fake>) =>
    modelCalls.map(({ request }) => request.model);
  const elsewhere = (provider: string, ...scripts: readonly FakeScript[]) => fake({ provider, scripts });

  test("Q7: the adapter that answered stays with its model, for later steps and for the structured call", async () => {
    const other = elsewhere("other", calls("ok"), calls("ok"), says("Done."), says('{"sky":"clear"}'));
    const { engine: of, adapter } = playing([refuses], [ok], { fallback: [{ adapter: other, model: "o1" }] });
    const output = z.object({ sky: z.string() });
    const result = await chat(of, "hi", { output, structuredFinalize: true });
    expect(result.output).toEqual({ sky: "clear" });
    expect([modelsCalled(adapter), modelsCalled(other)]).toEqual([["fake:m"], ["o1", "o1", "o1", "o1"]]);
  });

  test("Q7: the adapter that answered stays when its model has the same name as the engine's, or as another fallback's", async () => {
    const [first, second] = [elsewhere("first", refuses), elsewhere("second", calls("ok"), says("Done."))];
    const fallback = [first, second].map((one) => ({ adapter: one, model: "fake:m" }));
    const { engine: of, adapter } = playing([refuses], [ok], { fallback });
    expect((await chat(of, "hi")).haltedReason).toBe("completed");
    expect([adapter, first, second].map(({ calls: modelCalls }) => modelCalls.length)).toEqual([1, 1, 2]);
  });

  test("Q7: a model that prepareStep selects after a fallback is modelsCalled of the engine's own adapter", async () => {
    const other = elsewhere("other", calls("ok"));
    const { engine: of, adapter } = playing([refuses, says("Done.")], [ok], {
      fallback: [{ adapter: other, model: "o1" }],
    });
    await chat(of, "hi", { prepareStep: ({ step: at }) => (at === 0 ? null : { model: "fake:n" }) });
    expect([modelsCalled(adapter), modelsCalled(other)]).toEqual([["fake:m", "fake:n"], ["o1"]]);
  });
});

test("Q7: each new attempt, by retry, fallback or repair, starts with step_reset, before its message_started", async () => {
  const breaks: FakeScript = [
    { type: "text", text: "Hel" },
    { type: "error", reason: "provider_unavailable" },
  ];
  const scripts = [breaks, breaks, says("no JSON"), says('{"sky":"clear"}')];
  const retry = { afterOutput: true, maxAttempts: 2, baseDelayMs: 0, maxDelayMs: 0 };
  const { engine: of, clock } = playing(scripts, [], { retry, fallback: ["second"] });
  const lines = transcript(stream(of, "hi", { output: z.object({ sky: z.string() }), repair: 1 }));
  await clock.advance(0);
  expect((await lines).filter((line) => /^(?:message_started|step_reset)/.test(line))).toEqual([
    "message_started",
    "step_reset retry",
    "message_started",
    "step_reset fallback",
    "message_started",
    "step_reset retry",
    "message_started",
  ]);
});

describe("structured output", () => {
  const sky = z.object({ sky: z.enum(["clear", "cloudy"]) });

  test("is typed, on every verb", async () => {
    const clear = () => playing([says('{"sky":"clear"}')]).engine;
    expect((await generate(clear(), "hi", { output: sky })).output?.sky).toBe("clear");
    expect((await step(clear(), "hi", { output: sky })).output?.sky).toBe("clear");
    expect((await chat(clear(), "hi", { output: sky })).output?.sky).toBe("clear");
  });

  test("is requested as JSON Schema", async () => {
    const { engine: of, adapter } = playing([says('{"sky":"clear"}')]);
    await chat(of, "hi", { output: sky });
    expect(adapter.calls[0]?.request.responseFormat).toMatchObject({
      type: "json_schema",
      name: "output",
      strict: true,
    });
  });

  test.each([
    ["does not fit", '{"sky":"green"}', "sky"],
    ["is no JSON", "it is clear", ""],
  ])("that %s is a failure with its issues, and the text is kept", async (_, text, path) => {
    const result = await chat(playing([says(text)]).engine, "hi", { output: sky });
    expect(result).toMatchObject({
      haltedReason: "error",
      output: null,
      metadata: { error: { reason: "invalid_output" } },
    });
    const { error } = result.metadata;
    expect(error?.type === "validation_error" ? error.issues.map((issue) => issue.path.join(".")) : null).toEqual([
      path,
    ]);
    expect(result.thread.messages.at(-1)?.content).toBe(text);
  });

  test("can be repaired: the model reads the issues, and its first output is withdrawn", async () => {
    const { engine: of, adapter } = playing([says('{"sky":"green"}'), says('{"sky":"clear"}')]);
    const result = await chat(of, "hi", { output: sky, repair: 1 });
    expect(result.output?.sky).toBe("clear");
    expect(result.thread.messages.map(messageText)).toEqual(["hi", '{"sky":"clear"}']);
    expect(adapter.calls[1]?.request.messages.map(messageText).at(-1)).toMatch(
      /^The answer does not match the schema: sky: /,
    );
  });

  describe("[allm 68] [allm 69] with a structured call after the loop", () => {
    const finalizing: ChatOptions = { output: sky, structuredFinalize: true };

    test("has no tools, is asked for by a nudge, and is part of the same run", async () => {
      const { engine: of, adapter } = playing([calls("ok"), says("It is clear."), says('{"sky":"clear"}')], [ok]);
      const lines = await transcript(stream(of, "hi", finalizing));
      expect(lines.filter((entry) => entry.startsWith("chat_completed"))).toHaveLength(1);
      expect(lines.filter((entry) => entry.startsWith("step_completed"))).toHaveLength(3);
      expect(adapter.calls.map(({ request }) => [request.tools.length, request.responseFormat === null])).toEqual([
        [1, true],
        [1, true],
        [0, false],
      ]);
      expect(adapter.calls[2]?.request.messages.map(messageText).at(-1)).toBe(
        "Now provide your final structured response.",
      );
    });

    test("has the output of the second call, and reports how the loop ended", async () => {
      const run = (options: ChatOptions, scripts = [says("It is clear."), says('{"sky":"clear"}')]) =>
        chat(playing(scripts, [ok]).engine, "hi", { ...finalizing, ...options });
      expect(await run({})).toMatchObject({
        haltedReason: "completed",
        metadata: { structuredFinalize: { pass1Halted: "completed", pass2Error: null } },
      });
      const { messages } = (await run({ structuredFinalizeNudge: "JSON!" })).thread;
      expect(messages.map((message) => `${message.role} ${messageText(message)}`)).toEqual([
        "user hi",
        "assistant It is clear.",
        "user JSON!",
        'assistant {"sky":"clear"}',
      ]);
      expect((await run({ structuredFinalizeNudge: "" })).thread.messages).toHaveLength(3);
      const limited = await run({ maxTurns: 1 }, [calls("ok"), says('{"sky":"clear"}')]);
      expect(limited.metadata.structuredFinalize).toMatchObject({ pass1Halted: "max_turns" });
    });

    test("G11: a second call that fails leaves the result of the loop, awaited and streamed", async () => {
      const scripts = [says("It is clear."), [{ type: "error", reason: "invalid_request" }] as const];
      const result = await chat(playing(scripts).engine, "hi", finalizing);
      expect(result).toMatchObject({
        haltedReason: "completed",
        metadata: { structuredFinalize: { pass1Halted: "completed", pass2Error: { reason: "invalid_request" } } },
      });
      expect(result.thread.messages.map(messageText)).toEqual(["hi", "It is clear."]);
    });

    test("takes the response format json_object too, and refuses text", async () => {
      const { engine: of, adapter } = playing([says("It is clear."), says('{"sky":"clear"}')], [ok]);
      const result = await chat(of, "hi", { responseFormat: { type: "json_object" }, structuredFinalize: true });
      expect(result).toMatchObject({ haltedReason: "completed", finalResponse: { outputText: '{"sky":"clear"}' } });
      expect(adapter.calls.map(({ request }) => [request.tools.length, request.responseFormat])).toEqual([
        [1, null],
        [0, { type: "json_object" }],
      ]);
      const text: ChatOptions = { responseFormat: { type: "text" }, structuredFinalize: true };
      await expect(chat(of, "hi", text)).rejects.toMatchObject({
        failure: { issues: [{ code: "requires_json_schema" }] },
      });
    });

    test("is not made when the run waits, and not without a schema", async () => {
      const own = { ...plain("own"), manual: true };
      const result = await chat(playing([calls("own")], [own]).engine, "hi", finalizing);
      expect(result).toMatchObject({
        haltedReason: "manual_tool_calls",
        metadata: { structuredFinalize: { pass1Halted: "manual_tool_calls" } },
      });
      await expect(chat(playing([]).engine, "hi", { structuredFinalize: true })).rejects.toMatchObject({
        failure: { issues: [{ code: "requires_json_schema" }] },
      });
    });
  });

  test("G13: an adapter that needs it gets the structured call without the option", async () => {
    const { adapter, engine: of } = playing([says("It is clear."), says('{"sky":"clear"}')], [ok]);
    const limited = { ...of, adapter: { ...adapter, needsFinalize: () => true } };
    expect((await chat(limited, "hi", { output: sky })).output?.sky).toBe("clear");
  });
});

describe("between steps", () => {
  test("prepareStep changes the environment of the next step", async () => {
    const other = plain("other", () => 1);
    const { engine: of, adapter } = playing([calls("ok"), says("Done.")], [ok, other], { instructions: "First." });
    await chat(of, "hi", {
      prepareStep: ({ step: at }) =>
        at === 1 ? { model: "m2", instructions: "Then.", tools: ["other"], params: { temperature: 1 } } : null,
    });
    expect(adapter.calls[1]?.request).toMatchObject({
      model: "m2",
      tools: [{ name: "other" }],
      temperature: 1,
      messages: [{ content: "Then." }, {}, {}, {}],
    });
  });

  test("prepareStep is called before every step, the first one included", async () => {
    const { engine: of, adapter } = playing([calls("ok"), says("Done.")], [ok], { instructions: "First." });
    const steps: number[] = [];
    await chat(of, "hi", {
      prepareStep: ({ step: at }) => {
        steps.push(at);
        return at === 0 ? { model: "m0", instructions: "Zero." } : null;
      },
    });
    expect(steps).toEqual([0, 1]);
    expect(adapter.calls[0]?.request).toMatchObject({ model: "m0", messages: [{ content: "Zero." }, {}] });
  });

  test("prepareStep that names an unknown tool rejects the run", async () => {
    const { engine: of } = playing([calls("ok"), says("Done.")], [ok]);
    await expect(chat(of, "hi", { prepareStep: () => ({ tools: ["missing"] }) })).rejects.toThrow(/no tool "missing"/);
  });

  test("onCheckpoint adds input between steps, and after an answer", async () => {
    const { engine: of, adapter } = playing([says("A"), says("B")]);
    let said = false;
    const result = await chat(of, "hi", {
      onCheckpoint: ({ checkpoint }) => {
        if (said || checkpoint !== "before_completion") return null;
        said = true;
        return { messages: [user("and?")] };
      },
    });
    expect(result.thread.messages.map(messageText)).toEqual(["hi", "A", "and?", "B"]);
    expect(adapter.remaining).toBe(0);
  });
});

describe("code cells", () => {
  /** A scripted executor: one result for each run. */
  const scripted = (...results: readonly CellResult[]) => {
    const seen: number[] = [];
    const executor: CodeExecutor = {
      name: "scripted",
      version: "1",
      language: "javascript",
      run: ({ calls: made }) => {
        seen.push(made.length);
        return Promise.resolve(results[seen.length - 1] ?? { type: "failed", reason: "failed", message: "no more" });
      },
    };
    return { executor, seen };
  };
  const cell = says("```js\nawait ok()\n```");

  test("run, call tools, and end the run with a checked value", async () => {
    const { executor, seen } = scripted(
      { type: "calls", calls: [{ name: "ok", arguments: {} }] },
      { type: "finished", observations: ["fine"], error: null, finish: { type: "value", value: "x" } },
      { type: "finished", observations: [], error: null, finish: { type: "value", value: 2 } },
    );
    const { engine: of } = playing([cell, cell], [ok], { protocol: { type: "code", executor, finish: z.number() } });
    const lines = await transcript(stream(of, "hi"));
    expect(seen).toEqual([0, 1, 0]);
    expect(lines.filter((entry) => entry.startsWith("tool_execution"))).toHaveLength(2);
    expect(lines.at(-1)).toBe("chat_completed completed");
  });

  test("that make a call which needs an approval are suspended as data", async () => {
    const { executor } = scripted({ type: "calls", calls: [{ name: "pay", arguments: { n: 1 } }] });
    const pay = { ...plain("pay", () => "paid"), manual: true };
    const { engine: of } = playing([cell], [pay], { protocol: { type: "code", executor } });
    const result = await chat(of, "hi");
    expect(result).toMatchObject({
      haltedReason: "manual_tool_calls",
      suspendedCell: { code: "await ok()", executor: { name: "scripted" }, calls: [{ answer: null }] },
      pendingToolCalls: [{ name: "pay" }],
    });
  });
});

describe("[allm 116] telemetry", () => {
  test("has spans of the run, its model calls and its tools with their durations, under one request id", async () => {
    const seen: TelemetryEvent[] = [];
    const stop = subscribe((event) => seen.push(event));
    const { engine: of } = playing([calls("ok"), says("Done.")], [ok]);
    const events = stream(of, "hi", { requestId: "r1" });
    expect(seen).toEqual([]);
    await transcript(events);
    stop();
    const spanEvents = seen.flatMap((event) => ("name" in event ? [`${event.type} ${event.name}`] : []));
    expect(spanEvents).toEqual([
      "start chat",
      "start model",
      "stop model",
      "start tool",
      "stop tool",
      "start model",
      "stop model",
      "stop chat",
    ]);
    expect(new Set(seen.map(({ requestId }) => requestId))).toEqual(new Set(["r1"]));
  });

  test("reports retries and rejected runs", async () => {
    const seen: string[] = [];
    const stop = subscribe(({ type }) => seen.push(type));
    const { engine: of, clock } = playing([[{ type: "error", reason: "timeout" }], says("ok")]);
    const reply = generate(of, "hi");
    await clock.advance(500);
    await reply;
    await generate(playing([]).engine, "hi").catch(() => null);
    stop();
    expect(seen).toContain("retry");
    expect(seen.at(-1)).toBe("exception");
  });
});

describe("code in the QuickJS sandbox", () => {
  const cell = (code: string) => says(`\`\`\`js\n${code}\n\`\`\``);
  const sky = tool({
    name: "sky",
    description: "Tells the sky over a city.",
    schema: z.object({ city: z.string() }),
    handler: ({ city }) => (city === "Rome" ? "clear" : "cloudy"),
  });

  test("calls tools in parallel, continues with their results, and ends with a value that matches the schema", async () => {
    const protocol = { type: "code", executor: quickjs(), finish: z.object({ clear: z.array(z.string()) }) } as const;
    const looks = `
      const cities = ["Rome", "Oslo"];
      const skies = await Promise.all(cities.map((city) => sky({ city })));
      print(skies.join());
      finish({ clear: cities.filter((_, index) => skies[index] === "clear") });`;
    const { engine: of } = playing([cell("finish({ wrong: true })"), cell(looks)], [sky], { protocol });
    const result = await chat(of, "Where is it clear?");
    expect(result.outcome).toEqual({ type: "final_value", value: { clear: ["Rome"] } });
    expect(result.thread.messages.map(messageText).join("\n")).toMatch(/does not match the schema: clear/);
  });

  test("is stopped by its limits, and the model reads why", async () => {
    const protocol = { type: "code", executor: quickjs(), limits: { instructions: 100_000 } } as const;
    const { engine: of } = playing([cell("for (;;);"), says("I give up.")], [], { protocol });
    const { thread, haltedReason } = await chat(of, "Loop.");
    expect(haltedReason).toBe("completed");
    expect(messageText(thread.messages[2] ?? user(""))).toContain("instructions");
  });
});
