// Holds the lease of one session while its turn is driven. Every write of the turn goes through `write`, which fences it by the epoch and extends the lease by one
// lease time, so a turn that commits does not depend on renewals.
//
// What a refused or failed write means
//   the row has another epoch     another process has claimed the session: `lease_lost`, and nothing of this process may be written any more
//   the lease has expired, and the row has our epoch   nobody has claimed it: the holder claims the next epoch and writes again (Q18), so the result of
//                                 an effect that outlasted the lease is not lost
//   the row says released         this process released it, at the end of the turn or to hand it over: `lease_lost`. A late renewal, or an effect that
//                                 is still under way, must not claim the session again
//   `storage_busy`                nothing was written; the write is repeated with backoff until the storage is free. Reads that a commit needs are too
//   any other error               thrown to the caller

import type { RuntimeContext } from "../context.ts";
import type { Changes } from "../rows/batch.ts";
import type { Lease } from "../rows/lease.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { Check, Put } from "../rows/storage.ts";

import { RuntimeError } from "../../model/internal.ts";
import { merge, noChanges, putting } from "../rows/batch.ts";
import { maxClaimedInputs, movedClaims } from "../rows/inbox.ts";
import { claim, fence, instantOf, isWithinDeadline, leasePut, releasePut } from "../rows/lease.ts";
import { keyOf } from "../rows/session-key.ts";
import { readValue } from "../rows/stored.ts";

/** Delays between two tries at a busy storage, in milliseconds, and how long it is tried. */
const firstDelayMs = 25;
const longestDelayMs = 1000;
const busyLimitMs = 600_000;
/** How long a busy storage is tried once the turn is handed over in the middle of a step. */
const handOverBusyLimitMs = 3000;

/** Written; or the check that refused the batch. */
export type FencedWrite = { readonly ok: true } | { readonly ok: false; readonly check: Check };

type HolderContext = Pick<RuntimeContext, "storage" | "clock" | "lease">;

export class LeaseHolder {
  readonly key: SessionKey;
  readonly #context: HolderContext;
  #lease: Lease;
  #renewing: Promise<void> | null = null;
  #claiming: Promise<void> | null = null;
  #isReleased = false;
  #busyUntil = Number.POSITIVE_INFINITY;

  constructor(context: HolderContext, key: SessionKey, lease: Lease) {
    this.#context = context;
    this.key = key;
    this.#lease = lease;
  }

  get epoch(): number {
    return this.#lease.epoch;
  }

  get lease(): Lease {
    return this.#lease;
  }

  /** May an effect be performed: has the lease not expired by either local clock? */
  get isSafe(): boolean {
    return !this.#isReleased && isWithinDeadline(this.#lease, instantOf(this.#context.clock), this.#context.lease);
  }

  /**
   * Called before every performer starts, and before a request leaves for a provider. Resolves at once while the local deadline has not passed; otherwise
   * renews first. Rejects with `lease_lost` when another process has claimed the session.
   */
  readonly ensure = (): void | Promise<void> => {
    if (!this.isSafe) return this.#renewUntilSafe();
  };

  /** The answer to a renewal may arrive after the lease it extended has expired, so the deadline is checked again. */
  async #renewUntilSafe(): Promise<void> {
    while (!this.isSafe) await this.renew();
  }

  /** Writes a batch under the lease, and extends the lease. `lasting: false`: the write may be lost with the machine. */
  async write(changes: Changes, { lasting = true, put = null }: WriteOptions = {}): Promise<FencedWrite> {
    const { storage, clock, lease: timings } = this.#context;
    for (;;) {
      if (this.#isReleased) throw this.lost();
      const sentAt = instantOf(clock);
      const { epoch } = this;
      const own = put === null ? leasePut(keyOf(this.key), this.#lease, timings) : put(this.#lease);
      const batch = merge({ checks: [fence(keyOf(this.key), this.#lease)], removals: [], puts: [own] }, changes);
      const written = await this.whenFree(() => storage.write({ ...batch, lasting }));
      if (written.ok) {
        this.#lease = { ...this.#lease, sentAt };
        return { ok: true };
      }
      const check = batch.checks[written.check];
      if (check === undefined || check.table !== "leases")
        return { ok: false, check: check ?? fence(keyOf(this.key), this.#lease) };
      await this.#claimAgain(epoch);
    }
  }

  /** Extends the lease. Not flushed to disk: a renewal that is lost with the machine is lost with the holder. */
  async renew(): Promise<void> {
    this.#renewing ??= this.write(putting(), { lasting: false })
      .then(() => undefined)
      .finally(() => {
        this.#renewing = null;
      });
    return this.#renewing;
  }

  /**
   * Releases the lease, so that the next holder does not wait for it to expire. A claim of the next epoch that is being written is waited for and released
   * too: it would hold the session for one lease time without a process that drives it.
   */
  async release(also: Changes = noChanges): Promise<void> {
    this.#isReleased = true;
    await this.#claiming?.catch(() => undefined);
    const key = keyOf(this.key);
    // Only while the lease is held: a turn that has ended must not become due again.
    const check = { table: "leases", key, tag: this.epoch, alive: true } as const;
    const changes = merge({ checks: [check], removals: [], puts: [releasePut(key, this.#lease)] }, also);
    await this.#context.storage.write(changes).catch(() => undefined);
  }

  lost(): RuntimeError {
    const message = `session ${this.key.session} is no longer held by this process; the process that holds it now continues the turn`;
    return new RuntimeError("lease_lost", { message, metadata: { epoch: this.epoch } });
  }

  /**
   * A write under the epoch `refused` was refused. Concurrent writes of this process share one claim: two claims would compete, and the one that loses would
   * take the other for another process.
   */
  async #claimAgain(refused: number): Promise<void> {
    // A concurrent write has claimed the next epoch since.
    if (refused !== this.epoch) return;
    if (this.#isReleased) throw this.lost();
    this.#claiming ??= this.#claimNext().finally(() => {
      this.#claiming = null;
    });
    return this.#claiming;
  }

  /** The lease has expired. If no other process has claimed it, this one claims the next epoch (Q18); otherwise it is lost. */
  async #claimNext(): Promise<void> {
    const { storage, clock, lease: timings } = this.#context;
    const key = keyOf(this.key);
    for (;;) {
      const [leases = [], inputs = []] = await this.whenFree(() =>
        storage.read([
          { table: "leases", prefix: key },
          { table: "inbox", prefix: key, limit: maxClaimedInputs },
        ]),
      );
      const row = leases[0] ?? null;
      // Released while the rows were read; nothing may be claimed after that.
      if (this.#isReleased) throw this.lost();
      if (row === null || row.tag !== this.epoch || readValue("leases", row).released) throw this.lost();
      const claimed = claim(key, row, this.#lease.owner, instantOf(clock), timings);
      // Renewed by a concurrent write of this process.
      if (claimed.type === "busy") return;
      // A claim of an input is void under another epoch. The inputs that this process has claimed move to the next epoch with the lease, so that they cannot
      // be withdrawn while their delivery is being written.
      const moved = movedClaims(inputs, this.epoch, claimed.lease.epoch);
      const batch = merge({ checks: [claimed.check], removals: [], puts: [claimed.put] }, moved);
      const written = await this.whenFree(() => storage.write(batch));
      if (written.ok) {
        this.#lease = claimed.lease;
        return;
      }
      if (batch.checks[written.check]?.table === "leases") throw this.lost();
    }
  }

  /** Limits the wait for a busy storage to a few seconds from now on: the turn is handed over, and the process is about to stop. */
  limitBusyWait(): void {
    this.#busyUntil = Math.min(this.#busyUntil, this.#context.clock.now() + handOverBusyLimitMs);
  }

  /** Repeats reads, or a write, while the storage is busy: nothing was written then. */
  async whenFree<T>(work: () => Promise<T>): Promise<T> {
    const { clock } = this.#context;
    const until = clock.now() + busyLimitMs;
    for (let delayMs = firstDelayMs; ; delayMs = Math.min(longestDelayMs, 2 * delayMs)) {
      try {
        return await work();
      } catch (error) {
        const isBusy = error instanceof RuntimeError && error.reason === "storage_busy";
        if (!isBusy || this.#isReleased || clock.now() >= Math.min(until, this.#busyUntil)) throw error;
        await clock.sleep(delayMs);
      }
    }
  }
}

type WriteOptions = {
  readonly lasting?: boolean;
  /** The lease row to write in place of the extended one: a release, or the lease of the turn that follows. The lease may have been claimed again for the write. */
  readonly put?: ((lease: Lease) => Put) | null;
};
