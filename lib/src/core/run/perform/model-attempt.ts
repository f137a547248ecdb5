// One attempt at a model call: reads one stream to its end, of a new request or of work that an earlier process started
// (reference.ts), through the middleware of the engine (middleware-chain.ts). The loops of model.ts decide whether
// another attempt follows.
//
// Events of the stream are live: they are published with effect and attempt, and not stored. The `error` event is not
// forwarded, because the turn decides whether the failure is final and emits it once. With structured output,
// `message_completed` is held back until the output is checked.
//
// Keys of the caller do not appear in failures (`failureWithoutKey`).

import type { Adapter } from "../../engine/internal.ts";
import type { Collector } from "../../kernel/internal.ts";
import type {
  Failure,
  Issue,
  MessageCompleted,
  ModelEvent,
  ModelName,
  ModelReply,
  ModelRequest,
  Usage,
} from "../../model/internal.ts";
import type { RunPlan } from "../plan/plan.ts";
import type { LiveOrigin, Scope, Sink } from "../ports/ports.ts";
import type { RunSpans } from "../run-spans.ts";
import type { MiddlewareChain } from "./middleware-chain.ts";
import type { ModelAttempt } from "./records.ts";
import type { AnsweredFallback } from "./routes.ts";

import { failureWithoutKey, withCosts } from "../../engine/internal.ts";
import { FairTicks } from "../../fair/fair-ticks.ts";
import {
  adapterFailure,
  errorFromFailure,
  isEverturnError,
  renderIssue,
  streamFailure,
  toCause,
} from "../../model/internal.ts";
import { isModelEvent, modelEventShape, read } from "../../model/parse/reading.ts";
import { ProviderWork, RecordFailure } from "./reference.ts";
import { modelId } from "./routes.ts";

/**
 * The ends of replies that are settled in one tick of the event loop, for each tenant. To settle a reply takes some
 * hundred microseconds, up to the result of the run or the next request.
 */
const endsPerTick = 8;
const ends = new FairTicks(endsPerTick);

/** What the run provides to its model calls. */
export type ModelPorts = {
  readonly sink: Sink;
  readonly scope: Scope;
  readonly collector: Collector;
  readonly signal: AbortSignal;
  /** Was the turn cancelled? The signal is aborted also when the run is over for another reason. */
  readonly isCancelled: () => boolean;
  /** Usage of effects without a response yet, by effect id. A cancel reports it. */
  readonly unsettled: Map<string, Usage>;
  /** The fallback that answered earlier in this turn and stays (Q7). */
  readonly answered: AnsweredFallback | null;
  /** Has the run emitted any event, or was the turn accepted durably? */
  readonly hasEmitted: () => boolean;
  readonly spans: RunSpans;
  /** What is left of `budgets.timeMs` when the effect starts, in milliseconds; `Infinity` without such a budget. */
  readonly timeLeftMs: number;
};

/** What all attempts at one model call share. */
export type ModelCall = {
  readonly plan: RunPlan;
  readonly ports: ModelPorts;
  readonly effectId: string;
  /** `null`: the engine has no middleware for model calls. */
  readonly middleware: MiddlewareChain | null;
};

/** The result of one attempt. */
export type Attempt = {
  readonly reply: ModelReply;
  readonly failure: Failure | null;
  /** A part of the answer may have been published. */
  readonly shown: boolean;
  /** At least one event was received. */
  readonly heard: boolean;
  /** The adapter threw before its first event, for example because a key is missing. */
  readonly preflight: boolean;
  /** The attempt read work that an earlier process had started, and sent no request. */
  readonly resumed: boolean;
  /** The record that the attempt was restored from; `null`: it was made by this process. */
  readonly record: ModelAttempt | null;
  /** The `message_completed` event of a reply with structured output, held back until the output is checked. */
  readonly heldCompletion: MessageCompleted | null;
};

/** The origin of the live events of an attempt. */
export function attemptOrigin({ ports, effectId }: ModelCall, number: number): LiveOrigin {
  return { effectId, attempt: { epoch: ports.scope.epoch, n: number } };
}

/** The stream of one attempt, and what was received of it. */
export class ModelStream {
  readonly #call: ModelCall;
  readonly #adapter: Adapter;
  readonly #request: ModelRequest;
  /** The number of the attempt at the model call. */
  readonly #number: number;
  #events = 0;
  /** Tool calls that have started, without those that the provider runs. */
  #toolCalls = 0;
  /** A part of the answer may have been published. */
  #shown = false;
  /** When the first part of the answer was received, in milliseconds; `null`: none was. */
  #shownAt: number | null = null;
  /** The type of the terminal event. */
  #terminal: "message_completed" | "error" | null = null;
  /** What is wrong with the first terminal event that was dropped as invalid; `null`: none was. */
  #invalid: string | null = null;
  #heldCompletion: MessageCompleted | null = null;

  constructor(call: ModelCall, adapter: Adapter, request: ModelRequest, number: number) {
    this.#call = call;
    this.#adapter = adapter;
    this.#request = request;
    this.#number = number;
  }

  /** Reads the stream to its end. `n`: the number of the attempt at this request. */
  async read(n: number): Promise<Attempt> {
    const { plan, ports, effectId } = this.#call;
    const origin = attemptOrigin(this.#call, this.#number);
    const startedAt = plan.clock.now();
    const metadata = {
      provider: this.#adapter.provider,
      model: modelId(this.#request.model),
      attempt: this.#number,
      sessionId: plan.sessionId,
    };
    const span = ports.spans.start("model", effectId, this.#number, metadata, { request: this.#request });
    // The lease may have expired during a retry delay or while the process was paused.
    const ensured = ports.scope.ensure();
    if (ensured instanceof Promise) await ensured;
    let thrown: { readonly error: unknown } | null = null;
    const work = new ProviderWork(ports, effectId, this.#number, this.#adapter, {
      signal: ports.signal,
      requestId: plan.requestId,
      options: plan.adapterOptions,
      apiKey: plan.apiKey,
      rawChunks: plan.options.includeRawChunks === true,
      attempt: n,
      clock: plan.clock,
      beforeRequest: ports.scope.ensure,
    });
    try {
      const batches = this.#open(work)[Symbol.asyncIterator]();
      try {
        for (;;) {
          const next = await span.within(() => batches.next());
          if (next.done === true || ports.signal.aborted) break;
          const events = this.#receive(next.value, work.model);
          if (this.#toolCalls > plan.limits.maxToolCalls) break;
          const backpressure = ports.sink.live(events, origin);
          if (backpressure !== undefined) await backpressure;
        }
      } finally {
        // The iterator is closed and not awaited: an adapter that hangs while closing must not block the run.
        batches.return?.()?.then(undefined, () => undefined);
      }
    } catch (error) {
      if (error instanceof ListenerFailure || error instanceof RecordFailure) throw error.cause;
      thrown = { error };
    }
    // Other readers get their deltas before many replies that end at the same time are settled.
    const tick = ends.next(ports.scope.tenant ?? "");
    if (tick !== null) await tick;
    const reply = ports.collector.reply();
    const rawFailure = ports.signal.aborted ? null : this.#failure(reply, thrown);
    const failure = rawFailure === null ? null : failureWithoutKey(rawFailure, plan.apiKey);
    work.close(failure);
    const { finishReason, id: responseId, model: responseModel, usage } = reply;
    const firstOutputMs = this.#shownAt === null ? null : this.#shownAt - startedAt;
    const result = { finishReason, responseId, responseModel, usage, firstOutputMs };
    if (failure === null) span.stop(result, { reply });
    else span.fail(errorFromFailure(failure), result, { reply });
    return {
      reply,
      failure,
      shown: this.#shown,
      heard: this.#events > 0,
      preflight: thrown !== null && this.#events === 0,
      resumed: work.isResumed,
      record: null,
      heldCompletion: this.#heldCompletion,
    };
  }

  /** The events of the attempt: those of the adapter, or of the outermost middleware. */
  #open(work: ProviderWork): AsyncIterable<readonly ModelEvent[]> {
    const { middleware, ports } = this.#call;
    const { signal, collector } = ports;
    // The turn was cancelled while the lease was renewed: an adapter that ignores its signal would send the request.
    if (signal.aborted) return noEvents;
    if (middleware === null) return work.open(this.#request);
    const { provider, endpoint = null } = this.#adapter;
    const attempt = { n: this.#number, signal, provider, endpoint, request: this.#request };
    return middleware.model(
      attempt,
      (changed) => work.open(changed),
      (usage) => {
        // After the end of the attempt the collector holds another reply.
        if (!work.isClosed && !signal.aborted) collector.add({ type: "usage", usage });
      },
    );
  }

  /**
   * Adds a batch of events to the collector and returns those to publish. Invalid events, and events after the terminal
   * one, are dropped. The batch is copied only if something in it is dropped or changed.
   */
  #receive(batch: readonly ModelEvent[], model: ModelName | null): readonly ModelEvent[] {
    const { plan, ports } = this.#call;
    const { onEvent } = plan.options;
    let filtered: ModelEvent[] | null = null;
    for (const [index, event] of batch.entries()) {
      const accepted = this.#accept(event, model);
      if (accepted === null || accepted !== event) filtered ??= batch.slice(0, index);
      if (accepted === null) continue;
      this.#events += 1;
      ports.collector.add(accepted);
      const isHeld =
        accepted.type === "message_completed" && plan.output !== null && this.#request.responseFormat !== null;
      if (isHeld) this.#heldCompletion = accepted;
      // The turn decides whether a failure ends the step, and emits the error event then: once.
      if (isHeld || accepted.type === "error") filtered ??= batch.slice(0, index);
      else filtered?.push(accepted);
      if (onEvent !== undefined) callListener(() => onEvent(accepted));
    }
    if (this.#shown) this.#shownAt ??= plan.clock.now();
    return filtered ?? batch;
  }

  /**
   * The event in its valid form; `null`: it is dropped. Adapters may be written by users, so every event is checked
   * (deltas by a fast path).
   */
  #accept(event: ModelEvent, model: ModelName | null): ModelEvent | null {
    switch (event?.type) {
      case "text_delta":
      case "reasoning_delta":
        if (this.#terminal !== null || typeof event.delta !== "string") return null;
        this.#shown = true;
        return event;
      case "usage":
        return isModelEvent(event) ? { ...event, usage: withCosts(event.usage, model) } : null;
      case "raw_chunk":
        return isModelEvent(event) ? event : null;
      case "warning":
        // A warning is about the request: it shows nothing of the answer, so the attempt may still be retried.
        return this.#terminal === null && isModelEvent(event) ? event : null;
      case "message_completed":
      case "error": {
        if (this.#terminal !== null) return null;
        // Parsing adds the fields that an adapter left out.
        const parsed = read(modelEventShape, event);
        if ("issues" in parsed) {
          this.#invalid ??= invalidTerminal(event, parsed.issues);
          return null;
        }
        const { value: terminal } = parsed;
        if (terminal.type !== "message_completed" && terminal.type !== "error") return null;
        this.#terminal = terminal.type;
        const { plan } = this.#call;
        if (terminal.type === "error") return { ...terminal, error: failureWithoutKey(terminal.error, plan.apiKey) };
        // Without a schema to check it with, a reply has no structured output.
        const output = plan.output === null ? null : terminal.output;
        return { ...terminal, output, requestId: terminal.requestId ?? plan.requestId };
      }
      case "message_started":
        return this.#terminal === null && isModelEvent(event) ? event : null;
      default:
        if (this.#terminal !== null || !isModelEvent(event)) return null;
        this.#shown = true;
        if (event.type === "tool_call_started" && !event.providerExecuted) this.#toolCalls += 1;
        return event;
    }
  }

  /**
   * The failure of the attempt; `null`: it succeeded. In order: the error event, too many tool calls, a terminal event
   * (success, whatever was thrown after it), the failure of an Everturn error, any other exception, a terminal event
   * that is invalid (an unknown finish reason), and a stream that stopped without one (E1).
   */
  #failure(reply: ModelReply, thrown: { readonly error: unknown } | null): Failure | null {
    const { provider } = this.#adapter;
    const { maxToolCalls } = this.#call.plan.limits;
    if (reply.error !== null) return reply.error;
    if (Math.max(this.#toolCalls, reply.toolCalls.length) > maxToolCalls) {
      const message = `the reply has more than ${maxToolCalls} tool calls (maxToolCalls), so none of them runs`;
      return adapterFailure("malformed_response", { provider, message, code: "too_many_tool_calls" });
    }
    if (this.#terminal !== null) return null;
    const everturnFailure = thrown === null ? null : failureOfError(thrown.error);
    if (everturnFailure !== null) return everturnFailure;
    if (thrown !== null) {
      const cause = toCause(thrown.error);
      const details = { provider, cause };
      const message = cause?.message ?? "the adapter threw";
      return this.#events === 0
        ? adapterFailure("unknown", { ...details, message })
        : streamFailure("interrupted", { ...details, message, eventIndex: this.#events });
    }
    if (this.#invalid !== null) return adapterFailure("malformed_response", { provider, message: this.#invalid });
    const message = `the stream stopped after ${this.#events} events without a terminal event`;
    return streamFailure("interrupted", { provider, message, eventIndex: this.#events });
  }
}

const noEvents: AsyncIterable<readonly ModelEvent[]> = {
  [Symbol.asyncIterator]: () => ({ next: async () => ({ done: true, value: undefined }) }),
};

/** Wraps an exception of the caller's `onEvent`, so that it is not taken for a failure of the provider. */
class ListenerFailure extends Error {}

function callListener(call: () => void): void {
  try {
    call();
  } catch (cause) {
    throw new ListenerFailure("a listener threw", { cause });
  }
}

/**
 * Describes a terminal event that an adapter sent and that is invalid. A finish reason outside of the closed list is
 * named.
 */
function invalidTerminal(
  event: Extract<ModelEvent, { readonly type: "message_completed" | "error" }>,
  issues: readonly Issue[],
): string {
  const { finishReason } = { finishReason: null, ...event };
  const isUnknownWord = issues.some(({ path, code }) => path.at(-1) === "finishReason" && code === "unknown");
  const word = isUnknownWord ? ` with the unknown finish reason ${JSON.stringify(String(finishReason))}` : "";
  return `the adapter sent an invalid ${event.type} event${word}: ${issues.map(renderIssue).join("; ")}`;
}

/**
 * The failure of an Everturn error; otherwise `null`. A thrown value can be anything, also an object whose getters
 * throw.
 */
function failureOfError(thrown: unknown): Failure | null {
  try {
    return isEverturnError(thrown) ? thrown.failure : null;
  } catch {
    return null;
  }
}
