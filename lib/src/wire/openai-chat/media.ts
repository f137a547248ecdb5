// Images, recordings and files as pieces of content. What a source cannot be sent as throws: a question about a picture that was left out
// silently would get an answer about nothing.

import type { ContentSource, FilePart, ImagePart, JsonObject } from "../../model/internal.ts";
import type { WireContext } from "../codec.ts";

import { AdapterError, visibleText } from "../../model/internal.ts";
import { omitNullish } from "../fields.ts";

export function encodeMedia(part: ImagePart | FilePart, context: WireContext): JsonObject {
  if (part.pruneState !== null) return { type: "text", text: visibleText("", part.pruneState) };
  if (part.type === "file") return encodeFile(part, context);
  const { source, mimeType } = part.image;
  return encodeImage(source, mimeType, part.detail, context);
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
      if (type === null) throw requestError("invalid_request", "an image without a MIME type", context);
      const url = `data:${type};base64,${source.data}`;
      return { type: "image_url", image_url: omitNullish({ url, detail: detail === "auto" ? null : detail }) };
    }
    case "file":
      throw requestError("unsupported_feature", "an image on disk; read it first", context);
    case "provider_file":
      throw requestError("unsupported_feature", "an image by the id of a file", context);
  }
}

function encodeFile({ source, mimeType, name }: FilePart, context: WireContext): JsonObject {
  if (mimeType !== null && mimeType.startsWith("image/")) return encodeImage(source, mimeType, "auto", context);
  switch (source.type) {
    case "base64": {
      const format = mimeType === null ? undefined : audioFormats.get(mimeType);
      if (format !== undefined) return { type: "input_audio", input_audio: { data: source.data, format } };
      if (mimeType === null) throw requestError("invalid_request", "a file without a MIME type", context);
      const data = `data:${mimeType};base64,${source.data}`;
      return { type: "file", file: { filename: name ?? "file", file_data: data } };
    }
    case "provider_file":
      if (source.provider !== context.route.provider) {
        throw requestError("unsupported_feature", `a file that was uploaded to ${source.provider}`, context);
      }
      return { type: "file", file: { file_id: source.id } };
    case "url":
      throw requestError("unsupported_feature", "a file by its URL", context);
    case "file":
      throw requestError("unsupported_feature", "a file on disk; read it first", context);
  }
}

const audioFormats: ReadonlyMap<string, string> = new Map([
  ["audio/wav", "wav"],
  ["audio/x-wav", "wav"],
  ["audio/wave", "wav"],
  ["audio/mpeg", "mp3"],
  ["audio/mp3", "mp3"],
]);

/** How the bytes of the four kinds of images begin, in base64. */
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
    message: `${route.provider}: Chat Completions cannot be sent ${what}`,
  });
}
