// Turns a model reply into the data that the history and the end of a step keep.

import type { AssistantMessage, Failure, Json, ModelReply, ToolCall, Usage } from "../../model/internal.ts";
import type { StepEnd } from "../machine/turn.ts";

import {
  adapterFailure,
  assistant,
  hasValidCounts,
  isStorableJson,
  noUsage,
  replyOf,
  replyText,
} from "../../model/internal.ts";
import { withoutCommentary } from "./reply-text.ts";

/** Tell whether a reply, or a part of it, can be stored. */
type StorableChecks = {
  readonly reply: (reply: ModelReply) => boolean;
  readonly usage: (usage: Usage) => boolean;
  readonly failure: (failure: Failure) => boolean;
  readonly toolCall: (call: ToolCall) => boolean;
};

/**
 * A reply that can be stored. An adapter may return data that cannot, for example arguments nested deeper than the
 * limit of model/parse. Such a reply is reduced to its text, finish reason, usage and calls; arguments that cannot be
 * stored become `null`, and the call is then answered `invalid_arguments`. The default checks are those without which
 * the machine fails: depth, size and counts. The performer of model calls, which receives the replies of adapters,
 * checks the shapes (core/run/perform/model.ts).
 */
export function storableReply(reply: ModelReply, checks: StorableChecks = kernelChecks): ModelReply {
  if (checks.reply(reply)) return reply;
  const usage = checks.usage(reply.usage) ? reply.usage : noUsage;
  if (usage !== reply.usage) return storableReply({ ...reply, usage }, checks);
  const { finishReason, rawFinishReason } = reply;
  const error =
    reply.error === null || checks.failure(reply.error)
      ? reply.error
      : adapterFailure("unknown", { message: "the model call ended in an error" });
  const toolCalls = reply.toolCalls.map((call) =>
    checks.toolCall(call) ? call : { ...call, arguments: null, provider: null, metadata: {} },
  );
  return replyOf({ outputText: replyText(reply) ?? "", finishReason, rawFinishReason, usage, error, toolCalls });
}

const kernelChecks: StorableChecks = {
  reply: (reply) => hasValidCounts(reply.usage) && isShallow(reply),
  usage: (usage) => hasValidCounts(usage) && isShallow(usage),
  failure: isShallow,
  toolCall: isShallow,
};

/**
 * The levels of open JSON (`maxJsonDepth`), and those of the reply around it, for example of
 * `message.content[0].providerExecuted.arguments`.
 */
const maxReplyDepth = 128 + 8;

function isShallow(value: Json): boolean {
  return isStorableJson(value, maxReplyDepth);
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
