// Runs operations on connections of a pool: opens the pool, migrates the tables before the first operation, and tries
// again what is safe.
//
// What is tried again, for up to `retryMs`:
//   a read                any loss of the connection, and refusals that pass
//   a write               if no connection was available, or a transaction was lost before its commit was sent; and
//                         refusals that pass, because the server has rolled the transaction back
//   both                  a read-only server, over a new connection: after a failover the address leads to the new
//                         primary
//   A write whose connection was lost after the statement or the commit was sent rejects: the batch may have been
//   committed.

import type { PostgresConnection, PostgresPool } from "./client.ts";
import type { WriteOutcome } from "./failure.ts";
import type { CheckedOptions } from "./options.ts";

import { monotonicNow } from "../../../core/clock/clock.ts";
import { RuntimeError } from "../../../core/model/internal.ts";
import { checkTables } from "../shared/read-only.ts";
import { openPool } from "./client.ts";
import { isUsableAfter, kindOf, NotCommitted, storageError } from "./failure.ts";
import { migrate, missingTables } from "./migration.ts";
import { versionOf } from "./schema.ts";

/** The pause before the first retry and the longest one, in milliseconds. */
const pauses = { first: 10, longest: 500 };

/** Whether an operation may run twice. */
type Repeat = "read" | "write";

/** The pool of a storage, and the state of its tables. */
export class Database {
  readonly #options: CheckedOptions;
  #pool: Promise<PostgresPool> | null = null;
  #closePool: () => Promise<void> = async () => undefined;
  #migrated: Promise<void> | null = null;
  #isClosed = false;
  /** Operations that were tried again. */
  retries = 0;

  constructor(options: CheckedOptions) {
    this.#options = options;
  }

  /** Opens the pool and creates or migrates the tables, once. A failure is not remembered. */
  open(): Promise<void> {
    this.#migrated ??= this.#attempt("read", async (connection) => {
      const { name, mode, readOnly, search } = this.#options;
      if (!readOnly) return migrate(connection, this.#options, name, { portable: mode === "transaction", search });
      await versionOf(connection, this.#options, name);
      checkTables(await missingTables(connection, this.#options, name), name);
    }).catch((error: unknown) => {
      this.#migrated = null;
      throw error;
    });
    return this.#migrated;
  }

  /** Runs an operation on a connection, after the tables exist. */
  async run<T>(repeat: Repeat, work: (connection: PostgresConnection) => Promise<T>): Promise<T> {
    await this.open();
    return this.#attempt(repeat, work);
  }

  /** Takes a connection from the pool that the caller keeps and releases. */
  async connect(): Promise<PostgresConnection> {
    if (this.#isClosed) throw this.#closedError();
    const { source } = this.#options;
    this.#pool ??= "pool" in source ? Promise.resolve(source.pool) : this.#openPool(source.url);
    const pool = await this.#pool.catch((error: unknown) => {
      this.#pool = null;
      throw error;
    });
    const connection = await pool.connect();
    listenToErrors(connection);
    return connection;
  }

  async #openPool(url: string): Promise<PostgresPool> {
    const pool = await openPool(url, this.#options);
    this.#closePool = () => pool.end();
    return pool;
  }

  /** Later operations reject. Closes the pool, unless the caller opened it. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const closePool = this.#closePool;
    this.#closePool = async () => undefined;
    await closePool();
  }

  async #attempt<T>(repeat: Repeat, work: (connection: PostgresConnection) => Promise<T>): Promise<T> {
    const { clock, retryMs, name } = this.#options;
    const deadline = monotonicNow(clock) + retryMs;
    for (let pause = pauses.first; ; pause = Math.min(2 * pause, pauses.longest)) {
      const outcome = await this.#once(work);
      if (outcome.ok) return outcome.value;
      const { error, mayBeWritten } = outcome;
      const kind = kindOf(error);
      const written: WriteOutcome = repeat === "write" && mayBeWritten && kind === "lost" ? "unknown" : "not_written";
      const mayRepeat = kind !== "failed" && written === "not_written" && !this.#isClosed;
      if (!mayRepeat || monotonicNow(clock) + pause > deadline) throw storageError(error, name, written);
      this.retries += 1;
      await clock.sleep(pause);
    }
  }

  async #once<T>(work: (connection: PostgresConnection) => Promise<T>): Promise<Attempt<T>> {
    let connection: PostgresConnection;
    try {
      connection = await this.connect();
    } catch (error) {
      return { ok: false, error, mayBeWritten: false };
    }
    try {
      const value = await work(connection);
      connection.release();
      return { ok: true, value };
    } catch (thrown) {
      const isCertain = thrown instanceof NotCommitted;
      const error = isCertain ? thrown.cause : thrown;
      // A connection that failed, whose state is not known, or that leads to a read-only server, is not used again.
      connection.release(!isUsableAfter(error));
      return { ok: false, error, mayBeWritten: !isCertain };
    }
  }

  #closedError(): RuntimeError {
    const { name } = this.#options;
    const message = `the storage "${name}" is closed. Create a new storage to use the database again.`;
    return new RuntimeError("storage_failed", { message, metadata: { storage: name } });
  }
}

/** Connections with a listener for errors. Several storages may share a pool. */
const heard = new WeakSet<PostgresConnection>();

/**
 * Listens to errors of a connection. A connection that ends while it is taken from the pool and runs no statement emits
 * `error`, and without a listener that would end the process. The next statement over it rejects.
 */
function listenToErrors(connection: PostgresConnection): void {
  if (heard.has(connection)) return;
  heard.add(connection);
  connection.on?.("error", () => undefined);
}

type Attempt<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: unknown; readonly mayBeWritten: boolean };
