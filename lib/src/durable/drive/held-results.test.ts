// A process keeps the results that it holds while the storage is away, and commits them when the storage is back, as
// long as no other process has claimed the session.

import type { Adapter } from "../../core/engine/internal.ts";
import type { Batch, HostStorage } from "../internal.ts";

import { describe, expect, test } from "vitest";

import { call, counting, gate, says, talk, thinker, worker, World } from "../../../test/runtime/world.ts";
import { tool } from "../../core/engine/index.ts";
import { RuntimeError } from "../../core/model/index.ts";
import { memoryStorage } from "../host/memory/memory.ts";
import { runtime } from "../index.ts";

const away: readonly (readonly [string, () => RuntimeError])[] = [
  ["busy", () => new RuntimeError("storage_busy", { message: "locked" })],
  ["full", () => new RuntimeError("storage_full", { message: "no space is left" })],
  ["not reachable", () => new RuntimeError("storage_failed", { message: "lost", metadata: { transient: true } })],
];

const isRenewal = ({ puts, checks }: Batch): boolean =>
  puts.length === 1 && puts[0]?.table === "leases" && checks[0]?.alive === true;

/** Short, because each step of the clock takes time. */
const lease = { ttlMs: 3_000, renewMs: 1_000 };

const done = ["user hi", "assistant ", "tool pay: ok", "assistant Done."];

describe.each(away)("a storage that is %s", (_, failure) => {
  test.each([1_000, 4_000])("for %d ms: no result is lost, and nothing is performed twice", async (ms) => {
    const world = new World();
    let isAway = false;
    const storage = memoryStorage({ clock: world.clock });
    const refuse = () => (isAway ? Promise.reject(failure()) : null);
    const host: HostStorage = {
      ...storage,
      read: (queries) => refuse() ?? storage.read(queries),
      write: (batch) => refuse() ?? storage.write(batch),
    };
    const paid = gate();
    const pay = counting("pay", { handler: () => paid.wait().then(() => "pay: ok") });
    const model = worker("pay");
    const engines = { default: world.engine(model, { tools: [pay.tool] }) };
    const sessions = runtime({ host, engines, clock: world.clock, live: false, lease });
    const turn = await sessions.start("hi", { id: "s1" });
    await paid.reached;
    isAway = true;
    paid.open();
    await world.clock.advance(ms);
    expect(pay.runs).toHaveLength(1);
    isAway = false;
    await world.clock.advance(2_000);
    expect((await turn.result).text).toBe("Done.");
    expect([pay.runs.length, model.asked.length]).toEqual([1, 2]);
    expect(await talk(sessions)).toEqual(done);
  });

  test("for longer than the lease: the results are discarded if another process has claimed the session", async () => {
    const world = new World();
    let isAway = false;
    const paid = gate();
    const pay = counting("pay", { handler: () => paid.wait().then(() => "pay: ok") });
    const of = world.engine(worker("pay"), { tools: [pay.tool] });
    const first = world.process(of, { lease, refuses: () => (isAway ? failure() : null) });
    const turn = await first.start("hi", { id: "s1" });
    await paid.reached;
    isAway = true;
    paid.open();
    await world.clock.advance(3_500);
    const second = world.process(of, { lease });
    expect(await second.recover()).toMatchObject({ pickedUp: 1 });
    expect((await second.attach("s1", turn.turnId).result).text).toBe("Done.");
    isAway = false;
    await world.clock.advance(5_000);
    expect(await talk(second)).toEqual([
      "user hi",
      "assistant ",
      expect.stringContaining("may or may not have run"),
      "assistant Done.",
    ]);
    expect(pay.runs).toHaveLength(1);
  });
});

describe("a process that is closed writes all results that it holds", () => {
  const both = ["user hi", "assistant ", "tool a: ok", "tool b: ok", "assistant Done."];

  /** A turn whose tools `a` and `b` run until the gate is opened. */
  async function running() {
    const world = new World();
    const storage = { isAway: false };
    const finished = gate();
    const tools = ["a", "b"].map((name) =>
      counting(name, { handler: () => finished.wait().then(() => `${name}: ok`), replay: "never" }),
    );
    const model = thinker(({ messages }) =>
      messages.some(({ role }) => role === "tool") ? says("Done.") : [call("a"), call("b")],
    );
    const of = world.engine(model, { tools: tools.map((each) => each.tool) });
    const refuses = () => (storage.isAway ? new RuntimeError("storage_busy", { message: "locked" }) : null);
    const process = world.process(of, { refuses });
    await process.start("hi", { id: "s1" });
    await finished.reached;
    const continued = async () => {
      await world.clock.advance(0);
      const next = world.process(of);
      await next.recover();
      await world.clock.advance(0);
      expect([...tools.map(({ runs }) => runs.length), model.asked.length]).toEqual([1, 1, 2]);
      return talk(next);
    };
    return { world, storage, process, finish: finished.open, continued };
  }

  test("although the storage comes back only after the grace time", async () => {
    const { world, storage, process, finish, continued } = await running();
    storage.isAway = true;
    finish();
    await world.clock.advance(0);
    const closed = process.close({ graceMs: 1_000 });
    await world.clock.advance(2_000);
    storage.isAway = false;
    await world.clock.advance(2_000);
    await closed;
    expect(await continued()).toEqual(both);
  });

  test("and leaves no start mark of a tool that it does not run", async () => {
    const world = new World();
    let isAway = false;
    const pay = counting("pay", { replay: "never" });
    const model = worker("pay");
    const thought = gate();
    const slow: Adapter = {
      ...model,
      stream: async function* (request, options) {
        await thought.wait();
        yield* model.stream(request, options);
      },
    };
    const of = world.engine(slow, { tools: [pay.tool] });
    const refuses = () => (isAway ? new RuntimeError("storage_busy", { message: "locked" }) : null);
    const process = world.process(of, { refuses });
    await process.start("hi", { id: "s1" });
    await thought.reached;
    isAway = true;
    thought.open();
    await world.clock.advance(0);
    const closed = process.close({ graceMs: 1_000 });
    await world.clock.advance(2_000);
    isAway = false;
    await world.clock.advance(2_000);
    await closed;
    const next = world.process(of);
    await next.recover();
    await world.clock.advance(0);
    expect(await talk(next)).toEqual(done);
    expect([pay.runs.length, model.asked.length]).toEqual([1, 2]);
  });

  test("and no start mark of a call that waits for another one of its tool", async () => {
    const world = new World();
    const paid = gate();
    const pay = counting("pay", {
      concurrency: "serial",
      handler: ({ id }) => paid.wait().then(() => `paid ${String(id)}`),
    });
    const model = thinker(({ messages }) =>
      messages.some(({ role }) => role === "tool") ? says("Done.") : ["a", "b"].map((id) => call("pay", { id }, id)),
    );
    const of = world.engine(model, { tools: [pay.tool] });
    const process = world.process(of);
    await process.start("hi", { id: "s1" });
    await paid.reached;
    const closed = process.close({ graceMs: 1_000 });
    paid.open();
    await world.clock.advance(0);
    await closed;
    expect(pay.runs).toEqual([{ id: "a" }]);
    const next = world.process(of);
    await next.recover();
    await world.clock.advance(0);
    expect(await talk(next)).toEqual(["user hi", "assistant ", "tool paid a", "tool paid b", "assistant Done."]);
    expect([pay.runs.length, model.asked.length]).toEqual([2, 2]);
  });

  test.each(["checked within the grace time", "checked after the grace time"])(
    "and no start mark of a call whose arguments are %s",
    async (when) => {
      const world = new World();
      const checked = gate();
      const schema = {
        "~standard": {
          version: 1,
          vendor: "test",
          validate: (value: unknown) => checked.wait().then(() => ({ value })),
          jsonSchema: { input: () => ({ type: "object" }), output: () => ({ type: "object" }) },
        },
      } as const;
      const runs: unknown[] = [];
      const handler = (input: unknown) => {
        runs.push(input);
        return "pay: ok";
      };
      const pay = tool({ name: "pay", description: "Pays.", schema, handler });
      const model = worker("pay");
      const of = world.engine(model, { tools: [pay] });
      const process = world.process(of);
      await process.start("hi", { id: "s1" });
      await checked.reached;
      const closed = process.close({ graceMs: 1_000 });
      if (when.includes("within")) checked.open();
      await world.clock.advance(1_000);
      await closed;
      checked.open();
      await world.clock.advance(0);
      expect(runs).toEqual([]);
      const next = world.process(of);
      await next.recover();
      await world.clock.advance(0);
      expect(await talk(next)).toEqual(done);
      expect([runs.length, model.asked.length]).toEqual([1, 2]);
    },
  );

  test("also if several tools finish before the next commit", async () => {
    const { world, process, finish, continued } = await running();
    const closed = process.close({ graceMs: 1_000 });
    finish();
    await world.clock.advance(1_000);
    await closed;
    expect(await continued()).toEqual(both);
  });
});

describe("a write that was applied, and whose answer was lost", () => {
  const lost = () => new RuntimeError("storage_failed", { message: "lost", metadata: { transient: true } });

  /**
   * Runs a turn with a tool, an input that arrives meanwhile and a queued message. The answers to the writes that
   * `isLost` selects are lost.
   */
  async function run(isLost: (batch: Batch, count: number) => boolean, awayMs: number) {
    const world = new World();
    const storage = memoryStorage({ clock: world.clock });
    let count = -1;
    let isRunning = false;
    let isAway = false;
    const lostTables: string[] = [];
    const refuse = () => (isAway ? Promise.reject(lost()) : null);
    const host: HostStorage = {
      ...storage,
      read: (queries) => refuse() ?? storage.read(queries),
      write: async (batch) => {
        await refuse();
        const written = await storage.write(batch);
        if (!isRunning || isRenewal(batch)) return written;
        count += 1;
        if (!isLost(batch, count)) return written;
        lostTables.push(...batch.puts.map(({ table }) => table));
        isAway = awayMs > 0;
        throw lost();
      },
    };
    const paid = gate();
    const pay = counting("pay", { handler: () => paid.wait().then(() => "pay: ok") });
    const model = thinker(({ messages }) =>
      messages.some(({ role }) => role === "tool") ? says("Done.") : [call("pay", {}, "pay")],
    );
    const engines = { default: world.engine(model, { tools: [pay.tool] }) };
    // The lease expires while the storage is away.
    const shortLease = { ttlMs: 900, renewMs: 300 };
    const sessions = runtime({ host, engines, clock: world.clock, live: false, lease: shortLease });
    const other = runtime({ host: storage, engines, clock: world.clock, live: false, drive: false });
    isRunning = true;
    const turn = await sessions.start("hi", { id: "s1" }).catch(() => null);
    if (turn === null) return null;
    const pass = async (ms: number) => {
      await world.clock.advance(ms);
      isAway = false;
      await world.clock.advance(1_000);
    };
    // The answer to a write before the tool may be lost, too.
    await pass(awayMs);
    await paid.reached;
    await other.steer("s1", "and this");
    const queued = await other.send("s1", "next", { whenBusy: "queue" });
    paid.open();
    await world.clock.advance(0);
    await pass(awayMs);
    await pass(awayMs);
    expect((await turn.result).text).toBe("Done.");
    expect((await queued.result).text).toBe("Done.");
    expect([pay.runs.length, model.asked.length]).toEqual([1, 3]);
    const events = (await storage.read([{ table: "events", prefix: ["", "s1"] }]))[0] ?? [];
    expect(events.map(({ key }) => key[2])).toEqual(events.map((_event, index) => index + 1));
    return { lostTables, count, talk: await talk(sessions) };
  }

  test.each([0, 1_500])("is recognised, wherever it happens; the storage is away for %d ms", async (awayMs) => {
    const whole = await run(() => false, 0);
    expect(whole?.talk).toHaveLength(7);
    const seen = new Set<string>();
    for (let at = 1; at <= (whole?.count ?? 0); at += 1) {
      const result = await run((_, count) => count === at, awayMs);
      expect(result?.talk).toEqual(whole?.talk);
      for (const table of result?.lostTables ?? []) seen.add(table);
    }
    expect([...seen]).toEqual(expect.arrayContaining(["journal", "turns", "inbox", "events", "sessions"]));
  });

  test("is recognised also if every answer is lost once", async () => {
    const lostOnce = new Set<string>();
    const whole = await run(() => false, 0);
    const result = await run((batch, count) => {
      const name = JSON.stringify(batch.puts.map(({ table, key, tag }) => [table, key, tag]));
      if (count === 0 || lostOnce.has(name)) return false;
      lostOnce.add(name);
      return true;
    }, 0);
    expect(result?.talk).toEqual(whole?.talk);
  });
});
