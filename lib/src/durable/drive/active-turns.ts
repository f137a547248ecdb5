// The turns that this process drives: claims sessions, drives the open turn of each and the turns that follow it, and
// hands all of them over when the process shuts down.
//
// Theory of operation
//   A turn gets here in two ways. `drive`: a verb of this process has accepted it and claimed the lease in the same
//   batch. `tryPickUp`: a worker, `recover` or a verb found an open turn that no process holds; the session is claimed
//   (`session-claims.ts`). `#start` runs one session in the background: a `TurnDriver` for the open turn, then one for
//   each turn that follows, under one lease each. `turn-places.ts` says how many turns that are and which one is next.
//
// When a turn stops
//   it ended                      the entry continues with the turn that follows, or is removed, and its place goes to
//                                 a turn that has requested one
//   another process holds it      the entry is removed; handles in this process continue to wait for the result
//   an error, or `close`          the lease is released. The reason is kept (`reasonLeft`), so that the result of a
//                                 handle in this process rejects with it, unless another process has held the session
//                                 since
//   the process crashes           the lease expires; a worker finds the turn by its row in `work`
//
// Invariants
//   1. A session has at most one entry here, because a lease belongs to a session.
//   2. `close` resolves within `graceMs` + `releaseLimitMs`. After `close` no session is claimed.
//   3. While the lease row of a session says that its process drives no other turn (`alone`), no other session is
//      claimed or started here, unless the answer to the claim was lost: then no process drives that session until its
//      lease expires. A turn that is being parked is not driven.
//   4. A turn that this process cannot drive has a row in `work`, or waits for a limit (`waiting-turns.ts`).

import type { Lease } from "../rows/lease.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { Row } from "../rows/storage.ts";
import type { OpenTurn } from "../rows/values.ts";
import type { RuntimeContext } from "./context.ts";
import type { DrivenTurn } from "./driven-turn.ts";
import type { SuspectPlace } from "./session-claims.ts";
import type { StoredTurn } from "./turn-places.ts";
import type { ServeOptions } from "./waiting-turns.ts";

import { epochOf } from "../rows/lease.ts";
import { keyOf, nameOf } from "../rows/session-key.ts";
import { readValue } from "../rows/stored.ts";
import { readOne } from "./context.ts";
import { loadTurn } from "./driven-turn.ts";
import { isTransient, LeaseHolder } from "./lease-holder.ts";
import { LeftTurns } from "./left-turns.ts";
import { openTurn, SessionClaims } from "./session-claims.ts";
import { aloneMs } from "./takeovers.ts";
import { HandedOver } from "./turn-committer.ts";
import { TurnDriver } from "./turn-driver.ts";
import { TurnPlaces } from "./turn-places.ts";
import { WaitingTurns } from "./waiting-turns.ts";

/**
 * A turn to drive. `accepted`: this process has just accepted it and has its rows; `null`: it is loaded from the
 * storage.
 */
type Target = { readonly id: string; readonly accepted: DrivenTurn | null; readonly lease: Lease };

/** The turn after one that is over, with its lease; `lease: null`: the session has to be claimed first. */
type Following = Target | { readonly id: string; readonly lease: null };

/** A session while this process drives it, turn after turn. */
type ActiveSession = {
  /** The driver of the current turn; `null` while the turn is loaded. */
  driver: TurnDriver | null;
  /** The current turn. */
  turn: string;
  /** Resolves when the current turn has ended or was left, with the turn that follows. */
  over: Promise<Following | null>;
  /** Resolves when no further turn follows. */
  done: Promise<void>;
  /** The last turn was left before its end: this process failed at it, or lost the session. */
  isLeft: boolean;
  /** The session is being handed over: no further turn of it is driven here. */
  handsOver: boolean;
  /** The first turn was claimed as a suspect that is driven alone. */
  readonly isAlone: boolean;
};

type PickUpOptions = {
  /** On explicit request: resets the count of takeovers and skips the backoff. */
  readonly force?: boolean;
  /** The caller holds a place for the turn, and gives it back. */
  readonly hasPlace?: boolean;
};

/**
 * How long `close` waits after the grace time, in milliseconds, for the writes that record results and release leases.
 */
const releaseLimitMs = 5000;

/** The active turns of one runtime. */
export class ActiveTurns {
  readonly #context: RuntimeContext;
  readonly #active = new Map<string, ActiveSession>();
  /** Why this process left turns before their end. */
  readonly left: LeftTurns;
  /** The leases of sessions. */
  readonly claims: SessionClaims;
  /** How many turns are driven here, and which one is next. */
  readonly places: TurnPlaces;
  /** Turns that wait for a limit. */
  readonly #waiting: WaitingTurns;
  /** How many turns each worker of this process drives at most. */
  readonly #workers = new Set<{ readonly concurrency: number }>();

  /** `drives`: this process also drives turns without a worker. */
  constructor(context: RuntimeContext, drives: boolean) {
    this.#context = context;
    this.places = new TurnPlaces(context, {
      driveStored: (stored, hasPlace) => this.driveStored(stored, { hasPlace }),
      count: () => this.count,
      isDrivenAlone: (name) => this.#active.get(name)?.isAlone === true,
    });
    this.left = new LeftTurns(context);
    this.claims = new SessionClaims(context, (scopes) => this.#waiting.serve(scopes));
    this.#waiting = new WaitingTurns(context, {
      mayDrive: () => this.#mayDriveWaiting(drives),
      tryPickUp: (key) => this.tryPickUp(key),
    });
  }

  /** May this process drive a turn that has waited for a limit? With a worker, within the worker's concurrency. */
  #mayDriveWaiting(drives: boolean): boolean {
    if (this.closing || this.places.isFull || this.places.isIsolating) return false;
    const limits = Array.from(this.#workers, ({ concurrency }) => concurrency);
    return limits.length === 0 ? drives : this.count < Math.max(...limits);
  }

  /** Records a worker of this process. Returns the function that ends it. */
  addWorker(concurrency: number): () => void {
    const worker = { concurrency };
    this.#workers.add(worker);
    return () => void this.#workers.delete(worker);
  }

  /** How many turns the workers of this process drive at once; `null`: it runs none, or it is closing. */
  get workerPlaces(): number | null {
    if (this.closing || this.#workers.size === 0) return null;
    const wanted = Math.max(...Array.from(this.#workers, ({ concurrency }) => concurrency));
    return Math.min(wanted, this.#context.maxActiveTurns());
  }

  /** Starts turns that wait for a slot of these scopes, in the background. */
  serveWaiting(scopes: readonly string[]): void {
    this.#waiting.serve(scopes);
  }

  /**
   * Starts turns of a page of scopes whose limits allow it. Returns where the next page begins; `null` after the last
   * one.
   */
  async serveAllWaiting(after: string | null, options: ServeOptions = {}): Promise<string | null> {
    return this.#waiting.serveAll(after, options);
  }

  /** The number of sessions driven here. */
  get count(): number {
    return this.#active.size;
  }

  /** Whether `close` was called. */
  get closing(): boolean {
    return this.places.isClosed;
  }

  /** Returns whether this process drives the session: its current turn and the turns that follow. */
  has(key: SessionKey): boolean {
    return this.#active.has(nameOf(key));
  }

  /** Resolves when this process no longer drives the session. */
  async done(key: SessionKey): Promise<void> {
    await this.#active.get(nameOf(key))?.done;
  }

  /**
   * Hands a session over: at once if `now`, otherwise after the next commit of its turn. Does nothing if this process
   * does not drive it.
   */
  handOver(key: SessionKey, now: boolean): void {
    const active = this.#active.get(nameOf(key));
    if (active === undefined) return;
    active.handsOver = true;
    active.driver?.handOver(now);
  }

  /** Resolves when this process no longer drives the turn. */
  async over(key: SessionKey, turn: string): Promise<void> {
    const active = this.#active.get(nameOf(key));
    if (active?.turn === turn) await active.over;
  }

  /**
   * Why this process left the turn; `null`: it did not, or another process has held the session since (`epoch` of the
   * lease row is higher).
   */
  reasonLeft(key: SessionKey, turn: string, epoch: number): unknown {
    const left = this.left.reason(key, turn, epoch);
    if (left !== null) return left;
    // After `close`, a turn that waits for a free place is not driven here any more.
    const queued = this.closing ? this.places.requested(key) : null;
    return queued?.turn === turn && queued.epoch >= epoch ? new HandedOver() : null;
  }

  /** Cancels the turn at once if this process drives it. The caller has stored the cancel before. */
  cancel(key: SessionKey, turn: string, origin: string, reason: string): void {
    const active = this.#active.get(nameOf(key));
    if (active?.turn === turn) active.driver?.cancel(origin, reason);
  }

  /** Drives the open turn of a session that no process holds. Returns whether it did. */
  async pickUp(key: SessionKey, options: PickUpOptions = {}): Promise<boolean> {
    return (await this.tryPickUp(key, options)) === "driven";
  }

  /**
   * Drives a stored open turn if no process holds its session. Never rejects: the turn is accepted whether or not this
   * process can drive it, and a worker finds it by its row in `work`. An error is recorded as the reason for leaving
   * the turn, so that the result of a handle in this process rejects with it. If the process is closing, the turn is
   * left to other processes.
   */
  async driveStored({ key, turn, epoch }: StoredTurn, options: PickUpOptions = {}): Promise<boolean> {
    try {
      const isDriven = await this.pickUp(key, options);
      if (!isDriven && this.closing) this.left.add(key, turn, epoch, new HandedOver());
      return isDriven;
    } catch (error) {
      this.left.add(key, turn, epoch, this.closing ? new HandedOver() : error);
      return false;
    }
  }

  /**
   * Drives the open turn of a session that no process holds. Returns `driven`; `moved`: not now, and its row in `work`
   * has the time; or `left`: another process holds the session, or this process lacks the engine or a free place.
   */
  async tryPickUp(
    key: SessionKey,
    { force = false, hasPlace = false }: PickUpOptions = {},
  ): Promise<"driven" | "moved" | "left"> {
    if (this.closing) return "left";
    const { storage, engines } = this.#context;
    const [opened = [], leases = []] = await storage.read([
      { table: "open", prefix: keyOf(key) },
      { table: "leases", prefix: keyOf(key) },
    ]);
    const [openRow] = opened;
    if (openRow === undefined) return "left";
    const open = readValue("open", openRow);
    // A process without the engine leaves the turn to one that has it.
    if (!Object.hasOwn(engines, open.engine) || this.#drives(key, open.turn)) return "left";
    const name = nameOf(key);
    const stored = { key, turn: open.turn, epoch: epochOf(leases[0]?.tag ?? 0) };
    const releasePlace = hasPlace ? () => undefined : this.places.reserve(key.tenant, name);
    if (releasePlace === null) {
      this.places.request(stored);
      return "left";
    }
    const endClaim = this.places.beginClaim(name);
    try {
      const placeOf = () => this.places.ofSuspect(name, stored);
      return await this.#pickUpOpen(key, open, leases[0] ?? null, force, placeOf);
    } finally {
      endClaim();
      releasePlace();
    }
  }

  async #pickUpOpen(
    key: SessionKey,
    open: OpenTurn,
    leaseRow: Row | null,
    force: boolean,
    placeOf: () => SuspectPlace,
  ): Promise<"driven" | "moved" | "left"> {
    const claimed = await this.claims.takeOver(key, open, leaseRow, force, placeOf);
    if (claimed === "moved" || claimed === "left") return claimed;
    if (this.closing || this.#drives(key, open.turn)) {
      await this.claims.release(key, claimed.lease);
      return "left";
    }
    if (claimed.isLimit) {
      await this.claims.parkAtLimit(key, open.turn, claimed.lease);
      return "moved";
    }
    this.#start(key, { id: open.turn, accepted: null, lease: claimed.lease });
    return "driven";
  }

  /** Drives a turn that this process has accepted under the lease, and the turns that follow it, in the background. */
  drive(key: SessionKey, turn: DrivenTurn, lease: Lease): void {
    if (this.places.isAnotherAlone(nameOf(key))) {
      // The turn follows one that a verb has ended without a place. It waits for the suspect, unless another process
      // drives it.
      this.places.request({ key, turn: turn.id, epoch: epochOf(lease.token) });
      void this.claims.release(key, lease);
      return;
    }
    this.#start(key, { id: turn.id, accepted: turn, lease });
  }

  /**
   * Hands every turn over: at its next commit, or after `graceMs` during an effect. Resolves when all leases are
   * released, including those of turns whose acceptance was being written when it was called; at the latest
   * `releaseLimitMs` after `graceMs`, if the storage is busy or does not answer. A lease that could not be released
   * expires.
   */
  async close(graceMs: number): Promise<void> {
    this.places.close();
    this.#waiting.stop();
    // Turns that wait for a free place are left; `reasonLeft` reports them.
    this.left.report();
    for (const { driver } of this.#active.values()) driver?.handOver(false);
    const idle = this.places.idle();
    if (await this.#isWithin(idle, graceMs)) return;
    for (const { driver } of this.#active.values()) driver?.handOver(true);
    await this.#isWithin(idle, releaseLimitMs);
  }

  /** Returns whether the work is done within the time. */
  async #isWithin(work: Promise<void>, ms: number): Promise<boolean> {
    const timer = new AbortController();
    const isLate = this.#context.clock.sleep(ms, timer.signal).then(
      () => false,
      () => false,
    );
    const isDone = await Promise.race([work.then(() => true), isLate]);
    timer.abort();
    return isDone;
  }

  /** Drives a session in the background: the turn, and the turns that follow it. */
  #start(key: SessionKey, target: Target): void {
    const name = nameOf(key);
    const active: ActiveSession = {
      driver: null,
      turn: target.id,
      over: Promise.resolve(null),
      done: Promise.resolve(),
      isLeft: false,
      handsOver: false,
      isAlone: target.lease.alone,
    };
    // Replaces an earlier entry of the session whose turn has ended and whose clean-up is not complete.
    this.#active.set(name, active);
    this.places.take(key.tenant);
    active.over = this.#driveOne(active, key, target);
    active.done = this.#driveFollowing(active, key).finally(() => {
      if (this.#active.get(name) === active) this.#active.delete(name);
      this.places.endAlone(name);
      this.places.giveBack(key.tenant, !active.isLeft);
    });
  }

  /** Drives the turns that follow, one after the other. */
  async #driveFollowing(active: ActiveSession, key: SessionKey): Promise<void> {
    for (;;) {
      const following = await active.over;
      if (following === null) return;
      const target = await this.#claimed(key, following, active);
      if (target === null) return;
      active.driver = null;
      active.turn = target.id;
      active.over = this.#driveOne(active, key, target);
    }
  }

  /**
   * The following turn, if this process kept the lease for it. Otherwise the session is claimed like that of any stored
   * turn, and the result is `null`.
   */
  async #claimed(key: SessionKey, following: Following, { handsOver }: ActiveSession): Promise<Target | null> {
    const isLeaving = this.closing || handsOver;
    if (following.lease === null) {
      // The takeover of another process's turn is counted, and limits have to admit the turn: `tryPickUp` starts it in
      // place of this entry.
      if (isLeaving) return null;
      const row = await readOne(this.#context.storage, { table: "leases", prefix: keyOf(key) }).catch(() => null);
      await this.driveStored({ key, turn: following.id, epoch: epochOf(row?.tag ?? 0) });
      return null;
    }
    if (!isLeaving) return following;
    await this.claims.release(key, following.lease);
    return null;
  }

  /**
   * Drives one turn, and returns the turn that follows; `null`: none. Never rejects: errors are recorded as the reason
   * for leaving.
   */
  async #driveOne(
    active: ActiveSession,
    key: SessionKey,
    { id, accepted, lease: claimed }: Target,
  ): Promise<Following | null> {
    try {
      const loaded = accepted === null ? await this.#load(key, id, claimed) : { turn: accepted, lease: claimed };
      const { turn, lease } = loaded;
      if (turn === null) {
        await this.claims.release(key, lease);
        // A verb that accepted another turn meanwhile saw the session held, and left that turn to this process.
        const open = await openTurn(this.#context.storage, key);
        return open === null || open.turn === id ? null : { id: open.turn, lease: null };
      }
      const driver = new TurnDriver(this.#context, turn, lease);
      active.driver = driver;
      if (this.closing || active.handsOver) driver.handOver(true);
      await this.#runDriver(key, driver, lease, turn.stored.turn?.progress.takeovers ?? 0);
      const { next, servedScopes } = driver;
      this.#waiting.serve(servedScopes);
      return next === null ? null : { id: next.turn.id, accepted: next.turn, lease: next.lease };
    } catch (error) {
      active.isLeft = true;
      // During `close` a storage that is away is not waited for; the turn counts as handed over.
      const reason = this.closing && isTransient(error) ? new HandedOver() : error;
      this.left.add(key, id, epochOf((active.driver?.lease ?? claimed).token), reason);
      return null;
    }
  }

  async #runDriver(key: SessionKey, driver: TurnDriver, { alone }: Lease, takeovers: number): Promise<void> {
    const over = new AbortController();
    if (alone) {
      const name = nameOf(key);
      driver.onProgress(() => this.places.endAlone(name));
      const ms = aloneMs(takeovers, this.#context.lease.ttlMs);
      void this.places.limitAlone(name, ms, () => driver.endAlone(), over.signal);
    }
    try {
      await driver.drive();
    } finally {
      over.abort();
    }
  }

  /**
   * Loads a turn, and extends its lease meanwhile: a turn that takes long to be loaded must not use up its takeovers.
   * Releases the lease if that fails: a process of a newer release may be able to read the turn.
   */
  async #load(
    key: SessionKey,
    id: string,
    claimed: Lease,
  ): Promise<{ readonly turn: DrivenTurn | null; readonly lease: Lease }> {
    const holder = new LeaseHolder(this.#context, key, claimed);
    const loaded = new AbortController();
    // A lost lease is noticed before the first effect.
    const renewing = holder.keep(loaded.signal, () => undefined);
    try {
      const turn = await loadTurn(this.#context.storage, key, id);
      loaded.abort();
      await renewing;
      return { turn, lease: holder.lease };
    } catch (error) {
      loaded.abort();
      await renewing;
      await this.claims.release(key, holder.lease);
      throw error;
    }
  }

  /** Returns whether this process drives a turn of the session. */
  drivesSession(key: SessionKey): boolean {
    return this.#active.has(nameOf(key));
  }

  #drives(key: SessionKey, turn: string): boolean {
    return this.#active.get(nameOf(key))?.turn === turn;
  }
}
