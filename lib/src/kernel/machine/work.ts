// One transition of a turn being worked out: the turn as it becomes, and what the host is to be told of it.

import type { Message, PendingToolCall, ToolMessage, TurnEvent, TurnOutcome, Usage } from "../../model/internal.ts";
import type { TurnProtocol } from "../protocol/protocol.ts";
import type {
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

import { addUsage, isTransient, noUsage, runtimeFailure, system, textPart } from "../../model/internal.ts";
import { appendHistory } from "../history/history.ts";
import { append, itemsOf } from "../history/shared-list.ts";
import { toEventMessage } from "../history/turn-cause.ts";
import { cellBrokenOff, cellNote } from "../protocol/cell-note.ts";
import { ending } from "../protocol/ending.ts";
import { waitOf } from "../protocol/halts.ts";
import { openCalls } from "../protocol/open-calls.ts";
import { DriverContextView } from "../protocol/protocol.ts";
import { replyStepEnd } from "../protocol/reply-message.ts";
import { answerOf, cancelledAnswer } from "../protocol/tool-answer.ts";
import { callEffectId } from "./turn.ts";

/** Lives no longer than the call that made it. */
export class Work<P extends TurnProtocol> {
  readonly config: TurnMachineConfig<P>;
  readonly #notices: Notice<P>[] = [];
  #turn: Turn<P>;
  #stepEnded: EndedStep | null = null;

  constructor(config: TurnMachineConfig<P>, turn: Turn<P>) {
    this.config = config;
    this.#turn = turn;
  }

  get turn(): Turn<P> {
    return this.#turn;
  }

  /** What a protocol gets to see. */
  get view(): DriverContextView<P> {
    return new DriverContextView(this.config, this.#turn);
  }

  transition(): Transition<P> {
    this.#tellProgress();
    return { turn: this.#turn, notices: this.#notices, status: "accepted" };
  }

  update(fields: Partial<Turn<P>>): void {
    this.#turn = { ...this.#turn, ...fields };
  }

  wait(phase: Turn<P>["phase"]): void {
    this.update({ phase });
  }

  append(messages: readonly Message[]): void {
    this.update({ history: appendHistory(this.#turn.history, messages) });
  }

  record(events: readonly P["event"][]): void {
    this.update({ events: append(this.#turn.events, events) });
  }

  /** Adds input: to history, or, where it is said to be transient, to what is shown in this turn only. */
  addInput(messages: readonly Message[], place: string): void {
    for (const [index, message] of messages.entries()) {
      if (isTransient(message.origin)) this.show([message]);
      else this.append([named(message, `${this.#turn.turnId}/${place}/${index}`)]);
    }
  }

  /** Adds messages that are not kept as history. */
  show(messages: readonly Message[]): void {
    const at = this.#turn.history.length;
    const shown = messages.map((message) => ({ at, message }));
    this.update({ transient: append(this.#turn.transient, shown) });
  }

  /** Adds causes, each once; false when there was none that is new. */
  addCauses(causes: TurnInput["turnCauses"]): boolean {
    const known = new Set(this.#turn.turnCauses.map((cause) => cause.id));
    const fresh = causes.filter((cause) => !known.has(cause.id) && known.add(cause.id));
    if (fresh.length === 0) return false;
    this.append(fresh.map(toEventMessage));
    this.update({ turnCauses: [...this.#turn.turnCauses, ...fresh] });
    return true;
  }

  /** Adds what made the turn happen. What an earlier turn has written down already is not written again. */
  addStartCauses(causes: TurnInput["turnCauses"]): void {
    if (causes.length === 0) return;
    const written = new Set(itemsOf(this.#turn.history).map(({ role, id }) => (role === "event" ? id : null)));
    const known = causes.filter(
      ({ id }, index) => written.has(id) && causes.findIndex((one) => one.id === id) === index,
    );
    this.update({ turnCauses: known });
    this.addCauses(causes);
  }

  nextStep(free: number): void {
    const { step, runOffset } = this.#turn;
    this.update({ step: step + 1, runOffset: runOffset + free, stepUsage: noUsage, openReply: null, answered: [] });
  }

  /** The next step is the one call beyond the limit. */
  grantGraceTurn(): void {
    this.update({ graceTurn: true });
    this.sayTurnLimit();
  }

  sayTurnLimit(): void {
    const { turnId, step, policy } = this.#turn;
    if (policy.turnLimitFinalMessage === null) return;
    const origin = { type: "plugin", pluginId: "turn_limit", transient: false } as const;
    const parts = [textPart(policy.turnLimitFinalMessage, { kind: "error" })];
    this.append([system(parts, { id: `${turnId}/${step}/turn_limit`, origin })]);
  }

  emit(event: TurnEvent): void {
    this.#notices.push({ type: "emit", event });
  }

  endStep(step: StepEnd): void {
    const { step: number, stepUsage: usage } = this.#turn;
    this.#stepEnded = { ...step, step: number, usage };
  }

  /** Books what was spent; false when the sum is no longer a number one can count on, which ends the turn. */
  spend(usage: Usage): boolean {
    const sum = addUsage(this.#turn.usage, usage);
    const ofStep = addUsage(this.#turn.stepUsage, usage);
    if (sum.ok && ofStep.ok) {
      this.update({ usage: sum.value, stepUsage: ofStep.value });
      return true;
    }
    const message = sum.ok ? "the tokens of a step are more than can be counted" : sum.failure.message;
    this.fail({ type: "runtime_error", failure: runtimeFailure("token_usage_overflow", { message }) });
    return false;
  }

  /**
   * Ends the open step as far as it got. Open calls are answered: with their result if they have one, otherwise as cancelled. A call whose outcome is
   * unknown and which a person has to decide stays pending, and is returned. Calls of a cell are told to the model in a note.
   */
  breakOff(why: string): readonly PendingToolCall[] {
    const { phase, turnId, step, history, openReply } = this.#turn;
    const running = phase.type === "awaiting_tools" && phase.cell === null ? phase : null;
    const pending: PendingToolCall[] = [];
    const toolResults = openCalls(history).flatMap(({ call, slot }): readonly ToolMessage[] => {
      const id = `${turnId}/${step}/answer/${slot}`;
      const index = running?.calls.findIndex((one) => one.slot === slot) ?? -1;
      const result = running?.results[index] ?? null;
      if (result?.type === "tool_returned") return [answerOf(call, result, id)];
      if (result?.type === "tool_waits" && result.reason === "outcome_unknown") {
        const idempotencyKey = running?.calls[index]?.idempotencyKey ?? callEffectId(this.#turn, slot);
        pending.push(...waitOf({ call, slot, result, idempotencyKey }, null));
        return [];
      }
      return [cancelledAnswer(call, this.#isApproved(slot) ? `${why}; its approval was deleted` : why, id)];
    });
    this.append(toolResults);
    const cell = phase.type === "awaiting_tools" || phase.type === "awaiting_code" ? phase.cell : null;
    if (cell !== null) this.append([cellNote(cellBrokenOff(cell, phase, why), `${turnId}/${step}/observation`)]);
    if (openReply !== null) this.endStep({ ...replyStepEnd(openReply), toolResults, pendingToolCalls: pending });
    return pending;
  }

  /** Is this a call that was approved for this turn and has no result yet? */
  #isApproved(slot: number): boolean {
    const { phase, approved } = this.#turn;
    if (approved.some((one) => one.slot === slot)) return true;
    return phase.type === "awaiting_tools" && phase.calls.some((one) => one.slot === slot && one.decision !== null);
  }

  fail(outcome: Extract<TurnOutcome, { readonly type: "runtime_error" | "provider_error" }>): void {
    this.emit({ type: "error", error: outcome.failure });
    const pendingToolCalls = this.breakOff("the turn failed");
    this.end({ ...ending(outcome), pendingToolCalls });
  }

  /** The turn is over, for good (K5). */
  end(given: Ending): void {
    this.#answerForgotten(given.pendingToolCalls);
    this.#tellProgress();
    const { usage, step, finalize, policy } = this.#turn;
    // Where a structured answer was wanted, how the loop ended is told in any case.
    const wanted = policy.structuredFinalize !== null;
    const how = wanted ? { ...given, pass1: finalize?.pass1.outcome ?? given.outcome } : given;
    this.update({ openReply: null, answered: [], phase: { type: "ended", ending: how } });
    this.#notices.push({ type: "done", ending: how, usage, messages: [], events: [], step });
  }

  /** Whatever a protocol left open and did not name as pending is answered: a thread with an open call cannot be gone on with (S2). */
  #answerForgotten(pending: readonly PendingToolCall[]): void {
    const { turnId, step, history } = this.#turn;
    const left = pending.map(({ id }) => id);
    const forgotten = openCalls(history).filter(({ call }) => {
      const index = left.indexOf(call.id);
      if (index !== -1) left.splice(index, 1);
      return index === -1;
    });
    const id = (slot: number) => `${turnId}/${step}/answer/${slot}`;
    this.append(forgotten.map(({ call, slot }) => cancelledAnswer(call, "the turn ended", id(slot))));
  }

  log(event: LogEvent): void {
    if (this.config.emitLlmTrace) this.#notices.push({ type: "log", event });
  }

  /** Tells the host what is new, once for all that one transition added. */
  #tellProgress(): void {
    const { history, reported, events, reportedEvents, step } = this.#turn;
    const messages = itemsOf(history, reported);
    const recorded = itemsOf(events, reportedEvents);
    if (messages.length === 0 && recorded.length === 0 && this.#stepEnded === null) return;
    this.#notices.push({ type: "progress", messages, events: recorded, step, stepEnded: this.#stepEnded });
    this.#stepEnded = null;
    this.update({ reported: history.length, reportedEvents: events.length });
  }
}

/** The message with a name of its own, if it has none. */
export function named<M extends Message>(message: M, id: string): M {
  return message.id === null ? { ...message, id } : message;
}
