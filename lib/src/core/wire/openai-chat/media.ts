// Encodes images, audio and files as content parts of Chat Completions (`image_url`, `input_audio`, `file`). A source
// that the API cannot take throws `AdapterError`: dropping it silently would make the model answer a question about an
// image it never saw.

import type { AdapterError, ContentSource, FilePart, ImagePart, JsonObject } from "../../model/internal.ts";
import type { WireContext } from "../codec.ts";

import { textOrPlaceholder } from "../../model/internal.ts";
import { audioFormat, isAudioType, openaiAudio } from "../audio-format.ts";
import { objectAt, omitNullish } from "../fields.ts";
import { detectImageType } from "../image-type.ts";
import { optionsFor, withOptions } from "../provider-options.ts";
import { requestError } from "../request-error.ts";

/** The content part of an image or a file; a pruned one becomes its placeholder text. */
export function encodeMedia(part: ImagePart | FilePart, context: WireContext): JsonObject {
  if (part.pruneState !== null) return { type: "text", text: textOrPlaceholder("", part.pruneState) };
  const { detail, ...options } = optionsFor(part, context.route) ?? {};
  const encoded =
    part.type === "file"
      ? encodeFile(part, context)
      : encodeImage(part.image.source, part.image.mimeType, part.detail, context);
  const image = objectAt(encoded, "image_url");
  // `detail` is a field of the nested object; all other options are fields of the part.
  const nested = image === null || detail === undefined ? {} : { image_url: { ...image, detail } };
  return withOptions({ ...encoded, ...nested }, options);
}

function encodeImage(
  source: ContentSource,
  mimeType: string | null,
  detail: ImagePart["detail"],
  context: WireContext,
): JsonObject {
  switch (source.type) {
    case "url":
      return {
        type: "image_url",
        image_url: omitNullish({ url: source.url, detail: detail === "auto" ? null : detail }),
      };
    case "base64": {
      const type = mimeType ?? detectImageType(source.data);
      if (type === null) throw notAccepted("an image without a MIME type; set mimeType", context, "invalid_request");
      const url = `data:${type};base64,${source.data}`;
      return { type: "image_url", image_url: omitNullish({ url, detail: detail === "auto" ? null : detail }) };
    }
    case "file":
      throw notAccepted("an image on disk; read it and send its bytes", context);
    case "provider_file":
      throw notAccepted("an image by the id of an uploaded file; send its bytes or a URL", context);
  }
}

function encodeFile({ source, mimeType, name }: FilePart, context: WireContext): JsonObject {
  if (mimeType !== null && mimeType.startsWith("image/")) return encodeImage(source, mimeType, "auto", context);
  switch (source.type) {
    case "base64": {
      const { audioFormats = openaiAudio } = context.quirks;
      const format = audioFormat(mimeType, audioFormats);
      if (format !== null) return { type: "input_audio", input_audio: { data: source.data, format } };
      // The API answers 400 to audio as a `file`.
      if (isAudioType(mimeType)) {
        const what = `audio of the type ${mimeType}; the server reads ${audioFormats.join(", ")} (quirks.audioFormats)`;
        throw notAccepted(what, context);
      }
      if (mimeType === null) throw notAccepted("a file without a MIME type; set mimeType", context, "invalid_request");
      const data = `data:${mimeType};base64,${source.data}`;
      return { type: "file", file: { filename: name ?? "file", file_data: data } };
    }
    case "provider_file":
      if (source.provider !== context.route.provider) {
        throw notAccepted(`a file that was uploaded to ${source.provider}`, context);
      }
      return { type: "file", file: { file_id: source.id } };
    case "url":
      throw notAccepted("a file by its URL; send its bytes", context);
    case "file":
      throw notAccepted("a file on disk; read it and send its bytes", context);
  }
}

function notAccepted(
  what: string,
  { route }: WireContext,
  reason?: "unsupported_feature" | "invalid_request",
): AdapterError {
  return requestError(`Chat Completions does not accept ${what}`, route, reason);
}
