// Token counts and costs of model calls, and their sums.
//
// Invariants
//   1. Unknown is `null`, never 0. A provider that does not report caching has not reported 0 cached tokens.
//   2. Counts are inclusive (docs/decisions/0009): `inputTokens` contains cached tokens, `outputTokens` contains
//      reasoning tokens.
//   3. A negative cost, which some providers report for credits, counts as unknown in a sum: it must not undo what was
//      spent.
//   4. A sum is exact or a failure. Token counts beyond `Number.MAX_SAFE_INTEGER` are never rounded.

import type { ValidationFailure } from "../failure/failure.ts";
import type { Issue, Path } from "../failure/issue.ts";
import type { Result } from "../failure/result.ts";
import type { Json, JsonObject } from "../parse/json.ts";
import type { Infer, Shape } from "../parse/shape.ts";

import { validationFailure } from "../failure/failures.ts";
import { failed, ok } from "../failure/result.ts";
import { emptyObject, isJsonArray, isObject } from "../parse/json.ts";
import { construct, count, fallback, jsonObject, nullable, number, object } from "../parse/shape.ts";

const usageFields = {
  /** All tokens of the prompt, including those read from and written to a cache. */
  inputTokens: fallback(nullable(count), null),
  /** All tokens that the model produced, including reasoning. */
  outputTokens: fallback(nullable(count), null),
  /** Of `inputTokens`: read from a cache. */
  cachedInputTokens: fallback(nullable(count), null),
  /** Of `inputTokens`: written to a cache. */
  cacheWriteInputTokens: fallback(nullable(count), null),
  /** Of `outputTokens`: spent on reasoning. */
  reasoningTokens: fallback(nullable(count), null),
  /** The total that the provider reports. {@link totalTokens} computes it if the provider reports none. */
  totalTokens: fallback(nullable(count), null),
  /** In US dollars. */
  inputCost: fallback(nullable(number), null),
  /** In US dollars. */
  outputCost: fallback(nullable(number), null),
  /** In US dollars; `null` if one of the two is unknown. */
  totalCost: fallback(nullable(number), null),
  /** Uses of provider-run tools, by name. */
  toolUsage: fallback(jsonObject, emptyObject),
  /** Other numbers that the provider reports, under its names. */
  extra: fallback(jsonObject, emptyObject),
};

/**
 * Token counts and costs of one or more model calls. Token counts are inclusive: `inputTokens` contains cached
 * tokens. Costs are in US dollars. `null` means unknown.
 */
export type Usage = Infer<typeof usageFields>;

export const usageShape: Shape<Usage> = object(usageFields);

/**
 * Builds a usage value; fields that are left out are unknown (`null`) or empty. Throws `MisuseError` for an
 * unknown field or a wrong type.
 */
export function usage(fields: Partial<Usage> = {}): Usage {
  return construct("usage", usageShape, fields);
}

/** The usage with every number unknown: the neutral element of {@link addUsage}. */
export const noUsage: Usage = Object.freeze(usage());

/** Returns whether the token counts are whole numbers of 0 or more, where they are known. Sums are exact only then. */
export function hasValidCounts(usage: Usage): boolean {
  const counts = [
    usage.inputTokens,
    usage.outputTokens,
    usage.cachedInputTokens,
    usage.cacheWriteInputTokens,
    usage.reasoningTokens,
    usage.totalTokens,
  ];
  return counts.every((tokens) => tokens === null || (Number.isSafeInteger(tokens) && tokens >= 0));
}

/**
 * Returns the total number of tokens: the provider's total if it reports one, else input plus output, else `null`.
 *
 * @example
 * ```ts
 * import { totalTokens, usage } from "everturn/advanced";
 *
 * totalTokens(usage({ inputTokens: 12, outputTokens: 30 })); // => 42
 * totalTokens(usage({ inputTokens: 12 })); // => null
 * ```
 */
export function totalTokens(usage: Usage): number | null {
  if (usage.totalTokens !== null) return usage.totalTokens;
  return usage.inputTokens === null || usage.outputTokens === null ? null : usage.inputTokens + usage.outputTokens;
}

/** Returns the prompt tokens that were neither read from nor written to a cache. `null` if `inputTokens` is unknown. */
export function uncachedInputTokens(usage: Usage): number | null {
  if (usage.inputTokens === null) return null;
  return Math.max(0, usage.inputTokens - (usage.cachedInputTokens ?? 0) - (usage.cacheWriteInputTokens ?? 0));
}

/**
 * Adds two usage values. A number that is known on one side only is kept; a negative cost counts as unknown. A sum
 * beyond the range of exact integers is a failure (`overflow`), never a rounded number.
 *
 * @example
 * ```ts
 * import { addUsage, usage } from "everturn/advanced"; import { orThrow } from "everturn";
 *
 * const sum = orThrow(addUsage(usage({ inputTokens: 10 }), usage({ inputTokens: 5, outputTokens: 2 })));
 * sum.inputTokens; // => 15
 * sum.outputTokens; // => 2
 * sum.reasoningTokens; // => null
 * ```
 */
export function addUsage(left: Usage, right: Usage): Result<Usage, ValidationFailure> {
  const sum = sumOf(left, right);
  const message = "the sum is too large to be represented exactly";
  const issues = overflows(sum).map((path): Issue => ({ path, code: "overflow", message }));
  return issues.length === 0 ? ok(sum) : failed(validationFailure("invalid_usage", { issues }));
}

/** Adds two usage values like {@link addUsage}. Returns `null` for a sum that is not exact. */
export function exactSum(left: Usage, right: Usage): Usage | null {
  const sum = sumOf(left, right);
  return isExact(sum, true) && isExact(sum.toolUsage, false) && isExact(sum.extra, false) ? sum : null;
}

/** The sum of two usages, or the first one if a count of the sum would overflow. */
export function boundedSum(sum: Usage, more: Usage): Usage {
  return exactSum(sum, more) ?? sum;
}

function sumOf(left: Usage, right: Usage): Usage {
  return {
    inputTokens: addKnown(left.inputTokens, right.inputTokens),
    outputTokens: addKnown(left.outputTokens, right.outputTokens),
    cachedInputTokens: addKnown(left.cachedInputTokens, right.cachedInputTokens),
    cacheWriteInputTokens: addKnown(left.cacheWriteInputTokens, right.cacheWriteInputTokens),
    reasoningTokens: addKnown(left.reasoningTokens, right.reasoningTokens),
    // If only one side reports a total, adding the reported totals would omit the other side. Each side counts what it
    // knows.
    totalTokens: addKnown(knownTokens(left), knownTokens(right)),
    inputCost: addKnown(knownCost(left.inputCost), knownCost(right.inputCost)),
    outputCost: addKnown(knownCost(left.outputCost), knownCost(right.outputCost)),
    totalCost: addKnown(knownCost(left.totalCost), knownCost(right.totalCost)),
    toolUsage: addNumbers(left.toolUsage, right.toolUsage),
    extra: addNumbers(left.extra, right.extra),
  };
}

/**
 * Returns the paths of the numbers that are not exact: token counts that are not safe integers, other numbers that are
 * not finite.
 */
function overflows(sum: Usage): readonly Path[] {
  return [...inexact(sum, []), ...inexact(sum.toolUsage, ["toolUsage"]), ...inexact(sum.extra, ["extra"])];
}

/** Does {@link overflows} find nothing? `isUsage`: the fields are those of a usage, without nested ones. */
function isExact(numbers: JsonObject, isUsage: boolean): boolean {
  for (const key in numbers) {
    const number = numbers[key] ?? null;
    if (typeof number === "number") {
      if (!(isUsage && key.endsWith("Tokens") ? Number.isSafeInteger(number) : Number.isFinite(number))) return false;
    } else if (!isUsage && typeof number === "object" && number !== null) {
      if (!isExact(Object.fromEntries(Object.entries(number)), false)) return false;
    }
  }
  return true;
}

function inexact(numbers: { readonly [key: string]: Json }, path: Path): readonly Path[] {
  return Object.entries(numbers).flatMap(([key, number]) => {
    const fits = path.length === 0 && key.endsWith("Tokens") ? Number.isSafeInteger : Number.isFinite;
    if (typeof number === "number") return fits(number) ? [] : [[...path, key]];
    const isNested = path.length > 0 && typeof number === "object" && number !== null;
    return isNested ? inexact(Object.fromEntries(Object.entries(number)), [...path, key]) : [];
  });
}

/**
 * Returns a lower bound of the total: the reported total, else the known ones of input and output. `totalTokens` needs
 * both.
 */
function knownTokens(usage: Usage): number | null {
  return usage.totalTokens ?? addKnown(usage.inputTokens, usage.outputTokens);
}

/** Returns a cost that was spent; `null` if it is unknown or negative. */
export function knownCost(cost: number | null): number | null {
  return cost !== null && cost >= 0 ? cost : null;
}

function addKnown(left: number | null, right: number | null): number | null {
  if (left === null) return right;
  return right === null ? left : left + right;
}

/**
 * Adds the numbers under each key, also those of nested objects, and the counts of each modality in lists of them
 * (`promptTokensDetails` of Gemini). Any other value of the right side replaces that of the left.
 */
function addNumbers(left: JsonObject, right: JsonObject): JsonObject {
  const sums = new Map<string, Json>(Object.entries(left));
  for (const [key, value] of Object.entries(right)) {
    const before = sums.get(key);
    sums.set(key, before === undefined ? value : addValues(before, value));
  }
  return Object.fromEntries(sums);
}

function addValues(left: Json, right: Json): Json {
  if (typeof left === "number" && typeof right === "number") return left + right;
  if (isObject(left) && isObject(right)) return addNumbers(left, right);
  const [leftCounts, rightCounts] = [modalityCounts(left), modalityCounts(right)];
  if (leftCounts === null || rightCounts === null) return right;
  const sums = new Map<Json | undefined, JsonObject>();
  for (const counts of [...leftCounts, ...rightCounts]) {
    const { modality } = counts;
    sums.set(modality, addNumbers(sums.get(modality) ?? emptyObject, counts));
  }
  return [...sums.values()];
}

/**
 * The items of a list of counts by modality; `null`: it is another value. Other lists are not joined: they could grow
 * with every step of a turn.
 */
function modalityCounts(value: Json): readonly JsonObject[] | null {
  if (!isJsonArray(value)) return null;
  const items = value.filter((item) => isObject(item)).filter(({ modality }) => typeof modality === "string");
  return items.length === value.length ? items : null;
}
