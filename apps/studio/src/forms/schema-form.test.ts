import type { JsonObject } from "everturn";

import { expect, test } from "vitest";

import {
  fieldsOf,
  fieldsOfValue,
  isSameJson,
  listFrom,
  longTextOf,
  numberFrom,
  problemOf,
  withField,
} from "./schema-form.ts";

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

test("arguments that the schema does not name are marked, at every level", () => {
  const fields = fieldsOf(refund, { surprise: 1, address: { city: "Lisbon", payTo: "ATTACKER" } }) ?? [];
  const address = fields.find(({ name }) => name === "address");
  expect(address?.kind.type === "object" ? address.kind.fields : []).toMatchObject([
    { name: "city", isInSchema: true },
    { name: "payTo", isInSchema: false, kind: { type: "json" } },
  ]);
  expect(fields.at(-1)).toMatchObject({ name: "surprise", isInSchema: false });
  // Names of the prototype are no fields of a schema.
  expect(fieldsOf(refund, { constructor: 1 })?.at(-1)).toMatchObject({ name: "constructor", isInSchema: false });
});

test.each([
  ["amount", "189"],
  ["amount", null],
  ["to", "cash"],
  ["notify", "true"],
  ["notify", null],
  ["tags", "one"],
  ["tags", ["one\ntwo"]],
  ["tags", ["one\u202Etwo"]],
  ["tags", ["one", ""]],
  ["tags", [1]],
  ["address", "Lisbon"],
  ["address", []],
] as const)("a value that the input of %s would show as another one is edited as JSON: %j", (name, value) => {
  const field = fieldsOf(refund, { [name]: value })?.find((other) => other.name === name);
  expect(field?.kind).toEqual({ type: "json" });
});

test("an enumeration whose options look alike is edited as JSON", () => {
  const schema = { type: "object", properties: { size: { enum: [1, "1"] } } };
  expect(fieldsOf(schema, {})?.[0]?.kind).toEqual({ type: "json" });
});

test("fields of nested objects count", () => {
  const many = Object.fromEntries(Array.from({ length: 60 }, (_, index) => [`extra${index}`, index]));
  expect(fieldsOf(refund, { address: { city: "Lisbon", ...many } })).toBeNull();
});

test("the fields of a value without a schema are all its fields", () => {
  expect(fieldsOfValue({ a: 1, b: { c: 2 } })).toMatchObject([
    { name: "a", isInSchema: null, kind: { type: "json" } },
    { name: "b", isInSchema: null, kind: { type: "json" } },
  ]);
});

test("texts of more than 30 rows or 3,000 characters are long, and say how long", () => {
  const rows = (count: number) => Array.from({ length: count }, (_, index) => `row ${index}`).join("\n");
  expect(longTextOf(rows(30))).toBeNull();
  expect(longTextOf(rows(87))).toEqual({ head: rows(30), missing: "57 of 87 rows", size: "87 rows" });
  expect(longTextOf("x".repeat(3000))).toBeNull();
  expect(longTextOf("x".repeat(12_345))).toEqual({
    head: "x".repeat(3000),
    missing: "9,345 of 12,345 characters",
    size: "12,345 characters",
  });
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
  const scores = { type: "object", properties: { scores: { type: "array", items: { type: "number" } } } };
  const [field] = fieldsOf(scores, {}) ?? [];
  expect(field === undefined ? null : problemOf(field, [1, "two"])).toBe("line 2 must be a number");
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
