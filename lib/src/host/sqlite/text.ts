// Texts as they are kept in SQLite. Every text of JavaScript comes out as it went in, and they sort as before, which takes two escapes:
//
//   - U+0000, because libsql reads no further than that: it becomes U+0001 U+0001, and U+0001 becomes U+0001 U+0002.
//   - Halves of surrogate pairs, because UTF-8 has none: they become U+D7FF and a character that says which, and so does U+D7FF, which is next to
//     them and is no character of any script.
//
// JSON has none of these outside of its own escapes, so hardly any text is changed.

const escape = "\u0001";
const suspects = /[\ud7ff-\udfff]/;
const halves = /\ud7ff|\p{Surrogate}/gu;
const escapedHalves = /\ud7ff([\u0100-\u0900])/g;
const firstHalf = 0xd7ff;
const firstMark = 0x100;

export function toKept(text: string): string {
  let kept = text;
  if (kept.includes(escape)) kept = kept.replaceAll(escape, `${escape}\u0002`);
  if (kept.includes("\0")) kept = kept.replaceAll("\0", `${escape}${escape}`);
  return suspects.test(kept)
    ? kept.replace(halves, (half) => `\ud7ff${String.fromCharCode(half.charCodeAt(0) - firstHalf + firstMark)}`)
    : kept;
}

export function fromKept(kept: string): string {
  let text = kept;
  if (text.includes(escape)) text = text.replaceAll(`${escape}${escape}`, "\0").replaceAll(`${escape}\u0002`, escape);
  return text.includes("\ud7ff")
    ? text.replace(escapedHalves, (_, mark: string) => String.fromCharCode(mark.charCodeAt(0) - firstMark + firstHalf))
    : text;
}
