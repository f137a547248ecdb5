// Builds the trace events of model calls (`log` notices), which are emitted if `emitLlmTrace` is set.

import type { Failure, Json, ModelReply } from "../../model/internal.ts";
import type { LlmTerminalReason } from "../protocol/terminal-reason.ts";
import type { LlmDebug, LlmError } from "./turn.ts";

import { normalizeContent, replyText } from "../../model/internal.ts";

type CallIdentity = Pick<LlmDebug, "sessionId" | "protocolIteration" | "requestBody">;

/** The trace of a model call that replied. */
export function llmDebug(identity: CallIdentity, reply: ModelReply): LlmDebug {
  const { usage } = reply;
  const parts: readonly Json[] = reply.message === null ? [] : normalizeContent(reply.message.content);
  return {
    type: "llm_debug",
    ...identity,
    usage,
    providerUsage: usage.extra,
    responseText: replyText(reply) ?? "",
    responseParts: [...parts, ...reply.toolCalls],
  };
}

/** The trace of a model call that failed. Only failures of an adapter say whether a retry may succeed. */
export function llmError(identity: CallIdentity, failure: Failure, terminalReason: LlmTerminalReason): LlmError {
  const details = "retryable" in failure ? failure : { retryable: false, raw: null, code: null };
  const { retryable, raw, code } = details;
  return { type: "llm_error", ...identity, message: failure.message, retryable, raw, code, terminalReason };
}
