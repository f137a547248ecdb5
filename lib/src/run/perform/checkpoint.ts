// The performer of `checkpoint`: decides whether the turn continues (budgets, `haltWhen`), then claims input for it.
//
// The verdict comes first, and input is claimed only if another model call will follow (Q11): claimed input is removed from the inbox, so input claimed
// for a turn that ends would be lost to the model. Budgets use recorded data only (run/transition-events.ts), so a replay gives the same verdict (Q12).

import type { AskCheckpoint, CheckpointDelivered, Turn, Verdict } from "../../kernel/internal.ts";
import type { StepResult } from "../../model/internal.ts";
import type { RunPlan } from "../plan/plan.ts";
import type { Inbox } from "../ports/ports.ts";

import { checkpointDelivered } from "../../kernel/internal.ts";
import { addUsage, totalTokens } from "../../model/internal.ts";

/** The counters of a run that budgets and `haltWhen` need. */
export type Account = {
  /** Completed steps. */
  readonly steps: number;
  /** The sum of recorded effect durations, in milliseconds. Time while no process ran the turn does not count. */
  readonly timeMs: number;
  /** Model calls since the last successful tool call, for `budgets.noProgress`. */
  readonly idleCalls: number;
  readonly lastStep: StepResult | null;
};

/** Returns the verdict and the input of a checkpoint. Rejects if `haltWhen` or the inbox of the caller throws. */
export async function performCheckpoint(
  plan: RunPlan,
  inbox: Inbox,
  account: Account,
  effect: AskCheckpoint,
  turn: Turn,
): Promise<CheckpointDelivered> {
  const exhaustedBudget = budgetVerdict(plan, account, turn);
  if (effect.checkpoint === "after_work") {
    const { lastStep } = account;
    const halts = lastStep !== null && plan.haltWhen !== null && (await plan.haltWhen?.(lastStep)) === true;
    if (halts) return checkpointDelivered(effect.id, { verdict: { type: "halt_when" } });
    if (exhaustedBudget !== null) return checkpointDelivered(effect.id, { verdict: exhaustedBudget });
  }
  // At `before_completion` the turn has its answer and completes. An exhausted budget only prevents another step, so no input is claimed.
  if (effect.last || exhaustedBudget !== null) return checkpointDelivered(effect.id);
  return checkpointDelivered(effect.id, await inbox.claim(effect, turn));
}

/** The first budget that is exhausted; `null`: none. Tokens and cost include what the session spent before this run. */
function budgetVerdict({ budgets, spentBefore }: RunPlan, account: Account, turn: Turn): Verdict | null {
  const sum = addUsage(spentBefore, turn.usage);
  const usage = sum.ok ? sum.value : turn.usage;
  const { steps, tokens, cost, timeMs, noProgress } = budgets;
  if (steps !== undefined && account.steps >= steps) return { type: "budget", budget: "steps" };
  if (tokens !== undefined && (totalTokens(usage) ?? 0) >= tokens) return { type: "budget", budget: "tokens" };
  if (cost !== undefined && (usage.totalCost ?? 0) >= cost) return { type: "budget", budget: "cost" };
  if (timeMs !== undefined && account.timeMs >= timeMs) return { type: "budget", budget: "time" };
  if (noProgress !== undefined && account.idleCalls >= noProgress) return { type: "budget", budget: "no_progress" };
  return null;
}
