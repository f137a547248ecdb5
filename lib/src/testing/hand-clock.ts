// A manual clock for tests: time advances only when a test calls `advance`.

import type { Clock } from "../core/clock/clock.ts";

import { nextTask } from "../core/clock/clock.ts";

/** A {@link handClock}: time advances only when a test advances it. */
export type HandClock = Clock & {
  /**
   * Advances the time by `ms` milliseconds. Sleeps that are due resolve in the order of their times, each at its own
   * time.
   */
  readonly advance: (ms: number) => Promise<void>;
  /** The number of pending sleeps. */
  readonly sleepers: number;
};

type Sleeper = { readonly at: number; readonly wake: () => void };

/**
 * A clock for tests. It starts at 0 and does not advance until `advance` is called. `random` returns 0 by default.
 * `idle` is awaited before the time advances: it resolves when no work is pending that needs real time, such as a
 * statement of a database.
 */
export function handClock(
  random: () => number = () => 0,
  idle: () => Promise<void> = () => Promise.resolve(),
): HandClock {
  let now = 0;
  let sleepers: Sleeper[] = [];
  return {
    now: () => now,
    random,
    get sleepers() {
      return sleepers.length;
    },
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        if (signal?.aborted === true) return reject(signal.reason);
        const sleeper: Sleeper = {
          at: now + ms,
          wake: () => {
            signal?.removeEventListener("abort", stop);
            resolve();
          },
        };
        const stop = () => {
          sleepers = sleepers.filter((other) => other !== sleeper);
          reject(signal?.reason);
        };
        sleepers.push(sleeper);
        signal?.addEventListener("abort", stop, { once: true });
      }),
    advance: async (ms) => {
      const until = now + ms;
      for (;;) {
        await settled(idle);
        const next = sleepers.toSorted((left, right) => left.at - right.at).find(({ at }) => at <= until);
        if (next === undefined) break;
        now = Math.max(now, next.at);
        sleepers = sleepers.filter((sleeper) => sleeper !== next);
        next.wake();
      }
      now = until;
      await settled(idle);
    },
  };
}

/** Yields to the event loop 20 times, so that work that needs no time has finished. */
export async function settled(idle: () => Promise<void> = () => Promise.resolve()): Promise<void> {
  for (let task = 0; task < 20; task += 1) {
    await nextTask();
    await idle();
  }
}
