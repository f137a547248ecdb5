// Engines and durable sessions as an MCP server, called by the client of the SDK.

import type { McpHandlerOptions } from "everturn/mcp";

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { askUser, engine, fake, tool } from "everturn";
import { connectMcp, mcpHandler, serveMcpStdio } from "everturn/mcp";
import { memoryStorage, runtime } from "everturn/runtime";
import { afterEach, expect, test } from "vitest";

import { pendingDigest } from "../../../test/pending-digest.ts";
import { call, thinker } from "../../../test/runtime/world.ts";

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

type Asked = { readonly message: string };
type Result = { readonly action: "accept" | "decline"; readonly content?: { [name: string]: string | boolean } };

/** A client of the SDK. `answer` answers questions of the server; without it the client cannot ask. */
async function clientOf(
  options: McpHandlerOptions,
  mode: "auto" | "legacy",
  answer: ((asked: Asked) => Result) | null = null,
  headers: Record<string, string> = {},
) {
  const handler = await mcpHandler(options);
  const capabilities = answer === null ? {} : { elicitation: { form: {} } };
  const client = new Client({ name: "test", version: "1" }, { capabilities, versionNegotiation: { mode } });
  if (answer !== null)
    client.setRequestHandler("elicitation/create", ({ params }) => answer({ message: params.message }));
  const fetch = (url: string | URL, init?: RequestInit) => handler.fetch(new Request(url, init));
  await client.connect(
    new StreamableHTTPClientTransport(new URL("http://localhost/mcp"), { fetch, requestInit: { headers } }),
  );
  closing.push(() => client.close(), handler.close);
  return client;
}

/** The id of the session in a result. */
function sessionId({ structuredContent }: { readonly structuredContent?: unknown }): string {
  const id: unknown = Object(structuredContent)["session_id"];
  return String(id);
}

const deletes: string[] = [];
const tools = [
  tool({
    name: "ask",
    description: "Asks.",
    schema: { type: "object" },
    handler: () => askUser("Which city?", { answerAs: "tool_result" }),
  }),
  tool({
    name: "delete",
    description: "Deletes.",
    schema: { type: "object" },
    needsApproval: true,
    handler: () => {
      deletes.push("deleted");
      return "deleted";
    },
  }),
];

/** An agent that calls the tool that a message names, and repeats the result. */
const agent = engine({
  adapter: thinker(({ messages }) => {
    const last = messages.at(-1);
    const text = typeof last?.content === "string" ? last.content : "";
    if (last?.role === "user" && ["ask", "delete"].includes(text)) return [call(text)];
    return [{ type: "text", text: `You said ${text}.` }];
  }),
  model: "fake:m",
  tools,
});
const agents = { assistant: { engine: agent, description: "Helps." } };

test.each(["auto", "legacy"] as const)("a client calls an engine (%s)", async (mode) => {
  const client = await clientOf({ agents, instructions: "Ask it." }, mode);
  expect(client.getInstructions()).toBe("Ask it.");
  expect((await client.listTools()).tools).toMatchObject([
    { name: "assistant", description: "Helps.", inputSchema: { required: ["message"] } },
  ]);
  expect(await client.callTool({ name: "assistant", arguments: { message: "hello" } })).toMatchObject({
    content: [{ type: "text", text: "You said hello." }],
  });
  expect(await client.callTool({ name: "assistant", arguments: { message: "ask" } })).toMatchObject({
    isError: true,
    content: [{ text: "the agent asks: Which city?" }],
  });
  expect(await client.callTool({ name: "assistant", arguments: { message: 5 } })).toMatchObject({ isError: true });
  await expect(client.callTool({ name: "constructor", arguments: {} })).rejects.toThrow("there is no tool");
});

test("a cancelled request cancels the turn, and tools are reported as progress", async () => {
  const started: AbortSignal[] = [];
  const waits = tool({
    name: "wait",
    description: "Waits.",
    schema: { type: "object" },
    handler: (_, { signal }) => {
      started.push(signal);
      return new Promise((_resolve, reject) =>
        signal.addEventListener("abort", () => reject(signal.reason), { once: true }),
      );
    },
  });
  const adapter = fake({ script: [{ type: "tool_call", id: "c1", name: "wait", arguments: {} }] });
  const client = await clientOf(
    { agents: { slow: { engine: engine({ adapter, model: "fake:m", tools: [waits] }), description: "Waits." } } },
    "auto",
  );
  const stop = new AbortController();
  const messages: unknown[] = [];
  const onprogress = ({ message }: { message?: string | undefined }) => {
    messages.push(message);
    stop.abort();
  };
  await expect(
    client.callTool({ name: "slow", arguments: { message: "go" } }, { signal: stop.signal, onprogress }),
  ).rejects.toThrow();
  await expect.poll(() => started[0]?.aborted).toBe(true);
  expect(messages).toEqual(["tool wait"]);
});

test("a client without elicitation continues a session by calls", async () => {
  const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
  const client = await clientOf({ sessions, decisionTool: true }, "legacy");
  const first = await client.callTool({ name: "send_message", arguments: { message: "ask" } });
  expect(first).toMatchObject({
    content: [{ text: "Which city?" }],
    structuredContent: { status: "awaiting_user", question: "Which city?" },
  });
  const id = sessionId(first);
  const send = (message: string) => client.callTool({ name: "send_message", arguments: { session_id: id, message } });
  expect(await send("Rome")).toMatchObject({
    structuredContent: { status: "completed", text: "You said Rome.", question: null },
  });
  expect(await send("delete")).toMatchObject({
    structuredContent: { status: "awaiting_tools", approvals: [{ id: "delete", name: "delete" }] },
  });
  const digest = await pendingDigest(sessions, id);
  const decided = { session_id: id, tool_call_id: "delete", digest, approve: false, reason: "no" };
  for (const wrong of ["", "0".repeat(84)]) {
    const refused = await client.callTool({ name: "decide_tool_call", arguments: { ...decided, digest: wrong } });
    expect(refused).toMatchObject({ isError: true });
  }
  expect(await client.callTool({ name: "decide_tool_call", arguments: decided })).toMatchObject({
    structuredContent: { status: "completed", approvals: [] },
  });
  expect(await client.callTool({ name: "decide_tool_call", arguments: decided })).toMatchObject({ isError: true });
  const { resources } = await client.listResources();
  expect(resources).toMatchObject([{ uri: `everturn://sessions/${id}` }]);
  const { contents } = await client.readResource({ uri: `everturn://sessions/${id}` });
  expect(JSON.stringify(contents)).toContain("You said Rome.");
  await expect(client.readResource({ uri: "everturn://sessions/other" })).rejects.toThrow();
  expect(
    await client.callTool({ name: "send_message", arguments: { session_id: "other", message: "x" } }),
  ).toMatchObject({ isError: true });
});

test.each(["auto", "legacy"] as const)(
  "the model of a client has no tool that approves a call, unless the server offers one (%s)",
  async (mode) => {
    const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
    const client = await clientOf({ sessions }, mode);
    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(["send_message", "get_session"]);
    deletes.length = 0;
    const waiting = await client.callTool({ name: "send_message", arguments: { message: "delete" } });
    expect(waiting).toMatchObject({
      content: [{ text: expect.stringContaining("waits for a decision about delete") }],
      structuredContent: { status: "awaiting_tools", approvals: [{ id: "delete", name: "delete" }] },
    });
    const decided = { session_id: sessionId(waiting), tool_call_id: "delete", approve: true };
    await expect(client.callTool({ name: "decide_tool_call", arguments: decided })).rejects.toThrow("there is no tool");
    expect(deletes).toEqual([]);
    // A person decides elsewhere, and the client reads how the session went on.
    await (
      await sessions.decide(sessionId(waiting), "delete", { type: "approve" })
    ).result;
    expect(await client.callTool({ name: "get_session", arguments: { session_id: sessionId(waiting) } })).toMatchObject(
      { structuredContent: { status: "completed", approvals: [] } },
    );
    const offering = await clientOf({ sessions, decisionTool: true }, mode);
    expect((await offering.listTools()).tools.map(({ name }) => name)).toContain("decide_tool_call");
  },
);

test.each(["legacy", "auto"] as const)(
  "answers of a client that cannot ask its user decide nothing: %s",
  async (mode) => {
    const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
    const client = await clientOf({ sessions }, mode);
    deletes.length = 0;
    const id = sessionId(await client.callTool({ name: "send_message", arguments: { message: "delete" } }));
    const key = `call:${await pendingDigest(sessions, id)}:delete`;
    // What a client sends after a question to its user. The server has asked none.
    const params = {
      name: "send_message",
      arguments: { message: "delete" },
      requestState: JSON.stringify({ session: id, turn: "turn" }),
      inputResponses: { [key]: { action: "accept" as const, content: { approve: true } } },
    };
    await client.request({ method: "tools/call", params }).catch(() => null);
    expect(deletes).toEqual([]);
    expect((await sessions.get(id))?.session.pendingToolCalls).toMatchObject([{ id: "delete", decision: null }]);
  },
);

test("questions and approvals of a session are passed on to the user of the client", async () => {
  const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
  const asked: string[] = [];
  const client = await clientOf({ sessions }, "auto", ({ message }) => {
    asked.push(message);
    return { action: "accept", content: message.startsWith("Run") ? { approve: true } : { answer: "Oslo" } };
  });
  const answered = await client.callTool({ name: "send_message", arguments: { message: "ask" } });
  expect(answered).toMatchObject({ structuredContent: { status: "completed", text: "You said Oslo." } });
  deletes.length = 0;
  const approved = await client.callTool({ name: "send_message", arguments: { message: "delete" } });
  expect(approved).toMatchObject({ structuredContent: { status: "completed" } });
  expect(deletes).toEqual(["deleted"]);
  const policy = "If the process stops while it runs, it is not run again.";
  expect(asked).toEqual(["Which city?", `Run this call?\ndelete\n{}\n${policy}`]);
});

test("a caller reaches only its own sessions, and other hosts and unknown callers are rejected", async () => {
  const all = runtime({ host: memoryStorage(), engines: { default: agent } });
  const authorize = (request: Request) => {
    const tenant = request.headers.get("x-tenant");
    return tenant === null ? false : all.tenant(tenant);
  };
  const ada = await clientOf({ authorize }, "auto", null, { "x-tenant": "ada" });
  const first = await ada.callTool({ name: "send_message", arguments: { message: "hi" } });
  const id = sessionId(first);
  const bob = await clientOf({ authorize }, "legacy", null, { "x-tenant": "bob" });
  expect(await bob.callTool({ name: "get_session", arguments: { session_id: id } })).toMatchObject({ isError: true });
  expect((await bob.listResources()).resources).toEqual([]);
  await expect(clientOf({ authorize }, "auto")).rejects.toThrow();
  const handler = await mcpHandler({ agents });
  const statusOf = async (url: string, headers: Record<string, string>) =>
    (await handler.fetch(new Request(url, { method: "POST", headers }))).status;
  expect(await statusOf("http://localhost/mcp", { host: "evil.test" })).toBe(403);
  expect(await statusOf("http://evil.test/mcp", {})).toBe(403);
  expect(await statusOf("http://localhost/mcp", { host: "localhost:80", origin: "http://evil.test" })).toBe(403);
  expect(await statusOf("http://localhost/mcp", { host: "127.0.0.1:3000", origin: "null" })).toBe(403);
  expect(await statusOf("http://localhost/mcp", { host: "127.0.0.1:3000" })).not.toBe(403);
});

test("a caller that authorize does not name gets no sessions, and an error of authorize is reported", async () => {
  const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
  const errors: unknown[] = [];
  for (const [returned, status] of [
    [() => undefined, 401],
    [() => null, 401],
    [() => ({}), 401],
    [() => "", 401],
    [() => Promise.reject(new Error("the database is down")), 500],
  ] as const) {
    // A program without a compiler may return anything.
    const options: object = { sessions, authorize: returned, onError: (error: unknown) => errors.push(error) };
    const handler = await mcpHandler({ ...options });
    const response = await handler.fetch(new Request("http://localhost/mcp", { method: "POST" }));
    expect([response.status, await response.text()]).toEqual([status, ""]);
  }
  expect(errors).toMatchObject([{ message: "the database is down" }]);
});

test("clients do not read the text of an unexpected error", async () => {
  const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
  const failing = () => Promise.reject(new Error("postgres://user:secret@host"));
  const errors: unknown[] = [];
  const client = await clientOf(
    { sessions: { ...sessions, list: failing, get: failing, start: failing }, onError: (error) => errors.push(error) },
    "auto",
  );
  const answers = await Promise.allSettled([
    client.listResources(),
    client.readResource({ uri: "everturn://sessions/s1" }),
    client.callTool({ name: "send_message", arguments: { message: "hi" } }),
  ]);
  expect(answers.map(({ status }) => status)).toEqual(["rejected", "rejected", "fulfilled"]);
  expect(JSON.stringify(answers.map((answer) => ("reason" in answer ? String(answer.reason) : answer)))).not.toContain(
    "secret",
  );
  expect(errors).toHaveLength(3);
});

test("a client that cancels its request cancels the turn of this request, and no later one", async () => {
  const waits = tool({
    name: "wait",
    description: "Waits.",
    schema: { type: "object" },
    handler: (_, { signal }) =>
      new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason), { once: true })),
  });
  const slow = engine({ adapter: thinker(() => [call("wait")]), model: "fake:m", tools: [waits] });
  const sessions = runtime({ host: memoryStorage(), engines: { default: slow } });
  const cancelled: unknown[] = [];
  const cancel: typeof sessions.cancel = (id, options) => {
    cancelled.push(options?.turnId);
    return sessions.cancel(id, options);
  };
  const client = await clientOf({ sessions: { ...sessions, cancel } }, "auto");
  const stop = new AbortController();
  const onprogress = () => stop.abort();
  const request = client.callTool(
    { name: "send_message", arguments: { message: "go" } },
    { signal: stop.signal, onprogress },
  );
  await expect(request).rejects.toThrow();
  await expect.poll(() => cancelled).toEqual([expect.stringContaining("turn-")]);
});

test("Everturn calls Everturn: an agent is a tool of another engine", async () => {
  const handler = await mcpHandler({ agents });
  const fetch = (url: string | URL, init?: RequestInit) => handler.fetch(new Request(url, init));
  const client = await connectMcp({ server: { url: "http://localhost/mcp", fetch }, prefix: "remote_" });
  closing.push(client.close, handler.close);
  expect(client.tools.map(({ name, replay }) => [name, replay])).toEqual([["remote_assistant", "never"]]);
});

test("a server needs something to serve, and valid tool names", async () => {
  await expect(mcpHandler({})).rejects.toThrow("needs agents or sessions");
  await expect(serveMcpStdio({ agents: { "a b": { engine: agent, description: "x" } } })).rejects.toThrow(
    "is not a tool name",
  );
});
