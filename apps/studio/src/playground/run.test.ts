import { expect, test } from "vitest";

import { beginRun, withEvent } from "./run.ts";

test("text is appended, and the first text has a time", () => {
  const begun = beginRun(1000);
  const first = withEvent(begun, { event: { type: "text_delta", id: null, delta: "Hel" } }, 1200);
  const second = withEvent(first, { event: { type: "text_delta", id: null, delta: "lo" } }, 1300);
  expect(second).toMatchObject({ text: "Hello", firstAt: 1200, startedAt: 1000 });
});

test("the text of a discarded attempt is removed", () => {
  const run = { ...beginRun(0), text: "Thank you, I am ask" };
  const reset = { type: "step_reset", reason: "recovery", withdrawn: [], effectId: null, attempt: null } as const;
  expect(withEvent(run, { event: reset }, 10).text).toBe("");
});

test("a call is listed once, with its last state", () => {
  const call = { id: "c1", name: "find_order" };
  const started = withEvent(
    beginRun(0),
    { event: { type: "tool_execution_started", ...call, arguments: {}, effectId: null, attempt: null } },
    10,
  );
  expect(started.calls).toEqual([{ ...call, state: "runs", durationMs: null }]);
  const ended = withEvent(
    started,
    {
      event: {
        type: "tool_execution_completed",
        ...call,
        result: { type: "cancelled", message: "", raw: null },
        durationMs: 40,
      },
    },
    50,
  );
  expect(ended.calls).toEqual([{ ...call, state: "failed", durationMs: 40 }]);
});
