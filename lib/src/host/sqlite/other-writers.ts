// Detects writes of other connections, in this process or another. SQLite has no notification for them, only a number (`PRAGMA data_version`) that
// changes; it is polled while the storage is watched.

import type { Clock } from "../../clock/clock.ts";

import { startInterval } from "../../clock/timer.ts";

/** How often the number is read, in milliseconds of the clock. */
type Polling = { readonly pollMs: number; readonly clock: Clock };

export class OtherWriters {
  readonly #polling: Polling;
  readonly #version: () => number | null;
  readonly #wrote: () => void;
  #watching = 0;
  #stopTimer: (() => void) | null = null;
  #seen: number | null = null;

  /** `version` reads the number; `null` when it cannot be read: the next read of rows then reports why. */
  constructor(polling: Polling, version: () => number | null, wrote: () => void) {
    this.#polling = polling;
    this.#version = version;
    this.#wrote = wrote;
  }

  /** Polls from now on. Returns the function that ends it. */
  watch(): () => void {
    this.#watching += 1;
    if (this.#stopTimer === null) {
      this.#seen = this.#version();
      const { clock, pollMs } = this.#polling;
      this.#stopTimer = startInterval(clock, pollMs, () => this.#poll());
    }
    return () => {
      this.#watching -= 1;
      if (this.#watching > 0 || this.#stopTimer === null) return;
      this.#stopTimer();
      this.#stopTimer = null;
    };
  }

  #poll(): void {
    const version = this.#version();
    if (version === null || version === this.#seen) return;
    this.#seen = version;
    this.#wrote();
  }
}
