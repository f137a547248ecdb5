// Generates a sample value for a JSON Schema, for the offline model. Deterministic. Types, numeric and length bounds,
// `enum`, `const`, `default`, `$ref`, `anyOf`, `oneOf` and `allOf` are supported; a value for other keywords
// (`pattern`, `if`) may be invalid, and validation reports it.

import type { Json, JsonObject } from "everturn";

/**
 * The largest number of values in a sample: the schema may come from an HTTP caller. Values beyond it are `null`, and
 * lists are shorter.
 */
const maxValues = 10_000;

/** The nesting at which a recursive schema is cut off with `null`. */
const maxDepth = 8;

/** Returns a sample value for a schema. */
export function sampleOf(schema: JsonObject): Json {
  return sample(schema, { schema, values: 0 }, 0);
}

/** The schema that references point into, and the number of values that the sample has so far. */
type Root = { readonly schema: JsonObject; values: number };

function sample(schema: Json | undefined, root: Root, depth: number): Json {
  root.values += 1;
  if (!isObject(schema) || depth > maxDepth || root.values > maxValues) return null;
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
  if (typeof reference === "string") return sample(resolvePointer(root.schema, reference), root, depth + 1);
  for (const list of [anyOf, oneOf]) if (Array.isArray(list)) return sample(list[0], root, depth + 1);
  if (Array.isArray(allOf)) {
    const merged = allOf.filter(isObject).reduce<JsonObject>((all, part) => ({ ...all, ...part }), {});
    return sample(merged, root, depth + 1);
  }
  return byType(schema, root, depth);
}

function byType(schema: JsonObject, root: Root, depth: number): Json {
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
      return listFor(schema, root, depth);
    case "object":
      return objectFor(schema, root, depth);
    default:
      return isObject(schema["properties"]) ? objectFor(schema, root, depth) : null;
  }
}

function listFor(schema: JsonObject, root: Root, depth: number): readonly Json[] {
  const items: Json[] = [];
  const length = size(schema["minItems"], 1);
  while (items.length < length && root.values < maxValues) items.push(sample(schema["items"], root, depth + 1));
  return items;
}

/** Only the required properties. */
function objectFor(schema: JsonObject, root: Root, depth: number): JsonObject {
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
    const name = decoded(key).replaceAll("~1", "/").replaceAll("~0", "~");
    return isObject(at) ? at[name] : undefined;
  }, root);
}

/** Decodes percent-encoding; a malformed text stays as it is. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
