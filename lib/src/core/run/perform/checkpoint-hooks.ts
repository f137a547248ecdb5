// Calls the hooks `beforeTurn` and `onCheckpoint` and checks what they return.

import type { CheckpointDirective } from "../../engine/internal.ts";
import type { AskCheckpoint, CheckpointDelivered, CheckpointDelivery, Turn } from "../../kernel/internal.ts";
import type { RunPlan } from "../plan/plan.ts";
import type { Inbox } from "../ports/ports.ts";

import { checkpointDelivered, historyThread } from "../../kernel/internal.ts";
import { blankUserIssues, invalidArgument, message, renderIssue, ValidationError } from "../../model/internal.ts";
import { array, describe, isPlainObject, read, turnCauseShape } from "../../model/parse/reading.ts";

/** Calls `beforeTurn`: the response to the checkpoint with the id `id`. */
export async function callBeforeTurn(plan: RunPlan, id: string, turn: Turn): Promise<CheckpointDelivered> {
  const thread = historyThread(turn.history, plan.thread.metadata);
  const directive = await plan.hooks.beforeTurn?.({ turnId: turn.turnId, sessionId: plan.sessionId, thread });
  checkDirective("beforeTurn", directive);
  return isAbort(directive) ? aborted(plan, id, directive) : checkpointDelivered(id, toDelivery(directive));
}

/**
 * Calls `onCheckpoint`, then claims input. The hook comes first: input that a turn has claimed and then aborts would be
 * lost.
 */
export async function callOnCheckpoint(
  plan: RunPlan,
  inbox: Inbox,
  effect: AskCheckpoint,
  checkpoint: Exclude<AskCheckpoint["checkpoint"], "before_turn">,
  turn: Turn,
): Promise<CheckpointDelivered> {
  const { id } = effect;
  const directive = await plan.options.onCheckpoint?.({ checkpoint, step: turn.step });
  checkDirective("onCheckpoint", directive);
  if (isAbort(directive)) return aborted(plan, id, directive);
  const claimed = await inbox.claim(effect, turn);
  const added = toDelivery(directive);
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

/**
 * Checks what a hook of a program without a compiler returned: an abort that is misspelt must not continue the turn.
 * Throws `MisuseError`.
 */
function checkDirective(hook: string, directive: unknown): void {
  if (directive === null || directive === undefined) return;
  const refuse = (what: string, path: readonly string[] = []) => {
    throw invalidArgument(`${hook}: ${what}`, path);
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

/**
 * The input of a directive. Throws `MisuseError` for an invalid message and `ValidationError` for a user message
 * without text.
 */
function toDelivery(directive: Exclude<Returned, { readonly type: "abort" }>): CheckpointDelivery {
  const messages = (directive?.messages ?? []).map(message);
  const transientMessages = (directive?.transientMessages ?? []).map(message);
  const issues = blankUserIssues([...messages, ...transientMessages]);
  if (issues.length > 0) throw new ValidationError("invalid_message", { issues });
  return { messages, transientMessages, turnCauses: directive?.turnCauses ?? [], inputs: [] };
}
