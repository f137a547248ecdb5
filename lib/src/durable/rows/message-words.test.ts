import { describe, expect, test } from "vitest";

import { foldedWords, largeTextsOf, wordsOfEntry } from "./message-words.ts";

const none = () => undefined;
const entry = (content: unknown) => JSON.stringify({ version: 4, data: { role: "user", content } });

describe("words", () => {
  test("have neither case nor diacritics, and occur once", () => {
    expect(foldedWords("Ça va, CA VA? Ωmega-3 user@example.com")).toEqual([
      "ca",
      "va",
      "ωmega",
      "3",
      "user",
      "example",
      "com",
    ]);
    expect(foldedWords("\u0301 … \ud800")).toEqual([]);
  });

  test("are cut off at 64 characters, and not inside of a surrogate pair", () => {
    expect(foldedWords("x".repeat(100))).toEqual(["x".repeat(64)]);
    expect(foldedWords(`x${"𐐨".repeat(40)}`)).toEqual([`x${"𐐨".repeat(31)}`]);
  });
});

describe("the words of a stored message", () => {
  test("are those of its content, or of the texts of its parts", () => {
    expect(wordsOfEntry(entry("two words"), none)).toEqual(["two", "words"]);
    const parts = [
      { type: "text", text: "one" },
      { type: "image", data: "base64" },
      { type: "text", text: "two" },
    ];
    expect(wordsOfEntry(entry(parts), none)).toEqual(["one", "two"]);
    expect(wordsOfEntry(entry(`first ${"x ".repeat(10_000)} last`), none)).toEqual(["first", "x"]);
  });

  test("include those of large texts, and are unknown while one is missing", () => {
    const data = { version: 4, data: { content: [{ type: "text", text: "" }] } };
    const references = [{ path: ["data", "content", 0, "text"], digest: "d1" }];
    const value = `large:${JSON.stringify({ data, references })}`;
    expect(largeTextsOf(value)).toEqual(["d1"]);
    expect(wordsOfEntry(value, (digest) => (digest === "d1" ? "large text" : undefined))).toEqual(["large", "text"]);
    expect(wordsOfEntry(value, none)).toBeNull();
  });

  test("are none if the value cannot be read", () => {
    for (const value of ["", "{", "null", "7", '{"data":7}', entry(null), entry([null, 7]), "large:{", "large:null"]) {
      expect(wordsOfEntry(value, none)).toEqual([]);
      expect(largeTextsOf(value)).toEqual([]);
    }
  });
});
