// Puts a run together: a plan, ports, performers, and the one loop.

import type { RunChild } from "../engine/index.ts";
import type { Effect, EffectResponse, Turn } from "../kernel/index.ts";
import type { CallerContext, ChatResult, ModelReply, StepResult, TurnEvent, Usage } from "../model/index.ts";
import type { Drive } from "./driver.ts";
import type { Plan, RunPlan } from "./plan.ts";
import type { Inbox, JournalItem, Scope, Sink } from "./ports.ts";
import type { Outlet, Running } from "./turn-stream.ts";

import { startSpan } from "../engine/index.ts";
import { Collector } from "../kernel/index.ts";
import { addUsage, message, noUsage, toCause } from "../model/index.ts";
import { drive } from "./driver.ts";
import { MemoryJournal } from "./memory-journal.ts";
import { Narrator } from "./narrator.ts";
import { performCheckpoint } from "./perform-checkpoint.ts";
import { performCode } from "./perform-code.ts";
import { performEnvironment } from "./perform-environment.ts";
import { performModel } from "./perform-model.ts";
import { performTool } from "./perform-tool.ts";
import { Slots } from "./slots.ts";

/** What a run came to, for every verb to take its own from. */
export type Finished = {
  readonly chat: ChatResult;
  /** The newest step that ended, or the one that was open when the run was left. */
  readonly step: StepResult;
  readonly reply: ModelReply;
  /** What it accepted, in order. */
  readonly journal: readonly JournalItem[];
  /** How many effects were performed, and not replayed. */
  readonly performed: number;
};

/** Which events of a run a reader of this verb gets to see, live ones and entries. */
function isSeen({ verb }: RunPlan, { type }: TurnEvent): boolean {
  if (verb === "chat") return true;
  if (type === "chat_completed") return false;
  return verb === "step" || type !== "step_completed";
}

export function startRun<Context extends CallerContext>(
  plan: Plan<Context>,
  outlet: Outlet,
  children: PlanChild,
  recorded: readonly JournalItem[] = [],
): Running<Finished> {
  const collector = new Collector(plan.thread);
  const narrator = new Narrator(plan, collector);
  const journal = new MemoryJournal(recorded);
  const controller = new AbortController();
  const slots = new Slots(plan.maxConcurrency);
  const stops = new Set<() => void>();
  const unsettled: Unsettled = new Map();
  let spoken = false;
  const span = startSpan(plan.verb, plan.requestId, { sessionId: plan.sessionId }, null, plan.clock.now);
  const { signal } = controller;
  const sink: Sink = {
    // Once a run is cancelled what is still going on is nobody's any more.
    live: (events) => (signal.aborted ? undefined : say(events)),
    commit: async (_, entries) => {
      await orAborted(say(entries), signal);
      for (const entry of entries) {
        if (entry.type !== "step_completed") continue;
        const step = narrator.steps.at(-1);
        if (step !== undefined) await orAborted(plan.stepHooks.afterStep?.(step), signal);
      }
    },
  };
  const scope: Scope = { record: (_, __, work) => work() };
  const inbox: Inbox = {
    claim: async ({ checkpoint }, turn) => {
      const given = (await plan.onCheckpoint?.({ checkpoint, step: turn.step })) ?? null;
      // Checked as they come in: what is no message is told to whoever wrote the function.
      const messages = (given?.messages ?? []).map(message);
      const transientMessages = (given?.transientMessages ?? []).map(message);
      return { messages, transientMessages, turnCauses: [] };
    },
  };

  function say(events: readonly TurnEvent[]): void | Promise<void> {
    spoken ||= events.length > 0;
    const seen = events.every((event) => isSeen(plan, event));
    return outlet.say(seen ? events : events.filter((event) => isSeen(plan, event)));
  }

  function perform(effect: Effect, turn: Turn): Promise<EffectResponse> {
    // A cancel is the next thing the turn hears: nothing is begun any more.
    if (signal.aborted) return new Promise(() => undefined);
    switch (effect.type) {
      case "sync_environment":
        return performEnvironment(plan, effect, turn);
      case "call_model":
        return performModel(
          plan,
          { sink, scope, collector, signal, unsettled, spoken: () => spoken, parentSpan: span.id },
          effect,
          turn,
        );
      case "call_tool":
        return performTool(
          plan,
          { sink, signal, slots, stops, unsettled, parentSpan: span.id, runChild: children },
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

  function cancel(origin: string, reason: string): void {
    if (signal.aborted) return;
    const received = collector.partial();
    const usage = [...unsettled.values(), collector.reply().usage].reduce(plus, noUsage);
    controller.abort(new DOMException(reason, "AbortError"));
    for (const stop of stops) stop();
    journal.cancel({ evidence: { requestId: plan.requestId, origin, reason }, received, usage });
  }

  const onAbort = () => cancel("signal", reasonOf(plan.signal?.reason));
  plan.signal?.addEventListener("abort", onAbort, { once: true });
  if (plan.signal?.aborted === true) onAbort();
  const { config, input } = plan;
  const entries: Drive["entries"] = (item, before, step) => {
    // What an effect has cost is part of its answer, once that is there.
    if (item?.type === "response") unsettled.delete(item.response.id);
    return narrator.entries(item, before, step);
  };
  const result = drive({ config, input, journal, sink, perform, entries }).then(
    (): Finished => {
      const { result: finished, steps, lastReply } = narrator;
      if (finished === null) throw new Error("a turn ended and said nothing of it");
      span.stop({ haltedReason: finished.haltedReason });
      const reply = lastReply ?? collector.reply();
      const step = steps.at(-1) ?? collector.stepResult();
      return { chat: finished, step, reply, journal: journal.items, performed: journal.performed };
    },
    (error: unknown) => {
      span.fail(error);
      throw error;
    },
  );
  const settled = () => {
    plan.signal?.removeEventListener("abort", onAbort);
    controller.abort(new DOMException("the run is over", "AbortError"));
    for (const stop of stops) stop();
  };
  result.then(settled, settled);
  return { result, stop: () => cancel("consumer", "the stream was left early") };
}

/** Runs turns inside tools of this one. */
export type PlanChild = (signal: AbortSignal, booked: (result: ChatResult) => void) => RunChild;

/** What effects under way have cost so far, by their ids: billed, and not yet in any answer. */
type Unsettled = Map<string, Usage>;

/** Waits for something, but not longer than the run lasts. */
async function orAborted(work: void | Promise<void> | undefined, signal: AbortSignal): Promise<void> {
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
