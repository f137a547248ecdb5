import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { sqliteStorage } from "everturn/sqlite";
import { afterEach, expect, test } from "vitest";

import {
  appendPrivateFile,
  createPrivateFile,
  ensurePrivateFolder,
  readPrivateFile,
  writePrivateFile,
} from "./private-file.ts";

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

test("a file is created once, complete, and readable by its owner only", () => {
  const folder = newFolder();
  const path = join(folder, "file");
  expect(readPrivateFile(path)).toBeNull();
  createPrivateFile(path, "first");
  createPrivateFile(path, "second");
  expect([readPrivateFile(path), modeOf(path), readdirSync(folder)]).toEqual(["first", 0o600, ["file"]]);
});

test("a file that others can read, and a symbolic link, are not read", () => {
  const folder = newFolder();
  const open = join(folder, "open");
  writeFileSync(open, "text", { mode: 0o640 });
  expect(() => readPrivateFile(open)).toThrow(/other users can read .*open \(mode 640\)/);
  const secret = join(folder, "secret");
  writePrivateFile(secret, "text");
  symlinkSync(secret, join(folder, "link"));
  expect(() => readPrivateFile(join(folder, "link"))).toThrow(/symbolic link/);
  symlinkSync(join(folder, "nowhere"), join(folder, "dangling"));
  createPrivateFile(join(folder, "dangling"), "text");
  expect(existsSync(join(folder, "nowhere"))).toBe(false);
});

test("a folder is created for its owner only, and one that others can write is refused", () => {
  const folder = join(newFolder(), "one", "two");
  ensurePrivateFolder(folder);
  expect(modeOf(folder)).toBe(0o700);
  chmodSync(folder, 0o770);
  expect(() => ensurePrivateFolder(folder)).toThrow(/other users can write the folder .*chmod 700/);
});
