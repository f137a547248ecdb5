// Responses, with what is not said filled in. Whoever performs an effect answers it with one of these.

import type { Failure, ModelReply, PendingReason, ToolCall, ToolOutcome } from "../../model/internal.ts";
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
} from "./effect.ts";
import type { CallAnswer } from "./turn.ts";

import { noUsage, toolOutcomeParts } from "../../model/internal.ts";

type Rest<R extends { readonly type: string; readonly id: string }, Given extends keyof R> = Partial<
  Omit<R, "type" | "id" | Given>
>;

/** The model answered. */
export function modelReplied(id: string, reply: ModelReply, rest: Rest<ModelReplied, "reply"> = {}): ModelReplied {
  return { type: "model_replied", id, reply, model: null, requestBody: null, spent: noUsage, durationMs: 0, ...rest };
}

/** The model could not be asked, or its answer broke off. */
export function modelFailed(
  id: string,
  failure: Failure,
  {
    durationMs = 0,
    spent = noUsage,
    ...rest
  }: Partial<Omit<LlmCallError, "failure">> & Partial<Pick<ModelFailed, "durationMs" | "spent">> = {},
): ModelFailed {
  const error: LlmCallError = {
    failure,
    terminalReason: "provider_error",
    requestBody: null,
    partial: null,
    ...rest,
  };
  return { type: "model_failed", id, error, spent, durationMs };
}

/**
 * The tool came to this. The model sees what the outcome says, unless an encoder made something else of it.
 *
 * @example
 * ```ts
 * import { toolReturned } from "everturn/kernel";
 *
 * toolReturned("t/0/tool/0", { type: "success", value: "sunny", control: null }).content; // => "sunny"
 * ```
 */
export function toolReturned(id: string, outcome: ToolOutcome, rest: Rest<ToolReturned, "outcome"> = {}): ToolReturned {
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
    ...rest,
  };
}

/** Somebody has to say something before the call can have a result. */
export function toolWaits(id: string, reason: PendingReason, rest: Rest<ToolWaits, "reason"> = {}): ToolWaits {
  return { type: "tool_waits", id, reason, question: null, opts: {}, path: [], spent: noUsage, ...rest };
}

/** The cell has come to its end. */
export function codeFinished(id: string, rest: Rest<CodeFinished, never> = {}): CodeFinished {
  return { type: "code_finished", id, observations: [], error: null, finish: null, durationMs: 0, ...rest };
}

/** The cell wants these calls made. */
export function codeCalls(
  id: string,
  calls: readonly ToolCall[],
  executor: CodeCalls["executor"],
  rest: Rest<CodeCalls, "calls" | "executor"> = {},
): CodeCalls {
  return { type: "code_calls", id, calls, executor, durationMs: 0, ...rest };
}

/** The cell could not be run to its end. */
export function codeFailed(id: string, message: string, rest: Rest<CodeFailed, "message"> = {}): CodeFailed {
  return { type: "code_failed", id, reason: "failed", message, durationMs: 0, ...rest };
}

/** The host has had its word. */
export function checkpointDelivered(
  id: string,
  {
    verdict = { type: "go_on" },
    ...delivery
  }: Partial<CheckpointDelivery> & Partial<Pick<CheckpointDelivered, "verdict">> = {},
): CheckpointDelivered {
  const whole = { messages: [], transientMessages: [], turnCauses: [], inputs: [], ...delivery };
  return { type: "checkpoint_delivered", id, delivery: whole, verdict };
}

/** What somebody gave as the result of a call that waited. */
export function callResult(
  call: ToolCall,
  outcome: ToolOutcome,
  content = toolReturned("", outcome).content,
): CallAnswer {
  return { type: "result", call, outcome, content };
}

/** What somebody decided about a call that waited. */
export function callDecision(
  call: ToolCall,
  decision: Extract<CallAnswer, { readonly type: "decision" }>["decision"],
  idempotencyKey: string | null = null,
): CallAnswer {
  return { type: "decision", call, decision, idempotencyKey };
}
