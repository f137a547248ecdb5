// What each row of the feature table in docs/guide/providers.md means: a call that asks for the feature, and the text
// of the HTTP request that shows it.
//
// `asked` is what a user writes; `null`: the library has no way to ask this API for the feature. `sent` is a part of
// the request (headers and body as JSON). `wrong` makes the call wrong in the value of the feature: it replaces a part
// of the call's JSON, or is a function. A typed feature refuses it before anything is sent.

import type { ChatOptions, Json, JsonObject, Message } from "everturn";

import {
  providerTool,
  tool,
  assistant,
  filePart,
  imageFromBase64,
  imageFromUrl,
  imagePart,
  searchResultPart,
  system,
  textPart,
  user,
} from "everturn";

export const apis = ["OpenAI Responses", "OpenAI Chat", "Anthropic", "Gemini"] as const;
export type Api = (typeof apis)[number];

/** The provider name of each API. */
export const providerOf: { readonly [A in Api]: string } = {
  "OpenAI Responses": "openai",
  "OpenAI Chat": "openai",
  Anthropic: "anthropic",
  Gemini: "gemini",
};

export type Asked = {
  readonly messages?: readonly Message[];
  readonly options?: ChatOptions;
  /** The reply of the API. With it the conversation has a second call, whose request counts. */
  readonly reply?: JsonObject;
};

export type FeatureCase = {
  readonly asked: (api: Api) => Asked | null;
  readonly sent?: { readonly [A in Api]?: string };
  /** A part of the JSON of the library's reply, for features of replies. */
  readonly received?: { readonly [A in Api]?: string };
  /** The library does it without a setting, so there is no wrong value. */
  readonly isAutomatic?: boolean;
  /**
   * Replaces the first text by the second in the JSON of the call, or builds the wrong value. Absent: the feature is
   * not checked by the library.
   */
  readonly wrong?: readonly [right: string, wrong: string] | ((api: Api) => unknown);
  /** The path of the warning, for APIs that report the feature. */
  readonly path?: string;
};

const png = imageFromBase64("iVBORw0KGgo=", "image/png");
const pdf = { type: "base64", data: "JVBERi0=" } as const;
const definition = { name: "weather", description: "The weather.", schema: { type: "object", properties: {} } };
const weather = tool(definition);

const openaiBreakpoint = { prompt_cache_breakpoint: { mode: "explicit" } };
const hostedTools: { readonly [A in Api]: string } = {
  "OpenAI Responses": "web_search",
  "OpenAI Chat": "web_search",
  Anthropic: "web_search_20250305",
  Gemini: "googleSearch",
};
const custom = { name: "sql", format: { type: "grammar", syntax: "lark", definition: "start: /a/" } };

const reasoningReplies: { readonly [A in Exclude<Api, "OpenAI Chat">]: JsonObject } = {
  "OpenAI Responses": {
    id: "resp_1",
    status: "completed",
    output: [
      { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "c2ln" },
      { type: "message", role: "assistant", content: [{ type: "output_text", text: "Hello." }] },
    ],
  },
  Anthropic: {
    type: "message",
    role: "assistant",
    content: [
      { type: "thinking", thinking: "Think.", signature: "c2ln" },
      { type: "text", text: "Hello." },
    ],
    stop_reason: "end_turn",
  },
  Gemini: {
    candidates: [
      { content: { role: "model", parts: [{ text: "Hello.", thoughtSignature: "c2ln" }] }, finishReason: "STOP" },
    ],
  },
};

const imageReplies: { readonly [A in Exclude<Api, "Anthropic">]: JsonObject } = {
  "OpenAI Responses": {
    id: "resp_1",
    status: "completed",
    output: [{ type: "image_generation_call", id: "ig_1", status: "completed", result: "iVBORw0KGgo=" }],
  },
  "OpenAI Chat": {
    choices: [
      {
        message: {
          role: "assistant",
          content: "Here:",
          images: [{ type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=" } }],
        },
        finish_reason: "stop",
      },
    ],
  },
  Gemini: {
    candidates: [
      {
        content: { role: "model", parts: [{ inlineData: { mimeType: "image/png", data: "iVBORw0KGgo=" } }] },
        finishReason: "STOP",
      },
    ],
  },
};

const source = "https://example.com/source";
const urlCitation = { type: "url_citation", url: source, title: "Source", start_index: 0, end_index: 5 };
const citedReplies: { readonly [A in Api]: JsonObject } = {
  "OpenAI Responses": {
    id: "resp_1",
    status: "completed",
    output: [
      {
        type: "message",
        role: "assistant",
        content: [{ type: "output_text", text: "Hello.", annotations: [urlCitation] }],
      },
    ],
  },
  "OpenAI Chat": {
    choices: [
      {
        message: {
          role: "assistant",
          content: "Hello.",
          annotations: [
            { type: "url_citation", url_citation: { url: source, title: "Source", start_index: 0, end_index: 5 } },
          ],
        },
        finish_reason: "stop",
      },
    ],
  },
  Anthropic: {
    type: "message",
    role: "assistant",
    content: [
      {
        type: "text",
        text: "Hello.",
        citations: [
          {
            type: "web_search_result_location",
            url: source,
            title: "Source",
            cited_text: "Hello.",
            encrypted_index: "1",
          },
        ],
      },
    ],
    stop_reason: "end_turn",
  },
  Gemini: {
    candidates: [
      {
        content: { role: "model", parts: [{ text: "Hello." }] },
        groundingMetadata: { groundingChunks: [{ web: { uri: source, title: "Source" } }] },
        finishReason: "STOP",
      },
    ],
  },
};

/** A setting that all APIs are asked for in the same way. */
function setting(
  options: ChatOptions,
  sent: NonNullable<FeatureCase["sent"]>,
  wrong: NonNullable<FeatureCase["wrong"]>,
  path?: string,
): FeatureCase {
  return { asked: () => ({ options }), sent, wrong, ...(path === undefined ? {} : { path }) };
}

/** Content of the user message that all APIs are asked for in the same way. */
function content(
  messages: readonly Message[],
  sent: NonNullable<FeatureCase["sent"]>,
  wrong: NonNullable<FeatureCase["wrong"]>,
  path?: string,
): FeatureCase {
  return { asked: () => ({ messages }), sent, wrong, ...(path === undefined ? {} : { path }) };
}

/**
 * A field of the request body that the caller sets under the API's own name, with the adapter options that it needs.
 */
function bodyField(
  fields: { readonly [A in Api]?: { readonly [name: string]: Json } },
  wrong?: NonNullable<FeatureCase["wrong"]>,
  adapterOptions: JsonObject = {},
): FeatureCase {
  const entries = apis.flatMap((api): [Api, string][] => {
    const field = fields[api];
    return field === undefined ? [] : [[api, JSON.stringify(field).slice(1, -1)]];
  });
  return {
    asked: (api) => {
      const field = fields[api];
      return field === undefined
        ? null
        : { options: { providerOptions: { [providerOf[api]]: field }, adapterOptions } };
    },
    sent: Object.fromEntries(entries),
    ...(wrong === undefined ? {} : { wrong }),
  };
}

/** A provider option of a tool. */
function toolField(
  fields: { readonly [A in Api]?: { readonly [name: string]: Json } },
  [right, replacement]: readonly [string, string],
): FeatureCase {
  const entries = apis.flatMap((api): [Api, string][] => {
    const field = fields[api];
    return field === undefined ? [] : [[api, JSON.stringify(field).slice(1, -1)]];
  });
  const definitionFor = (api: Api) => ({ ...definition, providerOptions: { [providerOf[api]]: fields[api] ?? {} } });
  return {
    asked: (api) => (fields[api] === undefined ? null : { options: { tools: [tool(definitionFor(api))] } }),
    sent: Object.fromEntries(entries),
    wrong: (api) => tool(JSON.parse(JSON.stringify(definitionFor(api)).replace(right, () => replacement))),
  };
}

/** A provider option of a part. */
function partField(
  part: (options: {
    readonly providerOptions: { readonly [provider: string]: { readonly [name: string]: Json } };
  }) => Message,
  fields: { readonly [A in Api]?: { readonly [name: string]: Json } },
  wrong: readonly [string, string],
): FeatureCase {
  const entries = apis.flatMap((api): [Api, string][] => {
    const field = fields[api];
    return field === undefined ? [] : [[api, JSON.stringify(field).slice(1, -1)]];
  });
  return {
    asked: (api) => {
      const field = fields[api];
      return field === undefined ? null : { messages: [part({ providerOptions: { [providerOf[api]]: field } })] };
    },
    sent: Object.fromEntries(entries),
    wrong,
  };
}

/** A tool that the provider defines and the program runs. */
function programTool(
  definitions: {
    readonly [A in Api]?: { readonly name: string; readonly options?: { readonly [name: string]: Json } };
  },
  sent: NonNullable<FeatureCase["sent"]>,
): FeatureCase {
  return {
    asked: (api) => {
      // Both APIs of OpenAI are asked for the same tool.
      const defined = definitions[api] ?? (api === "OpenAI Chat" ? definitions["OpenAI Responses"] : undefined);
      if (defined === undefined) return null;
      return { options: { tools: [providerTool({ provider: providerOf[api], ...defined })] } };
    },
    sent,
    wrong: (api) => providerTool({ provider: providerOf[api], name: "no_such_tool" }),
    path: "providerTools[0]",
  };
}

export const cases: { readonly [feature: string]: FeatureCase } = {
  temperature: setting(
    { temperature: 0.5 },
    {
      "OpenAI Responses": '"temperature":0.5',
      "OpenAI Chat": '"temperature":0.5',
      Anthropic: '"temperature":0.5',
      Gemini: '"temperature":0.5',
    },
    ["0.5", '"hot"'],
  ),
  "nucleus sampling": setting(
    { topP: 0.5 },
    { "OpenAI Responses": '"top_p":0.5', "OpenAI Chat": '"top_p":0.5', Anthropic: '"top_p":0.5', Gemini: '"topP":0.5' },
    ["0.5", '"half"'],
  ),
  "sampling from the top k tokens": bodyField(
    {
      "OpenAI Chat": { top_k: 5 },
      Anthropic: { top_k: 5 },
      Gemini: { generationConfig: { topK: 5 } },
    },
    ['"top_k":5', '"top_k":"five"'],
  ),
  "limit of output tokens": setting(
    { maxTokens: 99 },
    {
      "OpenAI Responses": '"max_output_tokens":99',
      "OpenAI Chat": '"max_completion_tokens":99',
      Anthropic: '"max_tokens":99',
      Gemini: '"maxOutputTokens":99',
    },
    ["99", '"many"'],
  ),
  "stop sequences": setting(
    { stopSequences: ["END"] },
    { "OpenAI Chat": '"stop":["END"]', Anthropic: '"stop_sequences":["END"]', Gemini: '"stopSequences":["END"]' },
    ['["END"]', "[5]"],
    "stopSequences",
  ),
  seed: setting({ seed: 7 }, { "OpenAI Chat": '"seed":7', Gemini: '"seed":7' }, ["7", '"x"'], "seed"),
  "log probabilities": bodyField({
    "OpenAI Responses": { top_logprobs: 2 },
    "OpenAI Chat": { logprobs: true, top_logprobs: 2 },
    Gemini: { generationConfig: { responseLogprobs: true } },
  }),
  "system message inside of a conversation": content(
    [user("Hi."), system("Be kind."), user("Go on.")],
    {
      "OpenAI Responses": '"role":"developer","content":[{"type":"input_text","text":"Be kind."}]',
      "OpenAI Chat": '"role":"developer","content":"Be kind."',
      Anthropic: '"role":"system","content":[{"type":"text","text":"Be kind."}]',
    },
    ['"Be kind."', "5"],
    "messages[1]",
  ),
  "name of the author of a message": content(
    [user("Hi.", { name: "ann" })],
    { "OpenAI Chat": '"name":"ann"' },
    ['"ann"', "5"],
    "messages[0].name",
  ),
  "forced tool": setting(
    { tools: [weather], toolChoice: { type: "tool", name: "weather" } },
    {
      "OpenAI Responses": '"tool_choice":{"type":"function","name":"weather"}',
      "OpenAI Chat": '"tool_choice":{"type":"function","function":{"name":"weather"}}',
      Anthropic: '"tool_choice":{"type":"tool","name":"weather"}',
      Gemini: '"allowedFunctionNames":["weather"]',
    },
    ['"type":"tool"', '"type":"tol"'],
  ),
  "no parallel tool calls": setting(
    { tools: [weather], parallelToolCalls: false },
    {
      "OpenAI Responses": '"parallel_tool_calls":false',
      "OpenAI Chat": '"parallel_tool_calls":false',
      Anthropic: '"disable_parallel_tool_use":true',
    },
    ['"parallelToolCalls":false', '"parallelToolCalls":5'],
    "parallelToolCalls",
  ),
  "answers in a JSON Schema": setting(
    {
      responseFormat: {
        type: "json_schema",
        name: "city",
        schema: { type: "object", additionalProperties: false },
        strict: true,
      },
    },
    {
      "OpenAI Responses": '"format":{"type":"json_schema","name":"city"',
      "OpenAI Chat": '"json_schema":{"name":"city"',
      Anthropic: '"format":{"type":"json_schema","schema":{"type":"object"',
      Gemini: '"responseJsonSchema":{"type":"object"',
    },
    ['"json_schema"', '"jsonschema"'],
  ),
  "answers in any JSON": setting(
    { responseFormat: { type: "json_object" } },
    {
      "OpenAI Responses": '"format":{"type":"json_object"}',
      "OpenAI Chat": '"response_format":{"type":"json_object"}',
      Gemini: '"responseMimeType":"application/json"',
    },
    ['"json_object"', '"json"'],
    "responseFormat",
  ),
  "reasoning effort": setting(
    { reasoning: { effort: "low", budgetTokens: null, summary: null } },
    {
      "OpenAI Responses": '"reasoning":{"effort":"low"}',
      "OpenAI Chat": '"reasoning_effort":"low"',
      Anthropic: '"effort":"low"',
      Gemini: '"thinkingLevel":"low"',
    },
    ['"low"', "5"],
  ),
  "budget of reasoning tokens": setting(
    { reasoning: { effort: null, budgetTokens: 2048, summary: null } },
    { Anthropic: '"budget_tokens":2048', Gemini: '"thinkingBudget":2048' },
    ["2048", '"many"'],
    "reasoning.budgetTokens",
  ),
  "summary of the reasoning": setting(
    { reasoning: { effort: "low", budgetTokens: null, summary: "auto" } },
    { "OpenAI Responses": '"summary":"auto"', Anthropic: '"display":"summarized"', Gemini: '"includeThoughts":true' },
    ['"auto"', "5"],
    "reasoning.summary",
  ),
  verbosity: bodyField({ "OpenAI Responses": { text: { verbosity: "low" } }, "OpenAI Chat": { verbosity: "low" } }, [
    '"text":{"verbosity":"low"}',
    '"text":5',
  ]),
  "image by URL": content(
    [user([imagePart(imageFromUrl("https://example.com/cat.png"))])],
    {
      "OpenAI Responses": '"image_url":"https://example.com/cat.png"',
      "OpenAI Chat": '"image_url":{"url":"https://example.com/cat.png"}',
      Anthropic: '"source":{"type":"url","url":"https://example.com/cat.png"}',
      Gemini: '"fileUri":"https://example.com/cat.png"',
    },
    ['"https://example.com/cat.png"', "5"],
  ),
  "image by its bytes": content(
    [user([imagePart(png)])],
    {
      "OpenAI Responses": "data:image/png;base64,iVBORw0KGgo=",
      "OpenAI Chat": "data:image/png;base64,iVBORw0KGgo=",
      Anthropic: '"media_type":"image/png"',
      Gemini: '"inlineData":{"mimeType":"image/png"',
    },
    ['"iVBORw0KGgo="', "5"],
  ),
  "original resolution of an image": content(
    [user([imagePart(png, { detail: "original" })])],
    { "OpenAI Responses": '"detail":"original"', "OpenAI Chat": '"detail":"original"' },
    ['"original"', '"huge"'],
    "messages[0].content[0].detail",
  ),
  "PDF file": content(
    [user([filePart(pdf, { mimeType: "application/pdf", name: "a.pdf" })])],
    {
      "OpenAI Responses": '"type":"input_file"',
      "OpenAI Chat": '"type":"file"',
      Anthropic: '"type":"document"',
      Gemini: '"inlineData":{"mimeType":"application/pdf"',
    },
    ['"JVBERi0="', "5"],
  ),
  "uploaded file": {
    asked: (api) => ({
      messages: [
        user([
          filePart({ type: "provider_file", provider: providerOf[api], id: "file_1" }, { mimeType: "application/pdf" }),
        ]),
      ],
    }),
    sent: {
      "OpenAI Responses": '"file_id":"file_1"',
      "OpenAI Chat": '"file_id":"file_1"',
      Anthropic: '"file_id":"file_1"',
      Gemini: '"fileUri":"file_1"',
    },
    wrong: ['"file_1"', "5"],
  },
  "audio input": content(
    [user([filePart({ type: "base64", data: "AAAA" }, { mimeType: "audio/wav" })])],
    {
      "OpenAI Responses": '"type":"input_audio"',
      "OpenAI Chat": '"type":"input_audio"',
      Gemini: '"inlineData":{"mimeType":"audio/wav"',
    },
    ['"AAAA"', "5"],
  ),
  "section and frame rate of a video": partField(
    (options) =>
      user([filePart({ type: "url", url: "https://example.com/a.mp4" }, { mimeType: "video/mp4", ...options })]),
    { Gemini: { videoMetadata: { fps: 2 } } },
    ['"fps":2', '"fps":"two"'],
  ),
  "resolution of media in tokens": partField(
    (options) => user([filePart(pdf, { mimeType: "application/pdf", ...options })]),
    { Gemini: { mediaResolution: { numTokens: 64 } } },
    ['"numTokens":64', '"numTokens":"many"'],
  ),
  "citations, context, title of a document": partField(
    (options) => user([filePart(pdf, { mimeType: "application/pdf", ...options })]),
    { Anthropic: { citations: { enabled: true }, context: "A report.", title: "Report" } },
    ['"enabled":true', '"enabled":5'],
  ),
  "search results": content(
    [user([searchResultPart({ source: "https://example.com", title: "Rome", content: "Seven hills." })])],
    {
      "OpenAI Responses": "Seven hills.",
      "OpenAI Chat": "Seven hills.",
      Anthropic: '"type":"search_result"',
      Gemini: "Seven hills.",
    },
    ['"enabled":true', '"enabled":5'],
  ),
  "continuing the text of the assistant": content(
    [user("Count."), assistant("one, two,")],
    {
      "OpenAI Chat": '{"role":"assistant","content":"one, two,"}]',
      Anthropic: '{"role":"assistant","content":[{"type":"text","text":"one, two,"}]}]',
      Gemini: '{"role":"model","parts":[{"text":"one, two,"}]}]',
    },
    ['"one, two,"', "5"],
  ),
  "prompt cache key": setting(
    { promptCache: { key: "key-1" } },
    { "OpenAI Responses": '"prompt_cache_key":"key-1"', "OpenAI Chat": '"prompt_cache_key":"key-1"' },
    ['"key-1"', "5"],
    "promptCache",
  ),
  "automatic cache breakpoints": setting(
    { promptCache: { breakpoints: "auto" } },
    { Anthropic: '"cache_control":{"type":"ephemeral"}' },
    ['"auto"', '"many"'],
    "promptCache",
  ),
  "cache breakpoint on a part": {
    asked: (api) => {
      const field = api === "Anthropic" ? { cache_control: { type: "ephemeral" } } : openaiBreakpoint;
      if (api === "Gemini") return null;
      return { messages: [user([textPart("Hi.", { providerOptions: { [providerOf[api]]: field } })])] };
    },
    sent: {
      "OpenAI Responses": '"prompt_cache_breakpoint":{"mode":"explicit"}',
      "OpenAI Chat": '"prompt_cache_breakpoint":{"mode":"explicit"}',
      Anthropic: '"cache_control":{"type":"ephemeral"}',
    },
    wrong: (api) =>
      textPart(
        "Hi.",
        JSON.parse(`{"providerOptions":{"${providerOf[api]}":{"cache_control":5,"prompt_cache_breakpoint":5}}}`),
      ),
  },
  "cached prompt by name": bodyField({ Gemini: { cachedContent: "cachedContents/1" } }, ['"cachedContents/1"', "5"]),
  "strict tool arguments": toolField(
    { "OpenAI Responses": { strict: true }, "OpenAI Chat": { strict: true }, Anthropic: { strict: true } },
    ['"strict":true', '"strict":5'],
  ),
  "deferred tools": toolField({ "OpenAI Responses": { defer_loading: true }, Anthropic: { defer_loading: true } }, [
    '"defer_loading":true',
    '"defer_loading":5',
  ]),
  "example arguments of a tool": toolField({ Anthropic: { input_examples: [{ city: "Oslo" }] } }, [
    '"input_examples":[{"city":"Oslo"}]',
    '"input_examples":5',
  ]),
  "tool that does not block the model": toolField({ Gemini: { behavior: "NON_BLOCKING" } }, ['"NON_BLOCKING"', "5"]),
  "tools run by the provider": {
    asked: (api) => ({
      options: { providerTools: [{ provider: providerOf[api], name: hostedTools[api], options: { size: 3 } }] },
    }),
    sent: {
      "OpenAI Responses": '{"type":"web_search","size":3}',
      "OpenAI Chat": '{"type":"web_search","size":3}',
      Anthropic: '{"type":"web_search_20250305","name":"web_search","size":3}',
      Gemini: '{"googleSearch":{"size":3}}',
    },
  },
  "shell run by the program": programTool(
    { "OpenAI Responses": { name: "shell" }, Anthropic: { name: "bash_20250124" } },
    { "OpenAI Responses": '"type":"shell"', Anthropic: '"type":"bash_20250124"' },
  ),
  "file edits run by the program": programTool(
    { "OpenAI Responses": { name: "apply_patch" }, Anthropic: { name: "text_editor_20250728" } },
    { "OpenAI Responses": '"type":"apply_patch"', Anthropic: '"type":"text_editor_20250728"' },
  ),
  "computer use": {
    ...programTool(
      {
        "OpenAI Responses": { name: "computer" },
        Anthropic: { name: "computer_20250124", options: { display_width_px: 800, display_height_px: 600 } },
      },
      {},
    ),
    asked: (api) => {
      if (api === "Gemini")
        return { options: { providerTools: [{ provider: "gemini", name: "computerUse", options: {} }] } };
      const computer =
        api === "Anthropic"
          ? { name: "computer_20250124", options: { display_width_px: 800, display_height_px: 600 } }
          : { name: "computer" };
      return { options: { tools: [providerTool({ provider: providerOf[api], ...computer })] } };
    },
    sent: {
      "OpenAI Responses": '"type":"computer"',
      Anthropic: '"type":"computer_20250124"',
      Gemini: '{"computerUse":{}}',
    },
    wrong: (api) => (api === "Gemini" ? null : providerTool({ provider: providerOf[api], name: "no_such_tool" })),
  },
  "memory run by the program": programTool(
    { Anthropic: { name: "memory_20250818" } },
    { Anthropic: '"type":"memory_20250818"' },
  ),
  "custom tools with a grammar": programTool(
    { "OpenAI Responses": { name: "custom", options: custom }, "OpenAI Chat": { name: "custom", options: custom } },
    {
      "OpenAI Responses": '"format":{"type":"grammar","syntax":"lark","definition":"start: /a/"}',
      "OpenAI Chat": '"format":{"type":"grammar","grammar":{"syntax":"lark","definition":"start: /a/"}}',
    },
  ),
  "approval of MCP calls": programTool(
    { "OpenAI Responses": { name: "mcp", options: { server_label: "docs", server_url: "https://example.com/mcp" } } },
    { "OpenAI Responses": '"server_label":"docs"' },
  ),
  "tool search run by the program": programTool(
    { "OpenAI Responses": { name: "tool_search", options: { execution: "client" } } },
    { "OpenAI Responses": '"type":"tool_search"' },
  ),
  "forced provider tool": {
    asked: (api) => {
      if (api === "Gemini") return null;
      const defined = api === "Anthropic" ? { name: "bash_20250124" } : { name: "custom", options: custom };
      const forced = providerTool({ provider: providerOf[api], ...defined });
      return { options: { tools: [forced], toolChoice: { type: "tool", name: forced.name } } };
    },
    sent: {
      "OpenAI Responses": '"tool_choice":{"type":"custom","name":"sql"}',
      "OpenAI Chat": '"tool_choice":{"type":"custom","custom":{"name":"sql"}}',
      Anthropic: '"tool_choice":{"type":"tool","name":"bash"}',
    },
    wrong: (api) => providerTool({ provider: providerOf[api], name: "no_such_tool" }),
  },
  "service tier": bodyField(
    {
      "OpenAI Responses": { service_tier: "flex" },
      "OpenAI Chat": { service_tier: "flex" },
      Anthropic: { service_tier: "auto" },
      Gemini: { serviceTier: "flex" },
    },
    ['"service_tier":', '"service_tier":5,"rest":'],
  ),
  "id of the end user": bodyField(
    {
      "OpenAI Responses": { safety_identifier: "user-1" },
      "OpenAI Chat": { safety_identifier: "user-1" },
      Anthropic: { metadata: { user_id: "user-1" } },
    },
    ['"user-1"', "5"],
  ),
  "safety settings": bodyField(
    { Gemini: { safetySettings: [{ category: "HARM_CATEGORY_HARASSMENT", threshold: "BLOCK_NONE" }] } },
    ['"safetySettings":', '"safetySettings":5,"rest":'],
  ),
  "context management by the provider": bodyField(
    {
      "OpenAI Responses": { context_management: [{ type: "compaction", compact_threshold: 9000 }] },
      Anthropic: { context_management: { edits: [{ type: "clear_tool_uses_20250919" }] } },
    },
    ['"context_management":{', '"context_management":5,"rest":{'],
    { betas: ["context-management-2025-06-27"] },
  ),
  "predicted output": bodyField({ "OpenAI Chat": { prediction: { type: "content", content: "one two" } } }),
  "conversation stored by the provider": bodyField({ "OpenAI Responses": { previous_response_id: "resp_1" } }),
  "warnings for what is not sent": {
    asked: (api) => ({
      options: {
        seed: 7,
        tools: [weather],
        parallelToolCalls: false,
        reasoning: { effort: null, budgetTokens: api === "Anthropic" ? null : 2048, summary: null },
      },
    }),
    received: Object.fromEntries(apis.map((api) => [api, '"warnings":[{"reason":"unsupported"'])),
  },
  "encrypted reasoning between calls": {
    asked: (api) => (api === "OpenAI Chat" ? null : { reply: reasoningReplies[api] }),
    sent: {
      "OpenAI Responses": '"encrypted_content":"c2ln"',
      Anthropic: '"signature":"c2ln"',
      Gemini: '"thoughtSignature":"c2ln"',
    },
    isAutomatic: true,
  },
  "citations in a reply": {
    asked: (api) => ({ reply: citedReplies[api] }),
    received: Object.fromEntries(apis.map((api) => [api, "https://example.com/source"])),
  },
  "generated images": {
    asked: (api) => (api === "Anthropic" ? null : { reply: imageReplies[api] }),
    received: Object.fromEntries(apis.map((api) => [api, '"mimeType":"image/png"'])),
  },
  "paused replies": {
    asked: (api) =>
      api === "Anthropic"
        ? { reply: { type: "message", content: [{ type: "text", text: "Searching." }], stop_reason: "pause_turn" } }
        : null,
    received: { Anthropic: '"finishReason":"paused"' },
  },
  "fields of the request body": {
    asked: () => ({ options: { options: { new_field: 1 } } }),
    sent: Object.fromEntries(apis.map((api) => [api, '"new_field":1'])),
  },
  "headers of one call": setting(
    { adapterOptions: { headers: { "x-team": "red" } } },
    Object.fromEntries(apis.map((api) => [api, '"x-team":"red"'])),
    ['"x-team":"red"', '"x-team":5'],
  ),
  "beta features": {
    asked: (api) => ({
      options: {
        adapterOptions: providerOf[api] === "openai" ? { headers: { "openai-beta": "beta-1" } } : { betas: ["beta-1"] },
      },
    }),
    sent: {
      "OpenAI Responses": '"openai-beta":"beta-1"',
      "OpenAI Chat": '"openai-beta":"beta-1"',
      Anthropic: '"anthropic-beta":"beta-1"',
    },
    wrong: ['"betas":["beta-1"]', '"betas":5'],
  },
};
