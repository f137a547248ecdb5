// Reads what a client of the AI SDK posts: `{ id, messages, trigger, messageId }`. A client sends the whole chat as it has it, and could send anything: the
// conversation is the session's. So of all that only two things are read, and the rest is not looked at: the newest message, if it is the user's,
// or what was said to calls in the message that is to go on.

import type { Issue, Json, UserMessage, UserPart } from "../../model/internal.ts";

import { filePart, imagePart, textPart, user, ValidationError } from "../../model/internal.ts";
import { isPlainObject, json, read } from "../../model/parse/reading.ts";
import { isPathSegment } from "../input.ts";

/** What a client posted, as far as it is read. */
export type UiPost = { readonly chatId: string } & (
  | { readonly type: "message"; readonly messageId: string; readonly message: UserMessage }
  | {
      readonly type: "answers";
      /** The message that goes on. */
      readonly messageId: string;
      readonly answers: readonly UiAnswer[];
      /** The calls the client has in it. */
      readonly known: readonly string[];
    }
);

/** What was said to a call. */
export type UiAnswer =
  | {
      readonly type: "decision";
      readonly toolCallId: string;
      readonly approvalId: string;
      readonly approved: boolean;
      readonly reason: string | null;
    }
  | {
      readonly type: "result";
      readonly toolCallId: string;
      readonly toolName: string;
      /** The turn that made the call, as the client was told it. */
      readonly turnId: string | null;
      readonly content: Json;
    };

export type UiLimits = {
  /** Characters of an id. */
  readonly idLength: number;
  /** Characters of text in a message. */
  readonly textLength: number;
  /** Parts of a message. */
  readonly parts: number;
};

export const defaultUiLimits: UiLimits = { idLength: 256, textLength: 1_000_000, parts: 256 };

type Place = readonly (string | number)[];
type Fields = { readonly [key: string]: unknown };

export function readUiPost(body: unknown, limits: UiLimits = defaultUiLimits): UiPost {
  const fields = objectAt(body, []);
  const chatId = idAt(fields, "id", [], limits);
  if (!isPathSegment(chatId)) throw refused(["id"], 'has to be whole characters, and not "." or ".."');
  const trigger = fields["trigger"] ?? "submit-message";
  if (trigger === "regenerate-message") {
    throw refused(
      ["trigger"],
      "a message cannot be made anew: history only grows; fork the session at an earlier message",
    );
  }
  if (trigger !== "submit-message") throw refused(["trigger"], "must be submit-message");
  const messages = listAt(fields["messages"], ["messages"]);
  const last = messages.length - 1;
  if (last < 0) throw refused(["messages"], "must have a message");
  const named = fields["messageId"] ?? null;
  const newest = objectAt(messages[last], ["messages", last]);
  if (named !== null && typeof named !== "string") throw refused(["messageId"], "must be a string");
  const going = named === null || newest["id"] === named ? last : messages.findLastIndex((one) => isNamed(one, named));
  if (going < 0) throw refused(["messageId"], "names no message of the chat");
  const place = ["messages", going];
  const message = objectAt(messages[going], place);
  const messageId = idAt(message, "id", place, limits);
  switch (message["role"]) {
    case "user":
      if (named !== null) {
        throw refused(["messageId"], "a message cannot be edited: history only grows; fork the session before it");
      }
      return { type: "message", chatId, messageId, message: user(saidIn(message, place, limits), { id: messageId }) };
    case "assistant":
      return { type: "answers", chatId, messageId, ...answersIn(message, place, limits) };
    default:
      throw refused([...place, "role"], "must be user or assistant");
  }
}

function isNamed(message: unknown, id: string): boolean {
  return isPlainObject(message) && message["id"] === id;
}

// What the user says.

function saidIn(message: Fields, place: Place, limits: UiLimits): UserMessage["content"] {
  const parts = listAt(message["parts"], [...place, "parts"]);
  if (parts.length > limits.parts) throw refused([...place, "parts"], `a message has at most ${limits.parts} parts`);
  let length = 0;
  const said = parts.flatMap((given, index): readonly UserPart[] => {
    const at = [...place, "parts", index];
    const part = objectAt(given, at);
    const type = textAt(part, "type", at);
    if (type === "text") {
      const text = textAt(part, "text", at);
      length += text.length;
      if (length > limits.textLength) throw refused(at, `a message has at most ${limits.textLength} characters`);
      return text === "" ? [] : [textPart(text)];
    }
    if (type === "file") return [fileIn(part, at)];
    // What an application keeps in a message for itself is no part of what was said.
    if (type.startsWith("data-")) return [];
    throw refused([...at, "type"], "a message of the user has parts of type text and file");
  });
  if (said.length === 0) throw refused([...place, "parts"], "the message says nothing");
  const [only] = said;
  return said.length === 1 && only?.type === "text" ? only.text : said;
}

function fileIn(part: Fields, place: Place): UserPart {
  const url = textAt(part, "url", place);
  const mediaType = textAt(part, "mediaType", place).toLowerCase();
  if (!/^[\w.+-]{1,127}(?:\/[\w.+*-]{1,127})?$/.test(mediaType))
    throw refused([...place, "mediaType"], "is no media type");
  const name = typeof part["filename"] === "string" ? part["filename"].slice(0, 255) : null;
  const source = sourceOf(url, [...place, "url"]);
  const exact = mediaType.includes("/") && !mediaType.includes("*") ? mediaType : source.mimeType;
  const kind = (exact ?? mediaType).split("/")[0];
  return kind === "image"
    ? imagePart({ source: source.source, mimeType: exact })
    : filePart(source.source, { mimeType: exact, name });
}

/** Where the bytes of a file are: in the URL itself, or on the web. Nothing on a disk. */
function sourceOf(url: string, place: Place) {
  if (/^data:/i.test(url)) {
    const comma = url.indexOf(",");
    const [mimeType = "", ...parameters] = url.slice("data:".length, comma < 0 ? 0 : comma).split(";");
    const data = url.slice(comma + 1);
    const isBase64 = comma > 0 && parameters.at(-1)?.toLowerCase() === "base64";
    if (!isBase64 || data.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(data)) {
      throw refused(place, "a data URL has to be in base64");
    }
    return { source: { type: "base64", data }, mimeType: mimeType === "" ? null : mimeType.toLowerCase() } as const;
  }
  if (!/^https?:\/\/[^\s]{1,8192}$/i.test(url)) throw refused(place, "must be a data URL, or of http or https");
  return { source: { type: "url", url }, mimeType: null } as const;
}

// What was said to calls.

/** Of the last step alone: calls of the steps before it have been answered, and may have had the same ids. */
function answersIn(
  message: Fields,
  place: Place,
  limits: UiLimits,
): { readonly answers: readonly UiAnswer[]; readonly known: readonly string[] } {
  const parts = listAt(message["parts"], [...place, "parts"]);
  const step = parts.findLastIndex((part) => isPlainObject(part) && part["type"] === "step-start");
  const known = parts.flatMap((part) => {
    const id = isPlainObject(part) && isTool(part) ? part["toolCallId"] : null;
    return typeof id === "string" ? [id] : [];
  });
  const answers = parts.slice(step + 1).flatMap((given, index): readonly UiAnswer[] => {
    const at = [...place, "parts", step + 1 + index];
    return isPlainObject(given) && isTool(given) ? answerIn(given, at, limits) : [];
  });
  if (answers.length > limits.parts)
    throw refused([...place, "parts"], `at most ${limits.parts} calls are answered at once`);
  return { answers, known };
}

function isTool(part: Fields): boolean {
  const { type } = part;
  return typeof type === "string" && (type.startsWith("tool-") || type === "dynamic-tool");
}

function answerIn(part: Fields, place: Place, limits: UiLimits): readonly UiAnswer[] {
  const toolCallId = idAt(part, "toolCallId", place, limits);
  switch (part["state"]) {
    case "approval-responded": {
      const at = [...place, "approval"];
      const approval = objectAt(part["approval"], at);
      const { approved, reason = null } = approval;
      if (typeof approved !== "boolean") throw refused([...at, "approved"], "must be true or false");
      if (reason !== null && typeof reason !== "string") throw refused([...at, "reason"], "must be a string");
      if (reason !== null && reason.length > limits.textLength) throw refused([...at, "reason"], "is too long");
      const approvalId = textAt(approval, "id", at);
      return [{ type: "decision", toolCallId, approvalId, approved, reason }];
    }
    case "output-available":
      return part["preliminary"] === true ? [] : [resultIn(part, toolCallId, jsonAt(part["output"] ?? null, place))];
    case "output-error":
      return [resultIn(part, toolCallId, { error: textAt(part, "errorText", place) })];
    default:
      return [];
  }
}

function resultIn(part: Fields, toolCallId: string, content: Json): UiAnswer {
  const { type, toolName, toolMetadata } = part;
  const name = type === "dynamic-tool" ? toolName : String(type).slice("tool-".length);
  const turnId = isPlainObject(toolMetadata) ? toolMetadata["turnId"] : null;
  return {
    type: "result",
    toolCallId,
    toolName: typeof name === "string" ? name : "",
    turnId: typeof turnId === "string" ? turnId : null,
    content,
  };
}

// How fields are read: one that does not fit is refused with its place.

function objectAt(value: unknown, place: Place): Fields {
  if (isPlainObject(value)) return value;
  throw refused(place, "must be an object");
}

function listAt(value: unknown, place: Place): readonly unknown[] {
  if (Array.isArray(value)) return value;
  throw refused(place, "must be a list");
}

function textAt(fields: Fields, key: string, place: Place): string {
  const value = fields[key];
  if (typeof value === "string") return value;
  throw refused([...place, key], "must be a string");
}

function idAt(fields: Fields, key: string, place: Place, { idLength }: UiLimits): string {
  const id = textAt(fields, key, place);
  if (id !== "" && id.length <= idLength) return id;
  throw refused([...place, key], `must have 1 to ${idLength} characters`);
}

function jsonAt(value: unknown, place: Place): Json {
  const found = read(json, value);
  if ("value" in found) return found.value;
  throw new ValidationError("invalid_request", {
    issues: found.issues.map((issue) => ({ ...issue, path: [...place, "output", ...issue.path] })),
  });
}

function refused(path: Place, message: string): ValidationError {
  const issue: Issue = { path, code: "invalid_value", message };
  return new ValidationError("invalid_request", { issues: [issue] });
}
