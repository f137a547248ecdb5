// A turn of 5,000 steps: it runs in memory, runs durably, and is recovered from its journal, all in a process whose
// heap is limited to 300 MB (`--max-old-space-size=230` and the young generation). The replay takes less than 3 s of
// the process's own time: the best of three counts, because other processes may use the machine.

import { getHeapStatistics } from "node:v8";

import { chat } from "everturn";
import { runtime } from "everturn/runtime";

import { heapInUse, interruptedTurn, loopingEngine } from "../looping-engine.ts";

const steps = 5000;
const maxHeap = 300e6;
const maxReplayMs = 3000;

const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`;

function check(holds: boolean, rule: string): void {
  if (holds) return;
  console.error(`WRONG: ${rule}`);
  process.exitCode = 1;
}

/** Bytes that the result of a run in memory retains. */
async function heapOfRun(count: number): Promise<number> {
  const before = heapInUse();
  const result = await chat(loopingEngine(count), "go");
  const heap = heapInUse() - before;
  check(result.steps.length === count && result.haltedReason === "completed", `the run of ${count} steps completes`);
  return heap;
}

const limit = getHeapStatistics().heap_size_limit;
check(limit <= maxHeap, `the heap is limited to ${megabytes(maxHeap)}: start this with --max-old-space-size=230`);

const [half, whole] = [await heapOfRun(steps / 2), await heapOfRun(steps)];
check(whole / half < 2.3, "the result of a run retains heap linear in its steps");

const storage = await interruptedTurn(steps);
const stored = heapInUse();
const replays: { readonly ms: number; readonly heap: number }[] = [];
while (replays.length < 3) {
  const from = performance.now();
  const cpuFrom = process.cpuUsage();
  await new Promise<void>((replayed) => {
    const engine = loopingEngine(steps + 2, () => {
      // On a busy machine the process waits for a core: its own time counts.
      const { user, system } = process.cpuUsage(cpuFrom);
      const ms = Math.min(performance.now() - from, (user + system) / 1000);
      replays.push({ ms, heap: heapInUse() - stored });
      // The turn stays open for the next replay.
      replayed(sessions.close({ graceMs: 0 }));
      return new Promise(() => undefined);
    });
    const sessions = runtime({ host: storage, engines: { default: engine } });
    void sessions.recover("s");
  });
}
const fastest = Math.min(...replays.map(({ ms }) => ms));
const heap = Math.max(...replays.map((replay) => replay.heap));
check(fastest < maxReplayMs, `the replay of ${steps} steps takes less than ${maxReplayMs} ms`);

const sessions = runtime({ host: storage, engines: { default: loopingEngine(steps + 2) } });
await sessions.recover("s");
const end = await sessions.attach("s").result;
check(end.status === "ended" && end.steps === steps + 2 && end.text === "done", "the recovered turn completes");

console.log(
  [
    `heap limit                    ${megabytes(limit)}`,
    `result of ${steps / 2} and ${steps} steps  ${megabytes(half)} and ${megabytes(whole)}`,
    `storage of the open turn      ${megabytes(stored)} in use`,
    `replay of ${steps} steps          ${Math.round(fastest)} ms (best of ${replays.length}), retains ${megabytes(heap)}`,
  ].join("\n"),
);
