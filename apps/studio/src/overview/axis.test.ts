import { expect, test } from "vitest";

import { cost, count, duration } from "../parts/format.ts";
import { axisText, axisTimes, niceMaximum, periodText } from "./axis.ts";

test.for([
  [0, 1],
  [1, 1],
  [1.2, 2],
  [2, 2],
  [3, 5],
  [5.1, 10],
  [10, 10],
  [137, 200],
  [0.0042, 0.005],
] as const)("the axis for %d ends at %d", ([value, maximum]) => {
  expect(niceMaximum(value)).toBeCloseTo(maximum, 10);
});

test("the top of an axis of time is a round time, and its half too", () => {
  expect([900, 9000, 12_500, 70_000, 1_000_000].map((ms) => niceMaximum(ms, "duration"))).toEqual([
    1000, 10_000, 20_000, 120_000, 1_200_000,
  ]);
});

test("an axis of turns has no half turn", () => {
  expect([0, 1, 2, 4, 7, 30].map((turns) => niceMaximum(turns, "count"))).toEqual([2, 2, 2, 6, 10, 50]);
});

test("times of the axis are round in the time zone of the reader", () => {
  const from = Date.UTC(2026, 10, 16, 18, 45);
  const texts = (hours: number, offsetMinutes: number): readonly string[] =>
    axisTimes(from, from + hours * 3_600_000, offsetMinutes).map((at) =>
      new Date(at - offsetMinutes * 60_000).toISOString().slice(8, 16),
    );
  expect(texts(1, 0)).toEqual(["16T18:45", "16T19:00", "16T19:15", "16T19:30"]);
  expect(texts(24, 0)).toEqual(["17T00:00", "17T06:00", "17T12:00", "17T18:00"]);
  // India, 5 hours 30 minutes before UTC.
  expect(texts(24, -330)).toEqual(["17T06:00", "17T12:00", "17T18:00", "18T00:00"]);
  expect(texts(7 * 24, 0)).toEqual(["17T00:00", "19T00:00", "21T00:00", "23T00:00"]);
  expect(texts(30 * 24, 0).length).toBeLessThanOrEqual(5);
});

test("values of the axis are round: no zeros after the point, and no unit at zero", () => {
  expect([0, 10_000, 1500, 500].map((ms) => axisText(ms, duration))).toEqual(["0", "10 s", "1.5 s", "500 ms"]);
  expect([0, 0.5, 1, 20, 0.005].map((dollars) => axisText(dollars, cost))).toEqual([
    "0",
    "$0.5",
    "$1",
    "$20",
    "$0.005",
  ]);
  expect([0, 25_000, 100].map((value) => axisText(value, count))).toEqual(["0", "25,000", "100"]);
});

test("the length of a bar is said in words", () => {
  const minute = 60_000;
  expect([5 * minute, 15 * minute, 60 * minute, 180 * minute, 1440 * minute].map(periodText)).toEqual([
    "5 minutes",
    "15 minutes",
    "1 hour",
    "3 hours",
    "1 day",
  ]);
});
