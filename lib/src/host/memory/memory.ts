// Rows in the memory of the process: the reference of what a host does, and all that a program needs whose sessions may end with it.
//
// Reads and writes do their work before they return a promise, so nothing comes between a check and what relies on it. Rows are frozen, so what
// was read cannot change what is kept.

import type { Clock } from "../../clock/clock.ts";
import type { Batch, Query, Row, HostStorage, Written, TableName } from "../../runtime/host-contract.ts";

import { systemClock } from "../../clock/clock.ts";
import { checkBatch, checkQuery, expiryOf, holds, remainingMs } from "../shared/access.ts";
import { Watchers } from "../shared/watchers.ts";
import { SortedRows } from "./sorted-rows.ts";

/** Options of {@link memoryStorage}. */
export type MemoryOptions = {
  /** The name in error messages. Default: `memory`. */
  readonly name?: string;
  /**
   * What the storage reports. Default: `volatile`. `durable` is for tests of programs that require it; it does not
   * make rows last.
   */
  readonly durability?: "volatile" | "durable";
  /** The clock by which rows expire. Default: the system clock. */
  readonly clock?: Clock;
};

/** A storage in the memory of this process. Its rows are lost with the process. */
export function memoryStorage(options: MemoryOptions = {}): HostStorage {
  const kept = new Map<TableName, SortedRows>();
  const watchers = new Watchers();
  const { clock = systemClock } = options;
  const now = () => Math.floor(clock.now());

  function rowsOf(table: TableName): SortedRows {
    const known = kept.get(table);
    if (known !== undefined) return known;
    const rows = new SortedRows();
    kept.set(table, rows);
    return rows;
  }

  function answer(query: Query): readonly Row[] {
    checkQuery(query);
    const rows = rowsOf(query.table).read(query, query.limit ?? Infinity, query.reverse ?? false);
    if (rows.every(({ expires }) => expires === null)) return rows;
    const at = now();
    return rows.map((row) => Object.freeze({ ...row, remainingMs: remainingMs(row, at) }));
  }

  function apply(batch: Batch): Written {
    checkBatch(batch);
    const at = now();
    const failed = batch.checks.findIndex((check) => !holds(check, rowsOf(check.table).get(check.key), at));
    if (failed !== -1) return { ok: false, check: failed };
    for (const { table, prefix } of batch.removals) rowsOf(table).remove(prefix);
    for (const put of batch.puts) {
      const { table, key, tag, value } = put;
      const row = { key: Object.freeze([...key]), tag, expires: expiryOf(put, at), remainingMs: null, value };
      rowsOf(table).put(Object.freeze(row));
    }
    if (batch.removals.length + batch.puts.length > 0) watchers.tell(batch);
    return { ok: true };
  }

  return {
    name: options.name ?? "memory",
    durability: options.durability ?? "volatile",
    read: async (queries) => queries.map(answer),
    write: async (batch) => apply(batch),
    watch: (changed) => watchers.add(changed),
  };
}
