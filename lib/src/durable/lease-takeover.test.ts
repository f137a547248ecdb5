// Leases under pauses and clock jumps: a process that lost its session writes nothing, and a process that only
// overslept continues (H3, Q18).

import type { Clock } from "everturn";

import { engine, fake } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { handClock } from "everturn/testing";
import { describe, expect, test } from "vitest";

import { readAll, reading } from "../../test/readings.ts";
import { says, sessionsOf, toolCall, workTool } from "../../test/runtime/sessions.ts";
import { pausedProcess, shortLease, texts } from "../../test/runtime/two-processes.ts";
import { everything } from "../../test/shared-storage.ts";
import { epochOf } from "./rows/lease.ts";

describe("a process that was blocked for longer than its lease", () => {
  test("Q18 keeps the result of its tool if no other process has claimed the session", async () => {
    const base = handClock();
    let ahead = 0;
    let runs = 0;
    const clock = { ...base, now: () => base.now() + ahead };
    const slow = workTool(() => {
      runs += 1;
      // The process is blocked for longer than the lease lasts.
      ahead += 100_000;
      return "ok";
    });
    const adapter = fake({ scripts: [[toolCall("work")], [says("done")]] });
    const host = memoryStorage({ clock });
    const sessions = sessionsOf(engine({ adapter, tools: [slow] }), { clock, host });
    const { result } = await sessions.start("go", { id: "s" });
    expect(await result).toMatchObject({ text: "done" });
    expect(runs).toBe(1);
    expect(adapter.calls).toHaveLength(2);
    const [[lease] = []] = await host.read([{ table: "leases", prefix: ["", "s"] }]);
    expect(epochOf(lease?.tag ?? 0)).toBe(2);
  });
});

describe("a process that was paused for longer than its lease (H3)", () => {
  test("cannot write after another process has taken over and ended the turn", async () => {
    const { storage, clock, model, gate, first, second } = pausedProcess();
    const turn = await first.start("Go.", { id: "s" });
    const call = await model.call(1);
    await call.say("From the first");
    gate.hold();
    call.finish();
    await clock.advance(50);
    expect(gate.held).toBeGreaterThan(0);
    expect(await second.recover()).toMatchObject({ pickedUp: 0 });
    await clock.advance(300);
    expect(await second.recover()).toMatchObject({ pickedUp: 1 });
    const again = await model.call(2);
    await again.say("From the second");
    again.finish();
    expect(await second.attach("s", turn.turnId).result).toMatchObject({ text: "From the second" });
    const before = await everything(storage);
    gate.release();
    await clock.advance(0);
    expect(await everything(storage)).toEqual(before);
    expect(await turn.result).toMatchObject({ status: "ended", text: "From the second" });
    expect(await texts(first, "s")).toEqual(["Go.", "From the second"]);
    await clock.advance(1000);
    expect(await everything(storage)).toEqual(before);
  });

  test("cannot write while the process that took over drives the turn", async () => {
    const { storage, clock, model, gate, first, second } = pausedProcess();
    const turn = await first.start("Go.", { id: "s" });
    const call = await model.call(1);
    await call.say("First");
    gate.hold();
    call.callTool("look");
    await clock.advance(400);
    expect(await second.recover()).toMatchObject({ pickedUp: 1 });
    const again = await model.call(2);
    const before = await everything(storage);
    gate.release();
    await clock.advance(0);
    expect(await everything(storage)).toEqual(before);
    await again.say("Second");
    again.finish();
    expect(await turn.result).toMatchObject({ text: "Second" });
    const { rows } = { rows: (await storage.read([{ table: "journal", prefix: ["", "s"] }]))[0] ?? [] };
    expect(rows.filter(({ value }) => value.includes("model_replied"))).toHaveLength(1);
  });

  test("Q18 claims the next epoch and writes the reply it received, if no other process took over", async () => {
    const { storage, clock, model, gate, first, second } = pausedProcess();
    const turn = await first.start("Go.", { id: "s" });
    const call = await model.call(1);
    await call.say("Late");
    gate.hold();
    await clock.advance(1000);
    gate.release();
    await clock.advance(0);
    call.finish();
    expect(await turn.result).toMatchObject({ text: "Late" });
    expect(model.calls).toBe(1);
    const [[lease] = []] = await storage.read([{ table: "leases", prefix: ["", "s"] }]);
    expect(epochOf(lease?.tag ?? 0)).toBe(2);
    expect(await second.recover()).toMatchObject({ pickedUp: 0 });
  });

  test("starts no tool after it has lost the session", async () => {
    const { clock, model, gate, first, second, ran } = pausedProcess();
    const turn = await first.start("Go.", { id: "s" });
    const call = await model.call(1);
    gate.hold();
    call.callTool("look");
    await clock.advance(400);
    expect(await second.recover()).toMatchObject({ pickedUp: 1 });
    gate.release();
    await clock.advance(0);
    expect(ran).toEqual([]);
    const again = await model.call(2);
    again.callTool("look");
    const last = await model.call(3);
    await last.say("Seen.");
    last.finish();
    expect(await turn.result).toMatchObject({ text: "Seen." });
    expect(ran).toHaveLength(1);
  });
});

describe("a lease", () => {
  test("is renewed while a model call takes long", async () => {
    const { clock, model, first, second } = pausedProcess();
    const turn = await first.start("Go.", { id: "s" });
    const call = await model.call(1);
    for (let hour = 0; hour < 30; hour += 1) {
      await clock.advance(90);
      expect(await second.recover()).toMatchObject({ pickedUp: 0 });
    }
    await call.say("At last");
    call.finish();
    expect(await turn.result).toMatchObject({ text: "At last" });
    expect(model.calls).toBe(1);
  });

  test("survives two failed renewals", async () => {
    const { clock, model, gate, first, second } = pausedProcess();
    const turn = await first.start("Go.", { id: "s" });
    const call = await model.call(1);
    gate.hold();
    await clock.advance(250);
    expect(await second.recover()).toMatchObject({ pickedUp: 0 });
    gate.release();
    await clock.advance(40);
    await call.say("Still here");
    call.finish();
    expect(await turn.result).toMatchObject({ text: "Still here" });
    expect(model.calls).toBe(1);
  });

  /** A clock with an adjustable offset. */
  const off = (clock: Clock) => {
    const skewed = { offset: 0, clock: { ...clock, now: () => clock.now() + skewed.offset } };
    return skewed;
  };

  test.each([
    ["forward", 3_600_000],
    ["backward", -3_600_000],
  ])("is kept or lost when the clock jumps %s by an hour, and no reply is duplicated", async (_, jump) => {
    const base = handClock();
    await base.advance(7_200_000);
    const skewed = off(base);
    const { storage, model, first, engines } = pausedProcess({ base, clock: skewed.clock });
    const second = runtime({ host: storage, engines, clock: base, lease: shortLease, owner: "second" });
    const turn = await first.start("Go.", { id: "s" });
    const call = await model.call(1);
    await call.say("First");
    skewed.offset = jump;
    await base.advance(150);
    await second.recover();
    call.finish();
    await base.advance(400);
    await second.recover();
    await base.advance(0);
    if (model.calls > 1) {
      const again = await model.call(2);
      await again.say("Second");
      again.finish();
    }
    const { text } = await second.attach("s", turn.turnId).result;
    expect(["First", "Second"]).toContain(text);
    expect(await texts(second, "s")).toEqual(["Go.", text]);
    const rows = (await storage.read([{ table: "journal", prefix: ["", "s"] }]))[0] ?? [];
    expect(rows.filter(({ value }) => value.includes("model_replied"))).toHaveLength(1);
    reading(await readAll(second.events("s", { follow: false })));
  });

  test("is not taken over by a process whose clock is ahead: the clock of the storage decides", async () => {
    const base = handClock();
    const { storage, model, engines } = pausedProcess({ base });
    const slow = runtime({ host: storage, engines, clock: base, lease: shortLease });
    const skewed = off(base);
    skewed.offset = 10_000;
    const hasty = runtime({ host: storage, engines, clock: skewed.clock, lease: shortLease });
    const turn = await slow.start("Go.", { id: "s" });
    const call = await model.call(1);
    await call.say("Slow");
    expect(await hasty.recover()).toMatchObject({ pickedUp: 0 });
    call.finish();
    expect(await turn.result).toMatchObject({ text: "Slow" });
    expect(model.calls).toBe(1);
  });
});
