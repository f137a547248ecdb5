// A process that reads the events of many sessions concurrently, disconnects at random points and resumes from its
// cursor. On a stop message it reads the remaining events and reports what it has seen.

import type { RuntimeEvent } from "everturn/runtime";

import { runtime } from "everturn/runtime";

import { Readings } from "../readings.ts";
import { openStorage, slowAgent, stampedWord } from "./world.ts";

/** The report of the reader. */
export type Seen = {
  readonly sessions: {
    readonly [id: string]: { readonly last: number; readonly replies: number; readonly heard: number };
  };
  readonly resets: number;
  readonly comebacks: number;
  /** Violations: duplicated, late or missing events. */
  readonly broken: readonly string[];
  /** The latencies of text deltas, in milliseconds. */
  readonly delays: readonly number[];
};

const [, , file = "", ...ids] = process.argv;
const { storage, close } = await openStorage(file);
const sessions = runtime({ host: storage, engines: { default: slowAgent(null) }, drive: false });
const stop = new AbortController();
const broken: string[] = [];
const delays: number[] = [];
let comebacks = 0;

const all = new Map(ids.map((id) => [id, new Readings()]));

async function follow(id: string, seen: Readings): Promise<void> {
  let after: string | undefined;
  const take = (event: RuntimeEvent): void => {
    after = event.cursor;
    try {
      seen.take(event);
    } catch (error) {
      broken.push(`${id}: ${error instanceof Error ? error.message : "?"}`);
    }
    if (event.event.type !== "text_delta") return;
    const now = Date.now();
    for (const [, stamp] of event.event.delta.matchAll(stampedWord)) delays.push(now - Number(stamp));
  };
  const from = () => (after === undefined ? {} : { after });
  while (!stop.signal.aborted) {
    for await (const event of sessions.events(id, { ...from(), signal: stop.signal })) {
      take(event);
      if (Math.random() < 0.01) break;
    }
    comebacks += 1;
  }
  for await (const event of sessions.events(id, { ...from(), follow: false })) take(event);
}

process.on("message", () => stop.abort());
process.on("disconnect", () => process.exit(1));
process.send?.("ready");
await Promise.all([...all].map(([id, seen]) => follow(id, seen)));
const seen: Seen = {
  sessions: Object.fromEntries(
    [...all].map(([id, { sequences, replies, heard }]) => {
      const counts = { replies: replies.length, heard: heard.filter((text) => text !== null).length };
      return [id, { last: sequences.at(-1) ?? 0, ...counts }];
    }),
  ),
  resets: [...all.values()].reduce((sum, { resets }) => sum + resets, 0),
  comebacks,
  broken,
  delays,
};
await close();
process.send?.(seen, () => process.disconnect());
