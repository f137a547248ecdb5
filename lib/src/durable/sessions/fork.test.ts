// Forks of sessions.

import { inspection } from "everturn/http";
import { describe, expect, test } from "vitest";

import { awaitingApproval } from "../../../test/runtime/awaiting-approval.ts";
import { counting, gate, worker, World } from "../../../test/runtime/world.ts";

describe("forks", () => {
  test("name their origin, in lists, after later turns and in forks of forks", async () => {
    const world = new World();
    const of = world.process(world.engine(worker()));
    await (
      await of.start("hi", { id: "s1" })
    ).result;
    await of.fork("s1", { id: "s2", at: 1 });
    await (
      await of.continue("s2")
    ).result;
    await of.fork("s2", { id: "s3" });
    const origins = async (id: string) => (await of.get(id, { messages: 0 }))?.forkedFrom;
    expect([await origins("s1"), await origins("s2"), await origins("s3")]).toEqual([
      null,
      { sessionId: "s1", at: 1 },
      { sessionId: "s2", at: 2 },
    ]);
    const { items } = await of.list();
    expect(items.map(({ id, forkedFrom }) => [id, forkedFrom?.sessionId ?? null]).toSorted()).toEqual([
      ["s1", null],
      ["s2", "s1"],
      ["s3", "s2"],
    ]);
    const metadata = { forkedFrom: "elsewhere" };
    await (
      await of.start("hi", { id: "s4", metadata })
    ).result;
    expect(await origins("s4")).toBeNull();
  });

  test("a fork made while an approved call runs needs an approval of its own, and its call another idempotency key", async () => {
    const world = new World();
    const held = gate();
    const keys: string[] = [];
    const pay = counting("pay", {
      needsApproval: true,
      handler: async (_, { idempotencyKey }) => {
        keys.push(idempotencyKey);
        await held.wait();
        return "paid";
      },
    });
    const of = world.process(world.engine(worker("pay"), { tools: [pay.tool] }));
    await (
      await of.start("hi", { id: "s1" })
    ).result;
    const turn = await of.decide("s1", "c0", { type: "approve", by: "ada" });
    await held.reached;
    await of.fork("s1", { id: "s2" });
    const forked = (await of.get("s2"))?.session;
    expect(forked).toMatchObject({
      status: "awaiting_tools",
      pendingToolCalls: [{ id: "c0", decision: null, idempotencyKey: null }],
    });
    held.open();
    await turn.result;
    await (
      await of.decide("s2", "c0", { type: "approve" })
    ).result;
    expect(new Set(keys).size).toBe(2);
  });

  test("a fork made after an approved call has returned contains its result", async () => {
    const world = new World();
    const held = gate();
    const pay = counting("pay", { needsApproval: true });
    const slow = counting("slow", { handler: () => held.wait() });
    const of = world.process(world.engine(worker("pay", "slow"), { tools: [pay.tool, slow.tool] }));
    await (
      await of.start("hi", { id: "s1" })
    ).result;
    const turn = await of.decide("s1", "c0", { type: "approve" });
    await held.reached;
    await of.fork("s1", { id: "s2" });
    const forked = (await of.get("s2"))?.session;
    expect(forked).toMatchObject({ status: "idle", pendingToolCalls: [] });
    expect(forked?.thread.messages.map(({ role }) => role)).toEqual(["user", "assistant", "tool"]);
    held.open();
    await turn.result;
  });

  test("a fork can reuse the id of a deleted session, and does not export turns of its origin", async () => {
    const { of } = await awaitingApproval();
    await of.fork("s1", { id: "s2" });
    await expect(of.fork("s1", { id: "s2" })).rejects.toMatchObject({ reason: "conflict" });
    await expect(inspection(of.source).export("s2")).rejects.toMatchObject({ reason: "not_found" });
    await of.delete("s2");
    await of.fork("s1", { id: "s2" });
    expect((await (await of.decide("s2", "c0", { type: "approve" })).result).text).toBe("Done.");
    await inspection(of.source).export("s2");
    // A fork of a fork continues the pending call too.
    await of.fork("s1", { id: "s3" });
    await of.fork("s3", { id: "s4" });
    expect((await (await of.decide("s4", "c0", { type: "approve" })).result).text).toBe("Done.");
  });
});
