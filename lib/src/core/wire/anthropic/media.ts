// Encodes images and files as `image` and `document` blocks of Anthropic's Messages API. A source that the API cannot
// take throws `AdapterError`: dropping it silently would make the model answer a question about an image it never saw.

import type { ContentSource, JsonObject, ProviderRoute, UserPart } from "../../model/internal.ts";

import { imageFromBase64, imageToBinary } from "../../model/internal.ts";
import { omitNullish } from "../fields.ts";
import { detectImageType } from "../image-type.ts";
import { requestError } from "../request-error.ts";

/** The block of an image or a file; files with an image type become images. */
export function mediaBlock(part: Exclude<UserPart, { readonly type: "text" }>, route: ProviderRoute): JsonObject {
  if (part.type === "image") return imageBlock(part.image.source, part.image.mimeType, route);
  const { source, mimeType, name } = part;
  if (mimeType?.startsWith("image/") === true) return imageBlock(source, mimeType, route);
  return omitNullish({ type: "document", source: documentSource(source, mimeType, route), title: name });
}

/** An `image` block. Base64 data needs a media type: the given one, or the one detected from the data. */
function imageBlock(source: ContentSource, mimeType: string | null, route: ProviderRoute): JsonObject {
  const { source: resolvedSource, mimeType: resolvedType } = inlineDataUrl(source, mimeType);
  if (resolvedSource.type !== "base64") return { type: "image", source: remoteSource(resolvedSource, route) };
  const mediaType = resolvedType ?? detectImageType(resolvedSource.data);
  if (mediaType === null)
    throw requestError(
      "an image needs a MIME type; set mimeType to image/png, image/jpeg, image/gif or image/webp",
      route,
      "invalid_request",
    );
  return { type: "image", source: { type: "base64", media_type: mediaType, data: resolvedSource.data } };
}

/**
 * The source of a `document` block: a PDF (also if the type is unknown), text, a URL or an uploaded file. Other types
 * throw `unsupported_feature`.
 */
function documentSource(originalSource: ContentSource, originalType: string | null, route: ProviderRoute): JsonObject {
  const { source, mimeType } = inlineDataUrl(originalSource, originalType);
  if (source.type !== "base64") return remoteSource(source, route);
  if (mimeType === null || mimeType === "application/pdf")
    return { type: "base64", media_type: "application/pdf", data: source.data };
  if (!mimeType.startsWith("text/") && mimeType !== "application/json")
    throw requestError(`files of type ${mimeType} cannot be sent; the API takes PDF and text`, route);
  return { type: "text", media_type: "text/plain", data: decodeUtf8(source.data, route) };
}

/** The source of media that the API fetches: a URL or a file uploaded to this provider. */
function remoteSource(source: Exclude<ContentSource, { readonly type: "base64" }>, route: ProviderRoute): JsonObject {
  switch (source.type) {
    case "url":
      return { type: "url", url: source.url };
    case "provider_file":
      if (source.provider === route.provider) return { type: "file", file_id: source.id };
      throw requestError(`a file uploaded to ${source.provider} cannot be sent here; send its bytes`, route);
    case "file":
      throw requestError("a file on disk cannot be sent; read it and send its bytes", route);
  }
}

/** Turns a `data:` URL into base64 data: the API fetches URLs of the web only. */
function inlineDataUrl(
  source: ContentSource,
  mimeType: string | null,
): { readonly source: ContentSource; readonly mimeType: string | null } {
  const match = source.type === "url" ? /^data:([^;,]*);base64,(.*)$/s.exec(source.url) : null;
  if (match === null) return { source, mimeType };
  const [, type = "", data = ""] = match;
  return { source: { type: "base64", data }, mimeType: mimeType ?? (type === "" ? null : type) };
}

/**
 * Decodes base64 to text. `TextDecoder` is not available here (the folder compiles with ES2023 only), so
 * percent-decoding checks the UTF-8.
 */
function decodeUtf8(data: string, route: ProviderRoute): string {
  const bytes = imageToBinary(imageFromBase64(data, "text/plain"));
  if (!bytes.ok) throw requestError("the data of a file is not valid base64", route, "invalid_request");
  const escaped = Array.from(bytes.value, (byte) => `%${byte.toString(16).padStart(2, "0")}`);
  try {
    return decodeURIComponent(escaped.join(""));
  } catch {
    throw requestError("a text file is not UTF-8", route, "invalid_request");
  }
}
