// The table of outcome, halted reason and session status. One test for every row.

import type { SessionStatus, TurnOutcome } from "everturn";
import type { HaltedReason } from "everturn/advanced";

import { AdapterError, ToolError } from "everturn";
import { expect, test } from "vitest";

import { haltedReasonOf, knownHaltedReasons, sessionStatusOf } from "./outcome.ts";

const failure = new AdapterError("unknown").failure;
const toolFailure = new ToolError("timeout").failure;
const evidence = { requestId: "r1", origin: null, reason: null };

type Row = { readonly outcome: TurnOutcome; readonly reason: HaltedReason; readonly status: SessionStatus };

// Typed by the union itself: an outcome without a row does not compile.
const table: { readonly [Type in TurnOutcome["type"]]: Row } = {
  assistant_message: {
    outcome: { type: "assistant_message", text: "hi" },
    reason: "completed",
    status: "completed",
  },
  final_value: { outcome: { type: "final_value", value: 1 }, reason: "completed", status: "completed" },
  tool_value: {
    outcome: { type: "tool_value", toolName: "finish", value: 1 },
    reason: "completed",
    status: "completed",
  },
  empty: { outcome: { type: "empty" }, reason: "completed", status: "completed" },
  incomplete: { outcome: { type: "incomplete" }, reason: "completed", status: "completed" },
  filtered: { outcome: { type: "filtered" }, reason: "completed", status: "completed" },
  other: { outcome: { type: "other" }, reason: "completed", status: "completed" },
  handoff: {
    outcome: { type: "handoff", target: "billing", task: null, initialMessages: [] },
    reason: "handoff",
    status: "completed",
  },
  ask_user: {
    outcome: { type: "ask_user", toolCallId: "c1", question: "Sure?" },
    reason: "ask_user",
    status: "awaiting_user",
  },
  manual_tool_calls: {
    outcome: { type: "manual_tool_calls" },
    reason: "manual_tool_calls",
    status: "awaiting_tools",
  },
  approval: { outcome: { type: "approval" }, reason: "approval", status: "awaiting_tools" },
  outcome_unknown: { outcome: { type: "outcome_unknown" }, reason: "outcome_unknown", status: "awaiting_tools" },
  halted: {
    outcome: { type: "halted", reason: "enough", toolCallId: "c1", value: null },
    reason: "enough",
    status: "completed",
  },
  max_turns: { outcome: { type: "max_turns", maxTurns: 8 }, reason: "max_turns", status: "completed" },
  halt_when: { outcome: { type: "halt_when" }, reason: "halt_when", status: "completed" },
  budget: { outcome: { type: "budget", budget: "cost" }, reason: "budget", status: "completed" },
  stop_after: { outcome: { type: "stop_after" }, reason: "stop_after", status: "idle" },
  cancelled: { outcome: { type: "cancelled", evidence }, reason: "cancelled", status: "idle" },
  tool_error: {
    outcome: { type: "tool_error", toolName: "weather", toolCallId: "c1", failure: toolFailure },
    reason: "tool_error",
    status: "error",
  },
  submitted_error: { outcome: { type: "submitted_error", value: 1 }, reason: "tool_error", status: "error" },
  provider_error: { outcome: { type: "provider_error", failure }, reason: "error", status: "error" },
  runtime_error: { outcome: { type: "runtime_error", failure }, reason: "error", status: "error" },
};

test.each(Object.entries(table))("%s", (_, { outcome, reason, status }) => {
  expect(haltedReasonOf(outcome)).toBe(reason);
  expect(sessionStatusOf(outcome)).toBe(status);
});

test("stop_after completes the session if the step would have ended the run anyway", () => {
  expect(sessionStatusOf({ type: "stop_after" }, { lastStepDone: true })).toBe("completed");
});

test("a session with undecided calls is awaiting_tools after an outcome that would complete it", () => {
  for (const [type, { outcome, status }] of Object.entries(table)) {
    const rests = status === "completed" || status === "idle";
    expect([type, sessionStatusOf(outcome, { callsWait: true })]).toEqual([type, rests ? "awaiting_tools" : status]);
  }
});

test("every known halted reason belongs to an outcome", () => {
  const produced = new Set(Object.values(table).map((row) => row.reason));
  produced.delete("enough");
  expect([...produced].sort()).toEqual([...knownHaltedReasons].sort());
});
