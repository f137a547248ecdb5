// What calls cost, where the price of the model is known.

import type { ModelName, ModelPricing, Usage } from "../../model/internal.ts";

/** The price of a model, if somebody said it. */
export function priceOf(model: ModelName | null): ModelPricing | null {
  return model === null || typeof model === "string" ? null : model.pricing;
}

/** Fills in costs nobody reported, from the price of the model. A total is known only when both of its halves are. */
export function withCosts(usage: Usage, model: ModelName | null): Usage {
  const price = priceOf(model);
  if (price === null) return usage;
  const inputCost = usage.inputCost ?? costOfInput(usage, price);
  const outputCost = usage.outputCost ?? times(price.output, usage.outputTokens);
  const totalCost = usage.totalCost ?? (inputCost === null || outputCost === null ? null : inputCost + outputCost);
  return { ...usage, inputCost, outputCost, totalCost };
}

/** Tokens read from and written to a cache are part of the input and have prices of their own. */
function costOfInput(
  { inputTokens, cachedInputTokens, cacheWriteInputTokens }: Usage,
  price: ModelPricing,
): number | null {
  if (inputTokens === null || price.input === null) return null;
  const read = price.cacheRead === null ? 0 : (cachedInputTokens ?? 0);
  const written = price.cacheWrite === null ? 0 : (cacheWriteInputTokens ?? 0);
  const plain = Math.max(0, inputTokens - read - written);
  return (plain * price.input + read * (price.cacheRead ?? 0) + written * (price.cacheWrite ?? 0)) / 1_000_000;
}

function times(rate: number | null, tokens: number | null): number | null {
  return rate === null || tokens === null ? null : (rate * tokens) / 1_000_000;
}
