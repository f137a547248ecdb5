// The type of a turn cause. The kernel renders causes (core/kernel/history/turn-cause.ts); hooks of an engine return them.

import type { MessageOrigin } from "../message/origin.ts";

/** An event outside the conversation that starts or joins a turn. */
export type TurnCause = {
  /** Identifies the cause. A cause that is delivered twice is added once. */
  readonly id: string;
  /** The type of the event, such as `mail.new`. It is part of the text the model reads. */
  readonly eventType: string;
  /** Where the event came from. */
  readonly origin: MessageOrigin;
  /** The event as text for the model. */
  readonly text: string;
};
