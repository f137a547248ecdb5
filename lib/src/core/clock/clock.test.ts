// The system clock and the timers built on a clock.

import { getEventListeners } from "node:events";

import { handClock } from "everturn/testing";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";

import { parseDate, systemClock } from "./clock.ts";
import { Deadline, startInterval, startTimer } from "./timer.ts";

describe("systemClock", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  test("sleep resolves after the delay and removes its abort listener", async () => {
    const { signal } = new AbortController();
    let isOver = false;
    const sleep = systemClock.sleep(10, signal).then(() => (isOver = true));
    await vi.advanceTimersByTimeAsync(9);
    expect(isOver).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    await sleep;
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });

  test("sleep rejects with the reason of its signal and clears its timer", async () => {
    const stop = new AbortController();
    const sleep = systemClock.sleep(60_000, stop.signal);
    stop.abort(new Error("enough"));
    await expect(sleep).rejects.toThrow("enough");
    await expect(systemClock.sleep(60_000, stop.signal)).rejects.toThrow("enough");
    expect(vi.getTimerCount()).toBe(0);
  });

  test("sleep accepts delays beyond the maximum of setTimeout", async () => {
    const days = 24 * 3_600_000;
    let isOver = false;
    const sleep = systemClock.sleep(30 * days).then(() => (isOver = true));
    await vi.advanceTimersByTimeAsync(29 * days);
    expect(isOver).toBe(false);
    await vi.advanceTimersByTimeAsync(days);
    await sleep;
  });

  test("a timer calls its function once, also after a delay beyond the maximum of setTimeout, unless it is cancelled", async () => {
    const days = 24 * 3_600_000;
    let acts = 0;
    startTimer(systemClock, 30 * days, () => (acts += 1));
    const cancel = startTimer(systemClock, 30 * days, () => (acts += 100));
    await vi.advanceTimersByTimeAsync(29 * days);
    expect(acts).toBe(0);
    cancel();
    await vi.advanceTimersByTimeAsync(40 * days);
    expect(acts).toBe(1);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe("startTimer and startInterval", () => {
  test("a timer calls its function once, after the delay", async () => {
    const clock = handClock();
    let acts = 0;
    startTimer(clock, 100, () => (acts += 1));
    await clock.advance(99);
    expect(acts).toBe(0);
    await clock.advance(1000);
    expect(acts).toBe(1);
  });

  test("a cancelled timer never calls its function, even if it is due in the same task", async () => {
    const clock = handClock();
    const acts: string[] = [];
    const cancels: (() => void)[] = [];
    startTimer(clock, 100, () => cancels.forEach((cancel) => cancel()));
    cancels.push(
      startTimer(clock, 50, () => acts.push("earlier")),
      startTimer(clock, 200, () => acts.push("later")),
    );
    await clock.advance(1000);
    expect(acts).toEqual(["earlier"]);
    expect(clock.sleepers).toBe(0);
    let wake = () => {};
    const cancel = startTimer({ ...clock, sleep: () => new Promise((resolve) => (wake = resolve)) }, 100, () =>
      acts.push("late"),
    );
    wake();
    cancel();
    await clock.advance(0);
    expect(acts).toEqual(["earlier"]);
  });

  test("an interval calls its function until it is ended, also from within the function", async () => {
    const clock = handClock();
    const times: number[] = [];
    const end = startInterval(clock, 100, () => {
      times.push(clock.now());
      if (times.length === 3) end();
    });
    await clock.advance(1000);
    expect(times).toEqual([100, 200, 300]);
    expect(clock.sleepers).toBe(0);
  });
});

describe("Deadline", () => {
  test("expires once, at the time it was last set to, earlier or later", async () => {
    const clock = handClock();
    const expired: number[] = [];
    const deadline = new Deadline(clock, () => expired.push(clock.now()));
    deadline.set(100);
    deadline.set(300);
    await clock.advance(200);
    deadline.set(250);
    await clock.advance(1000);
    expect(expired).toEqual([250]);
    deadline.set(1300);
    await clock.advance(1000);
    expect(expired).toEqual([250, 1300]);
    expect(clock.sleepers).toBe(0);
  });

  test("does not expire at Infinity, and has no timer after clear", async () => {
    const clock = handClock();
    const deadline = new Deadline(clock, () => expect.unreachable());
    deadline.set(100);
    deadline.set(Infinity);
    await clock.advance(1000);
    expect(clock.sleepers).toBe(0);
    deadline.set(2000);
    deadline.clear();
    expect(clock.sleepers).toBe(0);
    await clock.advance(2000);
  });

  test("starts no further timer when it is moved later", async () => {
    const clock = handClock();
    let sleeps = 0;
    const counting = {
      ...clock,
      sleep: (ms: number, signal?: AbortSignal) => ((sleeps += 1), clock.sleep(ms, signal)),
    };
    const deadline = new Deadline(counting, () => undefined);
    for (let at = 100; at < 1100; at += 1) deadline.set(at);
    expect(sleeps).toBe(1);
    deadline.clear();
  });
});

test.each([
  ["Thu, 01 Jan 1970 00:00:01 GMT", 1000],
  ["1970-01-01T00:00:02Z", 2000],
  ["soon", null],
  ["", null],
])("the date %j is %j", (text, ms) => {
  expect(parseDate(text)).toBe(ms);
});
