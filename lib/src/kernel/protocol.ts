// What a reply means is a protocol's to say: four pure functions that look at a turn and answer with a list of actions. The machine
// applies them. A list that leads nowhere, or in two directions, fails the turn with a typed error instead of stalling it.

import type { CheckpointKind, Json, JsonObject, Message, ModelReply, ModelRequest, TurnEvent } from "../model/index.ts";
import type { CodeFailed, CodeFinished } from "./effect.ts";
import type { TurnCause } from "./turn-cause.ts";
import type {
  ApprovedCall,
  CheckpointResumeAction,
  CompletedToolCall,
  Ending,
  SlottedCall,
  StepEnd,
  Turn,
  TurnMachineConfig,
} from "./turn.ts";

export type ProtocolDriver = {
  /** A new step may begin. */
  readonly prepareProtocolIteration: (context: DriverContextView) => readonly DriverAction[];
  /** The model answered, and the answer does not end the turn by itself. */
  readonly handleLlmSuccess: (
    context: DriverContextView,
    reply: ModelReply,
    driverState: Json,
  ) => readonly DriverAction[];
  /** All calls of a batch have been answered; once, in call order. */
  readonly handleToolResults: (
    context: DriverContextView,
    completed: readonly CompletedToolCall[],
    driverState: Json,
  ) => readonly DriverAction[];
  /** A cell of code has come to its end. */
  readonly handleExecResult: (
    context: DriverContextView,
    result: CodeFinished | CodeFailed,
    driverState: Json,
  ) => readonly DriverAction[];
};

export type DriverAction =
  | { readonly type: "emit"; readonly event: TurnEvent }
  /** Adds to history, and to the protocol's own records. */
  | { readonly type: "append_events"; readonly messages: readonly Message[]; readonly events?: readonly Json[] }
  /** The step is over. */
  | ({ readonly type: "end_step" } & StepEnd)
  | {
      readonly type: "start_llm";
      readonly useTools: boolean;
      readonly overrides: JsonObject;
      readonly driverState: Json;
    }
  | { readonly type: "start_tools"; readonly calls: readonly SlottedCall[]; readonly driverState: Json }
  | { readonly type: "start_exec"; readonly language: string; readonly code: string; readonly driverState: Json }
  | { readonly type: "start_checkpoint"; readonly checkpoint: CheckpointKind; readonly onEmpty: CheckpointResumeAction }
  /** On to the next step; one that asked no model does not count against the limit. */
  | { readonly type: "advance_protocol_iteration"; readonly free: boolean }
  | { readonly type: "finish"; readonly ending: Ending };

/** What a protocol may look at: the turn as it is before the protocol's own actions apply. */
export class DriverContextView {
  readonly config: TurnMachineConfig;
  readonly #turn: Turn;

  constructor(config: TurnMachineConfig, turn: Turn) {
    this.config = config;
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
    return this.config.maxTurns;
  }

  get termination(): Json {
    return this.config.termination;
  }

  get autonomous(): boolean {
    return this.config.autonomous;
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
    return turnLimitDue(this.config, this.#turn) ? this.config.maxTurns : null;
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

  get events(): readonly Json[] {
    return this.#turn.events;
  }

  /** The messages of the turn so far. A copy: ask for it only if you need them all. */
  messages(): readonly Message[] {
    return this.#turn.history.entries.slice(0, this.#turn.history.length);
  }

  get lastMessage(): Message | null {
    return this.#turn.history.entries[this.#turn.history.length - 1] ?? null;
  }

  projectLlmRequest(useTools: boolean): ModelRequest {
    return this.config.projector.project({ config: this.config, turn: this.#turn, useTools, overrides: {} });
  }
}

/** Would another step be one too many? */
export function turnLimitDue(config: TurnMachineConfig, turn: Turn): boolean {
  return !turn.graceTurn && config.maxTurns !== null && turn.step >= turn.runOffset + config.maxTurns;
}

export type ContextProjector = { readonly project: (context: ProjectorContext) => ModelRequest };

export type ProjectorContext = {
  readonly config: TurnMachineConfig;
  readonly turn: Turn;
  readonly useTools: boolean;
  readonly overrides: JsonObject;
};
