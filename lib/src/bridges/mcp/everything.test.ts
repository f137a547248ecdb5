// The reference server `@modelcontextprotocol/server-everything` over stdio, which speaks a protocol version before
// 2026-07-28: it asks inside its calls. All tools, HTTP and killed processes: `npm run test:long`
// (lib/test/long/mcp.ts).

import type { JsonObject } from "everturn";
import type { McpClient, McpOptions } from "everturn/mcp";

import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { chat, engine, stream } from "everturn";
import { connectMcp, withMcp } from "everturn/mcp";
import { handClock } from "everturn/testing";
import { afterAll, beforeAll, expect, test } from "vitest";

import { eventually } from "../../../test/eventually.ts";
import { everything, everythingProgram } from "../../../test/mcp/servers.ts";
import { call, thinker, World } from "../../../test/runtime/world.ts";

const clock = handClock();
const transports: StdioClientTransport[] = [];
let first: McpClient;
let second: McpClient;

const asks = "trigger-elicitation-request";
const options: Partial<McpOptions> = {
  name: "everything",
  protocol: "legacy",
  include: ["echo", "get-sum", "trigger-long-running-operation", "toggle-simulated-logging", asks],
  clock,
};

beforeAll(async () => {
  const transport = () => {
    const created = new StdioClientTransport({
      command: process.execPath,
      args: [everythingProgram, "stdio"],
      stderr: "ignore",
    });
    transports.push(created);
    return created;
  };
  [first, second] = await Promise.all([
    connectMcp({ server: { transport }, ...options }),
    connectMcp({ server: everything(), ...options, replay: "safe" }),
  ]);
  // The server adds tools after the client has reported its capabilities.
  await eventually(() => expect([first.tools.length, second.tools.length]).toEqual([5, 5]));
}, 60_000);

afterAll(() => Promise.all([first.close(), second.close()]));

function caller(name: string, args: JsonObject = {}) {
  return thinker(({ messages }) =>
    messages.some(({ role }) => role === "tool") ? [{ type: "text", text: "Done." }] : [call(name, args)],
  );
}

async function calling(client: McpClient, name: string, args: JsonObject = {}) {
  const result = await chat(withMcp(engine({ adapter: caller(name, args), model: "fake:m" }), [client]), "go");
  return result.thread.messages.find(({ role }) => role === "tool");
}

/** A session that waits for the answer to the form of the server. */
async function asked(client: McpClient) {
  const world = new World();
  const processOf = (of: McpClient) => world.process(withMcp(world.engine(caller(asks)), [of]));
  const runtime = processOf(client);
  const { outcome } = await (await runtime.start("go", { id: "s1" })).result;
  expect(outcome).toMatchObject({ type: "ask_user", question: expect.stringContaining("name (string, required)") });
  const answer = async (of: McpClient, text: string) => {
    const process = processOf(of);
    const end = await (await process.reply("s1", text)).result;
    const view = await process.get("s1");
    return { end, result: view?.session.thread.messages.find(({ role }) => role === "tool") };
  };
  return { answer };
}

test("calls tools, and reports progress", async () => {
  expect(await calling(first, "echo", { message: "hi" })).toMatchObject({ content: "Echo: hi" });
  expect(await calling(first, "get-sum", { a: 1, b: "x" })).toMatchObject({ status: "failure" });
  const progress: unknown[] = [];
  const of = withMcp(
    engine({ adapter: caller("trigger-long-running-operation", { duration: 0.06, steps: 3 }), model: "fake:m" }),
    [first],
  );
  for await (const event of stream(of, "go")) if (event.type === "tool_progress") progress.push(event.progress);
  expect(progress).toContainEqual({ progress: 1, total: 3 });
});

test("a form is answered on the open call of the same process", async () => {
  const { answer } = await asked(first);
  const { end, result } = await answer(first, '{"name":"Ada","integer":500}');
  expect(end.outcome).toMatchObject({ type: "ask_user", question: expect.stringContaining("does not match the form") });
  expect(result).toBeUndefined();
  const done = await answer(first, '{"name":"Ada","integer":7}');
  expect(JSON.stringify(done.result)).toContain("- Name: Ada");
  expect(JSON.stringify(done.result)).toContain("Favorite Integer: 7");
});

test("in another process, a tool that must not run twice ends with outcome_unknown, and one that may is called again", async () => {
  const { answer } = await asked(first);
  // The other process has the policy of the server's annotations, as the first one.
  const careful = await connectMcp({ server: everything(), ...options });
  try {
    await expect.poll(() => careful.tools.length, { timeout: 20_000 }).toBe(5);
    const { result } = await answer(careful, "Ada");
    expect(result).toMatchObject({
      status: "failure",
      content: expect.stringContaining("may or may not have had an effect"),
    });
  } finally {
    await careful.close();
  }
  const again = await asked(first);
  const { result } = await again.answer(second, "Grace");
  expect(JSON.stringify(result)).toContain("- Name: Grace");
});

test("a call is given up after keepOpenMs", async () => {
  const { answer } = await asked(first);
  await clock.advance(600_000);
  const { result } = await answer(first, "Ada");
  expect(result).toMatchObject({ status: "failure", content: expect.stringContaining("gave it up") });
});

test("questions of two calls at a time are not mixed up", async () => {
  const world = new World();
  const adapter = thinker(({ messages }) =>
    messages.some(({ role }) => role === "tool")
      ? [{ type: "text", text: "Done." }]
      : [call(asks, {}, "c1"), call("echo", { message: "x" }, "c2")],
  );
  const runtime = world.process(withMcp(world.engine(adapter), [first]));
  const { outcome } = await (await runtime.start("go", { id: "s1" })).result;
  expect(outcome).toMatchObject({ type: "ask_user", toolCallId: "c1" });
  await (
    await runtime.reply("s1", "decline")
  ).result;
  const view = await runtime.get("s1");
  expect(JSON.stringify(view?.session.thread.messages)).toContain("declined to provide");
});

test("two calls that ask are asked one after the other, each with its own answer", async () => {
  const world = new World();
  const adapter = thinker(({ messages }) =>
    messages.some(({ role }) => role === "tool")
      ? [{ type: "text", text: "Done." }]
      : [call(asks, {}, "c1"), call(asks, {}, "c2")],
  );
  const runtime = world.process(withMcp(world.engine(adapter), [first]));
  await (
    await runtime.start("go", { id: "s1" })
  ).result;
  for (const [id, name] of [
    ["c1", "Ada"],
    ["c2", "Grace"],
  ] as const) {
    const waiting = await runtime.get("s1");
    expect(waiting?.session).toMatchObject({ status: "awaiting_user", pendingToolCallId: id });
    await (
      await runtime.reply("s1", name)
    ).result;
  }
  const view = await runtime.get("s1");
  const results = view?.session.thread.messages.flatMap((message) => (message.role === "tool" ? [message] : [])) ?? [];
  const names = results.map(({ toolCallId, content }) => [
    toolCallId,
    /Name: (\w+)/.exec(JSON.stringify(content))?.[1],
  ]);
  expect(Object.fromEntries(names)).toEqual({ c1: "Ada", c2: "Grace" });
});

test("questions of calls that cannot be told apart are cancelled, and reach no other user", async () => {
  const fresh = await connectMcp({ server: everything(), ...options });
  try {
    await expect.poll(() => fresh.tools.length, { timeout: 20_000 }).toBe(5);
    const results = await Promise.all([calling(fresh, asks), calling(fresh, asks)]);
    for (const result of results) expect(JSON.stringify(result)).toContain("cancelled the elicitation");
  } finally {
    await fresh.close();
  }
});

test("reconnects after the process of the server has ended", async () => {
  const running = calling(first, "trigger-long-running-operation", { duration: 0.5, steps: 1 });
  const unsafe = first.tools.find(({ name }) => name === "toggle-simulated-logging");
  expect(unsafe?.replay).toBe("never");
  const [{ pid } = { pid: null }] = transports;
  if (pid === null) throw new Error("there is no process");
  process.kill(pid, "SIGKILL");
  // The call that was running is safe, so it is made again on the new connection.
  expect(await running).toMatchObject({ content: expect.stringContaining("completed") });
  expect(transports).toHaveLength(2);
  expect(await calling(first, "echo", { message: "again" })).toMatchObject({ content: "Echo: again" });
});
