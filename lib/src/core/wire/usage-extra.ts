// `Usage.extra` of the two OpenAI APIs and of the servers that imitate them.

import type { Json, JsonObject } from "../model/internal.ts";

import { asObject } from "./fields.ts";

/**
 * The fields of `usage` without a counterpart in `Usage`. `counted` names those that have one, by path
 * (`prompt_tokens_details.cached_tokens`). Objects named `..._details` are flattened to `name.field`, because usage of
 * several steps is added up field by field; their zeros are left out.
 */
export function extraUsage(reported: JsonObject, counted: ReadonlySet<string>): JsonObject {
  const entries = Object.entries(reported).flatMap(([key, value]): readonly [string, Json][] => {
    if (counted.has(key) || value === null) return [];
    const details = key.endsWith("_details") ? asObject(value) : null;
    if (details === null) return [[key, value]];
    return Object.entries(details).flatMap(([name, item]): readonly [string, Json][] => {
      const path = `${key}.${name}`;
      return counted.has(path) || item === null || item === 0 ? [] : [[path, item]];
    });
  });
  return Object.fromEntries(entries);
}
