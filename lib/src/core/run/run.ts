// Assembles a run: a plan (plan/), ports (ports/), its lifetime (run-lifetime.ts), its spans (run-spans.ts), its sink
// (run-sink.ts), one performer for each effect (perform/), and the driver (driver.ts).

import type { ProtocolDriver } from "../kernel/internal.ts";
import type { CallerContext, CancelEvidence, ChatResult, ModelReply, StepResult } from "../model/internal.ts";
import type { PlanChild } from "./perform/perform.ts";
import type { Plan, RunPlan } from "./plan/plan.ts";
import type { Ports } from "./ports/ports.ts";
import type { RunOrigin } from "./run-spans.ts";
import type { Running } from "./turn-stream.ts";

import { chatProtocol, codeProtocol, Collector } from "../kernel/internal.ts";
import { EngineError } from "../model/internal.ts";
import { drive } from "./driver.ts";
import { Performers } from "./perform/perform.ts";
import { RunLifetime } from "./run-lifetime.ts";
import { RunSink } from "./run-sink.ts";
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
  /** Starts no tool call from now on. Calls that have started go on, with their retries. */
  readonly startNoTools: () => void;
  /** Is a tool running whose response the turn has not accepted? */
  readonly hasRunningTools: () => boolean;
  /** The run has stopped, and the response that its last commit held is written now: its span ends. */
  readonly recordHeld: () => void;
};

/**
 * Starts a run: drives the turn of a plan over the given ports. The ports get the signal that is aborted when the run
 * ends.
 */
export function startRun<Context extends CallerContext>(
  plan: Plan<Context>,
  portsOf: (signal: AbortSignal) => Ports,
  children: PlanChild,
  origin: RunOrigin = noOrigin,
): Started {
  const collector = new Collector(plan.thread);
  const transitionEvents = new TransitionEvents(plan, collector);
  const spans = new RunSpans(plan, origin);
  const controller = new AbortController();
  const ports = portsOf(controller.signal);
  const lifetime = new RunLifetime(plan, controller, ports, collector);
  const sink = new RunSink(plan, ports, lifetime.signal, spans, transitionEvents);
  const { openChildren } = origin;
  const parts = { plan, ports, sink, collector, lifetime, spans, transitionEvents, children, openChildren };
  const performers = new Performers(parts);
  lifetime.followSignal();
  const run = async (): Promise<Finished> => {
    await drive({
      config: { ...plan.config, protocolDriver: protocolOf(plan) },
      input: plan.input,
      journal: ports.journal,
      sink,
      perform: (effect, turn) => performers.perform(effect, turn),
      eventsOf: (item, before, transition) => {
        if (item !== null && before !== null) lifetime.accept(item, before);
        return transitionEvents.eventsOf(item, before, transition);
      },
    });
    const { result: chat, steps, lastReply } = transitionEvents;
    if (chat === null) throw new Error("the turn ended without a done notice");
    return { chat, step: steps.at(-1) ?? collector.stepResult(), reply: lastReply ?? collector.reply() };
  };
  const result = spans.root.within(run).then(
    (finished) => {
      spans.end(finished.chat);
      return finished;
    },
    (error: unknown) => {
      spans.reject(error, ports.accepted);
      throw error;
    },
  );
  result.then(lifetime.close, lifetime.close);
  return {
    result,
    cancel: (evidence) => lifetime.cancel(evidence),
    recordHeld: () => spans.recordAccepted(),
    startNoTools: () => performers.startNoTools(),
    hasRunningTools: () => performers.hasRunningTools,
    stop: () => lifetime.cancel({ origin: "consumer", reason: "the stream was left early" }),
  };
}

/**
 * The protocol of a turn. Throws `EngineError` if the engine of this process does not have the protocol or the
 * projector that the turn was accepted with: a durable turn is then continued by another process.
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
