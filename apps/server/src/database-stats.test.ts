// Statistics of a database: turns and sessions of all tenants, and limits that make a count a lower bound.

import type { StorageBatch } from "everturn/advanced";
import type { HostStorage, Runtime } from "everturn/runtime";

import { databaseStats, offline } from "@everturn/server";
import { engine } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";
import { expect, test } from "vitest";

const hourMs = 3_600_000;

function opened(host: HostStorage, drive = true): Runtime {
  return runtime({
    host,
    engines: { default: engine({ adapter: offline({ paceMs: 0 }), model: "offline:demo" }) },
    drive,
  });
}

const write = (storage: HostStorage, ...puts: StorageBatch["puts"]) =>
  storage.write({ checks: [], removals: [], puts });

test("an empty database has nothing open, and a storage without sizes has no tables", async () => {
  const storage = memoryStorage();
  expect(await databaseStats(storage, opened(storage), 0)).toEqual({
    open: { count: 0, isCapped: false },
    due: { count: 0, isCapped: false },
    limited: { count: 0, isCapped: false },
    oldestDueMs: null,
    waiting: { count: 0, isCapped: false },
    parked: { count: 0, isCapped: false },
    overdueDeadlines: { count: 0, isCapped: false },
    endedInLastHour: { byStatus: {}, isCapped: false },
    tables: null,
  });
});

test("open and ended turns of all tenants are counted, and sessions that changed earlier are not among the ended ones", async () => {
  const storage = memoryStorage();
  const driving = opened(storage);
  for (const tenant of ["a", "b"]) await (await driving.tenant(tenant).start("hello", { id: "s" })).result;
  await opened(storage, false).tenant("c").start("hello", { id: "s" });
  const now = Date.now();
  expect(await databaseStats(storage, driving, now)).toMatchObject({
    open: { count: 1, isCapped: false },
    endedInLastHour: { byStatus: { completed: 2 }, isCapped: false },
  });
  expect(await databaseStats(storage, driving, now + 2 * hourMs)).toMatchObject({
    due: { count: 1, isCapped: false },
    oldestDueMs: expect.any(Number),
    endedInLastHour: { byStatus: {}, isCapped: false },
  });
  await driving.close();
});

test("a count that reaches its limit is capped", async () => {
  const storage = memoryStorage();
  const sessions = opened(storage);
  for (const id of ["one", "two", "three"]) await (await sessions.start("hello", { id })).result;
  const row = { tag: 0, value: "" };
  await write(
    storage,
    ...[10, 20, 30].flatMap((due) => [
      { table: "work", key: ["turn", "default", `tenant ${due}`, due, `tenant ${due}`, "s", ""], ...row } as const,
      { table: "work", key: ["deadline", "", "0", due, "", "s", "call"], ...row } as const,
      { table: "work", key: ["limit", "tenant:", "", due, "", "s", ""], ...row } as const,
    ]),
  );
  const found = await databaseStats(storage, sessions, Date.now(), { rows: 2, sessions: 2 });
  expect(found).toMatchObject({
    due: { count: 2, isCapped: true },
    limited: { count: 2, isCapped: true },
    overdueDeadlines: { count: 2, isCapped: true },
    waiting: { count: 0, isCapped: true },
    endedInLastHour: { byStatus: { completed: 2 }, isCapped: true },
  });
  await sessions.close();
});

test("a SQLite file reports rows and bytes of its tables", async () => {
  const storage = sqliteStorage({ path: ":memory:" });
  await write(storage, { table: "entries", key: ["", "s", 0], tag: 0, value: "x".repeat(10_000) });
  const { tables } = await databaseStats(storage, opened(storage), 0);
  const entries = tables?.find(({ table }) => table === "entries");
  expect(entries).toEqual({ table: "entries", rows: 1, isEstimate: false, bytes: expect.any(Number) });
  expect(entries?.bytes).toBeGreaterThan(10_000);
  expect(tables?.find(({ table }) => table === "events")?.rows).toBe(0);
  await storage.close();
});
