// The encoding of unusual runs: what is sent when, and what is held back.

import type { Adapter, Engine, JsonObject } from "everturn";
import type { CodeExecutor, ModelEvent } from "everturn/advanced";

import { engine, fail, halt, assistant } from "everturn";
import { toolCall } from "everturn/advanced";
import { describe, expect, test } from "vitest";

import { calls, plain, playing, says } from "../../../../test/runs.ts";
import { openaiChat } from "./chat.ts";

const hi = { role: "user", content: "Hi!" };
const weather = { type: "function", function: { name: "weather" } };

/** Collects a stream: its text chunks, its call chunks, and how it ended. */
async function streamed(servedEngine: Engine, fields: JsonObject = {}) {
  const answered = await openaiChat({ m: servedEngine }, { model: "m", messages: [hi], stream: true, ...fields });
  if (answered.type === "reply") return { pieces: [], end: answered.body, calls: [] };
  const pieces: string[] = [];
  const callChunks: unknown[] = [];
  let end: unknown = null;
  for await (const frame of answered.frames) {
    const text = frame.replace(/^data: /, "").trim();
    if (text === "[DONE]") continue;
    const { choices, error } = JSON.parse(text);
    const { delta = {}, finish_reason: finish = null } = choices?.[0] ?? {};
    if (typeof delta.content === "string" && delta.content !== "") pieces.push(delta.content);
    callChunks.push(...(delta.tool_calls ?? []));
    end = error ?? finish ?? end;
  }
  return { pieces, end, calls: callChunks };
}

async function completed(servedEngine: Engine, fields: JsonObject = {}) {
  const answered = await openaiChat({ m: servedEngine }, { model: "m", messages: [hi], ...fields });
  if (answered.type !== "reply") throw new Error("no reply");
  return answered;
}

const schema = { type: "json_schema", json_schema: { name: "sky", schema: { type: "object" } } };

describe("text that is held back", () => {
  test("none, if the run has only one reply", async () => {
    const { engine } = playing([[...says('{"sky":'), ...says('"clear"}')]]);
    expect(await streamed(engine, { response_format: schema })).toMatchObject({
      pieces: ['{"sky":', '"clear"}'],
      end: "stop",
    });
  });

  test("text before a structured finalize pass", async () => {
    const of = () =>
      playing([says("It is clear."), says('{"sky":"clear"}')], [], { options: { structuredFinalize: true } }).engine;
    expect(await streamed(of(), { response_format: schema })).toMatchObject({
      pieces: ['{"sky":"clear"}'],
      end: "stop",
    });
    const { body } = await completed(of(), { response_format: schema });
    expect(body).toMatchObject({ choices: [{ message: { content: '{"sky":"clear"}' } }] });
  });

  test("code that the engine writes; its value is the answer", async () => {
    const executor: CodeExecutor = {
      name: "scripted",
      version: "1",
      language: "javascript",
      run: async () => ({
        type: "finished",
        observations: [],
        error: null,
        finish: { type: "value", value: { n: 4 } },
      }),
    };
    const of = () =>
      playing([says("```javascript\nfinish({ n: 4 })\n```")], [], { protocol: { type: "code", executor } });
    expect(await streamed(of().engine)).toMatchObject({ pieces: ['{"n":4}'], end: "stop" });
    expect((await completed(of().engine)).body).toMatchObject({ choices: [{ message: { content: '{"n":4}' } }] });
    expect(await completed(of().engine, { tools: [weather] })).toMatchObject({
      status: 400,
      body: { error: { param: "tools", code: "unsupported_parameter" } },
    });
  });
});

test("sends a reply that arrives without deltas", async () => {
  const toolCalls = [toolCall({ id: "c0", name: "weather", arguments: { n: 1 } })];
  const message = assistant("Wait.", { toolCalls });
  const completed: ModelEvent = {
    type: "message_completed",
    message,
    finishReason: "tool_calls",
    rawFinishReason: null,
    requestId: null,
    responseId: null,
    model: null,
    route: null,
    output: null,
    metadata: {},
  };
  const adapter: Adapter = {
    provider: "sudden",
    async *stream() {
      yield [completed];
    },
  };
  const collected = await streamed(engine({ adapter, model: "m" }), { tools: [weather] });
  expect(collected).toEqual({
    pieces: ["Wait."],
    end: "tool_calls",
    calls: [
      { index: 0, id: "c0", type: "function", function: { name: "weather", arguments: "" } },
      { index: 0, function: { arguments: '{"n":1}' } },
    ],
  });
});

test("does not show an attempt that failed before any output", async () => {
  const fails = [{ type: "error", reason: "provider_unavailable" }] as const;
  const retry = { baseDelayMs: 0, jitterMs: 0 };
  const { engine, clock } = playing([fails, says("Here.")], [], { retry });
  const asked = streamed(engine);
  await expect.poll(() => clock.sleepers).toBe(1);
  await clock.advance(0);
  expect(await asked).toMatchObject({ pieces: ["Here."], end: "stop" });
});

test("shows warnings beside the reason of the end, and no list without warnings", async () => {
  const warning = { reason: "unsupported", path: "seed", message: "seed is not sent: the API has no seed" } as const;
  const warned = playing([[{ type: "warning", warning }, ...says("Here.")]]);
  expect((await completed(warned.engine)).body["everturn"]).toEqual({
    halted_reason: "completed",
    warnings: [warning],
  });
  const { body } = await completed(playing([says("Here.")]).engine);
  expect(body["everturn"]).toEqual({ halted_reason: "completed" });
});

describe("endings of a run", () => {
  test("a tool of the engine that halts the run: the text so far", async () => {
    const { engine } = playing([[...says("I look."), ...calls("look")]], [plain("look", () => halt("enough", "cat"))]);
    const { body } = await completed(engine);
    expect(body).toMatchObject({
      choices: [{ finish_reason: "stop", message: { content: "I look." } }],
      everturn: { halted_reason: "enough" },
    });
  });

  test("a tool of the engine that fails: its reason without its message", async () => {
    const broken = plain("look", () => fail("db-7.internal is down"));
    const { engine } = playing([calls("look")], [broken], { options: { onToolError: "halt" } });
    const { status, headers, body } = await completed(engine);
    expect({ status, headers, body }).toEqual({
      status: 500,
      headers: { "x-should-retry": "false" },
      body: {
        error: {
          message: "a tool of this model failed: handler_failed",
          type: "server_error",
          param: null,
          code: "handler_failed",
        },
      },
    });
  });

  test("a call of an unknown tool", async () => {
    const { engine } = playing([calls("nothing")]);
    expect(await completed(engine, { tools: [weather] })).toMatchObject({
      status: 502,
      body: { error: { code: "unknown_tool" } },
    });
  });

  test("a pending call of the engine's tool, also beside calls of the client's tools", async () => {
    const pay = { ...plain("pay", () => "paid"), manual: true };
    const { engine } = playing([calls("pay", "weather")], [pay]);
    expect(await completed(engine, { tools: [weather] })).toMatchObject({
      status: 422,
      body: { error: { code: "manual_tool_calls" } },
    });
  });

  test("an engine without an adapter", async () => {
    expect(await completed(engine({ model: "m" }))).toMatchObject({
      status: 500,
      body: { error: { code: "missing_adapter", type: "server_error" } },
    });
  });

  test("a rate limit of the provider: its Retry-After is passed on", async () => {
    const busy = [{ type: "error", reason: "rate_limited", retryAfterMs: 1500 }] as const;
    const { engine } = playing([busy], [], { retry: false });
    expect(await completed(engine)).toMatchObject({
      status: 429,
      headers: { "retry-after": "2", "retry-after-ms": "1500" },
      body: { error: { code: "rate_limited", type: "rate_limit_error" } },
    });
  });

  test("unknown usage: the field is absent", async () => {
    const { body } = await completed(playing([says("ok")]).engine);
    expect(body).not.toHaveProperty("usage");
  });
});
