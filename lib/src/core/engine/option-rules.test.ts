// What the errors of options say about a wrong value.

import { expect, test } from "vitest";

import { atLeastOne, checkOptions, oneOf, positive } from "./option-rules.ts";

const rules = { timeoutMs: positive, maxTurns: atLeastOne, mode: oneOf(["fast", "slow"]) };

test.each([
  [{ timeoutMs: "5" }, 'timeoutMs must be a number greater than 0, not "5"'],
  [{ timeoutMs: Number.NaN }, "timeoutMs must be a number greater than 0, not NaN"],
  [{ maxTurns: 1.5 }, "maxTurns must be a whole number of 1 or more, not 1.5"],
  [{ maxTurns: Object.create(null) }, "maxTurns must be a whole number of 1 or more, not an object"],
  [{ maxTurns: () => 5 }, "maxTurns must be a whole number of 1 or more, not a function"],
  [{ mode: "quick" }, 'mode must be "fast" or "slow", not "quick"'],
  [{ mode: ["fast"] }, 'mode must be "fast" or "slow", not an array'],
])("%o", (options, message) => {
  expect(() => checkOptions("f", options, rules)).toThrow(`f: ${message}`);
});
