// The parts of message content: types, shapes and constructors.
//
// A part may carry provider replay data (`provider`): opaque data such as a reasoning signature, stored with the route it came from. It is
// sent back byte for byte to that route and to no other (W4, provider-replay.ts).
//
// A part may be pruned: `pruneState` records that its content is no longer sent to the model. `textOrPlaceholder` renders the placeholder.

import type { Json, JsonObject } from "../parse/json.ts";
import type { Shape } from "../parse/shape.ts";
import type { ToolCall } from "../tool/tool.ts";
import type { ContentSource } from "./content-source.ts";
import type { ImageContent } from "./image-content.ts";
import type { PartProviderOptions } from "./provider-options.ts";
import type { ProviderReplay } from "./provider-replay.ts";

import { emptyObject } from "../parse/json.ts";
import {
  boolean,
  construct,
  fallback,
  json,
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

/** One part of a message's content. The union is discriminated by `type`. */
export type Part = TextPart | ImagePart | FilePart | ReasoningPart | ToolCallPart | ToolResultPart | OpaquePart;

/** Text in the content of a message. */
export type TextPart = {
  readonly type: "text";
  /** The text. */
  readonly text: string;
  /** What the text contains. The default is `text`. */
  readonly kind: TextKind;
  /** The phase of a reply, as OpenAI's Responses API reports it. If a reply has a `final_answer`, its text excludes `commentary`. */
  readonly phase: TextPhase | null;
  /** What pruning did to the part; `null`: it is intact. */
  readonly pruneState: PruneState | null;
  /** Data that the provider requires back with the part; `null` if there is none. */
  readonly provider: ProviderReplay | null;
  /** Data of the caller. The library stores it and does not interpret it. */
  readonly metadata: JsonObject;
  /** Fields of a provider's API for this part, by provider. Sent to that provider only; absent if there are none. */
  readonly providerOptions?: PartProviderOptions;
};

/** An image in the content of a message. */
export type ImagePart = {
  readonly type: "image";
  /** The image. */
  readonly image: ImageContent;
  /** The resolution at which the model looks at the image. The default is `auto`. */
  readonly detail: ImageDetail;
  /** What pruning did to the part; `null`: it is intact. */
  readonly pruneState: PruneState | null;
  /** Data that the provider requires back with the part; `null` if there is none. */
  readonly provider: ProviderReplay | null;
  /** Data of the caller. The library stores it and does not interpret it. */
  readonly metadata: JsonObject;
  /** Fields of a provider's API for this part, by provider. Sent to that provider only; absent if there are none. */
  readonly providerOptions?: PartProviderOptions;
};

/** A file in the content of a message that is not an image, for example a PDF or an audio recording. */
export type FilePart = {
  readonly type: "file";
  /** Base64 data, a URL, or a provider's file id. A file path cannot be sent. */
  readonly source: ContentSource;
  /** For example `application/pdf`; `null` if unknown. */
  readonly mimeType: string | null;
  /** The file name that the model sees; `null` if there is none. */
  readonly name: string | null;
  /** What pruning did to the part; `null`: it is intact. */
  readonly pruneState: PruneState | null;
  /** Data that the provider requires back with the part; `null` if there is none. */
  readonly provider: ProviderReplay | null;
  /** Data of the caller. The library stores it and does not interpret it. */
  readonly metadata: JsonObject;
  /** Fields of a provider's API for this part, by provider. Sent to that provider only; absent if there are none. */
  readonly providerOptions?: PartProviderOptions;
};

/**
 * Reasoning of the model. The text is for display and is never sent as text; the provider gets its reasoning back through
 * the replay data in `provider`. `redacted` means that the provider withholds the text.
 */
export type ReasoningPart = {
  readonly type: "reasoning";
  /** The reasoning, or its summary; empty if the provider sends it encrypted only. */
  readonly text: string;
  /** The provider withheld the text. */
  readonly redacted: boolean;
  /** The signature or the encrypted reasoning, which is sent back to the same provider and model. */
  readonly provider: ProviderReplay | null;
  /** Data of the caller. The library stores it and does not interpret it. */
  readonly metadata: JsonObject;
};

/**
 * The position of a tool call among the parts of a reply. The call itself is in `toolCalls` of the message. A call
 * that the provider ran itself, such as a web search, is in `providerExecuted` instead, because it needs no answer.
 */
export type ToolCallPart = {
  readonly type: "tool_call";
  /** The id of the call in `toolCalls` of the message, or of `providerExecuted`. */
  readonly toolCallId: string;
  /** The call, if the provider runs it itself; otherwise `null`. */
  readonly providerExecuted: ToolCall | null;
  /** Data of the caller. The library stores it and does not interpret it. */
  readonly metadata: JsonObject;
};

/** The result of a tool that the provider ran itself. Results of the program's tools are `tool` messages. */
export type ToolResultPart = {
  readonly type: "tool_result";
  readonly toolCallId: string;
  readonly content: Json;
  readonly isError: boolean;
  readonly pruneState: PruneState | null;
  readonly provider: ProviderReplay | null;
  readonly metadata: JsonObject;
  /** Fields of a provider's API for this part, by provider. Sent to that provider only; absent if there are none. */
  readonly providerOptions?: PartProviderOptions;
};

/** An item of a provider's reply that the library does not interpret and that has to be sent back in its position. */
export type OpaquePart = {
  readonly type: "opaque";
  /** The provider's name for the item type. */
  readonly kind: string;
  readonly provider: ProviderReplay;
  readonly metadata: JsonObject;
  /** Fields of a provider's API for this part, by provider. Sent to that provider only; absent if there are none. */
  readonly providerOptions?: PartProviderOptions;
};

/**
 * What a text part contains. The runtime marks tool output as `output` and errors as `error`, and the model sees both in tags;
 * `refusal` is a refusal of the model.
 */
export type TextKind = (typeof textKinds)[number];
export const textKinds = ["text", "code", "output", "error", "refusal"] as const;

/** The phase of a text within a reply: interim commentary or the final answer. */
export type TextPhase = (typeof textPhases)[number];
export const textPhases = ["commentary", "final_answer"] as const;

/** `original` is a value of OpenAI's APIs: the model looks at the image without scaling. */
type ImageDetail = (typeof imageDetails)[number];
export const imageDetails = ["auto", "low", "high", "original"] as const;

/**
 * How a part was removed from what the model sees. `null` on a part means that it is not pruned. `archiveHash` names the archived
 * original.
 */
export type PruneState =
  | { readonly type: "cleared" }
  | {
      readonly type: "deleted";
      /** A short hint about the deleted content, which the model sees. */
      readonly breadcrumb: string;
      /** The hash of the archived original. */
      readonly archiveHash: string;
    }
  | {
      readonly type: "summarized";
      /** The summary that the model sees instead of the content. */
      readonly summary: string;
      /** The hash of the archived original. */
      readonly archiveHash: string;
    };

const pruneStateShape: Shape<PruneState> = variant<PruneState, "type">("type", {
  cleared: object<Extract<PruneState, { type: "cleared" }>>({ type: required(oneOf(["cleared"])) }),
  deleted: object<Extract<PruneState, { type: "deleted" }>>({
    type: required(oneOf(["deleted"])),
    breadcrumb: required(string),
    archiveHash: required(string),
  }),
  summarized: object<Extract<PruneState, { type: "summarized" }>>({
    type: required(oneOf(["summarized"])),
    summary: required(string),
    archiveHash: required(string),
  }),
});

const shared = {
  provider: fallback(nullable(providerReplayShape), null),
  metadata: fallback(settings, emptyObject),
};
const prunable = {
  ...shared,
  pruneState: fallback(nullable(pruneStateShape), null),
  providerOptions: partOptions,
};

export const textPartShape: Shape<TextPart> = object<TextPart>({
  type: required(oneOf(["text"])),
  text: required(string),
  kind: fallback(oneOf(textKinds), "text"),
  phase: fallback(nullable(oneOf(textPhases)), null),
  ...prunable,
});

export const imagePartShape: Shape<ImagePart> = object<ImagePart>({
  type: required(oneOf(["image"])),
  image: required(imageShape),
  detail: fallback(oneOf(imageDetails), "auto"),
  ...prunable,
});

export const filePartShape: Shape<FilePart> = object<FilePart>({
  type: required(oneOf(["file"])),
  source: required(contentSourceShape),
  mimeType: fallback(nullable(string), null),
  name: fallback(nullable(string), null),
  ...prunable,
});

const reasoningPartShape: Shape<ReasoningPart> = object<ReasoningPart>({
  type: required(oneOf(["reasoning"])),
  text: required(string),
  redacted: fallback(boolean, false),
  ...shared,
});

export const toolCallPartShape: Shape<ToolCallPart> = object<ToolCallPart>({
  type: required(oneOf(["tool_call"])),
  toolCallId: required(string),
  providerExecuted: fallback(nullable(toolCallShape), null),
  metadata: fallback(settings, emptyObject),
});

export const toolResultPartShape: Shape<ToolResultPart> = object<ToolResultPart>({
  type: required(oneOf(["tool_result"])),
  toolCallId: required(string),
  content: required(json),
  isError: fallback(boolean, false),
  ...prunable,
});

export const opaquePartShape: Shape<OpaquePart> = object<OpaquePart>({
  type: required(oneOf(["opaque"])),
  kind: required(string),
  provider: required(providerReplayShape),
  metadata: fallback(settings, emptyObject),
  providerOptions: partOptions,
});

export const partShape: Shape<Part> = variant<Part, "type">("type", {
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
 * import { imageFromUrl, imagePart, textPart, user } from "everturn/model";
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
