// What hosts have in common when rows are asked for: whether a query or a batch fits the tables, and whether a check holds. A key that does not
// fit is a bug of whoever asks. It is told at once and by every host alike, or it would be rows that nobody finds.

import type { Batch, Check, Key, Put, Query, Row, Column, TableName } from "../../runtime/host-contract.ts";

import { MisuseError } from "../../model/internal.ts";
import { tables } from "../../runtime/host-contract.ts";

/** Throws `MisuseError` when the query does not fit its table. */
export function checkQuery(query: Query): void {
  checkParts(query.table, query.prefix);
  for (const bound of [query.after, query.before]) {
    if (bound !== undefined) checkParts(query.table, [...query.prefix, bound]);
  }
}

/** Throws `MisuseError` when something in the batch does not fit its table. */
export function checkBatch(batch: Batch): void {
  for (const { table, key } of batch.checks) checkKey(table, key);
  for (const { table, prefix } of batch.removals) checkParts(table, prefix);
  for (const { table, key, tag, ttlMs } of batch.puts) {
    checkKey(table, key);
    if (!Number.isSafeInteger(tag)) throw misfit(table, "a tag has to be a whole number");
    if (!Number.isSafeInteger(ttlMs ?? 0) || (ttlMs ?? 0) < 0) {
      throw misfit(table, "ttlMs has to be a whole number of milliseconds of 0 or more, or null");
    }
  }
}

/** Does the row found under the key of a check satisfy it at the time `now`? A row that expires at an instant is no longer alive at that instant. */
export function holds(check: Check, found: StoredRow | null, now: number): boolean {
  if (check.tag === null || found === null) return check.tag === null && found === null;
  if (found.tag !== check.tag) return false;
  if (check.expires !== undefined && found.expires !== check.expires) return false;
  return check.alive !== true || found.expires === null || found.expires > now;
}

/** What a host keeps of a row's tag and expiry. */
export type StoredRow = Pick<Row, "tag" | "expires">;

/** When a row that is written at `now` expires. */
export function expiryOf({ ttlMs = null }: Pick<Put, "ttlMs">, now: number): number | null {
  return ttlMs === null ? null : now + ttlMs;
}

/** The time a row has left. */
export function remainingMs({ expires }: Pick<Row, "expires">, now: number): number | null {
  return expires === null ? null : expires - now;
}

function checkKey(table: TableName, key: Key): void {
  const columns: readonly Column[] = tables[table];
  if (key.length !== columns.length) throw misfit(table, `a whole key has ${columns.length} parts, not ${key.length}`);
  checkParts(table, key);
}

function checkParts(table: TableName, parts: Key): void {
  const columns: readonly Column[] = tables[table];
  for (const [index, part] of parts.entries()) {
    const column = columns[index];
    if (column === undefined) throw misfit(table, `a key has ${columns.length} parts, not ${parts.length}`);
    const fits = column.type === "text" ? typeof part === "string" : Number.isSafeInteger(part);
    if (!fits) throw misfit(table, `"${column.name}" has to be a ${column.type === "text" ? "text" : "whole number"}`);
  }
}

function misfit(table: TableName, what: string): MisuseError {
  const names = tables[table].map(({ name }) => name).join(", ");
  return new MisuseError("invalid_argument", `this does not fit the table "${table}" (${names}): ${what}`);
}
