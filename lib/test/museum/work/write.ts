// Writes the work that the current sources leave, on SQLite and on Postgres, under the version of stored data. Part of
// `npm run museum:database`: see `database/write.ts`. For a release that lacks this file, copy the folder into its
// checkout.

import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { postgresStorage } from "everturn/postgres";
import { sqliteStorage } from "everturn/sqlite";
import { storedVersion } from "everturn/advanced";
import Libsql from "libsql";
import { Client } from "pg";

import { startPostgres } from "../../postgres-server.ts";
import { dumpDatabase } from "../database/dump.ts";
import { leave } from "./leave.ts";
import { dumpPostgres } from "./tables.ts";

const root = join(import.meta.dirname, "../../../..");
const { version }: { readonly version: string } = JSON.parse(await readFile(join(root, "lib/package.json"), "utf8"));
const header = { release: version, version: storedVersion, now: 0, sessions: [], performed: {}, tokens: {} };
const target = process.argv[2] ?? import.meta.dirname;

async function write(storage: string, dump: string): Promise<void> {
  const file = join(target, `v${storedVersion}.${storage}.jsonl`);
  await writeFile(file, dump, { flag: "wx" });
  console.log(`${file} written`);
}

const folder = await mkdtemp(join(tmpdir(), "everturn-museum-"));
const database = new Libsql(join(folder, "museum.db"));
await leave(sqliteStorage(database));
await write("sqlite", dumpDatabase(database, header));
database.close();
await rm(folder, { recursive: true });

const server = await startPostgres();
const url = await server.createDatabase();
await leave(postgresStorage({ url }));
const client = new Client({ connectionString: url });
await client.connect();
await write("postgres", await dumpPostgres(client, header));
await client.end();
await server.close();
// The promises of killed processes never settle, so the process has to exit explicitly.
process.exit(0);
