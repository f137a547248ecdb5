// The contract of an adapter: converts a model request into a stream of events, one batch for each network read.
//
// core/run/perform/model.ts calls adapters. everturn/testing has a conformance suite that checks an adapter against
// these rules.
//
// Rules (E1)
//   1. Laziness: no request is sent before the consumer asks for the first batch. Returning early from the iteration,
//      or aborting the signal, closes open connections, once.
//   2. Order: `message_started` first; then deltas; for each tool call `tool_call_started`, deltas,
//      `tool_call_completed`; then exactly one terminal event, `message_completed` or `error`. Only `usage` and
//      `raw_chunk` may follow it, so consumers read to the end of the stream.
//   3. Errors: a problem found before a request is sent (a missing key, a request that the provider cannot express) is
//      thrown as an Everturn error before the first event. Every response of the provider, also `401`, becomes an
//      `error` event.
//   4. Background work: some providers compute a reply without an open connection. An adapter that can find such work
//      again reports a reference to it (`onReference`) before the first event of the reply, and implements `resume`.
//      `resume` yields the whole reply from its beginning under the same rules; if the provider no longer has the work,
//      the terminal event is an `error`. Aborting the signal closes the connection and does not stop the work; `cancel`
//      does.

import type { Clock } from "../../clock/clock.ts";
import type {
  ImageRequest,
  ImageResponse,
  JsonObject,
  ModelEvent,
  ModelName,
  ModelRequest,
} from "../../model/internal.ts";

import { isPlainObject } from "../../model/parse/reading.ts";

/**
 * Makes model calls. A stream has exactly one terminal event, `message_completed` or `error`; only `usage` and
 * `raw_chunk` may follow it (E1). What is wrong before a request can be made, such as a missing key, is thrown
 * before the first event.
 */
export type Adapter = {
  /** The name of the provider in routes, failures and registries. */
  readonly provider: string;
  /**
   * Identifies the server that is called, for example its base URL, without secrets. A response cache does not mix
   * replies of different servers. Absent: the provider has one.
   */
  readonly endpoint?: string;
  /**
   * Throws `MisuseError` for `adapterOptions` that the adapter does not have. Called by `engine()` and by every verb.
   * Absent: all are accepted.
   */
  readonly checkOptions?: (options: AdapterOptions) => void;
  /** Makes one model call and yields its events in batches, one per network read. */
  readonly stream: (request: ModelRequest, call: AdapterCall) => AsyncIterable<readonly ModelEvent[]>;
  /**
   * Throws `EngineError` (`missing_model`) if the adapter cannot call this model: none is set (`null`), or it is of
   * another provider. Called when a verb is called, so that nothing is sent or stored. `options` are the fields of the
   * provider's request that the caller sets: some of them name the model (`prompt` of OpenAI). Not called if
   * `prepareStep` is set, which may choose another model. Default: every model is accepted.
   */
  readonly checkModel?: (model: ModelName | null, options?: JsonObject) => void;
  /**
   * Returns whether the provider can answer this request in its schema only with a separate call after the tools
   * have run.
   */
  readonly needsFinalize?: (request: ModelRequest) => boolean;
  /**
   * Reads the reply of work that an earlier `stream`, possibly in another process, reported with `onReference`. Yields
   * the whole reply from its beginning and sends no new model call. If the provider no longer has the work, the
   * terminal event is an `error`; the caller then makes a new call.
   */
  readonly resume?: (
    reference: JsonObject,
    request: ModelRequest,
    call: AdapterCall,
  ) => AsyncIterable<readonly ModelEvent[]>;
  /**
   * Returns the number of input tokens of a request, as the provider counts them, and generates nothing. Rejects with
   * `AdapterError`. Absent: the API has no endpoint for it.
   */
  readonly countTokens?: (request: ModelRequest, call: AdapterCall) => Promise<number>;
  /**
   * Returns the path and the JSON body that `stream` would send for a request, without headers and keys. Performs no
   * I/O. Throws like `stream` for a request that the provider cannot express. Absent or `null`: the adapter sends no
   * such request.
   */
  readonly encode?: (request: ModelRequest) => Promise<{ readonly path: string; readonly body: JsonObject } | null>;
  /** Stops work that `stream` reported with `onReference`. Best effort: a rejection is ignored. */
  readonly cancel?: (reference: JsonObject, call: AdapterCall) => Promise<void>;
};

/**
 * Settings of an adapter for one call, or for all calls of an engine (`adapterOptions`). HTTP adapters have `headers`
 * and `betas` and refuse others; an adapter of your own may have any. Durable turns store them, so they must not
 * contain secrets: headers that carry credentials are refused.
 */
export type AdapterOptions = JsonObject & {
  /** Further headers of the request. They override those of the adapter. Names are case-insensitive. */
  readonly headers?: { readonly [name: string]: string };
  /**
   * Beta features of Anthropic's API, sent as the header `anthropic-beta` together with those of the adapter. Other
   * adapters do not send them.
   */
  readonly betas?: readonly string[];
};

/** What an adapter receives with a request: signal, request id, settings, key. */
export type AdapterCall = {
  /** Aborted when the call is cancelled. The adapter closes its connection. */
  readonly signal: AbortSignal;
  /** Identifies the call in logs and failures. */
  readonly requestId: string;
  /** The adapter's settings: those of the call override those of the engine. Headers of both are merged. */
  readonly options: AdapterOptions;
  /** An API key for this call only. */
  readonly apiKey: string | null;
  /** Whether to emit `raw_chunk` events. */
  readonly rawChunks: boolean;
  /** The number of the attempt, from 1. */
  readonly attempt: number;
  /** The clock of the engine: an adapter takes its timeouts and delays from it. */
  readonly clock: Clock;
  /**
   * The adapter calls it immediately before it sends the request, and awaits it. It rejects if this process has lost
   * the lease of the turn and must not send the request. Absent outside the durable runtime.
   */
  readonly beforeRequest?: () => void | Promise<void>;
  /**
   * The adapter calls it, at most once, as soon as the provider has named background work, and awaits it before it
   * yields the next batch. The reference is stored, so that `resume` can be called with it after a crash. It identifies
   * the work and contains no key. Absent: nothing is stored.
   */
  readonly onReference?: (reference: JsonObject) => void | Promise<void>;
};

/** Makes image calls. Failures are thrown as `ImageAdapterError`. */
export type ImageAdapter = {
  /** The name of the provider, for failures and telemetry. */
  readonly provider: string;
  /**
   * Throws `MisuseError` for `adapterOptions` that the adapter does not have. Called by every verb. Absent: all are
   * accepted.
   */
  readonly checkOptions?: (options: AdapterOptions) => void;
  /** The operations that the provider has. */
  readonly operations: readonly ImageRequest["operation"][];
  /** Makes one request. Rejects with `ImageAdapterError`; the library retries. */
  readonly generate: (request: ImageRequest, call: AdapterCall) => Promise<ImageResponse>;
};

/**
 * The settings of an engine and of a call as one: those of the call win, headers are merged by name, betas are joined.
 */
export function mergeAdapterOptions(ofEngine: AdapterOptions, ofCall: AdapterOptions = {}): AdapterOptions {
  const { headers, betas } = ofEngine;
  return {
    ...ofEngine,
    ...ofCall,
    ...(isPlainObject(headers) && isPlainObject(ofCall.headers) ? { headers: { ...headers, ...ofCall.headers } } : {}),
    ...(Array.isArray(betas) && Array.isArray(ofCall.betas)
      ? { betas: [...new Set([...betas, ...ofCall.betas])] }
      : {}),
  };
}
