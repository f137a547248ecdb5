// Migration of tables that an older release created.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import Libsql from "libsql";
import { afterEach, expect, test } from "vitest";

import { sqliteStorage } from "./index.ts";

const cleanUps: (() => void)[] = [];

afterEach(() => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) cleanUp();
});

/** A file with the tables of version 2, and these rows of `open`, by session. */
function versionTwo(open: { readonly [session: string]: string }): Libsql.Database {
  const folder = mkdtempSync(join(tmpdir(), "everturn-schema-"));
  cleanUps.push(() => rmSync(folder, { recursive: true }));
  const database = new Libsql(join(folder, "test.db"));
  cleanUps.push(() => database.close());
  sqliteStorage(database);
  database.exec(
    "DROP TABLE everturn_due; DROP TABLE everturn_large; DROP TABLE everturn_slots; DROP TABLE everturn_waiting; DROP TABLE everturn_shared; DROP TABLE everturn_rollup_lines; DROP TABLE everturn_rollups; UPDATE everturn_schema SET version = 2",
  );
  const insert = database.prepare("INSERT INTO everturn_open VALUES ('t', ?, 0, NULL, ?)");
  for (const [session, value] of Object.entries(open)) insert.run(session, value);
  return database;
}

test("an open turn of an older release is due at once; a row that cannot be read is skipped, and the file opens", async () => {
  const database = versionTwo({
    "cut off": '{"everturn":"open","version":3,"data":{"tur',
    empty: "",
    good: '{"everturn":"open","version":3,"data":{"turn":"t1","engine":"default"}}',
    "no engine": '{"everturn":"open","version":3,"data":{"turn":"t1"}}',
    "no object": "[1]",
    "other engine": '{"everturn":"open","version":3,"data":{"turn":"t1","engine":7}}',
  });
  const storage = sqliteStorage(database);
  const [due = [], open = []] = await storage.read([
    { table: "due", prefix: [] },
    { table: "open", prefix: [] },
  ]);
  expect(due.map(({ key }) => key)).toEqual([["default", "t", 0, "good"]]);
  expect(open).toHaveLength(6);
});
