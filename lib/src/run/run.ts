// Puts a run together: a plan, ports, performers, and the one loop.

import type { RunChild } from "../engine/internal.ts";
import type { CallTool, Effect, EffectResponse, Turn } from "../kernel/internal.ts";
import type { CallerContext, CancelEvidence, ChatResult, ModelReply, StepResult, Usage } from "../model/internal.ts";
import type { Drive } from "./driver.ts";
import type { InnerWait } from "./perform/tool-job.ts";
import type { Plan } from "./plan/plan.ts";
import type { Ports, Sink } from "./ports/ports.ts";
import type { Running } from "./turn-stream.ts";

import { startSpan } from "../engine/internal.ts";
import { Collector, pendingEffects } from "../kernel/internal.ts";
import { addUsage, noUsage, toCause } from "../model/internal.ts";
import { drive } from "./driver.ts";
import { Narrator } from "./narrator.ts";
import { performCheckpoint } from "./perform/checkpoint.ts";
import { performCode } from "./perform/code.ts";
import { performEnvironment } from "./perform/environment.ts";
import { performModel } from "./perform/model.ts";
import { cancelLeftWork } from "./perform/reference.ts";
import { Slots } from "./perform/slots.ts";
import { performTool } from "./perform/tool.ts";

/** What a run came to, for every verb to take its own from. */
export type Finished = {
  readonly chat: ChatResult;
  /** The newest step that ended, or the one that was open when the run was left. */
  readonly step: StepResult;
  readonly reply: ModelReply;
};

/** A run under way: what it comes to, and how to end it before it does. */
export type Started = Running<Finished> & {
  /** Ends it, with who asked for that and why. */
  readonly cancel: (evidence: Omit<CancelEvidence, "requestId">) => void;
};

/** Runs turns inside tools of this one: for a try of the call, with its signal, telling what each has cost. */
export type PlanChild = (
  call: CallTool,
  attempt: number,
  signal: AbortSignal,
  booked: (usage: Usage) => void,
  /** A turn inside has to wait for somebody: so does the call, and its handler is left where it is. */
  waits: (waits: InnerWait) => void,
) => RunChild;

export function startRun<Context extends CallerContext>(
  plan: Plan<Context>,
  portsOf: (signal: AbortSignal) => Ports,
  children: PlanChild,
): Started {
  const collector = new Collector(plan.thread);
  const narrator = new Narrator(plan, collector);
  const controller = new AbortController();
  const slots = new Slots(plan.maxConcurrency);
  const stops = new Set<() => void>();
  const unsettled: Unsettled = new Map();
  /** The model call under way: what the collector hears is of that one, and of the last one before it. */
  let asked: string | null = null;
  const span = startSpan(plan.verb, plan.requestId, { sessionId: plan.sessionId }, null, plan.clock.now);
  const { signal } = controller;
  const { journal, inbox, scope, accepted, sink: outer } = portsOf(signal);
  let spoken = accepted;
  let cancelled = false;
  const sink: Sink = {
    // Once a run is cancelled what is still going on is nobody's any more.
    live: (events, of) => {
      if (signal.aborted) return;
      spoken ||= events.length > 0;
      return outer.live(events, of);
    },
    commit: async (transition, entries, item) => {
      spoken ||= entries.length > 0;
      const committed = await outer.commit(transition, entries, item);
      if (committed === "replayed" || !entries.some(({ type }) => type === "step_completed")) return committed;
      const step = narrator.steps.at(-1);
      try {
        if (step !== undefined) await orAborted(plan.stepHooks.afterStep?.(step), signal);
      } catch (error) {
        if (journal.fail === undefined || transition.turn.phase.type === "ended") throw error;
        journal.fail("afterStep was called", error);
      }
      return committed;
    },
  };

  function perform(effect: Effect, turn: Turn): Promise<EffectResponse> {
    // A cancel is the next thing the turn hears: nothing is begun any more.
    if (signal.aborted) return new Promise(() => undefined);
    switch (effect.type) {
      case "sync_environment":
        return performEnvironment(plan, effect, turn);
      case "call_model":
        asked = effect.id;
        return performModel(
          plan,
          {
            sink,
            scope,
            collector,
            signal,
            isCancelled: () => cancelled,
            unsettled,
            answered: narrator.answeredFallback,
            spoken: () => spoken,
            parentSpan: span.id,
          },
          effect,
          turn,
        );
      case "call_tool":
        return performTool(
          plan,
          {
            sink,
            scope,
            signal,
            slots,
            stops,
            unsettled,
            parentSpan: span.id,
            runChild: (attempt, stop, booked, waits) => children(effect, attempt, stop, booked, waits),
          },
          effect,
        );
      case "run_code":
        return plan.protocol.type === "code"
          ? performCode(plan, plan.protocol, signal, span.id, effect, turn)
          : Promise.reject(new Error("this engine runs no code"));
      case "checkpoint":
        return performCheckpoint(plan, inbox, narrator.account, effect, turn);
    }
  }

  function cancel({ origin, reason }: Omit<CancelEvidence, "requestId">): void {
    if (signal.aborted) return;
    const received = collector.partial();
    // A reply that has been settled is paid for in its answer.
    const heard = asked === null ? noUsage : collector.reply().usage;
    const usage = [...unsettled.values(), heard].reduce(plus, noUsage);
    // A turn inside a tool also ends this way when the run around it is over; another process may continue both.
    cancelled = plan.signal?.reason !== runIsOver;
    controller.abort(new DOMException(reason ?? "cancelled", "AbortError"));
    for (const stop of stops) stop();
    journal.cancel({ evidence: { requestId: plan.requestId, origin, reason }, received, usage });
  }

  const onAbort = () => cancel({ origin: "signal", reason: reasonOf(plan.signal?.reason) });
  plan.signal?.addEventListener("abort", onAbort, { once: true });
  if (plan.signal?.aborted === true) onAbort();
  const { config, input } = plan;
  const entries: Drive["entries"] = (item, before, step) => {
    if (item?.type === "cancel" && cancelled && before !== null) {
      for (const effect of pendingEffects(before))
        if (effect.type === "call_model" && effect.id !== asked) cancelLeftWork(plan, scope, effect);
    }
    // What an effect has cost is part of its answer, once that is there.
    if (item?.type === "response") {
      unsettled.delete(item.response.id);
      if (asked === item.response.id) asked = null;
    }
    return narrator.entries(item, before, step);
  };
  const result = drive({ config, input, journal, sink, perform, entries }).then(
    (): Finished => {
      const { result: finished, steps, lastReply } = narrator;
      if (finished === null) throw new Error("a turn ended and said nothing of it");
      span.stop({ haltedReason: finished.haltedReason });
      const reply = lastReply ?? collector.reply();
      const step = steps.at(-1) ?? collector.stepResult();
      return { chat: finished, step, reply };
    },
    (error: unknown) => {
      span.fail(error);
      throw error;
    },
  );
  const settled = () => {
    plan.signal?.removeEventListener("abort", onAbort);
    controller.abort(runIsOver);
    for (const stop of stops) stop();
  };
  result.then(settled, settled);
  return { result, cancel, stop: () => cancel({ origin: "consumer", reason: "the stream was left early" }) };
}

/** Why the signal of a run is aborted that has ended, or is no longer driven here. */
const runIsOver = new DOMException("the run is over", "AbortError");

/** What effects under way have cost so far, by their ids: billed, and not yet in any answer. */
type Unsettled = Map<string, Usage>;

/** Waits for something, but not longer than the run lasts. */
export async function orAborted(work: void | Promise<void> | undefined, signal: AbortSignal): Promise<void> {
  if (work === undefined || signal.aborted) return;
  const done = new AbortController();
  const aborted = new Promise<void>((resolve) => {
    signal.addEventListener("abort", () => resolve(), { once: true, signal: done.signal });
  });
  try {
    await Promise.race([work, aborted]);
  } finally {
    done.abort();
  }
}

function plus(sum: Usage, more: Usage): Usage {
  const total = addUsage(sum, more);
  return total.ok ? total.value : sum;
}

function reasonOf(reason: unknown): string {
  return typeof reason === "string" ? reason : (toCause(reason)?.message ?? "the signal was aborted");
}
