// Escaping of strings for SQL databases. Every JavaScript string is read back exactly as it was written, and escaped
// strings sort like the originals, by code point, so they can be parts of keys. Two kinds of characters need an escape:
//
//   - U+0000, because libsql ends a string there and Postgres refuses it: it becomes U+0001 U+0001, and U+0001 becomes
//     U+0001 U+0002.
//   - Lone surrogates, because UTF-8 cannot encode them: they become U+D7FF and a character that names the surrogate.
//     U+D7FF itself is escaped likewise; it is adjacent to the surrogates, which keeps the order, and is unassigned.
//
// JSON text contains none of these unescaped, so stored values are hardly ever changed. The common case costs three
// searches.

const escape = "\u0001";
/** Quick test: may the text contain a lone surrogate or U+D7FF? */
const suspects = /[\ud7ff-\udfff]/;
const halves = /\ud7ff|\p{Surrogate}/gu;
const escapedHalves = /\ud7ff([\u0100-\u0900])/g;
const firstHalf = 0xd7ff;
/** The code of the character that stands for U+D7FF; those for the surrogates follow. */
const firstMark = 0x100;

/** Escapes a string for a text column. */
export function escapeText(text: string): string {
  let escaped = text;
  if (escaped.includes(escape)) escaped = escaped.replaceAll(escape, `${escape}\u0002`);
  if (escaped.includes("\0")) escaped = escaped.replaceAll("\0", `${escape}${escape}`);
  return suspects.test(escaped)
    ? escaped.replace(halves, (half) => `\ud7ff${String.fromCharCode(half.charCodeAt(0) - firstHalf + firstMark)}`)
    : escaped;
}

/** Reverses `escapeText`. */
export function unescapeText(escaped: string): string {
  let text = escaped;
  if (text.includes(escape)) text = text.replaceAll(`${escape}${escape}`, "\0").replaceAll(`${escape}\u0002`, escape);
  return text.includes("\ud7ff")
    ? text.replace(escapedHalves, (_, mark: string) => String.fromCharCode(mark.charCodeAt(0) - firstMark + firstHalf))
    : text;
}
