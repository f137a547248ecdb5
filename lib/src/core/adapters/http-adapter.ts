// The HTTP adapter: a codec, a server and a key become an `Adapter`. Every chat provider (openai, anthropic, gemini,
// the presets) is this function with another `ProviderProfile`.
//
// This file has what is checked before a call: base URL, timeouts, model name, options. The first call loads the codec
// of the API (core/wire/codec-loaders.ts); http-call.ts makes calls.

import type { Adapter, AdapterCall, FetchLike, KeySource, Timeouts, TransportLimits } from "../engine/internal.ts";
import type { ModelEvent, ModelRequest } from "../model/internal.ts";
import type { CodecLoader, EncodedRequest, Quirks } from "../wire/internal.ts";
import type { KnownServer } from "./base-url.ts";
import type { McpPlace } from "./mcp-authorization.ts";
import type { ModelOwner } from "./model-name.ts";

import { defaultLimits, defaultTimeouts } from "../engine/internal.ts";
import { noQuirks } from "../wire/internal.ts";
import { resolveBaseURL } from "./base-url.ts";
import { checkCallOptions } from "./call-options.ts";
import { cancelReply, countTokens, encodedRequest, resumeReply, streamReply } from "./http-call.ts";
import { requiredModelName } from "./model-name.ts";
import { ReplyLimit } from "./reply-limit.ts";
import { checkUserContent } from "./user-content.ts";

/** Options of every provider adapter. */
export type ProviderOptions = {
  /**
   * The API key, or a function that returns it for each call. Default: an environment variable of the provider.
   * Never stored.
   */
  readonly apiKey?: KeySource;
  /**
   * A bearer token in place of the API key, or a function that returns it for each call: a token of Entra ID for
   * `azure`, of Google's OAuth for Vertex AI. Sent as `Authorization: Bearer …`. Environment variables are not searched
   * then. Default: none. Never stored.
   */
  readonly authToken?: KeySource;
  /**
   * The base URL of the API. Default: an environment variable of the provider (`OPENAI_BASE_URL`, `ANTHROPIC_BASE_URL`,
   * …), then its public server.
   */
  readonly baseURL?: string;
  /**
   * Additional headers of every request. They override the adapter's own headers of the same name, in any letter case.
   */
  readonly headers?: { readonly [name: string]: string };
  /** The fetch implementation. Default: the global `fetch`, or on Node the dispatcher behind it. */
  readonly fetch?: FetchLike;
  /**
   * In milliseconds. Defaults: `connect` 60,000, `firstByte` 120,000, `betweenChunks` 60,000, `total` without a
   * limit.
   */
  readonly timeouts?: Partial<Timeouts>;
  /** Limits on the size of responses and streams. */
  readonly limits?: Partial<TransportLimits>;
  /**
   * Reads the key from this `.env` file if it is in no environment variable; `true`: from the one in the working
   * directory. Off by default.
   */
  readonly dotenv?: boolean | string;
};

/** A provider as data. `provider` is the name in routes, failures and key lookups. */
export type ProviderProfile = KnownServer &
  ModelOwner & {
    /** Loaded by the first call. */
    readonly codec: CodecLoader;
    readonly quirks?: Quirks;
    /** A query that is appended to every path, with its `?`. */
    readonly query?: string;
    /**
     * The model name that is sent in place of that of the request: the name of a deployment. Default: the name of the
     * request.
     */
    readonly sentModel?: string;
    /** Does the model need a second call for structured output? */
    readonly needsFinalize?: (request: ModelRequest) => boolean;
    /** Start responses in the background unless a request decides. Default: `false`. */
    readonly background?: boolean;
    /** Where the API lists MCP servers, and the sources of their tokens. Default: it calls none. */
    readonly mcp?: McpPlace & { readonly sources: { readonly [server: string]: KeySource } };
    /**
     * Changes the encoded request of a server whose paths or bodies differ from the API. `model` is the requested
     * model. Default: nothing is changed.
     */
    readonly rewrite?: (encoded: EncodedRequest, model: string) => EncodedRequest;
    /** The header for beta features, in lower case. Default: the provider has none. */
    readonly betaHeader?: string;
  };

/** The header that carries the key. `bearer`: `Authorization: Bearer <key>`. */
export type KeyHeader = "bearer" | "x-api-key" | "x-goog-api-key" | "api-key";

/** A provider with the options of its adapter, checked. */
export type Server = {
  readonly profile: ProviderProfile;
  readonly options: ProviderOptions;
  readonly baseURL: string;
  readonly timeouts: Timeouts;
  readonly quirks: Quirks;
};

/** Creates the adapter of a provider. Throws `MisuseError` for an invalid `baseURL` or timeout. */
export function httpAdapter(profile: ProviderProfile, options: ProviderOptions = {}): Adapter {
  const { provider, quirks = noQuirks, needsFinalize } = profile;
  const baseURL = resolveBaseURL(provider, options.baseURL, profile);
  const timeouts = resolveTimeouts(options.timeouts);
  const server: Server = { profile, options, baseURL, timeouts, quirks };
  return {
    provider,
    // Of deployments at one URL, each is a server of its own.
    endpoint: `${baseURL}${profile.query ?? ""}${profile.sentModel === undefined ? "" : `#${profile.sentModel}`}`,
    checkModel: (model, options = {}) => void requiredModelName(profile, model, options),
    ...(needsFinalize === undefined ? {} : { needsFinalize }),
    checkOptions: (options) => checkCallOptions(provider, options),
    stream: (request, call) =>
      batchesOf(server, async () => {
        checkUserContent(request);
        return streamReply(server, await server.profile.codec.load(), request, call);
      }),
    encode: async (request) => encodedRequest(server, await profile.codec.load(), request),
    ...(profile.codec.hasBackground ? backgroundMethods(server) : {}),
    // A server with other paths than the API has no such endpoint.
    ...(profile.codec.countsTokens && profile.rewrite === undefined
      ? {
          countTokens: async (request: ModelRequest, call: AdapterCall) => {
            return countTokens(server, await profile.codec.load(), request, call);
          },
        }
      : {}),
  };
}

/** The methods that continue or cancel a background response by its reference. */
function backgroundMethods(server: Server): Pick<Adapter, "resume" | "cancel"> {
  return {
    resume: (reference, request, call) =>
      batchesOf(server, async () => resumeReply(server, await server.profile.codec.load(), reference, request, call)),
    cancel: async (reference, call) => {
      await cancelReply(server, await server.profile.codec.load(), reference, call);
    },
  };
}

/**
 * The batches of a reply, within the limit on its size. `open` is called by the first `next`. Iterators and no
 * generator: every generator between the network and the reader costs three promises for each batch.
 */
function batchesOf(server: Server, open: OpenBatches): AsyncIterable<readonly ModelEvent[]> {
  return { [Symbol.asyncIterator]: () => iteratorOf(server, open) };
}

type OpenBatches = () => Promise<AsyncGenerator<readonly ModelEvent[]>>;

function iteratorOf({ profile, options }: Server, open: OpenBatches): AsyncIterator<readonly ModelEvent[], undefined> {
  const limit = new ReplyLimit(options.limits?.reply ?? defaultLimits.reply, profile.provider);
  const done = { done: true, value: undefined } as const;
  let batches: AsyncGenerator<readonly ModelEvent[]> | null = null;
  let isOver = false;
  const close = async (): Promise<void> => {
    isOver = true;
    await batches?.return(undefined);
  };
  return {
    next: async () => {
      if (isOver) return done;
      try {
        batches ??= await open();
        const next = await batches.next();
        if (next.done === true) return done;
        const value = limit.accept(next.value);
        if (limit.isExceeded) await close();
        return { done: false, value };
      } catch (error) {
        isOver = true;
        throw error;
      }
    },
    return: async () => {
      await close();
      return done;
    },
  };
}

/** The timeouts with defaults for absent ones. */
export function resolveTimeouts(overrides: Partial<Timeouts> = {}, defaults = defaultTimeouts): Timeouts {
  return { ...defaults, ...Object.fromEntries(Object.entries(overrides).filter(([, limit]) => limit !== undefined)) };
}
