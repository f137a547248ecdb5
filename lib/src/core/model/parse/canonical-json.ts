// Canonical JSON: the form of a value that hashes and comparisons use.

import type { Json } from "./json.ts";

import { isJsonArray } from "./json.ts";

/**
 * Serializes a value as canonical JSON (RFC 8785): keys sorted by their UTF-16 code units, no white space. Equal values
 * have equal text, whatever the order of their keys: `{ b: [1, { d: null, c: "x" }], a: 1e3 }` becomes
 * `{"a":1000,"b":[1,{"c":"x","d":null}]}`.
 */
export function canonicalJson(value: Json): string {
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  if (isJsonArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  const keys = Object.keys(value).sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${canonicalJson(value[key] ?? null)}`).join(",")}}`;
}
