// `TurnMachine`: the reducer behind a poll interface, for programs that drive turns without the loop of run/.
//
// A driver calls `pollEffect` until it returns `null`, performs the effects it got, and passes each response to
// `handleResponse`. Besides the turn the machine holds only notices that were not polled yet and effects that were not
// handed out yet. The effects are not part of a checkpoint: a restored machine derives them from the turn and hands all
// of them out again (redelivery, K2).

import type { CellCall, Failure, ModelRequest } from "../../model/internal.ts";
import type { TurnProtocol } from "../protocol/protocol.ts";
import type { CallModel, Compact, CountTokens, Effect, RunCode } from "./effect.ts";
import type { Cancellation } from "./input.ts";
import type { EffectResponse } from "./response.ts";
import type { Notice, ResponseStatus, Transition, Turn, TurnInput, TurnMachineConfig } from "./turn.ts";

import { projectRequest, projectSummaryRequest } from "../history/projector.ts";
import { isSameBatch, pendingEffects } from "./pending-effects.ts";
import { readCheckpoint } from "./read-checkpoint.ts";
import { completeResponse } from "./read-response.ts";
import { advance, cancelTurn, failTurn, responseStatus, startTurn } from "./reducer.ts";
import { cellCalls, storableTurn } from "./turn.ts";

/**
 * A notice, or an effect to perform. A model call, a compaction and a count of tokens carry their request, a code cell
 * the calls it made so far.
 */
export type Polled<P extends TurnProtocol = TurnProtocol> =
  | Notice<P>
  | Exclude<Effect, CallModel | Compact | CountTokens | RunCode>
  | ((CallModel | Compact | CountTokens) & { readonly request: ModelRequest })
  | (RunCode & { readonly calls: readonly CellCall[] });

/** The stored form of a machine: the turn, and the notices that were not polled yet. Plain JSON. */
export type MachineCheckpoint<P extends TurnProtocol = TurnProtocol> = {
  readonly turn: Turn<P>;
  readonly notices: readonly Notice<P>[];
};

/**
 * The turn machine: poll it for effects and notices, and hand in responses. It is pure: it performs no I/O and
 * reads no clock (K1). A checkpoint is plain JSON; `restore` continues from it with the same behaviour (K3).
 */
export class TurnMachine<P extends TurnProtocol = TurnProtocol> {
  readonly #config: TurnMachineConfig<P>;
  #turn: Turn<P>;
  #notices: readonly Notice<P>[];
  /** Effects that have not been handed out, the next one last, so that taking it is a `pop`. */
  #open: Effect[];

  private constructor(config: TurnMachineConfig<P>, { turn, notices }: MachineCheckpoint<P>) {
    this.#config = config;
    this.#turn = turn;
    this.#notices = notices;
    this.#open = pendingEffects(turn).toReversed();
  }

  /** Starts a turn. */
  static start<P extends TurnProtocol>(config: TurnMachineConfig<P>, input: TurnInput<P["event"]>): TurnMachine<P> {
    return new TurnMachine(config, startTurn(config, input));
  }

  /**
   * Continues from a checkpoint. The configuration must name the same protocol and projector. A field that the
   * checkpoint of an older release lacks has its default; a checkpoint without a field that has none throws
   * `MisuseError` (`invalid_argument`), which names the field.
   */
  static restore<P extends TurnProtocol>(
    config: TurnMachineConfig<P>,
    checkpoint: MachineCheckpoint<P>,
  ): TurnMachine<P> {
    return new TurnMachine(config, readCheckpoint(checkpoint));
  }

  /** The current state of the turn. */
  get turn(): Turn<P> {
    return this.#turn;
  }

  /** The turn has ended and all its notices were polled. */
  get isDone(): boolean {
    return this.#turn.phase.type === "ended" && this.#notices.length === 0;
  }

  /** The next notice or effect, notices first; `null` while the machine waits for responses, and when it is done. */
  pollEffect(): Polled<P> | null {
    const [notice, ...later] = this.#notices;
    if (notice !== undefined) {
      this.#notices = later;
      return notice;
    }
    const effect = this.#open.pop();
    if (effect === undefined) return null;
    if (effect.type === "call_model" || effect.type === "count_tokens")
      return { ...effect, request: projectRequest(this.#config, this.#turn) };
    if (effect.type === "compact") return { ...effect, request: projectSummaryRequest(this.#config, this.#turn) };
    return effect.type === "run_code" ? { ...effect, calls: cellCalls(this.#turn) } : effect;
  }

  /**
   * Applies a response. `stale` and `wrong_kind` mean that nothing changed (K4). A response that an older release
   * recorded may lack fields, which then have their defaults. Throws `MisuseError` (`invalid_argument`), which names
   * the field, for an awaited response whose fields have another type.
   */
  handleResponse(response: EffectResponse): ResponseStatus {
    const status = responseStatus(this.#turn, response);
    if (status !== "accepted") return status;
    return this.#accept(advance(this.#config, this.#turn, completeResponse(response)));
  }

  /** Ends the turn as cancelled. */
  cancel(cancellation: Cancellation): ResponseStatus {
    return this.#accept(cancelTurn(this.#config, this.#turn, cancellation));
  }

  /** Ends the turn with a failure of the driver. */
  fail(failure: Failure): ResponseStatus {
    return this.#accept(failTurn(this.#config, this.#turn, failure));
  }

  /** The state to store. The machine may continue afterwards. */
  checkpoint(): MachineCheckpoint<P> {
    return { turn: storableTurn(this.#turn), notices: this.#notices };
  }

  #accept({ turn, notices, status }: Transition<P>): ResponseStatus {
    // While a batch of calls is open, its remaining effects are in `#open` or were handed out: deriving them again
    // would deliver them twice.
    const isBatchOpen = isSameBatch(this.#turn, turn);
    this.#turn = turn;
    if (status === "accepted" && !isBatchOpen) this.#open = pendingEffects(turn).toReversed();
    this.#notices = [...this.#notices, ...notices];
    return status;
  }
}
