// `overview`: sums over the turns that ended in a period, from the rollup tables. The cost depends on the length of the
// period, not on the number of turns. The part of a period that is in the future is not read, so the most queries are
// those of `fineMs` in five minutes and of `keepMs` in hours: about 2,500.
//
// One read answers it from one snapshot: the lines that are not folded yet, and the rows of every period of the scope,
// by key. If there are more lines than `maxLines`, they are folded first. Under a load that adds lines faster than they
// are folded, the newest ones may be missing.

import type { Overview } from "../../core/model/internal.ts";
import type { Query, Rollup } from "../../durable/internal.ts";
import type { InspectionContext } from "./context.ts";

import { MisuseError } from "../../core/model/internal.ts";
import {
  addRollups,
  allTenants as allScope,
  fineMs,
  fineQuery,
  fiveMinutes,
  foldRollups,
  forAllTenants,
  keepMs,
  oneHour,
  periodOf,
  readable,
  rollupKey,
  sumView,
  tenantScope,
  toolView,
  totalOf,
} from "../../durable/internal.ts";

/** Options of `overview` of an {@link Inspection}: the period, and whose turns are counted. */
export type OverviewOptions = {
  /**
   * The beginning of the period, in milliseconds since 1970-01-01 UTC. Default: 24 hours before `until`. At most 90
   * days before it.
   */
  readonly from?: number;
  /** The end of the period, in milliseconds. Default: now. */
  readonly until?: number;
  /** `true`: the turns of all tenants, for operators. Default: those of the tenant of the reader. */
  readonly allTenants?: boolean;
};

/** The most lines that are added up without folding them. */
const maxLines = 256;
/** How often lines are folded before the sums are read as they are. */
const maxPasses = 8;

const day = 86_400_000;

/** Sums up the turns of a period. */
export async function overview(context: InspectionContext, options: OverviewOptions = {}): Promise<Overview> {
  const { storage, clock, tenant } = context;
  const now = clock.now();
  // The period does not contain its end: a turn that has ended in this millisecond counts.
  const { until: end = now + 1, allTenants = false } = options;
  const { from: begin = Math.max(0, end - day) } = options;
  if (!Number.isSafeInteger(begin) || !Number.isSafeInteger(end) || begin < 0 || begin >= end || end - begin > keepMs) {
    throw new MisuseError(
      "invalid_argument",
      "overview: from and until must be whole numbers of milliseconds since 1970, from before until, and at most 90 days apart",
      { path: ["from"] },
    );
  }
  const bucketMs = bucketOf(begin, end, now);
  const [from, until] = [periodOf(begin, bucketMs), periodOf(end + bucketMs - 1, bucketMs)];
  const scope = allTenants ? allScope : tenantScope(tenant);
  // Sums of five minutes are folded into hours when they are older than `fineMs`.
  const fineFrom = Math.max(from, periodOf(now - fineMs, oneHour));
  const queries: readonly Query[] = [
    ...periods(fineFrom, Math.min(until, now + 1), fiveMinutes),
    ...periods(periodOf(from, oneHour), Math.min(until, now + 1), oneHour),
  ].map(({ length, period }) => ({ table: "rollups", prefix: rollupKey(length, period, scope) }));
  for (let pass = 0; ; pass += 1) {
    const [lines = [], unfolded = [], ...sums] = await storage.read([
      { table: "rollup_lines", prefix: [], limit: maxLines + 1 },
      fineQuery(now, 1),
      ...queries,
    ]);
    if (pass < maxPasses && (lines.length > maxLines || unfolded.length > 0)) {
      await foldRollups(context);
      continue;
    }
    const rows = [
      ...lines
        .flatMap((row) => readable("rollup_lines", row))
        .filter(({ row }) => allTenants || row.key[1] === tenant)
        .map(({ row, rollup }) => ({ period: Number(row.key[0]), rollup: forAllTenants(rollup, String(row.key[1])) })),
      ...sums
        .flat()
        .flatMap((row) => readable("rollups", row))
        .map(({ row, rollup }) => ({ period: Number(row.key[1]), rollup })),
    ];
    const inPeriod = rows.filter(({ period }) => period >= from && period < until);
    return viewOf(inPeriod, { from, until, bucketMs, tenant: allTenants ? null : tenant });
  }
}

/** The length of the buckets: about a hundred in a period, and no shorter than the stored ones. */
function bucketOf(from: number, until: number, now: number): number {
  const length = until - from;
  const isFine = from >= now - fineMs + oneHour;
  if (isFine && length <= 8 * oneHour) return fiveMinutes;
  if (isFine) return 3 * fiveMinutes;
  if (length <= 7 * day) return oneHour;
  return length <= 31 * day ? 6 * oneHour : day;
}

/** The periods of a length from one time to another. */
function periods(
  from: number,
  until: number,
  length: number,
): readonly { readonly length: number; readonly period: number }[] {
  const count = Math.max(0, Math.ceil((until - from) / length));
  return Array.from({ length: count }, (_, index) => ({ length, period: from + index * length }));
}

/**
 * Adds up the rows by bucket, engine, tenant and tool. `tenant`: the only tenant; `null`: the rows are those of all
 * tenants.
 */
function viewOf(
  rows: readonly { readonly period: number; readonly rollup: Rollup }[],
  { from, until, bucketMs, tenant }: Pick<Overview, "from" | "until" | "bucketMs"> & { readonly tenant: string | null },
): Overview {
  const byBucket = new Map<number, Rollup[]>();
  for (const { period, rollup } of rows) {
    const at = periodOf(period, bucketMs);
    byBucket.set(at, [...(byBucket.get(at) ?? []), rollup]);
  }
  const sum = addRollups(rows.map(({ rollup }) => rollup));
  const total = totalOf(sum);
  const tenants = tenant === null ? sum.tenants : total.turns === 0 ? [] : [{ ...total, name: tenant }];
  return {
    from,
    until,
    bucketMs,
    buckets: Array.from(byBucket)
      .toSorted(([left], [right]) => left - right)
      .map(([at, rollups]) => ({ at, ...sumView(totalOf(addRollups(rollups))) })),
    total: sumView(total),
    engines: sum.engines.map((engine) => ({ name: engine.name, ...sumView(engine) })),
    tenants: tenants.map((one) => ({ name: one.name, ...sumView(one) })),
    tools: sum.tools.map(toolView),
  };
}
