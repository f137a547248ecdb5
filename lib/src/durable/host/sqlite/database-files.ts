// Detects that a file of an open database was deleted, renamed or replaced: the database file, or its write-ahead log.
// SQLite would continue to write to the file it has open, which no other process can find: the writes would succeed and
// be lost with the process. One `stat` takes microseconds, so both files are examined before every COMMIT.
//
// What the log held when it was deleted exists only in files that processes have open. A checkpoint writes it to the
// database file (`isLogDeleted`). The connection is not used for writes after that: the shared memory beside the log
// describes a log that new connections cannot open.

import { realpathSync, statSync } from "node:fs";

import { RuntimeError } from "../../../core/model/internal.ts";

/** The files of a database as they were when it was opened. */
export class DatabaseFiles {
  readonly #path: string;
  readonly #log: string;
  readonly #storage: string;
  readonly #opened: string | null;
  /** The log; `null`: there is none, because the database is not in WAL mode. */
  #openedLog: string | null;

  /** Create it right after the database was opened and read: SQLite then has both files open. */
  constructor(path: string, storage: string) {
    this.#path = path;
    this.#log = `${realPath(path)}-wal`;
    this.#storage = storage;
    this.#opened = identityOf(path);
    this.#openedLog = identityOf(this.#log);
  }

  /** Throws `storage_failed` if a path no longer names the file that was opened. */
  verify(): void {
    const current = identityOf(this.#path);
    if (current !== this.#opened) {
      throw this.#lost(
        `the file of the storage "${this.#storage}" ${whatHappened(current)} while it was open (${this.#path}). Nothing was written. Restore the file, or create a new storage to use the file that is there now.`,
      );
    }
    const log = identityOf(this.#log);
    this.#openedLog ??= log;
    if (log === this.#openedLog) return;
    const saved = log === null ? " What it held was moved to the database file." : "";
    throw this.#lost(
      `the write-ahead log of the storage "${this.#storage}" (${this.#log}) ${whatHappened(log)} while it was open. Nothing was written.${saved} Stop and restart every process that uses the file, and never delete the files beside it.`,
    );
  }

  /** Was the log deleted, and not created again by another process? */
  get isLogDeleted(): boolean {
    return this.#openedLog !== null && identityOf(this.#log) === null;
  }

  #lost(message: string): RuntimeError {
    return new RuntimeError("storage_failed", { message, metadata: { storage: this.#storage } });
  }
}

function whatHappened(current: string | null): string {
  return current === null ? "was deleted or moved" : "was replaced by another file";
}

/** SQLite puts the log beside the file that a symbolic link names. */
function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

/** Device and inode of a path; `null`: there is no file. */
function identityOf(path: string): string | null {
  const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
  return stats === undefined ? null : `${stats.dev}:${stats.ino}`;
}
