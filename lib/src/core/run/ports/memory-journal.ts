// The journal in memory: hands responses and cancels to the turn in the order in which they arrive. It stores nothing,
// so it has nothing to replay.

import type { Cancellation, Effect, EffectResponse } from "../../kernel/internal.ts";
import type { CancellableJournal, JournalItem } from "./ports.ts";

export class MemoryJournal implements CancellableJournal {
  /** New items that were not handed to the turn yet, in the order in which their effects settled. */
  readonly #settled: JournalItem[] = [];
  /** The cancel that follows the settled items; `null`: none. */
  #lastItem: (() => JournalItem) | null = null;
  /** The driver, while it waits for an item. */
  #waiting: { readonly resolve: (item: JournalItem) => void; readonly reject: (reason: unknown) => void } | null = null;
  /** Set if a performer rejected: `next` rejects with the reason once all settled items are handed out. */
  #broken: { readonly reason: unknown } | null = null;

  readonly order = (_: Effect, perform: () => Promise<EffectResponse>): void => {
    perform().then(
      (response) => this.#settle({ type: "response", response }),
      (reason: unknown) => this.#break(reason),
    );
  };

  readonly next = (): Promise<JournalItem> => {
    const item = this.#settled.shift() ?? this.#lastItem?.();
    if (item !== undefined) return Promise.resolve(item);
    if (this.#broken !== null) return Promise.reject(this.#broken.reason);
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
    });
  };

  /** Cancels the turn: the cancel is the next item, and responses that were not handed out yet are dropped. */
  readonly cancel = (cancellation: Cancellation): void => {
    this.#settled.length = 0;
    this.#settle({ type: "cancel", cancellation });
  };

  /** Cancels the turn after the responses that have settled. */
  readonly cancelAfterSettled = (cancellation: () => Cancellation): void => {
    const item = (): JournalItem => ({ type: "cancel", cancellation: cancellation() });
    if (this.#waiting !== null) this.#settle(item());
    this.#lastItem = item;
  };

  #settle(item: JournalItem): void {
    if (this.#lastItem !== null) return;
    const waiting = this.#waiting;
    if (waiting === null) {
      this.#settled.push(item);
      return;
    }
    this.#waiting = null;
    waiting.resolve(item);
  }

  #break(reason: unknown): void {
    this.#broken ??= { reason };
    this.#waiting?.reject(reason);
    this.#waiting = null;
  }
}
