// Assembles a run: a plan (plan/), ports (ports/), one performer for each effect (perform/), and the driver (driver.ts).
//
// The file owns the lifetime of a run:
//   - one AbortController that stops all performers, on a cancel and when the run is over;
//   - `unsettled`: the usage of effects whose response is not recorded yet. A cancel reports it, so that billed tokens are never lost;
//   - `cancelled`: whether the signal was aborted by a cancel. A run also ends when its process loses the lease or hands the turn over; then work of the provider
//     must continue, because another process reads it.
//
// Order of a cancel: read what the collector received, abort the performers, then put the cancel into the journal, with the usage of the effects that have no recorded
// response. If tool handlers are running, the cancel follows their responses, or the end of the grace (perform/cancel-grace.ts). Nothing else that performers do
// after the abort reaches readers or the journal.

import type { OpenSpan, RunChild } from "../engine/internal.ts";
import type { CallTool, Cancellation, Effect, EffectResponse, ProtocolDriver, Turn } from "../kernel/internal.ts";
import type { CallerContext, CancelEvidence, ChatResult, ModelReply, StepResult, Usage } from "../model/internal.ts";
import type { Drive } from "./driver.ts";
import type { InnerWait, ToolPorts } from "./perform/tool-job.ts";
import type { Plan, RunPlan } from "./plan/plan.ts";
import type { Committed, Ports, Sink } from "./ports/ports.ts";
import type { RunOrigin } from "./run-spans.ts";
import type { Running } from "./turn-stream.ts";

import { chatProtocol, codeProtocol, Collector, pendingEffects } from "../kernel/internal.ts";
import { EngineError, exactSum, noUsage, toCause } from "../model/internal.ts";
import { drive } from "./driver.ts";
import { CancelGrace } from "./perform/cancel-grace.ts";
import { performCheckpoint } from "./perform/checkpoint.ts";
import { performCode } from "./perform/code.ts";
import { performEnvironment } from "./perform/environment.ts";
import { performModel } from "./perform/model.ts";
import { cancelRecordedWork } from "./perform/reference.ts";
import { Semaphore } from "./perform/semaphore.ts";
import { performTool } from "./perform/tool.ts";
import { noOrigin, RunSpans } from "./run-spans.ts";
import { TransitionEvents } from "./transition-events.ts";

/** The results of a run. Each verb returns one of them. */
export type Finished = {
  readonly chat: ChatResult;
  /** The last completed step, or the step that was open when the run ended. */
  readonly step: StepResult;
  readonly reply: ModelReply;
};

/** A started run: its result, and how to end it early. */
export type Started = Running<Finished> & {
  /** Cancels the run. The evidence says who asked for it and why. A second call does nothing. */
  readonly cancel: (evidence: Omit<CancelEvidence, "requestId">) => void;
  /** The run has stopped, and the response that its last commit held is written now: its span ends. */
  readonly recordHeld: () => void;
};

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

/** Starts a run: drives the turn of a plan over the given ports. The ports get the signal that is aborted when the run ends. */
export function startRun<Context extends CallerContext>(
  plan: Plan<Context>,
  portsOf: (signal: AbortSignal) => Ports,
  children: PlanChild,
  origin: RunOrigin = noOrigin,
): Started {
  const collector = new Collector(plan.thread);
  const transitionEvents = new TransitionEvents(plan, collector);
  const controller = new AbortController();
  const semaphore = new Semaphore(plan.maxConcurrency);
  const serialTools = new Map<string, Semaphore>();
  const abortHandlers = new Set<() => void>();
  const grace = new CancelGrace(plan.cancelGraceMs, plan.clock);
  const unsettled: Unsettled = new Map();
  /** The id of the model call whose response is not recorded yet; the draft of the collector belongs to it. */
  let openModelCall: string | null = null;
  const spans = new RunSpans(plan, origin);
  const span = spans.root;
  /** How the end of the turn was committed; `null`: it has not ended. */
  let endCommit: Committed | null = null;
  const { signal } = controller;
  const { journal, inbox, scope, accepted, sink: outer } = portsOf(signal);
  let hasEmitted = accepted;
  let cancelled = false;
  /** What a hook threw after a durable turn had ended. The end is stored, so the error is only reported to telemetry. */
  let lateError: { readonly error: unknown } | null = null;
  const sink: Sink = {
    // After the abort, live events of performers that are still running are dropped.
    live: (events, of) => {
      if (signal.aborted) return;
      hasEmitted ||= events.length > 0;
      return outer.live(events, of);
    },
    commit: async (transition, events, item) => {
      hasEmitted ||= events.length > 0;
      const committed = await outer.commit(transition, events, item);
      if (committed === "fresh" || committed === "held") {
        if (item?.type === "response") spans.accept(item.response);
        if (committed === "fresh") spans.recordAccepted();
      }
      if (transition.turn.phase.type === "ended") {
        endCommit = committed;
        if (committed === "fresh") spans.endAll();
      }
      // Hooks run once for a step and for a turn: not for one that is replayed.
      if (committed === "replayed") return committed;
      const ended = transition.turn.phase.type === "ended";
      if (events.some(({ type }) => type === "step_completed")) await callAfterStep(ended);
      if (ended) await callAfterTurn();
      return committed;
    },
  };

  async function callAfterStep(ended: boolean): Promise<void> {
    const step = transitionEvents.steps.at(-1);
    try {
      if (step !== undefined) await orAborted(plan.loopHooks.afterStep?.(step), signal);
    } catch (error) {
      if (journal.fail === undefined) throw error;
      if (ended) lateError ??= { error };
      else journal.fail("afterStep was called", error);
    }
  }

  async function callAfterTurn(): Promise<void> {
    const { result: finished } = transitionEvents;
    if (finished === null || plan.verb === "generate") return;
    try {
      await plan.loopHooks.afterTurn?.(finished);
    } catch (error) {
      if (journal.fail === undefined) throw error;
      lateError ??= { error };
    }
  }

  function perform(effect: Effect, turn: Turn): Promise<EffectResponse> {
    // The run is cancelled: no effect is started, and the promise stays pending.
    if (signal.aborted) return never();
    switch (effect.type) {
      case "sync_environment":
        return performEnvironment(plan, effect, turn);
      case "call_model":
        openModelCall = effect.id;
        return performModel(
          plan,
          {
            sink,
            scope,
            collector,
            signal,
            isCancelled: () => cancelled,
            unsettled,
            answered: transitionEvents.answeredFallback,
            hasEmitted: () => hasEmitted,
            spans,
            timeLeftMs: (plan.budgets.timeMs ?? Number.POSITIVE_INFINITY) - transitionEvents.account.timeMs,
          },
          effect,
          turn,
        );
      case "call_tool":
        return performToolCall(effect);
      case "run_code":
        return performCode(plan, { signal, tenant: scope.tenant, spans }, effect, turn);
      case "checkpoint":
        return performCheckpoint(plan, inbox, transitionEvents.account, effect, turn);
    }
  }

  function performToolCall(effect: CallTool): Promise<EffectResponse> {
    const ports: ToolPorts = {
      sink,
      scope,
      signal,
      semaphore,
      serialTools,
      abortHandlers,
      grace,
      unsettled,
      spans,
      openChildren: (attempt) => origin.openChildren?.(effect, attempt) ?? Promise.resolve([]),
      runChild: (attempt, stop, add, onWait, toolSpan) => children(effect, attempt, stop, add, onWait, toolSpan),
    };
    return performTool(plan, ports, effect);
  }

  function cancel({ origin, reason }: Omit<CancelEvidence, "requestId">): void {
    if (signal.aborted) return;
    const received = collector.partial();
    // The usage of a recorded reply is in its response.
    const openUsage = openModelCall === null ? noUsage : collector.reply().usage;
    const evidence: CancelEvidence = { requestId: plan.requestId, origin, reason };
    const cancellation = (): Cancellation => {
      const usage = [...unsettled.values(), openUsage].reduce(plus, noUsage);
      return { evidence, received, usage };
    };
    // An inner turn is also stopped when the run of its tool is over. That is no cancel: another process may continue both.
    cancelled = plan.signal?.reason !== runIsOver;
    const graceIsOver = cancelled && grace.isNeeded ? grace.wait() : null;
    controller.abort(new DOMException(reason ?? "cancelled", "AbortError"));
    for (const abort of abortHandlers) abort();
    if (graceIsOver === null) journal.cancel(cancellation());
    else void graceIsOver.then(() => journal.cancelAfterSettled(cancellation));
  }

  const onAbort = () => cancel({ origin: "signal", reason: reasonOf(plan.signal?.reason) });
  plan.signal?.addEventListener("abort", onAbort, { once: true });
  if (plan.signal?.aborted === true) onAbort();
  const { input } = plan;
  const eventsOf: Drive["eventsOf"] = (item, before, transition) => {
    if (item?.type === "cancel" && cancelled && before !== null) {
      for (const effect of pendingEffects(before))
        if (effect.type === "call_model" && effect.id !== openModelCall) cancelRecordedWork(plan, scope, effect);
    }
    // From here on the usage of the effect is part of its response.
    if (item?.type === "response") {
      unsettled.delete(item.response.id);
      grace.end(item.response.id);
      if (openModelCall === item.response.id) openModelCall = null;
    }
    return transitionEvents.eventsOf(item, before, transition);
  };
  const start = async () => {
    const config = { ...plan.config, protocolDriver: protocolOf(plan) };
    return drive({ config, input, journal, sink, perform, eventsOf });
  };
  const result = span.within(start).then(
    (): Finished => {
      const { result: finished, steps, lastReply } = transitionEvents;
      if (finished === null) throw new Error("the turn ended without a done notice");
      const { haltedReason, usage } = finished;
      const ended = { haltedReason, usage, steps: finished.steps.length };
      const failure = "failure" in finished.outcome ? finished.outcome.failure : null;
      if (lateError !== null) span.fail(lateError.error, ended);
      else if (failure !== null) span.stop({ ...ended, error: failure.reason });
      else span.stop(ended);
      if (endCommit === "fresh") span.record();
      else if (endCommit === "replayed") span.discard();
      const reply = lastReply ?? collector.reply();
      const step = steps.at(-1) ?? collector.stepResult();
      return { chat: finished, step, reply };
    },
    (error: unknown) => {
      span.fail(error);
      if (!accepted) {
        spans.endAll();
        span.record();
      }
      throw error;
    },
  );
  const cleanUp = () => {
    plan.signal?.removeEventListener("abort", onAbort);
    controller.abort(runIsOver);
    grace.close();
    for (const abort of abortHandlers) abort();
  };
  result.then(cleanUp, cleanUp);
  const recordHeld = () => spans.recordAccepted();
  return {
    result,
    cancel,
    recordHeld,
    stop: () => cancel({ origin: "consumer", reason: "the stream was left early" }),
  };
}

/** The abort reason of a run that has ended, or that this process no longer drives. Compared by identity. */
const runIsOver = new DOMException("the run is over", "AbortError");

/**
 * The protocol of a turn. Throws `EngineError` if the engine of this process does not have the protocol or the projector that the turn was accepted with: a durable turn
 * is then continued by another process.
 */
function protocolOf({ pinned: { protocol }, ownProtocol, missing }: RunPlan): ProtocolDriver {
  if (missing.length > 0) throw missingParts(missing);
  switch (protocol.type) {
    case "own":
      if (ownProtocol === null) throw missingParts([protocol.name]);
      return ownProtocol;
    case "chat":
      return chatProtocol(protocol);
    case "code":
      return codeProtocol(protocol);
  }
}

function missingParts(missing: readonly string[]): EngineError {
  const message = `the turn was started with ${missing.join(" and ")}, and the engine of this process does not have it: use the release that has it, or add that version to \`earlier\``;
  return new EngineError("invalid_engine", { message, metadata: { missing } });
}

/** The response of an effect that gets none. A new promise each time: one that is shared would keep everything that waits for it. */
function never(): Promise<never> {
  return new Promise(() => undefined);
}

/** Usage of effects without a recorded response, by effect id: billed, and not yet in a response. */
type Unsettled = Map<string, Usage>;

/** Awaits the work, or the abort of the run, whichever is first. A rejection after the abort is ignored. */
export async function orAborted(work: void | Promise<void> | undefined, signal: AbortSignal): Promise<void> {
  if (work === undefined) return;
  const done = new AbortController();
  const aborted = new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true, signal: done.signal });
  });
  try {
    await Promise.race([aborted, work]);
  } finally {
    done.abort();
  }
}

/** The sum; an addend that would overflow it is left out. */
function plus(sum: Usage, addend: Usage): Usage {
  return exactSum(sum, addend) ?? sum;
}

function reasonOf(reason: unknown): string {
  return typeof reason === "string" ? reason : (toCause(reason)?.message ?? "the signal was aborted");
}
