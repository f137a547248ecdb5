// Slots and scopes of limits: which numbers are free, also after a limit was lowered, and which limits apply to a turn.

import type { SlotSet } from "./limits.ts";
import type { Row } from "./storage.ts";

import { assert, integer, nat, property, uniqueArray } from "fast-check";
import { describe, expect, test } from "vitest";

import { limitOf, scopeParts, sampleOf, scopesOf, slotPut, slotQueries, slotState } from "./limits.ts";

const key = { tenant: "acme", session: "s" };
const set = (size: number, perMs: number | null = null): SlotSet => ({
  scope: "tenant:acme",
  kind: perMs === null ? "concurrency" : "rate",
  size,
  perMs,
});

/** The row of a taken slot. */
function row(slots: SlotSet, number: number, { turn = `t${number}`, remainingMs = slots.perMs } = {}): Row {
  const { key: at, tag, value } = slotPut(slots, number, key, turn);
  return { key: at, tag, expires: remainingMs === null ? null : 1000 + remainingMs, remainingMs, value };
}

describe("slots", () => {
  test("are free if they have no row, have expired, or belong to the turn that ends in the same batch", () => {
    const slots = set(3);
    const rows = [row(slots, 0), row(slots, 2)];
    expect(slotState(slots, rows, {})).toMatchObject({ free: 1, freeInMs: null });
    expect(slotState(slots, rows, {}).choices(9)).toEqual([
      { number: 1, check: { table: "slots", key: ["tenant:acme", "concurrency", 1], tag: null } },
    ]);
    const replaced = slotState(slots, rows, { replaces: "t2" }).choices(9);
    expect(replaced.map(({ number, check }) => [number, check.tag])).toEqual([
      [1, null],
      [2, rows[1]?.tag],
    ]);
    const rate = set(2, 500);
    const taken = [row(rate, 0, { remainingMs: 300 }), row(rate, 1, { remainingMs: 120 })];
    expect(slotState(rate, taken, {})).toMatchObject({ free: 0, freeInMs: 120 });
    const expired = slotState(rate, [row(rate, 0, { remainingMs: 300 }), row(rate, 1, { remainingMs: 0 })], {});
    expect(expired.choices(9).map(({ number, check }) => [number, check.expires])).toEqual([[1, 1000]]);
  });

  test("above a lowered limit make as many lower ones unusable, so that the limit is never exceeded", () => {
    assert(
      property(integer({ min: 1, max: 12 }), uniqueArray(nat({ max: 20 })), (size, numbers) => {
        const slots = set(size);
        const state = slotState(
          slots,
          numbers.map((number) => row(slots, number)),
          {},
        );
        const choices = state.choices(100).map(({ number }) => number);
        expect(choices).toHaveLength(state.free);
        expect(choices.every((number) => number < size && !numbers.includes(number))).toBe(true);
        // Claims that have read the same rows may take all of these numbers.
        expect(numbers.length + choices.length).toBeLessThanOrEqual(Math.max(size, numbers.length));
      }),
    );
  });

  test("of a large limit are read as a sample and the rows above the limit", () => {
    expect(sampleOf(set(64), () => 0.5)).toBe(null);
    const large = set(1000);
    const values = [0.1, 0.2, 0.1, 0.9];
    let next = 0;
    const sample = sampleOf(large, () => values[next++ % values.length] ?? 0) ?? [];
    expect(sample).toEqual([100, 200, 900]);
    expect(slotQueries(large, sample)).toEqual([
      { table: "slots", prefix: ["tenant:acme", "concurrency"], after: 999 },
      ...sample.map((number) => ({ table: "slots", prefix: ["tenant:acme", "concurrency", number] })),
    ]);
    const state = slotState(large, [row(large, 200)], { sample });
    expect(state.choices(9).map(({ number }) => number)).toEqual([100, 900]);
    // After the limit was lowered, the sample is not enough.
    expect(slotState(large, [row(large, 1000)], { sample }).free).toBe(0);
  });
});

describe("the scopes of a turn", () => {
  const one = { concurrency: 1 };

  test("are those that have a limit, the narrowest first", () => {
    const subject = { engine: "e", tenant: "acme", limitKey: "ann" };
    expect(scopesOf(null, subject)).toEqual([]);
    expect(scopesOf({}, subject)).toEqual([]);
    const limits = { engines: { e: one, other: one }, perTenant: one, perLimitKey: one };
    expect(scopesOf(limits, subject).map(({ scope }) => scope)).toEqual([
      'key:["acme","ann"]',
      "tenant:acme",
      "engine:e",
    ]);
    expect(scopesOf(limits, { ...subject, engine: "x", limitKey: null }).map(({ scope }) => scope)).toEqual([
      "tenant:acme",
    ]);
  });

  test("have the limit of their name, which replaces the general one", () => {
    const two = { concurrency: 2 };
    const limits = { perTenant: one, tenants: { acme: two, free: {} }, perLimitKey: one, limitKeys: { ann: two } };
    expect(limitOf(limits, "tenant:acme")).toBe(two);
    expect(limitOf(limits, "tenant:free")).toBe(null);
    expect(limitOf(limits, "tenant:constructor")).toBe(one);
    expect(limitOf(limits, 'key:["a:b","ann"]')).toBe(two);
    expect(limitOf(limits, 'key:["a:b","bob"]')).toBe(one);
    expect(limitOf(limits, "engine:e")).toBe(null);
    expect(scopeParts("tenant:a:b")).toEqual({ kind: "tenant", name: "a:b" });
  });
});
