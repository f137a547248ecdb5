// Input that a turn has claimed cannot be withdrawn, also while the process that drives the turn claims its expired
// lease again (Q11, Q18).

import type { Batch } from "../internal.ts";

import { describe, expect, test } from "vitest";

import { counting, gate, talk, worker, World } from "../../../test/runtime/world.ts";
import { epochOf } from "../rows/lease.ts";

/** Does this batch claim inputs for a checkpoint? */
const claimsInput = ({ puts }: Batch): boolean =>
  puts.some(({ table, value }) => table === "inbox" && value.includes('"claimed"'));

/** Does this batch record that a checkpoint delivered inputs? */
const deliversInput = ({ removals }: Batch): boolean => removals.some(({ table }) => table === "inbox");

describe("withdraw while the holder of an expired lease claims the next epoch", () => {
  test.each([
    ["the delivery is written", deliversInput],
    ["the input is claimed", claimsInput],
  ])("does not cancel the input, if the process was paused when %s", async (_, isPausePoint) => {
    const world = new World();
    const inTool = gate();
    const pause = gate();
    const delivery = gate();
    const look = counting("look", { replay: "safe", handler: () => inTool.wait() });
    const of = world.engine(worker("look"), { tools: [look.tool] });
    let isPaused = false;
    let isResumed = false;
    const first = world.process(of, {
      holds: ({ batch }) => {
        isPaused ||= isPausePoint(batch);
        if (!isPaused) return null;
        // Renewals wait too, so that the lease expires.
        if (!isResumed) return pause.wait();
        return deliversInput(batch) ? delivery.wait() : null;
      },
    });
    const turn = await first.start("hi", { id: "s1" });
    await inTool.reached;
    await first.steer("s1", "stop", { id: "i1" });
    inTool.open();
    await pause.reached;
    await world.clock.advance(31_000);
    isResumed = true;
    pause.open();
    await delivery.reached;
    const second = world.process(of, { drive: false });
    expect(await second.withdraw("s1", "i1")).toBe("already_claimed");
    delivery.open();
    await turn.result;
    expect(await talk(first)).toContain("user stop");
    expect(await second.withdraw("s1", "i1")).toBe("already_taken");
    const [lease] = await world.rows("leases", ["", "s1"]);
    expect(epochOf(lease?.tag ?? 0)).toBe(2);
  });
});
