// Whether JSON of unknown origin fits into what is stored. A check of its own, because codecs ask it of every frame of a stream: it copies
// nothing and stops at the first thing that does not fit, where `parse` copies and reports.

import type { Json } from "./json.ts";

import { isJsonArray } from "./json.ts";
import { maxJsonDepth, maxNodes } from "./shape.ts";

/**
 * Can parsed JSON text stand in an event or a message? Not when it is nested more than `levels` deep, holds too many values, or holds a
 * number that JSON text can write and JSON cannot hold (`1e999`). Follows no value deeper than `levels`.
 */
export function isStorableJson(value: Json, levels: number = maxJsonDepth): boolean {
  return nodesLeft(value, levels, maxNodes) > 0;
}

/** What is left of the allowance of values after this one and all in it; negative when something does not fit. */
function nodesLeft(value: Json, levels: number, allowed: number): number {
  let left = allowed - 1;
  if (typeof value === "number") return Number.isFinite(value) ? left : -1;
  if (typeof value !== "object" || value === null) return left;
  if (levels === 0) return -1;
  if (isJsonArray(value)) {
    for (const one of value) {
      left = nodesLeft(one, levels - 1, left);
      if (left < 0) return -1;
    }
    return left;
  }
  for (const key in value) {
    const one = value[key];
    if (one !== undefined) left = nodesLeft(one, levels - 1, left);
    if (left < 0) return -1;
  }
  return left;
}

/**
 * The value with `null` for numbers that JSON cannot hold; `undefined` when it is nested more than `levels` deep. The same value when
 * nothing has to be replaced.
 */
export function withFiniteNumbers(value: Json, levels: number): Json | undefined {
  return isStorableJson(value, levels) ? value : replaced(value, levels);
}

function replaced(value: Json, levels: number): Json | undefined {
  if (typeof value === "number") return Number.isFinite(value) ? value : null;
  if (typeof value !== "object" || value === null) return value;
  if (levels === 0) return undefined;
  const entries: [string, Json][] = [];
  for (const [key, one] of Object.entries(value)) {
    const kept = replaced(one, levels - 1);
    if (kept === undefined) return undefined;
    entries.push([key, kept]);
  }
  return isJsonArray(value) ? entries.map(([, one]) => one) : Object.fromEntries(entries);
}
