// Calls that are open at the end of a history or in a cell that waited, and what was said to them.

import type { CellCall, Message, SuspendedCell, ToolCall, ToolMessage, ToolOutcome } from "../../model/internal.ts";
import type { TurnHistory } from "../history/history.ts";
import type { ApprovedCall, CallAnswer, TurnInput } from "../machine/turn.ts";

import { canonicalJson, MisuseError, toolFailure } from "../../model/internal.ts";
import { settledAnswer } from "./tool-answer.ts";

/** A call and its place: among the calls of its reply, or of its cell. */
export type OpenCall = { readonly call: ToolCall; readonly slot: number };

/** What the answers a turn begins with come to. */
export type Answered = {
  /** Answers to calls of the conversation that need no running any more. */
  readonly messages: readonly Message[];
  /** Calls somebody consented to, which have to be run. */
  readonly approved: readonly ApprovedCall[];
  /** The cell that waited, with the answers its calls were given. */
  readonly cell: SuspendedCell | null;
};

/**
 * Gives each call that waits what was said to it. A turn goes on only when everything that was open has been answered (Q8), so a call
 * without an answer and an answer without a call are both the caller's bug.
 */
export function takeAnswers({ turnId, answers, cell }: TurnInput, history: TurnHistory): Answered {
  const inCell = cell?.calls.flatMap(({ call, answer }, slot) => (answer === null ? [{ call, slot }] : [])) ?? [];
  const open = [...openCalls(history), ...inCell];
  const given = matchAnswers(open, answers);
  const settled = open.map(({ call }, index) => {
    const answer = given[index];
    return answer === undefined ? null : outcomeOf(call, answer);
  });
  const ofReply = open.length - inCell.length;
  return {
    messages: open.slice(0, ofReply).flatMap(({ call, slot }, index) => {
      const outcome = settled[index] ?? null;
      const answer = given[index];
      const content = answer?.type === "result" ? answer.content : null;
      return outcome === null ? [] : [settledAnswer(call, outcome, content, `${turnId}/settled/${slot}`)];
    }),
    approved: open.flatMap(({ call, slot }, index): readonly ApprovedCall[] => {
      const answer = given[index];
      if (answer?.type !== "decision" || answer.decision.type === "deny") return [];
      return [{ call, slot, decision: answer.decision, idempotencyKey: answer.idempotencyKey }];
    }),
    cell: cell === null ? null : { ...cell, calls: cell.calls.map((known, slot) => ({ ...known, ...answerOf(slot) })) },
  };

  function answerOf(slot: number): Partial<CellCall> {
    const index = inCell.findIndex((one) => one.slot === slot);
    const answer = index === -1 ? null : (settled[ofReply + index] ?? null);
    return answer === null ? {} : { answer };
  }
}

/** The answer to each call. Ids repeat: where several calls have one, the arguments tell them apart, then the order. */
function matchAnswers(open: readonly OpenCall[], answers: readonly CallAnswer[]): readonly CallAnswer[] {
  const left = [...answers];
  const take = (fits: (answer: CallAnswer) => boolean) => {
    const index = left.findIndex(fits);
    return index === -1 ? undefined : left.splice(index, 1)[0];
  };
  const exact = open.map(({ call }) => take((answer) => isSameCall(answer.call, call, true)));
  const given = open.map(({ call }, index) => exact[index] ?? take((answer) => isSameCall(answer.call, call, false)));
  const [stray] = left;
  if (stray !== undefined) {
    const { id, name } = stray.call;
    throw new MisuseError(
      "invalid_argument",
      `startTurn: an answer is for the call "${id}" of ${name}, which is not open`,
    );
  }
  return given.map((answer, index) => {
    if (answer !== undefined) return answer;
    const { id = "", name = "" } = open[index]?.call ?? {};
    throw new MisuseError("invalid_argument", `startTurn: the call "${id}" of ${name} is open and has no answer`);
  });
}

function isSameCall(left: ToolCall, right: ToolCall, exact: boolean): boolean {
  if (left.id !== right.id || left.name !== right.name) return false;
  return !exact || canonicalJson(left.arguments) === canonicalJson(right.arguments);
}

/** What a call came to by an answer alone; `null` when it has to be run first. */
function outcomeOf(call: ToolCall, answer: CallAnswer): ToolOutcome | null {
  if (answer.type === "result") return answer.outcome;
  if (answer.decision.type !== "deny") return null;
  const message = answer.decision.reason ?? "somebody said no";
  return { type: "failure", failure: toolFailure("denied", { message, toolName: call.name, toolCallId: call.id }) };
}

/** The calls of the newest reply that made any, which nobody has answered since. An answer need not say which tool it is from. */
export function openCalls({ entries, length }: TurnHistory): readonly OpenCall[] {
  const known = answeredUpTo.get(entries) ?? 0;
  const from = known <= length ? known : 0;
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

// How far nothing is open, by the entries that histories share: what has been answered stays so, and is not looked through again.
const answeredUpTo = new WeakMap<readonly Message[], number>();

function unanswered(calls: readonly ToolCall[], answers: readonly ToolMessage[]): readonly OpenCall[] {
  const left = new Map<string, ToolMessage[]>();
  for (const answer of answers) left.set(answer.toolCallId, [...(left.get(answer.toolCallId) ?? []), answer]);
  return calls.flatMap((call, slot) => {
    const candidates = left.get(call.id) ?? [];
    const index = candidates.findIndex(({ name }) => name === null || name === call.name);
    if (index === -1) return [{ call, slot }];
    candidates.splice(index, 1);
    return [];
  });
}
