// Turns that are ended without their engine (Q16): the engine is gone, renamed or unfit, or the turn is parked.

import type { JsonObject } from "../../core/model/index.ts";

import { describe, expect, test } from "vitest";

import {
  call,
  counting,
  eventsOf,
  gate,
  says,
  sessionOf,
  thinker,
  World,
  writes,
} from "../../../test/runtime/world.ts";
import { messageText, MisuseError } from "../../core/model/index.ts";

/** A model that calls these tools in one reply and then replies "Done.". */
const calls = (...names: readonly string[]) =>
  thinker(({ messages }) => {
    const hasAsked = messages.some(({ role }) => role === "assistant");
    return hasAsked ? says("Done.") : names.map((name) => call(name, { name }, `c-${name}`));
  });

/** A turn with two approved calls: the first is recorded, and the process crashes inside the second. */
async function diedInSecond({ replay = "never" }: { readonly replay?: "never" | "ask" } = {}) {
  const world = new World();
  const held = gate();
  const first = counting("first", { needsApproval: true });
  const second = counting("second", { needsApproval: true, replay, handler: () => held.wait() });
  const of = world.engine(calls("first", "second"), { tools: [first.tool, second.tool] });
  const before = world.process(of);
  await (
    await before.start("pay both", { id: "s1" })
  ).result;
  await before.decide("s1", "c-first", { type: "approve" });
  const { turnId } = await before.decide("s1", "c-second", { type: "approve" });
  await held.reached;
  while (!(await world.values("journal")).some((row) => JSON.stringify(row).includes("first: ok"))) {
    await world.clock.advance(0);
  }
  before.kill();
  await world.leaseRunsOut();
  const runs = () => [first.runs.length, second.runs.length];
  return { world, of, turnId: turnId ?? "", runs };
}

describe("cancelling a turn whose engine is gone", () => {
  test("Q16 answers recorded calls with their results and started calls by their replay policy; nothing runs again", async () => {
    const { world, of, runs } = await diedInSecond();
    // Another release: the engine that the turn names has no adapter any more.
    const broken = world.process({ ...of, adapter: null });
    expect(await broken.cancel("s1")).toBe("cancelled");
    const session = await sessionOf(broken);
    expect(session).toMatchObject({ status: "idle", pendingToolCalls: [] });
    const answers = session.thread.messages.flatMap((message) =>
      message.role === "tool" ? [[message.name, message.code, messageText(message)]] : [],
    );
    expect(answers).toEqual([
      ["first", null, "first: ok"],
      ["second", "outcome_unknown", expect.any(String)],
    ]);
    const after = world.process(of);
    expect((await (await after.reply("s1", "and now?")).result).text).toBe("Done.");
    expect(runs()).toEqual([1, 1]);
  });

  test("Q16 leaves a started call with the policy ask pending for a person", async () => {
    const { world, of, runs } = await diedInSecond({ replay: "ask" });
    const broken = world.process({ ...of, adapter: null });
    expect(await broken.cancel("s1")).toBe("cancelled");
    expect(await sessionOf(broken)).toMatchObject({
      status: "awaiting_tools",
      pendingToolCalls: [{ id: "c-second", reason: "outcome_unknown", decision: null }],
    });
    expect(runs()).toEqual([1, 1]);
  });

  test("Q16 deletes approvals of calls that had not started, and the result reports it", async () => {
    const world = new World();
    const pay = counting("pay", { needsApproval: true });
    const of = world.engine(calls("pay"), { tools: [pay.tool] });
    const asking = world.process(of, { also: { old: of } });
    await (
      await asking.start("pay", { id: "s1", engine: "old" })
    ).result;
    await world.process(of, { also: { old: of }, drive: false }).decide("s1", "c-pay", { type: "approve" });
    const released = world.process(of);
    expect(await released.cancel("s1")).toBe("cancelled");
    const session = await sessionOf(released);
    expect(session).toMatchObject({ status: "idle", pendingToolCalls: [] });
    const [answer] = session.thread.messages.filter(({ role }) => role === "tool");
    expect(answer === undefined ? "" : messageText(answer)).toMatch(/approval was deleted/);
    // The engine belongs to the session: a process without it has to name another one.
    await expect(released.reply("s1", "and now?")).rejects.toThrow(MisuseError);
    const next = await released.reply("s1", "and now?", { engine: "default" });
    expect((await next.result).text).toBe("Done.");
    expect(pay.runs).toEqual([]);
  });

  test("continues the event log after events that the session row does not count yet", async () => {
    const world = new World();
    const held = gate();
    const slow = counting("slow", { handler: () => held.wait() });
    const of = world.engine(calls("slow"), { tools: [slow.tool] });
    const before = world.process(of, { also: { old: of } });
    await before.start("go", { id: "s1", engine: "old" });
    await held.reached;
    before.kill();
    await world.leaseRunsOut();
    const keys = async () => (await world.rows("events")).map(({ key }) => key[2]);
    const stored = await world.values("events");
    const after = world.process(of);
    expect(await after.cancel("s1")).toBe("cancelled");
    const events = await world.values("events");
    expect(events.slice(0, stored.length)).toEqual(stored);
    expect(await keys()).toEqual(events.map((_, index) => index + 1));
    const read = await eventsOf(after.events("s1", { follow: false }));
    expect(read.at(-1)?.event.type).toBe("chat_completed");
  });
});

test("a turn that cannot be replayed is ended under the lease: no other process drives it meanwhile", async () => {
  const world = new World();
  const of = world.engine(calls());
  const also = { old: of };
  await world.process(of, { also, drive: false }).start("hi", { id: "s1", engine: "old" });
  const [pinned] = await world.rows("contents");
  if (pinned !== undefined) await world.raw("contents", pinned, "{}");
  const boundary = gate();
  const isBoundaryRead = (tables: readonly string[]) => tables.includes("journal") && !tables.includes("records");
  const ending = world.process(of, {
    holdsRead: (queries) => (isBoundaryRead(queries.map(({ table }) => table)) ? boundary.wait() : null),
  });
  const cancelling = ending.cancel("s1");
  await boundary.reached;
  expect(await world.process(of, { also }).recover()).toMatchObject({ pickedUp: 0 });
  boundary.open();
  expect(await cancelling).toBe("cancelled");
  expect(await sessionOf(ending)).toMatchObject({ status: "idle" });
  expect((await world.rows("leases"))[0]?.remainingMs).toBeLessThanOrEqual(0);
});

describe("cancel", () => {
  test("Q9 returns completion_won if the turn completed, also in a process without its engine", async () => {
    const world = new World();
    const model = thinker(() => says("Done."));
    const replying = gate();
    const slow = world.engine({
      ...model,
      async *stream(request, options) {
        await replying.wait();
        yield* model.stream(request, options);
      },
    });
    // The process that drives the turn does not see the cancel before the turn has ended.
    const owner = world.process(slow, {
      also: { old: slow },
      holdsRead: (queries) => (queries.some(({ table }) => table === "cancels") ? gate().wait() : null),
    });
    const turn = await owner.start("hi", { id: "s1", engine: "old" });
    await replying.reached;
    const claiming = gate();
    const other = world.process(slow, {
      holdsRead: (queries) => (queries.length === 1 && queries[0]?.table === "leases" ? claiming.wait() : null),
    });
    const cancelling = other.cancel("s1");
    await claiming.reached;
    replying.open();
    expect((await turn.result).text).toBe("Done.");
    claiming.open();
    expect(await cancelling).toBe("completion_won");
  });

  test.each(["default", "old"])(
    "ends a turn whose process crashed, in a process that runs no worker; engine %s",
    async (engine) => {
      const world = new World();
      const of = world.engine(calls());
      const dead = world.process(of, { also: { old: of }, diesAfter: writes("starts") });
      void dead.start("hi", { id: "s1", engine });
      await dead.died;
      const cancelling = world.process(of).cancel("s1");
      expect(await Promise.race([cancelling, world.clock.advance(60_000)])).toBe("cancelled");
    },
  );
});

describe("a parked turn that is ended by recover", () => {
  test("Q16 answers its calls from the journal, and the session is usable", async () => {
    const { world, of, runs } = await diedInSecond();
    for (const row of await world.rows("journal")) {
      if (row.value.includes("first: ok")) {
        await world.diverge(row, (effect) => effect.replace('"type":"call_tool"', '"type":"call_tool","extra":1'));
      }
    }
    const second = world.process(of);
    await second.recover();
    const end = await second.attach("s1").result;
    expect(end).toMatchObject({ status: "parked", failure: { reason: "diverged" } });
    expect(await second.recover("s1")).toMatchObject({ usable: true });
    const session = await sessionOf(second);
    expect(session).toMatchObject({ status: "idle", pendingToolCalls: [] });
    const results: JsonObject[] = session.thread.messages.flatMap((message) =>
      message.role === "tool" ? [{ name: message.name, code: message.code }] : [],
    );
    expect(results).toEqual([
      { name: "first", code: null },
      { name: "second", code: "outcome_unknown" },
    ]);
    expect((await (await second.reply("s1", "and now?")).result).text).toBe("Done.");
    expect(runs()).toEqual([1, 1]);
  });
});
