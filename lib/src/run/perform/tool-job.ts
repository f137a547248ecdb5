// One call of a tool, while it is being worked on: what its stages share, and what they tell while they do.

import type { Tool, ToolContext } from "../../engine/internal.ts";
import type { CallTool, ToolWaits } from "../../kernel/internal.ts";
import type { CallerContext, Json, JsonObject, TurnEvent, Usage } from "../../model/internal.ts";
import type { Plan } from "../plan/plan.ts";
import type { LiveOrigin, Scope, Sink } from "../ports/ports.ts";
import type { Slots } from "./slots.ts";

import { addUsage, encodeToolValue, noUsage } from "../../model/internal.ts";
import { jsonObject, read } from "../../model/parse/reading.ts";

export type ToolPorts = {
  readonly sink: Sink;
  readonly scope: Scope;
  readonly signal: AbortSignal;
  readonly slots: Slots;
  /** What to call when the run is over, instead of a listener each. */
  readonly stops: Set<() => void>;
  readonly unsettled: Map<string, Usage>;
  readonly parentSpan: number | null;
  readonly runChild: (
    attempt: number,
    signal: AbortSignal,
    booked: (usage: Usage) => void,
    waits: (waits: InnerWait) => void,
  ) => ToolContext["runChild"];
};

/** What a turn inside a call waits for. */
export type InnerWait = Pick<ToolWaits, "reason" | "question" | "opts" | "path">;

/** What the hints of a call that waits say of the call inside it. */
export function innerHints({ inner = {} }: JsonObject): JsonObject {
  const found = read(jsonObject, inner);
  return "value" in found ? found.value : {};
}

type LiveToolEvent =
  | { readonly type: "tool_execution_started"; readonly arguments: JsonObject }
  | { readonly type: "tool_progress"; readonly progress: Json };

export class ToolJob<Context extends CallerContext> {
  readonly plan: Plan<Context>;
  readonly ports: ToolPorts;
  readonly effect: CallTool;
  /** `null`: nobody here has it. */
  readonly tool: Tool<Context> | null;
  readonly stop = new AbortController();
  /** What the handler, hooks and the gate are given: the same for each of them, until the next attempt. */
  context: ToolContext<Context>;
  /** The attempt under way, counted from 1, over all processes that had the call. */
  attempt = 1;
  /** What turns that the tool ran have cost: in this attempt, and in those before it. */
  usage: Usage = noUsage;
  #before: Usage = noUsage;
  #ended = false;
  /** What a turn inside the call waits for, once one does. */
  inner: InnerWait | null = null;
  /** How many turns inside the call are under way. */
  #running = 0;
  #wake: () => void = () => undefined;
  /** Resolves when that is so. */
  readonly waiting: Promise<void> = new Promise((resolve) => {
    this.#wake = resolve;
  });
  readonly #end = () => this.stop.abort(this.ports.signal.reason);

  constructor(plan: Plan<Context>, ports: ToolPorts, effect: CallTool) {
    this.plan = plan;
    this.ports = ports;
    this.effect = effect;
    this.tool = plan.tools.findLast(({ name }) => name === effect.call.name) ?? null;
    ports.stops.add(this.#end);
    this.context = {
      context: plan.context,
      sessionId: plan.sessionId,
      requestId: plan.requestId,
      toolCall: effect.call,
      idempotencyKey: effect.idempotencyKey,
      signal: this.stop.signal,
      engine: plan.engine,
      progress: this.#progress(),
      runChild: this.#children(),
    };
  }

  /** What this call has cost so far. */
  get spent(): Usage {
    return plus(this.#before, this.usage);
  }

  /** Adds to what the attempt under way has cost. */
  book(usage: Usage): void {
    this.usage = plus(this.usage, usage);
    this.ports.unsettled.set(this.effect.id, this.spent);
  }

  /** Another attempt begins: what the one before still says is nobody's any more. */
  nextAttempt(): void {
    this.#before = this.spent;
    this.usage = noUsage;
    this.attempt += 1;
    this.context = { ...this.context, progress: this.#progress(), runChild: this.#children() };
  }

  /** The call has come to something: nothing is told of it any more, and nobody has to stop it. */
  end(): void {
    this.#ended = true;
    this.ports.stops.delete(this.#end);
  }

  get origin(): LiveOrigin {
    return { effectId: this.effect.id, attempt: { epoch: this.ports.scope.epoch, n: this.attempt } };
  }

  /** Tells what is only worth seeing now. */
  live(event: LiveToolEvent): void | Promise<void> {
    const { id, name } = this.effect.call;
    return this.say({ ...event, id, name, ...this.origin });
  }

  say(event: TurnEvent): void | Promise<void> {
    return this.ports.sink.live([event], this.origin);
  }

  #children(): ToolContext["runChild"] {
    const book = (usage: Usage) => this.book(usage);
    const run = this.ports.runChild(this.attempt, this.stop.signal, book, (waits) => {
      this.inner ??= waits;
    });
    return async (...given) => {
      // Nothing is begun in a call that waits.
      if (this.inner !== null) throw new DOMException("a turn inside this call waits for somebody", "AbortError");
      this.#running += 1;
      try {
        return await run(...given);
      } finally {
        this.#running -= 1;
        // Those beside it come to their end first, or to a wait of their own: what they were paid for is not thrown away.
        if (this.inner !== null && this.#running === 0) this.#wake();
      }
    };
  }

  #progress(): ToolContext["progress"] {
    const of = this.attempt;
    return (progress) => {
      const shown = encodeToolValue(progress);
      if (!shown.ok || this.#ended || of !== this.attempt) return;
      void this.live({ type: "tool_progress", progress: shown.value });
    };
  }
}

function plus(sum: Usage, more: Usage): Usage {
  const total = addUsage(sum, more);
  return total.ok ? total.value : sum;
}
