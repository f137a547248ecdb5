// The only file that calls `fetch`. It sends a request, watches the clock, and gives back what comes: text as it arrives, or what the server said
// instead. Whatever ends it, the socket is closed.
//
// Rules:
//   1. Four clocks: to the answer's headers, to its first byte, between two reads, and in all. Each has its own message.
//   2. Nothing a server can grow is without a limit: bodies of errors, whole replies, lines, events, the length of a stream.
//   3. What went wrong is a failure with its cause; a key is never in it.
//   4. Redirects are not followed: a key goes to the host it was meant for.

import type { Clock } from "../../clock/clock.ts";
import type { Failure } from "../../model/internal.ts";
import type { Frame } from "../../wire/internal.ts";

import { parseDate } from "../../clock/clock.ts";
import { Deadline } from "../../clock/timer.ts";
import { adapterFailure, streamFailure, toCause } from "../../model/internal.ts";
import { frameReader, FrameTooLong } from "../../wire/internal.ts";

export type FetchLike = (url: string, init: RequestInit) => Promise<Response>;

/** In milliseconds. */
export type Timeouts = {
  /** Until the server has begun to answer. */
  readonly connect: number;
  /** From there to its first byte. */
  readonly firstByte: number;
  /** Between two reads. */
  readonly betweenChunks: number;
  /** In all; `null`: no limit. */
  readonly total: number | null;
};

export const defaultTimeouts: Timeouts = { connect: 60_000, firstByte: 120_000, betweenChunks: 60_000, total: null };

export type TransportLimits = {
  /** Of the body of an error, in bytes. */
  readonly errorBody: number;
  /** Of a reply that is not streamed, in bytes. */
  readonly body: number;
  /** Of one line or event of a stream, in characters. */
  readonly line: number;
  /** Events in one stream. */
  readonly events: number;
  /** Of a whole stream, in bytes: also of what is no event. */
  readonly stream: number;
};

export const defaultLimits: TransportLimits = {
  errorBody: 64 * 1024,
  body: 64 * 1024 * 1024,
  line: 16 * 1024 * 1024,
  events: 2_000_000,
  stream: 1024 * 1024 * 1024,
};

export type HttpCall = {
  /** Default: `POST`. */
  readonly method?: "GET" | "POST";
  readonly url: string;
  readonly headers: { readonly [name: string]: string };
  /** `null`: none. */
  readonly body: string | null;
  readonly provider: string;
  readonly signal: AbortSignal;
  readonly fetch: FetchLike;
  readonly timeouts: Timeouts;
  readonly limits: TransportLimits;
  /** The timeouts are measured on it. */
  readonly clock: Clock;
};

/** What a server answered. */
export type HttpAnswer =
  /** A stream of events. */
  | {
      readonly type: "stream";
      readonly headers: Headers;
      readonly frames: AsyncIterable<readonly Frame[]>;
      /** All that matters has been read: the rest may take a moment, and no more. */
      readonly finish: () => void;
    }
  /** A body of its own, whole. */
  | { readonly type: "body"; readonly headers: Headers; readonly text: string }
  /** A status of 400 and above, or one that leads elsewhere. */
  | { readonly type: "refused"; readonly status: number; readonly headers: Headers; readonly text: string }
  /** No answer. */
  | { readonly type: "failed"; readonly failure: Failure };

/** Thrown while a stream is read: what ended it. */
export class TransportFailure extends Error {
  override readonly name = "TransportFailure";
  readonly failure: Failure;

  constructor(failure: Failure) {
    super(failure.message);
    this.failure = failure;
  }
}

/** Sends a request and waits for the beginning of its answer. */
export async function sendRequest(call: HttpCall): Promise<HttpAnswer> {
  call.signal.throwIfAborted();
  const watch = new Watch(call);
  let response: Response;
  try {
    watch.expect("connect", call.timeouts.connect);
    const sent = call.fetch(call.url, {
      method: call.method ?? "POST",
      headers: { ...call.headers },
      body: call.body,
      signal: watch.signal,
      redirect: "manual",
    });
    // An answer that comes when nobody waits any more is let go of.
    sent.then((late) => (watch.isClosed ? late.body?.cancel() : undefined)).catch(() => undefined);
    response = await watch.until(sent);
  } catch (error) {
    watch.close();
    if (call.signal.aborted) throw call.signal.reason;
    return { type: "failed", failure: watch.failure ?? unreachable(call, error) };
  }
  try {
    const { status, headers } = response;
    if (status < 200 || status >= 300) {
      const text = await readText(call, response, watch, call.limits.errorBody, true);
      watch.close();
      return { type: "refused", status, headers, text };
    }
    const kind = headers.get("content-type") ?? "";
    if (!kind.includes("text/event-stream")) {
      const text = await readText(call, response, watch, call.limits.body, false);
      watch.close();
      // Some servers forget to say that they stream.
      return looksLikeStream(text)
        ? { type: "stream", headers, frames: framesOf(call, text), finish: () => undefined }
        : { type: "body", headers, text };
    }
    const reader = response.body?.getReader();
    return { type: "stream", headers, frames: readFrames(call, reader, watch), finish: () => watch.finish() };
  } catch (error) {
    watch.close();
    if (call.signal.aborted) throw call.signal.reason;
    return {
      type: "failed",
      failure: error instanceof TransportFailure ? error.failure : (watch.failure ?? broken(call, error)),
    };
  }
}

/** The frames of a stream, all that one read holds at once. */
async function* readFrames(
  call: HttpCall,
  reader: ReadableStreamDefaultReader<Uint8Array> | undefined,
  watch: Watch,
): AsyncGenerator<readonly Frame[]> {
  const decoder = new TextDecoder();
  const lines = frameReader(call.limits.line);
  let events = 0;
  let size = 0;
  watch.expect("first byte", call.timeouts.firstByte);
  try {
    for (;;) {
      const read = reader === undefined ? { done: true as const, value: undefined } : await watch.until(reader.read());
      watch.heard();
      size += read.value?.byteLength ?? 0;
      if (size > call.limits.stream) throw tooMuch(call, `a stream of more than ${call.limits.stream} bytes`);
      const text = read.done ? decoder.decode() : decoder.decode(read.value, { stream: true });
      const frames = read.done ? [...lines.push(text), ...lines.end()] : lines.push(text);
      events += frames.length;
      if (events > call.limits.events) throw tooMuch(call, `a stream of more than ${call.limits.events} events`);
      if (frames.length > 0) yield frames;
      if (read.done) return;
    }
  } catch (error) {
    if (call.signal.aborted) throw call.signal.reason;
    if (error instanceof TransportFailure) throw error;
    if (error instanceof FrameTooLong) throw tooMuch(call, error.message);
    throw new TransportFailure(watch.failure ?? broken(call, error));
  } finally {
    watch.close();
    // Whoever stops reading lets go of the connection too.
    reader?.cancel().catch(() => undefined);
  }
}

async function* framesOf(call: HttpCall, text: string): AsyncGenerator<readonly Frame[]> {
  const lines = frameReader(call.limits.line);
  yield [...lines.push(text), ...lines.end()];
}

function looksLikeStream(text: string): boolean {
  return /^(?:data|event|id|retry|):/.test(text.trimStart());
}

/** A body, as far as it may go. Of an error what fits is enough; a reply that does not fit is a failure. */
async function readText(
  call: HttpCall,
  response: Response,
  watch: Watch,
  limit: number,
  cut: boolean,
): Promise<string> {
  const reader = response.body?.getReader();
  if (reader === undefined) return "";
  const decoder = new TextDecoder();
  let text = "";
  let size = 0;
  watch.expect("first byte", call.timeouts.firstByte);
  try {
    for (;;) {
      const read = await watch.until(reader.read());
      watch.heard();
      if (read.done) return text + decoder.decode();
      size += read.value.byteLength;
      text += decoder.decode(read.value, { stream: true });
      if (size <= limit) continue;
      if (cut) return text.slice(0, limit);
      throw tooMuch(call, `a reply of more than ${limit} bytes`);
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

function tooMuch({ provider }: HttpCall, what: string): TransportFailure {
  return new TransportFailure(streamFailure("malformed_event", { provider, message: `${provider} sent ${what}` }));
}

function unreachable({ provider }: HttpCall, error: unknown): Failure {
  const message = `${provider} could not be reached: ${wordsOf(error)}`;
  return adapterFailure("network_error", { provider, message, cause: toCause(error), retryable: true });
}

function broken({ provider }: HttpCall, error: unknown): Failure {
  const message = `the connection to ${provider} broke: ${wordsOf(error)}`;
  return streamFailure("interrupted", { provider, message, cause: toCause(error), retryable: true });
}

/** What an error says, with what lies behind it: `fetch failed` alone helps nobody. */
function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return "something was thrown";
  const { cause } = error;
  return cause instanceof Error && cause.message !== "" ? `${error.message} (${cause.message})` : error.message;
}

/** One timer for all clocks of a call: it looks when somebody was heard last, instead of being set anew with every read. */
class Watch {
  readonly #call: HttpCall;
  readonly #controller = new AbortController();
  readonly #began: number;
  readonly #onAbort: () => void;
  readonly #deadline: Deadline;
  #waitsFor: "connect" | "first byte" | "between chunks" = "connect";
  #limit = 0;
  #since: number;
  #lastMoment: number | null = null;
  #giveUp: ((reason: unknown) => void) | null = null;
  failure: Failure | null = null;
  isClosed = false;

  constructor(call: HttpCall) {
    this.#call = call;
    this.#began = call.clock.now();
    this.#since = this.#began;
    this.#deadline = new Deadline(call.clock, () => this.#look());
    this.#onAbort = () => this.#stop(call.signal.reason);
    call.signal.addEventListener("abort", this.#onAbort, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  expect(what: "connect" | "first byte", limit: number): void {
    this.#waitsFor = what;
    this.#limit = limit;
    this.#since = this.#call.clock.now();
    this.#arm();
  }

  /** Waits for something, also for what does not look at the signal. One at a time. */
  until<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#giveUp = reject;
      work.then(resolve, reject);
      if (this.signal.aborted) reject(this.signal.reason);
    });
  }

  /** From now on there is a moment left, whatever is heard. */
  finish(): void {
    this.#lastMoment = this.#call.clock.now() + momentMs;
    this.#arm();
  }

  heard(): void {
    this.#since = this.#call.clock.now();
    if (this.#waitsFor === "between chunks") return;
    this.#waitsFor = "between chunks";
    this.#limit = this.#call.timeouts.betweenChunks;
    this.#arm();
  }

  close(): void {
    this.isClosed = true;
    this.#deadline.clear();
    this.#call.signal.removeEventListener("abort", this.#onAbort);
  }

  #arm(): void {
    const { total } = this.#call.timeouts;
    const end = total === null ? Infinity : this.#began + total;
    this.#deadline.set(Math.min(this.#since + this.#limit, end, this.#lastMoment ?? Infinity));
  }

  #look(): void {
    const { clock, provider, timeouts } = this.#call;
    const now = clock.now();
    const isTotal = timeouts.total !== null && now - this.#began >= timeouts.total;
    if (this.#lastMoment !== null && now >= this.#lastMoment)
      return this.#stop(new Error(`${provider} did not hang up`));
    if (!isTotal && now - this.#since < this.#limit) return this.#arm();
    const [what, limit] = isTotal ? ["an end", timeouts.total ?? 0] : [words[this.#waitsFor], this.#limit];
    const message = `${provider}: ${what} did not come within ${limit} ms`;
    this.failure = adapterFailure("timeout", { provider, message });
    this.#stop(new Error(message));
  }

  #stop(reason: unknown): void {
    this.#controller.abort(reason);
    this.#giveUp?.(reason);
  }
}

/** What a server gets to hang up, once its reply is whole. */
const momentMs = 1000;

const words = { connect: "an answer", "first byte": "a first byte", "between chunks": "the next piece" } as const;

/** How long a server asked to wait, from whatever header says it. */
export function retryAfter(headers: Headers, now: number): number | null {
  const exact = headers.get("retry-after-ms") ?? "";
  const ms = Number(exact);
  if (exact.trim() !== "" && Number.isFinite(ms) && ms >= 0) return ms;
  const after = headers.get("retry-after");
  if (after !== null) {
    const seconds = Number(after);
    if (Number.isFinite(seconds) && after.trim() !== "") return Math.max(0, seconds * 1000);
    const date = parseDate(after);
    if (date !== null) return Math.max(0, date - now);
  }
  const resets = ["x-ratelimit-reset-requests", "x-ratelimit-reset-tokens"].flatMap((name) =>
    durationOf(headers.get(name)),
  );
  const dates = ["anthropic-ratelimit-requests-reset", "anthropic-ratelimit-tokens-reset"].flatMap((name) => {
    const date = parseDate(headers.get(name) ?? "");
    return date === null ? [] : [Math.max(0, date - now)];
  });
  const all = [...resets, ...dates];
  return all.length === 0 ? null : Math.max(...all);
}

/** `6m0s`, `1.5s`, `20ms`. */
function durationOf(text: string | null): readonly number[] {
  if (text === null) return [];
  const pieces = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d)/g)];
  if (pieces.length === 0) return [];
  const units: { readonly [unit: string]: number } = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
  return [pieces.reduce((sum, [, number, unit]) => sum + Number(number) * (units[unit ?? ""] ?? 0), 0)];
}

/** The server's own name for the call, where it says one. */
export function requestIdOf(headers: Headers): string | null {
  return (
    headers.get("x-request-id") ??
    headers.get("request-id") ??
    headers.get("x-goog-request-id") ??
    headers.get("apim-request-id")
  );
}
