// Converts between the events of a model call and a reply, for middleware that reads or builds a whole reply.

import type { AssistantPart, ModelEvent, ModelReply, ToolCall } from "../../core/model/internal.ts";

import { Collector } from "../../core/kernel/internal.ts";
import {
  assistant,
  isEverturnError,
  isTerminal,
  messageCompleted,
  modelReply,
  streamFailure,
} from "../../core/model/internal.ts";

/**
 * Reads the stream of a model call to its end and returns the reply. A failure is in `error` of the reply, also if the
 * stream threw an Everturn error; any other error is thrown. Nothing reaches the readers of the turn meanwhile.
 */
export async function readReply(stream: AsyncIterable<readonly ModelEvent[]>): Promise<ModelReply> {
  const collector = new Collector();
  let hasEnded = false;
  try {
    for await (const batch of stream) {
      for (const event of batch) {
        hasEnded ||= isTerminal(event);
        collector.add(event);
      }
    }
  } catch (error) {
    if (hasEnded) return collector.reply();
    if (!isEverturnError(error)) throw error;
    return { ...collector.reply(), finishReason: "error", toolCalls: [], error: error.failure };
  }
  const reply = collector.reply();
  if (hasEnded) return reply;
  const failure = streamFailure("interrupted", { message: "the stream stopped without a terminal event" });
  return { ...reply, finishReason: "error", toolCalls: [], error: failure };
}

/**
 * Returns the events of a reply, as an adapter would emit them: what a middleware yields if it answers itself. A text
 * is a reply with this text.
 *
 * @example
 * ```ts
 * import { replyEvents } from "everturn/middleware";
 *
 * replyEvents("Hello.").map(({ type }) => type); // => ["message_started", "text_delta", "text_completed", "message_completed"]
 * ```
 */
export function replyEvents(given: ModelReply | string): readonly ModelEvent[] {
  const reply =
    typeof given === "string"
      ? modelReply({ message: assistant(given, { finishReason: "stop" }), outputText: given, finishReason: "stop" })
      : given;
  const completed = messageCompleted(reply);
  const { content, toolCalls, finishReason } = completed.message;
  const parts: readonly AssistantPart[] | null = typeof content === "string" ? null : content;
  const placed = new Set(parts?.flatMap((part) => (part.type === "tool_call" ? [part.toolCallId] : [])));
  const events: ModelEvent[] = [{ type: "message_started", message: assistant("") }];
  for (const warning of reply.warnings) events.push({ type: "warning", warning });
  if (typeof content === "string" && content !== "") events.push(...textEvents(null, content, null, null));
  for (const [index, part] of (parts ?? []).entries()) events.push(...partEvents(String(index), part, toolCalls));
  for (const call of toolCalls) if (!placed.has(call.id)) events.push(...callEvents(call, false));
  if (reply.error !== null) return [...events, { type: "error", error: reply.error }];
  return [...events, { ...completed, finishReason: completed.finishReason ?? finishReason }];
}

type TextCompleted = Extract<ModelEvent, { readonly type: "text_completed" }>;

function textEvents(
  id: string | null,
  text: string,
  phase: TextCompleted["phase"],
  provider: TextCompleted["provider"],
): readonly ModelEvent[] {
  return [
    { type: "text_delta", id, delta: text },
    { type: "text_completed", id, text, phase, provider },
  ];
}

function partEvents(id: string, part: AssistantPart, calls: readonly ToolCall[]): readonly ModelEvent[] {
  switch (part.type) {
    case "text":
      return textEvents(id, part.text, part.phase, part.provider);
    case "reasoning": {
      const { text, redacted, provider } = part;
      const delta: readonly ModelEvent[] = text === "" ? [] : [{ type: "reasoning_delta", id, delta: text }];
      return [...delta, { type: "reasoning_completed", id, text, redacted, provider }];
    }
    case "tool_call": {
      const call = part.providerExecuted ?? calls.find((item) => item.id === part.toolCallId);
      return call === undefined ? [] : callEvents(call, part.providerExecuted !== null);
    }
    default:
      return [];
  }
}

function callEvents(call: ToolCall, providerExecuted: boolean): readonly ModelEvent[] {
  const { id, name, rawArguments, provider, metadata } = call;
  const text = rawArguments ?? JSON.stringify(call.arguments ?? {});
  return [
    { type: "tool_call_started", id, name, providerExecuted },
    { type: "tool_call_delta", id, argumentsDelta: text },
    {
      type: "tool_call_completed",
      id,
      name,
      arguments: call.arguments,
      rawArguments,
      providerExecuted,
      provider,
      metadata,
    },
  ];
}
