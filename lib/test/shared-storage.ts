// Wrappers of a storage for tests of concurrent workers: writes that are held back, random delays, and a dump of all
// rows.

import type { StorageBatch as Batch } from "everturn/advanced";
import type { HostStorage } from "everturn/runtime";

import { storageTables as tables } from "everturn/advanced";

/** A storage whose writes a test can hold back, to simulate a paused process. */
export type GatedStorage = HostStorage & {
  readonly hold: () => void;
  readonly release: () => void;
  /** The number of held writes. */
  readonly held: number;
};

/** `holds` selects the writes that are held back; all by default. */
export function gated(storage: HostStorage, holds: (batch: Batch) => boolean = () => true): GatedStorage {
  let waiting: (() => void)[] | null = null;
  return {
    ...storage,
    get held() {
      return waiting?.length ?? 0;
    },
    hold: () => {
      waiting ??= [];
    },
    release: () => {
      const all = waiting ?? [];
      waiting = null;
      for (const go of all) go();
    },
    write: async (batch) => {
      const held = waiting;
      if (held !== null && holds(batch)) await new Promise<void>((resolve) => held.push(resolve));
      return storage.write(batch);
    },
  };
}

/**
 * A storage with random delays before and after each operation, so that the order of concurrent operations depends on
 * the seed.
 */
export function jittered(storage: HostStorage, random: () => number): HostStorage {
  const moments = async () => {
    for (let left = Math.floor(random() * 4); left > 0; left -= 1) {
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
  };
  return {
    ...storage,
    read: async (queries) => {
      await moments();
      const answers = await storage.read(queries);
      await moments();
      return answers;
    },
    write: async (batch) => {
      await moments();
      const written = await storage.write(batch);
      await moments();
      return written;
    },
  };
}

/** A deterministic generator of numbers from 0 to 1. */
export function seeded(seed: number): () => number {
  let state = (seed * 2_654_435_769 + 1) >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** All rows of all tables, without their remaining time, which changes. */
export async function everything(storage: HostStorage): Promise<{ readonly [table: string]: unknown }> {
  const names = Object.keys(tables).filter(isTable);
  const rows = await storage.read(names.map((table) => ({ table, prefix: [] })));
  return Object.fromEntries(
    names.map((name, index) => [name, rows[index]?.map((row) => ({ ...row, remainingMs: null }))]),
  );
}

function isTable(name: string): name is keyof typeof tables {
  return Object.hasOwn(tables, name);
}
