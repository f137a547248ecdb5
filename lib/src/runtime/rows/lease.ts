// Who may write to a session: one at a time, for a while, and never again once somebody else has taken over (H3). Pure: rows that were read and a
// time go in, what to write comes out.
//
// Rules:
//   1. A lease has an epoch, which is what fences: every write names it, and a row with another epoch refuses the write.
//   2. Whoever acquires a lease, free, given back or run out, gets the epoch after the last one. Renewing keeps it.
//   3. A lease that has run out cannot be renewed and cannot be written under, also when nobody else has taken it yet: its holder cannot know.
//   4. A lease lasts at least three renewals, so that two may be missed.

import type { Check, Key, Put, Row } from "./storage.ts";

import { MisuseError } from "../../model/internal.ts";
import { readValue, writeValue } from "./stored.ts";

export type Lease = { readonly owner: string; readonly epoch: number; readonly expires: number };

export type LeaseTimings = { readonly ttlMs: number; readonly renewMs: number };

export const leaseTimings: LeaseTimings = { ttlMs: 30_000, renewMs: 10_000 };

/** Ten years: what is longer is a mistake, and would not fit a key. */
export const longestMs = 10 * 365 * 86_400_000;

/** Timings that can be kept (rule 4). */
export function checkedTimings({ ttlMs, renewMs }: LeaseTimings): LeaseTimings {
  if (ttlMs <= longestMs && renewMs > 0 && ttlMs >= 3 * renewMs) return { ttlMs: Math.ceil(ttlMs), renewMs };
  throw new MisuseError(
    "invalid_argument",
    `a lease of ${ttlMs} ms renewed every ${renewMs} ms cannot survive two missed renewals, or lasts for ever; it has to last three of them, and less than ten years`,
    { path: ["lease"] },
  );
}

/** What becomes of an attempt to get a session. */
export type Claim =
  | { readonly type: "acquired"; readonly lease: Lease; readonly check: Check; readonly put: Put }
  | { readonly type: "busy"; readonly holder: string; readonly expires: number };

/** Tries to get a session whose lease row is this, or absent. */
export function claim(key: Key, row: Row | null, owner: string, now: number, { ttlMs }: LeaseTimings): Claim {
  if (row !== null && row.expires !== null && row.expires > now) {
    return { type: "busy", holder: readValue("leases", row).owner, expires: row.expires };
  }
  const lease: Lease = { owner, epoch: (row?.tag ?? 0) + 1, expires: now + ttlMs };
  // Against the row as it was: if somebody else is quicker, theirs is the lease.
  return { type: "acquired", lease, check: { table: "leases", key, tag: row?.tag ?? null }, put: leasePut(key, lease) };
}

/** What has to hold for anything to be written under a lease. */
export function fence(key: Key, { epoch }: Lease, now: number): Check {
  return { table: "leases", key, tag: epoch, aliveAt: now };
}

export function renewed(lease: Lease, now: number, { ttlMs }: LeaseTimings): Lease {
  return { ...lease, expires: now + ttlMs };
}

/** The lease under the next epoch, for a holder that goes on with another turn of the session. */
export function succeeded(lease: Lease, now: number, { ttlMs }: LeaseTimings): Lease {
  return { ...lease, epoch: lease.epoch + 1, expires: now + ttlMs };
}

/** The row of a lease. One that was given back stays, with its epoch, as one that has run out. */
export function leasePut(key: Key, { owner, epoch, expires }: Lease): Put {
  return { table: "leases", key, tag: epoch, expires, value: writeValue("leases", { owner }) };
}

export function releasePut(key: Key, lease: Lease): Put {
  return leasePut(key, { ...lease, expires: 0 });
}
