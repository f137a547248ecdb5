// An image: where its bytes are, and what is known about it.

import type { JsonObject } from "./json.ts";
import type { ContentSource } from "./media.ts";
import type { Shape } from "./shape.ts";

import { fromBase64, toBase64 } from "./base64.ts";
import { emptyObject } from "./json.ts";
import { mediaSourceShape } from "./media.ts";
import { MisuseError } from "./misuse.ts";
import { construct, count, fallback, nullable, object, required, settings, string } from "./shape.ts";

export type ImageContent = {
  readonly source: ContentSource;
  readonly mimeType: string | null;
  readonly width: number | null;
  readonly height: number | null;
  /** For generated images: what was asked for, and what the provider made of it. */
  readonly prompt: string | null;
  readonly revisedPrompt: string | null;
  readonly metadata: JsonObject;
};

export const imageShape: Shape<ImageContent> = object<ImageContent>({
  source: required(mediaSourceShape),
  mimeType: fallback(nullable(string), null),
  width: fallback(nullable(count), null),
  height: fallback(nullable(count), null),
  prompt: fallback(nullable(string), null),
  revisedPrompt: fallback(nullable(string), null),
  metadata: fallback(settings, emptyObject),
});

export type ImageInput = Pick<ImageContent, "source"> & Partial<Omit<ImageContent, "source">>;

export function image(fields: ImageInput): ImageContent {
  return construct("image", imageShape, fields);
}

/**
 * An image on disk. Reads nothing: the MIME type comes from the extension and is `null` for one we do not know.
 *
 * @example
 * ```ts
 * import { imageFromFile } from "everturn/model";
 *
 * imageFromFile("chart.PNG").mimeType; // => "image/png"
 * imageFromFile("chart.tiff").mimeType; // => null
 * ```
 */
export function imageFromFile(path: string): ImageContent {
  const extension = /\.([^./\\]+)$/.exec(path)?.[1]?.toLowerCase() ?? "";
  return image({ source: { type: "file", path }, mimeType: mimeTypes.get(extension) ?? null });
}

const mimeTypes: ReadonlyMap<string, string> = new Map([
  ["png", "image/png"],
  ["jpg", "image/jpeg"],
  ["jpeg", "image/jpeg"],
  ["webp", "image/webp"],
  ["gif", "image/gif"],
]);

/** An image from its bytes, which are kept as base64: stored data is JSON. */
export function imageFromBinary(bytes: Uint8Array, mimeType: string): ImageContent {
  if (!(bytes instanceof Uint8Array))
    throw new MisuseError("invalid_argument", "imageFromBinary: must be a Uint8Array");
  return imageFromBase64(toBase64(bytes), mimeType);
}

/** An image from base64 text. The text is not looked at here: {@link imageToBinary} says if it is no base64. */
export function imageFromBase64(data: string, mimeType: string): ImageContent {
  if (typeof mimeType !== "string") {
    throw new MisuseError("invalid_argument", 'imageFromBase64: a MIME type is required, for example "image/png"');
  }
  return image({ source: { type: "base64", data }, mimeType });
}

/** An image on the web. Never fetched by us. */
export function imageFromUrl(url: string): ImageContent {
  return image({ source: { type: "url", url } });
}

/** Why an image has no bytes to give. `remote_source`: they are elsewhere; `file_source`: pass `readFile`. */
export type ImageProblem = "invalid_base64" | "remote_source" | "file_source" | "unreadable_file" | "missing_mime_type";

export type ImageBytes =
  | { readonly ok: true; readonly bytes: Uint8Array }
  | { readonly ok: false; readonly problem: ImageProblem; readonly cause: unknown };

export type ImageDataUri =
  | { readonly ok: true; readonly uri: string }
  | { readonly ok: false; readonly problem: ImageProblem; readonly cause: unknown };

/** How to read a file; the model itself reads none. On Node: `readFileSync` of `node:fs`. */
export type ReadFile = (path: string) => Uint8Array;

/** The bytes of an image, where they can be had without the network. */
export function imageToBinary(from: ImageContent, readFile?: ReadFile): ImageBytes {
  const { source } = from;
  switch (source.type) {
    case "base64": {
      const bytes = fromBase64(source.data);
      return bytes === null ? problem("invalid_base64") : { ok: true, bytes };
    }
    case "file":
      return readBytes(source.path, readFile);
    case "url":
    case "provider_file":
      return problem("remote_source");
  }
}

/** The image as a `data:` URI. Base64 text goes in as it is. */
export function imageToDataUri(from: ImageContent, readFile?: ReadFile): ImageDataUri {
  const { source, mimeType } = from;
  if (source.type === "url" || source.type === "provider_file") return problem("remote_source");
  if (mimeType === null) return problem("missing_mime_type");
  if (source.type === "base64") return { ok: true, uri: `data:${mimeType};base64,${source.data}` };
  const read = readBytes(source.path, readFile);
  return read.ok ? { ok: true, uri: `data:${mimeType};base64,${toBase64(read.bytes)}` } : read;
}

function readBytes(path: string, readFile: ReadFile | undefined): ImageBytes {
  if (readFile === undefined) return problem("file_source");
  try {
    return { ok: true, bytes: readFile(path) };
  } catch (cause) {
    return problem("unreadable_file", cause);
  }
}

function problem(what: ImageProblem, cause: unknown = null) {
  return { ok: false, problem: what, cause } as const;
}
