// S1: any release reads what an older one stored. Each folder holds what one version wrote and is never changed; every test
// here runs for ever.

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

import { fromTagged, isStoredType, storedTypes, storedVersion, toTagged } from "everturn/model";
import { describe, expect, test } from "vitest";

import { exhibits } from "./exhibits.ts";

const folders = (await readdir(import.meta.dirname)).filter((name) => /^v\d+$/.test(name));
const files = (
  await Promise.all(
    folders.map(async (folder) => {
      const names = await readdir(join(import.meta.dirname, folder));
      return names.map((name) => ({ folder, name, path: join(import.meta.dirname, folder, name) }));
    }),
  )
).flat();

test("there is a folder for every version, and nothing is missing from it", () => {
  expect(folders.sort()).toEqual(Array.from({ length: storedVersion }, (_, index) => `v${index + 1}`));
  const first = files.filter(({ folder }) => folder === "v1").map(({ name }) => name);
  expect(first).toHaveLength(21);
});

describe.each(files)("$folder/$name", ({ name, path }) => {
  test("is read, every value of it", async () => {
    const type = name.replace(/\.json$/, "");
    expect(isStoredType(type)).toBe(true);
    const stored: unknown = JSON.parse(await readFile(path, "utf8"));
    if (!Array.isArray(stored)) throw new TypeError(`${name} holds a list of values`);
    expect(stored.length).toBeGreaterThan(0);
    for (const value of stored) expect(fromTagged(value)).toMatchObject({ ok: true, value: { known: true, type } });
  });
});

describe("a change of what is written is a new version", () => {
  test.each(storedTypes)("%s is written as the museum has it", async (type) => {
    const path = join(import.meta.dirname, `v${storedVersion}`, `${type}.json`);
    const written = exhibits[type].map((value) => toTagged(type, value));
    expect(JSON.parse(JSON.stringify(written))).toEqual(JSON.parse(await readFile(path, "utf8")));
  });
});
