// S1: the current sources open the databases of older releases on Postgres, with the tables that those releases had,
// and finish their open turns.

import type { PostgresServer } from "../postgres-server.ts";
import type { SessionSummary } from "everturn/runtime";

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { engine, fake } from "everturn";
import { postgresStorage } from "everturn/postgres";
import { finalizeStorage, runtime } from "everturn/runtime";
import { handClock } from "everturn/testing";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { storedVersion } from "../../src/core/model/internal.ts";
import { firstFormat } from "../../src/durable/rows/format-row.ts";
import { connectionTo, startPostgres } from "../postgres-server.ts";
import { cutProcess } from "./database/cut-process.ts";
import { dumpHeader, dumpLines } from "./database/dump.ts";
import { passTime } from "./database/ending.ts";
import { leaseMs } from "./database/museum.ts";

const folder = join(import.meta.dirname, "database");
const dumps = readdirSync(folder)
  .filter((name) => name.endsWith(".jsonl"))
  .map((name) => ({ name, dump: readFileSync(join(folder, name), "utf8") }));

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
}, 60_000);
afterAll(() => server.close());

/**
 * Creates a Postgres database with the tables of a dump, with its rows unless `hasRows` is `false`, and with the first
 * version of the layout.
 */
async function restored(dump: string, hasRows = true): Promise<string> {
  const url = await server.createDatabase();
  const client = connectionTo(url);
  await client.connect();
  for (const line of dumpLines(dump)) {
    if ("sql" in line) {
      await client.query(
        line.sql.replace(/ STRICT$/, "").replaceAll("INTEGER", "bigint").replaceAll("TEXT", 'text COLLATE "C"'),
      );
    } else if (hasRows && line.table !== "everturn_schema") {
      const places = line.row.map((_, index) => `$${index + 1}`);
      await client.query(`INSERT INTO "${line.table}" VALUES (${places.join(", ")})`, [...line.row]);
    }
  }
  await client.query("INSERT INTO everturn_schema VALUES (1, 1)");
  await client.end();
  return url;
}

describe.each(dumps)("the database $name on Postgres", ({ dump }) => {
  test("is opened, lists every session, and one process finishes all open turns", async () => {
    const { now, sessions: names } = dumpHeader(dump);
    const storage = postgresStorage({ url: await restored(dump) });
    const clock = handClock();
    await clock.advance(now + leaseMs);
    const { sessions } = cutProcess(storage, clock, "current");
    const listed = async () => (await sessions.list({ limit: 100 })).items;
    const before = await listed();
    // The session `accepted` of the tenant `acme`, and sessions without a message, are not in the list.
    expect(before.length).toBeGreaterThan(names.length / 2);
    for (const { id } of before) {
      const { items } = await sessions.messages(id, { limit: 100 });
      expect((await sessions.get(id))?.session.thread.messages).toEqual(items);
    }
    // Both lists are read from indexes that the older release did not have.
    expect((await sessions.list({ status: "waiting" })).items.length).toBeGreaterThan(3);
    expect((await sessions.list({ status: "parked" })).items.length).toBe(2);
    const isOpen = ({ turnId, status }: SessionSummary) => turnId !== null && status !== "error";
    const open = before.filter(isOpen);
    expect(open.length).toBeGreaterThan(10);
    expect(await sessions.recover()).toMatchObject({ pickedUp: open.length });
    await passTime(clock, async () => !(await listed()).some(isOpen));
    await sessions.close();
    await storage.close();
  }, 60_000);
});

describe.each(dumps.filter(({ dump }) => dumpHeader(dump).version < storedVersion))(
  "the tables of $name without rows on Postgres",
  ({ dump }) => {
    test("keep the format that their release reads, until the database is finalized", async () => {
      const url = await restored(dump, false);
      // The first process completes the tables and ends before it writes.
      const first = postgresStorage({ url });
      await first.read([{ table: "sessions", prefix: [] }]);
      await first.close();
      const storage = postgresStorage({ url });
      const agent = engine({ adapter: fake({ script: [{ type: "text", text: "Yes." }] }), model: "fake:m" });
      const sessions = runtime({ host: storage, engines: { default: agent }, live: false });
      await (await sessions.start("Hello?", { id: "s" })).result;
      await sessions.close();
      const [turns = [], entries = []] = await storage.read([
        { table: "turns", prefix: ["", "s"] },
        { table: "entries", prefix: ["", "s"] },
      ]);
      const versions = [...turns, ...entries].map(({ value }): number => JSON.parse(value).version);
      expect(versions).toEqual([firstFormat, firstFormat, firstFormat]);
      expect(await finalizeStorage(storage)).toEqual({ status: "finalized", from: firstFormat, to: storedVersion });
      await storage.close();
    }, 60_000);
  },
);
