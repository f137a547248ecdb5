// How the results of tool calls end a turn: `haltOf` gives the outcome if one result halts it, `waitOf` and
// `waitingOutcome` the pending calls and the outcome if calls wait. Callers take the halt of the call with the lowest
// index, so the order in which tools finish does not matter.

import type {
  AssistantMessage,
  PendingReason,
  PendingToolCall,
  ShownCall,
  ToolCall,
  TurnOutcome,
} from "../../model/internal.ts";
import type { ToolReturned, ToolWaits } from "../machine/response.ts";
import type { CompletedToolCall } from "../machine/turn.ts";

import { assistant, withDigest } from "../../model/internal.ts";

/** The outcome with which a result halts the turn; `null`: the turn continues. */
export function haltOf({ call, result }: CompletedToolCall): TurnOutcome | null {
  if (result.type === "tool_waits") {
    const isQuestion = result.reason === "question";
    return isQuestion ? { type: "ask_user", toolCallId: call.id, question: result.question ?? "" } : null;
  }
  const { outcome, stops } = result;
  switch (outcome.type) {
    case "ask_user":
      return { type: "ask_user", toolCallId: call.id, question: outcome.question };
    case "halt":
      return { type: "halted", reason: outcome.reason, toolCallId: call.id, value: outcome.value };
    case "failure":
      return stops ? { type: "tool_error", toolName: call.name, toolCallId: call.id, failure: outcome.failure } : null;
    case "cancelled":
      return null;
    case "success":
      return outcome.control === null ? null : controlOf(call, outcome.control);
  }
}

/**
 * The outcome of a control value: finish the turn with a value, fail it, or hand it off. `null`: the turn continues.
 */
function controlOf(
  call: ToolCall,
  control: NonNullable<Extract<ToolReturned["outcome"], { type: "success" }>["control"]>,
): TurnOutcome | null {
  switch (control.type) {
    case "finish":
      return { type: "tool_value", toolName: call.name, value: control.value };
    case "fail":
      return { type: "tool_error", toolName: call.name, toolCallId: call.id, failure: control.failure };
    case "compact":
      return null;
    case "handoff": {
      const { target, task, initialMessages } = control;
      // A hand-off needs a target and a task; without them the turn continues.
      if (target.trim() === "" || (task ?? "").trim() === "") return null;
      return { type: "handoff", target, task, initialMessages };
    }
  }
}

/**
 * The outcome of a turn that waits for these calls. Precedence: question, manual calls, approvals, unknown outcomes.
 * `null`: none waits.
 */
export function waitingOutcome(calls: readonly PendingToolCall[]): TurnOutcome | null {
  const question = calls.find(({ reason }) => reason === "question");
  if (question !== undefined) return { type: "ask_user", toolCallId: question.id, question: question.question ?? "" };
  const reasons = new Set(calls.map((call) => call.reason));
  if (reasons.has("manual")) return { type: "manual_tool_calls" };
  if (reasons.has("approval")) return { type: "approval" };
  return reasons.size > 0 ? { type: "outcome_unknown" } : null;
}

/** Builds a pending call, with defaults. */
export function pendingCall(
  call: ToolCall,
  reason: PendingReason,
  fields: Partial<Omit<PendingToolCall, "reason" | "shown" | "digest">> & { readonly shown?: ShownCall | null } = {},
): PendingToolCall {
  return withDigest({
    ...call,
    reason,
    question: null,
    answerAs: "user_message",
    opts: {},
    decision: null,
    idempotencyKey: null,
    cellId: null,
    path: [],
    shown: null,
    ...fields,
  });
}

/** The pending call of a call that waits. */
export function pendingOfWait(
  call: ToolCall,
  { reason, question, opts, path, shown }: ToolWaits,
  idempotencyKey: string,
  cellId: string | null,
): PendingToolCall {
  const answerAs = reason === "question" ? "tool_result" : "user_message";
  return pendingCall(call, reason, { idempotencyKey, cellId, question, opts, path, answerAs, shown });
}

/** The pending call that a result leaves, as a list of none or one: a call that waits, or a question of a tool. */
export function waitOf(
  { call, result, idempotencyKey }: CompletedToolCall,
  cellId: string | null,
): readonly PendingToolCall[] {
  const identity = { idempotencyKey, cellId };
  if (result.type === "tool_waits") return [pendingOfWait(call, result, idempotencyKey, cellId)];
  if (result.outcome.type !== "ask_user") return [];
  const { question, opts, answerAs } = result.outcome;
  // A cell cannot read a user message: the answer is always the result of its call (Q5).
  const form = cellId === null ? answerAs : "tool_result";
  return [pendingCall(call, "question", { ...identity, question, opts, answerAs: form })];
}

/** The question as an assistant message of the history, so that the conversation shows it (Q15). */
export function questionMessage({ question, id: toolCallId }: PendingToolCall, id: string): AssistantMessage {
  return assistant(question ?? "", { id, metadata: { askUser: true, toolCallId } });
}
