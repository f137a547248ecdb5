// The timing that is stored with journal rows: when an effect began and ended, when the first text arrived, and which
// process performed it.

import { fake } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { handClock } from "everturn/testing";
import { expect, test } from "vitest";

import { engine } from "../../core/engine/internal.ts";
import { readValue } from "../rows/stored.ts";

test("a journal row has the times of its effect and the process that performed it", async () => {
  const clock = handClock();
  const storage = memoryStorage({ clock });
  const script = [
    { type: "delay", ms: 200 },
    { type: "text", text: "Hello" },
    { type: "delay", ms: 300 },
  ] as const;
  const engines = { default: engine({ adapter: fake({ script, clock }), model: "fake:m" }) };
  const sessions = runtime({ host: storage, engines, clock, owner: "worker one" });
  const acceptedAt = clock.now();
  const turn = await sessions.start("hi", { id: "s1" });
  await clock.advance(200);
  await clock.advance(300);
  await turn.result;
  const [rows = []] = await storage.read([{ table: "journal", prefix: ["", "s1"] }]);
  const timings = rows.map((row) => readValue("journal", row).timing);
  expect(timings[0]).toEqual({
    startedAt: acceptedAt,
    firstAt: acceptedAt + 200,
    endedAt: acceptedAt + 500,
    owner: "worker one",
    heldSince: acceptedAt,
    takesOver: false,
  });
});
