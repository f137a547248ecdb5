// Handles of turns: their events and their results, in any process.

import type { HostStorage } from "everturn/runtime";

import { engine, fake, tool } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { handClock } from "everturn/testing";
import { describe, expect, test } from "vitest";

import { latch, rejectionOf, says, sessionsOf, toolCall, workTool } from "../../../test/runtime/sessions.ts";
import { pausedProcess } from "../../../test/runtime/two-processes.ts";

describe("handles", () => {
  const of = () => engine({ adapter: fake({ scripts: [[says("one")], [says("two")]] }), model: "fake:m" });

  test("the handle of a verb that started no turn keeps its result and has no events", async () => {
    const pay = tool({
      name: "pay",
      description: "Pays.",
      schema: { type: "object" },
      needsApproval: true,
      handler: () => "ok",
    });
    const asks = engine({
      adapter: fake({ scripts: [[toolCall("pay"), toolCall("pay")], [says("done")]] }),
      tools: [pay],
    });
    const sessions = sessionsOf(asks);
    await (
      await sessions.start("go", { id: "s" })
    ).result;
    const first = await sessions.decide("s", "call_0", { type: "approve" });
    await (
      await sessions.decide("s", "call_1", { type: "approve" })
    ).result;
    expect(first.turnId).toBeNull();
    expect(await first.result).toMatchObject({ status: "waiting", turnId: null });
    const seen = [];
    for await (const event of first.events) seen.push(event);
    expect(seen).toEqual([]);
  });

  test("handles of one open turn share the wait for its result, and read it once", async () => {
    const { passed, open } = latch();
    const slow = workTool(() => passed.then(() => "ok"));
    const memory = memoryStorage();
    let reads = 0;
    const host: HostStorage = {
      ...memory,
      read: (queries) => {
        if (queries.some(({ table }) => table === "turns") && queries.some(({ table }) => table === "leases"))
          reads += 1;
        return memory.read(queries);
      },
    };
    const agent = engine({ adapter: fake({ scripts: [[toolCall("work")], [says("two")]] }), tools: [slow] });
    const sessions = runtime({ host, engines: { default: agent } });
    const other = runtime({ host, engines: { default: agent } });
    const { turnId } = await sessions.start("go", { id: "s" });
    const results = [sessions, other].map(({ attach }) =>
      Promise.all(Array.from({ length: 20 }, () => attach("s", turnId).result)),
    );
    await expect.poll(() => reads).toBeGreaterThan(0);
    open();
    for (const ends of results) {
      const all = await ends;
      expect(all[0]).toMatchObject({ text: "two", status: "ended" });
      expect(new Set(all).size).toBe(1);
    }
    expect(reads).toBeLessThan(20);
    // A handle that is used later reads the session as it is then.
    await sessions.delete("s");
    expect(await rejectionOf(sessions.attach("s", turnId).result)).toMatchObject({ reason: "not_found" });
  });

  test("attach without a turn id reads the open turn from its first event to its last", async () => {
    const { passed, open } = latch();
    const slow = workTool(() => passed.then(() => "ok"));
    const adapter = fake({ scripts: [[says("one")], [toolCall("work")], [says("two")]] });
    const sessions = sessionsOf(engine({ adapter, tools: [slow] }));
    await (
      await sessions.start("go", { id: "s" })
    ).result;
    const second = await sessions.reply("s", "more");
    const types: string[] = [];
    for await (const { event, turnId } of sessions.attach("s").events) {
      expect(turnId).toBe(second.turnId);
      types.push(event.type);
      open();
    }
    expect([types[0], types.at(-1)]).toEqual(["turn_started", "chat_completed"]);
  });

  test("the result is one promise, and an unhandled rejection of it does not end the process", async () => {
    const sessions = sessionsOf(of());
    const turn = await sessions.start("go", { id: "s" });
    expect(turn.result).toBe(turn.result);
    await turn.result;
    await sessions.delete("s");
    // Accessed and not awaited: an unhandled rejection would fail the test run.
    void sessions.attach("s", turn.turnId).result;
    expect(await rejectionOf(sessions.attach("s", turn.turnId).result)).toMatchObject({ reason: "not_found" });
  });

  test("reading the events of an unknown turn rejects with not_found", async () => {
    const sessions = sessionsOf(of());
    await (
      await sessions.start("go", { id: "s" })
    ).result;
    const reading = sessions.events("s", { turnId: "turn-nowhere" })[Symbol.asyncIterator]();
    expect(await rejectionOf(reading.next())).toMatchObject({ reason: "not_found" });
  });

  test("the error of a process that failed at a turn is not reported once another process has driven the turn", async () => {
    const clock = handClock();
    const storage = memoryStorage({ clock });
    let broken = false;
    const shaky: HostStorage = {
      ...storage,
      write: (batch) => (broken ? Promise.reject(new Error("disk gone")) : storage.write(batch)),
    };
    const breaks = workTool(() => {
      broken = true;
      return "ok";
    });
    const scripts = [[toolCall("work")], [says("done")]];
    const first = sessionsOf(engine({ adapter: fake({ scripts }), tools: [breaks] }), { host: shaky, clock });
    const turn = await first.start("go", { id: "s" });
    expect(await rejectionOf(turn.result)).toMatchObject({ message: "disk gone" });
    broken = false;
    await clock.advance(60_000);
    const adapter = fake({ scripts: [[says("done")]] });
    const second = sessionsOf(engine({ adapter, tools: [workTool(() => "ok")] }), { host: storage, clock });
    await second.recover();
    expect(await first.attach("s", turn.turnId).result).toMatchObject({ text: "done" });
  });
});

test("the result of a turn resolves when the turn has ended, also while the next turn runs", async () => {
  const { model, first } = pausedProcess();
  const turn = await first.start("Go.", { id: "s", budgets: { steps: 1 } });
  const call = await model.call(1);
  const { turnId } = await first.steer("s", "And then?");
  expect(turnId).toBe(turn.turnId);
  await call.say("One");
  call.finish();
  const next = await model.call(2);
  expect(await turn.result).toMatchObject({ status: "ended", text: "One" });
  expect((await first.get("s"))?.openTurn?.turnId).not.toBe(turn.turnId);
  next.finish();
});
