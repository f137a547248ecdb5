// The number of storage reads: a process that accepts a turn and drives it does not read back what it wrote.

import type { HostStorage, RuntimeEvent } from "./index.ts";
import type { Query } from "./rows/storage.ts";

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { expect, onTestFinished, test } from "vitest";

import { fake } from "../core/adapters/internal.ts";
import { engine } from "../core/engine/internal.ts";
import { assistant, user } from "../core/model/internal.ts";
import { handClock } from "../testing/hand-clock.ts";
import { memoryStorage } from "./host/memory/memory.ts";
import { sqliteStorage } from "./host/sqlite/index.ts";
import { runtime } from "./index.ts";
import { epochOf } from "./rows/lease.ts";

/** A storage that lists the tables of every read, and the number of reads before each write. */
function counted(storage: HostStorage) {
  const reads: (readonly Query["table"][])[] = [];
  const readsAtWrites: number[] = [];
  const counting: HostStorage = {
    ...storage,
    read: (queries) => {
      reads.push(queries.map(({ table }) => table));
      return storage.read(queries);
    },
    write: (batch) => {
      readsAtWrites.push(reads.length);
      return storage.write(batch);
    },
  };
  return { storage: counting, reads, readsAtWrites };
}

async function until(events: AsyncIterable<RuntimeEvent>, type: string): Promise<void> {
  for await (const { event } of events) if (event.type === type) return;
  throw new Error(`there was no ${type}`);
}

const text = (words: string) => [{ type: "text", text: words } as const];

const options = { "without an idempotency key": {}, "with an idempotency key": { key: "k" } };
const cases = (["memory", "SQLite"] as const).flatMap((storage) =>
  (["without an idempotency key", "with an idempotency key"] as const).flatMap((key) =>
    (["warm", "cold"] as const).map((process) => [key, storage, process] as const),
  ),
);

test.each(cases)(
  "a reply %s to 10,000 messages reads once, before its batch, until its first delta: %s, %s process",
  async (key, kind, process) => {
    const folder = mkdtempSync(join(tmpdir(), "everturn-reads-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const memory = memoryStorage();
    // Each process opens the database itself; the memory storage has nothing to open.
    const opened = () => {
      if (kind === "memory") return memory;
      const database = sqliteStorage({ path: join(folder, "sessions.db") });
      onTestFinished(() => database.close());
      return database;
    };
    const agent = engine({ adapter: fake({ scripts: [text("one"), text("two")] }), model: "fake:m" });
    const started = (host: HostStorage) => {
      const sessions = runtime({ host, engines: { default: agent } });
      onTestFinished(() => sessions.close());
      return sessions;
    };
    const first = counted(opened());
    const before = started(first.storage);
    const history = Array.from({ length: 9998 }, (_, index) =>
      index % 2 === 0 ? user(`question ${index}`) : assistant(`answer ${index}`),
    );
    await (
      await before.start([...history, user("hi")], { id: "s" })
    ).result;

    const { storage, reads, readsAtWrites } = process === "warm" ? first : counted(opened());
    const sessions = process === "warm" ? before : started(storage);
    reads.length = 0;
    readsAtWrites.length = 0;
    const turn = await sessions.reply("s", "more", options[key]);
    await until(turn.events, "text_delta");
    const readsToDelta = [...reads];
    expect((await turn.result).text).toBe("two");
    expect((await sessions.get("s"))?.length).toBe(10_002);
    // The process has the rows that it wrote, and watches the cancels of the turn since before the batch. The first
    // read of a storage also reads the format of the database.
    const ofKey = key === "with an idempotency key" ? ["accepted"] : [];
    const ofFormat = storage === first.storage || kind === "memory" ? [] : ["shared"];
    const ofHistory = process === "warm" ? [] : ["entries"];
    expect(readsToDelta).toEqual([["sessions", "leases", ...ofKey, ...ofHistory, ...ofFormat]]);
    expect(readsAtWrites[0]).toBe(1);
  },
);

test("a turn built from late input is driven without reading back its rows", async () => {
  const { storage, reads } = counted(memoryStorage());
  const late = { isSteered: false };
  const scripts = [text("one"), text("two")];
  const agent = engine({ adapter: fake({ scripts }), model: "fake:m" });
  const sessions = runtime({
    host: {
      ...storage,
      write: async (batch) => {
        // Input that arrives after the last checkpoint and before the commit that ends the turn.
        const ends = batch.puts.some(({ table, value }) => table === "turns" && value.includes('"status":"ended"'));
        if (ends && !late.isSteered) {
          late.isSteered = true;
          await sessions.steer("s", "and more", { id: "i1" });
          reads.length = 0;
        }
        return storage.write(batch);
      },
    },
    engines: { default: agent },
    live: false,
  });
  const turn = await sessions.start("hi", { id: "s" });
  let ended = 0;
  for await (const { event } of sessions.events("s")) {
    if (event.type === "chat_completed") ended += 1;
    if (ended === 2) break;
  }
  // Neither its configuration nor its history is read.
  expect(reads.flat()).not.toEqual(expect.arrayContaining([expect.stringMatching(/contents|entries|starts/)]));
  expect((await turn.result).text).toBe("one");
  expect((await sessions.messages("s")).items.map(({ role }) => role)).toEqual([
    "user",
    "assistant",
    "user",
    "assistant",
  ]);
  // The lease was kept under the next epoch, and is released at the end.
  const [[lease] = []] = await storage.read([{ table: "leases", prefix: ["", "s"] }]);
  expect(epochOf(lease?.tag ?? 0)).toBe(2);
  expect(lease?.remainingMs).toBeLessThanOrEqual(0);
});

test("a stored turn is claimed and loaded without the reads that only a takeover or a limit needs", async () => {
  const memory = memoryStorage();
  const { storage, reads } = counted(memory);
  const agent = engine({ adapter: fake({ scripts: [text("one")] }), model: "fake:m" });
  const accepting = runtime({ host: memory, engines: { default: agent }, live: false, drive: false });
  await accepting.start("hi", { id: "s" });
  const driving = runtime({ host: storage, engines: { default: agent }, live: false });
  await driving.recover();
  await driving.close();
  const ofTurn = reads.filter((tables) => tables.some((table) => ["turns", "contents", "entries"].includes(table)));
  expect(ofTurn).toEqual([
    ["sessions", "open", "starts", "turns", "records", "cancels", "journal"],
    ["contents", "entries"],
  ]);
});

test("the upkeep of an idle worker is one read of the index of work, for all reasons", async () => {
  const clock = handClock();
  const { storage, reads } = counted(memoryStorage({ clock }));
  const liveness = { process: "one", hasEnded: () => false };
  const agent = engine({ adapter: fake({ scripts: [] }), model: "fake:m" });
  const sessions = runtime({
    host: { ...storage, liveness },
    engines: { default: agent },
    clock,
    live: false,
    retentionMs: 1000,
  });
  const stop = new AbortController();
  const working = sessions.work({ signal: stop.signal });
  await clock.advance(1000);
  const before = reads.length;
  await clock.advance(4000);
  stop.abort();
  await clock.advance(0);
  await working;
  const upkeep = reads.slice(before);
  expect(upkeep.length).toBeGreaterThanOrEqual(3);
  // Only a page of open turns: nothing was written, so deadlines and retention need not be read.
  expect(upkeep.every((tables) => tables.length === 1 && tables[0] === "work")).toBe(true);
});

test("the end of a turn does not wake processes that wait for cancels", async () => {
  const storage = memoryStorage();
  const written = new Set<string>();
  storage.watch((_, tables) => tables?.forEach((table) => written.add(table)));
  const agent = engine({ adapter: fake({ scripts: [text("one"), text("two")] }), model: "fake:m" });
  const sessions = runtime({ host: storage, engines: { default: agent }, live: false });
  await (
    await sessions.start("hi", { id: "s" })
  ).result;
  expect(written.has("turns")).toBe(true);
  expect(written.has("cancels")).toBe(false);
});
