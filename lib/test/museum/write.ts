// Writes the samples into the folder of the current version. Existing files are not changed: a new type is added to the
// folder, and a change of an existing one requires a new version. A folder that was never committed may be deleted and
// written again.

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { storedVersion } from "everturn/advanced";
import { storedTypes, toTagged } from "../../src/core/model/internal.ts";

import { exhibits, words } from "./exhibits.ts";
import { records, rowTables, turnStates, writtenRows } from "./runtime-exhibits.ts";

const folder = join(import.meta.dirname, `v${storedVersion}`);
await mkdir(folder, { recursive: true });
for (const type of storedTypes) {
  await add(
    `${type}.json`,
    exhibits[type].map((value) => toTagged(type, value)),
  );
}
await add("words.json", words);
for (const table of rowTables) await add(`runtime-${table}.json`, writtenRows(table));
await add("runtime-turn_states.json", turnStates);
await add("runtime-turn_records.json", records);

async function add(name: string, content: unknown): Promise<void> {
  try {
    await writeFile(join(folder, name), `${JSON.stringify(content, null, 1)}\n`, { flag: "wx" });
    console.log(`v${storedVersion}/${name} written`);
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
  }
}
