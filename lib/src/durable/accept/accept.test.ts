// A verb that was accepted durably reports success, whatever happens to the drive that follows.

import type { Query } from "../internal.ts";

import { describe, expect, test } from "vitest";

import { gate, says, thinker, World } from "../../../test/runtime/world.ts";
import { RuntimeError } from "../../core/model/index.ts";

/** A model whose first call waits for the gate. */
function held(world: World) {
  const modelGate = gate();
  const model = thinker(() => says("Done."));
  const of = world.engine({
    ...model,
    async *stream(request, options) {
      if (model.asked.length === 0) await modelGate.wait();
      yield* model.stream(request, options);
    },
  });
  return { modelGate, model, of };
}

/** Are these the reads that begin the drive of an open turn in this session? */
const readsOpenTurn = (queries: readonly Query[], session: string): boolean =>
  queries.length === 2 && queries[0]?.table === "open" && queries[0].prefix[1] === session;

describe("a turn that was stored but could not be driven by this process", () => {
  test("is accepted: the verb resolves, its result reports the failure, and a later poll drives the turn", async () => {
    const world = new World();
    const { modelGate, of } = held(world);
    let isBroken = true;
    const sessions = world.process(of, {
      maxActiveTurns: 1,
      holdsRead: (queries) => {
        if (!isBroken || !readsOpenTurn(queries, "b")) return null;
        throw new RuntimeError("storage_failed", { message: "the disk was removed" });
      },
    });
    const first = await sessions.start("hi", { id: "a" });
    await modelGate.reached;
    const second = await sessions.start("hi", { id: "b" });
    expect(second.turnId).not.toBeNull();
    await expect(second.result).rejects.toMatchObject({ reason: "storage_failed" });
    isBroken = false;
    modelGate.open();
    await first.result;
    expect(await sessions.recover()).toMatchObject({ pickedUp: 1 });
    expect(await sessions.attach("b", second.turnId).result).toMatchObject({ text: "Done." });
  });

  test("reports the failure when its place became free and it could not be claimed then", async () => {
    const world = new World();
    const { modelGate, of } = held(world);
    let reads = 0;
    const sessions = world.process(of, {
      maxActiveTurns: 1,
      holdsRead: (queries) => {
        if (!readsOpenTurn(queries, "b")) return null;
        reads += 1;
        if (reads === 1) return null;
        throw new RuntimeError("storage_failed", { message: "the disk was removed" });
      },
    });
    await sessions.start("hi", { id: "a" });
    await modelGate.reached;
    const second = await sessions.start("hi", { id: "b" });
    const failed = expect(second.result).rejects.toMatchObject({ reason: "storage_failed" });
    modelGate.open();
    await failed;
  });
});
