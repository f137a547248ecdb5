// Folds the lines of ended turns into sums by period (`rows/rollup.ts`), older sums into sums by hour, and removes sums
// whose retention time is over.
//
// Theory of operation
//   lines          of one period of five minutes → the row of all tenants and the rows of their tenants for that period
//   five minutes   of one hour, once they are older than `fineMs` → the rows of the hour with the same scopes
//   hours          older than `keepMs` are removed, and so are lines of that age, which no release could read
//   One fold is one conditional batch: it checks every row that it adds and the tags of the sums, removes the former
//   and writes the latter. Of two processes that fold the same rows, one writes and the other reads again. After a
//   crash either all of the fold is written or nothing.
//
// Workers fold about once a minute, `sweep` with each call, and `overview` if there are many lines. Each pass has
// bounded cost.
//
// Invariants
//   1. Every ended turn is counted once, in a line or in sums, at any time.
//   2. Rows of a newer release are not changed. A damaged sum is replaced: its numbers are lost, and later ones count.

import type { RuntimeContext } from "../drive/context.ts";
import type { Key, Query, Row } from "../rows/storage.ts";
import type { Rollup } from "../rows/values.ts";

import { RuntimeError } from "../../core/model/internal.ts";
import {
  addRollups,
  allTenants,
  fiveMinutes,
  forAllTenants,
  noRollup,
  oneHour,
  periodOf,
  rollupKey,
  tenantScope,
} from "../rows/rollup.ts";
import { readValue, writeValue } from "../rows/stored.ts";

/** How long sums are kept, in milliseconds: 90 days. */
export const keepMs = 90 * 86_400_000;
/** For how long sums of five minutes are kept before they are folded into hours, in milliseconds. */
export const fineMs = 25 * oneHour;

/** The most rows that one fold adds. */
const foldSize = 128;
/** The most folds of a pass. */
const maxFolds = 64;

/** A row to fold, with what it adds to the sums of each scope. */
type Source = {
  readonly table: "rollup_lines" | "rollups";
  readonly row: Row;
  readonly adds: readonly { readonly scope: string; readonly rollup: Rollup }[];
};

/** Rows to fold into the sums of one period. */
type Fold = { readonly length: number; readonly period: number; readonly sources: readonly Source[] };

/** What a pass works with. */
type FoldContext = {
  readonly storage: RuntimeContext["storage"];
  readonly clock: Pick<RuntimeContext["clock"], "now">;
};

/** Runs one pass: folds or removes the oldest rows, until none is left or `maxFolds` is reached. */
export async function foldRollups({ storage, clock }: FoldContext): Promise<void> {
  for (let count = 0; count < maxFolds; count += 1) {
    const now = clock.now();
    const [lines = [], fine = [], expired = [], expiredLines = []] = await storage.read([
      { table: "rollup_lines", prefix: [], after: now - keepMs - 1, limit: foldSize },
      fineQuery(now, foldSize),
      { table: "rollups", prefix: [oneHour], before: now - keepMs, limit: foldSize },
      { table: "rollup_lines", prefix: [], before: now - keepMs, limit: foldSize },
    ]);
    // Complete keys: a shorter prefix would lock more than these rows in some storages.
    const removals = [
      ...expired.map(({ key }) => ({ table: "rollups", prefix: key }) as const),
      ...expiredLines.map(({ key }) => ({ table: "rollup_lines", prefix: key }) as const),
    ];
    if (removals.length > 0) await storage.write({ checks: [], removals, puts: [], lasting: false });
    const folds = [foldOfLines(lines), foldOfFineSums(fine)].filter((fold) => fold !== null);
    for (const fold of folds) await write(storage, fold);
    if (folds.length === 0 && removals.length === 0) return;
  }
}

/** The sums of five minutes that are folded into hours: those of hours that have ended before `fineMs` ago. */
export function fineQuery(now: number, limit: number): Query {
  return { table: "rollups", prefix: [fiveMinutes], before: periodOf(now - fineMs, oneHour), limit };
}

/** Folds the lines of the first period among these; `null`: there are none. */
function foldOfLines(rows: readonly Row[]): Fold | null {
  const readableRows = rows.flatMap((row) => readable("rollup_lines", row));
  const period = Number(readableRows[0]?.row.key[0] ?? 0);
  const sources = readableRows
    .filter(({ row }) => row.key[0] === period)
    .map(({ row, rollup }): Source => {
      const tenant = String(row.key[1]);
      return {
        table: "rollup_lines",
        row,
        adds: [
          { scope: allTenants, rollup: forAllTenants(rollup, tenant) },
          { scope: tenantScope(tenant), rollup },
        ],
      };
    });
  return sources.length === 0 ? null : { length: fiveMinutes, period, sources };
}

/** Folds the sums of the first hour among these; `null`: there are none. */
function foldOfFineSums(rows: readonly Row[]): Fold | null {
  const readableRows = rows.flatMap((row) => readable("rollups", row));
  const period = periodOf(Number(readableRows[0]?.row.key[1] ?? 0), oneHour);
  const sources = readableRows
    .filter(({ row }) => periodOf(Number(row.key[1]), oneHour) === period)
    .map(({ row, rollup }): Source => {
      return { table: "rollups", row, adds: [{ scope: String(row.key[2]), rollup }] };
    });
  return sources.length === 0 ? null : { length: oneHour, period, sources };
}

/** Writes a fold. If another process has folded one of the rows meanwhile, nothing is written. */
async function write(storage: RuntimeContext["storage"], { length, period, sources }: Fold): Promise<void> {
  const added = new Map<string, Rollup[]>();
  for (const { scope, rollup } of sources.flatMap(({ adds }) => adds)) {
    added.set(scope, [...(added.get(scope) ?? []), rollup]);
  }
  const scopes = Array.from(added, ([scope, rollups]) => ({ key: rollupKey(length, period, scope), rollups }));
  const before = await storage.read(scopes.map(({ key }) => ({ table: "rollups", prefix: key }) as const));
  const sums = scopes.map(({ key, rollups }, index) => {
    const row = before[index]?.[0] ?? null;
    return { key, tag: row?.tag ?? null, rollup: addRollups([row === null ? noRollup : sumIn(row), ...rollups]) };
  });
  await storage.write({
    checks: [
      ...sums.map(({ key, tag }) => ({ table: "rollups", key, tag }) as const),
      ...sources.map(({ table, row }) => ({ table, key: row.key, tag: row.tag })),
    ],
    removals: sources.map(({ table, row }) => ({ table, prefix: row.key })),
    puts: sums.map(({ key, tag, rollup }) => {
      return { table: "rollups", key, tag: (tag ?? 0) + 1, value: writeValue("rollups", rollup) } as const;
    }),
  });
}

/** The sums of a row that is replaced. Rejects if a newer release wrote it. */
function sumIn(row: Row): Rollup {
  try {
    return readValue("rollups", row);
  } catch (error) {
    if (error instanceof RuntimeError && error.reason === "corrupt_row") return noRollup;
    throw error;
  }
}

/** A row with its value; empty if this release cannot read it. One such row must not prevent the sums of others. */
export function readable(
  table: "rollups" | "rollup_lines",
  row: Row,
): readonly { readonly row: Row & { readonly key: Key }; readonly rollup: Rollup }[] {
  try {
    return [{ row, rollup: readValue(table, row) }];
  } catch (error) {
    if (error instanceof RuntimeError && ["corrupt_row", "newer_schema"].includes(error.reason)) return [];
    throw error;
  }
}
