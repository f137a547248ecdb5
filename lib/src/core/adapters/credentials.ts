// The credential of a request: an API key in the header of the provider, or a bearer token (`authToken`). Resolved for
// every request and stored nowhere.

import type { AdapterCall } from "../engine/internal.ts";
import type { KeyHeader, ProviderOptions } from "./http-adapter.ts";

import { findKey } from "../engine/internal.ts";
import { EngineError } from "../model/internal.ts";
import { readDotenv } from "./dotenv.ts";

/** The key and the header that carries it. `key`: `null` if the server works without one and none is found. */
export type Credential = { readonly key: string | null; readonly auth: KeyHeader };

/** What the lookup of a key needs to know about a server. */
export type KeyOwner = {
  readonly provider: string;
  /** The header that carries the key. */
  readonly auth: KeyHeader;
  /** Environment variables that may hold the key, in order. */
  readonly variables: readonly string[];
  /** The server works without a key. Default: `false`. */
  readonly keyless?: boolean;
};

/**
 * Resolves the credential of a call. A key of the call wins over a token of the adapter. Throws `EngineError`
 * (`missing_key`).
 */
export async function credentialOf(owner: KeyOwner, options: ProviderOptions, call: AdapterCall): Promise<Credential> {
  const { provider, auth, variables, keyless = false } = owner;
  const { authToken } = options;
  if (authToken !== undefined && (call.apiKey ?? "").trim() === "") {
    const request = { provider, call: null, source: authToken, sourceName: "authToken", variables: [], dotenv: null };
    return { key: await findKey(request), auth: "bearer" };
  }
  const dotenv = options.dotenv === undefined || options.dotenv === false ? null : readDotenv(options.dotenv);
  try {
    const key = await findKey({ provider, call: call.apiKey, source: options.apiKey ?? null, variables, dotenv });
    return { key, auth };
  } catch (error) {
    // A cause: the function `apiKey` threw, which is no server without a key.
    const isMissing = error instanceof EngineError && error.reason === "missing_key" && error.failure.cause === null;
    if (keyless && isMissing) return { key: null, auth };
    throw error;
  }
}
