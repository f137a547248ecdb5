// The contract of a protocol: four pure functions that interpret model replies and results.
//
// Each function receives a read-only view of the turn and returns a list of declarative actions; machine/actions.ts
// checks and applies them. A list without a direction, or with two, fails the turn with `invalid_actions`; otherwise
// the turn would stall or order two things at once.
//
// Protocol functions run again on every replay, so they must be pure: the same view gives the same actions (K1, K6).
// The built-in protocols are chat-protocol.ts and code-protocol.ts. A protocol of a program has a name and a version
// (`NamedProtocol`), which are stored with each turn: a replay finds the same functions by them.
//
// The functions are declared as methods. The compiler compares the parameters of methods in both directions, so a
// protocol with types of its own is assignable to the general type, which the driver of run/ uses. The machine keeps
// the values apart: it passes a protocol only the events, the end condition and the driver state of turns that were
// started with this protocol.

import type {
  CellCall,
  CheckpointKind,
  Json,
  JsonObject,
  Message,
  ModelReply,
  ModelRequest,
  TurnEvent,
} from "../../model/internal.ts";
import type { TurnCause } from "../history/turn-cause.ts";
import type { CodeFailed, CodeFinished } from "../machine/response.ts";
import type {
  ApprovedCall,
  CheckpointResumeAction,
  CompletedToolCall,
  Ending,
  SlottedCall,
  StepEnd,
  Turn,
  TurnMachineConfig,
  TurnPolicy,
  TurnSettings,
} from "../machine/turn.ts";

import { itemsOf } from "../history/shared-list.ts";

/**
 * The types of a protocol's own data. All of it is stored, so it must be JSON. Types of this module without a parameter
 * are those of any protocol.
 */
export type TurnProtocol = {
  /** A record that the protocol appends. It is kept with the session: the protocol gets it in later turns, too. */
  readonly event: Json;
  /** The end condition that the configuration sets. */
  readonly termination: Json;
  /** State that the protocol passes along with a model call or a cell and receives with its result. */
  readonly driverState: Json;
};

/** A protocol without records and without an end condition of its own, such as the chat and code protocols. */
export type UnitTurnProtocol = { readonly event: null; readonly termination: null; readonly driverState: Json };

/**
 * Defines what a model reply means, as four functions of the turn and what happened. They must be pure, because a
 * turn is replayed through them.
 *
 * @example
 * ```ts
 * import type { ProtocolDriver } from "everturn/advanced";
 * import { chatProtocol, protocolConfig } from "everturn/advanced";
 *
 * type Guessing = { event: { guess: string }; termination: { word: string }; driverState: { tries: number } };
 * const chat = chatProtocol<Guessing>();
 * const guessing: ProtocolDriver<Guessing> = {
 *   ...chat,
 *   handleLlmSuccess: (context, reply, state) => {
 *     const guess = reply.outputText ?? "";
 *     if (guess === context.termination.word) return chat.handleLlmSuccess(context, reply, state);
 *     const driverState = { tries: (state?.tries ?? 0) + 1 };
 *     return [
 *       { type: "append_events", messages: [], events: [{ guess }] },
 *       { type: "advance_protocol_iteration", free: false },
 *       { type: "start_llm", useTools: false, overrides: {}, driverState },
 *     ];
 *   },
 * };
 * protocolConfig({ protocolDriver: guessing, termination: { word: "rain" } }).termination.word; // => "rain"
 * ```
 */
export type ProtocolDriver<P extends TurnProtocol = TurnProtocol> = {
  /** Called at the start of a step, after the environment, approved calls and a suspended cell have been handled. */
  prepareProtocolIteration(context: DriverContextView<P>): readonly DriverAction<P>[];
  /** Called with a model reply, except replies that fail the turn and the reply of the structured call. */
  handleLlmSuccess(
    context: DriverContextView<P>,
    reply: ModelReply,
    driverState: P["driverState"] | null,
  ): readonly DriverAction<P>[];
  /** Called once for a batch of calls, when all of them are answered, with the results in call order. */
  handleToolResults(context: DriverContextView<P>, completed: readonly CompletedToolCall[]): readonly DriverAction<P>[];
  /** Called when a code cell finished or failed, with the calls it made. */
  handleExecResult(
    context: DriverContextView<P>,
    result: CodeFinished | CodeFailed,
    calls: readonly CellCall[],
    driverState: P["driverState"] | null,
  ): readonly DriverAction<P>[];
};

/**
 * A protocol for `engine({ protocol })`: a driver, its end condition, and the name and version by which a turn finds it
 * again. A turn is continued, in this process or in another one, with the version that it was started with. Raise the
 * version with every change after which the functions would return other actions for the same view; `earlier` keeps the
 * functions of older versions for turns that are still open.
 */
export type NamedProtocol<P extends TurnProtocol = TurnProtocol> = ProtocolDriver<P> & {
  /** Stored with each turn. Not empty, and not `chat` or `code`. */
  readonly name: string;
  /** Stored with each turn. A whole number from 1. */
  readonly version: number;
  /** The end condition, stored with each turn: functions get that of their turn from `context.termination`. */
  readonly termination: P["termination"];
  /** Older versions, which continue the turns that were started with them. New turns never use them. Default: none. */
  readonly earlier?: readonly NamedProtocol<P>[];
};

/**
 * An action that a protocol returns. Actions are applied in order; exactly one of them starts an effect or finishes the
 * turn.
 */
export type DriverAction<P extends TurnProtocol = TurnProtocol> =
  /** Emits an event to readers of the turn. */
  | { readonly type: "emit"; readonly event: TurnEvent }
  /** Appends messages to the history, and records of the protocol's own type. */
  | { readonly type: "append_events"; readonly messages: readonly Message[]; readonly events?: readonly P["event"][] }
  /** Ends the open step. At most once in a list. */
  | ({ readonly type: "end_step" } & StepEnd)
  /** Direction: call the model. */
  | {
      readonly type: "start_llm";
      readonly useTools: boolean;
      readonly overrides: JsonObject;
      readonly driverState: P["driverState"] | null;
    }
  /** Direction: run tool calls in parallel. At least one, each with a slot of its own. */
  | { readonly type: "start_tools"; readonly calls: readonly SlottedCall[] }
  /** Direction: run a code cell. Its calls become `call_tool` effects; `handleExecResult` gets its result. */
  | {
      readonly type: "start_exec";
      readonly language: string;
      readonly code: string;
      readonly driverState: P["driverState"] | null;
    }
  /**
   * Direction: ask the driver for a verdict and input. `onEmpty` says what the turn does if the driver adds no input.
   */
  | { readonly type: "start_checkpoint"; readonly checkpoint: CheckpointKind; readonly onEmpty: CheckpointResumeAction }
  /** Starts the next step. `free`: the step that ended made no model call and does not count against `maxTurns`. */
  | { readonly type: "advance_protocol_iteration"; readonly free: boolean }
  /**
   * If `maxTurns` is reached: allows one more model call (the grace turn) and appends this message before it. Once a
   * turn.
   */
  | { readonly type: "schedule_turn_limit_final"; readonly message: Message }
  /** Direction: end the turn. Later actions of the list are ignored. */
  | { readonly type: "finish"; readonly ending: Ending };

/** The view of a turn that protocol functions receive: the state before their own actions are applied. */
export class DriverContextView<P extends TurnProtocol = TurnProtocol> {
  readonly #project: (useTools: boolean) => ModelRequest;
  readonly #turn: Turn<P>;

  constructor(config: TurnMachineConfig<P>, turn: Turn<P>) {
    this.#project = (useTools) => config.projector.project({ config, turn, useTools, overrides: {} });
    this.#turn = turn;
  }

  /** The prefix of all ids of the turn. */
  get turnId(): string {
    return this.#turn.turnId;
  }

  /**
   * The kernel revision the turn was started under. A protocol that writes other texts than before branches on it (Q6).
   */
  get revision(): number {
    return this.#turn.revision;
  }

  /** The number of the open step. */
  get protocolIteration(): number {
    return this.#turn.step;
  }

  /** The step number from which `maxTurns` is counted. */
  get protocolRunOffset(): number {
    return this.#turn.runOffset;
  }

  /** The number of model calls the turn may make; `null`: no limit. */
  get maxTurns(): number | null {
    return this.#turn.policy.maxTurns;
  }

  /**
   * Where the caller wants the turn to end: `step` after one reply and its calls (the verb `step`), `reply` after one
   * reply, whose calls are pending (`generate`); `null`: at its end. The protocol of `chatProtocol()` reads it. The
   * machine ends a turn that does not: instead of a second model call, and with `reply` also instead of tool calls or a
   * cell, with the outcome `stop_after`.
   */
  get stopAfter(): TurnPolicy["stopAfter"] {
    return this.#turn.policy.stopAfter;
  }

  /** The protocol's own end condition. */
  get termination(): P["termination"] {
    return this.#turn.policy.termination;
  }

  /** No person can answer questions. */
  get autonomous(): boolean {
    return this.#turn.policy.autonomous;
  }

  /** Instructions, model, tools and settings of the current step. */
  get environment(): Turn["environment"] {
    return this.#turn.environment;
  }

  /** The grace turn was granted. A protocol that would start another model call has to finish instead. */
  get shouldForceExitAfterGraceTurn(): boolean {
    return this.#turn.graceTurn;
  }

  /** `maxTurns`, if it is reached and the grace turn has not been granted; otherwise `null`. */
  get turnLimitFinalToSchedule(): number | null {
    return isTurnLimitDue(this.#turn) ? this.maxTurns : null;
  }

  /** Is the open step the last one that `maxTurns` allows? */
  get isLastIteration(): boolean {
    return this.maxTurns !== null && this.protocolIteration + 1 >= this.protocolRunOffset + this.maxTurns;
  }

  /** The reply of the open step; `null` if the step has none. */
  get openReply(): ModelReply | null {
    return this.#turn.openReply;
  }

  /** The causes of the turn. */
  get turnCauses(): readonly TurnCause[] {
    return this.#turn.turnCauses;
  }

  /** Approved calls that have not been started. */
  get approved(): readonly ApprovedCall[] {
    return this.#turn.approved;
  }

  /**
   * The records of the protocol so far: those of earlier turns of the session, then those of this turn. Copies the
   * list: linear in its length.
   */
  events(): readonly P["event"][] {
    return itemsOf(this.#turn.events);
  }

  /** All messages of the history. Copies the list: linear in its length. `lastMessage` is constant. */
  messages(): readonly Message[] {
    return itemsOf(this.#turn.history);
  }

  /** The last message of the history; `null` if it is empty. */
  get lastMessage(): Message | null {
    return this.#turn.history.entries[this.#turn.history.length - 1] ?? null;
  }

  /** The request that a model call would send now. */
  projectLlmRequest(useTools: boolean): ModelRequest {
    return this.#project(useTools);
  }
}

/** Has the turn made all model calls that `maxTurns` allows, with no grace turn granted yet? */
export function isTurnLimitDue({ policy, graceTurn, step, runOffset }: Turn<TurnProtocol>): boolean {
  return !graceTurn && policy.maxTurns !== null && step >= runOffset + policy.maxTurns;
}

/**
 * Computes the request of a model call from the turn. It must be pure: the request is not stored and is computed again
 * on every attempt and replay.
 */
export type ContextProjector<P extends TurnProtocol = TurnProtocol> = {
  /** Returns the request for the next model call of the turn. */
  project(context: ProjectorContext<P>): ModelRequest;
};

/**
 * A projector for `engine({ projector })`, with the name and version by which a turn finds it again. Raise the version
 * with every change of its requests, and keep the older one in `earlier` while turns that were started with it are
 * open.
 */
export type NamedProjector<P extends TurnProtocol = TurnProtocol> = ContextProjector<P> & {
  /** Stored with each turn. Not empty. */
  readonly name: string;
  /** Stored with each turn. A whole number from 1. */
  readonly version: number;
  /** Older versions, which build the requests of turns that were started with them. Default: none. */
  readonly earlier?: readonly NamedProjector<P>[];
};

/** The input of a {@link ContextProjector}. */
export type ProjectorContext<P extends TurnProtocol = TurnProtocol> = {
  /** The part of the configuration that is data. */
  readonly config: TurnSettings<P>;
  /** The turn that waits for the model. */
  readonly turn: Turn<P>;
  /** False: the request must offer no tools. */
  readonly useTools: boolean;
  /** Settings of this request only; they override those of the environment. */
  readonly overrides: JsonObject;
};
