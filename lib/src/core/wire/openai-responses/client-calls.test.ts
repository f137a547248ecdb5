// Provider tools of the Responses API whose calls the program runs.

import type { WireContext } from "../codec.ts";
import type { AssistantMessage, Json, JsonObject, Message, ToolMessage } from "everturn";
import type { ModelEvent } from "everturn/advanced";

import { assistant, imagePart, imageFromBase64, orThrow, parse, textPart, toolResult, user } from "everturn";
import { request, Collector } from "everturn/advanced";
import { describe, expect, test } from "vitest";

import { reasoningPart, toolCallPart } from "../../model/internal.ts";
import { noQuirks } from "../codec.ts";
import { objectsAt } from "../fields.ts";
import { frameReader } from "../sse.ts";
import { openaiResponses } from "./codec.ts";

const route = { provider: "openai", endpoint: "https://api.openai.com/v1", model: "gpt-5.4" };
const context: WireContext = { route, rawChunks: false, quirks: noQuirks };
const png = "iVBORw0KGgo=";

/** An item of each type, the call that it becomes, an answer, and the output item of the answer. */
type Case = {
  readonly item: JsonObject;
  readonly call: { readonly id: string; readonly name: string; readonly arguments: JsonObject };
  readonly answer: ToolMessage;
  readonly output: JsonObject;
};

const exit = { type: "exit", exit_code: 0 };
const cases: { readonly [type: string]: Case } = {
  computer_call: {
    item: {
      id: "cu_1",
      type: "computer_call",
      status: "completed",
      call_id: "call_1",
      action: { type: "click", button: "left", x: 10, y: 20 },
      pending_safety_checks: [{ id: "sc_1", code: "malicious_instructions", message: "Look at this." }],
    },
    call: {
      id: "call_1",
      name: "computer",
      arguments: {
        action: { type: "click", button: "left", x: 10, y: 20 },
        pending_safety_checks: [{ id: "sc_1", code: "malicious_instructions", message: "Look at this." }],
      },
    },
    answer: toolResult("call_1", [imagePart(imageFromBase64(png, "image/png"))], { name: "computer" }),
    output: {
      type: "computer_call_output",
      call_id: "call_1",
      output: { type: "computer_screenshot", image_url: `data:image/png;base64,${png}` },
      acknowledged_safety_checks: [{ id: "sc_1", code: "malicious_instructions", message: "Look at this." }],
    },
  },
  local_shell_call: {
    item: {
      id: "lsh_1",
      type: "local_shell_call",
      status: "completed",
      call_id: "call_1",
      action: { type: "exec", command: ["ls", "-a"], env: {}, working_directory: "/root" },
    },
    call: {
      id: "call_1",
      name: "local_shell",
      arguments: { type: "exec", command: ["ls", "-a"], env: {}, working_directory: "/root" },
    },
    answer: toolResult("call_1", "a.txt"),
    output: { type: "local_shell_call_output", call_id: "call_1", output: "a.txt" },
  },
  shell_call: {
    item: {
      id: "sh_1",
      type: "shell_call",
      status: "completed",
      call_id: "call_1",
      action: { commands: ["ls", "sleep 99"], max_output_length: 9000, timeout_ms: null },
    },
    call: {
      id: "call_1",
      name: "shell",
      arguments: { commands: ["ls", "sleep 99"], max_output_length: 9000, timeout_ms: null },
    },
    answer: toolResult("call_1", {
      output: [
        { stdout: "a.txt", stderr: "", outcome: exit },
        { stdout: "", stderr: "", outcome: { type: "timeout" } },
      ],
    }),
    output: {
      type: "shell_call_output",
      call_id: "call_1",
      output: [
        { stdout: "a.txt", stderr: "", outcome: exit },
        { stdout: "", stderr: "", outcome: { type: "timeout" } },
      ],
      max_output_length: 9000,
    },
  },
  apply_patch_call: {
    item: {
      id: "apc_1",
      type: "apply_patch_call",
      status: "completed",
      call_id: "call_1",
      operation: { type: "create_file", path: "a.md", diff: "+# A\n" },
    },
    call: { id: "call_1", name: "apply_patch", arguments: { type: "create_file", path: "a.md", diff: "+# A\n" } },
    answer: toolResult("call_1", { status: "completed", output: "created a.md" }),
    output: { type: "apply_patch_call_output", call_id: "call_1", status: "completed", output: "created a.md" },
  },
  mcp_approval_request: {
    item: {
      id: "mcpr_1",
      type: "mcp_approval_request",
      server_label: "zip 1",
      name: "create_short_url",
      arguments: '{ "url": "https://example.com/" }',
    },
    call: {
      id: "mcpr_1",
      name: "mcp_zip_1",
      arguments: { server_label: "zip 1", name: "create_short_url", arguments: { url: "https://example.com/" } },
    },
    answer: toolResult("mcpr_1", "approved"),
    output: { type: "mcp_approval_response", approval_request_id: "mcpr_1", approve: true },
  },
  tool_search_call: {
    item: {
      id: "tsc_1",
      type: "tool_search_call",
      status: "completed",
      call_id: "call_1",
      execution: "client",
      arguments: { goal: "weather" },
    },
    call: { id: "call_1", name: "tool_search", arguments: { goal: "weather" } },
    answer: toolResult("call_1", { tools: [{ type: "function", name: "weather", parameters: {} }] }),
    output: {
      type: "tool_search_output",
      call_id: "call_1",
      execution: "client",
      status: "completed",
      tools: [{ type: "function", name: "weather", parameters: {} }],
    },
  },
  custom_tool_call: {
    item: {
      id: "ctc_1",
      type: "custom_tool_call",
      status: "completed",
      call_id: "call_1",
      name: "sql",
      input: "SELECT 1",
    },
    call: { id: "call_1", name: "sql", arguments: { input: "SELECT 1" } },
    answer: toolResult("call_1", "1"),
    output: { type: "custom_tool_call_output", call_id: "call_1", output: "1" },
  },
};
const named = Object.entries(cases).map(([type, one]) => ({ type, ...one }));

function responseOf(items: readonly JsonObject[]): JsonObject {
  return { id: "resp_1", object: "response", status: "completed", model: "gpt-5.4", output: items };
}

function whole(items: readonly JsonObject[], given: WireContext = context): readonly ModelEvent[] {
  return openaiResponses.decodeReply(responseOf(items), given);
}

function streamed(items: readonly JsonObject[], given: WireContext = context): readonly ModelEvent[] {
  const events = items.flatMap((item, index): readonly JsonObject[] => [
    { type: "response.output_item.added", output_index: index, item: { ...item, ...open(item) } },
    { type: "response.output_item.done", output_index: index, item },
  ]);
  const last = { type: "response.completed", response: responseOf(items) };
  const text = [...events, last].map((event) => `data: ${JSON.stringify(event)}\n\n`).join("");
  const decoder = openaiResponses.decoder(given);
  return [...decoder.push(frameReader().push(text)), ...decoder.end()];
}

/** The fields of an item that is still being written. */
function open(item: JsonObject): JsonObject {
  return item["status"] === undefined ? {} : { status: "in_progress" };
}

function messageOf(events: readonly ModelEvent[]): AssistantMessage {
  const collector = new Collector();
  for (const event of events) collector.add(event);
  const { message } = collector.reply();
  if (message === null) throw new Error("no message");
  // As it is stored: replay data and arguments survive.
  const stored: Message = orThrow(parse("message", JSON.parse(JSON.stringify(message))));
  if (stored.role !== "assistant") throw new Error("no reply");
  return stored;
}

function encoded(messages: readonly Message[], options: JsonObject = {}, given: WireContext = context) {
  const { body, omissions } = openaiResponses.encode(request([user("Do it."), ...messages], { options }), given);
  return { input: objectsAt(body, "input").slice(1), omissions };
}

describe.each(named)("$type", ({ item, call, answer, output }) => {
  test("is a call for the program, streamed and whole", () => {
    for (const events of [whole([item]), streamed([item])]) {
      const message = messageOf(events);
      expect(message).toMatchObject({ finishReason: "tool_calls", toolCalls: [call] });
      expect(events.filter(({ type }) => type === "tool_call_completed")).toMatchObject([
        { ...call, providerExecuted: false },
      ]);
    }
    expect(messageOf(streamed([item]))).toEqual(messageOf(whole([item])));
  });

  test("is sent back unchanged, with the output item of its answer", () => {
    expect(encoded([messageOf(whole([item])), answer])).toEqual({ input: [item, output], omissions: [] });
  });

  test("is sent to another model as a function call with text", () => {
    const foreign = { ...context, route: { ...route, model: "another" } };
    expect(encoded([messageOf(whole([item])), answer], {}, foreign).input).toMatchObject([
      { type: "function_call", call_id: call.id, name: call.name, arguments: JSON.stringify(call.arguments) },
      { type: "function_call_output", call_id: call.id },
    ]);
  });
});

test("a call has the id of its complete item, which can differ from the id that the stream announced", () => {
  const { item = {} } = cases["tool_search_call"] ?? {};
  const events = [
    {
      type: "response.output_item.added",
      output_index: 0,
      item: { ...item, call_id: "call_0", status: "in_progress" },
    },
    { type: "response.output_item.done", output_index: 0, item },
    { type: "response.completed", response: responseOf([item]) },
  ];
  const decoder = openaiResponses.decoder(context);
  const text = events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("");
  const decoded = [...decoder.push(frameReader().push(text)), ...decoder.end()];
  expect(messageOf(decoded).toolCalls).toMatchObject([{ id: "call_1" }]);
  expect(decoded.flatMap((event) => (event.type === "tool_call_started" ? [event.id] : []))).toEqual(["call_1"]);
});

describe("answers", () => {
  const answered = (type: string, answer: ToolMessage): JsonObject | undefined =>
    encoded([messageOf(whole([cases[type]?.item ?? {}])), answer]).input.at(-1);
  const failed = toolResult("call_1", "no such file", { status: "failure", code: "handler_raised" });

  test("a shell call that failed has the text as stderr and exit code 1, or a timeout", () => {
    expect(answered("shell_call", failed)).toMatchObject({
      output: [{ stdout: "", stderr: "no such file", outcome: { type: "exit", exit_code: 1 } }],
    });
    expect(answered("shell_call", { ...failed, code: "timeout" })).toMatchObject({
      output: [{ stderr: "no such file", outcome: { type: "timeout" } }],
    });
  });

  test("a shell call that is answered with text has it as stdout", () => {
    expect(answered("shell_call", toolResult("call_1", "a.txt"))).toMatchObject({
      output: [{ stdout: "a.txt", outcome: exit }],
    });
    expect(answered("shell_call", toolResult("call_1", '{"a":1}'))).toMatchObject({ output: [{ stdout: '{"a":1}' }] });
  });

  test("a note about changed arguments precedes the output", () => {
    const noted = toolResult("call_1", [textPart("[changed]\n"), textPart('{"output":[{"stdout":"a"}]}')]);
    expect(answered("shell_call", noted)).toMatchObject({
      output: [{ stdout: "[changed]\na", stderr: "", outcome: exit }],
    });
  });

  test("a patch that failed has the status failed", () => {
    expect(answered("apply_patch_call", failed)).toMatchObject({ status: "failed", output: "no such file" });
    const reported = toolResult("call_1", { status: "failed", output: "conflict" });
    expect(answered("apply_patch_call", reported)).toMatchObject({ status: "failed", output: "conflict" });
  });

  test("a denied approval request is answered with the reason", () => {
    const denied = toolResult("mcpr_1", "too risky", { status: "failure", code: "denied" });
    expect(answered("mcp_approval_request", denied)).toEqual({
      type: "mcp_approval_response",
      approval_request_id: "mcpr_1",
      approve: false,
      reason: "too risky",
    });
  });

  test("text beside a screenshot follows as a message", () => {
    const seen = toolResult("call_1", [textPart("The page has loaded."), imagePart(imageFromBase64(png, "image/png"))]);
    expect(answered("computer_call", seen)).toEqual({
      type: "message",
      role: "user",
      content: [{ type: "input_text", text: "The page has loaded." }],
    });
  });

  test("a tool search that failed, or that found no list of tools, is answered with its text", () => {
    const { item = {} } = cases["tool_search_call"] ?? {};
    for (const answer of [failed, toolResult("call_1", "no such file")])
      expect(encoded([messageOf(whole([item])), answer]).input).toMatchObject([
        item,
        { type: "function_call_output", call_id: "call_1", output: "no such file" },
      ]);
    expect(answered("tool_search_call", toolResult("call_1", "[]"))).toMatchObject({ tools: [] });
  });

  test("a computer call without a screenshot is sent as a function call, and its safety checks are not acknowledged", () => {
    const denied = toolResult("call_1", "denied", { status: "failure", code: "denied" });
    const { input, omissions } = encoded([messageOf(whole([cases["computer_call"]?.item ?? {}])), denied]);
    expect(input).toMatchObject([
      { type: "function_call", call_id: "call_1", name: "computer" },
      { type: "function_call_output", call_id: "call_1", output: "denied" },
    ]);
    expect(JSON.stringify(input)).not.toContain("acknowledged");
    expect(omissions).toMatchObject([{ path: "messages[1].toolCalls[0]", reason: "repaired" }]);
  });

  test("a failed computer call with a screenshot and pending checks does not acknowledge them", () => {
    const failed = toolResult("call_1", [imagePart(imageFromBase64(png, "image/png"))], { status: "failure" });
    expect(answered("computer_call", failed)).toMatchObject({ type: "function_call_output" });
  });
});

describe("calls that the provider runs", () => {
  test("a shell in a container and a search of the server need no answer", () => {
    const shell = {
      id: "sh_1",
      type: "shell_call",
      status: "completed",
      call_id: "call_1",
      action: { commands: ["ls"] },
      environment: { type: "container_reference", container_id: "cntr_1" },
    };
    const output = { id: "sho_1", type: "shell_call_output", call_id: "call_1", output: [{ stdout: "a" }] };
    const search = {
      id: "tsc_1",
      type: "tool_search_call",
      call_id: null,
      execution: "server",
      arguments: { paths: ["a"] },
    };
    const items = [shell, output, search];
    for (const events of [whole(items), streamed(items)]) {
      const message = messageOf(events);
      expect(message).toMatchObject({ finishReason: "stop", toolCalls: [] });
      expect(message.content).toMatchObject([
        { type: "tool_call", providerExecuted: { name: "shell", arguments: { commands: ["ls"] } } },
        { type: "opaque", kind: "shell_call_output" },
        { type: "tool_call", providerExecuted: { name: "tool_search", arguments: { paths: ["a"] } } },
      ]);
      expect(encoded([message]).input).toEqual(items);
    }
  });

  test("arguments of xAI's tools are kept, and its custom calls are no calls for the program", () => {
    const xai = { ...context, route: { ...route, provider: "xai" }, quirks: { customCalls: "provider" } } as const;
    const items = [
      { id: "ws_1", type: "web_search_call", status: "completed", name: "web_search", arguments: '{"query":"news"}' },
      { id: "xs_1", type: "x_search_call", status: "completed", name: "x_keyword_search", arguments: '{"query":"a"}' },
      {
        id: "ci_1",
        type: "code_interpreter_call",
        status: "completed",
        name: "code_execution",
        arguments: '{"code":"1"}',
      },
      {
        id: "ct_1",
        type: "custom_tool_call",
        status: "completed",
        call_id: "xs_call",
        name: "x_user_search",
        input: '{"query":"b"}',
      },
      { id: "vi_1", type: "view_image_call", status: "completed", input: "https://example.com/a.png" },
    ];
    for (const events of [whole(items, xai), streamed(items, xai)]) {
      const message = messageOf(events);
      expect(message).toMatchObject({ finishReason: "stop", toolCalls: [] });
      expect(message.content).toMatchObject([
        { providerExecuted: { name: "web_search", arguments: { query: "news" } } },
        { providerExecuted: { name: "x_keyword_search", arguments: { query: "a" } } },
        { providerExecuted: { name: "code_execution", arguments: { code: "1" } } },
        { providerExecuted: { name: "x_user_search", arguments: { query: "b" } } },
        { providerExecuted: { name: "view_image", arguments: { input: "https://example.com/a.png" } } },
      ]);
      expect(encoded([message], {}, xai).input).toEqual(items);
    }
  });
});

describe("items whose reasoning cannot be sent back", () => {
  const replay = (data: Json) => ({ ...route, data });
  const lost = reasoningPart("", { provider: replay({ id: "rs_1", type: "reasoning", summary: [] }) });
  const kept = reasoningPart("", {
    provider: replay({ id: "rs_2", type: "reasoning", summary: [], encrypted_content: "gAAA" }),
  });
  const search = (id: string) =>
    toolCallPart(id, {
      providerExecuted: {
        id,
        name: "web_search",
        arguments: {},
        rawArguments: null,
        provider: replay({ id, type: "web_search_call", status: "completed" }),
        metadata: {},
      },
    });

  test("items of provider-run tools after it are not sent with store: false, up to the next reasoning that is sent", () => {
    const reply = assistant([search("ws_0"), lost, search("ws_1"), kept, search("ws_2"), textPart("Done.")]);
    const { input, omissions } = encoded([reply]);
    expect(input.map(({ id, type }) => id ?? type)).toEqual(["ws_0", "rs_2", "ws_2", "message"]);
    expect(omissions).toMatchObject([
      { path: "messages[1].content[1]", reason: "unsupported" },
      { path: "messages[1].content[2]", reason: "repaired" },
    ]);
    expect(encoded([reply], { store: true }).input.map(({ id, type }) => id ?? type)).toEqual([
      "ws_0",
      "rs_1",
      "ws_1",
      "rs_2",
      "ws_2",
      "message",
    ]);
  });

  test.each(named)("$type is sent without an item id", ({ item, answer }) => {
    const lostItem = { id: "rs_1", type: "reasoning", summary: [] };
    const { input } = encoded([messageOf(whole([lostItem, item])), answer]);
    expect(input).toHaveLength(2);
    expect(input[0]?.["id"]).toBeUndefined();
  });
});

describe("definitions and choice of tools", () => {
  const bodyOf = (name: string, options: JsonObject, choice: string) =>
    openaiResponses.encode(
      request([user("Do it.")], {
        providerTools: [{ provider: "openai", name, options }],
        toolChoice: { type: "tool", name: choice },
      }),
      context,
    ).body;

  test.each([
    ["shell", {}, "shell", { type: "shell" }],
    ["apply_patch", {}, "apply_patch", { type: "apply_patch" }],
    ["computer_use_preview", {}, "computer", { type: "computer_use_preview" }],
    ["custom", { name: "sql" }, "sql", { type: "custom", name: "sql" }],
    ["custom", { custom: { name: "sql" } }, "sql", { type: "custom", name: "sql" }],
    ["mcp", { server_label: "zip" }, "mcp_zip", { type: "mcp", server_label: "zip" }],
    ["web_search", {}, "web_search", { type: "web_search" }],
    ["web_search", {}, "weather", { type: "function", name: "weather" }],
  ])("%s %j can be forced as %s", (name, options, choice, expected) => {
    expect(bodyOf(name, options, choice)["tool_choice"]).toEqual(expected);
  });

  test("the nested definition of a custom tool is sent flat", () => {
    const grammar = { syntax: "lark", definition: 'start: "a"' };
    const flat = { name: "sql", format: { type: "grammar", ...grammar } };
    expect(bodyOf("custom", flat, "sql")["tools"]).toEqual([{ type: "custom", ...flat }]);
    const nested = { custom: { name: "sql", format: { type: "grammar", grammar } } };
    expect(bodyOf("custom", nested, "sql")["tools"]).toEqual([{ type: "custom", ...flat }]);
  });
});
