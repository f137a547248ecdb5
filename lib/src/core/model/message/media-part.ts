// Constructors of the parts that programs with media and codecs need: search results, images, files, calls and results
// of providers, opaque data.

import type { Json } from "../parse/json.ts";
import type { InferOptional, Shape } from "../parse/shape.ts";
import type { ContentSource } from "./content-source.ts";
import type { ImageInput } from "./image-content.ts";
import type {
  FilePart,
  ImagePart,
  OpaquePart,
  OptionalFields,
  TextPart,
  ToolCallPart,
  ToolResultPart,
} from "./part.ts";
import type { ProviderReplay } from "./provider-replay.ts";

import { array, boolean, construct, either, object, optional, required, string } from "../parse/shape.ts";
import {
  filePartShape,
  imagePartShape,
  opaquePartShape,
  textPart,
  toolCallPartShape,
  toolResultPartShape,
} from "./part.ts";

const searchResultFields = {
  /** Where the text comes from: a URL or any other name of the source. */
  source: required(string),
  /** The title of the source. */
  title: required(string),
  /** The text. A citation names one item of a list, or a range of items. */
  content: required(either<string, readonly string[]>((input) => typeof input === "string", string, array(string))),
  /**
   * Whether the model cites the result. The API requires the same value for all results of a request. Default: true.
   */
  citations: optional(boolean),
};

/** A search result that the model may cite. */
type SearchResult = InferOptional<typeof searchResultFields>;

/**
 * Builds a text part with a search result, for user messages and tool results. Anthropic gets a `search_result` block,
 * which the model cites; other providers get title, source and content as text. Throws `MisuseError` for an unknown
 * field or a wrong type.
 *
 * @example
 * ```ts
 * import { searchResultPart } from "everturn";
 *
 * searchResultPart({ source: "https://example.com/rome", title: "Rome", content: "Rome has 7 hills." }).text;
 * // => "Rome\nhttps://example.com/rome\n\nRome has 7 hills."
 * ```
 */
export function searchResultPart(result: SearchResult, fields: OptionalFields<TextPart, "text"> = {}): TextPart {
  const { source, title, content, citations } = construct("searchResultPart", searchResultShape, result);
  const texts = typeof content === "string" ? [content] : content;
  const anthropic = {
    type: "search_result",
    source,
    title,
    content: texts.map((text) => ({ type: "text", text })),
    citations: { enabled: citations ?? true },
    ...fields.providerOptions?.anthropic,
  };
  return textPart([title, source, "", ...texts].join("\n"), {
    ...fields,
    providerOptions: { ...fields.providerOptions, anthropic },
  });
}

const searchResultShape: Shape<SearchResult> = object(searchResultFields);

/** Builds an image part; `detail` is `auto` by default. Throws `MisuseError` for an unknown field or a wrong type. */
export function imagePart(image: ImageInput, fields: OptionalFields<ImagePart, "image"> = {}): ImagePart {
  return construct("imagePart", imagePartShape, { ...fields, type: "image", image });
}

/**
 * Builds a file part from base64 data, a URL, a file path or a provider's file id. Throws `MisuseError` for an
 * unknown field or a wrong type.
 */
export function filePart(source: ContentSource, fields: OptionalFields<FilePart, "source"> = {}): FilePart {
  return construct("filePart", filePartShape, { ...fields, type: "file", source });
}

/** Builds the part that marks the position of a call. Throws `MisuseError` for an unknown field or a wrong type. */
export function toolCallPart(
  toolCallId: string,
  fields: OptionalFields<ToolCallPart, "toolCallId"> = {},
): ToolCallPart {
  return construct("toolCallPart", toolCallPartShape, { ...fields, type: "tool_call", toolCallId });
}

/** Builds the result part of a provider-run tool. Throws `MisuseError` for an unknown field or a wrong type. */
export function toolResultPart(
  toolCallId: string,
  content: Json,
  fields: OptionalFields<ToolResultPart, "toolCallId" | "content"> = {},
): ToolResultPart {
  return construct("toolResultPart", toolResultPartShape, { ...fields, type: "tool_result", toolCallId, content });
}

/** Builds an opaque part. Throws `MisuseError` for an unknown field or a wrong type. */
export function opaquePart(
  kind: string,
  provider: ProviderReplay,
  fields: OptionalFields<OpaquePart, "kind" | "provider"> = {},
): OpaquePart {
  return construct("opaquePart", opaquePartShape, { ...fields, type: "opaque", kind, provider });
}
