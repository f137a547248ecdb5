// The provider adapters of ALLM: rows 107 to 111, 113 and 114 of docs/acceptance.md, one test case for each cell of
// ALLM's tables. A title states an intended difference. The codecs have their own tests; this file compares them with
// ALLM.

import type { Adapter, JsonObject, Message, ModelReply } from "everturn";
import type { ModelEvent, Codec, WireContext } from "everturn/advanced";

import { anthropic, engine, gemini, generate, openai, assistant, system, toolResult, user } from "everturn";
import {
  request,
  Collector,
  toolCall,
  toolSpec,
  anthropicMessages,
  frameReader,
  geminiGenerateContent,
  noQuirks,
  openaiChat,
  openaiResponses,
} from "everturn/advanced";
import { describe, expect, test } from "vitest";

type Settings = NonNullable<Parameters<typeof request>[1]>;

const contextFor = (provider: string, model: string): WireContext => ({
  route: { provider, endpoint: "https://api.example", model },
  rawChunks: false,
  quirks: noQuirks,
});
const openaiContext = contextFor("openai", "gpt-5");
const anthropicContext = contextFor("anthropic", "claude");
const geminiContext = contextFor("gemini", "gemini-3-pro");

const schema = { type: "object", properties: { city: { type: "string" } } };
const tools = [toolSpec({ name: "weather", description: "Returns the weather.", schema })];
const calls = [
  toolCall({ id: "call_1", name: "weather", arguments: { city: "Oslo" }, rawArguments: '{"city":"Oslo"}' }),
];
const history = [
  system("Be brief."),
  user("Weather?"),
  assistant("Let me see.", { toolCalls: calls }),
  toolResult("call_1", "sunny"),
];

function bodyOf(
  codec: Codec,
  context: WireContext,
  settings: Settings = {},
  messages: readonly Message[] = [user("Hi.")],
): JsonObject {
  return codec.encode(request(messages, settings), context).body;
}

function folded(events: readonly ModelEvent[]): ModelReply {
  const collector = new Collector();
  for (const event of events) collector.add(event);
  return collector.reply();
}

function streamed(codec: Codec, context: WireContext, ...chunks: readonly JsonObject[]): ModelReply {
  const decoder = codec.decoder(context);
  const text = chunks.map((chunk) => `event: ${String(chunk["type"])}\ndata: ${JSON.stringify(chunk)}\n\n`).join("");
  return folded([...decoder.push(frameReader().push(text)), ...decoder.end()]);
}

function decodedFailure(codec: Codec, context: WireContext, status: number, error: JsonObject) {
  return codec.decodeError({ status, body: { error }, requestId: null, retryAfterMs: null }, context);
}

/** The URL and the headers of the one request of an adapter. */
async function requestOf(make: (fetch: typeof globalThis.fetch) => Adapter, model: string) {
  const sent: { readonly url: string; readonly headers: Headers }[] = [];
  const adapter = make((input, init) => {
    sent.push({ url: String(input), headers: new Headers(init?.headers) });
    return Promise.resolve(new Response("{}", { status: 400 }));
  });
  await generate(engine({ adapter, model, retry: false }), "Hi.");
  const [only] = sent;
  if (only === undefined || sent.length !== 1) throw new Error(`${sent.length} requests`);
  return only;
}

describe("[allm 107] OpenAI: the API and its messages", () => {
  test.each([
    ["the Responses API by default, also for a model of Chat Completions", {}, "gpt-4o", "/v1/responses"],
    ["Chat Completions by an option, not by the name of the model", { api: "chat" }, "gpt-5", "/v1/chat/completions"],
  ] as const)("%s", async (_, options, model, path) => {
    const { url, headers } = await requestOf(
      (fetch) => openai({ apiKey: "sk-test-1234", organization: "org_1", fetch, ...options }),
      model,
    );
    expect(url).toBe(`https://api.openai.com${path}`);
    expect([headers.get("authorization"), headers.get("openai-organization")]).toEqual([
      "Bearer sk-test-1234",
      "org_1",
    ]);
  });

  test("Chat Completions: roles, calls inside the assistant message, results by tool_call_id", () => {
    expect(bodyOf(openaiChat, openaiContext, {}, history)["messages"]).toEqual([
      { role: "system", content: "Be brief." },
      { role: "user", content: "Weather?" },
      {
        role: "assistant",
        content: "Let me see.",
        tool_calls: [{ id: "call_1", type: "function", function: { name: "weather", arguments: '{"city":"Oslo"}' } }],
      },
      { role: "tool", tool_call_id: "call_1", content: "sunny" },
    ]);
  });

  test("Responses: one item for the text, one for each call, one for each result", () => {
    const body = bodyOf(openaiResponses, openaiContext, {}, history);
    expect(body).toMatchObject({ instructions: "Be brief." });
    expect(body["input"]).toMatchObject([
      { role: "user" },
      { type: "message", role: "assistant", content: [{ type: "output_text", text: "Let me see." }] },
      { type: "function_call", call_id: "call_1", name: "weather", arguments: '{"city":"Oslo"}' },
      { type: "function_call_output", call_id: "call_1", output: "sunny" },
    ]);
  });

  test("tools are nested in Chat Completions and flat in Responses", () => {
    const fields = { name: "weather", description: "Returns the weather.", parameters: schema };
    expect(bodyOf(openaiChat, openaiContext, { tools })["tools"]).toEqual([{ type: "function", function: fields }]);
    expect(bodyOf(openaiResponses, openaiContext, { tools })["tools"]).toEqual([
      { type: "function", ...fields, strict: false },
    ]);
  });

  test.each([
    ["auto", "auto", "auto"],
    ["none", "none", "none"],
    ["required", "required", "required"],
    [
      { type: "tool", name: "weather" },
      { type: "function", function: { name: "weather" } },
      { type: "function", name: "weather" },
    ],
  ] as const)("the tool choice %j", (toolChoice, inChat, inResponses) => {
    expect(bodyOf(openaiChat, openaiContext, { tools, toolChoice })["tool_choice"]).toEqual(inChat);
    expect(bodyOf(openaiResponses, openaiContext, { tools, toolChoice })["tool_choice"]).toEqual(inResponses);
  });
});

describe("[allm 108] OpenAI: settings", () => {
  const reasoning = { effort: "high", summary: "auto", budgetTokens: null };

  test("reasoning: an object in Responses; in Chat Completions the effort alone, and the omission of the summary is reported", () => {
    expect(bodyOf(openaiResponses, openaiContext, { reasoning })["reasoning"]).toEqual({
      effort: "high",
      summary: "auto",
    });
    const { body, omissions } = openaiChat.encode(request([user("Hi.")], { reasoning }), openaiContext);
    expect(body).toMatchObject({ reasoning_effort: "high" });
    expect(body).not.toHaveProperty("reasoning");
    expect(omissions).toMatchObject([{ path: "reasoning.summary", reason: "unsupported" }]);
  });

  test("levels are sent unchanged, also those that ALLM refuses; verbosity is an option of the request", () => {
    const level = { ...reasoning, effort: "minimal", summary: null };
    expect(bodyOf(openaiResponses, openaiContext, { reasoning: level })["reasoning"]).toEqual({ effort: "minimal" });
    const format = { type: "json_object" } as const;
    const inResponses = { responseFormat: format, options: { text: { verbosity: "low" } } };
    expect(bodyOf(openaiResponses, openaiContext, inResponses)["text"]).toEqual({ format, verbosity: "low" });
    expect(bodyOf(openaiChat, openaiContext, { options: { verbosity: "low" } })).toMatchObject({ verbosity: "low" });
  });

  test("maxTokens has the name of its API, and max_tokens on servers that need it", async () => {
    expect(bodyOf(openaiResponses, openaiContext, { maxTokens: 7 })).toMatchObject({ max_output_tokens: 7 });
    expect(bodyOf(openaiChat, openaiContext, { maxTokens: 7 })).toMatchObject({ max_completion_tokens: 7 });
    const older = { ...openaiContext, quirks: { maxTokensField: "max_tokens" } as const };
    expect(bodyOf(openaiChat, older, { maxTokens: 7 })).toMatchObject({ max_tokens: 7 });
    expect(bodyOf(openaiChat, openaiContext)).not.toHaveProperty("max_completion_tokens");
  });

  test("response formats: text is not sent, a schema is nested in Chat Completions and flat in Responses", () => {
    const closed = { ...schema, required: ["city"], additionalProperties: false };
    const format = { type: "json_schema", name: "weather", schema: closed, strict: true } as const;
    const { type, ...fields } = format;
    expect(bodyOf(openaiChat, openaiContext, { responseFormat: format })["response_format"]).toEqual({
      type,
      json_schema: fields,
    });
    expect(bodyOf(openaiResponses, openaiContext, { responseFormat: format })["text"]).toEqual({ format });
    const object = { type: "json_object" } as const;
    expect(bodyOf(openaiChat, openaiContext, { responseFormat: object })["response_format"]).toEqual(object);
    expect(bodyOf(openaiResponses, openaiContext, { responseFormat: object })["text"]).toEqual({ format: object });
    for (const [codec, field] of [
      [openaiChat, "response_format"],
      [openaiResponses, "text"],
    ] as const) {
      expect(bodyOf(codec, openaiContext, { responseFormat: { type: "text" } })).not.toHaveProperty(field);
    }
  });
});

describe("[allm 109] OpenAI: replies and errors", () => {
  const choice = (delta: JsonObject, finish: string | null = null): JsonObject => ({
    choices: [{ index: 0, delta, finish_reason: finish }],
  });
  const fragment = (index: number, id: string | null, name: string | null, text: string): JsonObject =>
    choice({
      tool_calls: [
        { index, ...(id === null ? {} : { id }), function: { ...(name === null ? {} : { name }), arguments: text } },
      ],
    });

  test.each([
    ["stop", "stop"],
    ["length", "length"],
    ["content_filter", "content_filter"],
    ["surprise", "other"],
  ])("Chat Completions: the finish reason %s is %s, streamed too", (word, finishReason) => {
    expect(streamed(openaiChat, openaiContext, choice({ content: "A" }), choice({}, word))).toMatchObject({
      outputText: "A",
      finishReason,
      rawFinishReason: word,
      error: null,
    });
  });

  test("Chat Completions: streamed calls are assembled by index; malformed arguments are null, not an empty object", () => {
    const reply = streamed(
      openaiChat,
      openaiContext,
      fragment(0, "a", "weather", '{"ci'),
      fragment(1, "b", "time", "{oops"),
      fragment(0, null, null, 'ty":"Oslo"}'),
      choice({}, "tool_calls"),
    );
    expect(reply).toMatchObject({
      finishReason: "tool_calls",
      toolCalls: [
        { id: "a", name: "weather", arguments: { city: "Oslo" } },
        { id: "b", name: "time", arguments: null, rawArguments: "{oops" },
      ],
    });
  });

  test.each<[string, JsonObject, object]>([
    ["completed", { status: "completed" }, { finishReason: "stop" }],
    [
      "incomplete, max_output_tokens",
      { status: "incomplete", incomplete_details: { reason: "max_output_tokens" } },
      { finishReason: "length" },
    ],
    [
      "incomplete, content_filter",
      { status: "incomplete", incomplete_details: { reason: "content_filter" } },
      { finishReason: "content_filter", error: null },
    ],
    [
      "incomplete, another reason",
      { status: "incomplete", incomplete_details: { reason: "surprise" } },
      { finishReason: "other" },
    ],
    [
      "failed",
      { status: "failed", error: { code: "server_error", message: "Sorry." } },
      { finishReason: "error", error: { reason: "provider_unavailable" } },
    ],
  ])("Responses: the status %s", (_, fields, expected) => {
    const message = { type: "message", id: "m", role: "assistant", content: [{ type: "output_text", text: "A" }] };
    expect(
      folded(openaiResponses.decodeReply({ id: "r", object: "response", output: [message], ...fields }, openaiContext)),
    ).toMatchObject(expected);
  });

  test("Responses: a completed reply with calls has the finish reason tool_calls", () => {
    const call = { type: "function_call", call_id: "c", name: "weather", arguments: '{"city":"Oslo"}' };
    const body = { id: "r", object: "response", status: "completed", output: [call] };
    expect(folded(openaiResponses.decodeReply(body, openaiContext))).toMatchObject({
      finishReason: "tool_calls",
      toolCalls: [{ id: "c", arguments: { city: "Oslo" } }],
    });
  });

  test.each<[number, JsonObject, string]>([
    [401, {}, "authentication_failed"],
    [403, {}, "authentication_failed"],
    [429, {}, "rate_limited"],
    [400, { code: "context_length_exceeded" }, "context_length_exceeded"],
    [400, { type: "content_filter_error" }, "content_filter"],
    [400, { message: "nonsense" }, "invalid_request"],
    [500, {}, "provider_unavailable"],
    [502, {}, "provider_unavailable"],
    [503, {}, "provider_unavailable"],
    [418, {}, "unknown"],
  ])("the status %i with %j is %s in both APIs", (status, error, reason) => {
    for (const codec of [openaiChat, openaiResponses]) {
      expect(decodedFailure(codec, openaiContext, status, { message: "No.", ...error })).toMatchObject({
        reason,
        status,
      });
    }
  });

  test("the status 504 is a timeout, which is retried like provider_unavailable", () => {
    expect(decodedFailure(openaiChat, openaiContext, 504, {})).toMatchObject({ reason: "timeout", retryable: true });
  });
});

describe("[allm 110] Anthropic: requests", () => {
  test("the URL and the headers", async () => {
    const { url, headers } = await requestOf((fetch) => anthropic({ apiKey: "sk-ant-1234", fetch }), "claude");
    expect(url).toBe("https://api.anthropic.com/v1/messages");
    expect([headers.get("x-api-key"), headers.get("anthropic-version")]).toEqual(["sk-ant-1234", "2023-06-01"]);
  });

  test("system messages are joined by a blank line, and calls and results are blocks", () => {
    const body = bodyOf(anthropicMessages, anthropicContext, {}, [...history, system("Be kind.")]);
    expect(body).toMatchObject({ system: "Be brief.\n\nBe kind.", max_tokens: 4096 });
    expect(body["messages"]).toEqual([
      { role: "user", content: [{ type: "text", text: "Weather?" }] },
      {
        role: "assistant",
        content: [
          { type: "text", text: "Let me see." },
          { type: "tool_use", id: "call_1", name: "weather", input: { city: "Oslo" } },
        ],
      },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "call_1", content: "sunny" }] },
    ]);
  });

  test("results of several calls are blocks of one user message", () => {
    const two = [...calls, toolCall({ id: "call_2", name: "weather", arguments: {} })];
    const messages = [
      user("Weather?"),
      assistant("", { toolCalls: two }),
      toolResult("call_1", "sunny"),
      toolResult("call_2", "rain"),
    ];
    expect(bodyOf(anthropicMessages, anthropicContext, {}, messages)["messages"]).toMatchObject([
      {},
      {},
      { role: "user", content: [{ tool_use_id: "call_1" }, { tool_use_id: "call_2" }] },
    ]);
  });

  test("tools, and maxTokens over the default", () => {
    expect(bodyOf(anthropicMessages, anthropicContext, { tools, maxTokens: 7 })).toMatchObject({
      max_tokens: 7,
      tools: [{ name: "weather", description: "Returns the weather.", input_schema: schema }],
    });
  });

  test.each([
    ["auto", undefined],
    ["none", { type: "none" }],
    ["required", { type: "any" }],
    [
      { type: "tool", name: "weather" },
      { type: "tool", name: "weather" },
    ],
  ] as const)("the tool choice %j", (toolChoice, expected) => {
    expect(bodyOf(anthropicMessages, anthropicContext, { tools, toolChoice })["tool_choice"]).toEqual(expected);
  });

  test("a forced choice without tools is not sent and is reported, where ALLM throws", () => {
    const { body, omissions } = anthropicMessages.encode(
      request([user("Hi.")], { toolChoice: "required" }),
      anthropicContext,
    );
    expect(body).not.toHaveProperty("tool_choice");
    expect(omissions).toMatchObject([{ path: "toolChoice", reason: "unsupported" }]);
  });
});

describe("[allm 111] Anthropic: structured output", () => {
  const closed = { ...schema, additionalProperties: false };
  const responseFormat = { type: "json_schema", name: "weather", schema: closed, strict: true } as const;

  test("the schema is sent in output_config, without a synthetic tool, so the user's tools can be called", () => {
    const body = bodyOf(anthropicMessages, anthropicContext, { tools, responseFormat });
    expect(body).toMatchObject({ output_config: { format: { type: "json_schema", schema: closed } }, tools: [{}] });
    expect(body).not.toHaveProperty("tool_choice");
  });

  test("the JSON of the answer is text, with the finish reason stop and without calls", () => {
    const reply = {
      id: "m",
      type: "message",
      role: "assistant",
      model: "claude",
      content: [{ type: "text", text: '{"city":"Oslo"}' }],
      stop_reason: "end_turn",
    };
    expect(folded(anthropicMessages.decodeReply(reply, anthropicContext))).toMatchObject({
      outputText: '{"city":"Oslo"}',
      finishReason: "stop",
      toolCalls: [],
    });
  });

  test("json_object is not sent and is reported", () => {
    const { body, omissions } = anthropicMessages.encode(
      request([user("Hi.")], { responseFormat: { type: "json_object" } }),
      anthropicContext,
    );
    expect(body).not.toHaveProperty("output_config");
    expect(omissions).toMatchObject([{ path: "responseFormat", reason: "unsupported" }]);
  });
});

describe("[allm 113] Gemini: requests", () => {
  test("the URL and the key header", async () => {
    const { url, headers } = await requestOf((fetch) => gemini({ apiKey: "key-1234-5678", fetch }), "gemini-3-pro");
    expect(url).toBe(
      "https://generativelanguage.googleapis.com/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse",
    );
    expect(headers.get("x-goog-api-key")).toBe("key-1234-5678");
  });

  test("roles, systemInstruction, and results as functionResponse with the name of their call", () => {
    const body = bodyOf(geminiGenerateContent, geminiContext, {}, history);
    expect(body).toMatchObject({ systemInstruction: { parts: [{ text: "Be brief." }] } });
    expect(body["contents"]).toMatchObject([
      { role: "user", parts: [{ text: "Weather?" }] },
      {
        role: "model",
        parts: [{ text: "Let me see." }, { functionCall: { name: "weather", args: { city: "Oslo" } } }],
      },
      { role: "user", parts: [{ functionResponse: { name: "weather", response: { output: "sunny" } } }] },
    ]);
  });

  test("settings are fields of generationConfig; options are merged under their own names", () => {
    const settings = {
      maxTokens: 7,
      temperature: 0.5,
      topP: 0.9,
      stopSequences: ["END"],
      options: { generationConfig: { topK: 3 } },
    };
    expect(bodyOf(geminiGenerateContent, geminiContext, settings)["generationConfig"]).toEqual({
      maxOutputTokens: 7,
      temperature: 0.5,
      topP: 0.9,
      stopSequences: ["END"],
      topK: 3,
    });
  });

  test("schemas are sent as JSON Schema with additionalProperties and without $schema", () => {
    const open = { $schema: "https://json-schema.org/draft/2020-12/schema", ...schema, additionalProperties: false };
    const { $schema: _, ...sent } = open;
    const declared = toolSpec({ name: "weather", description: "", schema: open });
    const responseFormat = { type: "json_schema", name: "weather", schema: open, strict: true } as const;
    expect(bodyOf(geminiGenerateContent, geminiContext, { tools: [declared], responseFormat })).toMatchObject({
      tools: [{ functionDeclarations: [{ name: "weather", parametersJsonSchema: sent }] }],
      generationConfig: { responseMimeType: "application/json", responseJsonSchema: sent },
    });
  });

  test.each([
    ["auto", { mode: "AUTO" }],
    ["none", { mode: "NONE" }],
    ["required", { mode: "ANY" }],
    [
      { type: "tool", name: "weather" },
      { mode: "ANY", allowedFunctionNames: ["weather"] },
    ],
  ] as const)("the tool choice %j, not sent without tools", (toolChoice, functionCallingConfig) => {
    expect(bodyOf(geminiGenerateContent, geminiContext, { tools, toolChoice })["toolConfig"]).toEqual({
      functionCallingConfig,
    });
    expect(bodyOf(geminiGenerateContent, geminiContext, { toolChoice })).not.toHaveProperty("toolConfig");
  });

  test("thoughtSignature is sent back on the part of its call", () => {
    const part = { functionCall: { name: "weather", args: { city: "Oslo" } }, thoughtSignature: "c2lnbg==" };
    const { message, toolCalls } = folded(
      geminiGenerateContent.decodeReply(
        { candidates: [{ content: { role: "model", parts: [part] }, finishReason: "STOP" }] },
        geminiContext,
      ),
    );
    if (message === null) throw new Error("there is no message");
    const messages = [user("Weather?"), message, toolResult(toolCalls[0]?.id ?? "", "sunny")];
    expect(bodyOf(geminiGenerateContent, geminiContext, {}, messages)["contents"]).toMatchObject([
      {},
      { role: "model", parts: [part] },
      {},
    ]);
  });
});

describe("[allm 114] Gemini: replies", () => {
  const chunk = (parts: readonly JsonObject[], fields: JsonObject = {}): JsonObject => ({
    candidates: [{ content: { role: "model", parts }, ...fields }],
  });
  const reply = (body: JsonObject) => folded(geminiGenerateContent.decodeReply(body, geminiContext));

  test.each([
    ["STOP", "stop"],
    ["MAX_TOKENS", "length"],
    ...[
      "SAFETY",
      "RECITATION",
      "LANGUAGE",
      "BLOCKLIST",
      "PROHIBITED_CONTENT",
      "SPII",
      "IMAGE_SAFETY",
      "IMAGE_PROHIBITED_CONTENT",
      "IMAGE_RECITATION",
      "MODEL_ARMOR",
    ].map((word) => [word, "content_filter"]),
    ["OTHER", "other"],
    ["SURPRISE", "other"],
  ])("the finishReason %s is %s, streamed too", (word, finishReason) => {
    const body = chunk([{ text: "A" }], { finishReason: word });
    for (const result of [reply(body), streamed(geminiGenerateContent, geminiContext, body)]) {
      expect(result).toMatchObject({ outputText: "A", finishReason, rawFinishReason: word });
    }
  });

  test.each([
    ["MALFORMED_FUNCTION_CALL", true],
    ["UNEXPECTED_TOOL_CALL", true],
    ["MALFORMED_RESPONSE", true],
    ["TOO_MANY_TOOL_CALLS", false],
    ["MISSING_THOUGHT_SIGNATURE", false],
  ])("the finishReason %s is an error with its finishMessage, streamed too", (word, retryable) => {
    const body = chunk([{ text: "A" }], { finishReason: word, finishMessage: "print(1)" });
    for (const result of [reply(body), streamed(geminiGenerateContent, geminiContext, body)]) {
      expect(result).toMatchObject({ outputText: "A", finishReason: "error" });
      expect(result.error).toMatchObject({
        reason: "malformed_response",
        code: word,
        retryable,
        metadata: { finishMessage: "print(1)" },
      });
      expect(result.error?.message).toContain("print(1)");
    }
  });

  test("STOP with calls is tool_calls", () => {
    const body = chunk([{ functionCall: { name: "weather", args: {} } }], { finishReason: "STOP" });
    expect(reply(body).finishReason).toBe("tool_calls");
  });

  test("a blocked prompt has the finish reason content_filter and is no error, streamed or not", () => {
    const body = { promptFeedback: { blockReason: "SAFETY" } };
    for (const result of [reply(body), streamed(geminiGenerateContent, geminiContext, body)]) {
      expect(result).toMatchObject({ finishReason: "content_filter", rawFinishReason: "SAFETY", error: null });
    }
  });

  test("no candidates and no reason is malformed_response", () => {
    expect(reply({ candidates: [] }).error).toMatchObject({ reason: "malformed_response" });
  });

  test("usage: the counts, responseTokenCount as a fallback, other fields in extra; the last report of a stream counts", () => {
    const usageMetadata = { promptTokenCount: 1, candidatesTokenCount: 2, totalTokenCount: 3, trafficType: "X" };
    const first = { ...chunk([{ text: "A" }]), usageMetadata: { promptTokenCount: 1, totalTokenCount: 1 } };
    const last = { ...chunk([], { finishReason: "STOP" }), usageMetadata };
    expect(streamed(geminiGenerateContent, geminiContext, first, last).usage).toMatchObject({
      inputTokens: 1,
      outputTokens: 2,
      totalTokens: 3,
      extra: { trafficType: "X" },
    });
    const fallback = { ...chunk([{ text: "A" }], { finishReason: "STOP" }), usageMetadata: { responseTokenCount: 4 } };
    expect(reply(fallback).usage.outputTokens).toBe(4);
  });

  test.each<[number, string, string]>([
    [401, "No.", "authentication_failed"],
    [403, "No.", "authentication_failed"],
    [404, "No such model.", "invalid_request"],
    [429, "Slow down.", "rate_limited"],
    [400, "The input token count (9) exceeds the maximum number of tokens allowed (8).", "context_length_exceeded"],
    [400, "Nonsense.", "invalid_request"],
    [500, "Sorry.", "provider_unavailable"],
    [503, "Sorry.", "provider_unavailable"],
  ])("the status %i with %j is %s", (status, message, reason) => {
    expect(decodedFailure(geminiGenerateContent, geminiContext, status, { message })).toMatchObject({ reason, status });
  });
});
