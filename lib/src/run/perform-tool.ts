// Runs tools. What is wrong with a call is told to the model; what a handler does, returns or throws becomes an outcome; nothing here rejects.

import type { Directive, PreparedCall, Tool, ToolContext } from "../engine/index.ts";
import type { CallTool, ToolReturned, ToolWaits } from "../kernel/index.ts";
import type {
  CallerContext,
  ChatResult,
  Json,
  JsonObject,
  ToolCall,
  ToolFailure,
  ToolMessage,
  ToolOutcome,
  TurnEvent,
  Usage,
} from "../model/index.ts";
import type { Plan } from "./plan.ts";
import type { Sink } from "./ports.ts";
import type { Slots } from "./slots.ts";

import { isDirective, isReservedReason, startSpan } from "../engine/index.ts";
import { toolReturned, toolWaits } from "../kernel/index.ts";
import {
  addUsage,
  awaitingUserContent,
  encodeToolValue,
  isEverturnError,
  noUsage,
  parse,
  renderIssue,
  toCause,
  toolFailure,
  truncateMiddle,
} from "../model/index.ts";
import { cutContent, encodeAsJson } from "./encode-result.ts";

export type ToolPorts = {
  readonly sink: Sink;
  readonly signal: AbortSignal;
  readonly slots: Slots;
  /** What to call when the run is over, instead of a listener each. */
  readonly stops: Set<() => void>;
  readonly unsettled: Map<string, Usage>;
  readonly parentSpan: number | null;
  readonly runChild: (signal: AbortSignal, booked: (result: ChatResult) => void) => ToolContext["runChild"];
};

/** What a call came to, before anybody says what the model gets to see of it. */
type Ran =
  | { readonly type: "outcome"; readonly outcome: ToolOutcome; readonly content: ToolMessage["content"] }
  | { readonly type: "failed"; readonly failure: ToolFailure };

export async function performTool<Context extends CallerContext>(
  plan: Plan<Context>,
  ports: ToolPorts,
  effect: CallTool,
): Promise<ToolReturned | ToolWaits> {
  const began = plan.clock.now();
  let spent: Usage = noUsage;
  const stop = new AbortController();
  const end = () => stop.abort(ports.signal.reason);
  let ended = false;
  ports.stops.add(end);
  const { call, decision } = effect;
  const context: ToolContext<Context> = {
    context: plan.context,
    sessionId: plan.sessionId,
    requestId: plan.requestId,
    toolCall: call,
    idempotencyKey: effect.idempotencyKey,
    signal: stop.signal,
    engine: plan.engine,
    progress: (progress) => {
      const shown = encodeToolValue(progress);
      if (shown.ok && !ended) void live(ports, effect, { type: "tool_progress", progress: shown.value });
    },
    runChild: ports.runChild(stop.signal, (result) => {
      const sum = addUsage(spent, result.usage);
      if (!sum.ok) return;
      spent = sum.value;
      ports.unsettled.set(effect.id, spent);
    }),
  };
  const running = new ToolRun(plan, ports, effect, context, stop);
  try {
    const ready = await running.prepare(decision?.arguments ?? call.arguments);
    if (ready.type === "waits") return toolWaits(effect.id, "approval");
    const ran = ready.type === "ready" ? await running.run(ready.prepared, ready.args) : ready;
    const { outcome, content, stops } = await running.settle(ran);
    const ranArguments = ready.type === "ready" && ready.args !== call.arguments ? ready.args : null;
    const durationMs = plan.clock.now() - began;
    return toolReturned(effect.id, outcome, {
      content: cutContent(content, plan.maxToolResultLength),
      stops,
      ranArguments,
      spent,
      durationMs,
    });
  } finally {
    ended = true;
    ports.stops.delete(end);
  }
}

type Ready<Context extends CallerContext> =
  | {
      readonly type: "ready";
      readonly prepared: Extract<PreparedCall<Context>, { ok: true }>;
      readonly args: JsonObject;
    }
  | { readonly type: "waits" }
  | Ran;

class ToolRun<Context extends CallerContext> {
  readonly #plan: Plan<Context>;
  readonly #ports: ToolPorts;
  readonly #effect: CallTool;
  readonly #context: ToolContext<Context>;
  readonly #stop: AbortController;
  readonly #call: ToolCall;
  readonly #tool: Tool<Context> | null;
  /** The limit that was passed, if one was. */
  #timeUp: number | null = null;

  constructor(
    plan: Plan<Context>,
    ports: ToolPorts,
    effect: CallTool,
    context: ToolContext<Context>,
    stop: AbortController,
  ) {
    this.#plan = plan;
    this.#ports = ports;
    this.#effect = effect;
    this.#context = context;
    this.#stop = stop;
    this.#call = effect.call;
    this.#tool = plan.tools.findLast(({ name }) => name === effect.call.name) ?? null;
  }

  /** Everything that comes before the handler: is there one, do the arguments fit, does somebody have to consent. */
  async prepare(given: JsonObject | null): Promise<Ready<Context>> {
    const tool = this.#tool;
    if (tool === null || !tool.hasHandler) {
      return this.#failed("not_found", `nobody here can run the tool ${this.#call.name}`);
    }
    try {
      const hooked = await this.#plan.hooks.beforeTool?.(this.#call, this.#context);
      if (hooked?.type === "deny") return this.#failed("denied", hooked.reason);
      if (hooked?.type === "skip") return this.#succeeded(hooked.value, null);
      const args = hooked?.type === "replace_arguments" ? hooked.arguments : given;
      if (args === null) {
        const raw = truncateMiddle(this.#call.rawArguments ?? "", 200);
        return this.#failed("invalid_arguments", `the arguments are not a JSON object: ${raw}`);
      }
      const prepared = await tool.prepare(args);
      if (!prepared.ok) {
        return this.#failed(
          "invalid_arguments",
          `the arguments do not fit: ${prepared.issues.map(renderIssue).join("; ")}`,
        );
      }
      const gated = this.#effect.decision === null && (await prepared.needsApproval(this.#context));
      return gated ? { type: "waits" } : { type: "ready", prepared, args };
    } catch (error) {
      return this.#raised(error);
    }
  }

  async run(prepared: Extract<PreparedCall<Context>, { ok: true }>, args: JsonObject): Promise<Ran> {
    const { plan, ports } = { plan: this.#plan, ports: this.#ports };
    const free = await ports.slots.take();
    const span = startSpan(
      "tool",
      plan.requestId,
      { tool: this.#call.name, toolCallId: this.#call.id },
      ports.parentSpan,
      plan.clock.now,
    );
    try {
      // Nothing is begun for a turn that is over.
      this.#stop.signal.throwIfAborted();
      void live(ports, this.#effect, { type: "tool_execution_started", arguments: args });
      const result = await this.#limited(() => this.#execute(prepared, args));
      span.stop({});
      return result;
    } catch (error) {
      span.fail(error);
      return this.#timeUp === null
        ? this.#raised(error)
        : this.#failed("timeout", `the tool took longer than ${this.#timeUp} ms`);
    } finally {
      free();
    }
  }

  async #execute(prepared: Extract<PreparedCall<Context>, { ok: true }>, args: JsonObject): Promise<Ran> {
    const { toolExecutor } = this.#plan;
    const run = () => prepared.run(this.#context);
    const tool = this.#tool;
    // An executor may be asynchronous and hand back the generator of a handler that yields.
    const returned: unknown = await (toolExecutor === null || tool === null
      ? run()
      : toolExecutor(tool, args, this.#context, run));
    const value: unknown = isGenerator(returned) ? await this.#drain(returned) : returned;
    return isDirective(value) ? this.#directed(value) : this.#succeeded(value, tool);
  }

  /** A handler that yields shows how far it is. */
  async #drain(generator: Generated): Promise<unknown> {
    for (;;) {
      const next: IteratorResult<unknown, unknown> = await generator.next();
      if (next.done === true) return next.value;
      const progress = encodeToolValue(next.value);
      if (progress.ok) await live(this.#ports, this.#effect, { type: "tool_progress", progress: progress.value });
      if (this.#stop.signal.aborted) {
        await generator.return(undefined);
        throw this.#stop.signal.reason;
      }
    }
  }

  /** Lets the work take its time and no more. What goes on after that is nobody's business any more. */
  async #limited(work: () => Promise<Ran>): Promise<Ran> {
    const timeoutMs = this.#tool?.timeoutMs ?? this.#plan.toolTimeout;
    if (!Number.isFinite(timeoutMs)) return work();
    const done = new AbortController();
    const timeUp = this.#plan.clock.sleep(timeoutMs, done.signal).then(
      () => {
        const error = new DOMException(`timed out after ${timeoutMs} ms`, "TimeoutError");
        this.#timeUp = timeoutMs;
        this.#stop.abort(error);
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

  /** What the model gets to see, after hooks and the policy for failures have had their say. */
  async settle(
    ran: Ran,
  ): Promise<{ readonly outcome: ToolOutcome; readonly content: ToolMessage["content"]; readonly stops: boolean }> {
    const after = await this.#afterTool(ran);
    if (after.type === "outcome") return { outcome: after.outcome, content: after.content, stops: false };
    return this.#policy(after.failure);
  }

  async #afterTool(ran: Ran): Promise<Ran> {
    const { afterTool } = this.#plan.hooks;
    if (afterTool === undefined) return ran;
    const outcome: ToolOutcome = ran.type === "outcome" ? ran.outcome : { type: "failure", failure: ran.failure };
    try {
      const replaced = await afterTool(this.#call, outcome, this.#context);
      if (replaced === null || replaced === undefined) return ran;
      if (replaced.type === "failure") return { type: "failed", failure: replaced.failure };
      if (replaced.type === "success")
        return { type: "outcome", outcome: replaced, content: checkedContent(this.#encode(replaced.value)) };
      return { type: "outcome", outcome: replaced, content: ran.type === "outcome" ? ran.content : "" };
    } catch (error) {
      return this.#raised(error);
    }
  }

  async #policy(failure: ToolFailure) {
    const { onToolError } = this.#plan;
    if (typeof onToolError !== "function") return this.#failure(failure, onToolError === "halt");
    try {
      const answer: unknown = await onToolError(this.#call, failure);
      if (answer === "halt") return this.#failure(failure, true);
      if (typeof answer === "object" && answer !== null && "continue" in answer) {
        const ran = this.#succeeded(answer.continue, null);
        // Asked once: a replacement that cannot be shown either ends the turn.
        if (ran.type === "failed") return this.#failure(ran.failure, true);
        return { outcome: ran.outcome, content: ran.content, stops: false };
      }
      const message = 'onToolError has to answer "halt" or { continue: … }';
      return this.#failure(this.#invalid(message, { onToolErrorInvalid: true }, null), true);
    } catch (error) {
      return this.#failure(this.#invalid("onToolError threw", { onToolErrorRaised: true }, error), true);
    }
  }

  #failure(failure: ToolFailure, stops: boolean) {
    return { outcome: { type: "failure", failure } as const, content: this.#encodeFailure(failure), stops };
  }

  #directed(directive: Directive): Ran {
    switch (directive.type) {
      case "ask_user": {
        const { question, answerAs, opts } = directive;
        return {
          type: "outcome",
          outcome: { type: "ask_user", question, answerAs, opts },
          content: awaitingUserContent,
        };
      }
      case "halt": {
        if (isReservedReason(directive.reason)) {
          const message = `a tool cannot stop a run with "${directive.reason}": that word is the library's own`;
          return { type: "failed", failure: this.#invalid(message, { reservedHaltReason: directive.reason }, null) };
        }
        const ran = this.#succeeded(directive.value, this.#tool);
        if (ran.type === "failed" || ran.outcome.type !== "success") return ran;
        return { ...ran, outcome: { type: "halt", reason: directive.reason, value: ran.outcome.value } };
      }
      case "fail":
        return {
          type: "failed",
          failure: { ...directive.failure, toolName: this.#call.name, toolCallId: this.#call.id },
        };
      case "control": {
        const ran = this.#succeeded(directive.value, null);
        if (ran.type === "failed" || ran.outcome.type !== "success") return ran;
        return { ...ran, outcome: { ...ran.outcome, control: directive.control } };
      }
    }
  }

  /** The value for the program, and its other form for the model. */
  #succeeded(value: unknown, tool: Tool<Context> | null): Ran {
    try {
      const encoded = encodeToolValue(value === undefined ? null : value);
      if (!encoded.ok) return { type: "failed", failure: this.#named(encoded.failure) };
      const content = checkedContent(
        tool?.toModel === null || tool === null ? this.#encode(value) : tool.toModel(encoded.value),
      );
      return { type: "outcome", outcome: { type: "success", value: encoded.value, control: null }, content };
    } catch (error) {
      const message = toCause(error)?.message ?? "the result could not be encoded";
      return {
        type: "failed",
        failure: this.#named(toolFailure("encoding_failed", { message, cause: toCause(error) })),
      };
    }
  }

  #encode(value: unknown): ToolMessage["content"] {
    return this.#plan.encode({ type: "ok", value: value === undefined ? null : value });
  }

  #encodeFailure(failure: ToolFailure): ToolMessage["content"] {
    try {
      if (failure.reason !== "encoding_failed") return checkedContent(this.#plan.encode({ type: "error", failure }));
    } catch {
      // Then as the library says it.
    }
    return encodeAsJson({ type: "error", failure });
  }

  #failed(reason: "not_found" | "invalid_arguments" | "timeout" | "denied", message: string): Ran {
    return { type: "failed", failure: this.#named(toolFailure(reason, { message })) };
  }

  /** What was thrown may be anything, also something that throws when it is looked at. */
  #raised(error: unknown): Ran {
    const known = ownFailure(error);
    if (known !== null) return { type: "failed", failure: this.#named(known) };
    const cause = toCause(error);
    const message = cause?.message ?? "the handler threw";
    return { type: "failed", failure: this.#named(toolFailure("handler_raised", { message, cause })) };
  }

  #invalid(message: string, metadata: JsonObject, error: unknown): ToolFailure {
    return this.#named(
      toolFailure("invalid_return", { message, metadata, ...(error === null ? {} : { cause: toCause(error) }) }),
    );
  }

  #named(failure: ToolFailure): ToolFailure {
    return { ...failure, toolName: this.#call.name, toolCallId: this.#call.id };
  }
}

function ownFailure(error: unknown): ToolFailure | null {
  try {
    return isEverturnError(error) && error.failure.type === "tool_error" ? error.failure : null;
  } catch {
    return null;
  }
}

/** What an encoder made has to be text, or parts a user's message may have. */
function checkedContent(content: ToolMessage["content"]): ToolMessage["content"] {
  const read = parse("message", { role: "tool", toolCallId: "x", content });
  if (read.ok && read.value.role === "tool") return read.value.content;
  throw new TypeError("an encoder has to make text, or a list of parts");
}

type Generated = AsyncGenerator<unknown, unknown> | Generator<unknown, unknown>;

function isGenerator(value: unknown): value is Generated {
  if (typeof value !== "object" || value === null) return false;
  return (Symbol.asyncIterator in value || Symbol.iterator in value) && "next" in value && "return" in value;
}

type LiveToolEvent =
  | { readonly type: "tool_execution_started"; readonly arguments: JsonObject }
  | { readonly type: "tool_progress"; readonly progress: Json };

function live({ sink }: ToolPorts, { id: effectId, call }: CallTool, event: LiveToolEvent): void | Promise<void> {
  const whole: TurnEvent = { ...event, id: call.id, name: call.name, effectId, attempt: { epoch: 0, n: 1 } };
  return sink.live([whole]);
}
