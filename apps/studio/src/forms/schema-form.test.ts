import type { JsonObject } from "everturn/model";

import { expect, test } from "vitest";

import { fieldsOf, isSameJson, listFrom, numberFrom, problemOf, withField } from "./schema-form.ts";

const refund: JsonObject = {
  type: "object",
  required: ["amount", "to"],
  properties: {
    amount: { type: "number", minimum: 0, maximum: 500, description: "In euros." },
    to: { enum: ["card", "store_credit"] },
    notify: { type: "boolean" },
    count: { type: "integer" },
    tags: { type: "array", items: { type: "string" } },
    address: { $ref: "#/$defs/Address" },
    either: { anyOf: [{ type: "string" }, { type: "number" }] },
  },
  $defs: { Address: { type: "object", required: ["city"], properties: { city: { type: "string", maxLength: 40 } } } },
};

test("a schema becomes fields by their types", () => {
  const fields = fieldsOf(refund, {});
  expect(fields?.map(({ name, kind }) => [name, kind.type])).toEqual([
    ["amount", "number"],
    ["to", "enum"],
    ["notify", "boolean"],
    ["count", "number"],
    ["tags", "list"],
    ["address", "object"],
    ["either", "json"],
  ]);
  expect(fields?.[0]).toMatchObject({ isRequired: true, description: "In euros." });
});

test("arguments that the schema does not name stay in the form", () => {
  expect(fieldsOf(refund, { surprise: 1 })?.at(-1)).toMatchObject({ name: "surprise", kind: { type: "json" } });
});

test("a schema without properties has no form", () => {
  expect(fieldsOf({ type: "object" }, {})).toBeNull();
  expect(fieldsOf("anything", {})).toBeNull();
});

test("problems name the limit", () => {
  const fields = fieldsOf(refund, {}) ?? [];
  const problem = (name: string, value: Parameters<typeof problemOf>[1]) => {
    const field = fields.find((other) => other.name === name);
    return field === undefined ? "no such field" : problemOf(field, value);
  };
  expect(problem("amount", 189)).toBeNull();
  expect(problem("amount", 501)).toBe("must be at most 500");
  expect(problem("amount", "12,5")).toBe("must be a number");
  expect(problem("amount", undefined)).toBe("is required");
  expect(problem("count", 1.5)).toBe("must be a whole number");
  expect(problem("address", {})).toBe("city is required");
  expect(problem("notify", undefined)).toBeNull();
});

test("typed texts become values", () => {
  expect(numberFrom("150.00")).toBe(150);
  expect(numberFrom("")).toBeUndefined();
  expect(numberFrom("1e999")).toBe("1e999");
  expect(listFrom("a\nb\n", "string")).toEqual(["a", "b"]);
  expect(listFrom("1\n2", "integer")).toEqual([1, 2]);
});

test("a field is set in its place or removed, and never reaches the prototype", () => {
  expect(Object.keys(withField({ a: 1, b: 2 }, "a", 3))).toEqual(["a", "b"]);
  expect(withField({ a: 1, b: 2 }, "a", undefined)).toEqual({ b: 2 });
  const polluted = withField({}, "__proto__", { isAdmin: true });
  expect(Object.hasOwn(polluted, "__proto__")).toBe(true);
  expect(Reflect.get({}, "isAdmin")).toBeUndefined();
});

test("values are compared whatever the order of their fields", () => {
  expect(isSameJson({ a: [1, { b: 2 }], c: null }, { c: null, a: [1, { b: 2 }] })).toBe(true);
  expect(isSameJson({ a: 1 }, { a: 1, b: 2 })).toBe(false);
  expect(isSameJson([1, 2], [2, 1])).toBe(false);
});
