// Limits of turns by engine, tenant and limit key: concurrency, rate, waiting turns, fairness, crashes and deploys.

import type { Process } from "../../test/runtime/world.ts";
import type { HostStorage } from "./internal.ts";
import type { RuntimeLimits } from "./rows/limits.ts";
import type { Adapter } from "everturn";

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { fake } from "everturn";
import { describe, expect, test } from "vitest";

import { runLimited } from "../../test/runtime/limited-turns.ts";
import { call, counting, gate, says, thinker, World } from "../../test/runtime/world.ts";
import { jittered, seeded } from "../../test/shared-storage.ts";
import { messageText } from "../core/model/internal.ts";
import { handClock } from "../testing/hand-clock.ts";
import { memoryStorage } from "./host/memory/memory.ts";
import { sqliteStorage } from "./host/sqlite/index.ts";
import { runtime } from "./index.ts";
import { nextToken, releasePut } from "./rows/lease.ts";

/** A model that answers when the test says so, and counts the calls that are open. */
class Gauge {
  /** The texts of the user messages whose turns are being performed. */
  readonly running = new Set<string>();
  /** The texts in the order in which their turns started. */
  readonly started: string[] = [];
  /** The times at which they started. */
  readonly startedAt: number[] = [];
  peak = 0;
  readonly #now: () => number;
  readonly #ends = new Map<string, () => void>();
  readonly #opened = new Set<string>();
  #isOpen = false;

  constructor(now: () => number = () => 0) {
    this.#now = now;
  }

  readonly adapter: Adapter = {
    provider: "fake",
    stream: (request, options) => this.#stream(request, options),
  };

  async *#stream(...[request, options]: Parameters<Adapter["stream"]>): ReturnType<Adapter["stream"]> {
    const last = request.messages.at(-1);
    const text = last === undefined ? "" : messageText(last);
    this.started.push(text);
    this.startedAt.push(this.#now());
    this.running.add(text);
    this.peak = Math.max(this.peak, this.running.size);
    try {
      if (!this.#isOpen && !this.#opened.has(text)) {
        await new Promise<void>((resolve, reject) => {
          this.#ends.set(text, resolve);
          options.signal?.addEventListener("abort", () => reject(options.signal?.reason));
        });
      }
      yield* fake({ script: says("Done.") }).stream(request, options);
    } finally {
      this.running.delete(text);
    }
  }

  /** Lets the turn with this text end. */
  end(text: string): void {
    this.#opened.add(text);
    this.#ends.get(text)?.();
  }

  /** Lets all turns end, now and later. */
  open(): void {
    this.#isOpen = true;
    for (const resolve of this.#ends.values()) resolve();
  }
}

/** A world with one engine whose turns end on demand. */
function setUp(limits: RuntimeLimits) {
  const world = new World();
  const gauge = new Gauge(() => world.clock.now());
  const engine = world.engine(gauge.adapter);
  const start = (options: Parameters<World["process"]>[1] = {}): Process =>
    world.process(engine, { limits, ...options });
  return { world, gauge, start, engine };
}

/** `npm run test:long` tries every crash point, more seeds and longer backlogs. */
const isLong = process.env["EVERTURN_CRASH_POINTS"] === "all";

/** Starts a session whose message is its id. */
const begin = (sessions: Pick<Process, "start">, id: string, options: object = {}) =>
  sessions.start(id, { id, ...options });

describe("a limit of concurrent turns", () => {
  test("lets later turns wait, reports them as waiting, and starts them in order when a turn ends", async () => {
    const { world, gauge, start } = setUp({ perTenant: { concurrency: 2 } });
    const sessions = start();
    await world.clock.advance(5);
    for (const id of ["a", "b", "c", "d"]) {
      await begin(sessions, id);
      await world.clock.advance(1);
    }
    expect([...gauge.running]).toEqual(["a", "b"]);
    expect((await sessions.get("c"))?.openTurn).toMatchObject({
      status: "queued",
      limitWait: { limit: "tenant", since: 7 },
    });
    const { items } = await sessions.list();
    expect(items.map(({ id, turnStatus, limitWait }) => [id, turnStatus, limitWait?.limit ?? null])).toEqual([
      ["d", "queued", "tenant"],
      ["c", "queued", "tenant"],
      ["b", "running", null],
      ["a", "running", null],
    ]);
    gauge.end("b");
    await world.clock.advance(1);
    expect([...gauge.running]).toEqual(["a", "c"]);
    gauge.open();
    await world.clock.advance(1);
    expect(gauge.started).toEqual(["a", "b", "c", "d"]);
    expect(gauge.peak).toBe(2);
    expect([await world.rows("slots"), await world.work("limit"), await world.work("turn")]).toEqual([[], [], []]);
  });

  test("holds for each engine, tenant and limit key on its own, and the narrowest limit comes first", async () => {
    const { world, gauge, start } = setUp({
      engines: { default: { concurrency: 5 } },
      perTenant: { concurrency: 3 },
      tenants: { free: { concurrency: 1 }, big: {} },
      perLimitKey: { concurrency: 1 },
    });
    const sessions = start();
    await begin(sessions.tenant("x").limitedBy("ann"), "x1");
    await begin(sessions.tenant("x"), "x2", { limitKey: "ann" });
    await begin(sessions.tenant("x").limitedBy("ann"), "x3", { limitKey: "bob" });
    await begin(sessions.tenant("x"), "x4");
    await begin(sessions.tenant("x"), "x5");
    // Limit keys of different tenants are different.
    await begin(sessions.tenant("free"), "f1", { limitKey: "ann" });
    await begin(sessions.tenant("free"), "f2");
    await begin(sessions.tenant("big"), "b1");
    await begin(sessions.tenant("big"), "b2");
    await world.clock.advance(0);
    expect([...gauge.running]).toEqual(["x1", "x3", "x4", "f1", "b1"]);
    const limitOf = async (tenant: string, id: string) =>
      (await sessions.tenant(tenant).get(id))?.openTurn?.limitWait?.limit;
    expect(await limitOf("x", "x2")).toBe("key");
    expect(await limitOf("x", "x5")).toBe("tenant");
    expect(await limitOf("free", "f2")).toBe("tenant");
    expect(await limitOf("big", "b2")).toBe("engine");
    gauge.open();
    await world.clock.advance(0);
    expect(gauge.started).toHaveLength(9);
    expect(await world.rows("slots")).toEqual([]);
  });

  test("does not count a turn that waits for a person", async () => {
    const world = new World();
    const pay = counting("pay", { needsApproval: true });
    const model = thinker(({ messages }) =>
      messages.some(({ role }) => role === "tool") ? says("Paid.") : [call("pay")],
    );
    const sessions = world.process(world.engine(model, { tools: [pay.tool] }), {
      limits: { perLimitKey: { concurrency: 1 } },
    });
    const first = await sessions.start("one", { id: "one", limitKey: "ann" });
    expect((await first.result).outcome.type).toBe("approval");
    expect(await world.rows("slots")).toEqual([]);
    const second = await sessions.start("two", { id: "two", limitKey: "ann" });
    await second.result;
    // The turn that continues the first one has its limit key.
    const decided = await sessions.limitedBy("approver").decide("one", "pay", { type: "approve" });
    expect((await decided.result).text).toBe("Paid.");
    const starts = await world.values("starts");
    expect(starts).toEqual(Array.from({ length: 3 }, () => expect.objectContaining({ options: { limitKey: "ann" } })));
  });

  test("is released by a turn that is parked, cancelled or deleted", async () => {
    const { world, gauge, start } = setUp({ perTenant: { concurrency: 1 } });
    const sessions = start();
    await begin(sessions, "cancelled");
    await begin(sessions, "deleted");
    await begin(sessions, "last");
    await world.clock.advance(0);
    expect(await Promise.all([sessions.cancel("cancelled"), world.clock.advance(0)])).toContain("cancelled");
    await world.clock.advance(0);
    expect([...gauge.running]).toEqual(["deleted"]);
    await sessions.delete("deleted");
    await world.clock.advance(0);
    expect(gauge.started).toEqual(["cancelled", "deleted", "last"]);
    gauge.open();
    await world.clock.advance(0);
    expect([await world.rows("slots"), await world.work("limit")]).toEqual([[], []]);
  });

  test("does not delay the cancel or the deletion of a turn that waits", async () => {
    const { world, gauge, start } = setUp({ perTenant: { concurrency: 1 } });
    const sessions = start();
    for (const id of ["runs", "cancelled", "deleted", "last"]) await begin(sessions, id);
    expect((await Promise.all([sessions.cancel("cancelled"), world.clock.advance(0)]))[0]).toBe("cancelled");
    await sessions.delete("deleted");
    expect(await world.work("limit")).toHaveLength(1);
    gauge.open();
    await world.clock.advance(0);
    expect(gauge.started).toEqual(["runs", "last"]);
  });

  test("applies to queued messages of a session, whose turns do not overtake others that wait", async () => {
    const { world, gauge, start } = setUp({ perTenant: { concurrency: 1 } });
    const sessions = start();
    await begin(sessions, "a1");
    for (const text of ["a2", "a3"]) await sessions.send("a1", text, { whenBusy: "queue" });
    await begin(sessions, "b1");
    await world.clock.advance(1);
    gauge.open();
    await world.clock.advance(1);
    expect(gauge.started).toEqual(["a1", "b1", "a2", "a3"]);
    expect(gauge.peak).toBe(1);
    expect([await world.rows("slots"), await world.work("limit"), await world.rows("open")]).toEqual([[], [], []]);
  });

  test("is respected by drive, which says when to try again", async () => {
    const { world, gauge, start } = setUp({ perTenant: { concurrency: 1, rate: { turns: 2, perMs: 5000 } } });
    const accepting = start({ drive: false });
    for (const id of ["a", "b", "c"]) await begin(accepting, id);
    const first = start().drive("a");
    await world.clock.advance(0);
    expect(await accepting.drive("b")).toEqual({ status: "busy", retryAfterMs: 1000 });
    gauge.open();
    await world.clock.advance(0);
    expect(await first).toEqual({ status: "idle" });
    await world.clock.advance(1000);
    expect((await accepting.get("b"))?.openTurn).toBe(null);
    // Two turns have started within five seconds.
    expect(await accepting.drive("c")).toEqual({ status: "busy", retryAfterMs: 4000 });
    expect((await accepting.sweep()).due).toEqual([]);
    await world.clock.advance(4000);
    expect((await accepting.sweep()).due).toEqual([{ tenant: "", sessionId: "c" }]);
    expect(await accepting.drive("c")).toEqual({ status: "idle" });
  });
});

describe("a limit of turns per time", () => {
  test("starts at most that many turns in any period, by the clock of the storage", async () => {
    const { world, gauge, start } = setUp({ engines: { default: { rate: { turns: 3, perMs: 1000 } } } });
    gauge.open();
    const sessions = start();
    for (let index = 0; index < 10; index += 1) {
      await begin(sessions, `s${index}`);
      await world.clock.advance(100);
    }
    await world.clock.advance(3000);
    expect(gauge.startedAt).toEqual([0, 100, 200, 1000, 1100, 1200, 2000, 2100, 2200, 3000]);
    expect(gauge.started).toEqual(Array.from({ length: 10 }, (_, index) => `s${index}`));
    // No timer is left.
    await world.clock.advance(2000);
    expect(world.clock.sleepers).toBe(0);
  });

  test("of many turns is checked with a sample of the slots", async () => {
    const limits = { perTenant: { concurrency: 1000, rate: { turns: 2000, perMs: 1000 } } };
    const clock = handClock(() => Math.random());
    const storage = memoryStorage({ clock });
    let rows = 0;
    const host: HostStorage = {
      ...storage,
      read: async (queries) => {
        const found = await storage.read(queries);
        rows += found.reduce((sum, { length }, index) => sum + (queries[index]?.table === "slots" ? length : 0), 0);
        return found;
      },
    };
    const world = new World({ storage: host });
    const gauge = new Gauge();
    const sessions = runtime({ host, engines: { default: world.engine(gauge.adapter) }, clock, limits, live: false });
    for (let index = 0; index < 100; index += 1) await begin(sessions, `s${index}`);
    await clock.advance(0);
    expect(gauge.running.size).toBe(100);
    expect(rows / 100).toBeLessThan(32);
  });
});

describe("limits over several processes", () => {
  test("hold for all of them together, and every turn is driven once", async () => {
    const { world, gauge, start } = setUp({
      engines: { default: { concurrency: 4 } },
      perLimitKey: { concurrency: 2 },
    });
    const processes = [start(), start(), start()];
    const ids = Array.from({ length: isLong ? 30 : 12 }, (_, index) => `s${index}`);
    await Promise.all(ids.map((id, index) => processes[index % 3]?.start(id, { id, limitKey: `user${index % 5}` })));
    for (let round = 0; round < 200 && gauge.started.length < ids.length; round += 1) {
      expect(gauge.running.size).toBeLessThanOrEqual(4);
      const users = [...gauge.running].map((id) => Number(id.slice(1)) % 5);
      for (const user of users) expect(users.filter((other) => other === user).length).toBeLessThanOrEqual(2);
      const [first] = gauge.running;
      gauge.end(first ?? "");
      await world.clock.advance(0);
    }
    gauge.open();
    await world.clock.advance(0);
    expect(gauge.started.toSorted()).toEqual(ids.toSorted());
    expect([await world.rows("slots"), await world.work("limit"), await world.rows("open")]).toEqual([[], [], []]);
  });

  test("a turn that returns to a line stays in it, also while a process removes the row that it had left there", async () => {
    const { world, gauge, start } = setUp({ perTenant: { concurrency: 1 } });
    const removal = gate();
    const sessions = start({
      holds: ({ batch: { removals, puts } }) =>
        puts.length === 0 && removals.some(({ table, prefix }) => table === "work" && prefix[0] === "limit")
          ? removal.wait()
          : null,
    });
    await begin(sessions, "a");
    await begin(sessions, "b");
    const [open] = await world.rows("open", ["", "b"]);
    const [waiting] = await world.work("limit");
    if (open === undefined || waiting === undefined) throw new Error("the second turn does not wait");
    // The turn waits in another line: its row in this one is stale.
    await world.raw("open", open, open.value.replace("tenant:", "engine:"));
    gauge.end("a");
    await removal.reached;
    // It returns, as a process that examines it would move it.
    await world.write({
      puts: [
        { table: "open", ...open },
        { table: "work", ...waiting },
        releasePut(["", "b"], { owner: "other", token: nextToken(0, 0) }),
      ],
    });
    removal.open();
    gauge.open();
    await world.clock.advance(0);
    expect(gauge.started).toEqual(["a", "b"]);
    expect([await world.rows("slots"), await world.work("limit"), await world.rows("open")]).toEqual([[], [], []]);
  });

  test("a takeover keeps the slot of the turn, and a killed process leaks none", async () => {
    const { world, gauge, start } = setUp({ perTenant: { concurrency: 1 } });
    const lease = { ttlMs: 900, renewMs: 300 };
    const killed = start({ lease });
    await begin(killed, "a");
    await begin(killed, "b");
    await world.clock.advance(0);
    expect([...gauge.running]).toEqual(["a"]);
    killed.kill();
    const other = start({ lease });
    const stop = new AbortController();
    const working = other.work({ signal: stop.signal });
    await begin(other, "c");
    await world.clock.advance(800);
    expect(gauge.started).toEqual(["a"]);
    expect(await world.rows("slots")).toHaveLength(1);
    // The lease has expired: the turn is taken over with its slot.
    await world.clock.advance(400);
    expect(gauge.started).toEqual(["a", "a"]);
    expect(await world.rows("slots")).toHaveLength(1);
    gauge.open();
    await world.clock.advance(2000);
    expect(gauge.started).toEqual(["a", "a", "b", "c"]);
    expect([await world.rows("slots"), await world.work("limit"), await world.rows("open")]).toEqual([[], [], []]);
    stop.abort();
    await world.clock.advance(0);
    await working;
  });

  test("a worker starts turns whose process died after it had freed the slot", async () => {
    const { world, gauge, start } = setUp({ perTenant: { concurrency: 1 } });
    const dying = start({ diesAfter: ({ batch }) => batch.removals.some(({ table }) => table === "slots") });
    await begin(dying, "a");
    await begin(dying, "b");
    gauge.open();
    await world.clock.advance(0);
    await dying.died;
    expect(gauge.started).toEqual(["a"]);
    const stop = new AbortController();
    const working = start().work({ signal: stop.signal });
    await world.clock.advance(1100);
    expect(gauge.started).toEqual(["a", "b"]);
    stop.abort();
    await world.clock.advance(0);
    await working;
  });

  test("every crash of a process leaves a state that a worker completes without a leaked slot", async () => {
    const limits = { perTenant: { concurrency: 1, rate: { turns: 2, perMs: 300 } }, perLimitKey: { concurrency: 1 } };
    const lease = { ttlMs: 900, renewMs: 300 };
    for (let count = 1, isOver = false; !isOver; count += isLong ? 1 : 7) {
      const { world, gauge, start } = setUp(limits);
      gauge.open();
      isOver = true;
      const dying = start({
        lease,
        diesAfter: (_, written) => {
          if (written < count) return false;
          isOver = false;
          return true;
        },
      });
      for (const id of ["a", "b", "c"]) void begin(dying, id, { limitKey: "ann", key: id });
      await world.clock.advance(400);
      dying.kill();
      const other = start({ lease });
      const stop = new AbortController();
      const working = other.work({ signal: stop.signal });
      for (const id of ["a", "b", "c"]) await begin(other, id, { limitKey: "ann", key: id });
      await world.clock.advance(3000);
      const rows = [await world.work("limit"), await world.rows("open"), await world.work("turn")];
      expect({ count, rows }).toEqual({ count, rows: [[], [], []] });
      const held = (await world.rows("slots")).filter(({ expires }) => expires === null);
      expect({ count, held }).toEqual({ count, held: [] });
      expect(gauge.peak).toBe(1);
      stop.abort();
      await world.clock.advance(0);
      await working;
    }
  });

  test("a lowered limit interrupts no turn, and lets none start before fewer turns than the new limit run", async () => {
    const { world, gauge, start } = setUp({ perTenant: { concurrency: 4 } });
    const lease = { ttlMs: 900, renewMs: 300 };
    const before = start({ lease });
    for (const id of ["a", "b", "c", "d"]) await begin(before, id);
    await world.clock.advance(0);
    before.kill();
    gauge.running.clear();
    const after = start({ lease, limits: { perTenant: { concurrency: 2 } } });
    await begin(after, "e");
    const stop = new AbortController();
    const working = after.work({ signal: stop.signal });
    await world.clock.advance(1500);
    const running: string[] = [];
    for (const id of ["a", "b", "c", "d"]) {
      running.push([...gauge.running].toSorted().join(""));
      gauge.end(id);
      await world.clock.advance(30);
    }
    expect([...running, ...gauge.running]).toEqual(["abcd", "bcd", "cd", "de", "e"]);
    gauge.open();
    stop.abort();
    await world.clock.advance(0);
    await working;
  });

  test("a process without limits starts turns that wait, so that limits can be removed", async () => {
    const { world, gauge, start, engine } = setUp({ perTenant: { concurrency: 1 } });
    const limited = start();
    await begin(limited, "a");
    await begin(limited, "b");
    await world.clock.advance(0);
    await world.process(engine).recover();
    await world.clock.advance(0);
    expect([...gauge.running]).toEqual(["a", "b"]);
    gauge.open();
    await world.clock.advance(0);
    expect([await world.rows("slots"), await world.work("limit")]).toEqual([[], []]);
  });
});

describe("concurrent processes without a worker", () => {
  const limits = { engines: { default: { concurrency: 4 } }, perLimitKey: { concurrency: 1 } };

  test("never exceed the limits and drive every turn once, whatever the order of their operations", async () => {
    for (let seed = 1; seed <= (isLong ? 40 : 1); seed += 1) {
      const random = seeded(seed);
      const storage = memoryStorage();
      const storages = [0, 1, 2].map(() => jittered(storage, random));
      const run = await runLimited(storages, { turns: 30, users: 4, limits });
      expect({ seed, ...run }).toEqual({ seed, ...run, peakOfUser: 1, calls: 30, completed: 30, left: 0 });
      expect(run.peak).toBeLessThanOrEqual(4);
    }
  }, 300_000);

  test("do so with a rate, whose slots become free by time", async () => {
    const storage = memoryStorage();
    const rate = { turns: 6, perMs: 40 };
    const from = performance.now();
    const run = await runLimited([storage, storage], {
      turns: 20,
      users: 2,
      limits: { engines: { default: { rate } } },
    });
    expect(run).toMatchObject({ calls: 20, completed: 20, left: 0 });
    // Twenty turns need three full periods before the last two start.
    expect(performance.now() - from).toBeGreaterThanOrEqual(115);
  });

  test("do so on SQLite", async () => {
    const folder = mkdtempSync(join(tmpdir(), "everturn-limits-"));
    const storages = [0, 1].map(() => sqliteStorage({ path: join(folder, "limits.db") }));
    try {
      const run = await runLimited(storages, { turns: 12, users: 6, limits });
      expect(run).toMatchObject({ calls: 12, completed: 12, left: 0 });
      expect(run.peak).toBeLessThanOrEqual(4);
    } finally {
      await Promise.all(storages.map((storage) => storage.close()));
      rmSync(folder, { recursive: true });
    }
  });
});

describe("fairness", () => {
  test("a tenant with many due turns does not delay the only turn of another tenant at a worker of two turns", async () => {
    const world = new World();
    const gauge = new Gauge();
    const engine = world.engine(gauge.adapter);
    const accepting = world.process(engine, { drive: false });
    for (let index = 0; index < (isLong ? 500 : 40); index += 1) await begin(accepting.tenant("big"), `big${index}`);
    await world.clock.advance(10);
    await begin(accepting.tenant("small"), "small");
    const stop = new AbortController();
    const working = world.process(engine).work({ concurrency: 2, signal: stop.signal });
    for (let ended = 0; ended < 20 && !gauge.started.includes("small"); ended += 1) {
      await world.clock.advance(30);
      const [first] = gauge.running;
      gauge.end(first ?? "");
    }
    // At most one share of a visit (8 turns) is taken before the next tenant is served.
    expect(gauge.started.indexOf("small")).toBeGreaterThanOrEqual(0);
    expect(gauge.started.indexOf("small")).toBeLessThanOrEqual(8);
    stop.abort();
    await world.clock.advance(0);
    await working;
  });

  test("a tenant with many turns that wait for an engine does not delay the first turn of another tenant", async () => {
    const { world, gauge, start } = setUp({ engines: { default: { concurrency: 2 } } });
    const sessions = start();
    for (let index = 0; index < (isLong ? 1000 : 40); index += 1) await begin(sessions.tenant("big"), `big${index}`);
    await begin(sessions.tenant("small"), "small");
    await world.clock.advance(0);
    const before = gauge.started.length;
    for (let ended = 0; ended < 2; ended += 1) {
      const [first] = gauge.running;
      gauge.end(first ?? "");
      await world.clock.advance(1);
    }
    expect(gauge.started.slice(before)).toContain("small");
  });

  test("the backlog of one user does not delay other users of the same tenant and engine", async () => {
    const { world, gauge, start } = setUp({
      engines: { default: { concurrency: 3 } },
      perLimitKey: { concurrency: 1 },
    });
    const sessions = start();
    for (let index = 0; index < 50; index += 1) await begin(sessions, `ann${index}`, { limitKey: "ann" });
    await begin(sessions, "bob", { limitKey: "bob" });
    await world.clock.advance(0);
    expect([...gauge.running]).toEqual(["ann0", "bob"]);
  });
});

describe("the cost of limits", () => {
  /** Counts reads, writes and rows of one turn. */
  async function costOf(
    limits: RuntimeLimits | undefined,
  ): Promise<{ reads: number; writes: number; tables: Set<string> }> {
    const clock = handClock();
    const storage = memoryStorage({ clock });
    const cost = { reads: 0, writes: 0, tables: new Set<string>() };
    const host: HostStorage = {
      ...storage,
      read: (queries) => {
        cost.reads += 1;
        return storage.read(queries);
      },
      write: (batch) => {
        cost.writes += 1;
        for (const { table } of [...batch.puts, ...batch.removals, ...batch.checks]) cost.tables.add(table);
        return storage.write(batch);
      },
    };
    const world = new World();
    const engines = { default: world.engine(thinker(() => says("Done."))) };
    const sessions = runtime({ host, engines, clock, live: false, ...(limits === undefined ? {} : { limits }) });
    await (
      await sessions.start("hi", { id: "s1", limitKey: "ann" })
    ).result;
    await clock.advance(0);
    return cost;
  }

  test("is nothing without limits, and one read with limits", async () => {
    const without = await costOf(undefined);
    expect([...without.tables]).not.toContain("slots");
    const limit = { concurrency: 3, rate: { turns: 5, perMs: 1000 } };
    const limited = await costOf({ perLimitKey: limit });
    expect(limited).toMatchObject({ reads: without.reads + 1, writes: without.writes });
  });
});

describe("invalid limits", () => {
  test.each([
    [{ perTenant: { concurrency: 0 } }, "limits.perTenant.concurrency"],
    [{ perTenant: { concurrency: 10_001 } }, "limits.perTenant.concurrency"],
    [{ engines: { default: { rate: { turns: 1.5, perMs: 1 } } } }, "limits.engines.default.rate.turns"],
    [{ limitKeys: { ann: { rate: { turns: 1, perMs: 0 } } } }, "limits.limitKeys.ann.rate.perMs"],
  ])("%j", (limits, path) => {
    const world = new World();
    const engine = world.engine(thinker(() => says("Done.")));
    expect(() => world.process(engine, { limits })).toThrow(path);
  });

  test("an unknown name or an incomplete rate is refused too", () => {
    const world = new World();
    const engine = world.engine(thinker(() => says("Done.")));
    const unknown: object = { perUser: { concurrency: 1 } };
    expect(() => world.process(engine, { limits: unknown })).toThrow("limits.perUser is unknown");
    const incomplete: object = { perTenant: { rate: { turns: 1 } } };
    expect(() => world.process(engine, { limits: incomplete })).toThrow("limits.perTenant.rate needs turns and perMs");
  });

  test("limit keys have 1 to 256 characters", async () => {
    const { start } = setUp({});
    const sessions = start();
    expect(() => sessions.limitedBy("")).toThrow("limitKey must be a string of 1 to 256 characters");
    await expect(begin(sessions, "a", { limitKey: "x".repeat(257) })).rejects.toThrow("limitKey must be a string");
  });
});

test("a slot without an open turn is removed by a worker", async () => {
  const { world, gauge, start } = setUp({ perTenant: { concurrency: 1 } });
  const sessions = start();
  await begin(sessions, "a");
  const [slot] = await world.rows("slots");
  gauge.open();
  await world.clock.advance(0);
  if (slot !== undefined) await world.raw("slots", slot, slot.value);
  await begin(sessions, "b");
  expect((await sessions.get("b"))?.openTurn?.limitWait?.limit).toBe("tenant");
  const stop = new AbortController();
  const working = sessions.work({ signal: stop.signal });
  await world.clock.advance(100);
  expect(gauge.started).toEqual(["a", "b"]);
  stop.abort();
  await world.clock.advance(0);
  await working;
});
