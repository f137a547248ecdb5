// The contract of a middleware: functions that wrap the model calls and the tool calls of an engine, in the order of
// `engine.middleware`. The first one is the outermost: it sees a request first and its reply last.
// core/run/perform/middleware-chain.ts calls them; `everturn/middleware` has ready-made ones.
//
// What is wrapped
//   model   one attempt at a model call: inside retries, fallbacks and repairs, around the adapter. Streaming and
//           awaited verbs take the same path, because every model call is a stream.
//   tool    one attempt at a tool handler: after the arguments were validated and the call was approved, within the
//           time limit of the tool. A call that does not run (denied, invalid arguments, waiting) does not reach it.
//
// Rules
//   1. What reaches the turn is the stream or the outcome of the outermost middleware. It is recorded as the response
//      of the effect, so a replay does not run any middleware again (H1). A process that takes over in the middle of an
//      attempt runs the attempt again; `once` keeps results across that.
//   2. The usage of a reply is measured below all middleware, at the adapter: every call of `next` counts, and a reply
//      without one costs nothing.
//   3. A stream of a middleware obeys the rules of an adapter (E1, model-call/adapter.ts).

import type { Clock } from "../clock/clock.ts";
import type {
  CallerContext,
  Json,
  JsonObject,
  ModelEvent,
  ModelRequest,
  ToolCall,
  ToolOutcome,
  ToolSpec,
  Usage,
} from "../model/internal.ts";
import type { AdapterOptions } from "./model-call/adapter.ts";
import type { Rules } from "./option-rules.ts";
import type { ToolContext } from "./tool/tool.ts";

import { invalidArgument } from "../model/internal.ts";
import { isPlainObject } from "../model/parse/reading.ts";
import { aFunction, aName, anObject, checkOptions, checkRule } from "./option-rules.ts";

/**
 * Wraps the model calls and the tool calls of an engine. A middleware may change what it passes on and what it returns,
 * answer without calling `next`, and call `next` again. Its result is recorded with the turn: a replay does not run it
 * again.
 */
export type Middleware = {
  /** Identifies the middleware in records and descriptions. Unique in an engine. */
  readonly name: string;
  /**
   * Wraps one attempt at a model call. Returns the events of the reply in batches, under the rules of an adapter: one
   * terminal event, `message_completed` or `error`. An async generator, or a function that returns what `next` returns.
   * Absent: model calls pass unchanged.
   */
  readonly model?: (call: ModelCall, next: NextModel) => ModelStream | Promise<ModelStream>;
  /**
   * Wraps one attempt at a tool handler, and returns the outcome. An error that it throws is a failure of the tool.
   * Absent: tool calls pass unchanged.
   */
  readonly tool?: (call: ToolInvocation, next: NextTool) => ToolOutcome | Promise<ToolOutcome>;
};

/**
 * Makes the model call, or passes the request to the next middleware. Nothing is sent before the result is iterated.
 * Each call is a model call of its own and is billed. The stream may throw, and may end with an `error` event.
 */
export type NextModel = (request: ModelRequest) => ModelStream;

/** The events of a model call, in batches. */
export type ModelStream = AsyncIterable<readonly ModelEvent[]>;

/**
 * Runs the handler, or passes the call to the next middleware. Changed arguments are validated again. Resolves also if
 * the tool fails, with an outcome of type `failure`; rejects if the call is aborted.
 */
export type NextTool = (args: JsonObject) => Promise<ToolOutcome>;

/** What a middleware receives with every call. */
export type WrappedCall = {
  /** Identifies the call. The same for all attempts, also after a crash. */
  readonly effectId: string;
  /** The number of the attempt at this effect, counted from 1 over all processes. */
  readonly attempt: number;
  /** The request id of the run, for logs. */
  readonly requestId: string;
  /** The id of the session; `null` outside a session. */
  readonly sessionId: string | null;
  /**
   * The tenant of a durable turn, as `runtime.tenant` was given it, or of a caller of `/v1/chat/completions`; empty:
   * the default tenant. `null` for other runs in memory.
   */
  readonly tenant: string | null;
  /** Aborted when the turn is cancelled, or the call has reached its time limit. */
  readonly signal: AbortSignal;
  /** The clock of the engine. */
  readonly clock: Clock;
  /**
   * Records an action in the response of the call, for the journal of a durable turn. At most 100 notes of a call are
   * kept, and details of at most 4,000 characters. Throws `MisuseError` for details that are not JSON.
   */
  readonly note: (action: string, details?: JsonObject) => void;
  /**
   * Does work once in this attempt, also across a crash: a process that takes over gets the recorded value. In memory
   * the work is simply done. Each key has one value. A rejection of the work is not recorded.
   */
  readonly once: (key: string, work: () => Json | Promise<Json>) => Promise<Json>;
};

/** A model call as a middleware sees it. */
export type ModelCall = WrappedCall & {
  /** The request as the middleware before this one passed it on. */
  readonly request: ModelRequest;
  /** The provider of the adapter that would be called. */
  readonly provider: string;
  /** The server of the adapter that would be called (`Adapter.endpoint`); `null`: the adapter names none. */
  readonly endpoint: string | null;
  /** The settings of the adapter. */
  readonly options: AdapterOptions;
  /** The caller's context, as tool handlers receive it. */
  readonly context: CallerContext;
  /**
   * Adds usage that the middleware caused itself, for example with a model that judges the reply. It counts for budgets
   * and the ledger.
   */
  readonly addUsage: (usage: Usage) => void;
};

/** A tool call as a middleware sees it. */
export type ToolInvocation = WrappedCall & {
  /** The tool that is called. */
  readonly tool: ToolSpec;
  /** The call as the model made it. */
  readonly toolCall: ToolCall;
  /** The arguments, as the middleware before this one passed them on. They are valid. */
  readonly arguments: JsonObject;
  /** What the handler receives. */
  readonly context: ToolContext;
};

const rules: Rules<Middleware> = {
  name: { ...aName, required: true },
  model: aFunction,
  tool: aFunction,
};

/** Throws `MisuseError` unless the value is a list of middleware with different names. `caller` begins the message. */
export function checkMiddleware(caller: string, list: unknown): void {
  checkRule(`${caller}: `, ["middleware"], list, { must: "a list", fits: Array.isArray });
  const names = new Set<unknown>();
  for (const [index, item] of Array.isArray(list) ? list.entries() : []) {
    const value: unknown = item;
    const path = ["middleware", index];
    checkRule(`${caller}: `, path, value, anObject);
    // An instance of a class may have fields of its own.
    const { name, model, tool }: { readonly [field: string]: unknown } = Object(value);
    checkOptions(caller, isPlainObject(value) ? value : { name, model, tool }, rules, path);
    if (names.has(name)) {
      const message = `${caller}: middleware.${index} ("${String(name)}") has the name of another one`;
      throw invalidArgument(message, path);
    }
    names.add(name);
  }
}
