// Leases that grow with what writes take in this process.
//
// If writes queue for longer than a lease lasts, no holder can extend its lease in time: leases expire, are claimed again or taken over, and those writes and
// the renewals make the queue longer, so that no turn ends. Therefore the time of each write that is answered is measured, from its request to its answer, and a lease lasts for
// several times the slowest recent write. Renewals are sent accordingly less often. The lease row stores its own duration, so processes with other durations
// agree about its expiry. A dead process is taken over later while writes are slow, at most after `longestMs`.

import type { Clock } from "../../clock/clock.ts";
import type { LeaseTimings } from "../rows/lease.ts";
import type { HostStorage } from "../rows/storage.ts";

import { monotonicNow } from "../../clock/clock.ts";

/** A lease lasts for at least this many of the slowest recent writes: two for each of three renewals. */
const writesPerLease = 6;

/** The longest lease in milliseconds, unless the configured one is longer. */
const longestMs = 120_000;

/** By which factor an earlier slow write counts less after each write. */
const decay = 0.95;

/** The timings of leases, which grow with the measured time of writes. */
export class GrowingLease implements LeaseTimings {
  readonly #least: LeaseTimings;
  #slowestMs = 0;

  constructor(least: LeaseTimings) {
    this.#least = least;
  }

  get ttlMs(): number {
    const grownMs = Math.min(longestMs, Math.ceil(writesPerLease * this.#slowestMs));
    return Math.max(this.#least.ttlMs, grownMs);
  }

  get renewMs(): number {
    const { ttlMs, renewMs } = this.#least;
    return renewMs * (this.ttlMs / ttlMs);
  }

  /** The storage, with the time of its writes measured. */
  measured(storage: HostStorage, clock: Clock): HostStorage {
    return {
      ...storage,
      write: async (batch) => {
        const sentAt = monotonicNow(clock);
        const written = await storage.write(batch);
        this.#slowestMs = Math.max(monotonicNow(clock) - sentAt, decay * this.#slowestMs);
        return written;
      },
    };
  }
}
