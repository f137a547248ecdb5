// Messages in the JSON format of the GenAI conventions (`gen_ai.input.messages` and others). Used only with
// `captureContent`.
//
// Limits: each model call repeats the history, so a long session would export texts that grow with the square of its
// length. An attribute has at most `maxLength` characters; the oldest messages are left out first, then texts are cut
// in the middle. Bytes of images and files are never included.

import type {
  AssistantMessage,
  Json,
  JsonObject,
  Message,
  ModelReply,
  ModelRequest,
  Part,
} from "../../core/model/internal.ts";

import { redacted } from "../../core/engine/internal.ts";
import { textHead, truncateMiddle } from "../../core/model/internal.ts";

/** The messages of a request that fit, and the number of older ones that do not. */
export function inputMessages(
  { messages }: ModelRequest,
  maxLength: number,
): { readonly json: string; readonly dropped: number } {
  const kept: string[] = [];
  let length = 2;
  const conversation = messages.filter(({ role }) => role !== "system");
  for (const message of conversation.toReversed()) {
    const json = boundedJson((textLength) => JSON.stringify(messageAttribute(message, textLength)), maxLength - 2);
    length += json.length + (kept.length === 0 ? 0 : 1);
    if (length > maxLength && kept.length > 0) break;
    kept.push(json);
  }
  return { json: `[${kept.toReversed().join(",")}]`, dropped: conversation.length - kept.length };
}

/** The system messages of a request; `null`: there are none. */
export function systemInstructions({ messages }: ModelRequest, maxLength: number): string | null {
  const system = messages.filter(({ role }) => role === "system");
  if (system.length === 0) return null;
  const parts = (textLength: number) => system.flatMap((message) => partAttributes(message, textLength));
  return boundedJson((textLength) => JSON.stringify(parts(textLength)), maxLength);
}

/** The reply of a model; `null`: nothing was received. */
export function outputMessages({ message, finishReason }: ModelReply, maxLength: number): string | null {
  if (message === null) return null;
  const reply = (textLength: number) => ({
    ...messageAttribute(message, textLength),
    finish_reason: finishReason ?? "error",
  });
  return boundedJson((textLength) => JSON.stringify([reply(textLength)]), maxLength);
}

/** The tools that a request offers; `null`: there are none. */
export function toolDefinitions({ tools }: ModelRequest, maxLength: number): string | null {
  if (tools.length === 0) return null;
  const definitions = tools.map(({ name, description, schema }) => {
    return { type: "function", name, description, parameters: schema };
  });
  return jsonText(definitions, maxLength);
}

/** Any JSON value as text. A longer one is cut in the middle, and is then not JSON. */
export function jsonText(value: Json, maxLength: number): string {
  const text = redacted(typeof value === "string" ? value : JSON.stringify(value), "log");
  if (text.length <= maxLength) return text;
  return textHead(truncateMiddle(text, Math.max(1, maxLength - noteLength)), maxLength);
}

/** The longest note of `truncateMiddle` about what it left out. */
const noteLength = 64;

/**
 * JSON of at most `maxLength` characters: the length of each text in it is halved until it fits. A value of very many
 * parts is cut at the end, and is then not JSON.
 */
function boundedJson(jsonOf: (textLength: number) => string, maxLength: number): string {
  let json = jsonOf(maxLength);
  for (let length = maxLength / 2; json.length > maxLength && length >= 1; length /= 2) json = jsonOf(length);
  return textHead(json, maxLength);
}

function messageAttribute(message: Message, maxLength: number): JsonObject {
  // The conventions have no events: providers receive them as user messages.
  return { role: message.role === "event" ? "user" : message.role, parts: partAttributes(message, maxLength) };
}

function partAttributes(message: Message, maxLength: number): readonly JsonObject[] {
  const { content } = message;
  // A reply with calls only has an empty text.
  const texts = content === "" && message.role === "assistant" ? [] : content;
  const parts = typeof texts === "string" ? [textPart(texts, maxLength)] : texts.map((part) => partOf(part, maxLength));
  if (message.role === "tool") {
    return [{ type: "tool_call_response", id: message.toolCallId, response: parts }];
  }
  if (message.role !== "assistant") return parts;
  return [...parts.filter(({ type }) => type !== "tool_call"), ...callParts(message, maxLength)];
}

function callParts({ toolCalls }: AssistantMessage, maxLength: number): readonly JsonObject[] {
  return toolCalls.map(({ id, name, arguments: args }) => {
    return { type: "tool_call", id, name, arguments: jsonText(args, maxLength) };
  });
}

function partOf(part: Part, maxLength: number): JsonObject {
  switch (part.type) {
    case "text":
      return textPart(part.text, maxLength);
    case "reasoning":
      return { type: "reasoning", content: loggedText(part.text, maxLength) };
    case "image":
      return { type: "blob", modality: "image", mime_type: part.image.mimeType };
    case "file":
      return { type: "file", mime_type: part.mimeType };
    default:
      return { type: part.type };
  }
}

function textPart(text: string, maxLength: number): JsonObject {
  return { type: "text", content: loggedText(text, maxLength) };
}

function loggedText(text: string, maxLength: number): string {
  return truncateMiddle(redacted(text, "log"), maxLength);
}
