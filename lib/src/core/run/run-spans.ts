// The spans of one run: one for the verb, and one for each attempt of its model calls, tool calls and code cells.
//
// When a span ends for observers (core/engine/span-observer.ts)
//   an attempt that is followed by another one   when its record is written
//   an attempt that gives the response           when the response is committed
//   the verb                                     when the end of the turn is committed
//   work that runs at the end of the turn        with the verb, as cancelled
// A durable run that stops without an end, because its process lost the lease or shuts down, ends no further span: the
// process that continues the turn starts them again under the same keys. A replayed commit ends no span. A run in
// memory that rejects ends all of its spans.

import type { OpenSpan, SpanInput, SpanName } from "../engine/internal.ts";
import type { CallTool, Transition } from "../kernel/internal.ts";
import type { ChatResult, JsonObject } from "../model/internal.ts";
import type { RunPlan } from "./plan/plan.ts";
import type { Committed, JournalItem } from "./ports/ports.ts";

import { startSpan } from "../engine/internal.ts";
import { modelId } from "./perform/routes.ts";

/** What a run is a part of, for its spans. */
export type RunOrigin = {
  /** The span of the tool call in which the run takes place; `null`: none. */
  readonly parent: OpenSpan | null;
  /** The turn is durable: its spans have keys. */
  readonly durable: boolean;
  /** The trace context that was stored when the durable turn was accepted. */
  readonly trace: JsonObject | null;
  /** When the durable turn was accepted, in milliseconds; `null`: the span starts now. */
  readonly acceptedAt: number | null;
  /** The name under which the runtime knows the engine; `null`: it has none. */
  readonly agent: string | null;
  /**
   * The keys of the turns inside an attempt of a tool call that were begun and have not ended. Absent: such turns are
   * not durable.
   */
  readonly openChildren?: (effect: CallTool, attempt: number) => Promise<readonly string[]>;
};

/** The origin of a run in memory that no tool call has started. */
export const noOrigin: RunOrigin = { parent: null, durable: false, trace: null, acceptedAt: null, agent: null };

export class RunSpans {
  /** The span of the verb. */
  readonly root: OpenSpan;
  readonly #plan: RunPlan;
  readonly #isDurable: boolean;
  /** The spans of effects that have not ended for observers, by effect id. */
  readonly #open = new Map<string, OpenSpan[]>();
  /** Effects whose response is accepted and not written yet. */
  #held: { readonly effectId: string; readonly waits: boolean }[] = [];
  /** How the end of the turn was committed; `null`: it has not ended. */
  #endCommit: Committed | null = null;
  /** What a hook threw after a durable turn had ended. */
  #lateError: { readonly error: unknown } | null = null;

  constructor(plan: RunPlan, { parent, durable, trace, acceptedAt, agent }: RunOrigin) {
    this.#plan = plan;
    this.#isDurable = durable;
    const { sessionId, requestId, clock, config, adapter } = plan;
    const model = modelId(config.model);
    this.root = startSpan(
      plan.verb,
      requestId,
      { sessionId, provider: adapter.provider, model, ...(agent === null ? {} : { agent }) },
      parent,
      clock.now,
      {
        key: durable ? plan.input.turnId : null,
        trace,
        held: true,
        ...(acceptedAt === null ? {} : { startedAt: acceptedAt }),
      },
    );
  }

  /** Starts the span of an attempt of an effect. */
  start(name: SpanName, effectId: string, attempt: number, metadata: JsonObject, input: SpanInput): OpenSpan {
    const { requestId, clock, input: turnInput } = this.#plan;
    const key = this.#isDurable ? `${turnInput.turnId}/${effectId}/${attempt}` : null;
    const span = startSpan(name, requestId, metadata, this.root, clock.now, { key, input, held: true });
    const spans = this.#open.get(effectId);
    if (spans === undefined) this.#open.set(effectId, [span]);
    else spans.push(span);
    return span;
  }

  /** Starts and ends the span of a turn inside a call that no process continues. */
  lostChild(key: string, parent: OpenSpan): void {
    const { requestId, clock, sessionId } = this.#plan;
    startSpan("chat", requestId, { sessionId }, parent, clock.now, { key }).stop({ error: "outcome_unknown" });
  }

  /** An attempt that another one follows is recorded: ends the spans of the effect whose work has ended. */
  recordAttempts(effectId: string): void {
    const spans = this.#open.get(effectId) ?? [];
    for (const span of spans) if (span.hasStopped()) span.record(abandoned);
    this.#open.set(
      effectId,
      spans.filter((span) => !span.hasStopped()),
    );
  }

  /**
   * A transition is committed. The spans of an accepted response end with the next written commit, all others with the
   * end of the turn.
   */
  commit({ turn }: Transition, item: JournalItem | null, committed: Committed): void {
    if (committed === "fresh" || committed === "held") {
      // A call that waits is run again, and its inner turns are continued then; their spans stay open.
      if (item?.type === "response" && this.#open.has(item.response.id))
        this.#held.push({ effectId: item.response.id, waits: item.response.type === "tool_waits" });
      if (committed === "fresh") this.recordAccepted();
    }
    if (turn.phase.type !== "ended") return;
    this.#endCommit = committed;
    if (committed === "fresh") this.#endAll();
  }

  /**
   * The accepted responses are written: ends their spans. A handler that still runs, because a turn inside it waits,
   * ends without an error.
   */
  recordAccepted(): void {
    for (const { effectId, waits } of this.#held) {
      for (const span of this.#open.get(effectId) ?? []) span.record(waits ? undefined : abandoned);
      this.#open.delete(effectId);
    }
    this.#held = [];
  }

  /**
   * A hook threw after a durable turn had ended. The end is stored, so the error is only reported with the span of the
   * verb. The first one counts.
   */
  failAfterEnd(error: unknown): void {
    this.#lateError ??= { error };
  }

  /** The run has a result: ends the span of the verb. */
  end({ haltedReason, usage, steps, outcome }: ChatResult): void {
    const ended = { haltedReason, usage, steps: steps.length };
    if (this.#lateError !== null) this.root.fail(this.#lateError.error, ended);
    else this.root.stop("failure" in outcome ? { ...ended, error: outcome.failure.reason } : ended);
    if (this.#endCommit === "fresh") this.root.record();
    else if (this.#endCommit === "replayed") this.root.discard();
  }

  /**
   * The run was rejected. Unless its turn was accepted durably, nothing of it is continued elsewhere: all spans end.
   */
  reject(error: unknown, accepted: boolean): void {
    this.root.fail(error);
    if (accepted) return;
    this.#endAll();
    this.root.record();
  }

  #endAll(): void {
    for (const spans of this.#open.values()) for (const span of spans) span.record(abandoned);
    this.#open.clear();
    this.#held = [];
  }
}

/** The error of work that had not ended when the work around it did. */
const abandoned = { type: "cancelled", message: "the work around it ended first" };
