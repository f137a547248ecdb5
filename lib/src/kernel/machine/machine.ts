// The machine with lash's face: poll for what to do, hand in what came of it.

import type { CellCall, Failure, ModelRequest } from "../../model/internal.ts";
import type { TurnProtocol, UnitTurnProtocol } from "../protocol/protocol.ts";
import type { CallModel, Effect, EffectResponse, RunCode } from "./effect.ts";
import type { Cancellation, Notice, ResponseStatus, Transition, Turn, TurnInput, TurnMachineConfig } from "./turn.ts";

import { projectRequest } from "../history/projector.ts";
import { advance, cancelTurn, failTurn, startTurn } from "./reducer.ts";
import { cellCalls, isSameBatch, pendingEffects, storableTurn } from "./turn.ts";

/** Something for the host: to be told, or to be done and answered. A model call comes with its request, a cell with its calls. */
type Polled<P extends TurnProtocol = UnitTurnProtocol> =
  | Notice<P>
  | Exclude<Effect, CallModel | RunCode>
  | (CallModel & { readonly request: ModelRequest })
  | (RunCode & { readonly calls: readonly CellCall[] });

/** Where a machine can go on from: the turn, and what the host has not been told yet. Plain JSON. */
type MachineCheckpoint<P extends TurnProtocol = UnitTurnProtocol> = {
  readonly turn: Turn<P>;
  readonly notices: readonly Notice<P>[];
};

/**
 * The turn machine: poll it for effects and notices, and hand in responses. It is pure: it performs no I/O and
 * reads no clock (K1). A checkpoint is plain JSON; `restore` continues from it with the same behaviour (K3).
 */
export class TurnMachine<P extends TurnProtocol = UnitTurnProtocol> {
  readonly #config: TurnMachineConfig<P>;
  #turn: Turn<P>;
  #notices: readonly Notice<P>[];
  /** Effects that have not been handed out, the next one last. A restored machine hands out all that are open. */
  #open: Effect[];

  private constructor(config: TurnMachineConfig<P>, { turn, notices }: MachineCheckpoint<P>) {
    this.#config = config;
    this.#turn = turn;
    this.#notices = notices;
    this.#open = pendingEffects(turn).toReversed();
  }

  static start<P extends TurnProtocol>(config: TurnMachineConfig<P>, input: TurnInput): TurnMachine<P> {
    return new TurnMachine(config, startTurn(config, input));
  }

  static restore<P extends TurnProtocol>(
    config: TurnMachineConfig<P>,
    checkpoint: MachineCheckpoint<P>,
  ): TurnMachine<P> {
    return new TurnMachine(config, checkpoint);
  }

  get turn(): Turn<P> {
    return this.#turn;
  }

  get isDone(): boolean {
    return this.#turn.phase.type === "ended" && this.#notices.length === 0;
  }

  /** What to do next; `null` while the machine waits for an answer, and when it is done. */
  pollEffect(): Polled<P> | null {
    const [notice, ...later] = this.#notices;
    if (notice !== undefined) {
      this.#notices = later;
      return notice;
    }
    const effect = this.#open.pop();
    if (effect === undefined) return null;
    if (effect.type === "call_model") return { ...effect, request: projectRequest(this.#config, this.#turn) };
    return effect.type === "run_code" ? { ...effect, calls: cellCalls(this.#turn) } : effect;
  }

  handleResponse(response: EffectResponse): ResponseStatus {
    return this.#take(advance(this.#config, this.#turn, response));
  }

  cancel(cancellation: Cancellation): ResponseStatus {
    return this.#take(cancelTurn(this.#config, this.#turn, cancellation));
  }

  /** Ends the turn because something on the host's side broke. */
  fail(failure: Failure): ResponseStatus {
    return this.#take(failTurn(this.#config, this.#turn, failure));
  }

  checkpoint(): MachineCheckpoint<P> {
    return { turn: storableTurn(this.#turn), notices: this.#notices };
  }

  #take({ turn, notices, status }: Transition<P>): ResponseStatus {
    // Nothing new is ordered while calls of the same batch are still out: what is left of it has been offered already.
    const goesOn = isSameBatch(this.#turn, turn);
    this.#turn = turn;
    if (status === "accepted" && !goesOn) this.#open = pendingEffects(turn).toReversed();
    this.#notices = [...this.#notices, ...notices];
    return status;
  }
}
