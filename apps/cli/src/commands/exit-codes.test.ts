import type { TurnEnd } from "everturn/runtime";

import { describe, expect, it } from "vitest";

import { exitCodeOf } from "./exit-codes.ts";

type Outcome = TurnEnd["outcome"];

describe("the exit code of a turn", () => {
  it.each<readonly [Outcome, number]>([
    [{ type: "assistant_message", text: "Hi." }, 0],
    [{ type: "halt_when" }, 0],
    [{ type: "incomplete" }, 1],
    [{ type: "filtered" }, 1],
    [{ type: "max_turns", maxTurns: 3 }, 1],
    [{ type: "budget", budget: "tokens" }, 1],
    [{ type: "ask_user", toolCallId: "c", question: "?" }, 3],
    [{ type: "manual_tool_calls" }, 3],
    [{ type: "approval" }, 3],
    [{ type: "outcome_unknown" }, 3],
    [{ type: "cancelled", evidence: { requestId: "r", origin: null, reason: null } }, 130],
  ])("with the outcome %j is %i", (outcome, code) => {
    expect(exitCodeOf({ status: "ended", outcome })).toBe(code);
  });

  it("is 1 for a parked turn and 3 for a waiting one, whatever its last outcome", () => {
    const outcome: Outcome = { type: "assistant_message", text: "" };
    expect(exitCodeOf({ status: "parked", outcome })).toBe(1);
    expect(exitCodeOf({ status: "waiting", outcome })).toBe(3);
  });
});
