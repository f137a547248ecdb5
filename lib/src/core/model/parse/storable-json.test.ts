// isStorableJson, which codecs call for every frame, must agree with the shape that reads stored events.

import type { Json } from "./json.ts";

import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { isEvent } from "../turn/event.ts";
import { isCredential } from "./credential.ts";
import { withFiniteNumbers } from "./finite-numbers.ts";
import { json, read, settings } from "./shape.ts";
import { isStorableJson, storableCopy } from "./storable-json.ts";

/** Values that `JSON.parse` can return, including infinite numbers. */
function parsed(text: string): Json {
  const value: Json = JSON.parse(text);
  return value;
}

const nested = (levels: number, inside = "1") =>
  parsed(`${'{"a":['.repeat(levels / 2)}${inside}${"]}".repeat(levels / 2)}`);

function canBeStored(chunk: Json): boolean {
  return isEvent({ type: "raw_chunk", chunk });
}

describe("isStorableJson", () => {
  test("agrees with the shape of events for any JSON", () => {
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

describe("withFiniteNumbers", () => {
  test("replaces infinite numbers by null and returns other values unchanged", () => {
    const fine = parsed('{"a":[1,{"b":"x"}],"__proto__":2}');
    expect(withFiniteNumbers(fine, 100)).toBe(fine);
    expect(withFiniteNumbers(parsed('{"a":[1e999,{"__proto__":-1e999}],"b":2}'), 100)).toEqual(
      parsed('{"a":[null,{"__proto__":null}],"b":2}'),
    );
  });

  test("does not recurse beyond the limit", () => {
    expect(withFiniteNumbers(nested(100, "1e999"), 100)).toEqual(nested(100, "null"));
    expect(withFiniteNumbers(nested(102, "1e999"), 100)).toBeUndefined();
    expect(withFiniteNumbers(nested(20_000), 100)).toBeUndefined();
  });
});

describe("storableCopy", () => {
  const anything = fc.anything({
    key: fc.oneof(fc.string(), fc.constantFrom("__proto__", "constructor", "apiKey")),
    values: [fc.string(), fc.constant("Bearer 0123456789"), fc.double(), fc.constant(undefined), fc.boolean()],
    withDate: true,
    withMap: true,
    withSparseArray: true,
    withNullPrototype: true,
  });

  // Not `toStrictEqual`: it compares the field `constructor` of objects, which is data here.
  test("copies what the shape of open JSON reads, and nothing else", () => {
    fc.assert(
      fc.property(anything, (value) => {
        const result = read(json, value);
        expect(storableCopy(value)).toEqual("value" in result ? result.value : undefined);
      }),
    );
  });

  test("copies what the shape of settings reads if credentials are refused", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.oneof(fc.string(), fc.constant("x-api-key")), anything), (value) => {
        const result = read(settings, value);
        expect(storableCopy(value, isCredential)).toEqual("value" in result ? result.value : undefined);
      }),
    );
  });

  test("has the limits of the shape, and ends for a value that contains itself", () => {
    const cyclic: { [key: string]: unknown } = {};
    Object.assign(cyclic, { first: cyclic, second: [cyclic] });
    expect(storableCopy(cyclic)).toBeUndefined();
    expect(storableCopy(nested(128))).toEqual(nested(128));
    expect(storableCopy([nested(128)])).toBeUndefined();
  });
});
