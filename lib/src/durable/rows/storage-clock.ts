// The clock of the storage, as a process estimates it.
//
// Why
//   Times that one process writes and another one compares are part of rows: when a turn is due, when a wait ends, how
//   long a turn has waited for a limit. With the clocks of the processes, one whose clock is ahead by an hour hides the
//   turns that it held for an hour after it was killed. So every time of a row is a time of the storage's clock, which
//   also judges leases.
//
// How
//   A sample is a time of the storage's clock, and when it was asked for and received, on the monotonic clock of this
//   process. The storage's clock was read in between, so the sample bounds the difference of the two clocks from below
//   and above. Samples are free with every lease row that is read (`expires` and `remainingMs`); the first one, and one
//   after `maxAgeMs` without any, is a question to the storage (`HostStorage.now`). Bounds of several samples are
//   intersected. If they contradict each other, the storage's clock was set, or this machine was suspended, and the
//   newest sample counts alone. The wall clock of this process has no influence, except that a change of it against the
//   monotonic clock makes the sample stale.
//
// Invariants
//   1. `now` is never ahead of the storage's clock and `latest` is never behind it. So a process that reads the index
//      with `latest` finds what another one has made due with `now` before. Not until the next sample, if the storage's
//      clock is set: a turn that is released meanwhile is due later by as much as the clock was set back.
//   2. No verb uses `now` before the first sample: every verb reads before it writes, and the first read waits for the
//      sample. `latest` waits for it, too.

import type { Clock } from "../../core/clock/clock.ts";
import type { HostStorage, Query, Row } from "./storage.ts";

import { monotonicNow } from "../../core/clock/clock.ts";

/** How old a sample becomes before the storage is asked again, in milliseconds. */
const maxAgeMs = 30_000;

/** How far the wall clock may move against the monotonic clock before the storage is asked again, in milliseconds. */
const maxJumpMs = 1_000;

/** The clock of a runtime. `now` returns whole milliseconds of the storage's clock: times are parts of row keys. */
export type RuntimeClock = Clock & {
  /**
   * A time that the storage's clock has not passed: for reading what is due. Asks the storage if there is no sample, or
   * an old one.
   */
  readonly latest: () => Promise<number>;
  /** The wall clock of this process. */
  readonly wall: () => number;
  readonly monotonic: () => number;
};

/**
 * The storage's clock minus the monotonic clock, in milliseconds: a lower and an upper bound, and when they were found.
 */
type Bounds = { readonly least: number; readonly most: number; readonly at: number; readonly jump: number };

/**
 * Returns the clock of a runtime, and the storage whose reads keep the clock up to date. A storage without `now` shares
 * the clock of the process.
 */
export function storageClock(storage: HostStorage, clock: Clock): { storage: HostStorage; clock: RuntimeClock } {
  const { now: ask } = storage;
  const monotonic = () => monotonicNow(clock);
  const wall = () => Math.floor(clock.now());
  if (ask === undefined)
    return { storage, clock: { ...clock, now: wall, latest: async () => wall(), wall, monotonic } };
  let bounds: Bounds | null = null;
  let asking: Promise<void> | null = null;

  const note = (time: number, sentAt: number) => {
    const at = monotonic();
    const jump = clock.now() - at;
    const [least, most] = [time - at, time - sentAt];
    const known = bounds !== null && !isStale() ? bounds : { least, most };
    const [low, high] = [Math.max(known.least, least), Math.min(known.most, most)];
    bounds = low <= high ? { least: low, most: high, at, jump } : { least, most, at, jump };
  };
  const isStale = () => {
    if (bounds === null) return true;
    const at = monotonic();
    return at - bounds.at > maxAgeMs || Math.abs(clock.now() - at - bounds.jump) > maxJumpMs;
  };
  const sample = (): Promise<void> => {
    const sentAt = monotonic();
    asking ??= ask()
      .then((time) => note(time, sentAt))
      .finally(() => {
        asking = null;
      });
    return asking;
  };
  const read = (queries: readonly Query[]): Promise<readonly (readonly Row[])[]> =>
    isStale() || queries.some(({ table }) => table === "leases") ? readAndNote(queries) : storage.read(queries);
  const readAndNote = async (queries: readonly Query[]): Promise<readonly (readonly Row[])[]> => {
    const isFirst = bounds === null;
    const sampling = isStale() ? sample() : null;
    const sentAt = monotonic();
    const reading = storage.read(queries);
    // A read that fails is reported; a question that fails after the first one is asked again with the next read.
    const [rows] = await Promise.all([reading, isFirst ? sampling : sampling?.catch(() => undefined)]);
    const lease = rows.findLast((_, index) => queries[index]?.table === "leases")?.at(-1);
    const { expires = null, remainingMs = null } = lease ?? {};
    if (expires !== null && remainingMs !== null) note(expires - remainingMs, sentAt);
    return rows;
  };
  return {
    storage: { ...storage, read },
    clock: {
      ...clock,
      now: () => (bounds === null ? wall() : Math.floor(monotonic() + bounds.least)),
      latest: async () => {
        if (isStale()) await sample();
        return bounds === null ? wall() : Math.ceil(monotonic() + bounds.most);
      },
      wall,
      monotonic,
    },
  };
}
