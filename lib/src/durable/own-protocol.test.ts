// Protocols and projectors of one's own in the durable runtime: records over several turns, turns that another process
// continues, and processes that do not have the version of a turn.

import type { Guessing } from "../testing/guessing-protocol.ts";
import type { Engine } from "everturn";
import type { NamedProtocol } from "everturn/advanced";
import type { HostStorage, OpenTurnReplay, TurnFailure } from "everturn/runtime";

import { askUser, engine, fake, tool } from "everturn";
import { chatProtocol, ending, toolCall as modelCall } from "everturn/advanced";
import { inspection } from "everturn/http";
import { memoryStorage, replayOpenTurns, replayTurn, runtime } from "everturn/runtime";
import { describe, expect, test } from "vitest";

import { approved, latch, rejectionOf, says, toolCall } from "../../test/runtime/sessions.ts";
import { protocolNamed } from "../core/engine/internal.ts";
import { counting, guessing } from "../testing/guessing-protocol.ts";

/** An engine as a program in JavaScript makes it: the compiler does not check its fields. */
function uncheckedEngine(fields: { readonly [name: string]: unknown }): Engine {
  return Reflect.apply(engine, undefined, [{ adapter: fake(), model: "fake:m", ...fields }]);
}

type Scripts = NonNullable<NonNullable<Parameters<typeof fake>[0]>["scripts"]>;

function agentOf(scripts: Scripts, fields: Partial<Pick<Engine, "protocol" | "projector" | "tools">> = {}) {
  const adapter = fake({ scripts });
  return { adapter, agent: engine({ adapter, model: "fake:m", protocol: guessing, projector: counting, ...fields }) };
}

const recordOf = (guess: string) => ({ protocol: "guess", event: { guess } });

describe("records", () => {
  test("are kept with the session, passed to the next turn, exported and forked", async () => {
    const host = memoryStorage();
    const { adapter, agent } = agentOf([[says("snow")], [says("rain")], [says("fog")], [says("rain")]]);
    const sessions = runtime({ host, engines: { default: agent } });
    const first = await (await sessions.start("Guess.", { id: "s1" })).result;
    expect(first.outcome).toEqual({ type: "final_value", value: { guess: "rain", tries: 2 } });
    const second = await (await sessions.reply("s1", "Again.")).result;
    expect(second.outcome).toEqual({ type: "final_value", value: { guess: "rain", tries: 4 } });
    expect(adapter.calls.map(({ request }) => request.messages.at(-1)?.content)).toEqual(
      [0, 1, 2, 3].map((count) => `${count} guesses`),
    );
    const view = await sessions.get("s1");
    const all = ["snow", "rain", "fog", "rain"].map(recordOf);
    expect(view?.session.protocolEvents).toEqual(all);

    const record = JSON.parse(JSON.stringify(await inspection(sessions.source).export("s1")));
    expect(record.data.protocolEvents).toEqual(all.slice(0, 2));
    const { result } = await replayTurn(record, { engine: agent });
    expect(result.protocolEvents).toEqual(all.slice(2));
    expect(await rejectionOf(replayTurn(record))).toMatchObject({ failure: { reason: "invalid_engine" } });

    await sessions.fork("s1", { id: "s2" });
    expect((await sessions.get("s2"))?.session.protocolEvents).toEqual(all);
    await sessions.fork("s1", { id: "s3", at: 3 });
    expect((await sessions.get("s3"))?.session.protocolEvents).toEqual(all.slice(0, 2));
  });

  test("are reported to readers with the end of the turn", async () => {
    const { agent } = agentOf([[says("snow")], [says("rain")]]);
    const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
    await (
      await sessions.start("Guess.", { id: "s1" })
    ).result;
    const ends: unknown[] = [];
    for await (const { event } of sessions.events("s1", { follow: false })) {
      if (event.type === "chat_completed") ends.push(event.result.protocolEvents);
    }
    expect(ends).toEqual([[recordOf("snow"), recordOf("rain")]]);
  });

  test("of a single step are kept, too, and the session has the outcome of the protocol", async () => {
    const { agent } = agentOf([[says("rain")], [says("snow")]]);
    const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
    await (
      await sessions.start("Guess.", { id: "s1" })
    ).result;
    const step = await (await sessions.step("s1")).result;
    expect(step.outcome).toEqual({ type: "stop_after" });
    const view = await sessions.get("s1");
    expect(view?.session.status).toBe("idle");
    expect(view?.session.protocolEvents).toEqual([recordOf("rain"), recordOf("snow")]);
  });
});

describe("calls that wait", () => {
  test("are approved by a person, in a later turn", async () => {
    const { agent } = agentOf([[toolCall("work")], [says("rain")]], { tools: [approved] });
    const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
    const first = await (await sessions.start("Guess.", { id: "s1" })).result;
    expect(first.outcome).toEqual({ type: "approval" });
    const second = await (await sessions.decide("s1", "call_0", { type: "approve" })).result;
    expect(second.outcome).toEqual({ type: "final_value", value: { guess: "rain", tries: 1 } });
  });

  test("are answered by a person, in a later turn", async () => {
    const ask = tool({
      name: "ask",
      description: "Asks.",
      schema: { type: "object" },
      handler: () => askUser("Which?", { answerAs: "tool_result" }),
    });
    const { agent } = agentOf([[toolCall("ask")], [says("rain")]], { tools: [ask] });
    const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
    const first = await (await sessions.start("Guess.", { id: "s1" })).result;
    expect(first.outcome).toMatchObject({ type: "ask_user", question: "Which?" });
    const second = await (await sessions.reply("s1", "The short one.")).result;
    expect(second.outcome).toEqual({ type: "final_value", value: { guess: "rain", tries: 1 } });
  });
});

describe("a process without the version of the turn", () => {
  const newer: NamedProtocol<Guessing> = { ...guessing, version: 2, termination: { word: "sun" } };

  test("leaves the turn, reports it, and lists what is missing; a process that has it continues", async () => {
    const host = await openTurn();
    const before = await stateOf(host);
    const { agent, adapter } = agentOf([[says("rain")]], { protocol: newer, tools: [slowTool(() => "done")] });
    expect(await check(host, agent)).toMatchObject([{ status: "missing", missing: ["protocol guess 1"] }]);
    const reports: TurnFailure[] = [];
    const wrong = runtime({ host, engines: { default: agent }, onTurnFailure: (report) => reports.push(report) });
    await wrong.recover();
    const rejection = await rejectionOf(wrong.attach("s1").result);
    expect(rejection).toMatchObject({ failure: { type: "engine_error", reason: "invalid_engine" } });
    expect(String(rejection)).toContain("protocol guess 1");
    expect(reports).toMatchObject([{ sessionId: "s1", status: "left" }]);
    await wrong.close();
    expect(await stateOf(host)).toEqual(before);
    expect(adapter.calls).toHaveLength(0);

    const right = agentOf([[says("rain")]], {
      protocol: { ...newer, earlier: [guessing] },
      tools: [slowTool(() => "done")],
    });
    expect(await check(host, right.agent)).toMatchObject([{ status: "same" }]);
    const sessions = runtime({ host, engines: { default: right.agent } });
    await sessions.recover();
    const end = await sessions.attach("s1").result;
    // The end condition is that of the turn, not of the newer version.
    expect(end.outcome).toEqual({ type: "final_value", value: { guess: "rain", tries: 2 } });
  });

  test("leaves a turn whose projector it does not have", async () => {
    const host = await openTurn();
    const { agent } = agentOf([[says("rain")]], {
      projector: { ...counting, version: 2 },
      tools: [slowTool(() => "done")],
    });
    expect(await check(host, agent)).toMatchObject([{ status: "missing", missing: ["projector counting 1"] }]);
    const earlier = agentOf([], {
      projector: { ...counting, version: 2, earlier: [counting] },
      tools: [slowTool(() => "")],
    });
    expect(await check(host, earlier.agent)).toMatchObject([{ status: "same" }]);
  });

  test("can cancel the turn: the session continues from its last boundary", async () => {
    const host = await openTurn();
    const { agent } = agentOf([[says("sun")]], { protocol: newer, tools: [slowTool(() => "done")] });
    const sessions = runtime({ host, engines: { default: agent } });
    expect(await sessions.cancel("s1", { waitMs: 10_000 })).toBe("cancelled");
    const end = await (await sessions.reply("s1", "Another word.")).result;
    expect(end.outcome).toMatchObject({ type: "final_value", value: { guess: "sun" } });
  });
});

test("a turn whose protocol throws is left at its last commit, and a corrected release continues it", async () => {
  const host = await openTurn();
  const before = await stateOf(host);
  const tools = [slowTool(() => "done")];
  const broken: NamedProtocol<Guessing> = {
    ...guessing,
    handleLlmSuccess: () => {
      throw new Error("a bug");
    },
  };
  const wrong = runtime({ host, engines: { default: agentOf([[says("rain")]], { protocol: broken, tools }).agent } });
  await wrong.recover();
  expect(String(await rejectionOf(wrong.attach("s1").result))).toContain("a bug");
  await wrong.close();
  expect(await stateOf(host)).toEqual(before);
  const corrected = runtime({ host, engines: { default: agentOf([[says("rain")]], { tools }).agent } });
  await corrected.recover();
  expect((await corrected.attach("s1").result).outcome.type).toBe("final_value");
});

function slowTool(handler: () => string | Promise<string>) {
  return tool({ name: "slow", description: "Works.", schema: { type: "object" }, replay: "safe", handler });
}

/** A storage whose session `s1` has an open turn: a recorded guess, and an open call of `slow`. */
async function openTurn(): Promise<HostStorage> {
  const host = memoryStorage();
  const started = latch();
  const slow = slowTool(() => {
    started.open();
    return new Promise<string>(() => undefined);
  });
  const { agent } = agentOf([[says("snow")], [toolCall("slow")]], { tools: [slow] });
  const sessions = runtime({ host, engines: { default: agent } });
  await sessions.start("Guess.", { id: "s1" });
  await started.passed;
  await sessions.close({ graceMs: 0 });
  return host;
}

async function check(host: HostStorage, agent: Engine): Promise<readonly OpenTurnReplay[]> {
  const found: OpenTurnReplay[] = [];
  for await (const report of replayOpenTurns({ host, engines: { default: agent } })) found.push(report);
  return found;
}

/** What is stored of the turn and of its session. */
async function stateOf(host: HostStorage) {
  return host.read(
    (["sessions", "turns", "journal", "entries", "events", "records"] as const).map((table) => ({ table, prefix: [] })),
  );
}

describe("a turn that ends in its first transition", () => {
  const protocolWith = (prepare: NamedProtocol["prepareProtocolIteration"]): NamedProtocol => ({
    ...chatProtocol(),
    name: "short",
    version: 1,
    termination: null,
    prepareProtocolIteration: prepare,
  });
  const finished = { type: "finish", ending: ending({ type: "final_value", value: 1 }) } as const;

  test("is stored with its result, and its readers end", async () => {
    const host = memoryStorage();
    const agent = engine({ adapter: fake(), model: "fake:m", protocol: protocolWith(() => [finished]) });
    const sessions = runtime({ host, engines: { default: agent }, live: false });
    const turn = await sessions.start("Hi", { id: "s" });
    expect(await turn.result).toMatchObject({ status: "ended", outcome: { type: "final_value", value: 1 } });
    const types: string[] = [];
    for await (const { event } of turn.events) types.push(event.type);
    expect(types).toEqual(["turn_started", "chat_completed"]);
    expect(await sessions.get("s")).toMatchObject({ openTurn: null, session: { status: "completed" } });
    expect((await (await sessions.reply("s", "again")).result).status).toBe("ended");
    expect((await sessions.messages("s")).items).toHaveLength(2);
  });

  test("with actions that are not valid fails", async () => {
    const agent = engine({ adapter: fake(), model: "fake:m", protocol: protocolWith(() => []) });
    const sessions = runtime({ host: memoryStorage(), engines: { default: agent }, live: false });
    const { outcome } = await (await sessions.start("Hi", { id: "s" })).result;
    expect(outcome).toMatchObject({ type: "runtime_error", failure: { reason: "invalid_actions" } });
    expect(await sessions.get("s")).toMatchObject({ openTurn: null, session: { status: "error" } });
  });

  const unreadable: readonly (readonly [string, unknown])[] = [
    ["a value that is missing", { ...finished.ending, outcome: { type: "final_value" } }],
    ["a value that is not JSON", { ...finished.ending, outcome: { type: "final_value", value: new Date(0) } }],
    ["a number that is not finite", { ...finished.ending, outcome: { type: "final_value", value: Number.NaN } }],
    ["an unknown outcome", { ...finished.ending, outcome: { type: "won" } }],
    ["pending calls without their fields", { ...finished.ending, pendingToolCalls: [{ id: "c" }] }],
    ["nothing", undefined],
  ];
  test.each(unreadable)("with an ending that has %s fails, and the session can be read", async (_, wrong) => {
    const prepareProtocolIteration = () => [{ type: "finish", ending: wrong }];
    const agent = uncheckedEngine({ protocol: { ...protocolWith(() => []), prepareProtocolIteration } });
    const sessions = runtime({ host: memoryStorage(), engines: { default: agent }, live: false });
    const { outcome } = await (await sessions.start("Hi", { id: "s" })).result;
    expect(outcome).toMatchObject({
      type: "runtime_error",
      failure: { reason: "invalid_actions", message: expect.stringContaining("finish.ending") },
    });
    expect((await sessions.get("s"))?.session.status).toBe("error");
  });
});

test("a turn finds its version in the earlier versions of an earlier version", () => {
  const v1: NamedProtocol<Guessing> = guessing;
  const v2 = { ...guessing, version: 2, earlier: [v1] };
  const v3 = { ...guessing, version: 3, earlier: [v2] };
  const current = engine({ adapter: fake(), model: "fake:m", protocol: v3 });
  expect(protocolNamed(current.protocol, { name: "guess", version: 1 })).toBe(v1);
  expect(protocolNamed(current.protocol, { name: "guess", version: 4 })).toBeNull();
});

test("a turn whose projector returns no request ends with a failure that names the projector", async () => {
  const agent = uncheckedEngine({ projector: { name: "short", version: 3, project: () => ({ messages: [7] }) } });
  const sessions = runtime({ host: memoryStorage(), engines: { default: agent }, live: false });
  const { outcome } = await (await sessions.start("Hi", { id: "s" })).result;
  expect(outcome).toMatchObject({
    type: "runtime_error",
    failure: { reason: "callback_failed", message: expect.stringContaining("the projector short 3") },
  });
});

test("null is no protocol", () => {
  expect(() => uncheckedEngine({ protocol: null })).toThrow("engine: protocol must be an object");
});

test("maxTurns ends a protocol that makes steps without a model call", async () => {
  let runs = 0;
  const work = tool({
    name: "work",
    description: "Works.",
    schema: { type: "object" },
    handler: () => (runs += 1),
  });
  const busy: NamedProtocol = {
    ...chatProtocol(),
    name: "busy",
    version: 1,
    termination: null,
    prepareProtocolIteration: ({ protocolIteration }) => [
      {
        type: "start_tools",
        calls: [
          {
            call: modelCall({ id: `c${protocolIteration}`, name: "work", arguments: {} }),
            slot: 0,
            decision: null,
            idempotencyKey: null,
          },
        ],
      },
    ],
    handleToolResults: () => [
      { type: "advance_protocol_iteration", free: false },
      { type: "start_checkpoint", checkpoint: "after_work", onEmpty: { type: "prepare_iteration" } },
    ],
  };
  const agent = engine({ adapter: fake(), model: "fake:m", tools: [work], protocol: busy });
  const sessions = runtime({ host: memoryStorage(), engines: { default: agent }, live: false });
  const turn = await sessions.start("Go.", { id: "s", maxTurns: 3 });
  expect(await turn.result).toMatchObject({ haltedReason: "max_turns" });
  expect(runs).toBe(3);
});
