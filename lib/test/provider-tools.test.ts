// Tools that a provider defines and the program runs, from the request to the answer in the API's own form: `chat`,
// sessions, the durable runtime and HTTP. The provider is a server on the loopback interface that answers with scripted
// items.

import type { Tool, Json, JsonObject } from "everturn";
import type { HostStorage } from "everturn/runtime";
import type { IncomingMessage, ServerResponse } from "node:http";

import { createServer } from "node:http";

import { anthropic, chat, engine, openai, providerTool, tool, imageFromBase64, MisuseError, session } from "everturn";
import { attachment } from "everturn/advanced";
import { createHandler } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";
import { handClock } from "everturn/testing";
import { afterAll, beforeAll, describe, expect, expectTypeOf, test } from "vitest";

import { pendingDigest } from "./pending-digest.ts";
import { latch, rejectionOf } from "./runtime/sessions.ts";
import { shortLease } from "./runtime/two-processes.ts";
import { gated } from "./shared-storage.ts";

/** One request that the server received. */
type Received = { readonly path: string; readonly headers: IncomingMessage["headers"]; readonly body: JsonObject };

const received: Received[] = [];
const replies: JsonObject[] = [];
const server = createServer((asked, answer) => void serve(asked, answer));

async function serve(asked: IncomingMessage, answer: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of asked) chunks.push(Buffer.from(chunk));
  received.push({
    path: asked.url ?? "",
    headers: asked.headers,
    body: JSON.parse(Buffer.concat(chunks).toString("utf8")),
  });
  const reply = replies.shift();
  answer.writeHead(reply === undefined ? 500 : 200, { "content-type": "application/json" });
  answer.end(JSON.stringify(reply ?? { error: { message: "the script has no reply" } }));
}

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
afterAll(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

function address(): string {
  const bound = server.address();
  if (bound === null || typeof bound === "string") throw new Error("no port");
  return `http://127.0.0.1:${bound.port}/v1`;
}

/** The bodies of the requests since the last call, after the replies were scripted. */
function script(...next: readonly JsonObject[]): () => readonly JsonObject[] {
  received.length = 0;
  replies.splice(0, replies.length, ...next);
  return () => received.map(({ body }) => body);
}

const message = (text: string): JsonObject => ({
  id: "msg_1",
  type: "message",
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", text, annotations: [] }],
});
const response = (...output: readonly JsonObject[]): JsonObject => ({
  id: "resp_1",
  object: "response",
  status: "completed",
  model: "gpt-5.4",
  output,
});

function openaiEngine(...tools: readonly Tool[]) {
  return engine({ adapter: openai({ apiKey: "test", baseURL: address() }), model: "gpt-5.4", tools });
}

/** The items that follow the user message in a request. */
function sentItems(body: JsonObject | undefined): readonly Json[] {
  const input = body?.["input"];
  return Array.isArray(input) ? input.slice(1) : [];
}

const png = "iVBORw0KGgo=";
const screenshot = attachment(imageFromBase64(png, "image/png"));
const exit = { type: "exit", exit_code: 0 };
const shellCall = {
  id: "sh_1",
  type: "shell_call",
  status: "completed",
  call_id: "call_1",
  action: { commands: ["ls"], timeout_ms: null, max_output_length: null },
};
const shellOutput = {
  type: "shell_call_output",
  call_id: "call_1",
  output: [{ stdout: "a.txt", stderr: "", outcome: exit }],
};
const mcp = { provider: "openai", name: "mcp", options: { server_label: "zip", server_url: "https://example.com" } };
const approvalRequest = {
  id: "mcpr_1",
  type: "mcp_approval_request",
  server_label: "zip",
  name: "create_short_url",
  arguments: '{"url":"https://example.com/"}',
};
const safetyCheck = { id: "sc_1", code: "malicious_instructions", message: "Look at this." };
const computerCall = {
  id: "cu_1",
  type: "computer_call",
  status: "completed",
  call_id: "call_1",
  action: { type: "click", x: 1, y: 2, button: "left" },
  pending_safety_checks: [],
};

describe("chat runs the handler and sends the answer in the form of the API", () => {
  const calls: readonly (readonly [JsonObject, Tool, JsonObject, JsonObject])[] = [
    [
      shellCall,
      providerTool({
        provider: "openai",
        name: "shell",
        handler: ({ commands }) => ({ output: commands.map(() => ({ stdout: "a.txt", stderr: "", outcome: exit })) }),
      }),
      { type: "shell" },
      shellOutput,
    ],
    [
      {
        id: "lsh_1",
        type: "local_shell_call",
        status: "completed",
        call_id: "call_1",
        action: { type: "exec", command: ["ls"], env: {} },
      },
      providerTool({ provider: "openai", name: "local_shell", handler: ({ command }) => `ran ${command.join(" ")}` }),
      { type: "local_shell" },
      { type: "local_shell_call_output", call_id: "call_1", output: "ran ls" },
    ],
    [
      {
        id: "apc_1",
        type: "apply_patch_call",
        status: "completed",
        call_id: "call_1",
        operation: { type: "delete_file", path: "a.md" },
      },
      providerTool({ provider: "openai", name: "apply_patch", handler: ({ path }) => `deleted ${path}` }),
      { type: "apply_patch" },
      { type: "apply_patch_call_output", call_id: "call_1", status: "completed", output: "deleted a.md" },
    ],
    [
      computerCall,
      providerTool({ provider: "openai", name: "computer", handler: () => screenshot }),
      { type: "computer" },
      {
        type: "computer_call_output",
        call_id: "call_1",
        output: { type: "computer_screenshot", image_url: `data:image/png;base64,${png}` },
      },
    ],
    [
      {
        id: "tsc_1",
        type: "tool_search_call",
        status: "completed",
        call_id: "call_1",
        execution: "client",
        arguments: { goal: "weather" },
      },
      providerTool({
        provider: "openai",
        name: "tool_search",
        options: { execution: "client", description: "Finds tools.", parameters: { type: "object" } },
        handler: ({ goal }) => ({ tools: [{ type: "function", name: String(goal), parameters: {} }] }),
      }),
      { type: "tool_search", execution: "client", description: "Finds tools.", parameters: { type: "object" } },
      {
        type: "tool_search_output",
        call_id: "call_1",
        execution: "client",
        status: "completed",
        tools: [{ type: "function", name: "weather", parameters: {} }],
      },
    ],
    [
      {
        id: "ctc_1",
        type: "custom_tool_call",
        status: "completed",
        call_id: "call_1",
        name: "sql",
        input: "SELECT 1",
      },
      providerTool({
        provider: "openai",
        name: "custom",
        options: { name: "sql", format: { type: "grammar", syntax: "regex", definition: ".*" } },
        handler: ({ input }) => `ran ${input}`,
      }),
      { type: "custom", name: "sql", format: { type: "grammar", syntax: "regex", definition: ".*" } },
      { type: "custom_tool_call_output", call_id: "call_1", output: "ran SELECT 1" },
    ],
  ];

  test.each(
    calls.map(([item, of, definition, output]) => ({ type: String(item["type"]), item, of, definition, output })),
  )("$type", async ({ item, of, definition, output }) => {
    const bodies = script(response(item), response(message("Done.")));
    const result = await chat(openaiEngine(of), "Do it.");
    expect(result).toMatchObject({ haltedReason: "completed", finalResponse: { outputText: "Done." } });
    const [first, second] = bodies();
    expect(first?.["tools"]).toEqual([definition]);
    expect(sentItems(second)).toEqual([item, output]);
  });

  test("a handler that throws and a result that is too long keep the form", async () => {
    const failing = providerTool({
      provider: "openai",
      name: "shell",
      handler: () => {
        throw new Error("no shell here");
      },
    });
    const bodies = script(response(shellCall), response(message("Sorry.")));
    await chat(openaiEngine(failing), "Do it.");
    expect(sentItems(bodies()[1]).at(-1)).toMatchObject({
      output: [{ stdout: "", outcome: { type: "exit", exit_code: 1 } }],
    });
    expect(JSON.stringify(sentItems(bodies()[1]).at(-1))).toContain("no shell here");

    const long = providerTool({ provider: "openai", name: "shell", handler: () => "x".repeat(5000) });
    const next = script(response(shellCall), response(message("Done.")));
    await chat(openaiEngine(long), "Do it.", { maxToolResultLength: 1000 });
    const sent = JSON.stringify(sentItems(next()[1]).at(-1));
    expect(sent).toContain('"outcome":{"type":"exit","exit_code":0}');
    expect(sent.length).toBeLessThan(1500);
  });

  test("arguments that do not match the tool are answered without running the handler", async () => {
    let runs = 0;
    const shell = providerTool({ provider: "openai", name: "shell", handler: () => (runs += 1) });
    const bodies = script(response({ ...shellCall, action: { commands: "ls" } }), response(message("Sorry.")));
    await chat(openaiEngine(shell), "Do it.");
    expect(runs).toBe(0);
    expect(JSON.stringify(sentItems(bodies()[1]).at(-1))).toContain("must be a list of strings");
  });
});

describe("a provider tool without a handler", () => {
  test("ends the run with a call for the caller, whose answer continues it", async () => {
    const bodies = script(response(shellCall), response(message("Done.")));
    const agent = openaiEngine();
    const options = { providerTools: [{ provider: "openai", name: "shell", options: {} }] };
    const waits = await session.start(agent, "Do it.", options);
    expect(waits.result).toMatchObject({ haltedReason: "manual_tool_calls" });
    expect(waits.session.pendingToolCalls).toMatchObject([{ id: "call_1", name: "shell", reason: "manual" }]);
    const answered = session.submitToolResult(waits.session, "call_1", {
      output: [{ stdout: "a.txt", outcome: exit }],
    });
    const done = await session.continue(agent, answered, null, options);
    expect(done.result.haltedReason).toBe("completed");
    expect(bodies()[0]?.["tools"]).toEqual([{ type: "shell" }]);
    expect(sentItems(bodies()[1])).toEqual([shellCall, shellOutput]);
  });

  test("a call of a tool that was not listed is an error, not an answer", async () => {
    script(response(shellCall));
    const result = await chat(openaiEngine(), "Do it.");
    expect(result).toMatchObject({ haltedReason: "error", metadata: { error: { reason: "unknown_tool" } } });
  });

  test("a function tool and a provider tool of the same name are misuse", async () => {
    const shell = tool({ name: "shell", description: "Runs.", schema: { type: "object" }, handler: () => "ok" });
    const options = { providerTools: [{ provider: "openai", name: "shell", options: {} }] };
    const error = await rejectionOf(chat(openaiEngine(shell), "Do it.", options));
    expect(error).toBeInstanceOf(MisuseError);
    expect(String(error)).toContain('"shell" is in tools and in providerTools');
  });
});

describe("approval", () => {
  test("a request of an MCP server waits for a person, and the decision is the answer", async () => {
    const agent = openaiEngine();
    const options = { providerTools: [mcp] };
    for (const approve of [true, false]) {
      const bodies = script(response(approvalRequest), response(message("Done.")));
      const waits = await session.start(agent, "Shorten it.", options);
      expect(waits.result.haltedReason).toBe("approval");
      expect(waits.session.pendingToolCalls).toMatchObject([
        {
          id: "mcpr_1",
          name: "mcp_zip",
          reason: "approval",
          arguments: { name: "create_short_url", arguments: { url: "https://example.com/" } },
        },
      ]);
      const decision = approve ? ({ type: "approve" } as const) : ({ type: "deny", reason: "too risky" } as const);
      const decided = await session.decide(agent, waits.session, "mcpr_1", decision);
      const done = await session.continue(agent, decided, null, options);
      expect(done.result.haltedReason).toBe("completed");
      expect(bodies()[0]?.["tools"]).toEqual([{ type: "mcp", ...mcp.options }]);
      expect(sentItems(bodies()[1])[0]).toEqual(approvalRequest);
      expect(sentItems(bodies()[1])[1]).toMatchObject({
        type: "mcp_approval_response",
        approval_request_id: "mcpr_1",
        approve,
      });
      expect(JSON.stringify(sentItems(bodies()[1])[1]).includes("too risky")).toBe(!approve);
    }
  });

  test("an approval with changed arguments does not approve a call of an MCP server", async () => {
    const bodies = script(response(approvalRequest), response(message("Done.")));
    const agent = openaiEngine();
    const options = { providerTools: [mcp] };
    const waits = await session.start(agent, "Shorten it.", options);
    const changed = { server_label: "zip", name: "create_short_url", arguments: { url: "https://example.org/" } };
    const decision = { type: "approve", arguments: changed } as const;
    const decided = await session.decide(agent, waits.session, "mcpr_1", decision);
    await session.continue(agent, decided, null, options);
    expect(sentItems(bodies()[1])[1]).toMatchObject({ type: "mcp_approval_response", approve: false });
  });

  test("a gate of the program can approve requests of an MCP server without a person", async () => {
    const gated = providerTool({ ...mcp, name: "mcp", needsApproval: ({ name }) => name !== "create_short_url" });
    const bodies = script(response(approvalRequest), response(message("Done.")));
    expect((await chat(openaiEngine(gated), "Shorten it.")).haltedReason).toBe("completed");
    expect(sentItems(bodies()[1])[1]).toMatchObject({ type: "mcp_approval_response", approve: true });
  });

  test("safety checks of a computer call are acknowledged only after an approval", async () => {
    let clicks = 0;
    const computer = providerTool({
      provider: "openai",
      name: "computer_use_preview",
      options: { display_width: 100, display_height: 100, environment: "browser" },
      handler: () => {
        clicks += 1;
        return screenshot;
      },
    });
    const checked = { ...computerCall, pending_safety_checks: [safetyCheck] };
    const agent = openaiEngine(computer);
    const bodies = script(response(checked), response(message("Done.")));
    const waits = await session.start(agent, "Click.");
    expect(waits.result.haltedReason).toBe("approval");
    expect(clicks).toBe(0);
    const approved = await session.decide(agent, waits.session, "call_1", { type: "approve" });
    expect((await session.continue(agent, approved)).result.haltedReason).toBe("completed");
    expect(sentItems(bodies()[1])[1]).toMatchObject({
      type: "computer_call_output",
      acknowledged_safety_checks: [safetyCheck],
    });

    const next = script(response(message("Then not.")));
    const denied = await session.decide(agent, waits.session, "call_1", { type: "deny", reason: "no" });
    expect((await session.continue(agent, denied)).result.haltedReason).toBe("completed");
    expect(clicks).toBe(1);
    expect(JSON.stringify(next())).not.toContain("acknowledged_safety_checks");
    expect(sentItems(next()[0])).toMatchObject([{ type: "function_call" }, { type: "function_call_output" }]);
  });
});

describe("the durable runtime", () => {
  const shellOf = (handler: () => unknown, more: { readonly needsApproval?: boolean; readonly replay?: "safe" } = {}) =>
    providerTool({ provider: "openai", name: "shell", handler, ...more });
  const processOf = (host: HostStorage, of: Tool, clock = handClock()) =>
    runtime({ host, engines: { default: openaiEngine(of) }, live: false, clock, lease: shortLease });

  test("an approved call runs in another process, and its answer has the form of the API", async () => {
    const host = memoryStorage();
    const bodies = script(response(shellCall), response(message("Done.")));
    const first = processOf(
      host,
      shellOf(() => "never", { needsApproval: true }),
    );
    const started = await first.start("Do it.", { id: "s" });
    expect(await started.result).toMatchObject({ status: "ended" });
    expect((await first.get("s"))?.session.pendingToolCalls).toMatchObject([{ id: "call_1", reason: "approval" }]);
    const second = processOf(
      host,
      shellOf(() => "a.txt", { needsApproval: true }),
    );
    const decided = await second.decide("s", "call_1", { type: "approve" });
    expect(await decided.result).toMatchObject({ text: "Done." });
    expect(sentItems(bodies()[1])).toEqual([shellCall, shellOutput]);
  });

  test("a call that was running when its process died runs again with the policy safe, and the model call is not repeated", async () => {
    const clock = handClock();
    const host = memoryStorage({ clock });
    const bodies = script(response(shellCall), response(message("Done.")));
    const began = latch();
    const hanging = shellOf(
      () => {
        began.open();
        return new Promise(() => undefined);
      },
      { replay: "safe" },
    );
    const gate = gated(host);
    const first = processOf(gate, hanging, clock);
    await first.start("Do it.", { id: "s" });
    await began.passed;
    // The first process never writes again: its lease expires.
    gate.hold();
    await clock.advance(1000);
    const again = shellOf(() => "a.txt", { replay: "safe" });
    const second = processOf(host, again, clock);
    expect(await second.recover()).toMatchObject({ pickedUp: 1 });
    await expect.poll(async () => (await second.get("s"))?.openTurn).toBeNull();
    expect(bodies()).toHaveLength(2);
    expect(sentItems(bodies()[1])).toEqual([shellCall, shellOutput]);
  });

  test("a request of an MCP server that is listed in the options of a turn is decided after a restart", async () => {
    const host = memoryStorage();
    const bodies = script(response(approvalRequest), response(message("Done.")));
    const first = runtime({ host, engines: { default: openaiEngine() }, live: false });
    await (
      await first.start("Shorten it.", { id: "s", providerTools: [mcp] })
    ).result;
    const second = runtime({ host, engines: { default: openaiEngine() }, live: false });
    const decided = await second.decide("s", "mcpr_1", { type: "approve" }, { providerTools: [mcp] });
    expect(await decided.result).toMatchObject({ text: "Done." });
    expect(sentItems(bodies()[1])[1]).toMatchObject({ type: "mcp_approval_response", approve: true });
  });

  test("approval over HTTP", async () => {
    const bodies = script(response(shellCall), response(message("Done.")));
    const shell = shellOf(() => "a.txt", { needsApproval: true });
    const sessions = runtime({ host: memoryStorage(), engines: { default: openaiEngine(shell) } });
    const handler = createHandler({ sessions, auth: [{ token: "a-secret-bearer-token", operator: true }] });
    const post = async (path: string, body: JsonObject) =>
      handler(
        new Request(`http://localhost${path}`, {
          method: "POST",
          headers: {
            authorization: "Bearer a-secret-bearer-token",
            "content-type": "application/json",
            prefer: "wait=10",
          },
          body: JSON.stringify(body),
        }),
      );
    const started = await post("/sessions", { id: "s", input: "Do it." });
    expect(await started.text()).toContain('"shell"');
    const digest = await pendingDigest(sessions, "s");
    const decided = await post("/sessions/s/decisions", { toolCallId: "call_1", digest, type: "approve" });
    expect(await decided.text()).toContain("Done.");
    expect(sentItems(bodies()[1])).toEqual([shellCall, shellOutput]);
  });
});

describe("Anthropic", () => {
  const uses: readonly (readonly [string, Tool, JsonObject, string, JsonObject])[] = [
    [
      "bash",
      providerTool({ provider: "anthropic", name: "bash_20250124", handler: ({ command }) => `ran ${command ?? ""}` }),
      { command: "ls" },
      "ran ls",
      { type: "bash_20250124", name: "bash" },
    ],
    [
      "str_replace_based_edit_tool",
      providerTool({
        provider: "anthropic",
        name: "text_editor_20250728",
        options: { max_characters: 1000 },
        handler: ({ command, path }) => `${command} ${path}`,
      }),
      { command: "view", path: "a.txt" },
      "view a.txt",
      { type: "text_editor_20250728", name: "str_replace_based_edit_tool", max_characters: 1000 },
    ],
    [
      "memory",
      providerTool({ provider: "anthropic", name: "memory_20250818", handler: ({ command }) => command }),
      { command: "view", path: "/memories" },
      "view",
      { type: "memory_20250818", name: "memory" },
    ],
  ];
  const reply = (...content: readonly JsonObject[]): JsonObject => ({
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "claude-opus-4-7",
    content,
    stop_reason: content.some(({ type }) => type === "tool_use") ? "tool_use" : "end_turn",
    usage: { input_tokens: 1, output_tokens: 1 },
  });
  const engineOf = (of: Tool, betas: readonly string[] = []) =>
    engine({
      adapter: anthropic({ apiKey: "test", baseURL: address(), betas }),
      model: "claude-opus-4-7",
      tools: [of],
    });

  test.each(uses)("%s reaches its handler and is defined once", async (name, of, input, content, definition) => {
    const use = { type: "tool_use", id: "toolu_1", name, input };
    const bodies = script(reply(use), reply({ type: "text", text: "Done." }));
    const result = await chat(engineOf(of), "Do it.");
    expect(result).toMatchObject({ haltedReason: "completed", finalResponse: { outputText: "Done." } });
    expect(bodies()[0]?.["tools"]).toEqual([definition]);
    expect(bodies()[1]).toMatchObject({
      messages: [{}, { content: [use] }, { content: [{ type: "tool_result", tool_use_id: "toolu_1", content }] }],
    });
  });

  test("computer use sends its beta beside those of the program, and the screenshot as an image", async () => {
    const computer = providerTool({
      provider: "anthropic",
      name: "computer_20250124",
      options: { display_width_px: 100, display_height_px: 100 },
      handler: ({ action }) => (action === "screenshot" ? screenshot : "ok"),
    });
    const use = { type: "tool_use", id: "toolu_1", name: "computer", input: { action: "screenshot" } };
    const bodies = script(reply(use), reply({ type: "text", text: "Done." }));
    await chat(engineOf(computer, ["token-efficient-tools-2025-02-19"]), "Look.");
    expect(received.map(({ headers }) => headers["anthropic-beta"])).toEqual([
      "computer-use-2025-01-24,token-efficient-tools-2025-02-19",
      "computer-use-2025-01-24,token-efficient-tools-2025-02-19",
    ]);
    expect(bodies()[1]).toMatchObject({
      messages: [{}, {}, { content: [{ content: [{ type: "image", source: { type: "base64", data: png } }] }] }],
    });
  });

  test("calls of a toolset reach one handler, which reads the member in `action`", async () => {
    const actions: Json[] = [];
    const computer = providerTool({
      provider: "anthropic",
      name: "computer_toolset_20260801",
      options: { configs: { zoom: { enabled: false } } },
      handler: ({ action, coordinate }) => {
        actions.push({ action, coordinate: coordinate ?? null });
        return action === "screenshot" ? screenshot : "ok";
      },
    });
    const member = (id: string, name: string, input: JsonObject): JsonObject => ({
      type: "tool_use",
      id,
      caller: { type: "direct" },
      name,
      toolset_name: "computer",
      input,
    });
    const uses = [member("toolu_1", "left_click", { coordinate: [1, 2] }), member("toolu_2", "screenshot", {})];
    const bodies = script(reply(...uses), reply({ type: "text", text: "Done." }));
    const result = await chat(engineOf(computer), "Click.");
    expect(result).toMatchObject({ haltedReason: "completed", finalResponse: { outputText: "Done." } });
    expect(actions).toEqual([
      { action: "left_click", coordinate: [1, 2] },
      { action: "screenshot", coordinate: null },
    ]);
    expect(received[0]?.headers).not.toHaveProperty("anthropic-beta");
    expect(bodies()[0]?.["tools"]).toEqual([
      { type: "computer_toolset_20260801", configs: { zoom: { enabled: false } } },
    ]);
    expect(bodies()[1]).toMatchObject({
      messages: [
        {},
        { content: uses },
        {
          content: [
            { type: "tool_result", tool_use_id: "toolu_1", content: "ok", toolset_name: "computer" },
            { type: "tool_result", tool_use_id: "toolu_2", content: [{ type: "image" }], toolset_name: "computer" },
          ],
        },
      ],
    });
  });

  test("a tool of another provider is not sent", async () => {
    const bodies = script(reply({ type: "text", text: "Done." }));
    const shell = providerTool({ provider: "openai", name: "shell", handler: () => "ok" });
    await chat(engineOf(shell), "Do it.");
    expect(bodies()[0]).not.toHaveProperty("tools");
  });
});

test("a custom tool works with Chat Completions, from the same definition", async () => {
  const sql = providerTool({
    provider: "openai",
    name: "custom",
    options: {
      name: "sql",
      description: "Runs SQL.",
      format: { type: "grammar", syntax: "lark", definition: "start: A" },
    },
    handler: ({ input }) => `ran ${input}`,
  });
  const call = { id: "call_1", type: "custom", custom: { name: "sql", input: "SELECT 1" } };
  const choice = (message: JsonObject, finish: string): JsonObject => ({
    id: "chatcmpl_1",
    object: "chat.completion",
    model: "gpt-5.4",
    choices: [{ index: 0, message: { role: "assistant", content: null, ...message }, finish_reason: finish }],
  });
  const bodies = script(choice({ tool_calls: [call] }, "tool_calls"), choice({ content: "Done." }, "stop"));
  const agent = engine({
    adapter: openai({ apiKey: "test", baseURL: address(), api: "chat" }),
    model: "gpt-5.4",
    tools: [sql],
  });
  const result = await chat(agent, "Do it.", { toolChoice: { type: "tool", name: "sql" } });
  expect(result).toMatchObject({ haltedReason: "completed", finalResponse: { outputText: "Done." } });
  expect(bodies()[0]).toMatchObject({
    tools: [
      {
        type: "custom",
        custom: {
          name: "sql",
          description: "Runs SQL.",
          format: { type: "grammar", grammar: { syntax: "lark", definition: "start: A" } },
        },
      },
    ],
    tool_choice: { type: "custom", custom: { name: "sql" } },
  });
  expect(bodies()[1]?.["messages"]).toMatchObject([
    {},
    { tool_calls: [call] },
    { role: "tool", tool_call_id: "call_1", content: "ran SELECT 1" },
  ]);
});

test("Chat Completions does not get tools of the Responses API, and the reply has a warning", async () => {
  const shell = providerTool({ provider: "openai", name: "shell", handler: () => "ok" });
  const message = { role: "assistant", content: "Done." };
  const bodies = script({ id: "chatcmpl_1", choices: [{ index: 0, message, finish_reason: "stop" }] });
  const adapter = openai({ apiKey: "test", baseURL: address(), api: "chat" });
  const result = await chat(engine({ adapter, model: "gpt-5.4", tools: [shell] }), "Do it.");
  expect(bodies()[0]).not.toHaveProperty("tools");
  expect(result.finalResponse?.warnings).toMatchObject([{ path: "providerTools[0]", reason: "unsupported" }]);
});

describe("providerTool", () => {
  test("refuses tools that the provider runs itself", () => {
    for (const name of ["web_search", "web_search_20250305", "tool_search", "custom"])
      expect(() => providerTool({ provider: "openai", name, handler: () => "ok" })).toThrow(MisuseError);
    const options = { environment: { type: "container_auto" } };
    expect(() => providerTool({ provider: "openai", name: "shell", options })).toThrow(/providerTools/);
  });

  test("types the arguments by the name of the tool", () => {
    providerTool({
      provider: "openai",
      name: "shell",
      handler: ({ commands, timeout_ms: timeoutMs }) => {
        expectTypeOf(commands).toEqualTypeOf<readonly string[]>();
        expectTypeOf(timeoutMs).toEqualTypeOf<number | null | undefined>();
      },
    });
    providerTool({
      provider: "anthropic",
      name: "text_editor_20250728",
      handler: ({ path, insert_line: line }) => {
        expectTypeOf(path).toEqualTypeOf<string>();
        expectTypeOf(line).toEqualTypeOf<number | null | undefined>();
      },
    });
  });

  test("has the settings of an ordinary tool", () => {
    const shell = providerTool({
      provider: "openai",
      name: "shell",
      needsApproval: true,
      replay: "ask",
      timeoutMs: 1000,
      concurrency: "serial",
      handler: () => "ok",
    });
    expect(shell).toMatchObject({
      name: "shell",
      manual: false,
      needsApproval: true,
      replay: "ask",
      timeoutMs: 1000,
      concurrency: "serial",
      providerTool: { provider: "openai", name: "shell", options: {} },
    });
    expect(providerTool({ provider: "openai", name: "shell" })).toMatchObject({ manual: true });
  });
});
