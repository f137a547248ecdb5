// Rules about single fields as rows of data: required fields, patterns, lengths, counts and ranges. The words of a
// refusal depend on the provider.

import type { Json } from "../../core/model/internal.ts";
import type { ProviderRequest, ProviderRule } from "./rule.ts";

import { listOf, objectOf, valuesAt } from "./rule.ts";

/** What a field has to satisfy. A field that is absent or `null` satisfies everything but `required`. */
type Constraint =
  | { readonly type: "required" }
  | { readonly type: "pattern"; readonly pattern: string }
  | { readonly type: "max_length"; readonly max: number }
  | { readonly type: "min_items"; readonly min: number }
  | { readonly type: "max_items"; readonly max: number }
  | { readonly type: "max_properties"; readonly max: number }
  | { readonly type: "min"; readonly min: number }
  | { readonly type: "max"; readonly max: number };

/** One row: the path of the field (`valuesAt`) and its constraint. */
export type FieldLimit = Pick<ProviderRule, "name" | "source" | "refused" | "accepted"> & {
  readonly path: string;
  readonly constraint: Constraint;
};

/**
 * How a provider words the violation of each constraint. `path`: where, in the notation of the provider; `bound`: the
 * pattern or the number of the constraint; `size`: the length, the count or the number that violates it.
 */
export type LimitWords = {
  readonly [T in Constraint["type"]]: {
    /** `error.code` of OpenAI. */
    readonly code?: string;
    readonly message: (path: string, bound: string | number, size: number) => string;
  };
};

/** A field that has to be present. */
export function required(
  name: string,
  source: string,
  path: string,
  refused: ProviderRequest,
  accepted: ProviderRequest,
): FieldLimit {
  return { name, source, path, constraint: { type: "required" }, refused, accepted };
}

/** The rule of a row. `notation`: a path in the notation of the provider. */
export function limitRule(
  words: LimitWords,
  { path, constraint, ...row }: FieldLimit,
  notation = (located: string): string => located,
): ProviderRule {
  const { code, message } = words[constraint.type];
  return {
    ...row,
    ...(code === undefined ? {} : { code }),
    find: ({ body }) =>
      valuesAt(body, path).flatMap((located) => {
        const size = violatingSize(constraint, located.value);
        const at = notation(located.path);
        return size === null ? [] : [{ path: at, message: message(at, boundOf(constraint), size) }];
      }),
  };
}

function boundOf(constraint: Constraint): string | number {
  if ("pattern" in constraint) return constraint.pattern;
  return "max" in constraint ? constraint.max : "min" in constraint ? constraint.min : "";
}

/** The size that violates the constraint; `null` if the value satisfies it. */
function violatingSize(constraint: Constraint, value: Json | undefined): number | null {
  if (value === undefined || value === null) return constraint.type === "required" ? 0 : null;
  switch (constraint.type) {
    case "required":
      return null;
    case "pattern":
      return typeof value === "string" && !new RegExp(constraint.pattern).test(value) ? value.length : null;
    case "max_length":
      return typeof value === "string" && value.length > constraint.max ? value.length : null;
    case "min_items":
      return Array.isArray(value) && listOf(value).length < constraint.min ? listOf(value).length : null;
    case "max_items":
      return listOf(value).length > constraint.max ? listOf(value).length : null;
    case "max_properties": {
      const count = Object.keys(objectOf(value) ?? {}).length;
      return count > constraint.max ? count : null;
    }
    case "min":
      return typeof value === "number" && value < constraint.min ? value : null;
    case "max":
      return typeof value === "number" && value > constraint.max ? value : null;
  }
}
