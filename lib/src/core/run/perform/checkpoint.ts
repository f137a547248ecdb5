// The performer of `checkpoint`: decides whether the turn continues (budgets, `haltWhen`, hooks), then claims input for
// it.
//
// The verdict comes first, and input is claimed only if another model call will follow (Q11): claimed input is removed
// from the inbox, so input claimed for a turn that ends would be lost to the model. The hooks `beforeTurn` and
// `onCheckpoint` are called by checkpoint-hooks.ts. Budgets use recorded data only (core/run/transition-events.ts), so
// a replay gives the same verdict (Q12).

import type { AskCheckpoint, CheckpointDelivered, Turn, Verdict } from "../../kernel/internal.ts";
import type { StepResult, Usage } from "../../model/internal.ts";
import type { RunPlan } from "../plan/plan.ts";
import type { Inbox } from "../ports/ports.ts";

import { checkpointDelivered } from "../../kernel/internal.ts";
import { exactSum, totalTokens, withText } from "../../model/internal.ts";
import { callBeforeTurn, callOnCheckpoint } from "./checkpoint-hooks.ts";

/** The counters of a run that budgets and `haltWhen` need. */
export type Account = {
  /** Completed steps. */
  readonly steps: number;
  /** The sum of recorded effect durations, in milliseconds. Time while no process ran the turn does not count. */
  readonly timeMs: number;
  /** Model calls since the last successful tool call, for `budgets.noProgress`. */
  readonly idleCalls: number;
  /** A model call replied without the number of its tokens. */
  readonly hasUnknownTokens: boolean;
  /** A model call replied without a cost, or with a negative one. */
  readonly hasUnknownCost: boolean;
  /** The summaries of the turn, also those that failed. */
  readonly summaries: { readonly usage: Usage; readonly hasUnknownTokens: boolean; readonly hasUnknownCost: boolean };
  readonly lastStep: StepResult | null;
};

/**
 * Returns the verdict and the input of a checkpoint. Rejects if a function of the caller throws or returns an invalid
 * directive.
 */
export async function performCheckpoint(
  plan: RunPlan,
  inbox: Inbox,
  account: Account,
  effect: AskCheckpoint,
  turn: Turn,
): Promise<CheckpointDelivered> {
  const { id, checkpoint } = effect;
  if (checkpoint === "before_turn") {
    if (plan.hooks.beforeTurn === undefined) return checkpointDelivered(id);
    return callBeforeTurn(plan, id, turn);
  }
  const exhaustedBudget = budgetVerdict(plan, account, turn);
  if (checkpoint === "after_work") {
    const { lastStep } = account;
    const step = lastStep === null ? null : withText(lastStep, lastStep.response);
    const halts = step !== null && (await plan.options.haltWhen?.(step)) === true;
    if (halts) return checkpointDelivered(id, { verdict: { type: "halt_when" } });
    if (exhaustedBudget !== null) return checkpointDelivered(id, { verdict: exhaustedBudget });
  }
  // At `before_completion` the turn has its answer and completes. An exhausted budget only prevents another step, so no
  // input is claimed.
  if (effect.last || exhaustedBudget !== null) return checkpointDelivered(id);
  if (plan.options.onCheckpoint === undefined) return checkpointDelivered(id, await inbox.claim(effect, turn));
  return callOnCheckpoint(plan, inbox, effect, checkpoint, turn);
}

/**
 * The first budget that is exhausted; `null`: none. Tokens and cost include what the session spent before this run.
 * After a reply of unknown usage a budget for it counts as exhausted: otherwise a provider that reports no usage would
 * have no budget at all.
 */
function budgetVerdict({ limits: { budgets }, spentBefore }: RunPlan, account: Account, turn: Turn): Verdict | null {
  const sum = exactSum(spentBefore, turn.usage);
  // A sum that is too large to be represented exceeds every budget.
  const usedTokens = sum === null ? Number.POSITIVE_INFINITY : (totalTokens(sum) ?? 0);
  const usedCost = sum === null ? Number.POSITIVE_INFINITY : (sum.totalCost ?? 0);
  const { steps, tokens, cost, timeMs, noProgress } = budgets;
  if (steps !== undefined && account.steps >= steps) return { type: "budget", budget: "steps" };
  if (tokens !== undefined && (account.hasUnknownTokens || usedTokens >= tokens))
    return { type: "budget", budget: "tokens" };
  if (cost !== undefined && (account.hasUnknownCost || usedCost >= cost)) return { type: "budget", budget: "cost" };
  if (timeMs !== undefined && account.timeMs >= timeMs) return { type: "budget", budget: "time" };
  if (noProgress !== undefined && account.idleCalls >= noProgress) return { type: "budget", budget: "no_progress" };
  return null;
}
