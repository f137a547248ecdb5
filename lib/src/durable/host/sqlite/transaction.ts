// Runs synchronous work in one transaction: all of it is committed, or none. No other code of this thread runs between
// BEGIN and COMMIT.

import type { SqliteDatabase } from "./database.ts";

/**
 * `begin` executes BEGIN. If it throws, no ROLLBACK follows: a transaction that the caller of the storage opened on the
 * same handle may be open.
 */
export function inTransaction<T>(database: SqliteDatabase, begin: () => unknown, work: () => T): T {
  begin();
  try {
    const result = work();
    database.exec("COMMIT");
    return result;
  } catch (error) {
    rollback(database);
    throw error;
  }
}

function rollback(database: SqliteDatabase): void {
  try {
    database.exec("ROLLBACK");
  } catch {
    // Some errors make SQLite roll back by itself; ROLLBACK fails then.
  }
}
