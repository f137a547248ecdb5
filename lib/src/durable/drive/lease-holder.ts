// Holds the lease of one session while its turn is driven. Every write of the turn goes through `write`, which adds the
// fencing check on the token. It also extends the lease by one lease time, unless the row was written less than half a
// renewal interval ago: a turn that commits often writes its lease row rarely, and needs no renewals.
//
// What a refused or failed write means
//   the row has another token      another process has claimed the session: `lease_lost`. This process must not write
//                                  any more
//   expired, the token is ours     no other process has claimed the session: the holder claims the next epoch and
//                                  writes again (Q18). The result of an effect that outlasted the lease is not lost
//   the row is released            this process released it, at the end of the turn or for a hand-over: `lease_lost`. A
//                                  late renewal, or an effect that is still in flight, must not claim the session again
//   the storage is away            an error that passes (`isTransient`): retry with exponential backoff, for up to ten
//                                  minutes, so that results this process holds are not lost. Reads that a commit needs
//                                  are retried likewise. What is held meanwhile is bounded: a turn holds the results of
//                                  the effects in flight, and no effect is ordered before the commit is written
//   refused after such an error    an earlier attempt may have been applied although its answer was lost. The batch
//                                  counts as written if all its rows are stored as it would write them
//   any other error                thrown to the caller
//
// Invariants
//   1. Every batch checks the token and that the lease has not expired, by the storage's clock (fencing, H3).
//   2. The local deadline counts from before the write was sent, so it passes before the storage's expiry does.
//   3. Concurrent writes of one holder share one claim. Two claims would compete, and the loser would take the winner
//      for another process.
//   4. A renewal without an answer does not prevent later ones: one lost request or answer must not cost a healthy
//      process its lease.
//   5. All rows under one token are equal, so no write shortens the lease, also one that the storage performs late or
//      twice. A write that changes the row (a longer duration, the end of `alone`, the identity of the process) takes
//      the next token of the epoch, which fences the writes under the old one. Those are refused and repeated. A
//      changed row whose answer is lost is recognised by its token (`#claimNext`). A lease that is held never becomes
//      shorter.

import type { Changes } from "../rows/batch.ts";
import type { Instant, Lease, LocalClock } from "../rows/lease.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { Batch, Check, Put, Written } from "../rows/storage.ts";
import type { RuntimeContext } from "./context.ts";

import { monotonicNow } from "../../core/clock/clock.ts";
import { RuntimeError } from "../../core/model/internal.ts";
import { merge, noChanges, putting } from "../rows/batch.ts";
import { movedClaims } from "../rows/inbox.ts";
import {
  claim,
  epochOf,
  instantOf,
  isWithinDeadline,
  leasePut,
  releasePut,
  tokenCheck,
  tokenOfChange,
} from "../rows/lease.ts";
import { keyOf } from "../rows/session-key.ts";
import { readValue } from "../rows/stored.ts";

/**
 * Exponential backoff against a busy storage: the first delay and the longest one, in milliseconds, and when to give
 * up.
 */
const firstDelayMs = 25;
const longestDelayMs = 1000;
const busyLimitMs = 600_000;
/** When to give up once the turn is handed over during an effect: the process is about to stop. */
const handOverBusyLimitMs = 3000;

/** How long a release that failed is tried again in the background, in milliseconds. */
const releaseLimitMs = 10_000;

/**
 * How many renewals may be without an answer at a time. As many intervals fit into the lease time, so with more the
 * lease has expired.
 */
const maxRenewals = 3;

/** The result of a fenced write. `check`: the check, other than the fencing check, that refused the batch. */
export type FencedWrite = { readonly ok: true } | { readonly ok: false; readonly check: Check };

type HolderContext = Pick<RuntimeContext, "storage" | "lease"> & { readonly clock: LocalClock };

/** The lease of one session, from the claim to its release or loss. */
export class LeaseHolder {
  readonly key: SessionKey;
  readonly #context: HolderContext;
  #lease: Lease;
  /** The newest renewal without an answer and when it was sent, on the monotonic clock; and how many there are. */
  #renewal: { readonly written: Promise<void>; readonly sentAt: number } | null = null;
  #renewals = 0;
  #claiming: Promise<void> | null = null;
  /** The process may drive other turns beside this one: the next write says so. */
  #endsAlone = false;
  #isReleased = false;
  #busyUntil = Number.POSITIVE_INFINITY;

  constructor(context: HolderContext, key: SessionKey, lease: Lease) {
    this.#context = context;
    this.key = key;
    this.#lease = lease;
  }

  /** The current epoch. It grows if the lease had to be claimed again. */
  get epoch(): number {
    return epochOf(this.#lease.token);
  }

  get lease(): Lease {
    return this.#lease;
  }

  /** Returns whether an effect may be performed: the lease is not released, and has expired by neither local clock. */
  get isSafe(): boolean {
    return !this.#isReleased && isWithinDeadline(this.#lease, instantOf(this.#context.clock));
  }

  /**
   * Call it before a performer starts and before a request is sent to a provider. Returns synchronously while the local
   * deadline has not passed; otherwise renews first. Rejects with `lease_lost` if another process has claimed the
   * session.
   */
  readonly ensure = (): void | Promise<void> => {
    if (!this.isSafe) return this.#renewUntilSafe();
  };

  /**
   * Renews until the deadline is ahead: the answer to a renewal may arrive after the extended lease, too, has expired.
   */
  async #renewUntilSafe(): Promise<void> {
    while (!this.isSafe) await this.renew();
  }

  /**
   * Writes a batch under the lease, and extends the lease if that is due. A refused fencing check claims the lease
   * again if that is possible (Q18).
   */
  async write(changes: Changes, { lasting = true, put = null }: WriteOptions = {}): Promise<FencedWrite> {
    const { clock } = this.#context;
    for (;;) {
      if (this.#isReleased) throw this.lost();
      const sentAt = instantOf(clock);
      const { token } = this.#lease;
      const lease = put === null ? this.#wanted() : this.#lease;
      const leaseRow = put === null ? leasePut(keyOf(this.key), lease) : put(lease);
      const isExtended = put !== null || lease !== this.#lease || this.#isDue(changes, sentAt);
      const batch = merge(
        { checks: [tokenCheck(keyOf(this.key), this.#lease)], removals: [], puts: isExtended ? [leaseRow] : [] },
        changes,
      );
      const written = await this.#writeWhenFree({ ...batch, lasting });
      if (written.ok) {
        // Concurrent writes may have been answered, or may have claimed the next epoch.
        if (lease.token > this.#lease.token) this.#lease = { ...lease, sentAt: this.#lease.sentAt };
        if (isExtended && sentAt.monotonic > this.#lease.sentAt.monotonic) this.#lease = { ...this.#lease, sentAt };
        return { ok: true };
      }
      const check = batch.checks[written.check];
      if (check === undefined || check.table !== "leases")
        return { ok: false, check: check ?? tokenCheck(keyOf(this.key), this.#lease) };
      await this.#claimAgain(token);
    }
  }

  /**
   * Returns whether a write extends the lease: a renewal does, and a commit half an interval after the last extension.
   */
  #isDue({ puts }: Changes, { wall, monotonic }: Instant): boolean {
    const { sentAt } = this.#lease;
    const halfMs = this.#nextInterval() / 2;
    return puts.length === 0 || monotonic - sentAt.monotonic >= halfMs || wall - sentAt.wall >= halfMs;
  }

  /** The lease that the next write stores: as it is stored, or with changes under the next token (invariant 5). */
  #wanted(): Lease {
    const { storage, lease: timings } = this.#context;
    const lease = this.#lease;
    const ttlMs = Math.max(lease.ttlMs, timings.ttlMs);
    const alone = lease.alone && !this.#endsAlone;
    // A storage may identify this process only while it is connected (`Liveness`), so a lease that was claimed without
    // an identity gets it later.
    const process = storage.liveness?.process ?? lease.process;
    const isSame = ttlMs === lease.ttlMs && alone === lease.alone && process === lease.process;
    return isSame ? lease : { ...lease, token: tokenOfChange(lease.token), ttlMs, alone, process };
  }

  /**
   * Extends the lease. Calls at about the same time share one write; a call half an interval later sends another one
   * (invariant 4). It is not flushed to disk: a power loss that loses the renewal also ends the holder.
   */
  async renew(): Promise<void> {
    const { clock, lease: timings } = this.#context;
    const now = monotonicNow(clock);
    const unanswered = this.#renewal;
    if (unanswered !== null && (now - unanswered.sentAt < timings.renewMs / 2 || this.#renewals >= maxRenewals)) {
      return unanswered.written;
    }
    this.#renewals += 1;
    const written = this.write(putting(), { lasting: false })
      .then(() => undefined)
      .finally(() => {
        this.#renewals -= 1;
        if (this.#renewal?.written === written) this.#renewal = null;
      });
    this.#renewal = { written, sentAt: now };
    return written;
  }

  /**
   * Renews the lease every `renewMs` until the signal aborts, without waiting for the answer to earlier renewals. The
   * first time is sooner, by up to a half: a worker claims many turns at the same time, and renewals of all of them at
   * once would delay the live text of all. Resolves when the renewals are answered; does not reject. `onLost`: another
   * process has claimed the session. The timings change (`growing-lease.ts`): a renewal is not later than the duration
   * of the lease allows that is stored.
   */
  async keep(signal: AbortSignal, onLost: (error: RuntimeError) => void): Promise<void> {
    const { clock } = this.#context;
    const unanswered = new Set<Promise<void>>();
    const heldMs = monotonicNow(clock) - this.#lease.sentAt.monotonic;
    const firstMs = Math.max(0, this.#nextInterval() * (0.5 + 0.5 * clock.random()) - heldMs);
    for (let waitMs = firstMs; ; waitMs = this.#nextInterval()) {
      const slept = await clock.sleep(waitMs, signal).then(
        () => true,
        () => false,
      );
      if (!slept || signal.aborted) break;
      const renewing = this.renew()
        .catch((error: unknown) => {
          // Other storage errors may be transient: the next renewal, two of which fit into the lease time, tries again.
          const isLost = error instanceof RuntimeError && error.reason === "lease_lost";
          if (isLost && !signal.aborted) onLost(error);
        })
        .finally(() => unanswered.delete(renewing));
      unanswered.add(renewing);
      if (unanswered.size >= maxRenewals) await Promise.race(unanswered);
    }
    await Promise.all(unanswered);
  }

  /** The time until the next renewal: the interval that belongs to the stored lease. */
  #nextInterval(): number {
    const { ttlMs, renewMs } = this.#context.lease;
    return renewMs * (this.#lease.ttlMs / ttlMs);
  }

  /**
   * The next write says that the process may drive other turns. When it is answered, no other write can take that back
   * (invariant 5).
   */
  endAlone(): void {
    this.#endsAlone = true;
  }

  /**
   * Releases the lease, so that the next holder does not wait for it to expire. Does not reject: see `releaseLease`. A
   * claim of the next epoch that is being written is awaited and released too: it would hold the session for one lease
   * time without a process that drives it.
   */
  async release(also: Changes = noChanges): Promise<void> {
    this.#isReleased = true;
    await this.#claiming?.catch(() => undefined);
    await releaseLease(this.#context, this.key, this.#lease, async () => also);
  }

  /** The error of a holder whose session another process has claimed. */
  lost(): RuntimeError {
    const message = `session ${this.key.session} is no longer held by this process; the process that holds it now continues the turn`;
    return new RuntimeError("lease_lost", { message, metadata: { epoch: this.epoch } });
  }

  /** Handles a refused fencing check of a write under the token `refused` (invariant 3). */
  async #claimAgain(refused: number): Promise<void> {
    // A concurrent write of this process has claimed the next epoch since.
    if (refused !== this.#lease.token) return;
    if (this.#isReleased) throw this.lost();
    this.#claiming ??= this.#claimNext().finally(() => {
      this.#claiming = null;
    });
    return this.#claiming;
  }

  /**
   * Claims the next epoch of an expired lease (Q18), or adopts a row that this process has changed. Throws `lease_lost`
   * if another process has claimed the lease or it was released.
   */
  async #claimNext(): Promise<void> {
    const { storage, clock, lease: timings } = this.#context;
    const key = keyOf(this.key);
    for (;;) {
      const { token } = this.#lease;
      const [leases = [], inputs = []] = await this.whenFree(() =>
        storage.read([
          { table: "leases", prefix: key },
          { table: "inbox", prefix: key },
        ]),
      );
      const row = leases[0] ?? null;
      // Released during the read: nothing may be claimed after a release.
      if (this.#isReleased) throw this.lost();
      // Writes of this process were answered during the read, and may have changed the row again since.
      if (this.#lease.token !== token) return;
      const stored = row === null ? null : readValue("leases", row);
      if (row === null || stored === null || stored.released) throw this.lost();
      if (row.tag === tokenOfChange(token)) {
        const { ttlMs, alone, process } = stored;
        this.#lease = { ...this.#lease, token: row.tag, ttlMs, alone, process };
        return;
      }
      if (row.tag !== token) throw this.lost();
      const claimed = claim(key, row, this.#lease.owner, clock, timings, { liveness: storage.liveness ?? null });
      // A concurrent write of this process has renewed it.
      if (claimed.type === "busy") return;
      // A claim of an input is void under another epoch. The inputs that this process has claimed move to the next
      // epoch in the same batch, so that they cannot be withdrawn while their delivery is being written.
      const moved = movedClaims(inputs, this.epoch, epochOf(claimed.lease.token));
      // The process has held the session since its first claim.
      const { since, takesOver, tookOverFrom } = this.#lease;
      const alone = this.#lease.alone && !this.#endsAlone;
      const lease = { ...claimed.lease, since, takesOver, tookOverFrom, alone };
      const put = leasePut(key, lease);
      const batch = merge({ checks: [claimed.check], removals: [], puts: [put] }, moved);
      const written = await this.#writeWhenFree(batch);
      if (written.ok) {
        this.#lease = lease;
        return;
      }
      if (batch.checks[written.check]?.table === "leases") throw this.lost();
    }
  }

  /**
   * Limits the retries against a busy storage to `handOverBusyLimitMs` from now: the turn is handed over, and the
   * process shuts down.
   */
  limitBusyWait(): void {
    this.#busyUntil = Math.min(this.#busyUntil, this.#context.clock.now() + handOverBusyLimitMs);
  }

  /**
   * Repeats reads or a write with exponential backoff while the storage is away, for up to ten minutes; less after
   * `limitBusyWait` and never after a release. `work` is called with `true` if an earlier attempt may have taken
   * effect. The lease may expire meanwhile; the next write finds out.
   */
  async whenFree<T>(work: (mayBeWritten: boolean) => Promise<T>): Promise<T> {
    const { clock } = this.#context;
    const until = clock.now() + busyLimitMs;
    let mayBeWritten = false;
    for (let delayMs = firstDelayMs; ; delayMs = Math.min(longestDelayMs, 2 * delayMs)) {
      try {
        return await work(mayBeWritten);
      } catch (error) {
        if (!isTransient(error) || this.#isReleased || clock.now() >= Math.min(until, this.#busyUntil)) throw error;
        mayBeWritten ||= error.reason === "storage_failed";
        await clock.sleep(delayMs);
      }
    }
  }

  /**
   * Writes a batch when the storage is free. A batch that is refused because an earlier attempt was applied counts as
   * written.
   */
  #writeWhenFree(batch: Batch): Promise<Written> {
    return this.whenFree(async (mayBeWritten) => {
      const written = await this.#context.storage.write(batch);
      return !written.ok && mayBeWritten && (await this.#isStored(batch)) ? { ok: true } : written;
    });
  }

  /**
   * Returns whether all rows are stored as a batch would write them. A lease row that keeps its epoch is not compared:
   * another write may have replaced it since. So a batch that only renews the lease never counts as stored: the lease
   * may have expired, and then it is claimed again.
   */
  async #isStored(batch: Batch): Promise<boolean> {
    const checked = new Set(batch.checks.flatMap(({ table, tag }) => (table === "leases" ? [epochOf(tag ?? 0)] : [])));
    const compared = batch.puts.filter(({ table, tag }) => table !== "leases" || !checked.has(epochOf(tag)));
    if (compared.length === 0) return false;
    // Of several puts with the same key the last one counts.
    const puts = [...new Map(compared.map((put) => [JSON.stringify([put.table, ...put.key]), put])).values()];
    const stored = await this.#context.storage.read(puts.map(({ table, key }) => ({ table, prefix: key })));
    return puts.every(({ tag, value }, index) => {
      const row = stored[index]?.[0];
      return row?.tag === tag && row.value === value;
    });
  }
}

/**
 * Returns whether an operation of the storage failed for a reason that passes, so that it is worth repeating: the
 * storage is locked, its disk is full, or it cannot be reached (`transient`, see `HostStorage`).
 */
export function isTransient(error: unknown): error is RuntimeError {
  if (!(error instanceof RuntimeError)) return false;
  const { reason, failure } = error;
  if (reason === "storage_busy" || reason === "storage_full") return true;
  return reason === "storage_failed" && failure.metadata["transient"] === true;
}

/**
 * Releases a lease and writes the result of `also`. If one of them fails, both are tried again in the background: this
 * process lives, so the turn would otherwise wait for the expiry of a lease that no process uses. Safe also if a failed
 * write took effect: the batch is refused unless the lease is held under this token. Otherwise `also` could make a turn
 * due again that has ended.
 *
 * If the lease row says that the process drives no other turn (`alone`), this resolves when the row is released or the
 * lease has expired: with another turn started before, a crash would be attributed to this session.
 */
export async function releaseLease(
  context: Pick<HolderContext, "storage" | "clock">,
  key: SessionKey,
  lease: Lease,
  also: () => Promise<Changes>,
): Promise<void> {
  const { storage, clock } = context;
  const writeUnder = (token: number, changes: Changes) =>
    storage.write(
      merge(
        {
          checks: [tokenCheck(keyOf(key), { token })],
          removals: [],
          puts: [releasePut(keyOf(key), { ...lease, token })],
        },
        changes,
      ),
    );
  /** Releases the row under a token. Returns whether the lease was held under it. */
  const isReleased = async (token: number): Promise<boolean> => {
    const written = await writeUnder(token, await also());
    if (written.ok || written.check === 0) return written.ok;
    // The lease is held, but `also` is refused: its turn has ended.
    return (await writeUnder(token, noChanges)).ok;
  };
  const isWritten = async (): Promise<boolean> => {
    try {
      // A change of the row whose answer was lost may be stored.
      if (!(await isReleased(lease.token))) await isReleased(tokenOfChange(lease.token));
      return true;
    } catch {
      return false;
    }
  };
  const repeat = async (limitMs: number): Promise<void> => {
    const until = clock.now() + limitMs;
    for (let delayMs = firstDelayMs; clock.now() < until; delayMs = Math.min(longestDelayMs, 2 * delayMs)) {
      await clock.sleep(delayMs);
      if (await isWritten()) return;
    }
  };
  if (await isWritten()) return;
  if (lease.alone) await repeat(lease.ttlMs);
  else void repeat(releaseLimitMs);
}

type WriteOptions = {
  /** `false`: the write need not be flushed to disk. */
  readonly lasting?: boolean;
  /**
   * Builds the lease row to write in place of the extended one: a release, or the lease of the next turn. It gets the
   * current lease, which may have been claimed again since the call.
   */
  readonly put?: ((lease: Lease) => Put) | null;
};
