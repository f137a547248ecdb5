// The documentation pages 000 to 003 of ALLM, from which the interface is derived: every `iex>` example with the values
// it shows, then two tables of the behaviour of page 001, one test for each cell. A title states an intended
// difference.

import type { Engine, FakeScript, Session, Tool, TurnEvent, SessionStatus } from "everturn";

import {
  askUser,
  chat,
  engine,
  fake,
  halt,
  step,
  stream,
  streamStep,
  tool,
  withModel,
  assistant,
  fromMessages,
  modelRef,
  newSession,
  system,
  toolResult,
  user,
  session as sessions,
} from "everturn";
import {
  isHalted,
  mergeOpts,
  putContext,
  putParam,
  putTool,
  putTools,
  resolveModel,
  resolveParams,
  resolveTools,
  adapterFailure,
  chatResult,
  messages,
  sessionError,
  toolCall,
  applyChatResult,
} from "everturn/advanced";
import { describe, expect, test } from "vitest";

import { awaitingUserContent, sessionStatuses } from "../src/core/model/internal.ts";

const callsEcho: FakeScript = [
  { type: "tool_call", id: "c0", name: "echo", arguments: { x: 1 } },
  { type: "finish", reason: "tool_calls" },
];

function says(text: string): FakeScript {
  return [
    { type: "text", text },
    { type: "finish", reason: "stop" },
  ];
}

function engineOf(scripts: readonly FakeScript[], tools: readonly Tool[] = []): Engine {
  return engine({ adapter: fake({ scripts }), tools });
}

async function eventsOf(events: AsyncIterable<TurnEvent>): Promise<readonly TurnEvent[]> {
  const read: TurnEvent[] = [];
  for await (const event of events) read.push(event);
  return read;
}

function countOf(events: readonly TurnEvent[], type: TurnEvent["type"]): number {
  return events.filter((event) => event.type === type).length;
}

function namesOf(tools: readonly Tool[]): readonly string[] {
  return tools.map(({ name }) => name);
}

describe("examples of page 000: chat", () => {
  const echo = tool({ name: "echo", description: "", schema: {}, handler: (args) => args });
  const thread = fromMessages([user("echo please")]);

  test("run, here chat: a tool call and an answer are two steps of a completed run", async () => {
    const result = await chat(engineOf([callsEcho, says("done")], [echo]), thread);
    expect(result.haltedReason).toBe("completed");
    expect(result.steps).toHaveLength(2);
  });

  test("step: a reply with a tool call is a step that is not done, with one result", async () => {
    const result = await step(engineOf([callsEcho], [echo]), thread);
    expect(result.done).toBe(false);
    expect(result.toolResults).toHaveLength(1);
  });

  test("stream: emits chat_completed once", async () => {
    const events = await eventsOf(stream(engineOf([callsEcho, says("done")], [echo]), thread));
    expect(countOf(events, "chat_completed")).toBe(1);
  });

  test("stream_step: emits step_completed", async () => {
    const events = await eventsOf(streamStep(engineOf([callsEcho], [echo]), thread));
    expect(events.some(({ type }) => type === "step_completed")).toBe(true);
  });
});

describe("examples of page 001: session", () => {
  test("continue: a session that continues with a message is completed again", async () => {
    const talks = engineOf([says("first"), says("second")]);
    const { session: first } = await sessions.start(talks, [user("hi")]);
    const { session: second } = await sessions.continue(talks, first, user("more"));
    expect(second.status).toBe("completed");
  });

  test("reply: the session has more messages than before", async () => {
    const talks = engineOf([says("ok"), says("again")]);
    const { session: first } = await sessions.start(talks, [user("hi")]);
    const { session: second } = await sessions.reply(talks, first, "again");
    expect(messages(second).length).toBeGreaterThan(messages(first).length);
  });

  test("start: an answer completes the session", async () => {
    const { session: begun, result } = await sessions.start(engineOf([says("hi")]), [user("hello")]);
    expect(begun.status).toBe("completed");
    expect(result.haltedReason).toBe("completed");
  });

  test("step: an answer is a step that is done, and completes the session", async () => {
    const idle = newSession({ thread: fromMessages([user("hi")]) });
    const { session: stepped, result } = await sessions.step(engineOf([says("hi")]), idle);
    expect(result.done).toBe(true);
    expect(stepped.status).toBe("completed");
  });

  test("stream_reply: emits chat_completed once", async () => {
    const talks = engineOf([says("ok"), says("again")]);
    const { session: first } = await sessions.start(talks, [user("hi")]);
    const events = await eventsOf(sessions.streamReply(talks, first, "again"));
    expect(countOf(events, "chat_completed")).toBe(1);
  });

  test("stream_start: emits chat_completed once", async () => {
    const events = await eventsOf(sessions.streamStart(engineOf([says("hi")]), [user("hello")]));
    expect(countOf(events, "chat_completed")).toBe(1);
  });

  test("stream_step: emits step_completed once", async () => {
    const idle = newSession({ thread: fromMessages([user("hi")]) });
    const events = await eventsOf(sessions.streamStep(engineOf([says("hi")]), idle));
    expect(countOf(events, "step_completed")).toBe(1);
  });

  test("submit_tool_result: the last result makes the session idle without pending calls", () => {
    const waiting = newSession({
      status: "awaiting_tools",
      pendingToolCalls: [toolCall({ id: "c0", name: "echo", arguments: {} })],
      thread: fromMessages([user("hi")]),
    });
    const updated = sessions.submitToolResult(waiting, "c0", { ok: true });
    expect(updated.status).toBe("idle");
    expect(updated.pendingToolCalls).toEqual([]);
  });

  test("submit_tool_results: the results of all calls make the session idle without pending calls", () => {
    const waiting = newSession({
      status: "awaiting_tools",
      pendingToolCalls: [
        toolCall({ id: "c0", name: "echo", arguments: {} }),
        toolCall({ id: "c1", name: "echo", arguments: {} }),
      ],
      thread: fromMessages([user("hi")]),
    });
    const updated = sessions.submitToolResults(waiting, [
      ["c0", "r0"],
      ["c1", "r1"],
    ]);
    expect(updated.status).toBe("idle");
    expect(updated.pendingToolCalls).toEqual([]);
  });
});

describe("examples of page 002: engine", () => {
  const a = tool({ name: "a", description: "a", schema: {} });
  const b = tool({ name: "b", description: "b", schema: {} });
  const c = tool({ name: "c", description: "c", schema: {} });

  test("merge_opts: the engine has the model, the tools and the params of the call", () => {
    const merged = mergeOpts(putTool(engine({ model: "old" }), a), {
      model: "new",
      tools: [b],
      params: { temperature: 0.9 },
    });
    expect(merged.model).toBe("new");
    expect(namesOf(merged.tools)).toEqual(["a", "b"]);
    expect(merged.params).toEqual({ temperature: 0.9 });
  });

  test("new, here engine: has the given adapter and model, and no tools", () => {
    const adapter = fake();
    const made = engine({ adapter, model: "fake:m" });
    expect(made.adapter).toBe(adapter);
    expect(made.model).toBe("fake:m");
    expect(made.tools).toEqual([]);
  });

  test("put_context: the entry is in the context", () => {
    expect(putContext(engine(), "userId", 42).context).toEqual({ userId: 42 });
  });

  test("put_param: the entry is in the params", () => {
    expect(putParam(engine(), "temperature", 0.7).params).toEqual({ temperature: 0.7 });
  });

  test("put_tool: the engine has the tool", () => {
    const echo = tool({ name: "echo", description: "echo", schema: {} });
    expect(namesOf(putTool(engine(), echo).tools)).toEqual(["echo"]);
  });

  test("put_tools: the engine has the tools in their order", () => {
    expect(namesOf(putTools(engine(), [a, b]).tools)).toEqual(["a", "b"]);
  });

  test("resolve_model: the call takes precedence over the engine; a provider and id are a modelRef here, which is unchanged", () => {
    const made = engine({ model: "fake:m" });
    expect(resolveModel(made, {})).toBe("fake:m");
    expect(resolveModel(made, { model: "override" })).toBe("override");
    const pair = modelRef({ provider: "openai", id: "gpt-x" });
    expect(resolveModel(engine({ model: pair }), {})).toEqual(pair);
  });

  test("resolve_params: the call takes precedence, the model is not a param, and unknown params are kept", () => {
    const made = engine({ params: { temperature: 0.2, topP: 1 } });
    expect(resolveParams(made, { temperature: 0.7 })).toEqual({ temperature: 0.7, topP: 1 });
    expect(resolveParams(made, { model: "x", reasoningEffort: "high" })).toEqual({
      temperature: 0.2,
      topP: 1,
      reasoningEffort: "high",
    });
  });

  test("resolve_tools: a tool of the call replaces the one of the same name, and new tools are appended", () => {
    const otherB = tool({ name: "b", description: "override", schema: {} });
    const d = tool({ name: "d", description: "d", schema: {} });
    const resolved = resolveTools(putTools(engine(), [a, b, c]), { tools: [otherB, d] });
    expect(namesOf(resolved)).toEqual(["a", "b", "c", "d"]);
    expect(resolved[1]).toBe(otherB);
  });

  test("with_model: the engine has the new model", () => {
    expect(withModel(engine({ model: "old" }), "new").model).toBe("new");
  });
});

// A result is made from its outcome, which also says what `haltedReason` is.
describe("examples of page 003: chat result", () => {
  const answered = chatResult({ type: "assistant_message", text: "" });

  test("halted?, here isHalted: a completed run is not halted", () => {
    expect(isHalted(answered)).toBe(false);
  });

  test("halted?, here isHalted: a run that used all its turns is halted", () => {
    expect(isHalted(chatResult({ type: "max_turns", maxTurns: 8 }))).toBe(true);
  });

  test("new, here chatResult with an outcome instead of a reason: an answer is completed, without steps", () => {
    expect(answered.haltedReason).toBe("completed");
    expect(answered.steps).toEqual([]);
  });
});

describe("[allm 75] which verbs a status allows", () => {
  type Verdict = "goes through" | "throws MisuseError" | "throws SessionError";

  const yes: Verdict = "goes through";
  const misuse: Verdict = "throws MisuseError";
  const failed: Verdict = "throws SessionError";

  const refusals = {
    "throws MisuseError": { name: "MisuseError", reason: "invalid_status" },
    "throws SessionError": { name: "SessionError", reason: "session_in_error_state" },
  };

  const verbs = ["start", "reply", "continue(message)", "continue(null)", "step", "submitToolResults"] as const;
  type Verb = (typeof verbs)[number];

  // Two cells depend on more than the status. Here the message is a user's, and calls do wait; the other halves follow
  // the table.
  const matrix: { readonly [S in SessionStatus]: { readonly [V in Verb]: Verdict } } = {
    idle: {
      start: yes,
      reply: yes,
      "continue(message)": yes,
      "continue(null)": yes,
      step: yes,
      submitToolResults: misuse,
    },
    completed: {
      start: yes,
      reply: yes,
      "continue(message)": yes,
      "continue(null)": yes,
      step: yes,
      submitToolResults: misuse,
    },
    awaiting_user: {
      start: misuse,
      reply: yes,
      "continue(message)": yes,
      "continue(null)": misuse,
      step: misuse,
      submitToolResults: misuse,
    },
    awaiting_tools: {
      start: misuse,
      reply: misuse,
      "continue(message)": misuse,
      "continue(null)": misuse,
      step: misuse,
      submitToolResults: yes,
    },
    error: {
      start: failed,
      reply: failed,
      "continue(message)": failed,
      "continue(null)": failed,
      step: failed,
      submitToolResults: failed,
    },
  };

  const call = toolCall({ id: "c0", name: "echo", arguments: {} });
  const called = [user("hi"), assistant("", { toolCalls: [call] })];
  const question = { pendingQuestion: "Which city?", pendingToolCallId: "c0" };
  const asked = [...called, toolResult("c0", awaitingUserContent), assistant("Which city?")];

  const inStatus: { readonly [S in SessionStatus]: Session } = {
    idle: newSession({ thread: fromMessages([user("hi")]) }),
    completed: newSession({ status: "completed", thread: fromMessages([user("hi"), assistant("Hello.")]) }),
    awaiting_user: newSession({ status: "awaiting_user", ...question, thread: fromMessages(asked) }),
    awaiting_tools: newSession({ status: "awaiting_tools", pendingToolCalls: [call], thread: fromMessages(called) }),
    error: newSession({
      status: "error",
      thread: fromMessages([user("hi")]),
      metadata: { error: { ...adapterFailure("timeout") } },
    }),
  };

  /** A verb, and its twin, which has to refuse before there is a stream. */
  type Driven = {
    readonly run: (engine: Engine, session: Session) => Promise<Session>;
    readonly twin: (engine: Engine, session: Session) => Session | Promise<Session>;
  };

  const sessionOf = ({ session }: { readonly session: Session }): Session => session;

  const attempts: { readonly [V in Verb]: Driven } = {
    start: {
      run: async (engine, session) => sessionOf(await sessions.start(engine, session)),
      twin: (engine, session) => sessions.streamStart(engine, session).result.then(sessionOf),
    },
    reply: {
      run: async (engine, session) => sessionOf(await sessions.reply(engine, session, "more")),
      twin: (engine, session) => sessions.streamReply(engine, session, "more").result.then(sessionOf),
    },
    "continue(message)": {
      run: async (engine, session) => sessionOf(await sessions.continue(engine, session, user("more"))),
      twin: (engine, session) => sessions.streamContinue(engine, session, user("more")).result.then(sessionOf),
    },
    "continue(null)": {
      run: async (engine, session) => sessionOf(await sessions.continue(engine, session, null)),
      twin: (engine, session) => sessions.streamContinue(engine, session, null).result.then(sessionOf),
    },
    step: {
      run: async (engine, session) => sessionOf(await sessions.step(engine, session)),
      twin: (engine, session) => sessions.streamStep(engine, session).result.then(sessionOf),
    },
    submitToolResults: {
      run: async (_, session) => sessions.submitToolResults(session, [["c0", "r0"]]),
      twin: (_, session) => sessions.submitToolResult(session, "c0", "r0"),
    },
  };

  /**
   * Tries the verb and its twin. A refusal comes before the model is asked; what goes through has asked it once each,
   * unless it only records.
   */
  async function expectVerdict(given: Session, verb: Verb, verdict: Verdict): Promise<void> {
    const adapter = fake({ scripts: [says("ok"), says("ok")] });
    const talks = engine({ adapter });
    const { run, twin } = attempts[verb];
    if (verdict !== "goes through") {
      const refusal = expect.objectContaining(refusals[verdict]);
      await expect(run(talks, given)).rejects.toThrow(refusal);
      expect(() => twin(talks, given)).toThrow(refusal);
      expect(adapter.calls).toHaveLength(0);
      return;
    }
    const rests = { pendingToolCalls: [], pendingQuestion: null, pendingToolCallId: null };
    const records = verb === "submitToolResults";
    const after = { ...rests, status: records ? "idle" : "completed" };
    expect(await run(talks, given)).toMatchObject(after);
    expect(await twin(talks, given)).toMatchObject(after);
    expect(adapter.calls).toHaveLength(records ? 0 : 2);
  }

  const cells = sessionStatuses.flatMap((status) => verbs.map((verb) => [status, verb, matrix[status][verb]] as const));

  test.each(cells)("%s: %s %s", async (status, verb, verdict) => {
    await expectVerdict(inStatus[status], verb, verdict);
  });

  test("idle and completed: continue accepts a message of another role", async () => {
    for (const given of [inStatus.idle, inStatus.completed]) {
      const { session: after } = await sessions.continue(engineOf([says("ok")]), given, system("Be brief."));
      expect(after.status).toBe("completed");
    }
  });

  test("awaiting_user: continue with a message of another role throws MisuseError", async () => {
    const refusal = expect.objectContaining(refusals["throws MisuseError"]);
    for (const message of [system("Be brief."), assistant("Paris"), toolResult("c0", "Paris")]) {
      await expect(sessions.continue(engineOf([]), inStatus.awaiting_user, message)).rejects.toThrow(refusal);
    }
  });

  test("awaiting_user with pending calls (an addition): submitToolResults is accepted, and the question stays", () => {
    const both = newSession({
      ...inStatus.awaiting_user,
      pendingToolCalls: [toolCall({ id: "c1", name: "pay", arguments: {} })],
    });
    expect(sessions.submitToolResults(both, [["c1", "r1"]])).toMatchObject({
      ...question,
      status: "awaiting_user",
      pendingToolCalls: [],
    });
  });

  test("awaiting_tools without undecided calls: continue(null) is accepted", async () => {
    const thread = fromMessages([...called, toolResult("c0", "r0")]);
    await expectVerdict(newSession({ status: "awaiting_tools", thread }), "continue(null)", yes);
  });

  test("awaiting_tools without undecided calls: continue(message) throws MisuseError", async () => {
    const thread = fromMessages([...called, toolResult("c0", "r0")]);
    await expectVerdict(newSession({ status: "awaiting_tools", thread }), "continue(message)", misuse);
  });

  test.each(sessionStatuses)("%s: submitToolResults without results returns the session itself", (status) => {
    expect(sessions.submitToolResults(inStatus[status], [])).toBe(inStatus[status]);
  });

  test("awaiting_tools: submitToolResults for an unknown call throws SessionError that names it", () => {
    expect(() => sessions.submitToolResults(inStatus.awaiting_tools, [["c9", "r9"]])).toThrow(
      expect.objectContaining({
        name: "SessionError",
        reason: "unknown_tool_call_id",
        failure: expect.objectContaining({ metadata: { toolCallId: "c9" } }),
      }),
    );
  });

  test("awaiting_tools: a batch with an unknown call records nothing", () => {
    const given = inStatus.awaiting_tools;
    const batch = [
      ["c0", "r0"],
      ["c9", "r9"],
    ] as const;
    expect(() => sessions.submitToolResults(given, batch)).toThrow(
      expect.objectContaining({ reason: "unknown_tool_call_id" }),
    );
    expect(given).toMatchObject({ status: "awaiting_tools", pendingToolCalls: [{ id: "c0" }] });
    expect(messages(given)).toHaveLength(2);
  });
});

describe("[allm 76] the session after a run or a step", () => {
  const tools = [
    tool({ name: "echo", description: "", schema: {}, handler: (args) => args }),
    tool({ name: "ask", description: "", schema: {}, handler: () => askUser("Which city?") }),
    tool({ name: "stop", description: "", schema: {}, handler: () => halt("enough", 1) }),
    tool({ name: "pay", description: "", schema: {}, manual: true }),
    tool({
      name: "break",
      description: "",
      schema: {},
      handler: () => {
        throw new Error("broken");
      },
    }),
  ];

  /** An engine whose model first calls these tools, `c0` and on, and then says that it is done. */
  function calling(...names: readonly string[]): Engine {
    const calls = names.map((name, index): FakeScript[number] => ({ type: "tool_call", id: `c${index}`, name }));
    return engineOf([calls, says("done")], tools);
  }

  const breaksOff: FakeScript = [
    { type: "text", text: "Well" },
    { type: "error", reason: "content_filter", message: "no more" },
  ];

  const throws = (): never => {
    throw new Error("policy");
  };

  // What was there before, and has to be kept or cleared.
  const before = newSession({
    id: "s1",
    thread: fromMessages([user("hi")]),
    pendingQuestion: "an old question",
    pendingToolCallId: "an old call",
    metadata: { tenant: "t1" },
  });

  const idsOf = ({ pendingToolCalls }: Session): readonly string[] => pendingToolCalls.map(({ id }) => id);

  describe("applyChatResult", () => {
    test("takes the thread of the result, clears pending calls, keeps the metadata of the session, and puts that of the result into lastRun (a difference)", async () => {
      const { session: after, result } = await sessions.start(calling("stop"), before);
      expect(after.thread).toEqual(result.thread);
      expect(after).toMatchObject({ id: "s1", pendingQuestion: null, pendingToolCallId: null, pendingToolCalls: [] });
      expect(after.metadata).toEqual({ tenant: "t1" });
      expect(after.lastRun?.metadata).toEqual(result.metadata);
    });

    test("ask_user: awaiting_user, with the question and its call", async () => {
      const { session: after, result } = await sessions.start(calling("ask"), before);
      expect(result.haltedReason).toBe("ask_user");
      expect(after).toMatchObject({
        status: "awaiting_user",
        pendingQuestion: "Which city?",
        pendingToolCallId: "c0",
        pendingToolCalls: [],
      });
    });

    test("manual_tool_calls of manual tools: awaiting_tools, with these calls only", async () => {
      const { session: after, result } = await sessions.start(calling("echo", "pay"), before);
      expect(result.haltedReason).toBe("manual_tool_calls");
      expect(after.status).toBe("awaiting_tools");
      expect(idsOf(after)).toEqual(["c1"]);
    });

    test("manual_tool_calls in manual mode: awaiting_tools, with all calls of the reply", async () => {
      const { session: after, result } = await sessions.start(calling("echo", "pay"), before, { mode: "manual" });
      expect(result.haltedReason).toBe("manual_tool_calls");
      expect(after.status).toBe("awaiting_tools");
      expect(idsOf(after)).toEqual(["c0", "c1"]);
    });

    test("manual_tool_calls without calls: awaiting_tools, without pending calls", () => {
      const after = applyChatResult(before, chatResult({ type: "manual_tool_calls" }));
      expect(after).toMatchObject({ status: "awaiting_tools", pendingToolCalls: [] });
    });

    test("tool_error: error, with the failure of the tool and not all metadata (a difference)", async () => {
      const { session: after, result } = await sessions.start(calling("break"), before, { onToolError: "halt" });
      expect(result.haltedReason).toBe("tool_error");
      expect(after.status).toBe("error");
      expect(sessionError(after)).toMatchObject({ type: "tool_error", reason: "handler_raised", message: "broken" });
    });

    test("tool_error because onToolError threw: error, with the thrown error as its cause (a difference)", async () => {
      const { session: after, result } = await sessions.start(calling("break"), before, { onToolError: throws });
      expect(result.haltedReason).toBe("tool_error");
      expect(after.status).toBe("error");
      expect(sessionError(after)?.cause).toMatchObject({ name: "Error", message: "policy" });
    });

    test("error: error, with the error of the result", async () => {
      const { session: after, result } = await sessions.start(engineOf([breaksOff]), before);
      expect(result.haltedReason).toBe("error");
      expect(after.status).toBe("error");
      expect(sessionError(after)).toMatchObject({ type: "adapter_error", reason: "content_filter" });
      expect(sessionError(after)).toEqual(result.metadata.error);
    });

    test("completed: completed", async () => {
      const { session: after, result } = await sessions.start(calling("echo"), before);
      expect(result.haltedReason).toBe("completed");
      expect(after.status).toBe("completed");
    });

    test("max_turns: completed", async () => {
      const { session: after, result } = await sessions.start(calling("echo"), before, { maxTurns: 1 });
      expect(result.haltedReason).toBe("max_turns");
      expect(after.status).toBe("completed");
    });

    test("halt_when: completed", async () => {
      const { session: after, result } = await sessions.start(calling("echo"), before, { haltWhen: () => true });
      expect(result.haltedReason).toBe("halt_when");
      expect(after.status).toBe("completed");
    });

    // We say `idle`; no page says that this is on purpose.
    test("cancelled: idle, not completed, and the user message stays", async () => {
      const { session: after } = await sessions.start(calling("echo"), before, { signal: AbortSignal.abort() });
      expect(after.status).toBe("idle");
    });

    test("a reason of a tool: completed", async () => {
      const { session: after, result } = await sessions.start(calling("stop"), before);
      expect(result.haltedReason).toBe("enough");
      expect(after.status).toBe("completed");
    });
  });

  describe("applyStepResult", () => {
    test("takes the thread of the result, clears pending calls, and keeps the metadata of the session", async () => {
      const { session: after, result } = await sessions.step(calling("stop"), before);
      expect(after.thread).toEqual(result.thread);
      expect(after).toMatchObject({ id: "s1", pendingQuestion: null, pendingToolCallId: null, pendingToolCalls: [] });
      expect(after.metadata).toEqual({ tenant: "t1" });
    });

    // In ALLM they are not in the session after a step, and `lastRun` still describes the run before.
    test("puts the halt details of the result into lastRun", async () => {
      const { session: after } = await sessions.step(calling("stop"), before);
      expect(after.lastRun?.metadata).toMatchObject({ haltToolCallId: "c0", haltResult: 1 });
    });

    test("ask_user: awaiting_user, with the question and its call", async () => {
      const { session: after, result } = await sessions.step(calling("ask"), before);
      expect(result.metadata.haltedReason).toBe("ask_user");
      expect(after).toMatchObject({
        status: "awaiting_user",
        pendingQuestion: "Which city?",
        pendingToolCallId: "c0",
        pendingToolCalls: [],
      });
    });

    test("tool_error: error, and sessionError returns it", async () => {
      for (const onToolError of ["halt", throws] as const) {
        const { session: after, result } = await sessions.step(calling("break"), before, { onToolError });
        expect(result.metadata.haltedReason).toBe("tool_error");
        expect(after.status).toBe("error");
        expect(sessionError(after)).not.toBeNull();
      }
    });

    // In ALLM there is an artificial failure instead: `handler_failed`, of no tool.
    test("tool_error: the error is the failure of the tool, as for a run", async () => {
      const { session: after } = await sessions.step(calling("break"), before, { onToolError: "halt" });
      expect(sessionError(after)).toMatchObject({ reason: "handler_raised", toolName: "break", message: "broken" });
    });

    test("tool_error because onToolError threw: the thrown error is the cause, as for a run", async () => {
      const { session: after } = await sessions.step(calling("break"), before, { onToolError: throws });
      expect(sessionError(after)?.cause).toMatchObject({ name: "Error", message: "policy" });
    });

    test("calls of manual tools: awaiting_tools, with these calls only", async () => {
      const { session: after, result } = await sessions.step(calling("echo", "pay"), before);
      expect(result.metadata.manualToolCalls?.map(({ id }) => id)).toEqual(["c1"]);
      expect(after.status).toBe("awaiting_tools");
      expect(idsOf(after)).toEqual(["c1"]);
    });

    test("calls in manual mode: awaiting_tools, with all calls of the reply", async () => {
      const { session: after, result } = await sessions.step(calling("echo", "pay"), before, { mode: "manual" });
      expect(result.metadata.mode).toBe("manual");
      expect(result.response.finishReason).toBe("tool_calls");
      expect(after.status).toBe("awaiting_tools");
      expect(idsOf(after)).toEqual(["c0", "c1"]);
    });

    test("a failed reply: error, with the error of the reply", async () => {
      const { session: after, result } = await sessions.step(engineOf([breaksOff]), before);
      expect(result.response.finishReason).toBe("error");
      expect(after.status).toBe("error");
      expect(sessionError(after)).toMatchObject({ type: "adapter_error", reason: "content_filter" });
      expect(sessionError(after)).toEqual(result.response.error);
    });

    test("done: completed, also with a reason of a tool", async () => {
      const answered = await sessions.step(engineOf([says("done")]), before);
      const stopped = await sessions.step(calling("stop"), before);
      expect([answered.result.done, answered.session.status]).toEqual([true, "completed"]);
      expect([stopped.result.done, stopped.session.status]).toEqual([true, "completed"]);
    });

    test("not done: idle", async () => {
      const { session: after, result } = await sessions.step(calling("echo"), before);
      expect(result.done).toBe(false);
      expect(after.status).toBe("idle");
    });
  });
});
