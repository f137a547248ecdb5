// Reads and changes JSON of recorded request bodies. Independent of the readers in `lib/src/core/wire`, because the
// codecs are what is tested.

import type { Json, JsonObject } from "everturn";

export function isList(value: Json | undefined): value is readonly Json[] {
  return Array.isArray(value);
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !isList(value);
}

/** The object, or an empty one. */
export function objectOf(value: Json | undefined): JsonObject {
  return isObject(value) ? value : {};
}

/** The list, or an empty one. */
export function listOf(value: Json | undefined): readonly Json[] {
  return isList(value) ? value : [];
}

/** The objects of a list. */
export function objectsOf(value: Json | undefined): readonly JsonObject[] {
  return listOf(value).filter(isObject);
}

/** The string, or `null`. */
export function stringOrNull(value: Json | undefined): string | null {
  return typeof value === "string" ? value : null;
}

/** The number, or `null`. */
export function numberOf(value: Json | undefined): number | null {
  return typeof value === "number" ? value : null;
}

/** The boolean, or `null`. */
export function flagOf(value: Json | undefined): boolean | null {
  return typeof value === "boolean" ? value : null;
}

/** The object without these fields. */
export function without(object: JsonObject, ...names: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([name]) => !names.includes(name)));
}

/** The object without fields that are `null`. */
export function withoutNulls(object: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== null));
}

/** The object with one field replaced. A field that is absent stays absent. `undefined` removes the field. */
export function mapField(object: JsonObject, name: string, change: (value: Json) => Json | undefined): JsonObject {
  const value = object[name];
  if (value === undefined) return object;
  const changed = change(value);
  return changed === undefined ? without(object, name) : { ...object, [name]: changed };
}

/** The object with every object of a list field replaced by zero or more objects. Other items of the list stay. */
export function mapObjects(
  object: JsonObject,
  name: string,
  change: (item: JsonObject, index: number) => JsonObject | readonly JsonObject[],
): JsonObject {
  return mapField(object, name, (value) =>
    isList(value)
      ? value.flatMap((item, index): readonly Json[] => (isObject(item) ? [change(item, index)].flat() : [item]))
      : value,
  );
}

/** The value that a text encodes, or the text itself if it is not JSON. */
export function parsedOrText(text: string): Json {
  try {
    const value: Json = JSON.parse(text);
    return value;
  } catch {
    return text;
  }
}

/** Is there no field? */
export function isEmpty(object: JsonObject): boolean {
  return Object.keys(object).length === 0;
}

/** A shortened rendering for reports. */
export function shown(value: Json | undefined, length = 120): string {
  const text = value === undefined ? "absent" : JSON.stringify(value);
  return text.length <= length ? text : `${text.slice(0, length)}…`;
}
