// A process that can be cut like one that was killed: from then on it reads and writes nothing, and nothing it waits
// for arrives, so none of its `finally` blocks changes a row. What it had written stays.

import type { Clock } from "everturn";
import type { StorageBatch as Batch } from "everturn/advanced";
import type { HostStorage, Runtime, RuntimeOptions } from "everturn/runtime";
import type { HandClock } from "everturn/testing";

import { runtime } from "everturn/runtime";

import { museumEngines } from "./engines.ts";
import { CountingProbe } from "./probe.ts";

export type Circumstances = Pick<RuntimeOptions, "drive" | "live" | "retentionMs"> & {
  /** Places in engines that are held when they are reached. */
  readonly holds?: readonly string[];
  /** The process is cut once this batch has been written, or before. */
  readonly cutAfter?: (batch: Batch) => boolean;
  readonly cutBefore?: (batch: Batch) => boolean;
};

export type CutProcess = {
  readonly sessions: Runtime;
  readonly probe: CountingProbe;
  readonly cut: () => void;
  readonly isCut: () => boolean;
};

export function cutProcess(
  storage: HostStorage,
  clock: HandClock,
  owner: string,
  circumstances: Circumstances = {},
): CutProcess {
  const { holds = [], cutAfter, cutBefore, ...options } = circumstances;
  let over = false;
  const ownClock: Clock = {
    now: clock.now,
    random: clock.random,
    sleep: async (ms, signal) => {
      await clock.sleep(ms, signal).finally(() => (over ? never() : undefined));
    },
  };
  const probe = new CountingProbe(ownClock, holds);
  const host: HostStorage = {
    ...storage,
    read: async (queries) => {
      if (over) return never();
      const rows = await storage.read(queries);
      return over ? never() : rows;
    },
    write: async (batch) => {
      over ||= cutBefore?.(batch) === true;
      if (over) return never();
      const writing = storage.write(batch);
      over ||= cutAfter?.(batch) === true;
      const written = await writing;
      return over ? never() : written;
    },
    watch: (changed) => storage.watch((sessions) => (over ? undefined : changed(sessions))),
  };
  const sessions = runtime({
    host,
    engines: museumEngines(probe),
    clock: ownClock,
    owner,
    live: false,
    ...options,
  });
  return { sessions, probe, cut: () => void (over = true), isCut: () => over };
}

function never(): Promise<never> {
  return new Promise(() => undefined);
}
