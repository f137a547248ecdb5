// Deleting a session while a turn runs.

import { describe, expect, test } from "vitest";

import { readAll, reading } from "../../../test/readings.ts";
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
});
