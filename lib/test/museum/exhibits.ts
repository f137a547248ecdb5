// The samples of stored data (the museum): values of every stored type in every variant, as a real conversation
// produces them. `npm run museum` writes them into the folder of the current version, once, before a release. The
// folder of a released version is never changed.

import type { Failure, JsonObject, Session, TurnEvent, TurnOutcome } from "everturn";
import type { StoredType } from "everturn/advanced";
import type { StoredTypes, SuspendedCell } from "../../src/core/model/internal.ts";
import { encodeToolValue, image, imageUsage, noUsage, opaquePart, reasoningPart, toolCallPart, toolResultPart, withDigest } from "../../src/core/model/internal.ts";

import { AdapterError, assistant, EngineError, filePart, fromMessages, imageFromBase64, imageFromFile, imageFromUrl, ImageAdapterError, imagePart, modelRef, orThrow, parse, newSession, RuntimeError, SessionError, StreamError, system, textPart, ToolError, toolResult, user, ValidationError } from "everturn";
import { jsonSchema, request, addMessage, addUsage, chatResult, attachment, eventMessage, imageRequest, imageResponse, modelReply, stepResult, toolCall, toolSpec, usage } from "everturn/advanced";
import * as closedLists from "../../src/core/model/words.ts";

const replay = { provider: "anthropic", endpoint: "messages", model: "claude", data: { signature: "EqQBCkYIARgCKkA=" } };
const call = toolCall({
  id: "call_1",
  name: "weather",
  arguments: { city: "Rome" },
  rawArguments: '{"city": "Rome"}',
  provider: replay,
  providerOptions: { anthropic: { cache_control: { type: "ephemeral", ttl: "1h" } } },
});
const { providerOptions: _, ...decodedCall } = call;
const garbled = toolCall({ id: "call_2", name: "weather", arguments: null, rawArguments: '{"city": ' });
const weather = toolSpec({
  name: "weather",
  description: "Tells the weather.",
  schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  outputSchema: { type: "object" },
  needsApproval: true,
  replay: "safe",
  providerOptions: { anthropic: { strict: true, input_examples: [{ city: "Rome" }] }, openai: { strict: true } },
  providerTool: { provider: "openai", name: "shell", options: { environment: { type: "local" } } },
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
const failures: { readonly [Type in Failure["type"]]: Extract<Failure, { readonly type: Type }> } = {
  engine_error: engineFailure,
  adapter_error: adapterFailure,
  image_adapter_error: new ImageAdapterError("unsupported_operation", { provider: "gemini" }).failure,
  stream_error: new StreamError("interrupted", { provider: "openai", requestId: "req_2", eventIndex: 7 }).failure,
  tool_error: toolFailure,
  session_error: new SessionError("unknown_tool_call_id", { metadata: { toolCallId: "call_9" } }).failure,
  validation_error: new ValidationError("invalid_request", {
    issues: [{ path: ["messages", 0, "role"], code: "unknown", message: "must be one of the five" }],
  }).failure,
  runtime_error: new RuntimeError("diverged", { paths: ["call.arguments.city"] }).failure,
};

const asked = assistant(
  [
    opaquePart("compaction", { ...replay, data: { id: "cmp_1" } }),
    reasoningPart("A city.", { provider: replay }),
    toolCallPart("call_1"),
    textPart("One moment.", { phase: "commentary" }),
    toolCallPart("call_2"),
  ],
  { id: "m_2", toolCalls: [call, garbled], finishReason: "tool_calls" },
);
const searched = assistant([
  toolCallPart("srv_1", {
    providerExecuted: toolCall({ id: "srv_1", name: "web_search", arguments: { query: "rome" } }),
  }),
  toolResultPart("srv_1", { found: ["sunny"] }, {
    pruneState: { type: "deleted", breadcrumb: "a page", archiveHash: "ab12" },
  }),
  textPart("Sunny.", { phase: "final_answer" }),
  textPart("I cannot say more.", { kind: "refusal" }),
]);
const answered = toolResult(
  "call_1",
  [
    textPart("21 °C", { kind: "output", pruneState: { type: "cleared" } }),
    imagePart(imageFromBase64("aGk=", "image/png"), { detail: "low" }),
    imagePart(imageFromBase64("aGk=", "image/png"), {
      detail: "original",
      providerOptions: { gemini: { mediaResolution: { level: "MEDIA_RESOLUTION_HIGH" } } },
    }),
    filePart(
      { type: "provider_file", provider: "openai", id: "file-1" },
      {
        mimeType: "text/csv",
        name: "days.csv",
        providerOptions: { anthropic: { citations: { enabled: true }, context: "2024" }, other: { field: [1, null] } },
      },
    ),
  ],
  {
    ranArguments: { city: "Rome, Italy" },
    providerOptions: { anthropic: { cache_control: { type: "ephemeral" } } },
  },
);
const refused = toolResult("call_2", "no JSON", { status: "failure", code: "invalid_arguments" });
const thread = fromMessages([
  system("Be brief."),
  user([textPart("What is the weather here?"), imagePart(imageFromUrl("https://example.com/map.png"))], { name: "Ada" }),
  asked,
  answered,
  refused,
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

const warning = { reason: "unsupported", path: "seed", message: "seed is not sent: the API has no seed" } as const;
const answer = modelReply({
  route: { provider: "anthropic", endpoint: "messages", model: "claude" },
  output: { value: { sky: "clear" } },
  id: "resp_1",
  requestId: "req_1",
  model: "claude-1",
  message: assistant("Sunny.", { finishReason: "stop" }),
  outputText: "Sunny.",
  finishReason: "stop",
  rawFinishReason: "end_turn",
  usage: spent,
  warnings: [warning],
});
const broken = modelReply({ finishReason: "error", error: adapterFailure, toolCalls: [call], raw: { status: 429 } });
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

const outcomes: { readonly [Type in TurnOutcome["type"]]: Extract<TurnOutcome, { readonly type: Type }> } = {
  assistant_message: { type: "assistant_message", text: "Sunny." },
  final_value: { type: "final_value", value: { celsius: 21 } },
  tool_value: { type: "tool_value", toolName: "finish", value: [1, 2] },
  empty: { type: "empty" },
  incomplete: { type: "incomplete" },
  filtered: { type: "filtered" },
  other: { type: "other" },
  handoff: { type: "handoff", target: "billing", task: "refund", initialMessages: [user("Refund me.")] },
  ask_user: { type: "ask_user", toolCallId: "call_1", question: "Which Rome?" },
  manual_tool_calls: { type: "manual_tool_calls" },
  approval: { type: "approval" },
  outcome_unknown: { type: "outcome_unknown" },
  halted: { type: "halted", reason: "enough", toolCallId: "call_1", value: null },
  max_turns: { type: "max_turns", maxTurns: 8 },
  halt_when: { type: "halt_when" },
  budget: { type: "budget", budget: "no_progress" },
  stop_after: { type: "stop_after" },
  cancelled: { type: "cancelled", evidence: { requestId: "c1", origin: "user", reason: "changed my mind" } },
  tool_error: { type: "tool_error", toolName: "weather", toolCallId: "call_1", failure: toolFailure },
  submitted_error: { type: "submitted_error", value: "gave up" },
  provider_error: { type: "provider_error", failure: adapterFailure },
  runtime_error: { type: "runtime_error", failure: engineFailure },
};

const asking = chatResult(
  { type: "ask_user", toolCallId: "call_1", question: "Which Rome?" },
  {
    thread,
    finalResponse: answer,
    pendingQuestion: "Which Rome?",
    pendingToolCallId: "call_1",
    partial: assistant("It is"),
    protocolEvents: [{ protocol: "guess", event: { guess: "snow" } }],
    usage: spent,
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

const asks = toolCall({ id: "call_3", name: "book", arguments: { hotel: "Roma" } });
const pays = toolCall({ id: "call_4", name: "pay", arguments: { amount: 90 } });
const sends = toolCall({ id: "call_5", name: "send", arguments: {} });
const signs = toolCall({ id: "call_6", name: "sign", arguments: {} });
const open = assistant("", { toolCalls: [asks, pays, sends, signs], finishReason: "tool_calls" });
const pendingCalls = [
  {
    ...asks,
    reason: "question",
    question: "Which Rome?",
    answerAs: "tool_result",
    opts: { choices: ["Italy", "Georgia"] },
    idempotencyKey: "t1/3/0",
  },
  { ...pays, reason: "approval", decision: { type: "approve", arguments: { amount: 80 }, by: "Ada", prepared: { amount: 85 } }, shown: { name: "pay", arguments: { amount: 85 }, parents: [], replay: "ask" } },
  { ...sends, reason: "outcome_unknown", decision: { type: "deny", reason: "not twice", by: null } },
  { ...signs, cellId: "cell_1", path: ["t2", "call_1"] },
] as const;
const cell: SuspendedCell = {
  id: "cell_1",
  language: "javascript",
  code: "await sign()",
  executor: { name: "quickjs", version: "1" },
  environment: {
    instructions: "Be brief.",
    model: "claude",
    tools: [weather],
    providerTools: [{ provider: "anthropic", name: "web_search", options: { max_uses: 2 } }],
    params: { temperature: 0 },
  },
  calls: [
    { call, answer: { type: "success", value: 21, control: null } },
    { call: signs, answer: null },
  ],
  ranMs: 4200,
};
const waiting = newSession({
  id: "s1",
  thread: addMessage(thread, open),
  status: "awaiting_user",
  pendingQuestion: "Which Rome?",
  pendingToolCallId: "call_3",
  pendingToolCalls: pendingCalls,
  suspendedCell: cell,
  pendingOutput: { schema: { type: "object", required: ["celsius"] }, repair: 3 },
  protocolEvents: [{ protocol: "guess", event: { guess: "snow" } }, { protocol: "poll", event: null }],
  context: { userId: 42 },
  usage: orThrow(addUsage(spent, spent)),
  lastRun: {
    turnId: "t1",
    haltedReason: "ask_user",
    outcome: { type: "ask_user", toolCallId: "call_3", question: "Which Rome?" },
    steps: 2,
    usage: spent,
    budget: null,
    metadata: {},
    partial: null,
  },
});
const cancelledSession = newSession({
  thread: fromMessages([user("What is the weather?")]),
  lastRun: {
    turnId: null,
    haltedReason: "cancelled",
    outcome: outcomes.cancelled,
    steps: 0,
    usage: spent,
    budget: "tokens",
    metadata: { cancellation: { requestId: "c1", origin: null, reason: null } },
    partial: assistant("It is"),
  },
});
const failedSession = newSession({ status: "error", metadata: { error: adapterFailure } });

const attempt = { effectId: "t1/1/model", attempt: { epoch: 4, n: 2 } } as const;
const events: { readonly [Type in TurnEvent["type"]]: Extract<TurnEvent, { readonly type: Type }> } = {
  turn_started: { type: "turn_started", turnId: "t1", sessionId: "s1" },
  message_started: { type: "message_started", message: assistant("") },
  reasoning_delta: { type: "reasoning_delta", id: "r1", delta: "A ci" },
  reasoning_completed: { type: "reasoning_completed", id: "r1", text: "A city.", redacted: false, provider: replay },
  text_delta: { type: "text_delta", id: null, delta: "Sun" },
  text_completed: { type: "text_completed", id: null, text: "Sunny.", phase: "final_answer", provider: replay },
  tool_call_started: { type: "tool_call_started", id: "call_1", name: "weather", providerExecuted: false },
  tool_call_delta: { type: "tool_call_delta", id: "call_1", argumentsDelta: '{"city"' },
  tool_call_completed: { type: "tool_call_completed", ...decodedCall, providerExecuted: false },
  usage: { type: "usage", usage: spent },
  warning: { type: "warning", warning },
  message_completed: {
    type: "message_completed",
    message: asked,
    finishReason: "tool_calls",
    rawFinishReason: "tool_use",
    requestId: "req_1",
    responseId: "resp_1",
    model: "claude-1",
    route: { provider: "anthropic", endpoint: "messages", model: "claude" },
    output: { value: null },
    metadata: {},
  },
  raw_chunk: { type: "raw_chunk", chunk: { type: "ping" } },
  error: { type: "error", error: adapterFailure },
  retry_scheduled: { type: "retry_scheduled", ...attempt, maxAttempts: 3, delayMs: 500, error: adapterFailure },
  step_reset: { type: "step_reset", ...attempt, reason: "restart", withdrawn: ["m_2"] },
  compaction_started: { type: "compaction_started", frameId: "t1/2/frame", from: 4, to: 12 },
  compaction_ended: { type: "compaction_ended", frameId: "t1/2/frame", from: 4, to: 12, status: "summarized" },
  input_accepted: {
    type: "input_accepted",
    turnId: "t1",
    checkpoint: "after_work",
    inputs: [{ id: "i1", message: user("And tomorrow?") }],
  },
  tool_execution_started: {
    type: "tool_execution_started",
    ...attempt,
    id: "call_1",
    name: "weather",
    arguments: { city: "Rome" },
  },
  tool_progress: { type: "tool_progress", effectId: null, attempt: null, id: "call_1", name: "weather", progress: 0.5 },
  tool_execution_completed: {
    type: "tool_execution_completed",
    id: "call_1",
    name: "weather",
    result: { type: "success", value: "21 °C", control: null },
    durationMs: 12.5,
  },
  tool_result_encoded: {
    type: "tool_result_encoded",
    id: "call_1",
    content: "21 °C",
    status: "success",
    code: null,
    ranArguments: { city: "Rome, Italy" },
  },
  ask_user_requested: {
    type: "ask_user_requested",
    toolCallId: "call_1",
    toolName: "weather",
    question: "Which Rome?",
    opts: { choices: ["Italy", "Georgia"] },
  },
  approval_requested: {
    type: "approval_requested",
    toolCallId: "call_1",
    toolName: "weather",
    arguments: { city: "Rome" },
    opts: {},
    shown: { name: "forecast", arguments: { city: "Rome, Italy" }, parents: ["weather"], replay: "ask" },
    digest: "digest of what is shown",
  },
  tool_halt: {
    type: "tool_halt",
    toolCallId: "call_1",
    reason: "enough",
    result: null,
    content: "null",
    status: "success",
    code: null,
    ranArguments: null,
  },
  step_completed: {
    type: "step_completed",
    response: answer,
    thread,
    mode: "auto",
    manualToolCalls: [],
    pendingToolCalls: waiting.pendingToolCalls, suspendedCell: null,
    usage: spent,
  },
  chat_completed: { type: "chat_completed", result: asking },
};

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
    parallelTools: true,
    reasoning: null,
    vision: null,
    files: null,
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
    { type: "success", value: null, control: { type: "compact", instructions: "the order number" } },
    { type: "success", value: null, control: { type: "fail", failure: toolFailure } },
    { type: "success", value: null, control: { type: "handoff", target: "billing", task: null, initialMessages: [] } },
    { type: "failure", failure: toolFailure },
    { type: "cancelled", message: "the user left", raw: null },
    { type: "ask_user", question: "Which Rome?", answerAs: "user_message", opts: { choices: ["Italy", "Georgia"] } },
    { type: "ask_user", question: "Which Rome?", answerAs: "tool_result", opts: {} },
    { type: "halt", reason: "enough", value: { n: 1 } },
  ],
  request: [
    request(thread.messages, {
      model: known,
      tools: [weather],
      providerTools: [{ provider: "openai", name: "web_search", options: {} }],
      toolChoice: { type: "tool", name: "weather" },
      parallelToolCalls: false,
      temperature: 0.5,
      topP: 0.9,
      maxTokens: 1024,
      stopSequences: ["END"],
      seed: 7,
      reasoning: { effort: "high", budgetTokens: 2048, summary: "auto" },
      promptCache: { key: "s1", retention: "long", breakpoints: "auto" },
      responseFormat: jsonSchema("answer", { type: "object" }),
      structuredFinalize: true,
      stream: true,
      scope: { sessionId: "s1", frameId: "main", requestId: "s1:t1:1" },
      options: { service_tier: "flex" },
      providerOptions: { anthropic: { top_k: 5, metadata: { user_id: "u1" } }, other: { field: [1] } },
      metadata: { trace: "t1" },
    }),
    request([user("hi")], { model: "openai:gpt-x", toolChoice: "required", responseFormat: { type: "json_object" } }),
  ],
  reply: [answer, broken],
  usage: [noUsage, spent],
  model_ref: [known, modelRef({})],
  thread: [thread],
  step_result: [step, waitingStep],
  chat_result: [asking, ...Object.values(outcomes).map((outcome) => chatResult(outcome))],
  outcome: Object.values(outcomes),
  session: [waiting, failedSession, cancelledSession, newSession()].map(stored),
  pending_tool_call: [
    ...waiting.pendingToolCalls,
    ...(
      [
        { type: "result", value: { found: 3 } },
        { type: "answer", text: "the red one" },
        { type: "approve", arguments: { city: "Rome" }, by: "Ada" },
        { type: "deny", reason: "too dear", by: null },
      ] as const
    ).flatMap((answer) =>
      waiting.pendingToolCalls.slice(0, 1).map((pending) => withDigest({
        ...pending,
        reason: "question" as const,
        path: ["inner_1"],
        decision: { type: "forward", arguments: null, by: null, wait: "turn-1/0/tool/0/child/1/0#0", answer, state: { round: 1 }, approved: true } as const,
      })),
    ),
  ],
  event: Object.values(events),
  failure: Object.values(failures),
  environment: [cell.environment],
  suspended_cell: [cell],
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

/** Every closed list of strings in stored values, by its exported name. */
export const words: { readonly [name: string]: readonly string[] } = Object.fromEntries(
  Object.entries(closedLists),
);

function stored(value: Session): Session<JsonObject> {
  return orThrow(parse("session", value));
}
