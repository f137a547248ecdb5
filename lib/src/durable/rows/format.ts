// The format of a database: the version of stored values that its processes write (docs/decisions/0054).
//
// Theory of operation
//   In a rolling deploy processes of two releases share a database. A release reads every older version of a value and
//   refuses newer ones (`stored.ts`), so the newer release has to write what the older one can read. The database has a
//   format, one row of the table `shared` whose tag is the number; without the row it is `firstFormat`. A process
//   writes values of that format, not of its own newest one. `finalizeStorage` raises the number when the older release
//   has gone. A new database gets the newest format with its first write. One in which nothing is stored may still have
//   been created by an older release, whose processes run: a storage that completes its tables writes the row
//   (`host/shared/backfill.ts`).
//
//   `withFormat` wraps the storage of a runtime. It reads the row with the first read, and converts values before they
//   are written while the format is older than the newest one of this release. A finalized database costs one
//   comparison for each batch. Rows of a table that replaces others are written to those, too. While it converts, it
//   adds `reads` beside the data of lease rows: the newest version that their holder can read. Older releases ignore
//   it. `finalizeStorage` recognises processes of the older release by leases without it.
//
// Invariants
//   1. Every value that a process writes has the format of the database or an older one.
//   2. A process whose newest format is older than that of the database is refused at its first read or write
//      (`newer_schema`), before it has changed anything.
//   3. A process that runs while the format is raised continues to write the older format until it is started again.
//      Every later release reads it.

import type { Json } from "../../core/model/internal.ts";
import type { Batch, HostStorage, Put, Removal, Row } from "./storage.ts";
import type { TableName } from "./tables.ts";

import { contextRevision, kernelRevision } from "../../core/kernel/internal.ts";
import { RuntimeError, storedVersion } from "../../core/model/internal.ts";
import { isPlainObject } from "../../core/model/parse/reading.ts";
import { firstFormat, formatPlace, formatPut, formatQuery } from "./format-row.ts";
import { formerPuts, formerRemovals } from "./former-index.ts";

/** How the values of a format differ from those of the format before. */
type FormatChange = {
  /** The first format with the change. */
  readonly format: number;
  /** For each table whose values changed: converts the data of a value to the format before. */
  readonly downgrade: { readonly [Table in TableName]?: (data: Json) => Json };
  /** The rows of tables of the format before that say the same as a row of this one. */
  readonly former?: {
    readonly puts: (put: Put) => readonly Put[];
    readonly removals: (removal: Removal) => readonly Removal[];
  };
};

/** The formats that a release can write. */
export type StoredFormats = {
  /** The newest one, which new databases have. */
  readonly newest: number;
  /** The changes after `firstFormat`, in ascending order. */
  readonly changes: readonly FormatChange[];
};

/**
 * Version 5: turn rows have the time of their end, the index of work is one table, and turns may have context limits.
 * The last is not converted: before the database is finalized, turns have none (`newTurnRevision`).
 */
const version5: FormatChange = {
  format: 5,
  downgrade: { turns: withoutEnd },
  former: { puts: formerPuts, removals: formerRemovals },
};

function withoutEnd(data: Json): Json {
  if (!isPlainObject(data)) return data;
  const { endedAt: _, ...former } = data;
  return former;
}

/**
 * The formats of this release. A release that raises `storedVersion` adds a change. If it adds no table, storages do
 * not recognise an empty database of the release before.
 */
export const storedFormats: StoredFormats = { newest: storedVersion, changes: [version5] };

/** Returns the format that the row says. Throws `newer_schema` if this release cannot write it. */
export function formatOf(row: Row | undefined, { newest }: StoredFormats, storage: string): number {
  const format = row?.tag ?? firstFormat;
  if (format <= newest) return format;
  throw new RuntimeError("newer_schema", {
    message: `the database of the storage "${storage}" was finalized for format ${format}; this release supports formats up to ${newest}. Nothing was changed. Deploy the release that finalized it, or a newer one, here too.`,
    metadata: { storage, found: format, known: newest },
  });
}

/** The batch that raises the format, if the row is unchanged. */
export function formatBatch(row: Row | undefined, format: number): Batch {
  return {
    checks: [{ ...formatPlace, tag: row?.tag ?? null }],
    removals: [],
    puts: [formatPut(format)],
  };
}

/** A storage that knows the format of its values. */
export type FormattedStorage = HostStorage & {
  /** The format that this process writes. */
  readonly format: () => Promise<number>;
};

/** The first format whose processes know kernel revision 4: turns with context limits, and frames. */
const contextFormat = 5;

/** The kernel revision under which a new turn is started: one that every process of the database knows. */
export async function newTurnRevision({ format }: Pick<FormattedStorage, "format">): Promise<number> {
  return (await format()) < contextFormat ? contextRevision - 1 : kernelRevision;
}

/**
 * Wraps a storage: values are written in the format of the database. A volatile storage belongs to one process, so to
 * one release.
 */
export function withFormat(storage: HostStorage, formats: StoredFormats = storedFormats): FormattedStorage {
  const { newest } = formats;
  if (storage.durability === "volatile") return { ...storage, format: () => Promise.resolve(newest) };
  let known: number | null = null;

  const formatForWrite = async (): Promise<number> => {
    for (;;) {
      const [rows = [], sessions = [], leases = []] = await storage.read([
        formatQuery,
        { table: "sessions", prefix: [], limit: 1 },
        { table: "leases", prefix: [], limit: 1 },
      ]);
      const format = formatOf(rows[0], formats, storage.name);
      const isNew = rows.length + sessions.length + leases.length === 0;
      if (!isNew || format === newest) return format;
      const written = await storage.write(formatBatch(undefined, newest));
      if (written.ok) return newest;
    }
  };

  return {
    ...storage,
    format: async () => (known ??= await formatForWrite()),
    read: async (queries) => {
      if (known !== null) return storage.read(queries);
      const results = await storage.read([...queries, formatQuery]);
      const format = formatOf(results.at(-1)?.[0], formats, storage.name);
      // The first write decides whether the database is new and gets the newest format.
      if (format === newest) known = format;
      return results.slice(0, -1);
    },
    write: async (batch) => {
      known ??= await formatForWrite();
      return storage.write(known === newest ? batch : inFormat(batch, known, formats));
    },
  };
}

/** Converts the values of a batch to an older format, and adds rows of its tables. */
function inFormat(batch: Batch, format: number, formats: StoredFormats): Batch {
  const former = formats.changes.flatMap((change) => (change.format > format ? (change.former ?? []) : []));
  const puts = batch.puts.map((put) => downgraded(put, format, formats));
  return {
    ...batch,
    removals: [...batch.removals, ...former.flatMap(({ removals }) => batch.removals.flatMap(removals))],
    puts: [...puts, ...former.flatMap((change) => puts.flatMap(change.puts))],
  };
}

/** Values of index rows are empty, and those of middleware have formats of their own: they are left as they are. */
function downgraded(put: Put, format: number, { newest, changes }: StoredFormats): Put {
  const { table, value } = put;
  const envelope = `{"version":${newest},`;
  if (!value.startsWith(envelope)) return put;
  const conversions = changes
    .filter((change) => change.format > format)
    .toReversed()
    .flatMap(({ downgrade }) => downgrade[table] ?? []);
  if (table !== "leases" && conversions.length === 0) {
    return { ...put, value: `{"version":${format},${value.slice(envelope.length)}` };
  }
  const { data }: { readonly data: Json } = JSON.parse(value);
  const older = conversions.reduce((converted, convert) => convert(converted), data);
  const reads = table === "leases" ? { reads: newest } : {};
  return { ...put, value: JSON.stringify({ version: format, data: older, ...reads }) };
}

/**
 * The newest format that the holder of a lease can read, by its row; `null`: the row does not say, so it is that of the
 * database.
 */
export function readsOf({ value }: Row): number | null {
  const parsed: unknown = JSON.parse(value);
  const reads: unknown = typeof parsed === "object" && parsed !== null ? Reflect.get(parsed, "reads") : null;
  return typeof reads === "number" ? reads : null;
}
