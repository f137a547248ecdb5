// The demo as somebody runs it: a process with pipes, workers of its own, a file. On the scripted model, and on a server on the loopback that speaks
// OpenAI's Responses, where what was asked is counted by somebody else.

import type { ChildProcess } from "node:child_process";
import type { Server } from "node:http";

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { build } from "vite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { responsesServer } from "./responses-server.ts";

const folder = mkdtempSync(join(tmpdir(), "everturn-demo-test-"));
// Where programs are built has to be where their packages can be found.
const programs = join(import.meta.dirname, "../.snippets", `demo-${process.pid}`);
const children = new Set<ChildProcess>();
const servers = new Set<Server>();

/** The command and its worker as programs that start quickly: many are started here. */
beforeAll(async () => {
  mkdirSync(programs, { recursive: true });
  writeFileSync(join(programs, "package.json"), `{ "type": "module" }`);
  const conditions = ["source", "module", "node"];
  const sources = join(import.meta.dirname, "../src");
  const sqlite = join(import.meta.dirname, "../../../lib/src/host/sqlite/sqlite-worker.ts");
  for (const file of [join(sources, "main.ts"), join(sources, "demo/worker.ts"), sqlite]) {
    const output = { entryFileNames: "[name].js", codeSplitting: false };
    await build({
      configFile: false,
      logLevel: "error",
      resolve: { conditions },
      ssr: { noExternal: true, external: ["libsql"], resolve: { conditions } },
      build: {
        ssr: file,
        outDir: programs,
        emptyOutDir: false,
        target: "node20",
        rolldownOptions: { output },
      },
    });
  }
}, 60_000);

afterAll(() => {
  for (const child of children) child.kill("SIGKILL");
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
  for (const path of [folder, programs]) rmSync(path, { recursive: true, force: true, maxRetries: 5 });
});

type Running = { readonly child: ChildProcess; readonly said: () => string; readonly complained: () => string };

function run(args: readonly string[], environment: { readonly [name: string]: string } = {}): Running {
  const { PATH = "", HOME = "" } = process.env;
  const child = spawn(process.execPath, [join(programs, "main.js"), "demo", ...args], {
    // Nothing of whoever runs the tests: no key, no settings. What the demo keeps is kept where it is removed.
    env: { PATH, HOME, TMPDIR: folder, ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  children.add(child);
  child.on("exit", () => children.delete(child));
  let [said, complained] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => (said += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (complained += text));
  return { child, said: () => said, complained: () => complained };
}

async function finished({ child, said, complained }: Running) {
  await once(child, "close");
  return { code: child.exitCode, said: said(), complained: complained() };
}

/** Waits until something has been said. */
async function heard({ child, said }: Running, text: RegExp): Promise<RegExpExecArray> {
  for (;;) {
    const found = text.exec(said());
    if (found !== null) return found;
    if (child.exitCode !== null || child.stdout === null) throw new Error(`it never said ${String(text)}: ${said()}`);
    await once(child.stdout, "data");
  }
}

/** The value of a fact, its lines run together. */
function fact(said: string, name: string): string {
  const [, value = ""] = new RegExp(`^  ${name} +(.*(?:\\n {15}.*)*)$`, "m").exec(said) ?? [];
  return value.replaceAll(/\s+/g, " ");
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

// Some take ten seconds when nothing else runs.
describe.concurrent("the demo", { timeout: 60_000 }, () => {
  test("a killed worker's turn is finished by another: what was recorded is not bought again, and the money moves once", async () => {
    const { code, said, complained } = await finished(run([]));
    expect(complained).toBe("");
    expect(code).toBe(0);
    const [, first = "", second = ""] = /kill -9 +Worker (\d+)[^]*Process (\d+) starts/.exec(said) ?? [];
    expect(Number(second)).not.toBe(Number(first));
    expect(isAlive(Number(first)) || isAlive(Number(second))).toBe(false);
    expect(fact(said, "model calls")).toBe("6 paid for: 5 replies on record, 1 cut off by the kill");
    expect(fact(said, "replayed")).toMatch(/^5 effects, .*: 1 model reply, 2 tool results, 2 checkpoints$/);
    expect(fact(said, "after that")).toBe(`worker ${second} made 1 model call and ran 0 tools`);
    expect(fact(said, "refund")).toBe("ran once");
    expect(fact(said, "other tools")).toBe("find_order 1, track_parcel 1, ask_customer 1, send_receipt 1");
    expect(fact(said, "reader")).toMatch(
      /^\d+ entries in 3 visits, each once and in order; 5 of 5 replies heard as stored$/,
    );
    expect(fact(said, "offline")).toBe("3 of 3 turns replayed to the same end, without a model");

    // What a reader saw of the crash: half a reply, the reset, and the whole of it.
    const reply =
      "All done: the 189.00 EUR are on their way to your card ending in 4242, and the receipt is in your mailbox.";
    const text = said.replaceAll(/\s+/g, " ");
    const [before = "", after = ""] = text.split("kill -9 Worker");
    expect(before).toContain("All done: the 189.00 EUR");
    expect(before).not.toContain(reply);
    expect(after.indexOf("reset")).toBeGreaterThan(-1);
    expect(after.indexOf(reply)).toBeGreaterThan(after.indexOf("reset"));

    // The parallel tools took turns at telling how far they were.
    const told = [...said.matchAll(/(find_order|track_parcel): (?:opening|asking|reading|found)/g)].map(
      ([, name]) => name,
    );
    expect(new Set(told.slice(0, 2)).size).toBe(2);

    // A log is plain, and fits 80 columns but for what is there to be copied.
    expect(said).not.toContain("\u001B");
    const lines = said.split("\n").filter((line) => !/^ {2}(?:npx|cat) /.test(line));
    expect(lines.filter((line) => line.length > 80)).toEqual([]);
    const [, log = ""] = /^ {2}cat (.*)$/m.exec(said) ?? [];
    const asked = readFileSync(log, "utf8")
      .split("\n")
      .filter((line) => line.includes("model_asked"));
    expect(asked).toHaveLength(6);
  });

  test("on a real model: the same, with each request counted by the server", async () => {
    const key = "sk-loopback-0123456789";
    const { server, url, requests } = await responsesServer("works");
    servers.add(server);
    const database = join(folder, "real.db");
    const options = ["--model", "openai:gpt-test", "--database", database];
    const { code, said, complained } = await finished(run(options, { OPENAI_API_KEY: key, OPENAI_BASE_URL: url }));
    expect(complained).toBe("");
    expect(code).toBe(0);
    expect(requests.map(({ authorization }) => authorization)).toEqual(Array(5).fill(`Bearer ${key}`));
    expect(fact(said, "model calls")).toBe("5 paid for: 4 replies on record, 1 cut off by the kill");
    expect(fact(said, "after that")).toMatch(/^worker \d+ made 1 model call and ran 0 tools$/);
    expect(fact(said, "refund")).toBe("ran once");
    expect(fact(said, "tokens")).toBe("40 in, 20 out on record; the call that was cut off told nothing");
    const [, log = ""] = /^ {2}cat (.*)$/m.exec(said) ?? [];
    for (const text of [said, readFileSync(log, "utf8"), readFileSync(database, "latin1")])
      expect(text).not.toContain(key);
  });

  test("a provider that says no ends the demo with what it said, and without the key", async () => {
    const key = "sk-loopback-0123456789";
    const { server, url } = await responsesServer("denies");
    servers.add(server);
    const environment = { OPENAI_API_KEY: key, OPENAI_BASE_URL: url };
    const { code, said, complained } = await finished(run(["--model", "openai:gpt-test"], environment));
    expect(code).toBe(1);
    expect(said).toMatch(/error +.*Incorrect API key/);
    expect(fact(said, "model calls")).toBe("1 made: 0 replies on record");
    expect(fact(said, "refund")).toBe("did not run");
    expect(said + complained).not.toContain(key);
  });

  test("a model without its key is refused before anything is started, with the name of the variable", async () => {
    const { code, said, complained } = await finished(run(["--model", "anthropic:claude-opus-5"]));
    expect(code).toBe(2);
    expect(said).toBe("");
    expect(complained).toContain("ANTHROPIC_API_KEY");
  });

  test("Ctrl-C ends the worker too, and what it left open is not touched by the next demo in the same file, on a model that calls no tool", async () => {
    const database = ["--database", join(folder, "shared.db")];
    const running = run(database);
    const [, pid = ""] = await heard(running, /process (\d+) drives/);
    await heard(running, /find_order/);
    running.child.kill("SIGINT");
    expect((await finished(running)).code).toBe(130);
    expect(isAlive(Number(pid))).toBe(false);

    const { server, url, requests } = await responsesServer("refuses");
    servers.add(server);
    const environment = { OPENAI_API_KEY: "sk-loopback-0123456789", OPENAI_BASE_URL: url };
    const { code, said } = await finished(run(["--model", "openai:gpt-test", ...database], environment));
    expect(code).toBe(0);
    expect(requests).toHaveLength(3);
    expect(fact(said, "model calls")).toBe("3 paid for: 3 replies on record");
    expect(fact(said, "other tools")).toBe("none ran");
    expect(said).not.toContain("kill -9 ");
  });
});
