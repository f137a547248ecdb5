// How many turns a process takes, by the measured time of its writes.

import { expect, test } from "vitest";

import { handClock } from "../../testing/hand-clock.ts";
import { memoryStorage } from "../host/memory/memory.ts";
import { leaseTimings } from "../rows/lease.ts";
import { GrowingLease } from "./growing-lease.ts";

/** A measured storage whose writes take as long as `write` does. */
function measuring(write: (clock: ReturnType<typeof handClock>) => Promise<void>) {
  const clock = handClock();
  const storage = memoryStorage({ clock });
  const lease = new GrowingLease(leaseTimings);
  const measured = lease.measured(
    {
      ...storage,
      write: async (batch) => {
        await write(clock);
        return storage.write(batch);
      },
    },
    clock,
  );
  const send = (count: number) =>
    Promise.all(Array.from({ length: count }, () => measured.write({ checks: [], removals: [], puts: [] })));
  return { clock, lease, send };
}

test("a fast storage sets no bound", async () => {
  const { lease, send } = measuring(async () => undefined);
  await send(64);
  expect(lease.places).toBe(Number.POSITIVE_INFINITY);
});

test("a storage that performs one write at a time can serve as many turns as fit into a renewal interval", async () => {
  let last = Promise.resolve();
  const { clock, lease, send } = measuring((of) => (last = last.then(() => of.sleep(500))));
  const sent = send(64);
  await clock.advance(64 * 500);
  await sent;
  expect(lease.places).toBe(20);
});

test("a storage that performs writes in parallel serves more turns than it has writes in progress", async () => {
  const { clock, lease, send } = measuring((of) => of.sleep(500));
  const sent = send(64);
  await clock.advance(500);
  await sent;
  expect(lease.places).toBeGreaterThan(1000);
});

test("a pause that delays up to three writes sets no bound, and slow writes set it until one is fast again", async () => {
  let writeMs = 5000;
  const { clock, lease, send } = measuring((of) => of.sleep(writeMs));
  const sendOne = async () => {
    const sent = send(1);
    await clock.advance(writeMs);
    await sent;
    return lease.places;
  };
  for (let count = 0; count < 3; count += 1) expect(await sendOne()).toBe(Number.POSITIVE_INFINITY);
  expect(await sendOne()).toBe(2);
  writeMs = 1;
  expect(await sendOne()).toBe(10_000);
});
