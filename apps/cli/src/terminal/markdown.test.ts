import * as fc from "fast-check";
import { expect, test } from "vitest";

import { cellWidth } from "./cells.ts";
import { MarkdownStream, renderMarkdown } from "./markdown.ts";

const plainly = (text: string, width = 80): string => renderMarkdown(text, { width, colours: false });
const inColour = (text: string): string => renderMarkdown(text, { width: 80, colours: true });

const esc = "\u001B";
const styles = new RegExp(`${esc}\\[[0-9;]+m`, "g");

/** Text as models write it, and as they do not: markers, wide characters, accents, controls, halves of characters. */
const pieces = [
  ..."ab \n\n*_`~#->|[]()\\!1.+:".split(""),
  "word ",
  "a longer sentence with several words. ",
  "**",
  "***",
  "```",
  "```ts\n",
  "\n```\n",
  "\n- ",
  "\n  - ",
  "\n1. ",
  "\n> ",
  "\n# ",
  "\n| a | b |\n|---|:-:|\n| 1 | 2 |\n",
  "| x | yy |",
  "https://example.com/a_b_c",
  "[link](https://example.com)",
  "你好世界",
  "👨‍👩‍👧",
  "🇩🇪",
  "👍🏽",
  "❤️",
  "e\u0301",
  "\u0301",
  "\u200D",
  "한국어",
  "\uD83D",
  "\uDE00",
  "\t",
  "\r\n",
  `${esc}[31m`,
  `${esc}]0;title\u0007`,
  "\u009B2J",
  "\u202E",
  "averyveryverylongwordthatisbrokenbecauseitfitsnowhere",
];
const anyMarkdown = fc.array(fc.constantFrom(...pieces), { maxLength: 40 }).map((parts) => parts.join(""));
const anyCuts = fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 60 });

function cutUp(text: string, lengths: readonly number[]): readonly string[] {
  const parts: string[] = [];
  for (let at = 0, turn = 0; at < text.length; turn += 1) {
    const length = lengths[turn % lengths.length] ?? 1;
    parts.push(text.slice(at, at + length));
    at += length;
  }
  return parts;
}

test("the output does not depend on how the text is split into deltas", () => {
  fc.assert(
    fc.property(anyMarkdown, anyCuts, fc.integer({ min: 12, max: 90 }), fc.boolean(), (text, cuts, width, colours) => {
      const whole = renderMarkdown(text, { width, colours });
      const stream = new MarkdownStream({ width, colours });
      const inPieces = cutUp(text, cuts).map((piece) => stream.push(piece));
      expect([...inPieces, stream.end()].join("")).toBe(whole);
    }),
    { numRuns: 500 },
  );
});

test("no line is wider than the terminal", () => {
  fc.assert(
    fc.property(anyMarkdown, fc.integer({ min: 12, max: 90 }), (text, width) => {
      for (const line of plainly(text, width).split("\n")) expect(cellWidth(line)).toBeLessThanOrEqual(width);
    }),
    { numRuns: 500 },
  );
});

test("prints only its own style sequences, and closes them at the end of each line (terminal escape injection)", () => {
  fc.assert(
    fc.property(anyMarkdown, (text) => {
      const shown = inColour(text);
      const rest = shown.replaceAll(styles, "");
      expect(rest).not.toMatch(/[^\P{Cc}\n]/u);
      expect(rest).not.toMatch(/[\u202A-\u202E\u2066-\u2069]/);
      for (const line of shown.split("\n")) expect(line.match(styles)?.at(-1) ?? `${esc}[0m`).toBe(`${esc}[0m`);
    }),
    { numRuns: 500 },
  );
});

test("loses no word, whatever markers surround it", () => {
  fc.assert(
    fc.property(anyMarkdown, fc.integer({ min: 20, max: 90 }), (text, width) => {
      const letters = (from: string): string => from.replaceAll(/[^\p{Script=Han}\p{Script=Hangul}]/gu, "");
      expect(letters(plainly(text, width))).toBe(letters(text));
    }),
    { numRuns: 500 },
  );
});

test("prints the first word as it arrives", () => {
  const stream = new MarkdownStream({ width: 80, colours: false });
  expect(stream.push("Hel")).toBe("Hel");
  expect(stream.push("lo")).toBe("lo");
  expect(stream.push(" wor")).toBe(" wor");
  expect(stream.end()).toBe("\n");
});

test("holds a word near the edge back until it is complete or moves to the next line", () => {
  const stream = new MarkdownStream({ width: 20, colours: false });
  expect(stream.push("twelve chars inter")).toBe("twelve chars");
  expect(stream.push("national")).toBe("\ninternational");
  expect(stream.push(" go")).toBe("");
  expect(stream.end()).toBe(" go\n");
});

test("renders strong, emphasis, code spans and strikethrough as styles", () => {
  expect(plainly("**bold** *it* _it_ `code` ~~gone~~ ***both***")).toBe("bold it it code gone both\n");
  expect(inColour("a **b** c")).toBe(`a ${esc}[1mb${esc}[0m c\n`);
  expect(inColour("a *b* c")).toBe(`a ${esc}[3mb${esc}[0m c\n`);
  expect(inColour("`b`")).toBe(`${esc}[36mb${esc}[0m\n`);
});

test.each([
  ["2 * 3 * 4 and 2 ** 3"],
  ["snake_case_name and __"],
  ["a lone * star, a ~ tilde"],
  ["https://example.com/_private_/a_b?x=_1_"],
  ["[link](https://example.com/a_(b)_c) after"],
  ["5 > 3, a < b, #hashtag, 1.5 and 2)x"],
])("keeps characters that are not markers: %s", (text) => {
  expect(plainly(text)).toBe(`${text}\n`);
});

test("a backslash escapes a marker, and code spans are literal", () => {
  expect(plainly(String.raw`\*not\* \a`)).toBe(`${String.raw`*not* \a`}\n`);
  expect(plainly("`**x** _y_`")).toBe("**x** _y_\n");
  expect(plainly("`` a ` b ``")).toBe("a ` b\n");
});

test("a style without a closing marker ends with its line", () => {
  expect(inColour("**open\nnext")).toBe(`${esc}[1mopen${esc}[0m\nnext\n`);
});

test("renders headings, rules and empty lines", () => {
  expect(plainly("text\n# One\n\n\n\nmore\n---\n***\n")).toBe(
    `text\n\nOne\n\nmore\n${"─".repeat(40)}\n${"─".repeat(40)}\n`,
  );
});

test("renders bullets, numbers, check boxes and nested lists, and wraps items under their text", () => {
  const text = "- one two three four\n  - nested\n    more\n- [ ] open\n- [x] done\n10. ten\n\nAfter";
  expect(plainly(text, 16)).toBe(
    "• one two three\n  four\n  ◦ nested\n    more\n• ☐ open\n• ☑ done\n10. ten\n\nAfter\n",
  );
});

test("renders block quotes with a bar for each level", () => {
  expect(plainly("> one\n> > two\nthree")).toBe("▏ one\n▏ ▏ two\nthree\n");
});

test("renders code blocks indented, with their language, literal and not wrapped between words", () => {
  const text = "```ts\nconst a = **b**;\n\n  # c\n```\nafter";
  expect(plainly(text)).toBe("  ts\n  const a = **b**;\n\n    # c\nafter\n");
  expect(plainly("```\nabcdefghijklmnop qrst\n```", 12)).toBe("  abcdefghij\n  klmnop qrs\n  t\n");
});

test("a code block in a quote or a list ends with its own marker, and a longer marker may contain a shorter one", () => {
  expect(plainly("- item\n  ```\n  x\n  ```\n- next")).toBe("• item\n    x\n• next\n");
  expect(plainly("> ```\n> x\n> ```\n> y")).toBe("▏   x\n▏ y\n");
  expect(plainly("````\n```\n````\nz")).toBe("  ```\nz\n");
});

test("the first rows of a table decide the column widths, and longer cells wrap", () => {
  const text = "| City | °C |\n|---|--:|\n| Rome | 21 |\n| Llanfairpwllgwyngyll | 7 |";
  expect(plainly(text, 24).split("\n")).toEqual([
    "City        │         °C",
    "────────────┼───────────",
    "Rome        │         21",
    "Llanfairpwl │          7",
    "lgwyngyll   │",
    "",
  ]);
});

test("renders a table that is too narrow as lists, and a row without a delimiter row as text", () => {
  const text = "| Name | Home town | Favourite colour |\n|---|---|---|\n| Ada | London | green |";
  expect(plainly(text, 20)).toBe("Name: Ada\nHome town: London\nFavourite colour:\ngreen\n");
  expect(plainly("| not a table\ntext")).toBe("| not a table\ntext\n");
});

test("measures wide characters, emoji and combining marks", () => {
  expect(plainly("你好世界你好世界", 12)).toBe("你好世界你好\n世界\n");
  expect(plainly("👨‍👩‍👧👨‍👩‍👧👨‍👩‍👧👨‍👩‍👧👨‍👩‍👧👨‍👩‍👧👨‍👩‍👧", 12)).toBe(`${"👨‍👩‍👧".repeat(6)}\n👨‍👩‍👧\n`);
  expect(plainly("e\u0301e\u0301e\u0301 e\u0301", 12)).toBe("e\u0301e\u0301e\u0301 e\u0301\n");
});

test("replaces control characters with symbols", () => {
  expect(plainly(`a${esc}[2Jb\u0007c\u009Bd`)).toBe("a␛[2Jb␇c�d\n");
});

test.each(["`", "*", "_", "~", "#", "> ", "- ", "1", "| ", "[", "\\", " ", "\u0301", "👍\u200D", "```"])(
  "a flood of %j is shown like anything else, and not looked at again and again",
  (marker) => {
    const stream = new MarkdownStream({ width: 80, colours: true });
    for (let count = 0; count < 2000; count += 1) stream.push(marker.repeat(100));
    expect(stream.push("\n\nstill here") + stream.end()).toContain("still here");
  },
);
