// What a step of a turn writes: the pages of the write-ahead log, and those that are moved into the file later.

import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { engine, fake, tool } from "everturn";
import { runtime } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";
import Libsql from "libsql";
import { afterEach, expect, test } from "vitest";

const cleanUps: (() => unknown)[] = [];
afterEach(() => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) cleanUp();
});

function newFile(): string {
  const folder = mkdtempSync(join(tmpdir(), "everturn-step-"));
  cleanUps.push(() => rmSync(folder, { recursive: true }));
  return join(folder, "test.db");
}

function open(path: string): Libsql.Database {
  const database = new Libsql(path);
  cleanUps.push(() => database.close());
  return database;
}

/** Runs a turn of this many steps with one tool call each. */
async function runSteps(database: Libsql.Database, id: string, steps: number): Promise<void> {
  const note = tool({
    name: "note",
    description: "Writes a note.",
    schema: { type: "object" },
    replay: "safe",
    handler: () => "The note has been written into the notebook.",
  });
  const call = (step: number) => [{ type: "tool_call", id: `c${step}`, name: "note", arguments: { step } } as const];
  const replies = [
    ...Array.from({ length: steps - 1 }, (_, step) => call(step)),
    [{ type: "text", text: "Done." } as const],
  ];
  const agent = engine({
    adapter: fake({ scripts: replies }),
    model: "fake:m",
    tools: [note],
    options: { maxTurns: steps },
  });
  const sessions = runtime({ host: sqliteStorage(database), engines: { default: agent }, live: false });
  await (
    await sessions.start("Write notes.", { id })
  ).result;
  await sessions.close();
}

test("a step writes less than 25 KB to a new file, and a little more with long ids", async () => {
  const path = newFile();
  const database = open(path);
  // Sessions before and after the others in every index.
  await runSteps(database, "a", 5);
  await runSteps(database, "z", 5);
  const fileLength = () => {
    database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    return statSync(path).size;
  };
  const perStep = async (id: string) => {
    const before = fileLength();
    await runSteps(database, id, 50);
    const log = statSync(`${path}-wal`).size;
    return (log + fileLength() - before) / 50;
  };
  expect(await perStep("s1")).toBeLessThan(25_000);
  expect(await perStep("0b6f7c1e-7b5e-4d0a-9a53-3f0b5c1d2e3f")).toBeLessThan(30_000);
});

test("a file that exists keeps its pages, and every log grows to the same size", async () => {
  const older = open(newFile());
  older.exec("PRAGMA page_size = 4096; PRAGMA journal_mode = WAL; CREATE TABLE other (id INTEGER)");
  const pragmas = async (database: Libsql.Database) => {
    await runSteps(database, "s", 2);
    return ["page_size", "wal_autocheckpoint"].map((name) => database.prepare(`PRAGMA ${name}`).get());
  };
  expect(await pragmas(older)).toMatchObject([{ page_size: 4096 }, { wal_autocheckpoint: 1000 }]);
  expect(await pragmas(open(newFile()))).toMatchObject([{ page_size: 512 }, { wal_autocheckpoint: 8000 }]);
});
