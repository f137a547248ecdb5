// A turn as a stream of chunks: initial chunks, the translated events, and the ending. Chunks are produced on demand (backpressure).

import type { RuntimeEvent, TurnEnd, TurnHandle } from "../runtime/internal.ts";

/** Translates the events of a turn into the chunks of a protocol. */
export type Translator<Chunk> = {
  /** The chunks for an event. */
  readonly add: (event: RuntimeEvent) => readonly Chunk[];
  /** The last chunks. */
  readonly end: (end: TurnEnd) => readonly Chunk[];
};

/** The chunks of a turn. Leaving the iteration detaches the reader at once, also during a wait, and does not affect the turn (H6). */
export function turnChunks<Chunk>(
  turn: TurnHandle,
  first: readonly Chunk[],
  translator: Translator<Chunk>,
): AsyncIterable<Chunk> {
  return { [Symbol.asyncIterator]: () => new TurnChunks(turn, first, translator) };
}

/** An iterator object and not a generator: `return` of a generator would wait for a pending `next`. */
class TurnChunks<Chunk> implements AsyncIterator<Chunk> {
  readonly #turn: TurnHandle;
  readonly #translator: Translator<Chunk>;
  readonly #events: AsyncIterator<RuntimeEvent>;
  /** Translated chunks that were not returned yet. */
  #pending: readonly Chunk[];
  #index = 0;
  #state: "reading" | "over" = "reading";

  constructor(turn: TurnHandle, first: readonly Chunk[], translator: Translator<Chunk>) {
    this.#turn = turn;
    this.#pending = first;
    this.#translator = translator;
    this.#events = turn.events[Symbol.asyncIterator]();
  }

  async next(): Promise<IteratorResult<Chunk, undefined>> {
    for (;;) {
      const chunk = this.#pending[this.#index];
      this.#index += 1;
      if (chunk !== undefined) return { done: false, value: chunk };
      if (this.#isDone()) return { done: true, value: undefined };
      const { done, value } = await this.#events.next();
      if (this.#isDone()) return { done: true, value: undefined };
      this.#index = 0;
      if (done !== true) {
        this.#pending = this.#translator.add(value);
        continue;
      }
      this.#state = "over";
      this.#pending = this.#translator.end(await this.#turn.result);
    }
  }

  async return(): Promise<IteratorResult<Chunk, undefined>> {
    this.#state = "over";
    this.#pending = [];
    await this.#events.return?.();
    return { done: true, value: undefined };
  }

  #isDone(): boolean {
    return this.#state === "over";
  }
}

/** A stream of given chunks. */
export async function* chunkStream<Chunk>(chunks: readonly Chunk[]): AsyncGenerator<Chunk, undefined> {
  yield* chunks;
  return undefined;
}
