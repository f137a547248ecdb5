// The contract of span observers: `everturn/otel` and `everturn/middleware` follow the spans of the whole process with
// one each. `telemetry.ts` calls them.
//
// Life of a span
//   start     the work begins. The observer returns its own object for the span, or `null` if it does not follow the
//             span
//   within    runs a part of the work, so that the observer can set its context around it (spans that the work itself
//             creates become children)
//   stopped   the work has ended in this process. For measurements of work that was really done, such as tokens that
//             were billed
//   ended     the result of the work is recorded. Called at most once, after `stopped`
//
// Why there are two ends
//   In a durable turn the result of a model call or a tool call counts only when its commit is written. A process that
//   crashes, or that lost its lease, has done work whose result is discarded; another process does the work again. So a
//   span ends with the commit of its result (exactly-once as seen by an observer, at most once if the process dies
//   between the commit and the export), and a span whose result was discarded never ends. In memory, a result is
//   recorded at once.

import type { Json, JsonObject, ModelReply, ModelRequest } from "../model/internal.ts";
import type { SpanName } from "./telemetry.ts";

/** What a span starts with. */
export type SpanStart = {
  readonly name: SpanName;
  /**
   * The name of the span in every process that performs the work of a durable turn: a call that is repeated after a
   * crash has the same key. `null`: the work is not durable.
   */
  readonly key: string | null;
  readonly requestId: string;
  readonly metadata: JsonObject;
  /**
   * What this observer returned for the enclosing span; `null`: a root span, or a span that the observer does not
   * follow.
   */
  readonly parent: ObservedSpan | null;
  /** In milliseconds. The span of a durable turn starts when the turn was accepted. */
  readonly startedAt: number;
  /** What `traceOf` returned when the durable turn was accepted; `null` for other spans. */
  readonly trace: JsonObject | null;
  readonly input: SpanInput;
};

/** The input of the work, by reference. It may contain texts of users. */
export type SpanInput = {
  readonly request?: ModelRequest;
  readonly arguments?: JsonObject;
  readonly description?: string;
};

/** What a span ends with. */
export type SpanEnd = {
  /** In milliseconds. */
  readonly endedAt: number;
  /** `null`: the work succeeded. */
  readonly error: SpanError | null;
  readonly result: JsonObject;
  readonly output: SpanOutput;
};

/** Why the work failed. `type` is a reason of a closed list or the name of an error class; the message is redacted. */
export type SpanError = { readonly type: string; readonly message: string };

/** The output of the work, by reference. It may contain texts of users. */
export type SpanOutput = { readonly reply?: ModelReply; readonly value?: Json };

/** An observer's object for one span. */
export type ObservedSpan = {
  readonly within: <T>(work: () => T) => T;
  readonly stopped: (end: SpanEnd) => void;
  readonly ended: (end: SpanEnd) => void;
};

/** Follows spans. A method that throws removes the observer: telemetry must not fail a run. */
export type SpanObserver = {
  /**
   * The trace context to store with a durable turn that is about to be accepted: JSON from which any process continues
   * the trace. `continued` is the context of the turn that the new one continues, with the id of that turn. `null`:
   * nothing is stored.
   */
  readonly traceOf?: (continued: ContinuedTurn | null) => JsonObject | null;
  readonly start: (span: SpanStart) => ObservedSpan | null;
};

/** A turn that another turn continues: after a wait for an answer, or with input that arrived too late for it. */
export type ContinuedTurn = { readonly turnId: string; readonly trace: JsonObject };
