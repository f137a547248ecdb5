// Leases that grow with what writes take in this process.
//
// If writes queue for longer than a lease lasts, no holder can extend its lease in time: leases expire, are claimed
// again or taken over, and those writes and the renewals make the queue longer, so that no turn ends. Therefore the
// time of each write that is answered is measured, from its request to its answer, and a lease lasts for several times
// the slowest recent write, in steps of a factor of two, because a holder that changes the duration changes its token.
// Renewals are sent accordingly less often. The lease row stores its own duration, so processes with other durations
// agree about its expiry. A dead process is taken over later while writes are slow, at most after `longestMs`.
//
// Admission
//   A lease grows only after slow writes are answered, so a process that claims many turns at once could still lose
//   them. Therefore a process also drives no more turns than the storage can serve (`places`): the writes of all of
//   them, sent at once, are answered within one renewal interval. What one write takes of the storage's time is its
//   latency divided by the number of writes of this process that were in progress (Little's law). A storage that
//   performs one write at a time for several processes takes as many times longer, so each of them takes its share. A
//   storage that performs writes in parallel does not get slower with more turns, and sets no bound. The fastest of the
//   newest writes counts, so that one pause does not set a bound. One turn is always driven.

import type { Clock } from "../../core/clock/clock.ts";
import type { LeaseTimings } from "../rows/lease.ts";
import type { HostStorage } from "../rows/storage.ts";

import { monotonicNow } from "../../core/clock/clock.ts";

/** A lease lasts for at least this many of the slowest recent writes: two for each of three renewals. */
const writesPerLease = 6;

/** The longest lease in milliseconds, unless the configured one is longer. */
export const longestMs = 120_000;

/** By which factor an earlier slow write counts less after each write. */
const decay = 0.95;

/**
 * Of how many of the newest writes the fastest counts for `places`: a pause of the process or of the storage that
 * delays some of them sets no bound.
 */
const countedWrites = 4;

/** The timings of leases, which grow with the measured time of writes. */
export class GrowingLease implements LeaseTimings {
  readonly #least: LeaseTimings;
  #slowestMs = 0;
  /** How many writes are in progress. */
  #unanswered = 0;
  /** What the newest writes took of the storage's time, in milliseconds. */
  #serviceMs: readonly number[] = [];

  constructor(least: LeaseTimings) {
    this.#least = least;
  }

  get ttlMs(): number {
    const wantedMs = Math.min(longestMs, writesPerLease * this.#slowestMs);
    let { ttlMs } = this.#least;
    while (ttlMs < wantedMs) ttlMs *= 2;
    return Math.max(this.#least.ttlMs, Math.min(longestMs, ttlMs));
  }

  get renewMs(): number {
    const { ttlMs, renewMs } = this.#least;
    return renewMs * (this.ttlMs / ttlMs);
  }

  /** How many turns this process can drive so that it can commit and renew all of them in time; at least 1. */
  get places(): number {
    const serviceMs = this.#serviceMs.length < countedWrites ? 0 : Math.min(...this.#serviceMs);
    return serviceMs <= 0 ? Number.POSITIVE_INFINITY : Math.max(1, Math.floor(this.#least.renewMs / serviceMs));
  }

  /** The storage, with the time of its writes measured. */
  measured(storage: HostStorage, clock: Clock): HostStorage {
    return {
      ...storage,
      write: async (batch) => {
        const sentAt = monotonicNow(clock);
        const inProgress = (this.#unanswered += 1);
        const written = await storage.write(batch).finally(() => (this.#unanswered -= 1));
        this.#measure(monotonicNow(clock) - sentAt, inProgress);
        return written;
      },
    };
  }

  /** Notes the latency of a write. `inProgress`: how many writes were in progress when it was sent, with this one. */
  #measure(latencyMs: number, inProgress: number): void {
    this.#slowestMs = Math.max(latencyMs, decay * this.#slowestMs);
    this.#serviceMs = [...this.#serviceMs, latencyMs / inProgress].slice(-countedWrites);
  }
}
