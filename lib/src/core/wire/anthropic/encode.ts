// Encodes the messages of a request for Anthropic's Messages API.
//
// Invariants
//   1. User and assistant messages alternate: consecutive messages of one role become one. `sendableHistory` places the
//      tool results directly after the calls, so `tool_result` blocks come first in the user message, as the API
//      requires.
//   2. The API refuses blank text blocks: they are not sent. A message with no other block is not sent and is listed in
//      `omissions` as `repaired`.
//   3. `thinking` and `redacted_thinking` blocks are sent back unchanged, in their place, because they are signed (W4;
//      fixtures/wire/anthropic-messages/reasoning). Reasoning of another route is not sent. A `server_tool_use` block
//      is sent only together with its result block (provider-tool), which may be in a later reply, and without one only
//      while the provider still runs the call: in the last reply, also if results of the program's own calls, and then
//      input, follow.
//   4. The encoded form of a message is cached by message identity, for the route it was last sent by.
//   5. Provider options of a part, a call or a tool message are merged into their block. The API has no other fields on
//      a message than `role` and `content`, so options of any other message are merged into its last block that is not
//      thinking. Pruned parts are sent without options.
//   6. System messages before the first other message are the field `system`. A later one stays in its place if the
//      model and the API accept it there (`system-messages.ts`). Otherwise it is sent after the user message that
//      follows it, or in `system`, and is reported. A note of the runtime (a system message with an origin) is sent in
//      its place as a user message instead, because it makes sense only there: the result of a code cell.
//   7. The `container` of the newest reply with one is a field of the request (`lastContainer`).
//   8. A call of a toolset is sent under the name of its member, without the argument `action`, and its result repeats
//      `toolset_name`.

import type {
  AssistantMessage,
  AssistantPart,
  JsonObject,
  Message,
  ProviderRoute,
  ToolCall,
  ToolMessage,
  UserPart,
} from "../../model/internal.ts";
import type { Omission, WireContext } from "../codec.ts";
import type { SendableHistory } from "../history.ts";
import type { SentHistory } from "../sent-history.ts";

import { replayFor, textOrPlaceholder } from "../../model/internal.ts";
import { asObject, objectAt, omitNullish, textAt } from "../fields.ts";
import { nothingToSend, sendableHistory } from "../history.ts";
import { authorName, inMessage, unsupported } from "../omission.ts";
import { optionsFor, withOptions } from "../provider-options.ts";
import { sendableResult } from "../result-parts.ts";
import { SentHistories } from "../sent-history.ts";
import { mediaBlock } from "./media.ts";
import { movedLater, movedToStart, systemBlocks, takesSystemMessages } from "./system-messages.ts";

/** Ids of `tool_use` blocks that the API accepts. */
const defaultCallIds = { maxLength: 64, pattern: "alphanumeric" } as const;

/** The content blocks of one message. Paths in `omissions` are relative to the message. */
type EncodedMessage = {
  readonly role: "user" | "assistant";
  readonly blocks: readonly JsonObject[];
  readonly omissions: readonly Omission[];
};

/** One element of `messages`. */
export type WireMessage = { readonly role: EncodedMessage["role"] | "system"; readonly content: readonly JsonObject[] };

/** The fields `system` and `messages`. */
type EncodedHistory = {
  readonly system: readonly JsonObject[];
  readonly messages: readonly WireMessage[];
  readonly omissions: readonly Omission[];
};

// For each message, the route it was last encoded for and the result.
const encodedMessages = new WeakMap<Message, { readonly key: string; readonly encoded: EncodedMessage }>();

/** Encodes all messages. `omissions`: what is not sent, or not in its place. */
export function encodeMessages(messages: readonly Message[], context: WireContext): EncodedHistory {
  const { provider, endpoint, model } = context.route;
  const key = JSON.stringify([provider, endpoint, model, context.quirks.callIds ?? defaultCallIds]);
  const before = sentHistories.take(messages, key);
  const added = before === null ? null : encodeAfter(before, messages, context);
  const encoded = added ?? encodeAfter(null, messages, context);
  if (encoded === null) throw nothingToSend(context.route);
  const { wire, system, omissions, allocateId, isClosed } = encoded;
  const continued = added === null ? null : before;
  const extra = continued === null ? system : [...continued.extra, ...system];
  const all = sentHistories.extend(continued, { key, messages, allocateId, isClosed, list: wire, omissions, extra });
  return { system: extra, messages: all.list, omissions: all.omissions };
}

/** With the blocks of `system`. */
const sentHistories = new SentHistories<WireMessage, readonly JsonObject[]>();

/** The encoded form of some messages. */
type EncodedMessages = Pick<SendableHistory, "omissions" | "isClosed" | "allocateId"> & {
  readonly wire: readonly WireMessage[];
  readonly system: readonly JsonObject[];
};

/**
 * Encodes the messages after those of `before`. `null`: nothing is left of them, or they cannot be encoded without
 * those before, because the reply that they begin with is not sent, so that others may be joined with a message of
 * `before`.
 */
function encodeAfter(
  before: SentHistory<WireMessage, readonly JsonObject[]> | null,
  messages: readonly Message[],
  context: WireContext,
): EncodedMessages | null {
  const { provider, endpoint, model } = context.route;
  const key = JSON.stringify([provider, endpoint, model]);
  const sendable = sendableHistory(messages, context.quirks.callIds ?? defaultCallIds, false, before);
  const omissions: Omission[] = [...sendable.omissions];
  const unpairedIds = unpairedCalls(sendable.messages, context.route);
  let calls: readonly ToolCall[] = [];
  const system: JsonObject[] = [];
  const wireMessages: { readonly role: WireMessage["role"]; readonly content: JsonObject[] }[] = [];
  const append = (role: EncodedMessage["role"], blocks: readonly JsonObject[]): void => {
    const last = wireMessages.at(-1);
    if (last?.role === role) last.content.push(...blocks);
    else wireMessages.push({ role, content: [...blocks] });
  };
  // System messages of the conversation that wait for the end of the user message that they follow, or that follows
  // them (invariant 6).
  let waiting: {
    readonly path: string;
    readonly blocks: readonly JsonObject[];
    readonly isNote: boolean;
    isMoved: boolean;
  }[] = [];
  const placeWaiting = (): void => {
    const isPlaceable = wireMessages.at(-1)?.role === "user";
    const blocks = waiting.flatMap((message) => message.blocks);
    if (!isPlaceable) system.push(...blocks);
    else if (blocks.length > 0) wireMessages.push({ role: "system", content: blocks });
    for (const { path, isMoved, isNote } of waiting)
      if (!isPlaceable) omissions.push(movedToStart(path, context.route));
      else if (isMoved && !isNote) omissions.push(movedLater(path));
    waiting = [];
  };
  for (const [index, message] of sendable.messages.entries()) {
    const messagePath = `messages[${sendable.requestIndexes[index] ?? index}]`;
    if (message.role === "system") {
      const blocks = systemBlocks(message, context.route);
      const lastRole = wireMessages.at(-1)?.role;
      const isNative = takesSystemMessages(model);
      if (blocks.length === 0) {
        omissions.push({ path: messagePath, reason: "repaired" });
      } else if (lastRole === undefined) {
        system.push(...blocks);
      } else if (message.origin !== null && (lastRole !== "user" || !isNative)) {
        append("user", blocks);
      } else if (isNative) {
        waiting.push({ path: messagePath, blocks, isNote: message.origin !== null, isMoved: lastRole !== "user" });
      } else {
        system.push(...blocks);
        omissions.push(movedToStart(messagePath, context.route));
      }
      continue;
    }
    const encoded = encodeOnce(message, key, context.route, unpairedIds);
    omissions.push(...encoded.omissions.map((omission) => inMessage(messagePath, omission)));
    if (encoded.blocks.length === 0) {
      if (before !== null && wireMessages.length === 0) return null;
      omissions.push({ path: messagePath, reason: "repaired" });
      continue;
    }
    if (encoded.role === "assistant") placeWaiting();
    else for (const systemMessage of waiting) systemMessage.isMoved = true;
    if (message.role === "assistant") calls = message.toolCalls;
    const call = message.role === "tool" ? calls.find(({ id }) => id === message.toolCallId) : undefined;
    const toolset = call === undefined ? null : toolsetOf(call, context.route);
    const blocks =
      toolset === null ? encoded.blocks : encoded.blocks.map((block) => ({ ...block, toolset_name: toolset }));
    append(encoded.role, blocks);
  }
  placeWaiting();
  if (before === null && wireMessages.length === 0) return null;
  const lastIndex = wireMessages.length - 1;
  const wire = wireMessages.map(({ role, content }, index) => ({
    role,
    content: role === "assistant" && index === lastIndex ? trimPrefill(content) : content,
  }));
  // The result of a call that the provider runs may be in a later reply, and changes how the call is sent.
  const hasProviderCalls = sendable.messages.some(
    (message) => message.role === "assistant" && providerCallIds(message).length > 0,
  );
  // A reply that follows is joined with a reply at the end.
  const endsWithInput = wire.length === 0 || wire.at(-1)?.role === "user";
  const { allocateId } = sendable;
  const isClosed = sendable.isClosed && !hasProviderCalls && endsWithInput;
  return { wire, system, omissions, allocateId, isClosed };
}

/**
 * The id of the container in which the provider ran code for the newest reply that names one; `null`: none, or it has
 * expired. The API keeps files and variables in it, and refuses the result of a call that code made if the request does
 * not name it ("container_id is required when there are pending tool uses generated by code execution").
 */
export function lastContainer(messages: readonly Message[], { route, isPast }: WireContext): string | null {
  for (const message of messages.toReversed()) {
    if (message.role !== "assistant" || typeof message.content === "string") continue;
    for (const part of message.content.toReversed()) {
      if (part.type !== "opaque" || part.kind !== "container") continue;
      const verdict = replayFor(part.provider, route);
      const container = verdict.type === "replay" ? objectAt(asObject(verdict.data), "container") : null;
      const expiry = textAt(container, "expires_at");
      if (container !== null) return expiry !== null && isPast?.(expiry) === true ? null : textAt(container, "id");
    }
  }
  return null;
}

/**
 * Trims the end of a last assistant message (a prefill that the model continues): the API refuses trailing white space
 * there.
 */
function trimPrefill(content: readonly JsonObject[]): readonly JsonObject[] {
  const last = content.at(-1);
  const text = last?.["text"];
  return last?.["type"] === "text" && typeof text === "string"
    ? [...content.slice(0, -1), { ...last, text: text.trimEnd() }]
    : content;
}

type NonSystemMessage = Exclude<Message, { readonly role: "system" }>;

function encodeOnce(
  message: NonSystemMessage,
  routeKey: string,
  route: ProviderRoute,
  unpairedIds: ReadonlySet<string>,
): EncodedMessage {
  const omittedIds = message.role === "assistant" ? providerCallIds(message).filter((id) => unpairedIds.has(id)) : [];
  const key = omittedIds.length === 0 ? routeKey : JSON.stringify([routeKey, ...omittedIds]);
  const cached = encodedMessages.get(message);
  if (cached?.key === key) return cached.encoded;
  const encoded = encodeMessage(message, route, new Set(omittedIds));
  const options = message.role === "tool" ? null : optionsFor(message, route);
  const blocks = options === null ? encoded.blocks : withLastBlock(encoded.blocks, options);
  encodedMessages.set(message, { key, encoded: { ...encoded, blocks } });
  return { ...encoded, blocks };
}

/** Merges options of a message into its last block that takes options (invariant 5). */
function withLastBlock(blocks: readonly JsonObject[], options: JsonObject): readonly JsonObject[] {
  const last = blocks.findLastIndex(takesOptions);
  return blocks.map((block, index) => (index === last ? withOptions(block, options) : block));
}

/** Thinking is signed and takes no other fields, also no cache breakpoint. */
export function takesOptions(block: JsonObject): boolean {
  return block["type"] !== "thinking" && block["type"] !== "redacted_thinking";
}

/** Encodes one message. Event messages are user messages; tool results are user messages with a `tool_result` block. */
function encodeMessage(
  message: NonSystemMessage,
  route: ProviderRoute,
  omittedIds: ReadonlySet<string>,
): EncodedMessage {
  switch (message.role) {
    case "user":
    case "event":
      return {
        role: "user",
        blocks: userBlocks(message.content, route),
        omissions: [...imageDetails(message.content), ...authorName(message)],
      };
    case "tool":
      return encodeResult(message, route);
    case "assistant":
      return encodeAssistant(message, route, omittedIds);
  }
}

/** The API has no field for the resolution at which an image is read. */
function imageDetails(content: string | readonly UserPart[]): readonly Omission[] {
  if (typeof content === "string") return [];
  return content.flatMap((part, index) =>
    part.type === "image" && part.detail !== "auto" && part.pruneState === null
      ? [unsupported(`.content[${index}].detail`, "the Messages API has no image detail")]
      : [],
  );
}

/** A text block, or none for blank text (invariant 2). */
function textBlocks(text: string, options: JsonObject | null = null): readonly JsonObject[] {
  return text.trim() === "" ? [] : [withOptions({ type: "text", text }, options)];
}

function userBlocks(content: string | readonly UserPart[], route: ProviderRoute): readonly JsonObject[] {
  if (typeof content === "string") return textBlocks(content);
  return content.flatMap((part) => userPart(part, route));
}

/** The blocks of a user part. A pruned part becomes its placeholder text; files with an image type become images. */
function userPart(part: UserPart, route: ProviderRoute): readonly JsonObject[] {
  if (part.pruneState !== null)
    return textBlocks(textOrPlaceholder(part.type === "text" ? part.text : "", part.pruneState));
  const options = optionsFor(part, route);
  if (part.type === "text") return textBlocks(part.text, options);
  return [withOptions(mediaBlock(part, route), options)];
}

function encodeResult(message: ToolMessage, route: ProviderRoute): EncodedMessage {
  const { parts, omissions } = sendableResult(message.content, (part) => userPart(part, route));
  const block = resultBlock(message, parts, route);
  return { role: "user", blocks: [block], omissions: [...omissions, ...imageDetails(parts)] };
}

/**
 * The `tool_result` block of a tool message. The API requires content for `is_error: true`, so an empty error carries
 * its code or status.
 */
function resultBlock(message: ToolMessage, parts: readonly UserPart[], route: ProviderRoute): JsonObject {
  const { toolCallId, status, code } = message;
  const isError = status === "failure" || status === "cancelled" || status === "not_run";
  const blocks = userBlocks(parts, route);
  const [first] = blocks;
  const onlyText = blocks.length === 1 && first !== undefined && isPlainText(first) ? first["text"] : null;
  const content = blocks.length > 0 ? (onlyText ?? blocks) : isError ? (code ?? status) : null;
  const block = omitNullish({ type: "tool_result", tool_use_id: toolCallId, content, is_error: isError ? true : null });
  return withOptions(block, optionsFor(message, route));
}

/** Is it a text block without other fields? */
export function isPlainText(block: JsonObject): boolean {
  return block["type"] === "text" && Object.keys(block).length === 2;
}

/** Encodes a reply: parts in order, with calls at their `tool_call` parts and the remaining calls at the end. */
function encodeAssistant(
  message: AssistantMessage,
  route: ProviderRoute,
  omittedIds: ReadonlySet<string>,
): EncodedMessage {
  const { content, toolCalls } = message;
  const omissions: Omission[] = [];
  const placedCalls = new Set<ToolCall>();
  const blocks: JsonObject[] = [];
  const placeCall = (toolCall: ToolCall): void => {
    placedCalls.add(toolCall);
    blocks.push(callBlock(toolCall, `.toolCalls[${toolCalls.indexOf(toolCall)}]`, route, omissions));
  };
  if (typeof content === "string") {
    blocks.push(...textBlocks(content));
  } else {
    content.forEach((part, index) => {
      if (part.type !== "tool_call" || part.providerExecuted !== null) {
        blocks.push(...partBlocks(part, `.content[${index}]`, route, omittedIds, omissions));
        return;
      }
      const referencedCall = toolCalls.find(({ id }) => id === part.toolCallId);
      if (referencedCall !== undefined && !placedCalls.has(referencedCall)) placeCall(referencedCall);
    });
  }
  for (const toolCall of toolCalls) if (!placedCalls.has(toolCall)) placeCall(toolCall);
  return { role: "assistant", blocks, omissions };
}

/**
 * A `tool_use` block. The API requires an object as input: malformed arguments are sent as `{}` and listed as
 * `repaired`.
 */
function callBlock(call: ToolCall, path: string, route: ProviderRoute, omissions: Omission[]): JsonObject {
  const verdict = replayFor(call.provider, route);
  if (verdict.type === "foreign_route") omissions.push({ path, reason: "foreign_replay" });
  if (call.arguments === null) omissions.push({ path, reason: "repaired" });
  const replayFields = verdict.type === "replay" ? asObject(verdict.data) : null;
  const member = toolsetOf(call, route) === null ? null : textAt(replayFields, "name");
  const { action, ...memberInput } = call.arguments ?? {};
  const input = member === null || action === undefined ? (call.arguments ?? {}) : memberInput;
  const block = { type: "tool_use", ...replayFields, id: call.id, name: member ?? call.name, input };
  return withOptions(block, optionsFor(call, route));
}

/** The toolset that a call belongs to on this route (invariant 8); `null`: none. */
function toolsetOf({ provider }: ToolCall, route: ProviderRoute): string | null {
  const verdict = replayFor(provider, route);
  return verdict.type === "replay" ? textAt(asObject(verdict.data), "toolset_name") : null;
}

/**
 * Ids of calls run by the provider that are not sent, and neither are their results (invariant 3): the call or the
 * result belongs to another route, the result was pruned, or there is none although a user message follows. A reply
 * that a token limit cut off has such a call, and so has a paused reply that was never continued. The last reply with
 * calls of the program is continued by their results, also if a user message follows these: its calls still run.
 */
function unpairedCalls(messages: readonly Message[], route: ProviderRoute): ReadonlySet<string> {
  const lastInput = messages.findLastIndex(({ role }) => role === "user" || role === "event");
  const lastReply = messages.findLastIndex(({ role }) => role === "assistant");
  const ids = new Set<string>();
  const foreignCalls = new Set<string>();
  const sentResults = new Set<string>();
  const runningCalls = new Set<string>();
  for (const [at, message] of messages.entries()) {
    if (message.role !== "assistant" || typeof message.content === "string") continue;
    for (const part of message.content) {
      if (part.type === "tool_call" && part.providerExecuted !== null) {
        ids.add(part.toolCallId);
        const isContinued = at === lastReply && message.toolCalls.length > 0;
        if (at > lastInput || isContinued) runningCalls.add(part.toolCallId);
        if (replayFor(part.providerExecuted.provider, route).type !== "replay") foreignCalls.add(part.toolCallId);
      } else if (part.type === "tool_result") {
        ids.add(part.toolCallId);
        runningCalls.delete(part.toolCallId);
        if (part.pruneState === null && replayFor(part.provider, route).type === "replay")
          sentResults.add(part.toolCallId);
      }
    }
  }
  const isSent = (id: string): boolean => !foreignCalls.has(id) && (sentResults.has(id) || runningCalls.has(id));
  return new Set([...ids].filter((id) => !isSent(id)));
}

/** Ids of the calls that the provider ran, and of their results, in a reply. */
function providerCallIds({ content }: AssistantMessage): readonly string[] {
  if (typeof content === "string") return [];
  return content.flatMap((part) =>
    part.type === "tool_result" || (part.type === "tool_call" && part.providerExecuted !== null)
      ? [part.toolCallId]
      : [],
  );
}

/** The blocks of a reply's part other than a call for the program. Adds what is not sent to `omissions`. */
function partBlocks(
  part: AssistantPart,
  path: string,
  route: ProviderRoute,
  omittedIds: ReadonlySet<string>,
  omissions: Omission[],
): readonly JsonObject[] {
  if (part.type === "image" || part.type === "file") {
    omissions.push(
      unsupported(
        path,
        "the Messages API accepts no images and files in replies of the model; send them in a user message",
      ),
    );
    return [];
  }
  const verdict = replayFor(
    part.type === "tool_call" ? (part.providerExecuted?.provider ?? null) : part.provider,
    route,
  );
  const replayFields = verdict.type === "replay" ? asObject(verdict.data) : null;
  if (verdict.type === "foreign_route") omissions.push({ path, reason: "foreign_replay" });
  switch (part.type) {
    case "text": {
      const [block] = textBlocks(textOrPlaceholder(part.text, part.pruneState));
      if (block === undefined) return [];
      if (part.pruneState !== null) return [block];
      return [withOptions({ ...block, ...replayFields }, optionsFor(part, route))];
    }
    case "reasoning":
      if (replayFields === null) return [];
      return [replayFields["type"] === "thinking" ? { ...replayFields, thinking: part.text } : replayFields];
    case "tool_call": {
      const providerCall = part.providerExecuted;
      if (providerCall === null || replayFields === null) return [];
      if (!omittedIds.has(part.toolCallId)) {
        const { id, name, arguments: input } = providerCall;
        return [withOptions({ ...replayFields, id, name, input: input ?? {} }, optionsFor(providerCall, route))];
      }
      omissions.push({ path, reason: "repaired" });
      return [];
    }
    case "tool_result":
      return replayFields === null || omittedIds.has(part.toolCallId)
        ? []
        : [withOptions({ ...replayFields, content: part.content }, optionsFor(part, route))];
    case "opaque":
      // The container is a field of the request, not a block (`lastContainer`).
      if (part.kind === "container" && objectAt(replayFields, "container") !== null) return [];
      return replayFields === null ? [] : [withOptions(replayFields, optionsFor(part, route))];
  }
}
