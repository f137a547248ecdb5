// Writes the database that the current sources leave, under the version of stored data: `npm run museum:database`. Run
// it at a release that raised the version, commit the file it adds, and never change or delete one that is there:
// `database.test.ts` opens the file of every version and finishes its sessions. With a path it writes there instead, to
// compare what the current sources write with what a release wrote.

import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { storedVersion } from "everturn/advanced";
import Database from "libsql";

import { dumpDatabase } from "./dump.ts";
import { engineNames } from "./engines.ts";
import { Museum } from "./museum.ts";
import { leave } from "./sessions.ts";

const root = join(import.meta.dirname, "../../../..");
const { version }: { readonly version: string } = JSON.parse(await readFile(join(root, "lib/package.json"), "utf8"));

// Ids of turns and tokens come from the platform's random bytes. They are counted here, so that a second run writes the
// same file.
let drawn = 0;
Object.defineProperty(crypto, "getRandomValues", {
  value: (bytes: Uint8Array): Uint8Array => {
    drawn += 1;
    return bytes.fill(0).map((_, index) => (index < 4 ? (drawn >>> (8 * (3 - index))) & 0xff : 0));
  },
});

const folder = await mkdtemp(join(tmpdir(), "everturn-museum-"));
const database = new Database(join(folder, "museum.db"));
const museum = new Museum(database);
await museum.begin();
const performed: { [engine: string]: { [effect: string]: number } } = {};
for (const name of engineNames) {
  const before = museum.processes.length;
  await leave[name](museum);
  await museum.clock.advance(1000);
  for (const { probe, cut } of museum.processes.slice(before)) {
    cut();
    for (const [engine, counts] of Object.entries(probe.performed)) {
      const sums = (performed[engine] ??= {});
      for (const [effect, count] of Object.entries(counts)) sums[effect] = (sums[effect] ?? 0) + count;
    }
  }
  console.log(name, JSON.stringify(performed[name] ?? {}));
}
const { clock, tokens } = museum;
const header = { release: version, version: storedVersion, now: clock.now(), sessions: engineNames, performed, tokens };
const file = process.argv[2] ?? join(import.meta.dirname, `v${storedVersion}.jsonl`);
await writeFile(file, dumpDatabase(database, header), { flag: "wx" });
database.close();
await rm(folder, { recursive: true });
console.log(`${file} written`);
// The promises of killed processes never settle, so the process has to exit explicitly.
process.exit(0);
