import type { AssistantMessage, ModelReply } from "../../model/internal.ts";
import type { StepEnd } from "../machine/turn.ts";

import { adapterFailure, assistant, modelReply, noUsage, parse, replyText } from "../../model/internal.ts";
import { withoutCommentary } from "./reply-text.ts";

/**
 * A reply that can be kept. What a model wrote may be anything, also nested beyond all reason: a reply that could not be stored is reduced
 * to its text, its end and its calls, and arguments that could not be are none, which the model gets to hear.
 */
export function storableReply(reply: ModelReply): ModelReply {
  if (parse("reply", reply).ok) return reply;
  const usage = parse("usage", reply.usage).ok ? reply.usage : noUsage;
  if (usage !== reply.usage) return storableReply({ ...reply, usage });
  const { finishReason, rawFinishReason } = reply;
  const error = reply.error === null || parse("failure", reply.error).ok ? reply.error : adapterFailure("unknown");
  const toolCalls = reply.toolCalls.map((call) =>
    parse("tool_call", call).ok ? call : { ...call, arguments: null, provider: null, metadata: {} },
  );
  return modelReply({ outputText: replyText(reply) ?? "", finishReason, rawFinishReason, usage, error, toolCalls });
}

/** A reply as history keeps it. */
export function replyMessage(reply: ModelReply, id: string): AssistantMessage {
  const { finishReason, toolCalls } = reply;
  const given = reply.message ?? assistant(replyText(reply) ?? "");
  const content = typeof given.content === "string" ? given.content : withoutCommentary(given.content);
  return { ...given, id, content, toolCalls, finishReason };
}

/** The end of a step that was all reply. */
export function replyStepEnd(reply: ModelReply): StepEnd {
  return { reply, toolResults: [], pendingToolCalls: [], manualToolCalls: [], suspendedCell: null, mode: "auto" };
}
