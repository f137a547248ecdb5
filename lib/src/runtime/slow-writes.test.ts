// Leases over a storage whose operations take long: they grow with what writes take, and are extended while a turn is loaded.

import { expect, test } from "vitest";

import { counting, worker, World } from "../../test/runtime/world.ts";

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
