// `npm run bench:backlog`: how many turns a second workers end over one SQLite file or one Postgres database, by the
// number of workers and of turns that wait.
//
// Method
//   This process accepts turns without driving them, in two files: one with few turns, one with the same number and the
//   backlog. Each run copies a file, starts worker processes over the copy, and reads the time from the first turn
//   after the warm-up to the last one of the measurement, as the workers report it. The workers never run out of turns:
//   both files hold some that are left over at the end ("backlog 0" means that nothing else waits besides these). Runs
//   with and without backlog alternate, because other load of the machine changes over time. The ratio is the median of
//   the ratios of the rounds.
//
//   --turns 300  --warmup 60  --backlog 20000  --workers 1,2,4  --rounds 3    how many, and how often
//   --step-workers 1,2,3,4  --step-turns 40                                  the second table: turns of ten tool steps,
//                                                                            no backlog
//   --seconds 12                                                             a run ends after this time with the turns
//                                                                            it has
//   --concurrency 16                                                         turns at a time in one worker
//   --form path | handle                                                     how workers open the file
//   --model-ms 0                                                             how long the scripted model takes for a
//                                                                            reply
//   --postgres                                                               a Postgres server of its own, in a
//                                                                            temporary folder, instead of a file
//   --pin                                                                    worker n runs on core n alone (Linux,
//                                                                            `taskset`); worker n + cores shares it
//
//   On a machine with few cores, `--pin` shows how the rate grows with the number of workers: without it one worker
//   uses more than one core (the event loop, the SQLite thread, the garbage collector), and a second worker finds no
//   idle core.

import type { TurnEnded } from "./backlog-agent.ts";
import type { ChildProcess } from "node:child_process";

import { execFileSync, fork } from "node:child_process";
import { once } from "node:events";
import { closeSync, copyFileSync, fsyncSync, mkdtempSync, openSync, rmSync, statSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { parseArgs } from "node:util";

import { postgresStorage } from "everturn/postgres";
import { runtime } from "everturn/runtime";
import Database from "libsql";
import { Client } from "pg";

import { startPostgres } from "../lib/test/postgres-server.ts";
import { openHandle, scriptedAgent } from "./backlog-agent.ts";

const { values: options } = parseArgs({
  options: {
    turns: { type: "string", default: "300" },
    warmup: { type: "string", default: "60" },
    backlog: { type: "string", default: "20000" },
    workers: { type: "string", default: "1,2,4" },
    rounds: { type: "string", default: "3" },
    "step-workers": { type: "string", default: "1,2,3,4" },
    "step-turns": { type: "string", default: "40" },
    concurrency: { type: "string", default: "16" },
    seconds: { type: "string", default: "12" },
    form: { type: "string", default: "path" },
    pin: { type: "boolean", default: false },
    postgres: { type: "boolean", default: false },
    "model-ms": { type: "string", default: "0" },
  },
});

const [turns, warmup, backlog, rounds, stepTurns, concurrency, longestSeconds] = [
  Number(options.turns),
  Number(options.warmup),
  Number(options.backlog),
  Number(options.rounds),
  Number(options["step-turns"]),
  Number(options.concurrency),
  Number(options.seconds),
];
const [workerCounts, stepWorkerCounts] = [numbers(options.workers), numbers(options["step-workers"])];

type Measured = {
  readonly turnsPerSecond: number;
  readonly stepsPerSecond: number;
  readonly queriesPerTurn: number;
  readonly writesPerTurn: number;
  readonly roundTripsPerStep: number;
  readonly conflictsPerTurn: number;
};

type Run = {
  readonly file: string;
  readonly workers: number;
  readonly toolSteps: number;
  readonly warmup: number;
  readonly turns: number;
};

const folder = mkdtempSync(join(tmpdir(), "everturn-backlog-"));
const children = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));

const server = options.postgres
  ? await startPostgres({ fsync: "on", shared_buffers: "256MB", max_wal_size: "4GB" })
  : null;

/** Runs a statement on the server's own database. */
async function administer(statement: string): Promise<void> {
  const client = new Client({ connectionString: server?.url() });
  await client.connect();
  await client.query(statement).finally(() => client.end());
}

/** Creates a Postgres database with `count` accepted turns. */
async function preparePostgres(name: string, count: number): Promise<string> {
  await administer(`CREATE DATABASE ${name}`);
  const storage = postgresStorage({ url: server?.url(name) ?? "", maxConnections: 16 });
  const sessions = runtime({ host: storage, engines: { default: scriptedAgent(0, () => undefined) }, drive: false });
  const from = performance.now();
  let next = 0;
  const accept = async () => {
    for (let index = next++; index < count; index = next++) await sessions.start("Begin.", { id: `session-${index}` });
  };
  await Promise.all(Array.from({ length: 16 }, accept));
  const seconds = (performance.now() - from) / 1000;
  await storage.close();
  console.log(`accepted ${count} turns in ${seconds.toFixed(1)} s (one process, 16 at a time)`);
  return name;
}

/** A copy of a database or of a file. */
async function newCopy(of: string): Promise<string> {
  if (server === null) return copyOf(of);
  await administer("DROP DATABASE IF EXISTS run WITH (FORCE)");
  await administer(`CREATE DATABASE run TEMPLATE ${of} STRATEGY FILE_COPY`);
  await administer("CHECKPOINT");
  return server.url("run");
}

/** Creates a file with `count` accepted turns. All rows are in the database file, none in its write-ahead log. */
async function prepare(name: string, count: number): Promise<string> {
  if (server !== null) return preparePostgres(name.replace(".db", ""), count);
  const path = join(folder, name);
  const { storage, close } = openHandle(path, "normal");
  const sessions = runtime({ host: storage, engines: { default: scriptedAgent(0, () => undefined) }, drive: false });
  const from = performance.now();
  for (let index = 0; index < count; index += 1) await sessions.start("Begin.", { id: `session-${index}` });
  const seconds = (performance.now() - from) / 1000;
  close();
  const database = new Database(path);
  database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  database.close();
  const size = `${(statSync(path).size / 2 ** 20).toFixed(0)} MiB`;
  console.log(`accepted ${count} turns in ${seconds.toFixed(1)} s (synchronous=normal, one process), ${size}`);
  return path;
}

/** Copies the file and syncs the copy to disk, so that the fsyncs of the workers do not wait for it. */
function copyOf(file: string): string {
  const path = join(folder, "run.db");
  for (const suffix of ["", "-wal", "-shm"]) rmSync(`${path}${suffix}`, { force: true });
  copyFileSync(file, path);
  const handle = openSync(path, "r+");
  fsyncSync(handle);
  closeSync(handle);
  return path;
}

async function measure({ file, workers, toolSteps, warmup, turns }: Run): Promise<Measured> {
  const path = await newCopy(file);
  const started = Array.from({ length: workers }, () =>
    fork(join(import.meta.dirname, "backlog-worker.ts"), [
      path,
      String(toolSteps),
      String(concurrency),
      options.form,
      options["model-ms"],
    ]),
  );
  for (const [index, child] of started.entries()) {
    children.add(child);
    if (!options.pin) continue;
    execFileSync("taskset", ["-a", "-c", "-p", String(index % availableParallelism()), String(child.pid)], {
      stdio: "ignore",
    });
  }
  const reports: (TurnEnded & { readonly worker: number })[] = [];
  const failed = Promise.race(
    started.map(async (child) => {
      const [code] = await once(child, "exit");
      throw new Error(`a worker ended with ${String(code)}`);
    }),
  );
  try {
    await Promise.race([failed, Promise.all(started.map((child) => once(child, "message")))]);
    const done = new Promise<void>((resolve) => {
      for (const [worker, child] of started.entries()) {
        child.on("message", (report: TurnEnded) => {
          reports.push({ ...report, worker });
          if (reports.length >= warmup + turns) resolve();
        });
        child.send("start");
      }
    });
    await Promise.race([done, failed, setTimeout(longestSeconds * 1000, null, { ref: false })]);
  } finally {
    failed.catch(() => undefined);
    await Promise.all(
      started.map(async (child) => {
        children.delete(child);
        if (child.exitCode !== null || child.signalCode !== null) return;
        const exited = once(child, "exit");
        child.kill("SIGKILL");
        await exited;
      }),
    );
  }
  const sorted = reports.toSorted((left, right) => left.at - right.at).slice(0, warmup + turns);
  const skipped = Math.min(warmup, Math.floor(sorted.length / 4));
  const ended = sorted.length - skipped;
  const [first, last] = [totals(sorted.slice(0, skipped)), totals(sorted)];
  const seconds = (last.at - first.at) / 1000;
  return {
    turnsPerSecond: ended / seconds,
    stepsPerSecond: (last.steps - first.steps) / seconds,
    queriesPerTurn: (last.queries - first.queries) / ended,
    writesPerTurn: (last.writes - first.writes) / ended,
    roundTripsPerStep: (last.reads + last.writes - first.reads - first.writes) / (last.steps - first.steps),
    conflictsPerTurn: (last.conflicts - first.conflicts) / ended,
  };
}

/** The counts of all workers at the last of these reports. */
function totals(reports: readonly (TurnEnded & { readonly worker: number })[]): TurnEnded {
  const latest = new Map(reports.map((report) => [report.worker, report]));
  const sum = { at: reports.at(-1)?.at ?? Number.NaN, reads: 0, queries: 0, writes: 0, conflicts: 0, steps: 0 };
  for (const { reads, queries, writes, conflicts, steps } of latest.values()) {
    sum.reads += reads;
    sum.queries += queries;
    sum.writes += writes;
    sum.conflicts += conflicts;
    sum.steps += steps;
  }
  return sum;
}

function numbers(list: string): readonly number[] {
  return list.split(",").filter(Boolean).map(Number);
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

function line(...cells: readonly string[]): void {
  console.log(`  ${cells.map((cell) => cell.padStart(15)).join("")}`);
}

/** Turns of one tool step and an answer, with and without the backlog. */
async function backlogTable(few: string, many: string): Promise<void> {
  console.log(
    `\nturns of one tool step, ${concurrency} at a time in each worker; median of ${rounds} rounds of ${turns} turns`,
  );
  line("workers", "backlog", "turns/s", "queries/turn", "writes/turn", "conflicts/turn", "x backlog 0", "(all rounds)");
  for (const workers of workerCounts) {
    const pairs: (readonly [Measured, Measured])[] = [];
    for (let round = 0; round < rounds; round += 1) {
      const run = { workers, toolSteps: 1, warmup, turns };
      pairs.push([await measure({ ...run, file: few }), await measure({ ...run, file: many })]);
    }
    const ratios = pairs.map(([without, beside]) => beside.turnsPerSecond / without.turnsPerSecond);
    for (const index of [0, 1] as const) {
      const medianOf = (name: keyof Measured) => median(pairs.map((pair) => pair[index][name]));
      const rates = pairs.map((pair) => pair[index].turnsPerSecond.toFixed(0)).join(" ");
      line(
        `${workers}`,
        `${index === 0 ? 0 : backlog}`,
        medianOf("turnsPerSecond").toFixed(1),
        medianOf("queriesPerTurn").toFixed(1),
        medianOf("writesPerTurn").toFixed(1),
        medianOf("conflictsPerTurn").toFixed(2),
        index === 0 ? "1.00" : median(ratios).toFixed(2),
        rates,
      );
    }
  }
}

/** Turns of ten tool steps and an answer, without a backlog. */
async function stepTable(few: string): Promise<void> {
  console.log(
    `\nsteps (model calls) of turns of ten tool steps, no backlog; median of ${rounds} rounds of ${stepTurns} turns`,
  );
  line("workers", "steps/s", "turns/s", "queries/turn", "writes/turn", "calls/step", "x 1 worker", "(all rounds)");
  const measured = stepWorkerCounts.map((): Measured[] => []);
  for (let round = 0; round < rounds; round += 1) {
    for (const [index, workers] of stepWorkerCounts.entries()) {
      const run = { file: few, workers, toolSteps: 10, warmup: concurrency, turns: stepTurns };
      measured[index]?.push(await measure(run));
    }
  }
  const one = measured[0] ?? [];
  for (const [index, all] of measured.entries()) {
    const medianOf = (name: keyof Measured) => median(all.map((run) => run[name]));
    line(
      `${stepWorkerCounts[index] ?? 0}`,
      medianOf("stepsPerSecond").toFixed(0),
      medianOf("turnsPerSecond").toFixed(1),
      medianOf("queriesPerTurn").toFixed(1),
      medianOf("writesPerTurn").toFixed(1),
      medianOf("roundTripsPerStep").toFixed(2),
      median(all.map((run, round) => run.stepsPerSecond / (one[round]?.stepsPerSecond ?? Number.NaN))).toFixed(2),
      all.map((run) => run.stepsPerSecond.toFixed(0)).join(" "),
    );
  }
}

const from = performance.now();
console.log(`Node ${process.version}, ${process.arch}`);
/** Spare turns, so that no worker runs out of turns before the end of the measurement. */
const spare = concurrency * Math.max(0, ...workerCounts, ...stepWorkerCounts);
const count = spare + Math.max(warmup + turns, spare + stepTurns);
const few = await prepare("few.db", count);
if (workerCounts.length > 0) await backlogTable(few, await prepare("many.db", count + backlog));
if (stepWorkerCounts.length > 0) await stepTable(few);
console.log(`\n${((performance.now() - from) / 1000).toFixed(0)} s in all`);
await server?.close();
process.exit();
