// The performer of `checkpoint`: decides whether the turn continues (budgets, `haltWhen`, hooks), then claims input for it.
//
// The verdict comes first, and input is claimed only if another model call will follow (Q11): claimed input is removed from the inbox, so input claimed
// for a turn that ends would be lost to the model. Budgets use recorded data only (run/transition-events.ts), so a replay gives the same verdict (Q12).

import type { CheckpointDirective } from "../../engine/internal.ts";
import type { AskCheckpoint, CheckpointDelivered, CheckpointDelivery, Turn, Verdict } from "../../kernel/internal.ts";
import type { StepResult } from "../../model/internal.ts";
import type { RunPlan } from "../plan/plan.ts";
import type { Inbox } from "../ports/ports.ts";

import { checkpointDelivered, historyThread, turnCauseShape } from "../../kernel/internal.ts";
import {
  addUsage,
  blankUserIssues,
  message,
  MisuseError,
  renderIssue,
  totalTokens,
  ValidationError,
} from "../../model/internal.ts";
import { array, describe, isPlainObject, read } from "../../model/parse/reading.ts";

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
  readonly lastStep: StepResult | null;
};

/** Returns the verdict and the input of a checkpoint. Rejects if a function of the caller throws or returns an invalid directive. */
export async function performCheckpoint(
  plan: RunPlan,
  inbox: Inbox,
  account: Account,
  effect: AskCheckpoint,
  turn: Turn,
): Promise<CheckpointDelivered> {
  const { id, checkpoint } = effect;
  if (checkpoint === "before_turn") {
    const thread = historyThread(turn.history, plan.thread.metadata);
    const directive = await plan.loopHooks.beforeTurn?.({ turnId: turn.turnId, sessionId: plan.sessionId, thread });
    checkDirective("beforeTurn", directive);
    return isAbort(directive) ? aborted(plan, id, directive) : checkpointDelivered(id, inputOf(directive));
  }
  const exhaustedBudget = budgetVerdict(plan, account, turn);
  if (checkpoint === "after_work") {
    const { lastStep } = account;
    const halts = lastStep !== null && plan.haltWhen !== null && (await plan.haltWhen?.(lastStep)) === true;
    if (halts) return checkpointDelivered(id, { verdict: { type: "halt_when" } });
    if (exhaustedBudget !== null) return checkpointDelivered(id, { verdict: exhaustedBudget });
  }
  // At `before_completion` the turn has its answer and completes. An exhausted budget only prevents another step, so no input is claimed.
  if (effect.last || exhaustedBudget !== null) return checkpointDelivered(id);
  // The hook is called before the claim: input that a turn has claimed and then aborts would be lost.
  const directive = await plan.onCheckpoint?.({ checkpoint, step: turn.step });
  checkDirective("onCheckpoint", directive);
  if (isAbort(directive)) return aborted(plan, id, directive);
  const claimed = await inbox.claim(effect, turn);
  const added = inputOf(directive);
  return checkpointDelivered(id, {
    messages: [...claimed.messages, ...added.messages],
    transientMessages: [...claimed.transientMessages, ...added.transientMessages],
    turnCauses: [...claimed.turnCauses, ...added.turnCauses],
    inputs: claimed.inputs,
  });
}

/** What a hook returned. A hook without a `return` statement continues the turn. */
type Returned = CheckpointDirective | undefined;

const inputFields = ["messages", "transientMessages", "turnCauses"] as const;

/** Checks what a hook of a program without a compiler returned: an abort that is misspelt must not continue the turn. Throws `MisuseError`. */
function checkDirective(hook: string, directive: unknown): void {
  if (directive === null || directive === undefined) return;
  const refuse = (what: string, path: readonly string[] = []) => {
    throw new MisuseError("invalid_argument", `${hook}: ${what}`, { path });
  };
  if (!isPlainObject(directive)) {
    return refuse(`returned ${describe(directive)}; return null, input for the turn, or { type: "abort", reason }`);
  }
  if ("type" in directive) {
    if (directive["type"] !== "abort") return refuse('the type of a directive must be "abort"', ["type"]);
    if (typeof directive["reason"] !== "string") return refuse("an abort needs a reason, a string", ["reason"]);
    return;
  }
  for (const [field, value] of Object.entries(directive)) {
    if (!inputFields.some((name) => name === field)) {
      return refuse(`a directive has no field "${field}"; its fields are ${inputFields.join(", ")}`, [field]);
    }
    if (value !== undefined && !Array.isArray(value)) return refuse(`${field} must be a list`, [field]);
  }
  const { turnCauses = [] } = directive;
  const causes = read(array(turnCauseShape), turnCauses);
  if ("issues" in causes) refuse(`turnCauses: ${causes.issues.map(renderIssue).join("; ")}`, ["turnCauses"]);
}

function isAbort(directive: Returned): directive is Extract<CheckpointDirective, { readonly type: "abort" }> {
  return directive !== null && directive !== undefined && "type" in directive;
}

/** The response that ends the turn as cancelled, with the reason of the hook. */
function aborted({ requestId }: RunPlan, id: string, { reason }: { readonly reason: string }): CheckpointDelivered {
  const evidence = { requestId, origin: "hook", reason };
  return checkpointDelivered(id, { verdict: { type: "abort", evidence } });
}

/** The input of a directive. Throws `MisuseError` for an invalid message and `ValidationError` for a user message without text. */
function inputOf(directive: Exclude<Returned, { readonly type: "abort" }>): CheckpointDelivery {
  const messages = (directive?.messages ?? []).map(message);
  const transientMessages = (directive?.transientMessages ?? []).map(message);
  const issues = blankUserIssues([...messages, ...transientMessages]);
  if (issues.length > 0) throw new ValidationError("invalid_message", { issues });
  return { messages, transientMessages, turnCauses: directive?.turnCauses ?? [], inputs: [] };
}

/**
 * The first budget that is exhausted; `null`: none. Tokens and cost include what the session spent before this run. After a reply of unknown usage a
 * budget for it counts as exhausted: otherwise a provider that reports no usage would have no budget at all.
 */
function budgetVerdict({ budgets, spentBefore }: RunPlan, account: Account, turn: Turn): Verdict | null {
  const sum = addUsage(spentBefore, turn.usage);
  // A sum that is too large to be represented exceeds every budget.
  const [usedTokens, usedCost] = sum.ok
    ? [totalTokens(sum.value) ?? 0, sum.value.totalCost ?? 0]
    : [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  const { steps, tokens, cost, timeMs, noProgress } = budgets;
  if (steps !== undefined && account.steps >= steps) return { type: "budget", budget: "steps" };
  if (tokens !== undefined && (account.hasUnknownTokens || usedTokens >= tokens))
    return { type: "budget", budget: "tokens" };
  if (cost !== undefined && (account.hasUnknownCost || usedCost >= cost)) return { type: "budget", budget: "cost" };
  if (timeMs !== undefined && account.timeMs >= timeMs) return { type: "budget", budget: "time" };
  if (noProgress !== undefined && account.idleCalls >= noProgress) return { type: "budget", budget: "no_progress" };
  return null;
}
