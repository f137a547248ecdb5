// A turn as a stream of chunks: initial chunks, the translated events, and the ending. Chunks are produced on demand
// (backpressure), in batches: what is read or translated together is also rendered together, so that the budgets of
// unread responses count all of it (byte-budget.ts).

import type { RuntimeEvent, TurnEnd, TurnHandle } from "../../../durable/internal.ts";

/** Translates the events of a turn into the chunks of a protocol. */
export type Translator<Chunk> = {
  /** The chunks for an event. */
  readonly add: (event: RuntimeEvent) => readonly Chunk[];
  /** The last chunks. */
  readonly end: (end: TurnEnd) => readonly Chunk[];
};

/** Chunks in order. A batch may be empty. */
export type ChunkBatches<Chunk> = AsyncIterable<readonly Chunk[]>;

/**
 * The chunks of a turn, after those of `first`. Leaving the iteration detaches the reader at once, also during a wait,
 * and does not affect the turn (H6).
 */
export function turnChunks<Chunk>(
  turn: TurnHandle,
  first: ChunkBatches<Chunk>,
  translator: Translator<Chunk>,
): ChunkBatches<Chunk> {
  return { [Symbol.asyncIterator]: () => new TurnChunks(turn, first, translator) };
}

/** An iterator object and not a generator: `return` of a generator would wait for a pending `next`. */
class TurnChunks<Chunk> implements AsyncIterator<readonly Chunk[]> {
  readonly #turn: TurnHandle;
  readonly #translator: Translator<Chunk>;
  readonly #first: AsyncIterator<readonly Chunk[]>;
  readonly #events: AsyncIterator<RuntimeEvent>;
  #state: "first" | "events" | "over" = "first";

  constructor(turn: TurnHandle, first: ChunkBatches<Chunk>, translator: Translator<Chunk>) {
    this.#turn = turn;
    this.#translator = translator;
    this.#first = first[Symbol.asyncIterator]();
    this.#events = turn.events[Symbol.asyncIterator]();
  }

  async next(): Promise<IteratorResult<readonly Chunk[], undefined>> {
    if (this.#state === "first") {
      const { done, value } = await this.#first.next();
      if (this.#isOver()) return { done: true, value: undefined };
      if (done !== true) return { done: false, value };
      this.#state = "events";
    }
    if (this.#isOver()) return { done: true, value: undefined };
    const { done, value } = await this.#events.next();
    if (this.#isOver()) return { done: true, value: undefined };
    if (done !== true) return { done: false, value: this.#translator.add(value) };
    this.#state = "over";
    return { done: false, value: this.#translator.end(await this.#turn.result) };
  }

  async return(): Promise<IteratorResult<readonly Chunk[], undefined>> {
    this.#state = "over";
    // Not awaited: it waits for a pending read of the storage.
    this.#first.return?.().catch(() => undefined);
    await this.#events.return?.();
    return { done: true, value: undefined };
  }

  #isOver(): boolean {
    return this.#state === "over";
  }
}

/** A stream of given chunks, in one batch. */
export async function* chunkStream<Chunk>(chunks: readonly Chunk[]): AsyncGenerator<readonly Chunk[], undefined> {
  if (chunks.length > 0) yield chunks;
  return undefined;
}
