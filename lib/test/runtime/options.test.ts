// The options of durable verbs and their errors: JSON only, no API key, an existing engine and session, and a status
// that allows the verb, as for the verbs of the value `session`.

import type { Process } from "./world.ts";
import type { Json, JsonObject, Message, Session } from "everturn";

import {
  askUser,
  assistant,
  isEverturnError,
  MisuseError,
  newSession,
  user,
  fromMessages,
  system,
  session as sessions,
} from "everturn";
import { toolCall } from "everturn/advanced";
import { describe, expect, test } from "vitest";

import { call, counting, says, thinker, worker, World } from "./world.ts";

const own = { ...counting("own").tool, manual: true };

describe("options of durable turns", () => {
  test("a function or an engine-only option throws MisuseError that names it, and nothing is stored", async () => {
    const world = new World();
    const of = world.process(world.engine(worker()));
    const given: readonly (readonly [object, string])[] = [
      [{ haltWhen: () => true }, "haltWhen"],
      [{ onToolError: () => "halt" }, "onToolError"],
      [{ prepareStep: () => null }, "prepareStep"],
      [{ toolExecutor: () => null }, "toolExecutor"],
      [{ toolResultEncoder: () => "" }, "toolResultEncoder"],
      [{ onCheckpoint: () => null }, "onCheckpoint"],
      [{ hooks: {} }, "hooks"],
      [{ tools: [] }, "tools"],
      [{ signal: new AbortController().signal }, "signal"],
      [{ onEvent: () => undefined }, "onEvent"],
    ];
    for (const [options, name] of given) {
      await expect(of.start("hi", options)).rejects.toMatchObject({ name: "MisuseError", path: [name] });
    }
    const deep: object = { params: { list: [1, () => 2] } };
    await expect(of.start("hi", deep)).rejects.toMatchObject({ path: ["params", "list", 1] });
    expect(world.writes).toEqual([]);
  });

  test("context and metadata are stored, and values that are not JSON throw with their path", async () => {
    const world = new World();
    const of = world.process(world.engine(worker()));
    const given: readonly (readonly [object, readonly string[]])[] = [
      [{ context: { db: { find: () => 1 } } }, ["context", "db", "find"]],
      [{ context: { big: 1n } }, ["context", "big"]],
      [{ metadata: { n: Number.NaN } }, ["metadata", "n"]],
    ];
    for (const [options, path] of given) {
      await expect(of.start("hi", options)).rejects.toMatchObject({ name: "MisuseError", path });
    }
    expect(world.writes).toEqual([]);
  });

  test("an API key is rejected in every option", async () => {
    const world = new World();
    const of = world.process(world.engine(worker()));
    const given: readonly object[] = [
      { apiKey: "sk-secret" },
      { params: { apiKey: "sk-secret" } },
      { adapterOptions: { headers: { authorization: "Bearer secret" } } },
      { options: { api_key: "sk-secret" } },
    ];
    for (const options of given) await expect(of.start("hi", options)).rejects.toThrow(MisuseError);
    expect(world.writes).toEqual([]);
  });

  test("an unknown option, an invalid value and an unknown engine throw MisuseError", async () => {
    const world = new World();
    const of = world.process(world.engine(worker()));
    const given: readonly object[] = [
      { maxTurns: 0 },
      { mood: "good" },
      { budgets: { beers: 2 } },
      { mode: "wild" },
      { engine: "missing" },
    ];
    for (const options of given) await expect(of.start("hi", options)).rejects.toThrow(MisuseError);
    await expect(of.start("hi", { id: "" })).rejects.toThrow(MisuseError);
    expect(world.writes).toEqual([]);
  });

  test("apply in any process, and the turn after an answer uses the options of the turn that asked", async () => {
    const world = new World();
    const model = thinker(({ messages }) => (messages.at(-1)?.role === "tool" ? says("Done.") : [call("own")]));
    const accepting = world.process(world.engine(model, { tools: [own] }), { drive: false });
    const driving = world.process(world.engine(model, { tools: [own] }));
    await accepting.start("hi", { id: "s1", temperature: 0.25, instructions: "Be brief." });
    await driving.recover();
    await driving.attach("s1").result;
    await (
      await driving.submitToolResults("s1", [["own", 1]])
    ).result;
    expect(model.asked.map(({ temperature }) => temperature)).toEqual([0.25, 0.25]);
  });

  test("a process without the engine of a turn does not drive it", async () => {
    const world = new World();
    const [mine, theirs] = [worker(), worker()];
    const without = world.process(world.engine(mine));
    const having = world.process(world.engine(mine), { also: { other: world.engine(theirs) }, drive: false });
    const turn = await having.start("hi", { id: "s1", engine: "other" });
    expect(await without.recover()).toMatchObject({ pickedUp: 0 });
    const driving = world.process(world.engine(mine), { also: { other: world.engine(theirs) } });
    await driving.recover();
    await driving.attach("s1", turn.turnId).result;
    expect([mine.asked.length, theirs.asked.length]).toEqual([0, 1]);
  });

  test("a fork continues with the engine and the options of the turn that asked", async () => {
    const world = new World();
    const pay = counting("pay", { needsApproval: true });
    const [mine, theirs] = [worker("pay"), worker("pay")];
    const also = { other: world.engine(theirs, { tools: [pay.tool] }) };
    const of = world.process(world.engine(mine), { also });
    await (
      await of.start("hi", { id: "s1", engine: "other", temperature: 0.25 })
    ).result;
    await of.fork("s1", { id: "s2" });
    expect((await (await of.decide("s2", "c0", { type: "approve" })).result).text).toBe("Done.");
    expect([mine.asked.length, theirs.asked[1]?.temperature]).toEqual([0, 0.25]);
    expect((await of.get("s1"))?.session.status).toBe("awaiting_tools");
  });
});

describe("durable verbs check preconditions like the in-memory verbs", () => {
  const ask = counting("ask", { handler: () => askUser("Which day?") });
  const pending = [{ ...toolCall({ id: "c0", name: "own", arguments: {} }), reason: "manual" }] as const;
  const open = assistant("", {
    toolCalls: [toolCall({ id: "c0", name: "own", arguments: {} })],
    finishReason: "tool_calls",
  });
  const given: { readonly [status: string]: Session<JsonObject> } = {
    idle: newSession({ thread: fromMessages([user("hi")]) }),
    completed: newSession({ status: "completed", thread: fromMessages([user("hi"), assistant("Hello.")]) }),
    awaiting_tools: newSession({
      status: "awaiting_tools",
      thread: fromMessages([user("hi"), open]),
      pendingToolCalls: pending,
    }),
    awaiting_user: newSession({
      status: "awaiting_user",
      thread: fromMessages([user("hi"), assistant("Which day?")]),
      pendingQuestion: "Which day?",
    }),
    error: newSession({
      status: "error",
      thread: fromMessages([user("hi")]),
      metadata: { error: { type: "engine_error", reason: "missing_adapter" } },
    }),
  };

  /** The result of a verb: `ok`, or the error it threw. */
  async function came(verb: () => Promise<unknown>): Promise<Json> {
    try {
      await verb();
      return "ok";
    } catch (error) {
      if (!isEverturnError(error) && !(error instanceof MisuseError)) throw error;
      return [error.name, error.reason];
    }
  }

  type Verbs = { readonly [verb: string]: () => Promise<unknown> };
  const note: Message = system("note");

  function durable(of: Process): Verbs {
    return {
      reply: async () => (await of.reply("s1", "x")).result,
      "continue user": async () => (await of.continue("s1", user("x"))).result,
      "continue system": async () => (await of.continue("s1", note)).result,
      "continue null": async () => (await of.continue("s1")).result,
      step: async () => (await of.step("s1")).result,
      submit: async () => (await of.submitToolResults("s1", [["c0", 1]])).result,
      "submit unknown": async () => (await of.submitToolResults("s1", [["c9", 1]])).result,
      decide: async () => (await of.decide("s1", "c0", { type: "approve" })).result,
    };
  }

  function plain(world: World, of: Session<JsonObject>): Verbs {
    const engine = world.engine(worker(), { tools: [own, ask.tool] });
    return {
      reply: () => sessions.reply(engine, of, "x"),
      "continue user": () => sessions.continue(engine, of, user("x")),
      "continue system": () => sessions.continue(engine, of, note),
      "continue null": () => sessions.continue(engine, of),
      step: () => sessions.step(engine, of),
      submit: async () => sessions.submitToolResults(of, [["c0", 1]]),
      "submit unknown": async () => sessions.submitToolResults(of, [["c9", 1]]),
      decide: () => sessions.decide(engine, of, "c0", { type: "approve" }),
    };
  }

  test.each(Object.keys(given))("%s", async (status) => {
    const of = given[status] ?? newSession({});
    const verbs = Object.keys(plain(new World(), of));
    for (const verb of verbs) {
      const world = new World();
      const running = world.process(world.engine(worker(), { tools: [own, ask.tool] }));
      await world.put("s1", of);
      const [here, there] = [durable(running)[verb], plain(world, of)[verb]];
      if (here === undefined || there === undefined) throw new Error(verb);
      expect([verb, await came(here)]).toEqual([verb, await came(there)]);
    }
  });

  test("start rejects a session that waits or is in the status error", async () => {
    for (const [status, of] of Object.entries(given)) {
      const world = new World();
      const running = world.process(world.engine(worker(), { tools: [own] }));
      const here = await came(async () => (await running.start(of, { id: "s9" })).result);
      expect([status, here]).toEqual([
        status,
        await came(() => sessions.start(world.engine(worker(), { tools: [own] }), of)),
      ]);
    }
  });

  test("an unknown session is not_found for every verb, and get returns null", async () => {
    const world = new World();
    const of = world.process(world.engine(worker()));
    const verbs: Verbs = {
      ...durable(of),
      send: () => of.send("s1", "x"),
      steer: () => of.steer("s1", "x"),
      cancel: () => of.cancel("s1"),
      messages: () => of.messages("s1"),
      delete: () => of.delete("s1"),
      fork: () => of.fork("s1"),
      usage: () => of.usage("s1"),
      token: () => of.token("s1", "c0"),
      recover: () => of.recover("s1"),
      attach: () => of.attach("s1").result,
    };
    for (const [name, verb] of Object.entries(verbs)) {
      expect([name, await came(verb)]).toEqual([name, ["RuntimeError", "not_found"]]);
    }
    expect(await of.get("s1")).toBe(null);
    expect(await of.withdraw("s1", "i1")).toBe("not_found");
    // Sessions of other tenants are not found either.
    await (
      await of.tenant("a").start("hi", { id: "s1" })
    ).result;
    expect(await of.tenant("b").get("s1")).toBe(null);
    expect(await came(() => of.reply("s1", "x"))).toEqual(["RuntimeError", "not_found"]);
  });
});
