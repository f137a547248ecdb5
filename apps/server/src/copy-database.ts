// Copies all rows of one storage into another, for example from a SQLite file into Postgres.
//
// Theory of operation
//   Tables are copied one after the other, in pages in key order. A table that the target has a part of is continued
//   after its last row, so a copy that was interrupted is resumed. At the end both tables are read and their digests
//   compared (SHA-256 over keys, tags and values). A table that differs is copied again from its beginning, once. Then
//   a difference is an error: the source was written to, or the target has rows of its own. Times of expiry are not
//   compared: a row that expires gets the time that it had left.
//
// Nothing may write to either storage meanwhile. The caller says so; a difference of the digests shows it.

import type { StorageRow } from "everturn/advanced";
import type { HostStorage } from "everturn/runtime";

import { createHash } from "node:crypto";

import { storageTables } from "everturn/advanced";

type TableName = keyof typeof storageTables;

/** One table after it was copied. */
export type CopiedTable = {
  readonly table: string;
  /** How many rows both storages have. */
  readonly rows: number;
  /** How many rows were written. Fewer than `rows` if an earlier copy was resumed. */
  readonly written: number;
  /** The SHA-256 of keys, tags and values in both storages, as hexadecimal digits. */
  readonly digest: string;
};

/** A copy whose source and target differ at the end. */
export class CopyError extends Error {
  override readonly name: string = "CopyError";
}

/** How many rows are read and written at a time. */
const pageSize = 200;

/**
 * Copies every table. `onTable` receives each table when it is complete. Throws `CopyError` if a table differs at the
 * end.
 */
export async function copyDatabase(
  source: HostStorage,
  target: HostStorage,
  onTable: (copied: CopiedTable) => void = () => undefined,
): Promise<readonly CopiedTable[]> {
  const tables: CopiedTable[] = [];
  for (const table of Object.keys(storageTables).filter(isTable)) {
    const copied = await copyTable(source, target, table);
    tables.push(copied);
    onTable(copied);
  }
  return tables;
}

function isTable(name: string): name is TableName {
  return Object.hasOwn(storageTables, name);
}

async function copyTable(source: HostStorage, target: HostStorage, table: TableName): Promise<CopiedTable> {
  const [[last] = []] = await target.read([{ table, prefix: [], reverse: true, limit: 1 }]);
  let written = await copyAfter(source, target, table, last ?? null);
  let [from, to] = [await tableDigest(source, table), await tableDigest(target, table)];
  if (from.digest !== to.digest && last !== undefined) {
    written += await copyAfter(source, target, table, null);
    [from, to] = [await tableDigest(source, table), await tableDigest(target, table)];
  }
  if (from.digest === to.digest) return { table, rows: to.rows, written, digest: to.digest };
  throw new CopyError(
    `the table "${table}" has ${from.rows} rows in ${source.name} and ${to.rows} rows in ${target.name}, and their digests differ. Stop everything that writes to either of them, use an empty target, and copy again.`,
  );
}

/** Copies the rows after a row; `null`: all rows. Returns their number. */
async function copyAfter(
  source: HostStorage,
  target: HostStorage,
  table: TableName,
  after: StorageRow | null,
): Promise<number> {
  let written = 0;
  for await (const page of pages(source, table, after)) {
    const puts = page.map(({ key, tag, value, remainingMs }) => ({
      table,
      key,
      tag,
      value,
      ttlMs: remainingMs === null ? null : Math.max(0, remainingMs),
    }));
    await target.write({ checks: [], removals: [], puts });
    written += puts.length;
  }
  return written;
}

async function tableDigest(
  storage: HostStorage,
  table: TableName,
): Promise<{ readonly rows: number; readonly digest: string }> {
  const hash = createHash("sha256");
  let rows = 0;
  for await (const page of pages(storage, table, null)) {
    for (const { key, tag, value } of page) hash.update(`${JSON.stringify([key, tag, value])}\n`);
    rows += page.length;
  }
  return { rows, digest: hash.digest("hex") };
}

/** The rows of a table after a row, page by page, in key order. */
async function* pages(
  storage: HostStorage,
  table: TableName,
  after: StorageRow | null,
): AsyncGenerator<readonly StorageRow[]> {
  for (let last = after; ;) {
    const page = await pageAfter(storage, table, last);
    if (page.length > 0) yield page;
    last = page.at(-1) ?? null;
    if (page.length < pageSize || last === null) return;
  }
}

/**
 * A bound applies to one part of the key, so the rows after a key are those with its first parts, then with fewer of
 * them, and so on.
 */
async function pageAfter(
  storage: HostStorage,
  table: TableName,
  last: StorageRow | null,
): Promise<readonly StorageRow[]> {
  if (last === null) {
    const [rows = []] = await storage.read([{ table, prefix: [], limit: pageSize }]);
    return rows;
  }
  const depths = Array.from({ length: last.key.length }, (_, index) => last.key.length - 1 - index);
  const found = await storage.read(
    depths.flatMap((depth) => {
      const bound = last.key[depth];
      return bound === undefined ? [] : [{ table, prefix: last.key.slice(0, depth), after: bound, limit: pageSize }];
    }),
  );
  return found.flat().slice(0, pageSize);
}
