// An adapter over HTTP: a codec, a server, a key. Every provider of ours is this with other data.

import type {
  Adapter,
  AdapterCall,
  FetchLike,
  HttpAnswer,
  KeySource,
  Timeouts,
  TransportLimits,
} from "../engine/internal.ts";
import type { AdapterFailure, Failure, ModelEvent, ModelRequest } from "../model/internal.ts";
import type { Codec, EncodedRequest, Quirks, WireContext } from "../wire/internal.ts";

import {
  defaultLimits,
  defaultTimeouts,
  failureWithoutKey,
  findKey,
  post,
  requestIdOf,
  retryAfter,
  TransportFailure,
} from "../engine/internal.ts";
import { adapterFailure, assistant, EngineError, MisuseError, parseJson } from "../model/internal.ts";
import { noQuirks } from "../wire/internal.ts";
import { checkedBase } from "./base-url.ts";
import { readDotenv } from "./dotenv.ts";

/** Options of every provider adapter. */
export type ProviderOptions = {
  /**
   * The API key, or a function that returns it for each call. Default: an environment variable of the provider.
   * Never stored.
   */
  readonly apiKey?: KeySource;
  /** The base URL of the API. Default: that of the provider. */
  readonly baseURL?: string;
  /** Additional headers of every request. */
  readonly headers?: { readonly [name: string]: string };
  /** The fetch implementation. Default: the global `fetch`. */
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

/** What a provider is, as data. */
export type ProviderProfile = {
  readonly provider: string;
  readonly codec: Codec;
  readonly baseURL: string;
  readonly auth: KeyHeader;
  /** Names of variables that may hold the key. */
  readonly variables: readonly string[];
  readonly quirks?: Quirks;
  /** Works without a key: a server of one's own. */
  readonly keyless?: boolean;
  /** Behind every path. */
  readonly query?: string;
  readonly needsFinalize?: (request: ModelRequest) => boolean;
};

export type KeyHeader = "bearer" | "x-api-key" | "x-goog-api-key" | "api-key";

export function httpAdapter(profile: ProviderProfile, options: ProviderOptions = {}): Adapter {
  const { provider, codec, quirks = noQuirks, needsFinalize } = profile;
  const baseURL = checkedBase(provider, options.baseURL ?? profile.baseURL);
  const timeouts = checkedTimeouts(provider, options.timeouts ?? {});
  return {
    provider,
    ...(needsFinalize === undefined ? {} : { needsFinalize }),
    stream: (request, call) => ({
      [Symbol.asyncIterator]: () => ask({ profile, options, baseURL, timeouts, codec, quirks }, request, call),
    }),
  };
}

type Server = {
  readonly profile: ProviderProfile;
  readonly options: ProviderOptions;
  readonly baseURL: string;
  readonly timeouts: Timeouts;
  readonly codec: Codec;
  readonly quirks: Quirks;
};

async function* ask(server: Server, request: ModelRequest, call: AdapterCall): AsyncGenerator<readonly ModelEvent[]> {
  const { codec, profile, baseURL } = server;
  const context = contextOf(server, request, call);
  const encoded = codec.encode(request, context);
  const key = await keyOf(server, call);
  const started: ModelEvent = { type: "message_started", message: assistant("") };
  if (key !== null && !isSendable(key)) {
    const message = `the key for ${profile.provider} holds characters that no header can; was it copied whole?`;
    const details = { provider: profile.provider, message, retryable: false };
    yield [started, { type: "error", error: adapterFailure("authentication_failed", details) }];
    return;
  }
  const body = JSON.stringify(encoded.body);
  const allowed = call.beforeRequest?.();
  if (allowed instanceof Promise) await allowed;
  const answer = await post({
    url: `${baseURL}${encoded.path}${profile.query ?? ""}`,
    headers: headersOf(server, encoded, key),
    body,
    provider: profile.provider,
    signal: call.signal,
    fetch: server.options.fetch ?? ((url, init) => fetch(url, init)),
    timeouts: server.timeouts,
    limits: { ...defaultLimits, ...server.options.limits },
    clock: call.clock,
  });
  if (answer.type !== "stream") {
    yield* whole(server, answer, context, key, started, call.clock.now());
    return;
  }
  const decoder = codec.decoder(context);
  let ended = false;
  let begun = false;
  try {
    for await (const frames of answer.frames) {
      const events = withoutKeys(decoder.push(frames), key);
      if (events.length === 0) continue;
      yield begun || events[0]?.type === "message_started" ? events : [started, ...events];
      begun = true;
      if (ended || !events.some(isTerminal)) continue;
      ended = true;
      answer.finish();
    }
  } catch (error) {
    if (!(error instanceof TransportFailure)) throw error;
    if (ended) return;
    // A reply that was whole when the connection broke is a reply.
    const known = withoutKeys(decoder.end(), key);
    const failed: ModelEvent = { type: "error", error: failureWithoutKey(named(error.failure, answer.headers), key) };
    yield [...(begun ? [] : [started]), ...(known.some(({ type }) => type === "message_completed") ? known : [failed])];
    return;
  }
  const last = withoutKeys(decoder.end(), key);
  if (last.length > 0) yield begun ? last : [started, ...last];
}

/** What a server said that is no stream: a reply of its own, a refusal, or nothing. */
function* whole(
  { codec, profile }: Server,
  answer: Exclude<HttpAnswer, { readonly type: "stream" }>,
  context: WireContext,
  key: string | null,
  started: ModelEvent,
  now: number,
): Generator<readonly ModelEvent[]> {
  if (answer.type === "failed") {
    yield [started, { type: "error", error: failureWithoutKey(answer.failure, key) }];
    return;
  }
  const { text } = answer;
  const body = parseJson(text);
  const requestId = requestIdOf(answer.headers);
  if (answer.type === "refused") {
    const { status } = answer;
    const retryAfterMs = retryAfter(answer.headers, now);
    const error: AdapterFailure = codec.decodeError(
      { status, body: body?.value ?? text, requestId, retryAfterMs },
      context,
    );
    yield [started, { type: "error", error: failureWithoutKey(error, key) }];
    return;
  }
  if (body === null) {
    const message = `${profile.provider} answered something that is not JSON`;
    const error = adapterFailure("malformed_response", { provider: profile.provider, requestId, message, raw: text });
    yield [started, { type: "error", error: failureWithoutKey(error, key) }];
    return;
  }
  const events = withoutKeys(codec.decodeReply(body.value, context), key);
  yield events[0]?.type === "message_started" ? events : [started, ...events];
}

function contextOf({ profile, baseURL, quirks, codec }: Server, request: ModelRequest, call: AdapterCall): WireContext {
  const { model } = request;
  const name = typeof model === "string" ? model : (model?.id ?? "");
  if (name === "") {
    const message = `no model was named for ${profile.provider}; give the engine one: engine({ model: … })`;
    throw new MisuseError("invalid_argument", message, { path: ["model"] });
  }
  const route = { provider: profile.provider, endpoint: `${baseURL}#${codec.api}`, model: name };
  return { route, rawChunks: call.rawChunks, quirks };
}

async function keyOf({ profile, options }: Server, call: AdapterCall): Promise<string | null> {
  const { provider, variables, keyless = false } = profile;
  const dotenv = options.dotenv === undefined || options.dotenv === false ? null : readDotenv(options.dotenv);
  const wanted = { provider, call: call.apiKey, source: options.apiKey ?? null, variables, dotenv };
  if (!keyless) return findKey(wanted);
  return findKey(wanted).catch((error: unknown) => {
    if (error instanceof EngineError && error.reason === "missing_key") return null;
    throw error;
  });
}

function headersOf(
  { profile, options }: Server,
  encoded: EncodedRequest,
  key: string | null,
): { readonly [name: string]: string } {
  const ours = {
    "content-type": "application/json",
    accept: "text/event-stream",
    ...(key === null ? {} : keyHeader(profile.auth, key)),
  };
  return { ...ours, ...lowerCase(encoded.headers), ...lowerCase(options.headers ?? {}) };
}

/** The same name in other letters is the same header: said twice, a server would get both. */
export function lowerCase(headers: { readonly [name: string]: string }): { readonly [name: string]: string } {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

/** What a header can hold. */
function isSendable(key: string): boolean {
  return /^[\u0020-\u007e\u0080-\u00ff]*$/.test(key);
}

/** The clocks of a provider; what is not said is as it is by default. */
export function checkedTimeouts(provider: string, given: Partial<Timeouts>, usual = defaultTimeouts): Timeouts {
  const said = Object.fromEntries(Object.entries(given).filter(([, limit]) => limit !== undefined));
  for (const [name, limit] of Object.entries(said)) {
    if ((typeof limit === "number" && limit > 0) || (name === "total" && limit === null)) continue;
    const message = `${provider}: timeouts.${name} has to be a number of milliseconds above 0, and is ${String(limit)}`;
    throw new MisuseError("invalid_argument", message, { path: ["timeouts", name] });
  }
  return { ...usual, ...said };
}

export function keyHeader(auth: KeyHeader, key: string): { readonly [name: string]: string } {
  return auth === "bearer" ? { authorization: `Bearer ${key}` } : { [auth]: key };
}

/** A failure with the server's own name for the call. */
function named(failure: Failure, headers: Headers): Failure {
  const requestId = requestIdOf(headers);
  return "requestId" in failure && failure.requestId === null && requestId !== null
    ? { ...failure, requestId }
    : failure;
}

/** Servers repeat keys in their complaints, also in the middle of a stream. */
function withoutKeys(events: readonly ModelEvent[], key: string | null): readonly ModelEvent[] {
  if (!events.some(({ type }) => type === "error")) return events;
  return events.map((event) =>
    event.type === "error" ? { ...event, error: failureWithoutKey(event.error, key) } : event,
  );
}

function isTerminal({ type }: ModelEvent): boolean {
  return type === "message_completed" || type === "error";
}
