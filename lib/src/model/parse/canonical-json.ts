import type { Json } from "./json.ts";

import { isJsonArray } from "./json.ts";

/**
 * The one written form of a value: keys in the order of their UTF-16 units, no space, numbers and strings as JSON writes them
 * (RFC 8785). Values that are equal have the same text, whatever order their keys were set in.
 *
 * @example
 * ```ts
 * import { canonicalJson } from "everturn/kernel";
 *
 * canonicalJson({ b: [1, { d: null, c: "x" }], a: 1e3 }); // => '{"a":1000,"b":[1,{"c":"x","d":null}]}'
 * ```
 */
export function canonicalJson(value: Json): string {
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  if (isJsonArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  const keys = Object.keys(value).sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${canonicalJson(value[key] ?? null)}`).join(",")}}`;
}
