// Constructors of responses, with defaults for optional fields. Performers answer an effect with one of these.

import type { Failure, ModelReply, PendingReason, ToolCall, ToolOutcome } from "../../model/internal.ts";
import type { CallAnswer } from "./input.ts";
import type {
  CheckpointDelivered,
  CheckpointDelivery,
  CodeCalls,
  CodeFailed,
  CodeFinished,
  LlmCallError,
  ModelFailed,
  ModelReplied,
  ToolReturned,
  ToolWaits,
} from "./response.ts";

import { noUsage, toolOutcomeParts } from "../../model/internal.ts";

/** The fields of a response besides those that the constructor takes as arguments of their own. */
type OtherFields<R extends { readonly type: string; readonly id: string }, Required extends keyof R> = Partial<
  Omit<R, "type" | "id" | Required>
>;

/** Builds the response of a model call that succeeded. */
export function modelReplied(
  id: string,
  reply: ModelReply,
  fields: OtherFields<ModelReplied, "reply"> = {},
): ModelReplied {
  return { type: "model_replied", id, reply, model: null, requestBody: null, spent: noUsage, durationMs: 0, ...fields };
}

/** Builds the response of a model call that failed. The terminal reason is `provider_error` by default. */
export function modelFailed(
  id: string,
  failure: Failure,
  {
    durationMs = 0,
    spent = noUsage,
    middleware,
    ...fields
  }: Partial<Omit<LlmCallError, "failure">> & Partial<Pick<ModelFailed, "durationMs" | "spent" | "middleware">> = {},
): ModelFailed {
  const error: LlmCallError = {
    failure,
    terminalReason: "provider_error",
    requestBody: null,
    partial: null,
    ...fields,
  };
  return { type: "model_failed", id, error, spent, durationMs, ...(middleware === undefined ? {} : { middleware }) };
}

/**
 * Builds the response of a tool call. The content for the model follows from the outcome by default.
 *
 * @example
 * ```ts
 * import { toolReturned } from "everturn/advanced";
 *
 * toolReturned("t/0/tool/0", { type: "success", value: "sunny", control: null }).content; // => "sunny"
 * ```
 */
export function toolReturned(
  id: string,
  outcome: ToolOutcome,
  fields: OtherFields<ToolReturned, "outcome"> = {},
): ToolReturned {
  const parts = toolOutcomeParts(outcome);
  const [only] = parts;
  const content = parts.length === 1 && only?.type === "text" ? only.text : parts;
  return {
    type: "tool_returned",
    id,
    outcome,
    content,
    ranArguments: null,
    stops: false,
    spent: noUsage,
    durationMs: 0,
    ...fields,
  };
}

/** Builds the response of a tool call that needs an answer, an approval or a result from outside before it can end. */
export function toolWaits(id: string, reason: PendingReason, fields: OtherFields<ToolWaits, "reason"> = {}): ToolWaits {
  return { type: "tool_waits", id, reason, question: null, opts: {}, path: [], shown: null, spent: noUsage, ...fields };
}

/** Builds the response of a cell that ran to its end. */
export function codeFinished(id: string, fields: OtherFields<CodeFinished, never> = {}): CodeFinished {
  return { type: "code_finished", id, observations: [], error: null, finish: null, durationMs: 0, ...fields };
}

/** Builds the response of a cell that made tool calls and waits for their results. */
export function codeCalls(
  id: string,
  calls: readonly ToolCall[],
  executor: CodeCalls["executor"],
  fields: OtherFields<CodeCalls, "calls" | "executor"> = {},
): CodeCalls {
  return { type: "code_calls", id, calls, executor, ranMs: 0, durationMs: 0, ...fields };
}

/** Builds the response of a cell that could not be run to its end. The reason is `failed` by default. */
export function codeFailed(id: string, message: string, fields: OtherFields<CodeFailed, "message"> = {}): CodeFailed {
  return { type: "code_failed", id, reason: "failed", message, durationMs: 0, ...fields };
}

/** Builds the response to a checkpoint. By default nothing is added and the turn continues. */
export function checkpointDelivered(
  id: string,
  {
    verdict = { type: "go_on" },
    ...delivery
  }: Partial<CheckpointDelivery> & Partial<Pick<CheckpointDelivered, "verdict">> = {},
): CheckpointDelivered {
  const complete = { messages: [], transientMessages: [], turnCauses: [], inputs: [], ...delivery };
  return { type: "checkpoint_delivered", id, delivery: complete, verdict };
}

/** Builds an answer for `TurnInput.answers`: the result of a call that was pending. */
export function callResult(
  call: ToolCall,
  outcome: ToolOutcome,
  content = toolReturned("", outcome).content,
): CallAnswer {
  return { type: "result", call, outcome, content };
}

/** Builds an answer for `TurnInput.answers`: the decision about a call that was pending. */
export function callDecision(
  call: ToolCall,
  decision: Extract<CallAnswer, { readonly type: "decision" }>["decision"],
  idempotencyKey: string | null = null,
): CallAnswer {
  return { type: "decision", call, decision, idempotencyKey };
}
