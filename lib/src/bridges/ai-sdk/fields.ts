// Reads values of the AI SDK. They come from a package that the compiler does not check here, so every field is read as
// `unknown`, and a field of another type than expected counts as absent.

import type { Json, JsonObject, UserPart } from "../../core/model/internal.ts";

import {
  filePart,
  imagePart,
  isJsonArray,
  isStorableJson,
  parseJson,
  textPart,
  toBase64,
} from "../../core/model/internal.ts";

/** The value under a key of an object of any class; `undefined` if there is none. */
export function fieldOf(value: unknown, key: string): unknown {
  return (typeof value === "object" && value !== null) || typeof value === "function"
    ? Reflect.get(value, key)
    : undefined;
}

/** The text under a key; `null` if there is none. */
export function textField(value: unknown, key: string): string | null {
  const text = fieldOf(value, key);
  return typeof text === "string" ? text : null;
}

/** The count under a key; `null` if there is none, or if it is no whole number of 0 or more. */
export function countOf(value: unknown, key: string): number | null {
  const count = fieldOf(value, key);
  return typeof count === "number" && Number.isSafeInteger(count) && count >= 0 ? count : null;
}

/** The list under a key; empty if there is none. */
export function listOf(value: unknown, key: string): readonly unknown[] {
  const list: unknown = fieldOf(value, key);
  return Array.isArray(list) ? list : [];
}

/** A copy of a value as JSON: without fields that are `undefined`. `null`: the value cannot be stored as JSON. */
export function jsonOf(value: unknown): Json {
  const json = parseJson(stringified(value) ?? "null");
  return json !== null && isStorableJson(json.value) ? json.value : null;
}

function stringified(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    return undefined;
  }
}

/** A copy of an object as JSON; `null` if the value is no object, has no fields, or cannot be stored. */
export function objectOf(value: unknown): JsonObject | null {
  const json = jsonOf(value);
  return typeof json === "object" && json !== null && !isJsonArray(json) && Object.keys(json).length > 0 ? json : null;
}

/** The source of data: base64, bytes, or the tagged form of specification v4. */
export function sourceOf(data: unknown) {
  if (typeof data === "string") return { type: "base64" as const, data };
  if (data instanceof Uint8Array) return { type: "base64" as const, data: toBase64(data) };
  if (data instanceof URL) return { type: "url" as const, url: data.href };
  const url = fieldOf(data, "url");
  if (url instanceof URL || typeof url === "string") return { type: "url" as const, url: String(url) };
  const bytes = fieldOf(data, "data");
  if (typeof bytes === "string") return { type: "base64" as const, data: bytes };
  return bytes instanceof Uint8Array ? { type: "base64" as const, data: toBase64(bytes) } : null;
}

/** A part of a prompt or of a result: text, an image or a file; `null` if it has no text and no data. */
export function contentPart(part: unknown): UserPart | null {
  const text = textField(part, "text");
  if (text !== null) return textPart(text);
  const source = sourceOf(fieldOf(part, "data") ?? { url: fieldOf(part, "url") });
  if (source === null) return null;
  const isImage = textField(part, "type")?.startsWith("image") === true;
  const mediaType = textField(part, "mediaType") ?? (isImage ? "image/*" : "application/octet-stream");
  const mimeType = mediaType.includes("/") && !mediaType.endsWith("*") ? mediaType : null;
  if (isImage || mediaType.startsWith("image")) return imagePart({ source, mimeType });
  return filePart(source, { mimeType, name: textField(part, "filename") });
}
