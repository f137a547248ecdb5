// Calls that run side by side: those of a reply, and those a cell of code makes. When the last of them is answered, a reply's go to the
// protocol, all at once; a cell's go back to the cell, unless one of them stops the turn or has to wait. A cell that waits is left as data, and
// a later turn goes on with it (Q5).

import type { CellCall, PendingToolCall, SuspendedCell, ToolOutcome } from "../../model/internal.ts";
import type { TurnProtocol } from "../protocol/protocol.ts";
import type { CodeCalls, ToolReturned, ToolWaits } from "./effect.ts";
import type { AwaitingTools, BegunCell, Cell, CompletedToolCall, SlottedCall, Turn } from "./turn.ts";
import type { Work } from "./work.ts";

import { runtimeFailure, toolFailure } from "../../model/internal.ts";
import { ending } from "../protocol/ending.ts";
import { haltOf, questionMessage, waitingOutcome, waitOf } from "../protocol/halts.ts";
import { replyStepEnd } from "../protocol/reply-message.ts";
import { applyActions, finish } from "./actions.ts";
import { environmentFields } from "./environment.ts";
import { toolReturned, toolWaits } from "./respond.ts";
import { callEffectId, toolEffectId } from "./turn.ts";

/** Takes the answer to one call. */
export function answerCall<P extends TurnProtocol>(work: Work<P>, result: ToolReturned | ToolWaits, id: string): void {
  const { phase } = work.turn;
  if (phase.type !== "awaiting_tools") return;
  if (!work.spend(result.spent)) return;
  const slot = Number(id.slice(id.lastIndexOf("/") + 1));
  const index = phase.calls.findIndex((call) => call.slot === slot);
  settle(work, { ...phase, results: phase.results.with(index, result) });
}

function settle<P extends TurnProtocol>(work: Work<P>, phase: AwaitingTools<P>): void {
  work.wait(phase);
  if (phase.results.includes(null)) return;
  const completed = phase.calls.flatMap(({ call, slot, ...tried }, index): readonly CompletedToolCall[] => {
    const result = phase.results[index] ?? null;
    const idempotencyKey = tried.idempotencyKey ?? callEffectId(work.turn, slot);
    return result === null ? [] : [{ call, slot, idempotencyKey, result }];
  });
  if (phase.cell !== null) return settleCell(work, phase.cell, completed);
  const ids = completed.map(({ slot }) => toolEffectId(work.turn, slot));
  work.update({ answered: [...work.turn.answered, ...ids] });
  applyActions(work, work.config.protocolDriver.handleToolResults(work.view, completed));
}

/** The calls a cell wants made. Nobody can make some of them: those are answered on the spot. */
export function startCellCalls<P extends TurnProtocol>(work: Work<P>, { calls, executor }: CodeCalls): void {
  const { phase } = work.turn;
  if (phase.type !== "awaiting_code") return;
  if (calls.length === 0) {
    const failure = runtimeFailure("code_failed", { message: "the cell asked for calls and named none" });
    return work.fail({ type: "runtime_error", failure });
  }
  const first = phase.cell.calls.length;
  const asked = calls.map((call): CellCall => ({ call, answer: null }));
  const cell: BegunCell<P> = { ...phase.cell, executor, calls: [...phase.cell.calls, ...asked] };
  const slotted = calls.map((call, index) => ({ call, slot: first + index, decision: null, idempotencyKey: null }));
  startCalls(work, cell, slotted);
}

/** Goes on with a cell that waited, in the surroundings it was written for. */
export function resumeCell<P extends TurnProtocol>(work: Work<P>, suspended: SuspendedCell): void {
  const { environment, id, language, code, executor, calls } = suspended;
  const { approved } = work.turn;
  const environmentAfter = work.turn.environment;
  const cell: BegunCell<P> = { id, language, code, executor, calls, driverState: null, environmentAfter };
  work.update({ resumes: null, approved: [], ...environmentFields(environment) });
  if (approved.length === 0) return work.wait({ type: "awaiting_code", cell });
  startCalls(work, cell, approved);
}

function startCalls<P extends TurnProtocol>(work: Work<P>, cell: BegunCell<P>, calls: readonly SlottedCall[]): void {
  const begun = { type: "awaiting_tools", calls, results: calls.map(() => null), cell } as const;
  work.wait(begun);
  settle(work, { ...begun, results: calls.map((call) => answerAtOnce(work.turn, call)) });
}

/** The answer to a call in a cell that is nobody's to run: the tool is the caller's own, or there is none of that name. */
function answerAtOnce(
  turn: Turn<TurnProtocol>,
  { call, slot, decision }: SlottedCall,
): ToolReturned | ToolWaits | null {
  const id = callEffectId(turn, slot);
  const spec = turn.environment.tools.find(({ name }) => name === call.name);
  if (spec === undefined) {
    const message = `no tool is called ${call.name}`;
    const failure = toolFailure("not_found", { message, toolName: call.name, toolCallId: call.id });
    const outcome = { type: "failure", failure } as const;
    return toolReturned(id, outcome);
  }
  if (!spec.manual || decision !== null) return null;
  return toolWaits(id, "manual");
}

function settleCell<P extends TurnProtocol>(
  work: Work<P>,
  cell: BegunCell<P>,
  completed: readonly CompletedToolCall[],
): void {
  const calls = [...cell.calls];
  for (const { slot, call, result } of completed) calls[slot] = { call, answer: answerIn(result) };
  const going: BegunCell<P> = { ...cell, calls };
  const waits = completed.flatMap((one) => waitOf(one, cell.id));
  const halt = completed.map(haltOf).find((outcome) => outcome !== null && outcome.type !== "ask_user") ?? null;
  if (halt === null && waits.length === 0) return work.wait({ type: "awaiting_code", cell: going });
  if (halt !== null) {
    endOpenStep(work, [], null);
    leaveCell(work, cell);
    return finish(work, ending(halt));
  }
  suspend(work, going, waits);
}

/** The turn ends, and the cell is left to be gone on with. */
function suspend<P extends TurnProtocol>(work: Work<P>, cell: BegunCell<P>, waits: readonly PendingToolCall[]): void {
  const { turnId, step, environment } = work.turn;
  const { id, language, code, calls, executor } = cell;
  const asked = waits.find(({ reason }) => reason === "question");
  if (asked !== undefined) work.append([questionMessage(asked, `${turnId}/${step}/question`)]);
  const suspendedCell: SuspendedCell = { id, language, code, executor, environment, calls };
  endOpenStep(work, waits, suspendedCell);
  const outcome = waitingOutcome(waits) ?? { type: "outcome_unknown" };
  work.end({ ...ending(outcome), pendingToolCalls: waits, suspendedCell });
}

/** The cell is over: a turn that resumed it goes on in surroundings of its own. */
export function leaveCell<P extends TurnProtocol>(work: Work<P>, { environmentAfter: environment }: Cell<P>): void {
  if (environment !== null) work.update(environmentFields(environment));
}

function endOpenStep<P extends TurnProtocol>(
  work: Work<P>,
  pendingToolCalls: readonly PendingToolCall[],
  suspendedCell: SuspendedCell | null,
): void {
  const { openReply } = work.turn;
  if (openReply !== null) work.endStep({ ...replyStepEnd(openReply), pendingToolCalls, suspendedCell });
}

/** What a cell gets for an answer; `null` while it waits for one. */
function answerIn(result: ToolReturned | ToolWaits): ToolOutcome | null {
  return result.type === "tool_waits" || result.outcome.type === "ask_user" ? null : result.outcome;
}
