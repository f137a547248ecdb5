// The guard that codecs ask of every frame agrees with the reader that stored events go through.

import type { Json } from "./json.ts";

import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { isEvent } from "../turn/event-shape.ts";
import { isStorableJson, withFiniteNumbers } from "./storable-json.ts";

/** JSON as `JSON.parse` gives it: also with numbers that are not finite. */
function parsed(text: string): Json {
  const value: Json = JSON.parse(text);
  return value;
}

const nested = (levels: number, inside = "1") =>
  parsed(`${'{"a":['.repeat(levels / 2)}${inside}${"]}".repeat(levels / 2)}`);

function canBeStored(chunk: Json): boolean {
  return isEvent({ type: "raw_chunk", chunk });
}

describe("what can be stored", () => {
  test("any JSON: the guard says what the reader of events says", () => {
    const leaf = fc.oneof(fc.string(), fc.integer(), fc.boolean(), fc.constant(null), fc.constant(Infinity));
    const { tree } = fc.letrec<{ tree: Json }>((tie) => ({
      tree: fc.oneof(
        { depthSize: "small" },
        leaf,
        fc.array(tie("tree")),
        fc.dictionary(fc.oneof(fc.string(), fc.constant("__proto__")), tie("tree")),
      ),
    }));
    fc.assert(
      fc.property(tree, (value) => {
        expect(isStorableJson(value)).toBe(canBeStored(value));
      }),
    );
  });

  test.each([2, 126, 128, 130, 10_000])("nested %i levels deep", (levels) => {
    expect(isStorableJson(nested(levels))).toBe(levels <= 128);
    expect(canBeStored(nested(levels))).toBe(levels <= 128);
    expect(isStorableJson(nested(levels), 126)).toBe(levels <= 126);
  });

  test.each([1_999_998, 1_999_999])("a list of %i values", (length) => {
    const list = Array<Json>(length).fill(null);
    expect(isStorableJson(list)).toBe(canBeStored(list));
    expect(isStorableJson(list)).toBe(length === 1_999_998);
  });
});

describe("numbers without end", () => {
  test("become null; a value without them is the same value", () => {
    const fine = parsed('{"a":[1,{"b":"x"}],"__proto__":2}');
    expect(withFiniteNumbers(fine, 100)).toBe(fine);
    expect(withFiniteNumbers(parsed('{"a":[1e999,{"__proto__":-1e999}],"b":2}'), 100)).toEqual(
      parsed('{"a":[null,{"__proto__":null}],"b":2}'),
    );
  });

  test("are no reason to follow a value deeper than the limit", () => {
    expect(withFiniteNumbers(nested(100, "1e999"), 100)).toEqual(nested(100, "null"));
    expect(withFiniteNumbers(nested(102, "1e999"), 100)).toBeUndefined();
    expect(withFiniteNumbers(nested(20_000), 100)).toBeUndefined();
  });
});
