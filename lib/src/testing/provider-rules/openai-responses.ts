// The documented rules of the OpenAI Responses API.

import type { JsonObject } from "../../core/model/internal.ts";
import type { FieldLimit } from "./field-limits.ts";
import type { SchemaPlaces } from "./openai-schema.ts";
import type { Finding, ProviderRequest, ProviderRule } from "./rule.ts";

import { limitRule, required } from "./field-limits.ts";
import { maxLength, nameLimits, settingLimits, specification } from "./openai-limits.ts";
import { openaiSchemaRules } from "./openai-schema.ts";
import { openaiWords } from "./openai-words.ts";
import { objectsOf, textOrEmpty, valuesAt, findingIf, findingUnless } from "./rule.ts";

const question: JsonObject = { role: "user", content: "Hi." };
const base: JsonObject = { model: "gpt-5.4", input: "Hi." };
const weather: JsonObject = {
  type: "function",
  name: "weather",
  parameters: { type: "object", properties: {} },
  strict: false,
};
const call: JsonObject = { type: "function_call", id: "fc_1", call_id: "call_1", name: "weather", arguments: "{}" };
const output: JsonObject = { type: "function_call_output", call_id: "call_1", output: "Sunny." };
const reply: JsonObject = {
  type: "message",
  id: "msg_1",
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", text: "Hello.", annotations: [] }],
};
const reasoning: JsonObject = { type: "reasoning", id: "rs_1", summary: [] };

function body(fields: JsonObject): ProviderRequest {
  return { body: { ...base, ...fields } };
}

function conversation(...items: readonly JsonObject[]): ProviderRequest {
  return body({ input: [question, ...items] });
}

function toolNamed(name: string): ProviderRequest {
  return body({ tools: [{ ...weather, name }] });
}

function formatNamed(name: string): ProviderRequest {
  return body({ text: { format: { type: "json_schema", name, schema: { type: "object" } } } });
}

const toolName = "tools[type=function].name";

const limits: readonly FieldLimit[] = [
  required(
    "tool_name_required",
    specification,
    toolName,
    body({ tools: [{ type: "function", parameters: { type: "object", properties: {} }, strict: false }] }),
    body({ tools: [weather] }),
  ),
  ...nameLimits("tool_name", toolName, 128, toolNamed),
  required(
    "format_name_required",
    specification,
    "text.format[type=json_schema].name",
    body({ text: { format: { type: "json_schema", schema: { type: "object" } } } }),
    formatNamed("n"),
  ),
  ...nameLimits("format_name", "text.format.name", 64, formatNamed),
  maxLength(
    "call_id_length",
    "input[].call_id",
    64,
    (id) => conversation({ ...call, call_id: id }, { ...output, call_id: id }),
    "https://github.com/AnswerDotAI/fastllm/issues/45",
  ),
  required(
    "reasoning_summary_required",
    specification,
    "input[type=reasoning].summary",
    conversation({ type: "reasoning", id: "rs_1" }, call, output),
    conversation(reasoning, call, output),
  ),
  required(
    "output_required",
    specification,
    "input[type=function_call_output].output",
    conversation(call, { type: "function_call_output", call_id: "call_1" }),
    conversation(call, output),
  ),
  {
    name: "compact_threshold_minimum",
    source: specification,
    path: "context_management[type=compaction].compact_threshold",
    constraint: { type: "min", min: 1_000 },
    refused: body({ context_management: [{ type: "compaction", compact_threshold: 999 }] }),
    accepted: body({ context_management: [{ type: "compaction", compact_threshold: 1_000 }] }),
  },
  ...settingLimits(body),
];

/** Items of earlier requests that are neither in the body nor known. */
function hasUnknownItems({ body, stored }: ProviderRequest): boolean {
  const continues = typeof body["previous_response_id"] === "string" || (body["conversation"] ?? null) !== null;
  const refers = objectsOf(body["input"]).some(({ type }) => type === "item_reference");
  return stored === undefined && (continues || refers);
}

function itemsOf({ body, stored = [] }: ProviderRequest): readonly JsonObject[] {
  return [...stored, ...objectsOf(body["input"])];
}

/**
 * The ids of calls (`function_call`, `custom_tool_call`) or of their outputs (`function_call_output`), of the items
 * whose type matches.
 */
function callIds(items: readonly JsonObject[], type: RegExp): readonly string[] {
  return items.flatMap((item) => (type.test(textOrEmpty(item["type"])) ? [textOrEmpty(item["call_id"])] : []));
}

/** Is the item one that the API has produced, with its id: a message of a reply, a call, a program or reasoning? */
function isReplyItem(item: JsonObject): boolean {
  const isOfCaller =
    /^(?:user|system|developer)$/.test(textOrEmpty(item["role"])) || textOrEmpty(item["type"]).endsWith("_output");
  return !isOfCaller && typeof item["id"] === "string";
}

const histories: readonly ProviderRule[] = [
  {
    name: "call_without_output",
    source: "https://github.com/tjardoo/openai-client/pull/124",
    find: (request) => {
      const items = itemsOf(request);
      const outputs = callIds(items, /_output$/);
      return [...new Set(callIds(items, /^function_call$/))]
        .filter((id) => !outputs.includes(id))
        .map((id) => ({ path: "input", message: `No tool output found for function call ${id}.` }));
    },
    refused: conversation(call),
    accepted: conversation(call, output),
  },
  {
    name: "output_without_call",
    source: "https://github.com/continuedev/continue/issues/10092",
    find: (request) => {
      if (hasUnknownItems(request)) return [];
      const items = itemsOf(request);
      const calls = callIds(items, /_call$/);
      return callIds(items, /^function_call_output$/)
        .filter((id) => !calls.includes(id))
        .map((id) => ({
          path: "input",
          message: `No tool call found for function call output with call_id ${id}.`,
        }));
    },
    refused: conversation(output),
    accepted: body({ input: [output], previous_response_id: "resp_1" }),
  },
  {
    name: "duplicate_item",
    source: "https://github.com/OpenRouterTeam/ai-sdk-provider/issues/254",
    find: (request) => {
      const ids = itemsOf(request).flatMap(({ id }) => (typeof id === "string" ? [id] : []));
      return [...new Set(ids.filter((id, index) => ids.indexOf(id) !== index))].map((id) => ({
        path: "input",
        message: `Duplicate item found with id ${id}. Remove duplicate items from your input and try again.`,
      }));
    },
    refused: { ...body({ previous_response_id: "resp_1", input: [call, output] }), stored: [call] },
    accepted: { ...body({ previous_response_id: "resp_1", input: [output] }), stored: [call] },
  },
  {
    name: "reasoning_without_next_item",
    // The next item has to be the stored one, so it needs its id.
    source: "https://github.com/OpenHands/software-agent-sdk/pull/1754",
    find: ({ body }) => {
      if (body["store"] === false) return [];
      const items = objectsOf(body["input"]);
      return items.flatMap((item, index): readonly Finding[] => {
        const next = items[index + 1];
        return findingUnless(
          item["type"] !== "reasoning" || (next !== undefined && isReplyItem(next)),
          "input",
          `Item '${textOrEmpty(item["id"])}' of type 'reasoning' was provided without its required following item.`,
        );
      });
    },
    refused: conversation(reasoning, { role: "assistant", content: "Hello." }, question),
    accepted: conversation(reasoning, reply, question),
  },
  {
    name: "item_not_stored",
    source: "https://github.com/can1357/oh-my-pi/issues/41",
    status: 404,
    find: ({ body }) =>
      body["store"] !== false
        ? []
        : objectsOf(body["input"])
            .filter(
              (item) =>
                item["type"] === "item_reference" ||
                (item["type"] === "reasoning" && typeof item["encrypted_content"] !== "string"),
            )
            .map((item) => ({
              path: "input",
              message: `Item with id '${textOrEmpty(item["id"])}' not found. Items are not persisted when \`store\` is set to false. Try again with \`store\` set to true, or remove this item from your input.`,
            })),
    refused: body({ store: false, input: [question, reasoning, call, output] }),
    accepted: body({ store: false, input: [question, { ...reasoning, encrypted_content: "c2ln" }, call, output] }),
  },
  {
    name: "call_item_id",
    source: "https://github.com/nodetool-ai/nodetool/pull/4252",
    code: "invalid_value",
    find: ({ body }) =>
      valuesAt(body, "input[type=function_call].id").flatMap(({ path, value }) =>
        findingIf(
          typeof value === "string" && !value.startsWith("fc"),
          path,
          `Invalid '${path}': '${value}'. Expected an ID that begins with 'fc'.`,
        ),
      ),
    refused: conversation({ ...call, id: "call_1" }, output),
    accepted: conversation({ ...call, id: "fc_9" }, output),
  },
  {
    name: "conversation_or_previous_response",
    source: specification,
    code: "mutually_exclusive_parameters",
    find: ({ body }) =>
      findingIf(
        typeof body["previous_response_id"] === "string" && (body["conversation"] ?? null) !== null,
        "previous_response_id",
        "Mutually exclusive parameters: 'conversation'. Ensure you are only providing one of: 'previous_response_id' or 'conversation'.",
      ),
    refused: body({ previous_response_id: "resp_1", conversation: "conv_1" }),
    accepted: body({ previous_response_id: "resp_1" }),
  },
  {
    name: "audio_file",
    source:
      "https://github.com/pydantic/pydantic-ai/blob/main/tests/models/cassettes/test_multimodal_tool_returns/test_multimodal_tool_return_matrix%5Bdirect-url_force_download-audio-openai_responses%5D.yaml",
    code: "invalid_value",
    find: ({ body }) =>
      [
        ...valuesAt(body, "input[].output[type=input_file].file_data"),
        ...valuesAt(body, "input[].content[type=input_file].file_data"),
      ].flatMap(({ path, value }) => {
        const type = /^data:(audio\/[^;,]+)/.exec(textOrEmpty(value))?.[1];
        return findingUnless(
          type === undefined,
          path,
          `Invalid file data: '${path}'. Expected a base64-encoded data URL with a valid file MIME type (e.g. 'data:text/plain;base64,SGVsbG8sIFdvcmxkIQ=='), but got unsupported MIME type '${type}'. Please see https://platform.openai.com/docs/assistants/tools/file-search#supported-files for supported file types.`,
        );
      }),
    refused: conversation(call, {
      ...output,
      output: [{ type: "input_file", filename: "a.mp3", file_data: "data:audio/mpeg;base64,SUQz" }],
    }),
    accepted: conversation(call, {
      ...output,
      output: [{ type: "input_file", filename: "a.pdf", file_data: "data:application/pdf;base64,JVBERi0=" }],
    }),
  },
];

const places: SchemaPlaces = {
  format: "text.format",
  formatParam: "text.format.schema",
  functions: "tools[type=function]",
  output: (schema) => ({ ...base, text: { format: { type: "json_schema", name: "n", schema, strict: true } } }),
  tool: (parameters, strict) => ({ ...base, tools: [{ ...weather, parameters, strict }] }),
  outputCode: "invalid_json_schema",
};

/** The rules of the OpenAI Responses API. */
export const openaiResponsesRules: readonly ProviderRule[] = [
  ...limits.map((row) => limitRule(openaiWords, row)),
  ...openaiSchemaRules(places),
  ...histories,
];
