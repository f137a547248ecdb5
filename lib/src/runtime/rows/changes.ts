// Batches are put together from parts.

import type { Batch } from "./storage.ts";

/** Part of a batch. */
export type Changes = Pick<Batch, "checks" | "removals" | "puts">;

export const nothing: Changes = { checks: [], removals: [], puts: [] };

export function merge(...parts: readonly Changes[]): Changes {
  return {
    checks: parts.flatMap(({ checks }) => checks),
    removals: parts.flatMap(({ removals }) => removals),
    puts: parts.flatMap(({ puts }) => puts),
  };
}
