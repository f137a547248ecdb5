// The simulator: seeds of the unchanged runtime have no violation, a run depends on its seed only, and broken rules are found.

import { memoryStorage } from "everturn/host/memory";
import { simulate } from "everturn/testing";
import { describe, expect, test } from "vitest";

import { mutations } from "../../../test/simulator/mutations.ts";

const storage: Parameters<typeof simulate>[0]["storage"] = (clock) => memoryStorage({ clock });

// No real time passes in a run; the limit is for machines under load.
describe("simulate", { timeout: 120_000 }, () => {
  test("finds no violation in the runtime", async () => {
    const answers = new Set<string>();
    for (let seed = 1; seed <= 20; seed += 1) {
      const report = await simulate({ seed, storage });
      expect(report.violations, `seed ${seed}`).toEqual([]);
      for (const answer of Object.keys(report.answers)) answers.add(answer.split(" ")[0] ?? "");
    }
    expect(answers.size).toBeGreaterThanOrEqual(10);
  });

  test("runs the same seed in the same way, event by event", async () => {
    for (const seed of [2, 3]) {
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
      const report = await simulate({ seed, storage, wrap });
      if (report.violations.length === 0) continue;
      const small = await simulate({ seed, storage, wrap, shrink: true });
      expect(small.violations[0]).toMatch(/^(H3|Q1)/);
      expect(small.script.length).toBeLessThan(report.script.length);
      return;
    }
  });
});
