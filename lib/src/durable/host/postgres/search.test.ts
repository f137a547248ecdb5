// The search index in Postgres, on a real server, in both modes.

import type { PostgresServer } from "../../../../test/postgres-server.ts";
import type { SearchHost } from "../../../../test/runtime/search-cases.ts";
import type { Put } from "../../rows/storage.ts";
import type { PostgresOptions, PostgresStorage } from "everturn/postgres";
import type { Pool } from "pg";

import { postgresStorage } from "everturn/postgres";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";

import { connectionPool, startPostgres } from "../../../../test/postgres-server.ts";
import { searchCases } from "../../../../test/runtime/search-cases.ts";

let server: PostgresServer;
let pool: Pool;
let schemas = 0;

beforeAll(async () => {
  server = await startPostgres();
  pool = connectionPool(await server.createDatabase(), 8);
}, 60_000);

afterAll(async () => {
  await pool.end();
  await server.close();
});

/** A schema of its own for a test. */
function newSchema(): string {
  schemas += 1;
  return `search_${schemas}`;
}

/** Opens a storage that is closed after the test. */
function opened(options: Partial<PostgresOptions>): PostgresStorage {
  const storage = postgresStorage({ pool, search: true, ...options });
  onTestFinished(() => storage.close());
  return storage;
}

describe.each(["function", "transaction"] as const)("search with the mode %s", (mode) => {
  test.each(searchCases.map(({ name, run }) => [name, run]))(
    "%s",
    async (_, run) => {
      const schema = newSchema();
      const host: SearchHost = { open: async ({ search }) => opened({ schema, mode, search }) };
      await run(host);
    },
    60_000,
  );
});

const message = (session: string, text: string, position = 0): Put => {
  const value = JSON.stringify({ version: 4, data: { content: [{ type: "text", text }] } });
  return { table: "entries", key: ["", session, position], tag: 0, value };
};
const put = (storage: PostgresStorage, ...puts: readonly Put[]) => storage.write({ checks: [], removals: [], puts });
const found = async (storage: PostgresStorage, ...words: readonly string[]) =>
  ((await storage.search?.({ tenant: "", words, limit: 100 })) ?? []).map(({ session }) => session);

describe("the index", () => {
  test("is written in the transaction of the messages", async () => {
    const schema = newSchema();
    const storage = opened({ schema });
    await put(storage, message("s1", "apples"), message("s1", "pears"), message("s2", "apples"));
    const { rows } = await pool.query(`SELECT session, words::text FROM "${schema}".everturn_search ORDER BY session`);
    expect(rows).toEqual([
      { session: "s1", words: expect.stringMatching(/^'\/[0-9a-f]{32}' 'pears'$/) },
      { session: "s2", words: expect.stringContaining("'apples'") },
    ]);
    const checks = [{ table: "sessions", key: ["", "s1"], tag: 7 }] as const;
    const refused = await storage.write({ checks, removals: [], puts: [message("s3", "apples")] });
    expect(refused).toEqual({ ok: false, check: 0 });
    expect(await found(storage, "apples")).toEqual(["s2"]);
  });

  test.each(["function", "transaction"] as const)(
    "follows messages that a process without the option writes, replaces and removes (%s)",
    async (mode) => {
      const schema = newSchema();
      const storage = opened({ schema, mode });
      await put(storage, message("s1", "apples"), message("s2", "apples"), message("s3", "apples"));
      expect(await found(storage, "apples")).toHaveLength(3);
      const other = opened({ schema, mode, search: false });
      await put(other, message("s1", "pears"), message("s4", "apples"));
      await other.write({ checks: [], removals: [{ table: "entries", prefix: ["", "s2"] }], puts: [] });
      expect(await found(storage, "apples")).toEqual(["s4", "s3"]);
      expect(await found(storage, "pears")).toEqual(["s1"]);
      await other.write({ checks: [], removals: [{ table: "entries", prefix: [] }], puts: [] });
      expect(await found(storage, "apples")).toEqual([]);
    },
  );

  test("does not take the words of a message that was replaced while it was indexed", async () => {
    const schema = newSchema();
    const storage = opened({ schema });
    const other = opened({ schema, search: false });
    await storage.open();
    await put(other, message("s1", "apples"));
    // The message is replaced in a transaction that ends after the search has begun.
    const writer = await pool.connect();
    await writer.query("BEGIN");
    await writer.query(`UPDATE "${schema}".everturn_entries SET value = $1`, [message("s1", "pears").value]);
    const during = found(storage, "apples");
    await writer.query("COMMIT");
    writer.release();
    await during;
    expect(await found(storage, "apples")).toEqual([]);
    expect(await found(storage, "pears")).toEqual(["s1"]);
  });

  test("finds rare words among many messages, and the newest of many that match", async () => {
    const schema = newSchema();
    const storage = opened({ schema });
    await put(storage, message("old", "common rare"));
    const puts = Array.from({ length: 1100 }, (_, position) => message("new", "common", position));
    await put(storage, ...puts);
    expect(await found(storage, "rare")).toEqual(["old"]);
    const newest = await storage.search?.({ tenant: "", words: ["com"], limit: 2 });
    expect(newest).toEqual([
      { session: "new", position: 1099 },
      { session: "new", position: 1098 },
    ]);
  });

  test("accepts any words, also those that no runtime passes", async () => {
    const storage = opened({ schema: newSchema() });
    await put(
      storage,
      message("s1", `Ωmega İstanbul Straße 𝒜 ${"𐐀".repeat(40)} \ud800 a\0b user@example.com <b>bold</b>`),
    );
    for (const words of [["'"], ["\\"], ["a'b\\"], ["\0"], ["\ud800"], [""], ["y".repeat(5000)], ["& | !"], ["':*"]]) {
      expect(Array.isArray(await found(storage, ...words))).toBe(true);
    }
    for (const word of ["ωMEGA", "istanbul", "straße", "𝒜", "𐐨".repeat(40), "example", "bold"]) {
      expect(await found(storage, word), word).toEqual(["s1"]);
    }
  });

  test("is created once by several processes that start at once", async () => {
    for (const mode of ["function", "transaction"] as const) {
      const schema = newSchema();
      const storages = Array.from({ length: 3 }, () => opened({ schema, mode, retryMs: 0 }));
      await Promise.all(storages.map((storage) => storage.open()));
      for (const [place, storage] of storages.entries()) await put(storage, message(`s${place}`, "apples"));
      for (const storage of storages) expect(await found(storage, "apples")).toEqual(["s2", "s1", "s0"]);
    }
  });

  test("is not created by a storage that only reads, which finds what others have indexed", async () => {
    const schema = newSchema();
    await put(opened({ schema }), message("s1", "apples"));
    expect(await found(opened({ schema, readOnly: true }), "apples")).toEqual(["s1"]);
  });
});

test("search must be true or false", () => {
  const options: object = { pool, search: "yes" };
  expect(() => postgresStorage(options)).toThrow("postgresStorage: search must be true or false");
});
