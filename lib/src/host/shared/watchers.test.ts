// Who is told of writes, when, and what.

import type { Batch, Put } from "../../runtime/rows/storage.ts";

import { expect, test } from "vitest";

import { sessionName } from "../../runtime/rows/storage.ts";
import { Watchers } from "./watchers.ts";

type Heard = readonly string[] | "anything";

const entry = (session: string): Put => ({ table: "entries", key: ["t", session, 1], tag: 0, value: "" });
const writes = (...puts: readonly Put[]): Batch => ({ checks: [], removals: [], puts });
const removes = (...prefix: readonly string[]): Batch => ({
  checks: [],
  removals: [{ table: "entries", prefix }],
  puts: [],
});
const name = (session: string) => sessionName("t", session);

/** Watchers, and what one of them has heard. */
function watched() {
  const watchers = new Watchers();
  const heard: Heard[] = [];
  const leave = watchers.add((sessions) => heard.push(sessions === undefined ? "anything" : [...sessions]));
  return { watchers, heard, leave };
}

const told = () => new Promise<void>((resolve) => queueMicrotask(resolve));

test("they are told which sessions were written to, together, and only since the last time", async () => {
  const { watchers, heard } = watched();
  watchers.notify(writes(entry("a"), entry("b")));
  watchers.notify(writes(entry("c")));
  expect(heard).toEqual([]);
  await told();
  watchers.notify(writes(entry("d")));
  await told();
  expect(heard).toEqual([[name("a"), name("b"), name("c")], [name("d")]]);
});

test("what is removed is written to as well; where that may be of any session, nobody knows which", async () => {
  const { watchers, heard } = watched();
  for (const batch of [removes("t", "a"), removes("t"), removes(), writes(entry("b"))]) {
    watchers.notify(batch);
    await told();
  }
  expect(heard).toEqual([[name("a")], "anything", "anything", [name("b")]]);
});

test("of what somebody else wrote nobody knows which, whatever was written here meanwhile", async () => {
  const { watchers, heard } = watched();
  watchers.notify(writes(entry("a")));
  watchers.notify(null);
  watchers.notify(writes(entry("b")));
  await told();
  watchers.notify(writes(entry("c")));
  await told();
  expect(heard).toEqual(["anything", [name("c")]]);
});

test("rows that belong to no session are of none", async () => {
  const { watchers, heard } = watched();
  watchers.notify(writes({ table: "tokens", key: ["a token"], tag: 0, value: "" }));
  await told();
  expect(heard).toEqual([[]]);
});

test("whoever leaves while it is told is not called any more, and whoever comes is not called yet", async () => {
  const watchers = new Watchers();
  const heard: string[] = [];
  watchers.add(() => {
    heard.push("first");
    leave();
    watchers.add(() => heard.push("late"));
  });
  const leave = watchers.add(() => heard.push("second"));
  watchers.notify(writes(entry("a")));
  await told();
  expect(heard).toEqual(["first"]);
});

test("the same function is called for each time it was added, and ending one leaves the other", async () => {
  const watchers = new Watchers();
  let calls = 0;
  const count = () => void (calls += 1);
  const leave = watchers.add(count);
  watchers.add(count);
  watchers.notify(writes(entry("a")));
  await told();
  expect(calls).toBe(2);
  leave();
  watchers.notify(writes(entry("a")));
  await told();
  expect(calls).toBe(3);
});

/** What nobody caught in the meantime. */
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

test("one that throws takes no other with it, and is not silent", async () => {
  const watchers = new Watchers();
  const heard: string[] = [];
  const broken = new Error("broken");
  watchers.add(() => {
    throw broken;
  });
  watchers.add(() => heard.push("second"));
  const uncaught = await uncaughtBy(async () => {
    watchers.notify(writes(entry("a")));
    await told();
  });
  expect(heard).toEqual(["second"]);
  expect(uncaught).toEqual([broken]);
});
