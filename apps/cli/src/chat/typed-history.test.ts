import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterEach, beforeEach, expect, test } from "vitest";

import { historyPath, TypedHistory } from "./typed-history.ts";

let folder = "";

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "typed-"));
});

afterEach(() => rmSync(folder, { recursive: true }));

test("stores entries with their line breaks, readable by the owner only", () => {
  const path = join(folder, "h");
  const first = new TypedHistory(path);
  for (const entry of ["one", "two\nlines", "two\nlines", "  "]) first.add(entry);
  expect(new TypedHistory(path).entries).toEqual(["one", "two\nlines"]);
  expect(statSync(path).mode & 0o777).toBe(0o600);
});

test("compacts a long file and skips invalid lines", () => {
  const path = join(folder, "h");
  const lines = Array.from({ length: 2100 }, (_, index) => JSON.stringify(`entry ${index}`));
  writeFileSync(path, [...lines, "{broken", "42", ""].join("\n"), { mode: 0o644 });
  const history = new TypedHistory(path);
  expect(history.entries).toHaveLength(1000);
  expect(history.entries.at(-1)).toBe("entry 2099");
  expect(readFileSync(path, "utf8").trimEnd().split("\n")).toHaveLength(1000);
  expect(statSync(path).mode & 0o777).toBe(0o600);
});

test("keeps entries in memory if the file cannot be written", () => {
  const history = new TypedHistory(join(folder, "no", "such", "folder"));
  history.add("one");
  expect(history.entries).toEqual(["one"]);
});

test("stores the file next to the database, and none for a database in memory", () => {
  expect(historyPath("/data/everturn.db")).toBe("/data/chat-history.jsonl");
  expect(historyPath(null)).toBeNull();
});
