// `sqliteStorage` in its two forms: for a path, where the database runs in a worker thread, and for a handle of the
// caller, which blocks the event loop.

import type { HostStorage } from "../../rows/internal.ts";
import type { SqliteDatabase } from "./database.ts";
import type { SqliteOptions } from "./options.ts";
import type { SqlitePathOptions, SqlitePathStorage } from "./path-storage.ts";

import { MisuseError } from "../../../core/model/internal.ts";
import { describe } from "../../../core/model/parse/reading.ts";
import { handleStorage } from "./handle-storage.ts";
import { pathStorage } from "./path-storage.ts";

/**
 * Creates a storage in the SQLite file at `path`. The database runs in a worker thread: a slow disk, or a lock of
 * another process, delays operations and does not block the event loop. Writes that are pending at the same time are
 * committed together, with one fsync. The first operation, or `open()`, opens the file and creates or migrates its
 * tables; it rejects with `RuntimeError` if that fails. A write rejects with `storage_failed` when the file was
 * deleted, moved or replaced after it was opened. Call `close()` when nothing uses the storage any more.
 */
export function sqliteStorage(options: SqlitePathOptions): SqlitePathStorage;
/**
 * Creates a storage on a handle that the caller opened: a `DatabaseSync` of `node:sqlite`, or a `Database` of `libsql`.
 * Every operation blocks the event loop until it is done, for up to `busyMs` while another connection holds a lock.
 * Creates or migrates its tables before it returns; throws `RuntimeError` if that fails. Sets WAL mode, `busy_timeout`
 * and `synchronous` of the handle. The handle may be used for other work between operations. The caller closes it.
 */
export function sqliteStorage(database: SqliteDatabase, options?: SqliteOptions): HostStorage;
export function sqliteStorage(target: SqlitePathOptions | SqliteDatabase, options: SqliteOptions = {}): HostStorage {
  // Callers without a compiler pass the path itself.
  const given: unknown = target;
  if (typeof given !== "object" || given === null) {
    const what = `sqliteStorage: the first argument must be { path: … } or the handle of a database, not ${describe(given)}`;
    throw new MisuseError("invalid_argument", what);
  }
  return "prepare" in target ? handleStorage(target, options) : pathStorage(target);
}
