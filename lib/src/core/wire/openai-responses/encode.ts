// Encodes requests for the OpenAI Responses API: settings, tools, response format. `encode-messages.ts` encodes the
// history.
//
// Invariants
//   1. The provider stores nothing (`store: false`). Reasoning is therefore requested in encrypted form
//      (`include: ["reasoning.encrypted_content"]`) from models that reason (`reasoning-models.ts`), and sent back with
//      the history (fixtures/wire/openai-responses/reasoning). A background response is stored (`store: true`), because
//      it is read by its id. The options of the request can override `store`; their `include` is added.

import type { Json, JsonObject, ModelRequest, ProviderRoute } from "../../model/internal.ts";
import type { EncodedRequest, Omission, Quirks, WireContext } from "../codec.ts";
import type { SentSchema } from "../openai-schemas.ts";

import { addedNullsField } from "../added-nulls.ts";
import { inWholeHistory, sinceCompaction } from "../compacted-history.ts";
import { flagAt, objectAt, omitNullish } from "../fields.ts";
import { nothingToSend } from "../history.ts";
import { choiceWithoutTools, foreignTool, isForced, noSchemaOutput, removedField, unsupported } from "../omission.ts";
import { formatSchema, parametersSchema } from "../openai-schemas.ts";
import { callerFields, mergeFields, optionsFor, withOptions } from "../provider-options.ts";
import { clientCallName } from "../provider-tools.ts";
import { encodeMessages, maxKeyLength } from "./encode-messages.ts";
import { modelReasons } from "./reasoning-models.ts";
import { storedHistory } from "./stored-history.ts";

/** Encodes a request. Throws `AdapterError` for media that cannot be sent and for a request without content. */
export function encode(request: ModelRequest, context: WireContext): EncodedRequest {
  const { route, quirks } = context;
  const options = callerFields(request, route);
  const background = flagAt(options, "background") ?? context.background ?? false;
  const stores = flagAt(options, "store") ?? background;
  const hasStoredHistory = storedHistoryOptions.some((name) => (options[name] ?? null) !== null);
  const { systemRole = null, callIds = null } = quirks;
  const key = JSON.stringify([route.provider, route.endpoint, route.model, stores, systemRole, callIds]);
  const stored = storedHistory(request.messages, options, route);
  const storedCount = stored?.count ?? 0;
  const target = { context, stores, hasStoredHistory, storedCount, key, demoted: new Set<string>() };
  // The provider has replaced messages of a conversation that it stores itself.
  const history = hasStoredHistory
    ? { messages: request.messages, indexes: null }
    : sinceCompaction(request.messages, route);
  const { input, instructions, omissions: ofMessages } = encodeMessages(history.messages, target);
  const omissions: Omission[] = [...inWholeHistory(ofMessages, history)];
  if (input.length === 0 && instructions === null && !inputOptions.some((name) => Object.hasOwn(options, name)))
    throw nothingToSend(route);
  const format = schemaOfFormat(request, quirks);
  omissions.push(...(format?.omissions ?? []));
  const tools = request.tools.map((tool, index) =>
    parametersSchema(tool, index, optionsFor(tool, route), quirks.strict ?? true),
  );
  omissions.push(...tools.flatMap((tool) => tool.omissions));
  const fields = omitNullish({
    // A prompt template names its own model.
    model: route.model === "" ? null : route.model,
    instructions,
    input,
    stream: true,
    store: stores,
    background: background ? true : null,
    include: modelReasons(request, route.model) ? ["reasoning.encrypted_content"] : null,
    context_management: compactionField(request),
    ...encodeTools(request, context, tools, omissions),
    ...encodeSettings(request, context, format, omissions),
  });
  const continued = omitNullish({ previous_response_id: stored?.previousResponseId });
  const merged: JsonObject = { ...mergeFields(fields, options), ...mergeInclude(fields, options), ...continued };
  const removedFields = new Set(quirks.without ?? []);
  const isSent = (name: string): boolean => !removedFields.has(name) || Object.hasOwn(options, name);
  const body = Object.fromEntries(Object.entries(merged).filter(([name]) => isSent(name)));
  omissions.push(...Object.keys(merged).flatMap((name) => (isSent(name) ? [] : [removedField(name)])));
  // A schema of the caller replaces the encoded one, and its fields stay as the caller wrote them.
  const isOwnFormat = objectAt(objectAt(body, "text"), "format")?.["schema"] === format?.schema;
  const isOwnTools = body["tools"] === fields["tools"];
  return {
    path: "/responses",
    body,
    headers: {},
    omissions,
    ...addedNullsField(
      isOwnFormat ? (format?.addedNulls ?? null) : null,
      isOwnTools ? tools.map(({ addedNulls }, index) => [request.tools[index]?.name ?? "", addedNulls]) : [],
    ),
  };
}

/**
 * The least `compact_threshold` that the API takes (https://developers.openai.com/api/reference/resources/responses).
 */
const leastThreshold = 1_000;

/** The field `context_management`: the API compacts the conversation when it has this many tokens. */
function compactionField({ compactAt }: ModelRequest): readonly JsonObject[] | null {
  if (compactAt === undefined) return null;
  return [{ type: "compaction", compact_threshold: Math.max(leastThreshold, compactAt) }];
}

/** Options that supply input besides the messages. With one of them a request without messages is valid. */
const inputOptions = ["input", "instructions", "prompt", "previous_response_id", "conversation"] as const;

/** Options that name a conversation which the provider has stored. */
const storedHistoryOptions = ["previous_response_id", "conversation"] as const;

/**
 * Adds the caller's `include` to the encoder's, without duplicates: a list that asks for search results must not remove
 * the encrypted reasoning.
 */
function mergeInclude(fields: JsonObject, options: JsonObject): JsonObject {
  const { include: encoded } = fields;
  const { include: requested } = options;
  return Array.isArray(encoded) && Array.isArray(requested)
    ? { include: [...new Set([...encoded, ...requested])] }
    : {};
}

/**
 * Sampling, reasoning, prompt cache and output format. The API has no stop sequences, no seed and no token budget for
 * reasoning. The session id is the default `prompt_cache_key` if it is short enough, so that all turns of a session
 * share a cache.
 */
function encodeSettings(
  request: ModelRequest,
  { quirks }: WireContext,
  schema: SentSchema | null,
  omissions: Omission[],
): JsonObject {
  const { reasoning, promptCache, responseFormat, stopSequences, seed, scope } = request;
  if (stopSequences.length > 0) omissions.push(unsupported("stopSequences", "the Responses API has no stop sequences"));
  if (seed !== null) omissions.push(unsupported("seed", "the Responses API has no seed"));
  if (reasoning !== null && reasoning.budgetTokens !== null) {
    const why = "the Responses API has no token budget for reasoning; set reasoning.effort";
    omissions.push(unsupported("reasoning.budgetTokens", why));
  }
  const thinking = omitNullish({ effort: reasoning?.effort, summary: reasoning?.summary });
  if (responseFormat?.type === "json_schema" && schema === null)
    omissions.push(unsupported("responseFormat.schema", noSchemaOutput));
  const sessionKey = scope !== null && scope.sessionId.length <= maxKeyLength ? scope.sessionId : null;
  return omitNullish({
    temperature: request.temperature,
    top_p: request.topP,
    max_output_tokens: request.maxTokens,
    reasoning: Object.keys(thinking).length === 0 ? null : thinking,
    prompt_cache_key: promptCache === null ? null : (promptCache.key ?? sessionKey),
    prompt_cache_retention: promptCache?.retention === "long" ? "24h" : null,
    text: encodeFormat(responseFormat, schema, quirks.strict ?? true),
  });
}

/** The schema of the output format; `null`: there is none, or the server takes none. */
function schemaOfFormat(
  { responseFormat }: ModelRequest,
  { jsonSchema = true, strict = true }: Quirks,
): SentSchema | null {
  return responseFormat?.type === "json_schema" && jsonSchema ? formatSchema(responseFormat, strict) : null;
}

/** The field `text`: the output format. Without JSON Schema support, `json_object` is requested instead. */
function encodeFormat(
  format: ModelRequest["responseFormat"],
  sent: SentSchema | null,
  takesStrict: boolean,
): JsonObject | null {
  if (format === null || format.type === "text") return null;
  if (format.type === "json_object" || sent === null) return { format: { type: "json_object" } };
  const { name } = format;
  const { schema, strict } = sent;
  return { format: { type: "json_schema", name, schema, ...(takesStrict ? { strict } : {}) } };
}

/** Function tools, then tools that the provider runs (`type` is their name). Tools of other providers are omitted. */
function encodeTools(
  request: ModelRequest,
  { route, quirks }: WireContext,
  schemas: readonly SentSchema[],
  omissions: Omission[],
): JsonObject {
  const takesStrict = quirks.strict ?? true;
  const functions = request.tools.map((tool, index): JsonObject => {
    const { name, description, metadata } = tool;
    const sent = schemas[index];
    // Without the field, the API makes the schema strict by default, which changes what it allows.
    const strict = takesStrict ? { strict: metadata["strict"] === true } : {};
    const parameters = sent?.schema ?? tool.schema;
    const wire = withOptions({ type: "function", name, description, parameters, ...strict }, optionsFor(tool, route));
    // Strict mode that was asked for, and has no form of the schema.
    return (sent?.omissions ?? []).length > 0 ? { ...wire, strict: false } : wire;
  });
  const hosted = request.providerTools.flatMap(({ provider, name, options }, at): readonly JsonObject[] => {
    if (provider === route.provider)
      return [{ type: name, ...(name === "custom" ? flatCustomTool(options) : options) }];
    omissions.push(foreignTool(at, provider));
    return [];
  });
  const tools = [...functions, ...hosted];
  if (tools.length === 0) {
    if (isForced(request)) omissions.push(choiceWithoutTools);
    return {};
  }
  return omitNullish({
    tools,
    tool_choice: encodeToolChoice(request, route),
    parallel_tool_calls: request.parallelToolCalls,
  });
}

/**
 * The definition of a custom tool, which is flat here and nested in Chat Completions, in `custom` and in
 * `format.grammar`.
 */
function flatCustomTool(options: JsonObject): JsonObject {
  const definition = objectAt(options, "custom") ?? options;
  const format = objectAt(definition, "format");
  const grammar = objectAt(format, "grammar");
  return grammar === null ? definition : { ...definition, format: { type: "grammar", ...grammar } };
}

/**
 * A forced tool: by `type: "function"`, by the type and name of a custom tool, by the label of an MCP server, or by the
 * type of another provider tool.
 */
function encodeToolChoice({ toolChoice, tools, providerTools }: ModelRequest, route: ProviderRoute): Json {
  if (toolChoice === null || typeof toolChoice === "string") return toolChoice;
  const { name } = toolChoice;
  const forced = providerTools.find(
    (tool) => tool.provider === route.provider && (clientCallName(tool) === name || tool.name === name),
  );
  if (forced === undefined || tools.some((tool) => tool.name === name)) return { type: "function", name };
  if (forced.name === "custom") return { type: "custom", name };
  return omitNullish({
    type: forced.name,
    server_label: forced.name === "mcp" ? forced.options["server_label"] : null,
  });
}
