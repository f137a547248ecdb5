// What a turn orders and what comes back. An effect is imperative and small: it names what it is about and does not hold it. A
// response is in the past tense: it happened, and it can be recorded and replayed.

import type {
  CheckpointKind,
  Decision,
  Environment,
  Failure,
  Issue,
  Json,
  JsonObject,
  Message,
  ModelName,
  ModelReply,
  PendingReason,
  SuspendedCell,
  ToolCall,
  ToolMessage,
  ToolOutcome,
  Usage,
} from "../../model/internal.ts";
import type { TurnCause } from "../history/turn-cause.ts";
import type { LlmTerminalReason } from "../protocol/terminal-reason.ts";

/** Something the host must do and answer with an {@link EffectResponse} of the same id. */
export type Effect = SyncEnvironment | CallModel | CallTool | RunCode | AskCheckpoint;

/**
 * An effect: refresh the environment. The first one of a turn informs the host only; a later one may replace the
 * environment.
 */
export type SyncEnvironment = {
  readonly type: "sync_environment";
  readonly id: string;
  readonly updateMachineConfig: boolean;
};

/** An effect: call the model. `projectRequest` computes the request from the turn. */
export type CallModel = {
  readonly type: "call_model";
  readonly id: string;
  readonly step: number;
  /** The environment by its digest, the history by its length and digest. */
  readonly environment: string;
  readonly history: { readonly length: number; readonly digest: string };
  readonly useTools: boolean;
  /** Settings of this one request, over those of the environment. */
  readonly overrides: JsonObject;
};

/** An effect: run one tool call. Several can be pending at once; each has a response of its own. */
export type CallTool = {
  readonly type: "call_tool";
  readonly id: string;
  readonly call: ToolCall;
  /** The same on every try of this call, in this turn and in one that resumes it. */
  readonly idempotencyKey: string;
  /** Somebody has consented already: the gate is not asked again. */
  readonly decision: Approval | null;
};

/** Consent to a call, with other arguments if somebody wanted that; or something that was said to a call inside it. */
export type Approval = Extract<Decision, { readonly type: "approve" | "forward" }>;

/**
 * An effect: run a cell of code. The answers to the calls it has made so far are in the turn. The executor may
 * resume a paused cell, or run it again from the start with the same answers.
 */
export type RunCode = {
  readonly type: "run_code";
  readonly id: string;
  readonly language: string;
  readonly cellId: string;
  readonly code: string;
  readonly answers: number;
  /** Who began the cell; `null` if nobody has. */
  readonly executor: SuspendedCell["executor"] | null;
};

/** An effect: a checkpoint, at which the host may stop the turn or add input. */
export type AskCheckpoint = {
  readonly type: "checkpoint";
  readonly id: string;
  readonly checkpoint: CheckpointKind;
  /** No model call will follow whatever is delivered: input had better wait for the next turn. */
  readonly last: boolean;
};

/**
 * The response to an effect. `id` names the effect; a response that the turn does not wait for changes nothing
 * (K4).
 */
export type EffectResponse = ResponsesByEffect[Effect["type"]];

/** A response: the environment was refreshed. */
export type EnvironmentSynced = {
  readonly type: "environment_synced";
  readonly id: string;
  /** `null`: no change. */
  readonly environment: Environment | null;
};
/** A response: the environment could not be refreshed. It ends the turn. */
export type EnvironmentFailed = { readonly type: "environment_failed"; readonly id: string; readonly message: string };

/** A response: the model replied. */
export type ModelReplied = {
  readonly type: "model_replied";
  readonly id: string;
  readonly reply: ModelReply;
  /** The model that answered, when it is another than the one that was asked; it stays for the rest of the turn. */
  readonly model: ModelName | null;
  /** What was sent, when the log is to show it. */
  readonly requestBody: string | null;
  /** What attempts before this reply have cost. */
  readonly spent: Usage;
  readonly durationMs: number;
};
/** A response: the model call failed, or its reply broke off. */
export type ModelFailed = {
  readonly type: "model_failed";
  readonly id: string;
  readonly error: LlmCallError;
  /** What attempts before the last one have cost. */
  readonly spent: Usage;
  readonly durationMs: number;
};

/** Why a model call failed. The terminal reason `cancelled` is not an error: the call was stopped on purpose. */
export type LlmCallError = {
  readonly failure: Failure;
  /** `cancelled`: the call was given up on purpose, which is no error. */
  readonly terminalReason: LlmTerminalReason;
  /** What was sent, when the log is to show it. */
  readonly requestBody: string | null;
  /** What had arrived: billed, shown, never acted on. */
  readonly partial: ModelReply | null;
};

/** A response: the tool call ended. */
export type ToolReturned = {
  readonly type: "tool_returned";
  readonly id: string;
  /** What the tool came to, for the program. */
  readonly outcome: ToolOutcome;
  /** What the model sees of it, as an encoder made it. */
  readonly content: ToolMessage["content"];
  readonly ranArguments: JsonObject | null;
  /** The caller's policy is to stop at this failure. */
  readonly stops: boolean;
  /** What turns that the tool ran have cost. */
  readonly spent: Usage;
  readonly durationMs: number;
};

/** The call has no result yet: somebody has to say something first. */
export type ToolWaits = {
  readonly type: "tool_waits";
  readonly id: string;
  readonly reason: PendingReason;
  /** What is asked, when the reason is `question`. */
  readonly question: string | null;
  readonly opts: JsonObject;
  /** For a tool that runs a turn of its own: the ids down to the call in there that really waits. */
  readonly path: readonly string[];
  /** What such a turn has cost so far. */
  readonly spent: Usage;
};

/** A response: the cell ran to its end. */
export type CodeFinished = {
  readonly type: "code_finished";
  readonly id: string;
  /** What the cell printed, for the model. */
  readonly observations: readonly string[];
  /** What the cell threw, for the model. */
  readonly error: string | null;
  /** What the cell ended the turn with, if it did. */
  readonly finish: CellFinish | null;
  readonly durationMs: number;
};

/** A value, with what is wrong with it where one was asked for in a schema; or an error the cell gave up with. */
export type CellFinish =
  | { readonly type: "value"; readonly value: Json; readonly issues: readonly Issue[] }
  | { readonly type: "error"; readonly value: Json };

/** The cell wants these calls made before it can go on. */
export type CodeCalls = {
  readonly type: "code_calls";
  readonly id: string;
  readonly calls: readonly ToolCall[];
  readonly executor: SuspendedCell["executor"];
  readonly durationMs: number;
};

/**
 * A response: the cell could not be run to its end. `diverged` means that it made other calls than in its first
 * run.
 */
export type CodeFailed = {
  readonly type: "code_failed";
  readonly id: string;
  readonly reason: "failed" | "limit_exceeded" | "diverged";
  readonly message: string;
  readonly durationMs: number;
};

/** A response: what the host adds at a checkpoint, and whether the turn continues. */
export type CheckpointDelivered = {
  readonly type: "checkpoint_delivered";
  readonly id: string;
  readonly delivery: CheckpointDelivery;
  readonly verdict: Verdict;
};

/** Input that a host adds to a turn at a checkpoint. */
export type CheckpointDelivery = {
  readonly messages: readonly Message[];
  /** Shown to the model in this turn, not kept as history. */
  readonly transientMessages: readonly Message[];
  readonly turnCauses: readonly TurnCause[];
  /** The ids of the inputs these came from, where the host knows them by any: taken for good when the answer is recorded. */
  readonly inputs: readonly string[];
};

/** What a host decides about a turn at a checkpoint. */
export type Verdict =
  | { readonly type: "go_on" }
  | { readonly type: "halt_when" }
  | { readonly type: "budget"; readonly budget: "steps" | "tokens" | "cost" | "time" | "no_progress" };

/** Which responses each effect may receive. The only place the two are paired. */
export type ResponsesByEffect = {
  readonly sync_environment: EnvironmentSynced | EnvironmentFailed;
  readonly call_model: ModelReplied | ModelFailed;
  readonly call_tool: ToolReturned | ToolWaits;
  readonly run_code: CodeFinished | CodeCalls | CodeFailed;
  readonly checkpoint: CheckpointDelivered;
};
