// Structured output of a run that stops for an approval or a question: the run that continues asks for the same schema
// and returns the checked value. In memory (session verbs) and in the durable runtime.

import type { Json, ModelRequest, Session } from "everturn";
import type { Runtime, TurnHandle } from "everturn/runtime";

import { toStandardJsonSchema } from "@valibot/to-json-schema";
import { type } from "arktype";
import { askUser, engine, fake, tool, fromJson, newSession, toJson, user, session } from "everturn";
import { appendUser, StreamReducer } from "everturn/advanced";
import { inspection } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import * as valibot from "valibot";
import { describe, expect, expectTypeOf, test } from "vitest";
import { z } from "zod";

import { says, toolCall } from "./runtime/sessions.ts";

const Refund = z.object({ paid: z.boolean(), on: z.string().transform((text) => new Date(text)) });
const reply = '{"paid":true,"on":"2026-01-02"}';
const value = { paid: true, on: new Date("2026-01-02") };

const pay = tool({ name: "pay", description: "Pays.", schema: {}, needsApproval: true, handler: () => "paid" });
const ask = tool({ name: "ask", description: "Asks.", schema: {}, handler: () => askUser("Which?") });
const give = tool({ name: "give", description: "Run by the caller.", schema: {}, manual: true });

/** An engine whose model calls the tool and then answers with the texts, and the requests it was sent. */
function agentOf(name: "pay" | "ask" | "give", ...answers: readonly string[]) {
  const adapter = fake({ scripts: [[toolCall(name)], ...answers.map((text) => [says(text)])] });
  return { agent: engine({ adapter, model: "fake:m", tools: [pay, ask, give] }), adapter };
}

/** The schema that a request asks for; `null`: none. */
function schemaOf(request: ModelRequest | undefined): Json {
  return request?.responseFormat?.type === "json_schema" ? request.responseFormat.schema : null;
}

const refundSchema = { type: "object", required: ["paid", "on"] };

describe("in memory", () => {
  const stops = {
    pay: async (of: ReturnType<typeof agentOf>["agent"], waiting: Session) =>
      session.decide(of, waiting, "call_0", { type: "approve" }),
    give: (_: unknown, waiting: Session) => session.submitToolResult(waiting, "call_0", "given"),
  } as const;

  test.each(["pay", "give"] as const)(
    "a run that stopped for the call of %s asks for the schema when it continues",
    async (name) => {
      const { agent, adapter } = agentOf(name, reply);
      const waits = await session.start(agent, "refund", { output: Refund });
      expect(waits.result.output).toBeNull();
      const continued = await session.continue(agent, await stops[name](agent, waits.session));
      expect(schemaOf(adapter.calls[1]?.request)).toMatchObject(refundSchema);
      expect(continued.result.finalResponse?.output).toEqual({ value: JSON.parse(reply) });
      expect(continued.session.pendingOutput).toBeNull();
    },
  );

  test("the answer to a question continues with the schema, also after the session was stored", async () => {
    const { agent, adapter } = agentOf("ask", reply);
    const waits = await session.start(agent, "refund", { output: Refund });
    const stored = fromJson(toJson("session", { ...waits.session, context: {} }), { as: "session" });
    if (!stored.ok) throw new Error(stored.failure.message);
    const answered = await session.reply(agent, stored.value, "this one");
    expect(schemaOf(adapter.calls[1]?.request)).toMatchObject(refundSchema);
    expect(answered.result.finalResponse?.output).toEqual({ value: JSON.parse(reply) });
  });

  test("the continued run checks the answer, lets the model repair it, and fails without a repair", async () => {
    const repaired = agentOf("ask", "no JSON", reply);
    const first = await session.start(repaired.agent, "refund", { output: Refund, repair: 1 });
    const done = await session.reply(repaired.agent, first.session, "this one");
    expect(done.result.finalResponse?.output).toEqual({ value: JSON.parse(reply) });

    const wrong = agentOf("ask", '{"paid":1}');
    const second = await session.start(wrong.agent, "refund", { output: Refund });
    const failed = await session.reply(wrong.agent, second.session, "this one");
    expect(failed.result.metadata.error).toMatchObject({ type: "validation_error", reason: "invalid_output" });
  });

  test("a schema that is passed again has the type and the conversions of the caller", async () => {
    const { agent } = agentOf("ask", reply);
    const waits = await session.start(agent, "refund", { output: Refund });
    expectTypeOf(waits.result.output).toEqualTypeOf<{ paid: boolean; on: Date } | null>();
    const done = await session.reply(agent, waits.session, "this one", { output: Refund });
    expectTypeOf(done.result.output).toEqualTypeOf<{ paid: boolean; on: Date } | null>();
    expect(done.result.output).toEqual(value);
    const plain = agentOf("ask", reply);
    const started = await session.start(plain.agent, "refund", { output: { type: "object" } });
    expectTypeOf(started.result.output).toEqualTypeOf<Json>();
    expect("output" in (await session.start(engine({ adapter: fake({ script: [says("hi")] }) }), "hi")).result).toBe(
      false,
    );
  });

  test("a stream and a reducer keep the schema, and the next run of the session asks for none", async () => {
    const { agent, adapter } = agentOf("pay", reply, "bye");
    const base = newSession();
    const events = session.streamStart(agent, appendUser(base, "refund"), { output: Refund, repair: 2 });
    const reducer = new StreamReducer(base, { output: Refund, repair: 2 });
    for await (const event of events) reducer.add(event);
    const reduced = reducer.finalize().session;
    expect(reduced.pendingOutput).toMatchObject({ schema: refundSchema, repair: 2 });
    expect((await events.result).session.pendingOutput).toEqual(reduced.pendingOutput);
    const decided = await session.decide(agent, reduced, "call_0", { type: "approve" });
    const done = await session.step(agent, decided);
    expect(schemaOf(adapter.calls[1]?.request)).toMatchObject(refundSchema);
    expect(done.result.response.output).toEqual({ value: JSON.parse(reply) });
    await session.reply(agent, done.session, "thanks");
    expect(adapter.calls[2]?.request.responseFormat).toBeNull();
  });
});

describe("in the durable runtime", () => {
  type Continue = (sessions: Runtime) => Promise<TurnHandle>;
  const continuations: readonly [string, "pay" | "ask" | "give", Continue][] = [
    ["decide", "pay", (sessions) => sessions.decide("s", "call_0", { type: "approve" })],
    ["submitToolResults", "give", (sessions) => sessions.submitToolResults("s", [["call_0", "given"]])],
    ["reply", "ask", (sessions) => sessions.reply("s", "this one")],
    ["send", "ask", (sessions) => sessions.send("s", "this one")],
    ["continue with a message", "ask", (sessions) => sessions.continue("s", user("this one"))],
    [
      "continue after a recorded answer",
      "give",
      async (sessions) => {
        await sessions.submitToolResults("s", [["call_0", "given"]], { continue: false });
        return sessions.continue("s");
      },
    ],
    [
      "step after a recorded decision",
      "pay",
      async (sessions) => {
        await sessions.decide("s", "call_0", { type: "approve" }, { continue: false });
        return sessions.step("s");
      },
    ],
    [
      "a token",
      "pay",
      async (sessions) => {
        const completion = await sessions.complete(await sessions.token("s", "call_0"), { type: "approve" });
        if (completion.type !== "completed") throw new Error(completion.type);
        return completion.turn;
      },
    ],
  ];

  test.each(continuations)(
    "%s continues with the schema and the engine of the turn that waits",
    async (_, name, go) => {
      const { agent, adapter } = agentOf(name, reply);
      const engines = { default: engine({ adapter: fake({ scripts: [] }), tools: [pay, ask, give] }), refunds: agent };
      const sessions = runtime({ host: memoryStorage(), engines });
      const waits = await sessions.start("refund", { id: "s", engine: "refunds", output: Refund });
      expect((await waits.result).output).toBeNull();
      const end = await (await go(sessions)).result;
      expect(schemaOf(adapter.calls[1]?.request)).toMatchObject(refundSchema);
      expect(end.output).toEqual(JSON.parse(reply));
      expect((await sessions.get("s"))?.session.status).toBe("completed");
    },
  );

  test("a message after the turn has ended uses the default engine and no schema", async () => {
    const adapter = fake({ scripts: [[says(reply)], [says("bye")]] });
    const sessions = runtime({ host: memoryStorage(), engines: { default: engine({ adapter, model: "fake:m" }) } });
    await (
      await sessions.start("refund", { id: "s", output: Refund })
    ).result;
    const end = await (await sessions.reply("s", "thanks")).result;
    expect(adapter.calls[1]?.request.responseFormat).toBeNull();
    expect(end.output).toBeNull();
  });

  test("the result has the type and the conversions of the schema", async () => {
    const { agent } = agentOf("ask", reply);
    const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
    const waits = await sessions.start("refund", { id: "s", output: Refund });
    expectTypeOf(waits).toEqualTypeOf<TurnHandle<{ paid: boolean; on: Date }>>();
    await waits.result;
    const turn = await sessions.reply("s", "this one", { output: Refund });
    const end = await turn.result;
    expectTypeOf(end.output).toEqualTypeOf<{ paid: boolean; on: Date } | null>();
    expect(end.output).toEqual(value);
    expect((await sessions.attach("s", turn.turnId, { output: Refund }).result).output).toEqual(value);
    const untyped = await sessions.attach("s", turn.turnId).result;
    expectTypeOf(untyped.output).toEqualTypeOf<Json>();
    expect(untyped.output).toEqual(JSON.parse(reply));
  });

  const schemas = {
    zod: z.object({ n: z.number() }),
    arktype: type({ n: "number" }),
    valibot: toStandardJsonSchema(valibot.object({ n: valibot.number() })),
    "plain JSON Schema": { type: "object", properties: { n: { type: "number" } }, required: ["n"] },
  } as const;

  test.each(Object.entries(schemas))(
    "a schema of %s is stored as JSON Schema and checked by another process",
    async (_, output) => {
      const host = memoryStorage();
      const scripts = [[says('{"n":"1"}')], [says('{"n":1}')]];
      const accepting = runtime({
        host,
        engines: { default: engine({ adapter: fake({ scripts: [] }), model: "fake:m" }) },
        drive: false,
      });
      const turn = await accepting.start("count", { id: "s", output, repair: 1 });
      const adapter = fake({ scripts });
      const driving = runtime({ host, engines: { default: engine({ adapter, model: "fake:m" }) } });
      await driving.recover();
      const end = await turn.result;
      expect(end.output).toEqual({ n: 1 });
      expect(schemaOf(adapter.calls[0]?.request)).toMatchObject({ type: "object", required: ["n"] });
      expect(adapter.calls).toHaveLength(2);
      expect((await inspection(driving.source).export("s")).data.start.options["output"]).toMatchObject({
        type: "object",
      });
    },
  );

  test("an answer that only the schema of the caller rejects has a failure and no output", async () => {
    const adapter = fake({ script: [says('{"n":1}')] });
    const sessions = runtime({ host: memoryStorage(), engines: { default: engine({ adapter, model: "fake:m" }) } });
    const even = z.object({ n: z.number().refine((n) => n % 2 === 0, "must be even") });
    const end = await (await sessions.start("count", { output: even })).result;
    expect(end).toMatchObject({
      output: null,
      failure: { reason: "invalid_output", issues: [{ path: ["n"], message: "must be even" }] },
    });
  });

  test("JSON that only resembles a Standard Schema is a JSON Schema", async () => {
    const adapter = fake({ scripts: [[says("{}")], [says("{}")]] });
    const sessions = runtime({ host: memoryStorage(), engines: { default: engine({ adapter, model: "fake:m" }) } });
    for (const standard of ["null", '{"jsonSchema":{},"validate":1}']) {
      const output: { readonly [keyword: string]: Json } = JSON.parse(`{"~standard":${standard}}`);
      expect((await (await sessions.start("go", { output })).result).output).toEqual({});
    }
  });

  test("a session from memory continues with its schema", async () => {
    const { agent } = agentOf("pay");
    const waits = await session.start(agent, "refund", { output: Refund });
    const decided = await session.decide(agent, waits.session, "call_0", { type: "approve" });
    const adapter = fake({ scripts: [[says(reply)]] });
    const engines = { default: engine({ adapter, model: "fake:m", tools: [pay] }) };
    const turn = await runtime({ host: memoryStorage(), engines }).start({ ...decided, context: {} });
    expect((await turn.result).output).toEqual(JSON.parse(reply));
  });

  test("a nested turn that asks a question returns its typed output to the handler after the answer", async () => {
    const { agent: inner } = agentOf("ask", reply);
    const delegate = tool({
      name: "delegate",
      description: "Runs the inner agent.",
      schema: {},
      replay: "safe",
      handler: async (_, { runChild }) => {
        const { output } = await runChild(inner, "refund", { output: Refund });
        expectTypeOf(output).toEqualTypeOf<{ paid: boolean; on: Date } | null>();
        return output?.on.getFullYear() ?? null;
      },
    });
    const adapter = fake({ scripts: [[toolCall("delegate")], [says("done")]] });
    const agent = engine({ adapter, model: "fake:m", tools: [delegate] });
    const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
    await (
      await sessions.start("go", { id: "s" })
    ).result;
    await (
      await sessions.reply("s", "this one")
    ).result;
    expect(adapter.calls[1]?.request.messages.at(-1)).toMatchObject({ role: "tool", content: "2026" });
  });

  test("the types follow from the schema", async () => {
    const sessions = runtime({
      host: memoryStorage(),
      engines: { default: engine({ adapter: fake({ scripts: [] }), model: "fake:m" }) },
    });
    expectTypeOf(sessions.start<{ n: number }>).returns.resolves.toEqualTypeOf<TurnHandle<{ n: number }>>();
    const of = {
      arktype: () => sessions.reply("s", "hi", { output: schemas.arktype }),
      valibot: () => sessions.send("s", "hi", { output: schemas.valibot }),
      json: () => sessions.continue("s", null, { output: schemas["plain JSON Schema"] }),
      inline: () => sessions.step("s", { output: { type: "object" } }),
      none: () => sessions.decide("s", "c", { type: "approve" }),
    };
    expectTypeOf(of.arktype).returns.resolves.toEqualTypeOf<TurnHandle<{ n: number }>>();
    expectTypeOf(of.valibot).returns.resolves.toEqualTypeOf<TurnHandle<{ n: number }>>();
    expectTypeOf(of.json).returns.resolves.toEqualTypeOf<TurnHandle>();
    expectTypeOf(of.inline).returns.resolves.toEqualTypeOf<TurnHandle>();
    expectTypeOf(of.none).returns.resolves.toEqualTypeOf<TurnHandle>();
    await sessions.close();
  });
});
