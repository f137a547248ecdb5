// Truncates text without splitting a surrogate pair. Lengths are UTF-16 code units, as in `String.length`.

/** Returns the first `length` code units of a text, or one less if the cut would split a surrogate pair. */
export function textHead(text: string, length: number): string {
  return text.slice(0, splitsPair(text, length) ? length - 1 : length);
}

/**
 * Shortens a text to `maxLength` code units plus a note: the head, the note with the number of omitted units, the tail.
 * "abcdefghij" with a limit of 4 becomes "ab", "... (6 characters omitted) ..." and "ij". A limit of 0 or less means no
 * limit.
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

/** Returns whether a cut at `index` would split a surrogate pair. */
function splitsPair(text: string, index: number): boolean {
  const before = text.charCodeAt(index - 1);
  const after = text.charCodeAt(index);
  return before >= 0xd800 && before <= 0xdbff && after >= 0xdc00 && after <= 0xdfff;
}
