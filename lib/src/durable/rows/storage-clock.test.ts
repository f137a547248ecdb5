// Processes whose clocks differ share a storage: times in rows are times of the storage's clock, so turns are found
// when they are due.

import type { HostStorage, RuntimeOptions } from "everturn/runtime";
import type { HandClock } from "everturn/testing";

import { engine, fake } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";
import { handClock } from "everturn/testing";
import Libsql from "libsql";
import { afterEach, describe, expect, test } from "vitest";

import { call, counting, says, talk, thinker, worker, World } from "../../../test/runtime/world.ts";
import { memoryStorage as memory } from "../host/memory/memory.ts";
import { storageClock } from "./storage-clock.ts";

const cleanUps: (() => void)[] = [];
afterEach(() => {
  for (const cleanUp of cleanUps.splice(0)) cleanUp();
});

const hosts: readonly (readonly [string, (clock: HandClock) => HostStorage])[] = [
  ["memory", (clock) => memoryStorage({ clock })],
  [
    "SQLite",
    (clock) => {
      const database = new Libsql(":memory:");
      cleanUps.push(() => database.close());
      return sqliteStorage(database, { clock, pollMs: 10_000 });
    },
  ],
];

const hour = 3_600_000;

/** A clock that is ahead of another one, and can be set. */
function ahead(base: HandClock, ms: number) {
  const difference = { ms };
  return { clock: { ...base, now: () => base.now() + difference.ms, monotonic: () => base.now() }, difference };
}

describe.each(hosts)("on %s", (_, open) => {
  const engines = () => ({ default: engine({ adapter: fake({ script: says("Done.") }), model: "fake:m" }) });
  const process = (host: HostStorage, options: Partial<RuntimeOptions>) =>
    runtime({ host, engines: engines(), live: false, ...options });

  test.each([5_000, -5_000, hour])("a turn that a process %d ms ahead accepts is driven at once", async (ms) => {
    const clock = handClock();
    const host = open(clock);
    const web = process(host, { clock: ahead(clock, ms).clock, drive: false });
    const driver = process(host, { clock });
    const turn = await web.start("hi", { id: "s1" });
    expect(await driver.recover()).toMatchObject({ pickedUp: 1 });
    expect((await turn.result).text).toBe("Done.");
  });

  test.each([5_000, -5_000, hour, -hour])("a process %d ms ahead finds what is due", async (ms) => {
    const clock = handClock();
    const host = open(clock);
    const web = process(host, { clock, drive: false });
    const turn = await web.start("hi", { id: "s1" });
    expect(await process(host, { clock: ahead(clock, ms).clock }).recover()).toMatchObject({ pickedUp: 1 });
    expect((await turn.result).text).toBe("Done.");
  });

  test.each([hour, -hour])(
    "a turn of a process %d ms ahead that was killed is due when its lease expires",
    async (ms) => {
      const clock = handClock();
      const world = new World();
      const host = open(clock);
      let isKilled = false;
      const never = new Promise<never>(() => undefined);
      const killed: HostStorage = {
        ...host,
        read: (queries) => (isKilled ? never : host.read(queries)),
        write: (batch) => (isKilled ? never : host.write(batch)),
      };
      const pay = counting("pay", {
        replay: "safe",
        handler: () => (isKilled ? "pay: ok" : ((isKilled = true), never)),
      });
      const of = world.engine(worker("pay"), { tools: [pay.tool] });
      const first = process(killed, { clock: ahead(clock, ms).clock, engines: { default: of } });
      const turn = await first.start("hi", { id: "s1" });
      await expect.poll(() => isKilled).toBe(true);
      const second = process(host, { clock, engines: { default: of } });
      expect(await second.sweep()).toMatchObject({ due: [] });
      await clock.advance(30_000);
      expect((await second.sweep()).due).toMatchObject([{ sessionId: "s1" }]);
      await second.drive("s1");
      expect((await second.attach("s1", turn.turnId).result).text).toBe("Done.");
      expect(await talk(second)).toHaveLength(4);
    },
  );

  test("a wait ends when the time of the storage has come, whichever process has stored it", async () => {
    const clock = handClock();
    const host = open(clock);
    const ask = counting("ask", { needsApproval: true });
    const model = thinker(({ messages }) => (messages.at(-1)?.role === "user" ? [call("ask")] : says("Done.")));
    const of = new World().engine(model, { tools: [ask.tool] });
    const waits = { approval: { afterMs: 10_000, onTimeout: "error_as_result" } } as const;
    const web = process(host, { clock: ahead(clock, hour).clock, engines: { default: of } });
    const turn = await web.start("hi", { id: "s1", waits });
    await turn.result;
    const other = process(host, { clock: ahead(clock, -hour).clock, engines: { default: of } });
    await clock.advance(9_000);
    await other.sweep();
    expect((await other.get("s1"))?.session.status).toBe("awaiting_tools");
    await clock.advance(1_000);
    await other.sweep();
    await other.recover();
    await expect.poll(async () => (await other.get("s1"))?.session.status).toBe("completed");
  });
});

describe("the estimate", () => {
  /** The clock of a runtime over a storage with a clock of its own, whose answers take `latencyMs`. */
  function estimate(latencyMs: number) {
    const base = handClock();
    const local = ahead(base, 7_777);
    const stored = { ms: 1_000_000 };
    const host = memory({ clock: { ...base, now: () => base.now() + stored.ms } });
    const late = async <T>(work: Promise<T>): Promise<T> => {
      const value = await work;
      await base.sleep(latencyMs);
      return value;
    };
    let questions = 0;
    const { clock, storage } = storageClock(
      {
        ...host,
        now: () => {
          questions += 1;
          return late(host.now?.() ?? Promise.reject(new Error("the storage has no clock")));
        },
        read: (queries) => late(host.read(queries)),
      },
      local.clock,
    );
    const read = async () => {
      const reading = storage.read([{ table: "leases", prefix: ["", "s1"] }]);
      await base.advance(latencyMs);
      await reading;
    };
    return { base, local, stored, host, clock, read, asked: () => questions };
  }

  test("bounds the time of the storage from below and above", async () => {
    const { base, stored, clock, read } = estimate(40);
    await read();
    for (let count = 0; count < 5; count += 1) {
      const time = base.now() + stored.ms;
      expect(clock.now()).toBeLessThanOrEqual(time);
      expect(clock.now()).toBeGreaterThanOrEqual(time - 40);
      expect(await clock.latest()).toBeGreaterThanOrEqual(time);
      expect(await clock.latest()).toBeLessThanOrEqual(time + 40);
      await base.advance(1_000);
    }
  });

  test("does not follow the wall clock of the process, which the lease deadline does", async () => {
    const { base, local, stored, clock, read } = estimate(0);
    await read();
    local.difference.ms += hour;
    expect(clock.now()).toBe(base.now() + stored.ms);
    expect(clock.wall()).toBe(base.now() + 7_777 + hour);
    await read();
    expect(clock.now()).toBe(base.now() + stored.ms);
  });

  test("follows the storage's clock when it is set, with the next lease that is read", async () => {
    const { base, stored, host, clock, read, asked } = estimate(0);
    await host.write({
      checks: [],
      removals: [],
      puts: [{ table: "leases", key: ["", "s1"], tag: 1, ttlMs: 9, value: "" }],
    });
    await read();
    for (const ms of [5_000, -hour, 3]) {
      stored.ms += ms;
      await read();
      expect(clock.now()).toBe(base.now() + stored.ms);
    }
    expect(asked()).toBe(1);
  });

  test("is asked for once, and again after half a minute without a lease", async () => {
    const { base, read, asked } = estimate(0);
    for (let count = 0; count < 5; count += 1) await read();
    expect(asked()).toBe(1);
    await base.advance(31_000);
    for (let count = 0; count < 5; count += 1) await read();
    expect(asked()).toBe(2);
  });
});
