// The file that sessions are kept in is opened, or it is said why not.

import { chmodSync, existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { openDatabase } from "@everturn/server";
import { afterAll, expect, test } from "vitest";

const folder = mkdtempSync(join(tmpdir(), "everturn-database-"));
afterAll(() => rmSync(folder, { recursive: true }));

test("the folders it is in are made", async () => {
  const path = join(folder, "a/b/c.db");
  const { storage, close } = await openDatabase(path);
  expect(await storage.read([{ table: "sessions", prefix: [] }])).toEqual([[]]);
  await close();
  expect(existsSync(path)).toBe(true);
});

test.skipIf(process.platform === "win32")("nobody else on the machine reads it", async () => {
  const path = join(folder, "private/sessions.db");
  const { close } = await openDatabase(path);
  const modes = ["private", "private/sessions.db", "private/sessions.db-wal"].map(
    (name) => statSync(join(folder, name)).mode & 0o777,
  );
  await close();
  expect(modes).toEqual([0o700, 0o600, 0o600]);
});

test.skipIf(process.platform === "win32")("a file that was there keeps the rights it has", async () => {
  const path = join(folder, "shared.db");
  writeFileSync(path, "");
  chmodSync(path, 0o640);
  await (await openDatabase(path)).close();
  expect(statSync(path).mode & 0o777).toBe(0o640);
});

test("a folder that cannot be made is named, and nothing hangs", async () => {
  writeFileSync(join(folder, "file"), "");
  await expect(openDatabase(join(folder, "file/x/y.db"))).rejects.toThrow(/the folder .*file\/x cannot be made/);
});

test.skipIf(!existsSync("/proc/self"))("below /proc neither", async () => {
  await expect(openDatabase("/proc/x/y.db")).rejects.toThrow("the folder /proc/x cannot be made");
});
