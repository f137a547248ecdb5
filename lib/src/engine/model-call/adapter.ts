// What can make a model call. An adapter turns a request into events, a batch for each network read.
//
// Rules (E1):
//   1. Nothing happens before the first batch is asked for; leaving early, or aborting the signal, closes what is open, once.
//   2. `message_started` first; then deltas; for each call `tool_call_started`, deltas, `tool_call_completed`; then exactly one terminal:
//      `message_completed`, or `error`. `usage` and `raw_chunk` may trail it. Whoever reads reads to the end.
//   3. What is wrong before a request could be made (a missing key, a request this provider cannot take) is thrown as an Everturn error
//      before the first event. What a provider answers, also `401`, is an `error` event.

import type { Clock } from "../../clock/clock.ts";
import type { ImageRequest, ImageResponse, JsonObject, ModelEvent, ModelRequest } from "../../model/internal.ts";

/**
 * Makes model calls. A stream has exactly one terminal event, `message_completed` or `error`; only `usage` and
 * `raw_chunk` may follow it (E1). What is wrong before a request can be made, such as a missing key, is thrown
 * before the first event.
 */
export type Adapter = {
  /** The name of the provider in routes, failures and registries. */
  readonly provider: string;
  /** Makes one model call and yields its events in batches, one per network read. */
  readonly stream: (request: ModelRequest, call: AdapterCall) => AsyncIterable<readonly ModelEvent[]>;
  /**
   * Returns whether the provider can answer this request in its schema only with a separate call after the tools
   * have run.
   */
  readonly needsFinalize?: (request: ModelRequest) => boolean;
};

/** What an adapter receives with a request: signal, request id, settings, key. */
export type AdapterCall = {
  readonly signal: AbortSignal;
  /** Identifies the call in logs and failures. */
  readonly requestId: string;
  /** The adapter's settings: those of the call override those of the engine. */
  readonly options: JsonObject;
  /** An API key for this call only. */
  readonly apiKey: string | null;
  /** Whether to emit `raw_chunk` events. */
  readonly rawChunks: boolean;
  /** The number of the attempt, from 1. */
  readonly attempt: number;
  /** The clock of the engine: an adapter takes its timeouts and delays from it. */
  readonly clock: Clock;
  /**
   * Call it immediately before the request is sent, and wait for what it returns. It rejects when this process must not send it any more, because another
   * process drives the turn. Left out: nothing to wait for.
   */
  readonly beforeRequest?: () => void | Promise<void>;
};

/** Makes image calls. Failures are thrown as `ImageAdapterError`. */
export type ImageAdapter = {
  readonly provider: string;
  readonly operations: readonly ImageRequest["operation"][];
  readonly generate: (request: ImageRequest, call: AdapterCall) => Promise<ImageResponse>;
};
