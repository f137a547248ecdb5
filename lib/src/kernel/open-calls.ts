// Calls that are open at the end of a history, and what was said to calls that waited.

import type { CellCall, Message, SuspendedCell, ToolCall, ToolMessage, ToolOutcome } from "../model/index.ts";
import type { TurnHistory } from "./history.ts";
import type { ApprovedCall, CallAnswer, TurnInput } from "./turn.ts";

import { toolFailure } from "../model/index.ts";
import { settledAnswer } from "./tool-answer.ts";

/** The calls somebody consented to. */
export function approvedCalls(answers: readonly CallAnswer[]): readonly ApprovedCall[] {
  return answers.flatMap(({ call, ...answer }): readonly ApprovedCall[] => {
    if (answer.type !== "decision" || answer.decision.type !== "approve") return [];
    return [{ call, decision: answer.decision, idempotencyKey: answer.idempotencyKey }];
  });
}

/** The messages for calls of the conversation that need no running any more: they have a result, or were refused. */
export function settledAnswers({ answers, cell, turnId }: TurnInput): readonly Message[] {
  return answers.flatMap((answer, index) => {
    const outcome = outcomeOf(answer);
    if (outcome === null || isOfCell(cell, answer.call)) return [];
    const content = answer.type === "result" ? answer.content : null;
    return [settledAnswer(answer.call, outcome, content, `${turnId}/settled/${index}`)];
  });
}

/** The cell of a turn, with the answers its calls were given. */
export function answeredCell({ cell, answers }: TurnInput): SuspendedCell | null {
  if (cell === null) return null;
  const open = answers.flatMap((answer) => {
    const outcome = outcomeOf(answer);
    return outcome === null ? [] : [{ call: answer.call, outcome }];
  });
  const calls = cell.calls.map((known): CellCall => {
    if (known.answer !== null) return known;
    const given = open.find(({ call }) => isSameCall(call, known.call));
    if (given === undefined) return known;
    open.splice(open.indexOf(given), 1);
    return { ...known, answer: given.outcome };
  });
  return { ...cell, calls };
}

/** What a call came to by an answer alone; `null` when it has to be run first. */
function outcomeOf(answer: CallAnswer): ToolOutcome | null {
  if (answer.type === "result") return answer.outcome;
  const { call, decision } = answer;
  if (decision.type === "approve") return null;
  const message = decision.reason ?? "somebody said no";
  return { type: "failure", failure: toolFailure("denied", { message, toolName: call.name, toolCallId: call.id }) };
}

function isOfCell(cell: SuspendedCell | null, call: ToolCall): boolean {
  return cell?.calls.some((known) => known.answer === null && isSameCall(known.call, call)) ?? false;
}

/** Is this the call that something was said to? */
export function isSameCall(left: ToolCall, right: ToolCall): boolean {
  return left.id === right.id && left.name === right.name;
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
