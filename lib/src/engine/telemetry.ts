// Telemetry: spans of runs, model calls and tool calls, published to listeners of the process as plain data. A tracing library such as
// OpenTelemetry can be attached with one listener.
//
// A span covers the work itself: the span of a streaming verb ends when its stream has been read to the end or abandoned, not when the verb
// returns. Listeners are called synchronously and must not block.

import type { JsonObject } from "../model/internal.ts";

import { toCause } from "../model/internal.ts";
import { redacted } from "./redaction.ts";

/** What a span measures. `generate`, `step` and `chat` are verbs; the others are effects inside them. */
export type SpanName = "generate" | "step" | "chat" | "model" | "tool" | "code" | "image";

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

/** A span that has started. The caller ends it with exactly one of `stop` and `fail`. */
export type OpenSpan = {
  readonly id: number;
  /** Emits `stop` with the duration. */
  readonly stop: (result: JsonObject) => void;
  /** Emits `exception` with the duration and the message of the error. */
  readonly fail: (error: unknown) => void;
};

/** Starts a span and emits `start`. `now` returns the time of the engine's clock in milliseconds. */
export function startSpan(
  name: SpanName,
  requestId: string,
  metadata: JsonObject,
  parent: number | null,
  now: () => number,
): OpenSpan {
  lastId += 1;
  const span: Span = { name, id: lastId, parent, requestId, metadata };
  const startedAt = now();
  emitTelemetry({ type: "start", ...span });
  return {
    id: span.id,
    stop: (result) => emitTelemetry({ type: "stop", ...span, durationMs: now() - startedAt, result }),
    fail: (error) => {
      const message = redacted(toCause(error)?.message ?? "a value that is not an Error was thrown", "log");
      emitTelemetry({ type: "exception", ...span, durationMs: now() - startedAt, error: message });
    },
  };
}
