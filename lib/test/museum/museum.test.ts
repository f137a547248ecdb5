// S1: any release reads what an older one stored. Each folder holds what one version wrote and is never changed; every test
// here runs for ever.

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

import { fromTagged, storedTypes, storedVersion, toTagged, validateSession, validateThread } from "everturn/model";
import { describe, expect, test } from "vitest";

import { exhibits, words } from "./exhibits.ts";

const folders = (await readdir(import.meta.dirname)).filter((name) => /^v\d+$/.test(name)).sort();
const shelves = await Promise.all(
  folders.map(async (folder) => ({ folder, names: await readdir(join(import.meta.dirname, folder)) })),
);
const files = shelves.flatMap(({ folder, names }) =>
  names.filter((name) => name !== "words.json").map((name) => ({ folder, name })),
);

test("there is a folder for every version; the first holds the types it knew, the newest holds all", () => {
  expect(folders).toEqual(Array.from({ length: storedVersion }, (_, index) => `v${index + 1}`));
  expect(shelves.at(0)?.names.length).toBeGreaterThanOrEqual(24);
  expect(shelves.at(-1)?.names.toSorted()).toEqual([...storedTypes, "words"].map((name) => `${name}.json`).sort());
});

describe.each(files)("$folder/$name", ({ folder, name }) => {
  test("is read, every value of it, as what it is", async () => {
    const stored: unknown = await load(folder, name);
    if (!Array.isArray(stored)) throw new TypeError(`${name} holds a list of values`);
    expect(stored.length).toBeGreaterThan(0);
    const type = name.replace(/\.json$/, "");
    for (const value of stored) expect(fromTagged(value)).toMatchObject({ ok: true, value: { known: true, type } });
  });
});

describe("a change of what is written is a new version", () => {
  test.each(storedTypes)("%s is written as the museum has it", async (type) => {
    const written = exhibits[type].map((value) => toTagged(type, value));
    expect(JSON.parse(JSON.stringify(written))).toEqual(await load(`v${storedVersion}`, `${type}.json`));
  });

  test("the closed lists are the ones the museum has", async () => {
    expect(words).toEqual(await load(`v${storedVersion}`, "words.json"));
    expect(Object.keys(words).length).toBeGreaterThan(30);
  });
});

test("the exhibits are what a conversation could really leave", () => {
  for (const exhibit of exhibits.session) expect(validateSession(exhibit)).toMatchObject({ ok: true });
  for (const exhibit of exhibits.thread) expect(validateThread(exhibit)).toMatchObject({ ok: true });
});

async function load(folder: string, name: string): Promise<unknown> {
  return JSON.parse(await readFile(join(import.meta.dirname, folder, name), "utf8"));
}
