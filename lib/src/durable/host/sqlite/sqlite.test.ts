// The handle form of the SQLite storage, on every installed driver: the conformance suite, then locks, damaged files,
// migrations and other states of a file. Files are in a temporary folder.

import type { Batch, Put, Query, HostStorage } from "../../rows/storage.ts";
import type { SqliteDatabase, SqliteOptions } from "everturn/sqlite";
import type { ChildProcess } from "node:child_process";

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, openSync, writeSync, closeSync, writeFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text as allText } from "node:stream/consumers";
import { pathToFileURL } from "node:url";

import { memoryStorage } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";
import { handClock, storageSuite } from "everturn/testing";
import * as fc from "fast-check";
import Libsql from "libsql";
import { afterEach, describe, expect, test } from "vitest";

import { tables } from "../../rows/tables.ts";
import { unescapeText, escapeText } from "../shared/text-escaping.ts";
import { schemaVersion } from "./schema.ts";

type Handle = SqliteDatabase & { close(): unknown };

type Driver = {
  readonly name: string;
  /** Why the driver cannot be tested here; `null`: it can. */
  readonly missing: string | null;
  readonly open: (path: string) => Handle;
  readonly openReadOnly: (path: string) => Handle;
  readonly openWithBigInts: (path: string) => Handle;
  /** A program that opens the file of `path` as `database`. */
  readonly program: string;
};

const require = createRequire(import.meta.url);

const libsql: Driver = {
  name: "libsql",
  missing: null,
  open: (path) => new Libsql(path),
  openReadOnly: (path) => new Libsql(`${pathToFileURL(path).href}?mode=ro`),
  openWithBigInts: (path) => new Libsql(path).defaultSafeIntegers(true),
  program: `const Database = require("libsql"); const database = new Database(path);`,
};

type NodeOptions = { readonly readOnly?: boolean; readonly readBigInts?: boolean };

function nodeDatabase(path: string, options: NodeOptions = {}): Handle {
  const {
    DatabaseSync,
  }: { readonly DatabaseSync: new (path: string, options: NodeOptions) => Handle } = require("node:sqlite");
  return new DatabaseSync(path, options);
}

const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);

const node: Driver = {
  name: "node:sqlite",
  missing: major > 22 || (major === 22 && minor >= 13) ? null : "node:sqlite is there from Node 22.13 on",
  open: (path) => nodeDatabase(path),
  openReadOnly: (path) => nodeDatabase(path, { readOnly: true }),
  openWithBigInts: (path) => nodeDatabase(path, { readBigInts: true }),
  program: `const { DatabaseSync } = require("node:sqlite"); const database = new DatabaseSync(path);`,
};

const cleanUps: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

function newFile(): string {
  const folder = mkdtempSync(join(tmpdir(), "everturn-sqlite-"));
  cleanUps.push(() => rmSync(folder, { recursive: true }));
  return join(folder, "test.db");
}

function opened(handle: Handle): Handle {
  cleanUps.push(() => handle.close());
  return handle;
}

const entry = (position: number, value = ""): Put => ({ table: "entries", key: ["t", "s", position], tag: 0, value });
const batch = (...puts: readonly Put[]): Batch => ({ checks: [], removals: [], puts });
const whole: Query = { table: "entries", prefix: ["t", "s"] };

async function positions(storage: HostStorage): Promise<readonly unknown[]> {
  const [rows = []] = await storage.read([whole]);
  return rows.map(({ key }) => key[2]);
}

/** The first row that a statement returns. */
function asked(database: SqliteDatabase, sql: string): unknown {
  const { _metadata: _, ...row }: { readonly [column: string]: unknown } = Object(database.prepare(sql).get());
  return row;
}

describe.each([libsql, node])("[lash 81] on $name", (driver) => {
  // A driver that is not installed is skipped, and the title says why.
  const there = driver.missing === null;
  const title = there ? "a storage" : `a storage (skipped: ${driver.missing})`;

  describe.skipIf(!there)(`${title} in a file`, () => {
    const cases = storageSuite(async () => {
      const path = newFile();
      const handles = [driver.open(path)];
      const open = (handle: Handle) => sqliteStorage(handle, { pollMs: 5 });
      return {
        storage: open(handles[0] ?? driver.open(path)),
        reopen: async () => {
          handles.pop()?.close();
          const again = driver.open(path);
          handles.push(again);
          return open(again);
        },
        close: async () => {
          for (const handle of handles) handle.close();
        },
      };
    });
    test.each(cases.map(({ name, run }) => [name, run]))("%s", (_, run) => run());
  });

  describe.skipIf(!there)(`${title} in memory`, () => {
    const cases = storageSuite(async () => {
      const handle = driver.open(":memory:");
      return { storage: sqliteStorage(handle), reopen: null, close: async () => void handle.close() };
    });
    test.each(cases.map(({ name, run }) => [name, run]))("%s", (_, run) => run());
  });

  describe.skipIf(!there)(title, () => {
    const open = (path: string, options: SqliteOptions = {}) => {
      const database = opened(driver.open(path));
      return { database, storage: sqliteStorage(database, options) };
    };

    test("is durable in a file, and volatile in memory or in a temporary file", () => {
      const path = newFile();
      expect(open(path).storage).toMatchObject({ name: path, durability: "durable" });
      expect(open(":memory:").storage).toMatchObject({ name: "sqlite in memory", durability: "volatile" });
      expect(open("").storage).toMatchObject({ durability: "volatile" });
      expect(open(path, { name: "mine" }).storage.name).toBe("mine");
    });

    test("uses a write-ahead log, a busy timeout and synchronous=FULL", () => {
      const { database } = open(newFile());
      expect(asked(database, "PRAGMA journal_mode")).toEqual({ journal_mode: "wal" });
      expect(asked(database, "PRAGMA synchronous")).toEqual({ synchronous: 2 });
      expect(asked(database, "PRAGMA busy_timeout")).toEqual({ timeout: 15_000 });
      const relaxed = open(newFile(), { synchronous: "normal", busyMs: 7 }).database;
      expect(asked(relaxed, "PRAGMA synchronous")).toEqual({ synchronous: 1 });
      expect(asked(relaxed, "PRAGMA busy_timeout")).toEqual({ timeout: 7 });
    });

    test("creates the tables of the runtime with their columns", () => {
      const { database } = open(newFile());
      for (const [table, key] of Object.entries(tables)) {
        const columns = database.prepare(`SELECT name, type, pk FROM pragma_table_info('everturn_${table}')`).all();
        expect(columns, table).toEqual([
          ...key.map(({ name, type }, index) => ({ name, type: type.toUpperCase(), pk: index + 1 })),
          { name: "tag", type: "INTEGER", pk: 0 },
          { name: "expires", type: "INTEGER", pk: 0 },
          { name: "value", type: "TEXT", pk: 0 },
        ]);
      }
      const names = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all();
      expect(names).toHaveLength(Object.keys(tables).length + 1);
    });

    test("answers every query from the primary key without sorting", async () => {
      const database = opened(driver.open(":memory:"));
      const statements: string[] = [];
      const storage = sqliteStorage(watched(database, (sql) => statements.push(sql)));
      // Migrations read whole tables.
      statements.length = 0;
      const value = { text: "x", integer: 1 };
      for (const table of typedKeys(tables)) {
        const key = tables[table].map(({ type }) => value[type]);
        for (let length = 0; length <= key.length; length += 1) {
          const query: Query = { table, prefix: key.slice(0, length) };
          const bound = key[length];
          await storage.read([query, { ...query, limit: 1, reverse: true }]);
          if (bound !== undefined) await storage.read([{ ...query, after: bound, before: bound, limit: 9 }]);
          await storage.write({ checks: [], removals: [query], puts: [] });
        }
        await storage.write({
          checks: [{ table, key, tag: null }],
          removals: [],
          puts: [{ table, key, tag: 0, value: "" }],
        });
      }
      const planned = new Set(statements.filter((sql) => /^(SELECT|DELETE|INSERT) .*"everturn_(?!schema)/.test(sql)));
      expect(planned.size).toBeGreaterThan(200);
      for (const sql of planned) {
        const plan = JSON.stringify(database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...nulls(sql)));
        expect(plan, sql).not.toMatch(/TEMP B-TREE/);
        if (sql.includes("WHERE")) expect(plan, sql).not.toMatch(/SCAN/);
        else if (sql.includes("ORDER BY")) expect(plan, sql).toMatch(/SCAN \w+ USING INDEX/);
      }
    });

    test("reads the same rows from a handle that returns bigints", async () => {
      const path = newFile();
      const storage = sqliteStorage(opened(driver.openWithBigInts(path)));
      const put = { table: "recent", key: ["t", 2 ** 40, "s"], tag: 3, ttlMs: 2 ** 41, value: "v" } as const;
      await storage.write(batch(put));
      const [[row] = []] = await storage.read([{ table: "recent", prefix: [] }]);
      expect(row).toMatchObject({ key: ["t", 2 ** 40, "s"], tag: 3, value: "v" });
      expect(row?.expires).toBeGreaterThan(2 ** 41);
      expect(row?.remainingMs).toBeGreaterThan(2 ** 40);
      const checks = [{ table: "recent", key: put.key, tag: 3, aliveAt: 5 } as const];
      expect(await storage.write({ ...batch(), checks })).toEqual({ ok: true });
    });

    test("keeps a batch that is not lasting across a crash of the process, and flushes it with the next batch", async () => {
      const path = newFile();
      const { database, storage } = open(path);
      const child = start(driver, path, [
        `await storage.write({ checks: [], removals: [], lasting: false, puts: [{ table: "entries", key: ["t", "s", 1], tag: 0, value: "" }] });`,
        `process.kill(process.pid, "SIGKILL");`,
      ]);
      expect(await child.ended).toMatchObject({ signal: "SIGKILL", output: "ready\n" });
      expect(await positions(storage)).toEqual([1]);
      await storage.write({ ...batch(entry(2)), lasting: false });
      expect(asked(database, "PRAGMA synchronous")).toEqual({ synchronous: 2 });
      expect(await positions(storage)).toEqual([1, 2]);
    });

    test("shares a file with storages of other prefixes", async () => {
      const path = newFile();
      const { database, storage } = open(path);
      const other = sqliteStorage(database, { tablePrefix: "other_" });
      const third = open(path, { tablePrefix: "Third" }).storage;
      await storage.write(batch(entry(1)));
      await other.write(batch(entry(2)));
      await third.write(batch(entry(3)));
      expect(await Promise.all([storage, other, third].map(positions))).toEqual([[1], [2], [3]]);
      await storage.write({ checks: [], removals: [{ table: "entries", prefix: [] }], puts: [] });
      expect(await Promise.all([storage, other, third].map(positions))).toEqual([[], [2], [3]]);
    });

    test("refuses invalid table prefixes and durations", () => {
      const database = opened(driver.open(":memory:"));
      for (const tablePrefix of ["", "1st", "a-b", 'a"b', "ä", "a b", "a;"]) {
        expect(() => sqliteStorage(database, { tablePrefix })).toThrow(/^tablePrefix must consist/);
      }
      expect(() => sqliteStorage(database, { pollMs: 0 })).toThrow(/^pollMs must be/);
      expect(() => sqliteStorage(database, { busyMs: 1.5 })).toThrow(/^busyMs must be/);
      expect(database.prepare("SELECT * FROM sqlite_master").all()).toEqual([]);
    });

    describe("next to other connections", () => {
      test("lets one of two concurrent writers win", async () => {
        const path = newFile();
        const both = [open(path).storage, open(path).storage];
        let round = 0;
        const order = fc.array(fc.nat({ max: 1 }), { minLength: 2, maxLength: 8 });
        await fc.assert(
          fc.asyncProperty(order, async (who) => {
            round += 1;
            const key = ["t", `round ${round}`];
            const attempts = who.map((index, writer) =>
              both[index]?.write({
                checks: [{ table: "sessions", key, tag: null }],
                removals: [],
                puts: [{ table: "sessions", key, tag: 1, value: `${writer}` }],
              }),
            );
            const winners = (await Promise.all(attempts)).flatMap((result, writer) =>
              result?.ok ? [`${writer}`] : [],
            );
            expect(winners).toHaveLength(1);
            for (const storage of both) {
              const [rows = []] = await storage.read([{ table: "sessions", prefix: key }]);
              expect(rows.map(({ value }) => value)).toEqual(winners);
            }
          }),
          { numRuns: 200 },
        );
      });

      test("notices writes of other processes, and loses no concurrent write", async () => {
        const path = newFile();
        const { storage } = open(path, { pollMs: 2 });
        await storage.write(batch({ table: "sessions", key: ["t", "sum"], tag: 0, value: "0" }));
        let end = () => {};
        const notified = new Promise<void>((resolve) => {
          end = storage.watch(() => resolve());
        });
        const children = [1, 2, 3].map(() =>
          start(driver, path, [
            `for (let added = 0; added < 40; ) {`,
            `  const [[row]] = await storage.read([{ table: "sessions", prefix: ["t", "sum"] }]);`,
            `  const written = await storage.write({ removals: [],`,
            `    checks: [{ table: "sessions", key: row.key, tag: row.tag }],`,
            `    puts: [{ table: "sessions", key: row.key, tag: row.tag + 1, value: String(Number(row.value) + 1) }] });`,
            `  if (written.ok) added += 1;`,
            `}`,
          ]),
        );
        await notified;
        end();
        for (const child of children) expect(await child.ended).toEqual({ code: 0, signal: null, output: "ready\n" });
        const [rows] = await storage.read([{ table: "sessions", prefix: ["t", "sum"] }]);
        expect(rows).toMatchObject([{ key: ["t", "sum"], tag: 120, expires: null, value: "120" }]);
      });

      test("polls for writes of other connections every pollMs of its clock while it is watched", async () => {
        const path = newFile();
        const clock = handClock();
        const { storage } = open(path, { clock });
        const other = open(path);
        let calls = 0;
        const end = storage.watch(() => (calls += 1));
        await other.storage.write(batch(entry(1)));
        await clock.advance(24);
        expect(calls).toBe(0);
        await clock.advance(1);
        expect(calls).toBe(1);
        end();
        expect(clock.sleepers).toBe(0);
      });

      test("notices writes of another storage on the same handle", async () => {
        const { database, storage } = open(newFile());
        let calls = 0;
        const end = storage.watch(() => (calls += 1));
        await sqliteStorage(database, { tablePrefix: "other_" }).write(batch(entry(1)));
        expect(calls).toBe(1);
        end();
      });

      test("keeps the process alive while it is watched, and no longer", async () => {
        const child = start(driver, newFile(), [
          `const end = storage.watch(() => {});`,
          `setTimeout(() => { process.stdout.write("still here\\n"); end(); }, 60).unref();`,
        ]);
        expect(await child.ended).toEqual({ code: 0, signal: null, output: "ready\nstill here\n" });
      });

      test("is created once when several processes open a new file at the same time", async () => {
        const path = newFile();
        const children = [1, 2, 3, 4].map((number) =>
          start(
            driver,
            path,
            [
              `await storage.write({ checks: [], removals: [], puts: [{ table: "entries", key: ["t", "s", ${number}], tag: 0, value: "" }] });`,
            ],
            "when all are ready",
          ),
        );
        await Promise.all(children.map((child) => child.ready));
        for (const child of children) child.go();
        for (const child of children) expect(await child.ended).toEqual({ code: 0, signal: null, output: "ready\n" });
        const { database, storage } = open(path);
        expect(await positions(storage)).toEqual([1, 2, 3, 4]);
        expect(database.prepare("SELECT * FROM everturn_schema").all()).toEqual([{ id: 1, version: schemaVersion }]);
      });

      test("waits for a process that creates the same tables", async () => {
        const path = newFile();
        const database = opened(driver.open(path));
        let first: HostStorage | null = null;
        const second = sqliteStorage(
          watched(database, (sql) => {
            if (sql === "BEGIN IMMEDIATE") first ??= open(path).storage;
          }),
        );
        await second.write(batch(entry(1)));
        expect(first).not.toBeNull();
        expect(database.prepare("SELECT * FROM everturn_schema").all()).toEqual([{ id: 1, version: schemaVersion }]);
      });

      test("waits for a lock of another connection when it switches to WAL", async () => {
        const path = newFile();
        const other = opened(driver.open(path));
        other.exec("CREATE TABLE mine (id)");
        other.exec("BEGIN IMMEDIATE");
        const seen: string[] = [];
        const database = watched(opened(driver.open(path)), (sql) => {
          if (sql === "BEGIN IMMEDIATE" && !seen.includes(sql)) other.exec("COMMIT");
          seen.push(sql);
        });
        const storage = sqliteStorage(database, { busyMs: 10 });
        expect(seen.filter((sql) => sql === "PRAGMA journal_mode = WAL")).toHaveLength(2);
        expect(await storage.write(batch(entry(1)))).toEqual({ ok: true });
        expect(asked(database, "PRAGMA journal_mode")).toEqual({ journal_mode: "wal" });
      });

      test("reports storage_busy while the file is locked, and works afterwards", async () => {
        const path = newFile();
        const { storage } = open(path, { busyMs: 20 });
        await storage.write(batch(entry(1)));
        const other = opened(driver.open(path));
        other.exec("BEGIN EXCLUSIVE");
        const busy = { reason: "storage_busy", message: expect.stringMatching(/locked .* more than 20 ms/) };
        await expect(storage.write(batch(entry(2)))).rejects.toMatchObject(busy);
        await expect(storage.write({ ...batch(entry(2)), lasting: false })).rejects.toMatchObject(busy);
        expect(await positions(storage)).toEqual([1]);
        other.exec("COMMIT");
        await storage.write(batch(entry(3)));
        expect(await positions(storage)).toEqual([1, 3]);
      });

      test("reports storage_busy for a locked new file, and creates nothing", () => {
        const path = newFile();
        const other = opened(driver.open(path));
        other.exec("BEGIN EXCLUSIVE");
        const database = opened(driver.open(path));
        expect(() => sqliteStorage(database, { busyMs: 20 })).toThrow(/locked by another connection/);
        other.exec("COMMIT");
        expect(other.prepare("SELECT * FROM sqlite_master").all()).toEqual([]);
        expect(() => sqliteStorage(database, { busyMs: 20 })).not.toThrow();
      });
    });

    describe("reports the cause", () => {
      test("when a newer release has migrated the tables, and changes nothing", async () => {
        const path = newFile();
        const { database } = open(path);
        database.exec("UPDATE everturn_schema SET version = 70");
        database.exec("PRAGMA journal_mode = DELETE");
        const later = opened(driver.open(path));
        const before = later.prepare("SELECT * FROM sqlite_master").all();
        expect(() => sqliteStorage(later)).toThrow(
          expect.objectContaining({
            name: "RuntimeError",
            reason: "newer_schema",
            message: `the tables "everturn_…" of the storage "${path}" have version 70; this release supports versions up to ${schemaVersion}. Nothing was changed. Use the release that wrote them or a newer one, or another tablePrefix.`,
          }),
        );
        expect(later.prepare("SELECT * FROM sqlite_master").all()).toEqual(before);
        expect(asked(later, "SELECT version FROM everturn_schema")).toEqual({ version: 70 });
        expect(asked(later, "PRAGMA journal_mode")).toEqual({ journal_mode: "delete" });
        expect(() => sqliteStorage(later, { tablePrefix: "older_" })).not.toThrow();
      });

      test("when the disk is full, and loses nothing", async () => {
        const path = newFile();
        const { database, storage } = open(path);
        await storage.write(batch(entry(1, "kept")));
        database.exec("PRAGMA max_page_count = 1");
        const big = "x".repeat(1_000_000);
        const full = { reason: "storage_full", message: expect.stringMatching(/no space left/) };
        for (const lasting of [true, false]) {
          const refused = storage.write({ ...batch(entry(2), entry(1, big)), lasting });
          await expect(refused).rejects.toMatchObject(full);
          expect(await storage.read([whole])).toMatchObject([[{ key: ["t", "s", 1], value: "kept" }]]);
          expect(asked(database, "PRAGMA synchronous")).toEqual({ synchronous: 2 });
        }
        database.exec("PRAGMA max_page_count = 1000000");
        expect(await storage.write(batch(entry(2), entry(1, big)))).toEqual({ ok: true });
        expect(await positions(storage)).toEqual([1, 2]);
      });

      test("when the file is damaged", async () => {
        const path = newFile();
        const first = driver.open(path);
        await sqliteStorage(first).write(batch(...[1, 2, 3].map((position) => entry(position, "x".repeat(2000)))));
        first.exec("PRAGMA wal_checkpoint(TRUNCATE)");
        const page = Object.values(Object(asked(first, "PRAGMA page_size")))[0];
        const root = Object.values(
          Object(asked(first, "SELECT rootpage FROM sqlite_master WHERE name = 'everturn_entries'")),
        )[0];
        first.close();
        overwrite(path, (Number(root) - 1) * Number(page), Number(page));
        const { storage } = open(path);
        await expect(storage.read([whole])).rejects.toMatchObject({
          reason: "corrupt_row",
          message: expect.stringContaining(path),
          cause: expect.anything(),
        });
        expect(await storage.write(batch({ table: "tokens", key: ["d"], tag: 0, value: "" }))).toEqual({ ok: true });
      });

      test("when the file is not a database", () => {
        const path = newFile();
        writeFileSync(path, "This is a letter, and no database. ".repeat(1000));
        expect(() => open(path)).toThrow(expect.objectContaining({ reason: "corrupt_row" }));
      });

      test("when a row was not written by this library", async () => {
        const { database, storage } = open(newFile());
        await storage.write(batch(entry(1, "secret")));
        database.exec(`UPDATE everturn_entries SET tag = ${2n ** 60n}`);
        const corrupt = { reason: "corrupt_row", message: expect.not.stringContaining("secret") };
        await expect(storage.read([whole])).rejects.toMatchObject(corrupt);
        const checks = [{ table: "entries", key: ["t", "s", 1], tag: 0 } as const];
        await expect(storage.write({ ...batch(), checks })).rejects.toMatchObject(corrupt);
        database.exec("DELETE FROM everturn_schema");
        expect(() => sqliteStorage(database)).toThrow(expect.objectContaining({ reason: "corrupt_row" }));
      });

      test("when the handle is read-only, and still reads", async () => {
        const path = newFile();
        await open(path).storage.write(batch(entry(1)));
        const storage = sqliteStorage(opened(driver.openReadOnly(path)));
        expect(await positions(storage)).toEqual([1]);
        await expect(storage.write(batch(entry(2)))).rejects.toMatchObject({
          reason: "storage_failed",
          message: expect.stringMatching(/read-only/),
        });
        expect(await positions(storage)).toEqual([1]);
      });

      test("when a new file is read-only", () => {
        const path = newFile();
        opened(driver.open(path)).exec("CREATE TABLE mine (id)");
        const database = opened(driver.openReadOnly(path));
        expect(() => sqliteStorage(database)).toThrow(expect.objectContaining({ reason: "storage_failed" }));
      });

      test("when the caller has an open transaction, which stays open", async () => {
        const { database, storage } = open(newFile());
        database.exec("CREATE TABLE mine (id)");
        database.exec("BEGIN");
        database.exec("INSERT INTO mine VALUES (1)");
        const failed = { reason: "storage_failed", message: expect.stringMatching(/one is open on its handle/) };
        await expect(storage.write(batch(entry(1)))).rejects.toMatchObject(failed);
        await expect(storage.write({ ...batch(entry(1)), lasting: false })).rejects.toMatchObject(failed);
        await expect(storage.read([whole])).rejects.toMatchObject(failed);
        database.exec("COMMIT");
        expect(asked(database, "SELECT count(*) AS count FROM mine")).toEqual({ count: 1 });
        expect(await storage.write(batch(entry(1)))).toEqual({ ok: true });
      });

      test("when the handle was closed, also while it is watched", async () => {
        const path = newFile();
        const database = driver.open(path);
        const storage = sqliteStorage(database, { pollMs: 1 });
        await storage.write(batch(entry(1)));
        const end = storage.watch(() => {});
        database.close();
        const failed = { reason: "storage_failed", message: expect.stringMatching(/the handle is closed/) };
        await expect(storage.read([whole])).rejects.toMatchObject(failed);
        await expect(storage.write(batch(entry(2)))).rejects.toMatchObject(failed);
        expect(() => sqliteStorage(database)).toThrow(expect.objectContaining(failed));
        storage.watch(() => {})();
        end();
      });

      test("when a statement failed, and prepares its statements again", async () => {
        const path = newFile();
        const seen: string[] = [];
        const database = watched(opened(driver.open(path)), (sql) => seen.push(sql));
        const storage = sqliteStorage(database);
        for (const expected of [1, 0]) {
          seen.length = 0;
          await storage.read([whole]);
          expect(seen.filter((sql) => sql.startsWith("SELECT"))).toHaveLength(expected);
        }
        database.exec("BEGIN");
        await expect(storage.read([whole])).rejects.toThrow(/one is open/);
        database.exec("ROLLBACK");
        seen.length = 0;
        await storage.read([whole]);
        expect(seen.filter((sql) => sql.startsWith("SELECT"))).toHaveLength(1);
      });

      test("when a table is gone", async () => {
        const { database, storage } = open(newFile());
        database.exec("DROP TABLE everturn_entries");
        await expect(
          storage.write(batch({ table: "tokens", key: ["d"], tag: 0, value: "" }, entry(1))),
        ).rejects.toMatchObject({
          reason: "storage_failed",
          cause: expect.objectContaining({ message: expect.stringMatching(/no such table/) }),
        });
        expect(await storage.read([{ table: "tokens", prefix: [] }])).toEqual([[]]);
      });
    });

    test("answers like the storage in memory", async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.oneof(anyBatch, fc.array(anyQuery, { maxLength: 3 })), { maxLength: 30 }),
          async (work) => {
            const handle = driver.open(":memory:");
            try {
              // Both hosts see the same time.
              const both = [memoryStorage({ clock: still }), sqliteStorage(handle, { clock: still })] as const;
              for (const one of work) {
                const [wanted, came] = await Promise.all(
                  both.map((storage) => ("puts" in one ? storage.write(one) : storage.read(one))),
                );
                expect(came).toEqual(wanted);
              }
            } finally {
              handle.close();
            }
          },
        ),
        { numRuns: 150 },
      );
    });
  });
});

test("errors of a driver that reports only code names are distinguished", async () => {
  const failing = (code: string): SqliteDatabase => {
    const handle = opened(libsql.open(":memory:"));
    let fails = false;
    return {
      exec: (sql) => {
        if (fails && sql.startsWith("BEGIN")) throw Object.assign(new Error("no"), { code });
        fails ||= sql === "COMMIT";
        return handle.exec(sql);
      },
      prepare: (sql) => handle.prepare(sql),
    };
  };
  const reasonOf = (code: string) =>
    sqliteStorage(failing(code))
      .read([])
      .catch((error: unknown) => Object(error).reason);
  expect(await reasonOf("SQLITE_BUSY_SNAPSHOT")).toBe("storage_busy");
  expect(await reasonOf("SQLITE_LOCKED")).toBe("storage_busy");
  expect(await reasonOf("SQLITE_FULL")).toBe("storage_full");
  expect(await reasonOf("SQLITE_CORRUPT_INDEX")).toBe("corrupt_row");
  expect(await reasonOf("SQLITE_NOTADB")).toBe("corrupt_row");
  expect(await reasonOf("SQLITE_IOERR_WRITE")).toBe("storage_failed");
  expect(await reasonOf("ENOENT")).toBe("storage_failed");
});

// Characters next to all escaped ones, and where UTF-16 order differs from code point order.
const anyText = fc.string({
  unit: fc.constantFrom(
    "a",
    "b",
    "'",
    "\0",
    "\u0001",
    "\u0002",
    "\u0100",
    "\ud7fe",
    "\ud7ff",
    "\ud800",
    "\udbff",
    "\udc00",
    "\udfff",
    "\ue000",
    "\uffff",
    "😀",
  ),
  maxLength: 4,
});

test("escaping preserves every string and the order of strings", () => {
  fc.assert(
    fc.property(anyText, anyText, (left, right) => {
      expect(unescapeText(escapeText(left))).toBe(left);
      expect(escapeText(left)).not.toMatch(/\0|\p{Surrogate}/u);
      const points = (text: string) => Array.from(text, (one) => String(one.codePointAt(0)).padStart(7, "0")).join();
      const bytes = Buffer.compare(Buffer.from(escapeText(left)), Buffer.from(escapeText(right)));
      expect(Math.sign(bytes)).toBe(points(left) === points(right) ? 0 : points(left) < points(right) ? -1 : 1);
    }),
    { numRuns: 2000 },
  );
});

const text = fc.oneof(fc.constantFrom("", "a", "b"), anyText);
const number = fc.integer({ min: -2, max: 4 });
const tag = fc.integer({ min: 0, max: 2 });
const table = fc.constantFrom("sessions" as const, "entries" as const, "recent" as const, "tokens" as const);
const anyKey = table.chain((table) =>
  fc.tuple(...tables[table].map(({ type }) => (type === "text" ? text : number))).map((key) => ({ table, key })),
);
const anyPrefix = fc.tuple(anyKey, fc.nat({ max: 3 })).map(([{ table, key }, length]) => ({
  table,
  prefix: key.slice(0, length),
}));
const anyQuery: fc.Arbitrary<Query> = fc
  .tuple(
    anyKey,
    anyKey,
    fc.nat({ max: 3 }),
    fc.record({ limit: fc.integer({ min: -1, max: 4 }), reverse: fc.boolean() }, { requiredKeys: [] }),
    fc.nat({ max: 3 }),
  )
  .map(([{ table, key }, other, length, rest, bounds]) => {
    const [after, before] = [key[length], other.table === table ? other.key[length] : undefined];
    return {
      table,
      prefix: key.slice(0, length),
      ...(after !== undefined && (bounds & 1) === 1 ? { after } : {}),
      ...(before !== undefined && (bounds & 2) === 2 ? { before } : {}),
      ...rest,
    };
  });
const still = { ...handClock() };

const anyBatch: fc.Arbitrary<Batch> = fc.record(
  {
    checks: fc.array(
      fc
        .tuple(anyKey, fc.record({ tag: fc.option(tag), alive: fc.boolean() }, { requiredKeys: ["tag"] }))
        .map(([key, check]) => ({ ...key, ...check })),
      { maxLength: 1 },
    ),
    removals: fc.array(anyPrefix, { maxLength: 1 }),
    puts: fc.array(
      fc
        .tuple(
          anyKey,
          fc.record({ tag, value: text, ttlMs: fc.option(fc.nat({ max: 3 })) }, { requiredKeys: ["tag", "value"] }),
        )
        .map(([key, put]) => ({ ...key, ...put })),
      { maxLength: 6 },
    ),
    lasting: fc.boolean(),
  },
  { requiredKeys: ["checks", "removals", "puts"] },
);

/** A handle that passes every statement to a callback before it is run or prepared. */
function watched(database: SqliteDatabase, sees: (sql: string) => unknown): SqliteDatabase {
  return {
    exec: (sql) => {
      sees(sql);
      return database.exec(sql);
    },
    prepare: (sql) => {
      sees(sql);
      return database.prepare(sql);
    },
  };
}

function typedKeys<T extends object>(of: T): readonly Extract<keyof T, string>[] {
  const keys: Extract<keyof T, string>[] = [];
  for (const key in of) keys.push(key);
  return keys;
}

/** One parameter for each placeholder of a statement. */
function nulls(sql: string): readonly "x"[] {
  return Array.from(sql.matchAll(/\?/g), () => "x");
}

function overwrite(path: string, from: number, length: number): void {
  const file = openSync(path, "r+");
  writeSync(file, new Uint8Array(length).fill(0xa5), 0, length, from);
  closeSync(file);
}

type Child = {
  /** Resolves when the process has loaded its modules and is about to open the file. */
  readonly ready: Promise<void>;
  /** Lets a waiting process continue. */
  readonly go: () => void;
  readonly ended: Promise<{ readonly code: number | null; readonly signal: string | null; readonly output: string }>;
};

/** Starts a process that opens the file as `storage` and runs these lines. */
function start(
  driver: Driver,
  path: string,
  lines: readonly string[],
  waits: "not" | "when all are ready" = "not",
): Child {
  const program = [
    `import { createRequire } from "node:module";`,
    `import { sqliteStorage } from "everturn/sqlite";`,
    `const require = createRequire(${JSON.stringify(import.meta.url)});`,
    `const path = ${JSON.stringify(path)};`,
    `console.log("ready");`,
    ...(waits === "not" ? [] : [`for await (const _ of process.stdin);`]),
    driver.program,
    `const storage = sqliteStorage(database, { pollMs: 2 });`,
    ...lines,
  ];
  // The built package loads in a fifth of the CPU time of its sources.
  const args = ["--input-type=module", "--eval", program.join("\n")];
  const child: ChildProcess = spawn(process.execPath, args, { stdio: ["pipe", "pipe", "pipe"] });
  cleanUps.push(() => child.kill());
  const { stdin, stdout, stderr } = child;
  if (stdin === null || stdout === null || stderr === null) throw new Error("a child without pipes");
  const closed: Promise<unknown[]> = once(child, "close");
  const output = Promise.all([allText(stdout), allText(stderr)]);
  const ready = once(stdout, "data").then(() => undefined);
  const ended = closed.then(async () => {
    const [out, err] = await output;
    const complaints = err.replace(/^.*ExperimentalWarning.*\n.*\n/m, "");
    return { code: child.exitCode, signal: child.signalCode, output: out + complaints };
  });
  return { ready, go: () => void stdin.end(), ended };
}
