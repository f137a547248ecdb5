// What a driver threw, as a failure of the storage. Each driver has its own way to say which error of SQLite it was.

import type { RuntimeErrorReason } from "../../model/internal.ts";

import { isEverturnError, MisuseError, RuntimeError } from "../../model/internal.ts";
import { field } from "./database.ts";

/** The errors of SQLite that are told apart, by their numbers. */
const codes = { BUSY: 5, LOCKED: 6, READONLY: 8, IOERR: 10, CORRUPT: 11, FULL: 13, CANTOPEN: 14, NOTADB: 26 };

type Told = { readonly reason: RuntimeErrorReason; readonly what: string; readonly todo: string };

/** The error to throw instead of what was thrown. What is said already, or is a bug of the caller's, stays as it is. */
export function storageError(thrown: unknown, storage: string, busyMs: number): unknown {
  if (isEverturnError(thrown) || thrown instanceof MisuseError) return thrown;
  const { reason, what, todo } = told(thrown, busyMs);
  return new RuntimeError(reason, {
    message: `the storage "${storage}" ${what}. Nothing was written. ${todo}`,
    cause: thrown,
    metadata: { storage },
  });
}

export function isBusy(thrown: unknown): boolean {
  const code = codeOf(thrown);
  return code === codes.BUSY || code === codes.LOCKED;
}

function told(thrown: unknown, busyMs: number): Told {
  switch (codeOf(thrown)) {
    case codes.BUSY:
    case codes.LOCKED:
      return {
        reason: "storage_busy",
        what: `was locked by another connection for more than ${busyMs} ms`,
        todo: "Try again; if it stays locked, look for a program that keeps a transaction open, or raise busyMs.",
      };
    case codes.FULL:
      return {
        reason: "storage_full",
        what: "has no room left: the disk is full, or the database has reached its max_page_count",
        todo: "Make room and try again; what was there before is still there.",
      };
    case codes.CORRUPT:
    case codes.NOTADB:
      return {
        reason: "corrupt_row",
        what: "cannot be read: its file is damaged, or is no SQLite database",
        todo: "Run PRAGMA integrity_check on a copy of the file, and restore a backup.",
      };
    case codes.READONLY:
      return {
        reason: "storage_failed",
        what: "cannot be written to: the handle, the file or its folder is read-only",
        todo: "Open the database for writing, and see to it that its folder can be written to.",
      };
    case codes.IOERR:
    case codes.CANTOPEN:
      return {
        reason: "storage_failed",
        what: "could not be reached: the system refused to read or write its file",
        todo: "See the cause; check the disk, and that the file and its folder are still there.",
      };
  }
  const message = thrown instanceof Error ? thrown.message : "";
  if (/(within|inside) a transaction/.test(message)) {
    return {
      reason: "storage_failed",
      what: "could not begin a transaction: one is open on its handle",
      todo: "Commit or roll back your own transaction before anything is awaited, or give the storage a handle of its own.",
    };
  }
  if (/not open/.test(message)) {
    return {
      reason: "storage_failed",
      what: "has lost its database: the handle is closed",
      todo: "Close the handle after everything that uses the storage has ended, or open another and make a new storage.",
    };
  }
  if (field(thrown, "code") === "ERR_OUT_OF_RANGE") {
    return {
      reason: "corrupt_row",
      what: "holds a row that was not written by this library: a number in it is too large",
      todo: "Restore a backup.",
    };
  }
  return { reason: "storage_failed", what: "failed", todo: "See the cause." };
}

/** The number of the error without its details: `rawCode` of libsql, `errcode` of `node:sqlite`, or the name all others give. */
function codeOf(thrown: unknown): number | null {
  for (const number of [field(thrown, "rawCode"), field(thrown, "errcode")]) {
    if (typeof number === "number" && number > 0) return number & 0xff;
  }
  const name = field(thrown, "code");
  const found = typeof name === "string" ? /^SQLITE_([A-Z]+)/.exec(name)?.[1] : undefined;
  return Object.entries(codes).find(([known]) => known === found)?.[1] ?? null;
}
