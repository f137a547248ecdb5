// A record of a protocol of one's own, as results and sessions keep it.

import type { Json } from "../parse/json.ts";
import type { Shape } from "../parse/shape.ts";

import { json, object, required, string } from "../parse/shape.ts";

/** A record that a protocol of one's own appended. A protocol gets the records with its own name in later turns of the session. */
export type ProtocolEvent = {
  /** The name of the protocol. */
  readonly protocol: string;
  /** The record, in the protocol's own form. */
  readonly event: Json;
};

export const protocolEventShape: Shape<ProtocolEvent> = object<ProtocolEvent>({
  protocol: required(string),
  event: required(json),
});
