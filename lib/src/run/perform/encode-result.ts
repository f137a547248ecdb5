// What a model gets to see of a result, unless somebody has another idea.

import type { ToolResultEncoder } from "../../engine/internal.ts";
import type { ToolMessage, UserPart } from "../../model/internal.ts";

import { encodeToolValue, orThrow, textPart, toolValueParts, truncateMiddle } from "../../model/internal.ts";

/** Text as it is, everything else as JSON, with attachments as what they are; a failure as `{"error": …}`. */
export const encodeAsJson: ToolResultEncoder = (result) =>
  result.type === "ok"
    ? plainIfText(toolValueParts(orThrow(encodeToolValue(result.value))))
    : JSON.stringify({ error: result.failure.message });

function plainIfText(parts: readonly UserPart[]): ToolMessage["content"] {
  const [only] = parts;
  return parts.length === 1 && only?.type === "text" ? only.text : parts;
}

/** The content with texts that are too long cut in the middle, where a mark says how much is missing. */
export function cutContent(content: ToolMessage["content"], maxLength: number): ToolMessage["content"] {
  if (typeof content === "string") return truncateMiddle(content, maxLength);
  return content.map((part) => (part.type === "text" ? textPart(truncateMiddle(part.text, maxLength)) : part));
}
