// The constructors of the data types: required fields, defaults, and small helpers.

import {
  append,
  assistant,
  fromMessages,
  MisuseError,
  modelRef,
  newSession,
  SessionError,
  system,
  textPart,
  user,
} from "everturn";
import {
  isHalted,
  jsonSchema,
  request,
  addAssistant,
  addMessage,
  addMessages,
  addSystem,
  addUser,
  appendToolResult,
  appendUser,
  chatResult,
  imageRequest,
  imageResponse,
  lastMessage,
  messages,
  modelReply,
  pendingToolCalls,
  replyText,
  sessionError,
  stepResult,
  toolCall,
  toolSpec,
} from "everturn/advanced";
import { describe, expect, test } from "vitest";

import { imageUsage } from "./call/image-request.ts";
import { noUsage } from "./call/usage.ts";
import { isTransient } from "./message/origin.ts";
import { thread } from "./message/thread.ts";
import { sessionStatuses } from "./session/session-status.ts";
import { knownHaltedReasons } from "./turn/outcome.ts";

const untyped = (value: unknown) => JSON.parse(JSON.stringify(value));

test("[allm 7] a tool requires a name, a description and a schema, and manual is a boolean", () => {
  const weather = { name: "weather", description: "Tells the weather.", schema: { type: "object" } };
  expect(toolSpec(weather)).toEqual({
    ...weather,
    outputSchema: null,
    manual: false,
    needsApproval: false,
    replay: "never",
    metadata: {},
  });
  expect(() => toolSpec(untyped({ name: "weather" }))).toThrow(/description: is required; schema: is required/);
  expect(() => toolSpec(untyped({ ...weather, manual: "yes" }))).toThrow(/manual: must be a boolean, not a string/);
  expect(() => toolSpec(untyped({ ...weather, handler: "x" }))).toThrow(MisuseError);
});

test("[allm 8] a call keeps parsed arguments, raw arguments and provider replay data", () => {
  const provider = { provider: "gemini", endpoint: "generate", model: "g", data: { thoughtSignature: "x" } };
  const call = toolCall({ id: "c1", name: "weather", arguments: { a: 1 }, rawArguments: '{"a": 1}', provider });
  expect(call).toEqual({
    id: "c1",
    name: "weather",
    arguments: { a: 1 },
    rawArguments: '{"a": 1}',
    provider,
    metadata: {},
  });
  expect(toolCall({ id: "c1", name: "weather", arguments: null, rawArguments: "{oops" }).arguments).toBeNull();
  expect(() => toolCall(untyped({ id: "c1", name: "weather" }))).toThrow(/arguments: is required/);
});

test("[allm 9] a request has a default for every field but messages, and jsonSchema is strict by default", () => {
  expect(request([user("hi")])).toEqual({
    messages: [user("hi")],
    model: null,
    tools: [],
    providerTools: [],
    toolChoice: null,
    parallelToolCalls: null,
    temperature: null,
    topP: null,
    maxTokens: null,
    stopSequences: [],
    seed: null,
    reasoning: null,
    promptCache: null,
    responseFormat: null,
    structuredFinalize: false,
    stream: false,
    scope: null,
    options: {},
    providerOptions: {},
    metadata: {},
  });
  expect(jsonSchema("answer", { type: "object" })).toEqual({
    type: "json_schema",
    name: "answer",
    schema: { type: "object" },
    strict: true,
  });
  expect(jsonSchema("answer", {}, { strict: false }).strict).toBe(false);
  expect(request([user("hi")], { toolChoice: { type: "tool", name: "weather" } }).toolChoice).toEqual({
    type: "tool",
    name: "weather",
  });
});

test("[allm 10] replyText returns outputText, else the text of the message, else null", () => {
  expect(modelReply()).toEqual({
    id: null,
    requestId: null,
    model: null,
    route: null,
    message: null,
    outputText: null,
    raw: null,
    finishReason: null,
    rawFinishReason: null,
    toolCalls: [],
    usage: noUsage,
    output: null,
    error: null,
    warnings: [],
    metadata: {},
  });
  expect(replyText(modelReply({ outputText: "a", message: assistant("b") }))).toBe("a");
  expect(replyText(modelReply({ outputText: "", message: assistant("b") }))).toBe("");
  expect(replyText(modelReply({ message: assistant([textPart("b")]) }))).toBe("b");
  expect(replyText(modelReply())).toBeNull();
});

describe("[allm 12] a thread", () => {
  test("addMessage returns a longer thread and leaves the original unchanged", () => {
    const empty = thread();
    const grown = addAssistant(addUser(addSystem(empty, "Be brief."), "hi"), "Hello.");
    expect(grown.messages).toEqual([system("Be brief."), user("hi"), assistant("Hello.")]);
    expect(addMessages(addMessage(empty, user("a")), [user("b"), user("c")]).messages).toHaveLength(3);
    expect(empty.messages).toEqual([]);
  });

  test("lastMessage returns the last message, or null for an empty thread", () => {
    expect(lastMessage(thread())).toBeNull();
    expect(lastMessage(fromMessages([user("a"), user("b")]))).toEqual(user("b"));
  });

  test("fromMessages accepts messages in the loose form", () => {
    expect(fromMessages([{ role: "user", content: "hi" }]).messages).toEqual([user("hi")]);
  });
});

describe("[allm 13] results", () => {
  test("of a step", () => {
    expect(stepResult()).toEqual({
      thread: thread(),
      response: modelReply(),
      toolResults: [],
      pendingToolCalls: [],
      suspendedCell: null,
      usage: noUsage,
      done: false,
      metadata: {},
    });
    expect(() => stepResult(untyped({ metadata: { moood: 1 } }))).toThrow(/metadata\.moood: unknown field/);
  });

  test("isHalted is true for every reason but completed", () => {
    const done = chatResult({ type: "assistant_message", text: "Hello." });
    expect(done).toEqual({
      thread: thread(),
      finalResponse: null,
      haltedReason: "completed",
      outcome: { type: "assistant_message", text: "Hello." },
      pendingQuestion: null,
      pendingToolCallId: null,
      pendingToolCalls: [],
      suspendedCell: null,
      steps: [],
      usage: noUsage,
      protocolEvents: [],
      partial: null,
      contextWindow: null,
      metadata: {},
    });
    expect(isHalted(done)).toBe(false);
    expect(isHalted(chatResult({ type: "max_turns", maxTurns: 1 }))).toBe(true);
    expect(isHalted({ ...done, haltedReason: "enough" })).toBe(true);
    expect(knownHaltedReasons).toContain("completed");
  });
});

describe("[allm 14] a session", () => {
  test("has five statuses and a default for every field", () => {
    expect(sessionStatuses).toEqual(["idle", "awaiting_user", "awaiting_tools", "completed", "error"]);
    expect(newSession()).toEqual({
      id: null,
      thread: thread(),
      status: "idle",
      pendingToolCalls: [],
      pendingQuestion: null,
      pendingToolCallId: null,
      suspendedCell: null,
      pendingOutput: null,
      protocolEvents: [],
      context: {},
      usage: noUsage,
      lastRun: null,
      metadata: {},
      contextWindow: null,
    });
    expect(() => newSession(untyped({ state: "idle" }))).toThrow(/state: unknown field/);
  });

  test("a pending call has a reason, manual by default", () => {
    const call = toolCall({ id: "c1", name: "weather", arguments: {} });
    const waiting = newSession({ status: "awaiting_tools", pendingToolCalls: [call] });
    expect(pendingToolCalls(waiting)).toEqual([
      {
        ...call,
        reason: "manual",
        question: null,
        answerAs: "user_message",
        opts: {},
        decision: null,
        idempotencyKey: null,
        cellId: null,
        path: [],
        shown: { name: "weather", arguments: {}, parents: [], replay: null },
        digest: expect.stringMatching(/^[0-9a-f]{84}$/),
      },
    ]);
    expect(() => newSession({ pendingToolCalls: [{ ...call, reason: untyped("boredom") }] })).toThrow(
      /reason: must be one of/,
    );
  });

  test("keeps the context of the caller without inspecting it", () => {
    const context = { db: new Map(), now: () => 1 };
    expect(newSession({ context }).context).toBe(context);
  });

  test("sessionError returns the failure of a session in the status error", () => {
    const failure = new SessionError("session_in_error_state").failure;
    expect(sessionError(newSession({ status: "error", metadata: { error: failure } }))).toEqual(failure);
    expect(sessionError(newSession())).toBeNull();
    expect(sessionError(newSession({ metadata: { error: "what?" } }))).toBeNull();
  });
});

test("[allm 83] append, appendUser and appendToolResult change the thread only", () => {
  const waiting = newSession({ status: "awaiting_user", pendingQuestion: "Sure?" });
  const answered = appendToolResult(appendUser(append(waiting, system("Be brief.")), "yes"), "c1", { ok: true });
  expect(messages(answered).map((message) => message.role)).toEqual(["system", "user", "tool"]);
  expect({ ...answered, thread: null }).toEqual({ ...waiting, thread: null });
  expect(messages(waiting)).toEqual([]);
});

test("[allm 15] a model is a name that is sent verbatim, or a reference with capabilities", () => {
  for (const model of ["gpt-x", "openai:gpt-x", "gpt-x@openai", "Org/Model X"]) {
    expect(request([user("hi")], { model }).model).toBe(model);
  }
  const known = modelRef({ provider: "openai", id: "gpt-x", limits: { context: 1000, output: null } });
  expect(request([user("hi")], { model: known }).model).toEqual(known);
  expect(modelRef({})).toEqual({
    provider: null,
    id: null,
    capabilities: null,
    limits: null,
    pricing: null,
    metadata: {},
  });
});

test("[allm 16] image requests have defaults", () => {
  expect(imageRequest("a cat")).toEqual({
    operation: "generate",
    model: null,
    prompt: "a cat",
    n: 1,
    size: null,
    quality: null,
    style: null,
    background: null,
    responseFormat: "binary",
    inputImages: [],
    mask: null,
    options: {},
    metadata: {},
  });
  expect(imageResponse()).toEqual({
    id: null,
    requestId: null,
    model: null,
    images: [],
    usage: imageUsage(),
    raw: null,
    metadata: {},
  });
  expect(imageUsage()).toEqual({
    images: 0,
    size: null,
    quality: null,
    inputTokens: null,
    outputTokens: null,
    inputCost: null,
    outputCost: null,
    totalCost: null,
  });
  expect(() => imageRequest("a cat", untyped({ hue: 1 }))).toThrow(/hue: unknown field/);
});

test("isTransient is true for transient plugin messages only", () => {
  expect(isTransient({ type: "plugin", pluginId: "p", transient: true })).toBe(true);
  expect(isTransient({ type: "plugin", pluginId: "p", transient: false })).toBe(false);
  expect(isTransient({ type: "turn_input", turnId: "t", inputId: null })).toBe(false);
  expect(isTransient(null)).toBe(false);
});
