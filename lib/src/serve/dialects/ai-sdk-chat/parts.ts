// UI messages of the AI SDK and their parts, and the conversion of tool results, files and failures to them. Names and
// fields are those of the SDK.

import type {
  ContentSource,
  Failure,
  Json,
  JsonObject,
  PendingToolCall,
  ProgramValue,
  ToolFailure,
  ToolMessage,
  ToolOutcome,
  ToolValue,
  UserPart,
} from "../../../core/model/internal.ts";
import type { UiFilePart, UiQuestion, UiSteeringMessage, UiTextPart } from "../../contract/internal.ts";

import {
  decodeToolValue,
  errorFromFailure,
  isAttachment,
  textOrPlaceholder,
  unknownToolText,
} from "../../../core/model/internal.ts";
import { isPlainObject } from "../../../core/model/parse/reading.ts";
import { failureOf, publicToolMessage } from "../../http/internal.ts";

/** A message of `useChat`. */
export type UiMessage = {
  readonly id: string;
  readonly role: "user" | "assistant";
  readonly parts: readonly UiPart[];
};

/** A part of a message. `data-steering-message` is input that was added to the open turn. */
export type UiPart =
  | UiTextPart
  | UiFilePart
  | UiToolPart
  | { readonly type: "reasoning"; readonly id: string; readonly text: string; readonly state: "done" }
  | { readonly type: "step-start" }
  | { readonly type: "data-question"; readonly id: string; readonly data: UiQuestion }
  | { readonly type: "data-steering-message"; readonly id: string; readonly data: UiSteeringMessage };

/** A tool call and its state. */
export type UiToolPart = {
  readonly type: `tool-${string}`;
  readonly toolCallId: string;
  /** Sent with the call; the client posts it back unchanged. */
  readonly toolMetadata?: UiToolMetadata;
  readonly providerExecuted?: boolean;
  readonly input: Json;
} & UiToolState;

export function isToolPart(part: UiPart): part is UiToolPart {
  return part.type.startsWith("tool-");
}

/** The state of a tool call. */
export type UiToolState =
  | { readonly state: "input-available" }
  | { readonly state: "approval-requested"; readonly approval: UiApproval }
  | { readonly state: "approval-responded"; readonly approval: UiApproval & UiVerdict }
  | { readonly state: "output-available"; readonly output: Json }
  | { readonly state: "output-error"; readonly errorText: string }
  | {
      readonly state: "output-denied";
      readonly approval: UiApproval & { readonly approved: false; readonly reason?: string };
    };

/** An approval request. */
export type UiApproval = {
  readonly id: string;
  /** Why an approval is required, if the tool itself does not require it. */
  readonly requestReason?: string;
  /** Data of the tool for the approval dialog. */
  readonly descriptor?: JsonObject;
};

type UiVerdict = { readonly approved: boolean; readonly reason?: string };

/** The turn of the call. A result from the client counts only for the pending call of that turn. */
export type UiToolMetadata = { readonly turnId: string };

/**
 * Identifies a wait and what was shown for it: the turn that left the call pending, the digest of the pending call, and
 * the call id. Clients of this protocol can return nothing but the id, so it carries the digest (A1). A later wait of a
 * call with the same id has another approval id, in every process.
 */
export function approvalIdOf(turnId: string | null, { id, digest }: PendingToolCall): string {
  return `${turnId ?? ""}:${digest}:${id}`;
}

/** The digest in an approval id; `null` if the text is no approval id of the call. */
export function digestOfApproval(approvalId: string, toolCallId: string): string | null {
  if (!approvalId.endsWith(`:${toolCallId}`)) return null;
  return /:([0-9a-f]{84})$/.exec(approvalId.slice(0, -toolCallId.length - 1))?.[1] ?? null;
}

/**
 * The input of a pending call, as its part shows it: what would run, or runs. For a call of a child agent the input of
 * the outer call; `shown` has the inner one.
 */
export function pendingInput({ path, arguments: args, shown, decision }: PendingToolCall): JsonObject | null {
  if (path.length > 0) return args;
  return decision?.type === "approve" ? (decision.arguments ?? shown.arguments) : shown.arguments;
}

/** The approval of a pending call, as it is sent with the request. */
export function approvalOf(turnId: string | null, call: PendingToolCall): UiApproval {
  const why = call.reason === "outcome_unknown" ? { requestReason: unknownOutcome } : {};
  const descriptor = { ...call.opts, shown: { ...call.shown } };
  return { id: approvalIdOf(turnId, call), ...why, descriptor };
}

const unknownOutcome =
  "outcome_unknown: the call was running when its process stopped; approve to run it again, deny to leave it";

/** A redacted failure in one line: its reason and its message. */
export function failureText(failure: Failure): string {
  const { reason, message } = failureOf(errorFromFailure(failure)).failure;
  return `${reason}: ${message}`;
}

/** The outcome of a call: output, error or denial. */
export type UiResult =
  | { readonly type: "output"; readonly output: Json }
  | { readonly type: "error"; readonly errorText: string }
  | { readonly type: "denied"; readonly reason: string | null };

/** The error of a call that the turn left without a result. */
export const notRunText = "not_run: the call was not run";

/**
 * The error of a call that a policy or another person denied. The SDK's message schema accepts the state
 * `output-denied` only with the response of the user, and version 6 has no chunk for it.
 */
export function deniedText(reason: string | null): string {
  return `denied: ${reason ?? "the call was denied"}`;
}

/** The result of a call of code, of which no message is stored; `null` if the call waits for an answer of the user. */
export function resultOf(outcome: ToolOutcome): UiResult | null {
  switch (outcome.type) {
    case "success":
    case "halt":
      return { type: "output", output: displayValue(outcome.value) };
    case "failure":
      return failedResult(outcome.failure);
    case "cancelled":
      return { type: "error", errorText: `cancelled: ${outcome.message}` };
    case "ask_user":
      return null;
  }
}

function failedResult(failure: ToolFailure): UiResult {
  if (failure.reason === "denied") return { type: "denied", reason: failure.message };
  const { reason, code, toolCallId, message } = failure;
  return { type: "error", errorText: `${code}: ${publicToolMessage(reason, toolCallId, message)}` };
}

/** What of a tool message its part shows. */
export type ToolAnswer = Pick<ToolMessage, "toolCallId" | "content" | "status" | "code">;

/** The result from a tool message, which contains only what the model was shown. */
export function resultOfMessage({ content: storedContent, status, code, toolCallId }: ToolAnswer): UiResult | null {
  const content = typeof storedContent === "string" ? storedContent : storedContent.filter((part) => !isEditNote(part));
  switch (status) {
    case "success":
      return { type: "output", output: displayContent(content) };
    case "failure":
    case "not_run":
      if (code === "not_run" || (code === "not_found" && isUnknownTool(content)))
        return { type: "error", errorText: notRunText };
      if (code === "denied") return { type: "denied", reason: errorMessageOf(content) };
      return {
        type: "error",
        errorText: `${code ?? status}: ${publicToolMessage(code, toolCallId, errorMessageOf(content))}`,
      };
    case "cancelled":
      return { type: "error", errorText: `cancelled: ${errorMessageOf(content)}` };
    case "awaiting_user":
      return null;
  }
}

/** The arguments that a person changed when the call of a result was approved; `null` if they were not changed. */
export function approvedArguments({ content }: ToolMessage): JsonObject | null {
  const note = typeof content === "string" ? undefined : content.find(isEditNote);
  const args = note?.metadata["approvedArguments"];
  return isPlainObject(args) ? args : null;
}

/** Is this part the note for the model about changed arguments? It is not a part of the tool's result. */
function isEditNote({ metadata }: UserPart): boolean {
  return metadata["approvedArguments"] !== undefined;
}

/** The value of a tool as JSON, with attachments as files. */
function displayValue(value: ToolValue): Json {
  const decoded = decodeToolValue(value);
  return decoded.ok ? displayProgramValue(decoded.value) : null;
}

function displayProgramValue(value: ProgramValue): Json {
  if (value === null || typeof value !== "object") return value;
  if (isAttachment(value)) {
    const { source, mimeType, name } = value;
    return { type: "file", mediaType: mimeType ?? unknownType, url: urlOf(source, mimeType), filename: name };
  }
  if (isList(value)) return value.map(displayProgramValue);
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, displayProgramValue(item)]));
}

function isList(value: ProgramValue): value is readonly ProgramValue[] {
  return Array.isArray(value);
}

/**
 * The content that the model was shown, as close to the original value as possible: text that is a JSON object or list
 * is parsed.
 */
function displayContent(content: ToolMessage["content"]): Json {
  if (typeof content === "string") return parseIfJson(content);
  if (content.every((part) => part.type === "text")) return parseIfJson(joinedText(content));
  return content.flatMap((part): readonly Json[] => {
    if (part.type === "text") return [{ type: "text", text: textOrPlaceholder(part.text, part.pruneState) }];
    const file = fileOf(part);
    return file === null ? [] : [{ ...file }];
  });
}

function parseIfJson(text: string): Json {
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/**
 * Is this the answer to a call of an unknown tool? A turn has no event for it: a reader of the stream sees that it did
 * not run.
 */
function isUnknownTool(content: ToolMessage["content"]): boolean {
  return errorMessageOf(content).startsWith(unknownToolText(""));
}

/** The message of a failure, without the formatting for the model. */
function errorMessageOf(content: ToolMessage["content"]): string {
  const text = typeof content === "string" ? content : joinedText(content);
  const parsed: unknown = parseIfJson(text);
  if (isPlainObject(parsed) && typeof parsed["error"] === "string") return parsed["error"];
  return text.replace(/^\[Tool execution (?:failed|cancelled)\]\n?/, "");
}

function joinedText(parts: readonly UserPart[]): string {
  return parts.reduce(
    (all, part) => (part.type === "text" ? all + textOrPlaceholder(part.text, part.pruneState) : all),
    "",
  );
}

const unknownType = "application/octet-stream";

/**
 * An image or file as a part; `null` if its bytes are on the server's disk or in a provider account, whose location is
 * not disclosed.
 */
export function fileOf(part: Exclude<UserPart, { readonly type: "text" }>): UiFilePart | null {
  if (part.pruneState !== null) return null;
  const { source, mimeType } = part.type === "image" ? part.image : part;
  const url = urlOf(source, mimeType);
  if (url === null) return null;
  const filename = part.type === "file" && part.name !== null ? { filename: part.name } : {};
  const mediaType = mimeType ?? (part.type === "image" ? "image" : unknownType);
  return { type: "file", mediaType, url, ...filename };
}

/** The URL of a source; `null` for files of the server or of a provider account. */
function urlOf(source: ContentSource, mimeType: string | null): string | null {
  switch (source.type) {
    case "base64":
      return `data:${mimeType ?? unknownType};base64,${source.data}`;
    case "url":
      return source.url;
    case "file":
    case "provider_file":
      return null;
  }
}

/** Text and files of a user message. */
export function userParts(content: string | readonly UserPart[]): readonly (UiTextPart | UiFilePart)[] {
  if (typeof content === "string") return [{ type: "text", text: content }];
  return content.flatMap((part): readonly (UiTextPart | UiFilePart)[] => {
    if (part.type === "text") return [{ type: "text", text: textOrPlaceholder(part.text, part.pruneState) }];
    const file = fileOf(part);
    return file === null ? [] : [file];
  });
}
