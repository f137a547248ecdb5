// Encodes a batch for Postgres: groups of records by table, and the names of what the batch locks.

import type { Batch, Column, Key, Put, TableName } from "../../rows/internal.ts";

import { tables } from "../../rows/internal.ts";
import { checkRecord, putRecord, removeRecord } from "./statements.ts";

/** The groups of a batch. Removals are grouped by table and length of the prefix. */
export type Groups = {
  readonly checks: ReadonlyMap<TableName, readonly object[]>;
  readonly removals: ReadonlyMap<
    string,
    { readonly table: TableName; readonly length: number; readonly records: readonly object[] }
  >;
  readonly puts: ReadonlyMap<TableName, readonly object[]>;
};

/** Groups a batch by table. Of several puts with the same key the last one counts. */
export function groupsOf(batch: Batch): Groups {
  const checks = new Map<TableName, object[]>();
  batch.checks.forEach((check, index) => add(checks, check.table, checkRecord(check, index)));
  const removals = new Map<string, { table: TableName; length: number; records: object[] }>();
  for (const removal of batch.removals) {
    const { table, prefix } = removal;
    const name = `${table} ${prefix.length}`;
    const group = removals.get(name) ?? { table, length: prefix.length, records: [] };
    group.records.push(removeRecord(removal));
    removals.set(name, group);
  }
  const puts = new Map<TableName, object[]>();
  for (const put of lastPuts(batch.puts)) add(puts, put.table, putRecord(put));
  return { checks, removals, puts };
}

function add<Name>(groups: Map<Name, object[]>, name: Name, record: object): void {
  const group = groups.get(name);
  if (group === undefined) groups.set(name, [record]);
  else group.push(record);
}

/** Postgres refuses to write a row twice in one statement. */
function lastPuts(puts: readonly Put[]): Iterable<Put> {
  return new Map(puts.map((put) => [JSON.stringify([put.table, ...put.key]), put])).values();
}

/** The argument of the writing function (`schema.ts`). */
export function encodeBatch(batch: Batch): string {
  const { checks, removals, puts } = groupsOf(batch);
  const { locks, shared, everything } = locksOf(batch);
  return JSON.stringify({
    ...(batch.lasting === false ? { relaxed: true } : {}),
    ...(everything ? { everything: true } : {}),
    locks,
    ...(shared.length === 0 ? {} : { shared }),
    ...(checks.size === 0 ? {} : { checks: Object.fromEntries(checks) }),
    ...(removals.size === 0
      ? {}
      : { removals: Object.fromEntries(Array.from(removals, ([name, { records }]) => [name, records])) }),
    ...(puts.size === 0 ? {} : { puts: Object.fromEntries(puts) }),
  });
}

/** The names that a batch locks. `everything`: a removal spans sessions. */
type Locks = {
  /** Sessions, and rows that belong to no session, that are written. */
  readonly locks: readonly string[];
  /**
   * Those that are only checked. Several batches that only check a row do not wait for each other, but for one that
   * writes it.
   */
  readonly shared: readonly string[];
  readonly everything: boolean;
};

const isName = (name: string | null): name is string => name !== null;

function locksOf({ checks, puts, removals }: Batch): Locks {
  const written = [...puts, ...removals.map(({ table, prefix }) => ({ table, key: prefix }))];
  const names = new Set(written.map(({ table, key }) => lockOf(table, key)));
  const checked = new Set(checks.map(({ table, key }) => lockOf(table, key)));
  return {
    locks: [...names].filter(isName),
    shared: [...checked].filter(isName).filter((name) => !names.has(name)),
    everything: names.has(null) || checked.has(null),
  };
}

/**
 * The lock of a row: its session, or the row itself in tables without sessions. `null`: a prefix that names neither.
 * Live text (`pieces`) has a lock of its own for each session: one batch holds the text of all turns of a process, and
 * would otherwise wait for the commits of all of them, and they for it.
 */
function lockOf(table: TableName, key: Key): string | null {
  const columns: readonly Column[] = tables[table];
  const session = columns.findIndex(({ name }) => name === "session");
  if (session === -1) return key.length === columns.length ? JSON.stringify([table, ...key]) : null;
  const tenant = columns.findIndex(({ name }) => name === "tenant");
  return key.length > session && key.length > tenant
    ? JSON.stringify([...(table === "pieces" ? [table] : []), key[tenant], key[session]])
    : null;
}
