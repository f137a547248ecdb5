// Forms from JSON Schema: which field a value gets, the texts of fields, and the values of the form as JSON. Pure;
// schema-fields.tsx renders the fields.
//
// A form shows strings, numbers, integers, booleans, enumerations, nested objects and lists of scalars. Everything
// else, also a union of types, is edited as JSON. The server validates the arguments again when the tool runs.
//
// Invariants
//   1. The fields show the whole value: a field that the schema does not name is a field too, at every level
//      (`isInSchema: false`).
//   2. The input of a field shows its value for what it is. A value that the input of the schema's type would show as
//      another value (the text "5" in a field for numbers, an item with a line break in a list with one item on each
//      line) is edited as JSON.
//   3. The input of a field depends on the value that the model wrote and never on what the reader types, so an edit
//      replaces no input.

import type { Json, JsonObject } from "everturn";

import { visibleText } from "everturn";

import { count } from "../parts/format.ts";
import { isObject } from "../parts/json.ts";
import { beginning, exactName, visibleJson } from "../parts/text.ts";

/** A field of a form. */
export type Field = {
  readonly name: string;
  readonly description: string;
  readonly isRequired: boolean;
  /** Whether the schema names the field; `null`: the schema is not known. */
  readonly isInSchema: boolean | null;
  readonly kind: FieldKind;
};

type FieldKind =
  | { readonly type: "string" }
  | { readonly type: "number"; readonly isInteger: boolean; readonly min: number | null; readonly max: number | null }
  | { readonly type: "boolean" }
  | { readonly type: "enum"; readonly values: readonly (string | number)[] }
  | { readonly type: "object"; readonly fields: readonly Field[] }
  | { readonly type: "list"; readonly of: ScalarType }
  | { readonly type: "json" };

type ScalarType = "string" | "number" | "integer";

/** The names of the fields on the way to a field, outermost first. */
export type FieldPath = readonly string[];

const maxDepth = 4;
const maxFields = 60;

/**
 * The fields of a value with the schema of an object; `null`: the schema has no fields that a form can show, or there
 * are too many.
 */
export function fieldsOf(schema: Json, value: JsonObject): readonly Field[] | null {
  if (!isObject(schema)) return null;
  const root = resolved(schema, schema);
  if (!isObject(root["properties"])) return null;
  const fields = objectFields(root, schema, 0, value);
  return fieldCount(fields) > maxFields ? null : fields;
}

/** The fields of a value whose schema is not known, to be shown and not edited. */
export function fieldsOfValue(value: JsonObject): readonly Field[] {
  return Object.keys(value).map((name) => unnamedField(name, null));
}

function unnamedField(name: string, isInSchema: false | null): Field {
  return { name, description: "", isRequired: false, isInSchema, kind: { type: "json" } };
}

function fieldCount(fields: readonly Field[]): number {
  return fields.reduce((sum, { kind }) => sum + (kind.type === "object" ? fieldCount(kind.fields) : 1), 0);
}

function objectFields(schema: JsonObject, root: JsonObject, depth: number, value: JsonObject): readonly Field[] {
  const properties = isObject(schema["properties"]) ? schema["properties"] : {};
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  const named = Object.entries(properties).map(([name, property]): Field => {
    const own = isObject(property) ? resolved(property, root) : {};
    const description = typeof own["description"] === "string" ? own["description"] : "";
    const written = fieldValue(value, name);
    return {
      name,
      description,
      isRequired: required.includes(name),
      isInSchema: true,
      kind: kindOf(own, root, depth, written),
    };
  });
  const others = Object.keys(value).filter((name) => !Object.hasOwn(properties, name));
  return [...named, ...others.map((name) => unnamedField(name, false))];
}

function kindOf(schema: JsonObject, root: JsonObject, depth: number, value: Json | undefined): FieldKind {
  const kind = kindOfSchema(schema, root, depth, value);
  return value === undefined || showsValue(kind, value) ? kind : { type: "json" };
}

/** Whether the input of a kind shows a value for what it is. */
function showsValue(kind: FieldKind, value: Json): boolean {
  switch (kind.type) {
    case "string":
    case "number":
    case "boolean":
      return typeof value === kind.type;
    case "enum":
      return kind.values.some((option) => option === value);
    case "object":
      return isObject(value);
    case "list":
      return Array.isArray(value) && value.every((item) => isOneLine(item, kind.of)) && value.at(-1) !== "";
    case "json":
      return true;
  }
}

function isOneLine(item: Json, of: ScalarType): boolean {
  if (of !== "string") return typeof item === "number";
  return typeof item === "string" && !item.includes("\n") && visibleText(item) === item;
}

function kindOfSchema(schema: JsonObject, root: JsonObject, depth: number, value: Json | undefined): FieldKind {
  const { enum: values, type, items } = schema;
  if (Array.isArray(values) && values.length > 0 && values.length <= 200) {
    const scalars = values.filter((option) => typeof option === "string" || typeof option === "number");
    // `1` and `"1"` are the same text.
    const isDistinct = new Set(scalars.map(String)).size === values.length;
    return isDistinct ? { type: "enum", values: scalars } : { type: "json" };
  }
  switch (type) {
    case "string":
      return { type: "string" };
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
        ? { type: "object", fields: objectFields(schema, root, depth + 1, isObject(value) ? value : {}) }
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
    case "list": {
      if (kind.of === "string" || !Array.isArray(value)) return null;
      const wrong = value.findIndex((item) => typeof item !== "number");
      return wrong === -1 ? null : `line ${wrong + 1} must be a number`;
    }
    case "object":
      if (!isObject(value)) return "must be an object";
      for (const field of kind.fields) {
        const problem = problemOf(field, fieldValue(value, field.name));
        if (problem !== null) return `${exactName(field.name)} ${problem}`;
      }
      return null;
    default:
      return null;
  }
}

/** The text of a value in the input of its field. */
export function fieldText({ type }: FieldKind, value: Json | undefined): string {
  if (value === undefined) return "";
  if (type === "string" && typeof value === "string") return value;
  if (type === "number" && (typeof value === "number" || typeof value === "string")) return String(value);
  if (type === "list" && Array.isArray(value)) return value.map(String).join("\n");
  return visibleJson(value);
}

/** A longer text is not shown before the reader asks for it. */
const maxRows = 30;
const maxLength = 3000;

/**
 * The beginning of a long text, how much of it is missing, and how long it is, in words; `null`: the text is shown
 * completely.
 */
export function longTextOf(
  text: string,
): { readonly head: string; readonly missing: string; readonly size: string } | null {
  const rows = text.split("\n");
  if (rows.length <= maxRows && text.length <= maxLength) return null;
  const head = beginning(rows.slice(0, maxRows).join("\n"), maxLength);
  const shownRows = head.split("\n").length;
  const [missing, size] =
    shownRows < rows.length
      ? [rows.length - shownRows, `${count(rows.length)} rows`]
      : [text.length - head.length, `${count(text.length)} characters`];
  return { head, missing: `${count(missing)} of ${size}`, size };
}

/** The key of a field among all fields of a form. */
export function pathKey(path: FieldPath): string {
  return JSON.stringify(path);
}

/**
 * The paths of fields that a form does not show completely, because their texts are long and the reader has not asked
 * for them. `fields`: `null` for a form with one field for the whole value, whose path is empty.
 */
export function hiddenFields(
  fields: readonly Field[] | null,
  value: JsonObject,
  revealed: readonly string[],
  path: FieldPath = [],
): readonly FieldPath[] {
  const isHidden = (text: string, own: FieldPath): boolean =>
    longTextOf(text) !== null && !revealed.includes(pathKey(own));
  if (fields === null) return isHidden(visibleJson(value), path) ? [path] : [];
  return fields.flatMap(({ name, kind }): readonly FieldPath[] => {
    const own = [...path, name];
    const written = fieldValue(value, name);
    if (kind.type === "object") return hiddenFields(kind.fields, isObject(written) ? written : {}, revealed, own);
    return isHidden(fieldText(kind, written), own) ? [own] : [];
  });
}

/**
 * The value of a text that was typed into a number field: a number, or the text itself while it is none. Empty:
 * `undefined`.
 */
export function numberFrom(text: string): Json | undefined {
  if (text.trim() === "") return undefined;
  const value = Number(text);
  return Number.isFinite(value) ? value : text;
}

/** A list of scalars from text with one item on each line. */
export function listFrom(text: string, of: ScalarType): Json {
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

/**
 * The value of a field of an object; `undefined`: the object has no such field. Names of the prototype (`constructor`)
 * are no fields.
 */
export function fieldValue(value: JsonObject, name: string): Json | undefined {
  return Object.hasOwn(value, name) ? value[name] : undefined;
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
