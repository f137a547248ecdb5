import type { SqliteDatabase } from "./database.ts";

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import Database from "libsql";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

import { isBusy } from "./failure.ts";
import { beginImmediate } from "./write-lock.ts";

describe("the write lock", () => {
  let folder: string;
  let holder: InstanceType<typeof Database>;
  let waiter: InstanceType<typeof Database>;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "everturn-lock-"));
    holder = new Database(join(folder, "data.db"));
    holder.exec("PRAGMA journal_mode = WAL");
    waiter = new Database(join(folder, "data.db"));
  });
  afterEach(() => {
    holder.close();
    waiter.close();
    rmSync(folder, { recursive: true, force: true });
  });

  /**
   * The waiting connection. `tries` counts its attempts to begin; before attempt `releaseAt` the other connection ends
   * its transaction.
   */
  function counted(releaseAt: number): { readonly database: SqliteDatabase; readonly tries: () => number } {
    let tries = 0;
    const exec = (sql: string) => {
      if (sql === "BEGIN IMMEDIATE") {
        tries += 1;
        if (tries === releaseAt) holder.exec("COMMIT");
      }
      return waiter.exec(sql);
    };
    return { database: { exec, prepare: (sql) => waiter.prepare(sql) }, tries: () => tries };
  }

  test("is acquired by the first attempt after the other connection has ended its transaction", () => {
    holder.exec("BEGIN IMMEDIATE");
    const { database, tries } = counted(5);
    beginImmediate(database, 60_000);
    expect(tries()).toBe(5);
    expect(() => holder.exec("BEGIN IMMEDIATE")).toThrow(/locked/);
    waiter.exec("COMMIT");
  });

  test("is given up with SQLITE_BUSY after waitMs", () => {
    holder.exec("BEGIN IMMEDIATE");
    const from = performance.now();
    let thrown: unknown;
    try {
      beginImmediate(waiter, 20);
    } catch (error) {
      thrown = error;
    }
    expect(isBusy(thrown)).toBe(true);
    expect(performance.now() - from).toBeGreaterThanOrEqual(20);
    holder.exec("COMMIT");
  });

  test("is tried once when waitMs is 0", () => {
    holder.exec("BEGIN IMMEDIATE");
    const { database, tries } = counted(Number.NaN);
    expect(() => beginImmediate(database, 0)).toThrow(/locked/);
    expect(tries()).toBe(1);
    holder.exec("COMMIT");
  });

  test("is not waited for when BEGIN fails for another reason", () => {
    const { database, tries } = counted(Number.NaN);
    beginImmediate(database, 60_000);
    expect(() => beginImmediate(database, 60_000)).toThrow(/within a transaction/);
    expect(tries()).toBe(2);
    waiter.exec("COMMIT");
  });

  test("leaves waitMs as the busy_timeout of the connection, also after a failure", () => {
    beginImmediate(waiter, 1234);
    expect(waiter.prepare("PRAGMA busy_timeout").get()).toMatchObject({ timeout: 1234 });
    expect(() => beginImmediate(waiter, 777)).toThrow(/within a transaction/);
    expect(waiter.prepare("PRAGMA busy_timeout").get()).toMatchObject({ timeout: 777 });
    waiter.exec("COMMIT");
  });
});
