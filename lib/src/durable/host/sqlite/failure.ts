// Converts errors of SQLite drivers to errors of the storage contract. Each driver reports the SQLite result code in
// another field (`sqliteCode`). Every message says what happened, that nothing was written, and what to do.

import type { RuntimeErrorReason } from "../../../core/model/internal.ts";

import { isEverturnError, MisuseError, RuntimeError } from "../../../core/model/internal.ts";
import { field } from "./database.ts";

/** Primary result codes of SQLite (https://www.sqlite.org/rescode.html) that are distinguished here. */
const codes = { BUSY: 5, LOCKED: 6, READONLY: 8, IOERR: 10, CORRUPT: 11, FULL: 13, CANTOPEN: 14, NOTADB: 26 };

/** A reason, what happened to the storage, and what to do. */
type Explanation = {
  readonly reason: RuntimeErrorReason;
  readonly what: string;
  readonly todo: string;
  /**
   * The file could not be accessed. A commit whose file could not be flushed may be found by a later recovery of the
   * file.
   */
  readonly transient?: true;
};

/** The error to throw in place of a driver's error. Errors of this library are returned unchanged. */
export function storageError(thrown: unknown, storage: string, busyMs: number): unknown {
  if (isEverturnError(thrown) || thrown instanceof MisuseError) return thrown;
  const { reason, what, todo, ...rest } = explain(thrown, busyMs);
  return new RuntimeError(reason, {
    message: `the storage "${storage}" ${what}. Nothing was written. ${todo}`,
    cause: thrown,
    metadata: { storage, ...rest },
  });
}

/**
 * Returns whether another connection held a lock: `SQLITE_BUSY` or `SQLITE_LOCKED`. Nothing was written, and a retry
 * may succeed.
 */
export function isBusy(thrown: unknown): boolean {
  const code = sqliteCode(thrown);
  return code === codes.BUSY || code === codes.LOCKED;
}

function explain(thrown: unknown, busyMs: number): Explanation {
  switch (sqliteCode(thrown)) {
    case codes.BUSY:
    case codes.LOCKED:
      return {
        reason: "storage_busy",
        what: `was locked by another connection for more than ${busyMs} ms`,
        todo: "Try again; if it stays locked, look for a program that holds a transaction open, or raise busyMs.",
      };
    case codes.FULL:
      return {
        reason: "storage_full",
        what: "has no space left: the disk is full, or the database has reached its max_page_count",
        todo: "Free disk space and try again; earlier data is intact.",
      };
    case codes.CORRUPT:
    case codes.NOTADB:
      return {
        reason: "corrupt_row",
        what: "cannot be read: its file is damaged, or is not a SQLite database",
        todo: "Run PRAGMA integrity_check on a copy of the file, and restore a backup.",
      };
    case codes.READONLY:
      return {
        reason: "storage_failed",
        what: "cannot be written to: the handle, the file or its folder is read-only",
        todo: "Open the database for writing, and make its folder writable.",
      };
    case codes.IOERR:
    case codes.CANTOPEN:
      return {
        reason: "storage_failed",
        what: "could not be accessed: the operating system refused to read or write its file",
        todo: "See the cause; check the disk, and that the file and its folder exist.",
        transient: true,
      };
  }
  const message = thrown instanceof Error ? thrown.message : "";
  if (/(within|inside) a transaction/.test(message)) {
    return {
      reason: "storage_failed",
      what: "could not begin a transaction: one is open on its handle",
      todo: "Commit or roll back your own transaction before you await anything, or give the storage a handle of its own.",
    };
  }
  if (/not open/.test(message)) {
    return {
      reason: "storage_failed",
      what: "has lost its database: the handle is closed",
      todo: "Close the handle only after everything that uses the storage has ended, or open another handle and create a new storage.",
    };
  }
  if (field(thrown, "code") === "ERR_OUT_OF_RANGE") {
    return {
      reason: "corrupt_row",
      what: "contains a row that was not written by this library: a number in it is too large",
      todo: "Restore a backup.",
    };
  }
  return { reason: "storage_failed", what: "failed", todo: "See the cause." };
}

/**
 * The primary result code of an error: from `rawCode` of libsql, `errcode` of `node:sqlite`, or the name in `code` of
 * other drivers.
 */
function sqliteCode(thrown: unknown): number | null {
  for (const number of [field(thrown, "rawCode"), field(thrown, "errcode")]) {
    if (typeof number === "number" && number > 0) return number & 0xff;
  }
  const name = field(thrown, "code");
  const codeName = typeof name === "string" ? /^SQLITE_([A-Z]+)/.exec(name)?.[1] : undefined;
  return Object.entries(codes).find(([candidate]) => candidate === codeName)?.[1] ?? null;
}
