// What can run a cell of code. A cell is run from its beginning each time, with the answers its calls were given so far; an executor may keep
// a paused one at hand, but must not depend on it.
//
// Rules:
//   1. The same code with the same answers makes the same calls: there is no clock in a cell, and no dice.
//   2. Calls are compared with the recorded ones, by name and arguments, in order; one that differs ends the cell as `diverged`.
//   3. Limits count instructions, memory, calls and output, never time.

import type { CellCall, Json, JsonObject, ToolSpec } from "../../model/internal.ts";

/** Runs cells of code for the code protocol. Running a cell again with the same answers must make the same calls. */
export type CodeExecutor = {
  readonly name: string;
  readonly version: string;
  /** The language it takes, as it stands behind the ticks of a cell. */
  readonly language: string;
  readonly run: (cell: CellRun) => Promise<CellResult>;
};

export type CellRun = {
  readonly cellId: string;
  readonly code: string;
  /** The calls the cell has made so far, and their answers: every one of them has one. */
  readonly calls: readonly CellCall[];
  /** The functions a cell can call. */
  readonly tools: readonly ToolSpec[];
  readonly limits: CellLimits;
  readonly signal: AbortSignal;
};

export type CellLimits = {
  /** Steps of the interpreter, as it counts them. */
  readonly instructions: number;
  readonly memoryBytes: number;
  readonly calls: number;
  /** Characters a cell may print. */
  readonly output: number;
};

export const defaultCellLimits: CellLimits = {
  instructions: 50_000_000,
  memoryBytes: 64 * 1024 * 1024,
  calls: 1000,
  output: 50_000,
};

export type CellResult =
  /** The cell waits for these, which may run side by side. */
  | { readonly type: "calls"; readonly calls: readonly { readonly name: string; readonly arguments: JsonObject }[] }
  | {
      readonly type: "finished";
      readonly observations: readonly string[];
      /** What it threw and nobody caught. */
      readonly error: string | null;
      /** What it called `finish` or `giveUp` with. */
      readonly finish: { readonly type: "value" | "error"; readonly value: Json } | null;
    }
  | { readonly type: "failed"; readonly reason: "failed" | "limit_exceeded" | "diverged"; readonly message: string };
