// Repairs a history so that any API accepts it. The history may come from another provider, from storage or from the
// program.
//
// After `sendableHistory`
//   - every tool call has exactly one result, directly after the reply that made the call. A missing result is replaced
//     by a placeholder.
//   - every tool result has a call; results without one are dropped, unless the provider has stored earlier messages,
//     which may hold the call.
//   - every call has a name, and an id that the target accepts and that is unique in the request.
// Every repair is listed in `omissions` with the reason `repaired`, except changed ids, which change nothing for the
// model. Lost results are warnings.
//
// Invariants
//   1. The id of a call depends only on the calls before it. Appending messages does not change what was sent before,
//      because prompt caches of providers match by prefix.
//   2. A message that has to be changed is changed once: the same message object gives the same changed object, so that
//      encoders find it in their caches, which go by identity.

import type {
  AdapterError,
  AssistantMessage,
  Message,
  ProviderRoute,
  ToolCall,
  ToolMessage,
} from "../model/internal.ts";
import type { Omission, Quirks } from "./codec.ts";

import { toolResult } from "../model/internal.ts";
import { requestError } from "./request-error.ts";

/** A repaired history. */
export type SendableHistory = {
  readonly messages: readonly Message[];
  /**
   * For each of `messages`, the index of its original in the request; for a placeholder result, the index of the reply
   * with its call.
   */
  readonly requestIndexes: readonly number[];
  readonly omissions: readonly Omission[];
  /** Every call has its result in the request, so that messages which are appended change nothing before them. */
  readonly isClosed: boolean;
  /** Gives ids to the calls of messages that are appended. */
  readonly allocateId: CallIdAllocator;
};

/** Gives each call of a request, in order, an id that no earlier call has. */
export type CallIdAllocator = (id: string) => string;

/** What was sent before: messages whose calls all have their results, and the ids of those calls. */
type SentBefore = { readonly messages: readonly Message[]; readonly allocateId: CallIdAllocator };

type CallIds = NonNullable<Quirks["callIds"]>;

/** The result that is sent for a call without one. The model reads it. */
const placeholderText = "[No result was recorded for this tool call]";
/** The name of a call without a name. No API accepts an empty one. */
const placeholderName = "unknown_tool";
/** The id of a call whose id is empty. */
const placeholderId = "call";

/**
 * Repairs the messages of a request for an API that accepts the call ids of `callIds` (`undefined`: any id).
 * `keepsLoneResults`: results without a call are sent in their place, because the provider has stored the call.
 * `before`: the first messages, which were repaired for an earlier request; only those after them are returned.
 * Linear in the number of messages, apart from the search for results: a result is searched from its call onwards.
 */
export function sendableHistory(
  messages: readonly Message[],
  callIds: Quirks["callIds"] = undefined,
  keepsLoneResults = false,
  before: SentBefore | null = null,
): SendableHistory {
  const omissions: Omission[] = [];
  const sendable: Message[] = [];
  const requestIndexes: number[] = [];
  const usedIndexes = new Set<number>();
  const allocateId = before?.allocateId ?? callIdAllocator(callIds ?? null);
  let isClosed = true;
  const append = (message: Message, requestIndex: number): void => {
    sendable.push(message);
    requestIndexes.push(requestIndex);
  };
  for (let index = before?.messages.length ?? 0; index < messages.length; index += 1) {
    const message = messages[index];
    if (message === undefined) continue;
    if (message.role === "tool") {
      // A result that belongs to a call was appended together with its reply. The others have no call.
      if (usedIndexes.has(index)) continue;
      if (keepsLoneResults) append(message, index);
      else omissions.push(resultWithoutCall(`messages[${index}]`));
      continue;
    }
    if (message.role !== "assistant" || message.toolCalls.length === 0) {
      append(message, index);
      continue;
    }
    omissions.push(...callRepairs(message, index));
    const reply = withCallIds(
      message,
      message.toolCalls.map(({ id }) => allocateId(id)),
    );
    append(reply, index);
    for (const [slot, call] of reply.toolCalls.entries()) {
      const result = takeToolResult(message.toolCalls[slot]?.id ?? call.id, messages, index, usedIndexes);
      if (result === null) omissions.push(callWithoutResult(`messages[${index}].toolCalls[${slot}]`));
      if (result === null) append(placeholderResult(call), index);
      else append(withCallId(result.toolMessage, call.id), result.at);
      isClosed &&= result !== null;
    }
  }
  return { messages: sendable, requestIndexes, omissions, isClosed, allocateId };
}

function resultWithoutCall(path: string): Omission {
  return {
    path,
    reason: "repaired",
    message: `${path} is not sent: it is the result of a call that is not in the history`,
  };
}

function callWithoutResult(path: string): Omission {
  const message = `${path} has no result in the history: the model reads "${placeholderText}" in its place`;
  return { path, reason: "repaired", message };
}

/** Repairs of the calls of one reply: a second call with the same id, a call without a name. */
function callRepairs({ toolCalls }: AssistantMessage, at: number): readonly Omission[] {
  const seen = new Set<string>();
  return toolCalls.flatMap(({ id, name }, slot): readonly Omission[] => {
    const isDuplicate = seen.has(id);
    seen.add(id);
    return [
      ...(isDuplicate ? [{ path: `messages[${at}].toolCalls`, reason: "repaired" as const }] : []),
      ...(name === "" ? [{ path: `messages[${at}].toolCalls[${slot}].name`, reason: "repaired" as const }] : []),
    ];
  });
}

/**
 * The first unused result with this id after the reply at `from`. The search stops at the next reply with a call of the
 * same id, because results from there on belong to that call. Marks the result as used.
 */
function takeToolResult(
  id: string,
  messages: readonly Message[],
  from: number,
  usedIndexes: Set<number>,
): { readonly toolMessage: ToolMessage; readonly at: number } | null {
  for (let at = from + 1; at < messages.length; at += 1) {
    const message = messages[at];
    if (message?.role === "assistant" && message.toolCalls.some((call) => call.id === id)) return null;
    if (message?.role === "tool" && message.toolCallId === id && !usedIndexes.has(at)) {
      usedIndexes.add(at);
      return { toolMessage: message, at };
    }
  }
  return null;
}

// The changed form of a message the last time it was sent.
const renamedReplyCache = new WeakMap<AssistantMessage, AssistantMessage>();
const renamedResultCache = new WeakMap<ToolMessage, ToolMessage>();
const placeholderCache = new WeakMap<ToolCall, ToolMessage>();

/** The reply with these ids for its calls, in `toolCalls` and in the `tool_call` parts of its content. */
function withCallIds(reply: AssistantMessage, ids: readonly string[]): AssistantMessage {
  if (reply.toolCalls.every(({ id, name }, slot) => id === ids[slot] && name !== "")) return reply;
  const cached = renamedReplyCache.get(reply);
  if (cached?.toolCalls.every(({ id }, slot) => id === ids[slot]) === true) return cached;
  const unplacedCalls = reply.toolCalls.map(({ id }, slot) => ({ id, sent: ids[slot] ?? id }));
  const content =
    typeof reply.content === "string"
      ? reply.content
      : reply.content.map((part) => {
          if (part.type !== "tool_call" || part.providerExecuted !== null) return part;
          const at = unplacedCalls.findIndex(({ id }) => id === part.toolCallId);
          const [call] = at === -1 ? [] : unplacedCalls.splice(at, 1);
          return call === undefined ? part : { ...part, toolCallId: call.sent };
        });
  const toolCalls = reply.toolCalls.map((call, slot) => ({
    ...call,
    id: ids[slot] ?? call.id,
    name: call.name === "" ? placeholderName : call.name,
  }));
  const renamed = { ...reply, content, toolCalls };
  renamedReplyCache.set(reply, renamed);
  return renamed;
}

function withCallId(result: ToolMessage, toolCallId: string): ToolMessage {
  if (result.toolCallId === toolCallId) return result;
  const cached = renamedResultCache.get(result);
  if (cached?.toolCallId === toolCallId) return cached;
  const renamed = { ...result, toolCallId };
  renamedResultCache.set(result, renamed);
  return renamed;
}

function placeholderResult(call: ToolCall): ToolMessage {
  const cached = placeholderCache.get(call);
  if (cached !== undefined) return cached;
  const placeholder = toolResult(call.id, placeholderText, { name: call.name, status: "not_run" });
  placeholderCache.set(call, placeholder);
  return placeholder;
}

/**
 * How many ids are tried for one call. Only a rule with very few possible ids (`maxLength: 1`) reaches it; the last id
 * is then used although it repeats.
 */
const maxIdAttempts = 1000;

/**
 * Returns a function that gives each call of a request, in order, an id that no earlier call has. The n-th call with
 * the same id gets `id~n`.
 */
function callIdAllocator(rule: CallIds | null): CallIdAllocator {
  const sentIds = new Set<string>();
  const useCounts = new Map<string, number>();
  return (id) => {
    let useCount = useCounts.get(id) ?? 0;
    let candidate = id;
    for (let attempt = 0; attempt < maxIdAttempts; attempt += 1) {
      useCount += 1;
      candidate = acceptedId(useCount === 1 ? id : `${id}~${useCount}`, rule);
      if (!sentIds.has(candidate)) break;
    }
    useCounts.set(id, useCount);
    sentIds.add(candidate);
    return candidate;
  };
}

/**
 * The id, or one derived from it that the target accepts. A hash of the complete id keeps ids apart that differ only in
 * removed characters; {@link callIdAllocator} resolves collisions of the hash.
 */
function acceptedId(originalId: string, rule: CallIds | null): string {
  const id = originalId === "" ? placeholderId : originalId;
  if (rule === null) return id;
  const { maxLength, exact = false } = rule;
  const allowedOnly = replaceForbidden(id, rule.pattern);
  if (allowedOnly === id && (exact ? id.length === maxLength : id.length <= maxLength)) return id;
  const hash = hashOf(id, 31);
  const prefixLength = maxLength - hash.length - 1;
  if (!exact && prefixLength >= 0 && rule.pattern !== "letters_and_digits")
    return `${allowedOnly.slice(0, prefixLength)}_${hash}`;
  let hashes = hash;
  for (let factor = 33; hashes.length < maxLength; factor += 2) hashes += hashOf(id, factor);
  return hashes.slice(0, maxLength);
}

function replaceForbidden(id: string, pattern: CallIds["pattern"]): string {
  switch (pattern) {
    case "any":
      return id;
    case "alphanumeric":
      return id.replaceAll(/[^a-zA-Z0-9_-]/g, "_");
    case "letters_and_digits":
      return id.replaceAll(/[^a-zA-Z0-9]/g, "");
  }
}

/** A 32-bit polynomial hash in base 36, seven characters. Not cryptographic: it only has to be stable and to spread. */
function hashOf(text: string, factor: number): string {
  let sum = 7;
  for (let index = 0; index < text.length; index += 1) sum = (Math.imul(sum, factor) + text.charCodeAt(index)) >>> 0;
  return sum.toString(36).padStart(7, "0");
}

/** The error for a request without any content for the model. */
export function nothingToSend(route: ProviderRoute): AdapterError {
  const message =
    "there is nothing to send: no message of the request has content for the model; add a user message with text";
  return requestError(message, route, "invalid_request");
}
