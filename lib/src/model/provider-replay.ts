// What a provider needs back to go on where it left off: signatures, encrypted reasoning, item ids. Opaque to us.

import type { Json } from "./json.ts";
import type { Shape } from "./shape.ts";

import { json, object, required, string } from "./shape.ts";

/**
 * Data of one provider about one part of a message, stamped with the route it came by. It goes back byte for byte to the
 * same provider, endpoint and model, and to no other (W4).
 */
export type ProviderReplay = {
  readonly provider: string;
  readonly endpoint: string;
  readonly model: string;
  readonly data: Json;
};

/** The way a call takes: what decides whether replay data may go back. */
export type ProviderRoute = Omit<ProviderReplay, "data">;

export const providerReplayShape: Shape<ProviderReplay> = object<ProviderReplay>({
  provider: required(string),
  endpoint: required(string),
  model: required(string),
  data: required(json),
});

/**
 * The replay data that belongs on this route, or `null`.
 *
 * @example
 * ```ts
 * import { replayFor } from "everturn/model";
 *
 * const here = { provider: "anthropic", endpoint: "messages", model: "claude" };
 * const replay = { ...here, data: { signature: "EqQB" } };
 * replayFor(replay, here); // => { signature: "EqQB" }
 * replayFor(replay, { ...here, model: "another" }); // => null
 * ```
 */
export function replayFor(replay: ProviderReplay | null, route: ProviderRoute): Json {
  if (replay === null) return null;
  const same = replay.provider === route.provider && replay.endpoint === route.endpoint && replay.model === route.model;
  return same ? replay.data : null;
}
