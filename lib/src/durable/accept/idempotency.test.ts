// Idempotency keys: a key is accepted once, for the same verb with the same arguments.

import type { Runtime } from "everturn/runtime";

import { RuntimeError } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { describe, expect, test } from "vitest";

import { calls, says } from "../../../test/runs.ts";
import { awaitingApproval } from "../../../test/runtime/awaiting-approval.ts";
import { alwaysOk, pair, settle, sharedHosts, talker, texts } from "../../../test/runtime/two-processes.ts";
import { worker, World } from "../../../test/runtime/world.ts";

describe("the arguments under an idempotency key", () => {
  const conflict = { name: "RuntimeError", reason: "conflict" };

  test("start: the order of properties does not matter; another context, metadata or engine is a conflict", async () => {
    const world = new World();
    const mine = world.engine(worker());
    const of = world.process(mine, { also: { other: mine } });
    const options = { key: "k", context: { a: 1, b: 2 }, params: { x: 1, y: 2 } };
    const first = await of.start("hi", options);
    const again = await of.start("hi", { params: { y: 2, x: 1 }, context: { b: 2, a: 1 }, key: "k" });
    expect(again.turnId).toBe(first.turnId);
    for (const other of [{ context: { a: 2 } }, { metadata: { a: 1 } }, { engine: "other" }, { params: {} }]) {
      await expect(of.start("hi", { ...options, ...other })).rejects.toMatchObject(conflict);
    }
    await first.result;
  });

  test("decide and send: other options, another engine or another continue is a conflict", async () => {
    const { world, of } = await awaitingApproval();
    const decision = { type: "approve" } as const;
    const first = await of.decide("s1", "c0", decision, { key: "k", params: { x: 1, y: 2 } });
    const again = await of.decide("s1", "c0", decision, { key: "k", params: { y: 2, x: 1 } });
    expect(again.turnId).toBe(first.turnId);
    await first.result;
    for (const other of [{ params: { x: 2 } }, { engine: "default" }, { continue: false }]) {
      const options = { key: "k", params: { x: 1, y: 2 }, ...other };
      await expect(of.decide("s1", "c0", decision, options)).rejects.toMatchObject(conflict);
    }
    const sent = await of.send("s1", "more", { key: "m" });
    expect((await of.send("s1", "more", { key: "m" })).turnId).toBe(sent.turnId);
    await expect(of.send("s1", "more", { key: "m", temperature: 1 })).rejects.toMatchObject(conflict);
    await sent.result;
    expect(await world.rows("open")).toEqual([]);
  });
});

test("a turn whose accepting batch is written although its answer is lost is driven at once", async () => {
  const storage = memoryStorage();
  let isLost = false;
  const write: typeof storage.write = async (batch) => {
    const written = await storage.write(batch);
    if (isLost || !batch.puts.some(({ table }) => table === "starts")) return written;
    isLost = true;
    throw new RuntimeError("storage_failed", { message: "the connection was lost" });
  };
  const { engine: of } = talker([says("Hello.")]);
  const sessions = runtime({ host: { ...storage, write }, engines: { default: of } });
  const turn = await sessions.start("hi", { id: "s", key: "k" });
  expect((await turn.result).text).toBe("Hello.");
  expect(isLost).toBe(true);
  await sessions.close();
});

describe.each(sharedHosts)("an idempotency key is accepted once ($name)", ({ open, seeds }) => {
  const all = Array.from({ length: seeds }, (_, seed) => seed);

  test("for start, reply and decide, from both processes, at once and later", async () => {
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

  test("for steer and send, while a turn runs and after it has ended", async () => {
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
      const messages = await texts(a, "s");
      expect(messages.filter((text) => text === "steered")).toHaveLength(1);
      expect(messages.filter((text) => text === "sent")).toHaveLength(1);
      await expect(b.steer("s", "another", { id: "i1" })).rejects.toMatchObject({ reason: "conflict" });
      await expect(b.send("s", "another", { key: "i2" })).rejects.toMatchObject({ reason: "conflict" });
    }
  });
});
