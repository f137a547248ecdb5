// The canonical text of a JSON value: it is part of stored digests, so it never changes.

import type { Json } from "./json.ts";

import * as fc from "fast-check";
import { expect, test } from "vitest";

import { canonicalJson } from "./canonical-json.ts";

/** The definition: keys in the order of their UTF-16 code units, no white space, absent values as `null`. */
function defined(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(defined).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const entries = Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1));
  return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${defined(item ?? null)}`).join(",")}}`;
}

const keys = fc.oneof(fc.string(), fc.constantFrom("1", "10", "2", "02", "-1", "__proto__", "toJSON", "é", "\ud800"));

test("the text follows the definition for every value, also with keys that objects reorder or hide", () => {
  const { value: values } = fc.letrec<{ value: Json }>((tie) => ({
    value: fc.oneof(
      { depthSize: "small" },
      fc.constantFrom(null, true, 0, -0, 1.5, 1e21, "", "a\u2028\ud800"),
      fc.array(tie("value"), { maxLength: 4 }),
      fc.dictionary(keys, tie("value"), { maxKeys: 5, noNullPrototype: true }),
    ),
  }));
  fc.assert(
    fc.property(values, (value) => {
      expect(canonicalJson(value)).toBe(defined(value));
    }),
  );
});

test("keys that look like integers are in the order of texts", () => {
  const value: Json = JSON.parse('{"b":{"10":1,"9":2},"__proto__":[{"2":3,"10":4}],"a":null}');
  expect(canonicalJson(value)).toBe('{"__proto__":[{"10":4,"2":3}],"a":null,"b":{"10":1,"9":2}}');
});
