// Several workers over one storage: of those who want the same thing one gets it, one who was paused too long can write nothing, and whatever was
// accepted happens once.

import type { FakeScript } from "everturn";
import type { Clock } from "everturn/engine";
import type { HostStorage, Runtime, RuntimeOptions } from "everturn/runtime";
import type { HandClock } from "everturn/testing";

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { engine, fake, tool } from "everturn";
import { memoryStorage } from "everturn/host/memory";
import { sqliteStorage } from "everturn/host/sqlite";
import { messageText, validateSession } from "everturn/model";
import { runtime } from "everturn/runtime";
import { handClock } from "everturn/testing";
import Libsql from "libsql";
import { afterEach, describe, expect, test } from "vitest";

import { handModel } from "../../test/hand-model.ts";
import { readAll, reading, readUntil } from "../../test/readings.ts";
import { calls, plain, says } from "../../test/runs.ts";
import { everything, gated, jittered, seeded } from "../../test/shared-storage.ts";

const cleanUps: (() => void)[] = [];

afterEach(() => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) cleanUp();
});

/** A storage, and the same storage as another process has it. */
type Shared = {
  readonly name: string;
  readonly seeds: number;
  readonly open: () => readonly [HostStorage, HostStorage];
};

const hosts: readonly Shared[] = [
  {
    name: "memory",
    seeds: 60,
    open: () => {
      const storage = memoryStorage();
      return [storage, storage];
    },
  },
  {
    name: "SQLite, two handles",
    seeds: 12,
    open: () => {
      const folder = mkdtempSync(join(tmpdir(), "everturn-races-"));
      cleanUps.push(() => rmSync(folder, { recursive: true }));
      const handle = () => {
        const database = new Libsql(join(folder, "test.db"));
        cleanUps.push(() => database.close());
        return sqliteStorage(database, { pollMs: 2, synchronous: "normal" });
      };
      return [handle(), handle()];
    },
  },
];

const short = { ttlMs: 300, renewMs: 100 };

/** An engine that says these things one after the other, and has a tool that waits for consent and one that somebody else runs. */
function talker(scripts: readonly FakeScript[]) {
  const ran: string[] = [];
  const adapter = fake({ scripts });
  const erase = tool({
    name: "erase",
    description: "Erases.",
    schema: { type: "object" },
    needsApproval: true,
    handler: (_, { idempotencyKey }) => {
      ran.push(idempotencyKey);
      return "gone";
    },
  });
  const fetchIt = tool({ name: "fetch", description: "Fetches.", schema: { type: "object" }, manual: true });
  return { adapter, ran, engine: engine({ adapter, model: "fake:m", tools: [erase, fetchIt] }) };
}

const alwaysOk = (): readonly FakeScript[] => Array.from({ length: 40 }, () => says("ok"));

/** Two runtimes over the same storage, each with answers that take their time. */
function pair(
  open: Shared["open"],
  seed: number,
  engines: RuntimeOptions["engines"],
  rest: Partial<RuntimeOptions> = {},
): readonly [Runtime, Runtime, HostStorage] {
  const random = seeded(seed);
  const [one, other] = open().map((host) => jittered(host, random));
  if (one === undefined || other === undefined) throw new Error("two are needed");
  const [a, b] = [one, other].map((host) => runtime({ host, engines, ...rest }));
  if (a === undefined || b === undefined) throw new Error("two are needed");
  return [a, b, one];
}

/** Who won: one did, and the other was told that it was too late. */
async function oneWins(both: readonly Promise<unknown>[]): Promise<number> {
  const settled = await Promise.allSettled(both);
  const won = settled.flatMap(({ status }, index) => (status === "fulfilled" ? [index] : []));
  const lost = settled.flatMap((one) => (one.status === "rejected" ? [one.reason] : []));
  expect(won).toHaveLength(1);
  expect(lost).toMatchObject([{ name: "RuntimeError", reason: "conflict" }]);
  return won[0] ?? -1;
}

/** Everything that is open is driven to its end. */
async function settle(sessions: Runtime, ...ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    for (;;) {
      const view = await sessions.get(id);
      if (view === null || view.openTurn === null) break;
      await sessions.recover(id);
      await sessions.attach(id, view.openTurn.turnId).result;
    }
  }
}

async function texts(sessions: Runtime, id: string): Promise<readonly string[]> {
  const view = await sessions.get(id);
  const session = view?.session;
  if (session === undefined) return [];
  expect(validateSession(session)).toMatchObject({ ok: true });
  return session.thread.messages.map(messageText);
}

describe.each(hosts)("of two who do it at the same time one wins ($name)", ({ open, seeds }) => {
  const all = Array.from({ length: seeds }, (_, seed) => seed);
  const accepting = { drive: false } as const;

  test("start under the same id", async () => {
    for (const seed of all) {
      const { engine: of, adapter } = talker([says("Hello.")]);
      const [a, b, host] = pair(open, seed, { default: of }, accepting);
      const won = await oneWins([a.start("from a", { id: "s" }), b.start("from b", { id: "s" })]);
      const worker = runtime({ host, engines: { default: of } });
      await settle(worker, "s");
      expect(await texts(worker, "s")).toEqual([won === 0 ? "from a" : "from b", "Hello."]);
      expect(adapter.calls).toHaveLength(1);
    }
  });

  test("reply", async () => {
    for (const seed of all) {
      const { engine: of, adapter } = talker([says("Hello."), says("Well.")]);
      const [a, b, host] = pair(open, seed, { default: of }, accepting);
      const worker = runtime({ host, engines: { default: of } });
      await (
        await worker.start("hi", { id: "s" })
      ).result;
      const won = await oneWins([a.reply("s", "from a"), b.reply("s", "from b")]);
      await settle(worker, "s");
      expect(await texts(a, "s")).toEqual(["hi", "Hello.", won === 0 ? "from a" : "from b", "Well."]);
      expect(adapter.calls).toHaveLength(2);
    }
  });

  test("decide", async () => {
    for (const seed of all) {
      const { engine: of, ran } = talker([calls("erase"), says("Done.")]);
      const [a, b, host] = pair(open, seed, { default: of }, accepting);
      const worker = runtime({ host, engines: { default: of } });
      await (
        await worker.start("erase it", { id: "s" })
      ).result;
      const won = await oneWins([
        a.decide("s", "c0", { type: "approve" }),
        b.decide("s", "c0", { type: "deny", reason: "no" }),
      ]);
      await settle(worker, "s");
      expect(ran).toHaveLength(won === 0 ? 1 : 0);
      expect(await texts(b, "s")).toHaveLength(4);
    }
  });

  test("submitToolResults", async () => {
    for (const seed of all) {
      const { engine: of, adapter } = talker([calls("fetch"), says("Done.")]);
      const [a, b, host] = pair(open, seed, { default: of }, accepting);
      const worker = runtime({ host, engines: { default: of } });
      await (
        await worker.start("fetch it", { id: "s" })
      ).result;
      const won = await oneWins([
        a.submitToolResults("s", [["c0", "from a"]]),
        b.submitToolResults("s", [["c0", "from b"]]),
      ]);
      await settle(worker, "s");
      expect((await texts(a, "s"))[2]).toContain(won === 0 ? "from a" : "from b");
      expect(adapter.calls).toHaveLength(2);
    }
  });

  test("and both when they drive: nothing is driven twice", async () => {
    for (const seed of all) {
      const { engine: of, adapter } = talker([says("Hello.")]);
      const [a, b] = pair(open, seed, { default: of });
      await oneWins([a.start("from a", { id: "s" }), b.start("from b", { id: "s" })]);
      await Promise.all([a.recover(), b.recover()]);
      await settle(a, "s");
      expect(adapter.calls).toHaveLength(1);
      expect(reading(await readAll(b.events("s", { follow: false }))).replies).toEqual(["Hello."]);
    }
  });
});

describe.each(hosts)("a key is accepted once ($name)", ({ open, seeds }) => {
  const all = Array.from({ length: seeds }, (_, seed) => seed);

  test("by any verb, whoever asks, at the same time and later", async () => {
    for (const seed of all) {
      const { engine: of, adapter, ran } = talker([says("Hello."), calls("erase"), says("Done.")]);
      const [a, b] = pair(open, seed, { default: of });
      const both = async (ask: (sessions: Runtime) => Promise<{ readonly turnId: string | null }>) => {
        const [one, other] = await Promise.all([ask(a), ask(b)]);
        await settle(a, "s");
        const later = await ask(b);
        expect(new Set([one.turnId, other.turnId, later.turnId]).size).toBe(1);
      };
      await both((sessions) => sessions.start("hi", { id: "s", key: "k1" }));
      await both((sessions) => sessions.reply("s", "erase it", { key: "k2" }));
      await both((sessions) => sessions.decide("s", "c0", { type: "approve" }, { key: "k3" }));
      expect(await texts(b, "s")).toHaveLength(6);
      expect(adapter.calls).toHaveLength(3);
      expect(ran).toHaveLength(1);
      await expect(a.reply("s", "something else", { key: "k2" })).rejects.toMatchObject({ reason: "conflict" });
    }
  });

  test("by steer and send, while a turn runs, when it has ended, and when it never did", async () => {
    for (const seed of all) {
      const { engine: of } = talker(alwaysOk());
      const [a, b] = pair(open, seed, { default: of });
      await a.start("hi", { id: "s" });
      const asked = [a, b, a, b].flatMap((sessions) => [
        sessions.steer("s", "steered", { id: "i1" }),
        sessions.send("s", "sent", { key: "i2" }),
      ]);
      await Promise.all(asked);
      await settle(a, "s");
      await b.steer("s", "steered", { id: "i1" });
      await b.send("s", "sent", { key: "i2" });
      await settle(b, "s");
      const said = await texts(a, "s");
      expect(said.filter((text) => text === "steered")).toHaveLength(1);
      expect(said.filter((text) => text === "sent")).toHaveLength(1);
      await expect(b.steer("s", "another", { id: "i1" })).rejects.toMatchObject({ reason: "conflict" });
      await expect(b.send("s", "another", { key: "i2" })).rejects.toMatchObject({ reason: "conflict" });
    }
  });
});

describe.each(hosts)("at the end of a turn ($name)", ({ open, seeds }) => {
  const all = Array.from({ length: seeds * 2 }, (_, seed) => seed);

  test("what is said is taken in once, by this turn or the next (Q11)", async () => {
    for (const seed of all) {
      const { engine: of } = talker(alwaysOk());
      const [a, b] = pair(open, seed, { default: of });
      const turn = await a.start("hi", { id: "s" });
      const random = seeded(seed + 1000);
      const steered = Array.from({ length: 4 }, async (_, index) => {
        for (let left = Math.floor(random() * 40); left > 0; left -= 1) {
          await moment();
        }
        return (index % 2 === 0 ? a : b).steer("s", `said ${index}`, { id: `i${index}` });
      });
      await Promise.all([turn.result, ...steered]);
      await settle(a, "s");
      const said = await texts(b, "s");
      expect(said.filter((text) => text.startsWith("said")).toSorted()).toEqual([
        "said 0",
        "said 1",
        "said 2",
        "said 3",
      ]);
      for (const index of [0, 1, 2, 3]) expect(await a.withdraw("s", `i${index}`)).toBe("already_taken");
      reading(await readAll(b.events("s", { follow: false })));
    }
  });

  test("what is taken back is not taken in, and the other way round", async () => {
    for (const seed of all) {
      const { engine: of } = talker(alwaysOk());
      const [a, b] = pair(open, seed, { default: of });
      const turn = await a.start("hi", { id: "s" });
      await b.steer("s", "never mind", { id: "i" });
      const random = seeded(seed + 2000);
      for (let left = Math.floor(random() * 40); left > 0; left -= 1) {
        await moment();
      }
      const withdrawn = await b.withdraw("s", "i");
      await turn.result;
      await settle(a, "s");
      const heard = (await texts(b, "s")).filter((text) => text === "never mind");
      expect([withdrawn, heard.length]).toEqual(
        withdrawn === "cancelled" ? ["cancelled", 0] : [expect.stringMatching(/^already_(claimed|taken)$/), 1],
      );
    }
  });

  test("a cancel wins or it does not, and says so (Q9)", async () => {
    const won = new Set<string>();
    for (const seed of all) {
      const { engine: of } = talker(alwaysOk());
      const [a, b] = pair(open, seed, { default: of });
      const turn = await a.start("hi", { id: "s" });
      const random = seeded(seed + 3000);
      for (let left = Math.floor(random() * 6); left > 0; left -= 1) {
        await moment();
      }
      const said = await Promise.all([
        a.cancel("s", { turnId: turn.turnId ?? "" }),
        b.cancel("s", { turnId: turn.turnId ?? "" }),
      ]);
      const { outcome } = await turn.result;
      const winner = outcome.type === "cancelled" ? "cancelled" : "completion_won";
      expect(said).toEqual([winner, winner]);
      won.add(winner);
      const { replies } = reading(await readAll(b.events("s", { follow: false })));
      expect(replies).toHaveLength(winner === "cancelled" ? replies.length : 1);
      expect(await a.cancel("s")).toBe("nothing_open");
      // The session can be used, whoever won.
      await (
        await b.reply("s", "go on")
      ).result;
      expect((await texts(a, "s")).at(-1)).toBe("ok");
    }
    expect([...won].sort()).toEqual(["cancelled", "completion_won"]);
  });

  test("a cancel of a turn that has just ended is none of the next one", async () => {
    for (const seed of all) {
      const { engine: of } = talker(alwaysOk());
      const [a] = pair(open, seed, { default: of });
      // A budget that is spent leaves what was said to the next turn.
      const turn = await a.start("hi", { id: "s", budgets: { steps: 1 } });
      await a.steer("s", "more");
      const random = seeded(seed + 4000);
      for (let left = Math.floor(random() * 40); left > 0; left -= 1) {
        await moment();
      }
      const said = await a.cancel("s", { turnId: turn.turnId ?? "" });
      await settle(a, "s");
      const ends = (await readAll(a.events("s", { follow: false }))).flatMap(({ event, turnId }) =>
        event.type === "chat_completed" ? [{ turnId, outcome: event.result.outcome.type }] : [],
      );
      for (const { turnId, outcome } of ends) {
        expect(outcome === "cancelled").toBe(turnId === turn.turnId && said === "cancelled");
      }
      expect(await texts(a, "s")).toContain("more");
    }
  });
});

describe.each(hosts)("two workers ($name)", ({ open }) => {
  test("drive many turns that were only accepted, each once", async () => {
    const [one, other] = open();
    const asked: string[] = [];
    const counting = () => {
      const adapter = fake({ scripts: Array.from({ length: 60 }, () => says("Done.")) });
      return engine({
        adapter: {
          ...adapter,
          stream: (request, call) => {
            asked.push(
              messageText(
                request.messages.at(-1) ?? {
                  role: "user",
                  content: "",
                  id: null,
                  name: null,
                  origin: null,
                  metadata: {},
                },
              ),
            );
            return adapter.stream(request, call);
          },
        },
        model: "fake:m",
      });
    };
    const acceptor = runtime({ host: one, engines: { default: counting() }, drive: false });
    const stop = new AbortController();
    const workers = [one, other].map((host) =>
      runtime({ host, engines: { default: counting() } }).work({ concurrency: 4, signal: stop.signal }),
    );
    const names = Array.from({ length: 50 }, (_, index) => `s${index}`);
    const turns = await Promise.all(names.map((id) => acceptor.start(`for ${id}`, { id })));
    const ends = await Promise.all(turns.map(({ result }) => result));
    stop.abort();
    await Promise.all(workers);
    expect(ends.every(({ status, text }) => status === "ended" && text === "Done.")).toBe(true);
    expect(asked.toSorted()).toEqual(names.map((id) => `for ${id}`).toSorted());
    for (const id of names) expect(await texts(acceptor, id)).toEqual([`for ${id}`, "Done."]);
  });
});

/** A worker that a test speaks for and can pause, and another one. */
function paused({ base = handClock(), ...rest }: Partial<RuntimeOptions> & { readonly base?: HandClock } = {}) {
  const clock = base;
  const storage = memoryStorage({ clock });
  const model = handModel();
  const ran: string[] = [];
  const look = tool({
    name: "look",
    description: "Looks.",
    schema: { type: "object" },
    handler: (_, { idempotencyKey }) => {
      ran.push(idempotencyKey);
      return "seen";
    },
  });
  const engines = { default: engine({ adapter: model, model: "hand:m", tools: [look] }) };
  const gate = gated(storage);
  const first = runtime({ host: gate, engines, clock, lease: short, owner: "first", ...rest });
  const second = runtime({ host: storage, engines, clock, lease: short, owner: "second" });
  return { storage, clock, model, ran, engines, gate, first, second };
}

describe("a worker that was paused (H3)", () => {
  test("cannot write what it had to say after somebody else took over", async () => {
    const { storage, clock, model, gate, first, second } = paused();
    const turn = await first.start("Go.", { id: "s" });
    const call = await model.call(1);
    await call.say("From the first");
    gate.hold();
    call.finish();
    await clock.advance(50);
    expect(gate.held).toBeGreaterThan(0);
    expect(await second.recover()).toMatchObject({ pickedUp: 0 });
    await clock.advance(300);
    expect(await second.recover()).toMatchObject({ pickedUp: 1 });
    const again = await model.call(2);
    await again.say("From the second");
    again.finish();
    expect(await second.attach("s", turn.turnId).result).toMatchObject({ text: "From the second" });
    const before = await everything(storage);
    gate.release();
    await clock.advance(0);
    expect(await everything(storage)).toEqual(before);
    expect(await turn.result).toMatchObject({ status: "ended", text: "From the second" });
    expect(await texts(first, "s")).toEqual(["Go.", "From the second"]);
    await clock.advance(1000);
    expect(await everything(storage)).toEqual(before);
  });

  test("cannot write while the other one is still at it, either", async () => {
    const { storage, clock, model, gate, first, second } = paused();
    const turn = await first.start("Go.", { id: "s" });
    const call = await model.call(1);
    await call.say("First");
    gate.hold();
    call.callTool("look");
    await clock.advance(400);
    expect(await second.recover()).toMatchObject({ pickedUp: 1 });
    const again = await model.call(2);
    const before = await everything(storage);
    gate.release();
    await clock.advance(0);
    expect(await everything(storage)).toEqual(before);
    await again.say("Second");
    again.finish();
    expect(await turn.result).toMatchObject({ text: "Second" });
    const { rows } = { rows: (await storage.read([{ table: "journal", prefix: ["", "s"] }]))[0] ?? [] };
    expect(rows.filter(({ value }) => value.includes("model_replied"))).toHaveLength(1);
  });

  test("Q18 claims the next epoch and writes what it received, when its lease expired and no other process took over", async () => {
    const { storage, clock, model, gate, first, second } = paused();
    const turn = await first.start("Go.", { id: "s" });
    const call = await model.call(1);
    await call.say("Late");
    gate.hold();
    await clock.advance(1000);
    gate.release();
    await clock.advance(0);
    call.finish();
    expect(await turn.result).toMatchObject({ text: "Late" });
    expect(model.calls).toBe(1);
    const [[lease] = []] = await storage.read([{ table: "leases", prefix: ["", "s"] }]);
    expect(lease?.tag).toBe(2);
    expect(await second.recover()).toMatchObject({ pickedUp: 0 });
  });

  test("begins no tool after it has lost the session", async () => {
    const { clock, model, gate, first, second, ran } = paused();
    const turn = await first.start("Go.", { id: "s" });
    const call = await model.call(1);
    gate.hold();
    call.callTool("look");
    await clock.advance(400);
    expect(await second.recover()).toMatchObject({ pickedUp: 1 });
    gate.release();
    await clock.advance(0);
    expect(ran).toEqual([]);
    const again = await model.call(2);
    again.callTool("look");
    const last = await model.call(3);
    await last.say("Seen.");
    last.finish();
    expect(await turn.result).toMatchObject({ text: "Seen." });
    expect(ran).toHaveLength(1);
  });
});

describe("a lease", () => {
  test("is kept by a turn that takes its time", async () => {
    const { clock, model, first, second } = paused();
    const turn = await first.start("Go.", { id: "s" });
    const call = await model.call(1);
    for (let hour = 0; hour < 30; hour += 1) {
      await clock.advance(90);
      expect(await second.recover()).toMatchObject({ pickedUp: 0 });
    }
    await call.say("At last");
    call.finish();
    expect(await turn.result).toMatchObject({ text: "At last" });
    expect(model.calls).toBe(1);
  });

  test("survives two renewals that could not be written", async () => {
    const { clock, model, gate, first, second } = paused();
    const turn = await first.start("Go.", { id: "s" });
    const call = await model.call(1);
    gate.hold();
    await clock.advance(250);
    expect(await second.recover()).toMatchObject({ pickedUp: 0 });
    gate.release();
    await clock.advance(40);
    await call.say("Still here");
    call.finish();
    expect(await turn.result).toMatchObject({ text: "Still here" });
    expect(model.calls).toBe(1);
  });

  /** The clock of a machine that is off by so much. */
  const off = (clock: Clock) => {
    const skewed = { offset: 0, clock: { ...clock, now: () => clock.now() + skewed.offset } };
    return skewed;
  };

  test.each([
    ["forward", 3_600_000],
    ["backward", -3_600_000],
  ])("under a clock that jumps %s by an hour is lost or kept, and nothing is doubled", async (_, jump) => {
    const base = handClock();
    await base.advance(7_200_000);
    const skewed = off(base);
    const { storage, model, first, engines } = paused({ base, clock: skewed.clock });
    const second = runtime({ host: storage, engines, clock: base, lease: short, owner: "second" });
    const turn = await first.start("Go.", { id: "s" });
    const call = await model.call(1);
    await call.say("First");
    skewed.offset = jump;
    await base.advance(150);
    await second.recover();
    call.finish();
    await base.advance(400);
    await second.recover();
    await base.advance(0);
    if (model.calls > 1) {
      const again = await model.call(2);
      await again.say("Second");
      again.finish();
    }
    const { text } = await second.attach("s", turn.turnId).result;
    expect(["First", "Second"]).toContain(text);
    expect(await texts(second, "s")).toEqual(["Go.", text]);
    const rows = (await storage.read([{ table: "journal", prefix: ["", "s"] }]))[0] ?? [];
    expect(rows.filter(({ value }) => value.includes("model_replied"))).toHaveLength(1);
    reading(await readAll(second.events("s", { follow: false })));
  });

  test("is not taken over by a worker whose clock is ahead: the storage's clock decides", async () => {
    const base = handClock();
    const { storage, model, engines } = paused({ base });
    const slow = runtime({ host: storage, engines, clock: base, lease: short });
    const skewed = off(base);
    skewed.offset = 10_000;
    const hasty = runtime({ host: storage, engines, clock: skewed.clock, lease: short });
    const turn = await slow.start("Go.", { id: "s" });
    const call = await model.call(1);
    await call.say("Slow");
    expect(await hasty.recover()).toMatchObject({ pickedUp: 0 });
    call.finish();
    expect(await turn.result).toMatchObject({ text: "Slow" });
    expect(model.calls).toBe(1);
  });
});

describe("close", () => {
  test("without grace leaves a reply in the middle; the next worker asks again, and nothing fails", async () => {
    const { clock, model, first, second } = paused();
    const turn = await first.start("Go.", { id: "s" });
    const result = turn.result;
    const call = await model.call(1);
    await call.say("Half of");
    const refused = expect(result).rejects.toMatchObject({ reason: "lease_lost" });
    const closed = first.close({ graceMs: 0 });
    await clock.advance(0);
    await closed;
    await refused;
    expect(call.signal.aborted).toBe(true);
    expect(await second.recover()).toMatchObject({ pickedUp: 1 });
    const again = await model.call(2);
    await again.say("All of it");
    again.finish();
    expect(await second.attach("s", turn.turnId).result).toMatchObject({ text: "All of it", failure: null });
  });

  test("with grace lets a reply end, begins nothing that follows from it, and nothing is asked for again", async () => {
    const { clock, model, first, second, ran } = paused();
    const turn = await first.start("Go.", { id: "s" });
    const call = await model.call(1);
    await call.say("I look.");
    const closed = first.close({ graceMs: 5000 });
    await clock.advance(100);
    call.callTool("look");
    await closed;
    expect(ran).toEqual([]);
    expect(await second.recover()).toMatchObject({ pickedUp: 1 });
    const next = await model.call(2);
    expect(next.request.messages.at(-1)).toMatchObject({ role: "tool", content: expect.stringContaining("seen") });
    await next.say("Seen.");
    next.finish();
    expect(await second.attach("s", turn.turnId).result).toMatchObject({ text: "Seen.", failure: null });
    expect(ran).toHaveLength(1);
    expect(model.calls).toBe(2);
  });

  test("in the middle of a tool that must not run twice: it is let run to its end within the grace", async () => {
    const clock = handClock();
    const storage = memoryStorage({ clock });
    let ran = 0;
    let finish: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => (finish = resolve));
    const dig = tool({
      name: "dig",
      description: "Digs.",
      schema: { type: "object" },
      handler: async () => {
        ran += 1;
        await gate;
        return "deep";
      },
    });
    const adapter = fake({ scripts: [calls("dig"), says("Dug.")] });
    const engines = { default: engine({ adapter, model: "fake:m", tools: [dig] }) };
    const [first, second] = ["first", "second"].map((owner) => runtime({ host: storage, engines, clock, owner }));
    const turn = await first?.start("Dig.", { id: "s" });
    await clock.advance(0);
    expect(ran).toBe(1);
    const closed = first?.close({ graceMs: 5000 });
    finish();
    await closed;
    // What follows from the tool is for the next worker to ask.
    expect(adapter.calls).toHaveLength(1);
    expect(await second?.recover()).toMatchObject({ pickedUp: 1 });
    expect(await second?.attach("s", turn?.turnId).result).toMatchObject({ text: "Dug." });
    expect(ran).toBe(1);
    expect((await texts(second ?? raise(), "s"))[2]).toContain("deep");
  });

  test("begins no call of a model behind the commit at which it lets go", async () => {
    const { gate, open } = opened();
    const adapter = fake({ scripts: [calls("look"), says("Done.")] });
    const asked: Promise<null>[] = [];
    const prepareStep = () => {
      asked.push(gate.then(() => null));
      return asked[0] ?? null;
    };
    const tools = [plain("look", () => "seen")];
    const engines = { default: engine({ adapter, model: "fake:m", tools, options: { prepareStep } }) };
    const host = memoryStorage();
    const first = runtime({ host, engines });
    const turn = await first.start("Go.", { id: "s" });
    while (asked.length === 0) await moment();
    const closed = first.close({ graceMs: 5000 });
    open();
    await closed;
    expect(adapter.calls).toHaveLength(1);
    const second = runtime({ host, engines });
    expect(await second.recover()).toMatchObject({ pickedUp: 1 });
    expect(await second.attach("s", turn.turnId).result).toMatchObject({ text: "Done." });
    expect(asked).toHaveLength(1);
  });

  test("right after something was accepted hands that over too", async () => {
    const { clock, model, first, second } = paused();
    const turns = await Promise.all(["a", "b", "c"].map((id) => first.start("Go.", { id })));
    const closed = first.close({ graceMs: 0 });
    await clock.advance(0);
    await closed;
    const later = await first.start("Go.", { id: "d" });
    const made = model.calls;
    expect(await second.recover()).toMatchObject({ pickedUp: 4 });
    for (let n = made + 1; n <= made + 4; n += 1) (await model.call(n)).finish();
    for (const { sessionId, turnId } of [...turns, later]) {
      expect(await second.attach(sessionId, turnId).result).toMatchObject({ status: "ended" });
    }
  });

  test("hands over a turn that was begun before the one before it was quite gone", async () => {
    const { storage, clock, model, engines, second } = paused();
    const { gate, open } = opened();
    let looking = 0;
    // Whoever drives a turn looks now and then whether it is to stop, and is not gone before it has looked.
    const slow: HostStorage = {
      ...storage,
      read: async (queries) => {
        if (queries.length === 1 && queries[0]?.table === "cancels" && model.calls === 1) {
          looking += 1;
          await gate;
        }
        return storage.read(queries);
      },
    };
    const first = runtime({ host: slow, engines, clock });
    const turn = await first.start("Go.", { id: "s" });
    const one = await model.call(1);
    await first.steer("s", "Something is written.");
    const cancel = { table: "cancels", key: ["", "s", "another turn"], tag: 0, value: "" } as const;
    await storage.write({ checks: [], removals: [], puts: [cancel] });
    await clock.advance(150);
    expect(looking).toBeGreaterThan(0);
    one.callTool("look");
    await readUntil(second.attach("s", turn.turnId).events, ({ event }) => event.type === "step_completed");
    (await model.call(2)).finish();
    await readUntil(second.attach("s", turn.turnId).events, ({ event }) => event.type === "chat_completed");
    const next = await first.reply("s", "More.");
    const call = await model.call(3);
    open();
    await clock.advance(0);
    const closed = first.close({ graceMs: 0 });
    await clock.advance(0);
    await closed;
    expect(call.signal.aborted).toBe(true);
    expect(await second.recover()).toMatchObject({ pickedUp: 1 });
    (await model.call(4)).finish();
    expect(await second.attach("s", next.turnId).result).toMatchObject({ status: "ended" });
  });
});

function raise(): never {
  throw new Error("it has to be there");
}

describe("delete while a turn runs", () => {
  test("ends it, and nothing brings the session back", async () => {
    const { storage, clock, model, first, second } = paused();
    const turn = await first.start("Go.", { id: "s" });
    const call = await model.call(1);
    await call.say("I was");
    const gone = expect(turn.result).rejects.toMatchObject({ reason: "not_found" });
    await second.delete("s");
    call.finish();
    await clock.advance(500);
    await gone;
    expect(await first.get("s")).toBeNull();
    expect(await second.list()).toMatchObject({ items: [] });
    expect(await second.recover()).toMatchObject({ pickedUp: 0 });
    for (const table of ["entries", "turns", "starts", "journal", "open", "events", "pieces"] as const) {
      expect((await storage.read([{ table, prefix: ["", "s"] }]))[0]).toEqual([]);
    }
  });

  test("leaves room for another one of that name, which has nothing of it", async () => {
    const { clock, model, first, second } = paused();
    const turn = await first.start("Old.", { id: "s" });
    const call = await model.call(1);
    await call.say("Old");
    const gone = expect(turn.result).rejects.toMatchObject({ reason: "not_found" });
    await second.delete("s");
    const fresh = await second.start("New.", { id: "s" });
    const again = await model.call(2);
    call.finish();
    await clock.advance(0);
    await again.say("Fresh");
    again.finish();
    expect(await fresh.result).toMatchObject({ text: "Fresh" });
    await clock.advance(500);
    await gone;
    expect(await texts(first, "s")).toEqual(["New.", "Fresh"]);
    expect(reading(await readAll(first.events("s", { follow: false }))).replies).toEqual(["Fresh"]);
  });
});

test("a cancel that hears late that it was stored ends the turn it was for, and not the one that followed", async () => {
  const { storage, model, engines } = paused();
  const { gate, open } = opened();
  const slow: HostStorage = {
    ...storage,
    write: async (batch) => {
      const written = await storage.write(batch);
      if (batch.puts.some(({ table }) => table === "cancels")) await gate;
      return written;
    },
  };
  const sessions = runtime({ host: slow, engines });
  const turn = await sessions.start("Go.", { id: "s" });
  await (await model.call(1)).say("One");
  await sessions.steer("s", "And then?");
  const cancelled = sessions.cancel("s");
  const next = await model.call(2);
  expect(await turn.result).toMatchObject({ outcome: { type: "cancelled" } });
  open();
  expect(await cancelled).toBe("cancelled");
  await next.say("Two");
  expect(next.signal.aborted).toBe(false);
  next.finish();
  await settle(sessions, "s");
  expect((await texts(sessions, "s")).at(-1)).toBe("Two");
});

test("one who only accepts sees all of a session, and hears from whoever drives who won a cancel", async () => {
  const host = memoryStorage();
  const { engine: of } = talker(alwaysOk());
  const acceptor = runtime({ host, engines: { default: of }, drive: false });
  const worker = runtime({ host, engines: { default: of } });
  await acceptor.start("one", { id: "s" });
  for (const text of ["two", "three"]) {
    await settle(worker, "s");
    await acceptor.reply("s", text);
    expect((await texts(acceptor, "s")).at(-1)).toBe(text);
  }
  const cancelled = acceptor.cancel("s");
  while ((await host.read([{ table: "cancels", prefix: [] }]))[0]?.length === 0) await moment();
  await worker.recover();
  expect(await cancelled).toBe("cancelled");
  expect(await texts(acceptor, "s")).toEqual(["one", "ok", "two", "ok", "three"]);
});

test.each(["before", "after"] as const)(
  "a turn that is accepted while somebody looks for the one before, %s they let go, is driven all the same",
  async (when) => {
    const { storage, engines, model } = paused();
    const [finding, letting, accepting] = [opened(), opened(), opened()];
    const first = runtime({
      host: {
        ...storage,
        write: async (batch) => {
          if (when === "after" && model.calls > 0 && batch.puts.some(({ table }) => table === "starts")) {
            await accepting.gate;
          }
          return storage.write(batch);
        },
      },
      engines,
    });
    const turn = await first.start("Go.", { id: "s" });
    const call = await model.call(1);
    // The second one finds the turn open, and is then slow.
    const slow: HostStorage = {
      ...storage,
      read: async (queries) => {
        if (queries.length === 1 && queries[0]?.table === "leases") await finding.gate;
        return storage.read(queries);
      },
      write: async (batch) => {
        if (batch.puts.some(({ table, ttlMs }) => table === "leases" && ttlMs === 0)) await letting.gate;
        return storage.write(batch);
      },
    };
    const picking = runtime({ host: slow, engines }).recover("s");
    call.finish();
    await turn.result;
    finding.open();
    await picking;
    const replying = first.reply("s", "More.");
    for (let left = 5; left > 0; left -= 1) await moment();
    letting.open();
    for (let left = 5; left > 0; left -= 1) await moment();
    accepting.open();
    const next = await replying;
    (await model.call(2)).finish();
    expect(await next.result).toMatchObject({ status: "ended" });
  },
);

test("a turn that cannot be driven is tried again now and then, and keeps nobody from driving the others", async () => {
  const { storage, clock, engines, model } = paused();
  const acceptor = runtime({ host: storage, engines, clock, drive: false });
  await acceptor.start("Go.", { id: "broken" });
  const [[content] = []] = await storage.read([{ table: "contents", prefix: [] }]);
  await acceptor.start("Go.", { id: "unreadable", instructions: "Be nice." });
  const unreadable = { table: "open", key: ["", "unreadable"], tag: 0, value: "?" } as const;
  await storage.write({ checks: [], removals: [], puts: [unreadable] });
  let tries = 0;
  const failing: HostStorage = {
    ...storage,
    read: (queries) => {
      const isGone = queries.some(({ table, prefix }) => table === "contents" && prefix[1] === content?.key[1]);
      if (!isGone) return storage.read(queries);
      tries += 1;
      return Promise.reject(new Error("this part of the disk is gone"));
    },
  };
  const stop = new AbortController();
  const working = runtime({ host: failing, engines, clock, lease: short }).work({ signal: stop.signal });
  await clock.advance(1500);
  expect(tries).toBeGreaterThan(1);
  expect(tries).toBeLessThan(20);
  const turn = await acceptor.start("Go.", { id: "zealous", instructions: "Be quick." });
  await clock.advance(100);
  (await model.call(1)).finish();
  expect(await turn.result).toMatchObject({ status: "ended" });
  stop.abort();
  await clock.advance(100);
  await working;
});

/** Others get to do something. */
function moment(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function opened() {
  let open: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => (open = resolve));
  return { gate, open: () => open() };
}

test("a turn that has ended is over for whoever waits for it, also while the next one runs", async () => {
  const { model, first } = paused();
  const turn = await first.start("Go.", { id: "s", budgets: { steps: 1 } });
  const call = await model.call(1);
  const { turnId } = await first.steer("s", "And then?");
  expect(turnId).toBe(turn.turnId);
  await call.say("One");
  call.finish();
  const next = await model.call(2);
  expect(await turn.result).toMatchObject({ status: "ended", text: "One" });
  expect((await first.get("s"))?.openTurn?.turnId).not.toBe(turn.turnId);
  next.finish();
});

test("a storage that fails while something is written down leaves the turn as it is", async () => {
  const storage = memoryStorage();
  const { engine: of, adapter, ran } = talker([calls("erase"), says("Done.")]);
  let broken = true;
  const failing: HostStorage = {
    ...storage,
    write: (batch) =>
      broken && batch.puts.some(({ table }) => table === "records")
        ? Promise.reject(new Error("the disk is on fire"))
        : storage.write(batch),
  };
  const sessions = runtime({ host: failing, engines: { default: of } });
  // That a call waits for consent is written down.
  const turn = await sessions.start("erase it", { id: "s" });
  await expect(turn.result).rejects.toThrow("on fire");
  expect((await sessions.get("s"))?.openTurn).toMatchObject({ turnId: turn.turnId });
  broken = false;
  expect(await sessions.recover()).toMatchObject({ pickedUp: 1 });
  expect(await sessions.attach("s", turn.turnId).result).toMatchObject({ session: { status: "awaiting_tools" } });
  expect(adapter.calls).toHaveLength(1);
  await (
    await sessions.decide("s", "c0", { type: "approve" })
  ).result;
  expect(ran).toHaveLength(1);
});

test("tools of a turn that two workers race for run once each", async () => {
  for (const seed of Array.from({ length: 20 }, (_, index) => index)) {
    const storage = memoryStorage();
    const random = seeded(seed);
    const ran: string[] = [];
    const tools = ["a", "b", "c"].map((name) => plain(name, () => ran.push(name)));
    const adapter = fake({ scripts: [calls("a", "b", "c"), says("Done.")] });
    const engines = { default: engine({ adapter, model: "fake:m", tools }) };
    const [one, other] = [0, 1].map(() => runtime({ host: jittered(storage, random), engines }));
    const acceptor = runtime({ host: storage, engines, drive: false });
    const turn = await acceptor.start("Go.", { id: "s" });
    const picked = await Promise.all([one?.recover(), other?.recover()]);
    expect(picked.reduce((sum, found) => sum + (found?.pickedUp ?? 0), 0)).toBe(1);
    expect(await turn.result).toMatchObject({ text: "Done." });
    expect(ran.toSorted()).toEqual(["a", "b", "c"]);
  }
});
