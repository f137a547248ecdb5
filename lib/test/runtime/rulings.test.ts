// The rules Q1 to Q15 of docs/rules.md, each as the behaviour that a program observes: through the entry point of the
// runtime, over a storage that survives processes.

import type { Write } from "./world.ts";
import type { FakeScript, JsonObject } from "everturn";
import type { ToolDefinition, CodeExecutor } from "everturn/advanced";
import type { RuntimeEvent } from "everturn/runtime";

import { askUser, fail, fake, MisuseError, tool, validateThread } from "everturn";
import { inspection } from "everturn/http";
import { quickjs } from "everturn/quickjs";
import { replayTurn } from "everturn/runtime";
import { describe, expect, test } from "vitest";

import { kernelRevision } from "../../src/core/kernel/internal.ts";
import { line } from "../../src/testing/transcript.ts";
import { handModel } from "../hand-model.ts";
import { hasHeard, reading, readUntil } from "../readings.ts";
import {
  call,
  counting,
  eventsOf,
  eventsUntil,
  gate,
  heard,
  isFirst,
  priced,
  says,
  sessionOf,
  talk,
  thinker,
  worker,
  World,
  writes,
} from "./world.ts";

describe("Q1 settle, commit, publish", () => {
  test("Q1 one batch holds the journal row, the turn row and the events it causes", async () => {
    const world = new World();
    const turn = await world.process(world.engine(worker())).start("hi", { id: "s1" });
    await turn.result;
    const commits = world.writes.filter(writes("journal")).map(({ batch }) => batch.puts.map(({ table }) => table));
    // A reply, and the checkpoint before completion.
    expect(commits).toHaveLength(2);
    for (const tables of commits) expect(tables).toEqual(expect.arrayContaining(["journal", "turns"]));
    expect(commits.flat().filter((table) => table === "events").length).toBeGreaterThan(1);
    expect(world.writes.filter(writes("events")).every(({ batch }) => batch.checks.length > 0)).toBe(true);
  });

  test("Q1 after a crash between any two writes, recovery gives the same session and every event exactly once", async () => {
    const storedEvents = async (world: World): Promise<readonly unknown[]> => {
      const text = JSON.stringify(await world.values("events"));
      return JSON.parse(text.replaceAll(/turn-[0-9a-f]+/g, "turn").replaceAll(/"epoch":\d+/g, '"epoch":0'));
    };
    const life = async (dies: number | null) => {
      const world = new World();
      const look = counting("look", { replay: "safe" });
      const model = worker("look", "look");
      const of = world.engine(model, { tools: [look.tool] });
      const first = world.process(of, { diesAfter: (_, count) => count === dies });
      const begun = first.start("hi", { id: "s1" }).then(({ result }) => result);
      await Promise.race([begun, first.died]);
      const total = world.writes.length;
      await world.leaseRunsOut();
      const second = world.process(of);
      await second.recover();
      await second.attach("s1").result;
      const keys = (await world.rows("events")).map(({ key }) => key[2]);
      return {
        total,
        keys,
        storedEvents: await storedEvents(world),
        talk: await talk(second),
        runs: look.runs,
        asked: model.asked,
      };
    };
    const whole = await life(null);
    expect(whole.keys).toEqual(whole.storedEvents.map((_, index) => index + 1));
    expect([whole.asked.length, whole.runs.length]).toEqual([3, 2]);
    for (let dies = 1; dies < whole.total; dies += 1) {
      const { keys, storedEvents: events, talk: said, runs, asked } = await life(dies);
      expect([dies, keys, events, said]).toEqual([dies, whole.keys, whole.storedEvents, whole.talk]);
      // Recorded effects are not performed again, only those under way at the kill.
      expect(asked.length + runs.length).toBeLessThanOrEqual(6);
    }
  });

  test("Q1 no effect is performed before the commit that caused it", async () => {
    const world = new World();
    const committed: unknown[] = [];
    const look = counting("look", {
      handler: async () => committed.push(...(await world.values("turns"))),
    });
    const turn = await world.process(world.engine(worker("look"), { tools: [look.tool] })).start("hi", { id: "s1" });
    await turn.result;
    expect(committed).toMatchObject([{ status: "running", committed: 1 }]);
  });
});

describe("Q2 records inside an effect", () => {
  test("Q2 attempts and sleeps are recorded under the effect id, with the usage of every attempt", async () => {
    const world = new World();
    const model = thinker((_, n) => [
      { type: "usage", usage: { inputTokens: n === 1 ? 100 : 10 } },
      ...(n === 1 ? ([{ type: "error", reason: "timeout" }] as const) : says("Hello.")),
    ]);
    const first = world.process(world.engine(model), { diesAfter: writes("records", "delay/1") });
    const { turnId } = await first.start("hi", { id: "s1" });
    await first.died;
    const keys = (await world.rows("records")).map(({ key }) => key.slice(2));
    expect(keys).toEqual([
      [turnId, `${turnId}/0/model`, "attempt/1"],
      [turnId, `${turnId}/0/model`, "delay/1"],
    ]);
    await world.leaseRunsOut();
    const second = world.process(world.engine(model));
    await second.recover();
    expect(await second.attach("s1", turnId).result).toMatchObject({ text: "Hello.", usage: { inputTokens: 110 } });
    expect(model.asked).toHaveLength(2);
    expect((await second.usage("s1")).total.inputTokens).toBe(110);
    expect((await sessionOf(second)).usage.inputTokens).toBe(110);
  });
});

describe("Q3 start marks of tools", () => {
  const started = writes("records", "started");

  test("Q3 a start mark has the lease epoch and the replay policy, and is written with the reply if no approval has to be checked", async () => {
    const world = new World();
    const pay = counting("pay");
    await (
      await world.process(world.engine(worker("pay"), { tools: [pay.tool] })).start("hi")
    ).result;
    const marks = world.writes.filter(started);
    expect(marks).toHaveLength(1);
    expect(marks[0]?.batch.puts.map(({ table }) => table)).toContain("journal");
    expect(await world.values("records")).toEqual([{ epoch: 1, policy: "never", name: "pay", arguments: { n: 0 } }]);
  });

  test("Q3 a tool with a needsApproval function records its preparation, and is marked in a separate write when it gets its slot", async () => {
    const world = new World();
    const pay = counting("pay", { needsApproval: () => false, replay: "ask" });
    await (
      await world.process(world.engine(worker("pay"), { tools: [pay.tool] })).start("hi")
    ).result;
    const names = world.writes.flatMap(({ batch }) => batch.puts.filter(({ table }) => table === "records"));
    expect(names.map(({ key }) => key[4])).toEqual(["prepared", "started"]);
    const mark = world.writes.find(started);
    expect(mark?.batch.puts.map(({ table }) => table)).toEqual(["records"]);
    expect(mark?.batch.checks.map(({ table }) => table)).toEqual(["leases"]);
    expect(await world.values("records")).toMatchObject([
      { type: "ready", arguments: { n: 0 } },
      { epoch: 1, policy: "ask" },
    ]);
  });

  test("Q3 a call that waits for a concurrency slot is not marked", async () => {
    const world = new World();
    const barrier = gate();
    const slow = counting("slow", { handler: () => barrier.wait() });
    const model = thinker(({ messages }) =>
      !isFirst(messages) ? says("Done.") : [call("slow", {}, "c0"), call("slow", {}, "c1")],
    );
    const of = world.engine(model, { tools: [slow.tool], options: { maxConcurrency: 1 } });
    const turn = await world.process(of).start("hi");
    await barrier.reached;
    expect(await world.rows("records")).toHaveLength(1);
    barrier.open();
    await turn.result;
    expect(await world.rows("records")).toHaveLength(2);
  });

  test("Q3 recovery performs a call without a start mark", async () => {
    const world = new World();
    // A call with a needsApproval function is marked after the function has returned, not in the commit of the reply.
    const pay = counting("pay", { needsApproval: () => false });
    const of = world.engine(worker("pay"), { tools: [pay.tool] });
    const first = world.process(of, { diesBefore: started });
    const { turnId } = await first.start("hi", { id: "s1" });
    await first.died;
    expect(await world.rows("journal")).toHaveLength(1);
    await world.leaseRunsOut();
    const second = world.process(of);
    await second.recover();
    expect((await second.attach("s1", turnId).result).text).toBe("Done.");
    expect(pay.runs).toEqual([{ n: 0 }]);
  });

  test("Q3 the first effects of a queued turn are marked when a worker claims the turn, not when it is accepted", async () => {
    const world = new World();
    const pay = counting("pay", { needsApproval: true });
    const of = world.engine(worker("pay"), { tools: [pay.tool] });
    const accepting = world.process(of, { drive: false });
    const working = world.process(of);
    await accepting.start("hi", { id: "s1" });
    await working.recover();
    await working.attach("s1").result;
    const { turnId } = await accepting.decide("s1", "c0", { type: "approve" });
    expect(world.writes.filter(started)).toHaveLength(0);
    await working.recover();
    await working.attach("s1", turnId).result;
    expect(world.writes.filter(started)).toHaveLength(1);
    expect(pay.runs).toHaveLength(1);
  });

  test("Q3 the outcome_unknown of a recovery is recorded, so later recoveries give the same answer", async () => {
    const world = new World();
    const barrier = gate();
    const pay = counting("pay", { handler: () => barrier.wait() });
    const of = world.engine(worker("pay"), { tools: [pay.tool] });
    const first = world.process(of);
    const { turnId } = await first.start("hi", { id: "s1" });
    await barrier.reached;
    first.kill();
    await world.leaseRunsOut();
    const second = world.process(of, { diesAfter: (write) => writes("journal")(write) });
    await second.recover();
    await second.died;
    // The checkpoint that follows is in the same commit.
    expect((await world.values("journal")).at(-2)).toMatchObject({
      item: { response: { outcome: { type: "failure", failure: { reason: "outcome_unknown" } } } },
    });
    await world.leaseRunsOut();
    const third = world.process(world.engine(worker("pay"), { tools: [{ ...pay.tool, replay: "safe" }] }));
    await third.recover();
    expect((await third.attach("s1", turnId).result).text).toBe("Done.");
    expect(pay.runs).toHaveLength(1);
  });
});

describe("Q3 a tool with the replay policy ask after a crash", () => {
  test("Q3 is pending as outcome_unknown and accepts a result, an approval to run again, or a denial", async () => {
    for (const [answer, ran, expectedText] of [
      ["result", 1, "tool it went through"],
      ["approve", 2, "tool pay: ok"],
      ["deny", 1, "not again"],
    ] as const) {
      const world = new World();
      const barrier = gate();
      const pay = counting("pay", {
        replay: "ask",
        handler: () => (pay.runs.length === 1 ? barrier.wait() : "pay: ok"),
      });
      const of = world.engine(worker("pay"), { tools: [pay.tool] });
      const first = world.process(of);
      const { turnId } = await first.start("hi", { id: "s1" });
      await barrier.reached;
      first.kill();
      await world.leaseRunsOut();
      const second = world.process(of);
      await second.recover();
      await second.attach("s1", turnId).result;
      expect(await sessionOf(second)).toMatchObject({
        status: "awaiting_tools",
        pendingToolCalls: [{ id: "c0", reason: "outcome_unknown" }],
      });
      const turn =
        answer === "result"
          ? await second.submitToolResults("s1", [["c0", "it went through"]])
          : await second.decide(
              "s1",
              "c0",
              answer === "approve" ? { type: answer } : { type: answer, reason: "not again" },
            );
      expect((await turn.result).text).toBe("Done.");
      expect((await talk(second)).join("\n")).toContain(expectedText);
      expect(pay.runs).toHaveLength(ran);
    }
  });
});

describe("Q4 late results", () => {
  const own = { ...counting("own").tool, manual: true };

  test("Q4 stored messages stay in commit order, and the model sees each result at its call, in call order", async () => {
    const world = new World();
    const look = counting("look");
    const model = thinker(({ messages }) =>
      isFirst(messages) ? [call("own", {}, "c0"), call("look", {}, "c1")] : says("Done."),
    );
    const of = world.process(world.engine(model, { tools: [own, look.tool] }));
    await (
      await of.start("hi", { id: "s1" })
    ).result;
    await (
      await of.submitToolResults("s1", [["c0", "mine"]])
    ).result;
    expect(await talk(of)).toEqual(["user hi", "assistant ", "tool look: ok", "tool mine", "assistant Done."]);
    expect(heard(model.asked[1])).toEqual(["user hi", "assistant ", "tool mine", "tool look: ok"]);
    expect(validateThread((await sessionOf(of)).thread).ok).toBe(true);
  });

  test("Q4 a decided call stays pending, with its decision, until its result is committed", async () => {
    const world = new World();
    const barrier = gate();
    const pay = counting("pay", { needsApproval: true, handler: () => barrier.wait() });
    const of = world.process(world.engine(worker("pay"), { tools: [pay.tool] }));
    await (
      await of.start("hi", { id: "s1" })
    ).result;
    await of.decide("s1", "c0", { type: "approve", by: "Ada" }, { continue: false });
    const decided = [{ id: "c0", decision: { type: "approve", by: "Ada" } }];
    expect((await sessionOf(of)).pendingToolCalls).toMatchObject(decided);
    const turn = await of.continue("s1");
    await barrier.reached;
    expect((await sessionOf(of)).pendingToolCalls).toMatchObject(decided);
    barrier.open();
    await turn.result;
    expect((await sessionOf(of)).pendingToolCalls).toEqual([]);
  });

  test("Q4 a question is a reason to wait; several questions of one reply wait in order", async () => {
    const world = new World();
    const ask = counting("ask", {
      handler: ({ about }) => askUser(`Which ${String(about)}?`, { answerAs: "tool_result" }),
    });
    const model = thinker(({ messages }) =>
      isFirst(messages) ? [call("ask", { about: "day" }, "c0"), call("ask", { about: "hour" }, "c1")] : says("Done."),
    );
    const of = world.process(world.engine(model, { tools: [ask.tool] }));
    await (
      await of.start("hi", { id: "s1" })
    ).result;
    expect(await sessionOf(of)).toMatchObject({
      status: "awaiting_user",
      pendingQuestion: "Which day?",
      pendingToolCalls: [{ reason: "question" }, { reason: "question" }],
    });
    expect((await of.reply("s1", "Monday")).turnId).toBe(null);
    expect((await sessionOf(of)).pendingQuestion).toBe("Which hour?");
    expect((await (await of.reply("s1", "noon")).result).text).toBe("Done.");
    expect(heard(model.asked[1]).slice(2, 4)).toEqual(["tool Monday", "tool noon"]);
  });
});

describe("Q5 suspended code cells", () => {
  const protocol = { type: "code", executor: quickjs() } as const;
  const cell = (code: string): FakeScript => says(`\`\`\`js\n${code}\n\`\`\``);

  test("Q5 a cell is session data and resumes in its pinned environment after a deploy", async () => {
    const world = new World();
    const look = counting("look", { replay: "safe" });
    const pay = counting("pay", { needsApproval: true, handler: ({ n }) => `paid ${String(n)}` });
    const tools = [look.tool, pay.tool];
    const model = thinker(({ messages }) =>
      isFirst(messages) ? cell("const a = await look({}); print(a, await pay({ n: 3 }));") : says("Done."),
    );
    const before = world.process(world.engine(model, { protocol, tools, instructions: "Old." }));
    const begun = await before.start("hi", { id: "s1" });
    await begun.result;
    const { suspendedCell, pendingToolCalls } = await sessionOf(before);
    expect(suspendedCell).toMatchObject({
      code: expect.stringContaining("await look"),
      executor: { name: expect.any(String), version: expect.any(String) },
      environment: { instructions: expect.stringContaining("Old.") },
      calls: [{ answer: { value: "look: ok" } }, { answer: null }],
    });
    const [pending] = pendingToolCalls;
    const after = world.process(world.engine(model, { protocol, tools, instructions: "New." }));
    const turn = await after.decide("s1", pending?.id ?? "", { type: "approve" });
    expect((await turn.result).text).toBe("Done.");
    expect(heard(model.asked[1]).join("\n")).toContain("look: ok paid 3");
    expect([look.runs.length, pay.runs.length]).toEqual([1, 1]);
    expect((await sessionOf(after)).suspendedCell).toBe(null);
    const cells = [...(await world.journal(begun.turnId)), ...(await world.journal(turn.turnId))].flatMap(({ asked }) =>
      asked["type"] === "run_code" ? [asked["answers"]] : [],
    );
    // The effect has the cell id and the number of answers, not the answers.
    expect(cells).toEqual([0, 1, 2]);
    expect(heard(model.asked[1])[0]).toContain("New.");
  });

  test("Q5 a cell that makes other calls when it is run again is diverged, and the model sees the calls that ran", async () => {
    const world = new World();
    const pay = counting("pay", { needsApproval: true });
    const look = counting("look");
    const answered: number[] = [];
    const fickle: CodeExecutor = {
      ...quickjs(),
      run: async ({ calls }) => {
        answered.push(calls.length);
        if (answered.length === 1) return { type: "calls", calls: [{ name: "look", arguments: {} }] };
        if (answered.length === 2) return { type: "calls", calls: [{ name: "pay", arguments: {} }] };
        return { type: "failed", reason: "diverged", message: "it asked for something else" };
      },
    };
    const model = thinker(({ messages }) => (isFirst(messages) ? cell("await pay({})") : says("Oh.")));
    const of = world.process(
      world.engine(model, { protocol: { ...protocol, executor: fickle }, tools: [pay.tool, look.tool] }),
    );
    await (
      await of.start("hi", { id: "s1" })
    ).result;
    const [pending] = (await sessionOf(of)).pendingToolCalls;
    await (
      await of.decide("s1", pending?.id ?? "", { type: "approve" })
    ).result;
    const lastMessage = heard(model.asked[1]).at(-1) ?? "";
    expect(lastMessage).toContain("it made different calls when it ran again");
    expect(lastMessage).toContain("look");
    expect(lastMessage).toContain("pay");
    expect((await sessionOf(of)).status).toBe("completed");
  });

  test("Q5 another executor cannot resume a cell", async () => {
    const world = new World();
    const pay = counting("pay", { needsApproval: true });
    const model = thinker(({ messages }) => (isFirst(messages) ? cell("print(await pay({}))") : says("Oh.")));
    const first = world.process(world.engine(model, { protocol, tools: [pay.tool] }));
    await (
      await first.start("hi", { id: "s1" })
    ).result;
    const executor = { ...quickjs(), version: "another" };
    const second = world.process(world.engine(model, { protocol: { ...protocol, executor }, tools: [pay.tool] }));
    const [pending] = (await sessionOf(second)).pendingToolCalls;
    await (
      await second.decide("s1", pending?.id ?? "", { type: "approve" })
    ).result;
    expect(heard(model.asked[1]).at(-1)).toContain("it made different calls when it ran again");
  });

  test("Q5 a question inside a cell is answered as the tool's result", async () => {
    const world = new World();
    const ask = counting("ask", { handler: () => askUser("Which day?") });
    const model = thinker(({ messages }) => (isFirst(messages) ? cell("print('on ' + await ask({}))") : says("Ok.")));
    const of = world.process(world.engine(model, { protocol, tools: [ask.tool] }));
    await (
      await of.start("hi", { id: "s1" })
    ).result;
    expect(await sessionOf(of)).toMatchObject({ status: "awaiting_user", pendingQuestion: "Which day?" });
    await (
      await of.reply("s1", "Monday")
    ).result;
    expect(heard(model.asked[1]).at(-1)).toContain("on Monday");
    expect(heard(model.asked[1])).not.toContain("user Monday");
    expect(await talk(of)).toContain("user Monday");
  });
});

describe("Q6 kernel revisions", () => {
  test("Q6 a turn row pins the kernel revision, and a model call identifies its history by length and digest", async () => {
    const world = new World();
    const look = counting("look");
    const { turnId, result } = await world.process(world.engine(worker("look"), { tools: [look.tool] })).start("hi");
    await result;
    expect(await world.values("starts")).toMatchObject([{ revision: kernelRevision }]);
    const asked = (await world.journal(turnId)).filter(({ asked: { type } }) => type === "call_model");
    expect(asked.map(({ asked: { history } }) => history)).toEqual([
      { length: 1, digest: expect.any(String) },
      { length: 3, digest: expect.any(String) },
    ]);
  });

  /** A world with an open turn in session s1 whose first step was begun, pinned to another kernel revision. */
  async function openTurnOf(revision: number) {
    const world = new World();
    const look = counting("look", { replay: "safe" });
    const model = worker("look");
    const of = world.engine(model, { tools: [look.tool] });
    const first = world.process(of, { diesAfter: writes("journal") });
    const { turnId } = await first.start("hi", { id: "s1" });
    await first.died;
    await world.leaseRunsOut();
    const [row] = await world.rows("starts");
    if (row === undefined || turnId === null) throw new Error("no turn was accepted");
    const { version, data } = JSON.parse(row.value);
    await world.raw("starts", row, JSON.stringify({ version, data: { ...data, revision } }));
    return { world, of, turnId, model, look };
  }

  test("Q6 a turn of a newer kernel revision is rejected with newer_schema and left unchanged", async () => {
    const newer = kernelRevision + 1;
    const { world, of, turnId, model, look } = await openTurnOf(newer);
    // Only the lease and the place in the index of due work change.
    const tables = ["sessions", "entries", "starts", "journal", "records", "events"] as const;
    const before = await world.everything(tables);
    const [turn] = await world.values("turns");
    const second = world.process(of);
    await second.recover("s1");
    await expect(second.attach("s1", turnId).result).rejects.toMatchObject({
      name: "RuntimeError",
      reason: "newer_schema",
      message: expect.stringMatching(new RegExp(`revision ${newer}.*revisions up to ${kernelRevision}.*deploy`)),
    });
    expect(await world.everything(tables)).toBe(before);
    expect([model.asked.length, look.runs.length]).toEqual([1, 0]);
    // The lease is released: a process of a newer release need not wait for it to expire.
    expect(await world.values("leases")).toMatchObject([{ released: true }]);
    expect(await world.values("turns")).toMatchObject([Object(turn)]);
  });

  test("Q6 a turn of a newer kernel revision does not block other sessions, and a worker tries it once", async () => {
    const { world, of } = await openTurnOf(kernelRevision + 1);
    await world.process(of, { drive: false }).start("hi", { id: "s2" });
    const second = world.process(of);
    const stop = new AbortController();
    const working = second.work({ signal: stop.signal });
    expect(await second.attach("s2").result).toMatchObject({ status: "ended", text: "Done." });
    const claims = () => world.writes.filter(writes("leases", "s1")).length;
    const tried = claims();
    await world.clock.advance(30_000);
    expect(claims()).toBe(tried);
    expect((await second.get("s1"))?.openTurn).toMatchObject({ status: "running", failure: null });
    stop.abort();
    await working;
  });

  test("Q6 a turn of an older kernel revision is continued", async () => {
    const { world, of, turnId, look } = await openTurnOf(kernelRevision - 1);
    const second = world.process(of);
    await second.recover();
    expect(await second.attach("s1", turnId).result).toMatchObject({ status: "ended", text: "Done." });
    expect(look.runs).toHaveLength(1);
    expect(await world.values("starts")).toMatchObject([{ revision: kernelRevision - 1 }]);
  });

  test("Q6 the record of a turn of a newer kernel revision is not replayed", async () => {
    const world = new World();
    const of = world.process(world.engine(worker()));
    await (
      await of.start("hi", { id: "s1" })
    ).result;
    const record = await inspection(of.source).export("s1");
    const start = { ...record.data.start, revision: kernelRevision + 1 };
    const replayed = replayTurn({ ...record, data: { ...record.data, start } });
    await expect(replayed).rejects.toMatchObject({ reason: "newer_schema" });
  });
});

describe("Q7 attempts and live events", () => {
  test("Q7 live events carry epoch and attempt number but no sequence, and a newer attempt begins with a step_reset", async () => {
    const world = new World();
    const hand = handModel();
    const first = world.process(world.engine(hand), { live: {} });
    const turn = await first.start("hi", { id: "s1" });
    const one = await hand.call(1);
    await one.say("Hel");
    const before = await readUntil(turn.events, hasHeard("Hel"));
    expect(before.at(-1)).toMatchObject({ sequence: null, delta: { attempt: { epoch: 1, n: 1 }, offset: 0 } });
    first.kill();
    await world.leaseRunsOut();
    const second = world.process(world.engine(hand), { live: {} });
    await second.recover();
    const two = await hand.call(2);
    const rest = eventsOf(second.events("s1", { after: before.at(-1)?.cursor ?? "", turnId: turn.turnId ?? "" }));
    await two.say("Hallo.");
    two.finish();
    const after = await rest;
    expect(reading([...before, ...after])).toMatchObject({ resets: 1, replies: ["Hallo."] });
    expect(after.find(({ event }) => event.type === "step_reset")).toMatchObject({
      sequence: null,
      event: { effectId: `${turn.turnId}/0/model`, attempt: { epoch: 2, n: 1 } },
    });
    expect(await world.values("events")).toContainEqual(
      expect.objectContaining({ settles: { effectId: `${turn.turnId}/0/model`, epoch: 2, n: 1 } }),
    );
  });

  test("Q7 a reader within the attempt that was recorded gets the rest of its text, any other reader a reset and then the event", async () => {
    const world = new World();
    const hand = handModel();
    const of = world.process(world.engine(hand));
    const turn = await of.start("hi", { id: "s1" });
    const one = await hand.call(1);
    await one.say("Hel");
    const cursor = (await readUntil(turn.events, hasHeard("Hel"))).at(-1)?.cursor ?? "";
    await one.say("lo.");
    one.finish();
    await turn.result;
    const deltas = async (after: string) =>
      (await eventsOf(of.events("s1", { after, follow: false }))).slice(0, 2).map(({ event }) => line(event));
    expect(await deltas(cursor)).toEqual([
      expect.stringContaining("lo."),
      expect.stringContaining("message_completed"),
    ]);
    const other = cursor.replace(";1.1;", ";1.2;");
    expect(await deltas(other)).toEqual([
      expect.stringContaining("step_reset"),
      expect.stringContaining("message_completed"),
    ]);
  });

  test("Q7 tool progress and retries are live events with effect and attempt, without a sequence", async () => {
    const world = new World();
    const busy = counting("busy", {
      retry: { type: "safe", maxAttempts: 2, baseDelayMs: 10, maxDelayMs: 0 },
      handler: (_, { progress }) => {
        progress(0.5);
        return busy.runs.length === 1 ? fail("busy", { retry: { type: "safe", afterMs: null } }) : "ok";
      },
    });
    const of = world.process(world.engine(worker("busy"), { tools: [busy.tool] }));
    const turn = await of.start("hi", { id: "s1" });
    const reads = eventsOf(turn.events);
    await world.clock.advance(10);
    const live = (await reads).filter(({ event }) =>
      ["tool_execution_started", "tool_progress", "retry_scheduled"].includes(event.type),
    );
    const effectId = `${turn.turnId}/0/tool/0`;
    const [first, second] = [1, 2].map((n) => ({ sequence: null, event: { effectId, attempt: { epoch: 1, n } } }));
    expect(live).toMatchObject([first, first, first, second, second]);
    expect((await world.values("events")).some((stored) => JSON.stringify(stored).includes("tool_progress"))).toBe(
      false,
    );
  });

  test("Q7 the model that answered is recorded and used for the rest of the turn, by any process", async () => {
    const world = new World();
    const look = counting("look", { replay: "safe" });
    const model = thinker(({ model: name, messages }) => {
      if (name === "fake:m") return [{ type: "error", reason: "content_filter" }];
      return isFirst(messages) ? [call("look")] : says("Done.");
    });
    const of = world.engine(model, { tools: [look.tool], fallback: ["fake:b"] });
    const first = world.process(of, { diesAfter: (write) => writes("journal")(write) });
    const { turnId } = await first.start("hi", { id: "s1" });
    await first.died;
    await world.leaseRunsOut();
    const second = world.process(of);
    await second.recover();
    await second.attach("s1", turnId).result;
    expect(model.asked.map(({ model: name }) => name)).toEqual(["fake:m", "fake:b", "fake:b"]);
  });

  test("Q7 the adapter that answered is used for the rest of the turn, also after recovery", async () => {
    const world = new World();
    const look = counting("look", { replay: "safe" });
    const refuses: FakeScript = [{ type: "error", reason: "content_filter" }];
    const primary = fake({ scripts: [refuses, refuses] });
    const failing = fake({ provider: "failing", scripts: [refuses, refuses] });
    const answering = fake({ provider: "answering", scripts: [[call("look")], says("Done.")] });
    const asked = () => [primary, failing, answering].map(({ calls }) => calls.length);
    // All three providers have a model of this name.
    const fallback = [failing, answering].map((adapter) => ({ adapter, model: "fake:m" }));
    const of = world.engine(primary, { tools: [look.tool], fallback });
    const first = world.process(of, { diesAfter: writes("journal") });
    const { turnId } = await first.start("hi", { id: "s1" });
    await first.died;
    expect(asked()).toEqual([1, 1, 1]);
    await world.leaseRunsOut();
    const second = world.process(of);
    await second.recover();
    expect(await second.attach("s1", turnId).result).toMatchObject({ text: "Done." });
    expect(asked()).toEqual([1, 1, 2]);
  });
});

describe("Q8 when answers start a turn", () => {
  const own = { ...counting("own").tool, manual: true };
  const twice = thinker(({ messages }) => {
    return isFirst(messages) ? [call("own", {}, "c0"), call("own", {}, "c1")] : says("Done.");
  });

  test("Q8 the answer to the last open call starts the turn, and earlier answers are only recorded", async () => {
    const world = new World();
    const of = world.process(world.engine(twice, { tools: [own] }));
    await (
      await of.start("hi", { id: "s1" })
    ).result;
    const first = await of.submitToolResults("s1", [["c1", "two"]]);
    expect([first.turnId, (await first.result).status]).toEqual([null, "waiting"]);
    expect(await talk(of)).toContain("tool two");
    expect((await (await of.submitToolResults("s1", [["c0", "one"]])).result).text).toBe("Done.");
  });

  test("Q8 with continue: false an answer is only recorded, and continue starts the turn", async () => {
    const world = new World();
    const of = world.process(world.engine(twice, { tools: [own] }));
    await (
      await of.start("hi", { id: "s1" })
    ).result;
    const results = [
      ["c0", "one"],
      ["c1", "two"],
    ] as const;
    expect((await of.submitToolResults("s1", results, { continue: false })).turnId).toBe(null);
    expect(await sessionOf(of)).toMatchObject({ status: "idle", pendingToolCalls: [] });
    expect((await (await of.continue("s1")).result).text).toBe("Done.");
  });

  test("Q8 the order is environment, approved calls, model", async () => {
    const world = new World();
    const pay = counting("pay", { needsApproval: true });
    const of = world.process(world.engine(worker("pay"), { tools: [pay.tool], options: { prepareStep: () => null } }));
    await (
      await of.start("hi", { id: "s1" })
    ).result;
    const { turnId, result } = await of.decide("s1", "c0", { type: "approve" });
    await result;
    const effects = (await world.journal(turnId)).map(({ asked }) => asked["type"]);
    expect(effects.slice(0, 3)).toEqual(["sync_environment", "call_tool", "checkpoint"]);
    expect(effects).toContain("call_model");
  });

  test("Q8 changed arguments are validated by decide: invalid ones throw and the call stays pending; needsApproval is not called again", async () => {
    const world = new World();
    let asked = 0;
    const pay = tool({
      name: "pay",
      description: "Pays.",
      schema: { type: "object", properties: { n: { type: "number" } }, required: ["n"] },
      needsApproval: () => {
        asked += 1;
        return true;
      },
      handler: ({ n }) => `paid ${String(n)}`,
    });
    const model = worker("pay");
    const of = world.process(world.engine(model, { tools: [pay] }));
    await (
      await of.start("hi", { id: "s1" })
    ).result;
    const bad = of.decide("s1", "c0", { type: "approve", arguments: { n: "much" } });
    await expect(bad).rejects.toThrow(MisuseError);
    expect((await sessionOf(of)).pendingToolCalls).toMatchObject([{ id: "c0", decision: null }]);
    await (
      await of.decide("s1", "c0", { type: "approve", arguments: { n: 7 } })
    ).result;
    expect(await talk(of)).toContain('tool [The call was approved with changed arguments: {"n":7}]\npaid 7');
    expect(asked).toBe(1);
    // The model's call stays as it was sent.
    expect(model.asked[1]?.messages[1]).toMatchObject({ toolCalls: [{ arguments: { n: 0 } }] });
  });

  test("Q8 a call of a removed tool is not approved; if the tool is gone after the approval was accepted, it is answered not_found and the turn continues", async () => {
    const world = new World();
    const pay = counting("pay", { needsApproval: true });
    await (
      await world.process(world.engine(worker("pay"), { tools: [pay.tool] })).start("hi", { id: "s1" })
    ).result;
    const later = world.process(world.engine(worker("pay")));
    await expect(later.decide("s1", "c0", { type: "approve" })).rejects.toMatchObject({ reason: "unknown_tool" });
    const accepting = world.process(world.engine(worker("pay"), { tools: [pay.tool] }), { drive: false });
    const { turnId } = await accepting.decide("s1", "c0", { type: "approve" });
    expect(await later.drive("s1")).toEqual({ status: "idle" });
    expect((await later.get("s1"))?.session.lastRun).toMatchObject({ turnId, haltedReason: "completed" });
    expect((await later.messages("s1")).items[2]).toMatchObject({ role: "tool", code: "not_found" });
  });
});

describe("Q9 cancel", () => {
  test("Q9 a cancel is recorded in the journal with the partial reply and its usage, and the session stays usable", async () => {
    const world = new World();
    const hand = handModel();
    const of = world.process(world.engine(hand));
    const turn = await of.start("hi", { id: "s1" });
    const one = await hand.call(1);
    await one.say("Half a wo");
    expect(await of.cancel("s1", { reason: "enough", origin: "Ada" })).toBe("cancelled");
    const rows = await world.journal(turn.turnId);
    expect(rows.map(({ row }) => row.item)).toMatchObject([
      {
        type: "cancel",
        cancellation: { evidence: { origin: "Ada", reason: "enough" }, received: { role: "assistant" } },
      },
    ]);
    expect(await turn.result).toMatchObject({ haltedReason: "cancelled" });
    expect(await sessionOf(of)).toMatchObject({ status: "idle", lastRun: { turnId: turn.turnId } });
    expect(one.signal.aborted).toBe(true);
    await of.reply("s1", "again");
    await (await hand.call(2)).say("Ok.");
    (await hand.call(2)).finish();
    expect((await of.attach("s1").result).text).toBe("Ok.");
  });

  test("Q9 the journal row of a cancel has the usage of earlier attempts", async () => {
    const world = new World();
    const model = thinker(() => [
      { type: "usage", usage: { inputTokens: 100 } },
      { type: "error", reason: "timeout" },
    ]);
    const of = world.process(world.engine(model));
    const turn = await of.start("hi", { id: "s1" });
    await eventsUntil(turn.events, "retry_scheduled");
    await of.cancel("s1");
    expect((await of.usage("s1")).lines).toMatchObject([{ source: "cancelled", usage: { inputTokens: 100 } }]);
    expect((await sessionOf(of)).usage.inputTokens).toBe(100);
  });

  test("Q9 a stored cancel survives a crash: the process that takes over performs nothing", async () => {
    const world = new World();
    const hand = handModel();
    const first = world.process(world.engine(hand));
    const turn = await first.start("hi", { id: "s1" });
    await (await hand.call(1)).say("Half");
    first.kill();
    const second = world.process(world.engine(hand), { drive: false });
    void second.cancel("s1", { reason: "enough" });
    await world.leaseRunsOut();
    const third = world.process(world.engine(hand));
    await third.recover();
    expect(await third.attach("s1", turn.turnId).result).toMatchObject({ haltedReason: "cancelled" });
    const [only] = await world.journal(turn.turnId);
    expect(only?.row.item).toMatchObject({ type: "cancel", cancellation: { received: null } });
    expect(hand.calls).toBe(1);
  });

  test("Q9 a reader that received part of the reply before the takeover gets a reset", async () => {
    const world = new World();
    const hand = handModel();
    const first = world.process(world.engine(hand), { live: {} });
    const turn = await first.start("hi", { id: "s1" });
    await (await hand.call(1)).say("Half");
    const before = await readUntil(turn.events, hasHeard("Half"));
    first.kill();
    await world.leaseRunsOut();
    const second = world.process(world.engine(hand));
    await second.cancel("s1");
    const after = { after: before.at(-1)?.cursor ?? "", follow: false } as const;
    const types = (await eventsOf(second.events("s1", after))).map(({ event }) => event.type);
    expect(types.indexOf("step_reset")).toBeGreaterThan(-1);
    expect(types.indexOf("step_reset")).toBeLessThan(types.indexOf("chat_completed"));
  });

  test("Q9 a cancel answers open calls and keeps the results of finished ones", async () => {
    const world = new World();
    const barrier = gate();
    const [quick, slow] = [counting("quick"), counting("slow", { handler: () => barrier.wait() })];
    const model = thinker(() => [call("slow"), call("quick")]);
    const of = world.process(world.engine(model, { tools: [quick.tool, slow.tool] }));
    const turn = await of.start("hi", { id: "s1" });
    await eventsUntil(turn.events, "tool_result_encoded");
    const cancelling = of.cancel("s1");
    await world.clock.advance(50);
    expect(await cancelling).toBe("cancelled");
    const { thread, status, pendingToolCalls } = await sessionOf(of);
    expect([status, pendingToolCalls, validateThread(thread).ok]).toEqual(["idle", [], true]);
    expect(await talk(of)).toContain("tool quick: ok");
    expect(thread.messages.filter(({ role }) => role === "tool")).toHaveLength(2);
  });

  test("[lash 87] Q9 a cancel after the end of the turn returns completion_won", async () => {
    const world = new World();
    const barrier = gate();
    const isEnd = (write: Write): boolean => writes("journal")(write) && writes("sessions")(write);
    const first = world.process(world.engine(worker()), { holds: (write) => (isEnd(write) ? barrier.wait() : null) });
    const turn = await first.start("hi", { id: "s1" });
    await barrier.reached;
    const lost = world.process(world.engine(worker())).cancel("s1");
    await world.clock.advance(200);
    expect(await world.rows("cancels")).toHaveLength(1);
    barrier.open();
    expect(await lost).toBe("completion_won");
    expect((await turn.result).text).toBe("Done.");
    expect(await world.rows("cancels")).toEqual([]);
    expect(await first.cancel("s1", { turnId: turn.turnId ?? "" })).toBe("completion_won");
    expect(await first.cancel("s1")).toBe("nothing_open");
  });

  test("Q9 a cancel ends the named turn only, never the next one", async () => {
    const world = new World();
    const hand = handModel();
    const of = world.process(world.engine(hand));
    const turn = await of.start("hi", { id: "s1" });
    (await hand.call(1)).finish();
    await turn.result;
    const next = await of.reply("s1", "more");
    const two = await hand.call(2);
    expect(await of.cancel("s1", { turnId: turn.turnId ?? "" })).toBe("completion_won");
    await two.say("Still here.");
    two.finish();
    expect((await next.result).text).toBe("Still here.");
  });
});

describe("Q10 child turns", () => {
  const spent = { inputTokens: 5, outputTokens: 2 };

  function family(world: World, replay: "safe" | "never") {
    const barrier = gate();
    const inner = counting("inner", { handler: () => barrier.wait() });
    const childModel = thinker(({ messages }) => (isFirst(messages) ? [call("inner")] : says("Found.")), spent);
    const child = world.engine(childModel, { tools: [inner.tool] });
    const outer = counting("outer", {
      replay,
      handler: async (_, { runChild }) => (await runChild(child, "look")).finalResponse?.outputText ?? "",
    });
    const model = worker("outer");
    return { barrier, inner, childModel, outer, model, engine: world.engine(model, { tools: [outer.tool] }) };
  }

  test("Q10 a tool with the policy safe runs again and replays its child turn without new model calls, and H4 applies to the tools of the child", async () => {
    const world = new World();
    const { barrier, inner, childModel, outer, engine: of } = family(world, "safe");
    const first = world.process(of);
    const { turnId } = await first.start("hi", { id: "s1" });
    await barrier.reached;
    first.kill();
    await world.leaseRunsOut();
    const second = world.process(of);
    await second.recover();
    expect((await second.attach("s1", turnId).result).text).toBe("Done.");
    expect([outer.runs.length, inner.runs.length, childModel.asked.length]).toEqual([2, 1, 2]);
    expect(childModel.asked[1]?.messages.at(-1)).toMatchObject({ role: "tool", code: "outcome_unknown" });
    // The journal of the child is stored under the call and has each row once.
    const inside = (await world.rows("journal")).map(({ key }) => String(key[2])).find((name) => name !== turnId) ?? "";
    const childRows = await world.journal(inside);
    expect(inside).toContain(`${turnId}/0/tool/0`);
    expect(childRows.map(({ asked }) => asked["type"])).toEqual([
      "call_model",
      "call_tool",
      "checkpoint",
      "call_model",
      "checkpoint",
    ]);
    expect(await talk(second)).toContain("tool Found.");
    expect((await second.usage("s1")).lines).toMatchObject([{ source: "tool", usage: { inputTokens: 10 } }]);
  });

  test("Q10 with other policies the child turn is abandoned, and its usage is recorded in the commit that answers the parent call", async () => {
    const world = new World();
    const { barrier, outer, childModel, engine: of } = family(world, "never");
    const first = world.process(of);
    const { turnId } = await first.start("hi", { id: "s1" });
    await barrier.reached;
    first.kill();
    await world.leaseRunsOut();
    const second = world.process(of);
    await second.recover();
    const end = await second.attach("s1", turnId).result;
    expect([outer.runs.length, childModel.asked.length]).toEqual([1, 1]);
    expect(end.usage).toMatchObject({ inputTokens: 5 });
    const answered = world.writes.find((write) => writes("ledger")(write));
    expect(answered?.batch.puts.map(({ table }) => table)).toContain("journal");
    expect((await second.usage("s1")).lines).toMatchObject([{ source: "tool", usage: { inputTokens: 5 } }]);
  });

  test("Q10 a child turn that waits makes the parent call pending with a path to the nested call, and another process continues it", async () => {
    const world = new World();
    const inner = counting("inner", { needsApproval: true });
    const childModel = thinker(
      ({ messages }) => (isFirst(messages) ? [call("inner", { n: 7 })] : says("Found.")),
      spent,
    );
    const child = world.engine(childModel, { tools: [inner.tool] });
    const outer = counting("outer", {
      replay: "safe",
      handler: async (_, { runChild }) => (await runChild(child, "look")).finalResponse?.outputText ?? "",
    });
    const of = world.engine(worker("outer"), { tools: [outer.tool] });
    await (
      await world.process(of).start("hi", { id: "s1" })
    ).result;
    const second = world.process(of);
    const [pending] = (await sessionOf(second)).pendingToolCalls;
    expect(pending).toMatchObject({ id: "c0", name: "outer", reason: "approval" });
    expect(pending?.path.at(-1)).toBe("inner");
    expect((await (await second.decide("s1", "c0", { type: "approve" })).result).text).toBe("Done.");
    expect([inner.runs, childModel.asked.length]).toEqual([[{ n: 7 }], 2]);
    expect(await talk(second)).toContain("tool Found.");
    expect((await second.usage("s1")).total.inputTokens).toBe(10);
  });
});

describe("Q11 checkpoints", () => {
  test("Q11 steered input is added at the next checkpoint as a message, and names the turn that accepts it", async () => {
    const world = new World();
    const barrier = gate();
    const look = counting("look", { handler: () => barrier.wait() });
    const model = worker("look");
    const of = world.process(world.engine(model, { tools: [look.tool] }));
    const turn = await of.start("hi", { id: "s1" });
    await barrier.reached;
    expect((await of.steer("s1", "and hurry")).turnId).toBe(turn.turnId);
    const { version } = (await of.get("s1")) ?? { version: 0 };
    barrier.open();
    await turn.result;
    expect(version).toBe(1);
    expect(await talk(of)).toContain("user and hurry");
    expect(heard(model.asked[1]).at(-1)).toBe("user and hurry");
    expect(await eventsUntil(turn.events, "input_accepted")).toMatchObject({
      event: { turnId: turn.turnId, checkpoint: "after_work" },
    });
  });

  test("Q11 input that no further model call would read is not claimed and becomes the next turn", async () => {
    const world = new World();
    const barrier = gate();
    const look = counting("look", { handler: () => barrier.wait() });
    const model = worker("look", "look");
    const of = world.process(world.engine(model, { tools: [look.tool] }));
    const turn = await of.start("hi", { id: "s1", budgets: { steps: 1 } });
    await barrier.reached;
    const { inputId } = await of.steer("s1", "one more thing");
    barrier.open();
    expect(await turn.result).toMatchObject({ haltedReason: "budget" });
    const isNext = ({ event, turnId }: RuntimeEvent) => event.type === "turn_started" && turnId !== turn.turnId;
    const next = (await readUntil(of.events("s1"), isNext)).at(-1)?.turnId ?? "";
    await of.attach("s1", next).result;
    expect(await of.withdraw("s1", inputId)).toBe("already_taken");
    expect(await talk(of)).toContain("user one more thing");
    expect(await world.rows("inbox")).toEqual([]);
  });

  test("Q11 a final answer completes the turn even if the budget is used up, and accepts no input", async () => {
    const world = new World();
    const hand = handModel();
    const of = world.process(world.engine(hand));
    const turn = await of.start("hi", { id: "s1", budgets: { steps: 1 } });
    const one = await hand.call(1);
    await one.say("Done.");
    await of.steer("s1", "one more thing");
    one.finish();
    expect(await turn.result).toMatchObject({ text: "Done.", haltedReason: "completed", steps: 1 });
    const two = await hand.call(2);
    expect((await of.get("s1"))?.openTurn?.turnId).not.toBe(turn.turnId);
    two.finish();
    await of.attach("s1").result;
  });

  test("Q11 input that arrives before completion is claimed, and the turn continues", async () => {
    const world = new World();
    const hand = handModel();
    const of = world.process(world.engine(hand));
    const turn = await of.start("hi", { id: "s1" });
    const one = await hand.call(1);
    await one.say("Done.");
    await of.steer("s1", "really?");
    one.finish();
    const two = await hand.call(2);
    expect(heard(two.request)).toEqual(["user hi", "assistant Done.", "user really?"]);
    await two.say("Yes.");
    two.finish();
    expect(await turn.result).toMatchObject({ text: "Yes.", steps: 2 });
  });

  test("Q11 steered input waits while a question is open and never answers it", async () => {
    const world = new World();
    const barrier = gate();
    const ask = counting("ask", { handler: () => barrier.wait().then(() => askUser("Which day?")) });
    const model = thinker(({ messages }) => (isFirst(messages) ? [call("ask")] : says("Ok.")));
    const of = world.process(world.engine(model, { tools: [ask.tool] }));
    const turn = await of.start("hi", { id: "s1" });
    await barrier.reached;
    await of.steer("s1", "by the way");
    barrier.open();
    expect(await turn.result).toMatchObject({ haltedReason: "ask_user", session: { turnId: null } });
    expect(await world.rows("inbox")).toHaveLength(1);
    await expect(of.steer("s1", "Monday")).rejects.toThrow(MisuseError);
    await (
      await of.reply("s1", "Monday")
    ).result;
    expect((await sessionOf(of)).pendingQuestion).toBe(null);
    expect(heard(model.asked.at(-1))).toContain("user by the way");
  });
});

describe("Q12 budgets", () => {
  test("Q12 a used-up budget ends the run with the reason budget, lastRun names it, and no structured call follows", async () => {
    const world = new World();
    const look = counting("look");
    const model = thinker(() => [call("look"), { type: "usage", usage: { inputTokens: 60, outputTokens: 1 } }]);
    const of = world.process(world.engine(model, { tools: [look.tool] }));
    const output = { type: "object" } as const;
    const options = { id: "s1", budgets: { tokens: 100 }, output, structuredFinalize: true } as const;
    const end = await (await of.start("hi", options)).result;
    expect(end).toMatchObject({ haltedReason: "budget", steps: 2 });
    expect((await sessionOf(of)).lastRun).toMatchObject({ haltedReason: "budget", budget: "tokens" });
    expect(model.asked).toHaveLength(2);
    expect(model.asked.every(({ responseFormat }) => responseFormat === null)).toBe(true);
  });

  test("Q12 a cost budget checks the prices of all fallbacks before anything is stored", async () => {
    const world = new World();
    const of = world.process(world.engine(worker(), { model: priced("m"), fallback: [priced("n"), "fake:unpriced"] }));
    await expect(of.start("hi", { id: "s1", budgets: { cost: 1 } })).rejects.toMatchObject({ reason: "unknown_price" });
    expect(world.writes).toEqual([]);
  });

  test("Q12 a model without a price that is chosen later fails the turn with unknown_price", async () => {
    const world = new World();
    const look = counting("look");
    const model = thinker(() => [call("look"), { type: "usage", usage: { inputTokens: 1, outputTokens: 1 } }]);
    const of = world.process(
      world.engine(model, {
        model: priced("m"),
        tools: [look.tool],
        options: { prepareStep: ({ step }) => (step === 1 ? { model: "fake:unpriced" } : null) },
      }),
    );
    const end = await (await of.start("hi", { id: "s1", budgets: { cost: 1 } })).result;
    expect(end).toMatchObject({ haltedReason: "error" });
    expect(JSON.stringify(end.failure)).toContain("unknown_price");
  });

  test("Q12 the time budget counts the duration of effects, not an outage", async () => {
    const world = new World();
    const look = counting("look", { replay: "safe", handler: () => world.clock.sleep(400) });
    const of = world.engine(worker("look", "look"), { tools: [look.tool] });
    const first = world.process(of, { diesAfter: (write, n) => writes("journal")(write) && n > 2 });
    const { turnId } = await first.start("hi", { id: "s1", budgets: { timeMs: 1000 } });
    await world.clock.advance(400);
    await first.died;
    await world.clock.advance(36_000_000);
    const second = world.process(of);
    await second.recover();
    await world.clock.advance(400);
    expect(await second.attach("s1", turnId).result).toMatchObject({ text: "Done.", haltedReason: "completed" });
  });

  test("Q12 prepareStep selects tools of the engine by name, and pinned environments are stored once by content hash", async () => {
    const world = new World();
    const [look, pay] = [counting("look"), counting("pay")];
    const model = worker("look");
    const of = world.process(
      world.engine(model, {
        tools: [look.tool, pay.tool],
        options: { prepareStep: ({ step }) => (step === 1 ? { tools: ["pay"] } : null) },
      }),
    );
    await (
      await of.start("hi", { id: "s1" })
    ).result;
    expect(model.asked.map(({ tools }) => tools.map(({ name }) => name))).toEqual([["look", "pay"], ["pay"]]);
    await (
      await of.reply("s1", "more")
    ).result;
    await (
      await of.start("hi", { id: "s2" })
    ).result;
    expect(await world.rows("contents")).toHaveLength(1);
  });

  test("Q12 token budgets continue over the turns of a session", async () => {
    const world = new World();
    const look = counting("look");
    const model = thinker(({ messages }) => {
      const spent = { type: "usage", usage: { inputTokens: 40, outputTokens: 0 } } as const;
      return messages.at(-1)?.role === "tool" ? [...says("Done."), spent] : [call("look"), spent];
    });
    const of = world.process(world.engine(model, { tools: [look.tool] }));
    await (
      await of.start("hi", { id: "s1", budgets: { tokens: 100 } })
    ).result;
    const second = await (await of.reply("s1", "more", { budgets: { tokens: 100 } })).result;
    expect([second.haltedReason, second.steps]).toEqual(["budget", 1]);
  });
});

describe("Q13 structuredFinalize", () => {
  const output = { type: "object", properties: { n: { type: "number" } } } as const;
  const options = { id: "s1", output, structuredFinalize: true, structuredFinalizeNudge: "As JSON, please." } as const;

  test("Q13 the checkpoint before_completion precedes it, and its prompt and structured reply are committed together", async () => {
    const world = new World();
    const model = thinker(({ responseFormat }) => says(responseFormat === null ? "One." : '{"n":1}'));
    const of = world.process(world.engine(model));
    const turn = await of.start("hi", options);
    await turn.result;
    const rows = await world.journal(turn.turnId);
    expect(rows.map(({ asked }) => asked["type"])).toEqual(["call_model", "checkpoint", "call_model"]);
    expect(await talk(of)).toEqual(["user hi", "assistant One.", "user As JSON, please.", 'assistant {"n":1}']);
    const [nudged, replied] = ["As JSON, please.", '{\\"n\\":1}'].map((text) =>
      world.writes.findIndex(({ batch }) =>
        batch.puts.some(({ table, value }) => table === "entries" && value.includes(text)),
      ),
    );
    expect(nudged).toBe(replied);
  });

  test("Q13 a cancel keeps the thread of pass 1 without the prompt of pass 2; lastRun has the partial reply and pass1Halted", async () => {
    const world = new World();
    const hand = handModel();
    const of = world.process(world.engine(hand));
    const turn = await of.start("hi", options);
    const one = await hand.call(1);
    await one.say("One.");
    one.finish();
    await (await hand.call(2)).say('{"n"');
    expect(await of.cancel("s1")).toBe("cancelled");
    expect(await turn.result).toMatchObject({ haltedReason: "cancelled" });
    expect(await talk(of)).toEqual(["user hi", "assistant One."]);
    expect((await sessionOf(of)).lastRun).toMatchObject({
      haltedReason: "cancelled",
      partial: { role: "assistant", content: '{"n"' },
      metadata: { structuredFinalize: { pass1Halted: "completed" } },
    });
  });

  test("Q13 a crash during the structured call leaves no prompt in the thread", async () => {
    const world = new World();
    const hand = handModel();
    const first = world.process(world.engine(hand));
    await first.start("hi", options);
    const one = await hand.call(1);
    await one.say("One.");
    one.finish();
    await (await hand.call(2)).say('{"n"');
    first.kill();
    expect((await talk(world.process(world.engine(hand)))).join()).not.toContain("As JSON, please.");
  });
});

describe("Q14 restarting a step", () => {
  /**
   * A turn that was interrupted in its second step while the tool ran, and whose recorded step does not match the code.
   */
  async function diedWorld({ pays = {} }: { pays?: Partial<ToolDefinition<JsonObject>> }) {
    const world = new World();
    const barrier = gate();
    const look = counting("look");
    const pay = counting("pay", { handler: () => barrier.wait(), ...pays });
    const model = thinker(({ messages }) => {
      const results = messages.filter(({ role }) => role === "tool").length;
      const name = ["look", "pay"][results];
      const spent = { type: "usage", usage: { inputTokens: 10, outputTokens: 0 } } as const;
      return name === undefined ? [...says("Done."), spent] : [call(name, { n: results }, `c${results}`), spent];
    });
    const of = world.engine(model, { tools: [look.tool, pay.tool] });
    const first = world.process(of);
    const { turnId } = await first.start("hi", { id: "s1" });
    await barrier.reached;
    first.kill();
    const id = `${turnId}/1/model`;
    for (const row of (await world.rows("journal")).filter(({ value }) => value.includes(`"id":"${id}"`))) {
      await world.diverge(row, (effect) => effect.replace('"useTools":true', '"useTools":false'));
    }
    await world.leaseRunsOut();
    return { world, look, pay, model, of, id, turnId };
  }

  async function parkedWorld(pays: Partial<ToolDefinition<JsonObject>>) {
    const died = await diedWorld({ pays });
    const second = died.world.process(died.of);
    await second.recover();
    return { ...died, second, end: await second.attach("s1", died.turnId).result };
  }

  test("Q14 a journal row supersedes those of the open step and names effects that may run twice; inputs, usage and start marks stay", async () => {
    const { world, look, pay, model, second, end, id, turnId } = await parkedWorld({});
    expect(end).toMatchObject({ status: "parked", failure: { reason: "diverged" } });
    expect(model.asked).toHaveLength(2);
    const recovered = await second.recover("s1", { from: "step" });
    expect(recovered).toEqual({ pickedUp: 1, usable: true, mayRunTwice: [id] });
    expect(await second.attach("s1", turnId).result).toMatchObject({ status: "ended", text: "Done." });
    expect((await world.journal(turnId)).map(({ row }) => row.item.type)).toContain("step_restarted");
    // The earlier step stays; the call that may have run does not run again.
    expect([look.runs.length, pay.runs.length, model.asked.length]).toEqual([1, 1, 4]);
    expect((await second.messages("s1")).items.at(-2)).toMatchObject({ role: "tool", code: "outcome_unknown" });
    expect((await second.usage("s1")).total.inputTokens).toBe(40);
    expect((await sessionOf(second)).usage.inputTokens).toBe(40);
  });

  test("Q14 a stored step_reset names the superseded effects", async () => {
    const { second, id } = await parkedWorld({});
    await second.recover("s1", { from: "step" });
    await second.attach("s1").result;
    const events = await eventsOf(second.events("s1", { follow: false }));
    expect(events.find(({ event }) => event.type === "step_reset")).toMatchObject({
      sequence: expect.any(Number),
      event: { reason: "restart", withdrawn: [id] },
    });
    const sequences = events.flatMap(({ sequence }) => (sequence === null ? [] : [sequence]));
    expect(sequences).toEqual(sequences.map((_, index) => index + 1));
  });

  test("Q14 after a crash at any point of parking or restarting, the event log has no gap and the step is restarted", async () => {
    const life = async (parking: number, restarting: number) => {
      const { world, of, turnId } = await diedWorld({});
      const dies = (at: number) => (_: Write, count: number) => count === at;
      const second = world.process(of, { diesAfter: dies(parking) });
      await Promise.race([second.died, second.recover().then(() => second.attach("s1", turnId).result)]);
      second.kill();
      await world.leaseRunsOut();
      const third = world.process(of, { diesAfter: dies(restarting) });
      const restarts = async (): Promise<void> => {
        const { pickedUp } = await third.recover();
        if (pickedUp === 1) await third.attach("s1", turnId).result;
        await third.recover("s1", { from: "step" });
      };
      await Promise.race([third.died, restarts()]);
      third.kill();
      await world.leaseRunsOut();
      const fourth = world.process(of);
      await fourth.recover();
      const { status } = await fourth.attach("s1", turnId).result;
      if (status === "parked") await fourth.recover("s1", { from: "step" });
      expect(await fourth.attach("s1", turnId).result).toMatchObject({ status: "ended", text: "Done." });
      expect((await world.rows("events")).map(({ key }) => key[2])).toEqual(
        (await world.rows("events")).map((_, index) => index + 1),
      );
    };
    await life(Infinity, Infinity);
    for (let dies = 1; dies <= 6; dies += 1) {
      await life(dies, Infinity);
      await life(Infinity, dies);
    }
  });

  test("Q14 the needsApproval result of a superseded call is not applied to another call", async () => {
    const parked = await parkedWorld({ needsApproval: ({ n }) => n !== 1, replay: "safe" });
    const { world, look, pay } = parked;
    const other = thinker(({ messages }) =>
      messages.filter(({ role }) => role === "tool").length === 1 ? [call("pay", { n: 1000 }, "c1")] : says("Done."),
    );
    const third = world.process(world.engine(other, { tools: [look.tool, pay.tool] }));
    await third.recover("s1", { from: "step" });
    expect(await third.attach("s1", parked.turnId).result).toMatchObject({ session: { status: "awaiting_tools" } });
    expect(pay.runs).toEqual([{ n: 1 }]);
  });
});

describe("Q15 single steps, unknown tools", () => {
  test("Q15 step takes no message, ends with stop_after, and leaves the session as the in-memory verb does", async () => {
    const world = new World();
    const look = counting("look");
    const of = world.process(world.engine(worker("look", "look"), { tools: [look.tool] }));
    await (
      await of.start("hi", { id: "s1", maxTurns: 1 })
    ).result;
    const stepped = await (await of.step("s1")).result;
    expect(stepped).toMatchObject({ outcome: { type: "stop_after" }, steps: 1, session: { status: "idle" } });
    expect(await (await of.continue("s1")).result).toMatchObject({ text: "Done.", session: { status: "completed" } });
    expect(look.runs).toHaveLength(2);
  });

  test("Q15 a question is always a message of the thread, also after a single step", async () => {
    const world = new World();
    const [look, ask] = [counting("look"), counting("ask", { handler: () => askUser("Which day?") })];
    const of = world.process(world.engine(worker("look", "ask"), { tools: [look.tool, ask.tool] }));
    await (
      await of.start("hi", { id: "s1", maxTurns: 1 })
    ).result;
    expect(await (await of.step("s1")).result).toMatchObject({ session: { status: "awaiting_user" } });
    expect((await talk(of)).at(-1)).toBe("assistant Which day?");
  });

  test("Q15 manual mode skips the check for unknown tools; onUnknownTool answer runs known tools, answers unknown ones and leaves manual ones pending", async () => {
    const world = new World();
    const look = counting("look");
    const own = { ...counting("own").tool, manual: true };
    const model = thinker(() => [call("look"), call("nowhere"), call("own")]);
    const of = world.process(world.engine(model, { tools: [look.tool, own] }));
    await (
      await of.start("hi", { id: "s1", mode: "manual" })
    ).result;
    expect((await sessionOf(of)).pendingToolCalls.map(({ id }) => id)).toEqual(["look", "nowhere", "own"]);
    await (
      await of.start("hi", { id: "s2", onUnknownTool: "answer" })
    ).result;
    expect((await sessionOf(of, "s2")).pendingToolCalls.map(({ id }) => id)).toEqual(["own"]);
    expect((await of.messages("s2")).items.slice(2)).toMatchObject([{ content: "look: ok" }, { code: "not_found" }]);
    expect(await (await of.start("hi", { id: "s3" })).result).toMatchObject({ haltedReason: "error" });
    expect((await sessionOf(of, "s3")).status).toBe("error");
  });
});
