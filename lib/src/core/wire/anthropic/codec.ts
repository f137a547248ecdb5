// The codec of Anthropic's Messages API (`POST /v1/messages`), and the encoding of all request fields except the
// messages (`encode.ts`). The base URL ends in `/v1`. The adapter adds the key (`x-api-key`).
//
// Invariants
//   1. The API refuses a thinking budget together with a forced tool (`tool_choice` `any` or `tool`), and accepts
//      adaptive thinking with it. It refuses all thinking with sampling settings other than `temperature` 1 and `top_p`
//      of at least 0.95. A forced tool wins over a budget; thinking wins over sampling. The losing setting is listed in
//      `omissions`.
//   2. `reasoning.budgetTokens` becomes `thinking.budget_tokens`; `reasoning.effort` becomes `output_config.effort`. An
//      effort without a budget gives `thinking: { type: "adaptive" }`; the effort `"none"` gives
//      `{ type: "disabled" }`. For models with other settings, `options.thinking` overrides the field.
//   3. A JSON Schema is sent as `output_config.format`, also together with tools
//      (fixtures/wire/anthropic-messages/structured-output). The API has no mode for JSON without a schema, so
//      `json_object` is omitted. A schema that the format cannot have (records, recursion) is part of the system
//      prompt, with a warning.
//   4. Provider options and `options` of the request are merged into the body last and override every field, leaf by
//      leaf.

import type { Json, JsonObject, ModelRequest, ProviderRoute } from "../../model/internal.ts";
import type { Codec, EncodedRequest, Omission, Quirks, WireContext } from "../codec.ts";

import { inWholeHistory, sinceCompaction } from "../compacted-history.ts";
import { asObject, countAt, objectAt, objectsAt, omitNullish, pickFields, textAt } from "../fields.ts";
import { withProviderTools } from "../listed-tools.ts";
import { choiceWithoutTools, foreignTool, isForced, removedField, unsupported } from "../omission.ts";
import { objectParameters } from "../parameters-root.ts";
import { callerFields, mergeFields, optionsFor, withOptions } from "../provider-options.ts";
import { datedToolName } from "../provider-tools.ts";
import { adaptSchema } from "../schema-adaptation.ts";
import { anthropicStrict } from "../schema-rules.ts";
import { placeBreakpoints } from "./cache-breakpoints.ts";
import { anthropicDecoder, decodeError, decodeReply } from "./decode.ts";
import { encodeMessages, isPlainText, lastContainer } from "./encode.ts";

/** The codec of Anthropic's Messages API. */
export const anthropicMessages: Codec = {
  api: "anthropic-messages",
  encode: (request, context) => encode(withProviderTools(request), context),
  decoder: anthropicDecoder,
  decodeReply,
  decodeError,
  tokenCounting: {
    requestFor: ({ body }) => ({ path: "/messages/count_tokens", body: pickFields(body, countedFields) }),
    read: (body) => countAt(asObject(body), "input_tokens"),
  },
};

/** Fields of a request that `POST /v1/messages/count_tokens` takes. It refuses others, such as `max_tokens`. */
const countedFields = [
  "model",
  "messages",
  "system",
  "tools",
  "tool_choice",
  "thinking",
  "output_config",
  "cache_control",
  "mcp_servers",
  "context_management",
];

/**
 * `max_tokens` when the request has none: the API requires the field. 1,024, a common default, truncates ordinary
 * answers; every model accepts 4,096. A thinking budget is added, because the API counts thinking tokens towards
 * `max_tokens`.
 */
const defaultMaxTokens = 4096;

/** Encodes a request. Throws `AdapterError` for media that cannot be sent and for a request without content. */
function encode(request: ModelRequest, context: WireContext): EncodedRequest {
  const omissions: Omission[] = [];
  const tools = encodeTools(request, context.route, omissions);
  const thinking = encodeThinking(request, omissions);
  const options = callerFields(request, context.route);
  // What is sent: the caller may set `thinking` in the words of the API too.
  const sentThinking = objectAt(mergeFields(omitNullish({ thinking }), options), "thinking");
  const isThinking = sentThinking !== null && sentThinking["type"] !== "disabled";
  const budget = isThinking ? (countAt(sentThinking, "budget_tokens") ?? 0) : 0;
  const { temperature, topP, seed, stopSequences, maxTokens, promptCache } = request;
  const keepsTemperature = !isThinking || temperature === null || temperature === 1;
  const keepsTopP = !isThinking || topP === null || topP >= 0.95;
  if (!keepsTemperature)
    omissions.push(unsupported("temperature", "the API refuses a temperature other than 1 beside thinking"));
  if (!keepsTopP) omissions.push(unsupported("topP", "the API refuses a top_p below 0.95 beside thinking"));
  if (seed !== null) omissions.push(unsupported("seed", "the Messages API has no seed"));
  if (promptCache !== null && promptCache.key !== null)
    omissions.push(unsupported("promptCache.key", "the Messages API caches by prefix and has no cache keys"));
  const output = encodeOutputConfig(request, context.quirks, omissions);
  const history = sinceCompaction(request.messages, context.route);
  const { system, messages, omissions: ofMessages } = encodeMessages(history.messages, context);
  omissions.push(...inWholeHistory(ofMessages, history));
  const instructions = output.instructions === null ? [] : [{ type: "text", text: output.instructions }];
  const unmarked = { tools, system: [...system, ...instructions], messages };
  const prompt = promptCache === null ? unmarked : placeBreakpoints(unmarked, promptCache, options);
  const fields = omitNullish({
    model: context.route.model,
    max_tokens: maxTokens ?? defaultMaxTokens + budget,
    system: systemField(prompt.system),
    messages: prompt.messages,
    tools: prompt.tools.length === 0 ? null : prompt.tools,
    tool_choice: encodeToolChoice(request, tools.length > 0, omissions),
    thinking,
    output_config: output.config,
    temperature: keepsTemperature ? temperature : null,
    top_p: keepsTopP ? topP : null,
    stop_sequences: stopSequences.length === 0 ? null : stopSequences,
    container: containerField(lastContainer(request.messages, context), options),
    context_management: compactionField(request),
    stream: true,
  });
  const { without = [] } = context.quirks;
  for (const key of without) if (key in fields) omissions.push(removedField(key));
  const allowedFields = Object.entries(fields).filter(([key]) => !without.includes(key));
  const body = mergeFields(Object.fromEntries(allowedFields), options);
  const isCompacted = history.indexes !== null || asksForCompaction(body);
  const betas = [...betasOf(tools), ...(isCompacted ? [compactionBeta] : [])];
  return {
    path: "/messages",
    body,
    headers: omitEmpty({ "anthropic-version": "2023-06-01", "anthropic-beta": betas.join(",") }),
    omissions,
  };
}

/** The least number of input tokens at which the API compacts. */
const leastTrigger = 50_000;

const compactionEdit = "compact_20260112";

/** Compaction is a beta feature, also for requests with the block of an earlier reply. */
const compactionBeta = "compact-2026-01-12";

/** The field `context_management`: the API summarizes the conversation when it has this many tokens. */
function compactionField({ compactAt }: ModelRequest): JsonObject | null {
  if (compactAt === undefined) return null;
  const trigger = { type: "input_tokens", value: Math.max(leastTrigger, compactAt) };
  return { edits: [{ type: compactionEdit, trigger }] };
}

function asksForCompaction(body: JsonObject): boolean {
  const edits = objectsAt(objectAt(body, "context_management"), "edits");
  return edits.some((edit) => textAt(edit, "type") === compactionEdit);
}

/**
 * The field `container`: an object if the caller's options add other fields, such as `skills`, which are merged into
 * it.
 */
function containerField(id: string | null, options: JsonObject): Json {
  return id === null || objectAt(options, "container") === null ? id : { id };
}

/**
 * Computer use is a beta feature of the API: each version of the tool needs its own beta (`computer_20250124` needs
 * `computer-use-2025-01-24`).
 */
function betasOf(tools: readonly JsonObject[]): readonly string[] {
  const dates = tools.flatMap((tool) => {
    const [, year, month, day] = /^computer_(\d{4})(\d\d)(\d\d)$/.exec(textAt(tool, "type") ?? "") ?? [];
    return year === undefined ? [] : [`computer-use-${year}-${month}-${day}`];
  });
  return [...new Set(dates)];
}

function omitEmpty(headers: { readonly [name: string]: string }): { readonly [name: string]: string } {
  return Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== ""));
}

/** The field `system`: one text if no block has further fields. */
function systemField(blocks: readonly JsonObject[]): Json {
  if (blocks.length === 0) return null;
  return blocks.every(isPlainText) ? blocks.map((block) => block["text"]).join("\n\n") : blocks;
}

/**
 * Function tools, then the tools that the provider defines: a `type` with a date (`web_search_20250305`) and a `name`
 * (`datedToolName`).
 */
function encodeTools(
  { tools, providerTools }: ModelRequest,
  route: ProviderRoute,
  omissions: Omission[],
): readonly JsonObject[] {
  const functionTools = tools.map((tool, index) => {
    const { name, description } = tool;
    const schema = objectParameters(tool.schema);
    const options = optionsFor(tool, route);
    const inputSchema = schema["type"] === undefined ? { type: "object", ...schema } : schema;
    const isStrict = options?.["strict"] === true && options["input_schema"] === undefined;
    const adapted = isStrict ? adaptSchema(withFields(inputSchema), anthropicStrict) : null;
    const encoded = omitNullish({
      name,
      description: description === "" ? null : description,
      input_schema: adapted?.type === "adapted" ? adapted.schema : inputSchema,
    });
    if (adapted?.type !== "inexpressible") return withOptions(encoded, options);
    const why = `strict mode has no form of the schema, which is sent without it: ${adapted.why}`;
    omissions.push(unsupported(`tools[${index}].strict`, why));
    return { ...withOptions(encoded, options), strict: false };
  });
  const hostedTools = providerTools.flatMap(({ provider, name, options }, index): readonly JsonObject[] => {
    if (provider !== route.provider) {
      omissions.push(foreignTool(index, provider));
      return [];
    }
    return [{ ...omitNullish({ type: name, name: datedToolName(name) }), ...options }];
  });
  return [...functionTools, ...hostedTools];
}

/** The schema of a tool without parameters as an empty object. */
function withFields(schema: JsonObject): JsonObject {
  return Object.keys(schema).length === 1 ? { ...schema, properties: {} } : schema;
}

/**
 * `tool_choice`, only with tools. `disable_parallel_tool_use` is a field of it, so `{ type: "auto" }` is sent if only
 * that is set.
 */
function encodeToolChoice(request: ModelRequest, hasTools: boolean, omissions: Omission[]): JsonObject | null {
  const { toolChoice, parallelToolCalls } = request;
  if (!hasTools) {
    if (isForced(request)) omissions.push(choiceWithoutTools);
    return null;
  }
  if (toolChoice === "none") return { type: "none" };
  const parallelSetting = parallelToolCalls === false ? { disable_parallel_tool_use: true } : {};
  if (toolChoice === "required") return { type: "any", ...parallelSetting };
  if (toolChoice !== null && toolChoice !== "auto") {
    const isType = request.providerTools.some(({ name }) => name === toolChoice.name);
    const name = isType ? (datedToolName(toolChoice.name) ?? toolChoice.name) : toolChoice.name;
    return { type: "tool", name, ...parallelSetting };
  }
  return parallelToolCalls === false ? { type: "auto", ...parallelSetting } : null;
}

/**
 * The field `thinking` by invariant 2; `null` leaves the decision to the model. A summary requests
 * `display: "summarized"`.
 */
function encodeThinking(request: ModelRequest, omissions: Omission[]): JsonObject | null {
  const { reasoning, tools, providerTools } = request;
  if (reasoning === null) return null;
  const { effort, budgetTokens, summary } = reasoning;
  if (effort === "none") return { type: "disabled" };
  if (effort === null && budgetTokens === null && summary === null) return null;
  if (budgetTokens !== null && isForced(request) && tools.length + providerTools.length > 0) {
    omissions.push(unsupported("reasoning", "the API refuses a thinking budget together with a forced tool"));
    return null;
  }
  const display = summary === null ? null : "summarized";
  if (budgetTokens !== null) return omitNullish({ type: "enabled", budget_tokens: budgetTokens, display });
  return omitNullish({ type: "adaptive", display });
}

/**
 * `output_config`: the effort, and the JSON Schema of the answer (invariant 3). `instructions`: the schema in words, if
 * the API has no format for it.
 */
function encodeOutputConfig(
  { reasoning, responseFormat }: ModelRequest,
  quirks: Quirks,
  omissions: Omission[],
): { readonly config: JsonObject | null; readonly instructions: string | null } {
  const effort = reasoning === null || reasoning.effort === "none" ? null : reasoning.effort;
  const isNative = responseFormat?.type === "json_schema" && quirks.jsonSchema !== false;
  if (responseFormat !== null && responseFormat.type !== "text" && !isNative)
    omissions.push(
      responseFormat.type === "json_object"
        ? unsupported(
            "responseFormat",
            "the Messages API has no JSON without a schema; use a format of type json_schema",
          )
        : unsupported("responseFormat", "the server has no output by JSON Schema"),
    );
  const adapted = isNative ? adaptSchema(responseFormat.schema, anthropicStrict) : null;
  const schema = adapted?.type === "adapted" ? adapted.schema : null;
  if (isNative && adapted?.type === "inexpressible") {
    const why = `the API has no format for the schema, which is part of the system prompt instead: ${adapted.why}`;
    omissions.push(unsupported("responseFormat.schema", why));
  } else if (isNative && JSON.stringify(schema) !== JSON.stringify(responseFormat.schema)) {
    omissions.push({ path: "responseFormat.schema", reason: "repaired" });
  }
  const format = schema === null ? null : { type: "json_schema", schema };
  const config = omitNullish({ effort, format });
  return {
    config: Object.keys(config).length === 0 ? null : config,
    instructions:
      isNative && schema === null
        ? `Answer only with JSON, without Markdown, that matches this JSON Schema: ${JSON.stringify(responseFormat.schema)}`
        : null,
  };
}
