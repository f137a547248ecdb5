// Runs the tests of faults, which use the storage in memory in `npm test`, on SQLite and on a real Postgres server
// (`test/runtime/world-storage.ts`).

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";

import { startPostgres } from "../postgres-server.ts";

const root = join(import.meta.dirname, "../../..");

/** Tests of one fault each, of processes that end, pause or lose their storage. */
const tests = [
  "crashing-turn",
  "lease-takeover",
  "slow-writes",
  "storage-failures",
  "turn-failures",
  "cancel-grace",
  "close",
  "accept/queued-messages",
  "accept/idempotency",
  "drive/held-results",
  "drive/session-claims",
  "drive/turn-committer",
  "rows/storage-clock",
  "work/recover",
  "work/retention",
].map((name) => `lib/src/durable/${name}.test.ts`);

// Vitest ignores names of files that do not exist.
const missing = tests.filter((path) => !existsSync(join(root, path)));
if (missing.length > 0) throw new Error(`these tests do not exist: ${missing.join(", ")}`);

/** Runs the tests on a storage. Returns whether they pass. */
async function pass(name: string, storage: string): Promise<boolean> {
  console.log(`\n-- on ${name}\n`);
  const child = spawn(
    join(root, "node_modules/.bin/vitest"),
    ["run", "--project", "all", "--testTimeout=900000", ...tests],
    {
      cwd: root,
      stdio: "inherit",
      env: { ...process.env, EVERTURN_TEST_SETUP: "none", EVERTURN_WORLD_STORAGE: storage },
    },
  );
  const [code] = await once(child, "exit");
  return code === 0;
}

const server = await startPostgres({ max_connections: "200" });
try {
  const results = [await pass("SQLite", "sqlite"), await pass("Postgres", await server.createDatabase())];
  process.exitCode = results.every(Boolean) ? 0 : 1;
} finally {
  await server.close();
}
