// The commits of a step: how many there are, and what is stored if the process stops between two of them.

import { describe, expect, test } from "vitest";

import { call, counting, gate, says, talk, thinker, worker, World, writes } from "../../../test/runtime/world.ts";
import { RuntimeError } from "../../core/model/index.ts";

/** The number of journal rows in each batch that writes any. */
const journalRows = (world: World) =>
  world.writes
    .filter(writes("journal"))
    .map(({ batch }) => batch.puts.filter(({ table }) => table === "journal").length);

describe("the commits of a step", () => {
  test("are two: the reply, and the tool result together with the checkpoint after it", async () => {
    const world = new World();
    const look = counting("look");
    const of = world.engine(worker("look", "look"), { tools: [look.tool] });
    const turn = await world.process(of).start("hi", { id: "s1" });
    expect((await turn.result).text).toBe("Done.");
    // Two steps of two commits, the last reply, and the checkpoint that ends the turn.
    expect(journalRows(world)).toEqual([1, 2, 1, 2, 1, 1]);
    expect(await world.rows("journal")).toHaveLength(8);
  });

  test("are three if the checkpoint calls a function of the program, which must see stored results only", async () => {
    const world = new World();
    const look = counting("look");
    const stored: number[] = [];
    const of = world.engine(worker("look"), {
      tools: [look.tool],
      options: {
        haltWhen: async () => {
          stored.push((await world.rows("journal")).length);
          return false;
        },
      },
    });
    const turn = await world.process(of).start("hi", { id: "s1" });
    expect((await turn.result).text).toBe("Done.");
    expect(journalRows(world)).toEqual([1, 1, 1, 1, 1]);
    expect(stored).toEqual([2]);
  });

  test("include the tool result if the process stops between the result and the checkpoint", async () => {
    const world = new World();
    const pay = counting("pay");
    const of = world.engine(worker("pay"), { tools: [pay.tool] });
    const inbox = gate();
    const first = world.process(of, {
      holdsRead: (queries) => (queries.some(({ table }) => table === "inbox") ? inbox.wait() : null),
    });
    const turn = await first.start("hi", { id: "s1" });
    await inbox.reached;
    expect(pay.runs).toHaveLength(1);
    const closed = first.close({ graceMs: 0 });
    await world.clock.advance(0);
    await closed;
    const second = world.process(of);
    expect(await second.recover()).toMatchObject({ pickedUp: 1 });
    expect((await second.attach("s1", turn.turnId).result).text).toBe("Done.");
    expect(pay.runs).toHaveLength(1);
    expect(await talk(second)).toEqual(["user hi", "assistant ", "tool pay: ok", "assistant Done."]);
  });
});

test("a tool result is written alone if the commit that merges it with its checkpoint fails", async () => {
  const world = new World();
  const pay = counting("pay");
  const of = world.engine(worker("pay"), { tools: [pay.tool] });
  const inbox = gate();
  let failures = 0;
  const first = world.process(of, {
    holdsRead: (queries) => {
      // The read of the checkpoint, and not that of the commit that delivers the input.
      if (queries[1]?.table === "inboxes") return inbox.wait();
      if (failures > 0 || !queries.some(({ table }) => table === "accepted")) return null;
      failures += 1;
      throw new RuntimeError("storage_failed", { message: "a read failed" });
    },
  });
  const turn = await first.start("hi", { id: "s1" });
  await inbox.reached;
  await world.process(of, { drive: false }).steer("s1", "more");
  inbox.open();
  await expect(turn.result).rejects.toMatchObject({ reason: "storage_failed" });
  expect(failures).toBe(1);
  const second = world.process(of);
  expect(await second.recover()).toMatchObject({ pickedUp: 1 });
  expect((await second.attach("s1", turn.turnId).result).text).toBe("Done.");
  expect(pay.runs).toHaveLength(1);
  expect(await talk(second)).toEqual(["user hi", "assistant ", "tool pay: ok", "user more", "assistant Done."]);
});

describe("the checkpoint after a step", () => {
  /** Asks for the tool in the first three steps. */
  const threeSteps = () =>
    thinker(({ messages }) => {
      const done = messages.filter(({ role }) => role === "tool").length;
      return done < 3 ? [call("pay", {}, `c${done}`)] : says("Done.");
    });

  test("reads the inbox in the first step, and later only if input has arrived", async () => {
    const world = new World();
    const reads: string[] = [];
    const sessions = world.process(world.engine(threeSteps(), { tools: [counting("pay").tool] }), {
      holdsRead: (queries) => {
        if (queries[0]?.table === "inbox") reads.push(queries.map(({ table }) => table).join());
        return null;
      },
    });
    const { result } = await sessions.start("hi", { id: "s1" });
    expect((await result).text).toBe("Done.");
    // The second one is that of the checkpoint before the completion.
    expect(reads).toEqual(["inbox,inboxes", "inbox,inboxes"]);
  });

  test.each([1, 2])("delivers input of another process that arrives during step %i, once", async (step) => {
    const world = new World();
    const running = gate();
    const pay = counting("pay", {
      handler: async () => {
        if (pay.runs.length === step) await running.wait();
        return "ok";
      },
    });
    const of = world.engine(threeSteps(), { tools: [pay.tool] });
    const turn = await world.process(of).start("hi", { id: "s1" });
    await running.reached;
    const steered = await world.process(of, { drive: false }).steer("s1", "more", { id: "i1" });
    running.open();
    expect((await turn.result).text).toBe("Done.");
    expect(steered.turnId).toBe(turn.turnId);
    const steps = [1, 2, 3].flatMap((index) => ["assistant ", "tool ok", ...(index === step ? ["user more"] : [])]);
    expect(await talk(world.process(of))).toEqual(["user hi", ...steps, "assistant Done."]);
    expect(pay.runs).toHaveLength(3);
    expect((await world.rows("inbox")).length).toBe(0);
    // Three replies with a call, three results, three checkpoints, the answer, and the checkpoint before its end.
    const ordinals = (await world.rows("journal")).map(({ key }) => key.at(-1));
    expect(ordinals).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
  });
});

describe("start marks", () => {
  test("of calls that get a slot at once are written with the reply, also with a concurrency limit", async () => {
    const world = new World();
    const held = gate();
    const pay = counting("pay", { handler: () => held.wait() });
    const model = thinker(({ messages }) =>
      messages.some(({ role }) => role === "tool")
        ? says("Done.")
        : ["a", "b", "c"].map((id) => call("pay", { id }, id)),
    );
    const of = world.engine(model, { tools: [pay.tool], options: { maxConcurrency: 2 } });
    const turn = await world.process(of).start("hi", { id: "s1" });
    await held.reached;
    const isMark = ({ table, key }: { readonly table: string; readonly key: readonly unknown[] }) =>
      table === "records" && key.includes("started");
    const reply = world.writes.find(writes("journal"));
    expect(reply?.batch.puts.filter(isMark)).toHaveLength(2);
    held.open();
    expect((await turn.result).text).toBe("Done.");
    expect(pay.runs).toHaveLength(3);
    expect((await world.rows("records")).filter(({ key }) => key.includes("started"))).toHaveLength(3);
  });

  test("of a tool whose calls run one at a time are written when the call gets its turn", async () => {
    const world = new World();
    const held = gate();
    const pay = counting("pay", {
      concurrency: "serial",
      handler: ({ id }) => held.wait().then(() => `paid ${String(id)}`),
    });
    const model = thinker(({ messages }) =>
      messages.some(({ role }) => role === "tool") ? says("Done.") : ["a", "b"].map((id) => call("pay", { id }, id)),
    );
    const of = world.engine(model, { tools: [pay.tool] });
    const first = world.process(of);
    const turn = await first.start("hi", { id: "s1" });
    await held.reached;
    first.kill();
    await world.leaseRunsOut();
    held.open();
    const second = world.process(of);
    expect(await second.recover()).toMatchObject({ pickedUp: 1 });
    expect((await second.attach("s1", turn.turnId).result).text).toBe("Done.");
    expect(pay.runs).toEqual([{ id: "a" }, { id: "b" }]);
    expect(await talk(second)).toEqual([
      "user hi",
      "assistant ",
      expect.stringContaining("may or may not have run"),
      "tool paid b",
      "assistant Done.",
    ]);
  });
});
