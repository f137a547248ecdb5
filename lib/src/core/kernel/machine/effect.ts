// Effects and responses: the interface between the pure kernel and the driver that performs I/O, and the form of the
// ids of effects.
//
// An effect is an order to the driver and is small: it names its subject (an environment by digest, a history by length
// and digest, a cell by id) instead of containing it. Its canonical JSON is a journal row, so its size is what every
// step costs in storage (H5), and a replay compares it with the recorded row. A response is the result of an effect. It
// is recorded before the turn advances, and a replay applies the recorded response instead of performing the effect
// again (H1).
//
// Effect ids are derived from the state of the turn, never generated (K6):
//   <turn>/<step>/environment   sync_environment
//   <turn>/<step>/model         call_model; `finalize` instead of `model` for the structured call after the loop
//   <turn>/<step>/count         count_tokens; `/finalize` is appended before the structured call
//   <turn>/<step>/compact       compact; `/finalize` is appended before the structured call
//                               `/overflow` is appended to the ids of the two after a request that was too long
//   <turn>/<step>/tool/<slot>   call_tool for a call of the reply
//   <turn>/<step>/cell/<slot>   call_tool for a call of a code cell
//   <turn>/<step>/code/<n>      run_code with n answers
//   <turn>/<step>/<checkpoint>  checkpoint: `before_turn`, `after_work` or `before_completion`
//
// All types here are stored. Responses are declared in response.ts.

import type { CheckpointKind, Decision, JsonObject, SuspendedCell, ToolCall } from "../../model/internal.ts";
import type { ResponseOf } from "./response.ts";

/** Something the driver must do and answer with an {@link EffectResponse} of the same id. */
export type Effect = SyncEnvironment | CountTokens | CallModel | Compact | CallTool | RunCode | AskCheckpoint;

/**
 * An effect: refresh the environment. The response may replace it.
 */
export type SyncEnvironment = {
  readonly type: "sync_environment";
  /** The effect id, `<turn>/<step>/…`. The response carries the same id. */
  readonly id: string;
  /**
   * False for the first sync of a turn: its environment was just resolved, so the driver need not do it again. The
   * response may replace it nevertheless.
   */
  readonly updateMachineConfig: boolean;
};

/**
 * An effect: count the input tokens of the request of the model call that follows, unless the response leads to a
 * compaction. Only in turns with context limits, where an estimate does not decide (context.ts).
 */
export type CountTokens = {
  readonly type: "count_tokens";
  /** The effect id, `<turn>/<step>/…`. The response carries the same id. */
  readonly id: string;
  /** The number of the step. */
  readonly step: number;
  /** The digest of the environment. */
  readonly environment: string;
  /** The number of messages and their rolling digest. */
  readonly history: { readonly length: number; readonly digest: string };
  /** What the request leaves out of the history. */
  readonly sent?: { readonly frame: string | null; readonly prunedBefore: number };
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
  /** What the request leaves out of the history. Only in turns with context limits. */
  readonly sent?: { readonly frame: string | null; readonly prunedBefore: number };
  /** False: the request offers no tools. */
  readonly useTools: boolean;
  /** Settings of this request only. They override those of the environment. */
  readonly overrides: JsonObject;
};

/**
 * An effect: ask a model for a summary of the oldest messages. `projectSummaryRequest` computes the request from the
 * turn. The summary becomes a frame, which stands for these messages in later requests.
 */
export type Compact = {
  readonly type: "compact";
  /** The effect id, `<turn>/<step>/…`. The response carries the same id. */
  readonly id: string;
  /** The number of the step. */
  readonly step: number;
  /** The id of the frame. */
  readonly frame: string;
  /** The position of the first message that no earlier frame stands for. */
  readonly from: number;
  /** The position after the last message that the frame stands for. */
  readonly to: number;
  /** The number of messages and their rolling digest. */
  readonly history: { readonly length: number; readonly digest: string };
  /** What requests leave out of the history before the effect. */
  readonly sent?: { readonly frame: string | null; readonly prunedBefore: number };
};

/** An effect: run one tool call. Several can be pending at once; each has a response of its own. */
export type CallTool = {
  readonly type: "call_tool";
  /** The effect id, `<turn>/<step>/…`. The response carries the same id. */
  readonly id: string;
  /** The call as the model or the cell made it; an approval may edit its arguments in `decision`. */
  readonly call: ToolCall;
  /**
   * The idempotency key: the same for every attempt of this call, in this turn and in a turn that resumes it. By
   * default the effect id.
   */
  readonly idempotencyKey: string;
  /** The approval that a person has given; the approval gate of the tool is then not asked again. `null`: none yet. */
  readonly decision: Approval | null;
};

/**
 * An approval of a call, possibly with edited arguments; or (`forward`) an answer for a call of a turn that runs inside
 * the tool.
 */
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
  /**
   * The executor that started the cell; `null` before its first run. Another executor or version must not continue it.
   */
  readonly executor: SuspendedCell["executor"] | null;
};

/** An effect: a checkpoint, at which the driver may stop the turn or add input. */
export type AskCheckpoint = {
  readonly type: "checkpoint";
  /** The effect id, `<turn>/<step>/…`. The response carries the same id. */
  readonly id: string;
  /**
   * `before_turn`: before all other effects, if the policy asks for it. `after_work`: after the tools of a step.
   * `before_completion`: the turn has an answer and is about to complete.
   */
  readonly checkpoint: CheckpointKind;
  /**
   * No model call can follow this checkpoint. Input must not be claimed here: it would not be read in this turn (Q11).
   */
  readonly last: boolean;
};

/** Which responses each effect may receive. The other tables are derived from this type. */
export type ResponsesByEffect = {
  readonly sync_environment: ResponseOf<"environment_synced" | "environment_failed">;
  readonly count_tokens: ResponseOf<"tokens_counted" | "count_failed">;
  readonly call_model: ResponseOf<"model_replied" | "model_failed">;
  readonly compact: ResponseOf<"compacted" | "compaction_failed">;
  readonly call_tool: ResponseOf<"tool_returned" | "tool_waits">;
  readonly run_code: ResponseOf<"code_finished" | "code_calls" | "code_failed">;
  readonly checkpoint: ResponseOf<"checkpoint_delivered">;
};
