// The contract of a code executor, which runs the cells of the code protocol.
//
// A cell is resumed by deterministic replay: it runs from its beginning each time, with the recorded answers of the
// calls it has made so far, and continues where the records end. An executor may keep a suspended cell in memory as a
// cache, but must not depend on it: after a crash another process resumes the cell from the records alone.
//
// Rules
//   1. Determinism: the same code with the same answers makes the same calls. A cell has no clock and no random
//      numbers.
//   2. Calls are compared with the recorded ones, by name and arguments, in order; one that differs ends the cell as
//      `diverged`.
//   3. Each run has limits of its own; only `totalTimeMs` is counted over all runs, by the performer. Limits count
//      instructions, memory, calls, output and data: they stop a cell at the same point in a run and in its replay.
//      `timeMs` is the last resort for work that cannot be counted. A run that it ends fails, and the failure is
//      recorded like every other result.

import type { CellCall, Json, JsonObject, ToolSpec } from "../../model/internal.ts";

/** Runs cells of code for the code protocol. Running a cell again with the same answers must make the same calls. */
export type CodeExecutor = {
  readonly name: string;
  /** Stored with a suspended cell. */
  readonly version: string;
  /** The language of its cells: the info string of the Markdown code block that the model writes, such as `js`. */
  readonly language: string;
  /**
   * Runs a cell until it finishes, fails, or needs answers to new calls. An error that it throws is reported to the
   * model as the failure of the cell, except an `EngineError`, with which the run rejects: the executor cannot run any
   * cell.
   */
  readonly run: (cell: CellRun) => Promise<CellResult>;
};

/** One run of a cell, from its beginning. */
export type CellRun = {
  readonly cellId: string;
  readonly code: string;
  /** The calls that the cell has made so far, each with its answer. */
  readonly calls: readonly CellCall[];
  /** The functions that the cell can call. */
  readonly tools: readonly ToolSpec[];
  readonly limits: CellLimits;
  /** Aborted when the turn is cancelled. */
  readonly signal: AbortSignal;
  /**
   * The tenant of a durable turn or a chat completion over HTTP. An executor with few workers lets tenants use them
   * round robin. Absent: a run in memory.
   */
  readonly tenant?: string;
};

/** Limits of one run of a cell, and of all of them. A cell that exceeds one fails with `limit_exceeded`. */
export type CellLimits = {
  /** Interpreter steps, in the executor's own unit. Default: 50,000,000. */
  readonly instructions: number;
  /** Heap of the cell, in bytes. Default: 64 MiB. */
  readonly memoryBytes: number;
  /** Tool calls. Default: 1,000. */
  readonly calls: number;
  /** Characters that the cell may print, and the largest number of its observations. Default: 50,000. */
  readonly output: number;
  /**
   * Characters of JSON that leave the cell in the arguments of calls and in the value of `finish` or `giveUp`. Default:
   * 1,000,000.
   */
  readonly data: number;
  /** Milliseconds that one run of the cell may take, without the tools. Each run starts again at 0. Default: 10,000. */
  readonly timeMs: number;
  /**
   * Milliseconds that all runs of the cell may take together, without the tools: a cell runs again after each batch of
   * its calls. The engine counts them, also over the turns of a cell that waits for a person, and lowers `timeMs` of a
   * run to what is left. Default: 120,000.
   */
  readonly totalTimeMs: number;
};

export const defaultCellLimits: CellLimits = {
  instructions: 50_000_000,
  memoryBytes: 64 * 1024 * 1024,
  calls: 1000,
  output: 50_000,
  data: 1_000_000,
  timeMs: 10_000,
  totalTimeMs: 120_000,
};

/** The end of one run of a cell. */
export type CellResult =
  /** The cell is suspended until these calls are answered. They may run concurrently. */
  | {
      readonly type: "calls";
      readonly calls: readonly { readonly name: string; readonly arguments: JsonObject }[];
      /**
       * Milliseconds that the run took, for `totalTimeMs`. Absent: the time until `run` returned, also that in which
       * the run waited for a worker.
       */
      readonly ranMs?: number;
    }
  | {
      readonly type: "finished";
      /** What the cell printed, for the model. */
      readonly observations: readonly string[];
      /** The uncaught exception of the cell; `null`: none. */
      readonly error: string | null;
      /** The argument of `finish` (`value`) or `giveUp` (`error`); `null`: the cell called neither. */
      readonly finish: { readonly type: "value" | "error"; readonly value: Json } | null;
    }
  | { readonly type: "failed"; readonly reason: "failed" | "limit_exceeded" | "diverged"; readonly message: string };
