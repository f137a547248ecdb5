// Image requests, image responses and their usage. `parse/validate-image-request.ts` checks which fields an operation needs.

import type { ImageContent } from "../message/image-content.ts";
import type { Json, JsonObject } from "../parse/json.ts";
import type { Shape } from "../parse/shape.ts";
import type { ImageOperation } from "./image-operation.ts";
import type { ModelName } from "./model-ref.ts";

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

/** A request to an image adapter. Fields that are `null` are not sent, so the provider's default applies. */
export type ImageRequest = {
  /** `generate`, `edit` or `variation`. */
  readonly operation: ImageOperation;
  /** The image model, by name or as a reference. */
  readonly model: ModelName | null;
  /** Required for `generate` and `edit`, not allowed for `variation`. */
  readonly prompt: string | null;
  /** The number of images, 1 or more. The default is 1. */
  readonly n: number;
  /** In pixels, or a provider's own value, for example `"auto"`. */
  readonly size: ImageSize | string | null;
  /** `low`, `standard`, `high`, `hd`, `auto`, or a provider's own value. */
  readonly quality: string | null;
  /** The style of the image, for models that have one. */
  readonly style: ImageStyle | null;
  /** Whether the background is transparent, for models that support it. */
  readonly background: ImageBackground | null;
  /** Whether the provider returns the bytes or a URL. */
  readonly responseFormat: ImageFormat;
  /** The images to edit (1 or 2) or to vary (1). Empty for `generate`. */
  readonly inputImages: readonly ImageContent[];
  /** The area to edit; its transparent pixels are replaced. */
  readonly mask: ImageContent | null;
  /** Merged into the provider's request body. */
  readonly options: JsonObject;
  /** Data of the caller. The library stores it and does not interpret it. */
  readonly metadata: JsonObject;
};

/** The result of an image call: the images, their usage, and the provider's response body in `raw`. */
export type ImageResponse = {
  /** The provider's id of the response. */
  readonly id: string | null;
  /** The id of the HTTP request, as the provider reports it; otherwise the request id of the call. */
  readonly requestId: string | null;
  /** The model that made the images. */
  readonly model: string | null;
  /** The images, in order. */
  readonly images: readonly ImageContent[];
  /** The number of images, tokens and cost. */
  readonly usage: ImageUsage;
  /** The provider's response body; `null` if there is none. */
  readonly raw: Json;
  /** Other data of the response. */
  readonly metadata: JsonObject;
};

/** Counts and costs of an image call. `null` means unknown. */
export type ImageUsage = {
  /** The number of images. */
  readonly images: number;
  /** The size that was billed. */
  readonly size: ImageSize | string | null;
  /** The quality that was billed. */
  readonly quality: string | null;
  /** Tokens of the prompt and the input images; `null` if unknown. */
  readonly inputTokens: number | null;
  /** Tokens of the images; `null` if unknown. */
  readonly outputTokens: number | null;
  /** In US dollars. */
  readonly inputCost: number | null;
  /** In US dollars. */
  readonly outputCost: number | null;
  /** In US dollars. */
  readonly totalCost: number | null;
};

/** A size in pixels. */
export type ImageSize = { readonly width: number; readonly height: number };

type ImageStyle = (typeof imageStyles)[number];
export const imageStyles = ["natural", "vivid"] as const;

type ImageBackground = (typeof imageBackgrounds)[number];
export const imageBackgrounds = ["transparent", "opaque"] as const;

/** The form of the returned images: bytes (stored as base64 text), base64 text, or a URL. */
type ImageFormat = (typeof imageFormats)[number];
export const imageFormats = ["binary", "base64", "url"] as const;

const sizeShape: Shape<ImageSize | string> = either(
  (input) => typeof input === "string",
  string,
  object<ImageSize>({ width: required(count), height: required(count) }),
);

export const imageRequestShape: Shape<ImageRequest> = object<ImageRequest>({
  operation: fallback(oneOf(imageOperations), "generate"),
  model: fallback(nullable(modelNameShape), null),
  prompt: fallback(nullable(string), null),
  n: fallback(number, 1),
  size: fallback(nullable(sizeShape), null),
  quality: fallback(nullable(string), null),
  style: fallback(nullable(oneOf(imageStyles)), null),
  background: fallback(nullable(oneOf(imageBackgrounds)), null),
  responseFormat: fallback(oneOf(imageFormats), "binary"),
  inputImages: fallback(array(imageShape), []),
  mask: fallback(nullable(imageShape), null),
  options: fallback(settings, emptyObject),
  metadata: fallback(settings, emptyObject),
});

export const imageUsageShape: Shape<ImageUsage> = object<ImageUsage>({
  images: fallback(count, 0),
  size: fallback(nullable(sizeShape), null),
  quality: fallback(nullable(string), null),
  inputTokens: fallback(nullable(count), null),
  outputTokens: fallback(nullable(count), null),
  inputCost: fallback(nullable(number), null),
  outputCost: fallback(nullable(number), null),
  totalCost: fallback(nullable(number), null),
});

/** Builds an image usage value and fills in defaults. Throws `MisuseError` for an unknown field or a wrong type. */
export function imageUsage(fields: Partial<ImageUsage> = {}): ImageUsage {
  return construct("imageUsage", imageUsageShape, fields);
}

export const imageResponseShape: Shape<ImageResponse> = object<ImageResponse>({
  id: fallback(nullable(string), null),
  requestId: fallback(nullable(string), null),
  model: fallback(nullable(string), null),
  images: fallback(array(imageShape), []),
  usage: fallback(imageUsageShape, imageUsage()),
  raw: fallback(json, null),
  metadata: fallback(settings, emptyObject),
});

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
