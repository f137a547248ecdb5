// Where a replay went another way than its record. Paths only: the values may be anybody's.

import type { Json } from "../../model/internal.ts";

import { RuntimeError } from "../../model/internal.ts";

/** How many paths an error lists. */
const shown = 8;

/** The paths at which two values differ, in key order, for example `["call.list[1]", "call.name"]`. */
export function divergentPaths(recorded: Json, asked: Json): readonly string[] {
  const paths: string[] = [];
  walk(recorded, asked, "", paths);
  return paths;
}

function walk(left: Json | undefined, right: Json | undefined, path: string, paths: string[]): void {
  if (left === right) return;
  if (isList(left) && isList(right)) {
    for (let index = 0; index < Math.max(left.length, right.length); index += 1) {
      walk(left[index], right[index], `${path}[${index}]`, paths);
    }
    return;
  }
  if (isMap(left) && isMap(right)) {
    const keys = [...new Set([...Object.keys(left), ...Object.keys(right)])].sort();
    for (const key of keys) walk(left[key], right[key], path === "" ? key : `${path}.${key}`, paths);
    return;
  }
  paths.push(path === "" ? "(all of it)" : path);
}

function isList(value: Json | undefined): value is readonly Json[] {
  return Array.isArray(value);
}

function isMap(value: Json | undefined): value is { readonly [key: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The error of a replay that asked for something else than was recorded. */
export function diverged(ordinal: number, effectId: string, paths: readonly string[]): RuntimeError {
  const listed = paths.slice(0, shown).join(", ");
  return new RuntimeError("diverged", {
    message: `row ${ordinal} of the journal was recorded for another effect than ${effectId}: ${paths.length} places differ (${listed}); deploy the code it began under, or recover(id, { from: "step" })`,
    paths: paths.slice(0, shown),
    metadata: { ordinal, effectId, count: paths.length },
  });
}
