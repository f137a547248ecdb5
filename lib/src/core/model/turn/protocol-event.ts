// A record of a protocol of one's own, as results and sessions keep it.

import type { Infer, Shape } from "../parse/shape.ts";

import { json, object, required, string } from "../parse/shape.ts";

const protocolEventFields = {
  /** The name of the protocol. */
  protocol: required(string),
  /** The record, in the protocol's own form. */
  event: required(json),
};

/**
 * A record that a protocol of one's own appended. A protocol gets the records with its own name in later turns of the
 * session.
 */
export type ProtocolEvent = Infer<typeof protocolEventFields>;

export const protocolEventShape: Shape<ProtocolEvent> = object(protocolEventFields);
