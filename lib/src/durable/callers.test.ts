// The caller of verbs (`calledBy`): which caller a session belongs to, and which callers started a turn.

import type { HostStorage } from "everturn/runtime";

import { engine, fake, tool, MisuseError, user } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { expect, test } from "vitest";

import { handModel } from "../../test/hand-model.ts";

const pay = tool({
  name: "pay",
  description: "Pays.",
  schema: { type: "object" },
  needsApproval: true,
  handler: () => "paid",
});
const call = { type: "tool_call", name: "pay", arguments: {} } as const;

/** A runtime whose model asks for two payments, one after the other, in each turn of a user. */
function world(host: HostStorage = memoryStorage()) {
  const scripts = Array.from({ length: 9 }, (_, index) => [
    [{ ...call, id: `a${index}` }],
    [{ ...call, id: `b${index}` }],
    [{ type: "text", text: "Done." } as const],
  ]).flat();
  const agent = engine({ adapter: fake({ scripts }), model: "fake:m", tools: [pay] });
  const sessions = runtime({ host, engines: { default: agent } });
  return { sessions, ada: sessions.calledBy("ada"), bob: sessions.calledBy("bob") };
}

test("a session belongs to the caller that started it, also for another process", async () => {
  const host = memoryStorage();
  const { sessions, ada } = world(host);
  await (
    await ada.start("pay", { id: "s" })
  ).result;
  await (
    await sessions.start("pay", { id: "of-the-program" })
  ).result;
  const later = world(host).sessions;
  expect(await later.get("s")).toMatchObject({ owner: "ada", startedBy: ["ada"] });
  expect(await later.get("of-the-program")).toMatchObject({ owner: null, startedBy: [] });
  expect((await later.list({ owner: "ada" })).items.map(({ id, owner }) => [id, owner])).toEqual([["s", "ada"]]);
  expect((await later.list({ owner: "bob" })).items).toEqual([]);
});

test("a turn that continues a decided one was started by the same callers, and not by the caller that decided", async () => {
  const { sessions, ada, bob } = world();
  await (
    await ada.start("pay", { id: "s" })
  ).result;
  await (
    await bob.decide("s", "a0", { type: "approve" })
  ).result;
  const view = await sessions.get("s");
  expect(view?.session.pendingToolCalls.map(({ id }) => id)).toEqual(["b0"]);
  expect(view?.startedBy).toEqual(["ada"]);
});

test("a turn that continues by other input was started by both callers", async () => {
  const { sessions, ada, bob } = world();
  await (
    await ada.start("pay", { id: "s" })
  ).result;
  await (
    await bob.decide("s", "a0", { type: "approve" }, { continue: false })
  ).result;
  await (
    await bob.continue("s", null)
  ).result;
  expect((await sessions.get("s"))?.startedBy).toEqual(["ada", "bob"]);
});

test("a new turn was started by its own caller only", async () => {
  const { sessions, ada, bob } = world();
  await (
    await ada.start("pay", { id: "s" })
  ).result;
  for (const id of ["a0", "b0"]) await (await sessions.decide("s", id, { type: "approve" })).result;
  await (
    await bob.reply("s", "and again")
  ).result;
  expect(await sessions.get("s")).toMatchObject({ owner: "ada", startedBy: ["bob"] });
});

test("a fork belongs to the owner of the original, and its pending calls to the callers of the turn that made them", async () => {
  const { sessions, ada, bob } = world();
  await (
    await ada.start("pay", { id: "s" })
  ).result;
  await bob.fork("s", { id: "copy" });
  expect(await sessions.get("copy")).toMatchObject({ owner: "ada", startedBy: ["ada"] });
  await (
    await sessions.decide("copy", "a0", { type: "approve" })
  ).result;
  expect(await sessions.get("copy")).toMatchObject({ owner: "ada", startedBy: ["ada"] });
});

test("a deleted session names no caller, and a new one of the same id belongs to its own", async () => {
  const { sessions, ada, bob } = world();
  await (
    await ada.start("pay", { id: "s" })
  ).result;
  await sessions.delete("s");
  await (
    await bob.start("pay", { id: "s" })
  ).result;
  expect(await sessions.get("s")).toMatchObject({ owner: "bob", startedBy: ["bob"] });
  expect((await sessions.list({ owner: "ada" })).items).toEqual([]);
});

test("an idempotency key of start finds only sessions of the same caller", async () => {
  const { ada, bob } = world();
  const first = await ada.start("pay", { key: "k" });
  expect((await ada.start("pay", { key: "k" })).sessionId).toBe(first.sessionId);
  expect((await bob.start("pay", { key: "k" })).sessionId).not.toBe(first.sessionId);
  await expect(bob.start("pay", { key: "k", id: first.sessionId })).rejects.toThrow("key");
});

test("input of another caller does not enter an open turn, and is queued as a turn of its own", async () => {
  const model = handModel();
  const agent = engine({ adapter: model, model: "hand:m" });
  const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
  const [ada, bob] = [sessions.calledBy("ada"), sessions.calledBy("bob")];
  const turn = await ada.start("hi", { id: "s" });
  const first = await model.call(1);
  await expect(bob.steer("s", "raise it")).rejects.toThrow("started by another caller");
  await expect(bob.send("s", "raise it")).rejects.toThrow("started by another caller");
  await ada.steer("s", "in blue");
  const queued = await bob.reply("s", user("me too"), { whenBusy: "queue" });
  first.finish();
  (await model.call(2)).finish();
  await turn.result;
  (await model.call(3)).finish();
  await queued.result;
  expect(queued.turnId).not.toBe(turn.turnId);
  expect(await sessions.get("s")).toMatchObject({ owner: "ada", startedBy: ["bob"] });
});

test("input of one caller does not get into the turn of another that is queued or interrupts", async () => {
  const model = handModel();
  const agent = engine({ adapter: model, model: "hand:m" });
  const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
  const [ada, bob] = [sessions.calledBy("ada"), sessions.calledBy("bob")];
  const turn = await ada.start("hi", { id: "s" });
  const first = await model.call(1);
  await ada.steer("s", "pay me");
  // The turn of bob would accept what ada has sent, and ada would decide in it.
  await expect(bob.send("s", "weather?", { whenBusy: "interrupt" })).rejects.toThrow("input of another caller waits");
  const queued = await bob.send("s", "weather?", { whenBusy: "queue" });
  await expect(ada.steer("s", "pay me more")).rejects.toThrow("a message of another caller is queued");
  await sessions.cancel("s");
  first.finish();
  await turn.result;
  // The input of ada starts a turn of ada, and the message of bob the next one.
  const second = await model.call(2);
  expect(await sessions.get("s")).toMatchObject({ startedBy: ["ada"] });
  second.finish();
  const third = await model.call(3);
  expect(await sessions.get("s")).toMatchObject({ openTurn: { turnId: queued.turnId }, startedBy: ["bob"] });
  third.finish();
  await queued.result;
  await sessions.close();
});

test("where selects sessions of a list", async () => {
  const { sessions, ada, bob } = world();
  await (
    await ada.start("pay", { id: "s" })
  ).result;
  await (
    await bob.start("pay", { id: "t" })
  ).result;
  const { items } = await sessions.list({ status: "waiting", where: async ({ owner }) => owner === "bob" });
  expect(items.map(({ id }) => id)).toEqual(["t"]);
});

test("a name of a caller that is too long is misuse", () => {
  expect(() => world().sessions.calledBy("x".repeat(257))).toThrow(MisuseError);
});
