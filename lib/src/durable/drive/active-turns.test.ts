// close: every session that this process holds or is about to hold is handed over within a bounded time.

import { describe, expect, test } from "vitest";

import { counting, gate, says, thinker, worker, World, writes } from "../../../test/runtime/world.ts";
import { RuntimeError } from "../../core/model/index.ts";

const busy = () => new RuntimeError("storage_busy", { message: "locked" });

/** Resolves to `"settled"` if the promise settles before the clock has advanced that far. */
async function within(world: World, work: Promise<unknown>, ms: number): Promise<"settled" | "late"> {
  const settled = work.then(
    () => "settled" as const,
    () => "settled" as const,
  );
  const late = world.clock.advance(ms).then(() => "late" as const);
  return Promise.race([settled, late]);
}

describe("close", () => {
  test("resolves a few seconds after the grace time although the storage stays busy", async () => {
    const world = new World();
    let isLocked = false;
    const look = counting("look", {
      replay: "safe",
      handler: () => {
        isLocked = true;
        return "seen";
      },
    });
    const of = world.engine(worker("look"), { tools: [look.tool] });
    const sessions = world.process(of, { refuses: () => (isLocked ? busy() : null) });
    const turn = await sessions.start("hi", { id: "s1" });
    const refused = expect(turn.result).rejects.toMatchObject({ reason: "lease_lost" });
    await world.clock.advance(100);
    await expect.poll(() => isLocked).toBe(true);
    expect(await within(world, sessions.close({ graceMs: 1000 }), 7000)).toBe("settled");
    await refused;
    isLocked = false;
    await world.leaseRunsOut();
    const second = world.process(of);
    expect(await second.recover()).toMatchObject({ pickedUp: 1 });
    expect(await second.attach("s1", turn.turnId).result).toMatchObject({ text: "Done." });
  });

  test("writes the result of a tool that ended in the grace time when the storage is free again", async () => {
    const world = new World();
    let isLocked = false;
    const look = counting("look", {
      handler: () => {
        isLocked = true;
        return "seen";
      },
    });
    const of = world.engine(worker("look"), { tools: [look.tool] });
    const sessions = world.process(of, { refuses: () => (isLocked ? busy() : null) });
    await sessions.start("hi", { id: "s1" });
    await world.clock.advance(100);
    await expect.poll(() => isLocked).toBe(true);
    const closed = sessions.close({ graceMs: 0 });
    await world.clock.advance(1000);
    isLocked = false;
    expect(await within(world, closed, 4000)).toBe("settled");
    const second = world.process(of);
    expect(await second.recover()).toMatchObject({ pickedUp: 1 });
    expect(await second.attach("s1").result).toMatchObject({ text: "Done." });
    expect(look.runs).toHaveLength(1);
  });

  test("does not wait for a storage that never answers", async () => {
    const world = new World();
    const never = gate();
    const of = world.engine(thinker(() => says("Done.")));
    const sessions = world.process(of, { holds: (write) => (writes("journal")(write) ? never.wait() : null) });
    await sessions.start("hi", { id: "s1" });
    await never.reached;
    expect(await within(world, sessions.close({ graceMs: 0 }), 7000)).toBe("settled");
  });

  test("hands over a turn whose acceptance is being written", async () => {
    const world = new World();
    const acceptance = gate();
    const of = world.engine(thinker(() => says("Done.")));
    const first = world.process(of, { holds: (write) => (writes("starts")(write) ? acceptance.wait() : null) });
    const starting = first.start("hi", { id: "s1" });
    await acceptance.reached;
    let isClosed = false;
    const closed = first.close({ graceMs: 1000 }).then(() => (isClosed = true));
    await world.clock.advance(10);
    expect(isClosed).toBe(false);
    acceptance.open();
    await closed;
    const turn = await starting;
    await expect(turn.result).rejects.toMatchObject({ reason: "lease_lost" });
    const second = world.process(of);
    expect(await second.recover()).toMatchObject({ pickedUp: 1 });
    expect(await second.attach("s1", turn.turnId).result).toMatchObject({ text: "Done." });
  });
});

describe("result of a turn that this process does not drive any more", () => {
  /** A process that drives one turn at a time, and is in the middle of one. */
  async function full() {
    const world = new World();
    const inModel = gate();
    const model = thinker(() => says("Done."));
    const of = world.engine({
      ...model,
      async *stream(request, options) {
        if (request.messages.some((message) => message.role === "user" && message.content === "slow")) {
          await inModel.wait();
        }
        yield* model.stream(request, options);
      },
    });
    const sessions = world.process(of, { maxActiveTurns: 1 });
    await sessions.start("slow", { id: "a" });
    await inModel.reached;
    return { world, of, sessions };
  }

  test("rejects when the process closes while the turn waits for a free place", async () => {
    const { world, of, sessions } = await full();
    const queued = await sessions.start("hi", { id: "b" });
    const refused = expect(queued.result).rejects.toMatchObject({ reason: "lease_lost" });
    const closed = sessions.close({ graceMs: 0 });
    await world.clock.advance(0);
    await closed;
    await refused;
    await expect(sessions.attach("b", queued.turnId).result).rejects.toMatchObject({ reason: "lease_lost" });
    const second = world.process(of);
    await second.recover();
    expect(await second.attach("b", queued.turnId).result).toMatchObject({ text: "Done." });
    // The turn was driven under a newer lease epoch, so the closed process reports its end.
    expect(await queued.result.catch(() => sessions.attach("b", queued.turnId).result)).toMatchObject({
      text: "Done.",
    });
  });

  test("rejects when the turn was accepted after the process was closed", async () => {
    const { world, of, sessions } = await full();
    const closed = sessions.close({ graceMs: 0 });
    await world.clock.advance(0);
    await closed;
    const later = await sessions.start("hi", { id: "b" });
    await expect(later.result).rejects.toMatchObject({ reason: "lease_lost" });
    const second = world.process(of);
    await second.recover();
    expect(await second.attach("b", later.turnId).result).toMatchObject({ text: "Done." });
  });
});
