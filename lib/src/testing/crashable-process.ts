// A simulated process that can be killed at any crash point, for the crash matrix.
//
// Theory of operation
//   The runtime under test gets its storage, clock and engines from here. Every interaction with the world (a write, a
//   model call, a tool, a code cell, a hook) passes numbered crash points. At the chosen point the process stops: from
//   then on every wrapper awaits a promise that never resolves, so no `finally` block and no callback of the killed
//   process has an effect. What was written before stays written.
//
//   Two ways to stop
//     killed   the process never continues (`kill -9`)
//     paused   the process continues later (`resume`), after another one has taken its turns over. It has lost its
//              leases by then, so fencing must reject all its writes (H3). Effects that it performs are logged apart
//              (`beganLate`).
//
// Invariants
//   1. The number of a crash point is deterministic: time does not pass within a process, randomness is constant, short
//      sleeps resolve in the next task and long ones never.
//   2. A write that has reached the storage is recorded in the effect log even if the process is killed before it
//      learns of the result.

import type {
  Adapter,
  AdapterCall,
  CellRun,
  Clock,
  CodeExecutor,
  Engine,
  Fallback,
  Hooks,
  Tool,
  ToolContext,
} from "../core/engine/internal.ts";
import type { CallerContext, ModelEvent, ModelRequest } from "../core/model/internal.ts";
import type { Batch, HostStorage, Row } from "../durable/internal.ts";
import type { EffectInfo, EffectLog } from "./effect-log.ts";

import { nextTask, systemClock } from "../core/clock/clock.ts";
import { summaryPrompt } from "../core/kernel/internal.ts";
import { messageText, user } from "../core/model/internal.ts";
import { isPair } from "../core/run/internal.ts";
import { nextToken } from "../durable/internal.ts";
import { callName, codeName, hookName } from "./effect-log.ts";

/**
 * Where a process can be killed: before a write; after a write and before its result is known; before, during and after
 * an effect.
 */
export type PointKind = "before_write" | "after_write" | "before_effect" | "in_effect" | "after_effect";

/** One crash point of a process. */
export type CrashPoint = {
  /** The number of the point within its process, from 1. */
  readonly number: number;
  readonly kind: PointKind;
  /** The effect, or the tables of the write. */
  readonly what: string;
};

/** What the processes of one run share. */
export type World = {
  readonly log: EffectLog;
  /**
   * The time in milliseconds. It is constant within a process, so that every process sees the same time, and advances
   * between them.
   */
  now: number;
};

/** Longer sleeps never resolve within a process: no deadline expires during a test. */
const longestWaitMs = 2000;

/** How long ago the leases of other processes expired, in milliseconds. */
const leaseExpiredMs = 3_600_000;

let processCount = 0;

/** A process of the crash matrix. See the head of this file. */
export class CrashableProcess {
  /** The name of the process in lease rows. */
  readonly owner = `process ${(processCount += 1)}`;
  readonly clock: Clock;
  /** Resolves when the process has been stopped at its crash point. */
  readonly stopped: Promise<CrashPoint>;
  readonly #world: World;
  readonly #killAt: number | null;
  readonly #resumes: boolean;
  readonly #pendingWrites = new Set<Promise<unknown>>();
  readonly #unwatch = new Set<() => void>();
  readonly #reached = new Map<string, Gate>();
  readonly #released = new Map<string, Gate>();
  /** Opens when a paused process resumes: long sleeps are over by then. */
  readonly #resumed = newGate();
  #reportStop: (point: CrashPoint) => void = () => undefined;
  #passed = 0;
  #state: ProcessState = { type: "running" };

  /**
   * `killAt`: the number of the crash point at which the process stops; `null`: it runs to its end. With `resumes` it
   * is paused there instead of killed, until `resume` is called.
   */
  constructor(world: World, killAt: number | null, resumes = false) {
    this.#world = world;
    this.#killAt = killAt;
    this.#resumes = resumes;
    this.stopped = new Promise((resolve) => {
      this.#reportStop = resolve;
    });
    this.clock = {
      now: () => world.now,
      random: () => 0,
      sleep: (ms, signal) => this.#sleep(ms, signal),
    };
  }

  /** The number of crash points that the process has passed. */
  get points(): number {
    return this.#passed;
  }

  // For authors of scenarios.

  /** A crash point inside a handler. */
  point(what: string): Promise<void> {
    return this.#point("in_effect", what);
  }

  /** Signals that a handler has reached the named place. */
  reach(name: string): void {
    gateOf(this.#reached, name).open();
  }

  /** Resolves when a handler of this process has called `reach` with this name. */
  reached(name: string): Promise<void> {
    return gateOf(this.#reached, name).opened;
  }

  /** Lets the handlers continue that wait for this name. */
  release(name: string): void {
    gateOf(this.#released, name).open();
  }

  /** Resolves when `release` has been called with this name in this process. */
  released(name: string): Promise<void> {
    return gateOf(this.#released, name).opened;
  }

  // The wrapped ports of the runtime under test.

  /** Wraps the storage. Every write has a crash point before it and one after it. */
  host(storage: HostStorage): HostStorage {
    return this.#storage(storage);
  }

  /** Wraps engines: adapters, tools, executors and hooks have crash points before, during and after each effect. */
  engines(engines: { readonly [name: string]: Engine }): { readonly [name: string]: Engine } {
    return Object.fromEntries(Object.entries(engines).map(([name, engine]) => [name, this.#engine(engine, null)]));
  }

  /** Resolves when the writes that were under way at the stop have reached the storage or failed. */
  async writesSettled(): Promise<void> {
    await Promise.allSettled(this.#pendingWrites);
  }

  /** Kills the process. Idempotent. */
  kill(): void {
    this.#state = { type: "killed" };
    for (const unwatch of this.#unwatch) unwatch();
    this.#unwatch.clear();
  }

  /** Resumes a paused process. The effects that it performs from now on are logged as late. */
  resume(): void {
    if (this.#state.type !== "paused") return;
    const { gate } = this.#state;
    this.#state = { type: "late" };
    gate.open();
    this.#resumed.open();
  }

  /** Calls `action` when the process passes the crash point with this number. */
  atPoint(number: number, action: () => void): void {
    this.#atPoint = { number, action };
  }
  #atPoint: { readonly number: number; readonly action: () => void } | null = null;

  async #point(kind: PointKind, what: string): Promise<void> {
    await this.#untilRunning();
    this.#passed += 1;
    if (this.#passed === this.#atPoint?.number) this.#atPoint.action();
    if (this.#passed !== this.#killAt) return;
    if (this.#resumes) this.#state = { type: "paused", gate: newGate() };
    else this.kill();
    this.#reportStop({ number: this.#passed, kind, what });
    return this.#untilRunning();
  }

  /** Resolves at once while the process runs, after `resume` while it is paused, and never once it is killed. */
  #untilRunning(): Promise<void> {
    switch (this.#state.type) {
      case "running":
      case "late":
        return Promise.resolve();
      case "paused":
        return this.#state.gate.opened;
      case "killed":
        return never();
    }
  }

  #sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted === true) return reject(signal.reason);
      const stop = () => reject(signal?.reason);
      signal?.addEventListener("abort", stop, { once: true });
      const wake = () => {
        signal?.removeEventListener("abort", stop);
        void this.#untilRunning().then(() => (signal?.aborted === true ? reject(signal.reason) : resolve()));
      };
      if (ms <= longestWaitMs) void nextTask().then(wake);
      else if (this.#state.type !== "late") void this.#resumed.opened.then(wake);
    });
  }

  #storage(real: HostStorage): HostStorage {
    return {
      name: real.name,
      durability: real.durability,
      read: async (queries) => {
        await this.#untilRunning();
        const rows = await real.read(queries);
        await this.#untilRunning();
        return rows.map((result, index) => (queries[index]?.table === "leases" ? result.map(this.#leaseRow) : result));
      },
      write: async (batch) => {
        const what = `${real.name}: ${tablesOf(batch)}`;
        await this.#point("before_write", what);
        const failedCheck = this.#lostLease(batch);
        if (failedCheck !== -1) return { ok: false, check: failedCheck };
        const write = real.write(batch).then((result) => {
          if (result.ok && this.#state.type !== "late") this.#world.log.written(batch);
          return result;
        });
        this.#pendingWrites.add(write);
        const result = await write.finally(() => this.#pendingWrites.delete(write));
        await (result.ok ? this.#point("after_write", what) : this.#untilRunning());
        return result;
      },
      watch: (changed) => {
        const unwatch = real.watch((...written) => void this.#untilRunning().then(() => changed(...written)));
        if (this.#state.type === "killed") unwatch();
        this.#unwatch.add(unwatch);
        return () => {
          this.#unwatch.delete(unwatch);
          unwatch();
        };
      },
    };
  }

  /**
   * Returns a lease row as this process sees it. The lease of another process has expired, so a takeover does not wait.
   * A resumed process sees a higher epoch: it has lost its lease, whether or not another process has claimed it.
   */
  readonly #leaseRow = (row: Row): Row => {
    if (this.#state.type === "late") return { ...row, tag: nextToken(row.tag, 0) };
    const isOwn = row.value.includes(JSON.stringify(this.owner));
    return isOwn ? row : { ...row, remainingMs: -leaseExpiredMs };
  };

  /** Returns the index of the lease check that fails because this process has lost its lease; -1 if there is none. */
  #lostLease({ checks }: Batch): number {
    return this.#state.type === "late" ? checks.findIndex(({ table }) => table === "leases") : -1;
  }

  /** Wraps an engine. `inside` names the tool whose nested turn uses the engine. */
  #engine<Context extends CallerContext>(engine: Engine<Context>, inside: string | null): Engine<Context> {
    const { adapter, protocol, options } = engine;
    const { hooks = {} } = options;
    return {
      ...engine,
      clock: this.clock,
      adapter: adapter === null ? null : this.#adapter(adapter, inside),
      fallback: engine.fallback.map((fallback): Fallback =>
        isPair(fallback) ? { ...fallback, adapter: this.#adapter(fallback.adapter, inside) } : fallback,
      ),
      tools: engine.tools.map((tool) => this.#tool(tool, inside)),
      protocol:
        protocol.type === "code" ? { ...protocol, executor: this.#executor(protocol.executor, inside) } : protocol,
      options: hooks.beforeTool === undefined ? options : { ...options, hooks: this.#hooks(hooks, inside) },
    };
  }

  #hooks<Context extends CallerContext>(hooks: Hooks<Context>, inside: string | null): Hooks<Context> {
    return {
      ...hooks,
      beforeTool: (call, context) => {
        const name = hookName(callName(call.name, call.arguments ?? {}));
        return this.#perform(
          { ...defaults, kind: "hook", name, inside },
          async () => (await hooks.beforeTool?.(call, context)) ?? null,
        );
      },
    };
  }

  #adapter(real: Adapter, inside: string | null): Adapter {
    return { ...real, stream: (request, call) => this.#stream(real, request, call, inside) };
  }

  async *#stream(
    real: Adapter,
    request: ModelRequest,
    call: AdapterCall,
    inside: string | null,
  ): AsyncGenerator<readonly ModelEvent[]> {
    const { model, messages, scope } = request;
    const id = typeof model === "string" ? model : (model?.id ?? "");
    // A frame makes a request shorter, so the number of its messages alone does not identify it.
    const input = messageText(messages.findLast(({ role }) => role === "user") ?? user(""));
    const isSummary = input.startsWith(summaryPrompt);
    // Without the turn, whose id differs from run to run: <turn>/<step>/frame.
    const frame = /\d+\/frame.*$/.exec(scope?.frameId ?? "")?.[0] ?? null;
    const about = isSummary ? ` for the summary after ${frame ?? "none"}` : frame === null ? "" : ` for ${input}`;
    const name = `${real.provider} ${id} after ${messages.length} messages${about}, attempt ${call.attempt}`;
    await this.#begin({ ...defaults, kind: "model", name, inside, provider: real.provider });
    let batchCount = 0;
    // The adapter gets the system clock: on the clock of this process its timeouts would fire at once or never.
    for await (const batch of real.stream(request, { ...call, clock: systemClock })) {
      await this.#untilRunning();
      yield batch;
      batchCount += 1;
      // A crash point within the stream, after some deltas have been published.
      if (batchCount === 2) await this.#point("in_effect", name);
    }
    await this.#point("after_effect", name);
  }

  #tool<Context extends CallerContext>(real: Tool<Context>, inside: string | null): Tool<Context> {
    return {
      ...real,
      prepare: async (args) => {
        const prepared = await real.prepare(args);
        if (!prepared.ok) return prepared;
        const name = callName(real.name, args);
        const policy = real.replay === "safe" ? "again" : real.replay;
        return {
          ...prepared,
          run: (context) => {
            const { toolCall, idempotencyKey } = context;
            const info = {
              ...defaults,
              kind: "tool",
              name,
              policy,
              inside,
              callId: toolCall.id,
              idempotencyKey,
            } as const;
            return this.#perform(info, () => prepared.run(this.#context(context, name)));
          },
        };
      },
    };
  }

  /** Wraps the engines of nested turns, which stop together with this process. */
  #context<Context extends CallerContext>(context: ToolContext<Context>, name: string): ToolContext<Context> {
    return {
      ...context,
      runChild: (engine, input, options) => context.runChild(this.#engine(engine, name), input, options),
    };
  }

  #executor(real: CodeExecutor, inside: string | null): CodeExecutor {
    return {
      ...real,
      run: (cell: CellRun) => {
        const name = codeName(cell.cellId, cell.calls.length);
        return this.#perform({ ...defaults, kind: "code", name, inside }, () => real.run(cell));
      },
    };
  }

  async #begin(info: EffectInfo): Promise<void> {
    await this.#point("before_effect", info.name);
    if (this.#state.type === "late") this.#world.log.beganLate(info);
    else this.#world.log.began(info);
  }

  async #perform<T>(info: EffectInfo, work: () => T): Promise<Awaited<T>> {
    await this.#begin(info);
    const running = attempt(work);
    // If the process is killed at the next point, nothing awaits `running`: a rejection must not be reported as
    // unhandled.
    running.catch(() => undefined);
    await this.#point("in_effect", info.name);
    try {
      return await running;
    } finally {
      await this.#point("after_effect", info.name);
    }
  }
}

/** The fields of an effect that most kinds do not have. */
const defaults = { policy: "again", callId: null, idempotencyKey: null, provider: null } as const;

type ProcessState =
  | { readonly type: "running" }
  | { readonly type: "paused"; readonly gate: Gate }
  /** Resumed, after another process has taken over. */
  | { readonly type: "late" }
  | { readonly type: "killed" };

type Gate = { readonly opened: Promise<void>; readonly open: () => void };

function gateOf(gates: Map<string, Gate>, name: string): Gate {
  const gate = gates.get(name) ?? newGate();
  gates.set(name, gate);
  return gate;
}

function newGate(): Gate {
  const resolvers: (() => void)[] = [];
  const opened = new Promise<void>((resolve) => resolvers.push(resolve));
  return { opened, open: () => resolvers.forEach((resolve) => resolve()) };
}

async function attempt<T>(work: () => T): Promise<Awaited<T>> {
  return await work();
}

/** A promise that never settles: what a killed process awaits. */
function never(): Promise<never> {
  return new Promise(() => undefined);
}

function tablesOf({ puts, removals }: Batch): string {
  const counts = new Map<string, number>();
  for (const { table } of [...removals, ...puts]) counts.set(table, (counts.get(table) ?? 0) + 1);
  return [...counts].map(([table, count]) => (count === 1 ? table : `${table} ×${count}`)).join(", ");
}
