// The sink of a run: publishes events through the sink of the ports, ends spans when their results are written, and
// calls the hooks `afterStep` and `afterTurn`.

import type { Transition } from "../kernel/internal.ts";
import type { TurnEvent } from "../model/internal.ts";
import type { RunPlan } from "./plan/plan.ts";
import type { Committed, JournalItem, LiveOrigin, Ports, Replaced, Sink } from "./ports/ports.ts";
import type { RunSpans } from "./run-spans.ts";
import type { TransitionEvents } from "./transition-events.ts";

import { withText } from "../model/internal.ts";
import { orAborted } from "./run-lifetime.ts";

export class RunSink implements Sink {
  readonly #plan: RunPlan;
  readonly #ports: Ports;
  readonly #signal: AbortSignal;
  readonly #spans: RunSpans;
  readonly #transitionEvents: TransitionEvents;
  #hasEmitted: boolean;

  constructor(plan: RunPlan, ports: Ports, signal: AbortSignal, spans: RunSpans, transitionEvents: TransitionEvents) {
    this.#plan = plan;
    this.#ports = ports;
    this.#signal = signal;
    this.#spans = spans;
    this.#transitionEvents = transitionEvents;
    this.#hasEmitted = ports.accepted;
  }

  /** Has the run emitted any event, or was the turn accepted durably? */
  get hasEmitted(): boolean {
    return this.#hasEmitted;
  }

  /** Publishes live events. After the abort, those of performers that are still running are dropped. */
  live(events: readonly TurnEvent[], of: LiveOrigin): void | Promise<void> {
    if (this.#signal.aborted) return;
    this.#hasEmitted ||= events.length > 0;
    return this.#ports.sink.live(events, of);
  }

  async commit(
    transition: Transition,
    events: readonly TurnEvent[],
    item: JournalItem | null,
  ): Promise<Committed | Replaced> {
    this.#hasEmitted ||= events.length > 0;
    const committed = await this.#ports.sink.commit(transition, events, item);
    if (typeof committed === "object") return committed;
    this.#spans.commit(transition, item, committed);
    // Hooks run once for a step and for a turn: not for one that is replayed.
    if (committed === "replayed") return committed;
    const ended = transition.turn.phase.type === "ended";
    if (events.some(({ type }) => type === "step_completed")) await this.#callAfterStep(ended);
    if (ended) await this.#callAfterTurn();
    return committed;
  }

  async #callAfterStep(ended: boolean): Promise<void> {
    const { journal } = this.#ports;
    const step = this.#transitionEvents.steps.at(-1);
    try {
      if (step !== undefined)
        await orAborted(this.#plan.hooks.afterStep?.(withText(step, step.response)), this.#signal);
    } catch (error) {
      if (journal.fail === undefined) throw error;
      if (ended) this.#spans.failAfterEnd(error);
      else journal.fail("afterStep was called", error);
    }
  }

  async #callAfterTurn(): Promise<void> {
    const { result } = this.#transitionEvents;
    if (result === null || this.#plan.verb === "generate") return;
    try {
      await this.#plan.hooks.afterTurn?.(withText(result, result.finalResponse));
    } catch (error) {
      if (this.#ports.journal.fail === undefined) throw error;
      this.#spans.failAfterEnd(error);
    }
  }
}
