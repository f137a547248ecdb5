// Builds images and reads their bytes. This file performs no I/O: a URL is never fetched, and a file is read only by
// the function that the caller passes.

import type { Result } from "../failure/result.ts";
import type { ImageContent, ImageInput } from "./image-content.ts";

import { invalidArgument } from "../failure/misuse.ts";
import { failed, ok } from "../failure/result.ts";
import { construct } from "../parse/shape.ts";
import { fromBase64, toBase64 } from "./base64.ts";
import { imageShape } from "./image-content.ts";

/** Builds an image and fills in defaults. Throws `MisuseError` for an unknown field or a wrong type. */
export function image(fields: ImageInput): ImageContent {
  return construct("image", imageShape, fields);
}

/**
 * An image by file path. The file is not read here. The MIME type follows from the extension and is `null` for an
 * unknown one.
 *
 * @example
 * ```ts
 * import { imageFromFile } from "everturn";
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

/**
 * An image from its bytes. They are kept as base64, because stored data is JSON. Throws `MisuseError` if `bytes`
 * is not a `Uint8Array`.
 */
export function imageFromBinary(bytes: Uint8Array, mimeType: string): ImageContent {
  if (!(bytes instanceof Uint8Array)) throw invalidArgument("imageFromBinary: bytes must be a Uint8Array");
  return imageFromBase64(toBase64(bytes), mimeType);
}

/**
 * An image from base64 text. The text is not checked here; {@link imageToBinary} reports invalid base64. Throws
 * `MisuseError` without a MIME type.
 */
export function imageFromBase64(data: string, mimeType: string): ImageContent {
  if (typeof mimeType !== "string") {
    throw invalidArgument('imageFromBase64: a MIME type is required, for example "image/png"');
  }
  return image({ source: { type: "base64", data }, mimeType });
}

/** An image by URL. The library never fetches it, so its MIME type is `null` unless given. */
export function imageFromUrl(url: string, mimeType: string | null = null): ImageContent {
  return image({ source: { type: "url", url }, mimeType });
}

/** Why the bytes of an image are not available without the network or a file reader. */
export type ImageProblem = {
  /**
   * `remote_source`: a URL or provider file id. `file_source`: a file path without `readFile`. `unreadable_file`:
   * `readFile` threw.
   */
  readonly reason: "invalid_base64" | "remote_source" | "file_source" | "unreadable_file" | "missing_mime_type";
  /** The error that reading the file threw; otherwise `null`. */
  readonly cause: unknown;
};

/**
 * Reads a file. The model layer performs no I/O, so the caller passes this function; on Node, `readFileSync` of
 * `node:fs`.
 */
export type ReadFile = (path: string) => Uint8Array;

/**
 * Returns the bytes of an image. For an image by file path, `readFile` reads the file. An image by URL or by
 * provider file id is a failure, because reading it needs the network.
 */
export function imageToBinary(image: ImageContent, readFile?: ReadFile): Result<Uint8Array, ImageProblem> {
  const { source } = image;
  switch (source.type) {
    case "base64": {
      const bytes = fromBase64(source.data);
      return bytes === null ? problem("invalid_base64") : ok(bytes);
    }
    case "file":
      return readBytes(source.path, readFile);
    case "url":
    case "provider_file":
      return problem("remote_source");
  }
}

/** Returns the image as a `data:` URI (RFC 2397). Base64 text is not decoded or checked. */
export function imageToDataUri(image: ImageContent, readFile?: ReadFile): Result<string, ImageProblem> {
  const { source, mimeType } = image;
  if (source.type === "url" || source.type === "provider_file") return problem("remote_source");
  if (mimeType === null) return problem("missing_mime_type");
  if (source.type === "base64") return ok(`data:${mimeType};base64,${source.data}`);
  const read = readBytes(source.path, readFile);
  return read.ok ? ok(`data:${mimeType};base64,${toBase64(read.value)}`) : read;
}

function readBytes(path: string, readFile: ReadFile | undefined): Result<Uint8Array, ImageProblem> {
  if (readFile === undefined) return problem("file_source");
  try {
    return ok(readFile(path));
  } catch (cause) {
    return problem("unreadable_file", cause);
  }
}

function problem(
  reason: ImageProblem["reason"],
  cause: unknown = null,
): { readonly ok: false; readonly failure: ImageProblem } {
  return failed({ reason, cause });
}
