// Deadlines of pending calls and questions, and answers to questions by token.

import type { Process } from "../../../test/runtime/world.ts";

import { askUser, engine, fake, tool } from "everturn";
import { memoryStorage } from "everturn/runtime";
import { handClock } from "everturn/testing";
import { describe, expect, test } from "vitest";

import { awaitingApproval } from "../../../test/runtime/awaiting-approval.ts";
import { says, sessionsOf, toolCall } from "../../../test/runtime/sessions.ts";
import { counting, talk, worker, World, writes } from "../../../test/runtime/world.ts";
import { openCallDeadlines } from "./waits.ts";
import { workItem } from "./work.ts";

/** A session `s1` that waits for a user message as the answer to a question: no call is pending. */
async function asked(options: object, world = new World()) {
  const ask = counting("ask", { handler: () => askUser("Which day?", { answerAs: "user_message" }) });
  const of = world.process(world.engine(worker("ask"), { tools: [ask.tool] }));
  await (
    await of.start("hi", { id: "s1", ...options })
  ).result;
  return { world, of };
}

async function working(world: World, of: Process, ms: number): Promise<void> {
  const stop = new AbortController();
  const done = of.work({ signal: stop.signal });
  await world.clock.advance(ms);
  stop.abort();
  await world.clock.advance(2000);
  await done;
}

describe("deadlines of pending calls", () => {
  test("a process without the engine of a turn leaves its deadlines to a process that has it", async () => {
    const world = new World();
    const pay = counting("pay", { needsApproval: true });
    const other = world.engine(worker("pay"), { tools: [pay.tool] });
    const having = world.process(world.engine(worker()), { also: { other } });
    await (
      await having.start("hi", { id: "s1", engine: "other", waits: { approval: { afterMs: 1000 } } })
    ).result;
    await working(world, world.process(world.engine(worker())), 3000);
    expect(await world.work("deadline")).toHaveLength(1);
    await working(world, having, 3000);
    expect(await world.work("deadline")).toEqual([]);
    expect((await having.get("s1"))?.session.status).toBe("completed");
    expect(pay.runs).toEqual([]);
  });

  test("deadlines that cannot be applied here do not delay the others", async () => {
    const world = new World();
    const pay = counting("pay", { needsApproval: true });
    const mine = world.engine(worker("pay"), { tools: [pay.tool] });
    const having = world.process(mine, { also: { other: mine } });
    const waits = { approval: { afterMs: 1000 } };
    for (let n = 0; n < 70; n += 1) await (await having.start("hi", { id: `s${n}`, engine: "other", waits })).result;
    await (
      await having.start("hi", { id: "zz", waits })
    ).result;
    await working(world, world.process(mine), 3000);
    expect(await world.work("deadline")).toHaveLength(70);
    expect((await having.get("zz"))?.session.status).toBe("completed");
  });

  test("a storage failure while a deadline is applied does not lose the deadline", async () => {
    const { world, of, pay } = await awaitingApproval({ waits: { approval: { afterMs: 1000 } } });
    let fails = true;
    const tools = [pay.tool];
    const worse = world.process(world.engine(worker("pay"), { tools }), {
      refuses: (write) => (fails && writes("sessions")(write) ? new Error("the disk is gone") : null),
    });
    await working(world, worse, 3000);
    expect(await world.work("deadline")).toHaveLength(1);
    fails = false;
    await working(world, worse, 3000);
    expect((await of.get("s1"))?.session.status).toBe("completed");
  });

  test("deleting a session deletes its deadlines", async () => {
    const { world, of } = await awaitingApproval({ waits: { approval: { afterMs: 1000 } } });
    expect(await world.work("deadline")).toHaveLength(1);
    await of.delete("s1");
    expect(await world.work("deadline")).toEqual([]);
  });

  test("a duration that is too long or not a number is refused", async () => {
    const of = new World().process(new World().engine(worker()));
    for (const afterMs of [1e300, 4e12, Number.NaN, Number.POSITIVE_INFINITY]) {
      const options = { waits: { approval: { afterMs } } };
      await expect(of.start("hi", options)).rejects.toMatchObject({ name: "MisuseError" });
    }
  });
});

describe("a question whose answer is a user message", () => {
  test("is ended by its deadline", async () => {
    const { world, of } = await asked({});
    const view = await of.get("s1");
    const [turn] = await world.rows("turns");
    if (view === null || turn === undefined) throw new Error("there is no session");
    expect(view.session).toMatchObject({ status: "awaiting_user", pendingToolCalls: [], pendingToolCallId: "c0" });
    const key = { tenant: "", session: "s1" };
    const options = { waits: { question: { afterMs: 1000 } } };
    expect(openCallDeadlines(key, String(turn.key[2]), [], options, 0)).toEqual([]);
    const [put, ...more] = openCallDeadlines(key, String(turn.key[2]), [], options, 0, view.session);
    if (put === undefined) throw new Error("there is no deadline");
    expect([workItem("deadline", put), more]).toEqual([
      { reason: "deadline", queue: "", key, at: 1000, item: "c0" },
      [],
    ]);
    await world.write({ puts: [put] });
    await working(world, of, 3000);
    expect(await world.work("deadline")).toEqual([]);
    expect(await talk(of)).toContain("user (no answer arrived before the deadline)");
  });

  test("can be answered by token once, also if the write of the token arrives again", async () => {
    const clock = handClock();
    const storage = memoryStorage({ clock });
    const { world, of } = await asked({}, new World({ storage }));
    const token = await of.token("s1", "c0");
    const created = world.writes.at(-1);
    if (created === undefined) throw new Error("there is no write");
    const done = await of.complete(token, { type: "answer", text: "Friday" });
    if (done.type === "completed") await done.turn.result;
    await storage.write(created.batch);
    expect(await of.complete(token, { type: "answer", text: "Monday" })).toMatchObject({ type: "already_completed" });
  });

  test("can be answered by token, once", async () => {
    const { of } = await asked({});
    const token = await of.token("s1", "c0");
    const done = await of.complete(token, { type: "answer", text: "Friday" });
    if (done.type === "completed") await done.turn.result;
    expect(done.type).toBe("completed");
    expect(await talk(of)).toContain("user Friday");
    expect(await of.complete(token, { type: "answer", text: "Monday" })).toMatchObject({ type: "already_completed" });
    await expect(of.token("s1", "c0")).rejects.toMatchObject({ reason: "not_found" });
  });
});

test("the deadline of an unanswered question continues the session, also if no call is pending", async () => {
  const clock = handClock();
  const ask = tool({ name: "ask", description: "Asks.", schema: { type: "object" }, handler: () => askUser("Which?") });
  const adapter = fake({ scripts: [[toolCall("ask")], [says("then not")]] });
  const sessions = sessionsOf(engine({ adapter, tools: [ask] }), { clock });
  await (
    await sessions.start("go", { id: "s", waits: { question: { afterMs: 3000 } } })
  ).result;
  expect(await sessions.get("s")).toMatchObject({ session: { status: "awaiting_user", pendingToolCalls: [] } });
  const stop = new AbortController();
  const working = sessions.work({ signal: stop.signal });
  await clock.advance(2000);
  expect(adapter.calls).toHaveLength(1);
  await clock.advance(3000);
  expect(await sessions.get("s")).toMatchObject({ session: { status: "completed" }, openTurn: null });
  expect(JSON.stringify(adapter.calls[1]?.request.messages)).toContain("no answer arrived before the deadline");
  stop.abort();
  await working;
});
