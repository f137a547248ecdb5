// Tokens and cost of model calls as short texts. Unknown numbers are a dash.

import type { TimelineEffect } from "everturn/advanced";

import { cost, count, percent } from "../parts/format.ts";

type Usage = Pick<
  NonNullable<TimelineEffect["usage"]>,
  "inputTokens" | "cachedInputTokens" | "outputTokens" | "totalCost"
>;

/** What {@link inputText} shows. */
export function inputName(usage: Usage | null): string {
  return (usage?.cachedInputTokens ?? null) === null ? "tokens in" : "tokens in · cached";
}

/** What {@link outputText} shows. */
export function outputName(usage: Usage | null): string {
  return (usage?.totalCost ?? null) === null ? "tokens out" : "tokens out · cost";
}

/** Input tokens and the share that was read from a cache: `1,842 · 91 %`. */
export function inputText(usage: Usage | null): string {
  const { inputTokens = null, cachedInputTokens = null } = usage ?? {};
  if (inputTokens === null) return "–";
  const cached = cachedInputTokens === null || inputTokens === 0 ? [] : [percent(cachedInputTokens / inputTokens)];
  return [count(inputTokens), ...cached].join(" · ");
}

/** Output tokens and the cost of the call: `58 · $0.0042`. */
export function outputText(usage: Usage | null): string {
  const { outputTokens = null, totalCost = null } = usage ?? {};
  return [outputTokens === null ? "–" : count(outputTokens), ...(totalCost === null ? [] : [cost(totalCost)])].join(
    " · ",
  );
}
