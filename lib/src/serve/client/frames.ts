// The SSE frames of one response, read on demand (WHATWG HTML, section 9.2; parsed by `eventsource-parser`,
// docs/decisions/0013).
//
// Invariants
//   1. Backpressure: the body is read only when `next` is called, so a slow consumer slows the server and does not grow
//      memory here.
//   2. An incomplete frame at the end of a connection is dropped. The server sends it again after the last cursor.
//   3. A read without a chunk (data or heartbeat) for `silenceMs` ends as `cut`: TCP does not report a peer that
//      vanished.

import type { Clock } from "../../core/clock/clock.ts";

import { createParser } from "eventsource-parser";

import { Deadline } from "../../core/clock/timer.ts";
import { ClientError } from "./errors.ts";

export type Frame = { readonly event: string | null; readonly id: string | null; readonly data: string };

/**
 * `frame`: the next frame. `over`: the server ended the response. `cut`: the connection failed or was silent for too
 * long.
 */
export type NextFrame =
  | { readonly type: "frame"; readonly frame: Frame }
  | { readonly type: "over" }
  | { readonly type: "cut"; readonly error: unknown };

type Chunk = { readonly done: boolean; readonly value?: Uint8Array | undefined };

/** The longest time without a chunk, in milliseconds of the clock. */
type SilenceLimit = { readonly silenceMs: number; readonly clock: Clock };

/**
 * The longest line or frame, in characters. A server that exceeds it ends the stream with an error; without a limit it
 * could exhaust memory.
 */
const maxFrameLength = 64 * 1024 * 1024;

export class FrameStream {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #silenceMs: number;
  readonly #clock: Clock;
  readonly #deadline: Deadline;
  readonly #signal: AbortSignal | null;
  readonly #decoder = new TextDecoder();
  /** Frames of the last chunk that were not taken yet. */
  readonly #frames: Frame[] = [];
  #rejectRead: ((reason: Error) => void) | null = null;
  #parseError: Error | null = null;
  #hasReceivedData = false;
  #lastItem: "frame" | "comment" | null = null;

  readonly #parser = createParser({
    maxBufferSize: maxFrameLength,
    onEvent: ({ event = null, id = null, data }) => {
      this.#lastItem = "frame";
      this.#frames.push({ event, id, data });
    },
    onComment: () => {
      this.#lastItem = "comment";
    },
    onError: (error) => {
      // Other errors are unknown fields and invalid `retry` values, which the specification says to ignore.
      if (error.type === "max-buffer-size-exceeded") this.#parseError = error;
    },
  });

  constructor(body: ReadableStream<Uint8Array>, silence: SilenceLimit, signal: AbortSignal | null) {
    this.#reader = body.getReader();
    this.#silenceMs = silence.silenceMs;
    this.#clock = silence.clock;
    this.#deadline = new Deadline(silence.clock, () =>
      this.#rejectRead?.(new Error(`no data was received for ${this.#silenceMs} ms`)),
    );
    this.#signal = signal;
    if (signal?.aborted === true) this.close();
    else signal?.addEventListener("abort", this.close, { once: true });
  }

  /** Whether any chunk was received. It resets the backoff of a reader that reconnects. */
  get hasReceivedData(): boolean {
    return this.#hasReceivedData;
  }

  /**
   * Whether the last item was a comment. A server that shuts down writes a comment before it ends its streams, so more
   * events may follow elsewhere.
   */
  get endedWithComment(): boolean {
    return this.#lastItem === "comment";
  }

  /** Reads the next frame. Throws `ClientError` for a frame that is too long; every other end is a value. */
  async next(): Promise<NextFrame> {
    for (;;) {
      const frame = this.#frames.shift();
      if (frame !== undefined) return { type: "frame", frame };
      let chunk: Chunk;
      try {
        chunk = await this.#read();
      } catch (error) {
        this.close();
        return { type: "cut", error };
      }
      if (chunk.done) return { type: "over" };
      this.#hasReceivedData = true;
      this.#parser.feed(this.#decoder.decode(chunk.value, { stream: true }));
      if (this.#parseError !== null) {
        this.close();
        throw new ClientError("unexpected_answer", `a line of the stream has more than ${maxFrameLength} characters`);
      }
    }
  }

  /** Closes the connection. A pending `next` returns `over`. */
  readonly close = (): void => {
    this.#signal?.removeEventListener("abort", this.close);
    this.#frames.length = 0;
    this.#deadline.clear();
    this.#reader.cancel().catch(() => undefined);
  };

  #read(): Promise<Chunk> {
    return new Promise((resolve, reject) => {
      this.#rejectRead = reject;
      this.#deadline.set(this.#clock.now() + this.#silenceMs);
      const stopDeadline = () => this.#deadline.set(Infinity);
      this.#reader.read().finally(stopDeadline).then(resolve, reject);
    });
  }
}
