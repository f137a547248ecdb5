// Rolling upgrades: two releases share a database, and the newer one writes what the older one reads until the database
// is finalized. The next release is the current code with an artificial change of the turn row: the field `mood`, which
// the current code refuses as unknown.

import type { StoredFormats } from "./rows/format.ts";
import type { HostStorage, Put, Row } from "./rows/storage.ts";

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import Libsql from "libsql";
import { afterEach, expect, test } from "vitest";

import { fake } from "../core/adapters/internal.ts";
import { engine, tool } from "../core/engine/internal.ts";
import { storedVersion } from "../core/model/internal.ts";
import { sqliteStorage } from "./host/sqlite/index.ts";
import { runtime } from "./index.ts";
import { firstFormat } from "./rows/format-row.ts";
import { storedFormats, withFormat } from "./rows/format.ts";
import { leasePut } from "./rows/lease.ts";
import { finalizeAs, finalizeStorage } from "./work/finalize.ts";

const next = storedVersion + 1;

type Fields = { readonly [field: string]: unknown };

const nextFormats: StoredFormats = {
  newest: next,
  changes: [
    ...storedFormats.changes,
    {
      format: next,
      downgrade: {
        turns: (data) => {
          const { mood: _, ...older } = Object(data);
          return older;
        },
      },
    },
  ],
};

const formatRow: Row = {
  key: ["everturn", 0, "format"],
  tag: storedVersion,
  expires: null,
  remainingMs: null,
  value: "",
};

const cleanUps: (() => void)[] = [];
afterEach(() => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) cleanUp();
});

/** A new database. */
function database(): HostStorage {
  const folder = mkdtempSync(join(tmpdir(), "everturn-upgrade-"));
  cleanUps.push(() => rmSync(folder, { recursive: true }));
  const handle = new Libsql(join(folder, "test.db"));
  cleanUps.push(() => handle.close());
  return sqliteStorage(handle);
}

/**
 * A storage for a runtime of the current code that then writes and reads what the next release would: version 5, and
 * `mood` in rows of `turns`.
 */
function asNextRelease(host: HostStorage): HostStorage {
  const storage = withFormat(host, nextFormats);
  const current = (row: Row): Row => {
    if (!row.value.startsWith("{")) return row;
    const { version: _, data, ...rest }: { readonly version: number; readonly data: Fields } = JSON.parse(row.value);
    const { mood: __, ...known } = data;
    return { ...row, value: JSON.stringify({ version: storedVersion, data: known, ...rest }) };
  };
  const written = (put: Put): Put => {
    if (!put.value.startsWith("{")) return put;
    const { data }: { readonly data: Fields } = JSON.parse(put.value);
    const changed = put.table === "turns" ? { ...data, mood: "calm" } : data;
    return { ...put, value: JSON.stringify({ version: next, data: changed }) };
  };
  return {
    ...storage,
    // The row of the format is for the wrapper of the next release only. The current code writes its newest format,
    // which that wrapper converts.
    read: async (queries) =>
      (await storage.read(queries)).map((rows, index) =>
        queries[index]?.table === "shared" ? [formatRow] : rows.map(current),
      ),
    write: (batch) => storage.write({ ...batch, puts: batch.puts.map(written) }),
  };
}

/** A database as the current code leaves it, with one session. */
async function used(): Promise<HostStorage> {
  const host = database();
  await ask(host, "first");
  return host;
}

/** Runs a turn with a tool call in a new session, in a process on this storage. */
async function ask(host: HostStorage, id: string): Promise<string> {
  const note = tool({ name: "note", description: "Notes.", schema: { type: "object" }, handler: () => "noted" });
  const script = [
    { type: "tool_call", id: "c1", name: "note", arguments: {} },
    { type: "text", text: `Answer to ${id}.` },
  ] as const;
  const agent = engine({ adapter: fake({ scripts: script.map((part) => [part]) }), model: "fake:m", tools: [note] });
  const sessions = runtime({ host, engines: { default: agent } });
  const { text } = await (await sessions.start("Hello?", { id })).result;
  await sessions.close();
  return text;
}

/** Reads a session with a process of the current code. */
async function statusOf(host: HostStorage, id: string): Promise<string | undefined> {
  const agent = engine({ adapter: fake({ script: [] }), model: "fake:m" });
  return (await runtime({ host, engines: { default: agent } }).get(id))?.session.status;
}

/** The versions of stored values, and whether a turn row has the field of the next release. */
async function stored(
  host: HostStorage,
  id: string,
): Promise<{ readonly versions: readonly number[]; readonly hasMood: boolean }> {
  const tables = ["sessions", "entries", "starts", "turns", "journal", "events"] as const;
  const rows = (await host.read(tables.map((table) => ({ table, prefix: ["", id] })))).flat();
  const versions = rows.map(({ value }): number => JSON.parse(value).version);
  return { versions: [...new Set(versions)], hasMood: rows.some(({ value }) => value.includes('"mood":"calm"')) };
}

test("the next release writes what the current one reads, until the database is finalized", async () => {
  const host = await used();
  expect(await ask(asNextRelease(host), "by the next release")).toBe("Answer to by the next release.");
  expect(await stored(host, "by the next release")).toEqual({ versions: [storedVersion], hasMood: false });
  expect(await statusOf(host, "by the next release")).toBe("completed");
  expect(await ask(host, "by the current release")).toBe("Answer to by the current release.");

  expect(await finalizeAs(host, nextFormats)).toEqual({ status: "finalized", from: storedVersion, to: next });
  expect(await finalizeAs(host, nextFormats)).toEqual({ status: "current", format: next });
  await ask(asNextRelease(host), "after it");
  expect(await stored(host, "after it")).toEqual({ versions: [next], hasMood: true });
});

test("a process of the older release that opens a finalized database is refused before it changes anything", async () => {
  const host = await used();
  await finalizeAs(host, nextFormats);
  const refused = {
    reason: "newer_schema",
    message: expect.stringContaining(
      `finalized for format ${next}; this release supports formats up to ${storedVersion}. Nothing was changed. Deploy`,
    ),
  };
  await expect(ask(host, "second")).rejects.toMatchObject(refused);
  await expect(statusOf(host, "first")).rejects.toMatchObject(refused);
  await expect(finalizeStorage(host)).rejects.toMatchObject(refused);
  expect(await host.read([{ table: "sessions", prefix: ["", "second"] }])).toEqual([[]]);
});

test("a new database starts with the newest format", async () => {
  const host = database();
  await ask(asNextRelease(host), "first");
  expect(await stored(host, "first")).toEqual({ versions: [next], hasMood: true });
  expect(await finalizeAs(host, nextFormats)).toEqual({ status: "current", format: next });
});

test("a database is not finalized while a process of the older release drives a turn", async () => {
  const host = await used();
  const sessions = runtime({
    host,
    engines: { default: engine({ model: "fake:m", adapter: fake({ script: [] }) }) },
    drive: false,
  });
  for (const id of ["held by the current release", "held by the next release"]) await sessions.start("Hello?", { id });
  const lease = { process: null, token: 1, ttlMs: 60_000 };
  const held = (storage: HostStorage, session: string, owner: string) =>
    storage.write({ checks: [], removals: [], puts: [leasePut(["", session], { ...lease, owner })] });
  await held(asNextRelease(host), "held by the next release", "new worker");
  await held(host, "held by the current release", "old worker");
  expect(await finalizeAs(host, nextFormats)).toEqual({
    status: "in_use",
    format: storedVersion,
    newest: next,
    owners: ["old worker"],
  });
  // The older process has ended, and its lease was released.
  await host.write({
    checks: [],
    removals: [],
    puts: [leasePut(["", "held by the current release"], { ...lease, ttlMs: 0, owner: "old worker" })],
  });
  expect(await finalizeAs(host, nextFormats)).toMatchObject({ status: "finalized" });
});

test("every version after the first format has a change that older releases can be served with", () => {
  const { newest, changes } = storedFormats;
  const formats = Array.from({ length: newest - firstFormat }, (_, index) => firstFormat + 1 + index);
  expect(changes.map(({ format }) => format)).toEqual(formats);
});
