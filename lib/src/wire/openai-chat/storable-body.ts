// What of a frame or a body can be held. Events are data of the model, which has a deepest nesting and no endless numbers; servers have neither.
//
// Rules:
//   1. A field that does not fit is left out whole: half of it would go back to the server as something it never said.
//   2. Only the fields of the protocol itself are looked into for the one that is at fault, so that the rest of the reply is heard.

import type { Json } from "../../model/internal.ts";

import { isJsonArray, isStorableJson, maxToolValueDepth } from "../../model/internal.ts";

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

/** The value without what the model has no room for; the same value when all of it fits. */
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
