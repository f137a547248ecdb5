// A file of an open database is deleted, moved or replaced: writes reject, in both forms of the storage, and what was
// written before is not lost with the write-ahead log.

import type { Batch, HostStorage } from "../../rows/internal.ts";

import { existsSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { sqliteStorage } from "everturn/sqlite";
import Libsql from "libsql";
import { afterEach, describe, expect, test } from "vitest";

const cleanUps: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

function newFile(): string {
  const folder = mkdtempSync(join(tmpdir(), "everturn-sqlite-lost-"));
  cleanUps.push(() => rmSync(folder, { recursive: true }));
  return join(folder, "test.db");
}

/** A connection to the file. */
function connect(path: string): Libsql.Database {
  const handle = new Libsql(path);
  cleanUps.push(() => handle.close());
  return handle;
}

/** A batch that writes one message. */
const entry = (position: number): Batch => ({
  checks: [],
  removals: [],
  puts: [{ table: "entries", key: ["t", "s", position], tag: 0, value: "" }],
});

async function positions(storage: HostStorage): Promise<readonly unknown[]> {
  const [rows = []] = await storage.read([{ table: "entries", prefix: ["t", "s"] }]);
  return rows.map(({ key }) => key[2]);
}

const forms: readonly { readonly name: string; readonly open: (path: string) => HostStorage }[] = [
  {
    name: "a path",
    open: (path) => {
      const storage = sqliteStorage({ path });
      cleanUps.push(() => storage.close());
      return storage;
    },
  },
  { name: "a handle", open: (path) => sqliteStorage(connect(path)) },
];

/**
 * The positions that a new process finds in the file. A copy of the file is read, because this process still has the
 * lost files open.
 */
async function foundLater(path: string): Promise<readonly unknown[]> {
  const copy = `${path}.copy`;
  renameSync(path, copy);
  return positions(sqliteStorage(connect(copy)));
}

describe.each(forms)("storage on $name", ({ open }) => {
  test.each([
    ["deleted", "deleted or moved", (path: string) => rmSync(path)],
    ["moved", "deleted or moved", (path: string) => renameSync(path, `${path}.moved`)],
    [
      "replaced",
      "replaced by another file",
      (path: string) => {
        renameSync(path, `${path}.moved`);
        writeFileSync(path, "");
      },
    ],
  ])("file %s: writes reject with the reason, and earlier rows can still be read", async (_, what, lose) => {
    const path = newFile();
    const storage = open(path);
    await storage.write(entry(1));
    lose(path);
    const lost = { reason: "storage_failed", message: expect.stringContaining(`${what} while it was open`) };
    await expect(storage.write(entry(2))).rejects.toMatchObject(lost);
    const both = [3, 4].map((position) => storage.write(entry(position)));
    for (const write of both) await expect(write).rejects.toMatchObject(lost);
    expect(await positions(storage)).toEqual([1]);
    if (!existsSync(`${path}.moved`)) return;
    renameSync(`${path}.moved`, path);
    expect(await storage.write(entry(5))).toEqual({ ok: true });
    expect(await positions(storage)).toEqual([1, 5]);
  });

  test("write-ahead log deleted: writes reject with the reason, and rows that were written before are kept", async () => {
    const path = newFile();
    const storage = open(path);
    for (const position of [1, 2]) await storage.write(entry(position));
    rmSync(`${path}-wal`);
    const lost = {
      reason: "storage_failed",
      message: expect.stringMatching(/write-ahead log .*test\.db-wal.* was deleted.*restart every process/s),
    };
    await expect(storage.write(entry(3))).rejects.toMatchObject(lost);
    await expect(storage.write(entry(4))).rejects.toMatchObject(lost);
    expect(await foundLater(path)).toEqual([1, 2]);
  });

  test("write-ahead log replaced: writes reject", async () => {
    const path = newFile();
    const storage = open(path);
    await storage.write(entry(1));
    renameSync(`${path}-wal`, `${path}-wal.moved`);
    writeFileSync(`${path}-wal`, "");
    const lost = { reason: "storage_failed", message: expect.stringContaining("was replaced by another file") };
    await expect(storage.write(entry(2))).rejects.toMatchObject(lost);
  });

  test("write-ahead log truncated by a checkpoint: writes continue", async () => {
    const path = newFile();
    const storage = open(path);
    await storage.write(entry(1));
    connect(path).exec("PRAGMA wal_checkpoint(TRUNCATE)");
    expect(await storage.write(entry(2))).toEqual({ ok: true });
    expect(await positions(storage)).toEqual([1, 2]);
  });
});
