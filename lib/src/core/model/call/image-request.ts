// Image requests, image responses and their usage. `parse/validate-image-request.ts` checks which fields an operation
// needs.

import type { Infer, Shape, WordOf } from "../parse/shape.ts";
import type { ImageOperation } from "./image-operation.ts";

import { imageShape } from "../message/image-content.ts";
import { emptyObject } from "../parse/json.ts";
import {
  array,
  construct,
  count,
  either,
  fallback,
  json,
  nullable,
  number,
  object,
  oneOf,
  required,
  settings,
  string,
} from "../parse/shape.ts";
import { imageOperations } from "./image-operation.ts";
import { modelNameShape } from "./model-ref.ts";

export const imageStyles = ["natural", "vivid"] as const;

export const imageBackgrounds = ["transparent", "opaque"] as const;

/** The form of the returned images: bytes (stored as base64 text), base64 text, or a URL. */
type ImageFormat = WordOf<typeof imageFormats>;
export const imageFormats = ["binary", "base64", "url"] as const;

const sizeFields = { width: required(count), height: required(count) };

/** A size in pixels. */
export type ImageSize = Infer<typeof sizeFields>;

const sizeShape: Shape<ImageSize | string> = either((input) => typeof input === "string", string, object(sizeFields));

const imageRequestFields = {
  /** `generate`, `edit` or `variation`. */
  operation: fallback(oneOf<ImageOperation>(imageOperations), "generate"),
  /** The image model, by name or as a reference. */
  model: fallback(nullable(modelNameShape), null),
  /** Required for `generate` and `edit`, not allowed for `variation`. */
  prompt: fallback(nullable(string), null),
  /** The number of images, 1 or more. The default is 1. */
  n: fallback(number, 1),
  /** In pixels, or a provider's own value, for example `"auto"`. */
  size: fallback(nullable(sizeShape), null),
  /** `low`, `standard`, `high`, `hd`, `auto`, or a provider's own value. */
  quality: fallback(nullable(string), null),
  /** The style of the image, for models that have one. */
  style: fallback(nullable(oneOf(imageStyles)), null),
  /** Whether the background is transparent, for models that support it. */
  background: fallback(nullable(oneOf(imageBackgrounds)), null),
  /** Whether the provider returns the bytes or a URL. */
  responseFormat: fallback(oneOf<ImageFormat>(imageFormats), "binary"),
  /** The images to edit (1 or 2) or to vary (1). Empty for `generate`. */
  inputImages: fallback(array(imageShape), []),
  /** The area to edit; its transparent pixels are replaced. */
  mask: fallback(nullable(imageShape), null),
  /** Merged into the provider's request body. */
  options: fallback(settings, emptyObject),
  /** Data of the caller. The library stores it and does not interpret it. */
  metadata: fallback(settings, emptyObject),
};

/** A request to an image adapter. Fields that are `null` are not sent, so the provider's default applies. */
export type ImageRequest = Infer<typeof imageRequestFields>;

export const imageRequestShape: Shape<ImageRequest> = object(imageRequestFields);

const imageUsageFields = {
  /** The number of images. */
  images: fallback(count, 0),
  /** The size that was billed. */
  size: fallback(nullable(sizeShape), null),
  /** The quality that was billed. */
  quality: fallback(nullable(string), null),
  /** Tokens of the prompt and the input images; `null` if unknown. */
  inputTokens: fallback(nullable(count), null),
  /** Tokens of the images; `null` if unknown. */
  outputTokens: fallback(nullable(count), null),
  /** In US dollars. */
  inputCost: fallback(nullable(number), null),
  /** In US dollars. */
  outputCost: fallback(nullable(number), null),
  /** In US dollars. */
  totalCost: fallback(nullable(number), null),
};

/** Counts and costs of an image call. `null` means unknown. */
export type ImageUsage = Infer<typeof imageUsageFields>;

export const imageUsageShape: Shape<ImageUsage> = object(imageUsageFields);

/** Builds an image usage value and fills in defaults. Throws `MisuseError` for an unknown field or a wrong type. */
export function imageUsage(fields: Partial<ImageUsage> = {}): ImageUsage {
  return construct("imageUsage", imageUsageShape, fields);
}

const imageResponseFields = {
  /** The provider's id of the response. */
  id: fallback(nullable(string), null),
  /** The id of the HTTP request, as the provider reports it; otherwise the request id of the call. */
  requestId: fallback(nullable(string), null),
  /** The model that made the images. */
  model: fallback(nullable(string), null),
  /** The images, in order. */
  images: fallback(array(imageShape), []),
  /** The number of images, tokens and cost. */
  usage: fallback(imageUsageShape, imageUsage()),
  /** The provider's response body; `null` if there is none. */
  raw: fallback(json, null),
  /** Other data of the response. */
  metadata: fallback(settings, emptyObject),
};

/** The result of an image call: the images, their usage, and the provider's response body in `raw`. */
export type ImageResponse = Infer<typeof imageResponseFields>;

export const imageResponseShape: Shape<ImageResponse> = object(imageResponseFields);

/**
 * Builds an image request and fills in defaults: the operation `generate`, one image. Throws `MisuseError` for an
 * unknown field or a wrong type.
 */
export function imageRequest(prompt: string | null, fields: Partial<Omit<ImageRequest, "prompt">> = {}): ImageRequest {
  return construct("imageRequest", imageRequestShape, { ...fields, prompt });
}

/**
 * Builds an image response and fills in defaults. For image adapters. Throws `MisuseError` for an unknown field or
 * a wrong type.
 */
export function imageResponse(fields: Partial<ImageResponse> = {}): ImageResponse {
  return construct("imageResponse", imageResponseShape, fields);
}
