// The turns this process drives: claiming sessions, driving what is open in them, one turn after the other, and letting go of all of them when the
// process is about to stop.

import type { RuntimeContext, SessionKey } from "../context.ts";
import type { Lease } from "../rows/lease.ts";

import { isEverturnError, RuntimeError } from "../../model/internal.ts";
import { keyOf, nameOf, readOne } from "../context.ts";
import { claim, releasePut } from "../rows/lease.ts";
import { readValue } from "../rows/stored.ts";
import { HandedOver } from "./committer.ts";
import { TurnRun } from "./turn-run.ts";

/** How a turn was left by this process: why, when, and under which epoch it had it. */
type Left = { readonly turn: string; readonly error: unknown; readonly at: number; readonly epoch: number };

/** One session while it is driven here, turn after turn. */
type Piloted = {
  run: TurnRun | null;
  turn: string;
  /** The turn is over, or was left; and so is whatever follows it. */
  over: Promise<string | null>;
  done: Promise<void>;
  /** The turn whose lease was lost here and claimed again: that is done once. */
  claimedAgain: string | null;
};

export class Pilots {
  readonly #context: RuntimeContext;
  readonly #flying = new Map<string, Piloted>();
  /** Why turns were left, by their names: the newest ones. */
  readonly #left = new Map<string, Left>();
  readonly #leaving = new Set<() => void>();
  #closing = false;

  constructor(context: RuntimeContext) {
    this.#context = context;
  }

  get count(): number {
    return this.#flying.size;
  }

  get closing(): boolean {
    return this.#closing;
  }

  /** Is that turn driven here? One before it may not be quite gone. */
  #isFlying(key: SessionKey, turn: string): boolean {
    return this.#flying.get(nameOf(key))?.turn === turn;
  }

  /** Is a turn of that session driven here? What follows it is driven here too. */
  has(key: SessionKey): boolean {
    return this.#flying.has(nameOf(key));
  }

  /** Resolves when this process no longer drives that turn. */
  async landed(key: SessionKey, turn: string): Promise<void> {
    const flown = this.#flying.get(nameOf(key));
    if (flown?.turn === turn) await flown.over;
  }

  /** Calls back when this process lets any turn go. */
  onLeaving(listener: () => void): () => void {
    this.#leaving.add(listener);
    return () => this.#leaving.delete(listener);
  }

  /** Why this process let that turn go, if it did and nobody has had it since. */
  leftBecause(key: SessionKey, turn: string, epoch: number): unknown {
    const left = this.#left.get(nameOf(key));
    return left?.turn === turn && left.epoch >= epoch ? left.error : null;
  }

  /** Has this process just failed at that turn? Then it does not try again at once. */
  hasJustFailed(key: SessionKey, turn: string): boolean {
    const left = this.#left.get(nameOf(key));
    if (left?.turn !== turn || isElsewhere(left.error) || isHandedOver(left.error)) return false;
    return this.#context.clock.now() < left.at + this.#context.lease.renewMs;
  }

  /** Tells that turn to stop, if it is driven here. */
  cancel(key: SessionKey, turn: string, origin: string, reason: string): void {
    const flown = this.#flying.get(nameOf(key));
    if (flown?.turn === turn) flown.run?.cancel(origin, reason);
  }

  /** Tries to get a session. `null`: somebody else has it. */
  async claim(key: SessionKey): Promise<Lease | null> {
    const { storage, clock, owner, lease: timings } = this.#context;
    const row = await readOne(storage, { table: "leases", prefix: keyOf(key) });
    const claimed = claim(keyOf(key), row, owner, clock.now(), timings);
    if (claimed.type === "busy") return null;
    const written = await storage.write({ checks: [claimed.check], removals: [], puts: [claimed.put] });
    return written.ok ? claimed.lease : null;
  }

  /** Drives the open turn of a session that nobody has; whether there was one to drive. */
  async pickUp(key: SessionKey): Promise<boolean> {
    if (this.#closing) return false;
    const row = await readOne(this.#context.storage, { table: "open", prefix: keyOf(key) });
    if (row === null) return false;
    const { turn, engine } = readValue("open", row);
    // A process without that engine leaves the turn to one that has it.
    if (!Object.hasOwn(this.#context.engines, engine) || this.#isFlying(key, turn)) return false;
    const lease = await this.claim(key);
    if (lease === null) return false;
    if (this.#closing || this.#isFlying(key, turn)) {
      await this.release(key, lease);
      return false;
    }
    this.fly(key, turn, lease);
    return true;
  }

  /** Drives a turn, and whatever follows it, in the background. */
  fly(key: SessionKey, turn: string, lease: Lease): void {
    const name = nameOf(key);
    const flown: Piloted = {
      run: null,
      turn,
      over: Promise.resolve(null),
      done: Promise.resolve(),
      claimedAgain: null,
    };
    // The one before may have ended its turn and not be gone yet.
    this.#flying.set(name, flown);
    flown.over = this.#fly(flown, key, lease);
    flown.done = this.#follow(flown, key).finally(() => {
      if (this.#flying.get(name) === flown) this.#flying.delete(name);
    });
  }

  /** One turn after the other, for as long as each makes one. */
  async #follow(flown: Piloted, key: SessionKey): Promise<void> {
    for (;;) {
      const turn = await flown.over;
      const lease = turn === null || this.#closing ? null : await this.claim(key).catch(() => null);
      if (turn === null || lease === null) return;
      flown.run = null;
      flown.turn = turn;
      flown.over = this.#fly(flown, key, lease);
    }
  }

  /** Drives one turn, and says which one follows it. */
  async #fly(flown: Piloted, key: SessionKey, lease: Lease): Promise<string | null> {
    const name = nameOf(key);
    const { turn } = flown;
    try {
      const run = await TurnRun.load(this.#context, key, turn, lease);
      if (run === null) {
        await this.release(key, lease);
        // Whoever accepted another turn meanwhile saw the session in these hands, and left it to them.
        const open = await readOne(this.#context.storage, { table: "open", prefix: keyOf(key) });
        return open === null || readValue("open", open).turn === turn ? null : readValue("open", open).turn;
      }
      flown.run = run;
      if (this.#closing) run.handOver(true);
      await run.drive();
      return run.next;
    } catch (error) {
      const again = isLost(error) && flown.claimedAgain !== turn && (await this.#isOpen(key, turn));
      const why = isLost(error) && flown.claimedAgain === turn ? tooSlow(turn, error) : error;
      this.#left.delete(name);
      this.#left.set(name, { turn, error: why, at: this.#context.clock.now(), epoch: lease.epoch });
      const [oldest] = this.#left.keys();
      if (this.#left.size > 1000 && oldest !== undefined) this.#left.delete(oldest);
      for (const listener of this.#leaving) listener();
      // A process that was held up for too long, and whose session nobody else took, goes on with it like anybody else: once. One that is held up
      // again would only begin the same work over and over.
      flown.claimedAgain = turn;
      return again ? turn : null;
    }
  }

  async #isOpen(key: SessionKey, turn: string): Promise<boolean> {
    const query = { table: "open", prefix: keyOf(key) } as const;
    const row = await readOne(this.#context.storage, query).catch(() => null);
    return row !== null && readValue("open", row).turn === turn;
  }

  /** Gives a session back. */
  async release(key: SessionKey, lease: Lease): Promise<void> {
    const check = { table: "leases", key: keyOf(key), tag: lease.epoch } as const;
    const puts = [releasePut(keyOf(key), lease)];
    await this.#context.storage.write({ checks: [check], removals: [], puts }).catch(() => undefined);
  }

  #letGo(): void {
    for (const { run } of this.#flying.values()) run?.handOver(true);
  }

  /** Lets every turn go: at its next commit, or, when that takes longer than the grace, in the middle. */
  async close(graceMs: number): Promise<void> {
    this.#closing = true;
    const flights = [...this.#flying.values()];
    for (const { run } of flights) run?.handOver(false);
    const all = Promise.all(flights.map(({ done }) => done));
    const timer = new AbortController();
    const late = this.#context.clock.sleep(graceMs, timer.signal).then(
      () => this.#letGo(),
      () => undefined,
    );
    await all;
    timer.abort();
    await late;
  }
}

/** Did the turn just go to somebody else? Then whoever waits for it waits on. */
export function isElsewhere(error: unknown): boolean {
  return isEverturnError(error) && (error.reason === "lease_lost" || error.reason === "conflict");
}

function isLost(error: unknown): boolean {
  return isEverturnError(error) && error.reason === "lease_lost";
}

export function isHandedOver(error: unknown): boolean {
  return error instanceof HandedOver;
}

/** A turn that takes longer than its lease, whatever is tried. */
function tooSlow(turn: string, cause: unknown): RuntimeError {
  const message = `the turn ${turn} was held up for longer than its lease lasts, twice: something blocks this process, or the storage is too slow; give leases a longer ttlMs`;
  return new RuntimeError("storage_busy", { message, cause });
}
