// A turn that ends every process that drives it is parked, and the turns that were driven beside it complete (Q17).

import type { Process, Write } from "../../test/runtime/world.ts";

import { describe, expect, test } from "vitest";

import { counting, gate, worker, World } from "../../test/runtime/world.ts";
import { readValue } from "./rows/stored.ts";

/** How long the tool of a healthy turn takes, and after which time the other one ends its process, in milliseconds. */
const healthyMs = 2000;
const deadlyMs = 500;

const lease = { ttlMs: 3000, renewMs: 1000 };

const healthy = Array.from({ length: 9 }, (_, index) => `healthy-${index}`);

/** Fewer turns, for tests that take long. */
const few = healthy.slice(0, 3);

/**
 * Starts processes over one storage. The tool of the engine `deadly` ends the process that runs it; that of the default
 * engine takes a while.
 */
function processes(
  world: World,
  options: Parameters<World["process"]>[1] = {},
  { slowMs, endsAfterMs } = { slowMs: healthyMs, endsAfterMs: deadlyMs },
) {
  const start = (): Process => {
    const slow = counting("slow", { replay: "safe", handler: () => world.clock.sleep(slowMs) });
    const boom = counting("boom", {
      replay: "safe",
      handler: async () => {
        await world.clock.sleep(endsAfterMs);
        process.kill();
      },
    });
    const also = { deadly: world.engine(worker("boom"), { tools: [boom.tool] }) };
    const process = world.process(world.engine(worker("slow"), { tools: [slow.tool] }), { also, lease, ...options });
    return process;
  };
  return start;
}

/** Whether the process was killed. */
function lifeOf(process: Process): { readonly isOver: boolean } {
  const life = { isOver: false };
  void process.died.then(() => (life.isOver = true));
  return life;
}

/**
 * Lets workers drive turns until none is open, and starts another one `afterMs` after a worker has ended. Returns how
 * many were started.
 */
async function workUntilDone(world: World, start: () => Process, afterMs = 0): Promise<number> {
  for (let count = 1; count <= 60; count += 1) {
    if (count > 1) await world.clock.advance(afterMs);
    const process = start();
    const life = lifeOf(process);
    const stop = new AbortController();
    void process.work({ signal: stop.signal });
    while (!life.isOver && (await world.rows("open")).length > 0) await world.clock.advance(500);
    stop.abort();
    if (!life.isOver) return count;
  }
  throw new Error("the turns have not ended");
}

async function accept(start: () => Process, ids: readonly string[]): Promise<void> {
  const accepting = start();
  await accepting.start("hi", { id: "bad", engine: "deadly" });
  for (const id of ids) await accepting.start("hi", { id });
}

const statusOf = async (process: Process, id: string) => (await process.get(id))?.openTurn?.status ?? "ended";

describe("a turn that ends its process", () => {
  test("is parked, and the turns beside it complete", async () => {
    const world = new World();
    const start = processes(world, { drive: false });
    await accept(start, healthy);
    const lives = await workUntilDone(world, start);
    const last = start();
    expect(await statusOf(last, "bad")).toBe("parked");
    expect(await Promise.all(healthy.map((id) => statusOf(last, id)))).toEqual(healthy.map(() => "ended"));
    // The first process, and one for each takeover of the turn before it is parked.
    expect(lives).toBe(6);
  });

  test("is parked, and a turn beside it completes that takes several times as long as a lease", async () => {
    const world = new World();
    const start = processes(world, { drive: false, maxTakeovers: 3 }, { slowMs: 15_000, endsAfterMs: 4000 });
    await accept(start, ["slow"]);
    // When a process starts, both turns may be taken over.
    await workUntilDone(world, start, 120_000);
    const last = start();
    expect(await statusOf(last, "bad")).toBe("parked");
    expect(await statusOf(last, "slow")).toBe("ended");
  });

  test("is parked if it is found by recover, and the turns beside it complete", async () => {
    const world = new World();
    const start = processes(world);
    await accept(processes(world, { drive: false }), few);
    for (let life = 0; life < 30 && (await world.rows("open")).length > 0; life += 1) {
      const process = start();
      const life = lifeOf(process);
      await process.recover();
      for (let waited = 0; !life.isOver && waited < 30_000; waited += 1000) await world.clock.advance(1000);
      process.kill();
      await world.clock.advance(lease.ttlMs);
    }
    const last = processes(world, { drive: false })();
    expect(await statusOf(last, "bad")).toBe("parked");
    expect(await Promise.all(few.map((id) => statusOf(last, id)))).toEqual(few.map(() => "ended"));
  });

  test("is parked also if the process that was about to park it has ended", async () => {
    const world = new World();
    const boom = counting("boom", { replay: "safe", handler: () => new Promise(() => undefined) });
    const of = world.engine(worker("boom"), { tools: [boom.tool] });
    const start = (options: Parameters<World["process"]>[1] = {}) =>
      world.process(of, { lease, maxTakeovers: 2, ...options });
    const first = start();
    await first.start("hi", { id: "bad" });
    await world.clock.advance(0);
    first.kill();
    await world.clock.advance(5000);
    const second = start();
    await second.recover();
    await world.clock.advance(0);
    second.kill();
    expect(boom.runs.length).toBe(2);
    await world.clock.advance(5000);
    // The turn is at its limit; the process ends when its claim is written.
    const isClaim = ({ batch }: Write) => batch.puts.some(({ table }) => table === "turns");
    const third = start({ diesAfter: isClaim });
    void third.recover();
    await third.died;
    await world.clock.advance(10_000);
    const last = start();
    await last.recover();
    await world.clock.advance(0);
    expect(boom.runs.length).toBe(2);
    expect(await statusOf(last, "bad")).toBe("parked");
  });

  test("is parked in a process that always drives other turns, and those complete", async () => {
    const world = new World();
    const start = processes(world, { drive: false });
    await accept(start, few);
    let next = 0;
    const accepting = start();
    // Another turn every two seconds, so that a worker never drives nothing.
    const busy = new AbortController();
    void (async () => {
      while (!busy.signal.aborted && (await statusOf(accepting, "bad")) !== "parked") {
        await accepting.start("hi", { id: `more-${(next += 1)}` });
        await world.clock.sleep(2000);
      }
    })();
    await workUntilDone(world, start);
    busy.abort();
    expect(await statusOf(accepting, "bad")).toBe("parked");
    const others = [...few, ...Array.from({ length: next }, (_, index) => `more-${index + 1}`)];
    expect(await Promise.all(others.map((id) => statusOf(accepting, id)))).toEqual(others.map(() => "ended"));
  });
});

test("a turn whose child turn makes progress is not parked, whatever ends its processes", async () => {
  const world = new World();
  const steps = 8;
  const child = worker(...Array.from({ length: steps }, () => "slow"));
  const start = (): Process => {
    const slow = counting("slow", { replay: "safe", handler: () => world.clock.sleep(healthyMs) });
    const inner = world.engine(child, { tools: [slow.tool], options: { maxTurns: steps + 1 } });
    const delegate = counting("delegate", {
      replay: "safe",
      timeoutMs: 600_000,
      handler: async (_, { runChild }) => (await runChild(inner, "do it")).haltedReason,
    });
    return world.process(world.engine(worker("delegate"), { tools: [delegate.tool] }), {
      lease,
      drive: false,
      maxTakeovers: 2,
    });
  };
  await start().start("hi", { id: "s1" });
  let lives = 0;
  for (; lives < 20 && (await world.rows("open")).length > 0; lives += 1) {
    const process = start();
    const stop = new AbortController();
    void process.work({ signal: stop.signal });
    for (let waited = 0; waited < 7000; waited += 1000) await world.clock.advance(1000);
    process.kill();
    stop.abort();
  }
  expect(await statusOf(start(), "s1")).toBe("ended");
  // More than the limit of takeovers, and no step of the child was performed again.
  expect(lives).toBeGreaterThan(3);
  expect(child.asked.length).toBe(steps + 1);
});

describe("a suspect that is driven alone", () => {
  /** A process that drives a suspect alone: a turn whose tool takes an hour, after two crashes. */
  async function isolated(
    world: World,
    engine: "long" | "two" = "long",
    holds?: NonNullable<Parameters<World["process"]>[1]>["holds"],
  ) {
    const long = counting("long", {
      replay: "safe",
      timeoutMs: 7_200_000,
      handler: () => world.clock.sleep(3_600_000),
    });
    const step = gate();
    const short = counting("short", { replay: "safe", timeoutMs: 7_200_000, handler: () => step.wait() });
    const tools = [short.tool, long.tool];
    const also = {
      long: world.engine(worker("long"), { tools }),
      two: world.engine(worker("short", "long"), { tools }),
    };
    const options = holds === undefined ? {} : { holds };
    const lives = Array.from({ length: 3 }, () => world.process(world.engine(worker()), { also, lease, ...options }));
    const [first, second, third] = lives;
    if (first === undefined || second === undefined || third === undefined) throw new Error("three are needed");
    await first.start("hi", { id: "suspect", engine });
    await world.clock.advance(0);
    for (const [dead, next] of [[first, second] as const, [second, third] as const]) {
      dead.kill();
      await world.clock.advance(5000);
      expect(await next.recover()).toMatchObject({ pickedUp: 1 });
      await world.clock.advance(0);
    }
    const isAlone = async () => {
      const [row] = await world.rows("leases", ["", "suspect"]);
      return row !== undefined && readValue("leases", row).alone;
    };
    return { process: third, isAlone, endStep: step.open };
  }

  test("delays turns of verbs in its process by at most one lease time, and is then not alone any more", async () => {
    const world = new World();
    const { process, isAlone } = await isolated(world);
    expect(await isAlone()).toBe(true);
    const turn = await process.start("hi", { id: "s1" });
    await world.clock.advance(2000);
    expect(await statusOf(process, "s1")).toBe("queued");
    expect(await isAlone()).toBe(true);
    await world.clock.advance(1000);
    expect(await turn.result).toMatchObject({ text: "Done." });
    expect(await isAlone()).toBe(false);
    expect(await statusOf(process, "suspect")).toBe("running");
  });

  test("is not said to be alone by a renewal that arrives after the commit of its progress", async () => {
    const world = new World();
    const late = gate();
    let isHeld = false;
    const isRenewal = ({ batch }: Write) => batch.puts.length === 1 && batch.puts[0]?.table === "leases";
    const holds = (write: Write) => {
      if (!isHeld || !isRenewal(write)) return null;
      isHeld = false;
      return late.wait();
    };
    const { process, isAlone, endStep } = await isolated(world, "two", holds);
    isHeld = true;
    await world.clock.advance(1000);
    await late.reached;
    const journal = (await world.rows("journal")).length;
    endStep();
    await world.clock.advance(0);
    expect((await world.rows("journal")).length).toBeGreaterThan(journal);
    expect(await isAlone()).toBe(false);
    const turn = await process.start("hi", { id: "s1" });
    await world.clock.advance(0);
    // The commit has changed the token, so the renewal is refused.
    expect(await turn.result).toMatchObject({ text: "Done." });
    late.open();
    await world.clock.advance(0);
    expect(await isAlone()).toBe(false);
    expect(await statusOf(process, "suspect")).toBe("running");
  });

  test("leaves turns of its process to other processes", async () => {
    const world = new World();
    const { process } = await isolated(world);
    const turn = await process.start("hi", { id: "s1" });
    expect(await world.process(world.engine(worker())).recover()).toMatchObject({ pickedUp: 1 });
    await world.clock.advance(0);
    expect(await turn.result).toMatchObject({ text: "Done." });
  });
});
