// Workers: do what is due by the index of work (`rows/work.ts`), and remove unreferenced rows.
//
// A worker visits the index after a write to it, after a turn here has ended, and at least every `pollMs`. Between two
// visits it rests, longer after a slow one (`restFactor`), so that searching never takes most of its time. The next
// visit tries again after an error, which is reported (`onError`).
//
// One iteration
//   1. drives turns that are due, with a budget of rows, pages and time (`visit.ts`), so that a backlog does not delay
//      what follows
//   2. if the storage reports that a process has ended: takes over its turns among all open turns
//   3. every `upkeepMs`   applies deadlines, removes what has expired, and examines a page of open turns
//   4. every `limitsMs`   starts turns that wait for a limit and that the process which freed a slot did not start;
//                         without limits every `collectMs`
//   5. every `collectMs`  removes unreferenced rows, folds rollups, and copies rows of processes of an older release
//                         into the index

import type { Clock } from "../../core/clock/clock.ts";
import type { VerbContext } from "../drive/context.ts";
import type { Key } from "../rows/storage.ts";
import type { Taken } from "./open-turns.ts";
import type { Budget, Visit, WorkKind } from "./visit.ts";

import { isEverturnError, MisuseError, toCause } from "../../core/model/internal.ts";
import { oneLine } from "../drive/warn-turn-failure.ts";
import { JoinedReads } from "../read/joined-reads.ts";
import { ChangeSignal } from "../rows/change-signal.ts";
import { collectUnused } from "./collect.ts";
import { dueTurns } from "./due-turns.ts";
import { deadlines } from "./expire.ts";
import { foldRollups } from "./fold-rollups.ts";
import { importFormer } from "./import-former.ts";
import { Lanes } from "./lanes.ts";
import { reportMissingEngines } from "./missing-engines.ts";
import { takeOverAllEnded, takeOverEnded } from "./open-turns.ts";
import { expiring } from "./retention.ts";
import { WorkIndex } from "./visit.ts";

/** The longest time between two polls, in milliseconds. */
const pollMs = 1000;
/** The shortest rest between two polls, in milliseconds (a debounce of writes). */
const minRestMs = 20;
/**
 * After a poll that claimed nothing, the worker rests this many times as long as the poll took, within the two bounds
 * above.
 */
const restFactor = 9;
/** How often deadlines and retained journals are examined, in milliseconds. */
const upkeepMs = 250;
/** How often the lines of turns that wait for a limit are examined, in milliseconds, if the runtime has limits. */
const limitsMs = 1000;
/** How often unused rows are collected and rollups folded, in milliseconds. */
const collectMs = 60_000;
/**
 * How many rows of one reason a visit handles, and how many pages it reads, at most. A visit also ends after
 * `upkeepMs`.
 */
const visitRows = 256;
const visitPages = 64;

/** How often an error that lasts is reported, in milliseconds. */
const reportMs = 60_000;

const noneTaken: Taken = { taken: 0, next: null };
const failedVisit: Visit = { taken: 0, handled: 0, isCutOff: false };

/**
 * Options of `work` of a {@link Runtime}: how many turns it drives at once, when it ends, and who hears of its errors.
 */
export type WorkOptions = {
  /** How many turns this process drives at once. Default: 16. */
  readonly concurrency?: number;
  /** Ends the worker when it aborts. */
  readonly signal: AbortSignal;
  /**
   * Receives the errors after which the worker tries again, for example while the storage cannot be reached or a newer
   * release has migrated it, or with one session: each kind of error once, and again every minute while it lasts.
   * `count`: how many errors this worker has had, for metrics. Default: one line to `console.warn`.
   */
  readonly onError?: (error: unknown, count: number) => void;
};

/**
 * Runs a worker until the signal aborts or the runtime is closed. `concurrency`: how many turns this process drives at
 * once.
 */
export async function work(
  context: VerbContext,
  { concurrency = 16, signal, onError = warn }: WorkOptions,
): Promise<void> {
  if (!(signal instanceof AbortSignal) || !(concurrency >= 1) || typeof onError !== "function") {
    throw new MisuseError(
      "invalid_argument",
      "work: signal must be an AbortSignal, concurrency a number of 1 or more, and onError a function",
    );
  }
  const errors = new ReportedErrors(context.clock, onError);
  await new Worker(context, concurrency, signal, errors).run();
}

/** What a worker does beside driving turns: every `everyMs`, in milliseconds. */
type Job = { readonly everyMs: number; readonly run: (now: number) => Promise<unknown>; ranAt: number };

/** What a worker remembers of the rows that a kind of work visits. */
type Memory = { readonly index: WorkIndex; readonly lanes: Lanes };

/** One worker. */
class Worker {
  readonly #context: VerbContext;
  /** The context with reads that join: those that begin at the same time become one. */
  readonly #joined: VerbContext;
  readonly #concurrency: number;
  readonly #signal: AbortSignal;
  readonly #errors: ReportedErrors;
  readonly #changes: ChangeSignal;
  /** By reason, or by reason and queue for reasons whose queues are visited apart. */
  readonly #memory = new Map<string, Memory>();
  readonly #jobs: readonly Job[];
  /** A turn here has ended since the last iteration: a free place is filled at once. */
  #hasFreed = false;
  /** Ends the rest between two iterations. */
  #rest = new AbortController();
  /** The storage has reported since the last iteration that a process has ended. */
  #hasEnded = false;
  /** Where the search for turns of ended processes continues; `null`: it is complete. */
  #endedPass: { readonly after: Key | null } | null = null;
  /** Where the next page of open turns begins, and that of the scopes with turns that wait for a limit. */
  #openCursor: Key | null = null;
  #lineCursor: string | null = null;

  constructor(context: VerbContext, concurrency: number, signal: AbortSignal, errors: ReportedErrors) {
    const { storage } = context;
    this.#context = context;
    this.#joined = { ...context, storage: { ...storage, read: new JoinedReads(storage).read } };
    this.#concurrency = concurrency;
    this.#signal = signal;
    this.#errors = errors;
    this.#changes = new ChangeSignal(storage, null, ["work"]);
    const never = Number.NEGATIVE_INFINITY;
    this.#jobs = [
      { everyMs: upkeepMs, run: (now) => this.#upkeep(now), ranAt: never },
      { everyMs: context.limits === null ? collectMs : limitsMs, run: () => this.#serveWaiting(), ranAt: never },
      { everyMs: collectMs, run: () => this.#collect(), ranAt: never },
    ];
  }

  /** Runs until the signal aborts or the runtime is closed. */
  async run(): Promise<void> {
    const stop = this.#listen();
    try {
      while (!this.#isOver) await this.#iterate();
    } finally {
      stop();
    }
  }

  get #isOver(): boolean {
    return this.#signal.aborted || this.#context.turns.closing;
  }

  /** Wakes the worker after a change, a free place or the end of a process. Returns the function that ends it. */
  #listen(): () => void {
    const { turns, storage } = this.#context;
    const wake = (): void => {
      this.#changes.notify();
      this.#rest.abort();
    };
    const endWorker = turns.addWorker(this.#concurrency);
    const stopFree = turns.places.onFree(() => {
      this.#hasFreed = true;
      wake();
    });
    const stopEnded = storage.liveness?.onEnded?.(() => {
      this.#hasEnded = true;
      wake();
    });
    this.#signal.addEventListener("abort", wake);
    return () => {
      stopFree();
      stopEnded?.();
      endWorker();
      this.#changes.stop();
      for (const { lanes } of this.#memory.values()) lanes.stop();
      this.#signal.removeEventListener("abort", wake);
    };
  }

  async #iterate(): Promise<void> {
    const { clock } = this.#context;
    this.#changes.clear();
    this.#hasFreed = false;
    this.#rest = new AbortController();
    const from = clock.now();
    const due = dueTurns(this.#context, { limit: this.#concurrency, onError: this.#errors.report });
    const { taken, isCutOff } = await this.#visit(this.#context, due, null, from).catch(
      this.#errors.reportFor(failedVisit),
    );
    const visitedAt = clock.now();
    await this.#takeOverEnded(visitedAt);
    const passEndedAt = clock.now();
    for (const job of this.#jobs) {
      if (visitedAt < job.ranAt + job.everyMs) continue;
      job.ranAt = visitedAt;
      await job.run(visitedAt).catch(this.#errors.reportFor(undefined));
    }
    // The time of a visit that claimed turns was useful work and is not counted, nor is the search for turns of ended
    // processes.
    const overheadMs = taken > 0 ? 0 : clock.now() - passEndedAt + visitedAt - from;
    if (!this.#isOver) await this.#wait(isCutOff, overheadMs);
  }

  /** Waits for something to do, and rests. */
  async #wait(isCutOff: boolean, overheadMs: number): Promise<void> {
    const { clock, turns } = this.#context;
    const mayTakeOver = this.#endedPass !== null && turns.count < this.#concurrency && !turns.places.isFull;
    if (!isCutOff && !(mayTakeOver && !turns.places.isIsolating)) {
      const timer = new AbortController();
      await Promise.race([this.#changes.changed(), clock.sleep(pollMs, timer.signal).catch(() => undefined)]);
      timer.abort();
    }
    // A visit that was cut off continues at once if a turn has ended meanwhile. Turns that only fail do not keep the
    // worker busy.
    const restMs = Math.min(pollMs, Math.max(minRestMs, restFactor * overheadMs));
    if (!this.#hasFreed) await clock.sleep(restMs, this.#rest.signal).catch(() => undefined);
  }

  /** Visits the rows of one reason, within a budget. `horizon`: `null`: those that are due now. */
  async #visit(context: VerbContext, kind: WorkKind, horizon: number | null, from: number): Promise<Visit> {
    const { storage, clock } = context;
    const name = kind.reason === "retention" ? `${kind.reason} ${kind.queues.join(" ")}` : kind.reason;
    const { index, lanes } = this.#memory.get(name) ?? {
      index: new WorkIndex(storage, clock),
      lanes: new Lanes(storage, kind.reason),
    };
    this.#memory.set(name, { index, lanes });
    const budget: Budget = { rows: visitRows, pages: visitPages, until: from + upkeepMs };
    return index.visit(kind, lanes, horizon ?? (await clock.latest()), budget);
  }

  /** Takes over turns of processes of which the storage has reported that they have ended, for a limited time. */
  async #takeOverEnded(now: number): Promise<void> {
    if (this.#hasEnded) this.#endedPass = { after: null };
    this.#hasEnded = false;
    if (this.#endedPass === null) return;
    const limits = { limit: this.#concurrency, until: now + upkeepMs };
    const page = await takeOverAllEnded(this.#context, this.#endedPass.after, limits).catch(
      this.#errors.reportFor(noneTaken),
    );
    this.#endedPass = page.next === null ? null : { after: page.next };
  }

  /** Deadlines, retention, and a page of open turns: at the same time, so that their first reads are one. */
  async #upkeep(from: number): Promise<void> {
    const context = this.#joined;
    const now = await context.clock.latest();
    const visit = ({ kind, horizon }: { readonly kind: WorkKind; readonly horizon: number }): Promise<Visit> =>
      this.#visit(context, kind, horizon, from).catch(this.#errors.reportFor(failedVisit));
    const removeExpired = async (): Promise<void> => {
      for (const expired of expiring(context, now, this.#errors.report)) await visit(expired);
    };
    const [page] = await Promise.all([
      takeOverEnded(context, this.#openCursor, this.#concurrency).catch(this.#errors.reportFor(noneTaken)),
      visit({ kind: deadlines(context, this.#errors.report), horizon: now }),
      removeExpired(),
    ]);
    this.#openCursor = page.next;
  }

  async #serveWaiting(): Promise<void> {
    this.#lineCursor = await this.#context.turns.serveAllWaiting(this.#lineCursor).catch(this.#errors.reportFor(null));
  }

  async #collect(): Promise<void> {
    await collectUnused(this.#context).catch(this.#errors.reportFor(undefined));
    await reportMissingEngines(this.#context, this.#errors.reportFor(undefined)).catch(
      this.#errors.reportFor(undefined),
    );
    await foldRollups(this.#context).catch(this.#errors.reportFor(undefined));
    const { storage, clock } = this.#context;
    await importFormer(storage, await clock.latest()).catch(this.#errors.reportFor(undefined));
  }
}

/**
 * Counts and reports the errors of a worker: each kind of error at once, and while it lasts once in `reportMs`. Errors
 * of the library are of one kind if they have the same reason, others if they have the same message.
 */
class ReportedErrors {
  readonly #clock: Clock;
  readonly #onError: (error: unknown, count: number) => void;
  /** When an error was reported last, by its kind. */
  readonly #reportedAt = new Map<string, number>();
  #count = 0;

  constructor(clock: Clock, onError: (error: unknown, count: number) => void) {
    this.#clock = clock;
    this.#onError = onError;
  }

  /** A function that reports an error and returns the value in place of a result. */
  reportFor<T>(value: T): (error: unknown) => T {
    return (error) => {
      this.report(error);
      return value;
    };
  }

  readonly report = (error: unknown): void => {
    this.#count += 1;
    const now = this.#clock.now();
    for (const [name, at] of this.#reportedAt) if (now >= at + reportMs) this.#reportedAt.delete(name);
    const kind = isEverturnError(error) ? error.reason : (toCause(error)?.message ?? String(error));
    if (this.#reportedAt.has(kind)) return;
    this.#reportedAt.set(kind, now);
    try {
      this.#onError(error, this.#count);
    } catch {
      // A function of the program that reports errors must not end the worker.
    }
  };
}

function warn(error: unknown, count: number): void {
  const what = toCause(error)?.message ?? String(error);
  console.warn(oneLine(`everturn: the worker could not do all of its work, and tries again (error ${count}): ${what}`));
}
