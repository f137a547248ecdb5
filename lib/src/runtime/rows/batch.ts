// Batches are assembled from parts.

import type { Batch } from "./storage.ts";

/** Part of a batch: what it relies on, removes and writes. */
export type Changes = Pick<Batch, "checks" | "removals" | "puts">;

export const noChanges: Changes = { checks: [], removals: [], puts: [] };

export function merge(...parts: readonly Changes[]): Changes {
  return {
    checks: parts.flatMap(({ checks }) => checks),
    removals: parts.flatMap(({ removals }) => removals),
    puts: parts.flatMap(({ puts }) => puts),
  };
}

/** Changes that only write rows. */
export function putting(...puts: Changes["puts"]): Changes {
  return { ...noChanges, puts };
}
