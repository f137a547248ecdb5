// Several processes over one storage: of two conflicting verbs one wins, and whatever is accepted happens once.

import type { HostStorage } from "everturn/runtime";

import { engine, fake, messageText } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { describe, expect, test } from "vitest";

import { readAll, reading } from "../../test/readings.ts";
import { calls, plain, says } from "../../test/runs.ts";
import { latch } from "../../test/runtime/sessions.ts";
import {
  alwaysOk,
  nextTask,
  oneWins,
  pair,
  pausedProcess,
  settle,
  sharedHosts,
  talker,
  texts,
} from "../../test/runtime/two-processes.ts";
import { jittered, seeded } from "../../test/shared-storage.ts";

describe.each(sharedHosts)("two processes call the same verb at once, and one wins ($name)", ({ open, seeds }) => {
  const all = Array.from({ length: seeds }, (_, seed) => seed);
  const accepting = { drive: false } as const;

  test("start with the same id", async () => {
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

  test("two processes that drive turns perform each model call once", async () => {
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

describe.each(sharedHosts)("calls that race with the end of a turn ($name)", ({ open, seeds }) => {
  const all = Array.from({ length: seeds * 2 }, (_, seed) => seed);

  test("steered input is accepted once, by this turn or the next (Q11)", async () => {
    for (const seed of all) {
      const { engine: of } = talker(alwaysOk());
      const [a, b] = pair(open, seed, { default: of });
      const turn = await a.start("hi", { id: "s" });
      const random = seeded(seed + 1000);
      const steered = Array.from({ length: 4 }, async (_, index) => {
        for (let left = Math.floor(random() * 40); left > 0; left -= 1) {
          await nextTask();
        }
        return (index % 2 === 0 ? a : b).steer("s", `input ${index}`, { id: `i${index}` });
      });
      await Promise.all([turn.result, ...steered]);
      await settle(a, "s");
      const messages = await texts(b, "s");
      expect(messages.filter((text) => text.startsWith("input")).toSorted()).toEqual([
        "input 0",
        "input 1",
        "input 2",
        "input 3",
      ]);
      for (const index of [0, 1, 2, 3]) expect(await a.withdraw("s", `i${index}`)).toBe("already_taken");
      reading(await readAll(b.events("s", { follow: false })));
    }
  });

  test("input is either withdrawn or accepted, never both", async () => {
    for (const seed of all) {
      const { engine: of } = talker(alwaysOk());
      const [a, b] = pair(open, seed, { default: of });
      const turn = await a.start("hi", { id: "s" });
      await b.steer("s", "never mind", { id: "i" });
      const random = seeded(seed + 2000);
      for (let left = Math.floor(random() * 40); left > 0; left -= 1) {
        await nextTask();
      }
      const withdrawn = await b.withdraw("s", "i");
      await turn.result;
      await settle(a, "s");
      const accepted = (await texts(b, "s")).filter((text) => text === "never mind");
      expect([withdrawn, accepted.length]).toEqual(
        withdrawn === "cancelled" ? ["cancelled", 0] : [expect.stringMatching(/^already_(claimed|taken)$/), 1],
      );
    }
  });

  test("cancel returns whether the cancel or the completion won (Q9)", async () => {
    const won = new Set<string>();
    for (const seed of all) {
      const { engine: of } = talker(alwaysOk());
      const [a, b] = pair(open, seed, { default: of });
      const turn = await a.start("hi", { id: "s" });
      const random = seeded(seed + 3000);
      for (let left = Math.floor(random() * 6); left > 0; left -= 1) {
        await nextTask();
      }
      const outcomes = await Promise.all([
        a.cancel("s", { turnId: turn.turnId ?? "" }),
        b.cancel("s", { turnId: turn.turnId ?? "" }),
      ]);
      const { outcome } = await turn.result;
      const winner = outcome.type === "cancelled" ? "cancelled" : "completion_won";
      expect(outcomes).toEqual([winner, winner]);
      won.add(winner);
      const { replies } = reading(await readAll(b.events("s", { follow: false })));
      expect(replies).toHaveLength(winner === "cancelled" ? replies.length : 1);
      expect(await a.cancel("s")).toBe("nothing_open");
      // The session is usable in both cases.
      await (
        await b.reply("s", "go on")
      ).result;
      expect((await texts(a, "s")).at(-1)).toBe("ok");
    }
    expect([...won].sort()).toEqual(["cancelled", "completion_won"]);
  });

  test("a cancel of a turn that has just ended does not cancel the next turn", async () => {
    for (const seed of all) {
      const { engine: of } = talker(alwaysOk());
      const [a] = pair(open, seed, { default: of });
      // A turn that ends by its budget leaves input to the next turn.
      const turn = await a.start("hi", { id: "s", budgets: { steps: 1 } });
      await a.steer("s", "more");
      const random = seeded(seed + 4000);
      for (let left = Math.floor(random() * 40); left > 0; left -= 1) {
        await nextTask();
      }
      const cancelOutcome = await a.cancel("s", { turnId: turn.turnId ?? "" });
      await settle(a, "s");
      const ends = (await readAll(a.events("s", { follow: false }))).flatMap(({ event, turnId }) =>
        event.type === "chat_completed" ? [{ turnId, outcome: event.result.outcome.type }] : [],
      );
      for (const { turnId, outcome } of ends) {
        expect(outcome === "cancelled").toBe(turnId === turn.turnId && cancelOutcome === "cancelled");
      }
      expect(await texts(a, "s")).toContain("more");
    }
  });
});

describe.each(sharedHosts)("two workers ($name)", ({ open }) => {
  test("drive 50 accepted turns, each once", async () => {
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

test.each(["before", "after"] as const)(
  "a turn that is accepted while another process examines the turn before it, %s that process releases the lease, is driven",
  async (when) => {
    const { storage, engines, model } = pausedProcess();
    const [finding, letting, accepting] = [latch(), latch(), latch()];
    const first = runtime({
      host: {
        ...storage,
        write: async (batch) => {
          if (when === "after" && model.calls > 0 && batch.puts.some(({ table }) => table === "starts")) {
            await accepting.passed;
          }
          return storage.write(batch);
        },
      },
      engines,
    });
    const turn = await first.start("Go.", { id: "s" });
    const call = await model.call(1);
    // The second process reads that the turn is open, and is then delayed.
    const slow: HostStorage = {
      ...storage,
      read: async (queries) => {
        if (queries.length === 1 && queries[0]?.table === "leases") await finding.passed;
        return storage.read(queries);
      },
      write: async (batch) => {
        if (batch.puts.some(({ table, ttlMs }) => table === "leases" && ttlMs === 0)) await letting.passed;
        return storage.write(batch);
      },
    };
    const picking = runtime({ host: slow, engines }).recover("s");
    call.finish();
    await turn.result;
    finding.open();
    await picking;
    const replying = first.reply("s", "More.");
    for (let left = 5; left > 0; left -= 1) await nextTask();
    letting.open();
    for (let left = 5; left > 0; left -= 1) await nextTask();
    accepting.open();
    const next = await replying;
    (await model.call(2)).finish();
    expect(await next.result).toMatchObject({ status: "ended" });
  },
);

test("the tools of a turn that two processes try to recover run once each", async () => {
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
