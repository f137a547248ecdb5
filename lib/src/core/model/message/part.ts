// The parts of message content: types, shapes and constructors.
//
// A part may carry provider replay data (`provider`): opaque data such as a reasoning signature, stored with the route
// it came from. It is sent back byte for byte to that route and to no other (W4, provider-replay.ts).
//
// A part may be pruned: `pruneState` records that its content is no longer sent to the model. `textOrPlaceholder`
// renders the placeholder.

import type { Infer, InferOptional, InferUnion, Shape, WordOf } from "../parse/shape.ts";

import { emptyObject } from "../parse/json.ts";
import {
  boolean,
  construct,
  fallback,
  json,
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
import { contentSourceShape } from "./content-source.ts";
import { imageShape } from "./image-content.ts";
import { partOptions } from "./provider-options.ts";
import { providerReplayShape } from "./provider-replay.ts";

/**
 * What a text part contains. The runtime marks tool output as `output` and errors as `error`, and the model sees both
 * in tags; `refusal` is a refusal of the model.
 */
export type TextKind = WordOf<typeof textKinds>;
export const textKinds = ["text", "code", "output", "error", "refusal"] as const;

/** The phase of a text within a reply: interim commentary or the final answer. */
export type TextPhase = WordOf<typeof textPhases>;
export const textPhases = ["commentary", "final_answer"] as const;

/** `original` is a value of OpenAI's APIs: the model looks at the image without scaling. */
type ImageDetail = WordOf<typeof imageDetails>;
export const imageDetails = ["auto", "low", "high", "original"] as const;

const pruneCases = {
  cleared: {},
  deleted: {
    /** A short hint about the deleted content, which the model sees. */
    breadcrumb: required(string),
    /** The hash of the archived original. */
    archiveHash: required(string),
  },
  summarized: {
    /** The summary that the model sees instead of the content. */
    summary: required(string),
    /** The hash of the archived original. */
    archiveHash: required(string),
  },
};

/**
 * How a part was removed from what the model sees. `null` on a part means that it is not pruned. `archiveHash` names
 * the archived original.
 */
export type PruneState = InferUnion<"type", typeof pruneCases>;

const pruneStateShape: Shape<PruneState> = variant("type", pruneCases);

const shared = {
  /** Data that the provider requires back with the part; `null` if there is none. */
  provider: fallback(nullable(providerReplayShape), null),
  /** Data of the caller. The library stores it and does not interpret it. */
  metadata: fallback(settings, emptyObject),
};
const prunable = {
  ...shared,
  /** What pruning did to the part; `null`: it is intact. */
  pruneState: fallback(nullable(pruneStateShape), null),
  /** Fields of a provider's API for this part, by provider. Sent to that provider only; absent if there are none. */
  providerOptions: partOptions,
};

const textPartFields = {
  type: literal("text"),
  /** The text. */
  text: required(string),
  /** What the text contains. The default is `text`. */
  kind: fallback(oneOf<TextKind>(textKinds), "text"),
  /**
   * The phase of a reply, as OpenAI's Responses API reports it. If a reply has a `final_answer`, its text excludes
   * `commentary`.
   */
  phase: fallback(nullable(oneOf<TextPhase>(textPhases)), null),
  ...prunable,
};

/** Text in the content of a message. */
export type TextPart = InferOptional<typeof textPartFields>;

export const textPartShape: Shape<TextPart> = object(textPartFields);

const imagePartFields = {
  type: literal("image"),
  /** The image. */
  image: required(imageShape),
  /** The resolution at which the model looks at the image. The default is `auto`. */
  detail: fallback(oneOf<ImageDetail>(imageDetails), "auto"),
  ...prunable,
};

/** An image in the content of a message. */
export type ImagePart = InferOptional<typeof imagePartFields>;

export const imagePartShape: Shape<ImagePart> = object(imagePartFields);

const filePartFields = {
  type: literal("file"),
  /** Base64 data, a URL, or a provider's file id. A file path cannot be sent. */
  source: required(contentSourceShape),
  /** For example `application/pdf`; `null` if unknown. */
  mimeType: fallback(nullable(string), null),
  /** The file name that the model sees; `null` if there is none. */
  name: fallback(nullable(string), null),
  ...prunable,
};

/** A file in the content of a message that is not an image, for example a PDF or an audio recording. */
export type FilePart = InferOptional<typeof filePartFields>;

export const filePartShape: Shape<FilePart> = object(filePartFields);

const reasoningPartFields = {
  type: literal("reasoning"),
  /** The reasoning, or its summary; empty if the provider sends it encrypted only. */
  text: required(string),
  /** The provider withheld the text. */
  redacted: fallback(boolean, false),
  ...shared,
  /** The signature or the encrypted reasoning, which is sent back to the same provider and model. */
  provider: shared.provider,
};

/**
 * Reasoning of the model. The text is for display and is never sent as text; the provider gets its reasoning back
 * through the replay data in `provider`. `redacted` means that the provider withholds the text.
 */
export type ReasoningPart = Infer<typeof reasoningPartFields>;

const reasoningPartShape: Shape<ReasoningPart> = object(reasoningPartFields);

const toolCallPartFields = {
  type: literal("tool_call"),
  /** The id of the call in `toolCalls` of the message, or of `providerExecuted`. */
  toolCallId: required(string),
  /** The call, if the provider runs it itself; otherwise `null`. */
  providerExecuted: fallback(nullable(toolCallShape), null),
  /** Data of the caller. The library stores it and does not interpret it. */
  metadata: fallback(settings, emptyObject),
};

/**
 * The position of a tool call among the parts of a reply. The call itself is in `toolCalls` of the message. A call
 * that the provider ran itself, such as a web search, is in `providerExecuted` instead, because it needs no answer.
 */
export type ToolCallPart = Infer<typeof toolCallPartFields>;

export const toolCallPartShape: Shape<ToolCallPart> = object(toolCallPartFields);

const toolResultPartFields = {
  type: literal("tool_result"),
  toolCallId: required(string),
  content: required(json),
  isError: fallback(boolean, false),
  ...prunable,
};

/** The result of a tool that the provider ran itself. Results of the program's tools are `tool` messages. */
export type ToolResultPart = InferOptional<typeof toolResultPartFields>;

export const toolResultPartShape: Shape<ToolResultPart> = object(toolResultPartFields);

const opaquePartFields = {
  type: literal("opaque"),
  /** The provider's name for the item type. */
  kind: required(string),
  provider: required(providerReplayShape),
  metadata: fallback(settings, emptyObject),
  /** Fields of a provider's API for this part, by provider. Sent to that provider only; absent if there are none. */
  providerOptions: partOptions,
};

/** An item of a provider's reply that the library does not interpret and that has to be sent back in its position. */
export type OpaquePart = InferOptional<typeof opaquePartFields>;

export const opaquePartShape: Shape<OpaquePart> = object(opaquePartFields);

/** One part of a message's content. The union is discriminated by `type`. */
export type Part = TextPart | ImagePart | FilePart | ReasoningPart | ToolCallPart | ToolResultPart | OpaquePart;

export const partShape: Shape<Part> = variant("type", {
  text: textPartShape,
  image: imagePartShape,
  file: filePartShape,
  reasoning: reasoningPartShape,
  tool_call: toolCallPartShape,
  tool_result: toolResultPartShape,
  opaque: opaquePartShape,
});

/** The fields of a part that its constructor accepts besides the positional arguments. */
export type OptionalFields<T, Positional extends keyof T> = Partial<Omit<T, "type" | Positional>>;

/**
 * Builds a text part, for content that is more than text. Throws `MisuseError` for an unknown field or a wrong
 * type.
 *
 * @example
 * ```ts
 * import { imageFromUrl, imagePart, textPart, user } from "everturn";
 *
 * user([textPart("What is this?"), imagePart(imageFromUrl("https://example.com/cat.png"))]).content.length; // => 2
 * ```
 */
export function textPart(text: string, fields: OptionalFields<TextPart, "text"> = {}): TextPart {
  return construct("textPart", textPartShape, { ...fields, type: "text", text });
}

/** Builds a reasoning part. Throws `MisuseError` for an unknown field or a wrong type. */
export function reasoningPart(text: string, fields: OptionalFields<ReasoningPart, "text"> = {}): ReasoningPart {
  return construct("reasoningPart", reasoningPartShape, { ...fields, type: "reasoning", text });
}

/** Returns what the model sees of a text: the text itself, or the placeholder of a pruned text. */
export function textOrPlaceholder(text: string, pruneState: PruneState | null): string {
  if (pruneState === null) return text;
  switch (pruneState.type) {
    case "cleared":
      return "[Old tool result content cleared]";
    case "deleted":
      return `[pruned:${pruneState.archiveHash} — ${pruneState.breadcrumb}]`;
    case "summarized":
      return `[SUMMARY of original ${pruneState.archiveHash}]\n${pruneState.summary}`;
  }
}
