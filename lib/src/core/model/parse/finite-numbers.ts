// Replaces numbers that JSON cannot represent, in data of providers.

import type { Json } from "./json.ts";

import { isJsonArray } from "./json.ts";
import { isStorableJson } from "./storable-json.ts";

/**
 * Returns the value with `null` for numbers that are not finite, or `undefined` if it is nested more than `levels`
 * deep. Returns the same object if nothing has to be replaced.
 */
export function withFiniteNumbers(value: Json, levels: number): Json | undefined {
  return isStorableJson(value, levels) ? value : replaceNumbers(value, levels);
}

function replaceNumbers(value: Json, levels: number): Json | undefined {
  if (typeof value === "number") return Number.isFinite(value) ? value : null;
  if (typeof value !== "object" || value === null) return value;
  if (levels === 0) return undefined;
  const entries: [string, Json][] = [];
  for (const [key, item] of Object.entries(value)) {
    const replacement = replaceNumbers(item, levels - 1);
    if (replacement === undefined) return undefined;
    entries.push([key, replacement]);
  }
  return isJsonArray(value) ? entries.map(([, item]) => item) : Object.fromEntries(entries);
}
