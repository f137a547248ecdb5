// Recorded requests of Chat Completions (OpenAI and compatible servers): the converter to the library's request, and
// the harmless differences.

import type { AssistantPart, UserPart } from "../../../src/core/model/internal.ts";
import type { Rule } from "./compare.ts";
import type { Converted, RecordedApi, Recording, ReplyForm, RequestFields } from "./convert.ts";
import type { Json, JsonObject, Message, ModelRequest } from "everturn";
import type { ToolChoice, ToolSpec, Quirks, WireContext } from "everturn/advanced";

import { assistant, filePart, imagePart, system, textPart, toolResult, user } from "everturn";
import { jsonSchema, request, toolSpec, openaiChat } from "everturn/advanced";

import { openaiStrict } from "../../../src/core/wire/schema-rules.ts";
import { rule } from "./compare.ts";
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

export const recordedChat: RecordedApi = {
  api: "openai-chat",
  codec: openaiChat,
  convert,
  rules: () => rules,
  documented: new Set(
    (
      "messages model audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens metadata modalities moderation n " +
      "parallel_tool_calls prediction presence_penalty prompt_cache_key prompt_cache_options prompt_cache_retention reasoning_effort response_format safety_identifier " +
      "seed service_tier stop store stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity web_search_options"
    ).split(" "),
  ),
};

// Converter

/** Fields that have a counterpart in the library's request, or that the library decides itself (`stream`). */
const typedFields = [
  "model",
  "messages",
  "tools",
  "tool_choice",
  "parallel_tool_calls",
  "temperature",
  "top_p",
  "max_tokens",
  "max_completion_tokens",
  "stop",
  "seed",
  "reasoning_effort",
  "response_format",
  "prompt_cache_key",
  "prompt_cache_retention",
  "stream",
  "stream_options",
];

function convert({ body: recordedBody, model }: Recording, form: ReplyForm): Converted {
  const body = withoutNulls(recordedBody);
  const context = contextFor(
    provider,
    stringOrNull(body["model"]) ?? model ?? "unknown",
    "openai-chat",
    quirksOf(body),
  );
  const providerOptions = new ProviderOptions(provider);
  const tools = convertTools(body, providerOptions);
  const toolChoice = convertToolChoice(body["tool_choice"]);
  const format = convertFormat(objectOf(body["response_format"]));
  const retention = stringOrNull(body["prompt_cache_retention"]);
  const cacheKey = stringOrNull(body["prompt_cache_key"]);
  const streamOptions = without(objectOf(body["stream_options"]), "include_usage");
  const effort = stringOrNull(body["reasoning_effort"]);
  const options: JsonObject = {
    ...without(body, ...typedFields),
    ...(isEmpty(streamOptions) ? {} : { stream_options: objectOf(body["stream_options"]) }),
    ...(retention === null || retention === "24h" ? {} : { prompt_cache_retention: retention }),
    ...(isEmpty(format.options) ? {} : { response_format: format.options }),
    ...toolChoice.options,
  };
  const { stop } = body;
  const fields: RequestFields = {
    model: context.route.model,
    ...tools,
    toolChoice: toolChoice.choice,
    parallelToolCalls: flagOf(body["parallel_tool_calls"]),
    temperature: numberOf(body["temperature"]),
    topP: numberOf(body["top_p"]),
    maxTokens: numberOf(body["max_completion_tokens"]) ?? numberOf(body["max_tokens"]),
    stopSequences: typeof stop === "string" ? [stop] : listOf(stop).flatMap((text) => stringOrNull(text) ?? []),
    seed: numberOf(body["seed"]),
    reasoning: effort === null ? null : { effort, summary: null, budgetTokens: null },
    promptCache:
      cacheKey === null && retention !== "24h"
        ? null
        : { key: cacheKey, retention: retention === "24h" ? "long" : "short" },
    responseFormat: format.format,
    stream: flagOf(body["stream"]) ?? false,
    providerOptions: { [provider]: options },
  };
  return {
    request: request(
      objectsOf(body["messages"])
        .map((message) => convertMessage(message, form, context, providerOptions))
        .filter((message) => message.role !== "user" || !isBlank(message.content)),
      fields,
    ),
    context,
    options: optionNames(options, new Set(["response_format", "stream_options"])),
    providerOptions: providerOptions.names,
  };
}

/** How the recorded server deviates from OpenAI's, as a preset of the library would state it. */
function quirksOf(body: JsonObject): Quirks {
  const messages = objectsOf(body["messages"]);
  const has = (field: string) => messages.some((message) => message["role"] === "assistant" && field in message);
  return {
    ...(body["max_tokens"] === undefined ? {} : { maxTokensField: "max_tokens" }),
    ...(messages.some(({ role }) => role === "developer") ? { systemRole: "developer" } : {}),
    ...(has("reasoning_content")
      ? { reasoningField: "reasoning_content" }
      : has("reasoning")
        ? { reasoningField: "reasoning" }
        : {}),
  };
}

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
    const declaration = withoutNulls(objectOf(tool["function"]));
    const outer = without(tool, "type", "function");
    const inner = without(declaration, "name", "description", "parameters");
    tools.push(
      toolSpec({
        name: stringOrNull(declaration["name"]) ?? "",
        description: stringOrNull(declaration["description"]) ?? "",
        schema: objectOf(declaration["parameters"]),
        ...providerOptions.of("tools[]", { ...outer, ...inner }),
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
  const { type } = objectOf(choice);
  const name = stringOrNull(objectOf(objectOf(choice)[type === "custom" ? "custom" : "function"])["name"]);
  // A list of allowed tools, and words of other servers (`any`), have no type in the library.
  return name === null
    ? { choice: null, options: { tool_choice: choice } }
    : { choice: { type: "tool", name }, options: {} };
}

function convertFormat(format: JsonObject): {
  readonly format: ModelRequest["responseFormat"];
  readonly options: JsonObject;
} {
  switch (format["type"]) {
    case "json_schema": {
      const { name, schema, strict, ...others } = withoutNulls(objectOf(format["json_schema"]));
      return {
        format: jsonSchema(stringOrNull(name) ?? "", objectOf(schema), { strict: flagOf(strict) ?? false }),
        options: isEmpty(others) ? {} : { json_schema: others },
      };
    }
    case "json_object":
      return { format: { type: "json_object" }, options: {} };
    case "text":
      return { format: { type: "text" }, options: {} };
    default:
      return { format: null, options: format };
  }
}

function convertMessage(
  message: JsonObject,
  form: ReplyForm,
  context: WireContext,
  providerOptions: ProviderOptions,
): Message {
  const extra = (...typed: readonly string[]) =>
    providerOptions.of("messages[]", withoutNulls(without(message, "role", "content", ...typed)));
  if (message["role"] === "assistant") return convertReply(message, form, context, providerOptions);
  const content = isList(message["content"])
    ? convertParts(message["content"], providerOptions)
    : (stringOrNull(message["content"]) ?? "");
  switch (message["role"]) {
    case "system":
    case "developer":
      return system(typeof content === "string" ? content : content.filter((part) => part.type === "text"), extra());
    case "user":
      return user(content, { name: stringOrNull(message["name"]), ...extra("name") });
    case "tool":
      return toolResult(stringOrNull(message["tool_call_id"]) ?? "", content, extra("tool_call_id"));
    default:
      throw new Error(`a message of the role ${String(message["role"])} has no counterpart`);
  }
}

/** Fields of an assistant message that the caller adds: the API does not send them in replies. */
const callerFields = ["name", "prefix", "cache_control", "partial"];

function convertReply(
  message: JsonObject,
  form: ReplyForm,
  context: WireContext,
  providerOptions: ProviderOptions,
): Message {
  const options = providerOptions.of(
    "messages[]",
    withoutNulls(Object.fromEntries(Object.entries(message).filter(([name]) => callerFields.includes(name)))),
  );
  const reply = withoutNulls(without(message, ...callerFields));
  const isPlain =
    isEmpty(without(reply, "role", "content", "tool_calls")) &&
    objectsOf(reply["content"]).every(({ type }) => type === "text" || type === "refusal") &&
    objectsOf(reply["tool_calls"]).every(
      ({ type, ...call }) => type !== "custom" && isEmpty(without(call, "id", "function")),
    );
  if (form === "written" && isPlain) return { ...writtenReply(reply), ...options };
  const decoded = decodeTurn(openaiChat, context, {
    id: "chatcmpl-recorded",
    choices: [{ index: 0, message: reply, finish_reason: reply["tool_calls"] === undefined ? "stop" : "tool_calls" }],
  });
  return { ...decoded, ...options };
}

function writtenReply(reply: JsonObject): Extract<Message, { readonly role: "assistant" }> {
  const toolCalls = objectsOf(reply["tool_calls"]).map((call) => {
    const { name, arguments: text } = objectOf(call["function"]);
    return {
      id: stringOrNull(call["id"]) ?? "",
      name: stringOrNull(name) ?? "",
      ...writtenArguments(stringOrNull(text) ?? ""),
    };
  });
  const { content } = reply;
  if (!isList(content)) return assistant(stringOrNull(content) ?? "", { toolCalls });
  const parts = objectsOf(content).map((part): AssistantPart =>
    part["type"] === "refusal"
      ? textPart(stringOrNull(part["refusal"]) ?? "", { kind: "refusal" })
      : textPart(stringOrNull(part["text"]) ?? ""),
  );
  return assistant(parts, { toolCalls });
}

function convertParts(content: readonly Json[], providerOptions: ProviderOptions): readonly UserPart[] {
  return content.map((piece): UserPart => {
    const part = typeof piece === "string" ? { type: "text", text: piece } : withoutNulls(objectOf(piece));
    const extra = (...typed: readonly string[]) => providerOptions.of("content[]", without(part, "type", ...typed));
    switch (part["type"]) {
      case "text":
        return textPart(stringOrNull(part["text"]) ?? "", extra("text"));
      case "image_url": {
        const image = isObject(part["image_url"]) ? part["image_url"] : { url: part["image_url"] ?? "" };
        const { detail } = image;
        const isTyped = detail === "low" || detail === "high" || detail === "auto";
        return imagePart(mediaOf(stringOrNull(image["url"]) ?? ""), {
          ...(isTyped ? { detail } : {}),
          ...extra("image_url"),
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
      case "file": {
        const file = objectOf(part["file"]);
        const id = stringOrNull(file["file_id"]);
        const media = mediaOf(stringOrNull(file["file_data"]) ?? "");
        return filePart(id === null ? media.source : { type: "provider_file", provider, id }, {
          mimeType: media.mimeType,
          name: stringOrNull(file["filename"]),
          ...extra("file"),
        });
      }
      default:
        // Other servers have parts of their own (`document_url`, `video_url`). The text is what other providers would
        // get.
        return textPart(JSON.stringify(part), providerOptions.of("content[]", part));
    }
  });
}

// Harmless differences

const rules: readonly Rule[] = [
  rule("null field", "the API reads `null` as an absent field", (body) =>
    mapObjects(withoutNulls(body), "messages", withoutNulls),
  ),
  rule(
    "streaming",
    "the library streams every reply, also for callers that read a whole one, and asks for the usage of a stream",
    (body) =>
      mapField(without(body, "stream"), "stream_options", (value) => {
        const options = without(objectOf(value), "include_usage");
        return isEmpty(options) ? undefined : options;
      }),
  ),
  rule("default written out", "the value is the API's default", removeDefaults),
  rule("text or list of parts", "a string is a list of one text part", (body) =>
    mapObjects(body, "messages", (message) =>
      mapField(message, "content", (content) =>
        typeof content === "string" ? [{ type: "text", text: content }] : content,
      ),
    ),
  ),
  rule(
    "system text",
    "neighbouring system messages are one text; `developer` is the name that newer models have for the role",
    joinInstructions,
  ),
  rule("text of a reply", "the texts of a reply, and the texts of a thought, are one text", (body) =>
    mapObjects(body, "messages", (message) =>
      message["role"] === "assistant"
        ? mapObjects(
            mapField(message, "content", (content) => joinTexts(content, "")),
            "content",
            joinThoughts,
          )
        : message,
    ),
  ),
  rule("text result", "a result that is a list of texts is one text", (body) =>
    mapObjects(body, "messages", (message) =>
      message["role"] === "tool" ? mapField(message, "content", (content) => joinTexts(content, "\n")) : message,
    ),
  ),
  rule("empty text", "the API refuses empty text parts; a reply of calls needs no text", (body) =>
    mapObjects(body, "messages", (message) => {
      const cleaned = mapField(message, "content", (content) => {
        const parts = isList(content) ? content.filter((part) => objectOf(part)["text"] !== "") : content;
        return isList(parts) && parts.length === 0 ? undefined : parts;
      });
      const isEmptyMessage = cleaned["content"] === undefined && isEmpty(without(cleaned, "role", "content"));
      return isEmptyMessage ? [] : [cleaned];
    }),
  ),
  rule("index of a call", "Mistral's SDK numbers the calls of a reply; their order states the same", (body) =>
    mapObjects(body, "messages", (message) => mapObjects(message, "tool_calls", (call) => without(call, "index"))),
  ),
  rule("stop sequence", "one stop sequence is a list of one", (body) =>
    mapField(body, "stop", (stop) => (typeof stop === "string" ? [stop] : stop)),
  ),
  rule("order of tools", "the model gets the same tools; the library lists functions first", (body) =>
    mapField(body, "tools", (tools) => [
      ...objectsOf(tools).filter(({ type }) => type === "function"),
      ...objectsOf(tools).filter(({ type }) => type !== "function"),
    ]),
  ),
  rule(
    "strict schema",
    "strict mode accepts a subset of JSON Schema; the library writes the schema in its documented keywords",
    (body) =>
      mapObjects(
        mapField(body, "response_format", (format) =>
          mapField(objectOf(format), "json_schema", (value) =>
            documentedSchema(objectOf(value), "schema", openaiStrict),
          ),
        ),
        "tools",
        (tool) => mapField(tool, "function", (value) => documentedSchema(objectOf(value), "parameters", openaiStrict)),
      ),
  ),
  rule("tool without description", "an empty description and empty parameters are absent ones", (body) =>
    mapObjects(body, "tools", (tool) =>
      mapField(tool, "function", (value) => {
        const declaration = withoutNulls(objectOf(value));
        const described = declaration["description"] === "" ? without(declaration, "description") : declaration;
        return withoutEmptyParameters(described);
      }),
    ),
  ),
  rule(
    "order of results",
    "results are matched to calls by id; the library sends them in the order of the calls",
    (body) => mapField(body, "messages", sortResults),
  ),
];

/** Removes fields whose value is the default of the API. */
function removeDefaults(body: JsonObject): JsonObject {
  const hasTools = listOf(body["tools"]).length > 0;
  const isDefault: { readonly [name: string]: (value: Json) => boolean } = {
    tools: (value) => listOf(value).length === 0,
    tool_choice: (value) => (hasTools ? value === "auto" : value === "auto" || value === "none"),
    parallel_tool_calls: (value) => !hasTools || value === true,
    stop: (value) => listOf(value).length === 0 && typeof value !== "string",
    n: (value) => value === 1,
    store: (value) => value === false,
    logprobs: (value) => value === false,
    response_format: (value) => objectOf(value)["type"] === "text",
  };
  const kept = Object.fromEntries(Object.entries(body).filter(([name, value]) => isDefault[name]?.(value) !== true));
  const withFormat = mapField(kept, "response_format", (format) =>
    mapField(objectOf(format), "json_schema", (value) => {
      const schema = withoutNulls(objectOf(value));
      return schema["strict"] === false ? without(schema, "strict") : schema;
    }),
  );
  const withTools = mapObjects(withFormat, "tools", (tool) =>
    mapField({ type: "function", ...tool }, "function", (value) => {
      const declaration = objectOf(value);
      return declaration["strict"] === false ? without(declaration, "strict") : declaration;
    }),
  );
  return mapObjects(withTools, "messages", (message) =>
    mapObjects(
      listOf(message["tool_calls"]).length === 0 ? without(message, "tool_calls") : message,
      "content",
      (part) =>
        mapField(part, "image_url", (image) => {
          const withUrl = isObject(image) ? image : { url: image };
          return withUrl["detail"] === "auto" ? without(withUrl, "detail") : withUrl;
        }),
    ),
  );
}

/** Joins neighbouring system messages. */
function joinInstructions(body: JsonObject): JsonObject {
  return mapField(body, "messages", (value) => {
    const messages: JsonObject[] = [];
    for (const message of objectsOf(value)) {
      const role = message["role"] === "developer" ? "system" : message["role"];
      const last = messages.at(-1);
      if (role !== "system") messages.push(message);
      else if (last?.["role"] !== "system") messages.push({ ...message, role, content: partsOf(message) });
      else messages.splice(-1, 1, { ...last, content: [...partsOf(last), ...partsOf(message)] });
    }
    return messages.map((message) =>
      message["role"] === "system" ? mapField(message, "content", (content) => joinTexts(content, "\n\n")) : message,
    );
  });
}

/** A part of Mistral with its thoughts as one text. */
function joinThoughts(part: JsonObject): JsonObject {
  return mapField(part, "thinking", (thoughts) => {
    const text = objectsOf(thoughts)
      .map((thought) => stringOrNull(thought["text"]) ?? "")
      .join("");
    return isList(thoughts) ? [{ type: "text", text }] : thoughts;
  });
}

function partsOf(message: JsonObject): readonly Json[] {
  return typeof message["content"] === "string"
    ? [{ type: "text", text: message["content"] }]
    : listOf(message["content"]);
}

/** One text part for a list of text parts without other fields. */
function joinTexts(content: Json, separator: string): Json {
  const parts = objectsOf(content).filter((part) => part["text"] !== "");
  if (!isList(content) || parts.length === 0 || !parts.every((part) => isEmpty(without(part, "type", "text"))))
    return content;
  return [{ type: "text", text: parts.map((part) => stringOrNull(part["text"]) ?? "").join(separator) }];
}

/** Sorts neighbouring results by the ids of their calls. */
function sortResults(messages: Json): Json {
  const groups: JsonObject[][] = [];
  for (const message of objectsOf(messages)) {
    const last = groups.at(-1);
    if (last?.[0]?.["role"] === "tool" && message["role"] === "tool") last.push(message);
    else groups.push([message]);
  }
  return groups.flatMap((group) => group.sort((one, other) => (idOf(one) < idOf(other) ? -1 : 1)));
}

function idOf(message: JsonObject): string {
  return stringOrNull(message["tool_call_id"]) ?? "";
}
