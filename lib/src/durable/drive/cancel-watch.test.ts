// The watch for cancels: delivers each stored cancel once to the driver of its turn.

import { expect, test } from "vitest";

import { handClock } from "../../testing/hand-clock.ts";
import { memoryStorage } from "../host/memory/memory.ts";
import { CancelWatch } from "./cancel-watch.ts";

const turn = ["tenant", "session", "turn"] as const;
const cancel = { checks: [], removals: [], puts: [{ table: "cancels", key: turn, tag: 0, value: "" }] } as const;

test("a second watch of the same turn gets the cancel after the first has ended", async () => {
  const storage = memoryStorage();
  const cancels = new CancelWatch(storage, handClock());
  const delivered: string[] = [];
  const leave = cancels.watch(turn, () => delivered.push("first"));
  const end = cancels.watch(turn, () => delivered.push("second"));
  leave();
  await storage.write(cancel);
  await expect.poll(() => delivered).toEqual(["second"]);
  end();
});

test("an ended watch is not called, a cancel is delivered once, and the storage is not watched without turns", async () => {
  const storage = memoryStorage();
  const clock = handClock();
  let watchers = 0;
  const watch: typeof storage.watch = (changed) => {
    const unwatch = storage.watch(changed);
    watchers += 1;
    return () => {
      watchers -= 1;
      unwatch();
    };
  };
  const cancels = new CancelWatch({ ...storage, watch }, clock);
  const delivered: string[] = [];
  cancels.watch(turn, () => delivered.push("left"))();
  const end = cancels.watch(turn, () => delivered.push("here"));
  await storage.write(cancel);
  await clock.advance(1000);
  await storage.write({ ...cancel, puts: [{ table: "inboxes", key: ["tenant", "session"], tag: 0, value: "" }] });
  await clock.advance(1000);
  expect(delivered).toEqual(["here"]);
  end();
  expect(clock.sleepers).toBe(0);
  await expect.poll(() => watchers).toBe(0);
});

test.each([
  ["fails", () => Promise.reject(new Error("locked"))],
  ["gets no answer", () => new Promise<never>(() => undefined)],
] as const)("a cancel is delivered although the read after its write %s", async (_, firstAnswer) => {
  const storage = memoryStorage();
  const clock = handClock();
  let lost = 0;
  const read: typeof storage.read = async (queries) => {
    if (lost === 0 && queries.some(({ prefix }) => prefix.length === 0)) {
      lost += 1;
      return firstAnswer();
    }
    return storage.read(queries);
  };
  const cancels = new CancelWatch({ ...storage, read }, clock);
  const delivered: string[] = [];
  const end = cancels.watch(turn, () => delivered.push("here"));
  await clock.advance(0);
  await storage.write(cancel);
  await clock.advance(1000);
  expect(lost).toBe(1);
  expect(delivered).toEqual(["here"]);
  end();
  expect(clock.sleepers).toBe(0);
});

test("a cancel that was stored before the watch is delivered although the first read fails", async () => {
  const storage = memoryStorage();
  const clock = handClock();
  await storage.write(cancel);
  let failures = 0;
  const read: typeof storage.read = async (queries) => {
    if (failures === 0) {
      failures += 1;
      throw new Error("connection lost");
    }
    return storage.read(queries);
  };
  const cancels = new CancelWatch({ ...storage, read }, clock);
  const delivered: string[] = [];
  const end = cancels.watch(turn, () => delivered.push("here"));
  await clock.advance(1000);
  expect(delivered).toEqual(["here"]);
  end();
});

test("the cancel of an expected turn is delivered without a read at the start of its drive, also if it is stored before", async () => {
  const storage = memoryStorage();
  const clock = handClock();
  let reads = 0;
  const read: typeof storage.read = (queries) => {
    reads += 1;
    return storage.read(queries);
  };
  const cancels = new CancelWatch({ ...storage, read }, clock);
  const delivered: string[] = [];
  const endExpected = cancels.expect(turn);
  await storage.write({ ...cancel, puts: [{ table: "turns", key: turn, tag: 0, value: "" }] });
  const leave = cancels.watch(turn, () => delivered.push("first"));
  await clock.advance(1000);
  expect([reads, delivered]).toEqual([0, []]);
  leave();
  await storage.write(cancel);
  await clock.advance(1000);
  const end = cancels.watch(turn, () => delivered.push("second"));
  expect(delivered).toEqual(["second"]);
  endExpected();
  end();
  expect(clock.sleepers).toBe(0);
});
