// Rules about the text and the usage of a model reply.

import type { AssistantPart, ModelReply, Part } from "../../model/internal.ts";

/** Removes text parts of the phase `commentary` if the reply has a non-empty part of the phase `final_answer`. */
export function withoutCommentary(parts: readonly AssistantPart[]): readonly AssistantPart[] {
  if (!parts.some(isFinalAnswer)) return parts;
  return parts.filter((part) => part.type !== "text" || part.phase !== "commentary");
}

function isFinalAnswer(part: Part): boolean {
  return part.type === "text" && part.phase === "final_answer" && part.text !== "";
}

/** Joins two texts as paragraphs: adds line breaks until there are two between them. */
export function joinParagraph(before: string, after: string): string {
  if (before === "" || after === "") return before + after;
  const breaks = breaksAtEnd(before) + breaksAtStart(after);
  return before + "\n".repeat(Math.max(0, 2 - breaks)) + after;
}

function breaksAtEnd(text: string): number {
  if (!text.endsWith("\n")) return 0;
  return text.endsWith("\n\n") ? 2 : 1;
}

function breaksAtStart(text: string): number {
  if (!text.startsWith("\n")) return 0;
  return text.startsWith("\n\n") ? 2 : 1;
}

/**
 * Did the prompt fill the context window? Some providers report this as finish reason `length` instead of an error.
 * True if the reply ended with `length`, reported zero output tokens, and the prompt took at least 95 % of a known
 * window. The turn then fails as `context_length_exceeded`.
 */
export function isContextOverflow(reply: ModelReply, maxContextTokens: number | null): boolean {
  if (reply.finishReason !== "length" || reply.usage.outputTokens !== 0) return false;
  if (maxContextTokens === null || maxContextTokens <= 0) return false;
  const { inputTokens } = reply.usage;
  return inputTokens !== null && inputTokens >= Math.floor((maxContextTokens * 95) / 100);
}
