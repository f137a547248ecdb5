// Limits that hold without any setting, in turns of the runtime: tool calls that run at once, calls of one reply, and
// budgets when a provider reports no usage.

import type { Usage } from "everturn";

import { describe, expect, test } from "vitest";

import { eventually } from "../../test/eventually.ts";
import { call, counting, priced, says, thinker, World } from "../../test/runtime/world.ts";

/** A reply with this many calls of `busy`. */
const manyCalls = (count: number) => Array.from({ length: count }, (_, index) => call("busy", {}, `c${index}`));

describe("tool calls of a reply", () => {
  test("run 16 at once by default; the 17th starts when one of them has ended", async () => {
    const world = new World();
    const ends: (() => void)[] = [];
    const busy = counting("busy", { handler: () => new Promise<string>((resolve) => ends.push(() => resolve("ok"))) });
    const model = thinker((_, count) => (count === 1 ? manyCalls(17) : says("Done.")));
    const sessions = world.process(world.engine(model, { tools: [busy.tool] }));
    const { result } = await sessions.start("hi", { id: "s1" });
    await eventually(() => expect(busy.runs).toHaveLength(16));
    await world.clock.advance(100);
    expect(busy.runs).toHaveLength(16);
    ends[0]?.();
    await eventually(() => expect(busy.runs).toHaveLength(17));
    for (const end of ends) end();
    expect((await result).haltedReason).toBe("completed");
  });

  test("are at most 1,000: the turn fails, and no call runs", async () => {
    const world = new World();
    const busy = counting("busy");
    const model = thinker(() => manyCalls(5000));
    const sessions = world.process(world.engine(model, { tools: [busy.tool] }));
    const { result } = await sessions.start("hi", { id: "s1" });
    await world.clock.advance(1000);
    expect(await result).toMatchObject({
      haltedReason: "error",
      outcome: { failure: { reason: "malformed_response", code: "too_many_tool_calls" } },
    });
    expect(busy.runs).toEqual([]);
  });
});

describe("a budget of a turn", () => {
  const usages: readonly (readonly [string, Partial<Usage>])[] = [
    ["absent", {}],
    ["a negative number of tokens", { inputTokens: -1_000_000, outputTokens: -1_000_000 }],
    ["a negative total", { inputTokens: null, outputTokens: null, totalTokens: -5 }],
    ["a negative cost", { totalCost: -1000, inputCost: -500, outputCost: -500 }],
    ["not a number", { inputTokens: Number.NaN, outputTokens: Number.NaN, totalCost: Number.NaN }],
  ];
  const budgets = [{ tokens: 1000 }, { cost: 0.001 }, { steps: 3 }];

  test.each(usages.flatMap(([name, usage]) => budgets.map((budget) => [name, budget, usage] as const)))(
    "ends a turn whose usage is %s: %j",
    async (_, budget, usage) => {
      const world = new World();
      const busy = counting("busy");
      const model = thinker((__, count) => [call("busy", {}, `c${count}`)], usage);
      const agent = world.engine(model, { tools: [busy.tool], model: priced("m") });
      const { result } = await world.process(agent).start("hi", { id: "s1", budgets: budget, maxTurns: 50 });
      await world.clock.advance(60_000);
      const { haltedReason, steps } = await result;
      expect(["budget", "error"]).toContain(haltedReason);
      expect(steps).toBeLessThanOrEqual(3);
      expect(busy.runs.length).toBeLessThanOrEqual(3);
    },
  );
});
