// What a provider needs back to go on where it left off: signatures, encrypted reasoning, item ids. Opaque to us.

import type { Json } from "../parse/json.ts";
import type { Shape } from "../parse/shape.ts";

import { json, object, required, string } from "../parse/shape.ts";

/**
 * Opaque data of a provider about one part of a message, such as a signature. It is returned byte for byte to the
 * same provider, endpoint and model, and to no other (W4). `model` is the model that was requested, not the dated
 * name in the provider's response.
 */
export type ProviderReplay = {
  readonly provider: string;
  readonly endpoint: string;
  readonly model: string;
  readonly data: Json;
};

/** The way a call takes: what decides whether replay data may go back. */
export type ProviderRoute = Omit<ProviderReplay, "data">;

const routeFields = { provider: required(string), endpoint: required(string), model: required(string) };

export const providerRouteShape: Shape<ProviderRoute> = object<ProviderRoute>(routeFields);

export const providerReplayShape: Shape<ProviderReplay> = object<ProviderReplay>({
  ...routeFields,
  data: required(json),
});

/** What may be sent of a part's replay data, and if nothing, why. */
export type ReplayVerdict =
  | { readonly type: "replay"; readonly data: Json }
  | { readonly type: "none" }
  | { readonly type: "foreign_route" };

/**
 * Returns the replay data of a part if it belongs to this route. Data of another provider, endpoint or model is never sent: the verdict is
 * `foreign_route`.
 */
export function replayFor(replay: ProviderReplay | null, route: ProviderRoute): ReplayVerdict {
  if (replay === null) return { type: "none" };
  const same = replay.provider === route.provider && replay.endpoint === route.endpoint && replay.model === route.model;
  return same ? { type: "replay", data: replay.data } : { type: "foreign_route" };
}
