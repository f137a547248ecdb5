// Leases: which process may write to a session (H3). Pure: rows that were read go in, rows to write come out.
//
// Rules
//   1. A lease has an epoch, the fencing token: every write under the lease checks it, and a row with another epoch refuses the write.
//   2. A process that claims a lease, whether free, released or expired, gets the next epoch. Renewing keeps the epoch.
//   3. The row stores a duration. The storage computes and judges the expiry with its own clock, so clocks of clients do not matter.
//   4. An expired lease cannot be written under. Its holder may claim the next epoch while the row still has its own (Q18).
//   5. A lease lasts at least three renewals, so two may be missed.
//   6. An expiry further ahead than one lease time means that the storage's clock has jumped back. Such a lease may be claimed once it was
//      observed unchanged for one lease time.
//
// The holder also has a local deadline, on the wall clock and on the monotonic clock, which counts from before the renewal was sent. Before it performs an
// effect it checks the deadline: a process that was paused beyond it renews first.

import type { Clock } from "../../clock/clock.ts";
import type { Check, Key, Put, Row } from "./storage.ts";

import { monotonicNow } from "../../clock/clock.ts";
import { MisuseError } from "../../model/internal.ts";
import { readValue, writeValue } from "./stored.ts";

/** A lease as its holder knows it. */
export type Lease = {
  readonly owner: string;
  readonly epoch: number;
  /** When the claim or the last renewal was sent. */
  readonly sentAt: Instant;
};

/** A moment on both local clocks, in milliseconds. */
export type Instant = { readonly wall: number; readonly monotonic: number };

export function instantOf(clock: Clock): Instant {
  return { wall: clock.now(), monotonic: monotonicNow(clock) };
}

export type LeaseTimings = {
  /** How long a lease lasts without a renewal, in milliseconds. Default: 30,000. After that another process may take the turn over. */
  readonly ttlMs: number;
  /** How often it is renewed, in milliseconds. Default: 10,000. At most a third of `ttlMs`. */
  readonly renewMs: number;
};

export const leaseTimings: LeaseTimings = { ttlMs: 30_000, renewMs: 10_000 };

/** Ten years: a longer time is a mistake, and would not fit a key. */
export const longestMs = 10 * 365 * 86_400_000;

/** Timings that rule 5 allows. Throws `MisuseError` for others. */
export function checkedTimings({ ttlMs, renewMs }: LeaseTimings): LeaseTimings {
  if (ttlMs <= longestMs && renewMs > 0 && ttlMs >= 3 * renewMs) return { ttlMs: Math.ceil(ttlMs), renewMs };
  throw new MisuseError(
    "invalid_argument",
    `a lease of ${ttlMs} ms renewed every ${renewMs} ms cannot survive two missed renewals, or lasts for ever; it has to last three of them, and less than ten years`,
    { path: ["lease"] },
  );
}

/** May the holder act: has the lease not expired by either local clock? */
export function isWithinDeadline({ sentAt }: Lease, now: Instant, { ttlMs }: LeaseTimings): boolean {
  return now.wall < sentAt.wall + ttlMs && now.monotonic < sentAt.monotonic + ttlMs;
}

/** The result of an attempt to claim a session. */
export type Claim =
  | {
      readonly type: "acquired";
      readonly lease: Lease;
      readonly check: Check;
      readonly put: Put;
      readonly takesOver: boolean;
    }
  | { readonly type: "busy"; readonly holder: string };

/** A lease row that was seen before: rule 6. */
export type Observation = { readonly epoch: number; readonly expires: number | null; readonly since: number };

/** Claims a session whose lease row is this, or absent. `takesOver`: the lease expired without being released (Q17). */
export function claim(
  key: Key,
  row: Row | null,
  owner: string,
  sentAt: Instant,
  timings: LeaseTimings,
  observed: Observation | null = null,
): Claim {
  const held = row === null ? null : readValue("leases", row);
  const isFree = row === null || row.remainingMs === null || row.remainingMs <= 0;
  const isStuck = row !== null && held !== null && isUnchanged(row, observed, sentAt.monotonic, held.ttlMs);
  if (!isFree && !isStuck) return { type: "busy", holder: held?.owner ?? "" };
  const lease: Lease = { owner, epoch: (row?.tag ?? 0) + 1, sentAt };
  const check: Check = { table: "leases", key, tag: row?.tag ?? null };
  return {
    type: "acquired",
    lease,
    // A renewal keeps the tag. Against a holder that may still renew, the expiry is compared too.
    check: isFree ? check : { ...check, expires: row?.expires ?? null },
    put: leasePut(key, lease, timings),
    takesOver: held !== null && !held.released,
  };
}

function isUnchanged(
  { tag, expires, remainingMs }: Row,
  seen: Observation | null,
  now: number,
  ttlMs: number,
): boolean {
  if (seen === null || remainingMs === null || remainingMs <= ttlMs) return false;
  return seen.epoch === tag && seen.expires === expires && now - seen.since >= ttlMs;
}

/** The check of every write under a lease. */
export function fence(key: Key, { epoch }: Pick<Lease, "epoch">): Check {
  return { table: "leases", key, tag: epoch, alive: true };
}

/** The lease row for one lease time from the write on. */
export function leasePut(key: Key, { owner, epoch }: Pick<Lease, "owner" | "epoch">, { ttlMs }: LeaseTimings): Put {
  const value = writeValue("leases", { owner, ttlMs, released: false });
  return { table: "leases", key, tag: epoch, ttlMs, value };
}

/** The row of a released lease: it keeps the epoch and has expired. */
export function releasePut(key: Key, { owner, epoch }: Pick<Lease, "owner" | "epoch">): Put {
  const value = writeValue("leases", { owner, ttlMs: 0, released: true });
  return { table: "leases", key, tag: epoch, ttlMs: 0, value };
}
