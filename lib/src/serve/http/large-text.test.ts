// Large responses are rendered in slices, and the slices are the JSON of the whole value.

import type { LargeText } from "./large-text.ts";

import { describe, expect, test } from "vitest";

import { redactedJson, redactedText } from "./failure.ts";
import { sliceLength } from "./large-text.ts";

function slicesOf(text: string | LargeText): readonly string[] {
  if (typeof text === "string") throw new Error("the text is not large");
  const slices: string[] = [];
  for (let slice = text.next(); slice !== null; slice = text.next()) slices.push(slice);
  return slices;
}

describe("a value with long strings", () => {
  test.each([
    ["plain text", "x".repeat(1_000_000)],
    ["text with escapes", 'a"\\\n\u0000\u2028'.repeat(50_000)],
    ["surrogate pairs at every boundary", `x${"😀".repeat(200_000)}`],
    ["surrogate pairs at the other boundary", "😀".repeat(200_000)],
    ["lone surrogates", `${"\ud83d".repeat(70_000)}${"\ude00".repeat(70_000)}`],
  ])("is the same JSON in slices: %s", (_, long) => {
    const value = { text: long, list: [1, { deep: long, short: "s" }], none: null, last: `${long}!` };
    const slices = slicesOf(redactedText(value));
    expect(JSON.parse(slices.join(""))).toEqual(value);
    // A character is at most six in JSON.
    expect(Math.max(...slices.map(({ length }) => length))).toBeLessThanOrEqual(6 * sliceLength + 6);
    const encoder = new TextEncoder();
    const decoded = slices.map((slice) => new TextDecoder().decode(encoder.encode(slice))).join("");
    expect(JSON.parse(decoded)).toEqual(JSON.parse(new TextDecoder().decode(encoder.encode(JSON.stringify(value)))));
  });

  test("is redacted like other values", () => {
    const cause = "at db.internal";
    const failure = { type: "provider_error", reason: "unknown", message: `x${cause}`, cause, raw: { cause } };
    const value = { failure, text: "x".repeat(100_000) };
    expect(slicesOf(redactedText(value)).join("")).toBe(redactedJson(value));
  });

  test("is rendered as far as it was taken", () => {
    const text = redactedText({ text: "x".repeat(200_000) });
    if (typeof text === "string") throw new Error("the text is not large");
    const { length } = text;
    expect(text.next()?.length).toBe(sliceLength);
    expect(text.length).toBe(length - sliceLength);
  });
});

test("a value without long strings is a string", () => {
  expect(redactedText({ a: ["x".repeat(sliceLength)] })).toBe(JSON.stringify({ a: ["x".repeat(sliceLength)] }));
});
