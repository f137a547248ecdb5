import { chat, engine, fake, generate, streamGenerate, tool } from "everturn";
import {
  configure,
  describeEngine,
  mergeOpts,
  putContext,
  putParam,
  putTool,
  putTools,
  resolveModel,
  resolveParams,
  resolveTools,
  restoreEngine,
  withModel,
} from "everturn/engine";
import { adapterFailure, imageFromUrl, imagePart, modelRef, textPart, usage, user } from "everturn/model";
import { handClock } from "everturn/testing";
import { describe, expect, test } from "vitest";

import { withCosts } from "./model-call/pricing.ts";
import { defaultRetryPolicy, delayBefore, isRetryable, retryPolicy } from "./model-call/retry.ts";

const named = (name: string, description = name) => tool({ name, description, schema: { type: "object" } });

describe("[allm 35] an engine", () => {
  test("has a default for everything, its adapter included", () => {
    expect(engine()).toMatchObject({
      adapter: null,
      imageAdapter: null,
      model: null,
      tools: [],
      params: {},
      context: {},
      adapterOptions: {},
      retry: "default",
      fallback: [],
      middleware: [],
      metadata: {},
    });
  });

  test("refuses a word it does not know, from callers without a compiler too", () => {
    const fields: object = { modle: "m" };
    expect(() => engine({ ...fields })).toThrow(/"modle" is no part of an engine/);
  });

  test("[allm 41] never holds a key, wherever it is put", () => {
    for (const fields of [
      { params: { apiKey: "sk-1" } },
      { adapterOptions: { headers: { authorization: "Bearer x" } } },
    ]) {
      expect(() => engine(fields)).toThrow(/credential|key/i);
    }
    expect(() => engine({ params: { apiKey: "sk-secret" } })).not.toThrow(/sk-secret/);
  });

  test("refuses a retry policy with a word nobody knows", () => {
    const retry: object = { maxTries: 3 };
    expect(() => engine({ retry: { ...retry } })).toThrow(/"maxTries" is no part of a retry policy/);
  });
});

describe("[allm 36] its helpers", () => {
  test("add without looking, and change nothing of what they were given", () => {
    const before = engine({ model: "old" });
    const after = putParam(
      putContext(putTools(putTool(before, named("a")), [named("b"), named("a")]), "userId", 42),
      "temperature",
      0.7,
    );
    expect(after.tools.map(({ name }) => name)).toEqual(["a", "b", "a"]);
    expect(after.context.userId).toBe(42);
    expect(after.params).toEqual({ temperature: 0.7 });
    expect(before.tools).toEqual([]);
    expect(withModel(before, "new").model).toBe("new");
  });

  test("merge what a call would use, and leave out what is not theirs", () => {
    const stranger: object = { haltWhen: () => true };
    const merged = mergeOpts(putTool(engine({ model: "old", params: { topP: 1 } }), named("a")), {
      ...stranger,
      model: "new",
      tools: [named("b")],
      params: { temperature: 0.9 },
    });
    expect(merged).toMatchObject({ model: "new", params: { topP: 1, temperature: 0.9 } });
    expect(merged.tools.map(({ name }) => name)).toEqual(["a", "b"]);
    expect("haltWhen" in merged).toBe(false);
  });
});

describe("resolving", () => {
  test("[allm 37] tools: those of the call in place of their namesakes, the others behind", () => {
    const of = putTools(engine(), [named("a"), named("b"), named("c")]);
    const resolved = resolveTools(of, { tools: [named("b", "another"), named("d")] });
    expect(resolved.map(({ name, description }) => `${name} ${description}`)).toEqual([
      "a a",
      "b another",
      "c c",
      "d d",
    ]);
    expect(resolveTools(of, { tools: [] })).toHaveLength(3);
  });

  test("[allm 38] params: an engine's own words never, any other word always", () => {
    const of = engine({ params: { temperature: 0.2, top_p: 1 } });
    const own = [
      "adapter",
      "adapterOptions",
      "model",
      "tools",
      "toolExecutor",
      "toolResultEncoder",
      "imageAdapter",
      "params",
    ];
    const more = ["context", "retry", "middleware", "metadata", "apiKey"];
    const given = Object.fromEntries([...own, ...more].map((name) => [name, "x"]));
    expect(resolveParams(of, { ...given, temperature: 0.7, reasoning_effort: "high" })).toEqual({
      temperature: 0.7,
      top_p: 1,
      reasoning_effort: "high",
    });
  });

  test("a model: the call's, or the engine's, whatever it is called", () => {
    const known = modelRef({ provider: "openai", id: "gpt-x" });
    expect(resolveModel(engine({ model: "m" }), {})).toBe("m");
    expect(resolveModel(engine({ model: "m" }), { model: "other" })).toBe("other");
    expect(resolveModel(engine({ model: known }), {})).toBe(known);
  });
});

describe("[allm 104] retry", () => {
  const failure = adapterFailure("rate_limited", { status: 429 });

  test("settings become a policy", () => {
    expect(retryPolicy("default")).toEqual(defaultRetryPolicy);
    expect(retryPolicy({})).toEqual(defaultRetryPolicy);
    expect(retryPolicy(false).maxAttempts).toBe(1);
    expect(retryPolicy({ maxAttempts: 0 }).maxAttempts).toBe(1);
    expect(retryPolicy({ maxAttempts: 5 })).toEqual({ ...defaultRetryPolicy, maxAttempts: 5 });
  });

  test("waits twice as long each time, at most so long, or as long as it was asked to", () => {
    const waits = [1, 2, 3, 4, 8].map((attempt) => delayBefore(defaultRetryPolicy, attempt, failure, 0));
    expect(waits).toEqual([500, 1000, 2000, 4000, 30_000]);
    expect(delayBefore(defaultRetryPolicy, 1, failure, 0.999)).toBe(750);
    expect(delayBefore(defaultRetryPolicy, 1, { ...failure, retryAfterMs: 7000 }, 0)).toBe(7000);
    expect(
      delayBefore({ ...defaultRetryPolicy, respectRetryAfter: false }, 1, { ...failure, retryAfterMs: 7000 }, 0),
    ).toBe(500);
  });

  test("is for failures that may pass, or for those the caller names", () => {
    expect(isRetryable(defaultRetryPolicy, failure)).toBe(true);
    expect(isRetryable(defaultRetryPolicy, adapterFailure("invalid_request"))).toBe(false);
    expect(isRetryable({ ...defaultRetryPolicy, retryOn: [503, "timeout"] }, failure)).toBe(false);
    expect(isRetryable({ ...defaultRetryPolicy, retryOn: [503, "timeout"] }, adapterFailure("timeout"))).toBe(true);
  });
});

test("costs are filled in where a price is known, cached tokens at their own", () => {
  const priced = modelRef({ id: "m", pricing: { input: 2, output: 10, cacheRead: 0.2, cacheWrite: null } });
  const spent = usage({ inputTokens: 1_000_000, cachedInputTokens: 500_000, outputTokens: 100_000 });
  expect(withCosts(spent, priced)).toMatchObject({ inputCost: 1.1, outputCost: 1, totalCost: 2.1 });
  expect(withCosts({ ...spent, inputCost: 9 }, priced)).toMatchObject({ inputCost: 9, totalCost: 10 });
  expect(withCosts(spent, "m")).toBe(spent);
});

test("a program's defaults can be changed and put back", () => {
  const before = configure({ maxTurns: 3 });
  expect(before.maxTurns).toBe(8);
  expect(configure(before).maxTurns).toBe(3);
});

describe("[allm 90] an engine as JSON", () => {
  const weather = named("weather");
  const adapter = fake();
  const whole = engine({
    adapter,
    model: modelRef({ provider: "fake", id: "m" }),
    instructions: "Be brief.",
    tools: [weather],
    params: { temperature: 0.2 },
    fallback: ["second", { adapter, model: "third" }],
    options: { maxTurns: 3, mode: "manual" },
    retry: { maxAttempts: 2 },
  });
  const registry = { adapters: [adapter], tools: [weather] };

  test("is described, and restored from what it names", () => {
    const described = JSON.parse(JSON.stringify(describeEngine(whole)));
    expect(described).toMatchObject({ adapter: "fake", tools: ["weather"], options: { maxTurns: 3 } });
    expect(restoreEngine(described, registry)).toEqual(whole);
  });

  test("cannot hold a function, and says where one is", () => {
    const halting = engine({ options: { haltWhen: () => true } });
    expect(() => describeEngine(halting)).toThrow(/cannot be described: options is not JSON/);
  });

  test("says what the registry lacks", () => {
    const described = describeEngine(whole);
    expect(() => restoreEngine(described, { tools: [weather] })).toThrow(/no adapter "fake"; it has none/);
    expect(() => restoreEngine(described, { adapters: [adapter] })).toThrow(/no tool "weather"/);
  });
});

describe("[allm 117] what a model is known not to do", () => {
  const blind = { tools: false, jsonNative: false, vision: false, parallelTools: null, reasoning: null, files: null };
  const capabilities = { ...blind, imagesEnabled: null, supportedImageOperations: null };
  const known = modelRef({ id: "small", capabilities });

  test("is refused before anything is asked, all of it at once", async () => {
    const seen = user([textPart("look"), imagePart(imageFromUrl("https://example.com/a.png"))]);
    const of = engine({ adapter: fake(), model: known, tools: [named("a")] });
    await expect(chat(of, [seen], { output: { type: "object" } })).rejects.toMatchObject({
      reason: "unsupported_capability",
      failure: { issues: [{ code: "tools_disabled" }, { code: "json_native_disabled" }, { code: "vision_disabled" }] },
    });
  });

  test("what nobody knows is no reason", async () => {
    const adapter = fake({ script: [{ type: "text", text: "ok" }] });
    expect(
      (await chat(engine({ adapter, model: modelRef({ id: "m" }), tools: [named("a")] }), "hi")).haltedReason,
    ).toBe("completed");
  });
});

describe("[allm 94] [allm 95] [allm 96] [allm 97] [allm 98] [allm 99] [allm 100] the fake", () => {
  test("takes a script or scripts, and says what is wrong with anything else", () => {
    expect(() => fake({ script: [], scripts: [] })).toThrow(/not both/);
    const bad: object = { script: [{ type: "txt", text: "x" }] };
    expect(() => fake({ ...bad })).toThrow(/a script is a list of steps/);
    expect(() =>
      fake({
        script: [
          { type: "text", text: "" },
          { type: "preflight_error", reason: "timeout" },
        ],
      }),
    ).toThrow(/only be the first step/);
  });

  test("plays its scripts in order, each once, streamed and folded alike, and has none when they are used up", async () => {
    const adapter = fake({
      scripts: [
        [{ type: "text", text: "A" }],
        [
          { type: "reasoning", text: "hm" },
          { type: "text", text: "B" },
        ],
      ],
    });
    const of = engine({ adapter, model: "fake:m" });
    expect((await generate(of, "one")).outputText).toBe("A");
    expect(await streamGenerate(of, "two").text).toBe("B");
    expect(adapter.remaining).toBe(0);
    await expect(generate(of, "three")).rejects.toMatchObject({
      reason: "no_scripted_response",
      message: expect.stringContaining("call 3, and there are 2"),
    });
    expect(adapter.calls.map(({ request }) => request.messages.length)).toEqual([1, 1, 1]);
  });

  test("fails before, between and after events, waits on its clock, and counts what was closed", async () => {
    const clock = handClock();
    const said = { type: "text", text: "Hel" } as const;
    const scripts = [
      [said, { type: "error", reason: "invalid_request" } as const],
      [said, { type: "stream_error", reason: "interrupted" } as const],
      [{ type: "delay", ms: 1000 } as const, said],
    ];
    const adapter = fake({ scripts, clock });
    const of = engine({ adapter, clock, retry: false });
    expect((await generate(of, "hi")).error).toMatchObject({ type: "adapter_error", reason: "invalid_request" });
    expect((await generate(of, "hi")).error).toMatchObject({ type: "stream_error", reason: "interrupted" });
    let done = false;
    const late = generate(of, "hi").then((reply) => ((done = true), reply));
    await clock.advance(999);
    expect(done).toBe(false);
    await clock.advance(1);
    expect((await late).outputText).toBe("Hel");
    expect(adapter.closed).toBe(3);
  });

  test("tells what every call costs, unless its script says otherwise", async () => {
    const scripts = [[{ type: "text", text: "A" } as const], [{ type: "usage", usage: { outputTokens: 9 } } as const]];
    const of = engine({ adapter: fake({ scripts, usage: { inputTokens: 5, outputTokens: 1 } }) });
    expect((await generate(of, "hi")).usage).toMatchObject({ inputTokens: 5, outputTokens: 1 });
    expect((await generate(of, "hi")).usage).toMatchObject({ inputTokens: 5, outputTokens: 9 });
  });

  test("says what was not used", () => {
    expect(() => fake({ scripts: [[], []] }).assertUsedUp()).toThrow("2 of 2 scripts left");
  });
});
