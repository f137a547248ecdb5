// Makes model calls: one stream an attempt, retries until something was shown, other models after that, and answers in a schema checked.
// An attempt that another one follows is written down first (Q2): whoever performs the effect again goes on behind it, and what it cost is kept.
// An attempt whose work the provider goes on with by itself is resumed by the process that takes over, instead of sent again (reference.ts).

import type { Adapter, Checked } from "../../engine/internal.ts";
import type { CallModel, Collector, ModelFailed, ModelReplied, Turn } from "../../kernel/internal.ts";
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
import type { RunPlan } from "../plan/plan.ts";
import type { LiveOrigin, Scope, Sink } from "../ports/ports.ts";
import type { ModelAttempt } from "./records.ts";
import type { AnsweredFallback } from "./routes.ts";

import {
  checkValue,
  delayBefore,
  failureWithoutKey,
  isRetryable,
  startSpan,
  emitTelemetry,
  withCosts,
} from "../../engine/internal.ts";
import { modelFailed, modelReplied, projectRequest } from "../../kernel/internal.ts";
import {
  adapterFailure,
  addUsage,
  assistant,
  errorFromFailure,
  isEvent,
  isEverturnError,
  modelReply,
  noUsage,
  parse,
  parseJson,
  renderIssue,
  replyText,
  streamFailure,
  toCause,
  user,
  validationFailure,
} from "../../model/internal.ts";
import { attemptName, pause, readModelAttempt } from "./records.ts";
import { ProviderWork, RecordFailure } from "./reference.ts";
import { modelId, routesOf } from "./routes.ts";

export type ModelPorts = {
  readonly sink: Sink;
  readonly scope: Scope;
  readonly collector: Collector;
  readonly signal: AbortSignal;
  /** Was the turn cancelled? The signal is aborted also when the run is over for another reason. */
  readonly isCancelled: () => boolean;
  /** What has been spent and is in no answer yet. */
  readonly unsettled: Map<string, Usage>;
  /** The fallback that answered in this turn, and stays (Q7). */
  readonly answered: AnsweredFallback | null;
  /** Has the run said anything? */
  readonly spoken: () => boolean;
  readonly parentSpan: number | null;
};

/** What one attempt came to. */
type Attempt = {
  readonly reply: ModelReply;
  readonly failure: Failure | null;
  /** Something of the answer may have been seen. */
  readonly shown: boolean;
  /** Anything at all was heard of it. */
  readonly heard: boolean;
  /** It failed before it said anything at all, for a reason that is a typed error of its own. */
  readonly preflight: boolean;
  /** It read work that an earlier process had left, and sent no request. */
  readonly resumed: boolean;
  /** What was written down of it, by whoever made it; `null`: it was made here. */
  readonly record: ModelAttempt | null;
};

export async function performModel(
  plan: RunPlan,
  ports: ModelPorts,
  effect: CallModel,
  turn: Turn,
): Promise<ModelReplied | ModelFailed> {
  const began = plan.clock.now();
  const silent = !ports.spoken();
  await plan.stepHooks.beforeStep?.(effect.step);
  const asked = projectRequest(plan.config, turn);
  const calls = new ModelCalls(plan, ports, effect);
  const { attempt, model } = await calls.make(asked);
  const { reply, failure } = attempt;
  const durationMs = plan.clock.now() - began;
  const { spent } = calls;
  if (failure === null) return modelReplied(effect.id, reply, { model, spent, durationMs });
  // What goes wrong before a run has said anything is a typed error, whoever asks and however.
  if (attempt.preflight && silent && !ports.spoken()) throw errorFromFailure(failure);
  return modelFailed(effect.id, failure, { partial: reply, spent, durationMs });
}

class ModelCalls {
  readonly #plan: RunPlan;
  readonly #ports: ModelPorts;
  readonly #effect: CallModel;
  /** What attempts before the last one have cost. */
  spent: Usage = noUsage;
  #lastUsage: Usage = noUsage;
  #attempts = 0;
  /** The end of a reply whose answer has yet to be checked: it is told with what the check found. */
  #held: MessageCompleted | null = null;

  constructor(plan: RunPlan, ports: ModelPorts, effect: CallModel) {
    this.#plan = plan;
    this.#ports = ports;
    this.#effect = effect;
  }

  /** Asks the model, and those behind it, until one has answered or none is left. */
  async make(request: ModelRequest): Promise<{ readonly attempt: Attempt; readonly model: ModelName | null }> {
    const [first, ...others] = routesOf(this.#plan, request.model, this.#ports.answered);
    let last = await this.#ask(first.adapter, request);
    let model: ModelName | null = null;
    for (const route of others) {
      if (last.failure === null || this.#ports.signal.aborted) break;
      if (last.failure.type === "validation_error") break;
      await this.#keep(last, last.failure);
      await this.#reset("fallback", last.heard);
      last = await this.#ask(route.adapter, { ...request, model: route.model });
      model = route.changed;
    }
    return { attempt: last, model: last.failure === null ? model : null };
  }

  /** Asks one model: again after failures that may pass, and again when its answer does not fit what was wanted. */
  async #ask(adapter: Adapter, request: ModelRequest): Promise<Attempt> {
    const repairs = this.#plan.output?.repair ?? 0;
    let asked = request;
    for (let repair = 0; ; repair += 1) {
      const attempt = await this.#retry(adapter, asked);
      const checked = attempt.failure === null ? await this.#check(asked, attempt) : null;
      if (checked === null || checked.ok || repair >= repairs || this.#ports.signal.aborted)
        return this.#tellEnd(attempt, checked);
      await this.#keep(attempt, validationFailure("invalid_output", { issues: checked.issues }));
      await this.#reset("retry", attempt.heard);
      const said = [assistant(replyText(attempt.reply) ?? ""), user(complaint(checked.issues))];
      asked = { ...request, messages: [...request.messages, ...said] };
    }
  }

  /** Tells the end of a reply that was held back until its answer had been checked. */
  async #tellEnd(attempt: Attempt, checked: Checked<Json> | null): Promise<Attempt> {
    const held = this.#held;
    this.#held = null;
    if (held !== null) {
      const event = checked?.ok === true ? { ...held, output: { value: checked.value } } : held;
      this.#ports.collector.add(event);
      await this.#live([event], this.#attempts);
    }
    const reply = held === null ? attempt.reply : this.#ports.collector.reply();
    if (checked === null || checked.ok) return { ...attempt, reply };
    const error = validationFailure("invalid_output", { issues: checked.issues });
    return { ...attempt, reply: { ...reply, finishReason: "error", error } };
  }

  async #retry(adapter: Adapter, request: ModelRequest): Promise<Attempt> {
    const { retry, clock } = this.#plan;
    const { scope, signal } = this.#ports;
    for (let n = 1; ;) {
      this.#attempts += 1;
      const attempt = this.#recall() ?? (await this.#once(adapter, request, n));
      const { failure, shown, heard } = attempt;
      if (failure === null || signal.aborted) return attempt;
      // The provider no longer has the work, or could not finish it: the request is sent, as after any other crash. That is not a retry.
      if (attempt.resumed && !shown && !attempt.preflight) {
        await this.#keep(attempt, failure);
        await this.#reset("retry", heard);
        continue;
      }
      if (n >= retry.maxAttempts) return attempt;
      if (!isRetryable(retry, failure) || (shown && !retry.afterOutput)) return attempt;
      await this.#keep(attempt, failure);
      const waited = await pause({
        scope,
        clock,
        signal,
        effectId: this.#effect.id,
        n: this.#attempts,
        delayOf: () => delayBefore(retry, n, failure, clock.random()),
        tell: (delayMs) => this.#tellRetry(adapter, n, delayMs, failure),
      });
      if (!waited) return attempt;
      await this.#reset("retry", heard);
      n += 1;
    }
  }

  async #tellRetry(adapter: Adapter, attempt: number, delayMs: number, failure: Failure): Promise<void> {
    const { requestId, retry } = this.#plan;
    emitTelemetry({
      type: "retry",
      requestId,
      provider: adapter.provider,
      attempt,
      delayMs,
      reason: reasonOf(failure),
    });
    const { maxAttempts } = retry;
    const event = { type: "retry_scheduled", maxAttempts, delayMs, error: failure } as const;
    await this.#live([{ ...event, ...this.#origin(this.#attempts) }], this.#attempts);
  }

  /** An attempt that is on record: it is not made again, and what it cost is counted. */
  #recall(): Attempt | null {
    const { scope, unsettled } = this.#ports;
    const record = readModelAttempt(scope.find(this.#effect.id, attemptName(this.#attempts)));
    if (record === null) return null;
    const { failure, usage, shown, heard, resumed } = record;
    const reply = record.reply ?? modelReply({ finishReason: "error", error: failure, usage });
    this.#book(usage);
    // Nothing of it is being heard here.
    unsettled.set(this.#effect.id, this.#total());
    return { reply, failure: record.reply === null ? failure : null, shown, heard, preflight: false, resumed, record };
  }

  /** Writes down an attempt that is not the answer, before anything follows from it. */
  async #keep({ reply, failure, shown, heard, resumed, record }: Attempt, reason: Failure): Promise<void> {
    if (record !== null) return;
    const kept: ModelAttempt = {
      failure: reason,
      usage: reply.usage,
      shown,
      heard,
      reply: failure === null ? storable(reply) : null,
      resumed,
    };
    await this.#ports.scope.record(this.#effect.id, attemptName(this.#attempts), kept);
  }

  /** One stream, read to its end: of a new request, or of work that an earlier process left. */
  async #once(adapter: Adapter, request: ModelRequest, n: number): Promise<Attempt> {
    const { plan, ports } = { plan: this.#plan, ports: this.#ports };
    const origin = this.#origin(this.#attempts);
    const span = startSpan(
      "model",
      plan.requestId,
      { provider: adapter.provider, model: modelId(request.model), attempt: this.#attempts },
      ports.parentSpan,
      plan.clock.now,
    );
    // After a pause or a wait between retries another process may hold the session.
    const allowed = ports.scope.ensure();
    if (allowed instanceof Promise) await allowed;
    const heard: Heard = { events: 0, shown: false, terminal: null };
    let thrown: { readonly error: unknown } | null = null;
    const work = new ProviderWork(ports, this.#effect.id, this.#attempts, adapter, request, {
      signal: ports.signal,
      requestId: plan.requestId,
      options: plan.adapterOptions,
      apiKey: plan.apiKey,
      rawChunks: plan.rawChunks,
      attempt: n,
      clock: plan.clock,
      beforeRequest: ports.scope.ensure,
    });
    try {
      const batches = work.open()[Symbol.asyncIterator]();
      try {
        for (;;) {
          const next = await batches.next();
          if (next.done === true || ports.signal.aborted) break;
          const events = this.#hear(next.value, heard, request);
          const wait = ports.sink.live(events, origin);
          if (wait !== undefined) await wait;
        }
      } finally {
        // Closed, and not waited for: an adapter that hangs in its own end must not hold the run.
        batches.return?.()?.then(undefined, () => undefined);
      }
    } catch (error) {
      if (error instanceof ListenerFailure || error instanceof RecordFailure) throw error.cause;
      thrown = { error };
    }
    const reply = ports.collector.reply();
    const told = ports.signal.aborted ? null : failureOf(adapter, reply, heard, thrown);
    const failure = told === null ? null : failureWithoutKey(told, plan.apiKey);
    work.close(failure);
    this.#book(reply.usage);
    ports.unsettled.set(this.#effect.id, this.spent);
    if (failure === null) span.stop({ finishReason: reply.finishReason });
    else span.fail(errorFromFailure(failure));
    const preflight = thrown !== null && heard.events === 0;
    const resumed = work.isResumed;
    return { reply, failure, shown: heard.shown, heard: heard.events > 0, preflight, resumed, record: null };
  }

  /** Takes a batch in: what is no event, or comes after the end, is left out. */
  #hear(batch: readonly ModelEvent[], heard: Heard, { model, responseFormat }: ModelRequest): readonly ModelEvent[] {
    const { onEvent, output } = this.#plan;
    let kept: ModelEvent[] | null = null;
    for (const [index, event] of batch.entries()) {
      const seen = this.#accept(event, heard, model);
      if (seen === null || seen !== event) kept ??= batch.slice(0, index);
      if (seen === null) continue;
      heard.events += 1;
      this.#ports.collector.add(seen);
      const holds = seen.type === "message_completed" && output !== null && responseFormat !== null;
      if (holds) this.#held = seen;
      // Whether a failure is the end of the step is for the turn to say, which then tells it: once.
      if (holds || seen.type === "error") kept ??= batch.slice(0, index);
      else kept?.push(seen);
      if (onEvent !== null && onEvent !== undefined) listen(() => onEvent(seen));
    }
    return kept ?? batch;
  }

  #accept(event: ModelEvent, heard: Heard, model: ModelName | null): ModelEvent | null {
    switch (event?.type) {
      case "text_delta":
      case "reasoning_delta":
        if (heard.terminal !== null || typeof event.delta !== "string") return null;
        heard.shown = true;
        return event;
      case "usage":
        return isEvent(event) ? { ...event, usage: withCosts(event.usage, model) } : null;
      case "raw_chunk":
        return isEvent(event) ? event : null;
      case "message_completed":
      case "error": {
        if (heard.terminal !== null) return null;
        // Read as ours: what an adapter left out is filled in.
        const read = parse("event", event);
        if (!read.ok || (read.value.type !== "message_completed" && read.value.type !== "error")) return null;
        heard.terminal = read.value.type;
        if (read.value.type === "error")
          return { ...read.value, error: failureWithoutKey(read.value.error, this.#plan.apiKey) };
        return { ...read.value, requestId: read.value.requestId ?? this.#plan.requestId };
      }
      case "message_started":
        return heard.terminal === null && isEvent(event) ? event : null;
      default:
        if (heard.terminal !== null || !isEvent(event)) return null;
        heard.shown = true;
        return event;
    }
  }

  #book(usage: Usage): void {
    this.spent = this.#total();
    this.#lastUsage = usage;
  }

  /** What all attempts have cost, the last one too. */
  #total(): Usage {
    const sum = addUsage(this.spent, this.#lastUsage);
    return sum.ok ? sum.value : this.spent;
  }

  /** What was shown of an attempt that failed is withdrawn, wherever it is kept. */
  async #reset(reason: "retry" | "fallback", heard: boolean): Promise<void> {
    const next = this.#attempts + 1;
    const event: TurnEvent = { type: "step_reset", reason, withdrawn: [], ...this.#origin(next) };
    this.#held = null;
    this.#ports.collector.add(event);
    // What the attempt cost is no longer in what is being heard.
    this.#ports.unsettled.set(this.#effect.id, this.#total());
    if (heard) await this.#live([event], next);
  }

  #origin(n: number): LiveOrigin {
    return { effectId: this.#effect.id, attempt: { epoch: this.#ports.scope.epoch, n } };
  }

  async #live(events: readonly TurnEvent[], n: number): Promise<void> {
    await this.#ports.sink.live(events, this.#origin(n));
  }

  /** The answer read and checked by the schema it was asked for in; `null` when this reply is not one to be checked. */
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

type Heard = { events: number; shown: boolean; terminal: "message_completed" | "error" | null };

/** Carries what a listener threw past those who would take it for a failure of the provider. */
class ListenerFailure extends Error {}

function listen(call: () => void): void {
  try {
    call();
  } catch (cause) {
    throw new ListenerFailure("a listener threw", { cause });
  }
}

function failureOf(
  { provider }: Adapter,
  reply: ModelReply,
  heard: Heard,
  thrown: { readonly error: unknown } | null,
): Failure | null {
  if (reply.error !== null) return reply.error;
  if (heard.terminal !== null) return null;
  const known = thrown === null ? null : knownFailure(thrown.error);
  if (known !== null) return known;
  if (thrown !== null) {
    const cause = toCause(thrown.error);
    const details = { provider, cause };
    const message = cause?.message ?? "the adapter threw";
    return heard.events === 0
      ? adapterFailure("unknown", { ...details, message })
      : streamFailure("interrupted", { ...details, message, eventIndex: heard.events });
  }
  const message = `the stream stopped after ${heard.events} events without having come to its end`;
  return streamFailure("interrupted", { provider, message, eventIndex: heard.events });
}

/** The failure an Everturn error carries. What was thrown may be anything, also something that throws when looked at. */
function knownFailure(thrown: unknown): Failure | null {
  try {
    return isEverturnError(thrown) ? thrown.failure : null;
  } catch {
    return null;
  }
}

/** A reply as it can be kept: one that could not be is what it said. */
function storable(reply: ModelReply): ModelReply {
  if (parse("reply", reply).ok) return reply;
  const { finishReason, usage } = reply;
  return modelReply({ outputText: replyText(reply) ?? "", finishReason, usage });
}

function reasonOf(failure: Failure): string {
  return failure.reason;
}

function complaint(issues: readonly Issue[]): string {
  return `That does not fit: ${issues.map(renderIssue).join("; ")}. Answer again, with nothing but JSON that fits the schema.`;
}
