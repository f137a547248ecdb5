// The processor time of the layout of a long turn.

import { expect, test } from "vitest";

import { criticalPath, layoutOf } from "../../../lib/src/serve/react/timeline/layout.ts";
import { longTurn } from "./turn-fixture.ts";

test("the layout of 1,000 steps takes less than 20 ms of processor time", () => {
  const timeline = longTurn(1000);
  // The fastest of several runs: the first ones are compiled, and other processes share the caches of the machine. An
  // idle machine needs less than 10 ms.
  const times = Array.from({ length: 20 }, () => {
    const start = process.cpuUsage();
    criticalPath(layoutOf(timeline));
    return process.cpuUsage(start).user / 1000;
  });
  expect(Math.min(...times)).toBeLessThan(20);
});
