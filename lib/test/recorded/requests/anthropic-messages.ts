// Recorded requests of Anthropic's Messages API: the converter to the library's request, and the harmless differences.

import type { AssistantPart, TextPart, UserPart } from "../../../src/core/model/internal.ts";
import type { Rule } from "./compare.ts";
import type { Converted, RecordedApi, Recording, ReplyForm, RequestFields } from "./convert.ts";
import type { Json, JsonObject, Message, ModelRequest } from "everturn";
import type { ReasoningSettings, ToolChoice, ToolSpec, WireContext } from "everturn/advanced";

import { assistant, filePart, imagePart, system, textPart, toolResult, user } from "everturn";
import { jsonSchema, request, toolSpec, anthropicMessages } from "everturn/advanced";

import { toolCallPart } from "../../../src/core/model/internal.ts";
import { anthropicStrict } from "../../../src/core/wire/schema-rules.ts";
import { rule } from "./compare.ts";
import { contextFor, decodeTurn, isBlank, optionNames, ProviderOptions } from "./convert.ts";
import {
  flagOf,
  isEmpty,
  isList,
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
import { documentedSchema } from "./schemas.ts";

const provider = "anthropic";

export const recordedMessages: RecordedApi = {
  api: "anthropic-messages",
  codec: anthropicMessages,
  convert,
  rules: () => rules,
  documented: new Set(
    (
      "max_tokens messages model cache_control compaction container context_management diagnostics fallback_credit_token fallbacks inference_geo mcp_servers metadata " +
      "output_config output_format service_tier speed stop_sequences stream system temperature thinking thread tool_choice tools top_k top_p user_profile_id workspace_id"
    ).split(" "),
  ),
};

// Converter

/** Fields that have a counterpart in the library's request, or that the library decides itself (`stream`). */
const typedFields = [
  "model",
  "messages",
  "system",
  "tools",
  "tool_choice",
  "max_tokens",
  "temperature",
  "top_p",
  "stop_sequences",
  "thinking",
  "output_config",
  "output_format",
  "stream",
];

function convert({ body: recordedBody, model }: Recording, form: ReplyForm): Converted {
  const body = withoutNulls(recordedBody);
  const context = contextFor(provider, stringOrNull(body["model"]) ?? model ?? "unknown", "anthropic-messages");
  const providerOptions = new ProviderOptions(provider);
  const tools = convertTools(body, providerOptions);
  const choice = objectOf(body["tool_choice"]);
  const toolChoice = convertToolChoice(choice);
  const thinking = convertThinking(body);
  const format = objectOf(body["output_format"] ?? objectOf(body["output_config"])["format"]);
  const hasSchema = format["type"] === "json_schema";
  const options: JsonObject = {
    ...without(body, ...typedFields),
    ...thinking.options,
    ...(toolChoice === null && !isEmpty(choice) ? { tool_choice: choice } : {}),
    ...(hasSchema || isEmpty(format) ? {} : { output_format: format }),
  };
  const fields: RequestFields = {
    model: context.route.model,
    ...tools,
    toolChoice,
    parallelToolCalls: choice["disable_parallel_tool_use"] === true ? false : null,
    temperature: numberOf(body["temperature"]),
    topP: numberOf(body["top_p"]),
    maxTokens: numberOf(body["max_tokens"]),
    stopSequences: listOf(body["stop_sequences"]).flatMap((text) => stringOrNull(text) ?? []),
    reasoning: thinking.reasoning,
    responseFormat: hasSchema ? jsonSchema("answer", objectOf(format["schema"])) : null,
    stream: flagOf(body["stream"]) ?? false,
    providerOptions: { [provider]: options },
  };
  return {
    request: request(
      [...convertSystem(body["system"], providerOptions), ...convertMessages(body, form, context, providerOptions)],
      fields,
    ),
    context,
    options: optionNames(options, new Set(["thinking", "output_config"])),
    providerOptions: providerOptions.names,
  };
}

/**
 * Thinking and effort. What `reasoning` cannot state (adaptive thinking without an effort, an effort without thinking)
 * goes into `options`.
 */
function convertThinking(body: JsonObject): {
  readonly reasoning: ReasoningSettings | null;
  readonly options: JsonObject;
} {
  const { type, budget_tokens: budget, display, ...others } = withoutNulls(objectOf(body["thinking"]));
  const { effort, format: _, ...config } = withoutNulls(objectOf(body["output_config"]));
  const level = stringOrNull(effort);
  const summary = display === "summarized" ? "auto" : null;
  const thinkingOptions = { ...others, ...(display === undefined || display === "summarized" ? {} : { display }) };
  const rest = {
    ...(isEmpty(thinkingOptions) ? {} : { thinking: thinkingOptions }),
    ...(isEmpty(config) ? {} : { output_config: config }),
  };
  const withEffort = level === null ? rest : { ...rest, output_config: { ...config, effort: level } };
  switch (type) {
    case "enabled":
      return { reasoning: { effort: level, budgetTokens: numberOf(budget), summary }, options: rest };
    case "disabled":
      return { reasoning: { effort: "none", budgetTokens: null, summary: null }, options: withEffort };
    case "adaptive":
      return level === null && summary === null
        ? { reasoning: null, options: { ...withEffort, thinking: objectOf(body["thinking"]) } }
        : { reasoning: { effort: level, budgetTokens: null, summary }, options: rest };
    case undefined:
      return { reasoning: null, options: withEffort };
    default:
      return { reasoning: null, options: { ...withEffort, thinking: objectOf(body["thinking"]) } };
  }
}

function convertTools(
  body: JsonObject,
  providerOptions: ProviderOptions,
): Pick<ModelRequest, "tools" | "providerTools"> {
  const tools: ToolSpec[] = [];
  const providerTools: { provider: string; name: string; options: JsonObject }[] = [];
  for (const tool of objectsOf(body["tools"])) {
    const type = stringOrNull(tool["type"]);
    if (type !== null && type !== "custom") {
      providerTools.push({ provider, name: type, options: without(tool, "type") });
      continue;
    }
    tools.push(
      toolSpec({
        name: stringOrNull(tool["name"]) ?? "",
        description: stringOrNull(tool["description"]) ?? "",
        schema: objectOf(tool["input_schema"]),
        ...providerOptions.of("tools[]", withoutNulls(without(tool, "type", "name", "description", "input_schema"))),
      }),
    );
  }
  return { tools, providerTools };
}

function convertToolChoice({ type, name }: JsonObject): ToolChoice | null {
  if (type === "auto" || type === "none") return type;
  if (type === "any") return "required";
  return type === "tool" && typeof name === "string" ? { type: "tool", name } : null;
}

function convertSystem(value: Json | undefined, providerOptions: ProviderOptions): readonly Message[] {
  if (typeof value === "string") return [system(value)];
  const parts = objectsOf(value).map((block) =>
    block["type"] === "text"
      ? textPart(
          stringOrNull(block["text"]) ?? "",
          providerOptions.of("system[]", withoutNulls(without(block, "type", "text"))),
        )
      : otherBlock(block, providerOptions),
  );
  return parts.map((part) => system([part]));
}

function convertMessages(
  body: JsonObject,
  form: ReplyForm,
  context: WireContext,
  providerOptions: ProviderOptions,
): readonly Message[] {
  return objectsOf(joinTurns(body["messages"] ?? [])).flatMap((message): readonly Message[] => {
    const { content } = message;
    const blocks = typeof content === "string" ? [{ type: "text", text: content }] : objectsOf(content);
    if (message["role"] === "assistant") return [convertReply(blocks, form, context, providerOptions)];
    if (message["role"] === "system") return convertSystem(content, providerOptions);
    const results = blocks
      .filter(({ type }) => type === "tool_result")
      .map((block) => convertResult(block, providerOptions));
    const others = blocks
      .filter(({ type }) => type !== "tool_result")
      .map((block) => convertBlock(block, providerOptions));
    return isBlank(others) ? results : [...results, user(others)];
  });
}

function convertResult(block: JsonObject, providerOptions: ProviderOptions): Message {
  const { content } = block;
  const options = withoutNulls(without(block, "type", "tool_use_id", "content", "is_error"));
  return toolResult(
    stringOrNull(block["tool_use_id"]) ?? "",
    isList(content)
      ? objectsOf(content).map((part) => convertBlock(part, providerOptions))
      : (stringOrNull(content) ?? ""),
    {
      status: block["is_error"] === true ? "failure" : "success",
      ...providerOptions.of("messages[].content[]", options),
    },
  );
}

/**
 * A block of a user message or of a result. A block of a type without counterpart is a text part whose options are the
 * block.
 */
function convertBlock(block: JsonObject, providerOptions: ProviderOptions): UserPart {
  const extra = (...typed: readonly string[]) =>
    providerOptions.of("messages[].content[]", withoutNulls(without(block, "type", ...typed)));
  const source = objectOf(block["source"]);
  switch (block["type"]) {
    case "text":
      return textPart(stringOrNull(block["text"]) ?? "", extra("text"));
    case "image":
      return imagePart({ source: sourceOf(source), mimeType: stringOrNull(source["media_type"]) }, extra("source"));
    case "document": {
      // Content blocks as the source of a document have no counterpart among the sources of a file.
      if (source["type"] === "content") return otherBlock(block, providerOptions);
      const isText = source["type"] === "text";
      return filePart(
        isText ? { type: "base64", data: base64Of(stringOrNull(source["data"]) ?? "") } : sourceOf(source),
        {
          mimeType: stringOrNull(source["media_type"]),
          name: stringOrNull(block["title"]),
          ...extra("source", "title"),
        },
      );
    }
    default:
      return otherBlock(block, providerOptions);
  }
}

/** The text is what other providers would get. */
function otherBlock(block: JsonObject, providerOptions: ProviderOptions): TextPart {
  return textPart(JSON.stringify(block), providerOptions.of("messages[].content[]", block));
}

function sourceOf(source: JsonObject): Parameters<typeof filePart>[0] {
  if (source["type"] === "url") return { type: "url", url: stringOrNull(source["url"]) ?? "" };
  if (source["type"] === "file") return { type: "provider_file", provider, id: stringOrNull(source["file_id"]) ?? "" };
  return { type: "base64", data: stringOrNull(source["data"]) ?? "" };
}

function base64Of(text: string): string {
  return Buffer.from(text, "utf8").toString("base64");
}

/** The blocks of a reply. Cache breakpoints are the caller's: they become options of the part or call. */
function convertReply(
  blocks: readonly JsonObject[],
  form: ReplyForm,
  context: WireContext,
  providerOptions: ProviderOptions,
): Message {
  const isPlain = blocks.every(
    (block) =>
      (block["type"] === "text" && isEmpty(without(block, "type", "text", "cache_control"))) ||
      (block["type"] === "tool_use" && isEmpty(without(block, "type", "id", "name", "input", "cache_control"))),
  );
  const stripped = blocks.map((block) => without(block, "cache_control"));
  const reply = form === "written" && isPlain ? writtenReply(stripped) : decodedReply(stripped, context);
  if (blocks.every((block) => block["cache_control"] === undefined)) return reply;
  const optionsAt = (index: number) => {
    const cache = blocks[index]?.["cache_control"];
    return providerOptions.of("messages[].content[]", cache === undefined ? {} : { cache_control: cache });
  };
  const parts = typeof reply.content === "string" ? [textPart(reply.content)] : reply.content;
  const indexOfCall = (id: string) => blocks.findIndex((block) => block["type"] === "tool_use" && block["id"] === id);
  return {
    ...reply,
    content: parts.map((part, index) => (part.type === "tool_call" ? part : { ...part, ...optionsAt(index) })),
    toolCalls: reply.toolCalls.map((call) => ({ ...call, ...optionsAt(indexOfCall(call.id)) })),
  };
}

function decodedReply(blocks: readonly JsonObject[], context: WireContext): Extract<Message, { role: "assistant" }> {
  const calls = blocks.some(({ type }) => type === "tool_use");
  return decodeTurn(anthropicMessages, context, {
    id: "msg_recorded",
    type: "message",
    role: "assistant",
    content: blocks,
    stop_reason: calls ? "tool_use" : "end_turn",
  });
}

function writtenReply(blocks: readonly JsonObject[]): Extract<Message, { role: "assistant" }> {
  const toolCalls = blocks
    .filter(({ type }) => type === "tool_use")
    .map((block) => ({
      id: stringOrNull(block["id"]) ?? "",
      name: stringOrNull(block["name"]) ?? "",
      arguments: objectOf(block["input"]),
    }));
  const content = blocks.map((block): AssistantPart =>
    block["type"] === "tool_use"
      ? toolCallPart(stringOrNull(block["id"]) ?? "")
      : textPart(stringOrNull(block["text"]) ?? ""),
  );
  return assistant(content, { toolCalls });
}

// Harmless differences

const rules: readonly Rule[] = [
  rule("null field", "the API reads `null` as an absent field", withoutNulls),
  rule("streaming", "the library streams every reply, also for callers that read a whole one", (body) =>
    without(body, "stream"),
  ),
  rule("default written out", "the value is the API's default", removeDefaults),
  rule("text or list of blocks", "a string is a list of one text block", (body) =>
    mapObjects(mapField(body, "system", textBlocks), "messages", (message) =>
      mapObjects(mapField(message, "content", textBlocks), "content", (block) =>
        block["type"] === "tool_result" ? mapField(block, "content", textBlocks) : block,
      ),
    ),
  ),
  rule("system text", "text blocks of the system prompt without fields of their own are one text", (body) =>
    mapField(body, "system", joinTexts),
  ),
  rule("turn of several messages", "the API joins neighbouring messages of one role", (body) =>
    mapField(body, "messages", joinTurns),
  ),
  rule("results first", "the API requires the results of a turn before its other blocks", (body) =>
    mapObjects(body, "messages", (message) =>
      mapField(message, "content", (content) => [
        ...listOf(content).filter((block) => objectOf(block)["type"] === "tool_result"),
        ...listOf(content).filter((block) => objectOf(block)["type"] !== "tool_result"),
      ]),
    ),
  ),
  rule("blank text", "the API refuses blank text blocks; the library does not send them", (body) =>
    mapObjects(body, "messages", (message) => {
      const content = listOf(message["content"]).filter((block) => {
        const { type, text } = objectOf(block);
        return type !== "text" || typeof text !== "string" || text.trim() !== "";
      });
      return content.length === 0 ? [] : [{ ...message, content }];
    }),
  ),
  rule("end of a prefill", "the API refuses white space at the end of a last assistant message", (body) =>
    mapField(body, "messages", (messages) => {
      const last = objectOf(listOf(messages).at(-1));
      if (last["role"] !== "assistant") return messages;
      const blocks = listOf(last["content"]);
      const end = mapField(objectOf(blocks.at(-1)), "text", (text) =>
        typeof text === "string" ? text.trimEnd() : text,
      );
      return [...listOf(messages).slice(0, -1), { ...last, content: [...blocks.slice(0, -1), end] }];
    }),
  ),
  rule("order of tools", "the model gets the same tools; the library lists functions first", (body) =>
    mapField(body, "tools", (tools) => [
      ...objectsOf(tools).filter((tool) => tool["input_schema"] !== undefined),
      ...objectsOf(tools).filter((tool) => tool["input_schema"] === undefined),
    ]),
  ),
  rule("output format", "`output_format` is the former name of `output_config.format`", (body) =>
    body["output_format"] === undefined
      ? body
      : {
          ...without(body, "output_format"),
          output_config: { ...objectOf(body["output_config"]), format: body["output_format"] },
        },
  ),
  rule("strict schema", "the API accepts a subset of JSON Schema; other keywords are part of the description", (body) =>
    mapObjects(
      mapField(body, "output_config", (config) =>
        mapField(objectOf(config), "format", (format) =>
          without(documentedSchema({ ...objectOf(format), strict: true }, "schema", anthropicStrict), "strict"),
        ),
      ),
      "tools",
      (tool) => documentedSchema(tool, "input_schema", anthropicStrict),
    ),
  ),
  rule(
    "tool without description",
    "an empty description is an absent one; `custom` is the type of every function",
    (body) =>
      mapObjects(body, "tools", (tool) => {
        const described = tool["description"] === "" ? without(tool, "description") : tool;
        return described["type"] === "custom" ? without(described, "type") : described;
      }),
  ),
];

function removeDefaults(body: JsonObject): JsonObject {
  const hasTools = listOf(body["tools"]).length > 0;
  const isDefault: { readonly [name: string]: (value: Json) => boolean } = {
    tools: (value) => listOf(value).length === 0,
    stop_sequences: (value) => listOf(value).length === 0,
    system: (value) => value === "" || (isList(value) && value.length === 0),
    tool_choice: (value) => {
      const { type, disable_parallel_tool_use: disable, ...others } = objectOf(value);
      return isEmpty(others) && disable !== true && (type === "auto" || (type === "none" && !hasTools));
    },
    output_config: (value) => isEmpty(objectOf(value)),
    metadata: (value) => isEmpty(objectOf(value)),
  };
  const kept = Object.fromEntries(Object.entries(body).filter(([name, value]) => isDefault[name]?.(value) !== true));
  const withChoice = mapField(kept, "tool_choice", (value) => {
    const choice = objectOf(value);
    return choice["disable_parallel_tool_use"] === false ? without(choice, "disable_parallel_tool_use") : choice;
  });
  return mapObjects(withChoice, "messages", (message) =>
    mapObjects(message, "content", (block) => {
      const cleaned = withoutNulls(block);
      return cleaned["is_error"] === false ? without(cleaned, "is_error") : cleaned;
    }),
  );
}

function textBlocks(content: Json): Json {
  return typeof content === "string" ? [{ type: "text", text: content }] : content;
}

/** Joins text blocks that have no other field. */
function joinTexts(content: Json): Json {
  const blocks: JsonObject[] = [];
  for (const block of objectsOf(content)) {
    const last = blocks.at(-1);
    const isPlain = isEmpty(without(block, "type", "text")) && isEmpty(without(last ?? {}, "type", "text"));
    if (last === undefined || !isPlain) blocks.push(block);
    else
      blocks.splice(-1, 1, { type: "text", text: `${stringOrNull(last["text"])}\n\n${stringOrNull(block["text"])}` });
  }
  return blocks;
}

function joinTurns(value: Json): Json {
  const messages: JsonObject[] = [];
  for (const message of objectsOf(value)) {
    const last = messages.at(-1);
    if (last === undefined || last["role"] !== message["role"]) messages.push(message);
    else messages.splice(-1, 1, { ...last, content: [...blocksOf(last), ...blocksOf(message)] });
  }
  return messages;
}

function blocksOf(message: JsonObject): readonly Json[] {
  return listOf(textBlocks(message["content"] ?? []));
}
