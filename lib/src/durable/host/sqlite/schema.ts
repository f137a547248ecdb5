// The SQLite tables, and the completion of what an older release created.
//
// Theory of operation
//   What is missing follows from the catalog of the file: the tables of this release that do not exist. `migrate`
//   creates them in one transaction, and fills new index tables with the rows of what is stored already
//   (`durable/host/shared/backfill.ts`), so a file has either its old tables or the new ones. `<prefix>schema` holds
//   one row with the version of the layout, which every release checks when it opens a file. A new table does not raise
//   it: a process of a release without the table uses the others as before, in a rolling deploy. Turns that it accepts
//   have no rows in an index table that it does not know; workers and finalization write those of `work`
//   (`durable/work/import-former.ts`).
//
// Invariants
//   1. A table is neither changed nor dropped while a release that uses it may run.
//   2. A row that cannot be read affects its own session only: it is not indexed, and the file can be opened.
//   3. Tables of a newer layout are not touched (`newer_schema`).
//
// The tables are ordinary tables with a unique index, not WITHOUT ROWID: those were measured to be no faster for rows
// of 100 bytes and twice as slow for rows of a kilobyte and more, because their inner pages hold values.

import type { Column, TableName } from "../../rows/internal.ts";
import type { SqliteDatabase } from "./database.ts";

import { RuntimeError } from "../../../core/model/internal.ts";
import { tableNames, tables } from "../../rows/internal.ts";
import { backfill } from "../shared/backfill.ts";
import { field, integer } from "./database.ts";
import { Statements } from "./statements.ts";
import { inTransaction } from "./transaction.ts";

/**
 * The version of the layout, which every release checks when it opens a file. A release that adds tables does not raise
 * it: releases without the new table use the others as before, in a rolling deploy (docs/decisions/0054).
 */
export const schemaVersion = 7;

/** The statement that creates a table: key columns, tag, expiry and value. */
function createTable(prefix: string, table: TableName): string {
  const key: readonly Column[] = tables[table];
  const columns = key.map(({ name, type }) => `"${name}" ${type === "text" ? "TEXT" : "INTEGER"} NOT NULL`);
  const primary = key.map(({ name }) => `"${name}"`);
  return `CREATE TABLE "${prefix}${table}" (${columns.join(", ")}, "tag" INTEGER NOT NULL, "expires" INTEGER, "value" TEXT NOT NULL, PRIMARY KEY (${primary.join(", ")})) STRICT`;
}

/** The tables of this release that the file lacks. */
export function missingTables(database: SqliteDatabase, prefix: string): readonly TableName[] {
  const rows = database.prepare(`SELECT "name" FROM sqlite_master WHERE "type" = 'table'`).all();
  // Names of tables are not case-sensitive.
  const existing = new Set(rows.map((row) => String(field(row, "name")).toLowerCase()));
  return tableNames().filter((table) => !existing.has(`${prefix}${table}`.toLowerCase()));
}

/** Creates the tables, or completes those of an older release, in one transaction. */
export function migrate(database: SqliteDatabase, prefix: string, storage: string): void {
  const isCurrent = () => versionOf(database, prefix, storage) > 0 && missingTables(database, prefix).length === 0;
  if (isCurrent()) return;
  // Of several processes that open a file at once, the first one migrates it and the others wait for the write lock.
  const begin = () => database.exec("BEGIN IMMEDIATE");
  inTransaction(database, begin, () => {
    if (isCurrent()) return;
    const missing = missingTables(database, prefix);
    for (const table of missing) database.exec(createTable(prefix, table));
    // A new file has no rows to index.
    if (missing.length < tableNames().length) fill(database, prefix, storage, missing);
    // Up to version 1 events waited here for their publication. The table never had rows.
    database.exec(`DROP TABLE IF EXISTS "${prefix}untold"`);
    database.exec(
      `CREATE TABLE IF NOT EXISTS "${prefix}schema" ("id" INTEGER PRIMARY KEY CHECK ("id" = 1), "version" INTEGER NOT NULL) STRICT`,
    );
    database.exec(`INSERT OR REPLACE INTO "${prefix}schema" ("id", "version") VALUES (1, ${schemaVersion})`);
  });
}

/** Fills new index tables from the rows of other tables, within the open transaction. */
function fill(database: SqliteDatabase, prefix: string, storage: string, created: readonly TableName[]): void {
  const statements = new Statements(database, prefix, storage);
  const steps = backfill(created);
  for (let step = steps.next(); step.done !== true;) {
    const request = step.value;
    if (request.type === "read") step = steps.next(request.queries.map((query) => statements.read(query, 0)));
    else {
      for (const put of request.puts) statements.put(put, 0);
      step = steps.next([]);
    }
  }
  statements.clear();
}

/** Returns the version of the tables; 0: there are none. Throws `newer_schema` if a newer release wrote them. */
export function versionOf(database: SqliteDatabase, prefix: string, storage: string): number {
  const schemaTables = database
    .prepare(`SELECT "name" FROM sqlite_master WHERE "type" = 'table' AND "name" = ? COLLATE NOCASE`)
    .all(`${prefix}schema`);
  if (schemaTables.length === 0) return 0;
  const version = integer(field(database.prepare(`SELECT "version" FROM "${prefix}schema"`).all()[0], "version"));
  if (version === null || version < 1) {
    throw new RuntimeError("corrupt_row", {
      message: `the version of the tables of the storage "${storage}" is unknown: the row of "${prefix}schema" cannot be read. Restore a backup, or use another tablePrefix.`,
      metadata: { storage },
    });
  }
  if (version > schemaVersion) {
    throw new RuntimeError("newer_schema", {
      message: `the tables "${prefix}…" of the storage "${storage}" have version ${version}; this release supports versions up to ${schemaVersion}. Nothing was changed. Use the release that wrote them or a newer one, or another tablePrefix.`,
      metadata: { storage, found: version, known: schemaVersion },
    });
  }
  return version;
}
