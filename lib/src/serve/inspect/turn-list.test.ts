// The list of the turns of a session.

import type { Page, TurnSummaryView } from "../../core/model/internal.ts";

import { inspection } from "everturn/http";
import { describe, expect, test } from "vitest";

import { call, counting, gate, says, thinker, World } from "../../../test/runtime/world.ts";

describe("turns", () => {
  test("lists ended, waiting and open turns, newest first", async () => {
    const world = new World();
    const held = gate();
    const pay = counting("pay", { needsApproval: true });
    const hold = counting("hold", { handler: () => held.wait() });
    const model = thinker(({ messages }) => {
      const last = messages.at(-1);
      if (last?.role !== "user") return says("Done.");
      return last.content === "pay" ? [call("pay")] : last.content === "hold" ? [call("hold")] : says("Hello.");
    });
    const main = world.process(world.engine(model, { tools: [pay.tool, hold.tool] }));
    const turns: (string | null)[] = [];
    const run = async (turn: { readonly turnId: string | null; readonly result: Promise<unknown> }) => {
      turns.unshift(turn.turnId);
      await turn.result;
      await world.clock.advance(5);
    };
    await run(await main.start("hi", { id: "s1" }));
    await run(await main.reply("s1", "pay"));
    await run(await main.decide("s1", "pay", { type: "approve" }));
    const { turnId } = await main.reply("s1", "hold");
    turns.unshift(turnId);
    await held.reached;
    const { items, next } = await inspection(main.source).turns("s1");
    expect(next).toBe(null);
    expect(items.map((item) => item.turnId)).toEqual(turns);
    expect(items.map(({ status, base, end, verb, engine }) => [verb, engine, status, base, end?.haltedReason])).toEqual(
      [
        ["chat", "default", "running", 7, undefined],
        ["chat", "default", "ended", 4, "completed"],
        ["chat", "default", "ended", 3, "approval"],
        ["chat", "default", "ended", 1, "completed"],
      ],
    );
    expect((await main.get("s1"))?.openTurn?.base).toBe(items[0]?.base);
  });

  test("has pages, also of turns that were accepted in the same millisecond", async () => {
    const world = new World();
    const main = world.process(world.engine(thinker(() => says("Done."))));
    const turns = [];
    const first = await main.start("hi", { id: "s1" });
    await first.result;
    turns.push(first.turnId);
    for (let index = 0; index < 4; index += 1) {
      const turn = await main.reply("s1", `and ${index}`);
      await turn.result;
      turns.push(turn.turnId);
    }
    const found: string[] = [];
    let after: string | null = null;
    do {
      const page: Page<TurnSummaryView> = await inspection(main.source).turns("s1", {
        limit: 2,
        ...(after === null ? {} : { after }),
      });
      found.push(...page.items.map(({ turnId }) => turnId));
      after = page.next;
    } while (after !== null);
    expect(found.toSorted()).toEqual(turns.toSorted());
  });

  test("a fork has no turns of the original", async () => {
    const world = new World();
    const main = world.process(world.engine(thinker(() => says("Done."))));
    await (
      await main.start("hi", { id: "s1" })
    ).result;
    await main.fork("s1", { id: "s2" });
    expect((await inspection(main.source).turns("s2")).items).toEqual([]);
  });

  test("rejects an unknown session and an invalid cursor", async () => {
    const world = new World();
    const main = world.process(world.engine(thinker(() => says("Done."))));
    await expect(inspection(main.source).turns("none")).rejects.toMatchObject({ reason: "not_found" });
    await (
      await main.start("hi", { id: "s1" })
    ).result;
    await expect(inspection(main.source).turns("s1", { after: "x" })).rejects.toMatchObject({ path: ["after"] });
    await expect(inspection(main.source).turns("s1", { limit: 0 })).rejects.toMatchObject({ path: ["limit"] });
  });
});
