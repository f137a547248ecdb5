// Small judgements about what a model said.

import type { AssistantPart, ModelReply, Part } from "../../model/internal.ts";

/** Drops what a model said on the way once it has also given its final answer. */
export function withoutCommentary(parts: readonly AssistantPart[]): readonly AssistantPart[] {
  if (!parts.some(isFinalAnswer)) return parts;
  return parts.filter((part) => part.type !== "text" || part.phase !== "commentary");
}

function isFinalAnswer(part: Part): boolean {
  return part.type === "text" && part.phase === "final_answer" && part.text !== "";
}

/** Joins two texts as paragraphs, adding only the line breaks missing to make two. */
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
 * Did a reply end at its output limit only because the prompt had left no room? Then it has to be treated as a prompt that is too
 * long. All must hold: it ended at the limit, reported no output tokens, and the prompt took 95 % of a window that is known.
 */
export function isContextOverflow(reply: ModelReply, maxContextTokens: number | null): boolean {
  if (reply.finishReason !== "length" || reply.usage.outputTokens !== 0) return false;
  if (maxContextTokens === null || maxContextTokens <= 0) return false;
  const { inputTokens } = reply.usage;
  return inputTokens !== null && inputTokens >= Math.floor((maxContextTokens * 95) / 100);
}
