// The storages that simulations run on: memory, a real SQLite file, a real Postgres server.

import type { StorageBatch } from "everturn/advanced";
import type { HostStorage } from "everturn/runtime";
import type { SimulationOptions, SimulationReport } from "everturn/testing";

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { storageTables } from "everturn/advanced";
import { postgresStorage } from "everturn/postgres";
import { memoryStorage } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";
import { simulate } from "everturn/testing";
import Libsql from "libsql";

import { withSimulatedExpiry } from "./simulated-expiry.ts";

/** Opens the storage of a run, empty. */
type Open = SimulationOptions["storage"];

const inMemory: Open = (clock) => memoryStorage({ clock });

/**
 * The storage of a name: `memory`, `sqlite`, or the URL of a Postgres database. Each run removes the rows of the run
 * before it.
 */
export function simulatedStorage(name: string): { readonly open: Open; readonly close: () => Promise<void> } {
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

/** Runs a simulation on a storage and in memory. A difference between both is a violation of H7. */
export async function simulateAsInMemory(options: SimulationOptions): Promise<SimulationReport> {
  const report = await simulate(options);
  // The runtime wraps a storage that several releases may share (its format), and the order of reads at the same moment
  // follows from that.
  const expected = await simulate({
    ...options,
    storage: (clock) => ({ ...memoryStorage({ clock }), durability: "durable" }),
  });
  const [actual, wanted] = [report, expected].map(({ counts, answers }) => JSON.stringify({ ...counts, ...answers }));
  if (actual === wanted) return report;
  const difference = `H7: the run differs from memory: ${actual ?? ""}, not ${wanted ?? ""}`;
  return { ...report, violations: [...report.violations, difference] };
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
