// Removes from a frame or a body what no event can store: values nested deeper than `maxToolValueDepth`, and numbers
// that are not finite.
//
// Invariants
//   1. A field that cannot be stored is replaced by `null` as a whole. A truncated value would be sent back to the
//      server as replay data that it never sent.
//   2. Only fields of the protocol are searched for the value at fault, so that the rest of the reply is still read.

import type { Json } from "../../model/internal.ts";

import { isJsonArray, isStorableJson, maxToolValueDepth } from "../../model/internal.ts";

/** Containers of the protocol, inside which single fields can be dropped. */
const protocolFields = new Set([
  "choices",
  "delta",
  "message",
  "tool_calls",
  "function",
  "custom",
  "function_call",
  "usage",
  "x_groq",
  "error",
]);

/** The value without what cannot be stored; the same object if all of it can. */
export function dropUnstorable(value: Json, remainingDepth: number = maxToolValueDepth): Json {
  if (isStorableJson(value, remainingDepth)) return value;
  if (typeof value !== "object" || value === null || remainingDepth === 0) return null;
  if (isJsonArray(value)) return value.map((item) => dropUnstorable(item, remainingDepth - 1));
  return Object.fromEntries(
    Object.entries(value).map(([key, item]): [string, Json] => {
      if (protocolFields.has(key)) return [key, dropUnstorable(item, remainingDepth - 1)];
      return [key, isStorableJson(item, remainingDepth - 1) ? item : null];
    }),
  );
}
