// Reads and writes: from queries and batches to statements, and from result rows to rows of the contract.

import type { Batch, Column, KeyPart, Query, Row, TableSize, Written } from "../../rows/internal.ts";
import type { PostgresConnection, PostgresStatement } from "./client.ts";
import type { Names } from "./statements.ts";

import { createHash } from "node:crypto";

import { RuntimeError } from "../../../core/model/internal.ts";
import { tableNames, tables } from "../../rows/internal.ts";
import { compareStart } from "../shared/key-order.ts";
import { unescapeText } from "../shared/text-escaping.ts";
import { encodeBatch, groupsOf } from "./batch.ts";
import { beginError, NotCommitted, readOnlyServer } from "./failure.ts";
import { textColumn, writeFunction, writeSearchFunction } from "./schema.ts";
import { putWordsSql } from "./search-schema.ts";
import {
  checkSql,
  nowSql,
  putSql,
  queryRecord,
  readOnlySql,
  removeSql,
  selectReadOnlySql,
  selectSql,
  shapeOf,
} from "./statements.ts";

/** The statements of a storage, and how they are prepared. */
export class Statements {
  readonly #names: Names;
  readonly #storage: string;
  readonly #isPrepared: boolean;
  readonly #preparedNames = new Map<string, string>();
  /** Statements that were sent. */
  roundTrips = 0;

  constructor(names: Names, storage: string, isPrepared: boolean) {
    this.#names = names;
    this.#storage = storage;
    this.#isPrepared = isPrepared;
  }

  /** Answers all queries with one statement, and so from one snapshot. Queries of one shape share a branch of it. */
  async read(connection: PostgresConnection, queries: readonly Query[]): Promise<readonly (readonly Row[])[]> {
    const results: Row[][] = queries.map(() => []);
    if (queries.length === 0) return results;
    const branches = new Map<string, { readonly query: Query; readonly records: object[] }>();
    for (const [index, query] of queries.entries()) {
      const shape = shapeOf(query);
      const branch = branches.get(shape) ?? { query, records: [] };
      branch.records.push(queryRecord(query, index));
      branches.set(shape, branch);
    }
    // The order of the shapes is fixed, so that the same set of shapes is the same statement.
    const sorted = Array.from(branches).toSorted(([left], [right]) => (left < right ? -1 : 1));
    const text = [
      ...sorted.map(([, { query }], index) => `(${selectSql(this.#names, query, `$${index + 1}::text::jsonb`)})`),
      `(${selectReadOnlySql})`,
    ].join(" UNION ALL ");
    const values = sorted.map(([, { records }]) => JSON.stringify(records));
    const { rows } = await this.#send(connection, text, values);
    for (const row of rows) {
      const index = Number(textColumn(row, "i"));
      if (index === -1) throw readOnlyServer();
      const query = queries[index];
      if (query !== undefined) results[index]?.push(this.#row(query, row));
    }
    for (const [index, found] of results.entries()) inKeyOrder(found, queries[index]?.reverse === true);
    return results;
  }

  /** The present time of the server. */
  async now(connection: PostgresConnection): Promise<number> {
    const { rows } = await this.#send(connection, `SELECT ${nowSql}::text AS now`, []);
    return this.#integer("now", textColumn(rows[0], "now") ?? "");
  }

  /** The sizes of the tables, from statistics of the server: no table is read. */
  async sizes(connection: PostgresConnection): Promise<readonly TableSize[]> {
    const { schema, tablePrefix } = this.#names;
    const text = `SELECT c.relname AS name, c.reltuples::bigint::text AS rows, pg_total_relation_size(c.oid)::text AS bytes
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind IN ('r', 'p')`;
    const { rows } = await this.#send(connection, text, [schema], false);
    const byName = new Map(rows.map((row) => [textColumn(row, "name"), row]));
    return tableNames().map((table) => {
      const row = byName.get(`${tablePrefix}${table}`);
      const estimate = Number(textColumn(row, "rows") ?? "-1");
      const bytes = textColumn(row, "bytes");
      // -1: the table has been neither analysed nor vacuumed yet.
      const estimatedRows = estimate < 0 ? null : estimate;
      return { table, rows: estimatedRows, isEstimate: true, bytes: bytes === null ? null : Number(bytes) };
    });
  }

  /**
   * Writes a batch with one call of the function. `messages`: the words of its messages (`messageRecords`); `null`:
   * none are indexed.
   */
  async write(connection: PostgresConnection, batch: Batch, messages: string | null): Promise<Written> {
    const call =
      messages === null
        ? `${writeFunction(this.#names)}($1::text::jsonb)`
        : `${writeSearchFunction(this.#names)}($1::text::jsonb, $2::text::jsonb)`;
    const text = `SELECT ${call}::text AS failed, ${readOnlySql} AS read_only`;
    const values = [encodeBatch(batch), ...(messages === null ? [] : [messages])];
    const { rows } = await this.#send(connection, text, values);
    refuseReadOnly(rows[0]);
    return writtenOf(textColumn(rows[0], "failed") ?? "-1");
  }

  /**
   * Writes a batch as a serializable transaction, with the words of its messages. Rejects with `NotCommitted` if it
   * failed before the commit.
   */
  async writeInTransaction(connection: PostgresConnection, batch: Batch, messages: string | null): Promise<Written> {
    const { checks, removals, puts } = groupsOf(batch);
    await this.#send(connection, "BEGIN ISOLATION LEVEL SERIALIZABLE", [], false).catch((error: unknown) => {
      throw new NotCommitted(beginError(error));
    });
    let isCommitting = false;
    try {
      const failed: number[] = [];
      for (const [table, records] of checks) {
        const text = checkSql(this.#names, table, "$1::text::jsonb", nowSql).replace(
          "min(r.i) AS failed",
          `min(r.i)::text AS failed, ${readOnlySql} AS read_only`,
        );
        const { rows } = await this.#send(connection, text, [JSON.stringify(records)]);
        refuseReadOnly(rows[0]);
        const index = textColumn(rows[0], "failed");
        if (index !== null) failed.push(Number(index));
      }
      if (failed.length > 0) {
        await this.#send(connection, "ROLLBACK", [], false);
        return { ok: false, check: Math.min(...failed) };
      }
      for (const { table, length, records } of removals.values()) {
        const values = length === 0 ? [] : [JSON.stringify(records)];
        await this.#send(connection, removeSql(this.#names, table, length, "$1::text::jsonb"), values);
      }
      for (const [table, records] of puts) {
        await this.#send(connection, putSql(this.#names, table, "$1::text::jsonb", nowSql), [JSON.stringify(records)]);
      }
      if (messages !== null) {
        await this.#send(connection, putWordsSql(this.#names, "$1::text::jsonb"), [messages]);
      }
      isCommitting = true;
      await this.#send(connection, "COMMIT", [], false);
      return { ok: true };
    } catch (error) {
      await connection.query({ text: "ROLLBACK", values: [] }).catch(() => undefined);
      throw isCommitting ? error : new NotCommitted(error);
    }
  }

  #send(connection: PostgresConnection, text: string, values: (string | null)[], mayPrepare = true) {
    this.roundTrips += 1;
    const statement: PostgresStatement = { text, values };
    if (!mayPrepare || !this.#isPrepared) return connection.query(statement);
    return connection.query({ ...statement, name: this.#nameOf(text) });
  }

  /** The name of a prepared statement. Names are shared by all users of a connection, so it identifies the text. */
  #nameOf(text: string): string {
    const existing = this.#preparedNames.get(text);
    if (existing !== undefined) return existing;
    const name = `everturn_${createHash("sha256").update(text).digest("hex").slice(0, 24)}`;
    this.#preparedNames.set(text, name);
    return name;
  }

  #row({ table, prefix }: Query, row: unknown): Row {
    const columns: readonly Column[] = tables[table].slice(prefix.length);
    const part = ({ type }: Column, index: number): KeyPart => {
      const text = textColumn(row, `k${index + 1}`) ?? "";
      return type === "text" ? unescapeText(text) : this.#integer(table, text);
    };
    const expires = textColumn(row, "expires");
    const remaining = textColumn(row, "remaining");
    return {
      key: [...prefix, ...columns.map(part)],
      tag: this.#integer(table, textColumn(row, "tag") ?? ""),
      expires: expires === null ? null : this.#integer(table, expires),
      remainingMs: remaining === null ? null : this.#integer(table, remaining),
      value: unescapeText(textColumn(row, "value") ?? ""),
    };
  }

  #integer(table: string, text: string): number {
    const number = text === "" ? Number.NaN : Number(text);
    if (Number.isSafeInteger(number)) return number;
    throw new RuntimeError("corrupt_row", {
      message: `a row of the table "${table}" in the storage "${this.#storage}" was not written by this library: a number in it is too large. Restore a backup, or remove the row.`,
      metadata: { storage: this.#storage, table },
    });
  }
}

/** Throws if the server that returned the row is read-only: its checks may have failed only because it lags. */
function refuseReadOnly(row: unknown): void {
  if (textColumn(row, "read_only") === "on") throw readOnlyServer();
}

function writtenOf(failed: string): Written {
  const check = Number(failed);
  return check === -1 ? { ok: true } : { ok: false, check };
}

/**
 * Sorts the rows of a query. The server returns them in order, though SQL does not promise it for `UNION ALL`; then
 * this is one pass.
 */
function inKeyOrder(rows: Row[], reverse: boolean): void {
  const direction = reverse ? -1 : 1;
  const compare = (left: Row, right: Row) => direction * compareStart(left.key, right.key);
  const isSorted = rows.every((row, index) => {
    const next = rows[index + 1];
    return next === undefined || compare(row, next) <= 0;
  });
  if (!isSorted) rows.sort(compare);
}
