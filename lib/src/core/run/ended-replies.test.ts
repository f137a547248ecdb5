// Many replies that end at the same time do not occupy the event loop until all of them are settled.

import type { Adapter } from "everturn";

import { chat, engine, assistant } from "everturn";
import { expect, test } from "vitest";

import { microtasksDone } from "../clock/clock.ts";

/** An adapter whose replies all end when `end` is called. */
function endingTogether(): { readonly adapter: Adapter; readonly end: () => void; readonly open: () => number } {
  let end = (): void => undefined;
  let open = 0;
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  const adapter: Adapter = {
    provider: "together",
    stream: async function* () {
      yield [{ type: "message_started", message: assistant("") }];
      open += 1;
      await ended;
      const ending = { finishReason: "stop", rawFinishReason: null, requestId: null, responseId: null } as const;
      const message = assistant("done");
      yield [{ type: "message_completed", message, model: null, route: null, output: null, metadata: {}, ...ending }];
    },
  };
  return { adapter, end: () => end(), open: () => open };
}

test("replies that end together are settled in several ticks of the event loop", async () => {
  const { adapter, end, open } = endingTogether();
  const agent = engine({ adapter, model: "m" });
  let settled = 0;
  const runs = Array.from({ length: 60 }, async () => {
    const { haltedReason } = await chat(agent, "Hello.");
    settled += 1;
    return haltedReason;
  });
  while (open() < runs.length) await microtasksDone();
  end();
  const perTick: number[] = [];
  while (settled < runs.length) {
    const before = settled;
    await microtasksDone();
    perTick.push(settled - before);
  }
  // Those of the tick in which they ended, and those of the tick that follows.
  expect(Math.max(...perTick)).toBeLessThanOrEqual(16);
  expect(new Set(await Promise.all(runs))).toEqual(new Set(["completed"]));
});
