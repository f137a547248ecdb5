// Server-sent events (WHATWG HTML, section 9.2): an async iterable of events as the body of a response, with
// backpressure.
//
// Theory of operation
//   `sseBody` returns a `ReadableStream`. The platform calls `pull` when the reader has room, `pull` takes one event
//   from the source, renders it and enqueues the frame. A large frame is rendered and enqueued in slices
//   (large-text.ts). The high-water mark is `bufferBytes`, counted in bytes, so a slow client stops the pulls and not
//   the turn: the source is a cursor over stored events and has no queue of its own for this reader. The length of a
//   frame is taken from the budgets of the tenant and the process before it is enqueued (byte-budget.ts), and given
//   back as the client reads them. A stream that gets none waits for the next tick of its timer. A timer runs at half
//   of the shorter of `heartbeatMs` and `slowReaderMs`, at least every 500 ms. On each tick the stream does one of
//   three things:
//     - the buffer has room and nothing was written for `heartbeatMs`: it writes a heartbeat, so that proxies do not
//       close an idle connection and the client can tell an idle stream from a dead one;
//     - the buffer is full and nothing was written for `slowReaderMs`: it disconnects the slow client, which can resume
//       after the last cursor it received;
//     - otherwise: nothing.
//
// How a stream ends
//   source exhausted     final frames, then a normal end
//   source throws        a `failure` frame, then a normal end; the stream errors if the body is no event stream
//   `failWith` rejects   a `failure` frame, also while the source waits for an event that will never come
//   shutdown signal      a comment (or the source's own frame), then a normal end: the client reconnects elsewhere. The
//                        same if this process has left the turn to another one (`lease_lost`): at a shutdown that may
//                        be known before the signal
//   key not valid        the frame of a failure, or a comment: the client reconnects with its newest token, or gets 401
//   slow client          the stream errors, and the connection is reset
//   client disconnects   `cancel`: the source is returned and the permit released
//
// Invariants
//   1. At most one event is taken from the source beyond what fits into the buffer: memory per stream is bounded by the
//      buffer and one frame, and the frames of all streams by the budgets.
//   2. `onClose` of the source and of the settings are called exactly once, however the stream ends.
//   3. Nothing that happens to a stream affects the turn that it shows (H6).

import type { Clock } from "../../core/clock/clock.ts";
import type { ByteAccount } from "./byte-budget.ts";
import type { HttpLimits } from "./limits.ts";

import { startInterval } from "../../core/clock/timer.ts";
import { isEverturnError } from "../../core/model/internal.ts";
import { failureOf } from "./failure.ts";
import { LargeText } from "./large-text.ts";

/** The events of a stream, and how they are rendered. */
export type SseSource<T> = {
  /** Read one at a time, when the client has room. `return` is called when the stream ends early. */
  readonly events: AsyncIterable<T>;
  /** Renders an event as frames; an empty string skips the event. */
  readonly render: (event: T) => string | LargeText;
  /** The account of the stream has taken the bytes of all events already. Default: false. */
  readonly isReserved?: boolean;
  /**
   * A promise whose rejection ends the stream with a failure, such as the result of the turn: if its driver failed,
   * `events` would wait forever.
   */
  readonly failWith?: Promise<unknown>;
  /** Frames that are written after the last event. */
  readonly finalFrames?: () => Promise<string | LargeText>;
  /**
   * Renders an error as frames; `null`: the connection is reset. Default: a frame `failure` with the redacted error.
   */
  readonly renderFailure?: ((error: unknown) => string) | null;
  /** Written when the process shuts down. Default: a comment, which `EventSource` ignores. */
  readonly shutdownFrame?: string;
  /** Called once, when the stream has ended. */
  readonly onClose?: () => void;
};

export type SseSettings = {
  readonly limits: Pick<HttpLimits, "bufferBytes" | "slowReaderMs" | "heartbeatMs">;
  /** Heartbeats and slow clients are timed on it. */
  readonly clock: Clock;
  /** Ends the stream when it aborts: the process shuts down. */
  readonly shutdown: AbortSignal | null;
  /** Ends the stream when it aborts, with its reason: the key of the request is not valid any more. Default: never. */
  readonly ended?: AbortSignal | null;
  /** Called once, when the stream has ended. */
  readonly onClose: () => void;
  /**
   * Opens the account of the stream in the budgets; `cut` disconnects the client. Absent: the bytes are not counted.
   */
  readonly openAccount?: (cut: () => void) => ByteAccount;
};

/** One SSE frame. `data` must be one line: a line break in it would need a second `data:` field. */
export function frame(data: string, fields?: FrameFields): string;
export function frame(data: string | LargeText, fields?: FrameFields): string | LargeText;
export function frame(data: string | LargeText, { id, event }: FrameFields = {}): string | LargeText {
  const eventField = event === undefined ? "" : `event: ${event}\n`;
  const idField = id === undefined ? "" : `id: ${id}\n`;
  const before = `${eventField}${idField}data: `;
  return typeof data === "string" ? `${before}${data}\n\n` : data.between(before, "\n\n");
}

type FrameFields = { readonly id?: string; readonly event?: string };

function failureFrame(error: unknown): string {
  return frame(JSON.stringify({ error: failureOf(error).failure }), { event: "failure" });
}

// Comments (lines that begin with a colon) are ignored by SSE parsers. The client of this library treats a stream whose
// last item is a comment as interrupted and not as ended (serve/client/frames.ts).
const heartbeatComment = ": heartbeat\n\n";
const endedComment = ": the key is not valid any more\n\n";
const shutdownComment = ": server shutting down; reconnect with Last-Event-ID\n\n";

/** Timeouts take effect within this time after what the limits say, in milliseconds. */
const longestCheckMs = 500;

const encoder = new TextEncoder();

/** The body of a streaming response. Starts to read the source when the platform first pulls. */
export function sseBody<T>(source: SseSource<T>, settings: SseSettings): ReadableStream<Uint8Array> {
  const stream = new SseStream(source, settings);
  const strategy = { highWaterMark: settings.limits.bufferBytes, size: (chunk: Uint8Array) => chunk.byteLength };
  return new ReadableStream(
    {
      start: (controller) => stream.start(controller),
      pull: () => stream.pull(),
      cancel: () => stream.stop(),
    },
    strategy,
  );
}

/**
 * The body of a response that is complete: its text in slices, as the client reads them. The account of `settings`
 * holds its length already. A client that accepts no data for `slowReaderMs` is disconnected.
 */
export function completeBody(text: LargeText, settings: Omit<SseSettings, "shutdown">): ReadableStream<Uint8Array> {
  // No heartbeats: a comment would be part of the body.
  const limits = { ...settings.limits, heartbeatMs: Infinity };
  const source = { events: once(text), render: (all: LargeText) => all, isReserved: true, renderFailure: null };
  return sseBody(source, { ...settings, limits, shutdown: null });
}

/**
 * The body of a response that is one text in parts, which are read and rendered one at a time, as the client reads
 * them. If reading fails, the connection is reset, so that the client does not take the beginning of the text for the
 * whole.
 */
export function partsBody(
  parts: AsyncIterable<string | LargeText>,
  settings: Omit<SseSettings, "shutdown">,
): ReadableStream<Uint8Array> {
  const limits = { ...settings.limits, heartbeatMs: Infinity };
  const source = { events: parts, render: (part: string | LargeText) => part, renderFailure: null };
  return sseBody(source, { ...settings, limits, shutdown: null });
}

async function* once<T>(item: T): AsyncGenerator<T> {
  yield item;
}

type State = "open" | "closed";

class SseStream<T> {
  readonly #source: SseSource<T>;
  readonly #settings: SseSettings;
  readonly #iterator: AsyncIterator<T>;
  #controller: ReadableStreamDefaultController<Uint8Array> | null = null;
  #stopTimer: (() => void) | null = null;
  /** Removes the listeners of the signals. */
  #removeListeners: (() => void)[] = [];
  #state: State = "open";
  /** The time of the last write, in milliseconds of the clock. */
  #lastWrite: number;
  /** The rest of a frame that does not fit into the buffer; `null`: there is none. */
  #rest: LargeText | null = null;
  /** The source is exhausted: the stream ends after `#rest`. */
  #isLast = false;
  readonly #account: ByteAccount | null;
  /** Tries again to take bytes from the budgets. */
  #retry: (() => void) | null = null;

  constructor(source: SseSource<T>, settings: SseSettings) {
    this.#source = source;
    this.#settings = settings;
    this.#lastWrite = settings.clock.now();
    this.#iterator = source.events[Symbol.asyncIterator]();
    this.#account = settings.openAccount?.(() => this.#cut("its memory was needed for other clients")) ?? null;
  }

  start(controller: ReadableStreamDefaultController<Uint8Array>): void {
    this.#controller = controller;
    const { clock, limits, shutdown, ended = null } = this.#settings;
    const checkEveryMs = Math.max(1, Math.min(limits.heartbeatMs / 2, limits.slowReaderMs / 2, longestCheckMs));
    this.#stopTimer = startInterval(clock, checkEveryMs, this.#checkReader);
    this.#endWith(shutdown, this.#endForShutdown);
    this.#endWith(ended, () => this.#endForKey(ended?.reason));
    this.#source.failWith?.catch(this.#fail);
  }

  #endWith(signal: AbortSignal | null, end: () => void): void {
    if (signal?.aborted === true) end();
    else if (signal !== null) this.#removeListeners.push(onAbort(signal, end));
  }

  /** Enqueues the next frame that is not empty. The platform does not call it again before its promise resolves. */
  async pull(): Promise<void> {
    if (this.#state === "closed") return;
    // Before the first frame nothing was sent: what the account holds is reserved for it.
    if (this.#account?.queuedBytes !== null) this.#account?.read(this.#queuedBytes());
    if (this.#rest !== null) {
      await this.#writeSlice();
      return;
    }
    try {
      for (;;) {
        const { done, value } = await this.#iterator.next();
        if (this.#isClosed()) return;
        if (done === true) break;
        const rendered = this.#source.render(value);
        if (rendered.length === 0) continue;
        // Deltas of a reply, the most frequent frames, pass through no further promise.
        if (!this.#sendSmall(rendered)) await this.#send(rendered);
        return;
      }
      const finalFrames = (await this.#source.finalFrames?.()) ?? "";
      if (this.#isClosed()) return;
      this.#isLast = true;
      if (finalFrames.length === 0) this.#end();
      else await this.#send(finalFrames);
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Takes bytes from the budgets, and waits for them if necessary. `false`: the stream was closed. */
  async #takeBytes(bytes: number): Promise<boolean> {
    for (;;) {
      const isFree = bytes === 0 || this.#source.isReserved === true;
      const taken = isFree ? "taken" : (this.#account?.take(bytes) ?? "taken");
      if (this.#isClosed()) return false;
      if (taken === "taken") return true;
      if (taken === "refused") {
        this.#cut("too many clients of the tenant wait for memory");
        return false;
      }
      await new Promise<void>((resolve) => {
        this.#retry = resolve;
      });
      if (this.#isClosed()) return false;
    }
  }

  /** Enqueues a frame that fits into the buffer, if the budgets have room for it. */
  #sendSmall(rendered: string | LargeText): boolean {
    if (typeof rendered !== "string" || rendered.length > this.#settings.limits.bufferBytes) return false;
    const bytes = encoder.encode(rendered);
    if (this.#account?.take(bytes.byteLength) !== "taken") return false;
    this.#enqueue(bytes);
    this.#countQueued();
    return true;
  }

  /** Waits for the bytes of a frame, and enqueues its first slice. */
  async #send(rendered: string | LargeText): Promise<void> {
    const text = typeof rendered === "string" ? LargeText.of(rendered) : rendered;
    if (!(await this.#takeBytes(text.length))) return;
    this.#rest = text;
    this.#countQueued();
    await this.#writeSlice();
  }

  #countQueued(): void {
    if (this.#account !== null) this.#account.queuedBytes ??= () => this.#queuedBytes();
  }

  /** Enqueues the next slice of the frame, in the turn of its tenant. */
  async #writeSlice(): Promise<void> {
    const isSmall = (this.#rest?.length ?? 0) <= this.#settings.limits.bufferBytes;
    const turn = isSmall ? null : (this.#account?.nextSlice() ?? null);
    if (turn !== null) await turn;
    if (this.#isClosed()) return;
    const slice = this.#rest?.next() ?? null;
    if (slice !== null) this.#enqueue(encoder.encode(slice));
    if ((this.#rest?.length ?? 0) > 0) return;
    this.#rest = null;
    if (this.#isLast) this.#end();
  }

  /** The bytes in the buffer and the length of the rest of the frame. */
  #queuedBytes(): number {
    const buffered = this.#settings.limits.bufferBytes - (this.#controller?.desiredSize ?? 0);
    return Math.max(0, buffered) + (this.#rest?.length ?? 0);
  }

  /** Releases everything. Idempotent; also called when the client disconnects. */
  stop(): void {
    if (this.#state === "closed") return;
    this.#state = "closed";
    this.#stopTimer?.();
    for (const remove of this.#removeListeners) remove();
    this.#account?.close();
    this.#rest = null;
    this.#retry?.();
    // Not awaited: `return` of a generator that waits for its next event resolves only after that event.
    this.#iterator.return?.().catch(() => undefined);
    this.#source.onClose?.();
    this.#settings.onClose();
  }

  // A method and not a comparison in `pull`: the compiler would keep the state narrowed to "open" across an `await`.
  #isClosed(): boolean {
    return this.#state === "closed";
  }

  /**
   * Enqueues text after the frame that is being written. Its rest is enqueued at once: a comment or frame cannot be
   * inside of another frame.
   */
  #write(text: string): void {
    for (let slice = this.#rest?.next() ?? null; slice !== null; slice = this.#rest?.next() ?? null) {
      this.#enqueue(encoder.encode(slice));
    }
    this.#rest = null;
    this.#enqueue(encoder.encode(text));
  }

  #enqueue(bytes: Uint8Array): void {
    this.#lastWrite = this.#settings.clock.now();
    this.#controller?.enqueue(bytes);
  }

  /** Disconnects the client, which can resume with its cursor. */
  #cut(why: string): void {
    if (this.#state === "closed") return;
    this.stop();
    this.#controller?.error(new Error(`the client was disconnected: ${why}`));
  }

  #end(): void {
    this.stop();
    this.#controller?.close();
  }

  readonly #fail = (error: unknown): void => {
    if (this.#state === "closed") return;
    if (isEverturnError(error) && error.reason === "lease_lost") return this.#endForShutdown();
    const { renderFailure = failureFrame } = this.#source;
    if (renderFailure === null) {
      this.#cut("the rest of the response could not be read");
      return;
    }
    this.#write(renderFailure(error));
    this.#end();
  };

  /** The client gets nothing that it has not been sent yet. */
  #endForKey(error: unknown): void {
    if (this.#state === "closed") return;
    if (this.#rest !== null) this.#cut("its key is not valid any more");
    else if (this.#source.renderFailure !== undefined) this.#fail(error);
    else {
      this.#write(endedComment);
      this.#end();
    }
  }

  readonly #endForShutdown = (): void => {
    if (this.#state === "closed") return;
    this.#write(this.#source.shutdownFrame ?? shutdownComment);
    this.#end();
  };

  /** Timer tick: a heartbeat for an idle stream, disconnection for a slow client. */
  readonly #checkReader = (): void => {
    const { clock, limits } = this.#settings;
    const { heartbeatMs, slowReaderMs } = limits;
    this.#account?.refresh();
    this.#retry?.();
    this.#retry = null;
    const idleMs = clock.now() - this.#lastWrite;
    const freeBytes = this.#controller?.desiredSize ?? 0;
    if (freeBytes > 0) {
      if (idleMs >= heartbeatMs && this.#rest === null) this.#write(heartbeatComment);
    } else if (idleMs >= slowReaderMs) {
      this.#cut(`it accepted no data for ${slowReaderMs} ms`);
    }
  };
}

/**
 * Callbacks by signal. Each signal gets one listener that calls all of them: the shutdown signal has thousands of
 * streams, and Node warns about a leak when a signal has more than a few listeners.
 */
const abortCallbacks = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Calls `callback` once, when the signal aborts. Returns a function that removes the callback. Does nothing for a
 * signal that has aborted already.
 */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  let callbacks = abortCallbacks.get(signal);
  if (callbacks === undefined) {
    const registered = new Set<() => void>();
    callbacks = registered;
    abortCallbacks.set(signal, registered);
    signal.addEventListener("abort", () => registered.forEach((registeredCallback) => registeredCallback()), {
      once: true,
    });
  }
  callbacks.add(callback);
  return () => void callbacks.delete(callback);
}

export const sseHeaders: { readonly [name: string]: string } = {
  "content-type": "text/event-stream; charset=utf-8",
  // `no-transform`: a proxy that compresses would buffer frames.
  "cache-control": "no-cache, no-transform",
  // nginx buffers responses unless this header turns buffering off.
  "x-accel-buffering": "no",
};
