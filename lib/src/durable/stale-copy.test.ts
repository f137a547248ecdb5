// A failover to a copy of the database that lacks the newest writes: an asynchronous standby that was promoted, or a
// restored backup. A process that claimed a session before the failover is fenced, although the copy gives the same
// epoch to the next claim (H3).

import type { HostStorage } from "everturn/runtime";

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { engine } from "everturn";
import { storageTables } from "everturn/advanced";
import { postgresStorage } from "everturn/postgres";
import { memoryStorage, runtime } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";
import Libsql from "libsql";
import { afterEach, expect, test } from "vitest";

import { handModel } from "../../test/hand-model.ts";
import { startPostgres } from "../../test/postgres-server.ts";
import { everything } from "../../test/shared-storage.ts";

const cleanUps: (() => void | Promise<void>)[] = [];

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

function sqliteFile(): HostStorage {
  const folder = mkdtempSync(join(tmpdir(), "everturn-copy-"));
  cleanUps.push(() => rmSync(folder, { recursive: true }));
  const database = new Libsql(join(folder, "test.db"));
  cleanUps.push(() => void database.close());
  return sqliteStorage(database, { pollMs: 2, synchronous: "normal" });
}

/** Two databases of one server. */
async function inPostgres(): Promise<readonly [HostStorage, HostStorage]> {
  const server = await startPostgres();
  cleanUps.push(() => server.close());
  const open = async (): Promise<HostStorage> => {
    const storage = postgresStorage({ url: await server.createDatabase() });
    cleanUps.push(() => storage.close());
    return storage;
  };
  return [await open(), await open()];
}

/** Writes all rows of a storage to an empty one. */
async function copy(from: HostStorage, to: HostStorage): Promise<void> {
  for (const table of tableNames()) {
    const [rows = []] = await from.read([{ table, prefix: [] }]);
    const puts = rows.map(({ key, tag, value }) => ({ table, key, tag, value }));
    await to.write({ checks: [], removals: [], puts });
  }
}

function tableNames() {
  return Object.keys(storageTables).filter((name): name is keyof typeof storageTables =>
    Object.hasOwn(storageTables, name),
  );
}

/** A connection that leads to the primary until the failover, then to the copy. */
function failingOver(primary: HostStorage, standby: HostStorage) {
  let current = primary;
  const host: HostStorage = {
    ...primary,
    read: (queries) => current.read(queries),
    write: (batch) => current.write(batch),
  };
  return { host, failOver: () => (current = standby) };
}

test.each([
  ["memory", async () => [memoryStorage(), memoryStorage()] as const],
  ["SQLite", async () => [sqliteFile(), sqliteFile()] as const],
  ["Postgres", inPostgres],
])("a process that claimed the session before the failover writes nothing to the copy (%s)", async (_, open) => {
  const [primary, standby] = await open();
  const model = handModel();
  const engines = { default: engine({ adapter: model, model: "hand:m" }) };
  const { turnId } = await runtime({ host: primary, engines, drive: false }).start("Go.", { id: "s" });
  await copy(primary, standby);
  const { host, failOver } = failingOver(primary, standby);
  const stale = runtime({ host, engines, owner: "stale" });
  expect(await stale.recover()).toMatchObject({ pickedUp: 1 });
  const lost = await model.call(1);
  failOver();
  const next = runtime({ host: standby, engines, owner: "next" });
  expect(await next.recover()).toMatchObject({ pickedUp: 1 });
  const again = await model.call(2);
  const before = await everything(standby);
  await lost.say("From before the failover.");
  lost.finish();
  await stale.close();
  const { pieces: _pieces, ...written } = await everything(standby);
  const { pieces: _before, ...expected } = before;
  expect(written).toEqual(expected);
  await again.say("From the copy.");
  again.finish();
  expect(await next.attach("s", turnId).result).toMatchObject({ status: "ended", text: "From the copy." });
  await next.close();
});
