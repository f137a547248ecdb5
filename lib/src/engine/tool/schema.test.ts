// Schemas of every kind a user may bring, as one tool each.

import type { Json } from "everturn/model";

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

describe.each(Object.entries(tools))("a tool by %s", (_, weather) => {
  test("is told to the model as JSON Schema", () => {
    expect(weather.schema).toMatchObject({
      type: "object",
      properties: { city: { type: "string" } },
      required: ["city"],
    });
  });

  test.each<[string, Json, string]>([
    ["fits", { city: "Rome" }, "4"],
    ["does not fit", { city: 7 }, "city"],
  ])("runs with what %s, or tells the model why not", async (_, args, seen) => {
    const scripts = [
      [{ type: "tool_call", name: "weather", arguments: { ...(typeof args === "object" ? args : {}) } }] as const,
      [{ type: "text", text: "ok" }] as const,
    ];
    const { thread } = await chat(engine({ adapter: fake({ scripts }), tools: [weather] }), "hi");
    expect(thread.messages[2]?.content).toContain(seen);
  });
});

test("the handler's input has the type its schema gives it", () => {
  tool({
    ...described,
    schema: z.object({ city: z.string(), days: z.number().default(1) }),
    handler: (input) => {
      expectTypeOf(input).toEqualTypeOf<{ city: string; days: number }>();
    },
  });
});

test("a schema that cannot say itself as JSON Schema is the caller's bug, named and early", () => {
  const mute = {
    "~standard": { version: 1, vendor: "mute", validate: (value: unknown) => ({ value: { city: String(value) } }) },
  } as const;
  expect(() => tool({ ...described, schema: mute, handler: ({ city }) => city })).toThrow(
    /tool "weather": this mute schema cannot say itself in JSON Schema/,
  );
});

test("a tool without a name, or with a word that means something else, is refused", () => {
  expect(() => tool({ ...described, name: "", schema: {} })).toThrow(/name/);
  expect(() => tool({ ...described, name: "auto", schema: {} })).toThrow(/auto|reserved/);
});

describe("[lash 58] plain JSON Schema is checked with its keywords, and every complaint has its place", () => {
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
    ["all of it fits", { name: "ada", tags: ["a", "b"], size: 3, nested: { x: 1 } }, []],
    ["another branch fits", { name: "ada", size: "all" }, []],
    ["something is missing", {}, [""]],
    ["a text is too short and has the wrong letters", { name: "A" }, ["name"]],
    ["an item is none of the words", { name: "ada", tags: ["a", "c"] }, ["tags.1"]],
    ["a reference does not hold", { name: "ada", nested: { x: "1" } }, ["nested.x"]],
  ])("%s", async (_, value, paths) => {
    expect(await pathsOf(value)).toEqual(paths);
  });

  test("a property nobody allowed is named", async () => {
    const checked = await checkValue(schema, { name: "ada", stranger: 1 });
    expect(JSON.stringify(checked)).toContain("stranger");
  });
});

describe("plain JSON Schema that cannot be used", () => {
  const handler = () => "";

  test.each([
    ["a type there is not", { type: "nonsense" }, 'type: there is no type "nonsense"'],
    ["one among several", { type: ["string", "text"] }, 'type: there is no type "text"'],
    [
      "deep inside",
      { properties: { a: { items: { type: "strnig" } } } },
      'properties.a.items.type: there is no type "strnig"',
    ],
    ["a reference to nothing", { $ref: "#/$defs/a" }, '$ref: "#/$defs/a" leads nowhere'],
    ["one that nobody uses yet", { properties: { a: { $ref: "#/nope" } } }, "leads nowhere"],
    ["in a list", { anyOf: [{ type: "string" }, { $ref: "#/anyOf/2" }] }, '"#/anyOf/2" leads nowhere'],
  ])("%s is found before anything runs", async (_, schema, words) => {
    expect(() => tool({ ...described, schema, handler })).toThrow(words);
    const model = fake({ script: [{ type: "text", text: "{}" }] });
    await expect(async () => chat(engine({ adapter: model }), "hi", { output: schema })).rejects.toThrow(words);
    expect(model.calls).toHaveLength(0);
  });

  test.each([
    ["a reference to itself", { type: "object", properties: { next: { $ref: "#" } } }],
    ["a definition", { $ref: "#/$defs/a~1b", $defs: { "a/b": { type: "string" } } }],
    ["fields that are called like keywords", { properties: { type: { type: "string" }, $ref: { type: "string" } } }],
    ["data that looks like a schema", { enum: [{ type: "x", $ref: "#/nope" }], default: { type: "y" } }],
    ["another document", { $ref: "https://example.com/schema" }],
    ["an anchor", { $ref: "#there", $defs: { a: { $anchor: "there" } } }],
    ["no type at all", { properties: { a: true, b: {} } }],
  ])("%s is none of that", (_, schema) => {
    expect(() => tool({ ...described, schema, handler })).not.toThrow();
  });
});
