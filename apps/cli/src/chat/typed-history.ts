// What was typed at the prompt before, kept in a file beside the database for the arrow keys. Nobody else may read it; it never grows for long; and a
// file that cannot be read or written is no reason not to talk.

import { appendFileSync, chmodSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

const mostKept = 1000;
/** Longer entries are for once. */
const longestKept = 10_000;

export class TypedHistory {
  readonly #path: string | null;
  #entries: string[];

  /** `null`: it is kept for as long as the process lives. */
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
      appendFileSync(this.#path, `${JSON.stringify(entry)}\n`, { mode: 0o600 });
    } catch {
      // It is still there for this conversation.
    }
  }
}

/** Where it is for a database; `null` for one that is gone with the process. */
export function historyPath(database: string): string | null {
  return database === ":memory:" ? null : join(dirname(database), "chat-history.jsonl");
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
  const kept = entries.slice(-mostKept);
  try {
    // Twice as many lines as are kept: time to let the old ones go. Whoever reads meanwhile sees one file or the other.
    if (entries.length > 2 * mostKept) {
      const fresh = `${path}.${process.pid}`;
      writeFileSync(fresh, kept.map((entry) => `${JSON.stringify(entry)}\n`).join(""), { mode: 0o600 });
      renameSync(fresh, path);
    }
    chmodSync(path, 0o600);
  } catch {
    // As it is, then.
  }
  return kept;
}
