// One transition of a turn being worked out: the turn as it becomes, and what the host is to be told of it.

import type { Message, TurnEvent, TurnOutcome, Usage } from "../model/index.ts";
import type { TurnProtocol } from "./protocol.ts";
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

import { addUsage, isTransient, noUsage, runtimeFailure, system, textPart } from "../model/index.ts";
import { ending } from "./ending.ts";
import { appendHistory } from "./history.ts";
import { openCalls } from "./open-calls.ts";
import { DriverContextView } from "./protocol.ts";
import { append, itemsOf } from "./shared-list.ts";
import { answerOf, cancelledAnswer } from "./tool-answer.ts";
import { toEventMessage } from "./turn-cause.ts";

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
    const kept = messages.filter((message) => !isTransient(message.origin));
    this.append(kept.map((message, index) => named(message, `${this.#turn.turnId}/${place}/${index}`)));
    this.show(messages.filter((message) => isTransient(message.origin)));
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
    this.append(fresh.filter(({ id }) => !this.#remembers(id)).map(toEventMessage));
    this.update({ turnCauses: [...this.#turn.turnCauses, ...fresh] });
    return true;
  }

  /** Is a cause of that id in history from an earlier turn? */
  #remembers(id: string): boolean {
    const { entries, length } = this.#turn.history;
    return entries.some((message, index) => index < length && message.role === "event" && message.id === id);
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

  /** Answers whatever the newest reply asked for and nobody answered, with what there is. */
  answerOpenCalls(why: string): void {
    const { phase, turnId, step, history } = this.#turn;
    const answers = openCalls(history).map(({ call, slot }) => {
      const id = `${turnId}/${step}/answer/${slot}`;
      const running = phase.type === "awaiting_tools" && phase.cell === null ? phase : null;
      const known = running?.results[running.calls.findIndex((one) => one.slot === slot)];
      return known?.type === "tool_returned" ? answerOf(call, known, id) : cancelledAnswer(call, why, id);
    });
    this.append(answers);
  }

  fail(outcome: Extract<TurnOutcome, { readonly type: "runtime_error" | "provider_error" }>): void {
    this.emit({ type: "error", error: outcome.failure });
    this.answerOpenCalls("the turn failed");
    this.end(ending(outcome));
  }

  /** The turn is over, for good (K5). */
  end(given: Ending): void {
    this.#tellProgress();
    const { usage, step, finalize, policy } = this.#turn;
    // Where a structured answer was wanted, how the loop ended is told in any case.
    const wanted = policy.structuredFinalize !== null;
    const how = wanted ? { ...given, pass1: finalize?.pass1.outcome ?? given.outcome } : given;
    this.update({ openReply: null, answered: [], phase: { type: "ended", ending: how } });
    this.#notices.push({ type: "done", ending: how, usage, messages: [], events: [], step });
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
