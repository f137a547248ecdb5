// Makes the ids of tool calls unique. Some providers repeat an id, and a thread with two calls of one id in a reply is
// invalid: a result could not be assigned to its call.

import type { AssistantMessage, AssistantPart, ModelReply, ToolCall } from "../../model/internal.ts";

/**
 * The reply with unique call ids, also in the parts that mark the positions of its calls. The same object if they are
 * unique.
 */
export function withUniqueCallIds(reply: ModelReply): ModelReply {
  const toolCalls = withUniqueIds(reply.toolCalls);
  if (toolCalls === reply.toolCalls) return reply;
  const message = reply.message === null ? null : withCalls(reply.message, reply.toolCalls, toolCalls);
  return { ...reply, toolCalls, message };
}

/**
 * The calls with unique ids: a repeated id gets the suffix `~2`, `~3`, …, which no other call has. The same list if
 * they are unique.
 */
function withUniqueIds(calls: readonly ToolCall[]): readonly ToolCall[] {
  const originalIds = new Set(calls.map(({ id }) => id));
  if (originalIds.size === calls.length) return calls;
  const usedIds = new Set<string>();
  return calls.map((call) => {
    let { id } = call;
    for (let n = 2; usedIds.has(id); n += 1) id = originalIds.has(`${call.id}~${n}`) ? id : `${call.id}~${n}`;
    usedIds.add(id);
    return id === call.id ? call : { ...call, id };
  });
}

/** The message with the renamed calls. The n-th part of an id marks the n-th call of that id. */
function withCalls(
  message: AssistantMessage,
  calls: readonly ToolCall[],
  toolCalls: readonly ToolCall[],
): AssistantMessage {
  if (typeof message.content === "string") return { ...message, toolCalls };
  const unmarked = calls.map(({ id }, index) => ({ id, renamed: toolCalls[index]?.id ?? id }));
  const content = message.content.map((part): AssistantPart => {
    if (part.type !== "tool_call" || part.providerExecuted !== null) return part;
    const index = unmarked.findIndex(({ id }) => id === part.toolCallId);
    const [call] = index === -1 ? [] : unmarked.splice(index, 1);
    return call === undefined || call.renamed === part.toolCallId ? part : { ...part, toolCallId: call.renamed };
  });
  return { ...message, content, toolCalls };
}
