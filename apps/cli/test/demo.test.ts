// The demo as a process with pipes, worker processes and a database file: with the scripted model, and with a loopback
// server that implements the OpenAI Responses API and counts requests independently.

import type { ChildProcess } from "node:child_process";
import type { Server } from "node:http";

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, describe, expect, test } from "vitest";

import { responsesServer } from "./responses-server.ts";

const folder = mkdtempSync(join(tmpdir(), "everturn-demo-test-"));
const command = join(import.meta.dirname, "../../../lib/bin/everturn.js");
const children = new Set<ChildProcess>();
const servers = new Set<Server>();

afterAll(() => {
  for (const child of children) child.kill("SIGKILL");
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});

type Running = { readonly child: ChildProcess; readonly stdout: () => string; readonly stderr: () => string };

function run(args: readonly string[], environment: { readonly [name: string]: string } = {}): Running {
  const { PATH = "", HOME = "" } = process.env;
  const child = spawn(process.execPath, [command, "demo", ...args], {
    // No API key and no settings of the user who runs the tests. The files of the demo go to a folder that is removed.
    env: { PATH, HOME, TMPDIR: folder, ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  children.add(child);
  child.on("exit", () => children.delete(child));
  let [stdout, stderr] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  return { child, stdout: () => stdout, stderr: () => stderr };
}

async function finished({ child, stdout, stderr }: Running) {
  await once(child, "close");
  return { code: child.exitCode, stdout: stdout(), stderr: stderr() };
}

/** Waits until the output matches. */
async function untilOutput({ child, stdout }: Running, text: RegExp): Promise<RegExpExecArray> {
  for (;;) {
    const match = text.exec(stdout());
    if (match !== null) return match;
    if (child.exitCode !== null || child.stdout === null)
      throw new Error(`${String(text)} was not printed: ${stdout()}`);
    await once(child.stdout, "data");
  }
}

/** The value of a fact, with its lines joined. */
function fact(stdout: string, name: string): string {
  const [, value = ""] = new RegExp(`^  ${name} +(.*(?:\\n {15}.*)*)$`, "m").exec(stdout) ?? [];
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
  test("another worker completes the turn of a killed one: stored replies are not requested again, and the refund runs once", async () => {
    const { code, stdout, stderr } = await finished(run([]));
    expect(stderr).toBe("");
    expect(code).toBe(0);
    const [, first = "", second = ""] = /kill -9 +Worker (\d+)[^]*Process (\d+) starts/.exec(stdout) ?? [];
    expect(Number(second)).not.toBe(Number(first));
    expect(isAlive(Number(first)) || isAlive(Number(second))).toBe(false);
    expect(fact(stdout, "model calls")).toBe("6 charged: 5 replies stored, 1 cut off by the kill");
    expect(fact(stdout, "replayed")).toMatch(
      /^5 effects from the journal, .*: 1 model reply, 2 tool results, 2 checkpoints$/,
    );
    expect(fact(stdout, "after that")).toBe(`worker ${second} made 1 model call and ran 0 tools`);
    expect(fact(stdout, "refund")).toBe("ran once");
    expect(stdout).toContain('{"order":"1042","amount":"189.00 EUR","to":"card"}');
    expect(fact(stdout, "other tools")).toBe("find_order 1, track_parcel 1, ask_customer 1, send_receipt 1");
    expect(fact(stdout, "reader")).toMatch(
      /^\d+ events in 3 connections, each exactly once, in order; 5 of 5 replies received as stored$/,
    );
    expect(fact(stdout, "offline")).toBe("3 of 3 turns replayed with the same result, without a model");

    // The reader receives part of the reply, the reset, and the complete reply.
    const reply =
      "All done: the 189.00 EUR are on their way to your card ending in 4242, and the receipt is in your mailbox.";
    const text = stdout.replaceAll(/\s+/g, " ");
    const [before = "", after = ""] = text.split("kill -9 Worker");
    expect(before).toContain("All done: the 189.00 EUR");
    expect(before).not.toContain(reply);
    expect(after.indexOf("reset")).toBeGreaterThan(-1);
    expect(after.indexOf(reply)).toBeGreaterThan(after.indexOf("reset"));

    // The progress of the parallel tools alternates.
    const progressNames = [...stdout.matchAll(/(find_order|track_parcel): (?:searching|asking|reading|found)/g)].map(
      ([, name]) => name,
    );
    expect(new Set(progressNames.slice(0, 2)).size).toBe(2);

    // A log has no escape sequences and fits 80 columns, except for the commands to copy.
    expect(stdout).not.toContain("\u001B");
    const lines = stdout.split("\n").filter((line) => !/^ {2}(?:npx|cat) /.test(line));
    expect(lines.filter((line) => line.length > 80)).toEqual([]);
    const [, log = ""] = /^ {2}cat (.*)$/m.exec(stdout) ?? [];
    const modelCalls = readFileSync(log, "utf8")
      .split("\n")
      .filter((line) => line.includes("model_call_started"));
    expect(modelCalls).toHaveLength(6);
  });

  test("recovers in the same way with a real API, whose server counts the requests", async () => {
    const key = "sk-loopback-0123456789";
    const { server, url, requests } = await responsesServer("works");
    servers.add(server);
    const database = join(folder, "real.db");
    const options = ["--model", "openai:gpt-test", "--database", database];
    const { code, stdout, stderr } = await finished(run(options, { OPENAI_API_KEY: key, OPENAI_BASE_URL: url }));
    expect(stderr).toBe("");
    expect(code).toBe(0);
    expect(requests.map(({ authorization }) => authorization)).toEqual(Array(5).fill(`Bearer ${key}`));
    expect(fact(stdout, "model calls")).toBe("5 charged: 4 replies stored, 1 cut off by the kill");
    expect(fact(stdout, "after that")).toMatch(/^worker \d+ made 1 model call and ran 0 tools$/);
    expect(fact(stdout, "refund")).toBe("ran once");
    expect(fact(stdout, "tokens")).toBe("40 in, 20 out; the provider reported no usage for the call that was cut off");
    const [, log = ""] = /^ {2}cat (.*)$/m.exec(stdout) ?? [];
    for (const text of [stdout, readFileSync(log, "utf8"), readFileSync(database, "latin1")])
      expect(text).not.toContain(key);
  });

  test("prints the error of a provider that rejects the key, without the key", async () => {
    const key = "sk-loopback-0123456789";
    const { server, url } = await responsesServer("denies");
    servers.add(server);
    const environment = { OPENAI_API_KEY: key, OPENAI_BASE_URL: url };
    const { code, stdout, stderr } = await finished(run(["--model", "openai:gpt-test"], environment));
    expect(code).toBe(1);
    expect(stdout).toMatch(/error +.*Incorrect API key/);
    expect(fact(stdout, "model calls")).toBe("1 made: 0 replies stored");
    expect(fact(stdout, "refund")).toBe("did not run");
    expect(stdout + stderr).not.toContain(key);
  });

  test("rejects a model without its API key before a process is started, and names the variable", async () => {
    const { code, stdout, stderr } = await finished(run(["--model", "anthropic:claude-opus-5"]));
    expect(code).toBe(2);
    expect(stdout).toBe("");
    expect(stderr).toContain("ANTHROPIC_API_KEY");
  });

  test("Ctrl-C ends the worker too, and the next demo with the same file leaves the open turn alone", async () => {
    const database = ["--database", join(folder, "shared.db")];
    const running = run(database);
    const [, pid = ""] = await untilOutput(running, /process (\d+) drives/);
    await untilOutput(running, /find_order/);
    running.child.kill("SIGINT");
    expect((await finished(running)).code).toBe(130);
    expect(isAlive(Number(pid))).toBe(false);

    const { server, url, requests } = await responsesServer("refuses");
    servers.add(server);
    const environment = { OPENAI_API_KEY: "sk-loopback-0123456789", OPENAI_BASE_URL: url };
    const { code, stdout } = await finished(run(["--model", "openai:gpt-test", ...database], environment));
    expect(code).toBe(0);
    expect(requests).toHaveLength(3);
    expect(fact(stdout, "model calls")).toBe("3 charged: 3 replies stored");
    expect(fact(stdout, "other tools")).toBe("none ran");
    expect(stdout).not.toContain("kill -9 ");
  });
});
