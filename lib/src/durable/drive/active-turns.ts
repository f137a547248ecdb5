// The turns that this process drives: claims sessions, drives the open turn of each and the turns that follow it, and
// hands all of them over when the process shuts down.
//
// Theory of operation
//   A turn gets here in two ways. `drive`: a verb of this process has accepted it and claimed the lease in the same
//   batch. `tryPickUp`: a worker, `recover` or a verb found an open turn that no process holds; the session is claimed
//   (`session-claims.ts`). `#start` runs one session in the background: a `TurnDriver` for the open turn, then one for
//   each turn that follows, under one lease each. Places are units of a `FairShare` by tenant (`maxActiveTurns`): a
//   turn that finds no free place requests one, once for its session, and is tried when it gets it. The request only
//   saves time: the turn is stored, and due for every worker. While writes are slow there are fewer places
//   (`growing-lease.ts`), so that the process can commit and renew the turns that it has. Requests are granted again
//   every renewal interval, because writes become faster without the end of a turn. A turn that may end its process, a
//   suspect, is driven alone (`takeovers.ts`): it waits here until this process drives nothing else, and no other turn
//   starts until it has made progress, for a limited time.
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
//   2. The number of active sessions and of claims in progress never exceeds `maxActiveTurns`, as of the last claim.
//   3. `close` resolves within `graceMs` + `releaseLimitMs`. After `close` no session is claimed.
//   4. While the lease row of a session says that its process drives no other turn (`alone`), no other session is
//      claimed or started here, unless the answer to the claim was lost: then no process drives that session until its
//      lease expires. A turn that is being parked is not driven.
//   5. A turn that this process cannot drive has a row in `work`, or waits for a limit (`waiting-turns.ts`).

import type { Lease } from "../rows/lease.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { Row } from "../rows/storage.ts";
import type { OpenTurn } from "../rows/values.ts";
import type { RuntimeContext } from "./context.ts";
import type { DrivenTurn } from "./driven-turn.ts";
import type { SuspectPlace } from "./session-claims.ts";
import type { ServeOptions } from "./waiting-turns.ts";

import { FairShare } from "../../core/fair/fair-share.ts";
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

/**
 * An open turn that this process does not drive yet. `epoch` is the lease epoch of its session when the turn was last
 * read; 0 without a lease row.
 */
type StoredTurn = { readonly key: SessionKey; readonly turn: string; readonly epoch: number };

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
  /** Called when a place becomes free. */
  readonly #freeListeners = new Set<() => void>();
  /** One for each active session and for each claim in progress. A suspect that is driven alone closes the others. */
  readonly #places: FairShare;
  /** Turns that have requested a place, by session. */
  readonly #queue = new Map<string, StoredTurn>();
  /** Suspects that wait until this process drives nothing else, by session, oldest first. */
  readonly #suspects = new Map<string, StoredTurn>();
  /** The wait until places are granted again; `null`: no turn waits for one. */
  #queueTimer: AbortController | null = null;
  /** The wait of the oldest suspect; `null`: no suspect waits for other turns to end. */
  #suspectTimer: AbortController | null = null;
  /** The suspect that has waited for one lease time and is driven beside other turns, by session. */
  #besideOthers: string | null = null;
  /** The suspect that is driven alone, or is being claimed for it, by session. */
  #alone: string | null = null;
  /** How many claims of stored turns are in progress, by session: a worker and a verb may find the same turn. */
  readonly #claiming = new Map<string, number>();
  #closing = false;
  /** Called once when this process drives no session and claims none. */
  readonly #idleListeners = new Set<() => void>();

  /** Turns that wait for a limit. */
  readonly #waiting: WaitingTurns;
  /** How many turns each worker of this process drives at most. */
  readonly #workers = new Set<{ readonly concurrency: number }>();

  /** `drives`: this process also drives turns without a worker. */
  constructor(context: RuntimeContext, drives: boolean) {
    this.#context = context;
    const total = () => (this.#closing || this.#alone !== null ? 0 : context.maxActiveTurns());
    this.#places = new FairShare({
      get total() {
        return total();
      },
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
    if (this.#closing || this.isFull || this.isIsolating) return false;
    const limits = Array.from(this.#workers, ({ concurrency }) => concurrency);
    return limits.length === 0 ? drives : this.count < Math.max(...limits);
  }

  /** Records a worker of this process. Returns the function that ends it. */
  addWorker(concurrency: number): () => void {
    const worker = { concurrency };
    this.#workers.add(worker);
    return () => void this.#workers.delete(worker);
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
    return this.#closing;
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
    const queued = this.#closing ? this.#queue.get(nameOf(key)) : undefined;
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
      if (!isDriven && this.#closing) this.left.add(key, turn, epoch, new HandedOver());
      return isDriven;
    } catch (error) {
      this.left.add(key, turn, epoch, this.#closing ? new HandedOver() : error);
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
    if (this.#closing) return "left";
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
    const releasePlace = hasPlace ? () => undefined : this.reserve(key.tenant, name);
    if (releasePlace === null) {
      this.#requestPlace(stored);
      return "left";
    }
    this.#claiming.set(name, (this.#claiming.get(name) ?? 0) + 1);
    try {
      const placeOf = () => this.#placeOfSuspect(name, stored);
      return await this.#pickUpOpen(key, open, leases[0] ?? null, force, placeOf);
    } finally {
      const others = (this.#claiming.get(name) ?? 1) - 1;
      if (others === 0) this.#claiming.delete(name);
      else this.#claiming.set(name, others);
      this.#endAloneUnlessDriven(name);
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
    if (this.#closing || this.#drives(key, open.turn)) {
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

  /** Returns whether all places are taken. */
  get isFull(): boolean {
    return this.#places.held >= this.#context.maxActiveTurns();
  }

  /** Returns whether a suspect is driven alone here or waits for it. Workers take no other turns meanwhile. */
  get isIsolating(): boolean {
    return this.#alone !== null || (this.#suspects.size > 0 && !this.#isIdle);
  }

  /** Returns whether this process drives no session and claims none. */
  get #isIdle(): boolean {
    return this.#places.held === 0;
  }

  /**
   * Reserves a place while a turn is being claimed. Returns the function that releases the place; `null`: all places
   * are taken, or a suspect is driven alone. `session`: the name of the session, if a suspect may be claimed.
   */
  reserve(tenant: string, session: string | null = null): (() => void) | null {
    if (session !== null && session === this.#alone) this.#places.take(tenant);
    else if (!this.#places.tryTake(tenant)) return null;
    let isReserved = true;
    return () => {
      if (!isReserved) return;
      isReserved = false;
      this.#giveBack(tenant, this.#queue.size > 0);
    };
  }

  /** Gives a place back: first to turns that have requested one, then to workers (`forWorkers`) and suspects. */
  #giveBack(tenant: string, forWorkers: boolean): void {
    this.#places.giveBack(tenant);
    if (forWorkers) this.#reportFree();
    this.#driveSuspect();
    if (!this.#isIdle) return;
    for (const listener of this.#idleListeners) listener();
    this.#idleListeners.clear();
  }

  #reportFree(): void {
    for (const listener of this.#freeListeners) listener();
  }

  /** Drives a stored turn when it gets a place. */
  #requestPlace(stored: StoredTurn): void {
    const name = nameOf(stored.key);
    const isQueued = this.#queue.has(name);
    this.#queue.set(name, stored);
    this.#startQueueTimer();
    if (isQueued) return;
    void this.#driveWithPlace(stored);
  }

  /** Waits for a place, and drives the newest form of the stored turn. */
  async #driveWithPlace(stored: StoredTurn): Promise<void> {
    const name = nameOf(stored.key);
    const { tenant } = stored.key;
    await this.#places.request(tenant).granted;
    const newest = this.#queue.get(name) ?? stored;
    this.#queue.delete(name);
    await this.driveStored(newest, { hasPlace: true });
    this.#giveBack(tenant, this.#queue.size > 0);
  }

  // Suspects (`takeovers.ts`).

  /**
   * Whether a suspect for which a place is reserved may be driven now. If not, it is driven when this process drives
   * nothing else.
   */
  #placeOfSuspect(name: string, stored: StoredTurn): SuspectPlace {
    if (this.#alone === name) return "alone";
    if (this.#besideOthers === name) return "beside";
    if (this.#active.size === 0 && this.#places.held === 1) {
      this.#suspects.delete(name);
      this.#alone = name;
      return "alone";
    }
    this.#suspects.set(name, stored);
    return "later";
  }

  /** Drives the oldest suspect if this process drives nothing else; otherwise within one lease time. */
  #driveSuspect(): void {
    const [oldest] = this.#suspects;
    if (oldest === undefined || this.#closing || this.#alone !== null) return this.#stopSuspectTimer();
    if (!this.#isIdle) return this.#startSuspectTimer();
    this.#stopSuspectTimer();
    const [name, stored] = oldest;
    this.#suspects.delete(name);
    this.#alone = name;
    void this.driveStored(stored).then(() => this.#endAloneUnlessDriven(name));
  }

  /** After one lease time, drives the oldest suspect beside the other turns. */
  #startSuspectTimer(): void {
    if (this.#suspectTimer !== null) return;
    const timer = new AbortController();
    this.#suspectTimer = timer;
    const { clock, lease } = this.#context;
    void clock.sleep(lease.ttlMs, timer.signal).then(
      () => this.#driveBeside(timer),
      () => undefined,
    );
  }

  async #driveBeside(timer: AbortController): Promise<void> {
    const [oldest] = this.#suspects;
    if (oldest !== undefined) {
      const [name, stored] = oldest;
      this.#suspects.delete(name);
      this.#besideOthers = name;
      await this.driveStored(stored);
      this.#besideOthers = null;
    }
    if (this.#suspectTimer === timer) this.#suspectTimer = null;
    this.#driveSuspect();
  }

  #stopSuspectTimer(): void {
    this.#suspectTimer?.abort();
    this.#suspectTimer = null;
  }

  /** Lets other turns start again. Does nothing if the session is not driven alone. */
  #endAlone(name: string): void {
    if (this.#alone !== name) return;
    this.#alone = null;
    // Turns of verbs first: they have waited for the suspect.
    this.#places.grantFree();
    this.#reportFree();
    this.#driveSuspect();
  }

  /**
   * Lets other turns start again after a claim of a suspect, unless this claim or another one has succeeded or is in
   * progress.
   */
  #endAloneUnlessDriven(name: string): void {
    if (!this.#claiming.has(name) && this.#active.get(name)?.isAlone !== true) this.#endAlone(name);
  }

  /** Lets other turns start beside a suspect after a time, once its lease row says so. */
  async #limitAlone(name: string, driver: TurnDriver, ms: number, signal: AbortSignal): Promise<void> {
    const { clock, lease } = this.#context;
    for (let waitMs = ms; !signal.aborted && this.#alone === name; waitMs = lease.renewMs) {
      try {
        await clock.sleep(waitMs, signal);
        await driver.endAlone();
        this.#endAlone(name);
      } catch {
        // The drive is over, or the row could not be written: the next attempt follows.
      }
    }
  }

  /**
   * Calls back when a place becomes free because a turn has ended. Not when this process failed at a turn: workers
   * would try that turn again without a pause.
   */
  onFree(listener: () => void): () => void {
    this.#freeListeners.add(listener);
    return () => this.#freeListeners.delete(listener);
  }

  /** Drives a turn that this process has accepted under the lease, and the turns that follow it, in the background. */
  drive(key: SessionKey, turn: DrivenTurn, lease: Lease): void {
    const name = nameOf(key);
    if (this.#alone !== null && this.#alone !== name) {
      // The turn follows one that a verb has ended without a place. It waits for the suspect, unless another process
      // drives it.
      this.#requestPlace({ key, turn: turn.id, epoch: epochOf(lease.token) });
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
    this.#closing = true;
    this.#waiting.stop();
    this.#stopSuspectTimer();
    this.#queueTimer?.abort();
    // Turns that wait for a free place are left; `reasonLeft` reports them.
    this.left.report();
    for (const { driver } of this.#active.values()) driver?.handOver(false);
    const idle = this.#idle();
    if (await this.#isWithin(idle, graceMs)) return;
    for (const { driver } of this.#active.values()) driver?.handOver(true);
    await this.#isWithin(idle, releaseLimitMs);
  }

  /** Resolves when this process drives no session and is claiming none. */
  async #idle(): Promise<void> {
    if (this.#isIdle) return;
    await new Promise<void>((resolve) => {
      this.#idleListeners.add(resolve);
    });
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

  /** Grants places again after one renewal interval: they also become free because writes are faster again. */
  #startQueueTimer(): void {
    if (this.#queueTimer !== null || this.#closing) return;
    const timer = new AbortController();
    this.#queueTimer = timer;
    const { clock, lease } = this.#context;
    const grantAgain = (): void => {
      this.#queueTimer = null;
      this.#places.grantFree();
      if (this.#queue.size > 0) this.#startQueueTimer();
    };
    void clock.sleep(lease.renewMs, timer.signal).then(grantAgain, () => undefined);
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
    this.#places.take(key.tenant);
    active.over = this.#driveOne(active, key, target);
    active.done = this.#driveFollowing(active, key).finally(() => {
      if (this.#active.get(name) === active) this.#active.delete(name);
      this.#endAlone(name);
      this.#giveBack(key.tenant, !active.isLeft);
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
    const isLeaving = this.#closing || handsOver;
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
      if (this.#closing || active.handsOver) driver.handOver(true);
      await this.#runDriver(key, driver, lease, turn.stored.turn?.progress.takeovers ?? 0);
      const { next, servedScopes } = driver;
      this.#waiting.serve(servedScopes);
      return next === null ? null : { id: next.turn.id, accepted: next.turn, lease: next.lease };
    } catch (error) {
      active.isLeft = true;
      // During `close` a storage that is away is not waited for; the turn counts as handed over.
      const reason = this.#closing && isTransient(error) ? new HandedOver() : error;
      this.left.add(key, id, epochOf((active.driver?.lease ?? claimed).token), reason);
      return null;
    }
  }

  async #runDriver(key: SessionKey, driver: TurnDriver, { alone }: Lease, takeovers: number): Promise<void> {
    const over = new AbortController();
    if (alone) {
      const name = nameOf(key);
      driver.onProgress(() => this.#endAlone(name));
      void this.#limitAlone(name, driver, aloneMs(takeovers, this.#context.lease.ttlMs), over.signal);
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
