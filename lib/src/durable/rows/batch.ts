// Parts of a conditional batch, and how they are merged. Builders in `rows/`, `drive/` and `accept/` each return
// `Changes`; the caller merges them into the one batch it writes, so rows that belong together are written together or
// not at all.

import type { Batch } from "./storage.ts";

/** Part of a batch: the checks it depends on, the rows it removes and the rows it writes. */
export type Changes = Pick<Batch, "checks" | "removals" | "puts">;

/** The empty part. */
export const noChanges: Changes = { checks: [], removals: [], puts: [] };

/** Merges parts in order. The storage applies all checks first, then all removals, then all puts. */
export function merge(...parts: readonly Changes[]): Changes {
  return {
    checks: parts.flatMap(({ checks }) => checks),
    removals: parts.flatMap(({ removals }) => removals),
    puts: parts.flatMap(({ puts }) => puts),
  };
}

/** A part that only writes rows. */
export function putting(...puts: Changes["puts"]): Changes {
  return { ...noChanges, puts };
}
