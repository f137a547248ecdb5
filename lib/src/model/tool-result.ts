// The answer to a call, from whatever there is to answer with.

import type { PartInput, ToolMessage, UserPart } from "./message.ts";
import type { ProgramValue } from "./tool-value.ts";

import { toolMessageShape, userPartShape } from "./message.ts";
import { MisuseError } from "./misuse.ts";
import { construct, read } from "./shape.ts";
import { encodeToolValue, toolValueParts } from "./tool-value.ts";

/**
 * The answer to a call. Text and lists of parts go to the model as they are; any other value goes as JSON, with its attachments as
 * what they are. A value that cannot be written as JSON throws `MisuseError`.
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
  content: ProgramValue | readonly PartInput<UserPart>[],
  rest: Partial<Omit<ToolMessage, "role" | "toolCallId" | "content">> = {},
): ToolMessage {
  return construct("toolResult", toolMessageShape, { ...rest, role: "tool", toolCallId, content: contentOf(content) });
}

function contentOf(value: unknown): ToolMessage["content"] {
  if (typeof value === "string") return value;
  const parts = Array.isArray(value) && value.length > 0 ? value.flatMap(asPart) : [];
  if (Array.isArray(value) && parts.length > 0 && parts.length === value.length) return parts;
  const encoded = encodeToolValue(value);
  if (!encoded.ok) throw new MisuseError("invalid_argument", `toolResult: ${encoded.failure.message}`);
  const shown = toolValueParts(encoded.value);
  const [only] = shown;
  return shown.length === 1 && only?.type === "text" ? only.text : shown;
}

function asPart(value: unknown): readonly UserPart[] {
  const found = read(userPartShape, value);
  return "value" in found ? [found.value] : [];
}
