// Performs the effects of one run: one performer for each type of effect.

import type { OpenSpan, RunChild } from "../../engine/internal.ts";
import type { Permit } from "../../fair/fair-share.ts";
import type { CallTool, Collector, Effect, EffectResponse, Turn } from "../../kernel/internal.ts";
import type { CallerContext, Usage } from "../../model/internal.ts";
import type { Plan } from "../plan/plan.ts";
import type { Ports } from "../ports/ports.ts";
import type { RunLifetime } from "../run-lifetime.ts";
import type { RunSink } from "../run-sink.ts";
import type { RunOrigin, RunSpans } from "../run-spans.ts";
import type { TransitionEvents } from "../transition-events.ts";
import type { ModelPorts } from "./model-attempt.ts";
import type { InnerWait, ToolPorts } from "./tool-job.ts";

import { FairShare } from "../../fair/fair-share.ts";
import { performCheckpoint } from "./checkpoint.ts";
import { performCode } from "./code.ts";
import { performCount } from "./count.ts";
import { performEnvironment } from "./environment.ts";
import { performCompaction, performModel } from "./model.ts";
import { performTool } from "./tool.ts";

/** Creates `context.runChild` for one attempt of a tool call: runs turns inside the tool. */
export type PlanChild = (
  call: CallTool,
  attempt: number,
  signal: AbortSignal,
  /** Receives the usage of each inner turn. */
  addUsage: (usage: Usage) => void,
  /** Called when an inner turn has to wait. The call then waits as well, and its handler is abandoned. */
  onWait: (waits: InnerWait) => void,
  /** The span of the attempt; `null`: it has not started. */
  span: () => OpenSpan | null,
) => RunChild;

/** The parts of a run that its performers use. */
type RunParts<Context extends CallerContext> = {
  readonly plan: Plan<Context>;
  readonly ports: Ports;
  readonly sink: RunSink;
  readonly collector: Collector;
  readonly lifetime: RunLifetime;
  readonly spans: RunSpans;
  readonly transitionEvents: TransitionEvents;
  readonly children: PlanChild;
  readonly openChildren: RunOrigin["openChildren"];
};

export class Performers<Context extends CallerContext> {
  readonly #run: RunParts<Context>;
  /** The tool calls that run at once (`maxConcurrency`). They are granted in order: all have one key. */
  readonly #running: FairShare;
  /** The calls of tools that run one at a time, by tool. */
  readonly #serialTools = new FairShare({ each: 1 });
  /** Calls that wait to start; `null`: no further call starts. */
  #starting: Set<Permit> | null = new Set();

  constructor(run: RunParts<Context>) {
    this.#run = run;
    this.#running = new FairShare({ total: run.plan.limits.maxConcurrency });
  }

  /** Performs an effect. After the abort no effect is started, and the promise stays pending. */
  perform(effect: Effect, turn: Turn): Promise<EffectResponse> {
    const { plan, ports, lifetime, spans, transitionEvents } = this.#run;
    if (lifetime.signal.aborted) return never();
    switch (effect.type) {
      case "sync_environment":
        return performEnvironment(plan, effect, turn);
      case "count_tokens":
        return performCount(plan, this.#modelPorts(), effect, turn);
      case "call_model":
        lifetime.openModelCall(effect.id);
        return performModel(plan, this.#modelPorts(), effect, turn);
      case "compact":
        return performCompaction(plan, this.#modelPorts(), transitionEvents.account, effect, turn);
      case "call_tool":
        return performTool(plan, this.#toolPorts(effect), effect);
      case "run_code":
        return performCode(plan, { signal: lifetime.signal, tenant: ports.scope.tenant, spans }, effect, turn);
      case "checkpoint":
        return performCheckpoint(plan, ports.inbox, transitionEvents.account, effect, turn);
    }
  }

  /** Starts no tool call from now on. Calls that have started go on, with their retries. */
  startNoTools(): void {
    // One that was granted in this moment starts.
    for (const permit of this.#starting ?? []) if (permit.state === "waiting") permit.release();
    this.#starting = null;
  }

  /** Is a tool running whose response the turn has not accepted? */
  get hasRunningTools(): boolean {
    return this.#running.held > 0 || this.#run.lifetime.grace.hasStartedCalls;
  }

  /**
   * Waits for a permit to run a tool call and returns the function that releases it. `isRetry`: the call has held one
   * before, so it gets one after `startNoTools`, too; the promise of another call then stays pending.
   */
  async #acquire(isRetry: boolean): Promise<() => void> {
    if (this.#starting === null && !isRetry) return never();
    const permit = this.#running.request("");
    if (permit.state === "waiting") {
      if (!isRetry) this.#starting?.add(permit);
      await permit.granted;
      this.#starting?.delete(permit);
    }
    return permit.release;
  }

  #modelPorts(): ModelPorts {
    const { plan, ports, sink, collector, lifetime, spans, transitionEvents } = this.#run;
    return {
      sink,
      scope: ports.scope,
      collector,
      signal: lifetime.signal,
      isCancelled: () => lifetime.isCancelled,
      unsettled: lifetime.unsettled,
      answered: transitionEvents.answeredFallback,
      hasEmitted: () => sink.hasEmitted,
      spans,
      timeLeftMs: (plan.limits.budgets.timeMs ?? Number.POSITIVE_INFINITY) - transitionEvents.account.timeMs,
    };
  }

  #toolPorts(effect: CallTool): ToolPorts {
    const { ports, sink, lifetime, spans, children, openChildren } = this.#run;
    return {
      sink,
      scope: ports.scope,
      signal: lifetime.signal,
      acquire: (isRetry) => this.#acquire(isRetry),
      serialTools: this.#serialTools,
      abortHandlers: lifetime.abortHandlers,
      grace: lifetime.grace,
      unsettled: lifetime.unsettled,
      spans,
      openChildren: (attempt) => openChildren?.(effect, attempt) ?? Promise.resolve([]),
      runChild: (attempt, stop, add, onWait, span) => children(effect, attempt, stop, add, onWait, span),
    };
  }
}

/**
 * The response of an effect that gets none. A new promise each time: one that is shared would keep everything that
 * waits for it.
 */
function never(): Promise<never> {
  return new Promise(() => undefined);
}
