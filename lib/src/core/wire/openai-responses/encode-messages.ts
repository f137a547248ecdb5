// Encodes the history of a request for the OpenAI Responses API: messages become input items and `instructions`.
//
// Invariants
//   1. Items of the same route are sent back unchanged (W4). If a reasoning item of a reply cannot be sent back, the
//      items after it, up to the next reasoning, cannot be sent back as they are: the API refuses an item with a known
//      id whose reasoning is missing ("was provided without its required 'reasoning' item"). Messages and calls are
//      sent without their item ids; calls that need an id are sent as function calls; items of tools that the provider
//      ran are omitted. With `store: true` the API also refuses reasoning if the next item is not the one that it has
//      stored ("was provided without its required following item"), so messages after reasoning are sent with their
//      ids, and reasoning before an item without an id is omitted. With `store: false` it does not compare items with
//      stored ones, and messages are sent without ids.
//   2. System messages at the start become `instructions`; later ones stay in their place with the role `developer`.
//      From the first system message with provider options on they are `developer` items too, because `instructions` is
//      one text without other fields.
//   3. The encoded form of a message is cached by message identity, route, `store` and role.
//   4. Empty text is not sent. A message with no other content is not sent and is listed in `omissions` as `repaired`.
//   5. Provider options of a part, a call or a tool are fields of its object; those of a message are fields of its
//      message items, or of its output item.
//   6. Audio of tool results follows in one user message after the last result of the reply, because outputs of calls
//      take none.

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

import { messageText, normalizeContent, replayFor, textOrPlaceholder } from "../../model/internal.ts";
import { asObject, listAt, omitNullish, textAt } from "../fields.ts";
import { sendableHistory } from "../history.ts";
import { authorName, inMessage, unsupported } from "../omission.ts";
import { optionsFor, withOptions } from "../provider-options.ts";
import { requestError } from "../request-error.ts";
import { sendableResult } from "../result-parts.ts";
import { SentHistories } from "../sent-history.ts";
import { clientCallOf } from "./client-calls.ts";
import { encodePart, inputText, isAudio, isNotEmptyText, isReadableAudio } from "./encode-parts.ts";
import { resultField } from "./items.ts";
import { storedReplyKind } from "./stored-history.ts";

/** Longest `prompt_cache_key`, and longest `call_id`, that the API accepts, in characters. */
export const maxKeyLength = 64;

/** The input items of one message. Paths in `omissions` are relative to the message. */
type EncodedMessage = { readonly items: readonly JsonObject[]; readonly omissions: readonly Omission[] };

type TextOfReply = Extract<AssistantPart, { readonly type: "text" }>;

/** What the encoding of a message depends on besides the message. `key` identifies it in the cache. */
type EncodeTarget = {
  readonly context: WireContext;
  /** The provider stores responses (`store: true`) and resolves items by their ids. */
  readonly stores: boolean;
  /** The provider continues a stored conversation, which may hold the calls that the results of the request answer. */
  readonly hasStoredHistory: boolean;
  /**
   * How many messages of the request the provider has stored. They are not sent, except as `instructions`, which apply
   * to one request only.
   */
  readonly storedCount: number;
  readonly key: string;
  /** Ids of calls of provider tools that are sent as function calls. */
  readonly demoted: ReadonlySet<string>;
};

/** Encodes the history into `input` and `instructions`. */
export function encodeMessages(
  messages: readonly Message[],
  target: EncodeTarget,
): {
  readonly input: readonly JsonObject[];
  readonly instructions: string | null;
  readonly omissions: readonly Omission[];
} {
  const { quirks } = target.context;
  const callIds = quirks.callIds ?? { maxLength: maxKeyLength, pattern: "any" };
  const before = target.hasStoredHistory ? null : sentHistories.take(messages, target.key);
  const history = sendableHistory(messages, callIds, target.hasStoredHistory, before);
  const omissions: Omission[] = [...history.omissions];
  const firstNonSystem = history.messages.findIndex(
    (message) => message.role !== "system" || hasOptions(message, target.context.route),
  );
  const atStart = firstNonSystem === -1 ? history.messages.length : firstNonSystem;
  const firstInputIndex = before === null ? atStart : 0;
  const texts = history.messages.slice(0, firstInputIndex).map(messageText);
  const instructions = before?.extra ?? texts.filter((text) => text !== "").join("\n\n");
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
  const { allocateId, isClosed } = history;
  const sent = { key: target.key, messages, allocateId, list: input, omissions, extra: instructions };
  const all = sentHistories.extend(before, { ...sent, isClosed: isClosed && !target.hasStoredHistory });
  return { input: all.list, instructions: instructions === "" ? null : instructions, omissions: all.omissions };
}

/** With the instructions of the history. */
const sentHistories = new SentHistories<JsonObject, string>();

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
      return encodeToolResult(message, target.context);
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

/**
 * The audio of a tool message, as parts of the user message that follows the results: outputs of calls take none
 * (`isAudio`).
 */
function audioOf(message: ToolMessage, context: WireContext): readonly JsonObject[] {
  const audio = normalizeContent<UserPart>(message.content).filter((part) => isAudio(part) && isReadableAudio(part));
  if (audio.length === 0) return [];
  return [
    inputText(`Attached to the result of ${message.toolCallId}:`),
    ...audio.map((part) => encodePart(part, context)),
  ];
}

/** The output item of a tool message. {@link forCall} adds what depends on the call. */
function encodeToolResult(message: ToolMessage, context: WireContext): EncodedMessage {
  const { parts: allParts, omissions } = sendableResult(message.content, (part) => encodeResultPart(part, context));
  const parts = allParts.filter((part) => !isAudio(part));
  const texts = parts.flatMap((part) => (part.type === "text" ? [textOrPlaceholder(part.text, part.pruneState)] : []));
  const pieces = parts.map((part) => encodePart(part, context)).filter(isNotEmptyText);
  const isText = texts.length === parts.length && parts.every((part) => optionsFor(part, context.route) === null);
  const isAttached = parts.length < allParts.length && pieces.length === 0;
  const text = isAttached ? "The result is attached in the user message that follows." : texts.join("\n");
  const output = isText || pieces.length === 0 ? text : pieces;
  const item = { type: "function_call_output", call_id: message.toolCallId, output };
  return { items: [withOptions(item, optionsFor(message, context.route))], omissions };
}

/**
 * A part of a tool result. Audio by URL or by id is refused: outputs of calls take no audio, and messages take it
 * inline only.
 */
function encodeResultPart(part: UserPart, context: WireContext): JsonObject {
  if (!isAudio(part) || isReadableAudio(part)) return encodePart(part, context);
  throw requestError(`the Responses API reads WAV and MP3 audio; this is ${part.mimeType}`, context.route);
}

/**
 * The calls of provider tools that have to be sent as function calls: the API cannot express the answer (a computer
 * call without a screenshot), or it requires the id of the item and the reasoning before it is missing (invariant 1).
 */
function demotedCalls(
  message: AssistantMessage,
  messages: readonly Message[],
  at: number,
  target: EncodeTarget,
): ReadonlySet<string> {
  const { context } = target;
  const clientCalls = message.toolCalls.flatMap((call) => {
    const item = replayFields(call.provider, context);
    const client = clientCallOf(item);
    return client === null || item === null ? [] : [{ call, client, item }];
  });
  if (clientCalls.length === 0) return new Set();
  const imageFields = (part: UserPart) => screenshotFields(part, context);
  const unanswered = clientCalls.filter(({ call, client, item }) => {
    const answer = messages.slice(at + 1, at + 1 + message.toolCalls.length).find((next) => isAnswerTo(next, call));
    if (answer?.role !== "tool") return true;
    return client.outputOf({ call, message: answer, item, imageFields }) === null;
  });
  const demoted = new Set(unanswered.map(({ call }) => call.id));
  const parts = normalizeContent<AssistantPart>(message.content);
  const reasoning = sentReasoning(message, { ...target, demoted });
  const needy = clientCalls.filter(({ call, client }) => {
    const place = parts.findIndex((part) => part.type === "tool_call" && part.toolCallId === call.id);
    return client.needsId && reasoning.before(place === -1 ? parts.length : place) === "lost";
  });
  return new Set([...demoted, ...needy.map(({ call }) => call.id)]);
}

function isAnswerTo(message: Message, { id }: ToolCall): boolean {
  return message.role === "tool" && message.toolCallId === id;
}

/** The source of a screenshot: the fields of an input image without its type and detail. */
function screenshotFields(part: UserPart, context: WireContext): JsonObject {
  const { type: _, detail: __, ...source } = encodePart(part, context);
  return source;
}

/** Which reasoning of a reply is sent back (invariant 1). */
type SentReasoning = {
  /**
   * Why the reasoning part at this index is not sent: the provider cannot read it, or the item after it has no id.
   * `null`: it is sent.
   */
  readonly lossAt: (at: number) => "unreadable" | "unpaired" | null;
  /** The last reasoning before this index: there is none, it is sent, or it is lost. */
  readonly before: (at: number) => "none" | "sent" | "lost";
};

function sentReasoning(message: AssistantMessage, { context, stores, demoted }: EncodeTarget): SentReasoning {
  const parts = normalizeContent<AssistantPart>(message.content);
  const losses = new Map<number, "unreadable" | "unpaired">();
  /** Is the next item that is sent a stored one, with its id? */
  let isPaired = true;
  for (const [at, part] of [...parts.entries()].toReversed()) {
    switch (part.type) {
      case "reasoning":
        if (part.provider === null) break;
        if (!canReturn(replayFields(part.provider, context), stores)) losses.set(at, "unreadable");
        else if (stores && !isPaired) losses.set(at, "unpaired");
        else isPaired = true;
        break;
      case "text":
        if (textOrPlaceholder(part.text, part.pruneState) !== "") isPaired = messageIdOf(part, context) !== null;
        break;
      case "tool_call": {
        const call = message.toolCalls.find(({ id }) => id === part.toolCallId);
        const item = call === undefined || demoted.has(call.id) ? null : replayFields(call.provider, context);
        isPaired = part.providerExecuted !== null || textAt(item, "id") !== null;
        break;
      }
      case "opaque":
        isPaired = isPaired || part.kind !== storedReplyKind;
        break;
      case "tool_result":
      case "image":
        isPaired = true;
        break;
      case "file":
        break;
    }
  }
  const before: ("none" | "sent" | "lost")[] = ["none"];
  for (const [at, part] of parts.entries()) {
    const isOwn = part.type === "reasoning" && part.provider !== null;
    before.push(isOwn ? (losses.has(at) ? "lost" : "sent") : (before[at] ?? "none"));
  }
  return { lossAt: (at) => losses.get(at) ?? null, before: (at) => before[at] ?? "none" };
}

/** The id of the message item that a text belongs to; `null`: it is unknown, or of another route. */
function messageIdOf(part: TextOfReply, context: WireContext): string | null {
  return textAt(replayFields(part.provider, context), "id");
}

/**
 * Adapts an output item to its call: a provider tool has its own output item, a custom tool another item type, and a
 * call that code made needs its `caller` in the output. Text beside a screenshot, for which the API has no field,
 * becomes a message.
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
  const reasoning = sentReasoning(message, target);
  const items: JsonObject[] = [];
  const parts = normalizeContent<AssistantPart>(message.content);
  const messageOptions = optionsFor(message, context.route);
  const unplacedCalls = [...message.toolCalls];
  const placeCall = (toolCall: ToolCall, at: number): void => {
    if (replayFor(toolCall.provider, context.route).type === "foreign_route")
      omissions.push({ path: `.toolCalls[${message.toolCalls.indexOf(toolCall)}]`, reason: "foreign_replay" });
    const data = demoted.has(toolCall.id) ? null : replayFields(toolCall.provider, context);
    const item = encodeCall(toolCall, data, { reasoning: reasoning.before(at), stores });
    items.push(withOptions(item, optionsFor(toolCall, context.route)));
  };
  for (const [at, part] of parts.entries()) {
    const path = `.content[${at}]`;
    switch (part.type) {
      case "text":
        if (replayFor(part.provider, context.route).type === "foreign_route")
          omissions.push({ path, reason: "foreign_replay" });
        placeText(part, at);
        break;
      case "tool_call":
        if (part.providerExecuted === null) {
          const callIndex = unplacedCalls.findIndex(({ id }) => id === part.toolCallId);
          unplacedCalls.splice(Math.max(callIndex, 0), 1).forEach((call) => placeCall(call, at));
        } else if (part.providerExecuted.provider !== null) {
          placeReplayed(part.providerExecuted.provider, at);
        }
        break;
      case "tool_result":
        // The image part that follows holds the item of a generated image.
        if (part.provider === null && parts.some((other) => isImageOf(other, part.toolCallId))) break;
        placeReplayed(part.provider, at, part.pruneState === null ? part.content : null);
        break;
      case "opaque":
        if (part.kind !== storedReplyKind) placeReplayed(part.provider, at);
        break;
      case "reasoning":
        placeReplayed(part.provider, at);
        break;
      case "image":
        if (part.pruneState !== null) {
          omissions.push({ path, reason: "repaired" });
          break;
        }
        if (replayFields(part.provider, context) !== null && part.image.source.type === "base64") {
          placeReplayed(part.provider, at, part.image.source.data);
          break;
        }
        omissions.push(unsupported(path, noReplyMedia));
        break;
      case "file":
        omissions.push(unsupported(path, noReplyMedia));
        break;
    }
  }
  for (const call of unplacedCalls) placeCall(call, parts.length);
  // The API refuses a reasoning item without a following item.
  while (items.at(-1)?.["type"] === "reasoning") {
    items.pop();
    omissions.push({ path: "", reason: "repaired" });
  }
  return { items, omissions };

  /** Adds a text as a message item. Texts of one stored item are one item, because the API refuses a repeated id. */
  function placeText(part: TextOfReply, at: number): void {
    const content = encodeText(part, context.route);
    if (content === null) return;
    const data = stores && reasoning.before(at) === "sent" ? replayFields(part.provider, context) : null;
    const id = textAt(data, "id");
    const last = items.at(-1);
    if (id !== null && last !== undefined && last["id"] === id) {
      items.splice(-1, 1, { ...last, content: [...listAt(last, "content"), content] });
      return;
    }
    const isRepeated = id !== null && items.some((item) => item["id"] === id);
    const stored = isRepeated ? {} : { id, status: data?.["status"] };
    const item = {
      type: "message",
      role: "assistant",
      content: [content],
      ...omitNullish({ ...stored, phase: part.phase }),
    };
    items.push(withOptions(item, messageOptions));
  }

  /**
   * Adds an item of this route unchanged. `result` fills the field that `tool_result` parts hold outside their replay
   * data.
   */
  function placeReplayed(replay: ProviderReplay | null, at: number, result?: Json): void {
    const path = `.content[${at}]`;
    const data = replayFields(replay, context);
    const loss = reasoning.lossAt(at);
    if (data === null) {
      omissions.push({ path, reason: replay === null ? "unsupported" : "foreign_replay" });
    } else if (loss === "unreadable") {
      omissions.push({ path, reason: "unsupported" });
    } else if (loss === "unpaired") {
      const text = `${path} is not sent: with store: true the API accepts reasoning only before the item that followed it, and that item has no id here`;
      omissions.push({ path, reason: "repaired", message: text });
    } else if (reasoning.before(at) === "lost" && isProviderRun(textAt(data, "type"))) {
      const text = `${path} is not sent: it depends on reasoning that is not sent`;
      omissions.push({ path, reason: "repaired", message: text });
    } else {
      const field = resultField(textAt(data, "type"));
      // The API returns `status` in reasoning items and refuses it in the input.
      const { status: _, ...withoutStatus } = data;
      if (textAt(data, "type") === "reasoning") items.push(withoutStatus);
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

/**
 * Is this the type of a call that the provider ran, or of its output? Other items, such as `compaction`, do not depend
 * on reasoning.
 */
function isProviderRun(type: string | null): boolean {
  return type?.endsWith("_call") === true || type?.endsWith("_output") === true;
}

/** Can the reasoning item be sent back? Only with encrypted content, or by its id if the provider stores it. */
function canReturn(item: JsonObject | null, stores: boolean): boolean {
  return item !== null && (stores || textAt(item, "encrypted_content") !== null);
}

/** The content of a message item with the text or refusal; `null`: the text is empty. */
function encodeText(part: TextOfReply, route: ProviderRoute): JsonObject | null {
  const text = textOrPlaceholder(part.text, part.pruneState);
  if (text === "") return null;
  const content =
    part.kind === "refusal" ? { type: "refusal", refusal: text } : { type: "output_text", text, annotations: [] };
  return withOptions(content, part.pruneState === null ? optionsFor(part, route) : null);
}

/** The item of a call. Arguments are sent as the model wrote them, also if they are no JSON object. */
function encodeCall(
  call: ToolCall,
  data: JsonObject | null,
  { reasoning, stores }: { readonly reasoning: "none" | "sent" | "lost"; readonly stores: boolean },
): JsonObject {
  const { id: itemId, ...itemFields } = data ?? {};
  const fields = omitNullish({ ...itemFields, id: reasoning === "lost" ? null : itemId });
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
  // The id refers to an item that the provider stores, that reasoning belongs to, or that code has called. Otherwise it
  // says nothing, and neither does the status, and both would be sent again in every step of a loop.
  const { id: _, status: __, type: ___, ...ownFields } = fields;
  const isBare = !stores && reasoning === "none" && Object.keys(ownFields).length === 0;
  return {
    ...(isBare ? {} : fields),
    type: "function_call",
    call_id: call.id,
    name: call.name,
    arguments: argumentsText === "" ? "{}" : argumentsText,
  };
}
