// What a program hears without any option: failed turns, refused requests, internal errors and engines that nothing
// has.

import { engine, fake } from "everturn";
import { createHandler } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { handClock } from "everturn/testing";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

const lines: string[] = [];
beforeEach(() => {
  lines.length = 0;
  vi.spyOn(console, "warn").mockImplementation((line: unknown) => void lines.push(String(line)));
});
afterEach(() => vi.restoreAllMocks());

const token = "the-token-of-the-operator";

function world(options: object = {}) {
  const clock = handClock();
  const host = memoryStorage({ clock });
  const agent = engine({
    adapter: fake({ script: [{ type: "error", reason: "authentication_failed", message: "slow down" }] }),
    model: "fake:m",
    retry: false,
    clock,
  });
  const sessions = runtime({ host, engines: { default: agent }, clock, ...options });
  return { clock, host, agent, sessions };
}

test("a turn that failed is one line, which an option replaces", async () => {
  const { sessions } = world();
  const turn = await sessions.tenant("shop").start("hi", { id: "s1" });
  await turn.result;
  expect(lines).toEqual([
    expect.stringMatching(/^everturn: turn \S+ of session "s1" of tenant "shop" failed: authentication_failed: /),
  ]);
  const reports: unknown[] = [];
  const quiet = world({ onTurnFailure: (report: unknown) => reports.push(report) });
  await (
    await quiet.sessions.start("hi")
  ).result;
  expect([lines.length, reports.length]).toEqual([1, 1]);
});

test("texts of providers and of the program stay in one line, and do not control the terminal", async () => {
  const hostile = "no\neverturn: turn t1 of session s1 was approved \u001B[2J\u009B31m\u202Egnp";
  const { host, clock } = world();
  const adapter = fake({ script: [{ type: "error", reason: "authentication_failed", message: hostile }] });
  const agent = engine({ adapter, model: "fake:m", retry: false, clock });
  const sessions = runtime({ host, engines: { default: agent }, clock });
  const turn = await sessions.tenant(hostile).start("hi", { id: "s1" });
  await turn.result;
  const failing = createHandler({ sessions, auth: () => Promise.reject(new Error(hostile)), clock });
  expect((await failing(new Request("http://localhost/sessions"))).status).toBe(500);
  expect(lines).toEqual([
    expect.stringMatching(
      /^everturn: turn \S+ of session "s1" of tenant .* failed: authentication_failed: no everturn: /,
    ),
    expect.stringMatching(/^everturn: internal error of GET \/sessions: no everturn: /),
  ]);
  for (const line of lines) expect(line).not.toMatch(/[\p{Cc}\p{Cf}]/u);
});

test("refused requests are at most ten lines in a minute, and an option replaces them", async () => {
  const { sessions, clock } = world();
  const handler = createHandler({ sessions, auth: [{ token }], clock });
  const ask = (path: string, headers: object = {}, method = "GET") =>
    handler(new Request(`http://localhost${path}`, { method, headers: { ...headers } }));
  await ask("/sessions?secret=1");
  expect(lines).toEqual([expect.stringMatching(/^everturn: GET \/sessions was refused \(401\): a bearer token/)]);
  for (let count = 0; count < 30; count += 1) await ask("/sessions");
  expect(lines).toHaveLength(10);
  await clock.advance(60_000);
  await ask("/sessions");
  expect(lines.slice(10)).toEqual(["everturn: 21 more requests were refused", expect.stringContaining("(401)")]);
  // What is wrong with a request concerns the client only.
  await ask("/no-such-route", { authorization: `Bearer ${token}` });
  expect(lines).toHaveLength(12);
  const refusals: unknown[] = [];
  const own = createHandler({ sessions, auth: [{ token }], onRefused: (refused) => refusals.push(refused) });
  await own(new Request("http://localhost/sessions"));
  expect(refusals).toMatchObject([{ status: 401, reason: "unauthorized", method: "GET", path: "/sessions" }]);
  expect(lines).toHaveLength(12);
});

test("a refused origin is named, with the expected one and the setting", async () => {
  const { sessions } = world();
  const handler = createHandler({ sessions, auth: [{ token }], onRefused: () => undefined });
  const headers = {
    authorization: `Bearer ${token}`,
    origin: "https://evil.example",
    "content-type": "application/json",
  };
  const request = new Request("http://localhost/sessions", { method: "POST", headers, body: '{"input":"hi"}' });
  const response = await handler(request);
  expect(response.status).toBe(403);
  expect(JSON.parse(await response.text()).error.message).toBe(
    'requests from pages of the origin "https://evil.example" are not allowed; expected is one of the host localhost, or of the option origins (--cors)',
  );
});

test("an engine that no process has is reported by workers when its turns are overdue", async () => {
  const { host, clock, agent } = world();
  const accepting = runtime({ host, engines: { gone: agent }, clock, drive: false });
  await accepting.start("hi", { id: "s1", engine: "gone" });
  await clock.advance(61_000);
  const stop = new AbortController();
  const worker = runtime({ host, engines: { default: agent }, clock });
  const working = worker.work({ signal: stop.signal });
  await vi.waitFor(() => expect(lines).toHaveLength(1));
  expect(lines[0]).toMatch(/turns of the engine "gone" have been due for 6\d s: this process does not have the engine/);
  stop.abort();
  await working;
});

test("messages of providers reach operators in the timeline, and not callers", async () => {
  const { sessions } = world();
  const caller = "the-token-of-a-caller-1";
  const handler = createHandler({
    sessions,
    auth: [
      { token, operator: true, tenant: "shop" },
      { token: caller, name: "ada", tenant: "shop" },
    ],
    inspect: true,
    clock: handClock(),
  });
  const turn = await sessions.tenant("shop").calledBy("ada").start("hi", { id: "s1" });
  await turn.result;
  const timeline = async (bearer: string) =>
    (
      await handler(
        new Request(`http://localhost/sessions/s1/turns/${turn.turnId}/timeline`, {
          headers: { authorization: `Bearer ${bearer}` },
        }),
      )
    ).text();
  expect(await timeline(token)).toContain("slow down");
  expect(await timeline(caller)).not.toContain("slow down");
});
