// Encodes the parts of user messages and tool results for the OpenAI Responses API: text, images, audio and files.

import type { ContentSource, FilePart, JsonObject, UserPart } from "../../model/internal.ts";
import type { WireContext } from "../codec.ts";

import { textOrPlaceholder } from "../../model/internal.ts";
import { audioFormat, isAudioType } from "../audio-format.ts";
import { omitNullish } from "../fields.ts";
import { optionsFor, withOptions } from "../provider-options.ts";
import { requestError } from "../request-error.ts";

export function inputText(text: string): JsonObject {
  return { type: "input_text", text };
}

export function isNotEmptyText(piece: JsonObject): boolean {
  return piece["type"] !== "input_text" || piece["text"] !== "";
}

/**
 * Is the part audio that is sent? Outputs of calls take text, images and files of other types only: the API answers 400
 * to audio in an `input_file` there.
 */
export function isAudio(part: UserPart): part is FilePart {
  return part.type === "file" && isAudioType(part.mimeType) && part.pruneState === null;
}

/** Is it audio of which the API reads the format? */
export function isReadableAudio({ source, mimeType }: FilePart): boolean {
  return source.type === "base64" && audioFormat(mimeType) !== null;
}

/** The content part of a user part, with its options. A pruned part is its placeholder text, without options. */
export function encodePart(part: UserPart, context: WireContext): JsonObject {
  if (part.pruneState !== null)
    return inputText(textOrPlaceholder(part.type === "text" ? part.text : "", part.pruneState));
  const encoded = part.type === "text" ? inputText(part.text) : encodeMedia(part, context);
  return withOptions(encoded, optionsFor(part, context.route));
}

function encodeMedia(part: Exclude<UserPart, { readonly type: "text" }>, context: WireContext): JsonObject {
  if (part.type === "image") {
    const { source, mimeType } = part.image;
    return {
      type: "input_image",
      ...encodeSource(source, mimeType, "image_url", "image_url", context),
      detail: part.detail,
    };
  }
  const { source, mimeType, name } = part;
  if (mimeType?.startsWith("image/") === true)
    return {
      type: "input_image",
      ...encodeSource(source, mimeType, "image_url", "image_url", context),
      detail: "auto",
    };
  const format = audioFormat(mimeType);
  if (format !== null && source.type === "base64")
    return { type: "input_audio", input_audio: { data: source.data, format } };
  if (isAudioType(mimeType) && source.type === "base64") {
    throw requestError(`the Responses API reads WAV and MP3 audio; this is ${mimeType}`, context.route);
  }
  const filename = source.type === "base64" ? (name ?? "file") : null;
  return {
    type: "input_file",
    ...omitNullish({ filename }),
    ...encodeSource(source, mimeType, "file_data", "file_url", context),
  };
}

/** The fields for the source of an image or a file. */
function encodeSource(
  source: ContentSource,
  mimeType: string | null,
  dataField: string,
  urlField: string,
  { route }: WireContext,
): JsonObject {
  switch (source.type) {
    case "base64":
      if (mimeType !== null) return { [dataField]: `data:${mimeType};base64,${source.data}` };
      throw requestError("an image or a file in base64 needs a MIME type; set mimeType", route, "invalid_request");
    case "url":
      return { [urlField]: source.url };
    case "provider_file":
      if (source.provider === route.provider) return { file_id: source.id };
      throw requestError(`a file uploaded to ${source.provider} cannot be sent here; send its bytes`, route);
    case "file":
      throw requestError("a file on disk cannot be sent; read it and send its bytes", route);
  }
}
