// The timeline of a turn: what its journal says about times, retries, crashes, restarts and child agents.

import type { DiscardedAttempt, TurnTimeline } from "../../core/model/internal.ts";
import type { JournalRow } from "../../durable/rows/values.ts";
import type { TimelineRow, TimelineSource } from "./timeline.ts";
import type { HostStorage } from "everturn/runtime";

import { inspection } from "everturn/http";
import { memoryStorage } from "everturn/runtime";
import { describe, expect, test } from "vitest";

import { call, counting, gate, says, thinker, worker, World, writes } from "../../../test/runtime/world.ts";
import { agentTool } from "../../core/engine/index.ts";
import { writeValue } from "../../durable/rows/stored.ts";
import { readTurnRecord } from "./read-record.ts";
import { timelineOf } from "./timeline.ts";

/** What is not known about an attempt that a crash has ended before any text arrived. */
const unknown = { attempt: null, delayMs: null, text: "", textLength: 0 } as const;

/** Waits until a turn has ended, while time passes. */
async function settled(world: World, result: Promise<unknown>): Promise<void> {
  const state = { isDone: false };
  const marked = result.finally(() => {
    state.isDone = true;
  });
  for (let round = 0; round < 1000 && !state.isDone; round += 1) await world.clock.advance(50);
  await marked;
}

describe("timeline", () => {
  test("lists the rows of a turn with their times, process, tokens and texts", async () => {
    const world = new World();
    const look = counting("look", { handler: () => world.clock.sleep(200).then(() => "42 degrees") });
    const main = world.process(world.engine(worker("look"), { tools: [look.tool] }), { owner: "main" });
    const { turnId, result } = await main.start("How warm?", { id: "s1" });
    await settled(world, result);
    const { effects, claims, next, turn, isJournalRemoved } = await inspection(main.source).timeline(
      "s1",
      turnId ?? "",
    );
    expect([next, isJournalRemoved, turn.status]).toEqual([null, false, "ended"]);
    expect(claims).toEqual([{ owner: "main", epoch: 1, since: turn.acceptedAt, takesOver: false }]);
    expect(effects.map(({ ordinal }) => ordinal)).toEqual(effects.map((_, index) => index + 1));
    const shown = effects.filter(({ kind }) => kind === "model" || kind === "tool");
    expect(shown.map(({ kind, name, step, state, text }) => [kind, name, step, state, text])).toEqual([
      ["model", "fake:m", 0, "ok", "look"],
      ["tool", "look", 0, "ok", "42 degrees"],
      ["model", "fake:m", 1, "ok", "Done."],
    ]);
    const [reply, tool] = shown;
    expect(tool).toMatchObject({
      owner: "main",
      attempt: 1,
      toolCallId: "c0",
      usage: null,
      discarded: [],
      children: [],
    });
    expect((tool?.endedAt ?? 0) - (tool?.startedAt ?? 0)).toBeGreaterThanOrEqual(200);
    expect(reply?.usage?.outputTokens).not.toBe(undefined);
  });

  test("a killed process is shown as a discarded attempt and as a claim that takes over", async () => {
    const world = new World();
    const look = counting("look", { replay: "safe" });
    const of = world.engine(worker("look"), { tools: [look.tool] });
    const first = world.process(of, { owner: "first", diesAfter: writes("journal") });
    const { turnId } = await first.start("hi", { id: "s1" });
    await first.died;
    await world.leaseRunsOut();
    const second = world.process(of, { owner: "second" });
    const started = second.attach("s1", turnId);
    await second.recover();
    await settled(world, started.result);
    const { effects, claims } = await inspection(second.source).timeline("s1", turnId ?? "");
    expect(claims.map(({ owner, takesOver }) => [owner, takesOver])).toEqual([
      ["first", false],
      ["second", true],
    ]);
    const discarded = effects.filter((effect) => effect.discarded.length > 0);
    // The first row of the journal was written; what followed it was in flight.
    const [lost] = discarded;
    expect(discarded).toHaveLength(1);
    expect(lost?.epoch).toBe(2);
    expect(lost?.discarded).toEqual([
      {
        reason: "crash",
        epoch: 1,
        startedAt: effects.find(({ ordinal }) => ordinal === (lost?.ordinal ?? 0) - 1)?.endedAt ?? null,
        endedAt: claims[1]?.since ?? null,
        failure: null,
        ...unknown,
      } satisfies DiscardedAttempt,
    ]);
    // The record of the turn, which the page of replay files shows, is read as the same timeline.
    const { timeline } = readTurnRecord(await inspection(second.source).export("s1", turnId ?? ""));
    expect(timeline.effects).toEqual(effects);
    expect(timeline.claims).toEqual(claims);
  });

  test("a call that a rule has denied is denied, and not failed", async () => {
    const world = new World();
    const look = counting("look");
    const beforeTool = () => ({ type: "deny", reason: "Not today." }) as const;
    const main = world.process(
      world.engine(worker("look"), { tools: [look.tool], options: { hooks: { beforeTool } } }),
    );
    const { turnId, result } = await main.start("hi", { id: "s1" });
    await settled(world, result);
    const { effects } = await inspection(main.source).timeline("s1", turnId ?? "");
    const tool = effects.find(({ kind }) => kind === "tool");
    expect([tool?.state, tool?.failure?.reason, tool?.failure?.message]).toEqual(["denied", "denied", "Not today."]);
    const now = world.clock.now();
    const { tools } = await inspection(main.source).overview({ from: 0, until: now + 1 });
    expect(tools.map(({ name, calls, failed }) => [name, calls, failed])).toEqual([["look", 1, 0]]);
  });

  test("parallel tools that a crash interrupted began with the reply, and recorded ones are not discarded", async () => {
    const world = new World();
    const held = gate();
    const model = thinker(({ messages }) =>
      messages.some(({ role }) => role === "tool") ? says("Done.") : [call("quick"), call("slow"), call("slower")],
    );
    const quick = counting("quick", { replay: "safe" });
    const slow = counting("slow", { replay: "safe", handler: () => held.wait().then(() => "slow") });
    const slower = counting("slower", { replay: "safe", handler: () => held.wait().then(() => "slower") });
    const of = world.engine(model, { tools: [quick.tool, slow.tool, slower.tool] });
    const first = world.process(of, { owner: "first" });
    const { turnId } = await first.start("hi", { id: "s1" });
    await held.reached;
    while (!(await world.values("journal")).some((row) => JSON.stringify(row).includes("quick: ok"))) {
      await world.clock.advance(1);
    }
    first.kill();
    held.open();
    await world.leaseRunsOut();
    const second = world.process(of, { owner: "second" });
    const { result } = second.attach("s1", turnId);
    await second.recover();
    await settled(world, result);
    const { effects } = await inspection(second.source).timeline("s1", turnId ?? "");
    const reply = effects.find(({ kind }) => kind === "model");
    expect(
      effects.flatMap(({ name, discarded }) => discarded.map((lost) => [name, lost.reason, lost.startedAt])),
    ).toEqual([
      ["slow", "crash", reply?.endedAt],
      ["slower", "crash", reply?.endedAt],
    ]);
  });

  test("shows the retries of a model call with their failures and times", async () => {
    const world = new World();
    const model = thinker((_, n) => (n < 3 ? [{ type: "error", reason: "rate_limited" }] : says("Done.")));
    const of = world.engine(model, { retry: { maxAttempts: 4, baseDelayMs: 1000 } });
    const main = world.process(of);
    const { turnId, result } = await main.start("hi", { id: "s1" });
    await settled(world, result);
    const { effects } = await inspection(main.source).timeline("s1", turnId ?? "");
    const reply = effects.find(({ kind }) => kind === "model");
    expect(reply).toMatchObject({ attempt: 3, state: "ok" });
    expect(reply?.discarded.map(({ reason, failure }) => [reason, failure?.reason])).toEqual([
      ["retry", "rate_limited"],
      ["retry", "rate_limited"],
    ]);
    const [one, two] = reply?.discarded ?? [];
    expect(one?.endedAt ?? 0).toBeGreaterThanOrEqual(one?.startedAt ?? Number.NaN);
    expect(two?.startedAt ?? 0).toBeGreaterThan(one?.endedAt ?? Number.NaN);
    expect(reply?.startedAt ?? 0).toBeGreaterThan(two?.endedAt ?? Number.NaN);
  });

  test("keeps the text of attempts that failed and were repeated", async () => {
    const world = new World();
    const model = thinker((_, n) =>
      n < 3 ? [...says(`Half a reply ${n}`), { type: "error", reason: "provider_unavailable" }] : says("Done."),
    );
    const of = world.engine(model, { retry: { maxAttempts: 4, baseDelayMs: 1000, afterOutput: true } });
    const main = world.process(of);
    const { turnId, result } = await main.start("hi", { id: "s1" });
    await settled(world, result);
    const { effects, turn } = await inspection(main.source).timeline("s1", turnId ?? "");
    const reply = effects.find(({ kind }) => kind === "model");
    expect(
      reply?.discarded.map(({ reason, attempt, text, textLength }) => [reason, attempt, text, textLength]),
    ).toEqual([
      ["retry", 1, "Half a reply 1", 14],
      ["retry", 2, "Half a reply 2", 14],
    ]);
    expect(reply?.discarded[0]?.delayMs).toBeGreaterThan(0);
    expect(turn.discarded).toBe(2);
  });

  test("keeps the text of an attempt that a crash has ended", async () => {
    const world = new World();
    const long = "x".repeat(5000);
    const model = thinker((_, n) =>
      n === 1 ? [...says(`The sun ${long}`), { type: "delay", ms: 60_000 }] : says("Done."),
    );
    const of = world.engine(model);
    const live = { everyMs: 10, bytes: 100_000 };
    const first = world.process(of, { owner: "first", live });
    const { turnId } = await first.start("hi", { id: "s1" });
    while ((await world.rows("pieces")).length === 0) await world.clock.advance(5);
    first.kill();
    await world.leaseRunsOut();
    const second = world.process(of, { owner: "second", live });
    const { result } = second.attach("s1", turnId);
    await second.recover();
    await settled(world, result);
    const { effects, turn } = await inspection(second.source).timeline("s1", turnId ?? "");
    const reply = effects.find(({ kind }) => kind === "model");
    expect(reply?.discarded).toMatchObject([{ reason: "crash", epoch: 1, attempt: 1, textLength: 5008 }]);
    expect(reply?.discarded[0]?.text).toBe(`The sun ${long}`.slice(0, 4000));
    expect(turn.discarded).toBe(1);
    expect(await world.rows("pieces")).toEqual([]);
  });

  test("names the turns of child agents, whose timelines can be read", async () => {
    const world = new World();
    const inner = world.engine(thinker(() => says("Inside.")));
    const agent = agentTool({ name: "agent", description: "Works.", engine: inner });
    const model = thinker(({ messages }) =>
      messages.some(({ role }) => role === "tool") ? says("Done.") : [call("agent", { task: "go" })],
    );
    const main = world.process(world.engine(model, { tools: [agent] }));
    const { turnId, result } = await main.start("hi", { id: "s1" });
    await settled(world, result);
    const { effects } = await inspection(main.source).timeline("s1", turnId ?? "");
    const children = effects.flatMap((effect) => effect.children);
    expect(children).toEqual([{ sessionId: "s1", turnId: expect.stringContaining(`${turnId}/0/tool/0/child/`) }]);
    const child = await inspection(main.source).timeline("s1", children[0]?.turnId ?? "");
    expect(child.turn).toMatchObject({ status: "ended", engine: "default" });
    expect(child.effects.find(({ kind }) => kind === "model")).toMatchObject({ text: "Inside.", step: 0 });
  });

  test("names the turns of child agents while their calls run, also inside of each other", async () => {
    const world = new World();
    const held = gate();
    const hold = counting("hold", { replay: "safe", handler: () => held.wait().then(() => "held") });
    const asks =
      (...calls: readonly string[]) =>
      ({ messages }: Parameters<Parameters<typeof thinker>[0]>[0]) =>
        messages.some(({ role }) => role === "tool") ? says("Done.") : calls.map((name) => call(name, { task: "go" }));
    const agent = (name: string, inner: ReturnType<World["engine"]>) =>
      agentTool({ name, description: "Works.", engine: inner });
    const inner = agent("inner", world.engine(thinker(asks("hold")), { tools: [hold.tool] }));
    const outer = agent("outer", world.engine(thinker(asks("inner")), { tools: [inner] }));
    const look = counting("look");
    const main = world.process(world.engine(thinker(asks("look", "outer")), { tools: [look.tool, outer] }));
    const { turnId = "", result } = await main.start("hi", { id: "s1" });
    await held.reached;
    const read = async (id: string | null): Promise<TurnTimeline> => inspection(main.source).timeline("s1", id ?? "");
    const top = await read(turnId);
    // The other call has a row.
    expect(top.open).toMatchObject([{ effectId: `${turnId}/0/tool/1`, toolCallId: "outer", name: "outer" }]);
    const first = top.open[0]?.children[0]?.turnId ?? null;
    expect(first).toContain(`${turnId}/0/tool/1/child/`);
    const middle = await read(first);
    expect(middle.turn.status).toBe("running");
    expect(middle.effects.some(({ kind }) => kind === "model")).toBe(true);
    expect(middle.open.map(({ name }) => name)).toEqual(["inner"]);
    const last = await read(middle.open[0]?.children[0]?.turnId ?? null);
    expect(last.open).toMatchObject([{ toolCallId: "hold", name: "hold", children: [] }]);
    held.open();
    await settled(world, result);
    const ended = await read(turnId);
    expect(ended.open).toEqual([]);
    expect(ended.effects.flatMap(({ children }) => children)).toEqual(top.open[0]?.children);
    expect((await read(first)).open).toEqual([]);
  });

  test("names the child agent of a call that continues after an approval", async () => {
    const world = new World();
    const held = gate();
    const pay = counting("pay", { needsApproval: true, handler: () => held.wait().then(() => "paid") });
    const inner = world.engine(
      thinker(({ messages }) => (messages.some(({ role }) => role === "tool") ? says("Paid.") : [call("pay")])),
      { tools: [pay.tool] },
    );
    const agent = agentTool({ name: "agent", description: "Works.", engine: inner });
    const main = world.process(
      world.engine(
        thinker(({ messages }) =>
          messages.some(({ role }) => role === "tool") ? says("Done.") : [call("agent", { task: "go" })],
        ),
        { tools: [agent] },
      ),
    );
    const asked = await main.start("hi", { id: "s1" });
    await settled(world, asked.result);
    const [pending] = (await asked.result).session.pendingToolCalls;
    const { turnId = "", result } = await main.decide("s1", pending?.id ?? "", { type: "approve", by: "Ada" });
    await held.reached;
    const reader = inspection(main.source);
    const { open } = await reader.timeline("s1", turnId ?? "");
    expect(open).toMatchObject([{ effectId: `${turnId}/0/tool/0`, toolCallId: "agent", name: "agent" }]);
    const child = open[0]?.children[0]?.turnId ?? "";
    expect(child).toContain(`${asked.turnId}/0/tool/0/child/`);
    expect((await reader.timeline("s1", child)).turn.status).toBe("running");
    held.open();
    await settled(world, result);
    expect((await reader.timeline("s1", turnId ?? "")).open).toEqual([]);
  });

  test("reads a long turn in pages that do not read the whole journal", async () => {
    const world = new World();
    const look = counting("look", { replay: "safe" });
    const names = Array.from({ length: 60 }, () => "look");
    const reads: number[] = [];
    const of = world.engine(worker(...names), { tools: [look.tool], options: { maxTurns: 100 } });
    const main = world.process(of);
    const { turnId, result } = await main.start("hi", { id: "s1" });
    await settled(world, result);
    const reader = world.process(of, {
      holdsRead: (queries) => {
        reads.push(...queries.flatMap(({ table, limit }) => (table === "journal" ? [limit ?? Infinity] : [])));
        return null;
      },
    });
    const whole = await inspection(reader.source).timeline("s1", turnId ?? "");
    const paged = [];
    let after: number | null = 0;
    while (after !== null) {
      const page: TurnTimeline = await inspection(reader.source).timeline("s1", turnId ?? "", {
        after,
        limit: 50,
      });
      expect(page.effects.length).toBeLessThanOrEqual(50);
      paged.push(...page.effects);
      after = page.next;
    }
    expect(paged).toEqual(whole.effects);
    expect(paged.length).toBeGreaterThan(120);
    expect(Math.max(...reads)).toBeLessThanOrEqual(500);
  });

  test("ends a page early if the records inside its effects are long", async () => {
    const memory = memoryStorage();
    const read = { length: 0 };
    const storage: HostStorage = {
      ...memory,
      read: async (queries) => {
        const found = await memory.read(queries);
        read.length += found.flat().reduce((sum, { value }) => sum + value.length, 0);
        return found;
      },
    };
    const world = new World({ storage });
    const look = counting("look", { replay: "safe" });
    const names = Array.from({ length: 60 }, () => "look");
    const main = world.process(world.engine(worker(...names), { tools: [look.tool], options: { maxTurns: 100 } }));
    const { turnId, result } = await main.start("hi", { id: "s1" });
    await settled(world, result);
    const whole = await inspection(main.source).timeline("s1", turnId ?? "");
    const tools = whole.effects.filter(({ kind }) => kind === "tool");
    const value = writeValue("records", "r".repeat(200_000));
    await memory.write({
      checks: [],
      removals: [],
      puts: tools.map(({ effectId }) => ({
        table: "records",
        key: ["", "s1", turnId ?? "", effectId ?? "", "zeta"],
        tag: 1,
        value,
      })),
    });
    const paged = [];
    for (let after: number | null = 0; after !== null;) {
      read.length = 0;
      const page: typeof whole = await inspection(main.source).timeline("s1", turnId ?? "", { after });
      expect(read.length).toBeLessThan(5_000_000);
      paged.push(...page.effects);
      after = page.next;
    }
    expect(paged).toEqual(whole.effects);
  });

  test("shows an open turn so far", async () => {
    const world = new World();
    const held = gate();
    const hold = counting("hold", { handler: () => held.wait() });
    const main = world.process(world.engine(worker("hold"), { tools: [hold.tool] }));
    const { turnId } = await main.start("hi", { id: "s1" });
    await held.reached;
    const { effects, turn, now } = await inspection(main.source).timeline("s1", turnId ?? "");
    expect(turn).toMatchObject({ status: "running", end: null });
    expect(effects.at(-1)).toMatchObject({ kind: "model", text: "hold" });
    expect(now).toBe(world.clock.now());
  });

  test("rejects unknown sessions, turns and rows", async () => {
    const world = new World();
    const main = world.process(world.engine(worker()));
    const { turnId, result } = await main.start("hi", { id: "s1" });
    await result;
    const unknown = { reason: "not_found" };
    await expect(inspection(main.source).timeline("none", turnId ?? "")).rejects.toMatchObject(unknown);
    await expect(inspection(main.source).timeline("s1", "none")).rejects.toMatchObject(unknown);
    await expect(inspection(main.source).timeline("s1", `${turnId}/0/tool/0/child/1/0/0`)).rejects.toMatchObject(
      unknown,
    );
    for (const ordinal of [0, -1, 99, 1.5]) {
      await expect(inspection(main.source).effect("s1", turnId ?? "", ordinal)).rejects.toMatchObject(unknown);
    }
    await expect(inspection(main.source).timeline("s1", turnId ?? "", { after: -1 })).rejects.toMatchObject({
      path: ["after"],
    });
    await expect(inspection(main.source).timeline("s1", turnId ?? "", { limit: 0 })).rejects.toMatchObject({
      path: ["limit"],
    });
  });
});

describe("effect", () => {
  test("returns the effect, the response, the times and the records of a row", async () => {
    const world = new World();
    const pay = counting("pay", { replay: "never" });
    const main = world.process(world.engine(worker("pay"), { tools: [pay.tool] }), { owner: "main" });
    const { turnId, result } = await main.start("hi", { id: "s1" });
    await settled(world, result);
    const { effects } = await inspection(main.source).timeline("s1", turnId ?? "");
    const ordinal = effects.find(({ kind }) => kind === "tool")?.ordinal ?? 0;
    expect(await inspection(main.source).effect("s1", turnId ?? "", ordinal)).toMatchObject({
      ordinal,
      effect: { type: "call_tool", call: { name: "pay", arguments: { n: 0 } } },
      item: { type: "response", response: { type: "tool_returned", outcome: { type: "success" } } },
      attempt: 1,
      epoch: 1,
      timing: { owner: "main", takesOver: false },
      records: [{ name: "started", value: { policy: "never", name: "pay" } }],
    });
  });
});

describe("workers", () => {
  test("shows a takeover before the new process has written a row", async () => {
    const world = new World();
    const held = gate();
    const hold = counting("hold", { replay: "safe", handler: () => held.wait() });
    const of = world.engine(worker("hold"), { tools: [hold.tool] });
    const first = world.process(of, { owner: "first" });
    const { turnId } = await first.start("hi", { id: "s1" });
    await held.reached;
    first.kill();
    await world.leaseRunsOut();
    const second = world.process(of, { owner: "second" });
    const since = world.clock.now();
    await second.recover();
    await world.clock.advance(15_000);
    const { claims } = await inspection(second.source).timeline("s1", turnId ?? "");
    expect(claims).toEqual([
      expect.objectContaining({ owner: "first", epoch: 1, takesOver: false }),
      { owner: "second", epoch: 2, since, takesOver: true },
    ]);
    // The lease has been renewed since.
    const [worker2] = await inspection(second.source).workers();
    expect(worker2?.leases).toMatchObject([{ epoch: 2, since, tookOverFrom: "first" }]);
    held.open();
    await second.attach("s1", turnId).result;
    expect((await inspection(second.source).timeline("s1", turnId ?? "")).claims).toEqual(claims);
  });

  test("lists the processes that hold leases of open turns", async () => {
    const world = new World();
    const held = gate();
    const hold = counting("hold", { handler: () => held.wait() });
    const of = world.engine(worker("hold"), { tools: [hold.tool] });
    const [first, second] = [world.process(of, { owner: "first" }), world.process(of, { owner: "second" })];
    const { turnId } = await first.start("hi", { id: "s1" });
    await first.tenant("acme").start("hi", { id: "s2" });
    await second.start("hi", { id: "s3" });
    await held.reached;
    const workers = await inspection(second.source).workers();
    expect(workers.map(({ owner, self, turns }) => [owner, self, turns]).toSorted()).toEqual([
      ["first", false, 2],
      ["second", true, 1],
    ]);
    expect(workers.flatMap(({ leases }) => leases)).toContainEqual({
      tenant: "",
      sessionId: "s1",
      turnId,
      epoch: 1,
      expiresAt: expect.any(Number),
      since: expect.any(Number),
      tookOverFrom: null,
    });
    // A lease that has expired is not listed.
    first.kill();
    second.kill();
    await world.leaseRunsOut();
    expect(await inspection(world.process(of).source).workers()).toEqual([]);
  });

  test("lists the process that answers while its worker is idle, and no other idle process", async () => {
    const world = new World();
    const of = world.engine(worker());
    const [main, other] = [world.process(of, { owner: "main" }), world.process(of, { owner: "other" })];
    const stop = new AbortController();
    const ends = [main.work({ signal: stop.signal, concurrency: 3 }), other.work({ signal: stop.signal })];
    const reader = inspection(main.source);
    expect(await reader.workers()).toEqual([{ owner: "main", self: true, leases: [], turns: 0, places: 3 }]);
    stop.abort();
    await settled(world, Promise.all(ends));
    expect(await reader.workers()).toEqual([]);
  });
});

/** A row of a turn `t`. */
function rowOf(
  ordinal: number,
  effect: object | null,
  item: JournalRow["item"],
  { epoch = 1, attempt = 1, at = [0, 0], heldSince = 0, takesOver = false, isContext = false } = {},
): TimelineRow {
  const [startedAt = 0, endedAt = 0] = at;
  const timing = { startedAt, endedAt, firstAt: null, owner: `p${epoch}`, heldSince, takesOver };
  return {
    ordinal,
    isContext,
    row: { effect: effect === null ? null : JSON.stringify(effect), hash: null, item, epoch, attempt, timing },
  };
}

const synced = (id: string): JournalRow["item"] => ({
  type: "response",
  response: { type: "environment_synced", id, environment: null },
});
const sync = (id: string) => ({ type: "sync_environment", id, updateMachineConfig: false });

describe("timelineOf", () => {
  const page = (rows: readonly TimelineRow[], records: TimelineSource["records"] = new Map()) =>
    timelineOf({ sessionId: "s", turnId: "t", acceptedAt: 5, rows, records, children: new Map() });

  test("an attempt before the first row began with the acceptance of the turn", () => {
    const row = rowOf(1, sync("t/0/environment"), synced("t/0/environment"), {
      epoch: 2,
      at: [60, 70],
      heldSince: 50,
      takesOver: true,
    });
    expect(page([row]).effects[0]?.discarded).toEqual([
      { reason: "crash", epoch: 1, startedAt: 5, endedAt: 50, failure: null, ...unknown },
    ]);
  });

  test("several crashes without a row between them are several attempts", () => {
    const rows = [
      rowOf(1, sync("t/0/environment"), synced("t/0/environment"), { at: [6, 10] }),
      rowOf(2, sync("t/1/environment"), synced("t/1/environment"), {
        epoch: 4,
        at: [90, 95],
        heldSince: 80,
        takesOver: true,
      }),
    ];
    expect(page(rows).effects[1]?.discarded).toEqual([
      { reason: "crash", epoch: 1, startedAt: 10, endedAt: null, failure: null, ...unknown },
      { reason: "crash", epoch: 2, startedAt: null, endedAt: null, failure: null, ...unknown },
      { reason: "crash", epoch: 3, startedAt: null, endedAt: 80, failure: null, ...unknown },
    ]);
  });

  test("effects that were ordered after the takeover have no discarded attempt", () => {
    const after = { epoch: 2, heldSince: 50, takesOver: true };
    const rows = [
      rowOf(1, sync("t/0/environment"), synced("t/0/environment"), { at: [6, 10] }),
      rowOf(2, sync("t/1/environment"), synced("t/1/environment"), { ...after, at: [60, 70] }),
      rowOf(3, sync("t/2/environment"), synced("t/2/environment"), { ...after, at: [70, 80] }),
    ];
    expect(page(rows).effects.map(({ discarded }) => discarded.length)).toEqual([0, 1, 0]);
    // A page that begins after the claim, with the claim among the rows before it or not.
    const later = rows.map((row, index) => ({ ...row, isContext: index < 2 }));
    expect(page(later).effects.map(({ ordinal, discarded }) => [ordinal, discarded.length])).toEqual([[3, 0]]);
    expect(page(later.slice(2)).effects.map(({ discarded }) => discarded.length)).toEqual([0]);
  });

  test("a claim after a release discards nothing", () => {
    const rows = [
      rowOf(1, sync("t/0/environment"), synced("t/0/environment"), { at: [6, 10] }),
      rowOf(2, sync("t/1/environment"), synced("t/1/environment"), { epoch: 2, at: [60, 70], heldSince: 50 }),
    ];
    expect(page(rows).effects[1]?.discarded).toEqual([]);
    expect(page(rows).claims.map(({ epoch, takesOver }) => [epoch, takesOver])).toEqual([
      [1, false],
      [2, false],
    ]);
  });

  test("rows of a restarted step are superseded, also if the restart follows the page", () => {
    const rows = [
      rowOf(1, sync("t/0/environment"), synced("t/0/environment")),
      rowOf(2, sync("t/1/environment"), synced("t/1/environment")),
      rowOf(3, null, { type: "step_restarted", from: 2, step: 1 }, { isContext: true }),
    ];
    expect(page(rows).effects.map(({ state, step }) => [state, step])).toEqual([
      ["ok", 0],
      ["superseded", 1],
    ]);
  });

  test("rows of older releases have no times and no claims", () => {
    const row = rowOf(1, sync("t/0/environment"), synced("t/0/environment"));
    const old = { ...row, row: { ...row.row, timing: null } };
    const { claims, effects } = page([old]);
    expect(claims).toEqual([]);
    expect(effects[0]).toMatchObject({ startedAt: null, endedAt: null, owner: null, discarded: [] });
  });

  test("a retry before a crash belongs to the process that made it", () => {
    const failure = { type: "adapter_error", reason: "overloaded", message: "busy" };
    const records = new Map([
      [
        "t/0/environment",
        new Map([
          ["attempt/1", { failure }],
          ["delay/1", { delayMs: 10, dueAt: 40 }],
        ]),
      ],
    ]);
    const row = rowOf(1, sync("t/0/environment"), synced("t/0/environment"), {
      epoch: 2,
      attempt: 2,
      at: [100, 110],
      heldSince: 90,
      takesOver: true,
    });
    expect(
      page([row], records).effects[0]?.discarded.map(({ reason, epoch, startedAt, endedAt }) => [
        reason,
        epoch,
        startedAt,
        endedAt,
      ]),
    ).toEqual([
      ["retry", 1, null, 30],
      ["crash", 1, 40, 90],
    ]);
  });
});
