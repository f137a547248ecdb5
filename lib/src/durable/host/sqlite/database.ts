// The common interface of SQLite drivers: what `DatabaseSync` of `node:sqlite`, `libsql` and `better-sqlite3` share.
//
// Differences between the drivers, and the rules that follow from them:
//   - Pragmas that set something are run with `exec`: with some drivers a pragma acts when it is prepared, not when it
//     is run.
//   - Parameters are strings, integers and `null`, and never a single `null`: libsql takes a lone object for named
//     parameters. A boolean crashes the process of libsql.
//   - Rows are objects that may have more fields than columns (libsql adds one to the result of `get`). Integers are
//     numbers or bigints.
//   - Statements of libsql keep a closed handle open and still work, so they have to be dropped before the handle is
//     closed.

/**
 * A SQLite handle: what `DatabaseSync` of `node:sqlite`, `libsql` and `better-sqlite3` have in common. The caller
 * opens and closes it.
 */
export type SqliteDatabase = {
  /** Runs SQL without parameters. */
  exec(sql: string): unknown;
  /** Compiles one statement. */
  prepare(sql: string): SqliteStatement;
};

// The parameters are `unknown` because of the types of libsql and better-sqlite3: TypeScript before 6 compares their
// generic `prepare` as one that returns `Statement<[{}]>`, which does not accept `null`.
/** A prepared statement of a {@link SqliteDatabase}. The storage passes strings, integers and `null`. */
type SqliteStatement = {
  /** Runs the statement and returns no rows. */
  run(...parameters: unknown[]): unknown;
  /** Returns the first row, or `undefined`. */
  get(...parameters: unknown[]): unknown;
  /** Returns all rows. */
  all(...parameters: unknown[]): readonly unknown[];
};

/** A statement that accepts only the parameters that every driver accepts. */
export type CheckedStatement = {
  [Method in keyof SqliteStatement]: (...parameters: SqliteValue[]) => ReturnType<SqliteStatement[Method]>;
};

/** A parameter of a statement. */
export type SqliteValue = string | number | null;

/** A column of a row as a driver returned it; `undefined`: there is no such row or column. */
export function field(row: unknown, name: string): unknown {
  return isRecord(row) ? row[name] : undefined;
}

/** An integer as drivers return it; `null`: it is no integer, or exceeds the safe integers of JavaScript. */
export function integer(value: unknown): number | null {
  const number = typeof value === "bigint" ? Number(value) : value;
  return typeof number === "number" && Number.isSafeInteger(number) ? number : null;
}

function isRecord(value: unknown): value is { readonly [name: string]: unknown } {
  return typeof value === "object" && value !== null;
}
