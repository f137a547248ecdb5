// Reads a post of the AI SDK's client: `{ id, messages, trigger, messageId }`. The client posts the whole chat, which
// is untrusted: history comes from the session. Only two things are read: the newest message if it is of the user, or
// the answers to calls in the assistant message that is to be continued.
//
// Files are data URLs in base64 or https URLs. Which of them are accepted, content-policy.ts says, also for files in
// results of tools.

import type { Json, UserMessage, UserPart } from "../../../core/model/internal.ts";
import type { ContentPolicy } from "../../http/internal.ts";
import type { Fields, Place } from "../shared/foreign-fields.ts";

import { filePart, imagePart, textPart, user } from "../../../core/model/internal.ts";
import { isPlainObject } from "../../../core/model/parse/reading.ts";
import { checkToolContent, defaultContentPolicy, isPathSegment, urlProblem } from "../../http/internal.ts";
import { idAt, invalid, jsonAt, listAt, objectAt, textAt } from "../shared/foreign-fields.ts";

/** The parts of a post that are read. */
export type UiPost = { readonly chatId: string } & (
  | {
      readonly type: "message";
      readonly messageId: string;
      readonly message: UserMessage;
      /** `regenerate`: the stored message of that id is answered again. `edit`: this message replaces it. */
      readonly mode: "new" | "edit" | "regenerate";
    }
  | {
      readonly type: "answers";
      /** The assistant message to continue. */
      readonly messageId: string;
      readonly answers: readonly UiAnswer[];
      /** The ids of all calls that the client has in the message. */
      readonly callIds: readonly string[];
    }
);

/** An answer to a pending call. */
export type UiAnswer =
  | {
      readonly type: "decision";
      readonly toolCallId: string;
      readonly approvalId: string;
      readonly approved: boolean;
      readonly reason: string | null;
      /** The arguments that the client shows, which the user may have edited; `undefined`: the part has none. */
      readonly input: Json | undefined;
    }
  | {
      readonly type: "result";
      readonly toolCallId: string;
      readonly toolName: string;
      /** The turn that made the call, from `toolMetadata`. */
      readonly turnId: string | null;
      readonly content: Json;
    };

/** Limits of a post. At a limit the post is rejected with 400. */
export type UiLimits = {
  /** The length of an id, in characters. Default: 256. */
  readonly idLength: number;
  /** The length of all text in a message, in characters. Default: 1,000,000. */
  readonly textLength: number;
  /** Parts of a message, and calls answered in one post. Default: 256. */
  readonly parts: number;
};

export const defaultUiLimits: UiLimits = { idLength: 256, textLength: 1_000_000, parts: 256 };

/** Reads a post. Throws `ValidationError` with the invalid place. */
export function readUiPost(
  body: unknown,
  limits: UiLimits = defaultUiLimits,
  policy: ContentPolicy = defaultContentPolicy,
): UiPost {
  const fields = objectAt(body, []);
  const chatId = idAt(fields, "id", [], limits);
  if (!isPathSegment(chatId)) throw invalid(["id"], 'must have no lone surrogates, and must not be "." or ".."');
  const trigger = fields["trigger"] ?? "submit-message";
  if (trigger !== "submit-message" && trigger !== "regenerate-message")
    throw invalid(["trigger"], "must be submit-message or regenerate-message");
  const messages = listAt(fields["messages"], ["messages"]);
  const last = messages.length - 1;
  if (last < 0) throw invalid(["messages"], "must have a message");
  const isRegenerate = trigger === "regenerate-message";
  // A client that regenerates a message has removed it and all after it. Its `messageId` names the removed message.
  const requestedId = isRegenerate ? null : (fields["messageId"] ?? null);
  const newestMessage = objectAt(messages[last], ["messages", last]);
  if (requestedId !== null && typeof requestedId !== "string") throw invalid(["messageId"], "must be a string");
  const targetIndex =
    requestedId === null || newestMessage["id"] === requestedId
      ? last
      : messages.findLastIndex((message) => hasId(message, requestedId));
  if (targetIndex < 0) throw invalid(["messageId"], "must be the id of a posted message");
  const place = ["messages", targetIndex];
  const message = objectAt(messages[targetIndex], place);
  const messageId = idAt(message, "id", place, limits);
  switch (message["role"]) {
    case "user":
      return {
        type: "message",
        chatId,
        messageId,
        message: user(userContentIn(message, place, limits, policy), { id: messageId }),
        mode: isRegenerate ? "regenerate" : requestedId === null ? "new" : "edit",
      };
    case "assistant":
      if (isRegenerate) throw invalid([...place, "role"], "must be user to regenerate the message after it");
      return { type: "answers", chatId, messageId, ...answersIn(message, place, limits, policy) };
    default:
      throw invalid([...place, "role"], "must be user or assistant");
  }
}

function hasId(message: unknown, id: string): boolean {
  return isPlainObject(message) && message["id"] === id;
}

// User messages.

function userContentIn(message: Fields, place: Place, limits: UiLimits, policy: ContentPolicy): UserMessage["content"] {
  const parts = listAt(message["parts"], [...place, "parts"]);
  if (parts.length > limits.parts) throw invalid([...place, "parts"], `must have at most ${limits.parts} parts`);
  let length = 0;
  const userParts = parts.flatMap((item, index): readonly UserPart[] => {
    const at = [...place, "parts", index];
    const part = objectAt(item, at);
    const type = textAt(part, "type", at);
    if (type === "text") {
      const text = textAt(part, "text", at);
      length += text.length;
      if (length > limits.textLength)
        throw invalid(at, `the text of a message must have at most ${limits.textLength} characters`);
      return text === "" ? [] : [textPart(text)];
    }
    if (type === "file") return [fileIn(part, at, policy)];
    // `data-` parts belong to the application and are not sent to the model.
    if (type.startsWith("data-")) return [];
    throw invalid([...at, "type"], "must be text or file in a user message");
  });
  if (userParts.length === 0) throw invalid([...place, "parts"], "must contain text or a file");
  const [onlyPart] = userParts;
  return userParts.length === 1 && onlyPart?.type === "text" ? onlyPart.text : userParts;
}

/**
 * A file part. A media type such as `image/*` or `image` is replaced by the exact type of the data URL, if it has one.
 */
function fileIn(part: Fields, place: Place, policy: ContentPolicy): UserPart {
  const url = textAt(part, "url", place);
  const mediaType = textAt(part, "mediaType", place).toLowerCase();
  if (!/^[\w.+-]{1,127}(?:\/[\w.+*-]{1,127})?$/.test(mediaType))
    throw invalid([...place, "mediaType"], "must be a media type");
  const name = typeof part["filename"] === "string" ? part["filename"].slice(0, 255) : null;
  const source = sourceOf(url, [...place, "url"], policy);
  const exactType = mediaType.includes("/") && !mediaType.includes("*") ? mediaType : source.mimeType;
  const kind = (exactType ?? mediaType).split("/")[0];
  return kind === "image"
    ? imagePart({ source: source.source, mimeType: exactType })
    : filePart(source.source, { mimeType: exactType, name });
}

/** The length of a URL that is not a data URL, in characters. */
const maxUrlLength = 8192;

/** The source of a file: base64 of a data URL, or an https URL. */
function sourceOf(url: string, place: Place, policy: ContentPolicy) {
  if (/^data:/i.test(url)) {
    const comma = url.indexOf(",");
    const [mimeType = "", ...parameters] = url.slice("data:".length, comma < 0 ? 0 : comma).split(";");
    const data = url.slice(comma + 1);
    const isBase64 = comma > 0 && parameters.at(-1)?.toLowerCase() === "base64";
    if (!isBase64 || data.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(data)) {
      throw invalid(place, "must be in base64 if it is a data URL");
    }
    return { source: { type: "base64", data }, mimeType: mimeType === "" ? null : mimeType.toLowerCase() } as const;
  }
  const problem = url.length > maxUrlLength ? `have at most ${maxUrlLength} characters` : urlProblem(url, policy);
  if (problem !== null) throw invalid(place, `must ${problem}`);
  return { source: { type: "url", url }, mimeType: null } as const;
}

// Answers to calls.

/** The answers in the last step of the message. Calls of earlier steps are answered and may have the same ids. */
function answersIn(
  message: Fields,
  place: Place,
  limits: UiLimits,
  policy: ContentPolicy,
): { readonly answers: readonly UiAnswer[]; readonly callIds: readonly string[] } {
  const parts = listAt(message["parts"], [...place, "parts"]);
  const step = parts.findLastIndex((part) => isPlainObject(part) && part["type"] === "step-start");
  const callIds = parts.flatMap((part) => {
    const id = isPlainObject(part) && isTool(part) ? part["toolCallId"] : null;
    return typeof id === "string" ? [id] : [];
  });
  const answers = parts.slice(step + 1).flatMap((item, index): readonly UiAnswer[] => {
    const at = [...place, "parts", step + 1 + index];
    return isPlainObject(item) && isTool(item) ? answerIn(item, at, limits, policy) : [];
  });
  if (answers.length > limits.parts) throw invalid([...place, "parts"], `must answer at most ${limits.parts} calls`);
  return { answers, callIds };
}

/** `dynamic-tool` has the tool name in a field; other tool parts have it in their type. */
function isTool(part: Fields): boolean {
  const { type } = part;
  return typeof type === "string" && (type.startsWith("tool-") || type === "dynamic-tool");
}

/** The answer in a tool part; none if the part has no response of the user and no final output. */
function answerIn(part: Fields, place: Place, limits: UiLimits, policy: ContentPolicy): readonly UiAnswer[] {
  const toolCallId = idAt(part, "toolCallId", place, limits);
  switch (part["state"]) {
    case "approval-responded": {
      const at = [...place, "approval"];
      const approval = objectAt(part["approval"], at);
      const { approved, reason = null } = approval;
      if (typeof approved !== "boolean") throw invalid([...at, "approved"], "must be true or false");
      if (reason !== null && typeof reason !== "string") throw invalid([...at, "reason"], "must be a string");
      if (reason !== null && reason.length > limits.textLength) throw invalid([...at, "reason"], "is too long");
      const approvalId = textAt(approval, "id", at);
      const input = part["input"] === undefined ? undefined : jsonAt(part["input"], place, "input");
      return [{ type: "decision", toolCallId, approvalId, approved, reason, input }];
    }
    case "output-available": {
      if (part["preliminary"] === true) return [];
      const output = jsonAt(part["output"] ?? null, place, "output");
      checkToolContent(output, policy, [...place, "output"]);
      return [resultIn(part, toolCallId, output)];
    }
    case "output-error":
      return [resultIn(part, toolCallId, { error: textAt(part, "errorText", place) })];
    default:
      return [];
  }
}

/** A tool result from the client. Its turn id and tool name are checked against the pending call (answers.ts). */
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
