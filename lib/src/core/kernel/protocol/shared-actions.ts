// Actions and message ids that the chat protocol and the code protocol share.

import type { TurnOutcome } from "../../model/internal.ts";
import type { DriverAction as Action, DriverContextView, TurnProtocol } from "./protocol.ts";

import { ending, maxTurnsEnding } from "./ending.ts";

/** What the built-in protocols see of a turn. They read nothing that a protocol built on them may add to it. */
export type Context = DriverContextView<TurnProtocol>;
/**
 * What the built-in protocols do: they emit no events of their own and keep no driver state, so they fit every protocol
 * built on them.
 */
export type DriverAction = Action<{ event: never; termination: never; driverState: never }>;

/** Ends the turn with nothing pending. */
export function finish(outcome: TurnOutcome): Extract<DriverAction, { readonly type: "finish" }> {
  return { type: "finish", ending: ending(outcome) };
}

/** Ends the turn, unless the driver has input for it at the `before_completion` checkpoint. */
export function complete(outcome: TurnOutcome): DriverAction {
  return { type: "start_checkpoint", checkpoint: "before_completion", onEmpty: finish(outcome) };
}

/**
 * Starts the next step after the `after_work` checkpoint, or ends the turn at `maxTurns`. `free`: the work came before
 * the first model call of the turn and does not count against the limit.
 */
export function nextIteration(context: Context, free: boolean): readonly DriverAction[] {
  return [
    { type: "advance_protocol_iteration", free },
    {
      type: "start_checkpoint",
      checkpoint: "after_work",
      onEmpty:
        !free && context.isLastIteration
          ? { type: "finish", ending: maxTurnsEnding(context.maxTurns) }
          : { type: "prepare_iteration" },
    },
  ];
}

/**
 * Continues after a reply that the provider paused (`pause_turn` of Anthropic): the next request ends with the reply,
 * and the model goes on with it. Each pause is a model call that counts against `maxTurns`.
 */
export function continuePaused(context: Context, stopsAfterStep: boolean): readonly DriverAction[] {
  return stopsAfterStep ? [finish({ type: "stop_after" })] : nextIteration(context, false);
}

/**
 * The options of a protocol, with `stopAfter` of the turn's configuration if they have none: a protocol that wraps this
 * one is built before the turn is known.
 */
export function stoppingWhere<Options extends { readonly stopAfter: Context["stopAfter"] }>(
  options: Options,
  { stopAfter }: Context,
): Options {
  return options.stopAfter !== null || stopAfter === null ? options : { ...options, stopAfter };
}

/** The id of a message of the open step: `<turn>/<step>/<name>`. */
export function messageId({ turnId, protocolIteration }: Context, name: string): string {
  return `${turnId}/${protocolIteration}/${name}`;
}
