// The journal in memory. It can start with recorded items and then replays them: effects with a recorded response are not performed (H1). Its items can be
// stored and replayed by another instance.

import type { Cancellation, Effect, EffectResponse } from "../../kernel/internal.ts";
import type { CancellableJournal, JournalItem } from "./ports.ts";

export class MemoryJournal implements CancellableJournal {
  /** The items handed to the turn, in order: enough to replay it. */
  readonly items: JournalItem[] = [];
  /** Recorded items that were not handed to the turn yet. */
  readonly #recorded: JournalItem[];
  readonly #recordedIds: ReadonlySet<string>;
  /** New items that were not handed to the turn yet, in the order in which their effects settled. */
  readonly #settled: JournalItem[] = [];
  /** The cancel that follows the settled items; `null`: none. */
  #lastItem: (() => JournalItem) | null = null;
  /** The driver, while it waits for an item. */
  #waiting: { readonly resolve: (item: JournalItem) => void; readonly reject: (reason: unknown) => void } | null = null;
  /** Set if a performer rejected: `next` rejects with the reason once all settled items are handed out. */
  #broken: { readonly reason: unknown } | null = null;
  /** The number of effects that were performed instead of replayed. */
  performed = 0;

  constructor(recorded: readonly JournalItem[] = []) {
    this.#recorded = [...recorded];
    this.#recordedIds = new Set(recorded.flatMap((item) => (item.type === "response" ? [item.response.id] : [])));
  }

  readonly order = (effect: Effect, perform: () => Promise<EffectResponse>): void => {
    if (this.#recordedIds.has(effect.id)) return;
    this.performed += 1;
    perform().then(
      (response) => this.#settle({ type: "response", response }),
      (reason: unknown) => this.#break(reason),
    );
  };

  readonly next = (): Promise<JournalItem> => {
    const item = this.#recorded.shift() ?? this.#settled.shift() ?? this.#lastItem?.();
    if (item !== undefined) {
      this.items.push(item);
      return Promise.resolve(item);
    }
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
    this.items.push(item);
    waiting.resolve(item);
  }

  #break(reason: unknown): void {
    this.#broken ??= { reason };
    this.#waiting?.reject(reason);
    this.#waiting = null;
  }
}
