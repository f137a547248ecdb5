// The behaviour of lash's durable host: rows 73–87, 91, 94, 98 and 100 of docs/acceptance.md, and the lessons of its
// difficult bugs. Tested through the entry point of the runtime, except for rules that are pure functions.

import type { Write } from "./world.ts";
import type { ModelRequest } from "everturn";
import type { StorageQuery as Query, StorageRow as Row } from "everturn/advanced";
import type { RuntimeEvent } from "everturn/runtime";

import { askUser, engine, MisuseError, user, RuntimeError } from "everturn";
import { storageTables as tables } from "everturn/advanced";
import { memoryStorage, runtime } from "everturn/runtime";
import { handClock } from "everturn/testing";
import { describe, expect, test } from "vitest";

import { canonicalJson } from "../../src/core/kernel/internal.ts";
import { effectiveRows, DurableJournal } from "../../src/durable/drive/journal.ts";
import { divergentPaths } from "../../src/durable/internal.ts";
import { sha256 } from "../../src/durable/rows/digest.ts";
import { claimable } from "../../src/durable/rows/inbox.ts";
import {
  checkedTimings,
  claim,
  epochOf,
  isWithinDeadline,
  leasePut,
  leaseTimings,
  nextToken,
  releasePut,
  tokenCheck,
} from "../../src/durable/rows/lease.ts";
import { handModel } from "../hand-model.ts";
import { hasHeard, readAll, reading, readUntil } from "../readings.ts";
import {
  call,
  counting,
  eventsUntil,
  gate,
  heard,
  isFirst,
  says,
  sessionOf,
  talk,
  thinker,
  worker,
  World,
  writes,
} from "./world.ts";

const allTables = Object.keys(tables).filter((name): name is keyof typeof tables => name in tables);
const own = { ...counting("own").tool, manual: true };

/** A worker that runs until the test ends it. */
function working(of: ReturnType<World["process"]>): () => Promise<void> {
  const stop = new AbortController();
  const done = of.work({ signal: stop.signal });
  return () => {
    stop.abort();
    return done;
  };
}

describe("[lash 73] completion from outside, and deadlines of waits", () => {
  test("a pending call that passes its deadline is answered as timed out, and the turn continues", async () => {
    const world = new World();
    const model = worker("own");
    const of = world.process(world.engine(model, { tools: [own] }));
    await (
      await of.start("hi", { id: "s1", waits: { manual: { afterMs: 3000 } } })
    ).result;
    const stop = working(of);
    await world.clock.advance(2000);
    expect((await sessionOf(of)).status).toBe("awaiting_tools");
    await world.clock.advance(2000);
    await stop();
    expect((await talk(of)).slice(2)).toEqual([
      expect.stringContaining("no answer arrived before the deadline"),
      "assistant Done.",
    ]);
    // The model gets a failure, not a result.
    const [answer] = (await of.messages("s1")).items.filter(({ role }) => role === "tool");
    expect(answer).toMatchObject({ status: "failure", code: "timeout" });
    expect(await world.work("deadline")).toEqual([]);
  });

  test("at the deadline an approval is denied, a question is answered as timed out, and fail_turn fails the session", async () => {
    const pay = counting("pay", { needsApproval: true });
    const ask = counting("ask", { handler: () => askUser("Which day?", { answerAs: "tool_result" }) });
    const ends = async (name: string, waits: object) => {
      const world = new World();
      const of = world.process(world.engine(worker(name), { tools: [pay.tool, ask.tool] }));
      await (
        await of.start("hi", { id: "s1", waits })
      ).result;
      const stop = working(of);
      await world.clock.advance(3000);
      await stop();
      return { session: await sessionOf(of), said: (await talk(of)).slice(2), of };
    };
    const denied = await ends("pay", { approval: { afterMs: 1000 } });
    expect(denied.said).toEqual([expect.stringContaining("no answer arrived before the deadline"), "assistant Done."]);
    const silent = await ends("ask", { question: { afterMs: 1000 } });
    expect(silent.said.join()).toContain("(no answer arrived before the deadline)");
    const failed = await ends("pay", { approval: { afterMs: 1000, onTimeout: "fail_turn" } });
    expect(failed.session.status).toBe("error");
    expect(pay.runs).toEqual([]);
    expect(await failed.of.recover("s1")).toMatchObject({ usable: true });
  });

  test("a deadline ends its own wait and no other call with the same id", async () => {
    const world = new World();
    const model = thinker(({ messages }) => (messages.at(-1)?.role === "tool" ? says("Done.") : [call("own")]));
    const of = world.process(world.engine(model, { tools: [own] }));
    await (
      await of.start("hi", { id: "s1", waits: { manual: { afterMs: 3000 } } })
    ).result;
    await (
      await of.submitToolResults("s1", [["own", "quick"]])
    ).result;
    await (
      await of.reply("s1", "again")
    ).result;
    expect((await sessionOf(of)).status).toBe("awaiting_tools");
    const stop = working(of);
    await world.clock.advance(6000);
    await stop();
    expect((await sessionOf(of)).status).toBe("awaiting_tools");
  });

  test("validates the options of waits", async () => {
    const world = new World();
    const of = world.process(world.engine(worker()));
    for (const waits of [{ lunch: { afterMs: 1 } }, { manual: {} }, { manual: { afterMs: -1 } }, [], 7]) {
      const given: object = { waits };
      await expect(of.start("hi", given)).rejects.toThrow(MisuseError);
    }
    expect(world.writes).toEqual([]);
  });
});

describe("[lash 75] effect ids", () => {
  test("every model call and every tool run has one journal row with an id that is unique in the session", async () => {
    const world = new World();
    const look = counting("look");
    const model = worker("look", "look");
    const of = world.process(world.engine(model, { tools: [look.tool] }));
    const turns = [await of.start("hi", { id: "s1" })];
    await turns[0]?.result;
    turns.push(await of.reply("s1", "again"));
    await turns[1]?.result;
    const rows = (await Promise.all(turns.map(({ turnId }) => world.journal(turnId)))).flat();
    const ids = rows.map(({ asked }) => asked["id"]);
    expect(new Set(ids).size).toBe(ids.length);
    const [first = ""] = turns.map(({ turnId }) => turnId);
    expect(ids.slice(0, 7)).toEqual(
      ["0/model", "0/tool/0", "1/after_work", "1/model", "1/tool/0", "2/after_work", "2/model"].map(
        (place) => `${first}/${place}`,
      ),
    );
    const count = (type: string) => rows.filter(({ asked }) => asked["type"] === type).length;
    expect([count("call_model"), count("call_tool")]).toEqual([model.asked.length, look.runs.length]);
    for (const { asked, row } of rows) {
      expect(row.item).toMatchObject({ type: "response", response: { id: asked["id"] } });
      expect([row.effect, row.hash]).toEqual([canonicalJson(asked), await sha256(canonicalJson(asked))]);
    }
  });
});

describe("[lash 76] the lease of a session", () => {
  test("one process drives and others get busy; after a crash the next one continues, and late results of the first are rejected", async () => {
    const world = new World();
    const barrier = gate();
    const look = counting("look", { replay: "safe", handler: () => barrier.wait() });
    const of = world.engine(worker("look"), { tools: [look.tool] });
    const first = world.process(of);
    const turn = await first.start("hi", { id: "s1" });
    await barrier.reached;
    const second = world.process(of);
    expect(await second.recover("s1")).toMatchObject({ pickedUp: 0 });
    first.kill();
    await world.leaseRunsOut();
    expect(await second.recover("s1")).toMatchObject({ pickedUp: 1 });
    barrier.open();
    expect((await second.attach("s1", turn.turnId).result).text).toBe("Done.");
    expect((await world.rows("leases")).map(({ tag }) => epochOf(tag))).toEqual([2]);
    expect(look.runs).toHaveLength(2);
  });

  test("a fenced writer changes nothing, and its callers get the result of the process that continues", async () => {
    const world = new World();
    const barriers = [gate(), gate()];
    let runs = 0;
    const look = counting("look", {
      replay: "safe",
      handler: async () => {
        const barrier = barriers[runs];
        runs += 1;
        await barrier?.wait();
        return `run ${runs}`;
      },
    });
    const of = world.engine(worker("look"), { tools: [look.tool] });
    // Its renewals do not reach the storage.
    const first = world.process(of, { refuses: (write) => (isRenewal(write.batch.puts) ? new Error("lost") : null) });
    const turn = await first.start("hi", { id: "s1" });
    await barriers[0]?.reached;
    await world.leaseRunsOut();
    const second = world.process(of);
    await second.recover();
    await barriers[1]?.reached;
    const rows = (await world.rows("journal")).length;
    barriers[0]?.open();
    await world.clock.advance(0);
    expect(await world.rows("journal")).toHaveLength(rows);
    barriers[1]?.open();
    expect((await turn.result).text).toBe("Done.");
    expect((await world.journal(turn.turnId)).map(({ row }) => row.epoch)).toEqual([1, 2, 2, 2, 2]);
  });

  const isRenewal = (puts: readonly { readonly table: string }[]) => puts.length === 1 && puts[0]?.table === "leases";
});

describe("[lash 78] strict replay", () => {
  const perform = () => Promise.reject(new Error("performed"));

  test("returns recorded responses and performs nothing; a missing record is replay_missing", async () => {
    const world = new World();
    const turn = await world.process(world.engine(worker())).start("hi", { id: "s1" });
    await turn.result;
    const rows = (await world.journal(turn.turnId)).map(({ row }) => row);
    const journal = new DurableJournal(effectiveRows(rows), { strict: true });
    const [first] = rows;
    const effect = { type: "call_model", ...JSON.parse(first?.effect ?? "") };
    journal.order(effect, perform);
    expect(await journal.next()).toEqual(first?.item);
    const beyond = new DurableJournal([], { strict: true });
    beyond.order(effect, perform);
    await expect(beyond.next()).rejects.toMatchObject({ reason: "replay_missing" });
    expect([journal.performed, beyond.performed]).toEqual([0, 0]);
  });
});

describe("[lash 79] a replay that diverges", () => {
  const secret = "hunter2-very-secret";

  async function diverged() {
    const world = new World();
    const barrier = gate();
    const pay = counting("pay", { handler: () => barrier.wait() });
    const look = counting("look");
    const model = thinker(({ messages }) => {
      const results = messages.filter(({ role }) => role === "tool").length;
      return results === 0
        ? [call("look", { pin: secret })]
        : results === 1
          ? [call("pay", { pin: secret })]
          : says("Done.");
    });
    const of = world.engine(model, { tools: [look.tool, pay.tool] });
    const first = world.process(of);
    const turn = await first.start("hi", { id: "s1" });
    await barrier.reached;
    first.kill();
    const rows = (await world.rows("journal")).filter(({ value }) => value.includes("tool_returned"));
    const [row] = rows;
    if (row === undefined) throw new Error("no tool has returned");
    await world.diverge(row, (effect) => effect.replace(secret, "swordfish"));
    await world.leaseRunsOut();
    const second = world.process(of);
    const read = readAll(second.events("s1", { turnId: turn.turnId ?? "" }));
    await second.recover();
    const end = await second.attach("s1", turn.turnId).result;
    return { world, second, end, read: await read, model, look, pay, turnId: turn.turnId };
  }

  test("parks the turn with a failure that names paths and no values", async () => {
    const { world, second, end, read, turnId } = await diverged();
    expect(end).toMatchObject({
      status: "parked",
      haltedReason: "error",
      failure: { reason: "diverged", paths: ["call.arguments.pin"] },
    });
    expect((await second.get("s1"))?.openTurn).toMatchObject({ status: "parked", turnId });
    expect((await sessionOf(second)).status).toBe("error");
    const outputs = [end.failure, (await sessionOf(second)).metadata, await world.values("turns"), read.at(-1)];
    for (const one of outputs) expect(JSON.stringify(one)).not.toMatch(/hunter2|swordfish/);
    // No process drives the turn, and none is asked to.
    expect(await world.rows("open")).toEqual([]);
    expect((await second.recover()).pickedUp).toBe(0);
    await expect(second.reply("s1", "hello?")).rejects.toMatchObject({ reason: "conflict" });
  });

  test("recover ends the turn, answers its open call by its replay policy, and the session is usable", async () => {
    const { second, model, turnId } = await diverged();
    expect(await second.recover("s1")).toMatchObject({ usable: true });
    expect(await second.attach("s1", turnId).result).toMatchObject({ status: "ended", haltedReason: "error" });
    expect(await talk(second)).toEqual([
      "user hi",
      "assistant ",
      "tool look: ok",
      "assistant ",
      expect.stringMatching(/^tool .*may or may not have run/),
    ]);
    expect((await second.get("s1"))?.openTurn).toBe(null);
    const next = await second.reply("s1", "go on");
    await eventsUntil(next.events, "message_completed");
    expect(heard(model.asked.at(-1)).at(-1)).toBe("user go on");
  });

  test("recover from the step continues the turn and names the effects that may run twice", async () => {
    const { second, pay, look, turnId } = await diverged();
    const { mayRunTwice } = await second.recover("s1", { from: "step" });
    expect(mayRunTwice).toEqual([`${turnId}/1/model`]);
    expect(await second.attach("s1", turnId).result).toMatchObject({ status: "ended", text: "Done." });
    expect([look.runs.length, pay.runs.length]).toEqual([1, 1]);
  });

  test("the comparison ignores key order and compares lists by position", () => {
    expect(canonicalJson({ b: 1, a: [{ d: 1, c: 2 }] })).toBe(canonicalJson({ a: [{ c: 2, d: 1 }], b: 1 }));
    const paths = divergentPaths({ a: { b: [1, { c: 2 }] }, d: 1 }, { a: { b: [1, { c: 3 }, 4] }, e: 1 });
    expect(paths).toEqual(["a.b[1].c", "a.b[2]", "d", "e"]);
    expect(divergentPaths(1, "1")).toEqual(["(all of it)"]);
  });

  test("a journal row that does not match its hash parks the turn, without endless retries", async () => {
    const world = new World();
    const barrier = gate();
    const look = counting("look", { replay: "safe", handler: () => barrier.wait() });
    const of = world.engine(worker("look"), { tools: [look.tool] });
    const first = world.process(of);
    const turn = await first.start("hi", { id: "s1" });
    await barrier.reached;
    first.kill();
    const [row] = await world.rows("journal");
    if (row === undefined) throw new Error("there is no row");
    await world.raw("journal", row, row.value.replace('useTools\\":true', 'useTools\\":false'));
    await world.leaseRunsOut();
    const second = world.process(of);
    await second.recover();
    expect(await second.attach("s1", turn.turnId).result).toMatchObject({
      status: "parked",
      failure: { reason: "corrupt_row" },
    });
    expect(await second.recover("s1", { from: "step" })).toMatchObject({ mayRunTwice: [`${turn.turnId}/0/model`] });
    barrier.open();
    expect((await second.attach("s1", turn.turnId).result).text).toBe("Done.");
  });

  test("a turn that fails for another reason is not retried in a loop", async () => {
    const world = new World();
    const accepting = world.process(world.engine(worker()), { drive: false });
    const turn = await accepting.start("hi", { id: "s1" });
    const broken = world.process(engine({ clock: world.clock }));
    const before = world.writes.length;
    const stop = working(broken);
    await world.clock.advance(5000);
    await stop();
    // Claimed and released once, and its row in the index of due work is moved.
    expect(world.writes.length - before).toBeLessThanOrEqual(3);
    const able = world.process(world.engine(worker()));
    await able.recover();
    expect((await able.attach("s1", turn.turnId).result).text).toBe("Done.");
  });
});

describe("[lash 80] composite effects are recorded by their parts", () => {
  test("each call of a reply has its own row: after a crash answered calls do not run again, and the results are complete", async () => {
    const world = new World();
    const barrier = gate();
    const quick = counting("quick", { replay: "safe" });
    const slow = counting("slow", { replay: "safe", handler: () => barrier.wait().then(() => "slow: ok") });
    const model = thinker(({ messages }) => (isFirst(messages) ? [call("slow"), call("quick")] : says("Done.")));
    const of = world.engine(model, { tools: [quick.tool, slow.tool] });
    const first = world.process(of, {
      diesAfter: (write) => writes("journal")(write) && JSON.stringify(write).includes("quick: ok"),
    });
    const { turnId } = await first.start("hi", { id: "s1" });
    await first.died;
    await world.leaseRunsOut();
    const second = world.process(of);
    await second.recover();
    barrier.open();
    await second.attach("s1", turnId).result;
    expect([quick.runs.length, slow.runs.length]).toEqual([1, 2]);
    expect(heard(model.asked[1]).slice(2)).toEqual(["tool slow: ok", "tool quick: ok"]);
  });
});

describe("[lash 82] idempotency keys", () => {
  test("a verb with the same key is accepted once; with other content it is a conflict", async () => {
    const world = new World();
    const model = worker();
    const [one, two] = [world.process(world.engine(model)), world.process(world.engine(model))];
    const first = await one.start("hi", { id: "s1", key: "k1" });
    await first.result;
    const again = await two.start("hi", { id: "s1", key: "k1" });
    expect([again.turnId, (await again.result).text]).toEqual([first.turnId, "Done."]);
    await expect(two.start("ho", { id: "s1", key: "k1" })).rejects.toMatchObject({ reason: "conflict" });
    const replied = await one.reply("s1", "more", { key: "k2" });
    await replied.result;
    expect((await two.reply("s1", "more", { key: "k2" })).turnId).toBe(replied.turnId);
    await expect(two.reply("s1", "less", { key: "k2" })).rejects.toMatchObject({ reason: "conflict" });
    expect(model.asked).toHaveLength(2);
  });

  test("a journal row is written once: the process that takes over reads a commit whose answer was lost", async () => {
    const storage = memoryStorage();
    let losesAnswers = true;
    const world = new World({
      storage: {
        ...storage,
        write: async (batch) => {
          const written = await storage.write(batch);
          if (!losesAnswers || !batch.puts.some(({ table }) => table === "journal")) return written;
          losesAnswers = false;
          throw new RuntimeError("storage_failed", { message: "the connection was closed" });
        },
      },
    });
    const look = counting("look");
    const model = worker("look");
    const first = world.process(world.engine(model, { tools: [look.tool] }));
    const turn = await first.start("hi", { id: "s1" });
    await expect(turn.result).rejects.toMatchObject({ reason: "storage_failed" });
    const second = world.process(world.engine(model, { tools: [look.tool] }));
    await second.recover();
    expect((await second.attach("s1", turn.turnId).result).text).toBe("Done.");
    expect([losesAnswers, model.asked.length]).toEqual([false, 2]);
    const ordinals = (await world.rows("journal")).map(({ key }) => key[3]);
    expect(ordinals).toEqual(ordinals.map((_, index) => index + 1));
  });

  test("start without an id derives the session id from the key", async () => {
    const world = new World();
    const of = world.process(world.engine(worker()));
    const first = await of.start("hi", { key: "k1" });
    expect((await of.start("hi", { key: "k1" })).sessionId).toBe(first.sessionId);
    await first.result;
    expect((await of.list()).items).toHaveLength(1);
  });
});

describe("[lash 83] atomic commits", () => {
  test("of concurrent verbs at one version one is accepted, and the others get a conflict and change nothing", async () => {
    const world = new World();
    const model = worker();
    const of = world.process(world.engine(model));
    await (
      await of.start("hi", { id: "s1" })
    ).result;
    const { version } = (await of.get("s1")) ?? { version: 0 };
    const all = await Promise.allSettled(["a", "b", "c"].map((text) => of.reply("s1", text, { version })));
    expect(all.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected", "rejected"]);
    for (const one of all) if (one.status === "rejected") expect(one.reason).toMatchObject({ reason: "conflict" });
    await of.attach("s1").result;
    expect((await talk(of)).filter((line) => line.startsWith("user"))).toHaveLength(2);
    await expect(of.reply("s1", "d", { version })).rejects.toMatchObject({ reason: "conflict" });
  });

  test("lessons 5 and 7: input accepted at a checkpoint is recorded in the same write, and a claim lasts as long as the lease", async () => {
    const world = new World();
    const [barrier, model] = [gate(), worker("look", "look")];
    const look = counting("look", { handler: () => barrier.wait() });
    const of = world.process(world.engine(model, { tools: [look.tool] }));
    const turn = await of.start("hi", { id: "s1" });
    await barrier.reached;
    await of.steer("s1", "and hurry", { id: "i1" });
    // The work takes hours, and the lease is renewed meanwhile.
    await world.clock.advance(100_000);
    barrier.open();
    await turn.result;
    const settled = world.writes.find(({ batch }) => batch.removals.some(({ table }) => table === "inbox"));
    expect(settled?.batch.puts.map(({ table }) => table)).toEqual(
      expect.arrayContaining(["journal", "accepted", "entries"]),
    );
    expect((await talk(of)).filter((line) => line === "user and hurry")).toHaveLength(1);
  });

  test("lesson 6: a crash before that write leaves the input for the next process, and a crash after it does not deliver the input twice", async () => {
    for (const when of ["diesBefore", "diesAfter"] as const) {
      const world = new World();
      const barrier = gate();
      const look = counting("look", { replay: "safe", handler: () => barrier.wait() });
      const model = worker("look");
      const of = world.engine(model, { tools: [look.tool] });
      const settles = ({ batch }: { readonly batch: { readonly removals: readonly { readonly table: string }[] } }) =>
        batch.removals.some(({ table }) => table === "inbox");
      const first = world.process(of, { [when]: settles });
      const { turnId } = await first.start("hi", { id: "s1" });
      await barrier.reached;
      await first.steer("s1", "and hurry");
      barrier.open();
      await first.died;
      await world.leaseRunsOut();
      const second = world.process(of);
      await second.recover();
      await second.attach("s1", turnId).result;
      expect((await talk(second)).filter((line) => line === "user and hurry")).toHaveLength(1);
      expect(await world.rows("inbox")).toEqual([]);
    }
  });
});

describe("[lash 84] leases", () => {
  const key = ["", "s1"];
  const row = (lease: Parameters<typeof leasePut>[1], remainingMs: number, expires = 30_000): Row => {
    const { tag, value } = leasePut(key, lease);
    return { key, tag, value, expires, remainingMs };
  };
  /** A clock that shows this time. */
  const at = (ms: number) => ({ ...handClock(), now: () => ms, monotonic: () => ms });
  /** The token of an epoch, under a clock whose random numbers are 0. */
  const token = (epoch: number) => nextToken(epoch - 1, 0);

  test("last at least three renewals", () => {
    expect(checkedTimings({ ttlMs: 30, renewMs: 10 })).toEqual({ ttlMs: 30, renewMs: 10 });
    for (const [ttlMs, renewMs] of [
      [29, 10],
      [30, 0],
      [Infinity, 10],
      [NaN, 10],
    ] as const) {
      expect(() => checkedTimings({ ttlMs, renewMs })).toThrow(MisuseError);
    }
    expect(() => runtime({ host: memoryStorage(), engines: {}, lease: { ttlMs: 5 } })).toThrow(MisuseError);
  });

  test("are exclusive: a claim during a lease names the holder, and a claim after it gets the next epoch", () => {
    const first = claim(key, null, "a", at(0), leaseTimings);
    expect(first).toMatchObject({
      type: "acquired",
      lease: { token: token(1) },
      check: { tag: null },
      put: { ttlMs: 30_000 },
    });
    const lease = { owner: "a", process: null, token: token(1), ttlMs: 30_000 };
    expect(claim(key, row(lease, 1), "b", at(0), leaseTimings)).toEqual({ type: "busy", holder: "a" });
    // Also for the same owner: a process that lost the lease does not know what was written since.
    for (const owner of ["a", "b"]) {
      const claimed = claim(key, row(lease, 0), owner, at(0), leaseTimings);
      expect(claimed).toMatchObject({ lease: { token: token(2) }, check: { tag: token(1) }, takesOver: true });
    }
  });

  test("a released lease is claimed without counting a takeover", () => {
    const { tag, value } = releasePut(key, { owner: "a", token: token(4) });
    const released: Row = { key, tag, value, expires: 0, remainingMs: 0 };
    expect(claim(key, released, "b", at(0), leaseTimings)).toMatchObject({
      lease: { token: token(5) },
      takesOver: false,
    });
  });

  test("a lease with an expiry too far ahead is claimed after it was unchanged for one lease time", () => {
    const stuck = row({ owner: "a", process: null, token: token(1), ttlMs: 30_000 }, 31_000, 7);
    const seen = { token: token(1), expires: 7, since: 1000 };
    const claimed = (now: number, observed: typeof seen | null) =>
      claim(key, stuck, "b", at(now), leaseTimings, { observed });
    expect(claimed(40_000, null).type).toBe("busy");
    expect(claimed(30_999, seen).type).toBe("busy");
    expect(claimed(31_000, { ...seen, expires: 8 }).type).toBe("busy");
    // A renewal keeps the tag, so the claim compares the expiry too.
    expect(claimed(31_000, seen)).toMatchObject({ type: "acquired", check: { tag: token(1), expires: 7 } });
    const usual = row({ owner: "a", process: null, token: token(1), ttlMs: 30_000 }, 30_000, 7);
    expect(claim(key, usual, "b", at(90_000), leaseTimings, { observed: seen }).type).toBe("busy");
  });

  test("end for their holder when its wall clock or its monotonic clock passes the deadline", () => {
    const lease = {
      owner: "a",
      process: null,
      token: token(1),
      ttlMs: 30_000,
      sentAt: { wall: 1000, monotonic: 50 },
      since: 1000,
      takesOver: false,
      tookOverFrom: null,
      alone: false,
    };
    const safe = (wall: number, monotonic: number) => isWithinDeadline(lease, { wall, monotonic });
    expect(safe(30_999, 30_049)).toBe(true);
    expect(safe(31_000, 50)).toBe(false);
    expect(safe(0, 30_050)).toBe(false);
  });

  test("are renewed and released under the same epoch, and writes fail once they have expired", async () => {
    const lease = { owner: "a", process: null, token: token(3), ttlMs: 30_000 };
    expect(releasePut(key, lease)).toMatchObject({ tag: token(3), ttlMs: 0 });
    const clock = handClock();
    const storage = memoryStorage({ clock });
    await storage.write({ checks: [], removals: [], puts: [leasePut(key, lease)] });
    const held = (epoch: number) =>
      storage
        .write({ checks: [tokenCheck(key, { token: token(epoch) })], removals: [], puts: [] })
        .then(({ ok }) => ok);
    await clock.advance(29_999);
    expect(await Promise.all([held(3), held(2), held(4)])).toEqual([true, false, false]);
    await clock.advance(1);
    expect(await held(3)).toBe(false);
  });

  test("bind input claims to their epoch: the next epoch may claim the input again", () => {
    const entry = { id: "i", input: { type: "message", message: user("x") }, turn: "t", at: 0, ownTurn: null } as const;
    expect(claimable({ ...entry, state: "pending", epoch: null }, 1, "other")).toBe(true);
    expect(claimable({ ...entry, state: "claimed", epoch: 1 }, 1, "other")).toBe(false);
    expect(claimable({ ...entry, state: "claimed", epoch: 1 }, 2, "other")).toBe(true);
    // The turn that has claimed it may do so again: the answer to its claim may have been late.
    expect(claimable({ ...entry, state: "claimed", epoch: 1 }, 1, "t")).toBe(true);
  });
});

describe("[lash 85] input", () => {
  async function running() {
    const world = new World();
    const barrier = gate();
    const look = counting("look", { handler: () => barrier.wait() });
    const model = worker("look");
    const of = world.process(world.engine(model, { tools: [look.tool] }));
    const turn = await of.start("hi", { id: "s1" });
    await barrier.reached;
    return { world, barrier, model, of, turn };
  }

  test("an input id is accepted once: equal content is idempotent, other content is a conflict", async () => {
    const { barrier, of, turn } = await running();
    const first = await of.steer("s1", "quick", { id: "i1" });
    expect(await of.steer("s1", "quick", { id: "i1" })).toEqual(first);
    await expect(of.steer("s1", "slow", { id: "i1" })).rejects.toMatchObject({ reason: "conflict" });
    barrier.open();
    await turn.result;
    expect(await of.steer("s1", "quick", { id: "i1" })).toEqual(first);
    expect((await talk(of)).filter((line) => line === "user quick")).toHaveLength(1);
  });

  test("withdraw removes input that is not yet accepted, and returns the state of the input", async () => {
    const { barrier, of, turn } = await running();
    await of.steer("s1", "no", { id: "i1" });
    await of.steer("s1", "yes", { id: "i2" });
    expect(await of.withdraw("s1", "i1")).toBe("cancelled");
    expect(await of.withdraw("s1", "i1")).toBe("already_cancelled");
    expect(await of.withdraw("s1", "i9")).toBe("not_found");
    barrier.open();
    await turn.result;
    expect(await of.withdraw("s1", "i2")).toBe("already_taken");
    expect(await talk(of)).not.toContain("user no");
  });

  test("claimed input cannot be withdrawn, unless the process that claimed it is gone", async () => {
    const world = new World();
    const barrier = gate();
    const look = counting("look", { replay: "safe", handler: () => barrier.wait() });
    const of = world.engine(worker("look"), { tools: [look.tool] });
    const first = world.process(of, {
      diesBefore: ({ batch }) => batch.removals.some(({ table }) => table === "inbox"),
    });
    await first.start("hi", { id: "s1" });
    await barrier.reached;
    await first.steer("s1", "wait", { id: "i1" });
    barrier.open();
    await first.died;
    const other = world.process(of, { drive: false });
    expect(await other.withdraw("s1", "i1")).toBe("already_claimed");
    // The next process claims the lease, which voids the claim, and has not reached the checkpoint yet.
    const again = gate();
    const slow = counting("look", { replay: "safe", handler: () => again.wait() });
    await world.leaseRunsOut();
    const second = world.process(world.engine(worker("look"), { tools: [slow.tool] }));
    await second.recover("s1");
    await again.reached;
    expect(await other.withdraw("s1", "i1")).toBe("cancelled");
    again.open();
    await second.attach("s1").result;
    expect(await talk(second)).not.toContain("user wait");
  });

  test("lesson 12: input is a message of the thread, a transient message is not kept, and a cause is shown as an external event", async () => {
    const { barrier, model, of, turn } = await running();
    await of.steer("s1", { type: "message", message: user("keep this") });
    await of.steer("s1", { type: "transient", message: user("not this") });
    const origin = { type: "plugin", pluginId: "mail", transient: false } as const;
    await of.steer("s1", {
      type: "cause",
      cause: { id: "w1", eventType: "mail.received", origin, text: "You have mail." },
    });
    barrier.open();
    await turn.result;
    const asked = heard(model.asked[1]).join("\n");
    for (const text of ["keep this", "not this", "You have mail."]) expect(asked).toContain(text);
    const kept = (await talk(of)).join("\n");
    expect(kept).toContain("keep this");
    expect(kept).not.toContain("not this");
  });

  test("send replies, or steers while a turn runs", async () => {
    const { barrier, of, turn } = await running();
    expect((await of.send("s1", "quick")).turnId).toBe(turn.turnId);
    barrier.open();
    await turn.result;
    const next = await of.send("s1", "more");
    expect(next.turnId).not.toBe(turn.turnId);
    expect((await next.result).text).toBe("Done.");
  });

  test("input that arrives while the turn ends becomes the next turn", async () => {
    const world = new World();
    const barrier = gate();
    const model = worker();
    const isEnd = (write: Write): boolean => writes("journal")(write) && writes("sessions")(write);
    const of = world.process(world.engine(model), { holds: (write) => (isEnd(write) ? barrier.wait() : null) });
    const turn = await of.start("hi", { id: "s1" });
    await barrier.reached;
    await world.process(world.engine(model)).steer("s1", "wait!");
    barrier.open();
    await turn.result;
    const isNext = ({ event, turnId }: RuntimeEvent) => event.type === "chat_completed" && turnId !== turn.turnId;
    await readUntil(of.events("s1"), isNext);
    expect(await talk(of)).toEqual(["user hi", "assistant Done.", "user wait!", "assistant Done."]);
  });

  test("the result of a turn resolves at its end, also while the turn of late input still runs", async () => {
    const world = new World();
    const barriers = [gate(), gate()];
    let runs = 0;
    const look = counting("look", { handler: () => barriers[runs++]?.wait() });
    const model = thinker(() => [call("look")]);
    const of = world.process(world.engine(model, { tools: [look.tool] }));
    const turn = await of.start("hi", { id: "s1", budgets: { steps: 1 } });
    await barriers[0]?.reached;
    await of.steer("s1", "later");
    barriers[0]?.open();
    expect(await turn.result).toMatchObject({ haltedReason: "budget", turnId: turn.turnId });
    await barriers[1]?.reached;
    barriers[1]?.open();
    await of.attach("s1").result;
  });
});

describe("[lash 73] [lash 86] tokens", () => {
  const pay = counting("pay", { needsApproval: true });

  async function waiting(...names: readonly string[]) {
    const world = new World();
    const ask = counting("ask", { handler: ({ n }) => askUser(`Which ${String(n)}?`, { answerAs: "tool_result" }) });
    const model = thinker(({ messages }) =>
      isFirst(messages) ? names.map((name, n) => call(name, { n }, `c${n}`)) : says("Done."),
    );
    const of = world.process(world.engine(model, { tools: [own, pay.tool, ask.tool] }));
    await (
      await of.start("hi", { id: "s1" })
    ).result;
    return { world, of, model };
  }

  test("complete one call from any process, and are not stored in plain text", async () => {
    const { world, of } = await waiting("own");
    const token = await of.token("s1", "c0");
    expect(token).toMatch(/^[0-9a-f]{64}$/);
    expect(await of.token("s1", "c0")).not.toBe(token);
    expect(await world.everything(allTables)).not.toContain(token);
    const elsewhere = world.process(world.engine(worker()), { owner: "webhook" });
    const done = await elsewhere.complete(token, { type: "result", value: "by mail" });
    if (done.type !== "completed") throw new Error(done.type);
    await done.turn.result;
    expect(await talk(of)).toContain("tool by mail");
  });

  test("work once: the first answer counts", async () => {
    const { of } = await waiting("own");
    const token = await of.token("s1", "c0");
    const all = await Promise.all(["a", "b", "c"].map((value) => of.complete(token, { type: "result", value })));
    expect(all.map(({ type }) => type).sort()).toEqual(["already_completed", "already_completed", "completed"]);
    await of.attach("s1").result;
    expect((await talk(of)).filter((line) => line.startsWith("tool"))).toHaveLength(1);
    expect(await of.complete("guess", { type: "result", value: 1 })).toEqual({ type: "unknown" });
  });

  test("are revoked when the call is answered otherwise or the session is deleted", async () => {
    const { of } = await waiting("own", "own");
    const tokens = [await of.token("s1", "c0"), await of.token("s1", "c1")];
    await of.submitToolResults("s1", [["c0", "mine"]]);
    expect(await of.complete(tokens[0] ?? "", { type: "result", value: 1 })).toMatchObject({ type: "revoked" });
    await of.delete("s1");
    expect(await of.complete(tokens[1] ?? "", { type: "result", value: 1 })).toMatchObject({ type: "revoked" });
  });

  test("are bound to a call and its arguments, and accept the answers of its reason", async () => {
    const { of } = await waiting("pay");
    const token = await of.token("s1", "c0");
    await expect(of.complete(token, { type: "result", value: "paid" })).rejects.toThrow(MisuseError);
    const done = await of.complete(token, { type: "approve", by: "Ada" });
    if (done.type !== "completed") throw new Error(done.type);
    await done.turn.result;
    expect(await talk(of)).toContain("tool pay: ok");
    const manual = await waiting("own");
    const other = await manual.of.token("s1", "c0");
    await expect(manual.of.complete(other, { type: "approve" })).rejects.toThrow(/this token takes result/);
    await expect(of.token("s1", "c0")).rejects.toMatchObject({ reason: "not_found" });
  });

  test("a token for a nested wait answers that wait and not the next one", async () => {
    const world = new World();
    const inner = counting("inner", { needsApproval: true });
    const childModel = thinker(({ messages }) => {
      const results = messages.filter(({ role }) => role === "tool").length;
      return results < 2 ? [call("inner", { euros: results === 0 ? 1 : 1000 })] : says("Found.");
    });
    const child = world.engine(childModel, { tools: [inner.tool] });
    const outer = counting("outer", {
      replay: "safe",
      handler: async (_, { runChild }) => (await runChild(child, "x")).haltedReason,
    });
    const of = world.process(world.engine(worker("outer"), { tools: [outer.tool] }));
    await (
      await of.start("hi", { id: "s1" })
    ).result;
    const token = await of.token("s1", "c0");
    await (
      await of.decide("s1", "c0", { type: "approve" })
    ).result;
    expect((await sessionOf(of)).status).toBe("awaiting_tools");
    expect(await of.complete(token, { type: "approve" })).toMatchObject({ type: "revoked" });
    expect(inner.runs).toEqual([{ euros: 1 }]);
  });

  test("a token for the second of two questions answers the second", async () => {
    const { of, model } = await waiting("ask", "ask");
    const done = await of.complete(await of.token("s1", "c1"), { type: "answer", text: "the second" });
    expect(done.type).toBe("completed");
    expect((await sessionOf(of)).pendingQuestion).toBe("Which 0?");
    await (
      await of.reply("s1", "the first")
    ).result;
    expect(heard(model.asked[1]).slice(2, 4)).toEqual(["tool the first", "tool the second"]);
  });
});

describe("[lash 87] a cancel is stored", () => {
  test("survives the process of the turn and that of the caller, with its origin and reason; the first cancel counts", async () => {
    const world = new World();
    const hand = handModel();
    const first = world.process(world.engine(hand));
    const turn = await first.start("hi", { id: "s1" });
    await (await hand.call(1)).say("Half");
    first.kill();
    const asking = world.process(world.engine(hand), { drive: false });
    const answer = asking.cancel("s1", { origin: "Ada", reason: "enough" });
    const late = world.process(world.engine(hand), { drive: false }).cancel("s1", { origin: "Bob", reason: "me too" });
    await world.leaseRunsOut();
    const second = world.process(world.engine(hand));
    await second.recover();
    expect(await Promise.all([answer, late])).toEqual(["cancelled", "cancelled"]);
    expect(await second.attach("s1", turn.turnId).result).toMatchObject({
      outcome: { type: "cancelled", evidence: { origin: "Ada", reason: "enough" } },
    });
    expect(await second.cancel("s1", { turnId: turn.turnId ?? "" })).toBe("cancelled");
  });

  test("lesson 2: a turn that is cancelled before it is driven performs nothing, even with a slow storage", async () => {
    const world = new World();
    const model = worker();
    const barrier = gate();
    const isLook = ([query, ...more]: readonly Query[]) => query?.table === "cancels" && more.length === 0;
    const accepting = world.process(world.engine(model), { drive: false });
    const turn = await accepting.start("hi", { id: "s1" });
    const answer = accepting.cancel("s1");
    await world.clock.advance(0);
    expect((await accepting.get("s1"))?.openTurn).toMatchObject({ status: "queued" });
    const driving = world.process(world.engine(model), {
      holdsRead: (queries) => (isLook(queries) ? barrier.wait() : null),
    });
    await driving.recover();
    await world.clock.advance(1000);
    barrier.open();
    expect(await answer).toBe("cancelled");
    expect(await turn.result).toMatchObject({ haltedReason: "cancelled" });
    expect(model.asked).toEqual([]);
  });

  test("a cancel that arrives while the turn is being loaded takes effect", async () => {
    const world = new World();
    const hand = handModel();
    const barrier = gate();
    const accepting = world.process(world.engine(hand), { drive: false });
    const turn = await accepting.start("hi", { id: "s1" });
    const of = world.process(world.engine(hand), {
      holdsRead: (queries) => (queries.some(({ table }) => table === "contents") ? barrier.wait() : null),
    });
    await of.recover();
    await barrier.reached;
    const answer = of.cancel("s1");
    await world.clock.advance(0);
    barrier.open();
    expect(await answer).toBe("cancelled");
    expect(await turn.result).toMatchObject({ haltedReason: "cancelled" });
  });

  test("a cancel of a turn whose process hangs is stored, and the caller gets an answer in time", async () => {
    const world = new World();
    const hand = handModel();
    const first = world.process(world.engine(hand));
    const { turnId } = await first.start("hi", { id: "s1" });
    await hand.call(1);
    first.kill();
    const second = world.process(world.engine(hand));
    const answer = second.cancel("s1", { waitMs: 5000 });
    await world.clock.advance(5000);
    expect(await answer).toBe("stored");
    await world.leaseRunsOut();
    await second.recover();
    expect(await second.attach("s1", turnId).result).toMatchObject({ haltedReason: "cancelled" });
  });

  test("a reader that stops reading does not cancel the turn", async () => {
    const world = new World();
    const hand = handModel();
    const of = world.process(world.engine(hand));
    const turn = await of.start("hi", { id: "s1" });
    const one = await hand.call(1);
    await one.say("Half");
    await readUntil(turn.events, hasHeard("Half"));
    expect(one.signal.aborted).toBe(false);
    one.finish();
    expect((await turn.result).text).toBe("Half");
  });
});

describe("[lash 91] attempts in the stream", () => {
  test("a failed attempt is withdrawn; every delta has attempt, part and offset; a cursor continues after it", async () => {
    const world = new World();
    const hand = handModel();
    const of = world.process(world.engine(hand, { retry: { afterOutput: true } }));
    const turn = await of.start("hi", { id: "s1" });
    const one = await hand.call(1);
    await one.say("Helo");
    const before = await readUntil(turn.events, hasHeard("Helo"));
    one.fail();
    await world.clock.advance(1000);
    const two = await hand.call(2);
    await two.say("Hel");
    const middle = await readUntil(of.events("s1", { after: before.at(-1)?.cursor ?? "" }), hasHeard("Hel"));
    await two.say("lo.");
    two.finish();
    await turn.result;
    const after = await readAll(of.events("s1", { after: middle.at(-1)?.cursor ?? "", follow: false }));
    expect(reading([...before, ...middle, ...after])).toMatchObject({ heard: ["Hello."], resets: 1 });
    expect(middle.at(-1)?.delta).toEqual({ attempt: { epoch: 1, n: 2 }, part: "text/0", offset: 0 });
    expect(middle.find(({ event }) => event.type === "retry_scheduled")?.event).toMatchObject({
      effectId: `${turn.turnId}/0/model`,
    });
  });
});

describe("[lash 94] the ledger", () => {
  test("has the usage by source and model, including nested turns; it only grows and agrees with the session", async () => {
    const world = new World();
    const spent = { inputTokens: 5, outputTokens: 2 };
    const child = world.engine(thinker(() => says("Found."), { inputTokens: 100, outputTokens: 0 }));
    const dig = counting("dig", { handler: async (_, { runChild }) => (await runChild(child, "look")).haltedReason });
    const model = thinker(({ messages }) => (messages.at(-1)?.role === "tool" ? says("Done.") : [call("dig")]), spent);
    const of = world.process(world.engine(model, { tools: [dig.tool] }));
    const sums: (number | null)[] = [];
    await (
      await of.start("hi", { id: "s1" })
    ).result;
    sums.push((await of.usage("s1")).total.inputTokens);
    await (
      await of.reply("s1", "more")
    ).result;
    const { total, lines } = await of.usage("s1");
    sums.push(total.inputTokens);
    expect(sums).toEqual([110, 220]);
    expect(lines.map(({ source, model: name, usage }) => [source, name, usage.inputTokens])).toEqual(
      expect.arrayContaining([
        ["model", "fake:m", 20],
        ["tool", null, 200],
      ]),
    );
    expect(lines).toHaveLength(2);
    expect((await sessionOf(of)).usage).toMatchObject({ inputTokens: 220, outputTokens: total.outputTokens });
  });

  test("has every line exactly once after replays", async () => {
    const world = new World();
    const look = counting("look", { replay: "safe" });
    const model = thinker(({ messages }) => (isFirst(messages) ? [call("look")] : says("Done.")), { inputTokens: 5 });
    const of = world.engine(model, { tools: [look.tool] });
    const first = world.process(of, { diesAfter: (write) => JSON.stringify(write).includes("look: ok") });
    const { turnId } = await first.start("hi", { id: "s1" });
    await first.died;
    await world.leaseRunsOut();
    const second = world.process(of);
    await second.recover();
    await second.attach("s1", turnId).result;
    expect((await second.usage("s1")).total.inputTokens).toBe(10);
    expect((await sessionOf(second)).usage.inputTokens).toBe(10);
  });
});

describe("[lash 98] every effect is journaled", () => {
  test("every model call and tool run has a journal row, also in nested turns; a replay performs nothing", async () => {
    const world = new World();
    const inner = counting("inner");
    const childModel = thinker(({ messages }) => (isFirst(messages) ? [call("inner")] : says("Found.")));
    const child = world.engine(childModel, { tools: [inner.tool] });
    const outer = counting("outer", { handler: async (_, { runChild }) => (await runChild(child, "x")).haltedReason });
    const model = worker("outer");
    const of = world.engine(model, { tools: [outer.tool] });
    // The process is killed when everything but the end is recorded.
    const first = world.process(of, { diesBefore: (write) => JSON.stringify(write).includes("chat_completed") });
    const turn = await first.start("hi", { id: "s1" });
    await first.died;
    const performed = () =>
      [model, childModel].map(({ asked }) => asked.length).concat(outer.runs.length, inner.runs.length);
    expect(performed()).toEqual([2, 2, 1, 1]);
    const asked = (await world.values("journal")).map((row) => JSON.stringify(row));
    const count = (type: string) => asked.filter((row) => row.includes(`\\"type\\":\\"${type}\\"`)).length;
    expect([count("call_model"), count("call_tool")]).toEqual([4, 2]);
    await world.leaseRunsOut();
    const second = world.process(of);
    await second.recover();
    expect((await second.attach("s1", turn.turnId).result).text).toBe("Done.");
    expect(performed()).toEqual([2, 2, 1, 1]);
  });
});

describe("[lash 100] volatile storage", () => {
  const engines = { default: new World().engine(worker()) };
  const durable = memoryStorage({ durability: "durable", name: "disk" });
  const volatile = memoryStorage({ name: "ram" });

  test("a durable runtime rejects a storage that does not survive the process, and names it", () => {
    expect(() => runtime({ host: volatile, engines, durability: "durable" })).toThrow(
      expect.objectContaining({ reason: "volatile_storage", message: expect.stringMatching("ram") }),
    );
    expect(() => runtime({ host: volatile, engines })).not.toThrow();
    expect(() => runtime({ host: durable, engines, durability: "durable" })).not.toThrow();
  });
});

describe("lessons of lash's hard bugs", () => {
  test("1: the stored rows of a turn do not depend on the process that drives it: all ids derive from the turn id", async () => {
    const stored = async (dies: boolean) => {
      const world = new World();
      const look = counting("look", { replay: "safe" });
      const of = world.engine(worker("look"), { tools: [look.tool] });
      const first = world.process(of, dies ? { diesAfter: writes("journal") } : {});
      const turn = await first.start("hi", { id: "s1" });
      if (dies) {
        await first.died;
        await world.leaseRunsOut();
        await world.process(of).recover();
      }
      await world.process(of).attach("s1", turn.turnId).result;
      const tablesOfTurn = ["journal", "entries", "events", "ledger", "turns"] as const;
      const values = JSON.stringify(await Promise.all(tablesOfTurn.map((table) => world.values(table))));
      const named = values.replaceAll(/turn-[0-9a-f]{20}/g, "turn").replaceAll(/((?:epoch|endedAt)":)\d+/g, "$10");
      // When and where an effect was performed is stored for people, and no replay reads it. The others are digests of
      // values that contain the turn id. So are the time of the end and the number of attempts that were thrown away,
      // which a crash increases.
      const untimed = named.replaceAll(/"timing":\{[^}]*\}/g, '"timing":null').replaceAll(/"discarded":\d+,/g, "");
      return JSON.parse(untimed.replaceAll(/((?:hash|digest)\\*":\\*")\w+/g, "$1"));
    };
    expect(await stored(true)).toEqual(await stored(false));
  });

  test("21: a deleted session stays deleted while a process still drives it, and its id can be used again", async () => {
    const world = new World();
    const barrier = gate();
    const look = counting("look", { handler: () => barrier.wait() });
    const of = world.process(world.engine(worker("look"), { tools: [look.tool] }));
    const turn = await of.start("hi", { id: "s1" });
    await barrier.reached;
    await world.process(world.engine(worker())).delete("s1");
    barrier.open();
    await expect(turn.result).rejects.toMatchObject({ reason: "not_found" });
    expect(await of.get("s1")).toBe(null);
    expect(await world.rows("entries")).toEqual([]);
    await expect(of.reply("s1", "still there?")).rejects.toMatchObject({ reason: "not_found" });
    const anew = world.process(world.engine(worker()));
    await (
      await anew.start("ho", { id: "s1" })
    ).result;
    expect(await talk(anew)).toEqual(["user ho", "assistant Done."]);
  });

  test("24: a turn is stored before any effect: after a crash right after the acceptance it is found and driven", async () => {
    const world = new World();
    const model = worker();
    const first = world.process(world.engine(model), { diesAfter: () => true });
    void first.start("hi", { id: "s1" });
    await first.died;
    expect(model.asked).toEqual([]);
    await world.leaseRunsOut();
    const second = world.process(world.engine(model));
    expect(await second.recover()).toMatchObject({ pickedUp: 1 });
    expect((await second.attach("s1").result).text).toBe("Done.");
  });
});

describe("a deploy in the middle of a turn", () => {
  test("the turn finishes with the instructions, tools, model and settings it started with; the next turn has the new ones", async () => {
    const world = new World();
    const [look, pay] = [counting("look", { replay: "safe" }), counting("pay")];
    const before = worker("look");
    const first = world.process(
      world.engine(before, {
        instructions: "Old.",
        model: "fake:old",
        tools: [look.tool],
        params: { temperature: 0.1 },
      }),
      { diesAfter: (write) => JSON.stringify(write).includes("look: ok") },
    );
    const { turnId } = await first.start("hi", { id: "s1" });
    await first.died;
    await world.leaseRunsOut();
    const after = worker("look");
    const second = world.process(
      world.engine(after, { instructions: "New.", model: "fake:new", tools: [pay.tool], params: { temperature: 0.9 } }),
    );
    await second.recover();
    expect((await second.attach("s1", turnId).result).text).toBe("Done.");
    const asked = (request: ModelRequest | undefined) => [
      request?.model,
      request?.tools.map(({ name }) => name),
      heard(request)[0],
      request?.temperature,
    ];
    expect(after.asked.map(asked)).toEqual([["fake:old", ["look"], "system Old.", 0.1]]);
    await (
      await second.reply("s1", "more")
    ).result;
    expect(asked(after.asked[1])).toEqual(["fake:new", ["pay"], "system New.", 0.9]);
  });
});
