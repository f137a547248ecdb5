// `close`: a process hands its turns over to others.

import type { HostStorage } from "everturn/runtime";

import { engine, fake, tool } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { handClock } from "everturn/testing";
import { describe, expect, test } from "vitest";

import { readUntil } from "../../test/readings.ts";
import { calls, plain, says } from "../../test/runs.ts";
import { latch } from "../../test/runtime/sessions.ts";
import { nextTask, pausedProcess, texts } from "../../test/runtime/two-processes.ts";

function raise(): never {
  throw new Error("it has to be there");
}

describe("close", () => {
  test("without grace time aborts an open model call; the next process repeats the call, and the turn does not fail", async () => {
    const { clock, model, first, second } = pausedProcess();
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

  test("with grace time lets a reply complete and starts none of its tools; the next process runs them", async () => {
    const { clock, model, first, second, ran } = pausedProcess();
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

  test("lets a running tool finish within the grace time, so that it runs once", async () => {
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
    // The next process makes the model call that follows from the tool.
    expect(adapter.calls).toHaveLength(1);
    expect(await second?.recover()).toMatchObject({ pickedUp: 1 });
    expect(await second?.attach("s", turn?.turnId).result).toMatchObject({ text: "Dug." });
    expect(ran).toBe(1);
    expect((await texts(second ?? raise(), "s"))[2]).toContain("deep");
  });

  describe("while several tools run", () => {
    /**
     * A turn with calls of two tools, `concurrency` at once. The tools never run again, and each waits for its gate.
     */
    async function digging(concurrency: number) {
      const clock = handClock();
      const storage = memoryStorage({ clock });
      const ran: string[] = [];
      const finish = new Map<string, () => void>();
      const digs = (name: string) =>
        tool({
          name,
          description: "Digs.",
          schema: { type: "object" },
          replay: "never",
          handler: async () => {
            ran.push(name);
            await new Promise<void>((resolve) => finish.set(name, resolve));
            return `${name} is deep`;
          },
        });
      const adapter = fake({ scripts: [calls("left", "right"), says("Dug.")] });
      const agent = engine({ adapter, model: "fake:m", tools: [digs("left"), digs("right")] });
      const engines = { default: agent };
      const options = { id: "s", maxConcurrency: concurrency };
      const first = runtime({ host: storage, engines, clock, owner: "first" });
      const second = runtime({ host: storage, engines, clock, owner: "second" });
      const turn = await first.start("Dig.", options);
      await clock.advance(0);
      /** The second process takes the turn and lets its tools finish. Returns the results of the tools. */
      const continued = async () => {
        expect(await second.recover()).toMatchObject({ pickedUp: 1 });
        await clock.advance(0);
        for (const open of finish.values()) open();
        expect(await second.attach("s", turn.turnId).result).toMatchObject({ text: "Dug." });
        return (await second.messages("s")).items.flatMap((item) => (item.role === "tool" ? [item.content] : []));
      };
      return { clock, first, ran, finish: (name: string) => finish.get(name)?.(), continued };
    }

    test("lets all of them finish within the grace time, not only the first", async () => {
      const { clock, first, ran, finish, continued } = await digging(2);
      let isClosed = false;
      const closed = first.close({ graceMs: 5000 }).then(() => (isClosed = true));
      finish("left");
      await clock.advance(1000);
      expect(isClosed).toBe(false);
      finish("right");
      await clock.advance(0);
      await closed;
      expect(await continued()).toEqual([
        expect.stringContaining("left is deep"),
        expect.stringContaining("right is deep"),
      ]);
      expect(ran).toEqual(["left", "right"]);
    });

    test("starts none that waits for a permit", async () => {
      const { clock, first, ran, finish, continued } = await digging(1);
      const closed = first.close({ graceMs: 5000 });
      finish("left");
      await clock.advance(0);
      await closed;
      expect(ran).toEqual(["left"]);
      expect(await continued()).toEqual([
        expect.stringContaining("left is deep"),
        expect.stringContaining("right is deep"),
      ]);
      expect(ran).toEqual(["left", "right"]);
    });
  });

  test("starts no model call after the commit at which it hands the turn over", async () => {
    const { passed: gate, open } = latch();
    const adapter = fake({ scripts: [calls("look"), says("Done.")] });
    const asked: Promise<null>[] = [];
    let steps = 0;
    // Waits in the second step, which follows the commit of the tool result.
    const prepareStep = () => {
      steps += 1;
      if (steps === 1) return null;
      asked.push(gate.then(() => null));
      return asked[0] ?? null;
    };
    const tools = [plain("look", () => "seen")];
    const engines = { default: engine({ adapter, model: "fake:m", tools, options: { prepareStep } }) };
    const host = memoryStorage();
    const first = runtime({ host, engines });
    const turn = await first.start("Go.", { id: "s" });
    while (asked.length === 0) await nextTask();
    const closed = first.close({ graceMs: 5000 });
    open();
    await closed;
    expect(adapter.calls).toHaveLength(1);
    const second = runtime({ host, engines });
    expect(await second.recover()).toMatchObject({ pickedUp: 1 });
    expect(await second.attach("s", turn.turnId).result).toMatchObject({ text: "Done." });
    expect(asked).toHaveLength(1);
  });

  test("hands over turns that were accepted just before, and turns accepted after it are driven by other processes", async () => {
    const { clock, model, first, second } = pausedProcess();
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

  test("hands over a turn that started before the clean-up of the turn before it was complete", async () => {
    const { storage, clock, model, engines, second } = pausedProcess();
    const { passed: gate, open } = latch();
    let looking = 0;
    // A process that drives a turn polls for cancels, and its clean-up waits for that read.
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
