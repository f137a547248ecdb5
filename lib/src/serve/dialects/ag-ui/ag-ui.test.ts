// AG-UI with its own client: `HttpAgent` of @ag-ui/client drives sessions over HTTP, and the schemas of @ag-ui/core
// validate every event.

import type { Json, JsonObject } from "../../../core/model/internal.ts";
import type { RunAgentInput } from "@ag-ui/core";
import type { FakeScript } from "everturn";
import type { ModelEvent } from "everturn/advanced";
import type { Runtime } from "everturn/runtime";

import { HttpAgent } from "@ag-ui/client";
import { EventSchemas } from "@ag-ui/core/schemas";
import { askUser, engine, fake, tool, user } from "everturn";
import { toolCall } from "everturn/advanced";
import { createHandler } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { describe, expect, test } from "vitest";

import { chatDialects } from "../../../../test/dialects.ts";
import { sharedSessions } from "../../../../test/shared-sessions.ts";

const token = "a-token-of-the-test";
const url = "http://localhost/ag-ui";

const order = { type: "object", properties: { order: { type: "string" } }, required: ["order"] } as const;

const tools = [
  tool({ name: "find", description: "Finds an order.", schema: order, handler: () => "order 1042, 189 EUR" }),
  tool({
    name: "refund",
    description: "Pays money back.",
    schema: { type: "object", properties: { euros: { type: "number" } }, required: ["euros"] },
    needsApproval: true,
    handler: ({ euros }) => `paid ${String(euros)} EUR`,
  }),
  tool({
    name: "ask",
    description: "Asks the customer.",
    schema: { type: "object", properties: {} },
    handler: () => askUser("Which order?"),
  }),
  tool({
    name: "choose",
    description: "Asks the customer; the answer is the result.",
    schema: { type: "object", properties: {} },
    handler: () => askUser("Which size?", { answerAs: "tool_result" }),
  }),
  tool({
    name: "locate",
    description: "Runs in the browser.",
    manual: true,
    schema: { type: "object", properties: {} },
  }),
];

const call = (id: string, name: string, args: JsonObject): FakeScript[number] => ({
  type: "tool_call",
  id,
  name,
  arguments: args,
});
const says = (text: string): FakeScript[number] => ({ type: "text", text });

/** A server with a scripted model, and an agent of the real client on it. */
function agentOf(scripts: readonly FakeScript[], threadId = "thread-1", sessions = sessionsOf(scripts)) {
  const handler = createHandler({
    sessions,
    dialects: chatDialects,
    ...sharedSessions,
    auth: [{ token, name: "ada" }],
  });
  const received: Json[] = [];
  const inputs: RunAgentInput[] = [];
  const agent = new HttpAgent({
    url,
    threadId,
    headers: { authorization: `Bearer ${token}` },
    fetch: async (address: string, init: RequestInit) => {
      inputs.push(JSON.parse(String(init.body)));
      return handler(new Request(address, init));
    },
  });
  agent.subscribe({
    onEvent: ({ event }) => {
      const result = EventSchemas.safeParse(event);
      if (!result.success) throw new Error(`${JSON.stringify(event)}: ${result.error.message}`);
      received.push(JSON.parse(JSON.stringify(event)));
    },
  });
  const types = () =>
    received.map((event) => (typeof event === "object" && event !== null && "type" in event ? event["type"] : null));
  return { agent, sessions, handler, received, inputs, types };
}

function sessionsOf(scripts: readonly FakeScript[]): Runtime {
  const engines = { default: engine({ adapter: fake({ scripts }), model: "fake:m", tools }) };
  return runtime({ host: memoryStorage(), engines });
}

const ask = (content: string, id = `m-${content}`) => ({ id, role: "user", content }) as const;

describe("@ag-ui/client", () => {
  test("drives a turn with reasoning, text and a tool; its conversation equals the session", async () => {
    const { agent, sessions, types } = agentOf([
      [{ type: "reasoning", text: "Look it up." }, says("One moment."), call("c1", "find", { order: "1042" })],
      [says("It is on its way.")],
    ]);
    agent.addMessage(ask("Where is order 1042?"));
    const { newMessages } = await agent.runAgent();
    expect(newMessages.map(({ role }) => role)).toEqual(["reasoning", "assistant", "tool", "assistant"]);
    expect(newMessages).toMatchObject([
      { content: "Look it up." },
      { content: "One moment.", toolCalls: [{ id: "c1", function: { name: "find", arguments: '{"order":"1042"}' } }] },
      { toolCallId: "c1", content: "order 1042, 189 EUR" },
      { content: "It is on its way." },
    ]);
    expect(types()).toEqual([
      "RUN_STARTED",
      "STATE_SNAPSHOT",
      "STEP_STARTED",
      "REASONING_START",
      "REASONING_MESSAGE_START",
      "REASONING_MESSAGE_CONTENT",
      "REASONING_MESSAGE_END",
      "REASONING_END",
      "TEXT_MESSAGE_START",
      "TEXT_MESSAGE_CONTENT",
      "TOOL_CALL_START",
      "TOOL_CALL_ARGS",
      "TEXT_MESSAGE_END",
      "TOOL_CALL_END",
      "TOOL_CALL_RESULT",
      "STEP_FINISHED",
      "STEP_STARTED",
      "TEXT_MESSAGE_START",
      "TEXT_MESSAGE_CONTENT",
      "TEXT_MESSAGE_END",
      "STEP_FINISHED",
      "STATE_SNAPSHOT",
      "RUN_FINISHED",
    ]);
    expect(agent.state).toMatchObject({ sessionId: "thread-1", status: "completed" });
    expect((await sessions.messages("thread-1")).items.map(({ role }) => role)).toEqual([
      "user",
      "assistant",
      "tool",
      "assistant",
    ]);
  });

  test("gets an interrupt for an approval and resumes it with edited arguments", async () => {
    const { agent, sessions } = agentOf([[call("c1", "refund", { euros: 189 })], [says("Paid.")]]);
    agent.addMessage(ask("Pay me back."));
    await agent.runAgent();
    const [interrupt] = agent.pendingInterrupts;
    expect(agent.pendingInterrupts).toMatchObject([
      { reason: "approval", toolCallId: "c1", metadata: { toolName: "refund", arguments: { euros: 189 } } },
    ]);
    const payload = { approved: true, arguments: { euros: 150 } };
    const resume = [{ interruptId: interrupt?.id ?? "", status: "resolved" as const, payload }];
    const { newMessages } = await agent.runAgent({ resume });
    expect(newMessages).toMatchObject([
      { role: "tool", content: expect.stringContaining("paid 150 EUR") },
      { content: "Paid." },
    ]);
    expect(agent.pendingInterrupts).toEqual([]);
    expect((await sessions.get("thread-1"))?.session.status).toBe("completed");
    // A request that is sent again, as after a lost response, reads that turn.
    const again = agentOf([], "thread-1", sessions);
    await again.agent.runAgent({ resume });
    expect(again.types().at(-1)).toBe("RUN_FINISHED");
    expect((await sessions.messages("thread-1")).items).toHaveLength(4);
  });

  test("is shown what runs if a hook has changed the arguments, and sends no field that is not read", async () => {
    const agent = engine({
      adapter: fake({ scripts: [[call("c1", "refund", { euros: 5 })], [says("done")]] }),
      tools,
      options: { hooks: { beforeTool: () => ({ type: "replace_arguments", arguments: { euros: 5000 } }) } },
    });
    const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
    const { agent: client } = agentOf([], "thread-1", sessions);
    client.addMessage({ id: "m1", role: "user", content: "Refund 5." });
    await client.runAgent();
    const [interrupt] = client.pendingInterrupts;
    expect(interrupt).toMatchObject({ metadata: { toolName: "refund", arguments: { euros: 5000 } } });
    const resume = (payload: JsonObject) => [
      { interruptId: interrupt?.id ?? "", status: "resolved" as const, payload },
    ];
    await expect(client.runAgent({ resume: resume({ approved: true, editedArgs: { euros: 1 } }) })).rejects.toThrow(
      "unknown field",
    );
    expect((await sessions.get("thread-1"))?.session.pendingToolCalls).toMatchObject([{ decision: null }]);
    await sessions.close();
  });

  test("denies an approval, and a cancelled interrupt is a denial", async () => {
    for (const answer of [
      { status: "resolved" as const, payload: { approved: false, reason: "too much" } },
      { status: "cancelled" as const },
    ]) {
      const { agent, sessions } = agentOf([[call("c1", "refund", { euros: 189 })], [says("I did not pay.")]]);
      agent.addMessage(ask("Pay me back."));
      await agent.runAgent();
      const interruptId = agent.pendingInterrupts[0]?.id ?? "";
      const { newMessages } = await agent.runAgent({ resume: [{ interruptId, ...answer }] });
      expect(newMessages.at(-1)).toMatchObject({ content: "I did not pay." });
      const [, , result] = (await sessions.messages("thread-1")).items;
      expect(result).toMatchObject({ role: "tool", code: "denied" });
    }
  });

  test("answers a question; the answer sent again is accepted once", async () => {
    const { agent, sessions } = agentOf([[call("c1", "ask", {})], [says("Thank you.")]]);
    agent.addMessage(ask("Pay me back."));
    await agent.runAgent();
    expect(agent.pendingInterrupts).toMatchObject([{ reason: "question", message: "Which order?", toolCallId: "c1" }]);
    const interruptId = agent.pendingInterrupts[0]?.id ?? "";
    const resume = [{ interruptId, status: "resolved" as const, payload: { answer: "1042" } }];
    const { newMessages } = await agent.runAgent({ resume });
    expect(newMessages.at(-1)).toMatchObject({ content: "Thank you." });
    const before = (await sessions.messages("thread-1")).items;
    const again = agentOf([], "thread-1", sessions);
    await again.agent.runAgent({ resume });
    expect(again.types().at(-1)).toBe("RUN_FINISHED");
    expect((await sessions.messages("thread-1")).items).toEqual(before);
    const stale = agentOf([], "thread-1", sessions);
    const other = [{ interruptId, status: "resolved" as const, payload: { answer: "another" } }];
    await expect(stale.agent.runAgent({ resume: other })).rejects.toThrow(/409/);
  });

  test("runs a tool of its own and posts the result", async () => {
    const { agent } = agentOf([[call("c1", "locate", {})], [says("You are in Rome.")]]);
    agent.addMessage(ask("Where am I?"));
    await agent.runAgent();
    expect(agent.pendingInterrupts).toEqual([]);
    agent.addMessage({ id: "r1", role: "tool", toolCallId: "c1", content: "Rome" });
    const { newMessages } = await agent.runAgent();
    expect(newMessages).toMatchObject([{ content: "You are in Rome." }]);
  });

  test("continues the conversation, and a message that is sent again is accepted once", async () => {
    const { agent, sessions, inputs } = agentOf([[says("Hello!")], [says("Fine.")]]);
    agent.addMessage(ask("Hi."));
    await agent.runAgent();
    agent.addMessage(ask("How are you?"));
    await agent.runAgent();
    expect((await sessions.messages("thread-1")).items).toHaveLength(4);
    // A second client posts the second input again.
    const again = agentOf([], "thread-1", sessions);
    again.agent.setMessages(inputs[1]?.messages ?? []);
    const { newMessages } = await again.agent.runAgent();
    expect(newMessages).toMatchObject([{ content: "Fine." }]);
    expect((await sessions.messages("thread-1")).items).toHaveLength(4);
  });

  test("gets an error for a failed turn, with its reason", async () => {
    const { agent, received } = agentOf([
      [{ type: "error", reason: "invalid_request", message: "no", retryable: false }],
    ]);
    agent.addMessage(ask("Hi."));
    await agent.runAgent().catch(() => undefined);
    expect(received.at(-1)).toMatchObject({ type: "RUN_ERROR", code: "invalid_request" });
  });

  test("replaces the conversation when an attempt is thrown away", async () => {
    const broken: FakeScript = [
      says("Half a sen"),
      { type: "error", reason: "provider_unavailable", message: "cut", retryable: true },
    ];
    const sessions = runtime({
      host: memoryStorage(),
      engines: {
        default: engine({
          adapter: fake({ scripts: [broken, [says("A whole sentence.")]] }),
          model: "fake:m",
          retry: { baseDelayMs: 0, jitterMs: 0, afterOutput: true },
        }),
      },
    });
    const { agent, types } = agentOf([], "thread-1", sessions);
    agent.addMessage(ask("Say something."));
    await agent.runAgent();
    expect(types()).toContain("MESSAGES_SNAPSHOT");
    expect(agent.messages.map(({ role, content }) => [role, content])).toEqual([
      ["user", "Say something."],
      ["assistant", "A whole sentence."],
    ]);
  });
});

/** The answers to all interrupts of an agent: `HttpAgent` sends them in one request. */
const answersOf = (agent: HttpAgent, approvals: { readonly [toolCallId: string]: JsonObject } = {}) =>
  agent.pendingInterrupts.map(({ id: interruptId, reason, toolCallId = "" }) => ({
    interruptId,
    status: "resolved" as const,
    payload:
      reason === "question" ? { answer: `answer to ${toolCallId}` } : (approvals[toolCallId] ?? { approved: true }),
  }));

const conversation = (agent: HttpAgent) => agent.messages.map(({ role, content }) => [role, content]);

describe("several interrupts of one reply", () => {
  const done: FakeScript = [says("Done.")];

  test.each<readonly [first: string, second: string]>([
    ["refund", "refund"],
    ["refund", "ask"],
    ["ask", "refund"],
    ["choose", "refund"],
    ["refund", "choose"],
    ["choose", "choose"],
    ["ask", "ask"],
    ["ask", "choose"],
  ])("%s and %s are answered in one request, which may be sent again", async (first, second) => {
    const calls: FakeScript = [call("c1", first, { euros: 1 }), call("c2", second, { euros: 2 })];
    const { agent, sessions } = agentOf([calls, done]);
    agent.addMessage(ask("Go."));
    await agent.runAgent();
    expect(agent.pendingInterrupts.map(({ toolCallId }) => toolCallId).toSorted()).toEqual(["c1", "c2"]);
    const resume = answersOf(agent);
    await agent.runAgent({ resume });
    const result = (name: string, id: string) =>
      name === "refund" ? expect.stringContaining("paid") : `answer to ${id}`;
    const results = agent.messages.filter(({ role }) => role === "tool");
    expect(new Map(results.map((message) => ["toolCallId" in message && message.toolCallId, message.content]))).toEqual(
      new Map([
        ["c1", result(first, "c1")],
        ["c2", result(second, "c2")],
      ]),
    );
    expect(results).toHaveLength(2);
    expect(agent.messages.at(-1)).toMatchObject({ content: "Done." });
    expect((await sessions.get("thread-1"))?.session.status).toBe("completed");
    const after = conversation(agent);
    await agent.runAgent({ resume });
    expect(conversation(agent)).toEqual(after);
  });

  test("a denial alone is a result of its call, and the other interrupt stays", async () => {
    const { agent } = agentOf([[call("c1", "refund", { euros: 1 }), call("c2", "refund", { euros: 2 })], done]);
    agent.addMessage(ask("Go."));
    await agent.runAgent();
    const [first] = answersOf(agent, { c1: { approved: false, reason: "no" } });
    agent.pendingInterrupts = [];
    await agent.runAgent({ resume: first === undefined ? [] : [first] });
    expect(agent.messages.at(-1)).toMatchObject({ role: "tool", toolCallId: "c1", content: "denied: no" });
    expect(agent.pendingInterrupts).toMatchObject([{ toolCallId: "c2" }]);
    await agent.runAgent({ resume: answersOf(agent) });
    expect(conversation(agent).map(([role]) => role)).toEqual(["user", "assistant", "tool", "tool", "assistant"]);
  });

  test("nothing is accepted if edited arguments do not match the schema", async () => {
    const { agent, sessions } = agentOf([
      [call("c1", "refund", { euros: 1 }), call("c2", "refund", { euros: 2 }), call("c3", "choose", {})],
      done,
    ]);
    agent.addMessage(ask("Go."));
    await agent.runAgent();
    const resume = answersOf(agent, { c2: { approved: true, arguments: { euros: "two" } } });
    await expect(agent.runAgent({ resume })).rejects.toThrow(/400.*euros/);
    const { session } = (await sessions.get("thread-1")) ?? {};
    expect(session?.pendingToolCalls.map(({ decision }) => decision)).toEqual([null, null, null]);
    await agent.runAgent({ resume: answersOf(agent, { c2: { approved: true, arguments: { euros: 3 } } }) });
    expect(agent.messages.at(-1)).toMatchObject({ content: "Done." });
  });

  test("a question that is cancelled does not block the thread", async () => {
    const { agent, sessions } = agentOf([[call("c1", "ask", {})], done]);
    agent.addMessage(ask("Go."));
    await agent.runAgent();
    const resume = agent.pendingInterrupts.map(({ id }) => ({ interruptId: id, status: "cancelled" as const }));
    await agent.runAgent({ resume });
    expect(agent.messages.at(-1)).toMatchObject({ content: "Done." });
    expect((await sessions.messages("thread-1")).items.at(-2)).toMatchObject({
      role: "user",
      content: "The user did not answer the question.",
    });
  });
});

describe("a turn that is read again", () => {
  /** A session whose turn waits for `release` in its second step. */
  function slowSessions(scripts: readonly FakeScript[]) {
    let release = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const wait = tool({
      name: "wait",
      description: "Waits.",
      schema: { type: "object", properties: {} },
      handler: () => released.then(() => "waited"),
    });
    const agent = engine({ adapter: fake({ scripts }), model: "fake:m", tools: [...tools, wait] });
    return { sessions: runtime({ host: memoryStorage(), engines: { default: agent } }), release: () => release() };
  }

  const scripts: readonly FakeScript[] = [
    [{ type: "reasoning", text: "Hm." }, says("One moment."), call("c1", "find", { order: "1042" })],
    [says("And another one."), call("c2", "find", { order: "1043" }), call("c3", "wait", {})],
    [says("Done.")],
  ];
  const whole = [
    ["user", "Go."],
    ["reasoning", "Hm."],
    ["assistant", "One moment."],
    ["tool", "order 1042, 189 EUR"],
    ["assistant", "And another one."],
    ["tool", "order 1042, 189 EUR"],
    ["tool", "waited"],
    ["assistant", "Done."],
  ];

  /** Runs a turn and returns the conversation of the client after each of its events. */
  async function partialConversations(): Promise<{
    readonly sessions: Runtime;
    readonly parts: readonly RunAgentInput["messages"][];
  }> {
    const { sessions, release } = slowSessions(scripts);
    const { agent } = agentOf([], "thread-1", sessions);
    const parts: RunAgentInput["messages"][] = [];
    agent.subscribe({ onMessagesChanged: ({ messages }) => void parts.push(structuredClone([...messages])) });
    agent.addMessage(ask("Go."));
    release();
    await agent.runAgent();
    expect(conversation(agent)).toEqual(whole);
    return { sessions, parts };
  }

  test("gives the whole conversation once, wherever the connection was lost, also after its end", async () => {
    const { sessions, parts } = await partialConversations();
    expect(parts.length).toBeGreaterThan(10);
    for (const messages of parts) {
      const { agent, types } = agentOf([], "thread-1", sessions);
      agent.setMessages([...messages]);
      await agent.runAgent();
      expect(conversation(agent)).toEqual(whole);
      expect(types().at(-1)).toBe("RUN_FINISHED");
    }
    expect((await sessions.messages("thread-1")).items).toHaveLength(7);
  });

  test("is followed to its end by a client whose conversation ends with the result of a tool", async () => {
    const { sessions, release } = slowSessions(scripts);
    const first = agentOf([], "thread-1", sessions);
    const lost = new Promise<RunAgentInput["messages"]>((resolve) => {
      first.agent.subscribe({
        onMessagesChanged: ({ messages }) => {
          if (messages.at(-1)?.role === "tool") resolve(structuredClone([...messages]));
        },
      });
    });
    first.agent.addMessage(ask("Go."));
    const firstRun = first.agent.runAgent();
    const { agent } = agentOf([], "thread-1", sessions);
    agent.setMessages(await lost);
    const secondRun = agent.runAgent();
    release();
    await Promise.all([firstRun, secondRun]);
    expect(conversation(agent)).toEqual(whole);
  });

  test("has the messages that steered it, and a client that was cut after one of them does not send it", async () => {
    const { sessions, release } = slowSessions([[call("c3", "wait", {})], [says("Done.")]]);
    const first = agentOf([], "thread-1", sessions);
    const parts: RunAgentInput["messages"][] = [];
    first.agent.subscribe({ onMessagesChanged: ({ messages }) => void parts.push(structuredClone([...messages])) });
    const hasStarted = new Promise<void>((resolve) => {
      first.agent.subscribe({ onToolCallEndEvent: () => resolve() });
    });
    first.agent.addMessage(ask("Go."));
    const run = first.agent.runAgent();
    await hasStarted;
    await sessions.steer("thread-1", "Be quick.");
    release();
    await run;
    const steered = [
      ["user", "Go."],
      ["assistant", undefined],
      ["tool", "waited"],
      ["user", "Be quick."],
      ["assistant", "Done."],
    ];
    expect(conversation(first.agent)).toEqual(steered);
    const again = agentOf([], "thread-1", sessions);
    const cut = parts.filter((messages) => messages.length === 4 && messages.at(-1)?.content === "Be quick.");
    again.agent.setMessages([...(cut.at(-1) ?? [])]);
    await again.agent.runAgent();
    expect(conversation(again.agent)).toEqual(steered);
    expect((await sessions.messages("thread-1")).items).toHaveLength(5);
  });

  test("tools of the client: results that are sent again read the turn that they started", async () => {
    const { agent, sessions } = agentOf([[call("c1", "locate", {})], [says("You are in Rome.")]]);
    agent.addMessage(ask("Where am I?"));
    await agent.runAgent();
    agent.addMessage({ id: "r1", role: "tool", toolCallId: "c1", content: "Rome" });
    const sent = structuredClone(agent.messages);
    await agent.runAgent();
    const again = agentOf([], "thread-1", sessions);
    again.agent.setMessages(sent);
    await again.agent.runAgent();
    expect(conversation(again.agent)).toEqual(conversation(agent));
  });
});

test("withdrawn reasoning does not stay in the conversation", async () => {
  const cut: FakeScript = [
    { type: "reasoning", text: "A first thought." },
    { type: "error", reason: "provider_unavailable", message: "cut", retryable: true },
  ];
  const scripts: readonly FakeScript[] = [cut, [{ type: "reasoning", text: "A second thought." }, says("Yes.")]];
  const agentEngine = engine({
    adapter: fake({ scripts }),
    model: "fake:m",
    retry: { baseDelayMs: 0, jitterMs: 0, afterOutput: true },
  });
  const sessions = runtime({ host: memoryStorage(), engines: { default: agentEngine } });
  const { agent } = agentOf([], "thread-1", sessions);
  agent.addMessage(ask("Think."));
  await agent.runAgent();
  expect(conversation(agent)).toEqual([
    ["user", "Think."],
    ["reasoning", "A second thought."],
    ["assistant", "Yes."],
  ]);
});

test("a turn that is cancelled ends the run with the outcome cancelled; a message meanwhile is a conflict", async () => {
  let started = () => {};
  const hasStarted = new Promise<void>((resolve) => {
    started = resolve;
  });
  const endless = tool({
    name: "endless",
    description: "Runs until it is stopped.",
    schema: { type: "object", properties: {} },
    handler: (_, { signal }) =>
      new Promise<string>((_resolve, reject) => {
        signal.addEventListener("abort", () => reject(new Error("stopped")));
        started();
      }),
  });
  const agentEngine = engine({
    adapter: fake({ scripts: [[call("c1", "endless", {})]] }),
    model: "fake:m",
    tools: [endless],
  });
  const sessions = runtime({ host: memoryStorage(), engines: { default: agentEngine } });
  const { agent, received } = agentOf([], "thread-1", sessions);
  agent.addMessage(ask("Go."));
  const run = agent.runAgent();
  await hasStarted;
  const other = agentOf([], "thread-1", sessions);
  other.agent.addMessage(ask("Another message."));
  await expect(other.agent.runAgent()).rejects.toThrow(/409/);
  await sessions.cancel("thread-1");
  await run;
  expect(received.at(-1)).toMatchObject({ type: "RUN_FINISHED", outcome: { type: "cancelled" } });
});

describe("ids of calls that a provider repeats", () => {
  /** The arguments of all calls in the conversation of a client, and the results, by the client's ids. */
  const callsOf = ({ messages }: HttpAgent) =>
    messages.flatMap((message) => {
      if (message.role === "tool") return [`${message.toolCallId} = ${message.content}`];
      if (message.role !== "assistant") return [];
      return (message.toolCalls ?? []).map(({ id, function: { arguments: args } }) => `${id} ${args}`);
    });

  test("are made unique: arguments and results belong to their calls, also when a turn is read again", async () => {
    const find = (number: string): FakeScript => [{ type: "tool_call", name: "find", arguments: { order: number } }];
    const { agent, sessions } = agentOf([find("1"), find("2"), [says("Both.")], find("3"), [says("All.")]]);
    agent.addMessage(ask("Find two."));
    await agent.runAgent();
    agent.addMessage(ask("And a third."));
    const sent = structuredClone(agent.messages);
    await agent.runAgent();
    const expected = ["call_0", "call_0#2", "call_0#3"].flatMap((id, index) => [
      `${id} {"order":"${index + 1}"}`,
      `${id} = order 1042, 189 EUR`,
    ]);
    expect(callsOf(agent)).toEqual(expected);
    const again = agentOf([], "thread-1", sessions);
    again.agent.setMessages(sent);
    await again.agent.runAgent();
    expect(callsOf(again.agent)).toEqual(expected);
    await again.agent.runAgent();
    expect(callsOf(again.agent)).toEqual(expected);
  });

  test("belong to interrupts and denials of their own", async () => {
    const refund: FakeScript = [{ type: "tool_call", name: "refund", arguments: { euros: 1 } }];
    const { agent } = agentOf([refund, [says("No.")], refund, [says("No again.")]]);
    for (const [text, id] of [
      ["Pay.", "call_0"],
      ["Pay now.", "call_0#2"],
    ] as const) {
      agent.addMessage(ask(text));
      await agent.runAgent();
      expect(agent.pendingInterrupts).toMatchObject([{ toolCallId: id }]);
      await agent.runAgent({ resume: answersOf(agent, { [id]: { approved: false } }) });
    }
    expect(callsOf(agent)).toEqual([
      'call_0 {"euros":1}',
      "call_0 = denied",
      'call_0#2 {"euros":1}',
      "call_0#2 = denied",
    ]);
    expect(new Set(agent.messages.map(({ id }) => id)).size).toBe(agent.messages.length);
  });

  test("are those of results that the client posts for its own tools", async () => {
    const locate: FakeScript = [{ type: "tool_call", name: "locate" }];
    const { agent, sessions } = agentOf([locate, [says("Rome.")], locate, [says("Milan.")]]);
    for (const [text, toolCallId, content] of [
      ["Where am I?", "call_0", "Rome"],
      ["And now?", "call_0#2", "Milan"],
    ] as const) {
      agent.addMessage(ask(text));
      await agent.runAgent();
      agent.addMessage({ id: `result-${content}`, role: "tool", toolCallId, content });
      const { newMessages } = await agent.runAgent();
      expect(newMessages).toMatchObject([{ content: `${content}.` }]);
    }
    const results = (await sessions.messages("thread-1")).items.filter(({ role }) => role === "tool");
    expect(results.map(({ content }) => content)).toEqual(["Rome", "Milan"]);
  });

  test("a result of the server does not answer a call of the client with the same id", async () => {
    const { agent, sessions } = agentOf([
      [{ type: "tool_call", name: "find", arguments: { order: "1" } }],
      [{ type: "tool_call", name: "locate" }],
    ]);
    const parts: RunAgentInput["messages"][] = [];
    agent.subscribe({ onMessagesChanged: ({ messages }) => void parts.push(structuredClone([...messages])) });
    agent.addMessage(ask("Go."));
    await agent.runAgent();
    // The client lost its connection after the first result.
    const again = agentOf([], "thread-1", sessions);
    again.agent.setMessages([...(parts.findLast((messages) => messages.at(-1)?.role === "tool") ?? [])]);
    await again.agent.runAgent();
    expect(callsOf(again.agent)).toEqual(callsOf(agent));
    expect((await sessions.get("thread-1"))?.session.pendingToolCalls).toHaveLength(1);
  });
});

describe("agents inside tools", () => {
  const inner = (scripts: readonly FakeScript[]) => engine({ adapter: fake({ scripts }), model: "fake:inner", tools });
  const delegating = (child: ReturnType<typeof inner>, scripts: readonly FakeScript[]) => {
    const delegate = tool({
      name: "delegate",
      description: "Asks another agent.",
      schema: { type: "object", properties: {} },
      handler: async (_, { runChild }) => (await runChild(child, "Do it.")).finalResponse?.outputText ?? "nothing",
    });
    const outer = engine({ adapter: fake({ scripts }), model: "fake:m", tools: [delegate] });
    return agentOf([], "thread-1", runtime({ host: memoryStorage(), engines: { default: outer } }));
  };
  const outerScripts: readonly FakeScript[] = [[call("outer", "delegate", {})], [says("Done.")]];

  test("are not part of the conversation; their result is", async () => {
    const child = inner([[says("Inner text."), call("c1", "find", { order: "1" })], [says("Found.")]]);
    const { agent } = delegating(child, outerScripts);
    agent.addMessage(ask("Go."));
    await agent.runAgent();
    expect(conversation(agent)).toEqual([
      ["user", "Go."],
      ["assistant", undefined],
      ["tool", "Found."],
      ["assistant", "Done."],
    ]);
  });

  test.each([
    [true, "Paid it."],
    [false, "Did not pay."],
  ])(
    "that wait for an approval are continued with the decision %s; the call has one result",
    async (approved, text) => {
      const { agent, sessions } = delegating(inner([[call("c1", "refund", { euros: 5 })], [says(text)]]), outerScripts);
      agent.addMessage(ask("Go."));
      await agent.runAgent();
      expect(agent.pendingInterrupts).toMatchObject([
        { reason: "approval", toolCallId: "outer", metadata: { opts: { inner: { name: "refund" } } } },
      ]);
      await agent.runAgent({ resume: answersOf(agent, { outer: { approved } }) });
      expect(conversation(agent)).toEqual([
        ["user", "Go."],
        ["assistant", undefined],
        ["tool", text],
        ["assistant", "Done."],
      ]);
      expect((await sessions.get("thread-1"))?.session.status).toBe("completed");
    },
  );
});

test("tools that the provider runs are not calls of the conversation", async () => {
  const plain = fake({ scripts: [[says("It rains.")]] });
  const search: readonly ModelEvent[] = [
    { type: "tool_call_started", id: "s1", name: "web_search", providerExecuted: true },
    {
      type: "tool_call_completed",
      ...toolCall({ id: "s1", name: "web_search", arguments: {} }),
      providerExecuted: true,
    },
  ];
  const searching: typeof plain = {
    ...plain,
    async *stream(request, adapterCall) {
      for await (const batch of plain.stream(request, adapterCall)) {
        yield batch.some(({ type }) => type === "message_started") ? [...batch, ...search] : batch;
      }
    },
  };
  const agentEngine = engine({ adapter: searching, model: "fake:m" });
  const { agent } = agentOf([], "thread-1", runtime({ host: memoryStorage(), engines: { default: agentEngine } }));
  agent.addMessage(ask("Weather?"));
  await agent.runAgent();
  expect(agent.messages.at(-1)).toEqual({ id: expect.any(String), role: "assistant", content: "It rains." });
});

test("structured output is the text of the reply", async () => {
  const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] } as const;
  const params = { responseFormat: { type: "json_schema", name: "place", schema, strict: true } } as const;
  const agentEngine = engine({ adapter: fake({ scripts: [[says('{"city":"Rome"}')]] }), model: "fake:m", params });
  const { agent } = agentOf([], "thread-1", runtime({ host: memoryStorage(), engines: { default: agentEngine } }));
  agent.addMessage(ask("Where?"));
  await agent.runAgent();
  expect(agent.messages.at(-1)).toMatchObject({ content: '{"city":"Rome"}' });
});

test("a call with an unknown outcome is an interrupt, which the next run answers", async () => {
  let runs = 0;
  let started = () => {};
  const hasStarted = new Promise<void>((resolve) => {
    started = resolve;
  });
  const pay = tool({
    name: "pay",
    description: "Pays.",
    schema: { type: "object", properties: {} },
    replay: "ask",
    handler: () => {
      runs += 1;
      started();
      return runs === 1 ? new Promise<string>(() => undefined) : "paid";
    },
  });
  const host = memoryStorage();
  const engines = {
    default: engine({
      adapter: fake({ scripts: [[call("c1", "pay", {})], [says("Paid.")]] }),
      model: "fake:m",
      tools: [pay],
    }),
  };
  const first = runtime({ host, engines });
  await first.start([user("Pay.", { id: "m-Pay." })], { id: "thread-1" });
  await hasStarted;
  await first.close({ graceMs: 0 });
  const sessions = runtime({ host, engines });
  await sessions.recover();
  const { agent } = agentOf([], "thread-1", sessions);
  await agent.runAgent();
  expect(agent.pendingInterrupts).toMatchObject([
    { reason: "outcome_unknown", toolCallId: "c1", metadata: { toolName: "pay" } },
  ]);
  const { newMessages } = await agent.runAgent({ resume: answersOf(agent) });
  expect(newMessages).toMatchObject([{ role: "tool", content: "paid" }, { content: "Paid." }]);
  expect(runs).toBe(2);
});

test("a message after a run that failed starts the next run", async () => {
  const { agent, sessions } = agentOf([
    [{ type: "error", reason: "invalid_request", message: "no", retryable: false }],
    [says("Here I am.")],
  ]);
  agent.addMessage(ask("Hi."));
  await agent.runAgent().catch(() => undefined);
  expect((await sessions.get("thread-1"))?.session.status).toBe("error");
  agent.addMessage(ask("Are you there?"));
  const { newMessages } = await agent.runAgent();
  expect(newMessages).toMatchObject([{ role: "assistant", content: "Here I am." }]);
});

test("a message beside answers to interrupts is not sent", async () => {
  const { agent, sessions } = agentOf([[call("c1", "refund", { euros: 1 })], [says("Paid.")]]);
  agent.addMessage(ask("Pay."));
  await agent.runAgent();
  agent.addMessage(ask("And hurry."));
  await agent.runAgent({ resume: answersOf(agent) });
  const users = (await sessions.messages("thread-1")).items.filter(({ role }) => role === "user");
  expect(users.map(({ content }) => content)).toEqual(["Pay."]);
});

describe("keys", () => {
  const says2 = (text: string) => engine({ adapter: fake({ scripts: [[says(text)], [says(text)]] }), model: "fake:m" });
  const run = async (handler: ReturnType<typeof createHandler>, key: string, text: string) => {
    const agent = new HttpAgent({
      url,
      threadId: "thread-1",
      headers: { authorization: `Bearer ${key}` },
      fetch: async (address: string, init: RequestInit) => handler(new Request(address, init)),
    });
    agent.addMessage(ask(text));
    await agent.runAgent();
    return agent.messages.at(-1)?.content;
  };

  test("use the engines that they list, and no session of another engine", async () => {
    const sessions = runtime({
      host: memoryStorage(),
      engines: { default: says2("Default."), sales: says2("Sales.") },
    });
    const handler = createHandler({
      sessions,
      dialects: chatDialects,
      ...sharedSessions,
      auth: [
        { token: "the-key-of-everyone", name: "any" },
        { token: "the-key-of-team-sales", name: "sales", engines: ["sales"] },
        { token: "the-key-of-team-support", name: "support", engines: ["default"] },
      ],
    });
    expect(await run(handler, "the-key-of-team-sales", "Hi.")).toBe("Sales.");
    await expect(run(handler, "the-key-of-team-support", "Let me in.")).rejects.toThrow(/40[34]/);
    expect(await run(handler, "the-key-of-everyone", "Me too.")).toBe("Sales.");
  });

  test("of tenants have sessions of their own under the same thread id", async () => {
    const sessions = runtime({ host: memoryStorage(), engines: { default: says2("Hello.") } });
    const handler = createHandler({
      sessions,
      dialects: chatDialects,
      ...sharedSessions,
      auth: [
        { token: "the-key-of-tenant-acme", tenant: "acme" },
        { token: "the-key-of-tenant-other", tenant: "other" },
      ],
    });
    expect(await run(handler, "the-key-of-tenant-acme", "From acme.")).toBe("Hello.");
    expect(await run(handler, "the-key-of-tenant-other", "From other.")).toBe("Hello.");
    const read = async (key: string) => {
      const headers = { authorization: `Bearer ${key}` };
      return (await handler(new Request("http://localhost/sessions/thread-1/messages", { headers }))).text();
    };
    expect(await read("the-key-of-tenant-acme")).not.toMatch(/From other/);
    expect(await read("the-key-of-tenant-other")).not.toMatch(/From acme/);
    await expect(run(handler, "a-key-that-is-not-listed", "Hi.")).rejects.toThrow(/401/);
  });
});

describe("bad input changes nothing", () => {
  const post = async (body: unknown) => {
    const { handler, sessions } = agentOf([[says("Hello!")]]);
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const response = await handler(new Request(url, { method: "POST", headers, body: JSON.stringify(body) }));
    expect((await sessions.list()).items).toEqual([]);
    return response;
  };
  const valid = { threadId: "t", runId: "r", messages: [ask("hi")], tools: [], context: [] };

  test.each<readonly [what: string, body: unknown, status: number]>([
    ["no thread", { ...valid, threadId: undefined }, 400],
    ["a thread id that is a path", { ...valid, threadId: ".." }, 400],
    ["messages that are no list", { ...valid, messages: {} }, 400],
    ["a message without an id", { ...valid, messages: [{ role: "user", content: "hi" }] }, 400],
    [
      "a file by its path",
      {
        ...valid,
        messages: [
          { id: "m", role: "user", content: [{ type: "image", source: { type: "url", value: "file:///etc/passwd" } }] },
        ],
      },
      400,
    ],
    [
      "a file id",
      {
        ...valid,
        messages: [{ id: "m", role: "user", content: [{ type: "image", source: { type: "file", value: "f1" } }] }],
      },
      400,
    ],
    ["nothing new", { ...valid, messages: [] }, 409],
    [
      "an answer to a session that does not exist",
      { ...valid, resume: [{ interruptId: "a:b:c", status: "resolved", payload: true }] },
      404,
    ],
    ["an answer with a wrong status", { ...valid, resume: [{ interruptId: "a:b:c", status: "done" }] }, 400],
  ])("%s", async (_, body, status) => {
    expect((await post(body)).status).toBe(status);
  });
});
