// Cancels may come from any process: the storage says when there may be one. It is asked once for all turns that are driven here, however many they
// are, and not too often.

import type { Clock } from "../../engine/internal.ts";
import type { HostStorage, Key, Row } from "../rows/storage.ts";

import { ChangeSignal } from "../change-signal.ts";
import { readOne } from "../context.ts";

/** How often, at most, the storage is asked whether somebody wants a turn to stop. */
const lookMs = 100;

export class CancelWatch {
  readonly #storage: HostStorage;
  readonly #clock: Clock;
  /** What to do about a turn, by its key. */
  readonly #turns = new Map<string, (row: Row) => void>();
  #watching: AbortController | null = null;

  constructor(storage: HostStorage, clock: Clock) {
    this.#storage = storage;
    this.#clock = clock;
  }

  /** Calls back, once, when somebody wants that turn to stop. Returns what ends it. */
  watch(turn: Key, take: (row: Row) => void): () => void {
    const name = JSON.stringify(turn);
    this.#turns.set(name, take);
    if (this.#watching === null) {
      this.#watching = new AbortController();
      this.#watch(this.#watching.signal).catch(() => undefined);
    }
    // One may have come between the reading of the turn and now.
    readOne(this.#storage, { table: "cancels", prefix: turn }).then(
      (row) => row !== null && this.#take(name, row),
      () => undefined,
    );
    return () => {
      if (this.#turns.get(name) === take) this.#turns.delete(name);
      if (this.#turns.size > 0) return;
      this.#watching?.abort();
      this.#watching = null;
    };
  }

  #take(name: string, row: Row): void {
    const take = this.#turns.get(name);
    this.#turns.delete(name);
    try {
      take?.(row);
    } catch {
      // A row that cannot be read cancels nothing, and does not keep other cancels from being taken.
    }
  }

  async #watch(signal: AbortSignal): Promise<void> {
    const changes = new ChangeSignal(this.#storage, null, ["cancels"]);
    signal.addEventListener("abort", changes.notify);
    try {
      for (;;) {
        await changes.changed();
        changes.clear();
        if (signal.aborted) return;
        try {
          const [rows = []] = await this.#storage.read([{ table: "cancels", prefix: [] }]);
          for (const row of rows) this.#take(JSON.stringify(row.key), row);
        } catch {
          // The storage will not report the same cancel again: it is read once more after the rest.
          changes.notify();
        }
        await this.#clock.sleep(lookMs, signal).catch(() => undefined);
      }
    } finally {
      changes.stop();
      signal.removeEventListener("abort", changes.notify);
    }
  }
}
