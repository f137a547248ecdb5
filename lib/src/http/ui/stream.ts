// A turn as a stream of chunks: initial chunks, the translated events, and the ending. Chunks are produced on demand (backpressure).

import type { RuntimeEvent, TurnHandle } from "../../runtime/internal.ts";
import type { UiChunk } from "./chunks.ts";
import type { UiTranslator } from "./translator.ts";

/** The chunks of a turn. Leaving the iteration detaches the reader at once, also during a wait, and does not affect the turn (H6). */
export function turnChunks(
  turn: TurnHandle,
  first: readonly UiChunk[],
  translator: UiTranslator,
): AsyncIterable<UiChunk> {
  return { [Symbol.asyncIterator]: () => new TurnChunks(turn, first, translator) };
}

/** An iterator object and not a generator: `return` of a generator would wait for a pending `next`. */
class TurnChunks implements AsyncIterator<UiChunk> {
  readonly #turn: TurnHandle;
  readonly #translator: UiTranslator;
  readonly #events: AsyncIterator<RuntimeEvent>;
  /** Translated chunks that were not returned yet. */
  #pending: readonly UiChunk[];
  #index = 0;
  #state: "reading" | "over" = "reading";

  constructor(turn: TurnHandle, first: readonly UiChunk[], translator: UiTranslator) {
    this.#turn = turn;
    this.#pending = first;
    this.#translator = translator;
    this.#events = turn.events[Symbol.asyncIterator]();
  }

  async next(): Promise<IteratorResult<UiChunk, undefined>> {
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

  async return(): Promise<IteratorResult<UiChunk, undefined>> {
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
export async function* chunkStream(chunks: readonly UiChunk[]): AsyncGenerator<UiChunk, undefined> {
  yield* chunks;
  return undefined;
}
