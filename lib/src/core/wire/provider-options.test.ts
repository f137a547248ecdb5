// What callers set in the words of a provider's API: options of the request, and provider options in their place, for
// every codec.

import type { Codec, Quirks, WireContext } from "./codec.ts";
import type { JsonObject, Message, ModelRequest } from "everturn";

import {
  assistant,
  filePart,
  imageFromUrl,
  imagePart,
  searchResultPart,
  system,
  textPart,
  toolResult,
  user,
} from "everturn";
import { jsonSchema, request, toolCall, toolSpec } from "everturn/advanced";
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

const schema = {
  type: "object",
  properties: { sky: { type: "string" } },
  required: ["sky"],
  additionalProperties: false,
};
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
const photoUrl = "https://example.com/cat.png";
const photo = imageFromUrl(photoUrl);

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
        input_schema: { type: "object", properties: {}, additionalProperties: false },
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

describe("provider options of Chat Completions", () => {
  const encode = (provider: string, messages: readonly Message[], fields: Parameters<typeof request>[1] = {}) =>
    openaiChat.encode(request(messages, fields), contextOf(provider)).body;
  const breakpoint = { prompt_cache_breakpoint: { mode: "explicit" } } as const;
  const openai = { providerOptions: { openai: breakpoint } };

  test("are fields of parts, messages, calls and functions", () => {
    const body = encode(
      "openai",
      [
        system("First."),
        system([textPart("Second.", openai)], { providerOptions: { openai: { name: "policy" } } }),
        user([textPart("Look.", openai), imagePart(photo, { detail: "original", ...openai })]),
        assistant([textPart("I do.", openai)], {
          toolCalls: [toolCall({ id: "c1", name: "f", arguments: {}, providerOptions: { openai: { extra: 1 } } })],
        }),
        toolResult("c1", [textPart("x", openai)], { providerOptions: { openai: { name: "f" } } }),
      ],
      {
        tools: [
          toolSpec({ name: "f", description: "F", schema: {}, providerOptions: { openai: { strict: true } } }),
          toolSpec({ name: "g", description: "G", schema: {}, providerOptions: { anthropic: { strict: true } } }),
        ],
      },
    );
    expect(body["messages"]).toEqual([
      { role: "system", content: "First." },
      { role: "system", name: "policy", content: [{ type: "text", text: "Second.", ...breakpoint }] },
      {
        role: "user",
        content: [
          { type: "text", text: "Look.", ...breakpoint },
          { type: "image_url", image_url: { url: "https://example.com/cat.png", detail: "original" }, ...breakpoint },
        ],
      },
      {
        role: "assistant",
        content: [{ type: "text", text: "I do.", ...breakpoint }],
        tool_calls: [{ id: "c1", type: "function", function: { name: "f", arguments: "{}" }, extra: 1 }],
      },
      { role: "tool", tool_call_id: "c1", name: "f", content: [{ type: "text", text: "x", ...breakpoint }] },
    ]);
    expect(body["tools"]).toEqual([
      {
        type: "function",
        function: {
          name: "f",
          description: "F",
          parameters: { type: "object", properties: {}, required: [], additionalProperties: false },
          strict: true,
        },
      },
      { type: "function", function: { name: "g", description: "G", parameters: { type: "object", properties: {} } } },
    ]);
  });

  test("are fields of the tool beside `function` if a function has no such field", () => {
    const cached = { cache_control: { type: "ephemeral" } } as const;
    const tool = toolSpec({
      name: "f",
      description: "F",
      schema: {},
      providerOptions: { openrouter: { ...cached, strict: true, description: "G" } },
    });
    expect(encode("openrouter", [user("Go.")], { tools: [tool] })["tools"]).toEqual([
      {
        type: "function",
        function: {
          name: "f",
          description: "G",
          parameters: { type: "object", properties: {}, required: [], additionalProperties: false },
          strict: true,
        },
        ...cached,
      },
    ]);
  });

  test("set `detail` of an image inside image_url", () => {
    const part = imagePart(photo, { providerOptions: { openai: { detail: "low" } } });
    expect(encode("openai", [user([part])])["messages"]).toEqual([
      { role: "user", content: [{ type: "image_url", image_url: { url: photoUrl, detail: "low" } }] },
    ]);
  });

  test.each(["deepseek", "mistral"])("mark the beginning of the reply with prefix: %s", (provider) => {
    const start = assistant("```json", { providerOptions: { [provider]: { prefix: true } } });
    expect(encode(provider, [user("Go."), start])["messages"]).toEqual([
      { role: "user", content: "Go." },
      { role: "assistant", content: "```json", prefix: true },
    ]);
    expect(JSON.stringify(encode("groq", [user("Go."), start]))).not.toContain("prefix");
  });

  test("leave `strict` as the metadata of the tool says by default", () => {
    const tools = [
      toolSpec({ name: "f", description: "", schema: {}, metadata: { strict: true } }),
      toolSpec({ name: "g", description: "", schema: {} }),
    ];
    expect(encode("openai", [user("x")], { tools })["tools"]).toMatchObject([{ function: { strict: true } }, {}]);
    expect(encode("openai", [user("x")], { tools: tools.slice(1) })["tools"]).not.toMatchObject([
      { function: { strict: expect.anything() } },
    ]);
  });
});

describe("provider options of the Responses API", () => {
  const encode = (messages: readonly Message[], fields: Parameters<typeof request>[1] = {}) =>
    openaiResponses.encode(request(messages, fields), contextOf("openai")).body;
  const breakpoint = { prompt_cache_breakpoint: { mode: "explicit" } } as const;
  const openai = { providerOptions: { openai: breakpoint } };

  test("are fields of parts, items and tools", () => {
    const body = encode(
      [
        user([
          textPart("Look.", openai),
          imagePart(photo, { detail: "original", ...openai }),
          filePart(pdf, { mimeType: "application/pdf", providerOptions: { openai: { detail: "low" } } }),
        ]),
        assistant("I do.", {
          toolCalls: [toolCall({ id: "c1", name: "f", arguments: {}, providerOptions: { openai: { extra: 1 } } })],
          providerOptions: { openai: { phase: "commentary" } },
        }),
        toolResult("c1", [textPart("x", openai)], { providerOptions: { openai: { status: "completed" } } }),
      ],
      {
        tools: [
          toolSpec({
            name: "f",
            description: "F",
            schema: {},
            providerOptions: { openai: { strict: true, defer_loading: true } },
          }),
          toolSpec({ name: "g", description: "G", schema: {} }),
        ],
      },
    );
    expect(body["input"]).toEqual([
      {
        type: "message",
        role: "user",
        content: [
          { type: "input_text", text: "Look.", ...breakpoint },
          { type: "input_image", image_url: photoUrl, detail: "original", ...breakpoint },
          {
            type: "input_file",
            filename: "file",
            file_data: "data:application/pdf;base64,JVBERi0=",
            detail: "low",
          },
        ],
      },
      {
        type: "message",
        role: "assistant",
        content: [{ type: "output_text", text: "I do.", annotations: [] }],
        phase: "commentary",
      },
      { type: "function_call", call_id: "c1", name: "f", arguments: "{}", extra: 1 },
      {
        type: "function_call_output",
        call_id: "c1",
        output: [{ type: "input_text", text: "x", ...breakpoint }],
        status: "completed",
      },
    ]);
    expect(body["tools"]).toMatchObject([
      { name: "f", strict: true, defer_loading: true },
      { name: "g", strict: false },
    ]);
  });

  test("of a system message make it an input item, because instructions are one text", () => {
    const body = encode([system("A."), system([textPart("B.", openai)]), system("C."), user("x")]);
    expect(body["instructions"]).toBe("A.");
    expect(body["input"]).toMatchObject([
      { role: "developer", content: [{ type: "input_text", text: "B.", ...breakpoint }] },
      { role: "developer", content: [{ type: "input_text", text: "C." }] },
      { role: "user" },
    ]);
  });
});

describe("provider options of Gemini", () => {
  test("are fields of parts, function responses and declarations; those of other messages are reported", () => {
    const film = { type: "provider_file", provider: "gemini", id: "files/film" } as const;
    const videoMetadata = { fps: 2, startOffset: "10s", endOffset: "20s" };
    const mediaResolution = { level: "MEDIA_RESOLUTION_HIGH" };
    const { body, omissions } = geminiGenerateContent.encode(
      request(
        [
          user(
            [
              textPart("Look."),
              filePart(film, {
                mimeType: "video/mp4",
                providerOptions: { gemini: { videoMetadata, mediaResolution } },
              }),
            ],
            { providerOptions: { gemini: { extra: 1 }, anthropic: cached } },
          ),
          assistant("", {
            toolCalls: [
              toolCall({ id: "c1", name: "f", arguments: {}, providerOptions: { gemini: { thoughtSignature: "s" } } }),
            ],
          }),
          toolResult("c1", "x", { providerOptions: { gemini: { scheduling: "SILENT" } } }),
        ],
        {
          tools: [
            toolSpec({
              name: "f",
              description: "F",
              schema: {},
              providerOptions: { gemini: { behavior: "NON_BLOCKING" } },
            }),
          ],
        },
      ),
      contextOf("gemini"),
    );
    expect(body["contents"]).toEqual([
      {
        role: "user",
        parts: [
          { text: "Look." },
          { fileData: { mimeType: "video/mp4", fileUri: "files/film" }, videoMetadata, mediaResolution },
        ],
      },
      { role: "model", parts: [{ functionCall: { name: "f", args: {} }, thoughtSignature: "s" }] },
      {
        role: "user",
        parts: [{ functionResponse: { name: "f", response: { output: "x" }, scheduling: "SILENT" } }],
      },
    ]);
    expect(body["tools"]).toEqual([
      {
        functionDeclarations: [
          { name: "f", description: "F", parametersJsonSchema: { type: "object" }, behavior: "NON_BLOCKING" },
        ],
      },
    ]);
    expect(omissions).toMatchObject([{ path: "messages[0].providerOptions", reason: "unsupported" }]);
  });
});

test("a message keeps its encoded form of each provider", () => {
  const message = user("x", { providerOptions: { mistral: { extra: 1 } } });
  const encode = (provider: string) => openaiChat.encode(request([message]), contextOf(provider)).body["messages"];
  expect(encode("mistral")).toEqual([{ role: "user", content: "x", extra: 1 }]);
  expect(encode("groq")).toEqual([{ role: "user", content: "x" }]);
  expect(encode("mistral")).toEqual([{ role: "user", content: "x", extra: 1 }]);
});

describe("provider options of another provider", () => {
  const conversation = (fields: object): ModelRequest =>
    request(
      [
        system([textPart("S.", { ...fields })], { ...fields }),
        user(
          [
            textPart("a", { ...fields }),
            imagePart(photo, { ...fields }),
            filePart(pdf, { mimeType: "application/pdf", ...fields }),
          ],
          {
            ...fields,
          },
        ),
        assistant([textPart("b", { ...fields })], {
          ...fields,
          toolCalls: [toolCall({ id: "c1", name: "f", arguments: {}, ...fields })],
        }),
        toolResult("c1", [textPart("x", { ...fields })], { ...fields }),
      ],
      { tools: [toolSpec({ name: "f", description: "F", schema: { type: "object" }, ...fields })], ...fields },
    );

  test.each<[string, Codec]>([
    ["anthropic", anthropicMessages],
    ["openai", openaiResponses],
    ["openai", openaiChat],
    ["gemini", geminiGenerateContent],
  ])("change nothing of the request to %s, and are not reported", (provider, codec) => {
    const foreign = codec.encode(
      conversation({ providerOptions: { elsewhere: { type: "other", x: 1 } } }),
      contextOf(provider),
    );
    expect(foreign).toEqual(codec.encode(conversation({}), contextOf(provider)));
    const own = codec.encode(conversation({ providerOptions: { [provider]: { x: 1 } } }), contextOf(provider));
    expect(own.body).not.toEqual(foreign.body);
  });
});
