// The terminal reason of a model call, derived from its reply, and what each reason means for the turn:
//
//   stop, tool_use, unknown    the protocol decides
//   output_limit               the turn completes as incomplete; calls are not run
//   content_filter             the turn completes as filtered; calls are not run
//   context_overflow           the turn fails: a retry with the same prompt would fail again
//   provider_error             the turn fails
//   cancelled                  the turn is cancelled

import type { FinishReason, ModelReply } from "../../model/internal.ts";
import type { WordOf } from "../../model/parse/reading.ts";

import { isContextOverflow } from "./reply-text.ts";

/** Why a model call ended, as the kernel distinguishes it. */
export type LlmTerminalReason = WordOf<typeof llmTerminalReasons>;

/** All terminal reasons. Stored: the list only grows. */
export const llmTerminalReasons = [
  "stop",
  "tool_use",
  "output_limit",
  "context_overflow",
  "content_filter",
  "provider_error",
  "cancelled",
  "unknown",
] as const;

const byFinishReason: { readonly [R in FinishReason]: LlmTerminalReason } = {
  stop: "stop",
  tool_calls: "tool_use",
  length: "output_limit",
  content_filter: "content_filter",
  paused: "unknown",
  error: "provider_error",
  other: "unknown",
};

/** The terminal reason of a reply. An `error` in the reply takes precedence over its finish reason. */
export function terminalReasonOf(reply: ModelReply, maxContextTokens: number | null): LlmTerminalReason {
  if (reply.error !== null) return "provider_error";
  if (isContextOverflow(reply, maxContextTokens)) return "context_overflow";
  return reply.finishReason === null ? "unknown" : byFinishReason[reply.finishReason];
}
