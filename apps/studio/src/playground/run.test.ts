import type { TurnEvent } from "everturn";

import { assistant } from "everturn";
import { TurnView } from "everturn/advanced";
import { expect, test } from "vitest";

import { seenEvent } from "../data/session-events.ts";
import { beginRun, runText, withEvent } from "./run.ts";

const noAttempt = { effectId: null, attempt: null };

/** The run after these events, each with the time of its arrival. */
function runOf(...events: readonly (readonly [event: TurnEvent, at: number])[]) {
  const view = new TurnView();
  return events.reduce((run, [event, at]) => {
    const seen = seenEvent(view, { cursor: `${at}`, turnId: "t1", sequence: null, delta: null, event });
    return withEvent(run, seen, view.snapshot, at);
  }, beginRun(0));
}

const text = (delta: string): TurnEvent => ({ type: "text_delta", id: null, delta });
const begins: TurnEvent = { type: "message_started", message: assistant("") };
const reset: TurnEvent = { type: "step_reset", reason: "recovery", withdrawn: [], ...noAttempt };

function reply(content: string): TurnEvent {
  const none = { rawFinishReason: null, requestId: null, responseId: null, model: null, route: null, output: null };
  return { type: "message_completed", message: assistant(content), finishReason: "stop", ...none, metadata: {} };
}

test("text is appended, and the first text has a time", () => {
  const run = runOf([text("Hel"), 1200], [text("lo"), 1300]);
  expect([runText(run), run.firstAt]).toEqual(["Hello", 1200]);
});

test("a reply without deltas is shown, and the text of a discarded attempt is removed, without that of earlier replies", () => {
  const run = runOf([begins, 5], [reply("Let me look."), 10], [begins, 20], [text("Thank you, I am ask"), 30]);
  expect([runText(run), run.firstAt]).toEqual(["Let me look.\n\nThank you, I am ask", 10]);
  const after = runOf([reply("Let me look."), 10], [begins, 20], [text("Thank you, I am ask"), 30], [reset, 40]);
  expect(runText(after)).toBe("Let me look.");
});

test("a call is listed once, with its last state", () => {
  const call = { id: "c1", name: "find_order" };
  const started: TurnEvent = { type: "tool_execution_started", ...call, arguments: {}, ...noAttempt };
  const result = { type: "cancelled", message: "", raw: null } as const;
  const ended: TurnEvent = { type: "tool_execution_completed", ...call, result, durationMs: 40 };
  expect(runOf([started, 10]).calls).toMatchObject([{ ...call, state: "running", durationMs: null }]);
  expect(runOf([started, 10], [ended, 50]).calls).toMatchObject([{ ...call, state: "cancelled", durationMs: 40 }]);
});
