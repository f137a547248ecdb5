// Code cells (Q5): starts and resumes them, runs the calls they make, and ends them. Any protocol can start one
// (`start_exec`).
//
// A cell makes calls in batches (batch.ts). When a batch is answered, `run_code` is ordered again with the answers,
// unless a call halts the turn or has to wait. A cell with a waiting call is stored in the session as a
// `SuspendedCell`, and a later turn resumes it.

import type { CellCall, PendingToolCall, SuspendedCell, ToolOutcome } from "../../model/internal.ts";
import type { DriverAction, TurnProtocol } from "../protocol/protocol.ts";
import type { CodeCalls, CodeFailed, CodeFinished, ToolReturned, ToolWaits } from "./response.ts";
import type { CodeCells, TransitionBuilder } from "./transition-builder.ts";
import type { BegunCell, Cell, CompletedToolCall, SlottedCall, Turn } from "./turn.ts";

import { runtimeFailure, unknownToolText } from "../../model/internal.ts";
import { cellBrokenOff, cellNote } from "../protocol/cell-note.ts";
import { ending } from "../protocol/ending.ts";
import { haltOf, questionMessage, waitingOutcome, waitOf } from "../protocol/halts.ts";
import { replyStepEnd } from "../protocol/reply-message.ts";
import { unrunOutcome } from "../protocol/tool-answer.ts";
import { applyActions, finish } from "./actions.ts";
import { settle } from "./batch.ts";
import { environmentFields } from "./environment.ts";
import { callEffectId } from "./pending-effects.ts";
import { toolReturned, toolWaits } from "./respond.ts";

/** The functions for code cells that modules below this one call. */
export const codeCells: CodeCells = {
  start: startCell,
  resume: resumeCell,
  settle: settleCell,
  breakOff: breakOffCell,
};

/** Waits for the first run of a cell. */
function startCell<P extends TurnProtocol>(
  builder: TransitionBuilder<P>,
  { language, code, driverState }: Extract<DriverAction<P>, { readonly type: "start_exec" }>,
): void {
  const { turnId, step } = builder.turn;
  const initial = { executor: null, calls: [], ranMs: 0, environmentAfter: null };
  const cell = { id: `${turnId}/${step}/cell`, language, code, driverState, ...initial };
  builder.wait({ type: "awaiting_code", cell });
}

/**
 * `code_calls`: starts the calls that a cell made. Calls of unknown tools and of manual tools are answered at once,
 * without an effect.
 */
export function startCellCalls<P extends TurnProtocol>(
  builder: TransitionBuilder<P>,
  { calls, executor, ranMs }: CodeCalls,
): void {
  const { phase } = builder.turn;
  if (phase.type !== "awaiting_code") return;
  if (calls.length === 0) {
    return builder.fail(
      runtimeFailure("code_failed", { message: "the executor returned code_calls without any call" }),
    );
  }
  const first = phase.cell.calls.length;
  const unanswered = calls.map((call): CellCall => ({ call, answer: null }));
  const cell: BegunCell<P> = {
    ...phase.cell,
    executor,
    calls: [...phase.cell.calls, ...unanswered],
    ranMs: phase.cell.ranMs + ranMs,
  };
  const slotted = calls.map((call, index) => ({ call, slot: first + index, decision: null, idempotencyKey: null }));
  startCalls(builder, cell, slotted);
}

/**
 * Resumes a suspended cell. It runs in the environment it was written for, because the tools of its code must exist;
 * `environmentAfter` restores the environment of this turn when the cell ends (Q5).
 */
function resumeCell<P extends TurnProtocol>(builder: TransitionBuilder<P>, suspended: SuspendedCell): void {
  const { environment, id, language, code, executor, calls, ranMs } = suspended;
  const { approved } = builder.turn;
  const environmentAfter = builder.turn.environment;
  const cell: BegunCell<P> = { id, language, code, executor, calls, ranMs, driverState: null, environmentAfter };
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

/**
 * The result of a cell's call that no performer runs: `not_found` for an unknown tool, `manual` for a tool that the
 * caller runs; otherwise `null`.
 */
function immediateResult(
  turn: Turn<TurnProtocol>,
  { call, slot, decision }: SlottedCall,
): ToolReturned | ToolWaits | null {
  const id = callEffectId(turn, slot);
  const spec = turn.environment.tools.find(({ name }) => name === call.name);
  if (spec === undefined) {
    return toolReturned(id, unrunOutcome(call, "not_found", unknownToolText(call.name)));
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
  const { id, language, code, calls, executor, ranMs } = cell;
  const question = waits.find(({ reason }) => reason === "question");
  if (question !== undefined) builder.append([questionMessage(question, `${turnId}/${step}/question`)]);
  const suspendedCell: SuspendedCell = { id, language, code, executor, environment, calls, ranMs };
  endOpenStep(builder, waits, suspendedCell);
  const outcome = waitingOutcome(waits) ?? { type: "outcome_unknown" };
  builder.end({ ...ending(outcome), pendingToolCalls: waits, suspendedCell });
}

/** Leaves a cell: a turn that resumed it returns to its own environment. */
function leaveCell<P extends TurnProtocol>(
  builder: TransitionBuilder<P>,
  { environmentAfter: environment }: Cell<P>,
): void {
  if (environment !== null) builder.update(environmentFields(environment));
}

/**
 * Ends the step of the reply that wrote the cell. A resumed cell belongs to a reply of an earlier turn and ends no step
 * here.
 */
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

/** `code_finished` and `code_failed`: hands the result of the cell to the protocol. */
export function endCell<P extends TurnProtocol>(
  builder: TransitionBuilder<P>,
  result: CodeFinished | CodeFailed,
): void {
  const { phase } = builder.turn;
  if (phase.type !== "awaiting_code") return;
  const { calls, driverState } = phase.cell;
  leaveCell(builder, phase.cell);
  applyActions(builder, builder.config.protocolDriver.handleExecResult(builder.view, result, calls, driverState));
}

/**
 * Ends a cell whose turn was cancelled or failed: emits the completion of calls without a result, and appends a note
 * that lists the calls it made.
 */
function breakOffCell<P extends TurnProtocol>(builder: TransitionBuilder<P>, cell: Cell<P>, why: string): void {
  const { phase, turnId, step } = builder.turn;
  if (phase.type === "awaiting_tools") {
    for (const [index, { call }] of phase.calls.entries())
      if (phase.results[index]?.type !== "tool_returned") builder.completeCancelled(call, why);
  }
  builder.append([cellNote(cellBrokenOff(cell, phase, why), `${turnId}/${step}/observation`)]);
}
