// The error for a request that a codec refuses before anything is sent.

import type { ProviderRoute } from "../model/internal.ts";

import { AdapterError } from "../model/internal.ts";

/** The error for content that the API cannot take. `message` follows the name of the provider. */
export function requestError(
  message: string,
  { provider }: ProviderRoute,
  reason: "unsupported_feature" | "invalid_request" = "unsupported_feature",
): AdapterError {
  return new AdapterError(reason, { provider, message: `${provider}: ${message}` });
}
