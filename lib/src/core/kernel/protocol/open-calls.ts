// Open calls (calls without an answer) at the end of a history or in a suspended cell, and the answers that a turn
// starts with.

import type { CellCall, Message, SuspendedCell, ToolCall, ToolMessage, ToolOutcome } from "../../model/internal.ts";
import type { TurnHistory } from "../history/history.ts";
import type { CallAnswer } from "../machine/input.ts";
import type { ApprovedCall, TurnInput } from "../machine/turn.ts";

import { canonicalJson, invalidArgument } from "../../model/internal.ts";
import { settledAnswer, unrunOutcome } from "./tool-answer.ts";

/** A call without an answer. `slot`: its index among the calls of its reply or its cell. */
export type OpenCall = { readonly call: ToolCall; readonly slot: number };

/** The answers of a turn's input, applied to the open calls. */
export type Answered = {
  /** Tool messages for calls that have a result or were denied. */
  readonly messages: readonly Message[];
  /** Approved calls, which have to run. */
  readonly approved: readonly ApprovedCall[];
  /** The suspended cell, with the results of its calls filled in. */
  readonly cell: SuspendedCell | null;
};

/**
 * Matches the answers of the input with the open calls. A turn starts only when every open call has an answer (Q8): a
 * call without an answer and an answer without a call are misuse and throw `MisuseError`.
 */
export function takeAnswers(
  { turnId, revision, answers, cell }: Pick<TurnInput, "turnId" | "revision" | "answers" | "cell">,
  history: TurnHistory,
): Answered {
  const inCell = cell?.calls.flatMap(({ call, answer }, slot) => (answer === null ? [{ call, slot }] : [])) ?? [];
  const open = [...openCalls(history), ...inCell];
  const matched = matchAnswers(open, answers);
  const outcomes = open.map(({ call }, index) => {
    const answer = matched[index];
    return answer === undefined ? null : answerOutcome(call, answer);
  });
  const replyCallCount = open.length - inCell.length;
  return {
    messages: open.slice(0, replyCallCount).flatMap(({ call, slot }, index) => {
      const outcome = outcomes[index] ?? null;
      const answer = matched[index];
      const content = answer?.type === "result" ? answer.content : null;
      return outcome === null ? [] : [settledAnswer(call, outcome, content, `${turnId}/settled/${slot}`, revision)];
    }),
    approved: open.flatMap(({ call, slot }, index): readonly ApprovedCall[] => {
      const answer = matched[index];
      if (answer?.type !== "decision" || answer.decision.type === "deny") return [];
      return [{ call, slot, decision: answer.decision, idempotencyKey: answer.idempotencyKey }];
    }),
    cell:
      cell === null
        ? null
        : { ...cell, calls: cell.calls.map((cellCall, slot) => ({ ...cellCall, ...answerOf(slot) })) },
  };

  function answerOf(slot: number): Partial<CellCall> {
    const index = inCell.findIndex((openCall) => openCall.slot === slot);
    const answer = index === -1 ? null : (outcomes[replyCallCount + index] ?? null);
    return answer === null ? {} : { answer };
  }
}

/**
 * The answer to each open call. Providers repeat ids: calls with the same id are distinguished by their arguments, then
 * by order.
 */
function matchAnswers(open: readonly OpenCall[], answers: readonly CallAnswer[]): readonly CallAnswer[] {
  const unmatched = [...answers];
  const take = (fits: (answer: CallAnswer) => boolean) => {
    const index = unmatched.findIndex(fits);
    return index === -1 ? undefined : unmatched.splice(index, 1)[0];
  };
  const exact = open.map(({ call }) => take((answer) => isSameCall(answer.call, call, true)));
  const matched = open.map(({ call }, index) => exact[index] ?? take((answer) => isSameCall(answer.call, call, false)));
  const [stray] = unmatched;
  if (stray !== undefined) {
    const { id, name } = stray.call;
    throw invalidArgument(`startTurn: an answer names the call "${id}" of ${name}, which is not open`);
  }
  return matched.map((answer, index) => {
    if (answer !== undefined) return answer;
    const { id = "", name = "" } = open[index]?.call ?? {};
    throw invalidArgument(`startTurn: the call "${id}" of ${name} is open and has no answer`);
  });
}

function isSameCall(left: ToolCall, right: ToolCall, exact: boolean): boolean {
  if (left.id !== right.id || left.name !== right.name) return false;
  return !exact || canonicalJson(left.arguments) === canonicalJson(right.arguments);
}

/** The outcome that an answer gives a call; `null` for an approval, because the call has to run first. */
function answerOutcome(call: ToolCall, answer: CallAnswer): ToolOutcome | null {
  if (answer.type === "result") return answer.outcome;
  if (answer.decision.type !== "deny") return null;
  const message = answer.decision.reason ?? "a person denied this call; no reason was given";
  return unrunOutcome(call, "denied", message);
}

/**
 * The unanswered calls of the newest reply with tool calls. Reads the history from its end and stops at that reply, or
 * at the length up to which the history was found to have no open call, so the cost of a step does not grow with the
 * history (H5). An answer without a tool name matches by id.
 */
export function openCalls({ entries, length }: TurnHistory): readonly OpenCall[] {
  const answeredLength = answeredUpTo.get(entries) ?? 0;
  const from = answeredLength <= length ? answeredLength : 0;
  const answers: ToolMessage[] = [];
  for (let index = length - 1; index >= from; index -= 1) {
    const message = entries[index];
    if (message?.role === "tool") answers.unshift(message);
    if (message?.role !== "assistant" || message.toolCalls.length === 0) continue;
    const open = unanswered(message.toolCalls, answers);
    if (open.length > 0) return open;
    break;
  }
  answeredUpTo.set(entries, length);
  return [];
}

// The length up to which a history has no open call, by the array of messages that histories share. An answered call
// stays answered.
const answeredUpTo = new WeakMap<readonly Message[], number>();

function unanswered(calls: readonly ToolCall[], answers: readonly ToolMessage[]): readonly OpenCall[] {
  const answersById = new Map<string, ToolMessage[]>();
  for (const answer of answers)
    answersById.set(answer.toolCallId, [...(answersById.get(answer.toolCallId) ?? []), answer]);
  return calls.flatMap((call, slot) => {
    const candidates = answersById.get(call.id) ?? [];
    const index = candidates.findIndex(({ name }) => name === null || name === call.name);
    if (index === -1) return [{ call, slot }];
    candidates.splice(index, 1);
    return [];
  });
}
