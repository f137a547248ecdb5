// The SQLite tables, and the migration of tables that an older release created.
//
// Theory of operation
//   `<prefix>schema` holds one row with the version of the tables. `migrate` runs the steps between that version and `schemaVersion` in one
//   transaction, so a file has either its old tables or the new ones. The version is checked when a file is opened. A process of an older
//   release that had the file open before the migration continues to write its own tables: turns that it accepts have no row in `due`.
//   `recover()` and workers of this release restore such rows (`durable/work/restore-due.ts`).
//
// Invariants
//   1. A released step is not changed in what it does to rows that can be read; the next step changes what it created.
//   2. A row that cannot be read affects its own session only: a step skips it, and the file can be opened.
//   3. Tables of a newer release are not touched (`newer_schema`).
//
// The tables are ordinary tables with a unique index, not WITHOUT ROWID: those were measured to be no faster for rows of 100 bytes and twice as
// slow for rows of a kilobyte and more, because their inner pages hold values.

import type { SqliteDatabase } from "./database.ts";

import { RuntimeError } from "../../../core/model/internal.ts";
import { field, integer } from "./database.ts";
import { inTransaction } from "./transaction.ts";

/** The statements of a step from one version to the next. */
type Step = (prefix: string) => readonly string[];

/** The steps, in order. Step n migrates from version n to n + 1; version 0 has no tables. */
const steps: readonly Step[] = [
  (prefix) => [
    table(prefix, "sessions", { tenant: "TEXT", session: "TEXT" }),
    table(prefix, "recent", { tenant: "TEXT", changed: "INTEGER", session: "TEXT" }),
    table(prefix, "entries", { tenant: "TEXT", session: "TEXT", position: "INTEGER" }),
    table(prefix, "leases", { tenant: "TEXT", session: "TEXT" }),
    table(prefix, "open", { tenant: "TEXT", session: "TEXT" }),
    table(prefix, "starts", { tenant: "TEXT", session: "TEXT", turn: "TEXT" }),
    table(prefix, "turns", { tenant: "TEXT", session: "TEXT", turn: "TEXT" }),
    table(prefix, "contents", { tenant: "TEXT", digest: "TEXT" }),
    table(prefix, "journal", { tenant: "TEXT", session: "TEXT", turn: "TEXT", ordinal: "INTEGER" }),
    table(prefix, "records", { tenant: "TEXT", session: "TEXT", turn: "TEXT", effect: "TEXT", name: "TEXT" }),
    table(prefix, "inbox", { tenant: "TEXT", session: "TEXT", position: "INTEGER" }),
    table(prefix, "inboxes", { tenant: "TEXT", session: "TEXT" }),
    table(prefix, "accepted", { tenant: "TEXT", session: "TEXT", key: "TEXT" }),
    table(prefix, "cancels", { tenant: "TEXT", session: "TEXT", turn: "TEXT" }),
    table(prefix, "events", { tenant: "TEXT", session: "TEXT", sequence: "INTEGER" }),
    table(prefix, "untold", { tenant: "TEXT", session: "TEXT", sequence: "INTEGER" }),
    table(prefix, "pieces", { tenant: "TEXT", session: "TEXT", turn: "TEXT", position: "INTEGER" }),
    table(prefix, "ledger", { tenant: "TEXT", session: "TEXT", turn: "TEXT", line: "TEXT" }),
    table(prefix, "retained", { due: "INTEGER", tenant: "TEXT", session: "TEXT", turn: "TEXT" }),
    table(prefix, "deadlines", { due: "INTEGER", tenant: "TEXT", session: "TEXT", call: "TEXT" }),
    table(prefix, "tokens", { digest: "TEXT" }),
  ],
  // The event log is in the same storage as the session since this version, so no event waits for publication. The table never had rows.
  (prefix) => [`DROP TABLE "${prefix}untold"`],
  // Open turns are found by an index of due work. Those of older releases are due at once. A row whose value is not JSON, or names no engine,
  // is left out.
  (prefix) => [
    table(prefix, "due", { engine: "TEXT", tenant: "TEXT", due: "INTEGER", session: "TEXT" }),
    // `CASE` evaluates its branches in order, and `OR IGNORE` skips a row whose engine is `NULL`.
    `INSERT OR IGNORE INTO "${prefix}due" ("engine", "tenant", "due", "session", "tag", "expires", "value")
      SELECT
        CASE
          WHEN NOT json_valid("value") THEN NULL
          WHEN json_type("value", '$.data.engine') = 'text' THEN json_extract("value", '$.data.engine')
        END,
        "tenant", 0, "session", 0, NULL, ''
      FROM "${prefix}open"`,
    // Large texts are stored once for each session.
    table(prefix, "large", { tenant: "TEXT", session: "TEXT", digest: "TEXT" }),
  ],
  // Limits of turns.
  (prefix) => [
    table(prefix, "slots", { scope: "TEXT", kind: "TEXT", number: "INTEGER" }),
    table(prefix, "waiting", { scope: "TEXT", tenant: "TEXT", since: "INTEGER", session: "TEXT" }),
  ],
  // Rows of middleware.
  (prefix) => [table(prefix, "shared", { scope: "TEXT", period: "INTEGER", key: "TEXT" })],
  // Rollups.
  (prefix) => [
    table(prefix, "rollup_lines", { period: "INTEGER", tenant: "TEXT", line: "TEXT" }),
    table(prefix, "rollups", { length: "INTEGER", period: "INTEGER", scope: "TEXT" }),
  ],
  // Indexes of sessions that wait or are parked, and of turns by the time of acceptance. A row whose value is not JSON is left out.
  (prefix) => [
    table(prefix, "attention", { tenant: "TEXT", status: "TEXT", changed: "INTEGER", session: "TEXT" }),
    `INSERT OR IGNORE INTO "${prefix}attention" ("tenant", "status", "changed", "session", "tag", "expires", "value")
      SELECT "tenant", ${statusSql(prefix)}, "changed", "session", 0, NULL, ''
      FROM (SELECT "tenant", "session", "value", ${integerSql("changedAt")} AS "changed" FROM "${prefix}sessions") AS listed`,
    table(prefix, "turn_times", { tenant: "TEXT", session: "TEXT", accepted: "INTEGER", turn: "TEXT" }),
    // A fork stores the start of a turn of another session under this name.
    `INSERT OR IGNORE INTO "${prefix}turn_times" ("tenant", "session", "accepted", "turn", "tag", "expires", "value")
      SELECT
        "tenant", "session",
        ${integerSql("acceptedAt")},
        "turn", 0, NULL, ''
      FROM "${prefix}starts" WHERE "turn" <> 'forked'`,
  ],
];

/** A field of a value that is a whole number; 0: it is absent. `NULL`: the value is not JSON, or the field is something else. */
function integerSql(field: string): string {
  const path = `'$.data.${field}'`;
  return `CASE
      WHEN NOT json_valid("value") THEN NULL
      WHEN json_type("value", '$.data') = 'object' AND json_type("value", ${path}) IS NULL THEN 0
      WHEN json_type("value", ${path}) = 'integer' THEN json_extract("value", ${path})
    END`;
}

/** The status under which a session is listed in `attention`; `NULL`: it is not listed. */
function statusSql(prefix: string): string {
  const parked = `EXISTS (
      SELECT 1 FROM "${prefix}turns" AS t
      WHERE t."tenant" = listed."tenant" AND t."session" = listed."session" AND t."turn" = json_extract(listed."value", '$.data.turn')
        AND CASE WHEN json_valid(t."value") THEN json_extract(t."value", '$.data.status') END = 'parked'
    )`;
  return `CASE
      WHEN "changed" IS NULL OR coalesce(json_extract("value", '$.data.deleted'), 0) THEN NULL
      WHEN json_extract("value", '$.data.turn') IS NOT NULL THEN CASE WHEN ${parked} THEN 'parked' END
      WHEN json_extract("value", '$.data.session.status') IN ('awaiting_user', 'awaiting_tools') THEN 'waiting'
    END`;
}

/** The version of the tables that this release writes. */
export const schemaVersion = steps.length;

/** The statement that creates a table: key columns, tag, expiry and value. */
function table(prefix: string, name: string, key: { readonly [column: string]: "TEXT" | "INTEGER" }): string {
  const columns = Object.entries(key).map(([column, type]) => `"${column}" ${type} NOT NULL`);
  const primary = Object.keys(key).map((column) => `"${column}"`);
  return `CREATE TABLE "${prefix}${name}" (${columns.join(", ")}, "tag" INTEGER NOT NULL, "expires" INTEGER, "value" TEXT NOT NULL, PRIMARY KEY (${primary.join(", ")})) STRICT`;
}

/** Migrates the tables to the version of this release, or creates them, in one transaction. */
export function migrate(database: SqliteDatabase, prefix: string, storage: string): void {
  if (versionOf(database, prefix, storage) === steps.length) return;
  // Of several processes that open a file at once, the first one migrates it and the others wait for the write lock.
  const begin = () => database.exec("BEGIN IMMEDIATE");
  inTransaction(database, begin, () => {
    const version = versionOf(database, prefix, storage);
    for (const step of steps.slice(version)) for (const sql of step(prefix)) database.exec(sql);
    database.exec(
      `CREATE TABLE IF NOT EXISTS "${prefix}schema" ("id" INTEGER PRIMARY KEY CHECK ("id" = 1), "version" INTEGER NOT NULL) STRICT`,
    );
    database.exec(`INSERT OR REPLACE INTO "${prefix}schema" ("id", "version") VALUES (1, ${steps.length})`);
  });
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
  if (version > steps.length) {
    throw new RuntimeError("newer_schema", {
      message: `the tables "${prefix}…" of the storage "${storage}" have version ${version}; this release supports versions up to ${steps.length}. Nothing was changed. Use the release that wrote them or a newer one, or another tablePrefix.`,
      metadata: { storage, found: version, known: steps.length },
    });
  }
  return version;
}
