// Runs a range of seeds in one process and prints one line of JSON for each hundred seeds and each seed with a violation. Started by `run.ts`.
//
// On a real database every seed runs on memory too: both runs must have the same numbers of events, writes and effects.

import type { HostStorage, StorageBatch } from "everturn/runtime";
import type { SimulationOptions, SimulationReport } from "everturn/testing";

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { memoryStorage } from "everturn/host/memory";
import { postgresStorage } from "everturn/host/postgres";
import { sqliteStorage } from "everturn/host/sqlite";
import { storageTables } from "everturn/runtime";
import { simulate } from "everturn/testing";
import Libsql from "libsql";

import { mutations } from "./mutations.ts";
import { withSimulatedExpiry } from "./simulated-expiry.ts";

type Settings = {
  readonly first?: number;
  readonly count?: number;
  readonly step?: number;
  readonly stopAtFirst?: boolean;
  /** `memory`, `sqlite`, or the URL of a Postgres database. */
  readonly storage?: string;
  readonly mutation?: string;
  /** Prints the transcript of this seed instead. */
  readonly transcript?: number;
};

/** Opens the storage of a run, empty. */
type Open = SimulationOptions["storage"];

const settings: Settings = JSON.parse(process.argv[2] ?? "{}");
const mutation = mutations.find(({ name }) => name === settings.mutation);
const wrap = mutation !== undefined && "wrap" in mutation ? { wrap: mutation.wrap } : {};
const inMemory: Open = (clock) => memoryStorage({ clock });

function database(name: string): { readonly open: Open; readonly close: () => Promise<void> } {
  if (name === "memory") return { open: inMemory, close: async () => undefined };
  if (name === "sqlite") {
    const folder = mkdtempSync(join(tmpdir(), "everturn-simulator-"));
    const handle = new Libsql(join(folder, "sessions.db"));
    return {
      open: (clock) => emptied(sqliteStorage(handle, { clock, synchronous: "normal" })),
      close: async () => {
        handle.close();
        rmSync(folder, { recursive: true, force: true });
      },
    };
  }
  const storage = postgresStorage({ url: name, maxConnections: 4 });
  return {
    open: (clock) => emptied(withSimulatedExpiry(storage, clock.now)),
    close: () => storage.close(),
  };
}

/** Removes all rows of a storage. */
async function emptied(storage: HostStorage): Promise<HostStorage> {
  const removals = Object.keys(storageTables)
    .filter(isTable)
    .map((table): StorageBatch["removals"][number] => ({ table, prefix: [] }));
  await storage.write({ checks: [], removals, puts: [] });
  return storage;
}

function isTable(name: string): name is keyof typeof storageTables {
  return Object.hasOwn(storageTables, name);
}

/** A run on the storage, compared with one on memory if it is a database. */
async function run(seed: number, open: Open): Promise<SimulationReport> {
  const report = await simulate({ seed, storage: open, ...wrap });
  if (open === inMemory) return report;
  const expected = await simulate({ seed, storage: inMemory, ...wrap });
  const [actual, wanted] = [JSON.stringify(report.counts), JSON.stringify(expected.counts)];
  if (actual === wanted) return report;
  return { ...report, violations: [...report.violations, `H7: the run differs from memory: ${actual}, not ${wanted}`] };
}

if (settings.transcript === undefined) {
  const { first = 1, count = 1, step = 1, stopAtFirst = false } = settings;
  const { open, close } = database(settings.storage ?? "memory");
  let counts: { [name: string]: number } = {};
  let seeds = 0;
  const print = (failed: SimulationReport | null) => {
    console.log(JSON.stringify({ seeds, counts, failed }));
    counts = {};
    seeds = 0;
  };
  for (let index = 0; index < count; index += 1) {
    const seed = first + index * step;
    const report = await run(seed, open);
    seeds += 1;
    for (const [name, sum] of Object.entries(report.counts)) counts[name] = (counts[name] ?? 0) + sum;
    if (report.violations.length > 0) {
      const shrunk =
        stopAtFirst || open !== inMemory ? report : await simulate({ seed, storage: open, ...wrap, shrink: true });
      print({ ...shrunk, transcript: null });
      if (stopAtFirst) break;
    }
    if (seeds === 100) print(null);
  }
  if (seeds > 0) print(null);
  await close();
} else {
  const seed = settings.transcript;
  const { transcript, violations, script } = await simulate({ seed, storage: inMemory, ...wrap, transcript: true });
  console.log([...(transcript ?? []), "", ...script, "", ...violations].join("\n"));
}
