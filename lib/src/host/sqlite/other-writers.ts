// Hears of what other connections write, in this process or another. SQLite has nothing to call back with, only a number that is another one after
// somebody else has written; so it is looked at now and then, while somebody watches.

import type { SqliteDatabase } from "./database.ts";

import { field, integer } from "./database.ts";

export class OtherWriters {
  readonly #database: SqliteDatabase;
  readonly #pollMs: number;
  readonly #wrote: () => void;
  readonly #failed: () => void;
  #watching = 0;
  #timer: ReturnType<typeof setInterval> | null = null;
  #seen: number | null = null;

  constructor(database: SqliteDatabase, pollMs: number, wrote: () => void, failed: () => void) {
    this.#database = database;
    this.#pollMs = pollMs;
    this.#wrote = wrote;
    this.#failed = failed;
  }

  /** Looks from now on. Returns what ends it. */
  watch(): () => void {
    this.#watching += 1;
    if (this.#timer === null) {
      this.#seen = this.#version();
      this.#timer = setInterval(() => this.#look(), this.#pollMs);
    }
    return () => {
      this.#watching -= 1;
      if (this.#watching > 0 || this.#timer === null) return;
      clearInterval(this.#timer);
      this.#timer = null;
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
