import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { afterAll, describe, expect, it } from "vitest";

import { createPlace } from "./harness.ts";

const place = createPlace();
afterAll(place.remove);
const { run } = place;

const file = (name: string, text: string): string => {
  writeFileSync(join(place.folder, name), text);
  return name;
};

describe("run prints only the answer on standard output", () => {
  it("with a prompt from the command line", async () => {
    const { code, stdout, stderr } = await run(["run", "hello", "there"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^You said: hello there\n\nI am the offline model[\s\S]*\n$/);
    expect(stderr).toMatch(/^session session-\w+ · 2 in, \d+ out\n$/);
  });

  it("with a prompt from a pipe", async () => {
    expect((await run(["run"], { stdin: "from a pipe\n" })).stdout).toMatch(/^You said: from a pipe\n/);
  });

  it("with both: piped input is appended to the prompt", async () => {
    expect((await run(["run", "Review:"], { stdin: "a diff\n" })).stdout).toMatch(/^You said: Review:\n\na diff\n/);
    expect((await run(["run", "--no-stdin", "Alone"], { stdin: "a diff\n" })).stdout).not.toContain("diff");
  });

  it("and tool calls on standard error, unless --quiet is set", async () => {
    const result = await run(["run", "clock"]);
    expect(result.stdout).toMatch(/^The tool returned:\n\n- `clock`: \S+\n$/);
    expect(result.stderr).toMatch(/^· clock \{\}\n✓ clock \d+ ms\nsession /);
    expect((await run(["run", "--quiet", "clock"])).stderr).toBe("");
  });

  it("and a warning about unused exports of a tools module on standard error, unless --quiet is set", async () => {
    const tool = `{ name: "a", description: "", schema: {}, hasHandler: true, prepare: async () => ({ ok: true }) }`;
    const tools = file("unused.mjs", `export const a = ${tool}; export const limit = 3;`);
    const { code, stderr } = await run(["run", "--tools", tools, "hello"]);
    expect([code, stderr]).toEqual([
      0,
      expect.stringMatching(/^everturn: warning: the tools module \S+unused\.mjs: not used: limit \(a number\);/),
    ]);
    expect((await run(["run", "--quiet", "--tools", tools, "hello"])).stderr).toBe("");
    expect((await run(["doctor", "--tools", tools])).stdout).toMatch(/a; the offline .*not used: limit/s);
  });

  it("and replaces control characters of the answer at a terminal", async () => {
    expect((await run(["run", "a\u001B[2Jb"], { isTerminal: true })).stdout).toContain("You said: a␛[2Jb");
    expect((await run(["run", "a\u001B[2Jb"])).stdout).toContain("You said: a\u001B[2Jb");
    const named = await run(["run", "--session", "a\u001B[2Jb", "hi"]);
    expect(named.stderr).toMatch(/^session a␛\[2Jb · /);
    expect((await run(["show", "a\u001B[2Jb"])).stdout).toMatch(/^session a␛\[2Jb  completed/);
  });
});

describe("run in scripts", () => {
  it("--json prints the result of the turn as one object", async () => {
    const { code, stdout } = await run(["run", "--json", "clock"]);
    const end: unknown = JSON.parse(stdout);
    expect(code).toBe(0);
    expect(end).toMatchObject({
      status: "ended",
      haltedReason: "completed",
      steps: 2,
      session: { status: "completed" },
    });
  });

  it("--events prints one line for each event, and the result", async () => {
    const lines = (await run(["run", "--events", "clock"])).stdout
      .trim()
      .split("\n")
      .map((line): unknown => JSON.parse(line));
    expect(lines[0]).toMatchObject({ sequence: 1, event: { type: "turn_started" } });
    expect(lines.at(-1)).toMatchObject({ end: { haltedReason: "completed" } });
    expect(lines.some((line) => JSON.stringify(line).includes('"tool_execution_completed"'))).toBe(true);
  });

  it("--schema prints the validated value", async () => {
    const schema = file(
      "sky.json",
      `{ "type": "object", "properties": { "sky": { "enum": ["clear"] } }, "required": ["sky"] }`,
    );
    const { code, stdout } = await run(["run", "The sky?", "--schema", schema]);
    expect([code, JSON.parse(stdout)]).toEqual([0, { sky: "clear" }]);
  });

  it("--schema reports every issue of an invalid answer, and prints no answer", async () => {
    const schema = file(
      "never.json",
      `{ "type": "object", "properties": { "a": { "type": "string", "pattern": "^x+$" } }, "required": ["a"] }`,
    );
    const { code, stdout, stderr } = await run(["run", "Hm", "--schema", schema, "--repair", "0"]);
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(/^everturn: the turn failed: .*invalid_output[^\n]*\n  a: /);
  });

  it.each([
    ["does not exist", "gone.json", null, /--schema: cannot read .*gone\.json/],
    ["is not JSON", "bad.json", "{", /--schema: .*bad\.json is not JSON/],
    ["is not a schema", "list.json", "[]", /--schema: .*list\.json has to contain a JSON Schema/],
  ])("--schema with a file that %s is a usage error", async (_, name, text, expected) => {
    if (text !== null) file(name, text);
    const { code, stderr } = await run(["run", "x", "--schema", name]);
    expect(code).toBe(2);
    expect(stderr).toMatch(expected);
  });
});

describe("run --session", () => {
  it("creates a session or continues it", async () => {
    await run(["run", "--session", "trip", "first"]);
    expect((await run(["run", "--session", "trip", "second"])).stdout).toBe("You said: second\n");
    expect((await run(["sessions", "list"])).stdout).toMatch(/trip +completed +4 +\d+s +first\n/);
  });

  it("exits with 3 after a question, and the next prompt is the answer", async () => {
    const asked = await run(["run", "--session", "asks", "survey"]);
    expect(asked.code).toBe(3);
    expect(asked.stderr).toContain('? What is your favourite colour?\n  answer: everturn run --session asks "…"\n');
    const answered = await run(["run", "--session", "asks", "blue"]);
    expect([answered.code, answered.stdout]).toEqual([0, "The tool returned:\n\n- `survey`: blue\n"]);
  });

  it("exits with 3 when a call needs approval, and --approve runs it", async () => {
    const waits = await run(["run", "--session", "rocket", "launch"]);
    expect(waits.code).toBe(3);
    expect(waits.stderr).toContain("? launch waits (approval):\n    {}\n");
    const more = await run(["run", "--session", "rocket", "well?"]);
    expect([more.code, more.stderr]).toEqual([
      2,
      expect.stringContaining("waits for a decision about launch: everturn show rocket prints it"),
    ]);
    const digest = /--approve (\S+)/.exec(waits.stderr)?.[1] ?? "";
    const approved = await run(["run", "--session", "rocket", "--approve", digest]);
    expect([approved.code, approved.stdout]).toEqual([0, expect.stringContaining("on its way to the moon")]);
  });

  it("exits with 1 if the answer is incomplete", async () => {
    const { code, stderr } = await run(["run", "--max-turns", "1", "clock"]);
    expect([code, stderr]).toEqual([1, expect.stringContaining("everturn: the answer is incomplete: max_turns\n")]);
  });

  it("--deny passes its reason to the model", async () => {
    await run(["run", "--session", "no-rocket", "launch"]);
    const denied = await run(["run", "--session", "no-rocket", "--deny", "too windy"]);
    expect([denied.code, denied.stdout]).toEqual([0, expect.stringContaining("too windy")]);
  });

  it("recovers a failed session before the next turn", async () => {
    const failed = await run(["run", "--session", "fails", "now fail"]);
    expect([failed.code, failed.stdout]).toEqual([1, ""]);
    expect(failed.stderr).toContain("everturn: the turn failed: the offline model was asked to fail\n");
    expect((await run(["run", "--session", "fails", "again"])).code).toBe(0);
  });
});

describe("exit code 2 and a message without a stack trace for", () => {
  it.each([
    ["run without a prompt", ["run"], /no prompt: use everturn run "prompt"/],
    ["--approve without --session", ["run", "--approve"], /--approve and --deny need --session ID/],
    ["--approve with an unknown session", ["run", "--approve", "--session", "gone"], /there is no session "gone"/],
    ["two output formats", ["run", "x", "--json", "--events"], /'--events' cannot be used with option '--json'/],
    ["a flag with a typo", ["run", "x", "--jsno"], /unknown option '--jsno'\n\(Did you mean --json\?\)/],
    ["a command with a typo", ["sesions"], /unknown command 'sesions'\n\(Did you mean sessions\?\)/],
    [
      "a model without its provider",
      ["run", "x", "--model", "gpt"],
      /unknown model "gpt" \(--model\): use PROVIDER:MODEL/,
    ],
    [
      "a model without an API key",
      ["run", "x", "--model", "groq:m"],
      /groq:m \(--model\) needs an API key: set GROQ_API_KEY/,
    ],
    [
      "a tools module that does not exist",
      ["run", "x", "--tools", "gone.mjs"],
      /the tools module .*gone\.mjs does not exist/,
    ],
    [
      "a configuration file that does not exist",
      ["run", "x", "--config", "gone.json"],
      /the configuration file .*gone\.json does not exist/,
    ],
    ["an invalid number", ["sessions", "--limit", "many"], /'many' is invalid.* whole number/],
    [
      "a database that is a folder",
      ["sessions", "--database", "."],
      /the database .*\(--database\) is a folder; a file is needed/,
    ],
  ])("%s", async (_, argv, expected) => {
    const { code, stdout, stderr } = await run(argv);
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(expected);
    expect(stderr).not.toContain("    at ");
  });

  it("an error with causes, which --verbose prints", async () => {
    file("cause.mjs", "throw new Error('outer', { cause: new Error('inner') });");
    const { stderr } = await run(["run", "x", "--tools", "cause.mjs", "--verbose"]);
    expect(stderr).toMatch(/cannot be imported: outer\n  caused by: outer\n  caused by: inner\n$/);
  });
});

describe("--tools", () => {
  it("offers the tools of a module to the model", async () => {
    file(
      "mine.mjs",
      `export const adder = { name: "adder", description: "Adds.", schema: { type: "object" }, hasHandler: true, timeoutMs: null,
         retry: { type: "never" }, toModel: null, manual: false, needsApproval: false, replay: "never", metadata: {}, outputSchema: null,
         prepare: async (args) => ({ ok: true, needsApproval: () => false, run: () => args.a + args.b }) };`,
    );
    const { stdout } = await run(["run", "--tools", "mine.mjs", 'adder {"a": 2, "b": 3}']);
    expect(stdout).toBe("The tool returned:\n\n- `adder`: 5\n");
  });
});

describe("--when-busy", () => {
  it.each(["chat", "serve"])("of %s is read, and an unknown policy is refused", async (command) => {
    const { code, stderr } = await run([command, "--when-busy", "later"]);
    expect([code, stderr]).toEqual([
      2,
      expect.stringContaining('--when-busy has to be one of steer, queue, interrupt, reject, not "later"'),
    ]);
  });
});
