// Leases over a storage whose operations take long: they grow with what writes take, and are extended while a turn is
// loaded.

import type { Liveness } from "./rows/storage.ts";

import { expect, test } from "vitest";

import { counting, worker, World, writes } from "../../test/runtime/world.ts";
import { epochOf } from "./rows/lease.ts";

const lease = { ttlMs: 900, renewMs: 300 };

/** A storage that performs one write at a time, each in 150 ms. */
function serialised(world: World): () => Promise<void> {
  let last = Promise.resolve();
  return () => (last = last.then(() => world.clock.sleep(150)));
}

test("turns end although writes queue for longer than a lease", async () => {
  const world = new World();
  const of = world.engine(worker("look"), { tools: [counting("look", { replay: "safe" }).tool] });
  const accepting = world.process(of, { drive: false });
  for (let turn = 0; turn < 24; turn += 1) await accepting.start("hi", { id: `s${turn}` });
  const holds = serialised(world);
  const stop = new AbortController();
  for (const owner of ["one", "two"]) {
    void world.process(of, { drive: false, owner, lease, holds }).work({ signal: stop.signal });
  }
  // About 5 writes a turn, and as many again for leases.
  for (let waited = 0; waited < 60_000 && (await world.rows("open")).length > 0; waited += 1000) {
    await world.clock.advance(1000);
  }
  expect(await world.rows("open")).toEqual([]);
  const views = await Promise.all(Array.from({ length: 24 }, (_, turn) => accepting.get(`s${turn}`)));
  expect(views.map((view) => view?.session.status)).toEqual(views.map(() => "completed"));
  stop.abort();
});

test("a worker takes only as many turns of an ended process as it can commit and renew, so it loses no lease", async () => {
  const world = new World();
  const look = counting("look", { replay: "safe" });
  const of = world.engine(worker("look"), { tools: [look.tool] });
  const ended = new Set<string>();
  const liveness = (process: string): Liveness => ({ process, hasEnded: (other) => ended.has(other) });
  const first = world.process(of, {
    liveness: liveness("first"),
    holds: (write) => (writes("journal")(write) ? new Promise(() => undefined) : null),
  });
  const ids = Array.from({ length: 24 }, (_, turn) => `s${turn}`);
  for (const id of ids) await first.start("hi", { id });
  const stop = new AbortController();
  const second = world.process(of, { liveness: liveness("second"), drive: false, lease, holds: serialised(world) });
  void second.work({ signal: stop.signal });
  // The worker measures its writes.
  await world.process(of, { drive: false }).start("hi", { id: "s" });
  await world.clock.advance(3000);
  expect(await second.get("s")).toMatchObject({ session: { status: "completed" } });
  first.kill();
  ended.add("first");
  for (let waited = 0; waited < 60_000 && (await world.rows("open")).length > 0; waited += 1000) {
    await world.clock.advance(1000);
  }
  expect(await world.rows("open")).toEqual([]);
  // Each turn was taken over once: the worker did not have to claim an expired lease again.
  const leases = await world.rows("leases");
  expect(leases.filter(({ key }) => key[1] !== "s").map(({ tag }) => epochOf(tag))).toEqual(ids.map(() => 2));
  stop.abort();
});

test("a turn of a verb that finds writes slow is driven once writes are fast again, although no turn ends meanwhile", async () => {
  const world = new World();
  const long = counting("long", { timeoutMs: 7_200_000, handler: () => world.clock.sleep(3_600_000) });
  const also = { long: world.engine(worker("long"), { tools: [long.tool] }) };
  let writeMs = 400;
  const holds = () => (writeMs === 0 ? null : world.clock.sleep(writeMs));
  const process = world.process(world.engine(worker()), { also, lease, holds });
  const starting = process.start("hi", { id: "s1", engine: "long" });
  await world.clock.advance(2000);
  await starting;
  const second = process.start("hi", { id: "s2" });
  await world.clock.advance(400);
  const { result } = await second;
  await world.clock.advance(2000);
  expect(await process.get("s2")).toMatchObject({ openTurn: { status: "queued" } });
  writeMs = 0;
  await world.clock.advance(10_000);
  expect(await result).toMatchObject({ text: "Done." });
});

test("a turn whose loading takes longer than a lease is not taken over", async () => {
  const world = new World();
  const of = world.engine(worker());
  const { turnId } = await world.process(of, { drive: false }).start("hi", { id: "s1" });
  const holdsRead = (queries: readonly { readonly table: string }[]) =>
    queries.some(({ table }) => table === "journal" || table === "contents") ? world.clock.sleep(2000) : null;
  const slow = world.process(of, { lease, holdsRead });
  const other = world.process(of, { lease });
  expect(await slow.recover()).toMatchObject({ pickedUp: 1 });
  for (let waited = 0; waited < 3900; waited += 300) {
    await world.clock.advance(300);
    expect(await other.recover()).toMatchObject({ pickedUp: 0 });
  }
  await world.clock.advance(300);
  expect(await other.attach("s1", turnId).result).toMatchObject({ text: "Done." });
});
