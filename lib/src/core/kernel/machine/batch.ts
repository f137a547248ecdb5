// Batches of tool calls that run in parallel: the calls of one reply, or the calls that a code cell makes at once.
//
// Each call is an effect of its own with a slot, its position among the calls of the reply or the cell. Responses may
// arrive in any order; `results` holds them by position. When the last one has arrived, the calls of a reply go to the
// protocol together, in call order; those of a cell go back to the cell (cells.ts).
//
// Slots, not call ids, identify calls: providers repeat ids.

import type { TurnProtocol } from "../protocol/protocol.ts";
import type { ToolReturned, ToolWaits } from "./response.ts";
import type { TransitionBuilder } from "./transition-builder.ts";
import type { AwaitingTools, CompletedToolCall } from "./turn.ts";

import { applyActions } from "./actions.ts";
import { requestCompaction } from "./context.ts";
import { callEffectId, toolEffectId } from "./pending-effects.ts";

/** Stores the response to one call of the batch, and settles the batch if it was the last one. */
export function answerCall<P extends TurnProtocol>(
  builder: TransitionBuilder<P>,
  result: ToolReturned | ToolWaits,
  id: string,
): void {
  const { phase } = builder.turn;
  if (phase.type !== "awaiting_tools") return;
  if (!builder.spend(result.spent)) return;
  const slot = Number(id.slice(id.lastIndexOf("/") + 1));
  const index = phase.calls.findIndex((call) => call.slot === slot);
  settle(builder, { ...phase, results: phase.results.with(index, result) });
}

/** Continues the turn once every call of the batch has a result. */
export function settle<P extends TurnProtocol>(builder: TransitionBuilder<P>, phase: AwaitingTools<P>): void {
  builder.wait(phase);
  if (phase.results.includes(null)) return;
  const completed = phase.calls.flatMap(({ call, slot, ...earlier }, index): readonly CompletedToolCall[] => {
    const result = phase.results[index] ?? null;
    const idempotencyKey = earlier.idempotencyKey ?? callEffectId(builder.turn, slot);
    return result === null ? [] : [{ call, slot, idempotencyKey, result }];
  });
  requestCompactions(builder, completed);
  if (phase.cell !== null) return builder.cells.settle(builder, phase.cell, completed);
  const ids = completed.map(({ slot }) => toolEffectId(builder.turn, slot));
  builder.update({ answered: [...builder.turn.answered, ...ids] });
  applyActions(builder, builder.config.protocolDriver.handleToolResults(builder.view, completed));
}

/** A tool may request a compaction before the next model call (`compactTool`). */
function requestCompactions<P extends TurnProtocol>(
  builder: TransitionBuilder<P>,
  completed: readonly CompletedToolCall[],
): void {
  for (const { result } of completed) {
    const control =
      result.type === "tool_returned" && result.outcome.type === "success" ? result.outcome.control : null;
    if (control?.type === "compact") requestCompaction(builder, { instructions: control.instructions });
  }
}
