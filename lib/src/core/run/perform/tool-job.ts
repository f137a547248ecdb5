// The state that the stages of one tool call share (tool.ts): the handler context, the current attempt, its usage, and
// its live events.

import type { Directive, OpenSpan, Tool, ToolContext } from "../../engine/internal.ts";
import type { FairShare } from "../../fair/fair-share.ts";
import type { CallTool, ToolWaits } from "../../kernel/internal.ts";
import type { CallerContext, Json, JsonObject, TurnEvent, Usage } from "../../model/internal.ts";
import type { Plan } from "../plan/plan.ts";
import type { LiveOrigin, Scope, Sink } from "../ports/ports.ts";
import type { RunSpans } from "../run-spans.ts";
import type { CancelGrace } from "./cancel-grace.ts";
import type { MiddlewareChain } from "./middleware-chain.ts";

import { boundedSum, encodeToolValue, handlerWait, noUsage } from "../../model/internal.ts";
import { jsonObject, readOrNull } from "../../model/parse/reading.ts";

/** What the run provides to its tool calls. */
export type ToolPorts = {
  readonly sink: Sink;
  readonly scope: Scope;
  readonly signal: AbortSignal;
  /** Waits for a permit of the run. After `startNoTools`, only a call that has held one before gets one. */
  readonly acquire: (isRetry: boolean) => Promise<() => void>;
  /** One permit for each tool with `concurrency: "serial"`, by its name. */
  readonly serialTools: FairShare;
  /**
   * Functions that abort the open calls. The run calls them when it ends, instead of one listener on `signal` for each
   * call.
   */
  readonly abortHandlers: Set<() => void>;
  /** The calls that have started, and the time they have to answer after a cancel. */
  readonly grace: CancelGrace;
  /** Usage of effects without a response yet, by effect id. A cancel reports it. */
  readonly unsettled: Map<string, Usage>;
  readonly spans: RunSpans;
  /** The keys of the spans of turns inside an attempt that have begun and not ended. */
  readonly openChildren: (attempt: number) => Promise<readonly string[]>;
  /**
   * Runs turns inside the call (`context.runChild`), for one attempt. `addUsage` receives the usage of each, `onWait`
   * what one of them waits for; their spans are inside `span`.
   */
  readonly runChild: (
    attempt: number,
    signal: AbortSignal,
    addUsage: (usage: Usage) => void,
    onWait: (waits: InnerWait) => void,
    span: () => OpenSpan | null,
  ) => ToolContext["runChild"];
};

/** What a turn inside a call, or its handler, waits for. */
export type InnerWait = Pick<ToolWaits, "reason" | "question" | "opts" | "path" | "shown">;

/**
 * The entry `inner` of the options of a waiting call: what is stored about the turn inside it. Anything but an object
 * is read as empty.
 */
export function innerHints({ inner = {} }: JsonObject): JsonObject {
  return readOrNull(jsonObject, inner) ?? {};
}

/** A live event of a call, without the fields that identify the call. */
type LiveToolEvent =
  | { readonly type: "tool_execution_started"; readonly arguments: JsonObject }
  | { readonly type: "tool_progress"; readonly progress: Json };

/** One tool call while it is performed. */
export class ToolJob<Context extends CallerContext> {
  readonly plan: Plan<Context>;
  readonly ports: ToolPorts;
  readonly effect: CallTool;
  /** The tool of the engine with the name of the call; `null`: there is none. */
  readonly tool: Tool<Context> | null;
  /** Aborted by a timeout, by the end of the run, and when an inner turn waits. */
  readonly stop = new AbortController();
  /** The context that handler, hooks and gate receive. It is replaced for each attempt. */
  context: ToolContext<Context>;
  /** The number of the current attempt, counted from 1 over all processes that performed the call. */
  attempt = 1;
  /** The span of the current attempt; `null`: no attempt has started in this process. */
  span: OpenSpan | null = null;
  /** The usage of inner turns in the current attempt. */
  usage: Usage = noUsage;
  #earlierUsage: Usage = noUsage;
  #hasEnded = false;
  /** What a turn inside the call, or its handler, waits for; `null`: none waits. The first one counts. */
  inner: InnerWait | null = null;
  /** The arguments that a middleware replaced those of the call with; `null`: none did. */
  changedArguments: JsonObject | null = null;
  /** `null`: the engine has no middleware for tools, or the handler has not run. */
  middleware: MiddlewareChain | null = null;
  /** The handler threw because its signal was aborted. */
  isStopped = false;
  /** The number of inner turns that are running. */
  #running = 0;
  #resolveWaiting: () => void = () => undefined;
  /** Resolves when an inner turn waits and no other inner turn is running. */
  readonly waiting: Promise<void> = new Promise((resolve) => {
    this.#resolveWaiting = resolve;
  });
  readonly #abort = () => this.stop.abort(this.ports.signal.reason);

  constructor(plan: Plan<Context>, ports: ToolPorts, effect: CallTool) {
    this.plan = plan;
    this.ports = ports;
    this.effect = effect;
    this.tool = plan.tools.findLast(({ name }) => name === effect.call.name) ?? null;
    ports.abortHandlers.add(this.#abort);
    this.context = {
      context: plan.context,
      sessionId: plan.sessionId,
      requestId: plan.requestId,
      toolCall: effect.call,
      idempotencyKey: effect.idempotencyKey,
      answer: handlerAnswer(effect),
      signal: this.stop.signal,
      engine: plan.engine,
      progress: this.#progress(),
      runChild: this.#children(),
    };
  }

  /** The usage of the call so far, over all attempts. */
  get spent(): Usage {
    return boundedSum(this.#earlierUsage, this.usage);
  }

  /** Adds usage to the current attempt. */
  addUsage(usage: Usage): void {
    this.usage = boundedSum(this.usage, usage);
    this.ports.unsettled.set(this.effect.id, this.spent);
  }

  /** Makes the call wait for the answer to a question of its handler, which then runs again. */
  ask({ question, state, opts }: Extract<Directive, { readonly type: "ask_and_resume" }>): void {
    const { id } = this.effect.call;
    this.inner ??= {
      reason: "question",
      question,
      opts: { ...opts, inner: { wait: handlerWait, state } },
      path: [id],
      shown: null,
    };
    if (this.#running === 0) this.#resolveWaiting();
  }

  /** Starts the next attempt. Progress that the previous attempt still reports is dropped. */
  nextAttempt(): void {
    this.#earlierUsage = this.spent;
    this.usage = noUsage;
    this.attempt += 1;
    this.context = { ...this.context, progress: this.#progress(), runChild: this.#children() };
  }

  /** Starts the span of the current attempt. */
  startSpan(args: JsonObject): OpenSpan {
    const { id, call } = this.effect;
    const metadata = { tool: call.name, toolCallId: call.id };
    const input = { arguments: args, ...(this.tool === null ? {} : { description: this.tool.description }) };
    this.span = this.ports.spans.start("tool", id, this.attempt, metadata, input);
    return this.span;
  }

  /** Ends the call: later progress is dropped, and the end of the run no longer aborts it. */
  end(): void {
    this.#hasEnded = true;
    this.ports.abortHandlers.delete(this.#abort);
  }

  /** The effect and the attempt that live events of the call carry. */
  get origin(): LiveOrigin {
    return { effectId: this.effect.id, attempt: { epoch: this.ports.scope.epoch, n: this.attempt } };
  }

  /** Emits a live event of this call. It is not stored. */
  emitLive(event: LiveToolEvent): void | Promise<void> {
    const { id, name } = this.effect.call;
    return this.emit({ ...event, id, name, ...this.origin });
  }

  /** Emits an event. A returned promise is backpressure: it resolves when readers have caught up. */
  emit(event: TurnEvent): void | Promise<void> {
    return this.ports.sink.live([event], this.origin);
  }

  /** `context.runChild` of the current attempt. */
  #children(): ToolContext["runChild"] {
    const add = (usage: Usage) => this.addUsage(usage);
    const onWait = (waits: InnerWait) => void (this.inner ??= waits);
    const run = this.ports.runChild(this.attempt, this.stop.signal, add, onWait, () => this.span);
    return async (...args) => {
      // No inner turn starts in a call that waits.
      if (this.inner !== null) throw new DOMException("a turn inside this call waits for input", "AbortError");
      this.#running += 1;
      try {
        return await run(...args);
      } finally {
        this.#running -= 1;
        // The call waits only after concurrent inner turns have ended or wait as well: their results are paid for and
        // recorded.
        if (this.inner !== null && this.#running === 0) this.#resolveWaiting();
      }
    };
  }

  /**
   * `context.progress` of the current attempt. A value that cannot be encoded, and progress of an earlier attempt, is
   * dropped.
   */
  #progress(): ToolContext["progress"] {
    const attempt = this.attempt;
    return (progress) => {
      const encoded = encodeToolValue(progress);
      if (!encoded.ok || this.#hasEnded || attempt !== this.attempt) return;
      void this.emitLive({ type: "tool_progress", progress: encoded.value });
    };
  }
}

/** The answer to the question of an earlier run of the handler; `null`: it asked none. */
function handlerAnswer({ decision }: CallTool): ToolContext["answer"] {
  if (decision?.type !== "forward" || decision.wait !== handlerWait || decision.answer.type !== "answer") return null;
  return { text: decision.answer.text, state: decision.state };
}
