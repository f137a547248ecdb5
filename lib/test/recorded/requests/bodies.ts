// Request bodies, written by hand, that together use the fields of each API and need every rule for harmless
// differences.

import type { WireApi } from "../../../src/core/wire/internal.ts";
import type { JsonObject } from "everturn";

const png = "iVBORw0KGgo=";
const schema = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};
/**
 * A schema that an API accepted, or that it ignores parts of, and that the library writes in the documented keywords.
 */
const looseSchema = {
  ...schema,
  properties: { city: { type: "string", minLength: 1, "x-order": 1 } },
};

export const bodies: { readonly [A in WireApi]: { readonly [title: string]: JsonObject } } = {
  "openai-responses": {
    "text, settings and fields without a type": {
      model: "gpt-4o",
      instructions: "Be brief.",
      input: "Hello.",
      temperature: 0.5,
      top_p: 0.9,
      max_output_tokens: 100,
      stream: false,
      store: false,
      service_tier: "flex",
      metadata: { team: "red" },
      top_logprobs: 3,
      include: ["message.output_text.logprobs"],
      truncation: "auto",
      safety_identifier: "user-1",
      text: { verbosity: "low", format: { type: "text" } },
      user: null,
    },
    "a reasoning model with a schema and a cache": {
      model: "gpt-5.4",
      input: [
        { role: "developer", content: "Be brief." },
        { role: "system", content: [{ type: "input_text", text: "Be kind." }] },
        { role: "user", content: [{ type: "input_text", text: "A city?" }] },
      ],
      reasoning: { effort: "low", summary: "auto", context: "all_turns" },
      text: {
        format: { type: "json_schema", name: "city", schema: looseSchema, strict: true, description: "A city." },
        verbosity: "high",
      },
      prompt_cache_key: "cache-1",
      prompt_cache_retention: "24h",
      stream: true,
    },
    media: {
      model: "gpt-4o",
      input: [
        {
          type: "message",
          role: "user",
          content: [
            { type: "input_text", text: "What is this?" },
            { type: "input_image", image_url: "https://example.com/cat.png", detail: "low" },
            { type: "input_image", image_url: `data:image/png;base64,${png}` },
            { type: "input_image", file_id: "file_1", detail: "auto" },
            { type: "input_file", filename: "a.pdf", file_data: "data:application/pdf;base64,JVBERi0=" },
            { type: "input_file", file_url: "https://example.com/a.pdf" },
            { type: "input_text", text: "" },
          ],
        },
      ],
    },
    "tools, calls and results": {
      model: "gpt-4o",
      input: [
        { role: "user", content: "Weather in Oslo and Rome?" },
        {
          type: "message",
          role: "assistant",
          id: "msg_1",
          status: "completed",
          content: [
            { type: "output_text", text: "I look.", annotations: [] },
            {
              type: "output_text",
              text: "In two places.",
              annotations: [
                { type: "url_citation", url: "https://example.com", title: "", start_index: 0, end_index: 1 },
              ],
            },
          ],
        },
        {
          type: "function_call",
          id: "fc_1",
          call_id: "call_1",
          name: "weather",
          arguments: '{"city": "Oslo"}',
          status: "completed",
        },
        { type: "function_call", id: "fc_2", call_id: "call_2", name: "weather", arguments: '{"city":"Rome"}' },
        {
          type: "function_call_output",
          call_id: "call_2",
          output: [
            { type: "input_text", text: "hot" },
            { type: "input_text", text: "dry" },
          ],
        },
        { type: "function_call_output", call_id: "call_1", output: "cold" },
        { role: "system", content: "Answer now." },
        { role: "user", content: "Go on." },
      ],
      tools: [
        { type: "web_search", filters: { allowed_domains: ["example.com"] } },
        { type: "function", name: "weather", description: "The weather.", parameters: schema, strict: true },
        { type: "function", name: "time", parameters: {}, strict: false },
        { type: "function", name: "place", description: "A place.", parameters: { type: "object", properties: {} } },
      ],
      tool_choice: { type: "function", name: "weather" },
      parallel_tool_calls: false,
    },
    "reasoning and hosted tools in the history": {
      model: "gpt-5.4",
      store: false,
      include: ["reasoning.encrypted_content"],
      input: [
        { role: "user", content: "Search." },
        {
          type: "reasoning",
          id: "rs_1",
          summary: [{ type: "summary_text", text: "Think." }],
          encrypted_content: "gAAAA",
        },
        { type: "web_search_call", id: "ws_1", status: "completed", action: { type: "search", query: "news" } },
        {
          type: "message",
          id: "msg_2",
          role: "assistant",
          status: "completed",
          content: [{ type: "output_text", text: "News.", annotations: [] }],
        },
        { role: "user", content: "More." },
      ],
      tools: [{ type: "web_search" }],
      tool_choice: "auto",
    },
    "calls of provider tools that the program runs": {
      model: "gpt-5.4",
      input: [
        { role: "user", content: "Fix it." },
        {
          type: "shell_call",
          id: "sh_1",
          call_id: "call_1",
          status: "completed",
          action: { commands: ["ls"], timeout_ms: null, max_output_length: null },
        },
        {
          type: "shell_call_output",
          call_id: "call_1",
          output: [{ stdout: "a.txt", stderr: "", outcome: { type: "exit", exit_code: 0 } }],
        },
        {
          type: "apply_patch_call",
          id: "ap_1",
          call_id: "call_2",
          status: "completed",
          operation: { type: "delete_file", path: "a.txt" },
        },
        { type: "apply_patch_call_output", call_id: "call_2", status: "failed", output: "no such file" },
        {
          type: "computer_call",
          id: "cu_1",
          call_id: "call_3",
          status: "completed",
          action: { type: "screenshot" },
          pending_safety_checks: [],
        },
        {
          type: "computer_call_output",
          call_id: "call_3",
          output: { type: "computer_screenshot", image_url: `data:image/png;base64,${png}` },
        },
        { type: "mcp_approval_request", id: "mcpr_1", server_label: "docs", name: "search", arguments: "{}" },
        { type: "mcp_approval_response", approval_request_id: "mcpr_1", approve: true },
        {
          type: "tool_search_call",
          call_id: "call_4",
          execution: "client",
          status: "completed",
          arguments: { query: "time" },
        },
        {
          type: "tool_search_output",
          call_id: "call_4",
          execution: "client",
          status: "completed",
          tools: [
            { type: "function", name: "time", description: "", parameters: {}, strict: false, defer_loading: true },
          ],
        },
        { type: "custom_tool_call", id: "ct_1", call_id: "call_5", name: "sql", input: "SELECT 1" },
        { type: "custom_tool_call_output", call_id: "call_5", output: "1" },
      ],
      tools: [
        { type: "shell" },
        { type: "apply_patch" },
        { type: "computer" },
        { type: "tool_search", execution: "client" },
        { type: "custom", name: "sql" },
      ],
    },
    "items by reference": {
      model: "gpt-4o",
      input: [
        { role: "user", content: "Weather?" },
        { type: "item_reference", id: "fc_known" },
        { type: "function_call_output", call_id: "call_7", output: "cold" },
        { type: "item_reference", id: "fc_unknown" },
        { type: "function_call_output", call_id: "call_8", output: "hot" },
        { type: "item_reference", id: "msg_unknown" },
        { role: "user", content: "Go on." },
      ],
      tools: [{ type: "function", name: "weather", description: "The weather.", parameters: schema, strict: null }],
      tool_choice: { type: "allowed_tools", mode: "auto", tools: [{ type: "function", name: "weather" }] },
    },
  },
  "openai-chat": {
    "text and settings": {
      model: "gpt-4o",
      messages: [
        { role: "system", content: "Be brief." },
        { role: "system", content: [{ type: "text", text: "Be kind." }] },
        { role: "user", name: "ann", content: [{ type: "text", text: "Hello." }] },
      ],
      temperature: 0,
      top_p: 0.9,
      max_tokens: 100,
      stop: "END",
      seed: 7,
      n: 1,
      logprobs: true,
      top_logprobs: 2,
      logit_bias: { "50256": -100 },
      presence_penalty: 0.5,
      frequency_penalty: 0.5,
      user: "user-1",
      metadata: null,
      service_tier: "flex",
      stream: true,
      stream_options: { include_usage: true },
    },
    "a reasoning model with a schema": {
      model: "gpt-5.4",
      messages: [
        { role: "developer", content: "Be brief." },
        { role: "user", content: "A city?" },
      ],
      reasoning_effort: "low",
      max_completion_tokens: 200,
      verbosity: "low",
      store: true,
      prompt_cache_key: "cache-1",
      response_format: {
        type: "json_schema",
        json_schema: { name: "city", schema, strict: true, description: "A city." },
      },
    },
    media: {
      model: "gpt-4o",
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "What is this?" },
            { type: "image_url", image_url: { url: "https://example.com/cat.png", detail: "high" } },
            { type: "image_url", image_url: { url: `data:image/png;base64,${png}`, detail: "auto" } },
            { type: "input_audio", input_audio: { data: "AAAA", format: "wav" } },
            { type: "file", file: { filename: "a.pdf", file_data: "data:application/pdf;base64,JVBERi0=" } },
            { type: "file", file: { file_id: "file_1" } },
          ],
        },
      ],
      modalities: ["text", "audio"],
      audio: { voice: "alloy", format: "wav" },
    },
    "tools, calls and results": {
      model: "gpt-4o",
      messages: [
        { role: "user", content: "Weather in Oslo and Rome?" },
        {
          role: "assistant",
          content: "",
          tool_calls: [
            { id: "call_1", type: "function", index: 0, function: { name: "weather", arguments: '{"city": "Oslo"}' } },
            { id: "call_2", type: "function", index: 1, function: { name: "weather", arguments: '{"city":"Rome"}' } },
          ],
        },
        {
          role: "tool",
          tool_call_id: "call_2",
          content: [
            { type: "text", text: "hot" },
            { type: "text", text: "dry" },
          ],
        },
        { role: "tool", tool_call_id: "call_1", content: "cold" },
        {
          role: "assistant",
          content: [
            { type: "text", text: "Cold" },
            { type: "text", text: " and hot." },
          ],
        },
        { role: "system", content: "Answer now." },
        { role: "user", content: "Go on." },
      ],
      tools: [
        { type: "custom", custom: { name: "sql", description: "Runs SQL." } },
        {
          type: "function",
          function: { name: "weather", description: "The weather.", parameters: looseSchema, strict: true },
        },
        { type: "function", function: { name: "time", parameters: {} } },
      ],
      tool_choice: { type: "function", function: { name: "weather" } },
      parallel_tool_calls: false,
    },
  },
  "anthropic-messages": {
    "text and settings": {
      model: "claude-sonnet-4-5",
      max_tokens: 100,
      system: "Be brief.",
      messages: [
        { role: "user", content: "Hello." },
        {
          role: "user",
          content: [
            { type: "text", text: "Who are you?" },
            { type: "text", text: " " },
          ],
        },
        { role: "assistant", content: "I am " },
      ],
      temperature: 0.5,
      top_p: 0.9,
      top_k: 5,
      stop_sequences: ["END"],
      metadata: { user_id: "user-1" },
      service_tier: "auto",
      stream: false,
      container: null,
    },
    "thinking, a schema and cache breakpoints": {
      model: "claude-opus-4-6",
      max_tokens: 4096,
      system: [
        { type: "text", text: "Be brief." },
        { type: "text", text: "Be kind." },
        { type: "text", text: "A long text.", cache_control: { type: "ephemeral", ttl: "1h" } },
      ],
      messages: [
        { role: "user", content: [{ type: "text", text: "A city?", cache_control: { type: "ephemeral" } }] },
        {
          role: "assistant",
          content: [
            { type: "thinking", thinking: "Think.", signature: "c2ln" },
            { type: "redacted_thinking", data: "cmVk" },
            { type: "text", text: "Oslo.", cache_control: { type: "ephemeral" } },
          ],
        },
        { role: "user", content: "Another?" },
      ],
      thinking: { type: "enabled", budget_tokens: 1024 },
      output_format: { type: "json_schema", schema: looseSchema },
    },
    media: {
      model: "claude-sonnet-4-5",
      max_tokens: 100,
      messages: [
        {
          role: "user",
          content: [
            { type: "image", source: { type: "base64", media_type: "image/png", data: png } },
            { type: "image", source: { type: "url", url: "https://example.com/cat.png" } },
            {
              type: "document",
              title: "a.pdf",
              source: { type: "base64", media_type: "application/pdf", data: "JVBERi0=" },
              citations: { enabled: true },
            },
            {
              type: "document",
              source: { type: "text", media_type: "text/plain", data: "Grüße" },
              context: "A letter.",
            },
            { type: "document", source: { type: "file", file_id: "file_1" } },
            { type: "container_upload", file_id: "file_2" },
            { type: "text", text: "What is this?" },
          ],
        },
      ],
    },
    "tools, calls and results": {
      model: "claude-sonnet-4-5",
      max_tokens: 100,
      messages: [
        { role: "user", content: "Weather in Oslo and Rome?" },
        {
          role: "assistant",
          content: [
            { type: "text", text: "I look." },
            { type: "tool_use", id: "toolu_1", name: "weather", input: { city: "Oslo" } },
            {
              type: "tool_use",
              id: "toolu_2",
              name: "weather",
              input: { city: "Rome" },
              cache_control: { type: "ephemeral" },
            },
          ],
        },
        {
          role: "user",
          content: [
            { type: "text", text: "Here." },
            { type: "tool_result", tool_use_id: "toolu_1", content: [{ type: "text", text: "cold" }], is_error: false },
            { type: "tool_result", tool_use_id: "toolu_2", content: "no such city", is_error: true },
          ],
        },
        {
          role: "assistant",
          content: [
            { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: { query: "Rome" } },
            {
              type: "web_search_tool_result",
              tool_use_id: "srvtoolu_1",
              content: [
                {
                  type: "web_search_result",
                  url: "https://example.com",
                  title: "Rome",
                  encrypted_content: "ZW5j",
                  page_age: null,
                },
              ],
            },
            { type: "text", text: "Hot." },
          ],
        },
        { role: "user", content: "Go on." },
      ],
      tools: [
        { type: "web_search_20250305", name: "web_search", max_uses: 2 },
        {
          type: "custom",
          name: "weather",
          description: "The weather.",
          input_schema: schema,
          strict: true,
          cache_control: { type: "ephemeral" },
        },
        { name: "time", description: "", input_schema: { type: "object" } },
      ],
      tool_choice: { type: "auto", disable_parallel_tool_use: true },
    },
    "a forced tool": {
      model: "claude-opus-4-6",
      max_tokens: 100,
      system: [
        { type: "text", text: "Be brief." },
        { type: "text", text: "Be kind." },
      ],
      messages: [{ role: "user", content: "Weather in Oslo?" }],
      tools: [{ name: "weather", description: "The weather.", input_schema: schema }],
      tool_choice: { type: "tool", name: "weather", disable_parallel_tool_use: false },
      thinking: { type: "adaptive" },
      output_config: { effort: "high" },
    },
  },
  gemini: {
    "text and settings": {
      model: "models/gemini-2.5-flash",
      contents: [{ parts: [{ text: "Hello." }] }],
      system_instruction: { role: "user", parts: [{ text: "Be brief." }, { text: "Be kind." }] },
      generation_config: {
        temperature: 0.5,
        top_p: 0.9,
        top_k: 5,
        max_output_tokens: 100,
        stop_sequences: ["END"],
        seed: 7,
        candidate_count: 1,
        thinking_config: { thinking_budget: 1024, include_thoughts: true },
        response_modalities: ["TEXT"],
      },
      safety_settings: [{ category: "HARM_CATEGORY_HARASSMENT", threshold: "BLOCK_NONE" }],
      cached_content: null,
    },
    "a schema": {
      contents: [
        { role: "user", parts: [{ text: "A city?" }, { text: "" }] },
        { role: "model", parts: [{ text: "Os" }, { text: "lo." }, { text: "Think.", thought: true }] },
        { role: "user", parts: [{ text: "Another?" }] },
      ],
      generationConfig: {
        responseMimeType: "application/json",
        responseSchema: {
          type: "OBJECT",
          properties: { name: { type: "STRING", nullable: true, minLength: 1 } },
          required: ["name"],
        },
        thinkingConfig: { thinkingLevel: "low" },
      },
    },
    media: {
      contents: [
        {
          role: "user",
          parts: [
            { text: "What is this?" },
            { inlineData: { mimeType: "image/png", data: png } },
            { fileData: { mimeType: "video/mp4", fileUri: "https://example.com/a.mp4" }, videoMetadata: { fps: 2 } },
          ],
        },
      ],
      generationConfig: {},
      tools: [],
    },
    "tools, calls and results": {
      contents: [
        { role: "user", parts: [{ text: "Weather in Oslo and Rome?" }] },
        {
          role: "model",
          parts: [
            { text: "I look.", thoughtSignature: "c2ln" },
            { functionCall: { id: "call_1", name: "weather", args: { city: "Oslo" } }, thoughtSignature: "c2lnMg==" },
          ],
        },
        {
          role: "model",
          parts: [
            {
              functionCall: { name: "weather", args: { city: "Rome" } },
              thoughtSignature: "skip_thought_signature_validator",
            },
          ],
        },
        {
          role: "user",
          parts: [
            {
              functionResponse: {
                id: "call_1",
                name: "weather",
                response: { name: "weather", content: { celsius: 2 } },
              },
            },
            {
              functionResponse: {
                name: "weather",
                response: { error: "no such city" },
                parts: [{ fileData: { mimeType: "image/png", fileUri: "https://example.com/cat.png" } }],
              },
            },
            { text: "Go on." },
          ],
        },
        { role: "model", parts: [{ functionCall: { name: "time", args: {} } }] },
        { role: "user", parts: [{ functionResponse: { name: "time", response: { output: "noon" } } }] },
      ],
      tools: [
        {
          googleSearch: {},
          functionDeclarations: [
            {
              name: "weather",
              description: "The weather.",
              parametersJsonSchema: { $schema: "https://json-schema.org/draft/2020-12/schema", ...schema },
            },
            { name: "time", description: "" },
          ],
        },
      ],
      toolConfig: { functionCallingConfig: { mode: "ANY", allowedFunctionNames: ["weather"] } },
    },
  },
};

/** An item of a recorded answer, to which the body "items by reference" refers. */
export const referredItem: JsonObject = {
  type: "function_call",
  id: "fc_known",
  call_id: "call_7",
  name: "weather",
  arguments: '{"city":"Oslo"}',
  status: "completed",
};
