// What a turn orders and what comes back. An effect is imperative and small: it names what it is about and does not hold it. A
// response is in the past tense: it happened, and it can be recorded and replayed.

import type {
  CheckpointKind,
  Decision,
  Environment,
  Failure,
  JsonObject,
  Message,
  ModelReply,
  PendingReason,
  ToolCall,
  ToolMessage,
  ToolOutcome,
} from "../model/index.ts";
import type { TurnCause } from "./turn-cause.ts";

export type Effect = SyncEnvironment | CallModel | CallTool | RunCode | AskCheckpoint;

/** Refresh what the turn works with. The first sync of a turn is for the host alone; a later one may replace the environment. */
export type SyncEnvironment = {
  readonly type: "sync_environment";
  readonly id: string;
  readonly updateMachineConfig: boolean;
};

/** Ask the model. The request is worked out from the turn when the call is made: `projectRequest`. */
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

/** Run one call. Several may be pending at once; each is answered by itself. */
export type CallTool = {
  readonly type: "call_tool";
  readonly id: string;
  readonly call: ToolCall;
  /** Somebody has consented already: the gate is not asked again. */
  readonly decision: Extract<Decision, { readonly type: "approve" }> | null;
};

/** Run a cell of code, with the answers to the calls it has made so far. */
export type RunCode = {
  readonly type: "run_code";
  readonly id: string;
  readonly language: string;
  readonly cellId: string;
  readonly code: string;
  readonly answers: number;
};

/** A safe boundary: the host may stop the turn here, or add input. */
export type AskCheckpoint = {
  readonly type: "checkpoint";
  readonly id: string;
  readonly checkpoint: CheckpointKind;
  /** No model call will follow whatever is delivered: input had better wait for the next turn. */
  readonly last: boolean;
};

export type EffectResponse = ResponsesByEffect[Effect["type"]];

export type EnvironmentSynced = {
  readonly type: "environment_synced";
  readonly id: string;
  /** `null`: no change. */
  readonly environment: Environment | null;
};
export type EnvironmentFailed = { readonly type: "environment_failed"; readonly id: string; readonly message: string };

export type ModelReplied = { readonly type: "model_replied"; readonly id: string; readonly reply: ModelReply };
export type ModelFailed = { readonly type: "model_failed"; readonly id: string; readonly error: LlmCallError };

/** Why a model call came to nothing. */
export type LlmCallError = {
  readonly failure: Failure;
  /** The call was given up on purpose. */
  readonly cancelled: boolean;
  /** What had arrived: billed, shown, never acted on. */
  readonly partial: ModelReply | null;
};

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
};

/** The call was not run: somebody has to say something first. */
export type ToolWaits = {
  readonly type: "tool_waits";
  readonly id: string;
  readonly reason: PendingReason;
  readonly opts: JsonObject;
};

export type CodeFinished = {
  readonly type: "code_finished";
  readonly id: string;
  /** What the cell printed, for the model. */
  readonly observations: readonly string[];
  readonly error: string | null;
  /** The value the cell finished the turn with, if it did. */
  readonly finish: { readonly value: JsonObject[string] } | null;
};
export type CodeCalls = { readonly type: "code_calls"; readonly id: string; readonly calls: readonly ToolCall[] };
export type CodeFailed = { readonly type: "code_failed"; readonly id: string; readonly message: string };

export type CheckpointDelivered = {
  readonly type: "checkpoint_delivered";
  readonly id: string;
  readonly delivery: CheckpointDelivery;
  readonly verdict: Verdict;
};

/** What a host adds to a turn at a checkpoint. */
export type CheckpointDelivery = {
  readonly messages: readonly Message[];
  /** Shown to the model in this turn, not kept as history. */
  readonly transientMessages: readonly Message[];
  readonly turnCauses: readonly TurnCause[];
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

export type ResponseTo<E extends Effect> = ResponsesByEffect[E["type"]];

/** The same table for a program that got a response from somewhere. */
export const effectOfResponse: { readonly [R in EffectResponse["type"]]: Effect["type"] } = {
  environment_synced: "sync_environment",
  environment_failed: "sync_environment",
  model_replied: "call_model",
  model_failed: "call_model",
  tool_returned: "call_tool",
  tool_waits: "call_tool",
  code_finished: "run_code",
  code_calls: "run_code",
  code_failed: "run_code",
  checkpoint_delivered: "checkpoint",
};
