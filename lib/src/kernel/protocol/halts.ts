// What the results of calls do to a turn: stop it, for the reason of the call with the lowest index that has one, or leave it waiting.

import type { AssistantMessage, PendingReason, PendingToolCall, ToolCall, TurnOutcome } from "../../model/internal.ts";
import type { ToolReturned } from "../machine/effect.ts";
import type { CompletedToolCall } from "../machine/turn.ts";

import { assistant } from "../../model/internal.ts";

/** Why the turn stops at a result; `null` where it goes on. */
export function haltOf({ call, result }: CompletedToolCall): TurnOutcome | null {
  if (result.type === "tool_waits") {
    const asks = result.reason === "question";
    return asks ? { type: "ask_user", toolCallId: call.id, question: result.question ?? "" } : null;
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

function controlOf(
  call: ToolCall,
  control: NonNullable<Extract<ToolReturned["outcome"], { type: "success" }>["control"]>,
): TurnOutcome | null {
  switch (control.type) {
    case "finish":
      return { type: "tool_value", toolName: call.name, value: control.value };
    case "fail":
      return { type: "tool_error", toolName: call.name, toolCallId: call.id, failure: control.failure };
    case "handoff": {
      const { target, task, initialMessages } = control;
      // Nobody can take over without knowing who and what.
      if (target.trim() === "" || (task ?? "").trim() === "") return null;
      return { type: "handoff", target, task, initialMessages };
    }
  }
}

/** How a turn is named that waits for these calls; the first of: a question, the caller's calls, approvals, unknown outcomes. */
export function waitingOutcome(calls: readonly PendingToolCall[]): TurnOutcome | null {
  const asked = calls.find(({ reason }) => reason === "question");
  if (asked !== undefined) return { type: "ask_user", toolCallId: asked.id, question: asked.question ?? "" };
  const reasons = new Set(calls.map((call) => call.reason));
  if (reasons.has("manual")) return { type: "manual_tool_calls" };
  if (reasons.has("approval")) return { type: "approval" };
  return reasons.size > 0 ? { type: "outcome_unknown" } : null;
}

/** A call that waits. */
export function pendingCall(
  call: ToolCall,
  reason: PendingReason,
  rest: Partial<Omit<PendingToolCall, "reason">> = {},
): PendingToolCall {
  return {
    ...call,
    reason,
    question: null,
    answerAs: "user_message",
    opts: {},
    decision: null,
    idempotencyKey: null,
    cellId: null,
    path: [],
    ...rest,
  };
}

/** What waits of a result: the call itself, or a question whose answer is to be the result of the call. */
export function waitOf(
  { call, result, idempotencyKey }: CompletedToolCall,
  cellId: string | null,
): readonly PendingToolCall[] {
  const rest = { idempotencyKey, cellId };
  if (result.type === "tool_waits") {
    const { reason, question, opts, path } = result;
    const answerAs = reason === "question" ? "tool_result" : "user_message";
    return [pendingCall(call, reason, { ...rest, question, opts, path, answerAs })];
  }
  if (result.outcome.type !== "ask_user") return [];
  const { question, opts, answerAs } = result.outcome;
  // A cell has no place for something a user says: it goes on with the answer as the result of its call.
  const form = cellId === null ? answerAs : "tool_result";
  return [pendingCall(call, "question", { ...rest, question, opts, answerAs: form })];
}

/** A question as history keeps it, so that whoever reads the conversation sees what was asked. */
export function questionMessage({ question, id: toolCallId }: PendingToolCall, id: string): AssistantMessage {
  return assistant(question ?? "", { id, metadata: { askUser: true, toolCallId } });
}
