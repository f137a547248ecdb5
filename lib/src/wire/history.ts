// History as another provider may have left it, made fit to be sent: every call answered once, right behind its reply, no answer without its call,
// and ids the target takes. What had to be mended is said.

import type { AssistantMessage, Message, ToolMessage } from "../model/index.ts";
import type { LeftOut, Quirks } from "./codec.ts";

import { toolResult } from "../model/index.ts";

export type SendableHistory = { readonly messages: readonly Message[]; readonly left: readonly LeftOut[] };

/** The text that stands in for an answer nobody gave. */
const missingResult = "[No result: the call was never answered]";

export function sendableHistory(messages: readonly Message[], callIds: Quirks["callIds"] = undefined): SendableHistory {
  const left: LeftOut[] = [];
  const out: Message[] = [];
  const used = new Set<string>();
  for (let index = 0; index < messages.length; index += 1) {
    const message = messages[index];
    if (message === undefined) continue;
    if (message.role === "tool") {
      // Those that belong to a reply were taken along with it.
      if (!used.has(`${index}`)) left.push({ path: `messages[${index}]`, reason: "repaired" });
      continue;
    }
    if (message.role !== "assistant" || message.toolCalls.length === 0) {
      out.push(message);
      continue;
    }
    const { reply, answers } = paired(message, messages, index, used, left);
    out.push(...renamed([reply, ...answers], callIds));
  }
  return { messages: out, left };
}

/** A reply with the answers to its calls, in call order. A second call of the same id gets one of its own. */
function paired(
  reply: AssistantMessage,
  messages: readonly Message[],
  at: number,
  used: Set<string>,
  left: LeftOut[],
): { readonly reply: AssistantMessage; readonly answers: readonly ToolMessage[] } {
  const taken = new Map<string, number>();
  const toolCalls = reply.toolCalls.map((call) => {
    const before = taken.get(call.id) ?? 0;
    taken.set(call.id, before + 1);
    if (before > 0) left.push({ path: `messages[${at}].toolCalls`, reason: "repaired" });
    return before === 0 ? call : { ...call, id: `${call.id}~${before + 1}` };
  });
  const answers = reply.toolCalls.map(({ id, name }, slot): ToolMessage => {
    const own = toolCalls[slot]?.id ?? id;
    const found = answerTo(id, messages, at, used);
    if (found !== null) return found.toolCallId === own ? found : { ...found, toolCallId: own };
    left.push({ path: `messages[${at}].toolCalls[${slot}]`, reason: "repaired" });
    return toolResult(own, missingResult, { name, status: "not_run" });
  });
  return {
    reply: toolCalls.every((call, slot) => call === reply.toolCalls[slot]) ? reply : { ...reply, toolCalls },
    answers,
  };
}

/** The first answer to this id that nobody has taken, before the next reply that makes a call of the same id. */
function answerTo(id: string, messages: readonly Message[], at: number, used: Set<string>): ToolMessage | null {
  for (let index = at + 1; index < messages.length; index += 1) {
    const message = messages[index];
    if (message?.role === "assistant" && message.toolCalls.some((call) => call.id === id)) return null;
    if (message?.role === "tool" && message.toolCallId === id && !used.has(`${index}`)) {
      used.add(`${index}`);
      return message;
    }
  }
  return null;
}

/** The same messages with ids the target takes; the same id becomes the same other one wherever it stands. */
function renamed(messages: readonly Message[], rule: Quirks["callIds"]): readonly Message[] {
  if (rule === undefined) return messages;
  return messages.map((message): Message => {
    if (message.role === "tool") {
      const toolCallId = legalId(message.toolCallId, rule);
      return toolCallId === message.toolCallId ? message : { ...message, toolCallId };
    }
    if (message.role !== "assistant") return message;
    const toolCalls = message.toolCalls.map((call) => ({ ...call, id: legalId(call.id, rule) }));
    return toolCalls.every((call, slot) => call.id === message.toolCalls[slot]?.id)
      ? message
      : { ...message, toolCalls };
  });
}

/** An id the target takes. Ids that differ stay different: what is cut or replaced is told apart by a sum over the whole. */
export function legalId(id: string, rule: NonNullable<Quirks["callIds"]>): string {
  const clean = rule.pattern === "alphanumeric" ? id.replaceAll(/[^a-zA-Z0-9_-]/g, "_") : id;
  if (clean === id && id.length <= rule.maxLength) return id;
  let sum = 7;
  for (let index = 0; index < id.length; index += 1) sum = (Math.imul(sum, 31) + id.charCodeAt(index)) >>> 0;
  const mark = sum.toString(36).padStart(7, "0");
  return `${clean.slice(0, Math.max(0, rule.maxLength - mark.length - 1))}_${mark}`;
}
