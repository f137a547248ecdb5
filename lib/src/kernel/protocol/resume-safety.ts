import type { Message } from "../../model/internal.ts";

/**
 * May history end here? Every call has an id and an answer, every answer its call, and no two calls are open under one id: a model that
 * is asked to go on from such a history is not shown a call it never gets an answer to. A turn stores its history midway only at such
 * points.
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
