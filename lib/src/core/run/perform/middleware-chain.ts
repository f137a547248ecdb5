// Calls the middleware of an engine around the attempts of one effect (core/engine/middleware.ts has the contract), and
// collects what they did.
//
// Theory of operation
//   Each middleware gets a `next` that leads to the one after it; the last `next` leads to the adapter or to the tool
//   handler. A model call is a chain of async generators: nothing runs before the driver reads the first batch, and
//   closing the outermost stream closes those inside. Performers use this file only if the engine has middleware, so an
//   engine without any makes its calls as if this file did not exist.
//
// Records
//   notes               in the response of the effect: which middleware changed a request, answered itself, retried,
//                       and what it noted (`MiddlewareNote`)
//   middleware/<n>/<k>  values of `once` in attempt n; k names the middleware and its key. Written before the
//                       middleware continues (Q2).
//
// Invariants
//   1. Usage is measured at the adapter (`ModelMeter`): `usage` events of middleware are dropped, and the sum over all
//      calls of `next` is reported instead. So a reply from a cache costs nothing, and a reply that a middleware
//      discarded is paid for. It reaches the collector at once, because a cancel may follow.
//   2. A request that a middleware changed is validated before it reaches the adapter.

import type {
  Middleware,
  ModelCall,
  ModelStream,
  NextModel,
  NextTool,
  ToolContext,
  WrappedCall,
} from "../../engine/internal.ts";
import type { MiddlewareNote } from "../../kernel/internal.ts";
import type {
  Json,
  JsonObject,
  ModelEvent,
  ModelRequest,
  ToolCall,
  ToolOutcome,
  ToolSpec,
  Usage,
} from "../../model/internal.ts";
import type { RunPlan } from "../plan/plan.ts";
import type { Scope } from "../ports/ports.ts";

import { failureWithoutKey, withCosts } from "../../engine/internal.ts";
import {
  adapterFailure,
  exactSum,
  invalidArgument,
  noUsage,
  orThrow,
  renderIssue,
  validateRequest,
} from "../../model/internal.ts";
import {
  isModelEvent,
  isPlainObject,
  json,
  jsonObject,
  modelEventShape,
  read,
  usageShape,
} from "../../model/parse/reading.ts";
import { RecordFailure } from "./reference.ts";

/**
 * The largest number of notes in a response. Later ones are dropped: a middleware must not make a journal row
 * arbitrarily large.
 */
const maxNotes = 100;
/** Characters of the JSON of details; longer ones are left out. */
const maxNoteLength = 4000;
const maxActionLength = 100;

/** The middleware of one effect, with all its attempts. */
export class MiddlewareChain {
  readonly #plan: RunPlan;
  readonly #scope: Scope;
  readonly #effectId: string;
  readonly #notes: MiddlewareNote[] = [];
  /** Values of `once` in this process, by record name. */
  readonly #values = new Map<string, Promise<Json>>();

  /** The middleware of an effect; `null` if the engine has none for calls of this kind. */
  static of(plan: RunPlan, kind: "model" | "tool", scope: Scope, effectId: string): MiddlewareChain | null {
    const isUsed = plan.middleware.some((middleware) => middleware[kind] !== undefined);
    return isUsed ? new MiddlewareChain(plan, scope, effectId) : null;
  }

  constructor(plan: RunPlan, scope: Scope, effectId: string) {
    this.#plan = plan;
    this.#scope = scope;
    this.#effectId = effectId;
  }

  /** The field `middleware` of the response; empty if nothing was noted. */
  get noted(): { readonly middleware?: readonly MiddlewareNote[] } {
    return this.#notes.length === 0 ? {} : { middleware: this.#notes };
  }

  /**
   * The stream of one attempt at a model call. `open` calls the adapter; `onUsage` receives the usage of all its calls
   * so far.
   */
  model(
    attempt: ModelAttemptCall,
    open: (request: ModelRequest) => ModelStream,
    onUsage: (usage: Usage) => void,
  ): ModelStream {
    const { n, signal, provider, endpoint } = attempt;
    const { adapterOptions: options, context, apiKey } = this.#plan;
    const meter = new ModelMeter(provider, apiKey, onUsage);
    const chain = this.#plan.middleware.filter(({ model }) => model !== undefined);
    const nextOf =
      (index: number): NextModel =>
      (request) => {
        const middleware = chain[index];
        if (middleware !== undefined)
          return this.#wrapModel(middleware, callOf(middleware, request), nextOf(index + 1));
        return meter.measured(request, () => {
          if (request !== attempt.request) orThrow(validateRequest(request));
          return open(request);
        });
      };
    const callOf = (middleware: Middleware, request: ModelRequest): ModelCall => ({
      ...this.#callOf(middleware, n, signal),
      request,
      provider,
      endpoint,
      options,
      context,
      addUsage: (usage) => meter.add(usage),
    });
    return meter.reporting(nextOf(0)(attempt.request));
  }

  async *#wrapModel(middleware: Middleware, call: ModelCall, next: NextModel): AsyncGenerator<readonly ModelEvent[]> {
    const counter = this.#counter(middleware, call.attempt);
    const stream: unknown = await middleware.model?.(call, (request) => {
      counter.called(request === call.request ? null : changedFields(call.request, request), "changed_request");
      return next(request);
    });
    if (!isStream(stream)) {
      throw invalidArgument(`middleware "${middleware.name}": model has to return a stream of events`);
    }
    try {
      yield* stream;
    } finally {
      counter.ended();
    }
  }

  /** One attempt at a tool handler. `run` runs the handler. */
  tool(invocation: ToolAttemptCall, run: NextTool): Promise<ToolOutcome> {
    const { n, signal, tool, toolCall, context } = invocation;
    const chain = this.#plan.middleware.filter((middleware) => middleware.tool !== undefined);
    const nextOf =
      (index: number): NextTool =>
      async (args) => {
        const middleware = chain[index];
        if (middleware === undefined) return run(args);
        const counter = this.#counter(middleware, n);
        const call = { ...this.#callOf(middleware, n, signal), tool, toolCall, arguments: args, context };
        const next = nextOf(index + 1);
        try {
          const outcome = await middleware.tool?.(call, (passed) => {
            counter.called(passed === args ? null : changedFields(args, passed), "changed_arguments");
            return next(passed);
          });
          // The caller checks other values of programs without a compiler.
          if (outcome !== undefined) return outcome;
          throw invalidArgument(`middleware "${middleware.name}": tool has to return an outcome`);
        } finally {
          counter.ended();
        }
      };
    return nextOf(0)(invocation.arguments);
  }

  /** Counts the calls of `next`, and notes what follows from them. */
  #counter({ name }: Middleware, attempt: number) {
    let calls = 0;
    return {
      called: (changed: readonly string[] | null, action: string) => {
        calls += 1;
        if (changed !== null) this.#note(name, attempt, action, { fields: changed });
        if (calls === 2) this.#note(name, attempt, "retried", {});
      },
      ended: () => {
        if (calls === 0) this.#note(name, attempt, "short_circuited", {});
      },
    };
  }

  #callOf({ name }: Middleware, attempt: number, signal: AbortSignal): WrappedCall {
    const { requestId, sessionId, clock } = this.#plan;
    return {
      effectId: this.#effectId,
      attempt,
      requestId,
      sessionId,
      tenant: this.#scope.tenant,
      signal,
      clock,
      note: (action, details = {}) => {
        if (typeof action !== "string" || !("value" in read(jsonObject, details))) {
          throw invalidArgument(`middleware "${name}": a note has to be a text with JSON details`);
        }
        const { length } = JSON.stringify(details);
        const kept = length > maxNoteLength ? { omittedCharacters: length } : details;
        this.#note(name, attempt, action.slice(0, maxActionLength), kept);
      },
      once: (key, work) => this.#once(name, attempt, key, work),
    };
  }

  #note(name: string, attempt: number, action: string, details: JsonObject): void {
    if (this.#notes.length < maxNotes) this.#notes.push({ name, attempt, action, details });
  }

  #once(name: string, attempt: number, key: string, work: () => Json | Promise<Json>): Promise<Json> {
    const record = `middleware/${attempt}/${JSON.stringify([name, key])}`;
    const existing = this.#values.get(record);
    if (existing !== undefined) return existing;
    const value = this.#recorded(record, name, work);
    this.#values.set(record, value);
    // A rejection is not kept: the next call does the work again.
    value.catch(() => this.#values.delete(record));
    return value;
  }

  async #recorded(record: string, name: string, work: () => Json | Promise<Json>): Promise<Json> {
    const stored = this.#scope.find(this.#effectId, record);
    if (isPlainObject(stored) && "value" in stored) return stored["value"];
    const done = read(json, await work());
    if (!("value" in done)) {
      throw invalidArgument(`middleware "${name}": the value of once has to be JSON`);
    }
    try {
      await this.#scope.record(this.#effectId, record, { value: done.value });
    } catch (cause) {
      throw new RecordFailure("the value could not be recorded", { cause });
    }
    return done.value;
  }
}

/** One attempt at a model call. */
type ModelAttemptCall = {
  readonly n: number;
  readonly signal: AbortSignal;
  readonly provider: string;
  readonly endpoint: string | null;
  readonly request: ModelRequest;
};

/** One attempt at a tool handler. */
type ToolAttemptCall = {
  readonly n: number;
  readonly signal: AbortSignal;
  readonly tool: ToolSpec;
  readonly toolCall: ToolCall;
  readonly arguments: JsonObject;
  readonly context: ToolContext;
};

/** Measures the usage of one attempt at a model call that goes through middleware. */
class ModelMeter {
  readonly #provider: string;
  readonly #apiKey: string | null;
  readonly #onUsage: (usage: Usage) => void;
  /** The newest usage of each call of the adapter, with costs. */
  readonly #usages: Usage[] = [];
  /** The sum that readers have not received yet; `null`: none. */
  #unreported: Usage | null = null;

  /** `onUsage` receives each new sum. */
  constructor(provider: string, apiKey: string | null, onUsage: (usage: Usage) => void) {
    this.#provider = provider;
    this.#apiKey = apiKey;
    this.#onUsage = onUsage;
  }

  /** Adds usage that a middleware caused. */
  add(usage: Usage): void {
    const parsed = read(usageShape, usage);
    if ("issues" in parsed) {
      throw invalidArgument(`middleware: addUsage: ${parsed.issues.map(renderIssue).join("; ")}`);
    }
    this.#set(this.#usages.length, parsed.value);
  }

  /**
   * The events of one call of the adapter. Its usage is measured, with costs. Events that are not valid are left out.
   */
  async *measured({ model }: ModelRequest, open: () => ModelStream): AsyncGenerator<readonly ModelEvent[]> {
    const index = this.#usages.push(noUsage) - 1;
    for await (const batch of open()) {
      const events = batch.flatMap((event) => {
        if (event?.type !== "usage" || !isModelEvent(event)) return this.#checked(event);
        const usage = withCosts(event.usage, model);
        this.#set(index, usage);
        return [{ ...event, usage }];
      });
      if (events.length > 0) yield events;
    }
  }

  /** The events of the outermost middleware, with the measured usage in place of its own. */
  async *reporting(stream: ModelStream): AsyncGenerator<readonly ModelEvent[]> {
    for await (const batch of stream) {
      const events = [...batch.filter((event) => event?.type !== "usage"), ...this.#report()];
      if (events.length > 0) yield events;
    }
    const rest = this.#report();
    if (rest.length > 0) yield rest;
  }

  #report(): readonly ModelEvent[] {
    const usage = this.#unreported;
    this.#unreported = null;
    return usage === null ? [] : [{ type: "usage", usage }];
  }

  #set(index: number, usage: Usage): void {
    this.#usages[index] = usage;
    const sum = this.#usages.reduce((total, addend) => exactSum(total, addend) ?? total, noUsage);
    this.#unreported = sum;
    this.#onUsage(sum);
  }

  /** The event with all fields; nothing for an invalid one. A terminal event that is invalid is a failure. */
  #checked(event: ModelEvent): readonly ModelEvent[] {
    if (event?.type === "text_delta" && typeof event.delta === "string") return [event];
    if (event?.type !== "message_completed" && event?.type !== "error") return isModelEvent(event) ? [event] : [];
    const parsed = read(modelEventShape, event);
    if ("value" in parsed && parsed.value.type === "message_completed") return [parsed.value];
    if ("value" in parsed && parsed.value.type === "error") {
      return [{ ...parsed.value, error: failureWithoutKey(parsed.value.error, this.#apiKey) }];
    }
    const issues = "value" in parsed ? [] : parsed.issues;
    const message = `the adapter sent an invalid ${event.type} event: ${issues.map(renderIssue).join("; ")}`;
    return [{ type: "error", error: adapterFailure("malformed_response", { provider: this.#provider, message }) }];
  }
}

function isStream(value: unknown): value is ModelStream {
  return typeof value === "object" && value !== null && Symbol.asyncIterator in value;
}

/** The names of the fields that differ. */
function changedFields(before: object, after: object): readonly string[] {
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...names].filter((name) => Reflect.get(before, name) !== Reflect.get(after, name));
}
