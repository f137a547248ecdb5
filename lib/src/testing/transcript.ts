// Renders the events of a run as lines of text, for tests that compare a whole run at a glance.

import type { TurnEvent } from "../core/model/internal.ts";

/** Renders an event as one line: its type and its distinguishing fields. Text deltas are quoted. */
export function line(event: TurnEvent): string {
  switch (event.type) {
    case "text_delta":
    case "reasoning_delta":
      return `${event.type} ${JSON.stringify(event.delta)}`;
    case "text_completed":
    case "reasoning_completed":
      return `${event.type} ${JSON.stringify(event.text)}`;
    case "tool_call_started":
    case "tool_call_completed":
    case "tool_execution_started":
      return `${event.type} ${event.id} ${event.name}`;
    case "tool_call_delta":
      return `${event.type} ${event.id} ${JSON.stringify(event.argumentsDelta)}`;
    case "tool_progress":
      return `${event.type} ${event.id} ${JSON.stringify(event.progress)}`;
    case "tool_execution_completed":
      return `${event.type} ${event.id} ${event.result.type}`;
    case "tool_result_encoded":
      return `${event.type} ${event.id} ${typeof event.content === "string" ? event.content : "parts"}`;
    case "ask_user_requested":
      return `${event.type} ${event.toolCallId} ${JSON.stringify(event.question)}`;
    case "approval_requested":
      return `${event.type} ${event.toolCallId} ${event.toolName}`;
    case "tool_halt":
      return `${event.type} ${event.toolCallId} ${event.reason}`;
    case "message_completed":
      return `${event.type} ${event.finishReason ?? "unknown"}`;
    case "error":
      return `${event.type} ${event.error.reason}`;
    case "warning":
      return `${event.type} ${event.warning.path}`;
    case "retry_scheduled":
      return `${event.type} ${event.delayMs} ms`;
    case "step_reset":
      return `${event.type} ${event.reason}`;
    case "step_completed":
      return `${event.type} ${event.response.finishReason ?? "unknown"}`;
    case "chat_completed":
      return `${event.type} ${event.result.haltedReason}`;
    default:
      return event.type;
  }
}

/** Reads the events of a stream to the end and returns one line of text per event. */
export async function transcript(events: AsyncIterable<TurnEvent>): Promise<readonly string[]> {
  const lines: string[] = [];
  for await (const event of events) lines.push(line(event));
  return lines;
}
