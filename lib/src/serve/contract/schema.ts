// Schemas of requests and responses.
//
//   BodySchema<T>   the reader of a body, and the JSON Schema that describes it: what the server accepts and what the
//                   document says cannot differ
//   QueryField<T>   the reader of a query parameter, and its description
//   Described<T>    the JSON Schema of a response. It describes every value of `T`, which the compiler checks; a
//                   response may have more fields
//
// Invariant: an object in a request has no fields that its schema does not list (`additionalProperties: false`).

import type { Json, JsonObject } from "../../core/model/internal.ts";
import type { Fields, OptionalField, PresentField, Shape } from "../../core/model/parse/reading.ts";

import {
  boolean,
  count as countShape,
  either,
  isPlainObject,
  array as listOf,
  json,
  jsonObject,
  number,
  object,
  oneOf,
  optional,
  required,
  string,
} from "../../core/model/parse/reading.ts";

/** A reader for values of type `T`, and the JSON Schema that describes them. */
export type BodySchema<T> = { readonly shape: Shape<T>; readonly schema: JsonObject };

/** The fields of an object schema: one for each key of `T`. */
export type BodyFields<T> = Fields<T> & { readonly [K in keyof T]-?: { readonly schema: JsonObject } };

type RequiredField<T> = PresentField<T> & { readonly schema: JsonObject };
type AbsentField<T> = OptionalField<T> & { readonly schema: JsonObject };

export function requiredField<T>(value: BodySchema<T>, description?: string): RequiredField<T> {
  return { ...required(value.shape), schema: described(value.schema, description) };
}

export function optionalField<T>(value: BodySchema<T>, description?: string): AbsentField<T> {
  return { ...optional(value.shape), schema: described(value.schema, description) };
}

function described(schema: JsonObject, description: string | undefined): JsonObject {
  return description === undefined ? schema : { ...schema, description };
}

/** Fields by their names, and the object that they read. */
type FieldMap = { readonly [name: string]: RequiredField<unknown> | AbsentField<unknown> };
type ObjectOf<F> = {
  readonly [K in keyof F as F[K] extends AbsentField<unknown> ? never : K]: F[K] extends RequiredField<infer T>
    ? T
    : never;
} & {
  readonly [K in keyof F as F[K] extends AbsentField<unknown> ? K : never]?: F[K] extends AbsentField<infer T>
    ? T
    : never;
};

/**
 * An object with these fields and no others. Its type follows from the fields, or is named and then demands a field for
 * each of its keys.
 */
export function objectSchema<F extends FieldMap>(fields: F): BodySchema<ObjectOf<F>>;
export function objectSchema<T extends object>(fields: BodyFields<T>): BodySchema<T>;
export function objectSchema<T extends object>(fields: BodyFields<T>): BodySchema<T> {
  const entries = Object.entries<RequiredField<unknown> | AbsentField<unknown>>(fields);
  const requiredNames = entries.filter(([, { absent }]) => absent.type === "refused").map(([name]) => name);
  const properties = Object.fromEntries(entries.map(([name, { schema }]) => [name, schema]));
  return {
    shape: object<T>(fields),
    schema: {
      type: "object",
      properties,
      ...(requiredNames.length === 0 ? {} : { required: requiredNames }),
      additionalProperties: false,
    },
  };
}

export const stringSchema: BodySchema<string> = { shape: string, schema: { type: "string" } };
export const booleanSchema: BodySchema<boolean> = { shape: boolean, schema: { type: "boolean" } };
export const numberSchema: BodySchema<number> = { shape: number, schema: { type: "number" } };
/** An integer of 0 or more. */
export const countSchema: BodySchema<number> = { shape: countShape, schema: { type: "integer", minimum: 0 } };
export const jsonObjectSchema: BodySchema<JsonObject> = { shape: jsonObject, schema: { type: "object" } };
/** Any JSON value. */
export const jsonSchema: BodySchema<Json> = { shape: json, schema: {} };

export function enumSchema<const T extends string>(values: readonly T[]): BodySchema<T> {
  return { shape: oneOf(values), schema: { type: "string", enum: [...values] } };
}

export function arraySchema<T>({ shape, schema }: BodySchema<T>): BodySchema<readonly T[]> {
  return { shape: listOf(shape), schema: { type: "array", items: schema } };
}

/** A string, or a value of another schema. */
export function stringOr<T>(other: BodySchema<T>): BodySchema<string | T> {
  return {
    shape: either((input) => typeof input === "string", string, other.shape),
    schema: { oneOf: [stringSchema.schema, other.schema] },
  };
}

/** A query parameter of type `T`. */
export type QueryField<T> = {
  readonly description: string;
  readonly schema: JsonObject;
  /** Reads the text; `null`: it is invalid. */
  readonly read: (text: string) => T | null;
  /** The valid texts, for the error message. */
  readonly expected: string;
  /** The most characters, from the limit of ids. Absent: `read` bounds the length. */
  readonly maxLength?: (idLength: number) => number;
};

/** A text of 1 to `maxLength` characters. */
export function textQuery(description: string, maxLength: (idLength: number) => number): QueryField<string> {
  return { description, schema: stringSchema.schema, read: (value) => value, expected: "a text", maxLength };
}

/** A JSON object of texts. */
export function textsQuery(
  description: string,
  maxLength: (idLength: number) => number,
): QueryField<{ readonly [name: string]: string }> {
  return { ...textQuery(description, maxLength), read: readTexts, expected: "a JSON object of texts" };
}

function readTexts(text: string): { readonly [name: string]: string } | null {
  const texts: [name: string, text: string][] = [];
  for (const [name, value] of Object.entries(parsedObject(text) ?? { "": null })) {
    if (typeof value !== "string") return null;
    texts.push([name, value]);
  }
  return Object.fromEntries(texts);
}

function parsedObject(text: string): object | null {
  try {
    const value: unknown = JSON.parse(text);
    return isPlainObject(value) ? value : null;
  } catch {
    return null;
  }
}

/** An integer of 0 or more. */
export function countQuery(description: string, rules: JsonObject = { minimum: 0 }): QueryField<number> {
  return { description, schema: { type: "integer", ...rules }, ...wholeNumber };
}

export const wholeNumber: Pick<QueryField<number>, "read" | "expected"> = {
  read: (text) => (/^\d{1,15}$/.test(text) ? Number(text) : null),
  expected: "a whole number",
};

export function flagQuery(description: string, rules: JsonObject = {}): QueryField<boolean> {
  return { description, schema: { type: "boolean", ...rules }, read: readFlag, expected: "true or false" };
}

function readFlag(text: string): boolean | null {
  return text === "true" ? true : text === "false" ? false : null;
}

export function enumQuery<const T extends string>(description: string, values: readonly T[]): QueryField<T> {
  const read = (text: string) => values.find((value) => value === text) ?? null;
  return { description, schema: { enum: [...values] }, read, expected: `one of ${values.join(", ")}` };
}

/** A JSON Schema that every value of type `T` conforms to. */
export type Described<T> = {
  readonly schema: JsonObject;
  /** Never set. It lets a schema of all texts describe a list of words, and not the reverse. */
  readonly describes?: (value: T) => void;
};

/** The names in a key: several fields that have the same schema are separated by spaces. */
type Names<Key> = Key extends `${infer Name} ${infer Rest}` ? Name | Names<Rest> : Key;

type Recorded<F> = Described<{ readonly [K in keyof F as Names<K>]: F[K] extends Described<infer T> ? T : never }>;

export const text: Described<string> = { schema: { type: "string" } };
export const flag: Described<boolean> = { schema: { type: "boolean" } };
export const decimal: Described<number> = { schema: { type: "number" } };
/** An integer of 0 or more. */
export const count: Described<number> = { schema: { type: "integer", minimum: 0 } };
export const anyObject: Described<object> = { schema: { type: "object" } };
export const anything: Described<unknown> = { schema: {} };

/** The schema with a description. */
export function about<T>({ schema }: Described<T>, description: string): Described<T> {
  return { schema: described(schema, description) };
}

export function words<const T extends string>(values: readonly T[]): Described<T> {
  return { schema: { enum: [...values] } };
}

export function list<T>({ schema }: Described<T>): Described<readonly T[]> {
  return { schema: { type: "array", items: schema } };
}

export function orNull<T>({ schema }: Described<T>): Described<T | null> {
  const { type } = schema;
  const isScalar = typeof type === "string" && type !== "object";
  return { schema: isScalar ? { ...schema, type: [type, "null"] } : { oneOf: [{ type: "null" }, schema] } };
}

/** An object that has all these fields, and possibly more. A key may name several fields: `{ "id name": text }`. */
export function record<F extends { readonly [names: string]: { readonly schema: JsonObject } }>(
  fields: F,
  description?: string,
): Recorded<F> {
  const named = Object.entries(fields).flatMap(([names, { schema }]) => names.split(" ").map((name) => [name, schema]));
  const properties: JsonObject = Object.fromEntries(named);
  return { schema: { ...described({ type: "object" }, description), properties, required: Object.keys(properties) } };
}
