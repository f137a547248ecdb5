// Checks whether a conversation can be continued from a history.

import type { Message } from "../../model/internal.ts";

/**
 * Can a conversation continue from this history? Every call must have a non-blank id and an answer, every answer a
 * call, and no two open calls the same id. Providers reject requests with unanswered calls.
 */
export function isResumeSafe(history: readonly Message[]): boolean {
  const open = new Set<string>();
  for (const message of history) {
    if (message.role === "tool" && !open.delete(message.toolCallId)) return false;
    if (message.role !== "assistant") continue;
    for (const { id } of message.toolCalls) {
      if (id.trim() === "" || open.has(id)) return false;
      open.add(id);
    }
  }
  return open.size === 0;
}
