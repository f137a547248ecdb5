// Writes the parameters of a function with a root that OpenAI and Anthropic accept: an object without `anyOf`, `oneOf`,
// `allOf`, `enum` and `not` beside its fields.
//
// Theory of operation
//   Arguments are always an object. A union of objects at the root (a discriminated union, or "one of these fields is
//   required", which MCP servers write) is sent as one object with the fields of all branches: those that every branch
//   requires are required, and a field that branches describe differently is a union. The description of the object has
//   the keywords that are not sent, so that the model can keep to them; the schema of the program validates the
//   arguments. Sources: github.com/chatanywhere/GPT_API_free/issues/403 (OpenAI),
//   github.com/anthropics/claude-code/issues/40075 (Anthropic).
//
// Invariant: every object that the given schema accepts is accepted by the result.

import type { Json, JsonObject } from "../model/internal.ts";

import { listAt, objectAt, objectsAt } from "./fields.ts";
import { definitionAt, typesOf, withoutSingleAllOf } from "./schema-nodes.ts";

/** Keywords that are refused at the root of parameters. */
const rootKeywords = ["anyOf", "oneOf", "allOf", "enum", "not"] as const;

/** The parameters as one object. A schema that has an accepted root is returned as it is. */
export function objectParameters(schema: JsonObject): JsonObject {
  const isAccepted = !["$ref", ...rootKeywords].some((keyword) => schema[keyword] !== undefined);
  const { type } = schema;
  if (isAccepted && (type === undefined || typeof type === "string")) return schema;
  const open = new Set(["#"]);
  const root = resolved(schema, schema, open) ?? schema;
  const fields = mergedFields(root, schema, open);
  const dropped = rootKeywords.flatMap((keyword) => {
    const value = root[keyword];
    return value === undefined ? [] : [`${keyword} ${JSON.stringify(value)}`];
  });
  const { description, properties: _, required: __, additionalProperties: ___, ...rest } = root;
  const texts = [
    ...(typeof description === "string" && description !== "" ? [description] : []),
    ...(dropped.length === 0 ? [] : [`Constraints: ${dropped.join(", ")}.`]),
  ];
  const kept = Object.entries(rest).filter(([key]) => !rootKeywords.some((keyword) => keyword === key));
  return {
    ...Object.fromEntries(kept),
    type: "object",
    properties: Object.fromEntries(fields.properties),
    ...(fields.required.size === 0 ? {} : { required: [...fields.required] }),
    ...(fields.additional === undefined ? {} : { additionalProperties: fields.additional }),
    ...(texts.length === 0 ? {} : { description: texts.join("\n\n") }),
  };
}

type Fields = {
  readonly properties: ReadonlyMap<string, Json>;
  readonly required: ReadonlySet<Json>;
  /** `additionalProperties`; `undefined`: absent. */
  readonly additional: Json | undefined;
};

/** The fields of a node and of its branches. `open`: the references to the nodes around it. */
function mergedFields(node: JsonObject, root: JsonObject, open: ReadonlySet<string>): Fields {
  const own: Fields = {
    properties: new Map(Object.entries(objectAt(node, "properties") ?? {})),
    required: new Set(listAt(node, "required")),
    additional: node["additionalProperties"],
  };
  const branchFields = (keyword: "anyOf" | "oneOf" | "allOf") =>
    objectsAt(node, keyword).flatMap((branch) => {
      const followed = new Set(open);
      const target = resolved(branch, root, followed);
      const isObject = target !== null && (typesOf(target)?.includes("object") ?? true);
      return isObject ? [mergedFields(target, root, followed)] : [];
    });
  const unions = [branchFields("anyOf"), branchFields("oneOf")].filter((branches) => branches.length > 0);
  const parts = [own, ...unions.map(united), ...branchFields("allOf")];
  const properties = merged(parts.map((part) => part.properties));
  const [additional] = parts.flatMap((part) => part.additional ?? []);
  return { properties, required: new Set(parts.flatMap((part) => [...part.required])), additional };
}

/** The fields that an object of one of the branches may have. */
function united(branches: readonly Fields[]): Fields {
  const [first] = branches;
  const required = [...(first?.required ?? [])].filter((name) => branches.every((branch) => branch.required.has(name)));
  return {
    properties: merged(branches.map((branch) => branch.properties)),
    required: new Set(required),
    additional: branches.every((branch) => branch.additional === false) ? false : undefined,
  };
}

/** All fields. One that is described in several ways is a union of them. */
function merged(parts: readonly ReadonlyMap<string, Json>[]): ReadonlyMap<string, Json> {
  const names = new Set(parts.flatMap((part) => [...part.keys()]));
  return new Map(
    [...names].map((name): [string, Json] => {
      const schemas = parts.flatMap((part) => part.get(name) ?? []);
      const distinct = new Map(schemas.map((schema) => [JSON.stringify(schema), schema]));
      const [only = {}] = distinct.values();
      return [name, distinct.size === 1 ? only : { anyOf: [...distinct.values()] }];
    }),
  );
}

/**
 * The node that a reference leads to, with the keywords beside the reference; `null`: a node of `followed`, to which
 * the references on the way are added.
 */
function resolved(schema: JsonObject, root: JsonObject, followed: Set<string>): JsonObject | null {
  const node = withoutSingleAllOf(schema);
  const { $ref: reference, ...siblings } = node;
  if (typeof reference !== "string") return node;
  if (followed.has(reference)) return null;
  followed.add(reference);
  const definition = definitionAt(root, reference);
  const target = definition === null ? {} : resolved(definition, root, followed);
  return target === null ? null : { ...target, ...siblings };
}
