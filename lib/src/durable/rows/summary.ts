// The result of a turn as the turn row stores it.

import type { ChatResult } from "../../core/model/internal.ts";
import type { TurnSummary } from "./values.ts";

/**
 * The result without its thread and steps: messages have rows of their own, so the turn row does not grow with the turn
 * (H5).
 */
export function summaryOf({ haltedReason, outcome, finalResponse, steps, usage, metadata }: ChatResult): TurnSummary {
  return { haltedReason, outcome, finalResponse, steps: steps.length, usage, metadata: { ...metadata } };
}
