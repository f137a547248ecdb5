import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { arbitraries } from "../../../../test/arbitraries.ts";
import {
  array,
  either,
  eventShape,
  failureShape,
  fallback,
  json,
  jsonObject,
  messageShape,
  nullable,
  number,
  object,
  oneOf,
  pendingToolCallShape,
  read,
  replyShape,
  required,
  sessionShape,
  string,
  suspendedCellShape,
  toolCallShape,
  toolOutcomeShape,
  usageShape,
  variant,
  withoutDefaults,
} from "./reading.ts";

const point = object({ x: fallback(number, 0), label: fallback(nullable(string), null) });
const shape = object({
  name: required(nullable(string)),
  points: fallback(array(point), []),
  only: required(point),
  mode: fallback(oneOf(["fast", "slow"]), "slow"),
  size: fallback(object({ width: required(number), tags: required(array(string)) }), { width: 1, tags: ["a"] }),
  open: fallback(jsonObject, {}),
});
const whole = {
  name: null,
  points: [],
  only: { x: 0, label: null },
  mode: "slow",
  size: { width: 1, tags: ["a"] },
  open: {},
};

describe("withoutDefaults", () => {
  test("leaves out fields that have their default, at any depth, and keeps required ones", () => {
    expect(withoutDefaults(shape, whole)).toEqual({ name: null, only: {} });
    const other = {
      ...whole,
      points: [{ x: 1, label: null }],
      mode: "fast",
      size: { width: 1, tags: ["a", "b"] },
      open: { x: null },
    };
    expect(withoutDefaults(shape, other)).toEqual({
      name: null,
      points: [{ x: 1 }],
      only: {},
      mode: "fast",
      size: { width: 1, tags: ["a", "b"] },
      open: { x: null },
    });
  });

  test("a value that resembles a default stays", () => {
    const any = object({
      value: fallback(json, null),
      count: fallback(json, 0),
      list: fallback(json, []),
      table: fallback(json, {}),
    });
    for (const value of [
      { value: false, count: "", list: {}, table: [] },
      { value: 0, count: null, list: [null], table: { a: 1 } },
    ]) {
      expect(withoutDefaults(any, value)).toEqual(value);
    }
  });

  test("members of a union are shortened by their word or by what tells them apart", () => {
    const union = variant("type", { spot: { at: required(point) }, none: {} });
    expect(withoutDefaults(union, { type: "spot", at: { x: 0, label: "a" } })).toEqual({
      type: "spot",
      at: { label: "a" },
    });
    expect(withoutDefaults(union, { type: "none" })).toEqual({ type: "none" });
    const textOrPoint = either((input) => typeof input === "string", string, point);
    expect(withoutDefaults(textOrPoint, "a")).toBe("a");
    expect(withoutDefaults(textOrPoint, { x: 0, label: null })).toEqual({});
  });

  test("what the shape does not know stays, so the value is refused as before", () => {
    const unknown = { ...whole, other: null };
    expect(read(shape, withoutDefaults(shape, unknown))).toMatchObject({ issues: [{ code: "unknown_field" }] });
    const prototype: unknown = JSON.parse('{"x":0,"__proto__":{"y":1}}');
    expect(withoutDefaults(point, prototype)).toBe(prototype);
    expect(withoutDefaults(shape, { ...whole, only: null })).toEqual({ name: null, only: null });
    for (const value of [null, "text", [1], undefined]) expect(withoutDefaults(shape, value)).toBe(value);
  });

  test("does not change the value, and shares no mutable default", () => {
    const before = structuredClone(whole);
    withoutDefaults(shape, whole);
    expect(whole).toEqual(before);
  });

  const stored = {
    event: [eventShape, arbitraries.event],
    failure: [failureShape, arbitraries.failure],
    message: [messageShape, arbitraries.message],
    pending_tool_call: [pendingToolCallShape, arbitraries.pending_tool_call],
    reply: [replyShape, arbitraries.reply],
    session: [sessionShape, arbitraries.session],
    suspended_cell: [suspendedCellShape, arbitraries.suspended_cell],
    tool_call: [toolCallShape, arbitraries.tool_call],
    tool_outcome: [toolOutcomeShape, arbitraries.tool_outcome],
    usage: [usageShape, arbitraries.usage],
  } as const;

  test.each(Object.entries(stored))("%s is read back equal from its shortened text", (_, [ofType, values]) => {
    let [full, short] = [0, 0];
    fc.assert(
      fc.property<[unknown]>(values, (value) => {
        const [fullText, shortText] = [JSON.stringify(value), JSON.stringify(withoutDefaults(ofType, value))];
        full += fullText.length;
        short += shortText.length;
        expect(read<unknown>(ofType, JSON.parse(shortText))).toEqual(read<unknown>(ofType, JSON.parse(fullText)));
      }),
      { numRuns: 200 },
    );
    expect(short).toBeLessThan(full);
  });
});
