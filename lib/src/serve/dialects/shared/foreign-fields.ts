// Readers of the fields of bodies in the formats of other libraries: the AI SDK's chat and AG-UI. Each one rejects an
// invalid value with its place.

import type { Issue, Json } from "../../../core/model/internal.ts";

import { ValidationError } from "../../../core/model/internal.ts";
import { isPlainObject, json, read } from "../../../core/model/parse/reading.ts";

/** The place of a value in a body. */
export type Place = readonly (string | number)[];

/** An object whose fields are not checked yet. */
export type Fields = { readonly [key: string]: unknown };

export function objectAt(value: unknown, place: Place): Fields {
  if (isPlainObject(value)) return value;
  throw invalid(place, "must be an object");
}

export function listAt(value: unknown, place: Place): readonly unknown[] {
  if (Array.isArray(value)) return value;
  throw invalid(place, "must be a list");
}

export function textAt(fields: Fields, key: string, place: Place): string {
  const value = fields[key];
  if (typeof value === "string") return value;
  throw invalid([...place, key], "must be a string");
}

export function idAt(fields: Fields, key: string, place: Place, { idLength }: { readonly idLength: number }): string {
  const id = textAt(fields, key, place);
  if (id !== "" && id.length <= idLength) return id;
  throw invalid([...place, key], `must have 1 to ${idLength} characters`);
}

export function jsonAt(value: unknown, place: Place, field: string): Json {
  const parsed = read(json, value);
  if ("value" in parsed) return parsed.value;
  throw new ValidationError("invalid_request", {
    issues: parsed.issues.map((issue) => ({ ...issue, path: [...place, field, ...issue.path] })),
  });
}

export function invalid(path: Place, message: string): ValidationError {
  const issue: Issue = { path, code: "invalid_value", message };
  return new ValidationError("invalid_request", { issues: [issue] });
}
