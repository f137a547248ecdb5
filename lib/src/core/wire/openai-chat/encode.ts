// Encodes requests as bodies of Chat Completions.
//
// Invariants
//   1. The encoded form of a message is cached by message identity and route.
//   2. Consecutive system messages are one message. System messages in the middle of the history stay there, so that
//      the prefix before them stays in the provider's prompt cache.
//   3. The API accepts only text as a tool result. Images and files of results follow in one user message after the
//      last result of the reply (fixtures/wire/openai-chat/history).
//   4. Reasoning and signatures are sent back to their own route only, in the fields they came in (W4). Of the unknown
//      fields of messages and calls, only those of `replayedFields` and of `quirks.replayFields` are sent back: strict
//      servers refuse fields that they only define for replies (Mistral answers 422 `extra_forbidden`).
//   5. Arguments are sent back as the text the model wrote. Text that is no JSON object is sent as `{}`, because many
//      servers parse it and refuse the request.
//   6. Empty text is not sent. A message with no other content is not sent and is listed in `omissions` as `repaired`.
//   7. `quirks.without` removes fields from the body and from assistant messages. Provider options and `options` of the
//      request are merged after that and override everything, leaf by leaf.
//   8. Provider options of a message, a content part, a call or a tool are fields of its object (for a tool, of
//      `function`). Content whose parts have options is a list; a system message with options is not joined with its
//      neighbours.

import type {
  AssistantMessage,
  Json,
  JsonObject,
  Message,
  ModelRequest,
  ProviderReplay,
  ProviderRoute,
  ProviderTool,
  TextPart,
  ToolCall,
  ToolChoice,
  ToolMessage,
  ToolSpec,
  UserMessage,
} from "../../model/internal.ts";
import type { EncodedRequest, Omission, WireContext } from "../codec.ts";
import type { SentSchema } from "../openai-schemas.ts";

import { normalizeContent, replayFor, textOrPlaceholder } from "../../model/internal.ts";
import { addedNullsField } from "../added-nulls.ts";
import { asObject, flagAt, listAt, objectAt, objectsAt, omitNullish, textAt } from "../fields.ts";
import { nothingToSend, sendableHistory } from "../history.ts";
import {
  choiceWithoutTools,
  foreignTool,
  inMessage,
  isForced,
  noSchemaOutput,
  removedField,
  unsupported,
} from "../omission.ts";
import { formatSchema, parametersSchema } from "../openai-schemas.ts";
import { callerFields, mergeFields, optionsFor, withOptions } from "../provider-options.ts";
import { clientCallName } from "../provider-tools.ts";
import { sendableResult } from "../result-parts.ts";
import { SentHistories } from "../sent-history.ts";
import { encodeMedia } from "./media.ts";

/**
 * One encoded message. `instructions` are joined with their neighbours; `answer` is a tool result. `omissions` has
 * paths relative to the message.
 */
type EncodedMessage = { readonly omissions: readonly Omission[] } & (
  | { readonly type: "instructions"; readonly text: string }
  | { readonly type: "message"; readonly wire: JsonObject }
  | { readonly type: "nothing" }
  | { readonly type: "answer"; readonly wire: JsonObject; readonly attachments: readonly JsonObject[] }
);

/**
 * Fields of messages and calls that are not part of the API and that servers require back: signatures of Gemini
 * (`extra_content`), the encrypted reasoning of GitHub Copilot (`reasoning_opaque`), and the signatures that LiteLLM
 * passes on (`thinking_blocks`, `provider_specific_fields`).
 */
const replayedFields = ["extra_content", "provider_specific_fields", "reasoning_opaque", "thinking_blocks"];

// The encoded forms of each message, by route and quirks.
const encodedMessages = new WeakMap<Message, Map<string, EncodedMessage>>();

/** Encodes a request. Throws `AdapterError` for media that cannot be sent and for a request without content. */
export function encode(request: ModelRequest, context: WireContext): EncodedRequest {
  const { quirks, route } = context;
  const { messages, omissions } = encodeMessages(request, context);
  const options = callerFields(request, route);
  if (messages.length === 0 && options["messages"] === undefined) throw nothingToSend(route);
  const settings = encodeSettings(request, context);
  const fields = { model: route.model, messages, ...settings.fields };
  const forbiddenFields = new Set(quirks.without);
  const allowedFields = Object.fromEntries(Object.entries(fields).filter(([key]) => !forbiddenFields.has(key)));
  const removedFields = Object.keys(fields).filter((key) => forbiddenFields.has(key));
  const body = mergeFields(allowedFields, options);
  // A schema of the caller replaces the encoded one, and its fields stay as the caller wrote them.
  const isOwnFormat = schemaIn(body) === schemaIn(settings.fields);
  const isOwnTools = body["tools"] === settings.fields["tools"];
  // Servers refuse `stream_options` if `stream` is not `true`, which `options` can set.
  const { stream_options: _, ...unstreamed } = body;
  return {
    path: "/chat/completions",
    body: body["stream"] === true || options["stream_options"] !== undefined ? body : unstreamed,
    headers: {},
    omissions: [...omissions, ...settings.omissions, ...removedFields.map(removedField)],
    ...addedNullsField(isOwnFormat ? settings.output : null, isOwnTools ? settings.tools : []),
  };
}

/** The schema of the structured output in a body. */
function schemaIn(body: JsonObject): Json | undefined {
  return objectAt(objectAt(body, "response_format"), "json_schema")?.["schema"];
}

/** Encoded fields of the body, and what they leave out. */
type Settings = { readonly fields: JsonObject; readonly omissions: readonly Omission[] };

/**
 * Where the schemas made fields nullable (`added-nulls.ts`): in the structured output, and in the parameters of tools.
 */
type Output = { readonly output: JsonObject | null };
type Tools = { readonly tools: readonly (readonly [name: string, addedNulls: JsonObject | null])[] };

/** Encodes everything except the messages. */
function encodeSettings(request: ModelRequest, context: WireContext): Settings & Output & Tools {
  const { quirks } = context;
  const { reasoning, promptCache, stopSequences, maxTokens } = request;
  const tools = encodeTools(request, context);
  const format = encodeFormat(request, context);
  const hasTools = tools.fields["tools"] !== undefined;
  const noBudget = "Chat Completions has no token budget for reasoning; set reasoning.effort";
  const noSummary = "Chat Completions has no reasoning summaries";
  const omissions = [
    ...(reasoning !== null && reasoning.budgetTokens !== null ? [unsupported("reasoning.budgetTokens", noBudget)] : []),
    ...(reasoning !== null && reasoning.summary !== null ? [unsupported("reasoning.summary", noSummary)] : []),
    ...(request.compactAt === undefined ? [] : [unsupported("compactAt", "Chat Completions has no compaction")]),
    ...(!hasTools && isForced(request) ? [choiceWithoutTools] : []),
  ];
  const fields = omitNullish({
    stream: true,
    stream_options: quirks.streamUsage === false ? null : { include_usage: true },
    [quirks.maxTokensField ?? "max_completion_tokens"]: maxTokens,
    temperature: request.temperature,
    top_p: request.topP,
    stop: stopSequences.length === 0 ? null : stopSequences,
    [quirks.seedField ?? "seed"]: request.seed,
    reasoning_effort: reasoning?.effort ?? null,
    prompt_cache_key: promptCache === null ? null : (promptCache.key ?? request.scope?.sessionId ?? null),
    prompt_cache_retention: promptCache?.retention === "long" ? "24h" : null,
    parallel_tool_calls: hasTools ? request.parallelToolCalls : null,
  });
  return {
    fields: { ...fields, ...tools.fields, ...format.fields },
    omissions: [...tools.omissions, ...format.omissions, ...omissions],
    output: format.output,
    tools: tools.tools,
  };
}

/**
 * Function tools, then custom tools and tools that the server runs (`type` is their name). Tools of other providers are
 * omitted, and those whose calls only the Responses API has.
 */
function encodeTools(
  { tools, providerTools, toolChoice }: ModelRequest,
  { route, quirks }: WireContext,
): Settings & Tools {
  const hostedTools = providerTools.filter((tool) => tool.provider === route.provider && !isResponsesTool(tool));
  const functions = tools.map((tool, index) =>
    encodeTool(tool, index, quirks.strict !== false, optionsFor(tool, route)),
  );
  const all = [...functions.map(({ wire }) => wire), ...hostedTools.map(encodeProviderTool)];
  const addedNulls = functions.map(({ sent }, index) => [tools[index]?.name ?? "", sent.addedNulls] as const);
  const hostedOmissions = providerTools.flatMap((tool, index): Omission[] => {
    if (tool.provider !== route.provider) return [foreignTool(index, tool.provider)];
    const why = `Chat Completions has no tool ${tool.name}; use the Responses API`;
    return isResponsesTool(tool) ? [unsupported(`providerTools[${index}]`, why)] : [];
  });
  const omissions = [...functions.flatMap(({ sent }) => sent.omissions), ...hostedOmissions];
  if (all.length === 0) return { fields: {}, omissions, tools: [] };
  const choice = encodeToolChoice(toolChoice, hostedTools);
  return { fields: omitNullish({ tools: all, tool_choice: choice }), omissions, tools: addedNulls };
}

/**
 * Is this a tool of the Responses API whose calls the program runs? Chat Completions has only custom tools; servers
 * that reach MCP servers do so themselves.
 */
function isResponsesTool(tool: ProviderTool): boolean {
  return clientCallName(tool) !== null && tool.name !== "custom" && tool.name !== "mcp";
}

function encodeToolChoice(toolChoice: ToolChoice | null, providerTools: readonly ProviderTool[]): Json {
  if (toolChoice === null || typeof toolChoice === "string") return toolChoice;
  const { name } = toolChoice;
  const isCustom = providerTools.some((tool) => tool.name === "custom" && clientCallName(tool) === name);
  return isCustom ? { type: "custom", custom: { name } } : { type: "function", function: { name } };
}

/**
 * A tool that the provider defines. The definition of a custom tool is nested here and flat in the Responses API, in
 * `custom` and in `format.grammar`; both forms are accepted, so that one definition serves both APIs.
 */
function encodeProviderTool({ name, options }: ProviderTool): JsonObject {
  if (name !== "custom" || objectAt(options, "custom") !== null) return { type: name, ...options };
  const format = objectAt(options, "format");
  const isFlat = textAt(format, "type") === "grammar" && objectAt(format, "grammar") === null;
  const { type: _, ...grammar } = format ?? {};
  return {
    type: "custom",
    custom: { ...options, ...(isFlat ? { format: { type: "grammar", grammar } } : {}) },
  };
}

/**
 * One function tool. Options that a function has are sent in `function`, others beside it: OpenRouter reads
 * `cache_control` there.
 */
function encodeTool(
  tool: ToolSpec,
  index: number,
  takesStrict: boolean,
  options: JsonObject | null,
): { readonly wire: JsonObject; readonly sent: SentSchema } {
  const { name, description, metadata } = tool;
  const sent = parametersSchema(tool, index, options, takesStrict);
  const strict = takesStrict ? flagAt(metadata, "strict") : null;
  const encoded = omitNullish({ name, description, parameters: sent.schema, strict });
  const entries = Object.entries(options ?? {});
  const ofFunction = Object.fromEntries(entries.filter(([key]) => functionFields.has(key)));
  const ofTool = Object.fromEntries(entries.filter(([key]) => !functionFields.has(key)));
  // Strict mode that was asked for, and has no form of the schema.
  const isDemoted = sent.omissions.length > 0 ? { strict: false } : {};
  const wire = withOptions({ type: "function", function: { ...encoded, ...ofFunction, ...isDemoted } }, ofTool);
  return { wire, sent };
}

/** The fields of `function` in the API. */
const functionFields: ReadonlySet<string> = new Set(["name", "description", "parameters", "strict"]);

/**
 * `response_format`. A server without JSON Schema support gets `json_object`, and the schema is listed in `omissions`.
 */
function encodeFormat({ responseFormat }: ModelRequest, { quirks }: WireContext): Settings & Output {
  if (responseFormat === null || responseFormat.type === "text") return { fields: {}, omissions: [], output: null };
  const jsonObjectFormat = { response_format: { type: "json_object" } };
  if (responseFormat.type === "json_object") return { fields: jsonObjectFormat, omissions: [], output: null };
  if (quirks.jsonSchema === false) {
    const omissions = [unsupported("responseFormat.schema", noSchemaOutput)];
    return { fields: jsonObjectFormat, omissions, output: null };
  }
  const takesStrict = quirks.strict !== false;
  const { schema, strict, addedNulls, omissions } = formatSchema(responseFormat, takesStrict);
  const jsonSchema = omitNullish({ name: responseFormat.name, schema, strict: takesStrict ? strict : null });
  return {
    fields: { response_format: { type: "json_schema", json_schema: jsonSchema } },
    omissions,
    output: addedNulls,
  };
}

type Messages = { readonly messages: readonly JsonObject[]; readonly omissions: readonly Omission[] };

/**
 * Encodes the history. System messages and attachments are collected and written when a message of another kind
 * follows.
 */
function encodeMessages(request: ModelRequest, context: WireContext): Messages {
  const { route, quirks } = context;
  const { provider, endpoint, model } = route;
  const { reasoningField = null, systemRole = null, without = [], replayFields = [], audioFormats = [] } = quirks;
  const key = JSON.stringify([
    provider,
    endpoint,
    model,
    reasoningField,
    systemRole,
    without,
    replayFields,
    audioFormats,
    quirks.callIds ?? null,
  ]);
  const before = sentHistories.take(request.messages, key);
  const history = sendableHistory(request.messages, quirks.callIds, false, before);
  const omissions: Omission[] = [...history.omissions];
  const wireMessages: JsonObject[] = [];
  let instructions: string[] = [];
  let attachments: JsonObject[] = [];

  function flushPending(next: EncodedMessage["type"] | null): void {
    if (next !== "instructions" && instructions.length > 0) {
      wireMessages.push({ role: quirks.systemRole ?? "system", content: instructions.join("\n\n") });
      instructions = [];
    }
    if (next !== "answer" && attachments.length > 0) {
      wireMessages.push({ role: "user", content: attachments });
      attachments = [];
    }
  }

  for (const [at, message] of history.messages.entries()) {
    const encoded = encodeOnce(message, key, context);
    const messagePath = `messages[${history.requestIndexes[at] ?? at}]`;
    omissions.push(...encoded.omissions.map((omission) => inMessage(messagePath, omission)));
    if (encoded.type === "nothing") {
      omissions.push({ path: messagePath, reason: "repaired" });
      continue;
    }
    flushPending(encoded.type);
    if (encoded.type === "instructions") instructions.push(encoded.text);
    else wireMessages.push(encoded.wire);
    if (encoded.type === "answer") attachments.push(...encoded.attachments);
  }
  flushPending(null);
  const { messages } = request;
  const { allocateId, isClosed } = history;
  const sent = { key, messages, allocateId, isClosed, list: wireMessages, omissions, extra: null };
  const { list, omissions: allOmissions } = sentHistories.extend(before, sent);
  return { messages: list, omissions: allOmissions };
}

const sentHistories = new SentHistories<JsonObject, null>();

/** The encoded message from the cache, or encodes it. */
function encodeOnce(message: Message, key: string, context: WireContext): EncodedMessage {
  const cache = encodedMessages.get(message) ?? new Map<string, EncodedMessage>();
  const cached = cache.get(key);
  if (cached !== undefined) return cached;
  const encoded = encodeMessage(message, context);
  cache.set(key, encoded);
  encodedMessages.set(message, cache);
  return encoded;
}

/** Encodes one message. */
function encodeMessage(message: Message, context: WireContext): EncodedMessage {
  const { route, quirks } = context;
  switch (message.role) {
    case "system": {
      const text = joinedText(message.content, "\n\n");
      if (text === "") return { type: "nothing", omissions: [] };
      const options = optionsFor(message, route);
      const content = optionedContent(message.content, route);
      if (options === null && content === null) return { type: "instructions", text, omissions: [] };
      const wire = { role: quirks.systemRole ?? "system", content: content ?? text };
      return { type: "message", wire: withOptions(wire, options), omissions: [] };
    }
    case "event": {
      const text = joinedText(message.content, "\n\n");
      if (text === "") return { type: "nothing", omissions: [] };
      const wire = { role: "user", content: optionedContent(message.content, route) ?? text };
      return { type: "message", wire: withOptions(wire, optionsFor(message, route)), omissions: [] };
    }
    case "user":
      return encodeUser(message, context);
    case "assistant":
      return encodeAssistant(message, context);
    case "tool":
      return encodeToolResult(message, context);
  }
}

/**
 * Encodes a user message. `name` is sent only if it is 1 to 64 letters, digits, `_` and `-`, the form that the API
 * accepts.
 */
function encodeUser(message: UserMessage, context: WireContext): EncodedMessage {
  const { content, name } = message;
  const parts = normalizeContent(content);
  const pieces = parts
    .map((part) => (part.type === "text" ? encodeText(part, context.route) : encodeMedia(part, context)))
    .filter(isNotEmptyText);
  const [first] = pieces;
  if (first === undefined) return { type: "nothing", omissions: [] };
  const isText = pieces.length === 1 && isPlainText(first) && parts.every(({ type }) => type === "text");
  const takesName = name !== null && /^[\w-]{1,64}$/.test(name);
  const wire = omitNullish({
    role: "user",
    name: takesName ? name : null,
    content: isText ? textAt(first, "text") : pieces,
  });
  const wrongName = "the API accepts names of 1 to 64 letters, digits, _ and -";
  const omissions = name === null || takesName ? [] : [unsupported(".name", wrongName)];
  return { type: "message", wire: withOptions(wire, optionsFor(message, context.route)), omissions };
}

/** A text piece with its options. A pruned part has none. */
function encodeText(part: TextPart, route: ProviderRoute): JsonObject {
  const piece = textPiece(textOrPlaceholder(part.text, part.pruneState));
  return part.pruneState === null ? withOptions(piece, optionsFor(part, route)) : piece;
}

/** Is it a text piece without other fields? */
function isPlainText(piece: JsonObject): boolean {
  return piece["type"] === "text" && Object.keys(piece).length === 2;
}

/** Text parts as a list of pieces; `null` if none of them has options. */
function optionedContent(content: string | readonly TextPart[], route: ProviderRoute): readonly JsonObject[] | null {
  if (typeof content === "string" || content.every((part) => optionsFor(part, route) === null)) return null;
  return content.map((part) => encodeText(part, route)).filter(isNotEmptyText);
}

/** The API refuses empty text pieces. */
function isNotEmptyText(piece: JsonObject): boolean {
  return piece["type"] !== "text" || piece["text"] !== "";
}

/**
 * Encodes a tool result as text. Its images and files become attachments (invariant 3); what the API does not accept
 * becomes a note.
 */
function encodeToolResult(message: ToolMessage, context: WireContext): EncodedMessage {
  const { toolCallId, content } = message;
  const { parts, omissions } = sendableResult(content, (part) => part.type === "text" || encodeMedia(part, context));
  const texts = parts.filter((part) => part.type === "text");
  const media = parts
    .flatMap((part) => (part.type === "text" ? [] : [encodeMedia(part, context)]))
    .filter(isNotEmptyText);
  const text = joinedText(texts, "\n");
  const resultText =
    text === "" && media.length > 0 ? "The result is attached in the user message that follows." : text;
  return {
    type: "answer",
    wire: withOptions(
      { role: "tool", tool_call_id: toolCallId, content: optionedContent(texts, context.route) ?? resultText },
      optionsFor(message, context.route),
    ),
    attachments: media.length === 0 ? [] : [textPiece(`Attached to the result of ${toolCallId}:`), ...media],
    omissions,
  };
}

/** Encodes an assistant message with its replay data. */
function encodeAssistant(message: AssistantMessage, context: WireContext): EncodedMessage {
  const { route, quirks } = context;
  const forbiddenFields = new Set(quirks.without);
  const allowedFields = new Set([...replayedFields, ...(quirks.replayFields ?? [])]);
  const omissions: Omission[] = [];
  const pieces: JsonObject[] = [];
  let fields: JsonObject = {};

  /**
   * The replay data of a part for this route. Otherwise `null`, and an omission if data of another route, or required
   * data, is missing.
   */
  function replayFields(replay: ProviderReplay | null, path: string, isRequired: boolean): JsonObject | null {
    const verdict = replayFor(replay, route);
    if (verdict.type === "foreign_route") omissions.push({ path, reason: "foreign_replay" });
    if (verdict.type === "none" && isRequired) omissions.push({ path, reason: "unsupported" });
    return verdict.type === "replay" ? asObject(verdict.data) : null;
  }
  /** The unknown fields of a message or a call that are sent back (invariant 4). */
  function unknownFields(data: JsonObject | null, path: string): JsonObject {
    const entries = Object.entries(objectAt(data, "fields") ?? {});
    const allowedEntries = entries.filter(([key]) => allowedFields.has(key));
    if (allowedEntries.length < entries.length) omissions.push({ path, reason: "unsupported" });
    return Object.fromEntries(allowedEntries);
  }
  function addFields(addedFields: JsonObject | null): void {
    const allowedEntries = Object.entries(addedFields ?? {}).filter(([key]) => !forbiddenFields.has(key));
    fields = { ...fields, ...Object.fromEntries(allowedEntries) };
  }

  for (const [index, part] of normalizeContent(message.content).entries()) {
    const path = `.content[${index}]`;
    switch (part.type) {
      case "text": {
        const data = replayFields(part.provider, path, false);
        const text = textOrPlaceholder(part.text, part.pruneState);
        const audio = objectAt(data, "audio");
        if (audio !== null) addFields({ audio });
        else if (flagAt(data, "refusal") === true) pieces.push({ type: "refusal", refusal: text });
        else if (text !== "") pieces.push(encodeText(part, route));
        break;
      }
      case "reasoning": {
        const data = replayFields(part.provider, path, true);
        const field = textAt(data, "field");
        const details = listAt(data, "details");
        if (flagAt(data, "thinking") === true) {
          pieces.push({ type: "thinking", thinking: [textPiece(part.text)] });
        } else if (details.length > 0) {
          addFields({ reasoning_details: [...listAt(fields, "reasoning_details"), ...details] });
        } else if (field !== null) {
          addFields({ [field]: (textAt(fields, field) ?? "") + part.text });
        }
        break;
      }
      case "opaque": {
        const data = replayFields(part.provider, path, true);
        pieces.push(...objectsAt(data, "content"));
        addFields(unknownFields(data, path));
        break;
      }
      case "tool_call":
        // The API has no place for a call inside the content. Servers that run tools do not accept their calls and
        // results back.
        if (part.providerExecuted !== null) replayFields(part.providerExecuted.provider, path, true);
        break;
      case "tool_result":
        replayFields(part.provider, path, true);
        break;
      case "image":
      case "file":
        omissions.push(
          unsupported(
            path,
            "Chat Completions accepts no images and files in replies of the model; send them in a user message",
          ),
        );
        break;
    }
  }
  const calls = message.toolCalls.map((call, index) => {
    const path = `.toolCalls[${index}]`;
    if (call.arguments === null) omissions.push({ path, reason: "repaired" });
    const data = replayFields(call.provider, path, false);
    const encoded = { ...unknownFields(data, path), ...encodeCall(call, flagAt(data, "custom") === true) };
    return withOptions(encoded, optionsFor(call, route));
  });
  // Servers with `reasoning_content` (DeepSeek) require the field in every assistant message with calls, also in those
  // of another model.
  const field = quirks.reasoningField;
  if (calls.length > 0 && field === "reasoning_content" && !forbiddenFields.has(field))
    fields = { [field]: "", ...fields };
  if (pieces.length === 0 && calls.length === 0 && Object.keys(fields).length === 0)
    return { type: "nothing", omissions };
  const hasOtherFields = calls.length > 0 || fields["audio"] !== undefined;
  const wire = {
    role: "assistant",
    content: contentOf(pieces, hasOtherFields),
    ...fields,
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
  return { type: "message", wire: withOptions(wire, optionsFor(message, route)), omissions };
}

/** `content`: a string if all pieces are text, a list otherwise; `null` if there are only calls or audio. */
function contentOf(pieces: readonly JsonObject[], hasOtherFields: boolean): Json {
  if (pieces.length === 0) return hasOtherFields ? null : "";
  return pieces.every(isPlainText) ? pieces.map((piece) => textAt(piece, "text") ?? "").join("") : pieces;
}

/** Encodes a call. `keepsRawText`: the arguments are sent as the model wrote them (invariant 5). */
function encodeCall({ id, name, arguments: parsedArguments, rawArguments }: ToolCall, isCustom: boolean): JsonObject {
  if (isCustom) {
    return { id, type: "custom", custom: { name, input: textAt(parsedArguments, "input") ?? "" } };
  }
  const keepsRawText = parsedArguments !== null && rawArguments !== null && rawArguments.trim() !== "";
  const text = keepsRawText ? rawArguments : JSON.stringify(parsedArguments ?? {});
  return { id, type: "function", function: { name, arguments: text } };
}

function textPiece(text: string): JsonObject {
  return { type: "text", text };
}

function joinedText(content: Extract<Message, { readonly role: "system" }>["content"], separator: string): string {
  return normalizeContent(content)
    .map(({ text, pruneState }) => textOrPlaceholder(text, pruneState))
    .filter((text) => text !== "")
    .join(separator);
}
