// Recorded requests of the OpenAI Responses API: the converter to the library's request, and the harmless differences.

import type { AssistantPart, UserPart } from "../../../src/core/model/internal.ts";
import type { Rule } from "./compare.ts";
import type { Converted, RecordedApi, Recording, ReplyForm, RequestFields } from "./convert.ts";
import type { Json, JsonObject, Message, ModelRequest } from "everturn";
import type { ToolChoice, ToolSpec, WireContext } from "everturn/advanced";

import { assistant, filePart, imagePart, system, textPart, toolResult, user } from "everturn";
import { jsonSchema, request, toolSpec, openaiResponses } from "everturn/advanced";

import { toolCallPart } from "../../../src/core/model/internal.ts";
import { openaiStrict } from "../../../src/core/wire/schema-rules.ts";
import { recordedRule, rule } from "./compare.ts";
import { contextFor, decodeTurn, isBlank, mediaOf, optionNames, ProviderOptions, writtenArguments } from "./convert.ts";
import {
  flagOf,
  isEmpty,
  isList,
  isObject,
  listOf,
  mapField,
  mapObjects,
  numberOf,
  objectOf,
  objectsOf,
  stringOrNull,
  without,
  withoutNulls,
} from "./json.ts";
import { documentedSchema, withoutEmptyParameters } from "./schemas.ts";

const provider = "openai";

export const recordedResponses: RecordedApi = {
  api: "openai-responses",
  codec: openaiResponses,
  convert,
  rules: rulesFor,
  documented: new Set(
    (
      "access_programs background context_management conversation image include input instructions max_output_tokens max_tool_calls metadata model moderation " +
      "parallel_tool_calls previous_response_id prompt prompt_cache_key prompt_cache_options prompt_cache_retention reasoning safety_identifier service_tier store " +
      "stream stream_options temperature text tool_choice tools top_logprobs top_p truncation user"
    ).split(" "),
  ),
};

// Converter

/** Fields that have a counterpart in the library's request, or that the library decides itself (`stream`). */
const typedFields = [
  "model",
  "instructions",
  "input",
  "tools",
  "tool_choice",
  "parallel_tool_calls",
  "temperature",
  "top_p",
  "max_output_tokens",
  "reasoning",
  "text",
  "prompt_cache_key",
  "prompt_cache_retention",
  "stream",
  "store",
];

function convert(recording: Recording, form: ReplyForm): Converted {
  const body = withoutNulls(resolveReferences(recording));
  const context = contextFor(provider, stringOrNull(body["model"]) ?? recording.model ?? "unknown", "openai-responses");
  const providerOptions = new ProviderOptions(provider);
  const tools = convertTools(body, providerOptions);
  const toolChoice = convertToolChoice(body["tool_choice"]);
  const reasoning = objectOf(body["reasoning"]);
  const text = objectOf(body["text"]);
  const format = convertFormat(objectOf(text["format"]));
  const retention = stringOrNull(body["prompt_cache_retention"]);
  const cacheKey = stringOrNull(body["prompt_cache_key"]);
  const reasoningOptions = withoutNulls(without(reasoning, "effort", "summary"));
  const textOptions = {
    ...withoutNulls(without(text, "format")),
    ...(isEmpty(format.options) ? {} : { format: format.options }),
  };
  const options: JsonObject = {
    ...without(body, ...typedFields),
    // The API stores a response unless the request forbids it. The library forbids it unless the request asks for it.
    store: flagOf(body["store"]) ?? true,
    ...(isEmpty(reasoningOptions) ? {} : { reasoning: reasoningOptions }),
    ...(isEmpty(textOptions) ? {} : { text: textOptions }),
    ...(retention === null || retention === "24h" ? {} : { prompt_cache_retention: retention }),
    ...toolChoice.options,
  };
  const fields: RequestFields = {
    model: context.route.model,
    ...tools,
    toolChoice: toolChoice.choice,
    parallelToolCalls: flagOf(body["parallel_tool_calls"]),
    temperature: numberOf(body["temperature"]),
    topP: numberOf(body["top_p"]),
    maxTokens: numberOf(body["max_output_tokens"]),
    reasoning:
      stringOrNull(reasoning["effort"]) === null && stringOrNull(reasoning["summary"]) === null
        ? null
        : {
            effort: stringOrNull(reasoning["effort"]),
            summary: stringOrNull(reasoning["summary"]),
            budgetTokens: null,
          },
    promptCache:
      cacheKey === null && retention !== "24h"
        ? null
        : { key: cacheKey, retention: retention === "24h" ? "long" : "short" },
    responseFormat: format.format,
    stream: flagOf(body["stream"]) ?? false,
    providerOptions: { [provider]: options },
  };
  return {
    request: request(convertInput(body, form, context, providerOptions), fields),
    context,
    options: optionNames(options, new Set(["text", "reasoning"])),
    providerOptions: providerOptions.names,
  };
}

/** Function tools and the tools that the provider runs, or knows by type. */
function convertTools(
  body: JsonObject,
  providerOptions: ProviderOptions,
): Pick<ModelRequest, "tools" | "providerTools"> {
  const tools: ToolSpec[] = [];
  const providerTools: { provider: string; name: string; options: JsonObject }[] = [];
  for (const tool of objectsOf(body["tools"])) {
    const type = stringOrNull(tool["type"]) ?? "function";
    if (type !== "function") {
      providerTools.push({ provider, name: type, options: without(tool, "type") });
      continue;
    }
    const options = withoutNulls(without(tool, "type", "name", "description", "parameters", "strict"));
    // `null` leaves the decision to the API, as an absent field does. `false` would switch the strict mode off.
    const strict = flagOf(tool["strict"]);
    tools.push(
      toolSpec({
        name: stringOrNull(tool["name"]) ?? "",
        description: stringOrNull(tool["description"]) ?? "",
        schema: objectOf(tool["parameters"]),
        ...providerOptions.of("tools[]", { ...options, strict }),
      }),
    );
  }
  return { tools, providerTools };
}

function convertToolChoice(choice: Json | undefined): {
  readonly choice: ToolChoice | null;
  readonly options: JsonObject;
} {
  if (choice === undefined || choice === null) return { choice: null, options: {} };
  if (choice === "auto" || choice === "none" || choice === "required") return { choice, options: {} };
  const { type, name, ...rest } = objectOf(choice);
  const tool = stringOrNull(name) ?? stringOrNull(type);
  const isOneTool = isEmpty(rest) && tool !== null && (name === undefined || type === "function" || type === "custom");
  // A list of allowed tools and one tool of an MCP server have no type in the library.
  return isOneTool
    ? { choice: { type: "tool", name: tool }, options: {} }
    : { choice: null, options: { tool_choice: choice } };
}

function convertFormat(format: JsonObject): {
  readonly format: ModelRequest["responseFormat"];
  readonly options: JsonObject;
} {
  switch (format["type"]) {
    case "json_schema": {
      const schema = jsonSchema(stringOrNull(format["name"]) ?? "", objectOf(format["schema"]), {
        strict: flagOf(format["strict"]) ?? false,
      });
      return { format: schema, options: withoutNulls(without(format, "type", "name", "schema", "strict")) };
    }
    case "json_object":
      return { format: { type: "json_object" }, options: {} };
    case "text":
      return { format: { type: "text" }, options: {} };
    default:
      return { format: null, options: format };
  }
}

/** Types of items that answer a call of the model. */
const resultTypes: ReadonlySet<string> = new Set([
  "function_call_output",
  "custom_tool_call_output",
  "computer_call_output",
  "local_shell_call_output",
  "shell_call_output",
  "apply_patch_call_output",
  "mcp_approval_response",
  "tool_search_output",
]);

/** Does the item answer a call? The provider answers its own tool search. */
function isResult(item: Json | undefined): boolean {
  return (
    isObject(item) &&
    resultTypes.has(stringOrNull(item["type"]) ?? "") &&
    (item["type"] !== "tool_search_output" || item["execution"] === "client")
  );
}

/** Is the item part of a reply of the model? */
function isReplyItem(item: JsonObject): boolean {
  const type = stringOrNull(item["type"]) ?? "message";
  return type === "message" ? item["role"] === "assistant" : !isResult(item);
}

/** The answer to a call as the handler of the tool would return it. */
function convertResult(item: JsonObject, providerOptions: ProviderOptions): Message {
  const { output } = item;
  const callId =
    stringOrNull(item["call_id"]) ?? stringOrNull(item["approval_request_id"]) ?? stringOrNull(item["id"]) ?? "";
  switch (item["type"]) {
    case "computer_call_output":
      return toolResult(callId, convertParts([{ ...objectOf(output), type: "input_image" }], providerOptions));
    case "shell_call_output":
      return toolResult(callId, { output });
    case "apply_patch_call_output":
      return toolResult(callId, stringOrNull(output) ?? "", {
        status: item["status"] === "failed" ? "failure" : "success",
      });
    case "mcp_approval_response":
      return toolResult(callId, stringOrNull(item["reason"]) ?? "", {
        status: item["approve"] === true ? "success" : "failure",
      });
    case "tool_search_output":
      return toolResult(callId, { tools: item["tools"] ?? [] });
    default: {
      const typed = ["type", "call_id", "output", "id", "status", "caller"];
      const options = providerOptions.of("input[]", without(item, ...typed));
      return toolResult(callId, isList(output) ? convertParts(output, providerOptions) : (output ?? ""), options);
    }
  }
}

function convertInput(
  body: JsonObject,
  form: ReplyForm,
  context: WireContext,
  providerOptions: ProviderOptions,
): readonly Message[] {
  const messages: Message[] = [];
  const instructions = body["instructions"];
  if (typeof instructions === "string" && instructions !== "") messages.push(system(instructions));
  if (typeof body["input"] === "string") messages.push(user(body["input"]));
  const items = [...(isList(instructions) ? objectsOf(instructions) : []), ...objectsOf(body["input"])];
  let reply: JsonObject[] = [];
  const endReply = (): void => {
    if (reply.length > 0) messages.push(convertReply(reply, form, context));
    reply = [];
  };
  for (const item of items) {
    if (isReplyItem(item)) {
      reply.push(item);
      continue;
    }
    endReply();
    if (isResult(item)) {
      messages.push(convertResult(item, providerOptions));
      continue;
    }
    const content = isList(item["content"])
      ? convertParts(item["content"], providerOptions)
      : (stringOrNull(item["content"]) ?? "");
    const options = providerOptions.of("input[]", without(item, "type", "role", "content", "id", "status"));
    if (isBlank(content)) continue;
    if (item["role"] === "user") messages.push(user(content, options));
    else
      messages.push(
        system(typeof content === "string" ? content : content.filter((part) => part.type === "text"), options),
      );
  }
  endReply();
  return messages;
}

/** The items of one reply as an assistant message. */
function convertReply(items: readonly JsonObject[], form: ReplyForm, context: WireContext): Message {
  if (form === "written" && items.every(isPlain)) return writtenReply(items);
  const output = items.map((item) => (item["role"] === "assistant" ? replyMessage(item) : item));
  return decodeTurn(openaiResponses, context, { id: "resp_recorded", object: "response", status: "completed", output });
}

/** A message of the input in the form that the API has in its replies. */
function replyMessage(item: JsonObject): JsonObject {
  const content =
    typeof item["content"] === "string"
      ? [{ type: "output_text", text: item["content"] }]
      : objectsOf(item["content"]).map((part) =>
          part["type"] === "input_text" ? { ...part, type: "output_text" } : part,
        );
  return { ...item, type: "message", content };
}

/** Is the item text or a call without an id, and so without anything that only the API can have assigned? */
function isPlain(item: JsonObject): boolean {
  if (item["id"] !== undefined || item["phase"] !== undefined) return false;
  if (item["type"] === "function_call") return isEmpty(without(item, "type", "call_id", "name", "arguments"));
  return item["role"] === "assistant" && objectsOf(item["content"]).every(({ type }) => type !== "refusal");
}

function writtenReply(items: readonly JsonObject[]): Message {
  const toolCalls = items
    .filter(({ type }) => type === "function_call")
    .map((item) => {
      const text = stringOrNull(item["arguments"]) ?? "";
      return {
        id: stringOrNull(item["call_id"]) ?? "",
        name: stringOrNull(item["name"]) ?? "",
        ...writtenArguments(text),
      };
    });
  const content = items.flatMap((item): readonly AssistantPart[] => {
    if (item["type"] === "function_call") return [toolCallPart(stringOrNull(item["call_id"]) ?? "")];
    if (typeof item["content"] === "string") return [textPart(item["content"])];
    return objectsOf(item["content"]).map((part) => textPart(stringOrNull(part["text"]) ?? ""));
  });
  return assistant(content, { toolCalls });
}

function convertParts(content: readonly Json[], providerOptions: ProviderOptions): readonly UserPart[] {
  return content.map((piece): UserPart => {
    const part = withoutNulls(objectOf(piece));
    const extra = (...typed: readonly string[]) => providerOptions.of("content[]", without(part, "type", ...typed));
    const fileId = stringOrNull(part["file_id"]);
    const uploaded = fileId === null ? null : { type: "provider_file" as const, provider, id: fileId };
    switch (part["type"]) {
      case "input_text":
      case "output_text":
        return textPart(stringOrNull(part["text"]) ?? "", extra("text", "annotations", "logprobs"));
      case "input_image": {
        const media = mediaOf(stringOrNull(part["image_url"]) ?? "");
        const detail = part["detail"];
        const isTyped = detail === "low" || detail === "high" || detail === "auto";
        return imagePart(uploaded === null ? media : { source: uploaded }, {
          ...(isTyped ? { detail } : {}),
          ...extra("image_url", "file_id", ...(isTyped ? ["detail"] : [])),
        });
      }
      case "input_file": {
        const url = stringOrNull(part["file_url"]);
        const media = mediaOf(url ?? stringOrNull(part["file_data"]) ?? "");
        return filePart(uploaded ?? media.source, {
          mimeType: media.mimeType,
          name: stringOrNull(part["filename"]),
          ...extra("file_url", "file_data", "file_id", "filename"),
        });
      }
      case "input_audio": {
        const audio = objectOf(part["input_audio"]);
        const mimeType = audio["format"] === "mp3" ? "audio/mpeg" : `audio/${stringOrNull(audio["format"]) ?? "wav"}`;
        return filePart(
          { type: "base64", data: stringOrNull(audio["data"]) ?? "" },
          { mimeType, ...extra("input_audio") },
        );
      }
      default:
        return textPart(JSON.stringify(part), providerOptions.of("content[]", part));
    }
  });
}

// Item references

/**
 * The body with every `item_reference` replaced by the item. Items come from the recorded answers. A call that no
 * recorded answer has is represented by the id of the call that the results after it answer; its name and arguments
 * stay unknown. Other references stay as they are: the library keeps them as opaque items.
 */
function resolveReferences({ body, items }: Recording): JsonObject {
  const input = objectsOf(body["input"]);
  if (!input.some(isReference)) return body;
  const known = input.map((item) => (isReference(item) ? (items.get(stringOrNull(item["id"]) ?? "") ?? item) : item));
  const answered = new Set(
    known.flatMap((item) => (item["type"] === "function_call" ? (stringOrNull(item["call_id"]) ?? []) : [])),
  );
  const unanswered = known.flatMap((item) => {
    const callId = item["type"] === "function_call_output" ? stringOrNull(item["call_id"]) : null;
    return callId === null || answered.has(callId) ? [] : [callId];
  });
  return {
    ...body,
    input: known.map((item) => {
      const callId =
        isReference(item) && (stringOrNull(item["id"]) ?? "").startsWith("fc_") ? unanswered.shift() : undefined;
      if (callId === undefined) return item;
      return { type: "function_call", id: item["id"] ?? null, call_id: callId, name: "unknown", arguments: "{}" };
    }),
  };
}

function isReference(item: JsonObject): boolean {
  return item["type"] === "item_reference";
}

// Harmless differences

/** Models that reason, by name. Other models refuse encrypted reasoning. */
function reasons(model: string | null): boolean {
  return (
    model !== null &&
    /(?:^|[/.])(?:o\d|gpt-(?:[5-9]|\d\d)|gpt-oss|codex|computer-use)/.test(model) &&
    !/chat/.test(model)
  );
}

function rulesFor(recording: Recording): readonly Rule[] {
  return [
    recordedRule(
      "item reference",
      "an item of a stored response by its id; the library sends the item itself, which needs no stored response",
      (body) => (body === recording.body ? resolveReferences(recording) : body),
    ),
    rule("null field", "the API reads `null` as an absent field", (body) =>
      mapObjects(withoutNulls(body), "input", withoutNulls),
    ),
    rule("streaming", "the library streams every reply, also for callers that read a whole one", (body) =>
      mapField(without(body, "stream"), "stream_options", (value) =>
        isEmpty(without(objectOf(value), "include_obfuscation")) ? undefined : value,
      ),
    ),
    rule("default written out", "the value is the API's default", (body) => removeDefaults(body)),
    rule(
      "encrypted reasoning",
      "asks a model that reasons for its reasoning in encrypted form; the reply has one field more",
      (body) =>
        reasons(stringOrNull(body["model"])) || body["reasoning"] !== undefined
          ? mapField(body, "include", (value) => {
              const others = listOf(value).filter((name) => name !== "reasoning.encrypted_content");
              return others.length === 0 ? undefined : others;
            })
          : body,
    ),
    rule(
      "system text",
      "`instructions` and system or developer messages before the first other item are the same instructions; both roles have the same rank",
      joinInstructions,
    ),
    rule("text or list of parts", "a string is a list of one text part, and `type: message` is the default", (body) =>
      typeof body["input"] === "string"
        ? { ...body, input: [{ type: "message", role: "user", content: [inputText(body["input"])] }] }
        : mapObjects(body, "input", writeOutMessage),
    ),
    rule("one message for each text", "a message of several texts is sent as several messages of one text", (body) =>
      mapObjects(body, "input", splitReply),
    ),
    rule(
      "ids of messages",
      "id and status of messages and results name stored items; the content is sent. After stored reasoning the API requires the id of a message",
      (body) => {
        const input = objectsOf(body["input"]);
        return mapObjects(body, "input", (item) =>
          isMessageWithoutPair(item, input, body) || resultTypes.has(stringOrNull(item["type"]) ?? "")
            ? without(item, "id", "status")
            : item,
        );
      },
    ),
    rule("annotations", "citations and log probabilities describe a reply; the model does not read them", (body) =>
      mapObjects(body, "input", (item) =>
        mapObjects(item, "content", (part) =>
          part["type"] === "output_text" ? without(part, "annotations", "logprobs") : part,
        ),
      ),
    ),
    rule("text result", "a result that is a list of texts is one text", (body) =>
      mapObjects(body, "input", (item) => mapField(item, "output", joinTexts)),
    ),
    rule("empty text", "the API refuses empty text; the library does not send it", (body) =>
      mapObjects(body, "input", withoutEmptyText),
    ),
    rule("order of tools", "the model gets the same tools; the library lists functions first", (body) =>
      mapField(body, "tools", (tools) => [
        ...objectsOf(tools).filter(({ type }) => type === "function"),
        ...objectsOf(tools).filter(({ type }) => type !== "function"),
      ]),
    ),
    rule(
      "order of results",
      "results are matched to calls by id; the library sends them in the order of the calls",
      (body) => mapField(body, "input", sortResults),
    ),
    rule(
      "strict schema",
      "strict mode accepts a subset of JSON Schema; the library writes the schema in its documented keywords",
      (body) =>
        mapObjects(
          mapField(body, "text", (text) =>
            mapField(objectOf(text), "format", (value) => documentedSchema(objectOf(value), "schema", openaiStrict)),
          ),
          "tools",
          (tool) => documentedSchema(tool, "parameters", openaiStrict),
        ),
    ),
    rule("tool without description", "an empty description and empty parameters are absent ones", (body) =>
      mapObjects(body, "tools", (tool) => {
        const described = tool["description"] === "" ? without(tool, "description") : tool;
        return withoutEmptyParameters(described);
      }),
    ),
  ];
}

/** Removes fields whose value is the default of the API. */
function removeDefaults(body: JsonObject): JsonObject {
  const isDefault: { readonly [name: string]: (value: Json) => boolean } = {
    instructions: (value) => value === "",
    store: (value) => value === true,
    background: (value) => value === false,
    tool_choice: (value) => value === "auto" || (value === "none" && body["tools"] === undefined),
    parallel_tool_calls: (value) => value === true || body["tools"] === undefined,
    tools: (value) => listOf(value).length === 0,
    include: (value) => listOf(value).length === 0,
    metadata: (value) => isEmpty(objectOf(value)),
    truncation: (value) => value === "disabled",
    service_tier: (value) => value === "auto",
  };
  const kept = Object.entries(body).filter(([name, value]) => isDefault[name]?.(value) !== true);
  const withText = mapField(Object.fromEntries(kept), "text", (value) => {
    const text = mapField(withoutNulls(objectOf(value)), "format", (format) => {
      const { type, strict, ...rest } = withoutNulls(objectOf(format));
      if (type === "text") return undefined;
      return { type: type ?? null, ...rest, ...(strict === true ? { strict } : {}) };
    });
    return isEmpty(text) ? undefined : text;
  });
  const withReasoning = mapField(withText, "reasoning", (value) => {
    const reasoning = withoutNulls(objectOf(value));
    return isEmpty(reasoning) ? undefined : reasoning;
  });
  const withDetail = mapObjects(withReasoning, "input", (item) => {
    return mapObjects(mapObjects(item, "content", removeDetail), "output", removeDetail);
  });
  // A tool without `strict` is strict by default; the library sends `null` to say so.
  return mapObjects(withDetail, "tools", withoutNulls);
}

function removeDetail(part: JsonObject): JsonObject {
  return part["detail"] === "auto" ? without(part, "detail") : part;
}

function inputText(text: string): JsonObject {
  return { type: "input_text", text };
}

/** Moves `instructions` and leading system messages into one text. */
function joinInstructions(body: JsonObject): JsonObject {
  if (isList(body["instructions"])) return body;
  const input =
    typeof body["input"] === "string" ? [{ role: "user", content: body["input"] }] : objectsOf(body["input"]);
  const first = input.findIndex((item) => !isSystem(item));
  const leading = first === -1 ? input : input.slice(0, first);
  const texts = [stringOrNull(body["instructions"]) ?? "", ...leading.map(messageText)].filter((text) => text !== "");
  const others = input.slice(leading.length).map((item) => (isSystem(item) ? { ...item, role: "developer" } : item));
  return { ...body, ...(texts.length === 0 ? {} : { instructions: texts.join("\n\n") }), input: others };
}

function isMessage(item: JsonObject): boolean {
  return item["role"] !== undefined && (item["type"] === undefined || item["type"] === "message");
}

function isSystem(item: JsonObject): boolean {
  return isMessage(item) && (item["role"] === "system" || item["role"] === "developer");
}

function messageText(item: JsonObject): string {
  if (typeof item["content"] === "string") return item["content"];
  return objectsOf(item["content"])
    .map((part) => stringOrNull(part["text"]) ?? "")
    .join("");
}

/** Is the item a message that is not part of a stored reply with reasoning before it? */
function isMessageWithoutPair(item: JsonObject, input: readonly JsonObject[], body: JsonObject): boolean {
  if (item["type"] !== "message") return false;
  const at = input.indexOf(item);
  const start = input.slice(0, at).findLastIndex((other) => !isReplyItem(other));
  const reply = input.slice(start + 1, at);
  return body["store"] === false || item["role"] !== "assistant" || !reply.some(({ type }) => type === "reasoning");
}

/** The message with `type` and a list of parts. The text of a reply is `output_text`. */
function writeOutMessage(item: JsonObject): JsonObject {
  if (!isMessage(item)) return item;
  const type = item["role"] === "assistant" ? "output_text" : "input_text";
  const content =
    typeof item["content"] === "string"
      ? [{ type, text: item["content"] }]
      : objectsOf(item["content"]).map((part) => (part["type"] === "input_text" ? { ...part, type } : part));
  return { ...item, type: "message", content };
}

function splitReply(item: JsonObject): readonly JsonObject[] {
  if (item["role"] !== "assistant" || !isList(item["content"]) || item["content"].length < 2) return [item];
  return item["content"].map((part) => ({ ...item, content: [part] }));
}

function joinTexts(output: Json): Json {
  const parts = objectsOf(output);
  if (!isList(output) || !parts.every(({ type }) => type === "input_text")) return output;
  return parts.map((part) => stringOrNull(part["text"]) ?? "").join("\n");
}

/** The message without empty text; no message if nothing remains. */
function withoutEmptyText(item: JsonObject): readonly JsonObject[] {
  if (!isList(item["content"]) || item["type"] === "reasoning") return [item];
  const content = objectsOf(item["content"]).filter((part) => part["text"] !== "");
  return content.length === 0 ? [] : [{ ...item, content }];
}

/** Sorts neighbouring results by the ids of their calls. */
function sortResults(input: Json): Json {
  if (!isList(input)) return input;
  const groups: Json[][] = [];
  for (const item of input) {
    const last = groups.at(-1);
    if (last !== undefined && isResult(last[0]) && isResult(item)) last.push(item);
    else groups.push([item]);
  }
  return groups.flatMap((group) => group.sort((one, other) => (idOf(one) < idOf(other) ? -1 : 1)));
}

function idOf(item: Json): string {
  return stringOrNull(objectOf(item)["call_id"]) ?? "";
}
