// Everything a run says while it runs: one closed union. Events are for watching; what may be stored as history is in the
// results they end with. An event carries what changed; only `step_completed` and `chat_completed` hold what a step or a run came
// to, by reference, and no log stores those two whole.

import type { FinishReason } from "../call/finish-reason.ts";
import type { ModelReply, StructuredOutput } from "../call/reply.ts";
import type { Usage } from "../call/usage.ts";
import type { Failure } from "../failure/failure.ts";
import type { AssistantMessage, Message, ToolMessage } from "../message/message.ts";
import type { TextPhase } from "../message/part.ts";
import type { ProviderReplay, ProviderRoute } from "../message/provider-replay.ts";
import type { Thread } from "../message/thread.ts";
import type { Json, JsonObject } from "../parse/json.ts";
import type { PendingToolCall } from "../tool/pending.ts";
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
  | MessageCompleted
  | RawChunk
  | ErrorReported;

/** What happens to the calls of a reply. */
type ToolEvent =
  | ToolExecutionStarted
  | ToolProgress
  | ToolExecutionCompleted
  | ToolResultEncoded
  | AskUserRequested
  | ApprovalRequested
  | ToolHalt;

/** What happens to the run as a whole. */
type RunEvent = TurnStarted | InputAccepted | RetryScheduled | StepReset | StepCompleted | ChatCompleted;

/** The model begins to answer. */
export type MessageStarted = { readonly type: "message_started"; readonly message: AssistantMessage };

/** More text. `id` tells text blocks of one reply apart; `null` when there is only one. */
export type TextDelta = { readonly type: "text_delta"; readonly id: string | null; readonly delta: string };

/** The whole text of a block, replacing what its deltas added up to. */
export type TextCompleted = {
  readonly type: "text_completed";
  readonly id: string | null;
  readonly text: string;
  readonly phase: TextPhase | null;
  readonly provider: ProviderReplay | null;
};

export type ReasoningDelta = { readonly type: "reasoning_delta"; readonly id: string | null; readonly delta: string };

export type ReasoningCompleted = {
  readonly type: "reasoning_completed";
  readonly id: string | null;
  readonly text: string;
  readonly redacted: boolean;
  readonly provider: ProviderReplay | null;
};

export type ToolCallStarted = {
  readonly type: "tool_call_started";
  readonly id: string;
  readonly name: string;
  /** The provider runs it by itself: nobody has to answer. */
  readonly providerExecuted: boolean;
};

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
  readonly providerExecuted: boolean;
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
  /** The id of the call. */
  readonly requestId: string | null;
  /** The provider's id of the reply and its name for the model that gave it. */
  readonly responseId: string | null;
  readonly model: string | null;
  /** The way the call took, with the model as it was asked for. */
  readonly route: ProviderRoute | null;
  readonly output: StructuredOutput | null;
  readonly metadata: JsonObject;
};

/** A piece of the provider's own stream, for those who asked to see it. */
export type RawChunk = { readonly type: "raw_chunk"; readonly chunk: Json };

/** Something failed. What comes after says what became of the run. */
export type ErrorReported = { readonly type: "error"; readonly error: Failure };

/** A handler begins. Said when it does, not afterwards. */
export type ToolExecutionStarted = {
  readonly type: "tool_execution_started";
  readonly id: string;
  readonly name: string;
  readonly arguments: JsonObject;
} & OfAttempt;

export type ToolProgress = {
  readonly type: "tool_progress";
  readonly id: string;
  readonly name: string;
  readonly progress: Json;
} & OfAttempt;

/** What the handler came to, for the program. */
export type ToolExecutionCompleted = {
  readonly type: "tool_execution_completed";
  readonly id: string;
  readonly name: string;
  readonly result: ToolOutcome;
  /** As measured by whoever ran it; never part of what a replay compares. */
  readonly durationMs: number | null;
};

/** What the model will see of it: all that its tool message is made of. */
export type ToolResultEncoded = {
  readonly type: "tool_result_encoded";
  readonly id: string;
} & ToolAnswer;

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
} & ToolAnswer;

type ToolAnswer = Pick<ToolMessage, "content" | "status" | "code" | "ranArguments">;

/** Which try at which effect a live event belongs to; a higher attempt makes the ones before it void. */
type OfAttempt = { readonly effectId: string | null; readonly attempt: Attempt | null };

/** Attempts are ordered by who ran them, then by number. */
export type Attempt = {
  /** The fencing epoch of the worker; 0 for a run in memory. */
  readonly epoch: number;
  readonly n: number;
};

/** A durable turn begins. */
export type TurnStarted = {
  readonly type: "turn_started";
  readonly turnId: string;
  readonly sessionId: string | null;
};

/** Input of a durable turn has been taken in: at a checkpoint, or, with none, at its start. */
export type InputAccepted = {
  readonly type: "input_accepted";
  readonly turnId: string | null;
  readonly checkpoint: CheckpointKind | null;
  readonly inputs: readonly AcceptedInput[];
};

/** The kind of checkpoint at which input can be added to a turn: after tools ran, or before the turn ends. */
export type CheckpointKind = (typeof checkpointKinds)[number];
export const checkpointKinds = ["after_work", "before_completion"] as const;

export type AcceptedInput = { readonly id: string | null; readonly message: Message };

/** A model call, or a tool, failed and will be tried again. */
export type RetryScheduled = {
  readonly type: "retry_scheduled";
  readonly maxAttempts: number | null;
  readonly delayMs: number;
  readonly error: Failure;
} & OfAttempt;

/** What this step has shown so far is void: a new attempt begins. Everyone who kept its text drops it. */
export type StepReset = {
  readonly type: "step_reset";
  readonly reason: StepResetReason;
  /** Ids of messages that were stored and no longer count. */
  readonly withdrawn: readonly string[];
} & OfAttempt;

type StepResetReason = (typeof stepResetReasons)[number];
export const stepResetReasons = ["retry", "fallback", "recovery", "restart"] as const;

/** A step ended: one model reply and its tool calls. Emitted once per step. */
export type StepCompleted = {
  readonly type: "step_completed";
  readonly response: ModelReply;
  readonly thread: Thread;
  readonly mode: ToolMode;
  readonly manualToolCalls: readonly ToolCall[];
  readonly pendingToolCalls: readonly PendingToolCall[];
  /** The cell of code that waits for some of them. */
  readonly suspendedCell: SuspendedCell | null;
  readonly usage: Usage;
};

/** Who runs the tools: the loop (`auto`) or the caller (`manual`). */
export type ToolMode = (typeof toolModes)[number];
export const toolModes = ["auto", "manual"] as const;

/** A run ended. The last event of a stream of `stream`, and emitted once. */
export type ChatCompleted = { readonly type: "chat_completed"; readonly result: ChatResult };
