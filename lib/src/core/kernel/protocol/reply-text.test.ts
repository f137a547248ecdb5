import { textPart } from "everturn";
import { modelReply, usage } from "everturn/advanced";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { reasoningPart, truncateMiddle } from "../../model/internal.ts";
import { retryDelayMs } from "../retry-delay.ts";
import { isContextOverflow, joinParagraph, withoutCommentary } from "./reply-text.ts";

describe("[lash 19] a prompt that fills the context window", () => {
  test.each([
    [94, 0, 100, false],
    [95, 0, 100, true],
    [95, 1, 100, false],
    [1000, 0, null, false],
    [95, 0, 0, false],
    [9, 0, 10, true],
    [10, 0, 11, true],
  ])("%i tokens in, %i out, a window of %s: %s", (inputTokens, outputTokens, window, overflow) => {
    const reply = modelReply({ finishReason: "length", usage: usage({ inputTokens, outputTokens }) });
    expect(isContextOverflow(reply, window)).toBe(overflow);
    expect(isContextOverflow({ ...reply, finishReason: "stop" }, window)).toBe(false);
  });

  test("is not detected without token counts for input and output", () => {
    const reply = modelReply({ finishReason: "length", usage: usage({ inputTokens: 100 }) });
    expect(isContextOverflow(reply, 100)).toBe(false);
    const unknown = modelReply({ finishReason: "length", usage: usage({ outputTokens: 0 }) });
    expect(isContextOverflow(unknown, 1)).toBe(false);
  });
});

describe("[lash 36] reply text", () => {
  test("commentary is dropped if there is a final answer, and kept otherwise", () => {
    const onTheWay = textPart("Looking.", { phase: "commentary" });
    const answer = textPart("Sunny.", { phase: "final_answer" });
    const thought = reasoningPart("hm");
    expect(withoutCommentary([onTheWay, thought, answer])).toEqual([thought, answer]);
    expect(withoutCommentary([onTheWay, thought])).toEqual([onTheWay, thought]);
    expect(withoutCommentary([onTheWay, textPart("", { phase: "final_answer" })])).toHaveLength(2);
  });

  test("texts are joined as paragraphs", () => {
    expect(joinParagraph("a", "b")).toBe("a\n\nb");
    expect(joinParagraph("a\n", "b")).toBe("a\n\nb");
    expect(joinParagraph("a\n", "\nb")).toBe("a\n\nb");
    expect(joinParagraph("a\n\n\n", "b")).toBe("a\n\n\nb");
    expect(joinParagraph("", "b")).toBe("b");
    expect(["a", "b", "c"].reduce((left, right) => joinParagraph(left, right))).toBe("a\n\nb\n\nc");
    const breaks = "\n".repeat(1_000_000);
    expect(joinParagraph(`${breaks}x`, `y${breaks}`)).toHaveLength(2_000_004);
  });
});

describe("[lash 57] the delay before a tool is retried", () => {
  const times = { maxAttempts: 5, baseDelayMs: 100, maxDelayMs: 1000 };

  test("doubles up to maxDelayMs; a delay that the tool asked for is capped too; 0 is no limit", () => {
    expect([0, 1, 2, 3, 4].map((retry) => retryDelayMs(times, retry))).toEqual([100, 200, 400, 800, 1000]);
    expect(retryDelayMs(times, 0, 5000)).toBe(1000);
    expect(retryDelayMs({ ...times, maxDelayMs: 0 }, 3)).toBe(800);
  });

  test("is an integer that a timer accepts, for any input", () => {
    for (const after of [-5, Number.NaN, Infinity, 0.6]) {
      const wait = retryDelayMs({ ...times, maxDelayMs: 0 }, 0, after);
      expect(Number.isSafeInteger(wait) && wait >= 0 && wait < 2 ** 31).toBe(true);
    }
    expect(retryDelayMs({ ...times, baseDelayMs: 0, maxDelayMs: 0 }, 2000)).toBe(0);
  });

  test("is a number for any retry index", () => {
    fc.assert(
      fc.property(fc.nat(5000), (retry) => {
        const wait = retryDelayMs({ ...times, maxDelayMs: 0 }, retry);
        expect(Number.isSafeInteger(wait) && wait >= 0).toBe(true);
      }),
    );
  });
});

test("truncateMiddle keeps the start and the end of a text and says how much is missing", () => {
  expect(truncateMiddle("abcdefghij", 4)).toBe("ab\n\n... (6 characters omitted) ...\n\nij");
  expect(truncateMiddle("abcde", 5)).toBe("abcde");
  expect(truncateMiddle("abcde", 3)).toBe("a\n\n... (2 characters omitted) ...\n\nde");
  for (const none of [0, -4, Number.NaN]) expect(truncateMiddle("abcde", none)).toBe("abcde");
  const cut = truncateMiddle("😀".repeat(5), 5);
  expect(cut).toBe("😀\n\n... (6 characters omitted) ...\n\n😀");
});
