// What a reply means is a protocol's to say: four pure functions that look at a turn and answer with a list of actions. The machine
// applies them. A list that leads nowhere, or in two directions, fails the turn with a typed error instead of stalling it.

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
import type { CodeFailed, CodeFinished } from "../machine/effect.ts";
import type {
  ApprovedCall,
  CheckpointResumeAction,
  CompletedToolCall,
  Ending,
  SlottedCall,
  StepEnd,
  Turn,
  TurnMachineConfig,
  TurnSettings,
} from "../machine/turn.ts";

import { itemsOf } from "../history/shared-list.ts";

/** The types of a protocol's own data: records, end condition, driver state. */
export type TurnProtocol = { readonly event: Json; readonly termination: Json; readonly driverState: Json };

/** A protocol without records and without an end condition of its own, such as the chat and code protocols. */
export type UnitTurnProtocol = { readonly event: null; readonly termination: null; readonly driverState: Json };

/**
 * Defines what a model reply means, as four functions of the turn and what happened. They must be pure, because a
 * turn is replayed through them.
 *
 * @example
 * ```ts
 * import type { ProtocolDriver } from "everturn/kernel";
 * import { chatProtocol, protocolConfig } from "everturn/kernel";
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
export type ProtocolDriver<P extends TurnProtocol = UnitTurnProtocol> = {
  /** A new step may begin. */
  readonly prepareProtocolIteration: (context: DriverContextView<P>) => readonly DriverAction<P>[];
  /** The model answered, and the answer does not end the turn by itself. */
  readonly handleLlmSuccess: (
    context: DriverContextView<P>,
    reply: ModelReply,
    driverState: P["driverState"] | null,
  ) => readonly DriverAction<P>[];
  /** All calls of a batch have been answered; once, in call order. */
  readonly handleToolResults: (
    context: DriverContextView<P>,
    completed: readonly CompletedToolCall[],
  ) => readonly DriverAction<P>[];
  /** A cell of code has come to its end, and these are the calls it made on the way. */
  readonly handleExecResult: (
    context: DriverContextView<P>,
    result: CodeFinished | CodeFailed,
    calls: readonly CellCall[],
    driverState: P["driverState"] | null,
  ) => readonly DriverAction<P>[];
};

/** What a protocol makes the machine do. Actions are applied in order. */
export type DriverAction<P extends TurnProtocol = UnitTurnProtocol> =
  | { readonly type: "emit"; readonly event: TurnEvent }
  /** Adds to history, and to the protocol's own records. */
  | { readonly type: "append_events"; readonly messages: readonly Message[]; readonly events?: readonly P["event"][] }
  /** The step is over. */
  | ({ readonly type: "end_step" } & StepEnd)
  | {
      readonly type: "start_llm";
      readonly useTools: boolean;
      readonly overrides: JsonObject;
      readonly driverState: P["driverState"] | null;
    }
  | { readonly type: "start_tools"; readonly calls: readonly SlottedCall[] }
  | {
      readonly type: "start_exec";
      readonly language: string;
      readonly code: string;
      readonly driverState: P["driverState"] | null;
    }
  | { readonly type: "start_checkpoint"; readonly checkpoint: CheckpointKind; readonly onEmpty: CheckpointResumeAction }
  /** On to the next step; one that asked no model does not count against the limit. */
  | { readonly type: "advance_protocol_iteration"; readonly free: boolean }
  /** If the limit has been reached: one more call, which is told so with this message. Once a turn. */
  | { readonly type: "schedule_turn_limit_final"; readonly message: Message }
  | { readonly type: "finish"; readonly ending: Ending };

/** What a protocol can read: the turn before the protocol's own actions are applied. */
export class DriverContextView<P extends TurnProtocol = UnitTurnProtocol> {
  readonly #project: (useTools: boolean) => ModelRequest;
  readonly #turn: Turn<P>;

  constructor(config: TurnMachineConfig<P>, turn: Turn<P>) {
    this.#project = (useTools) => config.projector.project({ config, turn, useTools, overrides: {} });
    this.#turn = turn;
  }

  get turnId(): string {
    return this.#turn.turnId;
  }

  get protocolIteration(): number {
    return this.#turn.step;
  }

  get protocolRunOffset(): number {
    return this.#turn.runOffset;
  }

  get maxTurns(): number | null {
    return this.#turn.policy.maxTurns;
  }

  get termination(): P["termination"] {
    return this.#turn.policy.termination;
  }

  get autonomous(): boolean {
    return this.#turn.policy.autonomous;
  }

  get environment(): Turn["environment"] {
    return this.#turn.environment;
  }

  /** The one call beyond the limit has been made: whatever would start another ends the turn. */
  get shouldForceExitAfterGraceTurn(): boolean {
    return this.#turn.graceTurn;
  }

  /** The limit that has been reached, if one has and the call beyond it has not been granted yet. */
  get turnLimitFinalToSchedule(): number | null {
    return isTurnLimitDue(this.#turn) ? this.maxTurns : null;
  }

  /** Would the step after this one be one too many? */
  get isLastIteration(): boolean {
    return this.maxTurns !== null && this.protocolIteration + 1 >= this.protocolRunOffset + this.maxTurns;
  }

  /** The reply of the step that is open. */
  get openReply(): ModelReply | null {
    return this.#turn.openReply;
  }

  get turnCauses(): readonly TurnCause[] {
    return this.#turn.turnCauses;
  }

  get approved(): readonly ApprovedCall[] {
    return this.#turn.approved;
  }

  /** The protocol's own records so far. A copy. */
  events(): readonly P["event"][] {
    return itemsOf(this.#turn.events);
  }

  /** The messages of the turn so far. A copy: ask for it only if you need them all. */
  messages(): readonly Message[] {
    return itemsOf(this.#turn.history);
  }

  get lastMessage(): Message | null {
    return this.#turn.history.entries[this.#turn.history.length - 1] ?? null;
  }

  projectLlmRequest(useTools: boolean): ModelRequest {
    return this.#project(useTools);
  }
}

/** Would another step be one too many? */
export function isTurnLimitDue({ policy, graceTurn, step, runOffset }: Turn<TurnProtocol>): boolean {
  return !graceTurn && policy.maxTurns !== null && step >= runOffset + policy.maxTurns;
}

/** Computes the request of a model call. It must be pure: it is called again whenever the request is needed again. */
export type ContextProjector<P extends TurnProtocol = UnitTurnProtocol> = {
  readonly project: (context: ProjectorContext<P>) => ModelRequest;
};

/** The input of a {@link ContextProjector}. */
export type ProjectorContext<P extends TurnProtocol = UnitTurnProtocol> = {
  readonly config: TurnSettings<P>;
  readonly turn: Turn<P>;
  readonly useTools: boolean;
  readonly overrides: JsonObject;
};
