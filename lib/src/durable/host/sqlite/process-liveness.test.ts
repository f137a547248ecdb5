// Leases of processes that have ended, on one machine: they are claimed at once, and no other lease is.

import type { ChildProcess } from "node:child_process";

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { engine, fake } from "everturn";
import { runtime } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";
import { afterEach, describe, expect, test } from "vitest";

import { epochOf } from "../../internal.ts";
import { processLiveness } from "./process-liveness.ts";

const cleanUps: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

/** A process that drives the turn of the session `s` in a new SQLite file, under a lease of 30 seconds. */
async function holder(): Promise<{
  readonly child: ChildProcess;
  readonly path: string;
  readonly exited: Promise<unknown>;
}> {
  const folder = mkdtempSync(join(tmpdir(), "everturn-liveness-"));
  cleanUps.push(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "test.db");
  const program = fileURLToPath(new URL("../../../../test/runtime/hold-turn.ts", import.meta.url));
  const child = spawn(process.execPath, ["--import", import.meta.resolve("tsx"), program, path], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exited = once(child, "exit");
  cleanUps.push(async () => {
    child.kill("SIGKILL");
    await exited;
  });
  await once(child.stdout, "data");
  return { child, path, exited };
}

/** A runtime of this process over the file. */
function here(path: string) {
  const host = sqliteStorage({ path });
  const agent = engine({ adapter: fake({ script: [{ type: "text", text: "taken over" }] }), model: "fake:m" });
  const sessions = runtime({ host, engines: { default: agent } });
  cleanUps.push(async () => {
    await sessions.close({ graceMs: 0 });
    await host.close();
  });
  return { sessions, host };
}

describe.runIf(process.platform === "linux")("a lease of another process of this machine", () => {
  test("is claimed at once by recover after kill -9, long before it expires", async () => {
    const { child, path, exited } = await holder();
    const { sessions, host } = here(path);
    expect(await sessions.recover()).toMatchObject({ pickedUp: 0 });
    child.kill("SIGKILL");
    await exited;
    const [[lease] = []] = await host.read([{ table: "leases", prefix: ["", "s"] }]);
    expect(lease?.remainingMs).toBeGreaterThan(10_000);
    expect(await sessions.recover()).toMatchObject({ pickedUp: 1 });
    expect((await sessions.attach("s").result).text).toBe("taken over");
  });

  test("is claimed by a worker after kill -9", async () => {
    const { child, path, exited } = await holder();
    const { sessions } = here(path);
    const turn = (await sessions.get("s"))?.openTurn?.turnId ?? "";
    const stop = new AbortController();
    const working = sessions.work({ signal: stop.signal });
    child.kill("SIGKILL");
    await exited;
    const before = performance.now();
    expect((await sessions.attach("s", turn).result).text).toBe("taken over");
    expect(performance.now() - before).toBeLessThan(10_000);
    stop.abort();
    await working;
  });

  test("is not claimed while the process is stopped", async () => {
    const { child, path } = await holder();
    const { sessions, host } = here(path);
    child.kill("SIGSTOP");
    expect(await sessions.recover()).toMatchObject({ pickedUp: 0 });
    expect(await sessions.recover("s")).toMatchObject({ pickedUp: 0 });
    const [[lease] = []] = await host.read([{ table: "leases", prefix: ["", "s"] }]);
    expect(epochOf(lease?.tag ?? 0)).toBe(1);
  });
});

describe("hasEnded", () => {
  const { process: self, hasEnded } = processLiveness();
  const [pid, startTime] = (self ?? "").split("/").slice(-2);

  test("is false for this process, and for what it cannot understand", () => {
    if (self !== null) expect(hasEnded(self)).toBe(false);
    for (const other of ["", "process-1", "linux/x/1/1/1/1", `${self}x`]) expect(hasEnded(other)).toBe(false);
  });

  test.runIf(self !== null)(
    "is false for a process of another boot or another pid namespace, also if its pid is free",
    () => {
      const [, boot = "", namespace = ""] = (self ?? "").split("/");
      const gone = (self ?? "").replace(/\/\d+\/\d+$/, "/4194304/1");
      expect(hasEnded(gone)).toBe(true);
      expect(
        hasEnded(
          gone.replace(
            boot,
            boot.replace(/^./, (first) => (first === "0" ? "1" : "0")),
          ),
        ),
      ).toBe(false);
      expect(hasEnded(gone.replace(`/${namespace}/`, "/1/"))).toBe(false);
    },
  );

  test.runIf(self !== null)("is true for an earlier process with the pid of a running one", () => {
    const earlier = (self ?? "").replace(`/${pid}/${startTime}`, `/${pid}/${Number(startTime) - 1}`);
    expect(hasEnded(earlier)).toBe(true);
  });
});
