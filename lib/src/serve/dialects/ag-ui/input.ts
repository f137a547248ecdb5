// Reads the input of an AG-UI run. The client posts the whole conversation, which is untrusted: history comes from the
// session. Only what is new is read: the answers to interrupts, the results of tools that the client runs, or the
// newest user message.

import type { Json, JsonObject, UserMessage, UserPart } from "../../../core/model/internal.ts";
import type { ContentPolicy } from "../../http/internal.ts";
import type { Fields, Place } from "../shared/foreign-fields.ts";

import { filePart, imagePart, textPart, user } from "../../../core/model/internal.ts";
import { isPlainObject } from "../../../core/model/parse/reading.ts";
import { checkToolContent, isPathSegment, partProblem } from "../../http/internal.ts";
import { idAt, invalid, jsonAt, listAt, objectAt, textAt } from "../shared/foreign-fields.ts";

/** The parts of the input that are read. */
export type AgUiInput = {
  /** The id of the session. */
  readonly threadId: string;
  readonly runId: string;
  /** The conversation as the client has it. It is only sent back. */
  readonly messages: readonly Json[];
} & (
  | { readonly type: "resume"; readonly answers: readonly AgUiAnswer[] }
  | { readonly type: "results"; readonly results: readonly AgUiResult[] }
  | { readonly type: "message"; readonly messageId: string; readonly message: UserMessage }
  /** Nothing is new: the client reads the open turn. */
  | { readonly type: "attach" }
);

/** The answer to an interrupt. */
export type AgUiAnswer = {
  readonly interruptId: string;
  /** `cancelled`: the person does not want to answer. */
  readonly status: "resolved" | "cancelled";
  readonly payload: Json;
};

/** The result of a tool that the client ran. */
export type AgUiResult = { readonly messageId: string; readonly toolCallId: string; readonly content: Json };

/** Limits of the input. Beyond them it is rejected with 400. */
export type AgUiLimits = { readonly idLength: number; readonly textLength: number; readonly parts: number };

/** Reads the input of a run. Throws `ValidationError` with the invalid place. */
export function readAgUiInput(body: unknown, limits: AgUiLimits, policy: ContentPolicy): AgUiInput {
  const fields = objectAt(body, []);
  const threadId = idAt(fields, "threadId", [], limits);
  if (!isPathSegment(threadId))
    throw invalid(["threadId"], 'must have no lone surrogates, and must not be "." or ".."');
  const runId = idAt(fields, "runId", [], limits);
  const messages = listAt(fields["messages"] ?? [], ["messages"]);
  const base = {
    threadId,
    runId,
    messages: messages.map((message, index) => jsonAt(message, ["messages", index], "")),
  };
  const resume = listAt(fields["resume"] ?? [], ["resume"]);
  if (resume.length > limits.parts) throw invalid(["resume"], `must have at most ${limits.parts} entries`);
  if (resume.length > 0)
    return { ...base, type: "resume", answers: resume.map((entry, index) => answerAt(entry, index, limits)) };
  const last = messages.length - 1;
  if (last < 0) return { ...base, type: "attach" };
  const message = objectAt(messages[last], ["messages", last]);
  if (message["role"] === "user") {
    const messageId = idAt(message, "id", ["messages", last], limits);
    const content = contentAt(message, ["messages", last], limits, policy);
    return { ...base, type: "message", messageId, message: user(content, { id: messageId }) };
  }
  const results = resultsAtEnd(messages, limits, policy);
  return results.length > 0 ? { ...base, type: "results", results } : { ...base, type: "attach" };
}

function answerAt(entry: unknown, index: number, limits: AgUiLimits): AgUiAnswer {
  const place = ["resume", index];
  const fields = objectAt(entry, place);
  const interruptId = idAt(fields, "interruptId", place, { ...limits, idLength: 4 * limits.idLength });
  const { status } = fields;
  if (status !== "resolved" && status !== "cancelled")
    throw invalid([...place, "status"], "must be resolved or cancelled");
  return { interruptId, status, payload: jsonAt(fields["payload"] ?? null, place, "payload") };
}

/** The tool messages at the end of the conversation, oldest first. */
function resultsAtEnd(messages: readonly unknown[], limits: AgUiLimits, policy: ContentPolicy): readonly AgUiResult[] {
  const first = messages.findLastIndex((message) => !isPlainObject(message) || message["role"] !== "tool") + 1;
  if (messages.length - first > limits.parts)
    throw invalid(["messages"], `must end with at most ${limits.parts} results of tools`);
  return messages.slice(first).map((message, offset) => {
    const place = ["messages", first + offset];
    const fields = objectAt(message, place);
    const toolCallId = idAt(fields, "toolCallId", place, limits);
    const content = jsonAt(fields["content"] ?? "", place, "content");
    checkToolContent(content, policy, [...place, "content"]);
    return { messageId: typeof fields["id"] === "string" ? fields["id"] : "", toolCallId, content };
  });
}

function contentAt(
  message: Fields,
  place: Place,
  limits: AgUiLimits,
  policy: ContentPolicy,
): string | readonly UserPart[] {
  const { content } = message;
  const at = [...place, "content"];
  if (typeof content === "string") {
    if (content.length > limits.textLength) throw invalid(at, `must have at most ${limits.textLength} characters`);
    return content;
  }
  const list = listAt(content, at);
  if (list.length > limits.parts) throw invalid(at, `must have at most ${limits.parts} parts`);
  const parts = list.map((part, index) => partAt(part, [...at, index], policy));
  const length = parts.reduce((sum, part) => sum + (part.type === "text" ? part.text.length : 0), 0);
  if (length > limits.textLength) throw invalid(at, `must have at most ${limits.textLength} characters of text`);
  return parts;
}

function partAt(value: unknown, place: Place, policy: ContentPolicy): UserPart {
  const fields = objectAt(value, place);
  if (fields["type"] === "text") return textPart(textAt(fields, "text", place));
  if (!["image", "document", "audio", "video"].includes(String(fields["type"]))) {
    throw invalid([...place, "type"], "must be text, image, document, audio or video");
  }
  const at = [...place, "source"];
  const source = objectAt(fields["source"], at);
  const data = textAt(source, "value", at);
  const mimeType = source["mimeType"] === undefined ? null : textAt(source, "mimeType", at);
  const part = toUserPart(fields["type"] === "image", source["type"], data, mimeType, at);
  const problem = partProblem(part, policy);
  if (problem !== null) throw invalid(at, `must ${problem}`);
  return part;
}

function toUserPart(isImage: boolean, type: unknown, value: string, mimeType: string | null, place: Place): UserPart {
  switch (type) {
    case "data": {
      const content = { type: "base64", data: value } as const;
      return isImage ? imagePart({ source: content, mimeType }) : filePart(content, { mimeType });
    }
    case "url": {
      const content = { type: "url", url: value } as const;
      return isImage ? imagePart({ source: content, mimeType }) : filePart(content, { mimeType });
    }
    default:
      throw invalid([...place, "type"], "must be data or url; ids of files are not accepted");
  }
}

/** Returns the object of a value; `null`: it is none. */
export function asFields(value: Json): JsonObject | null {
  return isPlainObject(value) && !Array.isArray(value) ? value : null;
}
