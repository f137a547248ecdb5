import { describe, expect, test } from "vitest";

import { read } from "../../core/model/parse/reading.ts";
import { callerSchemaShape, validatedSchema } from "./caller-schema.ts";

function nested(levels: number): object {
  let schema: object = { type: "string" };
  for (let n = 0; n < levels; n += 1) schema = { items: schema };
  return schema;
}

/** Each definition applies the next one twice. */
function doubling(levels: number): object {
  const definitions = Array.from({ length: levels }, (_, n) => [
    `d${n}`,
    { allOf: [{ $ref: `#/$defs/d${n + 1}` }, { $ref: `#/$defs/d${n + 1}` }] },
  ]);
  return { $ref: "#/$defs/d0", $defs: { ...Object.fromEntries(definitions), [`d${levels}`]: { type: "string" } } };
}

const issueOf = (shape: typeof callerSchemaShape, schema: unknown): string | null => {
  const result = read(shape, schema);
  return "issues" in result ? (result.issues[0]?.message ?? "") : null;
};

const ordinary = {
  type: "object",
  properties: {
    pattern: { type: "string", minLength: 1 },
    tags: { type: "array", minItems: 3, items: { $ref: "#/$defs/tag" } },
    other: { anyOf: [{ $ref: "#/$defs/tag" }, { type: "null" }] },
  },
  required: ["pattern"],
  $defs: { tag: { type: "string", enum: ["a", "b"] } },
};

describe.each([
  ["a schema that is passed on", callerSchemaShape],
  ["a schema that is validated", validatedSchema.shape],
] as const)("%s", (_, shape) => {
  test("may be an ordinary schema", () => {
    expect(issueOf(shape, ordinary)).toBeNull();
    expect(issueOf(shape, nested(30))).toBeNull();
  });

  test.each([
    [{ type: "array", minItems: 200_000_000, items: { type: "string" } }, "a minItems of more than 1000000"],
    [{ properties: { text: { minLength: 1e9 } } }, "a minLength of more than 1000000"],
    [{ anyOf: [{ minProperties: 1e12 }] }, "a minProperties of more than 1000000"],
    [nested(100), "nested more than 64 levels deep"],
    [{ enum: Array.from({ length: 6000 }, () => []) }, "more than 5000 objects and lists"],
  ])("is bounded: %#", (schema, message) => {
    expect(issueOf(shape, schema)).toContain(message);
  });
});

const manySchemas = Array.from({ length: 20 }, () => ({ type: "string" }));

describe("a schema that is validated", () => {
  test("may have many properties, each with its own schema, and deep lists", () => {
    const property = { type: "array", items: { anyOf: manySchemas }, description: "x".repeat(1000) };
    const properties = Object.fromEntries(Array.from({ length: 150 }, (_, n) => [`p${n}`, property]));
    expect(issueOf(validatedSchema.shape, { type: "object", properties, required: ["p1"] })).toBeNull();
    const countries = Array.from({ length: 250 }, (_, n) => `Country of number ${n}`);
    expect(issueOf(validatedSchema.shape, { type: "array", items: { enum: countries } })).toBeNull();
  });

  test.each([
    { items: 5 },
    { anyOf: 3 },
    { allOf: {} },
    { allOf: [1] },
    { required: "abc" },
    { required: [1] },
    { enum: 7 },
    { dependentRequired: { a: 5 } },
    { dependentSchemas: 7 },
    { maxLength: "x" },
    { multipleOf: 0 },
    { format: 9 },
    { not: 3 },
    { properties: null },
    { properties: { a: "string" } },
    { $ref: 5 },
  ])("has no value that the validator does not expect: %j", (schema) => {
    expect(issueOf(validatedSchema.shape, schema)).toMatch(/invalid value|neither an object nor a boolean/);
  });

  test.each([
    [{ type: "string", pattern: "(a+)+$" }, "uses pattern"],
    [{ properties: { x: { patternProperties: { "(a+)+$": {} } } } }, "uses patternProperties"],
    [{ type: "array", uniqueItems: true }, "uses uniqueItems"],
    [{ properties: { next: { $ref: "#" } } }, "or is recursive"],
    [doubling(30), "more than 5000 subschemas"],
    [{ $ref: "https://example.com/schema" }, "not a JSON pointer"],
    [{ $dynamicRef: "#a" }, "uses $dynamicRef"],
    [{ $defs: { a: { $id: "https://example.com/" } } }, "uses $id"],
    [{ other: { $anchor: "a" } }, "uses $anchor"],
    [{ $ref: "#/$defs/a", __absolute_ref__: "#", $defs: { a: {} } }, "uses __absolute_ref__"],
    [{ items: { required: Array.from({ length: 300 }, (_, n) => `name${n}`) } }, "more than 60"],
    [{ items: { enum: Array.from({ length: 3000 }, (_, n) => `name${n}`) } }, "more than 60"],
    [{ items: { anyOf: Array.from({ length: 300 }, (_, n) => ({ const: n })) } }, "more than 60"],
    [{ items: { allOf: Array.from({ length: 20 }, () => ({ items: { anyOf: manySchemas } })) } }, "more than 60"],
    [{ description: "x".repeat(300_000) }, "more than 262144 characters"],
    [{ contains: { type: "string" } }, "uses contains"],
    [{ propertyNames: { maxLength: 5 } }, "uses propertyNames"],
    [{ unevaluatedProperties: { type: "string" } }, "uses unevaluatedProperties"],
    [{ type: "string", format: "regex" }, "the format regex"],
    [{ type: "string", format: "constructor" }, "the format constructor"],
  ])("has no keyword whose cost is not linear: %#", (schema, message) => {
    expect(issueOf(validatedSchema.shape, schema)).toContain(message);
    expect(issueOf(callerSchemaShape, schema)).toBeNull();
  });
});
