// The cost of a validation with a JSON Schema of an HTTP caller. A validation runs on the event loop and cannot be
// interrupted.
//
// Theory of operation
//   The cost is bounded by the number of nodes of the value, which the model chooses, times the work that the schema
//   causes for one node. This file bounds the work for one node (`maxWork`), and rejects keywords whose work depends on
//   more than that:
//     - regular expressions (catastrophic backtracking); `uniqueItems`, `contains`, `propertyNames` and `unevaluated…`
//       (quadratic in the validator)
//     - recursion, and more than `maxExpanded` subschemas after each `$ref` is replaced by its target (exponential)
//     - `$id`, anchors and other keywords that change the target of a `$ref`: the validator would follow another one
//       than this file
//     - values that the validator does not expect, such as a number in place of a subschema: it throws for them
//
//   The work of a subschema for a node at depth k below the node that it is applied to is a vector, one number for each
//   depth:
//     at depth 0     1, the names of `required` and `properties`, the text of `enum` and `const`, and the vectors of
//                    subschemas for the same node (`allOf`, `$ref`, …)
//     at depth k     the largest vector among `properties`, or among `prefixItems`, because a child has one name and
//                    one index; plus the vectors of subschemas for every child (`items`, `additionalProperties`, …)
//   The work for one node is the largest number of the vector of the schema.

import { isPlainObject } from "../../core/model/parse/reading.ts";

/** Subschemas after each `$ref` is replaced. */
const maxExpanded = 5000;
const maxDepth = 200;
/** The length of the schema as JSON. */
const maxLength = 262_144;

/** Subschemas, names and texts that are compared with one node of a value. */
const maxWork = 60;

/**
 * How many characters of `enum` and `const`, names of `required`, and names of `properties` count as one unit of work.
 */
const [textUnit, requiredUnit, nameUnit] = [128, 2, 10];

/** Keywords with a subschema, or a list of subschemas, for the same node. */
const inPlace: readonly string[] = ["allOf", "anyOf", "oneOf", "not", "if", "then", "else"];
const lists: readonly string[] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/** Keywords with a subschema for every child. */
const forChildren: readonly string[] = ["items", "additionalProperties"];
/** Keywords with subschemas by name. */
const byName: readonly string[] = ["properties", "dependentSchemas", "$defs", "definitions"];
const numbers =
  /^(?:minimum|maximum|exclusiveM(?:in|ax)imum|multipleOf|(?:min|max)(?:Length|Items|Properties|Contains))$/;

/** Keywords whose work is not bounded by the size of the schema. */
const costly: ReadonlySet<string> = new Set([
  "pattern",
  "patternProperties",
  "contains",
  "propertyNames",
  "unevaluatedItems",
  "unevaluatedProperties",
  "dependencies",
  "additionalItems",
]);
const known$: ReadonlySet<string> = new Set(["$ref", "$defs", "$schema", "$comment"]);
/** Formats with a regular expression that backtracks, or that are names of `Object.prototype`. */
const isCostlyFormat = (format: string) => ["url", "uri-template", "regex"].includes(format) || format in {};

/** The reason why a schema is rejected, thrown to leave the recursion. */
class Rejection extends Error {}

function tooMuchWork(): Rejection {
  return new Rejection(`compares a value with more than ${maxWork} subschemas, names and texts`);
}

type Work = readonly number[];

/**
 * What makes the validation with a schema costly or impossible; `null`: nothing. The depth of the schema is bounded by
 * the caller.
 */
export function costProblem(root: object): string | null {
  if (JSON.stringify(root).length > maxLength) return `has more than ${maxLength} characters`;
  const name = referenceName(root);
  if (name !== null) return `uses ${name}, which is not allowed in schemas of callers`;
  let expanded = 0;

  const workOf = (schema: unknown, depth: number): Work => {
    expanded += 1;
    if (expanded > maxExpanded || depth > maxDepth) {
      throw new Rejection(`has more than ${maxExpanded} subschemas when each $ref is replaced, or is recursive`);
    }
    if (typeof schema === "boolean") return [1];
    if (!isPlainObject(schema)) throw new Rejection("has a subschema that is neither an object nor a boolean");
    checkKeywords(schema);
    // Checked before the subschemas, whose number may be large.
    if (ownWork(schema) + inPlace.flatMap((keyword) => subschemas(schema, keyword)).length > maxWork)
      throw tooMuchWork();
    const each = (keyword: string) => subschemas(schema, keyword).map((subschema) => workOf(subschema, depth + 1));
    const reference = schema["$ref"];
    const target = typeof reference === "string" ? [workOf(targetOf(root, reference), depth + 1)] : [];
    const same = [...target, ...[...inPlace, "dependentSchemas"].flatMap(each)];
    const children = [largest(each("properties")), largest(each("prefixItems")), ...forChildren.flatMap(each)];
    return sum([[ownWork(schema)], ...same, ...children.map((work) => [0, ...work])]);
  };

  try {
    const work = Math.max(...workOf(root, 0));
    return work > maxWork ? tooMuchWork().message : null;
  } catch (error) {
    if (error instanceof Rejection) return error.message;
    throw error;
  }
}

/** Rejects keywords that are costly or change references, and values that the validator does not expect. */
function checkKeywords(schema: { readonly [keyword: string]: unknown }): void {
  for (const [keyword, value] of Object.entries(schema)) {
    if (costly.has(keyword) || (keyword === "uniqueItems" && value !== false))
      throw new Rejection(`uses ${keyword}, which is not allowed in schemas of callers`);
    if (!hasExpectedValue(keyword, value)) throw new Rejection(`has an invalid value of ${keyword}`);
  }
  const { $ref: reference, format } = schema;
  if (typeof reference === "string" && !reference.startsWith("#/") && reference !== "#")
    throw new Rejection("has a $ref that is not a JSON pointer of the same schema");
  if (typeof format === "string" && isCostlyFormat(format))
    throw new Rejection(`uses the format ${format}, which is not allowed in schemas of callers`);
}

function hasExpectedValue(keyword: string, value: unknown): boolean {
  if (lists.includes(keyword) || keyword === "enum") return Array.isArray(value);
  if (byName.includes(keyword)) return isPlainObject(value);
  if (keyword === "required") return isNameList(value);
  if (keyword === "dependentRequired") return isPlainObject(value) && Object.values(value).every(isNameList);
  if (numbers.test(keyword)) return typeof value === "number" && (keyword !== "multipleOf" || value > 0);
  return !["$ref", "$schema", "format"].includes(keyword) || typeof value === "string";
}

function isNameList(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((name) => typeof name === "string");
}

/**
 * A name anywhere in a schema that is a keyword of references, or private to the validator; `null`: none. The validator
 * looks for them in unknown keywords too.
 */
function referenceName(value: unknown): string | null {
  if (typeof value !== "object" || value === null) return null;
  for (const [name, part] of Object.entries(value)) {
    const found = /^(?:\$|__)/.test(name) && !known$.has(name) ? name.slice(0, 40) : referenceName(part);
    if (found !== null) return found;
  }
  return null;
}

/** The subschemas of a keyword. */
function subschemas(schema: { readonly [keyword: string]: unknown }, keyword: string): readonly unknown[] {
  const value = schema[keyword];
  if (value === undefined) return [];
  if (Array.isArray(value)) return value;
  return byName.includes(keyword) && isPlainObject(value) ? Object.values(value) : [value];
}

/** The work of a schema for a node, without its subschemas. */
function ownWork(schema: { readonly [keyword: string]: unknown }): number {
  const { enum: allowed, const: only, required, properties, dependentRequired } = schema;
  const text = (JSON.stringify(allowed)?.length ?? 0) + (JSON.stringify(only)?.length ?? 0);
  const names = Object.values(isPlainObject(dependentRequired) ? dependentRequired : {}).flat().length;
  const count = (Array.isArray(required) ? required.length : 0) + names;
  return (
    1 +
    Math.floor(count / requiredUnit) +
    Math.floor(text / textUnit) +
    Math.floor(Object.keys(properties ?? {}).length / nameUnit)
  );
}

/** The elementwise maximum. */
function largest(works: readonly Work[]): Work {
  return combined(works, Math.max);
}

function sum(works: readonly Work[]): Work {
  return combined(works, (one, other) => one + other);
}

function combined(works: readonly Work[], combine: (one: number, other: number) => number): Work {
  const length = works.reduce((most, work) => Math.max(most, work.length), 0);
  return Array.from({ length }, (_, depth) => works.reduce((before, work) => combine(before, work[depth] ?? 0), 0));
}

/**
 * The target of a JSON pointer (RFC 6901, as a URI fragment); `undefined` if there is none, which the validator
 * reports.
 */
function targetOf(root: object, reference: string): unknown {
  let target: unknown = root;
  for (const token of reference.split("/").slice(1)) {
    const name = decoded(token).replaceAll("~1", "/").replaceAll("~0", "~");
    const isContainer = typeof target === "object" && target !== null && Object.hasOwn(target, name);
    target = isContainer && typeof target === "object" && target !== null ? Reflect.get(target, name) : undefined;
  }
  return target;
}

function decoded(token: string): string {
  try {
    return decodeURIComponent(token);
  } catch {
    return token;
  }
}
