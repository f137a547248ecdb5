// Schemas in the form that each API accepts: the documented rules hold for random schemas, values keep their meaning,
// and a second adaptation changes nothing.

import type { SchemaRules } from "./schema-rules.ts";
import type { Json, JsonObject } from "everturn";

import { Validator } from "@cfworker/json-schema";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { z } from "zod";

import { addedNullsOf, PartialBranches, removeAddedNulls } from "./added-nulls.ts";
import { adaptSchema } from "./schema-adaptation.ts";
import { anthropicStrict, geminiJson, openaiStrict } from "./schema-rules.ts";

type Schema = { readonly [key: string]: Json };

function adapted(schema: JsonObject, rules: SchemaRules): JsonObject {
  const result = adaptSchema(schema, rules);
  if (result.type === "inexpressible") throw new Error(result.why);
  return result.schema;
}

function why(schema: JsonObject, rules: SchemaRules): string | null {
  const result = adaptSchema(schema, rules);
  return result.type === "inexpressible" ? result.why : null;
}

function ofZod(schema: z.ZodType): JsonObject {
  return JSON.parse(JSON.stringify(z.toJSONSchema(schema, { io: "input" })));
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function schemasIn(schema: Json): readonly Schema[] {
  if (!isObject(schema)) return [];
  const groups = ["properties", "$defs", "definitions"].flatMap((key) => {
    const group = schema[key];
    return isObject(group) ? Object.values(group) : [];
  });
  const lists = ["anyOf", "oneOf", "allOf", "prefixItems"].flatMap((key) => {
    const list = schema[key];
    return Array.isArray(list) ? list : [];
  });
  const items = schema["items"] === undefined ? [] : [schema["items"]];
  return [schema, ...[...groups, ...lists, ...items].flatMap(schemasIn)];
}

const openaiKeywords = new Set(
  "$schema $defs $ref type properties required additionalProperties items anyOf enum const title description pattern format multipleOf maximum exclusiveMaximum minimum exclusiveMinimum minItems maxItems".split(
    " ",
  ),
);

/** What OpenAI refuses in a strict schema, by the words of its errors. */
function openaiProblems(root: JsonObject): readonly string[] {
  const rootProblems = root["type"] === "object" && root["anyOf"] === undefined ? [] : ["the root must be an object"];
  const nodes = schemasIn(root).flatMap((schema) => {
    const keys = Object.keys(schema);
    const unknown = keys.filter((key) => !openaiKeywords.has(key)).map((key) => `'${key}' is not permitted`);
    const hasType = "type" in schema || "$ref" in schema || "anyOf" in schema;
    const besideRef = "$ref" in schema && keys.length > 1 ? ["$ref cannot have keywords"] : [];
    const types = [schema["type"] ?? []].flat();
    const isObjectType = types.includes("object");
    const names = isObject(schema["properties"]) ? Object.keys(schema["properties"]) : null;
    const required = Array.isArray(schema["required"]) ? schema["required"] : [];
    return [
      ...unknown,
      ...besideRef,
      ...(hasType ? [] : ["schema must have a 'type' key"]),
      ...(isObjectType && names === null ? ["object schema missing properties"] : []),
      ...(isObjectType && schema["additionalProperties"] !== false ? ["'additionalProperties' must be false"] : []),
      ...(names ?? []).filter((name) => !required.includes(name)).map((name) => `Missing '${name}'`),
      ...(types.includes("array") && !isObject(schema["items"]) ? ["array schema missing items"] : []),
    ];
  });
  return [...rootProblems, ...nodes];
}

const anthropicRefused =
  "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern maxItems uniqueItems oneOf default $schema".split(
    " ",
  );

function anthropicProblems(root: JsonObject): readonly string[] {
  return schemasIn(root).flatMap((schema) => [
    ...anthropicRefused.filter((key) => key in schema).map((key) => `property '${key}' is not supported`),
    ...(schema["type"] === "object" && schema["additionalProperties"] !== false ? ["additionalProperties"] : []),
    ...(typeof schema["minItems"] === "number" && schema["minItems"] > 1 ? ["minItems"] : []),
  ]);
}

function isValid(schema: JsonObject, value: Json): boolean {
  return new Validator(schema, "2020-12").validate(value).valid;
}

/** The schema without its bounds, and with `anyOf` for `oneOf`: what remains if only the structure counts. */
function withoutBounds(schema: Json): Json {
  if (Array.isArray(schema)) return schema.map(withoutBounds);
  if (!isObject(schema)) return schema;
  const entries = Object.entries(schema).flatMap(([key, value]): [string, Json][] => {
    if (/^(?:min|max|multipleOf|pattern|format|uniqueItems|exclusive)/.test(key) && !isObject(value)) return [];
    if (key === "enum" || key === "const" || key === "required") return [[key, value]];
    return [[key === "oneOf" ? "anyOf" : key, withoutBounds(value)]];
  });
  return Object.fromEntries(entries);
}

/** A value as strict mode writes it: absent optional fields that were made nullable are `null`. */
function withNulls(root: JsonObject, schema: JsonObject, value: Json): Json {
  const { $ref: reference, anyOf, oneOf, properties, items, required } = schema;
  if (reference === "#") return withNulls(root, root, value);
  const branches = Array.isArray(anyOf) ? anyOf : Array.isArray(oneOf) ? oneOf : null;
  if (branches !== null) {
    const branch = branches.find((option) => isObject(option) && isValid({ ...root, ...onlyNode(option) }, value));
    return isObject(branch) ? withNulls(root, branch, value) : value;
  }
  if (Array.isArray(value)) return isObject(items) ? value.map((item) => withNulls(root, items, item)) : value;
  if (!isObject(value) || !isObject(properties)) return value;
  const names = Array.isArray(required) ? required : [];
  const entries = Object.entries(properties).flatMap(([name, property]): [string, Json][] => {
    if (!isObject(property)) return [];
    const field = value[name];
    if (field !== undefined) return [[name, withNulls(root, property, field)]];
    return names.includes(name) ? [] : [[name, null]];
  });
  return Object.fromEntries(entries);
}

function onlyNode(node: JsonObject): JsonObject {
  return { $schema: "https://json-schema.org/draft/2020-12/schema", ...node };
}

type Sample = { readonly schema: JsonObject; readonly value: Json };

const names = ["a", "b", "kind", "x y"];

/** A schema that strict mode can express, with a value that it probably accepts. */
function samples(depth: number): fc.Arbitrary<Sample> {
  const leaves: fc.Arbitrary<Sample>[] = [
    fc.record({ schema: fc.constant({ type: "string" }), value: fc.string({ maxLength: 4 }) }),
    fc.record({
      schema: fc.constant({ type: "string", minLength: 1, maxLength: 3 }),
      value: fc.string({ maxLength: 4 }),
    }),
    fc.record({
      schema: fc.constant({ type: "integer", minimum: 0, maximum: 5 }),
      value: fc.integer({ min: -1, max: 6 }),
    }),
    fc.record({ schema: fc.constant({ type: "number", default: 3 }), value: fc.integer() }),
    fc.record({ schema: fc.constant({ type: "boolean", description: "A flag." }), value: fc.boolean() }),
    fc.record({ schema: fc.constant({ type: ["string", "null"] }), value: fc.constantFrom("s", null) }),
    fc.record({ schema: fc.constant({ type: ["string", "number"] }), value: fc.constantFrom<Json>("s", 1) }),
    fc.record({ schema: fc.constant({ enum: ["u", "v"] }), value: fc.constantFrom("u", "v") }),
    fc.record({ schema: fc.constant({ type: "string", enum: ["u", "v"] }), value: fc.constantFrom("u", "v") }),
    fc.record({ schema: fc.constant({ const: "k" }), value: fc.constant("k") }),
    fc.record({ schema: fc.constant({ type: "null" }), value: fc.constant(null) }),
  ];
  if (depth === 0) return fc.oneof(...leaves);
  const child = samples(depth - 1);
  const array = fc.array(child, { minLength: 1, maxLength: 1 }).chain(([sample]) =>
    fc.record({
      schema: fc.constantFrom<JsonObject>(
        { type: "array", items: sample?.schema ?? {} },
        { type: "array", items: sample?.schema ?? {}, minItems: 2, maxItems: 3 },
      ),
      value: fc.array(fc.constant(sample?.value ?? null), { maxLength: 3 }),
    }),
  );
  const union = fc
    .tuple(fc.array(child, { minLength: 1, maxLength: 3 }), fc.constantFrom("anyOf", "oneOf"), fc.nat())
    .map(([branches, keyword, at]) => ({
      schema: { [keyword]: branches.map(({ schema }) => schema), description: "One of several." },
      value: branches[at % branches.length]?.value ?? null,
    }));
  return fc.oneof(...leaves, array, union, objects(child), objects(child));
}

function objects(child: fc.Arbitrary<Sample>): fc.Arbitrary<Sample> {
  const field = fc.record({ sample: child, isRequired: fc.boolean(), isPresent: fc.boolean() });
  return fc.uniqueArray(fc.tuple(fc.constantFrom(...names), field), { selector: ([name]) => name }).map((fields) => ({
    schema: {
      type: "object",
      properties: Object.fromEntries(fields.map(([name, { sample }]) => [name, sample.schema])),
      required: fields.flatMap(([name, { isRequired }]) => (isRequired ? [name] : [])),
    },
    value: Object.fromEntries(
      fields.flatMap(([name, { sample, isRequired, isPresent }]) =>
        isRequired || isPresent ? [[name, sample.value] as const] : [],
      ),
    ),
  }));
}

const roots = objects(samples(2));

describe("random schemas", () => {
  test("keep the rules of OpenAI's strict mode and of Anthropic", () => {
    fc.assert(
      fc.property(roots, ({ schema }) => {
        expect(openaiProblems(adapted(schema, openaiStrict))).toEqual([]);
        expect(anthropicProblems(adapted(schema, anthropicStrict))).toEqual([]);
      }),
      { numRuns: 500 },
    );
  });

  test("are not changed by a second adaptation", () => {
    fc.assert(
      fc.property(roots, fc.constantFrom(openaiStrict, anthropicStrict, geminiJson), ({ schema }, rules) => {
        const once = adapted(schema, rules);
        expect(adapted(once, rules)).toEqual(once);
        expect(rules.optionalFields === "nullable" ? addedNullsOf(once) : null).toBe(null);
      }),
      { numRuns: 500 },
    );
  });

  test("have an adapted form of every value that the original accepts, from which the value is restored", () => {
    let count = 0;
    fc.assert(
      fc.property(roots, ({ schema, value }) => {
        if (!isValid(schema, value)) return;
        count += 1;
        const result = adaptSchema(schema, openaiStrict);
        if (result.type === "inexpressible") throw new Error(result.why);
        const written = withNulls(schema, schema, value);
        expect(isValid(result.schema, written)).toBe(true);
        expect(isValid(adapted(schema, anthropicStrict), value)).toBe(true);
        const restored = result.addedNulls === null ? written : removeAddedNulls(result.addedNulls, written);
        const structure = withoutBounds(schema);
        expect(isObject(structure) && isValid(structure, restored)).toBe(true);
      }),
      { numRuns: 1000 },
    );
    expect(count).toBeGreaterThan(300);
  });

  test("give partial values that end as the restored value, if no union is ambiguous", () => {
    fc.assert(
      fc.property(objects(objects(samples(0))), ({ schema, value }) => {
        const addedNulls = addedNullsOf(schema);
        if (addedNulls === null || !isValid(schema, value)) return;
        const written = withNulls(schema, schema, value);
        const branches = PartialBranches.of(addedNulls);
        if (!isObject(written)) return;
        const kept = Object.entries(written).filter(
          ([name, field]) => field !== null || !branches.isAddedNull(name, written),
        );
        const restored = removeAddedNulls(addedNulls, written);
        expect(kept.map(([name]) => name)).toEqual(Object.keys(isObject(restored) ? restored : {}));
      }),
    );
  });
});

describe("OpenAI", () => {
  test("closes objects and requires every field; optional fields are nullable", () => {
    const schema = ofZod(
      z.object({
        city: z.string(),
        unit: z.enum(["C", "F"]).optional(),
        wind: z.object({ speed: z.number() }).optional(),
      }),
    );
    expect(adapted(schema, openaiStrict)).toEqual({
      $schema: "https://json-schema.org/draft/2020-12/schema",
      type: "object",
      properties: {
        city: { type: "string" },
        unit: { type: ["string", "null"], enum: ["C", "F", null] },
        wind: {
          anyOf: [
            {
              type: "object",
              properties: { speed: { type: "number" } },
              required: ["speed"],
              additionalProperties: false,
            },
            { type: "null" },
          ],
        },
      },
      required: ["city", "unit", "wind"],
      additionalProperties: false,
    });
  });

  test("moves keywords that it refuses into the description, and keeps bounds of numbers and lists", () => {
    const schema = ofZod(
      z.object({
        name: z.string().min(1).max(9).describe("A name."),
        url: z.url(),
        count: z.number().int().min(1),
        tags: z.array(z.string()).min(2),
        size: z.number().default(3),
        zip: z.string().regex(/^(?=\d)\d+$/),
      }),
    );
    expect(adapted(schema, openaiStrict)["properties"]).toEqual({
      name: { type: "string", description: "A name.\n\nConstraints: minLength 1, maxLength 9." },
      url: { type: "string", description: 'Constraints: format "uri".' },
      count: { type: "integer", minimum: 1, maximum: Number.MAX_SAFE_INTEGER },
      tags: { type: "array", items: { type: "string" }, minItems: 2 },
      size: { type: ["number", "null"], description: "Constraints: default 3." },
      zip: { type: "string", description: 'Constraints: pattern "^(?=\\\\d)\\\\d+$".' },
    });
  });

  test("keeps references, also recursive ones, and writes keywords beside a reference around it", () => {
    const person = z.object({
      name: z.string(),
      get children() {
        return z.array(person).optional();
      },
    });
    const adaptedPerson = adapted(ofZod(person), openaiStrict);
    expect(openaiProblems(adaptedPerson)).toEqual([]);
    expect(adaptedPerson["properties"]).toMatchObject({
      children: { anyOf: [{ type: "array", items: { $ref: "#" } }, { type: "null" }] },
    });
    const shared: JsonObject = {
      $ref: "#/$defs/order",
      $defs: {
        order: { type: "object", properties: { at: { $ref: "#/$defs/day", description: "When." } }, required: ["at"] },
        day: { type: "string" },
      },
    };
    const written = adapted(shared, openaiStrict);
    expect(written).toMatchObject({
      type: "object",
      properties: { at: { anyOf: [{ $ref: "#/$defs/day" }], description: "When." } },
    });
    expect(openaiProblems(written)).toEqual([]);
  });

  test("reads a single allOf and a missing type as schema generators mean them", () => {
    const schema: JsonObject = {
      properties: {
        a: { allOf: [{ type: "string" }], description: "A." },
        b: { properties: {} },
        c: { items: { enum: [1] } },
      },
      required: ["a"],
    };
    const written = adapted(schema, openaiStrict);
    expect(openaiProblems(written)).toEqual([]);
    expect(removeAddedNulls(addedNullsOf(schema) ?? {}, { a: "x", b: null, c: null })).toEqual({ a: "x" });
  });

  const tree = { anyOf: [{ type: "string" }, { type: "array", items: { $ref: "#" } }] };
  const kind = z.discriminatedUnion("k", [
    z.object({ k: z.literal("a"), n: z.number().optional() }),
    z.object({ k: z.literal("b") }),
  ]);
  test.each<[string, JsonObject, Json, Json]>([
    [
      "a list",
      ofZod(z.array(z.object({ a: z.string().optional() }))),
      { value: [{ a: null }, { a: "x" }] },
      [{}, { a: "x" }],
    ],
    ["a union", ofZod(kind), { value: { k: "a", n: null } }, { k: "a" }],
    ["a text", ofZod(z.string()), { value: "x" }, "x"],
    ["a nullable object", ofZod(z.object({ a: z.string() }).nullable()), { value: null }, null],
    ["a union with a reference to itself", tree, { value: ["x", ["y"]] }, ["x", ["y"]]],
    [
      "a reference to a list",
      { $ref: "#/$defs/root", $defs: { root: { type: "array", items: { type: "string" } } } },
      { value: ["x"] },
      ["x"],
    ],
    ["a list that the model wrote without the field", ofZod(z.array(z.string())), ["x"], ["x"]],
  ])("is sent %s at the root as a field, whose value is the answer", (_, schema, written, answer) => {
    const sent = adaptSchema(schema, openaiStrict);
    expect(sent.type).toBe("adapted");
    expect(openaiProblems(sent.schema)).toEqual([]);
    expect(isValid(sent.schema, isObject(written) ? written : { value: written })).toBe(true);
    expect(removeAddedNulls(sent.addedNulls ?? {}, written)).toEqual(answer);
    expect(adaptSchema(sent.schema, openaiStrict)).toMatchObject({ type: "adapted", schema: sent.schema });
  });

  test("sends a root without a strict form as a field, too", () => {
    const schema = { type: "array", items: { type: "object", additionalProperties: { type: "number" } } };
    const sent = adaptSchema(schema, openaiStrict);
    expect(sent.schema).toMatchObject({ type: "object", properties: { value: schema }, required: ["value"] });
    expect(removeAddedNulls(sent.addedNulls ?? {}, { value: [{ a: 1 }] })).toEqual([{ a: 1 }]);
    // The field alone is taken out, not one of an object that has it.
    expect(removeAddedNulls(sent.addedNulls ?? {}, { value: 1, other: 2 })).toEqual({ value: 1, other: 2 });
  });

  test.each<[string, JsonObject, RegExp]>([
    [
      "a record",
      ofZod(z.object({ r: z.record(z.string(), z.number()) })),
      /\/properties\/r has the keyword propertyNames/,
    ],
    ["an open object", ofZod(z.looseObject({ a: z.string() })), /the root has fields of any name/],
    ["an object without properties", { type: "object" }, /without properties/],
    ["any value", ofZod(z.object({ a: z.unknown() })), /\/properties\/a has a value of any type/],
    ["a tuple", ofZod(z.object({ t: z.tuple([z.string()]) })), /prefixItems/],
    [
      "a list of records at the root",
      ofZod(z.array(z.record(z.string(), z.number()))),
      /\/properties\/value\/items has the keyword propertyNames/,
    ],
    ["any value at the root", {}, /\/properties\/value has a value of any type/],
    ["allOf", { type: "object", properties: {}, allOf: [{ type: "object" }, {}] }, /allOf/],
    ["not", { type: "object", properties: { a: { not: {} } } }, /not/],
    [
      "a reference elsewhere",
      { type: "object", properties: { a: { $ref: "https://example.com/a" } } },
      /the reference https/,
    ],
    ["a boolean schema", { type: "object", properties: { a: true } }, /the schema true/],
    [
      "too many fields",
      {
        type: "object",
        properties: Object.fromEntries(Array.from({ length: 5001 }, (_, at) => [`f${at}`, { type: "null" }])),
      },
      /5001 fields; the limit is 5000/,
    ],
    [
      "too many enum values",
      { type: "object", properties: { e: { enum: Array.from({ length: 1001 }, (_, at) => at) } } },
      /1001 enum values/,
    ],
  ])("has no strict form of %s", (_, schema, reason) => {
    expect(why(schema, openaiStrict)).toMatch(reason);
  });
});

describe("Anthropic", () => {
  test("gets no bounds; optional fields stay optional", () => {
    const schema = ofZod(
      z.object({
        age: z.number().int(),
        stars: z.number().min(1).max(5).optional(),
        name: z.string().min(2),
        tags: z.array(z.string()).min(1).max(3),
        mail: z.email(),
      }),
    );
    const written = adapted(schema, anthropicStrict);
    expect(anthropicProblems(written)).toEqual([]);
    expect(written).toEqual({
      type: "object",
      properties: {
        age: { type: "integer" },
        stars: { type: "number", description: "Constraints: minimum 1, maximum 5." },
        name: { type: "string", description: "Constraints: minLength 2." },
        tags: { type: "array", items: { type: "string" }, minItems: 1, description: "Constraints: maxItems 3." },
        mail: expect.objectContaining({ type: "string", format: "email" }),
      },
      required: ["age", "name", "tags", "mail"],
      additionalProperties: false,
    });
  });

  test.each<[string, JsonObject]>([
    ["a record", ofZod(z.object({ r: z.record(z.string(), z.number()) }))],
    ["a recursive schema", { type: "object", properties: { next: { $ref: "#" } } }],
    [
      "a definition that refers to itself",
      {
        type: "object",
        properties: { a: { $ref: "#/$defs/a" } },
        $defs: { a: { type: "array", items: { $ref: "#/$defs/a" } } },
      },
    ],
    ["any value", ofZod(z.object({ a: z.any() }))],
  ])("has no form of %s", (_, schema) => {
    expect(why(schema, anthropicStrict)).not.toBe(null);
  });
});

describe("Gemini", () => {
  test("gets literals as enums, references alone, and constraints that it does not read in the description", () => {
    const schema: JsonObject = {
      $schema: "https://json-schema.org/draft/2020-12/schema",
      type: "object",
      properties: {
        kind: { type: "string", const: "a" },
        id: { $ref: "#/$defs/id", description: "The id." },
        price: { type: "number", exclusiveMinimum: 0 },
        any: {},
        pair: { type: "array", prefixItems: [{ type: "string" }], items: false },
        map: { type: "object", additionalProperties: { type: "number" } },
      },
      required: ["kind"],
      $defs: { id: { type: "string" } },
    };
    expect(adapted(schema, geminiJson)).toEqual({
      type: "object",
      properties: {
        kind: { type: "string", enum: ["a"] },
        id: { anyOf: [{ $ref: "#/$defs/id" }], description: "The id." },
        price: { type: "number", description: "Constraints: exclusiveMinimum 0." },
        any: {},
        pair: { type: "array", prefixItems: [{ type: "string" }], items: false },
        map: { type: "object", additionalProperties: { type: "number" } },
      },
      required: ["kind"],
      $defs: { id: { type: "string" } },
    });
  });
});

describe("added nulls", () => {
  const unit = {
    type: "object",
    properties: { unit: { type: "string" }, note: { type: ["string", "null"] } },
  } as const;

  test("are removed where the adaptation made a field nullable, and nowhere else", () => {
    expect(removeAddedNulls(addedNullsOf(unit) ?? {}, { unit: null, note: null, other: null })).toEqual({
      note: null,
      other: null,
    });
    expect(addedNullsOf({ type: "object", properties: { a: { type: "string" } }, required: ["a"] })).toBe(null);
  });

  test("are found in lists, nested objects, references and recursive schemas", () => {
    const tree: JsonObject = {
      type: "object",
      properties: { leaf: { $ref: "#/$defs/leaf" }, children: { type: "array", items: { $ref: "#" } } },
      required: ["leaf"],
      $defs: { leaf: unit },
    };
    const value = { leaf: { unit: null }, children: [{ leaf: { unit: "C", note: null }, children: null }] };
    expect(removeAddedNulls(addedNullsOf(tree) ?? {}, value)).toEqual({
      leaf: {},
      children: [{ leaf: { unit: "C", note: null } }],
    });
  });

  test("of a union belong to the branch that the value matches", () => {
    const schema: JsonObject = {
      type: "object",
      properties: {
        v: {
          anyOf: [
            { type: "object", properties: { kind: { const: "a" }, x: { type: "string" } }, required: ["kind"] },
            {
              type: "object",
              properties: { kind: { const: "b" }, x: { type: ["string", "null"] } },
              required: ["kind"],
            },
          ],
        },
      },
      required: ["v"],
    };
    const addedNulls = addedNullsOf(schema) ?? {};
    expect(removeAddedNulls(addedNulls, { v: { kind: "a", x: null } })).toEqual({ v: { kind: "a" } });
    expect(removeAddedNulls(addedNulls, { v: { kind: "b", x: null } })).toEqual({ v: { kind: "b", x: null } });
  });

  test("are found in bounded time if unions are nested and every branch fails late", () => {
    const deep = (levels: number): JsonObject =>
      levels === 0
        ? { type: "object", properties: { end: { const: "never" }, opt: { type: "string" } }, required: ["end"] }
        : {
            anyOf: Array.from({ length: 3 }, () => ({
              type: "object",
              properties: { n: { $ref: `#/$defs/d${levels - 1}` } },
              required: ["n"],
            })),
          };
    const $defs = Object.fromEntries(Array.from({ length: 25 }, (_, level) => [`d${level}`, deep(level)]));
    const nested = (levels: number): Json => (levels === 0 ? { end: "x", opt: null } : { n: nested(levels - 1) });
    const schema: JsonObject = { type: "object", properties: { n: { $ref: "#/$defs/d24" } }, required: ["n"], $defs };
    expect(removeAddedNulls(addedNullsOf(schema) ?? {}, { n: nested(24) })).toEqual({ n: nested(24) });
  });
});
