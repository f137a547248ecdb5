// Warnings of a model call: what of the request the provider did not get as the caller wrote it. The codecs of `wire/`
// find them while they encode a request (`Omission`); the adapter emits them as `warning` events, and the collector
// keeps them in the reply.

import type { Infer, Shape } from "../parse/shape.ts";

import { object, oneOf, required, string } from "../parse/shape.ts";

export const warningReasons = ["unsupported", "repaired"] as const;

const warningFields = {
  /**
   * `unsupported`: the API or the model has no field for it. `repaired`: the history could not be sent as it is, and
   * was changed.
   */
  reason: required(oneOf(warningReasons)),
  /** The part of the request, for example `seed` or `messages[1].content[0]`. */
  path: required(string),
  /** One sentence: what was not sent, and why. For people; its wording may change. */
  message: required(string),
};

/**
 * Something in a request that was not sent to the provider, or was sent in another form. The call was made
 * nevertheless. A field of {@link ModelReply} and of the event `warning`.
 */
export type Warning = Infer<typeof warningFields>;

export const warningShape: Shape<Warning> = object(warningFields);
