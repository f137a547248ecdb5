// The subset of JSON Schema that OpenAI accepts, for both APIs: in strict mode (structured output, strict tools) and
// for the parameters of every function.
//
// A row names a schema that is refused and a similar one that is accepted; the examples of the rules are requests with
// these schemas.

import type { Json, JsonObject } from "../../core/model/internal.ts";
import type { Finding, ProviderRequest, ProviderRule } from "./rule.ts";
import type { Subschema } from "./schema-walk.ts";

import { listOf, objectOf, textOrEmpty, valuesAt } from "./rule.ts";
import { hasType, subschemasOf } from "./schema-walk.ts";

/** A schema in a request. */
type SchemaSite = {
  readonly schema: JsonObject;
  /** `response_format 'person'` or `function 'weather'`. */
  readonly label: string;
  /** `error.param`. */
  readonly param: string;
  readonly isStrict: boolean;
  readonly isFunction: boolean;
};

/** Where an API has schemas, and how a request with one schema looks. */
export type SchemaPlaces = {
  /** The path of the format of the output, and its name in `error.param`. */
  readonly format: string;
  readonly formatParam: string;
  /** The path of the functions. */
  readonly functions: string;
  /** A request for structured output in strict mode. */
  readonly output: (schema: JsonObject) => JsonObject;
  /** A request with a function. */
  readonly tool: (parameters: JsonObject, strict: boolean) => JsonObject;
  /** `error.code` for a wrong schema of the output. */
  readonly outputCode: string | null;
};

type SchemaRow = {
  readonly name: string;
  readonly source: string;
  /** `strict`: schemas in strict mode. `function`: the parameters of every function. */
  readonly scope: "strict" | "function";
  /** The part of the message after the label, for every place that is refused. */
  readonly find: (schema: JsonObject) => readonly string[];
  readonly refused: JsonObject;
  readonly accepted: JsonObject;
};

const guide = "https://developers.openai.com/api/docs/guides/structured-outputs";

/** Keywords that strict mode refuses, with an example of a value. */
const strictKeywords: readonly { readonly keyword: string; readonly source: string; readonly value: Json }[] = [
  {
    keyword: "oneOf",
    source: "https://github.com/openai/openai-agents-js/issues/1138",
    value: [{ type: "string" }, { type: "number" }],
  },
  { keyword: "allOf", source: guide, value: [{ type: "string" }] },
  { keyword: "not", source: guide, value: { type: "number" } },
  { keyword: "dependentRequired", source: guide, value: {} },
  { keyword: "dependentSchemas", source: guide, value: {} },
  { keyword: "if", source: guide, value: { type: "string" } },
  { keyword: "then", source: guide, value: { type: "string" } },
  { keyword: "else", source: guide, value: { type: "string" } },
  {
    keyword: "propertyNames",
    source: "https://github.com/can1357/oh-my-pi/issues/209",
    value: { type: "string" },
  },
];

/** Keywords that the parameters of a function must not have at the top. */
const topLevelKeywords = ["oneOf", "anyOf", "allOf", "enum", "not"];

const text: JsonObject = { type: "string" };

/** A closed object whose fields are all required. */
function closed(properties: { readonly [name: string]: JsonObject }): JsonObject {
  return { type: "object", properties, required: Object.keys(properties), additionalProperties: false };
}

/** Objects inside each other. */
function nested(levels: number): JsonObject {
  return closed({ value: levels === 1 ? text : nested(levels - 1) });
}

function numbered(count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => `v${index}`);
}

function withFields(count: number): JsonObject {
  return closed(Object.fromEntries(numbered(count).map((name) => [name, text])));
}

const rows: readonly SchemaRow[] = [
  {
    name: "strict_root_object",
    source: "https://github.com/podly-pure-podcasts/podly_pure_podcasts/pull/89",
    scope: "strict",
    find: (schema) =>
      schema["type"] === "object"
        ? []
        : [`: schema must be a JSON Schema of 'type: "object"', got 'type: "${typeName(schema)}"'.`],
    refused: { type: "array", items: text },
    accepted: closed({ list: { type: "array", items: text } }),
  },
  {
    name: "strict_closed_objects",
    source: "https://github.com/dottxt-ai/outlines/issues/844",
    scope: "strict",
    find: (schema) =>
      inContext(schema, (each) =>
        hasType(each.schema, "object") && each.schema["additionalProperties"] !== false
          ? "'additionalProperties' is required to be supplied and to be false."
          : null,
      ),
    refused: closed({ inner: { type: "object", properties: { city: text }, required: ["city"] } }),
    accepted: closed({ inner: closed({ city: text }) }),
  },
  {
    name: "strict_required_fields",
    source: "https://github.com/vercel/ai/issues/6484",
    scope: "strict",
    find: (schema) =>
      inContext(schema, (each) => {
        const required = listOf(each.schema["required"]);
        const missing = Object.keys(objectOf(each.schema["properties"]) ?? {}).find((name) => !required.includes(name));
        return missing === undefined
          ? null
          : `'required' is required to be supplied and to be an array including every key in properties. Missing '${missing}'.`;
      }),
    refused: { ...closed({ city: text, unit: text }), required: ["city"] },
    accepted: closed({ city: text, unit: { type: ["string", "null"] } }),
  },
  ...strictKeywords.map(({ keyword, source, value }): SchemaRow => ({
    name: `strict_without_${keyword}`,
    source,
    scope: "strict",
    find: (schema) =>
      inContext(schema, (each) => (each.schema[keyword] === undefined ? null : `'${keyword}' is not permitted.`)),
    refused: closed({ value: { type: "string", [keyword]: value } }),
    // A field of that name is no keyword.
    accepted: closed({ [keyword]: text }),
  })),
  {
    name: "strict_levels",
    source: guide,
    scope: "strict",
    find: (schema) => {
      const levels = Math.max(...subschemasOf(schema).map(({ objectLevels }) => objectLevels));
      return levels > 10 ? [`: ${levels} levels of nesting exceeds limit of 10.`] : [];
    },
    refused: nested(11),
    accepted: nested(10),
  },
  {
    name: "strict_properties",
    source: guide,
    scope: "strict",
    find: (schema) => {
      const count = sum(schema, (each) => Object.keys(objectOf(each["properties"]) ?? {}).length);
      return count > 5000 ? [`: ${count} object properties exceeds limit of 5000.`] : [];
    },
    refused: withFields(5001),
    accepted: withFields(5000),
  },
  {
    name: "strict_enum_values",
    source: "https://community.openai.com/t/500-enums-limitation-in-structured-output/974416",
    scope: "strict",
    find: (schema) => {
      const count = sum(schema, (each) => listOf(each["enum"]).length);
      return count > 1000
        ? [
            `: Expected at most 1000 enum values in total within a single schema when using structured outputs, but received ${count}. Consider reducing the number of enums, or use 'strict: false' to opt out of structured outputs.`,
          ]
        : [];
    },
    refused: closed({ value: { type: "string", enum: numbered(1001) } }),
    accepted: closed({ value: { type: "string", enum: numbered(1000) } }),
  },
  {
    name: "function_object",
    source: "https://github.com/elie222/inbox-zero/issues/2231",
    scope: "function",
    find: (schema) =>
      schema["type"] === "object" || Object.keys(schema).length === 0
        ? []
        : [`: schema must be a JSON Schema of 'type: "object"', got 'type: "${typeName(schema)}"'.`],
    refused: { type: "string" },
    accepted: { type: "object", properties: { city: text } },
  },
  {
    name: "function_without_union",
    source: "https://github.com/chatanywhere/GPT_API_free/issues/403",
    scope: "function",
    find: (schema) =>
      schema["type"] === "object" && topLevelKeywords.some((keyword) => schema[keyword] !== undefined)
        ? [": schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level."]
        : [],
    refused: { type: "object", properties: { city: text }, anyOf: [{ required: ["city"] }] },
    accepted: { type: "object", properties: { city: { anyOf: [text, { type: "number" }] } } },
  },
  {
    name: "function_properties",
    source: "https://github.com/spring-projects/spring-ai/issues/4776",
    scope: "function",
    find: (schema) =>
      schema["type"] === "object" && schema["properties"] === undefined
        ? [": In context=(), object schema missing properties."]
        : [],
    refused: { type: "object" },
    accepted: { type: "object", properties: {} },
  },
  {
    name: "function_array_items",
    source: "https://github.com/modelscope/ms-agent/pull/610",
    scope: "function",
    find: (schema) =>
      inContext(schema, (each) =>
        each.schema["type"] === "array" &&
        each.schema["items"] === undefined &&
        each.schema["prefixItems"] === undefined
          ? "array schema missing items."
          : null,
      ),
    refused: { type: "object", properties: { list: { type: "array" } } },
    accepted: { type: "object", properties: { list: { type: "array", items: text } } },
  },
];

/** The schema that a format or a function holds; none for other values. */
function siteOf(value: Json | undefined, key: string, kind: string, param: string): readonly SchemaSite[] {
  const owner = objectOf(value);
  const schema = objectOf(owner?.[key]);
  if (owner === null || schema === null) return [];
  const label = `${kind} '${textOrEmpty(owner["name"])}'`;
  return [{ schema, label, param, isStrict: owner["strict"] === true, isFunction: kind === "function" }];
}

/** The schemas of a request. */
function sitesOf({ format, formatParam, functions }: SchemaPlaces, body: JsonObject): readonly SchemaSite[] {
  return [
    ...valuesAt(body, format).flatMap(({ value }) => siteOf(value, "schema", "response_format", formatParam)),
    ...valuesAt(body, functions).flatMap(({ path, value }) =>
      siteOf(value, "parameters", "function", `${path}.parameters`),
    ),
  ];
}

/** The rules of the table for one API. */
export function openaiSchemaRules(places: SchemaPlaces): readonly ProviderRule[] {
  return rows.map(({ name, source, scope, find, refused, accepted }) => {
    const example = (schema: JsonObject): ProviderRequest => ({
      body: scope === "strict" ? places.output(schema) : places.tool(schema, false),
    });
    const code = scope === "strict" ? places.outputCode : "invalid_function_parameters";
    return {
      name,
      source,
      ...(code === null ? {} : { code }),
      find: ({ body }) =>
        sitesOf(places, body)
          .filter(({ isStrict, isFunction }) => (scope === "strict" ? isStrict : isFunction))
          // The root of the parameters is checked by the rules of functions.
          .filter(({ isFunction }) => !(name === "strict_root_object" && isFunction))
          .flatMap(({ schema, label, param }): readonly Finding[] =>
            find(schema).map((message) => ({ path: param, message: `Invalid schema for ${label}${message}` })),
          ),
      refused: example(refused),
      accepted: example(accepted),
    };
  });
}

/** The messages about subschemas, with the place in the notation of the API: a tuple of Python. */
function inContext(root: JsonObject, complaint: (each: Subschema) => string | null): readonly string[] {
  return subschemasOf(root).flatMap((each) => {
    const message = complaint(each);
    if (message === null) return [];
    const keys = each.context.map((key) => `'${key}'`).join(", ");
    return [`: In context=(${keys}${each.context.length === 1 ? "," : ""}), ${message}`];
  });
}

function sum(root: JsonObject, count: (schema: JsonObject) => number): number {
  return subschemasOf(root).reduce((total, { schema }) => total + count(schema), 0);
}

function typeName(schema: JsonObject): string {
  return typeof schema["type"] === "string" ? schema["type"] : "None";
}
