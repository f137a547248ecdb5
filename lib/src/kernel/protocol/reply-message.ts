// Turns a model reply into the data that the history and the end of a step keep.

import type { AssistantMessage, ModelReply } from "../../model/internal.ts";
import type { StepEnd } from "../machine/turn.ts";

import { adapterFailure, assistant, modelReply, noUsage, parse, replyText } from "../../model/internal.ts";
import { withoutCommentary } from "./reply-text.ts";

/**
 * A reply that can be stored. An adapter may return data that the parser rejects, for example arguments nested deeper than the limit of model/parse.
 * Such a reply is reduced to its text, finish reason, usage and calls; arguments that cannot be stored become `null`, and the call is then
 * answered `invalid_arguments`.
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

/** The assistant message of a reply, as the history keeps it. */
export function replyMessage(reply: ModelReply, id: string): AssistantMessage {
  const { finishReason, toolCalls } = reply;
  const message = reply.message ?? assistant(replyText(reply) ?? "");
  const content = typeof message.content === "string" ? message.content : withoutCommentary(message.content);
  return { ...message, id, content, toolCalls, finishReason };
}

/** The end of a step without tool results and pending calls. */
export function replyStepEnd(reply: ModelReply): StepEnd {
  return { reply, toolResults: [], pendingToolCalls: [], manualToolCalls: [], suspendedCell: null, mode: "auto" };
}
