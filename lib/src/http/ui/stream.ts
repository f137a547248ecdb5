// A turn as the stream of a chat: what the client has to be told first, what happens, and what it came to.

import type { RuntimeEvent, TurnHandle } from "../../runtime/internal.ts";
import type { UiChunk } from "./chunks.ts";
import type { UiTranslator } from "./translator.ts";

/** Reads a turn. Leaving lets go at once, also in the middle of waiting, and does nothing to the turn (H6). */
export function turnChunks(
  turn: TurnHandle,
  first: readonly UiChunk[],
  translator: UiTranslator,
): AsyncIterable<UiChunk> {
  return { [Symbol.asyncIterator]: () => new TurnChunks(turn, first, translator) };
}

class TurnChunks implements AsyncIterator<UiChunk> {
  readonly #turn: TurnHandle;
  readonly #translator: UiTranslator;
  readonly #events: AsyncIterator<RuntimeEvent>;
  #ready: readonly UiChunk[];
  #at = 0;
  #state: "reading" | "over" = "reading";

  constructor(turn: TurnHandle, first: readonly UiChunk[], translator: UiTranslator) {
    this.#turn = turn;
    this.#ready = first;
    this.#translator = translator;
    this.#events = turn.events[Symbol.asyncIterator]();
  }

  async next(): Promise<IteratorResult<UiChunk, undefined>> {
    for (;;) {
      const chunk = this.#ready[this.#at];
      this.#at += 1;
      if (chunk !== undefined) return { done: false, value: chunk };
      if (this.#isOver()) return { done: true, value: undefined };
      const { done, value } = await this.#events.next();
      if (this.#isOver()) return { done: true, value: undefined };
      this.#at = 0;
      if (done !== true) {
        this.#ready = this.#translator.add(value);
        continue;
      }
      this.#state = "over";
      this.#ready = this.#translator.end(await this.#turn.result);
    }
  }

  async return(): Promise<IteratorResult<UiChunk, undefined>> {
    this.#state = "over";
    this.#ready = [];
    await this.#events.return?.();
    return { done: true, value: undefined };
  }

  #isOver(): boolean {
    return this.#state === "over";
  }
}

/** What is known already, as a stream. */
export async function* knownChunks(chunks: readonly UiChunk[]): AsyncGenerator<UiChunk, undefined> {
  yield* chunks;
  return undefined;
}
