// Anthropic Messages, `/v1/messages`: the codec, and what of a request is not history. The base URL ends in `/v1`; the key goes into `x-api-key`
// and is the adapter's business.
//
// Rules:
//   1. Thinking excludes a forced tool and free sampling. The tool was demanded, the sampling was not: thinking gives way to the one, and the
//      other gives way to thinking; `left` says so.
//   2. `reasoning.budgetTokens` is a fixed budget, `effort` goes into `output_config`; an effort without a budget lets the model decide how long to
//      think (`adaptive`), and `"none"` turns thinking off. A model that knows neither gets what it wants through `options.thinking`.
//   3. An answer in a schema is native (`output_config.format`), beside tools too. There is nothing for JSON without a schema.

import type { Json, JsonObject, Message, ModelRequest, ProviderRoute } from "../../model/internal.ts";
import type { Codec, EncodedRequest, LeftOut, Quirks, WireContext } from "../codec.ts";

import { isJsonArray, messageText } from "../../model/internal.ts";
import { asObject, flagAt, said } from "../fields.ts";
import { anthropicDecoder, decodeError, decodeReply } from "./decode.ts";
import { encodeMessages } from "./encode.ts";

/** The codec of Anthropic's Messages API. */
export const anthropicMessages: Codec = {
  api: "anthropic-messages",
  encode,
  decoder: anthropicDecoder,
  decodeReply,
  decodeError,
};

/**
 * The API insists on a limit. 1024, which is often seen, cuts ordinary answers short without anybody having asked for it (allm G3); every model
 * takes 4096. A thinking budget comes on top, because the API counts it into the limit.
 */
const defaultMaxTokens = 4096;

function encode(request: ModelRequest, context: WireContext): EncodedRequest {
  const left: LeftOut[] = [];
  const unsupported = (path: string): void => void left.push({ path, reason: "unsupported" });
  const tools = toolsOf(request, context.route, unsupported);
  const thinking = thinkingOf(request, unsupported);
  const isThinking = thinking !== null && thinking["type"] !== "disabled";
  const { temperature, topP, seed, stopSequences, maxTokens, promptCache, reasoning } = request;
  const keepsTemperature = !isThinking || temperature === null || temperature === 1;
  const keepsTopP = !isThinking || topP === null || topP >= 0.95;
  if (!keepsTemperature) unsupported("temperature");
  if (!keepsTopP) unsupported("topP");
  if (seed !== null) unsupported("seed");
  const cache = promptCache === null ? null : cacheControl(promptCache.retention === "long");
  const fields = said({
    model: context.route.model,
    max_tokens: maxTokens ?? defaultMaxTokens + (isThinking ? (reasoning?.budgetTokens ?? 0) : 0),
    system: systemOf(request.messages, cache),
    messages: encodeMessages(request.messages, context, left),
    tools: tools.length === 0 ? null : cache === null ? tools : withCache(tools, cache),
    tool_choice: toolChoiceOf(request, tools.length > 0, unsupported),
    thinking,
    output_config: outputConfigOf(request, context.quirks, left),
    temperature: keepsTemperature ? temperature : null,
    top_p: keepsTopP ? topP : null,
    stop_sequences: stopSequences.length === 0 ? null : stopSequences,
    stream: true,
  });
  const { without = [] } = context.quirks;
  for (const key of without) if (key in fields) unsupported(key);
  const kept = Object.entries(fields).filter(([key]) => !without.includes(key));
  return {
    path: "/messages",
    body: { ...Object.fromEntries(kept), ...request.options },
    headers: { "anthropic-version": "2023-06-01" },
    left,
  };
}

type Unsupported = (path: string) => void;

function cacheControl(long: boolean): JsonObject {
  return long ? { type: "ephemeral", ttl: "1h" } : { type: "ephemeral" };
}

/** Instructions and notices: one text, or, where a cache is to end behind them, a block each. */
function systemOf(messages: readonly Message[], cache: JsonObject | null): Json {
  const texts = messages
    .filter(({ role }) => role === "system")
    .map(messageText)
    .filter((text) => text.trim() !== "");
  if (texts.length === 0) return null;
  if (cache === null) return texts.join("\n\n");
  return texts.map((text, index) =>
    index === texts.length - 1 ? { type: "text", text, cache_control: cache } : { type: "text", text },
  );
}

/** Tools of ours, then those the provider runs: `web_search_20250305` is a type, its name is what stands before the date. */
function toolsOf(
  { tools, providerTools }: ModelRequest,
  route: ProviderRoute,
  unsupported: Unsupported,
): readonly JsonObject[] {
  const own = tools.map(({ name, description, schema }) =>
    said({
      name,
      description: description === "" ? null : description,
      input_schema: schema["type"] === undefined ? { type: "object", ...schema } : schema,
    }),
  );
  const theirs = providerTools.flatMap(({ provider, name, options }, index): readonly JsonObject[] => {
    if (provider !== route.provider) {
      unsupported(`providerTools[${index}]`);
      return [];
    }
    const dated = /^(.+)_\d{8}$/.exec(name)?.[1];
    const called = dated === undefined || dated.endsWith("_toolset") ? null : (toolNames.get(name) ?? dated);
    return [{ ...said({ type: name, name: called }), ...options }];
  });
  return [...own, ...theirs];
}

/** Tools whose name is not what their type says. */
const toolNames: ReadonlyMap<string, string> = new Map([
  ["text_editor_20250124", "str_replace_editor"],
  ["text_editor_20250429", "str_replace_based_edit_tool"],
  ["text_editor_20250728", "str_replace_based_edit_tool"],
]);

/** A cache ends behind the last tool that is sent at once; one that is loaded later cannot carry the mark. */
function withCache(tools: readonly JsonObject[], cache: JsonObject): readonly JsonObject[] {
  const last = tools.findLastIndex((tool) => flagAt(tool, "defer_loading") !== true);
  return tools.map((tool, index) => (index === last ? { cache_control: cache, ...tool } : tool));
}

function isForced({ toolChoice }: ModelRequest): boolean {
  return toolChoice === "required" || (typeof toolChoice === "object" && toolChoice !== null);
}

function toolChoiceOf(request: ModelRequest, hasTools: boolean, unsupported: Unsupported): JsonObject | null {
  const { toolChoice, parallelToolCalls } = request;
  if (!hasTools) {
    if (isForced(request)) unsupported("toolChoice");
    return null;
  }
  if (toolChoice === "none") return { type: "none" };
  const single = parallelToolCalls === false ? { disable_parallel_tool_use: true } : {};
  if (toolChoice === "required") return { type: "any", ...single };
  if (toolChoice !== null && toolChoice !== "auto") return { type: "tool", name: toolChoice.name, ...single };
  return parallelToolCalls === false ? { type: "auto", ...single } : null;
}

/** A budget is the older way to think, levels of effort the newer: with a level alone the model decides how long. */
function thinkingOf(request: ModelRequest, unsupported: Unsupported): JsonObject | null {
  const { reasoning, tools, providerTools } = request;
  if (reasoning === null) return null;
  const { effort, budgetTokens, summary } = reasoning;
  if (effort === "none") return { type: "disabled" };
  if (effort === null && budgetTokens === null && summary === null) return null;
  if (isForced(request) && tools.length + providerTools.length > 0) {
    unsupported("reasoning");
    return null;
  }
  const display = summary === null ? null : "summarized";
  if (budgetTokens !== null) return said({ type: "enabled", budget_tokens: budgetTokens, display });
  return said({ type: "adaptive", display });
}

function outputConfigOf(
  { reasoning, responseFormat }: ModelRequest,
  quirks: Quirks,
  left: LeftOut[],
): JsonObject | null {
  const effort = reasoning === null || reasoning.effort === "none" ? null : reasoning.effort;
  const isNative = responseFormat?.type === "json_schema" && quirks.jsonSchema !== false;
  if (responseFormat !== null && responseFormat.type !== "text" && !isNative)
    left.push({ path: "responseFormat", reason: "unsupported" });
  const schema = isNative ? closed(responseFormat.schema) : null;
  if (isNative && JSON.stringify(schema) !== JSON.stringify(responseFormat.schema))
    left.push({ path: "responseFormat.schema", reason: "repaired" });
  const format = schema === null ? null : { type: "json_schema", schema };
  const config = said({ effort, format });
  return Object.keys(config).length === 0 ? null : config;
}

/** A schema whose objects say that they allow nothing else: the API takes no others. What a schema says itself stands. */
function closed(schema: JsonObject): JsonObject {
  const entries = Object.entries(schema).map(([key, value]): [string, Json] => {
    if (key === "properties" || key === "$defs" || key === "definitions") return [key, mapValues(value, closedAny)];
    if (key === "items" || key === "anyOf" || key === "allOf" || key === "oneOf") return [key, closedAny(value)];
    return [key, value];
  });
  const open = schema["type"] === "object" && schema["additionalProperties"] === undefined;
  return { ...Object.fromEntries(entries), ...(open ? { additionalProperties: false } : {}) };
}

function closedAny(value: Json): Json {
  if (isJsonArray(value)) return value.map(closedAny);
  const object = asObject(value);
  return object === null ? value : closed(object);
}

function mapValues(value: Json, change: (one: Json) => Json): Json {
  const object = asObject(value);
  if (object === null) return value;
  return Object.fromEntries(Object.entries(object).map(([key, one]): [string, Json] => [key, change(one)]));
}
