// What callers set in the words of a provider's API: options of the request, and provider options in their place, for every codec.

import type { Codec, Quirks, WireContext } from "./codec.ts";
import type { JsonObject, ModelRequest } from "everturn/model";

import { jsonSchema, request, user } from "everturn/model";
import { describe, expect, test } from "vitest";

import { anthropicMessages } from "./anthropic/codec.ts";
import { noQuirks } from "./codec.ts";
import { geminiGenerateContent } from "./gemini/codec.ts";
import { openaiChat } from "./openai-chat/codec.ts";
import { openaiResponses } from "./openai-responses/codec.ts";
import { mergeFields } from "./provider-options.ts";

function contextOf(provider: string, quirks: Quirks = noQuirks): WireContext {
  return { route: { provider, endpoint: "https://x.test/v1", model: "gpt-5" }, rawChunks: false, quirks };
}

function bodyOf(codec: Codec, provider: string, fields: Parameters<typeof request>[1]): JsonObject {
  return codec.encode(request([user("hi")], fields), contextOf(provider)).body;
}

const schema = { type: "object", properties: { sky: { type: "string" } }, additionalProperties: false };
const responseFormat = jsonSchema("answer", schema);

describe("options of a request", () => {
  test.each<[string, Codec, JsonObject, JsonObject]>([
    [
      "anthropic",
      anthropicMessages,
      { output_config: { effort: "low" } },
      { output_config: { effort: "low", format: { type: "json_schema", schema } } },
    ],
    [
      "openai",
      openaiResponses,
      { text: { verbosity: "low", format: { name: "own" } } },
      { text: { verbosity: "low", format: { type: "json_schema", name: "own", schema, strict: true } } },
    ],
    [
      "openai",
      openaiChat,
      { response_format: { json_schema: { strict: false } } },
      { response_format: { type: "json_schema", json_schema: { name: "answer", schema, strict: false } } },
    ],
    [
      "gemini",
      geminiGenerateContent,
      { generationConfig: { thinkingConfig: { includeThoughts: true } } },
      {
        generationConfig: {
          responseMimeType: "application/json",
          responseJsonSchema: schema,
          thinkingConfig: { thinkingBudget: 5, includeThoughts: true },
        },
      },
    ],
  ])("keep the schema of the answer: %s", (provider, codec, options, merged) => {
    const reasoning = codec === geminiGenerateContent ? { effort: null, budgetTokens: 5, summary: null } : null;
    expect(bodyOf(codec, provider, { responseFormat, reasoning, options })).toMatchObject(merged);
    expect(
      bodyOf(codec, provider, { responseFormat, reasoning, providerOptions: { [provider]: options } }),
    ).toMatchObject(merged);
  });

  test("replace an alternative of a union, a schema and a list", () => {
    const codec = { format: { type: "json_schema", schema: { type: "object", a: 1 } }, stop: ["a"] };
    expect(mergeFields(codec, { format: { type: "text" } })).toEqual({ format: { type: "text" }, stop: ["a"] });
    expect(mergeFields(codec, { format: { schema: { b: 2 } }, stop: ["b"] })).toEqual({
      format: { type: "json_schema", schema: { b: 2 } },
      stop: ["b"],
    });
    expect(mergeFields({ a: { b: 1, c: { d: 2 } } }, { a: { c: null } })).toEqual({ a: { b: 1, c: null } });
    expect(mergeFields({}, JSON.parse('{"__proto__":{"polluted":1}}'))).not.toHaveProperty("polluted");
  });

  test.each<[string, Codec]>([
    ["anthropic", anthropicMessages],
    ["openai", openaiResponses],
    ["openai", openaiChat],
    ["gemini", geminiGenerateContent],
  ])("by provider are sent to that provider only, and `options` win: %s", (provider, codec) => {
    const fields: Parameters<typeof request>[1] = {
      options: { tier: { b: "options" } },
      providerOptions: { [provider]: { tier: { a: 1, b: 1 } }, another: { foreign: true } },
    };
    const body = bodyOf(codec, provider, fields);
    expect(body["tier"]).toEqual({ a: 1, b: "options" });
    expect(body).not.toHaveProperty("foreign");
    const plain: ModelRequest = request([user("hi")], { options: { tier: { b: "options" } } });
    expect(bodyOf(codec, "elsewhere", fields)).toEqual(codec.encode(plain, contextOf("elsewhere")).body);
  });

  test("by provider decide about storage and background of the Responses API, and add to `include`", () => {
    const body = bodyOf(openaiResponses, "openai", {
      providerOptions: { openai: { store: true, include: ["web_search_call.action.sources"] } },
    });
    expect(body).toMatchObject({
      store: true,
      include: ["reasoning.encrypted_content", "web_search_call.action.sources"],
    });
    expect(bodyOf(openaiResponses, "openai", { providerOptions: { openai: { background: true } } })).toMatchObject({
      background: true,
      store: true,
    });
  });
});
