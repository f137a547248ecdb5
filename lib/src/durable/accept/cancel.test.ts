// Cancelling a turn, from the process that drives it and from others (H6, Q9).

import type { Engine } from "everturn";
import type { StorageQuery } from "everturn/advanced";
import type { HostStorage } from "everturn/runtime";

import { engine, fake } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { handClock } from "everturn/testing";
import { describe, expect, test } from "vitest";

import { handModel } from "../../../test/hand-model.ts";
import { latch, says, sessionsOf, toolCall, workTool } from "../../../test/runtime/sessions.ts";
import { alwaysOk, nextTask, pausedProcess, settle, talker, texts } from "../../../test/runtime/two-processes.ts";

test("a failed read of the cancels does not end the turn, and the cancel is found later", async () => {
  const storage = memoryStorage();
  let broken = 1;
  const shaky: HostStorage = {
    ...storage,
    read: (queries: readonly StorageQuery[]) => {
      const isLook = queries.length === 1 && queries[0]?.table === "cancels";
      if (isLook && broken > 0) {
        broken -= 1;
        return Promise.reject(new Error("cannot be read right now"));
      }
      return storage.read(queries);
    },
  };
  const { passed, open } = latch();
  const slow = workTool(() => passed.then(() => "ok"));
  const of = engine({ adapter: fake({ scripts: [[toolCall("work")], [says("done")]] }), tools: [slow] });
  const sessions = sessionsOf(of, { host: shaky });
  const turn = await sessions.start("go", { id: "s" });
  const other = sessionsOf(of, { host: storage, drive: false });
  expect(await other.cancel("s")).toBe("cancelled");
  open();
  expect((await turn.result).haltedReason).toBe("cancelled");
});

test("a cancel by another process reaches a turn that outlives others, and a turn that starts after they have ended", async () => {
  const host = memoryStorage();
  const model = handModel();
  const of = engine({ adapter: model, model: "hand:m" });
  const sessions = sessionsOf(of, { host });
  const other = sessionsOf(of, { host, drive: false });
  const first = await sessions.start("go", { id: "first" });
  const ending = await model.call(1);
  const second = await sessions.start("go", { id: "second" });
  await model.call(2);
  ending.finish();
  await first.result;
  expect(await other.cancel("second")).toBe("cancelled");
  expect((await second.result).haltedReason).toBe("cancelled");
  const third = await sessions.start("go", { id: "third" });
  await model.call(3);
  expect(await other.cancel("third")).toBe("cancelled");
  expect((await third.result).haltedReason).toBe("cancelled");
});

test("the cancels are read only after a write to them, and at most ten times a second", async () => {
  const clock = handClock();
  const storage = memoryStorage({ clock });
  let looks = 0;
  const host: HostStorage = {
    ...storage,
    read: (queries: readonly StorageQuery[]) => {
      if (queries.some(({ table, prefix }) => table === "cancels" && prefix.length === 0)) looks += 1;
      return storage.read(queries);
    },
  };
  const model = handModel();
  const of = engine({ adapter: model, model: "hand:m" });
  const sessions = sessionsOf(of, { host, clock });
  const others = sessionsOf(of, { host: storage, clock, drive: false });
  const turn = await sessions.start("go", { id: "s" });
  const call = await model.call(1);
  const quiet = async () => {
    for (let before = -1; before !== looks;) {
      before = looks;
      await clock.advance(100);
    }
    return looks;
  };
  const before = await quiet();
  for (let count = 0; count < 5; count += 1) await others.start("x");
  await clock.advance(200);
  expect(looks).toBe(before);
  for (let count = 0; count < 5; count += 1) {
    const puts = [{ table: "cancels", key: ["", "other", `t${count}`], tag: 0, value: "" } as const];
    await storage.write({ checks: [], removals: [], puts });
  }
  await clock.advance(0);
  expect(looks).toBe(before + 1);
  expect(await quiet()).toBe(before + 2);
  call.finish();
  await turn.result;
});

describe("a turn that no process can drive any more", () => {
  test.each([
    ["its engine was renamed", (of: Engine) => ({ other: of })],
    ["its engine has lost its adapter", (of: Engine) => ({ default: { ...of, adapter: null } })],
  ])("%s: the turn can be cancelled, and the session continues", async (_, engines) => {
    const host = memoryStorage();
    const of = engine({ adapter: fake({ scripts: [[says("one")]] }), model: "fake:m" });
    await sessionsOf(of, { host, drive: false }).start("go", { id: "s" });
    const later = sessionsOf(of, { host, engines: engines(of) });
    expect(await later.cancel("s", { reason: "gone" })).toBe("cancelled");
    expect(await later.get("s")).toMatchObject({ openTurn: null, session: { status: "idle" } });
    const types: string[] = [];
    for await (const { event } of later.events("s", { follow: false })) types.push(event.type);
    expect(types).toEqual(["turn_started", "chat_completed"]);
    const mended = sessionsOf(of, { host });
    expect(await (await mended.reply("s", "again")).result).toMatchObject({ text: "one" });
  });
});

test("a cancel whose write is answered late ends the turn it names, and not the turn that followed", async () => {
  const { storage, model, engines } = pausedProcess();
  const { passed: gate, open } = latch();
  const slow: HostStorage = {
    ...storage,
    write: async (batch) => {
      const written = await storage.write(batch);
      if (batch.puts.some(({ table }) => table === "cancels")) await gate;
      return written;
    },
  };
  const sessions = runtime({ host: slow, engines });
  const turn = await sessions.start("Go.", { id: "s" });
  await (await model.call(1)).say("One");
  await sessions.steer("s", "And then?");
  const cancelled = sessions.cancel("s");
  const next = await model.call(2);
  expect(await turn.result).toMatchObject({ outcome: { type: "cancelled" } });
  open();
  expect(await cancelled).toBe("cancelled");
  await next.say("Two");
  expect(next.signal.aborted).toBe(false);
  next.finish();
  await settle(sessions, "s");
  expect((await texts(sessions, "s")).at(-1)).toBe("Two");
});

test("a process that only accepts turns reads the whole session, and its cancel returns the outcome from the process that drives the turn", async () => {
  const host = memoryStorage();
  const { engine: of } = talker(alwaysOk());
  const acceptor = runtime({ host, engines: { default: of }, drive: false });
  const worker = runtime({ host, engines: { default: of } });
  await acceptor.start("one", { id: "s" });
  for (const text of ["two", "three"]) {
    await settle(worker, "s");
    await acceptor.reply("s", text);
    expect((await texts(acceptor, "s")).at(-1)).toBe(text);
  }
  const cancelled = acceptor.cancel("s");
  while ((await host.read([{ table: "cancels", prefix: [] }]))[0]?.length === 0) await nextTask();
  await worker.recover();
  expect(await cancelled).toBe("cancelled");
  expect(await texts(acceptor, "s")).toEqual(["one", "ok", "two", "ok", "three"]);
});
