import { expect, test } from "vitest";

import { appendText, emptyText, wholeText } from "./open-text.ts";

function typed(whole: string, step: number) {
  let text = emptyText;
  for (let at = 0; at < whole.length; at += step) text = appendText(text, whole.slice(at, at + step));
  return text;
}

test("a block ends at an empty line, but not inside of a code block", () => {
  const whole = "One.\n\n```ts\nlet a;\n\nlet b;\n```\n\nThree";
  const text = typed(whole, 3);
  expect(text.blocks.map((block) => block.text)).toEqual(["One.\n\n", "```ts\nlet a;\n\nlet b;\n```\n\n"]);
  expect(text.tail).toBe("Three");
  expect(wholeText(text)).toBe(whole);
});

test("text without empty lines is cut, and the pieces are not Markdown", () => {
  const whole = "x".repeat(1_000_000);
  const text = typed(whole, 5000);
  expect(text.blocks.every(({ isPlain, text: { length } }) => isPlain && length <= 4000)).toBe(true);
  expect(wholeText(text)).toBe(whole);
  expect(text.length).toBe(whole.length);
});

test("finished blocks stay the same objects while more text arrives", () => {
  const text = appendText(emptyText, "One.\n\nTwo");
  expect(appendText(text, " more").blocks).toBe(text.blocks);
});
