// Small judgements about what a model said.

import type { AssistantPart, ModelReply, Part } from "../model/index.ts";

/** Drops what a model said on the way once it has also given its final answer. */
export function withoutCommentary(parts: readonly AssistantPart[]): readonly AssistantPart[] {
  if (!parts.some(isFinalAnswer)) return parts;
  return parts.filter((part) => part.type !== "text" || part.phase !== "commentary");
}

function isFinalAnswer(part: Part): boolean {
  return part.type === "text" && part.phase === "final_answer" && part.text !== "";
}

/** Text behind text, as paragraphs: with as many line breaks between them as it takes to make two. */
export function joinParagraph(before: string, after: string): string {
  if (before === "" || after === "") return before + after;
  const breaks = (/\n*$/.exec(before)?.[0].length ?? 0) + (/^\n*/.exec(after)?.[0].length ?? 0);
  return before + "\n".repeat(Math.max(0, 2 - breaks)) + after;
}

/**
 * Did a reply end at its output limit only because the prompt had left no room? Then it has to be treated as a prompt that is too
 * long. All must hold: it ended at the limit, said nothing, and the prompt took 95 % of a window that is known.
 */
export function isContextOverflow(reply: ModelReply, maxContextTokens: number | null): boolean {
  if (reply.finishReason !== "length" || reply.usage.outputTokens !== 0) return false;
  if (maxContextTokens === null || maxContextTokens <= 0) return false;
  return (reply.usage.inputTokens ?? 0) >= Math.floor((maxContextTokens * 95) / 100);
}

/** Head and tail of a text that is too long, and how much was left out between them. 0 is no limit. */
export function truncateMiddle(text: string, maxLength: number): string {
  if (maxLength === 0 || text.length <= maxLength) return text;
  const head = Math.floor(maxLength / 2);
  const omitted = text.length - maxLength;
  return `${text.slice(0, head)}\n\n... (${omitted} characters omitted) ...\n\n${text.slice(text.length - (maxLength - head))}`;
}
