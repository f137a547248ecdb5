// Workers: drive open turns that no process holds, apply deadlines, and remove expired journals and unreferenced rows.
//
// A worker polls after a write to its tables, after a turn here has ended, and at least every `pollMs`. Between two
// polls it rests, longer after a slow poll (`restFactor`), so that polling never takes most of its time. The next poll
// tries again after an error, which is reported (`onError`).
//
// One iteration
//   1. a poll for due turns, with a budget of rows, pages and time (`due.ts`), so that a backlog does not delay what
//      follows
//   2. if the storage reports that a process has ended: takes over its turns among all open turns
//   3. every `upkeepMs`   applies deadlines, removes journals whose retention time is over, and takes over turns of
//                         ended processes
//   4. every `limitsMs`   starts turns that wait for a limit and that the process which freed a slot did not start;
//                         without limits every `collectMs`
//   5. every `collectMs`  removes unreferenced rows, restores missing rows of the index of due work, and folds rollups

import type { Clock } from "../../core/clock/clock.ts";
import type { VerbContext } from "../drive/context.ts";
import type { Taken } from "./ended-processes.ts";
import type { OpenCursor } from "./restore-due.ts";

import { MisuseError, toCause } from "../../core/model/internal.ts";
import { JoinedReads } from "../read/joined-reads.ts";
import { ChangeSignal } from "../rows/change-signal.ts";
import { collectUnused } from "./collect.ts";
import { DueTenants } from "./due-tenants.ts";
import { pickUpDue } from "./due.ts";
import { takeOverAllEnded, takeOverEnded } from "./ended-processes.ts";
import { expire } from "./expire.ts";
import { foldRollups } from "./fold-rollups.ts";
import { restoreDue } from "./restore-due.ts";
import { removeRetained } from "./retention.ts";

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
/** How often unused rows are collected and missing rows of the index restored, in milliseconds. */
const collectMs = 60_000;
/**
 * How many rows of the index one poll claims or moves, and how many pages it reads, at most. A poll also ends after
 * `upkeepMs`.
 */
const pollRows = 256;
const pollPages = 64;

/** How often an error that lasts is reported, in milliseconds. */
const reportMs = 60_000;

const noneTaken = { taken: 0, next: null };
const failedPoll = { driven: 0, isCutOff: false };

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
   * release has migrated it: each error once, and again every minute while it lasts. Default: one line to
   * `console.warn`.
   */
  readonly onError?: (error: unknown) => void;
};

/**
 * Runs a worker until the signal aborts or the runtime is closed. `concurrency`: how many turns this process drives at
 * once.
 */
export async function work(
  context: VerbContext,
  { concurrency = 16, signal, onError = warn }: WorkOptions,
): Promise<void> {
  const { clock, storage, turns } = context;
  if (!(signal instanceof AbortSignal) || !(concurrency >= 1) || typeof onError !== "function") {
    throw new MisuseError(
      "invalid_argument",
      "work: signal must be an AbortSignal, concurrency a number of 1 or more, and onError a function",
    );
  }
  const errors = new ReportedErrors(clock, onError);
  const changes = new ChangeSignal(storage, null, ["due", "deadlines", "retained"]);
  // A free place is filled at once: a turn that ends interrupts the wait and the rest.
  let hasFreed = false;
  let rest = new AbortController();
  const wake = () => {
    changes.notify();
    rest.abort();
  };
  const endWorker = turns.addWorker(concurrency);
  const stop = turns.onFree(() => {
    hasFreed = true;
    wake();
  });
  /** The storage has reported since the last iteration that a process has ended. */
  let hasEnded = false;
  /** Where the search for turns of ended processes continues; `null`: it is complete. */
  let endedPass: { readonly after: OpenCursor } | null = null;
  const stopEnded = storage.liveness?.onEnded?.(() => {
    hasEnded = true;
    wake();
  });
  signal.addEventListener("abort", wake);
  const tenants = new DueTenants(storage);
  const joined = { ...context, storage: { ...storage, read: new JoinedReads(storage).read } };
  let upkeepAt = Number.NEGATIVE_INFINITY;
  let collectAt = Number.NEGATIVE_INFINITY;
  let linesAt = Number.NEGATIVE_INFINITY;
  let lineCursor: string | null = null;
  let openCursor: OpenCursor = null;
  let endedCursor: OpenCursor = null;
  try {
    while (!signal.aborted && !turns.closing) {
      changes.clear();
      hasFreed = false;
      rest = new AbortController();
      const from = clock.now();
      // The budget keeps a long backlog from delaying the upkeep after the poll.
      const budget = { rows: pollRows, pages: pollPages, until: from + upkeepMs };
      const { driven, isCutOff } = await pickUpDue(context, {
        limit: concurrency,
        patient: true,
        budget,
        tenants,
      }).catch(errors.reportFor(failedPoll));
      const polledAt = clock.now();
      if (hasEnded) endedPass = { after: null };
      hasEnded = false;
      if (endedPass !== null) {
        const limits = { limit: concurrency, until: polledAt + upkeepMs };
        const page: Taken = await takeOverAllEnded(context, endedPass.after, limits).catch(errors.reportFor(noneTaken));
        endedPass = page.next === null ? null : { after: page.next };
      }
      const passEndedAt = clock.now();
      if (polledAt >= upkeepAt + upkeepMs) {
        upkeepAt = polledAt;
        const now = await clock.latest().catch(errors.reportFor(clock.now()));
        // At the same time, so that their first reads are one.
        const taking: Promise<Taken> = takeOverEnded(joined, endedCursor, concurrency).catch(
          errors.reportFor(noneTaken),
        );
        const [page] = await Promise.all([
          taking,
          expire(joined, now).catch(errors.reportFor(0)),
          removeRetained(joined, now).catch(errors.reportFor(0)),
        ]);
        endedCursor = page.next;
      }
      if (polledAt >= linesAt + (context.limits === null ? collectMs : limitsMs)) {
        linesAt = polledAt;
        lineCursor = await turns.serveAllWaiting(lineCursor).catch(errors.reportFor(null));
      }
      if (polledAt >= collectAt + collectMs) {
        collectAt = polledAt;
        await collectUnused(context).catch(errors.reportFor(undefined));
        openCursor = await restoreDue(context, openCursor).catch(errors.reportFor(null));
        await foldRollups(context).catch(errors.reportFor(undefined));
      }
      // The time of a poll that claimed turns was useful work and is not counted, nor is the search for turns of ended
      // processes.
      const overheadMs = driven > 0 ? 0 : clock.now() - passEndedAt + polledAt - from;
      const restMs = Math.min(pollMs, Math.max(minRestMs, restFactor * overheadMs));
      if (signal.aborted || turns.closing) return;
      if (!isCutOff && (endedPass === null || turns.count >= concurrency || turns.isFull || turns.isIsolating)) {
        const timer = new AbortController();
        await Promise.race([changes.changed(), clock.sleep(pollMs, timer.signal).catch(() => undefined)]);
        timer.abort();
      }
      // A poll that was cut off continues at once if a turn has ended meanwhile. Turns that only fail do not keep the
      // worker busy.
      if (!hasFreed) await clock.sleep(restMs, rest.signal).catch(() => undefined);
    }
  } finally {
    stop();
    stopEnded?.();
    endWorker();
    changes.stop();
    tenants.stop();
    signal.removeEventListener("abort", wake);
  }
}

/** Reports the errors of a worker: each kind of error at once, and while it lasts once in `reportMs`. */
class ReportedErrors {
  readonly #clock: Clock;
  readonly #onError: (error: unknown) => void;
  /** When an error was reported last, by its message. */
  readonly #reportedAt = new Map<string, number>();

  constructor(clock: Clock, onError: (error: unknown) => void) {
    this.#clock = clock;
    this.#onError = onError;
  }

  /** A function that reports an error and returns the value in place of a result. */
  reportFor<T>(value: T): (error: unknown) => T {
    return (error) => {
      const now = this.#clock.now();
      for (const [name, at] of this.#reportedAt) if (now >= at + reportMs) this.#reportedAt.delete(name);
      const name = toCause(error)?.message ?? String(error);
      if (!this.#reportedAt.has(name)) {
        this.#reportedAt.set(name, now);
        this.#report(error);
      }
      return value;
    };
  }

  #report(error: unknown): void {
    try {
      this.#onError(error);
    } catch {
      // A function of the program that reports errors must not end the worker.
    }
  }
}

function warn(error: unknown): void {
  console.warn(
    `everturn: the worker cannot reach its work, and tries again: ${toCause(error)?.message ?? String(error)}`,
  );
}
