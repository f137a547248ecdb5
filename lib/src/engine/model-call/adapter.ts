// What can make a model call. An adapter turns a request into events, a batch for each network read.
//
// Rules (E1):
//   1. Nothing happens before the first batch is asked for; leaving early, or aborting the signal, closes what is open, once.
//   2. `message_started` first; then deltas; for each call `tool_call_started`, deltas, `tool_call_completed`; then exactly one terminal:
//      `message_completed`, or `error`. `usage` and `raw_chunk` may trail it. Whoever reads reads to the end.
//   3. What is wrong before a request could be made (a missing key, a request this provider cannot take) is thrown as an Everturn error
//      before the first event. What a provider answers, also `401`, is an `error` event.
//   4. Some providers compute a reply without a connection. An adapter that can find such work again reports a reference to it (`onReference`) before the first
//      event of the reply, and has `resume`. `resume` yields the whole reply from its beginning under the same rules; work that the provider no longer has is
//      an `error` event. Aborting the signal closes the connection and leaves the work alone; `cancel` stops it.

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
  /**
   * Reads the reply of work that an earlier `stream`, possibly in another process, reported with `onReference`. Yields the whole reply from its beginning and
   * sends no new model call. If the provider no longer has the work, the terminal event is an `error`; the caller then makes a new call.
   */
  readonly resume?: (
    reference: JsonObject,
    request: ModelRequest,
    call: AdapterCall,
  ) => AsyncIterable<readonly ModelEvent[]>;
  /** Stops work that `stream` reported with `onReference`. Best effort: a rejection is ignored. */
  readonly cancel?: (reference: JsonObject, call: AdapterCall) => Promise<void>;
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
  /**
   * Call it, at most once, as soon as the provider has named work that goes on without this connection, and wait for what it returns before yielding the next
   * batch: the reference is stored, so that `resume` can be called with it after a crash. It holds what identifies the work, and no key. Left out: nothing is
   * stored.
   */
  readonly onReference?: (reference: JsonObject) => void | Promise<void>;
};

/** Makes image calls. Failures are thrown as `ImageAdapterError`. */
export type ImageAdapter = {
  readonly provider: string;
  readonly operations: readonly ImageRequest["operation"][];
  readonly generate: (request: ImageRequest, call: AdapterCall) => Promise<ImageResponse>;
};
