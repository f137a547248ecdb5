// What a turn came to, without what it added: that is in the store.

import type { ChatResult } from "../../model/internal.ts";
import type { TurnSummary } from "./values.ts";

export function summaryOf({ haltedReason, outcome, finalResponse, steps, usage, metadata }: ChatResult): TurnSummary {
  return { haltedReason, outcome, finalResponse, steps: steps.length, usage, metadata: { ...metadata } };
}
