// Rows that cannot be read affect their own session only.

import { describe, expect, test } from "vitest";

import { sessionOf, worker, World } from "../../test/runtime/world.ts";

describe("a session row that cannot be read", () => {
  test("affects its own session only: others are listed, and their journals are removed", async () => {
    const world = new World();
    const of = world.engine(worker());
    const sessions = world.process(of, { retentionMs: 1000 });
    for (const id of ["newer", "corrupt", "good"]) {
      await (
        await sessions.start("hi", { id })
      ).result;
    }
    for (const [id, value] of [
      ["newer", '{"version":99,"data":{}}'],
      ["corrupt", "{}"],
    ] as const) {
      const [row] = await world.rows("sessions", ["", id]);
      if (row !== undefined) await world.raw("sessions", row, value);
    }
    expect((await sessions.list()).items.map(({ id }) => id)).toEqual(["good"]);
    const stop = new AbortController();
    const working = sessions.work({ signal: stop.signal });
    await world.clock.advance(5000);
    stop.abort();
    await world.clock.advance(0);
    await working;
    const kept = new Set((await world.rows("journal")).map(({ key }) => key[1]));
    expect([...kept].sort()).toEqual(["corrupt", "newer"]);
    expect(await sessionOf(sessions, "good")).toMatchObject({ status: "completed" });
  });
});

test("a session that cannot be read can be deleted, and the others are listed", async () => {
  const world = new World();
  const of = world.process(world.engine(worker()));
  for (const id of ["s1", "s2"]) await (await of.start("hi", { id })).result;
  const [row] = await world.rows("sessions", ["", "s1"]);
  if (row === undefined) throw new Error("there is no row");
  await world.raw("sessions", row, row.value.replace('"status":"completed"', '"status":"lost"'));
  await expect(of.get("s1")).rejects.toMatchObject({ reason: "corrupt_row" });
  expect((await of.list()).items.map(({ id }) => id)).toEqual(["s2"]);
  await of.delete("s1");
  expect(await of.get("s1")).toBe(null);
  expect((await of.list()).items.map(({ id }) => id)).toEqual(["s2"]);
  expect(await world.rows("entries", ["", "s1"])).toEqual([]);
  expect((await world.rows("recent")).map(({ key }) => key[2])).toEqual(["s2"]);
  expect((await (await of.start("again", { id: "s1" })).result).text).toBe("Done.");
});
