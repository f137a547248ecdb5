// Makes the characters of a text visible that a reader cannot see, or that reorder the characters around them
// (bidirectional overrides, "Trojan Source"), for text of a model or a tool that a person reads before a decision.
//
// `Default_Ignorable_Code_Point` of Unicode is the list of characters that are rendered as nothing: zero-width
// characters, bidirectional controls, soft hyphen, byte order mark, tags, variation selectors, Hangul fillers. Control
// characters, line and paragraph separators, interlinear annotations, the blank Braille pattern and unpaired surrogates
// are not in it. Characters that look like others (homoglyphs) are not changed.

/**
 * Replaces each invisible character of a text by its code point: `⟨U+202E⟩`. These are control characters,
 * bidirectional controls, zero-width characters, soft hyphens, line and paragraph separators, tags, variation selectors
 * and unpaired surrogates. Line feeds, tabs and all other characters are kept. The result is for display: a text that
 * contains `⟨U+202E⟩` itself is not changed, so the original text cannot be read back from the result.
 *
 * @example
 * ```ts
 * import { visibleText } from "everturn";
 *
 * visibleText("pay\u202Efdp.exe"); // => "pay⟨U+202E⟩fdp.exe"
 * ```
 */
export function visibleText(text: string): string {
  return text.replaceAll(invisible, (character) => `⟨U+${codePoint(character)}⟩`);
}

const invisible = /(?![\t\n])\p{Cc}|[\p{Default_Ignorable_Code_Point}\p{Zl}\p{Zp}\p{Cs}\u2800\uFFF9-\uFFFB]/gu;

function codePoint(character: string): string {
  return (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
}
