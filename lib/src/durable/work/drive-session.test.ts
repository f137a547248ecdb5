// `drive` and `sweep`: sessions that run where and when the caller decides.

import type { EngineFields } from "everturn";
import type { HostStorage } from "everturn/runtime";

import { engine, fake, EngineError } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { handClock } from "everturn/testing";
import { describe, expect, test } from "vitest";

import { approved, latch, rejectionOf, replies, says, toolCall, workTool } from "../../../test/runtime/sessions.ts";
import { duePut } from "../rows/open-rows.ts";

/** A process that only accepts turns, and one that drives them on request. */
function processes(of: EngineFields, shared: HostStorage | null = null) {
  const clock = handClock();
  const host = shared ?? memoryStorage({ clock });
  const options = { host, engines: { default: engine({ model: "fake:m", ...of }) }, live: false, clock } as const;
  return { clock, host, web: runtime({ ...options, drive: false }), other: runtime({ ...options, drive: false }) };
}

describe("drive", () => {
  test("drives the open turn to its end, and is idle without one", async () => {
    const { web, other } = processes({ adapter: replies("one", "two") });
    const turn = await web.start("go", { id: "s" });
    expect(await other.drive("s")).toEqual({ status: "idle" });
    expect(await turn.result).toMatchObject({ status: "ended", text: "one" });
    expect(await other.drive("s")).toEqual({ status: "idle" });
  });

  test("drives the turns that are queued behind it, too", async () => {
    const { web, other } = processes({ adapter: replies("one", "two") });
    await web.start("go", { id: "s" });
    await web.send("s", "more", { whenBusy: "queue" });
    expect(await other.drive("s")).toEqual({ status: "idle" });
    const view = await web.get("s");
    expect(view?.session.thread.messages.map(({ content }) => content)).toEqual(["go", "one", "more", "two"]);
  });

  test("a session that another process holds is busy, for as long as its lease lasts", async () => {
    const { passed, open } = latch();
    const { web, other } = processes({
      adapter: fake({ scripts: [[toolCall("work")], [says("done")]] }),
      tools: [workTool(() => passed.then(() => "ok"))],
    });
    await web.start("go", { id: "s" });
    const driving = web.drive("s");
    await expect.poll(() => other.drive("s")).toMatchObject({ status: "busy" });
    const busy = await other.drive("s");
    expect(busy.status === "busy" && busy.retryAfterMs).toBeGreaterThan(1000);
    expect(busy.status === "busy" && busy.retryAfterMs).toBeLessThanOrEqual(30_000);
    open();
    expect(await driving).toEqual({ status: "idle" });
  });

  test("at the deadline the session is handed over, and another call continues it without repeating recorded effects", async () => {
    const { passed, open } = latch();
    let runs = 0;
    const { clock, web, other } = processes({
      adapter: fake({ scripts: [[toolCall("work")], [says("done")]] }),
      tools: [
        workTool(() => {
          runs += 1;
          return runs === 1 ? passed.then(() => "late") : "ok";
        }),
      ],
    });
    const turn = await web.start("go", { id: "s" });
    const driving = web.drive("s", { deadlineMs: 5000 });
    await expect.poll(() => runs).toBe(1);
    await clock.advance(4999);
    expect((await web.get("s"))?.openTurn?.status).toBe("running");
    await clock.advance(1);
    expect(await driving).toEqual({ status: "handed_over" });
    open();
    expect(await other.drive("s")).toEqual({ status: "idle" });
    expect(await turn.result).toMatchObject({ status: "ended", text: "done" });
    expect(runs).toBe(2);
  });

  test("a turn that was handed over can be awaited, driven again and cancelled in the same process", async () => {
    const { passed } = latch();
    let runs = 0;
    const { clock, web } = processes({
      adapter: fake({ scripts: [[toolCall("work")], [says("done")], [toolCall("work")]] }),
      tools: [
        workTool(() => {
          runs += 1;
          return runs === 2 ? "ok" : passed.then(() => "late");
        }),
      ],
    });
    const handOver = async () => {
      const before = runs;
      const driving = web.drive("s", { deadlineMs: 5000 });
      await expect.poll(() => runs).toBe(before + 1);
      await clock.advance(5000);
      expect(await driving).toEqual({ status: "handed_over" });
    };
    const { result } = await web.start("go", { id: "s" });
    await handOver();
    expect(await web.drive("s")).toEqual({ status: "idle" });
    expect(await result).toMatchObject({ status: "ended", text: "done" });
    const again = await web.reply("s", "again");
    await handOver();
    const cancelling = web.cancel("s", { waitMs: 1000 });
    await expect.poll(() => clock.sleepers).toBeGreaterThan(0);
    await clock.advance(1000);
    expect(await cancelling).toBe("stored");
    expect(await web.drive("s")).toEqual({ status: "idle" });
    expect(await again.result).toMatchObject({ haltedReason: "cancelled" });
  });

  test("before the deadline no further effect is started", async () => {
    const { passed, open } = latch();
    let calls = 0;
    const { clock, web, other } = processes({
      adapter: fake({ scripts: [[toolCall("work")], [says("done")]] }),
      tools: [
        workTool(() => {
          calls += 1;
          return passed.then(() => "ok");
        }),
      ],
    });
    await web.start("go", { id: "s" });
    const driving = web.drive("s", { deadlineMs: 5000, graceMs: 1000 });
    await expect.poll(() => calls).toBe(1);
    await clock.advance(4500);
    open();
    expect(await driving).toEqual({ status: "handed_over" });
    expect((await web.get("s"))?.openTurn).not.toBeNull();
    expect(await other.drive("s")).toEqual({ status: "idle" });
    expect(calls).toBe(1);
  });

  test("an aborted signal hands the session over", async () => {
    const { web, other } = processes({ adapter: replies("one") });
    await web.start("go", { id: "s" });
    expect(await web.drive("s", { signal: AbortSignal.abort() })).toEqual({ status: "handed_over" });
    const abort = new AbortController();
    const { passed } = latch();
    const waiting = processes({
      adapter: fake({ scripts: [[toolCall("work")]] }),
      tools: [workTool(() => passed.then(() => ""))],
    });
    await waiting.web.start("go", { id: "s" });
    const driving = waiting.web.drive("s", { signal: abort.signal });
    await expect.poll(async () => (await waiting.web.get("s"))?.openTurn?.status).toBe("running");
    abort.abort();
    expect(await driving).toEqual({ status: "handed_over" });
    expect(await other.drive("s")).toEqual({ status: "idle" });
  });

  test("a session without an open turn that waits for an answer is idle", async () => {
    const { web } = processes({
      adapter: fake({ scripts: [[toolCall("work")]] }),
      tools: [approved],
    });
    await web.start("go", { id: "s" });
    expect(await web.drive("s")).toEqual({ status: "idle" });
    expect((await web.get("s"))?.session.pendingToolCalls).toHaveLength(1);
  });

  test("a missing engine, a missing session and invalid times are errors", async () => {
    const { web, host } = processes({ adapter: replies("one") });
    await web.start("go", { id: "s" });
    const lacking = runtime({ host, engines: { other: engine({ adapter: replies("x"), model: "fake:m" }) } });
    const error = await rejectionOf(lacking.drive("s"));
    expect(error).toBeInstanceOf(EngineError);
    expect(String(error)).toContain('uses the engine "default", which this runtime does not have');
    expect(await rejectionOf(web.drive("missing"))).toMatchObject({ reason: "not_found" });
    for (const options of [{ deadlineMs: -1 }, { deadlineMs: 10, graceMs: 11 }, { deadlineMs: Number.NaN }]) {
      expect(await rejectionOf(web.drive("s", options))).toMatchObject({ reason: "invalid_argument" });
    }
    expect((await web.get("s"))?.openTurn?.status).toBe("queued");
  });
});

describe("sweep", () => {
  test("lists due sessions of all tenants, round robin, and drives none", async () => {
    const { web, other } = processes({ adapter: replies("x") });
    for (const tenant of ["a", "b"]) {
      for (let count = 0; count < 20; count += 1) await web.tenant(tenant).start("go", { id: `${tenant}${count}` });
    }
    const { due, expired, removed } = await other.sweep({ limit: 24 });
    expect(due).toHaveLength(24);
    const ofTenant = (tenant: string) => due.filter((session) => session.tenant === tenant).length;
    expect([ofTenant("a"), ofTenant("b")]).toEqual([12, 12]);
    expect({ expired, removed }).toEqual({ expired: 0, removed: 0 });
    expect((await other.sweep()).due).toHaveLength(40);
    expect((await web.tenant("a").get("a0"))?.openTurn?.status).toBe("queued");
  });

  test("a session that was handed over is due again; one that is driven or done is not", async () => {
    const { web, other } = processes({ adapter: replies("one", "two") });
    await web.start("go", { id: "done" });
    await other.drive("done");
    await web.start("go", { id: "s" });
    expect((await other.sweep()).due).toEqual([{ tenant: "", sessionId: "s" }]);
    expect(await other.drive("s", { deadlineMs: 0 })).toEqual({ status: "handed_over" });
    expect((await other.sweep()).due).toEqual([{ tenant: "", sessionId: "s" }]);
  });

  test("lists every due session page by page, although the first ones stay due, and serves every tenant on each page", async () => {
    const { web, other, host } = processes({ adapter: replies("x") });
    for (let count = 0; count < 30; count += 1) await web.tenant("many").start("go", { id: `s${count}` });
    for (const tenant of ["few", "z"]) await web.tenant(tenant).start("go", { id: "s" });
    const second = runtime({
      host,
      engines: {
        default: engine({ adapter: replies("x"), model: "fake:m" }),
        second: engine({ adapter: replies("x") }),
      },
      drive: false,
    });
    await second.start("go", { id: "s", engine: "second" });
    for (const [sessions, expected] of [
      [other, 32],
      [second, 33],
    ] as const) {
      const pages = [await sessions.sweep({ limit: 6 })];
      for (let next = pages[0]?.next; typeof next === "string"; next = pages.at(-1)?.next) {
        pages.push(await sessions.sweep({ limit: 6, after: next }));
        expect(pages.length).toBeLessThan(20);
      }
      expect(pages.every(({ due }) => due.length <= 6)).toBe(true);
      const names = (page: (typeof pages)[number]) => page.due.map(({ tenant, sessionId }) => `${tenant}/${sessionId}`);
      expect(new Set(pages.flatMap(names)).size).toBe(expected);
      for (const page of pages) expect(names(page)).toContain("few/s");
    }
    expect((await other.sweep({ limit: 32 })).next).not.toBeNull();
    expect((await other.sweep({ limit: 33 })).next).toBeNull();
  });

  test("a session that a process drives for longer than a lease is not due, and is moved out of the way once in a lease time", async () => {
    const gate = latch();
    const { web, other, clock, host } = processes({
      adapter: fake({ scripts: [[toolCall("work")], [says("done")]] }),
      tools: [workTool(() => gate.passed.then(() => "ok"))],
    });
    await web.start("go", { id: "s" });
    const driving = web.drive("s");
    await clock.advance(100_000);
    const dueRows = async () => (await host.read([{ table: "work", prefix: ["turn"] }]))[0]?.map(({ key }) => key[3]);
    expect((await dueRows())?.every((due) => Number(due) < clock.now())).toBe(true);
    expect((await other.sweep()).due).toEqual([]);
    expect((await dueRows())?.every((due) => Number(due) > clock.now())).toBe(true);
    gate.open();
    expect(await driving).toEqual({ status: "idle" });
  });

  test("a row of the index whose turn has ended is removed, and one that cannot be read affects no other session", async () => {
    const { web, other, host } = processes({ adapter: replies("x") });
    await web.start("go", { id: "s" });
    await web.start("go", { id: "unreadable" });
    await host.write({
      checks: [],
      removals: [],
      puts: [
        duePut({ tenant: "", session: "ended" }, { engine: "default", due: 0 }),
        { table: "open", key: ["", "unreadable"], tag: 1, value: "?" },
      ],
    });
    expect((await other.sweep()).due).toEqual([{ tenant: "", sessionId: "s" }]);
    const [rows = []] = await host.read([{ table: "work", prefix: ["turn"] }]);
    expect(rows.map(({ key }) => key[5]).toSorted()).toEqual(["s", "unreadable"]);
  });

  test("applies deadlines of pending calls", async () => {
    const { clock, web, other } = processes({
      adapter: fake({ scripts: [[toolCall("work")], [says("too late")]] }),
      tools: [approved],
    });
    await web.start("go", { id: "s", waits: { approval: { afterMs: 1000, onTimeout: "error_as_result" } } });
    await web.drive("s");
    expect((await other.sweep()).expired).toBe(0);
    await clock.advance(1000);
    const { expired, due } = await other.sweep();
    expect({ expired, due }).toEqual({ expired: 1, due: [{ tenant: "", sessionId: "s" }] });
    expect(await other.drive("s")).toEqual({ status: "idle" });
    expect((await web.get("s"))?.session.status).toBe("completed");
  });

  test("an invalid limit and an invalid cursor are errors", async () => {
    const { web } = processes({ adapter: replies("x") });
    expect(await rejectionOf(web.sweep({ limit: 0 }))).toMatchObject({ reason: "invalid_argument" });
    for (const after of ["", "x", "{}", "[1]", '["default","",0.5,"s"]']) {
      expect(await rejectionOf(web.sweep({ after }))).toMatchObject({ reason: "invalid_argument" });
    }
  });
});
