// Runs handlers: so many at a time, each for so long, again where the tool and its failure allow it. Each try and each wait between two of them is
// written down, so that another process goes on behind them; that a handler begins is, where it must not simply be run again (Q3).

import type { CallerContext, JsonObject } from "../../model/internal.ts";
import type { Runnable } from "./prepare-tool.ts";
import type { Failed, Ran, ToolAnswers } from "./tool-answer.ts";
import type { ToolJob } from "./tool-job.ts";

import { isDirective, startSpan } from "../../engine/internal.ts";
import { retryDelayMs } from "../../kernel/internal.ts";
import { encodeToolValue } from "../../model/internal.ts";
import { attemptName, pause, readToolAttempt } from "./records.ts";
import { markOf, startName } from "./start-mark.ts";

export class ToolRun<Context extends CallerContext> {
  readonly #job: ToolJob<Context>;
  readonly #answers: ToolAnswers<Context>;
  readonly #runnable: Runnable<Context>;
  readonly #args: JsonObject;
  #marked = false;
  /** The limit that was passed, if one was. */
  #timeUp: number | null = null;

  constructor(job: ToolJob<Context>, answers: ToolAnswers<Context>, runnable: Runnable<Context>, args: JsonObject) {
    this.#job = job;
    this.#answers = answers;
    this.#runnable = runnable;
    this.#args = args;
  }

  /** Runs it to a result, or until it must not be tried again. */
  async run(): Promise<Ran> {
    const job = this.#job;
    const { scope } = job.ports;
    const retry = job.tool?.retry ?? { type: "never" };
    for (;;) {
      const n = job.attempt;
      const known = this.#recall();
      const ran = known ?? (await this.#once());
      if (ran.type !== "failed" || retry.type === "never" || job.stop.signal.aborted) return ran;
      const { failure } = ran;
      if (failure.retry.type !== "safe") return ran;
      if (n >= retry.maxAttempts) {
        return { type: "failed", failure: { ...failure, retry: { type: "exhausted", attempts: n } } };
      }
      if (known === null) await scope.record(job.effect.id, attemptName(n), { failure, usage: job.usage });
      const { afterMs } = failure.retry;
      const waited = await pause({
        scope,
        clock: job.plan.clock,
        signal: job.stop.signal,
        effectId: job.effect.id,
        n,
        delayOf: () => retryDelayMs(retry, n - 1, afterMs),
        tell: (delayMs) => {
          const event = { type: "retry_scheduled", maxAttempts: retry.maxAttempts, delayMs, error: failure } as const;
          return job.say({ ...event, ...job.origin });
        },
      });
      if (!waited) return ran;
      job.nextAttempt();
    }
  }

  /** A try that is on record: it is not made again, and what it cost is counted. */
  #recall(): Failed | null {
    const { ports, effect, attempt } = this.#job;
    const record = readToolAttempt(ports.scope.find(effect.id, attemptName(attempt)));
    if (record === null) return null;
    this.#job.book(record.usage);
    return { type: "failed", failure: record.failure };
  }

  async #once(): Promise<Ran> {
    const { plan, ports, effect, stop } = this.#job;
    const { call } = effect;
    const free = await ports.slots.take();
    try {
      // Not among what a handler may throw: what cannot be written down must not begin.
      const written = this.#mark();
      if (written !== null) await written;
      const span = startSpan(
        "tool",
        plan.requestId,
        { tool: call.name, toolCallId: call.id },
        ports.parentSpan,
        plan.clock.now,
      );
      try {
        // Nothing is begun for a turn that is over, or by a process that lost the lease while it waited for a slot or a retry.
        const allowed = ports.scope.ensure();
        if (allowed instanceof Promise) await allowed;
        stop.signal.throwIfAborted();
        void this.#job.live({ type: "tool_execution_started", arguments: this.#args });
        const result = await this.#limited(() => this.#execute());
        span.stop({});
        return result;
      } catch (error) {
        span.fail(error);
        return this.#timeUp === null
          ? this.#answers.raised(error)
          : this.#answers.failed("timeout", `the tool took longer than ${this.#timeUp} ms`);
      }
    } finally {
      free();
    }
  }

  /** Writes down that the handler begins: once, for all its tries. */
  #mark(): Promise<void> | null {
    const { tool, ports, effect, stop } = this.#job;
    if (this.#marked || tool === null || stop.signal.aborted) return null;
    this.#marked = true;
    const mark = markOf(this.#args, tool, ports.scope.epoch);
    return mark === null ? null : ports.scope.record(effect.id, startName, mark);
  }

  async #execute(): Promise<Ran> {
    const { plan, tool, context } = this.#job;
    const { toolExecutor } = plan;
    const run = () => this.#runnable.run(context);
    // An executor may be asynchronous and hand back the generator of a handler that yields.
    const returned: unknown = await (toolExecutor === null || tool === null
      ? run()
      : toolExecutor(tool, this.#args, context, run));
    const value: unknown = isGenerator(returned) ? await this.#drain(returned) : returned;
    return isDirective(value) ? this.#answers.directed(value) : this.#answers.returned(value);
  }

  /** A handler that yields shows how far it is. */
  async #drain(generator: Generated): Promise<unknown> {
    const { signal } = this.#job.stop;
    for (;;) {
      const next: IteratorResult<unknown, unknown> = await generator.next();
      if (next.done === true) return next.value;
      const progress = encodeToolValue(next.value);
      if (progress.ok) await this.#job.live({ type: "tool_progress", progress: progress.value });
      if (signal.aborted) {
        await generator.return(undefined);
        throw signal.reason;
      }
    }
  }

  /** Lets the work take its time and no more. What goes on after that is nobody's business any more. */
  async #limited(work: () => Promise<Ran>): Promise<Ran> {
    const { tool, plan, stop } = this.#job;
    const timeoutMs = tool?.timeoutMs ?? plan.toolTimeout;
    if (!Number.isFinite(timeoutMs)) return work();
    const done = new AbortController();
    const timeUp = plan.clock.sleep(timeoutMs, done.signal).then(
      () => {
        const error = new DOMException(`timed out after ${timeoutMs} ms`, "TimeoutError");
        this.#timeUp = timeoutMs;
        stop.abort(error);
        throw error;
      },
      () => new Promise<never>(() => undefined),
    );
    try {
      return await Promise.race([work(), timeUp]);
    } finally {
      done.abort();
    }
  }
}

type Generated = AsyncGenerator<unknown, unknown> | Generator<unknown, unknown>;

function isGenerator(value: unknown): value is Generated {
  if (typeof value !== "object" || value === null) return false;
  return (Symbol.asyncIterator in value || Symbol.iterator in value) && "next" in value && "return" in value;
}
