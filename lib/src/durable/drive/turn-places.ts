// The places of the turns that this process drives: how many there are, who waits for one, and who is driven alone.
//
// Theory of operation
//   Places are units of a `FairShare` by tenant (`maxActiveTurns`): a turn that finds no free place requests one, once
//   for its session, and is tried when it gets it. The request only saves time: the turn is stored, and due for every
//   worker. While writes are slow there are fewer places (`growing-lease.ts`), so that the process can commit and renew
//   the turns that it has. Requests are granted again every renewal interval, because writes become faster without the
//   end of a turn. A turn that may end its process, a suspect, is driven alone (`takeovers.ts`): it waits here until
//   this process drives nothing else, and no other turn starts until it has made progress, for a limited time.
//
// The number of active sessions and of claims in progress never exceeds `maxActiveTurns`, as of the last claim.

import type { SessionKey } from "../rows/session-key.ts";
import type { RuntimeContext } from "./context.ts";
import type { SuspectPlace } from "./session-claims.ts";

import { FairShare } from "../../core/fair/fair-share.ts";
import { nameOf } from "../rows/session-key.ts";

/**
 * An open turn that this process does not drive yet. `epoch` is the lease epoch of its session when the turn was last
 * read; 0 without a lease row.
 */
export type StoredTurn = { readonly key: SessionKey; readonly turn: string; readonly epoch: number };

/** The turns to which places are given (`ActiveTurns`). */
type Turns = {
  /** Drives a stored open turn. `hasPlace`: it has a place, which is given back afterwards. Never rejects. */
  readonly driveStored: (stored: StoredTurn, hasPlace: boolean) => Promise<boolean>;
  /** The number of sessions driven here. */
  readonly count: () => number;
  /** Was the session of this name claimed as a suspect that is driven alone? */
  readonly isDrivenAlone: (name: string) => boolean;
};

/** The places of one runtime. Sessions are known by their names (`nameOf`). */
export class TurnPlaces {
  readonly #context: RuntimeContext;
  readonly #turns: Turns;
  /** One for each active session and for each claim in progress. A suspect that is driven alone closes the others. */
  readonly #places: FairShare;
  /** Called when a place becomes free. */
  readonly #freeListeners = new Set<() => void>();
  /** Called once when this process drives no session and claims none. */
  readonly #idleListeners = new Set<() => void>();
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
  #isClosed = false;

  constructor(context: RuntimeContext, turns: Turns) {
    this.#context = context;
    this.#turns = turns;
    const total = () => (this.#isClosed || this.#alone !== null ? 0 : context.maxActiveTurns());
    this.#places = new FairShare({
      get total() {
        return total();
      },
    });
  }

  /** Whether `close` was called. */
  get isClosed(): boolean {
    return this.#isClosed;
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

  /** Returns whether another session is driven alone. */
  isAnotherAlone(name: string): boolean {
    return this.#alone !== null && this.#alone !== name;
  }

  /** The turn of the session that has requested a place; `null`: none has. */
  requested(key: SessionKey): StoredTurn | null {
    return this.#queue.get(nameOf(key)) ?? null;
  }

  /** Takes a place, whether or not one is free. */
  take(tenant: string): void {
    this.#places.take(tenant);
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
      this.giveBack(tenant, this.#queue.size > 0);
    };
  }

  /** Gives a place back: first to turns that have requested one, then to workers (`forWorkers`) and suspects. */
  giveBack(tenant: string, forWorkers: boolean): void {
    this.#places.giveBack(tenant);
    if (forWorkers) this.#reportFree();
    this.#driveSuspect();
    if (!this.#isIdle) return;
    for (const listener of this.#idleListeners) listener();
    this.#idleListeners.clear();
  }

  /** Drives a stored turn when it gets a place. */
  request(stored: StoredTurn): void {
    const name = nameOf(stored.key);
    const isQueued = this.#queue.has(name);
    this.#queue.set(name, stored);
    this.#startQueueTimer();
    if (isQueued) return;
    void this.#driveWithPlace(stored);
  }

  /**
   * Calls back when a place becomes free because a turn has ended. Not when this process failed at a turn: workers
   * would try that turn again without a pause.
   */
  onFree(listener: () => void): () => void {
    this.#freeListeners.add(listener);
    return () => this.#freeListeners.delete(listener);
  }

  /** Gives no place any more. Turns that wait for one are left. */
  close(): void {
    this.#isClosed = true;
    this.#stopSuspectTimer();
    this.#queueTimer?.abort();
  }

  /** Resolves when this process drives no session and is claiming none. */
  async idle(): Promise<void> {
    if (this.#isIdle) return;
    await new Promise<void>((resolve) => {
      this.#idleListeners.add(resolve);
    });
  }

  #reportFree(): void {
    for (const listener of this.#freeListeners) listener();
  }

  /** Waits for a place, and drives the newest form of the stored turn. */
  async #driveWithPlace(stored: StoredTurn): Promise<void> {
    const name = nameOf(stored.key);
    const { tenant } = stored.key;
    await this.#places.request(tenant).granted;
    const newest = this.#queue.get(name) ?? stored;
    this.#queue.delete(name);
    await this.#turns.driveStored(newest, true);
    this.giveBack(tenant, this.#queue.size > 0);
  }

  /** Grants places again after one renewal interval: they also become free because writes are faster again. */
  #startQueueTimer(): void {
    if (this.#queueTimer !== null || this.#isClosed) return;
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

  // Suspects (`takeovers.ts`).

  /**
   * Whether a suspect for which a place is reserved may be driven now. If not, it is driven when this process drives
   * nothing else.
   */
  ofSuspect(name: string, stored: StoredTurn): SuspectPlace {
    if (this.#alone === name) return "alone";
    if (this.#besideOthers === name) return "beside";
    if (this.#turns.count() === 0 && this.#places.held === 1) {
      this.#suspects.delete(name);
      this.#alone = name;
      return "alone";
    }
    this.#suspects.set(name, stored);
    return "later";
  }

  /**
   * Counts a claim of a stored turn of the session. Returns the function that ends it: other turns start again, unless
   * this claim or another one of the session has succeeded or is in progress.
   */
  beginClaim(name: string): () => void {
    this.#claiming.set(name, (this.#claiming.get(name) ?? 0) + 1);
    return () => {
      const others = (this.#claiming.get(name) ?? 1) - 1;
      if (others === 0) this.#claiming.delete(name);
      else this.#claiming.set(name, others);
      this.#endAloneUnlessDriven(name);
    };
  }

  /** Lets other turns start again. Does nothing if the session is not driven alone. */
  endAlone(name: string): void {
    if (this.#alone !== name) return;
    this.#alone = null;
    // Turns of verbs first: they have waited for the suspect.
    this.#places.grantFree();
    this.#reportFree();
    this.#driveSuspect();
  }

  /** Lets other turns start beside a suspect after a time, once its lease row says so (`store`). */
  async limitAlone(name: string, ms: number, store: () => Promise<void>, signal: AbortSignal): Promise<void> {
    const { clock, lease } = this.#context;
    for (let waitMs = ms; !signal.aborted && this.#alone === name; waitMs = lease.renewMs) {
      try {
        await clock.sleep(waitMs, signal);
        await store();
        this.endAlone(name);
      } catch {
        // The drive is over, or the row could not be written: the next attempt follows.
      }
    }
  }

  #endAloneUnlessDriven(name: string): void {
    if (!this.#claiming.has(name) && !this.#turns.isDrivenAlone(name)) this.endAlone(name);
  }

  /** Drives the oldest suspect if this process drives nothing else; otherwise within one lease time. */
  #driveSuspect(): void {
    const [oldest] = this.#suspects;
    if (oldest === undefined || this.#isClosed || this.#alone !== null) return this.#stopSuspectTimer();
    if (!this.#isIdle) return this.#startSuspectTimer();
    this.#stopSuspectTimer();
    const [name, stored] = oldest;
    this.#suspects.delete(name);
    this.#alone = name;
    void this.#turns.driveStored(stored, false).then(() => this.#endAloneUnlessDriven(name));
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
      await this.#turns.driveStored(stored, false);
      this.#besideOthers = null;
    }
    if (this.#suspectTimer === timer) this.#suspectTimer = null;
    this.#driveSuspect();
  }

  #stopSuspectTimer(): void {
    this.#suspectTimer?.abort();
    this.#suspectTimer = null;
  }
}
