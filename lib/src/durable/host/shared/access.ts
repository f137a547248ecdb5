// Rules of the storage contract that all storages share: validation of queries and batches against the tables,
// evaluation of checks, and expiry. A key of the wrong length or type is a bug of the caller. Every storage rejects it
// with the same error; a storage that stored it would have rows that no query finds.

import type { Batch, Check, Key, Put, Query, Row, Column, TableName } from "../../rows/internal.ts";

import { MisuseError } from "../../../core/model/internal.ts";
import { tables } from "../../rows/internal.ts";

/** Throws `MisuseError` if the prefix or a bound of the query does not match the key columns of its table. */
export function checkQuery(query: Query): void {
  checkParts(query.table, query.prefix);
  for (const bound of [query.after, query.before]) {
    if (bound !== undefined) checkParts(query.table, [...query.prefix, bound]);
  }
  if (query.maxLength !== undefined && !(Number.isSafeInteger(query.maxLength) && query.maxLength >= 0)) {
    throw misfit(query.table, "maxLength must be a whole number of 0 or more");
  }
}

/** The first rows whose values have at most `maxLength` characters together, and the first row in any case. */
export function withinLength(rows: readonly Row[], maxLength: number | undefined): readonly Row[] {
  if (maxLength === undefined) return rows;
  let length = 0;
  const end = rows.findIndex(({ value }, index) => {
    length += value.length;
    return index > 0 && length > maxLength;
  });
  return end === -1 ? rows : rows.slice(0, end);
}

/** Throws `MisuseError` if a key, a tag or a `ttlMs` of the batch is invalid for its table. */
export function checkBatch(batch: Batch): void {
  for (const { table, key } of batch.checks) checkKey(table, key);
  for (const { table, prefix } of batch.removals) checkParts(table, prefix);
  for (const { table, key, tag, ttlMs } of batch.puts) {
    checkKey(table, key);
    if (!Number.isSafeInteger(tag)) throw misfit(table, "the tag must be a whole number");
    if (!Number.isSafeInteger(ttlMs ?? 0) || (ttlMs ?? 0) < 0) {
      throw misfit(table, "ttlMs must be a whole number of milliseconds of 0 or more, or null");
    }
  }
}

/**
 * Evaluates a check against the row of its key at the time `now`. A row is expired from the instant of its expiry on.
 */
export function holds(check: Check, row: StoredRow | null, now: number): boolean {
  if (check.tag === null || row === null) return check.tag === null && row === null;
  if (row.tag !== check.tag) return false;
  if (check.expires !== undefined && row.expires !== check.expires) return false;
  return check.alive !== true || row.expires === null || row.expires > now;
}

/** The fields of a row that checks compare. */
export type StoredRow = Pick<Row, "tag" | "expires">;

/** The expiry of a row that is written at `now`; `null`: never. */
export function expiryOf({ ttlMs = null }: Pick<Put, "ttlMs">, now: number): number | null {
  if (ttlMs === null) return null;
  // Expired at every time, also if the clock is set back.
  return ttlMs === 0 ? 0 : now + ttlMs;
}

/** The time until the expiry of a row; `null`: it never expires. */
export function remainingMs({ expires }: Pick<Row, "expires">, now: number): number | null {
  return expires === null ? null : expires - now;
}

function checkKey(table: TableName, key: Key): void {
  const columns: readonly Column[] = tables[table];
  if (key.length !== columns.length)
    throw misfit(table, `a complete key has ${columns.length} parts, not ${key.length}`);
  checkParts(table, key);
}

function checkParts(table: TableName, parts: Key): void {
  const columns: readonly Column[] = tables[table];
  for (const [index, part] of parts.entries()) {
    const column = columns[index];
    if (column === undefined) throw misfit(table, `a key has ${columns.length} parts, not ${parts.length}`);
    const fits = column.type === "text" ? typeof part === "string" : Number.isSafeInteger(part);
    if (!fits) throw misfit(table, `"${column.name}" must be a ${column.type === "text" ? "text" : "whole number"}`);
  }
}

function misfit(table: TableName, what: string): MisuseError {
  const names = tables[table].map(({ name }) => name).join(", ");
  return new MisuseError("invalid_argument", `invalid row or query for the table "${table}" (key: ${names}): ${what}`);
}
