// Rules about single fields as rows of data: required fields, patterns, lengths, counts and ranges. The words of a
// refusal depend on the provider.

import type { Json } from "../../core/model/internal.ts";
import type { Finding, Located, ProviderRule } from "./rule.ts";

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

/** A violated constraint. `size` is the length, the count or the number. */
type Broken = { readonly constraint: Constraint; readonly path: string; readonly size: number };

/** How a provider words the violation of a constraint. */
export type LimitWords = (broken: Broken) => Finding & { readonly code?: string };

/** The rule of a row. */
export function limitRule(words: LimitWords, { path, constraint, ...row }: FieldLimit): ProviderRule {
  const { code } = words({ constraint, path, size: 0 });
  return {
    ...row,
    ...(code === undefined ? {} : { code }),
    find: ({ body }) =>
      valuesAt(body, path).flatMap((located) => {
        const broken = brokenBy(constraint, located);
        if (broken === null) return [];
        const { path: at, message } = words(broken);
        return [{ path: at, message }];
      }),
  };
}

function brokenBy(constraint: Constraint, { path, value }: Located): Broken | null {
  if (value === undefined || value === null)
    return constraint.type === "required" ? { constraint, path, size: 0 } : null;
  const size = sizeFor(constraint, value);
  return size === null ? null : { constraint, path, size };
}

/** The size that violates the constraint; `null` if the value satisfies it. */
function sizeFor(constraint: Constraint, value: Json): number | null {
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
