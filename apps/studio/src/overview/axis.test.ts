import { expect, test } from "vitest";

import { niceMaximum } from "./axis.ts";

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
