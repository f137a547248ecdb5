// Batches of tool calls that run in parallel: the calls of one reply, or the calls that a code cell makes at once.
//
// Each call is an effect of its own with a slot, its position among the calls of the reply or the cell. Responses may arrive in any order;
// `results` holds them by position. When the last one has arrived,
//   - the calls of a reply go to the protocol together, in call order;
//   - the calls of a cell go back to the cell (`run_code` is ordered again), unless one of them halts the turn or has to wait.
// A cell with a waiting call is stored in the session as a `SuspendedCell`, and a later turn resumes it (Q5).
//
// Slots, not call ids, identify calls: providers repeat ids.

import type { CellCall, PendingToolCall, SuspendedCell, ToolOutcome } from "../../model/internal.ts";
import type { TurnProtocol } from "../protocol/protocol.ts";
import type { CodeCalls, ToolReturned, ToolWaits } from "./effect.ts";
import type { TransitionBuilder } from "./transition-builder.ts";
import type { AwaitingTools, BegunCell, Cell, CompletedToolCall, SlottedCall, Turn } from "./turn.ts";

import { runtimeFailure } from "../../model/internal.ts";
import { ending } from "../protocol/ending.ts";
import { haltOf, questionMessage, waitingOutcome, waitOf } from "../protocol/halts.ts";
import { replyStepEnd } from "../protocol/reply-message.ts";
import { unrunOutcome } from "../protocol/tool-answer.ts";
import { applyActions, finish } from "./actions.ts";
import { environmentFields } from "./environment.ts";
import { toolReturned, toolWaits } from "./respond.ts";
import { callEffectId, toolEffectId } from "./turn.ts";

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
function settle<P extends TurnProtocol>(builder: TransitionBuilder<P>, phase: AwaitingTools<P>): void {
  builder.wait(phase);
  if (phase.results.includes(null)) return;
  const completed = phase.calls.flatMap(({ call, slot, ...earlier }, index): readonly CompletedToolCall[] => {
    const result = phase.results[index] ?? null;
    const idempotencyKey = earlier.idempotencyKey ?? callEffectId(builder.turn, slot);
    return result === null ? [] : [{ call, slot, idempotencyKey, result }];
  });
  if (phase.cell !== null) return settleCell(builder, phase.cell, completed);
  const ids = completed.map(({ slot }) => toolEffectId(builder.turn, slot));
  builder.update({ answered: [...builder.turn.answered, ...ids] });
  applyActions(builder, builder.config.protocolDriver.handleToolResults(builder.view, completed));
}

/** Starts the calls that a cell made. Calls of unknown tools and of manual tools are answered at once, without an effect. */
export function startCellCalls<P extends TurnProtocol>(
  builder: TransitionBuilder<P>,
  { calls, executor }: CodeCalls,
): void {
  const { phase } = builder.turn;
  if (phase.type !== "awaiting_code") return;
  if (calls.length === 0) {
    const failure = runtimeFailure("code_failed", { message: "the executor returned code_calls without any call" });
    return builder.fail({ type: "runtime_error", failure });
  }
  const first = phase.cell.calls.length;
  const unanswered = calls.map((call): CellCall => ({ call, answer: null }));
  const cell: BegunCell<P> = { ...phase.cell, executor, calls: [...phase.cell.calls, ...unanswered] };
  const slotted = calls.map((call, index) => ({ call, slot: first + index, decision: null, idempotencyKey: null }));
  startCalls(builder, cell, slotted);
}

/**
 * Resumes a suspended cell. It runs in the environment it was written for, because the tools of its code must exist; `environmentAfter`
 * restores the environment of this turn when the cell ends (Q5).
 */
export function resumeCell<P extends TurnProtocol>(builder: TransitionBuilder<P>, suspended: SuspendedCell): void {
  const { environment, id, language, code, executor, calls } = suspended;
  const { approved } = builder.turn;
  const environmentAfter = builder.turn.environment;
  const cell: BegunCell<P> = { id, language, code, executor, calls, driverState: null, environmentAfter };
  builder.update({ resumes: null, approved: [], ...environmentFields(environment) });
  if (approved.length === 0) return builder.wait({ type: "awaiting_code", cell });
  startCalls(builder, cell, approved);
}

function startCalls<P extends TurnProtocol>(
  builder: TransitionBuilder<P>,
  cell: BegunCell<P>,
  calls: readonly SlottedCall[],
): void {
  // The phase is entered first, because the effect ids of the calls are derived from it.
  const batch = { type: "awaiting_tools", calls, results: calls.map(() => null), cell } as const;
  builder.wait(batch);
  settle(builder, { ...batch, results: calls.map((call) => immediateResult(builder.turn, call)) });
}

/** The result of a cell's call that no performer runs: `not_found` for an unknown tool, `manual` for a tool that the caller runs; otherwise `null`. */
function immediateResult(
  turn: Turn<TurnProtocol>,
  { call, slot, decision }: SlottedCall,
): ToolReturned | ToolWaits | null {
  const id = callEffectId(turn, slot);
  const spec = turn.environment.tools.find(({ name }) => name === call.name);
  if (spec === undefined) {
    return toolReturned(id, unrunOutcome(call, "not_found", `there is no tool named ${call.name}`));
  }
  if (!spec.manual || decision !== null) return null;
  return toolWaits(id, "manual");
}

/** Continues a cell whose calls are answered: halts the turn, suspends the cell, or runs it again with the answers. */
function settleCell<P extends TurnProtocol>(
  builder: TransitionBuilder<P>,
  cell: BegunCell<P>,
  completed: readonly CompletedToolCall[],
): void {
  const calls = [...cell.calls];
  for (const { slot, call, result } of completed) calls[slot] = { call, answer: answerForCell(result) };
  const answered: BegunCell<P> = { ...cell, calls };
  const waits = completed.flatMap((completedCall) => waitOf(completedCall, cell.id));
  const halt = completed.map(haltOf).find((outcome) => outcome !== null && outcome.type !== "ask_user") ?? null;
  if (halt === null && waits.length === 0) return builder.wait({ type: "awaiting_code", cell: answered });
  if (halt !== null) {
    endOpenStep(builder, [], null);
    leaveCell(builder, cell);
    return finish(builder, ending(halt));
  }
  suspend(builder, answered, waits);
}

/** Ends the turn and leaves the cell as data that a later turn resumes. */
function suspend<P extends TurnProtocol>(
  builder: TransitionBuilder<P>,
  cell: BegunCell<P>,
  waits: readonly PendingToolCall[],
): void {
  const { turnId, step, environment } = builder.turn;
  const { id, language, code, calls, executor } = cell;
  const question = waits.find(({ reason }) => reason === "question");
  if (question !== undefined) builder.append([questionMessage(question, `${turnId}/${step}/question`)]);
  const suspendedCell: SuspendedCell = { id, language, code, executor, environment, calls };
  endOpenStep(builder, waits, suspendedCell);
  const outcome = waitingOutcome(waits) ?? { type: "outcome_unknown" };
  builder.end({ ...ending(outcome), pendingToolCalls: waits, suspendedCell });
}

/** Leaves a cell: a turn that resumed it returns to its own environment. */
export function leaveCell<P extends TurnProtocol>(
  builder: TransitionBuilder<P>,
  { environmentAfter: environment }: Cell<P>,
): void {
  if (environment !== null) builder.update(environmentFields(environment));
}

/** Ends the step of the reply that wrote the cell. A resumed cell belongs to a reply of an earlier turn and ends no step here. */
function endOpenStep<P extends TurnProtocol>(
  builder: TransitionBuilder<P>,
  pendingToolCalls: readonly PendingToolCall[],
  suspendedCell: SuspendedCell | null,
): void {
  const { openReply } = builder.turn;
  if (openReply !== null) builder.endStep({ ...replyStepEnd(openReply), pendingToolCalls, suspendedCell });
}

/** The answer that the cell receives for a call; `null` while the call waits. */
function answerForCell(result: ToolReturned | ToolWaits): ToolOutcome | null {
  return result.type === "tool_waits" || result.outcome.type === "ask_user" ? null : result.outcome;
}
