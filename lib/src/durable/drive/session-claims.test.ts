// How many writes a process sends from the claim of a due turn to its first effect and its first commit.

import type { Write } from "../../../test/runtime/world.ts";

import { expect, test } from "vitest";

import { call, counting, gate, says, thinker, worker, World } from "../../../test/runtime/world.ts";

/** The tables of each write. */
const tablesOf = (writes: readonly Write[]): readonly string[] =>
  writes.map(({ batch }) => [...new Set(batch.puts.map(({ table }) => table))].toSorted().join(" "));

test("a due turn is claimed with one write before its first model call, and its first commit is the next write", async () => {
  const world = new World();
  const before: (readonly string[])[] = [];
  const model = thinker(() => {
    before.push(tablesOf(world.writes.slice(accepted)));
    return says("Done.");
  });
  const of = world.engine(model);
  const { turnId } = await world.process(of, { drive: false }).start("hi", { id: "s1" });
  const accepted = world.writes.length;
  const second = world.process(of);
  expect(await second.recover()).toMatchObject({ pickedUp: 1 });
  expect(await second.attach("s1", turnId).result).toMatchObject({ text: "Done." });
  expect(before).toEqual([["leases open work"]]);
  expect(tablesOf(world.writes.slice(accepted))[1]).toContain("journal");
});

test("a turn that is taken over is claimed and counted with one write before its open effect is repeated", async () => {
  const world = new World();
  const first = gate();
  const before: (readonly string[])[] = [];
  let crashed = 0;
  const look = counting("look", {
    replay: "safe",
    handler: () => {
      if (crashed === 0) return first.wait();
      before.push(tablesOf(world.writes.slice(crashed)));
      return "seen";
    },
  });
  const of = world.engine(worker("look"), { tools: [look.tool] });
  const dead = world.process(of);
  const { turnId } = await dead.start("hi", { id: "s1" });
  await first.reached;
  dead.kill();
  await world.leaseRunsOut();
  crashed = world.writes.length;
  const second = world.process(of);
  expect(await second.recover()).toMatchObject({ pickedUp: 1 });
  expect(await second.attach("s1", turnId).result).toMatchObject({ text: "Done." });
  expect(before).toEqual([["leases open turns work"]]);
});

test("the start mark of an approved call is written under the claim, before the tool runs", async () => {
  const world = new World();
  const before: (readonly string[])[] = [];
  let approved = 0;
  const pay = counting("pay", {
    needsApproval: true,
    handler: () => {
      before.push(tablesOf(world.writes.slice(approved)));
      return "paid";
    },
  });
  const model = thinker(({ messages }) =>
    messages.some(({ role }) => role === "tool") ? says("Done.") : [call("pay", {}, "c1")],
  );
  const of = world.engine(model, { tools: [pay.tool] });
  const first = world.process(of);
  await (
    await first.start("hi", { id: "s1" })
  ).result;
  const accepting = world.process(of, { drive: false });
  const { turnId } = await accepting.decide("s1", "c1", { type: "approve" });
  approved = world.writes.length;
  expect(await first.recover()).toMatchObject({ pickedUp: 1 });
  expect(await first.attach("s1", turnId).result).toMatchObject({ text: "Done." });
  // Two writes: the mark follows from the loaded turn, and the claim is written before the turn is loaded.
  expect(before).toEqual([["leases open work", expect.stringContaining("records")]]);
});
