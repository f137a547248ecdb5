// The default encoding of tool results for the model, and the length limit.

import type { ToolResultEncoder } from "../../engine/internal.ts";
import type { ToolMessage, UserPart } from "../../model/internal.ts";

import {
  encodeToolValue,
  orThrow,
  textPart,
  toolFailureText,
  toolValueParts,
  truncateMiddle,
} from "../../model/internal.ts";

/** The default result encoder: text as it is, other values as JSON, attachments as parts, a failure as `{"error": message}`. */
export const encodeAsJson: ToolResultEncoder = (result) =>
  result.type === "ok"
    ? plainIfText(toolValueParts(orThrow(encodeToolValue(result.value))))
    : toolFailureText(result.failure);

function plainIfText(parts: readonly UserPart[]): ToolMessage["content"] {
  const [only] = parts;
  return parts.length === 1 && only?.type === "text" ? only.text : parts;
}

/**
 * Cuts each text to `maxLength` characters: the middle is replaced by a marker that says how much is missing. A part that is cut loses its provider
 * options, because they may hold the text too (`searchResultPart`).
 */
export function cutContent(content: ToolMessage["content"], maxLength: number): ToolMessage["content"] {
  if (typeof content === "string") return truncateMiddle(content, maxLength);
  return content.map((part) => {
    const text = part.type === "text" ? truncateMiddle(part.text, maxLength) : null;
    return part.type !== "text" || text === null || text === part.text ? part : textPart(text);
  });
}
