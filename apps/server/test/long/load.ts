// A thousand live streams on one server and, for comparison, on a bare loop: CPU and memory for each stream and delta,
// the age of deltas when they are read, and that none is lost or duplicated.

import type { Delays, Finished } from "./clients.ts";
import type { Pace } from "./paced-model.ts";
import type { ServerPlan } from "./server.ts";
import type { WatcherPlan } from "./watcher.ts";

import { pause } from "./paced-model.ts";
import { Listening, Program } from "./programs.ts";

export type LoadResult = {
  readonly name: string;
  readonly streams: number;
  /** CPU time in microseconds for each delta, and for the start of each turn. */
  readonly delta: number;
  readonly start: number;
  /** The share of one core in use while all streams receive deltas. */
  readonly share: number;
  /** KiB for each stream, above the idle process. */
  readonly rss: number;
  readonly heap: number;
  readonly delays: Delays;
  /** Deltas a second. */
  readonly received: number;
  /** Milliseconds until every stream had received a delta. */
  readonly began: number;
  readonly finished: Finished;
};

const windowMs = 8000;

export async function load(
  name: string,
  kind: "server" | "bare",
  streams: number,
  plan: Partial<ServerPlan>,
): Promise<LoadResult> {
  const server = await Listening.start(kind, plan);
  const clients = new Program("clients");
  const as = kind === "bare" ? "bare" : "start";
  const ask = async (prefix: string, count: number, pace: Pace): Promise<void> => {
    const plans = Array.from({ length: count }, (_, index): WatcherPlan => {
      return { port: server.port, session: `${prefix}-${index}`, pace, as, stalls: false };
    });
    await clients.ask({ type: "begin", plans });
  };
  // A warm-up, so that compilation and heap growth on first use are not measured.
  await ask("warm", 100, { words: 20, bytes: 24, everyMs: 20, replies: 1, gated: false });
  await clients.ask({ type: "finish" });
  const idle = await server.measure("measure_collected");
  const asked = Date.now();
  await ask("load", streams, { words: 100, bytes: 24, everyMs: 100, replies: 1, gated: true });
  const began = Date.now() - asked;
  await clients.ask({ type: "start_measuring" });
  const before = await server.measure();
  const from = Date.now();
  await server.ask({ type: "open_gate" });
  await pause(windowMs);
  const delays = await clients.ask<Delays>({ type: "measured" });
  const after = await server.measure();
  const took = Date.now() - from;
  const full = await server.measure("measure_collected");
  const finished = await clients.ask<Finished>({ type: "finish" });
  await server.stop();
  await clients.stop();
  const kib = (bytes: number) => bytes / streams / 1024;
  return {
    name,
    streams,
    delta: (after.cpu - before.cpu) / delays.count,
    start: (before.cpu - idle.cpu) / streams,
    share: (after.cpu - before.cpu) / 1000 / took,
    rss: kib(after.rss - idle.rss),
    heap: kib(full.heap - idle.heap),
    delays,
    received: (1000 * delays.count) / took,
    began,
    finished,
  };
}
