// The storage in memory: the reference implementation of the storage contract, and enough for a program whose sessions
// may end with its process.
//
// Reads and writes do all their work synchronously, before they return a promise, so a batch is atomic and a read is a
// snapshot without any locking. Rows are frozen, so a caller cannot change stored rows through the rows it has read.

import type { Clock } from "../../../core/clock/clock.ts";
import type { Batch, Query, Row, HostStorage, Written, TableName } from "../../rows/internal.ts";

import { systemClock } from "../../../core/clock/clock.ts";
import { checkBatch, checkQuery, expiryOf, holds, remainingMs, withinLength } from "../shared/access.ts";
import { Watchers } from "../shared/watchers.ts";
import { SortedRows } from "./sorted-rows.ts";

/** Options of {@link memoryStorage}. */
export type MemoryOptions = {
  /** The name in error messages. Default: `memory`. */
  readonly name?: string;
  /**
   * The durability that the storage reports. Default: `volatile`. `durable` is for tests of programs that require it;
   * rows are lost with the process all the same.
   */
  readonly durability?: "volatile" | "durable";
  /** The clock by which rows expire. Default: the system clock. */
  readonly clock?: Clock;
};

/** Creates a storage in the memory of this process. Its rows are lost with the process. */
export function memoryStorage(options: MemoryOptions = {}): HostStorage {
  const rowsByTable = new Map<TableName, SortedRows>();
  const watchers = new Watchers();
  const { clock = systemClock } = options;
  const now = () => Math.floor(clock.now());

  function rowsOf(table: TableName): SortedRows {
    const existing = rowsByTable.get(table);
    if (existing !== undefined) return existing;
    const rows = new SortedRows();
    rowsByTable.set(table, rows);
    return rows;
  }

  /** The rows of a query. The remaining time of rows that expire is computed at the read. */
  function answer(query: Query): readonly Row[] {
    checkQuery(query);
    const found = rowsOf(query.table).read(query, query.limit ?? Infinity, query.reverse ?? false);
    const rows = withinLength(found, query.maxLength);
    if (rows.every(({ expires }) => expires === null)) return rows;
    const at = now();
    return rows.map((row) => Object.freeze({ ...row, remainingMs: remainingMs(row, at) }));
  }

  /** Checks first, then removals, then puts. */
  function apply(batch: Batch): Written {
    checkBatch(batch);
    const at = now();
    const failedCheck = batch.checks.findIndex((check) => !holds(check, rowsOf(check.table).get(check.key), at));
    if (failedCheck !== -1) return { ok: false, check: failedCheck };
    for (const { table, prefix } of batch.removals) rowsOf(table).remove(prefix);
    for (const put of batch.puts) {
      const { table, key, tag, value } = put;
      const row = { key: Object.freeze([...key]), tag, expires: expiryOf(put, at), remainingMs: null, value };
      rowsOf(table).put(Object.freeze(row));
    }
    if (batch.removals.length + batch.puts.length > 0) watchers.notify(batch);
    return { ok: true };
  }

  return {
    name: options.name ?? "memory",
    durability: options.durability ?? "volatile",
    now: async () => now(),
    read: async (queries) => queries.map(answer),
    write: async (batch) => apply(batch),
    watch: (changed) => watchers.add(changed),
  };
}
