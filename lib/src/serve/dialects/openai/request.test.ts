// Posted chat completions: how they are read, which are rejected with which place, and that any JSON gets one of the
// two.

import type { Json, JsonObject } from "everturn";

import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { playing, says } from "../../../../test/runs.ts";
import { openaiChat } from "./chat.ts";
import { readOpenaiRequest } from "./request.ts";

const hi = { role: "user", content: "Hi!" };
const weather = { type: "function", function: { name: "weather", parameters: { type: "object" }, strict: true } };
const call = { id: "c1", type: "function", function: { name: "weather", arguments: '{"city":"Rome"}' } };
const answer = { role: "tool", tool_call_id: "c1", content: "sunny" };

/** A request with every field, so that each place can be mutated. */
const fullRequest: JsonObject = {
  model: "m",
  messages: [
    { role: "system", content: "Be brief.", name: "ops" },
    { role: "developer", content: [{ type: "text", text: "Be kind." }] },
    {
      role: "user",
      content: [
        { type: "text", text: "What is this?" },
        { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=", detail: "low" } },
        { type: "image_url", image_url: { url: "https://example.com/cat.png" } },
        { type: "input_audio", input_audio: { data: "AAAA", format: "mp3" } },
        { type: "file", file: { file_data: "data:application/pdf;base64,JVBERi0=", filename: "cat.pdf" } },
      ],
    },
    { role: "assistant", content: null, tool_calls: [call], refusal: null, annotations: [], parsed: null },
    { ...answer, content: [{ type: "text", text: "sunny" }] },
    { role: "assistant", content: [{ type: "refusal", refusal: "No." }] },
    hi,
  ],
  tools: [weather],
  tool_choice: { type: "function", function: { name: "weather" } },
  parallel_tool_calls: true,
  response_format: { type: "json_schema", json_schema: { name: "sky", schema: { type: "object" }, strict: true } },
  temperature: 1,
  top_p: 1,
  max_tokens: 10,
  max_completion_tokens: 10,
  stop: ["END"],
  seed: 1,
  reasoning_effort: "low",
  stream: false,
  stream_options: { include_usage: true, include_obfuscation: false },
  n: 1,
  logprobs: false,
  store: false,
  service_tier: "auto",
  frequency_penalty: 0,
  presence_penalty: 0,
  logit_bias: {},
  modalities: ["text"],
  verbosity: "medium",
  metadata: { a: "b" },
  user: "ada",
  safety_identifier: "x",
  prompt_cache_key: "k",
  prompt_cache_retention: "24h",
  prediction: { type: "content", content: "x" },
};

/** An engine with one scripted reply. */
const engines = () => ({ m: playing([says("ok")]).engine });

describe("a posted request", () => {
  test("becomes a request of the library, one message for each posted message", () => {
    const read = readOpenaiRequest(fullRequest, undefined, true);
    if (!read.ok) throw new Error(read.failure.error.message);
    const { messages, tools, params, ...rest } = read.value;
    expect(messages.map(({ role, name }) => [role, name])).toEqual([
      ["system", "ops"],
      ["system", null],
      ["user", null],
      ["assistant", null],
      ["tool", null],
      ["assistant", null],
      ["user", null],
    ]);
    expect(messages[3]).toMatchObject({
      content: "",
      toolCalls: [{ id: "c1", arguments: { city: "Rome" }, rawArguments: '{"city":"Rome"}' }],
    });
    expect(messages[5]?.content).toMatchObject([{ type: "text", text: "No.", kind: "refusal" }]);
    expect(tools).toMatchObject([{ name: "weather", manual: true, hasHandler: false, metadata: { strict: true } }]);
    expect(params).toEqual({
      temperature: 1,
      topP: 1,
      maxTokens: 10,
      stopSequences: ["END"],
      seed: 1,
      parallelToolCalls: true,
      reasoningEffort: "low",
    });
    expect(rest).toEqual({
      model: "m",
      toolChoice: { type: "tool", name: "weather" },
      responseFormat: { type: "json_schema", name: "sky", schema: { type: "object" }, strict: true },
      stream: false,
      includeUsage: true,
    });
  });

  test("may have null for every optional field", () => {
    const nulls = Object.fromEntries(Object.keys(fullRequest).map((name) => [name, null]));
    expect(readOpenaiRequest({ ...nulls, model: "m", messages: [hi] })).toEqual(
      readOpenaiRequest({ model: "m", messages: [hi] }),
    );
  });

  test("keeps call arguments exactly if they are not JSON", () => {
    const broken = { ...call, function: { name: "weather", arguments: '{"city":' } };
    const read = readOpenaiRequest({ model: "m", messages: [{ role: "assistant", tool_calls: [broken] }, answer] });
    expect(read).toMatchObject({
      value: { messages: [{ toolCalls: [{ arguments: null, rawArguments: '{"city":' }] }, {}] },
    });
  });
});

const image = (url: string) => ({ messages: [{ role: "user", content: [{ type: "image_url", image_url: { url } }] }] });
const file = (given: Json) => ({ messages: [{ role: "user", content: [{ type: "file", file: given }] }] });
const tools = (...names: readonly string[]) => ({
  tools: names.map((name) => ({ type: "function", function: { name } })),
});
const deep = JSON.parse(`${'{"a":'.repeat(500)}1${"}".repeat(500)}`);

describe("rejected requests name the invalid place", () => {
  test.each<[string, JsonObject, string | null, string]>([
    ["no model", { model: null }, "model", "invalid_type"],
    ["no messages", { messages: [] }, "messages", "empty"],
    ["messages that are not a list", { messages: "Hi!" }, "messages", "invalid_type"],
    ["an unknown field", { top_k: 4 }, "top_k", "unknown_field"],
    ["an unknown role", { messages: [{ role: "function", content: "x" }] }, "messages[0].role", "unknown"],
    [
      "an unknown part type",
      { messages: [{ role: "user", content: [{ type: "video" }] }] },
      "messages[0].content[0].type",
      "unknown",
    ],
    ["an unknown field of a message", { messages: [{ ...hi, contnt: "x" }] }, "messages[0].contnt", "unknown_field"],
    ["a local image file", image("file:///etc/passwd"), "messages[0].content[0].image_url.url", "invalid_image"],
    [
      "an image of a text type",
      image("data:text/plain;base64,AAAA"),
      "messages[0].content[0].image_url.url",
      "invalid_image",
    ],
    [
      "an image that is not base64",
      image("data:image/png;base64,%00"),
      "messages[0].content[0].image_url.url",
      "invalid_image",
    ],
    [
      "a file of the provider's account",
      file({ file_id: "file-1" }),
      "messages[0].content[0].file.file_id",
      "unknown_field",
    ],
    ["a tool result without a call", { messages: [answer] }, "messages[0].tool_call_id", "invalid_thread"],
    [
      "a call without a result",
      { messages: [{ role: "assistant", tool_calls: [call] }] },
      "messages[0].tool_calls[0]",
      "invalid_thread",
    ],
    [
      "two calls with one id",
      { messages: [{ role: "assistant", tool_calls: [call, call] }, answer, answer] },
      "messages[0].tool_calls[1]",
      "invalid_thread",
    ],
    [
      "arguments that are nested too deeply",
      {
        messages: [
          { role: "assistant", tool_calls: [{ ...call, function: { name: "f", arguments: JSON.stringify(deep) } }] },
          answer,
        ],
      },
      "messages[0].tool_calls[0].function.arguments",
      "too_deep",
    ],
    [
      "a schema that is nested too deeply",
      { tools: [{ type: "function", function: { name: "f", parameters: deep } }] },
      "tools[0].function.parameters",
      "too_deep",
    ],
    ["an invalid tool name", tools("get weather"), "tools[0].function.name", "invalid_format"],
    ["a reserved tool name", tools("auto"), "tools[0].function.name", "invalid_format"],
    ["two tools with one name", tools("a", "b", "a"), "tools[2].function.name", "duplicate_name"],
    ["too many tools", tools(...Array.from({ length: 129 }, (_, n) => `t${n}`)), "tools", "too_large"],
    [
      "a deprecated function_call",
      { messages: [{ role: "assistant", function_call: { name: "f" } }] },
      "messages[0].function_call",
      "unknown_field",
    ],
    ["a custom tool", { tools: [{ type: "custom", custom: { name: "x" } }] }, "tools[0].custom", "unknown_field"],
    ["tool_choice without tools", { tool_choice: "required" }, "tool_choice", "empty"],
    [
      "tool_choice of an unknown tool",
      { ...tools("a"), tool_choice: { type: "function", function: { name: "b" } } },
      "tool_choice",
      "unknown",
    ],
    ["n of 2", { n: 2 }, "n", "unsupported_value"],
    ["logprobs", { logprobs: true }, "logprobs", "unsupported_value"],
    ["audio", { audio: { voice: "ash" } }, "audio", "unsupported_parameter"],
    ["functions", { functions: [] }, "functions", "unsupported_parameter"],
    ["store", { store: true }, "store", "unsupported_value"],
    ["web search", { web_search_options: {} }, "web_search_options", "unsupported_parameter"],
    ["a base URL", { base_url: "http://evil.example" }, "base_url", "unknown_field"],
    ["an API key", { api_key: "sk-1" }, "api_key", "unknown_field"],
    ["headers", { extra_headers: { a: "b" } }, "extra_headers", "unknown_field"],
    ["a temperature out of range", { temperature: 2.1 }, "temperature", "out_of_range"],
    ["max_tokens of 0", { max_tokens: 0 }, "max_tokens", "must_be_positive"],
    ["too many stop sequences", { stop: ["a", "b", "c", "d", "e"] }, "stop", "too_large"],
    ["an unknown response format", { response_format: { type: "xml" } }, "response_format.type", "unknown"],
  ])("%s", async (_, mutated, param, code) => {
    const answered = await openaiChat(engines(), { model: "m", messages: [hi], ...mutated });
    if (answered.type !== "reply") throw new Error("no reply");
    const { error } = answered.body;
    expect({ status: answered.status, error }).toMatchObject({
      status: 400,
      error: { type: "invalid_request_error", code, message: expect.any(String) },
    });
    // An issue inside of a nested value names the nested place.
    expect(error).toHaveProperty("param", code === "too_deep" ? expect.stringContaining(param ?? "") : param);
  });

  test.each([[null], ["text"], [[]], [1], [true]])("a body of %j", async (body) => {
    expect(await openaiChat(engines(), body)).toMatchObject({
      status: 400,
      body: { error: { type: "invalid_request_error", param: null } },
    });
  });
});

describe("generated requests", () => {
  /** Expects a completion, or an error that the client can correct. */
  async function expectAnswer(body: unknown): Promise<void> {
    const errors: unknown[] = [];
    const answered = await openaiChat(engines(), body, { onError: (error) => errors.push(error) });
    expect(errors).toEqual([]);
    if (answered.type === "reply") {
      expect([200, 400, 404]).toContain(answered.status);
      if (answered.status !== 200) {
        expect(answered.body["error"]).toEqual({
          message: expect.stringMatching(/./),
          type: "invalid_request_error",
          param:
            answered.status === 404
              ? "model"
              : expect.toSatisfy((param) => param === null || typeof param === "string"),
          code: expect.any(String),
        });
      }
      return;
    }
    let text = "";
    for await (const frame of answered.frames) text += frame;
    const frames = text.split("\n\n").slice(0, -1);
    expect(frames.at(-1)).toBe("data: [DONE]");
    for (const frame of frames.slice(0, -1))
      expect(JSON.parse(frame.replace("data: ", ""))).not.toHaveProperty("error");
  }

  // Values that have a meaning at some place of a body.
  const unusualValues = fc.constantFrom<Json>(
    "",
    "text",
    "function",
    "assistant",
    "data:image/png;base64,",
    "{}",
    "[1]",
    -1,
    1e308,
    0.5,
    [],
    {},
    { "~standard": { validate: 1, jsonSchema: { input: 5 } } },
    { type: "text" },
    { $ref: "#" },
    JSON.parse('{"__proto__":{"toString":1},"constructor":{"prototype":1}}'),
  );
  const anything = fc.oneof(
    unusualValues,
    fc.jsonValue({ maxDepth: 3 }).map((value): Json => JSON.parse(JSON.stringify(value))),
  );
  const paths = [...pathsIn(fullRequest)];

  test("any JSON at any place of a body is answered or rejected", async () => {
    const mutation = fc.tuple(fc.constantFrom(...paths), anything, fc.constantFrom("replace", "remove", "add"));
    await fc.assert(
      fc.asyncProperty(fc.array(mutation, { minLength: 1, maxLength: 3 }), fc.boolean(), async (mutations, stream) => {
        const body = mutations.reduce<Json>((given, [place, value, how]) => mutated(given, place, value, how), {
          ...fullRequest,
          stream,
        });
        await expectAnswer(body);
      }),
      { numRuns: 500 },
    );
  });

  test("unusual values at every single place of a body", async () => {
    for (const place of paths) {
      for (const value of fc.sample(unusualValues, { numRuns: 6, seed: 7 }))
        await expectAnswer(mutated(fullRequest, place, value, "replace"));
    }
  });

  test("any JSON as a body is answered or rejected", async () => {
    await fc.assert(fc.asyncProperty(anything, expectAnswer), { numRuns: 200 });
  });

  test("numbers out of range and deep nesting", async () => {
    await expectAnswer(JSON.parse('{"model":"m","messages":[{"role":"user","content":"x"}],"temperature":1e999}'));
    await expectAnswer(JSON.parse(`${"[".repeat(5000)}${"]".repeat(5000)}`));
    const nested = JSON.parse(`${'{"a":'.repeat(5000)}1${"}".repeat(5000)}`);
    for (const name of Object.keys(fullRequest)) await expectAnswer({ ...fullRequest, [name]: nested });
  });
});

type Path = readonly (string | number)[];

function* pathsIn(value: Json, at: Path = []): Generator<Path> {
  if (at.length > 0) yield at;
  if (typeof value !== "object" || value === null) return;
  for (const [key, inner] of Object.entries(value)) {
    yield* pathsIn(inner, [...at, Array.isArray(value) ? Number(key) : key]);
  }
}

/** The value with another one at a place; unchanged if the place does not exist. */
function mutated(value: Json, [key, ...rest]: Path, other: Json, how: "replace" | "remove" | "add"): Json {
  if (key === undefined) return how === "add" && isObject(value) ? { ...value, added: other } : other;
  if (Array.isArray(value)) {
    const items: readonly Json[] = value;
    if (rest.length === 0 && how === "remove") return items.filter((_, index) => index !== key);
    return items.map((item, index) => (index === key ? mutated(item, rest, other, how) : item));
  }
  if (!isObject(value) || !Object.hasOwn(value, key)) return value;
  if (rest.length === 0 && how === "remove") {
    return Object.fromEntries(Object.entries(value).filter(([name]) => name !== key));
  }
  return { ...value, [key]: mutated(value[key] ?? null, rest, other, how) };
}

function isObject(value: Json): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
