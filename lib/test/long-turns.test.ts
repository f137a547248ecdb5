// The memory of a turn is linear in its steps: twice the steps retain about twice the heap. A copy of the message list
// for each step (quadratic) would retain about three times as much at these numbers of steps.

import type { ChatResult } from "everturn";

import { chat } from "everturn";
import { runtime } from "everturn/runtime";
import { expect, test } from "vitest";

import { heapInUse, interruptedTurn, loopingEngine, settledHeap } from "./looping-engine.ts";

const [few, many] = [500, 1000];
const linear = 2.3;

/** The result of a run with this number of steps, and the bytes of heap it retains. */
async function heapOfRun(steps: number): Promise<{ readonly heap: number; readonly result: ChatResult }> {
  const before = await settledHeap();
  const result = await chat(loopingEngine(steps), "go");
  return { heap: (await settledHeap()) - before, result };
}

test("H5: the result of a run in memory retains heap linear in its steps", async () => {
  // The first run compiles and caches what later runs use.
  await heapOfRun(10);
  const [short, long] = [await heapOfRun(few), await heapOfRun(many)];
  expect(long.heap / short.heap).toBeLessThan(linear);

  const { steps, thread } = long.result;
  expect(steps).toHaveLength(many);
  expect(thread.messages).toHaveLength(2 * many);
  const held = heapInUse();
  const lengths = steps.map((step) => step.thread.messages.length);
  expect(lengths).toEqual(steps.map((_, index) => Math.min(2 * index + 3, 2 * many)));
  expect(heapInUse() - held).toBeLessThan(long.heap / 4);
  expect(steps[0]?.toolResults).toEqual([thread.messages[2]]);
  expect(JSON.parse(JSON.stringify(steps[1]?.thread))).toEqual({ messages: thread.messages.slice(0, 5), metadata: {} });
});

/** The bytes of heap that a recovered turn retains after it has replayed this number of steps. */
async function heapOfReplay(steps: number): Promise<number> {
  const storage = await interruptedTurn(steps);
  const before = await settledHeap();
  let heap = 0;
  const engine = loopingEngine(steps + 2, async (n) => {
    if (n === steps + 1) heap = (await settledHeap()) - before;
  });
  const sessions = runtime({ host: storage, engines: { default: engine } });
  await sessions.recover("s");
  expect(await sessions.attach("s").result).toMatchObject({ status: "ended", steps: steps + 2, text: "done" });
  await sessions.close();
  return heap;
}

test("H5: the replay of a journal retains heap linear in its steps", async () => {
  await heapOfReplay(10);
  // Other work of the process distorts a measurement, so the best of three counts.
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < 3 && best >= linear; round += 1) {
    const [short, long] = [await heapOfReplay(few), await heapOfReplay(many)];
    best = Math.min(best, long / short);
  }
  expect(best).toBeLessThan(linear);
});
