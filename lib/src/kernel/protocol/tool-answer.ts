// Builds the tool messages that answer calls. Their content is what the model reads; `status` and `code` are for programs.

import type { ToolCall, ToolErrorReason, ToolMessage, ToolOutcome } from "../../model/internal.ts";
import type { ToolReturned } from "../machine/effect.ts";

import { toolFailure, toolOutcomeParts, toolOutcomeStatus, toolResult } from "../../model/internal.ts";

/** The answer to a call that ran, with the content that its result encoder returned. */
export function answerOf(call: ToolCall, { outcome, content, ranArguments }: ToolReturned, id: string): ToolMessage {
  const code = outcome.type === "failure" ? outcome.failure.code : null;
  return toolAnswer(call, content, { status: toolOutcomeStatus(outcome), code, ranArguments, id });
}

/** The answer to a pending call whose result or denial came from outside the turn. */
export function settledAnswer(
  call: ToolCall,
  outcome: ToolOutcome,
  content: ToolMessage["content"] | null,
  id: string,
): ToolMessage {
  const code = outcome.type === "failure" ? outcome.failure.code : null;
  const fields = { status: toolOutcomeStatus(outcome), code, ranArguments: null, id };
  return toolAnswer(call, content ?? toolOutcomeParts(outcome), fields);
}

/** The answer to a call that will not run: a failure with this reason. */
export function unrunAnswer(call: ToolCall, reason: ToolErrorReason, message: string, id: string): ToolMessage {
  const failure = toolFailure(reason, { message, toolName: call.name, toolCallId: call.id });
  const outcome = { type: "failure", failure } as const;
  const status = toolOutcomeStatus(outcome);
  return toolAnswer(call, toolOutcomeParts(outcome), { status, code: failure.code, ranArguments: null, id });
}

/** The answer to a call without a result in a turn that was cancelled, failed or ended. */
export function cancelledAnswer(call: ToolCall, message: string, id: string): ToolMessage {
  const outcome = { type: "cancelled", message, raw: null } as const;
  return toolAnswer(call, toolOutcomeParts(outcome), { status: "cancelled", code: null, ranArguments: null, id });
}

function toolAnswer(
  call: ToolCall,
  content: ToolMessage["content"],
  fields: Pick<ToolMessage, "status" | "code" | "ranArguments" | "id">,
): ToolMessage {
  const [only] = typeof content === "string" ? [] : content;
  const isPlain = typeof content !== "string" && content.length === 1 && only?.type === "text";
  return toolResult(call.id, isPlain && only?.type === "text" ? only.text : content, { ...fields, name: call.name });
}
