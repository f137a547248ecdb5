// S1: every release reads the data that older releases stored. Each folder holds the data of one version and is never
// changed.

import type { TurnRecord } from "everturn/runtime";

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

import { TurnMachine, turnInput, storedVersion, validateSession } from "everturn/advanced";
import { validateThread } from "everturn";
import { replayTurn } from "everturn/runtime";
import { pendingEffects, startTurn } from "../../src/core/kernel/internal.ts";
import { fromTagged, storedTypes, toTagged } from "../../src/core/model/internal.ts";
import { describe, expect, test } from "vitest";

import { sha256 } from "../../src/durable/rows/digest.ts";
import { withoutDefaults } from "../../src/core/model/parse/reading.ts";
import { readValue } from "../../src/durable/rows/stored.ts";
import { shapes } from "../../src/durable/rows/values.ts";
import { exhibits, words } from "./exhibits.ts";
import { accepted, machineConfig, pendingTexts, records, rowTables, storedRows, turnStates, writtenRows } from "./runtime-exhibits.ts";

/** A value as it is stored. */
type Envelope = { readonly version: number; readonly data: unknown };

const folders = (await readdir(import.meta.dirname)).filter((name) => /^v\d+$/.test(name)).sort();
const shelves = await Promise.all(
  folders.map(async (folder) => ({ folder, names: await readdir(join(import.meta.dirname, folder)) })),
);
const files = shelves.flatMap(({ folder, names }) =>
  names.filter((name) => name !== "words.json" && !name.startsWith("runtime-")).map((name) => ({ folder, name })),
);
const runtimeFiles = shelves.flatMap(({ folder, names }) =>
  names.filter((name) => name.startsWith("runtime-")).map((name) => ({ folder, name })),
);

test("every stored version has a folder, and the newest has every type", () => {
  expect(folders).toEqual(Array.from({ length: storedVersion }, (_, index) => `v${index + 1}`));
  expect(shelves.at(0)?.names.length).toBeGreaterThanOrEqual(24);
  const ofRuntime = [...rowTables, "turn_states", "turn_records"].map((name) => `runtime-${name}`);
  const all = [...storedTypes, "words", ...ofRuntime].map((name) => `${name}.json`).sort();
  expect(shelves.at(-1)?.names.toSorted()).toEqual(all);
});

describe.each(files)("$folder/$name", ({ folder, name }) => {
  test("every value is read as its type", async () => {
    const stored: unknown = await load(folder, name);
    if (!Array.isArray(stored)) throw new TypeError(`${name} holds a list of values`);
    expect(stored.length).toBeGreaterThan(0);
    const type = name.replace(/\.json$/, "");
    for (const value of stored) expect(fromTagged(value)).toMatchObject({ ok: true, value: { known: true, type } });
  });
});

describe("a change of stored data requires a new version", () => {
  test.each(storedTypes)("%s is written as the museum has it", async (type) => {
    const written = exhibits[type].map((value) => toTagged(type, value));
    expect(JSON.parse(JSON.stringify(written))).toEqual(await load(`v${storedVersion}`, `${type}.json`));
  });

  test("the closed lists equal the recorded ones", async () => {
    expect(words).toEqual(await load(`v${storedVersion}`, "words.json"));
    expect(Object.keys(words).length).toBeGreaterThan(30);
  });
});

/** Tables that a later one replaced, which reads their values. */
const replaced: ReadonlyMap<string, string> = new Map([
  ["deadlines", "work"],
  ["waiting", "work"],
]);

const tableOf = (kind: string) => replaced.get(kind) ?? kind;

describe("[lash 65] rows of the runtime", () => {
  const ofKind = (wanted: (name: string) => boolean) =>
    runtimeFiles
      .map(({ folder, name }) => ({ folder, name, kind: name.slice("runtime-".length, -".json".length) }))
      .filter(({ kind }) => wanted(kind));

  test.each(ofKind((kind) => rowTables.some((table) => table === tableOf(kind))))(
    "$folder: every row of $kind is read",
    async ({ folder, name, kind }) => {
      const table = rowTables.find((one) => one === tableOf(kind)) ?? "open";
      const stored = await loadList(folder, name);
      expect(stored.length).toBeGreaterThan(0);
      const newest = folder === `v${storedVersion}`;
      for (const [place, value] of stored.entries()) {
        const row = { key: ["a", place], tag: 0, expires: null, remainingMs: null, value: JSON.stringify(value) };
        const read: unknown = JSON.parse(JSON.stringify(readValue(table, row)));
        if (newest) expect(read).toEqual(JSON.parse(JSON.stringify(storedRows[table][place])));
      }
    },
  );

  test("every file of every version is opened by one of these tests", () => {
    const known: readonly string[] = [...rowTables, ...replaced.keys(), "turn_states", "turn_records"];
    // No release had rows in this table, which version 4 removed.
    expect(ofKind((kind) => !known.includes(kind))).toMatchObject([{ folder: "v3", kind: "untold" }]);
    expect(new Set(runtimeFiles.map(({ folder }) => folder))).toEqual(new Set(folders.slice(2)));
  });

  test.each(rowTables)("%s is written as the museum has it, without fields that have their default", async (table) => {
    const stored = await loadList<Envelope>(`v${storedVersion}`, `runtime-${table}.json`);
    const short = stored.map(({ version, data }) => ({ version, data: withoutDefaults(shapes[table], data) }));
    expect(writtenRows(table)).toEqual(short);
  });

  test.each(rowTables)("%s is read back from what is written", (table) => {
    for (const [place, written] of writtenRows(table).entries()) {
      const row = { key: ["a", place], tag: 0, expires: null, remainingMs: null, value: JSON.stringify(written) };
      expect(readValue(table, row)).toEqual(storedRows[table][place]);
    }
  });

  test.each(ofKind((kind) => kind === "turn_states"))(
    "$folder: the state of a turn in every phase waits for what it waited for, and goes on",
    async ({ folder, name }) => {
      const states: readonly (typeof turnStates)[number][] = await loadList(folder, name);
      const phases = new Set(states.map(({ turn }) => turn.phase.type));
      expect([...phases].sort()).toEqual([
        "awaiting_checkpoint",
        "awaiting_code",
        "awaiting_environment",
        "awaiting_model",
        "awaiting_tools",
        "ended",
      ]);
      for (const { turn, pending, pinned } of states) {
        expect(pendingTexts(turn)).toEqual(pending);
        const machine = TurnMachine.restore(machineConfig(pinned), { turn, notices: [] });
        expect(machine.isDone).toBe(turn.phase.type === "ended");
        // Fields that the older release did not have are added with their defaults; all others are unchanged.
        expect(machine.checkpoint().turn).toMatchObject(turn);
      }
    },
  );

  test.each(ofKind((kind) => kind === "turn_records"))(
    "$folder: Q6 open journals are replayed to the very effects they were recorded for",
    async ({ folder, name }) => {
      const stored: readonly TurnRecord[] = await loadList(folder, name);
      const states: readonly (typeof turnStates)[number][] = await loadList(folder, "runtime-turn_states.json");
      let place = 0;
      for (const record of stored) {
        const { pinned, history, start, turnId, rows } = record.data;
        const { messages, answers, cell, turnCauses } = start;
        const config = machineConfig(pinned);
        const given = turnInput(turnId, { history, messages, answers, cell, turnCauses });
        let { turn } = startTurn(config, given);
        const machine = TurnMachine.start(config, given);
        for (const { effect, hash, item } of rows) {
          expect(pendingTexts(turn)).toEqual(states[place]?.pending);
          place += 1;
          if (effect !== null) expect(pendingTexts(turn)).toContain(effect);
          expect(effect === null ? null : await sha256(effect)).toBe(hash);
          if (item.type === "step_restarted") throw new Error("the museum has none of those");
          turn = accepted(config, turn, item);
          // The machine takes the row as it is stored, with the fields that the release wrote.
          if (item.type !== "response") continue;
          expect(machine.handleResponse(item.response)).toBe("accepted");
          expect(pendingTexts(machine.turn)).toEqual(pendingTexts(turn));
        }
        expect(pendingTexts(turn)).toEqual(states[place]?.pending);
        place += 1;
        // A strict replay of the journal reaches the end of the turn, or the first effect without a record.
        const [missing] = pendingEffects(turn);
        const replayed = replayTurn(record);
        if (missing === undefined) await expect(replayed).resolves.toMatchObject({ result: expect.anything() });
        else
          await expect(replayed).rejects.toMatchObject({ failure: { reason: "replay_missing", paths: [missing.id] } });
      }
      expect(place).toBe(states.length);
    },
  );

  test("a newer version is reported as such, and an unreadable row names its path and not its value", () => {
    const row = (value: string) => ({ key: ["acme", "s1"], tag: 0, expires: null, remainingMs: null, value });
    const newer = JSON.stringify({ version: storedVersion + 1, data: { owner: "x" } });
    expect(() => readValue("leases", row(newer))).toThrow(expect.objectContaining({ reason: "newer_schema" }));
    for (const broken of [
      "",
      "hunter2",
      '"hunter2"',
      '{"data":{"owner":"hunter2"}}',
      '{"version":3,"data":{"owner":["hunter2"]}}',
    ]) {
      try {
        readValue("leases", row(broken));
        expect.unreachable();
      } catch (error) {
        expect(error).toMatchObject({
          reason: "corrupt_row",
          message: expect.stringContaining('"acme", "s1" of leases'),
        });
        expect(JSON.stringify(error)).not.toContain("hunter2");
      }
    }
  });

  test("a change of a runtime row requires a new version", async () => {
    const newest = `v${storedVersion}`;
    expect(JSON.parse(JSON.stringify(records))).toEqual(await load(newest, "runtime-turn_records.json"));
    expect(JSON.parse(JSON.stringify(turnStates))).toEqual(await load(newest, "runtime-turn_states.json"));
  });
});

test("the samples are valid sessions and threads", () => {
  for (const exhibit of exhibits.session) expect(validateSession(exhibit)).toMatchObject({ ok: true });
  for (const exhibit of exhibits.thread) expect(validateThread(exhibit)).toMatchObject({ ok: true });
});

async function loadList<T>(folder: string, name: string): Promise<readonly T[]> {
  const stored: unknown = await load(folder, name);
  if (!Array.isArray(stored)) throw new TypeError(`${name} holds a list of values`);
  return stored;
}

async function load(folder: string, name: string): Promise<unknown> {
  return JSON.parse(await readFile(join(import.meta.dirname, folder, name), "utf8"));
}
