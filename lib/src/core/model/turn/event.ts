// The events of a run: one closed union, read by `event-shape.ts`.
//
// Events are for display and progress. The history of a conversation is the thread in the results, not the events.
//
// Invariants
//   1. An event carries what changed. Only `step_completed` and `chat_completed` carry results, by reference; the durable event log
//      stores neither of the two in full, so its size is linear in the number of steps.
//   2. An adapter emits `ModelEvent`s only. The other events come from the performers and the narrator of the run.
//   3. Deltas are advisory: the `*_completed` event of a block replaces the sum of its deltas.

import type { FinishReason } from "../call/finish-reason.ts";
import type { ModelReply, StructuredOutput } from "../call/reply.ts";
import type { Usage } from "../call/usage.ts";
import type { Warning } from "../call/warning.ts";
import type { Failure } from "../failure/failure.ts";
import type { AssistantMessage, Message, ToolMessage } from "../message/message.ts";
import type { TextPhase } from "../message/part.ts";
import type { ProviderReplay, ProviderRoute } from "../message/provider-replay.ts";
import type { Thread } from "../message/thread.ts";
import type { Json, JsonObject } from "../parse/json.ts";
import type { PendingToolCall, ShownCall } from "../tool/pending.ts";
import type { ToolOutcome } from "../tool/tool-outcome.ts";
import type { ToolValue } from "../tool/tool-value.ts";
import type { ToolCall } from "../tool/tool.ts";
import type { SuspendedCell } from "./environment.ts";
import type { ChatResult } from "./run-results.ts";

/** An event of a run. `type` tells the kinds apart. */
export type TurnEvent = ModelEvent | ToolEvent | RunEvent;

/** The events of one model call: all that an adapter may emit. */
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
  | WarningReported
  | MessageCompleted
  | RawChunk
  | ErrorReported;

/** The events of tool execution. */
type ToolEvent =
  | ToolExecutionStarted
  | ToolProgress
  | ToolExecutionCompleted
  | ToolResultEncoded
  | AskUserRequested
  | ApprovalRequested
  | ToolHalt;

/** The events of the run itself: its turn, steps, retries and end. */
type RunEvent = TurnStarted | InputAccepted | RetryScheduled | StepReset | StepCompleted | ChatCompleted;

/** A model call returns its first data. `message` has no content yet. */
export type MessageStarted = {
  readonly type: "message_started";
  readonly message: AssistantMessage;
  /**
   * Where `null` in the text of a structured answer stands for an absent field: a reduced JSON Schema of the answer, whose optional fields were sent to the provider as nullable
   * ones. `root`: the answer is the value of this field of the text, because the provider takes only objects. `partialOutput` reads it. Absent: nowhere.
   */
  readonly addedNulls?: JsonObject;
};

/** More text. `id` distinguishes the text blocks of one reply; it is `null` if the provider does not number them. */
export type TextDelta = { readonly type: "text_delta"; readonly id: string | null; readonly delta: string };

/** The full text of a block. It replaces the sum of the deltas of that block. */
export type TextCompleted = {
  readonly type: "text_completed";
  readonly id: string | null;
  readonly text: string;
  readonly phase: TextPhase | null;
  readonly provider: ProviderReplay | null;
};

/** More reasoning text. `id` distinguishes the reasoning blocks of one reply. */
export type ReasoningDelta = { readonly type: "reasoning_delta"; readonly id: string | null; readonly delta: string };

/** The full text of a reasoning block. It replaces the sum of its deltas. `redacted`: the provider withholds the text. */
export type ReasoningCompleted = {
  readonly type: "reasoning_completed";
  readonly id: string | null;
  readonly text: string;
  readonly redacted: boolean;
  readonly provider: ProviderReplay | null;
};

/** The model begins a tool call; its arguments follow. */
export type ToolCallStarted = {
  readonly type: "tool_call_started";
  readonly id: string;
  readonly name: string;
  /** The provider runs the tool itself, for example a web search. Such a call needs no answer. */
  readonly providerExecuted: boolean;
};

/** More text of the JSON arguments of a call. */
export type ToolCallDelta = {
  readonly type: "tool_call_delta";
  readonly id: string;
  readonly argumentsDelta: string;
};

/** The call is complete. It is executed only after the reply has ended without an error. */
export type ToolCallCompleted = {
  readonly type: "tool_call_completed";
  readonly id: string;
  readonly name: string;
  readonly arguments: JsonObject | null;
  readonly rawArguments: string | null;
  readonly providerExecuted: boolean;
  readonly provider: ProviderReplay | null;
  readonly metadata: JsonObject;
};

/** The usage of the model call so far. Cumulative: a later report replaces an earlier one. */
export type UsageReported = { readonly type: "usage"; readonly usage: Usage };

/**
 * Something in the request was not sent to the provider, or was sent in another form. One event for each warning of the reply, at the start of every attempt at
 * the model call. The event log has the warnings of the attempt that was recorded, after its `message_completed`.
 */
export type WarningReported = { readonly type: "warning"; readonly warning: Warning };

/** The reply is complete. `finishReason` is the library's word, `rawFinishReason` the provider's. */
export type MessageCompleted = {
  readonly type: "message_completed";
  readonly message: AssistantMessage;
  readonly finishReason: FinishReason | null;
  readonly rawFinishReason: string | null;
  /** The id of the HTTP request, as the provider reports it. */
  readonly requestId: string | null;
  /** The provider's id of the reply. */
  readonly responseId: string | null;
  /** The model that answered, as the provider names it. */
  readonly model: string | null;
  /** Provider, endpoint and requested model of the call: the route that replay data belongs to. */
  readonly route: ProviderRoute | null;
  readonly output: StructuredOutput | null;
  readonly metadata: JsonObject;
};

/** A frame of the provider's stream as it was received. Emitted only if the caller asks for raw chunks. */
export type RawChunk = { readonly type: "raw_chunk"; readonly chunk: Json };

/** A failure during the run. Later events show whether the run continues. */
export type ErrorReported = { readonly type: "error"; readonly error: Failure };

/** The handler of a tool begins. Emitted at that moment, not together with the result. */
export type ToolExecutionStarted = {
  readonly type: "tool_execution_started";
  readonly id: string;
  readonly name: string;
  readonly arguments: JsonObject;
} & OfAttempt;

/** Progress that a running tool reports. Live only: it is not stored. */
export type ToolProgress = {
  readonly type: "tool_progress";
  readonly id: string;
  readonly name: string;
  readonly progress: Json;
} & OfAttempt;

/**
 * The call of a tool has ended. `result` is the outcome for the program. Every call whose handler started has one such event in its turn, unless the
 * call waits for an answer. A call that a cancel or a failed turn ended has a `result` of type `cancelled`.
 */
export type ToolExecutionCompleted = {
  readonly type: "tool_execution_completed";
  readonly id: string;
  readonly name: string;
  readonly result: ToolOutcome;
  /** Measured by the process that ran the tool, in milliseconds; `null`: not measured. A replay does not compare it. */
  readonly durationMs: number | null;
};

/** The answer to a call as the model sees it: the fields of its tool message. */
export type ToolResultEncoded = {
  readonly type: "tool_result_encoded";
  readonly id: string;
} & ToolAnswer;

/** A tool asks the user a question. `opts` are the tool's hints for the user interface. */
export type AskUserRequested = {
  readonly type: "ask_user_requested";
  readonly toolCallId: string;
  readonly toolName: string;
  readonly question: string;
  readonly opts: JsonObject;
};

/** A call waits for an approval before it runs. */
export type ApprovalRequested = {
  readonly type: "approval_requested";
  readonly toolCallId: string;
  /** The name of the tool that the model called. Show `shown` instead: the call of a child agent may be the one that waits. */
  readonly toolName: string;
  /** The arguments as the model sent them. */
  readonly arguments: JsonObject;
  readonly opts: JsonObject;
  /** What runs if the call is approved; `null`: the event was stored by an older release. */
  readonly shown: ShownCall | null;
  /** The digest of the pending call, for the decision; `null`: the event was stored by an older release. */
  readonly digest: string | null;
};

/** A tool ends the run with a reason of its own. */
export type ToolHalt = {
  readonly type: "tool_halt";
  readonly toolCallId: string;
  readonly reason: string;
  readonly result: ToolValue;
} & ToolAnswer;

type ToolAnswer = Pick<ToolMessage, "content" | "status" | "code" | "ranArguments">;

/** The effect and the attempt that a live event belongs to. A higher attempt voids the events of all lower ones. */
type OfAttempt = { readonly effectId: string | null; readonly attempt: Attempt | null };

/** One attempt at an effect. Attempts are ordered by `epoch`, then by `n`. */
export type Attempt = {
  /** The fencing epoch of the lease under which the attempt ran; 0 for a run in memory. */
  readonly epoch: number;
  /** The number of the attempt within the epoch. */
  readonly n: number;
};

/** A durable turn begins. */
export type TurnStarted = {
  readonly type: "turn_started";
  readonly turnId: string;
  readonly sessionId: string | null;
};

/** A durable turn has accepted input: at a checkpoint, or at its start (`checkpoint` is `null`). */
export type InputAccepted = {
  readonly type: "input_accepted";
  readonly turnId: string | null;
  readonly checkpoint: CheckpointKind | null;
  readonly inputs: readonly AcceptedInput[];
};

/** The kind of checkpoint at which input can be added to a turn: before its first effect (only with a `beforeTurn` hook), after tools ran, or before the turn ends. */
export type CheckpointKind = (typeof checkpointKinds)[number];
export const checkpointKinds = ["before_turn", "after_work", "before_completion"] as const;

/** One accepted input. `id` names a queued input; `null` for a message that the turn started with. */
export type AcceptedInput = { readonly id: string | null; readonly message: Message };

/** A model call or a tool failed and is retried after `delayMs` milliseconds. */
export type RetryScheduled = {
  readonly type: "retry_scheduled";
  readonly maxAttempts: number | null;
  readonly delayMs: number;
  readonly error: Failure;
} & OfAttempt;

/** A new attempt at the step begins. Readers discard the deltas of the step that they have received so far. */
export type StepReset = {
  readonly type: "step_reset";
  readonly reason: StepResetReason;
  /** Ids of effects whose recorded results are superseded. Empty except for the reason `restart`. */
  readonly withdrawn: readonly string[];
} & OfAttempt;

type StepResetReason = (typeof stepResetReasons)[number];
export const stepResetReasons = ["retry", "fallback", "recovery", "restart"] as const;

/** A step ended: one model reply and its tool calls. Emitted once per step. */
export type StepCompleted = {
  readonly type: "step_completed";
  /** The reply of the model. */
  readonly response: ModelReply;
  /** The conversation after the step. */
  readonly thread: Thread;
  /** `manual` if all tool calls are left to the caller. */
  readonly mode: ToolMode;
  /** The calls that the caller has to run. */
  readonly manualToolCalls: readonly ToolCall[];
  /** The calls that wait, each with its reason. */
  readonly pendingToolCalls: readonly PendingToolCall[];
  /** The code cell that waits for some of the pending calls. */
  readonly suspendedCell: SuspendedCell | null;
  /** Tokens and cost of the step. */
  readonly usage: Usage;
};

/** Who runs the tools: the loop (`auto`) or the caller (`manual`). */
export type ToolMode = (typeof toolModes)[number];
export const toolModes = ["auto", "manual"] as const;

/** The run ended. The last event of `stream`, emitted exactly once. */
export type ChatCompleted = {
  readonly type: "chat_completed";
  /** The result that the awaited verb returns. */
  readonly result: ChatResult;
};
