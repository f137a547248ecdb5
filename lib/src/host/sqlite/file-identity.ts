// Detects that the file of an open database was deleted, renamed or replaced. SQLite would continue to write to the file it has open, which no
// other process can find: the writes would succeed and be lost with the process. One `stat` takes microseconds, so it runs before every
// COMMIT.

import { statSync } from "node:fs";

import { RuntimeError } from "../../model/internal.ts";

/** The device and inode of a file when it was opened. */
export class FileIdentity {
  readonly #path: string;
  readonly #storage: string;
  readonly #opened: string | null;

  /** Create it right after the file was opened. */
  constructor(path: string, storage: string) {
    this.#path = path;
    this.#storage = storage;
    this.#opened = identityOf(path);
  }

  /** Throws `storage_failed` if the path no longer names the file that was opened. */
  verify(): void {
    const current = identityOf(this.#path);
    if (current === this.#opened) return;
    const what = current === null ? "was deleted or moved" : "was replaced by another file";
    throw new RuntimeError("storage_failed", {
      message: `the file of the storage "${this.#storage}" ${what} while it was open (${this.#path}). Nothing was written. Restore the file, or create a new storage to use the file that is there now.`,
      metadata: { storage: this.#storage },
    });
  }
}

/** Device and inode of a path; `null`: there is no file. */
function identityOf(path: string): string | null {
  const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
  return stats === undefined ? null : `${stats.dev}:${stats.ino}`;
}
