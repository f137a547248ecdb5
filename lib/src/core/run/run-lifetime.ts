// The lifetime of a run: how it is cancelled, what a cancel reports, and what is released at its end.
//
// One AbortController stops all performers, on a cancel and when the run is over. A run is also over when its process
// loses the lease or hands the turn over; then work of the provider must continue, because another process reads it.
// `isCancelled` tells the two apart.
//
// Order of a cancel: read what the collector received, abort the performers, then put the cancel into the journal, with
// the usage of the effects that have no recorded response, so that billed tokens are never lost. If tool handlers are
// running, the cancel follows their responses, or the end of the grace (perform/cancel-grace.ts). Nothing else that
// performers do after the abort reaches readers or the journal.

import type { Cancellation, Collector, Turn } from "../kernel/internal.ts";
import type { CancelEvidence, Usage } from "../model/internal.ts";
import type { RunPlan } from "./plan/plan.ts";
import type { JournalItem, Ports } from "./ports/ports.ts";

import { pendingEffects } from "../kernel/internal.ts";
import { boundedSum, noUsage, toCause } from "../model/internal.ts";
import { CancelGrace } from "./perform/cancel-grace.ts";
import { cancelRecordedWork } from "./perform/reference.ts";

export class RunLifetime {
  /** Aborted by a cancel and when the run is over. */
  readonly signal: AbortSignal;
  readonly grace: CancelGrace;
  /** Usage of effects without a recorded response, by effect id: billed, and not yet in a response. */
  readonly unsettled = new Map<string, Usage>();
  /** Functions that abort the open tool calls. */
  readonly abortHandlers = new Set<() => void>();
  readonly #plan: RunPlan;
  readonly #controller: AbortController;
  readonly #ports: Pick<Ports, "journal" | "scope">;
  readonly #collector: Collector;
  /** The id of the model call whose response is not recorded yet; the draft of the collector belongs to it. */
  #openModelCall: string | null = null;
  #isCancelled = false;

  /** `controller` aborts the signal that the ports have received. */
  constructor(
    plan: RunPlan,
    controller: AbortController,
    ports: Pick<Ports, "journal" | "scope">,
    collector: Collector,
  ) {
    this.#plan = plan;
    this.#controller = controller;
    this.#ports = ports;
    this.#collector = collector;
    this.signal = controller.signal;
    this.grace = new CancelGrace(plan.limits.cancelGraceMs, plan.clock);
  }

  /** Was the signal aborted by a cancel? */
  get isCancelled(): boolean {
    return this.#isCancelled;
  }

  /** Cancels the run when the signal of the caller is aborted. */
  followSignal(): void {
    this.#plan.options.signal?.addEventListener("abort", this.#onAbort, { once: true });
    if (this.#plan.options.signal?.aborted === true) this.#onAbort();
  }

  readonly #onAbort = () => this.cancel({ origin: "signal", reason: reasonOf(this.#plan.options.signal?.reason) });

  /** A model call is performed: the collector receives its events from now on. */
  openModelCall(effectId: string): void {
    this.#openModelCall = effectId;
  }

  /** A journal item is applied to the turn. */
  accept(item: JournalItem, before: Turn): void {
    if (item.type === "cancel" && this.#isCancelled) {
      for (const effect of pendingEffects(before)) {
        if (effect.type !== "call_model" && effect.type !== "compact") continue;
        if (effect.id === this.#openModelCall) continue;
        cancelRecordedWork(this.#plan, this.#ports.scope, effect);
      }
    }
    if (item.type !== "response") return;
    // From here on the usage of the effect is part of its response.
    const { id } = item.response;
    this.unsettled.delete(id);
    this.grace.end(id);
    if (this.#openModelCall === id) this.#openModelCall = null;
  }

  /** Cancels the run. A second call does nothing. */
  cancel({ origin, reason }: Omit<CancelEvidence, "requestId">): void {
    if (this.signal.aborted) return;
    const { journal } = this.#ports;
    const received = this.#collector.partial();
    // The usage of a recorded reply is in its response.
    const openUsage = this.#openModelCall === null ? noUsage : this.#collector.reply().usage;
    const evidence: CancelEvidence = { requestId: this.#plan.requestId, origin, reason };
    const cancellation = (): Cancellation => {
      const usage = [...this.unsettled.values(), openUsage].reduce(boundedSum, noUsage);
      return { evidence, received, usage };
    };
    // An inner turn is also stopped when the run of its tool is over. That is no cancel: another process may continue
    // both.
    this.#isCancelled = this.#plan.options.signal?.reason !== runIsOver;
    const graceIsOver = this.#isCancelled && this.grace.isNeeded ? this.grace.wait() : null;
    this.#abort(new DOMException(reason ?? "cancelled", "AbortError"));
    if (graceIsOver === null) journal.cancel(cancellation());
    else void graceIsOver.then(() => journal.cancelAfterSettled(cancellation));
  }

  /** The run is over: stops what still runs. */
  readonly close = (): void => {
    this.#plan.options.signal?.removeEventListener("abort", this.#onAbort);
    this.grace.close();
    this.#abort(runIsOver);
  };

  #abort(reason: DOMException): void {
    this.#controller.abort(reason);
    for (const abort of this.abortHandlers) abort();
  }
}

/** The abort reason of a run that has ended, or that this process no longer drives. Compared by identity. */
const runIsOver = new DOMException("the run is over", "AbortError");

/** Awaits the work, or the abort of the run, whichever is first. A rejection after the abort is ignored. */
export async function orAborted(work: void | Promise<void> | undefined, signal: AbortSignal): Promise<void> {
  if (work === undefined) return;
  await new Promise<void>((resolve, reject) => {
    const stop = (): void => {
      signal.removeEventListener("abort", stop);
      resolve();
    };
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", stop);
    work.then(stop, (error: unknown) => {
      reject(error);
      stop();
    });
  });
}

function reasonOf(reason: unknown): string {
  return typeof reason === "string" ? reason : (toCause(reason)?.message ?? "the signal was aborted");
}
