// The storage on a path: a worker thread opens, reads and writes the database, so that neither the disk nor a lock of
// another process blocks the event loop.
//
// Theory of operation
//   Every operation is a message to the thread, and its outcome is a message back (`worker-messages.ts`).
//   `request-queue.ts` decides the order and does the group commit. The thread starts with the first operation. The
//   thread keeps the process alive while an operation is pending or the storage is watched, and not otherwise.
//   Backpressure: the thread is sent at most `maxSentSize` characters of values at a time. Further batches wait in this
//   thread, where they are not copied.
//
// Failures
//   the thread stops      all pending operations reject with `storage_failed`. A pending batch may have been committed,
//                         so a retry reads first (Q1). The next operation starts another thread. A database in memory
//                         is lost, and every later operation rejects
//   after close()         operations reject with `storage_failed`

import type { Closeable } from "../../../core/model/internal.ts";
import type { Batch, HostStorage, Query, Row, StorageSearch, TableSize, Written } from "../../rows/internal.ts";
import type { SearchResult } from "../shared/search-steps.ts";
import type { SqliteOptions } from "./options.ts";
import type { Outcome, ThreadReply, ThreadRequest, ThreadOptions, WriteRequest } from "./worker-messages.ts";

import { resolve as absolute } from "node:path";
import { Worker } from "node:worker_threads";

import { closeable, MisuseError, RuntimeError } from "../../../core/model/internal.ts";
import { checkBatch, checkQuery } from "../shared/access.ts";
import { searchWith } from "../shared/search-steps.ts";
import { Watchers } from "../shared/watchers.ts";
import { checkedOptions } from "./options.ts";
import { processLiveness } from "./process-liveness.ts";
import { receivedError, batchSize } from "./worker-messages.ts";

/** Options of {@link sqliteStorage} on a path. The thread uses the system clock. */
export type SqlitePathOptions = Omit<SqliteOptions, "clock"> & {
  /**
   * The path of the file, which is created if it does not exist; its folder must exist. `:memory:`: a database that is
   * lost on `close`.
   */
  readonly path: string;
  /**
   * The SQLite driver. Default: `libsql` if that package is installed, otherwise `node:sqlite` (Node 22.13 and later).
   * For another driver, the URL of a module that exports a function `open` from a path to a {@link SqliteDatabase} that
   * also has `close()`.
   */
  readonly driver?: "libsql" | "node:sqlite" | URL;
};

/** The storage that {@link sqliteStorage} returns for a path. */
export type SqlitePathStorage = HostStorage &
  Closeable & {
    /**
     * Opens the database now instead of with the first operation. Rejects if it cannot be opened. May be called several
     * times.
     */
    readonly open: () => Promise<SqliteInfo>;
    /** Finishes pending operations, closes the database and ends the thread. Later operations reject. */
    readonly close: () => Promise<void>;
    /** Counters since the storage was created. */
    readonly statistics: () => SqliteStatistics;
  };

/** What {@link SqlitePathStorage} has opened. */
export type SqliteInfo = {
  /** `libsql`, `node:sqlite`, or the URL of the option `driver`. */
  readonly driver: string;
  /** The version of the tables. */
  readonly schemaVersion: number;
};

/** Counters of a {@link SqlitePathStorage}. */
type SqliteStatistics = {
  /** Batches that were answered, including those whose check failed. */
  readonly writes: number;
  /** Transactions that were committed for them: fewer than `writes` if batches were committed in groups. */
  readonly transactions: number;
  /** Reads that were answered. */
  readonly reads: number;
  /** Operations that are not answered yet. */
  readonly pending: number;
};

/** The default of `busyMs`. Waiting does not block the event loop, so it is longer than for a handle. */
const defaultBusyMs = 60_000;
/** How many characters of values the thread is sent at a time. A single larger batch is sent alone. */
const maxSentSize = 16_000_000;

/** Creates the storage. The file is opened by the first operation or by `open`. */
export function pathStorage(options: SqlitePathOptions): SqlitePathStorage {
  const { path, driver = null } = options;
  if (typeof path !== "string" || path === "") {
    throw new MisuseError("invalid_argument", "path must name a file, or be :memory:", { path: ["path"] });
  }
  const inMemory = path === ":memory:";
  const file = inMemory ? path : absolute(path);
  const name = options.name ?? (inMemory ? "sqlite in memory" : file);
  const { clock: _, ...checked } = checkedOptions(options, defaultBusyMs);
  const driverName = driver instanceof URL ? driver.href : driver;
  const watchers = new Watchers();
  const thread = new DatabaseThread({ ...checked, path: file, storage: name, driver: driverName }, () =>
    watchers.notify(null),
  );
  return closeable({
    name,
    durability: inMemory ? "volatile" : "durable",
    liveness: processLiveness(),
    open: () => thread.open(),
    read: async (queries) => {
      for (const query of queries) checkQuery(query);
      return thread.read(queries);
    },
    write: async (batch) => {
      checkBatch(batch);
      const written = await thread.write(batch);
      if (written.ok && batch.removals.length + batch.puts.length > 0) watchers.notify(batch);
      return written;
    },
    watch: (changed) => {
      const ends = [watchers.add(changed), thread.watch()];
      return () => {
        for (const end of ends.splice(0)) end();
      };
    },
    sizes: () => thread.sizes(),
    ...(checked.search ? { search: searchWith((search) => thread.search(search)) } : {}),
    statistics: () => thread.statistics(),
    close: () => thread.close(),
  } satisfies Omit<SqlitePathStorage, keyof Closeable>);
}

/** A request without an outcome. */
type Pending = {
  readonly settle: (outcome: Outcome) => void;
  readonly reject: (error: unknown) => void;
  /** The size of a batch; 0 for other requests. */
  readonly size: number;
};

/**
 * The worker thread as seen from this thread: sends requests, settles them, and starts the thread again after a crash.
 */
class DatabaseThread {
  readonly #options: ThreadOptions;
  readonly #changed: () => void;
  #worker: Worker | null = null;
  readonly #pending = new Map<number, Pending>();
  #lastId = 0;
  /** Batches that wait until the thread has answered others. */
  #unsent: { readonly request: WriteRequest; readonly size: number }[] = [];
  /** The size of the batches that were sent and are not answered. */
  #sentSize = 0;
  /** The number of active watches. */
  #watching = 0;
  #counts = { writes: 0, transactions: 0, reads: 0 };
  /** The error of every further operation; `null`: the storage is usable. */
  #ended: RuntimeError | null = null;
  #closing: Promise<void> | null = null;
  #idle: () => void = () => undefined;

  constructor(options: ThreadOptions, changed: () => void) {
    this.#options = options;
    this.#changed = changed;
  }

  open(): Promise<SqliteInfo> {
    return this.#request(
      (id) => this.#send({ type: "open", id }),
      (outcome) =>
        outcome.type === "opened" ? { driver: outcome.driver, schemaVersion: outcome.schemaVersion } : null,
    );
  }

  read(queries: readonly Query[]): Promise<readonly (readonly Row[])[]> {
    return this.#request(
      (id) => this.#send({ type: "read", id, queries }),
      (outcome) => (outcome.type === "read" ? outcome.rows : null),
    );
  }

  sizes(): Promise<readonly TableSize[]> {
    return this.#request(
      (id) => this.#send({ type: "sizes", id }),
      (outcome) => (outcome.type === "sizes" ? outcome.sizes : null),
    );
  }

  search(search: StorageSearch): Promise<SearchResult> {
    return this.#request(
      (id) => this.#send({ type: "search", id, search }),
      (outcome) => (outcome.type === "found" ? outcome.found : null),
    );
  }

  write(batch: Batch): Promise<Written> {
    const size = batchSize(batch);
    return this.#request(
      (id) => {
        this.#unsent.push({ request: { type: "write", id, batch }, size });
        this.#sendWrites();
      },
      (outcome) => (outcome.type === "written" ? outcome.written : null),
      size,
    );
  }

  /** Reports writes of other connections. Returns the function that ends it. */
  watch(): () => void {
    if (this.#ended !== null) return () => undefined;
    this.#watching += 1;
    if (this.#watching === 1) this.#send({ type: "watch", on: true });
    this.#hold();
    return () => {
      this.#watching -= 1;
      if (this.#watching === 0 && this.#worker !== null) post(this.#worker, { type: "watch", on: false });
      this.#hold();
    };
  }

  statistics(): SqliteStatistics {
    return { ...this.#counts, pending: this.#pending.size };
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#ended ??= this.#failure("is closed", "Create a new storage to use the file again.");
    if (this.#pending.size > 0) await new Promise<void>((resolve) => (this.#idle = resolve));
    const worker = this.#worker;
    if (worker === null) return;
    this.#worker = null;
    worker.ref();
    const error = await new Promise<unknown>((resolve) => {
      worker.on("message", (reply: ThreadReply) => {
        if (reply.type === "closed") resolve(reply.error === null ? null : receivedError(reply.error));
      });
      worker.on("error", (cause) => resolve(this.#failure("was not closed properly", "See the cause.", cause)));
      worker.on("exit", () => resolve(null));
      post(worker, { type: "close" });
    });
    await worker.terminate();
    if (error !== null) throw error;
  }

  /** Registers a request, sends it, and returns its outcome. */
  #request<T>(send: (id: number) => void, take: (outcome: Outcome) => T | null, size = 0): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.#ended !== null) return reject(this.#ended);
      const id = (this.#lastId += 1);
      const settle = (outcome: Outcome) => {
        const value = take(outcome);
        if (value !== null) resolve(value);
        else reject(outcome.type === "failed" ? receivedError(outcome.error) : new Error("an unexpected outcome"));
      };
      this.#pending.set(id, { settle, reject, size });
      try {
        send(id);
      } catch (error) {
        this.#pending.delete(id);
        reject(error);
      }
      this.#hold();
      return undefined;
    });
  }

  #send(request: ThreadRequest): void {
    this.#worker ??= this.#start();
    post(this.#worker, request);
  }

  /** Sends waiting batches as long as the limit allows, and at least one if none is in flight. */
  #sendWrites(): void {
    let next = this.#unsent[0];
    while (next !== undefined && (this.#sentSize === 0 || this.#sentSize + next.size <= maxSentSize)) {
      this.#unsent.shift();
      this.#send(next.request);
      this.#sentSize += next.size;
      next = this.#unsent[0];
    }
  }

  #start(): Worker {
    const worker = startWorker(this.#options);
    worker.on("message", (reply: ThreadReply) => {
      if (this.#worker === worker) this.#receive(reply);
    });
    worker.on("error", (error) => this.#stopped(worker, error));
    worker.on("exit", (code) => this.#stopped(worker, new Error(`the thread ended with exit code ${code}`)));
    if (this.#watching > 0) post(worker, { type: "watch", on: true });
    return worker;
  }

  #receive(reply: ThreadReply): void {
    if (reply.type === "changed") return this.#changed();
    if (reply.type !== "outcomes") return;
    this.#counts.transactions += reply.transactions;
    for (const outcome of reply.outcomes) {
      if (outcome.type === "written") this.#counts.writes += 1;
      if (outcome.type === "read") this.#counts.reads += 1;
      const pending = this.#pending.get(outcome.id);
      this.#pending.delete(outcome.id);
      this.#sentSize -= pending?.size ?? 0;
      pending?.settle(outcome);
    }
    this.#sendWrites();
    this.#hold();
  }

  /** Handles a thread that has crashed or could not be started: rejects everything that is pending. */
  #stopped(worker: Worker, cause: unknown): void {
    if (this.#worker !== worker) return;
    this.#worker = null;
    const why = cause instanceof Error ? cause.message : String(cause);
    const todo = "Pending writes may have been committed: read before you try again.";
    const error = this.#failure(`has lost its worker thread (${why})`, todo, cause);
    if (this.#options.path === ":memory:") this.#ended ??= error;
    const pending = [...this.#pending.values()];
    this.#pending.clear();
    this.#unsent = [];
    this.#sentSize = 0;
    for (const { reject } of pending) reject(error);
    this.#hold();
  }

  /** Keeps the process alive while an operation is pending or the storage is watched. */
  #hold(): void {
    if (this.#pending.size === 0) this.#idle();
    if (this.#pending.size + this.#watching > 0) this.#worker?.ref();
    else this.#worker?.unref();
  }

  #failure(what: string, todo: string, cause?: unknown): RuntimeError {
    const { storage } = this.#options;
    const message = `the storage "${storage}" ${what}. ${todo}`;
    return new RuntimeError("storage_failed", { message, metadata: { storage }, cause });
  }
}

function post(worker: Worker, request: ThreadRequest): void {
  worker.postMessage(request, []);
}

function startWorker(workerData: ThreadOptions): Worker {
  // The sources can be run without a build. The name is not a literal inside `new URL`, because bundlers for browsers
  // would take it for a web worker.
  const file = import.meta.url.endsWith(".ts") ? "./sqlite-worker-source.mjs" : "./sqlite-worker.js";
  // `execArgv: []`: modules that the process preloads are not meant for this thread.
  return new Worker(new URL(file, import.meta.url), { workerData, name: "everturn-sqlite", execArgv: [] });
}
