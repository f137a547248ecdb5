// A SQLite database as text, one JSON value on each line: the settings of the file, the statements that create its
// tables, and every row. A JSON text is written as JSON if it can be restored to the same text, so that rows are
// readable in a review.

import type { EngineName } from "./engines.ts";
import type { Performed } from "./probe.ts";
import type { SqliteValue } from "../../../src/durable/host/sqlite/database.ts";
import type { SqliteDatabase } from "everturn/sqlite";
import type { Json } from "everturn";

/** The first line of a dump. */
export type DumpHeader = {
  /** The release that wrote the database, and its version of stored data. */
  readonly release: string;
  readonly version: number;
  /** The time of the clock when the last process was cut, in milliseconds. */
  readonly now: number;
  /** The sessions it holds, by the names of their engines. */
  readonly sessions: readonly EngineName[];
  /** The effects that were performed before that. */
  readonly performed: Performed;
  /** Tokens that complete calls, by session: only their digests are stored. */
  readonly tokens: { readonly [session: string]: string };
};

type Cell = SqliteValue | { readonly json: Json };
type Line = { readonly sql: string } | { readonly table: string; readonly row: readonly Cell[] };

/** Dumps all tables of a database. */
export function dumpDatabase(database: SqliteDatabase, header: DumpHeader): string {
  const tables = database
    .prepare(`SELECT "name", "sql" FROM sqlite_master WHERE "type" = 'table' ORDER BY "rowid"`)
    .all()
    .map((row) => ({ name: String(fieldsOf(row)["name"]), sql: String(fieldsOf(row)["sql"]) }));
  const lines: Line[] = tables.map(({ sql }) => ({ sql }));
  for (const { name } of tables) {
    for (const row of database.prepare(`SELECT * FROM "${name}" ORDER BY "rowid"`).all()) {
      lines.push({ table: name, row: Object.values(fieldsOf(row)).map(cellOf) });
    }
  }
  return [header, ...lines].map((line) => `${JSON.stringify(line)}\n`).join("");
}

/** Reads the first line of a dump. */
export function dumpHeader(dump: string): DumpHeader {
  return JSON.parse(dump.slice(0, dump.indexOf("\n")));
}

/** Restores the tables and rows of a dump in an empty database. */
export function restoreDatabase(database: SqliteDatabase, dump: string): void {
  // The settings that the library sets when it opens a file are stored in the file.
  database.exec("PRAGMA journal_mode = WAL");
  database.exec("BEGIN");
  for (const line of dumpLines(dump)) {
    if ("sql" in line) database.exec(line.sql);
    else {
      const places = line.row.map(() => "?").join(", ");
      database.prepare(`INSERT INTO "${line.table}" VALUES (${places})`).run(...line.row);
    }
  }
  database.exec("COMMIT");
}

/** A statement that creates a table, or a row with its columns as stored. */
type DumpLine = { readonly sql: string } | { readonly table: string; readonly row: readonly SqliteValue[] };

/** The tables and rows of a dump, in order. */
export function dumpLines(dump: string): readonly DumpLine[] {
  return dump
    .trimEnd()
    .split("\n")
    .slice(1)
    .map((text) => {
      const line: Line = JSON.parse(text);
      return "sql" in line ? line : { table: line.table, row: line.row.map(valueOf) };
    });
}

function cellOf(value: unknown): Cell {
  if (typeof value === "number" || value === null) return value;
  if (typeof value !== "string") throw new TypeError(`a column holds a ${typeof value}`);
  const json = value.startsWith("{") ? parsed(value) : null;
  return json !== null && JSON.stringify(json) === value ? { json } : value;
}

function valueOf(cell: Cell): SqliteValue {
  return typeof cell === "object" && cell !== null ? JSON.stringify(cell.json) : cell;
}

function parsed(text: string): Json {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function fieldsOf(row: unknown): { readonly [column: string]: unknown } {
  if (typeof row !== "object" || row === null) throw new TypeError("a row is an object");
  return { ...row };
}
