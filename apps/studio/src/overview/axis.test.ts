import { expect, test } from "vitest";

import { cost, count, duration } from "../parts/format.ts";
import { axisText, niceMaximum } from "./axis.ts";

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
  expect([900, 9000, 12_500, 70_000, 1_000_000].map((ms) => niceMaximum(ms, true))).toEqual([
    1000, 10_000, 20_000, 120_000, 1_200_000,
  ]);
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
