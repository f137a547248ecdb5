// The machine with lash's face: poll for what to do, hand in what came of it.

import type { ModelRequest } from "../model/index.ts";
import type { Effect, EffectResponse } from "./effect.ts";
import type { Cancellation, Notice, ResponseStatus, Transition, Turn, TurnInput, TurnMachineConfig } from "./turn.ts";

import { trimHistory } from "./history.ts";
import { projectRequest } from "./projector.ts";
import { advance, cancelTurn, startTurn } from "./reducer.ts";
import { pendingEffects } from "./turn.ts";

/** Something for the host: to be told, or to be done and answered. A model call comes with its request. */
export type Polled =
  | Notice
  | Exclude<Effect, { readonly type: "call_model" }>
  | (Extract<Effect, { readonly type: "call_model" }> & { readonly request: ModelRequest });

/** Where a machine can go on from: the turn, and what the host has not been told yet. Plain JSON. */
export type MachineCheckpoint = { readonly turn: Turn; readonly notices: readonly Notice[] };

export class TurnMachine {
  readonly #config: TurnMachineConfig;
  #turn: Turn;
  #notices: readonly Notice[];
  /** Effects that have been handed out since the machine was made: a restored one hands them out again. */
  readonly #handed = new Set<string>();

  private constructor(config: TurnMachineConfig, { turn, notices }: MachineCheckpoint) {
    this.#config = config;
    this.#turn = turn;
    this.#notices = notices;
  }

  static start(config: TurnMachineConfig, input: TurnInput): TurnMachine {
    return new TurnMachine(config, startTurn(config, input));
  }

  static restore(config: TurnMachineConfig, checkpoint: MachineCheckpoint): TurnMachine {
    return new TurnMachine(config, checkpoint);
  }

  get turn(): Turn {
    return this.#turn;
  }

  get isDone(): boolean {
    return this.#turn.phase.type === "ended" && this.#notices.length === 0;
  }

  /** What to do next; `null` while the machine waits for an answer, and when it is done. */
  pollEffect(): Polled | null {
    const [notice, ...later] = this.#notices;
    if (notice !== undefined) {
      this.#notices = later;
      return notice;
    }
    const effect = pendingEffects(this.#turn).find(({ id }) => !this.#handed.has(id));
    if (effect === undefined) return null;
    const polled: Polled =
      effect.type === "call_model" ? { ...effect, request: projectRequest(this.#config, this.#turn) } : effect;
    this.#handed.add(effect.id);
    return polled;
  }

  handleResponse(response: EffectResponse): ResponseStatus {
    return this.#take(advance(this.#config, this.#turn, response));
  }

  cancel(cancellation: Cancellation): ResponseStatus {
    return this.#take(cancelTurn(this.#config, this.#turn, cancellation));
  }

  checkpoint(): MachineCheckpoint {
    return { turn: { ...this.#turn, history: trimHistory(this.#turn.history) }, notices: this.#notices };
  }

  #take({ turn, notices, status }: Transition): ResponseStatus {
    this.#turn = turn;
    this.#notices = [...this.#notices, ...notices];
    return status;
  }
}
