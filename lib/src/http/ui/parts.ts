// What a chat of the AI SDK is made of, as far as we make it: messages of a conversation, and what tools, questions and failures look like in
// one. The words are the SDK's, spelt as it spells them.

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
} from "../../model/internal.ts";

import { decodeToolValue, errorFromFailure, isAttachment, visibleText } from "../../model/internal.ts";
import { isPlainObject } from "../../model/parse/reading.ts";
import { failureOf } from "../failure.ts";

/** A message as `useChat` keeps it. */
export type UiMessage = {
  readonly id: string;
  readonly role: "user" | "assistant";
  readonly parts: readonly UiPart[];
};

export type UiPart =
  | UiTextPart
  | UiFilePart
  | UiToolPart
  | { readonly type: "reasoning"; readonly id: string; readonly text: string; readonly state: "done" }
  | { readonly type: "step-start" }
  | { readonly type: "data-question"; readonly id: string; readonly data: UiQuestion }
  | {
      readonly type: "steering-message";
      readonly id: string;
      readonly parts: readonly (UiTextPart | UiFilePart)[];
    };

export type UiTextPart = { readonly type: "text"; readonly text: string; readonly state?: "done" };

export type UiFilePart = {
  readonly type: "file";
  readonly mediaType: string;
  readonly url: string;
  readonly filename?: string;
};

/** A call, and how far it has come. */
export type UiToolPart = {
  readonly type: `tool-${string}`;
  readonly toolCallId: string;
  /** What came in the stream with the call; a client sends it back as it is. */
  readonly toolMetadata?: UiToolMetadata;
  readonly providerExecuted?: boolean;
  readonly input: Json;
} & UiToolState;

export function isToolPart(part: UiPart): part is UiToolPart {
  return part.type.startsWith("tool-");
}

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

export type UiApproval = {
  readonly id: string;
  /** Why somebody has to consent, where it is not the tool that wants it. */
  readonly requestReason?: string;
  /** What the tool said for whoever asks. */
  readonly descriptor?: JsonObject;
};

type UiVerdict = { readonly approved: boolean; readonly reason?: string };

/** The turn in which the call was made: the result of a call that a client runs is taken for the wait of that turn, and for no other. */
export type UiToolMetadata = { readonly turnId: string };

/** What a tool wants to know of the user. The answer is the next message of the user. */
export type UiQuestion = { readonly toolCallId: string; readonly question: string; readonly opts: JsonObject };

/** What a tool says of its progress. */
export type UiProgress = { readonly toolCallId: string; readonly toolName: string; readonly progress: Json };

/**
 * Names a wait: the turn that left it, the place of the call in its reply, and the call. A turn that has ended changes no more, so the name says which
 * tool, with which arguments, and a later wait of a call of the same id has another one, in this process and in any other. A call in a fork has no
 * key yet, and so another name than in the session it was forked from.
 */
export function approvalIdOf(turnId: string | null, { id, idempotencyKey }: PendingToolCall): string {
  return `${turnId ?? ""}:${idempotencyKey ?? "unused"}:${id}`;
}

/** What is said with a request for consent. */
export function approvalOf(turnId: string | null, call: PendingToolCall): UiApproval {
  const why = call.reason === "outcome_unknown" ? { requestReason: unknownOutcome } : {};
  const hints = Object.keys(call.opts).length === 0 ? {} : { descriptor: call.opts };
  return { id: approvalIdOf(turnId, call), ...why, ...hints };
}

const unknownOutcome =
  "outcome_unknown: the call was running when its process stopped; approve to run it again, deny to leave it";

/** A failure in one line: its reason, and its message. */
export function failureText(failure: Failure): string {
  const { reason, message } = failureOf(errorFromFailure(failure)).failure;
  return `${reason}: ${message}`;
}

/** The outcome of a call as the state of its part; `null`: it waits for somebody. */
export type UiResult =
  | { readonly type: "output"; readonly output: Json }
  | { readonly type: "error"; readonly errorText: string }
  | { readonly type: "denied"; readonly reason: string | null };

export function resultOf(outcome: ToolOutcome): UiResult | null {
  switch (outcome.type) {
    case "success":
    case "halt":
      return { type: "output", output: shownValue(outcome.value) };
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
  return { type: "error", errorText: `${failure.code}: ${failure.message}` };
}

/** The same from the message that answered the call, which holds what the model was shown: all that a thread keeps. */
export function resultOfMessage({ content, status, code }: ToolMessage): UiResult | null {
  switch (status) {
    case "success":
      return { type: "output", output: shownContent(content) };
    case "failure":
    case "not_run":
      if (code === "denied") return { type: "denied", reason: errorOf(content) };
      return { type: "error", errorText: `${code ?? status}: ${errorOf(content)}` };
    case "cancelled":
      return { type: "error", errorText: `cancelled: ${errorOf(content)}` };
    case "awaiting_user":
      return null;
  }
}

/** A tool's value for people: JSON, with attachments as files. */
function shownValue(value: ToolValue): Json {
  const decoded = decodeToolValue(value);
  return decoded.ok ? shownProgramValue(decoded.value) : null;
}

function shownProgramValue(value: ProgramValue): Json {
  if (value === null || typeof value !== "object") return value;
  if (isAttachment(value)) {
    const { source, mimeType, name } = value;
    return { type: "file", mediaType: mimeType ?? unknownType, url: urlOf(source, mimeType), filename: name };
  }
  if (isList(value)) return value.map(shownProgramValue);
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, shownProgramValue(item)]));
}

function isList(value: ProgramValue): value is readonly ProgramValue[] {
  return Array.isArray(value);
}

/** What a model was shown, as near to the value as can be told: objects and lists are read back, and text is text. */
function shownContent(content: ToolMessage["content"]): Json {
  if (typeof content === "string") return readBack(content);
  if (content.every((part) => part.type === "text")) return readBack(textOf(content));
  return content.flatMap((part): readonly Json[] => {
    if (part.type === "text") return [{ type: "text", text: visibleText(part.text, part.pruneState) }];
    const file = fileOf(part);
    return file === null ? [] : [{ ...file }];
  });
}

function readBack(text: string): Json {
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** What a failure said, without the form it was put in for the model. */
function errorOf(content: ToolMessage["content"]): string {
  const text = typeof content === "string" ? content : textOf(content);
  const read: unknown = readBack(text);
  if (isPlainObject(read) && typeof read["error"] === "string") return read["error"];
  return text.replace(/^\[Tool execution (?:failed|cancelled)\]\n?/, "");
}

function textOf(parts: readonly UserPart[]): string {
  return parts.reduce((all, part) => (part.type === "text" ? all + visibleText(part.text, part.pruneState) : all), "");
}

const unknownType = "application/octet-stream";

/** An image or a file that can be shown; `null` for one whose bytes are elsewhere, whose place is nobody's business. */
export function fileOf(part: Exclude<UserPart, { readonly type: "text" }>): UiFilePart | null {
  if (part.pruneState !== null) return null;
  const { source, mimeType } = part.type === "image" ? part.image : part;
  const url = urlOf(source, mimeType);
  if (url === null) return null;
  const filename = part.type === "file" && part.name !== null ? { filename: part.name } : {};
  const mediaType = mimeType ?? (part.type === "image" ? "image" : unknownType);
  return { type: "file", mediaType, url, ...filename };
}

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

/** Text and files of what somebody said. */
export function saidParts(content: string | readonly UserPart[]): readonly (UiTextPart | UiFilePart)[] {
  if (typeof content === "string") return [{ type: "text", text: content }];
  return content.flatMap((part): readonly (UiTextPart | UiFilePart)[] => {
    if (part.type === "text") return [{ type: "text", text: visibleText(part.text, part.pruneState) }];
    const file = fileOf(part);
    return file === null ? [] : [file];
  });
}
