// The cost of durability: one step (reply, tool, checkpoint: three commits) at step n of a turn on one SQLite file;
// opening and continuing a session of n messages; and one step compared with a run in memory and with the same rows in
// as many bare transactions on the same file.

import type { ModelEvent } from "everturn/advanced";
import type { HostStorage, Runtime } from "everturn/runtime";

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { chat, engine, tool, assistant, user } from "everturn";
import { toolCall } from "everturn/advanced";
import { runtime } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";
import Database from "libsql";

import { printedRatios } from "./measure.ts";

const steps = [10, 100, 1000, 5000];
const messages = [10, 100, 1000, 10_000];

export async function benchDurable(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "everturn-bench-"));
  try {
    const database = new Database(join(folder, "steps.db"));
    await benchSteps("SQLite", sqliteStorage(database), (batches) => bareTransactions(database, batches));
    database.close();
    await benchSessions(join(folder, "sessions.db"));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

type Batches = readonly (readonly string[])[];

/** One step at step n of a turn. `bareOf` builds what writes the values of the same rows without the runtime. */
export async function benchSteps(
  name: string,
  storage: HostStorage,
  bareOf: (batches: Batches) => { readonly step: () => Promise<void> },
): Promise<void> {
  const disk = counted(storage);
  const durable = steps.map((n) => new Stepper(n, disk));
  const inMemory = new Stepper(0, null);
  const all = [...durable, inMemory];
  for (const stepper of all) await stepper.begin();
  for (const stepper of durable) for (let step = 0; step < stepper.from; step += 1) await stepper.step();
  for (let warmup = 0; warmup < 20; warmup += 1) await inMemory.step();

  const { batches, bytes, commits } = await disk.during(() => durable.at(-1)?.step());
  const bare = bareOf(batches);
  const times = [...all, bare].map((): number[] => []);
  for (let round = 0; round < 201; round += 1) {
    for (const [index, contender] of [...all, bare].entries()) {
      const start = performance.now();
      await contender.step();
      times[index]?.push(performance.now() - start);
    }
  }
  const medians = times.map(median);
  const [first = Number.NaN] = medians;
  const largest = medians[steps.length - 1] ?? Number.NaN;
  console.log(`\na durable step on ${name} (${commits} commits), at step n of a turn`);
  for (const [index, n] of steps.entries()) line(`n = ${n}`, medians[index] ?? Number.NaN, first);
  console.log("\nthe same step, beside");
  line(`the same ${batches.flat().length} rows in ${commits} bare transactions`, medians.at(-1) ?? Number.NaN, largest);
  printedRatios.set(`a durable step on ${name}, beside its rows in bare transactions`, largest / (medians.at(-1) ?? 0));
  line("a run in memory", medians.at(-2) ?? Number.NaN, largest);
  for (const stepper of durable) {
    const measured = await disk.during(() => stepper.step());
    console.log(
      `  step ${stepper.steps}: ${measured.commits} commits, ${measured.bytes} bytes in ${measured.batches.flat().length} rows`,
    );
  }
  if (bytes === 0) throw new Error("nothing was stored");
  for (const stepper of all) await stepper.end();
}

async function benchSessions(path: string): Promise<void> {
  const database = new Database(path);
  const storage = sqliteStorage(database);
  const agent = engine({ adapter: { provider: "bench", stream: () => said("Yes.") }, model: "bench:m" });
  const warm = runtime({ host: storage, engines: { default: agent }, live: false });
  for (const n of messages) {
    const earlierMessages = Array.from({ length: n - 2 }, (_, index) =>
      index % 2 === 0 ? user(`message ${index}`) : assistant(`answer ${index}`),
    );
    await (
      await warm.start([...earlierMessages, user("And now?")], { id: `s${n}` })
    ).result;
  }
  await table("opening a session of n messages (its head and the newest five)", 101, (n) => open(warm, n));
  await table("continuing one that this process knows", 101, (n) => go(warm, n));
  const cold = () => runtime({ host: storage, engines: { default: agent }, live: false });
  await table("continuing one that it has to read first (grows with the session: a request holds all of it)", 11, (n) =>
    go(cold(), n),
  );
  database.close();
}

function open(sessions: Runtime, n: number): Promise<unknown> {
  return sessions.get(`s${n}`, { messages: 5 });
}

async function go(sessions: Runtime, n: number): Promise<unknown> {
  return (await sessions.reply(`s${n}`, "Go on.")).result;
}

async function table(title: string, rounds: number, run: (n: number) => Promise<unknown>): Promise<void> {
  const times = messages.map((): number[] => []);
  for (let round = 0; round < rounds; round += 1) {
    for (const [index, n] of messages.entries()) {
      const start = performance.now();
      await run(n);
      times[index]?.push(performance.now() - start);
    }
  }
  const medians = times.map(median);
  console.log(`\n${title}`);
  for (const [index, n] of messages.entries()) line(`n = ${n}`, medians[index] ?? Number.NaN, medians[0] ?? Number.NaN);
}

/** A turn that takes one step when the benchmark asks for it; until then its model call waits. */
class Stepper {
  readonly from: number;
  steps = 0;
  readonly #storage: HostStorage | null;
  #answer: ((last: boolean) => void) | null = null;
  #asked: (() => void) | null = null;
  #done: Promise<unknown> = Promise.resolve();

  constructor(from: number, storage: HostStorage | null) {
    this.from = from;
    this.#storage = storage;
  }

  async begin(): Promise<void> {
    const noop = tool({
      name: "noop",
      description: "Does nothing.",
      schema: { type: "object" },
      replay: "safe",
      handler: () => "ok",
    });
    const agent = engine({
      adapter: { provider: "bench", stream: () => this.#stream() },
      model: "bench:m",
      tools: [noop],
    });
    const arrived = this.#arrival();
    if (this.#storage === null) this.#done = chat(agent, "go", { maxTurns: 1_000_000 });
    else {
      const sessions = runtime({ host: this.#storage, engines: { default: agent }, live: false });
      const { result } = await sessions.start("go", { id: `s${this.from}`, maxTurns: 1_000_000 });
      this.#done = result;
    }
    await arrived;
  }

  async step(): Promise<void> {
    const arrived = this.#arrival();
    this.steps += 1;
    this.#answer?.(false);
    await arrived;
  }

  async end(): Promise<void> {
    this.#answer?.(true);
    await this.#done;
  }

  #arrival(): Promise<void> {
    return new Promise((resolve) => {
      this.#asked = resolve;
    });
  }

  async *#stream(): AsyncGenerator<readonly ModelEvent[]> {
    const last = await new Promise<boolean>((resolve) => {
      this.#answer = resolve;
      this.#asked?.();
    });
    const call = toolCall({ id: `c${this.steps}`, name: "noop", arguments: { step: this.steps } });
    const { id, name, arguments: args, rawArguments, provider, metadata } = call;
    if (!last)
      yield [
        {
          type: "tool_call_completed",
          id,
          name,
          arguments: args,
          rawArguments,
          providerExecuted: false,
          provider,
          metadata,
        },
      ];
    yield* said("", last ? [] : [call]);
  }
}

async function* said(
  text: string,
  toolCalls: readonly ReturnType<typeof toolCall>[] = [],
): AsyncGenerator<readonly ModelEvent[]> {
  const finishReason = toolCalls.length > 0 ? "tool_calls" : "stop";
  yield [
    {
      type: "message_completed",
      message: assistant(text, { toolCalls, finishReason }),
      finishReason,
      rawFinishReason: null,
      requestId: null,
      responseId: null,
      model: null,
      route: null,
      output: null,
      metadata: {},
    },
  ];
}

type Counted = HostStorage & {
  readonly during: (work: () => Promise<unknown> | undefined) => Promise<{
    readonly batches: readonly (readonly string[])[];
    readonly bytes: number;
    readonly commits: number;
  }>;
};

/** A storage that records the batches written during a piece of work. */
function counted(storage: HostStorage): Counted {
  let batches: string[][] | null = null;
  return {
    ...storage,
    write: (batch) => {
      batches?.push(batch.puts.map(({ value }) => value));
      return storage.write(batch);
    },
    during: async (work) => {
      const written: string[][] = [];
      batches = written;
      await work();
      batches = null;
      return {
        batches: written,
        commits: written.length,
        bytes: written.flat().reduce((sum, { length }) => sum + length, 0),
      };
    },
  };
}

/** Writes the rows of the recorded batches in bare transactions, without the runtime. */
function bareTransactions(
  database: Database.Database,
  batches: readonly (readonly string[])[],
): { readonly step: () => Promise<void> } {
  database.exec("CREATE TABLE bare (id INTEGER PRIMARY KEY, value TEXT)");
  const insert = database.prepare("INSERT INTO bare (value) VALUES (?)");
  return {
    step: async () => {
      for (const values of batches) {
        database.exec("BEGIN IMMEDIATE");
        for (const value of values) insert.run(value);
        database.exec("COMMIT");
      }
    },
  };
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

function line(name: string, milliseconds: number, first: number): void {
  console.log(
    `  ${name.padEnd(48)} ${milliseconds.toFixed(3).padStart(10)} ms   × ${(milliseconds / first).toFixed(2)}`,
  );
}
