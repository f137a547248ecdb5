// The names of the texts of `usageTexts`.

import type { TimelineEffect } from "everturn/advanced";

type Usage = Pick<
  NonNullable<TimelineEffect["usage"]>,
  "inputTokens" | "cachedInputTokens" | "outputTokens" | "totalCost"
>;

/** What `input` has. */
export function inputName(usage: Usage | null): string {
  return (usage?.cachedInputTokens ?? null) === null ? "tokens in" : "tokens in · cached";
}

/** What `output` has. */
export function outputName(usage: Usage | null): string {
  return (usage?.totalCost ?? null) === null ? "tokens out" : "tokens out · cost";
}
