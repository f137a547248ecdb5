// Detects writes of other connections, in this process or another. SQLite has no notification for them, only a number
// that changes (`PRAGMA data_version`). It is polled while the storage is watched. What was written is not known, so
// every watcher reads.

import type { Clock } from "../../../core/clock/clock.ts";

import { startInterval } from "../../../core/clock/timer.ts";

/** The polling interval, in milliseconds of the clock. */
type Polling = { readonly pollMs: number; readonly clock: Clock };

/** Polls for writes while at least one watch is active. */
export class OtherWriters {
  readonly #polling: Polling;
  readonly #version: () => number | null;
  readonly #onWrite: () => void;
  /** The number of active watches. */
  #watching = 0;
  #stopTimer: (() => void) | null = null;
  #lastVersion: number | null = null;

  /**
   * `version` reads the number, or returns `null` if it cannot be read: the next read of rows then reports the error.
   */
  constructor(polling: Polling, version: () => number | null, onWrite: () => void) {
    this.#polling = polling;
    this.#version = version;
    this.#onWrite = onWrite;
  }

  /** Starts polling. Returns the function that ends it. */
  watch(): () => void {
    this.#watching += 1;
    if (this.#stopTimer === null) {
      this.#lastVersion = this.#version();
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
    if (version === null || version === this.#lastVersion) return;
    this.#lastVersion = version;
    this.#onWrite();
  }
}
