// The numbers of the context window as the studio shows them.

import type { WindowUse } from "everturn/advanced";

import { expect, test } from "vitest";

import { windowRows, windowText } from "./window-rows.ts";

const use: WindowUse = {
  window: 32_000,
  reserve: 6_400,
  compactAt: 20_480,
  input: { tokens: 12_400, source: "counted" },
  parts: [
    { name: "instructions", tokens: 400, source: "estimated" },
    { name: "tools", tokens: 0, source: "estimated" },
    { name: "summary", tokens: 2_000, source: "estimated" },
    { name: "history", tokens: 4_000, source: "estimated" },
    { name: "results", tokens: 6_000, source: "estimated" },
  ],
  free: { tokens: 13_200, source: "counted" },
};

test("the rows fill the window: the parts, the reserve and what is free", () => {
  const rows = windowRows(use);
  expect(rows.map(({ label }) => label)).toEqual([
    "Instructions",
    "Summary",
    "Messages",
    "Tool results",
    "Free",
    "Reserved for the reply",
  ]);
  expect(rows.reduce((sum, { tokens }) => sum + tokens, 0)).toBe(32_000);
  expect(rows.map(({ source }) => source)).toEqual([...Array(4).fill("estimated"), "counted", null]);
});

test("a request of a model whose window is not known has neither reserve nor free tokens", () => {
  const unknown = { ...use, window: null, reserve: 0, free: null };
  expect(windowRows(unknown).map(({ name }) => name)).toEqual(["instructions", "summary", "history", "results"]);
  expect(windowText(unknown)).toContain("12,400 tokens");
  expect(windowText(use)).toBe("12,400 of 32,000 tokens");
});
