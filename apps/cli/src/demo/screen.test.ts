import { PassThrough } from "node:stream";

import { describe, expect, test } from "vitest";

import { writtenTo } from "../../test/written.ts";
import { Screen } from "./screen.ts";

function written(columns: number, colour: boolean, write: (screen: Screen) => void): string {
  const out = new PassThrough();
  write(new Screen({ out, colour, columns: () => columns, elapsed: () => 1234 }));
  return writtenTo(out);
}

describe("the screen", () => {
  test("wraps streamed text as it wraps complete text", () => {
    const whole = written(60, false, (screen) =>
      screen.line("agent", "one two three four five six seven eight nine ten"),
    );
    const pieces = written(60, false, (screen) => {
      for (const piece of ["one tw", "o three four fi", "ve six seven eight ni", "ne ten"]) screen.say("agent", piece);
      screen.close();
    });
    expect(pieces).toBe(whole);
    expect(whole).toBe(" 1.2s  agent     one two three four five six seven eight\n                 nine ten\n");
  });

  test("omits the time on a narrow terminal", () => {
    expect(written(40, false, (screen) => screen.line("agent", "hello"))).toBe("agent     hello\n");
  });

  test("fits a very narrow terminal", () => {
    const text = written(26, false, (screen) => {
      screen.line("agent", "Thank you. I am asking for the refund to be approved.");
      screen.fact("model calls", "6 charged: 5 replies stored, 1 cut off by the kill");
    });
    for (const line of text.split("\n")) expect(line.length).toBeLessThanOrEqual(26);
  });

  test("prints no escape sequence without colours, also if a model wrote one", () => {
    const hostile = "a\u001B[2Jb\u0007c\u009Bd";
    const text = written(80, false, (screen) => {
      screen.line("agent", hostile, "bad");
      screen.fact("name", hostile);
      screen.verbatim(hostile);
      screen.say("agent", hostile);
      screen.close();
    });
    expect(text.replaceAll("\n", "")).not.toMatch(/\p{Cc}/u);
  });

  test("resets colours at the end of every line", () => {
    const text = written(40, true, (screen) => screen.line("kill -9", "gone in the middle of a sentence", "bad"));
    for (const line of text.trimEnd().split("\n")) expect(line.endsWith("\u001B[0m")).toBe(true);
  });
});
