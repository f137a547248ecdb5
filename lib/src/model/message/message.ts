// Messages: one line of a conversation each. Five roles, told apart by `role`; what a role may contain is in its type.

import type { FinishReason } from "../call/finish-reason.ts";
import type { JsonObject } from "../parse/json.ts";
import type { PresentField, Shape } from "../parse/shape.ts";
import type { ToolCall, ToolCallInput } from "../tool/tool.ts";
import type { ImageInput } from "./image.ts";
import type { MessageOrigin } from "./origin.ts";
import type { FilePart, ImagePart, OpaquePart, Part, TextPart } from "./part.ts";

import { finishReasons } from "../call/finish-reason.ts";
import { emptyObject } from "../parse/json.ts";
import {
  array,
  construct,
  either,
  fallback,
  jsonObject,
  nullable,
  object,
  oneOf,
  required,
  settings,
  string,
  variant,
} from "../parse/shape.ts";
import { toolCallShape } from "../tool/tool.ts";
import { originShape } from "./origin.ts";
import { filePartShape, imagePartShape, partShape, textPart, textPartShape } from "./part.ts";

/** One message of a conversation. `role` tells the five kinds apart. */
export type Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage | EventMessage;

/** What every message has. */
type MessageFields = {
  /** Names the message within its conversation; `null` when nothing needs to refer to it. */
  readonly id: string | null;
  readonly name: string | null;
  readonly origin: MessageOrigin | null;
  readonly metadata: JsonObject;
};

/** Instructions for the model, or a notice of the runtime in the middle of a conversation. */
export type SystemMessage = MessageFields & {
  readonly role: "system";
  readonly content: string | readonly TextPart[];
};

/** Input of the user: text, images and files. */
export type UserMessage = MessageFields & {
  readonly role: "user";
  readonly content: string | readonly UserPart[];
};

/** A reply of the model: text, reasoning and the tool calls it made. */
export type AssistantMessage = MessageFields & {
  readonly role: "assistant";
  readonly content: string | readonly AssistantPart[];
  /** The calls somebody has to answer, in the order the model made them. */
  readonly toolCalls: readonly ToolCall[];
  /** How the reply ended; `null` for a message no model wrote. */
  readonly finishReason: FinishReason | null;
};

/** The answer to one tool call, as the model sees it. */
export type ToolMessage = MessageFields & {
  readonly role: "tool";
  readonly toolCallId: string;
  readonly content: string | readonly UserPart[];
  readonly status: ToolMessageStatus;
  /** What went wrong in one word (`timeout`, `not_found`, a code of the tool's own); `null` when nothing did. */
  readonly code: string | null;
  /** What the tool was run with, where that is not what the model asked for. */
  readonly ranArguments: JsonObject | null;
};

/** An event outside the conversation that became part of it. Providers receive it as a user message. */
export type EventMessage = MessageFields & {
  readonly role: "event";
  readonly content: string | readonly TextPart[];
};

export type UserPart = TextPart | ImagePart | FilePart;
export type AssistantPart = Part;

/** The role of a message. */
export type Role = (typeof roles)[number];
export const roles = ["system", "user", "assistant", "tool", "event"] as const;

/** How a call was answered. `awaiting_user` stands in for an answer that a person still owes. */
export type ToolMessageStatus = (typeof toolMessageStatuses)[number];
export const toolMessageStatuses = ["success", "failure", "cancelled", "not_run", "awaiting_user"] as const;

/** The content of a tool message while a person has not answered yet. */
export const awaitingUserContent = "<awaiting user response>";

const shared = {
  id: fallback(nullable(string), null),
  name: fallback(nullable(string), null),
  origin: fallback(nullable(originShape), null),
  metadata: fallback(settings, emptyObject),
};

const isText = (input: unknown): boolean => typeof input === "string";

/** Text, or a list of parts of the kinds a role may contain. */
function content<P extends Part>(part: Shape<P>): PresentField<string | readonly P[]> {
  return required(
    either<string, readonly P[]>(isText, string, either(Array.isArray, array(part), neitherTextNorParts)),
  );
}

const neitherTextNorParts: Shape<never> = (_, reading) =>
  reading.report("invalid_type", "must be a string or a list of parts");

const textOnlyShape = variant<TextPart, "type">("type", { text: textPartShape });

const userPartShape: Shape<UserPart> = variant<UserPart, "type">("type", {
  text: textPartShape,
  image: imagePartShape,
  file: filePartShape,
});

const systemMessageShape: Shape<SystemMessage> = object<SystemMessage>({
  role: required(oneOf(["system"])),
  content: content(textOnlyShape),
  ...shared,
});

const userMessageShape: Shape<UserMessage> = object<UserMessage>({
  role: required(oneOf(["user"])),
  content: content(userPartShape),
  ...shared,
});

export const assistantMessageShape: Shape<AssistantMessage> = object<AssistantMessage>({
  role: required(oneOf(["assistant"])),
  content: content(partShape),
  toolCalls: fallback(array(toolCallShape), []),
  finishReason: fallback(nullable(oneOf(finishReasons)), null),
  ...shared,
});

/** What a tool message says of its call; events about tool results carry the same. */
export const toolAnswerFields = {
  content: content(userPartShape),
  status: fallback(oneOf(toolMessageStatuses), "success"),
  code: fallback(nullable(string), null),
  ranArguments: fallback(nullable(jsonObject), null),
};

export const toolMessageShape: Shape<ToolMessage> = object<ToolMessage>({
  role: required(oneOf(["tool"])),
  toolCallId: required(string),
  ...toolAnswerFields,
  ...shared,
});

const eventMessageShape: Shape<EventMessage> = object<EventMessage>({
  role: required(oneOf(["event"])),
  content: content(textOnlyShape),
  ...shared,
});

export const messageShape: Shape<Message> = variant<Message, "role">("role", {
  system: systemMessageShape,
  user: userMessageShape,
  assistant: assistantMessageShape,
  tool: toolMessageShape,
  event: eventMessageShape,
});

/** A part as people write one by hand: what has a default may be left out. */
export type PartInput<P extends Part = Part> = P extends ImagePart
  ? { readonly type: "image"; readonly image: ImageInput } & Partial<Omit<P, "type" | "image">>
  : P extends Part
    ? Pick<P, NeededKey<P>> & Partial<Omit<P, NeededKey<P>>>
    : never;
type NeededKey<P extends Part> = Extract<
  keyof P,
  P extends OpaquePart ? "type" | "kind" | "provider" : "type" | "text" | "source" | "toolCallId" | "content"
>;
type LooseContent<P extends Part> = string | readonly PartInput<P>[];
type LooseMessage<M extends Message, P extends Part> = Partial<
  Omit<M, "role" | "content" | "toolCallId" | "toolCalls">
> & { readonly role: M["role"]; readonly content: LooseContent<P> };

/** A message written by hand: `{ role: "user", content: "hi" }`. Fields that are left out get their defaults. */
export type MessageInput =
  | LooseMessage<SystemMessage, TextPart>
  | LooseMessage<UserMessage, UserPart>
  | (LooseMessage<AssistantMessage, AssistantPart> & { readonly toolCalls?: readonly ToolCallInput[] })
  | (LooseMessage<ToolMessage, UserPart> & { readonly toolCallId: string })
  | LooseMessage<EventMessage, TextPart>;

/** Builds a message of any role from its fields and fills in defaults. A missing or unknown field throws `MisuseError`. */
export function message(fields: MessageInput): Message {
  return construct("message", messageShape, fields);
}

type Rest<M extends Message> = Partial<Omit<M, "role" | "content" | "toolCalls">>;

/** Builds a user message from text or parts. Throws `MisuseError` for an unknown field or a wrong type. */
export function user(content: LooseContent<UserPart>, rest: Rest<UserMessage> = {}): UserMessage {
  return construct("user", userMessageShape, { ...rest, role: "user", content });
}

/** Builds a system message from text or text parts. Throws `MisuseError` for an unknown field or a wrong type. */
export function system(content: LooseContent<TextPart>, rest: Rest<SystemMessage> = {}): SystemMessage {
  return construct("system", systemMessageShape, { ...rest, role: "system", content });
}

/**
 * Builds an assistant message from text or parts, with tool calls if given. Throws `MisuseError` for an unknown
 * field or a wrong type.
 */
export function assistant(
  content: LooseContent<AssistantPart>,
  rest: Rest<AssistantMessage> & { readonly toolCalls?: readonly ToolCallInput[] } = {},
): AssistantMessage {
  return construct("assistant", assistantMessageShape, { ...rest, role: "assistant", content });
}

/** Builds an event message from text or text parts. Throws `MisuseError` for an unknown field or a wrong type. */
export function eventMessage(content: LooseContent<TextPart>, rest: Rest<EventMessage> = {}): EventMessage {
  return construct("eventMessage", eventMessageShape, { ...rest, role: "event", content });
}

/** Content as a list of parts: a string is one text part. */
export function normalizeContent<P extends Part>(content: string | readonly P[]): readonly (P | TextPart)[] {
  return typeof content === "string" ? [textPart(content)] : content;
}

/** Returns the text of a message: its text parts joined without a separator, without reasoning, images and calls. */
export function messageText(message: Message): string {
  if (typeof message.content === "string") return message.content;
  const parts: readonly Part[] = message.content;
  return parts.reduce((text, part) => (part.type === "text" ? text + part.text : text), "");
}
