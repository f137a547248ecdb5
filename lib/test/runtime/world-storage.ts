// The storage of a `World`: memory, or the one that the variable `EVERTURN_WORLD_STORAGE` names, so that the same tests
// run on every storage (`test/long/storages.ts`):
//
//   sqlite             a file for each world, through the handle of a driver
//   postgres://…       the URL of a database of a real server: a schema for each world
//
// The time is that of the test on each of them: expiries of rows are judged by its clock (`simulated-expiry.ts`), and
// the clock does not advance while an operation of the storage is pending.

import type { Clock } from "everturn";
import type { HostStorage } from "everturn/runtime";
import type { Pool } from "pg";

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { postgresStorage } from "everturn/postgres";
import { memoryStorage } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";
import Libsql from "libsql";

import { connectionPool } from "../postgres-server.ts";
import { withSimulatedExpiry } from "../simulator/simulated-expiry.ts";

/** The name of the storage of all worlds of this process. */
const named = process.env["EVERTURN_WORLD_STORAGE"] ?? "memory";

/** A storage, and what a test waits for before it advances the time. */
export type WorldStorage = {
  readonly storage: HostStorage;
  /** Resolves when no operation of the storage is pending. */
  readonly idle: () => Promise<void>;
};

let worlds = 0;
let folder: string | null = null;
let pool: Pool | null = null;

/** Opens an empty storage on a clock. */
export function worldStorage(clock: Clock): WorldStorage {
  if (named === "memory") return { storage: memoryStorage({ clock }), idle: () => Promise.resolve() };
  worlds += 1;
  if (named === "sqlite") {
    folder ??= temporaryFolder();
    // No other process writes the file. At the default of 25 ms most of the time that a test lets pass would be polls.
    const pollMs = 60_000;
    return inTurn(sqliteStorage(new Libsql(join(folder, `${worlds}.db`)), { clock, pollMs, synchronous: "normal" }));
  }
  pool ??= connectionPool(named, 8);
  const schema = `world_${process.pid}_${worlds}`;
  const onServer = postgresStorage({ pool, schema, transactionPooler: true });
  const storage = { ...onServer, now: () => Promise.resolve(clock.now()) };
  return inTurn(withSimulatedExpiry(storage, clock.now));
}

function temporaryFolder(): string {
  const path = mkdtempSync(join(tmpdir(), "everturn-world-"));
  process.once("exit", () => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** The storage with one operation at a time. */
function inTurn(storage: HostStorage): WorldStorage {
  const pending = new Set<Promise<unknown>>();
  let last: Promise<unknown> = Promise.resolve();
  const queued = <T>(operation: () => Promise<T>): Promise<T> => {
    const result = last.then(operation);
    const ended: Promise<unknown> = result.catch(() => undefined).then(() => pending.delete(ended));
    pending.add(ended);
    last = ended;
    return result;
  };
  return {
    storage: {
      ...storage,
      read: (queries) => queued(() => storage.read(queries)),
      write: (batch) => queued(() => storage.write(batch)),
    },
    idle: async () => {
      while (pending.size > 0) await last;
    },
  };
}
