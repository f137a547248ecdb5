import { expect, test } from "vitest";

import { cellWidth, fit } from "./cells.ts";

test.each([
  ["ASCII", "abc", 3],
  ["Han", "你好", 4],
  ["Hangul syllables and letters", "한각", 4],
  ["Yi", "ꀀ", 2],
  ["a letter with a nonspacing accent", "e\u0301", 1],
  ["Tamil, whose vowel sign takes a cell", "நி", 2],
  ["Hindi, with spacing and nonspacing marks", "हिन्दी", 5],
  ["Bengali", "বাংলা", 5],
  ["zero width space and word joiner", "a\u200Bb\u2060c", 3],
  ["an emoji of several code points", "👨‍👩‍👧", 2],
  ["a flag", "🇩🇪", 2],
  ["an emoji with a skin tone", "👍🏽", 2],
  ["a heart as an emoji and as text", "❤️❤", 3],
  ["text between style codes", "\u001B[1mab\u001B[0m", 2],
])("the width of %s", (_, text, width) => {
  expect(cellWidth(text)).toBe(width);
});

test("cuts a text between clusters, keeps its styles and adds an ellipsis", () => {
  expect(fit("abcdef", 6)).toBe("abcdef");
  expect(fit("abcdef", 4)).toBe("abc…");
  expect(fit("你好世界", 6)).toBe("你好…");
  expect(fit("a👨‍👩‍👧bc", 3)).toBe("a…");
  expect(fit("\u001B[1mabcdef\u001B[0m", 4)).toBe("\u001B[1mabc\u001B[0m…");
  expect(fit("abc", 0)).toBe("");
});
