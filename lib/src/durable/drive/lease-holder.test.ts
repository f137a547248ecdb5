// The lease holder: a process whose lease has expired renews before it acts, and does not lose results it has.

import type { Batch, HostStorage } from "../internal.ts";
import type { Check, Put } from "../rows/storage.ts";

import { describe, expect, test } from "vitest";

import { latch } from "../../../test/runtime/sessions.ts";
import { call, counting, gate, says, talk, thinker, worker, World } from "../../../test/runtime/world.ts";
import { fake } from "../../core/adapters/index.ts";
import { engine, tool } from "../../core/engine/internal.ts";
import { RuntimeError } from "../../core/model/index.ts";
import { handClock } from "../../testing/hand-clock.ts";
import { memoryStorage } from "../host/memory/memory.ts";
import { runtime } from "../index.ts";
import { putting } from "../rows/batch.ts";
import { claim, epochOf, leasePut, leaseTimings, nextToken } from "../rows/lease.ts";
import { moveDue } from "../rows/open-rows.ts";
import { readValue } from "../rows/stored.ts";
import { LeaseHolder } from "./lease-holder.ts";

/** Is this the commit of a model reply? */
const settlesReply = ({ puts }: Batch): boolean =>
  puts.some(({ table, value }) => table === "journal" && value.includes("model_replied"));

/** Does this batch only extend a lease? */
const isRenewal = ({ puts, checks }: Batch): boolean =>
  puts.length === 1 && puts[0]?.table === "leases" && checks[0]?.alive === true;

/** Does this batch accept a turn? */
const acceptsTurn = ({ puts }: Batch): boolean => puts.some(({ table }) => table === "starts");

/** A process that is paused when the answer to a write arrives. */
function pausedAfter(storage: HostStorage, isPoint: (batch: Batch) => boolean) {
  const pause = gate();
  let isPaused = false;
  const host: HostStorage = {
    ...storage,
    write: async (batch) => {
      // Renewals are paused too.
      if (isPaused) await pause.wait();
      const written = await storage.write(batch);
      if (isPaused || !isPoint(batch)) return written;
      isPaused = true;
      await pause.wait();
      return written;
    },
  };
  return { host, pause };
}

describe("a worker that was paused after a commit for longer than its lease", () => {
  test("does not run a tool whose outcome another process has reported as unknown", async () => {
    const world = new World();
    const pay = counting("pay");
    const of = world.engine(worker("pay"), { tools: [pay.tool] });
    const storage = memoryStorage({ clock: world.clock });
    const { host, pause } = pausedAfter(storage, settlesReply);
    const engines = { default: of };
    const first = runtime({ host, engines, clock: world.clock, live: false });
    const turn = await first.start("hi", { id: "s1" });
    await pause.reached;
    await world.clock.advance(31_000);
    const second = runtime({ host: storage, engines, clock: world.clock, live: false });
    expect(await second.recover()).toMatchObject({ pickedUp: 1 });
    expect((await second.attach("s1", turn.turnId).result).text).toBe("Done.");
    pause.open();
    await world.clock.advance(1000);
    expect(pay.runs).toEqual([]);
    const results = (await second.messages("s1")).items.filter(({ role }) => role === "tool");
    expect(results).toMatchObject([{ code: "outcome_unknown" }]);
  });

  test("does not send a model call that another process has sent and recorded", async () => {
    const world = new World();
    const model = thinker(() => says("Done."));
    const engines = { default: world.engine(model) };
    const storage = memoryStorage({ clock: world.clock });
    const { host, pause } = pausedAfter(storage, acceptsTurn);
    const first = runtime({ host, engines, clock: world.clock, live: false });
    const starting = first.start("hi", { id: "s1" });
    await pause.reached;
    await world.clock.advance(31_000);
    const second = runtime({ host: storage, engines, clock: world.clock, live: false });
    expect(await second.recover()).toMatchObject({ pickedUp: 1 });
    expect((await second.attach("s1").result).text).toBe("Done.");
    pause.open();
    expect((await (await starting).result).text).toBe("Done.");
    await world.clock.advance(1000);
    expect(model.asked).toHaveLength(1);
  });

  test("continues when no other process has claimed the session, under the next epoch (Q18)", async () => {
    const world = new World();
    const pay = counting("pay");
    const engines = { default: world.engine(worker("pay"), { tools: [pay.tool] }) };
    const storage = memoryStorage({ clock: world.clock });
    const { host, pause } = pausedAfter(storage, settlesReply);
    const first = runtime({ host, engines, clock: world.clock, live: false });
    const turn = await first.start("hi", { id: "s1" });
    await pause.reached;
    await world.clock.advance(31_000);
    pause.open();
    expect((await turn.result).text).toBe("Done.");
    expect(pay.runs).toHaveLength(1);
    const [[lease] = []] = await storage.read([{ table: "leases", prefix: ["", "s1"] }]);
    expect(epochOf(lease?.tag ?? 0)).toBe(2);
  });
});

test("a local clock that jumps ahead does not lose the result of a tool", async () => {
  const base = handClock();
  let ahead = 0;
  const clock = { ...base, now: () => base.now() + ahead };
  const world = new World();
  const pay = counting("pay", { handler: () => (ahead += 3_600_000) });
  const engines = { default: world.engine(worker("pay"), { tools: [pay.tool] }) };
  const sessions = runtime({ host: memoryStorage({ clock: base }), engines, clock, live: false });
  expect((await (await sessions.start("hi", { id: "s1" })).result).text).toBe("Done.");
  expect(pay.runs).toHaveLength(1);
});

test("commits in quick succession leave the lease row as it is", async () => {
  const world = new World();
  const quick = counting("quick", { handler: () => world.clock.advance(500) });
  const model = thinker(({ messages }) => {
    const steps = messages.filter(({ role }) => role === "tool").length;
    return steps === 20 ? says("Done.") : [call("quick", { steps }, `c${steps}`)];
  });
  const storage = memoryStorage({ clock: world.clock });
  const commits: number[] = [];
  const extensions: number[] = [];
  const host: HostStorage = {
    ...storage,
    write: (batch) => {
      if (batch.puts.some(({ table }) => table === "journal")) commits.push(world.clock.now());
      if (batch.puts.some(({ table }) => table === "leases")) extensions.push(world.clock.now());
      return storage.write(batch);
    },
  };
  const engines = { default: world.engine(model, { tools: [quick.tool] }) };
  const sessions = runtime({ host, engines, clock: world.clock, live: false });
  expect((await (await sessions.start("hi", { id: "s1", maxTurns: 30 })).result).text).toBe("Done.");
  expect(commits).toHaveLength(42);
  // The claim, an extension after each half of the renewal interval (5 s of 10 s of work), and the release.
  expect(extensions).toEqual([0, 5000, 10_000, 10_000]);
});

test("a commit extends the lease: a turn of many slow steps keeps it without renewals", async () => {
  const world = new World();
  const slow = counting("slow", { handler: () => world.clock.advance(9000) });
  const model = thinker(({ messages }) => {
    const steps = messages.filter(({ role }) => role === "tool").length;
    return steps === 6 ? says("Done.") : [call("slow", { steps }, `c${steps}`)];
  });
  const storage = memoryStorage({ clock: world.clock });
  const renewals: Batch[] = [];
  const host: HostStorage = {
    ...storage,
    write: async (batch) => {
      if (!isRenewal(batch)) return storage.write(batch);
      renewals.push(batch);
      throw new RuntimeError("storage_failed", { message: "renewals are lost" });
    },
  };
  const engines = { default: world.engine(model, { tools: [slow.tool] }) };
  const sessions = runtime({ host, engines, clock: world.clock, live: false });
  const turn = await sessions.start("hi", { id: "s1" });
  expect((await turn.result).text).toBe("Done.");
  expect(slow.runs).toHaveLength(6);
  const [[lease] = []] = await storage.read([{ table: "leases", prefix: ["", "s1"] }]);
  expect(epochOf(lease?.tag ?? 0)).toBe(1);
});

test("a busy storage delays a commit until it is free, also for longer than the lease", async () => {
  const world = new World();
  const pay = counting("pay");
  const engines = { default: world.engine(worker("pay"), { tools: [pay.tool] }) };
  const storage = memoryStorage({ clock: world.clock });
  let locked = false;
  let replies = 0;
  const host: HostStorage = {
    ...storage,
    write: async (batch) => {
      if (locked) throw new RuntimeError("storage_busy", { message: "locked by another process" });
      const written = await storage.write(batch);
      if (settlesReply(batch)) replies += 1;
      locked = settlesReply(batch) && replies === 1;
      return written;
    },
  };
  const sessions = runtime({ host, engines, clock: world.clock, live: false });
  const turn = await sessions.start("hi", { id: "s1" });
  await world.clock.advance(35_000);
  expect(pay.runs).toHaveLength(1);
  locked = false;
  await world.clock.advance(2000);
  expect((await turn.result).text).toBe("Done.");
  expect(pay.runs).toHaveLength(1);
  expect(await talk(sessions)).toEqual(["user hi", "assistant ", "tool pay: ok", "assistant Done."]);
});

test.each(["inbox", "inboxes"] as const)("a read of %s that fails with storage_busy is retried", async (table) => {
  const world = new World();
  const pay = counting("pay");
  const model = worker("pay");
  let failures = 0;
  const sessions = world.process(world.engine(model, { tools: [pay.tool] }), {
    holdsRead: (queries) => {
      if (failures === 3 || !queries.some((query) => query.table === table)) return null;
      failures += 1;
      throw new RuntimeError("storage_busy", { message: "locked by another process" });
    },
  });
  const turn = await sessions.start("hi", { id: "s1" });
  await world.clock.advance(5000);
  expect((await turn.result).text).toBe("Done.");
  expect([failures, pay.runs.length, model.asked.length]).toEqual([3, 1, 2]);
});

test("a commit and a renewal that are refused at the same time share one claim of the next epoch (Q18)", async () => {
  const world = new World();
  const done = gate();
  const pay = counting("pay", { handler: () => done.wait().then(() => "paid") });
  const of = world.engine(worker("pay"), { tools: [pay.tool] });
  const pause = gate();
  let isPaused = false;
  const sessions = world.process(of, { holds: () => (isPaused ? pause.wait() : null) });
  const turn = await sessions.start("hi", { id: "s1" });
  await done.reached;
  isPaused = true;
  // The renewal is sent, then the commit of the result, and both arrive after the lease has expired.
  await world.clock.advance(10_500);
  done.open();
  await world.clock.advance(30_500);
  isPaused = false;
  pause.open();
  await world.clock.advance(100);
  expect(epochOf((await world.rows("leases"))[0]?.tag ?? 0)).toBe(2);
  expect((await turn.result).text).toBe("Done.");
  expect(await talk(sessions)).toEqual(["user hi", "assistant ", "tool paid", "assistant Done."]);
});

test.each([false, true])(
  "the epoch never decreases when the ending commit claims the lease again; another turn follows: %s",
  async (follows) => {
    const world = new World();
    const of = world.engine(worker());
    const ending = gate();
    const pause = gate();
    const ends = ({ puts }: Batch) => puts.some(({ table, value }) => table === "turns" && value.includes('"ended"'));
    const sessions = world.process(of, {
      // The read of the commit that ends the turn, and not that of the checkpoint before it.
      holdsRead: ([first]) => (first?.table === "inboxes" ? ending.wait() : null),
      holds: ({ batch }) => (ends(batch) ? pause.wait() : null),
      refuses: ({ batch }) => (isRenewal(batch) ? new RuntimeError("storage_failed", { message: "lost" }) : null),
    });
    const turn = await sessions.start("hi", { id: "s1" });
    await ending.reached;
    if (follows) await world.process(of, { drive: false }).steer("s1", "more");
    ending.open();
    await pause.reached;
    await world.clock.advance(31_000);
    pause.open();
    expect((await turn.result).text).toBe("Done.");
    await world.clock.advance(0);
    // The claim, the claim after the expiry, and the claim for the next turn.
    expect(epochOf((await world.rows("leases"))[0]?.tag ?? 0)).toBe(follows ? 3 : 2);
    expect((await sessions.get("s1"))?.openTurn).toBeNull();
    expect(await talk(sessions)).toHaveLength(follows ? 4 : 2);
  },
);

describe("a released lease is not claimed again", () => {
  test("by an effect that is still in flight in the process that handed the turn over", async () => {
    const world = new World();
    const of = world.engine(worker("look"), { tools: [counting("look").tool] });
    const inbox = gate();
    const first = world.process(of, {
      // The read of a checkpoint, and not that of `steer`.
      holdsRead: ([query]) => (query?.table === "inbox" ? inbox.wait() : null),
    });
    const turn = await first.start("hi", { id: "s1" });
    await inbox.reached;
    await first.steer("s1", "more");
    const closed = first.close({ graceMs: 0 });
    await world.clock.advance(0);
    await closed;
    // The checkpoint continues and tries to claim the input.
    inbox.open();
    await world.clock.advance(0);
    const second = world.process(of);
    expect(await second.recover()).toMatchObject({ pickedUp: 1 });
    expect((await second.attach("s1", turn.turnId).result).text).toBe("Done.");
  });

  test("by a renewal that the storage delayed beyond the end of the turn", async () => {
    const world = new World();
    const done = gate();
    const look = counting("look", { handler: () => done.wait() });
    let isLocked = true;
    const sessions = world.process(world.engine(worker("look"), { tools: [look.tool] }), {
      refuses: ({ batch }) =>
        isLocked && isRenewal(batch) ? new RuntimeError("storage_busy", { message: "locked" }) : null,
    });
    await sessions.start("hi", { id: "s1" });
    await done.reached;
    await world.clock.advance(10_010);
    done.open();
    await world.clock.advance(0);
    expect(await world.rows("open")).toEqual([]);
    isLocked = false;
    await world.clock.advance(2000);
    const turn = await sessions.reply("s1", "again");
    expect((await turn.result).text).toBe("Done.");
  });
});

test("an effect does not start if the answer to a renewal arrives after the extended lease has expired", async () => {
  const clock = handClock();
  const storage = memoryStorage({ clock });
  const lease = leaseTimings;
  const claims = async (owner: string) => {
    const [[row] = []] = await storage.read([{ table: "leases", prefix: ["", "s1"] }]);
    const claimed = claim(["", "s1"], row ?? null, owner, clock, lease);
    if (claimed.type === "busy") throw new Error("the session is held");
    await storage.write({ checks: [claimed.check], removals: [], puts: [claimed.put] });
    return claimed.lease;
  };
  const answer = gate();
  let renewals = 0;
  const host: HostStorage = {
    ...storage,
    write: async (batch) => {
      const written = await storage.write(batch);
      renewals += 1;
      if (renewals === 1) await answer.wait();
      return written;
    },
  };
  const holder = new LeaseHolder({ storage: host, clock, lease }, { tenant: "", session: "s1" }, await claims("one"));
  await clock.advance(20_000);
  const renewing = holder.renew();
  await answer.reached;
  await clock.advance(31_000);
  await claims("two");
  // The process was paused: the effect is about to start, and the answer to the renewal is there.
  const ensured = holder.ensure();
  answer.open();
  await renewing;
  await expect(ensured).rejects.toMatchObject({ reason: "lease_lost" });
});

test("a renewal without an answer does not prevent the next one, and at most three are without an answer", async () => {
  const clock = handClock();
  const storage = memoryStorage({ clock });
  const key = ["", "s1"] as const;
  const claimed = claim(key, null, "one", clock, leaseTimings);
  if (claimed.type === "busy") throw new Error("the session is held");
  await storage.write({ checks: [], removals: [], puts: [claimed.put] });
  let sent = 0;
  let unanswered = 1;
  const host: HostStorage = {
    ...storage,
    write: async (batch) => {
      sent += 1;
      if (sent <= unanswered) return new Promise(() => undefined);
      return storage.write(batch);
    },
  };
  const holder = new LeaseHolder(
    { storage: host, clock, lease: leaseTimings },
    { tenant: "", session: "s1" },
    claimed.lease,
  );
  void holder.renew();
  void holder.renew();
  expect(sent).toBe(1);
  await clock.advance(10_000);
  await holder.renew();
  expect(sent).toBe(2);
  await clock.advance(25_000);
  expect(holder.isSafe).toBe(true);
  unanswered = Number.POSITIVE_INFINITY;
  for (let i = 0; i < 10; i += 1) {
    void holder.renew();
    await clock.advance(10_000);
  }
  expect(sent).toBe(4);
});

test("a process that claimed its lease again and then shuts down rejects the result of the turn", async () => {
  const world = new World();
  const [first, second] = [gate(), gate()];
  const tools = [
    counting("first", { timeoutMs: 60_000, handler: () => first.wait() }).tool,
    counting("second", { handler: () => second.wait() }).tool,
  ];
  const sessions = world.process(world.engine(worker("first", "second"), { tools }), {
    refuses: ({ batch }) =>
      isRenewal(batch) && world.clock.now() < 31_000
        ? new RuntimeError("storage_failed", { message: "renewals are lost" })
        : null,
  });
  const turn = await sessions.start("hi", { id: "s1" });
  await first.reached;
  const result = turn.result.catch((error: unknown) => error);
  await world.clock.advance(31_000);
  first.open();
  await second.reached;
  expect(epochOf((await world.rows("leases"))[0]?.tag ?? 0)).toBe(2);
  const closed = sessions.close({ graceMs: 0 });
  await world.clock.advance(0);
  await closed;
  expect(await Promise.race([result, world.clock.advance(1000)])).toMatchObject({ reason: "lease_lost" });
});

describe("release while a write of the holder finds the lease expired", () => {
  /** A holder whose lease has expired, and a write of it that waits at the given batch. */
  async function expired(isPoint: (batch: Batch) => boolean) {
    const clock = handClock();
    const storage = memoryStorage({ clock });
    const pause = gate();
    const host: HostStorage = {
      ...storage,
      write: async (batch) => {
        if (isPoint(batch)) await pause.wait();
        return storage.write(batch);
      },
    };
    const claimed = claim(["", "s1"], null, "one", clock, leaseTimings);
    if (claimed.type === "busy") throw new Error("the session is held");
    await storage.write({ checks: [], removals: [], puts: [claimed.put] });
    const key = { tenant: "", session: "s1" };
    const holder = new LeaseHolder({ storage: host, clock, lease: leaseTimings }, key, claimed.lease);
    await clock.advance(31_000);
    const writing = holder.write({ checks: [], removals: [], puts: [] });
    writing.catch(() => undefined);
    await pause.reached;
    const remaining = async () => (await storage.read([{ table: "leases", prefix: ["", "s1"] }]))[0]?.[0]?.remainingMs;
    return { holder, pause, writing, remaining };
  }

  test("releases the epoch that is being claimed", async () => {
    const { holder, pause, writing, remaining } = await expired(({ puts }) => epochOf(puts[0]?.tag ?? 0) === 2);
    const releasing = holder.release();
    pause.open();
    await releasing;
    await expect(writing).rejects.toMatchObject({ reason: "lease_lost" });
    expect(await remaining()).toBeLessThanOrEqual(0);
  });

  test("claims no epoch after it", async () => {
    const { holder, pause, writing, remaining } = await expired(({ checks }) => checks[0]?.alive === true);
    const releasing = holder.release();
    pause.open();
    await releasing;
    await expect(writing).rejects.toMatchObject({ reason: "lease_lost" });
    expect(await remaining()).toBeLessThanOrEqual(0);
  });
});

describe("a release that fails", () => {
  /** A holder whose storage refuses the next `count` writes. `alone`: its process drives no other turn. */
  async function failing(count: number, alone = false) {
    const clock = handClock();
    const storage = memoryStorage({ clock });
    let left = count;
    const host: HostStorage = {
      ...storage,
      write: async (batch) => {
        left -= 1;
        if (left >= 0) throw new RuntimeError("storage_failed", { message: "the connection was lost" });
        return storage.write(batch);
      },
    };
    const claimed = claim(["", "s1"], null, "one", clock, leaseTimings);
    if (claimed.type === "busy") throw new Error("the session is held");
    await storage.write({ checks: [], removals: [], puts: [claimed.put] });
    const key = { tenant: "", session: "s1" };
    const holder = new LeaseHolder({ storage: host, clock, lease: leaseTimings }, key, { ...claimed.lease, alone });
    const row = async () => (await storage.read([{ table: "leases", prefix: ["", "s1"] }]))[0]?.[0] ?? null;
    return { clock, storage, holder, claimed, row };
  }

  test("is tried again until it is written, so that the turn does not wait for the expiry", async () => {
    const { clock, holder, row } = await failing(3);
    await holder.release();
    expect((await row())?.remainingMs).toBeGreaterThan(0);
    await clock.advance(1000);
    expect((await row())?.remainingMs).toBeLessThanOrEqual(0);
  });

  test("is awaited if the lease row says that the process drives no other turn (Q17)", async () => {
    const { clock, holder, row } = await failing(3, true);
    let isReleased = false;
    const releasing = holder.release().then(() => (isReleased = true));
    await clock.advance(0);
    expect((await row())?.remainingMs).toBeGreaterThan(0);
    expect(isReleased).toBe(false);
    await clock.advance(1000);
    await releasing;
    expect((await row())?.remainingMs).toBeLessThanOrEqual(0);
  });

  test("is awaited no longer than the lease lasts", async () => {
    const { clock, holder, row } = await failing(1000, true);
    const releasing = holder.release();
    await clock.advance(31_000);
    await releasing;
    expect((await row())?.remainingMs).toBeLessThanOrEqual(0);
  });

  test("does not open a turn again that has ended, and still releases the lease", async () => {
    const { storage, holder, row } = await failing(0);
    const open = { turn: "turn-1", engine: "default", due: 1, limitKey: null, limit: null };
    await holder.release(moveDue({ tenant: "", session: "s1" }, open, 2));
    expect(
      await storage.read([
        { table: "open", prefix: [] },
        { table: "work", prefix: ["turn"] },
      ]),
    ).toEqual([[], []]);
    expect((await row())?.remainingMs).toBeLessThanOrEqual(0);
  });

  test("does not release the lease of a process that has claimed the session since", async () => {
    const { clock, storage, holder, row } = await failing(1);
    await holder.release();
    const other = claim(["", "s1"], null, "two", clock, leaseTimings);
    if (other.type === "busy") throw new Error("the session is held");
    await storage.write({ checks: [], removals: [], puts: [{ ...other.put, tag: nextToken(other.put.tag, 0) }] });
    await clock.advance(1000);
    expect(await row()).toMatchObject({ tag: nextToken(other.put.tag, 0), remainingMs: 29_000 });
  });
});

/** A holder of session s1, whose lease and whose storage's clock a test changes. */
async function held() {
  const clock = handClock();
  const storageClock = { behindMs: 0 };
  const storage = memoryStorage({ clock: { ...clock, now: () => clock.now() - storageClock.behindMs } });
  const claimed = claim(["", "s1"], null, "one", clock, leaseTimings);
  if (claimed.type === "busy") throw new Error("the session is held");
  await storage.write({ checks: [], removals: [], puts: [claimed.put] });
  const row = async () => (await storage.read([{ table: "leases", prefix: ["", "s1"] }]))[0]?.[0] ?? null;
  return { clock, storage, storageClock, claimed, row };
}

describe("a lease that has become longer, or whose row has changed", () => {
  const key = { tenant: "", session: "s1" } as const;

  /**
   * A holder whose writes are recorded. `hold` makes a write wait before the storage performs it, `lose` keeps the
   * answer to one. Both get the number of the write.
   */
  async function growing({
    hold = () => null,
    lose = () => false,
    alone = false,
  }: {
    readonly hold?: (write: number) => Promise<void> | null;
    readonly lose?: (write: number) => boolean;
    readonly alone?: boolean;
  } = {}) {
    const world = await held();
    const timings = { ...leaseTimings };
    const batches: Batch[] = [];
    const host: HostStorage = {
      ...world.storage,
      write: async (batch) => {
        const write = batches.push(batch);
        await hold(write);
        const written = await world.storage.write(batch);
        if (lose(write)) await new Promise(() => undefined);
        return written;
      },
    };
    const lease = { ...world.claimed.lease, alone };
    await world.storage.write({ checks: [], removals: [], puts: [leasePut(["", "s1"], lease)] });
    const holder = new LeaseHolder({ storage: host, clock: world.clock, lease: timings }, key, lease);
    /** Renews the lease as a long one. */
    const grow = async () => {
      await world.clock.advance(6000);
      timings.ttlMs = 90_000;
      const renewed = holder.renew();
      await world.clock.advance(1);
      return renewed;
    };
    /** The network delivers the first write again. */
    const repeatFirst = async () => {
      const [first] = batches;
      return first === undefined ? null : world.storage.write(first);
    };
    return { ...world, holder, grow, repeatFirst };
  }

  test("is not shortened by an earlier write that the storage performs later", async () => {
    const applies = latch();
    const { holder, grow, row, clock } = await growing({ hold: (write) => (write === 1 ? applies.passed : null) });
    const first = holder.renew();
    await grow();
    applies.open();
    await first;
    expect((await row())?.remainingMs).toBe(90_000);
    await clock.advance(89_000);
    expect(holder.isSafe).toBe(true);
  });

  test("is not shortened by an earlier write that arrives twice", async () => {
    const { holder, grow, row, repeatFirst } = await growing();
    await holder.renew();
    await grow();
    expect(await repeatFirst()).toEqual({ ok: false, check: 0 });
    expect((await row())?.remainingMs).toBeGreaterThan(80_000);
  });

  test("keeps its epoch, and is extended by writes that find the row changed although the answer was lost", async () => {
    const { holder, grow, row, clock, claimed } = await growing({ lose: (write) => write === 1 });
    void grow();
    await clock.advance(20_000);
    expect(await holder.write(putting())).toEqual({ ok: true });
    const stored = await row();
    expect(stored?.remainingMs).toBe(90_000);
    expect(epochOf(stored?.tag ?? 0)).toBe(epochOf(claimed.lease.token));
    expect(holder.lease).toMatchObject({ token: stored?.tag, ttlMs: 90_000 });
  });

  test("is released also if the answer to the change was lost", async () => {
    const { holder, grow, row, clock } = await growing({ lose: (write) => write === 1 });
    void grow();
    await clock.advance(6001);
    expect((await row())?.remainingMs).toBe(90_000);
    await holder.release();
    expect((await row())?.remainingMs).toBeLessThanOrEqual(0);
  });

  test("is not lost if its row changes twice while a refused write reads it", async () => {
    const world = await held();
    const timings = { ...leaseTimings };
    const [isWritten, firstAnswer, isRead, readAnswer] = [latch(), latch(), latch(), latch()];
    let writes = 0;
    const host: HostStorage = {
      ...world.storage,
      write: async (batch) => {
        writes += 1;
        const isFirst = writes === 1;
        const written = await world.storage.write(batch);
        if (isFirst) {
          isWritten.open();
          await firstAnswer.passed;
        }
        return written;
      },
      read: async (queries) => {
        const rows = await world.storage.read(queries);
        isRead.open();
        await readAnswer.passed;
        return rows;
      },
    };
    const lease = { ...world.claimed.lease, alone: true };
    await world.storage.write({ checks: [], removals: [], puts: [leasePut(["", "s1"], lease)] });
    const holder = new LeaseHolder({ storage: host, clock: world.clock, lease: timings }, key, lease);
    timings.ttlMs = 90_000;
    const first = holder.write(putting());
    await isWritten.passed;
    const refused = holder.write(putting());
    await isRead.passed;
    firstAnswer.open();
    await first;
    holder.endAlone();
    await holder.write(putting());
    readAnswer.open();
    expect(await refused).toEqual({ ok: true });
  });

  test("does not say again that the process drives no other turn, also if an earlier write arrives twice (Q17)", async () => {
    const { holder, row, repeatFirst } = await growing({ alone: true });
    await holder.renew();
    holder.endAlone();
    await holder.write(putting());
    expect(await repeatFirst()).toEqual({ ok: false, check: 0 });
    const stored = await row();
    expect(stored === null ? null : readValue("leases", stored).alone).toBe(false);
  });
});

describe("a lease that is kept does not expire", () => {
  /** Advances the time, and returns the shortest rest of the lease that was seen. */
  async function shortestRest({ clock, row }: Awaited<ReturnType<typeof held>>, seconds: number): Promise<number> {
    let shortest = Number.POSITIVE_INFINITY;
    for (let second = 0; second < seconds; second += 1) {
      await clock.advance(1000);
      shortest = Math.min(shortest, (await row())?.remainingMs ?? 0);
    }
    return shortest;
  }

  test("if a commit makes it shorter while the next renewal is far away", async () => {
    const world = await held();
    const { storage, claimed } = world;
    // The first renewal is as late as possible.
    const clock = { ...world.clock, random: () => 0.999 };
    const timings = { ttlMs: 120_000, renewMs: 40_000 };
    const lease = { ...claimed.lease, ttlMs: timings.ttlMs };
    const holder = new LeaseHolder({ storage, clock, lease: timings }, { tenant: "", session: "s1" }, lease);
    const over = new AbortController();
    await holder.renew();
    const keeping = holder.keep(over.signal, () => undefined);
    // The last renewal is that of long leases, so the next one is 40 s away.
    await clock.advance(41_000);
    Object.assign(timings, leaseTimings);
    await holder.write(putting());
    expect(await shortestRest(world, 60)).toBeGreaterThan(0);
    over.abort();
    await keeping;
  });

  test("if writes have become slow since it was claimed", async () => {
    const world = await held();
    const { storage, claimed } = world;
    // The first renewal is as late as possible.
    const clock = { ...world.clock, random: () => 0.999 };
    // The claim was answered after 14 s, and leases have grown since.
    await clock.advance(14_000);
    const timings = { ttlMs: 84_000, renewMs: 28_000 };
    const holder = new LeaseHolder({ storage, clock, lease: timings }, { tenant: "", session: "s1" }, claimed.lease);
    const over = new AbortController();
    const keeping = holder.keep(over.signal, () => undefined);
    expect(await shortestRest(world, 60)).toBeGreaterThan(0);
    over.abort();
    await keeping;
  });
});

describe("a write that is repeated after an error", () => {
  const lost = () => new RuntimeError("storage_failed", { message: "lost", metadata: { transient: true } });
  const committed: Put = { table: "journal", key: ["", "s1", "t1", 1], tag: 0, value: "a result" };
  const check: Check = { table: "journal", key: committed.key, tag: null };

  test("was applied if its rows are stored, also after a renewal of another duration", async () => {
    const { clock, storage, claimed } = await held();
    const timings = { ...leaseTimings };
    let isLost = true;
    const host: HostStorage = {
      ...storage,
      write: async (batch) => {
        const written = await storage.write(batch);
        if (!isLost || isRenewal(batch)) return written;
        isLost = false;
        throw lost();
      },
    };
    const holder = new LeaseHolder(
      { storage: host, clock, lease: timings },
      { tenant: "", session: "s1" },
      claimed.lease,
    );
    const writing = holder.write({ checks: [check], removals: [], puts: [committed] });
    timings.ttlMs = 40_000;
    await holder.renew();
    await clock.advance(100);
    expect(await writing).toEqual({ ok: true });
  });

  test("was not applied if it is a renewal, and the lease has expired since", async () => {
    const { clock, storage, claimed, row } = await held();
    let isAway = true;
    const host: HostStorage = {
      ...storage,
      write: async (batch) => {
        if (isAway) throw lost();
        return storage.write(batch);
      },
    };
    const holder = new LeaseHolder(
      { storage: host, clock, lease: leaseTimings },
      { tenant: "", session: "s1" },
      claimed.lease,
    );
    await clock.advance(20_000);
    const renewing = holder.renew();
    await clock.advance(11_000);
    isAway = false;
    await clock.advance(1000);
    await renewing;
    expect((await row())?.remainingMs).toBeGreaterThan(0);
    expect(holder.isSafe).toBe(true);
  });
});

test("a lease that its holder renews after the storage's clock was set back is not claimed by a process that found it expired", async () => {
  const { clock, storage, storageClock, claimed, row } = await held();
  const holder = new LeaseHolder({ storage, clock, lease: leaseTimings }, { tenant: "", session: "s1" }, claimed.lease);
  await clock.advance(31_000);
  const other = claim(["", "s1"], await row(), "two", clock, leaseTimings);
  if (other.type === "busy") throw new Error("the session is held");
  storageClock.behindMs = 5000;
  await holder.renew();
  expect(await storage.write({ checks: [other.check], removals: [], puts: [other.put] })).toMatchObject({ ok: false });
  expect((await row())?.tag).toBe(claimed.put.tag);
});

test("a lease that was claimed while the storage could not identify the process gets the identity with the next write", async () => {
  const { passed, open } = latch();
  const clock = handClock();
  const memory = memoryStorage({ clock });
  let process: string | null = null;
  const liveness = {
    get process() {
      return process;
    },
    hasEnded: () => false,
  };
  const wait = tool({ name: "wait", description: "Waits.", schema: { type: "object" }, handler: () => passed });
  const adapter = fake({ scripts: [[{ type: "tool_call", name: "wait" }], [{ type: "text", text: "Done." }]] });
  const engines = { default: engine({ adapter, model: "fake:m", tools: [wait] }) };
  const sessions = runtime({ host: { ...memory, liveness }, engines, clock, live: false });
  const holder = async (): Promise<unknown> => {
    const [[row] = []] = await memory.read([{ table: "leases", prefix: ["", "s"] }]);
    return row === undefined ? undefined : readValue("leases", row).process;
  };
  const turn = await sessions.start("hi", { id: "s" });
  await clock.advance(0);
  expect(await holder()).toBe(null);
  process = "identity";
  await clock.advance(10_000);
  expect(await holder()).toBe("identity");
  open();
  await turn.result;
});

test("a claim of the next epoch that is being written does not undo the end of the isolation", async () => {
  const clock = handClock();
  const storage = memoryStorage({ clock });
  const key = ["", "s1"] as const;
  const claimed = claim(key, null, "one", clock, leaseTimings);
  if (claimed.type === "busy") throw new Error("the session is held");
  const lease = { ...claimed.lease, alone: true };
  await storage.write({ checks: [], removals: [], puts: [leasePut(key, lease)] });
  const answer = gate();
  const host: HostStorage = {
    ...storage,
    write: async (batch) => {
      const written = await storage.write(batch);
      if (written.ok && batch.checks[0]?.alive !== true) await answer.wait();
      return written;
    },
  };
  const holder = new LeaseHolder({ storage: host, clock, lease: leaseTimings }, { tenant: "", session: "s1" }, lease);
  await clock.advance(31_000);
  const renewing = holder.renew();
  await answer.reached;
  holder.endAlone();
  answer.open();
  await renewing;
  await holder.write(putting());
  const [[row] = []] = await storage.read([{ table: "leases", prefix: key }]);
  expect(row === undefined ? null : readValue("leases", row).alone).toBe(false);
});
