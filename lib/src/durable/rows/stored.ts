// Reads and writes the values of rows, and converts those of older releases. A value is JSON: `{ version, data }`.
//
// Invariants
//   1. Every value carries the format version of the release that wrote it, and any later release reads it (S1).
//      `upgraded` converts older versions; fields that were added later have a fallback.
//   2. A value of a newer version is `newer_schema`, never read as far as possible: dropping unknown fields would lose
//      data on the next write.
//   3. A field that has its default is not written, so the default of a stored field never changes: it is the value of
//      that field in rows that exist.
//   4. A value that cannot be read is a `corrupt_row` that names the row and never quotes its content.

import type { Result, ValidationFailure } from "../../core/model/internal.ts";
import type { Shape } from "../../core/model/parse/reading.ts";
import type { Row } from "./storage.ts";
import type { TableName } from "./tables.ts";
import type { SessionHead, StoredValues } from "./values.ts";

import { MisuseError, renderIssue, RuntimeError, storedVersion, validationFailure } from "../../core/model/internal.ts";
import { failed, isPlainObject, ok, read, withoutDefaults } from "../../core/model/parse/reading.ts";
import { hasReferences, parsedValue } from "./large-values.ts";
import { shapes } from "./values.ts";

const shapeOf: { readonly [T in keyof StoredValues]: Shape<StoredValues[T]> } = shapes;

/**
 * Serialises a value, without the fields that have their default. Throws `MisuseError` (`not_serializable`) for values
 * of `checkedTables` that could not be read back.
 */
export function writeValue<T extends keyof StoredValues>(table: T, value: StoredValues[T]): string {
  if (checkedTables.has(table)) checkReadable(table, value);
  return JSON.stringify({ version: storedVersion, data: withoutDefaults(shapeOf[table], value) });
}

/**
 * Tables whose rows hold data of callers and are written once for each verb. Rows of a step are not checked: the check
 * costs a full read.
 */
const checkedTables: ReadonlySet<TableName> = new Set<TableName>(["starts", "inbox", "cancels"]);

/**
 * Throws `MisuseError` if a value could not be read back after it is written: its session would be lost. Verbs check
 * the session row they write. Commits of a turn do not, because their session row holds only what was read and what the
 * library computed.
 */
export function checkReadable<T extends keyof StoredValues>(table: T, value: StoredValues[T]): void {
  const result = read(shapeOf[table], value);
  if ("value" in result) return;
  const [first] = result.issues;
  const why = first === undefined ? "it has the wrong shape" : renderIssue(first);
  throw new MisuseError(
    "not_serializable",
    `a value for the table ${table} could not be read back after writing: ${why}`,
    {
      path: [table, ...(first?.path ?? [])],
    },
  );
}

/** Reads the value of a row. Throws `corrupt_row` or `newer_schema`. */
export function readValue<T extends keyof StoredValues>(table: T, row: Row): StoredValues[T] {
  const stored = parsed(row);
  if (stored === null) {
    throw corrupt(
      table,
      row,
      hasReferences(row) ? "a large text that it refers to is missing" : "it is not a value that this library wrote",
    );
  }
  if (stored.version > storedVersion) {
    throw new RuntimeError("newer_schema", {
      message: `${rowName(table, row)} was written by a newer release (format version ${stored.version}; this release reads versions up to ${storedVersion}): deploy that release or a newer one here too`,
    });
  }
  const result = read(shapeOf[table], upgraded(table, stored));
  if ("value" in result) return result.value;
  const [first] = result.issues;
  throw corrupt(table, row, first === undefined ? "it has the wrong shape" : `${first.path.join(".")}: ${first.code}`);
}

/**
 * Converts the value of a row to the current version. Up to version 3 the turn row counted published journal rows,
 * because the event log could be in another storage. Since version 4 every event is written with the journal row that
 * caused it.
 */
function upgraded(table: TableName, { version, data }: { readonly version: number; readonly data: unknown }): unknown {
  if (table !== "turns" || version > 3 || !isPlainObject(data)) return data;
  const { published: _, ...current } = data;
  return current;
}

/**
 * Salvages two fields of a session row that cannot be read, so that the session can be deleted; `null`: not even these.
 */
export function salvageHead(row: Row): Pick<SessionHead, "changedAt" | "sequence"> | null {
  const data = parsed(row)?.data;
  const { changedAt = 0, sequence = 0 } = isPlainObject(data) ? data : { changedAt: null };
  return Number.isSafeInteger(changedAt) && Number.isSafeInteger(sequence)
    ? { changedAt: Number(changedAt), sequence: Number(sequence) }
    : null;
}

/** Reads a value that is not in a row but part of an exported turn. */
export function readPart<T extends keyof StoredValues>(
  table: T,
  data: unknown,
): Result<StoredValues[T], ValidationFailure> {
  const result = read(shapeOf[table], data);
  if ("value" in result) return ok(result.value);
  return failed(validationFailure("invalid_data", { issues: result.issues, metadata: { table } }));
}

/** Parses the envelope of the value of a row; `null`: the text has none. */
function parsed(row: Row): { readonly version: number; readonly data: unknown } | null {
  try {
    const value = parsedValue(row);
    if (!isPlainObject(value)) return null;
    const { version, data } = value;
    return typeof version === "number" && data !== undefined ? { version, data } : null;
  } catch {
    return null;
  }
}

/**
 * The error of a row that cannot be read. It names the row and the kind of defect, never the content, which may be
 * private.
 */
function corrupt(table: TableName, row: Row, what: string): RuntimeError {
  return new RuntimeError("corrupt_row", {
    message: `${rowName(table, row)} cannot be read (${what}); restore it from a backup, or delete the session it belongs to`,
    metadata: { table, key: [...row.key] },
  });
}

function rowName(table: TableName, { key }: Row): string {
  return `the row ${key.map((part) => JSON.stringify(part)).join(", ")} of ${table}`;
}
