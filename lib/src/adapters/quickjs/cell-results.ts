// Results of cells that the sandbox and the pool of workers both return, and the limits in their messages.

import type { CellLimits, CellResult } from "../../engine/internal.ts";

import { defaultCellLimits } from "../../engine/internal.ts";

/** The unit of each limit in error messages. */
const limitUnits: { readonly [L in keyof CellLimits]: string } = {
  instructions: "instructions",
  memoryBytes: "bytes of memory",
  calls: "calls",
  output: "characters of output",
  data: "characters of arguments and results",
  timeMs: "milliseconds",
};

/** The result of a cell whose turn was cancelled. */
export const aborted: CellResult = { type: "failed", reason: "failed", message: "aborted" };

export function failed(message: string): CellResult {
  return { type: "failed", reason: "failed", message };
}

export function diverged(message: string): CellResult {
  return { type: "failed", reason: "diverged", message };
}

/** The result of a cell that exceeded a limit. */
export function limitExceeded(limit: keyof CellLimits, limits: CellLimits): CellResult {
  const message = `more than ${limits[limit]} ${limitUnits[limit]} (limits.${limit})`;
  return { type: "failed", reason: "limit_exceeded", message };
}

/** The lower of two limits, for each limit. A limit that neither sets has its default. */
export function lowerLimits(cellLimits: Partial<CellLimits>, executorLimits: Partial<CellLimits>): CellLimits {
  const lower = (limit: keyof CellLimits): number =>
    Math.min(cellLimits[limit] ?? defaultCellLimits[limit], executorLimits[limit] ?? Infinity);
  return {
    instructions: lower("instructions"),
    memoryBytes: lower("memoryBytes"),
    calls: lower("calls"),
    output: lower("output"),
    data: lower("data"),
    timeMs: lower("timeMs"),
  };
}
