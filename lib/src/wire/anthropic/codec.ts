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
import type { Codec, EncodedRequest, Omission, Quirks, WireContext } from "../codec.ts";

import { isJsonArray, messageText } from "../../model/internal.ts";
import { asObject, flagAt, omitNullish } from "../fields.ts";
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
  const omissions: Omission[] = [];
  const reportUnsupported = (path: string): void => void omissions.push({ path, reason: "unsupported" });
  const tools = encodeTools(request, context.route, reportUnsupported);
  const thinking = encodeThinking(request, reportUnsupported);
  const isThinking = thinking !== null && thinking["type"] !== "disabled";
  const { temperature, topP, seed, stopSequences, maxTokens, promptCache, reasoning } = request;
  const keepsTemperature = !isThinking || temperature === null || temperature === 1;
  const keepsTopP = !isThinking || topP === null || topP >= 0.95;
  if (!keepsTemperature) reportUnsupported("temperature");
  if (!keepsTopP) reportUnsupported("topP");
  if (seed !== null) reportUnsupported("seed");
  const cache = promptCache === null ? null : cacheControl(promptCache.retention === "long");
  const fields = omitNullish({
    model: context.route.model,
    max_tokens: maxTokens ?? defaultMaxTokens + (isThinking ? (reasoning?.budgetTokens ?? 0) : 0),
    system: encodeSystem(request.messages, cache),
    messages: encodeMessages(request.messages, context, omissions),
    tools: tools.length === 0 ? null : cache === null ? tools : withCacheBreakpoint(tools, cache),
    tool_choice: encodeToolChoice(request, tools.length > 0, reportUnsupported),
    thinking,
    output_config: encodeOutputConfig(request, context.quirks, omissions),
    temperature: keepsTemperature ? temperature : null,
    top_p: keepsTopP ? topP : null,
    stop_sequences: stopSequences.length === 0 ? null : stopSequences,
    stream: true,
  });
  const { without = [] } = context.quirks;
  for (const key of without) if (key in fields) reportUnsupported(key);
  const allowedFields = Object.entries(fields).filter(([key]) => !without.includes(key));
  return {
    path: "/messages",
    body: { ...Object.fromEntries(allowedFields), ...request.options },
    headers: { "anthropic-version": "2023-06-01" },
    omissions,
  };
}

type ReportUnsupported = (path: string) => void;

function cacheControl(isLong: boolean): JsonObject {
  return isLong ? { type: "ephemeral", ttl: "1h" } : { type: "ephemeral" };
}

/** Instructions and notices: one text, or, where a cache is to end behind them, a block each. */
function encodeSystem(messages: readonly Message[], cache: JsonObject | null): Json {
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
function encodeTools(
  { tools, providerTools }: ModelRequest,
  route: ProviderRoute,
  reportUnsupported: ReportUnsupported,
): readonly JsonObject[] {
  const functionTools = tools.map(({ name, description, schema }) =>
    omitNullish({
      name,
      description: description === "" ? null : description,
      input_schema: schema["type"] === undefined ? { type: "object", ...schema } : schema,
    }),
  );
  const hostedTools = providerTools.flatMap(({ provider, name, options }, index): readonly JsonObject[] => {
    if (provider !== route.provider) {
      reportUnsupported(`providerTools[${index}]`);
      return [];
    }
    const undatedName = /^(.+)_\d{8}$/.exec(name)?.[1];
    const toolName =
      undatedName === undefined || undatedName.endsWith("_toolset") ? null : (toolNamesByType.get(name) ?? undatedName);
    return [{ ...omitNullish({ type: name, name: toolName }), ...options }];
  });
  return [...functionTools, ...hostedTools];
}

/** Tools whose name is not what their type says. */
const toolNamesByType: ReadonlyMap<string, string> = new Map([
  ["text_editor_20250124", "str_replace_editor"],
  ["text_editor_20250429", "str_replace_based_edit_tool"],
  ["text_editor_20250728", "str_replace_based_edit_tool"],
]);

/** A cache ends behind the last tool that is sent at once; one that is loaded later cannot carry the mark. */
function withCacheBreakpoint(tools: readonly JsonObject[], cache: JsonObject): readonly JsonObject[] {
  const last = tools.findLastIndex((tool) => flagAt(tool, "defer_loading") !== true);
  return tools.map((tool, index) => (index === last ? { cache_control: cache, ...tool } : tool));
}

function isForced({ toolChoice }: ModelRequest): boolean {
  return toolChoice === "required" || (typeof toolChoice === "object" && toolChoice !== null);
}

function encodeToolChoice(
  request: ModelRequest,
  hasTools: boolean,
  reportUnsupported: ReportUnsupported,
): JsonObject | null {
  const { toolChoice, parallelToolCalls } = request;
  if (!hasTools) {
    if (isForced(request)) reportUnsupported("toolChoice");
    return null;
  }
  if (toolChoice === "none") return { type: "none" };
  const parallelSetting = parallelToolCalls === false ? { disable_parallel_tool_use: true } : {};
  if (toolChoice === "required") return { type: "any", ...parallelSetting };
  if (toolChoice !== null && toolChoice !== "auto") return { type: "tool", name: toolChoice.name, ...parallelSetting };
  return parallelToolCalls === false ? { type: "auto", ...parallelSetting } : null;
}

/** A budget is the older way to think, levels of effort the newer: with a level alone the model decides how long. */
function encodeThinking(request: ModelRequest, reportUnsupported: ReportUnsupported): JsonObject | null {
  const { reasoning, tools, providerTools } = request;
  if (reasoning === null) return null;
  const { effort, budgetTokens, summary } = reasoning;
  if (effort === "none") return { type: "disabled" };
  if (effort === null && budgetTokens === null && summary === null) return null;
  if (isForced(request) && tools.length + providerTools.length > 0) {
    reportUnsupported("reasoning");
    return null;
  }
  const display = summary === null ? null : "summarized";
  if (budgetTokens !== null) return omitNullish({ type: "enabled", budget_tokens: budgetTokens, display });
  return omitNullish({ type: "adaptive", display });
}

function encodeOutputConfig(
  { reasoning, responseFormat }: ModelRequest,
  quirks: Quirks,
  omissions: Omission[],
): JsonObject | null {
  const effort = reasoning === null || reasoning.effort === "none" ? null : reasoning.effort;
  const isNative = responseFormat?.type === "json_schema" && quirks.jsonSchema !== false;
  if (responseFormat !== null && responseFormat.type !== "text" && !isNative)
    omissions.push({ path: "responseFormat", reason: "unsupported" });
  const schema = isNative ? closeObjects(responseFormat.schema) : null;
  if (isNative && JSON.stringify(schema) !== JSON.stringify(responseFormat.schema))
    omissions.push({ path: "responseFormat.schema", reason: "repaired" });
  const format = schema === null ? null : { type: "json_schema", schema };
  const config = omitNullish({ effort, format });
  return Object.keys(config).length === 0 ? null : config;
}

/** A schema whose objects say that they allow nothing else: the API takes no others. What a schema says itself stands. */
function closeObjects(schema: JsonObject): JsonObject {
  const entries = Object.entries(schema).map(([key, value]): [string, Json] => {
    if (key === "properties" || key === "$defs" || key === "definitions")
      return [key, mapValues(value, closeObjectsIn)];
    if (key === "items" || key === "anyOf" || key === "allOf" || key === "oneOf") return [key, closeObjectsIn(value)];
    return [key, value];
  });
  const isOpenObject = schema["type"] === "object" && schema["additionalProperties"] === undefined;
  return { ...Object.fromEntries(entries), ...(isOpenObject ? { additionalProperties: false } : {}) };
}

function closeObjectsIn(value: Json): Json {
  if (isJsonArray(value)) return value.map(closeObjectsIn);
  const object = asObject(value);
  return object === null ? value : closeObjects(object);
}

function mapValues(value: Json, transform: (item: Json) => Json): Json {
  const object = asObject(value);
  if (object === null) return value;
  return Object.fromEntries(Object.entries(object).map(([key, item]): [string, Json] => [key, transform(item)]));
}
