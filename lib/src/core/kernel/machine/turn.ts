// The state of a turn, and what it runs with.
//
// `Turn` is the checkpoint of the turn machine: plain JSON (K3) that holds everything except functions. There is no
// queue of effects next to it: `pendingEffects` (pending-effects.ts) computes them from `phase` (K2), so a restored
// turn orders exactly what it was waiting for, under the same ids (K6).
//
// Words
//   turn    one input, worked to an outcome
//   step    one model call and the tools it asked for; `turn.step` is its number
//   phase   what the turn waits for now
//   slot    the position of a tool call among the calls of its reply or its cell; calls are identified by it, because
//           providers repeat call ids
//
// The field names of `Turn`, `Phase`, `Ending` and everything inside are stored and do not change.

import type {
  AssistantMessage,
  CellCall,
  CheckpointKind,
  ContextWindow,
  Environment,
  Failure,
  Json,
  JsonObject,
  Message,
  ModelName,
  ModelReply,
  PendingToolCall,
  StructuredFormat,
  SuspendedCell,
  ToolCall,
  ToolMessage,
  ToolMode,
  ProviderTool,
  ToolSpec,
  TurnEvent,
  TurnOutcome,
  Usage,
} from "../../model/internal.ts";
import type { TurnHistory } from "../history/history.ts";
import type { SharedList } from "../history/shared-list.ts";
import type { TurnCause } from "../history/turn-cause.ts";
import type { ContextProjector, ProtocolDriver, TurnProtocol } from "../protocol/protocol.ts";
import type { LlmTerminalReason } from "../protocol/terminal-reason.ts";
import type { ContextLimits } from "./context-limits.ts";
import type { Approval } from "./effect.ts";
import type { CallAnswer } from "./input.ts";
import type { CheckpointDelivery, ToolReturned, ToolWaits } from "./response.ts";

import { trimmed } from "../history/shared-list.ts";

/**
 * The newest kernel revision (Q6). It is raised when the machine would order other effects than before for the same
 * responses; a changed text of a message that the kernel writes counts, because it changes the history digest. A
 * release supports every older revision: where it decides differently it branches on `turn.revision`.
 *
 *   1  the first revision
 *   2  failures that the kernel answers have the format of all tool failures (`{"error": …}`, protocol/tool-answer.ts);
 *      the first sync of a turn may replace the environment (machine/responses.ts)
 *   3  after an approval a `beforeTool` hook may deny the call, and no longer replaces its arguments or its result
 *      (core/run/perform/prepare-tool.ts); a reply ends a forced tool choice (machine/responses.ts); the nudge of the
 *      structured call is a user message of the history (machine/responses.ts); calls of one reply with the same id get
 *      different ones (protocol/unique-calls.ts)
 *   4  a turn may have context limits (machine/context.ts)
 */
export const kernelRevision = 4;

/** The first revision under which a turn can have context limits. */
export const contextRevision = 4;

/**
 * What a turn runs with and does not store: it must be supplied again to restore a turn. Model, instructions,
 * tools, settings and limits are fixed when the turn starts and are part of its state.
 */
export type TurnMachineConfig<P extends TurnProtocol = TurnProtocol> = RequestConfig<P> & {
  /** Interprets replies. It must be pure, and the same for the whole turn. */
  readonly protocolDriver: ProtocolDriver<P>;
};

/** The part of a configuration from which requests are built: all of it but the protocol. */
export type RequestConfig<P extends TurnProtocol = TurnProtocol> = TurnSettings<P> & {
  /** Builds the requests. It must be pure, and the same for the whole turn. */
  readonly projector: ContextProjector<P>;
};

/** The part of a configuration that is data. Protocols and projectors can read it. */
export type TurnSettings<P extends TurnProtocol = TurnProtocol> = TurnPolicy<P> & {
  readonly sessionId: string;
  readonly model: ModelName | null;
  readonly systemPrompt: string;
  readonly toolSpecs: readonly ToolSpec[];
  /** Tools that the provider executes itself, such as web search. */
  readonly providerTools: readonly ProviderTool[];
  /** Settings of model calls, by the names of request fields. */
  readonly generation: JsonObject;
  /** The reasoning effort, where a model has variants of it; `null`: not set. */
  readonly modelVariant: string | null;
  /** Emit a `log` notice with the trace of every model call. Default: false. */
  readonly emitLlmTrace: boolean;
};

/**
 * Limits and end conditions of a turn. They are fixed when the turn starts: a deployment changes the next turn,
 * never an open one.
 */
export type TurnPolicy<P extends TurnProtocol = TurnProtocol> = {
  /**
   * Order `sync_environment` at the start and before every further step. Default: false, the environment never changes.
   */
  readonly syncEnvironment: boolean;
  /** Order the checkpoint `before_turn` before all other effects. Default: false. */
  readonly startCheckpoint: boolean;
  /** Model calls a turn may make; at the limit it ends with the outcome `max_turns`. `null`: no limit. */
  readonly maxTurns: number | null;
  /** The context window of the model, in tokens; `null`: unknown, and a full window is then not detected. */
  readonly maxContextTokens: number | null;
  /** How requests are kept within the context window; `null`: they contain the whole history. */
  readonly context: ContextLimits | null;
  /** A system message that is appended when the limit is reached, and before the grace turn. `null`: no message. */
  readonly turnLimitFinalMessage: string | null;
  /** After the loop, one more model call that answers in this format. `null`: none. */
  readonly structuredFinalize: { readonly format: StructuredFormat; readonly nudge: string } | null;
  /** No person can answer questions. The machine does not use this; protocols can read it. */
  readonly autonomous: boolean;
  /**
   * End the turn after one reply, or after one reply and its calls; see `DriverContextView.stopAfter`. Default: `null`,
   * no stop.
   */
  readonly stopAfter: "reply" | "step" | null;
  /** The end condition of a protocol that has one. */
  readonly termination: P["termination"];
};

/**
 * The input of a turn: history, new messages, and answers to calls that were pending. `Event`: the records of the
 * protocol.
 */
export type TurnInput<Event extends Json = never> = {
  /** The prefix of all ids of the turn. It must be unique in the session. */
  readonly turnId: string;
  /**
   * The kernel revision the turn is started under: the newest one for a new turn, the stored one when a turn is
   * replayed.
   */
  readonly revision: number;
  /**
   * The conversation before this turn: messages, or the history of an earlier turn, which is shared and not copied or
   * digested again.
   */
  readonly history: readonly Message[] | TurnHistory;
  /**
   * The records that the protocol appended in earlier turns of the session. They are not reported again. Default: none.
   */
  readonly events: readonly Event[];
  /** New messages; may be empty. */
  readonly messages: readonly Message[];
  /** Events outside the conversation that start the turn. */
  readonly turnCauses: readonly TurnCause[];
  /**
   * Answers to calls that were pending, one for every open call. Approved calls are the first effects of the turn (Q8).
   */
  readonly answers: readonly CallAnswer[];
  /** The suspended code cell that made some of the pending calls; it is resumed with the answers. */
  readonly cell: SuspendedCell | null;
  /** The number of the first step, for drivers that count steps over several turns. Default: 0. */
  readonly runOffset: number;
  /** What requests leave out of the history, as the turn before left it; `null`: nothing. */
  readonly contextWindow: ContextWindow | null;
};

/** A call that was approved and has not run yet. */
export type ApprovedCall = {
  readonly call: ToolCall;
  readonly slot: number;
  readonly decision: Approval;
  readonly idempotencyKey: string | null;
};

/** The state of a turn: plain data from which the pending effects follow (K2). */
export type Turn<P extends TurnProtocol = TurnProtocol> = {
  /** The kernel revision that decides this turn to its end. */
  readonly revision: number;
  /** The prefix of all effect and message ids of the turn. */
  readonly turnId: string;
  /** Limits and end conditions, fixed at the start. */
  readonly policy: TurnPolicy<P>;
  /** All messages: those before the turn and those it appended. */
  readonly history: TurnHistory;
  /** Messages of the history that earlier `progress` notices contained, including those the turn started with. */
  readonly reported: number;
  /** Messages for this turn only, each with its position in the history. */
  readonly transient: SharedList<{ readonly at: number; readonly message: Message }>;
  /** Records of the protocol's own type. */
  readonly events: SharedList<P["event"]>;
  /** Records that earlier `progress` notices contained. */
  readonly reportedEvents: number;
  /** The causes of the turn, each id once. */
  readonly turnCauses: readonly TurnCause[];
  /** The number of the open step. */
  readonly step: number;
  /** Where the count of steps against `maxTurns` starts. Steps without a model call raise it. */
  readonly runOffset: number;
  /** Instructions, model, tools and settings of the current step. */
  readonly environment: Environment;
  /** The digest of `environment`, by which `call_model` names it. */
  readonly environmentDigest: string;
  /** The step for which the environment was synced last; `null` before the first sync. */
  readonly syncedStep: number | null;
  /** Approved calls that have not been started. */
  readonly approved: readonly ApprovedCall[];
  /** The suspended cell that this turn has to resume; `null` after it did. */
  readonly resumes: SuspendedCell | null;
  /** Input of the checkpoint `before_turn` that waits for the calls or the cell that the turn resumes; `null`: none. */
  readonly deferredInput: CheckpointDelivery | null;
  /** The usage of the turn so far. */
  readonly usage: Usage;
  /** The part of `usage` that belongs to the open step. */
  readonly stepUsage: Usage;
  /** The reply of the open step; `null` before the reply and between steps. */
  readonly openReply: ModelReply | null;
  /** Ids of the effects of this step that were answered. A protocol must not order one of them again. */
  readonly answered: readonly string[];
  /** What requests leave out of the history. Changes only under context limits. */
  readonly contextWindow: ContextWindow;
  /** The model call of the step is repeated with a shorter request, because its request was too long. */
  readonly overflowed: boolean;
  /** The model call beyond `maxTurns` was granted. */
  readonly graceTurn: boolean;
  /** Set while the structured call runs: how the loop ended, and the message that asks for the structured answer. */
  readonly finalize: { readonly pass1: Ending; readonly nudge: Message | null } | null;
  /** What the turn waits for. The pending effects follow from it. */
  readonly phase: Phase<P>;
};

/** What a turn waits for. Each waiting phase holds the data from which its effects are computed. */
export type Phase<P extends TurnProtocol = TurnProtocol> =
  /** Waits for `sync_environment`. `update`: false for the first sync of the turn. */
  | { readonly type: "awaiting_environment"; readonly update: boolean }
  | AwaitingModel<P>
  /** Waits for `count_tokens`: the number decides whether a compaction precedes the model call `call`. */
  | { readonly type: "awaiting_count"; readonly call: AwaitingModel<P> }
  /**
   * Waits for `compact`: the summary of the messages before `to`, for the frame with the id `frame`. `from`: the
   * position up to which the frame before stands. `isTooLong`: the request of the model call does not fit, so the
   * request of the summary has only the messages of the range, with shortened results. `rest`: the messages up to `end`
   * do not fit in one such request, and are summarized in several, each with a frame; `part`: the number of this one.
   * `instructions`: what a request for the compaction asks to keep. `call`: the model call that follows.
   */
  | {
      readonly type: "awaiting_compaction";
      readonly frame: string;
      readonly from: number;
      readonly to: number;
      readonly isTooLong: boolean;
      readonly rest: { readonly end: number; readonly part: number } | null;
      readonly instructions: string | null;
      readonly call: AwaitingModel<P>;
    }
  /** Waits for one `call_tool` for each call without a result. */
  | AwaitingTools<P>
  /** Waits for `run_code`. */
  | { readonly type: "awaiting_code"; readonly cell: Cell<P> }
  /** Waits for `checkpoint`. `onEmpty`: what the turn does if the driver adds no input. */
  | {
      readonly type: "awaiting_checkpoint";
      readonly checkpoint: CheckpointKind;
      readonly onEmpty: CheckpointResumeAction;
    }
  /** Waits for nothing. A turn does not leave this phase. */
  | { readonly type: "ended"; readonly ending: Ending };

/** The phase that waits for `call_model`. `driverState` goes back to the protocol with the reply. */
export type AwaitingModel<P extends TurnProtocol = TurnProtocol> = {
  readonly type: "awaiting_model";
  readonly useTools: boolean;
  readonly overrides: JsonObject;
  readonly driverState: P["driverState"] | null;
};

/**
 * The phase in which a batch of tool calls runs. The list `calls` is the same object for the whole batch: see
 * `isSameBatch`.
 */
export type AwaitingTools<P extends TurnProtocol = TurnProtocol> = {
  readonly type: "awaiting_tools";
  readonly calls: readonly SlottedCall[];
  /** The result of each call, by index in `calls`; `null`: not answered yet. */
  readonly results: readonly (ToolReturned | ToolWaits | null)[];
  /** The code cell that made the calls; `null`: they are calls of the reply. */
  readonly cell: BegunCell<P> | null;
};

/** A call with its slot, the position among the calls of its reply or cell. */
export type SlottedCall = {
  readonly call: ToolCall;
  readonly slot: number;
  readonly decision: Approval | null;
  /** The idempotency key of an earlier attempt; `null`: the effect id is the key. */
  readonly idempotencyKey: string | null;
};

/** A cell of code that is running. */
export type Cell<P extends TurnProtocol = TurnProtocol> = {
  readonly id: string;
  readonly language: string;
  readonly code: string;
  readonly executor: SuspendedCell["executor"] | null;
  /** The calls it made, in order; the index of a call is its slot. */
  readonly calls: readonly CellCall[];
  /** How long its runs have taken, in milliseconds. */
  readonly ranMs: number;
  readonly driverState: P["driverState"] | null;
  /**
   * For a resumed cell: the environment of the turn, which is restored when the cell ends. `null` for a cell of this
   * turn.
   */
  readonly environmentAfter: Environment | null;
};

/** A cell that an executor has started. */
export type BegunCell<P extends TurnProtocol = TurnProtocol> = Cell<P> & {
  readonly executor: SuspendedCell["executor"];
};

/** A tool call and its response. */
export type CompletedToolCall = {
  /** The call as the model or the cell made it. */
  readonly call: ToolCall;
  /** Its position among the calls of its reply or cell. */
  readonly slot: number;
  /** The idempotency key of the call, for a later attempt at it. */
  readonly idempotencyKey: string;
  /** Its result, or what it waits for. */
  readonly result: ToolReturned | ToolWaits;
};

/** What a turn does after a checkpoint: begin the next step, or end. */
export type CheckpointResumeAction =
  | { readonly type: "prepare_iteration" }
  | { readonly type: "finish"; readonly ending: Ending };

/** How a turn ended, and what it leaves open. */
export type Ending = {
  readonly outcome: TurnOutcome;
  readonly pendingToolCalls: readonly PendingToolCall[];
  /** The code cell that waits for some of the pending calls. */
  readonly suspendedCell: SuspendedCell | null;
  /** The received part of a structured reply that was cancelled; it is not in the history. */
  readonly partial: AssistantMessage | null;
  /** With `structuredFinalize`: how the loop ended before the structured call. */
  readonly pass1: TurnOutcome | null;
  /** The failure of the structured call. */
  readonly pass2Error: Failure | null;
};

/** A notification to the driver. It needs no response. */
export type Notice<P extends TurnProtocol = TurnProtocol> =
  /** An event for readers of the turn. */
  | { readonly type: "emit"; readonly event: TurnEvent }
  /** A trace of a model call, if `emitLlmTrace` is set. */
  | { readonly type: "log"; readonly event: LogEvent }
  /**
   * New messages and records, to be stored before the next effects are performed; `stepEnded`: the step that this
   * transition ended.
   */
  | ({ readonly type: "progress"; readonly stepEnded: EndedStep | null } & Progress<P>)
  /** The turn has ended. The last notice of a turn, exactly once (K5). */
  | ({ readonly type: "done"; readonly ending: Ending; readonly usage: Usage } & Progress<P>);

/** What is new since the last notice. It is reported before the effects that depend on it. */
export type Progress<P extends TurnProtocol = TurnProtocol> = {
  /** Messages that were appended to the history. */
  readonly messages: readonly Message[];
  /** Records that the protocol appended. */
  readonly events: readonly P["event"][];
  /** The number of the step. */
  readonly step: number;
};

/** The data of a step that ended, from which its `StepResult` is built. */
export type StepEnd = {
  readonly reply: ModelReply;
  readonly toolResults: readonly ToolMessage[];
  readonly pendingToolCalls: readonly PendingToolCall[];
  readonly manualToolCalls: readonly ToolCall[];
  /** The code cell that waits for some of the pending calls. */
  readonly suspendedCell: SuspendedCell | null;
  readonly mode: ToolMode;
};

/** A step that ended, with its number and its usage: all attempts at its reply, and the turns that its tools ran. */
export type EndedStep = StepEnd & { readonly step: number; readonly usage: Usage };

/** A trace of a model call. Emitted only if `emitLlmTrace` is set. */
export type LogEvent = LlmDebug | LlmError;

/** The trace of a model call that succeeded. */
export type LlmDebug = {
  readonly type: "llm_debug";
  /** The session of the configuration. */
  readonly sessionId: string;
  /** The number of the step. */
  readonly protocolIteration: number;
  /** The usage of the reply. */
  readonly usage: Usage;
  /** Usage fields of the provider that `Usage` has no field for. */
  readonly providerUsage: JsonObject;
  /** The request body that was sent, if the performer reports it. */
  readonly requestBody: string | null;
  /** The text of the reply. */
  readonly responseText: string;
  /** The parts and the tool calls of the reply. */
  readonly responseParts: Json;
};

/** The trace of a model call that failed. */
export type LlmError = {
  readonly type: "llm_error";
  /** The session of the configuration. */
  readonly sessionId: string;
  /** The number of the step. */
  readonly protocolIteration: number;
  /** The request body that was sent, if the performer reports it. */
  readonly requestBody: string | null;
  /** The message of the failure. */
  readonly message: string;
  /** Whether the adapter marks the failure as one that a retry may mend. */
  readonly retryable: boolean;
  /** The raw error text of the provider. */
  readonly raw: string | null;
  /** The error code of the provider. */
  readonly code: string | null;
  /** Why the call ended. */
  readonly terminalReason: LlmTerminalReason;
};

/**
 * `accepted`; `stale`: the turn does not wait for an effect of this id; `wrong_kind`: that effect cannot receive a
 * response of this type (K4).
 */
export type ResponseStatus = "accepted" | "stale" | "wrong_kind";

/** A change of a turn: the next state, the notices for the driver, and whether the input was accepted. */
export type Transition<P extends TurnProtocol = TurnProtocol> = {
  readonly turn: Turn<P>;
  readonly notices: readonly Notice<P>[];
  readonly status: ResponseStatus;
};

/**
 * The calls that the running cell has made so far, with their answers. The performer of `run_code` passes them to the
 * executor.
 */
export function cellCalls(turn: Turn<TurnProtocol>): readonly CellCall[] {
  return turn.phase.type === "awaiting_code" ? turn.phase.cell.calls : [];
}

/** How long the runs of the current cell have taken, in milliseconds. */
export function cellRanMs(turn: Turn<TurnProtocol>): number {
  return turn.phase.type === "awaiting_code" ? turn.phase.cell.ranMs : 0;
}

/**
 * Can no model call follow this checkpoint, whatever is delivered at it? True at `after_work` when the turn then ends
 * (its limit is reached), and after the grace turn. Input must not be claimed there (Q11).
 */
export function isLastCheckpoint({ phase, graceTurn }: Pick<Turn<TurnProtocol>, "phase" | "graceTurn">): boolean {
  if (phase.type !== "awaiting_checkpoint" || phase.onEmpty.type !== "finish") return false;
  return phase.checkpoint === "after_work" || graceTurn;
}

/**
 * The turn in the form to be stored: its shared lists are cut to their own length, without entries that later turns
 * appended.
 */
export function storableTurn<P extends TurnProtocol>(turn: Turn<P>): Turn<P> {
  const { history, events, transient } = turn;
  return { ...turn, history: trimmed(history), events: trimmed(events), transient: trimmed(transient) };
}
