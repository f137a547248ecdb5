// Turn causes. The kernel renders them (core/kernel/history/turn-cause.ts); hooks of an engine return them; the runtime
// stores them in its inbox.

import type { Infer, Shape } from "../parse/shape.ts";

import { originShape } from "../message/origin.ts";
import { object, required, string } from "../parse/shape.ts";

const turnCauseFields = {
  /** Identifies the cause. A cause that is delivered twice is added once. */
  id: required(string),
  /** The type of the event, such as `mail.new`. It is part of the text the model reads. */
  eventType: required(string),
  /** Where the event came from. */
  origin: required(originShape),
  /** The event as text for the model. */
  text: required(string),
};

/** An event outside the conversation that starts or joins a turn. */
export type TurnCause = Infer<typeof turnCauseFields>;

export const turnCauseShape: Shape<TurnCause> = object(turnCauseFields);
