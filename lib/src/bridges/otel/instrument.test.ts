// Spans and metrics of runs and of durable turns, with the SDK of OpenTelemetry and exporters in memory.

import type { CrashPoint } from "../../testing/crashable-process.ts";

import { SpanKind } from "@opentelemetry/api";
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import { AlwaysOffSampler, ParentBasedSampler, TraceIdRatioBasedSampler } from "@opentelemetry/sdk-trace-base";
import * as conventions from "@opentelemetry/semantic-conventions/incubating";
import {
  askUser,
  chat,
  engine,
  fake,
  fakeImages,
  generate,
  generateImage,
  tool,
  AdapterError,
  imageFromUrl,
  textPart,
  user,
} from "everturn";
import { embed, embedMany, fakeEmbeddings, fakeReranker, rerank } from "everturn/middleware";
import { instrument, spanIds } from "everturn/otel";
import { memoryStorage, runtime } from "everturn/runtime";
import { crashMatrix, crashScenarios, handClock } from "everturn/testing";
import { afterEach, describe, expect, test } from "vitest";

import { defectsOf, tracedInMemory, treeOf } from "../../../test/otel.ts";
import { calls, plain, playing, says } from "../../../test/runs.ts";
import { approved, workTool } from "../../../test/runtime/sessions.ts";
import { pausedProcess } from "../../../test/runtime/two-processes.ts";
import { attributes, buckets, metricNames, operations, ownAttributes, providerName } from "./conventions.ts";
import { spanIdOf, traceIdOf } from "./span-ids.ts";

const stops: (() => void)[] = [];
afterEach(() => {
  for (const stop of stops.splice(0)) stop();
});

function traced(...args: Parameters<typeof tracedInMemory>) {
  const tracing = tracedInMemory(...args);
  stops.push(tracing.stop);
  return tracing;
}

const ok = plain("ok", () => "fine");
const answer = { type: "text", text: "Done." } as const;
const usage = { type: "usage", usage: { inputTokens: 12, outputTokens: 3 } } as const;

describe("the names of attributes and metrics", () => {
  const known = new Set<unknown>(Object.values(conventions));

  test("are those of the conventions package", () => {
    const names = [...Object.values(attributes), ...Object.values(metricNames), ...Object.values(operations)];
    expect(names.filter((name) => !known.has(name))).toEqual([]);
    expect(
      ["azure", "bedrock", "gemini", "mistral", "vertex", "xai", "openai", "anthropic", "groq", "deepseek"]
        .map(providerName)
        .filter((name) => !known.has(name)),
    ).toEqual([]);
    expect(providerName("toString")).toBe("toString");
  });

  test("of providers are those of the conventions for models of the AI SDK too", () => {
    const names = {
      "amazon-bedrock": "aws.bedrock",
      "anthropic.messages": "anthropic",
      "azure.responses": "azure.ai.openai",
      "google.generative-ai": "gcp.gemini",
      "google.vertex.chat": "gcp.vertex_ai",
      "mistral.chat": "mistral_ai",
      "openai.responses": "openai",
      "vertex.anthropic.messages": "gcp.vertex_ai",
      "xai.chat": "x_ai",
    };
    expect(Object.fromEntries(Object.keys(names).map((name) => [name, providerName(name)]))).toEqual(names);
    // A program may give its adapter the name of the conventions.
    const given = ["azure.ai.openai", "aws.bedrock", "gcp.vertex_ai", "openai", "my.server"];
    expect(given.map(providerName)).toEqual(given);
  });

  test("of the library itself have its prefix", () => {
    expect(Object.values(ownAttributes).filter((name) => !name.startsWith("everturn.") || known.has(name))).toEqual([]);
    expect([buckets.seconds.length, buckets.tokens.length]).toEqual([14, 14]);
  });
});

describe("a run in memory", () => {
  test("is one trace below the active span of the caller", async () => {
    const { tracer, exported, spans } = traced();
    const { engine: of } = playing([calls("ok"), [answer, usage]], [ok]);
    await tracer.startActiveSpan("request", async (span) => {
      await chat(of, "hi", { sessionId: "s1", requestId: "r1" });
      span.end();
    });
    expect(treeOf(exported())).toEqual([
      "request",
      "  invoke_agent",
      "    chat m",
      "    execute_tool ok",
      "    chat m",
    ]);
    expect(defectsOf(exported())).toEqual([]);
    const [, toolSpan, chatSpan, agentSpan] = spans();
    expect(chatSpan?.attributes).toEqual({
      "gen_ai.operation.name": "chat",
      "gen_ai.conversation.id": "s1",
      "gen_ai.provider.name": "fake",
      "gen_ai.request.model": "m",
      "gen_ai.response.model": "fake:m",
      "gen_ai.response.finish_reasons": ["stop"],
      "gen_ai.response.time_to_first_chunk": 0,
      "gen_ai.usage.input_tokens": 12,
      "gen_ai.usage.output_tokens": 3,
      "everturn.request.id": "r1",
      "everturn.attempt": 1,
    });
    expect(toolSpan?.attributes).toEqual({
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": "ok",
      "gen_ai.tool.type": "function",
      "gen_ai.tool.call.id": "c0",
      "gen_ai.tool.description": "ok",
      "everturn.request.id": "r1",
    });
    expect(agentSpan?.attributes).toMatchObject({
      "gen_ai.operation.name": "invoke_agent",
      "gen_ai.usage.input_tokens": 12,
      "everturn.halted_reason": "completed",
      "everturn.steps": 2,
    });
  });

  test("sets the context of tools and model calls, so that their own spans are inside", async () => {
    const { tracer, exported } = traced();
    const fetches = plain("fetches", async () => {
      await Promise.resolve();
      tracer.startSpan("GET /weather").end();
      return "sunny";
    });
    const { engine: of, adapter } = playing([calls("fetches"), says("Done.")], [fetches]);
    const instrumented = {
      ...adapter,
      stream: (...args: Parameters<typeof adapter.stream>) => withRequestSpan(adapter.stream(...args)),
    };
    async function* withRequestSpan<T>(stream: AsyncIterable<T>): AsyncIterable<T> {
      tracer.startSpan("POST /v1").end();
      yield* stream;
    }
    await chat({ ...of, adapter: instrumented }, "hi");
    expect(treeOf(exported())).toEqual([
      "invoke_agent",
      "  chat m",
      "    POST /v1",
      "  execute_tool fetches",
      "    GET /weather",
      "  chat m",
      "    POST /v1",
    ]);
  });

  test("has a span for each attempt of a model call, and the error of the failed one", async () => {
    const { spans } = traced();
    const { engine: of, clock } = playing([[{ type: "error", reason: "timeout" }], says("Done.")]);
    const reply = generate(of, "hi");
    await clock.advance(500);
    await reply;
    expect(spans().map(({ name, status, attributes: values }) => [name, status.code, values["error.type"]])).toEqual([
      ["chat m", 2, "timeout"],
      ["chat m", 0, undefined],
    ]);
  });

  test("has an inner turn inside the tool call that runs it", async () => {
    const { exported } = traced();
    const inner = engine({ adapter: fake({ script: [answer] }), model: "fake:inner" });
    const asks = tool({
      name: "asks",
      description: "Asks.",
      schema: { type: "object" },
      handler: async (_, { runChild }) => (await runChild(inner, "hi")).haltedReason,
    });
    await chat(playing([calls("asks"), says("Done.")], [asks]).engine, "hi");
    expect(treeOf(exported())).toEqual([
      "invoke_agent",
      "  chat m",
      "  execute_tool asks",
      "    invoke_agent",
      "      chat inner",
      "  chat m",
    ]);
  });

  test("of an image has the provider and the model", async () => {
    const { spans } = traced();
    const script = [{ type: "images", images: [imageFromUrl("https://example.com/cat.png")] } as const];
    await generateImage(engine({ imageAdapter: fakeImages({ script }), model: "fake:paint" }), "a cat");
    expect(spans().map(({ name, attributes: values }) => [name, values["gen_ai.provider.name"]])).toEqual([
      ["generate_content paint", "fake"],
    ]);
  });

  test("of embeddings has a span for each attempt, inside the tool that makes the request", async () => {
    const { spans, exported } = traced();
    const clock = handClock();
    const server = fakeEmbeddings({ dimensions: 4 });
    let requests = 0;
    const unreliable: typeof server = {
      ...server,
      provider: "gemini",
      embed: async (...args) => {
        requests += 1;
        if (requests === 1) throw new AdapterError("rate_limited", { provider: "gemini", retryable: true });
        return server.embed(...args);
      },
    };
    const search = plain("search", async () => {
      const found = embed(unreliable, "secret text", { clock, retry: { maxAttempts: 2 } });
      await clock.advance(60_000);
      return (await found).embedding.length;
    });
    await chat(playing([calls("search"), says("Done.")], [search]).engine, "hi");
    expect(treeOf(exported())).toEqual([
      "invoke_agent",
      "  chat m",
      "  execute_tool search",
      `    embeddings ${server.model}`,
      `    embeddings ${server.model}`,
      "  chat m",
    ]);
    const [failed, done] = spans().filter(({ name }) => name.startsWith("embeddings"));
    expect(failed?.attributes).toMatchObject({ "error.type": "rate_limited", "everturn.attempt": 1 });
    expect(done).toMatchObject({
      kind: SpanKind.CLIENT,
      attributes: {
        "gen_ai.operation.name": "embeddings",
        "gen_ai.provider.name": "gcp.gemini",
        "gen_ai.request.model": server.model,
        "gen_ai.embeddings.dimension.count": 4,
        "gen_ai.usage.input_tokens": expect.any(Number),
        "everturn.attempt": 2,
      },
    });
    expect(JSON.stringify(spans().map(({ attributes: values }) => values))).not.toMatch(/secret/);
  });

  test("of embeddings and of a ranking is below the active span of the caller, one span for each request", async () => {
    const { tracer, exported } = traced();
    const model = { ...fakeEmbeddings(), limits: { texts: 2, bytes: 1000 } };
    await tracer.startActiveSpan("request", async (span) => {
      await embedMany(model, ["a", "b", "c"], { maxConcurrency: 1 });
      await rerank(fakeReranker(), "query", ["a", "b"]);
      span.end();
    });
    expect(treeOf(exported())).toEqual([
      "request",
      `  embeddings ${model.model}`,
      `  embeddings ${model.model}`,
      `  rerank ${fakeReranker().model}`,
    ]);
  });

  test("without a tracer provider works and exports nothing", async () => {
    stops.push(instrument());
    expect((await chat(playing([calls("ok"), says("Done.")], [ok]).engine, "hi")).haltedReason).toBe("completed");
  });

  test("keeps concurrent runs apart", async () => {
    const { exported, tracer } = traced();
    await Promise.all(
      ["a", "b", "c"].map((name) =>
        tracer.startActiveSpan(name, async (span) => {
          await chat(playing([calls("ok", "ok"), says("Done.")], [ok]).engine, "hi", { requestId: "same" });
          span.end();
        }),
      ),
    );
    expect(new Set(exported().map(({ traceId }) => traceId)).size).toBe(3);
    expect(exported()).toHaveLength(18);
    expect(defectsOf(exported())).toEqual([]);
  });
});

describe("content", () => {
  const secret = tool({
    name: "look",
    description: "Looks.",
    schema: { type: "object" },
    handler: () => "secret result",
  });
  const run = (text: string) =>
    chat(
      playing(
        [[{ type: "tool_call", id: "c0", name: "look", arguments: { at: "secret place" } }], says("secret answer")],
        [secret],
        { instructions: "secret rule" },
      ).engine,
      text,
    );

  test("is not captured by default", async () => {
    const { spans } = traced();
    await run("secret question");
    expect(spans()).toHaveLength(4);
    expect(
      JSON.stringify(spans().map(({ attributes: values, events, status }) => [values, events, status])),
    ).not.toMatch(/secret/);
  });

  test("is captured with captureContent, in the format of the conventions", async () => {
    const { spans } = traced({ captureContent: true });
    await run("secret question");
    const [, looked, second] = spans();
    expect(looked?.attributes).toMatchObject({
      "gen_ai.tool.call.arguments": '{"at":"secret place"}',
      "gen_ai.tool.call.result": "secret result",
    });
    expect(JSON.parse(String(second?.attributes["gen_ai.input.messages"]))).toEqual([
      { role: "user", parts: [{ type: "text", content: "secret question" }] },
      { role: "assistant", parts: [{ type: "tool_call", id: "c0", name: "look", arguments: '{"at":"secret place"}' }] },
      {
        role: "tool",
        parts: [{ type: "tool_call_response", id: "c0", response: [{ type: "text", content: "secret result" }] }],
      },
    ]);
    expect(JSON.parse(String(second?.attributes["gen_ai.output.messages"]))).toEqual([
      { role: "assistant", parts: [{ type: "text", content: "secret answer" }], finish_reason: "stop" },
    ]);
    expect(second?.attributes["gen_ai.system_instructions"]).toBe('[{"type":"text","content":"secret rule"}]');
    expect(second?.attributes["gen_ai.tool.definitions"]).toMatch(/"name":"look"/);
  });

  test("has a limited length: the oldest messages are left out", async () => {
    const { spans } = traced({ captureContent: true, maxContentLength: 400 });
    await run("x".repeat(100_000));
    const [first, , second] = spans();
    expect(String(first?.attributes["gen_ai.input.messages"]).length).toBeLessThanOrEqual(400);
    expect(JSON.parse(String(second?.attributes["gen_ai.input.messages"]))).toMatchObject([
      { role: "assistant" },
      { role: "tool" },
    ]);
    expect(second?.attributes["everturn.dropped_messages"]).toBe(1);
  });
});

test("content of many or long parts does not exceed the length of an attribute", async () => {
  const { spans } = traced({ captureContent: true, maxContentLength: 2000 });
  const long = plain("long", () => "r".repeat(50_000));
  const parts = (count: number) => Array.from({ length: count }, () => textPart("x".repeat(5000)));
  const { engine: of } = playing(
    [
      [{ type: "tool_call", id: "c0", name: "long", arguments: { text: "a".repeat(50_000) } }],
      says("y".repeat(50_000)),
    ],
    [long, { ...plain("other", () => "ok"), description: "d".repeat(50_000) }],
    { instructions: "i".repeat(50_000) },
  );
  await chat(of, [user(parts(20))]);
  await chat({ ...of, adapter: playing([says("ok")]).adapter }, [user(parts(200))]);
  const values = spans().flatMap(({ attributes: all }) =>
    Object.values(all).filter((value) => typeof value === "string"),
  );
  expect(Math.max(...values.map(({ length }) => length))).toBeLessThanOrEqual(2000);
  const [first] = spans();
  expect(JSON.parse(String(first?.attributes["gen_ai.input.messages"]))).toMatchObject([{ role: "user" }]);
});

describe("metrics", () => {
  test("count tokens, durations and the time to the first output of model calls", async () => {
    const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
    const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
    const meterProvider = new MeterProvider({ readers: [reader] });
    stops.push(instrument({ meterProvider }));
    const { engine: of, clock } = playing([
      [usage, { type: "error", reason: "timeout" }],
      [{ type: "delay", ms: 250 }, answer, usage],
    ]);
    const reply = generate(of, "hi");
    await clock.advance(500);
    await clock.advance(250);
    await reply;
    await reader.forceFlush();
    const recorded =
      exporter
        .getMetrics()
        .at(-1)
        ?.scopeMetrics.flatMap(({ metrics }) => metrics) ?? [];
    const lines = recorded.flatMap(({ descriptor: { name, unit }, dataPoints }) =>
      dataPoints.map(({ attributes: labels, value }) => {
        const sum = typeof value === "object" && "sum" in value ? value.sum : null;
        return `${name} ${unit} ${String(labels["error.type"] ?? labels["gen_ai.token.type"] ?? "")} ${String(sum)}`;
      }),
    );
    expect(lines).toEqual([
      "gen_ai.client.operation.duration s timeout 0",
      "gen_ai.client.operation.duration s  0.25",
      "gen_ai.client.operation.time_to_first_chunk s  0.25",
      "gen_ai.client.token.usage {token} input 12",
      "gen_ai.client.token.usage {token} output 3",
      "gen_ai.client.token.usage {token} input 12",
      "gen_ai.client.token.usage {token} output 3",
    ]);
    expect(recorded[0]?.dataPoints[1]?.attributes).toEqual({
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "fake",
      "gen_ai.request.model": "m",
      "gen_ai.response.model": "fake:m",
    });
    await meterProvider.shutdown();
  });
});

describe("a durable turn", () => {
  test("that a worker drives is in the trace of the request that sent it", async () => {
    const { tracer, exported, spans } = traced();
    const host = memoryStorage();
    const engines = { helper: playing([calls("ok"), says("Done.")], [ok]).engine };
    const web = runtime({ host, engines, drive: false });
    const worker = runtime({ host, engines });
    const { turnId } = await tracer.startActiveSpan("POST /reply", async (span) => {
      const turn = await web.start("hi", { id: "s", engine: "helper" });
      span.end();
      return turn;
    });
    await worker.recover();
    await worker.attach("s", turnId).result;
    expect(treeOf(exported())).toEqual([
      "POST /reply",
      "  invoke_agent helper",
      "    chat m",
      "    execute_tool ok",
      "    chat m",
    ]);
    expect(spans().at(-1)?.attributes["gen_ai.conversation.id"]).toBe("s");
    expect(defectsOf(exported())).toEqual([]);
  });

  test("that an answer starts continues the trace, with links to the turn that waited and to the request with the answer", async () => {
    const { tracer, exported, spans } = traced();
    const host = memoryStorage();
    const engines = { default: playing([calls("work"), says("Done.")], [approved]).engine };
    const first = runtime({ host, engines });
    const second = runtime({ host, engines });
    const waiting = await first.start("hi", { id: "s" });
    await waiting.result;
    await tracer.startActiveSpan("POST /approve", async (span) => {
      await (
        await second.decide("s", "c0", { type: "approve" })
      ).result;
      span.end();
    });
    const names = [
      "chat m",
      "invoke_agent default",
      "execute_tool work",
      "chat m",
      "invoke_agent default",
      "POST /approve",
    ];
    expect(spans().map(({ name }) => name)).toEqual(names);
    const [, before, , , after, request] = spans();
    expect(after?.spanContext().traceId).toBe(before?.spanContext().traceId);
    expect(after?.links.map((link) => link.context.spanId)).toEqual([
      before?.spanContext().spanId,
      request?.spanContext().spanId,
    ]);
    expect(defectsOf(exported())).toEqual([]);
  });

  test("that a question interrupts continues with the answer in the same trace, also if another process gets it", async () => {
    const { exported, spans } = traced();
    const host = memoryStorage();
    const asks = plain("asks", () => askUser("Which?"));
    const engines = { default: playing([calls("asks"), says("Blue."), says("Again.")], [asks]).engine };
    await (
      await runtime({ host, engines }).start("Paint it.", { id: "s" })
    ).result;
    const second = runtime({ host, engines });
    await (
      await second.reply("s", "Blue.")
    ).result;
    const turns = spans().filter(({ name }) => name === "invoke_agent default");
    expect(new Set(exported().map(({ traceId }) => traceId)).size).toBe(1);
    expect(turns[1]?.links.map((link) => link.context.spanId)).toEqual([turns[0]?.spanContext().spanId]);
    expect(defectsOf(exported())).toEqual([]);
    // The session waits no more: the next message begins a trace of its own.
    await (
      await second.reply("s", "And now?")
    ).result;
    expect(new Set(exported().map(({ traceId }) => traceId)).size).toBe(2);
  });

  test("that was accepted without OpenTelemetry has one trace in all processes", async () => {
    const host = memoryStorage();
    const engines = { default: playing([says("Done.")]).engine };
    const { turnId } = await runtime({ host, engines, drive: false }).start("hi", { id: "s" });
    const { exported } = traced();
    const worker = runtime({ host, engines });
    await worker.recover();
    await worker.attach("s", turnId).result;
    expect(exported()).toMatchObject([
      { name: "chat m", traceId: traceIdOf(JSON.stringify(["s", turnId])) },
      {
        name: "invoke_agent default",
        spanId: spanIdOf(traceIdOf(JSON.stringify(["s", turnId])), turnId ?? ""),
        parentId: null,
      },
    ]);
  });

  test("of a process that lost its lease ends no span there", async () => {
    const { exported } = traced();
    const { clock, model, gate, first, second } = pausedProcess();
    const turn = await first.start("Go.", { id: "s" });
    const call = await model.call(1);
    await call.say("From the first");
    gate.hold();
    call.finish();
    await clock.advance(400);
    await second.recover();
    const again = await model.call(2);
    await again.say("From the second");
    again.finish();
    await second.attach("s", turn.turnId).result;
    gate.release();
    await clock.advance(1000);
    expect(treeOf(exported())).toEqual(["invoke_agent default", expect.stringMatching(/^ {2}chat/)]);
    expect(defectsOf(exported())).toEqual([]);
  });

  test("that is handed over at a shutdown is complete, and no call is exported twice", async () => {
    const { exported } = traced();
    const host = memoryStorage();
    const started = deferred();
    let runs = 0;
    const work = workTool(() => {
      runs += 1;
      started.resolve();
      return runs === 1 ? new Promise(() => undefined) : "worked";
    });
    const engines = { default: playing([calls("work"), says("Done.")], [work]).engine };
    const first = runtime({ host, engines });
    const { turnId } = await first.start("hi", { id: "s" });
    await started.promise;
    await first.close({ graceMs: 0 });
    const second = runtime({ host, engines });
    await second.recover();
    await second.attach("s", turnId).result;
    expect([runs, treeOf(exported())]).toEqual([
      2,
      ["invoke_agent default", "  chat m", "  execute_tool work", "  chat m"],
    ]);
    expect(defectsOf(exported())).toEqual([]);
  });

  test("that is cancelled ends its spans once", async () => {
    const { exported, spans } = traced();
    const started = deferred();
    const hangs = plain("hangs", () => {
      started.resolve();
      return new Promise(() => undefined);
    });
    const sessions = runtime({
      host: memoryStorage(),
      engines: { default: playing([calls("hangs")], [hangs]).engine },
    });
    await sessions.start("hi", { id: "s", cancelGraceMs: 0 });
    await started.promise;
    await sessions.cancel("s");
    expect(treeOf(exported())).toEqual(["invoke_agent default", "  chat m", "  execute_tool hangs"]);
    expect(spans().map(({ attributes: values }) => values["error.type"])).toEqual([undefined, "cancelled", undefined]);
    expect(spans().at(-1)?.attributes["everturn.halted_reason"]).toBe("cancelled");
  });

  test("is sampled as a whole, by the decision of the caller or of the sampler", async () => {
    const off = traced(
      {},
      { idGenerator: spanIds(), sampler: new ParentBasedSampler({ root: new AlwaysOffSampler() }) },
    );
    const host = memoryStorage();
    const engines = { default: playing([says("1"), says("2")]).engine };
    await (
      await runtime({ host, engines }).start("hi", { id: "s" })
    ).result;
    expect(off.exported()).toEqual([]);
    const some = traced(
      {},
      { idGenerator: spanIds(), sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(0.5) }) },
    );
    const web = runtime({
      host: memoryStorage(),
      engines: {
        default: engine({ adapter: fake({ scripts: Array.from({ length: 40 }, () => [answer]) }), model: "fake:m" }),
      },
    });
    for (let n = 0; n < 40; n += 1) await (await web.start("hi", { id: `s${n}` })).result;
    const turns = some.exported().filter(({ parentId }) => parentId === null);
    expect(turns.length).toBeGreaterThan(5);
    expect(turns.length).toBeLessThan(35);
    expect(some.exported()).toHaveLength(2 * turns.length);
    expect(defectsOf(some.exported())).toEqual([]);
  });

  test("stays in one trace if the tracer provider chooses the ids", async () => {
    const { exported } = traced({}, {});
    const host = memoryStorage();
    const engines = { default: playing([calls("ok"), says("Done.")], [ok]).engine };
    await (
      await runtime({ host, engines }).start("hi", { id: "s" })
    ).result;
    expect(new Set(exported().map(({ traceId }) => traceId)).size).toBe(1);
    expect(exported()).toHaveLength(4);
    expect(defectsOf(exported())).toEqual(["the parent of invoke_agent default is missing"]);
  });

  test("of a session with queued input keeps the trace of each request", async () => {
    const { tracer, exported } = traced();
    const clock = handClock();
    const slow = engine({
      adapter: fake({ scripts: [[{ type: "delay", ms: 100 }, answer], [answer]], clock }),
      model: "fake:m",
      clock,
    });
    const sessions = runtime({ host: memoryStorage({ clock }), engines: { default: slow }, clock });
    const ask = (name: string, ask: () => Promise<unknown>) =>
      tracer.startActiveSpan(name, async (span) => {
        await ask();
        span.end();
      });
    await ask("one", () => sessions.start("1", { id: "s" }));
    let queued: { readonly result: Promise<unknown> } | null = null;
    await ask("two", async () => void (queued = await sessions.reply("s", "2", { whenBusy: "queue" })));
    await clock.advance(200);
    await (queued ?? { result: Promise.reject(new Error("not queued")) }).result;
    expect(treeOf(exported())).toEqual([
      "one",
      "  invoke_agent default",
      "    chat m",
      "two",
      "  invoke_agent default",
      "    chat m",
    ]);
  });
});

describe("[lash 92] a turn that crashes and continues in another process", () => {
  const everyPoint = process.env["EVERTURN_CRASH_POINTS"] === "all";
  const scenarios = crashScenarios.filter(({ name }) =>
    everyPoint ? name !== "a turn of many steps" : /nested|approval|retries|replay policy/.test(name),
  );

  test.each(scenarios.map((scenario) => ({ name: scenario.name, scenario })))(
    "$name",
    { timeout: everyPoint ? 600_000 : 60_000 },
    async ({ scenario }) => {
      const { exporter, exported } = traced();
      const broken: string[] = [];
      let killedAt: CrashPoint[] = [];
      let host = memoryStorage();
      /** The end of an inner turn was stored when the process died, and its span was not exported. */
      let hasLostEnd = false;
      const noteKill = async (stopped: Promise<CrashPoint>) => {
        killedAt.push(await stopped);
        // Of two concurrent writes, one can be stored and not acknowledged when the process dies before the other.
        const ended = exported().filter(({ name }) => name === "invoke_agent").length;
        const [records = []] = await host.read([{ table: "records", prefix: [] }]);
        hasLostEnd ||= records.filter(({ key }) => key.at(-1) === "ended").length > ended;
      };
      const report = await crashMatrix(
        {
          ...scenario,
          engines: (process) => {
            void noteKill(process.stopped);
            return scenario.engines(process);
          },
        },
        {
          open: async () => ({
            host: (host = memoryStorage()),
            reopen: null,
            close: async () => {
              // A process that dies between a commit and the export of its spans exports them never; no other process
              // can know.
              const isExportLost = hasLostEnd || killedAt.some(({ kind }) => kind === "after_write");
              const points = killedAt.map(({ number, kind, what }) => `${number} ${kind} ${what}`).join(", ");
              for (const defect of defectsOf(exported())) {
                if (!isExportLost || defect.endsWith("twice")) broken.push(`${defect} (killed at ${points})`);
              }
              exporter.reset();
              killedAt = [];
              hasLostEnd = false;
            },
          }),
          ...(everyPoint ? { every: 2, again: 128, away: 16 } : { every: 40, away: 80 }),
        },
      );
      expect(broken).toEqual([]);
      expect(report.broken).toEqual([]);
    },
  );
});

function deferred(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  const resolvers: (() => void)[] = [];
  const promise = new Promise<void>((resolve) => void resolvers.push(resolve));
  return { promise, resolve: () => resolvers.forEach((resolve) => resolve()) };
}
