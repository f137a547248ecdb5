// Provider replay data: what a provider needs back in a later request, such as reasoning signatures, encrypted
// reasoning and item ids. The library does not interpret it.
//
// Invariant (W4): the data goes back unchanged to the route it came from, and to no other. `replayFor` is the only
// check. Sending the data of one provider, endpoint or model to another makes the other reject the request, or
// discloses private data to it.

import type { Json } from "../parse/json.ts";
import type { Infer, Shape } from "../parse/shape.ts";

import { json, object, required, string } from "../parse/shape.ts";

const routeFields = {
  /** The provider that the data belongs to. */
  provider: required(string),
  /** The base URL and the API of that provider. */
  endpoint: required(string),
  /** The model that was requested. */
  model: required(string),
};

/** The route of a call: provider, endpoint and requested model. Replay data is bound to it. */
export type ProviderRoute = Infer<typeof routeFields>;

export const providerRouteShape: Shape<ProviderRoute> = object(routeFields);

const providerReplayFields = {
  ...routeFields,
  /** The provider's data, unchanged. */
  data: required(json),
};

/**
 * Opaque data of a provider about one part of a message, such as a signature. It is returned byte for byte to the
 * same provider, endpoint and model, and to no other (W4). `model` is the model that was requested, not the dated
 * name in the provider's response.
 */
export type ProviderReplay = Infer<typeof providerReplayFields>;

export const providerReplayShape: Shape<ProviderReplay> = object(providerReplayFields);

/**
 * Whether replay data may be sent on a route. `none`: there is no data. `foreign_route`: it belongs to another route.
 */
export type ReplayVerdict =
  | { readonly type: "replay"; readonly data: Json }
  | { readonly type: "none" }
  | { readonly type: "foreign_route" };

/** Returns the replay data of a part if it belongs to this route. */
export function replayFor(replay: ProviderReplay | null, route: ProviderRoute): ReplayVerdict {
  if (replay === null) return { type: "none" };
  const same = replay.provider === route.provider && replay.endpoint === route.endpoint && replay.model === route.model;
  return same ? { type: "replay", data: replay.data } : { type: "foreign_route" };
}
