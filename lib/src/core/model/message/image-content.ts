// The type of images. The functions that build and read them are in image.ts: only programs with images, and codecs,
// need those.

import type { Infer, Shape } from "../parse/shape.ts";

import { emptyObject } from "../parse/json.ts";
import { count, fallback, nullable, object, required, settings, string } from "../parse/shape.ts";
import { contentSourceShape } from "./content-source.ts";

const imageFields = {
  /** Base64 data, a URL, a file path, or a provider's file id. */
  source: required(contentSourceShape),
  /** For example `image/png`; `null` if unknown. */
  mimeType: fallback(nullable(string), null),
  /** In pixels; `null` if unknown. */
  width: fallback(nullable(count), null),
  /** In pixels; `null` if unknown. */
  height: fallback(nullable(count), null),
  /** For a generated image: the prompt of the request. */
  prompt: fallback(nullable(string), null),
  /** For a generated image: the prompt as the provider rewrote it. */
  revisedPrompt: fallback(nullable(string), null),
  /** Data of the caller. The library stores it and does not interpret it. */
  metadata: fallback(settings, emptyObject),
};

/** An image: its source (base64 data, URL, file path or provider file id) and its MIME type. */
export type ImageContent = Infer<typeof imageFields>;

export const imageShape: Shape<ImageContent> = object(imageFields);

/** The loose form of an image: every field but `source` is optional. */
export type ImageInput = Pick<ImageContent, "source"> & Partial<Omit<ImageContent, "source">>;
