// Walks a JSON Schema: every subschema with its place.

import type { Json, JsonObject } from "../../core/model/internal.ts";

import { listOf, objectOf } from "./rule.ts";

/** A subschema. `context` is the list of keys from the root to it. */
export type Subschema = {
  readonly schema: JsonObject;
  readonly context: readonly string[];
  /** The number of objects around it, itself included. */
  readonly objectLevels: number;
};

// Keywords whose value is a schema, a list of schemas, or an object of schemas by name.
const single = ["items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"];
const lists = ["anyOf", "oneOf", "allOf", "prefixItems"];
const maps = ["properties", "$defs", "definitions", "patternProperties", "dependentSchemas"];

/** The root and every schema below it. References are not followed: definitions are visited where they stand. */
export function subschemasOf(root: JsonObject): readonly Subschema[] {
  const found: Subschema[] = [];
  const visit = (value: Json | undefined, context: readonly string[], outerLevels: number): void => {
    const schema = objectOf(value);
    if (schema === null) return;
    const objectLevels = outerLevels + (hasType(schema, "object") ? 1 : 0);
    found.push({ schema, context, objectLevels });
    for (const key of single) visit(schema[key], [...context, key], objectLevels);
    for (const key of lists)
      for (const [index, item] of listOf(schema[key]).entries())
        visit(item, [...context, key, `${index}`], objectLevels);
    for (const key of maps)
      for (const [name, item] of Object.entries(objectOf(schema[key]) ?? {}))
        visit(item, [...context, key, name], objectLevels);
  };
  visit(root, [], 0);
  return found;
}

/** Does the schema declare the type, alone or in a list? */
export function hasType(schema: JsonObject, type: string): boolean {
  return schema["type"] === type || listOf(schema["type"]).includes(type);
}
