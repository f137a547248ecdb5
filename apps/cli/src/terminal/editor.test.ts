import type { Edited, Editor, Key } from "./editor.ts";

import * as fc from "fast-check";
import { expect, test } from "vitest";

import { cellWidth } from "./cells.ts";
import { editor, press, viewEditor } from "./editor.ts";

function key(name: string, more: Partial<Key> = {}): Key {
  return { name, text: "", ctrl: false, meta: false, shift: false, ...more };
}

const letter = (text: string): Key => key(text, { text });
const ctrl = (name: string): Key => key(name, { ctrl: true, text: "\u0001" });
const typing = (text: string): readonly Key[] => Array.from(text, letter);

function after(keys: readonly Key[], from: Editor = editor()): Edited {
  let edited: Edited = { type: "editing", editor: from };
  for (const one of keys) {
    if (edited.type !== "editing") throw new Error(`${edited.type} before ${one.name}`);
    edited = press(edited.editor, one);
  }
  return edited;
}

function textAfter(keys: readonly Key[], from?: Editor): string {
  const edited = after(keys, from);
  return edited.type === "editing" ? edited.editor.text : edited.type;
}

test("typing, moving and deleting work on grapheme clusters", () => {
  expect(textAfter([...typing("héllo"), key("left"), key("left"), letter("X")])).toBe("hélXlo");
  expect(textAfter([...typing("a"), letter("👨‍👩‍👧"), key("backspace")])).toBe("a");
  expect(textAfter([letter("e"), letter("\u0301"), key("backspace")])).toBe("");
  expect(textAfter([...typing("ab"), key("home"), key("delete")])).toBe("b");
});

test("cuts words and lines, and inserts them again", () => {
  expect(textAfter([...typing("one two"), ctrl("w")])).toBe("one ");
  expect(textAfter([...typing("one two"), ctrl("u")])).toBe("");
  expect(textAfter([...typing("one two"), ctrl("a"), ctrl("k"), ctrl("y"), ctrl("y")])).toBe("one twoone two");
  expect(textAfter([...typing("one two"), key("left", { ctrl: true }), letter("X")])).toBe("one Xtwo");
});

test("Enter submits; Alt-Enter, Ctrl-J and a backslash before Enter insert a line break", () => {
  expect(after([...typing("hi"), key("return")])).toMatchObject({ type: "submitted", text: "hi" });
  expect(textAfter([...typing("a"), key("return", { meta: true }), ...typing("b")])).toBe("a\nb");
  expect(textAfter([...typing("a"), key("enter"), ...typing("b")])).toBe("a\nb");
  expect(textAfter([...typing("a\\"), key("return"), ...typing("b")])).toBe("a\nb");
});

test("pasted text keeps its line breaks and does not submit", () => {
  const pasted = [key("paste-start"), letter("x"), key("return", { text: "\r" }), key("enter", { text: "\n" })];
  const more = [letter("y"), key("tab", { text: "\t" }), ctrl("c"), letter("z"), key("paste-end")];
  expect(textAfter([...pasted, ...more])).toBe("x\ny\tz");
  expect(after([...pasted, ...more, key("return")])).toMatchObject({ type: "submitted", text: "x\ny\tz" });
});

test("the arrow keys move through the history and back to the new line", () => {
  const from = editor(["first", "second"]);
  expect(textAfter([...typing("dra"), key("up")], from)).toBe("second");
  expect(textAfter([...typing("dra"), key("up"), key("up"), key("up")], from)).toBe("first");
  expect(textAfter([...typing("dra"), key("up"), key("down"), key("down")], from)).toBe("dra");
});

test("the arrow keys move between the lines of a text before they move through the history", () => {
  const from = editor(["old"], "one\ntwo");
  expect(textAfter([key("up"), letter("X")], from)).toBe("oneX\ntwo");
  expect(textAfter([key("up"), key("up")], from)).toBe("old");
});

test("Ctrl-C interrupts, and Ctrl-D ends an empty line", () => {
  expect(after([...typing("a"), ctrl("c")]).type).toBe("interrupted");
  expect(after([ctrl("d")]).type).toBe("ended");
  expect(textAfter([...typing("ab"), key("home"), ctrl("d")])).toBe("b");
});

test("lays the text out in rows that fit, with the cursor at the next character", () => {
  expect(viewEditor(editor([], "abcdef"), 2, 7)).toEqual({ rows: ["abcd", "ef"], row: 1, column: 2 });
  expect(viewEditor(editor([], "a\nb"), 2, 20)).toEqual({ rows: ["a", "b"], row: 1, column: 1 });
  expect(viewEditor({ ...editor([], "你好"), cursor: 1 }, 2, 20)).toEqual({ rows: ["你好"], row: 0, column: 2 });
});

test("sanitizes the initial text for display, and submits it unchanged", () => {
  const from = editor([], "a\u009B2J\u001Bb\u202Ec");
  expect(viewEditor(from, 2, 40).rows).toEqual(["a\uFFFD2J␛b\uFFFDc"]);
  expect(after([key("return")], from)).toMatchObject({ type: "submitted", text: "a\u009B2J\u001Bb\u202Ec" });
});

test("rows contain the whole text and are never too wide", () => {
  const anyText = fc
    .array(fc.constantFrom("a", " ", "\n", "\t", "你", "👨‍👩‍👧", "e\u0301", "word"), { maxLength: 60 })
    .map((parts) => parts.join(""));
  fc.assert(
    fc.property(anyText, fc.integer({ min: 10, max: 40 }), (text, width) => {
      const { rows, row, column } = viewEditor(editor([], text), 2, width);
      for (const one of rows) expect(cellWidth(one) + 2).toBeLessThan(width);
      expect(rows.join("")).toBe(text.replaceAll("\n", "").replaceAll("\t", "    "));
      expect(row).toBe(rows.length - 1);
      expect(column).toBe(cellWidth(rows.at(-1) ?? ""));
    }),
  );
});
