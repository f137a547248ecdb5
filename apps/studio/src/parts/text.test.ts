import { expect, test } from "vitest";

import { exactName, visibleJson } from "./text.ts";

test("a name that is shown exactly has no invisible character and no line break", () => {
  expect(exactName("pay\u202Eto\n\tall")).toBe("pay⟨U+202E⟩to⟨U+000A⟩⟨U+0009⟩all");
});

test("JSON that is shown escapes invisible characters and has the same value", () => {
  const value = { "d\u00ADaily": ["\u202E", "\u{E0041}", "\uD800", "ü €", "\u2028\u007F"], note: "a\nb" };
  const text = visibleJson(value);
  expect(text).toContain(String.raw`"d\u00adaily"`);
  expect(text).toContain(String.raw`"\u202e"`);
  expect(text).toContain(String.raw`"\udb40\udc41"`);
  expect(text).toContain(String.raw`"\u2028\u007f"`);
  expect(text).toContain('"ü €"');
  expect(JSON.parse(text)).toEqual(value);
});
