// Folding is exact: whatever the order of ends, folds and crashes, every turn is counted once.

import type { HostStorage } from "../rows/storage.ts";

import { memoryStorage } from "everturn/runtime";
import * as fc from "fast-check";
import { expect, test } from "vitest";

import { histogramOf } from "../rows/histogram.ts";
import {
  addRollups,
  allTenants,
  fiveMinutes,
  forAllTenants,
  linePut,
  noRollup,
  noSum,
  noToolSum,
  oneHour,
  oneOutcome,
  tenantScope,
} from "../rows/rollup.ts";
import { readValue } from "../rows/stored.ts";
import { foldRollups, keepMs } from "./fold-rollups.ts";

const day = 86_400_000;

/** A line of a turn that ended at a time. */
function lineOf(seed: number) {
  const sum = {
    ...noSum(`engine ${seed % 3}`),
    turns: 1,
    outcomes: oneOutcome(seed % 2 === 0 ? "completed" : "failed"),
  };
  return {
    engines: [{ ...sum, inputTokens: seed, nanoCost: seed * 7, duration: histogramOf(seed * 13) }],
    tools: seed % 4 === 0 ? [{ ...noToolSum("search"), calls: 2, failed: 1, duration: histogramOf(seed) }] : [],
    tenants: [],
  };
}

/** The sums of all stored rows of a scope, and of the lines that are not folded. */
async function storedSums(storage: HostStorage, tenant: string | null) {
  const [sums = [], lines = []] = await storage.read([
    { table: "rollups", prefix: [] },
    { table: "rollup_lines", prefix: [] },
  ]);
  const scope = tenant === null ? allTenants : tenantScope(tenant);
  return addRollups([
    ...sums.filter(({ key }) => key[2] === scope).map((row) => readValue("rollups", row)),
    ...lines
      .filter(({ key }) => tenant === null || key[1] === tenant)
      .map((row) => {
        const rollup = readValue("rollup_lines", row);
        return tenant === null ? forAllTenants(rollup, String(row.key[1])) : rollup;
      }),
  ]);
}

type Action =
  | { readonly type: "end"; readonly tenant: string; readonly seed: number }
  | { readonly type: "fold" }
  | { readonly type: "wait"; readonly ms: number };

const actions = fc.array(
  fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        type: fc.constant("end" as const),
        tenant: fc.constantFrom("", "a", "b"),
        seed: fc.nat(500),
      }),
    },
    { weight: 3, arbitrary: fc.record({ type: fc.constant("fold" as const) }) },
    {
      weight: 1,
      arbitrary: fc.record({
        type: fc.constant("wait" as const),
        ms: fc.constantFrom(1, fiveMinutes, oneHour, 2 * day),
      }),
    },
  ),
  { maxLength: 40 },
);

test("any order of ends, folds and crashes gives the same sums", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.scheduler(),
      actions,
      fc.infiniteStream(fc.nat(9)),
      async (scheduler, plan: Action[], faults) => {
        const memory = memoryStorage();
        // Every read and write waits for the scheduler, so folds overlap in any order. Some writes fail before or after
        // they were applied.
        const storage: HostStorage = {
          ...memory,
          read: scheduler.scheduleFunction(async (queries: Parameters<HostStorage["read"]>[0]) => memory.read(queries)),
          write: scheduler.scheduleFunction(async (batch: Parameters<HostStorage["write"]>[0]) => {
            const fault = faults.next().value;
            if (fault === 0) throw new Error("the process crashed before the write");
            const written = await memory.write(batch);
            if (fault === 1) throw new Error("the process crashed after the write");
            return written;
          }),
        };
        let now = 100 * day;
        const clock = { now: () => now };
        const folding: Promise<void>[] = [];
        const ended: { readonly tenant: string; readonly seed: number }[] = [];
        const act = async (action: Action) => {
          if (action.type === "wait") now += action.ms;
          if (action.type === "fold") folding.push(foldRollups({ storage, clock }).catch(() => undefined));
          if (action.type !== "end") return;
          const { tenant, seed } = action;
          ended.push({ tenant, seed });
          const put = linePut({ tenant, session: `s${ended.length}` }, 1, lineOf(seed), now);
          await memory.write({ checks: [], removals: [], puts: [put] });
        };
        scheduler.scheduleSequence(plan.map((action) => ({ label: action.type, builder: () => act(action) })));
        await scheduler.waitIdle();
        await Promise.all(folding);
        const check = async () => {
          for (const tenant of [null, "", "a", "b"]) {
            const lines = ended
              .filter((turn) => tenant === null || turn.tenant === tenant)
              .map((turn) => (tenant === null ? forAllTenants(lineOf(turn.seed), turn.tenant) : lineOf(turn.seed)));
            expect(await storedSums(memory, tenant)).toEqual(addRollups([noRollup, ...lines]));
          }
        };
        await check();
        await foldRollups({ storage: memory, clock });
        await check();
        expect(await memory.read([{ table: "rollup_lines", prefix: [] }])).toEqual([[]]);
      },
    ),
    { numRuns: 60 },
  );
});

test("sums of five minutes become sums of hours after a day, and are removed after 90 days", async () => {
  const storage = memoryStorage();
  let now = 100 * day;
  const clock = { now: () => now };
  const put = (session: string) => linePut({ tenant: "a", session }, 1, lineOf(4), now);
  await storage.write({ checks: [], removals: [], puts: [put("s1")] });
  now += fiveMinutes;
  await storage.write({ checks: [], removals: [], puts: [put("s2")] });
  await foldRollups({ storage, clock });
  const lengths = async () => {
    const [rows = []] = await storage.read([{ table: "rollups", prefix: [] }]);
    return rows.filter(({ key }) => key[2] === allTenants).map(({ key, tag }) => [...key.slice(0, 2), tag]);
  };
  expect(await lengths()).toEqual([
    [fiveMinutes, 100 * day, 1],
    [fiveMinutes, 100 * day + fiveMinutes, 1],
  ]);
  now += 2 * day;
  await foldRollups({ storage, clock });
  expect(await lengths()).toEqual([[oneHour, 100 * day, 1]]);
  // A line of a process whose clock was late is added to the hour.
  await storage.write({
    checks: [],
    removals: [],
    puts: [linePut({ tenant: "a", session: "s3" }, 1, lineOf(4), 100 * day)],
  });
  await foldRollups({ storage, clock });
  expect(await lengths()).toEqual([[oneHour, 100 * day, 2]]);
  expect((await storedSums(storage, "a")).engines).toMatchObject([{ turns: 3 }]);
  now += keepMs;
  await foldRollups({ storage, clock });
  expect(await storage.read([{ table: "rollups", prefix: [] }])).toEqual([[]]);
});

test("rows of a newer release are left as they are, and a damaged sum is replaced", async () => {
  const storage = memoryStorage();
  const now = 100 * day;
  const clock = { now: () => now };
  const good = linePut({ tenant: "", session: "s1" }, 1, lineOf(2), now);
  const newer = { ...good, key: [...good.key.slice(0, 2), "newer"], value: '{"version":99,"data":{}}' };
  const damaged = { table: "rollups", key: [fiveMinutes, now, allTenants], tag: 3, value: "{" } as const;
  await storage.write({ checks: [], removals: [], puts: [good, newer, damaged] });
  await foldRollups({ storage, clock });
  const [lines = [], sums = []] = await storage.read([
    { table: "rollup_lines", prefix: [] },
    { table: "rollups", prefix: damaged.key },
  ]);
  expect(lines.map(({ key }) => key[2])).toEqual(["newer"]);
  expect(sums[0]?.tag).toBe(4);
  expect(sums.map((row) => readValue("rollups", row).engines[0]?.turns)).toEqual([1]);
});
