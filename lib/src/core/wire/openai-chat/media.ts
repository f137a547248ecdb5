// Encodes images, audio and files as content parts of Chat Completions (`image_url`, `input_audio`, `file`). A source
// that the API cannot take throws `AdapterError`: dropping it silently would make the model answer a question about an
// image it never saw.

import type { ContentSource, FilePart, ImagePart, JsonObject } from "../../model/internal.ts";
import type { WireContext } from "../codec.ts";

import { AdapterError, textOrPlaceholder } from "../../model/internal.ts";
import { audioFormat, isAudioType, openaiAudio } from "../audio-format.ts";
import { objectAt, omitNullish } from "../fields.ts";
import { optionsFor, withOptions } from "../provider-options.ts";

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
      const type = mimeType ?? sniffImageType(source.data);
      if (type === null) throw requestError("invalid_request", "an image without a MIME type; set mimeType", context);
      const url = `data:${type};base64,${source.data}`;
      return { type: "image_url", image_url: omitNullish({ url, detail: detail === "auto" ? null : detail }) };
    }
    case "file":
      throw requestError("unsupported_feature", "an image on disk; read it and send its bytes", context);
    case "provider_file":
      throw requestError(
        "unsupported_feature",
        "an image by the id of an uploaded file; send its bytes or a URL",
        context,
      );
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
        throw requestError("unsupported_feature", what, context);
      }
      if (mimeType === null) throw requestError("invalid_request", "a file without a MIME type; set mimeType", context);
      const data = `data:${mimeType};base64,${source.data}`;
      return { type: "file", file: { filename: name ?? "file", file_data: data } };
    }
    case "provider_file":
      if (source.provider !== context.route.provider) {
        throw requestError("unsupported_feature", `a file that was uploaded to ${source.provider}`, context);
      }
      return { type: "file", file: { file_id: source.id } };
    case "url":
      throw requestError("unsupported_feature", "a file by its URL; send its bytes", context);
    case "file":
      throw requestError("unsupported_feature", "a file on disk; read it and send its bytes", context);
  }
}

/** Media types by the first base64 characters of the data, for images without a MIME type. */
const imageTypesByPrefix: readonly (readonly [string, string])[] = [
  ["iVBORw0KGgo", "image/png"],
  ["/9j/", "image/jpeg"],
  ["R0lGOD", "image/gif"],
  ["UklGR", "image/webp"],
];

function sniffImageType(data: string): string | null {
  return imageTypesByPrefix.find(([prefix]) => data.startsWith(prefix))?.[1] ?? null;
}

function requestError(
  reason: "unsupported_feature" | "invalid_request",
  what: string,
  { route }: WireContext,
): AdapterError {
  return new AdapterError(reason, {
    provider: route.provider,
    message: `${route.provider}: Chat Completions does not accept ${what}`,
  });
}
