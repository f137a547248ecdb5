// Encodes the history of a request for the OpenAI Responses API: messages become input items and `instructions`.
//
// Invariants
//   1. Items of the same route are sent back unchanged (W4). If a reasoning item of a reply cannot be sent back, the items that depend on it cannot be sent back as they are:
//      the API refuses an item with a known id whose reasoning is missing ("was provided without its required 'reasoning' item"). Calls are sent without their item ids;
//      calls that need an id are sent as function calls; items of tools that the provider ran are omitted.
//   2. System messages at the start become `instructions`; later ones stay in their place with the role `developer`. From the first system message with provider
//      options on they are `developer` items too, because `instructions` is one text without other fields.
//   3. The encoded form of a message is cached by message identity, route, `store` and role.
//   4. Empty text is not sent. A message with no other content is not sent and is listed in `omissions` as `repaired`.
//   5. Provider options of a part, a call or a tool are fields of its object; those of a message are fields of its message items, or of its output item.
//   6. Audio of tool results follows in one user message after the last result of the reply, because outputs of calls take none.

import type {
  AssistantMessage,
  AssistantPart,
  Json,
  JsonObject,
  Message,
  ProviderReplay,
  ProviderRoute,
  ToolCall,
  ToolMessage,
  UserPart,
} from "../../model/internal.ts";
import type { Omission, WireContext } from "../codec.ts";

import { messageText, normalizeContent, replayFor, textOrPlaceholder, textPart } from "../../model/internal.ts";
import { asObject, omitNullish, textAt } from "../fields.ts";
import { sendableHistory } from "../history.ts";
import { authorName, inMessage, unsupported } from "../omission.ts";
import { optionsFor, withOptions } from "../provider-options.ts";
import { clientCallOf } from "./client-calls.ts";
import { encodePart, inputText, isAudio, isNotEmptyText, isReadableAudio } from "./encode-parts.ts";
import { resultField } from "./items.ts";
import { storedReplyKind } from "./stored-history.ts";

/** Longest `prompt_cache_key`, and longest `call_id`, that the API accepts, in characters. */
export const maxKeyLength = 64;

/** The input items of one message. Paths in `omissions` are relative to the message. */
type EncodedMessage = { readonly items: readonly JsonObject[]; readonly omissions: readonly Omission[] };

/** What the encoding of a message depends on besides the message. `key` identifies it in the cache. */
type EncodeTarget = {
  readonly context: WireContext;
  /** The provider stores responses (`store: true`) and resolves items by their ids. */
  readonly stores: boolean;
  /** The provider continues a stored conversation, which may hold the calls that the results of the request answer. */
  readonly hasStoredHistory: boolean;
  /** How many messages of the request the provider has stored. They are not sent, except as `instructions`, which apply to one request only. */
  readonly storedCount: number;
  readonly key: string;
  /** Ids of calls of provider tools that are sent as function calls. */
  readonly demoted: ReadonlySet<string>;
};

/** Encodes the history into `input` and `instructions`. */
export function encodeMessages(
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
  /** Audio of the results so far. It follows the last result (invariant 6). */
  let attachments: JsonObject[] = [];
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
    const index = history.requestIndexes[at] ?? at;
    // A placeholder has the index of its reply. The provider waits for the results of the newest one.
    const isAwaited = message.role === "tool" && index === target.storedCount - 1;
    if (index < target.storedCount && !isAwaited) continue;
    const encoded = encodeOnce(message, messageTarget);
    omissions.push(...encoded.omissions.map((omission) => inMessage(path, omission)));
    if (encoded.items.length === 0 && encoded.omissions.every(({ path: innerPath }) => innerPath !== ""))
      omissions.push({ path, reason: "repaired" });
    if (message.role !== "tool") {
      input.push(...encoded.items);
      continue;
    }
    input.push(...encoded.items.flatMap((item) => forCall(item, message, calls, { ...target, demoted })));
    attachments.push(...audioOf(message, target.context));
    if (attachments.length === 0 || history.messages[at + 1]?.role === "tool") continue;
    input.push({ type: "message", role: "user", content: attachments });
    attachments = [];
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
      return {
        items: [encodeToolResult(message, target.context)],
        omissions: normalizeContent<UserPart>(message.content).flatMap((part, at) =>
          isAudio(part) && !isReadableAudio(part)
            ? [unsupported(`.content[${at}]`, `the Responses API reads WAV and MP3 audio; this is ${part.mimeType}`)]
            : [],
        ),
      };
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

/** The audio of a tool message, as parts of the user message that follows the results: outputs of calls take none (`isAudio`). */
function audioOf(message: ToolMessage, context: WireContext): readonly JsonObject[] {
  const audio = normalizeContent<UserPart>(message.content).filter((part) => isAudio(part) && isReadableAudio(part));
  if (audio.length === 0) return [];
  return [
    inputText(`Attached to the result of ${message.toolCallId}:`),
    ...audio.map((part) => encodePart(part, context)),
  ];
}

/** The output item of a tool message. {@link forCall} adds what depends on the call. */
function encodeToolResult(message: ToolMessage, context: WireContext): JsonObject {
  const allParts = normalizeContent<UserPart>(message.content);
  const parts = allParts.flatMap((part): readonly UserPart[] => {
    if (!isAudio(part)) return [part];
    const missing = `[Audio of the type ${part.mimeType}, which this API does not read]`;
    return isReadableAudio(part) ? [] : [textPart(missing)];
  });
  const texts = parts.flatMap((part) => (part.type === "text" ? [textOrPlaceholder(part.text, part.pruneState)] : []));
  const pieces = parts.map((part) => encodePart(part, context)).filter(isNotEmptyText);
  const isText = texts.length === parts.length && parts.every((part) => optionsFor(part, context.route) === null);
  const isAttached = parts.length < allParts.length && pieces.length === 0;
  const text = isAttached ? "The result is attached in the user message that follows." : texts.join("\n");
  const output = isText || pieces.length === 0 ? text : pieces;
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
      case "opaque":
        if (part.kind !== storedReplyKind) placeReplayed(part.provider, path);
        break;
      case "reasoning":
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
  const text = textOrPlaceholder(part.text, part.pruneState);
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
