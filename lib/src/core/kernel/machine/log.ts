// Builds the trace events of model calls (`log` notices), which are emitted if `emitLlmTrace` is set.

import type { AssistantPart, Failure, Json, JsonObject, ModelReply, ToolCall } from "../../model/internal.ts";
import type { LlmTerminalReason } from "../protocol/terminal-reason.ts";
import type { LlmDebug, LlmError } from "./turn.ts";

import { normalizeContent, replyText } from "../../model/internal.ts";

type CallIdentity = Pick<LlmDebug, "sessionId" | "protocolIteration" | "requestBody">;

/**
 * The value without the opaque replay data of its provider (signatures, encrypted reasoning). A log is read outside of
 * the route that the data belongs to (W4), so it never has it; parts that are nothing but such data are left out.
 */
function withoutReplay(value: Exclude<AssistantPart, { readonly type: "opaque" }> | ToolCall): JsonObject {
  const { provider: _, ...visible }: JsonObject = { ...value };
  return visible;
}

/** The trace of a model call that replied, without opaque provider data. */
export function llmDebug(identity: CallIdentity, reply: ModelReply): LlmDebug {
  const { usage } = reply;
  const content: readonly AssistantPart[] =
    reply.message === null ? [] : normalizeContent<AssistantPart>(reply.message.content);
  const parts = content.flatMap((part): readonly Json[] => (part.type === "opaque" ? [] : [withoutReplay(part)]));
  return {
    type: "llm_debug",
    ...identity,
    usage,
    providerUsage: usage.extra,
    responseText: replyText(reply) ?? "",
    responseParts: [...parts, ...reply.toolCalls.map(withoutReplay)],
  };
}

/** The trace of a model call that failed. Only failures of an adapter say whether a retry may succeed. */
export function llmError(identity: CallIdentity, failure: Failure, terminalReason: LlmTerminalReason): LlmError {
  const details = "retryable" in failure ? failure : { retryable: false, raw: null, code: null };
  const { retryable, raw, code } = details;
  return { type: "llm_error", ...identity, message: failure.message, retryable, raw, code, terminalReason };
}
