// Canonical JSON: the form of a value that hashes and comparisons use.

import type { Json } from "./json.ts";

import { isJsonArray } from "./json.ts";

/**
 * Serializes a value as canonical JSON (RFC 8785): keys sorted by their UTF-16 code units, no white space. Equal values
 * have equal text, whatever the order of their keys: `{ b: [1, { d: null, c: "x" }], a: 1e3 }` becomes
 * `{"a":1000,"b":[1,{"c":"x","d":null}]}`.
 */
export function canonicalJson(value: Json): string {
  const ordered = inOrder(value);
  return ordered === undefined ? written(value) : JSON.stringify(ordered);
}

/**
 * The value with the keys of its objects in order, for `JSON.stringify`, which is faster than building the text here;
 * `undefined`: an object has a key that no object holds in this order. Integers come first in every object, and
 * `__proto__` is no property when it is assigned.
 */
function inOrder(value: Json): Json | undefined {
  if (value === null || typeof value !== "object") return value;
  if (isJsonArray(value)) {
    const items: Json[] = [];
    for (const item of value) {
      const ordered = inOrder(item);
      if (ordered === undefined) return undefined;
      items.push(ordered);
    }
    return items;
  }
  const entries: { [key: string]: Json } = {};
  for (const key of Object.keys(value).sort()) {
    const ordered = isPlainKey(key) ? inOrder(value[key] ?? null) : undefined;
    if (ordered === undefined) return undefined;
    entries[key] = ordered;
  }
  return entries;
}

/** Returns whether objects hold a property of this name in the order of assignment. */
function isPlainKey(key: string): boolean {
  const first = key.charCodeAt(0);
  return !(first >= digitZero && first <= digitNine) && key !== "__proto__";
}

const [digitZero, digitNine] = [48, 57];

function written(value: Json): string {
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  if (isJsonArray(value)) return `[${value.map(written).join(",")}]`;
  const keys = Object.keys(value).sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${written(value[key] ?? null)}`).join(",")}}`;
}
