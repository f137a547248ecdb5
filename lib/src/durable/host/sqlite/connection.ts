// One connection to the database, used by both forms of the storage: directly on a handle of the caller, and in the
// worker thread on a handle of its own. Checks are evaluated and rows are built here and nowhere else. All methods are
// synchronous: a transaction never stays open between two calls.
//
// Durability
//   Lasting batches are committed under `synchronous=FULL` in WAL mode: COMMIT returns after the WAL was written to the
//   disk (fsync). A transaction in which no batch is lasting is committed under `synchronous=NORMAL`, without an fsync;
//   the fsync of the next lasting transaction covers it, because both are in the same WAL. `OFF` would be wrong: a
//   checkpoint under it could lose rows that had been reported as written.
//
// Deletion
//   `secure_delete`: SQLite overwrites deleted rows with zeros instead of only marking their space as free. Earlier
//   versions of the pages are still in the WAL, so a transaction that deleted messages is followed by a checkpoint that
//   truncates the WAL. While another connection reads an older snapshot this fails, and it is tried again after the
//   next transaction.
//
// Pages
//   A step of a turn adds a few short rows to several tables and their indexes, and SQLite writes every page that a
//   commit touches as a whole. A new file therefore has small pages: a step writes less than half of the bytes.
//   Existing files keep their pages.
//
// Invariants
//   1. One call of `write` is one transaction. A batch in it sees the rows that the batches before it wrote.
//   2. A batch whose check fails writes nothing and does not affect the other batches of its transaction.
//   3. Any other error rolls the whole transaction back, and nothing of it was written.

import type { Clock } from "../../../core/clock/clock.ts";
import type { Batch, Query, Row, StorageSearch, TableSize, Written } from "../../rows/internal.ts";
import type { SearchResult } from "../shared/search-steps.ts";
import type { SqliteDatabase } from "./database.ts";

import { holds } from "../shared/access.ts";
import { checkTables, readOnlyError } from "../shared/read-only.ts";
import { DatabaseFiles } from "./database-files.ts";
import { field, integer } from "./database.ts";
import { isBusy } from "./failure.ts";
import { migrate, missingTables, versionOf } from "./schema.ts";
import { SearchIndex } from "./search.ts";
import { Statements } from "./statements.ts";
import { inTransaction } from "./transaction.ts";
import { beginImmediate } from "./write-lock.ts";

export type ConnectionOptions = {
  /** Name of the storage in error messages. */
  readonly storage: string;
  readonly tablePrefix: string;
  readonly synchronous: "full" | "normal";
  /** How long an operation waits for a lock of another connection, in milliseconds. The wait blocks the thread. */
  readonly busyTimeoutMs: number;
  /** The clock by which rows expire. */
  readonly clock: Clock;
  /** The connection writes nothing: `PRAGMA query_only`. */
  readonly readOnly: boolean;
  /** Messages are indexed for searches. */
  readonly search: boolean;
};

/** How many older messages a search and a write index. */
const indexedBySearch = 100;
const indexedByWrite = 10;

/** The pages of a new file, in bytes. */
const pageBytes = 512;
/**
 * How large the WAL grows before its pages are moved into the database file. SQLite's default is 1000 pages of 4 KiB.
 */
const checkpointBytes = 4_096_000;

export class SqliteConnection {
  readonly #database: SqliteDatabase;
  readonly #busyTimeoutMs: number;
  readonly #synchronous: "full" | "normal";
  readonly #statements: Statements;
  readonly #clock: Clock;
  /** The name of a read-only storage; `null`: the storage may be written. */
  readonly #readOnly: string | null;
  readonly #search: SearchIndex | null;
  /** The files of the database; `null`: it is in memory. */
  readonly #files: DatabaseFiles | null;
  /** Deleted rows may still be in the WAL. */
  #isTruncationDue = false;

  /**
   * Creates the tables, or migrates those of an older release. Throws `newer_schema` before anything is changed if a
   * later release wrote them. A read-only connection changes nothing, and throws `storage_failed` if tables are
   * missing.
   */
  constructor(
    database: SqliteDatabase,
    { storage, tablePrefix, synchronous, busyTimeoutMs, clock, readOnly, search }: ConnectionOptions,
  ) {
    database.exec(`PRAGMA busy_timeout = ${busyTimeoutMs}`);
    if (readOnly) {
      database.exec("PRAGMA query_only = ON");
      versionOf(database, tablePrefix, storage);
      checkTables(missingTables(database, tablePrefix), storage);
    } else {
      versionOf(database, tablePrefix, storage);
      setPageSize(database);
      useWal(database);
      limitWal(database);
      database.exec(`PRAGMA synchronous = ${synchronous}`);
      database.exec("PRAGMA secure_delete = ON");
      migrate(database, tablePrefix, storage);
    }
    this.#search = search ? new SearchIndex(database, tablePrefix, readOnly) : null;
    this.#readOnly = readOnly ? storage : null;
    this.#database = database;
    this.#busyTimeoutMs = busyTimeoutMs;
    this.#synchronous = synchronous;
    this.#statements = new Statements(database, tablePrefix, storage);
    this.#clock = clock;
    const file = fileOf(database);
    this.#files = file === "" ? null : new DatabaseFiles(file, storage);
  }

  /** Answers all queries from one snapshot. */
  read(queries: readonly Query[]): readonly (readonly Row[])[] {
    return this.#attempt(() =>
      inTransaction(
        this.#database,
        () => this.#database.exec("BEGIN"),
        () => queries.map((query) => this.#statements.read(query, this.#now())),
      ),
    );
  }

  /**
   * Writes batches in one transaction and returns the result of each. Throws `storage_failed` if a file of the database
   * was deleted or replaced.
   */
  write(batches: readonly Batch[]): readonly Written[] {
    if (this.#readOnly !== null) throw readOnlyError(this.#readOnly);
    const begin = () => beginImmediate(this.#database, this.#busyTimeoutMs);
    const commit = () =>
      inTransaction(this.#database, begin, () => {
        const results = batches.map((batch) => this.#apply(batch));
        this.#files?.verify();
        return results;
      });
    const lasting = this.#synchronous === "normal" || batches.some((batch) => batch.lasting !== false);
    const written = this.#attempt(() => (lasting ? commit() : this.#withoutSync(commit)));
    if (batches.some((batch, index) => written[index]?.ok === true && deletesSession(batch)))
      this.#isTruncationDue = true;
    if (this.#isTruncationDue) this.#isTruncationDue = !this.#truncateWal();
    this.#indexOlder(indexedByWrite);
    return written;
  }

  /** Searches the index, after it has added some messages that are older than the index. */
  search(search: StorageSearch): SearchResult {
    const isComplete = this.#indexOlder(indexedBySearch);
    return this.#attempt(() => ({ hits: this.#search?.find(search) ?? [], isComplete }));
  }

  /** Adds messages to the index that are older than the index. Does not fail: the next call continues. */
  #indexOlder(limit: number): boolean {
    if (this.#search === null || this.#readOnly !== null) return true;
    try {
      return this.#search.step(limit, () => this.#database.exec("BEGIN IMMEDIATE"));
    } catch {
      return false;
    }
  }

  /** Moves the WAL into the database file and truncates it. Does not wait: false if another connection uses the WAL. */
  #truncateWal(): boolean {
    this.#database.exec("PRAGMA busy_timeout = 0");
    try {
      return integer(field(this.#database.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get(), "busy")) === 0;
    } catch (error) {
      if (isBusy(error)) return false;
      // The transaction is committed, so this must not fail it. A damaged file is reported by the next operation.
      return true;
    } finally {
      this.#database.exec(`PRAGMA busy_timeout = ${this.#busyTimeoutMs}`);
    }
  }

  /** The sizes of the tables. Counts their rows, which reads every table once. */
  sizes(): readonly TableSize[] {
    return this.#attempt(() => this.#statements.sizes());
  }

  /** A number that changes when another connection has written. It is polled, so a deleted log is noticed here, too. */
  dataVersion(): number | null {
    this.#saveLog();
    return this.#attempt(() => integer(field(this.#database.prepare("PRAGMA data_version").get(), "data_version")));
  }

  /** Drops the prepared statements: those of libsql keep a handle open that was closed. */
  release(): void {
    this.#statements.clear();
  }

  #apply(batch: Batch): Written {
    // Read after the lock was acquired: time has passed while this connection waited for it.
    const now = this.#now();
    const failed = batch.checks.findIndex((check) => !holds(check, this.#statements.find(check), now));
    if (failed !== -1) return { ok: false, check: failed };
    for (const removal of batch.removals) this.#statements.remove(removal);
    for (const put of batch.puts) this.#statements.put(put, now);
    return { ok: true };
  }

  #now(): number {
    return Math.floor(this.#clock.now());
  }

  #withoutSync<T>(work: () => T): T {
    this.#database.exec("PRAGMA synchronous = normal");
    try {
      return work();
    } finally {
      this.#database.exec(`PRAGMA synchronous = ${this.#synchronous}`);
    }
  }

  /** Moves what a deleted log holds to the database file, before this process ends and nothing has it open any more. */
  #saveLog(): void {
    if (this.#readOnly !== null || this.#files?.isLogDeleted !== true) return;
    try {
      this.#database.exec("PRAGMA wal_checkpoint(PASSIVE)");
    } catch {
      // Another connection is doing the same, or the disk is full: the next call tries again.
    }
  }

  /** A statement that failed is not used again. A lock says nothing about the statements. */
  #attempt<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      if (!isBusy(error)) this.release();
      this.#saveLog();
      throw error;
    }
  }
}

/** Returns whether a batch deletes the messages of a session. */
function deletesSession({ removals }: Batch): boolean {
  return removals.some(({ table, prefix }) => table === "entries" && prefix.length === 2);
}

/** The path of the database; empty for one that is gone when its handle is closed. */
export function fileOf(database: SqliteDatabase): string {
  const databases = database.prepare("PRAGMA database_list").all();
  const file = field(
    databases.find((one) => field(one, "name") === "main"),
    "file",
  );
  return typeof file === "string" ? file : "";
}

/** A file has the size of pages with which it is created: SQLite ignores another one afterwards. */
function setPageSize(database: SqliteDatabase): void {
  if (pragma(database, "page_count") === 0) database.exec(`PRAGMA page_size = ${pageBytes}`);
}

function limitWal(database: SqliteDatabase): void {
  const pages = Math.ceil(checkpointBytes / (pragma(database, "page_size") ?? pageBytes));
  database.exec(`PRAGMA wal_autocheckpoint = ${pages}`);
}

function pragma(database: SqliteDatabase, name: string): number | null {
  return integer(field(database.prepare(`PRAGMA ${name}`).all()[0], name));
}

/** Where WAL mode is not possible, as in memory, the database keeps its journal mode. */
function useWal(database: SqliteDatabase): void {
  for (let triesLeft = 20; !hasWal(database); triesLeft -= 1) {
    try {
      database.exec("PRAGMA journal_mode = WAL");
      return;
    } catch (error) {
      // Two connections that change the mode at once may both get SQLITE_BUSY without waiting. BEGIN IMMEDIATE waits.
      if (!isBusy(error) || triesLeft === 0) throw error;
      inTransaction(
        database,
        () => database.exec("BEGIN IMMEDIATE"),
        () => undefined,
      );
    }
  }
}

function hasWal(database: SqliteDatabase): boolean {
  return field(database.prepare("PRAGMA journal_mode").all()[0], "journal_mode") === "wal";
}
