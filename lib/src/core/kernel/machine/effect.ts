// Effects and responses: the interface between the pure kernel and the host that performs I/O.
//
// An effect is an order to the host and is small: it names its subject (an environment by digest, a history by length and digest, a cell by
// id) instead of containing it. Its canonical JSON is a journal row, so its size is what every step costs in storage (H5), and a replay
// compares it with the recorded row. A response is the result of an effect. It is recorded before the turn advances, and a replay applies the
// recorded response instead of performing the effect again (H1).
//
// Effect ids are derived from the state of the turn, never generated (K6):
//   <turn>/<step>/environment   sync_environment
//   <turn>/<step>/model         call_model; `finalize` instead of `model` for the structured call after the loop
//   <turn>/<step>/tool/<slot>   call_tool for a call of the reply
//   <turn>/<step>/cell/<slot>   call_tool for a call of a code cell
//   <turn>/<step>/code/<n>      run_code with n answers
//   <turn>/<step>/<checkpoint>  checkpoint: `before_turn`, `after_work` or `before_completion`
//
// All types here are stored. A new field needs a default in read-response.ts (S1).

import type {
  CancelEvidence,
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
  ShownCall,
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
 * An effect: refresh the environment. The response may replace it.
 */
export type SyncEnvironment = {
  readonly type: "sync_environment";
  /** The effect id, `<turn>/<step>/…`. The response carries the same id. */
  readonly id: string;
  /** False for the first sync of a turn: its environment was just resolved, so the host need not do it again. The response may replace it nevertheless. */
  readonly updateMachineConfig: boolean;
};

/** An effect: call the model. `projectRequest` computes the request from the turn. */
export type CallModel = {
  readonly type: "call_model";
  /** The effect id, `<turn>/<step>/…`. The response carries the same id. */
  readonly id: string;
  /** The number of the step. A turn starts at its `runOffset`, 0 by default. */
  readonly step: number;
  /** The digest of the environment. */
  readonly environment: string;
  /** The number of messages and their rolling digest. A replay with another history is detected by it (Q6). */
  readonly history: { readonly length: number; readonly digest: string };
  /** False: the request offers no tools. */
  readonly useTools: boolean;
  /** Settings of this request only. They override those of the environment. */
  readonly overrides: JsonObject;
};

/** An effect: run one tool call. Several can be pending at once; each has a response of its own. */
export type CallTool = {
  readonly type: "call_tool";
  /** The effect id, `<turn>/<step>/…`. The response carries the same id. */
  readonly id: string;
  /** The call as the model or the cell made it; an approval may edit its arguments in `decision`. */
  readonly call: ToolCall;
  /** The idempotency key: the same for every attempt of this call, in this turn and in a turn that resumes it. By default the effect id. */
  readonly idempotencyKey: string;
  /** The approval that a person has given; the approval gate of the tool is then not asked again. `null`: none yet. */
  readonly decision: Approval | null;
};

/** An approval of a call, possibly with edited arguments; or (`forward`) an answer for a call of a turn that runs inside the tool. */
export type Approval = Extract<Decision, { readonly type: "approve" | "forward" }>;

/**
 * An effect: run a cell of code. The answers to the calls it has made so far are in the turn. The executor may
 * resume a paused cell, or run it again from the start with the same answers.
 */
export type RunCode = {
  readonly type: "run_code";
  /** The effect id, `<turn>/<step>/…`. The response carries the same id. */
  readonly id: string;
  /** The language of the cell, for executors that run several. */
  readonly language: string;
  /** Identifies the cell over all its runs, also in later turns. */
  readonly cellId: string;
  /** The source text of the cell, as the model wrote it. */
  readonly code: string;
  /** The number of calls made so far. Their answers are in the turn: see `cellCalls`. */
  readonly answers: number;
  /** The executor that started the cell; `null` before its first run. Another executor or version must not continue it. */
  readonly executor: SuspendedCell["executor"] | null;
};

/** An effect: a checkpoint, at which the host may stop the turn or add input. */
export type AskCheckpoint = {
  readonly type: "checkpoint";
  /** The effect id, `<turn>/<step>/…`. The response carries the same id. */
  readonly id: string;
  /** `before_turn`: before all other effects, if the policy asks for it. `after_work`: after the tools of a step. `before_completion`: the turn has an answer and is about to complete. */
  readonly checkpoint: CheckpointKind;
  /** No model call can follow this checkpoint. Input must not be claimed here: it would not be read in this turn (Q11). */
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
  /** The id of the effect that this responds to. */
  readonly id: string;
  /**
   * The environment for the coming step and those after it; `null`: no change. The first sync of a turn may replace the environment, too; only turns of
   * kernel revision 1 ignore it there.
   */
  readonly environment: Environment | null;
};
/** A response: the environment could not be refreshed. It ends the turn. */
export type EnvironmentFailed = { readonly type: "environment_failed"; readonly id: string; readonly message: string };

/** A response: the model replied. */
export type ModelReplied = {
  readonly type: "model_replied";
  /** The id of the effect that this responds to. */
  readonly id: string;
  /** The complete reply. A reply with `error` set fails the turn. */
  readonly reply: ModelReply;
  /** The model that answered if it is a fallback; it stays the model for the rest of the turn (Q7). `null`: the model that was asked. */
  readonly model: ModelName | null;
  /** The request body, for the trace log; `null`: not logged. */
  readonly requestBody: string | null;
  /** The usage of earlier attempts; the usage of the reply itself is in `reply.usage`. */
  readonly spent: Usage;
  /** Wall time of the whole effect, with retries and waits, in milliseconds. */
  readonly durationMs: number;
  /** What middleware did in this call; absent if nothing. */
  readonly middleware?: readonly MiddlewareNote[];
};
/** A response: the model call failed, or its stream was interrupted. */
export type ModelFailed = {
  readonly type: "model_failed";
  /** The id of the effect that this responds to. */
  readonly id: string;
  /** The failure of the last attempt. */
  readonly error: LlmCallError;
  /** The usage of attempts before the last one; that of the last one is in `error.partial`. */
  readonly spent: Usage;
  /** Wall time of the whole effect, with retries and waits, in milliseconds. */
  readonly durationMs: number;
  /** What middleware did in this call; absent if nothing. */
  readonly middleware?: readonly MiddlewareNote[];
};

/** An action of a middleware, recorded with the response of the effect that it wrapped. */
export type MiddlewareNote = {
  /** The name of the middleware. */
  readonly name: string;
  /** The attempt at the effect, from 1. */
  readonly attempt: number;
  /**
   * What it did: `changed_request` or `changed_arguments`, `short_circuited` (it answered without the adapter or the handler), `retried`, or a word of the
   * middleware.
   */
  readonly action: string;
  readonly details: JsonObject;
};

/** Why a model call failed. The terminal reason `cancelled` is not an error: the call was stopped on purpose. */
export type LlmCallError = {
  /** The failure as data. */
  readonly failure: Failure;
  /** `cancelled` ends the turn as cancelled, every other reason as failed. */
  readonly terminalReason: LlmTerminalReason;
  /** The request body, for the trace log; `null`: not logged. */
  readonly requestBody: string | null;
  /** The part of the reply that arrived. It is billed and kept as text; its tool calls are never run. */
  readonly partial: ModelReply | null;
};

/** A response: the tool call ended, with success or failure. */
export type ToolReturned = {
  readonly type: "tool_returned";
  /** The id of the effect that this responds to. */
  readonly id: string;
  /** The outcome, for the program. */
  readonly outcome: ToolOutcome;
  /** The content of the tool message that the model sees, as the result encoder returned it. */
  readonly content: ToolMessage["content"];
  /** The arguments the handler ran with if a hook or an approval changed them; otherwise `null`. */
  readonly ranArguments: JsonObject | null;
  /** True: `onToolError` says that this failure ends the turn. */
  readonly stops: boolean;
  /** The usage of turns that ran inside the tool. */
  readonly spent: Usage;
  /** Wall time of the call, with retries and waits, in milliseconds. */
  readonly durationMs: number;
  /** What middleware did in this call; absent if nothing. */
  readonly middleware?: readonly MiddlewareNote[];
};

/** A response: the call has no result yet. It needs an approval, a result, an answer or a decision from outside, and the turn ends (a wait ends the turn). */
export type ToolWaits = {
  readonly type: "tool_waits";
  /** The id of the effect that this responds to. */
  readonly id: string;
  /** What the call waits for. */
  readonly reason: PendingReason;
  /** The question, if the reason is `question`. */
  readonly question: string | null;
  /** Options of the question or approval, for the user interface. */
  readonly opts: JsonObject;
  /** For a tool that runs a turn inside: the ids that lead to the inner call that waits. */
  readonly path: readonly string[];
  /** What runs if the call is approved; `null`: the call itself, with its own arguments. */
  readonly shown: ShownCall | null;
  /** The usage of the inner turn so far. */
  readonly spent: Usage;
};

/** A response: the cell ran to its end. */
export type CodeFinished = {
  readonly type: "code_finished";
  /** The id of the effect that this responds to. */
  readonly id: string;
  /** The output of the cell, for the model. */
  readonly observations: readonly string[];
  /** The uncaught exception of the cell, for the model. */
  readonly error: string | null;
  /** Set if the cell ended the turn. */
  readonly finish: CellFinish | null;
  /** Wall time of the effect, in milliseconds. */
  readonly durationMs: number;
};

/** The value a cell ended the turn with, and the issues that the schema found in it; or the error it ended with. */
export type CellFinish =
  | { readonly type: "value"; readonly value: Json; readonly issues: readonly Issue[] }
  | { readonly type: "error"; readonly value: Json };

/** A response: the cell made these calls and needs their answers to continue. */
export type CodeCalls = {
  readonly type: "code_calls";
  /** The id of the effect that this responds to. */
  readonly id: string;
  /** The new calls, in order; at least one. */
  readonly calls: readonly ToolCall[];
  /** The executor that runs the cell. */
  readonly executor: SuspendedCell["executor"];
  /** How long this run of the cell took, in milliseconds, without the time in which it waited for a worker. */
  readonly ranMs: number;
  /** Wall time of the effect, in milliseconds. */
  readonly durationMs: number;
};

/**
 * A response: the cell could not be run to its end. `diverged` means that it made other calls than in its first
 * run.
 */
export type CodeFailed = {
  readonly type: "code_failed";
  /** The id of the effect that this responds to. */
  readonly id: string;
  /** `limit_exceeded`: a limit on instructions, memory, calls, output or time. `diverged`: the cell made different calls when it ran again. */
  readonly reason: "failed" | "limit_exceeded" | "diverged";
  /** Why, for the model. */
  readonly message: string;
  /** Wall time of the effect, in milliseconds. */
  readonly durationMs: number;
};

/** A response: what the host adds at a checkpoint, and whether the turn continues. */
export type CheckpointDelivered = {
  readonly type: "checkpoint_delivered";
  /** The id of the effect that this responds to. */
  readonly id: string;
  /** The input to add. Ignored if the verdict ends the turn, or if no model call can follow. */
  readonly delivery: CheckpointDelivery;
  /** Whether the turn continues. It takes precedence over the delivery. */
  readonly verdict: Verdict;
};

/** Input that a host adds to a turn at a checkpoint. */
export type CheckpointDelivery = {
  /** Messages for the history. User and system messages only; others are left out. */
  readonly messages: readonly Message[];
  /** Messages that the model sees in this turn and that the history does not keep. */
  readonly transientMessages: readonly Message[];
  /** Events that join the turn. A cause that the turn has already is ignored. */
  readonly turnCauses: readonly TurnCause[];
  /** The ids of the inbox items these came from. A durable host removes them in the commit that records this response. */
  readonly inputs: readonly string[];
};

/** What a host decides about a turn at a checkpoint. */
export type Verdict =
  | { readonly type: "go_on" }
  | { readonly type: "halt_when" }
  /** A hook of the program aborts the turn. It ends as cancelled, with this evidence. */
  | { readonly type: "abort"; readonly evidence: CancelEvidence }
  | { readonly type: "budget"; readonly budget: "steps" | "tokens" | "cost" | "time" | "no_progress" };

/** Which responses each effect may receive. The other tables are derived from this type. */
export type ResponsesByEffect = {
  readonly sync_environment: EnvironmentSynced | EnvironmentFailed;
  readonly call_model: ModelReplied | ModelFailed;
  readonly call_tool: ToolReturned | ToolWaits;
  readonly run_code: CodeFinished | CodeCalls | CodeFailed;
  readonly checkpoint: CheckpointDelivered;
};
