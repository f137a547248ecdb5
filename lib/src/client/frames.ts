// The frames of one answer, taken as they are wanted: nothing is read before somebody asks, so who is slow holds back the server and not this process.
// The framing is `eventsource-parser`'s (docs/decisions/0013). A frame that was begun and not ended is dropped: it comes again behind the last cursor.

import type { Clock } from "../clock/clock.ts";

import { createParser } from "eventsource-parser";

import { Deadline } from "../clock/timer.ts";
import { ClientError } from "./errors.ts";

export type Frame = { readonly event: string | null; readonly id: string | null; readonly data: string };

/** What comes next: a frame; the end, as the server meant it; or nothing more, because the connection is gone. */
export type NextFrame =
  | { readonly type: "frame"; readonly frame: Frame }
  | { readonly type: "over" }
  | { readonly type: "cut"; readonly error: unknown };

type Chunk = { readonly done: boolean; readonly value?: Uint8Array | undefined };

/** A read that takes longer than `silenceMs` on the clock is a cut. */
type SilenceLimit = { readonly silenceMs: number; readonly clock: Clock };

/** Most characters of a line or a frame. */
const longest = 64 * 1024 * 1024;

export class FrameStream {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #silenceMs: number;
  readonly #clock: Clock;
  readonly #deadline: Deadline;
  readonly #signal: AbortSignal | null;
  readonly #decoder = new TextDecoder();
  readonly #frames: Frame[] = [];
  #giveUp: ((reason: Error) => void) | null = null;
  #broken: Error | null = null;
  #heard = false;
  #lastWord: "frame" | "comment" | null = null;

  readonly #parser = createParser({
    maxBufferSize: longest,
    onEvent: ({ event = null, id = null, data }) => {
      this.#lastWord = "frame";
      this.#frames.push({ event, id, data });
    },
    onComment: () => {
      this.#lastWord = "comment";
    },
    onError: (error) => {
      if (error.type === "max-buffer-size-exceeded") this.#broken = error;
    },
  });

  constructor(body: ReadableStream<Uint8Array>, silence: SilenceLimit, signal: AbortSignal | null) {
    this.#reader = body.getReader();
    this.#silenceMs = silence.silenceMs;
    this.#clock = silence.clock;
    this.#deadline = new Deadline(silence.clock, () =>
      this.#giveUp?.(new Error(`nothing came for ${this.#silenceMs} ms`)),
    );
    this.#signal = signal;
    if (signal?.aborted === true) this.close();
    else signal?.addEventListener("abort", this.close, { once: true });
  }

  /** Has anything come at all? */
  get heard(): boolean {
    return this.#heard;
  }

  /** A process that stops says so, as a comment, before it ends its streams: then there may be more. */
  get mayGoOn(): boolean {
    return this.#lastWord === "comment";
  }

  async next(): Promise<NextFrame> {
    for (;;) {
      const frame = this.#frames.shift();
      if (frame !== undefined) return { type: "frame", frame };
      let read: Chunk;
      try {
        read = await this.#read();
      } catch (error) {
        this.close();
        return { type: "cut", error };
      }
      if (read.done) return { type: "over" };
      this.#heard = true;
      this.#parser.feed(this.#decoder.decode(read.value, { stream: true }));
      if (this.#broken !== null) {
        this.close();
        throw new ClientError("unexpected_answer", `a stream with a line of more than ${longest} characters`);
      }
    }
  }

  /** Lets go of the connection. Whoever waits for a frame is told that it is over. */
  readonly close = (): void => {
    this.#signal?.removeEventListener("abort", this.close);
    this.#frames.length = 0;
    this.#deadline.clear();
    this.#reader.cancel().catch(() => undefined);
  };

  #read(): Promise<Chunk> {
    return new Promise((resolve, reject) => {
      this.#giveUp = reject;
      this.#deadline.set(this.#clock.now() + this.#silenceMs);
      const done = () => this.#deadline.set(Infinity);
      this.#reader.read().finally(done).then(resolve, reject);
    });
  }
}
