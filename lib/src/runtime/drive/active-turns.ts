// The turns that this process drives: it claims sessions, drives the open turn of each and the turns that follow it, and hands all of them over when the
// process is about to stop. One session has at most one entry here, because a lease is held for a session.

import type { RuntimeContext } from "../context.ts";
import type { Lease, Observation } from "../rows/lease.ts";
import type { SessionKey } from "../rows/session-key.ts";
import type { Row } from "../rows/storage.ts";
import type { DrivenTurn } from "./driven-turn.ts";

import { monotonicNow } from "../../clock/clock.ts";
import { isEverturnError } from "../../model/internal.ts";
import { readOne } from "../context.ts";
import { claim, instantOf, releasePut } from "../rows/lease.ts";
import { keyOf, nameOf } from "../rows/session-key.ts";
import { readValue } from "../rows/stored.ts";
import { loadTurn } from "./driven-turn.ts";
import { HandedOver } from "./turn-committer.ts";
import { TurnDriver } from "./turn-driver.ts";

/** A turn to drive: known because this process accepted it, or to be loaded. */
type Target = { readonly id: string; readonly known: DrivenTurn | null; readonly lease: Lease };

/** The turn after one that is over: with its lease, or to be claimed first. */
type Following = Target | { readonly id: string; readonly lease: null };

/** A session while this process drives it, turn after turn. */
type ActiveSession = {
  driver: TurnDriver | null;
  turn: string;
  /** Resolves when the current turn is over or was left, with the turn that follows. */
  over: Promise<Following | null>;
  /** Resolves when no further turn follows. */
  done: Promise<void>;
};

/** Why and when this process left a turn that had not ended. */
type Left = { readonly turn: string; readonly error: unknown; readonly at: number; readonly epoch: number };

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
  #closing = false;

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
    return left?.turn === turn && left.epoch >= epoch ? left.error : null;
  }

  /** Did this process fail at the turn a moment ago? Then a worker does not take it again at once. */
  hasJustFailed(key: SessionKey, turn: string): boolean {
    const left = this.#left.get(nameOf(key));
    if (left?.turn !== turn || isHeldElsewhere(left.error) || isHandedOver(left.error)) return false;
    return this.#context.clock.now() < left.at + this.#context.lease.renewMs;
  }

  /** Cancels the turn at once, if this process drives it. The stored cancel is written before. */
  cancel(key: SessionKey, turn: string, origin: string, reason: string): void {
    const active = this.#active.get(nameOf(key));
    if (active?.turn === turn) active.driver?.cancel(origin, reason);
  }

  /** Claims the lease of a session. `null`: another process holds it. */
  async claim(key: SessionKey): Promise<Lease | null> {
    const { storage, clock, owner, lease: timings } = this.#context;
    const row = await readOne(storage, { table: "leases", prefix: keyOf(key) });
    const claimed = claim(keyOf(key), row, owner(), instantOf(clock), timings, this.#observed(key, row));
    if (claimed.type === "busy") return null;
    const written = await storage.write({ checks: [claimed.check], removals: [], puts: [claimed.put] });
    return written.ok ? claimed.lease : null;
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

  async release(key: SessionKey, lease: Lease): Promise<void> {
    const check = { table: "leases", key: keyOf(key), tag: lease.epoch } as const;
    const puts = [releasePut(keyOf(key), lease)];
    await this.#context.storage.write({ checks: [check], removals: [], puts }).catch(() => undefined);
  }

  /** Drives the open turn of a session that no process holds. Returns whether it did. */
  async pickUp(key: SessionKey): Promise<boolean> {
    if (this.#closing) return false;
    const open = await this.#openTurn(key);
    if (open === null) return false;
    const { turn, engine } = open;
    // A process without the engine leaves the turn to one that has it.
    if (!Object.hasOwn(this.#context.engines, engine) || this.#drives(key, turn)) return false;
    const lease = await this.claim(key);
    if (lease === null) return false;
    if (this.#closing || this.#drives(key, turn)) {
      await this.release(key, lease);
      return false;
    }
    this.#start(key, { id: turn, known: null, lease });
    return true;
  }

  /** Drives a turn that this process accepted under the lease, and the turns that follow it, in the background. */
  drive(key: SessionKey, turn: DrivenTurn, lease: Lease): void {
    this.#start(key, { id: turn.id, known: turn, lease });
  }

  /** Hands every turn over: at its next commit, or after `graceMs` at once. */
  async close(graceMs: number): Promise<void> {
    this.#closing = true;
    const sessions = [...this.#active.values()];
    for (const { driver } of sessions) driver?.handOver(false);
    const timer = new AbortController();
    const late = this.#context.clock.sleep(graceMs, timer.signal).then(
      () => this.#handOverNow(),
      () => undefined,
    );
    await Promise.all(sessions.map(({ done }) => done));
    timer.abort();
    await late;
  }

  #handOverNow(): void {
    for (const { driver } of this.#active.values()) driver?.handOver(true);
  }

  #start(key: SessionKey, target: Target): void {
    const name = nameOf(key);
    const active: ActiveSession = {
      driver: null,
      turn: target.id,
      over: Promise.resolve(null),
      done: Promise.resolve(),
    };
    // An earlier entry of the session may have ended its turn and not be gone yet.
    this.#active.set(name, active);
    active.over = this.#driveOne(active, key, target);
    active.done = this.#driveFollowing(active, key).finally(() => {
      if (this.#active.get(name) === active) this.#active.delete(name);
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
      const turn = known ?? (await loadTurn(this.#context.storage, key, id));
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
      this.#leave(key, id, lease, error);
      return null;
    }
  }

  /** Records why the turn was left, for those who wait for it in this process. */
  #leave(key: SessionKey, turn: string, { epoch }: Lease, error: unknown): void {
    const name = nameOf(key);
    this.#left.delete(name);
    this.#left.set(name, { turn, error, at: this.#context.clock.now(), epoch });
    const [oldest] = this.#left.keys();
    if (this.#left.size > maxLeft && oldest !== undefined) this.#left.delete(oldest);
    for (const listener of this.#listeners) listener();
  }

  #drives(key: SessionKey, turn: string): boolean {
    return this.#active.get(nameOf(key))?.turn === turn;
  }

  async #openTurn(key: SessionKey): Promise<{ readonly turn: string; readonly engine: string } | null> {
    const row = await readOne(this.#context.storage, { table: "open", prefix: keyOf(key) });
    return row === null ? null : readValue("open", row);
  }
}

/** Does another process drive the turn now? Then those who wait for its end keep waiting. */
export function isHeldElsewhere(error: unknown): boolean {
  return isEverturnError(error) && (error.reason === "lease_lost" || error.reason === "conflict");
}

export function isHandedOver(error: unknown): boolean {
  return error instanceof HandedOver;
}
