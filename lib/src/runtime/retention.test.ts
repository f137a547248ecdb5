// Journals are kept for as long as the runtime is told, and recovery never needs those of turns that have ended.

import type { HostStorage } from "./index.ts";

import { expect, test } from "vitest";

import { fake } from "../adapters/internal.ts";
import { engine } from "../engine/internal.ts";
import { memoryStorage } from "../host/memory/index.ts";
import { handClock } from "../testing/hand-clock.ts";
import { runtime } from "./index.ts";

async function journaled(storage: HostStorage): Promise<number> {
  const [rows = []] = await storage.read([{ table: "journal", prefix: [] }]);
  return rows.length;
}

function agent() {
  const scripts = [[{ type: "text", text: "one" } as const], [{ type: "text", text: "two" } as const]];
  return engine({ adapter: fake({ scripts }), model: "fake:m" });
}

test("a worker removes journals whose retention time is over, and the session continues", async () => {
  const clock = handClock();
  const host = memoryStorage();
  const sessions = runtime({ host, engines: { default: agent() }, clock, retentionMs: 3000, live: false });
  const stop = new AbortController();
  const turn = await sessions.start("go", { id: "s" });
  await turn.result;
  expect(await journaled(host)).toBe(2);
  expect((await sessions.export("s")).data.rows).toHaveLength(2);
  const working = sessions.work({ signal: stop.signal });
  await clock.advance(2000);
  expect(await journaled(host)).toBe(2);
  await clock.advance(3000);
  expect(await journaled(host)).toBe(0);
  expect(await turn.result).toMatchObject({ text: "one" });
  expect(await (await sessions.reply("s", "more")).result).toMatchObject({ text: "two" });
  stop.abort();
  await working;
});

test("for ever, where nothing is said: nothing is marked to go", async () => {
  const storage = memoryStorage();
  const sessions = runtime({ host: storage, engines: { default: agent() }, live: false });
  await (
    await sessions.start("go", { id: "s" })
  ).result;
  expect(await storage.read([{ table: "retained", prefix: [] }])).toEqual([[]]);
  expect(await journaled(storage)).toBe(2);
});
