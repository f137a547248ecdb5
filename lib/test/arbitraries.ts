// Generators (fast-check arbitraries) for every stored type. The table at the end is typed by the stored types: a type
// without a generator, or a generator without a field, does not compile.

import type {
  CausalRef,
  FailureCause,
  ImageContent,
  ImageUsage,
  JsonSchemaFormat,
  LastRun,
  ContentSource,
  OpaquePart,
  ProviderRoute,
  ProviderTool,
  RetryDisposition,
  StoredTypes,
  SuspendedCell,
  ToolControl,
  ToolResultPart,
  UserPart,
} from "../src/core/model/internal.ts";
import type {
  AssistantMessage,
  ChatResult,
  Decision,
  Failure,
  FilePart,
  ImagePart,
  Json,
  JsonObject,
  Message,
  ModelReply,
  ModelRequest,
  Part,
  PendingToolCall,
  ShownCall,
  ReasoningPart,
  Session,
  StepResult,
  SystemMessage,
  TextPart,
  Thread,
  ToolCall,
  ToolCallPart,
  ToolMessage,
  ToolOutcome,
  TurnEvent,
  TurnOutcome,
  Usage,
  Warning,
  UserMessage,
} from "everturn";
import type {
  Environment,
  EventMessage,
  ChatMetadata,
  ImageRequest,
  ImageResponse,
  MessageOrigin,
  MessageProviderOptions,
  ModelRef,
  PartProviderOptions,
  ContextWindow,
  HistoryFrame,
  ProtocolEvent,
  TokenCount,
  ProviderReplay,
  PruneState,
  RequestProviderOptions,
  StepMetadata,
  StoredType,
  ToolSpec,
  ToolFailure,
  ToolProviderOptions,
  ValidationFailure,
} from "everturn/advanced";
import type { Arbitrary } from "fast-check";

import * as fc from "fast-check";

import {
  adapterErrorReasons,
  answerForms,
  budgets,
  cacheBreakpoints,
  cacheRetentions,
  checkpointKinds,
  compactionStatuses,
  engineErrorReasons,
  finishReasons,
  imageAdapterErrorReasons,
  imageBackgrounds,
  imageDetails,
  imageFormats,
  imageOperations,
  imageStyles,
  issueCodes,
  pendingReasons,
  providerFailureKinds,
  replayPolicies,
  runtimeErrorReasons,
  sessionErrorReasons,
  sessionStatuses,
  stepResetReasons,
  streamErrorReasons,
  textKinds,
  textPhases,
  toolErrorReasons,
  toolFailureClasses,
  toolFailureSources,
  toolMessageStatuses,
  warningReasons,
  toolModes,
  validationErrorReasons,
  withDigest,
} from "../src/core/model/internal.ts";

const record = <T>(fields: { [K in keyof T]: Arbitrary<T[K]> }) => fc.record<T>(fields, { noNullPrototype: true });
const sparse = <T>(fields: { [K in keyof T]-?: Arbitrary<Required<T>[K]> }) =>
  fc.record<Required<T>, never>(fields, { requiredKeys: [], noNullPrototype: true });
const word = <const T extends string>(words: readonly T[]) => fc.constantFrom(...words);
const orNull = <T>(arbitrary: Arbitrary<T>) => fc.option(arbitrary, { nil: null });
const few = <T>(arbitrary: Arbitrary<T>) => fc.array(arbitrary, { maxLength: 3 });
const is = <const T extends string>(type: T) => fc.constant(type);

/** Adds provider options to about a third of the values. */
const optioned = <T, Options>(value: Arbitrary<T>, options: Arbitrary<Options>): Arbitrary<T> =>
  fc
    .tuple(value, fc.option(options, { nil: null, freq: 2 }))
    .map(([plain, providerOptions]) => (providerOptions === null ? plain : { ...plain, providerOptions }));

const text = fc.oneof(fc.string({ maxLength: 12 }), fc.string({ unit: "binary", maxLength: 6 }), fc.constant("\ud800"));
const count = fc.nat();
// JSON.stringify writes negative zero as 0, so it does not survive a round trip.
const number = fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => (value === 0 ? 0 : value));
const key = fc.oneof(
  { weight: 5, arbitrary: text },
  { weight: 1, arbitrary: word(["__proto__", "constructor", "toJSON"]) },
);
const dictionary = (value: Arbitrary<Json>) => fc.dictionary(key, value, { maxKeys: 3, noNullPrototype: true });

export const json: Arbitrary<Json> = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    fc.constant(null),
    fc.boolean(),
    number,
    text,
    fc.array(tie("value"), { maxLength: 3 }),
    dictionary(tie("value")),
  ),
})).value;
const jsonObject: Arbitrary<JsonObject> = dictionary(json);

const route = record<ProviderRoute>({ provider: text, endpoint: text, model: text });
const replay = record<ProviderReplay>({ provider: text, endpoint: text, model: text, data: json });
const source: Arbitrary<ContentSource> = fc.oneof(
  record<Extract<ContentSource, { type: "base64" }>>({ type: is("base64"), data: text }),
  record<Extract<ContentSource, { type: "url" }>>({ type: is("url"), url: text }),
  record<Extract<ContentSource, { type: "file" }>>({ type: is("file"), path: text }),
  record<Extract<ContentSource, { type: "provider_file" }>>({ type: is("provider_file"), provider: text, id: text }),
);

const image = record<ImageContent>({
  source,
  mimeType: orNull(text),
  width: orNull(count),
  height: orNull(count),
  prompt: orNull(text),
  revisedPrompt: orNull(text),
  metadata: jsonObject,
});

const pruneState: Arbitrary<PruneState> = fc.oneof(
  record<{ type: "cleared" }>({ type: is("cleared") }),
  record<Extract<PruneState, { type: "deleted" }>>({ type: is("deleted"), breadcrumb: text, archiveHash: text }),
  record<Extract<PruneState, { type: "summarized" }>>({ type: is("summarized"), summary: text, archiveHash: text }),
);

const cacheControl = { cache_control: { type: "ephemeral", ttl: "1h" } } as const;
const partOptions: Arbitrary<PartProviderOptions> = fc.oneof(
  fc.constant<PartProviderOptions>({ anthropic: { ...cacheControl, citations: { enabled: true }, context: "c" } }),
  fc.constant<PartProviderOptions>({ gemini: { videoMetadata: { fps: 2 } }, openai: { detail: "low" } }),
  jsonObject.map((other): PartProviderOptions => ({ other })),
);
const messageOptions = fc.constantFrom<MessageProviderOptions>(
  { mistral: { prefix: true } },
  { anthropic: cacheControl },
);
const toolOptions = fc.constantFrom<ToolProviderOptions>(
  { anthropic: { strict: true, input_examples: [{ password: "p" }] } },
  { openai: { strict: null } },
);

const toolCallFields = {
  id: text,
  name: text,
  arguments: orNull(jsonObject),
  rawArguments: orNull(text),
  provider: orNull(replay),
  metadata: jsonObject,
};
const toolCall = optioned(record<ToolCall>(toolCallFields), messageOptions);

const partFields = { provider: orNull(replay), metadata: jsonObject };
const prunable = { ...partFields, pruneState: orNull(pruneState) };
const textPart = optioned(
  record<TextPart>({
    type: is("text"),
    text,
    kind: word(textKinds),
    phase: orNull(word(textPhases)),
    ...prunable,
  }),
  partOptions,
);
const imagePart = optioned(
  record<ImagePart>({ type: is("image"), image, detail: word(imageDetails), ...prunable }),
  partOptions,
);
const filePart = optioned(
  record<FilePart>({
    type: is("file"),
    source,
    mimeType: orNull(text),
    name: orNull(text),
    ...prunable,
  }),
  partOptions,
);
const reasoningPart = record<ReasoningPart>({ type: is("reasoning"), text, redacted: fc.boolean(), ...partFields });
const toolCallPart = record<ToolCallPart>({
  type: is("tool_call"),
  toolCallId: text,
  providerExecuted: orNull(toolCall),
  metadata: jsonObject,
});
const toolResultPart = optioned(
  record<ToolResultPart>({
    type: is("tool_result"),
    toolCallId: text,
    content: json,
    isError: fc.boolean(),
    ...prunable,
  }),
  partOptions,
);
const userPart: Arbitrary<UserPart> = fc.oneof(textPart, imagePart, filePart);
const opaquePart = optioned(
  record<OpaquePart>({ type: is("opaque"), kind: text, provider: replay, metadata: jsonObject }),
  partOptions,
);
const part: Arbitrary<Part> = fc.oneof(userPart, reasoningPart, toolCallPart, toolResultPart, opaquePart);

const causalRef: Arbitrary<CausalRef> = fc.oneof(
  record<Extract<CausalRef, { type: "turn" }>>({ type: is("turn"), sessionId: text, turnId: text }),
  record<Extract<CausalRef, { type: "effect" }>>({
    type: is("effect"),
    sessionId: text,
    turnId: orNull(text),
    effectId: text,
  }),
  record<Extract<CausalRef, { type: "tool_call" }>>({ type: is("tool_call"), sessionId: text, toolCallId: text }),
  record<Extract<CausalRef, { type: "process" }>>({ type: is("process"), processId: text }),
  record<Extract<CausalRef, { type: "process_event" }>>({
    type: is("process_event"),
    processId: text,
    sequence: count,
  }),
);

const origin: Arbitrary<MessageOrigin> = fc.oneof(
  record<Extract<MessageOrigin, { type: "plugin" }>>({ type: is("plugin"), pluginId: text, transient: fc.boolean() }),
  record<Extract<MessageOrigin, { type: "process" }>>({
    type: is("process"),
    processId: text,
    eventType: text,
    sequence: count,
    wakeId: orNull(text),
    causedBy: orNull(causalRef),
  }),
  record<Extract<MessageOrigin, { type: "turn_input" }>>({
    type: is("turn_input"),
    turnId: text,
    inputId: orNull(text),
  }),
);

const messageFields = { id: orNull(text), name: orNull(text), origin: orNull(origin), metadata: jsonObject };
const finishReason = orNull(word(finishReasons));
const toolAnswer = {
  content: fc.oneof(text, few(userPart)),
  status: word(toolMessageStatuses),
  code: orNull(text),
  ranArguments: orNull(jsonObject),
};
const assistantMessage = record<AssistantMessage>({
  ...messageFields,
  role: is("assistant"),
  content: fc.oneof(text, few(part)),
  toolCalls: few(toolCall),
  finishReason,
});
const toolMessage = record<ToolMessage>({
  ...messageFields,
  role: is("tool"),
  toolCallId: text,
  ...toolAnswer,
});
const message: Arbitrary<Message> = optioned(
  fc.oneof(
    record<SystemMessage>({ ...messageFields, role: is("system"), content: fc.oneof(text, few(textPart)) }),
    record<UserMessage>({ ...messageFields, role: is("user"), content: fc.oneof(text, few(userPart)) }),
    assistantMessage,
    toolMessage,
    record<EventMessage>({ ...messageFields, role: is("event"), content: fc.oneof(text, few(textPart)) }),
  ),
  messageOptions,
);
const thread = record<Thread>({ messages: few(message), metadata: jsonObject });

const usage = record<Usage>({
  inputTokens: orNull(count),
  outputTokens: orNull(count),
  cachedInputTokens: orNull(count),
  cacheWriteInputTokens: orNull(count),
  reasoningTokens: orNull(count),
  totalTokens: orNull(count),
  inputCost: orNull(number),
  outputCost: orNull(number),
  totalCost: orNull(number),
  toolUsage: jsonObject,
  extra: jsonObject,
});

const cause: Arbitrary<FailureCause> = fc.letrec<{ cause: FailureCause }>((tie) => ({
  cause: record<FailureCause>({
    name: text,
    message: text,
    cause: fc.option(tie("cause"), { nil: null, maxDepth: 3 }),
  }),
})).cause;
const failureFields = { message: text, cause: orNull(cause), metadata: jsonObject };
const providerFields = {
  ...failureFields,
  provider: orNull(text),
  status: orNull(count),
  retryAfterMs: orNull(count),
  requestId: orNull(text),
  retryable: fc.boolean(),
  kind: word(providerFailureKinds),
  code: orNull(text),
  raw: orNull(text),
};
const retry: Arbitrary<RetryDisposition> = fc.oneof(
  record<{ type: "never" }>({ type: is("never") }),
  record<{ type: "safe"; afterMs: number | null }>({ type: is("safe"), afterMs: orNull(count) }),
  record<{ type: "exhausted"; attempts: number }>({ type: is("exhausted"), attempts: count }),
);
const toolFailure = record<ToolFailure>({
  ...failureFields,
  type: is("tool_error"),
  reason: word(toolErrorReasons),
  class: word(toolFailureClasses),
  code: text,
  source: word(toolFailureSources),
  retry,
  toolName: orNull(text),
  toolCallId: orNull(text),
  raw: json,
});
type FailureOf<Type extends Failure["type"]> = Extract<Failure, { readonly type: Type }>;
const failures: { readonly [Type in Failure["type"]]: Arbitrary<FailureOf<Type>> } = {
  engine_error: record<FailureOf<"engine_error">>({
    ...failureFields,
    type: is("engine_error"),
    reason: word(engineErrorReasons),
    provider: orNull(text),
  }),
  adapter_error: record<FailureOf<"adapter_error">>({
    ...providerFields,
    type: is("adapter_error"),
    reason: word(adapterErrorReasons),
  }),
  image_adapter_error: record<FailureOf<"image_adapter_error">>({
    ...providerFields,
    type: is("image_adapter_error"),
    reason: word(imageAdapterErrorReasons),
  }),
  stream_error: record<FailureOf<"stream_error">>({
    ...providerFields,
    type: is("stream_error"),
    reason: word(streamErrorReasons),
    eventIndex: orNull(count),
  }),
  tool_error: toolFailure,
  session_error: record<FailureOf<"session_error">>({
    ...failureFields,
    type: is("session_error"),
    reason: word(sessionErrorReasons),
  }),
  validation_error: record<ValidationFailure>({
    ...failureFields,
    type: is("validation_error"),
    reason: word(validationErrorReasons),
    issues: few(record({ path: few(fc.oneof(text, count)), code: word(issueCodes), message: text })),
  }),
  runtime_error: record<FailureOf<"runtime_error">>({
    ...failureFields,
    type: is("runtime_error"),
    reason: word(runtimeErrorReasons),
    paths: few(text),
  }),
};
const failure: Arbitrary<Failure> = fc.oneof(...Object.values<Arbitrary<Failure>>(failures));

const control: Arbitrary<ToolControl> = fc.oneof(
  record<Extract<ToolControl, { type: "finish" }>>({ type: is("finish"), value: json }),
  record<Extract<ToolControl, { type: "fail" }>>({ type: is("fail"), failure: toolFailure }),
  record<Extract<ToolControl, { type: "handoff" }>>({
    type: is("handoff"),
    target: text,
    task: orNull(text),
    initialMessages: few(message),
  }),
  record<Extract<ToolControl, { type: "compact" }>>({ type: is("compact"), instructions: orNull(text) }),
);
const toolOutcome: Arbitrary<ToolOutcome> = fc.oneof(
  record<Extract<ToolOutcome, { type: "success" }>>({ type: is("success"), value: json, control: orNull(control) }),
  record<Extract<ToolOutcome, { type: "failure" }>>({ type: is("failure"), failure: toolFailure }),
  record<Extract<ToolOutcome, { type: "cancelled" }>>({ type: is("cancelled"), message: text, raw: json }),
  record<Extract<ToolOutcome, { type: "ask_user" }>>({
    type: is("ask_user"),
    question: text,
    answerAs: word(answerForms),
    opts: jsonObject,
  }),
  record<Extract<ToolOutcome, { type: "halt" }>>({ type: is("halt"), reason: text, value: json }),
);

const evidence = record({ requestId: text, origin: orNull(text), reason: orNull(text) });
type Outcome<Type extends TurnOutcome["type"]> = Extract<TurnOutcome, { readonly type: Type }>;
const outcomes: { readonly [Type in TurnOutcome["type"]]: Arbitrary<Outcome<Type>> } = {
  assistant_message: record<Outcome<"assistant_message">>({ type: is("assistant_message"), text }),
  final_value: record<Outcome<"final_value">>({ type: is("final_value"), value: json }),
  tool_value: record<Outcome<"tool_value">>({ type: is("tool_value"), toolName: text, value: json }),
  handoff: record<Outcome<"handoff">>({
    type: is("handoff"),
    target: text,
    task: orNull(text),
    initialMessages: few(message),
  }),
  ask_user: record<Outcome<"ask_user">>({ type: is("ask_user"), toolCallId: text, question: text }),
  halted: record<Outcome<"halted">>({ type: is("halted"), reason: text, toolCallId: text, value: json }),
  max_turns: record<Outcome<"max_turns">>({ type: is("max_turns"), maxTurns: count }),
  budget: record<Outcome<"budget">>({ type: is("budget"), budget: word(budgets) }),
  cancelled: record<Outcome<"cancelled">>({ type: is("cancelled"), evidence }),
  tool_error: record<Outcome<"tool_error">>({
    type: is("tool_error"),
    toolName: text,
    toolCallId: orNull(text),
    failure: toolFailure,
  }),
  submitted_error: record<Outcome<"submitted_error">>({ type: is("submitted_error"), value: json }),
  provider_error: record<Outcome<"provider_error">>({ type: is("provider_error"), failure }),
  runtime_error: record<Outcome<"runtime_error">>({ type: is("runtime_error"), failure }),
  empty: record({ type: is("empty") }),
  incomplete: record({ type: is("incomplete") }),
  filtered: record({ type: is("filtered") }),
  other: record({ type: is("other") }),
  manual_tool_calls: record({ type: is("manual_tool_calls") }),
  approval: record({ type: is("approval") }),
  outcome_unknown: record({ type: is("outcome_unknown") }),
  halt_when: record({ type: is("halt_when") }),
  stop_after: record({ type: is("stop_after") }),
};
const outcome: Arbitrary<TurnOutcome> = fc.oneof(...Object.values<Arbitrary<TurnOutcome>>(outcomes));

const providerTool = record<ProviderTool>({ provider: text, name: text, options: jsonObject });

const tool = optioned(
  record<ToolSpec>({
    name: text,
    description: text,
    schema: jsonObject,
    outputSchema: orNull(jsonObject),
    manual: fc.boolean(),
    needsApproval: fc.boolean(),
    replay: word(replayPolicies),
    metadata: jsonObject,
  }),
  toolOptions,
).chain((plain) =>
  fc
    .option(providerTool, { nil: null, freq: 2 })
    .map((defined) => (defined === null ? plain : { ...plain, providerTool: defined })),
);

const modelRef = record<ModelRef>({
  provider: orNull(text),
  id: orNull(text),
  capabilities: orNull(
    record({
      tools: orNull(fc.boolean()),
      jsonNative: orNull(fc.boolean()),
      parallelTools: orNull(fc.boolean()),
      reasoning: orNull(fc.boolean()),
      vision: orNull(fc.boolean()),
      files: orNull(fc.boolean()),
      imagesEnabled: orNull(fc.boolean()),
      supportedImageOperations: orNull(few(word(imageOperations))),
    }),
  ),
  limits: orNull(record({ context: orNull(count), output: orNull(count) })),
  pricing: orNull(
    record({ input: orNull(number), output: orNull(number), cacheRead: orNull(number), cacheWrite: orNull(number) }),
  ),
  metadata: jsonObject,
});
const modelName = orNull(fc.oneof(text, modelRef));

const jsonSchema = record<JsonSchemaFormat>({
  type: is("json_schema"),
  name: text,
  schema: jsonObject,
  strict: fc.boolean(),
});

const request = record<ModelRequest>({
  messages: few(message),
  model: modelName,
  tools: few(tool),
  providerTools: few(providerTool),
  toolChoice: orNull(
    fc.oneof(
      word(["auto", "none", "required"]),
      record<{ type: "tool"; name: string }>({ type: is("tool"), name: text }),
    ),
  ),
  parallelToolCalls: orNull(fc.boolean()),
  temperature: orNull(number),
  topP: orNull(number),
  maxTokens: orNull(number),
  stopSequences: few(text),
  seed: orNull(number),
  reasoning: orNull(record({ effort: orNull(text), budgetTokens: orNull(count), summary: orNull(text) })),
  promptCache: orNull(
    record({ key: orNull(text), retention: word(cacheRetentions), breakpoints: word(cacheBreakpoints) }),
  ),
  responseFormat: orNull(
    fc.oneof(
      record<{ type: "text" }>({ type: is("text") }),
      record<{ type: "json_object" }>({ type: is("json_object") }),
      jsonSchema,
    ),
  ),
  structuredFinalize: fc.boolean(),
  stream: fc.boolean(),
  scope: orNull(record({ sessionId: text, frameId: orNull(text), requestId: text })),
  options: jsonObject,
  providerOptions: fc.constantFrom<RequestProviderOptions>({}, { anthropic: { top_k: 5 }, other: { field: [1] } }),
  metadata: jsonObject,
});

const output = orNull(record({ value: json }));
const warning = record<Warning>({ reason: word(warningReasons), path: text, message: text });
const reply = record<ModelReply>({
  id: orNull(text),
  requestId: orNull(text),
  model: orNull(text),
  route: orNull(route),
  message: orNull(assistantMessage),
  outputText: orNull(text),
  finishReason,
  rawFinishReason: orNull(text),
  toolCalls: few(toolCall),
  output,
  usage,
  error: orNull(failure),
  warnings: few(warning),
  raw: json,
  metadata: jsonObject,
});

const decision: Arbitrary<Decision> = fc.oneof(
  record<Extract<Decision, { type: "approve" }>>({
    type: is("approve"),
    arguments: orNull(jsonObject),
    by: orNull(text),
  }),
  record<Extract<Decision, { type: "deny" }>>({ type: is("deny"), reason: orNull(text), by: orNull(text) }),
);
const shownCall = record<ShownCall>({
  name: text,
  arguments: orNull(jsonObject),
  parents: few(text),
  replay: orNull(word(replayPolicies)),
});
const pendingToolCall = record<Omit<PendingToolCall, "digest">>({
  ...toolCallFields,
  reason: word(pendingReasons),
  question: orNull(text),
  answerAs: word(answerForms),
  opts: jsonObject,
  decision: orNull(decision),
  idempotencyKey: orNull(text),
  cellId: orNull(text),
  path: few(text),
  shown: shownCall,
}).map(withDigest);
const environment = record<Environment>({
  instructions: orNull(text),
  model: modelName,
  tools: few(tool),
  providerTools: few(providerTool),
  params: jsonObject,
});
const suspendedCell = record<SuspendedCell>({
  id: text,
  language: text,
  code: text,
  executor: record({ name: text, version: text }),
  environment,
  calls: few(record({ call: toolCall, answer: orNull(toolOutcome) })),
  ranMs: fc.nat(),
});

const haltDetails = {
  pendingQuestion: text,
  pendingToolCallId: text,
  askUserOpts: jsonObject,
  haltToolCallId: text,
  haltResult: json,
  onToolErrorException: cause,
  manualToolCalls: few(toolCall),
  error: failure,
};
const stepMetadata: Arbitrary<StepMetadata> = sparse<StepMetadata>({
  ...haltDetails,
  haltedReason: text,
  mode: is("manual"),
});
const chatMetadata: Arbitrary<ChatMetadata> = sparse<ChatMetadata>({
  ...haltDetails,
  manualTurnIndex: count,
  haltWhenStepIndex: count,
  maxTurns: count,
  budget: word(budgets),
  cancellation: evidence,
  structuredFinalize: record({ pass1Halted: text, pass2Error: orNull(failure) }),
});
const stepResult = record<StepResult>({
  thread,
  response: reply,
  toolResults: few(toolMessage),
  pendingToolCalls: few(pendingToolCall),
  suspendedCell: orNull(suspendedCell),
  usage,
  done: fc.boolean(),
  metadata: stepMetadata,
});
const protocolEvent = record<ProtocolEvent>({ protocol: text, event: json });
const contextWindow = record<ContextWindow>({
  frame: orNull(
    record<HistoryFrame>({ id: text, to: count, summary: orNull(text), pinned: few(count), undoneAt: orNull(count) }),
  ),
  prunedBefore: count,
  count: orNull(
    record<TokenCount>({
      tokens: count,
      source: fc.constantFrom("counted", "estimated"),
      by: fc.constantFrom("usage", "provider", "tokenizer", "characters"),
      length: count,
    }),
  ),
  ratio: fc.constantFrom(0.25, 1, 1.5),
  attemptedAt: count,
  uncountedAt: count,
  requested: orNull(record({ instructions: orNull(text) })),
  summaryUsage: usage,
});
const chatResult = record<ChatResult>({
  thread,
  finalResponse: orNull(reply),
  haltedReason: text,
  outcome,
  pendingQuestion: orNull(text),
  pendingToolCallId: orNull(text),
  pendingToolCalls: few(pendingToolCall),
  suspendedCell: orNull(suspendedCell),
  steps: fc.array(stepResult, { maxLength: 2 }),
  usage,
  contextWindow: orNull(contextWindow),
  protocolEvents: few(protocolEvent),
  partial: orNull(assistantMessage),
  metadata: chatMetadata,
});

const lastRun = record<LastRun>({
  turnId: orNull(text),
  budget: orNull(word(budgets)),
  haltedReason: text,
  outcome,
  steps: count,
  usage,
  metadata: chatMetadata,
  partial: orNull(assistantMessage),
});
const session = record<Session<JsonObject>>({
  id: orNull(text),
  thread,
  status: word(sessionStatuses),
  pendingToolCalls: few(pendingToolCall),
  pendingQuestion: orNull(text),
  pendingToolCallId: orNull(text),
  suspendedCell: orNull(suspendedCell),
  pendingOutput: orNull(record({ schema: jsonObject, repair: orNull(count) })),
  contextWindow: orNull(contextWindow),
  protocolEvents: few(protocolEvent),
  context: jsonObject,
  usage,
  lastRun: orNull(lastRun),
  metadata: jsonObject,
});

const size = orNull(fc.oneof(text, record({ width: count, height: count })));
const imageUsage = record<ImageUsage>({
  images: count,
  size,
  quality: orNull(text),
  inputTokens: orNull(count),
  outputTokens: orNull(count),
  inputCost: orNull(number),
  outputCost: orNull(number),
  totalCost: orNull(number),
});
const imageRequest = record<ImageRequest>({
  operation: word(imageOperations),
  model: modelName,
  prompt: orNull(text),
  n: number,
  size,
  quality: orNull(text),
  style: orNull(word(imageStyles)),
  background: orNull(word(imageBackgrounds)),
  responseFormat: word(imageFormats),
  inputImages: few(image),
  mask: orNull(image),
  options: jsonObject,
  metadata: jsonObject,
});
const imageResponse = record<ImageResponse>({
  id: orNull(text),
  requestId: orNull(text),
  model: orNull(text),
  images: few(image),
  usage: imageUsage,
  raw: json,
  metadata: jsonObject,
});

type EventOf<Type extends TurnEvent["type"]> = Extract<TurnEvent, { readonly type: Type }>;
const ofAttempt = { effectId: orNull(text), attempt: orNull(record({ epoch: count, n: count })) };
const events: { readonly [Type in TurnEvent["type"]]: Arbitrary<EventOf<Type>> } = {
  message_started: fc
    .tuple(record({ type: is("message_started"), message: assistantMessage }), orNull(jsonObject))
    .map(([plain, addedNulls]) => (addedNulls === null ? plain : { ...plain, addedNulls })),
  text_delta: record({ type: is("text_delta"), id: orNull(text), delta: text }),
  text_completed: record({
    type: is("text_completed"),
    id: orNull(text),
    text,
    phase: orNull(word(textPhases)),
    provider: orNull(replay),
  }),
  reasoning_delta: record({ type: is("reasoning_delta"), id: orNull(text), delta: text }),
  reasoning_completed: record({
    type: is("reasoning_completed"),
    id: orNull(text),
    text,
    redacted: fc.boolean(),
    provider: orNull(replay),
  }),
  tool_call_started: record({ type: is("tool_call_started"), id: text, name: text, providerExecuted: fc.boolean() }),
  tool_call_delta: record({ type: is("tool_call_delta"), id: text, argumentsDelta: text }),
  tool_call_completed: record({ type: is("tool_call_completed"), ...toolCallFields, providerExecuted: fc.boolean() }),
  usage: record({ type: is("usage"), usage }),
  warning: record({ type: is("warning"), warning }),
  message_completed: record({
    type: is("message_completed"),
    message: assistantMessage,
    finishReason,
    rawFinishReason: orNull(text),
    requestId: orNull(text),
    responseId: orNull(text),
    model: orNull(text),
    route: orNull(route),
    output,
    metadata: jsonObject,
  }),
  raw_chunk: record({ type: is("raw_chunk"), chunk: json }),
  error: record({ type: is("error"), error: failure }),
  tool_execution_started: record({
    type: is("tool_execution_started"),
    id: text,
    name: text,
    arguments: jsonObject,
    ...ofAttempt,
  }),
  tool_progress: record({ type: is("tool_progress"), id: text, name: text, progress: json, ...ofAttempt }),
  tool_execution_completed: record({
    type: is("tool_execution_completed"),
    id: text,
    name: text,
    result: toolOutcome,
    durationMs: orNull(number),
  }),
  tool_result_encoded: record({ type: is("tool_result_encoded"), id: text, ...toolAnswer }),
  ask_user_requested: record({
    type: is("ask_user_requested"),
    toolCallId: text,
    toolName: text,
    question: text,
    opts: jsonObject,
  }),
  approval_requested: record({
    type: is("approval_requested"),
    toolCallId: text,
    toolName: text,
    arguments: jsonObject,
    opts: jsonObject,
    shown: orNull(shownCall),
    digest: orNull(text),
  }),
  tool_halt: record({ type: is("tool_halt"), toolCallId: text, reason: text, result: json, ...toolAnswer }),
  turn_started: record({ type: is("turn_started"), turnId: text, sessionId: orNull(text) }),
  compaction_started: record({ type: is("compaction_started"), frameId: text, from: count, to: count }),
  compaction_ended: record({
    type: is("compaction_ended"),
    frameId: text,
    from: count,
    to: count,
    status: word(compactionStatuses),
  }),
  input_accepted: record({
    type: is("input_accepted"),
    turnId: orNull(text),
    checkpoint: orNull(word(checkpointKinds)),
    inputs: few(record({ id: orNull(text), message })),
  }),
  retry_scheduled: record({
    type: is("retry_scheduled"),
    ...ofAttempt,
    maxAttempts: orNull(count),
    delayMs: count,
    error: failure,
  }),
  step_reset: record({ type: is("step_reset"), ...ofAttempt, reason: word(stepResetReasons), withdrawn: few(text) }),
  step_completed: record({
    type: is("step_completed"),
    response: reply,
    thread,
    mode: word(toolModes),
    manualToolCalls: few(toolCall),
    pendingToolCalls: few(pendingToolCall),
    suspendedCell: orNull(suspendedCell),
    usage,
  }),
  chat_completed: record({ type: is("chat_completed"), result: chatResult }),
};
const event: Arbitrary<TurnEvent> = fc.oneof(...Object.values<Arbitrary<TurnEvent>>(events));

/** One generator for every stored type. */
export const arbitraries: { readonly [K in StoredType]: Arbitrary<StoredTypes[K]> } = {
  message,
  part,
  tool,
  tool_call: toolCall,
  tool_outcome: toolOutcome,
  request,
  reply,
  usage,
  model_ref: modelRef,
  thread,
  step_result: stepResult,
  chat_result: chatResult,
  outcome,
  session,
  pending_tool_call: pendingToolCall,
  environment,
  suspended_cell: suspendedCell,
  event,
  failure,
  image,
  image_request: imageRequest,
  image_response: imageResponse,
  image_usage: imageUsage,
};
