// The documented rules of the OpenAI Chat Completions API.

import type { JsonObject } from "../../core/model/internal.ts";
import type { FieldLimit } from "./field-limits.ts";
import type { SchemaPlaces } from "./openai-schema.ts";
import type { Finding, ProviderRequest, ProviderRule } from "./rule.ts";

import { limitRule, required } from "./field-limits.ts";
import { maxCount, maximum, maxLength, nameLimits, settingLimits, specification } from "./openai-limits.ts";
import { openaiSchemaRules } from "./openai-schema.ts";
import { openaiWords } from "./openai-words.ts";
import { listOf, objectOf, objectsOf, textOrEmpty, valuesAt, findingIf, findingUnless } from "./rule.ts";

const question: JsonObject = { role: "user", content: "Hi." };
const base: JsonObject = { model: "gpt-5.4", messages: [question] };
const weather: JsonObject = {
  type: "function",
  function: { name: "weather", parameters: { type: "object", properties: {} } },
};
const result: JsonObject = { role: "tool", tool_call_id: "call_1", content: "Sunny." };

function calling(...ids: readonly string[]): JsonObject {
  const tool_calls = ids.map((id) => ({ id, type: "function", function: { name: "weather", arguments: "{}" } }));
  return { role: "assistant", content: null, tool_calls };
}

function body(fields: JsonObject): ProviderRequest {
  return { body: { ...base, ...fields } };
}

function conversation(...messages: readonly JsonObject[]): ProviderRequest {
  return body({ messages: [question, ...messages] });
}

function toolNamed(name: string): ProviderRequest {
  return body({ tools: [{ type: "function", function: { name, parameters: { type: "object", properties: {} } } }] });
}

function formatNamed(name: string): ProviderRequest {
  return body({ response_format: { type: "json_schema", json_schema: { name, schema: { type: "object" } } } });
}

const toolName = "tools[type=function].function.name";
const formatName = "response_format.json_schema.name";

const limits: readonly FieldLimit[] = [
  required("messages_required", specification, "messages", { body: { model: "gpt-5.4" } }, { body: base }),
  {
    name: "messages_empty",
    source: specification,
    path: "messages",
    constraint: { type: "min_items", min: 1 },
    refused: body({ messages: [] }),
    accepted: body({ messages: [question] }),
  },
  required(
    "tool_name_required",
    specification,
    toolName,
    body({ tools: [{ type: "function", function: { parameters: { type: "object", properties: {} } } }] }),
    body({ tools: [weather] }),
  ),
  ...nameLimits("tool_name", toolName, 64, toolNamed, "https://github.com/brekkylab/ailoy/pull/109"),
  maxCount(
    "tool_count",
    "tools",
    "max_items",
    128,
    (names) => body({ tools: names.map((name) => ({ type: "function", function: { name } })) }),
    "https://github.com/julep-ai/julep/issues/330",
  ),
  maxCount(
    "call_count",
    "messages[].tool_calls",
    "max_items",
    128,
    (ids) => conversation(calling(...ids), ...ids.map((id) => ({ ...result, tool_call_id: id }))),
    "https://github.com/gptscript-ai/gptscript/issues/547",
  ),
  maxLength(
    "call_id_length",
    "messages[].tool_calls[].id",
    64,
    (id) => conversation(calling(id), { ...result, tool_call_id: id }),
    "https://github.com/jin-bo/agentao/pull/321",
  ),
  required(
    "result_id_required",
    specification,
    "messages[role=tool].tool_call_id",
    conversation(calling("call_1"), result, { role: "tool", content: "Sunny." }),
    conversation(calling("call_1"), result),
  ),
  required(
    "format_name_required",
    specification,
    formatName,
    body({ response_format: { type: "json_schema", json_schema: { schema: { type: "object" } } } }),
    formatNamed("n"),
  ),
  ...nameLimits("format_name", formatName, 64, formatNamed),
  maxCount("stop_count", "stop", "max_items", 4, (stop) => body({ stop })),
  ...settingLimits(body),
  maximum("frequency_penalty", 2, body),
  maximum("presence_penalty", 2, body),
];

const histories: readonly ProviderRule[] = [
  {
    name: "call_without_result",
    source: "https://github.com/router-for-me/CLIProxyAPI/issues/2798",
    find: ({ body }) => {
      const messages = objectsOf(body["messages"]);
      return messages.flatMap((message, index): readonly Finding[] => {
        const ids = objectsOf(message["tool_calls"]).map(({ id }) => textOrEmpty(id));
        const results = resultsAfter(messages, index);
        const missing = ids.filter((id) => !results.some((each) => each["tool_call_id"] === id));
        return findingIf(
          missing.length > 0,
          `messages.[${index + 1 + results.length}].role`,
          `An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: ${missing.join(", ")}`,
        );
      });
    },
    refused: conversation(calling("call_1", "call_2"), result, question),
    accepted: conversation(calling("call_1"), result, question),
  },
  {
    name: "result_without_call",
    source: "https://github.com/Haervwe/open-webui-tools/issues/12",
    find: ({ body }) => {
      const messages = objectsOf(body["messages"]);
      return messages.flatMap((message, index): readonly Finding[] => {
        if (message["role"] !== "tool") return [];
        const before = messages.slice(0, index).findLast(({ role }) => role !== "tool");
        return findingUnless(
          listOf(before?.["tool_calls"]).length > 0,
          `messages.[${index}].role`,
          "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
        );
      });
    },
    refused: conversation(result),
    accepted: conversation(calling("call_1"), result),
  },
  {
    name: "result_content",
    source: specification,
    code: "invalid_value",
    find: ({ body }) =>
      valuesAt(body, "messages[role=tool]").flatMap(({ path, value }) => {
        const parts = objectsOf(objectOf(value)?.["content"]);
        return findingUnless(
          parts.every(({ type }) => type === "text" || type === "image_url"),
          path,
          `Invalid '${path}'. Content blocks are expected to be either text or image_url type.`,
        );
      }),
    refused: conversation(calling("call_1"), {
      ...result,
      content: [{ type: "input_audio", input_audio: { data: "SUQz", format: "mp3" } }],
    }),
    accepted: conversation(calling("call_1"), { ...result, content: [{ type: "text", text: "Sunny." }] }),
  },
  {
    name: "audio_format",
    source: "https://platform.openai.com/docs/api-reference/chat/create",
    code: "invalid_value",
    find: ({ body }) =>
      valuesAt(body, "messages[].content[type=input_audio].input_audio.format").flatMap(({ path, value }) =>
        findingUnless(
          value === "wav" || value === "mp3",
          path,
          `Invalid value: '${textOrEmpty(value)}'. Supported values are: 'wav' and 'mp3'.`,
        ),
      ),
    refused: body({ messages: [{ role: "user", content: [audioOf("ogg")] }] }),
    accepted: body({ messages: [{ role: "user", content: [audioOf("mp3")] }] }),
  },
  {
    name: "file_type",
    source: "https://github.com/openai/openai-dotnet/issues/613",
    code: "invalid_value",
    find: ({ body }) =>
      valuesAt(body, "messages[].content[type=file].file.file_data").flatMap(({ path, value }) => {
        const type = /^data:([^;,]*)/.exec(textOrEmpty(value))?.[1];
        return findingUnless(
          type === undefined || type === "application/pdf",
          path,
          `Invalid file data: '${path}'. Expected a base64-encoded data URL with an application/pdf MIME type (e.g. 'data:application/pdf;base64,SGVsbG8sIFdvcmxkIQ=='), but got unsupported MIME type '${type}'.`,
        );
      }),
    refused: body({ messages: [{ role: "user", content: [fileOf("audio/ogg")] }] }),
    accepted: body({ messages: [{ role: "user", content: [fileOf("application/pdf")] }] }),
  },
  {
    name: "parallel_calls_without_tools",
    source: "https://github.com/camel-ai/camel/pull/3706",
    find: ({ body }) =>
      findingIf(
        (body["parallel_tool_calls"] ?? null) !== null && listOf(body["tools"]).length === 0,
        "parallel_tool_calls",
        "Invalid value for 'parallel_tool_calls': 'parallel_tool_calls' is only allowed when 'tools' are specified.",
      ),
    refused: body({ parallel_tool_calls: false }),
    accepted: body({ parallel_tool_calls: false, tools: [weather] }),
  },
];

function audioOf(format: string): JsonObject {
  return { type: "input_audio", input_audio: { data: "SUQz", format } };
}

function fileOf(type: string): JsonObject {
  return { type: "file", file: { filename: "a", file_data: `data:${type};base64,SUQz` } };
}

/** The tool messages directly after a message. */
function resultsAfter(messages: readonly JsonObject[], index: number): readonly JsonObject[] {
  const rest = messages.slice(index + 1);
  const end = rest.findIndex(({ role }) => role !== "tool");
  return end === -1 ? rest : rest.slice(0, end);
}

const places: SchemaPlaces = {
  format: "response_format.json_schema",
  formatParam: "response_format",
  functions: "tools[type=function].function",
  output: (schema) => ({
    ...base,
    response_format: { type: "json_schema", json_schema: { name: "n", schema, strict: true } },
  }),
  tool: (parameters, strict) => ({
    ...base,
    tools: [{ type: "function", function: { name: "weather", parameters, strict } }],
  }),
  outputCode: null,
};

/** The rules of the OpenAI Chat Completions API. */
export const openaiChatRules: readonly ProviderRule[] = [
  ...limits.map((row) => limitRule(openaiWords, row)),
  ...openaiSchemaRules(places),
  ...histories,
];
