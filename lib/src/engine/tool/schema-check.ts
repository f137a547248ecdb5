// Whether a plain JSON Schema can be used at all, found when it is given and not when the first value has been paid for: types there are, and
// references that lead somewhere. What else a schema says is for the validator.

import type { JsonSchema } from "./schema.ts";

import { MisuseError, renderPath } from "../../model/internal.ts";
import { isPlainObject } from "../../model/parse/reading.ts";

type Path = readonly (string | number)[];

const typeNames: readonly unknown[] = ["null", "boolean", "object", "array", "number", "string", "integer"];

/** Keywords whose value is a schema, or a list of them. */
const inside: readonly string[] = [
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

/** Keywords whose values are schemas, by names that mean nothing here. */
const byName: readonly string[] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/** Throws where a schema names a type there is not, or refers to a place it does not have. */
export function checkSchema(schema: JsonSchema, what: string): void {
  const seen = new Set<unknown>();
  const rest: (readonly [schema: unknown, path: Path])[] = [[schema, []]];
  for (let next = rest.pop(); next !== undefined; next = rest.pop()) {
    const [part, path] = next;
    if (!isPlainObject(part) || seen.has(part)) continue;
    seen.add(part);
    checkType(part["type"], what, [...path, "type"]);
    checkReference(schema, part["$ref"], what, [...path, "$ref"]);
    for (const keyword of inside) {
      const value = part[keyword];
      if (!Array.isArray(value)) rest.push([value, [...path, keyword]]);
      else for (const [index, item] of value.entries()) rest.push([item, [...path, keyword, index]]);
    }
    for (const keyword of byName) {
      const named = part[keyword];
      if (!isPlainObject(named)) continue;
      for (const [name, value] of Object.entries(named)) rest.push([value, [...path, keyword, name]]);
    }
  }
}

function checkType(type: unknown, what: string, path: Path): void {
  const types = Array.isArray(type) ? type : type === undefined ? [] : [type];
  const strange = types.find((one) => !typeNames.includes(one));
  if (strange !== undefined) throw unusable(what, path, `there is no type ${JSON.stringify(strange)}`);
}

/** Places of the schema itself, as pointers. Anchors and other documents are left to the validator. */
function checkReference(root: JsonSchema, reference: unknown, what: string, path: Path): void {
  if (typeof reference !== "string" || !/^#(?:\/|$)/.test(reference) || "$id" in root) return;
  let place: unknown = root;
  for (const step of reference.split("/").slice(1)) {
    const name = unescaped(step);
    const next: unknown =
      (isPlainObject(place) || Array.isArray(place)) && Object.hasOwn(place, name)
        ? Reflect.get(place, name)
        : undefined;
    if (next === undefined) throw unusable(what, path, `${JSON.stringify(reference)} leads nowhere`);
    place = next;
  }
}

function unescaped(step: string): string {
  const plain = step.replaceAll("~1", "/").replaceAll("~0", "~");
  try {
    return decodeURIComponent(plain);
  } catch {
    return plain;
  }
}

function unusable(what: string, path: Path, why: string): MisuseError {
  return new MisuseError("invalid_argument", `${what}: this is no JSON Schema: ${renderPath(path)}: ${why}`, { path });
}
