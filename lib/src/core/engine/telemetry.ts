// Telemetry: spans of runs, model calls and tool calls. They are published to listeners of the process as plain data,
// and to span observers (`span-observer.ts`), with which `everturn/otel` and `everturn/middleware` are built.
//
// A span covers the work itself: the span of a streaming verb ends when its stream has been read to the end or
// abandoned, not when the verb returns. Listeners are called synchronously and must not block. Without listeners and
// observers a span costs one object, and its start and end are not reported.

import type { JsonObject } from "../model/internal.ts";
import type {
  ContinuedTurn,
  ObservedSpan,
  SpanEnd,
  SpanError,
  SpanInput,
  SpanObserver,
  SpanOutput,
} from "./span-observer.ts";

import { isEverturnError, toCause } from "../model/internal.ts";
import { redacted } from "./redaction.ts";

/**
 * What a span measures. `generate`, `step` and `chat` are verbs; `model`, `tool` and `code` are effects inside them;
 * `image` is an image call; `embeddings` and `rerank` are attempts at a request for embeddings or a ranking.
 */
export type SpanName = "generate" | "step" | "chat" | "model" | "tool" | "code" | "image" | "embeddings" | "rerank";

/** A telemetry event: start, end or exception of a span, or a retry of a model call. Durations are in milliseconds. */
export type TelemetryEvent =
  | ({ readonly type: "start" } & Span)
  | ({ readonly type: "stop"; readonly durationMs: number; readonly result: JsonObject } & Span)
  | ({ readonly type: "exception"; readonly durationMs: number; readonly error: string } & Span)
  | {
      readonly type: "retry";
      readonly requestId: string;
      readonly provider: string;
      readonly attempt: number;
      readonly delayMs: number;
      readonly reason: string;
    };

type Span = {
  /** What the span measures. */
  readonly name: SpanName;
  /** Unique within the process. */
  readonly id: number;
  /** The id of the enclosing span; `null`: a root span. */
  readonly parent: number | null;
  /** The request id of the run. */
  readonly requestId: string;
  /** Details of the span, for example the name of a tool. */
  readonly metadata: JsonObject;
};

type Listener = (event: TelemetryEvent) => void;

const listeners = new Set<Listener>();
let lastId = 0;

/**
 * Subscribes to the telemetry of the whole process. Returns a function that unsubscribes. A listener that throws
 * is unsubscribed.
 */
export function subscribe(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Publishes an event to all listeners. A listener that throws is removed, so that telemetry cannot fail a run. */
export function emitTelemetry(event: TelemetryEvent): void {
  for (const listener of listeners) {
    try {
      listener(event);
    } catch {
      listeners.delete(listener);
    }
  }
}

const observers = new Set<SpanObserver>();

/**
 * Adds an observer to the spans of the whole process. Returns a function that removes it; spans that have started are
 * followed to their end.
 */
export function observeSpans(observer: SpanObserver): () => void {
  observers.add(observer);
  return () => observers.delete(observer);
}

/** The trace context to store with a durable turn that is accepted now; `null`: no observer has one. */
export function traceOfTurn(continued: ContinuedTurn | null): JsonObject | null {
  for (const observer of observers) {
    const trace = guarded(observer, () => observer.traceOf?.(continued) ?? null);
    if (trace !== null) return trace;
  }
  return null;
}

/** What observers learn about a span besides the fields of its telemetry event. */
type Traced = {
  /** See `SpanStart`. Default: `null`. */
  readonly key?: string | null;
  /** See `SpanStart`. Default: `null`. */
  readonly trace?: JsonObject | null;
  /** In milliseconds. Default: now. */
  readonly startedAt?: number;
  readonly input?: SpanInput;
  /** The span ends for observers only when `record` is called. Default: `false`, it ends with `stop` or `fail`. */
  readonly held?: boolean;
};

/** A span that has started. The caller ends it with exactly one of `stop` and `fail`. */
export type OpenSpan = {
  readonly id: number;
  /** Runs a part of the work in the context of the span. */
  readonly within: <T>(work: () => T) => T;
  /** Emits `stop` with the duration. */
  readonly stop: (result: JsonObject, output?: SpanOutput) => void;
  /**
   * Emits `exception` with the duration and the message of the error. `result` and `output`: what the work had
   * produced.
   */
  readonly fail: (error: unknown, result?: JsonObject, output?: SpanOutput) => void;
  /**
   * Ends a held span for observers: its result is recorded. Only the first call counts. With `open`, nothing of the
   * work is continued elsewhere: work that has not ended is reported as ended now, with `open` as its error, and all
   * spans inside end too.
   */
  readonly record: (open?: SpanError) => void;
  /** Never ends a held span for observers: another process has ended it, and its work was only replayed here. */
  readonly discard: () => void;
  /** Has the work ended? */
  readonly hasStopped: () => boolean;
};

/** Starts a span and emits `start`. `now` returns the time of the engine's clock in milliseconds. */
type StartSpan = (
  name: SpanName,
  requestId: string,
  metadata: JsonObject,
  parent: OpenSpan | null,
  now: () => number,
  traced?: Traced,
) => OpenSpan;

export const startSpan: StartSpan = (...given) => {
  lastId += 1;
  return listeners.size + observers.size === 0 ? new UnfollowedSpan() : startFollowed(...given);
};

/** A span that starts while there is no listener and no observer. Those that are added later learn nothing about it. */
class UnfollowedSpan implements OpenSpan {
  readonly id = lastId;
  #hasStopped = false;

  within<T>(work: () => T): T {
    return work();
  }

  stop(): void {
    this.#hasStopped = true;
  }

  fail(): void {
    this.#hasStopped = true;
  }

  record(): void {
    this.#hasStopped = true;
  }

  discard(): void {
    this.#hasStopped = true;
  }

  hasStopped(): boolean {
    return this.#hasStopped;
  }
}

function startFollowed(
  name: SpanName,
  requestId: string,
  metadata: JsonObject,
  parent: OpenSpan | null,
  now: () => number,
  { key = null, trace = null, startedAt: spanStart, input = {}, held = false }: Traced = {},
): OpenSpan {
  const span: Span = { name, id: lastId, parent: parent?.id ?? null, requestId, metadata };
  const startedAt = now();
  emitTelemetry({ type: "start", ...span });
  const outer = parent === null ? undefined : followed.get(parent);
  const observed = observers.size === 0 ? noObservers : new Map<SpanObserver, ObservedSpan>();
  for (const observer of observers) {
    const parentSpan = outer?.observed.get(observer) ?? null;
    const start = {
      name,
      key,
      requestId,
      metadata,
      parent: parentSpan,
      startedAt: spanStart ?? startedAt,
      trace,
      input,
    };
    const observedSpan = guarded(observer, () => observer.start(start));
    if (observedSpan !== null) observed.set(observer, observedSpan);
  }
  const inner = observed.size === 0 ? noSpans : new Set<OpenSpan>();
  let end: SpanEnd | null = null;
  let isRecorded = false;

  function stopAs(error: SpanError | null, result: JsonObject, output: SpanOutput): void {
    if (end !== null) return;
    const spanEnd: SpanEnd = { endedAt: now(), error, result, output };
    end = spanEnd;
    for (const [observer, observedSpan] of observed) guarded(observer, () => observedSpan.stopped(spanEnd));
    if (!held) record();
  }

  function record(open: SpanError | null = null): void {
    if (isRecorded) return;
    if (open !== null) for (const inside of inner) inside.record(open);
    if (end === null) stopAs(open, {}, {});
    if (isRecorded || end === null) return;
    isRecorded = true;
    outer?.inner.delete(openSpan);
    const spanEnd = end;
    for (const [observer, observedSpan] of observed) guarded(observer, () => observedSpan.ended(spanEnd));
  }

  const openSpan: OpenSpan = {
    id: span.id,
    within: (work) => {
      let nested = work;
      for (const observedSpan of observed.values()) {
        const next = nested;
        nested = () => observedSpan.within(next);
      }
      return nested();
    },
    stop: (result, output = {}) => {
      emitTelemetry({ type: "stop", ...span, durationMs: now() - startedAt, result });
      stopAs(null, result, output);
    },
    fail: (error, result = {}, output = {}) => {
      const spanError = toSpanError(error);
      emitTelemetry({ type: "exception", ...span, durationMs: now() - startedAt, error: spanError.message });
      stopAs(spanError, result, output);
    },
    record,
    discard: () => {
      isRecorded = true;
      outer?.inner.delete(openSpan);
    },
    hasStopped: () => end !== null,
  };
  if (observed.size > 0) followed.set(openSpan, { observed, inner });
  outer?.inner.add(openSpan);
  return openSpan;
}

const noObservers = new Map<SpanObserver, ObservedSpan>();
/** Stays empty: spans are added only to spans that observers follow. */
const noSpans = new Set<OpenSpan>();

/** What the observers returned for a span, and the spans inside it that have not ended for them. */
type Followed = { readonly observed: ReadonlyMap<SpanObserver, ObservedSpan>; readonly inner: Set<OpenSpan> };

/** The spans that observers follow. */
const followed = new WeakMap<OpenSpan, Followed>();

function toSpanError(error: unknown): SpanError {
  const cause = toCause(error);
  const message = redacted(cause?.message ?? "a value that is not an Error was thrown", "log");
  return { type: errorReason(error) ?? cause?.name ?? "Error", message };
}

/**
 * The reason of an Everturn error; otherwise `null`. A thrown value can be anything, also an object whose getters
 * throw.
 */
function errorReason(error: unknown): string | null {
  try {
    return isEverturnError(error) ? error.failure.reason : null;
  } catch {
    return null;
  }
}

/** Calls an observer. One that throws is removed. */
function guarded<T>(observer: SpanObserver, call: () => T): T | null {
  try {
    return call();
  } catch {
    observers.delete(observer);
    return null;
  }
}
