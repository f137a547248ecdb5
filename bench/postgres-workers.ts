// Turns and steps a second of several worker processes over one Postgres server, beside plain transactions of the same
// rows in the same run.
//
// Method
//   For each number of workers: a database with accepted turns of ten tool steps, which the workers drive, and then as
//   many processes that write the rows of such a turn with plain `pg`, in as many transactions of one statement each.
//   Both run 16 turns at a time in a process. The time counts from the end of the warm-up. Beside the rates the table
//   shows round trips for each step (a model call, with everything that the turn and the worker read and write
//   besides), the processor time of the server, and what its connections waited for, sampled every 50 ms: a rate that
//   does not grow is explained by a saturated processor or by locks.

import type { PostgresServer } from "../lib/test/postgres-server.ts";
import type { TurnEnded } from "./backlog-agent.ts";
import type { BareWork, Batches } from "./bare-worker.ts";
import type { ChildProcess } from "node:child_process";

import { fork } from "node:child_process";
import { once } from "node:events";
import { availableParallelism, loadavg } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";

import { postgresStorage } from "everturn/postgres";
import { runtime } from "everturn/runtime";
import { Client } from "pg";

import { scriptedAgent } from "./backlog-agent.ts";
import { processorSeconds } from "./server-cpu.ts";

const toolSteps = 10;
const concurrency = 16;
const warmupTurns = 16;

type Measured = {
  readonly turnsPerSecond: number;
  readonly stepsPerSecond: number;
  readonly roundTripsPerStep: number;
  /** The processor time of the server, as a share of all cores. */
  readonly serverShare: number;
  /** Of the samples of busy connections: how many waited for a lock, and how many for the disk or a client. */
  readonly lockShare: number;
  readonly ioShare: number;
};

/** Prints the table for these numbers of workers. `turns`: how many turns are measured for each. */
export async function benchWorkers(
  server: PostgresServer,
  counts: readonly number[],
  turns: number,
  longestSeconds: number,
): Promise<void> {
  const batches = await batchesOfTurn(await server.createDatabase());
  console.log(
    `\nturns of ${toolSteps} tool steps (${batches.length} transactions, ${batches.flat().length} rows), ${concurrency} at a time in each process, ${turns} turns`,
  );
  line(
    "workers",
    "turns/s",
    "steps/s",
    "calls/step",
    "server CPU",
    "lock waits",
    "disk waits",
    "bare turns/s",
    "x bare",
  );
  for (const workers of counts) {
    const driven = await measureWorkers(server, workers, turns, longestSeconds);
    const bare = await measureBare(server, workers, batches, turns, longestSeconds);
    line(
      String(workers),
      driven.turnsPerSecond.toFixed(1),
      driven.stepsPerSecond.toFixed(0),
      driven.roundTripsPerStep.toFixed(2),
      percent(driven.serverShare),
      percent(driven.lockShare),
      percent(driven.ioShare),
      bare.toFixed(1),
      (driven.turnsPerSecond / bare).toFixed(2),
    );
  }
  const load = loadavg().map((value) => value.toFixed(1));
  console.log(`  ${availableParallelism()} cores, load ${load.join(" ")}; server CPU is the share of all cores`);
}

function line(...cells: readonly string[]): void {
  console.log(`  ${cells.map((cell) => cell.padStart(13)).join("")}`);
}

function percent(share: number): string {
  return `${(100 * share).toFixed(0)} %`;
}

/** The values of the rows that one turn writes, by transaction. */
async function batchesOfTurn(url: string): Promise<Batches> {
  const storage = postgresStorage({ url });
  const batches: string[][] = [];
  const host = {
    ...storage,
    write: (batch: Parameters<typeof storage.write>[0]) => {
      batches.push(batch.puts.map(({ value }) => value));
      return storage.write(batch);
    },
  };
  const sessions = runtime({ host, engines: { default: scriptedAgent(toolSteps, () => undefined) }, live: false });
  await (
    await sessions.start("Begin.")
  ).result;
  await storage.close();
  return batches;
}

async function measureWorkers(
  server: PostgresServer,
  workers: number,
  turns: number,
  longestSeconds: number,
): Promise<Measured> {
  const url = await server.createDatabase();
  await accept(url, warmupTurns + turns + concurrency * workers);
  const reports: (TurnEnded & { readonly worker: number })[] = [];
  const children = begin("backlog-worker.ts", workers, [url, String(toolSteps), String(concurrency)]);
  try {
    await ready(children);
    const waits = sampleWaits(url);
    const before = { at: performance.now(), server: processorSeconds(server.pid()) };
    const done = new Promise<void>((resolve) => {
      for (const [worker, child] of children.entries()) {
        child.on("message", (report: TurnEnded) => {
          reports.push({ ...report, worker });
          if (reports.length >= warmupTurns + turns) resolve();
        });
        child.send("start");
      }
    });
    await Promise.race([done, setTimeout(longestSeconds * 1000, null, { ref: false })]);
    const seconds = (performance.now() - before.at) / 1000;
    const serverSeconds = processorSeconds(server.pid()) - before.server;
    return {
      ...ratesOf(reports.toSorted((left, right) => left.at - right.at)),
      serverShare: serverSeconds / seconds / availableParallelism(),
      ...(await waits()),
    };
  } finally {
    await end(children);
  }
}

function ratesOf(reports: readonly (TurnEnded & { readonly worker: number })[]) {
  const skipped = Math.min(warmupTurns, Math.floor(reports.length / 4));
  const [first, last] = [totals(reports.slice(0, skipped)), totals(reports)];
  const seconds = (last.at - first.at) / 1000;
  const steps = last.steps - first.steps;
  return {
    turnsPerSecond: (reports.length - skipped) / seconds,
    stepsPerSecond: steps / seconds,
    roundTripsPerStep: (last.calls - first.calls) / steps,
  };
}

/** The counts of all workers at the last of these reports. */
function totals(reports: readonly (TurnEnded & { readonly worker: number })[]) {
  const latest = new Map(reports.map((report) => [report.worker, report]));
  const sum = { at: reports.at(-1)?.at ?? Number.NaN, calls: 0, steps: 0 };
  for (const { reads, writes, steps } of latest.values()) {
    sum.calls += reads + writes;
    sum.steps += steps;
  }
  return sum;
}

/** Turns a second of processes that write the same rows without the library. */
async function measureBare(
  server: PostgresServer,
  workers: number,
  batches: Batches,
  turns: number,
  longestSeconds: number,
): Promise<number> {
  const url = await server.createDatabase();
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query("CREATE TABLE bare (id bigserial PRIMARY KEY, value text)");
  await client.end();
  const children = begin("bare-worker.ts", workers, []);
  try {
    const isReady = ready(children);
    for (const child of children) child.send({ url, batches, concurrency } satisfies BareWork);
    await isReady;
    const times: number[] = [];
    const done = new Promise<void>((resolve) => {
      for (const child of children) {
        child.on("message", () => {
          times.push(performance.now());
          if (times.length >= warmupTurns + turns) resolve();
        });
        child.send("start");
      }
    });
    await Promise.race([done, setTimeout(longestSeconds * 1000, null, { ref: false })]);
    const skipped = Math.min(warmupTurns, Math.floor(times.length / 4));
    return ((times.length - skipped) * 1000) / ((times.at(-1) ?? Number.NaN) - (times[skipped - 1] ?? Number.NaN));
  } finally {
    await end(children);
  }
}

async function accept(url: string, count: number): Promise<void> {
  const storage = postgresStorage({ url, maxConnections: 17 });
  const sessions = runtime({ host: storage, engines: { default: scriptedAgent(0, () => undefined) }, drive: false });
  let next = 0;
  const acceptSome = async () => {
    for (let index = next++; index < count; index = next++) await sessions.start("Begin.", { id: `session-${index}` });
  };
  await Promise.all(Array.from({ length: 16 }, acceptSome));
  await storage.close();
}

function begin(program: string, count: number, args: readonly string[]): readonly ChildProcess[] {
  return Array.from({ length: count }, () => fork(join(import.meta.dirname, program), [...args]));
}

async function ready(children: readonly ChildProcess[]): Promise<void> {
  await Promise.all(children.map((child) => once(child, "message")));
}

async function end(children: readonly ChildProcess[]): Promise<void> {
  await Promise.all(
    children.map(async (child) => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const exited = once(child, "exit");
      child.kill("SIGKILL");
      await exited;
    }),
  );
}

/**
 * Samples what the busy connections of a database wait for. Returns the function that ends it and returns the shares.
 */
function sampleWaits(url: string): () => Promise<{ readonly lockShare: number; readonly ioShare: number }> {
  const client = new Client({ connectionString: url });
  const counts = { busy: 0, lock: 0, io: 0 };
  const text = `SELECT coalesce(wait_event_type, '') AS type FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'active'`;
  const over = new AbortController();
  const sampling = (async () => {
    await client.connect();
    while (!over.signal.aborted) {
      const { rows } = await client.query<{ readonly type: string }>(text);
      for (const { type } of rows) {
        counts.busy += 1;
        if (type === "Lock") counts.lock += 1;
        if (type === "IO" || type === "LWLock" || type === "IPC") counts.io += 1;
      }
      await setTimeout(50);
    }
    await client.end();
  })();
  return async () => {
    over.abort();
    await sampling;
    return { lockShare: counts.lock / counts.busy, ioShare: counts.io / counts.busy };
  };
}
