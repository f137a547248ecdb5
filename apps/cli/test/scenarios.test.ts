// The scenario that kills a process, with the packed command: the server starts a worker process, kills it, and takes
// its turn over.

import { execFileSync } from "node:child_process";

import { createInspector } from "everturn/client";
import { afterEach, beforeEach, expect, test } from "vitest";

import { createPlace, ended, says } from "./harness.ts";

let place = createPlace();
beforeEach(() => (place = createPlace()));
afterEach(() => place.remove());

async function serve(...flags: readonly string[]) {
  // A pace at which the worker is killed in the middle of its reply, and not after it.
  const child = place.start(["serve", "--port", "0", "--no-token", ...flags], { EVERTURN_OFFLINE_PACE: "8" });
  const output = await says(child.stdout, /The studio is at http:\S+\n/);
  const url = /listens on (http:\S+)/.exec(output)?.[1] ?? "";
  const stop = async () => {
    const over = ended(child);
    child.kill("SIGTERM");
    return (await over).code;
  };
  return { url, output, pid: child.pid ?? 0, inspector: createInspector({ url }), stop };
}

test("the server takes over the turn of a worker process that was killed in the middle of a reply", async () => {
  const { url, inspector, stop } = await serve("--database", "crash.db");
  const { sessionId } = await inspector.startScenario("crash");
  const answer = await fetch(`${url}/sessions/${sessionId}/events`, { signal: AbortSignal.timeout(25_000) });
  let events = "";
  const decoder = new TextDecoder();
  for await (const bytes of answer.body ?? []) {
    events += decoder.decode(bytes, { stream: true });
    if (events.includes('"chat_completed"')) break;
  }
  // Readers discard the reply of the killed process, and get the one of the server. The tools were run once.
  expect(events).toMatch(/"step_reset"[\s\S]*"epoch":2/);
  expect(events.match(/"type":"tool_execution_started"/g)).toHaveLength(2);
  const record = await (await fetch(`${url}/sessions/${sessionId}`)).text();
  expect(record).toContain("Thank you to the 14 people");
  expect(await stop()).toBe(0);
});

test("a server that stops ends the worker process", async () => {
  const { inspector, pid, stop } = await serve("--database", "stopped.db");
  await inspector.startScenario("crash");
  const workers = childrenOf(pid);
  expect(workers).toHaveLength(1);
  expect(await stop()).toBe(0);
  expect(workers.filter((worker) => processes().some((running) => running.pid === worker))).toEqual([]);
});

test("a database in memory offers no crash, and browsers that open the server are sent to the studio", async () => {
  const { inspector, url, output, stop } = await serve("--database", ":memory:");
  expect((await inspector.server()).scenarios.map(({ name }) => name)).not.toContain("crash");
  const page = await fetch(`${url}/`, { headers: { accept: "text/html" } });
  expect([page.url, page.headers.get("content-security-policy")]).toEqual([
    /http:\S+\/studio\//.exec(output)?.[0],
    expect.stringContaining("default-src 'none'"),
  ]);
  expect(await stop()).toBe(0);
});

/** The processes of this machine with their parents. */
function processes(): readonly { readonly pid: number; readonly parent: number }[] {
  const lines = execFileSync("ps", ["-A", "-o", "pid=,ppid="], { encoding: "utf8" }).trim().split("\n");
  return lines.map((line) => {
    const [pid = 0, parent = 0] = line.trim().split(/\s+/).map(Number);
    return { pid, parent };
  });
}

function childrenOf(parent: number): readonly number[] {
  return processes().flatMap((candidate) => (candidate.parent === parent ? [candidate.pid] : []));
}
