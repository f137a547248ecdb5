// The turns that this process drives: claims sessions, drives the open turn of each and the turns that follow it, and hands all of them over when
// the process shuts down.
//
// Theory of operation
//   A turn gets here in two ways. `drive`: a verb of this process has accepted it and claimed the lease in the same batch. `tryPickUp`: a worker,
//   `recover` or a verb found an open turn that no process holds; the session is claimed with a compare-and-swap on its lease row.
//   `#start` runs one session in the background: a `TurnDriver` for the open turn, then one for each turn that follows, under one lease each.
//   Places are counted (`maxActiveTurns`, a counting semaphore): a turn that finds no free place is queued by session, and the oldest is tried when a
//   place becomes free. The queue only saves time: the turn is stored, and due for every worker.
//
// Takeovers (Q17)
//   A claim after an expired lease is a takeover: the process before it crashed or was blocked. The count is on the turn row and is reset by every
//   new journal row. From the second takeover on, the turn waits with exponential backoff (`backoffMs`). At `maxTakeovers` it is parked. `force`
//   (recover with an id, cancel) resets the count and does not wait.
//
// When a turn stops
//   it ended                      the entry continues with the turn that follows, or is removed, and its place goes to the queue
//   another process holds it      the entry is removed; handles in this process continue to wait for the result
//   an error, or `close`          the lease is released. The reason is kept (`reasonLeft`), so that the result of a handle in this process rejects
//                                 with it, unless another process has held the session since
//   the process crashes           the lease expires; a worker finds the turn by its row in `due`
//
// Invariants
//   1. A session has at most one entry here, because a lease belongs to a session.
//   2. The number of active sessions and of claims in progress never exceeds `maxActiveTurns`.
//   3. `close` resolves within `graceMs` + `releaseLimitMs`. After `close` no session is claimed.
//   4. A turn that this process cannot drive has a row in `due`, or waits for a limit (`waiting-turns.ts`).
//   5. A session is claimed for a turn only if the limits admit the turn (`admission.ts`), except to end it.

import type { RuntimeContext } from "../context.ts";
import type { Changes } from "../rows/batch.ts";
import type { Claim, Lease, Observation } from "../rows/lease.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { Query, Row } from "../rows/storage.ts";
import type { OpenTurn } from "../rows/values.ts";
import type { Decision } from "./admission.ts";
import type { DrivenTurn } from "./driven-turn.ts";
import type { ServeOptions } from "./waiting-turns.ts";

import { monotonicNow } from "../../clock/clock.ts";
import { isEverturnError, RuntimeError } from "../../model/internal.ts";
import { readOne } from "../context.ts";
import { merge, noChanges } from "../rows/batch.ts";
import { claim, instantOf, releasePut } from "../rows/lease.ts";
import { leaveLine } from "../rows/limits.ts";
import { keyOf, nameOf, turnKey } from "../rows/session-key.ts";
import { moveDue, removeDue } from "../rows/session-write.ts";
import { readValue, writeValue } from "../rows/stored.ts";
import { admissionOf } from "./admission.ts";
import { loadTurn } from "./driven-turn.ts";
import { releaseLease } from "./lease-holder.ts";
import { HandedOver, TurnCommitter } from "./turn-committer.ts";
import { TurnDriver } from "./turn-driver.ts";
import { WaitingTurns } from "./waiting-turns.ts";

/** A turn to drive. `accepted`: this process has just accepted it and has its rows; `null`: it is loaded from the storage. */
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
};

/** Why and when this process left a turn before its end, and under which lease epoch. */
type LeftTurn = { readonly turn: string; readonly error: unknown; readonly at: number; readonly epoch: number };

/** An open turn that this process does not drive yet. `epoch` is the lease epoch of its session when the turn was last read; 0 without a lease row. */
type StoredTurn = { readonly key: SessionKey; readonly turn: string; readonly epoch: number };

/** How long `close` waits after the grace time, in milliseconds, for the writes that record results and release leases. */
const releaseLimitMs = 5000;

/** How many reasons are kept; the oldest is dropped. */
const maxLeftTurns = 1000;

/** The active turns of one runtime. */
export class ActiveTurns {
  readonly #context: RuntimeContext;
  readonly #active = new Map<string, ActiveSession>();
  /** The newest reasons for leaving turns, by session. */
  readonly #left = new Map<string, LeftTurn>();
  /** Lease rows that expire too far ahead, by session (`rows/lease.ts`, invariant 6). */
  readonly #observations = new Map<string, Observation>();
  /** Called when this process leaves a turn. */
  readonly #listeners = new Set<() => void>();
  /** Called when a place becomes free. */
  readonly #freeListeners = new Set<() => void>();
  /** Turns that wait for a free place, by session, oldest first. */
  readonly #queue = new Map<string, StoredTurn>();
  /** The number of places that are reserved for claims in progress. */
  #reserved = 0;
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
    this.#waiting = new WaitingTurns(context, {
      mayDrive: () => this.#mayDriveWaiting(drives),
      tryPickUp: (key) => this.tryPickUp(key),
    });
  }

  /** May this process drive a turn that has waited for a limit? With a worker, within the worker's concurrency. */
  #mayDriveWaiting(drives: boolean): boolean {
    if (this.#closing || this.isFull) return false;
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

  /** Starts turns of a page of scopes whose limits allow it. Returns where the next page begins; `null` after the last one. */
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

  /** Hands a session over: at once if `now`, otherwise after the next commit of its turn. Does nothing if this process does not drive it. */
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

  /** Calls back when this process leaves any turn before its end. Returns the function that ends it. */
  onLeft(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Why this process left the turn; `null`: it did not, or another process has held the session since (`epoch` of the lease row is higher). */
  reasonLeft(key: SessionKey, turn: string, epoch: number): unknown {
    const left = this.#left.get(nameOf(key));
    if (left?.turn === turn && left.epoch >= epoch) return left.error;
    // After `close`, a turn that waits for a free place is not driven here any more.
    const queued = this.#closing ? this.#queue.get(nameOf(key)) : undefined;
    return queued?.turn === turn && queued.epoch >= epoch ? new HandedOver() : null;
  }

  /** Returns whether a worker should skip the turn: for one renewal interval after this process failed at it, and always if a newer release wrote it. */
  hasJustFailed(key: SessionKey, turn: string): boolean {
    const left = this.#left.get(nameOf(key));
    if (left?.turn !== turn || isHeldElsewhere(left.error) || isHandedOver(left.error)) return false;
    if (isEverturnError(left.error) && left.error.reason === "newer_schema") return true;
    return this.#context.clock.now() < left.at + this.#context.lease.renewMs;
  }

  /** Cancels the turn at once if this process drives it. The caller has stored the cancel before. */
  cancel(key: SessionKey, turn: string, origin: string, reason: string): void {
    const active = this.#active.get(nameOf(key));
    if (active?.turn === turn) active.driver?.cancel(origin, reason);
  }

  /** Claims the lease of a session. `null`: another process holds it. */
  async claim(key: SessionKey): Promise<Lease | null> {
    const row = await readOne(this.#context.storage, leaseQuery(key));
    const claimed = this.#claimOf(key, row);
    if (claimed.type === "busy") return null;
    const { check, put, lease } = claimed;
    const written = await this.#context.storage.write({ checks: [check], removals: [], puts: [put] });
    return written.ok ? lease : null;
  }

  #claimOf(key: SessionKey, row: Row | null): Claim {
    const { clock, owner, storage, lease: timings } = this.#context;
    const observed = this.#observed(key, row);
    return claim(keyOf(key), row, owner(), instantOf(clock), timings, observed, storage.liveness ?? null);
  }

  /** Since when the lease row is unchanged, for a row that expires too far ahead (`rows/lease.ts`, invariant 6). */
  #observed(key: SessionKey, row: Row | null): Observation | null {
    const name = nameOf(key);
    if (row === null || row.remainingMs === null || row.remainingMs <= this.#context.lease.ttlMs) {
      this.#observations.delete(name);
      return null;
    }
    const earlier = this.#observations.get(name);
    if (earlier?.epoch === row.tag && earlier.expires === row.expires) return earlier;
    const since = monotonicNow(this.#context.clock);
    const observation = { epoch: row.tag, expires: row.expires, since };
    this.#observations.set(name, observation);
    return observation;
  }

  /** Releases a lease, and makes the open turn of the session due now. Does not reject (`releaseLease`). */
  async release(key: SessionKey, lease: Lease): Promise<void> {
    await releaseLease(this.#context, key, lease, async () => {
      const open = await this.#openTurn(key).catch(unlessUnreadable);
      return open === null ? noChanges : moveDue(key, open, this.#context.clock.now());
    });
  }

  /** Drives the open turn of a session that no process holds. Returns whether it did. */
  async pickUp(key: SessionKey, options: { readonly force?: boolean } = {}): Promise<boolean> {
    return (await this.tryPickUp(key, options)) === "driven";
  }

  /**
   * Drives a stored open turn if no process holds its session. Never rejects: the turn is accepted whether or not this process can drive it, and a
   * worker finds it by its row in `due`. An error is recorded as the reason for leaving the turn, so that the result of a handle in this process
   * rejects with it. If the process is closing, the turn is left to other processes.
   */
  async driveStored({ key, turn, epoch }: StoredTurn): Promise<boolean> {
    try {
      const isDriven = await this.pickUp(key);
      if (!isDriven && this.#closing) this.#leave(key, turn, epoch, new HandedOver());
      return isDriven;
    } catch (error) {
      this.#leave(key, turn, epoch, this.#closing ? new HandedOver() : error);
      return false;
    }
  }

  /**
   * Drives the open turn of a session that no process holds. Returns `driven`; `moved`: not now, and its row in `due` has the time; or `left`: another
   * process holds the session, or this process lacks the engine or a free place. `force`: on explicit request, resets the count of takeovers and
   * skips the backoff.
   */
  async tryPickUp(
    key: SessionKey,
    { force = false }: { readonly force?: boolean } = {},
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
    const releasePlace = this.reserve();
    if (releasePlace === null) {
      this.#queue.set(nameOf(key), { key, turn: open.turn, epoch: leases[0]?.tag ?? 0 });
      return "left";
    }
    try {
      return await this.#pickUpOpen(key, open, leases[0] ?? null, force);
    } finally {
      releasePlace();
    }
  }

  async #pickUpOpen(
    key: SessionKey,
    open: OpenTurn,
    leaseRow: Row | null,
    force: boolean,
  ): Promise<"driven" | "moved" | "left"> {
    const claimed = await this.#takeOver(key, open, leaseRow, force);
    if (claimed === "moved" || claimed === "left") return claimed;
    if (this.#closing || this.#drives(key, open.turn)) {
      await this.release(key, claimed.lease);
      return "left";
    }
    if (claimed.isLimit) {
      await this.#parkAtLimit(key, open.turn, claimed.lease);
      return "moved";
    }
    this.#start(key, { id: open.turn, accepted: null, lease: claimed.lease });
    return "driven";
  }

  /**
   * Claims the session of an open turn, takes the slots that its limits require, and counts a takeover, all in one batch (Q17). `isLimit`: the caller has to
   * park the turn. A turn that the limits do not admit is stored as waiting.
   */
  async #takeOver(
    key: SessionKey,
    open: OpenTurn,
    row: Row | null,
    force: boolean,
  ): Promise<{ readonly lease: Lease; readonly isLimit: boolean } | "moved" | "left"> {
    for (let attempt = 0; ; attempt += 1) {
      const outcome = await this.#tryTakeOver(key, open, row, force, attempt);
      if (outcome !== "slot_taken") return outcome;
    }
  }

  /** One attempt. `slot_taken`: another turn has taken the chosen slot of a limit meanwhile. */
  async #tryTakeOver(
    key: SessionKey,
    open: OpenTurn,
    row: Row | null,
    force: boolean,
    attempt: number,
  ): Promise<{ readonly lease: Lease; readonly isLimit: boolean } | "moved" | "left" | "slot_taken"> {
    const { storage, clock, lease: timings, maxTakeovers } = this.#context;
    const claimed = this.#claimOf(key, row);
    if (claimed.type === "busy") return "left";
    const { check, put, lease, freeMs } = claimed;
    const now = clock.now();
    const countsTakeover = claimed.takesOver || force;
    const { turnRow, decision } = await this.#admission(key, open, attempt, countsTakeover);
    const admitted = { ...open, limit: decision.limit };
    if (decision.limit?.type === "waiting") {
      // The next epoch, as for a claim: of several processes that examine the turn at once, one writes.
      const released = releasePut(keyOf(key), lease);
      await storage.write(
        merge({ checks: [check], removals: [], puts: [released] }, removeDue(key, admitted), decision.changes),
      );
      this.#waiting.serve([decision.limit.scope]);
      return "moved";
    }
    const claiming = merge(
      { checks: [check], removals: [], puts: [put] },
      moveDue(key, admitted, now + timings.ttlMs),
      decision.changes,
    );
    if (turnRow === null || !countsTakeover) {
      return (await this.#writeClaim(claiming, open)) ?? { lease, isLimit: false };
    }
    const progress = readValue("turns", turnRow);
    const before = force ? 0 : progress.takeovers;
    // Not from now: the turn is examined again and again while it waits.
    const waitMs = before === 0 ? 0 : backoffMs(before) - freeMs;
    if (waitMs > 0) {
      await storage.write(
        merge({ checks: [check], removals: [], puts: [] }, moveDue(key, open, now + Math.ceil(waitMs))),
      );
      return "moved";
    }
    const takeovers = force ? 0 : before + 1;
    const counted: Changes = {
      checks: [{ table: "turns", key: turnRow.key, tag: turnRow.tag }],
      removals: [],
      puts: [
        {
          table: "turns",
          key: turnRow.key,
          tag: turnRow.tag + 1,
          value: writeValue("turns", { ...progress, takeovers }),
        },
      ],
    };
    return (await this.#writeClaim(merge(claiming, counted), open)) ?? { lease, isLimit: takeovers >= maxTakeovers };
  }

  /** Reads the row of the turn if it is needed, and what the limits decide. A turn that is to be cancelled performs nothing and needs no slot. */
  async #admission(
    key: SessionKey,
    open: OpenTurn,
    attempt: number,
    needsRow: boolean,
  ): Promise<{ readonly turnRow: Row | null; readonly decision: Decision }> {
    const { storage } = this.#context;
    const at = turnKey(key, open.turn);
    const { queries, decide } = admissionOf(this.#context, { ...open, key });
    const cancelQuery = queries.length === 0 ? [] : [{ table: "cancels", prefix: at } as const];
    if (queries.length === 0 && !needsRow) {
      return { turnRow: null, decision: await decide([], { turn: open.turn, attempt }) };
    }
    const [turns = [], ...rest] = await storage.read([{ table: "turns", prefix: at }, ...cancelQuery, ...queries]);
    const isCancelled = queries.length > 0 && (rest[0] ?? []).length > 0;
    const decision = isCancelled
      ? { limit: null, changes: leaveLine(key, open.limit) }
      : await decide(rest.slice(cancelQuery.length), { turn: open.turn, attempt });
    return { turnRow: turns[0] ?? null, decision };
  }

  /** Writes a claim. Returns `null` if it was written. The turns that waited with this one may start too. */
  async #writeClaim(claiming: Changes, open: OpenTurn): Promise<"left" | "slot_taken" | null> {
    const written = await this.#context.storage.write(claiming);
    if (!written.ok) return claiming.checks[written.check]?.table === "slots" ? "slot_taken" : "left";
    if (open.limit?.type === "waiting") this.#waiting.serve([open.limit.scope]);
    return null;
  }

  /** Parks a turn at the takeover limit: something in it ends or blocks every process that drives it. */
  async #parkAtLimit(key: SessionKey, id: string, lease: Lease): Promise<void> {
    const turn = await loadTurn(this.#context.storage, key, id);
    if (turn === null) return this.release(key, lease);
    const committer = new TurnCommitter(this.#context, turn, lease);
    await committer.park(takeoverLimit(turn));
    this.#waiting.serve(committer.servedScopes);
  }

  /** Returns whether all places are taken. */
  get isFull(): boolean {
    return this.#active.size + this.#reserved >= this.#context.maxActiveTurns;
  }

  /** Reserves a place while a turn is being claimed. Returns the function that releases the place; `null`: all places are taken. */
  reserve(): (() => void) | null {
    if (this.isFull) return null;
    this.#reserved += 1;
    let isReserved = true;
    return () => {
      if (!isReserved) return;
      isReserved = false;
      this.#reserved -= 1;
      if (this.#queue.size > 0) this.#refill();
      this.#reportIdle();
    };
  }

  /**
   * Calls back when a place becomes free because a turn has ended. Not when this process failed at a turn: workers would try that turn again without a
   * pause.
   */
  onFree(listener: () => void): () => void {
    this.#freeListeners.add(listener);
    return () => this.#freeListeners.delete(listener);
  }

  /** Drives a turn that this process has accepted under the lease, and the turns that follow it, in the background. */
  drive(key: SessionKey, turn: DrivenTurn, lease: Lease): void {
    this.#start(key, { id: turn.id, accepted: turn, lease });
  }

  /**
   * Hands every turn over: at its next commit, or after `graceMs` during an effect. Resolves when all leases are released, including those of turns
   * whose acceptance was being written when it was called; at the latest `releaseLimitMs` after `graceMs`, if the storage is busy or does not answer.
   * A lease that could not be released expires.
   */
  async close(graceMs: number): Promise<void> {
    this.#closing = true;
    this.#waiting.stop();
    // Turns that wait for a free place are left; `reasonLeft` reports them.
    this.#reportLeft();
    for (const { driver } of this.#active.values()) driver?.handOver(false);
    const idle = this.#idle();
    if (await this.#isWithin(idle, graceMs)) return;
    for (const { driver } of this.#active.values()) driver?.handOver(true);
    await this.#isWithin(idle, releaseLimitMs);
  }

  /** Resolves when this process drives no session and is claiming none. */
  async #idle(): Promise<void> {
    if (this.#active.size + this.#reserved === 0) return;
    await new Promise<void>((resolve) => {
      this.#idleListeners.add(resolve);
    });
  }

  #reportIdle(): void {
    if (this.#active.size + this.#reserved > 0) return;
    for (const listener of this.#idleListeners) listener();
    this.#idleListeners.clear();
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

  /** Uses a free place: for the queue, then for workers. */
  #refill(): void {
    this.#driveQueued();
    for (const listener of this.#freeListeners) listener();
  }

  /** Drives the turn that was queued first. If it has ended, its session was deleted, or it fails, the next one is tried. */
  #driveQueued(): void {
    const [queued] = this.#queue;
    if (queued === undefined || this.isFull || this.#closing) return;
    const [name, stored] = queued;
    this.#queue.delete(name);
    void this.driveStored(stored).then((isDriven) => (isDriven ? undefined : this.#driveQueued()));
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
    };
    // Replaces an earlier entry of the session whose turn has ended and whose clean-up is not complete.
    this.#active.set(name, active);
    active.over = this.#driveOne(active, key, target);
    active.done = this.#driveFollowing(active, key).finally(() => {
      if (this.#active.get(name) === active) this.#active.delete(name);
      if (active.isLeft) this.#driveQueued();
      else this.#refill();
      this.#reportIdle();
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

  /** Claims the session for the following turn, if its lease was not kept. `null`: another process has it, or this process hands the session over. */
  async #claimed(key: SessionKey, following: Following, { handsOver }: ActiveSession): Promise<Target | null> {
    const isLeaving = this.#closing || handsOver;
    if (following.lease === null && this.#context.limits !== null) {
      // The limits have to admit the turn. If they do, `tryPickUp` starts it in place of this entry.
      const row = isLeaving ? null : await readOne(this.#context.storage, leaseQuery(key)).catch(() => null);
      if (!isLeaving) await this.driveStored({ key, turn: following.id, epoch: row?.tag ?? 0 });
      return null;
    }
    if (following.lease === null) {
      const lease = isLeaving ? null : await this.claim(key).catch(() => null);
      return lease === null ? null : { id: following.id, accepted: null, lease };
    }
    if (!isLeaving) return following;
    await this.release(key, following.lease);
    return null;
  }

  /** Drives one turn, and returns the turn that follows; `null`: none. Never rejects: errors are recorded as the reason for leaving. */
  async #driveOne(active: ActiveSession, key: SessionKey, { id, accepted, lease }: Target): Promise<Following | null> {
    try {
      const turn = accepted ?? (await this.#load(key, id, lease));
      if (turn === null) {
        await this.release(key, lease);
        // A verb that accepted another turn meanwhile saw the session held, and left that turn to this process.
        const open = await this.#openTurn(key);
        return open === null || open.turn === id ? null : { id: open.turn, lease: null };
      }
      const driver = new TurnDriver(this.#context, turn, lease);
      active.driver = driver;
      if (this.#closing || active.handsOver) driver.handOver(true);
      await driver.drive();
      const { next, servedScopes } = driver;
      this.#waiting.serve(servedScopes);
      return next === null ? null : { id: next.turn.id, accepted: next.turn, lease: next.lease };
    } catch (error) {
      active.isLeft = true;
      // During `close` a busy storage is not waited for; the turn counts as handed over.
      const reason = this.#closing && isBusy(error) ? new HandedOver() : error;
      this.#leave(key, id, (active.driver?.lease ?? lease).epoch, reason);
      return null;
    }
  }

  /** Loads a turn. Releases the lease if that fails: a process of a newer release may be able to read the turn. */
  async #load(key: SessionKey, id: string, lease: Lease): Promise<DrivenTurn | null> {
    try {
      return await loadTurn(this.#context.storage, key, id);
    } catch (error) {
      await this.release(key, lease);
      throw error;
    }
  }

  /** Records why the turn was left, for handles in this process. */
  #leave(key: SessionKey, turn: string, epoch: number, error: unknown): void {
    const name = nameOf(key);
    this.#left.delete(name);
    this.#left.set(name, { turn, error, at: this.#context.clock.now(), epoch });
    const [oldest] = this.#left.keys();
    if (this.#left.size > maxLeftTurns && oldest !== undefined) this.#left.delete(oldest);
    this.#reportLeft();
    if (isHeldElsewhere(error) || isHandedOver(error)) return;
    const failure = isEverturnError(error) ? error.failure : null;
    const { tenant, session: sessionId } = key;
    this.#context.reportFailure({ tenant, sessionId, turnId: turn, status: "left", failure, error });
  }

  #reportLeft(): void {
    for (const listener of this.#listeners) listener();
  }

  #drives(key: SessionKey, turn: string): boolean {
    return this.#active.get(nameOf(key))?.turn === turn;
  }

  async #openTurn(key: SessionKey): Promise<OpenTurn | null> {
    const row = await readOne(this.#context.storage, { table: "open", prefix: keyOf(key) });
    return row === null ? null : readValue("open", row);
  }
}

function leaseQuery(key: SessionKey): Query {
  return { table: "leases", prefix: keyOf(key) };
}

/** Returns whether an error means that another process drives the turn now: a handle then continues to wait for its end. */
export function isHeldElsewhere(error: unknown): boolean {
  return isEverturnError(error) && (error.reason === "lease_lost" || error.reason === "conflict");
}

/** The result for a row that this release cannot read. Other errors are the storage's, and pass. */
function unlessUnreadable(error: unknown): null {
  if (isEverturnError(error) && (error.reason === "corrupt_row" || error.reason === "newer_schema")) return null;
  throw error;
}

function isBusy(error: unknown): boolean {
  return isEverturnError(error) && error.reason === "storage_busy";
}

/** Exponential backoff before another takeover, in milliseconds since the lease became free (`Claim`): 500 ms, doubled each time, at most one minute. */
function backoffMs(takeovers: number): number {
  return Math.min(60_000, 500 * 2 ** (takeovers - 1));
}

/** The failure of a turn at the takeover limit. It names the effects that have records and no response: one of them was being performed. */
function takeoverLimit({ id, stored, rows, records }: DrivenTurn): RuntimeError {
  const answered = new Set(rows.flatMap(({ item }) => (item.type === "response" ? [item.response.id] : [])));
  const unanswered = [...records.keys()].flatMap((name): readonly string[] => {
    const [effectId = ""]: readonly string[] = JSON.parse(name);
    return answered.has(effectId) ? [] : [effectId];
  });
  const step = stored.turn?.progress.step ?? 0;
  const effects = [...new Set(unanswered)];
  const where = effects.length > 0 ? effects.join(", ") : `step ${step}`;
  return new RuntimeError("takeover_limit", {
    message: `the turn ${id} was taken over ${stored.turn?.progress.takeovers ?? 0} times without a new journal row: every process that drove it crashed or was blocked in ${where}; fix the cause, then call recover(id, { from: "step" }), or end the turn with recover(id)`,
    metadata: { step, effects },
  });
}

/** Returns whether an error means that this process shuts down and has handed the turn over. */
export function isHandedOver(error: unknown): boolean {
  return error instanceof HandedOver;
}
