// The readers of fields that adapters need before a call; the others are in fields.ts.

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
