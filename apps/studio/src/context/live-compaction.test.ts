// A compaction while it runs: in the conversation, and in the timeline.

import type { RuntimeEvent, SessionView } from "../data/types.ts";

import { newSession, user } from "everturn";
import { TurnView } from "everturn/advanced";
import { expect, test } from "vitest";

import { acceptedAt, effectOf, timelineOf } from "../../test/turn-fixture.ts";
import { addMessages, emptyConversation, withEvents, withHead } from "../conversation/session-store.ts";
import { seenEvent } from "../data/session-events.ts";
import { noOpenEffects, liveEffects, withEvents as withLiveEvents } from "../timeline/live.ts";

const eventOf = (event: RuntimeEvent["event"]): RuntimeEvent => ({
  cursor: "c",
  turnId: "t2",
  sequence: null,
  delta: null,
  event,
});
const range = { frameId: "t2/0/frame", from: 0, to: 3 };
const started = eventOf({ type: "compaction_started", ...range });
const ended = eventOf({ type: "compaction_ended", ...range, status: "summarized" });

/** The events with what they change, as the feed hands them out. */
function seen(...events: readonly RuntimeEvent[]) {
  const view = new TurnView();
  return events.map((event) => seenEvent(view, event));
}

/** A conversation whose turn `t2` is open. */
function openConversation() {
  const { context: _, ...session } = newSession({ id: "s" });
  const openTurn = { turnId: "t2", status: "running", step: 0, engine: "default", base: 1 } as const;
  const head: SessionView = {
    session: { ...session, context: {} },
    version: 1,
    length: 1,
    engine: "default",
    owner: null,
    startedBy: [],
    forkedFrom: null,
    openTurn: { ...openTurn, failure: null, limitWait: null },
    queuedTurns: [],
  };
  return addMessages(withHead(emptyConversation("s"), head), 0, [user("hi")]);
}

test("a conversation knows which messages are being summarized, until the compaction has ended", () => {
  const running = withEvents(openConversation(), "t2", seen(started));
  expect(running.turn?.compaction).toEqual({ running: { from: 0, to: 3 }, ended: 0 });
  const after = withEvents(running, "t2", seen(ended));
  expect(after.turn?.compaction).toEqual({ running: null, ended: 1 });
  const next = withEvents(after, "t2", seen(eventOf({ type: "compaction_started", ...range, from: 3, to: 5 })));
  expect(next.turn?.compaction).toEqual({ running: { from: 3, to: 5 }, ended: 1 });
});

test("a compaction that runs is an open effect, in place of the model call that follows", () => {
  const checkpoint = effectOf(1, "checkpoint", 0, [0, 5]);
  const timeline = timelineOf([checkpoint]);
  const live = withLiveEvents(noOpenEffects, seen(started), acceptedAt + 40);
  expect(liveEffects(live, timeline)).toMatchObject([{ kind: "compaction", step: 0, startedAt: acceptedAt + 40 }]);
  const after = withLiveEvents(live, seen(ended), acceptedAt + 90);
  expect(liveEffects(after, timeline)).toMatchObject([{ kind: "model" }]);
  // A page that is opened while it runs gets the events of the turn again.
  const begins = eventOf({ type: "turn_started", turnId: "t2", sessionId: "s" });
  expect(liveEffects(withLiveEvents(noOpenEffects, seen(begins, started), acceptedAt + 500), timeline)).toMatchObject([
    { kind: "compaction", startedAt: acceptedAt + 5 },
  ]);
});
