// Retention: journals of ended turns are removed after `retentionMs`, sessions after `sessionRetentionMs`, and recovery
// never needs them.

import type { HostStorage, Runtime, TurnHandle } from "everturn/runtime";

import { askUser, engine, fake, tool } from "everturn";
import { inspection } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { handClock } from "everturn/testing";
import { describe, expect, test } from "vitest";

import { latch, says, sessionsOf, toolCall } from "../../../test/runtime/sessions.ts";
import { eventsOf } from "../../../test/runtime/world.ts";
import { readValue } from "../rows/stored.ts";

async function journaled(storage: HostStorage): Promise<number> {
  const [rows = []] = await storage.read([{ table: "journal", prefix: [] }]);
  return rows.length;
}

/** The rows of the index of work for the retention of turns. */
const retainedTurns = { table: "work", prefix: ["retention", "turns"] } as const;

function agent() {
  const scripts = [[{ type: "text", text: "one" } as const], [{ type: "text", text: "two" } as const]];
  return engine({ adapter: fake({ scripts }), model: "fake:m" });
}

test("a worker removes journals whose retention time is over, and the session continues", async () => {
  const clock = handClock();
  const host = memoryStorage();
  const sessions = runtime({ host, engines: { default: agent() }, clock, retentionMs: 3000, live: false });
  const stop = new AbortController();
  const turn = await sessions.start("go", { id: "s" });
  await turn.result;
  expect(await journaled(host)).toBe(2);
  expect((await inspection(sessions.source).export("s")).data.rows).toHaveLength(2);
  const working = sessions.work({ signal: stop.signal });
  await clock.advance(2000);
  expect(await journaled(host)).toBe(2);
  await clock.advance(3000);
  expect(await journaled(host)).toBe(0);
  expect(await turn.result).toMatchObject({ text: "one" });
  expect(await (await sessions.reply("s", "more")).result).toMatchObject({ text: "two" });
  stop.abort();
  await working;
});

test("events are removed with the journal: a reader of the turn ends, and a reader of the session gets later turns", async () => {
  const clock = handClock();
  const host = memoryStorage({ clock });
  const sessions = runtime({ host, engines: { default: agent() }, clock, retentionMs: 3000, live: false });
  const first = await sessions.start("go", { id: "s" });
  await first.result;
  const turnsOf = async () => {
    const [rows = []] = await host.read([{ table: "events", prefix: [] }]);
    return new Set(rows.map((row) => readValue("events", row).turn));
  };
  expect(await turnsOf()).toEqual(new Set([first.turnId]));
  await clock.advance(2000);
  const second = await sessions.reply("s", "more");
  await second.result;
  await clock.advance(2000);
  expect(await sessions.sweep()).toMatchObject({ removed: 1 });
  expect(await turnsOf()).toEqual(new Set([second.turnId]));
  // Both readers follow, and end: the turn has no further events.
  expect(await eventsOf(first.events)).toEqual([]);
  const later = await eventsOf(sessions.events("s", { follow: false }));
  expect(new Set(later.map(({ turnId }) => turnId))).toEqual(new Set([second.turnId]));
  expect((await eventsOf(second.events)).at(-1)?.event.type).toBe("chat_completed");
  expect((await sessions.messages("s")).items).toHaveLength(4);
  expect(await first.result).toMatchObject({ text: "one" });
});

test("a retention time that is set later covers turns that ended before, and their events", async () => {
  const clock = handClock();
  const host = memoryStorage({ clock });
  const before = runtime({ host, engines: { default: agent() }, clock, live: false });
  await (
    await before.start("go", { id: "s" })
  ).result;
  await clock.advance(10_000);
  const sessions = runtime({ host, engines: { default: agent() }, clock, live: false, retentionMs: 20_000 });
  expect(await sessions.sweep()).toMatchObject({ removed: 0 });
  expect(await journaled(host)).toBe(2);
  await clock.advance(11_000);
  expect(await sessions.sweep()).toMatchObject({ removed: 1 });
  expect(await journaled(host)).toBe(0);
  expect(await eventsOf(sessions.events("s", { follow: false }))).toEqual([]);
  expect(await host.read([retainedTurns])).toEqual([[]]);
});

test("the journal of a turn that runs for longer than the retention time is kept for that time after its end", async () => {
  const clock = handClock();
  const host = memoryStorage({ clock });
  const { passed, open } = latch();
  const slow = tool({
    name: "work",
    description: "Works.",
    schema: { type: "object" },
    handler: () => passed.then(() => "ok"),
  });
  const adapter = fake({ scripts: [[toolCall("work")], [says("done")]] });
  const sessions = sessionsOf(engine({ adapter, tools: [slow] }), { host, clock, retentionMs: 60_000 });
  const turn = await sessions.start("go", { id: "s" });
  await clock.advance(300_000);
  await sessions.sweep();
  open();
  await turn.result;
  const length = await journaled(host);
  await clock.advance(59_000);
  await sessions.sweep();
  expect(await journaled(host)).toBe(length);
  await clock.advance(2000);
  await sessions.sweep();
  expect(await journaled(host)).toBe(0);
});

describe("sessions with a retention time", () => {
  const allRows = async (host: HostStorage, id: string) =>
    (
      await host.read([{ table: "entries", prefix: ["", id] }, { table: "turns", prefix: ["", id] }, retainedTurns])
    ).flat();

  test("are deleted when they have not changed for that time, also if they existed before it was set", async () => {
    const clock = handClock();
    const host = memoryStorage({ clock });
    const fields = { host, engines: { default: agent() }, clock, live: false } as const;
    await (
      await runtime(fields).start("go", { id: "s" })
    ).result;
    await clock.advance(50_000);
    const sessions = runtime({ ...fields, sessionRetentionMs: 60_000 });
    await (
      await sessions.reply("s", "more")
    ).result;
    await clock.advance(50_000);
    expect(await sessions.sweep()).toMatchObject({ removed: 1 });
    // It was examined, and has changed since: 50 seconds ago.
    expect((await sessions.messages("s")).items).toHaveLength(4);
    await clock.advance(11_000);
    expect(await sessions.sweep()).toMatchObject({ removed: 1 });
    expect(await sessions.get("s")).toBeNull();
    expect(await allRows(host, "s")).toEqual([]);
    expect(await host.read([{ table: "work", prefix: [] }])).toEqual([[]]);
  });

  test("stay while they wait for an answer or have an open turn", async () => {
    const clock = handClock();
    const host = memoryStorage({ clock });
    const asks = tool({
      name: "ask",
      description: "Asks.",
      schema: { type: "object" },
      handler: () => askUser("Which?"),
    });
    const adapter = fake({ scripts: [[toolCall("ask")], [says("red")]] });
    const sessions = sessionsOf(engine({ adapter, tools: [asks] }), { host, clock, sessionRetentionMs: 1000 });
    await (
      await sessions.start("go", { id: "waits" })
    ).result;
    const accepting = sessionsOf(engine({ adapter }), { host, clock, drive: false });
    await accepting.start("go", { id: "open" });
    for (let round = 0; round < 3; round += 1) {
      await clock.advance(2000);
      await sessions.sweep();
    }
    expect(await sessions.get("waits")).not.toBeNull();
    expect(await sessions.get("open")).not.toBeNull();
    await (
      await sessions.reply("waits", "the red one")
    ).result;
    await clock.advance(2000);
    await sessions.sweep();
    await clock.advance(2000);
    await sessions.sweep();
    expect(await sessions.get("waits")).toBeNull();
  });

  test("that someone deletes leave no row in the index of work", async () => {
    const host = memoryStorage();
    const sessions = runtime({ host, engines: { default: agent() }, live: false });
    await (
      await sessions.start("go", { id: "s" })
    ).result;
    expect((await host.read([{ table: "work", prefix: [] }])).flat()).toHaveLength(2);
    await sessions.delete("s");
    expect(await host.read([{ table: "work", prefix: [] }])).toEqual([[]]);
  });

  test("refuse a time that is no number of milliseconds up to ten years", () => {
    const fields = { host: memoryStorage(), engines: { default: agent() } };
    for (const sessionRetentionMs of [-1, Number.NaN, 1e15]) {
      expect(() => runtime({ ...fields, sessionRetentionMs })).toThrow("sessionRetentionMs");
    }
  });
});

test("journals of child turns are removed with that of their parent, and not while the call is pending", async () => {
  const clock = handClock();
  const storage = memoryStorage({ clock });
  const ask = tool({ name: "ask", description: "Asks.", schema: { type: "object" }, handler: () => askUser("Which?") });
  const inner = engine({ adapter: fake({ scripts: [[toolCall("ask")], [says("that one")]] }), tools: [ask] });
  const delegate = tool({
    name: "work",
    description: "Delegates.",
    schema: { type: "object" },
    replay: "safe",
    handler: async (_, { runChild }) => (await runChild(inner, "do it")).haltedReason,
  });
  const adapter = fake({ scripts: [[toolCall("work")], [says("done")]] });
  const sessions = sessionsOf(engine({ adapter, tools: [delegate] }), { host: storage, clock, retentionMs: 1000 });
  await (
    await sessions.start("go", { id: "s" })
  ).result;
  const stop = new AbortController();
  const working = sessions.work({ signal: stop.signal });
  await clock.advance(3000);
  const end = await (await sessions.reply("s", "the red one")).result;
  expect(end).toMatchObject({ text: "done" });
  await clock.advance(5000);
  for (const table of ["journal", "records"] as const) {
    expect(await storage.read([{ table, prefix: [] }])).toEqual([[]]);
  }
  expect(await storage.read([retainedTurns])).toEqual([[]]);
  stop.abort();
  await working;
});

describe("the events of a turn that waits for an answer are removed only when the session has gone on", () => {
  const asked = { name: "ask", description: "Asks.", schema: { type: "object" } } as const;
  const child = engine({
    adapter: fake({ scripts: [[toolCall("ask")], [says("red")]] }),
    tools: [tool({ ...asked, handler: () => askUser("Which?") })],
  });
  const answers = {
    reply: (of: Runtime) => of.reply("s", "red"),
    result: async (of: Runtime) => of.submitToolResults("s", [[await pendingId(of), "red"]]),
    approval: async (of: Runtime) => of.decide("s", await pendingId(of), { type: "approve" }),
  };
  const pendingId = async (of: Runtime) => (await of.get("s"))?.session.pendingToolCalls[0]?.id ?? "";

  const approved = { ...asked, needsApproval: true };
  const delegates = tool({
    ...approved,
    handler: async (_, { runChild }) => (await runChild(child, "do it")).haltedReason,
  });

  test.each([
    ["a question", tool({ ...asked, handler: () => askUser("Which?") }), [answers.reply]],
    ["a result of the program", tool({ ...asked, manual: true }), [answers.result]],
    ["an approval", tool({ ...approved, handler: () => "red" }), [answers.approval]],
    ["a question of a child turn in an approved call", delegates, [answers.approval, answers.reply]],
  ] satisfies readonly [string, ReturnType<typeof tool>, readonly ((of: Runtime) => Promise<TurnHandle>)[]][])(
    "%s",
    async (_, waiting, answering) => {
      const clock = handClock();
      const host = memoryStorage({ clock });
      const adapter = fake({ scripts: [[says("first")], [toolCall("ask")], [says("done")]] });
      const of = engine({ adapter, tools: [waiting] });
      const sessions = sessionsOf(of, { host, clock, retentionMs: 1000 });
      const passRetention = async () => {
        for (let round = 0; round < 3; round += 1) {
          await clock.advance(2000);
          await sessions.sweep();
        }
      };
      const earlier = await sessions.start("hi", { id: "s" });
      await earlier.result;
      let turn = await sessions.reply("s", "go");
      for (const answer of answering) {
        await turn.result;
        const events = await eventsOf(turn.events);
        await passRetention();
        expect(await eventsOf(turn.events)).toEqual(events);
        expect(await eventsOf(earlier.events)).toEqual([]);
        turn = await answer(sessions);
      }
      expect(await turn.result).toMatchObject({ text: "done" });
      await passRetention();
      for (const table of ["events", "journal", "records"] as const) {
        expect(await host.read([{ table, prefix: [] }])).toEqual([[]]);
      }
      expect(await host.read([retainedTurns])).toEqual([[]]);
    },
  );
});
