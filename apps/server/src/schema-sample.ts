// Generates a sample value for a JSON Schema, for the offline model. Deterministic. Types, numeric and length bounds, `enum`, `const`, `default`,
// `$ref`, `anyOf`, `oneOf` and `allOf` are supported; a value for other keywords (`pattern`, `if`) may be invalid, and validation reports it.

import type { Json, JsonObject } from "everturn";

/** The nesting at which a recursive schema is cut off with `null`. */
const maxDepth = 8;

/** Returns a sample value for a schema. */
export function sampleOf(schema: JsonObject): Json {
  return sample(schema, schema, 0);
}

function sample(schema: Json | undefined, root: JsonObject, depth: number): Json {
  if (!isObject(schema) || depth > maxDepth) return null;
  const {
    const: constant,
    enum: values,
    default: defaultValue,
    examples,
    anyOf,
    oneOf,
    allOf,
    $ref: reference,
  } = schema;
  if (constant !== undefined) return constant;
  for (const list of [values, examples]) if (Array.isArray(list) && list[0] !== undefined) return list[0];
  if (defaultValue !== undefined) return defaultValue;
  if (typeof reference === "string") return sample(resolvePointer(root, reference), root, depth + 1);
  for (const list of [anyOf, oneOf]) if (Array.isArray(list)) return sample(list[0], root, depth + 1);
  if (Array.isArray(allOf)) {
    const merged = allOf.filter(isObject).reduce<JsonObject>((all, part) => ({ ...all, ...part }), {});
    return sample(merged, root, depth + 1);
  }
  return byType(schema, root, depth);
}

function byType(schema: JsonObject, root: JsonObject, depth: number): Json {
  const type = Array.isArray(schema["type"]) ? schema["type"][0] : schema["type"];
  switch (type) {
    case "string":
      return textFor(schema);
    case "integer":
    case "number":
      return numberFor(schema, type === "integer");
    case "boolean":
      return true;
    case "array":
      return Array.from({ length: size(schema["minItems"], 1) }, () => sample(schema["items"], root, depth + 1));
    case "object":
      return objectFor(schema, root, depth);
    default:
      return isObject(schema["properties"]) ? objectFor(schema, root, depth) : null;
  }
}

/** Only the required properties. */
function objectFor(schema: JsonObject, root: JsonObject, depth: number): JsonObject {
  const properties = isObject(schema["properties"]) ? schema["properties"] : {};
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  return Object.fromEntries(
    required
      .filter((name) => typeof name === "string")
      .map((name): [string, Json] => [name, sample(properties[name], root, depth + 1)]),
  );
}

function textFor(schema: JsonObject): string {
  const { format } = schema;
  if (format === "date") return "2026-01-01";
  if (format === "date-time") return "2026-01-01T00:00:00Z";
  if (format === "email") return "user@example.com";
  if (format === "uri") return "https://example.com";
  if (format === "uuid") return "00000000-0000-4000-8000-000000000000";
  const longest = size(schema["maxLength"], Number.MAX_SAFE_INTEGER);
  return "text".padEnd(Math.min(size(schema["minLength"], 0), 10_000), "t").slice(0, longest);
}

function numberFor(schema: JsonObject, isWhole: boolean): number {
  const { minimum, exclusiveMinimum, maximum, exclusiveMaximum } = schema;
  const step = isWhole ? 1 : 0.5;
  if (typeof minimum === "number") return isWhole ? Math.ceil(minimum) : minimum;
  if (typeof exclusiveMinimum === "number") return isWhole ? Math.floor(exclusiveMinimum) + 1 : exclusiveMinimum + step;
  if (typeof maximum === "number" && maximum < 1) return isWhole ? Math.floor(maximum) : maximum;
  if (typeof exclusiveMaximum === "number" && exclusiveMaximum <= 1) return Math.ceil(exclusiveMaximum) - step;
  return 1;
}

function size(value: Json | undefined, otherwise: number): number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : otherwise;
}

/** Resolves a JSON Pointer into the same schema (`#/…`). */
function resolvePointer(root: JsonObject, reference: string): Json | undefined {
  if (!reference.startsWith("#")) return undefined;
  const keys = reference.split("/").slice(1);
  return keys.reduce<Json | undefined>((at, key) => {
    const name = decodeURIComponent(key).replaceAll("~1", "/").replaceAll("~0", "~");
    return isObject(at) ? at[name] : undefined;
  }, root);
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
