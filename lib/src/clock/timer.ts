// Timers on a `Clock`: what `setTimeout` and `setInterval` are on the platform's clock.

import type { Clock } from "./clock.ts";

const cancelled = new Error("the timer was cancelled");

/** Calls `act` once, after `ms` milliseconds. Returns a function that cancels the timer; `act` is never called after that. */
export function startTimer(clock: Clock, ms: number, act: () => void): () => void {
  const timer = new AbortController();
  clock.sleep(ms, timer.signal).then(
    // The clock may have resolved the sleep in the same task in which the timer was cancelled.
    () => (timer.signal.aborted ? undefined : act()),
    () => undefined,
  );
  // A constant reason: without one, `abort` builds an error with a stack trace.
  return () => timer.abort(cancelled);
}

/** Calls `act` every `ms` milliseconds. Returns a function that ends it; `act` is never called after that. */
export function startInterval(clock: Clock, ms: number, act: () => void): () => void {
  const tick = () => {
    // Scheduled before `act` runs: `act` may end the interval.
    cancel = startTimer(clock, ms, tick);
    act();
  };
  let cancel = startTimer(clock, ms, tick);
  return () => cancel();
}

/**
 * A deadline that moves with every read of a stream. Starting a timer on a clock creates an `AbortController`, which costs tens of
 * microseconds; so moving the deadline later keeps the running timer, which compares the time with the deadline when it fires.
 */
export class Deadline {
  readonly #clock: Clock;
  readonly #expired: () => void;
  #at = Infinity;
  /** When the timer that runs will fire; `Infinity`: none runs. */
  #firesAt = Infinity;
  #cancel: (() => void) | null = null;

  /** `expired` is called when the deadline has passed; it may set another. */
  constructor(clock: Clock, expired: () => void) {
    this.#clock = clock;
    this.#expired = expired;
  }

  /** The time of the clock at which it expires; `Infinity`: never. */
  set(at: number): void {
    this.#at = at;
    if (at < this.#firesAt) this.#start();
  }

  /** Never expires any more, unless it is set again. Leaves no timer. */
  clear(): void {
    this.#at = Infinity;
    this.#firesAt = Infinity;
    this.#cancel?.();
  }

  #start(): void {
    this.#cancel?.();
    this.#firesAt = this.#at;
    this.#cancel = startTimer(this.#clock, Math.max(0, this.#at - this.#clock.now()), this.#look);
  }

  readonly #look = (): void => {
    this.#firesAt = Infinity;
    if (this.#clock.now() < this.#at) return this.set(this.#at);
    this.#at = Infinity;
    this.#expired();
  };
}
