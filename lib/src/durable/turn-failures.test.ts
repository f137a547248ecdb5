// `onTurnFailure`: reports every turn that this process drove without success.

import type { TurnFailure } from "everturn/runtime";

import { engine, fake } from "everturn";
import { expect, test } from "vitest";

import { counting, says, thinker, worker, World, writes } from "../../test/runtime/world.ts";

const broken = engine({
  adapter: fake({ script: [{ type: "error", reason: "authentication_failed", message: "wrong key" }] }),
  model: "fake:m",
});

test("reports a turn that ends with a failure, with tenant, session, turn and cause", async () => {
  const reports: TurnFailure[] = [];
  const world = new World();
  const sessions = world.process(broken, { onTurnFailure: (report) => reports.push(report) }).tenant("acme");
  const turn = await sessions.start("hi", { id: "s1" });
  expect(await turn.result).toMatchObject({ haltedReason: "error" });
  expect(reports).toEqual([
    {
      tenant: "acme",
      sessionId: "s1",
      turnId: turn.turnId,
      status: "failed",
      failure: expect.objectContaining({ reason: "authentication_failed", message: "wrong key" }),
      error: null,
    },
  ]);
});

/** Is this the write of the process with this number that adds journal rows? A database adds writes of its own. */
function isJournalWrite(number: number) {
  const writesJournal = writes("journal");
  let count = 0;
  return (write: Parameters<typeof writesJournal>[0]) => writesJournal(write) && (count += 1) === number;
}

test("reports a turn that is parked", async () => {
  const world = new World();
  const reports: TurnFailure[] = [];
  const look = counting("look", { replay: "safe" });
  const of = world.engine(worker("look"), { tools: [look.tool] });
  const first = world.process(of, { diesAfter: isJournalWrite(3) });
  const { turnId } = await first.start("hi", { id: "s1" });
  await first.died;
  await world.leaseRunsOut();
  const second = world.process(of, { maxTakeovers: 1, onTurnFailure: (report) => reports.push(report) });
  await second.recover();
  expect(reports).toMatchObject([
    { sessionId: "s1", turnId, status: "parked", failure: { reason: "takeover_limit" }, error: null },
  ]);
  // The operator ends the parked turn: its failure has been reported.
  await second.recover("s1");
  expect(reports).toHaveLength(1);
});

test("a step that is restarted twice names each effect once that may run again", async () => {
  const world = new World();
  const look = counting("look", { replay: "safe" });
  const of = world.engine(worker("look"), { tools: [look.tool] });
  const silent = { maxTakeovers: 1, onTurnFailure: () => undefined };
  const first = world.process(of, { diesAfter: isJournalWrite(3) });
  const { turnId } = await first.start("hi", { id: "s1" });
  await first.died;
  for (let round = 0; round < 2; round += 1) {
    await world.leaseRunsOut();
    await world.process(of, silent).recover();
    const restarted = await world.process(of, { ...silent, drive: false }).recover("s1", { from: "step" });
    expect(restarted.mayRunTwice).toEqual([`${turnId}/1/model`]);
    const dying = world.process(of, { ...silent, diesAfter: isJournalWrite(2) });
    void dying.recover().catch(() => undefined);
    await dying.died;
  }
});

test("reports a turn that is left because the storage fails, and not one that is handed over", async () => {
  const world = new World();
  const reports: TurnFailure[] = [];
  let isBroken = false;
  const look = counting("look", {
    replay: "safe",
    handler: () => {
      isBroken = true;
      return "seen";
    },
  });
  const of = world.engine(worker("look"), { tools: [look.tool] });
  const sessions = world.process(of, {
    refuses: () => (isBroken ? new Error("disk full") : null),
    onTurnFailure: (report) => reports.push(report),
  });
  const turn = await sessions.start("hi", { id: "s1" });
  await expect(turn.result).rejects.toThrow("disk full");
  expect(reports).toMatchObject([
    { sessionId: "s1", turnId: turn.turnId, status: "left", error: { message: "disk full" } },
  ]);

  const waiting = new World();
  const slow = waiting.engine(worker("look"), {
    tools: [counting("look", { handler: () => new Promise(() => {}) }).tool],
  });
  const closing = waiting.process(slow, { onTurnFailure: (report) => reports.push(report) });
  const left = await closing.start("hi", { id: "s2" });
  const refused = expect(left.result).rejects.toMatchObject({ reason: "lease_lost" });
  const closed = closing.close({ graceMs: 10 });
  await waiting.clock.advance(100);
  await closed;
  await refused;
  expect(reports).toHaveLength(1);
});

test("reports nothing for a turn that succeeds, and ignores an error of the function", async () => {
  const world = new World();
  const reports: TurnFailure[] = [];
  const fine = world.process(world.engine(thinker(() => says("Hello."))), {
    onTurnFailure: (report) => reports.push(report),
  });
  expect(await (await fine.start("hi")).result).toMatchObject({ text: "Hello." });
  expect(reports).toEqual([]);

  const throwing = world.process(broken, {
    onTurnFailure: () => {
      throw new Error("the log is full");
    },
  });
  expect(await (await throwing.start("hi")).result).toMatchObject({ haltedReason: "error" });
});
