// Builds the tool message that answers a call, from text, parts or any value that JSON can represent.

import type { PartInput, ToolMessage, UserPart } from "../message/message.ts";

import { invalidArgument } from "../failure/misuse.ts";
import { toolMessageShape } from "../message/message.ts";
import { isPlainObject, ownValue } from "../parse/json.ts";
import { construct } from "../parse/shape.ts";
import { encodeToolValue, toolValueParts } from "./tool-value.ts";

/**
 * Builds the message that answers a tool call. Text and lists of parts are sent as they are; any other value is
 * sent as JSON, with its attachments as parts. Throws `MisuseError` for a value that JSON cannot represent.
 *
 * @example
 * ```ts
 * import { toolResult } from "everturn";
 *
 * toolResult("call_1", "sunny").content; // => "sunny"
 * toolResult("call_1", { celsius: 21 }).content; // => '{"celsius":21}'
 * toolResult("call_1", [20, 21]).content; // => "[20,21]"
 * ```
 */
export function toolResult(
  toolCallId: string,
  content: string | readonly PartInput<UserPart>[],
  fields?: ToolResultFields,
): ToolMessage;
export function toolResult(toolCallId: string, value: unknown, fields?: ToolResultFields): ToolMessage;
export function toolResult(toolCallId: string, content: unknown, fields: ToolResultFields = {}): ToolMessage {
  return construct("toolResult", toolMessageShape, {
    ...fields,
    role: "tool",
    toolCallId,
    content: contentOf(content),
  });
}

type ToolResultFields = Partial<Omit<ToolMessage, "role" | "toolCallId" | "content">>;

function contentOf(value: unknown): unknown {
  // A list that looks like parts is validated as parts and not encoded as JSON. Otherwise a typing error in a part
  // would send its fields, such as base64 data, to the model as text.
  if (typeof value === "string" || (Array.isArray(value) && value.length > 0 && value.every(looksLikePart)))
    return value;
  const encoded = encodeToolValue(value);
  if (!encoded.ok) throw invalidArgument(`toolResult: ${encoded.failure.message}`);
  const parts = toolValueParts(encoded.value);
  const [first] = parts;
  return parts.length === 1 && first?.type === "text" ? first.text : parts;
}

function looksLikePart(value: unknown): boolean {
  if (!isPlainObject(value)) return false;
  const type = ownValue(value, "type");
  return (
    (type === "text" && Object.hasOwn(value, "text")) ||
    (type === "image" && Object.hasOwn(value, "image")) ||
    (type === "file" && Object.hasOwn(value, "source"))
  );
}
