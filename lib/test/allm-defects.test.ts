// Known defects of ALLM (G1 to G35), each as the corrected behaviour. Defects that are tested beside their code are not
// repeated here: the last test checks that a test names each of them.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import {
  anthropic,
  chat,
  engine,
  fail,
  fake,
  generate,
  generateImage,
  halt,
  openai,
  openaiImages,
  step,
  stream,
  streamGenerate,
  subscribe,
  tool,
  fromJson,
  messageText,
  orThrow,
  toJson,
  user,
  session as sessions,
} from "everturn";
import { request, Collector, totalTokens } from "everturn/advanced";
import { embed, openaiEmbeddings } from "everturn/middleware";
import { handClock, transcript } from "everturn/testing";
import { expect, test } from "vitest";

import { calls, plain, playing, says } from "./runs.ts";

const ok = plain("ok", () => "fine");

test("G1: the model of the call takes precedence over those of the request and the engine", async () => {
  const { engine: of, adapter } = playing([says("A")], [], { model: "engine" });
  await generate(of, request([user("hi")], { model: "request" }), { model: "call" });
  expect(adapter.calls[0]?.request.model).toBe("call");
});

test("G3: settings of the engine reach the request of every verb", async () => {
  const { engine: of, adapter } = playing([says("A"), says("B")], [], {
    params: { temperature: 0.3, maxTokens: 2000 },
  });
  await generate(of, "hi");
  await sessions.start(of, "hi");
  for (const { request: asked } of adapter.calls) expect(asked).toMatchObject({ temperature: 0.3, maxTokens: 2000 });
});

test("G6: an unknown tool ends a streamed run like an awaited one, without another model call", async () => {
  const { engine: of, adapter } = playing([calls("missing"), says("never")], [ok]);
  expect((await transcript(stream(of, "hi"))).at(-1)).toBe("chat_completed error");
  expect(adapter.remaining).toBe(1);
});

test("[allm 62] G7: a reply with an unknown finish reason ends the run", async () => {
  const { engine: of, adapter } = playing([
    [
      { type: "text", text: "A" },
      { type: "finish", reason: "other" },
    ],
    says("never"),
  ]);
  expect(await chat(of, "hi")).toMatchObject({ haltedReason: "completed", outcome: { type: "other" } });
  expect(adapter.remaining).toBe(1);
});

test("G8: two tools that halt in one reply are both answered", async () => {
  const { engine: of } = playing([calls("stop", "stop")], [plain("stop", () => halt("enough", "x"))]);
  const events = stream(of, "hi");
  await transcript(events);
  expect((await events.result).thread.messages.slice(2)).toMatchObject([{ toolCallId: "c0" }, { toolCallId: "c1" }]);
});

test("G10: a preflight failure of a later step is an error event and the end of the run, also in a stream", async () => {
  const { engine: of } = playing([calls("ok"), [{ type: "preflight_error", reason: "authentication_failed" }]], [ok]);
  expect((await transcript(stream(of, "hi"))).slice(-3)).toEqual([
    "error authentication_failed",
    "step_completed error",
    "chat_completed error",
  ]);
});

test("G12: tool_execution_started is emitted while the tool runs", async () => {
  const order: string[] = [];
  const slow = plain("slow", async () => {
    await new Promise((resolve) => setTimeout(resolve, 5));
    order.push("ended");
  });
  for await (const { type } of stream(playing([calls("slow"), says("ok")], [slow]).engine, "hi")) {
    if (type === "tool_execution_started") order.push("started");
  }
  expect(order).toEqual(["started", "ended"]);
});

test("G15: a handler gets the request id, streamed or not", async () => {
  const seen: string[] = [];
  const looks = tool({
    name: "looks",
    description: "Looks.",
    schema: { type: "object" },
    handler: (_, { requestId }) => void seen.push(requestId),
  });
  await chat(playing([calls("looks"), says("ok")], [looks]).engine, "hi", { requestId: "a" });
  await transcript(stream(playing([calls("looks"), says("ok")], [looks]).engine, "hi", { requestId: "b" }));
  expect(seen).toEqual(["a", "b"]);
});

test("G18: a session can be stored after any run, with hints of a question and lists of issues", async () => {
  const bad = playing([says("no json")]);
  const { session } = await sessions.start(bad.engine, "hi", { output: { type: "object", required: ["x"] } });
  expect(session.status).toBe("error");
  expect(orThrow(fromJson(toJson("session", session), { as: "session" }))).toEqual(session);
});

test("G24: text_completed replaces the text of its own block only", () => {
  const collector = new Collector();
  const whole = { phase: null, provider: null };
  collector.add({ type: "text_delta", id: "a", delta: "one " });
  collector.add({ type: "text_completed", id: "a", text: "one ", ...whole });
  collector.add({ type: "text_delta", id: "b", delta: "tw" });
  collector.add({ type: "text_completed", id: "b", text: "two", ...whole });
  expect(collector.text).toBe("one two");
});

test("G27: the reply keeps reasoning, model name and route", async () => {
  const { engine: of } = playing([
    [
      { type: "reasoning", text: "hm" },
      { type: "text", text: "A" },
    ],
  ]);
  const { finalResponse, thread } = await chat(of, "hi");
  expect(finalResponse).toMatchObject({ model: "fake:m", route: { provider: "fake", model: "fake:m" } });
  expect(thread.messages[1]?.content).toMatchObject([
    { type: "reasoning", text: "hm" },
    { type: "text", text: "A" },
  ]);
});

test("G29: the span of a stream lasts until the stream ends", async () => {
  const types: string[] = [];
  const stop = subscribe((event) => {
    if ("name" in event && event.name === "chat") types.push(event.type);
  });
  for await (const { type } of stream(playing([says("A")]).engine, "hi")) types.push(type);
  stop();
  expect([types[0], types.at(-1)]).toEqual(["start", "stop"]);
  expect(types.indexOf("text_delta")).toBeLessThan(types.indexOf("stop"));
});

test("G30: a run can be cancelled by a signal and limited by a budget", async () => {
  const controller = new AbortController();
  const stops = plain("stops", () => controller.abort("enough"));
  const { engine: of } = playing([calls("stops"), says("never")], [stops]);
  expect((await chat(of, "hi", { signal: controller.signal })).haltedReason).toBe("cancelled");
  const loops = playing([calls("ok"), calls("ok"), calls("ok")], [ok]);
  expect((await chat(loops.engine, "hi", { budgets: { steps: 2 } })).haltedReason).toBe("budget");
});

test("G32: tool options of a call can be set on the engine", async () => {
  const bad = plain("bad", () => fail("no"));
  const { engine: of } = playing([calls("bad")], [bad], { options: { onToolError: "halt" } });
  expect((await chat(of, "hi")).haltedReason).toBe("tool_error");
  const manual = playing([calls("ok")], [ok], { options: { mode: "manual" } });
  expect((await chat(manual.engine, "hi")).haltedReason).toBe("manual_tool_calls");
});

test("G33: fake scripts are strict: an error ends the stream, and adapters do not share a position", async () => {
  const script = [{ type: "text", text: "A" }] as const;
  const [one, two] = [fake({ script }), fake({ script })];
  expect((await generate(engine({ adapter: one }), "hi")).finishReason).toBe("stop");
  expect((await generate(engine({ adapter: two }), "hi")).outputText).toBe("A");
  const failed = fake({
    script: [
      { type: "error", reason: "invalid_request" },
      { type: "text", text: "never" },
    ],
  });
  expect((await generate(engine({ adapter: failed }), "hi")).outputText).toBe("");
});

/** A `fetch` that records the bodies of its requests and returns these streams of events in order. */
function streaming(...replies: readonly (readonly object[])[]) {
  const bodies: Record<string, unknown>[] = [];
  const fetch = async (_: unknown, init?: RequestInit): Promise<Response> => {
    bodies.push(JSON.parse(String(init?.body)));
    const events = replies[bodies.length - 1] ?? [];
    const text = events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("");
    return new Response(text, { headers: { "content-type": "text/event-stream" } });
  };
  return { bodies, fetch };
}

/** The events of a reply of Anthropic with one block. */
function anthropicReply(block: object, delta: object, stopReason: string): readonly object[] {
  const usage = { input_tokens: 10, cache_read_input_tokens: 30, output_tokens: 1 };
  return [
    { type: "message_start", message: { id: "m", type: "message", role: "assistant", content: [], usage } },
    { type: "content_block_start", index: 0, content_block: block },
    { type: "content_block_delta", index: 0, delta },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: stopReason }, usage: { output_tokens: 5 } },
    { type: "message_stop" },
  ];
}

test("G28: streamed usage is requested from OpenAI, and the cached and total tokens of Anthropic are reported", async () => {
  const counted = { prompt_tokens: 7, completion_tokens: 2, total_tokens: 9 };
  const openaiServer = streaming([
    { id: "r", choices: [{ index: 0, delta: { content: "Hi" }, finish_reason: null }] },
    { id: "r", choices: [{ index: 0, delta: {}, finish_reason: "stop" }] },
    { id: "r", choices: [], usage: counted },
  ]);
  const adapter = openai({ apiKey: "k", api: "chat", fetch: openaiServer.fetch });
  const reply = await generate(engine({ adapter, model: "gpt-5" }), "hi");
  expect(openaiServer.bodies[0]).toMatchObject({ stream_options: { include_usage: true } });
  expect(reply.usage).toMatchObject({ inputTokens: 7, outputTokens: 2, totalTokens: 9 });
  const { fetch } = streaming(
    anthropicReply({ type: "text", text: "" }, { type: "text_delta", text: "Hi" }, "end_turn"),
  );
  const { usage } = await generate(engine({ adapter: anthropic({ apiKey: "k", fetch }), model: "claude" }), "hi");
  expect(usage).toMatchObject({ inputTokens: 40, cachedInputTokens: 30, outputTokens: 5 });
  expect(totalTokens(usage)).toBe(45);
});

test("G31: images and embeddings have one retry loop: three attempts send three requests", async () => {
  let requests = 0;
  const refusing = async (): Promise<Response> => {
    requests += 1;
    return new Response('{"error":{"message":"busy"}}', { status: 503 });
  };
  const clock = handClock();
  const retry = { maxAttempts: 3, baseDelayMs: 1, jitterMs: 0 };
  const imageAdapter = openaiImages({ apiKey: "k", fetch: refusing });
  const drawing = generateImage(engine({ imageAdapter, model: "gpt-image-1", clock, retry }), "a cat");
  const failed = expect(drawing).rejects.toMatchObject({ failure: { reason: "provider_unavailable" } });
  await clock.advance(1000);
  await failed;
  expect(requests).toBe(3);
  requests = 0;
  const model = openaiEmbeddings({ model: "text-embedding-3-small", apiKey: "k", fetch: refusing });
  const embedding = expect(embed(model, "hi", { retry, clock })).rejects.toMatchObject({
    failure: { reason: "provider_unavailable" },
  });
  await clock.advance(1000);
  await embedding;
  expect(requests).toBe(3);
});

test("G34: a missing key is the typed failure of every verb, and no verb throws when it is called", async () => {
  const adapter = openai({ apiKey: () => null, fetch: () => Promise.reject(new Error("sent")) });
  const of = engine({ adapter, model: "gpt-5", imageAdapter: openaiImages({ apiKey: () => null }) });
  const missing = { name: "EngineError", failure: { type: "engine_error", reason: "missing_key", provider: "openai" } };
  const runs: readonly (() => Promise<unknown>)[] = [
    () => generate(of, "hi"),
    () => step(of, "hi"),
    () => chat(of, "hi"),
    () => sessions.start(of, "hi"),
    () => generateImage(of, "a cat"),
    () => transcript(streamGenerate(of, "hi")),
    () => stream(of, "hi").result,
  ];
  for (const run of runs) {
    // A verb that throws when it is called throws here, and not in the promise.
    const promise = run();
    await expect(promise).rejects.toMatchObject(missing);
  }
  let key: string | null = "k";
  const reply = anthropicReply(
    { type: "tool_use", id: "c", name: "ok", input: {} },
    { type: "input_json_delta", partial_json: "{}" },
    "tool_use",
  );
  const lost = anthropic({ apiKey: () => key, fetch: streaming(reply).fetch });
  const revoke = plain("ok", () => void (key = null));
  const result = await chat(engine({ adapter: lost, model: "claude", tools: [revoke] }), "hi");
  expect(result).toMatchObject({ haltedReason: "error", metadata: { error: { reason: "missing_key" } } });
  expect(result.steps).toHaveLength(2);
});

test("G35: with Anthropic the tools of the program can be called beside a JSON Schema of the answer", async () => {
  const { bodies, fetch } = streaming(
    anthropicReply(
      { type: "tool_use", id: "c", name: "ok", input: {} },
      { type: "input_json_delta", partial_json: "{}" },
      "tool_use",
    ),
    anthropicReply({ type: "text", text: "" }, { type: "text_delta", text: '{"sky":"clear"}' }, "end_turn"),
  );
  let runs = 0;
  const counted = plain("ok", () => (runs += 1));
  const of = engine({ adapter: anthropic({ apiKey: "k", fetch }), model: "claude", tools: [counted] });
  const output = { type: "object", properties: { sky: { type: "string" } }, required: ["sky"] };
  const result = await chat(of, "hi", { output });
  expect([runs, result.output]).toEqual([1, { sky: "clear" }]);
  for (const body of bodies) {
    expect(body).toMatchObject({ tools: [{ name: "ok" }], output_config: { format: { type: "json_schema" } } });
    expect(body).not.toHaveProperty("tool_choice");
  }
});

test("a test names each defect from G1 to G35", () => {
  const library = join(import.meta.dirname, "..");
  const files = readdirSync(library, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".test.ts"));
  const titles = files.flatMap((name) =>
    [
      ...readFileSync(join(library, name), "utf8").matchAll(
        /\b(?:test|describe)(?:\.each\([^]*?\))?\(\s*["`](.*?)["`]/g,
      ),
    ].map(([, title = ""]) => title),
  );
  const numbers = Array.from({ length: 35 }, (_, index) => index + 1);
  expect(numbers.filter((number) => !titles.some((title) => title.includes(`G${number}:`)))).toEqual([]);
});

test("the thread keeps the text of a reply that failed", async () => {
  const { engine: of } = playing([
    [
      { type: "text", text: "Hel" },
      { type: "error", reason: "invalid_request" },
    ],
  ]);
  expect((await chat(of, "hi")).thread.messages.map(messageText)).toEqual(["hi", "Hel"]);
});
