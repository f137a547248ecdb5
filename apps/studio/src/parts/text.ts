// Texts of users, models and tools that are shown as a name or a title: control characters become visible and cannot
// reorder what is around them.

import type { Json } from "everturn";

import { visibleText } from "everturn";

export { visibleName } from "everturn/react";

/**
 * A name on one line, exactly: line feeds and tabs are shown as code points too. For names that a person reads before a
 * decision.
 */
export function exactName(name: string): string {
  return visibleText(name).replaceAll("\n", "⟨U+000A⟩").replaceAll("\t", "⟨U+0009⟩");
}

/**
 * A value as indented JSON in which every invisible character is escaped (`\\u202e`). It is the same value when it is
 * parsed.
 */
export function visibleJson(value: Json): string {
  return JSON.stringify(value, null, 2).replaceAll(/[^\n -~]/gu, (character) =>
    visibleText(character) === character
      ? character
      : [...Array(character.length).keys()]
          .map((unit) => `\\u${character.charCodeAt(unit).toString(16).padStart(4, "0")}`)
          .join(""),
  );
}

/** The beginning of a text, cut at a length in UTF-16 units, never inside of a surrogate pair. */
export function beginning(text: string, length: number): string {
  if (text.length <= length) return text;
  const last = text.charCodeAt(length - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? length - 1 : length);
}

/**
 * A class for text with very long words: the browser needs seconds to break them into lines with the kerning of the
 * text font, so it is switched off.
 */
export function wordClass(text: string): string {
  return /\S{200}/.test(text) ? "long-words" : "";
}
