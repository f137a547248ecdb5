// The performer of `call_model`: makes one model call, with retries, fallback models and a check of structured output.
//
// Nested loops, from the outside in:
//   make         routes: the model of the environment, then each fallback (routes.ts), until one replies
//   #ask         repairs: a reply that does not match the output schema is sent back with the issues, at most `repair`
//                times
//   #retry       retry with exponential backoff and jitter (engine's retry policy), for failures that may pass; not
//                after output was published, unless `afterOutput` is set
//   ModelStream  one attempt (model-attempt.ts)
//
// Attempts are numbered from 1 over all loops and over all processes that perform the effect. An attempt that is
// followed by another one is recorded first (Q2): a process that takes over does not repeat it, and its usage is kept.
// A stream whose provider continues without a connection is resumed by the process that takes over instead of sent
// again (reference.ts). A model call is otherwise at-least-once: after a crash in the middle of an attempt the request
// is sent again.
//
// `step_reset` withdraws the events of a failed attempt (Q7).
//
// Invariants
//   1. No request is sent by a process that may have lost its lease: the scope checks before each attempt and before
//      each request (Q1).
//   2. Every attempt's usage is counted once: in `spent` of the response, in its reply, or in `unsettled` while the
//      effect is open.

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
  ModelName,
  ModelReply,
  ModelRequest,
  TurnEvent,
  Usage,
} from "../../model/internal.ts";
import type { Shape } from "../../model/parse/reading.ts";
import type { RunPlan } from "../plan/plan.ts";
import type { LiveOrigin, Sink } from "../ports/ports.ts";
import type { Account } from "./checkpoint.ts";
import type { Attempt, ModelCall, ModelPorts } from "./model-attempt.ts";
import type { ModelAttempt } from "./records.ts";

import { checkValue, delayBefore, isRetryable, emitTelemetry } from "../../engine/internal.ts";
import {
  Collector,
  modelFailed,
  modelReplied,
  projectRequest,
  projectSummaryRequest,
  storableReply,
} from "../../kernel/internal.ts";
import {
  exactSum,
  assistant,
  errorFromFailure,
  modelReply,
  noUsage,
  parseJson,
  renderIssue,
  replyText,
  runtimeFailure,
  user,
  validationFailure,
} from "../../model/internal.ts";
import { failureShape, read, replyShape, toolCallShape, usageShape } from "../../model/parse/reading.ts";
import { MiddlewareChain } from "./middleware-chain.ts";
import { attemptOrigin, ModelStream } from "./model-attempt.ts";
import { attemptName, pause, readModelAttempt } from "./records.ts";
import { routesOf } from "./routes.ts";
import { exhaustedSummaryBudget } from "./summary-budget.ts";

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
  const calls = new ModelCalls({
    plan,
    ports,
    effectId: effect.id,
    middleware: MiddlewareChain.of(plan, "model", ports.scope, effect.id),
  });
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
 * Asks a model for the summary of a compaction, unless the budget of summaries is used up. Readers get no events of it.
 * Each start is recorded first, with the frame and its range: after two processes have crashed before the summary was
 * recorded, no third one asks for it.
 */
export async function performCompaction(
  plan: RunPlan,
  ports: ModelPorts,
  account: Account,
  effect: Compact,
  turn: Turn,
): Promise<Compacted | CompactionFailed> {
  const startedAt = plan.clock.now();
  const { id, frame, from, to } = effect;
  const { scope } = ports;
  const notAsked = { type: "compaction_failed", id, usage: noUsage, spent: noUsage, durationMs: 0 } as const;
  const exhausted = exhaustedSummaryBudget(turn, account);
  if (exhausted !== null) return { ...notAsked, failure: exhausted };
  let starts = 0;
  while (scope.find(id, `start/${starts + 1}`) !== null) starts += 1;
  if (starts >= maxSummaryStarts) {
    const message = `the summary of the frame ${frame} was requested ${starts} times, and no process has recorded it`;
    return { ...notAsked, failure: runtimeFailure("takeover_limit", { message }) };
  }
  await scope.record(id, `start/${starts + 1}`, { frame, from, to });
  const { onEvent: _, ...options } = plan.options;
  const calls = new ModelCalls({
    plan: { ...plan, options, output: null },
    ports: { ...ports, sink: quietSink, collector: new Collector(plan.thread), answered: null },
    effectId: id,
    middleware: MiddlewareChain.of(plan, "model", scope, id),
  });
  const { attempt } = await calls.make(projectSummaryRequest(plan.config, turn));
  const { failure } = attempt;
  const reply = storable(attempt.reply);
  const { spent, noted } = calls;
  const fields = { id, usage: reply.usage, spent, durationMs: plan.clock.now() - startedAt, ...noted };
  if (failure !== null) return { type: "compaction_failed", failure, ...fields };
  return { type: "compacted", summary: summaryOf(reply), model: reply.model, ...fields };
}

/** The text of a summary. One that has reached its greatest length says so: the model must not take it for complete. */
function summaryOf(reply: ModelReply): string {
  const text = replyText(reply) ?? "";
  return reply.finishReason === "length" && text.trim() !== "" ? `${text}\n\n[The summary was cut off here.]` : text;
}

/** The sink of a model call without readers. */
const quietSink: Sink = {
  live: () => undefined,
  commit: () => {
    throw new Error("a performer commits nothing");
  },
};

/** The attempts of one `call_model` effect. */
class ModelCalls {
  readonly #call: ModelCall;
  readonly #plan: RunPlan;
  readonly #ports: ModelPorts;
  readonly #startedAt: number;
  /** The usage of all attempts before the last one. */
  spent: Usage = noUsage;
  #lastUsage: Usage = noUsage;
  /** The number of the current attempt. */
  #attempts = 0;
  constructor(call: ModelCall) {
    this.#call = call;
    this.#plan = call.plan;
    this.#ports = call.ports;
    this.#startedAt = call.plan.clock.now();
  }

  /** Withdraws what readers and the collector have received of the model call before. */
  async withdraw(): Promise<void> {
    await this.#reset("retry", true);
  }

  /** What middleware did, for the response. */
  get noted(): MiddlewareChain["noted"] {
    return this.#call.middleware?.noted ?? {};
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
    const completion = attempt.heldCompletion;
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
      const attempt = this.#recall() ?? (await this.#read(adapter, request, n));
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
        effectId: this.#call.effectId,
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
    const record = readModelAttempt(scope.find(this.#call.effectId, attemptName(this.#attempts)));
    if (record === null) return null;
    const { failure, usage, shown, heard, resumed } = record;
    const reply = record.reply ?? modelReply({ finishReason: "error", error: failure, usage });
    this.#addUsage(usage);
    // The collector of this process received no events of the attempt, so all of its usage is unsettled.
    unsettled.set(this.#call.effectId, this.#total());
    const result = { reply, failure: record.reply === null ? failure : null, record };
    return { ...result, shown, heard, preflight: false, resumed, heldCompletion: null };
  }

  /** Makes the current attempt. `n`: the number of the attempt at this request. */
  async #read(adapter: Adapter, request: ModelRequest, n: number): Promise<Attempt> {
    const attempt = await new ModelStream(this.#call, adapter, request, this.#attempts).read(n);
    this.#addUsage(attempt.reply.usage);
    this.#ports.unsettled.set(this.#call.effectId, this.spent);
    return attempt;
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
    await this.#ports.scope.record(this.#call.effectId, attemptName(this.#attempts), attemptRecord);
    this.#ports.spans.recordAttempts(this.#call.effectId);
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
    this.#ports.collector.add(event);
    // The collector no longer holds the usage of the attempt.
    this.#ports.unsettled.set(this.#call.effectId, this.#total());
    if (heard) await this.#emitLive([event], next);
  }

  #origin(n: number): LiveOrigin {
    return attemptOrigin(this.#call, n);
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
