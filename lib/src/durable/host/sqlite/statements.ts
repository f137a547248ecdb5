// Builds, prepares and runs the SQL of queries and batches. A statement depends only on the shape of a query (table,
// number of key parts, bounds), so there are few, and each is prepared once. Values are always parameters, never part
// of the SQL text.

import type {
  Check,
  Column,
  Key,
  KeyPart,
  Put,
  Query,
  Removal,
  Row,
  TableName,
  TableSize,
} from "../../rows/internal.ts";
import type { CheckedStatement, SqliteDatabase, SqliteValue } from "./database.ts";

import { RuntimeError } from "../../../core/model/internal.ts";
import { tableNames, tables } from "../../rows/internal.ts";
import { expiryOf, remainingMs } from "../shared/access.ts";
import { unescapeText, escapeText } from "../shared/text-escaping.ts";
import { field, integer } from "./database.ts";
import { isBusy } from "./failure.ts";

/** The prepared statements of one connection. */
export class Statements {
  readonly #database: SqliteDatabase;
  readonly #prefix: string;
  readonly #storage: string;
  readonly #prepared = new Map<string, CheckedStatement>();

  constructor(database: SqliteDatabase, prefix: string, storage: string) {
    this.#database = database;
    this.#prefix = prefix;
    this.#storage = storage;
  }

  /** Drops all prepared statements. Call it before the handle is closed. */
  clear(): void {
    this.#prepared.clear();
  }

  /** The tag and expiry of the row of a check; `null`: there is no row. */
  find({ table, key }: Check): Pick<Row, "tag" | "expires"> | null {
    const statement = this.#prepare(
      `find ${table}`,
      () => `SELECT "tag", "expires" FROM ${this.#name(table)} WHERE ${equals(tables[table])}`,
    );
    const row = statement.get(...values(key));
    return field(row, "tag") === undefined ? null : { tag: this.#tag(table, row), expires: this.#expires(table, row) };
  }

  /** The sizes of the tables. These statements are not kept: they are rarely used. */
  sizes(): readonly TableSize[] {
    const bytes = this.#bytes();
    return tableNames().map((table) => {
      const counted = this.#database.prepare(`SELECT count(*) AS count FROM ${this.#name(table)}`).get();
      return {
        table,
        rows: integer(field(counted, "count")),
        isEstimate: false,
        bytes: bytes?.get(`${this.#prefix}${table}`) ?? null,
      };
    });
  }

  /** The disk space of tables with their indexes, by name; `null`: the driver was built without the table `dbstat`. */
  #bytes(): ReadonlyMap<unknown, number | null> | null {
    const sql = `SELECT s.tbl_name AS name, sum(d.pgsize) AS bytes FROM dbstat d JOIN sqlite_master s ON s.name = d.name WHERE d.aggregate = TRUE GROUP BY s.tbl_name`;
    try {
      const rows = this.#database.prepare(sql).all();
      return new Map(rows.map((row) => [field(row, "name"), integer(field(row, "bytes"))]));
    } catch (error) {
      if (isBusy(error)) throw error;
      return null;
    }
  }

  /** Deletes all rows with the prefix. */
  remove({ table, prefix }: Removal): void {
    const statement = this.#prepare(`remove ${table} ${prefix.length}`, () => {
      const where = prefix.length === 0 ? "" : ` WHERE ${equals(tables[table].slice(0, prefix.length))}`;
      return `DELETE FROM ${this.#name(table)}${where}`;
    });
    statement.run(...values(prefix));
  }

  /** Inserts or replaces a row. */
  put(put: Put, now: number): void {
    const { table, key, tag, value } = put;
    const statement = this.#prepare(`put ${table}`, () => {
      const columns = names(tables[table]);
      const placeholders = tables[table].map(() => "?, ").join("");
      const update = `"tag" = excluded."tag", "expires" = excluded."expires", "value" = excluded."value"`;
      return `INSERT INTO ${this.#name(table)} (${columns}, "tag", "expires", "value") VALUES (${placeholders}?, ?, ?) ON CONFLICT (${columns}) DO UPDATE SET ${update}`;
    });
    statement.run(...values(key), tag, expiryOf(put, now), escapeText(value));
  }

  /** The rows of a query. */
  read(query: Query, now: number): readonly Row[] {
    const { table, prefix, after, before, limit, maxLength, reverse } = query;
    const boundNames = [after === undefined ? "" : "after", before === undefined ? "" : "before"];
    const shape = `read ${table} ${prefix.length} ${boundNames.join(" ")} ${limit === undefined} ${maxLength === undefined} ${reverse === true}`;
    const selected = tables[table].slice(prefix.length);
    const statement = this.#prepare(shape, () => this.#select(query, selected));
    const bounds = [after, before].filter((bound) => bound !== undefined);
    const limits = limit === undefined ? [] : [Math.max(limit, 0)];
    // A complete key has one row, which is always returned.
    const lengths = maxLength === undefined || selected.length === 0 ? [] : [maxLength];
    const rows = statement.all(...values([...prefix, ...bounds]), ...limits, ...lengths);
    return rows.map((row) => {
      const expires = this.#expires(table, row);
      return {
        key: [...prefix, ...selected.map((column) => this.#part(table, column, row))],
        tag: this.#tag(table, row),
        expires,
        remainingMs: remainingMs({ expires }, now),
        value: this.#text(table, "value", row),
      };
    });
  }

  /** The SQL of a query. Key columns of the prefix are known and not selected. */
  #select({ table, prefix, after, before, limit, maxLength, reverse }: Query, selected: readonly Column[]): string {
    const next = selected.slice(0, 1);
    const conditions = [
      ...tables[table].slice(0, prefix.length).map(({ name }) => `"${name}" = ?`),
      ...(after === undefined ? [] : next.map(({ name }) => `"${name}" > ?`)),
      ...(before === undefined ? [] : next.map(({ name }) => `"${name}" < ?`)),
    ];
    const order = selected.map(({ name }) => `"${name}"${reverse === true ? " DESC" : ""}`);
    const select = [
      `SELECT ${selected.map(({ name }) => `"${name}", `).join("")}"tag", "expires", "value" FROM ${this.#name(table)}`,
      ...(conditions.length === 0 ? [] : [`WHERE ${conditions.join(" AND ")}`]),
      ...(order.length === 0 ? [] : [`ORDER BY ${order.join(", ")}`]),
      ...(limit === undefined ? [] : ["LIMIT ?"]),
    ].join(" ");
    if (maxLength === undefined || order.length === 0) return select;
    // Running totals of the rows within the limit.
    const running = `SELECT *, sum(length("value")) OVER rows AS "total", row_number() OVER rows AS "place" FROM (${select}) WINDOW rows AS (ORDER BY ${order.join(", ")} ROWS UNBOUNDED PRECEDING)`;
    return `SELECT * FROM (${running}) WHERE "total" <= ? OR "place" = 1 ORDER BY "place"`;
  }

  /** The prepared statement of a shape. */
  #prepare(shape: string, sql: () => string): CheckedStatement {
    const prepared = this.#prepared.get(shape);
    if (prepared !== undefined) return prepared;
    const statement = this.#database.prepare(sql());
    this.#prepared.set(shape, statement);
    return statement;
  }

  #name(table: TableName): string {
    return `"${this.#prefix}${table}"`;
  }

  #part(table: TableName, { name, type }: Column, row: unknown): KeyPart {
    return type === "text" ? this.#text(table, name, row) : this.#integer(table, name, row);
  }

  #tag(table: TableName, row: unknown): number {
    return this.#integer(table, "tag", row);
  }

  #expires(table: TableName, row: unknown): number | null {
    return field(row, "expires") === null ? null : this.#integer(table, "expires", row);
  }

  #integer(table: TableName, column: string, row: unknown): number {
    return integer(field(row, column)) ?? this.#corrupt(table, column);
  }

  #text(table: TableName, column: string, row: unknown): string {
    const text = field(row, column);
    return typeof text === "string" ? unescapeText(text) : this.#corrupt(table, column);
  }

  #corrupt(table: TableName, column: string): never {
    throw new RuntimeError("corrupt_row", {
      message: `a row of "${this.#prefix}${table}" in the storage "${this.#storage}" was not written by this library: its column "${column}" has the wrong type. Restore a backup, or remove the row.`,
      metadata: { storage: this.#storage, table, column },
    });
  }
}

function names(columns: readonly Column[]): string {
  return columns.map(({ name }) => `"${name}"`).join(", ");
}

function equals(columns: readonly Column[]): string {
  return columns.map(({ name }) => `"${name}" = ?`).join(" AND ");
}

function values(key: Key): SqliteValue[] {
  return key.map((part) => (typeof part === "string" ? escapeText(part) : part));
}
