// The events of a run: one closed union, declared by the tables `modelEvents` and `runEvents`.
//
// Events are for display and progress. The history of a conversation is the thread in the results, not the events.
//
// Invariants
//   1. An event carries what changed. Only `step_completed` and `chat_completed` carry results, by reference; the
//      durable event log stores neither of the two in full, so its size is linear in the number of steps.
//   2. An adapter emits `ModelEvent`s only. The other events come from the performers and the narrator of the run.
//   3. Deltas are advisory: the `*_completed` event of a block replaces the sum of its deltas.

import type { FinishReason } from "../call/finish-reason.ts";
import type { ModelReply } from "../call/reply.ts";
import type { TextPhase } from "../message/part.ts";
import type { Infer, InferUnion, Shape, WordOf } from "../parse/shape.ts";

import { finishReasons } from "../call/finish-reason.ts";
import { replyShape, replyText, structuredOutputShape } from "../call/reply.ts";
import { noUsage, usageShape } from "../call/usage.ts";
import { warningShape } from "../call/warning.ts";
import { failureShape } from "../failure/failure.ts";
import { assistant, assistantMessageShape, messageShape, toolAnswerFields } from "../message/message.ts";
import { textPhases } from "../message/part.ts";
import { providerReplayShape, providerRouteShape } from "../message/provider-replay.ts";
import { threadShape } from "../message/thread.ts";
import { emptyObject, keysOf } from "../parse/json.ts";
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
import { chatResultShape } from "./run-results.ts";

const attemptFields = {
  /** The fencing epoch of the lease under which the attempt ran; 0 for a run in memory. */
  epoch: required(count),
  /** The number of the attempt within the epoch. */
  n: required(count),
};

/** One attempt at an effect. Attempts are ordered by `epoch`, then by `n`. */
export type Attempt = Infer<typeof attemptFields>;

const attemptShape: Shape<Attempt> = object(attemptFields);

/** The effect and the attempt that a live event belongs to. A higher attempt voids the events of all lower ones. */
const ofAttempt = {
  effectId: fallback(nullable(string), null),
  attempt: fallback(nullable(attemptShape), null),
};

/**
 * The kind of checkpoint at which input can be added to a turn: before its first effect (only with a `beforeTurn`
 * hook), after tools ran, or before the turn ends.
 */
export type CheckpointKind = WordOf<typeof checkpointKinds>;
export const checkpointKinds = ["before_turn", "after_work", "before_completion"] as const;

const acceptedInputFields = { id: fallback(nullable(string), null), message: required(messageShape) };

/** One accepted input. `id` names a queued input; `null` for a message that the turn started with. */
export type AcceptedInput = Infer<typeof acceptedInputFields>;

const acceptedInputShape: Shape<AcceptedInput> = object(acceptedInputFields);

export const stepResetReasons = ["retry", "fallback", "recovery", "restart"] as const;

/** How a compaction ended. */
export const compactionStatuses = ["summarized", "left_out", "failed"] as const;

/** Who runs the tools: the loop (`auto`) or the caller (`manual`). */
export type ToolMode = WordOf<typeof toolModes>;
export const toolModes = ["auto", "manual"] as const;

const replay = fallback(nullable(providerReplayShape), null);

/** The events of a model call. A table of its own: a program without a runtime or a client reads no other events. */
const modelEvents = {
  /** A model call returns its first data. `message` has no content yet. */
  message_started: {
    message: required(assistantMessageShape),
    /**
     * Where `null` in the text of a structured answer stands for an absent field: a reduced JSON Schema of the answer,
     * whose optional fields were sent to the provider as nullable ones. `root`: the answer is the value of this field
     * of the text, because the provider takes only objects. `partialOutput` reads it. Absent: nowhere.
     */
    addedNulls: optional(jsonObject),
  },
  /** More text. `id` distinguishes the text blocks of one reply; it is `null` if the provider does not number them. */
  text_delta: { id: fallback(nullable(string), null), delta: required(string) },
  /** The full text of a block. It replaces the sum of the deltas of that block. */
  text_completed: {
    id: fallback(nullable(string), null),
    text: required(string),
    phase: fallback(nullable(oneOf<TextPhase>(textPhases)), null),
    provider: replay,
  },
  /** More reasoning text. `id` distinguishes the reasoning blocks of one reply. */
  reasoning_delta: { id: fallback(nullable(string), null), delta: required(string) },
  /**
   * The full text of a reasoning block. It replaces the sum of its deltas. `redacted`: the provider withholds the text.
   */
  reasoning_completed: {
    id: fallback(nullable(string), null),
    text: required(string),
    redacted: fallback(boolean, false),
    provider: replay,
  },
  /** The model begins a tool call; its arguments follow. */
  tool_call_started: {
    id: required(string),
    name: required(string),
    /** The provider runs the tool itself, for example a web search. Such a call needs no answer. */
    providerExecuted: fallback(boolean, false),
  },
  /** More text of the JSON arguments of a call. */
  tool_call_delta: { id: required(string), argumentsDelta: required(string) },
  /** The call is complete. It is executed only after the reply has ended without an error. */
  tool_call_completed: {
    id: required(string),
    name: required(string),
    arguments: required(nullable(jsonObject)),
    rawArguments: fallback(nullable(string), null),
    providerExecuted: fallback(boolean, false),
    provider: replay,
    metadata: fallback(settings, emptyObject),
  },
  /** The usage of the model call so far. Cumulative: a later report replaces an earlier one. */
  usage: { usage: required(usageShape) },
  /**
   * Something in the request was not sent to the provider, or was sent in another form. One event for each warning of
   * the reply, at the start of every attempt at the model call. The event log has the warnings of the attempt that was
   * recorded, after its `message_completed`.
   */
  warning: { warning: required(warningShape) },
  /** The reply is complete. `finishReason` is the library's word, `rawFinishReason` the provider's. */
  message_completed: {
    message: required(assistantMessageShape),
    finishReason: fallback(nullable(oneOf<FinishReason>(finishReasons)), null),
    rawFinishReason: fallback(nullable(string), null),
    /** The id of the HTTP request, as the provider reports it. */
    requestId: fallback(nullable(string), null),
    /** The provider's id of the reply. */
    responseId: fallback(nullable(string), null),
    /** The model that answered, as the provider names it. */
    model: fallback(nullable(string), null),
    /** Provider, endpoint and requested model of the call: the route that replay data belongs to. */
    route: fallback(nullable(providerRouteShape), null),
    output: fallback(nullable(structuredOutputShape), null),
    metadata: fallback(settings, emptyObject),
  },
  /** A frame of the provider's stream as it was received. Emitted only if the caller asks for raw chunks. */
  raw_chunk: { chunk: required(json) },
  /** A failure during the run. Later events show whether the run continues. */
  error: { error: required(failureShape) },
};

/** The events of one model call: all that an adapter may emit. */
export type ModelEvent = InferUnion<"type", typeof modelEvents>;

/** The events of tools and of the run itself. */
const runEvents = {
  /** The handler of a tool begins. Emitted at that moment, not together with the result. */
  tool_execution_started: {
    id: required(string),
    name: required(string),
    arguments: required(jsonObject),
    ...ofAttempt,
  },
  /** Progress that a running tool reports. Live only: it is not stored. */
  tool_progress: { id: required(string), name: required(string), progress: required(json), ...ofAttempt },
  /**
   * The call of a tool has ended. `result` is the outcome for the program. Every call whose handler started has one
   * such event in its turn, unless the call waits for an answer. A call that a cancel or a failed turn ended has a
   * `result` of type `cancelled`.
   */
  tool_execution_completed: {
    id: required(string),
    name: required(string),
    result: required(toolOutcomeShape),
    /**
     * Measured by the process that ran the tool, in milliseconds; `null`: not measured. A replay does not compare it.
     */
    durationMs: fallback(nullable(number), null),
  },
  /** The answer to a call as the model sees it: the fields of its tool message. */
  tool_result_encoded: { id: required(string), ...toolAnswerFields },
  /** A tool asks the user a question. `opts` are the tool's hints for the user interface. */
  ask_user_requested: {
    toolCallId: required(string),
    toolName: required(string),
    question: required(string),
    opts: fallback(waitOpts, emptyObject),
  },
  /** A call waits for an approval before it runs. */
  approval_requested: {
    toolCallId: required(string),
    /**
     * The name of the tool that the model called. Show `shown` instead: the call of a child agent may be the one that
     * waits.
     */
    toolName: required(string),
    /** The arguments as the model sent them. */
    arguments: required(jsonObject),
    opts: fallback(waitOpts, emptyObject),
    /** What runs if the call is approved; `null`: the event was stored by an older release. */
    shown: fallback(nullable(shownCallShape), null),
    /** The digest of the pending call, for the decision; `null`: the event was stored by an older release. */
    digest: fallback(nullable(string), null),
  },
  /** A tool ends the run with a reason of its own. */
  tool_halt: {
    toolCallId: required(string),
    reason: required(string),
    result: fallback(toolValueShape, null),
    ...toolAnswerFields,
  },
  /** A durable turn begins. */
  turn_started: { turnId: required(string), sessionId: fallback(nullable(string), null) },
  /** A durable turn has accepted input: at a checkpoint, or at its start (`checkpoint` is `null`). */
  input_accepted: {
    turnId: fallback(nullable(string), null),
    checkpoint: fallback(nullable(oneOf<CheckpointKind>(checkpointKinds)), null),
    inputs: required(array(acceptedInputShape)),
  },
  /** A model call or a tool failed and is retried after `delayMs` milliseconds. */
  retry_scheduled: {
    ...ofAttempt,
    maxAttempts: fallback(nullable(count), null),
    delayMs: required(count),
    error: required(failureShape),
  },
  /** A new attempt at the step begins. Readers discard the deltas of the step that they have received so far. */
  step_reset: {
    ...ofAttempt,
    reason: required(oneOf(stepResetReasons)),
    /** Ids of effects whose recorded results are superseded. Empty except for the reason `restart`. */
    withdrawn: fallback(array(string), []),
  },
  /**
   * Old messages are being replaced by a summary in requests, under the context policy of the engine: the messages from
   * `from` to before `to`. The model call of the step follows. The conversation itself keeps these messages.
   */
  compaction_started: { frameId: required(string), from: required(count), to: required(count) },
  /**
   * The compaction ended. `summarized`: requests contain the summary, which is the `summary` of the frame. `left_out`:
   * no summary could be made, and requests leave the messages out. `failed`: there is no frame; long results are
   * shortened.
   */
  compaction_ended: {
    frameId: required(string),
    from: required(count),
    to: required(count),
    status: required(oneOf(compactionStatuses)),
  },
  /** A step ended: one model reply and its tool calls. Emitted once per step. */
  step_completed: {
    /** The reply of the model. */
    response: required(replyShape),
    /** The conversation after the step. */
    thread: required(threadShape),
    /** `manual` if all tool calls are left to the caller. */
    mode: fallback(oneOf<ToolMode>(toolModes), "auto"),
    /** The calls that the caller has to run. */
    manualToolCalls: fallback(array(toolCallShape), []),
    /** The calls that wait, each with its reason. */
    pendingToolCalls: fallback(array(pendingToolCallShape), []),
    /** The code cell that waits for some of the pending calls. */
    suspendedCell: fallback(nullable(suspendedCellShape), null),
    /** Tokens and cost of the step. */
    usage: fallback(usageShape, noUsage),
  },
  /** The run ended. The last event of `stream`, emitted exactly once. */
  chat_completed: {
    /** The result that the awaited verb returns. */
    result: required(chatResultShape),
  },
};

/** An event of a run. `type` tells the kinds apart. */
export type TurnEvent = ModelEvent | InferUnion<"type", typeof runEvents>;

/** The event of a type. */
export type EventOf<Type extends TurnEvent["type"]> = Extract<TurnEvent, { readonly type: Type }>;

/**
 * The events that inform a reader and change no result. Every other event is folded by the collector
 * (core/kernel/collector.ts), whose switch has to have a case for it.
 */
export const noticeTypes = [
  "message_started",
  "raw_chunk",
  "tool_execution_started",
  "tool_progress",
  "tool_execution_completed",
  "approval_requested",
  "turn_started",
  "input_accepted",
  "retry_scheduled",
  "compaction_started",
  "compaction_ended",
] as const satisfies readonly TurnEvent["type"][];

/** An event that changes no result. */
export type NoticeEvent = EventOf<WordOf<typeof noticeTypes>>;

/** The reply is complete. */
export type MessageCompleted = EventOf<"message_completed">;
/** A step ended: one model reply and its tool calls. Emitted once per step. */
export type StepCompleted = EventOf<"step_completed">;
/** The run ended. The last event of `stream`, emitted exactly once. */
export type ChatCompleted = EventOf<"chat_completed">;

export const modelEventShape: Shape<ModelEvent> = variant("type", modelEvents);

/** The types of the events of a model call. */
export const modelEventTypes: ReadonlySet<TurnEvent["type"]> = new Set(keysOf(modelEvents));

const events = { ...modelEvents, ...runEvents };

export const eventShape: Shape<TurnEvent> = variant("type", events);

/** The types of all events. */
export const eventTypes: readonly TurnEvent["type"][] = keysOf(events);

/**
 * Returns whether a value can be read as an event. This is not a type guard: defaults may be missing.
 * `parse("event", value)` fills them in.
 */
export function isEvent(value: unknown): boolean {
  return "value" in read(eventShape, value);
}

/** The event of a completed reply. A reply without a message is rendered from its text and tool calls. */
export function messageCompleted(reply: ModelReply): MessageCompleted {
  const { finishReason, rawFinishReason, requestId, id: responseId, model, route, output, metadata } = reply;
  const message = reply.message ?? assistant(replyText(reply) ?? "", { toolCalls: reply.toolCalls });
  const ofProvider = { rawFinishReason, requestId, responseId, model, route };
  return { type: "message_completed", message, finishReason, ...ofProvider, output, metadata };
}

/** Returns whether an event ends the reply of a model (E1). */
export function isTerminal({ type }: ModelEvent): boolean {
  return type === "message_completed" || type === "error";
}

/** Returns whether a value can be read as an event of a model call. */
export function isModelEvent(value: unknown): boolean {
  return "value" in read(modelEventShape, value);
}
