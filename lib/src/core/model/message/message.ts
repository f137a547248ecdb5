// Messages: types, shapes and constructors of the five roles. The union is discriminated by `role`.
//
// A role's type states which parts its content may have. The shapes enforce the same for data from outside;
// `validate.ts` checks the rules that span messages, such as one answer for each call.
//
// `MessageInput` is the loose form that callers write by hand. Only the constructors accept it: everything past them
// has every field, with `null` for what is absent (docs/decisions/0004).

import type { FinishReason } from "../call/finish-reason.ts";
import type { InferOptional, PresentField, Shape, WordOf } from "../parse/shape.ts";
import type { ToolCallInput } from "../tool/tool.ts";
import type { ImageInput } from "./image-content.ts";
import type { FilePart, ImagePart, OpaquePart, Part, TextPart } from "./part.ts";

import { finishReasons } from "../call/finish-reason.ts";
import { emptyObject } from "../parse/json.ts";
import {
  array,
  construct,
  either,
  fallback,
  jsonObject,
  literal,
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
import { messageOptions } from "./provider-options.ts";

/** The parts that a user or tool message may contain. */
export type UserPart = TextPart | ImagePart | FilePart;
/** The parts that an assistant message may contain. */
export type AssistantPart = Part;

/** The role of a message. */
export type Role = WordOf<typeof roles>;
export const roles = ["system", "user", "assistant", "tool", "event"] as const;

/**
 * How a call was answered. `awaiting_user` marks a placeholder: the user has not answered the question of the tool yet.
 */
export type ToolMessageStatus = WordOf<typeof toolMessageStatuses>;
export const toolMessageStatuses = ["success", "failure", "cancelled", "not_run", "awaiting_user"] as const;

/** The placeholder content of a tool message with the status `awaiting_user`. */
export const awaitingUserContent = "<awaiting user response>";

/** The fields of every message. */
const shared = {
  /** Identifies the message within its conversation; `null` if nothing refers to it. */
  id: fallback(nullable(string), null),
  /** The name of the author, for providers that accept one. */
  name: fallback(nullable(string), null),
  /** Where the message came from; `null` if the user or the model wrote it. */
  origin: fallback(nullable(originShape), null),
  metadata: fallback(settings, emptyObject),
  /** Fields of a provider's API for this message, by provider. Sent to that provider only; absent if there are none. */
  providerOptions: messageOptions,
};

const isText = (input: unknown): boolean => typeof input === "string";

/** The field `content`: a string, or a list of the parts that a role may contain. */
function content<P extends Part>(part: Shape<P>): PresentField<string | readonly P[]> {
  return required(
    either<string, readonly P[]>(isText, string, either(Array.isArray, array(part), neitherTextNorParts)),
  );
}

const neitherTextNorParts: Shape<never> = (_, reading) =>
  reading.report("invalid_type", "must be a string or a list of parts");

const textOnlyShape: Shape<TextPart> = variant("type", { text: textPartShape });

const userPartShape: Shape<UserPart> = variant("type", {
  text: textPartShape,
  image: imagePartShape,
  file: filePartShape,
});

const systemMessageFields = {
  role: literal("system"),
  /** Text, or text parts. */
  content: content(textOnlyShape),
  ...shared,
};

/** Instructions for the model, or a notice of the runtime in the middle of a conversation. */
export type SystemMessage = InferOptional<typeof systemMessageFields>;

const systemMessageShape: Shape<SystemMessage> = object(systemMessageFields);

const userMessageFields = {
  role: literal("user"),
  /** Text, or text, image and file parts. */
  content: content(userPartShape),
  ...shared,
};

/** Input of the user: text, images and files. */
export type UserMessage = InferOptional<typeof userMessageFields>;

const userMessageShape: Shape<UserMessage> = object(userMessageFields);

const assistantMessageFields = {
  role: literal("assistant"),
  /** Text, or parts in the order of the reply. */
  content: content(partShape),
  /**
   * The calls that need an answer, in call order. Calls that the provider ran itself are parts of `content` instead.
   */
  toolCalls: fallback(array(toolCallShape), []),
  /** How the reply ended; `null` for a message no model wrote. */
  finishReason: fallback(nullable(oneOf<FinishReason>(finishReasons)), null),
  ...shared,
};

/** A reply of the model: text, reasoning and the tool calls it made. */
export type AssistantMessage = InferOptional<typeof assistantMessageFields>;

export const assistantMessageShape: Shape<AssistantMessage> = object(assistantMessageFields);

/** The fields that tool messages share with the events about tool results. */
export const toolAnswerFields = {
  /** What the model sees of the result. */
  content: content(userPartShape),
  /** The outcome of the call. `awaiting_user`: a question waits for an answer, and `content` is a placeholder. */
  status: fallback(oneOf<ToolMessageStatus>(toolMessageStatuses), "success"),
  /**
   * The error code of a failed call: a reason such as `timeout` or `not_found`, or the tool's own code. Otherwise
   * `null`.
   */
  code: fallback(nullable(string), null),
  /**
   * The arguments the tool ran with, if they differ from those of the call, for example after an approval that changed
   * them.
   */
  ranArguments: fallback(nullable(jsonObject), null),
};

const toolMessageFields = {
  role: literal("tool"),
  /** The call that this message answers. */
  toolCallId: required(string),
  ...toolAnswerFields,
  ...shared,
};

/** The answer to one tool call, as the model sees it. */
export type ToolMessage = InferOptional<typeof toolMessageFields>;

export const toolMessageShape: Shape<ToolMessage> = object(toolMessageFields);

const eventMessageFields = {
  role: literal("event"),
  /** Text, or text parts. */
  content: content(textOnlyShape),
  ...shared,
};

/** An event outside the conversation that became part of it. Providers receive it as a user message. */
export type EventMessage = InferOptional<typeof eventMessageFields>;

const eventMessageShape: Shape<EventMessage> = object(eventMessageFields);

/** One message of a conversation. The union is discriminated by `role`. */
export type Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage | EventMessage;

export const messageShape: Shape<Message> = variant("role", {
  system: systemMessageShape,
  user: userMessageShape,
  assistant: assistantMessageShape,
  tool: toolMessageShape,
  event: eventMessageShape,
});

/** The loose form of a part: fields with a default are optional. */
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

/** The loose form of a message: `{ role: "user", content: "hi" }`. Missing fields get their defaults. */
export type MessageInput =
  | LooseMessage<SystemMessage, TextPart>
  | LooseMessage<UserMessage, UserPart>
  | (LooseMessage<AssistantMessage, AssistantPart> & { readonly toolCalls?: readonly ToolCallInput[] })
  | (LooseMessage<ToolMessage, UserPart> & { readonly toolCallId: string })
  | LooseMessage<EventMessage, TextPart>;

/**
 * Builds a message of any role and fills in defaults. Throws `MisuseError` for a missing or unknown field or a wrong
 * type.
 */
export function message(fields: MessageInput): Message {
  return construct("message", messageShape, fields);
}

type OptionalFields<M extends Message> = Partial<Omit<M, "role" | "content" | "toolCalls">>;

/** Builds a user message from text or parts. Throws `MisuseError` for an unknown field or a wrong type. */
export function user(content: LooseContent<UserPart>, fields: OptionalFields<UserMessage> = {}): UserMessage {
  return construct("user", userMessageShape, { ...fields, role: "user", content });
}

/** Builds a system message from text or text parts. Throws `MisuseError` for an unknown field or a wrong type. */
export function system(content: LooseContent<TextPart>, fields: OptionalFields<SystemMessage> = {}): SystemMessage {
  return construct("system", systemMessageShape, { ...fields, role: "system", content });
}

/**
 * Builds an assistant message from text or parts, with tool calls if given. Throws `MisuseError` for an unknown
 * field or a wrong type.
 */
export function assistant(
  content: LooseContent<AssistantPart>,
  fields: OptionalFields<AssistantMessage> & { readonly toolCalls?: readonly ToolCallInput[] } = {},
): AssistantMessage {
  return construct("assistant", assistantMessageShape, { ...fields, role: "assistant", content });
}

/**
 * Builds a tool message, by default of a successful call. Throws `MisuseError` for an unknown field or a wrong type.
 */
export function toolMessage(
  toolCallId: string,
  content: LooseContent<UserPart>,
  fields: Partial<Omit<ToolMessage, "role" | "toolCallId" | "content">> = {},
): ToolMessage {
  return construct("toolMessage", toolMessageShape, { ...fields, role: "tool", toolCallId, content });
}

/** Builds an event message from text or text parts. Throws `MisuseError` for an unknown field or a wrong type. */
export function eventMessage(content: LooseContent<TextPart>, fields: OptionalFields<EventMessage> = {}): EventMessage {
  return construct("eventMessage", eventMessageShape, { ...fields, role: "event", content });
}

/** Returns content as a list of parts. A string becomes one text part. */
export function normalizeContent<P extends Part>(content: string | readonly P[]): readonly (P | TextPart)[] {
  return typeof content === "string" ? [{ ...emptyText, text: content }] : content;
}

/** The fields of a text part besides its text, which is not checked again. */
const emptyText = textPart("");

/** Returns the text of a message: its text parts joined without a separator, without reasoning, images and calls. */
export function messageText(message: Message): string {
  if (typeof message.content === "string") return message.content;
  const parts: readonly Part[] = message.content;
  return parts.reduce((text, part) => (part.type === "text" ? text + part.text : text), "");
}
