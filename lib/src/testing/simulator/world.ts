// The scheduler of the simulator: a discrete-event simulation with one clock.
//
// Theory of operation
//   Everything that takes time (a sleep, a message on the network, a request of a client) is an event with a time and
//   an owner. `step` takes the earliest event, sets the time to that of the event, runs it, and waits until all
//   microtasks have run. Between two events no code of the simulated processes runs, so the order of events, which
//   follows from the seed, is the only source of concurrency.
//
//   An event of a killed process is dropped: its code never continues. An event of a paused process is kept until the
//   process is resumed. Events without an owner (the network, clients, the storage) always run.
//
// Invariants
//   1. Real time is never read. A run depends on the seed and on the code only.
//   2. An event runs alone: `run` may return a promise (an operation of a real storage), and the next event waits for
//      it.

import { microtasksDone } from "../../core/clock/clock.ts";

/** Who an event belongs to. */
export type Owner = {
  readonly name: string;
  state: "running" | "paused" | "killed";
  /** Events that became due while the owner was paused. */
  readonly deferred: ScheduledEvent[];
};

/** An event in the queue. */
export type ScheduledEvent = {
  readonly at: number;
  readonly order: number;
  readonly owner: Owner | null;
  readonly run: () => void | Promise<void>;
  cancelled: boolean;
};

/** The time before the first event, in milliseconds. Not 0, so that clocks that are behind have positive times. */
const beginning = 1_000_000_000;

/** The queue of events and the time. */
export class World {
  /** The true time, in milliseconds. Processes have clocks of their own. */
  now = beginning;
  /** The number of events that have run. */
  steps = 0;
  readonly #heap: ScheduledEvent[] = [];
  #order = 0;
  readonly #record: ((line: string) => void) | null;

  /** `record` receives the lines of the transcript; `null`: no transcript is kept. */
  constructor(record: ((line: string) => void) | null) {
    this.#record = record;
  }

  /** Adds a line to the transcript. */
  log(line: () => string): void {
    this.#record?.(`${this.now - beginning} ${line()}`);
  }

  /** Runs an event after `delayMs`. */
  schedule(delayMs: number, owner: Owner | null, run: () => void | Promise<void>): ScheduledEvent {
    const event = { at: this.now + Math.max(0, delayMs), order: (this.#order += 1), owner, run, cancelled: false };
    this.#push(event);
    return event;
  }

  /** Resolves after `ms`, for code of clients, which have no process. */
  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.schedule(ms, null, resolve);
    });
  }

  /** Schedules the deferred events of an owner that continues. */
  resume(owner: Owner): void {
    owner.state = "running";
    for (const { run } of owner.deferred.splice(0)) this.schedule(0, owner, run);
  }

  /** Runs the earliest event that is due until `until`. Returns `false` if there is none; the time is `until` then. */
  async step(until: number): Promise<boolean> {
    for (;;) {
      const [first] = this.#heap;
      if (first === undefined || first.at > until) {
        this.now = Math.max(this.now, until);
        return false;
      }
      this.#pop();
      if (first.cancelled || first.owner?.state === "killed") continue;
      if (first.owner?.state === "paused") {
        first.owner.deferred.push(first);
        continue;
      }
      this.now = Math.max(this.now, first.at);
      this.steps += 1;
      await first.run();
      await microtasksDone();
      return true;
    }
  }

  // A binary heap by time, then by order of scheduling.

  #push(event: ScheduledEvent): void {
    const heap = this.#heap;
    heap.push(event);
    for (let index = heap.length - 1; index > 0;) {
      const parent = (index - 1) >> 1;
      if (!this.#swapIfBefore(index, parent)) break;
      index = parent;
    }
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    heap[0] = last;
    for (let index = 0; ;) {
      const left = 2 * index + 1;
      if (left >= heap.length) return;
      const child = left + 1 < heap.length && this.#isBefore(left + 1, left) ? left + 1 : left;
      if (!this.#swapIfBefore(child, index)) return;
      index = child;
    }
  }

  #isBefore(one: number, other: number): boolean {
    const [left, right] = [this.#heap[one], this.#heap[other]];
    if (left === undefined || right === undefined) return false;
    return left.at < right.at || (left.at === right.at && left.order < right.order);
  }

  #swapIfBefore(one: number, other: number): boolean {
    if (!this.#isBefore(one, other)) return false;
    const [left, right] = [this.#heap[one], this.#heap[other]];
    if (left === undefined || right === undefined) return false;
    this.#heap[one] = right;
    this.#heap[other] = left;
    return true;
  }
}
