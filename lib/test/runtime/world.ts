// A simulated world for tests of the durable runtime: the storage, the time and the log of external effects survive the
// processes. A process that is killed reads and writes nothing any more, as after a power failure: its `finally` blocks
// have no effect.

import type { TableName } from "../../src/durable/internal.ts";
import type { Changes } from "../../src/durable/rows/batch.ts";
import type { JournalRow } from "../../src/durable/rows/values.ts";
import type { WorkReason } from "../../src/durable/rows/work.ts";
import type { WorldStorage } from "./world-storage.ts";
import type {
  Adapter,
  Engine,
  FakeScript,
  JsonObject,
  Message,
  ModelRequest,
  Session,
  TurnEvent,
  Usage,
} from "everturn";
import type {
  ToolDefinition,
  StorageBatch as Batch,
  Liveness,
  StorageQuery as Query,
  StorageRow as Row,
} from "everturn/advanced";
import type { HostStorage, Runtime, RuntimeEvent, RuntimeOptions } from "everturn/runtime";

import { engine, fake, tool, messageText, modelRef } from "everturn";
import { runtime } from "everturn/runtime";
import { handClock } from "everturn/testing";

import { startHistory } from "../../src/core/kernel/internal.ts";
import { sha256 } from "../../src/durable/rows/digest.ts";
import { readValue, writeValue } from "../../src/durable/rows/stored.ts";
import { worldStorage } from "./world-storage.ts";

/** One write to the storage. */
export type Write = { readonly batch: Batch };

export type Process = Runtime & {
  /** The process is killed. */
  readonly died: Promise<void>;
  readonly kill: () => void;
};

type ProcessOptions = Partial<Omit<RuntimeOptions, "host" | "engines" | "clock">> & {
  /** Engines besides the default one. */
  readonly also?: RuntimeOptions["engines"];
  /** Kills the process after (or before) the first write for which this returns true. */
  readonly diesAfter?: (write: Write, count: number) => boolean;
  readonly diesBefore?: (write: Write) => boolean;
  /** Awaited before each read. */
  readonly holdsRead?: (queries: readonly Query[]) => Promise<void> | null;
  /** Awaited before each write. */
  readonly holds?: (write: Write) => Promise<void> | null;
  /** Makes a write fail with this error. */
  readonly refuses?: (write: Write) => Error | null;
  /** Recognises ended processes. */
  readonly liveness?: Liveness;
};

export class World {
  readonly clock = handClock(undefined, () => this.#opened.idle());
  /** The writes of all processes. */
  readonly writes: Write[] = [];
  readonly #opened: WorldStorage;
  readonly #storage: HostStorage;

  constructor({ storage }: { storage?: HostStorage } = {}) {
    this.#opened = storage === undefined ? worldStorage(this.clock) : { storage, idle: () => Promise.resolve() };
    this.#storage = this.#opened.storage;
  }

  /** Starts a process with this engine. */
  process(of: Engine, circumstances: ProcessOptions = {}): Process {
    const { diesAfter, diesBefore, holds, holdsRead, refuses, liveness, also = {}, ...options } = circumstances;
    const death = deferred();
    const life = { over: false, writes: 0 };
    const kill = (): void => {
      life.over = true;
      death.resolve();
    };
    const storage = this.#storage;
    const host: HostStorage = {
      ...storage,
      ...(liveness === undefined ? {} : { liveness }),
      read: async (queries) => {
        if (life.over) return never();
        await holdsRead?.(queries);
        const rows = await storage.read(queries);
        return life.over ? never() : rows;
      },
      write: async (batch) => {
        const write = { batch };
        if (!life.over && diesBefore?.(write) === true) kill();
        if (life.over) return never();
        await holds?.(write);
        const refused = refuses?.(write) ?? null;
        if (refused !== null) throw refused;
        this.writes.push(write);
        life.writes += 1;
        const written = await storage.write(batch);
        if (!life.over && diesAfter?.(write, life.writes) === true) kill();
        return life.over ? never() : written;
      },
      watch: (changed) => storage.watch(() => (life.over ? undefined : changed())),
    };
    const engines = { default: of, ...also };
    return {
      ...runtime({ host, engines, clock: this.clock, live: false, ...options }),
      died: death.promise,
      kill,
    };
  }

  /** Advances the time until the leases of killed processes have expired. */
  leaseRunsOut(): Promise<void> {
    return this.clock.advance(31_000);
  }

  async rows(table: TableName, prefix: Query["prefix"] = []): Promise<readonly Row[]> {
    const [rows = []] = await this.#storage.read([{ table, prefix }]);
    return rows;
  }

  /** The rows of the index of work with a reason. */
  async work(reason: WorkReason): Promise<readonly Row[]> {
    return this.rows("work", [reason]);
  }

  /** The values of the rows of a table, without their envelopes. */
  async values(table: TableName): Promise<readonly unknown[]> {
    return (await this.rows(table)).map(({ value }) => JSON.parse(value).data);
  }

  /** The journal of a turn in order: effects and responses. */
  async journal(turn: string | null): Promise<readonly { readonly asked: JsonObject; readonly row: JournalRow }[]> {
    const rows = (await this.rows("journal")).filter(({ key }) => key[2] === turn);
    return rows.map((stored) => {
      const row = readValue("journal", stored);
      return { asked: row.effect === null ? {} : JSON.parse(row.effect), row };
    });
  }

  /** All stored rows as text. */
  async everything(tables: readonly TableName[]): Promise<string> {
    const rows = await Promise.all(tables.map((table) => this.rows(table)));
    return JSON.stringify(rows);
  }

  /** Replaces the effect of a journal row by one that the code does not order, with a matching hash. */
  async diverge(row: Row, change: (effect: string) => string): Promise<void> {
    const recorded = readValue("journal", row);
    const effect = change(recorded.effect ?? "");
    if (effect === recorded.effect) throw new Error("nothing was changed");
    const value = writeValue("journal", { ...recorded, effect, hash: await sha256(effect) });
    await this.#storage.write({ checks: [], removals: [], puts: [{ table: "journal", ...row, value }] });
  }

  /** Changes the value of a row without the checks of the runtime. */
  async raw(table: TableName, row: Row, value: string): Promise<void> {
    await this.write({ puts: [{ table, ...row, value }] });
  }

  /** Writes rows without the checks of the runtime, as a process at another moment would. */
  async write({ removals = [], puts = [] }: Partial<Pick<Changes, "removals" | "puts">>): Promise<void> {
    await this.#storage.write({ checks: [], removals, puts });
  }

  /** Stores a session as another process would have left it. */
  async put(id: string, session: Session<JsonObject>): Promise<void> {
    const { entries, length, digest } = startHistory(session.thread.messages);
    const none = {
      engine: null,
      owner: null,
      startedBy: [],
      turn: null,
      lastTurn: null,
      title: null,
      attention: null,
      deleted: false,
    };
    const head = { ...none, sequence: 0, createdAt: 0, changedAt: 0 };
    const bare = { ...session, id, thread: { ...session.thread, messages: [] } };
    const value = writeValue("sessions", { ...head, session: bare, length, digest });
    const said = entries.map((message, place) => ({
      table: "entries" as const,
      key: ["", id, place],
      tag: 0,
      value: writeValue("entries", message),
    }));
    const puts = [{ table: "sessions" as const, key: ["", id], tag: 1, value }, ...said];
    await this.#storage.write({ checks: [], removals: [], puts });
  }

  /** An engine on the clock of this world. */
  engine(adapter: Adapter, rest: Omit<Partial<Engine>, "context"> = {}): Engine {
    return engine({ adapter, model: "fake:m", clock: this.clock, ...rest });
  }
}

const never = (): Promise<never> => new Promise(() => undefined);

/** A model whose reply is a function of the request. Processes can share it. */
export type Thinker = Adapter & { readonly asked: readonly ModelRequest[] };

export function thinker(answer: (request: ModelRequest, call: number) => FakeScript, usage?: Partial<Usage>): Thinker {
  const asked: ModelRequest[] = [];
  return {
    provider: "fake",
    asked,
    stream: (request, call) => {
      asked.push(request);
      const script = answer(request, asked.length);
      return fake(usage === undefined ? { script } : { script, usage }).stream(request, call);
    },
  };
}

/** The messages of a request, one line each. */
export const heard = (request: ModelRequest | undefined): readonly string[] =>
  (request?.messages ?? []).map((message) => `${message.role} ${messageText(message)}`);

/** Calls these tools, one a step, and replies with the text after the last result. */
export function worker(...names: readonly string[]): Thinker {
  return thinker(({ messages }) => {
    const results = messages.filter(({ role }) => role === "tool").length;
    const name = names[results];
    return name === undefined
      ? [{ type: "text", text: "Done." }]
      : [{ type: "tool_call", id: `c${results}`, name, arguments: { n: results } }];
  });
}

export async function eventsOf(events: AsyncIterable<RuntimeEvent>): Promise<readonly RuntimeEvent[]> {
  const read: RuntimeEvent[] = [];
  for await (const event of events) read.push(event);
  return read;
}

/** A tool that records the arguments of its runs. */
export function counting(name: string, rest: Partial<ToolDefinition<JsonObject>> = {}) {
  const runs: JsonObject[] = [];
  const { handler = () => `${name}: ok`, ...definition } = rest;
  const described = { name, description: name, schema: { type: "object" }, ...definition } as const;
  const run: typeof handler = (input, context) => {
    runs.push(input);
    return handler(input, context);
  };
  return { runs, tool: tool({ ...described, handler: run }) };
}

export const says = (text: string): FakeScript => [{ type: "text", text }];
export const call = (name: string, args: JsonObject = {}, id = name): FakeScript[number] => {
  return { type: "tool_call", id, name, arguments: args };
};

export const priced = (id: string) =>
  modelRef({ provider: "fake", id, pricing: { input: 1, output: 1, cacheRead: null, cacheWrite: null } });

/** Returns whether a request has no reply of the model yet. */
export const isFirst = (messages: readonly Message[]): boolean => messages.every(({ role }) => role !== "assistant");

/** The messages of a session, one line each. */
export async function talk(of: Pick<Runtime, "messages">, id = "s1"): Promise<readonly string[]> {
  return (await of.messages(id)).items.map((message) => `${message.role} ${messageText(message)}`);
}

export const sessionOf = async (of: Process, id = "s1"): Promise<Session<JsonObject>> => {
  const view = await of.get(id);
  if (view === null) throw new Error(`there is no session ${id}`);
  return view.session;
};

export const writes = (table: string, name?: string) => (write: Write) =>
  write.batch.puts.some((put) => put.table === table && (name === undefined || put.key.includes(name)));

/** Reads events until the first of this type, and returns it. */
export async function eventsUntil(events: AsyncIterable<RuntimeEvent>, type: TurnEvent["type"]): Promise<RuntimeEvent> {
  for await (const event of events) if (event.event.type === type) return event;
  throw new Error(`there was no ${type}`);
}

/** A gate that a test opens. */
export function gate() {
  const opened = deferred();
  const there = deferred();
  return {
    open: opened.resolve,
    /** Resolves when a caller waits at the gate. */
    reached: there.promise,
    wait: (): Promise<void> => {
      there.resolve();
      return opened.promise;
    },
  };
}

function deferred(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  const resolvers: (() => void)[] = [];
  const promise = new Promise<void>((resolve) => void resolvers.push(resolve));
  return { promise, resolve: () => resolvers.forEach((resolve) => resolve()) };
}
