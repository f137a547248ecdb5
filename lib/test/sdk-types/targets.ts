// The four APIs, the request types of the official SDKs, and for each API a reply that is sent back with the history.

import type { ProviderTool } from "../../src/core/model/internal.ts";
import type { Json, JsonObject } from "everturn";
import type { Codec, WireContext } from "everturn/advanced";

import { anthropicMessages, geminiGenerateContent, openaiChat, openaiResponses } from "everturn/advanced";

export type Target = {
  readonly codec: Codec;
  readonly context: WireContext;
  /** The first lines of the generated file. They declare `Body`, the request type. */
  readonly preamble: readonly string[];
  readonly providerTools: readonly ProviderTool[];
  /** A reply of the API with every item that is sent back. */
  readonly reply: Json;
  /** The calls of the reply that need an answer. The answer to `screenshotCall` is an image. */
  readonly answers: readonly string[];
  /** Names of provider tools that can be forced. */
  readonly choices: readonly string[];
  /** The reasoning effort levels that the model accepts. */
  readonly efforts: readonly string[];
  /** Settings that only this API has, under its names. */
  readonly options: JsonObject;
};

export const screenshotCall = "call_screen";

function contextOf(provider: string, model: string, quirks: WireContext["quirks"] = {}): WireContext {
  return { route: { provider, endpoint: "https://example.com/v1", model }, rawChunks: false, quirks };
}

/** The flat form of a custom tool, which the encoder of Chat Completions nests. */
const sql = {
  name: "sql",
  description: "Runs a query.",
  format: { type: "grammar", syntax: "lark", definition: 'start: "SELECT 1"' },
};

const chat: Target = {
  codec: openaiChat,
  context: contextOf("openai", "gpt-5.4", { systemRole: "developer" }),
  preamble: [
    'import type { ChatCompletionCreateParamsStreaming } from "openai/resources/chat/completions";',
    "type Body = ChatCompletionCreateParamsStreaming;",
  ],
  providerTools: [
    { provider: "openai", name: "custom", options: { custom: { name: "shell", description: "Runs a command." } } },
    { provider: "openai", name: "custom", options: sql },
  ],
  reply: {
    id: "chatcmpl-1",
    model: "gpt-5.4-2026-03-05",
    choices: [
      {
        index: 0,
        message: {
          role: "assistant",
          content: "Let me look.",
          refusal: "Not that.",
          audio: { id: "audio_1", data: "AAAA", transcript: "", expires_at: 1 },
          annotations: [],
          tool_calls: [
            { id: "call_1", type: "function", function: { name: "weather", arguments: '{"city":"Oslo"}' } },
            { id: "call_2", type: "custom", custom: { name: "shell", input: "ls" } },
          ],
        },
        finish_reason: "tool_calls",
      },
    ],
  },
  answers: ["call_1", "call_2"],
  choices: ["shell", "sql"],
  efforts: ["none", "minimal", "low", "medium", "high", "xhigh"],
  options: {
    store: true,
    metadata: { team: "red" },
    service_tier: "flex",
    verbosity: "low",
    logit_bias: { "50256": -100 },
    web_search_options: { search_context_size: "low" },
  },
};

const responses: Target = {
  codec: openaiResponses,
  context: contextOf("openai", "gpt-5.4"),
  // The API accepts things that the types do not declare. OpenAI's Codex sends a reply without the id and status that
  // the API assigns, and the status of a custom call. OpenAI's guide names the call of a local shell output by
  // `call_id`; the type has `id` instead.
  preamble: [
    'import type { ResponseCreateParamsStreaming, ResponseCustomToolCall, ResponseInputItem } from "openai/resources/responses/responses";',
    'type Words = { type: "output_text"; text: string; annotations: [] } | { type: "refusal"; refusal: string };',
    'type Reply = { type: "message"; role: "assistant"; content: Words[]; phase?: "commentary" | "final_answer" };',
    'type Custom = ResponseCustomToolCall & { status?: "completed" };',
    "type Output = Omit<ResponseInputItem.LocalShellCallOutput, 'id'> & { call_id: string };",
    "type Body = Omit<ResponseCreateParamsStreaming, 'input'> & { input: (ResponseInputItem | Reply | Custom | Output)[] };",
  ],
  providerTools: [
    { provider: "openai", name: "web_search", options: { filters: { allowed_domains: ["example.com"] } } },
    { provider: "openai", name: "file_search", options: { vector_store_ids: ["vs_1"] } },
    { provider: "openai", name: "code_interpreter", options: { container: { type: "auto" } } },
    { provider: "openai", name: "image_generation", options: { quality: "low" } },
    { provider: "openai", name: "mcp", options: { server_label: "deepwiki", server_url: "https://example.com/mcp" } },
    { provider: "openai", name: "custom", options: sql },
    { provider: "openai", name: "local_shell", options: {} },
    { provider: "openai", name: "shell", options: { environment: { type: "local" } } },
    { provider: "openai", name: "apply_patch", options: {} },
    { provider: "openai", name: "computer", options: {} },
    {
      provider: "openai",
      name: "tool_search",
      options: { execution: "client", description: "Finds tools.", parameters: { type: "object" } },
    },
  ],
  reply: {
    id: "resp_1",
    status: "completed",
    output: [
      {
        type: "reasoning",
        id: "rs_1",
        summary: [{ type: "summary_text", text: "Look at the weather." }],
        encrypted_content: "gAAAAAB",
        status: "completed",
      },
      {
        type: "message",
        id: "msg_1",
        role: "assistant",
        status: "completed",
        phase: "commentary",
        content: [{ type: "output_text", text: "Let me look.", annotations: [], logprobs: [] }],
      },
      {
        type: "web_search_call",
        id: "ws_1",
        status: "completed",
        action: { type: "search", query: "oslo", queries: ["oslo"] },
      },
      {
        type: "file_search_call",
        id: "fs_1",
        status: "completed",
        queries: ["oslo"],
        results: [{ file_id: "file_1", filename: "a.txt", score: 0.5, text: "Oslo", attributes: {} }],
      },
      {
        type: "code_interpreter_call",
        id: "ci_1",
        status: "completed",
        code: "1",
        container_id: "cntr_1",
        outputs: [{ type: "logs", logs: "1" }],
      },
      { type: "image_generation_call", id: "ig_1", status: "completed", result: "AAAA" },
      { type: "mcp_list_tools", id: "mcpl_1", server_label: "deepwiki", tools: [{ name: "ask", input_schema: {} }] },
      { type: "mcp_call", id: "mcp_1", server_label: "deepwiki", name: "ask", arguments: "{}", output: "Yes." },
      {
        type: "function_call",
        id: "fc_1",
        call_id: "call_1",
        name: "weather",
        arguments: '{"city":"Oslo"}',
        status: "completed",
      },
      { type: "custom_tool_call", id: "ctc_1", call_id: "call_2", name: "sql", input: "SELECT 1", status: "completed" },
      {
        type: "local_shell_call",
        id: "lsh_1",
        call_id: "call_3",
        status: "completed",
        action: { type: "exec", command: ["ls"], env: {}, working_directory: "/root" },
      },
      {
        type: "shell_call",
        id: "sh_1",
        call_id: "call_4",
        status: "completed",
        action: { commands: ["ls"], max_output_length: 1000, timeout_ms: null },
      },
      {
        type: "apply_patch_call",
        id: "apc_1",
        call_id: "call_5",
        status: "completed",
        operation: { type: "update_file", path: "a.md", diff: "@@" },
      },
      {
        type: "tool_search_call",
        id: "tsc_1",
        call_id: "call_6",
        status: "completed",
        execution: "client",
        arguments: { goal: "weather" },
      },
      {
        type: "mcp_approval_request",
        id: "mcpr_1",
        server_label: "deepwiki",
        name: "ask",
        arguments: "{}",
      },
      {
        type: "computer_call",
        id: "cu_1",
        call_id: screenshotCall,
        status: "completed",
        action: { type: "click", button: "left", x: 1, y: 2 },
        pending_safety_checks: [{ id: "sc_1", code: "malicious_instructions", message: "Look." }],
      },
    ],
  },
  answers: ["call_1", "call_2", "call_3", "call_4", "call_5", "call_6", "mcpr_1", screenshotCall],
  choices: ["sql", "shell", "apply_patch", "computer", "mcp_deepwiki"],
  efforts: ["none", "minimal", "low", "medium", "high", "xhigh"],
  options: {
    store: true,
    truncation: "auto",
    service_tier: "flex",
    metadata: { team: "red" },
    text: { verbosity: "low" },
    max_tool_calls: 4,
    context_management: [{ type: "compaction", compact_threshold: 10_000 }],
  },
};

const messages: Target = {
  codec: anthropicMessages,
  context: contextOf("anthropic", "claude-opus-4-7"),
  // The SDK uses version 2026-10-21 of the API, which has no sampling settings. The codec uses 2023-06-01, which has
  // them, for models that support them.
  preamble: [
    'import type { MessageCreateParamsStreaming } from "@anthropic-ai/sdk/resources/messages";',
    "type Body = MessageCreateParamsStreaming & { temperature?: number; top_p?: number; top_k?: number };",
  ],
  providerTools: [
    { provider: "anthropic", name: "web_search_20250305", options: { max_uses: 2 } },
    { provider: "anthropic", name: "web_fetch_20250910", options: { max_content_tokens: 1000 } },
    { provider: "anthropic", name: "code_execution_20250825", options: {} },
    { provider: "anthropic", name: "bash_20250124", options: {} },
    { provider: "anthropic", name: "memory_20250818", options: {} },
    { provider: "anthropic", name: "text_editor_20250728", options: { max_characters: 1000 } },
    { provider: "anthropic", name: "tool_search_tool_bm25_20251119", options: {} },
  ],
  reply: {
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "claude-opus-4-7",
    content: [
      { type: "thinking", thinking: "Look at the weather.", signature: "EqQB" },
      { type: "redacted_thinking", data: "EmwK" },
      { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: { query: "oslo" } },
      {
        type: "web_search_tool_result",
        tool_use_id: "srvtoolu_1",
        content: [
          {
            type: "web_search_result",
            title: "Oslo",
            url: "https://example.com",
            encrypted_content: "Eo8B",
            page_age: null,
          },
        ],
      },
      {
        type: "text",
        text: "Let me look.",
        citations: [
          {
            type: "web_search_result_location",
            url: "https://example.com",
            title: "Oslo",
            encrypted_index: "Eo8B",
            cited_text: "Oslo",
          },
        ],
      },
      { type: "tool_use", id: "toolu_1", name: "weather", input: { city: "Oslo" }, caller: { type: "direct" } },
      { type: "tool_use", id: "toolu_2", name: "time", input: {} },
    ],
    stop_reason: "tool_use",
    usage: { input_tokens: 1, output_tokens: 1 },
  },
  answers: ["toolu_1", "toolu_2"],
  choices: ["bash", "web_search_20250305", "str_replace_based_edit_tool"],
  efforts: ["none", "low", "medium", "high", "xhigh", "max"],
  options: {
    metadata: { user_id: "u-1" },
    service_tier: "auto",
    top_k: 5,
    inference_geo: "us",
  },
};

const generateContent: Target = {
  codec: geminiGenerateContent,
  context: contextOf("gemini", "gemini-3.1-pro-preview"),
  // The request type of the SDK has other names than the API; its parts are equal. Its enums are those of the API,
  // except that the API also accepts thinking levels in lower case, as in its documentation.
  preamble: [
    'import type { Content, GenerationConfig, SafetySetting, ThinkingLevel, Tool, ToolConfig } from "@google/genai";',
    "type Plain<T> = T extends ThinkingLevel ? `${T}` | Lowercase<`${T}`> : T extends string ? `${T}` : PlainObject<T>;",
    "type PlainObject<T> = T extends (infer I)[] ? Plain<I>[] : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;",
    "type Wire = { contents: Content[]; systemInstruction?: Content; tools?: Tool[]; toolConfig?: ToolConfig; generationConfig?: GenerationConfig; safetySettings?: SafetySetting[]; cachedContent?: string };",
    "type Body = Plain<Wire>;",
  ],
  providerTools: [
    { provider: "gemini", name: "googleSearch", options: {} },
    { provider: "gemini", name: "urlContext", options: {} },
    { provider: "gemini", name: "codeExecution", options: {} },
    { provider: "gemini", name: "googleMaps", options: { enableWidget: true } },
    { provider: "gemini", name: "fileSearch", options: { fileSearchStoreNames: ["fileSearchStores/a"], topK: 2 } },
  ],
  reply: {
    responseId: "r-1",
    modelVersion: "gemini-3.1-pro-preview",
    candidates: [
      {
        index: 0,
        finishReason: "STOP",
        content: {
          role: "model",
          parts: [
            { text: "Look at the weather.", thought: true, thoughtSignature: "AY89" },
            { executableCode: { language: "PYTHON", code: "1", id: "code_1" } },
            { codeExecutionResult: { outcome: "OUTCOME_OK", output: "1", id: "code_1" } },
            { inlineData: { mimeType: "image/png", data: "AAAA" }, thoughtSignature: "AY90" },
            { text: "Let me look.", thoughtSignature: "AY91" },
            { functionCall: { id: "fc_1", name: "weather", args: { city: "Oslo" } }, thoughtSignature: "AY92" },
            { functionCall: { name: "time", args: {} } },
          ],
        },
      },
    ],
  },
  answers: ["fc_1", "call_1"],
  choices: [],
  efforts: ["none", "minimal", "low", "medium", "high"],
  options: {
    safetySettings: [{ category: "HARM_CATEGORY_HARASSMENT", threshold: "BLOCK_NONE" }],
    cachedContent: "cachedContents/a",
    generationConfig: { topK: 5, responseModalities: ["TEXT"], mediaResolution: "MEDIA_RESOLUTION_LOW" },
  },
};

export const targets: readonly Target[] = [chat, responses, messages, generateContent];
