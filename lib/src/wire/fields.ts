// Small readers for JSON nobody has checked: what is not what it should be is simply not there (W1).

import type { Json, JsonObject } from "../model/internal.ts";

import { isJsonArray } from "../model/internal.ts";

export function asObject(value: Json | undefined): JsonObject | null {
  return typeof value === "object" && value !== null && !isJsonArray(value) ? value : null;
}

/** The object under a key, or nothing. */
export function objectAt(object: JsonObject | null, key: string): JsonObject | null {
  return object === null ? null : asObject(object[key]);
}

/** The objects of a list under a key. */
export function objectsAt(object: JsonObject | null, key: string): readonly JsonObject[] {
  const list = listAt(object, key);
  const objects: JsonObject[] = [];
  for (const item of list) {
    const itemObject = asObject(item);
    if (itemObject !== null) objects.push(itemObject);
  }
  return objects;
}

export function listAt(object: JsonObject | null, key: string): readonly Json[] {
  const value = object?.[key];
  return value !== undefined && isJsonArray(value) ? value : [];
}

export function textAt(object: JsonObject | null, key: string): string | null {
  const value = object?.[key];
  return typeof value === "string" ? value : null;
}

export function numberAt(object: JsonObject | null, key: string): number | null {
  const value = object?.[key];
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

/** A count of tokens: whole and not below zero. */
export function countAt(object: JsonObject | null, key: string): number | null {
  const value = numberAt(object, key);
  return value !== null && value >= 0 && Number.isSafeInteger(Math.round(value)) ? Math.round(value) : null;
}

export function flagAt(object: JsonObject | null, key: string): boolean | null {
  const value = object?.[key];
  return typeof value === "boolean" ? value : null;
}

/** The fields that say something: `null` and `undefined` are left out of what is sent. */
export function omitNullish(fields: { readonly [key: string]: Json | undefined }): JsonObject {
  const entries = Object.entries(fields).flatMap(([key, value]): [string, Json][] =>
    value === undefined || value === null ? [] : [[key, value]],
  );
  return Object.fromEntries(entries);
}
