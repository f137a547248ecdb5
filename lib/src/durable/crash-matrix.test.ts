// Runs every storage through the crash matrix (H7). In the memory storage the process is killed at every sixteenth
// crash point, and at a sample of points twice. SQLite and Postgres add that rows are read back from a database; a
// sample of the points is enough for that. The number of points is printed at the end. `npm run test:long` kills at
// every point of every storage (`EVERTURN_CRASH_POINTS=all`).

import type { PostgresServer } from "../../test/postgres-server.ts";
import type { CrashOptions, CrashReport } from "../testing/crash-matrix.ts";
import type { HostStorage } from "./rows/storage.ts";
import type { PostgresStorage } from "everturn/postgres";
import type { SqlitePathStorage } from "everturn/sqlite";
import type { CrashHost } from "everturn/testing";

import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { postgresStorage } from "everturn/postgres";
import { memoryStorage } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";
import { crashMatrix, crashScenarios } from "everturn/testing";
import Libsql from "libsql";
import { afterAll, describe, expect, test } from "vitest";

import { startPostgres } from "../../test/postgres-server.ts";
import { tables } from "./rows/tables.ts";

type Tried = {
  readonly host: string;
  readonly open: () => Promise<CrashHost>;
  /** The density of crash points (`CrashOptions`). */
  readonly sample: Pick<CrashOptions, "again" | "away"> & { readonly every: number };
};

const everyPoint = process.env["EVERTURN_CRASH_POINTS"] === "all";
const folder = mkdtempSync(join(tmpdir(), "everturn-crash-"));
const reports = new Map<string, CrashReport[]>();

const memory: Tried = {
  host: "memory",
  open: async () => ({ host: memoryStorage(), reopen: null, close: async () => undefined }),
  sample: { every: 16, again: 384, away: 96 },
};

let files = 0;

const sqlite: Tried = {
  host: "sqlite",
  open: async () => {
    files += 1;
    const path = join(folder, `${files}.db`);
    copyFileSync(emptyFile(), path);
    // A new process opens a handle of its own. Writes are not flushed to disk: the process crashes here, not the
    // machine.
    const handles: Libsql.Database[] = [];
    const open = () => {
      handles.push(new Libsql(path));
      return sqliteStorage(handles.at(-1) ?? new Libsql(path), { synchronous: "normal", pollMs: 1000 });
    };
    return {
      host: open(),
      reopen: async () => open(),
      close: async () => {
        for (const handle of handles) handle.close();
        rmSync(path, { force: true });
      },
    };
  },
  sample: { every: 64 },
};

/** The path form, on one file and one thread: starting a thread for each point would take longer than the point. */
let inThread: SqlitePathStorage | null = null;

const sqlitePath: Tried = {
  host: "sqlite in a thread",
  open: async () => {
    const storage = (inThread ??= sqliteStorage({ path: join(folder, "thread.db"), synchronous: "normal" }));
    await empty(storage);
    return { host: storage, reopen: async () => storage, close: async () => undefined };
  },
  sample: { every: 64 },
};

let server: PostgresServer | null = null;
let inPostgres: PostgresStorage | null = null;

/** One database and one storage for all runs, for the same reason. */
const postgres: Tried = {
  host: "postgres",
  open: async () => {
    server ??= await startPostgres();
    const storage = (inPostgres ??= postgresStorage({ url: server.url() }));
    await empty(storage);
    return { host: storage, reopen: async () => storage, close: async () => undefined };
  },
  sample: { every: 128 },
};

/** Deletes all rows. */
async function empty(storage: HostStorage): Promise<void> {
  const removals = Object.keys(tables).flatMap((name) => (isTable(name) ? [{ table: name, prefix: [] }] : []));
  await storage.write({ checks: [], removals, puts: [] });
}

function isTable(name: string): name is keyof typeof tables {
  return name in tables;
}

/** A file with empty tables, created once. */
function emptyFile(): string {
  const path = join(folder, "empty.db");
  if (files > 1) return path;
  const handle = new Libsql(path);
  sqliteStorage(handle);
  handle.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  handle.close();
  return path;
}

afterAll(async () => {
  await inThread?.close();
  await inPostgres?.close();
  await server?.close();
  rmSync(folder, { recursive: true });
  const lines = [...reports].flatMap(([host, all]) => [
    ...all.map((report) => `${host}: ${report.scenario}: ${counted([report])}`),
    `${host}: ${counted(all)}, in all`,
  ]);
  console.log([...lines, `crash matrix: ${counted([...reports.values()].flat())}, in all`].join("\n"));
});

function counted(all: readonly CrashReport[]): string {
  const sum = (what: "points" | "kills" | "doubles" | "returns") =>
    all.reduce((before, report) => before + report[what], 0);
  return `${sum("points")} points, ${sum("kills")} killed, ${sum("doubles")} killed twice, ${sum("returns")} away and back`;
}

describe.each([memory, sqlite, sqlitePath, postgres])("[lash 95] $host", ({ host, open, sample }) => {
  test.each(crashScenarios.map((scenario) => ({ ...scenario, scenario })))(
    "$name",
    { timeout: everyPoint ? 600_000 : 60_000 },
    async ({ name, scenario }) => {
      // A long turn repeats the same points.
      const options = everyPoint
        ? { ...sample, every: 1 }
        : name === "a turn of many steps"
          ? { every: Math.max(31, 2 * sample.every) }
          : sample;
      const report = await crashMatrix(scenario, { open, ...options });
      reports.set(host, [...(reports.get(host) ?? []), report]);
      expect(
        report.broken.map(({ killedAt, what }) => [
          ...killedAt.map(({ number, kind, what: at }) => `${number} ${kind} ${at}`),
          what,
        ]),
      ).toEqual([]);
      expect(report.kills).toBeGreaterThan(0);
    },
  );
});
