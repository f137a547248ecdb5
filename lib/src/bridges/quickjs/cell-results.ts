// Results of cells that the sandbox and the pool of workers both return, and the limits in their messages.

import type { CellLimits, CellResult } from "../../core/engine/internal.ts";

/** The unit of each limit in error messages. */
const limitUnits: { readonly [L in keyof CellLimits]: string } = {
  instructions: "instructions",
  memoryBytes: "bytes of memory",
  calls: "calls",
  output: "characters of output",
  data: "characters of arguments and results",
  timeMs: "milliseconds",
  totalTimeMs: "milliseconds in all runs of the cell",
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
