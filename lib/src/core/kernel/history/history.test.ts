import type { Json } from "everturn";

import { assistant, user } from "everturn";
import { historyMessages } from "everturn/advanced";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { arbitraries, json } from "../../../../test/arbitraries.ts";
import { canonicalJson } from "../internal.ts";
import { appendHistory, startHistory } from "./history.ts";

const message = arbitraries.message;

describe("a history", () => {
  test("does not change when others append to it", () => {
    fc.assert(
      fc.property(fc.array(message), fc.array(message), fc.array(message), (first, left, right) => {
        const start = startHistory(first);
        const one = appendHistory(start, left);
        const other = appendHistory(start, right);
        expect(historyMessages(start)).toEqual(first);
        expect(historyMessages(one)).toEqual([...first, ...left]);
        expect(historyMessages(other)).toEqual([...first, ...right]);
      }),
    );
  });

  test("K3: behaves the same after a JSON round trip", () => {
    fc.assert(
      fc.property(fc.array(message), fc.array(message), (first, more) => {
        const kept = startHistory(first);
        const restored = JSON.parse(JSON.stringify(kept));
        expect(historyMessages(appendHistory(restored, more))).toEqual(historyMessages(appendHistory(kept, more)));
        expect(appendHistory(restored, more).digest).toBe(appendHistory(kept, more).digest);
      }),
    );
  });

  test("has a digest of its content: the same however it was appended, different for other content", () => {
    fc.assert(
      fc.property(fc.array(message, { minLength: 1 }), fc.nat(), (messages, cut) => {
        const at = cut % messages.length;
        const pieces = appendHistory(startHistory(messages.slice(0, at)), messages.slice(at));
        expect(pieces.digest).toBe(startHistory(messages).digest);
        expect(startHistory(messages.slice(0, -1)).digest).not.toBe(pieces.digest);
        expect(startHistory([...messages, user("more")]).digest).not.toBe(pieces.digest);
      }),
    );
    expect(startHistory([user("a"), user("b")]).digest).not.toBe(startHistory([user("b"), user("a")]).digest);
  });

  test("has the same digest whatever the key order of its messages", () => {
    const plain = user("hi", { metadata: { a: 1, b: 2 } });
    const turned = { ...plain, metadata: { b: 2, a: 1 } };
    expect(startHistory([turned]).digest).toBe(startHistory([plain]).digest);
  });

  test("a hundred thousand conversations have different digests", () => {
    const digests = new Set(Array.from({ length: 100_000 }, (_, index) => startHistory([user(`${index}`)]).digest));
    expect(digests.size).toBe(100_000);
  });

  test("can be built over a frozen array and over an array of the caller", () => {
    const frozen = Object.freeze({ ...startHistory([user("a")]), entries: Object.freeze([user("a")]) });
    const grown = appendHistory(frozen, [assistant("b")]);
    expect(historyMessages(grown)).toHaveLength(2);
    expect(frozen.entries).toHaveLength(1);
  });

  test("shares its array with the history it grew from, and is stored without later messages", () => {
    const start = startHistory([user("a")]);
    const grown = appendHistory(start, [user("b")]);
    expect(grown.entries).toBe(start.entries);
    expect(historyMessages(start)).toEqual([user("a")]);
    expect(appendHistory(start, [])).toBe(start);
  });

  test("copies a frozen array instead of writing to it", () => {
    const start = startHistory([user("a")]);
    Object.freeze(start.entries);
    expect(historyMessages(appendHistory(start, [user("b")]))).toEqual([user("a"), user("b")]);
    expect(historyMessages(start)).toEqual([user("a")]);
  });
});

describe("canonical JSON", () => {
  test("parses back to the same value, whatever the key order", () => {
    fc.assert(
      fc.property(json, (value) => {
        expect(JSON.parse(canonicalJson(value))).toEqual(value);
        expect(canonicalJson(shuffled(value))).toBe(canonicalJson(value));
      }),
    );
  });

  test("orders keys by UTF-16 code units and writes numbers as JSON does", () => {
    expect(canonicalJson({ "€": 1, "\r": 2, "1": 3, "😂": 4, ö: 5 })).toBe('{"\\r":2,"1":3,"ö":5,"€":1,"😂":4}');
    expect(canonicalJson([1e21, 1e-7, 0.1, 100])).toBe("[1e+21,1e-7,0.1,100]");
  });
});

/** A copy of the value with the keys in reverse order. */
function shuffled(value: Json): Json {
  if (value === null || typeof value !== "object") return value;
  if (isList(value)) return value.map(shuffled);
  const entries = Object.entries(value).toReversed();
  return Object.fromEntries(entries.map(([key, item]): [string, Json] => [key, shuffled(item)]));
}

function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value);
}
