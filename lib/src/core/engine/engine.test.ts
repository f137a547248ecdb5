import type { FakeScript, JsonObject, TurnEvent } from "everturn";
import type { CodeExecutor, EngineRegistry } from "everturn/advanced";

import {
  calls,
  catalog,
  chat,
  engine,
  fake,
  generate,
  says,
  streamGenerate,
  tool,
  configure,
  withModel,
  imageFromUrl,
  imagePart,
  messageText,
  modelRef,
  textPart,
  user,
} from "everturn";
import {
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
  Collector,
  adapterFailure,
  usage,
} from "everturn/advanced";
import { handClock } from "everturn/testing";
import { describe, expect, test } from "vitest";
import * as z from "zod";

import { line } from "../../testing/transcript.ts";
import { withCosts } from "./model-call/pricing.ts";
import { defaultRetryPolicy, delayBefore, isRetryable, retryPolicy } from "./model-call/retry.ts";

const named = (name: string, description = name) => tool({ name, description, schema: { type: "object" } });

describe("[allm 35] engine()", () => {
  test("has a default for every field", () => {
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

  test("rejects an unknown field", () => {
    const fields: object = { modle: "m" };
    expect(() => engine({ ...fields })).toThrow(/an engine has no field "modle"/);
  });

  test("[allm 41] rejects an API key among the settings and does not repeat it in the error", () => {
    for (const fields of [
      { params: { apiKey: "sk-1" } },
      { adapterOptions: { headers: { authorization: "Bearer x" } } },
    ]) {
      expect(() => engine(fields)).toThrow(/credential|key/i);
    }
    expect(() => engine({ params: { apiKey: "sk-secret" } })).not.toThrow(/sk-secret/);
  });

  test("[allm 41] the API key of a call is passed to the adapter, and is not part of the request", async () => {
    const adapter = fake({ scripts: [[{ type: "text", text: "A" }], [{ type: "text", text: "B" }]] });
    await generate(engine({ adapter }), "hi", { apiKey: "sk-call" });
    await generate(engine({ adapter }), "hi");
    expect(adapter.calls.map(({ call }) => call.apiKey)).toEqual(["sk-call", null]);
    expect(JSON.stringify(adapter.calls.map(({ request }) => request))).not.toContain("sk-call");
  });

  test("rejects a retry policy with an unknown field", () => {
    const retry: object = { maxTries: 3 };
    expect(() => engine({ retry: { ...retry } })).toThrow(/retry: unknown option "maxTries"/);
  });
});

describe("[allm 36] put… and withModel", () => {
  test("return a changed copy, keep tools of the same name, and leave the original engine alone", () => {
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

  test("mergeOpts merges overrides and ignores other options", () => {
    const otherOptions: object = { haltWhen: () => true };
    const merged = mergeOpts(putTool(engine({ model: "old", params: { topP: 1 } }), named("a")), {
      ...otherOptions,
      model: "new",
      tools: [named("b")],
      params: { temperature: 0.9 },
    });
    expect(merged).toMatchObject({ model: "new", params: { topP: 1, temperature: 0.9 } });
    expect(merged.tools.map(({ name }) => name)).toEqual(["a", "b"]);
    expect("haltWhen" in merged).toBe(false);
    const of = engine({ params: { topP: 1, seed: 4 }, context: { user: "engine", place: "here" } });
    expect(mergeOpts(of, { params: { topP: 0.5 }, context: { user: "call" } })).toMatchObject({
      params: { topP: 0.5, seed: 4 },
      context: { user: "call", place: "here" },
    });
  });

  test("mergeOpts prefers the params and the context of the call", () => {
    const of = engine({ params: { topP: 1, seed: 1 }, context: { user: "ada", unit: "C" } });
    const merged = mergeOpts(of, { params: { topP: 0.5 }, context: { unit: "F" } });
    expect(merged).toMatchObject({ params: { topP: 0.5, seed: 1 }, context: { user: "ada", unit: "F" } });
  });

  test.each([
    '{"model":null,"tools":null,"params":null,"context":null}',
    '{"model":5,"tools":"x","params":"x","context":7}',
    '{"model":[],"tools":{},"params":[["temperature",0.9]],"context":[]}',
    '{"tools":[5,null,{"description":"no name"}]}',
  ])("mergeOpts drops overrides of a wrong type and does not throw: %s", (text) => {
    const of = engine({ model: "m", tools: [named("a")], params: { topP: 1 }, context: { user: "ada" } });
    expect(mergeOpts(of, JSON.parse(text))).toEqual(of);
  });

  test("mergeOpts keeps the model as it was given, and that of the engine as it is", () => {
    const of = engine({ adapter: fake({ provider: "openai" }), model: "gpt-5.5" });
    expect(mergeOpts(of, {}).model).toBe("gpt-5.5");
    expect(mergeOpts(of, { model: "openai:gpt-5.5" }).model).toBe("openai:gpt-5.5");
    const reference = modelRef({ provider: "lab", id: "m" });
    expect(mergeOpts(of, { model: reference }).model).toBe(reference);
  });
});

describe("option resolution", () => {
  test("[allm 37] tools of the call replace engine tools of the same name; others are appended", () => {
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

  test("[allm 38] params leave out names of engine fields and keep all other names", () => {
    const of = engine({ params: { temperature: 0.2, top_p: 1 } });
    const ignored = Object.fromEntries([...Object.keys(of), "apiKey"].map((name) => [name, "x"]));
    expect(resolveParams(of, { ...ignored, temperature: 0.7, reasoning_effort: "high" })).toEqual({
      temperature: 0.7,
      top_p: 1,
      reasoning_effort: "high",
    });
  });

  test("the model of the call replaces that of the engine", () => {
    const reference = modelRef({ provider: "openai", id: "gpt-x" });
    expect(resolveModel(engine({ model: "m" }), {})).toBe("m");
    expect(resolveModel(engine({ model: "m" }), { model: "other" })).toBe("other");
    expect(resolveModel(engine({ model: reference }), {})).toBe(reference);
  });
});

describe("[allm 104] the retry policy", () => {
  const failure = adapterFailure("rate_limited", { status: 429 });

  test("completes a setting with the defaults", () => {
    expect(retryPolicy("default")).toEqual(defaultRetryPolicy);
    expect(retryPolicy({})).toEqual(defaultRetryPolicy);
    expect(retryPolicy(false).maxAttempts).toBe(1);
    expect(retryPolicy({ maxAttempts: 0 }).maxAttempts).toBe(1);
    expect(retryPolicy({ maxAttempts: 5 })).toEqual({ ...defaultRetryPolicy, maxAttempts: 5 });
    expect(defaultRetryPolicy).toMatchObject({
      maxAttempts: 3,
      baseDelayMs: 500,
      maxDelayMs: 30_000,
      jitterMs: 250,
      respectRetryAfter: true,
    });
  });

  test("refuses a field that a policy does not have, and an invalid number", () => {
    const fields: readonly object[] = [{ attempts: 3 }, { maxAttempts: -1 }, { jitterMs: Number.NaN }];
    for (const setting of fields) expect(() => retryPolicy({ ...setting })).toThrow(/^retry: /);
    expect(() => engine({ retry: { ...fields[0] } })).toThrow(/attempts/);
  });

  test("[lash 90] doubles the delay up to its limit, adds jitter, and follows Retry-After", () => {
    const delays = [1, 2, 3, 4, 8].map((attempt) => delayBefore(defaultRetryPolicy, attempt, failure, 0));
    expect(delays).toEqual([500, 1000, 2000, 4000, 30_000]);
    expect(delayBefore(defaultRetryPolicy, 1, failure, 0.999)).toBe(750);
    expect(delayBefore(defaultRetryPolicy, 1, { ...failure, retryAfterMs: 7000 }, 0)).toBe(7000);
    expect(delayBefore(defaultRetryPolicy, 1, { ...failure, retryAfterMs: 70_000 }, 0.999)).toBe(30_250);
    expect(
      delayBefore({ ...defaultRetryPolicy, respectRetryAfter: false }, 1, { ...failure, retryAfterMs: 7000 }, 0),
    ).toBe(500);
  });

  test("retries retryable failures, or the statuses and reasons that retryOn lists", () => {
    expect(isRetryable(defaultRetryPolicy, failure)).toBe(true);
    expect(isRetryable(defaultRetryPolicy, adapterFailure("invalid_request"))).toBe(false);
    for (const reason of ["timeout", "network_error", "provider_unavailable"] as const) {
      expect(isRetryable(defaultRetryPolicy, adapterFailure(reason))).toBe(true);
    }
    expect(isRetryable({ ...defaultRetryPolicy, retryOn: [503, "timeout"] }, failure)).toBe(false);
    expect(isRetryable({ ...defaultRetryPolicy, retryOn: [503, "timeout"] }, adapterFailure("timeout"))).toBe(true);
  });
});

test("[allm 117] computes costs from known prices, with a separate price for cached tokens", () => {
  const priced = modelRef({ id: "m", pricing: { input: 2, output: 10, cacheRead: 0.2, cacheWrite: null } });
  const spent = usage({ inputTokens: 1_000_000, cachedInputTokens: 500_000, outputTokens: 100_000 });
  expect(withCosts(spent, priced)).toMatchObject({ inputCost: 1.1, outputCost: 1, totalCost: 2.1 });
  expect(withCosts({ ...spent, inputCost: 9 }, priced)).toMatchObject({ inputCost: 9, totalCost: 10 });
  // A server that reports 0 does not make the tokens free.
  expect(withCosts({ ...spent, totalCost: 0, inputCost: 0 }, priced)).toMatchObject({ inputCost: 1.1, totalCost: 2.1 });
  expect(withCosts({ ...spent, totalCost: 0.5 }, priced)).toMatchObject({ totalCost: 0.5 });
  // Nor does it if it counts no tokens, or only some of them: the cost is unknown. A model whose prices are 0 is free.
  expect(withCosts(usage({ totalCost: 0 }), priced).totalCost).toBeNull();
  expect(withCosts(usage({ inputTokens: 5, totalCost: 0 }), priced)).toMatchObject({
    inputCost: 10e-6,
    totalCost: null,
  });
  const free = modelRef({ id: "m", pricing: { input: 0, output: 0, cacheRead: null, cacheWrite: null } });
  expect(withCosts(usage({ totalCost: 0 }), free).totalCost).toBe(0);
  expect(withCosts(spent, "m")).toBe(spent);
});

test("configure changes the defaults of the process and returns the previous ones", () => {
  const before = configure({ maxTurns: 3 });
  expect(before.maxTurns).toBe(8);
  expect(configure(before).maxTurns).toBe(3);
});

describe("an option in the wrong place", () => {
  test.each<[string, object, RegExp]>([
    [
      "a setting of a model call as a field",
      { maxTokens: 5 },
      /"maxTokens"; it belongs in params: engine\(\{ params: \{ maxTokens/,
    ],
    ["a setting in the spelling of a provider", { max_tokens: 5 }, /"max_tokens"; it belongs in params: .*maxTokens: /],
    ["a name of another library", { system: "Be brief." }, /field of the engine: engine\(\{ instructions: /],
    [
      "an option of runs as a field",
      { maxTurns: 5 },
      /"maxTurns"; it belongs in options: engine\(\{ options: \{ maxTurns/,
    ],
    ["an option of a call as a field", { signal: null }, /option of a call: chat\(engine, input, \{ signal: /],
    ["an option of an adapter as a field", { baseURL: "x" }, /belongs to the adapter: openai\(\{ baseURL: /],
    ["a key as a field", { apiKey: "x" }, /belongs to the adapter: openai\(\{ apiKey: /],
    ["an unknown field", { tolos: [] }, /no field "tolos"; the fields are adapter, /],
    ["a field among the options", { options: { model: "m" } }, /no "model"; it is a field of the engine/],
    ["an unknown option", { options: { maxTruns: 5 } }, /no "maxTruns"$/],
    ["an option of runs among the params", { params: { toolTimeout: 5 } }, /"toolTimeout"; it belongs in options/],
  ])("%s is refused with the right place", (_, fields, message) => {
    expect(() => engine(fields)).toThrow(expect.objectContaining({ name: "MisuseError", reason: "unknown_field" }));
    expect(() => engine(fields)).toThrow(message);
  });

  test("among the params of a call is refused", async () => {
    const of = engine({ adapter: fake({ script: [] }) });
    await expect(chat(of, "hi", { params: { budgets: { steps: 1 } } })).rejects.toThrow(
      /"budgets" is an option of the run/,
    );
  });

  test("is accepted if both places are right", () => {
    expect(() =>
      engine({ options: { maxTokens: 5, maxTurns: 2 }, params: { maxTokens: 5, maxTurns: 2 } }),
    ).not.toThrow();
  });
});

describe("[allm 90] describeEngine and restoreEngine", () => {
  const weather = named("weather");
  const adapter = fake();
  const original = engine({
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

  test("restore an equal engine from its description and a registry", () => {
    const described = JSON.parse(JSON.stringify(describeEngine(original)));
    expect(described).toMatchObject({ adapter: "fake", tools: ["weather"], options: { maxTurns: 3 } });
    expect(restoreEngine(described, registry)).toEqual(original);
  });

  test("reject a function among the options, with its path", () => {
    const halting = engine({ options: { haltWhen: () => true } });
    expect(() => describeEngine(halting)).toThrow(/cannot be described: options is not JSON/);
  });

  test("name the adapter or tool that the registry lacks", () => {
    const described = describeEngine(original);
    expect(() => restoreEngine(described, { tools: [weather] })).toThrow(/no adapter "fake"; it has none/);
    expect(() => restoreEngine(described, { adapters: [adapter] })).toThrow(/no tool "weather"/);
  });

  describe("functions of an engine", () => {
    const executor: CodeExecutor = {
      name: "cells",
      version: "1",
      language: "js",
      run: async () => ({ type: "finished", observations: [], error: null, finish: null }),
    };
    const passed = {
      toolExecutor: () => "sandboxed",
      toolResultEncoder: () => "encoded",
      catalog: catalog([modelRef({ id: "mine" })]),
    };
    const finish = z.object({ total: z.number() });
    const whole = engine({ ...passed, protocol: { type: "code", executor, requireFinish: true, finish } });
    const everything: EngineRegistry = { executors: [executor], ...passed, finish };
    const described = JSON.parse(JSON.stringify(describeEngine(whole)));

    test("are restored from the registry", () => {
      const restored = restoreEngine(described, everything);
      expect(restored).toEqual({ ...whole, protocol: { ...whole.protocol, limits: {} } });
      expect(restored.toolExecutor).toBe(passed.toolExecutor);
    });

    test.each(["toolExecutor", "toolResultEncoder", "catalog", "finish"] as const)(
      "are never dropped: a registry without %s is refused",
      (field) => {
        const { [field]: _, ...registry } = everything;
        expect(() => restoreEngine(described, registry)).toThrow(
          expect.objectContaining({
            name: "EngineError",
            reason: "invalid_engine",
            message: expect.stringContaining(field),
          }),
        );
      },
    );

    test("of the registry are used also if the description has none", () => {
      const { toolExecutor } = restoreEngine(describeEngine(engine()), { toolExecutor: passed.toolExecutor });
      expect(toolExecutor).toBe(passed.toolExecutor);
      expect(restoreEngine({}, everything).toolExecutor).toBe(passed.toolExecutor);
    });

    test("that are data are described: the built-in catalog, a JSON Schema of the result", () => {
      const schema = { type: "object", properties: { apiKey: { type: "string" } } };
      const plain = engine({ catalog: catalog(), protocol: { type: "code", executor, finish: schema } });
      const restored = restoreEngine(JSON.parse(JSON.stringify(describeEngine(plain))), { executors: [executor] });
      expect(restored.catalog).toBe(plain.catalog);
      expect(restored.protocol).toMatchObject({ finish: schema });
    });
  });

  test("middleware is described by its names, and the registry has to have it", () => {
    const [first, second] = [{ name: "first" }, { name: "second" }];
    const described = describeEngine(engine({ middleware: [first, second] }));
    expect(described["middleware"]).toEqual(["first", "second"]);
    expect(restoreEngine(described, { middleware: [second, first] }).middleware).toEqual([first, second]);
    expect(() => restoreEngine(described, { middleware: [first] })).toThrow('no middleware "second"');
  });

  test("every field of an engine is described, restored, or known to be left out", () => {
    const leftOut = ["clock"];
    expect([...Object.keys(describeEngine(engine())), ...leftOut].toSorted()).toEqual(Object.keys(engine()).toSorted());
  });

  test.each<[string, JsonObject]>([
    ["sandbox", { sandbox: "strict" }],
    ["protocol", { protocol: { type: "code" } }],
    ["options", { options: [] }],
    ["adapterOptions", { adapterOptions: "x" }],
  ])("a description whose %s is not understood is refused", (field, described) => {
    expect(() => restoreEngine(described, {})).toThrow(
      expect.objectContaining({ reason: "invalid_engine", message: expect.stringContaining(field) }),
    );
  });
});

describe("[allm 117] capability checks", () => {
  const unsupported = {
    tools: false,
    jsonNative: false,
    vision: false,
    parallelTools: null,
    reasoning: null,
    files: null,
  };
  const capabilities = { ...unsupported, imagesEnabled: null, supportedImageOperations: null };
  const limitedModel = modelRef({ id: "small", capabilities });

  test("report every capability that the model lacks before the model is called", async () => {
    const withImage = user([textPart("look"), imagePart(imageFromUrl("https://example.com/a.png"))]);
    const of = engine({ adapter: fake(), model: limitedModel, tools: [named("a")] });
    await expect(chat(of, [withImage], { output: { type: "object" } })).rejects.toMatchObject({
      reason: "unsupported_capability",
      failure: { issues: [{ code: "tools_disabled" }, { code: "json_native_disabled" }, { code: "vision_disabled" }] },
    });
  });

  test("accept a request if the capabilities of the model are unknown", async () => {
    const adapter = fake({ script: [{ type: "text", text: "ok" }] });
    expect(
      (await chat(engine({ adapter, model: modelRef({ id: "m" }), tools: [named("a")] }), "hi")).haltedReason,
    ).toBe("completed");
  });
});

describe("[allm 94] [allm 95] scripts of the fake adapter", () => {
  /** The events of one call, and the reply that `generate` returns for the same script. */
  async function played(script: FakeScript) {
    const events: TurnEvent[] = [];
    const of = engine({ adapter: fake({ scripts: [script, script] }), model: "fake:m", retry: false });
    for await (const event of streamGenerate(of, "hi", { includeRawChunks: true })) events.push(event);
    return { events, lines: events.map(line), reply: await generate(of, "hi") };
  }

  test.each<[string, FakeScript, readonly string[], object]>([
    [
      "text",
      [
        { type: "text", text: "Hel" },
        { type: "text", text: "lo." },
      ],
      ['text_delta "Hel"', 'text_delta "lo."', 'text_completed "Hello."', "message_completed stop"],
      { outputText: "Hello.", finishReason: "stop", message: { content: "Hello." } },
    ],
    [
      "reasoning",
      [
        { type: "reasoning", text: "hm" },
        { type: "text", text: "Yes." },
      ],
      ['reasoning_delta "hm"', 'text_delta "Yes."', 'text_completed "Yes."', "message_completed stop"],
      { outputText: "Yes.", message: { content: [{ type: "reasoning", text: "hm" }, { text: "Yes." }] } },
    ],
    [
      "complete tool calls",
      [
        { type: "tool_call", name: "a", arguments: { n: 1 } },
        { type: "tool_call", name: "b", id: "x", arguments: null, rawArguments: "{oops" },
      ],
      [
        "tool_call_started call_0 a",
        "tool_call_completed call_0 a",
        "tool_call_started x b",
        "tool_call_completed x b",
        "message_completed tool_calls",
      ],
      {
        finishReason: "tool_calls",
        toolCalls: [
          { id: "call_0", arguments: { n: 1 }, rawArguments: '{"n":1}' },
          { id: "x", arguments: null, rawArguments: "{oops" },
        ],
      },
    ],
    [
      "tool calls in pieces, whose arguments are parsed at the end",
      [
        { type: "tool_call_delta", id: "x", name: "a", argumentsDelta: '{"n"' },
        { type: "tool_call_delta", id: "x", argumentsDelta: ":1}" },
      ],
      [
        "tool_call_started x a",
        String.raw`tool_call_delta x "{\"n\""`,
        'tool_call_delta x ":1}"',
        "tool_call_completed x a",
        "message_completed tool_calls",
      ],
      { toolCalls: [{ id: "x", name: "a", arguments: { n: 1 }, rawArguments: '{"n":1}' }] },
    ],
    [
      "usage and raw chunks",
      [
        { type: "usage", usage: { inputTokens: 1 } },
        { type: "usage", usage: { inputTokens: 2 } },
        { type: "raw_chunk", chunk: { any: 1 } },
      ],
      ["usage", "usage", "raw_chunk", "message_completed stop"],
      { usage: { inputTokens: 2 } },
    ],
    [
      "a finish reason, after which only trailing steps are played",
      [
        { type: "text", text: "A" },
        { type: "finish", reason: "length", trailing: [{ type: "usage", usage: { outputTokens: 3 } }] },
        { type: "text", text: "B" },
      ],
      ['text_delta "A"', 'text_completed "A"', "message_completed length", "usage"],
      { outputText: "A", finishReason: "length", usage: { outputTokens: 3 } },
    ],
    [
      "an error, after which nothing is played",
      [
        { type: "text", text: "A" },
        { type: "error", reason: "rate_limited", status: 429, retryAfterMs: 5 },
        { type: "text", text: "B" },
        // A run accepts usage after an error, so it would be in the stream.
        { type: "usage", usage: { inputTokens: 9 } },
      ],
      ['text_delta "A"', "error rate_limited"],
      { outputText: "A", finishReason: "error", error: { type: "adapter_error", status: 429, retryAfterMs: 5 } },
    ],
    ["nothing: an empty reply", [], ["message_completed stop"], { outputText: "", finishReason: "stop" }],
  ])("%s", async (_, script, expectedLines, expectedReply) => {
    const { lines, reply } = await played(script);
    expect(lines).toEqual(["message_started", ...expectedLines]);
    expect(reply).toMatchObject(expectedReply);
  });

  test("the streamed and the awaited reply of a script are equal", async () => {
    const collector = new Collector();
    const { events, reply } = await played([
      { type: "reasoning", text: "hm" },
      { type: "text", text: "Hello." },
      { type: "tool_call", name: "a" },
      { type: "usage", usage: { inputTokens: 1 } },
    ]);
    for (const event of events) collector.add(event);
    expect(collector.reply()).toMatchObject({
      message: reply.message,
      toolCalls: reply.toolCalls,
      usage: { inputTokens: 1 },
    });
  });
});

describe("[allm 96] [allm 97] [allm 98] [allm 99] [allm 100] the fake adapter", () => {
  test("accepts either script or scripts, and names the mistake in an invalid script", () => {
    expect(() => fake({ script: [], scripts: [] })).toThrow(/not both/);
    const step = { type: "text", text: "x" };
    for (const bad of [
      { script: [{ type: "txt", text: "x" }] },
      { script: [[step]] },
      { script: "x" },
      { scripts: step },
      { scripts: [[{ type: "toString" }]] },
      { scripts: [null] },
      { scripts: "x" },
    ]) {
      const options: object = bad;
      expect(() => fake({ ...options })).toThrow(/script must be a step or a list of steps/);
    }
    const renamed: object = { stream_script: [] };
    expect(() => fake({ ...renamed })).toThrow(/stream_script/);
    expect(() =>
      fake({
        script: [
          { type: "text", text: "" },
          { type: "preflight_error", reason: "timeout" },
        ],
      }),
    ).toThrow(/only be the first step/);
  });

  test("says and calls are steps, and a step alone is a script", async () => {
    const look = tool({ name: "look", description: "Looks.", schema: {}, handler: ({ at }) => `seen ${String(at)}` });
    const adapter = fake({
      scripts: [calls("look", { at: "sea" }), [calls("look", {}, "mine"), says("And")], says("Blue.")],
    });
    const result = await chat(engine({ adapter, tools: [look] }), "Colour?");
    expect(result.finalResponse?.outputText).toBe("Blue.");
    expect(adapter.calls.at(-1)?.request.messages.map(({ role, content }) => [role, content])).toEqual([
      ["user", "Colour?"],
      ["assistant", ""],
      ["tool", "seen sea"],
      ["assistant", "And"],
      ["tool", "seen undefined"],
    ]);
    const { toolCalls } = await generate(engine({ adapter: fake({ script: calls("look", {}, "mine") }) }), "Colour?");
    expect(toolCalls).toMatchObject([{ id: "mine", name: "look", arguments: {} }]);
  });

  test("plays each script once, in order, for streamed and awaited calls, and fails when none is left", async () => {
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
      message: expect.stringContaining("call 3, and the fake adapter has 2 scripts"),
    });
    expect(adapter.calls.map(({ request }) => request.messages.map(messageText))).toEqual([
      ["one"],
      ["two"],
      ["three"],
    ]);
    expect(adapter.calls[0]).toMatchObject({ request: { model: "fake:m" }, call: { attempt: 1 } });
  });

  test("without a script fails, and an empty script is one call with an empty reply", async () => {
    await expect(generate(engine({ adapter: fake() }), "hi")).rejects.toMatchObject({ reason: "no_scripted_response" });
    const of = engine({ adapter: fake({ script: [] }) });
    expect((await generate(of, "hi")).outputText).toBe("");
    await expect(generate(of, "hi")).rejects.toMatchObject({ reason: "no_scripted_response" });
  });

  test("scripts failures and delays, waits on the engine's clock, and counts closed streams", async () => {
    const clock = handClock();
    const text = { type: "text", text: "Hel" } as const;
    const scripts = [
      [text, { type: "error", reason: "invalid_request" } as const],
      [text, { type: "stream_error", reason: "interrupted" } as const],
      [{ type: "delay", ms: 1000 } as const, text],
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

  test("throws a preflight error before the first event, and fails until the call that retryUntilCall names", async () => {
    const clock = handClock();
    const refused = fake({
      scripts: [[{ type: "preflight_error", reason: "authentication_failed", status: 401 }]],
      clock,
    });
    await expect(generate(engine({ adapter: refused, clock }), "hi")).rejects.toMatchObject({
      reason: "authentication_failed",
      failure: { status: 401 },
    });
    const flaky = fake({ script: [{ type: "text", text: "A" }], retryUntilCall: 3, clock });
    const reply = generate(engine({ adapter: flaky, clock }), "hi");
    await clock.advance(10_000);
    await clock.advance(10_000);
    expect((await reply).outputText).toBe("A");
    expect(flaky.calls.map(({ call }) => call.attempt)).toEqual([1, 2, 3]);
  });

  test("reports the default usage of every call, overridden by the usage of its script", async () => {
    const scripts = [[{ type: "text", text: "A" } as const], [{ type: "usage", usage: { outputTokens: 9 } } as const]];
    const of = engine({ adapter: fake({ scripts, usage: { inputTokens: 5, outputTokens: 1 } }) });
    expect((await generate(of, "hi")).usage).toMatchObject({ inputTokens: 5, outputTokens: 1 });
    expect((await generate(of, "hi")).usage).toMatchObject({ inputTokens: 5, outputTokens: 9 });
  });

  test("assertUsedUp throws with the number of scripts that are left", () => {
    expect(() => fake({ scripts: [[], []] }).assertUsedUp()).toThrow(
      "2 of 2 scripts of the fake adapter were not used",
    );
  });
});
