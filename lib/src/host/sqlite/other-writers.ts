// Hears of what other connections write, in this process or another. SQLite has nothing to call back with, only a number that is another one after
// somebody else has written; so it is looked at now and then, while somebody watches.

import type { Clock } from "../../clock/clock.ts";
import type { SqliteDatabase } from "./database.ts";

import { startInterval } from "../../clock/timer.ts";
import { field, integer } from "./database.ts";

/** How often the number is read, in milliseconds of the clock. */
type Polling = { readonly pollMs: number; readonly clock: Clock };

export class OtherWriters {
  readonly #database: SqliteDatabase;
  readonly #poll: Polling;
  readonly #wrote: () => void;
  readonly #failed: () => void;
  #watching = 0;
  #stopTimer: (() => void) | null = null;
  #seen: number | null = null;

  constructor(database: SqliteDatabase, poll: Polling, wrote: () => void, failed: () => void) {
    this.#database = database;
    this.#poll = poll;
    this.#wrote = wrote;
    this.#failed = failed;
  }

  /** Looks from now on. Returns what ends it. */
  watch(): () => void {
    this.#watching += 1;
    if (this.#stopTimer === null) {
      this.#seen = this.#version();
      const { clock, pollMs } = this.#poll;
      this.#stopTimer = startInterval(clock, pollMs, () => this.#look());
    }
    return () => {
      this.#watching -= 1;
      if (this.#watching > 0 || this.#stopTimer === null) return;
      this.#stopTimer();
      this.#stopTimer = null;
    };
  }

  #look(): void {
    const version = this.#version();
    if (version === null || version === this.#seen) return;
    this.#seen = version;
    this.#wrote();
  }

  /** `null` when it cannot be read. Whoever reads rows next is told why. */
  #version(): number | null {
    try {
      return integer(field(this.#database.prepare("PRAGMA data_version").get(), "data_version"));
    } catch {
      this.#failed();
      return null;
    }
  }
}
