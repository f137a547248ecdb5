// The path form of the SQLite storage: the conformance suite, group commit, locks of other connections, crashes of the
// worker thread, close.
//
// Locks are held by a second connection in this process (BEGIN IMMEDIATE). An answered read shows that the thread has
// received every write sent before it, because messages arrive in order; so no test sleeps.

import type { Batch, HostStorage, Put, Query } from "../../rows/internal.ts";
import type { SqlitePathOptions, SqlitePathStorage } from "everturn/sqlite";

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text as allText } from "node:stream/consumers";
import { pathToFileURL } from "node:url";

import { RuntimeError } from "everturn";
import { memoryStorage } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";
import { storageSuite } from "everturn/testing";
import * as fc from "fast-check";
import Libsql from "libsql";
import { afterEach, describe, expect, test } from "vitest";

import { tables } from "../../rows/internal.ts";
import { schemaVersion } from "./schema.ts";

const cleanUps: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "everturn-sqlite-path-"));
  cleanUps.push(() => rmSync(folder, { recursive: true }));
  return folder;
}

const newFile = () => join(newFolder(), "test.db");

function open(options: SqlitePathOptions): SqlitePathStorage {
  const storage = sqliteStorage(options);
  cleanUps.push(() => storage.close());
  return storage;
}

/** A second connection to the file. */
function connect(path: string): Libsql.Database {
  const handle = new Libsql(path);
  cleanUps.push(() => handle.close());
  return handle;
}

/** A driver module: libsql, with `before` run before every `exec(sql)`. */
function driverModule(before: string): URL {
  const file = join(newFolder(), "driver.mjs");
  writeFileSync(
    file,
    `import * as fs from "node:fs";
     import { createRequire } from "node:module";
     const Database = createRequire(${JSON.stringify(import.meta.url)})("libsql");
     export function open(path) {
       const database = new Database(path);
       const exec = (sql) => { ${before}; return database.exec(sql); };
       return { exec, prepare: (sql) => database.prepare(sql), close: () => database.close() };
     }`,
  );
  return pathToFileURL(file);
}

const entry = (position: number, value = ""): Put => ({ table: "entries", key: ["t", "s", position], tag: 0, value });
const batch = (...puts: readonly Put[]): Batch => ({ checks: [], removals: [], puts });
const ifAbsent = (position: number, ...puts: readonly Put[]): Batch => ({
  ...batch(...puts),
  checks: [{ table: "entries", key: ["t", "s", position], tag: null }],
});
const whole: Query = { table: "entries", prefix: ["t", "s"] };
const numbers = (count: number) => Array.from({ length: count }, (_, index) => index + 1);

async function positions(storage: HostStorage): Promise<readonly unknown[]> {
  const [rows = []] = await storage.read([whole]);
  return rows.map(({ key }) => key[2]);
}

const everyTable: Batch = {
  checks: [],
  removals: Object.keys(tables).flatMap((name) => (isTable(name) ? [{ table: name, prefix: [] }] : [])),
  puts: [],
};

function isTable(name: string): name is keyof typeof tables {
  return name in tables;
}

const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
const drivers = [
  { driver: "libsql", missing: null },
  {
    driver: "node:sqlite",
    missing: major > 22 || (major === 22 && minor >= 13) ? null : "node:sqlite is there from Node 22.13 on",
  },
] as const;

describe.each(drivers)("[lash 81] a path, on $driver", ({ driver, missing }) => {
  const title = missing === null ? "keeps what every storage keeps" : `conformance (skipped: ${missing})`;

  // All cases use one thread, because it takes a third of a second to start one from the sources. The tables are
  // emptied between them.
  describe.skipIf(missing !== null)(title, () => {
    let path = "";
    let shared: SqlitePathStorage | null = null;
    const cases = storageSuite(async () => {
      if (path === "") path = join(mkdtempSync(join(tmpdir(), "everturn-sqlite-path-")), "test.db");
      const storage = (shared ??= sqliteStorage({ path, driver, pollMs: 5 }));
      await storage.write(everyTable);
      const others: SqlitePathStorage[] = [];
      return {
        storage,
        reopen: async () => {
          others.push(sqliteStorage({ path, driver, pollMs: 5 }));
          return others.at(-1) ?? storage;
        },
        close: async () => {
          for (const other of others) await other.close();
        },
      };
    });
    test.each(cases.map(({ name, run }) => [name, run]))("%s", (_, run) => run());

    test("and reports its driver and schema version", async () => {
      expect(await shared?.open()).toEqual({ driver, schemaVersion });
      await shared?.close();
      rmSync(join(path, ".."), { recursive: true });
    });
  });
});

test("answers like the storage in memory, also to concurrent operations", async () => {
  const storage = open({ path: ":memory:" });
  const position = fc.nat({ max: 5 });
  const anyBatch = fc.record({
    checks: fc.array(
      fc.record({
        table: fc.constant("entries" as const),
        key: position.map((number) => ["t", "s", number]),
        tag: fc.constantFrom(null, 0, 1),
      }),
      { maxLength: 2 },
    ),
    removals: fc.array(
      position.map((number) => ({ table: "entries" as const, prefix: ["t", "s", number] })),
      { maxLength: 1 },
    ),
    puts: fc.array(
      fc.tuple(position, fc.nat({ max: 1 })).map(([number, tag]) => ({ ...entry(number, `${tag}`), tag })),
      { maxLength: 3 },
    ),
    lasting: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(anyBatch, { maxLength: 20 }), async (batches) => {
      await storage.write(everyTable);
      const memory = memoryStorage();
      const expected = await Promise.all(batches.map((one) => memory.write(one)));
      expect(await Promise.all(batches.map((one) => storage.write(one)))).toEqual(expected);
      expect(await storage.read([whole])).toEqual(await memory.read([whole]));
    }),
    { numRuns: 100 },
  );
});

describe("group commit", () => {
  test("commits all waiting batches in one transaction, in order, each with its own checks", async () => {
    const path = newFile();
    const storage = open({ path });
    await storage.open();
    const other = connect(path);
    other.exec("BEGIN IMMEDIATE");
    const writes = numbers(50).map((position) => storage.write(ifAbsent(position, entry(position))));
    const loser = storage.write(ifAbsent(7, entry(7, "lost"), entry(100)));
    const lasting = storage.write({ ...batch(entry(51)), lasting: false });
    expect(await positions(storage)).toEqual([]);
    expect(storage.statistics()).toEqual({ writes: 0, transactions: 0, reads: 1, pending: 52 });
    other.exec("COMMIT");
    expect(await Promise.all(writes)).toEqual(numbers(50).map(() => ({ ok: true })));
    expect(await loser).toEqual({ ok: false, check: 0 });
    expect(await lasting).toEqual({ ok: true });
    expect(storage.statistics()).toEqual({ writes: 52, transactions: 1, reads: 1, pending: 0 });
    const [rows = []] = await storage.read([whole]);
    expect(rows.map(({ key, value }) => [key[2], value])).toEqual(numbers(51).map((position) => [position, ""]));
  });

  test("commits the batches that arrive while a transaction runs in the next one", async () => {
    const disk = join(newFolder(), "disk");
    const driver = driverModule(
      `const never = new Int32Array(new SharedArrayBuffer(4));
       while (sql === "COMMIT" && fs.existsSync(${JSON.stringify(disk)})) Atomics.wait(never, 0, 0, 1)`,
    );
    const storage = open({ path: newFile(), driver });
    await storage.open();
    writeFileSync(disk, "is busy until this file is removed");
    const writes = numbers(20).map((position) => storage.write(batch(entry(position))));
    rmSync(disk);
    await Promise.all(writes);
    const { writes: batches, transactions } = storage.statistics();
    expect(batches).toBe(20);
    expect(transactions).toBeLessThanOrEqual(2);
  });

  test("a batch that cannot be written fails alone", async () => {
    const path = newFile();
    const storage = open({ path });
    await storage.write(batch(entry(0)));
    const other = connect(path);
    other.exec(`UPDATE everturn_entries SET tag = ${2n ** 60n}`);
    other.exec("BEGIN IMMEDIATE");
    const before = storage.write(batch(entry(1)));
    const corrupt = storage.write({ ...batch(entry(9)), checks: [{ table: "entries", key: ["t", "s", 0], tag: 0 }] });
    const after = numbers(150).map((position) => storage.write(ifAbsent(position + 1, entry(position + 1))));
    await storage.read([]);
    other.exec("COMMIT");
    await expect(corrupt).rejects.toMatchObject({ name: "RuntimeError", reason: "corrupt_row" });
    expect(await before).toEqual({ ok: true });
    expect(await Promise.all(after)).toEqual(numbers(150).map(() => ({ ok: true })));
    other.exec("DELETE FROM everturn_entries WHERE position = 0");
    expect(await positions(storage)).toEqual(numbers(151));
  });

  test("flushes to disk if one of the batches is lasting, and not if none is", async () => {
    const path = newFile();
    const log = join(newFolder(), "log");
    const storage = open({ path, driver: driverModule(`fs.appendFileSync(${JSON.stringify(log)}, sql + "\\n")`) });
    const other = connect(path);
    /** The statement before the transaction that commits these batches together, and those after its beginning. */
    const around = async (...batches: readonly Batch[]) => {
      await storage.open();
      other.exec("BEGIN IMMEDIATE");
      const writes = batches.map((one) => storage.write(one));
      await storage.read([]);
      other.exec("COMMIT");
      await Promise.all(writes);
      // BEGIN IMMEDIATE is repeated, under another `busy_timeout`, until the lock is free.
      const executed = readFileSync(log, "utf8").trim().split("\n");
      const statements = executed
        .filter((sql) => !sql.includes("busy_timeout"))
        .filter((sql, index, all) => sql !== all[index - 1]);
      const begin = statements.lastIndexOf("BEGIN IMMEDIATE");
      return { before: statements[begin - 1], after: statements.slice(begin + 1) };
    };
    const fleeting: Batch = { ...batch(entry(1)), lasting: false };
    expect(await around(fleeting, fleeting)).toEqual({
      before: "PRAGMA synchronous = normal",
      after: ["COMMIT", "PRAGMA synchronous = full"],
    });
    expect(await around(fleeting, batch(entry(2)), fleeting)).toEqual({
      before: expect.not.stringMatching(/synchronous = normal/),
      after: ["COMMIT"],
    });
  });

  test("accepts more than may be sent to the thread at once", async () => {
    const storage = open({ path: ":memory:" });
    const big = "x".repeat(6_000_000);
    const writes = numbers(6).map((position) => storage.write(ifAbsent(position, entry(position, big))));
    expect(await Promise.all(writes)).toEqual(numbers(6).map(() => ({ ok: true })));
    expect(await positions(storage)).toEqual(numbers(6));
  });
});

describe("while another connection holds the write lock", () => {
  test("the event loop is not blocked, reads are answered, and the write succeeds after the lock is released", async () => {
    const path = newFile();
    const storage = open({ path });
    await storage.write(batch(entry(1)));
    const other = connect(path);
    other.exec("BEGIN IMMEDIATE");
    let settled = false;
    const write = storage.write(batch(entry(2))).finally(() => (settled = true));
    // If the write blocked the event loop, this thread would not get to release the lock, and the write would fail.
    for (let round = 0; round < 20; round += 1) {
      await new Promise((resolve) => setImmediate(resolve));
      expect(await positions(storage)).toEqual([1]);
    }
    expect(settled).toBe(false);
    other.exec("COMMIT");
    expect(await write).toEqual({ ok: true });
    expect(await positions(storage)).toEqual([1, 2]);
  });

  test("a write fails with storage_busy after busyMs, and later writes succeed", async () => {
    const path = newFile();
    const storage = open({ path, busyMs: 30 });
    await storage.open();
    const other = connect(path);
    other.exec("BEGIN IMMEDIATE");
    const busy = { reason: "storage_busy", message: expect.stringMatching(/locked .* more than 30 ms/) };
    await expect(storage.write(batch(entry(1)))).rejects.toMatchObject(busy);
    other.exec("COMMIT");
    await storage.write(batch(entry(2)));
    expect(await positions(storage)).toEqual([2]);
  });

  test("creating the tables waits for the lock too", async () => {
    const path = newFile();
    const other = connect(path);
    other.exec("BEGIN EXCLUSIVE");
    await expect(open({ path, busyMs: 0 }).open()).rejects.toMatchObject({ reason: "storage_busy" });
    const storage = open({ path });
    const write = storage.write(batch(entry(1)));
    other.exec("COMMIT");
    expect(await write).toEqual({ ok: true });
  });
});

describe("errors keep their types", () => {
  const storageFailure = async (storage: SqlitePathStorage) => {
    const error: unknown = await storage.open().catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(RuntimeError);
    return error;
  };

  test("tables of a newer release", async () => {
    const path = newFile();
    const other = connect(path);
    sqliteStorage(other);
    other.exec("UPDATE everturn_schema SET version = 70");
    expect(await storageFailure(open({ path }))).toMatchObject({
      reason: "newer_schema",
      failure: { metadata: { found: 70, known: schemaVersion } },
    });
  });

  test("a file that is not a database, and a path that cannot be opened", async () => {
    const path = newFile();
    writeFileSync(path, "This is a letter, and no database. ".repeat(1000));
    const storage = open({ path });
    expect(await storageFailure(storage)).toMatchObject({
      reason: "corrupt_row",
      cause: { name: "SqliteError", code: "SQLITE_NOTADB", message: expect.stringMatching(/not a database/) },
    });
    await expect(storage.write(batch(entry(1)))).rejects.toMatchObject({ reason: "corrupt_row" });
    rmSync(path);
    expect(await storage.write(batch(entry(1)))).toEqual({ ok: true });
    expect(await storageFailure(open({ path: join(path, "..", "none", "x.db") }))).toMatchObject({
      reason: "storage_failed",
    });
  });

  test("a full disk", async () => {
    const driver = driverModule(`if (sql.startsWith("BEGIN")) database.exec("PRAGMA max_page_count = 120")`);
    const storage = open({ path: newFile(), driver });
    const [small, big] = [storage.write(batch(entry(1))), storage.write(batch(entry(2, "x".repeat(1_000_000))))];
    await expect(big).rejects.toMatchObject({ reason: "storage_full" });
    expect(await small).toEqual({ ok: true });
    expect(await positions(storage)).toEqual([1]);
  });

  test("no driver: the error names the package to install", async () => {
    const driver = pathToFileURL(join(newFolder(), "none.mjs"));
    const storage = open({ path: newFile(), driver });
    expect(await storageFailure(storage)).toMatchObject({
      reason: "storage_failed",
      message: expect.stringContaining("npm install libsql"),
      cause: { code: "ERR_MODULE_NOT_FOUND" },
    });
    await expect(storage.read([])).rejects.toMatchObject({ reason: "storage_failed" });
  });

  test("a path that is not in an object is reported with the form to use", () => {
    // @ts-expect-error: callers without a compiler.
    expect(() => sqliteStorage("sessions.db")).toThrow(/must be \{ path: … \} or the handle .* not a string/);
    // @ts-expect-error: callers without a compiler.
    expect(() => sqliteStorage()).toThrow(/must be \{ path: … \} or the handle .* not undefined/);
  });

  test("misuse is reported before a message is sent", async () => {
    expect(() => sqliteStorage({ path: "" })).toThrow(/^path must name/);
    expect(() => sqliteStorage({ path: "x", busyMs: -1 })).toThrow(/^busyMs must be/);
    const storage = open({ path: ":memory:" });
    await expect(storage.write(batch({ ...entry(1), key: ["t"] }))).rejects.toThrow(/a complete key has 3 parts/);
    await expect(storage.read([{ table: "entries", prefix: [1] }])).rejects.toThrow(/must be a text/);
    expect(storage.statistics().pending).toBe(0);
  });
});

describe("a thread that crashes", () => {
  const whenMarked = (mark: string, sql: string, crash: string) =>
    driverModule(`if (sql === "${sql}" && fs.existsSync(${JSON.stringify(mark)})) { ${crash} }`);

  test.each([
    [
      "by an error while a write waits for a lock",
      "BEGIN IMMEDIATE",
      `setImmediate(() => { throw new Error("broken"); }); throw Object.assign(new Error(), { code: "SQLITE_BUSY" });`,
      /^broken$/,
    ],
    ["by ending in the middle of a transaction", "COMMIT", `process.exit(3)`, /exit code 3/],
  ])("%s: pending operations reject, and the next one starts another thread", async (_, sql, crash, cause) => {
    const path = newFile();
    const mark = join(newFolder(), "crash");
    const storage = open({ path, driver: whenMarked(mark, sql, crash) });
    await storage.write(batch(entry(1)));
    writeFileSync(mark, "");
    const pending = [2, 3].map((position) => storage.write(batch(entry(position))));
    for (const write of pending) {
      const failure: unknown = await write.catch((error: unknown) => error);
      expect(failure).toBeInstanceOf(RuntimeError);
      expect(failure).toMatchObject({
        reason: "storage_failed",
        message: expect.stringMatching(/lost its worker thread.* may have been committed/),
        cause: { message: expect.stringMatching(cause) },
      });
    }
    rmSync(mark);
    expect(await storage.write(batch(entry(4)))).toEqual({ ok: true });
    expect(await positions(storage)).toEqual([1, 4]);
  });

  test("loses a database in memory, and later operations reject", async () => {
    const mark = join(newFolder(), "crash");
    const storage = open({ path: ":memory:", driver: whenMarked(mark, "COMMIT", "process.exit(3)") });
    await storage.write(batch(entry(1)));
    writeFileSync(mark, "");
    await expect(storage.write(batch(entry(2)))).rejects.toMatchObject({ reason: "storage_failed" });
    rmSync(mark);
    await expect(storage.read([whole])).rejects.toMatchObject({ reason: "storage_failed" });
  });
});

describe("close", () => {
  test("finishes pending writes, closes the file, and rejects later operations", async () => {
    const path = newFile();
    const storage = open({ path });
    await storage.open();
    const other = new Libsql(path);
    other.exec("BEGIN IMMEDIATE");
    const writes = numbers(3).map((position) => storage.write(batch(entry(position))));
    const closed = storage.close();
    const closedError = { reason: "storage_failed", message: expect.stringContaining("is closed") };
    await expect(storage.write(batch(entry(9)))).rejects.toMatchObject(closedError);
    await expect(storage.read([])).rejects.toMatchObject(closedError);
    other.exec("COMMIT");
    other.close();
    expect(await Promise.all(writes)).toEqual([{ ok: true }, { ok: true }, { ok: true }]);
    await closed;
    await storage.close();
    expect(await positions(open({ path }))).toEqual([1, 2, 3]);
  });

  test("of a storage that was never used starts no thread", async () => {
    const path = newFile();
    await sqliteStorage({ path }).close();
    expect(existsSync(path)).toBe(false);
  });
});

describe("the process", () => {
  /** Runs lines with `storage` in another process, which ends by itself. */
  async function run(path: string, lines: readonly string[]): Promise<string> {
    const program = [
      `import { sqliteStorage } from "everturn/sqlite";`,
      `const storage = sqliteStorage({ path: ${JSON.stringify(path)}, pollMs: 2 });`,
      `const put = (position) => ({ table: "entries", key: ["t", "s", position], tag: 0, value: "" });`,
      ...lines,
    ];
    // The built package loads in a fifth of the CPU time of its sources.
    const args = ["--input-type=module", "--eval", program.join("\n")];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
    cleanUps.push(() => child.kill());
    const output = Promise.all([allText(child.stdout), allText(child.stderr)]);
    await once(child, "close");
    expect(child.exitCode).toBe(0);
    return (await output).join("");
  }

  test("ends while the storage is idle, and not before a pending write has finished", async () => {
    const path = newFile();
    const output = await run(path, [
      `await storage.open();`,
      `for (const position of [1, 2, 3]) storage.write({ checks: [], removals: [], puts: [put(position)] });`,
    ]);
    expect(output).toBe("");
    expect(await positions(open({ path }))).toEqual([1, 2, 3]);
  });

  test("stays alive while the storage is watched", async () => {
    const output = await run(newFile(), [
      `const end = storage.watch(() => {});`,
      `setTimeout(() => { process.stdout.write("still here"); end(); }, 60).unref();`,
    ]);
    expect(output).toBe("still here");
  });
});

describe("watching", () => {
  test("reports own writes with session names, and writes of other connections without", async () => {
    const path = newFile();
    const storage = open({ path, pollMs: 2 });
    const received: (readonly string[] | null)[] = [];
    let wake = () => {};
    const end = storage.watch((sessions) => {
      received.push(sessions === undefined ? null : [...sessions]);
      wake();
    });
    const next = () => new Promise<void>((resolve) => (wake = resolve));
    const own = next();
    await storage.write(batch(entry(1)));
    await own;
    expect(received).toEqual([['["t","s"]']]);
    const others = next();
    await sqliteStorage(connect(path)).write(batch(entry(2)));
    await others;
    expect(received.slice(1)).toEqual([null]);
    end();
  });
});

describe("readOnly", () => {
  const put: Put = { table: "tokens", key: ["a"], tag: 1, value: "x" };
  const batch: Batch = { checks: [], removals: [], puts: [put] };
  const rows = [{ table: "tokens", prefix: [] }] as const;

  test("reads rows, rejects writes, and leaves the file as it is", async () => {
    const path = newFile();
    const writable = sqliteStorage({ path });
    await writable.write(batch);
    await writable.close();
    const before = readFileSync(path);
    const storage = sqliteStorage({ path, readOnly: true });
    expect((await storage.read(rows))[0]?.map(({ value }) => value)).toEqual(["x"]);
    await expect(storage.write(batch)).rejects.toThrow(/opened with readOnly: nothing can be written/);
    await storage.close();
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  test("neither creates a file nor tables, and does not migrate older ones", async () => {
    const path = newFile();
    await expect(open({ path, readOnly: true }).open()).rejects.toThrow(/there is no file .*test\.db/);
    expect(existsSync(path)).toBe(false);
    writeFileSync(path, "");
    await expect(open({ path, readOnly: true }).open()).rejects.toThrow(/has no tables.*everturn migrate/s);
    await open({ path }).open();
    connect(path).exec(`DROP TABLE "everturn_work"; UPDATE "everturn_schema" SET "version" = 2`);
    await expect(open({ path, readOnly: true }).open()).rejects.toThrow(/lacks tables of this release: work\./);
  });
});
