// Where a fork comes from, as `fork` stores it in the metadata of the new session.

import type { ForkOrigin, Json, JsonObject } from "../../core/model/internal.ts";

import { isPlainObject } from "../../core/model/parse/reading.ts";

/** The metadata of a fork that names its origin. */
export function forkMetadata({ sessionId, at }: ForkOrigin): { readonly forkedFrom: JsonObject } {
  return { forkedFrom: { sessionId, at } };
}

/**
 * Reads the origin of a session from its metadata; `null`: the session is no fork, or a program has written something
 * else there.
 */
export function forkOriginOf({ forkedFrom = null }: { readonly forkedFrom?: Json }): ForkOrigin | null {
  if (!isPlainObject(forkedFrom)) return null;
  const { sessionId, at } = forkedFrom;
  return typeof sessionId === "string" && typeof at === "number" && Number.isSafeInteger(at) && at >= 0
    ? { sessionId, at }
    : null;
}
