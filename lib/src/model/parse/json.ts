// What "plain data" means here. Everything stored, sent or replayed is a `Json`.
//
// Stored types are declared as type aliases, never as interfaces: an alias made of JSON is assignable to `Json`, an
// interface never is, so the compiler itself proves that a session or an event can be written down (stored.types.ts).

/** A value that JSON preserves unchanged. */
export type Json = null | boolean | number | string | readonly Json[] | JsonObject;

/** An object of JSON values: metadata, options, arguments, schemas. */
export type JsonObject = { readonly [key: string]: Json };

/** The empty map that absent metadata and options become. */
export const emptyObject: JsonObject = Object.freeze({});

/** The keys of a table, in the order in which they are written. */
export function keysOf<T extends object>(table: T): readonly (keyof T & string)[] {
  const keys: (keyof T & string)[] = [];
  for (const key in table) keys.push(key);
  return keys;
}

/**
 * Is this an object literal, as opposed to an array, a `Date`, a `Map` or an instance of some class?
 * Objects of another realm count, so the test is the shape of the prototype chain and not its identity.
 */
export function isPlainObject(value: unknown): value is { readonly [key: string]: unknown } {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** Is this a JSON array? `Array.isArray` does not narrow a readonly one. */
export function isJsonArray(value: Json | undefined): value is readonly Json[] {
  return Array.isArray(value);
}

/** The value of JSON text; `null` when the text is not JSON. */
export function parseJson(text: string): { readonly value: Json } | null {
  try {
    const value: Json = JSON.parse(text);
    return { value };
  } catch {
    return null;
  }
}

/** Reads an own property; what an object merely inherits (`constructor`, `toString`) is not there. */
export function ownValue(object: { readonly [key: string]: unknown }, key: string): unknown {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

/** Says in two or three words what a value is, for error messages. Never prints the value itself. */
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
