// History as another provider may have left it, made fit to be sent: every call answered once, right behind its reply, no answer without its call,
// every call with a name, and ids the target takes, each of them once in a request. What had to be mended is said.
//
// Rules:
//   1. The id a call is sent with follows from the calls before it alone: what was sent stays as it was when messages are added, since prompt
//      caches go by it.
//   2. A message that had to be changed is changed once: the same message gives the same other one, so that encoders know it again.

import type { AssistantMessage, Message, ProviderRoute, ToolCall, ToolMessage } from "../model/internal.ts";
import type { Omission, Quirks } from "./codec.ts";

import { AdapterError, toolResult } from "../model/internal.ts";

export type SendableHistory = {
  readonly messages: readonly Message[];
  /** Where each of them stood in the request. An answer nobody gave stands where its call does. */
  readonly requestIndexes: readonly number[];
  readonly omissions: readonly Omission[];
};

type CallIds = NonNullable<Quirks["callIds"]>;

/** The text that stands in for an answer nobody gave. */
const placeholderText = "[No result: the call was never answered]";
/** What a call without a name is called: no API takes one. */
const placeholderName = "unknown_tool";
/** What a call without an id is called. */
const placeholderId = "call";

export function sendableHistory(messages: readonly Message[], callIds: Quirks["callIds"] = undefined): SendableHistory {
  const omissions: Omission[] = [];
  const sendable: Message[] = [];
  const requestIndexes: number[] = [];
  const usedIndexes = new Set<number>();
  const allocateId = callIdAllocator(callIds ?? null);
  const append = (message: Message, requestIndex: number): void => {
    sendable.push(message);
    requestIndexes.push(requestIndex);
  };
  for (const [index, message] of messages.entries()) {
    if (message.role === "tool") {
      // Those that belong to a reply were taken along with it.
      if (!usedIndexes.has(index)) omissions.push({ path: `messages[${index}]`, reason: "repaired" });
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
      if (result === null) omissions.push({ path: `messages[${index}].toolCalls[${slot}]`, reason: "repaired" });
      if (result === null) append(placeholderResult(call), index);
      else append(withCallId(result.toolMessage, call.id), result.at);
    }
  }
  return { messages: sendable, requestIndexes, omissions };
}

/** What is wrong with the calls of a reply by themselves: a second one of the same id, one without a name. */
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

/** The first answer to this id that nobody has taken, before the next reply that makes a call of the same id. */
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

// What a message was changed to when it was last sent.
const renamedReplyCache = new WeakMap<AssistantMessage, AssistantMessage>();
const renamedResultCache = new WeakMap<ToolMessage, ToolMessage>();
const placeholderCache = new WeakMap<ToolCall, ToolMessage>();

/** The reply with these ids for its calls, also where they stand in its content. */
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

/** Most ids tried for one call: only a rule with hardly any ids runs out of them. */
const maxIdAttempts = 1000;

/** Gives every call of a request, in their order, an id that no call before it has. */
function callIdAllocator(rule: CallIds | null): (id: string) => string {
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

/** An id the target takes. What is cut or replaced is told apart by a sum over the whole; where sums agree, {@link callIdAllocator} tries another. */
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

/** Seven letters and digits that follow from a text. */
function hashOf(text: string, factor: number): string {
  let sum = 7;
  for (let index = 0; index < text.length; index += 1) sum = (Math.imul(sum, factor) + text.charCodeAt(index)) >>> 0;
  return sum.toString(36).padStart(7, "0");
}

/** A request of which nothing can be sent. */
export function nothingToSend({ provider }: ProviderRoute): AdapterError {
  const message = `${provider}: there is nothing to send: no message of the request has content for the model`;
  return new AdapterError("invalid_request", { provider, message });
}
