// Behaviour that only a separate process shows: closed pipes, signals, the exit code of the process.

import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

import { messageText } from "everturn";
import { createClient } from "everturn/client";
import { afterAll, describe, expect, it } from "vitest";

import { createPlace, ended, says } from "./harness.ts";

const place = createPlace();
afterAll(place.remove);
const { run, start } = place;

describe("the command as a process", () => {
  it("reads piped input, writes the answer and exits with its code", async () => {
    const child = start(["run", "--session", "piped", "Review:"]);
    child.stdin.end("ünï©ode 🐢\n");
    const { code, stdout, stderr } = await ended(child);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^You said: Review:\n\nünï©ode 🐢\n/);
    expect(stderr).toMatch(/^session piped · /);
  });

  it("names the version of Node that it needs", async () => {
    const versions = "Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.18.3' } })";
    const child = start(["--version"], {
      NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(versions)}`,
    });
    child.stdin.end();
    const { code, stderr } = await ended(child);
    expect([code, stderr]).toEqual([1, "everturn needs Node 20.19 or later; this is 20.18.3.\n"]);
  });

  it("completes the turn when the reader closes the pipe", async () => {
    const child = start(["run", "--session", "closed", "hello"], { EVERTURN_OFFLINE_PACE: "5" });
    child.stdin.end();
    const over = ended(child);
    await says(child.stdout, /You/);
    child.stdout.destroy();
    const { code, stderr } = await over;
    expect(code).toBe(0);
    expect(stderr).toMatch(/^session closed · /);
    expect((await run(["sessions"])).stdout).toMatch(/closed +completed +2 /);
  });

  it("stores the cancel of a turn on Ctrl-C and exits with 130", async () => {
    const child = start(["run", "--session", "stopped", 'countdown {"from": 1000}'], { EVERTURN_OFFLINE_PACE: "50" });
    child.stdin.end();
    const over = ended(child);
    await says(child.stderr, /· countdown/);
    expect((await run(["sessions"])).stdout).toMatch(/stopped +running /);
    expect((await run(["show", "stopped"])).stdout).toMatch(/^session stopped {2}running /m);
    child.kill("SIGINT");
    const { code, stderr } = await over;
    expect(code).toBe(130);
    expect(stderr).toContain("everturn: cancelled");
    expect((await run(["sessions"])).stdout).toMatch(/stopped +idle /);
    expect((await run(["show", "stopped"])).stdout).toMatch(/└─ cancelled/);
  });

  it("releases the turn on SIGTERM, so that the next process continues it without waiting for the lease", async () => {
    const child = start(["run", "--session", "left", 'countdown {"from": 100}'], { EVERTURN_OFFLINE_PACE: "1000" });
    child.stdin.end();
    const over = ended(child);
    await says(child.stderr, /· countdown/);
    child.kill("SIGTERM");
    const { code, stderr } = await over;
    expect([code, stderr]).toEqual([
      143,
      expect.stringContaining("everturn: terminated; the turn is not lost, continue it with"),
    ]);
    expect((await run(["show", "left"])).stdout).toMatch(/open: turn-\w+ /);
    const next = await run(["run", "--session", "left", "--quiet", "more"]);
    expect(next).toEqual({ code: 0, stdout: "You said: more\n", stderr: "" });
  });

  it.skipIf(!existsSync("/dev/full"))("reports a full disk and exits with 1, and the turn completes", async () => {
    const child = start(["run", "--session", "full", "hello"], {}, "/dev/full");
    child.stdin.end();
    const { code, stderr } = await ended(child);
    expect([code, stderr]).toEqual([1, expect.stringContaining("everturn: cannot write the output: ENOSPC")]);
    expect((await run(["sessions"])).stdout).toMatch(/full +completed +2 /);
  });

  it("writes console output of tools to standard error", async () => {
    writeFileSync(join(place.folder, "loud.mjs"), `console.log("printed"); export default [];`);
    const child = start(["run", "--quiet", "--json", "--tools", "loud.mjs", "clock"]);
    child.stdin.end();
    const { code, stdout, stderr } = await ended(child);
    expect([code, stderr]).toEqual([0, "printed\n"]);
    expect(JSON.parse(stdout)).toMatchObject({ status: "ended" });
  });

  it("reports a module whose top-level await never settles", async () => {
    writeFileSync(join(place.folder, "never.mjs"), "await new Promise(() => {});");
    const child = start(["run", "--tools", "never.mjs", "clock"]);
    child.stdin.end();
    const { code, stderr } = await ended(child);
    expect([code, stderr]).toEqual([2, expect.stringContaining("waits for a promise that never settles")]);
  });

  it("neither prints nor stores an API key that the provider echoes", async () => {
    const key = "sk-live-0123456789abcdefghij";
    const authorizations: (string | undefined)[] = [];
    const provider = createServer((request, response) => {
      authorizations.push(request.headers.authorization);
      request.resume();
      response.writeHead(401, { "content-type": "application/json" });
      response.end(
        JSON.stringify({ error: { message: `Incorrect API key provided: ${key}`, code: "invalid_api_key" } }),
      );
    });
    provider.listen(0, "127.0.0.1");
    await once(provider, "listening");
    try {
      const address = provider.address();
      const port = typeof address === "object" && address !== null ? address.port : 0;
      const environment = { OPENAI_API_KEY: key, OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1` };
      const child = start(["run", "--json", "--verbose", "--database", "keys.db", "hi"], environment);
      child.stdin.end();
      const { code, stdout, stderr } = await ended(child);
      expect([code, authorizations]).toEqual([1, [`Bearer ${key}`]]);
      expect(stderr).toMatch(/^everturn: the turn failed: .*Incorrect API key/);
      const files = readdirSync(place.folder).filter((name) => name.startsWith("keys.db"));
      expect(files).toContain("keys.db");
      const stored = files.map((name) => readFileSync(join(place.folder, name), "latin1"));
      for (const text of [stdout, stderr, ...stored]) expect(text).not.toContain(key);
    } finally {
      provider.close();
    }
  });

  it("logs a failed turn of serve with its id and cause, and no request if the request log is off", async () => {
    const token = "0123456789abcdef";
    const child = start(["serve", "--port", "0", "--request-log", "off"], { EVERTURN_TOKEN: `acme:${token}` });
    child.stdin.end();
    const over = ended(child);
    const url = /http:\S+/.exec(await says(child.stdout, /http:\S+\n/))?.[0] ?? "";
    const response = await fetch(`${url}/sessions`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json", prefer: "wait=10" },
      body: JSON.stringify({ input: `please fail with ${token}`, id: "failing" }),
    });
    const turn = response.headers.get("everturn-turn") ?? "";
    expect(turn).toMatch(/^turn-/);
    await response.text();
    child.kill("SIGTERM");
    const { stderr } = await over;
    expect(stderr).toMatch(
      new RegExp(
        String.raw`^\d{4}-\S+Z turn ${turn} of session failing of tenant acme failed: \w+: .*asked to fail`,
        "m",
      ),
    );
    expect(stderr).not.toContain(token);
    expect(stderr).not.toContain("POST");
  });

  it("serves until SIGTERM, and refuses a public address without a token", async () => {
    const token = "0123456789abcdef";
    const child = start(["serve", "--port", "0"], { EVERTURN_TOKEN: token });
    child.stdin.end();
    const over = ended(child);
    const said = await says(child.stdout, /http:\S+\n/);
    const url = /http:\S+/.exec(said)?.[0] ?? "";
    const ask = (authorization: string) =>
      fetch(`${url}/sessions`, {
        method: "POST",
        headers: { authorization, "content-type": "application/json", prefer: "wait=10" },
        body: JSON.stringify({ input: "over HTTP" }),
      });
    expect((await ask("Bearer no")).status).toBe(401);
    const answer: unknown = await (await ask(`Bearer ${token}`)).json();
    expect(answer).toMatchObject({ text: expect.stringContaining("You said: over HTTP") });
    child.kill("SIGTERM");
    const { code: served, stderr: log } = await over;
    expect(served).toBe(0);
    expect(log).toMatch(/^\d{4}-\S+Z POST \/sessions 401 [\d.]+ m?s caller=- from 127\.0\.0\.1$/m);
    expect(log).toMatch(/^\d{4}-\S+Z POST \/sessions 200 [\d.]+ m?s caller=anonymous from 127\.0\.0\.1$/m);
    expect(log).not.toContain(token);
    const { code, stderr } = await run(["serve", "--host", "0.0.0.0"]);
    expect([code, stderr]).toEqual([2, expect.stringContaining("set a token, or listen on 127.0.0.1")]);
  });

  it("is restarted after SIGTERM, and a reader receives the rest within two seconds", async () => {
    // Not an ephemeral port: another process could get it before the second server listens.
    const port = 10_000 + Math.floor(Math.random() * 20_000);
    const serveArguments = ["serve", "--port", `${port}`, "--no-token", "--database", "restarted.db"];
    const pace = { EVERTURN_OFFLINE_PACE: "30" };
    const listens = async () => {
      const child = start(serveArguments, pace);
      child.stdin.end();
      const over = ended(child);
      await says(child.stdout, /http:\S+\n/);
      return { child, over };
    };
    const first = await listens();
    const client = createClient({ url: `http://127.0.0.1:${port}` });
    // The first server hands the turn over after the tool, and the second one writes the reply.
    const turn = await client.start('countdown {"from": 5}', { id: "s" });
    let restarting: ReturnType<typeof listens> | null = null;
    let listeningAt = 0;
    let readAgainAt = 0;
    let text = "";
    const restart = async () => {
      first.child.kill("SIGTERM");
      // The first answers can be from before the process handled the signal.
      let response = await fetch(`http://127.0.0.1:${port}/sessions/s`);
      while (response.status === 200) response = await fetch(`http://127.0.0.1:${port}/sessions/s`);
      expect([response.status, response.headers.get("connection")]).toEqual([503, "close"]);
      expect((await first.over).code).toBe(0);
      const second = await listens();
      listeningAt = Date.now();
      return second;
    };
    for await (const { event } of turn.events) {
      if (event.type === "message_completed") text = messageText(event.message);
      if (listeningAt > 0 && readAgainAt === 0) readAgainAt = Date.now();
      if (event.type === "tool_progress") restarting ??= restart();
    }
    const second = await restarting;
    const view = await client.get("s");
    expect(view?.session.thread.messages.at(-1)).toMatchObject({ role: "assistant", content: text });
    second?.child.kill("SIGTERM");
    expect((await second?.over)?.code).toBe(0);
    expect(readAgainAt).toBeGreaterThan(0);
    expect(readAgainAt - listeningAt).toBeLessThan(2000);
  });

  it.each([
    ["no setting", [], 404],
    ["--completions on", ["--completions", "on"], 200],
  ])("serves OpenAI's chat completions only if it is asked to: %s", async (_, flags, status) => {
    const child = start(["serve", "--port", "0", "--no-token", ...flags]);
    child.stdin.end();
    const over = ended(child);
    const url = /http:\S+/.exec(await says(child.stdout, /http:\S+\n/))?.[0] ?? "";
    expect((await fetch(`${url}/v1/models`)).status).toBe(status);
    child.kill("SIGTERM");
    expect((await over).code).toBe(0);
  });

  it("refuses an address for Restate that is not loopback without a key", async () => {
    const { code, stderr } = await run(["serve", "--port", "0", "--drive", "restate", "--restate-listen", "0.0.0.0:0"]);
    expect(code).toBe(2);
    expect(stderr).toContain("other machines can reach 0.0.0.0: set a key of Restate (--restate-key)");
  });
});
