// Events as a stream of text that a reader takes at its own pace.
//
// Rules:
//   1. The next event is asked for when the reader has room for it: what waits here is bounded, whatever happens in the session.
//   2. A reader that goes away lets go of everything at once; one that takes nothing for too long is let go.
//   3. Nothing that happens to a stream happens to the turn (H6).

import type { Clock } from "../clock/clock.ts";
import type { HttpLimits } from "./limits.ts";

import { startInterval } from "../clock/timer.ts";
import { failureOf } from "./failure.ts";

/** What a stream shows. */
export type SseSource<T> = {
  readonly events: AsyncIterable<T>;
  /** An event as frames; empty: nothing is shown of it. */
  readonly render: (event: T) => string;
  /** What the events are of. When it fails, reading them is over: nothing may come of them for as long as nobody sees to it. */
  readonly of?: Promise<unknown>;
  /** What is said when there are no more events. */
  readonly last?: () => Promise<string>;
  /** What is said when reading them failed. */
  readonly failed?: (error: unknown) => string;
  /** What is said when the process is about to stop. */
  readonly goodbye?: string;
  /** Called once, when nobody reads any more. */
  readonly closed?: () => void;
};

export type SseSettings = {
  readonly limits: Pick<HttpLimits, "bufferBytes" | "slowReaderMs" | "heartbeatMs">;
  /** Heartbeats and slow readers are timed on it. */
  readonly clock: Clock;
  /** Ends the stream: the process is about to stop. */
  readonly shutdown: AbortSignal | null;
  /** Called once, when the stream is over, however it came to that. */
  readonly closed: () => void;
};

/** One frame. What is said in it is one line: JSON, or a word. */
export function frame(data: string, { id, event }: { readonly id?: string; readonly event?: string } = {}): string {
  const name = event === undefined ? "" : `event: ${event}\n`;
  const place = id === undefined ? "" : `id: ${id}\n`;
  return `${name}${place}data: ${data}\n\n`;
}

function failureFrame(error: unknown): string {
  return frame(JSON.stringify({ error: failureOf(error).failure }), { event: "failure" });
}

const heartbeat = ": still here\n\n";
const goodbye = ": this process stops; come back with the last id\n\n";

const encoder = new TextEncoder();

/** A source as the body of an answer. Begins to read when somebody takes it. */
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

type State = "open" | "closed";

class SseStream<T> {
  readonly #source: SseSource<T>;
  readonly #settings: SseSettings;
  readonly #iterator: AsyncIterator<T>;
  #controller: ReadableStreamDefaultController<Uint8Array> | null = null;
  #stopTimer: (() => void) | null = null;
  #unwatch: (() => void) | null = null;
  #state: State = "open";
  #lastWrite: number;

  constructor(source: SseSource<T>, settings: SseSettings) {
    this.#source = source;
    this.#settings = settings;
    this.#lastWrite = settings.clock.now();
    this.#iterator = source.events[Symbol.asyncIterator]();
  }

  start(controller: ReadableStreamDefaultController<Uint8Array>): void {
    this.#controller = controller;
    const { clock, limits, shutdown } = this.#settings;
    const lookEveryMs = Math.max(1, Math.min(limits.heartbeatMs, limits.slowReaderMs) / 2);
    this.#stopTimer = startInterval(clock, lookEveryMs, this.#look);
    if (shutdown?.aborted === true) this.#leave();
    else if (shutdown !== null) this.#unwatch = onAbort(shutdown, this.#leave);
    this.#source.of?.catch(this.#fail);
  }

  async pull(): Promise<void> {
    if (this.#state === "closed") return;
    try {
      for (;;) {
        const { done, value } = await this.#iterator.next();
        if (this.#isClosed()) return;
        if (done === true) break;
        const text = this.#source.render(value);
        if (text === "") continue;
        this.#write(text);
        return;
      }
      const last = (await this.#source.last?.()) ?? "";
      if (this.#isClosed()) return;
      if (last !== "") this.#write(last);
    } catch (error) {
      this.#fail(error);
      return;
    }
    this.#end();
  }

  stop(): void {
    if (this.#state === "closed") return;
    this.#state = "closed";
    this.#stopTimer?.();
    this.#unwatch?.();
    // A generator that waits for something returns when that has come: nobody waits here for it.
    this.#iterator.return?.().catch(() => undefined);
    this.#source.closed?.();
    this.#settings.closed();
  }

  #isClosed(): boolean {
    return this.#state === "closed";
  }

  #write(text: string): void {
    this.#lastWrite = this.#settings.clock.now();
    this.#controller?.enqueue(encoder.encode(text));
  }

  #end(): void {
    this.stop();
    this.#controller?.close();
  }

  readonly #fail = (error: unknown): void => {
    if (this.#state === "closed") return;
    this.#write((this.#source.failed ?? failureFrame)(error));
    this.#end();
  };

  readonly #leave = (): void => {
    if (this.#state === "closed") return;
    this.#write(this.#source.goodbye ?? goodbye);
    this.#end();
  };

  readonly #look = (): void => {
    const { clock, limits } = this.#settings;
    const { heartbeatMs, slowReaderMs } = limits;
    const idle = clock.now() - this.#lastWrite;
    const room = this.#controller?.desiredSize ?? 0;
    if (room > 0) {
      if (idle >= heartbeatMs) this.#write(heartbeat);
    } else if (idle >= slowReaderMs) {
      this.stop();
      this.#controller?.error(new Error(`the reader has taken nothing for ${slowReaderMs} ms`));
    }
  };
}

/** What is to be done when a signal is given. One listener stands for all: thousands at a signal would be taken for a leak. */
const atAbort = new WeakMap<AbortSignal, Set<() => void>>();

export function onAbort(signal: AbortSignal, act: () => void): () => void {
  let all = atAbort.get(signal);
  if (all === undefined) {
    const acts = new Set<() => void>();
    all = acts;
    atAbort.set(signal, acts);
    signal.addEventListener("abort", () => acts.forEach((one) => one()), { once: true });
  }
  all.add(act);
  return () => void all.delete(act);
}

export const sseHeaders: { readonly [name: string]: string } = {
  "content-type": "text/event-stream; charset=utf-8",
  // `no-transform`: something on the way that compresses would hold text back.
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
};
