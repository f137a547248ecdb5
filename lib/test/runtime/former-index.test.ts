// Databases of the release that had one table for each reason of work: this release opens them and finishes their
// turns, and processes of both releases share one until it is finalized.

import type { PostgresServer } from "../postgres-server.ts";
import type { HostStorage, Runtime, RuntimeOptions } from "everturn/runtime";

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { engine, tool } from "everturn";
import { postgresStorage } from "everturn/host/postgres";
import { sqliteStorage } from "everturn/host/sqlite";
import { finalizeStorage, runtime } from "everturn/runtime";
import Libsql from "libsql";
import { Client } from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";

import { startPostgres } from "../postgres-server.ts";
import { latch, workTool } from "./sessions.ts";
import { isFirst, says, thinker } from "./world.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
}, 60_000);
afterAll(() => server.close());

const cleanUps: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

/** A database that processes of this release open with `open`. `drop` removes the table that the former one lacks. */
type Database = { readonly open: () => HostStorage; readonly drop: () => Promise<void> };

const databases: { readonly [name: string]: () => Promise<Database> } = {
  SQLite: async () => {
    const folder = mkdtempSync(join(tmpdir(), "everturn-former-"));
    cleanUps.push(() => rmSync(folder, { recursive: true }));
    const path = join(folder, "test.db");
    const handle = () => {
      const database = new Libsql(path);
      cleanUps.push(() => database.close());
      return database;
    };
    return { open: () => sqliteStorage(handle()), drop: async () => void handle().exec("DROP TABLE everturn_work") };
  },
  Postgres: async () => {
    const url = await server.createDatabase();
    const open = () => {
      const storage = postgresStorage({ url });
      cleanUps.push(() => storage.close());
      return storage;
    };
    const drop = async () => {
      const client = new Client({ connectionString: url });
      await client.connect();
      await client.query("DROP TABLE everturn_work");
      await client.end();
    };
    return { open, drop };
  },
};

const formerTables = ["due", "waiting", "deadlines", "retained"] as const;

const counted = async (storage: HostStorage) =>
  (await storage.read(formerTables.map((table) => ({ table, prefix: [] })))).map(({ length }) => length);

/** Makes a new database one of the former format: it has a row, and none for its format. */
const aged = async (storage: HostStorage) => {
  const lease = { table: "leases", key: ["", "old"], tag: 1, value: "{}" } as const;
  await storage.write({ checks: [], removals: [], puts: [lease] });
};

/** A process whose model calls a tool if the message names one. With `hangs`, the tool `work` never returns. */
function started(host: HostStorage, options: Partial<RuntimeOptions> & { readonly hangs?: boolean } = {}) {
  const { hangs = false, ...rest } = options;
  const model = thinker(({ messages }) =>
    isFirst(messages) && messages[0]?.content !== "hi"
      ? [{ type: "tool_call", id: "c1", name: String(messages[0]?.content), arguments: {} }]
      : says("Done."),
  );
  const work = workTool(() => (hangs ? latch().passed.then(() => "never") : "ok"));
  const pay = tool({
    name: "pay",
    description: "Pays.",
    schema: { type: "object" },
    needsApproval: true,
    handler: () => "paid",
  });
  const engines = { default: engine({ adapter: model, model: "fake:m", tools: [work, pay] }) };
  const limits = { perTenant: { concurrency: 1 } };
  return runtime({ host, engines, limits, live: false, lease: { ttlMs: 3000, renewMs: 1000 }, ...rest });
}

/** A storage for a process that can be killed: then it reads and writes nothing more, and its leases expire. */
function killable(host: HostStorage) {
  let isOver = false;
  const stopped = new Promise<never>(() => undefined);
  const storage: HostStorage = {
    ...host,
    read: (queries) => (isOver ? stopped : host.read(queries)),
    write: (batch) => (isOver ? stopped : host.write(batch)),
  };
  const kill = async () => {
    isOver = true;
    const leases = (await host.read([{ table: "leases", prefix: [] }])).flat();
    const puts = leases.map(({ key, tag, value }) => ({ table: "leases", key, tag, value, ttlMs: 0 }) as const);
    await host.write({ checks: [], removals: [], puts });
  };
  return { storage, kill };
}

/** The sessions of a database, by name: one that waits for approval, one that is queued, and three over a limit. */
async function left(host: HostStorage): Promise<void> {
  const { storage, kill } = killable(host);
  const former = started(storage, { hangs: true, retentionMs: 500 });
  await (
    await former.start("hi", { id: "ended" })
  ).result;
  await (
    await former.start("pay", { id: "asks", waits: { approval: { afterMs: 200 } } })
  ).result;
  await started(host, { drive: false }).start("hi", { id: "queued" });
  for (const id of ["open", "waits 1", "waits 2"]) await former.tenant("busy").start("work", { id });
  await kill();
}

/** Waits until a condition is true. */
const eventually = (condition: () => Promise<boolean>) =>
  vi.waitFor(async () => expect(await condition()).toBe(true), { timeout: 100_000, interval: 50 });

const isDone = async (sessions: Runtime, id: string) => (await sessions.get(id))?.session.status === "completed";

describe.each(Object.keys(databases))("a database of the former release on %s", (name) => {
  const database = () => databases[name]?.() ?? Promise.reject(new Error("there is no such database"));

  test("is opened, and its open, queued and waiting turns, its deadline and its retained journal are found", async () => {
    const { open, drop } = await database();
    const before = open();
    await aged(before);
    await left(before);
    expect(await counted(before)).toEqual([2, 2, 1, 0]);
    await drop();

    const storage = open();
    const sessions = started(storage, { retentionMs: 500 });
    const stop = new AbortController();
    const working = sessions.work({ signal: stop.signal });
    const busy = sessions.tenant("busy");
    await eventually(async () => (await isDone(sessions, "queued")) && (await isDone(busy, "waits 2")));
    expect(await isDone(busy, "open")).toBe(true);
    expect(await isDone(busy, "waits 1")).toBe(true);
    await eventually(() => isDone(sessions, "asks"));
    const journals = async () => (await storage.read([{ table: "journal", prefix: [] }])).flat().length;
    await eventually(async () => (await journals()) === 0);
    expect(await counted(storage)).toEqual([0, 0, 0, 0]);
    stop.abort();
    await working;
    expect(await finalizeStorage(storage)).toMatchObject({ status: "finalized", from: 4 });
  }, 120_000);

  test("gets rows of both releases until it is finalized, and those of the former one are found", async () => {
    const { open } = await database();
    const host = open();
    await aged(host);
    // The former release does not know the index.
    const former: HostStorage = {
      ...host,
      write: ({ puts, removals, ...batch }) =>
        host.write({
          ...batch,
          puts: puts.filter(({ table }) => table !== "work"),
          removals: removals.filter(({ table }) => table !== "work"),
        }),
    };
    const accepting = started(former, { drive: false });
    await accepting.start("hi", { id: "first" });
    const { storage, kill } = killable(open());
    const sessions = started(storage, { hangs: true });
    const stop = new AbortController();
    const working = sessions.work({ signal: stop.signal });
    await eventually(() => isDone(sessions, "first"));
    await sessions.start("work", { id: "open" });
    // The former release finds the turn by its own table.
    expect(await counted(host)).toEqual([1, 0, 0, 0]);
    stop.abort();
    await working;
    await accepting.start("hi", { id: "second" });
    await kill();
    expect(await finalizeStorage(host)).toMatchObject({ status: "finalized" });

    const after = started(open());
    const end = new AbortController();
    const finishing = after.work({ signal: end.signal });
    await eventually(async () => (await isDone(after, "second")) && (await isDone(after, "open")));
    // What is left in the tables of the former release is removed.
    await eventually(async () => (await counted(host)).every((count) => count === 0));
    end.abort();
    await finishing;
  }, 120_000);
});
