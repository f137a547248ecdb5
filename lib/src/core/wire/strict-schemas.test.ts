// Request bodies with schemas: structured output and tools, in the form that each API accepts.

import type { Codec, WireContext } from "./codec.ts";
import type { JsonObject, ModelRequest } from "everturn";

import { user } from "everturn";
import { jsonSchema, request, toolSpec } from "everturn/advanced";
import { describe, expect, test } from "vitest";
import { z } from "zod";

import { anthropicMessages } from "./anthropic/codec.ts";
import { noQuirks } from "./codec.ts";
import { objectAt, objectsAt } from "./fields.ts";
import { geminiGenerateContent } from "./gemini/codec.ts";
import { warningsOf } from "./omission.ts";
import { openaiChat } from "./openai-chat/codec.ts";
import { openaiResponses } from "./openai-responses/codec.ts";

type Api = "responses" | "chat" | "anthropic" | "gemini";
const codecs: { readonly [Name in Api]: { readonly codec: Codec; readonly provider: string; readonly model: string } } =
  {
    responses: { codec: openaiResponses, provider: "openai", model: "gpt-5.4" },
    chat: { codec: openaiChat, provider: "openai", model: "gpt-5.4" },
    anthropic: { codec: anthropicMessages, provider: "anthropic", model: "claude-sonnet-4-6" },
    gemini: { codec: geminiGenerateContent, provider: "gemini", model: "gemini-3.5-flash" },
  };

function encode(api: Api, fields: Partial<ModelRequest>, quirks = noQuirks) {
  const { codec, provider, model } = codecs[api];
  const context: WireContext = { route: { provider, endpoint: "e", model }, rawChunks: false, quirks };
  return codec.encode(request([user("Hi.")], fields), context);
}

function ofZod(schema: z.ZodType): JsonObject {
  const { $schema: _, ...fields } = z.toJSONSchema(schema, { io: "input" });
  return JSON.parse(JSON.stringify(fields));
}

function formatOf(api: "responses" | "chat", schema: JsonObject, quirks = noQuirks) {
  const encoded = encode(api, { responseFormat: jsonSchema("answer", schema) }, quirks);
  const format =
    api === "chat"
      ? objectAt(objectAt(encoded.body, "response_format"), "json_schema")
      : objectAt(objectAt(encoded.body, "text"), "format");
  return { format, warnings: warningsOf(encoded.omissions), encoded };
}

const closed = { additionalProperties: false };

describe.each(["responses", "chat"] as const)("structured output of OpenAI (%s)", (api) => {
  const rows: readonly (readonly [string, z.ZodType, JsonObject])[] = [
    [
      "an object",
      z.object({ city: z.string() }),
      { type: "object", properties: { city: { type: "string" } }, required: ["city"], ...closed },
    ],
    [
      "an optional field",
      z.object({ city: z.string(), unit: z.string().optional() }),
      {
        type: "object",
        properties: { city: { type: "string" }, unit: { type: ["string", "null"] } },
        required: ["city", "unit"],
        ...closed,
      },
    ],
    [
      "a nested optional field in a list",
      z.object({ days: z.array(z.object({ rain: z.number().optional() })) }),
      {
        type: "object",
        properties: {
          days: {
            type: "array",
            items: {
              type: "object",
              properties: { rain: { type: ["number", "null"] } },
              required: ["rain"],
              ...closed,
            },
          },
        },
        required: ["days"],
        ...closed,
      },
    ],
    [
      "a discriminated union",
      z.object({ v: z.discriminatedUnion("k", [z.object({ k: z.literal("a") }), z.object({ k: z.literal("b") })]) }),
      {
        type: "object",
        properties: {
          v: {
            anyOf: ["a", "b"].map((k) => ({
              type: "object",
              properties: { k: { type: "string", const: k } },
              required: ["k"],
              ...closed,
            })),
          },
        },
        required: ["v"],
        ...closed,
      },
    ],
    [
      "a list at the root",
      z.array(z.string()),
      {
        type: "object",
        properties: { value: { type: "array", items: { type: "string" } } },
        required: ["value"],
        ...closed,
      },
    ],
    [
      "an optional enum",
      z.object({ sky: z.enum(["clear", "cloudy"]).optional() }),
      {
        type: "object",
        properties: { sky: { type: ["string", "null"], enum: ["clear", "cloudy", null] } },
        required: ["sky"],
        ...closed,
      },
    ],
  ];

  test.each(rows)("sends %s as strict mode accepts it", (_, schema, sent) => {
    const { format, warnings } = formatOf(api, ofZod(schema));
    expect(format).toMatchObject({ name: "answer", strict: true });
    expect(format?.["schema"]).toEqual(sent);
    expect(warnings).toEqual([]);
  });

  test.each<[string, z.ZodType, RegExp]>([
    ["a record", z.object({ r: z.record(z.string(), z.number()) }), /\/properties\/r/],
    ["an open object", z.looseObject({ a: z.string() }), /fields of any name/],
  ])("sends %s without strict mode, with a warning", (_, schema, reason) => {
    const { format, warnings } = formatOf(api, ofZod(schema));
    expect(format).toMatchObject({ strict: false, schema: ofZod(schema) });
    expect(warnings).toEqual([
      { reason: "unsupported", path: "responseFormat.strict", message: expect.stringMatching(reason) },
    ]);
  });

  test("leaves a schema alone if the caller, or the server, uses no strict mode", () => {
    const schema = ofZod(z.object({ unit: z.string().optional() }));
    expect(formatOf(api, schema, { strict: false }).format).toMatchObject({ schema });
    const encoded = encode(api, { responseFormat: jsonSchema("answer", schema, { strict: false }) });
    expect(JSON.stringify(encoded.body)).toContain(JSON.stringify(schema));
    expect(encoded.addedNulls).toBe(undefined);
  });

  test("leaves a schema of the provider options alone", () => {
    const schema = { type: "object", properties: { own: { type: "string" } } };
    const option =
      api === "chat"
        ? { response_format: { type: "json_schema", json_schema: { name: "own", schema } } }
        : { text: { format: { type: "json_schema", name: "own", schema } } };
    const encoded = encode(api, {
      responseFormat: jsonSchema("answer", ofZod(z.object({ unit: z.string().optional() }))),
      options: option,
    });
    expect(JSON.stringify(encoded.body)).toContain(JSON.stringify(schema));
    expect(encoded.addedNulls).toBe(undefined);
  });
});

function toolOf(
  api: "responses" | "chat",
  schema: JsonObject,
  strict: "metadata" | "options" | null,
  quirks = noQuirks,
) {
  const tool = toolSpec({
    name: "look",
    description: "Looks.",
    schema,
    ...(strict === "metadata" ? { metadata: { strict: true } } : {}),
    ...(strict === "options" ? { providerOptions: { openai: { strict: true } } } : {}),
  });
  const encoded = encode(api, { tools: [tool] }, quirks);
  const sent = objectsAt(encoded.body, "tools")[0] ?? null;
  return { sent: api === "chat" ? objectAt(sent, "function") : sent, warnings: warningsOf(encoded.omissions), encoded };
}

describe.each(["responses", "chat"] as const)("tools of OpenAI (%s)", (api) => {
  test.each<[string, JsonObject]>([
    ["{}", {}],
    ["an object without properties", { type: "object" }],
    ["a closed object without properties", { type: "object", additionalProperties: false }],
    ["an empty object", { type: "object", properties: {} }],
  ])("without parameters have an empty object of parameters: %s", (_, schema) => {
    const { sent } = toolOf(api, schema, null);
    expect(sent).toMatchObject({ parameters: { ...schema, type: "object", properties: {} } });
    for (const strict of ["metadata", "options"] as const) {
      const strictTool = toolOf(api, schema, strict);
      expect(strictTool.sent).toMatchObject({ strict: true });
      expect(strictTool.sent?.["parameters"]).toEqual({ type: "object", properties: {}, required: [], ...closed });
      expect(strictTool.warnings).toEqual([]);
    }
  });

  test.each(["metadata", "options"] as const)("are closed and have nullable fields if strict (%s)", (strict) => {
    const schema = ofZod(z.object({ city: z.string(), unit: z.string().optional() }));
    const { sent, encoded } = toolOf(api, schema, strict);
    expect(sent).toMatchObject({
      strict: true,
      parameters: {
        type: "object",
        properties: { city: { type: "string" }, unit: { type: ["string", "null"] } },
        required: ["city", "unit"],
        ...closed,
      },
    });
    expect(encoded.addedNulls?.tools.has("look")).toBe(true);
    expect(toolOf(api, schema, null).sent).toMatchObject({ parameters: schema });
    expect(toolOf(api, schema, null).encoded.addedNulls).toBe(undefined);
    expect(toolOf(api, schema, "metadata", { strict: false }).sent).toMatchObject({ parameters: schema });
  });

  test.each(["metadata", "options"] as const)(
    "lose strict mode, with a warning, if it has no form of them (%s)",
    (strict) => {
      const schema = ofZod(z.object({ scores: z.record(z.string(), z.number()) }));
      const { sent, warnings } = toolOf(api, schema, strict);
      expect(sent).toMatchObject({ strict: false, parameters: schema });
      expect(warnings).toEqual([
        { reason: "unsupported", path: "tools[0].strict", message: expect.stringContaining("/properties/scores") },
      ]);
    },
  );
});

describe("Anthropic", () => {
  const bounded = ofZod(z.object({ age: z.number().int(), stars: z.number().min(1).max(5).optional() }));
  const written = {
    type: "object",
    properties: {
      age: { type: "integer" },
      stars: { type: "number", description: "Constraints: minimum 1, maximum 5." },
    },
    required: ["age"],
    ...closed,
  };

  test("gets a format without bounds", () => {
    const { body, omissions } = encode("anthropic", { responseFormat: jsonSchema("answer", bounded) });
    expect(body["output_config"]).toEqual({ format: { type: "json_schema", schema: written } });
    expect(warningsOf(omissions)).toEqual([]);
  });

  test("gets strict tools without bounds, and others as they are", () => {
    const strict = toolSpec({
      name: "f",
      description: "F.",
      schema: bounded,
      providerOptions: { anthropic: { strict: true } },
    });
    const { body } = encode("anthropic", {
      tools: [strict, toolSpec({ name: "g", description: "G.", schema: bounded })],
    });
    expect(body["tools"]).toMatchObject([
      { name: "f", strict: true, input_schema: written },
      { name: "g", input_schema: bounded },
    ]);
  });

  test("reads a schema that it has no format for in the system prompt, with a warning", () => {
    const schema = ofZod(z.object({ scores: z.record(z.string(), z.number()) }));
    const { body, omissions } = encode("anthropic", { responseFormat: jsonSchema("answer", schema) });
    expect(body["output_config"]).toBe(undefined);
    expect(JSON.stringify(body["system"])).toContain(JSON.stringify(JSON.stringify(schema)).slice(1, -1));
    expect(warningsOf(omissions)).toEqual([
      { reason: "unsupported", path: "responseFormat.schema", message: expect.stringContaining("/properties/scores") },
    ]);
    const tool = toolSpec({ name: "f", description: "F.", schema, providerOptions: { anthropic: { strict: true } } });
    const withTool = encode("anthropic", { tools: [tool] });
    expect(withTool.body["tools"]).toMatchObject([{ strict: false, input_schema: schema }]);
    expect(warningsOf(withTool.omissions)).toMatchObject([{ path: "tools[0].strict" }]);
  });
});

describe("Gemini", () => {
  test("gets a schema in the keywords that it reads", () => {
    const schema = { ...ofZod(z.object({ kind: z.literal("a"), n: z.number().positive() })), $schema: "s" };
    const { body } = encode("gemini", { responseFormat: jsonSchema("answer", schema) });
    expect(objectAt(objectAt(body, "generationConfig"), "responseJsonSchema")).toEqual({
      type: "object",
      properties: {
        kind: { type: "string", enum: ["a"] },
        n: { type: "number", description: "Constraints: exclusiveMinimum 0." },
      },
      required: ["kind", "n"],
    });
  });
});

test("Gemini: parameters without a type are an object, which the API requires", () => {
  const parametersOf = (schema: JsonObject) => {
    const { body } = encode("gemini", { tools: [toolSpec({ name: "f", description: "d", schema })] });
    return objectsAt(objectsAt(body, "tools")[0] ?? {}, "functionDeclarations")[0]?.["parametersJsonSchema"];
  };
  const city = { city: { type: "string" } };
  expect(parametersOf({})).toEqual({ type: "object" });
  expect(parametersOf({ properties: city })).toEqual({ type: "object", properties: city });
  expect(parametersOf({ $ref: "#/$defs/A", $defs: { A: { type: "object", properties: city } } })).toEqual({
    $ref: "#/$defs/A",
    $defs: { A: { type: "object", properties: city } },
  });
});
