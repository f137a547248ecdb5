// What a program may watch: spans of what runs, as plain data. A span covers the work itself, so that of a stream lasts until it has been
// read to its end or left.

import type { JsonObject } from "../model/internal.ts";

import { toCause } from "../model/internal.ts";

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
  readonly name: SpanName;
  readonly id: number;
  /** The span this one is part of. */
  readonly parent: number | null;
  readonly requestId: string;
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

export function tell(event: TelemetryEvent): void {
  for (const listener of listeners) {
    try {
      listener(event);
    } catch {
      listeners.delete(listener);
    }
  }
}

/** A span under way. */
export type OpenSpan = {
  readonly id: number;
  readonly stop: (result: JsonObject) => void;
  readonly fail: (error: unknown) => void;
};

export function startSpan(
  name: SpanName,
  requestId: string,
  metadata: JsonObject,
  parent: number | null,
  now: () => number,
): OpenSpan {
  lastId += 1;
  const span: Span = { name, id: lastId, parent, requestId, metadata };
  const began = now();
  tell({ type: "start", ...span });
  return {
    id: span.id,
    stop: (result) => tell({ type: "stop", ...span, durationMs: now() - began, result }),
    fail: (error) => {
      const message = toCause(error)?.message ?? "something was thrown that is no error";
      tell({ type: "exception", ...span, durationMs: now() - began, error: message });
    },
  };
}
