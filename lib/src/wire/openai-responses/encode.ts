// Encodes requests for the OpenAI Responses API.
//
// Invariants
//   1. The provider stores nothing (`store: false`). Reasoning is therefore requested in encrypted form (`include: ["reasoning.encrypted_content"]`) from models that
//      reason (`reasoning-models.ts`), and sent back with the history (fixtures/wire/openai-responses/reasoning). A background response is stored (`store: true`),
//      because it is read by its id. The options of the request can override `store`; their `include` is added.
//   2. Items of the same route are sent back unchanged (W4). If a reasoning item of a reply cannot be sent back, the items that depend on it cannot be sent back as they are:
//      the API refuses an item with a known id whose reasoning is missing ("was provided without its required 'reasoning' item"). Calls are sent without their item ids;
//      calls that need an id are sent as function calls; items of tools that the provider ran are omitted.
//   3. System messages at the start become `instructions`; later ones stay in their place with the role `developer`. From the first system message with provider
//      options on they are `developer` items too, because `instructions` is one text without other fields.
//   4. The encoded form of a message is cached by message identity, route, `store` and role.
//   5. Empty text is not sent. A message with no other content is not sent and is listed in `omissions` as `repaired`.
//   6. Provider options of a part, a call or a tool are fields of its object; those of a message are fields of its message items, or of its output item.

import type {
  AssistantMessage,
  AssistantPart,
  ContentSource,
  Json,
  JsonObject,
  Message,
  ModelRequest,
  ProviderReplay,
  ProviderRoute,
  ToolCall,
  ToolMessage,
  UserPart,
} from "../../model/internal.ts";
import type { EncodedRequest, Omission, WireContext } from "../codec.ts";

import { AdapterError, messageText, normalizeContent, replayFor, visibleText } from "../../model/internal.ts";
import { audioFormat } from "../audio-format.ts";
import { asObject, flagAt, objectAt, omitNullish, textAt } from "../fields.ts";
import { nothingToSend, sendableHistory } from "../history.ts";
import {
  authorName,
  choiceWithoutTools,
  foreignTool,
  inMessage,
  isForced,
  noSchemaOutput,
  removedField,
  unsupported,
} from "../omission.ts";
import { callerFields, mergeFields, optionsFor, withOptions } from "../provider-options.ts";
import { clientCallName } from "../provider-tools.ts";
import { clientCallOf } from "./client-calls.ts";
import { resultField } from "./items.ts";
import { modelReasons } from "./reasoning-models.ts";

/** The input items of one message. Paths in `omissions` are relative to the message. */
type EncodedMessage = { readonly items: readonly JsonObject[]; readonly omissions: readonly Omission[] };

/** What the encoding of a message depends on besides the message. `key` identifies it in the cache. */
type EncodeTarget = {
  readonly context: WireContext;
  /** The provider stores responses (`store: true`) and resolves items by their ids. */
  readonly stores: boolean;
  /** The provider continues a stored conversation, which may hold the calls that the results of the request answer. */
  readonly hasStoredHistory: boolean;
  readonly key: string;
  /** Ids of calls of provider tools that are sent as function calls. */
  readonly demoted: ReadonlySet<string>;
};

/** Encodes a request. Throws `AdapterError` for media that cannot be sent and for a request without content. */
export function encode(request: ModelRequest, context: WireContext): EncodedRequest {
  const { route, quirks } = context;
  const options = callerFields(request, route);
  const background = flagAt(options, "background") ?? context.background ?? false;
  const stores = flagAt(options, "store") ?? background;
  const hasStoredHistory = storedHistoryOptions.some((name) => (options[name] ?? null) !== null);
  const key = JSON.stringify([route.provider, route.endpoint, route.model, stores, quirks.systemRole ?? null]);
  const omissions: Omission[] = [];
  const { input, instructions } = encodeMessages(
    request.messages,
    { context, stores, hasStoredHistory, key, demoted: new Set() },
    omissions,
  );
  if (input.length === 0 && instructions === null && !inputOptions.some((name) => Object.hasOwn(options, name)))
    throw nothingToSend(route);
  const fields = omitNullish({
    model: route.model,
    instructions,
    input,
    stream: true,
    store: stores,
    background: background ? true : null,
    include: modelReasons(request, route.model) ? ["reasoning.encrypted_content"] : null,
    ...encodeTools(request, context, omissions),
    ...encodeSettings(request, context, omissions),
  });
  const merged: JsonObject = { ...mergeFields(fields, options), ...mergeInclude(fields, options) };
  const removedFields = new Set(quirks.without ?? []);
  const isSent = (name: string): boolean => !removedFields.has(name) || Object.hasOwn(options, name);
  const body = Object.fromEntries(Object.entries(merged).filter(([name]) => isSent(name)));
  omissions.push(...Object.keys(merged).flatMap((name) => (isSent(name) ? [] : [removedField(name)])));
  return { path: "/responses", body, headers: {}, omissions };
}

/** Options that supply input besides the messages. With one of them a request without messages is valid. */
const inputOptions = ["input", "instructions", "prompt", "previous_response_id", "conversation"] as const;

/** Options that name a conversation which the provider has stored. */
const storedHistoryOptions = ["previous_response_id", "conversation"] as const;

/** Adds the caller's `include` to the encoder's, without duplicates: a list that asks for search results must not remove the encrypted reasoning. */
function mergeInclude(fields: JsonObject, options: JsonObject): JsonObject {
  const { include: encoded } = fields;
  const { include: requested } = options;
  return Array.isArray(encoded) && Array.isArray(requested)
    ? { include: [...new Set([...encoded, ...requested])] }
    : {};
}

/**
 * Sampling, reasoning, prompt cache and output format. The API has no stop sequences, no seed and no token budget for reasoning. The session id is the
 * default `prompt_cache_key` if it is short enough, so that all turns of a session share a cache.
 */
function encodeSettings(request: ModelRequest, { quirks }: WireContext, omissions: Omission[]): JsonObject {
  const { reasoning, promptCache, responseFormat, stopSequences, seed, scope } = request;
  if (stopSequences.length > 0) omissions.push(unsupported("stopSequences", "the Responses API has no stop sequences"));
  if (seed !== null) omissions.push(unsupported("seed", "the Responses API has no seed"));
  if (reasoning !== null && reasoning.budgetTokens !== null) {
    const why = "the Responses API has no token budget for reasoning; set reasoning.effort";
    omissions.push(unsupported("reasoning.budgetTokens", why));
  }
  const thinking = omitNullish({ effort: reasoning?.effort, summary: reasoning?.summary });
  const hasSchema = quirks.jsonSchema ?? true;
  if (responseFormat?.type === "json_schema" && !hasSchema)
    omissions.push(unsupported("responseFormat.schema", noSchemaOutput));
  const sessionKey = scope !== null && scope.sessionId.length <= maxKeyLength ? scope.sessionId : null;
  return omitNullish({
    temperature: request.temperature,
    top_p: request.topP,
    max_output_tokens: request.maxTokens,
    reasoning: Object.keys(thinking).length === 0 ? null : thinking,
    prompt_cache_key: promptCache === null ? null : (promptCache.key ?? sessionKey),
    prompt_cache_retention: promptCache?.retention === "long" ? "24h" : null,
    text: encodeFormat(responseFormat, hasSchema, quirks.strict ?? true),
  });
}

/** Longest `prompt_cache_key`, and longest `call_id`, that the API accepts, in characters. */
const maxKeyLength = 64;

/** The field `text`: the output format. Without JSON Schema support, `json_object` is requested instead. */
function encodeFormat(
  format: ModelRequest["responseFormat"],
  hasSchema: boolean,
  takesStrict: boolean,
): JsonObject | null {
  if (format === null || format.type === "text") return null;
  if (format.type === "json_object" || !hasSchema) return { format: { type: "json_object" } };
  const { name, schema, strict } = format;
  return { format: { type: "json_schema", name, schema, ...(takesStrict ? { strict } : {}) } };
}

/** Function tools, then tools that the provider runs (`type` is their name). Tools of other providers are omitted. */
function encodeTools(request: ModelRequest, { route, quirks }: WireContext, omissions: Omission[]): JsonObject {
  const takesStrict = quirks.strict ?? true;
  const functions = request.tools.map((tool): JsonObject => {
    const { name, description, schema, metadata } = tool;
    // Without the field, the API makes the schema strict by default, which changes what it allows.
    const strict = takesStrict ? { strict: metadata["strict"] === true } : {};
    return withOptions({ type: "function", name, description, parameters: schema, ...strict }, optionsFor(tool, route));
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

/** The definition of a custom tool, which is flat here and nested in Chat Completions, in `custom` and in `format.grammar`. */
function flatCustomTool(options: JsonObject): JsonObject {
  const definition = objectAt(options, "custom") ?? options;
  const format = objectAt(definition, "format");
  const grammar = objectAt(format, "grammar");
  return grammar === null ? definition : { ...definition, format: { type: "grammar", ...grammar } };
}

/** A forced tool: by `type: "function"`, by the type and name of a custom tool, by the label of an MCP server, or by the type of another provider tool. */
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

/** Encodes the history into `input` and `instructions`. */
function encodeMessages(
  messages: readonly Message[],
  target: EncodeTarget,
  omissions: Omission[],
): { readonly input: readonly JsonObject[]; readonly instructions: string | null } {
  const { quirks } = target.context;
  const callIds = quirks.callIds ?? { maxLength: maxKeyLength, pattern: "any" };
  const history = sendableHistory(messages, callIds, target.hasStoredHistory);
  omissions.push(...history.omissions);
  const firstNonSystem = history.messages.findIndex(
    (message) => message.role !== "system" || hasOptions(message, target.context.route),
  );
  const firstInputIndex = firstNonSystem === -1 ? history.messages.length : firstNonSystem;
  const texts = history.messages.slice(0, firstInputIndex).map(messageText);
  const instructions = texts.filter((text) => text !== "").join("\n\n");
  const input: JsonObject[] = [];
  let calls: readonly ToolCall[] = [];
  let demoted: ReadonlySet<string> = target.demoted;
  for (const [at, message] of history.messages.entries()) {
    const path = `messages[${history.requestIndexes[at] ?? at}]`;
    if (at < firstInputIndex) {
      if (texts[at] === "") omissions.push({ path, reason: "repaired" });
      continue;
    }
    let messageTarget = target;
    if (message.role === "assistant") {
      calls = message.toolCalls;
      demoted = demotedCalls(message, history.messages, at, target);
      for (const id of demoted)
        omissions.push({ path: `${path}.toolCalls[${calls.findIndex((call) => call.id === id)}]`, reason: "repaired" });
      if (demoted.size > 0) messageTarget = { ...target, demoted, key: JSON.stringify([target.key, ...demoted]) };
    }
    const encoded = encodeOnce(message, messageTarget);
    omissions.push(...encoded.omissions.map((omission) => inMessage(path, omission)));
    if (encoded.items.length === 0 && encoded.omissions.every(({ path: innerPath }) => innerPath !== ""))
      omissions.push({ path, reason: "repaired" });
    if (message.role !== "tool") input.push(...encoded.items);
    else input.push(...encoded.items.flatMap((item) => forCall(item, message, calls, { ...target, demoted })));
  }
  return { input, instructions: instructions === "" ? null : instructions };
}

/** Has the message, or one of its parts, options for this provider? */
function hasOptions(message: Extract<Message, { readonly role: "system" }>, route: ProviderRoute): boolean {
  if (optionsFor(message, route) !== null) return true;
  return typeof message.content !== "string" && message.content.some((part) => optionsFor(part, route) !== null);
}

// The encoded forms of each message, by `EncodeTarget.key`.
const encodedMessages = new WeakMap<Message, Map<string, EncodedMessage>>();

function encodeOnce(message: Message, target: EncodeTarget): EncodedMessage {
  const cache = encodedMessages.get(message) ?? new Map<string, EncodedMessage>();
  encodedMessages.set(message, cache);
  const encoded = cache.get(target.key) ?? encodeMessage(message, target);
  cache.set(target.key, encoded);
  return encoded;
}

/** Encodes one message. */
function encodeMessage(message: Message, target: EncodeTarget): EncodedMessage {
  const { route } = target.context;
  switch (message.role) {
    case "system": {
      const role = target.context.quirks.systemRole ?? "developer";
      const pieces =
        typeof message.content !== "string" && hasOptions(message, route)
          ? message.content.map((part) => encodePart(part, target.context))
          : [inputText(messageText(message))];
      const content = pieces.filter(isNotEmptyText);
      const item = withOptions({ type: "message", role, content }, optionsFor(message, route));
      return { items: content.length === 0 ? [] : [item], omissions: [] };
    }
    case "user":
    case "event": {
      const parts = normalizeContent<UserPart>(message.content);
      const content = parts.map((part) => encodePart(part, target.context)).filter(isNotEmptyText);
      const item = withOptions({ type: "message", role: "user", content }, optionsFor(message, route));
      const items = content.length === 0 ? [] : [item];
      return { items, omissions: [...foreignParts(parts, target), ...authorName(message)] };
    }
    case "tool":
      return { items: [encodeToolResult(message, target.context)], omissions: [] };
    case "assistant":
      return encodeAssistant(message, target);
  }
}

/** Omissions for user parts that carry replay data of another route. Their content is sent. */
function foreignParts(parts: readonly UserPart[], { context }: EncodeTarget): readonly Omission[] {
  return parts.flatMap(({ provider }, at) =>
    replayFor(provider, context.route).type === "foreign_route"
      ? [{ path: `.content[${at}]`, reason: "foreign_replay" as const }]
      : [],
  );
}

/** The output item of a tool message. {@link forCall} adds what depends on the call. */
function encodeToolResult(message: ToolMessage, context: WireContext): JsonObject {
  const parts = normalizeContent<UserPart>(message.content);
  const texts = parts.flatMap((part) => (part.type === "text" ? [visibleText(part.text, part.pruneState)] : []));
  const pieces = parts.map((part) => encodePart(part, context, false)).filter(isNotEmptyText);
  const isText = texts.length === parts.length && parts.every((part) => optionsFor(part, context.route) === null);
  const output = isText || pieces.length === 0 ? texts.join("\n") : pieces;
  const item = { type: "function_call_output", call_id: message.toolCallId, output };
  return withOptions(item, optionsFor(message, context.route));
}

/**
 * The calls of provider tools that have to be sent as function calls: the API cannot express the answer (a computer call without a screenshot), or it requires the
 * id of the item and the reasoning of the reply is missing (invariant 2).
 */
function demotedCalls(
  message: AssistantMessage,
  messages: readonly Message[],
  at: number,
  { context, stores }: EncodeTarget,
): ReadonlySet<string> {
  const demoted = new Set<string>();
  for (const call of message.toolCalls) {
    const item = replayFields(call.provider, context);
    const client = clientCallOf(item);
    if (client === null || item === null) continue;
    const answer = messages.slice(at + 1, at + 1 + message.toolCalls.length).find((next) => isAnswerTo(next, call));
    const output =
      answer?.role === "tool"
        ? client.outputOf({ call, message: answer, item, imageFields: (part) => screenshotFields(part, context) })
        : null;
    if (output === null || (client.needsId && hasLostReasoning(message, context, stores))) demoted.add(call.id);
  }
  return demoted;
}

function isAnswerTo(message: Message, { id }: ToolCall): boolean {
  return message.role === "tool" && message.toolCallId === id;
}

/** The source of a screenshot: the fields of an input image without its type and detail. */
function screenshotFields(part: UserPart, context: WireContext): JsonObject {
  const { type: _, detail: __, ...source } = encodePart(part, context);
  return source;
}

/** Did the reply have reasoning that cannot be sent back (invariant 2)? */
function hasLostReasoning(message: AssistantMessage, context: WireContext, stores: boolean): boolean {
  return normalizeContent<AssistantPart>(message.content).some((part) => isLostReasoning(part, context, stores));
}

function isLostReasoning(part: AssistantPart, context: WireContext, stores: boolean): boolean {
  return (
    part.type === "reasoning" && part.provider !== null && !canReturn(replayFields(part.provider, context), stores)
  );
}

/**
 * Adapts an output item to its call: a provider tool has its own output item, a custom tool another item type, and a call that code made needs its `caller` in the
 * output. Text beside a screenshot, for which the API has no field, becomes a message.
 */
function forCall(
  item: JsonObject,
  message: ToolMessage,
  calls: readonly ToolCall[],
  { context, demoted }: EncodeTarget,
): readonly JsonObject[] {
  const call = calls.find(({ id }) => id === item["call_id"]);
  const data = call === undefined ? null : replayFields(call.provider, context);
  if (data === null || call === undefined || demoted.has(call.id)) return [item];
  const client = clientCallOf(data);
  if (client !== null) {
    const imageFields = (part: UserPart) => screenshotFields(part, context);
    const answer = client.outputOf({ call, message, item: data, imageFields });
    if (answer === null) return [item];
    const output = withOptions(answer, optionsFor(message, context.route));
    const text = textAt(output, "type") === "computer_call_output" ? messageText(message) : "";
    return text === "" ? [output] : [output, { type: "message", role: "user", content: [inputText(text)] }];
  }
  const custom = textAt(data, "type") === "custom_tool_call" ? { type: "custom_tool_call_output" } : {};
  return [{ ...item, ...custom, ...omitNullish({ caller: data["caller"] }) }];
}

/** The replay data of a part or call that belongs to this route; `null` otherwise (W4). */
function replayFields(replay: ProviderReplay | null, { route }: WireContext): JsonObject | null {
  const verdict = replayFor(replay, route);
  return verdict.type === "replay" ? asObject(verdict.data) : null;
}

/** Encodes a reply: its items in order, with calls at their `tool_call` parts and the remaining calls at the end. */
function encodeAssistant(message: AssistantMessage, target: EncodeTarget): EncodedMessage {
  const { context, stores, demoted } = target;
  const omissions: Omission[] = [];
  const items: JsonObject[] = [];
  const parts = normalizeContent<AssistantPart>(message.content);
  const messageOptions = optionsFor(message, context.route);
  const unplacedCalls = [...message.toolCalls];
  // Invariant 2: without its reasoning, the calls of the reply are sent without item ids.
  const isWithoutReasoning = hasLostReasoning(message, context, stores);
  // Invariant 2: items of the provider that follow reasoning which is not sent, up to the next reasoning that is sent.
  let dependsOnLost = false;
  const placeCall = (toolCall: ToolCall): void => {
    if (replayFor(toolCall.provider, context.route).type === "foreign_route")
      omissions.push({ path: `.toolCalls[${message.toolCalls.indexOf(toolCall)}]`, reason: "foreign_replay" });
    const data = demoted.has(toolCall.id) ? null : replayFields(toolCall.provider, context);
    const item = encodeCall(toolCall, data, isWithoutReasoning);
    items.push(withOptions(item, optionsFor(toolCall, context.route)));
  };
  for (const [at, part] of parts.entries()) {
    const path = `.content[${at}]`;
    switch (part.type) {
      case "text":
        if (replayFor(part.provider, context.route).type === "foreign_route")
          omissions.push({ path, reason: "foreign_replay" });
        items.push(...encodeText(part, context.route).map((item) => withOptions(item, messageOptions)));
        break;
      case "tool_call":
        if (part.providerExecuted === null) {
          const callIndex = unplacedCalls.findIndex(({ id }) => id === part.toolCallId);
          unplacedCalls.splice(Math.max(callIndex, 0), 1).forEach(placeCall);
        } else if (part.providerExecuted.provider !== null) {
          placeReplayed(part.providerExecuted.provider, path);
        }
        break;
      case "tool_result":
        // The image part that follows holds the item of a generated image.
        if (part.provider === null && parts.some((other) => isImageOf(other, part.toolCallId))) break;
        placeReplayed(part.provider, path, part.pruneState === null ? part.content : null);
        break;
      case "reasoning":
      case "opaque":
        placeReplayed(part.provider, path);
        break;
      case "image":
        if (part.pruneState !== null) {
          omissions.push({ path, reason: "repaired" });
          break;
        }
        if (replayFields(part.provider, context) !== null && part.image.source.type === "base64") {
          placeReplayed(part.provider, path, part.image.source.data);
          break;
        }
        omissions.push(unsupported(path, noReplyMedia));
        break;
      case "file":
        omissions.push(unsupported(path, noReplyMedia));
        break;
    }
  }
  unplacedCalls.forEach(placeCall);
  // The API refuses a reasoning item without a following item.
  while (items.at(-1)?.["type"] === "reasoning") {
    items.pop();
    omissions.push({ path: "", reason: "repaired" });
  }
  return { items, omissions };

  /** Adds an item of this route unchanged. `result` fills the field that `tool_result` parts hold outside their replay data. */
  function placeReplayed(replay: ProviderReplay | null, path: string, result?: Json): void {
    const data = replayFields(replay, context);
    if (data === null) {
      omissions.push({ path, reason: replay === null ? "unsupported" : "foreign_replay" });
    } else if (textAt(data, "type") === "reasoning" && !canReturn(data, stores)) {
      dependsOnLost = true;
      omissions.push({ path, reason: "unsupported" });
    } else if (dependsOnLost && isProviderRun(textAt(data, "type"))) {
      const text = `${path} is not sent: it depends on reasoning that the provider does not store and that has no encrypted content`;
      omissions.push({ path, reason: "repaired", message: text });
    } else {
      if (textAt(data, "type") === "reasoning") dependsOnLost = false;
      const field = resultField(textAt(data, "type"));
      // The API returns `status` in reasoning items and refuses it in the input.
      const { status: _, ...reasoning } = data;
      if (textAt(data, "type") === "reasoning") items.push(reasoning);
      else if (field === null || result === undefined || Object.hasOwn(data, field)) items.push(data);
      else items.push({ ...data, [field]: result });
    }
  }
}

const noReplyMedia =
  "the Responses API accepts no images and files in replies of the model; send them in a user message";

/** Is the part the image that this call of the provider generated? */
function isImageOf(part: AssistantPart, callId: string): boolean {
  if (part.type !== "image" || part.provider === null) return false;
  const data = asObject(part.provider.data);
  return textAt(data, "type") === "image_generation_call" && textAt(data, "id") === callId;
}

/** Is this the type of a call that the provider ran, or of its output? Other items, such as `compaction`, do not depend on reasoning. */
function isProviderRun(type: string | null): boolean {
  return type?.endsWith("_call") === true || type?.endsWith("_output") === true;
}

/** Can the reasoning item be sent back? Only with encrypted content, or by its id if the provider stores it. */
function canReturn(item: JsonObject | null, stores: boolean): boolean {
  return item !== null && (stores || textAt(item, "encrypted_content") !== null);
}

/** The text or refusal as a message item, with its `phase` (`commentary` or `final_answer`). Empty text gives no item. */
function encodeText(
  part: Extract<AssistantPart, { readonly type: "text" }>,
  route: ProviderRoute,
): readonly JsonObject[] {
  const text = visibleText(part.text, part.pruneState);
  if (text === "") return [];
  const content =
    part.kind === "refusal" ? { type: "refusal", refusal: text } : { type: "output_text", text, annotations: [] };
  const options = part.pruneState === null ? optionsFor(part, route) : null;
  const contentWithOptions = withOptions(content, options);
  return [{ type: "message", role: "assistant", content: [contentWithOptions], ...omitNullish({ phase: part.phase }) }];
}

/** The item of a call. Arguments are sent as the model wrote them, also if they are no JSON object. */
function encodeCall(call: ToolCall, data: JsonObject | null, isWithoutReasoning: boolean): JsonObject {
  const { id: itemId, ...itemFields } = data ?? {};
  const fields = omitNullish({ ...itemFields, id: isWithoutReasoning ? null : itemId });
  const client = clientCallOf(data);
  if (client !== null) {
    // The id of an approval request is the id of the item; it has no `call_id`.
    const callId = textAt(data, "type") === "mcp_approval_request" ? {} : { call_id: call.id };
    return { ...fields, ...callId, ...client.fieldsOf(call.arguments ?? {}) };
  }
  if (textAt(data, "type") === "custom_tool_call") {
    const input = textAt(call.arguments, "input") ?? call.rawArguments ?? "";
    return { ...fields, type: "custom_tool_call", call_id: call.id, name: call.name, input };
  }
  const argumentsText = call.rawArguments ?? JSON.stringify(call.arguments ?? {});
  return {
    ...fields,
    type: "function_call",
    call_id: call.id,
    name: call.name,
    arguments: argumentsText === "" ? "{}" : argumentsText,
  };
}

function inputText(text: string): JsonObject {
  return { type: "input_text", text };
}

function isNotEmptyText(piece: JsonObject): boolean {
  return piece["type"] !== "input_text" || piece["text"] !== "";
}

/**
 * The content part of a user part, with its options. A pruned part is its placeholder text, without options. `takesAudio`: results of tools have no audio parts, so their
 * audio is a file.
 */
function encodePart(part: UserPart, context: WireContext, takesAudio = true): JsonObject {
  if (part.pruneState !== null) return inputText(visibleText(part.type === "text" ? part.text : "", part.pruneState));
  const encoded = part.type === "text" ? inputText(part.text) : encodeMedia(part, context, takesAudio);
  return withOptions(encoded, optionsFor(part, context.route));
}

function encodeMedia(
  part: Exclude<UserPart, { readonly type: "text" }>,
  context: WireContext,
  takesAudio: boolean,
): JsonObject {
  if (part.type === "image") {
    const { source, mimeType } = part.image;
    return {
      type: "input_image",
      ...encodeSource(source, mimeType, "image_url", "image_url", context),
      detail: part.detail,
    };
  }
  const { source, mimeType, name } = part;
  if (mimeType?.startsWith("image/") === true)
    return {
      type: "input_image",
      ...encodeSource(source, mimeType, "image_url", "image_url", context),
      detail: "auto",
    };
  const format = takesAudio ? audioFormat(mimeType) : null;
  if (format !== null && source.type === "base64")
    return { type: "input_audio", input_audio: { data: source.data, format } };
  const filename = source.type === "base64" ? (name ?? "file") : null;
  return {
    type: "input_file",
    ...omitNullish({ filename }),
    ...encodeSource(source, mimeType, "file_data", "file_url", context),
  };
}

/** The fields for the source of an image or a file. */
function encodeSource(
  source: ContentSource,
  mimeType: string | null,
  dataField: string,
  urlField: string,
  { route }: WireContext,
): JsonObject {
  switch (source.type) {
    case "base64":
      if (mimeType !== null) return { [dataField]: `data:${mimeType};base64,${source.data}` };
      throw new AdapterError("invalid_request", {
        provider: route.provider,
        message: `${route.provider}: an image or a file in base64 needs a MIME type; set mimeType`,
      });
    case "url":
      return { [urlField]: source.url };
    case "provider_file":
      if (source.provider === route.provider) return { file_id: source.id };
      throw new AdapterError("unsupported_feature", {
        provider: route.provider,
        message: `${route.provider}: a file uploaded to ${source.provider} cannot be sent here; send its bytes`,
      });
    case "file":
      throw new AdapterError("unsupported_feature", {
        provider: route.provider,
        message: `${route.provider}: a file on disk cannot be sent; read it and send its bytes`,
      });
  }
}
