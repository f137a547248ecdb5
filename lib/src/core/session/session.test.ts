// The verbs of sessions: start, reply, manual calls, approvals, questions, errors, serialization.

import type { FakeScript, Tool, ToolContext, StepOptions, Session } from "everturn";
import type { CodeExecutor } from "everturn/advanced";

import {
  askUser,
  engine,
  fake,
  tool,
  fromJson,
  fromMessages,
  messageText,
  orThrow,
  newSession,
  toJson,
  user,
  session as sessions,
} from "everturn";
import { sessionError, StreamReducer, validateSession } from "everturn/advanced";
import { describe, expect, test } from "vitest";

import { calls, plain, playing, says } from "../../../test/runs.ts";

const ok = plain("ok", () => "fine");
const own: Tool = { ...plain("own"), manual: true };
const pay = tool({
  name: "pay",
  description: "Pays.",
  schema: { type: "object", properties: { euros: { type: "number" } } },
  needsApproval: true,
  handler: (args) => ({ paid: args }),
});
const texts = ({ thread }: Session) => thread.messages.map(messageText);

/** An argument that the types do not allow. A program without a compiler may pass anything. */
function untyped<T>(value: unknown): T;
function untyped(value: unknown): unknown {
  return value;
}

/** Serializes a session and restores it. */
const stored = <C extends object>(given: Session<C>) => orThrow(fromJson(toJson("session", given), { as: "session" }));

describe("[allm 73] [allm 74] start and reply", () => {
  test("start accepts a session, a thread, messages or text; reply equals continue with a user message", async () => {
    for (const input of [
      "hi",
      [user("hi")],
      fromMessages([user("hi")]),
      newSession({ thread: fromMessages([user("hi")]) }),
    ]) {
      const { session: after } = await sessions.start(playing([says("Hello.")]).engine, input);
      expect([after.status, ...texts(after)]).toEqual(["completed", "hi", "Hello."]);
    }
    const before = newSession({ id: "s1" });
    const options = { requestId: "r" };
    const replied = await sessions.reply(playing([says("A")]).engine, before, "hi", options);
    expect(await sessions.continue(playing([says("A")]).engine, before, user("hi"), options)).toEqual(replied);
  });

  test("start rejects any other input with invalid_session_input, before any model call", async () => {
    const { engine: of, adapter } = playing([says("never")]);
    for (const input of [5, null, undefined, true, {}, { thread: "hi" }, [{ role: "robot", content: "hi" }]]) {
      const message = JSON.stringify(input);
      await expect(sessions.start(of, untyped(input)), message).rejects.toMatchObject({
        failure: { type: "validation_error", reason: "invalid_session_input" },
      });
    }
    expect(adapter.calls).toHaveLength(0);
  });

  test("keeps the id, context and metadata of a session and adds up its usage", async () => {
    const adapter = fake({ scripts: [says("A"), says("B")], usage: { inputTokens: 5 } });
    const of = engine({ adapter });
    const before = newSession({ id: "s1", context: { userId: 1 }, metadata: { topic: "x" } });
    const first = await sessions.reply(engine({ adapter, context: { userId: 0 } }), before, "one");
    expect(first.session).toMatchObject({
      id: "s1",
      context: { userId: 1 },
      metadata: { topic: "x" },
      usage: { inputTokens: 5 },
    });
    const plainSession = newSession({ thread: first.session.thread });
    expect((await sessions.reply(of, plainSession, "two")).session.lastRun).toMatchObject({
      haltedReason: "completed",
      steps: 1,
    });
  });

  test("[allm 81] a streaming verb throws when it is called with invalid input, before any model call", () => {
    const { engine: of, adapter } = playing([]);
    const waiting = newSession({
      status: "awaiting_tools",
      pendingToolCalls: [{ id: "c", name: "own", arguments: {} }],
    });
    expect(() => sessions.streamReply(of, waiting, "hi")).toThrow(/awaiting_tools, with 1 calls that wait/);
    expect(() => sessions.streamStart(of, waiting)).toThrow(/submitToolResult or decide, then call continue/);
    const broken = newSession({
      status: "error",
      metadata: { error: { type: "session_error", reason: "no_pending_tool_call" } },
    });
    expect(() => sessions.streamStep(of, broken)).toThrow(/recover\(session\)/);
    expect(adapter.calls).toHaveLength(0);
  });
});

describe("[allm 60] [allm 61] [allm 78] [allm 79] manual tool calls", () => {
  test("continues the session after their results are submitted", async () => {
    const { engine: of, adapter } = playing([calls("ok", "own"), says("Done.")], [ok, own]);
    const { session: waits, result } = await sessions.start(of, "hi");
    expect(waits).toMatchObject({ status: "awaiting_tools", pendingToolCalls: [{ id: "c1", reason: "manual" }] });
    expect(result.metadata).toMatchObject({ manualTurnIndex: 0, manualToolCalls: [{ id: "c1" }] });
    const answered = sessions.submitToolResult(stored(waits), "c1", { n: 1 });
    expect([answered.status, texts(answered).at(-1)]).toEqual(["idle", '{"n":1}']);
    expect((await sessions.continue(of, answered)).session.status).toBe("completed");
    expect(adapter.calls[1]?.request.messages.map(messageText)).toEqual(["hi", "", "fine", '{"n":1}']);
  });

  test("an unknown call id throws, and nothing of the batch is recorded", async () => {
    const { session: waits } = await sessions.start(playing([calls("own", "own")], [own]).engine, "hi");
    expect(() =>
      sessions.submitToolResults(waits, [
        ["c0", "a"],
        ["c9", "b"],
      ]),
    ).toThrow(/no pending call of this session has the id "c9"/);
    expect(sessions.submitToolResults(waits, [])).toBe(waits);
    const half = sessions.submitToolResult(waits, "c0", "a");
    expect(half.status).toBe("awaiting_tools");
    expect(() => sessions.submitToolResult(half, "c0", "other")).toThrow(/the call "c0" was answered already/);
    await expect(sessions.continue(playing([]).engine, half)).rejects.toThrow(/1 calls that wait/);
  });

  test("with the mode manual every call of the reply is pending", async () => {
    const { session: waits, result } = await sessions.start(playing([calls("ok")], [ok]).engine, "hi", {
      mode: "manual",
    });
    expect(waits.pendingToolCalls).toMatchObject([{ id: "c0" }]);
    expect(result.metadata).toEqual({ manualTurnIndex: 0 });
  });
});

describe("approval of calls", () => {
  const asked = async () => {
    const playingIt = playing([calls("pay"), says("Done.")], [pay]);
    return { ...playingIt, waits: (await sessions.start(playingIt.engine, "hi")).session };
  };

  test("runs an approved call before the next model call", async () => {
    const { engine: of, waits } = await asked();
    expect(waits).toMatchObject({ status: "awaiting_tools", pendingToolCalls: [{ id: "c0", reason: "approval" }] });
    const decided = await sessions.decide(of, stored(waits), "c0", { type: "approve", by: "Ada" });
    expect(decided).toMatchObject({ status: "idle", pendingToolCalls: [{ decision: { type: "approve", by: "Ada" } }] });
    expect(validateSession(decided).ok).toBe(true);
    const { session: after } = await sessions.continue(of, decided);
    expect([after.status, ...texts(after).slice(2)]).toEqual(["completed", '{"paid":{}}', "Done."]);
    expect(after.pendingToolCalls).toEqual([]);
  });

  test("shows the model the reason of a denial", async () => {
    const { engine: of, waits } = await asked();
    const decided = await sessions.decide(of, waits, "c0", { type: "deny", reason: "too dear" });
    const { session: after } = await sessions.continue(of, decided);
    expect(after.thread.messages[2]).toMatchObject({
      role: "tool",
      code: "denied",
      content: expect.stringContaining("too dear"),
    });
  });

  test("an approval with other arguments keeps the call of the model and records the arguments that ran; invalid arguments throw and the call stays pending", async () => {
    const { engine: of, waits } = await asked();
    await expect(sessions.decide(of, waits, "c0", { type: "approve", arguments: { euros: "many" } })).rejects.toThrow(
      /euros/,
    );
    const decided = await sessions.decide(of, waits, "c0", { type: "approve", arguments: { euros: 5 } });
    const { session: after } = await sessions.continue(of, decided);
    expect(after.thread.messages.slice(1, 3)).toMatchObject([
      { toolCalls: [{ arguments: {} }] },
      { ranArguments: { euros: 5 } },
    ]);
    const [, , result] = after.thread.messages;
    expect(result === undefined ? "" : messageText(result)).toMatch(
      /^\[The call was approved with changed arguments: \{"euros":5\}\]\n./,
    );
  });

  test("refuses a result for a call that needs an approval, and an approval for a manual call", async () => {
    const { engine: of, waits } = await asked();
    expect(() => sessions.submitToolResult(waits, "c0", "x")).toThrow(/accepts approve or deny, not result/);
    const { session: manual } = await sessions.start(playing([calls("own")], [own]).engine, "hi");
    await expect(sessions.decide(of, manual, "c0", { type: "approve" })).rejects.toThrow(/accepts result, not approve/);
  });
});

describe("questions of tools", () => {
  const asks = plain("asks", () => askUser("Which?"));
  const wants = plain("wants", () => askUser("What?", { answerAs: "tool_result" }));

  test("the next user message is the answer, and the placeholder stays in the thread", async () => {
    const { engine: of } = playing([calls("asks"), says("Done.")], [asks]);
    const { session: waits } = await sessions.start(of, "hi");
    expect(waits).toMatchObject({ status: "awaiting_user", pendingQuestion: "Which?", pendingToolCallId: "c0" });
    const { session: after } = await sessions.reply(of, stored(waits), "the blue one");
    expect(texts(after)).toEqual(["hi", "", "<awaiting user response>", "Which?", "the blue one", "Done."]);
    expect(after).toMatchObject({ status: "completed", pendingQuestion: null, pendingToolCallId: null });
  });

  test("G19: with answerAs tool_result the answer becomes the result of the call", async () => {
    const { engine: of, adapter } = playing([calls("wants"), says("Done.")], [wants]);
    const { session: waits } = await sessions.start(of, "hi");
    const { session: after } = await sessions.reply(of, stored(waits), "blue");
    expect(adapter.calls[1]?.request.messages.map(messageText)).toEqual(["hi", "", "blue"]);
    expect(adapter.calls[1]?.request.messages.at(-1)).toMatchObject({ role: "tool", toolCallId: "c0" });
    expect(texts(after)).toEqual(["hi", "", "What?", "blue", "Done."]);
    expect(after.status).toBe("completed");
  });

  test("Q4, Q8: asks several questions one after the other and calls the model when all are answered", async () => {
    const { engine: of, adapter } = playing([calls("asks", "wants", "pay"), says("Done.")], [asks, wants, pay]);
    const first = await sessions.start(of, "hi");
    expect(first.session).toMatchObject({ status: "awaiting_user", pendingQuestion: "Which?" });
    const second = await sessions.reply(of, first.session, "blue");
    expect(second.session).toMatchObject({
      status: "awaiting_user",
      pendingQuestion: "What?",
      pendingToolCallId: "c1",
    });
    const third = await sessions.reply(of, second.session, "that");
    expect(third).toMatchObject({
      session: { status: "awaiting_tools" },
      result: { haltedReason: "approval", steps: [] },
    });
    expect(adapter.calls).toHaveLength(1);
    const decided = await sessions.decide(of, third.session, "c2", { type: "approve" });
    expect((await sessions.continue(of, decided)).session.status).toBe("completed");
  });

  test("accepts the answer to a question and decisions about calls in any order", async () => {
    const { engine: of } = playing([calls("asks", "own"), says("Done.")], [asks, own]);
    const { session: waits } = await sessions.start(of, "hi");
    expect(waits).toMatchObject({ status: "awaiting_user", pendingToolCalls: [{ id: "c1" }] });
    const submitted = sessions.submitToolResult(waits, "c1", "x");
    expect(submitted).toMatchObject({ status: "awaiting_user", pendingQuestion: "Which?" });
    expect((await sessions.reply(of, submitted, "blue")).session.status).toBe("completed");
  });
});

describe("[allm 40] [allm 80] the context of tool handlers", () => {
  test("has the id and context of the session; options of the call take precedence", async () => {
    const seen: unknown[] = [];
    const looks = tool({
      name: "looks",
      description: "Looks.",
      schema: { type: "object" },
      handler: (_, { context, sessionId }: ToolContext) => void seen.push([sessionId, context]),
    });
    const of = () => playing([calls("looks"), says("ok")], [looks]).engine;
    const before = newSession({ id: "s1", context: { from: "session" }, thread: fromMessages([user("hi")]) });
    await sessions.start(of(), before);
    await sessions.start(of(), before, { context: { from: "call" }, sessionId: "other" });
    expect(seen).toEqual([
      ["s1", { from: "session" }],
      ["other", { from: "call" }],
    ]);
  });

  test("G20: a session without a context uses the context of the engine", async () => {
    const seen: unknown[] = [];
    const looks = tool({
      name: "looks",
      description: "Looks.",
      schema: { type: "object" },
      handler: (_, { context }: ToolContext) => void seen.push(context),
    });
    const of = engine({
      adapter: fake({ scripts: [calls("looks"), says("ok")] }),
      tools: [looks],
      context: { from: "engine" },
    });
    await sessions.start(of, "hi");
    expect(seen).toEqual([{ from: "engine" }]);
  });
});

describe("[allm 82] StreamReducer", () => {
  test("computes the session after a stream, and finalize is idempotent", async () => {
    const before = newSession({ id: "s1", thread: fromMessages([user("hi")]) });
    const reducer = new StreamReducer(before);
    for await (const event of sessions.streamStart(playing([says("Hello.")]).engine, before)) reducer.add(event);
    expect(reducer.finalize().session).toMatchObject({ status: "completed", id: "s1" });
    expect(reducer.finalize()).toEqual(reducer.finalize());
  });

  test("with the mode step computes the session after one step", async () => {
    const before = newSession({ thread: fromMessages([user("hi")]) });
    const reducer = new StreamReducer(before, { mode: "step" });
    for await (const event of sessions.streamStep(playing([calls("ok")], [ok]).engine, before)) reducer.add(event);
    const { session: after, result } = reducer.finalizeStep();
    expect([after.status, result.done, texts(after)]).toEqual(["idle", false, ["hi", "", "fine"]]);
    expect(reducer.finalizeStep()).toEqual({ session: after, result });
  });

  test("reports an abandoned stream as cancelled, and leaves the session unchanged if a step did not end", () => {
    const before = newSession({ thread: fromMessages([user("hi")]) });
    const left = new StreamReducer(before).finalize();
    expect(left).toMatchObject({ session: { status: "idle" }, result: { haltedReason: "cancelled" } });
    const single = new StreamReducer(before, { mode: "step" });
    expect(single.finalizeStep().session).toBe(before);
    const mode: "chat" = JSON.parse('"both"');
    expect(() => new StreamReducer(before, { mode })).toThrow(/"chat" or "step"/);
  });

  test("G22: keeps the user message if the stream of a reply is abandoned", async () => {
    const { engine: of } = playing([
      [
        { type: "text", text: "Hel" },
        { type: "text", text: "lo" },
      ],
    ]);
    const events = sessions.streamReply(of, newSession(), "hi");
    for await (const event of events) if (event.type === "text_delta") break;
    const { session: after } = await events.result;
    expect([after.status, ...texts(after)]).toEqual(["idle", "hi", "Hel"]);
    expect(after.lastRun?.haltedReason).toBe("cancelled");
  });
});

describe("G23: a session in the status error", () => {
  test("throws for every verb until recover is called, and then continues", async () => {
    const { engine: of } = playing([[{ type: "error", reason: "invalid_request" }], says("Hello.")]);
    const { session: failed } = await sessions.start(of, "hi");
    expect(failed).toMatchObject({ status: "error", metadata: { error: { reason: "invalid_request" } } });
    await expect(sessions.reply(of, failed, "again")).rejects.toMatchObject({ reason: "session_in_error_state" });
    const recovered = sessions.recover(stored(failed));
    expect(recovered).toMatchObject({ status: "idle", metadata: {} });
    expect((await sessions.reply(of, recovered, "again")).session.status).toBe("completed");
  });
});

describe("[allm 84] [allm 123] G17: a session after serialization", () => {
  test("continues like the original, pending calls included", async () => {
    const scripts = [calls("ok"), says("Done."), says("More.")];
    const here = playing(scripts, [ok]);
    const { session: before } = await sessions.start(here.engine, "hi", { requestId: "r1" });
    const there = playing([says("More.")], [ok]);
    const stayed = await sessions.reply(here.engine, before, "and?", { requestId: "r2" });
    const moved = await sessions.reply(there.engine, stored(before), "and?", { requestId: "r2" });
    expect(moved.session.thread).toEqual(stayed.session.thread);
    expect(there.adapter.calls[0]?.request.messages).toEqual(here.adapter.calls[2]?.request.messages);
  });

  test("Q5: resumes a suspended code cell in another process", async () => {
    const runs: number[] = [];
    const executor: CodeExecutor = {
      name: "scripted",
      version: "1",
      language: "javascript",
      run: ({ calls: made }) => {
        runs.push(made.length);
        return Promise.resolve(
          made.length === 0
            ? { type: "calls", calls: [{ name: "pay", arguments: { euros: 5 } }] }
            : { type: "finished", observations: [], error: null, finish: { type: "value", value: 1 } },
        );
      },
    };
    const protocol = { type: "code", executor } as const;
    const { session: waits } = await sessions.start(
      playing([says("```js\npay()\n```")], [pay], { protocol }).engine,
      "hi",
    );
    expect(waits).toMatchObject({ status: "awaiting_tools", suspendedCell: { code: "pay()" } });
    const elsewhere = playing([], [pay], { protocol }).engine;
    const [call] = waits.pendingToolCalls;
    const decided = await sessions.decide(elsewhere, stored(waits), call?.id ?? "", { type: "approve" });
    const withoutExecutor = playing([], [pay]);
    await expect(sessions.continue(withoutExecutor.engine, decided)).rejects.toMatchObject({
      name: "EngineError",
      reason: "invalid_engine",
      message: expect.stringMatching(/suspended code cell .* no code executor/),
    });
    expect(() => sessions.streamContinue(withoutExecutor.engine, decided)).toThrow(/no code executor/);
    const { session: after, result } = await sessions.continue(elsewhere, decided);
    expect(result.outcome).toEqual({ type: "final_value", value: 1 });
    expect(after).toMatchObject({ status: "completed", suspendedCell: null });
    expect(runs).toEqual([0, 1]);
  });
});

test("G21: lastRun holds the details of the latest run only", async () => {
  const halts = plain("asks", () => askUser("Which?", { choices: [1] }));
  const { engine: of } = playing([calls("asks"), says("Done.")], [halts]);
  const { session: waits } = await sessions.start(of, "hi");
  expect(waits.lastRun?.metadata).toMatchObject({ askUserOpts: { choices: [1] } });
  expect(waits.metadata).toEqual({});
  expect((await sessions.reply(of, waits, "x")).session.lastRun?.metadata).toEqual({});
});

test("[allm 77] every outcome of a step has its status", async () => {
  const stepped = async (script: FakeScript, tools: readonly Tool[], options: StepOptions = {}) => {
    const of = playing([script], tools, { retry: false }).engine;
    return (await sessions.step(of, newSession({ thread: fromMessages([user("hi")]) }), options)).session;
  };
  const boom = plain("boom", () => {
    throw new Error("boom");
  });
  expect(await stepped(calls("asks"), [plain("asks", () => askUser("Which?"))])).toMatchObject({
    status: "awaiting_user",
    pendingQuestion: "Which?",
  });
  const failed = await stepped(calls("boom"), [boom], { onToolError: "halt" });
  expect([failed.status, sessionError(failed)?.message]).toEqual(["error", "boom"]);
  expect(await stepped(calls("ok", "own"), [ok, own])).toMatchObject({
    status: "awaiting_tools",
    pendingToolCalls: [{ id: "c1" }],
  });
  expect(await stepped(calls("ok"), [ok], { mode: "manual" })).toMatchObject({
    status: "awaiting_tools",
    pendingToolCalls: [{ id: "c0" }],
  });
  const cut = await stepped(
    [
      { type: "text", text: "Hel" },
      { type: "error", reason: "invalid_request" },
    ],
    [],
  );
  expect([cut.status, sessionError(cut)]).toMatchObject(["error", { reason: "invalid_request" }]);
});

test("[allm 77] step sets the status of the session from the result of the step", async () => {
  const { engine: of } = playing([calls("ok"), says("Done.")], [ok]);
  const first = await sessions.step(of, newSession({ thread: fromMessages([user("hi")]) }));
  expect(first).toMatchObject({ session: { status: "idle" }, result: { done: false } });
  const second = await sessions.step(of, first.session);
  expect(second).toMatchObject({ session: { status: "completed" }, result: { done: true } });
});
