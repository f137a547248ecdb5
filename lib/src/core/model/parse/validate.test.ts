// One test for every rule: those of ALLM's validator, then the added ones.

import type { Path } from "../failure/issue.ts";
import type { Message, ModelRequest, Session, Thread } from "everturn";
import type { ImageRequest, IssueCode, ToolSpec } from "everturn/advanced";

import {
  assistant,
  EngineError,
  fromMessages,
  imageFromUrl,
  newSession,
  toolResult,
  user,
  validateThread,
} from "everturn";
import {
  jsonSchema,
  request,
  imageRequest,
  toolCall,
  toolSpec,
  validateMessage,
  validateRequest,
  validateSession,
  validateTool,
} from "everturn/advanced";
import { describe, expect, test } from "vitest";

import { toolCallPart } from "../message/media-part.ts";
import { validateImageRequest } from "./validate-image-request.ts";

/** A value that only a JavaScript caller can pass. */
function untyped<T>(value: unknown): T;
function untyped(value: unknown): unknown {
  return value;
}

type Outcome =
  | { ok: true }
  | { ok: false; failure: { reason: string; issues: readonly { path: Path; code: IssueCode }[] } };

function issuesOf(result: Outcome): readonly (readonly [Path, IssueCode])[] {
  return result.ok ? [] : result.failure.issues.map(({ path, code }) => [path, code] as const);
}

const weather = toolSpec({ name: "weather", description: "Tells the weather.", schema: { type: "object" } });
const hello = user("hi");
const asked = (...ids: readonly string[]) =>
  assistant("", { toolCalls: ids.map((id) => toolCall({ id, name: "weather", arguments: {} })) });

describe("[allm 85] validateRequest", () => {
  const rows: readonly (readonly [string, unknown, Path, IssueCode])[] = [
    ["no messages", { messages: [] }, ["messages"], "empty"],
    ["messages that are no list", { messages: "hi" }, ["messages"], "not_a_list"],
    [
      "a message of an unknown role",
      { messages: [{ role: "robot", content: "" }] },
      ["messages", 0, "role"],
      "unknown",
    ],
    ["a tool without a name", { tools: [{ ...weather, name: "" }] }, ["tools", 0, "name"], "empty"],
    ["tools that are no list", { tools: "weather" }, ["tools"], "not_a_list"],
    ["two tools of one name", { tools: [weather, weather] }, ["tools"], "duplicate_name"],
    ["a temperature below 0", { temperature: -0.1 }, ["temperature"], "out_of_range"],
    ["a temperature above 2", { temperature: 2.1 }, ["temperature"], "out_of_range"],
    ["a temperature that is no number", { temperature: "hot" }, ["temperature"], "out_of_range"],
    ["no tokens at all", { maxTokens: 0 }, ["maxTokens"], "must_be_positive"],
    ["half a token", { maxTokens: 0.5 }, ["maxTokens"], "must_be_positive"],
    ["an unknown response format", { responseFormat: { type: "xml" } }, ["responseFormat"], "invalid_shape"],
    ["an answer format that is no object", { responseFormat: "json" }, ["responseFormat"], "invalid_shape"],
    [
      "a finalize step in text",
      { structuredFinalize: true, responseFormat: { type: "text" } },
      ["structuredFinalize"],
      "requires_json_schema",
    ],
    ["a finalize step without a schema", { structuredFinalize: true }, ["structuredFinalize"], "requires_json_schema"],
  ];

  test.each(rows)("%s", (_, fields, path, code) => {
    const broken = untyped<ModelRequest>({ ...request([hello]), ...untyped<object>(fields) });
    expect(issuesOf(validateRequest(broken))).toEqual([[path, code]]);
  });

  test("the bounds of every range are valid", () => {
    for (const temperature of [0, 2]) expect(validateRequest(request([hello], { temperature })).ok).toBe(true);
    expect(validateRequest(request([hello], { maxTokens: 1 })).ok).toBe(true);
    const finalized = { structuredFinalize: true, responseFormat: jsonSchema("answer", { type: "object" }) };
    expect(validateRequest(request([hello], finalized)).ok).toBe(true);
    const anyObject = { structuredFinalize: true, responseFormat: { type: "json_object" } as const };
    expect(validateRequest(request([hello], anyObject)).ok).toBe(true);
  });

  test("[allm 88] reports every violation with its full path", () => {
    const broken = untyped<ModelRequest>({
      messages: [user("hi"), { role: "tool", content: 5 }],
      tools: [{ name: "auto", description: 1, schema: [] }, weather, weather],
      temperature: 9,
      maxTokens: -1,
      responseFormat: "json",
      structuredFinalize: true,
    });
    const result = validateRequest(broken);
    expect(issuesOf(result)).toEqual([
      [["messages", 1, "content"], "invalid_type"],
      [["messages", 1, "toolCallId"], "required"],
      [["tools", 0, "name"], "reserved_tool_name"],
      [["tools", 0, "description"], "not_a_string"],
      [["tools", 0, "schema"], "not_a_map"],
      [["tools"], "duplicate_name"],
      [["temperature"], "out_of_range"],
      [["maxTokens"], "must_be_positive"],
      [["responseFormat"], "invalid_shape"],
      [["structuredFinalize"], "requires_json_schema"],
    ]);
    expect(!result.ok && result.failure.reason).toBe("invalid_request");
    expect(!result.ok && result.failure.message).toBe(
      "validation failed: invalid_request (10 errors): messages[1].content: must be a string or a list of parts, " +
        "not a number; messages[1].toolCallId: a tool message needs the id of the call it answers; " +
        "tools[0].name: auto, none, required are keywords of toolChoice; …",
    );
  });
});

describe("[allm 115] [allm 86] validateMessage", () => {
  const rows: readonly (readonly [string, unknown, Path, IssueCode])[] = [
    ["an unknown role", { role: "robot", content: "" }, ["role"], "unknown"],
    ["a part of an unknown type", { role: "user", content: [{ type: "video" }] }, ["content"], "invalid_part_type"],
    ["a part that is no object", { role: "user", content: ["hi"] }, ["content"], "invalid_part_type"],
    [
      "an image in a system message",
      { role: "system", content: [{ type: "image" }] },
      ["content"],
      "image_in_system_message",
    ],
    ["reasoning of a user", { role: "user", content: [{ type: "reasoning" }] }, ["content"], "invalid_part_type"],
    ["content that is a map", { role: "user", content: {} }, ["content"], "invalid_type"],
    ["blank text of a user", { role: "user", content: " \n" }, ["content"], "empty"],
    ["blank parts of a user", { role: "user", content: [{ type: "text", text: "" }] }, ["content"], "empty"],
    ["no content", { role: "user" }, ["content"], "invalid_type"],
    ["an answer to no call", { role: "tool", content: "21" }, ["toolCallId"], "required"],
    ["no object at all", "hi", [], "invalid_type"],
  ];

  test.each(rows)("%s", (_, message, path, code) => {
    const result = validateMessage(untyped<Message>(message));
    expect(issuesOf(result)).toEqual([[path, code]]);
    expect(!result.ok && result.failure.reason).toBe("invalid_message");
  });

  test("reports duplicate call ids and tool_call parts without a call", () => {
    expect(issuesOf(validateMessage(asked("c1", "c2", "c1")))).toEqual([[["toolCalls", 2], "duplicate_tool_call_id"]]);
    const nameless = { role: "assistant", content: "", toolCalls: [{}, { id: "a" }, { id: "a" }] };
    expect(issuesOf(validateMessage(untyped<Message>(nameless)))).toEqual([
      [["toolCalls", 2], "duplicate_tool_call_id"],
    ]);
    expect(issuesOf(validateMessage(assistant([toolCallPart("c9")])))).toEqual([
      [["content", 0], "unknown_tool_call_id"],
    ]);
    const search = toolCall({ id: "s1", name: "web_search", arguments: {} });
    expect(validateMessage(assistant([toolCallPart("s1", { providerExecuted: search })])).ok).toBe(true);
  });

  test("the message lists the allowed parts", () => {
    const result = validateMessage(untyped<Message>({ role: "user", content: ["hi"] }));
    expect(!result.ok && result.failure.message).toContain("may contain parts of type text, image, file");
  });
});

describe("[allm 86] validateTool", () => {
  const rows: readonly (readonly [string, unknown, Path, IssueCode])[] = [
    ["an empty name", { name: "" }, ["name"], "empty"],
    ["the name auto", { name: "auto" }, ["name"], "reserved_tool_name"],
    ["the name none", { name: "none" }, ["name"], "reserved_tool_name"],
    ["the name required", { name: "required" }, ["name"], "reserved_tool_name"],
    ["a name with a space", { name: "my tool" }, ["name"], "invalid_format"],
    ["a name of 65 letters", { name: "a".repeat(65) }, ["name"], "invalid_format"],
    ["a name that ends in a line break", { name: "weather\n" }, ["name"], "invalid_format"],
    ["a name that is no string", { name: 7 }, ["name"], "invalid_format"],
    ["a description that is no string", { description: null }, ["description"], "not_a_string"],
    ["a schema that is a list", { schema: [] }, ["schema"], "not_a_map"],
  ];

  test.each(rows)("%s", (_, fields, path, code) => {
    const result = validateTool(untyped<ToolSpec>({ ...weather, ...untyped<object>(fields) }));
    expect(issuesOf(result)).toEqual([[path, code]]);
    expect(!result.ok && result.failure.reason).toBe("invalid_tool");
  });

  test("a name of 64 letters, digits, underscores and hyphens is valid", () => {
    expect(validateTool({ ...weather, name: `${"a".repeat(60)}_-09` }).ok).toBe(true);
  });
});

describe("[allm 86] validateThread", () => {
  test("an empty thread is valid", () => {
    expect(validateThread(fromMessages([])).ok).toBe(true);
  });

  test("issues of a message have its position in their path", () => {
    const broken = untyped<Thread>({ messages: [hello, { role: "tool", content: "" }] });
    const result = validateThread(broken);
    expect(issuesOf(result)).toEqual([[["messages", 1, "toolCallId"], "required"]]);
    expect(!result.ok && result.failure.reason).toBe("invalid_thread");
  });

  test("reports a call without an answer and the call of toolResult that adds it", () => {
    const result = validateThread(fromMessages([hello, asked("c1", "c2"), toolResult("c1", "21")]));
    expect(issuesOf(result)).toEqual([[["messages", 1, "toolCalls", 1], "unanswered_tool_call"]]);
    expect(!result.ok && result.failure.message).toContain('append toolResult("c2", …)');
  });

  test("reports an answer without a call", () => {
    const result = validateThread(fromMessages([hello, toolResult("c9", "21")]));
    expect(issuesOf(result)).toEqual([[["messages", 1, "toolCallId"], "unknown_tool_call_id"]]);
  });

  test("reports a second answer to a call", () => {
    const result = validateThread(fromMessages([asked("c1"), toolResult("c1", "21"), toolResult("c1", "22")]));
    expect(issuesOf(result)).toEqual([[["messages", 2, "toolCallId"], "unknown_tool_call_id"]]);
  });

  test("Q4: an answer may follow other messages and be out of order", () => {
    const late = fromMessages([asked("c1", "c2"), toolResult("c2", "b"), user("and?"), toolResult("c1", "a")]);
    expect(validateThread(late).ok).toBe(true);
  });

  test("call ids that repeat across replies are matched in order", () => {
    const again = [asked("0"), toolResult("0", "a"), asked("0"), toolResult("0", "b")];
    expect(validateThread(fromMessages(again)).ok).toBe(true);
    expect(validateThread(fromMessages(again.slice(0, 3))).ok).toBe(false);
  });

  test("a value that is not a thread is a failure and does not throw", () => {
    expect(issuesOf(validateThread(untyped<Thread>(null)))).toEqual([[[], "invalid_type"]]);
    expect(issuesOf(validateThread(untyped<Thread>({})))).toEqual([[["messages"], "not_a_list"]]);
  });
});

describe("[allm 86] validateSession", () => {
  const pending = toolCall({ id: "c1", name: "weather", arguments: {} });
  const rows: readonly (readonly [string, unknown, Path, IssueCode])[] = [
    ["an unknown status", { status: "asleep" }, ["status"], "unknown"],
    ["awaiting a user, no question", { status: "awaiting_user" }, ["pendingQuestion"], "required_for_status"],
    ["awaiting tools, no calls", { status: "awaiting_tools" }, ["pendingToolCalls"], "required_for_status"],
    [
      "in error, a reason that is none",
      { status: "error", metadata: { error: "?" } },
      ["metadata"],
      "error_required_for_status",
    ],
    ["idle with a question", { pendingQuestion: "Sure?" }, ["pendingQuestion"], "not_allowed_for_status"],
    [
      "completed with a call that waits",
      { status: "completed", pendingToolCalls: [pending] },
      ["pendingToolCalls", 0],
      "not_allowed_for_status",
    ],
    ["in error, no reason", { status: "error" }, ["metadata"], "error_required_for_status"],
    [
      "a broken message",
      { thread: { messages: [{ role: "tool", content: "" }] } },
      ["thread", "messages", 0, "toolCallId"],
      "required",
    ],
    [
      "a call neither answered nor pending",
      { thread: fromMessages([asked("c1")]) },
      ["thread", "messages", 0, "toolCalls", 0],
      "unanswered_tool_call",
    ],
    ["no thread", { thread: 5 }, ["thread"], "invalid_type"],
  ];

  test.each(rows)("%s", (_, fields, path, code) => {
    const result = validateSession(untyped<Session>({ ...newSession(), ...untyped<object>(fields) }));
    expect(issuesOf(result)).toEqual([[path, code]]);
    expect(!result.ok && result.failure.reason).toBe("invalid_session");
  });

  test("S2: a call of the thread may be pending", () => {
    const waiting = newSession({
      status: "awaiting_tools",
      pendingToolCalls: [pending],
      thread: fromMessages([asked("c1")]),
    });
    expect(validateSession(waiting).ok).toBe(true);
  });

  test("Q4: a decided call may be pending in an idle session", () => {
    const decided = {
      ...pending,
      reason: "approval",
      decision: { type: "approve", arguments: null, by: "Ada" },
    } as const;
    expect(validateSession(newSession({ pendingToolCalls: [decided], thread: fromMessages([asked("c1")]) })).ok).toBe(
      true,
    );
  });

  test("one pending call accounts for one unanswered call of its id", () => {
    const twice = newSession({
      status: "awaiting_tools",
      pendingToolCalls: [pending],
      thread: fromMessages([asked("c1"), asked("c1")]),
    });
    expect(issuesOf(validateSession(twice))).toEqual([
      [["thread", "messages", 0, "toolCalls", 0], "unanswered_tool_call"],
    ]);
  });

  test("every status is valid with its required fields", () => {
    expect(validateSession(newSession({ status: "awaiting_user", pendingQuestion: "Sure?" })).ok).toBe(true);
    expect(
      validateSession(newSession({ status: "error", metadata: { error: new EngineError("missing_model").failure } }))
        .ok,
    ).toBe(true);
  });
});

describe("[allm 87] validateImageRequest", () => {
  const cat = imageFromUrl("https://example.com/cat.png");
  const rows: readonly (readonly [string, unknown, readonly (readonly [Path, IssueCode])[]])[] = [
    ["an unknown operation", { operation: "paint" }, [[["operation"], "unknown"]]],
    ["no images wanted", { n: 0 }, [[["n"], "must_be_positive"]]],
    ["half an image wanted", { n: 1.5 }, [[["n"], "must_be_positive"]]],
    ["an unknown answer format", { responseFormat: "gif" }, [[["responseFormat"], "unknown"]]],
    ["a size without a height", { size: { width: 5 } }, [[["size"], "invalid_shape"]]],
    ["a size of nothing", { size: { width: 0, height: 0 } }, [[["size"], "invalid_shape"]]],
    ["inputs that are no list", { inputImages: cat }, [[["inputImages"], "not_a_list"]]],
    [
      "an input that is no image",
      { operation: "edit", inputImages: ["cat.png"] },
      [[["inputImages", 0], "invalid_image"]],
    ],
    ["a mask that is no image", { mask: "mask.png" }, [[["mask"], "invalid_image"]]],
    ["generate without a prompt", { prompt: null }, [[["prompt"], "required_for_operation"]]],
    ["generate with an empty prompt", { prompt: "" }, [[["prompt"], "required_for_operation"]]],
    ["generate from an image", { inputImages: [cat] }, [[["inputImages"], "must_be_empty"]]],
    [
      "edit without prompt and image",
      { operation: "edit", prompt: null },
      [
        [["prompt"], "required_for_operation"],
        [["inputImages"], "invalid_count"],
      ],
    ],
    ["edit of three", { operation: "edit", inputImages: [cat, cat, cat] }, [[["inputImages"], "invalid_count"]]],
    [
      "a variation of nothing, with a prompt",
      { operation: "variation" },
      [
        [["inputImages"], "invalid_count"],
        [["prompt"], "not_allowed_for_operation"],
      ],
    ],
  ];

  test.each(rows)("%s", (_, fields, issues) => {
    const broken = untyped<ImageRequest>({ ...imageRequest("a cat"), ...untyped<object>(fields) });
    const result = validateImageRequest(broken);
    expect(issuesOf(result)).toEqual(issues);
    expect(!result.ok && result.failure.reason).toBe("invalid_image_request");
  });

  test("accepts a valid request of each operation", () => {
    expect(validateImageRequest(imageRequest("a cat", { size: "auto" })).ok).toBe(true);
    expect(validateImageRequest(imageRequest("a hat", { operation: "edit", inputImages: [cat, cat] })).ok).toBe(true);
    expect(validateImageRequest(imageRequest(null, { operation: "variation", inputImages: [cat] })).ok).toBe(true);
  });
});

describe("size", () => {
  const many = Array.from({ length: 300_000 }, (_, index) => `c${index}`);

  test("validation time is linear in the size of the value", () => {
    const tools = many.map((name) => ({ ...weather, name }));
    expect(validateRequest({ ...request([hello]), tools }).ok).toBe(true);
    const calls = {
      ...asked("c1"),
      toolCalls: many.map((id) => ({ ...toolCall({ id: "c1", name: "x", arguments: {} }), id })),
    };
    const parts = many.map((toolCallId) => ({ ...toolCallPart("c1"), toolCallId }));
    expect(validateMessage({ ...calls, content: parts }).ok).toBe(true);
    const same = asked("0");
    const answer = toolResult("0", "");
    const thread = { messages: [...many.map(() => same), ...many.map(() => answer)], metadata: {} };
    expect(validateThread(thread).ok).toBe(true);
  });

  test("a million violations give a hundred issues and do not throw", () => {
    const orphans = { messages: Array.from({ length: 1_000_000 }).fill(toolResult("c9", "")), metadata: {} };
    expect(issuesOf(validateThread(untyped<Thread>(orphans)))).toHaveLength(100);
    const inputs = {
      ...imageRequest("a hat", { operation: "edit" }),
      inputImages: Array.from({ length: 300_000 }).fill(0),
    };
    expect(issuesOf(validateImageRequest(untyped<ImageRequest>(inputs)))).toHaveLength(100);
  });
});
