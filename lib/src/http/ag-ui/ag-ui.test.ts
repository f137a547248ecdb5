// AG-UI with its own client: `HttpAgent` of @ag-ui/client drives sessions over HTTP, and the schemas of @ag-ui/core validate every event.

import type { Json, JsonObject } from "../../model/internal.ts";
import type { RunAgentInput } from "@ag-ui/core";
import type { FakeScript } from "everturn";
import type { Runtime } from "everturn/runtime";

import { HttpAgent } from "@ag-ui/client";
import { EventSchemas } from "@ag-ui/core/schemas";
import { askUser, engine, fake, tool } from "everturn";
import { memoryStorage } from "everturn/host/memory";
import { createHandler } from "everturn/http";
import { runtime } from "everturn/runtime";
import { describe, expect, test } from "vitest";

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
  const handler = createHandler({ sessions, auth: [{ token, name: "ada" }] });
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
