// The writer of pieces: batching, intervals, and longer intervals with many turns.

import type { LiveItem } from "./live.ts";
import type { StorageBatch as Batch } from "everturn/advanced";

import { memoryStorage } from "everturn/runtime";
import { handClock } from "everturn/testing";
import { describe, expect, test } from "vitest";

import { PieceWriter, pieceTimings } from "./pieces.ts";

const deltaOf = (delta: string): LiveItem => ({
  effectId: "t/0/model",
  epoch: 1,
  n: 1,
  part: "text/0",
  offset: 0,
  event: { type: "text_delta", id: null, delta },
});

/** A writer over a storage that records when it was written to and for how many turns. */
function world() {
  const clock = handClock();
  const writes: { readonly at: number; readonly turns: number }[] = [];
  const real = memoryStorage();
  const write = (batch: Batch) => {
    writes.push({ at: clock.now(), turns: batch.puts.length });
    return real.write(batch);
  };
  const storage = { ...real, read: real.read.bind(real), watch: real.watch.bind(real), write };
  const writer = new PieceWriter(storage, clock, pieceTimings);
  const speak = (turns: number, delta = "x") => {
    for (let turn = 0; turn < turns; turn += 1) writer.add(["", "s", `t${turn}`], 1, [deltaOf(delta)]);
  };
  const settle = (turn: number) => writer.settle(["", "s", `t${turn}`]);
  return { clock, writes, speak, settle };
}

describe("live text", () => {
  test("of several turns is written in one batch, after 50 ms", async () => {
    const { clock, writes, speak } = world();
    speak(3);
    await clock.advance(49);
    expect(writes).toEqual([]);
    await clock.advance(1);
    expect(writes).toEqual([{ at: 50, turns: 3 }]);
  });

  test("of replies that are settled sooner is never written, however many follow each other", async () => {
    const { clock, writes, speak, settle } = world();
    for (let reply = 0; reply < 10; reply += 1) {
      speak(1, "x".repeat(pieceTimings.bytes / 2));
      await clock.advance(30);
      await settle(0);
    }
    expect(writes).toEqual([]);
    speak(1);
    await clock.advance(50);
    expect(writes).toEqual([{ at: 350, turns: 1 }]);
  });

  test("is written at once when it exceeds the size limit", () => {
    const { writes, speak } = world();
    speak(1, "x".repeat(pieceTimings.bytes));
    expect(writes).toEqual([{ at: 0, turns: 1 }]);
  });

  test("of a thousand turns is written four times a second after the first write", async () => {
    const { clock, writes, speak } = world();
    speak(1000);
    await clock.advance(50);
    speak(1000);
    await clock.advance(249);
    expect(writes).toEqual([{ at: 50, turns: 1000 }]);
    await clock.advance(1);
    expect(writes.at(-1)).toEqual({ at: 300, turns: 1000 });
  });
});
