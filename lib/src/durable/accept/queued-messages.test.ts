// Queued messages keep their place whatever happens to the turn before them: the process that ends that turn cannot
// plan the next one, or the turn fails.

import type { Runtime } from "everturn/runtime";

import { engine, fake, messageText } from "everturn";
import { memoryStorage } from "everturn/runtime";
import { expect, test } from "vitest";

import { replies, says, sessionsOf } from "../../../test/runtime/sessions.ts";

/** An engine with scripted replies. */
const answering = (...texts: readonly string[]) => engine({ adapter: replies(...texts), model: "fake:m" });

/** A storage with a session whose first turn is accepted and not driven, and a message queued after it. */
async function queuedAfterOpenTurn(options: { readonly temperature?: number } = {}) {
  const host = memoryStorage();
  const web = sessionsOf(answering(), { host, drive: false });
  await web.start("one", { id: "s" });
  const queued = await web.send("s", "two", { whenBusy: "queue", ...options });
  return { host, web, queued };
}

async function userTexts(sessions: Runtime): Promise<readonly string[]> {
  const { items } = await sessions.messages("s");
  return items.flatMap((message) => (message.role === "user" ? [messageText(message)] : []));
}

test("a process without the engine ends the turn: a process that has it drives the queued one, with its options", async () => {
  const { host, queued } = await queuedAfterOpenTurn({ temperature: 0.5 });
  const other = answering();
  const operator = sessionsOf(other, { host, engines: { other } });
  expect(await operator.cancel("s")).toBe("cancelled");
  expect(await operator.get("s")).toMatchObject({ openTurn: { turnId: queued.turnId }, queuedTurns: [] });
  const adapter = replies("after");
  const worker = sessionsOf(engine({ adapter, model: "fake:m" }), { host });
  expect(await worker.recover()).toMatchObject({ pickedUp: 1 });
  expect(await queued.result).toMatchObject({ turnId: queued.turnId, text: "after" });
  expect(await userTexts(worker)).toEqual(["one", "two"]);
});

test("queueing a message reads none of the messages that are queued before it", async () => {
  const host = memoryStorage();
  const tables: string[] = [];
  const read: typeof host.read = (queries) => {
    tables.push(...queries.map(({ table }) => table));
    return host.read(queries);
  };
  const web = sessionsOf(answering(), { host: { ...host, read }, drive: false });
  await web.start("one", { id: "s" });
  for (const text of ["two", "three"]) await web.send("s", text, { whenBusy: "queue" });
  expect(tables).not.toContain("inbox");
});

test("the engine of the process that ends the turn cannot plan the queued one: it is open and in order", async () => {
  const { host, web, queued } = await queuedAfterOpenTurn();
  const unfit = engine({ adapter: null, model: "fake:m" });
  const operator = sessionsOf(unfit, { host });
  expect(await operator.cancel("s")).toBe("cancelled");
  expect((await operator.get("s"))?.openTurn?.turnId).toBe(queued.turnId);
  // A later message does not overtake it.
  await expect(web.reply("s", "three")).rejects.toMatchObject({ reason: "conflict" });
  const third = await web.send("s", "three", { whenBusy: "queue" });
  const worker = sessionsOf(answering("to two", "to three"), { host });
  await worker.recover();
  expect(await queued.result).toMatchObject({ text: "to two" });
  expect(await third.result).toMatchObject({ text: "to three" });
  expect(await userTexts(worker)).toEqual(["one", "two", "three"]);
});

test("input that arrived too late for the turn starts the next one although its last process cannot plan it", async () => {
  const host = memoryStorage();
  const web = sessionsOf(answering(), { host, drive: false });
  await web.start("one", { id: "s" });
  await web.steer("s", "late");
  const other = answering();
  expect(await sessionsOf(other, { host, engines: { other } }).cancel("s")).toBe("cancelled");
  const worker = sessionsOf(answering("to late"), { host });
  expect(await worker.recover()).toMatchObject({ pickedUp: 1 });
  expect((await worker.attach("s").result).text).toBe("to late");
  expect(await userTexts(worker)).toEqual(["one", "late"]);
});

test("a message queued after a turn that failed starts its turn when the session is recovered, before later messages", async () => {
  const host = memoryStorage();
  const adapter = fake({
    scripts: [[{ type: "error", reason: "authentication_failed" }], [says("to two")], [says("to three")]],
  });
  const of = engine({ adapter, model: "fake:m" });
  const web = sessionsOf(of, { host, drive: false });
  await web.start("one", { id: "s" });
  const queued = await web.send("s", "two", { whenBusy: "queue" });
  const worker = sessionsOf(of, { host });
  await worker.recover();
  const failed = await worker.attach("s").result;
  expect(failed).toMatchObject({ haltedReason: "error" });
  expect((await worker.get("s"))?.queuedTurns).toEqual([queued.turnId]);
  expect(await worker.recover("s")).toMatchObject({ usable: true });
  expect(await worker.get("s")).toMatchObject({ openTurn: { turnId: queued.turnId }, queuedTurns: [] });
  expect(await queued.result).toMatchObject({ text: "to two" });
  await (
    await worker.reply("s", "three")
  ).result;
  expect(await userTexts(worker)).toEqual(["one", "two", "three"]);
});
