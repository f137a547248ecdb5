// An open turn without a row in the index of work is found again.

import type { HostStorage } from "../internal.ts";

import { expect, test } from "vitest";

import { says, thinker, World } from "../../../test/runtime/world.ts";
import { memoryStorage } from "../host/memory/memory.ts";
import { runtime } from "../index.ts";

/** Turns that were accepted by a process which does not write the index. */
async function withoutIndex(count: number) {
  const { clock } = new World();
  const host = memoryStorage({ clock });
  const engines = { default: new World().engine(thinker(() => says("Done."))) };
  const options = { engines, clock, live: false } as const;
  const older: HostStorage = {
    ...host,
    write: (batch) => host.write({ ...batch, puts: batch.puts.filter(({ table }) => table !== "work") }),
  };
  const accepting = runtime({ ...options, host: older, drive: false });
  for (let index = 0; index < count; index += 1) {
    await accepting.tenant(`t${index % 3}`).start("hi", { id: `s${index}` });
  }
  const openTurns = async () => (await host.read([{ table: "open", prefix: [] }]))[0]?.length;
  return { clock, host, openTurns, sessions: runtime({ ...options, host }) };
}

test("by recover without an id, however many there are", async () => {
  const { sessions, clock, openTurns } = await withoutIndex(600);
  expect(await sessions.recover()).toMatchObject({ pickedUp: 600 });
  await clock.advance(0);
  expect(await openTurns()).toBe(0);
});

test("by recover with an id", async () => {
  const { sessions } = await withoutIndex(1);
  expect(await sessions.tenant("t0").recover("s0")).toMatchObject({ pickedUp: 1 });
});

test("although the row of another open turn cannot be read", async () => {
  const { sessions, host } = await withoutIndex(3);
  const damaged = { table: "open", key: ["t1", "s1"], tag: 0, value: "{" } as const;
  await host.write({ checks: [], removals: [], puts: [damaged] });
  expect(await sessions.recover()).toMatchObject({ pickedUp: 2 });
});
