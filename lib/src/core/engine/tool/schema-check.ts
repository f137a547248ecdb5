// Static checks of a plain JSON Schema, when a tool or an `output` is defined rather than after the first reply has
// been paid for: every `type` is a JSON Schema type, and every `$ref` to the same document resolves. All other keywords
// are left to the validator.
//
// The walk is iterative and visits each object once, so neither deep nor cyclic schemas overflow the stack.

import type { JsonSchema } from "./schema.ts";

import { invalidArgument, renderPath } from "../../model/internal.ts";
import { isPlainObject } from "../../model/parse/reading.ts";

type Path = readonly (string | number)[];

const typeNames: readonly unknown[] = ["null", "boolean", "object", "array", "number", "string", "integer"];

/**
 * Keywords whose value is a schema or a list of schemas. Data keywords such as `enum`, `const` and `default` are not
 * walked.
 */
const subschemaKeywords: readonly string[] = [
  "items",
  "prefixItems",
  "contains",
  "additionalProperties",
  "propertyNames",
  "allOf",
  "anyOf",
  "oneOf",
  "not",
  "if",
  "then",
  "else",
  "unevaluatedProperties",
  "unevaluatedItems",
];

/** Keywords whose value maps arbitrary names to schemas. A property named `type` or `$ref` is not a keyword. */
const namedSubschemaKeywords: readonly string[] = [
  "properties",
  "patternProperties",
  "$defs",
  "definitions",
  "dependentSchemas",
];

/**
 * Throws `MisuseError` for an unknown type and for a `$ref` that does not resolve. `what` names the schema in the
 * error.
 */
export function checkSchema(schema: JsonSchema, what: string): void {
  const visited = new Set<unknown>();
  const stack: (readonly [schema: unknown, path: Path])[] = [[schema, []]];
  for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
    const [subschema, path] = next;
    if (!isPlainObject(subschema) || visited.has(subschema)) continue;
    visited.add(subschema);
    checkType(subschema["type"], what, [...path, "type"]);
    checkReference(schema, subschema["$ref"], what, [...path, "$ref"]);
    for (const keyword of subschemaKeywords) {
      const value = subschema[keyword];
      if (!Array.isArray(value)) stack.push([value, [...path, keyword]]);
      else for (const [index, item] of value.entries()) stack.push([item, [...path, keyword, index]]);
    }
    for (const keyword of namedSubschemaKeywords) {
      const schemasByName = subschema[keyword];
      if (!isPlainObject(schemasByName)) continue;
      for (const [name, value] of Object.entries(schemasByName)) stack.push([value, [...path, keyword, name]]);
    }
  }
}

function checkType(type: unknown, what: string, path: Path): void {
  const types = Array.isArray(type) ? type : type === undefined ? [] : [type];
  const unknownType = types.find((name) => !typeNames.includes(name));
  if (unknownType !== undefined) throw invalidSchema(what, path, `unknown type ${JSON.stringify(unknownType)}`);
}

/**
 * Resolves a `$ref` that is a JSON Pointer into the same document (RFC 6901, as a URI fragment). Anchors, other
 * documents and schemas with an `$id`, which changes the base of references, are left to the validator. `hasOwn` keeps
 * inherited properties out.
 */
function checkReference(root: JsonSchema, reference: unknown, what: string, path: Path): void {
  if (typeof reference !== "string" || !/^#(?:\/|$)/.test(reference) || "$id" in root) return;
  let target: unknown = root;
  for (const token of reference.split("/").slice(1)) {
    const name = unescapeToken(token);
    const next: unknown =
      (isPlainObject(target) || Array.isArray(target)) && Object.hasOwn(target, name)
        ? Reflect.get(target, name)
        : undefined;
    if (next === undefined) throw invalidSchema(what, path, `${JSON.stringify(reference)} does not resolve`);
    target = next;
  }
}

/** Decodes one token of a JSON Pointer in a URI fragment: `~1` is `/`, `~0` is `~`, then percent-encoding. */
function unescapeToken(token: string): string {
  const unescaped = token.replaceAll("~1", "/").replaceAll("~0", "~");
  try {
    return decodeURIComponent(unescaped);
  } catch {
    return unescaped;
  }
}

function invalidSchema(what: string, path: Path, why: string): Error {
  return invalidArgument(`${what}: invalid JSON Schema at ${renderPath(path)}: ${why}`, path);
}
