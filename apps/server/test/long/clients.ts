// All clients of a test in one process, controlled by messages of the parent: start, measure the age of received words,
// report the results.

import type { WatcherCounts, WatcherPlan } from "./watcher.ts";

import { Watcher } from "./watcher.ts";

export type ClientsRequest =
  /** Answered when all of them have received a delta. */
  | { readonly type: "begin"; readonly plans: readonly WatcherPlan[] }
  /** Starts measuring the age of words. */
  | { readonly type: "start_measuring" }
  /** Ends the measurement. Answered with `Delays`. */
  | { readonly type: "measured" }
  /** Resumes stalled clients. Answered with their number. */
  | { readonly type: "wake" }
  /** Answered when all have read to the end. */
  | { readonly type: "finish" };

/** The age of words when they were received, in milliseconds. */
export type Delays = { readonly count: number; readonly p50: number; readonly p99: number; readonly most: number };

export type Finished = {
  readonly watchers: number;
  readonly counts: WatcherCounts;
  readonly faults: readonly string[];
  /** The replies of each session, as received by the client that started it. */
  readonly replies: { readonly [session: string]: readonly string[] };
};

let watchers: Watcher[] = [];
let running: Promise<unknown> = Promise.resolve();
let ages: number[] | null = null;

async function answer(request: ClientsRequest): Promise<unknown> {
  switch (request.type) {
    case "begin": {
      const fresh = request.plans.map((plan) => new Watcher(plan, (age) => ages?.push(age)));
      watchers.push(...fresh);
      running = Promise.all([running, ...fresh.map((watcher) => watcher.run())]);
      await Promise.all(fresh.map(({ firstDelta }) => firstDelta));
      return null;
    }
    case "start_measuring":
      ages = [];
      return null;
    case "measured": {
      const delays = delaysOf(ages ?? []);
      ages = null;
      return delays;
    }
    case "wake": {
      const stalled = watchers.filter(({ isStalled }) => isStalled);
      for (const watcher of stalled) watcher.wake();
      return stalled.length;
    }
    case "finish": {
      await running;
      const finished = summary(watchers);
      watchers = [];
      return finished;
    }
  }
}

function delaysOf(all: readonly number[]): Delays {
  const sorted = Float64Array.from(all).toSorted();
  const at = (share: number) => (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0) / 1000;
  return { count: sorted.length, p50: at(0.5), p99: at(0.99), most: at(1) };
}

function summary(all: readonly Watcher[]): Finished {
  const counts: WatcherCounts = { streams: 0, busy: 0, goodbyes: 0, cuts: 0, resets: 0 };
  for (const watcher of all) {
    counts.streams += watcher.counts.streams;
    counts.busy += watcher.counts.busy;
    counts.goodbyes += watcher.counts.goodbyes;
    counts.cuts += watcher.counts.cuts;
    counts.resets += watcher.counts.resets;
  }
  const starters = all.filter(({ plan }) => plan.as === "start");
  return {
    watchers: all.length,
    counts,
    faults: all.flatMap(({ faults }) => faults),
    replies: Object.fromEntries(starters.map(({ plan, readings }) => [plan.session, readings.replies])),
  };
}

process.on("message", async ({ id, ask }: { readonly id: number; readonly ask: ClientsRequest }) => {
  process.send?.({ id, answer: await answer(ask) });
});
process.on("SIGTERM", () => process.exit());
process.on("disconnect", () => process.exit());
