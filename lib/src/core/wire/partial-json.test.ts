import type { Json } from "everturn";

import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { PartialJson } from "./partial-json.ts";

const read = (...pieces: readonly string[]): Json | undefined => {
  const json = new PartialJson();
  for (const piece of pieces) json.push(piece);
  return json.value;
};

describe("PartialJson", () => {
  test.each<[string, Json | undefined]>([
    ["", undefined],
    ["{", {}],
    ['{"a', {}],
    ['{"a":', {}],
    ['{"a": "x', { a: "x" }],
    ['{"a": "x\\', { a: "x" }],
    ['{"a": "x\\u00', { a: "x" }],
    ['{"a": "x\\u00e9', { a: "xé" }],
    ['{"a": 12', {}],
    ['{"a": 12,', { a: 12 }],
    ['{"a": [1, {"b": tru', { a: [1, {}] }],
    ['{"a": [1, {"b": true}', { a: [1, { b: true }] }],
    ['["a", "b', ["a", "b"]],
    ['"text', "text"],
  ])("%s", (text, value) => {
    expect(read(text)).toEqual(value);
  });

  test("gives the value of JSON.parse at the end, whatever the cuts", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.array(fc.nat(300)), (value, cuts) => {
        const text = `${JSON.stringify(value)} `;
        const at = [...new Set([0, ...cuts.map((cut) => cut % (text.length + 1)), text.length])].sort((a, b) => a - b);
        const parsed: Json = JSON.parse(text);
        expect(read(...at.slice(1).map((end, index) => text.slice(at[index], end)))).toEqual(parsed);
      }),
      { numRuns: 500 },
    );
  });

  test("stops at invalid JSON, and reads __proto__ as a field", () => {
    expect(read('{"a": 1, "b": oops, "c": 2}')).toEqual({ a: 1 });
    expect(Object.keys(Object(read('{"__proto__": 1}')))).toEqual(["__proto__"]);
  });

  test("parses a megabyte in linear time, in small pieces too", () => {
    const text = JSON.stringify({ text: "x".repeat(1_000_000) });
    const json = new PartialJson();
    const began = performance.now();
    for (let at = 0; at < text.length; at += 8) json.push(text.slice(at, at + 8));
    expect(json.isDone).toBe(true);
    expect(performance.now() - began).toBeLessThan(3000);
  });
});
