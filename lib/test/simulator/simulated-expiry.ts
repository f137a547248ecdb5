// Puts the expiry of rows under a simulated clock, for a storage that judges expiry by the clock of its server.
// Expiries are kept here; the server gets rows that last for years. Correct only if all operations go through one
// wrapper, one at a time, as in the simulator.

import type { StorageBatch, StorageRow } from "everturn/advanced";
import type { HostStorage } from "everturn/runtime";

const yearsMs = 3 * 365 * 86_400_000;

type Check = StorageBatch["checks"][number];

/** The storage with the expiry of its rows by `now`. */
export function withSimulatedExpiry(storage: HostStorage, now: () => number): HostStorage {
  const expiries = new Map<string, number>();
  const simulated = (table: string, row: StorageRow): StorageRow => {
    const expires = expiries.get(expiryKey(table, row.key));
    return expires === undefined ? row : { ...row, expires, remainingMs: expires - now() };
  };
  const holds = ({ table, key, alive, expires }: Check) => {
    const stored = expiries.get(expiryKey(table, key));
    if (alive === true && stored !== undefined && stored <= now()) return false;
    return expires === undefined || expires === (stored ?? null);
  };
  return {
    ...storage,
    read: async (queries) => {
      const all = await storage.read(queries);
      return all.map((rows, index) => rows.map((row) => simulated(queries[index]?.table ?? "", row)));
    },
    write: async (batch) => {
      const checks = batch.checks.map(({ table, key, tag }) => ({ table, key, tag }));
      const failed = batch.checks.findIndex((check) => !holds(check));
      if (failed !== -1) {
        // A check before it may fail too; the first one counts.
        const written = await storage.write({ checks: checks.slice(0, failed), removals: [], puts: [] });
        return written.ok ? { ok: false, check: failed } : written;
      }
      const puts = batch.puts.map((put) =>
        put.ttlMs === undefined || put.ttlMs === null ? put : { ...put, ttlMs: yearsMs },
      );
      const written = await storage.write({ ...batch, checks, puts });
      if (!written.ok) return written;
      for (const { table, prefix } of batch.removals) {
        const start = expiryKey(table, prefix).slice(0, -1);
        for (const name of expiries.keys()) if (name.startsWith(start)) expiries.delete(name);
      }
      for (const { table, key, ttlMs } of batch.puts) {
        if (ttlMs === undefined || ttlMs === null) expiries.delete(expiryKey(table, key));
        else expiries.set(expiryKey(table, key), ttlMs === 0 ? 0 : Math.floor(now()) + ttlMs);
      }
      return written;
    },
  };
}

function expiryKey(table: string, key: readonly (string | number)[]): string {
  return JSON.stringify([table, ...key]);
}
