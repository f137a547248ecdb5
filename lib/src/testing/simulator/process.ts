// A simulated process: a clock, and a connection to the storage over an unreliable network. A runtime that gets both
// runs unchanged.
//
// Theory of operation
//   All code of the process continues from events that it owns (`World`): a sleep that is over, an answer of the
//   storage, a notification, a request of a client. So a kill drops its events, and a pause defers them; the runtime
//   needs no cooperation and no crash points.
//
// The network
//   A request takes a random time to the storage and an answer a random time back, so concurrent requests arrive in any
//   order. What can go wrong with a request is decided when it is sent (`Faults`):
//     lost request   it never arrives; the caller gets `storage_failed` after a time
//     lost answer    the batch is applied; the caller gets `storage_failed` after a time and cannot know
//     busy           the storage refuses with `storage_busy`, and nothing was written
//     repeated       the storage gets the same request twice; the second one arrives later, and its answer is dropped
//     slow           the request or the answer takes longer than a lease
//     partition      while it lasts, requests wait for its end or are lost
//     deaf           while it lasts, requests arrive and answers are lost
//     stall          while it lasts, the storage answers no process
//   A notification of `watch` is a message of its own. It may be delivered twice, and late.
//
// Clocks
//   The wall clock of a process has a skew and may jump in both directions. Its monotonic clock runs at the rate of the
//   true time. The storage judges expiry by a clock of its own, which may jump too.
//
// Disturbances
//   A process is disturbed while a fault concerns it: a pause, or a request that is lost, refused or late. Oracles
//   about what a healthy process does are not applied to a disturbed one (`isHealthySince`). One lost request disturbs
//   a process when it learns of the loss, several at a time already when they are sent: a lease must survive the loss
//   of one renewal, but not of all.

import type { Clock } from "../../core/clock/clock.ts";
import type { Batch, HostStorage, Query, Row, TableName, Written } from "../../durable/internal.ts";
import type { Random } from "./random.ts";
import type { Owner, ScheduledEvent, World } from "./world.ts";

import { RuntimeError } from "../../core/model/internal.ts";
import { sessionName, storageTables } from "../../durable/internal.ts";

/** Probabilities of network faults for one request, from 0 to 1. */
export type Faults = {
  readonly lostRequest: number;
  readonly lostAnswer: number;
  readonly busy: number;
  readonly slow: number;
  readonly repeated: number;
  readonly duplicateNotification: number;
};

/** No network fault. */
export const noFaults: Faults = {
  lostRequest: 0,
  lostAnswer: 0,
  busy: 0,
  slow: 0,
  repeated: 0,
  duplicateNotification: 0,
};

/** The message of errors that the simulated network causes. */
export const networkError = "simulated network";

/** The storage that all processes share, and what observes its writes. */
export type SharedStorage = {
  readonly real: HostStorage;
  /** Writes to the storage, and logs what it replaces if the storage can lose writes. */
  readonly write: HostStorage["write"];
  /** The clock of the storage, in milliseconds. */
  readonly now: () => number;
  /** All processes, dead ones too. Notifications go to those that run. */
  readonly processes: SimulatedProcess[];
  /** The true time until which the storage answers nothing. */
  stalledUntil: number;
  /** Called after a batch was applied, before any process can know of it. */
  readonly applied: (writer: SimulatedProcess, batch: Batch) => Promise<void>;
};

/**
 * A sample of the storage's clock that took longer than this, in milliseconds, does not correct an earlier one
 * (`storage-clock.ts`).
 */
const sampleMs = 50;

type WatchCallback = (sessions?: ReadonlySet<string>, tables?: ReadonlySet<TableName>) => void;

/** A process of a simulation. See the head of this file. */
export class SimulatedProcess implements Owner {
  readonly name: string;
  state: Owner["state"] = "running";
  readonly deferred: ScheduledEvent[] = [];
  readonly clock: Clock;
  readonly storage: HostStorage;
  /** Resolves when the process is killed. */
  readonly ended: Promise<void>;
  /** The wall clock minus the true time, in milliseconds. */
  skewMs: number;
  faults: Faults;
  /** The true time until which the process cannot reach the storage. */
  partitionedUntil = 0;
  /** The true time until which answers of the storage are lost. */
  deafUntil = 0;
  /** The true time of the newest request that failed. */
  failedAt = 0;
  /**
   * By how much the clock of the storage was ahead of the true time at most when the process has read it last, in
   * milliseconds; `null`: it has not.
   */
  sampledSkewMs: number | null = null;
  /** The true time until which a fault concerns the process. */
  #disturbedUntil = 0;
  /** How many requests are lost without the process knowing it. */
  #lostRequests = 0;
  readonly #world: World;
  readonly #random: Random;
  readonly #shared: SharedStorage;
  readonly #watchers = new Set<WatchCallback>();
  /** Callbacks for the end of other processes (`Liveness.onEnded`). */
  readonly #endListeners = new Set<() => void>();
  #reportEnd: () => void = () => undefined;

  constructor(
    world: World,
    shared: SharedStorage,
    random: Random,
    {
      name,
      skewMs,
      faults,
      knowsEnded,
      mistakesEnded = false,
    }: {
      readonly name: string;
      readonly skewMs: number;
      readonly faults: Faults;
      readonly knowsEnded: boolean;
      readonly mistakesEnded?: boolean;
    },
  ) {
    this.name = name;
    this.skewMs = skewMs;
    this.faults = faults;
    this.#world = world;
    this.#random = random;
    this.#shared = shared;
    this.ended = new Promise((resolve) => {
      this.#reportEnd = resolve;
    });
    const bootedAt = world.now;
    this.clock = {
      now: () => world.now + this.skewMs,
      monotonic: () => world.now - bootedAt,
      random: () => random.next(),
      sleep: (ms, signal) => this.#sleep(ms, signal),
    };
    // The session state of a database connection behind a transaction pooler is that of another process.
    const isMistaken = (other: SimulatedProcess) =>
      other !== this && this.faults !== noFaults && mistakesEnded && random.chance(0.3);
    const hasEnded = (process: string) =>
      shared.processes.some((other) => other.name === process && (other.state === "killed" || isMistaken(other)));
    const onEnded = (ended: () => void) => {
      // A function of its own: the same callback may be registered twice.
      const listener = () => ended();
      this.#endListeners.add(listener);
      return () => void this.#endListeners.delete(listener);
    };
    this.storage = {
      name: shared.real.name,
      durability: shared.real.durability,
      ...(knowsEnded ? { liveness: { process: name, hasEnded, ...(mistakesEnded ? {} : { onEnded }) } } : {}),
      // Like the databases, without a request if nothing is asked for.
      read: async (queries) =>
        queries.length === 0
          ? []
          : this.#sampling(
              `read ${queries.map(({ table }) => table).join(" ")}`,
              () => this.#read(queries),
              (all) => hasLease(queries, all),
            ),
      write: (batch) => this.#request(`write ${tablesOf(batch)}`, () => this.#write(batch)),
      now: () =>
        this.#sampling(
          "now",
          async () => shared.now(),
          () => true,
        ),
      watch: (changed) => {
        // A function of its own: the same callback may be registered twice.
        const callback: WatchCallback = (...written) => changed(...written);
        this.#watchers.add(callback);
        return () => void this.#watchers.delete(callback);
      },
    };
    shared.processes.push(this);
  }

  /** Whether no fault has concerned the process since that time. */
  isHealthySince(time: number): boolean {
    return this.state === "running" && this.#disturbedUntil < time;
  }

  /** A fault concerns the process for the next `ms`. */
  disturb(ms: number): void {
    this.#disturbedUntil = Math.max(this.#disturbedUntil, this.#world.now + ms);
  }

  /** Ends the process at once. Its code never continues. */
  kill(): void {
    if (this.state === "killed") return;
    this.#world.log(() => `${this.name} is killed`);
    this.state = "killed";
    this.deferred.length = 0;
    this.#watchers.clear();
    this.#endListeners.clear();
    this.#reportEnd();
    for (const other of this.#shared.processes) other.#otherEnded();
  }

  /** Reports the end of another process, after some time. */
  #otherEnded(): void {
    for (const listener of this.#endListeners) this.#world.schedule(this.#random.whole(10, 500), this, listener);
  }

  /** Stops the process until `resume`, as SIGSTOP or a suspended machine does. */
  pause(): void {
    if (this.state !== "running") return;
    this.#world.log(() => `${this.name} is paused`);
    this.state = "paused";
  }

  /** Continues a paused process. */
  resume(): void {
    if (this.state !== "paused") return;
    this.#world.log(() => `${this.name} is resumed`);
    this.disturb(0);
    this.#world.resume(this);
  }

  /** Delivers a notification about a write, of any process. */
  notify(sessions: ReadonlySet<string> | undefined, tables: ReadonlySet<TableName>): void {
    if (this.state === "killed" || this.#watchers.size === 0) return;
    const deliver = () => {
      for (const watcher of this.#watchers) watcher(sessions, tables);
    };
    this.#world.schedule(this.#latency(), this, deliver);
    if (this.#random.chance(this.faults.duplicateNotification)) {
      this.#world.schedule(this.#random.whole(1, 400), this, deliver);
    }
  }

  #sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted === true) return reject(signal.reason);
      // A timer fires late by up to 2 ms, so that timers with the same delay fire in any order.
      const event = this.#world.schedule(ms + this.#random.whole(0, 2), this, () => {
        signal?.removeEventListener("abort", stop);
        resolve();
      });
      const stop = () => {
        event.cancelled = true;
        reject(signal?.reason);
      };
      signal?.addEventListener("abort", stop, { once: true });
    });
  }

  #latency(): number {
    if (!this.#random.chance(this.faults.slow)) return this.#random.whole(1, 12);
    const ms = this.#random.whole(300, 4000);
    this.disturb(ms);
    return ms;
  }

  /** A request whose answer may tell the process the time of the storage. */
  async #sampling<T>(what: string, apply: () => Promise<T>, hasTime: (value: T) => boolean): Promise<T> {
    const sentAt = this.#world.now;
    let skewMs: number | null = null;
    const value = await this.#request(what, () => {
      skewMs ??= this.#shared.now() - this.#world.now;
      return apply();
    });
    if (skewMs !== null && hasTime(value)) {
      const isQuick = this.#world.now - sentAt <= sampleMs;
      this.sampledSkewMs = isQuick ? skewMs : Math.max(skewMs, this.sampledSkewMs ?? skewMs);
    }
    return value;
  }

  /** Sends a request to the storage and delivers its answer to this process. `apply` runs at the storage. */
  #request<T>(what: string, apply: () => Promise<T>): Promise<T> {
    const [world, random] = [this.#world, this.#random];
    const { lostRequest, lostAnswer, busy, repeated } = this.faults;
    // The numbers are drawn before any decision, so that one fault does not shift the others.
    const [isLost, isAnswerLost, isBusy] = [random.chance(lostRequest), random.chance(lostAnswer), random.chance(busy)];
    const repeatedAfterMs = random.chance(repeated) ? random.whole(1, 3000) : null;
    const failsAfterMs = random.whole(20, 1500);
    let delayMs = this.#latency();
    const remainingMs = this.partitionedUntil - world.now;
    const isCutOff = remainingMs > 0 && random.chance(0.5);
    if (remainingMs > 0) delayMs += remainingMs;
    delayMs += Math.max(0, this.#shared.stalledUntil - world.now - delayMs);
    if (delayMs > 12) this.disturb(delayMs);
    return new Promise((resolve, reject) => {
      const answer = (after: number, act: () => void) => world.schedule(after, this, act);
      const fail = (reason: "storage_failed" | "storage_busy", how: string) => {
        this.disturb(0);
        if (reason === "storage_failed") this.failedAt = world.now;
        world.log(() => `${this.name} ${what}: ${how}`);
        reject(new RuntimeError(reason, { message: `${networkError}: ${how}` }));
      };
      if (isBusy) {
        answer(delayMs, () => fail("storage_busy", "busy"));
        return;
      }
      if (isLost || isCutOff) {
        this.#lostRequests += 1;
        if (this.#lostRequests > 1) this.disturb(failsAfterMs);
        answer(failsAfterMs, () => {
          this.#lostRequests -= 1;
          fail("storage_failed", "the request was lost");
        });
        return;
      }
      world.schedule(delayMs, null, async () => {
        const outcome = await apply().then(
          (value) => ({ ok: true, value }) as const,
          (error: unknown) => ({ ok: false, error }) as const,
        );
        world.log(() => `${this.name} ${what}${outcome.ok ? summaryOf(outcome.value) : " failed"}`);
        if (isAnswerLost || this.deafUntil > world.now) {
          answer(failsAfterMs, () => fail("storage_failed", "the answer was lost"));
        } else answer(this.#latency(), () => (outcome.ok ? resolve(outcome.value) : reject(outcome.error)));
        if (repeatedAfterMs === null) return;
        world.schedule(repeatedAfterMs, null, async () => {
          const again = await apply().then(summaryOf, () => " failed");
          world.log(() => `${this.name} ${what} arrives again${again}`);
        });
      });
    });
  }

  #read(queries: readonly Query[]): Promise<readonly (readonly Row[])[]> {
    return this.#shared.real.read(queries);
  }

  async #write(batch: Batch): Promise<Written> {
    const written = await this.#shared.write(batch);
    if (!written.ok) return written;
    await this.#shared.applied(this, batch);
    const changed = [...batch.puts.map(({ table, key }) => ({ table, key })), ...batch.removals.map(removedKey)];
    if (changed.length === 0) return written;
    const tables = new Set(changed.map(({ table }) => table));
    const sessions = sessionsOf(changed);
    for (const process of this.#shared.processes) process.notify(sessions, tables);
    return written;
  }
}

/**
 * Returns whether rows tell a runtime the time of the storage: the last lease row has its expiry, and the time until
 * it.
 */
function hasLease(queries: readonly Query[], all: readonly (readonly Row[])[]): boolean {
  const lease = all.findLast((_, index) => queries[index]?.table === "leases")?.at(-1);
  return lease !== undefined && lease.expires !== null && lease.remainingMs !== null;
}

type Changed = { readonly table: TableName; readonly key: Batch["puts"][number]["key"] };

function removedKey({ table, prefix }: Batch["removals"][number]): Changed {
  return { table, key: prefix };
}

/** The sessions of changed rows; `undefined`: a removal may concern any session. */
function sessionsOf(changed: readonly Changed[]): ReadonlySet<string> | undefined {
  const sessions = new Set<string>();
  for (const { table, key } of changed) {
    const columns = storageTables[table];
    if (columns[0].name !== "tenant" || columns[1]?.name !== "session") continue;
    const [tenant, session] = key;
    if (typeof tenant !== "string" || typeof session !== "string") return undefined;
    sessions.add(sessionName(tenant, session));
  }
  return sessions;
}

function tablesOf({ puts, removals }: Batch): string {
  return [...new Set([...puts, ...removals].map(({ table }) => table))].join(" ");
}

/** The result of a storage operation, for the transcript. */
function summaryOf(value: unknown): string {
  if (Array.isArray(value))
    return `: ${value.map((rows: unknown) => (Array.isArray(rows) ? rows.length : 0)).join(" ")}`;
  return typeof value === "object" && value !== null && "check" in value
    ? `: refused by check ${String(value.check)}`
    : "";
}
