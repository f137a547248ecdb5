// Waits for SQLite's write lock: one connection at a time may write to a database, and BEGIN IMMEDIATE fails with
// SQLITE_BUSY while another one does.
//
// Why SQLite's own busy handler is not used: it sleeps 1, 2, 5, 10, 15, 20, 25, 25, 25, 50, 50 and then 100 ms between
// two tries, while a transaction of this storage takes about 1 ms. A connection that misses the lock a few times
// therefore sleeps through dozens of moments in which the lock is free. With two processes on a core each, both writing
// all the time, this loop raised the rate of steps from ×1.25 to ×1.47 of one process (path form), and from ×0.95 to
// ×1.48 (handle form); `npm run bench:backlog -- --pin` measures it.

import type { SqliteDatabase } from "./database.ts";

import { monotonicNow, systemClock } from "../../../core/clock/clock.ts";
import { isBusy } from "./failure.ts";

/**
 * The pause between two tries, in milliseconds: a random time between these bounds, so that waiting processes do not
 * try in step.
 */
const minPauseMs = 0.1;
const maxPauseMs = 0.4;

/** Never notified: waiting for it is a blocking sleep of less than a millisecond, which no timer offers. */
const neverNotified = new Int32Array(new SharedArrayBuffer(4));

/**
 * Begins a transaction that holds the write lock. Blocks the thread until the lock is free, for at most `waitMs`
 * milliseconds of the system clock; then throws SQLITE_BUSY. The connection's `busy_timeout` is `waitMs` again
 * afterwards.
 */
export function beginImmediate(database: SqliteDatabase, waitMs: number): void {
  const until = monotonicNow(systemClock) + waitMs;
  database.exec("PRAGMA busy_timeout = 0");
  try {
    for (;;) {
      try {
        database.exec("BEGIN IMMEDIATE");
        return;
      } catch (error) {
        if (!isBusy(error) || monotonicNow(systemClock) >= until) throw error;
        Atomics.wait(neverNotified, 0, 0, minPauseMs + (maxPauseMs - minPauseMs) * systemClock.random());
      }
    }
  } finally {
    database.exec(`PRAGMA busy_timeout = ${waitMs}`);
  }
}
