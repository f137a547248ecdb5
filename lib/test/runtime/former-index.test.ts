// Databases of the release that had one table for each reason of work: processes of both releases share one until it is
// finalized. That this release opens what that one left is tested in `museum/work.test.ts`.

import type { PostgresServer } from "../postgres-server.ts";
import type { HostStorage, Runtime, RuntimeOptions } from "everturn/runtime";

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { engine } from "everturn";
import { postgresStorage } from "everturn/postgres";
import { finalizeStorage, runtime } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";
import Libsql from "libsql";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";

import { formerTableNames } from "../../src/durable/rows/tables.ts";
import { killable } from "../museum/work/leave.ts";
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

/** New databases, by the name of the storage. Each call of the function that is returned opens the same one. */
const databases: { readonly [name: string]: () => Promise<() => HostStorage> } = {
  SQLite: async () => {
    const folder = mkdtempSync(join(tmpdir(), "everturn-former-"));
    cleanUps.push(() => rmSync(folder, { recursive: true }));
    const path = join(folder, "test.db");
    return () => {
      const database = new Libsql(path);
      cleanUps.push(() => database.close());
      return sqliteStorage(database);
    };
  },
  Postgres: async () => {
    const url = await server.createDatabase();
    return () => {
      const storage = postgresStorage({ url });
      cleanUps.push(() => storage.close());
      return storage;
    };
  },
};

const counted = async (storage: HostStorage) =>
  (await storage.read(formerTableNames.map((table) => ({ table, prefix: [] })))).map(({ length }) => length);

/** Makes a new database one of the former format: it has a row, and none for its format. */
const aged = async (storage: HostStorage) => {
  const lease = { table: "leases", key: ["", "old"], tag: 1, value: "{}" } as const;
  await storage.write({ checks: [], removals: [], puts: [lease] });
};

/** A process whose model calls the tool `work` unless the message is `hi`. With `hangs`, the tool never returns. */
function started(host: HostStorage, options: Partial<RuntimeOptions> & { readonly hangs?: boolean } = {}) {
  const { hangs = false, ...rest } = options;
  const model = thinker(({ messages }) =>
    isFirst(messages) && messages[0]?.content !== "hi"
      ? [{ type: "tool_call", id: "c1", name: "work", arguments: {} }]
      : says("Done."),
  );
  const work = workTool(() => (hangs ? latch().passed.then(() => "never") : "ok"));
  const engines = { default: engine({ adapter: model, model: "fake:m", tools: [work] }) };
  return runtime({ host, engines, live: false, lease: { ttlMs: 3000, renewMs: 1000 }, ...rest });
}

/** Waits until a condition is true. */
const eventually = (condition: () => Promise<boolean>) =>
  vi.waitFor(async () => expect(await condition()).toBe(true), { timeout: 100_000, interval: 50 });

const isDone = async (sessions: Runtime, id: string) => (await sessions.get(id))?.session.status === "completed";

describe.each(Object.keys(databases))("a database of the former release on %s", (name) => {
  const database = () => databases[name]?.() ?? Promise.reject(new Error("there is no such database"));

  test("gets rows of both releases until it is finalized, and those of the former one are found", async () => {
    const open = await database();
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
