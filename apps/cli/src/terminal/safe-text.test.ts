import { describe, expect, test } from "vitest";

import { shellQuote } from "../commands/text.ts";
import { safeJson, safeLine, safeOutput, safeText } from "./safe-text.ts";

/** Texts that would control a terminal: escape sequences, C1 controls, bidirectional controls, invisible tags. */
const attacks = [
  "\u001B]0;title\u0007",
  "\u001B[2J\u001B[H",
  "\u001BP+q544e\u001B\\",
  "\u001B]52;c;bHM=\u0007",
  "\u009B31m",
  "\u009D0;title\u009C",
  "\u0085",
  "a\bb\rc",
  "\u202Egnp.exe\u202C",
  "\u2066x\u2069",
  "\u200Eleft\u200Fright\u061C",
  "\u{E0041}",
  "\u001B[8mhidden",
];
const controls = /(?![\t\n])[\p{Cc}\p{Bidi_Control}\u{E0000}-\u{E007F}]/u;

describe.each(attacks)("%j", (text) => {
  test("is harmless as text, on a line and as JSON", () => {
    expect(safeText(text)).not.toMatch(controls);
    expect(safeLine(text)).not.toMatch(controls);
    const json = safeJson({ [text]: text }, 2);
    expect(json).not.toMatch(controls);
    expect(JSON.parse(json)).toEqual({ [text]: text });
  });

  test("does not reach a terminal even if a command forgets to sanitize it, except for colours", () => {
    expect(safeOutput(text).replaceAll("\u001B[8m", "")).not.toMatch(controls);
  });
});

test("the colours of the program reach the terminal", () => {
  expect(safeOutput("\u001B[1;31mred\u001B[0m\n")).toBe("\u001B[1;31mred\u001B[0m\n");
});

test("ids in suggested commands are quoted for a shell", () => {
  expect(shellQuote("session-1.a:b")).toBe("session-1.a:b");
  expect(shellQuote("$(rm -rf ~); x")).toBe("'$(rm -rf ~); x'");
  expect(shellQuote("it's")).toBe(String.raw`'it'\''s'`);
  expect(shellQuote("a\u001B[2Jb\nc")).not.toMatch(controls);
});
