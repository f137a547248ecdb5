import type { Message } from "everturn";

import { describe, expect, test } from "vitest";

import { effectOf, supportCase, timelineOf } from "../../test/turn-fixture.ts";
import { conversationAt } from "./state-at.ts";

const fields = { id: null, name: null, origin: null, metadata: {} };
const user = (content: string): Message => ({ ...fields, role: "user", content });
const assistant = (content: string): Message => ({
  ...fields,
  role: "assistant",
  content,
  toolCalls: [],
  finishReason: "stop",
});
const tool = (toolCallId: string): Message => ({
  ...fields,
  role: "tool",
  toolCallId,
  content: "done",
  status: "success",
  code: null,
  ranArguments: null,
});

const messages = [user("broken"), assistant("I am sorry."), tool("c1"), tool("c2"), assistant("Thank you.")];

describe("the conversation at a moment", () => {
  test.each([
    { at: 0, length: 3, partial: null },
    { at: 100, length: 3, partial: { index: 3, share: 0 } },
    { at: 400, length: 3, partial: { index: 3, share: 0.5 } },
    { at: 610, length: 4, partial: null },
    { at: 1300, length: 5, partial: null },
    { at: 1450, length: 6, partial: null },
    { at: 3776, length: 6, partial: { index: 6, share: 0.5 } },
    { at: 99_999, length: 7, partial: null },
  ])("after $at ms has $length messages", ({ at, length, partial }) => {
    const state = conversationAt(supportCase, messages, at);
    expect(state.length).toBe(length);
    if (partial === null) expect(state.partial).toBeNull();
    else {
      expect(state.partial?.index).toBe(partial.index);
      expect(state.partial?.share).toBeCloseTo(partial.share, 2);
    }
  });

  test("names the tools that run and the calls that wait", () => {
    expect(conversationAt(supportCase, messages, 1000).runningCalls).toEqual(["c1", "c2"]);
    expect(conversationAt(supportCase, messages, 1300).runningCalls).toEqual(["c2"]);
    expect(conversationAt(supportCase, messages, 9000).waitingCalls).toEqual(["c3"]);
  });

  test("says that an attempt ran whose text was discarded", () => {
    expect(conversationAt(supportCase, messages, 1800)).toMatchObject({ isDiscardedAttempt: true, partial: null });
  });

  test("shows input that arrived during the turn from its checkpoint on", () => {
    const timeline = timelineOf([
      effectOf(1, "model", 0, [0, 500]),
      effectOf(2, "checkpoint", 0, [600, 610], { text: "hurry" }),
      effectOf(3, "model", 1, [620, 900]),
    ]);
    const steered = [user("hi"), assistant("one"), user("hurry"), assistant("two")];
    expect(conversationAt(timeline, steered, 550).length).toBe(4);
    expect(conversationAt(timeline, steered, 610).length).toBe(5);
  });

  test("leaves out messages of later turns", () => {
    const later = [...messages, user("thanks"), assistant("You are welcome.")];
    expect(conversationAt(supportCase, later, 99_999).length).toBeLessThan(2 + later.length);
  });
});
