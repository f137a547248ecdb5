// Cutting text that is too long, without cutting a character in two.

/** The first so many UTF-16 units of a text, or one less where that would split a pair. */
export function textHead(text: string, length: number): string {
  return text.slice(0, splitsPair(text, length) ? length - 1 : length);
}

/**
 * Head and tail of a text that is too long, and how much was left out between them. A limit that is not above 0 is none.
 *
 * @example
 * ```ts
 * import { truncateMiddle } from "everturn/model";
 *
 * truncateMiddle("abcdefghij", 4); // => "ab\n\n... (6 characters omitted) ...\n\nij"
 * ```
 */
export function truncateMiddle(text: string, maxLength: number, unit = "characters"): string {
  if (!(maxLength > 0) || text.length <= maxLength) return text;
  const limit = Math.floor(maxLength);
  const head = textHead(text, Math.floor(limit / 2));
  const from = text.length - (limit - Math.floor(limit / 2));
  const tail = text.slice(splitsPair(text, from) ? from + 1 : from);
  const omitted = text.length - head.length - tail.length;
  return `${head}\n\n... (${omitted} ${unit} omitted) ...\n\n${tail}`;
}

/** Would a cut here leave half of a character on either side? */
function splitsPair(text: string, index: number): boolean {
  const before = text.charCodeAt(index - 1);
  const after = text.charCodeAt(index);
  return before >= 0xd800 && before <= 0xdbff && after >= 0xdc00 && after <= 0xdfff;
}
