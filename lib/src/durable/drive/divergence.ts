// Describes how a replay diverged from its journal: the paths at which the ordered effect differs from the recorded
// one. Paths only: the values may be private.

import type { Json } from "../../core/model/internal.ts";

import { isJsonArray, RuntimeError } from "../../core/model/internal.ts";
import { isObject } from "../../core/model/parse/reading.ts";

/** How many paths an error lists at most. */
const maxListedPaths = 8;

/** The paths at which two values differ, in key order, for example `["call.list[1]", "call.name"]`. */
export function divergentPaths(recorded: Json, ordered: Json): readonly string[] {
  const paths: string[] = [];
  walk(recorded, ordered, "", paths);
  return paths;
}

function walk(left: Json | undefined, right: Json | undefined, path: string, paths: string[]): void {
  if (left === right) return;
  if (isJsonArray(left) && isJsonArray(right)) {
    for (let index = 0; index < Math.max(left.length, right.length); index += 1) {
      walk(left[index], right[index], `${path}[${index}]`, paths);
    }
    return;
  }
  if (isObject(left) && isObject(right)) {
    const keys = [...new Set([...Object.keys(left), ...Object.keys(right)])].sort();
    for (const key of keys) walk(left[key], right[key], path === "" ? key : `${path}.${key}`, paths);
    return;
  }
  paths.push(path === "" ? "(all of it)" : path);
}

/** The error of a replay that ordered another effect than the recorded one. The turn is parked with it. */
export function diverged(ordinal: number, effectId: string, paths: readonly string[]): RuntimeError {
  const listed = paths.slice(0, maxListedPaths).join(", ");
  return new RuntimeError("diverged", {
    message: `row ${ordinal} of the journal was recorded for another effect than ${effectId}: ${paths.length} places differ (${listed}); deploy the code that the turn started with, or call recover(id, { from: "step" })`,
    paths: paths.slice(0, maxListedPaths),
    metadata: { ordinal, effectId, count: paths.length },
  });
}
