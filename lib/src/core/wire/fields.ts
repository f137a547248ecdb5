// Reads fields of unchecked JSON. A field of another type than expected counts as absent, so decoders never throw on it
// (W1).
//
// The readers take `JsonObject | null`, so that lookups can be nested: `textAt(objectAt(body, "error"), "message")`.

import type { Json, JsonObject } from "../model/internal.ts";

import { isJsonArray } from "../model/internal.ts";

/** The value if it is a JSON object, otherwise `null`. */
export function asObject(value: Json | undefined): JsonObject | null {
  return typeof value === "object" && value !== null && !isJsonArray(value) ? value : null;
}

/** The object under a key; `null` if there is none. */
export function objectAt(object: JsonObject | null, key: string): JsonObject | null {
  return object === null ? null : asObject(object[key]);
}

/** The string under a key; `null` if there is none. An empty string is a string. */
export function textAt(object: JsonObject | null, key: string): string | null {
  const value = object?.[key];
  return typeof value === "string" ? value : null;
}

/** The objects of the list under a key. Items of other types are skipped. */
export function objectsAt(object: JsonObject | null, key: string): readonly JsonObject[] {
  const list = listAt(object, key);
  const objects: JsonObject[] = [];
  for (const item of list) {
    const itemObject = asObject(item);
    if (itemObject !== null) objects.push(itemObject);
  }
  return objects;
}

/** The list under a key; empty if there is none. */
export function listAt(object: JsonObject | null, key: string): readonly Json[] {
  const value = object?.[key];
  return value !== undefined && isJsonArray(value) ? value : [];
}

/** The finite number under a key; `null` if there is none. */
export function numberAt(object: JsonObject | null, key: string): number | null {
  const value = object?.[key];
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

/** The count under a key, rounded to an integer. `null` if it is negative or beyond `Number.MAX_SAFE_INTEGER`. */
export function countAt(object: JsonObject | null, key: string): number | null {
  const value = numberAt(object, key);
  return value !== null && value >= 0 && Number.isSafeInteger(Math.round(value)) ? Math.round(value) : null;
}

/** The boolean under a key; `null` if there is none. */
export function flagAt(object: JsonObject | null, key: string): boolean | null {
  const value = object?.[key];
  return typeof value === "boolean" ? value : null;
}

/** The fields whose value is neither `null` nor `undefined`. Encoders use it to build bodies without empty fields. */
export function omitNullish(fields: { readonly [key: string]: Json | undefined }): JsonObject {
  const present = new Map<string, Json>();
  for (const key of Object.keys(fields)) {
    const value = fields[key];
    if (value !== undefined && value !== null) present.set(key, value);
  }
  return Object.fromEntries(present);
}

/** The fields of these names that the object has. */
export function pickFields(object: JsonObject, names: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([name]) => names.includes(name)));
}
