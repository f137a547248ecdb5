// Answers checkpoints: first whether the run may go on at all, then what is added to it. Input is claimed only where it will be read.

import type { AskCheckpoint, CheckpointDelivered, Turn, Verdict } from "../../kernel/internal.ts";
import type { StepResult } from "../../model/internal.ts";
import type { RunPlan } from "../plan/plan.ts";
import type { Inbox } from "../ports/ports.ts";

import { checkpointDelivered } from "../../kernel/internal.ts";
import { addUsage, totalTokens } from "../../model/internal.ts";

/** What a run has done so far, as far as budgets ask. */
export type Account = {
  readonly steps: number;
  readonly timeMs: number;
  /** Model calls since a tool last succeeded. */
  readonly idleCalls: number;
  readonly lastStep: StepResult | null;
};

export async function performCheckpoint(
  plan: RunPlan,
  inbox: Inbox,
  account: Account,
  effect: AskCheckpoint,
  turn: Turn,
): Promise<CheckpointDelivered> {
  const spent = exhausted(plan, account, turn);
  if (effect.checkpoint === "after_work") {
    const { lastStep } = account;
    const halts = lastStep !== null && plan.haltWhen !== null && (await plan.haltWhen?.(lastStep)) === true;
    if (halts) return checkpointDelivered(effect.id, { verdict: { type: "halt_when" } });
    if (spent !== null) return checkpointDelivered(effect.id, { verdict: spent });
  }
  // An answer that is there completes the run; a budget only keeps another call from following it.
  if (effect.last || spent !== null) return checkpointDelivered(effect.id);
  return checkpointDelivered(effect.id, await inbox.claim(effect, turn));
}

function exhausted({ budgets, spentBefore }: RunPlan, account: Account, turn: Turn): Verdict | null {
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
