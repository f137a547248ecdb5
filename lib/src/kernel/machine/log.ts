// What the log is told of a model call.

import type { Failure, Json, ModelReply } from "../../model/internal.ts";
import type { LlmTerminalReason } from "../protocol/terminal-reason.ts";
import type { LlmDebug, LlmError } from "./turn.ts";

import { normalizeContent, replyText } from "../../model/internal.ts";

type Where = Pick<LlmDebug, "sessionId" | "protocolIteration" | "requestBody">;

export function llmDebug(where: Where, reply: ModelReply): LlmDebug {
  const { usage } = reply;
  const parts: readonly Json[] = reply.message === null ? [] : normalizeContent(reply.message.content);
  return {
    type: "llm_debug",
    ...where,
    usage,
    providerUsage: usage.extra,
    responseText: replyText(reply) ?? "",
    responseParts: [...parts, ...reply.toolCalls],
  };
}

export function llmError(where: Where, failure: Failure, terminalReason: LlmTerminalReason): LlmError {
  const told = "retryable" in failure ? failure : { retryable: false, raw: null, code: null };
  const { retryable, raw, code } = told;
  return { type: "llm_error", ...where, message: failure.message, retryable, raw, code, terminalReason };
}
