// Finds the tool calls of a running turn that have no row of the journal yet, from the rows that ordered them: the
// newest reply, or the answers that the turn was started with. Pure.
//
// Calls of code cells are not found: a cell has a row when it ends. Nor are approved calls of a turn that itself runs
// inside a tool call: its answers are not stored as a start row.

import type { Effect } from "../../core/kernel/internal.ts";
import type { JournalRow, TurnStart } from "../../durable/internal.ts";
import type { TimelineRow } from "./timeline.ts";

import { toolEffectId } from "../../core/kernel/internal.ts";
import { effectOf } from "./timeline.ts";

/**
 * A call without a row. The id of its effect follows from the turn, the step and the index of the call in its reply.
 */
export type OrderedCall = {
  readonly effectId: string;
  /** Names the child turns of the call. A later turn continues a call under the key of the first one. */
  readonly idempotencyKey: string;
  readonly toolCallId: string;
  readonly name: string;
};

/**
 * The calls without a row. `rows`: the newest rows of the turn, in order. If they do not contain the reply that made
 * the calls, none is found. `answers`: what the turn was started with.
 */
export function orderedCalls(
  turnId: string,
  rows: readonly TimelineRow[],
  answers: TurnStart["answers"],
): readonly OrderedCall[] {
  const from = rows.findLastIndex(({ row }) => row.item.type === "step_restarted" || callsOf(row) !== null);
  const ordering = rows[from];
  const later = rows.slice(from + 1);
  // A step ends with a checkpoint after its calls.
  if (later.some(({ row }) => isEndOfStep(effectOf(row)))) return [];
  const calls = ordering === undefined ? approved(turnId, answers) : replied(turnId, ordering.row);
  const recorded = new Set(later.map(({ row }) => effectOf(row)?.id));
  return calls.filter(({ effectId }) => !recorded.has(effectId));
}

function isEndOfStep(effect: Effect | null): boolean {
  return effect?.type === "checkpoint" && effect.checkpoint !== "before_turn";
}

/** The calls of a reply; `null`: the row is no reply. */
function callsOf({ item }: JournalRow): readonly { readonly id: string; readonly name: string }[] | null {
  return item.type === "response" && item.response.type === "model_replied" ? item.response.reply.toolCalls : null;
}

function replied(turnId: string, row: JournalRow): readonly OrderedCall[] {
  const id = effectOf(row)?.id ?? "";
  const [, step] = /^\/(\d+)\//.exec(id.startsWith(turnId) ? id.slice(turnId.length) : "") ?? [];
  if (step === undefined) return [];
  return (callsOf(row) ?? []).map(({ id: toolCallId, name }, slot) => {
    const effectId = toolEffectId({ turnId, step: Number(step) }, slot);
    return { effectId, idempotencyKey: effectId, toolCallId, name };
  });
}

/** The calls that a turn was started to run. A call keeps its index in its reply. */
function approved(turnId: string, answers: TurnStart["answers"]): readonly OrderedCall[] {
  return answers.flatMap((answer): readonly OrderedCall[] => {
    if (answer.type !== "decision" || answer.decision.type === "deny" || answer.idempotencyKey === null) return [];
    const [, slot] = /\/tool\/(\d+)$/.exec(answer.idempotencyKey) ?? [];
    if (slot === undefined) return [];
    const { idempotencyKey, call } = answer;
    const effectId = toolEffectId({ turnId, step: 0 }, Number(slot));
    return [{ effectId, idempotencyKey, toolCallId: call.id, name: call.name }];
  });
}
