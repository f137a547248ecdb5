// Workers: due turns in the index of work, fairness between tenants, the limit of active turns, and takeovers (Q17).

import type { HostStorage, Query } from "../internal.ts";
import type { Put } from "../rows/storage.ts";

import { describe, expect, test } from "vitest";

import { call, counting, gate, isFirst, says, thinker, worker, World, writes } from "../../../test/runtime/world.ts";
import { handClock } from "../../testing/hand-clock.ts";
import { memoryStorage } from "../host/memory/memory.ts";
import { runtime } from "../index.ts";
import { leasePut, nextToken } from "../rows/lease.ts";
import { duePut } from "../rows/open-rows.ts";
import { readValue, writeValue } from "../rows/stored.ts";

const speaker = () => thinker(() => says("Done."));

/** The row of an open turn of the engine `default` in the index of work. */
const dueRow = (tenant: string, session: string, due: number) =>
  duePut({ tenant, session }, { engine: "default", due });

/** The rows of all open turns. */
const allDue = { table: "work", prefix: ["turn"] } as const;

const isDue = ({ table, key }: Pick<Put, "table" | "key">): boolean => table === "work" && key[0] === "turn";

describe("the due turns in the index of work", () => {
  test("is read in small pages, however long the backlog is", async () => {
    const world = new World();
    const storage = memoryStorage({ clock: world.clock });
    const reads: (readonly Query[])[] = [];
    const host: HostStorage = {
      ...storage,
      read: (queries) => {
        reads.push(queries);
        return storage.read(queries);
      },
    };
    const engines = { default: world.engine(speaker()) };
    const accepting = runtime({ host: storage, engines, clock: world.clock, drive: false, live: false });
    for (let index = 0; index < 300; index += 1) await accepting.start("hi", { id: `s${index}` });
    const held = gate();
    const slow = thinker(() => says("Done."));
    const waiting = { ...slow, stream: (...given: Parameters<typeof slow.stream>) => slow.stream(...given) };
    const busy = runtime({
      host,
      engines: {
        default: world.engine({
          ...waiting,
          async *stream(request, call) {
            await held.wait();
            yield* slow.stream(request, call);
          },
        }),
      },
      clock: world.clock,
      live: false,
    });
    const stop = new AbortController();
    const working = busy.work({ concurrency: 4, signal: stop.signal });
    await world.clock.advance(50);
    const rows = reads.flatMap((queries) => queries.filter(({ table }) => table === "work" || table === "open"));
    expect(rows.every(({ limit, prefix }) => limit !== undefined || prefix.length === 2)).toBe(true);
    // Four turns were claimed with a few reads each, none of which grows with the backlog of 300.
    expect(reads.length).toBeLessThan(60);
    expect(reads.flat().length).toBeLessThan(200);
    held.open();
    stop.abort();
    await world.clock.advance(0);
    const closed = busy.close({ graceMs: 0 });
    await world.clock.advance(0);
    await closed;
    await working;
  });

  test("is empty when all turns have ended, also after renewals and releases of leases", async () => {
    const world = new World();
    const look = counting("look", { replay: "safe", handler: () => world.clock.advance(15_000) });
    const of = world.engine(worker("look", "look"), { tools: [look.tool] });
    const first = world.process(of);
    const second = world.process(of);
    const stop = new AbortController();
    const working = second.work({ signal: stop.signal });
    await (
      await first.start("hi", { id: "s1" })
    ).result;
    await world.clock.advance(35_000);
    stop.abort();
    await world.clock.advance(0);
    await working;
    expect([await world.rows("open"), await world.work("turn")]).toEqual([[], []]);
  });

  test("is served round-robin by tenant: a tenant with a long backlog does not delay others", async () => {
    const clock = handClock();
    const storage = memoryStorage({ clock });
    const order: string[] = [];
    const world = new World();
    const model = thinker(() => says("Done."));
    const engines = { default: world.engine(model) };
    const accepting = runtime({ host: storage, engines, clock, drive: false, live: false });
    for (let index = 0; index < 100; index += 1) await accepting.tenant("big").start("hi", { id: `b${index}` });
    await clock.advance(10);
    for (const tenant of ["one", "two"]) await accepting.tenant(tenant).start("hi", { id: "s" });
    const host: HostStorage = {
      ...storage,
      write: (batch) => {
        const claim = batch.puts.find(({ table }) => table === "leases");
        if (claim !== undefined && batch.puts.some(isDue)) order.push(String(claim.key[0]));
        return storage.write(batch);
      },
    };
    const sessions = runtime({ host, engines, clock, live: false });
    await sessions.recover();
    expect(order.slice(0, 10)).toEqual([...Array.from({ length: 8 }, () => "big"), "one", "two"]);
    expect(order).toHaveLength(102);
  });
});

describe("a row that cannot be read", () => {
  test.each(["leases", "turns"] as const)(
    "in %s does not prevent other turns of the tenant from being driven",
    async (table) => {
      const world = new World();
      const of = world.engine(speaker());
      const dead = world.process(of, { diesAfter: writes("starts") });
      void dead.start("hi", { id: "a" });
      await dead.died;
      await world.leaseRunsOut();
      const accepting = world.process(of, { drive: false });
      await accepting.start("hi", { id: "b" });
      const [row] = await world.rows(table, ["", "a"]);
      if (row !== undefined) await world.raw(table, row, "{}");
      const sessions = world.process(of);
      expect(await sessions.recover()).toMatchObject({ pickedUp: 1 });
      await accepting.start("hi", { id: "c" });
      const stop = new AbortController();
      const working = world.process(of).work({ signal: stop.signal });
      await world.clock.advance(1000);
      stop.abort();
      await world.clock.advance(0);
      await working;
      const statuses = await Promise.all(["b", "c"].map(async (id) => (await sessions.get(id))?.session.status));
      expect(statuses).toEqual(["completed", "completed"]);
    },
  );
});

describe("an open turn keeps its row in the index", () => {
  test("when an older release, which cannot read its row, polls", async () => {
    const world = new World();
    const of = world.engine(speaker());
    await world.process(of, { drive: false }).start("hi", { id: "a" });
    const [row] = await world.rows("open");
    if (row === undefined) throw new Error("no turn is open");
    await world.raw("open", row, row.value.replace(/"version":\d+/, '"version":99'));
    expect(await world.process(of).recover()).toMatchObject({ pickedUp: 0 });
    // The release that wrote it reads it.
    await world.raw("open", row, row.value);
    await world.clock.advance(61_000);
    expect(await world.process(of).recover()).toMatchObject({ pickedUp: 1 });
  });

  test("when it is accepted while a worker removes a row of the same time that belongs to no turn", async () => {
    const world = new World();
    const of = world.engine(speaker());
    await (
      await world.process(of).start("hi", { id: "a" })
    ).result;
    await world.write({ puts: [dueRow("", "a", world.clock.now())] });
    const removal = gate();
    const slow = world.process(of, {
      holds: ({ batch }) =>
        batch.removals.some(({ table, prefix }) => isDue({ table, key: prefix })) ? removal.wait() : null,
    });
    const polling = slow.recover();
    await removal.reached;
    await world.process(of, { drive: false }).reply("a", "again");
    removal.open();
    await polling;
    await world.process(of).recover();
    await world.clock.advance(0);
    expect(await world.rows("open")).toEqual([]);
  });
});

describe("an open turn that is moved while a worker examines it", () => {
  /** A turn that is due at the time 0, and a row of the index at the time 1, which belongs to no turn. */
  async function moved() {
    const world = new World();
    const of = world.engine(speaker());
    await world.process(of, { drive: false }).start("hi", { id: "a" });
    const [open] = await world.rows("open");
    if (open === undefined) throw new Error("no turn is open");
    const dueAt = (due: number) => dueRow("", "a", due);
    const openAt = (due: number) =>
      ({
        table: "open",
        key: open.key,
        tag: 0,
        value: writeValue("open", { ...readValue("open", open), due }),
      }) as const;
    const times = async () => (await world.work("turn")).map(({ key }) => key[3]);
    return { world, of, dueAt, openAt, times };
  }

  test("keeps its row, also if it was moved to the time of a row that the worker removes", async () => {
    const { world, of, dueAt, openAt } = await moved();
    await world.write({ removals: [allDue], puts: [dueAt(1), dueAt(90_000), openAt(90_000)] });
    await world.clock.advance(2);
    const removal = gate();
    const slow = world.process(of, {
      holds: ({ batch }) =>
        batch.removals.some(({ table, prefix }) => isDue({ table, key: prefix })) ? removal.wait() : null,
    });
    const polling = slow.recover();
    await removal.reached;
    await world.write({ removals: [{ table: "work", prefix: dueAt(90_000).key }], puts: [openAt(1)] });
    removal.open();
    // The turn is found at once.
    expect(await polling).toMatchObject({ pickedUp: 1 });
  });

  test("is found within minutes if the storage's clock was set back by an hour, and at once by recover", async () => {
    for (const find of ["work", "recover"] as const) {
      const { world, of, dueAt, openAt } = await moved();
      await world.write({ removals: [allDue], puts: [dueAt(3_600_000), openAt(3_600_000)] });
      const process = world.process(of, { drive: false });
      const stop = new AbortController();
      if (find === "work") void process.work({ signal: stop.signal });
      else expect(await process.recover()).toMatchObject({ pickedUp: 1 });
      await world.clock.advance(find === "work" ? 180_000 : 0);
      stop.abort();
      expect(await world.rows("open")).toEqual([]);
    }
  });

  test("gets its own row before another row is removed", async () => {
    const { world, of, dueAt, openAt, times } = await moved();
    await world.write({ removals: [allDue], puts: [dueAt(1), openAt(90_000)] });
    await world.clock.advance(2);
    const seen: unknown[] = [];
    const watching = world.process(of, {
      holds: async ({ batch }) => {
        if (batch.removals.some(({ table, prefix }) => isDue({ table, key: prefix }))) seen.push(await times());
      },
    });
    await watching.sweep();
    await watching.sweep();
    expect(seen).toEqual([[1, 90_000]]);
    expect(await times()).toEqual([90_000]);
  });

  test("is moved by one of two workers that find it held", async () => {
    const { world, of, dueAt, openAt, times } = await moved();
    await world.clock.advance(2);
    await world.write({
      puts: [leasePut(["", "a"], { owner: "other", process: null, token: nextToken(0, 0), ttlMs: 500 })],
    });
    const move = gate();
    const slow = world.process(of, {
      holds: ({ batch }) =>
        batch.removals.some(({ table, prefix }) => isDue({ table, key: prefix })) ? move.wait() : null,
    });
    const polling = slow.recover();
    await move.reached;
    // Another process moves the turn to a later time in between.
    await world.write({ removals: [allDue], puts: [dueAt(700), openAt(700)] });
    move.open();
    await polling;
    expect(await times()).toEqual([700]);
  });
});

describe("turns that fail at once in this process", () => {
  /** A backlog, and a process whose engine cannot start turns. Counts its reads, and fails if they do not end. */
  async function unfit(backlog: number) {
    const world = new World();
    const of = world.engine(speaker());
    const accepting = world.process(of, { drive: false });
    for (let index = 0; index < backlog; index += 1) await accepting.start("hi", { id: `s${index}` });
    const seen = { reads: 0 };
    const broken = world.process(
      { ...of, adapter: null },
      {
        holdsRead: () => {
          seen.reads += 1;
          if (seen.reads > 30 * backlog) throw new Error("the storage is read without end");
          return null;
        },
      },
    );
    return { world, of, broken, seen };
  }

  test("are tried once by recover, and stay due for other processes", async () => {
    const { world, of, broken } = await unfit(30);
    expect(await broken.recover()).toMatchObject({ pickedUp: 30 });
    await world.clock.advance(0);
    expect(await world.process(of).recover()).toMatchObject({ pickedUp: 30 });
  });

  test("are not retried in a loop, also if there are more than the process remembers", async () => {
    const { world, broken, seen } = await unfit(1200);
    const stop = new AbortController();
    const working = broken.work({ signal: stop.signal });
    // The clock does not advance: the worker polls once and then waits.
    for (let before = -1; before < seen.reads;) {
      before = seen.reads;
      await world.clock.advance(0);
    }
    expect(seen.reads).toBeLessThan(10 * 1200);
    stop.abort();
    await world.clock.advance(0);
    await working;
  });
});

describe("a worker with a long backlog of turns that end as fast as they are claimed", () => {
  test("ends waits whose deadline has passed before the backlog is empty", async () => {
    const world = new World();
    const ask = counting("ask", { manual: true });
    const model = thinker(({ messages }) =>
      isFirst(messages) && messages[0]?.content === "ask" ? [call("ask")] : says("Done."),
    );
    const of = world.engine(model, { tools: [ask.tool] });
    const waiting = world.process(of);
    await (
      await waiting.start("ask", { id: "waits", waits: { manual: { afterMs: 10 } } })
    ).result;
    await world.clock.advance(20);
    const accepting = world.process(of, { drive: false });
    for (let index = 0; index < 400; index += 1) await accepting.start("hi", { id: `s${index}` });
    let expiredAfter = 0;
    const driving = world.process(of, {
      holds: ({ batch }) => {
        if (batch.removals.some(({ table, prefix }) => table === "work" && prefix[0] === "deadline"))
          expiredAfter = model.asked.length;
        return null;
      },
    });
    const stop = new AbortController();
    const working = driving.work({ concurrency: 64, signal: stop.signal });
    while ((await world.rows("open")).length > 0) await world.clock.advance(0);
    expect(expiredAfter).toBeGreaterThan(0);
    expect(expiredAfter).toBeLessThan(350);
    stop.abort();
    await world.clock.advance(20);
    await working;
  });
});

describe("rows of turns that this process cannot drive", () => {
  test("do not hide the turns after them, however many they are", async () => {
    const world = new World();
    const of = world.engine(speaker());
    for (let index = 0; index < 1500; index += 1) {
      const blank = { tag: 0, expires: null, remainingMs: null, value: "" };
      await world.write({ puts: [dueRow("", `bad${index}`, index % 3)] });
      await world.raw("open", { ...blank, key: ["", `bad${index}`] }, "{}");
    }
    await world.clock.advance(1000);
    const accepting = world.process(of, { drive: false });
    await accepting.start("hi", { id: "a" });
    expect(await world.process(of).recover()).toMatchObject({ pickedUp: 1 });
    expect(await accepting.attach("a").result).toMatchObject({ text: "Done." });
    await accepting.reply("a", "again");
    const stop = new AbortController();
    const working = world.process(of).work({ signal: stop.signal });
    await world.clock.advance(1000);
    expect((await accepting.get("a"))?.openTurn).toBeNull();
    stop.abort();
    await world.clock.advance(0);
    await working;
  });
});

describe("tenants whose turns are all due later", () => {
  /** A worker beside 300 tenants with a row in the far future. Counts the queries for the index. */
  async function besideMany({ readMs = 0 } = {}) {
    const { clock } = new World();
    const storage = memoryStorage({ clock });
    const puts = Array.from({ length: 300 }, (_, index) => dueRow(`t${index}`, "s", 1_000_000_000));
    await storage.write({ checks: [], removals: [], puts });
    const seen = { queries: 0 };
    const host: HostStorage = {
      ...storage,
      read: async (queries) => {
        seen.queries += queries.filter(({ table }) => table === "work").length;
        if (readMs > 0) await clock.sleep(readMs);
        return storage.read(queries);
      },
    };
    const fields = { engines: { default: new World().engine(speaker()) }, clock, live: false } as const;
    const accepting = runtime({ ...fields, host: storage, drive: false });
    const stop = new AbortController();
    const working = runtime({ ...fields, host }).work({ signal: stop.signal });
    await clock.advance(3000);
    const end = async () => {
      stop.abort();
      await clock.advance(20);
      await working;
    };
    return { clock, storage, seen, accepting, end };
  }

  test("cost nothing when a worker polls", async () => {
    const { clock, seen, accepting, end } = await besideMany();
    const before = seen.queries;
    for (let index = 0; index < 10; index += 1) {
      const turn = await accepting.tenant(`t${index}`).start("hi", { id: "new" });
      await clock.advance(1000);
      expect(await turn.result).toMatchObject({ text: "Done." });
    }
    expect(seen.queries - before).toBeLessThan(200);
    await end();
  });

  test("do not hide the tenants after them when the storage is slow", async () => {
    const { clock, accepting, end } = await besideMany({ readMs: 2 });
    const turn = await accepting.tenant("z").start("hi", { id: "new" });
    await clock.advance(4000);
    expect(await turn.result).toMatchObject({ text: "Done." });
    const ended = end();
    await clock.advance(2000);
    await ended;
  });

  test("are visited when their time has come, without a write", async () => {
    const { clock, storage, accepting, end } = await besideMany();
    await accepting.tenant("t7").start("hi", { id: "later" });
    const moved = { table: "work", prefix: ["turn", "default", "t7"] } as const;
    const [[open] = []] = await storage.read([{ table: "open", prefix: ["t7", "later"] }]);
    if (open === undefined) throw new Error("no turn is open");
    const later = clock.now() + 5000;
    const value = open.value.replace(/"due":\d+/, `"due":${later}`);
    await storage.write({
      checks: [],
      removals: [moved],
      puts: [{ table: "open", key: open.key, tag: 0, value }, dueRow("t7", "later", later)],
    });
    await clock.advance(4900);
    expect((await accepting.tenant("t7").get("later"))?.openTurn).not.toBeNull();
    await clock.advance(1200);
    expect((await accepting.tenant("t7").get("later"))?.openTurn).toBeNull();
    await end();
  });
});

describe("a process with two engines", () => {
  test("serves them round robin: a backlog of one does not keep the other waiting", async () => {
    const world = new World();
    const order: string[] = [];
    const engineOf = (name: string) => {
      const model = speaker();
      return world.engine({
        ...model,
        stream: (request, options) => {
          order.push(name);
          return model.stream(request, options);
        },
      });
    };
    const engines = { also: { second: engineOf("second") } };
    const accepting = world.process(engineOf("first"), { ...engines, drive: false });
    for (let index = 0; index < 20; index += 1) await accepting.start("hi", { id: `a${index}` });
    await accepting.start("hi", { id: "b", engine: "second" });
    const stop = new AbortController();
    const working = world.process(engineOf("first"), engines).work({ concurrency: 1, signal: stop.signal });
    while (order.length < 21) await world.clock.advance(20);
    expect(order.indexOf("second")).toBeLessThan(3);
    stop.abort();
    await world.clock.advance(20);
    await working;
  });
});

describe("the number of turns a process drives", () => {
  test("is bounded by maxActiveTurns however they were started, and a free place is filled at once", async () => {
    const world = new World();
    const modelGates = [gate(), gate(), gate()];
    let running = 0;
    let most = 0;
    const model = thinker(() => says("Done."));
    const of = world.engine({
      ...model,
      async *stream(request, call) {
        running += 1;
        most = Math.max(most, running);
        await modelGates[model.asked.length % 3]?.wait();
        yield* model.stream(request, call);
        running -= 1;
      },
    });
    const sessions = world.process(of, { maxActiveTurns: 1 });
    const turns = await Promise.all(["a", "b", "c"].map((id) => sessions.start("hi", { id })));
    for (const modelGate of modelGates) modelGate.open();
    const ends = await Promise.all(turns.map(({ result }) => result));
    expect(ends.map(({ text }) => text)).toEqual(["Done.", "Done.", "Done."]);
    expect(most).toBe(1);
  });
});

describe("a queue of turns that wait for a free place", () => {
  test("is not blocked by a session that was deleted meanwhile", async () => {
    const world = new World();
    const modelGate = gate();
    const model = thinker(() => says("Done."));
    const of = world.engine({
      ...model,
      async *stream(request, options) {
        if (model.asked.length === 0) await modelGate.wait();
        yield* model.stream(request, options);
      },
    });
    const sessions = world.process(of, { maxActiveTurns: 1 });
    const first = await sessions.start("hi", { id: "first" });
    await modelGate.reached;
    await sessions.start("hi", { id: "gone" });
    const last = await sessions.start("hi", { id: "last" });
    await sessions.delete("gone");
    modelGate.open();
    await first.result;
    const end = await Promise.race([last.result, world.clock.advance(5000)]);
    expect(end).toMatchObject({ text: "Done." });
  });

  test("is served round robin by tenant: one with many waiting turns does not delay another", async () => {
    const world = new World();
    const modelGate = gate();
    const ended: string[] = [];
    const model = thinker(() => says("Done."));
    const of = world.engine({
      ...model,
      async *stream(request, options) {
        if (model.asked.length === 0) await modelGate.wait();
        yield* model.stream(request, options);
      },
    });
    const sessions = world.process(of, { maxActiveTurns: 1 });
    const turns = [await sessions.tenant("a").start("hi", { id: "a0" })];
    await modelGate.reached;
    for (const id of ["a1", "a2", "a3", "b1"]) turns.push(await sessions.tenant(id.charAt(0)).start("hi", { id }));
    modelGate.open();
    await Promise.all(turns.map(({ sessionId, result }) => result.then(() => ended.push(sessionId))));
    expect(ended).toEqual(["a0", "a1", "b1", "a2", "a3"]);
  });
});

describe("a worker between two polls", () => {
  test("fills a free place at once when a turn ends", async () => {
    const world = new World();
    const model = speaker();
    const of = world.engine({
      ...model,
      async *stream(request, call) {
        await world.clock.sleep(1);
        yield* model.stream(request, call);
      },
    });
    const accepting = world.process(of, { drive: false });
    for (let index = 0; index < 10; index += 1) await accepting.start("hi", { id: `s${index}` });
    const stop = new AbortController();
    const working = world.process(of).work({ concurrency: 1, signal: stop.signal });
    await world.clock.advance(12);
    expect(model.asked).toHaveLength(10);
    stop.abort();
    await world.clock.advance(0);
    await working;
  });

  test("polls on time although claims are slow", async () => {
    const world = new World();
    const held = gate();
    const model = speaker();
    const of = world.engine({
      ...model,
      async *stream(request, call) {
        await held.wait();
        yield* model.stream(request, call);
      },
    });
    const storage = memoryStorage({ clock: world.clock });
    const claims: string[] = [];
    const host: HostStorage = {
      ...storage,
      write: async (batch) => {
        const lease = batch.puts.find(({ table }) => table === "leases");
        if (lease !== undefined && batch.puts.some(isDue)) {
          claims.push(String(lease.key[1]));
          await world.clock.sleep(200);
        }
        return storage.write(batch);
      },
    };
    const fields = { engines: { default: of }, clock: world.clock, live: false } as const;
    const accepting = runtime({ ...fields, host: storage, drive: false });
    const driving = runtime({ ...fields, host });
    await accepting.start("hi", { id: "first" });
    const stop = new AbortController();
    const working = driving.work({ concurrency: 64, signal: stop.signal });
    await world.clock.advance(210);
    await accepting.start("hi", { id: "second" });
    await world.clock.advance(40);
    expect(claims).toEqual(["first", "second"]);
    held.open();
    stop.abort();
    await world.clock.advance(200);
    await working;
    await driving.close({ graceMs: 0 });
  });
});

describe("Q17 takeovers", () => {
  /** A turn with a tool of the replay policy `safe` that ends every process that runs it. */
  async function deadly(world: World, lives: number, options: { readonly maxTakeovers?: number } = {}) {
    let runs = 0;
    for (let life = 0; life < lives; life += 1) {
      const inside = gate();
      const boom = counting("boom", {
        replay: "safe",
        handler: () => {
          runs += 1;
          return inside.wait();
        },
      });
      const of = world.engine(worker("boom"), { tools: [boom.tool] });
      const process = world.process(of, options);
      if (life === 0) await process.start("hi", { id: "s1" });
      else if ((await process.recover()).pickedUp === 0) return { runs, last: process };
      await inside.reached;
      process.kill();
      await world.clock.advance(120_000);
    }
    return { runs, last: null };
  }

  test("without a new journal row are counted, and at the limit the turn is parked with the effect that was open", async () => {
    const world = new World();
    const { runs, last } = await deadly(world, 20, { maxTakeovers: 3 });
    expect(runs).toBe(3);
    const view = await last?.get("s1");
    expect(view?.openTurn).toMatchObject({ status: "parked", failure: { reason: "takeover_limit" } });
    expect(view?.openTurn?.failure?.message).toContain('crashed or was blocked in the call "boom" of step 1;');
    expect(await world.work("turn")).toEqual([]);
    // recover ends the parked turn, and the session is usable.
    expect(await last?.recover("s1")).toMatchObject({ usable: true });
    expect((await last?.get("s1"))?.session.status).toBe("idle");
  });

  test("wait with backoff from the second on", async () => {
    const world = new World();
    const inside = gate();
    const boom = counting("boom", { replay: "safe", handler: () => inside.wait() });
    const of = world.engine(worker("boom"), { tools: [boom.tool] });
    const lives = [world.process(of), world.process(of), world.process(of)] as const;
    await lives[0].start("hi", { id: "s1" });
    await inside.reached;
    lives[0].kill();
    await world.clock.advance(30_001);
    expect(await lives[1].recover()).toMatchObject({ pickedUp: 1 });
    await world.clock.advance(0);
    lives[1].kill();
    await world.clock.advance(30_001);
    expect(await lives[2].recover()).toMatchObject({ pickedUp: 0 });
    await world.clock.advance(1000);
    expect(await lives[2].recover()).toMatchObject({ pickedUp: 1 });
  });

  test("of ended processes wait for the backoff only, not until the lease expires", async () => {
    const world = new World();
    const ended = new Set<string>();
    const inside = gate();
    const boom = counting("boom", { replay: "safe", handler: () => inside.wait() });
    const of = world.engine(worker("boom"), { tools: [boom.tool] });
    const life = (process: string) =>
      world.process(of, { liveness: { process, hasEnded: (other) => ended.has(other) } });
    const first = life("first");
    await first.start("hi", { id: "s1" });
    await inside.reached;
    first.kill();
    ended.add("first");
    const second = life("second");
    expect(await second.recover()).toMatchObject({ pickedUp: 1 });
    await world.clock.advance(0);
    second.kill();
    ended.add("second");
    const third = life("third");
    for (let waited = 0; waited < 500; waited += 100) {
      expect(await third.recover()).toMatchObject({ pickedUp: 0 });
      await world.clock.advance(100);
    }
    // The backoff is up to a half longer.
    await world.clock.advance(250);
    expect(await third.recover()).toMatchObject({ pickedUp: 1 });
  });

  test("of ended processes are not postponed to the expiry of the lease by a poll of the index", async () => {
    const world = new World();
    let hasEnded = false;
    const inside = gate();
    const slow = counting("slow", { replay: "safe", handler: () => inside.wait() });
    const of = world.engine(worker("slow"), { tools: [slow.tool] });
    const liveness = { process: "first", hasEnded: () => hasEnded };
    const first = world.process(of, { liveness });
    await first.start("hi", { id: "s1" });
    await inside.reached;
    // The lease was renewed, so it outlasts the time of the row in the index.
    await world.clock.advance(29_900);
    first.kill();
    hasEnded = true;
    await world.clock.advance(200);
    const second = world.process(of, { liveness: { ...liveness, process: "second" } });
    const before = world.writes.length;
    expect(await second.recover()).toMatchObject({ pickedUp: 1 });
    const moves = world.writes.slice(before).filter(({ batch }) => batch.puts.some(isDue));
    // The claim, which makes the turn due at the expiry of the new lease.
    expect(moves).toHaveLength(1);
  });

  test("of a process that the storage reports as ended begin at once, on whatever page of the open turns they are", async () => {
    const world = new World();
    const ended = new Set<string>();
    const listeners = new Set<() => void>();
    const inside = gate();
    const slow = counting("slow", { replay: "safe", handler: () => inside.wait() });
    const of = world.engine(worker("slow"), { tools: [slow.tool] });
    const liveness = (process: string) => ({
      process,
      hasEnded: (other: string) => ended.has(other),
      onEnded: (report: () => void) => {
        listeners.add(report);
        return () => void listeners.delete(report);
      },
    });
    // A page has fewer turns than these, which a process without the engine leaves alone.
    const others = world.process(of, { also: { other: of }, drive: false });
    for (let index = 0; index < 300; index += 1) await others.start("hi", { id: `a${index}`, engine: "other" });
    const first = world.process(of, { liveness: liveness("first") });
    await first.start("hi", { id: "s1" });
    await inside.reached;
    const second = world.process(of, { liveness: liveness("second") });
    const stop = new AbortController();
    const working = second.work({ signal: stop.signal });
    await world.clock.advance(2000);
    first.kill();
    ended.add("first");
    for (const report of listeners) report();
    await world.clock.advance(20);
    expect(slow.runs).toHaveLength(2);
    stop.abort();
    inside.open();
    await world.clock.advance(100);
    await working;
    expect(listeners.size).toBe(0);
  });

  test("after a released lease do not count", async () => {
    const world = new World();
    for (let life = 0; life < 8; life += 1) {
      const inside = gate();
      const slow = counting("slow", { replay: "safe", handler: () => inside.wait() });
      const process = world.process(world.engine(worker("slow"), { tools: [slow.tool] }), { maxTakeovers: 2 });
      if (life === 0) await process.start("hi", { id: "s1" });
      else expect(await process.recover()).toMatchObject({ pickedUp: 1 });
      await inside.reached;
      const closed = process.close({ graceMs: 0 });
      await world.clock.advance(0);
      await closed;
      inside.open();
    }
    const last = world.process(world.engine(worker("slow"), { tools: [counting("slow", { replay: "safe" }).tool] }));
    await last.recover();
    expect((await last.attach("s1").result).text).toBe("Done.");
  });

  test("are counted from zero after recover with an id, also if the lease was released before", async () => {
    const world = new World();
    const lives = Array.from({ length: 4 }, () => {
      const inside = gate();
      const slow = counting("slow", { replay: "safe", handler: () => inside.wait() });
      const of = world.engine(worker("slow"), { tools: [slow.tool] });
      return { inside, process: world.process(of, { maxTakeovers: 2 }) };
    });
    const [first, second, third, fourth] = lives;
    if (first === undefined || second === undefined || third === undefined || fourth === undefined) return;
    await first.process.start("hi", { id: "s1" });
    await first.inside.reached;
    first.process.kill();
    await world.clock.advance(120_000);
    expect(await second.process.recover()).toMatchObject({ pickedUp: 1 });
    await second.inside.reached;
    const closed = second.process.close({ graceMs: 0 });
    await world.clock.advance(0);
    await closed;
    expect(await third.process.recover("s1")).toMatchObject({ pickedUp: 1 });
    await third.inside.reached;
    third.process.kill();
    await world.clock.advance(120_000);
    expect(await fourth.process.recover()).toMatchObject({ pickedUp: 1 });
  });
});
