// Runs the handler of a tool call: within the concurrency limit (a counting semaphore), with a time limit, and with
// retries.
//
// A retry happens only if the tool has a retry policy and the failure is marked as safe to retry. Before each retry the
// failed attempt and the wait are recorded (records.ts), so a process that takes over continues with the next attempt.
// For the replay policies `never` and `ask` the start mark is recorded before the first attempt (start-mark.ts).
//
// Order of one attempt: acquire the permit of the tool if its calls are serial, acquire a permit of the run, record the
// start mark, check the lease, check the abort signal, run the handler, release the permit. The mark is written while
// the permit is held, so a call that only waits for a permit is not marked as started.

import type { Tool } from "../../engine/internal.ts";
import type { CallerContext, Json, JsonObject, ToolFailure, ToolOutcome, Usage } from "../../model/internal.ts";
import type { Runnable } from "./prepare-tool.ts";
import type { Failed, HandlerResult, ToolAnswers } from "./tool-answer.ts";
import type { ToolJob } from "./tool-job.ts";

import { startTimer } from "../../clock/timer.ts";
import { isDirective, nextTask } from "../../engine/internal.ts";
import { retryDelayMs } from "../../kernel/internal.ts";
import { encodeToolValue, noUsage, toCause } from "../../model/internal.ts";
import { failureShape, fallback, object, required, usageShape } from "../../model/parse/reading.ts";
import { MiddlewareChain } from "./middleware-chain.ts";
import { isApproved } from "./prepare-tool.ts";
import { attemptName, pause, readRecord } from "./records.ts";
import { RecordFailure } from "./reference.ts";
import { isSameJson, runMark, startRecordName } from "./start-mark.ts";
import { outcomeOf } from "./tool-answer.ts";

/** One run of a prepared call, with all its attempts. */
export class ToolRun<Context extends CallerContext> {
  readonly #job: ToolJob<Context>;
  readonly #answers: ToolAnswers<Context>;
  readonly #runnable: Runnable<Context>;
  readonly #args: JsonObject;
  #isMarked = false;
  /** The number of the newest attempt that has ended. A middleware must not run the handler for it any more. */
  #finished = 0;
  /** The time limit in milliseconds that was exceeded; `null`: none. */
  #exceededMs: number | null = null;

  constructor(job: ToolJob<Context>, answers: ToolAnswers<Context>, runnable: Runnable<Context>, args: JsonObject) {
    this.#job = job;
    this.#answers = answers;
    this.#runnable = runnable;
    this.#args = args;
  }

  /** Runs the handler until it has a result, a failure that is not retried, or no attempt left. */
  async run(): Promise<HandlerResult> {
    const job = this.#job;
    const { scope } = job.ports;
    const retryPolicy = job.tool?.retry ?? { type: "never" };
    for (;;) {
      const n = job.attempt;
      const recordedAttempt = this.#recall();
      const result = recordedAttempt ?? (await this.#once());
      if (result.type !== "failed" || retryPolicy.type === "never" || job.stop.signal.aborted) return result;
      const { failure } = result;
      if (failure.retry.type !== "safe") return result;
      if (n >= retryPolicy.maxAttempts) {
        return { type: "failed", failure: { ...failure, retry: { type: "exhausted", attempts: n } } };
      }
      if (recordedAttempt === null) await scope.record(job.effect.id, attemptName(n), { failure, usage: job.usage });
      job.ports.spans.recordAttempts(job.effect.id);
      const { afterMs } = failure.retry;
      const isDue = await pause({
        scope,
        clock: job.plan.clock,
        signal: job.stop.signal,
        effectId: job.effect.id,
        n,
        delayOf: () => retryDelayMs(retryPolicy, n - 1, afterMs),
        announce: (delayMs) => {
          const event = {
            type: "retry_scheduled",
            maxAttempts: retryPolicy.maxAttempts,
            delayMs,
            error: failure,
          } as const;
          return job.emit({ ...event, ...job.origin });
        },
      });
      if (!isDue) return result;
      job.nextAttempt();
    }
  }

  /**
   * The recorded failure of the current attempt: the attempt is not repeated, and its usage is counted. `null`: not
   * recorded.
   */
  #recall(): Failed | null {
    const { ports, effect, attempt } = this.#job;
    const record = readToolAttempt(ports.scope.find(effect.id, attemptName(attempt)));
    if (record === null) return null;
    this.#job.addUsage(record.usage);
    return { type: "failed", failure: record.failure };
  }

  /** One attempt. Rejects only if the start mark cannot be recorded: a handler without its mark must not run. */
  async #once(): Promise<HandlerResult> {
    const { ports, effect, stop } = this.#job;
    // The permit of the tool first: a call that waits for its turn must not hold a permit that calls of other tools
    // could use.
    const releaseTool = await this.#serialPermit();
    const release = await ports.acquire(ports.grace.hasStarted(effect.id));
    try {
      // Outside the inner `try`: a failed write is an error of the storage, not of the handler.
      const recording = this.#recordStart();
      if (recording !== null) await recording;
      const span = this.#job.startSpan(this.#args);
      try {
        // The turn may have ended, or the process may have lost its lease, while it waited for a permit or a retry.
        const ensured = ports.scope.ensure();
        if (ensured instanceof Promise) await ensured;
        stop.signal.throwIfAborted();
        ports.grace.start(effect.id);
        ports.scope.begin(effect.id);
        void this.#job.emitLive({ type: "tool_execution_started", arguments: this.#args });
        const result = await this.#withTimeout(() => span.within(() => this.#execute()));
        if (result.type === "failed") span.stop({ error: result.failure.reason });
        else span.stop({ outcome: result.outcome.type }, { value: result.content });
        return result;
      } catch (error) {
        span.fail(error);
        // A record of a middleware could not be written: an error of the storage, not of the handler.
        if (error instanceof RecordFailure) throw error.cause;
        this.#job.isStopped = this.#exceededMs === null && isAbort(error, stop.signal);
        return this.#exceededMs === null
          ? this.#answers.raised(error)
          : this.#answers.failed("timeout", `the tool did not return within ${this.#exceededMs} ms and was stopped`);
      }
    } finally {
      this.#finished = this.#job.attempt;
      release();
      releaseTool?.();
    }
  }

  /** The only permit of a tool whose calls run one at a time; `null`: the calls of the tool run together. */
  async #serialPermit(): Promise<(() => void) | null> {
    const { tool, ports } = this.#job;
    if (tool?.concurrency !== "serial") return null;
    const permit = ports.serialTools.request(tool.name);
    if (permit.state === "waiting") await permit.granted;
    return permit.release;
  }

  /** Records the start mark, once for all attempts; `null`: no mark is needed. */
  #recordStart(): Promise<void> | null {
    const { tool, ports, effect, stop } = this.#job;
    if (this.#isMarked || tool === null || stop.signal.aborted) return null;
    this.#isMarked = true;
    const mark = runMark(this.#args, tool, ports.scope.epoch);
    return mark === null ? null : ports.scope.record(effect.id, startRecordName, mark);
  }

  /** Runs the handler, through the middleware of the engine if it has any for tools. */
  async #execute(): Promise<HandlerResult> {
    const { plan, ports, tool, context, stop, effect, attempt } = this.#job;
    const middleware = this.#job.middleware ?? MiddlewareChain.of(plan, "tool", ports.scope, effect.id);
    if (middleware === null || tool === null) return this.#handle(this.#runnable, this.#args);
    this.#job.middleware = middleware;
    stop.signal.throwIfAborted();
    const results = new Map<ToolOutcome, HandlerResult>();
    const { signal } = stop;
    // A middleware may change the object that it gets, so an approved call gives it a copy.
    const given = isApproved(this.#job) ? structuredClone(this.#args) : this.#args;
    const invocation = { n: attempt, signal, tool, toolCall: effect.call, arguments: given, context };
    const outcome = await middleware.tool(invocation, async (args) => {
      const result = await this.#handleChanged(tool, args, attempt);
      const handled = outcomeOf(result);
      results.set(handled, result);
      return handled;
    });
    // An outcome that a middleware passed on unchanged keeps the content that was encoded for the model.
    return results.get(outcome) ?? this.#answers.adopted(outcome);
  }

  /** Runs the handler with the arguments of a middleware. A failure is a result; only an abort rejects. */
  async #handleChanged(tool: Tool<Context>, args: JsonObject, attempt: number): Promise<HandlerResult> {
    const { stop } = this.#job;
    stop.signal.throwIfAborted();
    if (this.#finished >= attempt) throw new DOMException("the tool call has ended", "AbortError");
    try {
      if (isApproved(this.#job)) {
        if (isSameJson(args, this.#args)) return await this.#handle(this.#runnable, this.#args);
        const reason = "a middleware changed the arguments after the call was approved; the call did not run";
        return this.#answers.failed("denied", reason);
      }
      if (args === this.#args) return await this.#handle(this.#runnable, args);
      const prepared = await tool.prepare(args);
      if (!prepared.ok) return this.#answers.invalidArguments(prepared.issues);
      this.#job.changedArguments = args;
      return await this.#handle(prepared, args);
    } catch (error) {
      if (stop.signal.aborted || error instanceof RecordFailure) throw error;
      return this.#answers.raised(error);
    }
  }

  /** Runs the handler, directly or through the `toolExecutor` of the run. */
  async #handle(runnable: Runnable<Context>, args: JsonObject): Promise<HandlerResult> {
    const { plan, tool, context } = this.#job;
    const { toolExecutor } = plan.options;
    const run = () => runnable.run(context);
    // An executor may be asynchronous and return the generator of a handler that yields.
    const returned: unknown = await (toolExecutor === undefined || tool === null
      ? run()
      : toolExecutor(tool, args, context, run));
    const value: unknown = isGenerator(returned) ? await this.#drain(returned) : returned;
    if (isDirective(value) && value.type === "ask_and_resume") this.#job.ask(value);
    return isDirective(value) ? this.#answers.directed(value) : this.#answers.returned(value);
  }

  /**
   * Runs a generator handler to its end. Each yielded value is a `tool_progress` event; the emitter may apply
   * backpressure.
   */
  async #drain(generator: Generated): Promise<unknown> {
    const { signal } = this.#job.stop;
    for (;;) {
      const next: IteratorResult<unknown, unknown> = await generator.next();
      if (next.done === true) return next.value;
      const progress = encodeToolValue(next.value);
      if (progress.ok) await this.#job.emitLive({ type: "tool_progress", progress: progress.value });
      if (signal.aborted) {
        // Within the cancel grace the generator may finish. A generator that never waits must not block the timer of
        // the grace.
        await nextTask();
        if (this.#job.ports.grace.isOpen && this.#exceededMs === null) continue;
        await generator.return(undefined);
        throw signal.reason;
      }
    }
  }

  /**
   * Runs the handler with the time limit of the tool, or of the run. At the limit the signal of the call is aborted and
   * the attempt fails with `timeout`; a handler that ignores the signal continues, and its result is discarded.
   */
  async #withTimeout(work: () => Promise<HandlerResult>): Promise<HandlerResult> {
    const { tool, plan, stop } = this.#job;
    const timeoutMs = tool?.timeoutMs ?? plan.limits.toolTimeout;
    if (!Number.isFinite(timeoutMs)) return work();
    return new Promise((resolve, reject) => {
      const cancel = startTimer(plan.clock, timeoutMs, () => {
        const error = new DOMException(`timed out after ${timeoutMs} ms`, "TimeoutError");
        this.#exceededMs = timeoutMs;
        stop.abort(error);
        reject(error);
      });
      const settle = async (): Promise<void> => {
        try {
          resolve(await work());
        } catch (error) {
          reject(error);
        } finally {
          cancel();
        }
      };
      void settle();
    });
  }
}

type Generated = AsyncGenerator<unknown, unknown> | Generator<unknown, unknown>;

/**
 * Is the signal aborted, and the error one that aborted operations throw: the reason of the signal, or an `AbortError`
 * of the platform?
 */
function isAbort(error: unknown, { aborted, reason }: AbortSignal): boolean {
  return aborted && (error === reason || toCause(error)?.name === "AbortError");
}

function isGenerator(value: unknown): value is Generated {
  if (typeof value !== "object" || value === null) return false;
  return (Symbol.asyncIterator in value || Symbol.iterator in value) && "next" in value && "return" in value;
}

/** The record of an attempt at a tool handler, with the usage of turns that ran inside it. */
type ToolAttempt = { readonly failure: ToolFailure; readonly usage: Usage };

const toolAttemptShape = object({
  failure: required(failureShape),
  usage: fallback(usageShape, noUsage),
});

/** Reads the record of an attempt at a tool handler; `null`: none. */
function readToolAttempt(stored: Json): ToolAttempt | null {
  const record = readRecord(toolAttemptShape, stored);
  if (record === null || record.failure.type !== "tool_error") return null;
  return { failure: record.failure, usage: record.usage };
}
