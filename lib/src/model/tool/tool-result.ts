// The answer to a call, from whatever there is to answer with.

import type { PartInput, ToolMessage, UserPart } from "../message/message.ts";

import { MisuseError } from "../failure/misuse.ts";
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
 * import { toolResult } from "everturn/model";
 *
 * toolResult("call_1", "sunny").content; // => "sunny"
 * toolResult("call_1", { celsius: 21 }).content; // => '{"celsius":21}'
 * toolResult("call_1", [20, 21]).content; // => "[20,21]"
 * ```
 */
export function toolResult(
  toolCallId: string,
  content: string | readonly PartInput<UserPart>[],
  rest?: ToolResultRest,
): ToolMessage;
export function toolResult(toolCallId: string, value: unknown, rest?: ToolResultRest): ToolMessage;
export function toolResult(toolCallId: string, content: unknown, rest: ToolResultRest = {}): ToolMessage {
  return construct("toolResult", toolMessageShape, { ...rest, role: "tool", toolCallId, content: contentOf(content) });
}

type ToolResultRest = Partial<Omit<ToolMessage, "role" | "toolCallId" | "content">>;

function contentOf(value: unknown): unknown {
  // What looks like parts has to be parts: a slip in one must not send its insides to the model as JSON.
  if (typeof value === "string" || (Array.isArray(value) && value.length > 0 && value.every(looksLikePart)))
    return value;
  const encoded = encodeToolValue(value);
  if (!encoded.ok) throw new MisuseError("invalid_argument", `toolResult: ${encoded.failure.message}`);
  const shown = toolValueParts(encoded.value);
  const [only] = shown;
  return shown.length === 1 && only?.type === "text" ? only.text : shown;
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
