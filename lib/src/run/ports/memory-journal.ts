// A journal that lasts as long as the process. It can be given what another one recorded, and then replays it: effects on record are not
// performed again.

import type { Cancellation, Effect, EffectResponse } from "../../kernel/internal.ts";
import type { CancellableJournal, JournalItem } from "./ports.ts";

export class MemoryJournal implements CancellableJournal {
  /** What has been settled, in order: all that it takes to replay the turn. */
  readonly items: JournalItem[] = [];
  readonly #recorded: JournalItem[];
  readonly #known: ReadonlySet<string>;
  readonly #settled: JournalItem[] = [];
  #waiting: { readonly resolve: (item: JournalItem) => void; readonly reject: (reason: unknown) => void } | null = null;
  #broken: { readonly reason: unknown } | null = null;
  /** Effects that were performed, not replayed. */
  performed = 0;

  constructor(recorded: readonly JournalItem[] = []) {
    this.#recorded = [...recorded];
    this.#known = new Set(recorded.flatMap((item) => (item.type === "response" ? [item.response.id] : [])));
  }

  readonly order = (effect: Effect, perform: () => Promise<EffectResponse>): void => {
    if (this.#known.has(effect.id)) return;
    this.performed += 1;
    perform().then(
      (response) => this.#settle({ type: "response", response }),
      (reason: unknown) => this.#break(reason),
    );
  };

  readonly next = (): Promise<JournalItem> => {
    const item = this.#recorded.shift() ?? this.#settled.shift();
    if (item !== undefined) {
      this.items.push(item);
      return Promise.resolve(item);
    }
    if (this.#broken !== null) return Promise.reject(this.#broken.reason);
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
    });
  };

  /** Ends the turn: a cancel is the next thing it hears of, before whatever has not been handed out yet. */
  readonly cancel = (cancellation: Cancellation): void => {
    this.#settled.length = 0;
    this.#settle({ type: "cancel", cancellation });
  };

  #settle(item: JournalItem): void {
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
