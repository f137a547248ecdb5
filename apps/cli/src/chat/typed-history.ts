// The input history of the prompt (arrow keys), stored as JSON lines in a file next to the database, with mode 0600.
// The file is compacted when it has twice as many entries as are kept. Errors of the file are ignored: the history then
// lasts as long as the process.

import { lstatSync, chmodSync, readFileSync, renameSync } from "node:fs";
import { dirname, join } from "node:path";

import { appendPrivateFile, writePrivateFile } from "../private-file.ts";

const mostKept = 1000;
/** Longer entries are not written to the file, in characters. */
const longestKept = 10_000;

export class TypedHistory {
  readonly #path: string | null;
  #entries: string[];

  /** `null`: no file; the history lasts as long as the process. */
  constructor(path: string | null) {
    this.#path = path;
    this.#entries = path === null ? [] : load(path);
  }

  get entries(): readonly string[] {
    return this.#entries;
  }

  add(entry: string): void {
    if (entry.trim() === "" || entry === this.#entries.at(-1)) return;
    this.#entries.push(entry);
    if (this.#path === null || entry.length > longestKept) return;
    try {
      appendPrivateFile(this.#path, `${JSON.stringify(entry)}\n`);
    } catch {
      // The entry is still in memory.
    }
  }
}

/** The path of the history file for a database; `null` for a database that is no file. */
export function historyPath(database: string | null): string | null {
  return database === null ? null : join(dirname(database), "chat-history.jsonl");
}

function load(path: string): string[] {
  let lines: readonly string[];
  try {
    lines = readFileSync(path, "utf8").split("\n");
  } catch {
    return [];
  }
  const entries = lines.flatMap((line): readonly string[] => {
    try {
      const entry: unknown = JSON.parse(line);
      return typeof entry === "string" ? [entry] : [];
    } catch {
      return [];
    }
  });
  const newest = entries.slice(-mostKept);
  try {
    // Compaction at twice the size makes its cost amortised constant. The rename is atomic: a reader sees the old or
    // the new file.
    if (entries.length > 2 * mostKept) {
      const compacted = `${path}.${process.pid}`;
      writePrivateFile(compacted, newest.map((entry) => `${JSON.stringify(entry)}\n`).join(""));
      renameSync(compacted, path);
    }
    if (!lstatSync(path).isSymbolicLink()) chmodSync(path, 0o600);
  } catch {
    // The file stays as it is.
  }
  return newest;
}
