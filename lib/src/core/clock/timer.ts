// Timers on a `Clock`: the equivalents of `setTimeout` and `setInterval`, and a deadline that can be moved cheaply.

import type { Clock } from "./clock.ts";

const cancelled = new Error("the timer was cancelled");

/**
 * Calls `act` once, after `ms` milliseconds. Returns a function that cancels the timer; `act` is never called after
 * that.
 */
export function startTimer(clock: Clock, ms: number, act: () => void): () => void {
  if (clock.timer !== undefined) return clock.timer(ms, act);
  const timer = new AbortController();
  clock.sleep(ms, timer.signal).then(
    // The clock may have resolved the sleep in the same task in which the timer was cancelled.
    () => (timer.signal.aborted ? undefined : act()),
    () => undefined,
  );
  // A constant reason: without one, `abort` builds an error with a stack trace.
  return () => timer.abort(cancelled);
}

/** Calls `act` every `ms` milliseconds. Returns a function that ends the interval; `act` is never called after that. */
export function startInterval(clock: Clock, ms: number, act: () => void): () => void {
  const tick = () => {
    // The next timer starts before `act` runs, so that `act` can end the interval.
    cancel = startTimer(clock, ms, tick);
    act();
  };
  let cancel = startTimer(clock, ms, tick);
  return () => cancel();
}

/**
 * A deadline that moves with every read of a stream, for idle timeouts. Starting a timer costs microseconds, and tens
 * of them on a clock without `timer`. So moving the deadline later keeps the running timer; when the
 * timer fires early, it starts again for the time that remains. Moving the deadline is amortised O(1).
 */
export class Deadline {
  readonly #clock: Clock;
  readonly #expired: () => void;
  #at = Infinity;
  /** The time at which the running timer fires; `Infinity` if none runs. */
  #firesAt = Infinity;
  #cancel: (() => void) | null = null;

  /** `expired` is called when the deadline has passed; it may set a new one. */
  constructor(clock: Clock, expired: () => void) {
    this.#clock = clock;
    this.#expired = expired;
  }

  /** Sets the time (of `clock.now`) at which the deadline expires; `Infinity` for never. */
  set(at: number): void {
    this.#at = at;
    if (at < this.#firesAt) this.#start();
  }

  /** Removes the deadline and cancels its timer. */
  clear(): void {
    this.#at = Infinity;
    this.#firesAt = Infinity;
    this.#cancel?.();
  }

  #start(): void {
    this.#cancel?.();
    this.#firesAt = this.#at;
    this.#cancel = startTimer(this.#clock, Math.max(0, this.#at - this.#clock.now()), this.#check);
  }

  readonly #check = (): void => {
    this.#firesAt = Infinity;
    if (this.#clock.now() < this.#at) return this.set(this.#at);
    this.#at = Infinity;
    this.#expired();
  };
}
