// Checks whether parsed JSON text can be stored: depth, number of values, finite numbers. Separate from `parse`,
// because codecs check every frame of a stream: this check copies nothing and stops at the first violation, where
// `parse` copies and reports all of them.

import type { Json } from "./json.ts";

import { isJsonArray, isPlainObject } from "./json.ts";
import { maxJsonDepth, maxNodes } from "./shape.ts";

/**
 * Returns whether parsed JSON can be part of an event or a message. It cannot if it is nested more than `levels` deep,
 * has more than `maxNodes` values, or has a number that overflows: `JSON.parse("1e999")` is `Infinity`. Recursion stops
 * at `levels`.
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
 * Returns a copy of a value as plain JSON, or `undefined` where the shape `json` reports an issue: for functions, class
 * instances, numbers that are not finite, cycles, values that are too deep or too large. With `isRefused` an entry of
 * an object can be an issue as well. For values that are dropped if they cannot be stored, so their issues are not
 * needed.
 */
export function storableCopy(
  value: unknown,
  isRefused: (key: string, item: unknown) => boolean = () => false,
): Json | undefined {
  const ancestors: object[] = [];
  let nodes = 0;
  return copy(value);

  function copy(item: unknown): Json | undefined {
    if (nodes > maxNodes) return undefined;
    nodes += 1;
    if (item === null || typeof item === "string" || typeof item === "boolean") return item;
    if (typeof item === "number") return Number.isFinite(item) ? item : undefined;
    if (!Array.isArray(item) && !isPlainObject(item)) return undefined;
    if (ancestors.length >= maxJsonDepth || ancestors.includes(item)) return undefined;
    ancestors.push(item);
    const copied = Array.isArray(item) ? copyList(item) : copyEntries(item);
    ancestors.pop();
    return copied;
  }

  function copyList(list: readonly unknown[]): Json | undefined {
    const items: Json[] = [];
    for (const item of list) {
      const copied = copy(item);
      if (copied === undefined) return undefined;
      items.push(copied);
    }
    return items;
  }

  function copyEntries(object: object): Json | undefined {
    const entries: [string, Json][] = [];
    for (const [key, item] of Object.entries(object)) {
      const copied = isRefused(key, item) ? undefined : copy(item);
      if (copied === undefined) return undefined;
      entries.push([key, copied]);
    }
    return Object.fromEntries(entries);
  }
}
