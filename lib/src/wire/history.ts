// History as another provider may have left it, made fit to be sent: every call answered once, right behind its reply, no answer without its call,
// every call with a name, and ids the target takes, each of them once in a request. What had to be mended is said.
//
// Rules:
//   1. The id a call is sent with follows from the calls before it alone: what was sent stays as it was when messages are added, since prompt
//      caches go by it.
//   2. A message that had to be changed is changed once: the same message gives the same other one, so that encoders know it again.

import type { AssistantMessage, Message, ProviderRoute, ToolCall, ToolMessage } from "../model/internal.ts";
import type { LeftOut, Quirks } from "./codec.ts";

import { AdapterError, toolResult } from "../model/internal.ts";

export type SendableHistory = {
  readonly messages: readonly Message[];
  /** Where each of them stood in the request. An answer nobody gave stands where its call does. */
  readonly places: readonly number[];
  readonly left: readonly LeftOut[];
};

type CallIds = NonNullable<Quirks["callIds"]>;

/** The text that stands in for an answer nobody gave. */
const missingResult = "[No result: the call was never answered]";
/** What a call without a name is called: no API takes one. */
const missingName = "unknown_tool";
/** What a call without an id is called. */
const missingId = "call";

export function sendableHistory(messages: readonly Message[], callIds: Quirks["callIds"] = undefined): SendableHistory {
  const left: LeftOut[] = [];
  const out: Message[] = [];
  const places: number[] = [];
  const used = new Set<number>();
  const idFor = idGiver(callIds ?? null);
  const put = (message: Message, place: number): void => {
    out.push(message);
    places.push(place);
  };
  for (const [index, message] of messages.entries()) {
    if (message.role === "tool") {
      // Those that belong to a reply were taken along with it.
      if (!used.has(index)) left.push({ path: `messages[${index}]`, reason: "repaired" });
      continue;
    }
    if (message.role !== "assistant" || message.toolCalls.length === 0) {
      put(message, index);
      continue;
    }
    left.push(...mended(message, index));
    const reply = renamedReply(
      message,
      message.toolCalls.map(({ id }) => idFor(id)),
    );
    put(reply, index);
    for (const [slot, call] of reply.toolCalls.entries()) {
      const found = answerTo(message.toolCalls[slot]?.id ?? call.id, messages, index, used);
      if (found === null) left.push({ path: `messages[${index}].toolCalls[${slot}]`, reason: "repaired" });
      if (found === null) put(missingAnswer(call), index);
      else put(renamedAnswer(found.answer, call.id), found.at);
    }
  }
  return { messages: out, places, left };
}

/** What is wrong with the calls of a reply by themselves: a second one of the same id, one without a name. */
function mended({ toolCalls }: AssistantMessage, at: number): readonly LeftOut[] {
  const seen = new Set<string>();
  return toolCalls.flatMap(({ id, name }, slot): readonly LeftOut[] => {
    const again = seen.has(id);
    seen.add(id);
    return [
      ...(again ? [{ path: `messages[${at}].toolCalls`, reason: "repaired" as const }] : []),
      ...(name === "" ? [{ path: `messages[${at}].toolCalls[${slot}].name`, reason: "repaired" as const }] : []),
    ];
  });
}

/** The first answer to this id that nobody has taken, before the next reply that makes a call of the same id. */
function answerTo(
  id: string,
  messages: readonly Message[],
  from: number,
  used: Set<number>,
): { readonly answer: ToolMessage; readonly at: number } | null {
  for (let at = from + 1; at < messages.length; at += 1) {
    const message = messages[at];
    if (message?.role === "assistant" && message.toolCalls.some((call) => call.id === id)) return null;
    if (message?.role === "tool" && message.toolCallId === id && !used.has(at)) {
      used.add(at);
      return { answer: message, at };
    }
  }
  return null;
}

// What a message was changed to when it was last sent.
const renamedReplies = new WeakMap<AssistantMessage, AssistantMessage>();
const renamedAnswers = new WeakMap<ToolMessage, ToolMessage>();
const missingAnswers = new WeakMap<ToolCall, ToolMessage>();

/** The reply with these ids for its calls, also where they stand in its content. */
function renamedReply(reply: AssistantMessage, ids: readonly string[]): AssistantMessage {
  if (reply.toolCalls.every(({ id, name }, slot) => id === ids[slot] && name !== "")) return reply;
  const known = renamedReplies.get(reply);
  if (known?.toolCalls.every(({ id }, slot) => id === ids[slot]) === true) return known;
  const waiting = reply.toolCalls.map(({ id }, slot) => ({ id, sent: ids[slot] ?? id }));
  const content =
    typeof reply.content === "string"
      ? reply.content
      : reply.content.map((part) => {
          if (part.type !== "tool_call" || part.providerExecuted !== null) return part;
          const at = waiting.findIndex(({ id }) => id === part.toolCallId);
          const [own] = at === -1 ? [] : waiting.splice(at, 1);
          return own === undefined ? part : { ...part, toolCallId: own.sent };
        });
  const toolCalls = reply.toolCalls.map((call, slot) => ({
    ...call,
    id: ids[slot] ?? call.id,
    name: call.name === "" ? missingName : call.name,
  }));
  const renamed = { ...reply, content, toolCalls };
  renamedReplies.set(reply, renamed);
  return renamed;
}

function renamedAnswer(answer: ToolMessage, toolCallId: string): ToolMessage {
  if (answer.toolCallId === toolCallId) return answer;
  const known = renamedAnswers.get(answer);
  if (known?.toolCallId === toolCallId) return known;
  const renamed = { ...answer, toolCallId };
  renamedAnswers.set(answer, renamed);
  return renamed;
}

function missingAnswer(call: ToolCall): ToolMessage {
  const known = missingAnswers.get(call);
  if (known !== undefined) return known;
  const made = toolResult(call.id, missingResult, { name: call.name, status: "not_run" });
  missingAnswers.set(call, made);
  return made;
}

/** Most ids tried for one call: only a rule with hardly any ids runs out of them. */
const maxTries = 1000;

/** Gives every call of a request, in their order, an id that no call before it has. */
function idGiver(rule: CallIds | null): (id: string) => string {
  const sent = new Set<string>();
  const turns = new Map<string, number>();
  return (id) => {
    let turn = turns.get(id) ?? 0;
    let found = id;
    for (let tries = 0; tries < maxTries; tries += 1) {
      turn += 1;
      found = legalId(turn === 1 ? id : `${id}~${turn}`, rule);
      if (!sent.has(found)) break;
    }
    turns.set(id, turn);
    sent.add(found);
    return found;
  };
}

/** An id the target takes. What is cut or replaced is told apart by a sum over the whole; where sums agree, {@link idGiver} tries another. */
function legalId(given: string, rule: CallIds | null): string {
  const id = given === "" ? missingId : given;
  if (rule === null) return id;
  const { maxLength, exact = false } = rule;
  const clean = cleaned(id, rule.pattern);
  if (clean === id && (exact ? id.length === maxLength : id.length <= maxLength)) return id;
  const mark = markOf(id, 31);
  const start = maxLength - mark.length - 1;
  if (!exact && start >= 0 && rule.pattern !== "letters_and_digits") return `${clean.slice(0, start)}_${mark}`;
  let marks = mark;
  for (let factor = 33; marks.length < maxLength; factor += 2) marks += markOf(id, factor);
  return marks.slice(0, maxLength);
}

function cleaned(id: string, pattern: CallIds["pattern"]): string {
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
function markOf(text: string, factor: number): string {
  let sum = 7;
  for (let index = 0; index < text.length; index += 1) sum = (Math.imul(sum, factor) + text.charCodeAt(index)) >>> 0;
  return sum.toString(36).padStart(7, "0");
}

/** A request of which nothing can be sent. */
export function nothingToSend({ provider }: ProviderRoute): AdapterError {
  const message = `${provider}: there is nothing to send: no message of the request has content for the model`;
  return new AdapterError("invalid_request", { provider, message });
}
