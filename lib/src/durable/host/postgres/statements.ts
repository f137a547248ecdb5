// Builds the SQL of queries and batches. Statements depend on tables and on the shape of queries only; keys and values
// are passed as JSON, so few statements exist, and each is planned once for a connection.
//
// A group of rows is one JSON array of objects with the columns k1, k2, … for the parts of a key
// (`jsonb_to_recordset`). Integers are numbers in JSON, and text is escaped (`text-escaping.ts`), because Postgres
// stores neither U+0000 nor lone surrogates.

import type { Check, Column, Key, KeyPart, Put, Query, Removal, TableName } from "../../rows/internal.ts";

import { tables } from "../../rows/internal.ts";
import { escapeText } from "../shared/text-escaping.ts";

/** The schema and the prefix of the tables. */
export type Names = { readonly schema: string; readonly tablePrefix: string };

/**
 * The present time in milliseconds. Not the time at which the transaction began: it may have waited for a lock since.
 */
export const nowSql = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/**
 * `on`: the server is a standby, or refuses writes for another reason. A column of statements, so that the answer costs
 * no round trip.
 */
export const readOnlySql = "current_setting('transaction_read_only')";

/** The largest number of parts in a key. */
const maxKeyParts = Math.max(...Object.values(tables).map((columns) => columns.length));

/** The quoted name of a table or function of the storage. */
export function qualified({ schema, tablePrefix }: Names, name: string): string {
  return `"${schema}"."${tablePrefix}${name}"`;
}

function typeOf({ type }: Column): string {
  return type === "text" ? "text" : "bigint";
}

/** The columns k1, k2, … of a record set, with their types. */
function keyRecord(columns: readonly Column[]): string {
  return columns.map((column, index) => `k${index + 1} ${typeOf(column)}`).join(", ");
}

/** The condition that a row `t` has the key parts of the record `r`. */
function keyEquals(columns: readonly Column[]): string {
  return columns.map(({ name }, index) => `t."${name}" = r.k${index + 1}`).join(" AND ");
}

/** The parts of a key as columns k1, k2, … of a record. */
function keyColumns(key: Key): { readonly [column: string]: KeyPart } {
  return Object.fromEntries(key.map((part, index) => [`k${index + 1}`, jsonPart(part)]));
}

function jsonPart(part: KeyPart): KeyPart {
  return typeof part === "string" ? escapeText(part) : part;
}

/**
 * Selects the smallest index of the checks of one table that fail, as `failed`. `records` is an expression of type
 * jsonb.
 */
export function checkSql(names: Names, table: TableName, records: string, now: string): string {
  const columns: readonly Column[] = tables[table];
  return `SELECT min(r.i) AS failed
    FROM jsonb_to_recordset(${records}) AS r(i integer, ${keyRecord(columns)}, tag bigint, alive boolean, exact boolean, expires bigint)
    LEFT JOIN ${qualified(names, table)} t ON ${keyEquals(columns)}
    WHERE NOT CASE
      WHEN r.tag IS NULL OR t."tag" IS NULL THEN r.tag IS NULL AND t."tag" IS NULL
      ELSE t."tag" = r.tag
        AND (NOT r.exact OR t."expires" IS NOT DISTINCT FROM r.expires)
        AND (NOT r.alive OR t."expires" IS NULL OR t."expires" > ${now})
    END`;
}

/** A check as a record. `index` is its position in the batch. */
export function checkRecord({ key, tag, alive = false, expires }: Check, index: number): object {
  return { i: index, ...keyColumns(key), tag, alive, exact: expires !== undefined, expires: expires ?? null };
}

/** Deletes the rows of one table by prefixes of one length. */
export function removeSql(names: Names, table: TableName, length: number, records: string): string {
  const columns = tables[table].slice(0, length);
  const target = `DELETE FROM ${qualified(names, table)} t`;
  if (length === 0) return target;
  return `${target} USING jsonb_to_recordset(${records}) AS r(${keyRecord(columns)}) WHERE ${keyEquals(columns)}`;
}

/** A removal as a record. */
export function removeRecord({ prefix }: Removal): object {
  return keyColumns(prefix);
}

/** Inserts or replaces rows of one table. */
export function putSql(names: Names, table: TableName, records: string, now: string): string {
  const columns: readonly Column[] = tables[table];
  const quoted = columns.map(({ name }) => `"${name}"`).join(", ");
  const keys = columns.map((_, index) => `r.k${index + 1}`).join(", ");
  return `INSERT INTO ${qualified(names, table)} (${quoted}, "tag", "expires", "value")
    SELECT ${keys}, r.tag, CASE WHEN r.ttl = 0 THEN 0 ELSE ${now} + r.ttl END, r.value
    FROM jsonb_to_recordset(${records}) AS r(${keyRecord(columns)}, tag bigint, ttl bigint, value text)
    ON CONFLICT (${quoted}) DO UPDATE SET "tag" = excluded."tag", "expires" = excluded."expires", "value" = excluded."value"`;
}

/** A row to write as a record. */
export function putRecord({ key, tag, value, ttlMs = null }: Put): object {
  return { ...keyColumns(key), tag, ttl: ttlMs, value: escapeText(value) };
}

/** The shape of a query: what its SQL depends on. */
export function shapeOf({ table, prefix, after, before, limit, maxLength, reverse }: Query): string {
  const bounds = [after === undefined ? "" : "after", before === undefined ? "" : "before"];
  const limits = [limit === undefined ? "" : "limit", maxLength === undefined ? "" : "length"];
  return [table, prefix.length, ...bounds, ...limits, reverse === true ? "reverse" : ""].join(" ");
}

/**
 * Selects the rows of queries of one shape: the index of the query, the key parts after the prefix, padded to
 * `maxKeyParts`, tag, expiry, remaining time and value, all as text.
 */
export function selectSql(names: Names, query: Query, records: string): string {
  const { table, prefix, after, before, limit, maxLength, reverse } = query;
  const known: readonly Column[] = tables[table].slice(0, prefix.length);
  const selected: readonly Column[] = tables[table].slice(prefix.length);
  const next = selected.slice(0, 1);
  const conditions = [
    ...(known.length === 0 ? [] : [keyEquals(known)]),
    ...(after === undefined ? [] : next.map(({ name }) => `t."${name}" > r.after`)),
    ...(before === undefined ? [] : next.map(({ name }) => `t."${name}" < r.before`)),
  ];
  const record = [
    "i integer",
    ...(known.length === 0 ? [] : [keyRecord(known)]),
    ...(after === undefined ? [] : next.map((column) => `after ${typeOf(column)}`)),
    ...(before === undefined ? [] : next.map((column) => `before ${typeOf(column)}`)),
    ...(limit === undefined ? [] : ["most bigint"]),
    ...(maxLength === undefined ? [] : ["longest bigint"]),
  ];
  const order = selected.map(({ name }) => `t."${name}"${reverse === true ? " DESC" : ""}`);
  const limited = [
    `SELECT t.* FROM ${qualified(names, table)} t`,
    ...(conditions.length === 0 ? [] : [`WHERE ${conditions.join(" AND ")}`]),
    ...(order.length === 0 ? [] : [`ORDER BY ${order.join(", ")}`]),
    ...(limit === undefined ? [] : ["LIMIT r.most"]),
  ].join(" ");
  // Running totals of the rows within the limit. A complete key has one row, which is always returned.
  const running = `SELECT t.*, sum(length(t."value")) OVER w AS total, row_number() OVER w AS place FROM (${limited}) t WINDOW w AS (ORDER BY ${order.join(", ")} ROWS UNBOUNDED PRECEDING)`;
  const rows =
    maxLength === undefined || order.length === 0
      ? limited
      : `SELECT t.* FROM (${running}) t WHERE t.total <= r.longest OR t.place = 1`;
  const parts = Array.from({ length: maxKeyParts }, (_, index) => {
    const column = selected[index];
    return `${column === undefined ? "NULL" : `x."${column.name}"::text`} AS k${index + 1}`;
  });
  return `SELECT r.i, ${parts.join(", ")}, x."tag"::text AS tag, x."expires"::text AS expires, (x."expires" - ${nowSql})::text AS remaining, x."value" AS value
    FROM jsonb_to_recordset(${records}) AS r(${record.join(", ")}) CROSS JOIN LATERAL (${rows}) x`;
}

/** Selects one row with the index -1, in the columns of `selectSql`, if the server is read-only. */
export const selectReadOnlySql = `SELECT -1 AS i, ${Array.from({ length: maxKeyParts }, (_, index) => `NULL::text AS k${index + 1}`).join(", ")}, NULL::text AS tag, NULL::text AS expires, NULL::text AS remaining, NULL::text AS value WHERE ${readOnlySql} = 'on'`;

/** A query as a record. `index` is its position among the queries of the read. */
export function queryRecord({ prefix, after, before, limit, maxLength }: Query, index: number): object {
  return {
    i: index,
    ...keyColumns(prefix),
    ...(after === undefined ? {} : { after: jsonPart(after) }),
    ...(before === undefined ? {} : { before: jsonPart(before) }),
    ...(limit === undefined ? {} : { most: Math.max(limit, 0) }),
    ...(maxLength === undefined ? {} : { longest: maxLength }),
  };
}
