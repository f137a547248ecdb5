// Failures of the storage during a turn: the error is typed, nothing is lost, and the turn continues once the storage
// works again.

import type { HostStorage, Runtime, RuntimeOptions } from "everturn/runtime";

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { engine, fake, tool, RuntimeError } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";
import { handClock } from "everturn/testing";
import Libsql from "libsql";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

import { calls, says } from "../../test/runs.ts";
import { pausedProcess, shortLease, talker } from "../../test/runtime/two-processes.ts";

let folder = "";

let path = "";

const handles: Libsql.Database[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "everturn-faults-"));
  path = join(folder, "sessions.db");
});

afterEach(async () => {
  for (const handle of handles.splice(0)) handle.close();
  await rm(folder, { recursive: true });
});

function open(): Libsql.Database {
  const database = new Libsql(path);
  handles.push(database);
  return database;
}

/** An engine whose turn runs one tool and then replies. The tool calls `during` between two commits. */
function agent(during: () => unknown) {
  const work = tool({
    name: "work",
    description: "Works.",
    schema: { type: "object" },
    replay: "safe",
    handler: () => {
      during();
      return "x".repeat(200_000);
    },
  });
  const scripts = [
    [{ type: "tool_call", name: "work" } as const],
    [{ type: "text", text: "done" } as const],
    [{ type: "text", text: "again" } as const],
  ];
  const adapter = fake({ scripts });
  return {
    adapter,
    engine: engine({ adapter, model: "fake:m", tools: [work], options: { maxToolResultLength: 300_000 } }),
  };
}

function over(database: Libsql.Database, options: Omit<RuntimeOptions, "host">): Runtime {
  const { clock } = options;
  const host = sqliteStorage(database, { busyMs: 1, ...(clock === undefined ? {} : { clock }) });
  return runtime({ host, live: false, ...options });
}

async function reasonOf(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => "nothing went wrong",
    (error: unknown) => (error instanceof Error && "reason" in error ? error.reason : error),
  );
}

describe("a full disk", () => {
  test("delays the turn: the result of its tool is written when there is space again", async () => {
    const database = open();
    let runs = 0;
    const { engine: worker, adapter } = agent(() => {
      runs += 1;
      const pages = Number(Object.values(database.prepare("PRAGMA page_count").get() ?? {})[0]);
      database.exec(`PRAGMA max_page_count = ${pages + 4}`);
    });
    const refusals: unknown[] = [];
    const storage = sqliteStorage(database);
    const host: HostStorage = {
      ...storage,
      write: (batch) =>
        storage.write(batch).catch((error: unknown) => {
          refusals.push(error);
          if (refusals.length === 3) database.exec("PRAGMA max_page_count = 1000000");
          throw error;
        }),
    };
    const sessions = runtime({ host, live: false, engines: { default: worker } });
    const turn = await sessions.start("go", { id: "s1" });
    expect(await turn.result).toMatchObject({ text: "done", haltedReason: "completed" });
    expect(refusals).toMatchObject(Array.from({ length: 3 }, () => ({ reason: "storage_full" })));
    // The tool ran once, and the recorded reply was not requested again.
    expect([runs, adapter.calls.length]).toEqual([1, 2]);
  });

  test("is reported to a verb as storage_full", async () => {
    const database = open();
    const sessions = over(database, { engines: { default: agent(() => undefined).engine } });
    await sessions.list();
    const pages = Number(Object.values(database.prepare("PRAGMA page_count").get() ?? {})[0]);
    database.exec(`PRAGMA max_page_count = ${pages}`);
    expect(await reasonOf(sessions.start("x".repeat(60_000), { id: "s1" }))).toBe("storage_full");
  });
});

describe("a file that another connection has locked", () => {
  test("delays the turn: the result of its tool is written when the lock is released", async () => {
    const database = open();
    const other = open();
    let runs = 0;
    const { engine: worker, adapter } = agent(() => {
      runs += 1;
      other.exec("BEGIN IMMEDIATE");
    });
    let refused = 0;
    const storage = sqliteStorage(database, { busyMs: 1 });
    const host: HostStorage = {
      ...storage,
      write: (batch) =>
        storage.write(batch).catch((error: unknown) => {
          refused += 1;
          // The other process ends its transaction after some refusals.
          if (refused === 3) other.exec("ROLLBACK");
          throw error;
        }),
    };
    const sessions = runtime({ host, live: false, engines: { default: worker } });
    const turn = await sessions.start("go", { id: "s1" });
    expect(await turn.result).toMatchObject({ text: "done" });
    expect([runs, refused]).toEqual([1, 3]);
    expect(adapter.calls).toHaveLength(2);
  });

  test("makes a verb reject with storage_busy and changes nothing", async () => {
    const database = open();
    const other = open();
    const sessions = over(database, { engines: { default: agent(() => undefined).engine } });
    await (
      await sessions.start("go", { id: "s1" })
    ).result;
    const before = await sessions.get("s1");
    other.exec("BEGIN IMMEDIATE");
    expect(await reasonOf(sessions.reply("s1", "more"))).toBe("storage_busy");
    other.exec("ROLLBACK");
    expect(await sessions.get("s1")).toEqual(before);
    expect(await (await sessions.reply("s1", "more")).result).toMatchObject({ text: "again" });
  });
});

describe("a row that cannot be read", () => {
  test.each([
    ["not JSON", "{", "corrupt_row"],
    ["JSON of another format", '{"hello":1}', "corrupt_row"],
    ["a field of the wrong type", '{"version":3,"data":{"session":{},"length":"many"}}', "corrupt_row"],
    ["written by a newer release", '{"version":99,"data":{}}', "newer_schema"],
  ])("%s: the error names the row without its content, and other sessions are unaffected", async (_, value, reason) => {
    const database = open();
    const sessions = over(database, { engines: { default: agent(() => undefined).engine } });
    await (
      await sessions.start("a secret", { id: "s1" })
    ).result;
    await (
      await sessions.start("go", { id: "s2" })
    ).result;
    database.prepare("UPDATE everturn_sessions SET value = ? WHERE session = 's1'").run(value);
    expect(await reasonOf(sessions.get("s1"))).toBe(reason);
    const error: unknown = await sessions.reply("s1", "more").catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ reason, message: expect.stringContaining('"s1"') });
    expect(String(error)).not.toContain("hello");
    expect(await sessions.get("s2")).toMatchObject({ length: 2, session: { status: "completed" } });
    // The row is unchanged, so it can be repaired.
    expect(database.prepare("SELECT value FROM everturn_sessions WHERE session = 's1'").get()).toMatchObject({
      value,
    });
  });

  test("in the journal of an open turn stops the turn, which continues once the row is restored", async () => {
    const database = open();
    let closing: Promise<void> | null = null;
    // The process stops while the tool runs.
    const { engine: worker, adapter } = agent(() => (closing ??= first.close({ graceMs: 0 })));
    const first = over(database, { engines: { default: worker } });
    const turn = await first.start("go", { id: "s1" });
    await reasonOf(turn.result);
    await closing;
    const [row] = database.prepare("SELECT value FROM everturn_journal WHERE ordinal = 1").all();
    database.prepare("UPDATE everturn_journal SET value = '{}' WHERE ordinal = 1").run();
    const second = over(database, { engines: { default: worker }, clock: later(3600_000) });
    await second.recover();
    expect(await reasonOf(second.attach("s1", turn.turnId).result)).toBe("corrupt_row");
    expect(adapter.calls).toHaveLength(1);
    database.prepare("UPDATE everturn_journal SET value = ? WHERE ordinal = 1").run(valueOf(row));
    const third = over(database, { engines: { default: worker }, clock: later(7200_000) });
    await third.recover();
    expect(await third.attach("s1", turn.turnId).result).toMatchObject({ text: "done" });
    expect(adapter.calls).toHaveLength(2);
  });
});

describe("a process whose clock jumps", () => {
  test("forward claims the expired lease again and continues the turn", async () => {
    const clock = handClock();
    const storage = memoryStorage({ clock });
    let jump = true;
    let ahead = 0;
    const jumping = { ...clock, now: () => clock.now() + ahead };
    const { engine: worker, adapter } = agent(() => {
      if (jump) ahead = 86_400_000;
      jump = false;
    });
    const sessions = runtime({ host: storage, engines: { default: worker }, clock: jumping, live: false });
    const turn = await sessions.start("go", { id: "s1" });
    const ended = turn.result;
    // No other process claimed the session, so the turn continues here under the next epoch.
    expect(await ended).toMatchObject({ text: "done", haltedReason: "completed" });
    expect(adapter.calls).toHaveLength(2);
  });

  test("backward keeps its session, and the turn ends", async () => {
    const clock = handClock();
    await clock.advance(1_000_000);
    let offset = 0;
    const jumping = { ...clock, now: () => clock.now() - offset };
    const { engine: worker, adapter } = agent(() => {
      offset = 900_000;
    });
    const storage = memoryStorage();
    const sessions = runtime({ host: storage, engines: { default: worker }, clock: jumping, live: false });
    const turn = await sessions.start("go", { id: "s1" });
    expect(await turn.result).toMatchObject({ text: "done" });
    expect(adapter.calls).toHaveLength(2);
  });
});

function valueOf(row: unknown): string {
  return typeof row === "object" && row !== null && "value" in row ? String(row.value) : "";
}

/** The clock of another process, ahead by this much. */
function later(ms: number) {
  const clock = handClock();
  return { ...clock, now: () => Date.now() + ms };
}

test("a failed write of a record leaves the turn open, and recover continues it", async () => {
  const storage = memoryStorage();
  const { engine: of, adapter, ran } = talker([calls("erase"), says("Done.")]);
  let broken = true;
  const failing: HostStorage = {
    ...storage,
    write: (batch) =>
      broken && batch.puts.some(({ table }) => table === "records")
        ? Promise.reject(new Error("the disk is on fire"))
        : storage.write(batch),
  };
  const sessions = runtime({ host: failing, engines: { default: of } });
  // The record that the call waits for approval is written.
  const turn = await sessions.start("erase it", { id: "s" });
  await expect(turn.result).rejects.toThrow("on fire");
  expect((await sessions.get("s"))?.openTurn).toMatchObject({ turnId: turn.turnId });
  broken = false;
  expect(await sessions.recover()).toMatchObject({ pickedUp: 1 });
  expect(await sessions.attach("s", turn.turnId).result).toMatchObject({ session: { status: "awaiting_tools" } });
  expect(adapter.calls).toHaveLength(1);
  await (
    await sessions.decide("s", "c0", { type: "approve" })
  ).result;
  expect(ran).toHaveLength(1);
});

test("a turn that cannot be driven is retried at intervals, and does not delay other turns", async () => {
  const { storage, clock, engines, model } = pausedProcess();
  const acceptor = runtime({ host: storage, engines, clock, drive: false });
  await acceptor.start("Go.", { id: "broken" });
  const [[content] = []] = await storage.read([{ table: "contents", prefix: [] }]);
  await acceptor.start("Go.", { id: "unreadable", instructions: "Be nice." });
  const unreadable = { table: "open", key: ["", "unreadable"], tag: 0, value: "?" } as const;
  await storage.write({ checks: [], removals: [], puts: [unreadable] });
  let tries = 0;
  const failing: HostStorage = {
    ...storage,
    read: (queries) => {
      const isGone = queries.some(({ table, prefix }) => table === "contents" && prefix[1] === content?.key[1]);
      if (!isGone) return storage.read(queries);
      tries += 1;
      return Promise.reject(new Error("this part of the disk is gone"));
    },
  };
  const stop = new AbortController();
  const working = runtime({ host: failing, engines, clock, lease: shortLease }).work({ signal: stop.signal });
  await clock.advance(1500);
  expect(tries).toBeGreaterThan(1);
  expect(tries).toBeLessThan(20);
  const turn = await acceptor.start("Go.", { id: "zealous", instructions: "Be quick." });
  await clock.advance(100);
  (await model.call(1)).finish();
  expect(await turn.result).toMatchObject({ status: "ended" });
  stop.abort();
  await clock.advance(100);
  await working;
});

describe("a worker whose storage fails", () => {
  /** A storage that rejects every read with the error while there is one. */
  function failing(storage: HostStorage): { readonly storage: HostStorage; fail: (error: Error | null) => void } {
    let current: Error | null = null;
    return {
      storage: { ...storage, read: (queries) => (current === null ? storage.read(queries) : Promise.reject(current)) },
      fail: (error) => void (current = error),
    };
  }

  test("reports each error once, and again every minute while it lasts; then it drives turns", async () => {
    const { storage, clock, engines, model } = pausedProcess();
    const host = failing(storage);
    const errors: unknown[] = [];
    const stop = new AbortController();
    const onError = (error: unknown) => void errors.push(error);
    const newer = new RuntimeError("newer_schema", { message: "the tables have version 70" });
    const refused = new RuntimeError("storage_busy", { message: "connection refused" });
    host.fail(newer);
    const worker = runtime({ host: host.storage, engines, clock, lease: shortLease });
    const working = worker.work({ signal: stop.signal, onError });
    await clock.advance(30_000);
    expect(errors).toEqual([newer]);
    host.fail(refused);
    await clock.advance(35_000);
    expect(errors).toEqual([newer, refused]);
    await clock.advance(40_000);
    expect(errors).toEqual([newer, refused, refused]);
    host.fail(null);
    await clock.advance(1000);
    const turn = await runtime({ host: storage, engines, clock, drive: false }).start("Go.", { id: "s" });
    await clock.advance(1000);
    (await model.call(1)).finish();
    expect(await turn.result).toMatchObject({ status: "ended" });
    stop.abort();
    await clock.advance(100);
    await working;
    expect(errors).toHaveLength(3);
  });

  test("writes a line to the console by default, and survives a function that throws", async () => {
    const { storage, clock, engines } = pausedProcess();
    const host = failing(storage);
    host.fail(new RuntimeError("storage_failed", { message: "no server at 127.0.0.1:5432" }));
    const lines: unknown[] = [];
    const { warn } = console;
    const stop = new AbortController();
    console.warn = (line: unknown) => void lines.push(line);
    try {
      const throws = (): never => {
        throw new Error("the log is full");
      };
      const workers = [{}, { onError: throws }].map((options) =>
        runtime({ host: host.storage, engines, clock }).work({ signal: stop.signal, ...options }),
      );
      await clock.advance(5000);
      stop.abort();
      await clock.advance(100);
      await Promise.all(workers);
    } finally {
      console.warn = warn;
    }
    expect(lines).toEqual([expect.stringMatching(/^everturn: .*no server at 127\.0\.0\.1:5432$/)]);
  });
});
