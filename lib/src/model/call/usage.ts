// What calls cost. Unknown is `null`, never 0: a provider that says nothing about caching has not said "none".

import type { ValidationFailure } from "../failure/failure.ts";
import type { Issue, Path } from "../failure/issue.ts";
import type { Result } from "../failure/result.ts";
import type { Json, JsonObject } from "../parse/json.ts";
import type { Shape } from "../parse/shape.ts";

import { validationFailure } from "../failure/failures.ts";
import { failed, ok } from "../failure/result.ts";
import { emptyObject } from "../parse/json.ts";
import { construct, count, fallback, jsonObject, nullable, number, object } from "../parse/shape.ts";

/**
 * Token counts and costs of one or more model calls. Token counts are inclusive: `inputTokens` contains cached
 * tokens. Costs are in US dollars. `null` means unknown.
 */
export type Usage = {
  /** All tokens of the prompt, those read from and written to a cache included. */
  readonly inputTokens: number | null;
  /** All tokens the model produced, reasoning included. */
  readonly outputTokens: number | null;
  /** Of `inputTokens`: read from a cache. */
  readonly cachedInputTokens: number | null;
  /** Of `inputTokens`: written to a cache. */
  readonly cacheWriteInputTokens: number | null;
  /** Of `outputTokens`: spent on reasoning. */
  readonly reasoningTokens: number | null;
  /** What the provider says the total is; {@link totalTokens} works it out when it says nothing. */
  readonly totalTokens: number | null;
  /** In US dollars. */
  readonly inputCost: number | null;
  readonly outputCost: number | null;
  readonly totalCost: number | null;
  /** Uses of provider-run tools, by name. */
  readonly toolUsage: JsonObject;
  /** What else the provider reported. */
  readonly extra: JsonObject;
};

export const usageShape: Shape<Usage> = object<Usage>({
  inputTokens: fallback(nullable(count), null),
  outputTokens: fallback(nullable(count), null),
  cachedInputTokens: fallback(nullable(count), null),
  cacheWriteInputTokens: fallback(nullable(count), null),
  reasoningTokens: fallback(nullable(count), null),
  totalTokens: fallback(nullable(count), null),
  inputCost: fallback(nullable(number), null),
  outputCost: fallback(nullable(number), null),
  totalCost: fallback(nullable(number), null),
  toolUsage: fallback(jsonObject, emptyObject),
  extra: fallback(jsonObject, emptyObject),
});

/**
 * Builds a usage value; fields that are left out are unknown (`null`) or empty. Throws `MisuseError` for an
 * unknown field or a wrong type.
 */
export function usage(fields: Partial<Usage> = {}): Usage {
  return construct("usage", usageShape, fields);
}

/** Nothing known, nothing spent: where a sum starts. */
export const noUsage: Usage = Object.freeze(usage());

/**
 * Returns the total number of tokens: the provider's total if it gave one, else input plus output, else `null`.
 *
 * @example
 * ```ts
 * import { totalTokens, usage } from "everturn/model";
 *
 * totalTokens(usage({ inputTokens: 12, outputTokens: 30 })); // => 42
 * totalTokens(usage({ inputTokens: 12 })); // => null
 * ```
 */
export function totalTokens(usage: Usage): number | null {
  if (usage.totalTokens !== null) return usage.totalTokens;
  return usage.inputTokens === null || usage.outputTokens === null ? null : usage.inputTokens + usage.outputTokens;
}

/** Tokens of the prompt that no cache saved: what the full price is paid for. `null` when the prompt is unknown. */
export function uncachedInputTokens(usage: Usage): number | null {
  if (usage.inputTokens === null) return null;
  return Math.max(0, usage.inputTokens - (usage.cachedInputTokens ?? 0) - (usage.cacheWriteInputTokens ?? 0));
}

/**
 * Adds two usage values. A number that only one side knows is kept as it is. A sum beyond the range of exact
 * integers is a failure (`overflow`), never a rounded number.
 *
 * @example
 * ```ts
 * import { addUsage, orThrow, usage } from "everturn/model";
 *
 * const sum = orThrow(addUsage(usage({ inputTokens: 10 }), usage({ inputTokens: 5, outputTokens: 2 })));
 * sum.inputTokens; // => 15
 * sum.outputTokens; // => 2
 * sum.reasoningTokens; // => null
 * ```
 */
export function addUsage(left: Usage, right: Usage): Result<Usage, ValidationFailure> {
  const tokens = addTokens(left, right);
  const costs = {
    inputCost: addKnown(left.inputCost, right.inputCost),
    outputCost: addKnown(left.outputCost, right.outputCost),
    totalCost: addKnown(left.totalCost, right.totalCost),
  };
  const counts = { toolUsage: addNumbers(left.toolUsage, right.toolUsage), extra: addNumbers(left.extra, right.extra) };
  const issues = [
    ...overflows(tokens, [], Number.isSafeInteger),
    ...overflows(costs, [], Number.isFinite),
    ...overflows(counts.toolUsage, ["toolUsage"], Number.isFinite),
    ...overflows(counts.extra, ["extra"], Number.isFinite),
  ];
  if (issues.length > 0) return failed(validationFailure("invalid_usage", { issues }));
  return ok({ ...tokens, ...costs, ...counts });
}

/** The sums that are no number one can go on counting with. */
function overflows(
  sums: { readonly [key: string]: Json },
  path: Path,
  fits: (sum: number) => boolean,
): readonly Issue[] {
  return Object.entries(sums)
    .filter(([, sum]) => typeof sum === "number" && !fits(sum))
    .map(([key]) => ({
      path: [...path, key],
      code: "overflow",
      message: "the sum is beyond what can be counted exactly",
    }));
}

type TokenCounts = Pick<
  Usage,
  "inputTokens" | "outputTokens" | "cachedInputTokens" | "cacheWriteInputTokens" | "reasoningTokens" | "totalTokens"
>;

function addTokens(left: Usage, right: Usage): TokenCounts {
  return {
    inputTokens: addKnown(left.inputTokens, right.inputTokens),
    outputTokens: addKnown(left.outputTokens, right.outputTokens),
    cachedInputTokens: addKnown(left.cachedInputTokens, right.cachedInputTokens),
    cacheWriteInputTokens: addKnown(left.cacheWriteInputTokens, right.cacheWriteInputTokens),
    reasoningTokens: addKnown(left.reasoningTokens, right.reasoningTokens),
    // A stated total on one side only would make the sum a lie: add what is known of the other side.
    totalTokens: addKnown(knownTokens(left), knownTokens(right)),
  };
}

/** The total as far as it is known: half of one is more than nothing, where `totalTokens` would rather say nothing. */
function knownTokens(usage: Usage): number | null {
  return usage.totalTokens ?? addKnown(usage.inputTokens, usage.outputTokens);
}

function addKnown(left: number | null, right: number | null): number | null {
  if (left === null) return right;
  return right === null ? left : left + right;
}

/** Adds numbers under the same key; for anything else the right side's word stands. */
function addNumbers(left: JsonObject, right: JsonObject): JsonObject {
  const sums = new Map<string, Json>(Object.entries(left));
  for (const [key, value] of Object.entries(right)) {
    const before = sums.get(key);
    sums.set(key, typeof before === "number" && typeof value === "number" ? before + value : value);
  }
  return Object.fromEntries(sums);
}
