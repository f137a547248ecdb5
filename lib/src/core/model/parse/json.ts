// JSON values, and helpers to inspect unknown ones. Everything that is stored, sent or replayed is a `Json`.
//
// Stored types are declared as type aliases and never as interfaces. An alias of JSON fields is assignable to `Json`;
// an interface is not, because it could be extended. So the compiler proves that sessions and events are serializable
// (stored.types.ts).

/** A value that JSON preserves unchanged. */
export type Json = null | boolean | number | string | readonly Json[] | JsonObject;

/** An object of JSON values: metadata, options, arguments, schemas. */
export type JsonObject = { readonly [key: string]: Json };

/** The shared, frozen empty object: the default of metadata and options. */
export const emptyObject: JsonObject = Object.freeze({});

/** Returns the keys of a table in source order. */
export function keysOf<T extends object>(table: T): readonly (keyof T & string)[] {
  const keys: (keyof T & string)[] = [];
  for (const key in table) keys.push(key);
  return keys;
}

/**
 * Returns whether a value is an object literal, as opposed to an array, a `Date`, a `Map` or another instance of a
 * class. Checks the length of the prototype chain and not its identity, because object literals of another realm count
 * too.
 */
export function isPlainObject(value: unknown): value is { readonly [key: string]: unknown } {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** Returns whether a value is an object of any class, as opposed to an array or a primitive value. */
export function isObject(value: unknown): value is { readonly [key: string]: unknown } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns whether a value is a JSON array. `Array.isArray` does not narrow a readonly array. */
export function isJsonArray(value: Json | undefined): value is readonly Json[] {
  return Array.isArray(value);
}

/** Returns whether a JSON value is an object, as opposed to an array or a scalar. */
export function isJsonObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Parses JSON text. Returns `null` if the text is not JSON. */
export function parseJson(text: string): { readonly value: Json } | null {
  try {
    const value: Json = JSON.parse(text);
    return { value };
  } catch {
    return null;
  }
}

/**
 * Reads an own property. Inherited properties (`constructor`, `toString`) are `undefined`, which prevents prototype
 * pollution by keys.
 */
export function ownValue(object: { readonly [key: string]: unknown }, key: string): unknown {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

/**
 * Describes the type of a value in two or three words, for error messages. Never includes the value, which may be
 * private.
 */
export function describe(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "an array";
  if (typeof value === "string") return value === "" ? "an empty string" : "a string";
  if (typeof value === "number") return Number.isFinite(value) ? "a number" : String(value);
  if (typeof value === "object") return isPlainObject(value) ? "an object" : describeInstance(value);
  return value === undefined ? "undefined" : `a ${typeof value}`;
}

function describeInstance(value: object): string {
  const prototype: unknown = Object.getPrototypeOf(value);
  const constructor: unknown =
    typeof prototype === "object" && prototype !== null ? Reflect.get(prototype, "constructor") : undefined;
  const name: unknown = typeof constructor === "function" ? Reflect.get(constructor, "name") : "";
  return typeof name === "string" && /^\w{1,64}$/.test(name) ? `a ${name}` : "an instance";
}
