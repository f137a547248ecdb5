// What is put into the museum: values of every stored type, in every variant, as a real conversation would leave them.
// `npm run museum` writes them into the folder of the current version, once, before a release; what is there is never changed.

import type { Failure, JsonObject, Session, StoredType, StoredTypes, TurnEvent, TurnOutcome } from "everturn/model";

import {
  AdapterError,
  addUsage,
  assistant,
  chatResult,
  encodeToolValue,
  attachment,
  EngineError,
  eventMessage,
  filePart,
  fromMessages,
  imageFromBase64,
  imageFromFile,
  imageFromUrl,
  image,
  ImageAdapterError,
  imagePart,
  imageRequest,
  imageResponse,
  imageUsage,
  jsonSchema,
  modelRef,
  noUsage,
  orThrow,
  parse,
  reasoningPart,
  reply,
  request,
  session,
  SessionError,
  stepResult,
  StreamError,
  system,
  textPart,
  toolCall,
  toolCallPart,
  ToolError,
  toolResult,
  toolResultPart,
  toolSpec,
  usage,
  user,
  ValidationError,
} from "everturn/model";

const replay = { provider: "anthropic", endpoint: "messages", model: "claude", data: { signature: "EqQBCkYIARgCKkA=" } };
const call = toolCall({
  id: "call_1",
  name: "weather",
  arguments: { city: "Rome" },
  rawArguments: '{"city": "Rome"}',
  provider: replay,
});
const garbled = toolCall({ id: "call_2", name: "weather", arguments: null, rawArguments: '{"city": ' });
const weather = toolSpec({
  name: "weather",
  description: "Tells the weather.",
  schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  outputSchema: { type: "object" },
});
const spent = usage({
  inputTokens: 120,
  outputTokens: 30,
  cachedInputTokens: 100,
  cacheWriteInputTokens: 5,
  reasoningTokens: 12,
  totalTokens: 150,
  inputCost: 0.00012,
  outputCost: 0.0003,
  totalCost: 0.00042,
  toolUsage: { web_search: 1 },
  extra: { service_tier: "default" },
});

const engineFailure = new EngineError("missing_key", { provider: "openai" }).failure;
const adapterFailure = new AdapterError("rate_limited", {
  provider: "openai",
  status: 429,
  retryAfterMs: 1500,
  requestId: "req_1",
  code: "rate_limit_exceeded",
  raw: '{"error":{}}',
  cause: new Error("too many requests", { cause: new TypeError("socket") }),
}).failure;
const toolFailure = new ToolError("timeout", {
  toolName: "weather",
  toolCallId: "call_1",
  retry: { type: "safe", afterMs: 100 },
  raw: { after: 30 },
}).failure;
const failures: readonly Failure[] = [
  engineFailure,
  adapterFailure,
  new ImageAdapterError("unsupported_operation", { provider: "gemini" }).failure,
  new StreamError("interrupted", { provider: "openai", eventIndex: 7 }).failure,
  toolFailure,
  new ToolError("handler_failed", { retry: { type: "exhausted", attempts: 3 }, source: "tool" }).failure,
  new SessionError("unknown_tool_call_id", { metadata: { toolCallId: "call_9" } }).failure,
  new ValidationError("invalid_request", {
    issues: [{ path: ["messages", 0, "role"], code: "unknown", message: "must be one of the five" }],
  }).failure,
];

const asked = assistant([reasoningPart("A city.", { provider: replay }), toolCallPart("call_1"), textPart("One moment.")], {
  id: "m_2",
  toolCalls: [call],
  finishReason: "tool_calls",
});
const searched = assistant([
  toolCallPart("srv_1", {
    providerExecuted: toolCall({ id: "srv_1", name: "web_search", arguments: { query: "rome" } }),
  }),
  toolResultPart("srv_1", "sunny", { pruneState: { type: "deleted", breadcrumb: "a page", archiveHash: "ab12" } }),
  textPart("Sunny.", { phase: "final_answer" }),
]);
const answered = toolResult("call_1", [
  textPart("21 °C", { kind: "output", pruneState: { type: "cleared" } }),
  imagePart(imageFromBase64("aGk=", "image/png"), { detail: "low" }),
  filePart({ type: "provider_file", provider: "openai", id: "file-1" }, { mimeType: "text/csv", name: "days.csv" }),
]);
const thread = fromMessages([
  system("Be brief."),
  user([textPart("What is the weather here?"), imagePart(imageFromUrl("https://example.com/map.png"))], { name: "Ada" }),
  asked,
  answered,
  toolResult("call_2", "", { status: "failure", code: "invalid_arguments" }),
  eventMessage("The forecast changed.", {
    id: "wake_1",
    origin: {
      type: "process",
      processId: "p1",
      eventType: "forecast.changed",
      sequence: 3,
      wakeId: "w1",
      causedBy: { type: "turn", sessionId: "s1", turnId: "t1" },
    },
  }),
  user("Stay on topic.", { origin: { type: "plugin", pluginId: "coach", transient: true } }),
  user("And tomorrow?", { origin: { type: "turn_input", turnId: "t1", inputId: "i1" } }),
  searched,
]);

const answer = reply({
  id: "resp_1",
  requestId: "req_1",
  model: "claude-1",
  message: assistant("Sunny.", { finishReason: "stop" }),
  outputText: "Sunny.",
  finishReason: "stop",
  rawFinishReason: "end_turn",
  usage: spent,
});
const broken = reply({ finishReason: "error", error: adapterFailure, toolCalls: [call], raw: { status: 429 } });
const step = stepResult({ thread, response: answer, toolResults: [answered], done: true });
const waitingStep = stepResult({
  response: broken,
  metadata: {
    haltedReason: "ask_user",
    pendingQuestion: "Which Rome?",
    pendingToolCallId: "call_1",
    askUserOpts: { choices: ["Italy", "Georgia"] },
    haltToolCallId: "call_1",
    haltResult: { n: 1 },
    onToolErrorException: { name: "Error", message: "policy", cause: null },
    manualToolCalls: [call],
    mode: "manual",
    error: adapterFailure,
  },
});

const outcomes: readonly TurnOutcome[] = [
  { type: "assistant_message", text: "Sunny." },
  { type: "final_value", value: { celsius: 21 } },
  { type: "tool_value", toolName: "finish", value: [1, 2] },
  { type: "empty" },
  { type: "incomplete" },
  { type: "filtered" },
  { type: "other" },
  { type: "handoff", target: "billing", task: "refund", initialMessages: [user("Refund me.")] },
  { type: "ask_user", toolCallId: "call_1", question: "Which Rome?" },
  { type: "manual_tool_calls" },
  { type: "approval" },
  { type: "outcome_unknown" },
  { type: "halted", reason: "enough", toolCallId: "call_1", value: null },
  { type: "max_turns", maxTurns: 8 },
  { type: "halt_when" },
  { type: "budget", budget: "no_progress" },
  { type: "stop_after" },
  { type: "cancelled", evidence: { requestId: "c1", origin: "user", reason: "changed my mind" } },
  { type: "tool_error", toolName: "weather", toolCallId: "call_1", failure: toolFailure },
  { type: "submitted_error", value: "gave up" },
  { type: "provider_error", failure: adapterFailure },
  { type: "runtime_error", failure: engineFailure },
];

const asking = chatResult(
  { type: "ask_user", toolCallId: "call_1", question: "Which Rome?" },
  {
    thread,
    finalResponse: answer,
    pendingQuestion: "Which Rome?",
    pendingToolCallId: "call_1",
    steps: [step, waitingStep],
    metadata: {
      manualTurnIndex: 0,
      haltWhenStepIndex: 1,
      maxTurns: 8,
      budget: "cost",
      cancellation: { requestId: "c1", origin: null, reason: null },
      structuredFinalize: { pass1Halted: "completed", pass2Error: null },
    },
  },
);

const waiting = session({
  id: "s1",
  thread,
  status: "awaiting_user",
  pendingQuestion: "Which Rome?",
  pendingToolCallId: "call_1",
  pendingToolCalls: [
    { ...call, reason: "question", question: "Which Rome?", options: { choices: ["Italy", "Georgia"] } },
    { ...garbled, reason: "approval", decision: { type: "approve", arguments: { city: "Rome" } } },
    { ...garbled, id: "call_3", reason: "outcome_unknown", decision: { type: "deny", reason: "no" } },
    { ...garbled, id: "call_4" },
  ],
  context: { userId: 42 },
  usage: orThrow(addUsage(spent, spent)),
  lastRun: {
    haltedReason: "cancelled",
    outcome: { type: "cancelled", evidence: { requestId: "c1", origin: null, reason: null } },
    steps: 2,
    usage: spent,
    metadata: {},
    partial: assistant("It is"),
  },
});
const failedSession = session({ status: "error", metadata: { error: adapterFailure } });

const events: readonly TurnEvent[] = [
  { type: "turn_started", turnId: "t1", sessionId: "s1" },
  { type: "message_started", message: assistant("") },
  { type: "reasoning_delta", id: "r1", delta: "A ci" },
  { type: "reasoning_completed", id: "r1", text: "A city.", redacted: false, provider: replay },
  { type: "text_delta", id: null, delta: "Sun" },
  { type: "text_completed", id: null, text: "Sunny." },
  { type: "tool_call_started", id: "call_1", name: "weather" },
  { type: "tool_call_delta", id: "call_1", argumentsDelta: '{"city"' },
  { type: "tool_call_completed", ...call },
  { type: "usage", usage: spent },
  {
    type: "message_completed",
    message: asked,
    finishReason: "tool_calls",
    rawFinishReason: "tool_use",
    responseId: "resp_1",
    model: "claude-1",
    metadata: {},
  },
  { type: "raw_chunk", chunk: { type: "ping" } },
  { type: "error", error: adapterFailure },
  { type: "retry_scheduled", attempt: 1, maxAttempts: 3, delayMs: 500, error: adapterFailure },
  { type: "step_reset", attempt: 2, reason: "retry" },
  { type: "input_accepted", checkpoint: "after_work", inputs: [{ id: "i1", message: user("And tomorrow?") }] },
  { type: "tool_execution_started", id: "call_1", name: "weather", arguments: { city: "Rome" } },
  { type: "tool_progress", id: "call_1", name: "weather", progress: 0.5 },
  {
    type: "tool_execution_completed",
    id: "call_1",
    name: "weather",
    result: { type: "success", value: "21 °C", control: null },
  },
  { type: "tool_result_encoded", id: "call_1", content: "21 °C" },
  { type: "ask_user_requested", toolCallId: "call_1", toolName: "weather", question: "Which Rome?", opts: {} },
  { type: "approval_requested", toolCallId: "call_1", toolName: "weather", arguments: { city: "Rome" }, opts: {} },
  { type: "tool_halt", toolCallId: "call_1", reason: "enough", result: null, content: "null" },
  { type: "step_completed", response: answer, thread, mode: "auto", manualToolCalls: [] },
  { type: "chat_completed", result: asking },
];

const chart = orThrow(
  encodeToolValue({
    chart: attachment({ source: { type: "base64", data: "aGk=" }, mimeType: "image/png" }),
    found: { $everturn: "attachment" },
  }),
);

const known = modelRef({
  provider: "openai",
  id: "gpt-x",
  capabilities: {
    tools: true,
    jsonNative: true,
    vision: null,
    imagesEnabled: false,
    supportedImageOperations: ["generate", "edit"],
  },
  limits: { context: 128_000, output: 16_000 },
  pricing: { input: 1.25, output: 10, cacheRead: 0.125, cacheWrite: null },
});

export const exhibits: { readonly [K in StoredType]: readonly StoredTypes[K][] } = {
  message: thread.messages,
  part: thread.messages.flatMap((message) => (typeof message.content === "string" ? [] : message.content)),
  tool: [weather, toolSpec({ name: "pay", description: "", schema: {}, manual: true })],
  tool_call: [call, garbled],
  tool_outcome: [
    { type: "success", value: chart, control: null },
    { type: "success", value: null, control: { type: "finish", value: 42 } },
    { type: "success", value: null, control: { type: "fail", failure: toolFailure } },
    { type: "success", value: null, control: { type: "handoff", target: "billing", task: null, initialMessages: [] } },
    { type: "failure", failure: toolFailure },
    { type: "cancelled", message: "the user left", raw: null },
    { type: "ask_user", question: "Which Rome?", options: { choices: ["Italy", "Georgia"] } },
    { type: "halt", reason: "enough", value: { n: 1 } },
  ],
  request: [
    request(thread.messages, {
      model: known,
      tools: [weather],
      toolChoice: { type: "tool", name: "weather" },
      parallelToolCalls: false,
      temperature: 0.5,
      topP: 0.9,
      maxTokens: 1024,
      stopSequences: ["END"],
      seed: 7,
      reasoning: { effort: "high", budgetTokens: 2048, summary: "auto" },
      promptCache: { key: "s1", retention: "long" },
      responseFormat: jsonSchema("answer", { type: "object" }),
      structuredFinalize: true,
      stream: true,
      scope: { sessionId: "s1", frameId: "main", requestId: "s1:t1:1" },
      options: { service_tier: "flex" },
      metadata: { trace: "t1" },
    }),
    request([user("hi")], { model: "openai:gpt-x", toolChoice: "required", responseFormat: { type: "json_object" } }),
  ],
  reply: [answer, broken],
  usage: [noUsage, spent],
  model_ref: [known, modelRef({})],
  thread: [thread],
  step_result: [step, waitingStep],
  chat_result: [asking, ...outcomes.map((outcome) => chatResult(outcome))],
  outcome: outcomes,
  session: [waiting, failedSession, session()].map(stored),
  pending_tool_call: waiting.pendingToolCalls,
  event: events,
  failure: failures,
  image: [
    imageFromFile("map.png"),
    imageFromUrl("https://example.com/map.png"),
    imageFromBase64("aGk=", "image/png"),
    image({ source: { type: "provider_file", provider: "openai", id: "file-1" }, width: 512, height: 256 }),
  ],
  image_request: [
    imageRequest("a map of Rome", { size: { width: 512, height: 256 }, quality: "hd", style: "vivid", n: 2 }),
    imageRequest("a hat", {
      operation: "edit",
      inputImages: [imageFromFile("cat.png")],
      mask: imageFromFile("mask.png"),
      background: "transparent",
      responseFormat: "url",
      size: "auto",
    }),
  ],
  image_response: [
    imageResponse({ id: "img_1", model: "gpt-image", images: [imageFromUrl("https://example.com/map.png")] }),
  ],
  image_usage: [imageUsage({ images: 2, size: "auto", inputTokens: 50, totalCost: 0.08 })],
};

function stored(value: Session): Session<JsonObject> {
  return orThrow(parse("session", value));
}
