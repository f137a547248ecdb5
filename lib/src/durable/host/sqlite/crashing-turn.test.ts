// A turn that kills every process that drives it, with real processes over one SQLite file: it is parked, and the turns
// beside it end normally (Q17).

import type { Engine } from "everturn";

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { engine, fake, tool } from "everturn";
import { runtime } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";
import { afterEach, expect, test } from "vitest";

const cleanUps: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

const program = fileURLToPath(new URL("../../../../test/runtime/crashing-worker.ts", import.meta.url));

/**
 * Starts a worker (`crashing-worker.ts`). `exited` resolves with its signal and with the names of the tools that it has
 * run.
 */
function startWorker(path: string, openTurns: number) {
  const child = spawn(process.execPath, ["--import", import.meta.resolve("tsx"), program, path, String(openTurns)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let printed = "";
  child.stdout.on("data", (text) => (printed += String(text)));
  const exited = once(child, "close").then(() => ({
    signal: child.signalCode,
    tools: printed.split("\n").filter((line) => line !== ""),
  }));
  cleanUps.push(async () => {
    child.kill("SIGKILL");
    await exited;
  });
  return { child, exited };
}

/** The engine of a process that only accepts turns: it declares the tool that the workers run. */
function acceptingEngine(name: string): Engine {
  const declared = tool({
    name,
    description: "Works.",
    schema: { type: "object" },
    replay: "safe",
    handler: () => {
      throw new Error("this process drives no turns");
    },
  });
  return engine({ adapter: fake(), model: "fake:m", tools: [declared] });
}

/**
 * Starts workers, one after the other, until `done` resolves. In the first two, all turns are open when they are
 * killed. Returns the runs of tools of each that was killed.
 */
async function supervise(
  path: string,
  beside: number,
  done: Promise<unknown>,
): Promise<readonly (readonly string[])[]> {
  const killed: (readonly string[])[] = [];
  for (;;) {
    if (killed.length > 30) throw new Error(`${killed.length} workers were killed: ${JSON.stringify(killed)}`);
    const { child, exited } = startWorker(path, killed.length < 2 ? beside : 0);
    const end = await Promise.race([exited, done.then(() => null)]);
    if (end === null) {
      child.kill("SIGTERM");
      return killed;
    }
    // Not a crash of the program itself.
    expect(end.signal).toBe("SIGKILL");
    killed.push(end.tools);
  }
}

test("a tool that kills its process ends no turn but its own", async () => {
  const folder = mkdtempSync(join(tmpdir(), "everturn-crashing-"));
  cleanUps.push(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "test.db");
  const host = sqliteStorage({ path });
  const sessions = runtime({
    host,
    engines: { healthy: acceptingEngine("healthy"), deadly: acceptingEngine("deadly") },
    drive: false,
  });
  cleanUps.push(async () => {
    await sessions.close({ graceMs: 0 });
    await host.close();
  });
  const deadly = await sessions.start("hi", { id: "deadly", engine: "deadly" });
  const healthy = await Promise.all(
    Array.from({ length: 9 }, (_, index) => sessions.start("hi", { id: `healthy-${index}`, engine: "healthy" })),
  );

  const ends = Promise.all([deadly, ...healthy].map(({ result }) => result));
  const killed = await supervise(path, healthy.length, ends);
  const [parked, ...others] = await ends;

  expect(parked).toMatchObject({ status: "parked", failure: { reason: "takeover_limit" } });
  expect(others.map(({ status, text }) => ({ status, text }))).toEqual(
    healthy.map(() => ({ status: "ended", text: "Done." })),
  );
  // The first two processes were killed in the middle of every turn, and the later ones while they drove the deadly
  // turn alone.
  const all = ["deadly", ...healthy.map(() => "healthy")];
  expect(killed.slice(0, 2).map((tools) => tools.toSorted())).toEqual([all, all]);
  expect(killed.slice(2).map((tools) => tools.filter((name) => name === "deadly"))).toEqual([["deadly"]]);
});
