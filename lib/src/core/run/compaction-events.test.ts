// The events with which a reader follows a compaction: each range of messages has a beginning and an end.

import type { TurnEvent } from "everturn";

import { assistant, engine, fake, fromMessages, newSession, says, session as sessions, user } from "everturn";
import { TurnView } from "everturn/advanced";
import { expect, test } from "vitest";

type Compaction = Extract<TurnEvent, { readonly type: "compaction_started" | "compaction_ended" }>;

test("each part of a long history has a beginning and an end, one after the other", async () => {
  const agent = engine({
    adapter: fake({ scripts: Array.from({ length: 20 }, (_, part) => says(`Summary ${part}.`)) }),
    model: "fake:m",
    contextPolicy: { window: 8_000 },
  });
  // The messages have several times as many tokens as the window.
  const thread = fromMessages(
    Array.from({ length: 40 }, (_, index) => [
      user(`question ${index} ${"and so on ".repeat(200)}`),
      assistant(`answer ${index} ${"and so on ".repeat(120)}`),
    ]).flat(),
  );
  const view = new TurnView();
  const events: Compaction[] = [];
  const shown: (string | null)[] = [];
  for await (const event of sessions.streamReply(agent, newSession({ thread }), "Go on.")) {
    view.add(event);
    if (event.type !== "compaction_started" && event.type !== "compaction_ended") continue;
    events.push(event);
    shown.push(view.snapshot.compaction?.frameId ?? null);
  }
  const started = events.filter(({ type }) => type === "compaction_started");
  expect(started.length).toBeGreaterThan(2);
  expect(events.map(({ type }) => type)).toEqual(started.flatMap(() => ["compaction_started", "compaction_ended"]));
  expect(new Set(started.map(({ frameId }) => frameId)).size).toBe(started.length);
  // A part begins where the one before it has ended.
  expect(started.map(({ from }) => from)).toEqual([0, ...started.slice(0, -1).map(({ to }) => to)]);
  // A page that shows what runs now shows every part, and nothing after each.
  expect(shown).toEqual(started.flatMap(({ frameId }) => [frameId, null]));
});
