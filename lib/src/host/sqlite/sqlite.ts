// Rows in a SQLite database, on a handle the caller opened. Every operation is one transaction in one synchronous block, so a handle is never
// found with a transaction of ours open.
//
// Lasting writes are on the disk when they are told to be written: `synchronous=FULL` in the WAL. A batch that need not last is written under
// `synchronous=NORMAL`, which leaves it to the next lasting one to wait for the disk, for both. `OFF` would be wrong: a checkpoint under it
// could lose what had lasted.

import type { Clock } from "../../clock/clock.ts";
import type { Batch, Query, Row, HostStorage, Written } from "../../runtime/host-contract.ts";
import type { SqliteDatabase } from "./database.ts";

import { systemClock } from "../../clock/clock.ts";
import { MisuseError } from "../../model/internal.ts";
import { checkBatch, checkQuery, holds } from "../shared/access.ts";
import { Watchers } from "../shared/watchers.ts";
import { field } from "./database.ts";
import { isBusy, storageError } from "./failure.ts";
import { OtherWriters } from "./other-writers.ts";
import { migrate, versionOf } from "./schema.ts";
import { Statements } from "./statements.ts";
import { inTransaction } from "./transaction.ts";

/** Options of {@link sqliteStorage}. */
export type SqliteOptions = {
  /** The prefix of table names: letters, digits and underscores. Default: `everturn_`. */
  readonly tablePrefix?: string;
  /** How often to poll for writes of other connections while a reader watches, in milliseconds. Default: 25. */
  readonly pollMs?: number;
  /** Rows expire by it, and `pollMs` is measured on it. Default: the system clock. SQLite itself measures `busyMs`. */
  readonly clock?: Clock;
  /** The name in error messages. Default: the path of the file. */
  readonly name?: string;
  /**
   * How long to wait for a lock of another connection, in milliseconds. The wait blocks the process. Default:
   * 15,000.
   */
  readonly busyMs?: number;
  /** `normal` may lose the latest writes when the machine crashes. Default: `full`. */
  readonly synchronous?: "full" | "normal";
};

/** Storages on one handle hear of each other's writes here: SQLite tells a connection only of the writes of others. */
const watchersOf = new WeakMap<SqliteDatabase, Watchers>();

/**
 * A storage in a SQLite database: a `DatabaseSync` of `node:sqlite`, or a `Database` of `libsql`. Creates or
 * migrates its tables before it returns; throws `RuntimeError` if that fails. Sets WAL mode, `busy_timeout` and
 * `synchronous` of the handle. The handle may be used for other work between operations. The caller closes it.
 */
export function sqliteStorage(database: SqliteDatabase, options: SqliteOptions = {}): HostStorage {
  const { tablePrefix, pollMs, clock, busyMs, synchronous } = checked(options);
  const file = attempt(options.name ?? "sqlite", busyMs, () => fileOf(database));
  const name = options.name ?? (file === "" ? "sqlite in memory" : file);
  attempt(name, busyMs, () => {
    database.exec(`PRAGMA busy_timeout = ${busyMs}`);
    // Before anything is changed: these may be the tables of a later release.
    versionOf(database, tablePrefix, name);
    useWal(database);
    database.exec(`PRAGMA synchronous = ${synchronous}`);
    migrate(database, tablePrefix, name);
  });

  const now = () => Math.floor(clock.now());
  const statements = new Statements(database, tablePrefix, name);
  // A statement that failed is not used again, and a handle that was closed is not kept open by those of libsql.
  const forget = () => statements.clear();
  const watchers = watchersOf.get(database) ?? new Watchers();
  watchersOf.set(database, watchers);
  const others = new OtherWriters(database, { pollMs, clock }, () => watchers.tell(null), forget);

  function answer(queries: readonly Query[]): readonly (readonly Row[])[] {
    for (const query of queries) checkQuery(query);
    return inTransaction(database, "BEGIN", () => queries.map((query) => statements.read(query, now())));
  }

  function apply(batch: Batch): Written {
    checkBatch(batch);
    const written = inTransaction(database, "BEGIN IMMEDIATE", (): Written => {
      // Read after the lock was acquired: time has passed while this connection waited for it.
      const at = now();
      const failed = batch.checks.findIndex((check) => !holds(check, statements.find(check), at));
      if (failed !== -1) return { ok: false, check: failed };
      for (const removal of batch.removals) statements.remove(removal);
      for (const put of batch.puts) statements.put(put, at);
      return { ok: true };
    });
    if (written.ok && batch.removals.length + batch.puts.length > 0) watchers.tell(batch);
    return written;
  }

  function applyFleeting(batch: Batch): Written {
    database.exec("PRAGMA synchronous = normal");
    try {
      return apply(batch);
    } finally {
      database.exec(`PRAGMA synchronous = ${synchronous}`);
    }
  }

  return {
    name,
    durability: file === "" ? "volatile" : "durable",
    read: async (queries) => attempt(name, busyMs, () => answer(queries), forget),
    write: async (batch) => {
      const fleeting = batch.lasting === false && synchronous !== "normal";
      return attempt(name, busyMs, () => (fleeting ? applyFleeting(batch) : apply(batch)), forget);
    },
    watch: (changed) => {
      const ends = [watchers.add(changed), others.watch()];
      return () => {
        for (const end of ends.splice(0)) end();
      };
    },
  };
}

/** Does something with the database; what a driver throws is thrown as a failure of the storage. */
function attempt<T>(storage: string, busyMs: number, work: () => T, failed: () => void = () => undefined): T {
  try {
    return work();
  } catch (error) {
    failed();
    throw storageError(error, storage, busyMs);
  }
}

function checked(options: SqliteOptions): Required<Omit<SqliteOptions, "name">> {
  const { tablePrefix = "everturn_", pollMs = 25, clock = systemClock } = options;
  const { busyMs = 15_000, synchronous = "full" } = options;
  const refuse = (option: keyof SqliteOptions, has: string) => {
    throw new MisuseError("invalid_argument", `${option} ${has}`, { path: [option] });
  };
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(tablePrefix)) {
    refuse("tablePrefix", "has to be letters, digits and underscores, and must not begin with a digit");
  }
  if (!Number.isSafeInteger(pollMs) || pollMs < 1)
    refuse("pollMs", "has to be a whole number of milliseconds, 1 or more");
  if (!Number.isSafeInteger(busyMs) || busyMs < 0)
    refuse("busyMs", "has to be a whole number of milliseconds, 0 or more");
  if (synchronous !== "full" && synchronous !== "normal") refuse("synchronous", 'has to be "full" or "normal"');
  return { tablePrefix, pollMs, clock, busyMs, synchronous };
}

/** The path of the database; empty for one that is gone when its handle is closed. */
function fileOf(database: SqliteDatabase): string {
  const databases = database.prepare("PRAGMA database_list").all();
  const file = field(
    databases.find((one) => field(one, "name") === "main"),
    "file",
  );
  return typeof file === "string" ? file : "";
}

/** Where there can be no WAL, as in memory, the database stays as it is. */
function useWal(database: SqliteDatabase): void {
  for (let triesLeft = 20; !hasWal(database); triesLeft -= 1) {
    try {
      database.exec("PRAGMA journal_mode = WAL");
      return;
    } catch (error) {
      // Two that change it at once may both be told so without waiting. To begin a transaction waits.
      if (!isBusy(error) || triesLeft === 0) throw error;
      inTransaction(database, "BEGIN IMMEDIATE", () => undefined);
    }
  }
}

function hasWal(database: SqliteDatabase): boolean {
  return field(database.prepare("PRAGMA journal_mode").all()[0], "journal_mode") === "wal";
}
