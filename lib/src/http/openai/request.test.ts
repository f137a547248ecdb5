// What may be posted as a chat completion, what is refused and where; and that nothing else can happen, whatever is posted.

import type { Json, JsonObject } from "everturn/model";

import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { playing, says } from "../../../test/runs.ts";
import { openaiChat } from "./chat.ts";
import { readOpenaiRequest } from "./request.ts";

const hi = { role: "user", content: "Hi!" };
const weather = { type: "function", function: { name: "weather", parameters: { type: "object" }, strict: true } };
const call = { id: "c1", type: "function", function: { name: "weather", arguments: '{"city":"Rome"}' } };
const answer = { role: "tool", tool_call_id: "c1", content: "sunny" };

/** Everything there is to say, so that there is something to spoil everywhere. */
const full: JsonObject = {
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

/** An engine that says one thing. */
const engines = () => ({ m: playing([says("ok")]).engine });

describe("what is posted", () => {
  test("becomes ours, one message for one message", () => {
    const read = readOpenaiRequest(full);
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

  test("may say null wherever it has nothing to say", () => {
    const nothing = Object.fromEntries(Object.keys(full).map((name) => [name, null]));
    expect(readOpenaiRequest({ ...nothing, model: "m", messages: [hi] })).toEqual(
      readOpenaiRequest({ model: "m", messages: [hi] }),
    );
  });

  test("may have arguments that are no JSON: they go back to the letter", () => {
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

describe("what is refused, and where", () => {
  test.each<[string, JsonObject, string | null, string]>([
    ["no model", { model: null }, "model", "invalid_type"],
    ["no messages", { messages: [] }, "messages", "empty"],
    ["messages that are none", { messages: "Hi!" }, "messages", "invalid_type"],
    ["a field nobody knows", { top_k: 4 }, "top_k", "unknown_field"],
    ["a role nobody has", { messages: [{ role: "function", content: "x" }] }, "messages[0].role", "unknown"],
    [
      "a part nobody has",
      { messages: [{ role: "user", content: [{ type: "video" }] }] },
      "messages[0].content[0].type",
      "unknown",
    ],
    ["a field of a message", { messages: [{ ...hi, contnt: "x" }] }, "messages[0].contnt", "unknown_field"],
    ["an image on disk", image("file:///etc/passwd"), "messages[0].content[0].image_url.url", "invalid_image"],
    [
      "an image that is text",
      image("data:text/plain;base64,AAAA"),
      "messages[0].content[0].image_url.url",
      "invalid_image",
    ],
    [
      "an image that is no base64",
      image("data:image/png;base64,%00"),
      "messages[0].content[0].image_url.url",
      "invalid_image",
    ],
    [
      "a file of somebody's at the provider",
      file({ file_id: "file-1" }),
      "messages[0].content[0].file.file_id",
      "unknown_field",
    ],
    ["an answer to no call", { messages: [answer] }, "messages[0].tool_call_id", "invalid_thread"],
    [
      "a call without an answer",
      { messages: [{ role: "assistant", tool_calls: [call] }] },
      "messages[0].tool_calls[0]",
      "invalid_thread",
    ],
    [
      "two calls of one id",
      { messages: [{ role: "assistant", tool_calls: [call, call] }, answer, answer] },
      "messages[0].tool_calls[1]",
      "invalid_thread",
    ],
    [
      "arguments beyond measure",
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
      "a schema beyond measure",
      { tools: [{ type: "function", function: { name: "f", parameters: deep } }] },
      "tools[0].function.parameters",
      "too_deep",
    ],
    ["a name that is none", tools("get weather"), "tools[0].function.name", "invalid_format"],
    ["a name that means something else", tools("auto"), "tools[0].function.name", "invalid_format"],
    ["two tools of one name", tools("a", "b", "a"), "tools[2].function.name", "duplicate_name"],
    ["more tools than there may be", tools(...Array.from({ length: 129 }, (_, n) => `t${n}`)), "tools", "too_large"],
    [
      "a call of long ago",
      { messages: [{ role: "assistant", function_call: { name: "f" } }] },
      "messages[0].function_call",
      "unknown_field",
    ],
    [
      "a tool of another kind",
      { tools: [{ type: "custom", custom: { name: "x" } }] },
      "tools[0].custom",
      "unknown_field",
    ],
    ["a choice among none", { tool_choice: "required" }, "tool_choice", "empty"],
    [
      "a choice nobody has",
      { ...tools("a"), tool_choice: { type: "function", function: { name: "b" } } },
      "tool_choice",
      "unknown",
    ],
    ["two choices", { n: 2 }, "n", "unsupported_value"],
    ["probabilities", { logprobs: true }, "logprobs", "unsupported_value"],
    ["a voice", { audio: { voice: "ash" } }, "audio", "unsupported_parameter"],
    ["functions", { functions: [] }, "functions", "unsupported_parameter"],
    ["to be stored", { store: true }, "store", "unsupported_value"],
    ["a web search", { web_search_options: {} }, "web_search_options", "unsupported_parameter"],
    ["a base URL", { base_url: "http://evil.example" }, "base_url", "unknown_field"],
    ["a key", { api_key: "sk-1" }, "api_key", "unknown_field"],
    ["headers", { extra_headers: { a: "b" } }, "extra_headers", "unknown_field"],
    ["too hot", { temperature: 2.1 }, "temperature", "out_of_range"],
    ["no tokens", { max_tokens: 0 }, "max_tokens", "must_be_positive"],
    ["many ends", { stop: ["a", "b", "c", "d", "e"] }, "stop", "too_large"],
    ["a format nobody has", { response_format: { type: "xml" } }, "response_format.type", "unknown"],
  ])("%s", async (_, spoilt, param, code) => {
    const said = await openaiChat(engines(), { model: "m", messages: [hi], ...spoilt });
    if (said.type !== "reply") throw new Error("no reply");
    const { error } = said.body;
    expect({ status: said.status, error }).toMatchObject({
      status: 400,
      error: { type: "invalid_request_error", code, message: expect.any(String) },
    });
    // A value that is wrong deep inside is named by its own place.
    expect(error).toHaveProperty("param", code === "too_deep" ? expect.stringContaining(param ?? "") : param);
  });

  test.each([[null], ["text"], [[]], [1], [true]])("a body that is %j", async (body) => {
    expect(await openaiChat(engines(), body)).toMatchObject({
      status: 400,
      body: { error: { type: "invalid_request_error", param: null } },
    });
  });
});

describe("whatever is posted", () => {
  /** What clients may count on: an answer, or an error that is theirs to change. */
  async function isAnswered(body: unknown): Promise<void> {
    const errors: unknown[] = [];
    const said = await openaiChat(engines(), body, { onError: (error) => errors.push(error) });
    expect(errors).toEqual([]);
    if (said.type === "reply") {
      expect([200, 400, 404]).toContain(said.status);
      if (said.status !== 200) {
        expect(said.body["error"]).toEqual({
          message: expect.stringMatching(/./),
          type: "invalid_request_error",
          param:
            said.status === 404 ? "model" : expect.toSatisfy((param) => param === null || typeof param === "string"),
          code: expect.any(String),
        });
      }
      return;
    }
    let text = "";
    for await (const frame of said.frames) text += frame;
    const frames = text.split("\n\n").slice(0, -1);
    expect(frames.at(-1)).toBe("data: [DONE]");
    for (const frame of frames.slice(0, -1))
      expect(JSON.parse(frame.replace("data: ", ""))).not.toHaveProperty("error");
  }

  // Words that mean something somewhere, beside any JSON.
  const odd = fc.constantFrom<Json>(
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
    odd,
    fc.jsonValue({ maxDepth: 3 }).map((value): Json => JSON.parse(JSON.stringify(value))),
  );
  const places = [...placesIn(full)];

  test("any JSON at any place of a body is answered or refused", async () => {
    const spoil = fc.tuple(fc.constantFrom(...places), anything, fc.constantFrom("replace", "remove", "add"));
    await fc.assert(
      fc.asyncProperty(fc.array(spoil, { minLength: 1, maxLength: 3 }), fc.boolean(), async (spoils, stream) => {
        const body = spoils.reduce<Json>((given, [place, value, how]) => spoilt(given, place, value, how), {
          ...full,
          stream,
        });
        await isAnswered(body);
      }),
      { numRuns: 500 },
    );
  });

  test("every place of a body alone, with everything that is odd", async () => {
    for (const place of places) {
      for (const value of fc.sample(odd, { numRuns: 6, seed: 7 }))
        await isAnswered(spoilt(full, place, value, "replace"));
    }
  });

  test("any JSON at all is answered or refused", async () => {
    await fc.assert(fc.asyncProperty(anything, isAnswered), { numRuns: 200 });
  });

  test("numbers JSON has no room for, and depths nobody needs", async () => {
    await isAnswered(JSON.parse('{"model":"m","messages":[{"role":"user","content":"x"}],"temperature":1e999}'));
    await isAnswered(JSON.parse(`${"[".repeat(5000)}${"]".repeat(5000)}`));
    const nested = JSON.parse(`${'{"a":'.repeat(5000)}1${"}".repeat(5000)}`);
    for (const name of Object.keys(full)) await isAnswered({ ...full, [name]: nested });
  });
});

type Place = readonly (string | number)[];

function* placesIn(value: Json, at: Place = []): Generator<Place> {
  if (at.length > 0) yield at;
  if (typeof value !== "object" || value === null) return;
  for (const [key, inner] of Object.entries(value)) {
    yield* placesIn(inner, [...at, Array.isArray(value) ? Number(key) : key]);
  }
}

/** The value with something else at a place; where the place is gone, with nothing changed. */
function spoilt(value: Json, [key, ...rest]: Place, other: Json, how: "replace" | "remove" | "add"): Json {
  if (key === undefined) return how === "add" && isObject(value) ? { ...value, added: other } : other;
  if (Array.isArray(value)) {
    const items: readonly Json[] = value;
    if (rest.length === 0 && how === "remove") return items.filter((_, index) => index !== key);
    return items.map((item, index) => (index === key ? spoilt(item, rest, other, how) : item));
  }
  if (!isObject(value) || !Object.hasOwn(value, key)) return value;
  if (rest.length === 0 && how === "remove") {
    return Object.fromEntries(Object.entries(value).filter(([name]) => name !== key));
  }
  return { ...value, [key]: spoilt(value[key] ?? null, rest, other, how) };
}

function isObject(value: Json): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
