// Sessions that Restate drives, on an implementation of Restate in memory (test/restate/hand-restate.ts).
// `npm run test:restate` uses a real server.

import type { Invocation } from "./invocation.ts";
import type { HostStorage, Runtime } from "everturn/runtime";

import { engine, fake, tool, EngineError, RuntimeError } from "everturn";
import { restateRuntime, restateServices, restateSession } from "everturn/restate";
import { memoryStorage, runtime } from "everturn/runtime";
import { describe, expect, test } from "vitest";

import { deployment, driveRequest, failingReads, startRequest } from "../../../test/restate/hand-deployment.ts";
import { HandRestate } from "../../../test/restate/hand-restate.ts";
import { approved, latch, rejectionOf, replies, says, toolCall, workTool } from "../../../test/runtime/sessions.ts";
import { World } from "../../../test/runtime/world.ts";
import { sweeperHandlers } from "./handlers.ts";
import { serviceContext } from "./service-context.ts";

describe("verbs", () => {
  test("store the turn and send its session, with the id of the turn as idempotency key", async () => {
    const { web, restate, service } = deployment({ adapter: replies("one", "two") });
    const turn = await web.start("go", { id: "s" });
    expect(await turn.result).toMatchObject({ status: "ended", text: "one" });
    const [driven] = restate.of("drive");
    expect(driven?.request).toMatchObject({ service: "EverturnSession", key: "/s", idempotencyKey: turn.turnId });
    expect(await driven?.outcome).toMatchObject({
      status: "idle",
      turnId: turn.turnId,
      step: 1,
      outcome: "completed",
      next: null,
    });
    expect(restate.state.get("EverturnSession//s/progress")).toMatchObject({ status: "idle", turnId: turn.turnId });
    expect(await (await web.reply("s", "more")).result).toMatchObject({ text: "two" });
    expect(restate.of("drive")).toHaveLength(2);
    expect((await service.get("s"))?.openTurn).toBeNull();
  });

  test("of a tenant send the session of that tenant", async () => {
    const { web, restate } = deployment({ adapter: replies("one") });
    const turn = await web.tenant("a/b").start("go", { id: "s 1" });
    expect(await turn.result).toMatchObject({ text: "one" });
    expect(restate.of("drive").map(({ request }) => request.key)).toEqual(["a%2Fb/s%201"]);
  });

  test("succeed although their request is lost, and the sweeper finishes the turn", async () => {
    const { web, restate, failures, clock } = deployment({ adapter: replies("one") }, { sweepMs: 5000 });
    restate.send(startRequest);
    await clock.advance(0);
    restate.loses = ({ handler }) => handler === "drive";
    const turn = await web.start("go", { id: "s" });
    expect(failures).toMatchObject([{ tenant: "", sessionId: "s", turnId: turn.turnId }]);
    await clock.advance(4999);
    expect((await web.get("s"))?.openTurn?.status).toBe("queued");
    await clock.advance(1);
    expect(await turn.result).toMatchObject({ text: "one" });
    expect(restate.of("resume")).toHaveLength(1);
  });

  test("that are repeated with the same key send no second invocation", async () => {
    const { web, restate } = deployment({ adapter: replies("one") });
    const turns = await Promise.all([1, 2].map(() => web.start("go", { id: "s", key: "k" })));
    await Promise.all(turns.map(({ result }) => result));
    expect(restate.of("drive")).toHaveLength(1);
  });

  test("cancel ends a turn that no process drives", async () => {
    const { web, restate, clock } = deployment({ adapter: replies("one") });
    restate.loses = ({ handler }) => handler === "drive";
    const turn = await web.start("go", { id: "s" });
    const cancelling = web.cancel("s");
    await clock.advance(100);
    expect(await cancelling).toBe("cancelled");
    expect(await turn.result).toMatchObject({ haltedReason: "cancelled" });
    expect(await web.cancel("s")).toBe("nothing_open");
  });

  test("complete by token starts the turn of any tenant", async () => {
    const { web, clock, restate } = deployment({
      adapter: fake({ scripts: [[toolCall("work")], [says("done")]] }),
      tools: [approved],
    });
    const tenant = web.tenant("t");
    await (
      await tenant.start("go", { id: "s" })
    ).result;
    const [call] = (await tenant.get("s"))?.session.pendingToolCalls ?? [];
    const token = await tenant.token("s", call?.id ?? "");
    expect(await web.complete(token, { type: "approve" })).toMatchObject({ type: "completed", tenant: "t" });
    expect(restate.of("drive").map(({ request }) => request.key)).toEqual(["t/s", "t/s"]);
    await clock.advance(0);
    expect((await tenant.get("s"))?.session.status).toBe("completed");
  });

  test("recover sends the sessions that are due", async () => {
    const { web, restate } = deployment({ adapter: replies("one", "two") });
    restate.loses = ({ handler }) => handler === "drive";
    const turns = [await web.start("go", { id: "a" }), await web.tenant("t").start("go", { id: "b" })];
    expect(await web.recover()).toMatchObject({ pickedUp: 2 });
    const ends = await Promise.all(turns.map(({ result }) => result));
    expect(ends.map(({ status }) => status)).toEqual(["ended", "ended"]);
  });

  test("recover sends all of them, also if there are more than one sweep lists", async () => {
    const { web, restate, host } = deployment({ adapter: replies("one") });
    restate.loses = () => true;
    await web.start("go", { id: "s0" });
    const [open = [], due = []] = await host.read([
      { table: "open", prefix: [] },
      { table: "work", prefix: ["turn"] },
    ]);
    // Rows of more sessions, as a sweep sees them.
    const ids = Array.from({ length: 259 }, (_, index) => `s${index + 1}`);
    const puts = ids.flatMap((id) => [
      ...open.map(({ tag, value }) => ({ table: "open", key: ["", id], tag, value }) as const),
      ...due.map(({ key, tag, value }) => ({ table: "work", key: [...key.slice(0, 5), id, ""], tag, value }) as const),
    ]);
    await host.write({ checks: [], removals: [], puts });
    expect(await web.recover()).toMatchObject({ pickedUp: 260 });
  });

  test("refuse an address that is not a URL, and a prefix that Restate does not accept", () => {
    const options = { host: memoryStorage(), engines: { default: engine({ adapter: replies("x") }) } };
    for (const restate of [{ ingress: "localhost:8080" }, { ingress: "http://a", prefix: "a b" }]) {
      expect(() => restateRuntime({ ...options, restate })).toThrow(/must be a URL|must begin with a letter/);
    }
  });
});

describe("[lash 89] drive", () => {
  test("at its deadline hands the session over to the next invocation, and repeats no recorded effect", async () => {
    const gates = [latch(), latch()];
    let calls = 0;
    const { web, restate, clock } = deployment(
      {
        adapter: fake({ scripts: [[toolCall("work")], [toolCall("work")], [says("done")]] }),
        tools: [
          workTool(() => {
            calls += 1;
            return gates[calls - 1]?.passed.then(() => "ok") ?? "ok";
          }),
        ],
      },
      { deadlineMs: 10_000, graceMs: 5000 },
    );
    const turn = await web.start("go", { id: "s" });
    await expect.poll(() => calls).toBe(1);
    await clock.advance(6000);
    gates[0]?.open();
    await expect.poll(() => restate.of("drive").length).toBe(2);
    gates[1]?.open();
    expect(await turn.result).toMatchObject({ text: "done", steps: 3 });
    expect(calls).toBe(2);
    const [first, second] = restate.of("drive");
    expect(await first?.outcome).toMatchObject({
      status: "handed_over",
      next: `${turn.turnId}/1`,
      turnId: turn.turnId,
    });
    expect(second?.request).toMatchObject({ idempotencyKey: `${turn.turnId}/1`, delayMs: 0 });
  });

  test("an effect that takes longer than the deadline is reported, and repeated with backoff", async () => {
    let calls = 0;
    const { web, restate, clock } = deployment(
      {
        adapter: fake({ scripts: [[toolCall("work")], [says("done")]] }),
        tools: [workTool(() => ((calls += 1), new Promise(() => undefined)))],
      },
      { deadlineMs: 1000, graceMs: 500, sweepMs: 3_600_000 },
    );
    const turn = await web.start("go", { id: "s" });
    await clock.advance(10_000);
    const [first] = restate.of("drive");
    expect(await first?.outcome).toMatchObject({
      status: "handed_over",
      failure: "an effect was aborted at the deadline of 1000 ms: raise deadlineMs, or graceMs",
      next: `${turn.turnId}/1`,
    });
    expect(restate.of("drive").at(-1)?.request.delayMs).toBe(2400);
    expect(calls).toBeLessThan(8);
  });

  test("hands the session over when its attempt is over, and the next attempt does not wait for the lease", async () => {
    const gate = latch();
    let calls = 0;
    const { web, restate, clock } = deployment({
      adapter: fake({ scripts: [[toolCall("work")], [says("done")]] }),
      tools: [workTool(() => ((calls += 1) === 1 ? gate.passed.then(() => "late") : "ok"))],
    });
    const turn = await web.start("go", { id: "s" });
    await expect.poll(() => calls).toBe(1);
    const [driven] = restate.of("drive");
    driven?.attempt.abort();
    expect(await turn.result).toMatchObject({ text: "done" });
    expect(driven?.attempts).toBe(2);
    expect(calls).toBe(2);
    expect(clock.now()).toBe(0);
    gate.open();
  });

  test("an attempt that is over during a commit loses nothing: what was committed is not performed again", async () => {
    const storage = memoryStorage();
    const gate = latch();
    let [calls, state] = [0, "waits" as "waits" | "armed" | "blocked"];
    const host: HostStorage = {
      ...storage,
      write: async (batch) => {
        if (state === "armed" && batch.puts.some(({ table }) => table === "journal")) {
          state = "blocked";
          await gate.passed;
        }
        return storage.write(batch);
      },
    };
    const { web, restate } = deployment(
      {
        adapter: fake({ scripts: [[toolCall("work")], [says("done")]] }),
        tools: [workTool(() => ((calls += 1), (state = "armed"), "ok"))],
      },
      { host },
    );
    const turn = await web.start("go", { id: "s" });
    await expect.poll(() => state).toBe("blocked");
    const [driven] = restate.of("drive");
    driven?.attempt.abort();
    gate.open();
    expect(await turn.result).toMatchObject({ text: "done" });
    expect(driven?.attempts).toBe(2);
    expect(calls).toBe(1);
  });

  test("ends a turn that is cancelled while an invocation drives it", async () => {
    let aborted = 0;
    const hangs = tool({
      name: "work",
      description: "Works.",
      schema: { type: "object" },
      handler: (_, { signal }) =>
        new Promise((resolve) => signal.addEventListener("abort", () => resolve(`${(aborted += 1)}`), { once: true })),
    });
    const { web, restate, clock } = deployment({ adapter: fake({ scripts: [[toolCall("work")]] }), tools: [hangs] });
    const turn = await web.start("go", { id: "s" });
    await expect.poll(async () => (await web.get("s"))?.openTurn?.status).toBe("running");
    const cancelling = web.cancel("s");
    await clock.advance(3000);
    expect(await cancelling).toBe("cancelled");
    expect(await turn.result).toMatchObject({ haltedReason: "cancelled" });
    expect(await restate.of("drive")[0]?.outcome).toMatchObject({ status: "idle", outcome: "cancelled", next: null });
    expect(aborted).toBe(1);
  });

  test("returns normally while another process holds the session, and tries again with backoff", async () => {
    const gate = latch();
    const { web, restate, clock, base, host } = deployment({
      adapter: fake({ scripts: [[toolCall("work")], [says("done")]] }),
      tools: [workTool(() => gate.passed.then(() => "ok"))],
    });
    const holder = runtime({ ...base, host });
    const held = await holder.start("go", { id: "s" });
    await expect.poll(async () => (await web.get("s"))?.openTurn?.status).toBe("running");
    await web.send("s", "more", { whenBusy: "queue" });
    await expect.poll(() => restate.of("drive").length).toBe(2);
    expect(await restate.of("drive")[0]?.outcome).toMatchObject({ status: "busy" });
    expect(restate.of("drive")[1]?.request.delayMs).toBe(300);
    await clock.advance(5000);
    const delays = restate.of("drive").map(({ request }) => request.delayMs);
    expect(delays).toEqual([0, 300, 300, 300, 300, 600, 1200, 2400]);
    // The wait is at most 30 seconds, and the lease of the holder ends sooner here. After twelve attempts the turn is
    // left to the sweeper.
    for (const retries of [10, 11, 12]) {
      const sent = restate.send({ ...driveRequest, key: "/s", input: { turnId: "t", continuation: 20, retries } });
      expect(await sent.outcome).toMatchObject({ status: "busy", next: retries < 12 ? `${held.turnId}/21` : null });
    }
    const longest = Math.max(...restate.of("drive").map(({ request }) => request.delayMs));
    expect(longest).toBeGreaterThan(4800);
    expect(longest).toBeLessThanOrEqual(30_000);
    expect(restate.of("drive").every(({ attempts }) => attempts <= 1)).toBe(true);
    gate.open();
    await held.result;
  });

  test("a parked turn returns normally, and nothing more is sent", async () => {
    const world = new World();
    let runs = 0;
    const hangs = engine({
      adapter: fake({ scripts: [[toolCall("work")]] }),
      model: "fake:m",
      tools: [workTool(() => ((runs += 1), new Promise(() => undefined)))],
    });
    const crashing = world.process(hangs, { maxTakeovers: 1 });
    await crashing.start("go", { id: "s" });
    await expect.poll(() => runs).toBe(1);
    crashing.kill();
    await world.clock.advance(120_000);
    const sessions = world.process(hangs, { maxTakeovers: 1 });
    const restate = new HandRestate(world.clock, { sessions });
    const driven = restate.send({ ...driveRequest, key: "/s" });
    expect(await driven.outcome).toMatchObject({ status: "parked", next: null });
    expect(restate.of("drive")).toHaveLength(1);
    expect(driven.attempts).toBe(1);
    // A handler that waits for the turn gets its state instead of waiting for ever.
    const turnId = (await sessions.get("s"))?.openTurn?.turnId ?? "";
    expect(await restateSession(restate.context, { id: "s" }).result(turnId)).toMatchObject({ status: "parked" });
  });

  test("an error of the storage is a result, and the turn is tried again later", async () => {
    const storage = memoryStorage();
    let isDown = false;
    const host: HostStorage = {
      ...storage,
      read: async (queries) => {
        if (isDown) throw new RuntimeError("storage_failed", { message: "the disk is gone" });
        return storage.read(queries);
      },
    };
    const { restate, clock, base } = deployment({ adapter: replies("one") }, { host });
    const outside = runtime({ ...base, host: storage, drive: false });
    const turn = await outside.start("go", { id: "s" });
    isDown = true;
    const driven = restate.send({ ...driveRequest, key: "/s", idempotencyKey: turn.turnId });
    expect(await driven.outcome).toMatchObject({ status: "failed", failure: "the disk is gone" });
    await clock.advance(1000);
    isDown = false;
    await clock.advance(1000);
    expect(await turn.result).toMatchObject({ text: "one" });
    expect(restate.of("drive").every(({ attempts }) => attempts === 1)).toBe(true);
  });

  test("a deleted session is gone, and an invalid key is refused", async () => {
    const { restate } = deployment({ adapter: replies("one") });
    expect(await restate.send({ ...driveRequest, key: "/missing" }).outcome).toMatchObject({
      status: "gone",
      next: null,
    });
    expect(await rejectionOf(restate.send({ ...driveRequest, key: "no slash" }).outcome)).toMatchObject({
      status: 400,
    });
  });

  test("sends a sweep at the deadline of a pending call", async () => {
    const { web, restate, clock } = deployment({
      adapter: fake({ scripts: [[toolCall("work")], [says("too late")]] }),
      tools: [approved],
    });
    const waits = { approval: { afterMs: 60_000, onTimeout: "error_as_result" } } as const;
    await (
      await web.start("go", { id: "s", waits })
    ).result;
    restate.loses = ({ handler }) => handler === "tick";
    await clock.advance(0);
    expect(restate.of("sweep").map(({ request }) => request.delayMs)).toEqual([60_000]);
    await clock.advance(60_000);
    expect((await web.get("s"))?.session.status).toBe("completed");
  });
});

describe("the sweeper", () => {
  test("runs in one chain, however often it is started", async () => {
    const { restate, clock } = deployment({ adapter: replies("one") }, { sweepMs: 1000 });
    for (let count = 0; count < 3; count += 1) restate.send(startRequest);
    await clock.advance(3500);
    expect(restate.of("tick")).toHaveLength(5);
  });

  test("is started again after its chain has ended", async () => {
    const { restate, clock } = deployment({ adapter: replies("one") }, { sweepMs: 1000 });
    restate.send(startRequest);
    await clock.advance(1500);
    restate.loses = ({ handler }) => handler === "tick";
    await clock.advance(120_000);
    restate.loses = () => false;
    const before = restate.of("tick").length;
    restate.send(startRequest);
    await clock.advance(2500);
    // Two more ticks ran, and one is scheduled.
    expect(restate.of("tick").filter(({ status }) => status === "completed").length).toBe(before + 3);
    expect(restate.of("tick").filter(({ status }) => status === "scheduled")).toHaveLength(1);
  });

  test("reaches every due session, although more than one sweep lists stay due", async () => {
    const { web, restate, clock } = deployment({ adapter: replies("one") }, { sweepMs: 60_000, sweepLimit: 4 });
    restate.loses = ({ handler, key }) => handler === "drive" || (handler === "resume" && key !== "/z");
    for (let count = 0; count < 9; count += 1) await web.start("go", { id: `s${count}` });
    const last = await web.start("go", { id: "z" });
    restate.send(startRequest);
    await clock.advance(2000);
    expect(await last.result).toMatchObject({ text: "one" });
    const [first, ...others] = restate.of("tick").filter(({ status }) => status === "completed");
    expect(await first?.outcome).toMatchObject({ resumed: 4 });
    expect(others.length).toBeGreaterThan(1);
    // After the last page the sweeper waits for its usual time.
    expect(restate.of("tick").at(-1)?.request.delayMs).toBe(60_000);
  });

  test("is started again if a process with another clock has written a time in the far future", async () => {
    const { restate, clock } = deployment({ adapter: replies("one") }, { sweepMs: 1000 });
    restate.state.set("EverturnSweeper/main/chain", { generation: 7, dueAt: 600_000 });
    restate.send(startRequest);
    await clock.advance(2500);
    expect(restate.of("tick").length).toBeGreaterThan(2);
    for (const { request } of restate.of("tick")) expect(request.input).toEqual({ generation: 8 });
  });

  test("sends a session that stays due again, at most five times in a while", async () => {
    const { web, restate, clock, service } = deployment({ adapter: replies("one") }, { sweepMs: 1000 });
    restate.loses = ({ handler }) => handler === "drive";
    await web.start("go", { id: "s" });
    // No engine of that name: the session stays due for others.
    const lacking = runtime({ host: failingReads(), engines: { default: engine({ adapter: replies("x") }) } });
    const failing = new HandRestate(clock, { sessions: { ...service, tenant: () => lacking }, sweepMs: 1000 });
    failing.send(startRequest);
    const counts: number[] = [];
    for (let sweep = 0; sweep < 6; sweep += 1) {
      await clock.advance(sweep === 0 ? 500 : 1000);
      counts.push(failing.of("resume").length);
    }
    // One, then two, then four at once, for a proxy that passes every other request to a paused process.
    expect(counts).toEqual([1, 3, 5, 5, 5, 5]);
    expect(failing.of("resume").map(({ attempts }) => attempts)).toEqual([1, 1, 1, 1, 1]);
  });

  test("waits for a sweep that takes longer than Restate does, instead of beginning it with each attempt", async () => {
    const { service, clock } = deployment({ adapter: replies("one") });
    const ends: (() => void)[] = [];
    const slow: Runtime = {
      ...service,
      sweep: async (options) => {
        await new Promise<void>((resolve) => ends.push(resolve));
        return service.sweep(options);
      },
    };
    const { sweep } = sweeperHandlers(serviceContext({ sessions: slow, clock }));
    const attempt = (id: string) => sweep?.call(attemptOf(id), new Uint8Array());
    const attempts = [attempt("inv_1"), attempt("inv_1"), attempt("inv_2")];
    expect(ends).toHaveLength(2);
    for (const end of ends) end();
    expect(await Promise.all(attempts)).toEqual(
      [1, 2, 3].map(() => ({ resumed: 0, expired: 0, removed: 0, failure: null })),
    );
    const later = attempt("inv_1");
    ends.at(-1)?.();
    expect(ends).toHaveLength(3);
    await later;
  });

  test("survives a storage that cannot be reached", async () => {
    const { restate, clock } = deployment({ adapter: replies("one") }, { sweepMs: 1000, host: failingReads() });
    restate.send(startRequest);
    await clock.advance(3000);
    expect(await restate.of("tick")[0]?.outcome).toMatchObject({ failure: "the disk is gone", resumed: 0 });
    expect(restate.of("tick").length).toBeGreaterThan(2);
  });
});

describe("a handler of the caller's own", () => {
  test("starts a turn, waits for its end, and goes on", async () => {
    const { restate, web } = deployment({ adapter: replies("one", "two") });
    const session = restateSession(restate.context, { id: "s", tenant: "t" });
    const turn = await session.start("go");
    expect(await turn.result()).toMatchObject({ status: "ended", text: "one" });
    expect(await (await session.reply("more")).result()).toMatchObject({ text: "two" });
    expect((await web.tenant("t").get("s"))?.length).toBe(4);
  });

  test("waits across continuations", async () => {
    const gate = latch();
    let calls = 0;
    const { restate, clock } = deployment(
      {
        adapter: fake({ scripts: [[toolCall("work")], [says("done")]] }),
        tools: [workTool(() => ((calls += 1), gate.passed.then(() => "ok")))],
      },
      { deadlineMs: 10_000, graceMs: 5000 },
    );
    const turn = await restateSession(restate.context, { id: "s" }).start("go");
    const ended = turn.result();
    await expect.poll(() => calls).toBe(1);
    await clock.advance(6000);
    gate.open();
    expect(await ended).toMatchObject({ text: "done" });
    expect(restate.of("drive")).toHaveLength(2);
  });

  test("answers a pending call, and gets what the session waits for", async () => {
    const { restate } = deployment({
      adapter: fake({ scripts: [[toolCall("work")], [says("done")]] }),
      tools: [approved],
    });
    const session = restateSession(restate.context, { id: "s" });
    const waiting = await (await session.start("go")).result();
    const [call] = waiting.session.pendingToolCalls;
    const turn = await session.decide(call?.id ?? "", { type: "approve" });
    expect(await turn.result()).toMatchObject({ text: "done" });
    expect(await session.cancel()).toBe("nothing_open");
  });

  test("an input is accepted once, although the attempt that accepted it is repeated", async () => {
    const { restate, web } = deployment({ adapter: replies("one", "two") });
    await (
      await web.start("go", { id: "s" })
    ).result;
    // The process dies after the write and before Restate has the result.
    restate.dies = ({ request, attempts }) => request.handler === "reply" && attempts < 3;
    const reply = { ...startRequest, service: "EverturnSession", handler: "reply", key: "/s" };
    const sent = restate.send({ ...reply, input: { text: "more" } });
    await sent.outcome;
    expect(sent.attempts).toBe(3);
    const view = await web.get("s");
    expect(view?.session.thread.messages.filter(({ role }) => role === "user")).toHaveLength(2);
  });

  test("a call that can never succeed is refused, and not repeated", async () => {
    const { restate } = deployment({ adapter: replies("one") });
    const reply = { ...startRequest, service: "EverturnSession", handler: "reply", key: "/missing" };
    const refused = restate.send({ ...reply, input: { text: "hi" } });
    expect(await rejectionOf(refused.outcome)).toMatchObject({ name: "RefusedCall", status: 404 });
    expect(refused.attempts).toBe(1);
  });

  test("scheduled input is sent when its time has come", async () => {
    const { restate, web, clock } = deployment({ adapter: replies("one", "two", "three") }, { sweepMs: 60_000 });
    await (
      await web.start("go", { id: "s" })
    ).result;
    await web.sendLater("s", "in a minute", { afterMs: 60_000, key: "reminder" });
    await web.sendLater("s", "in a minute", { afterMs: 60_000, key: "reminder" });
    restateSession(restate.context, { id: "s" }).sendLater("in two minutes", { afterMs: 120_000 });
    await clock.advance(59_999);
    expect((await web.get("s"))?.length).toBe(2);
    await clock.advance(1);
    expect((await web.get("s"))?.length).toBe(4);
    await clock.advance(60_000);
    const view = await web.get("s");
    expect(view?.session.thread.messages.map(({ content }) => content)).toEqual([
      "go",
      "one",
      "in a minute",
      "two",
      "in two minutes",
      "three",
    ]);
  });
});

test("on a platform that the SDK does not support, the error says so", async () => {
  const sessions = runtime({ host: memoryStorage(), engines: { default: engine({ adapter: replies("x") }) } });
  const original = Object.getOwnPropertyDescriptor(Promise, "withResolvers");
  Reflect.deleteProperty(Promise, "withResolvers");
  try {
    const error = await rejectionOf(restateServices({ sessions }));
    expect(error).toBeInstanceOf(EngineError);
    expect(String(error)).toContain("use Node 22 or later");
  } finally {
    if (original !== undefined) Object.defineProperty(Promise, "withResolvers", original);
  }
});

test.each([
  { deadlineMs: 10 },
  { deadlineMs: 1000.5 },
  { sweepMs: 1 },
  { resultRetentionMs: -1 },
  { deadlineMs: 5000, graceMs: 5001 },
])("invalid times %j are refused", async (times) => {
  const sessions = runtime({ host: memoryStorage(), engines: { default: engine({ adapter: replies("x") }) } });
  expect(await rejectionOf(restateServices({ sessions, ...times }))).toMatchObject({ reason: "invalid_argument" });
});

/** An attempt that records nothing and sends nothing. */
function attemptOf(id: string): Invocation {
  return {
    key: "main",
    id,
    attemptOver: new AbortController().signal,
    run: (_, work) => work(),
    send: () => undefined,
    sleep: async () => undefined,
    get: async () => null,
    set: () => undefined,
  };
}
