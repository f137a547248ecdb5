// Calls that are open at the end of a history, and what was said to calls that waited.

import type { Message, ToolCall, ToolMessage } from "../model/index.ts";
import type { TurnHistory } from "./history.ts";
import type { CallAnswer, Turn } from "./turn.ts";

import { toolResult } from "../model/index.ts";
import { unrunAnswer } from "./tool-answer.ts";

/** The call of an answer that is consent. */
export function approvedCall(answer: CallAnswer): Turn["approved"] {
  if (answer.type !== "decision" || answer.decision.type !== "approve") return [];
  return [{ call: answer.call, decision: answer.decision }];
}

/** The message of a call that needs no running any more: it has a result, or was refused. */
export function settledAnswer(answer: CallAnswer, id: string): readonly Message[] {
  const { call } = answer;
  if (answer.type === "result") return [toolResult(call.id, answer.content, { id, name: call.name })];
  if (answer.decision.type === "approve") return [];
  return [unrunAnswer(call, "denied", answer.decision.reason ?? "somebody said no", id)];
}

/** The calls of the newest reply that made any. */
export function newestCalls({ entries, length }: TurnHistory): readonly ToolCall[] {
  for (let index = length - 1; index >= 0; index -= 1) {
    const message = entries[index];
    if (message?.role === "assistant" && message.toolCalls.length > 0) return message.toolCalls;
  }
  return [];
}

/** The calls of that reply that nobody has answered since, and their places in it. An answer need not say which tool it is from. */
export function openCalls(history: TurnHistory): readonly { readonly call: ToolCall; readonly slot: number }[] {
  const answers: ToolMessage[] = [];
  for (let index = history.length - 1; index >= 0; index -= 1) {
    const message = history.entries[index];
    if (message?.role === "assistant" && message.toolCalls.length > 0) break;
    if (message?.role === "tool") answers.push(message);
  }
  return newestCalls(history).flatMap((call, slot) => {
    const answer = answers.findIndex(
      ({ toolCallId, name }) => toolCallId === call.id && (name === null || name === call.name),
    );
    if (answer === -1) return [{ call, slot }];
    answers.splice(answer, 1);
    return [];
  });
}
