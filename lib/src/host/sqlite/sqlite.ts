// `sqliteStorage`.

import type { HostStorage } from "../../runtime/host-contract.ts";
import type { SqliteDatabase } from "./database.ts";
import type { SqliteOptions } from "./options.ts";

import { handleStorage } from "./handle-storage.ts";

/**
 * A storage in a SQLite database: a `DatabaseSync` of `node:sqlite`, or a `Database` of `libsql`. Creates or
 * migrates its tables before it returns; throws `RuntimeError` if that fails. Sets WAL mode, `busy_timeout` and
 * `synchronous` of the handle. The handle may be used for other work between operations. The caller closes it.
 */
export function sqliteStorage(database: SqliteDatabase, options: SqliteOptions = {}): HostStorage {
  return handleStorage(database, options);
}
