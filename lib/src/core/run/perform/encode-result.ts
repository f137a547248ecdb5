// The default encoding of tool results for the model, and the length limit.

import type { ToolResultEncoder } from "../../engine/internal.ts";
import type { Json, ToolMessage, UserPart } from "../../model/internal.ts";

import {
  encodeToolValue,
  isJsonArray,
  orThrow,
  parseJson,
  textPart,
  toolFailureText,
  toolValueParts,
  truncateMiddle,
} from "../../model/internal.ts";

/**
 * The default result encoder: text as it is, other values as JSON, attachments as parts, a failure as
 * `{"error": message}`.
 */
export const encodeAsJson: ToolResultEncoder = (result) =>
  result.type === "ok"
    ? plainIfText(toolValueParts(orThrow(encodeToolValue(result.value))))
    : toolFailureText(result.failure);

function plainIfText(parts: readonly UserPart[]): ToolMessage["content"] {
  const [only] = parts;
  return parts.length === 1 && only?.type === "text" ? only.text : parts;
}

/**
 * Cuts each text to `maxLength` characters: the middle is replaced by a marker that says how much is missing. The
 * answer of a provider tool (`isStructured`) may be a JSON text with a form that the API defines: the strings in it are
 * cut instead, so that it stays JSON. A part that is cut loses its provider options, because they may hold the text too
 * (`searchResultPart`).
 */
export function cutContent(
  content: ToolMessage["content"],
  maxLength: number,
  isStructured: boolean,
): ToolMessage["content"] {
  const cut = (text: string) => (isStructured ? cutJsonText(text, maxLength) : truncateMiddle(text, maxLength));
  if (typeof content === "string") return cut(content);
  return content.map((part) => {
    const text = part.type === "text" ? cut(part.text) : null;
    return part.type !== "text" || text === null || text === part.text ? part : textPart(text);
  });
}

function cutJsonText(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text;
  const parsed = parseJson(text);
  const isStructure = parsed !== null && typeof parsed.value === "object" && parsed.value !== null;
  return isStructure ? JSON.stringify(cutStrings(parsed.value, maxLength)) : truncateMiddle(text, maxLength);
}

function cutStrings(value: Json, maxLength: number): Json {
  if (typeof value === "string") return truncateMiddle(value, maxLength);
  if (typeof value !== "object" || value === null) return value;
  if (isJsonArray(value)) return value.map((item) => cutStrings(item, maxLength));
  return Object.fromEntries(
    Object.entries(value).map(([key, item]): [string, Json] => [key, cutStrings(item, maxLength)]),
  );
}
