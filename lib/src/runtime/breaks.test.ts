// What once broke the runtime, each case as it was found.

import type { Engine } from "../engine/internal.ts";
import type { Json } from "../model/internal.ts";
import type { HostStorage, Runtime, RuntimeOptions } from "./index.ts";
import type { Query } from "./rows/storage.ts";

import { describe, expect, test } from "vitest";

import { handModel } from "../../test/hand-model.ts";
import { fake } from "../adapters/internal.ts";
import { askUser, engine, tool } from "../engine/internal.ts";
import { memoryStorage } from "../host/memory/index.ts";
import { handClock } from "../testing/hand-clock.ts";
import { runtime } from "./index.ts";

const call = (name: string) => ({ type: "tool_call", name }) as const;
const says = (text: string) => ({ type: "text", text }) as const;

function sessionsOf(of: Engine, options: Partial<RuntimeOptions> = {}): Runtime {
  return runtime({ host: memoryStorage(), engines: { default: of }, live: false, ...options });
}

/** A tool that does what it is told, and is run again after a crash. */
function worker(handler: () => Json | Promise<Json>) {
  return tool({ name: "work", description: "Works.", schema: { type: "object" }, replay: "safe", handler });
}

/** Resolves when the test says so. */
function gate() {
  let open: () => void = () => undefined;
  const passed = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { passed, open };
}

async function fails(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => null,
    (error: unknown) => error,
  );
}

describe("a turn that outlasts its lease", () => {
  test("Q18 keeps the result of its tool while no other process has claimed the session", async () => {
    const base = handClock();
    let ahead = 0;
    let runs = 0;
    const clock = { ...base, now: () => base.now() + ahead };
    const slow = worker(() => {
      runs += 1;
      // The process is blocked for longer than the lease lasts.
      ahead += 100_000;
      return "ok";
    });
    const adapter = fake({ scripts: [[call("work")], [says("done")]] });
    const host = memoryStorage({ clock });
    const sessions = sessionsOf(engine({ adapter, tools: [slow] }), { clock, host });
    const { result } = await sessions.start("go", { id: "s" });
    expect(await result).toMatchObject({ text: "done" });
    expect(runs).toBe(1);
    expect(adapter.calls).toHaveLength(2);
    const [[lease] = []] = await host.read([{ table: "leases", prefix: ["", "s"] }]);
    expect(lease?.tag).toBe(2);
  });
});

test("a read that fails while somebody looks for a cancel ends nothing, and the cancel is found later", async () => {
  const storage = memoryStorage();
  let broken = 1;
  const shaky: HostStorage = {
    ...storage,
    read: (queries: readonly Query[]) => {
      const isLook = queries.length === 1 && queries[0]?.table === "cancels";
      if (isLook && broken > 0) {
        broken -= 1;
        return Promise.reject(new Error("cannot be read right now"));
      }
      return storage.read(queries);
    },
  };
  const { passed, open } = gate();
  const slow = worker(() => passed.then(() => "ok"));
  const of = engine({ adapter: fake({ scripts: [[call("work")], [says("done")]] }), tools: [slow] });
  const sessions = sessionsOf(of, { host: shaky });
  const turn = await sessions.start("go", { id: "s" });
  const other = sessionsOf(of, { host: storage, drive: false });
  expect(await other.cancel("s")).toBe("cancelled");
  open();
  expect((await turn.result).haltedReason).toBe("cancelled");
});

test("a cancel from elsewhere is heard by a turn that goes on when others have ended, and by one that begins then", async () => {
  const host = memoryStorage();
  const model = handModel();
  const of = engine({ adapter: model, model: "hand:m" });
  const sessions = sessionsOf(of, { host });
  const other = sessionsOf(of, { host, drive: false });
  const first = await sessions.start("go", { id: "first" });
  const ending = await model.call(1);
  const second = await sessions.start("go", { id: "second" });
  await model.call(2);
  ending.finish();
  await first.result;
  expect(await other.cancel("second")).toBe("cancelled");
  expect((await second.result).haltedReason).toBe("cancelled");
  const third = await sessions.start("go", { id: "third" });
  await model.call(3);
  expect(await other.cancel("third")).toBe("cancelled");
  expect((await third.result).haltedReason).toBe("cancelled");
});

describe("a deploy in the middle of a turn", () => {
  test.each([
    ["budgets", { budgets: { steps: 1 } }],
    ["toolTimeout", { toolTimeout: 1 }],
    ["maxToolResultLength", { maxToolResultLength: 1 }],
    ["onToolError", { onToolError: "halt" }],
    ["structuredFinalize", { structuredFinalize: true }],
  ] as const)("%s of the new engine are for the next turn", async (_, options) => {
    const host = memoryStorage();
    const before = engine({ adapter: fake({ scripts: [] }), model: "fake:m", tools: [worker(() => "a result")] });
    const accepts = sessionsOf(before, { host, drive: false });
    const turn = await accepts.start("go", { id: "s" });
    const adapter = fake({ scripts: [[call("work")], [says("done")]] });
    const after = engine({ adapter, model: "fake:m", tools: [worker(() => "a result")], options });
    await sessionsOf(after, { host }).recover();
    expect(await turn.result).toMatchObject({ text: "done", haltedReason: "completed" });
    const told = (await accepts.get("s"))?.session.thread.messages[2];
    expect(told?.content).toBe("a result");
  });
});

describe("handles", () => {
  const of = () => engine({ adapter: fake({ scripts: [[says("one")], [says("two")]] }), model: "fake:m" });

  test("what a verb that began nothing came to does not change with what happens later", async () => {
    const pay = tool({
      name: "pay",
      description: "Pays.",
      schema: { type: "object" },
      needsApproval: true,
      handler: () => "ok",
    });
    const asks = engine({ adapter: fake({ scripts: [[call("pay"), call("pay")], [says("done")]] }), tools: [pay] });
    const sessions = sessionsOf(asks);
    await (
      await sessions.start("go", { id: "s" })
    ).result;
    const first = await sessions.decide("s", "call_0", { type: "approve" });
    await (
      await sessions.decide("s", "call_1", { type: "approve" })
    ).result;
    expect(first.turnId).toBeNull();
    expect(await first.result).toMatchObject({ status: "waiting", turnId: null });
    const seen = [];
    for await (const event of first.events) seen.push(event);
    expect(seen).toEqual([]);
  });

  test("attach without a turn reads the one that is open, from its beginning to its end", async () => {
    const { passed, open } = gate();
    const slow = worker(() => passed.then(() => "ok"));
    const adapter = fake({ scripts: [[says("one")], [call("work")], [says("two")]] });
    const sessions = sessionsOf(engine({ adapter, tools: [slow] }));
    await (
      await sessions.start("go", { id: "s" })
    ).result;
    const second = await sessions.reply("s", "more");
    const types: string[] = [];
    for await (const { event, turnId } of sessions.attach("s").events) {
      expect(turnId).toBe(second.turnId);
      types.push(event.type);
      open();
    }
    expect([types[0], types.at(-1)]).toEqual(["turn_started", "chat_completed"]);
  });

  test("a result is one promise, and one nobody looks at ends no process", async () => {
    const sessions = sessionsOf(of());
    const turn = await sessions.start("go", { id: "s" });
    expect(turn.result).toBe(turn.result);
    await turn.result;
    await sessions.delete("s");
    // Taken, and not looked at: an unhandled rejection would fail the run of the tests.
    void sessions.attach("s", turn.turnId).result;
    expect(await fails(sessions.attach("s", turn.turnId).result)).toMatchObject({ reason: "not_found" });
  });

  test("a turn that is not there is told so, to readers too", async () => {
    const sessions = sessionsOf(of());
    await (
      await sessions.start("go", { id: "s" })
    ).result;
    const reading = sessions.events("s", { turnId: "turn-nowhere" })[Symbol.asyncIterator]();
    expect(await fails(reading.next())).toMatchObject({ reason: "not_found" });
  });

  test("why one process left a turn is no answer while another drives it", async () => {
    const clock = handClock();
    const storage = memoryStorage({ clock });
    let broken = false;
    const shaky: HostStorage = {
      ...storage,
      write: (batch) => (broken ? Promise.reject(new Error("disk gone")) : storage.write(batch)),
    };
    const breaks = worker(() => {
      broken = true;
      return "ok";
    });
    const scripts = [[call("work")], [says("done")]];
    const first = sessionsOf(engine({ adapter: fake({ scripts }), tools: [breaks] }), { host: shaky, clock });
    const turn = await first.start("go", { id: "s" });
    expect(await fails(turn.result)).toMatchObject({ message: "disk gone" });
    broken = false;
    await clock.advance(60_000);
    const adapter = fake({ scripts: [[says("done")]] });
    const second = sessionsOf(engine({ adapter, tools: [worker(() => "ok")] }), { host: storage, clock });
    await second.recover();
    expect(await first.attach("s", turn.turnId).result).toMatchObject({ text: "done" });
  });
});

describe("functions of the program", () => {
  test("afterStep that throws ends the turn like the others, and nothing more is asked for", async () => {
    const adapter = fake({ scripts: [[call("work")], [says("never")], [says("again")]] });
    const hooks = {
      afterStep: () => {
        throw new Error("no");
      },
    };
    const sessions = sessionsOf(engine({ adapter, tools: [worker(() => "ok")], options: { hooks } }));
    const end = await (await sessions.start("go", { id: "s" })).result;
    expect(end).toMatchObject({ haltedReason: "error", failure: { reason: "callback_failed" } });
    expect(adapter.calls).toHaveLength(1);
    expect(await sessions.recover("s")).toMatchObject({ usable: true });
  });

  test("onCheckpoint of an engine is asked for the turn, and for turns inside its tools", async () => {
    const asked: string[] = [];
    const onCheckpoint = ({ checkpoint }: { readonly checkpoint: string }) => {
      asked.push(checkpoint);
      return null;
    };
    const inner = engine({ adapter: fake({ scripts: [[says("inner")]] }), options: { onCheckpoint } });
    const delegate = tool({
      name: "work",
      description: "Delegates.",
      schema: { type: "object" },
      replay: "safe",
      handler: async (_, { runChild }) => (await runChild(inner, "do it")).haltedReason,
    });
    const adapter = fake({ scripts: [[call("work")], [says("done")]] });
    await (
      await sessionsOf(engine({ adapter, tools: [delegate], options: { onCheckpoint } })).start("go")
    ).result;
    expect(asked).toEqual(["before_completion", "after_work", "before_completion"]);
  });
});

describe("what is handed out", () => {
  test("a context belongs to the session: a handler cannot change it", async () => {
    const change = tool({
      name: "work",
      description: "Changes its context.",
      schema: { type: "object" },
      handler: (_, { context }) => Reflect.set(context, "n", 2),
    });
    const adapter = fake({ scripts: [[call("work")], [says("done")]] });
    const sessions = sessionsOf(engine({ adapter, tools: [change] }));
    await (
      await sessions.start("go", { id: "s", context: { n: 1 } })
    ).result;
    expect((await sessions.get("s"))?.session).toMatchObject({ context: { n: 1 } });
    expect((await sessions.get("s"))?.session.thread.messages[2]?.content).toBe("false");
  });

  test("a message that was handed out cannot be changed for the next turn", async () => {
    const adapter = fake({ scripts: [[says("one")], [says("two")]] });
    const sessions = sessionsOf(engine({ adapter, model: "fake:m" }));
    await (
      await sessions.start("go", { id: "s" })
    ).result;
    const [message] = (await sessions.get("s"))?.session.thread.messages ?? [];
    expect(Reflect.set(message ?? {}, "content", "changed")).toBe(false);
    await (
      await sessions.reply("s", "more")
    ).result;
    expect(JSON.stringify(adapter.calls[1]?.request.messages)).not.toContain("changed");
  });
});

describe("settings nobody could keep", () => {
  const of = engine({ adapter: fake({ scripts: [] }) });
  test.each([
    ["retentionMs", { retentionMs: Number.NaN }],
    ["retentionMs", { retentionMs: -1 }],
    ["lease", { lease: { ttlMs: 1e300, renewMs: 1 } }],
    ["lease", { lease: { ttlMs: 10, renewMs: 5 } }],
    ["lease", { lease: { ttlMs: Number.NaN } }],
  ])("%s: %j is misuse before anything happens", (name, options) => {
    expect(() => sessionsOf(of, options)).toThrow(expect.objectContaining({ name: "MisuseError", path: [name] }));
  });

  test("recover knows where a turn can be started again from", async () => {
    const sessions = sessionsOf(engine({ adapter: fake({ scripts: [[says("one")]] }) }));
    await (
      await sessions.start("go", { id: "s" })
    ).result;
    const wrong: { readonly from?: "step" } = JSON.parse('{"from":"start"}');
    await expect(sessions.recover("s", wrong)).rejects.toThrow(/from has to be "step", not start/);
  });
});

test("the journals of turns inside a call go with its own, and not while the call waits for somebody", async () => {
  const clock = handClock();
  const storage = memoryStorage({ clock });
  const ask = tool({ name: "ask", description: "Asks.", schema: { type: "object" }, handler: () => askUser("Which?") });
  const inner = engine({ adapter: fake({ scripts: [[call("ask")], [says("that one")]] }), tools: [ask] });
  const delegate = tool({
    name: "work",
    description: "Delegates.",
    schema: { type: "object" },
    replay: "safe",
    handler: async (_, { runChild }) => (await runChild(inner, "do it")).haltedReason,
  });
  const adapter = fake({ scripts: [[call("work")], [says("done")]] });
  const sessions = sessionsOf(engine({ adapter, tools: [delegate] }), { host: storage, clock, retentionMs: 1000 });
  await (
    await sessions.start("go", { id: "s" })
  ).result;
  const stop = new AbortController();
  const working = sessions.work({ signal: stop.signal });
  await clock.advance(3000);
  const end = await (await sessions.reply("s", "the red one")).result;
  expect(end).toMatchObject({ text: "done" });
  await clock.advance(5000);
  for (const table of ["journal", "records", "retained"] as const) {
    expect(await storage.read([{ table, prefix: [] }])).toEqual([[]]);
  }
  stop.abort();
  await working;
});

describe("a turn that nobody can drive any more", () => {
  test.each([
    ["its engine has another name now", (of: Engine) => ({ other: of })],
    ["its engine has no adapter any more", (of: Engine) => ({ default: { ...of, adapter: null } })],
  ])("%s: it can be cancelled, and the session goes on", async (_, engines) => {
    const host = memoryStorage();
    const of = engine({ adapter: fake({ scripts: [[says("one")]] }), model: "fake:m" });
    await sessionsOf(of, { host, drive: false }).start("go", { id: "s" });
    const later = sessionsOf(of, { host, engines: engines(of) });
    expect(await later.cancel("s", { reason: "gone" })).toBe("cancelled");
    expect(await later.get("s")).toMatchObject({ openTurn: null, session: { status: "idle" } });
    const types: string[] = [];
    for await (const { event } of later.events("s", { follow: false })) types.push(event.type);
    expect(types).toEqual(["turn_started", "chat_completed"]);
    const mended = sessionsOf(of, { host });
    expect(await (await mended.reply("s", "again")).result).toMatchObject({ text: "one" });
  });
});

test("a question that nobody answers ends when its time is up, also one that is no pending call", async () => {
  const clock = handClock();
  const ask = tool({ name: "ask", description: "Asks.", schema: { type: "object" }, handler: () => askUser("Which?") });
  const adapter = fake({ scripts: [[call("ask")], [says("then not")]] });
  const sessions = sessionsOf(engine({ adapter, tools: [ask] }), { clock });
  await (
    await sessions.start("go", { id: "s", waits: { question: { afterMs: 3000 } } })
  ).result;
  expect(await sessions.get("s")).toMatchObject({ session: { status: "awaiting_user", pendingToolCalls: [] } });
  const stop = new AbortController();
  const working = sessions.work({ signal: stop.signal });
  await clock.advance(2000);
  expect(adapter.calls).toHaveLength(1);
  await clock.advance(3000);
  expect(await sessions.get("s")).toMatchObject({ session: { status: "completed" }, openTurn: null });
  expect(JSON.stringify(adapter.calls[1]?.request.messages)).toContain("nobody answered in time");
  stop.abort();
  await working;
});

test("cancels are read when one was written, and not more often than ten times a second", async () => {
  const clock = handClock();
  const storage = memoryStorage({ clock });
  let looks = 0;
  const host: HostStorage = {
    ...storage,
    read: (queries: readonly Query[]) => {
      if (queries.some(({ table, prefix }) => table === "cancels" && prefix.length === 0)) looks += 1;
      return storage.read(queries);
    },
  };
  const model = handModel();
  const of = engine({ adapter: model, model: "hand:m" });
  const sessions = sessionsOf(of, { host, clock });
  const others = sessionsOf(of, { host: storage, clock, drive: false });
  const turn = await sessions.start("go", { id: "s" });
  const call = await model.call(1);
  const quiet = async () => {
    for (let before = -1; before !== looks;) {
      before = looks;
      await clock.advance(100);
    }
    return looks;
  };
  const before = await quiet();
  for (let count = 0; count < 5; count += 1) await others.start("x");
  await clock.advance(200);
  expect(looks).toBe(before);
  for (let count = 0; count < 5; count += 1) {
    const puts = [{ table: "cancels", key: ["", "other", `t${count}`], tag: 0, value: "" } as const];
    await storage.write({ checks: [], removals: [], puts });
  }
  await clock.advance(0);
  expect(looks).toBe(before + 1);
  expect(await quiet()).toBe(before + 2);
  call.finish();
  await turn.result;
});
