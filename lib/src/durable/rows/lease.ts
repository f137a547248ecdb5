// Leases: which process may write to a session (H3). Pure functions from the lease row that was read to the rows of a
// batch; `ActiveTurns` claims leases and `LeaseHolder` keeps them.
//
// Theory of operation
//   A session has at most one lease row. Its tag is the fencing token: the epoch, which counts the claims of the
//   session, and a random nonce. A process that wants to drive a turn claims the lease with a compare-and-swap on the
//   tag, writes under it, renews it, and releases it. If the process crashes, the row expires and any other process may
//   claim the session (a takeover). The nonce makes tokens unique across copies of the database: after a failover to a
//   standby that lacks the newest claim, the standby gives the same epoch again, and without the nonce both holders
//   could write. Rows of the history of one storage have distinct epochs, because every write compares the token;
//   everything that is stored or shown beside the lease row therefore names the epoch alone. The holder also has a
//   local deadline, on the wall clock and on the monotonic clock, which counts from before the claim or renewal was
//   sent. It checks the deadline before it performs an effect: a process that was paused for longer than the lease time
//   renews first, and finds out that it has lost the session before it does harm outside the storage.
//
// Invariants
//   1. Every write under a lease checks the token, and the storage refuses the batch if the row has another one.
//   2. A claim, of a free, released or expired lease, gets the next epoch and a new nonce. A renewal keeps the token
//      and the value of the row. A holder that changes the value increases the nonce (`tokenOfChange`). The token never
//      decreases, also when the session is deleted.
//   3. The row stores a duration. The storage computes and judges the expiry with its own clock, so clock skew between
//      clients is harmless.
//   4. No batch is accepted under an expired lease. Its holder may claim the next epoch as long as the row still has
//      its token (Q18).
//   5. A lease lasts at least three renewal intervals, so two renewals may be missed, and longer while writes are slow
//      (`drive/growing-lease.ts`).
//   6. A lease row never expires later than one lease time after it was written. If a row has more time left than that,
//      the storage's clock was set back after the write. Such a lease may be claimed by a process that has seen the row
//      unchanged for one lease time on its own monotonic clock: a living holder would have renewed it. Without this
//      rule no process could claim the session until the storage's clock reaches the expiry.
//   7. A lease that has not expired may be claimed if the storage can tell that the process of its holder has ended
//      (`Liveness`). The claim is a takeover, so a turn that ends its process each time is still bounded (Q17).

import type { Clock } from "../../core/clock/clock.ts";
import type { Check, Key, Liveness, Put, Row } from "./storage.ts";
import type { LeaseHolder } from "./values.ts";

import { monotonicNow } from "../../core/clock/clock.ts";
import { MisuseError } from "../../core/model/internal.ts";
import { readValue, writeValue } from "./stored.ts";

/** A lease as its holder has it in memory. */
export type Lease = {
  /** The name of the holding process, for diagnosis. */
  readonly owner: string;
  /** The identity of the holding process; `null`: it has none (invariant 7). */
  readonly process: string | null;
  /** The fencing token (`epochOf`). */
  readonly token: number;
  /** When the claim or the last successful write was sent: the local deadline counts from here. */
  readonly sentAt: Instant;
  /** How long the row lasts that was written last, in milliseconds. */
  readonly ttlMs: number;
  /** When the process claimed the session, in milliseconds. */
  readonly since: number;
  /** The claim was a takeover (Q17). */
  readonly takesOver: boolean;
  /** The process that was taken over from; `null`: none. */
  readonly tookOverFrom: string | null;
  /** The process drives no other turn, or parks a turn whose last process did (`drive/takeovers.ts`). */
  readonly alone: boolean;
};

/** The number of nonces in an epoch. With 2^24 of them a session has 2^29 epochs, because a tag is a safe integer. */
const noncesPerEpoch = 2 ** 24;

/** Claims draw from the lower half of the nonces, so that changes never reach the next epoch. */
const firstNonces = noncesPerEpoch / 2;

/**
 * The epoch of a fencing token: it increases with each claim of the session. Rows of older releases have an epoch
 * without a nonce.
 */
export function epochOf(token: number): number {
  return token < noncesPerEpoch ? token : Math.floor(token / noncesPerEpoch);
}

/**
 * The token of the next epoch. `token`: that of the lease row; 0 without a row. `random`: a new number of
 * `Clock.random`, for the nonce.
 */
export function nextToken(token: number, random: number): number {
  return (epochOf(token) + 1) * noncesPerEpoch + Math.floor(random * firstNonces);
}

/**
 * The token of a lease row that its holder changes, in the same epoch: writes under the old token are refused after the
 * change.
 */
export function tokenOfChange(token: number): number {
  return token + 1;
}

/**
 * The lease of the turn that follows: the next epoch, so that late writes of the turn that ended are fenced. That turn
 * was not taken over.
 */
export function nextLease(lease: Lease, random: number, ttlMs: number): Lease {
  return { ...lease, token: nextToken(lease.token, random), ttlMs, takesOver: false, tookOverFrom: null, alone: false };
}

/** A moment on both local clocks, in milliseconds. */
export type Instant = { readonly wall: number; readonly monotonic: number };

/** A clock of this process. `wall` is its wall clock if `now` is another one (`storage-clock.ts`). */
export type LocalClock = Clock & { readonly wall?: () => number };

/** Reads both local clocks. */
export function instantOf(clock: LocalClock): Instant {
  const { wall = clock.now } = clock;
  return { wall: wall(), monotonic: monotonicNow(clock) };
}

/** How long leases last and how often they are renewed. */
export type LeaseTimings = {
  /**
   * How long a lease lasts without a renewal, in milliseconds. Default: 30,000. Then another process may take the turn
   * over.
   */
  readonly ttlMs: number;
  /** The renewal interval in milliseconds. Default: 10,000. At most a third of `ttlMs`. */
  readonly renewMs: number;
};

/** The default timings. */
export const leaseTimings: LeaseTimings = { ttlMs: 30_000, renewMs: 10_000 };

/**
 * The longest duration that options accept. A longer one is a mistake, and `now` plus it could exceed what a key can
 * hold.
 */
export const tenYearsMs = 10 * 365 * 86_400_000;

/** Validates timings (invariant 5). Throws `MisuseError`. */
export function checkedTimings({ ttlMs, renewMs }: LeaseTimings): LeaseTimings {
  if (ttlMs <= tenYearsMs && renewMs > 0 && ttlMs >= 3 * renewMs) return { ttlMs: Math.ceil(ttlMs), renewMs };
  throw new MisuseError(
    "invalid_argument",
    `lease: ttlMs is ${ttlMs} and renewMs is ${renewMs}; renewMs must be greater than 0, and ttlMs must be at least 3 * renewMs and at most ten years`,
    { path: ["lease"] },
  );
}

/**
 * Returns whether the holder may act: the lease has expired by neither local clock. A suspended machine stops some
 * monotonic clocks, so both count.
 */
export function isWithinDeadline({ sentAt, ttlMs }: Lease, now: Instant): boolean {
  return now.wall < sentAt.wall + ttlMs && now.monotonic < sentAt.monotonic + ttlMs;
}

/** The result of `claim`: the check and the put of the claiming batch, or the holder of a lease that is still valid. */
export type Claim =
  | {
      readonly type: "acquired";
      readonly lease: Lease;
      readonly check: Check;
      readonly put: Put;
      /** The previous lease expired without being released: its process crashed or was blocked (Q17). */
      readonly takesOver: boolean;
      /** The process that is taken over from drove no other turn. */
      readonly wasAlone: boolean;
      /**
       * For how long the lease has been free, in milliseconds: since it expired, or could be claimed otherwise
       * (invariant 6). If its process has ended before the expiry, since the last write of that process.
       */
      readonly freeMs: number;
    }
  | { readonly type: "busy"; readonly holder: string };

/**
 * A lease row that this process has seen before, and since when it is unchanged, on the monotonic clock (invariant 6).
 */
export type Observation = { readonly token: number; readonly expires: number | null; readonly since: number };

/** What shows, beside the expiry, that the holder of a lease cannot act any more. */
type HolderEvidence = { readonly observed?: Observation | null; readonly liveness?: Liveness | null };

/**
 * Decides whether a session with this lease row (`null`: none) can be claimed, and builds the claim. Writes nothing.
 */
export function claim(
  key: Key,
  row: Row | null,
  owner: string,
  clock: Clock,
  timings: LeaseTimings,
  { observed = null, liveness = null }: HolderEvidence = {},
): Claim {
  const sentAt = instantOf(clock);
  const held = row === null ? null : readValue("leases", row);
  const isFree = row === null || row.remainingMs === null || row.remainingMs <= 0;
  const isStuck = row !== null && held !== null && isUnchanged(row, observed, sentAt.monotonic, held.ttlMs);
  const isFreeOrStuck = isFree || isStuck;
  if (!isFreeOrStuck && !(held !== null && holderHasEnded(held, liveness))) {
    return { type: "busy", holder: held?.owner ?? "" };
  }
  const takesOver = held !== null && !held.released;
  const token = nextToken(row?.tag ?? 0, clock.random());
  const tookOverFrom = takesOver ? held.owner : null;
  const process = liveness?.process ?? null;
  const { ttlMs } = timings;
  const lease: Lease = {
    owner,
    process,
    token,
    sentAt,
    ttlMs,
    since: sentAt.wall,
    takesOver,
    tookOverFrom,
    alone: false,
  };
  const check = unclaimed(key, row);
  return {
    type: "acquired",
    lease,
    // A renewal keeps the tag, so the compare-and-swap includes the expiry: the holder may still renew (invariant 6),
    // also a lease that has expired, if the storage's clock is set back after the read.
    check: row === null ? check : { ...check, expires: row.expires },
    put: leasePut(key, lease),
    takesOver,
    wasAlone: takesOver && held.alone,
    freeMs: isStuck ? stuckMs(observed, sentAt.monotonic, held?.ttlMs ?? 0) : freeMs(row, held),
  };
}

/** For how long a lease has been expired; if it has not, for how long its holder, which has ended, has not written. */
function freeMs(row: Row | null, held: LeaseHolder | null): number {
  const remainingMs = row?.remainingMs ?? 0;
  return remainingMs <= 0 ? -remainingMs : Math.max(0, (held?.ttlMs ?? 0) - remainingMs);
}

/** For how long a lease could be claimed that was observed unchanged for one lease time (invariant 6). */
function stuckMs(observed: Observation | null, now: number, ttlMs: number): number {
  return observed === null ? 0 : now - observed.since - ttlMs;
}

/** Returns whether the process that holds a lease has certainly ended (invariant 7). */
export function holderHasEnded({ process, released }: LeaseHolder, liveness: Liveness | null): boolean {
  return !released && process !== null && liveness !== null && liveness.hasEnded(process);
}

/** Returns whether a row that expires too far ahead was observed unchanged for one lease time (invariant 6). */
function isUnchanged(
  { tag, expires, remainingMs }: Row,
  observed: Observation | null,
  now: number,
  ttlMs: number,
): boolean {
  if (observed === null || remainingMs === null || remainingMs <= ttlMs) return false;
  return observed.token === tag && observed.expires === expires && now - observed.since >= ttlMs;
}

/**
 * No process has claimed the session since this lease row was read (`null`: there was none): every claim writes another
 * epoch.
 */
export function unclaimed(key: Key, row: Row | null): Check {
  return { table: "leases", key, tag: row?.tag ?? null };
}

/**
 * The check that fences every write under a lease: the row has our token and has not expired. The storage evaluates it
 * with the batch.
 */
export function tokenCheck(key: Key, { token }: Pick<Lease, "token">): Check {
  return { table: "leases", key, tag: token, alive: true };
}

/** The lease row that expires one lease time after the write. */
export function leasePut(
  key: Key,
  {
    owner,
    process,
    token,
    since = null,
    tookOverFrom = null,
    alone = false,
    ttlMs,
  }: Pick<Lease, "owner" | "process" | "token" | "ttlMs"> &
    Pick<Partial<LeaseHolder>, "since" | "tookOverFrom" | "alone">,
): Put {
  const value = writeValue("leases", { owner, ttlMs, released: false, process, since, tookOverFrom, alone });
  return { table: "leases", key, tag: token, ttlMs, value };
}

/**
 * The row of a released lease: it keeps the token and has expired already, so the next claim does not wait and is no
 * takeover.
 */
export function releasePut(key: Key, { owner, token }: Pick<Lease, "owner" | "token">): Put {
  const value = writeValue("leases", {
    owner,
    ttlMs: 0,
    released: true,
    process: null,
    since: null,
    tookOverFrom: null,
    alone: false,
  });
  return { table: "leases", key, tag: token, ttlMs: 0, value };
}
