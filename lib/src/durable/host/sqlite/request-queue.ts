// The requests that the worker thread has received and not yet answered: their order, group commit, and locks of other
// connections.
//
// Theory of operation
//   The thread runs rounds: it receives every message that has arrived, answers the reads, and commits one group of
//   writes.
//     - Group commit: all batches that arrived while the previous transaction ran become one transaction, with one
//       fsync. They are applied in the order of arrival, each with its own checks, and answered after COMMIT.
//     - Reads precede waiting writes, and are answered while another connection holds the write lock. A read sees every
//       write that was answered before the read was sent. Whether it sees a write that was not yet answered is not
//       defined.
//   A lock of another connection never blocks the thread for long: SQLite waits a few milliseconds, then the requests
//   of that kind are retried after a pause in which the others are handled. Without that, a locked write would delay
//   reads (head-of-line blocking). A request that was locked out for `busyMs` fails with `storage_busy`.
//
// Failures
//   a check of a batch fails       the batch writes nothing; the other batches of the group are committed
//   a batch of a group throws      the transaction is rolled back, and the batches of the group are committed one by
//                                  one, so that only the batch that causes the error fails
//   the database cannot be opened  the request fails; the next request tries to open it again

import type { Clock } from "../../../core/clock/clock.ts";
import type { Written } from "../../rows/internal.ts";
import type { SqliteConnection } from "./connection.ts";
import type {
  OpenRequest,
  Outcome,
  ReadRequest,
  SearchRequest,
  SizesRequest,
  ThreadOptions,
  WriteRequest,
} from "./worker-messages.ts";

import { nextTask } from "../../../core/clock/clock.ts";
import { startTimer } from "../../../core/clock/timer.ts";
import { isBusy } from "./failure.ts";
import { sentError, batchSize } from "./worker-messages.ts";

/** The database that the thread has opened. */
export type OpenDatabase = {
  readonly connection: SqliteConnection;
  readonly driver: string;
  readonly schemaVersion: number;
};

type QueueOptions = Pick<ThreadOptions, "storage" | "busyMs"> & {
  readonly clock: Clock;
  /** Returns the open database, and opens it if it is not. */
  readonly database: () => OpenDatabase;
  /** Adds the requests that have arrived to the queue. */
  readonly receive: () => void;
  /** Sends outcomes, and the number of transactions that were committed for them. */
  readonly reply: (outcomes: readonly Outcome[], transactions: number) => void;
};

/** Requests that are answered before waiting writes. */
type Reading = OpenRequest | ReadRequest | SearchRequest | SizesRequest;

type Queued<T> = {
  readonly request: T;
  /** When the request was first locked out. */
  lockedSince: number | null;
};

/** How long SQLite may block the thread for a lock, in milliseconds. */
export const lockSliceMs = 10;
/** The pause before the next try, in milliseconds. */
const lockPauseMs = 10;
/** The largest group, in batches: a transaction must not delay other requests for long. */
const maxGroupBatches = 500;
/** The largest group, in characters of values. A larger batch is committed alone. */
const maxGroupSize = 4_000_000;
/** After this many rounds the thread returns to its event loop, so that timers run. */
const maxRounds = 100;

/** The queue of the worker thread. */
export class RequestQueue {
  readonly #options: QueueOptions;
  #reads: Queued<Reading>[] = [];
  #writes: Queued<WriteRequest>[] = [];
  /** The number of batches that are committed one by one, because their group failed. */
  #singles = 0;
  /** Reads, or writes, were locked out: they are not tried until the pause is over. */
  #readsPaused = false;
  #writesPaused = false;

  constructor(options: QueueOptions) {
    this.#options = options;
  }

  /** Adds a request. `run` handles it. */
  add(request: Reading | WriteRequest): void {
    if (request.type === "write") this.#writes.push({ request, lockedSince: null });
    else this.#reads.push({ request, lockedSince: null });
  }

  /** Handles the requests in the queue, and those that arrive meanwhile. */
  run(): void {
    for (let round = 0; round < maxRounds; round += 1) {
      this.#options.receive();
      if (this.#reads.length > 0 && !this.#readsPaused) this.#answerReads();
      if (this.#writes.length > 0 && !this.#writesPaused) this.#commitGroup();
      if ((this.#reads.length === 0 || this.#readsPaused) && (this.#writes.length === 0 || this.#writesPaused)) return;
    }
    void nextTask().then(() => this.run());
  }

  #answerReads(): void {
    const reads = this.#reads.splice(0);
    const outcomes: Outcome[] = [];
    for (const [index, { request }] of reads.entries()) {
      try {
        outcomes.push(this.#answer(request));
      } catch (error) {
        if (isBusy(error)) {
          this.#reads = this.#lockedOut(reads.slice(index), error);
          this.#readsPaused = true;
          this.#afterPause(() => (this.#readsPaused = false));
          break;
        }
        outcomes.push(this.#failed(request.id, error));
      }
    }
    if (outcomes.length > 0) this.#options.reply(outcomes, 0);
  }

  #answer(request: Reading): Outcome {
    const { connection, driver, schemaVersion } = this.#options.database();
    const { id } = request;
    switch (request.type) {
      case "open":
        return { type: "opened", id, driver, schemaVersion };
      case "read":
        return { type: "read", id, rows: connection.read(request.queries) };
      case "sizes":
        return { type: "sizes", id, sizes: connection.sizes() };
      case "search":
        return { type: "found", id, found: connection.search(request.search) };
    }
  }

  #commitGroup(): void {
    const group = this.#nextGroup();
    let results: readonly Written[];
    try {
      results = this.#options.database().connection.write(group.map(({ batch }) => batch));
    } catch (error) {
      return this.#groupFailed(group, error);
    }
    this.#remove(group.length);
    const outcomes = group.flatMap(({ id }, index): readonly Outcome[] => {
      const written = results[index];
      return written === undefined ? [] : [{ type: "written", id, written }];
    });
    this.#options.reply(outcomes, 1);
  }

  /** Handles an error of a group: a lock, a batch of several that throws, or a single batch that throws. */
  #groupFailed(group: readonly WriteRequest[], error: unknown): void {
    if (isBusy(error)) {
      this.#writes = this.#lockedOut(this.#writes, error);
      this.#writesPaused = true;
      this.#afterPause(() => (this.#writesPaused = false));
    } else if (group.length > 1) {
      this.#singles = group.length;
    } else {
      this.#remove(group.length);
      this.#options.reply(
        group.map(({ id }) => this.#failed(id, error)),
        0,
      );
    }
  }

  /** The batches of the next transaction. */
  #nextGroup(): readonly WriteRequest[] {
    let size = 0;
    const end = this.#writes.findIndex(({ request }, index) => {
      size += batchSize(request.batch);
      return index >= (this.#singles > 0 ? 1 : maxGroupBatches) || (index > 0 && size > maxGroupSize);
    });
    return this.#writes.slice(0, end === -1 ? undefined : end).map(({ request }) => request);
  }

  #remove(count: number): void {
    this.#writes.splice(0, count);
    this.#singles = Math.max(0, this.#singles - count);
  }

  /** Fails the requests that have been locked out for `busyMs`, and returns the others. */
  #lockedOut<T extends { readonly id: number }>(queue: readonly Queued<T>[], error: unknown): Queued<T>[] {
    const now = this.#options.clock.now();
    for (const queued of queue) queued.lockedSince ??= now;
    const expired = ({ lockedSince }: Queued<T>) => now - (lockedSince ?? now) >= this.#options.busyMs;
    const failed = queue.filter(expired).map(({ request }) => this.#failed(request.id, error));
    if (failed.length > 0) this.#options.reply(failed, 0);
    return queue.filter((queued) => !expired(queued));
  }

  #afterPause(end: () => void): void {
    startTimer(this.#options.clock, lockPauseMs, () => {
      end();
      this.run();
    });
  }

  #failed(id: number, error: unknown): Outcome {
    return { type: "failed", id, error: sentError(error, this.#options) };
  }
}
