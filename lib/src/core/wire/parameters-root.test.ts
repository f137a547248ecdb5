import type { EngineFields, JsonObject } from "everturn";
import type { ProviderApi, StrictProvider } from "everturn/testing";

import { anthropic, chat, engine, gemini, openai, tool } from "everturn";
import { strictProvider } from "everturn/testing";
import { describe, expect, test } from "vitest";

import { objectParameters } from "./parameters-root.ts";

const text = { type: "string" };
const number = { type: "number" };
const sun = { type: "object", properties: { kind: { const: "sun" }, hours: number }, required: ["kind", "hours"] };
const rain = { type: "object", properties: { kind: { const: "rain" }, mm: number }, required: ["kind", "mm"] };

const rows: readonly (readonly [string, given: JsonObject, sent: JsonObject])[] = [
  [
    "a union",
    { oneOf: [sun, rain] },
    {
      type: "object",
      properties: { kind: { anyOf: [{ const: "sun" }, { const: "rain" }] }, hours: number, mm: number },
      required: ["kind"],
      description: `Constraints: oneOf ${JSON.stringify([sun, rain])}.`,
    },
  ],
  [
    "a choice of required fields",
    {
      type: "object",
      properties: { route: text, file: text },
      anyOf: [{ required: ["route"] }, { required: ["file"] }],
      additionalProperties: false,
      description: "Reads.",
    },
    {
      type: "object",
      properties: { route: text, file: text },
      additionalProperties: false,
      description: 'Reads.\n\nConstraints: anyOf [{"required":["route"]},{"required":["file"]}].',
    },
  ],
  [
    "an intersection",
    {
      allOf: [
        { type: "object", properties: { a: text }, required: ["a"] },
        { type: "object", properties: { b: text } },
      ],
    },
    {
      type: "object",
      properties: { a: text, b: text },
      required: ["a"],
      description:
        'Constraints: allOf [{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]},{"type":"object","properties":{"b":{"type":"string"}}}].',
    },
  ],
  [
    "a reference",
    { $ref: "#/$defs/sun", $defs: { sun } },
    { type: "object", properties: sun.properties, required: sun.required, $defs: { sun } },
  ],
  [
    "a union of an object, a text and itself",
    {
      anyOf: [{ $ref: "#/$defs/again" }, text, { $ref: "#" }],
      $defs: { again: { anyOf: [{ $ref: "#/$defs/again" }, sun] } },
    },
    {
      type: "object",
      properties: sun.properties,
      required: sun.required,
      description: expect.any(String),
      $defs: expect.any(Object),
    },
  ],
  [
    "a nullable object",
    { type: ["object", "null"], properties: { a: text } },
    { type: "object", properties: { a: text } },
  ],
];

test.each(rows)("parameters: %s is one object", (_, given, sent) => {
  expect(objectParameters(given)).toEqual(sent);
});

test.each<[JsonObject]>([[{}], [{ type: "object" }], [sun], [{ properties: { a: text } }]])(
  "parameters with an accepted root stay as they are: %j",
  (schema) => {
    expect(objectParameters(schema)).toBe(schema);
  },
);

const adapters: { readonly [Api in ProviderApi]: (fetch: StrictProvider["fetch"]) => EngineFields } = {
  "openai-responses": (fetch) => ({ adapter: openai({ apiKey: "unused", fetch }), model: "gpt-5.4" }),
  "openai-chat": (fetch) => ({ adapter: openai({ apiKey: "unused", fetch, api: "chat" }), model: "gpt-5.4" }),
  "anthropic-messages": (fetch) => ({ adapter: anthropic({ apiKey: "unused", fetch }), model: "claude-opus-5" }),
  gemini: (fetch) => ({ adapter: gemini({ apiKey: "unused", fetch }), model: "gemini-3-flash" }),
};

describe.each(Object.entries(adapters))("%s", (_, optionsOf) => {
  test.each(rows)("accepts a tool whose parameters are %s", async (__, schema) => {
    const args = { kind: "sun", hours: 2, a: "x", route: "r" };
    const provider = strictProvider({
      scripts: [[{ type: "tool_call", name: "look", arguments: args }], [{ type: "text", text: "Done." }]],
    });
    const tools = [false, true].map((strict) =>
      tool({
        name: strict ? "strict_look" : "look",
        description: "Looks.",
        schema,
        metadata: { strict },
        handler: () => "Sunny.",
      }),
    );
    const result = await chat(engine({ ...optionsOf(provider.fetch), tools, retry: false }), "Look.");
    expect(provider.refusals).toEqual([]);
    expect(result.finalResponse?.outputText).toBe("Done.");
  });
});

test.each<[JsonObject]>([[{ type: "array", items: text }], [text], [{ type: ["string", "null"] }]])(
  "a tool cannot have parameters that are no object: %j",
  (schema) => {
    expect(() => tool({ name: "look", description: "Looks.", schema, handler: () => "" })).toThrow(
      'tool "look": the schema is of type',
    );
  },
);
