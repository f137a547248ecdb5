// Costs of model calls in US dollars, from token counts and the prices of a model. Prices are per million tokens.

import type { ModelName, ModelPricing, Usage } from "../../model/internal.ts";

import { knownCost } from "../../model/internal.ts";

/** Returns the prices that a model reference contains; `null`: a plain name, or a reference without prices. */
export function priceOf(model: ModelName | null): ModelPricing | null {
  return model === null || typeof model === "string" ? null : model.pricing;
}

/**
 * Adds costs to a usage. Costs that the provider reported are kept, unless they are negative, or 0 for tokens that have
 * a price: gateways report 0 for calls that another account pays (OpenRouter with a key of the user), and a budget
 * would then never be reached. `totalCost` is computed only if both input and output cost are known, so that a budget
 * never counts half a cost as the whole.
 */
export function withCosts(usage: Usage, model: ModelName | null): Usage {
  const price = priceOf(model);
  if (price === null) return usage;
  const inputCost = spentCost(usage.inputCost, costOfInput(usage, price));
  const outputCost = spentCost(usage.outputCost, costOf(price.output, usage.outputTokens));
  const sum = inputCost === null || outputCost === null ? null : inputCost + outputCost;
  return { ...usage, inputCost, outputCost, totalCost: spentCost(usage.totalCost, sum) };
}

/**
 * The reported cost, or the computed one if none is reported, or 0. A 0 beside tokens that were not counted is unknown:
 * a budget ends a run whose costs are unknown.
 */
function spentCost(reported: number | null, computed: number | null): number | null {
  const known = knownCost(reported);
  return known === null || known === 0 ? computed : known;
}

/**
 * `inputTokens` includes tokens read from and written to the prompt cache. Each of the three kinds is charged at its
 * own price; a kind without a price of its own is charged as plain input.
 */
function costOfInput(
  { inputTokens, cachedInputTokens, cacheWriteInputTokens }: Usage,
  price: ModelPricing,
): number | null {
  if (price.input === 0 && (price.cacheRead ?? 0) === 0 && (price.cacheWrite ?? 0) === 0) return 0;
  if (inputTokens === null || price.input === null) return null;
  const reads = price.cacheRead === null ? 0 : (cachedInputTokens ?? 0);
  const writes = price.cacheWrite === null ? 0 : (cacheWriteInputTokens ?? 0);
  const uncached = Math.max(0, inputTokens - reads - writes);
  return (uncached * price.input + reads * (price.cacheRead ?? 0) + writes * (price.cacheWrite ?? 0)) / 1_000_000;
}

function costOf(rate: number | null, tokens: number | null): number | null {
  if (rate === 0) return 0;
  return rate === null || tokens === null ? null : (rate * tokens) / 1_000_000;
}
