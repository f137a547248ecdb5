// The storage on a database handle that the caller opened. Every operation is one transaction in one synchronous block,
// so the caller never finds a transaction of the storage open on its handle. The event loop is blocked for that time;
// `path-storage.ts` does not block it.

import type { HostStorage } from "../../rows/internal.ts";
import type { SqliteDatabase } from "./database.ts";
import type { SqliteOptions } from "./options.ts";

import { checkBatch, checkQuery } from "../shared/access.ts";
import { searchWith } from "../shared/search-steps.ts";
import { Watchers } from "../shared/watchers.ts";
import { fileOf, SqliteConnection } from "./connection.ts";
import { storageError } from "./failure.ts";
import { checkedOptions } from "./options.ts";
import { OtherWriters } from "./other-writers.ts";
import { processLiveness } from "./process-liveness.ts";

/** The default of `busyMs`. Shorter than for a path, because waiting blocks the event loop. */
const defaultBusyMs = 15_000;

/**
 * Storages on one handle share their watchers: `PRAGMA data_version` reports to a connection only the writes of other
 * connections.
 */
const watchersOf = new WeakMap<SqliteDatabase, Watchers>();

/** Creates the storage. Creates or migrates its tables; throws `RuntimeError` if that fails. */
export function handleStorage(database: SqliteDatabase, options: SqliteOptions): HostStorage {
  const { tablePrefix, pollMs, clock, busyMs, synchronous, readOnly, search } = checkedOptions(options, defaultBusyMs);
  /** Runs work on the handle and converts errors of the driver. */
  const attempt = <T>(storage: string, work: () => T): T => {
    try {
      return work();
    } catch (error) {
      throw storageError(error, storage, busyMs);
    }
  };
  const file = attempt(options.name ?? "sqlite", () => fileOf(database));
  const name = options.name ?? (file === "" ? "sqlite in memory" : file);
  const connection = attempt(
    name,
    () =>
      new SqliteConnection(database, {
        storage: name,
        tablePrefix,
        synchronous,
        busyTimeoutMs: busyMs,
        clock,
        readOnly,
        search,
      }),
  );
  const watchers = watchersOf.get(database) ?? new Watchers();
  watchersOf.set(database, watchers);
  const version = () => {
    try {
      return connection.dataVersion();
    } catch {
      return null;
    }
  };
  const others = new OtherWriters({ pollMs, clock }, version, () => watchers.notify(null));

  return {
    name,
    durability: file === "" ? "volatile" : "durable",
    liveness: processLiveness(),
    now: async () => Math.floor(clock.now()),
    read: async (queries) => {
      for (const query of queries) checkQuery(query);
      return attempt(name, () => connection.read(queries));
    },
    write: async (batch) => {
      checkBatch(batch);
      const [written = { ok: true }] = attempt(name, () => connection.write([batch]));
      if (written.ok && batch.removals.length + batch.puts.length > 0) watchers.notify(batch);
      return written;
    },
    watch: (changed) => {
      const ends = [watchers.add(changed), others.watch()];
      return () => {
        for (const end of ends.splice(0)) end();
      };
    },
    sizes: async () => attempt(name, () => connection.sizes()),
    ...(search ? { search: searchWith(async (query) => attempt(name, () => connection.search(query))) } : {}),
  };
}
