import type { RuntimeEvent } from "../data/types.ts";

import { TurnView } from "everturn/advanced";
import { describe, expect, test } from "vitest";

import { acceptedAt, effectOf, timelineOf, turnOf } from "../../test/turn-fixture.ts";
import { seenEvent } from "../data/session-events.ts";
import { noOpenEffects, liveEffects, withEvents, withTimeline } from "./live.ts";

const eventOf = (event: RuntimeEvent["event"]): RuntimeEvent => ({
  cursor: "c",
  turnId: "t2",
  sequence: null,
  delta: null,
  event,
});
const text = eventOf({ type: "text_delta", id: null, delta: "Hello" });
const started = (id: string) =>
  eventOf({ type: "tool_execution_started", id, name: "look", arguments: {}, effectId: null, attempt: null });
const completed = (id: string) =>
  eventOf({
    type: "tool_execution_completed",
    id,
    name: "look",
    result: { type: "success", value: "seen", control: null },
    durationMs: 5,
  });
const begins = eventOf({ type: "turn_started", turnId: "t2", sessionId: "s" });

/** What groups of events of one turn show. */
function liveAfter(...groups: readonly (readonly [events: readonly RuntimeEvent[], at: number])[]) {
  const view = new TurnView();
  return groups.reduce(
    (live, [events, at]) =>
      withEvents(
        live,
        events.map((event) => seenEvent(view, event)),
        at,
      ),
    noOpenEffects,
  );
}

const model = effectOf(1, "model", 0, [10, 500]);
const checkpoint = effectOf(3, "checkpoint", 0, [900, 905]);

describe("effects that are being performed", () => {
  test("a running turn calls the model before any content has arrived", () => {
    expect(liveEffects(noOpenEffects, timelineOf([model, checkpoint]))).toMatchObject([
      { kind: "model", step: 1, startedAt: acceptedAt + 905, firstAt: null },
    ]);
  });

  test("the first content has the time of its arrival", () => {
    const live = liveAfter([[text], acceptedAt + 1200]);
    expect(liveEffects(live, timelineOf([model, checkpoint]))).toMatchObject([
      { kind: "model", startedAt: acceptedAt + 905, firstAt: acceptedAt + 1200 },
    ]);
  });

  test("tools run until their row is read", () => {
    const live = liveAfter([[started("c1"), started("c2")], acceptedAt + 510]);
    expect(liveEffects(live, timelineOf([model])).map(({ id }) => id)).toEqual(["c1", "c2"]);
    const read = timelineOf([model, effectOf(2, "tool", 0, [510, 800], { name: "look", toolCallId: "c1" })]);
    expect(liveEffects(withTimeline(live, read, live), read).map(({ id }) => id)).toEqual(["c2"]);
  });

  test("after a reload, tools that ended are left out and others begin after the newest row", () => {
    const live = liveAfter([[begins, started("c1"), completed("c1"), started("c2")], acceptedAt + 9000]);
    expect(liveEffects(live, timelineOf([model]))).toMatchObject([{ id: "c2", startedAt: acceptedAt + 500 }]);
  });

  test("a reset discards the attempt, and the end of the turn everything", () => {
    const before = [[text, started("c1")], acceptedAt + 600] as const;
    const live = liveAfter(before);
    const reset = eventOf({ type: "step_reset", reason: "recovery", withdrawn: [], effectId: null, attempt: null });
    const after = liveAfter(before, [[reset], acceptedAt + 700]);
    expect(
      liveEffects(after, timelineOf([model, checkpoint])).map(({ id, discarded }) => [id, discarded?.reason]),
    ).toEqual([
      ["lost:c1", "crash"],
      ["lost:model", "crash"],
      ["model", undefined],
    ]);
    const read = timelineOf([model, checkpoint, effectOf(4, "model", 1, [910, 1500])]);
    expect(withTimeline(after, read, after).reset).toBeNull();
    const ended = timelineOf([model], { turn: turnOf({ status: "ended" }) });
    expect(liveEffects(withTimeline(live, ended, live), ended)).toEqual([]);
  });

  test("a queued turn performs nothing", () => {
    expect(liveEffects(noOpenEffects, timelineOf([], { turn: turnOf({ status: "queued" }), claims: [] }))).toEqual([]);
  });
});
