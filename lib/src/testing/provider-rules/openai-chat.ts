// The documented rules of the OpenAI Chat Completions API.

import type { JsonObject } from "../../core/model/internal.ts";
import type { FieldLimit } from "./field-limits.ts";
import type { SchemaPlaces } from "./openai-schema.ts";
import type { Finding, ProviderRequest, ProviderRule } from "./rule.ts";

import { limitRule } from "./field-limits.ts";
import { openaiSchemaRules } from "./openai-schema.ts";
import { openaiWords } from "./openai-words.ts";
import { listOf, objectOf, objectsOf, textOrEmpty, valuesAt } from "./rule.ts";

const specification = "https://github.com/openai/openai-openapi/blob/master/openapi.yaml";

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

function numbered(count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => `k${index}`);
}

function metadataOf(count: number): ProviderRequest {
  return body({ metadata: Object.fromEntries(numbered(count).map((key) => [key, "v"])) });
}

function toolsOf(count: number): ProviderRequest {
  return body({ tools: numbered(count).map((name) => ({ type: "function", function: { name } })) });
}

function callsOf(count: number): ProviderRequest {
  const ids = numbered(count);
  return conversation(calling(...ids), ...ids.map((id) => ({ ...result, tool_call_id: id })));
}

const limits: readonly FieldLimit[] = [
  {
    name: "messages_required",
    source: specification,
    path: "messages",
    constraint: { type: "required" },
    refused: { body: { model: "gpt-5.4" } },
    accepted: { body: base },
  },
  {
    name: "messages_empty",
    source: specification,
    path: "messages",
    constraint: { type: "min_items", min: 1 },
    refused: body({ messages: [] }),
    accepted: body({ messages: [question] }),
  },
  {
    name: "tool_name_required",
    source: specification,
    path: "tools[type=function].function.name",
    constraint: { type: "required" },
    refused: body({ tools: [{ type: "function", function: { parameters: { type: "object", properties: {} } } }] }),
    accepted: body({ tools: [weather] }),
  },
  {
    name: "tool_name_pattern",
    source: "https://github.com/brekkylab/ailoy/pull/109",
    path: "tools[type=function].function.name",
    constraint: { type: "pattern", pattern: "^[a-zA-Z0-9_-]+$" },
    refused: toolNamed("the weather"),
    accepted: toolNamed("the_weather-1"),
  },
  {
    name: "tool_name_length",
    source: specification,
    path: "tools[type=function].function.name",
    constraint: { type: "max_length", max: 64 },
    refused: toolNamed("n".repeat(65)),
    accepted: toolNamed("n".repeat(64)),
  },
  {
    name: "tool_count",
    source: "https://github.com/julep-ai/julep/issues/330",
    path: "tools",
    constraint: { type: "max_items", max: 128 },
    refused: toolsOf(129),
    accepted: toolsOf(128),
  },
  {
    name: "call_count",
    source: "https://github.com/gptscript-ai/gptscript/issues/547",
    path: "messages[].tool_calls",
    constraint: { type: "max_items", max: 128 },
    refused: callsOf(129),
    accepted: callsOf(128),
  },
  {
    name: "call_id_length",
    source: "https://github.com/jin-bo/agentao/pull/321",
    path: "messages[].tool_calls[].id",
    constraint: { type: "max_length", max: 64 },
    refused: conversation(calling("c".repeat(65)), { ...result, tool_call_id: "c".repeat(65) }),
    accepted: conversation(calling("c".repeat(64)), { ...result, tool_call_id: "c".repeat(64) }),
  },
  {
    name: "result_id_required",
    source: specification,
    path: "messages[role=tool].tool_call_id",
    constraint: { type: "required" },
    refused: conversation(calling("call_1"), result, { role: "tool", content: "Sunny." }),
    accepted: conversation(calling("call_1"), result),
  },
  {
    name: "format_name_required",
    source: specification,
    path: "response_format.json_schema.name",
    constraint: { type: "required" },
    refused: body({ response_format: { type: "json_schema", json_schema: { schema: { type: "object" } } } }),
    accepted: formatNamed("n"),
  },
  {
    name: "format_name_pattern",
    source: specification,
    path: "response_format.json_schema.name",
    constraint: { type: "pattern", pattern: "^[a-zA-Z0-9_-]+$" },
    refused: formatNamed("a.b"),
    accepted: formatNamed("a_b"),
  },
  {
    name: "format_name_length",
    source: specification,
    path: "response_format.json_schema.name",
    constraint: { type: "max_length", max: 64 },
    refused: formatNamed("n".repeat(65)),
    accepted: formatNamed("n".repeat(64)),
  },
  {
    name: "stop_count",
    source: specification,
    path: "stop",
    constraint: { type: "max_items", max: 4 },
    refused: body({ stop: ["a", "b", "c", "d", "e"] }),
    accepted: body({ stop: ["a", "b", "c", "d"] }),
  },
  {
    name: "metadata_count",
    source: specification,
    path: "metadata",
    constraint: { type: "max_properties", max: 16 },
    refused: metadataOf(17),
    accepted: metadataOf(16),
  },
  {
    name: "temperature_minimum",
    source: specification,
    path: "temperature",
    constraint: { type: "min", min: 0 },
    refused: body({ temperature: -0.1 }),
    accepted: body({ temperature: 0 }),
  },
  {
    name: "temperature_maximum",
    source: specification,
    path: "temperature",
    constraint: { type: "max", max: 2 },
    refused: body({ temperature: 2.1 }),
    accepted: body({ temperature: 2 }),
  },
  {
    name: "top_p_maximum",
    source: specification,
    path: "top_p",
    constraint: { type: "max", max: 1 },
    refused: body({ top_p: 1.1 }),
    accepted: body({ top_p: 1 }),
  },
  {
    name: "top_logprobs_maximum",
    source: specification,
    path: "top_logprobs",
    constraint: { type: "max", max: 20 },
    refused: body({ top_logprobs: 21 }),
    accepted: body({ top_logprobs: 20 }),
  },
  {
    name: "frequency_penalty_maximum",
    source: specification,
    path: "frequency_penalty",
    constraint: { type: "max", max: 2 },
    refused: body({ frequency_penalty: 2.1 }),
    accepted: body({ frequency_penalty: 2 }),
  },
  {
    name: "presence_penalty_maximum",
    source: specification,
    path: "presence_penalty",
    constraint: { type: "max", max: 2 },
    refused: body({ presence_penalty: 2.1 }),
    accepted: body({ presence_penalty: 2 }),
  },
  {
    name: "safety_identifier_length",
    source: specification,
    path: "safety_identifier",
    constraint: { type: "max_length", max: 64 },
    refused: body({ safety_identifier: "u".repeat(65) }),
    accepted: body({ safety_identifier: "u".repeat(64) }),
  },
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
        if (missing.length === 0) return [];
        return [
          {
            path: `messages.[${index + 1 + results.length}].role`,
            message: `An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: ${missing.join(", ")}`,
          },
        ];
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
        return listOf(before?.["tool_calls"]).length > 0
          ? []
          : [
              {
                path: `messages.[${index}].role`,
                message:
                  "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
              },
            ];
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
        return parts.every(({ type }) => type === "text" || type === "image_url")
          ? []
          : [
              {
                path,
                message: `Invalid '${path}'. Content blocks are expected to be either text or image_url type.`,
              },
            ];
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
        value === "wav" || value === "mp3"
          ? []
          : [{ path, message: `Invalid value: '${textOrEmpty(value)}'. Supported values are: 'wav' and 'mp3'.` }],
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
        return type === undefined || type === "application/pdf"
          ? []
          : [
              {
                path,
                message: `Invalid file data: '${path}'. Expected a base64-encoded data URL with an application/pdf MIME type (e.g. 'data:application/pdf;base64,SGVsbG8sIFdvcmxkIQ=='), but got unsupported MIME type '${type}'.`,
              },
            ];
      }),
    refused: body({ messages: [{ role: "user", content: [fileOf("audio/ogg")] }] }),
    accepted: body({ messages: [{ role: "user", content: [fileOf("application/pdf")] }] }),
  },
  {
    name: "parallel_calls_without_tools",
    source: "https://github.com/camel-ai/camel/pull/3706",
    find: ({ body }) =>
      (body["parallel_tool_calls"] ?? null) !== null && listOf(body["tools"]).length === 0
        ? [
            {
              path: "parallel_tool_calls",
              message:
                "Invalid value for 'parallel_tool_calls': 'parallel_tool_calls' is only allowed when 'tools' are specified.",
            },
          ]
        : [],
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
  sites: (body) => {
    const format = objectOf(objectOf(body["response_format"])?.["json_schema"]);
    const schema = objectOf(format?.["schema"]);
    const outputs =
      format === null || schema === null
        ? []
        : [
            {
              schema,
              label: `response_format '${textOrEmpty(format["name"])}'`,
              param: "response_format",
              isStrict: format["strict"] === true,
              isFunction: false,
            },
          ];
    const tools = valuesAt(body, "tools[type=function].function").flatMap(({ path, value }) => {
      const tool = objectOf(value);
      const parameters = objectOf(tool?.["parameters"]);
      if (tool === null || parameters === null) return [];
      const label = `function '${textOrEmpty(tool["name"])}'`;
      return [
        { schema: parameters, label, param: `${path}.parameters`, isStrict: tool["strict"] === true, isFunction: true },
      ];
    });
    return [...outputs, ...tools];
  },
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
