// The turns that this process drives. Verbs, workers and `recover` hand turns over to it.
//
// Theory of operation
//   One entry (`ActiveSession`) for each session that this process holds, because a lease is held for a session. The entry drives the open turn and then the
//   turns that follow it, until none follows.
//   A turn gets here in two ways: `drive` for a turn that this process accepted under its own lease, and `pickUp` for a stored turn that no process holds.
//   `pickUp` claims the session under the next fencing epoch. A claim of an expired lease is a takeover, which is counted, delayed by exponential backoff,
//   and parks the turn at a limit (Q17).
//   At most `maxActiveTurns` sessions are driven at once. `reserve` takes a place before the claim; a turn without a place waits in a queue in this process, and
//   its row in `due` is visible to other processes meanwhile.
//
// When a turn stops
//   it ended                      the entry continues with the turn that follows, or is removed and its place goes to the queue
//   another process holds it      the entry is removed; those who wait for the result keep waiting
//   an error, or `close`          the lease is released, and the reason is kept (`reasonLeft`), so that `result` in this process rejects with it
//   the process dies              the lease expires; the row in `due` leads a worker to the turn
//
// Invariants
//   1. A session has at most one entry.
//   2. After `close` no session is claimed, and `close` waits for claims that were under way, within a bounded time.
//   3. A turn that this process cannot drive has a row in `due`.

import type { RuntimeContext } from "../context.ts";
import type { Changes } from "../rows/batch.ts";
import type { Claim, Lease, Observation } from "../rows/lease.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { Row } from "../rows/storage.ts";
import type { OpenTurn } from "../rows/values.ts";
import type { DrivenTurn } from "./driven-turn.ts";

import { monotonicNow } from "../../clock/clock.ts";
import { isEverturnError, RuntimeError } from "../../model/internal.ts";
import { readOne } from "../context.ts";
import { merge, noChanges } from "../rows/batch.ts";
import { claim, instantOf, releasePut } from "../rows/lease.ts";
import { keyOf, nameOf, turnKey } from "../rows/session-key.ts";
import { moveDue } from "../rows/session-write.ts";
import { readValue, writeValue } from "../rows/stored.ts";
import { loadTurn } from "./driven-turn.ts";
import { HandedOver, TurnCommitter } from "./turn-committer.ts";
import { TurnDriver } from "./turn-driver.ts";

/** A turn to drive: `known` if this process accepted it; `null` if it has to be loaded. */
type Target = { readonly id: string; readonly known: DrivenTurn | null; readonly lease: Lease };

/** The turn that follows one which has ended: with its lease, or to be claimed first. */
type Following = Target | { readonly id: string; readonly lease: null };

/** A session while this process drives it, turn after turn. */
type ActiveSession = {
  driver: TurnDriver | null;
  turn: string;
  /** Resolves when the current turn is over or was left, with the turn that follows. */
  over: Promise<Following | null>;
  /** Resolves when no further turn follows. */
  done: Promise<void>;
  /** This process failed at the last turn, or lost it. */
  isLeft: boolean;
};

/** Why and when this process left a turn that had not ended. */
type Left = { readonly turn: string; readonly error: unknown; readonly at: number; readonly epoch: number };

/** An open turn that this process does not drive yet. `epoch` is the lease epoch of its session when the turn was last read; 0 without a lease row. */
type StoredTurn = { readonly key: SessionKey; readonly turn: string; readonly epoch: number };

/** How long `close` waits, in milliseconds, after it has stopped every turn in the middle: for the writes that record results and release leases. */
const releaseLimitMs = 5000;

/** How many reasons for leaving are kept. */
const maxLeft = 1000;

export class ActiveTurns {
  readonly #context: RuntimeContext;
  readonly #active = new Map<string, ActiveSession>();
  /** The newest reasons for leaving a turn, by session. */
  readonly #left = new Map<string, Left>();
  /** Lease rows that expire too far ahead, by session. */
  readonly #observations = new Map<string, Observation>();
  readonly #listeners = new Set<() => void>();
  readonly #freeListeners = new Set<() => void>();
  /** Turns that wait until this process may drive another one, by session, in order. */
  readonly #queue = new Map<string, StoredTurn>();
  #reserved = 0;
  #closing = false;
  /** Called once when this process drives nothing and claims nothing. */
  readonly #idleListeners = new Set<() => void>();

  constructor(context: RuntimeContext) {
    this.#context = context;
  }

  /** The number of sessions driven here. */
  get count(): number {
    return this.#active.size;
  }

  get closing(): boolean {
    return this.#closing;
  }

  /** Does this process drive a turn of the session? It also drives the turns that follow. */
  has(key: SessionKey): boolean {
    return this.#active.has(nameOf(key));
  }

  /** Resolves when this process no longer drives the turn. */
  async over(key: SessionKey, turn: string): Promise<void> {
    const active = this.#active.get(nameOf(key));
    if (active?.turn === turn) await active.over;
  }

  /** Calls back when this process leaves any turn before its end. */
  onLeft(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Why this process left the turn, if no other process has held the session since (by the epoch of its lease); `null` otherwise. */
  reasonLeft(key: SessionKey, turn: string, epoch: number): unknown {
    const left = this.#left.get(nameOf(key));
    if (left?.turn === turn && left.epoch >= epoch) return left.error;
    // A turn that still waits for a free place is not driven here any more.
    const queued = this.#closing ? this.#queue.get(nameOf(key)) : undefined;
    return queued?.turn === turn && queued.epoch >= epoch ? new HandedOver() : null;
  }

  /** Should a worker leave the turn alone? For a moment after this process failed at it, and for good if a newer release wrote it. */
  hasJustFailed(key: SessionKey, turn: string): boolean {
    const left = this.#left.get(nameOf(key));
    if (left?.turn !== turn || isHeldElsewhere(left.error) || isHandedOver(left.error)) return false;
    if (isEverturnError(left.error) && left.error.reason === "newer_schema") return true;
    return this.#context.clock.now() < left.at + this.#context.lease.renewMs;
  }

  /** Cancels the turn at once, if this process drives it. The stored cancel is written before. */
  cancel(key: SessionKey, turn: string, origin: string, reason: string): void {
    const active = this.#active.get(nameOf(key));
    if (active?.turn === turn) active.driver?.cancel(origin, reason);
  }

  /** Claims the lease of a session. `null`: another process holds it. */
  async claim(key: SessionKey): Promise<Lease | null> {
    const row = await readOne(this.#context.storage, { table: "leases", prefix: keyOf(key) });
    const claimed = this.#claimOf(key, row);
    if (claimed.type === "busy") return null;
    const { check, put, lease } = claimed;
    const written = await this.#context.storage.write({ checks: [check], removals: [], puts: [put] });
    return written.ok ? lease : null;
  }

  #claimOf(key: SessionKey, row: Row | null): Claim {
    const { clock, owner, lease: timings } = this.#context;
    return claim(keyOf(key), row, owner(), instantOf(clock), timings, this.#observed(key, row));
  }

  /** When this process first saw the lease row as it is: a row that expires too far ahead is claimed by it (`rows/lease.ts`, rule 6). */
  #observed(key: SessionKey, row: Row | null): Observation | null {
    const name = nameOf(key);
    if (row === null || row.remainingMs === null || row.remainingMs <= this.#context.lease.ttlMs) {
      this.#observations.delete(name);
      return null;
    }
    const seen = this.#observations.get(name);
    if (seen?.epoch === row.tag && seen.expires === row.expires) return seen;
    const since = monotonicNow(this.#context.clock);
    const observation = { epoch: row.tag, expires: row.expires, since };
    this.#observations.set(name, observation);
    return observation;
  }

  /** Releases a lease. The open turn of the session is due at once. */
  async release(key: SessionKey, lease: Lease): Promise<void> {
    const { storage, clock } = this.#context;
    const check = { table: "leases", key: keyOf(key), tag: lease.epoch } as const;
    const open = await this.#openTurn(key).catch(() => null);
    const due = open === null ? noChanges : moveDue(key, open, clock.now());
    const changes = merge({ checks: [check], removals: [], puts: [releasePut(keyOf(key), lease)] }, due);
    await storage.write(changes).catch(() => undefined);
  }

  /** Drives the open turn of a session that no process holds. Returns whether it did. */
  async pickUp(key: SessionKey, options: { readonly force?: boolean } = {}): Promise<boolean> {
    return (await this.tryPickUp(key, options)) === "driven";
  }

  /**
   * Drives a turn that is stored and open, if no process holds its session. Never rejects: the turn is accepted whether or not this process can drive it,
   * and its row in `due` leads a worker to it. An error is recorded like that of a turn which this process left, so that `result` of a handle in this
   * process rejects with it. If the process is closing, the turn is left to other processes.
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
   * Drives the open turn of a session that no process holds. `moved`: not now, and its row in `due` says when. `left`: it is not for this process, or another
   * one holds it. `force`: a person asked for it, so the count of takeovers begins anew, and there is no backoff.
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
    const free = this.reserve();
    if (free === null) {
      this.#queue.set(nameOf(key), { key, turn: open.turn, epoch: leases[0]?.tag ?? 0 });
      return "left";
    }
    try {
      return await this.#pickUpOpen(key, open, leases[0] ?? null, force);
    } finally {
      free();
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
    this.#start(key, { id: open.turn, known: null, lease: claimed.lease });
    return "driven";
  }

  /**
   * Claims the session of an open turn. A takeover after an expired lease is counted on the turn until a journal row is added (Q17): from the second on it
   * waits with backoff, and at the limit the turn is parked.
   */
  async #takeOver(
    key: SessionKey,
    open: OpenTurn,
    row: Row | null,
    force: boolean,
  ): Promise<{ readonly lease: Lease; readonly isLimit: boolean } | "moved" | "left"> {
    const { storage, clock, lease: timings, maxTakeovers } = this.#context;
    const claimed = this.#claimOf(key, row);
    if (claimed.type === "busy") return "left";
    const { check, put, lease } = claimed;
    const now = clock.now();
    const claiming = merge({ checks: [check], removals: [], puts: [put] }, moveDue(key, open, now + timings.ttlMs));
    const turnRow = await readOne(storage, { table: "turns", prefix: turnKey(key, open.turn) });
    if (turnRow === null || !(claimed.takesOver || force)) {
      return (await storage.write(claiming)).ok ? { lease, isLimit: false } : "left";
    }
    const progress = readValue("turns", turnRow);
    const before = force ? 0 : progress.takeovers;
    // Since the lease expired; a lease that is claimed although it expires far ahead counts from now.
    const waitMs = before === 0 ? 0 : backoffMs(before) + Math.min(0, row?.remainingMs ?? 0);
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
    const written = await storage.write(merge(claiming, counted));
    return written.ok ? { lease, isLimit: takeovers >= maxTakeovers } : "left";
  }

  /** Parks a turn whose takeovers added nothing: something in it ends or blocks every process that drives it. */
  async #parkAtLimit(key: SessionKey, id: string, lease: Lease): Promise<void> {
    const turn = await loadTurn(this.#context.storage, key, id);
    if (turn === null) return this.release(key, lease);
    await new TurnCommitter(this.#context, turn, lease).park(takeoverLimit(turn));
  }

  /** Does this process drive as many turns as it may? */
  get isFull(): boolean {
    return this.#active.size + this.#reserved >= this.#context.maxActiveTurns;
  }

  /** Reserves a place while a turn is being claimed. Returns the function that gives it back; `null`: all places are taken. */
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

  /** Calls back when this process has ended a turn, so that it may drive another. Not when it failed at one: it would be tried again without a rest. */
  onFree(listener: () => void): () => void {
    this.#freeListeners.add(listener);
    return () => this.#freeListeners.delete(listener);
  }

  /** Drives a turn that this process accepted under the lease, and the turns that follow it, in the background. */
  drive(key: SessionKey, turn: DrivenTurn, lease: Lease): void {
    this.#start(key, { id: turn.id, known: turn, lease });
  }

  /**
   * Hands every turn over: at its next commit, or after `graceMs` in the middle of a step. Resolves when all leases are released, including those of turns
   * whose acceptance was being written when it was called; at the latest `releaseLimitMs` after `graceMs`, if the storage is busy or does not answer. A lease
   * that could not be released expires.
   */
  async close(graceMs: number): Promise<void> {
    this.#closing = true;
    // Turns that wait for a free place are left: `reasonLeft` reports it.
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

  #refill(): void {
    this.#driveQueued();
    for (const listener of this.#freeListeners) listener();
  }

  /** Drives the turn that has waited longest. If it has ended, its session was deleted, or it fails, its place goes to the next one. */
  #driveQueued(): void {
    const [queued] = this.#queue;
    if (queued === undefined || this.isFull || this.#closing) return;
    const [name, stored] = queued;
    this.#queue.delete(name);
    void this.driveStored(stored).then((isDriven) => (isDriven ? undefined : this.#driveQueued()));
  }

  #start(key: SessionKey, target: Target): void {
    const name = nameOf(key);
    const active: ActiveSession = {
      driver: null,
      turn: target.id,
      over: Promise.resolve(null),
      done: Promise.resolve(),
      isLeft: false,
    };
    // An earlier entry of the session may have ended its turn and not be gone yet.
    this.#active.set(name, active);
    active.over = this.#driveOne(active, key, target);
    active.done = this.#driveFollowing(active, key).finally(() => {
      if (this.#active.get(name) === active) this.#active.delete(name);
      if (active.isLeft) this.#driveQueued();
      else this.#refill();
      this.#reportIdle();
    });
  }

  /** One turn after the other, as long as one follows. */
  async #driveFollowing(active: ActiveSession, key: SessionKey): Promise<void> {
    for (;;) {
      const following = await active.over;
      if (following === null) return;
      const target = await this.#claimed(key, following);
      if (target === null) return;
      active.driver = null;
      active.turn = target.id;
      active.over = this.#driveOne(active, key, target);
    }
  }

  async #claimed(key: SessionKey, following: Following): Promise<Target | null> {
    if (following.lease === null) {
      const lease = this.#closing ? null : await this.claim(key).catch(() => null);
      return lease === null ? null : { id: following.id, known: null, lease };
    }
    if (!this.#closing) return following;
    await this.release(key, following.lease);
    return null;
  }

  /** Drives one turn, and returns the one that follows. */
  async #driveOne(active: ActiveSession, key: SessionKey, { id, known, lease }: Target): Promise<Following | null> {
    try {
      const turn = known ?? (await this.#load(key, id, lease));
      if (turn === null) {
        await this.release(key, lease);
        // A verb that accepted another turn in between saw the session held, and left that turn to this process.
        const open = await this.#openTurn(key);
        return open === null || open.turn === id ? null : { id: open.turn, lease: null };
      }
      const driver = new TurnDriver(this.#context, turn, lease);
      active.driver = driver;
      if (this.#closing) driver.handOver(true);
      await driver.drive();
      const { next } = driver;
      return next === null ? null : { id: next.turn.id, known: next.turn, lease: next.lease };
    } catch (error) {
      active.isLeft = true;
      // After `close` a busy storage is not waited for; the turn is handed over all the same.
      const reason = this.#closing && isBusy(error) ? new HandedOver() : error;
      this.#leave(key, id, (active.driver?.lease ?? lease).epoch, reason);
      return null;
    }
  }

  /** Loads a turn. The lease is released when that fails: another process may be able to read the turn. */
  async #load(key: SessionKey, id: string, lease: Lease): Promise<DrivenTurn | null> {
    try {
      return await loadTurn(this.#context.storage, key, id);
    } catch (error) {
      await this.release(key, lease);
      throw error;
    }
  }

  /** Records why the turn was left, for those who wait for it in this process. */
  #leave(key: SessionKey, turn: string, epoch: number, error: unknown): void {
    const name = nameOf(key);
    this.#left.delete(name);
    this.#left.set(name, { turn, error, at: this.#context.clock.now(), epoch });
    const [oldest] = this.#left.keys();
    if (this.#left.size > maxLeft && oldest !== undefined) this.#left.delete(oldest);
    this.#reportLeft();
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

/** Does another process drive the turn now? Then those who wait for its end keep waiting. */
export function isHeldElsewhere(error: unknown): boolean {
  return isEverturnError(error) && (error.reason === "lease_lost" || error.reason === "conflict");
}

function isBusy(error: unknown): boolean {
  return isEverturnError(error) && error.reason === "storage_busy";
}

/** The wait before another takeover, in milliseconds since the lease expired. */
function backoffMs(takeovers: number): number {
  return Math.min(60_000, 500 * 2 ** (takeovers - 1));
}

function takeoverLimit({ id, stored, rows, records }: DrivenTurn): RuntimeError {
  const answered = new Set(rows.flatMap(({ item }) => (item.type === "response" ? [item.response.id] : [])));
  const begun = [...records.keys()].flatMap((name): readonly string[] => {
    const [effectId = ""]: readonly string[] = JSON.parse(name);
    return answered.has(effectId) ? [] : [effectId];
  });
  const step = stored.turn?.progress.step ?? 0;
  const effects = [...new Set(begun)];
  const where = effects.length > 0 ? effects.join(", ") : `step ${step}`;
  return new RuntimeError("takeover_limit", {
    message: `the turn ${id} was taken over ${stored.turn?.progress.takeovers ?? 0} times without a result: every process that drove it died or was blocked in ${where}; correct the cause, then recover(id, { from: "step" }), or end the turn with recover(id)`,
    metadata: { step, effects },
  });
}

export function isHandedOver(error: unknown): boolean {
  return error instanceof HandedOver;
}
