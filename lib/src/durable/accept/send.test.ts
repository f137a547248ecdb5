// Messages that arrive while a turn is open: the busy policies of `reply` and `send` (`whenBusy`).

import type { Engine, ModelRequest } from "everturn";
import type { HostStorage, Runtime, RuntimeOptions } from "everturn/runtime";

import { engine, fake, messageText, user } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { describe, expect, test } from "vitest";

import { handModel } from "../../../test/hand-model.ts";
import { latch, says as saysText, sessionsOf, toolCall, workTool } from "../../../test/runtime/sessions.ts";
import { texts } from "../../../test/runtime/two-processes.ts";
import { eventsOf, says, thinker, World, writes } from "../../../test/runtime/world.ts";

const conflict = { name: "RuntimeError", reason: "conflict" };

/** A session `s` whose first turn waits for its first model call. */
async function busy(fields: Omit<Partial<Engine>, "context"> = {}, options: Partial<RuntimeOptions> = {}) {
  const model = handModel();
  const of = engine({ adapter: model, model: "hand:m", ...fields });
  const host = memoryStorage();
  const sessions = sessionsOf(of, { host, ...options });
  const turn = await sessions.start("one", { id: "s" });
  const first = await model.call(1);
  return { model, of, host, sessions, turn, first };
}

/** The texts of the user messages of a request. */
function asked({ messages }: ModelRequest): readonly string[] {
  return messages.flatMap((message) => (message.role === "user" ? [messageText(message)] : []));
}

/** The user messages of a session. */
async function userTexts(sessions: Runtime, id = "s"): Promise<readonly string[]> {
  const { items } = await sessions.messages(id);
  return items.flatMap((message) => (message.role === "user" ? [messageText(message)] : []));
}

describe("reject", () => {
  test("is the default of reply: it rejects with conflict, and the turn is not affected", async () => {
    const { sessions, turn, first } = await busy();
    await expect(sessions.reply("s", "two")).rejects.toMatchObject(conflict);
    await expect(sessions.send("s", "two", { whenBusy: "reject" })).rejects.toMatchObject(conflict);
    await first.say("done");
    first.finish();
    expect((await turn.result).text).toBe("done");
    expect(await userTexts(sessions)).toEqual(["one"]);
  });

  test("has no effect on a session without an open turn", async () => {
    const { sessions, model, turn, first } = await busy();
    first.finish();
    await turn.result;
    const next = await sessions.send("s", "two", { whenBusy: "reject" });
    (await model.call(2)).finish();
    await next.result;
    expect(await userTexts(sessions)).toEqual(["one", "two"]);
  });
});

test("steer: reply adds the message to the open turn at its next checkpoint", async () => {
  const { passed, open } = latch();
  const { sessions, model, turn, first } = await busy({ tools: [workTool(() => passed.then(() => "ok"))] });
  first.callTool("work");
  const steered = await sessions.reply("s", "two", { whenBusy: "steer", key: "k" });
  expect(steered.turnId).toBe(turn.turnId);
  open();
  const second = await model.call(2);
  expect(asked(second.request)).toContain("two");
  second.finish();
  await turn.result;
  expect((await sessions.reply("s", "two", { key: "k" })).turnId).toBe(turn.turnId);
  expect(await userTexts(sessions)).toEqual(["one", "two"]);
});

describe("queue", () => {
  test("the messages start turns of their own after the open one, in order, with their own options", async () => {
    const { passed, open } = latch();
    const { sessions, model, turn, first } = await busy({ tools: [workTool(() => passed.then(() => "ok"))] });
    first.callTool("work");
    const two = await sessions.reply("s", "two", { whenBusy: "queue", temperature: 0.5 });
    const three = await sessions.send("s", "three", { whenBusy: "queue" });
    expect(new Set([turn.turnId, two.turnId, three.turnId]).size).toBe(3);
    expect((await sessions.get("s"))?.queuedTurns).toEqual([two.turnId, three.turnId]);
    const events = eventsOf(two.events);
    open();
    const second = await model.call(2);
    expect(asked(second.request)).not.toContain("two");
    second.finish();
    const third = await model.call(3);
    expect(asked(third.request).at(-1)).toBe("two");
    expect(third.request.temperature).toBe(0.5);
    expect(await turn.result).toMatchObject({ status: "ended", haltedReason: "completed" });
    await third.say("after");
    third.finish();
    expect(await two.result).toMatchObject({ turnId: two.turnId, text: "after" });
    expect((await events).map(({ turnId }) => turnId)).toEqual((await events).map(() => two.turnId));
    const fourth = await model.call(4);
    expect(asked(fourth.request).at(-1)).toBe("three");
    expect(fourth.request.temperature).not.toBe(0.5);
    fourth.finish();
    await three.result;
    expect((await sessions.get("s"))?.queuedTurns).toEqual([]);
    expect(await userTexts(sessions)).toEqual(["one", "two", "three"]);
  });

  test("a steered message that arrives after 64 queued ones still reaches the open turn", async () => {
    const { passed, open } = latch();
    const { sessions, model, first } = await busy({ tools: [workTool(() => passed.then(() => "ok"))] });
    first.callTool("work");
    for (let index = 0; index < 70; index += 1) {
      await sessions.send("s", `queued ${index}`, { whenBusy: "queue", key: `q${index}` });
    }
    await sessions.send("s", "now");
    open();
    const second = await model.call(2);
    expect(asked(second.request).at(-1)).toBe("now");
    for (let index = 0; index < 70; index += 1) await sessions.withdraw("s", `q${index}`);
    second.finish();
  });

  test("input that arrived too late for the turn starts one before the queued message", async () => {
    // The turn may make one model call, so its last checkpoint claims no input.
    const { sessions, model, first } = await busy({ options: { maxTurns: 1 } });
    await sessions.steer("s", "late");
    const queued = await sessions.send("s", "queued", { whenBusy: "queue" });
    first.finish();
    const second = await model.call(2);
    expect(asked(second.request)).toContain("late");
    expect(asked(second.request)).not.toContain("queued");
    second.finish();
    const third = await model.call(3);
    expect(asked(third.request).at(-1)).toBe("queued");
    third.finish();
    await queued.result;
  });

  test("a withdrawn message starts no turn, and its handle rejects with not_found", async () => {
    const { sessions, model, turn, first } = await busy();
    const queued = await sessions.send("s", "two", { whenBusy: "queue", key: "k" });
    const rejected = expect(queued.result).rejects.toMatchObject({ reason: "not_found" });
    expect(await sessions.withdraw("s", "k")).toBe("cancelled");
    await rejected;
    await expect(eventsOf(queued.events)).rejects.toMatchObject({ reason: "not_found" });
    first.finish();
    await turn.result;
    expect((await sessions.get("s"))?.openTurn).toBeNull();
    expect(model.calls).toBe(1);
  });

  test("a reader that stops reading does not wait for the queued turn", async () => {
    const { sessions, turn, first } = await busy();
    const queued = await sessions.send("s", "two", { whenBusy: "queue", key: "k" });
    const reader = queued.events[Symbol.asyncIterator]();
    const next = reader.next();
    await reader.return?.();
    expect((await next).done).toBe(true);
    expect(await eventsOf(sessions.events("s", { turnId: queued.turnId ?? "", follow: false }))).toEqual([]);
    await sessions.withdraw("s", "k");
    first.finish();
    await turn.result;
  });

  test("rejects options that no turn could start with, and another engine than that of the open turn", async () => {
    const { sessions, turn, first, of, host } = await busy();
    const both = sessionsOf(of, { host, engines: { default: of, other: of } });
    await expect(both.send("s", "two", { whenBusy: "queue", engine: "other" })).rejects.toMatchObject(conflict);
    await expect(sessions.send("s", "two", { whenBusy: "queue", maxTurns: -1 })).rejects.toThrow("maxTurns");
    const unknown = { whenBusy: "queue", nonsense: 1 } as const;
    await expect(sessions.send("s", "two", unknown)).rejects.toThrow("nonsense");
    first.finish();
    await turn.result;
    expect((await sessions.get("s"))?.openTurn).toBeNull();
  });
});

describe("interrupt", () => {
  test("cancels the open turn and starts with the message, before queued messages", async () => {
    const { sessions, model, turn, first } = await busy();
    await first.say("half a rep");
    const queued = await sessions.send("s", "queued", { whenBusy: "queue" });
    const urgent = await sessions.reply("s", "stop, do this", { whenBusy: "interrupt" });
    expect(await turn.result).toMatchObject({ haltedReason: "cancelled" });
    const second = await model.call(2);
    expect(asked(second.request).at(-1)).toBe("stop, do this");
    await second.say("doing it");
    second.finish();
    expect((await urgent.result).text).toBe("doing it");
    (await model.call(3)).finish();
    await queued.result;
    expect(await userTexts(sessions)).toEqual(["one", "stop, do this", "queued"]);
  });

  test("from another process, the process that drives the turn cancels it and starts the next one", async () => {
    const { sessions, model, of, host, turn } = await busy();
    const other = sessionsOf(of, { host, drive: false });
    const urgent = await other.send("s", "stop", { whenBusy: "interrupt" });
    expect(await turn.result).toMatchObject({ haltedReason: "cancelled" });
    (await model.call(2)).finish();
    expect((await urgent.result).status).toBe("ended");
    expect(await userTexts(sessions)).toEqual(["one", "stop"]);
  });

  test("a second interrupt before the turn has ended waits for the turn of the first", async () => {
    const { sessions, model, host, of } = await busy();
    const other = sessionsOf(of, { host, drive: false });
    const [a, b] = await Promise.all([
      other.send("s", "a", { whenBusy: "interrupt", key: "a" }),
      other.send("s", "b", { whenBusy: "interrupt", key: "b" }),
    ]);
    (await model.call(2)).finish();
    (await model.call(3)).finish();
    await Promise.all([a.result, b.result]);
    expect((await userTexts(sessions)).toSorted()).toEqual(["a", "b", "one"]);
  });
});

describe("one stored decision", () => {
  test.each(["queue", "interrupt"] as const)(
    "%s survives a crash of both processes after the message was stored, and a retry with its key adds nothing",
    async (whenBusy) => {
      const world = new World();
      const silent = thinker(() => says("never"));
      const hung = {
        ...silent,
        stream: () => ({ [Symbol.asyncIterator]: () => ({ next: () => new Promise<never>(() => undefined) }) }),
      };
      const driver = world.process(engine({ adapter: hung, model: "fake:m" }));
      await driver.start("one", { id: "s1" });
      const model = thinker((request) => says(`to: ${asked(request).at(-1)}`));
      const of = world.engine(model);
      const caller = world.process(of, { drive: false, diesAfter: writes("inbox") });
      void caller.send("s1", "two", { whenBusy, key: "k" });
      await caller.died;
      driver.kill();
      await world.clock.advance(60_000);
      const next = world.process(of);
      await next.recover();
      const again = await next.send("s1", "two", { whenBusy, key: "k" });
      expect((await again.result).text).toBe("to: two");
      const [first, last] = await texts(next, "s1").then((all) => [all[0], all.at(-1)]);
      expect([first, last]).toEqual(["one", "to: two"]);
      expect(await userTexts(next, "s1")).toEqual(["one", "two"]);
      // A cancelled turn makes no model call.
      expect(model.asked).toHaveLength(whenBusy === "queue" ? 2 : 1);
    },
  );
});

describe("idempotency keys", () => {
  test.each(["steer", "queue", "interrupt"] as const)(
    "%s: repeated calls return one turn, with any policy and either verb; other text is a conflict",
    async (whenBusy) => {
      const { sessions, model, first, turn } = await busy();
      const calls = Array.from({ length: 4 }, () => sessions.send("s", "two", { whenBusy, key: "k" }));
      const turns = new Set((await Promise.all(calls)).map(({ turnId }) => turnId));
      expect(turns.size).toBe(1);
      const [turnId] = turns;
      expect((await sessions.reply("s", "two", { key: "k" })).turnId).toBe(turnId);
      await expect(sessions.reply("s", "other", { whenBusy, key: "k" })).rejects.toMatchObject(conflict);
      if (whenBusy !== "interrupt") first.finish();
      (await model.call(2)).finish();
      await turn.result;
      const again = await sessions.send("s", "two", { whenBusy, key: "k" });
      await again.result;
      expect(again.turnId).toBe(turnId);
      expect(await userTexts(sessions)).toEqual(["one", "two"]);
    },
  );

  test("reject: a rejected call leaves the key unused", async () => {
    const { sessions, model, first, turn } = await busy();
    await expect(sessions.send("s", "two", { whenBusy: "reject", key: "k" })).rejects.toMatchObject(conflict);
    first.finish();
    await turn.result;
    const next = await sessions.send("s", "two", { whenBusy: "reject", key: "k" });
    (await model.call(2)).finish();
    await next.result;
    expect(await userTexts(sessions)).toEqual(["one", "two"]);
  });
});

describe("the policy of the engine", () => {
  test("applies to messages without a policy; the call overrides it", async () => {
    const { sessions, model, first, turn } = await busy({ whenBusy: "queue" });
    const queued = await sessions.reply("s", "two");
    expect(queued.turnId).not.toBe(turn.turnId);
    await expect(sessions.reply("s", "three", { whenBusy: "reject" })).rejects.toMatchObject(conflict);
    first.finish();
    (await model.call(2)).finish();
    await queued.result;
    expect(await userTexts(sessions)).toEqual(["one", "two"]);
  });

  test("is that of the engine of the open turn", async () => {
    const model = handModel();
    const plain = engine({ adapter: model, model: "hand:m" });
    const sessions = sessionsOf(plain, {
      engines: { default: plain, patient: engine({ ...plain, whenBusy: "queue" }) },
    });
    const turn = await sessions.start("one", { id: "s", engine: "patient" });
    const first = await model.call(1);
    const queued = await sessions.reply("s", "two");
    first.finish();
    await turn.result;
    expect((await sessions.get("s"))?.openTurn).toMatchObject({ turnId: queued.turnId, engine: "patient" });
    (await model.call(2)).finish();
    await queued.result;
  });
});

describe("every policy, of a call and of an engine", () => {
  const policies = ["steer", "queue", "interrupt", "reject"] as const;
  const cases = policies.flatMap((whenBusy) =>
    (["reply", "send"] as const).flatMap((verb) =>
      (["call", "engine"] as const).map((setIn) => ({ whenBusy, verb, setIn })),
    ),
  );

  test.each(cases)("$whenBusy of the $setIn applies to $verb", async ({ whenBusy, verb, setIn }) => {
    const { sessions, model, turn, first } = await busy(setIn === "engine" ? { whenBusy } : {});
    const sent = sessions[verb]("s", "two", setIn === "call" ? { whenBusy } : {});
    if (whenBusy === "reject") {
      await expect(sent).rejects.toMatchObject(conflict);
      first.finish();
      expect(await turn.result).toMatchObject({ haltedReason: "completed" });
      expect(await userTexts(sessions)).toEqual(["one"]);
      return;
    }
    const { turnId, result } = await sent;
    if (whenBusy === "queue") expect((await sessions.get("s"))?.queuedTurns).toEqual([turnId]);
    expect(turnId === turn.turnId).toBe(whenBusy === "steer");
    // Nothing else ends the first model call of an interrupted turn.
    if (whenBusy !== "interrupt") first.finish();
    const second = await model.call(2);
    expect(asked(second.request)).toEqual(["one", "two"]);
    second.finish();
    await result;
    expect(await turn.result).toMatchObject({ haltedReason: whenBusy === "interrupt" ? "cancelled" : "completed" });
    expect(await userTexts(sessions)).toEqual(["one", "two"]);
  });
});

describe("checks", () => {
  test("an unknown policy is misuse, in a call and in an engine; other verbs have no policy", async () => {
    const { sessions, turn, first } = await busy();
    const wrong: object = { whenBusy: "later" };
    await expect(sessions.send("s", "two", wrong)).rejects.toThrow(
      "whenBusy must be one of steer, queue, interrupt, reject",
    );
    expect(() => engine(wrong)).toThrow("whenBusy");
    first.finish();
    await turn.result;
    const policy: object = { whenBusy: "queue" };
    await expect(sessions.step("s", policy)).rejects.toThrow("whenBusy");
  });

  test("a message with another version of the session is a conflict under every policy", async () => {
    const { sessions, turn, first } = await busy();
    for (const whenBusy of ["steer", "queue", "interrupt", "reject"] as const) {
      await expect(sessions.send("s", "two", { whenBusy, version: 99 })).rejects.toMatchObject(conflict);
    }
    first.finish();
    expect((await turn.result).haltedReason).toBe("completed");
  });
});

describe.each(["steer", "queue", "interrupt"] as const)("a message with a key and the policy %s", (whenBusy) => {
  test("is accepted once if a concurrent call with the same key starts a turn with it after the open turn has ended", async () => {
    const { passed, open } = latch();
    const adapter = fake({ scripts: [[toolCall("work")], [saysText("one")], [saysText("two")], [saysText("three")]] });
    const engines = { default: engine({ adapter, model: "fake:m", tools: [workTool(() => passed.then(() => "ok"))] }) };
    const memory = memoryStorage();
    const other = runtime({ host: memory, engines, live: false });
    let accepted: string | null = null;
    let isFirst = true;
    const host: HostStorage = {
      ...memory,
      read: async (queries) => {
        const rows = await memory.read(queries);
        if (!isFirst || !queries.some(({ table }) => table === "accepted")) return rows;
        isFirst = false;
        open();
        await turn.result;
        const reply = await other.reply("s", "more", { key: "k" });
        accepted = reply.turnId;
        await reply.result;
        return rows;
      },
    };
    const turn = await other.start("go", { id: "s" });
    const sent = await runtime({ host, engines, live: false }).send("s", "more", { key: "k", whenBusy });
    expect(sent.turnId).toBe(accepted);
    const view = await other.get("s");
    expect(view?.session.thread.messages.filter(({ role }) => role === "user").map(messageText)).toEqual([
      "go",
      "more",
    ]);
    await expect(other.send("s", "another", { key: "k" })).rejects.toMatchObject(conflict);
  });
});

describe("a message with files", () => {
  const picture = {
    type: "image",
    image: { source: { type: "base64", data: "cG5n" }, mimeType: "image/png" },
  } as const;
  const message = user([picture, { type: "text", text: "two" }]);

  test.each(["queue", "interrupt"] as const)("%s: starts the next turn with all of its parts", async (whenBusy) => {
    const { sessions, model, turn, first } = await busy();
    const next = await sessions.send("s", message, { whenBusy, key: "k" });
    expect((await sessions.send("s", message, { whenBusy, key: "k" })).turnId).toBe(next.turnId);
    await expect(sessions.send("s", "two", { whenBusy, key: "k" })).rejects.toMatchObject(conflict);
    if (whenBusy === "queue") first.finish();
    await turn.result;
    const second = await model.call(2);
    expect(second.request.messages.at(-1)?.content).toEqual(message.content);
    second.finish();
    await next.result;
    expect((await sessions.messages("s")).items.map(({ content }) => content)).toContainEqual(message.content);
  });

  test("steers an open turn, and answers a session without one", async () => {
    const { passed, open } = latch();
    const { sessions, model, turn, first } = await busy({ tools: [workTool(() => passed.then(() => "ok"))] });
    first.callTool("work");
    expect((await sessions.send("s", message)).turnId).toBe(turn.turnId);
    open();
    const second = await model.call(2);
    expect(second.request.messages.map(({ content }) => content)).toContainEqual(message.content);
    second.finish();
    await turn.result;
    const next = await sessions.reply("s", message);
    (await model.call(3)).finish();
    await next.result;
    expect((await sessions.messages("s")).items.filter(({ role }) => role === "user")).toHaveLength(3);
  });

  test("must be a user message", async () => {
    const { sessions, first, turn } = await busy();
    const invalid: unknown = { role: "assistant", content: "two", toolCalls: [] };
    await expect(Reflect.apply(sessions.send, null, ["s", invalid])).rejects.toMatchObject({ name: "MisuseError" });
    await expect(sessions.send("s", user([{ type: "text", text: " " }]))).rejects.toMatchObject({
      name: "ValidationError",
    });
    first.finish();
    await turn.result;
  });
});
