// Deleting a session while a turn runs.

import type { HostStorage, Runtime } from "everturn/runtime";

import { engine, fake, tool } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { describe, expect, test } from "vitest";

import { readAll, reading } from "../../../test/readings.ts";
import { calls, says } from "../../../test/runs.ts";
import { latch } from "../../../test/runtime/sessions.ts";
import { pausedProcess, texts } from "../../../test/runtime/two-processes.ts";

describe("delete while a turn runs", () => {
  test("stops the turn, and no late write restores the session", async () => {
    const { storage, clock, model, first, second } = pausedProcess();
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

  test("a new session under the same id has no data of the deleted one", async () => {
    const { clock, model, first, second } = pausedProcess();
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

  test("a new session under the same id does not use event numbers of the deleted one again", async () => {
    const [running, released] = [latch(), latch()];
    const work = tool({
      name: "work",
      description: "Works.",
      schema: { type: "object" },
      handler: async () => {
        running.open();
        await released.passed;
        return "done";
      },
    });
    const adapter = fake({ scripts: [calls("work"), says("New.")] });
    const engines = { default: engine({ adapter, model: "fake:m", tools: [work] }) };
    const sessions = runtime({ host: memoryStorage(), engines });
    const turn = await sessions.start("Old.", { id: "s" });
    const gone = expect(turn.result).rejects.toMatchObject({ reason: "not_found" });
    // The reply is committed and its events are stored; the session row counts them when the step is over.
    await running.passed;
    const before = await readAll(sessions.events("s", { follow: false }));
    await sessions.delete("s");
    await (
      await sessions.start("New.", { id: "s" })
    ).result;
    const after = await readAll(sessions.events("s", { follow: false }));
    const newest = Math.max(...before.map(({ sequence }) => sequence ?? 0));
    expect(after[0]?.sequence).toBe(newest + 1);
    released.open();
    await gone;
  });
});

describe("delete between the reads of another call", () => {
  const agent = () => engine({ adapter: fake({ scripts: [says("Old."), says("New.")] }), model: "fake:m" });

  /** A runtime on a storage where the session is deleted after its row was read and before its messages are read. */
  async function deletedBetweenReads(startsAgain: boolean): Promise<Runtime> {
    const host = memoryStorage();
    const first = runtime({ host, engines: { default: agent() } });
    await (
      await first.start("Hello.", { id: "s" })
    ).result;
    let isDeleted = false;
    const between: HostStorage = {
      ...host,
      read: async (queries) => {
        if (queries[0]?.table === "entries" && !isDeleted) {
          isDeleted = true;
          await first.delete("s");
          const second = runtime({ host, engines: { default: agent() }, drive: false });
          if (startsAgain) await second.start("Again.", { id: "s" });
        }
        return host.read(queries);
      },
    };
    return runtime({ host: between, engines: { default: agent() } });
  }

  test("get returns what is there after the deletion", async () => {
    expect(await (await deletedBetweenReads(false)).get("s")).toBeNull();
    expect(await texts(await deletedBetweenReads(true), "s")).toEqual(["Again."]);
  });

  test("a verb is rejected, and the session is not reported as damaged", async () => {
    await expect((await deletedBetweenReads(false)).fork("s")).rejects.toMatchObject({ reason: "not_found" });
    await expect((await deletedBetweenReads(true)).fork("s")).rejects.toMatchObject({ reason: "conflict" });
  });
});
