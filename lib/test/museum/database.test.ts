// S1, H1: the current sources open the databases that releases wrote, whatever state their sessions were left in, and
// finish every session. What is recorded is not performed again.

import type { Runtime, RuntimeEvent, SessionSummary, TurnHandle } from "everturn/runtime";
import type { Ending } from "./database/ending.ts";
import type { EngineName } from "./database/engines.ts";
import type { Page } from "../../src/core/model/internal.ts";

import { createHash, randomUUID } from "node:crypto";
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { engine, fake, messageText } from "everturn";
import { sqliteStorage } from "everturn/sqlite";
import { totalTokens } from "everturn/advanced";
import { inspection } from "everturn/http";
import { finalizeStorage, replayTurn, runtime } from "everturn/runtime";
import { handClock } from "everturn/testing";
import Database from "libsql";
import { afterAll, afterEach, describe, expect, test } from "vitest";

import { storedVersion } from "../../src/core/model/internal.ts";
import { firstFormat } from "../../src/durable/rows/format-row.ts";
import { cutProcess } from "./database/cut-process.ts";
import { dumpDatabase, dumpHeader, restoreDatabase } from "./database/dump.ts";
import { passTime } from "./database/ending.ts";
import { endings } from "./database/endings.ts";
import { museumEngines } from "./database/engines.ts";
import { leaseMs } from "./database/museum.ts";

const folder = join(import.meta.dirname, "database");
const dumps = readdirSync(folder)
  .filter((name) => name.endsWith(".jsonl"))
  .map((name) => ({ name, dump: readFileSync(join(folder, name), "utf8") }));

const folders: string[] = [];
const handles: Database.Database[] = [];
afterEach(() => {
  for (const handle of handles.splice(0)) handle.close();
});
afterAll(() => {
  for (const one of folders) rmSync(one, { recursive: true });
});

/** A SQLite file with the rows of a dump. */
function restoredFile(dump: string): string {
  const place = mkdtempSync(join(tmpdir(), "everturn-museum-"));
  folders.push(place);
  const path = join(place, "museum.db");
  const database = new Database(path);
  restoreDatabase(database, dump);
  // The rows are in the write-ahead log until a checkpoint moves them into the file that is copied.
  database.pragma("wal_checkpoint(TRUNCATE)");
  database.close();
  return path;
}

/** A handle on a copy of the file, which the test may change. */
function copyOf(path: string): Database.Database {
  const copy = `${path}.${randomUUID()}`;
  copyFileSync(path, copy);
  const handle = new Database(copy);
  handles.push(handle);
  return handle;
}

/** A process of the current sources, which opens the database after every lease in it has expired. */
async function openedBy(database: Database.Database, now: number, retentionMs?: number) {
  const clock = handClock();
  await clock.advance(now + leaseMs);
  const options = retentionMs === undefined ? {} : { retentionMs };
  return { clock, ...cutProcess(sqliteStorage(database), clock, "current", options) };
}

type JournalData = { readonly effect?: string | null; readonly hash?: string | null };

const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");

async function eventsOf(sessions: Runtime, id: string, after?: string): Promise<readonly RuntimeEvent[]> {
  const events: RuntimeEvent[] = [];
  const options = after === undefined ? {} : { after };
  for await (const event of sessions.events(id, { follow: false, ...options })) events.push(event);
  return events;
}

/** The events of the log; live events have no place in it. */
const logged = (events: readonly RuntimeEvent[]) => events.filter(({ sequence }) => sequence !== null);

async function allPages<T>(page: (after: string | undefined) => Promise<Page<T>>): Promise<readonly T[]> {
  const items: T[] = [];
  let after: string | undefined;
  do {
    const { items: more, next } = await page(after);
    items.push(...more);
    after = next ?? undefined;
  } while (after !== undefined);
  return items;
}

const listed = (sessions: Runtime) =>
  allPages((after) => sessions.list({ limit: 5, ...(after === undefined ? {} : { after }) }));
const messagesOf = (sessions: Runtime, id: string) =>
  allPages((after) => sessions.messages(id, { limit: 2, ...(after === undefined ? {} : { after }) }));

/** Expectations that differ from those for the first database, since version 4. */
const sinceVersion4: { readonly [Name in EngineName]?: Partial<Ending> } = {
  // Since kernel revision 3 the request for the structured response is a user message.
  cut_before_finalize: {
    thread: endings.cut_before_finalize.thread.map((line) => line.replace(/^event /, "user ")),
  },
  // The result of a tool that is safe to repeat is recorded with the next step, so it was not recorded when the
  // process was killed.
  cut_after_claim: { performed: { ...endings.cut_after_claim.performed, look: 1 } },
};

/** Effects that must not be performed twice, whatever happens: their tools are not `safe`. */
const onceOnly = ["pay", "send", "charge", "wipe", "refund", "delegate"];

/**
 * Tables that the stored sessions leave empty: of limits, middleware, large texts and folded sums. Since version 5 also
 * the tables that the index of work has replaced.
 */
const unusedTables = ["untold", "slots", "waiting", "shared", "large", "rollups"].map((name) => `everturn_${name}`);
const replacedTables = ["due", "deadlines", "retained"].map((name) => `everturn_${name}`);

test("every version that has rows has a database", () => {
  const hasRows = (name: string) => readdirSync(join(import.meta.dirname, name)).some((file) => file.startsWith("runtime-"));
  const versions = readdirSync(import.meta.dirname).filter((name) => /^v\d+$/.test(name) && hasRows(name));
  expect(dumps.map(({ name }) => name).toSorted()).toEqual(versions.toSorted().map((name) => `${name}.jsonl`));
});

describe.each(dumps)("the database $name", ({ dump }) => {
  const { version, now, performed: before, tokens, sessions: names } = dumpHeader(dump);
  const path = restoredFile(dump);

  test("is restored with every row", () => {
    expect(dumpDatabase(copyOf(path), dumpHeader(dump)) === dump).toBe(true);
  });

  test("has a row in every table", () => {
    const database = copyOf(path);
    const tables = database
      .prepare(`SELECT "name" FROM sqlite_master WHERE "type" = 'table'`)
      .pluck()
      .all()
      .map(String);
    const empty = tables.filter((table) => database.prepare(`SELECT * FROM "${table}" LIMIT 1`).all().length === 0);
    expect(tables.length).toBeGreaterThan(20);
    const expected = version < 5 ? unusedTables : [...unusedTables, ...replacedTables];
    expect(empty.filter((table) => !expected.includes(table))).toEqual([]);
  });

  test("has journal rows that match their hashes", () => {
    const rows = copyOf(path).prepare(`SELECT "value" FROM "everturn_journal"`).pluck().all();
    const data = rows.map((row): JournalData => JSON.parse(String(row)).data);
    expect(data.length).toBeGreaterThan(0);
    const differs = ({ effect = null, hash = null }: JournalData) => (effect === null ? null : sha256(effect)) !== hash;
    expect(data.filter(differs)).toEqual([]);
  });

  test.each(names)("%s is finished, and nothing recorded is performed again", async (name) => {
    const { finish, status = "completed", thread, performed, tokens: billed } = { ...endings[name], ...(version < 4 ? {} : sinceVersion4[name]) };
    // The other journals are read again below, and are kept.
    const opened = await openedBy(copyOf(path), now, name === "retained" ? 600_000 : undefined);
    const sessions = name === "of_a_tenant" ? opened.sessions.tenant("acme") : opened.sessions;
    const { clock, probe } = opened;
    const isThere = (await sessions.get(name)) !== null;
    const read = isThere ? logged(await eventsOf(sessions, name)) : [];
    const resume = async () => (await resumed(sessions, name)).result;
    await finish({ sessions, clock, token: tokens[name] ?? "", resume }, name);

    const view = await sessions.get(name);
    expect(view).toMatchObject({ openTurn: null, session: { status, pendingToolCalls: [] } });
    const messages = await messagesOf(sessions, name);
    expect(messages).toEqual(view?.session.thread.messages);
    expect(messages.map((message) => `${message.role} ${messageText(message)}`)).toEqual(thread);
    expect(probe.performed[name] ?? {}).toEqual(performed);
    for (const effect of onceOnly) {
      expect((before[name]?.[effect] ?? 0) + (performed[effect] ?? 0)).toBeLessThanOrEqual(1);
    }
    expect(totalTokens((await sessions.usage(name)).total)).toBe(billed);

    // Readers: what was read from the older release is still there, and what follows it has no gap and no duplicate.
    const events = await eventsOf(sessions, name);
    expect(logged(events)).toEqual(events);
    // The retention time of this session is over: its events were removed with its journal.
    const kept = name === "retained" ? [] : read;
    expect(events.slice(0, kept.length)).toEqual(kept);
    const first = isThere ? 1 : (events[0]?.sequence ?? 0);
    expect(events.map(({ sequence }) => sequence)).toEqual(events.map((_, index) => first + index));
    expect(await eventsOf(sessions, name, read.at(-1)?.cursor ?? "0")).toEqual(events.slice(kept.length));

    expect((await listed(sessions)).filter(({ id }) => id === name)).toHaveLength(1);
    // The journal of this session was removed, and its pinned configuration has expired.
    if (name !== "retained") {
      const record = await inspection(sessions.source).export(name);
      const replayed = replayTurn(record, { engine: museumEngines(probe)[record.data.start.engine] ?? engine() });
      await expect(replayed).resolves.toMatchObject({ result: { haltedReason: record.data.end?.haltedReason } });
    }
    expect(probe.performed[name] ?? {}).toEqual(performed);

    await sessions.delete(name);
    expect(await sessions.get(name)).toBeNull();
    expect((await listed(sessions)).filter(({ id }) => id === name)).toEqual([]);
  });

  test("one process recovers all open turns", async () => {
    const { sessions, clock } = await openedBy(copyOf(path), now);
    const isOpen = ({ turnId, status }: SessionSummary) => turnId !== null && status !== "error";
    const open = (await listed(sessions)).filter(isOpen);
    expect(open.length).toBeGreaterThan(10);
    expect(await sessions.recover()).toMatchObject({ pickedUp: open.length });
    await passTime(clock, async () => !(await listed(sessions)).some(isOpen));
  });

  test("a reader within the reply of a killed process gets a reset and then the full reply", async () => {
    const { sessions } = await openedBy(copyOf(path), now);
    const name = "cut_in_reply";
    const read = await eventsOf(sessions, name);
    const live = read.filter(({ sequence }) => sequence === null);
    expect(live.map(({ event }) => event)).toMatchObject([
      { type: "message_started" },
      { type: "text_delta", delta: "Hello" },
    ]);
    const { result } = await resumed(sessions, name);
    await result;
    const rest = await eventsOf(sessions, name, read.at(-1)?.cursor);
    expect(rest.map(({ event }) => event)).toMatchObject([
      { type: "step_reset" },
      { type: "message_completed", message: { content: "Hello there, this is a reply in pieces." } },
      { type: "step_completed" },
      { type: "chat_completed" },
    ]);
  });
});

/** The dump of a database in which the release has created its tables and stored nothing. */
const withoutRows = (dump: string) =>
  dump
    .split("\n")
    .filter((line) => line.startsWith('{"sql"') || !line.startsWith('{"table":') || line.includes("everturn_schema"))
    .join("\n");

describe.each(dumps.filter(({ dump }) => dumpHeader(dump).version < storedVersion))(
  "the tables of $name without rows",
  ({ dump }) => {
    test("keep the format that their release reads, until the database is finalized", async () => {
      const database = new Database(restoredFile(withoutRows(dump)));
      handles.push(database);
      // The first process completes the tables and ends before it writes.
      await sqliteStorage(database).read([{ table: "sessions", prefix: [] }]);
      const storage = sqliteStorage(database);
      const versions = async (id: string) => {
        const agent = engine({ adapter: fake({ script: [{ type: "text", text: "Yes." }] }), model: "fake:m" });
        const sessions = runtime({ host: storage, engines: { default: agent }, live: false });
        await (await sessions.start("Hello?", { id })).result;
        await sessions.close();
        const [turns = [], entries = []] = await storage.read([
          { table: "turns", prefix: ["", id] },
          { table: "entries", prefix: ["", id] },
        ]);
        return [...turns, ...entries].map(({ value }): number => JSON.parse(value).version);
      };
      expect(await versions("before")).toEqual([firstFormat, firstFormat, firstFormat]);
      expect(await finalizeStorage(storage)).toEqual({ status: "finalized", from: firstFormat, to: storedVersion });
      expect(await versions("after")).toEqual([storedVersion, storedVersion, storedVersion]);
    });
  },
);

async function resumed(sessions: Runtime, id: string): Promise<TurnHandle> {
  const turn = (await sessions.get(id))?.openTurn?.turnId ?? "no turn";
  expect(await sessions.recover(id)).toMatchObject({ pickedUp: 1 });
  return sessions.attach(id, turn);
}
