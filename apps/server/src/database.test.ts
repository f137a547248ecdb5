// Opening the session database: folders, permissions and errors.

import { chmodSync, existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { openDatabase } from "@everturn/server";
import { afterAll, expect, test } from "vitest";

import { driverHint } from "./database.ts";

const folder = mkdtempSync(join(tmpdir(), "everturn-database-"));
afterAll(() => rmSync(folder, { recursive: true }));

test("creates missing folders", async () => {
  const path = join(folder, "a/b/c.db");
  const { storage, close } = await openDatabase(path);
  expect(await storage.read([{ table: "sessions", prefix: [] }])).toEqual([[]]);
  await close();
  expect(existsSync(path)).toBe(true);
});

test.skipIf(process.platform === "win32")(
  "creates the folder, the file and the write-ahead log readable by the owner only",
  async () => {
    const path = join(folder, "private/sessions.db");
    const { close } = await openDatabase(path);
    const modes = ["private", "private/sessions.db", "private/sessions.db-wal"].map(
      (name) => statSync(join(folder, name)).mode & 0o777,
    );
    await close();
    expect(modes).toEqual([0o700, 0o600, 0o600]);
  },
);

test.skipIf(process.platform === "win32")("keeps the permissions of an existing file", async () => {
  const path = join(folder, "shared.db");
  writeFileSync(path, "");
  chmodSync(path, 0o640);
  await (await openDatabase(path)).close();
  expect(statSync(path).mode & 0o777).toBe(0o640);
});

test("names a folder that cannot be created", async () => {
  writeFileSync(join(folder, "file"), "");
  await expect(openDatabase(join(folder, "file/x/y.db"))).rejects.toThrow(/cannot create the folder .*file\/x$/);
});

test.skipIf(!existsSync("/proc/self"))("does not hang on a folder below /proc", async () => {
  await expect(openDatabase("/proc/x/y.db")).rejects.toThrow("cannot create the folder /proc/x");
});

test("a missing driver of a command in the cache of npx names a command that works there", () => {
  const error = new Error(
    `no SQLite driver could be loaded (tried libsql; Node 20.19.0). Run "npm install libsql", or use Node 22.13 or later.`,
  );
  expect(driverHint(error, "file:///home/ada/.npm/_npx/0123abcd/node_modules/everturn/dist/cli.js")).toMatch(
    /^no SQLite driver could be loaded \(tried libsql; Node 20\.19\.0\)\. .*npx --package everturn --package libsql everturn/,
  );
  expect(driverHint(error, "file:///project/node_modules/everturn/dist/cli.js")).toBe(null);
  expect(driverHint(new Error("locked"), "file:///home/ada/.npm/_npx/0123abcd/cli.js")).toBe(null);
});
