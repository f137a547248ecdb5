// Readers that stop reading: the memory of the server does not grow with unread events, other readers are not delayed
// (no head-of-line blocking), and stalled readers are disconnected after `slowReaderMs`. A reader that reconnects with
// `Last-Event-ID` receives the remaining events exactly once.

import type { Delays, Finished } from "./clients.ts";
import type { Pace } from "./paced-model.ts";
import type { WatcherPlan } from "./watcher.ts";

import { pause } from "./paced-model.ts";
import { Listening, Program } from "./programs.ts";

export type StalledResult = {
  readonly stalled: number;
  /** The size of all events for one reader, in MiB. */
  readonly sentMiB: number;
  readonly without: Round;
  readonly with: Round;
};

export type Round = {
  /** The largest resident set size, in MiB. */
  readonly rss: number;
  /** The delays of readers that keep reading. */
  readonly delays: Delays;
  /** Readers that were disconnected. */
  readonly letGo: number;
  readonly woken: number;
  readonly finished: Finished;
};

const sessions = 4;
const slowReaderMs = 1000;
/**
 * Each text is sent four times: as deltas, and with the reply, the step and the turn. Socket buffers hold the first few
 * MiB of each reader.
 */
const pace: Pace = { words: 16, bytes: 8192, everyMs: 20, replies: 20, gated: true };
const sentMiB = (4 * pace.replies * pace.words * pace.bytes) / 1024 / 1024;

export async function stalled(count: number): Promise<StalledResult> {
  const without = await round(0);
  const beside = await round(count);
  return { stalled: count, sentMiB, without, with: beside };
}

/** Turns with readers that keep reading, and with some that stop. The turns go on when all of them are connected. */
async function round(stalling: number): Promise<Round> {
  const server = await Listening.start("server", { limits: { slowReaderMs } });
  const clients = new Program("clients");
  const watch = async (readers: number, as: WatcherPlan["as"], stalls: boolean): Promise<void> => {
    const plans = Array.from({ length: readers }, (_, index): WatcherPlan => {
      return { port: server.port, session: `stalled-${index % sessions}`, pace, as, stalls };
    });
    await clients.ask({ type: "begin", plans });
  };
  await watch(sessions, "start", false);
  await watch(sessions, "watch", false);
  await watch(stalling, "watch", true);
  await clients.ask({ type: "start_measuring" });
  await server.ask({ type: "open_gate" });
  let [rss, open] = [0, Infinity];
  // Readers that keep reading hold their connections until the turns are over. On a busy machine it takes long to fill
  // the buffers of stalled readers.
  const limitMs = stalling > 0 ? 60_000 : 6000;
  for (const until = Date.now() + limitMs; Date.now() < until && open > 2 * sessions;) {
    await pause(100);
    const measured = await server.measure();
    rss = Math.max(rss, measured.rss / 1024 / 1024);
    if (stalling > 0) open = measured.connections;
  }
  const delays = await clients.ask<Delays>({ type: "measured" });
  const woken = await clients.ask<number>({ type: "wake" });
  const finished = await clients.ask<Finished>({ type: "finish" });
  await server.stop();
  await clients.stop();
  return { rss, delays, letGo: finished.counts.cuts, woken, finished };
}
