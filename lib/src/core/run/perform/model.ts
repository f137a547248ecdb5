// The performer of `call_model`: makes one model call, with retries, fallback models and a check of structured output.
//
// Nested loops, from the outside in:
//   make     routes: the model of the environment, then each fallback (routes.ts), until one replies
//   #ask     repairs: a reply that does not match the output schema is sent back with the issues, at most `repair` times
//   #retry   retry with exponential backoff and jitter (engine's retry policy), for failures that may pass; not after output was published, unless
//            `afterOutput` is set
//   #once    one stream, read to its end, through the middleware of the engine (middleware-chain.ts)
//
// Attempts are numbered from 1 over all loops and over all processes that perform the effect. An attempt that is
// followed by another one is recorded first (Q2): a process that takes over does not repeat it, and its usage is kept.
// A stream whose provider continues without a connection is resumed by the process that takes over instead of sent
// again (reference.ts). A model call is otherwise at-least-once: after a crash in the middle of an attempt the request
// is sent again.
//
// Events of the stream are live: they are published with effect and attempt, and not stored. `step_reset` withdraws the
// events of a failed attempt (Q7). The `error` event is not forwarded, because the turn decides whether the failure is
// final and emits it once. With structured output, `message_completed` is held back until the output is checked.
//
// Invariants
//   1. No request is sent by a process that may have lost its lease: the scope checks before each attempt and before
//      each request (Q1).
//   2. Every attempt's usage is counted once: in `spent` of the response, in its reply, or in `unsettled` while the
//      effect is open.
//   3. Keys of the caller do not appear in failures (`failureWithoutKey`).

import type { Adapter, Checked } from "../../engine/internal.ts";
import type {
  CallModel,
  Compact,
  Compacted,
  CompactionFailed,
  ModelFailed,
  ModelReplied,
  Turn,
} from "../../kernel/internal.ts";
import type {
  Failure,
  Issue,
  Json,
  MessageCompleted,
  ModelEvent,
  ModelName,
  ModelReply,
  ModelRequest,
  TurnEvent,
  Usage,
} from "../../model/internal.ts";
import type { Shape } from "../../model/parse/reading.ts";
import type { RunPlan } from "../plan/plan.ts";
import type { LiveOrigin, Scope, Sink } from "../ports/ports.ts";
import type { RunSpans } from "../run-spans.ts";
import type { ModelAttempt } from "./records.ts";
import type { AnsweredFallback } from "./routes.ts";

import {
  checkValue,
  delayBefore,
  failureWithoutKey,
  isRetryable,
  emitTelemetry,
  withCosts,
} from "../../engine/internal.ts";
import { FairTicks } from "../../fair/fair-ticks.ts";
import {
  Collector,
  modelFailed,
  modelReplied,
  projectRequest,
  projectSummaryRequest,
  storableReply,
} from "../../kernel/internal.ts";
import {
  adapterFailure,
  exactSum,
  assistant,
  errorFromFailure,
  isEverturnError,
  modelReply,
  noUsage,
  parseJson,
  renderIssue,
  replyText,
  runtimeFailure,
  streamFailure,
  toCause,
  user,
  validationFailure,
} from "../../model/internal.ts";
import {
  failureShape,
  isModelEvent,
  modelEventShape,
  read,
  replyShape,
  toolCallShape,
  usageShape,
} from "../../model/parse/reading.ts";
import { MiddlewareChain } from "./middleware-chain.ts";
import { attemptName, pause, readModelAttempt } from "./records.ts";
import { ProviderWork, RecordFailure } from "./reference.ts";
import { modelId, routesOf } from "./routes.ts";

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

/** The result of one attempt. */
type Attempt = {
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
};

/**
 * Makes a model call and returns its response. Rejects with a typed error if the first call of a run fails before any
 * event (so that awaited and streaming verbs throw the same error), if a listener of the caller throws, or if a record
 * cannot be written.
 */
export async function performModel(
  plan: RunPlan,
  ports: ModelPorts,
  effect: CallModel,
  turn: Turn,
): Promise<ModelReplied | ModelFailed> {
  const startedAt = plan.clock.now();
  const isFirstEvent = !ports.hasEmitted();
  await plan.hooks.beforeStep?.(effect.step);
  const request = projectRequest(plan.config, turn);
  const calls = new ModelCalls(plan, ports, effect, MiddlewareChain.of(plan, "model", ports.scope, effect.id));
  // The request is repeated with fewer tokens: what was received of the refused one is withdrawn.
  if (turn.overflowed) await calls.withdraw();
  const { attempt, model } = await calls.make(request);
  const { reply, failure } = attempt;
  const durationMs = plan.clock.now() - startedAt;
  const { spent, noted } = calls;
  if (failure === null) return modelReplied(effect.id, storable(reply), { model, spent, durationMs, ...noted });
  // A failure before the first event of a run is thrown as a typed error instead of being folded into the result.
  if (attempt.preflight && isFirstEvent && !ports.hasEmitted()) throw errorFromFailure(failure);
  return modelFailed(effect.id, failure, { partial: storable(reply), spent, durationMs, ...noted });
}

/** How often the summary of one compaction is requested, over all processes. */
const maxSummaryStarts = 2;

/**
 * Asks a model for the summary of a compaction. Readers get no events of it. Each start is recorded first, with the
 * frame and its range: after two processes have crashed before the summary was recorded, no third one asks for it.
 */
export async function performCompaction(
  plan: RunPlan,
  ports: ModelPorts,
  effect: Compact,
  turn: Turn,
): Promise<Compacted | CompactionFailed> {
  const startedAt = plan.clock.now();
  const { id, frame, from, to } = effect;
  const { scope } = ports;
  let starts = 0;
  while (scope.find(id, `start/${starts + 1}`) !== null) starts += 1;
  if (starts >= maxSummaryStarts) {
    const message = `the summary of the frame ${frame} was requested ${starts} times, and no process has recorded it`;
    const failure = runtimeFailure("takeover_limit", { message });
    return { type: "compaction_failed", id, failure, usage: noUsage, spent: noUsage, durationMs: 0 };
  }
  await scope.record(id, `start/${starts + 1}`, { frame, from, to });
  const { onEvent: _, ...options } = plan.options;
  const calls = new ModelCalls(
    { ...plan, options, output: null },
    { ...ports, sink: quietSink, collector: new Collector(plan.thread), answered: null },
    effect,
    MiddlewareChain.of(plan, "model", scope, id),
  );
  const { attempt } = await calls.make(projectSummaryRequest(plan.config, turn));
  const { failure } = attempt;
  const reply = storable(attempt.reply);
  const { spent, noted } = calls;
  const fields = { id, usage: reply.usage, spent, durationMs: plan.clock.now() - startedAt, ...noted };
  if (failure !== null) return { type: "compaction_failed", failure, ...fields };
  return { type: "compacted", summary: replyText(reply) ?? "", model: reply.model, ...fields };
}

/** The sink of a model call without readers. */
const quietSink: Sink = {
  live: () => undefined,
  commit: () => {
    throw new Error("a performer commits nothing");
  },
};

const noEvents: AsyncIterable<readonly ModelEvent[]> = {
  [Symbol.asyncIterator]: () => ({ next: async () => ({ done: true, value: undefined }) }),
};

/** The attempts of one `call_model` effect. */
class ModelCalls {
  readonly #plan: RunPlan;
  readonly #ports: ModelPorts;
  readonly #effect: CallModel | Compact;
  readonly #startedAt: number;
  /** `null`: the engine has no middleware for model calls. */
  readonly #middleware: MiddlewareChain | null;
  /** The usage of all attempts before the last one. */
  spent: Usage = noUsage;
  #lastUsage: Usage = noUsage;
  /** The number of the current attempt. */
  #attempts = 0;
  /** The `message_completed` event of a reply with structured output, held back until the output is checked. */
  #heldCompletion: MessageCompleted | null = null;

  constructor(plan: RunPlan, ports: ModelPorts, effect: CallModel | Compact, middleware: MiddlewareChain | null) {
    this.#plan = plan;
    this.#ports = ports;
    this.#effect = effect;
    this.#startedAt = plan.clock.now();
    this.#middleware = middleware;
  }

  /** Withdraws what readers and the collector have received of the model call before. */
  async withdraw(): Promise<void> {
    await this.#reset("retry", true);
  }

  /** What middleware did, for the response. */
  get noted(): MiddlewareChain["noted"] {
    return this.#middleware?.noted ?? {};
  }

  /**
   * Asks the model, then the fallbacks, until one replies. A reply that is only invalid (`validation_error`) does not
   * go to a fallback.
   */
  async make(request: ModelRequest): Promise<{ readonly attempt: Attempt; readonly model: ModelName | null }> {
    const [first, ...others] = routesOf(this.#plan, request.model, this.#ports.answered);
    let last = await this.#ask(first.adapter, request);
    let model: ModelName | null = null;
    for (const route of others) {
      if (last.failure === null || this.#ports.signal.aborted) break;
      if (last.failure.type === "validation_error") break;
      await this.#recordAttempt(last, last.failure);
      await this.#reset("fallback", last.heard);
      last = await this.#ask(route.adapter, { ...request, model: route.model });
      model = route.changed;
    }
    return { attempt: last, model: last.failure === null ? model : null };
  }

  /**
   * Asks one model, with retries. A reply that does not match the output schema is sent back with its issues, up to
   * `repair` times.
   */
  async #ask(adapter: Adapter, request: ModelRequest): Promise<Attempt> {
    const maxRepairs = this.#plan.output?.repair ?? 0;
    let currentRequest = request;
    for (let repair = 0; ; repair += 1) {
      const attempt = await this.#retry(adapter, currentRequest);
      const checked = attempt.failure === null ? await this.#check(currentRequest, attempt) : null;
      if (checked === null || checked.ok || repair >= maxRepairs || this.#ports.signal.aborted)
        return this.#releaseCompletion(attempt, checked);
      await this.#recordAttempt(attempt, validationFailure("invalid_output", { issues: checked.issues }));
      await this.#reset("retry", attempt.heard);
      const repairMessages = [assistant(replyText(attempt.reply) ?? ""), user(repairPrompt(checked.issues))];
      currentRequest = { ...request, messages: [...request.messages, ...repairMessages] };
    }
  }

  /**
   * Publishes the held `message_completed` event, with the checked output, and returns the attempt with its final
   * reply.
   */
  async #releaseCompletion(attempt: Attempt, checked: Checked<Json> | null): Promise<Attempt> {
    const completion = this.#heldCompletion;
    this.#heldCompletion = null;
    if (completion !== null) {
      const event = checked?.ok === true ? { ...completion, output: { value: checked.value } } : completion;
      this.#ports.collector.add(event);
      await this.#emitLive([event], this.#attempts);
    }
    const reply = completion === null ? attempt.reply : this.#ports.collector.reply();
    if (checked === null || checked.ok) return { ...attempt, reply };
    const error = validationFailure("invalid_output", { issues: checked.issues });
    return { ...attempt, reply: { ...reply, finishReason: "error", error } };
  }

  /** Makes attempts at one request until one succeeds, fails for good, or the retry policy allows no more. */
  async #retry(adapter: Adapter, request: ModelRequest): Promise<Attempt> {
    const { retry, clock } = this.#plan;
    const { scope, signal } = this.#ports;
    for (let n = 1; ;) {
      this.#attempts += 1;
      const attempt = this.#recall() ?? (await this.#once(adapter, request, n));
      const { failure, shown, heard } = attempt;
      if (failure === null || signal.aborted) return attempt;
      // The provider no longer has the work, or could not finish it: the request is sent, as after any other crash.
      // This does not count as a retry.
      if (attempt.resumed && !shown && !attempt.preflight) {
        await this.#recordAttempt(attempt, failure);
        await this.#reset("retry", heard);
        continue;
      }
      if (n >= retry.maxAttempts) return attempt;
      if (!isRetryable(retry, failure) || (shown && !retry.afterOutput)) return attempt;
      await this.#recordAttempt(attempt, failure);
      const isDue = await pause({
        scope,
        clock,
        signal,
        effectId: this.#effect.id,
        n: this.#attempts,
        delayOf: () => this.#withinBudget(delayBefore(retry, n, failure, clock.random())),
        announce: (delayMs) => this.#announceRetry(adapter, n, delayMs, failure),
      });
      if (!isDue) return attempt;
      await this.#reset("retry", heard);
      n += 1;
    }
  }

  /** The delay, at most what is left of the time budget of the turn; `null`: nothing is left. */
  #withinBudget(delayMs: number): number | null {
    const leftMs = this.#ports.timeLeftMs - (this.#plan.clock.now() - this.#startedAt);
    return leftMs > 0 ? Math.min(delayMs, leftMs) : null;
  }

  /** Reports a retry to telemetry and emits `retry_scheduled`. */
  async #announceRetry(adapter: Adapter, attempt: number, delayMs: number, failure: Failure): Promise<void> {
    const { requestId, retry } = this.#plan;
    emitTelemetry({
      type: "retry",
      requestId,
      provider: adapter.provider,
      attempt,
      delayMs,
      reason: failure.reason,
    });
    const { maxAttempts } = retry;
    const event = { type: "retry_scheduled", maxAttempts, delayMs, error: failure } as const;
    await this.#emitLive([{ ...event, ...this.#origin(this.#attempts) }], this.#attempts);
  }

  /**
   * The current attempt as an earlier process recorded it: it is not repeated, and its usage is counted. `null`: not
   * recorded.
   */
  #recall(): Attempt | null {
    const { scope, unsettled } = this.#ports;
    const record = readModelAttempt(scope.find(this.#effect.id, attemptName(this.#attempts)));
    if (record === null) return null;
    const { failure, usage, shown, heard, resumed } = record;
    const reply = record.reply ?? modelReply({ finishReason: "error", error: failure, usage });
    this.#addUsage(usage);
    // The collector of this process received no events of the attempt, so all of its usage is unsettled.
    unsettled.set(this.#effect.id, this.#total());
    return { reply, failure: record.reply === null ? failure : null, shown, heard, preflight: false, resumed, record };
  }

  /** Records an attempt that another one follows, before anything else happens. */
  async #recordAttempt({ reply, failure, shown, heard, resumed, record }: Attempt, reason: Failure): Promise<void> {
    if (record !== null) return;
    const attemptRecord: ModelAttempt = {
      failure: reason,
      usage: reply.usage,
      shown,
      heard,
      reply: failure === null ? storable(reply) : null,
      resumed,
    };
    await this.#ports.scope.record(this.#effect.id, attemptName(this.#attempts), attemptRecord);
    this.#ports.spans.recordAttempts(this.#effect.id);
  }

  /**
   * One attempt: reads one stream to its end, of a new request or of work that an earlier process started. `n`: the
   * attempt at this request.
   */
  async #once(adapter: Adapter, request: ModelRequest, n: number): Promise<Attempt> {
    const { plan, ports } = { plan: this.#plan, ports: this.#ports };
    const origin = this.#origin(this.#attempts);
    const startedAt = plan.clock.now();
    const metadata = {
      provider: adapter.provider,
      model: modelId(request.model),
      attempt: this.#attempts,
      sessionId: plan.sessionId,
    };
    const span = ports.spans.start("model", this.#effect.id, this.#attempts, metadata, { request });
    // The lease may have expired during a retry delay or while the process was paused.
    const ensured = ports.scope.ensure();
    if (ensured instanceof Promise) await ensured;
    const progress: StreamProgress = {
      events: 0,
      toolCalls: 0,
      shown: false,
      shownAt: null,
      terminal: null,
      invalid: null,
    };
    let thrown: { readonly error: unknown } | null = null;
    const work = new ProviderWork(ports, this.#effect.id, this.#attempts, adapter, {
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
      const batches = this.#stream(adapter, request, work)[Symbol.asyncIterator]();
      try {
        for (;;) {
          const next = await span.within(() => batches.next());
          if (next.done === true || ports.signal.aborted) break;
          const events = this.#receive(next.value, progress, request, work.model);
          if (progress.toolCalls > plan.limits.maxToolCalls) break;
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
    const turn = ends.next(ports.scope.tenant ?? "");
    if (turn !== null) await turn;
    const reply = ports.collector.reply();
    const rawFailure = ports.signal.aborted ? null : attemptFailure(adapter, reply, progress, thrown, plan);
    const failure = rawFailure === null ? null : failureWithoutKey(rawFailure, plan.apiKey);
    work.close(failure);
    this.#addUsage(reply.usage);
    ports.unsettled.set(this.#effect.id, this.spent);
    const { finishReason, id: responseId, model: responseModel, usage } = reply;
    const firstOutputMs = progress.shownAt === null ? null : progress.shownAt - startedAt;
    const result = { finishReason, responseId, responseModel, usage, firstOutputMs };
    if (failure === null) span.stop(result, { reply });
    else span.fail(errorFromFailure(failure), result, { reply });
    const preflight = thrown !== null && progress.events === 0;
    const resumed = work.isResumed;
    return { reply, failure, shown: progress.shown, heard: progress.events > 0, preflight, resumed, record: null };
  }

  /** The events of an attempt: those of the adapter, or of the outermost middleware. */
  #stream(adapter: Adapter, request: ModelRequest, work: ProviderWork): AsyncIterable<readonly ModelEvent[]> {
    // The turn was cancelled while the lease was renewed: an adapter that ignores its signal would send the request.
    if (this.#ports.signal.aborted) return noEvents;
    if (this.#middleware === null) return work.open(request);
    const { signal, collector } = this.#ports;
    const { provider, endpoint = null } = adapter;
    const attempt = { n: this.#attempts, signal, provider, endpoint, request };
    return this.#middleware.model(
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
  #receive(
    batch: readonly ModelEvent[],
    progress: StreamProgress,
    { responseFormat }: ModelRequest,
    model: ModelName | null,
  ): readonly ModelEvent[] {
    const {
      output,
      options: { onEvent },
    } = this.#plan;
    let filtered: ModelEvent[] | null = null;
    for (const [index, event] of batch.entries()) {
      const accepted = this.#accept(event, progress, model);
      if (accepted === null || accepted !== event) filtered ??= batch.slice(0, index);
      if (accepted === null) continue;
      progress.events += 1;
      this.#ports.collector.add(accepted);
      const isHeld = accepted.type === "message_completed" && output !== null && responseFormat !== null;
      if (isHeld) this.#heldCompletion = accepted;
      // The turn decides whether a failure ends the step, and emits the error event then: once.
      if (isHeld || accepted.type === "error") filtered ??= batch.slice(0, index);
      else filtered?.push(accepted);
      if (onEvent !== undefined) callListener(() => onEvent(accepted));
    }
    if (progress.shown) progress.shownAt ??= this.#plan.clock.now();
    return filtered ?? batch;
  }

  /**
   * The event in its valid form; `null`: it is dropped. Adapters may be written by users, so every event is checked
   * (deltas by a fast path).
   */
  #accept(event: ModelEvent, progress: StreamProgress, model: ModelName | null): ModelEvent | null {
    switch (event?.type) {
      case "text_delta":
      case "reasoning_delta":
        if (progress.terminal !== null || typeof event.delta !== "string") return null;
        progress.shown = true;
        return event;
      case "usage":
        return isModelEvent(event) ? { ...event, usage: withCosts(event.usage, model) } : null;
      case "raw_chunk":
        return isModelEvent(event) ? event : null;
      case "warning":
        // A warning is about the request: it shows nothing of the answer, so the attempt may still be retried.
        return progress.terminal === null && isModelEvent(event) ? event : null;
      case "message_completed":
      case "error": {
        if (progress.terminal !== null) return null;
        // Parsing adds the fields that an adapter left out.
        const parsed = read(modelEventShape, event);
        if ("issues" in parsed) {
          progress.invalid ??= invalidTerminal(event, parsed.issues);
          return null;
        }
        const { value: terminal } = parsed;
        if (terminal.type !== "message_completed" && terminal.type !== "error") return null;
        progress.terminal = terminal.type;
        if (terminal.type === "error")
          return { ...terminal, error: failureWithoutKey(terminal.error, this.#plan.apiKey) };
        // Without a schema to check it with, a reply has no structured output.
        const output = this.#plan.output === null ? null : terminal.output;
        return { ...terminal, output, requestId: terminal.requestId ?? this.#plan.requestId };
      }
      case "message_started":
        return progress.terminal === null && isModelEvent(event) ? event : null;
      default:
        if (progress.terminal !== null || !isModelEvent(event)) return null;
        progress.shown = true;
        if (event.type === "tool_call_started" && !event.providerExecuted) progress.toolCalls += 1;
        return event;
    }
  }

  /** Adds the usage of an attempt that ended. */
  #addUsage(usage: Usage): void {
    this.spent = this.#total();
    this.#lastUsage = usage;
  }

  /** The usage of all attempts, including the last one. */
  #total(): Usage {
    return exactSum(this.spent, this.#lastUsage) ?? this.spent;
  }

  /**
   * Withdraws the events of a failed attempt: from the collector, and by `step_reset` from readers. `heard` false:
   * there is nothing to withdraw for readers.
   */
  async #reset(reason: "retry" | "fallback", heard: boolean): Promise<void> {
    const next = this.#attempts + 1;
    const event: TurnEvent = { type: "step_reset", reason, withdrawn: [], ...this.#origin(next) };
    this.#heldCompletion = null;
    this.#ports.collector.add(event);
    // The collector no longer holds the usage of the attempt.
    this.#ports.unsettled.set(this.#effect.id, this.#total());
    if (heard) await this.#emitLive([event], next);
  }

  #origin(n: number): LiveOrigin {
    return { effectId: this.#effect.id, attempt: { epoch: this.#ports.scope.epoch, n } };
  }

  async #emitLive(events: readonly TurnEvent[], n: number): Promise<void> {
    await this.#ports.sink.live(events, this.#origin(n));
  }

  /**
   * Checks the structured output of a reply; `null`: the reply has none to check (no schema, or it did not end with
   * `stop`).
   */
  async #check(request: ModelRequest, { reply, record }: Attempt): Promise<Checked<Json> | null> {
    if (record?.failure.type === "validation_error") return { ok: false, issues: record.failure.issues };
    const { output } = this.#plan;
    if (output === null || request.responseFormat === null || reply.finishReason !== "stop") return null;
    const text = reply.output === null ? parseJson(replyText(reply) ?? "") : { value: reply.output.value };
    if (text === null)
      return { ok: false, issues: [{ path: [], code: "malformed", message: "the answer is not JSON" }] };
    const checked = await checkValue(output.schema, text.value);
    return checked.ok ? { ok: true, value: text.value } : checked;
  }
}

/**
 * What was received of one stream. `shown`: a part of the answer may have been published; `terminal`: the type of the
 * terminal event.
 */
type StreamProgress = {
  events: number;
  /** Tool calls that have started, without those that the provider runs. */
  toolCalls: number;
  shown: boolean;
  /** When the first part of the answer was received, in milliseconds; `null`: none was. */
  shownAt: number | null;
  terminal: "message_completed" | "error" | null;
  /** What is wrong with the first terminal event that was dropped as invalid; `null`: none was. */
  invalid: string | null;
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
 * The failure of an attempt; `null`: it succeeded. In order: the error event, too many tool calls, a terminal event
 * (success, whatever was thrown after it), the failure of an Everturn error, any other exception, a terminal event that
 * is invalid (an unknown finish reason), and a stream that stopped without one (E1).
 */
function attemptFailure(
  { provider }: Adapter,
  reply: ModelReply,
  progress: StreamProgress,
  thrown: { readonly error: unknown } | null,
  { limits: { maxToolCalls } }: RunPlan,
): Failure | null {
  if (reply.error !== null) return reply.error;
  if (Math.max(progress.toolCalls, reply.toolCalls.length) > maxToolCalls) {
    const message = `the reply has more than ${maxToolCalls} tool calls (maxToolCalls), so none of them runs`;
    return adapterFailure("malformed_response", { provider, message, code: "too_many_tool_calls" });
  }
  if (progress.terminal !== null) return null;
  const everturnFailure = thrown === null ? null : failureOfError(thrown.error);
  if (everturnFailure !== null) return everturnFailure;
  if (thrown !== null) {
    const cause = toCause(thrown.error);
    const details = { provider, cause };
    const message = cause?.message ?? "the adapter threw";
    return progress.events === 0
      ? adapterFailure("unknown", { ...details, message })
      : streamFailure("interrupted", { ...details, message, eventIndex: progress.events });
  }
  if (progress.invalid !== null) {
    return adapterFailure("malformed_response", { provider, message: progress.invalid });
  }
  const message = `the stream stopped after ${progress.events} events without a terminal event`;
  return streamFailure("interrupted", { provider, message, eventIndex: progress.events });
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

/** The reply in a form that can be stored and read again. */
function storable(reply: ModelReply): ModelReply {
  return storableReply(reply, {
    reply: readsAs(replyShape),
    usage: readsAs(usageShape),
    failure: readsAs(failureShape),
    toolCall: readsAs(toolCallShape),
  });
}

function readsAs<T>(shape: Shape<T>): (value: T) => boolean {
  return (value) => "value" in read(shape, value);
}

/** The user message that asks the model to repair its output. */
function repairPrompt(issues: readonly Issue[]): string {
  return `The answer does not match the schema: ${issues.map(renderIssue).join("; ")}. Answer again with only JSON that matches the schema.`;
}
