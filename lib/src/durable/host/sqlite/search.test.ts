// The search index in SQLite, on a path and on a handle.

import type { SearchHost } from "../../../../test/runtime/search-cases.ts";

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { sqliteStorage } from "everturn/sqlite";
import Database from "libsql";
import { describe, expect, onTestFinished, test } from "vitest";

import { searchCases } from "../../../../test/runtime/search-cases.ts";
import { field } from "./database.ts";

function temporaryFile(): string {
  const folder = mkdtempSync(join(tmpdir(), "everturn-search-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, "sessions.db");
}

/** Opens a storage on a path. */
function onPath(): SearchHost {
  const path = temporaryFile();
  return {
    open: async ({ search }) => {
      const storage = sqliteStorage({ path, search, driver: "libsql", synchronous: "normal" });
      onTestFinished(() => storage.close());
      return storage;
    },
  };
}

/** Opens a storage on a handle in memory. */
function onHandle(): SearchHost {
  const database = new Database(":memory:");
  onTestFinished(() => void database.close());
  return { open: async ({ search }) => sqliteStorage(database, { search }) };
}

describe.each([
  ["a path", onPath],
  ["a handle", onHandle],
])("search on %s", (_, host) => {
  test.each(searchCases.map(({ name, run }) => [name, run]))("%s", async (_, run) => run(host()), 60_000);
});

test("rows that are compacted keep their place, and deleted words leave the file", async () => {
  const path = temporaryFile();
  const database = new Database(path);
  onTestFinished(() => void database.close());
  const storage = sqliteStorage(database, { search: true });
  const put = (session: string, text: string) => {
    const value = JSON.stringify({ version: 4, data: { content: [{ type: "text", text }] } });
    const row = { table: "entries", key: ["", session, 0], tag: 0, value } as const;
    return storage.write({ checks: [], removals: [], puts: [row] });
  };
  await put("s1", "apples");
  await put("s2", "pears");
  await storage.write({ checks: [], removals: [{ table: "entries", prefix: ["", "s1"] }], puts: [] });
  database.exec("VACUUM");
  expect(await storage.search?.({ tenant: "", words: ["pears"], limit: 5 })).toEqual([{ session: "s2", position: 0 }]);
  expect(await storage.search?.({ tenant: "", words: ["apples"], limit: 5 })).toEqual([]);
  const blobs = database.prepare("SELECT hex(block) AS block FROM everturn_search_data").all();
  expect(JSON.stringify(blobs).toLowerCase()).not.toContain(Buffer.from("pples").toString("hex"));
  expect(JSON.stringify(blobs).toLowerCase()).toContain(Buffer.from("ears").toString("hex"));
});

test("triggers of a release without the names of tools are replaced when the file is opened", async () => {
  const path = temporaryFile();
  const database = new Database(path);
  onTestFinished(() => void database.close());
  const put = async (storage: ReturnType<typeof sqliteStorage>, session: string) => {
    const data = { content: "hello", toolCalls: [{ id: "c1", name: "find_order" }] };
    const row = {
      table: "entries",
      key: ["", session, 0],
      tag: 0,
      value: JSON.stringify({ version: 5, data }),
    } as const;
    await storage.write({ checks: [], removals: [], puts: [row] });
  };
  const found = async (storage: ReturnType<typeof sqliteStorage>, words: readonly string[]) =>
    (await storage.search?.({ tenant: "", words, limit: 9 }))?.map(({ session }) => session).toSorted();
  await put(sqliteStorage(database, { search: true }), "s1");
  // The triggers as they were: their text is the content alone.
  for (const name of ["search_insert", "search_update"]) {
    const trigger = database.prepare("SELECT sql FROM sqlite_master WHERE name = ?").get(`everturn_${name}`);
    database.exec(`DROP TRIGGER "everturn_${name}"`);
    database.exec(String(field(trigger, "sql")).replaceAll("toolCalls", "none"));
  }
  const reopened = sqliteStorage(database, { search: true });
  await put(reopened, "s2");
  expect(await found(reopened, ["find", "order"])).toEqual(["s1", "s2"]);
  expect(await found(reopened, ["hello"])).toEqual(["s1", "s2"]);
});
