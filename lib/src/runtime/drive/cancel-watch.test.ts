// Whoever drives a turn hears that it is to stop, for as long as they drive it.

import { expect, test } from "vitest";

import { memoryStorage } from "../../host/memory/index.ts";
import { handClock } from "../../testing/hand-clock.ts";
import { CancelWatch } from "./cancel-watch.ts";

const turn = ["tenant", "session", "turn"] as const;
const cancel = { checks: [], removals: [], puts: [{ table: "cancels", key: turn, tag: 0, value: "" }] } as const;

test("a turn that is driven again before the last go has left is heard of by the new one", async () => {
  const storage = memoryStorage();
  const cancels = new CancelWatch(storage, handClock());
  const heard: string[] = [];
  const leave = cancels.watch(turn, () => heard.push("first"));
  const end = cancels.watch(turn, () => heard.push("second"));
  leave();
  await storage.write(cancel);
  await expect.poll(() => heard).toEqual(["second"]);
  end();
});

test("whoever has left hears nothing, a cancel is heard once, and nothing is watched that nobody drives", async () => {
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
  const heard: string[] = [];
  cancels.watch(turn, () => heard.push("left"))();
  const end = cancels.watch(turn, () => heard.push("here"));
  await storage.write(cancel);
  await clock.advance(1000);
  await storage.write({ ...cancel, puts: [{ table: "inboxes", key: ["tenant", "session"], tag: 0, value: "" }] });
  await clock.advance(1000);
  expect(heard).toEqual(["here"]);
  end();
  expect(clock.sleepers).toBe(0);
  await expect.poll(() => watchers).toBe(0);
});

test("a cancel is taken also when the storage failed at the read that its write caused", async () => {
  const storage = memoryStorage();
  const clock = handClock();
  let failures = 0;
  const read: typeof storage.read = async (queries) => {
    if (failures === 0 && queries.some(({ prefix }) => prefix.length === 0)) {
      failures += 1;
      throw new Error("locked");
    }
    return storage.read(queries);
  };
  const cancels = new CancelWatch({ ...storage, read }, clock);
  const heard: string[] = [];
  const end = cancels.watch(turn, () => heard.push("here"));
  await clock.advance(0);
  await storage.write(cancel);
  await clock.advance(1000);
  expect(failures).toBe(1);
  expect(heard).toEqual(["here"]);
  end();
});
