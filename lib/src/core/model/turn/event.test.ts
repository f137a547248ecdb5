import { parse } from "everturn";
import { isEvent } from "everturn/advanced";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { arbitraries } from "../../../../test/arbitraries.ts";
import { eventTypes } from "./event.ts";

describe("[allm 18] the event union", () => {
  test("has the sixteen events of the source system and twelve others, each once", () => {
    const theirs =
      "message_started text_delta text_completed tool_call_started tool_call_delta tool_call_completed message_completed " +
      "raw_chunk error tool_execution_started tool_execution_completed tool_result_encoded ask_user_requested tool_halt " +
      "step_completed chat_completed";
    const ours =
      "reasoning_delta reasoning_completed usage tool_progress approval_requested retry_scheduled step_reset " +
      "input_accepted turn_started warning compaction_started compaction_ended";
    expect([...eventTypes].sort()).toEqual([...theirs.split(" "), ...ours.split(" ")].sort());
  });

  test("isEvent accepts every generated event, and every type is generated", () => {
    const seen = new Set<string>();
    fc.assert(
      fc.property(arbitraries.event, (event) => {
        seen.add(event.type);
        expect(isEvent(event)).toBe(true);
      }),
      { numRuns: 1000 },
    );
    expect([...seen].sort()).toEqual([...eventTypes].sort());
  });

  test("isEvent rejects a wrong payload and an unknown type", () => {
    expect(isEvent({ type: "text_delta", delta: 5 })).toBe(false);
    expect(isEvent({ type: "text_delta" })).toBe(false);
    expect(isEvent({ type: "telepathy" })).toBe(false);
    expect(isEvent("text_delta")).toBe(false);
    expect(isEvent(null)).toBe(false);
  });

  test("parse fills in the defaults of an event", () => {
    expect(parse("event", { type: "text_delta", delta: "hi" })).toEqual({
      ok: true,
      value: { type: "text_delta", id: null, delta: "hi" },
    });
  });
});
