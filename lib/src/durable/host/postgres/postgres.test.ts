// The storage in Postgres, on a real server: the conformance suite in both modes and over two client libraries; then
// tables, failures, notifications and ended processes.

import type { PostgresServer } from "../../../../test/postgres-server.ts";
import type { Batch, HostStorage, Put } from "../../rows/storage.ts";
import type { PostgresOptions, PostgresPool, PostgresResult, PostgresStorage } from "everturn/postgres";
import type { Pool } from "pg";

import { createHash } from "node:crypto";
import { EventEmitter } from "node:events";

import { chat, engine, fake, tool, RuntimeError } from "everturn";
import { rateLimit, responseCache } from "everturn/middleware";
import { postgresStorage } from "everturn/postgres";
import { runtime } from "everturn/runtime";
import { handClock, storageSuite } from "everturn/testing";
import postgres from "postgres";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";

import { eventually } from "../../../../test/eventually.ts";
import { connectionPool, startPostgres } from "../../../../test/postgres-server.ts";
import { runLimited } from "../../../../test/runtime/limited-turns.ts";
import { simulateAsInMemory, simulatedStorage } from "../../../../test/simulator/storages.ts";
import { systemClock } from "../../../core/clock/clock.ts";
import { tableNames, tables } from "../../rows/tables.ts";
import { schemaVersion } from "./schema.ts";

let server: PostgresServer;
let pool: Pool;
let url = "";

beforeAll(async () => {
  server = await startPostgres();
  url = await server.createDatabase();
  pool = connectionPool(url, 8);
}, 60_000);

afterAll(async () => {
  await pool.end();
  await server.close();
});

/** A pool of the client library postgres.js in the shape that the storage needs. */
function postgresJsPool(sql: postgres.Sql): PostgresPool {
  return {
    connect: async () => {
      const connection = await sql.reserve();
      return {
        query: async ({ text, values, name }) => {
          const rows = await connection.unsafe(text, values, { prepare: name !== undefined });
          return { rows };
        },
        release: () => connection.release(),
      };
    },
  };
}

/** Deletes all rows of a schema. Creating the tables anew for each case would take longer than the case. */
async function empty(schema: string): Promise<void> {
  const deletions = Object.keys(tables).map((table) => `DELETE FROM "${schema}"."everturn_${table}"`);
  await pool.query(deletions.join("; "));
}

type Variant = { readonly name: string; readonly mode: "function" | "transaction"; readonly pool: () => PostgresPool };

let sql: postgres.Sql | null = null;
const variants: readonly Variant[] = [
  { name: "pg, one function call for a batch", mode: "function", pool: () => pool },
  { name: "pg, a transaction for a batch", mode: "transaction", pool: () => pool },
  {
    name: "postgres.js",
    mode: "function",
    pool: () => postgresJsPool((sql ??= postgres(url, { max: 8, onnotice: () => undefined }))),
  },
];

afterAll(async () => {
  await sql?.end();
});

describe.each(variants)("[lash 81] $name", ({ mode, pool: poolOf }) => {
  const schema = `conformance_${variants.findIndex((variant) => variant.pool === poolOf && variant.mode === mode)}`;
  const cases = storageSuite(async () => {
    const open = () => postgresStorage({ pool: poolOf(), schema, mode, pollMs: 20 });
    const storage = open();
    await storage.open();
    await empty(schema);
    const opened = [storage];
    return {
      storage,
      reopen: async () => {
        const again = open();
        opened.push(again);
        return again;
      },
      close: async () => {
        for (const each of opened) await each.close();
      },
    };
  });
  test.each(cases.map(({ name, run }) => [name, run]))("%s", (_, run) => run());
});

const session = (id: string, tag = 1, value = ""): Put => ({ table: "sessions", key: ["t", id], tag, value });
const puts = (...rows: readonly Put[]): Batch => ({ checks: [], removals: [], puts: rows });
const sessionsOf = async (storage: HostStorage): Promise<readonly unknown[]> => {
  const [rows = []] = await storage.read([{ table: "sessions", prefix: ["t"] }]);
  return rows.map(({ key }) => key[1]);
};

const cleanUps: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

/** Opens a storage that is closed after the test. */
function opened(options: Partial<PostgresOptions> = {}): PostgresStorage {
  const storage = postgresStorage({ ...(options.pool === undefined ? { url } : {}), ...options });
  cleanUps.push(() => storage.close());
  return storage;
}

/** The error that an operation rejects with. */
async function rejection(operation: Promise<unknown>): Promise<RuntimeError> {
  const error = await operation.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  if (error instanceof RuntimeError) return error;
  throw new Error("the operation did not reject with a RuntimeError", { cause: error });
}

/** Ends connections on the server, as a failover or an administrator would. */
async function terminate(where: string): Promise<void> {
  await pool.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database() AND ${where}`,
  );
}

/** Rows of a table as an older release left them, by session. */
function olderRows(table: "open" | "sessions", values: { readonly [session: string]: string }): readonly Put[] {
  return Object.entries(values).map(([name, value]) => ({ table, key: ["t", name], tag: 0, value }));
}

describe("the tables", () => {
  test("several processes that start at once create them once", async () => {
    const schema = "started_at_once";
    const storages = Array.from({ length: 4 }, () => opened({ schema }));
    await Promise.all(storages.map((storage, index) => storage.write(puts(session(`s${index}`)))));
    expect(await sessionsOf(opened({ schema }))).toEqual(["s0", "s1", "s2", "s3"]);
  });

  test("several processes create them at once without advisory locks", async () => {
    const schema = "started_at_once_portable";
    const storages = Array.from({ length: 4 }, () => opened({ schema, mode: "transaction", retryMs: 0 }));
    await Promise.all(storages.map((storage) => storage.open()));
    await storages[0]?.write(puts(session("s0")));
    expect(await sessionsOf(opened({ schema, mode: "transaction" }))).toEqual(["s0"]);
  });

  test("storages with different prefixes create their schema at once", async () => {
    const storages = Array.from({ length: 4 }, (_, index) =>
      opened({ schema: "prefixes_at_once", tablePrefix: `p${index}_`, retryMs: 0 }),
    );
    await Promise.all(storages.map((storage, index) => storage.write(puts(session(`s${index}`)))));
    expect(await Promise.all(storages.map(sessionsOf))).toEqual([["s0"], ["s1"], ["s2"], ["s3"]]);
  });

  test("created in transaction mode are completed by a process in function mode", async () => {
    const schema = "changed_mode";
    await opened({ schema, mode: "transaction" }).write(puts(session("a")));
    await opened({ schema }).write(puts(session("b")));
    expect(await sessionsOf(opened({ schema, mode: "transaction" }))).toEqual(["a", "b"]);
  });

  test("rows of a release without the index tables are found after opening, also without a change of the version", async () => {
    const schema = "backfilled";
    await opened({ schema }).open();
    await opened({ schema }).write({
      checks: [],
      removals: [],
      puts: [
        ...olderRows("open", {
          "cut off": '{"version":3,"data":{"tur',
          empty: "",
          good: '{"version":3,"data":{"turn":"t1","engine":"default"}}',
          large: 'large:{"data":{"version":4,"data":{"turn":"t1","engine":"default"}},"references":[]}',
          "no engine": '{"version":3,"data":{"turn":"t1"}}',
        }),
        ...olderRows("sessions", {
          asks: '{"version":3,"data":{"session":{"status":"awaiting_user"},"turn":null,"changedAt":7}}',
          deleted: '{"version":3,"data":{"session":{"status":"awaiting_user"},"changedAt":7,"deleted":true}}',
          "no object": "[1]",
          parked: '{"version":3,"data":{"session":{"status":"idle"},"turn":"t1","changedAt":8}}',
          runs: '{"version":3,"data":{"session":{"status":"awaiting_tools"},"turn":"t1","changedAt":9}}',
        }),
        { table: "turns", key: ["t", "parked", "t1"], tag: 1, value: '{"version":3,"data":{"status":"parked"}}' },
        { table: "turns", key: ["t", "runs", "t1"], tag: 1, value: '{"version":3,"data":{"status":"running"}}' },
        { table: "starts", key: ["t", "asks", "t1"], tag: 0, value: '{"version":3,"data":{"acceptedAt":5}}' },
        { table: "starts", key: ["t", "asks", "forked"], tag: 0, value: '{"version":3,"data":{"acceptedAt":5}}' },
        { table: "starts", key: ["t", "old", "t1"], tag: 0, value: '{"version":1,"data":{}}' },
      ],
    });
    await pool.query(
      `DROP TABLE "${schema}"."everturn_work", "${schema}"."everturn_attention", "${schema}"."everturn_turn_times"`,
    );
    const keys = async (table: "work" | "attention" | "turn_times", prefix: readonly string[] = []) => {
      const [rows = []] = await opened({ schema }).read([{ table, prefix }]);
      return rows.map(({ key }) => key);
    };
    expect(await keys("work", ["turn"])).toEqual([
      ["turn", "default", "t", 0, "t", "good", ""],
      ["turn", "default", "t", 0, "t", "large", ""],
    ]);
    expect((await keys("work", ["retention", "turns"])).map((key) => key.slice(3))).toEqual([
      [0, "t", "old", "t1"],
      [5, "t", "asks", "t1"],
    ]);
    expect(await keys("attention")).toEqual([
      ["t", "parked", 8, "parked"],
      ["t", "waiting", 7, "asks"],
    ]);
    expect(await keys("turn_times")).toEqual([
      ["t", "asks", 5, "t1"],
      ["t", "old", 0, "t1"],
    ]);
    await opened({ schema }).write(puts(session("later")));
  });

  test("each declared table is created in a database that lacks it, whatever the stored version", async () => {
    const schema = "each_table";
    await opened({ schema }).write(puts(session("kept")));
    const others = tableNames().filter((table) => table !== "sessions");
    for (const [index, table] of others.entries()) {
      // The version that this release writes, and older ones.
      await pool.query(`UPDATE "${schema}"."everturn_schema" SET version = ${1 + (index % 5)}`);
      await pool.query(`DROP TABLE "${schema}"."everturn_${table}"`);
      const [rows = []] = await opened({ schema }).read([{ table, prefix: [] }]);
      // The database is of an older release, so the row of the format is written.
      expect(rows.map(({ key }) => key)).toEqual(table === "shared" ? [["everturn", 0, "format"]] : []);
    }
    expect(await sessionsOf(opened({ schema }))).toEqual(["kept"]);
  });

  test("more older rows than one page are indexed", async () => {
    const schema = "backfilled_pages";
    const storage = opened({ schema });
    const value = '{"version":3,"data":{"turn":"t1","engine":"default"}}';
    const names = Array.from({ length: 700 }, (_, index) => `s${String(index).padStart(3, "0")}`);
    const rows = ["a", "b"].flatMap((tenant) =>
      names.map((name) => ({ table: "open", key: [tenant, name], tag: 0, value }) as const),
    );
    await storage.write({ checks: [], removals: [], puts: rows });
    await pool.query(`DROP TABLE "${schema}"."everturn_work"`);
    const [due = []] = await opened({ schema }).read([{ table: "work", prefix: ["turn"] }]);
    expect(due.map(({ key }) => `${String(key[4])} ${String(key[5])}`)).toEqual(rows.map(({ key }) => key.join(" ")));
  });

  test("tables of a newer release are refused and not changed", async () => {
    const schema = "newer";
    await opened({ schema }).open();
    await pool.query(`UPDATE "${schema}"."everturn_schema" SET version = 99`);
    const error = await rejection(opened({ schema }).open());
    expect(error.reason).toBe("newer_schema");
    expect(error.message).toContain("have version 99; this release supports versions up to");
    const { rows } = await pool.query(`SELECT version FROM "${schema}"."everturn_schema"`);
    expect(rows).toEqual([{ version: 99 }]);
  });

  test("a table with another primary key than the declared one is refused, whatever the stored version, and not changed", async () => {
    const schema = "other_key";
    await opened({ schema }).open();
    const table = `"${schema}"."everturn_work"`;
    await pool.query(`ALTER TABLE ${table} DROP CONSTRAINT everturn_work_pkey, ADD PRIMARY KEY (at, session)`);
    for (const readOnly of [false, true]) {
      const error = await rejection(opened({ schema, readOnly }).open());
      expect(error.reason).toBe("newer_schema");
      expect(error.message).toContain(
        "has the primary key (at, session); this release uses (reason, queue, lane, at, tenant, session, item). Nothing was changed.",
      );
    }
  });

  test("of a lower stored version that lack nothing are used as they are, also by a read-only storage", async () => {
    const schema = "lower_version";
    await opened({ schema }).write(puts(session("a")));
    await pool.query(`UPDATE "${schema}"."everturn_schema" SET version = 1`);
    expect(await sessionsOf(opened({ schema, readOnly: true }))).toEqual(["a"]);
    expect(await sessionsOf(opened({ schema }))).toEqual(["a"]);
  });

  test("of a new database have the version that the previous release opens", async () => {
    const schema = "stored_version";
    await opened({ schema }).open();
    const { rows } = await pool.query(`SELECT version FROM "${schema}"."everturn_schema"`);
    expect(rows).toEqual([{ version: 5 }]);
  });

  test("report estimated rows, once analysed, and bytes", async () => {
    const schema = "sizes";
    const storage = opened({ schema });
    await storage.write(puts(session("a"), session("b")));
    await pool.query(`ANALYZE "${schema}"."everturn_sessions"`);
    const sizes = (await storage.sizes?.()) ?? [];
    expect(sizes.map(({ table }) => table)).toEqual(Object.keys(tables));
    expect(sizes[0]).toEqual({ table: "sessions", rows: 2, isEstimate: true, bytes: expect.any(Number) });
    expect(sizes[0]?.bytes).toBeGreaterThan(0);
    expect(sizes[1]).toEqual({ table: "recent", rows: null, isEstimate: true, bytes: expect.any(Number) });
  });

  test("prefixes separate storages in one schema", async () => {
    await opened({ tablePrefix: "one_" }).write(puts(session("a")));
    await opened({ tablePrefix: "two_" }).write(puts(session("b")));
    expect(await sessionsOf(opened({ tablePrefix: "one_" }))).toEqual(["a"]);
  });
});

describe("options", () => {
  test.each([
    [{}, "url or pool is required"],
    [{ url: "postgres://h/d", pool: { connect: () => Promise.reject(new Error()) } }, "not both"],
    [{ url: "mysql://h/d" }, "must begin with postgres://"],
    [{ url: "user:secret" }, "must begin with postgres://"],
    [{ url: "no url, but a secret" }, "must have the form"],
    [{ url: "postgres://user:12/secret@h/d" }, "percent-encoded"],
    [{ url: "postgres://user:12#secret@h/d" }, "percent-encoded"],
    [{ url: "postgres://user:12?secret@h/d" }, "percent-encoded"],
    [{ url: "postgres://h/d", schema: 'a"b' }, "lower-case letters"],
    [{ url: "postgres://h/d", tablePrefix: "A" }, "lower-case letters"],
    [{ url: "postgres://h/d", maxConnections: 1 }, "2 or more"],
    [{ url: "postgres://h/d", pollMs: 0 }, "1 or more"],
    [{ url: "postgres://h/d", retryMs: -1 }, "0 or more"],
    [{ url: "postgres://h/d", endedAfterMs: 10 }, "500 or more"],
  ])("%j is refused: %s", (options, message) => {
    expect(() => postgresStorage(options)).toThrow(message);
    expect(() => postgresStorage(options)).not.toThrow("secret");
  });

  test("a pool of one connection is refused, unless no connection is kept", () => {
    const one = connectionPool(url, 1);
    expect(() => postgresStorage({ pool: one })).toThrow("pool must have 2 or more connections");
    expect(postgresStorage({ pool: one, transactionPooler: true }).name).toBe("postgres");
    expect(postgresStorage({ pool: one, readOnly: true }).name).toBe("postgres");
  });

  test("the name has neither user nor password", () => {
    expect(opened({ url: "postgres://user:secret@db.example:5433/app?x=secret" }).name).toBe(
      "postgres://db.example:5433/app",
    );
  });
});

describe("locks of a batch", () => {
  const row = { table: "contents", key: ["t", "digest"], tag: 0 } as const;
  const accept = (id: string) => ({ checks: [row], removals: [], puts: [{ ...session(id), tag: 1 }] });

  test("batches that only check a row do not wait for each other, but for one that writes it", async () => {
    const storage = opened({ schema: "shared_locks" });
    await storage.write(puts({ ...row, value: "" }));
    const other = await pool.connect();
    // What a batch that checks the row holds until it is committed.
    await other.query("BEGIN");
    await other.query("SELECT pg_advisory_xact_lock_shared(hashtextextended($1, 0))", [
      `shared_locks.everturn_${JSON.stringify(["contents", ...row.key])}`,
    ]);
    expect(await storage.write(accept("a"))).toEqual({ ok: true });
    let isWritten = false;
    const removal = storage
      .write({ checks: [], removals: [{ table: "contents", prefix: row.key }], puts: [] })
      .then(() => (isWritten = true));
    await eventually(async () => {
      const { rows } = await pool.query(
        "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%shared_locks%write%' AND wait_event = 'advisory'",
      );
      expect(rows.length).toBe(1);
    });
    expect(isWritten).toBe(false);
    await other.query("COMMIT");
    other.release();
    await removal;
    expect(await storage.write(accept("b"))).toEqual({ ok: false, check: 0 });
  });

  test("a batch that checks a row keeps it from being removed until the batch is committed", async () => {
    const schema = "checked_rows";
    const storage = opened({ schema });
    await storage.write(puts({ ...row, value: "" }, session("a")));
    const blocker = await pool.connect();
    // The batch has its locks and has evaluated its checks when it waits for this row.
    await blocker.query("BEGIN");
    await blocker.query(`SELECT 1 FROM "${schema}"."everturn_sessions" FOR UPDATE`);
    const order: string[] = [];
    const accepted = storage.write(accept("a")).then((written) => order.push(`accepted: ${written.ok}`));
    await waiting("Lock", "transactionid");
    const removed = storage
      .write({ checks: [], removals: [{ table: "contents", prefix: row.key }], puts: [] })
      .then(() => order.push("removed"));
    await waiting("Lock", "advisory");
    expect(order).toEqual([]);
    await blocker.query("COMMIT");
    blocker.release();
    await Promise.all([accepted, removed]);
    expect(order).toEqual(["accepted: true", "removed"]);
  });

  test("a lease that expires while a batch waits for its locks refuses the batch", async () => {
    const schema = "expired_in_line";
    const storage = opened({ schema });
    const lease = { table: "leases", key: ["t", "a"], tag: 1 } as const;
    await storage.write(puts({ ...lease, ttlMs: 400, value: "" }, session("a")));
    const blocker = await pool.connect();
    await blocker.query("BEGIN");
    await blocker.query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [
      `${schema}.everturn_${JSON.stringify(["t", "a"])}`,
    ]);
    const fenced = { checks: [{ ...lease, alive: true }], removals: [], puts: [session("a", 2)] };
    const written = storage.write(fenced);
    await waiting("Lock", "advisory");
    await eventually(async () => {
      const [[row_] = []] = await storage.read([{ table: "leases", prefix: lease.key }]);
      expect(row_?.remainingMs).toBeLessThanOrEqual(0);
    });
    await blocker.query("COMMIT");
    blocker.release();
    expect(await written).toEqual({ ok: false, check: 0 });
  });

  /** Waits until a statement of the storage waits for such a lock. */
  async function waiting(type: string, event: string): Promise<void> {
    await eventually(async () => {
      const { rows } = await pool.query(
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%everturn_write%' AND wait_event_type = $1 AND wait_event = $2",
        [type, event],
      );
      expect(rows.length).toBe(1);
    });
  }
});

describe("writes on disk", () => {
  /**
   * How much of what a write has logged is on disk when it resolves, from 0 to 1. The server flushes by itself every
   * ten seconds only.
   */
  async function flushedBy(storage: HostStorage, log: Pool, lasting: boolean, id: string): Promise<number> {
    const value = Array.from({ length: 2_000 }, (_, n) => createHash("sha256").update(`${id}${n}`).digest("hex")).join(
      "",
    );
    const positions = async () => {
      const { rows } = await log.query(
        "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn AS written, pg_current_wal_flush_lsn() - '0/0'::pg_lsn AS flushed",
      );
      return { written: Number(rows[0].written), flushed: Number(rows[0].flushed) };
    };
    const before = await positions();
    await storage.write({ ...puts(session(id, 1, value)), lasting });
    const after = await positions();
    return Math.max(0, after.flushed - before.written) / (after.written - before.written);
  }

  test("a write is on disk when it resolves, unless it need not last", async () => {
    const quiet = await startPostgres({ wal_writer_delay: "10000", autovacuum: "off" });
    cleanUps.push(quiet.close);
    const quietUrl = await quiet.createDatabase();
    const log = connectionPool(quietUrl, 1);
    cleanUps.push(() => log.end());
    for (const mode of ["function", "transaction"] as const) {
      const storage = opened({ url: quietUrl, mode });
      await storage.open();
      for (let count = 0; count < 3; count += 1) {
        expect(await flushedBy(storage, log, true, `${mode} ${count}`)).toBeGreaterThan(0.99);
      }
      // A relaxed write shows that the measurement tells the difference.
      if (mode === "function") {
        await eventually(async () => {
          expect(await flushedBy(storage, log, false, `relaxed ${Math.random()}`)).toBeLessThan(0.9);
        });
      }
      await storage.close();
    }
  }, 60_000);
});

describe("failures", () => {
  const port = () => new URL(url).port;

  test("a database that does not exist is named as the cause, without the password", async () => {
    const missing = opened({ url: `postgres://everturn:secret@127.0.0.1:${port()}/missing`, retryMs: 0 });
    const error = await rejection(missing.open());
    expect(error.message).toContain("has no such database. Nothing was written.");
    expect(JSON.stringify([error.message, error.failure.metadata, String(error.cause)])).not.toContain("secret");
  });

  test("a server that cannot be reached is tried for retryMs", async () => {
    const error = await rejection(opened({ url: "postgres://everturn@127.0.0.1:1/app", retryMs: 50 }).open());
    expect(error.reason).toBe("storage_failed");
    expect(error.message).toContain("could not be reached");
  });

  test("a user without privileges gets the advice", async () => {
    await pool.query("CREATE ROLE guest LOGIN");
    const guest = opened({ url: url.replace("everturn@", "guest@"), schema: "of_others" });
    expect((await rejection(guest.open())).message).toContain("Let the user create tables");
  });

  test("a key that is too long for an index is named as the cause", async () => {
    const id = Array.from({ length: 300 }, (_, index) => createHash("sha256").update(`${index}`).digest("hex")).join(
      "",
    );
    const error = await rejection(opened().write(puts(session(id))));
    expect(error.message).toContain("a key is too long");
    expect(error.reason).toBe("storage_failed");
  });

  test("a commit whose outcome the server does not know is reported as unknown and not tried again", async () => {
    const storage = opened({
      schema: "ambiguous",
      mode: "transaction",
      pool: ambiguousPool(),
      transactionPooler: true,
    });
    const error = await rejection(storage.write(puts(session("a"))));
    expect(error.failure.metadata).toMatchObject({ outcome: "unknown" });
    expect(storage.statistics().retries).toBe(0);
    expect(await sessionsOf(storage)).toEqual(["a"]);
  });

  /**
   * A pool whose server reports `statement_completion_unknown` for commits of serializable transactions, as distributed
   * databases do.
   */
  function ambiguousPool(): PostgresPool {
    return {
      connect: async () => {
        const connection = await pool.connect();
        let isSerializable = false;
        return {
          query: async (statement) => {
            if (statement.text.startsWith("BEGIN")) isSerializable = statement.text.includes("SERIALIZABLE");
            const result = await connection.query(statement);
            if (statement.text !== "COMMIT" || !isSerializable) return result;
            throw Object.assign(new Error("result is ambiguous"), { code: "40003" });
          },
          release: (destroy) => connection.release(destroy),
        };
      },
    };
  }

  test("an operation after close is refused", async () => {
    const storage = opened();
    await storage.open();
    await storage.close();
    expect((await rejection(storage.read([]))).message).toContain("is closed");
  });

  test("reads and writes go on after all idle connections were ended", async () => {
    const storage = opened({ schema: "ended_idle" });
    await storage.write(puts(session("a")));
    await terminate("application_name = 'everturn'");
    expect(await sessionsOf(storage)).toEqual(["a"]);
    await terminate("application_name = 'everturn'");
    // The pool may not know yet that a connection has ended. The outcome of a write over it is unknown, so the write is
    // not repeated by itself.
    await eventually(() => storage.write(puts(session("b"))));
    expect(await sessionsOf(storage)).toEqual(["a", "b"]);
  });

  test("a write whose connection ends while it waits for a lock is reported as unknown", async () => {
    const storage = opened({ schema: "lost_write" });
    await storage.write(puts(session("a")));
    const blocker = await pool.connect();
    await blocker.query("BEGIN");
    await blocker.query(`SELECT 1 FROM "lost_write"."everturn_sessions" FOR UPDATE`);
    const writing = rejection(storage.write(puts(session("a", 2))));
    await eventually(async () => {
      const { rows } = await pool.query(
        "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%lost_write%write%' AND wait_event_type = 'Lock'",
      );
      expect(rows.length).toBe(1);
    });
    await terminate("wait_event_type = 'Lock'");
    const error = await writing;
    await blocker.query("ROLLBACK");
    blocker.release();
    expect(error.message).toContain("The batch may have been written: read before you try again.");
    expect(error.failure.metadata["outcome"]).toBe("unknown");
    const [rows = []] = await storage.read([{ table: "sessions", prefix: ["t"] }]);
    expect(rows.map(({ tag }) => tag)).toEqual([1]);
  });

  test("a transaction whose connection ends before its commit is tried again", async () => {
    const storage = opened({ schema: "lost_transaction", mode: "transaction" });
    await storage.write(puts(session("a")));
    const blocker = await pool.connect();
    await blocker.query("BEGIN");
    await blocker.query(`SELECT 1 FROM "lost_transaction"."everturn_sessions" FOR UPDATE`);
    const writing = storage.write(puts(session("a", 2)));
    await eventually(async () => {
      const { rows } = await pool.query(
        "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%lost_transaction%' AND wait_event_type = 'Lock'",
      );
      expect(rows.length).toBe(1);
    });
    await terminate("wait_event_type = 'Lock'");
    await blocker.query("ROLLBACK");
    blocker.release();
    expect(await writing).toEqual({ ok: true });
    expect(storage.statistics().retries).toBeGreaterThan(0);
  });

  test("a serialization failure is tried again, and no update is lost", async () => {
    const storage = opened({ schema: "serialized", mode: "transaction" });
    await storage.write(puts(session("counter", 0)));
    const increment = async () => {
      for (;;) {
        const [[row] = []] = await storage.read([{ table: "sessions", prefix: ["t", "counter"] }]);
        const tag = row?.tag ?? 0;
        const check = { table: "sessions", key: ["t", "counter"], tag } as const;
        const written = await storage.write({ checks: [check], removals: [], puts: [session("counter", tag + 1)] });
        if (written.ok) return;
      }
    };
    await Promise.all(
      Array.from({ length: 8 }, async () => {
        for (let count = 0; count < 5; count += 1) await increment();
      }),
    );
    const [[row] = []] = await storage.read([{ table: "sessions", prefix: ["t", "counter"] }]);
    expect(row?.tag).toBe(40);
  });
});

describe.each(["function", "transaction"] as const)("a server that became read-only, in mode %s", (mode) => {
  const schema = `read_only_${mode}`;
  const counter = { table: "sessions", key: ["t", "a"] } as const;

  /**
   * A storage over a pool whose only connection leads to a read-only server, as after a failover. Connections that
   * replace it may write.
   */
  async function openedReadOnly(): Promise<PostgresStorage> {
    const own = connectionPool(url, 1);
    const storage = opened({ pool: own, schema, mode, transactionPooler: true, retryMs: 1_000 });
    cleanUps.push(() => own.end());
    await storage.write(puts(session("a", 1)));
    const connection = await own.connect();
    await connection.query("SET default_transaction_read_only = on");
    connection.release();
    return storage;
  }

  test("a write is tried again over another connection", async () => {
    const storage = await openedReadOnly();
    expect(await storage.write(puts(session("a", 2)))).toEqual({ ok: true });
    expect(storage.statistics().retries).toBe(1);
  });

  test("a failed check counts only if the server may write, because a standby may lag", async () => {
    const storage = await openedReadOnly();
    const batch = { checks: [{ ...counter, tag: 7 }], removals: [], puts: [session("a", 8)] };
    expect(await storage.write(batch)).toEqual({ ok: false, check: 0 });
    expect(storage.statistics().retries).toBe(1);
  });

  test("a read is tried again over another connection, because a standby may lag", async () => {
    const storage = await openedReadOnly();
    expect(await sessionsOf(storage)).toEqual(["a"]);
    expect(storage.statistics().retries).toBe(1);
  });

  test("an operation rejects after retryMs, and nothing was written", async () => {
    await opened({ schema, mode }).open();
    const options = encodeURIComponent("-c default_transaction_read_only=on");
    const storage = opened({ url: `${url}?options=${options}`, schema, mode, retryMs: 20 });
    const operations = [storage.write(puts(session("b"))), storage.read([{ table: "sessions", prefix: [] }])];
    for (const error of await Promise.all(operations.map(rejection))) {
      expect(error.reason).toBe("storage_busy");
      expect(error.message).toContain("is read-only, as a standby is. Nothing was written. Connect to the primary");
    }
  });
});

test("a connection that ends while it is taken from the pool does not end the process", async () => {
  /**
   * A connection that ends before each statement. `emit` throws the error if it has no listener, as it would in the
   * event loop.
   */
  class EndedConnection extends EventEmitter {
    query(): Promise<PostgresResult> {
      this.emit("error", new Error("the connection has ended"));
      const existing = Object.entries(tables).map(([table, columns]) => ({
        name: `everturn_${table}`,
        key: columns.map(({ name }) => name).join(", "),
      }));
      return Promise.resolve({ rows: [{ version: String(schemaVersion) }, ...existing] });
    }
    release(): void {
      this.removeAllListeners();
    }
  }
  const storage = opened({ pool: { connect: async () => new EndedConnection() }, transactionPooler: true });
  await storage.open();
});

describe("writes of other processes", () => {
  test("are notified with the names of sessions and tables", async () => {
    const schema = "notified";
    const [writer, reader] = [opened({ schema }), opened({ schema })];
    await Promise.all([writer.open(), reader.open()]);
    const received: (readonly (readonly string[] | undefined)[])[] = [];
    const unwatch = reader.watch((sessions, written) =>
      received.push([
        sessions === undefined ? undefined : [...sessions],
        written === undefined ? undefined : [...written],
      ]),
    );
    await writer.write(puts(session("a"), { table: "entries", key: ["t", "a", 1], tag: 0, value: "" }));
    await eventually(() => expect(received).toContainEqual([['["t","a"]'], ["sessions", "entries"]]));
    unwatch();
    expect(writer.statistics().notificationsSent).toBe(1);
    expect(reader.statistics().notificationsReceived).toBe(1);
  });

  test("are bundled: at most one notification in 25 ms", async () => {
    const schema = "bundled";
    const writer = opened({ schema });
    await writer.open();
    const began = performance.now();
    for (let count = 0; count < 50; count += 1) await writer.write(puts(session("a", count)));
    await writer.close();
    const most = Math.ceil((performance.now() - began) / 25) + 1;
    expect(writer.statistics().notificationsSent).toBeGreaterThan(0);
    expect(writer.statistics().notificationsSent).toBeLessThanOrEqual(most);
  });

  test("are found by polling when the connection cannot listen", async () => {
    const schema = "polled";
    const [writer, reader] = [opened({ schema }), opened({ schema, transactionPooler: true, pollMs: 10 })];
    await reader.open();
    let calls = 0;
    const unwatch = reader.watch(() => void (calls += 1));
    await writer.write(puts(session("a")));
    await eventually(() => expect(calls).toBeGreaterThan(0));
    unwatch();
    expect(reader.statistics().notificationsReceived).toBe(0);
  });

  test("are replaced by polling every 100 ms if the client cannot report them, without a connection that is kept", async () => {
    const client = postgres(url, { max: 2 });
    let connections = 0;
    const counted: PostgresPool = {
      connect: () => {
        connections += 1;
        return postgresJsPool(client).connect();
      },
    };
    const clock = handClock();
    const reader = postgresStorage({ pool: counted, schema: "deaf", clock });
    await reader.open();
    let reports = 0;
    const unwatch = reader.watch(() => void (reports += 1));
    const before = connections;
    for (let count = 0; count < 10; count += 1) await clock.advance(100);
    await reader.read([{ table: "sessions", prefix: [] }]);
    // Ten polls and the read, and no attempts to listen.
    expect(connections - before).toBe(11);
    await opened({ schema: "deaf" }).write(puts(session("a")));
    const reported = reports;
    await eventually(async () => {
      await clock.advance(100);
      expect(reports).toBeGreaterThan(reported);
    });
    unwatch();
    await reader.close();
    await client.end();
  });

  test("that were missed while the connection was down count as a write when it is back", async () => {
    const reader = opened({ schema: "missed", pollMs: 600_000 });
    await reader.open();
    let unknown = 0;
    const unwatch = reader.watch((sessions) => void (sessions === undefined ? (unknown += 1) : 0));
    await eventually(async () => {
      await terminate("query LIKE 'SELECT pg_advisory_lock%'");
      expect(unknown).toBeGreaterThan(0);
    });
    unwatch();
  });
});

describe("ended processes", () => {
  test("a process counts as ended when its connection has been closed for endedAfterMs, and not before", async () => {
    const schema = "ended";
    const clock = handClock();
    const [one, other] = [opened({ schema }), opened({ schema, endedAfterMs: 600, clock })];
    await Promise.all([one.open(), other.open()]);
    let reports = 0;
    const stop = other.liveness?.onEnded?.(() => (reports += 1));
    const process = one.liveness?.process ?? "";
    expect(process).not.toBe("");
    /** Lets time pass, and a statement of the storage take effect. */
    const pass = async () => {
      await clock.advance(100);
      // Attempts run on a connection of their own, whose answers this statement does not wait for.
      await pool.query("SELECT pg_sleep(0.01)");
      return other.liveness?.hasEnded(process);
    };
    for (let count = 0; count < 20; count += 1) expect(await pass()).toBe(false);
    await one.close();
    const before = clock.now();
    await eventually(async () => expect(await pass()).toBe(true));
    expect(clock.now() - before).toBeGreaterThanOrEqual(600);
    expect(reports).toBe(1);
    stop?.();
  });

  test("a process is known by its notifications, so it is recognised although no other process has asked about it", async () => {
    const schema = "ended";
    const [one, other] = [opened({ schema }), opened({ schema })];
    await Promise.all([one.open(), other.open()]);
    // Asking about any process begins to try the locks.
    expect(other.liveness?.hasEnded("another process")).toBe(false);
    const reported = new Promise<void>((resolve) => other.liveness?.onEnded?.(resolve));
    await eventually(async () => {
      await one.write({ checks: [], removals: [], puts: [{ table: "sessions", key: ["", "s"], tag: 1, value: "" }] });
      expect(other.statistics().notificationsReceived).toBeGreaterThan(0);
    });
    const process = one.liveness?.process ?? "";
    await one.close();
    await eventually(() => expect(other.liveness?.hasEnded(process)).toBe(true));
    await reported;
  });

  test("a process whose connection is lost and opened again is never reported as ended", async () => {
    const schema = "ended";
    const [one, other] = [opened({ schema }), opened({ schema })];
    await Promise.all([one.open(), other.open()]);
    one.watch(() => undefined);
    const process = one.liveness?.process ?? "";
    expect(other.liveness?.hasEnded(process)).toBe(false);
    const identities: (string | null | undefined)[] = [];
    for (let count = 0; count < 5; count += 1) {
      await terminate("query LIKE 'SELECT pg_advisory_lock%'");
      for (let look = 0; look < 15; look += 1) {
        await pool.query("SELECT pg_sleep(0.01)");
        identities.push(one.liveness?.process);
        expect(other.liveness?.hasEnded(process)).toBe(false);
      }
    }
    // The connection is opened again within the time that others wait, so leases that are claimed meanwhile name the
    // process, too.
    expect(new Set(identities)).toEqual(new Set([process]));
  });

  test("what was observed before a connection was lost does not count after it", async () => {
    const schema = "ended";
    const clock = handClock();
    const [one, another, other] = [
      opened({ schema }),
      opened({ schema }),
      opened({ schema, endedAfterMs: 600, clock }),
    ];
    await Promise.all([one.open(), another.open(), other.open()]);
    let reconnections = 0;
    other.watch((sessions) => void (sessions === undefined ? (reconnections += 1) : 0));
    const processes = [one, another].map(({ liveness }) => liveness?.process ?? "");
    const hasEnded = () => processes.map((process) => other.liveness?.hasEnded(process));
    const pass = async () => {
      await clock.advance(100);
      await pool.query("SELECT pg_sleep(0.01)");
      return hasEnded();
    };
    for (let count = 0; count < 5; count += 1) expect(await pass()).toEqual([false, false]);
    await one.close();
    await eventually(async () => expect(await pass()).toEqual([true, false]));
    // The lock of the second process has been free for most of the time when the connection is lost.
    await another.close();
    for (let count = 0; count < 5; count += 1) expect(await pass()).toEqual([true, false]);
    const before = reconnections;
    await terminate("query LIKE '%AS free%'");
    await eventually(() => expect(reconnections).toBeGreaterThan(before));
    expect(hasEnded()).toEqual([false, false]);
    // One interval for the other processes to connect again, and one in which their locks stay free.
    const lost = clock.now();
    await eventually(async () => expect(await pass()).toContain(true));
    expect(clock.now() - lost).toBeGreaterThanOrEqual(1_200);
  });

  test("a lease is not read, and so not claimed, before the process has its identity", async () => {
    const storage = opened({ schema: "ended" });
    expect(storage.liveness?.process).toBe(null);
    await storage.read([{ table: "leases", prefix: ["", "s"] }]);
    expect(storage.liveness?.process).not.toBe(null);
  });

  test("a process has no identity while it is not connected, and never counts itself as ended", async () => {
    const storage = opened({ schema: "ended" });
    expect(storage.liveness?.process).toBe(null);
    await storage.open();
    const process = storage.liveness?.process ?? "";
    expect(storage.liveness?.hasEnded(process)).toBe(false);
    await storage.close();
    expect(storage.liveness?.process).toBe(null);
  });

  test("a pooler that shares connections has no liveness", () => {
    expect(opened({ transactionPooler: true }).liveness).toBe(undefined);
    expect(opened({ mode: "transaction" }).liveness).toBe(undefined);
    expect(opened({ endedAfterMs: null }).liveness).toBe(undefined);
  });
});

test.each([5_000, 3_600_000, -3_600_000])(
  "a process whose clock is %d ms ahead of the server accepts turns that are due at once, and finds those of others",
  async (ms) => {
    const done = { type: "text", text: "Done." } as const;
    const skewed = { ...systemClock, now: () => systemClock.now() + ms };
    const storage = opened({ schema: `skewed_${ms < 0 ? "behind" : ms}` });
    await storage.open();
    const engines = {
      default: engine({ adapter: fake({ scripts: [[done], [done]] }), model: "fake:m" }),
    };
    const processes = [skewed, systemClock].map((clock) => ({
      accepts: runtime({ host: storage, engines, clock, live: false, drive: false }),
      works: runtime({ host: storage, engines, clock, live: false }),
    }));
    for (const [index, { accepts }] of processes.entries()) {
      const turn = await accepts.start("hi", { id: `s${index}` });
      const [[row] = []] = await storage.read([{ table: "work", prefix: ["turn"] }]);
      expect(Math.abs(Number(row?.key[3]) - systemClock.now())).toBeLessThan(4_000);
      expect(await processes[1 - index]?.works.recover()).toMatchObject({ pickedUp: 1 });
      expect((await turn.result).text).toBe("Done.");
    }
  },
);

describe("a process that holds the result of a tool", () => {
  /** Runs a turn whose commit of the tool result waits for a table that another connection has locked. */
  async function run(storage: PostgresStorage, schema: string, disturb: () => Promise<unknown>) {
    const blocker = await pool.connect();
    let runs = 0;
    const pay = tool({
      name: "pay",
      description: "Pays.",
      schema: { type: "object" },
      handler: async () => {
        runs += 1;
        await blocker.query("BEGIN");
        await blocker.query(`LOCK TABLE "${schema}"."everturn_journal"`);
        return "paid";
      },
    });
    const adapter = fake({ scripts: [[{ type: "tool_call", name: "pay" }], [{ type: "text", text: "Done." }]] });
    const agent = engine({ adapter, model: "fake:m", tools: [pay] });
    const sessions = runtime({ host: storage, engines: { default: agent }, live: false });
    try {
      const turn = await sessions.start("hi", { id: "s1" });
      await disturb();
      await blocker.query("COMMIT");
      const { text } = await turn.result;
      return { text, runs, calls: adapter.calls.length };
    } finally {
      blocker.release();
      await sessions.close();
    }
  }

  test("commits it when the statement no longer exceeds statement_timeout", async () => {
    const schema = "held_timeout";
    await opened({ schema }).open();
    // Long enough for every other statement on a busy machine.
    const options = encodeURIComponent("-c statement_timeout=1000");
    const storage = opened({ url: `${url}?options=${options}`, schema, retryMs: 20 });
    let refusals = 0;
    const counted: PostgresStorage = {
      ...storage,
      write: (batch) =>
        storage.write(batch).catch((error: unknown) => {
          refusals += 1;
          throw error;
        }),
    };
    const disturb = () => eventually(() => expect(refusals).toBeGreaterThan(1));
    expect(await run(counted, schema, disturb)).toEqual({ text: "Done.", runs: 1, calls: 2 });
  });

  test("commits it after the connection ended while the commit ran", async () => {
    const schema = "held_ended";
    const storage = opened({ schema, retryMs: 20 });
    await storage.open();
    const disturb = async () => {
      for (let count = 0; count < 3; count += 1) {
        await eventually(async () => {
          const { rows } = await pool.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'everturn' AND wait_event_type = 'Lock' AND wait_event = 'relation'",
          );
          expect(rows.length).toBeGreaterThan(0);
        });
      }
    };
    expect(await run(storage, schema, disturb)).toEqual({ text: "Done.", runs: 1, calls: 2 });
  });
});

test("processes share a rate limit and a response cache", async () => {
  const schema = "middleware";
  const sent: string[] = [];
  const agents = [0, 1].map((process) => {
    const storage = opened({ schema });
    const adapter = fake({ scripts: Array.from({ length: 30 }, () => [{ type: "text", text: `from ${process}` }]) });
    const counted = {
      ...adapter,
      stream: (...args: Parameters<typeof adapter.stream>) => {
        sent.push(`from ${process}`);
        return adapter.stream(...args);
      },
    };
    const middleware = [responseCache({ storage }), rateLimit({ requestsPerMinute: 6, storage, maxWaitMs: 1 })];
    return engine({ adapter: counted, model: "fake:m", middleware, retry: false });
  });
  const asked = Array.from({ length: 20 }, (_, n) => chat(agents[n % 2] ?? engine(), `question ${n}`));
  const ended = await Promise.allSettled(asked);
  expect(sent).toHaveLength(6);
  // A reply of one process answers the question in the other one, without counting.
  const index = ended.findIndex(({ status }) => status === "fulfilled");
  const again = await chat(agents[(index + 1) % 2] ?? engine(), `question ${index}`);
  expect(again.finalResponse).toMatchObject({ outputText: `from ${index % 2}`, metadata: { responseCache: "hit" } });
  expect(sent).toHaveLength(6);
});

test("[H7] a simulation runs as in memory", async () => {
  const { open, close } = simulatedStorage(await server.createDatabase());
  try {
    const { violations } = await simulateAsInMemory({ seed: 14, operations: 10, storage: open });
    expect(violations).toEqual([]);
  } finally {
    await close();
  }
}, 60_000);

test.each(["function", "transaction"] as const)(
  "limits of turns hold for two processes, mode %s",
  async (mode) => {
    const storages = [0, 1].map(() => opened({ schema: `limits_${mode}`, mode }));
    await storages[0]?.open();
    const limits = { engines: { default: { concurrency: 3 } }, perLimitKey: { concurrency: 1 } };
    const run = await runLimited(storages, { turns: 10, users: 4, limits });
    expect(run).toMatchObject({ peakOfUser: 1, calls: 10, completed: 10, left: 0 });
    expect(run.peak).toBeLessThanOrEqual(3);
  },
  60_000,
);
