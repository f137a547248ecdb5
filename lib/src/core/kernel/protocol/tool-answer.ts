// Builds the tool messages that answer calls. Their content is what the model reads; `status` and `code` are for
// programs.

import type { ToolCall, ToolErrorReason, ToolMessage, ToolOutcome, UserPart } from "../../model/internal.ts";
import type { ToolReturned } from "../machine/response.ts";

import { textPart, toolFailure, toolMessage, toolOutcomeParts, toolOutcomeStatus } from "../../model/internal.ts";

/** The answer to a call that ran, with the content that its result encoder returned. */
export function answerOf(
  call: ToolCall,
  { outcome, content, ranArguments }: Pick<ToolReturned, "outcome" | "content" | "ranArguments">,
  id: string,
): ToolMessage {
  const [only] = typeof content === "string" ? [] : content;
  const isPlain = content.length === 1 && only?.type === "text" && only.providerOptions === undefined;
  // A list without parts is what the model reads of the value `[]`.
  const visible = isPlain ? only.text : content.length === 0 && content !== "" ? "[]" : content;
  const code = outcome.type === "failure" ? outcome.failure.code : null;
  const fields = { status: toolOutcomeStatus(outcome), code, ranArguments, id, name: call.name };
  return toolMessage(call.id, visible, fields);
}

/** The answer to a pending call whose result or denial came from outside the turn. */
export function settledAnswer(
  call: ToolCall,
  outcome: ToolOutcome,
  content: ToolMessage["content"] | null,
  id: string,
  revision: number,
): ToolMessage {
  return answerOf(call, { outcome, content: content ?? outcomeParts(outcome, revision), ranArguments: null }, id);
}

/** The answer to a call that will not run: a failure with this reason. */
export function unrunAnswer(
  call: ToolCall,
  reason: ToolErrorReason,
  message: string,
  id: string,
  revision: number,
): ToolMessage {
  return settledAnswer(call, unrunOutcome(call, reason, message), null, id, revision);
}

/** The outcome of a call that will not run. */
export function unrunOutcome(call: ToolCall, reason: ToolErrorReason, message: string): ToolOutcome {
  const failure = toolFailure(reason, { message, toolName: call.name, toolCallId: call.id });
  return { type: "failure", failure };
}

/** The answer to a call without a result in a turn that was cancelled, failed or ended. */
export function cancelledAnswer(call: ToolCall, message: string, id: string): ToolMessage {
  const outcome = { type: "cancelled", message, raw: null } as const;
  return answerOf(call, { outcome, content: toolOutcomeParts(outcome), ranArguments: null }, id);
}

/**
 * What the model reads of an outcome. Under revision 1 failures that the kernel answers have another format than those
 * of tools that ran.
 */
function outcomeParts(outcome: ToolOutcome, revision: number): readonly UserPart[] {
  if (revision > 1 || outcome.type !== "failure") return toolOutcomeParts(outcome);
  const { message } = outcome.failure;
  return [textPart(message === "" ? "[Tool execution failed]" : `[Tool execution failed]\n${message}`)];
}
