// The cancel grace (`cancelGraceMs`) of durable turns: the order of the journal, events, other processes, shutdown and
// HTTP.

import type { Process } from "../../test/runtime/world.ts";
import type { Tool, TurnEvent } from "everturn";

import { halt } from "everturn";
import { createHandler } from "everturn/http";
import { describe, expect, test } from "vitest";

import {
  call,
  counting,
  eventsOf,
  gate,
  sessionOf,
  says,
  talk,
  thinker,
  World,
  writes,
} from "../../test/runtime/world.ts";

/** Calls these tools in one reply; replies with a text to later user messages. */
const calling = (...names: readonly string[]) =>
  thinker(({ messages }) =>
    messages.some(({ role }) => role === "assistant") ? says("Next.") : names.map((name) => call(name)),
  );

/** A tool that returns when its gate opens. */
function held(name: string) {
  const barrier = gate();
  const signals: AbortSignal[] = [];
  const { tool, runs } = counting(name, {
    handler: async (_, { signal }) => {
      signals.push(signal);
      await barrier.wait();
      return `${name} done`;
    },
  });
  return { ...barrier, tool, runs, isAborted: () => signals.some(({ aborted }) => aborted) };
}

/** A tool that never returns. */
const stuck = () => counting("stuck", { handler: () => new Promise(() => undefined) }).tool;

const itemsOf = async (world: World, turn: string | null) =>
  (await world.journal(turn)).map(({ row: { item } }) => (item.type === "response" ? item.response.type : item.type));

const recordedEvents = async (of: Pick<Process, "events">): Promise<readonly TurnEvent[]> =>
  (await eventsOf(of.events("s1", { follow: false }))).map(({ event }) => event);

const completedIds = (events: readonly TurnEvent[]): readonly string[] =>
  events.flatMap((event) => (event.type === "tool_execution_completed" ? [event.id] : [])).toSorted();

/** A world with a turn that runs these tools. */
async function started(tools: readonly Tool[], options = {}) {
  const world = new World();
  const of = world.engine(calling(...tools.map(({ name }) => name)), { tools, options });
  const process = world.process(of);
  const turn = await process.start("hi", { id: "s1" });
  return { world, of, process, turn };
}

describe("[lash 71] a durable turn that is cancelled while tools run", () => {
  test("records results within the grace before the cancel, and the others as cancelled", async () => {
    const save = held("save");
    const { world, process, turn } = await started([stuck(), save.tool]);
    await save.reached;
    const cancelling = process.cancel("s1", { reason: "enough" });
    await world.clock.advance(20);
    save.open();
    await world.clock.advance(29);
    expect((await process.get("s1"))?.openTurn).not.toBeNull();
    await world.clock.advance(1);
    expect(await cancelling).toBe("cancelled");
    expect(await itemsOf(world, turn.turnId)).toEqual(["model_replied", "tool_returned", "cancel"]);
    expect(await talk(process)).toEqual([
      "user hi",
      "assistant ",
      "tool [Tool execution cancelled]\nenough",
      "tool save done",
    ]);
    expect(completedIds(await recordedEvents(process))).toEqual(["save", "stuck"]);
    expect(await sessionOf(process)).toMatchObject({ status: "idle", pendingToolCalls: [] });
    expect((await process.reply("s1", "go on").then(({ result }) => result)).text).toBe("Next.");
  });

  test("records the last result and the cancel, also if a checkpoint hook keeps them apart, and makes no model call", async () => {
    for (const options of [{}, { haltWhen: () => false }]) {
      const save = held("save");
      const { world, process, turn } = await started([save.tool], options);
      await save.reached;
      const cancelling = process.cancel("s1");
      await world.clock.advance(1);
      save.open();
      expect(await cancelling).toBe("cancelled");
      expect(await itemsOf(world, turn.turnId)).toEqual(["model_replied", "tool_returned", "cancel"]);
      expect((await talk(process)).at(-1)).toBe("tool save done");
      expect(completedIds(await recordedEvents(process))).toEqual(["save"]);
    }
  });

  test("a process that takes over after the result was recorded only records the cancel", async () => {
    const world = new World();
    const save = held("save");
    const of = world.engine(calling("save"), { tools: [save.tool], options: { haltWhen: () => false } });
    const isResult = writes("journal");
    let journaled = 0;
    // The second journal row is the result of the tool.
    const first = world.process(of, { diesAfter: (write) => isResult(write) && (journaled += 1) === 2 });
    const turn = await first.start("hi", { id: "s1" });
    await save.reached;
    void first.cancel("s1", { reason: "enough" });
    await world.clock.advance(1);
    save.open();
    await first.died;
    await world.leaseRunsOut();
    const second = world.process(of);
    await second.recover();
    expect(await second.attach("s1", turn.turnId).result).toMatchObject({ haltedReason: "cancelled" });
    expect(await itemsOf(world, turn.turnId)).toEqual(["model_replied", "tool_returned", "cancel"]);
    expect((await talk(second)).at(-1)).toBe("tool save done");
    expect(save.runs).toHaveLength(1);
    expect(completedIds(await recordedEvents(second))).toEqual(["save"]);
  });

  test("a process that takes over during the grace cancels without running a tool, with one completion event", async () => {
    const { world, of, process, turn } = await started([stuck()]);
    await world.clock.advance(0);
    void process.cancel("s1", { reason: "enough" });
    await world.clock.advance(10);
    process.kill();
    await world.leaseRunsOut();
    const second = world.process(of);
    await second.recover();
    expect(await second.attach("s1", turn.turnId).result).toMatchObject({ haltedReason: "cancelled" });
    expect(await itemsOf(world, turn.turnId)).toEqual(["model_replied", "cancel"]);
    expect(completedIds(await recordedEvents(second))).toEqual(["stuck"]);
  });

  test("a response that settled while a slow storage wrote another one is not lost", async () => {
    const world = new World();
    const [first, second, slow] = [held("first"), held("second"), gate()];
    let journaled = 0;
    const of = world.engine(calling("first", "second"), { tools: [first.tool, second.tool] });
    const process = world.process(of, {
      holds: (write) => (writes("journal")(write) && (journaled += 1) === 2 ? slow.wait() : null),
    });
    const turn = await process.start("hi", { id: "s1" });
    await Promise.all([first.reached, second.reached]);
    first.open();
    await slow.reached;
    second.open();
    await world.clock.advance(0);
    const cancelling = process.cancel("s1");
    await world.clock.advance(200);
    slow.open();
    expect(await cancelling).toBe("cancelled");
    expect(await itemsOf(world, turn.turnId)).toEqual(["model_replied", "tool_returned", "tool_returned", "cancel"]);
    expect((await talk(process)).slice(2)).toEqual(["tool first done", "tool second done"]);
  });

  test("a cancel by another process and an interrupting message have the grace too", async () => {
    const save = held("save");
    const { world, of, process, turn } = await started([save.tool]);
    await save.reached;
    const other = world.process(of, { drive: false });
    const next = await other.send("s1", "stop", { whenBusy: "interrupt" });
    // The driving process reads the cancels at most every 100 ms.
    while (!save.isAborted()) await world.clock.advance(10);
    save.open();
    expect((await turn.result).haltedReason).toBe("cancelled");
    expect((await next.result).text).toBe("Next.");
    expect(await talk(process)).toEqual(["user hi", "assistant ", "tool save done", "user stop", "assistant Next."]);
  });

  test("the grace is pinned with the turn, and 0 drops later results", async () => {
    const save = held("save");
    const { process } = await started([save.tool], { cancelGraceMs: 0 });
    await save.reached;
    expect(await process.cancel("s1", { reason: "enough" })).toBe("cancelled");
    save.open();
    expect((await talk(process)).at(-1)).toBe("tool [Tool execution cancelled]\nenough");
    expect(completedIds(await recordedEvents(process))).toEqual(["save"]);
  });

  test("close during the grace hands the turn over, and the next process records the cancel", async () => {
    const { world, of, process, turn } = await started([stuck()], { cancelGraceMs: 60_000 });
    await world.clock.advance(0);
    const cancelling = process.cancel("s1", { waitMs: 1 });
    await world.clock.advance(5);
    expect(await cancelling).toBe("stored");
    const closed = process.close({ graceMs: 0 });
    await world.clock.advance(0);
    await closed;
    const second = world.process(of);
    await second.recover();
    expect(await second.attach("s1", turn.turnId).result).toMatchObject({ haltedReason: "cancelled" });
    expect(world.clock.now()).toBeLessThan(1000);
    expect(completedIds(await recordedEvents(second))).toEqual(["stuck"]);
  });

  test("a tool that halts the turn within the grace ends it: cancel returns completion_won", async () => {
    const barrier = gate();
    const stop = counting("stop", { handler: () => barrier.wait().then(() => halt("found", 7)) });
    const { world, process, turn } = await started([stop.tool]);
    await barrier.reached;
    const cancelling = process.cancel("s1");
    await world.clock.advance(1);
    barrier.open();
    await world.clock.advance(1);
    expect(await cancelling).toBe("completion_won");
    expect((await turn.result).haltedReason).toBe("found");
    expect(await world.rows("cancels")).toEqual([]);
  });

  test("readers over HTTP get the completion of every started call", async () => {
    const save = held("save");
    const { world, process } = await started([stuck(), save.tool]);
    const handler = createHandler({ sessions: process, auth: "none", clock: world.clock });
    const ask = (path: string, init: RequestInit = {}) =>
      handler(new Request(`http://localhost/sessions/s1${path}`, init));
    await save.reached;
    // The first request loads the router, which takes real time.
    expect((await ask("")).status).toBe(200);
    const cancelling = ask("/cancel", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ reason: "enough" }),
    });
    await world.clock.advance(10);
    save.open();
    await world.clock.advance(40);
    expect(await (await cancelling).json()).toEqual({ result: "cancelled" });
    const text = await (await ask("/events?follow=false", { headers: { accept: "text/event-stream" } })).text();
    expect(text.match(/"type":"tool_execution_completed"/g)).toHaveLength(2);
    expect(text).toContain('"result":{"type":"cancelled","message":"enough"');
  });
});
