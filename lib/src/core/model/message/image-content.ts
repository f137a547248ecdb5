// The type of images. The functions that build and read them are in image.ts: only programs with images, and codecs, need those.

import type { JsonObject } from "../parse/json.ts";
import type { Shape } from "../parse/shape.ts";
import type { ContentSource } from "./content-source.ts";

import { emptyObject } from "../parse/json.ts";
import { count, fallback, nullable, object, required, settings, string } from "../parse/shape.ts";
import { contentSourceShape } from "./content-source.ts";

/** An image: its source (base64 data, URL, file path or provider file id) and its MIME type. */
export type ImageContent = {
  /** Base64 data, a URL, a file path, or a provider's file id. */
  readonly source: ContentSource;
  /** For example `image/png`; `null` if unknown. */
  readonly mimeType: string | null;
  /** In pixels; `null` if unknown. */
  readonly width: number | null;
  /** In pixels; `null` if unknown. */
  readonly height: number | null;
  /** For a generated image: the prompt of the request. */
  readonly prompt: string | null;
  /** For a generated image: the prompt as the provider rewrote it. */
  readonly revisedPrompt: string | null;
  /** Data of the caller. The library stores it and does not interpret it. */
  readonly metadata: JsonObject;
};

export const imageShape: Shape<ImageContent> = object<ImageContent>({
  source: required(contentSourceShape),
  mimeType: fallback(nullable(string), null),
  width: fallback(nullable(count), null),
  height: fallback(nullable(count), null),
  prompt: fallback(nullable(string), null),
  revisedPrompt: fallback(nullable(string), null),
  metadata: fallback(settings, emptyObject),
});

/** The loose form of an image: every field but `source` is optional. */
export type ImageInput = Pick<ImageContent, "source"> & Partial<Omit<ImageContent, "source">>;
