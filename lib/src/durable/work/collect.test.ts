// Workers remove rows that nothing refers to any more.

import type { HostStorage } from "../internal.ts";

import { expect, test } from "vitest";

import { gate, says, thinker, worker, World } from "../../../test/runtime/world.ts";
import { memoryStorage } from "../host/memory/memory.ts";
import { runtime } from "../index.ts";

test("pieces of turns that are not open are removed, those of the open turn are kept", async () => {
  const world = new World();
  const storage = memoryStorage({ clock: world.clock });
  const held = gate();
  const model = thinker(() => says("Done."));
  const of = world.engine({
    ...model,
    async *stream(request, call) {
      await held.wait();
      yield* model.stream(request, call);
    },
  });
  const sessions = runtime({ host: storage, engines: { default: of }, clock: world.clock, live: false });
  const turn = await sessions.start("hi", { id: "s1" });
  await held.reached;
  const piece = (session: string, id: string) =>
    ({ table: "pieces", key: ["", session, id, 1], tag: 0, value: "" }) as const;
  const puts = [piece("s1", turn.turnId ?? ""), piece("s1", "ended"), piece("s2", "gone"), piece("s3", "gone")];
  await storage.write({ checks: [], removals: [], puts });
  const stop = new AbortController();
  const working = sessions.work({ signal: stop.signal });
  await world.clock.advance(1000);
  const [left = []] = await storage.read([{ table: "pieces", prefix: [] }]);
  expect(left.map(({ key }) => key[2])).toEqual([turn.turnId]);
  held.open();
  await turn.result;
  stop.abort();
  await world.clock.advance(0);
  await working;
});

test("configurations that no turn has used for two retention times and a day are removed, unless an open turn needs them", async () => {
  const world = new World();
  const held = gate();
  const model = thinker(() => says("Done."));
  const slow = world.engine({
    ...model,
    async *stream(request, call) {
      await held.wait();
      yield* model.stream(request, call);
    },
  });
  const of = world.process(world.engine(worker()), {
    also: { slow },
    retentionMs: 1000,
    lease: { ttlMs: 300_000_000, renewMs: 100_000_000 },
  });
  for (const [id, instructions] of [
    ["a", "one"],
    ["b", "two"],
  ] as const) {
    await (
      await of.start("hi", { id, instructions })
    ).result;
  }
  const open = await of.start("hi", { id: "c", instructions: "three", engine: "slow" });
  await held.reached;
  const instructions = async () => (await world.values("contents")).map((one) => Object(one).environment.instructions);
  expect((await instructions()).sort()).toEqual(["one", "three", "two"]);
  const works = async () => {
    const stop = new AbortController();
    const working = of.work({ signal: stop.signal });
    await world.clock.advance(62_000);
    stop.abort();
    await world.clock.advance(0);
    await working;
  };
  await world.clock.advance(86_000_000);
  await works();
  expect((await instructions()).sort()).toEqual(["one", "three", "two"]);
  await (
    await of.reply("b", "again", { instructions: "two" })
  ).result;
  await world.clock.advance(400_000);
  await works();
  expect((await instructions()).sort()).toEqual(["three", "two"]);
  held.open();
  expect((await open.result).text).toBe("Done.");
});

test("a configuration is written once by a process in half a day, and again if it was removed", async () => {
  const world = new World();
  const storage = memoryStorage({ clock: world.clock });
  const written: number[] = [];
  const host: HostStorage = {
    ...storage,
    write: async (batch) => {
      const outcome = await storage.write(batch);
      if (outcome.ok && batch.puts.some(({ table }) => table === "contents")) written.push(world.clock.now());
      return outcome;
    },
  };
  const engines = { default: world.engine(thinker(() => says("Done."))) };
  const sessions = runtime({ host, engines, clock: world.clock, live: false, retentionMs: 1000 });
  let count = 0;
  const run = async () => (await sessions.start("hi", { id: `s${(count += 1)}` })).result;
  const rows = async () => (await storage.read([{ table: "contents", prefix: [] }]))[0] ?? [];
  await run();
  const [from = 0] = written;
  await run();
  await world.clock.advance(40_000_000);
  await run();
  expect(written).toEqual([from]);
  await world.clock.advance(3_200_000);
  await run();
  expect(written).toEqual([from, from + 43_200_000]);
  // Removed, as a collector of a process with another clock might do.
  await storage.write({ checks: [], removals: [{ table: "contents", prefix: [] }], puts: [] });
  expect((await run()).text).toBe("Done.");
  expect(written).toHaveLength(3);
  expect(await rows()).toHaveLength(1);
  await run();
  expect(written).toHaveLength(3);
});

test("a configuration that expired while a process trusted it is written again with the next turn", async () => {
  const world = new World();
  const storage = memoryStorage({ clock: world.clock });
  const engines = { default: world.engine(thinker(() => says("Done."))) };
  const sessions = runtime({ host: storage, engines, clock: world.clock, live: false, retentionMs: 1000 });
  await (
    await sessions.start("hi", { id: "s1" })
  ).result;
  const [[row] = []] = await storage.read([{ table: "contents", prefix: [] }]);
  if (row === undefined) throw new Error("nothing was stored");
  await storage.write({ checks: [], removals: [], puts: [{ table: "contents", ...row, ttlMs: 1 }] });
  await world.clock.advance(10);
  await (
    await sessions.start("hi", { id: "s2" })
  ).result;
  const [[after] = []] = await storage.read([{ table: "contents", prefix: [] }]);
  expect(after?.remainingMs).toBeGreaterThan(86_000_000);
});
