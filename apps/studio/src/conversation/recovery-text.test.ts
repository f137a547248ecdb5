import type { TimelineEffect } from "everturn/advanced";
import type { TurnTimeline } from "everturn/client";

import { usage } from "everturn/advanced";
import { expect, test } from "vitest";

import { effectAt, placeOf } from "../selection.ts";
import { recoveriesOf } from "./recovery-text.ts";

function effect(ordinal: number, fields: Partial<TimelineEffect>): TimelineEffect {
  return {
    ordinal,
    effectId: `t/${ordinal}`,
    kind: "model",
    step: 0,
    name: null,
    toolCallId: null,
    state: "ok",
    startedAt: 1000 * ordinal,
    firstAt: null,
    endedAt: 1000 * ordinal + 500,
    owner: "14501",
    epoch: 1,
    attempt: 1,
    usage: null,
    text: "",
    failure: null,
    discarded: [],
    frame: null,
    children: [],
    ...fields,
  };
}

const effects = [
  effect(0, {}),
  effect(1, { kind: "tool", toolCallId: "call-1" }),
  effect(2, { kind: "tool", toolCallId: "call-2" }),
  effect(3, { epoch: 2, owner: "14514" }),
];

const timeline: TurnTimeline = {
  turn: {
    turnId: "t",
    verb: "chat",
    engine: "default",
    acceptedAt: 0,
    base: 1,
    status: "ended",
    step: 1,
    end: {
      haltedReason: "completed",
      outcome: { type: "assistant_message", text: "" },
      steps: 2,
      usage: usage(),
    },
    failure: null,
    limitWait: null,
    discarded: 1,
  },
  now: 9000,
  claims: [
    { owner: "14501", epoch: 1, since: 0, takesOver: false },
    { owner: "14514", epoch: 2, since: 2900, takesOver: true },
  ],
  effects,
  open: [],
  next: null,
  isJournalRemoved: false,
};

test("a takeover says who died, who continued, and that nothing recorded was repeated", () => {
  expect(recoveriesOf(timeline)).toEqual([
    {
      text: "worker 14501 died · worker 14514 continued after 400 ms · 3 recorded effects replayed, 0 repeated",
      epoch: 2,
      ordinal: 3,
    },
  ]);
});

test("a turn of one process has no takeover", () => {
  expect(recoveriesOf({ ...timeline, claims: timeline.claims.slice(0, 1) })).toEqual([]);
});

test("replies and calls select their effects, and effects their places", () => {
  expect(effectAt(effects, { type: "reply", reply: 1 })?.ordinal).toBe(3);
  expect(effectAt(effects, { type: "call", toolCallId: "call-2" })?.ordinal).toBe(2);
  expect(placeOf(effects, 3)).toEqual({ type: "reply", reply: 1 });
  expect(placeOf(effects, 1)).toEqual({ type: "call", toolCallId: "call-1" });
  expect(placeOf(effects, 9)).toBeNull();
});
