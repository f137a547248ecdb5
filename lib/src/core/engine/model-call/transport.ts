// The HTTP transport of model and image calls: sends one request and returns its response as a stream of SSE frames, a
// complete body, a refusal or a failure.
//
// Theory of operation
//   Callers: core/adapters/http-call.ts (model calls), core/adapters/background.ts (several requests for one model
//   call, through http-call.ts) and core/adapters/json-request.ts (image calls). They build URL, headers and body;
//   codecs of wire/ interpret the result. This file knows no provider API. The client (http-client.ts) is passed in
//   with the call, so that tests and unusual platforms can replace it.
//
//   One request goes through these phases. `Watchdog` holds one timer for all of them.
//     connect         from `fetch` to the response headers             timeouts.connect
//     first byte      from the headers to the first read of the body    timeouts.firstByte
//     between chunks  from one read to the next                         timeouts.betweenChunks
//     closing         after the adapter has called `finish()`           closeGraceMs; a late close is not an error for
//                                                                       the adapter
//   `timeouts.total` limits all phases together.
//
//   Response                                     Result
//     status outside 200..299, also redirects    `refused` with at most `limits.errorBody` characters of the body
//     2xx, content type `text/event-stream`      `stream`; frames are parsed as bytes arrive (WHATWG HTML, section 9.2
//                                                "Server-sent events")
//     2xx, other content type, SSE in the body   `stream` over the complete body: some compatible servers send no or a
//                                                wrong content type
//     2xx, other content type                    `body`, at most `limits.body` bytes
//     no response, or a connection that broke    `failed` (before the frames) or a thrown `TransportFailure` (while
//                                                frames are read)
//
//   Backpressure: `frames` reads from the socket only when its consumer asks for the next batch. A batch holds all
//   frames of one network read, so the cost of a stream is linear in its bytes and does not grow with the number of
//   events a consumer has already received.
//
// What is not here
//   Retry with exponential backoff and jitter: retry.ts computes the delay, core/run/perform/model.ts and
//   core/run/images.ts repeat the call. `retryAfter` below reads the delay that the provider requests (`Retry-After`,
//   RFC 9110 section 10.2.3, and the rate-limit headers of providers). Redaction of API keys: this file puts no request
//   header into a failure, but a server or a `fetch` implementation may echo a key. The callers pass every failure
//   through `failureWithoutKey` or `withoutKey` (keys.ts). SSRF: base URLs are checked where an adapter is built
//   (core/adapters/base-url.ts).
//
// Failure cases
//   aborted before or during the call    rejects with the reason of the caller's signal; never becomes a failure value
//   a phase takes too long               `adapter_error` / `timeout`, the message names the phase and its limit
//   `fetch` rejects                      `adapter_error` / `network_error`, retryable, with the cause
//   the body breaks off                  `stream_error` / `interrupted`, retryable, with the cause
//   a limit is exceeded                  `stream_error` / `malformed_event`
//
// Invariants
//   1. Every end of a call closes its connection: the end of the body, an error, an abort, a timeout, or a consumer
//      that stops reading.
//   2. No timer and no abort listener outlives the call.
//   3. Everything that a server can make grow has a limit: error bodies, bodies, lines, events, bytes of a stream.
//   4. Redirects are not followed (`redirect: "manual"`), so that an API key is sent only to the configured host.
//   5. A `fetch` implementation or body that ignores the abort signal cannot block the call: `Watchdog.race` rejects
//      without it.
//   6. Time is read only from `call.clock`.

import type { Clock } from "../../clock/clock.ts";
import type { Failure } from "../../model/internal.ts";
import type { Frame } from "../../wire/internal.ts";
import type { Timeouts, TransportLimits } from "./call-limits.ts";
import type { BodyReader, HttpClient, HttpResponse, ResponseHeaders } from "./http-client.ts";

import { parseDate } from "../../clock/clock.ts";
import { Deadline } from "../../clock/timer.ts";
import { adapterFailure, streamFailure, toCause } from "../../model/internal.ts";
import { frameReader, FrameTooLong } from "../../wire/internal.ts";

/** One request, with everything it depends on. */
export type HttpCall = {
  /** Default: `POST`. */
  readonly method?: "GET" | "POST";
  readonly url: string;
  readonly headers: { readonly [name: string]: string };
  /** `null`: a request without a body. */
  readonly body: string | null;
  /** Names the provider in failures. */
  readonly provider: string;
  /** Aborting it closes the connection and rejects the call with the signal's reason. */
  readonly signal: AbortSignal;
  readonly client: HttpClient;
  readonly timeouts: Timeouts;
  readonly limits: TransportLimits;
  /** Measures the timeouts. */
  readonly clock: Clock;
};

/** The response to an {@link HttpCall}. */
export type HttpAnswer =
  /** An SSE stream. */
  | {
      readonly type: "stream";
      readonly headers: ResponseHeaders;
      /** Single use. Each batch holds the frames of one network read. Throws `TransportFailure`. */
      readonly frames: AsyncIterable<readonly Frame[]>;
      /**
       * Call it after the terminal event of the reply: the server then has `closeGraceMs` to send trailing frames and
       * close.
       */
      readonly finish: () => void;
    }
  /** A complete body that is not a stream. */
  | { readonly type: "body"; readonly headers: ResponseHeaders; readonly text: string }
  /** A status outside 200..299: an error, or a redirect, which is not followed. */
  | { readonly type: "refused"; readonly status: number; readonly headers: ResponseHeaders; readonly text: string }
  /** No usable response: a network error, a timeout, or a body over its limit. */
  | { readonly type: "failed"; readonly failure: Failure };

/** Thrown by the frames of a stream when the stream ends early. */
export class TransportFailure extends Error {
  override readonly name = "TransportFailure";
  readonly failure: Failure;

  constructor(failure: Failure) {
    super(failure.message);
    this.failure = failure;
  }
}

/**
 * Sends a request. Resolves when the response headers have arrived (`stream`) or when its body is complete (all other
 * results). Rejects only with the reason of the caller's signal.
 */
export async function sendRequest(call: HttpCall): Promise<HttpAnswer> {
  call.signal.throwIfAborted();
  const watch = new Watchdog(call);
  let response: HttpResponse;
  try {
    watch.startPhase("connect", call.timeouts.connect);
    const { method = "POST", url, headers, body } = call;
    const sent = call.client({ method, url, headers, body, signal: watch.signal });
    // A `fetch` that ignores the signal may still resolve after the timeout. Cancelling that body closes its
    // connection.
    sent.then((late) => (watch.isClosed ? late.body()?.cancel() : undefined)).catch(() => undefined);
    response = await watch.race(sent);
  } catch (error) {
    watch.close();
    if (call.signal.aborted) throw call.signal.reason;
    return { type: "failed", failure: watch.failure ?? networkFailure(call, error) };
  }
  try {
    const { status, headers } = response;
    if (status < 200 || status >= 300) {
      const text = await readText(call, response, watch, call.limits.errorBody, true);
      watch.close();
      return { type: "refused", status, headers, text };
    }
    const contentType = headers.get("content-type") ?? "";
    if (!contentType.includes("text/event-stream")) {
      const text = await readText(call, response, watch, call.limits.body, false);
      watch.close();
      // Some OpenAI-compatible servers stream with the content type `application/json` or `text/plain`, or without one.
      return looksLikeStream(text)
        ? { type: "stream", headers, frames: parseFrames(call, text), finish: () => undefined }
        : { type: "body", headers, text };
    }
    const reader = response.body();
    return { type: "stream", headers, frames: readFrames(call, reader, watch), finish: () => watch.finish() };
  } catch (error) {
    watch.close();
    if (call.signal.aborted) throw call.signal.reason;
    return {
      type: "failed",
      failure: error instanceof TransportFailure ? error.failure : (watch.failure ?? interruptedFailure(call, error)),
    };
  }
}

/**
 * Reads the frames of a stream; yields one batch for each network read that completes at least one frame. A response
 * without a body (`reader` is `null`) is an empty stream.
 */
async function* readFrames(
  call: HttpCall,
  reader: BodyReader | null,
  watch: Watchdog,
): AsyncGenerator<readonly Frame[]> {
  const decoder = new TextDecoder();
  const parser = frameReader(call.limits.line);
  let events = 0;
  let bytes = 0;
  watch.startPhase("first byte", call.timeouts.firstByte);
  try {
    for (;;) {
      const read = reader === null ? { done: true, value: undefined } : await watch.race(reader.read());
      watch.onRead();
      bytes += read.value?.byteLength ?? 0;
      if (bytes > call.limits.stream) throw limitExceeded(call, `a stream of more than ${call.limits.stream} bytes`);
      // `stream: true` keeps an incomplete UTF-8 sequence at the end of one read for the next.
      const text = read.done ? decoder.decode() : decoder.decode(read.value, { stream: true });
      const frames = read.done ? [...parser.push(text), ...parser.end()] : parser.push(text);
      events += frames.length;
      if (events > call.limits.events) throw limitExceeded(call, `a stream of more than ${call.limits.events} events`);
      if (frames.length > 0) yield frames;
      if (read.done) return;
    }
  } catch (error) {
    if (call.signal.aborted) throw call.signal.reason;
    if (error instanceof TransportFailure) throw error;
    if (error instanceof FrameTooLong) throw limitExceeded(call, error.message);
    throw new TransportFailure(watch.failure ?? interruptedFailure(call, error));
  } finally {
    watch.close();
    // Also reached by a consumer that leaves its `for await` early: cancelling the reader closes the connection.
    reader?.cancel().catch(() => undefined);
  }
}

async function* parseFrames(call: HttpCall, text: string): AsyncGenerator<readonly Frame[]> {
  const parser = frameReader(call.limits.line);
  yield [...parser.push(text), ...parser.end()];
}

/**
 * Returns whether a body begins with a field of an SSE stream, or with an SSE comment (a line that begins with a
 * colon).
 */
function looksLikeStream(text: string): boolean {
  return /^(?:data|event|id|retry|):/.test(text.trimStart());
}

/**
 * Reads a complete body of at most `limit` bytes. `truncate`: a longer body is cut to `limit` characters; else it
 * throws.
 */
async function readText(
  call: HttpCall,
  response: HttpResponse,
  watch: Watchdog,
  limit: number,
  truncate: boolean,
): Promise<string> {
  const reader = response.body();
  if (reader === null) return "";
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  watch.startPhase("first byte", call.timeouts.firstByte);
  try {
    for (;;) {
      const read = await watch.race(reader.read());
      watch.onRead();
      if (read.value === undefined) return text + decoder.decode();
      bytes += read.value.byteLength;
      text += decoder.decode(read.value, { stream: true });
      if (bytes <= limit) continue;
      if (truncate) return text.slice(0, limit);
      throw limitExceeded(call, `a reply of more than ${limit} bytes`);
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

function limitExceeded({ provider }: HttpCall, what: string): TransportFailure {
  return new TransportFailure(streamFailure("malformed_event", { provider, message: `${provider} sent ${what}` }));
}

/** The failure of a request that got no response headers. */
function networkFailure({ provider }: HttpCall, error: unknown): Failure {
  const message = `${provider} could not be reached: ${errorMessage(error)}`;
  return adapterFailure("network_error", { provider, message, cause: toCause(error), retryable: true });
}

/** The failure of a response whose body broke off. */
function interruptedFailure({ provider }: HttpCall, error: unknown): Failure {
  const message = `the connection to ${provider} broke: ${errorMessage(error)}`;
  return streamFailure("interrupted", { provider, message, cause: toCause(error), retryable: true });
}

/**
 * The message of an error and of its cause. Node's `fetch` rejects with `fetch failed`; only the cause names the reason
 * (ECONNREFUSED, …).
 */
function errorMessage(error: unknown): string {
  if (!(error instanceof Error)) return "a value that is not an Error was thrown";
  const { cause } = error;
  return cause instanceof Error && cause.message !== "" ? `${error.message} (${cause.message})` : error.message;
}

/**
 * The timeouts and the abort signal of one call.
 *
 * All timeouts share one timer. A read only stores the time; when the timer fires, `#check` compares the stored time
 * with the limit and sets the timer again. Starting a timer for every read instead would cost tens of microseconds for
 * each chunk of a stream.
 */
class Watchdog {
  readonly #call: HttpCall;
  readonly #controller = new AbortController();
  readonly #startedAt: number;
  readonly #onAbort: () => void;
  readonly #deadline: Deadline;
  #phase: "connect" | "first byte" | "between chunks" = "connect";
  /** The limit of the current phase, in milliseconds. */
  #limit = 0;
  /** When the current phase began, or the last read. */
  #activeAt: number;
  /** The time by which the server must close the connection, after `finish`; `null`: the reply is not complete. */
  #closeBy: number | null = null;
  /** Rejects the promise of the pending `race`. */
  #rejectPending: ((reason: unknown) => void) | null = null;
  /** The timeout that ended the call, if one did. */
  failure: Failure | null = null;
  isClosed = false;

  constructor(call: HttpCall) {
    this.#call = call;
    this.#startedAt = call.clock.now();
    this.#activeAt = this.#startedAt;
    this.#deadline = new Deadline(call.clock, () => this.#check());
    this.#onAbort = () => this.#stop(call.signal.reason);
    call.signal.addEventListener("abort", this.#onAbort, { once: true });
  }

  /** Passed to `fetch`. Aborted by the caller's signal and by every timeout. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  startPhase(phase: "connect" | "first byte", limit: number): void {
    this.#phase = phase;
    this.#limit = limit;
    this.#activeAt = this.#call.clock.now();
    this.#arm();
  }

  /**
   * Waits for a promise until the call is aborted or times out, also if the promise ignores the signal. One at a time.
   * Not `Promise.race` against one long-lived promise: that keeps a reaction for every read until the call ends, so
   * memory would grow with the stream.
   */
  race<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#rejectPending = reject;
      work.then(resolve, reject);
      if (this.signal.aborted) reject(this.signal.reason);
    });
  }

  /** Starts the grace period in which the server closes the connection. Further reads do not extend it. */
  finish(): void {
    this.#closeBy = this.#call.clock.now() + closeGraceMs;
    this.#arm();
  }

  /** Records activity. The first read starts the phase `between chunks`. */
  onRead(): void {
    this.#activeAt = this.#call.clock.now();
    if (this.#phase === "between chunks") return;
    this.#phase = "between chunks";
    this.#limit = this.#call.timeouts.betweenChunks;
    this.#arm();
  }

  /** Releases the timer and the abort listener. */
  close(): void {
    this.isClosed = true;
    this.#deadline.clear();
    this.#call.signal.removeEventListener("abort", this.#onAbort);
  }

  #arm(): void {
    const { total } = this.#call.timeouts;
    const end = total === null ? Infinity : this.#startedAt + total;
    this.#deadline.set(Math.min(this.#activeAt + this.#limit, end, this.#closeBy ?? Infinity));
  }

  #check(): void {
    const { clock, provider, timeouts } = this.#call;
    const now = clock.now();
    const isTotal = timeouts.total !== null && now - this.#startedAt >= timeouts.total;
    if (this.#closeBy !== null && now >= this.#closeBy)
      return this.#stop(new Error(`${provider} did not close the connection`));
    if (!isTotal && now - this.#activeAt < this.#limit) return this.#arm();
    const [what, limit] = isTotal
      ? ["the response did not end", timeouts.total ?? 0]
      : [timeoutTexts[this.#phase], this.#limit];
    const message = `${provider}: ${what} within ${limit} ms`;
    this.failure = adapterFailure("timeout", { provider, message });
    this.#stop(new Error(message));
  }

  #stop(reason: unknown): void {
    this.#controller.abort(reason);
    this.#rejectPending?.(reason);
  }
}

/** How long a server may keep the connection open after its reply is complete, in milliseconds. */
const closeGraceMs = 1000;

const timeoutTexts = {
  connect: "no response headers arrived",
  "first byte": "no response body arrived",
  "between chunks": "no further data arrived",
} as const;

/**
 * Returns the delay that a server requests before the next attempt, in milliseconds; `null`: it requests none. The
 * first of these that is valid:
 *   1. `retry-after-ms`, sent by OpenAI and Azure OpenAI
 *   2. `Retry-After` in seconds or as a date (RFC 9110, section 10.2.3)
 *   3. the longest of the rate-limit resets: `x-ratelimit-reset-*` (OpenAI, a duration) and
 *      `anthropic-ratelimit-*-reset` (a date)
 */
export function retryAfter(headers: ResponseHeaders, now: number): number | null {
  const exact = headers.get("retry-after-ms") ?? "";
  const ms = Number(exact);
  if (exact.trim() !== "" && Number.isFinite(ms) && ms >= 0) return ms;
  const standard = headers.get("retry-after");
  if (standard !== null) {
    const seconds = Number(standard);
    if (Number.isFinite(seconds) && standard.trim() !== "") return Math.max(0, seconds * 1000);
    const date = parseDate(standard);
    if (date !== null) return Math.max(0, date - now);
  }
  const durations = ["x-ratelimit-reset-requests", "x-ratelimit-reset-tokens"].flatMap((name) =>
    parseDuration(headers.get(name)),
  );
  const dates = ["anthropic-ratelimit-requests-reset", "anthropic-ratelimit-tokens-reset"].flatMap((name) => {
    const date = parseDate(headers.get(name) ?? "");
    return date === null ? [] : [Math.max(0, date - now)];
  });
  const delays = [...durations, ...dates];
  return delays.length === 0 ? null : Math.max(...delays);
}

/**
 * Parses a Go-style duration such as `6m0s`, `1.5s` or `20ms` into milliseconds; an empty list if the text has none.
 */
function parseDuration(text: string | null): readonly number[] {
  if (text === null) return [];
  const components = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d)/g)];
  if (components.length === 0) return [];
  const units: { readonly [unit: string]: number } = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
  return [components.reduce((sum, [, number, unit]) => sum + Number(number) * (units[unit ?? ""] ?? 0), 0)];
}

/**
 * Returns the id that the provider gave the request, from the header that it uses (OpenAI, Anthropic, Google, Azure);
 * `null`: none.
 */
export function requestIdOf(headers: ResponseHeaders): string | null {
  return (
    headers.get("x-request-id") ??
    headers.get("request-id") ??
    headers.get("x-goog-request-id") ??
    headers.get("x-amzn-requestid") ??
    headers.get("apim-request-id")
  );
}
