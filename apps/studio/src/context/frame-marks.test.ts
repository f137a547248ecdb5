// The marks of summaries between the messages of a conversation.

import type { HistoryFrame } from "everturn/advanced";

import { expect, test } from "vitest";

import { frameMarks, markText, messageNumbers } from "./frame-marks.ts";

const frame = (to: number, fields: Partial<HistoryFrame> = {}): HistoryFrame => ({
  id: `t${to}/0/frame`,
  to,
  summary: "They talked.",
  pinned: [],
  undoneAt: null,
  ...fields,
});

const statesOf = (frames: readonly HistoryFrame[], length = 100): readonly (readonly [number, string[]])[] =>
  [...frameMarks(frames, length)].map(([index, marks]) => [index, marks.map(({ state }) => state)]);

test("the newest frame is used, and the frames before it are replaced", () => {
  expect(statesOf([frame(4), frame(8), frame(12)])).toEqual([
    [4, ["replaced"]],
    [8, ["replaced"]],
    [12, ["used"]],
  ]);
});

test("a frame that was undone is undone, and the newest of the others is used", () => {
  expect(statesOf([frame(4), frame(8, { undoneAt: 5 }), frame(12, { undoneAt: 6 })])).toEqual([
    [4, ["used"]],
    [8, ["undone"]],
    [12, ["undone"]],
  ]);
  expect(statesOf([frame(4, { undoneAt: 5 })])).toEqual([[4, ["undone"]]]);
});

test("a frame of messages that the session does not have yet has no mark", () => {
  expect(statesOf([frame(4), frame(8)], 6)).toEqual([[4, ["replaced"]]]);
});

test("a mark says how many messages the model does not read as they are", () => {
  const mark = { frame: frame(12, { pinned: [0, 3] }), state: "used" } as const;
  expect(markText(mark)).toBe("10 earlier messages are summarized for the model");
  expect(markText({ ...mark, frame: frame(1) })).toBe("1 earlier message is summarized for the model");
  expect(markText({ ...mark, frame: frame(12, { summary: null }) })).toBe(
    "12 earlier messages are left out for the model",
  );
  expect(markText({ ...mark, state: "undone" })).toBe("The summary of 10 earlier messages was undone");
  expect(markText({ ...mark, state: "replaced" })).toContain("and again later");
});

test("positions are shown as ranges of message numbers", () => {
  expect(messageNumbers([])).toBe("");
  expect(messageNumbers([4, 0, 1, 2])).toBe("1 to 3, 5");
});
