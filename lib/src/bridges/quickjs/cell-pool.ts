// A bounded pool of workers that run cells.
//
// Theory of operation
//   A run waits in a queue until fewer than `size` workers are busy. It gets an idle worker, or a new one. A worker
//   runs one cell at a time. The worker of a run that exceeds its deadline, or whose turn is cancelled, is terminated:
//   V8 stops WebAssembly at the next loop iteration or call, so the code of a cell cannot prevent it. The next run gets
//   a new worker. Tenants use the workers round robin: a free worker goes to the waiting tenant that has the fewest.
//   Once cells of two tenants have run, a tenant cannot have all workers: the cells of one of them may all run until
//   their deadline.
//     waiting -> starting (a new worker loads the interpreter) -> running -> result | deadline | aborted | worker ended
//
// Invariants
//   1. At most `size` workers exist. A terminated worker counts until it has ended.
//   2. The deadline starts when a loaded worker gets the run: neither the queue nor the start of a worker counts.
//   3. Each run has exactly one result. Messages of a worker that arrive after the result of its run are ignored.
//   4. Workers keep the process alive only while they run a cell. A worker that is idle for ten seconds is terminated.

import type { Clock } from "../../core/clock/clock.ts";
import type { CellResult } from "../../core/engine/internal.ts";
import type { CellReply, CellRequest } from "./cell-messages.ts";
import type { CellThread, ThreadEnd, ThreadListener } from "./cell-thread.ts";

import { startTimer } from "../../core/clock/timer.ts";
import { EngineError, toCause } from "../../core/model/internal.ts";
import { aborted, failed, limitExceeded } from "./cell-results.ts";

/** How long a worker may take to load the interpreter, in milliseconds. A machine under load needs seconds. */
const startMs = 60_000;

type Run = {
  readonly request: CellRequest;
  /** The tenant; `null`: runs in memory, which count as one tenant. */
  readonly tenant: string | null;
  readonly resolve: (result: CellResult) => void;
  readonly reject: (error: EngineError) => void;
};

/** The state of a worker. `starting` and `running` have a run and the timer that limits it. */
type State =
  | { readonly type: "starting"; readonly run: Run; readonly stopTimer: () => void }
  | { readonly type: "running"; readonly run: Run; readonly startedAt: number; readonly stopTimer: () => void }
  | { readonly type: "idle" }
  | { readonly type: "ended" };

/** `tenant`: of the newest run. */
type PoolWorker = { readonly thread: CellThread; state: State; tenant: string | null };

type PoolOptions = {
  /** The largest number of workers. */
  readonly size: number;
  /** Starts a worker. */
  readonly start: (listener: ThreadListener) => CellThread;
  readonly clock: Clock;
};

/**
 * The workers of one pool, and the runs that wait for them.
 *
 * @primitive the workers that run cells
 */
export class CellPool {
  readonly #options: PoolOptions;
  readonly #waiting: Run[] = [];
  readonly #workers = new Set<PoolWorker>();
  /** The tenant of the first run. */
  #firstTenant: string | null | undefined;
  #hasTenants = false;

  constructor(options: PoolOptions) {
    this.#options = options;
  }

  /** Runs a cell. Rejects with an `EngineError` if workers cannot be started or the interpreter is not installed. */
  async run(request: CellRequest, signal: AbortSignal, tenant: string | null = null): Promise<CellResult> {
    if (signal.aborted) return aborted;
    if (this.#firstTenant === undefined) this.#firstTenant = tenant;
    else if (this.#firstTenant !== tenant) this.#hasTenants = true;
    const ended = new AbortController();
    try {
      return await new Promise<CellResult>((resolve, reject) => {
        const run = { request, tenant, resolve, reject };
        signal.addEventListener("abort", () => this.#abort(run), { signal: ended.signal });
        this.#waiting.push(run);
        this.#next();
      });
    } finally {
      ended.abort();
    }
  }

  /** Gives waiting runs to idle workers, and starts workers up to the limit. */
  #next(): void {
    for (;;) {
      const idle = [...this.#workers].find(({ state }) => state.type === "idle");
      if (idle === undefined && this.#workers.size >= this.#options.size) return;
      const run = this.#takeWaiting();
      if (run === null) return;
      if (idle === undefined) this.#start(run);
      else this.#give(idle, run);
    }
  }

  /**
   * Removes and returns the next run: the oldest one of the tenant that has the fewest workers; `null`: none may run.
   */
  #takeWaiting(): Run | null {
    const { size } = this.#options;
    const most = this.#hasTenants && size > 1 ? size - 1 : size;
    const busy = new Map<string | null, number>();
    for (const { state, tenant } of this.#workers)
      if (state.type !== "idle") busy.set(tenant, (busy.get(tenant) ?? 0) + 1);
    let next: { readonly index: number; readonly count: number } | null = null;
    for (const [index, { tenant }] of this.#waiting.entries()) {
      const count = busy.get(tenant) ?? 0;
      if (count < (next?.count ?? most)) next = { index, count };
      if (count === 0) break;
    }
    return next === null ? null : (this.#waiting.splice(next.index, 1)[0] ?? null);
  }

  #start(run: Run): void {
    try {
      const worker: PoolWorker = {
        thread: this.#options.start({
          replied: (reply) => this.#replied(worker, reply),
          ended: (end) => this.#ended(worker, end),
        }),
        tenant: run.tenant,
        state: {
          type: "starting",
          run,
          stopTimer: startTimer(this.#options.clock, startMs, () => this.#startFailed(worker, run)),
        },
      };
      this.#workers.add(worker);
    } catch (cause) {
      run.reject(unavailable("a worker cannot be started", cause));
    }
  }

  #give(worker: PoolWorker, run: Run): void {
    const { limits } = run.request;
    const stopTimer = Number.isFinite(limits.timeMs)
      ? startTimer(this.#options.clock, limits.timeMs, () =>
          this.#stop(worker, () => run.resolve(limitExceeded("timeMs", limits))),
        )
      : () => undefined;
    worker.tenant = run.tenant;
    worker.state = { type: "running", run, startedAt: this.#options.clock.now(), stopTimer };
    worker.thread.hold(true);
    worker.thread.run(run.request);
  }

  #replied(worker: PoolWorker, reply: CellReply): void {
    const { state } = worker;
    switch (reply.type) {
      case "ready":
        if (state.type !== "starting") return;
        state.stopTimer();
        return this.#give(worker, state.run);
      case "not_loaded":
        if (state.type !== "starting") return;
        return this.#stop(worker, () => state.run.reject(packagesMissing(reply.message)));
      case "result":
        if (state.type !== "running") return;
        state.stopTimer();
        worker.state = { type: "idle" };
        worker.thread.hold(false);
        state.run.resolve(
          reply.result.type === "calls"
            ? { ...reply.result, ranMs: this.#options.clock.now() - state.startedAt }
            : reply.result,
        );
        return this.#next();
      case "idle":
        if (state.type === "idle") this.#stop(worker, () => undefined);
    }
  }

  /** Settles the run of a worker and terminates the worker. Its place is free when it has ended. */
  #stop(worker: PoolWorker, settle: () => void): void {
    const { state } = worker;
    if (state.type === "ended") return;
    if (state.type !== "idle") state.stopTimer();
    worker.state = { type: "ended" };
    settle();
    // A worker that cannot be terminated keeps its place.
    void worker.thread.terminate().then(() => this.#remove(worker));
  }

  #ended(worker: PoolWorker, { outOfMemory, message }: ThreadEnd): void {
    const { state } = worker;
    this.#stop(worker, () => {
      if (state.type === "starting")
        state.run.reject(unavailable("a worker ended while it started", new Error(message)));
      if (state.type === "running") {
        const { limits } = state.run.request;
        state.run.resolve(
          outOfMemory ? limitExceeded("memoryBytes", limits) : failed(`the sandbox failed: ${message}`),
        );
      }
    });
  }

  #startFailed(worker: PoolWorker, run: Run): void {
    this.#stop(worker, () => run.reject(unavailable(`a worker did not start within ${startMs} ms`, null)));
  }

  #abort(run: Run): void {
    const index = this.#waiting.indexOf(run);
    if (index !== -1) this.#waiting.splice(index, 1);
    for (const worker of this.#workers) {
      const { state } = worker;
      if ((state.type === "starting" || state.type === "running") && state.run === run)
        this.#stop(worker, () => undefined);
    }
    run.resolve(aborted);
  }

  #remove(worker: PoolWorker): void {
    this.#workers.delete(worker);
    this.#next();
  }
}

/** The executor cannot run any cell: the run of the engine rejects. */
function unavailable(why: string, cause: unknown): EngineError {
  const message = `quickjs(): ${why}${cause === null ? "" : `: ${toCause(cause)?.message ?? ""}`}. If your program is bundled, set the option workerUrl`;
  return new EngineError("invalid_engine", { message, cause });
}

function packagesMissing(cause: string): EngineError {
  const packages = "quickjs-emscripten-core @jitl/quickjs-singlefile-mjs-release-sync";
  const message = `quickjs(): two packages that run cells cannot be loaded; run: npm install ${packages}`;
  return new EngineError("invalid_engine", { message, cause: new Error(cause) });
}
