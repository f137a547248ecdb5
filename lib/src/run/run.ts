// Puts a run together: a plan, ports, performers, and the one loop.

import type { RunChild } from "../engine/index.ts";
import type { Effect, EffectResponse, Turn } from "../kernel/index.ts";
import type { CallerContext, ChatResult, ModelReply, StepResult, TurnEvent } from "../model/index.ts";
import type { Plan, RunPlan } from "./plan.ts";
import type { Inbox, JournalItem, Scope, Sink } from "./ports.ts";
import type { Outlet, Running } from "./turn-stream.ts";

import { startSpan } from "../engine/index.ts";
import { Collector } from "../kernel/index.ts";
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
  const span = startSpan(plan.verb, plan.requestId, { sessionId: plan.sessionId }, null, plan.clock.now);
  const { signal } = controller;
  const sink: Sink = {
    // Once a run is cancelled what is still going on is nobody's any more.
    live: (events) => (signal.aborted ? undefined : say(events)),
    commit: async (_, entries) => {
      await say(entries);
      for (const entry of entries) {
        if (entry.type !== "step_completed") continue;
        const step = narrator.steps.at(-1);
        if (step !== undefined) await plan.stepHooks.afterStep?.(step);
      }
    },
  };
  const scope: Scope = { record: (_, __, work) => work() };
  const inbox: Inbox = {
    claim: async ({ checkpoint }, turn) => {
      const given = (await plan.onCheckpoint?.({ checkpoint, step: turn.step })) ?? null;
      return { messages: given?.messages ?? [], transientMessages: given?.transientMessages ?? [], turnCauses: [] };
    },
  };

  function say(events: readonly TurnEvent[]): void | Promise<void> {
    const seen = events.every((event) => isSeen(plan, event));
    return outlet.say(seen ? events : events.filter((event) => isSeen(plan, event)));
  }

  function perform(effect: Effect, turn: Turn): Promise<EffectResponse> {
    switch (effect.type) {
      case "sync_environment":
        return performEnvironment(plan, effect, turn);
      case "call_model":
        return performModel(plan, { sink, scope, collector, signal, parentSpan: span.id }, effect, turn);
      case "call_tool":
        return performTool(plan, { sink, signal, slots, parentSpan: span.id, runChild: children }, effect);
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
    const { usage } = collector.reply();
    controller.abort(new DOMException(reason, "AbortError"));
    journal.cancel({ evidence: { requestId: plan.requestId, origin, reason }, received, usage });
  }

  const onAbort = () => cancel("signal", reasonOf(plan.signal?.reason));
  plan.signal?.addEventListener("abort", onAbort, { once: true });
  if (plan.signal?.aborted === true) onAbort();
  const { config, input } = plan;
  const result = drive({ config, input, journal, sink, perform, entries: narrator.entries }).then(
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
  };
  result.then(settled, settled);
  return { result, stop: () => cancel("consumer", "the stream was left early") };
}

/** Runs turns inside tools of this one. */
export type PlanChild = (signal: AbortSignal, booked: (result: ChatResult) => void) => RunChild;

function reasonOf(reason: unknown): string {
  return reason instanceof Error ? reason.message : typeof reason === "string" ? reason : "the signal was aborted";
}
