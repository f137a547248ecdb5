// The overview: sums over ended turns by time, engine, tool and tenant.

import { askUser, engine, fake, tool } from "everturn";
import { inspection } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { handClock } from "everturn/testing";
import { expect, test } from "vitest";

import { call, counting, gate, says, thinker, World } from "../../../test/runtime/world.ts";
import { linePut, noRollup, noSum } from "../../durable/rows/rollup.ts";

const usage = { inputTokens: 100, cachedInputTokens: 40, outputTokens: 10, totalCost: 0.0001 };
const hour = 3_600_000;

/** A clock that began long ago: times of 1970 would be before the retention time. */
async function clockOfToday() {
  const clock = handClock();
  await clock.advance(20_000 * 24 * hour);
  return clock;
}

const search = tool({ name: "search", description: "Searches.", schema: { type: "object" }, handler: () => "found" });
const broken = tool({
  name: "broken",
  description: "Fails.",
  schema: { type: "object" },
  handler: () => {
    throw new Error("out of order");
  },
});
const ask = tool({ name: "ask", description: "Asks.", schema: { type: "object" }, handler: () => askUser("Which?") });

test("a turn is counted when it ends, with its tools, tokens, cost and times", async () => {
  const clock = await clockOfToday();
  const scripts = [
    [{ type: "tool_call", name: "search" } as const, { type: "tool_call", name: "broken" } as const],
    [
      { type: "delay", ms: 200 } as const,
      { type: "text", text: "Done." } as const,
      { type: "delay", ms: 800 } as const,
    ],
  ];
  const agent = engine({ adapter: fake({ scripts, usage, clock }), model: "fake:m", tools: [search, broken] });
  const sessions = runtime({ host: memoryStorage({ clock }), engines: { agent }, clock, live: false });
  expect((await inspection(sessions.source).overview()).total.turns).toBe(0);
  const turn = await sessions.start("go", { id: "s1", engine: "agent" });
  await clock.advance(1000);
  await turn.result;
  const overview = await inspection(sessions.source).overview();
  const total = {
    turns: 1,
    outcomes: { completed: 1 },
    inputTokens: 200,
    cachedInputTokens: 80,
    outputTokens: 20,
    cost: 0.0002,
    takeovers: 0,
  };
  expect(overview.total).toMatchObject(total);
  expect(Math.abs((overview.total.duration.p50 ?? 0) - 1000)).toBeLessThan(100);
  expect(overview.total.firstContent.p99).toBeGreaterThan(180);
  expect(overview.engines).toMatchObject([{ name: "agent", ...total }]);
  expect(overview.tenants).toMatchObject([{ name: "", ...total }]);
  expect(overview.buckets).toMatchObject([total]);
  expect(overview.tools).toMatchObject([
    { name: "broken", calls: 1, failed: 1 },
    { name: "search", calls: 1, failed: 0 },
  ]);
  const [bucket] = overview.buckets;
  expect(bucket?.at).toBeLessThanOrEqual(clock.now());
  expect(clock.now() - (bucket?.at ?? 0)).toBeLessThan(overview.bucketMs);
});

test("each tenant sees its own turns, and an operator all of them", async () => {
  const host = memoryStorage();
  const agent = engine({ adapter: fake({ script: [{ type: "text", text: "Hi." }], usage }), model: "fake:m" });
  const sessions = runtime({ host, engines: { default: agent }, live: false });
  for (const [tenant, count] of [
    ["a", 2],
    ["b", 1],
  ] as const) {
    for (let index = 0; index < count; index += 1) await (await sessions.tenant(tenant).start("hi")).result;
  }
  const check = async () => {
    expect((await inspection(sessions.source).overview()).total.turns).toBe(0);
    expect((await inspection(sessions.tenant("a").source).overview()).tenants).toMatchObject([{ name: "a", turns: 2 }]);
    expect((await inspection(sessions.tenant("b").source).overview()).total.turns).toBe(1);
    expect((await inspection(sessions.source).overview({ allTenants: true })).tenants).toMatchObject([
      { name: "a", turns: 2 },
      { name: "b", turns: 1 },
    ]);
  };
  await check();
  await sessions.sweep();
  expect(await host.read([{ table: "rollup_lines", prefix: [] }])).toEqual([[]]);
  await check();
});

test("a turn that asks a person counts as waiting, and the time until the answer is not counted", async () => {
  const clock = await clockOfToday();
  const scripts = [[{ type: "tool_call", name: "ask" } as const], [{ type: "text", text: "That one." } as const]];
  const agent = engine({ adapter: fake({ scripts, usage, clock }), model: "fake:m", tools: [ask] });
  const sessions = runtime({ host: memoryStorage({ clock }), engines: { default: agent }, clock, live: false });
  await (
    await sessions.start("go", { id: "s1" })
  ).result;
  await clock.advance(3 * hour);
  await (
    await sessions.reply("s1", "this")
  ).result;
  const { total, buckets } = await inspection(sessions.source).overview();
  expect(total).toMatchObject({ turns: 2, outcomes: { waiting: 1, completed: 1 } });
  expect(total.duration.p99).toBeLessThan(1000);
  expect(buckets).toHaveLength(2);
});

test("deleting a session does not change the sums", async () => {
  const scripts = Array.from({ length: 3 }, () => [{ type: "text", text: "Hi." } as const]);
  const agent = engine({ adapter: fake({ scripts, usage }), model: "fake:m" });
  const sessions = runtime({ host: memoryStorage(), engines: { default: agent }, live: false });
  for (let round = 1; round <= 3; round += 1) {
    await (
      await sessions.start("hi", { id: "s1" })
    ).result;
    await sessions.delete("s1");
    expect((await inspection(sessions.source).overview()).total).toMatchObject({
      turns: round,
      inputTokens: 100 * round,
    });
  }
});

test("many lines are folded by the reader, and old sums are shown by hour", async () => {
  const clock = await clockOfToday();
  const host = memoryStorage({ clock });
  const sessions = runtime({ host, engines: { default: engine({ adapter: fake() }) }, clock, live: false });
  const began = clock.now();
  const line = { ...noRollup, engines: [{ ...noSum("default"), turns: 1 }] };
  const puts = Array.from({ length: 300 }, (_, index) => linePut({ tenant: "", session: "s" }, index, line, began));
  await host.write({ checks: [], removals: [], puts });
  expect((await inspection(sessions.source).overview()).total.turns).toBe(300);
  expect(await host.read([{ table: "rollup_lines", prefix: [] }])).toEqual([[]]);
  await clock.advance(10 * 24 * hour);
  expect((await inspection(sessions.source).overview()).total.turns).toBe(0);
  const month = await inspection(sessions.source).overview({ from: clock.now() - 30 * 24 * hour });
  expect(month.bucketMs).toBe(6 * hour);
  expect(month.buckets).toMatchObject([{ at: began - (began % (6 * hour)), turns: 300 }]);
});

test("a period in the future costs no reads, and one in the past a bounded number", async () => {
  const clock = await clockOfToday();
  const memory = memoryStorage({ clock });
  let queries = 0;
  const host = {
    ...memory,
    read: (asked: Parameters<typeof memory.read>[0]) => {
      queries += asked.length;
      return memory.read(asked);
    },
  };
  const sessions = runtime({ host, engines: { default: engine({ adapter: fake() }) }, clock, live: false });
  const costOf = async (from: number, until: number) => {
    queries = 0;
    await inspection(sessions.source).overview({ from, until });
    return queries;
  };
  const now = clock.now();
  expect(await costOf(now, now + 90 * 24 * hour)).toBeLessThan(20);
  expect(await costOf(now + hour, now + 90 * 24 * hour)).toBeLessThan(20);
  expect(await costOf(now - 90 * 24 * hour, now)).toBeLessThan(2600);
});

/** A turn whose process crashed in its second tool; the first one is recorded. */
async function crashedInSecondTool() {
  const world = new World();
  const held = gate();
  const first = counting("first");
  const second = counting("second", { handler: () => held.wait() });
  const model = thinker(({ messages }) => {
    const answered = messages.filter(({ role }) => role === "tool").length;
    return answered === 2 ? says("Done.") : [call(answered === 0 ? "first" : "second", {}, `c${answered}`)];
  });
  const of = world.engine(model, { tools: [first.tool, second.tool] });
  const process = world.process(of, { owner: "one" });
  await process.start("go", { id: "s1" });
  await held.reached;
  process.kill();
  await world.leaseRunsOut();
  return { world, of };
}

test("a turn that was taken over is counted once, with the takeover and the calls before it", async () => {
  const { world, of } = await crashedInSecondTool();
  const process = world.process({ ...of, tools: of.tools.map((one) => ({ ...one, handler: () => "ok" })) });
  await process.recover();
  await process.attach("s1").result;
  const { total, tools } = await inspection(process.source).overview();
  expect(total).toMatchObject({ turns: 1, outcomes: { completed: 1 }, takeovers: 1 });
  expect(total.duration.p50).toBeGreaterThan(28_000);
  expect(tools.map(({ name, calls }) => [name, calls])).toEqual([
    ["first", 1],
    ["second", 1],
  ]);
});

test("a turn that was parked counts as parked, and what it did before is not counted again when it ends", async () => {
  const { world, of } = await crashedInSecondTool();
  const [row] = await world.rows("journal");
  if (row === undefined) throw new Error("the turn has no journal");
  await world.diverge(row, (effect) => effect.replace('"useTools":true', '"useTools":false'));
  const process = world.process(of);
  await process.recover();
  await process.attach("s1").result;
  const parked = await inspection(process.source).overview();
  expect(parked.total).toMatchObject({ turns: 1, outcomes: { parked: 1 }, takeovers: 1 });
  expect(parked.tools).toMatchObject([{ name: "first", calls: 1 }]);
  await world.clock.advance(hour);
  await process.recover("s1");
  const ended = await inspection(process.source).overview();
  expect(ended.total).toMatchObject({ turns: 2, outcomes: { parked: 1, failed: 1 }, takeovers: 1 });
  expect(ended.total.duration).toEqual(parked.total.duration);
  // The end answers the call that had started: its outcome is unknown.
  expect(ended.tools).toMatchObject([
    { name: "first", calls: 1, failed: 0 },
    { name: "second", calls: 1, failed: 1 },
  ]);
});

test("a period that is reversed, longer than 90 days or no whole number is refused", async () => {
  const agent = engine({ adapter: fake(), model: "fake:m" });
  const sessions = runtime({ host: memoryStorage(), engines: { default: agent }, live: false });
  for (const period of [
    { from: 5, until: 5 },
    { from: 10, until: 5 },
    { from: 0.5, until: 5 },
    { from: 0, until: 91 * 24 * hour },
    { from: -1, until: 3 },
  ]) {
    await expect(inspection(sessions.source).overview(period)).rejects.toMatchObject({ reason: "invalid_argument" });
  }
});
