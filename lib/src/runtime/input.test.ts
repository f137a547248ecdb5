// What callers say, also those without a compiler: what could not be read again is refused before anything is written, keys stand for all that was
// said, and a wait ends only for a reason.

import type { Process } from "../../test/runtime/world.ts";

import { askUser, MisuseError, newSession, user } from "everturn";
import { describe, expect, test } from "vitest";

import { counting, gate, talk, worker, World, writes } from "../../test/runtime/world.ts";
import { checkReadable, writeValue } from "./rows/stored.ts";
import { openCallDeadlines } from "./verbs/waits.ts";

/** What JSON brings, whatever the types say. */
const fromWire = (text: string) => JSON.parse(text);

/** A session that waits for consent to one call, `c0`. */
async function waiting(options: object = {}, world = new World()) {
  const pay = counting("pay", { needsApproval: true });
  const model = worker("pay");
  const of = world.process(world.engine(model, { tools: [pay.tool] }));
  await (
    await of.start("hi", { id: "s1", ...options })
  ).result;
  return { world, of, pay, model };
}

/** A session that asks something whose answer is said by the user: no call waits. */
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

const misuse = (path: readonly (string | number)[]) => ({ name: "MisuseError", path });

describe("what could not be read again is refused, and nothing is written", () => {
  test("decisions, from the verb and from a token", async () => {
    const { world, of } = await waiting();
    const token = await of.token("s1", "c0");
    const before = world.writes.length;
    const given: readonly (readonly [string, readonly (string | number)[]])[] = [
      ['{"type":"approve","by":5}', ["by"]],
      ['{"type":"approve","by":{"name":"Eve"}}', ["by"]],
      ['{"type":"deny","reason":5}', ["reason"]],
      ['{"type":"forward","answer":{"type":"answer","text":"x"}}', ["type"]],
      ['{"type":"perhaps"}', ["type"]],
      ["{}", ["type"]],
      ["null", []],
      ["7", []],
    ];
    for (const [text, path] of given) {
      await expect(of.decide("s1", "c0", fromWire(text)), text).rejects.toMatchObject(misuse(path));
      await expect(of.complete(token, fromWire(text)), text).rejects.toMatchObject(misuse(path));
    }
    for (const args of ["[1]", "7", '"x"']) {
      const edited = fromWire(`{"type":"approve","arguments":${args}}`);
      await expect(of.decide("s1", "c0", edited)).rejects.toMatchObject(misuse(["arguments"]));
    }
    expect(world.writes.length).toBe(before);
    expect((await (await of.decide("s1", "c0", { type: "approve", by: "ada" })).result).text).toBe("Done.");
  });

  test("a token completes the call with the arguments it has", async () => {
    const { of, pay } = await waiting();
    const token = await of.token("s1", "c0");
    await expect(of.complete(token, { type: "approve", arguments: { n: 9 } })).rejects.toMatchObject(
      misuse(["arguments"]),
    );
    const done = await of.complete(token, { type: "approve" });
    if (done.type === "completed") await done.turn.result;
    expect(pay.runs).toEqual([{ n: 0 }]);
  });

  test("cancels, and what is said to a turn", async () => {
    const world = new World();
    const held = gate();
    const slow = counting("slow", { handler: () => held.wait() });
    const of = world.process(world.engine(worker("slow"), { tools: [slow.tool] }));
    const turn = await of.start("hi", { id: "s1" });
    await held.reached;
    const before = world.writes.length;
    for (const [text, path] of [
      ['{"reason":42}', ["reason"]],
      ['{"origin":{}}', ["origin"]],
      ['{"turnId":5}', ["turnId"]],
      ['{"turnID":"t"}', ["turnID"]],
      ["null", []],
    ] as const) {
      await expect(of.cancel("s1", fromWire(text)), text).rejects.toMatchObject(misuse(path));
    }
    const cause = { id: "e1", eventType: "paid", origin: { type: "process", processId: "p", eventType: "paid" } };
    for (const [input, path] of [
      [{ type: "cause", cause: { ...cause, text: 5 } }, ["cause", "origin", "sequence"]],
      [{ type: "cause", cause: { id: "e1" } }, ["cause", "eventType"]],
      [{ type: "cause" }, ["cause"]],
      [{ type: "shout", message: user("x") }, ["type"]],
      [{}, ["type"]],
      [null, []],
      [7, []],
    ] as const) {
      await expect(of.steer("s1", fromWire(JSON.stringify(input))), JSON.stringify(input)).rejects.toMatchObject(
        misuse(path),
      );
    }
    expect(world.writes.length).toBe(before);
    held.open();
    await turn.result;
  });

  test("small rows are read before they are written", () => {
    const evidence = { requestId: "t", origin: "me", reason: "why" };
    expect(() => writeValue("cancels", { evidence, at: 1 })).not.toThrow();
    for (const [table, row, path] of [
      ["cancels", '{"evidence":{"requestId":"t","origin":"me","reason":7},"at":1}', ["evidence", "reason"]],
      ["inbox", '{"id":"i","input":{"type":"cause","cause":null},"state":"pending"}', ["input", "cause"]],
    ] as const) {
      const write = () => writeValue(table, fromWire(row));
      expect(write).toThrow(expect.objectContaining({ reason: "not_serializable", path: [table, ...path] }));
    }
    expect(() => checkReadable("sessions", fromWire("{}"))).toThrow(MisuseError);
  });

  test("a session that cannot be read can be deleted, and keeps nobody from seeing the others", async () => {
    const world = new World();
    const of = world.process(world.engine(worker()));
    for (const id of ["s1", "s2"]) await (await of.start("hi", { id })).result;
    const [row] = await world.rows("sessions", ["", "s1"]);
    if (row === undefined) throw new Error("there is no row");
    await world.raw("sessions", row, row.value.replace('"status":"completed"', '"status":"lost"'));
    await expect(of.get("s1")).rejects.toMatchObject({ reason: "corrupt_row" });
    expect((await of.list()).items.map(({ id }) => id)).toEqual(["s2"]);
    await of.delete("s1");
    expect(await of.get("s1")).toBe(null);
    expect((await of.list()).items.map(({ id }) => id)).toEqual(["s2"]);
    expect(await world.rows("entries", ["", "s1"])).toEqual([]);
    expect((await world.rows("recent")).map(({ key }) => key[2])).toEqual(["s2"]);
    expect((await (await of.start("again", { id: "s1" })).result).text).toBe("Done.");
  });
});

describe("waits end for a reason", () => {
  test("one of an engine this process does not have is left for one that does", async () => {
    const world = new World();
    const pay = counting("pay", { needsApproval: true });
    const other = world.engine(worker("pay"), { tools: [pay.tool] });
    const having = world.process(world.engine(worker()), { also: { other } });
    await (
      await having.start("hi", { id: "s1", engine: "other", waits: { approval: { afterMs: 1000 } } })
    ).result;
    await working(world, world.process(world.engine(worker())), 3000);
    expect(await world.rows("deadlines")).toHaveLength(1);
    await working(world, having, 3000);
    expect(await world.rows("deadlines")).toEqual([]);
    expect((await having.get("s1"))?.session.status).toBe("completed");
    expect(pay.runs).toEqual([]);
  });

  test("those that are left keep nobody from ending the rest", async () => {
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
    expect(await world.rows("deadlines")).toHaveLength(70);
    expect((await having.get("zz"))?.session.status).toBe("completed");
  });

  test("a storage that fails in that moment does not lose one", async () => {
    const { world, of, pay } = await waiting({ waits: { approval: { afterMs: 1000 } } });
    let fails = true;
    const tools = [pay.tool];
    const worse = world.process(world.engine(worker("pay"), { tools }), {
      refuses: (write) => (fails && writes("sessions")(write) ? new Error("the disk is gone") : null),
    });
    await working(world, worse, 3000);
    expect(await world.rows("deadlines")).toHaveLength(1);
    fails = false;
    await working(world, worse, 3000);
    expect((await of.get("s1"))?.session.status).toBe("completed");
  });

  test("those of a session go with it", async () => {
    const { world, of } = await waiting({ waits: { approval: { afterMs: 1000 } } });
    expect(await world.rows("deadlines")).toHaveLength(1);
    await of.delete("s1");
    expect(await world.rows("deadlines")).toEqual([]);
  });

  test("how long is bounded", async () => {
    const of = new World().process(new World().engine(worker()));
    for (const afterMs of [1e300, 4e12, Number.NaN, Number.POSITIVE_INFINITY]) {
      const options = { waits: { approval: { afterMs } } };
      await expect(of.start("hi", options)).rejects.toMatchObject({ name: "MisuseError" });
    }
  });
});

describe("a question that is no call waits too", () => {
  test("its time can be up", async () => {
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
    expect([put.key, more]).toEqual([[1000, "", "s1", "c0"], []]);
    await world.raw("deadlines", { ...put, expires: null, remainingMs: null }, put.value);
    await working(world, of, 3000);
    expect(await world.rows("deadlines")).toEqual([]);
    expect(await talk(of)).toContain("user (nobody answered in time)");
  });

  test("somebody outside can answer it, once", async () => {
    const { of } = await asked({});
    const token = await of.token("s1", "c0");
    const done = await of.complete(token, { type: "answer", text: "Friday" });
    if (done.type === "completed") await done.turn.result;
    expect(done.type).toBe("completed");
    expect(await talk(of)).toContain("user Friday");
    expect(await of.complete(token, { type: "answer", text: "Monday" })).toEqual({ type: "already_completed" });
    await expect(of.token("s1", "c0")).rejects.toMatchObject({ reason: "not_found" });
  });
});

describe("a key stands for all that was said", () => {
  const conflict = { name: "RuntimeError", reason: "conflict" };

  test("start: the same in another order is the same; another context, metadata or engine is not", async () => {
    const world = new World();
    const mine = world.engine(worker());
    const of = world.process(mine, { also: { other: mine } });
    const said = { key: "k", context: { a: 1, b: 2 }, params: { x: 1, y: 2 } };
    const first = await of.start("hi", said);
    const again = await of.start("hi", { params: { y: 2, x: 1 }, context: { b: 2, a: 1 }, key: "k" });
    expect(again.turnId).toBe(first.turnId);
    for (const other of [{ context: { a: 2 } }, { metadata: { a: 1 } }, { engine: "other" }, { params: {} }]) {
      await expect(of.start("hi", { ...said, ...other })).rejects.toMatchObject(conflict);
    }
    await first.result;
  });

  test("answers: other options, another engine, or not going on is something else", async () => {
    const { world, of } = await waiting();
    const decision = { type: "approve" } as const;
    const first = await of.decide("s1", "c0", decision, { key: "k", params: { x: 1, y: 2 } });
    const again = await of.decide("s1", "c0", decision, { key: "k", params: { y: 2, x: 1 } });
    expect(again.turnId).toBe(first.turnId);
    await first.result;
    for (const other of [{ params: { x: 2 } }, { engine: "default" }, { continue: false }]) {
      const options = { key: "k", params: { x: 1, y: 2 }, ...other };
      await expect(of.decide("s1", "c0", decision, options)).rejects.toMatchObject(conflict);
    }
    const sent = await of.send("s1", "more", { key: "m" });
    expect((await of.send("s1", "more", { key: "m" })).turnId).toBe(sent.turnId);
    await expect(of.send("s1", "more", { key: "m", temperature: 1 })).rejects.toMatchObject(conflict);
    await sent.result;
    expect(await world.rows("open")).toEqual([]);
  });
});

describe("forks", () => {
  test("while an approval is being spent, the fork has to ask for its own; each call has a key of its own", async () => {
    const world = new World();
    const held = gate();
    const keys: string[] = [];
    const pay = counting("pay", {
      needsApproval: true,
      handler: async (_, { idempotencyKey }) => {
        keys.push(idempotencyKey);
        await held.wait();
        return "paid";
      },
    });
    const of = world.process(world.engine(worker("pay"), { tools: [pay.tool] }));
    await (
      await of.start("hi", { id: "s1" })
    ).result;
    const turn = await of.decide("s1", "c0", { type: "approve", by: "ada" });
    await held.reached;
    await of.fork("s1", { id: "s2" });
    const forked = (await of.get("s2"))?.session;
    expect(forked).toMatchObject({
      status: "awaiting_tools",
      pendingToolCalls: [{ id: "c0", decision: null, idempotencyKey: null }],
    });
    held.open();
    await turn.result;
    await (
      await of.decide("s2", "c0", { type: "approve" })
    ).result;
    expect(new Set(keys).size).toBe(2);
  });

  test("of a turn that has used its approvals and goes on: they are answered there too", async () => {
    const world = new World();
    const held = gate();
    const pay = counting("pay", { needsApproval: true });
    const slow = counting("slow", { handler: () => held.wait() });
    const of = world.process(world.engine(worker("pay", "slow"), { tools: [pay.tool, slow.tool] }));
    await (
      await of.start("hi", { id: "s1" })
    ).result;
    const turn = await of.decide("s1", "c0", { type: "approve" });
    await held.reached;
    await of.fork("s1", { id: "s2" });
    const forked = (await of.get("s2"))?.session;
    expect(forked).toMatchObject({ status: "idle", pendingToolCalls: [] });
    expect(forked?.thread.messages.map(({ role }) => role)).toEqual(["user", "assistant", "tool"]);
    held.open();
    await turn.result;
  });

  test("onto an id that was deleted; and what is not its own turn is not exported as one", async () => {
    const { of } = await waiting();
    await of.fork("s1", { id: "s2" });
    await expect(of.fork("s1", { id: "s2" })).rejects.toMatchObject({ reason: "conflict" });
    await expect(of.export("s2")).rejects.toMatchObject({ reason: "not_found" });
    await of.delete("s2");
    await of.fork("s1", { id: "s2" });
    expect((await (await of.decide("s2", "c0", { type: "approve" })).result).text).toBe("Done.");
    await of.export("s2");
    // A fork of a fork knows what it goes on with as well.
    await of.fork("s1", { id: "s3" });
    await of.fork("s3", { id: "s4" });
    expect((await (await of.decide("s4", "c0", { type: "approve" })).result).text).toBe("Done.");
  });
});

describe("options", () => {
  test("what start is told wins over what the session it is given says", async () => {
    const world = new World();
    const of = world.process(world.engine(worker()));
    const given = newSession({ context: { who: "old" }, metadata: { a: 1 } });
    const begun = { ...given, thread: { ...given.thread, messages: [user("hi")] } };
    await (
      await of.start(begun, { id: "s1", context: { who: "new" } })
    ).result;
    expect((await of.get("s1"))?.session).toMatchObject({ context: { who: "new" }, metadata: { a: 1 } });
  });

  test("what are no options, or of the wrong kind, is misuse", async () => {
    const { world, of } = await waiting();
    const before = world.writes.length;
    for (const options of [null, 7, "x", []]) {
      const given = fromWire(JSON.stringify(options));
      await expect(of.start("hi", given)).rejects.toThrow(MisuseError);
      await expect(of.reply("s1", "x", given)).rejects.toThrow(MisuseError);
      await expect(of.decide("s1", "c0", { type: "approve" }, given)).rejects.toThrow(MisuseError);
    }
    for (const name of ["sessionId", "emitTextDeltas", "emitToolDeltas", "includeRawChunks", "requestId"]) {
      const given: object = { [name]: name.startsWith("e") ? false : "x" };
      await expect(of.start("hi", given)).rejects.toMatchObject({ reason: "unknown_field", path: [name] });
    }
    for (const [name, value] of [
      ["repair", "two"],
      ["maxToolResultLength", "long"],
      ["version", "1"],
      ["key", 5],
      ["engine", 5],
    ] as const) {
      const given: object = { [name]: value };
      await expect(of.decide("s1", "c0", { type: "approve" }, given)).rejects.toMatchObject(misuse([name]));
    }
    for (const limit of [0, -1, 1.5, Number.NaN, fromWire('"5"')]) {
      await expect(of.list({ limit })).rejects.toMatchObject(misuse(["limit"]));
      await expect(of.messages("s1", { limit })).rejects.toMatchObject(misuse(["limit"]));
    }
    for (const after of ["x", "", "-5", {}]) {
      const given: object = { after };
      await expect(of.messages("s1", given)).rejects.toMatchObject(misuse(["after"]));
    }
    expect(world.writes.length).toBe(before);
  });

  test("messages go on where the last page said", async () => {
    const { of } = await waiting();
    const roles: string[] = [];
    for (let next: string | null = "-1"; next !== null;) {
      const given: object = { limit: 1, after: next };
      const page: Awaited<ReturnType<Process["messages"]>> = await of.messages("s1", given);
      roles.push(...page.items.map(({ role }) => role));
      next = page.next;
    }
    expect(roles).toEqual(["user", "assistant"]);
    expect((await of.messages("s1", { after: 0 })).items).toHaveLength(1);
  });

  test("those of an answer are laid over those of the turn that asked", async () => {
    const { of, model } = await waiting({ temperature: 0.25, maxTokens: 100 });
    await (
      await of.decide("s1", "c0", { type: "approve" }, { maxTokens: 200 })
    ).result;
    expect(model.asked.map(({ temperature, maxTokens }) => [temperature, maxTokens])).toEqual([
      [0.25, 100],
      [0.25, 200],
    ]);
  });
});
