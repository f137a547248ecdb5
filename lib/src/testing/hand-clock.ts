// A clock that a test turns by hand.

import type { Clock } from "../clock/clock.ts";

import { nextTask } from "../clock/clock.ts";

/** A {@link handClock}: time advances only when a test advances it. */
export type HandClock = Clock & {
  /** Lets time pass: whoever sleeps wakes in the order of their times, each when it is theirs. */
  readonly advance: (ms: number) => Promise<void>;
  /** How many sleep. */
  readonly sleepers: number;
};

type Sleeper = { readonly at: number; readonly wake: () => void };

/** A clock for tests. It starts at 0 and stands still until `advance` is called. `random` returns 0 by default. */
export function handClock(random: () => number = () => 0): HandClock {
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
          sleepers = sleepers.filter((one) => one !== sleeper);
          reject(signal?.reason);
        };
        sleepers.push(sleeper);
        signal?.addEventListener("abort", stop, { once: true });
      }),
    advance: async (ms) => {
      const until = now + ms;
      for (;;) {
        await settled();
        const next = sleepers.toSorted((left, right) => left.at - right.at).find(({ at }) => at <= until);
        if (next === undefined) break;
        now = Math.max(now, next.at);
        sleepers = sleepers.filter((one) => one !== next);
        next.wake();
      }
      now = until;
      await settled();
    },
  };
}

/** Yields to the event loop so often that what needs no time to pass has happened. */
export async function settled(): Promise<void> {
  for (let task = 0; task < 20; task += 1) await nextTask();
}
