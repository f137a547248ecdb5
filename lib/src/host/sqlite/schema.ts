// The tables as they are in the file, and how older ones become today's.
//
// They are ordinary tables with a unique index, not WITHOUT ROWID: those were measured to be no faster for rows of 100 bytes and twice as slow for
// rows of a kilobyte and more, because their inner pages hold values.

import type { SqliteDatabase } from "./database.ts";

import { RuntimeError } from "../../model/internal.ts";
import { field, integer } from "./database.ts";
import { inTransaction } from "./transaction.ts";

/** A step from one version to the next. What was released is never changed: the next step changes what it made. */
type Step = (prefix: string) => readonly string[];

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
  // The event log is always in the same storage as the session, so no event waits for its publication. The table never had rows.
  (prefix) => [`DROP TABLE "${prefix}untold"`],
  // Open turns are found by an index of due work. Those of older releases are due at once.
  (prefix) => [
    table(prefix, "due", { engine: "TEXT", tenant: "TEXT", due: "INTEGER", session: "TEXT" }),
    `INSERT INTO "${prefix}due" ("engine", "tenant", "due", "session", "tag", "expires", "value")
      SELECT json_extract("value", '$.data.engine'), "tenant", 0, "session", 0, NULL, '' FROM "${prefix}open"`,
    // Large texts are stored once for each session.
    table(prefix, "large", { tenant: "TEXT", session: "TEXT", digest: "TEXT" }),
  ],
];

/** The version of the tables that this release writes. */
export const schemaVersion = steps.length;

function table(prefix: string, name: string, key: { readonly [column: string]: "TEXT" | "INTEGER" }): string {
  const columns = Object.entries(key).map(([column, type]) => `"${column}" ${type} NOT NULL`);
  const primary = Object.keys(key).map((column) => `"${column}"`);
  return `CREATE TABLE "${prefix}${name}" (${columns.join(", ")}, "tag" INTEGER NOT NULL, "expires" INTEGER, "value" TEXT NOT NULL, PRIMARY KEY (${primary.join(", ")})) STRICT`;
}

/** Brings the tables to the version this release knows. */
export function migrate(database: SqliteDatabase, prefix: string, storage: string): void {
  if (versionOf(database, prefix, storage) === steps.length) return;
  // Of several that open a new file at once, the first does it and the others wait for it.
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

/** The version of the tables; 0 when there are none. Throws `newer_schema` when it is beyond what this release knows. */
export function versionOf(database: SqliteDatabase, prefix: string, storage: string): number {
  const known = database
    .prepare(`SELECT "name" FROM sqlite_master WHERE "type" = 'table' AND "name" = ? COLLATE NOCASE`)
    .all(`${prefix}schema`);
  if (known.length === 0) return 0;
  const version = integer(field(database.prepare(`SELECT "version" FROM "${prefix}schema"`).all()[0], "version"));
  if (version === null || version < 1) {
    throw new RuntimeError("corrupt_row", {
      message: `the storage "${storage}" does not say which version its tables have: the row of "${prefix}schema" cannot be read. Restore a backup, or use another tablePrefix.`,
      metadata: { storage },
    });
  }
  if (version > steps.length) {
    throw new RuntimeError("newer_schema", {
      message: `the tables "${prefix}…" of the storage "${storage}" have version ${version}; this release knows no version after ${steps.length}. Nothing was changed. Use the release that wrote them or a later one, or another tablePrefix.`,
      metadata: { storage, found: version, known: steps.length },
    });
  }
  return version;
}
