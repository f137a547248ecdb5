// The simulator: seeds of the unchanged runtime have no violation, a run depends on its seed only, and broken rules are
// found. Some seeds also run on a real SQLite file; `durable/host/postgres/postgres.test.ts` has some on a real
// Postgres server. `npm run test:long` runs many on each.

import { readFileSync } from "node:fs";
import { join } from "node:path";

import { memoryStorage } from "everturn/runtime";
import { simulate } from "everturn/testing";
import { describe, expect, test } from "vitest";

import { mutations } from "../../../test/simulator/mutations.ts";
import { simulateAsInMemory, simulatedStorage } from "../../../test/simulator/storages.ts";

const storage: Parameters<typeof simulate>[0]["storage"] = (clock) => memoryStorage({ clock });

/** Without its type: a caller may have no compiler. */
const unknownFault: object = { extraFaults: ["flood"] };

// No real time passes in a run; the limit is for machines under load.
describe("[lash 96] simulate", { timeout: 120_000 }, () => {
  test("finds no violation in the runtime", async () => {
    const answers = new Set<string>();
    for (let seed = 1; seed <= 10; seed += 1) {
      const report = await simulate({ seed, storage });
      expect(report.violations, `seed ${seed}`).toEqual([]);
      expect(report.counts["verbs"], `seed ${seed}`).toBeGreaterThanOrEqual(10);
      for (const answer of Object.keys(report.answers)) answers.add(answer.split(" ")[0] ?? "");
    }
    expect(answers.size).toBeGreaterThanOrEqual(10);
  });

  // A storage clock that was set back and not sampled yet; a write under a shorter lease that the network repeats; two
  // claims of one suspect; a storage clock that is set back between the read and the claim of a lease; a shorter lease
  // that is written last.
  test.each([7959, 23133, 41119, 42661, 47589, 55145, 59162, 63943, 100906, 111402])(
    "finds no violation in seed %i",
    async (seed) => {
      expect((await simulate({ seed, storage })).violations).toEqual([]);
    },
  );

  test("replaces old messages by frames in some seeds", async () => {
    const { violations, counts } = await simulate({ seed: 18, storage });
    expect(violations).toEqual([]);
    expect(counts["frames"]).toBeGreaterThan(0);
  });

  test("undoes frames in some seeds", async () => {
    for (const seed of [21, 22]) {
      const { violations, counts } = await simulate({ seed, storage });
      expect(violations, `seed ${seed}`).toEqual([]);
      expect(counts["undone"], `seed ${seed}`).toBeGreaterThan(0);
    }
  });

  test.each([
    [{ seed: Number.NaN }, "seed must be a whole number"],
    [{ seed: 1.5 }, "seed must be a whole number"],
    [{ operations: 9 }, "operations must be a whole number of 10 or more"],
    [{ processes: 3 }, "processes is unknown"],
    [unknownFault, "extraFaults must be a list of failover and far_clocks"],
  ])("refuses the options %j", async (options, message) => {
    await expect(simulate({ seed: 1, storage, ...options })).rejects.toThrow(`simulate: ${message}`);
  });

  test("runs a seed on SQLite as in memory", async () => {
    const { open, close } = simulatedStorage("sqlite");
    try {
      for (const seed of [11, 12, 13]) {
        expect((await simulateAsInMemory({ seed, storage: open })).violations, `seed ${seed}`).toEqual([]);
      }
    } finally {
      await close();
    }
  });

  test("runs the same seed in the same way, event by event", async () => {
    // Seed 55 has turns that wait for the backoff of takeovers.
    for (const seed of [2, 3, 55]) {
      const [one, other] = [
        await simulate({ seed, storage, transcript: true }),
        await simulate({ seed, storage, transcript: true }),
      ];
      expect(one.transcript?.length).toBeGreaterThan(50);
      expect(one.transcript).toEqual(other.transcript);
      expect(one.counts).toEqual(other.counts);
    }
  });

  test("finds a storage that ignores the fence, and shrinks the script of the run", async () => {
    const mutation = mutations.find(({ name }) => name === "no-fence");
    const wrap = mutation !== undefined && "wrap" in mutation ? mutation.wrap : undefined;
    if (wrap === undefined) throw new Error("the mutation is missing");
    for (let seed = 1; ; seed += 1) {
      const report = await simulate({ seed, storage, wrap, operations: 10 });
      if (report.violations.length === 0) continue;
      const small = await simulate({ seed, storage, wrap, operations: 10, shrink: true });
      expect(small.violations[0]?.split(":")[0]).toBe(report.violations[0]?.split(":")[0]);
      expect(small.script.length).toBeLessThan(report.script.length);
      return;
    }
  });

  test("has mutations that match the sources", () => {
    for (const mutation of mutations) {
      if (!("source" in mutation)) continue;
      const { file, replacements } = mutation.source;
      const text = readFileSync(join(import.meta.dirname, "../..", file), "utf8");
      for (const [from] of replacements) expect(text.split(from), `${mutation.name}: ${from}`).toHaveLength(2);
    }
    expect(mutations.length).toBeGreaterThanOrEqual(45);
  });
});
