// A transaction pooler in front of the server that the options do not declare: recognised and refused, because the lock
// by which processes see that another one lives belongs to a session of the server, and a pooler gives the sessions of
// one client to others.

import type { PostgresServer } from "../../../../test/postgres-server.ts";
import type { PostgresOptions, PostgresPool, PostgresStorage } from "everturn/postgres";

import { RuntimeError } from "everturn";
import { postgresStorage } from "everturn/postgres";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";

import { eventually } from "../../../../test/eventually.ts";
import { connectionPool, connectionTo, startPostgres } from "../../../../test/postgres-server.ts";
import { startTcpProxy } from "../../../../test/tcp-proxy.ts";
import { startTransactionPooler } from "../../../../test/transaction-pooler.ts";

let server: PostgresServer;
let url = "";

beforeAll(async () => {
  server = await startPostgres();
  url = await server.createDatabase();
}, 60_000);

afterAll(() => server.close());

const cleanUps: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

function opened(options: PostgresOptions): PostgresStorage {
  const storage = postgresStorage({ retryMs: 1_000, ...options });
  cleanUps.push(() => storage.close());
  return storage;
}

/** The URL of the database at another port. */
function at(port: number): string {
  const other = new URL(url);
  other.port = String(port);
  return other.href;
}

async function startPooler(...[options]: readonly Parameters<typeof startTransactionPooler>[1][]) {
  const { pathname, port, username } = new URL(url);
  const target = { port: Number(port), user: username, database: pathname.slice(1) };
  const pooler = await startTransactionPooler(target, options);
  cleanUps.push(pooler.close);
  return pooler;
}

const leases = [{ table: "leases", prefix: ["", "s"] }] as const;
const put = (id: string) => ({
  checks: [],
  removals: [],
  puts: [{ table: "sessions", key: ["", id], tag: 1, value: "" } as const],
});

async function refusal(operation: Promise<unknown>): Promise<string> {
  const error: unknown = await operation.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  return error instanceof RuntimeError ? `${error.reason}: ${error.message}` : `not refused: ${String(error)}`;
}

const sentence = /^storage_failed: .*pooler.*[Ss]et transactionPooler: true/;

test.each([
  { order: "last", size: 1 },
  { order: "last", size: 20 },
  { order: "round_robin", size: 2 },
  { order: "round_robin", size: 20 },
] as const)("a pooler that is not declared is refused: %o", async (options) => {
  const storage = opened({ url: at((await startPooler(options)).port) });
  expect(await refusal(storage.open())).toMatch(sentence);
  expect(await refusal(storage.open())).toMatch(sentence);
  expect(await refusal(storage.read(leases))).toMatch(sentence);
  expect(storage.liveness?.process).toBe(null);
});

test("a pooler is refused before a lease is read, also if the storage was not opened", async () => {
  const storage = opened({ url: at((await startPooler()).port) });
  expect(await refusal(storage.read(leases))).toMatch(sentence);
});

test("a pooler is refused although other clients use its connections", async () => {
  const { port } = await startPooler({ size: 4 });
  const clients = Array.from({ length: 3 }, () => connectionTo(at(port)));
  const end = new AbortController();
  const traffic = clients.map(async (client) => {
    await client.connect();
    while (!end.signal.aborted) await client.query("SELECT pg_sleep(0.001)");
    await client.end();
  });
  for (let count = 0; count < 5; count += 1) {
    expect(await refusal(opened({ url: at(port) }).open())).toMatch(sentence);
  }
  end.abort();
  await Promise.all(traffic);
});

test("a pooler that is declared is used, without recognition of ended processes", async () => {
  const { port } = await startPooler();
  const storage = opened({ url: at(port), transactionPooler: true });
  await storage.open();
  expect(storage.liveness).toBe(undefined);
  expect(await storage.write(put("a"))).toEqual({ ok: true });
  expect(await storage.read(leases)).toEqual([[]]);
});

test("no state of a session is left in the pooler's connections", async () => {
  const { port } = await startPooler();
  await refusal(opened({ url: at(port) }).open());
  const client = connectionTo(url);
  await client.connect();
  const { rows } = await client.query("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'");
  await client.end();
  expect(rows).toEqual([]);
});

test("a pooler that is put in between while the process runs is noticed when it connects again; writes go on", async () => {
  const proxy = await startTcpProxy(server.port);
  cleanUps.push(proxy.close);
  const [storage, other] = [opened({ url: at(proxy.port) }), opened({ url })];
  await Promise.all([storage.open(), other.open()]);
  storage.watch(() => undefined);
  expect(storage.liveness?.process).not.toBe(null);
  proxy.redirect((await startPooler()).port);
  await eventually(async () => expect(await refusal(storage.read(leases))).toMatch(sentence));
  expect(storage.liveness?.process).toBe(null);
  // Turns in flight settle what they hold.
  expect(await storage.write(put("b"))).toEqual({ ok: true });
});

test("a session of the server that changes while the process runs is noticed by the next statement", async () => {
  const pool = connectionPool(url, 8);
  cleanUps.push(() => pool.end());
  let isPooled = false;
  // The statements of each connection go over another one once `isPooled` is set.
  const switching: PostgresPool = {
    connect: async () => {
      const [first, second] = [await pool.connect(), await pool.connect()];
      return {
        query: (statement) => (isPooled ? second : first).query(statement),
        release: () => {
          first.release(true);
          second.release(true);
        },
        on: first.on.bind(first),
      };
    },
  };
  const storage = opened({ pool: switching, schema: "switched" });
  await storage.open();
  expect(await storage.read(leases)).toEqual([[]]);
  isPooled = true;
  await storage.write(put("a"));
  await eventually(async () => expect(await refusal(storage.read(leases))).toMatch(sentence));
  expect(storage.liveness?.process).toBe(null);
});
