// What is asked of a handle on SQLite: what `DatabaseSync` of `node:sqlite`, `libsql` and `better-sqlite3` have in common. The caller opens it and
// closes it.
//
// Where they differ, and what follows from it here:
//   - Pragmas that set something are run by `exec`: some of them act when they are prepared, and not when they are run.
//   - Parameters are texts, whole numbers and `null`, and never a single `null`: libsql takes that for names, and a boolean ends its process.
//   - Rows are objects that may have more fields than columns (libsql adds one to what `get` returns). Integers are numbers or bigints.
//   - Statements of libsql keep a handle open that was closed, and go on working.

/**
 * A SQLite handle: what `DatabaseSync` of `node:sqlite`, `libsql` and `better-sqlite3` have in common. The caller
 * opens and closes it.
 */
export type SqliteDatabase = {
  exec(sql: string): unknown;
  prepare(sql: string): SqliteStatement;
};

/** A prepared statement of a {@link SqliteDatabase}. */
export type SqliteStatement = {
  run(...parameters: SqliteValue[]): unknown;
  get(...parameters: SqliteValue[]): unknown;
  all(...parameters: SqliteValue[]): readonly unknown[];
};

export type SqliteValue = string | number | null;

/** A column of a row as a driver returned it; `undefined` when there is no such row or column. */
export function field(row: unknown, name: string): unknown {
  return isRecord(row) ? row[name] : undefined;
}

/** An integer as drivers return it; `null` when it is none, or none that JavaScript can hold. */
export function integer(value: unknown): number | null {
  const number = typeof value === "bigint" ? Number(value) : value;
  return typeof number === "number" && Number.isSafeInteger(number) ? number : null;
}

function isRecord(value: unknown): value is { readonly [name: string]: unknown } {
  return typeof value === "object" && value !== null;
}
