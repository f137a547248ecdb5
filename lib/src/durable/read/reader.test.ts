// Readers in the process that drives the turn ("here") and in another ("elsewhere"), from the start or within a reply,
// with and without reconnects: every stored event once and in order, every character of text once. `reading` checks
// these rules and throws if one is broken.

import type { HandCall } from "../../../test/hand-model.ts";
import type { FakeScript, FakeStep } from "everturn";
import type { HostStorage, Runtime, RuntimeEvent, RuntimeOptions } from "everturn/runtime";

import { engine, fake, tool, MisuseError } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { handClock } from "everturn/testing";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { handModel } from "../../../test/hand-model.ts";
import { hasHeard, readAll, reading, readUntil } from "../../../test/readings.ts";
import { calls, plain, says } from "../../../test/runs.ts";
import { gate } from "../../../test/runtime/world.ts";
import { readValue, writeValue } from "../rows/stored.ts";

/** Live text is written for readers in other processes at once. */
const atOnce = { live: { bytes: 1 } } as const;

/** A runtime whose model is controlled by the test, and another runtime over the same storage that only reads. */
function spoken(options: Partial<RuntimeOptions> = {}) {
  const model = handModel();
  const host = memoryStorage();
  const clock = handClock();
  const engines = { default: engine({ adapter: model, model: "hand:m", tools: [plain("look", () => "seen")] }) };
  const here = runtime({ host, engines, clock, ...atOnce, ...options });
  const elsewhere = runtime({ host, engines, clock, drive: false });
  return { model, host, clock, engines, here, elsewhere };
}

/** A runtime with a scripted model, and another runtime over the same storage that only reads. */
function played(scripts: readonly FakeScript[], host: HostStorage = memoryStorage()) {
  const tools = [plain("look", () => "seen"), plain("touch", () => "felt")];
  const engines = { default: engine({ adapter: fake({ scripts }), model: "fake:m", tools }) };
  const here = runtime({ host, engines, ...atOnce });
  return { host, here, elsewhere: runtime({ host, engines, drive: false }) };
}

const types = (events: readonly RuntimeEvent[]) => events.map(({ event }) => event.type);
const entries = (events: readonly RuntimeEvent[]) => events.filter(({ sequence }) => sequence !== null);

async function sayAll(call: HandCall, ...words: readonly string[]): Promise<void> {
  for (const word of words) await call.say(word);
}

describe("events", () => {
  test("contains the stored events of a turn, each once and in order, and its live text between them", async () => {
    const { here } = played([calls("look"), says("All is well.")]);
    const { events } = await here.start("Look around.", { id: "s" });
    const read = await readAll(events);
    expect(types(entries(read))).toEqual([
      "turn_started",
      "message_completed",
      "tool_execution_completed",
      "tool_result_encoded",
      "step_completed",
      "message_completed",
      "step_completed",
      "chat_completed",
    ]);
    expect(reading(read)).toMatchObject({ sequences: [1, 2, 3, 4, 5, 6, 7, 8], replies: ["", "All is well."] });
    expect(reading(read).heard.at(-1)).toBe("All is well.");
  });

  test("of a finished turn equal those read live, in this process and in another", async () => {
    const { here, elsewhere } = played([calls("look", "touch"), calls("look"), says("Done.")]);
    const turn = await here.start("Go.", { id: "s" });
    const live = entries(await readAll(turn.events));
    const { turnId } = turn;
    for (const sessions of [here, elsewhere]) {
      expect(entries(await readAll(sessions.attach("s", turnId).events))).toEqual(live);
      expect(entries(await readAll(sessions.events("s", { follow: false })))).toEqual(live);
    }
    expect(types(await readAll(elsewhere.events("s", { follow: false })))).toEqual(types(live));
  });

  test("of a session continue across its turns", async () => {
    const { here, elsewhere } = played([says("One."), says("Two.")]);
    for (const sessions of [here, elsewhere]) {
      const whole = readUntil(
        sessions.events("s"),
        (_, all) => types(all).filter((type) => type === "chat_completed").length === 2,
      );
      if (sessions === here) {
        // The session does not exist yet, so there is nothing to read.
        expect(await whole).toEqual([]);
        await (
          await here.start("first", { id: "s" })
        ).result;
        const both = readUntil(
          here.events("s"),
          (_, all) => types(all).filter((type) => type === "chat_completed").length === 2,
        );
        await (
          await here.reply("s", "second")
        ).result;
        expect(reading(await both)).toMatchObject({ replies: ["One.", "Two."] });
      } else {
        const read = await whole;
        expect(reading(read).replies).toEqual(["One.", "Two."]);
        expect(new Set(read.map(({ turnId }) => turnId)).size).toBe(2);
      }
    }
  });

  test("of one turn exclude other turns and end with it", async () => {
    const { here, elsewhere } = played([says("One."), says("Two."), says("Three.")]);
    const first = await here.start("first", { id: "s" });
    await first.result;
    const second = await here.reply("s", "second");
    await second.result;
    await (
      await here.reply("s", "third")
    ).result;
    for (const sessions of [here, elsewhere]) {
      const read = await readAll(sessions.events("s", { turnId: second.turnId ?? "" }));
      expect(reading(read).replies).toEqual(["Two."]);
      expect(read.every(({ turnId }) => turnId === second.turnId)).toBe(true);
    }
  });

  test("after the end of a turn end at once, also while the next turn runs", async () => {
    const { here, model, elsewhere } = spoken();
    const first = await here.start("first", { id: "s" });
    (await model.call(1)).finish();
    const read = await readAll(first.events);
    await here.reply("s", "second");
    await (await model.call(2)).say("Two");
    const { turnId } = first;
    for (const sessions of [here, elsewhere]) {
      const rest = await readAll(sessions.events("s", { turnId: turnId ?? "", after: read.at(-1)?.cursor ?? "" }));
      expect(rest).toEqual([]);
    }
    (await model.call(2)).finish();
  });

  test("without follow end with the newest stored event", async () => {
    const { here, model, elsewhere } = spoken();
    const turn = await here.start("Go.", { id: "s" });
    const call = await model.call(1);
    await sayAll(call, "Hel", "lo");
    for (const sessions of [here, elsewhere]) {
      const read = await readAll(sessions.events("s", { follow: false }));
      expect(reading(read)).toMatchObject({ open: "Hello", sequences: [1] });
    }
    call.finish();
    await turn.result;
    expect(reading(await readAll(elsewhere.events("s", { follow: false })))).toMatchObject({ replies: ["Hello"] });
  });
});

describe("a reader that connects late", () => {
  test("gets the text of an open reply so far, and then its deltas", async () => {
    const { here, model, elsewhere } = spoken();
    const turn = await here.start("Go.", { id: "s" });
    const call = await model.call(1);
    await sayAll(call, "Hel", "lo");
    for (const sessions of [here, elsewhere]) {
      const events = await readUntil(sessions.attach("s", turn.turnId).events, hasHeard("Hello"));
      expect(reading(events)).toMatchObject({ sequences: [1], open: "Hello" });
    }
    const readers = [here, elsewhere].map((sessions) => readAll(sessions.attach("s", turn.turnId).events));
    await sayAll(call, ", wor", "ld");
    call.finish();
    for (const read of await Promise.all(readers)) expect(reading(read)).toMatchObject({ heard: ["Hello, world"] });
  });

  test("gets only the missing text if the reply was settled meanwhile (Q7)", async () => {
    const { here, model, elsewhere } = spoken();
    const turn = await here.start("Go.", { id: "s" });
    const call = await model.call(1);
    await sayAll(call, "Hel", "lo");
    const starts = await Promise.all(
      [here, elsewhere].map((sessions) => readUntil(sessions.attach("s", turn.turnId).events, hasHeard("Hello"))),
    );
    await sayAll(call, ", wor", "ld");
    call.finish();
    await turn.result;
    for (const start of starts) {
      for (const sessions of [here, elsewhere]) {
        const after = start.at(-1)?.cursor ?? "";
        const rest = await readAll(sessions.events("s", { after, turnId: turn.turnId ?? "" }));
        expect(rest[0]).toMatchObject({ delta: { part: "text/0", offset: 5 }, event: { delta: ", world" } });
        expect(types(rest)).toEqual(["text_delta", "message_completed", "step_completed", "chat_completed"]);
        expect(reading([...start, ...rest])).toMatchObject({ heard: ["Hello, world"], resets: 0 });
      }
    }
  });

  test("gets the stored event alone if it has read nothing of the reply", async () => {
    const { here, model, elsewhere } = spoken();
    const turn = await here.start("Go.", { id: "s" });
    const call = await model.call(1);
    const [first] = await readUntil(turn.events, () => true);
    await sayAll(call, "Hello");
    call.finish();
    await turn.result;
    for (const sessions of [here, elsewhere]) {
      const rest = await readAll(sessions.events("s", { after: first?.cursor ?? "", turnId: turn.turnId ?? "" }));
      expect(types(rest)).toEqual(["message_completed", "step_completed", "chat_completed"]);
    }
  });

  test("gets the missing text of alternating reasoning and text blocks", async () => {
    const script: FakeScript = [
      { type: "reasoning", text: "Hm." },
      { type: "text", text: "One, " },
      { type: "reasoning", text: "Hm again." },
      { type: "text", text: "two." },
    ];
    const { here, elsewhere } = played([script]);
    const turn = await here.start("Count.", { id: "s" });
    const read = await readAll(turn.events);
    expect(reading(read).heard).toEqual(["One, two."]);
    for (const sessions of [here, elsewhere]) {
      for (const [index, { cursor }] of read.entries()) {
        const rest = await readAll(sessions.events("s", { after: cursor, turnId: turn.turnId ?? "" }));
        const whole = reading([...read.slice(0, index + 1), ...rest]);
        expect(whole.replies).toEqual(["One, two."]);
      }
    }
  });
});

describe("another attempt at a reply (Q7)", () => {
  const retrying = { retry: { maxAttempts: 2, baseDelayMs: 0, maxDelayMs: 0, afterOutput: true } } as const;

  test("in the same process is announced by one step_reset to each reader", async () => {
    const { here, model, elsewhere, clock } = spoken();
    const turn = await here.start("Go.", { id: "s", ...retrying });
    const first = await model.call(1);
    await sayAll(first, "Help");
    const readers = [here, elsewhere].map((sessions) => readAll(sessions.attach("s", turn.turnId).events));
    const before = await readUntil(turn.events, hasHeard("Help"));
    first.fail();
    await clock.advance(0);
    const second = await model.call(2);
    await sayAll(second, "Hel", "lo");
    const cut = await readUntil(elsewhere.attach("s", turn.turnId).events, hasHeard("Hello"));
    second.finish();
    await turn.result;
    for (const read of await Promise.all(readers)) {
      expect(reading(read)).toMatchObject({ heard: ["Hello"], resets: 1 });
    }
    const rest = (events: readonly RuntimeEvent[]) =>
      readAll(elsewhere.events("s", { after: events.at(-1)?.cursor ?? "", turnId: turn.turnId ?? "" }));
    expect(types(await rest(before))).toEqual(["step_reset", "message_completed", "step_completed", "chat_completed"]);
    expect(types(await rest(cut))).toEqual(["message_completed", "step_completed", "chat_completed"]);
  });

  test("is continued by a cursor after the reset without another reset", async () => {
    const { here, model, elsewhere, clock } = spoken();
    const turn = await here.start("Go.", { id: "s", ...retrying });
    const first = await model.call(1);
    await sayAll(first, "Help");
    const reader = readUntil(turn.events, ({ event }) => event.type === "step_reset");
    first.fail();
    await clock.advance(0);
    const second = await model.call(2);
    const received = await reader;
    await sayAll(second, "Hel", "lo");
    for (const sessions of [here, elsewhere]) {
      const after = received.at(-1)?.cursor ?? "";
      const resumedEvents = await readUntil(
        sessions.events("s", { after }),
        ({ event }) => event.type === "text_delta",
      );
      expect(types(resumedEvents)).not.toContain("step_reset");
      const inside = [...received, ...resumedEvents];
      expect(reading(inside).resets).toBe(1);
      const more = await readUntil(
        sessions.events("s", { after: resumedEvents.at(-1)?.cursor ?? "", follow: false }),
        () => false,
      );
      expect(types(more)).not.toContain("step_reset");
      expect(reading([...inside, ...more])).toMatchObject({ open: "Hello" });
    }
    second.finish();
    await turn.result;
  });

  test("in another process is announced by a step_reset, to readers in both processes", async () => {
    const { here, model, elsewhere, engines, host, clock } = spoken({ lease: { ttlMs: 300, renewMs: 100 } });
    const turn = await here.start("Go.", { id: "s" });
    await sayAll(await model.call(1), "Help");
    const reader = readAll(elsewhere.attach("s", turn.turnId).events);
    const cut = await readUntil(elsewhere.attach("s", turn.turnId).events, hasHeard("Help"));
    const closed = here.close({ graceMs: 0 });
    await clock.advance(0);
    await closed;
    const next = runtime({ host, engines, clock, ...atOnce });
    expect(await next.recover()).toMatchObject({ pickedUp: 1 });
    const second = await model.call(2);
    await sayAll(second, "Hel", "lo");
    const joined = readAll(elsewhere.attach("s", turn.turnId).events);
    const resumed = readAll(elsewhere.events("s", { after: cut.at(-1)?.cursor ?? "", turnId: turn.turnId ?? "" }));
    const local = readAll(next.events("s", { after: cut.at(-1)?.cursor ?? "", turnId: turn.turnId ?? "" }));
    // The reply ends after the last reader has read it; the earlier readers have read it too.
    await readUntil(elsewhere.attach("s", turn.turnId).events, hasHeard("Hello"));
    second.finish();
    await next.attach("s", turn.turnId).result;
    expect(reading(await reader)).toMatchObject({ heard: ["Hello"], resets: 1 });
    expect(reading(await joined).heard).toEqual(["Hello"]);
    expect(reading([...cut, ...(await resumed)])).toMatchObject({ heard: ["Hello"], resets: 1 });
    expect(reading([...cut, ...(await local)])).toMatchObject({ heard: ["Hello"], resets: 1 });
  });

  const shown = (events: readonly RuntimeEvent[]) => {
    const wanted = ["message_started", "tool_call_started", "text_delta", "step_reset", "message_completed"];
    return types(events).filter((type) => wanted.includes(type));
  };

  test("in the same process begins with the reset, before its message_started", async () => {
    const { here, model, elsewhere, clock } = spoken();
    const turn = await here.start("Go.", { id: "s", ...retrying });
    const first = await model.call(1);
    await sayAll(first, "Help");
    const readers = [here, elsewhere].map((sessions) => readAll(sessions.attach("s", turn.turnId).events));
    for (const sessions of [here, elsewhere]) {
      await readUntil(sessions.attach("s", turn.turnId).events, hasHeard("Help"));
    }
    first.fail();
    await clock.advance(0);
    const second = await model.call(2);
    await sayAll(second, "Hello");
    await readUntil(elsewhere.attach("s", turn.turnId).events, hasHeard("Hello"));
    second.finish();
    for (const read of await Promise.all(readers)) {
      expect(shown(read)).toEqual([
        "message_started",
        "text_delta",
        "step_reset",
        "message_started",
        "text_delta",
        "message_completed",
      ]);
    }
  });

  /**
   * A turn whose first attempt had produced "Help" when its process stopped, a reader of that attempt, and the process
   * that took over.
   */
  async function takenOver() {
    const { here, model, elsewhere, engines, host, clock } = spoken();
    const turn = await here.start("Go.", { id: "s" });
    await sayAll(await model.call(1), "Help");
    const reader = readAll(elsewhere.attach("s", turn.turnId).events);
    const cut = await readUntil(elsewhere.attach("s", turn.turnId).events, hasHeard("Help"));
    const closed = here.close({ graceMs: 0 });
    await clock.advance(0);
    await closed;
    const next = runtime({ host, engines, clock, ...atOnce });
    await next.recover();
    const second = await model.call(2);
    const after = { after: cut.at(-1)?.cursor ?? "", turnId: turn.turnId ?? "" };
    return { next, elsewhere, second, reader, after };
  }

  test("after a takeover begins with the reset, before its message_started, in both processes", async () => {
    const { next, elsewhere, second, reader, after } = await takenOver();
    const local = readAll(next.events("s", after));
    const started = readUntil(elsewhere.events("s", after), ({ event }) => event.type === "text_delta");
    await sayAll(second, "Hello");
    expect(shown(await started).slice(-3)).toEqual(["step_reset", "message_started", "text_delta"]);
    second.finish();
    const again = ["step_reset", "message_started", "text_delta", "message_completed"];
    expect(shown(await local)).toEqual(again);
    expect(shown(await reader)).toEqual(["message_started", "text_delta", ...again]);
  });

  test("without text begins with the reset too", async () => {
    const { next, second, after } = await takenOver();
    const local = readUntil(next.events("s", after), ({ event }) => event.type === "message_completed");
    second.callTool("look");
    const again = ["step_reset", "message_started", "tool_call_started", "message_completed"];
    expect(shown(await local)).toEqual(again);
  });

  test("begins with the reset before its first text, also if its other events could not be written", async () => {
    const { model, host, here, elsewhere } = spoken();
    const turn = await here.start("Count.", { id: "s" });
    const call = await model.call(1);
    await call.say("one ");
    const received = await readUntil(elsewhere.events("s"), hasHeard("one "));
    const [rows = []] = await host.read([{ table: "pieces", prefix: ["", "s", turn.turnId ?? ""] }]);
    const [row] = rows;
    if (row === undefined) throw new Error("no piece is stored");
    const piece = readValue("pieces", row);
    const event = { type: "text_delta", id: null, delta: "uno " } as const;
    const newer = { ...piece, n: piece.n + 1, items: [{ part: "text/0", offset: 0, event }] };
    const key = [...row.key.slice(0, 3), Number(rows.at(-1)?.key[3]) + 1];
    await host.write({
      checks: [],
      removals: [],
      puts: [{ table: "pieces", key, tag: 0, value: writeValue("pieces", newer) }],
    });
    const after = received.at(-1)?.cursor ?? "";
    const later = await readUntil(elsewhere.events("s", { after }), ({ event: { type } }) => type === "text_delta");
    // The events without text of the first attempt may be repeated after the reconnect.
    expect(types(later).filter((type) => type !== "message_started")).toEqual(["step_reset", "text_delta"]);
    expect(later.at(-1)?.event).toMatchObject({ delta: "uno " });
    call.finish();
    await turn.result;
  });

  test("is not followed by live events of the attempt before", async () => {
    const { here, model, elsewhere, clock } = spoken();
    const turn = await here.start("Go.", { id: "s", ...retrying });
    const first = await model.call(1);
    await sayAll(first, "Help");
    first.fail();
    await clock.advance(0);
    const second = await model.call(2);
    await sayAll(second, "Hel");
    for (const sessions of [here, elsewhere]) {
      const read = await readUntil(sessions.attach("s", turn.turnId).events, hasHeard("Hel"));
      const after = read.at(-1)?.cursor ?? "";
      // The start of the open attempt is reported again; that of the withdrawn one, and the retry after it, are not.
      expect(types(await readAll(sessions.events("s", { after, follow: false })))).toEqual(["message_started"]);
    }
    second.finish();
    await turn.result;
  });

  test("that is cancelled after a takeover withdraws the text received before (Q9)", async () => {
    const { here, model, elsewhere, engines, host, clock } = spoken();
    const turn = await here.start("Go.", { id: "s" });
    await sayAll(await model.call(1), "Help");
    const reader = readAll(elsewhere.attach("s", turn.turnId).events);
    await readUntil(elsewhere.attach("s", turn.turnId).events, hasHeard("Help"));
    const closed = here.close({ graceMs: 0 });
    await clock.advance(0);
    await closed;
    const next = runtime({ host, engines, clock, ...atOnce });
    expect(await next.cancel("s")).toBe("cancelled");
    const read = await reader;
    expect(reading(read).resets).toBe(1);
    expect(types(read).at(-1)).toBe("chat_completed");
    expect((await next.get("s"))?.session.thread.messages).toHaveLength(1);
  });
});

test("a reader that is ahead of the process that drives the turn gets no live text of a settled reply again", async () => {
  const storage = memoryStorage();
  const commit = gate();
  const host: HostStorage = {
    ...storage,
    write: async (batch) => {
      const written = await storage.write(batch);
      // The commit of the reply is stored, and its answer is late.
      if (batch.puts.some(({ table, value }) => table === "events" && value.includes("message_completed")))
        await commit.wait();
      return written;
    },
  };
  const { here, elsewhere } = played([says("All is well.")], host);
  const { turnId } = await here.start("Go.", { id: "s" });
  await commit.reached;
  const cursor = (await readAll(elsewhere.events("s", { follow: false }))).at(-1)?.cursor ?? "";
  const left = new AbortController();
  const reader = readAll(here.events("s", { after: cursor, signal: left.signal }));
  // The reader reads what the process has before the answer to the commit arrives.
  await new Promise<void>((resolve) => setImmediate(resolve));
  commit.open();
  await here.attach("s", turnId).result;
  left.abort();
  expect(types(await reader)).toEqual(["chat_completed"]);
});

test("a reader of a reply that is cancelled has all the text that was received", async () => {
  const { here, model, elsewhere } = spoken();
  const turn = await here.start("Go.", { id: "s" });
  const call = await model.call(1);
  await sayAll(call, "Hel", "lo");
  const readers = [here, elsewhere].map((sessions) => readAll(sessions.attach("s", turn.turnId).events));
  await readUntil(elsewhere.attach("s", turn.turnId).events, hasHeard("Hello"));
  expect(await here.cancel("s")).toBe("cancelled");
  for (const read of await Promise.all(readers)) {
    const text = read.map(({ event }) => (event.type === "text_delta" ? event.delta : "")).join("");
    expect(text).toBe("Hello");
    expect(types(read).at(-1)).toBe("chat_completed");
  }
});

describe("disconnecting (H6)", () => {
  test("does not affect the turn, which can be read again", async () => {
    const { here, model } = spoken();
    const turn = await here.start("Go.", { id: "s" });
    const call = await model.call(1);
    await call.say("Hel");
    for await (const { event } of turn.events) if (event.type === "text_delta") break;
    await call.say("lo");
    expect(call.signal.aborted).toBe(false);
    call.finish();
    expect(await turn.result).toMatchObject({ status: "ended", text: "Hello" });
    expect(reading(await readAll(turn.events))).toMatchObject({ replies: ["Hello"] });
  });

  test.each(["here", "elsewhere"] as const)("ends a pending wait for the next event (%s)", async (where) => {
    const sessions = spoken();
    const turn = await sessions.here.start("Go.", { id: "s" });
    const call = await sessions.model.call(1);
    const iterator = sessions[where].attach("s", turn.turnId).events[Symbol.asyncIterator]();
    const seen: RuntimeEvent[] = [];
    for (let count = 0; count < 2; count += 1) {
      const next = await iterator.next();
      if (next.done !== true) seen.push(next.value);
    }
    expect(types(seen)).toEqual(["turn_started", "message_started"]);
    const pending = iterator.next();
    await Promise.resolve();
    expect(await iterator.return?.()).toMatchObject({ done: true });
    expect(await pending).toEqual({ done: true, value: undefined });
    expect(await iterator.next()).toEqual({ done: true, value: undefined });
    await call.say("Hello");
    call.finish();
    expect(await turn.result).toMatchObject({ text: "Hello" });
  });

  test("ends the watch of the storage", async () => {
    const storage = memoryStorage();
    const watchers = new Set<object>();
    const watch: HostStorage["watch"] = (changed) => {
      const unwatch = storage.watch(changed);
      const watcher = {};
      watchers.add(watcher);
      return () => {
        watchers.delete(watcher);
        unwatch();
      };
    };
    const { here, elsewhere } = played([says("Hello")], { ...storage, watch });
    await (
      await here.start("Go.", { id: "s" })
    ).result;
    const before = watchers.size;
    const iterator = elsewhere.events("s")[Symbol.asyncIterator]();
    const read = (async () => {
      for (let next = await iterator.next(); next.done !== true; next = await iterator.next());
    })();
    await expect.poll(() => watchers.size).toBe(before + 1);
    await iterator.return?.();
    await read;
    expect(watchers.size).toBe(before);
  });

  test.each(["here", "elsewhere"] as const)("by a signal (%s) ends the iteration without an error", async (where) => {
    const sessions = spoken();
    const turn = await sessions.here.start("Go.", { id: "s" });
    const call = await sessions.model.call(1);
    await call.say("Hel");
    const { signal, abort } = aborting();
    const read = readAll(sessions[where].events("s", { signal }));
    await readUntil(sessions[where].events("s"), hasHeard("Hel"));
    abort();
    expect(reading(await read).open).toBe("Hel");
    expect(await readAll(sessions[where].events("s", { signal }))).toEqual([]);
    await call.say("lo");
    call.finish();
    expect(await turn.result).toMatchObject({ text: "Hello" });
  });

  test("by a signal ends a reader that has buffered events", async () => {
    const { here } = played([
      Array.from({ length: 500 }, (_, index): FakeStep => ({ type: "text", text: `${index} ` })),
    ]);
    await (
      await here.start("Count.", { id: "s" })
    ).result;
    await (await here.start("Count.", { id: "t" })).result.catch(() => undefined);
    const { signal, abort } = aborting();
    const read = await readUntil(here.events("s", { signal }), () => {
      abort();
      return false;
    });
    expect(read).toHaveLength(1);
  });
});

test("a reader follows a storage that does not report which sessions were written to", async () => {
  const storage = memoryStorage();
  let watchers = 0;
  const host: HostStorage = {
    ...storage,
    watch: (changed) => {
      watchers += 1;
      return storage.watch(() => changed());
    },
  };
  const model = handModel();
  const engines = { default: engine({ adapter: model, model: "hand:m" }) };
  const here = runtime({ host, engines, ...atOnce });
  const elsewhere = runtime({ host, engines, drive: false });
  const turn = await here.start("Go.", { id: "s" });
  const call = await model.call(1);
  const before = watchers;
  const read = readAll(elsewhere.attach("s", turn.turnId).events);
  const { result } = elsewhere.attach("s", turn.turnId);
  await expect.poll(() => watchers).toBeGreaterThan(before + 1);
  await call.say("Hello");
  call.finish();
  expect(types(await read).at(-1)).toBe("chat_completed");
  expect((await result).text).toBe("Hello");
});

describe("a slow reader", () => {
  test("receives every delta of thousands, at any pace", async () => {
    const words = Array.from({ length: 5000 }, (_, index) => `${index} `);
    const { here, elsewhere } = played([words.map((text): FakeStep => ({ type: "text", text }))]);
    const turn = await here.start("Count.", { id: "s" });
    const [slow, far] = [turn.events, elsewhere.attach("s", turn.turnId).events].map(async (events) => {
      const read: RuntimeEvent[] = [];
      for await (const event of events) {
        read.push(event);
        await moment();
      }
      return read;
    });
    expect(reading((await slow) ?? []).replies).toEqual([words.join("")]);
    expect(reading((await far) ?? []).replies).toEqual([words.join("")]);
    expect(await turn.result).toMatchObject({ text: words.join("") });
  });

  test("that reconnects with any cursor within a long reply misses nothing", async () => {
    const { here, model, elsewhere } = spoken();
    const turn = await here.start("Count.", { id: "s" });
    const call = await model.call(1);
    let expected = "";
    const received: Record<"here" | "elsewhere", RuntimeEvent[]> = { here: [], elsewhere: [] };
    for (let index = 0; index < 40; index += 1) {
      expected += `${index} `;
      await call.say(`${index} `);
      for (const [where, sessions] of [
        ["here", here],
        ["elsewhere", elsewhere],
      ] as const) {
        const after = received[where].at(-1)?.cursor;
        const options = { turnId: turn.turnId ?? "", ...(after === undefined ? {} : { after }) };
        received[where].push(
          ...(await readUntil(sessions.events("s", options), ({ event }) => event.type === "text_delta")),
        );
        expect(reading(texts(received[where])).open).toBe(expected);
      }
    }
    call.finish();
    await turn.result;
  });
});

/** Events without text may be repeated after a reconnect. */
function texts(events: readonly RuntimeEvent[]): readonly RuntimeEvent[] {
  return events.filter(({ delta, sequence }) => delta !== null || sequence !== null);
}

test("a reader in another process gets all text once, also if some pieces could not be written", async () => {
  const storage = memoryStorage();
  let writes = 0;
  const forgetful: HostStorage = {
    ...storage,
    write: (batch) => {
      const isPiece = batch.puts.some(({ table }) => table === "pieces");
      if (isPiece) writes += 1;
      return isPiece && writes % 3 === 0 ? Promise.reject(new Error("not now")) : storage.write(batch);
    },
  };
  const model = handModel();
  const engines = { default: engine({ adapter: model, model: "hand:m" }) };
  const here = runtime({ host: forgetful, engines, ...atOnce });
  const elsewhere = runtime({ host: storage, engines, drive: false });
  const turn = await here.start("Count.", { id: "s" });
  const call = await model.call(1);
  const read = readAll(elsewhere.attach("s", turn.turnId).events);
  const words = Array.from({ length: 20 }, (_, index) => `${index} `);
  await call.say(words[0] ?? "");
  await readUntil(elsewhere.events("s"), hasHeard(words[0] ?? ""));
  await sayAll(call, ...words.slice(1));
  call.finish();
  expect(reading(await read)).toMatchObject({ heard: [words.join("")] });
});

test("a deleted session leaves no events, pieces or journal rows", async () => {
  const storage = memoryStorage();
  const { here } = played([says("Hello.")], storage);
  await (
    await here.start("hi", { id: "s" })
  ).result;
  await here.delete("s");
  const left = await storage.read([
    { table: "events", prefix: [] },
    { table: "pieces", prefix: [] },
    { table: "journal", prefix: [] },
  ]);
  expect(left.flat()).toEqual([]);
});

describe("the end of the events", () => {
  test.each(["here", "elsewhere"] as const)("follows the deletion of a session (%s)", async (where) => {
    const sessions = spoken();
    const turn = await sessions.here.start("Go.", { id: "s" });
    const call = await sessions.model.call(1);
    call.finish();
    await turn.result;
    const read = readAll(sessions[where].events("s"));
    await readUntil(sessions[where].events("s"), ({ event }) => event.type === "chat_completed");
    await sessions.elsewhere.delete("s");
    expect(types(entries(await read)).at(-1)).toBe("chat_completed");
  });

  test.each(["here", "elsewhere"] as const)(
    "follows the deletion of a session while a turn runs (%s)",
    async (where) => {
      const sessions = spoken({ lease: { ttlMs: 300, renewMs: 100 } });
      const turn = await sessions.here.start("Go.", { id: "s" });
      const call = await sessions.model.call(1);
      await call.say("Hel");
      const all = readAll(sessions[where].events("s"));
      const one = readAll(sessions[where].attach("s", turn.turnId).events);
      await readUntil(sessions[where].events("s"), hasHeard("Hel"));
      await sessions.elsewhere.delete("s");
      await sessions.clock.advance(200);
      expect(reading(await all).open).toBe("Hel");
      expect(reading(await one).open).toBe("Hel");
      expect(call.signal.aborted).toBe(true);
      await expect(turn.result).rejects.toMatchObject({ reason: "not_found" });
    },
  );

  test("is immediate for an unknown session", async () => {
    const { elsewhere } = spoken();
    expect(await readAll(elsewhere.events("missing"))).toEqual([]);
  });
});

test.each(["", "x", "-1", "1.5", "1;", "1;2", "1;2.1;text=3;e", "1;2.1;text/0=x;e", "1;2.1;;%", "9".repeat(20)])(
  "%j is not a cursor",
  async (after) => {
    const { here } = spoken();
    expect(() => here.events("s", { after })).toThrow(MisuseError);
  },
);

describe("any script, read with any number of reconnects", () => {
  const word = fc.string({ minLength: 1, maxLength: 6, unit: "grapheme" });
  const block = fc.record({ type: fc.constantFrom("text", "text", "reasoning"), text: word });
  const reply = fc.record({ words: fc.array(block, { maxLength: 8 }), tools: fc.integer({ min: 0, max: 2 }) });
  const scripts = fc.array(reply, { minLength: 1, maxLength: 4 }).map((replies): readonly FakeScript[] =>
    replies.map(({ words, tools }, index): FakeScript => {
      const spoken = words.map(({ type, text }): FakeStep => ({ type: type === "text" ? "text" : "reasoning", text }));
      const last = index === replies.length - 1;
      if (last) return [...spoken, { type: "text", text: "." }];
      return [...spoken, ...calls(...["look", "touch"].slice(0, Math.max(1, tools)))];
    }),
  );

  test("is complete from every cursor", async () => {
    await fc.assert(
      fc.asyncProperty(scripts, async (given) => {
        const { here, elsewhere } = played(given);
        const turn = await here.start("Go.", { id: "s" });
        const turnId = turn.turnId ?? "";
        const [live, far] = await Promise.all([readAll(turn.events), readAll(elsewhere.events("s", { turnId }))]);
        const whole = reading(live);
        expect(reading(far)).toMatchObject({ entries: whole.entries, replies: whole.replies });
        for (const read of [live, far]) {
          for (const [index, { cursor }] of read.entries()) {
            const sessions = index % 2 === 0 ? here : elsewhere;
            const rest = await readAll(sessions.events("s", { after: cursor, turnId }));
            const both = reading([...read.slice(0, index + 1), ...rest]);
            expect(both).toMatchObject({ entries: whole.entries, replies: whole.replies, resets: 0 });
          }
        }
      }),
      { numRuns: 60 },
    );
  });

  test("is complete for readers that reconnect while it is streamed", async () => {
    const cuts = fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(scripts, cuts, async (given, sizes) => {
        const { here, elsewhere } = played(given);
        const turn = await here.start("Go.", { id: "s" });
        const turnId = turn.turnId ?? "";
        const hopping = async (sessions: Runtime): Promise<readonly RuntimeEvent[]> => {
          const read: RuntimeEvent[] = [];
          for (let hop = 0; types(read).at(-1) !== "chat_completed"; hop += 1) {
            const after = read.at(-1)?.cursor;
            const size = sizes[hop % sizes.length] ?? 1;
            const options = { turnId, ...(after === undefined ? {} : { after }) };
            // Events without text are repeated after a reconnect: a reader has to get beyond them.
            const isFar = (_: RuntimeEvent, all: readonly RuntimeEvent[]) => texts(all).length >= size;
            read.push(...(await readUntil(sessions.events("s", options), isFar)));
            if (hop > 1000) throw new Error(`a reader makes no progress after ${String(after)}`);
          }
          return texts(read);
        };
        const [whole, ...hopped] = await Promise.all([readAll(turn.events), hopping(here), hopping(elsewhere)]);
        const { entries: storedEvents, replies } = reading(whole);
        for (const read of hopped) expect(reading(read)).toMatchObject({ entries: storedEvents, replies, resets: 0 });
      }),
      { numRuns: 60 },
    );
  });
});

test("progress of a tool reaches readers while it runs, in both processes", async () => {
  let release: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => (release = resolve));
  const dig = tool({
    name: "dig",
    description: "Digs.",
    schema: { type: "object" },
    handler: async (_, { progress }) => {
      progress("half");
      await gate;
      return "deep";
    },
  });
  const host = memoryStorage();
  const engines = {
    default: engine({ adapter: fake({ scripts: [calls("dig"), says("Dug.")] }), model: "fake:m", tools: [dig] }),
  };
  const here = runtime({ host, engines, ...atOnce });
  const elsewhere = runtime({ host, engines, drive: false });
  const turn = await here.start("Dig.", { id: "s" });
  for (const sessions of [here, elsewhere]) {
    const read = await readUntil(
      sessions.attach("s", turn.turnId).events,
      ({ event }) => event.type === "tool_progress",
    );
    expect(types(read)).toContain("tool_execution_started");
  }
  release();
  expect(await turn.result).toMatchObject({ text: "Dug." });
});

/** Resolves after the tasks that are queued now. */
function moment(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function aborting() {
  const controller = new AbortController();
  return { signal: controller.signal, abort: () => controller.abort() };
}
