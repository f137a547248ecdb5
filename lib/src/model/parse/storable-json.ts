// Checks whether parsed JSON text can be stored: depth, number of values, finite numbers. Separate from `parse`, because codecs check every
// frame of a stream: this check copies nothing and stops at the first violation, where `parse` copies and reports all of them.

import type { Json } from "./json.ts";

import { isJsonArray } from "./json.ts";
import { maxJsonDepth, maxNodes } from "./shape.ts";

/**
 * Returns whether parsed JSON can be part of an event or a message. It cannot if it is nested more than `levels` deep, has more than
 * `maxNodes` values, or has a number that overflows: `JSON.parse("1e999")` is `Infinity`. Recursion stops at `levels`.
 */
export function isStorableJson(value: Json, levels: number = maxJsonDepth): boolean {
  return nodesLeft(value, levels, maxNodes) > 0;
}

/** Returns how many more values may follow after this one and its content; negative if the value cannot be stored. */
function nodesLeft(value: Json, levels: number, allowed: number): number {
  let remaining = allowed - 1;
  if (typeof value === "number") return Number.isFinite(value) ? remaining : -1;
  if (typeof value !== "object" || value === null) return remaining;
  if (levels === 0) return -1;
  if (isJsonArray(value)) {
    for (const item of value) {
      remaining = nodesLeft(item, levels - 1, remaining);
      if (remaining < 0) return -1;
    }
    return remaining;
  }
  for (const key in value) {
    const item = value[key];
    if (item !== undefined) remaining = nodesLeft(item, levels - 1, remaining);
    if (remaining < 0) return -1;
  }
  return remaining;
}

/**
 * Returns the value with `null` for numbers that are not finite, or `undefined` if it is nested more than `levels` deep. Returns the
 * same object if nothing has to be replaceNumbers.
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
