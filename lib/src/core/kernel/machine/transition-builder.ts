// Builds one transition: the next state of a turn and the notices for the driver.
//
// The reducer creates a builder for each call, the functions of responses.ts, batch.ts, prepare.ts and actions.ts
// change it, and `transition()` returns the result. The builder is the only mutable object of the kernel and does not
// outlive the call.
//
// Invariants
//   1. All messages and records that one transition adds are reported in one `progress` notice, before the effects that
//      depend on them are performed (write-ahead). `reported` and `reportedEvents` of the turn mark what earlier
//      notices contained.
//   2. `end` is the only function that enters the phase `ended`, and it answers every call that is neither answered nor
//      pending (S2, K5).
//   3. Ids of messages are derived from turn id, step and place; an id that a message brings along is kept.

import type {
  Failure,
  Message,
  PendingToolCall,
  SuspendedCell,
  ToolCall,
  ToolMessage,
  TurnEvent,
  Usage,
} from "../../model/internal.ts";
import type { DriverAction, TurnProtocol } from "../protocol/protocol.ts";
import type {
  BegunCell,
  Cell,
  CompletedToolCall,
  EndedStep,
  Ending,
  LogEvent,
  Notice,
  StepEnd,
  Transition,
  Turn,
  TurnInput,
  TurnMachineConfig,
} from "./turn.ts";

import { exactSum, isTransient, noUsage, runtimeFailure, system, textPart } from "../../model/internal.ts";
import { appendHistory } from "../history/history.ts";
import { append, itemsOf } from "../history/shared-list.ts";
import { toEventMessage } from "../history/turn-cause.ts";
import { ending } from "../protocol/ending.ts";
import { waitOf } from "../protocol/halts.ts";
import { openCalls } from "../protocol/open-calls.ts";
import { DriverContextView } from "../protocol/protocol.ts";
import { replyStepEnd } from "../protocol/reply-message.ts";
import { answerOf, cancelledAnswer } from "../protocol/tool-answer.ts";
import { deliverDeferred } from "./deliver.ts";
import { callEffectId } from "./pending-effects.ts";

/**
 * The functions for code cells (cells.ts) that a builder passes to the functions that change it. Cells call those
 * functions too, and modules must not import each other in a cycle.
 */
export type CodeCells = {
  readonly start: <P extends TurnProtocol>(
    builder: TransitionBuilder<P>,
    action: Extract<DriverAction<P>, { readonly type: "start_exec" }>,
  ) => void;
  readonly resume: <P extends TurnProtocol>(builder: TransitionBuilder<P>, suspended: SuspendedCell) => void;
  readonly settle: <P extends TurnProtocol>(
    builder: TransitionBuilder<P>,
    cell: BegunCell<P>,
    completed: readonly CompletedToolCall[],
  ) => void;
  readonly breakOff: <P extends TurnProtocol>(builder: TransitionBuilder<P>, cell: Cell<P>, why: string) => void;
};

/** The transition under construction. */
export class TransitionBuilder<P extends TurnProtocol> {
  readonly config: TurnMachineConfig<P>;
  readonly cells: CodeCells;
  readonly #notices: Notice<P>[] = [];
  #turn: Turn<P>;
  #stepEnded: EndedStep | null = null;

  constructor(config: TurnMachineConfig<P>, turn: Turn<P>, cells: CodeCells) {
    this.config = config;
    this.cells = cells;
    this.#turn = turn;
  }

  get turn(): Turn<P> {
    return this.#turn;
  }

  /** The read-only view of the current state that protocol functions receive. */
  get view(): DriverContextView<P> {
    return new DriverContextView(this.config, this.#turn);
  }

  /** Returns the finished transition. */
  transition(): Transition<P> {
    this.#reportProgress();
    return { turn: this.#turn, notices: this.#notices, status: "accepted" };
  }

  update(fields: Partial<Turn<P>>): void {
    this.#turn = { ...this.#turn, ...fields };
  }

  /** Enters a phase. The effects that the turn then waits for follow from it. */
  wait(phase: Turn<P>["phase"]): void {
    this.update({ phase });
  }

  /** Appends messages to the history. */
  append(messages: readonly Message[]): void {
    this.update({ history: appendHistory(this.#turn.history, messages) });
  }

  /** Appends records of the protocol's own type. */
  record(events: readonly P["event"][]): void {
    this.update({ events: append(this.#turn.events, events) });
  }

  /**
   * Adds input messages: transient ones to the messages of this turn only, all others to the history. `place` is part
   * of their ids.
   */
  addInput(messages: readonly Message[], place: string): void {
    for (const [index, message] of messages.entries()) {
      if (isTransient(message.origin)) this.addTransient([message]);
      else this.append([withId(message, `${this.#turn.turnId}/${place}/${index}`)]);
    }
  }

  /**
   * Adds messages that the model sees in this turn and that the history does not keep. `at` is their position in the
   * history.
   */
  addTransient(messages: readonly Message[]): void {
    const at = this.#turn.history.length;
    const positioned = messages.map((message) => ({ at, message }));
    this.update({ transient: append(this.#turn.transient, positioned) });
  }

  /** Adds causes that the turn does not have yet, compared by id. Returns false if all of them are duplicates. */
  addCauses(causes: TurnInput["turnCauses"]): boolean {
    const seenIds = new Set(this.#turn.turnCauses.map((cause) => cause.id));
    const newCauses = causes.filter((cause) => !seenIds.has(cause.id) && seenIds.add(cause.id));
    if (newCauses.length === 0) return false;
    this.append(newCauses.map(toEventMessage));
    this.update({ turnCauses: [...this.#turn.turnCauses, ...newCauses] });
    return true;
  }

  /**
   * Adds the causes that a turn starts with. A cause whose event message is in the history already gets no second
   * message.
   */
  addStartCauses(causes: TurnInput["turnCauses"]): void {
    if (causes.length === 0) return;
    const idsInHistory = new Set(itemsOf(this.#turn.history).map(({ role, id }) => (role === "event" ? id : null)));
    const causesInHistory = causes.filter(
      ({ id }, index) => idsInHistory.has(id) && causes.findIndex((cause) => cause.id === id) === index,
    );
    this.update({ turnCauses: causesInHistory });
    this.addCauses(causes);
  }

  /**
   * Starts the next step. `free` (0 or 1) is added to the offset, so that a step without a model call does not count
   * against `maxTurns`.
   */
  nextStep(free: number): void {
    const { step, runOffset } = this.#turn;
    this.update({
      step: step + 1,
      runOffset: runOffset + free,
      stepUsage: noUsage,
      openReply: null,
      answered: [],
      overflowed: false,
    });
  }

  /**
   * Allows one model call beyond `maxTurns`, because input arrived at the last checkpoint. Granted at most once a turn.
   */
  grantGraceTurn(): void {
    this.update({ graceTurn: true });
    this.appendTurnLimitMessage();
  }

  /** Appends `turnLimitFinalMessage` of the policy; without one this does nothing. */
  appendTurnLimitMessage(): void {
    const { turnId, step, policy } = this.#turn;
    if (policy.turnLimitFinalMessage === null) return;
    const origin = { type: "plugin", pluginId: "turn_limit", transient: false } as const;
    const parts = [textPart(policy.turnLimitFinalMessage, { kind: "error" })];
    this.append([system(parts, { id: `${turnId}/${step}/turn_limit`, origin })]);
  }

  /** Adds an `emit` notice: an event for readers of the turn. */
  emit(event: TurnEvent): void {
    this.#notices.push({ type: "emit", event });
  }

  /** Notes that the open step ended. The `progress` notice of this transition carries it. */
  endStep(stepEnd: StepEnd): void {
    const { step: stepNumber, stepUsage: usage } = this.#turn;
    this.#stepEnded = { ...stepEnd, step: stepNumber, usage };
  }

  /**
   * Adds usage to the sums of the turn and of the step. If a sum exceeds the safe integers, the turn ends with
   * `token_usage_overflow` and the result is false.
   */
  spend(usage: Usage): boolean {
    const turnUsage = exactSum(this.#turn.usage, usage);
    const stepUsage = exactSum(this.#turn.stepUsage, usage);
    if (turnUsage !== null && stepUsage !== null) {
      this.update({ usage: turnUsage, stepUsage });
      return true;
    }
    this.fail(
      runtimeFailure("token_usage_overflow", {
        message: "the usage of the turn is too large to be represented exactly",
      }),
    );
    return false;
  }

  /**
   * Ends the open step where it is, for a cancel or a failure. An open call is answered with its result if it has one,
   * otherwise as cancelled with the reason `why`. A call that waits as `outcome_unknown` (replay policy `ask`) stays
   * pending and is returned. For a code cell a note in the history lists the calls that it made. Readers get the
   * completion of every call that is answered here: its handler may have started.
   */
  breakOff(why: string): readonly PendingToolCall[] {
    const { phase, turnId, step, history, openReply } = this.#turn;
    const running = phase.type === "awaiting_tools" && phase.cell === null ? phase : null;
    const pending: PendingToolCall[] = [];
    const toolResults = openCalls(history).flatMap(({ call, slot }): readonly ToolMessage[] => {
      const id = `${turnId}/${step}/answer/${slot}`;
      const index = running?.calls.findIndex((candidate) => candidate.slot === slot) ?? -1;
      const result = running?.results[index] ?? null;
      if (result?.type === "tool_returned") return [answerOf(call, result, id)];
      if (result?.type === "tool_waits" && result.reason === "outcome_unknown") {
        const idempotencyKey = running?.calls[index]?.idempotencyKey ?? callEffectId(this.#turn, slot);
        pending.push(...waitOf({ call, slot, result, idempotencyKey }, null));
        return [];
      }
      return [this.#cancelCall(call, this.#isApproved(slot) ? `${why}; its approval was deleted` : why, id)];
    });
    this.append(toolResults);
    const cell = phase.type === "awaiting_tools" || phase.type === "awaiting_code" ? phase.cell : null;
    if (cell !== null) this.cells.breakOff(this, cell, why);
    if (openReply !== null) this.endStep({ ...replyStepEnd(openReply), toolResults, pendingToolCalls: pending });
    return pending;
  }

  /** Answers a call as cancelled: emits its completion and returns the message. */
  #cancelCall(call: ToolCall, why: string, id: string): ToolMessage {
    const answer = cancelledAnswer(call, why, id);
    const { content, status, code, ranArguments } = answer;
    this.completeCancelled(call, why);
    this.emit({ type: "tool_result_encoded", id: call.id, content, status, code, ranArguments });
    return answer;
  }

  /** Emits the completion of a call without a result. */
  completeCancelled({ id, name }: ToolCall, message: string): void {
    const result = { type: "cancelled", message, raw: null } as const;
    this.emit({ type: "tool_execution_completed", id, name, result, durationMs: null });
  }

  /** Is this a call that was approved for this turn and has no result yet? */
  #isApproved(slot: number): boolean {
    const { phase, approved } = this.#turn;
    if (approved.some((call) => call.slot === slot)) return true;
    return phase.type === "awaiting_tools" && phase.calls.some((call) => call.slot === slot && call.decision !== null);
  }

  /** Emits the error, ends the open step and ends the turn with the outcome `runtime_error`. */
  fail(failure: Failure): void {
    this.emit({ type: "error", error: failure });
    const pendingToolCalls = this.breakOff("the turn failed");
    this.end({ ...ending({ type: "runtime_error", failure }), pendingToolCalls });
  }

  /**
   * Ends the turn (K5): answers the calls that are still open, adds input that waited for resumed calls, reports
   * progress, enters the phase `ended` and adds the `done` notice. If the turn waits for an answer, such input is
   * dropped: it would separate a call or a question from its answer.
   */
  end(requested: Ending): void {
    this.#answerOpenCalls(requested.pendingToolCalls);
    if (requested.outcome.type !== "ask_user" && requested.pendingToolCalls.length === 0) deliverDeferred(this);
    this.#reportProgress();
    const { usage, step, finalize, policy } = this.#turn;
    // With structuredFinalize, `pass1` reports how the loop ended even if the structured call was not made.
    const hasStructuredPass = policy.structuredFinalize !== null;
    const end = hasStructuredPass ? { ...requested, pass1: finalize?.pass1.outcome ?? requested.outcome } : requested;
    this.update({ openReply: null, answered: [], phase: { type: "ended", ending: end } });
    this.#notices.push({ type: "done", ending: end, usage, messages: [], events: [], step });
  }

  /**
   * Answers the open calls that the ending does not list as pending, as cancelled: a thread with an unanswered call is
   * invalid (S2). Ids can repeat, so each pending entry accounts for one open call.
   */
  #answerOpenCalls(pending: readonly PendingToolCall[]): void {
    const { turnId, step, history } = this.#turn;
    const unmatchedIds = pending.map(({ id }) => id);
    const unaccounted = openCalls(history).filter(({ call }) => {
      const index = unmatchedIds.indexOf(call.id);
      if (index !== -1) unmatchedIds.splice(index, 1);
      return index === -1;
    });
    const id = (slot: number) => `${turnId}/${step}/answer/${slot}`;
    this.append(unaccounted.map(({ call, slot }) => this.#cancelCall(call, "the turn ended", id(slot))));
  }

  /** Adds a `log` notice if the configuration asks for traces of model calls. */
  log(event: LogEvent): void {
    if (this.config.emitLlmTrace) this.#notices.push({ type: "log", event });
  }

  /** Adds one `progress` notice with everything that was appended since the last one; nothing new adds none. */
  #reportProgress(): void {
    const { history, reported, events, reportedEvents, step } = this.#turn;
    const messages = itemsOf(history, reported);
    const newRecords = itemsOf(events, reportedEvents);
    if (messages.length === 0 && newRecords.length === 0 && this.#stepEnded === null) return;
    this.#notices.push({ type: "progress", messages, events: newRecords, step, stepEnded: this.#stepEnded });
    this.#stepEnded = null;
    this.update({ reported: history.length, reportedEvents: events.length });
  }
}

/** The message with this id, unless it has one. */
export function withId<M extends Message>(message: M, id: string): M {
  return message.id === null ? { ...message, id } : message;
}
