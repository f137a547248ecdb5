// What a conversation shows between its messages after a reload: attempts that were thrown away, waits between
// attempts, and takeovers, from stored timelines.

import type { Message } from "everturn";
import type { DiscardedAttempt } from "everturn/advanced";

import { assistant, user } from "everturn";
import { adapterFailure } from "everturn/advanced";
import { expect, test } from "vitest";

import { effectOf, timelineOf, turnOf } from "../../test/turn-fixture.ts";
import { notesAt, replyIndexes, storedNotes } from "./stored-notes.ts";

const failure = adapterFailure("provider_unavailable", { message: "busy" });

function attempt(fields: Partial<DiscardedAttempt>): DiscardedAttempt {
  return {
    reason: "retry",
    epoch: 1,
    attempt: 1,
    startedAt: null,
    endedAt: null,
    failure: null,
    delayMs: null,
    text: "",
    textLength: 0,
    ...fields,
  };
}

const messages = new Map<number, Message>([
  [0, user("hi")],
  [1, assistant("One.")],
  [2, assistant("Two.")],
]);
const turn = turnOf({ base: 1, status: "ended" });

test("a retry is shown before its reply, with the text that had arrived and the wait", () => {
  const retried = effectOf(2, "model", 1, [10, 20], {
    discarded: [attempt({ failure, delayMs: 500, text: "Tw", textLength: 2 })],
  });
  const timeline = timelineOf([effectOf(1, "model", 0, [0, 5]), retried], { turn });
  expect([...storedNotes(timeline, messages, 3)]).toEqual([
    [
      2,
      [
        { type: "discarded", reason: "retry", text: "Tw", isReplaced: true, line: null },
        { type: "retry", failure, delayMs: 500, attempt: 1 },
      ],
    ],
  ]);
});

test("a takeover is shown before the first reply of the new process, with the text of the old one", () => {
  const recovered = effectOf(2, "model", 1, [3000, 3100], {
    epoch: 2,
    discarded: [attempt({ reason: "crash", text: "Half", textLength: 4 })],
  });
  const timeline = timelineOf([effectOf(1, "model", 0, [0, 5]), recovered], {
    turn,
    claims: [
      { owner: "14501", epoch: 1, since: 0, takesOver: false },
      { owner: "14514", epoch: 2, since: 2900, takesOver: true },
    ],
  });
  const [note] = storedNotes(timeline, messages, 3).get(2) ?? [];
  expect(note).toMatchObject({ type: "discarded", reason: "recovery", text: "Half", isReplaced: true });
  expect(note?.type === "discarded" ? note.line : null).toMatch(/^worker 14501 died · worker 14514 continued/);
});

test("a text that was cut says how long it was", () => {
  const retried = effectOf(1, "model", 0, [10, 20], {
    discarded: [attempt({ failure, text: "x".repeat(4000), textLength: 9000 })],
  });
  const [note] = storedNotes(timelineOf([retried], { turn }), messages, 3).get(1) ?? [];
  expect(note?.type === "discarded" ? note.text.slice(3990) : "").toBe(
    `${"x".repeat(10)}\n\n… 5,000 more characters were not stored`,
  );
});

test("attempts of a turn that failed are shown after its last message", () => {
  const failed = effectOf(2, "model", 1, [10, 20], { state: "failed", failure, discarded: [attempt({ failure })] });
  const timeline = timelineOf([effectOf(1, "model", 0, [0, 5]), failed], { turn });
  expect([...storedNotes(timeline, messages, 2).keys()]).toEqual([2]);
});

test("the reply of a restarted step is shown before the one that replaced it", () => {
  const timeline = timelineOf(
    [
      effectOf(1, "model", 0, [0, 5], { state: "superseded", text: "Wrong." }),
      effectOf(2, "restart", 0, [6, 6]),
      effectOf(3, "model", 0, [7, 9]),
    ],
    { turn },
  );
  expect(storedNotes(timeline, messages, 3).get(1)).toEqual([
    { type: "discarded", reason: "restart", text: "Wrong.", isReplaced: true, line: null },
  ]);
});

test("replies are found from both ends of a turn whose messages are not all loaded", () => {
  const loaded = new Map<number, Message>([
    [1, assistant("0")],
    [2, user("more")],
    [8, assistant("3")],
    [9, user("more")],
    [10, assistant("4")],
  ]);
  expect([...replyIndexes(loaded, 1, 11, 5)].toSorted(([a], [b]) => a - b)).toEqual([
    [0, 1],
    [3, 8],
    [4, 10],
  ]);
});

test("stored notes replace those of events, which have no other source than the page", () => {
  const live = { type: "retry", failure, delayMs: 5, attempt: 1 } as const;
  const warning = {
    type: "warning",
    warning: { reason: "unsupported", path: "seed", message: "ignored" },
  } as const;
  const stored = { type: "discarded", reason: "retry", text: "Tw", isReplaced: true, line: null } as const;
  expect(notesAt([live, warning], [stored])).toEqual([stored, warning]);
  expect(notesAt([live, warning], undefined)).toEqual([live, warning]);
  expect(notesAt(undefined, undefined)).toEqual([]);
});

test("a takeover whose process has recorded nothing yet is shown after the last message", () => {
  const timeline = timelineOf([effectOf(1, "model", 0, [0, 5])], {
    turn: turnOf({ base: 1 }),
    claims: [
      { owner: "14501", epoch: 1, since: 0, takesOver: false },
      { owner: "14514", epoch: 2, since: 2900, takesOver: true },
    ],
  });
  expect(storedNotes(timeline, messages, 3).get(3)).toMatchObject([
    { type: "recovered", line: expect.stringContaining("worker 14501 died · worker 14514 continued") },
  ]);
});
