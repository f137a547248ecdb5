// The command over a Postgres database: sessions, a worker, a server, migration and copying. A real server, and a
// password that is never printed.

import type { PostgresServer } from "../../../lib/test/postgres-server.ts";

import { engine, fake } from "everturn";
import { postgresStorage } from "everturn/postgres";
import { runtime } from "everturn/runtime";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { startPostgres } from "../../../lib/test/postgres-server.ts";
import { createPlace, ended, says } from "./harness.ts";

const place = createPlace();
const { run, start } = place;
let server: PostgresServer;
let url = "";

beforeAll(async () => {
  server = await startPostgres();
  url = (await server.createDatabase()).replace("@", ":secret@");
}, 60_000);

afterAll(async () => {
  place.remove();
  await server.close();
});

describe("a Postgres database", () => {
  it("stores sessions, and no output has the password", async () => {
    const outputs = [
      await run(["migrate", "--database", url]),
      await run(["run", "--database", url, "--session", "one", "hello"]),
      await run(["sessions", "--database", url]),
      await run(["show", "one", "--database", url]),
      await run(["doctor", "--database", url]),
      await run(["replay", "missing", "--database", url]),
      await run(["stats", "--database", url]),
      await run(["stats", "--json", "--database", url]),
      await run(["migrate", "--finalize", "--database", url]),
      await run(["migrate", "--finalize", "--json", "--database", url]),
    ];
    expect(outputs.map(({ code }) => code)).toEqual([0, 0, 0, 0, 0, 2, 0, 0, 0, 0]);
    expect(outputs[8]?.stdout).toMatch(/: the format is 5, the newest of this release; nothing to finalize\n$/);
    expect(JSON.parse(outputs[9]?.stdout ?? "")).toMatchObject({ finalized: { status: "current", format: 5 } });
    expect(outputs[0]?.stdout).toMatch(
      /^postgres:\/\/127\.0\.0\.1:\d+\/test_1: the tables have version \d+ \(postgres\)\n$/,
    );
    expect(outputs[1]?.stdout).toMatch(/^You said: hello/);
    expect(outputs[2]?.stdout).toMatch(/one +completed +2 /);
    expect(outputs[4]?.stdout).toMatch(
      /database +postgres:\/\/127\.0\.0\.1:\d+\/test_1 \(postgres, schema \d+\), 1 session/,
    );
    expect(outputs[6]?.stdout).toMatch(/ended in 1 hour +completed 1\n[\s\S]*\nsessions +(\?|~\d+) +\d+\.\d KB\n/);
    expect(outputs.map(({ stdout, stderr }) => stdout + stderr).join("")).not.toContain("secret");
  });

  it("a database that does not exist is a usage error without the password", async () => {
    const missing = url.replace("/test_1", "/missing");
    const { code, stderr } = await run(["sessions", "--database", missing]);
    expect(code).toBe(2);
    expect(stderr).toMatch(
      /cannot open the database postgres:\/\/127\.0\.0\.1:\d+\/missing \(--database\): .* has no such database/,
    );
    expect(stderr).not.toContain("secret");
  });

  it("work drives the turn of a process that was killed, and hands its own over on SIGTERM", async () => {
    const env = { EVERTURN_DATABASE: url };
    const killed = start(["run", "--session", "left", 'countdown {"from": 30}'], {
      ...env,
      EVERTURN_OFFLINE_PACE: "100",
    });
    killed.stdin.end();
    await says(killed.stderr, /· countdown/);
    killed.kill("SIGKILL");
    await ended(killed);
    const worker = start(["work"], { ...env, EVERTURN_OFFLINE_PACE: "0" });
    const over = ended(worker);
    await says(worker.stdout, /everturn works/);
    // The lease of the killed process lasts for 30 seconds more; its connection shows that it has ended.
    await expect
      .poll(async () => (await run(["sessions", "--database", url])).stdout, { timeout: 20_000 })
      .toMatch(/left +completed/);
    worker.kill("SIGTERM");
    const { code, stderr } = await over;
    expect(code).toBe(0);
    expect(stderr).toContain("handing turns over");
    expect(stderr).not.toContain("secret");
  }, 60_000);

  it("serve finds messages by words, also those that other commands have written", async () => {
    const database = (await server.createDatabase()).replace("@", ":secret@");
    expect((await run(["run", "--database", database, "--session", "one", "ripe apples"])).code).toBe(0);
    const child = start(["serve", "--port", "0", "--no-token", "--database", database]);
    const over = ended(child);
    const address = /http:\S+/.exec(await says(child.stdout, /listens on http:\S+\n/))?.[0] ?? "";
    const found = await (await fetch(`${address}/search?q=APPLE`)).json();
    const ofServer = await (await fetch(`${address}/server`)).json();
    child.kill("SIGTERM");
    expect((await over).code).toBe(0);
    expect(found).toMatchObject({ items: [{ sessionId: "one" }, { sessionId: "one" }] });
    expect(ofServer).toMatchObject({ search: true });
  }, 60_000);

  it("replay --open reports open turns that the current code cannot continue, and creates no tables", async () => {
    const storage = postgresStorage({ url });
    const engines = { old: engine({ adapter: fake({ script: [] }), model: "fake:m" }) };
    await runtime({ host: storage, engines, drive: false }).start("hi", { id: "open", engine: "old" });
    await storage.close();
    const { code, stdout, stderr } = await run(["replay", "--open", "--database", url]);
    expect([code, stdout]).toEqual([
      1,
      expect.stringMatching(
        /^✗ turn turn-\w+ of session open \(engine old, 0 rows\): this code has no engine old\n1 of 1 open turn in /,
      ),
    ]);
    const empty = await server.createDatabase();
    const unmigrated = await run(["replay", "--open", "--database", empty.replace("@", ":secret@")]);
    expect([unmigrated.code, unmigrated.stderr]).toEqual([2, expect.stringContaining("has no tables")]);
    expect(stdout + stderr + unmigrated.stderr).not.toContain("secret");
  });

  it("copy moves sessions from a SQLite file, compares both, and can be repeated", async () => {
    const empty = (await server.createDatabase()).replace("@", ":secret@");
    expect((await run(["run", "--database", "old.db", "--session", "moved", "hello"])).code).toBe(0);
    const first = await run(["copy", "old.db", empty, "--json"]);
    expect([first.code, first.stderr]).toEqual([0, expect.stringContaining("nothing may write")]);
    expect(first.stdout + first.stderr).not.toContain("secret");
    const { rows } = JSON.parse(first.stdout);
    expect(rows).toBeGreaterThan(5);
    const again = await run(["copy", "old.db", empty]);
    expect([again.code, again.stdout]).toEqual([0, expect.stringContaining(`copied and compared ${rows} rows`)]);
    expect((await run(["run", "--database", empty, "--session", "moved", "again"])).stdout).toMatch(/^You said: again/);
    const changed = await run(["copy", "old.db", empty]);
    expect([changed.code, changed.stderr]).toEqual([1, expect.stringContaining("their digests differ")]);
    expect((await run(["copy", "missing.db", empty])).code).toBe(2);
    expect((await run(["copy", "old.db", "old.db"])).stderr).toContain("the same database");
  });
});
