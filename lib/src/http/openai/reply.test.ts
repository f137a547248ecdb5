// The answers of less usual runs: what is shown when, and what is kept back.

import type { Adapter, CodeExecutor, Engine } from "everturn/engine";
import type { JsonObject, ModelEvent } from "everturn/model";

import { engine, fail, halt } from "everturn";
import { assistant, toolCall } from "everturn/model";
import { describe, expect, test } from "vitest";

import { calls, plain, playing, says } from "../../../test/runs.ts";
import { openaiChat } from "./chat.ts";

const hi = { role: "user", content: "Hi!" };
const weather = { type: "function", function: { name: "weather" } };

/** What a stream tells: its pieces of text, and how it ended. */
async function streamed(given: Engine, more: JsonObject = {}) {
  const said = await openaiChat({ m: given }, { model: "m", messages: [hi], stream: true, ...more });
  if (said.type === "reply") return { pieces: [], end: said.body, calls: [] };
  const pieces: string[] = [];
  const made: unknown[] = [];
  let end: unknown = null;
  for await (const frame of said.frames) {
    const text = frame.replace(/^data: /, "").trim();
    if (text === "[DONE]") continue;
    const { choices, error } = JSON.parse(text);
    const { delta = {}, finish_reason: finish = null } = choices?.[0] ?? {};
    if (typeof delta.content === "string" && delta.content !== "") pieces.push(delta.content);
    made.push(...(delta.tool_calls ?? []));
    end = error ?? finish ?? end;
  }
  return { pieces, end, calls: made };
}

async function whole(given: Engine, more: JsonObject = {}) {
  const said = await openaiChat({ m: given }, { model: "m", messages: [hi], ...more });
  if (said.type !== "reply") throw new Error("no reply");
  return said;
}

const schema = { type: "json_schema", json_schema: { name: "sky", schema: { type: "object" } } };

describe("what is held back", () => {
  test("nothing, where there is only one reply to wait for", async () => {
    const { engine } = playing([[...says('{"sky":'), ...says('"clear"}')]]);
    expect(await streamed(engine, { response_format: schema })).toMatchObject({
      pieces: ['{"sky":', '"clear"}'],
      end: "stop",
    });
  });

  test("what comes before an answer that has a call of its own", async () => {
    const of = () =>
      playing([says("It is clear."), says('{"sky":"clear"}')], [], { options: { structuredFinalize: true } }).engine;
    expect(await streamed(of(), { response_format: schema })).toMatchObject({
      pieces: ['{"sky":"clear"}'],
      end: "stop",
    });
    const { body } = await whole(of(), { response_format: schema });
    expect(body).toMatchObject({ choices: [{ message: { content: '{"sky":"clear"}' } }] });
  });

  test("the code an engine writes: what it came to is the answer", async () => {
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
    expect((await whole(of().engine)).body).toMatchObject({ choices: [{ message: { content: '{"n":4}' } }] });
    expect(await whole(of().engine, { tools: [weather] })).toMatchObject({
      status: 400,
      body: { error: { param: "tools", code: "unsupported_parameter" } },
    });
  });
});

test("a model that says everything at its end is heard too", async () => {
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
  const told = await streamed(engine({ adapter, model: "m" }), { tools: [weather] });
  expect(told).toEqual({
    pieces: ["Wait."],
    end: "tool_calls",
    calls: [
      { index: 0, id: "c0", type: "function", function: { name: "weather", arguments: "" } },
      { index: 0, function: { arguments: '{"n":1}' } },
    ],
  });
});

test("an attempt that failed before it showed anything is nobody's business", async () => {
  const fails = [{ type: "error", reason: "provider_unavailable" }] as const;
  const retry = { baseDelayMs: 0, jitterMs: 0 };
  const { engine, clock } = playing([fails, says("Here.")], [], { retry });
  const asked = streamed(engine);
  await expect.poll(() => clock.sleepers).toBe(1);
  await clock.advance(0);
  expect(await asked).toMatchObject({ pieces: ["Here."], end: "stop" });
});

describe("what ends a run", () => {
  test("a tool of the engine's that stops it, with what was said so far", async () => {
    const { engine } = playing([[...says("I look."), ...calls("look")]], [plain("look", () => halt("enough", "cat"))]);
    const { body } = await whole(engine);
    expect(body).toMatchObject({
      choices: [{ finish_reason: "stop", message: { content: "I look." } }],
      everturn: { halted_reason: "enough" },
    });
  });

  test("a tool of the engine's that fails, where that ends it: by its reason, not in its words", async () => {
    const broken = plain("look", () => fail("db-7.internal is down"));
    const { engine } = playing([calls("look")], [broken], { options: { onToolError: "halt" } });
    const { status, headers, body } = await whole(engine);
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

  test("a call of a tool nobody has", async () => {
    const { engine } = playing([calls("nothing")]);
    expect(await whole(engine, { tools: [weather] })).toMatchObject({
      status: 502,
      body: { error: { code: "unknown_tool" } },
    });
  });

  test("consent that is missing, also where the client has calls of its own to answer", async () => {
    const pay = { ...plain("pay", () => "paid"), manual: true };
    const { engine } = playing([calls("pay", "weather")], [pay]);
    expect(await whole(engine, { tools: [weather] })).toMatchObject({
      status: 422,
      body: { error: { code: "manual_tool_calls" } },
    });
  });

  test("an engine that cannot run at all", async () => {
    expect(await whole(engine({ model: "m" }))).toMatchObject({
      status: 500,
      body: { error: { code: "missing_adapter", type: "server_error" } },
    });
  });

  test("a provider that asks to wait: so is the client", async () => {
    const busy = [{ type: "error", reason: "rate_limited", retryAfterMs: 1500 }] as const;
    const { engine } = playing([busy], [], { retry: false });
    expect(await whole(engine)).toMatchObject({
      status: 429,
      headers: { "retry-after": "2", "retry-after-ms": "1500" },
      body: { error: { code: "rate_limited", type: "rate_limit_error" } },
    });
  });

  test("nobody knows what it cost: then nothing is said of it", async () => {
    const { body } = await whole(playing([says("ok")]).engine);
    expect(body).not.toHaveProperty("usage");
  });
});
