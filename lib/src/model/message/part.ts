// The parts a message is made of. Every part may carry what its provider needs back, opaque and stamped with where it came
// from (W4), so that it returns there byte for byte and nowhere else.

import type { Json, JsonObject } from "../parse/json.ts";
import type { Shape } from "../parse/shape.ts";
import type { ToolCall } from "../tool/tool.ts";
import type { ContentSource } from "./content-source.ts";
import type { ImageContent, ImageInput } from "./image.ts";
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
import { imageShape } from "./image.ts";
import { providerReplayShape } from "./provider-replay.ts";

/** One part of a message's content. `type` tells the kinds apart. */
export type Part = TextPart | ImagePart | FilePart | ReasoningPart | ToolCallPart | ToolResultPart | OpaquePart;

/** Text in the content of a message. */
export type TextPart = {
  readonly type: "text";
  readonly text: string;
  /** What the text is. Notices of the runtime show `output` and `error` to the model in their own tags; `refusal` is the model's. */
  readonly kind: TextKind;
  /** Which act of a reply: `commentary` on the way is dropped once there is a `final_answer`. */
  readonly phase: TextPhase | null;
  readonly pruneState: PruneState | null;
  readonly provider: ProviderReplay | null;
  readonly metadata: JsonObject;
};

/** An image in the content of a message. */
export type ImagePart = {
  readonly type: "image";
  readonly image: ImageContent;
  readonly detail: ImageDetail;
  readonly pruneState: PruneState | null;
  readonly provider: ProviderReplay | null;
  readonly metadata: JsonObject;
};

/** A file of any other type in the content of a message: a PDF, a recording, a table. */
export type FilePart = {
  readonly type: "file";
  readonly source: ContentSource;
  readonly mimeType: string | null;
  readonly name: string | null;
  readonly pruneState: PruneState | null;
  readonly provider: ProviderReplay | null;
  readonly metadata: JsonObject;
};

/**
 * Reasoning of the model. It is shown to people and returned to the provider through `provider` only; it is never
 * sent as text. `redacted` means that the provider withholds the text.
 */
export type ReasoningPart = {
  readonly type: "reasoning";
  readonly text: string;
  readonly redacted: boolean;
  readonly provider: ProviderReplay | null;
  readonly metadata: JsonObject;
};

/**
 * The position of a tool call among the parts of a reply. The call itself is in `toolCalls` of the message; a call
 * that the provider ran by itself, such as a web search, is kept here, because it needs no answer.
 */
export type ToolCallPart = {
  readonly type: "tool_call";
  readonly toolCallId: string;
  readonly providerExecuted: ToolCall | null;
  readonly metadata: JsonObject;
};

/** What a tool that the provider ran by itself returned. Results of our own tools are `tool` messages. */
export type ToolResultPart = {
  readonly type: "tool_result";
  readonly toolCallId: string;
  readonly content: Json;
  readonly isError: boolean;
  readonly pruneState: PruneState | null;
  readonly provider: ProviderReplay | null;
  readonly metadata: JsonObject;
};

/** Something of the provider's that is none of the above but has to go back in its place. Nobody else can read it. */
export type OpaquePart = {
  readonly type: "opaque";
  /** The provider's word for it. */
  readonly kind: string;
  readonly provider: ProviderReplay;
  readonly metadata: JsonObject;
};

/** What a text part contains. Notices of the runtime mark output and errors; `refusal` is a refusal of the model. */
export type TextKind = (typeof textKinds)[number];
export const textKinds = ["text", "code", "output", "error", "refusal"] as const;

export type TextPhase = (typeof textPhases)[number];
export const textPhases = ["commentary", "final_answer"] as const;

type ImageDetail = (typeof imageDetails)[number];
export const imageDetails = ["auto", "low", "high"] as const;

/** How a part was removed from what the model sees. `null` on a part means that it is intact. */
export type PruneState =
  | { readonly type: "cleared" }
  | { readonly type: "deleted"; readonly breadcrumb: string; readonly archiveHash: string }
  | { readonly type: "summarized"; readonly summary: string; readonly archiveHash: string };

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
const prunable = { ...shared, pruneState: fallback(nullable(pruneStateShape), null) };

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

const toolCallPartShape: Shape<ToolCallPart> = object<ToolCallPart>({
  type: required(oneOf(["tool_call"])),
  toolCallId: required(string),
  providerExecuted: fallback(nullable(toolCallShape), null),
  metadata: fallback(settings, emptyObject),
});

const toolResultPartShape: Shape<ToolResultPart> = object<ToolResultPart>({
  type: required(oneOf(["tool_result"])),
  toolCallId: required(string),
  content: required(json),
  isError: fallback(boolean, false),
  ...prunable,
});

const opaquePartShape: Shape<OpaquePart> = object<OpaquePart>({
  type: required(oneOf(["opaque"])),
  kind: required(string),
  provider: required(providerReplayShape),
  metadata: fallback(settings, emptyObject),
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

type Rest<T, Given extends keyof T> = Partial<Omit<T, "type" | Given>>;

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
export function textPart(text: string, rest: Rest<TextPart, "text"> = {}): TextPart {
  return construct("textPart", textPartShape, { ...rest, type: "text", text });
}

/** Builds an image part; `detail` is `auto` by default. Throws `MisuseError` for an unknown field or a wrong type. */
export function imagePart(image: ImageInput, rest: Rest<ImagePart, "image"> = {}): ImagePart {
  return construct("imagePart", imagePartShape, { ...rest, type: "image", image });
}

/**
 * Builds a file part from base64 data, a URL, a file path or a provider's file id. Throws `MisuseError` for an
 * unknown field or a wrong type.
 */
export function filePart(source: ContentSource, rest: Rest<FilePart, "source"> = {}): FilePart {
  return construct("filePart", filePartShape, { ...rest, type: "file", source });
}

export function reasoningPart(text: string, rest: Rest<ReasoningPart, "text"> = {}): ReasoningPart {
  return construct("reasoningPart", reasoningPartShape, { ...rest, type: "reasoning", text });
}

export function toolCallPart(toolCallId: string, rest: Rest<ToolCallPart, "toolCallId"> = {}): ToolCallPart {
  return construct("toolCallPart", toolCallPartShape, { ...rest, type: "tool_call", toolCallId });
}

export function toolResultPart(
  toolCallId: string,
  content: Json,
  rest: Rest<ToolResultPart, "toolCallId" | "content"> = {},
): ToolResultPart {
  return construct("toolResultPart", toolResultPartShape, { ...rest, type: "tool_result", toolCallId, content });
}

export function opaquePart(
  kind: string,
  provider: ProviderReplay,
  rest: Rest<OpaquePart, "kind" | "provider"> = {},
): OpaquePart {
  return construct("opaquePart", opaquePartShape, { ...rest, type: "opaque", kind, provider });
}

/** What a model sees of a text: the text itself, or the mark its pruning left. */
export function visibleText(text: string, pruneState: PruneState | null): string {
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
