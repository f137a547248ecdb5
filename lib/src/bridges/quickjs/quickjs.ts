// The executor for cells of JavaScript. Cells run in QuickJS, compiled to WebAssembly, in a pool of workers that are
// terminated at the limits of a cell.
//
//   quickjs.ts         options, limits, the pools of the process
//   cell-pool.ts       queue, deadlines, termination          (this thread)
//   cell-thread.ts     worker threads and web workers         (this thread)
//   cell-worker.ts     the worker's program                   (worker)
//   sandbox.ts         one run of a cell                      (worker)
//   interpreter.ts     QuickJS and its memory limit           (worker)
//   prelude.ts         the globals of a cell                  (interpreter)
//
// Two limits of different kinds end a cell. Instructions, memory, calls, output and data are counted inside the
// interpreter, so a cell stops at the same point every time. The deadline is the last resort for work that is not
// counted: one built-in function may loop for centuries, as in
// `Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1)`, without a single counted instruction.

import type { CellLimits, CodeExecutor, Rules } from "../../core/engine/internal.ts";

import { systemClock } from "../../core/clock/clock.ts";
import { anything, atLeastOne, checkOptions, defaultCellLimits } from "../../core/engine/internal.ts";
import { CellPool } from "./cell-pool.ts";
import { startThread } from "./cell-thread.ts";

type QuickjsOptions = {
  /** Upper limits for every cell. The lower of this limit and the engine's applies. Default: the engine's limits. */
  readonly limits?: Partial<CellLimits>;
  /**
   * The largest number of cells that run at the same time, each in its own worker. Further cells wait. Executors with
   * the same number share their workers. Default: 4.
   */
  readonly workers?: number;
  /**
   * The file of the worker, if a bundler moved it: a bundle of `node_modules/everturn/dist/cell-worker.js`. Default:
   * that file.
   */
  readonly workerUrl?: URL;
};

const optionRules: Rules<QuickjsOptions> = { limits: anything, workers: atLeastOne, workerUrl: anything };

const defaultWorkers = 4;

// One pool for each number of workers and file, so that programs that create many executors do not create many workers.
const pools = new Map<string, CellPool>();

/**
 * A sandboxed executor for cells of JavaScript. Needs the packages `quickjs-emscripten-core` and
 * `@jitl/quickjs-singlefile-mjs-release-sync`.
 *
 * A cell is the body of an async function. Its globals are one function per tool (called with one object), `tools`
 * (all of them by name), `print` and `console.log`, and `finish(value)` and `giveUp(value)`, which end the cell.
 * There is no clock, no randomness, no timers and no modules.
 *
 * Cells run in worker threads (web workers in browsers), so they do not block the event loop. A worker is terminated
 * when its cell exceeds `limits.timeMs` or when the turn is cancelled. `instructions` counts jumps and function calls
 * of the interpreter in steps of 10 000, and 100 per promise job; a built-in function counts as one instruction
 * whatever its work. `memoryBytes` counts all memory of the interpreter, which starts at 16 MB and grows by a fifth
 * at a time.
 */
export function quickjs(options: QuickjsOptions = {}): CodeExecutor {
  checkOptions("quickjs", options, optionRules);
  const { limits = {}, workers = defaultWorkers, workerUrl = null } = options;
  return {
    name: "quickjs",
    version: "1",
    language: "javascript",
    run: ({ code, calls, tools, limits: cellLimits, signal, tenant }) => {
      const request = { code, calls, tools: tools.map(({ name }) => name), limits: lowerLimits(cellLimits, limits) };
      return poolOf(workers, workerUrl).run(request, signal, tenant ?? "");
    },
  };
}

function poolOf(workers: number, workerUrl: URL | null): CellPool {
  const key = `${workers} ${workerUrl?.href ?? ""}`;
  const existing = pools.get(key);
  if (existing !== undefined) return existing;
  const pool = new CellPool({
    size: workers,
    start: (listener) => startThread(workerUrl, listener),
    clock: systemClock,
  });
  pools.set(key, pool);
  return pool;
}

/** The lower of two limits, for each limit. A limit that neither sets has its default. */
function lowerLimits(cellLimits: Partial<CellLimits>, executorLimits: Partial<CellLimits>): CellLimits {
  const lower = (limit: keyof CellLimits): number =>
    Math.min(cellLimits[limit] ?? defaultCellLimits[limit], executorLimits[limit] ?? Infinity);
  return {
    instructions: lower("instructions"),
    memoryBytes: lower("memoryBytes"),
    calls: lower("calls"),
    output: lower("output"),
    data: lower("data"),
    timeMs: lower("timeMs"),
    totalTimeMs: lower("totalTimeMs"),
  };
}
