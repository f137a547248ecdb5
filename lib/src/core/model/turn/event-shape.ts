// The shapes that read stored or received events, one for each member of the union in event.ts. `eventTypes` is derived from the same
// table. A new event type does not compile until its shape is here.

import type { Shape } from "../parse/shape.ts";
import type {
  AcceptedInput,
  ApprovalRequested,
  AskUserRequested,
  Attempt,
  ChatCompleted,
  ErrorReported,
  InputAccepted,
  MessageCompleted,
  MessageStarted,
  ModelEvent,
  RawChunk,
  ReasoningCompleted,
  ReasoningDelta,
  RetryScheduled,
  StepCompleted,
  StepReset,
  TextCompleted,
  TextDelta,
  ToolCallCompleted,
  ToolCallDelta,
  ToolCallStarted,
  ToolExecutionCompleted,
  ToolExecutionStarted,
  ToolHalt,
  ToolProgress,
  ToolResultEncoded,
  TurnEvent,
  TurnStarted,
  UsageReported,
  WarningReported,
} from "./event.ts";

import { finishReasons } from "../call/finish-reason.ts";
import { replyShape, structuredOutputShape } from "../call/reply.ts";
import { noUsage, usageShape } from "../call/usage.ts";
import { warningShape } from "../call/warning.ts";
import { failureShape } from "../failure/failure.ts";
import { assistantMessageShape, messageShape, toolAnswerFields } from "../message/message.ts";
import { textPhases } from "../message/part.ts";
import { providerReplayShape, providerRouteShape } from "../message/provider-replay.ts";
import { threadShape } from "../message/thread.ts";
import { emptyObject } from "../parse/json.ts";
import {
  array,
  boolean,
  count,
  fallback,
  json,
  jsonObject,
  nullable,
  number,
  object,
  oneOf,
  optional,
  read,
  required,
  settings,
  string,
  variant,
} from "../parse/shape.ts";
import { pendingToolCallShape, shownCallShape, waitOpts } from "../tool/pending.ts";
import { toolOutcomeShape } from "../tool/tool-outcome.ts";
import { toolValueShape } from "../tool/tool-value.ts";
import { toolCallShape } from "../tool/tool.ts";
import { suspendedCellShape } from "./environment.ts";
import { checkpointKinds, stepResetReasons, toolModes } from "./event.ts";
import { chatResultShape } from "./run-results.ts";

/** The discriminant of an event. */
const name = <const T extends string>(type: T) => required(oneOf([type]));
const blockId = fallback(nullable(string), null);
const metadata = fallback(settings, emptyObject);
const opts = fallback(waitOpts, emptyObject);
const replay = fallback(nullable(providerReplayShape), null);
const ofAttempt = {
  effectId: fallback(nullable(string), null),
  attempt: fallback(nullable(object<Attempt>({ epoch: required(count), n: required(count) })), null),
};

type Shapes<E extends TurnEvent> = { readonly [Type in E["type"]]: Shape<Extract<E, { readonly type: Type }>> };

/** The events of a model call, which adapters emit. A table of its own: a program without a runtime or a client reads no other events. */
const modelEventShapes: Shapes<ModelEvent> = {
  message_started: object<MessageStarted>({
    type: name("message_started"),
    message: required(assistantMessageShape),
    addedNulls: optional(jsonObject),
  }),
  text_delta: object<TextDelta>({ type: name("text_delta"), id: blockId, delta: required(string) }),
  text_completed: object<TextCompleted>({
    type: name("text_completed"),
    id: blockId,
    text: required(string),
    phase: fallback(nullable(oneOf(textPhases)), null),
    provider: replay,
  }),
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
    providerExecuted: fallback(boolean, false),
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
    providerExecuted: fallback(boolean, false),
    provider: replay,
    metadata,
  }),
  usage: object<UsageReported>({ type: name("usage"), usage: required(usageShape) }),
  warning: object<WarningReported>({ type: name("warning"), warning: required(warningShape) }),
  message_completed: object<MessageCompleted>({
    type: name("message_completed"),
    message: required(assistantMessageShape),
    finishReason: fallback(nullable(oneOf(finishReasons)), null),
    rawFinishReason: fallback(nullable(string), null),
    requestId: fallback(nullable(string), null),
    responseId: fallback(nullable(string), null),
    model: fallback(nullable(string), null),
    route: fallback(nullable(providerRouteShape), null),
    output: fallback(nullable(structuredOutputShape), null),
    metadata,
  }),
  raw_chunk: object<RawChunk>({ type: name("raw_chunk"), chunk: required(json) }),
  error: object<ErrorReported>({ type: name("error"), error: required(failureShape) }),
};

const eventShapes: Shapes<TurnEvent> = {
  ...modelEventShapes,
  tool_execution_started: object<ToolExecutionStarted>({
    type: name("tool_execution_started"),
    id: required(string),
    name: required(string),
    arguments: required(jsonObject),
    ...ofAttempt,
  }),
  tool_progress: object<ToolProgress>({
    type: name("tool_progress"),
    id: required(string),
    name: required(string),
    progress: required(json),
    ...ofAttempt,
  }),
  tool_execution_completed: object<ToolExecutionCompleted>({
    type: name("tool_execution_completed"),
    id: required(string),
    name: required(string),
    result: required(toolOutcomeShape),
    durationMs: fallback(nullable(number), null),
  }),
  tool_result_encoded: object<ToolResultEncoded>({
    type: name("tool_result_encoded"),
    id: required(string),
    ...toolAnswerFields,
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
    shown: fallback(nullable(shownCallShape), null),
    digest: fallback(nullable(string), null),
  }),
  tool_halt: object<ToolHalt>({
    type: name("tool_halt"),
    toolCallId: required(string),
    reason: required(string),
    result: fallback(toolValueShape, null),
    ...toolAnswerFields,
  }),
  turn_started: object<TurnStarted>({
    type: name("turn_started"),
    turnId: required(string),
    sessionId: fallback(nullable(string), null),
  }),
  input_accepted: object<InputAccepted>({
    type: name("input_accepted"),
    turnId: fallback(nullable(string), null),
    checkpoint: fallback(nullable(oneOf(checkpointKinds)), null),
    inputs: required(
      array(object<AcceptedInput>({ id: fallback(nullable(string), null), message: required(messageShape) })),
    ),
  }),
  retry_scheduled: object<RetryScheduled>({
    type: name("retry_scheduled"),
    ...ofAttempt,
    maxAttempts: fallback(nullable(count), null),
    delayMs: required(count),
    error: required(failureShape),
  }),
  step_reset: object<StepReset>({
    type: name("step_reset"),
    ...ofAttempt,
    reason: required(oneOf(stepResetReasons)),
    withdrawn: fallback(array(string), []),
  }),
  step_completed: object<StepCompleted>({
    type: name("step_completed"),
    response: required(replyShape),
    thread: required(threadShape),
    mode: fallback(oneOf(toolModes), "auto"),
    manualToolCalls: fallback(array(toolCallShape), []),
    pendingToolCalls: fallback(array(pendingToolCallShape), []),
    suspendedCell: fallback(nullable(suspendedCellShape), null),
    usage: fallback(usageShape, noUsage),
  }),
  chat_completed: object<ChatCompleted>({ type: name("chat_completed"), result: required(chatResultShape) }),
};

export const eventShape: Shape<TurnEvent> = variant<TurnEvent, "type">("type", eventShapes);

export const modelEventShape: Shape<ModelEvent> = variant<ModelEvent, "type">("type", modelEventShapes);

/** The types of all events. */
export const eventTypes: readonly TurnEvent["type"][] = Object.keys(eventShapes).filter(isEventType);

function isEventType(name: string): name is TurnEvent["type"] {
  return Object.hasOwn(eventShapes, name);
}

/**
 * Returns whether a value can be read as an event. This is not a type guard: defaults may be missing.
 * `parse("event", value)` fills them in.
 */
export function isEvent(value: unknown): boolean {
  return "value" in read(eventShape, value);
}

/** Returns whether a value can be read as an event of a model call. */
export function isModelEvent(value: unknown): boolean {
  return "value" in read(modelEventShape, value);
}
