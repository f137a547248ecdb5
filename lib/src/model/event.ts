// Everything a run says while it runs: one closed union. Events are for watching; what may be stored as history is in the
// results they end with. An event carries what changed and never the growing whole.

import type { Failure } from "./failure.ts";
import type { FinishReason } from "./finish-reason.ts";
import type { Json, JsonObject } from "./json.ts";
import type { AssistantMessage, Message, ToolMessage } from "./message.ts";
import type { ProviderReplay } from "./provider-replay.ts";
import type { ModelReply } from "./reply.ts";
import type { ChatResult } from "./results.ts";
import type { Shape } from "./shape.ts";
import type { Thread } from "./thread.ts";
import type { ToolCall } from "./tool.ts";
import type { ToolOutcome } from "./tool-outcome.ts";
import type { ToolValue } from "./tool-value.ts";
import type { Usage } from "./usage.ts";

import { failureShape } from "./failure.ts";
import { finishReasons } from "./finish-reason.ts";
import { emptyObject } from "./json.ts";
import { assistantMessageShape, messageShape, toolContentShape } from "./message.ts";
import { providerReplayShape } from "./provider-replay.ts";
import { replyShape } from "./reply.ts";
import { chatResultShape } from "./results.ts";
import {
  array,
  boolean,
  count,
  fallback,
  json,
  jsonObject,
  nullable,
  object,
  oneOf,
  read,
  required,
  settings,
  string,
  variant,
} from "./shape.ts";
import { threadShape } from "./thread.ts";
import { toolCallShape } from "./tool.ts";
import { toolOutcomeShape } from "./tool-outcome.ts";
import { toolValueShape } from "./tool-value.ts";
import { usageShape } from "./usage.ts";

/** Anything a run can say. */
export type TurnEvent = ModelEvent | ToolEvent | RunEvent;

/** What a model says while it is talking: all that an adapter may emit. */
export type ModelEvent =
  | MessageStarted
  | TextDelta
  | TextCompleted
  | ReasoningDelta
  | ReasoningCompleted
  | ToolCallStarted
  | ToolCallDelta
  | ToolCallCompleted
  | UsageReported
  | MessageCompleted
  | RawChunk
  | ErrorEvent;

/** What happens to the calls of a reply. */
export type ToolEvent =
  | ToolExecutionStarted
  | ToolProgress
  | ToolExecutionCompleted
  | ToolResultEncoded
  | AskUserRequested
  | ApprovalRequested
  | ToolHalt;

/** What happens to the run as a whole. */
export type RunEvent = TurnStarted | InputAccepted | RetryScheduled | StepReset | StepCompleted | ChatCompleted;

/** The model begins to answer. */
export type MessageStarted = { readonly type: "message_started"; readonly message: AssistantMessage };

/** More text. `id` tells text blocks of one reply apart; `null` when there is only one. */
export type TextDelta = { readonly type: "text_delta"; readonly id: string | null; readonly delta: string };

/** The whole text of a block, replacing what its deltas added up to. */
export type TextCompleted = { readonly type: "text_completed"; readonly id: string | null; readonly text: string };

export type ReasoningDelta = { readonly type: "reasoning_delta"; readonly id: string | null; readonly delta: string };

export type ReasoningCompleted = {
  readonly type: "reasoning_completed";
  readonly id: string | null;
  readonly text: string;
  readonly redacted: boolean;
  readonly provider: ProviderReplay | null;
};

export type ToolCallStarted = { readonly type: "tool_call_started"; readonly id: string; readonly name: string };

export type ToolCallDelta = {
  readonly type: "tool_call_delta";
  readonly id: string;
  readonly argumentsDelta: string;
};

/** A whole call. It is not run before the reply has ended well. */
export type ToolCallCompleted = {
  readonly type: "tool_call_completed";
  readonly id: string;
  readonly name: string;
  readonly arguments: JsonObject | null;
  readonly rawArguments: string | null;
  readonly provider: ProviderReplay | null;
  readonly metadata: JsonObject;
};

/** What the call has cost so far. The last word counts. */
export type UsageReported = { readonly type: "usage"; readonly usage: Usage };

/** The reply is whole. */
export type MessageCompleted = {
  readonly type: "message_completed";
  readonly message: AssistantMessage;
  readonly finishReason: FinishReason | null;
  readonly rawFinishReason: string | null;
  /** The provider's id of the reply and its name for the model that gave it. */
  readonly responseId: string | null;
  readonly model: string | null;
  readonly metadata: JsonObject;
};

/** A piece of the provider's own stream, for those who asked to see it. */
export type RawChunk = { readonly type: "raw_chunk"; readonly chunk: Json };

/** Something failed. What comes after says what became of the run. */
export type ErrorEvent = { readonly type: "error"; readonly error: Failure };

/** A handler begins. Said when it does, not afterwards. */
export type ToolExecutionStarted = {
  readonly type: "tool_execution_started";
  readonly id: string;
  readonly name: string;
  readonly arguments: JsonObject;
};

export type ToolProgress = {
  readonly type: "tool_progress";
  readonly id: string;
  readonly name: string;
  readonly progress: Json;
};

/** What the handler came to, for the program. */
export type ToolExecutionCompleted = {
  readonly type: "tool_execution_completed";
  readonly id: string;
  readonly name: string;
  readonly result: ToolOutcome;
};

/** What the model will see of it. */
export type ToolResultEncoded = {
  readonly type: "tool_result_encoded";
  readonly id: string;
  readonly content: ToolMessage["content"];
};

export type AskUserRequested = {
  readonly type: "ask_user_requested";
  readonly toolCallId: string;
  readonly toolName: string;
  readonly question: string;
  readonly opts: JsonObject;
};

export type ApprovalRequested = {
  readonly type: "approval_requested";
  readonly toolCallId: string;
  readonly toolName: string;
  readonly arguments: JsonObject;
  readonly opts: JsonObject;
};

export type ToolHalt = {
  readonly type: "tool_halt";
  readonly toolCallId: string;
  readonly reason: string;
  readonly result: ToolValue;
  readonly content: ToolMessage["content"];
};

/** A durable turn begins. */
export type TurnStarted = {
  readonly type: "turn_started";
  readonly turnId: string;
  readonly sessionId: string | null;
};

/** Input that arrived during a durable turn has been taken in. */
export type InputAccepted = {
  readonly type: "input_accepted";
  readonly checkpoint: "after_work" | "before_completion";
  readonly inputs: readonly AcceptedInput[];
};

export type AcceptedInput = { readonly id: string | null; readonly message: Message };

/** A model call failed and will be made again. */
export type RetryScheduled = {
  readonly type: "retry_scheduled";
  readonly attempt: number;
  readonly maxAttempts: number | null;
  readonly delayMs: number;
  readonly error: Failure;
};

/** What this step has shown so far is void: a new attempt begins. Everyone who kept its text drops it. */
export type StepReset = {
  readonly type: "step_reset";
  readonly attempt: number;
  readonly reason: "retry" | "fallback" | "recovery";
};

export type StepCompleted = {
  readonly type: "step_completed";
  readonly response: ModelReply;
  readonly thread: Thread;
  readonly mode: "auto" | "manual";
  readonly manualToolCalls: readonly ToolCall[];
};

export type ChatCompleted = { readonly type: "chat_completed"; readonly result: ChatResult };

// Shapes

const name = <const T extends string>(type: T) => required(oneOf([type]));
const blockId = fallback(nullable(string), null);
const opts = fallback(settings, emptyObject);
const replay = fallback(nullable(providerReplayShape), null);

export const eventShape: Shape<TurnEvent> = variant<TurnEvent, "type">("type", {
  message_started: object<MessageStarted>({ type: name("message_started"), message: required(assistantMessageShape) }),
  text_delta: object<TextDelta>({ type: name("text_delta"), id: blockId, delta: required(string) }),
  text_completed: object<TextCompleted>({ type: name("text_completed"), id: blockId, text: required(string) }),
  reasoning_delta: object<ReasoningDelta>({ type: name("reasoning_delta"), id: blockId, delta: required(string) }),
  reasoning_completed: object<ReasoningCompleted>({
    type: name("reasoning_completed"),
    id: blockId,
    text: required(string),
    redacted: fallback(boolean, false),
    provider: replay,
  }),
  tool_call_started: object<ToolCallStarted>({
    type: name("tool_call_started"),
    id: required(string),
    name: required(string),
  }),
  tool_call_delta: object<ToolCallDelta>({
    type: name("tool_call_delta"),
    id: required(string),
    argumentsDelta: required(string),
  }),
  tool_call_completed: object<ToolCallCompleted>({
    type: name("tool_call_completed"),
    id: required(string),
    name: required(string),
    arguments: required(nullable(jsonObject)),
    rawArguments: fallback(nullable(string), null),
    provider: replay,
    metadata: opts,
  }),
  usage: object<UsageReported>({ type: name("usage"), usage: required(usageShape) }),
  message_completed: object<MessageCompleted>({
    type: name("message_completed"),
    message: required(assistantMessageShape),
    finishReason: fallback(nullable(oneOf(finishReasons)), null),
    rawFinishReason: fallback(nullable(string), null),
    responseId: fallback(nullable(string), null),
    model: fallback(nullable(string), null),
    metadata: opts,
  }),
  raw_chunk: object<RawChunk>({ type: name("raw_chunk"), chunk: required(json) }),
  error: object<ErrorEvent>({ type: name("error"), error: required(failureShape) }),
  tool_execution_started: object<ToolExecutionStarted>({
    type: name("tool_execution_started"),
    id: required(string),
    name: required(string),
    arguments: required(jsonObject),
  }),
  tool_progress: object<ToolProgress>({
    type: name("tool_progress"),
    id: required(string),
    name: required(string),
    progress: required(json),
  }),
  tool_execution_completed: object<ToolExecutionCompleted>({
    type: name("tool_execution_completed"),
    id: required(string),
    name: required(string),
    result: required(toolOutcomeShape),
  }),
  tool_result_encoded: object<ToolResultEncoded>({
    type: name("tool_result_encoded"),
    id: required(string),
    content: toolContentShape,
  }),
  ask_user_requested: object<AskUserRequested>({
    type: name("ask_user_requested"),
    toolCallId: required(string),
    toolName: required(string),
    question: required(string),
    opts,
  }),
  approval_requested: object<ApprovalRequested>({
    type: name("approval_requested"),
    toolCallId: required(string),
    toolName: required(string),
    arguments: required(jsonObject),
    opts,
  }),
  tool_halt: object<ToolHalt>({
    type: name("tool_halt"),
    toolCallId: required(string),
    reason: required(string),
    result: fallback(toolValueShape, null),
    content: toolContentShape,
  }),
  turn_started: object<TurnStarted>({
    type: name("turn_started"),
    turnId: required(string),
    sessionId: fallback(nullable(string), null),
  }),
  input_accepted: object<InputAccepted>({
    type: name("input_accepted"),
    checkpoint: required(oneOf(["after_work", "before_completion"])),
    inputs: required(
      array(object<AcceptedInput>({ id: fallback(nullable(string), null), message: required(messageShape) })),
    ),
  }),
  retry_scheduled: object<RetryScheduled>({
    type: name("retry_scheduled"),
    attempt: required(count),
    maxAttempts: fallback(nullable(count), null),
    delayMs: required(count),
    error: required(failureShape),
  }),
  step_reset: object<StepReset>({
    type: name("step_reset"),
    attempt: required(count),
    reason: required(oneOf(["retry", "fallback", "recovery"])),
  }),
  step_completed: object<StepCompleted>({
    type: name("step_completed"),
    response: required(replyShape),
    thread: required(threadShape),
    mode: fallback(oneOf(["auto", "manual"]), "auto"),
    manualToolCalls: fallback(array(toolCallShape), []),
  }),
  chat_completed: object<ChatCompleted>({ type: name("chat_completed"), result: required(chatResultShape) }),
});

/** Every event there is, in the order a run can say them. */
export const eventTypes = [
  "turn_started",
  "input_accepted",
  "retry_scheduled",
  "step_reset",
  "message_started",
  "reasoning_delta",
  "reasoning_completed",
  "text_delta",
  "text_completed",
  "tool_call_started",
  "tool_call_delta",
  "tool_call_completed",
  "usage",
  "message_completed",
  "raw_chunk",
  "error",
  "tool_execution_started",
  "tool_progress",
  "tool_execution_completed",
  "tool_result_encoded",
  "ask_user_requested",
  "approval_requested",
  "tool_halt",
  "step_completed",
  "chat_completed",
] as const satisfies readonly TurnEvent["type"][];

/** Can this be read as an event? `parse("event", value)` also hands it out, or says why not. */
export function isEvent(value: unknown): boolean {
  return "value" in read(eventShape, value, "store");
}
