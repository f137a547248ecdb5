// The budget of summaries (`contextPolicy.compact.budget`): what they have used, and whether another one may be requested.
//
// The numbers are sums over recorded responses, so a replay and a process that takes over find the same (Q12). A budget
// that is used up is recorded as the response of the compaction that it prevents.

import type { Turn } from "../../kernel/internal.ts";
import type { Failure } from "../../model/internal.ts";
import type { Account } from "./checkpoint.ts";

import { limitsOf } from "../../kernel/internal.ts";
import { runtimeFailure, totalTokens } from "../../model/internal.ts";

/**
 * Why no summary is requested: the budget of the turn or of its session is used up; `null`: it is not. After a summary
 * whose usage is unknown it counts as used up.
 */
export function exhaustedSummaryBudget(turn: Turn, { summaries }: Account): Failure | null {
  const budget = limitsOf(turn)?.compact?.budget ?? null;
  if (budget === null) return null;
  const { tokens, cost, per } = budget;
  const used = per === "session" ? turn.contextWindow.summaryUsage : summaries.usage;
  const usedTokens = totalTokens(used) ?? 0;
  const usedCost = used.totalCost ?? 0;
  if (tokens !== null && (summaries.hasUnknownTokens || usedTokens >= tokens))
    return failure(summaries.hasUnknownTokens ? "an unknown number of tokens" : `${usedTokens} tokens`, `${tokens}`);
  if (cost !== null && (summaries.hasUnknownCost || usedCost >= cost))
    return failure(summaries.hasUnknownCost ? "an unknown amount" : `${usedCost} US dollars`, `${cost}`);
  return null;

  function failure(what: string, limit: string): Failure {
    const message = `the summaries of this ${per} have used ${what}, and contextPolicy.compact.budget is ${limit}: tool results are shortened instead`;
    return runtimeFailure("quota_exceeded", { message });
  }
}
