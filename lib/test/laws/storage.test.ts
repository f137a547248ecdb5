// Property tests of stored data (S1), over generated values of every type: serialization is lossless, and parsing never
// throws.

import type { StoredTypes } from "../../src/core/model/internal.ts";
import type { StoredType } from "everturn/advanced";

import { deepStrictEqual } from "node:assert";

import { fromJson, parse, toJson } from "everturn";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { fromTagged, storedTypes, toTagged } from "../../src/core/model/internal.ts";
import { arbitraries, json } from "../arbitraries.ts";

describe.each(storedTypes)("%s", (type) => {
  test("[allm 89] survives serialization with every field", () => {
    fc.assert(fc.property(arbitraries[type], (value) => roundTrip(type, value)));
  });

  test("is unchanged by parse if no field is missing", () => {
    fc.assert(
      fc.property(arbitraries[type], (value) => {
        const parsed = parse(type, value);
        deepStrictEqual(parsed, { ok: true, value });
      }),
    );
  });

  test("with any one value replaced, parse returns a value or a failure and never throws", () => {
    fc.assert(
      fc.property(arbitraries[type], fc.nat(), fc.anything(), (value, place, other) => {
        const damaged = replaceAt(JSON.parse(JSON.stringify(value)), place, other);
        const parsed = parse(type, damaged);
        if (!parsed.ok) expect(parsed.failure.issues.length).toBeGreaterThan(0);
      }),
    );
  });
});

test("parse never throws for any value, for every type", () => {
  fc.assert(
    fc.property(fc.constantFrom(...storedTypes), fc.oneof(json, fc.anything({ withDate: true })), (type, input) => {
      const parsed = parse(type, input);
      expect(parsed.ok ? [] : parsed.failure.type).toEqual(parsed.ok ? [] : "validation_error");
    }),
  );
});

test("[allm 91] fromJson never throws for any text", () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
      const restored = fromJson(text);
      expect(typeof restored.ok).toBe("boolean");
    }),
  );
});

test("[allm 92] data of a newer version or with an unknown tag is returned unchanged", () => {
  fc.assert(
    fc.property(fc.string(), fc.integer({ min: 2, max: 1000 }), json, (type, version, data) => {
      const tagged = { everturn: type, version, data };
      deepStrictEqual(fromTagged(tagged), { ok: true, value: { known: false, type, version, data } });
    }),
  );
});

function roundTrip<K extends StoredType>(type: K, value: StoredTypes[K]): void {
  const before = JSON.stringify(value);
  const text = JSON.stringify(toTagged(type, value));
  deepStrictEqual(text, toJson(type, value));
  deepStrictEqual(fromJson(text), { ok: true, value: { known: true, type, value } });
  deepStrictEqual(fromJson(text, { as: type }), { ok: true, value });
  deepStrictEqual(JSON.stringify(value), before);
}

/** A copy of `value` in which the node with this number, counted depth first, is `other`. */
function replaceAt(value: unknown, place: number, other: unknown): unknown {
  const places = countPlaces(value);
  let left = place % places;
  const walk = (current: unknown): unknown => {
    if (left === 0) {
      left -= 1;
      return other;
    }
    left -= 1;
    if (Array.isArray(current)) return current.map(walk);
    if (typeof current !== "object" || current === null) return current;
    return Object.fromEntries(Object.entries(current).map(([key, item]) => [key, walk(item)]));
  };
  return walk(value);
}

function countPlaces(value: unknown): number {
  if (typeof value !== "object" || value === null) return 1;
  return Object.values(value).reduce<number>((sum, item) => sum + countPlaces(item), 1);
}
