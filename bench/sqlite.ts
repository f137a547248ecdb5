// The two forms of `sqliteStorage` side by side: commits per second with 1, 10 and 100 concurrent writers, and the
// delay of the event loop while 60 writers commit to a disk on which an fsync takes 250 ms.

import type { HostStorage } from "everturn/runtime";
import type { SqliteDatabase } from "everturn/sqlite";

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";

import { sqliteStorage } from "everturn/sqlite";

type Handle = SqliteDatabase & { close(): unknown };
type Form = { readonly name: string; readonly storage: HostStorage; readonly close: () => unknown };

const rounds = 5;
const commitsPerRound = 1000;
const value = "x".repeat(1000);

export async function benchSqlite(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "everturn-bench-"));
  try {
    for (const fsyncMs of [0, 2]) {
      const forms = await bothForms(folder, fsyncMs);
      for (const writers of [1, 10, 100]) await benchWriters(forms, writers, fsyncMs);
      for (const { close } of forms) await close();
    }
    await benchEventLoop(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Opens each form on a separate file whose fsync takes `fsyncMs` milliseconds longer than that of this machine. */
async function bothForms(folder: string, fsyncMs: number): Promise<readonly Form[]> {
  const driver = new URL(`slow-driver.mjs?ms=${fsyncMs}`, import.meta.url);
  const { open }: { readonly open: (path: string) => Handle } = await import(driver.href);
  const handle = open(join(folder, `handle-${fsyncMs}.db`));
  const storage = sqliteStorage({ path: join(folder, `path-${fsyncMs}.db`), driver });
  return [
    { name: "a handle", storage: sqliteStorage(handle), close: () => handle.close() },
    { name: "a path", storage, close: () => storage.close() },
  ];
}

async function benchWriters(forms: readonly Form[], writers: number, fsyncMs: number): Promise<void> {
  const rates = forms.map((): number[] => []);
  for (let round = 0; round < rounds; round += 1) {
    for (const [index, { storage }] of forms.entries()) {
      const start = performance.now();
      await write(storage, writers, commitsPerRound / writers);
      rates[index]?.push((commitsPerRound / (performance.now() - start)) * 1000);
    }
  }
  console.log(`\nSQLite, ${writers} concurrent writers, fsync + ${fsyncMs} ms: commits per second`);
  for (const [index, { name }] of forms.entries()) {
    console.log(
      `  ${name.padEnd(40)} ${median(rates[index] ?? [])
        .toFixed(0)
        .padStart(10)}`,
    );
  }
}

async function benchEventLoop(folder: string): Promise<void> {
  console.log("\nSQLite, 60 concurrent writers, fsync + 250 ms: time, and longest delay of the event loop");
  for (const { name, storage, close } of await bothForms(folder, 250)) {
    await storage.read([]);
    const delay = monitorEventLoopDelay({ resolution: 1 });
    delay.enable();
    // The delay of the event loop is recorded between two of its iterations.
    await rest();
    const start = performance.now();
    await write(storage, 60, 1);
    const milliseconds = performance.now() - start;
    await rest();
    delay.disable();
    console.log(
      `  ${name.padEnd(40)} ${milliseconds.toFixed(0).padStart(10)} ms ${(delay.max / 1e6).toFixed(0).padStart(8)} ms`,
    );
    await close();
  }
}

let position = 0;

/**
 * Each writer awaits a write before it sends the next. Every row is new, because SQLite writes nothing if a row is
 * replaced by an equal one.
 */
async function write(storage: HostStorage, writers: number, times: number): Promise<void> {
  const work = async (_: unknown, writer: number) => {
    for (let time = 0; time < times; time += 1) {
      const key = ["t", `s${writer}`, (position += 1)];
      await storage.write({ checks: [], removals: [], puts: [{ table: "entries", key, tag: 0, value }] });
    }
  };
  await Promise.all(Array.from({ length: writers }, work));
}

function rest(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 20));
}

function median(values: readonly number[]): number {
  return values.toSorted((left, right) => left - right)[Math.floor(values.length / 2)] ?? Number.NaN;
}
