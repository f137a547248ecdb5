// Opening the session database: folders, permissions and errors.

import { chmodSync, existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { openDatabase } from "@everturn/server";
import { afterAll, expect, test } from "vitest";

import { withNpxAdvice } from "./database.ts";

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

test.each(["libsql", "pg"])("npx gets advice about the missing package %s that works in its cache", (name) => {
  const error = new Error(`it could not be loaded. Run "npm install ${name}", or use another one.`);
  expect(withNpxAdvice(error, "file:///home/ada/.npm/_npx/0123abcd/node_modules/everturn/dist/cli.js")).toMatchObject({
    name: "SettingsError",
    message: `it could not be loaded. npx runs everturn from its cache, so name the package too, "npx --package everturn --package ${name} everturn …", or install both in a project, "npm install everturn ${name}", or use another one.`,
    cause: error,
  });
  expect(withNpxAdvice(error, "file:///project/node_modules/everturn/dist/cli.js")).toBe(error);
  const other = new Error("locked");
  expect(withNpxAdvice(other, "file:///home/ada/.npm/_npx/0123abcd/cli.js")).toBe(other);
});
