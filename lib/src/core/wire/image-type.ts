// Detects the type of an image from its data, for images without a MIME type.

/** Media types by the first base64 characters of the data. */
const imageTypesByPrefix: readonly (readonly [string, string])[] = [
  ["iVBORw0KGgo", "image/png"],
  ["/9j/", "image/jpeg"],
  ["R0lGOD", "image/gif"],
  ["UklGR", "image/webp"],
];

/** The media type of base64 data: PNG, JPEG, GIF or WebP; `null`: another one. */
export function detectImageType(data: string): string | null {
  return imageTypesByPrefix.find(([prefix]) => data.startsWith(prefix))?.[1] ?? null;
}
