// Reads nodes of a JSON Schema.

import type { Json, JsonObject } from "../model/internal.ts";

import { isJsonArray } from "../model/internal.ts";
import { asObject, listAt, objectAt } from "./fields.ts";

/** Keywords that say nothing about which values belong to a schema. */
export const annotations: ReadonlySet<string> = new Set(["title", "description"]);

/**
 * The definition that a local reference names; `null`: there is none. `#` and `#/$defs/<name>` are the references that
 * strict mode accepts.
 */
export function definitionAt(root: JsonObject, reference: string): JsonObject | null {
  if (reference === "#") return root;
  const [, group, token] = /^#\/(\$defs|definitions)\/([^/]+)$/.exec(reference) ?? [];
  if (group === undefined || token === undefined) return null;
  const definitions = objectAt(root, group);
  const name = token.replaceAll("~1", "/").replaceAll("~0", "~");
  return definitions !== null && Object.hasOwn(definitions, name) ? asObject(definitions[name]) : null;
}

/** `allOf` with one branch says what the branch says. */
export function withoutSingleAllOf(schema: JsonObject): JsonObject {
  const branches = listAt(schema, "allOf");
  const branch = branches.length === 1 ? asObject(branches[0]) : null;
  if (branch === null) return schema;
  const { allOf: _, ...siblings } = schema;
  const conflicts = Object.keys(siblings).some((key) => key in branch && !annotations.has(key));
  return conflicts ? schema : withoutSingleAllOf({ ...branch, ...siblings });
}

/** The values of `enum` or `const`; `null`: the schema has neither. */
export function literalsOf(schema: JsonObject): readonly Json[] | null {
  const { const: literal, enum: literals } = schema;
  if (literal !== undefined) return [literal];
  return literals !== undefined && isJsonArray(literals) ? literals : null;
}

/** The types of a node: `type`, or what its other keywords imply; `null`: any. */
export function typesOf(schema: JsonObject): readonly string[] | null {
  const { type } = schema;
  if (typeof type === "string") return [type];
  if (type !== undefined && isJsonArray(type)) return type.filter((item) => typeof item === "string");
  const values = literalsOf(schema);
  if (values !== null) return [...new Set(values.map(typeOf))];
  if (schema["properties"] !== undefined) return ["object"];
  return schema["items"] === undefined ? null : ["array"];
}

export function typeOf(value: Json): string {
  if (value === null) return "null";
  return isJsonArray(value) ? "array" : typeof value;
}
