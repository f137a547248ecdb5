// What callers set in the words of a provider's API: options of the request, and provider options in their place, for every codec.

import type { Codec, Quirks, WireContext } from "./codec.ts";
import type { JsonObject, Message, ModelRequest } from "everturn/model";

import {
  assistant,
  filePart,
  imageFromUrl,
  imagePart,
  jsonSchema,
  request,
  searchResultPart,
  system,
  textPart,
  toolCall,
  toolResult,
  toolSpec,
  user,
} from "everturn/model";
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

const cached = { cache_control: { type: "ephemeral", ttl: "1h" } } as const;
const pdf = { type: "base64", data: "JVBERi0=" } as const;
const photo = imageFromUrl("https://example.com/cat.png");

describe("provider options of Anthropic", () => {
  const anthropic = { providerOptions: { anthropic: cached } };
  const encode = (messages: readonly Message[], fields: Parameters<typeof request>[1] = {}) =>
    anthropicMessages.encode(request(messages, fields), contextOf("anthropic")).body;

  test("are fields of the block of a part, a call, a tool result and a tool", () => {
    const body = encode(
      [
        system([textPart("Static.", anthropic), textPart("Dynamic.")]),
        user([textPart("Look.", anthropic), imagePart(photo, anthropic)]),
        assistant([textPart("I do.", anthropic)], {
          toolCalls: [toolCall({ id: "c1", name: "f", arguments: {}, ...anthropic })],
        }),
        toolResult("c1", [textPart("x", anthropic)], anthropic),
      ],
      {
        tools: [
          toolSpec({
            name: "f",
            description: "",
            schema: { type: "object" },
            providerOptions: {
              anthropic: {
                strict: true,
                input_examples: [{}],
                allowed_callers: ["direct"],
                eager_input_streaming: true,
              },
            },
          }),
          toolSpec({
            name: "g",
            description: "",
            schema: { type: "object" },
            providerOptions: { anthropic: { defer_loading: true }, openai: { strict: true } },
          }),
        ],
      },
    );
    expect(body["system"]).toEqual([
      { type: "text", text: "Static.", ...cached },
      { type: "text", text: "Dynamic." },
    ]);
    expect(body["messages"]).toEqual([
      {
        role: "user",
        content: [
          { type: "text", text: "Look.", ...cached },
          { type: "image", source: { type: "url", url: "https://example.com/cat.png" }, ...cached },
        ],
      },
      {
        role: "assistant",
        content: [
          { type: "text", text: "I do.", ...cached },
          { type: "tool_use", id: "c1", name: "f", input: {}, ...cached },
        ],
      },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "c1", content: [{ type: "text", text: "x", ...cached }], ...cached },
        ],
      },
    ]);
    expect(body["tools"]).toEqual([
      {
        name: "f",
        input_schema: { type: "object" },
        strict: true,
        input_examples: [{}],
        allowed_callers: ["direct"],
        eager_input_streaming: true,
      },
      { name: "g", input_schema: { type: "object" }, defer_loading: true },
    ]);
  });

  test("of a message are fields of its last block", () => {
    const body = encode([
      system("S.", anthropic),
      user("One.", anthropic),
      assistant([textPart("a"), textPart("b")], anthropic),
      user("x"),
    ]);
    expect(body["system"]).toEqual([{ type: "text", text: "S.", ...cached }]);
    expect(body["messages"]).toMatchObject([
      { content: [{ text: "One.", ...cached }] },
      { content: [{ text: "a" }, { text: "b", ...cached }] },
      { content: [{ type: "text", text: "x" }] },
    ]);
  });

  test("set title, context and citations of a document", () => {
    const options = { citations: { enabled: true }, context: "From 2024.", title: "Report" };
    const file = filePart(pdf, { mimeType: "application/pdf", name: "r.pdf", providerOptions: { anthropic: options } });
    expect(encode([user([file])])["messages"]).toEqual([
      {
        role: "user",
        content: [
          { type: "document", source: { type: "base64", media_type: "application/pdf", data: pdf.data }, ...options },
        ],
      },
    ]);
  });

  test("make a text part another block: search results, also in tool results", () => {
    const found = searchResultPart(
      { source: "https://example.com/rome", title: "Rome", content: "7 hills." },
      anthropic,
    );
    const block = {
      type: "search_result",
      source: "https://example.com/rome",
      title: "Rome",
      content: [{ type: "text", text: "7 hills." }],
      citations: { enabled: true },
      ...cached,
    };
    const messages = [user([found]), assistant("", { toolCalls: [toolCall({ id: "c", name: "f", arguments: {} })] })];
    const body = encode([...messages, toolResult("c", [found])]);
    expect(body["messages"]).toMatchObject([
      { content: [block] },
      {},
      { content: [{ type: "tool_result", tool_use_id: "c", content: [block] }] },
    ]);
    const { body: chat } = openaiChat.encode(request([user([found])]), contextOf("openai"));
    expect(chat["messages"]).toEqual([{ role: "user", content: "Rome\nhttps://example.com/rome\n\n7 hills." }]);
  });

  test("are not sent with a pruned part", () => {
    const pruned = textPart("old", { pruneState: { type: "cleared" }, ...anthropic });
    expect(JSON.stringify(encode([user([pruned])]))).not.toContain("cache_control");
  });
});
