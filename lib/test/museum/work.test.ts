// S1: the current sources open a database with all kinds of work that an older release left, as that release stored it
// on SQLite and on Postgres: open, waiting, parked and queued turns, turns over a limit, a deadline, and ended turns.

import type { PostgresServer } from "../postgres-server.ts";
import type { HostStorage, Runtime } from "everturn/runtime";

import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { postgresStorage } from "everturn/postgres";
import { sqliteStorage } from "everturn/sqlite";
import { messageText } from "everturn";
import { finalizeStorage } from "everturn/runtime";
import Libsql from "libsql";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";

import { formerTableNames } from "../../src/durable/rows/tables.ts";
import { connectionTo, startPostgres } from "../postgres-server.ts";
import { dumpHeader, dumpLines, restoreDatabase } from "./database/dump.ts";
import { limitedTenant, limits, museumProcess } from "./work/leave.ts";

const folder = join(import.meta.dirname, "work");
const dumps = readdirSync(folder)
  .filter((name) => name.endsWith(".jsonl"))
  .map((name) => ({ name, dump: readFileSync(join(folder, name), "utf8") }));

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
}, 60_000);
afterAll(() => server.close());

const cleanUps: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

function restoredOnSqlite(dump: string): HostStorage {
  const place = mkdtempSync(join(tmpdir(), "everturn-museum-"));
  cleanUps.push(() => rmSync(place, { recursive: true }));
  const database = new Libsql(join(place, "museum.db"));
  cleanUps.push(() => database.close());
  restoreDatabase(database, dump);
  return sqliteStorage(database);
}

async function restoredOnPostgres(dump: string): Promise<HostStorage> {
  const url = await server.createDatabase();
  const client = connectionTo(url);
  await client.connect();
  for (const line of dumpLines(dump)) {
    if ("sql" in line) await client.query(line.sql);
    else {
      const places = line.row.map((_, index) => `$${index + 1}`);
      await client.query(`INSERT INTO "${line.table}" VALUES (${places.join(", ")})`, [...line.row]);
    }
  }
  await client.end();
  const storage = postgresStorage({ url });
  cleanUps.push(() => storage.close());
  return storage;
}

const restored = (name: string, dump: string) =>
  name.endsWith(".sqlite.jsonl") ? restoredOnSqlite(dump) : restoredOnPostgres(dump);

/** A worker, until the end of the test. It must report no error. */
function working(sessions: Runtime): void {
  const stop = new AbortController();
  const errors: unknown[] = [];
  const ended = sessions.work({ signal: stop.signal, onError: (error) => errors.push(error) });
  cleanUps.push(async () => {
    stop.abort();
    await ended;
    expect(errors).toEqual([]);
  });
}

const eventually = { timeout: 30_000, interval: 50 };

test("there is a database of every storage", () => {
  const storages = new Set(dumps.map(({ name }) => name.split(".")[1]));
  expect(storages).toEqual(new Set(["sqlite", "postgres"]));
});

describe.each(dumps)("the work in the database $name", ({ name, dump }) => {
  test("is found and finished, and retention covers the turns that ended before", async () => {
    const host = await restored(name, dump);
    const sessions = museumProcess(host, { limits, retentionMs: 1000 });
    const limited = sessions.tenant(limitedTenant);
    const statusOf = async (of: Runtime, id: string) => (await of.get(id))?.session.status;
    const textsOf = async (of: Runtime, id: string) =>
      (await of.messages(id)).items.map((message) => `${message.role} ${messageText(message)}`);
    const rowsOf = async (id: string) =>
      (
        await host.read([
          { table: "journal", prefix: ["", id] },
          { table: "events", prefix: ["", id] },
        ])
      ).flat().length;
    expect(await rowsOf("ended")).toBeGreaterThan(0);
    expect(await rowsOf("ended with retention")).toBeGreaterThan(0);

    working(sessions);
    const worked = ["user work", "assistant ", "tool worked", "assistant Done."];
    for (const id of ["limited", "over the limit", "over the limit, too"]) {
      await vi.waitFor(async () => expect(await statusOf(limited, id)).toBe("completed"), eventually);
      expect(await textsOf(limited, id)).toEqual(worked);
    }
    await vi.waitFor(async () => expect(await statusOf(sessions, "accepted")).toBe("completed"), eventually);
    // The message that was queued has started the next turn.
    const all = [...worked, "user hi", "assistant Done."];
    await vi.waitFor(async () => expect(await textsOf(sessions, "open")).toEqual(all), eventually);
    const deadline = "waiting with a deadline";
    await vi.waitFor(async () => expect(await statusOf(sessions, deadline)).toBe("completed"), eventually);
    expect((await textsOf(sessions, deadline))[2]).toMatch(/^tool .*no answer arrived before the deadline/);
    for (const id of ["ended", "ended with retention"]) {
      await vi.waitFor(async () => expect(await rowsOf(id)).toBe(0), eventually);
      expect(await textsOf(sessions, id)).toEqual(["user hi", "assistant Done."]);
    }

    const waiting = (await sessions.list({ status: "waiting" })).items.map(({ id }) => id);
    const parked = (await sessions.list({ status: "parked" })).items.map(({ id }) => id);
    expect([waiting, parked]).toEqual([["waiting"], ["parked"]]);
    await (
      await sessions.decide("waiting", "c1", { type: "approve" })
    ).result;
    expect(await textsOf(sessions, "waiting")).toEqual(["user pay", "assistant ", "tool paid", "assistant Done."]);
    expect(await sessions.recover("parked")).toMatchObject({ usable: true });
    await (
      await sessions.reply("parked", "hi")
    ).result;
    expect(await statusOf(sessions, "parked")).toBe("completed");

    expect(await finalizeStorage(host)).toMatchObject({ status: "finalized", from: dumpHeader(dump).version });
    working(museumProcess(host, { limits }));
    const former = () => host.read(formerTableNames.map((table) => ({ table, prefix: [] })));
    await vi.waitFor(async () => expect((await former()).flat()).toEqual([]), eventually);
    // A row that was copied after its turn had ended only says where to look: the worker that visits it removes it.
    const left = () => host.read([{ table: "work", prefix: ["turn"] }, { table: "open", prefix: [] }]);
    await vi.waitFor(async () => expect(await left()).toEqual([[], []]), eventually);
  }, 60_000);
});
