import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { createPlace } from "./harness.ts";

const place = createPlace();
afterAll(place.remove);
const { run, folder } = place;

beforeAll(async () => {
  await run(["run", "--session", "one", 'clock and countdown {"from": 3}']);
  const { stderr } = await run(["run", "--session", "two", "launch"]);
  await run(["run", "--session", "two", "--approve", /--approve (\S+)/.exec(stderr)?.[1] ?? ""]);
  await run(["run", "--session", "three", "now fail"]);
}, 60_000);

const listed = (stdout: string) =>
  stdout
    .split("\n")
    .slice(1)
    .map((line) => line.split(" ")[0])
    .filter(Boolean);

describe("sessions", () => {
  it("lists sessions with status, messages, age and first words, newest change first", async () => {
    const { code, stdout } = await run(["sessions"]);
    expect(code).toBe(0);
    expect(listed(stdout)).toEqual(["three", "two", "one"]);
    expect(stdout).toMatch(
      /^ID +STATUS +MESSAGES +AGE +FIRST WORDS\nthree +error +1 +\d+s +now fail\ntwo +completed +4 +\d+s +launch\n/,
    );
  });

  it("paginates by cursor", async () => {
    const first = await run(["sessions", "--limit", "2"]);
    const after = /--after (\S+)\n/.exec(first.stderr)?.[1] ?? "";
    expect([...listed(first.stdout), ...listed((await run(["sessions", "--after", after])).stdout)]).toEqual([
      "three",
      "two",
      "one",
    ]);
  });

  it("prints a page as JSON", async () => {
    const page: unknown = JSON.parse((await run(["sessions", "--json", "--limit", "1"])).stdout);
    expect(page).toMatchObject({
      items: [{ id: "three", status: "error", length: 1, firstWords: "now fail" }],
      next: expect.any(String),
    });
  });

  it("cuts lines to the width of the terminal", async () => {
    const { stdout } = await run(["sessions"], { isTerminal: true, columns: 30, environment: { NO_COLOR: "1" } });
    expect(Math.max(...stdout.split("\n").map(({ length }) => length))).toBeLessThanOrEqual(30);
  });

  it("explains how to start the first session", async () => {
    const { code, stdout, stderr } = await run(["sessions", "--database", "empty.db"]);
    expect([code, stdout]).toEqual([0, ""]);
    expect(stderr).toContain("no sessions yet: everturn run");
  });

  it("fork copies a session, delete removes it", async () => {
    expect((await run(["sessions", "fork", "one", "--id", "copy", "--at", "1"])).stdout).toBe("copy\n");
    expect((await run(["sessions"])).stdout).toMatch(/copy +idle +1 /);
    expect((await run(["show", "copy"])).stdout).toContain("\n  forked from one at message 1\n");
    expect((await run(["sessions", "delete", "copy"])).code).toBe(0);
    expect(listed((await run(["sessions"])).stdout)).not.toContain("copy");
    expect((await run(["sessions", "delete", "copy"])).code).toBe(2);
  });

  it("works also if the tools module is missing", async () => {
    expect((await run(["sessions", "--tools", "gone.mjs"])).code).toBe(0);
  });
});

describe("show", () => {
  it("prints a turn as a timeline with its parallel tool calls", async () => {
    const { code, stdout } = await run(["show", "one"]);
    expect(code).toBe(0);
    const lines = stdout.split("\n").map((line) => line.replaceAll(/\d+ ms/g, "T"));
    expect(lines[0]).toMatch(/^session one {2}completed · 5 messages · \d+ in, \d+ out$/);
    expect(lines[2]).toMatch(/^turn turn-\w+ {2}\d{4}-\d\d-\d\dT/);
    expect(lines[3]).toBe('│ « clock and countdown {"from": 3}');
    expect(lines[4]).toMatch(/^├─ step 1 {2}offline:demo {2}\d+ in, \d+ out · T · tool_calls$/);
    expect(lines[5]).toMatch(/^│ {4}clock {6}━+ +T +ok +\d{4}-.* {2}\{\}$/);
    expect(lines[6]).toMatch(/^│ {4}countdown {2}━+ +T +ok +counted down from 3 {2}\{"from":3\}$/);
    expect(lines[7]).toMatch(/^├─ step 2 {2}offline:demo/);
    expect(lines.at(-2)).toMatch(/^└─ completed {2}2 steps · /);
  });

  it("prints what a turn waited for and the decision with --all", async () => {
    const { stdout } = await run(["show", "two", "--all"]);
    expect(stdout).toMatch(/launch +waits +approval/);
    expect(stdout).toMatch(/└─ approval {2}1 step/);
    expect(stdout).toMatch(/│ « launch: approve\n├─ approved calls\n│ {4}launch +━+ +\d+ ms +ok/);
    expect((await run(["show", "two"])).stderr).toBe("1 other turn: everturn show two --all\n");
  });

  it("prints why a turn failed", async () => {
    expect((await run(["show", "three"])).stdout).toMatch(
      /✗ the offline model was asked to fail[\s\S]*└─ error \(provider_error\)/,
    );
  });

  it("takes the beginning of an id, and lists the candidates if it is ambiguous", async () => {
    const whole = await run(["show", "one"]);
    expect(await run(["show", "on"])).toEqual(whole);
    expect((await run(["replay", "on"])).stdout).toContain("identical to the record");
    const ambiguous = await run(["show", "t"]);
    expect([ambiguous.code, ambiguous.stdout]).toEqual([2, ""]);
    expect(ambiguous.stderr).toMatch(/2 sessions begin with "t": three, two; type more of the id/);
    expect((await run(["replay", "t"])).stderr).toContain("three, two");
    expect((await run(["show", ""])).stderr).toContain('there is no session ""');
    const [turn = ""] = /turn-\w+/.exec((await run(["show", "two", "--json"])).stdout) ?? [];
    expect((await run(["show", "two", "--turn", turn.slice(0, -3)])).stdout).toContain(turn);
    expect((await run(["show", "two", "--turn", "turn-"])).stderr).toMatch(
      /2 turns begin with "turn-": turn-\w+, turn-\w+;/,
    );
  });

  it("prints JSON without the messages", async () => {
    const shown: unknown = JSON.parse((await run(["show", "one", "--json"])).stdout);
    expect(shown).toMatchObject({
      session: { id: "one", length: 5 },
      timelines: [
        {
          turn: { end: { haltedReason: "completed" } },
          input: ['clock and countdown {"from": 3}'],
          effects: expect.arrayContaining([
            expect.objectContaining({ kind: "model", step: 0 }),
            expect.objectContaining({ kind: "tool", name: "countdown", text: "counted down from 3" }),
            expect.objectContaining({ kind: "model", step: 1 }),
          ]),
          details: expect.arrayContaining([
            expect.objectContaining({ effect: expect.objectContaining({ type: "call_tool" }) }),
          ]),
        },
      ],
      usage: { total: { totalTokens: expect.any(Number) } },
    });
  });

  it.each([
    ["a session", ["show", "gone"], /there is no session "gone"/],
    ["a turn", ["show", "one", "--turn", "gone"], /session "one" has no turn "gone"/],
    ["a folder to export to", ["show", "one", "--export", "no/where.json"], /--export: cannot write/],
  ])("rejects %s that does not exist", async (_, argv, expected) => {
    const { code, stderr } = await run(argv);
    expect(code).toBe(2);
    expect(stderr).toMatch(expected);
  });
});

describe("replay", () => {
  it("of a session is identical to the record and costs nothing", async () => {
    const { code, stdout } = await run(["replay", "one"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^✓ replayed with the recorded settings: identical to the record\. completed · 2 steps · .* \(recorded; the replay costs nothing\)\n$/,
    );
  });

  it("reads a record from a file or a pipe", async () => {
    await run(["show", "one", "--export", "one.json"]);
    expect((await run(["replay", "one.json"])).code).toBe(0);
    const stdin = readFileSync(join(folder, "one.json"), "utf8");
    expect(JSON.parse((await run(["replay", "-", "--json"], { stdin })).stdout)).toMatchObject({
      same: true,
      steps: 2,
    });
  });

  it("--engine lists the paths of settings that have changed", async () => {
    expect((await run(["replay", "one", "--engine"])).code).toBe(0);
    const { code, stdout } = await run(["replay", "one", "--engine", "--instructions", "Be a pirate."]);
    expect(code).toBe(1);
    expect(stdout).toMatch(
      /^✗ replayed with the current settings: differs from the record in 1 place:\n  environment\.instructions\n$/,
    );
  });

  it("lists the paths at which a modified record diverges", async () => {
    const record = readFileSync(join(folder, "one.json"), "utf8");
    writeFileSync(join(folder, "changed.json"), record.replaceAll("counted down from 3", "counted up"));
    const changed = await run(["replay", "changed.json"]);
    expect([changed.code, changed.stdout]).toEqual([1, expect.stringContaining("  history.digest\n")]);
    writeFileSync(
      join(folder, "ended.json"),
      record.replace('"haltedReason": "completed"', '"haltedReason": "max_turns"'),
    );
    const ended = await run(["replay", "ended.json", "--json"]);
    expect([ended.code, JSON.parse(ended.stdout)]).toEqual([
      1,
      expect.objectContaining({ same: false, reason: "diverged", paths: ["haltedReason"] }),
    ]);
  });

  it("rejects a file that is not a record", async () => {
    writeFileSync(join(folder, "other.json"), "{}");
    writeFileSync(join(folder, "cut.json"), `{ "everturn": "turn_rec`);
    for (const name of ["other.json", "cut.json"]) {
      const { code, stderr } = await run(["replay", name]);
      expect([code, stderr]).toEqual([
        2,
        expect.stringContaining(`${name} is not the record of a turn; everturn show ID`),
      ]);
    }
    const { code, stderr } = await run(["replay", "gone"]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/there is no file .*gone, and no session "gone" in /);
  });
});

describe("doctor", () => {
  it("shows where Restate is, without passwords", async () => {
    const environment = {
      EVERTURN_RESTATE_INGRESS: "http://user:secret@restate.test:8080",
      EVERTURN_RESTATE_LISTEN: "9081",
    };
    const { stdout } = await run(["doctor"], { environment });
    expect(stdout).toMatch(/restateListen +127\.0\.0\.1:9081 /);
    expect(stdout).toContain("restate.test:8080");
    expect(stdout).not.toContain("secret");
  });

  const secret = "sk-live-0123456789abcdefghij";
  const token = "token-0123456789abcdef";

  it("lists settings with their sources, and API keys by name only", async () => {
    const environment = { OPENAI_API_KEY: secret, GROQ_API_KEY: secret, EVERTURN_TOKEN: `acme:${token}` };
    const runs = [await run(["doctor"], { environment }), await run(["doctor", "--json"], { environment })];
    for (const { code, stdout, stderr } of runs) {
      expect(code).toBe(0);
      for (const text of [stdout, stderr]) for (const hidden of [secret, token]) expect(text).not.toContain(hidden);
    }
    const [report] = runs;
    expect(report?.stdout).toContain("OPENAI_API_KEY is set (openai)");
    expect(report?.stdout).toContain("GROQ_API_KEY is set (groq)");
    expect(report?.stdout).toMatch(/model +openai:gpt-6\.1-sol +default: OPENAI_API_KEY is set/);
    expect(report?.stdout).toMatch(/tokens +1 token +EVERTURN_TOKEN/);
    expect(report?.stdout).toMatch(/✓ +database +\S+everturn\.db \((?:libsql|node:sqlite), schema \d+\), 3 sessions/);
  });

  // Root may write wherever the system can.
  it.skipIf(process.getuid?.() === 0)("reports a database that is not writable", async () => {
    expect((await run(["run", "--database", "kept.db", "hi"])).code).toBe(0);
    chmodSync(join(folder, "kept.db"), 0o400);
    const { code, stdout } = await run(["doctor", "--database", "kept.db"]);
    expect([code, stdout]).toEqual([1, expect.stringMatching(/✗ +database /)]);
  });

  it("reports the offline model", async () => {
    expect((await run(["doctor"])).stdout).toMatch(/· +model +offline:demo: scripted, needs no API key and no network/);
  });

  it.each([
    ["a missing API key", ["--model", "anthropic:m"], /✗ +model +anthropic:m needs an API key: set ANTHROPIC_API_KEY/],
    ["tools that cannot be imported", ["--tools", "gone.mjs"], /✗ +tools +the tools module .*gone\.mjs does not exist/],
    ["a database that cannot be opened", ["--database", "."], /✗ +database +the database .* is a folder/],
    [
      "a config with a typo",
      ["--config", "typo.json"],
      /✗ +settings +.*typo\.json: unknown setting modle; the settings are model/,
    ],
  ])("reports %s and exits with 1", async (_, argv, expected) => {
    writeFileSync(join(folder, "typo.json"), `{ "modle": 1 }`);
    const { code, stdout } = await run(["doctor", ...argv]);
    expect(code).toBe(1);
    expect(stdout).toMatch(expected);
  });

  it("names the configuration file as the source of a setting", async () => {
    writeFileSync(
      join(folder, "good.json"),
      `{ "maxTurns": 3, "baseUrls": { "mine": "http://user:${secret}@localhost:1/v1" } }`,
    );
    const { stdout } = await run(["doctor", "--config", "good.json"]);
    expect(stdout).toMatch(/maxTurns +3 +config \S+good\.json/);
    expect(stdout).not.toContain(secret);
  });
});

describe("stats", () => {
  it("counts waiting and ended turns, and prints rows and sizes of the tables", async () => {
    const database = ["--database", "stats.db"];
    await run(["run", "--session", "done", "hello", ...database]);
    await run(["run", "--session", "rocket", "launch", ...database]);
    const { code, stdout } = await run(["stats", ...database]);
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^database +\S*stats\.db \(\S+, schema \d+\)\nopen turns +0\ndue turns +0\nturns at a limit +0\nparked turns +0\n/,
    );
    expect(stdout).toMatch(/waiting sessions +1\noverdue deadlines +0\nended in 1 hour +\w+ 1, \w+ 1\n/);
    expect(stdout).toMatch(/\nTABLE +ROWS +SIZE\nsessions +2 +\d+\.\d KB\n/);
    expect(stdout).not.toMatch(/^tokens /m);
    const found: unknown = JSON.parse((await run(["stats", "--json", ...database])).stdout);
    expect(found).toMatchObject({
      open: { count: 0, isCapped: false },
      waiting: { count: 1, isCapped: false },
      oldestDueMs: null,
      tables: expect.arrayContaining([{ table: "sessions", rows: 2, isEstimate: false, bytes: expect.any(Number) }]),
    });
  });
});

describe("help and completion", () => {
  it("prints the help with examples and exit codes if there is no command", async () => {
    const { code, stdout } = await run([]);
    expect(code).toBe(0);
    for (const part of ["Usage: everturn", "Examples:", "Exit codes:", "130  interrupted"])
      expect(stdout).toContain(part);
  });

  it.each([
    "chat",
    "run",
    "serve",
    "studio",
    "work",
    "demo",
    "sessions",
    "show",
    "replay",
    "doctor",
    "stats",
    "migrate",
    "copy",
    "completion",
  ])("%s --help has examples", async (name) => {
    const { code, stdout } = await run([name, "--help"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(new RegExp(`Examples:\\n[\\s\\S]*everturn ${name}`));
  });

  it("bash completes commands, flags, choices and files", async () => {
    const { stdout } = await run(["completion", "bash"]);
    const commandLines = [
      ["everturn", "se"],
      ["everturn", "--model", "run", "sessions", "d"],
      ["everturn", "run", "--sc"],
      ["everturn", "sessions", "--l"],
      ["everturn", "show", "--ver"],
      ["everturn", "completion", ""],
      ["everturn", "run", "--schema", "one"],
      ["everturn", "serve", "--static", "one"],
      ["everturn", "--database", "one"],
    ];
    const calls = commandLines.map((words) => `t ${words.map((word) => `'${word}'`).join(" ")}`);
    const script = `${stdout}\nt() { COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); COMPREPLY=(); _everturn; echo "\${COMPREPLY[*]}"; }\n${calls.join("\n")}`;
    execFileSync("bash", ["-n"], { input: stdout });
    expect(execFileSync("bash", { input: script, cwd: folder, encoding: "utf8" }).trim().split("\n")).toEqual([
      "serve sessions",
      "delete",
      "--schema",
      "--limit",
      "--version --verbose",
      "bash zsh fish",
      "one.json",
      "one.json",
      "one.json",
    ]);
  });

  it.each(["zsh", "fish"])("the script for %s has every command and flag", async (shell) => {
    const { stdout } = await run(["completion", shell]);
    for (const word of ["sessions", "replay", "schema", "max-turns", "fork"]) expect(stdout).toContain(word);
    const path = `/bin/${shell}`;
    if (existsSync(path)) execFileSync(path, ["-n"], { input: stdout });
  });

  it.each([
    ["work", "--concurrency"],
    ["sessions", "--limit"],
  ])("%s rejects %s 0", async (command, option) => {
    const { code, stderr } = await run([command, option, "0"]);
    expect([code, stderr]).toEqual([2, expect.stringContaining("A whole number of 1 or more is needed.")]);
  });

  it("rejects another shell and lists the supported ones", async () => {
    expect((await run(["completion", "tcsh"])).stderr).toContain("Allowed choices are bash, zsh, fish");
  });
});

describe("colours", () => {
  const escape = "\u001B[";
  it.each([
    ["are on at a terminal", { isTerminal: true }, true],
    ["are off in a pipe", {}, false],
    ["are off with NO_COLOR", { isTerminal: true, environment: { NO_COLOR: "1" } }, false],
    ["are on in a pipe with FORCE_COLOR", { environment: { FORCE_COLOR: "1" } }, true],
  ])("%s", async (_, given, expected) => {
    expect((await run(["show", "one"], given)).stdout.includes(escape)).toBe(expected);
  });

  it("are off with --no-color", async () => {
    expect((await run(["show", "one", "--no-color"], { isTerminal: true })).stdout).not.toContain(escape);
  });
});
