// Adds the input of a checkpoint to a turn.

import type { Message } from "../../model/internal.ts";
import type { TurnProtocol } from "../protocol/protocol.ts";
import type { CheckpointDelivery } from "./response.ts";
import type { TransitionBuilder } from "./transition-builder.ts";

import { isShown } from "../history/prompt.ts";

/** Adds delivered input and leaves out messages that a driver may not deliver. Returns false if nothing was added. */
export function deliver<P extends TurnProtocol>(
  builder: TransitionBuilder<P>,
  { messages, transientMessages, turnCauses }: CheckpointDelivery,
  checkpoint: string,
): boolean {
  const allowed = messages.filter(mayBeDelivered);
  const allowedTransient = transientMessages.filter(mayBeDelivered);
  builder.addInput(allowed, `${builder.turn.step}/${checkpoint}`);
  builder.addTransient(allowedTransient);
  return builder.addCauses(turnCauses) || allowed.length > 0 || allowedTransient.length > 0;
}

/** Adds the input of `before_turn` that waited for the calls or the cell that the turn resumes. */
export function deliverDeferred<P extends TurnProtocol>(builder: TransitionBuilder<P>): void {
  const { deferredInput } = builder.turn;
  // Truthiness: a turn that an older release stored has no such field.
  if (!deferredInput) return;
  builder.update({ deferredInput: null });
  deliver(builder, deferredInput, "before_turn");
}

/**
 * A driver may deliver user and system messages, not assistant or tool messages; a message that renders to nothing does
 * not count as input.
 */
function mayBeDelivered(message: Message): boolean {
  return (message.role === "user" || message.role === "system") && isShown(message);
}
