// The memory of event readers: pages that wait for their consumers are bounded by tenant and in total, and dropped
// pages are read again.

import type { HostStorage } from "everturn/runtime";

import { engine, fake } from "everturn";
import { memoryStorage } from "everturn/host/memory";
import { runtime } from "everturn/runtime";
import { describe, expect, test } from "vitest";

import { microtasksDone } from "../../core/clock/clock.ts";
import { PageBudget, ReadPermits } from "./page-budget.ts";

describe("a budget of pages", () => {
  function world() {
    const budget = new PageBudget({ tenant: 100, process: 250 });
    const dropped: string[] = [];
    const page = (name: string, tenant: string, length: number) => {
      const held = { tenant, length, drop: () => void dropped.push(name) };
      budget.hold(held);
      return held;
    };
    return { budget, dropped, page };
  }

  test("drops the oldest pages of a tenant that exceeds its share, and none of others", () => {
    const { budget, dropped, page } = world();
    page("other", "b", 60);
    page("first", "a", 60);
    page("second", "a", 40);
    expect(dropped).toEqual([]);
    page("third", "a", 50);
    expect([dropped, budget.length]).toEqual([["first"], 150]);
  });

  test("drops pages of the tenant that holds the most if the process has no memory left", () => {
    const { budget, dropped, page } = world();
    page("a", "a", 100);
    page("b", "b", 90);
    page("c", "c", 50);
    page("d", "d", 40);
    expect([dropped, budget.length]).toEqual([["a"], 180]);
  });

  test("keeps one page that is larger than the budget", () => {
    const { budget, dropped, page } = world();
    page("small", "a", 10);
    const large = page("large", "a", 1000);
    expect([dropped, budget.length]).toEqual([["small"], 1000]);
    budget.release(large);
    budget.release(large);
    expect(budget.length).toBe(0);
  });
});

test("the reads of one tenant wait for each other, and not for those of other tenants", async () => {
  const permits = new ReadPermits();
  const log: string[] = [];
  const gates = new Map<string, () => void>();
  const read = (tenant: string, name: string) =>
    permits.run(tenant, async () => {
      log.push(name);
      await new Promise<void>((resolve) => gates.set(name, resolve));
      return name;
    });
  const all = [read("a", "1"), read("a", "2"), read("a", "3"), read("b", "4")];
  await microtasksDone();
  expect(log).toEqual(["1", "2", "4"]);
  gates.get("2")?.();
  await expect.poll(() => log).toEqual(["1", "2", "4", "3"]);
  for (const open of gates.values()) open();
  expect(await Promise.all(all)).toEqual(["1", "2", "3", "4"]);
});

test("tenants get the permits of the process round robin, however many reads each of them waits for", async () => {
  const permits = new ReadPermits(2, 3);
  const log: string[] = [];
  const releases: (() => void)[] = [];
  const read = async (tenant: string, name: string) => {
    const release = await permits.acquire(tenant);
    log.push(name);
    releases.push(release);
  };
  const reads = ["a1", "a2", "a3", "a4", "a5", "b1", "b2", "b3", "c1"].map((name) => read(name.charAt(0), name));
  await microtasksDone();
  expect(log).toEqual(["a1", "a2", "b1"]);
  while (releases.length > 0) {
    const release = releases.shift();
    release?.();
    // Releasing again has no effect.
    release?.();
    await microtasksDone();
  }
  await Promise.all(reads);
  expect(log).toEqual(["a1", "a2", "b1", "a3", "b2", "c1", "a4", "b3", "a5"]);
});

/** A storage that records the length of the largest answer to one query of events. */
function measured(storage: HostStorage) {
  let largest = 0;
  const read: HostStorage["read"] = async (queries) => {
    const results = await storage.read(queries);
    for (const [index, rows] of results.entries()) {
      const length = rows.reduce((sum, { value }) => sum + value.length, 0);
      if (queries[index]?.table === "events") largest = Math.max(largest, length);
    }
    return results;
  };
  return { host: { ...storage, read }, largest: () => largest };
}

test("hundreds of readers that stop reading hold bounded pages, and each gets every event once when it continues", async () => {
  const text = "x".repeat(40_000);
  const scripts = Array.from({ length: 30 }, () => [{ type: "text", text } as const]);
  const agent = engine({ adapter: fake({ scripts }), model: "fake:m" });
  const { host, largest } = measured(memoryStorage());
  const sessions = runtime({ host, engines: { default: agent } });
  const turn = await sessions.start("go", { id: "s" });
  await turn.result;
  for (let count = 0; count < 19; count += 1) await (await sessions.reply("s", "go on")).result;
  const expected: number[] = [];
  for await (const { sequence } of sessions.events("s", { follow: false })) expected.push(sequence ?? -1);
  const readers = Array.from({ length: 300 }, () => sessions.events("s", { follow: false })[Symbol.asyncIterator]());
  const firsts = await Promise.all(readers.map((reader) => reader.next()));
  // A page has at most 65,536 characters, or one event.
  expect(largest()).toBeLessThan(3 * 65_536);
  const sequences = await Promise.all(
    readers.slice(0, 20).map(async (reader, index) => {
      const read = [firsts[index]?.value?.sequence ?? -1];
      for (let next = await reader.next(); next.done !== true; next = await reader.next())
        read.push(next.value.sequence ?? -1);
      return read;
    }),
  );
  for (const sequence of sequences) expect(sequence).toEqual(expected);
  for (const reader of readers) await reader.return?.();
});
