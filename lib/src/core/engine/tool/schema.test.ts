// Every supported kind of schema, each used for one tool.

import type { Json } from "everturn";

import { toStandardJsonSchema } from "@valibot/to-json-schema";
import { type } from "arktype";
import { chat, engine, fake, tool } from "everturn";
import * as valibot from "valibot";
import { describe, expect, expectTypeOf, test } from "vitest";
import { z } from "zod";

import { checkValue } from "./schema.ts";

const described = { name: "weather", description: "Tells the weather." };

const tools = {
  zod: tool({ ...described, schema: z.object({ city: z.string() }), handler: ({ city }) => city.length }),
  arktype: tool({ ...described, schema: type({ city: "string" }), handler: ({ city }) => city.length }),
  valibot: tool({
    ...described,
    schema: toStandardJsonSchema(valibot.object({ city: valibot.string() })),
    handler: ({ city }) => city.length,
  }),
  "plain JSON Schema": tool({
    ...described,
    schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    handler: ({ city }) => String(city).length,
  }),
};

describe.each(Object.entries(tools))("a tool with a schema of %s", (_, weather) => {
  test("has a JSON Schema for the model", () => {
    expect(weather.schema).toMatchObject({
      type: "object",
      properties: { city: { type: "string" } },
      required: ["city"],
    });
  });

  test.each<[string, Json, string]>([
    ["valid arguments return the handler's value", { city: "Rome" }, "4"],
    ["invalid arguments return the path of the issue", { city: 7 }, "city"],
  ])("%s to the model", async (_, args, seen) => {
    const scripts = [
      [{ type: "tool_call", name: "weather", arguments: { ...(typeof args === "object" ? args : {}) } }] as const,
      [{ type: "text", text: "ok" }] as const,
    ];
    const { thread } = await chat(engine({ adapter: fake({ scripts }), tools: [weather] }), "hi");
    expect(thread.messages[2]?.content).toContain(seen);
  });
});

test("infers the type of the handler's input from the schema", () => {
  tool({
    ...described,
    schema: z.object({ city: z.string(), days: z.number().default(1) }),
    handler: (input) => {
      expectTypeOf(input).toEqualTypeOf<{ city: string; days: number }>();
    },
  });
});

test("rejects a Standard Schema that cannot be converted to JSON Schema when the tool is defined", () => {
  const mute = {
    "~standard": { version: 1, vendor: "mute", validate: (value: unknown) => ({ value: { city: String(value) } }) },
  } as const;
  expect(() => tool({ ...described, schema: mute, handler: ({ city }) => city })).toThrow(
    /tool "weather": this mute schema cannot be converted to JSON Schema/,
  );
});

test("rejects a tool with an empty or reserved name", () => {
  expect(() => tool({ ...described, name: "", schema: {} })).toThrow(/name/);
  expect(() => tool({ ...described, name: "auto", schema: {} })).toThrow(/auto|reserved/);
});

describe("[lash 58] validation with plain JSON Schema reports the path of every issue", () => {
  const schema = {
    type: "object",
    properties: {
      name: { type: "string", minLength: 2, pattern: "^[a-z]+$" },
      tags: { type: "array", items: { enum: ["a", "b"] }, uniqueItems: true },
      size: { oneOf: [{ type: "integer", minimum: 1 }, { const: "all" }] },
      nested: { $ref: "#/$defs/point" },
    },
    required: ["name"],
    additionalProperties: false,
    $defs: { point: { type: "object", properties: { x: { type: "number" } }, required: ["x"] } },
  };
  const pathsOf = async (value: Json) => {
    const checked = await checkValue(schema, value);
    return checked.ok ? [] : [...new Set(checked.issues.map(({ path }) => path.join(".")))];
  };

  test.each<[string, Json, readonly string[]]>([
    ["accepts a value that matches every keyword", { name: "ada", tags: ["a", "b"], size: 3, nested: { x: 1 } }, []],
    ["accepts the second branch of oneOf", { name: "ada", size: "all" }, []],
    ["reports a missing required property at the object", {}, [""]],
    ["reports minLength and pattern at the property", { name: "A" }, ["name"]],
    ["reports enum at the array item", { name: "ada", tags: ["a", "c"] }, ["tags.1"]],
    ["reports a violation inside a $ref at the nested property", { name: "ada", nested: { x: "1" } }, ["nested.x"]],
  ])("%s", async (_, value, paths) => {
    expect(await pathsOf(value)).toEqual(paths);
  });

  test("names a property that additionalProperties forbids", async () => {
    const checked = await checkValue(schema, { name: "ada", stranger: 1 });
    expect(JSON.stringify(checked)).toContain("stranger");
  });
});

describe("static checks of plain JSON Schema", () => {
  const handler = () => "";

  test.each([
    ["an unknown type", { type: "nonsense" }, 'type: unknown type "nonsense"'],
    ["an unknown type in a list of types", { type: ["string", "text"] }, 'type: unknown type "text"'],
    [
      "an unknown type of a nested schema",
      { properties: { a: { items: { type: "strnig" } } } },
      'properties.a.items.type: unknown type "strnig"',
    ],
    ["a $ref without a target", { $ref: "#/$defs/a" }, '$ref: "#/$defs/a" does not resolve'],
    ["a nested $ref without a target", { properties: { a: { $ref: "#/nope" } } }, "does not resolve"],
    [
      "a $ref past the end of a list",
      { anyOf: [{ type: "string" }, { $ref: "#/anyOf/2" }] },
      '"#/anyOf/2" does not resolve',
    ],
  ])("reject %s before the model is called", async (_, schema, message) => {
    expect(() => tool({ ...described, schema, handler })).toThrow(message);
    const model = fake({ script: [{ type: "text", text: "{}" }] });
    await expect(async () => chat(engine({ adapter: model }), "hi", { output: schema })).rejects.toThrow(message);
    expect(model.calls).toHaveLength(0);
  });

  test.each([
    ["a recursive schema", { type: "object", properties: { next: { $ref: "#" } } }],
    ["a $ref to a definition whose name is escaped", { $ref: "#/$defs/a~1b", $defs: { "a/b": { type: "string" } } }],
    ["properties that are named like keywords", { properties: { type: { type: "string" }, $ref: { type: "string" } } }],
    ["data that looks like a schema", { enum: [{ type: "x", $ref: "#/nope" }], default: { type: "y" } }],
    ["a $ref to another document", { $ref: "https://example.com/schema" }],
    ["a $ref to an anchor", { $ref: "#there", $defs: { a: { $anchor: "there" } } }],
    ["boolean schemas and schemas without a type", { properties: { a: true, b: {} } }],
  ])("accept %s", (_, schema) => {
    expect(() => tool({ ...described, schema, handler })).not.toThrow();
  });
});

describe("a value that a model has chosen", () => {
  test("with many parts has the issues of its first invalid part; their number and length are bounded", async () => {
    const names = Array.from({ length: 2000 }, (_, index) => `name${index}`);
    const value = Array.from({ length: 5000 }, () => ({}));
    const schema = { type: "array", items: { required: names, properties: { a: { enum: names } } } };
    const many = await checkValue(schema, value);
    expect(many).toMatchObject({ ok: false });
    expect("issues" in many ? new Set(many.issues.map(({ path }) => path[0])) : null).toEqual(new Set(["0"]));
    const few = await checkValue(schema, [{ a: "x" }]);
    const issues = "issues" in few ? few.issues : [];
    expect(issues).toHaveLength(100);
    expect(Math.max(...issues.map(({ message }) => message.length))).toBeLessThan(600);
  });

  test("with a lone surrogate in the name of a property is invalid, and not an exception", async () => {
    const checked = await checkValue({ additionalProperties: { type: "number" } }, { "\uD800": "x" });
    expect(checked).toMatchObject({ ok: false, issues: [{ message: expect.stringContaining("lone surrogate") }] });
  });
});

test("a property that a plain schema forbids is named in the error, with what to do", async () => {
  const inner = { type: "object", properties: { a: { type: "string" } }, additionalProperties: false };
  const schema = { ...inner, properties: { ...inner.properties, inner } };
  expect(await checkValue(schema, { a: "x", b: 1, inner: { c: 2 } })).toEqual({
    ok: false,
    issues: [
      { path: ["inner", "c"], code: "invalid_value", message: "the schema allows no property of this name; remove it" },
      { path: ["b"], code: "invalid_value", message: "the schema allows no property of this name; remove it" },
    ],
  });
});
