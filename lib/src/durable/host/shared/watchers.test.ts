// Watchers: when they are notified of writes, and with which names.

import type { Batch, Put } from "../../rows/storage.ts";

import { expect, test } from "vitest";

import { sessionName } from "../../rows/storage.ts";
import { Watchers } from "./watchers.ts";

type Received = readonly string[] | "anything";

const entry = (session: string): Put => ({ table: "entries", key: ["t", session, 1], tag: 0, value: "" });
const writes = (...puts: readonly Put[]): Batch => ({ checks: [], removals: [], puts });
const removes = (...prefix: readonly string[]): Batch => ({
  checks: [],
  removals: [{ table: "entries", prefix }],
  puts: [],
});
const name = (session: string) => sessionName("t", session);

/** Watchers, and the notifications that one of them has received. */
function watched() {
  const watchers = new Watchers();
  const received: Received[] = [];
  const leave = watchers.add((sessions) => received.push(sessions === undefined ? "anything" : [...sessions]));
  return { watchers, received, leave };
}

const notified = () => new Promise<void>((resolve) => queueMicrotask(resolve));

test("a notification names the sessions that were written to since the last one", async () => {
  const { watchers, received } = watched();
  watchers.notify(writes(entry("a"), entry("b")));
  watchers.notify(writes(entry("c")));
  expect(received).toEqual([]);
  await notified();
  watchers.notify(writes(entry("d")));
  await notified();
  expect(received).toEqual([[name("a"), name("b"), name("c")], [name("d")]]);
});

test("a removal counts as a write; a removal across sessions is reported without names", async () => {
  const { watchers, received } = watched();
  for (const batch of [removes("t", "a"), removes("t"), removes(), writes(entry("b"))]) {
    watchers.notify(batch);
    await notified();
  }
  expect(received).toEqual([[name("a")], "anything", "anything", [name("b")]]);
});

test("a write of another connection is reported without names, also together with own writes", async () => {
  const { watchers, received } = watched();
  watchers.notify(writes(entry("a")));
  watchers.notify(null);
  watchers.notify(writes(entry("b")));
  await notified();
  watchers.notify(writes(entry("c")));
  await notified();
  expect(received).toEqual(["anything", [name("c")]]);
});

test("a renewal of leases is not reported, but every other write of a lease is", async () => {
  const { watchers, received } = watched();
  const lease: Put = { table: "leases", key: ["t", "a"], tag: 1, value: "" };
  watchers.notify({ ...writes(lease), lasting: false });
  await notified();
  expect(received).toEqual([]);
  watchers.notify(writes(lease));
  await notified();
  watchers.notify({ ...writes(lease, entry("b")), lasting: false });
  await notified();
  watchers.notify({ ...removes("t", "c"), lasting: false });
  await notified();
  expect(received).toEqual([[name("a")], [name("a"), name("b")], [name("c")]]);
});

test("rows that belong to no session are reported with an empty set", async () => {
  const { watchers, received } = watched();
  watchers.notify(writes({ table: "tokens", key: ["a token"], tag: 0, value: "" }));
  await notified();
  expect(received).toEqual([[]]);
});

test("a watcher removed during a notification is not called, and one added is not called yet", async () => {
  const watchers = new Watchers();
  const received: string[] = [];
  watchers.add(() => {
    received.push("first");
    leave();
    watchers.add(() => received.push("late"));
  });
  const leave = watchers.add(() => received.push("second"));
  watchers.notify(writes(entry("a")));
  await notified();
  expect(received).toEqual(["first"]);
});

test("a function that was added twice is called twice, and each registration ends on its own", async () => {
  const watchers = new Watchers();
  let calls = 0;
  const count = () => void (calls += 1);
  const leave = watchers.add(count);
  watchers.add(count);
  watchers.notify(writes(entry("a")));
  await notified();
  expect(calls).toBe(2);
  leave();
  watchers.notify(writes(entry("a")));
  await notified();
  expect(calls).toBe(3);
});

/** The uncaught exceptions during an action. */
async function uncaughtBy(act: () => Promise<void>): Promise<readonly unknown[]> {
  const found: unknown[] = [];
  const others = process.listeners("uncaughtException");
  const find = (error: unknown) => void found.push(error);
  process.removeAllListeners("uncaughtException").on("uncaughtException", find);
  try {
    await act();
    await new Promise((resolve) => setImmediate(resolve));
  } finally {
    process.off("uncaughtException", find);
    for (const other of others) process.on("uncaughtException", other);
  }
  return found;
}

test("a watcher that throws does not affect others, and its error is uncaught", async () => {
  const watchers = new Watchers();
  const received: string[] = [];
  const broken = new Error("broken");
  watchers.add(() => {
    throw broken;
  });
  watchers.add(() => received.push("second"));
  const uncaught = await uncaughtBy(async () => {
    watchers.notify(writes(entry("a")));
    await notified();
  });
  expect(received).toEqual(["second"]);
  expect(uncaught).toEqual([broken]);
});
