// Constructors of messages and parts that the library writes itself, such as the answer to a call that was not run. The constructors of message.ts and
// part.ts read the arguments of a program with a shape; here the compiler has checked the arguments. The kernel uses only these, so a program that uses
// only the kernel contains no shapes.

import type { JsonObject } from "../parse/json.ts";
import type { ContentSource } from "./content-source.ts";
import type { AssistantMessage, EventMessage, Message, SystemMessage, ToolMessage, UserMessage } from "./message.ts";
import type { FilePart, ImagePart, TextKind, TextPart, ToolResultPart } from "./part.ts";

import { emptyObject } from "../parse/json.ts";

/** A text part without replay data. */
export function textPartOf(text: string, kind: TextKind = "text"): TextPart {
  return { type: "text", text, kind, phase: null, provider: null, metadata: emptyObject, pruneState: null };
}

/** An image part without replay data. */
export function imagePartOf(source: ContentSource, mimeType: string): ImagePart {
  const unknown = { width: null, height: null, prompt: null, revisedPrompt: null };
  return {
    type: "image",
    image: { source, mimeType, ...unknown, metadata: emptyObject },
    detail: "auto",
    provider: null,
    metadata: emptyObject,
    pruneState: null,
  };
}

/** A file part without replay data. */
export function filePartOf(source: ContentSource, mimeType: string | null, name: string | null): FilePart {
  return { type: "file", source, mimeType, name, provider: null, metadata: emptyObject, pruneState: null };
}

/** The result of a call that the provider ran, without replay data. */
export function toolResultPartOf(toolCallId: string, content: string, isError: boolean): ToolResultPart {
  return {
    type: "tool_result",
    toolCallId,
    content,
    isError,
    provider: null,
    metadata: emptyObject,
    pruneState: null,
  };
}

/** The fields of a message besides those that its constructor takes as arguments. */
type OtherFields<M extends Message> = Partial<Omit<M, "role" | "content" | "toolCallId">>;

type SharedFields = { readonly id: null; readonly name: null; readonly origin: null; readonly metadata: JsonObject };

const noFields: SharedFields = { id: null, name: null, origin: null, metadata: emptyObject };

/** A system message. */
export function systemMessageOf(
  content: SystemMessage["content"],
  fields: OtherFields<SystemMessage> = {},
): SystemMessage {
  return { role: "system", content, ...noFields, ...fields };
}

/** A user message. */
export function userMessageOf(content: UserMessage["content"], fields: OtherFields<UserMessage> = {}): UserMessage {
  return { role: "user", content, ...noFields, ...fields };
}

/** An assistant message, by default without tool calls. */
export function assistantMessageOf(
  content: AssistantMessage["content"],
  fields: OtherFields<AssistantMessage> = {},
): AssistantMessage {
  return { role: "assistant", content, toolCalls: [], finishReason: null, ...noFields, ...fields };
}

/** A tool message, by default of a successful call. */
export function toolMessageOf(
  toolCallId: string,
  content: ToolMessage["content"],
  fields: OtherFields<ToolMessage> = {},
): ToolMessage {
  const answer = { status: "success", code: null, ranArguments: null } as const;
  return { role: "tool", toolCallId, content, ...answer, ...noFields, ...fields };
}

/** An event message. */
export function eventMessageOf(content: EventMessage["content"], fields: OtherFields<EventMessage> = {}): EventMessage {
  return { role: "event", content, ...noFields, ...fields };
}
