// A bounded pool of workers that run cells.
//
// Theory of operation
//   A run waits for a permit of a `FairShare`, of which there are `size`. With the permit it gets an idle worker, or a
//   new one. A worker runs one cell at a time. The worker of a run that exceeds its deadline, or whose turn is
//   cancelled, is terminated: V8 stops WebAssembly at the next loop iteration or call, so the code of a cell cannot
//   prevent it. The next run gets a new worker. Tenants get the permits round robin. Once cells of two tenants have
//   run, a tenant cannot have all permits: the cells of one of them may all run until their deadline.
//     waiting -> starting (a new worker loads the interpreter) -> running -> result | deadline | aborted | worker ended
//
// Invariants
//   1. At most `size` workers exist. A worker without a permit is idle; the permit of a terminated worker is released
//      when it has ended.
//   2. The deadline starts when a loaded worker gets the run: neither the queue nor the start of a worker counts.
//   3. Each run has exactly one result. Messages of a worker that arrive after the result of its run are ignored.
//   4. Workers keep the process alive only while they run a cell. A worker that is idle for ten seconds is terminated.

import type { Clock } from "../../core/clock/clock.ts";
import type { CellResult } from "../../core/engine/internal.ts";
import type { Permit } from "../../core/fair/fair-share.ts";
import type { CellReply, CellRequest } from "./cell-messages.ts";
import type { CellThread, ThreadEnd, ThreadListener } from "./cell-thread.ts";

import { startTimer } from "../../core/clock/timer.ts";
import { FairShare } from "../../core/fair/fair-share.ts";
import { EngineError, toCause } from "../../core/model/internal.ts";
import { aborted, failed, limitExceeded } from "./cell-results.ts";

/** How long a worker may take to load the interpreter, in milliseconds. A machine under load needs seconds. */
const startMs = 60_000;

/** Holds the permits of workers that end without a run. */
const endingWorkers = "(ending)";

type Run = {
  readonly request: CellRequest;
  /** Of the tenant. */
  readonly permit: Permit;
  readonly resolve: (result: CellResult) => void;
  readonly reject: (error: EngineError) => void;
};

/** The state of a worker. `starting` and `running` have a run, which holds a permit, and the timer that limits it. */
type State =
  | { readonly type: "starting"; readonly run: Run; readonly stopTimer: () => void }
  | { readonly type: "running"; readonly run: Run; readonly startedAt: number; readonly stopTimer: () => void }
  | { readonly type: "idle" }
  | { readonly type: "ended" };

type PoolWorker = { readonly thread: CellThread; state: State };

type PoolOptions = {
  /** The largest number of workers. */
  readonly size: number;
  /** Starts a worker. */
  readonly start: (listener: ThreadListener) => CellThread;
  readonly clock: Clock;
};

/** The workers of one pool, and the runs that wait for them. */
export class CellPool {
  readonly #options: PoolOptions;
  /** How many workers all tenants, and each of them, may have. */
  readonly #capacity: { readonly total: number; each: number };
  readonly #permits: FairShare;
  readonly #workers = new Set<PoolWorker>();
  /** The tenant of the first run. */
  #firstTenant: string | null = null;

  constructor(options: PoolOptions) {
    this.#options = options;
    this.#capacity = { total: options.size, each: options.size };
    this.#permits = new FairShare(this.#capacity);
  }

  /**
   * Runs a cell. Rejects with an `EngineError` if workers cannot be started or the interpreter is not installed.
   * `tenant`: runs in memory have none, and count as one tenant.
   */
  async run(request: CellRequest, signal: AbortSignal, tenant = ""): Promise<CellResult> {
    if (signal.aborted) return aborted;
    this.#firstTenant ??= tenant;
    if (this.#firstTenant !== tenant) this.#capacity.each = Math.max(1, this.#options.size - 1);
    const ended = new AbortController();
    try {
      return await new Promise<CellResult>((resolve, reject) => {
        const run = { request, permit: this.#permits.request(tenant), resolve, reject };
        signal.addEventListener("abort", () => this.#abort(run), { signal: ended.signal });
        void run.permit.granted.then(() => this.#begin(run));
      });
    } finally {
      ended.abort();
    }
  }

  /** Gives a run with a permit to an idle worker, or to a new one. */
  #begin(run: Run): void {
    // Cancelled after the permit was granted.
    if (run.permit.state === "released") return;
    const idle = [...this.#workers].find(({ state }) => state.type === "idle");
    if (idle === undefined) this.#start(run);
    else this.#give(idle, run);
  }

  #start(run: Run): void {
    try {
      const worker: PoolWorker = {
        thread: this.#options.start({
          replied: (reply) => this.#replied(worker, reply),
          ended: (end) => this.#ended(worker, end),
        }),
        state: {
          type: "starting",
          run,
          stopTimer: startTimer(this.#options.clock, startMs, () => this.#startFailed(worker, run)),
        },
      };
      this.#workers.add(worker);
    } catch (cause) {
      run.permit.release();
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
        return state.run.permit.release();
      case "idle":
        if (state.type === "idle") this.#stop(worker, () => undefined);
    }
  }

  /** Settles the run of a worker and terminates the worker, whose permit is released when it has ended. */
  #stop(worker: PoolWorker, settle: () => void): void {
    const { state } = worker;
    if (state.type === "ended") return;
    if (state.type === "idle") this.#permits.take(endingWorkers);
    else state.stopTimer();
    const release = state.type === "idle" ? () => this.#permits.giveBack(endingWorkers) : state.run.permit.release;
    worker.state = { type: "ended" };
    settle();
    // A worker that cannot be terminated keeps its permit.
    void worker.thread.terminate().then(() => this.#remove(worker, release));
  }

  #remove(worker: PoolWorker, releasePermit: () => void): void {
    this.#workers.delete(worker);
    releasePermit();
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
    const worker = [...this.#workers].find(({ state }) => "run" in state && state.run === run);
    if (worker === undefined) run.permit.release();
    else this.#stop(worker, () => undefined);
    run.resolve(aborted);
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
