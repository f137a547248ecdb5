// Writes today's exhibits into the folder of the current version. Refuses to touch what is there.

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { storedTypes, storedVersion, toTagged } from "everturn/model";

import { exhibits } from "./exhibits.ts";

const folder = join(import.meta.dirname, `v${storedVersion}`);
await mkdir(folder, { recursive: true });
for (const type of storedTypes) {
  const written = exhibits[type].map((value) => toTagged(type, value));
  await writeFile(join(folder, `${type}.json`), `${JSON.stringify(written, null, 1)}\n`, { flag: "wx" });
}
