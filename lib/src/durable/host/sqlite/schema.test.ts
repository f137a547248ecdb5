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
    "DROP TABLE everturn_due; DROP TABLE everturn_work; DROP TABLE everturn_large; DROP TABLE everturn_slots; DROP TABLE everturn_waiting; DROP TABLE everturn_shared; DROP TABLE everturn_rollup_lines; DROP TABLE everturn_rollups; DROP TABLE everturn_attention; DROP TABLE everturn_turn_times; UPDATE everturn_schema SET version = 2",
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
    { table: "work", prefix: ["turn"] },
    { table: "open", prefix: [] },
  ]);
  expect(due.map(({ key }) => key)).toEqual([["turn", "default", "t", 0, "t", "good", ""]]);
  expect(open).toHaveLength(6);
});

test("sessions that wait or are parked, and turns, of an older release are indexed; rows that cannot be read are skipped", async () => {
  const database = versionTwo({});
  const session = database.prepare("INSERT INTO everturn_sessions VALUES ('t', ?, 1, NULL, ?)");
  const turn = database.prepare("INSERT INTO everturn_turns VALUES ('t', ?, 't1', 1, NULL, ?)");
  const start = database.prepare("INSERT INTO everturn_starts VALUES ('t', ?, ?, 0, NULL, ?)");
  const head = (status: string, open: string | null, rest = {}) =>
    JSON.stringify({ version: 3, data: { session: { status }, turn: open, changedAt: 7, ...rest } });
  session.run("answered", head("completed", null));
  session.run("asks", head("awaiting_user", null));
  session.run("cut off", '{"version":3,"data":{"ses');
  session.run("deleted", head("awaiting_user", null, { deleted: true }));
  session.run("no time", head("awaiting_user", null, { changedAt: "now" }));
  session.run("parked", head("idle", "t1"));
  session.run("runs", head("awaiting_tools", "t1"));
  turn.run("parked", '{"version":3,"data":{"status":"parked"}}');
  turn.run("runs", '{"version":3,"data":{"status":"running"}}');
  start.run("asks", "t1", '{"version":3,"data":{"acceptedAt":5}}');
  start.run("asks", "forked", '{"version":3,"data":{"acceptedAt":5}}');
  start.run("old", "t1", '{"version":1,"data":{}}');
  start.run("cut off", "t1", "{");
  start.run("no object", "t1", "[1]");
  const storage = sqliteStorage(database);
  const [attention = [], turns = [], retainedTurns = [], retainedSessions = []] = await storage.read([
    { table: "attention", prefix: [] },
    { table: "turn_times", prefix: [] },
    { table: "work", prefix: ["retention", "turns"] },
    { table: "work", prefix: ["retention", "sessions"] },
  ]);
  expect(retainedTurns.map(({ key }) => key.slice(3))).toEqual([
    [0, "t", "old", "t1"],
    [5, "t", "asks", "t1"],
  ]);
  expect(retainedSessions.map(({ key }) => key[5])).toEqual(["answered", "asks", "no time", "parked", "runs"]);
  expect(attention.map(({ key }) => key)).toEqual([
    ["t", "parked", 7, "parked"],
    ["t", "waiting", 7, "asks"],
  ]);
  expect(turns.map(({ key }) => key)).toEqual([
    ["t", "asks", 5, "t1"],
    ["t", "old", 0, "t1"],
  ]);
});
