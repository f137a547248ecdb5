import { mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { sqliteStorage } from "everturn/host/sqlite";
import { afterEach, expect, test } from "vitest";

import { appendPrivateFile, writePrivateFile } from "./private-file.ts";

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "everturn-private-"));
  folders.push(folder);
  return folder;
}

const modeOf = (path: string) => statSync(path).mode & 0o777;

test("a file is readable by its owner only, also if it existed with another mode", () => {
  const path = join(newFolder(), "file");
  writePrivateFile(path, "one");
  expect(modeOf(path)).toBe(0o600);
  appendPrivateFile(path, " two");
  expect(readFileSync(path, "utf8")).toBe("one two");
  const open = join(newFolder(), "open");
  writeFileSync(open, "long old text", { mode: 0o644 });
  writePrivateFile(open, "new");
  expect(readFileSync(open, "utf8")).toBe("new");
  expect(modeOf(open)).toBe(0o600);
});

test("a symbolic link is not followed", () => {
  const folder = newFolder();
  const target = join(folder, "target");
  writeFileSync(target, "untouched");
  symlinkSync(target, join(folder, "link"));
  expect(() => writePrivateFile(join(folder, "link"), "text")).toThrow(/ELOOP/);
  expect(() => appendPrivateFile(join(folder, "link"), "text")).toThrow(/ELOOP/);
  expect(readFileSync(target, "utf8")).toBe("untouched");
});

test("a database is created with mode 0600, and so is its write-ahead log", async () => {
  const path = join(newFolder(), "app.db");
  const storage = sqliteStorage({ path });
  await storage.open();
  expect([path, `${path}-wal`, `${path}-shm`].map(modeOf)).toEqual([0o600, 0o600, 0o600]);
  await storage.close();
});
