import { visibleText } from "everturn";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

/** Inclusive ranges of code points, and what they are. */
const invisible: readonly (readonly [name: string, from: number, to: number])[] = [
  ["control characters before tab", 0x00, 0x08],
  ["control characters after line feed", 0x0b, 0x1f],
  ["delete and C1 control characters", 0x7f, 0x9f],
  ["the soft hyphen", 0xad, 0xad],
  ["the combining grapheme joiner", 0x34f, 0x34f],
  ["the Arabic letter mark", 0x61c, 0x61c],
  ["Hangul fillers", 0x115f, 0x1160],
  ["zero-width characters and direction marks", 0x200b, 0x200f],
  ["line and paragraph separators", 0x2028, 0x2029],
  ["bidirectional embeddings and overrides", 0x202a, 0x202e],
  ["the word joiner and invisible operators", 0x2060, 0x2064],
  ["bidirectional isolates", 0x2066, 0x2069],
  ["the blank Braille pattern", 0x2800, 0x2800],
  ["variation selectors", 0xfe00, 0xfe0f],
  ["the byte order mark", 0xfeff, 0xfeff],
  ["interlinear annotations", 0xfff9, 0xfffb],
  ["unpaired surrogates", 0xd800, 0xdfff],
  ["tags", 0xe0000, 0xe007f],
  ["supplementary variation selectors", 0xe0100, 0xe01ef],
];

describe("visibleText", () => {
  test.each(invisible)("shows the code point of %s", (_, from, to) => {
    for (let code = from; code <= to; code += 1) {
      const shown = visibleText(`a${String.fromCodePoint(code)}b`);
      expect(shown).toBe(`a⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩b`);
    }
  });

  test.each([
    ["an empty text", ""],
    ["line feeds and tabs", "one\n\ttwo\n"],
    ["letters of other scripts", "Zürich, Ελλάδα, Москва, القاهرة, 東京, हिन्दी"],
    ["right-to-left letters without controls", "שלום 123"],
    ["characters outside the basic plane", "𝒳 💶"],
    ["spaces", "a b\u00A0c\u3000d"],
    ["its own notation", "⟨U+202E⟩"],
  ])("keeps %s", (_, text) => {
    expect(visibleText(text)).toBe(text);
  });

  test("shows each of several characters, in their order", () => {
    expect(visibleText("\uFEFFpay\u202Eto\u202C\r\n")).toBe("⟨U+FEFF⟩pay⟨U+202E⟩to⟨U+202C⟩⟨U+000D⟩\n");
  });

  test("leaves nothing invisible, and a second call changes nothing", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        const shown = visibleText(text);
        expect(shown).not.toMatch(/(?![\t\n])\p{Cc}|[\p{Cs}\p{Bidi_Control}\p{Variation_Selector}\u200B\uFEFF]/u);
        expect(visibleText(shown)).toBe(shown);
      }),
    );
  });
});
