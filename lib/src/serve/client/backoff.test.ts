// Backoff between retries: how long each wait is, how many there are, and what ends one early.

import { handClock } from "everturn/testing";
import { expect, test } from "vitest";

import { Backoff, retryAfter } from "./backoff.ts";

const retry = { requests: 4, streams: 4, baseMs: 100, maxMs: 400 };

test.each([
  ["the shortest", 0, [50, 100, 200, 200]],
  ["the longest", 1 - Number.EPSILON, [100, 200, 400, 400]],
])("doubles the delay up to a limit and starts again after a reset: %s jitter", async (_, random, waits) => {
  const clock = handClock(() => random);
  const backoff = new Backoff(4, retry, clock);
  const takes = async (ms: number) => {
    let isOver = false;
    const waiting = backoff.wait(null, null).then(() => (isOver = true));
    await clock.advance(ms - 1);
    expect([ms, isOver]).toEqual([ms, false]);
    await clock.advance(1);
    expect([ms, isOver]).toEqual([ms, true]);
    await waiting;
  };
  for (const ms of waits) await takes(ms);
  expect(await backoff.wait(null, null)).toBe(false);
  backoff.reset();
  await takes(waits[0] ?? 0);
});

test("a process that shuts down does not double the delay, and its rejections are counted", async () => {
  const clock = handClock(() => 0);
  const backoff = new Backoff(4, retry, clock);
  const waits: number[] = [];
  for (const isBrief of [true, true, false, false]) {
    const waiting = backoff.wait(null, null, isBrief).then(() => waits.push(clock.now()));
    for (let ms = 0; ms < 200 && clock.sleepers > 0; ms += 1) await clock.advance(1);
    await waiting;
  }
  expect(waits.map((at, index) => at - (waits[index - 1] ?? 0))).toEqual([50, 50, 50, 100]);
  expect(await backoff.wait(null, null, true)).toBe(false);
});

test("an abort ends a wait with the reason of the signal", async () => {
  const clock = handClock();
  const stop = new AbortController();
  const backoff = new Backoff(4, retry, clock);
  const waiting = backoff.wait(60_000, stop.signal);
  stop.abort(new Error("enough"));
  await expect(waiting).rejects.toThrow("enough");
  expect(clock.sleepers).toBe(0);
  await expect(backoff.wait(null, stop.signal)).rejects.toThrow("enough");
});

test.each([
  ["7", 7000],
  ["0", 0],
  ["Thu, 01 Jan 1970 00:00:09 GMT", 4000],
  ["Thu, 01 Jan 1970 00:00:01 GMT", 0],
  ["soon", null],
])("reads Retry-After: %s at second 5 of 1970", (header, ms) => {
  expect(retryAfter(new Headers({ "retry-after": header }), 5000)).toBe(ms);
});
