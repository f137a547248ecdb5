// Histograms of durations, and sums that are bounded whatever the names are.

import * as fc from "fast-check";
import { expect, test } from "vitest";

import { addHistograms, histogramOf, quantile } from "./histogram.ts";
import { addRollups, noRollup, noSum, noToolSum, oneOutcome, outcomeClassOf, totalOf } from "./rollup.ts";

test("quantiles are within 10 % of the measured values", () => {
  const durations = fc.array(fc.oneof(fc.nat(100), fc.nat(100_000), fc.nat(4_000_000_000)), { minLength: 1 });
  fc.assert(
    fc.property(durations, fc.constantFrom(0.5, 0.95, 0.99), (values, share) => {
      const histogram = values.map(histogramOf).reduce(addHistograms);
      const exact = values.toSorted((left, right) => left - right)[Math.ceil(share * values.length) - 1] ?? 0;
      expect(Math.abs((quantile(histogram, share) ?? -1) - exact)).toBeLessThanOrEqual(exact * 0.1);
    }),
  );
});

test("a histogram is bounded: negative, missing and endless durations have a bucket", () => {
  const values = [-5, Number.NaN, 0, 1e300, Number.POSITIVE_INFINITY];
  expect(values.map(histogramOf).reduce(addHistograms)).toEqual([0, 3, 200, 2]);
  expect(quantile([], 0.5)).toBeNull();
});

test("a row names at most 50 engines and 100 tools, and sums up the others", () => {
  const line = (index: number) => ({
    engines: [{ ...noSum(`engine ${index}`), turns: index === 7 ? 5 : 1, outcomes: oneOutcome("completed") }],
    tools: [
      { ...noToolSum(`${"x".repeat(500)}`), calls: 1 },
      { ...noToolSum(`tool ${index}`), calls: 1 },
    ],
    tenants: [],
  });
  let sum = noRollup;
  for (let index = 0; index < 300; index += 1) sum = addRollups([sum, line(index)]);
  expect(sum.engines).toHaveLength(51);
  expect(sum.engines[0]).toMatchObject({ name: "engine 7", turns: 5 });
  expect(sum.engines.at(-1)?.name).toBe("(other)");
  expect(totalOf(sum).turns).toBe(304);
  expect(sum.tools).toHaveLength(101);
  expect(sum.tools[0]).toMatchObject({ name: "x".repeat(128), calls: 300 });
  expect(sum.tools.reduce((calls, tool) => calls + tool.calls, 0)).toBe(600);
});

test("names such as __proto__ are names", () => {
  const named = (name: string) => ({ ...noRollup, engines: [{ ...noSum(name), turns: 1 }] });
  expect(addRollups([named("__proto__"), named("constructor"), named("__proto__")]).engines).toMatchObject([
    { name: "__proto__", turns: 2 },
    { name: "constructor", turns: 1 },
  ]);
});

test("every outcome has a class", () => {
  expect(outcomeClassOf({ type: "assistant_message", text: "" })).toBe("completed");
  expect(outcomeClassOf({ type: "approval" })).toBe("waiting");
  expect(outcomeClassOf({ type: "budget", budget: "cost" })).toBe("limited");
});
