// What hosts have in common when rows are asked for: whether a query or a batch fits the tables, and whether a check holds. A key that does not
// fit is a bug of whoever asks. It is told at once and by every host alike, or it would be rows that nobody finds.

import type { Batch, Check, Key, Query, Row, Column, TableName } from "../../runtime/host-contract.ts";

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
  for (const { table, key, tag, expires } of batch.puts) {
    checkKey(table, key);
    if (!Number.isSafeInteger(tag)) throw misfit(table, "a tag has to be a whole number");
    if (!Number.isSafeInteger(expires ?? 0)) throw misfit(table, "an expiry has to be whole milliseconds, or null");
  }
}

/** Does the row found under the key of a check satisfy it? One that runs out at an instant is no longer alive at that instant. */
export function holds(check: Check, found: Pick<Row, "tag" | "expires"> | null): boolean {
  if (check.tag === null || found === null) return check.tag === null && found === null;
  if (found.tag !== check.tag) return false;
  return check.aliveAt === undefined || found.expires === null || found.expires > check.aliveAt;
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
