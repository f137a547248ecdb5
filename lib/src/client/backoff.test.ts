// Waiting before another try: how long, how often, and what ends it.

import { getEventListeners } from "node:events";

import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { Backoff, retryAfter, sleep } from "./backoff.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const retry = { requests: 4, streams: 4, baseMs: 100, maxMs: 400 };

/** Has that resolved by now? */
function watched(promise: Promise<unknown>): { readonly isOver: () => boolean } {
  let over = false;
  void promise.then(() => (over = true));
  return { isOver: () => over };
}

test("each wait is longer than the one before, up to the longest, and the first again when something came", async () => {
  const backoff = new Backoff(4, retry);
  for (const times of [1, 2]) {
    for (const most of [100, 200, 400, 400]) {
      const { isOver } = watched(backoff.wait(null, null));
      await vi.advanceTimersByTimeAsync(most / 2 - 1);
      expect([times, most, isOver()]).toEqual([times, most, false]);
      await vi.advanceTimersByTimeAsync(most / 2 + 1);
      expect([times, most, isOver()]).toEqual([times, most, true]);
    }
    expect(await backoff.wait(null, null)).toBe(false);
    backoff.reset();
  }
});

test("a signal ends a wait, also one that was given before", async () => {
  const stop = new AbortController();
  const waiting = sleep(60_000, stop.signal);
  stop.abort(new Error("enough"));
  await expect(waiting).rejects.toThrow("enough");
  expect(vi.getTimerCount()).toBe(0);
  await expect(sleep(60_000, stop.signal)).rejects.toThrow("enough");
});

test("a wait that is over leaves nothing at its signal", async () => {
  const { signal } = new AbortController();
  const waiting = sleep(10, signal);
  await vi.advanceTimersByTimeAsync(10);
  await waiting;
  expect(getEventListeners(signal, "abort")).toEqual([]);
});

test.each([
  ["7", 7000],
  ["0", 0],
  ["Thu, 01 Jan 1970 00:00:00 GMT", 0],
  ["soon", null],
])("Retry-After: %s", (said, ms) => {
  expect(retryAfter(new Headers({ "retry-after": said }))).toBe(ms);
});
