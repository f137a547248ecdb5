// One life of a process, which can be ended at any point: everything it does to the world goes through here, and from the moment it is killed on
// nothing of it gets through any more. The storage and the network are cut first, so that no `finally` can write; what the life waits for never
// comes. What it has done until then stands.

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
} from "../engine/internal.ts";
import type { CallerContext, ModelEvent, ModelRequest } from "../model/internal.ts";
import type { Batch, HostStorage, Row } from "../runtime/internal.ts";
import type { EffectInfo, EffectLog } from "./effect-log.ts";

import { nextTask, systemClock } from "../clock/clock.ts";
import { isPair } from "../run/internal.ts";
import { callName, codeName, hookName } from "./effect-log.ts";

/** Where a life can end. Of a write: before it, and when it is done and nobody has heard of it. Of an effect: before it, in it, and behind it. */
export type PointKind = "before_write" | "after_write" | "before_effect" | "in_effect" | "after_effect";

export type CrashPoint = {
  /** Its number in its life, from 1. */
  readonly number: number;
  readonly kind: PointKind;
  /** Which effect, or what was written. */
  readonly what: string;
};

/** What all lives of one world share. */
export type World = {
  readonly log: EffectLog;
  /** Time stands still in a life, so that it is the same in each: short waits are over at once. It passes between them. */
  now: number;
};

/** Waits longer than this are never over: nobody's time is up in the life of a test. */
const longestWaitMs = 2000;

/** How long ago the leases of other lives expired, in milliseconds. */
const mourningMs = 3_600_000;

let lives = 0;

export class MortalLife {
  /** Its name in lease rows. */
  readonly owner = `life ${(lives += 1)}`;
  readonly clock: Clock;
  /** Resolves when it has been killed. */
  readonly death: Promise<CrashPoint>;
  readonly #world: World;
  readonly #killAt: number | null;
  readonly #comesBack: boolean;
  readonly #writing = new Set<Promise<unknown>>();
  readonly #unwatch = new Set<() => void>();
  readonly #reached = new Map<string, Gate>();
  readonly #opened = new Map<string, Gate>();
  /** Opens when it comes back: all its waits are over by then. */
  readonly #back = newGate();
  #die: (point: CrashPoint) => void = () => undefined;
  #passed = 0;
  #state: LifeState = { type: "alive" };

  /**
   * `killAt`: the number of the point at which it ends; `null`: it ends by itself. With `comesBack` it is not dead then, but away: everything it
   * does stands still, until it comes back to a world in which others have gone on without it.
   */
  constructor(world: World, killAt: number | null, comesBack = false) {
    this.#world = world;
    this.#killAt = killAt;
    this.#comesBack = comesBack;
    this.death = new Promise((resolve) => {
      this.#die = resolve;
    });
    this.clock = {
      now: () => world.now,
      random: () => 0,
      sleep: (ms, signal) => this.#sleep(ms, signal),
    };
  }

  /** How many points it has come past. */
  get points(): number {
    return this.#passed;
  }

  // For those who write scenarios.

  /** A place inside a handler where the process may die. */
  point(what: string): Promise<void> {
    return this.#point("in_effect", what);
  }

  /** Says that something has been reached, and waits for it: in this life. */
  reach(name: string): void {
    gateOf(this.#reached, name).open();
  }

  reached(name: string): Promise<void> {
    return gateOf(this.#reached, name).opened;
  }

  /** Lets go what waits for that name, and waits for it: in this life. */
  release(name: string): void {
    gateOf(this.#opened, name).open();
  }

  released(name: string): Promise<void> {
    return gateOf(this.#opened, name).opened;
  }

  // What it is made of.

  host(given: HostStorage): HostStorage {
    return this.#storage(given);
  }

  engines(given: { readonly [name: string]: Engine }): { readonly [name: string]: Engine } {
    return Object.fromEntries(Object.entries(given).map(([name, one]) => [name, this.#engine(one, null)]));
  }

  /** What it was writing when it ended, or went away, is written. */
  async written(): Promise<void> {
    await Promise.allSettled(this.#writing);
  }

  /** Ends it, if nobody has yet. */
  end(): void {
    this.#state = { type: "dead" };
    for (const unwatch of this.#unwatch) unwatch();
    this.#unwatch.clear();
  }

  /** It comes back, if it was away. What it does from now on is in nobody's log. */
  comeBack(): void {
    if (this.#state.type !== "away") return;
    const { gate } = this.#state;
    this.#state = { type: "late" };
    gate.open();
    this.#back.open();
  }

  /** What happens elsewhere when it comes to that point. */
  meanwhile(number: number, what: () => void): void {
    this.#meanwhile = { number, what };
  }
  #meanwhile: { readonly number: number; readonly what: () => void } | null = null;

  async #point(kind: PointKind, what: string): Promise<void> {
    await this.#passage();
    this.#passed += 1;
    if (this.#passed === this.#meanwhile?.number) this.#meanwhile.what();
    if (this.#passed !== this.#killAt) return;
    if (this.#comesBack) this.#state = { type: "away", gate: newGate() };
    else this.end();
    this.#die({ number: this.#passed, kind, what });
    return this.#passage();
  }

  /** Lets those through who live, and nobody else. */
  #passage(): Promise<void> {
    switch (this.#state.type) {
      case "alive":
      case "late":
        return Promise.resolve();
      case "away":
        return this.#state.gate.opened;
      case "dead":
        return never();
    }
  }

  #sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted === true) return reject(signal.reason);
      const stop = () => reject(signal?.reason);
      signal?.addEventListener("abort", stop, { once: true });
      const over = () => {
        signal?.removeEventListener("abort", stop);
        void this.#passage().then(() => (signal?.aborted === true ? reject(signal.reason) : resolve()));
      };
      if (ms <= longestWaitMs) void nextTask().then(over);
      else if (this.#state.type !== "late") void this.#back.opened.then(over);
    });
  }

  #storage(real: HostStorage): HostStorage {
    return {
      name: real.name,
      durability: real.durability,
      read: async (queries) => {
        await this.#passage();
        const rows = await real.read(queries);
        await this.#passage();
        return rows.map((found, index) => (queries[index]?.table === "leases" ? found.map(this.#leaseRow) : found));
      },
      write: async (batch) => {
        const what = `${real.name}: ${tablesOf(batch)}`;
        await this.#point("before_write", what);
        const lost = this.#lostLease(batch);
        if (lost !== -1) return { ok: false, check: lost };
        const writing = real.write(batch).then((written) => {
          if (written.ok && this.#state.type !== "late") this.#world.log.written(batch);
          return written;
        });
        this.#writing.add(writing);
        const written = await writing.finally(() => this.#writing.delete(writing));
        await (written.ok ? this.#point("after_write", what) : this.#passage());
        return written;
      },
      watch: (changed) => {
        const unwatch = real.watch((...written) => void this.#passage().then(() => changed(...written)));
        if (this.#state.type === "dead") unwatch();
        this.#unwatch.add(unwatch);
        return () => {
          this.#unwatch.delete(unwatch);
          unwatch();
        };
      },
    };
  }

  /**
   * The lease of another life has expired long ago: that life is over, and this one does not wait. A life that was away has lost its own lease, whether
   * or not another one has claimed it by now.
   */
  readonly #leaseRow = (row: Row): Row => {
    if (this.#state.type === "late") return { ...row, tag: row.tag + 1 };
    const isOwn = row.value.includes(JSON.stringify(this.owner));
    return isOwn ? row : { ...row, remainingMs: -mourningMs };
  };

  /** The check of a lease that this life has lost; -1: there is none. */
  #lostLease({ checks }: Batch): number {
    return this.#state.type === "late" ? checks.findIndex(({ table }) => table === "leases") : -1;
  }

  #engine<Context extends CallerContext>(given: Engine<Context>, inside: string | null): Engine<Context> {
    const { adapter, protocol, options } = given;
    const { hooks = {} } = options;
    return {
      ...given,
      clock: this.clock,
      adapter: adapter === null ? null : this.#adapter(adapter, inside),
      fallback: given.fallback.map((one): Fallback =>
        isPair(one) ? { ...one, adapter: this.#adapter(one.adapter, inside) } : one,
      ),
      tools: given.tools.map((one) => this.#tool(one, inside)),
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
          { ...plain, kind: "hook", name, inside },
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
    const { model, messages } = request;
    const id = typeof model === "string" ? model : (model?.id ?? "");
    const name = `${real.provider} ${id} after ${messages.length} messages, try ${call.attempt}`;
    await this.#begin({ ...plain, kind: "model", name, inside, provider: real.provider });
    let heard = 0;
    // The provider is real, and the time of this life jumps: timeouts on it would fire at once or never.
    for await (const batch of real.stream(request, { ...call, clock: systemClock })) {
      await this.#passage();
      yield batch;
      heard += 1;
      // Something has been heard of it, and shown.
      if (heard === 2) await this.#point("in_effect", name);
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
            const info = { ...plain, kind: "tool", name, policy, inside, callId: toolCall.id, idempotencyKey } as const;
            return this.#perform(info, () => prepared.run(this.#context(context, name)));
          },
        };
      },
    };
  }

  /** Turns a tool runs die with it. */
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
        return this.#perform({ ...plain, kind: "code", name, inside }, () => real.run(cell));
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
    const under = attempt(work);
    // When the life ends here, nobody hears of what it still comes to.
    under.catch(() => undefined);
    await this.#point("in_effect", info.name);
    try {
      return await under;
    } finally {
      await this.#point("after_effect", info.name);
    }
  }
}

const plain = { policy: "again", callId: null, idempotencyKey: null, provider: null } as const;

type LifeState =
  | { readonly type: "alive" }
  | { readonly type: "away"; readonly gate: Gate }
  /** It has been away, and somebody else has gone on. */
  | { readonly type: "late" }
  | { readonly type: "dead" };

type Gate = { readonly opened: Promise<void>; readonly open: () => void };

function gateOf(gates: Map<string, Gate>, name: string): Gate {
  const gate = gates.get(name) ?? newGate();
  gates.set(name, gate);
  return gate;
}

function newGate(): Gate {
  const waiting: (() => void)[] = [];
  const opened = new Promise<void>((resolve) => waiting.push(resolve));
  return { opened, open: () => waiting.forEach((go) => go()) };
}

async function attempt<T>(work: () => T): Promise<Awaited<T>> {
  return await work();
}

/** What a dead life waits for. */
function never(): Promise<never> {
  return new Promise(() => undefined);
}

function tablesOf({ puts, removals }: Batch): string {
  const counts = new Map<string, number>();
  for (const { table } of [...removals, ...puts]) counts.set(table, (counts.get(table) ?? 0) + 1);
  return [...counts].map(([table, count]) => (count === 1 ? table : `${table} ×${count}`)).join(", ");
}
