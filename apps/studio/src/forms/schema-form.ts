// Forms from JSON Schema: which field a schema gets, and the values of the form as JSON. Pure; schema-fields.tsx renders the fields.
//
// A form shows strings, numbers, integers, booleans, enumerations, nested objects and lists of scalars. Everything else, also a union of types, is edited as JSON.
// The server validates the arguments again when the tool runs.

import type { Json, JsonObject } from "everturn/model";

import { isObject } from "../parts/json.ts";

/** A field of a form. */
export type Field = {
  readonly name: string;
  readonly description: string;
  readonly isRequired: boolean;
  readonly kind: FieldKind;
};

type FieldKind =
  | { readonly type: "string"; readonly isLong: boolean }
  | { readonly type: "number"; readonly isInteger: boolean; readonly min: number | null; readonly max: number | null }
  | { readonly type: "boolean" }
  | { readonly type: "enum"; readonly values: readonly (string | number)[] }
  | { readonly type: "object"; readonly fields: readonly Field[] }
  | { readonly type: "list"; readonly of: "string" | "number" | "integer" }
  | { readonly type: "json" };

const maxDepth = 4;
const maxFields = 60;

/** The fields of a schema of an object; `null`: the schema has no fields that a form can show. */
export function fieldsOf(schema: Json, value: JsonObject): readonly Field[] | null {
  if (!isObject(schema)) return null;
  const root = resolved(schema, schema);
  const properties = isObject(root["properties"]) ? root["properties"] : null;
  if (properties === null) return null;
  const fields = objectFields(root, schema, 0);
  // Arguments that the schema does not name must not disappear from the form.
  const others = Object.keys(value).filter((name) => !Object.hasOwn(properties, name));
  if (fields.length + others.length > maxFields) return null;
  return [
    ...fields,
    ...others.map((name): Field => ({ name, description: "", isRequired: false, kind: { type: "json" } })),
  ];
}

function objectFields(schema: JsonObject, root: JsonObject, depth: number): readonly Field[] {
  const properties = isObject(schema["properties"]) ? schema["properties"] : {};
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  return Object.entries(properties).map(([name, property]) => {
    const own = isObject(property) ? resolved(property, root) : {};
    const description = typeof own["description"] === "string" ? own["description"] : "";
    return { name, description, isRequired: required.includes(name), kind: kindOf(own, root, depth) };
  });
}

function kindOf(schema: JsonObject, root: JsonObject, depth: number): FieldKind {
  const { enum: values, type, items } = schema;
  if (Array.isArray(values) && values.length > 0 && values.length <= 200) {
    const scalars = values.filter((value) => typeof value === "string" || typeof value === "number");
    return scalars.length === values.length ? { type: "enum", values: scalars } : { type: "json" };
  }
  switch (type) {
    case "string":
      return {
        type: "string",
        isLong: numberOf(schema["maxLength"]) === null || (numberOf(schema["maxLength"]) ?? 0) > 80,
      };
    case "number":
    case "integer":
      return {
        type: "number",
        isInteger: type === "integer",
        min: numberOf(schema["minimum"]),
        max: numberOf(schema["maximum"]),
      };
    case "boolean":
      return { type: "boolean" };
    case "object":
      return isObject(schema["properties"]) && depth < maxDepth
        ? { type: "object", fields: objectFields(schema, root, depth + 1) }
        : { type: "json" };
    case "array": {
      const item = isObject(items) ? resolved(items, root)["type"] : undefined;
      const isScalar = item === "string" || item === "number" || item === "integer";
      return isScalar && !hasEnum(items) ? { type: "list", of: item } : { type: "json" };
    }
    default:
      return { type: "json" };
  }
}

function hasEnum(schema: Json | undefined): boolean {
  return schema !== undefined && isObject(schema) && schema["enum"] !== undefined;
}

/** Follows a reference inside of the schema (`#/$defs/Name`), once. */
function resolved(schema: JsonObject, root: JsonObject): JsonObject {
  const path = /^#\/(\$defs|definitions)\/([^/]+)$/.exec(typeof schema["$ref"] === "string" ? schema["$ref"] : "");
  if (path === null) return schema;
  const definitions = root[path[1] ?? ""];
  const name = path[2] ?? "";
  const target =
    definitions !== undefined && isObject(definitions) && Object.hasOwn(definitions, name) ? definitions[name] : null;
  return target !== null && target !== undefined && isObject(target) ? target : {};
}

/** What is wrong with the value of a field, for the reader; `null`: nothing. A missing value is `undefined`. */
export function problemOf({ kind, isRequired }: Field, value: Json | undefined): string | null {
  if (value === undefined) return isRequired ? "is required" : null;
  switch (kind.type) {
    case "number":
      if (typeof value !== "number" || !Number.isFinite(value)) return "must be a number";
      if (kind.isInteger && !Number.isInteger(value)) return "must be a whole number";
      if (kind.min !== null && value < kind.min) return `must be at least ${kind.min}`;
      return kind.max !== null && value > kind.max ? `must be at most ${kind.max}` : null;
    case "object":
      if (!isObject(value)) return "must be an object";
      for (const field of kind.fields) {
        const problem = problemOf(field, value[field.name]);
        if (problem !== null) return `${field.name} ${problem}`;
      }
      return null;
    default:
      return null;
  }
}

/** The value of a text that was typed into a number field: a number, or the text itself while it is none. Empty: `undefined`. */
export function numberFrom(text: string): Json | undefined {
  if (text.trim() === "") return undefined;
  const value = Number(text);
  return Number.isFinite(value) ? value : text;
}

/** A list of scalars from text with one item on each line. */
export function listFrom(text: string, of: "string" | "number" | "integer"): Json {
  const lines = text.split("\n").filter((line, index, all) => line !== "" || index < all.length - 1);
  return of === "string" ? lines : lines.map((line) => numberFrom(line) ?? "");
}

/** The value of a JSON text, or what is wrong with the text. */
export function parsedOrProblem(text: string): { readonly value: Json; readonly problem: string | null } {
  try {
    const value: Json = JSON.parse(text);
    return { value, problem: null };
  } catch (error) {
    return { value: null, problem: error instanceof Error ? error.message : "is not JSON" };
  }
}

/** Sets or removes a field of an object. */
export function withField(value: JsonObject, name: string, field: Json | undefined): JsonObject {
  const entries = Object.entries(value);
  if (field === undefined) return Object.fromEntries(entries.filter(([key]) => key !== name));
  const position = entries.findIndex(([key]) => key === name);
  return Object.fromEntries(position === -1 ? [...entries, [name, field]] : entries.with(position, [name, field]));
}

/** Whether two JSON values are equal, whatever the order of their fields. */
export function isSameJson(left: Json | undefined, right: Json | undefined): boolean {
  if (left === right) return true;
  if (left === undefined || right === undefined) return false;
  if (Array.isArray(left) && Array.isArray(right)) {
    return left.length === right.length && left.every((item, index) => isSameJson(item, right[index]));
  }
  if (!isObject(left) || !isObject(right)) return false;
  const names = Object.keys(left);
  return (
    names.length === Object.keys(right).length &&
    names.every((name) => Object.hasOwn(right, name) && isSameJson(left[name], right[name]))
  );
}

function numberOf(value: Json | undefined): number | null {
  return typeof value === "number" ? value : null;
}
