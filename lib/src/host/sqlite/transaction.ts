// Work that counts as a whole or not at all. Nothing in it waits, so nothing else of this process can come in between.

import type { SqliteDatabase } from "./database.ts";

export function inTransaction<T>(database: SqliteDatabase, begin: "BEGIN" | "BEGIN IMMEDIATE", work: () => T): T {
  // When this throws, a transaction of the caller's may be open, which is not ours to end.
  database.exec(begin);
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
    // SQLite has done it already: some errors end the transaction.
  }
}
